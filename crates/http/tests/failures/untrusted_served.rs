//! Failure: a node that does not know what was purged serves what may have been; or it asks the
//! origin for what it has just asked, and its load falls on the origin.

use crate::stage::{Seen, Stage, get};
use larder_http::{Step, UpstreamFailure};
use larder_units::Time;
use std::time::Duration;

const FRESH: [(&str, &str); 2] = [
    (
        "cache-control",
        "max-age=60, stale-while-revalidate=60, stale-if-error=600",
    ),
    ("etag", "\"a\""),
];

/// A stage with a response of ten seconds, and the time when it was requested.
fn stored() -> (Stage, Time) {
    let mut stage = Stage::new();
    let requested = stage.now.time;
    stage.ask(&get("/a"), 200, &FRESH, "body");
    stage.wait(10);
    (stage, requested)
}

#[test]
fn an_untrusted_response_is_served_without_validation() {
    let (mut stage, requested) = stored();
    assert!(stage.is_hit(&get("/a")) && stage.is_plain_hit("/a"));
    stage.cache.trust_since(requested + Duration::from_nanos(1));
    assert!(!stage.is_plain_hit("/a"));
    let seen = stage.ask(&get("/a"), 304, &FRESH, "");
    let asked = seen.asked.as_ref().unwrap();
    assert_eq!(asked["if-none-match"], "\"a\"");
    assert_eq!((seen.status, &seen.body[..]), (200, &b"body"[..]));
    let says_why = |seen: &Seen| {
        let said = seen.header("cache-status");
        assert!(said.contains("fwd=stale; fwd-status=304"), "{said}");
        said.ends_with("; detail=purges-unknown")
    };
    assert!(says_why(&seen));
    // It was confirmed after that time.
    assert!(stage.is_hit(&get("/a")) && stage.is_plain_hit("/a"));
    // All are trusted again.
    stage
        .cache
        .trust_since(stage.now.time + Duration::from_secs(1));
    assert!(!stage.is_hit(&get("/a")));
    stage.cache.trust_since(Time::ZERO);
    assert!(stage.is_hit(&get("/a")) && stage.is_plain_hit("/a"));
    // A stale one is validated in any case.
    stage.wait(3600);
    stage.cache.trust_since(stage.now.time);
    assert!(!says_why(&stage.ask(&get("/a"), 304, &FRESH, "")));
}

/// Neither while it is refreshed in the background, nor if the origin fails, nor if the client
/// accepts a stale one.
#[test]
fn an_untrusted_response_is_served_stale() {
    for seconds in [10, 70, 130] {
        let (mut stage, requested) = stored();
        stage.wait(seconds);
        stage.cache.trust_since(requested + Duration::from_secs(5));
        let lenient = get("/a").with("cache-control", "max-stale");
        for request in [get("/a"), lenient] {
            let Step::Forward(exchange) = stage.cache.on_request(&request.head(), stage.now) else {
                panic!("{seconds} s: it was served");
            };
            let answer = stage.fail(exchange, UpstreamFailure::Unreachable);
            assert_eq!(answer.status, 504, "{seconds} s");
        }
        stage.cache.trust_since(Time::ZERO);
        let answer = match stage.cache.on_request(&get("/a").head(), stage.now) {
            Step::Answer(answer) => answer,
            Step::Refresh(answer, exchange) => {
                stage.abandon(exchange);
                answer
            }
            Step::Forward(exchange) => stage.fail(exchange, UpstreamFailure::Unreachable),
            step => panic!("{seconds} s: {step:?}"),
        };
        assert_eq!(answer.status, 200, "{seconds} s");
    }
}

/// Failure: an origin is known to fail, and is not asked about a response that may have been
/// purged.
#[test]
fn an_untrusted_response_serves_for_an_origin_that_has_failed() {
    let (mut stage, _) = stored();
    stage.wait(130);
    let exchange = stage.open(&get("/a"));
    let answer = stage.fail(exchange, UpstreamFailure::Unreachable);
    assert_eq!(answer.status, 200);
    stage.cache.trust_since(stage.now.time);
    let exchange = stage.open(&get("/a"));
    let answer = stage.fail(exchange, UpstreamFailure::Unreachable);
    assert_eq!(answer.status, 504);
    stage.cache.trust_since(Time::ZERO);
    assert_eq!(stage.ask_store(&get("/a")).status, 200);
}

/// A request joins only those that were sent since.
#[test]
fn a_request_waits_for_an_untrusted_response() {
    let mut stage = Stage::new();
    let leader = stage.open(&get("/a"));
    stage.wait(10);
    let Step::Follow(follower) = stage.cache.on_request(&get("/a").head(), stage.now) else {
        panic!("it does not wait");
    };
    stage.cache.on_follower_left(follower);
    stage.cache.trust_since(stage.now.time);
    let second = stage.open(&get("/a"));
    stage.wait(1);
    // Later ones wait for the second.
    let Step::Follow(follower) = stage.cache.on_request(&get("/a").head(), stage.now) else {
        panic!("it does not wait");
    };
    stage.cache.on_follower_left(follower);
    stage.reply(second, 200, &FRESH, "new");
    stage.reply(leader, 200, &FRESH, "old");
    let seen = stage.ask_store(&get("/a"));
    assert_eq!(&seen.body[..], b"new");
    // The body of a response may take long, too.
    let mut stage = Stage::new();
    let exchange = stage.open(&get("/b"));
    let fill = stage.begin(exchange, &[FRESH[0], ("content-length", "4")]);
    stage.wait(10);
    let Step::Follow(follower) = stage.cache.on_request(&get("/b").head(), stage.now) else {
        panic!("it does not join");
    };
    stage.cache.on_follower_left(follower);
    stage.cache.trust_since(stage.now.time);
    let exchange = stage.open(&get("/b"));
    stage.abandon(exchange);
    stage.abort(fill);
}

/// A response of another cache of the operator is trusted no longer than there, and is no older.
#[test]
fn another_caches_response_counts_as_requested_now() {
    let from_peer = |stage: &mut Stage, target: &str, age: &str, running: u64| {
        stage.wait(running);
        let mut exchange = stage.open(&get(target));
        let mut head =
            crate::stage::headers(&[FRESH[0], ("age", age), ("via", "1.1 a"), ("via", "1.1 b")]);
        exchange.set_peer_response(&mut head);
        assert_eq!(head["via"], "1.1 a");
        let fields: Vec<(String, String)> = head
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect();
        let fields: Vec<(&str, &str)> = fields
            .iter()
            .map(|(name, value)| (&**name, &**value))
            .collect();
        stage.reply(exchange, 200, &fields, "body")
    };
    let mut stage = Stage::new();
    from_peer(&mut stage, "/a", "20", 1_000);
    let seen = stage.ask_store(&get("/a"));
    let age: u64 = seen.header("age").parse().unwrap();
    assert!((20..=21).contains(&age), "{age}");
    // It was requested 20 to 21 s ago.
    let ago = |stage: &Stage, seconds: u64| {
        Time::from_nanos(stage.now.time.nanos() - seconds * 1_000_000_000)
    };
    let since = ago(&stage, 19);
    stage.cache.trust_since(since);
    assert!(!stage.is_hit(&get("/a")));
    let since = ago(&stage, 21);
    stage.cache.trust_since(since);
    assert!(stage.is_hit(&get("/a")));
    stage.wait(38);
    stage.cache.trust_since(Time::ZERO);
    assert!(stage.is_hit(&get("/a")), "fresh for 60 s");
    stage.wait(3);
    assert!(!stage.is_plain_hit("/a"), "fresh for more than 60 s");
    // A cache that is younger than the response.
    let mut stage = Stage::new();
    from_peer(&mut stage, "/b", "50", 1);
    let seen = stage.ask_store(&get("/b"));
    let age: u64 = seen.header("age").parse().unwrap();
    assert!((50..=52).contains(&age), "{age}");
    stage.wait(11);
    assert!(!stage.is_hit(&get("/b")));
    for (target, odd) in [("/c", "-1"), ("/d", "nonsense"), ("/e", "")] {
        let seen = from_peer(&mut stage, target, odd, 100);
        assert_eq!(seen.status, 200);
    }
}

/// A response that is stale at another cache, by a soft purge or a rule, is fresh here; or one that
/// a rule keeps longer than its origin says begins anew at each cache.
#[test]
fn another_caches_response_is_fresh_again() {
    let from_peer = |status: &str| {
        let mut stage = Stage::new();
        stage.wait(1_000);
        let mut exchange = stage.open(&get("/a"));
        let mut head = crate::stage::headers(&[
            ("cache-control", "max-age=3600"),
            ("age", "100"),
            ("via", "1.1 larder"),
            ("cache-status", status),
        ]);
        exchange.set_peer_response(&mut head);
        let fields: Vec<(String, String)> = head
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect();
        let fields: Vec<(&str, &str)> = fields
            .iter()
            .map(|(name, value)| (&**name, &**value))
            .collect();
        stage.reply(exchange, 200, &fields, "body");
        stage
    };
    // Soft-purged there, and served while it is validated.
    let mut stage = from_peer("larder; hit; ttl=-100");
    assert!(!stage.is_plain_hit("/a"));
    // A rule gives it ten seconds more, or an hour more than its origin.
    let mut stage = from_peer("up; hit; ttl=9, larder; hit; ttl=10");
    assert!(stage.is_plain_hit("/a"));
    stage.wait(9);
    assert!(stage.is_plain_hit("/a"));
    stage.wait(2);
    assert!(!stage.is_plain_hit("/a"));
    let mut stage = from_peer("larder; hit; ttl=7000");
    stage.wait(6_990);
    assert!(stage.is_plain_hit("/a"));
    // It has it from the origin just now.
    let mut stage = from_peer("larder; fwd=uri-miss; fwd-status=200; stored");
    stage.wait(3_490);
    assert!(stage.is_plain_hit("/a"));
    stage.wait(20);
    assert!(!stage.is_plain_hit("/a"));
}
