//! Failure: a client gets an outdated response without any sign of it.

use crate::stage::{Stage, TEN_DAYS_BEFORE, THEN_TEXT, get};
use larder_http::{Completion, JoinResult, Refusal, Step, UpstreamFailure};

const PAGE: (&str, &str) = ("cache-control", "max-age=60");

#[test]
fn fresh_for_its_lifetime_then_asked_again() {
    let mut stage = Stage::new();
    let first = stage.ask(&get("/"), 200, &[PAGE, ("etag", "\"1\"")], "one");
    assert_eq!(
        first.header("cache-status"),
        "larder; fwd=uri-miss; fwd-status=200; stored"
    );
    stage.wait(59);
    let hit = stage.ask_store(&get("/"));
    assert_eq!(
        (hit.status, &hit.body[..], hit.header("age")),
        (200, &b"one"[..], "59")
    );
    assert_eq!(hit.header("cache-status"), "larder; hit; ttl=1");
    stage.wait(1);
    let second = stage.ask(&get("/"), 200, &[PAGE, ("etag", "\"2\"")], "two");
    assert_eq!(second.asked.as_ref().unwrap()["if-none-match"], "\"1\"");
    assert_eq!(
        second.header("cache-status"),
        "larder; fwd=stale; fwd-status=200; stored"
    );
    assert_eq!(stage.ask_store(&get("/")).body, b"two");
}

#[test]
fn age_grows_within_a_second_of_hits_and_across_seconds() {
    let mut stage = Stage::new();
    stage.ask(&get("/"), 200, &[PAGE, ("age", "20")], "x");
    for (wait, age, ttl) in [
        (0, "20", "ttl=40"),
        (0, "20", "ttl=40"),
        (1, "21", "ttl=39"),
        (38, "59", "ttl=1"),
    ] {
        stage.wait(wait);
        let hit = stage.ask_store(&get("/"));
        assert_eq!(hit.header("age"), age);
        assert!(hit.header("cache-status").ends_with(ttl), "{hit:?}");
    }
    stage.wait(1);
    assert!(!stage.is_hit(&get("/")));
}

/// RFC 9111 §4.2.3: ages of caches before us, and of the way here, count.
#[test]
fn what_was_old_on_arrival_is_not_fresh() {
    let mut stage = Stage::new();
    stage.ask(&get("/a"), 200, &[PAGE, ("age", "60")], "x");
    assert!(!stage.is_hit(&get("/a")));
    stage.ask(
        &get("/b"),
        200,
        &[
            PAGE,
            ("date", "Sun, 06 Nov 1994 08:48:37 GMT"),
            ("via", "1.0 old"),
        ],
        "x",
    );
    assert!(!stage.is_hit(&get("/b")));
    let exchange = stage.open(&get("/c"));
    stage.wait(60);
    stage.reply(exchange, 200, &[PAGE], "x");
    assert!(
        !stage.is_hit(&get("/c")),
        "a minute under way is a minute of age"
    );
}

/// The wall clock may be set back: ages are measured on the monotonic one.
#[test]
fn a_step_of_the_wall_clock_does_not_freeze_ages() {
    let mut stage = Stage::new();
    stage.ask(&get("/"), 200, &[PAGE], "x");
    stage.wait(60);
    stage.now.unix_seconds -= 100_000;
    assert!(!stage.is_hit(&get("/")));
}

#[test]
fn no_cache_and_must_revalidate_mean_it() {
    let mut stage = Stage::new();
    stage.ask(
        &get("/n"),
        200,
        &[("cache-control", "max-age=60, no-cache"), ("etag", "\"1\"")],
        "x",
    );
    assert!(!stage.is_hit(&get("/n")));
    stage.ask(
        &get("/f"),
        200,
        &[
            ("cache-control", "max-age=60, no-cache=\"x\""),
            ("etag", "\"1\""),
        ],
        "x",
    );
    assert!(!stage.is_hit(&get("/f")));
    for (number, strict) in ["must-revalidate", "proxy-revalidate", "s-maxage=60"]
        .iter()
        .enumerate()
    {
        let request = get(&format!("/{number}"));
        stage.ask(
            &request,
            200,
            &[("cache-control", &format!("max-age=60, {strict}"))],
            "x",
        );
        assert!(stage.is_hit(&request));
    }
    stage.ask(&get("/lenient"), 200, &[PAGE], "x");
    stage.wait(70);
    for number in 0..3 {
        assert!(!stage.is_hit(&get(&format!("/{number}")).with("cache-control", "max-stale=100")));
    }
    let lenient = stage.ask_store(&get("/lenient").with("cache-control", "max-stale=10"));
    assert_eq!(lenient.header("cache-status"), "larder; hit; ttl=-10");
    assert!(!stage.is_hit(&get("/lenient").with("cache-control", "max-stale=9")));
    assert!(!stage.is_hit(&get("/lenient")));
}

#[test]
fn clients_can_insist() {
    let mut stage = Stage::new();
    stage.ask(&get("/"), 200, &[PAGE, ("etag", "\"1\"")], "x");
    stage.wait(10);
    for (name, value) in [
        ("cache-control", "no-cache"),
        ("cache-control", "max-age=9"),
        ("cache-control", "max-age=0"),
        ("cache-control", "min-fresh=51"),
        ("pragma", "no-cache"),
    ] {
        let seen = stage.ask(&get("/").with(name, value), 503, &[], "");
        assert!(
            seen.header("cache-status")
                .starts_with("larder; fwd=request; fwd-status=503"),
            "{value}: {seen:?}"
        );
    }
    assert!(stage.is_hit(&get("/").with("cache-control", "max-age=10")));
    assert!(
        stage.is_hit(
            &get("/")
                .with("cache-control", "max-age=10")
                .with("pragma", "no-cache")
        )
    );
}

/// RFC 9111 §4.2.2: a tenth of the time since the last change, and a day at most.
#[test]
fn heuristics_are_bounded() {
    let mut stage = Stage::new();
    stage.ask(
        &get("/days"),
        200,
        &[("last-modified", TEN_DAYS_BEFORE), ("date", THEN_TEXT)],
        "x",
    );
    stage.ask(
        &get("/years"),
        200,
        &[
            ("last-modified", "Sun, 06 Nov 1983 08:49:37 GMT"),
            ("date", THEN_TEXT),
        ],
        "x",
    );
    stage.ask(
        &get("/status"),
        302,
        &[("last-modified", TEN_DAYS_BEFORE)],
        "x",
    );
    stage.ask(&get("/silent"), 200, &[], "x");
    assert!(!stage.is_hit(&get("/status")) && !stage.is_hit(&get("/silent")));
    stage.wait(86_399);
    assert!(stage.is_hit(&get("/days")) && stage.is_hit(&get("/years")));
    stage.wait(1);
    assert!(!stage.is_hit(&get("/days")) && !stage.is_hit(&get("/years")));
}

#[test]
fn only_if_cached_asks_nobody() {
    let mut stage = Stage::new();
    let request = get("/").with("cache-control", "only-if-cached");
    assert_eq!(stage.ask_store(&request).status, 504);
    stage.ask(&get("/"), 200, &[PAGE, ("etag", "\"1\"")], "x");
    assert_eq!(stage.ask_store(&request).status, 200);
    stage.wait(60);
    assert_eq!(stage.ask_store(&request).status, 504);
    assert_eq!(stage.cache.counters().unsatisfied, 2);
}

/// Nor where the store may not answer: a condition that only the origin can judge, a body.
#[test]
fn only_if_cached_beside_the_cache_is_no_answer() {
    let mut stage = Stage::new();
    stage.ask(&get("/"), 200, &[PAGE, ("etag", "\"1\"")], "x");
    let only = get("/").with("cache-control", "only-if-cached");
    assert_eq!(stage.ask_store(&only).status, 200);
    assert_eq!(
        stage
            .ask_store(&only.clone().with("if-match", "\"2\""))
            .status,
        504
    );
    assert_eq!(
        stage
            .ask_store(&crate::stage::Request {
                has_body: true,
                ..only.clone()
            })
            .status,
        504
    );
    assert_eq!(stage.cache.counters().unsatisfied, 2);
    // What changes something is not for the cache to hold back.
    let post = crate::stage::Request {
        method: http::Method::POST,
        ..only
    };
    assert_eq!(stage.ask(&post, 200, &[], "done").body, b"done");
}

#[test]
fn a_dead_origin_is_an_error_not_an_old_page() {
    let mut stage = Stage::new();
    let page = ("cache-control", "max-age=60, stale-if-error=0");
    stage.ask(&get("/"), 200, &[page, ("etag", "\"1\"")], "x");
    stage.ask(
        &get("/m"),
        200,
        &[
            ("cache-control", "max-age=1, must-revalidate"),
            ("etag", "\"1\""),
        ],
        "x",
    );
    stage.wait(60);
    for (target, failure, status) in [
        ("/", UpstreamFailure::Unreachable, 502),
        ("/", UpstreamFailure::Malformed, 502),
        ("/", UpstreamFailure::TimedOut, 504),
        ("/m", UpstreamFailure::Unreachable, 504),
        ("/m", UpstreamFailure::Circle, 508),
        ("/m", UpstreamFailure::Upload, 400),
    ] {
        let exchange = stage.open(&get(target));
        let answer = stage.fail(exchange, failure);
        assert_eq!(answer.status, status);
        assert_eq!(answer.headers["cache-status"], "larder; fwd=stale");
        assert_eq!(answer.headers["cache-control"], "no-store");
        assert_eq!(
            answer.headers["content-length"],
            answer.body.len().to_string()
        );
    }
    assert_eq!(
        stage.cache.counters().upstream_failures,
        5,
        "a broken upload is none"
    );
    // It comes back and confirms what is still stored.
    let seen = stage.ask(&get("/"), 304, &[PAGE], "");
    assert_eq!((seen.status, &seen.body[..]), (200, &b"x"[..]));
}

/// What is stored does not outlive the news that it has changed, though the news itself may not be
/// stored.
#[test]
fn unstorable_news_removes_what_it_replaces() {
    let mut stage = Stage::new();
    stage.ask(&get("/"), 200, &[PAGE, ("etag", "\"1\"")], "x");
    let reload = get("/").with("cache-control", "no-cache");
    assert_eq!(
        stage
            .ask(&reload, 200, &[("cache-control", "no-store")], "y")
            .body,
        b"y"
    );
    assert!(!stage.is_hit(&get("/")));
    // But the word that a client may not ask, or that the origin is ill, says nothing about it.
    stage.ask(&get("/"), 200, &[PAGE, ("etag", "\"1\"")], "x");
    for status in [401, 403, 429, 500, 503] {
        stage.ask(&reload, status, &[], "");
        assert!(stage.is_hit(&get("/")), "{status}");
    }
}

/// A reload shows the new page, which is not stored; the request after it must not go back in time.
#[test]
fn an_unstored_reload_removes_the_old_page() {
    let chunked = ("transfer-encoding", "chunked");
    let news = "n".repeat(4000);
    let cases: [(&str, u16, crate::stage::Fields<'_>, bool); 6] = [
        ("too large", 200, &[PAGE], false),
        ("found too large at its end", 200, &[PAGE, chunked], false),
        ("gone", 404, &[("cache-control", "no-store")], false),
        (
            "the origin's trouble",
            503,
            &[("cache-control", "no-store")],
            true,
        ),
        ("a part", 206, &[PAGE], true),
        ("a 304 for the client", 304, &[PAGE], true),
    ];
    for (case, status, fields, stays) in cases {
        let mut stage = Stage::with(16_000, "lru");
        stage.ask(&get("/"), 200, &[PAGE], "old");
        let reload = get("/").with("cache-control", "no-cache");
        let seen = stage.ask(&reload, status, fields, &news);
        assert_eq!(seen.status, status);
        assert_eq!(stage.is_hit(&get("/")), stays, "{case}");
    }
}

/// The same where the policy refuses the new one.
#[test]
fn an_unadmitted_reload_removes_the_old_page() {
    let mut stage = Stage::with(12_000, "size(max=2000)+lru");
    for number in 0..40 {
        stage.ask(&get(&format!("/{number}")), 200, &[PAGE], &"f".repeat(900));
    }
    stage.ask(&get("/"), 200, &[PAGE], "old");
    let reload = get("/").with("cache-control", "no-cache");
    let seen = stage.ask(&reload, 200, &[PAGE], &"n".repeat(2500));
    assert!(
        seen.header("cache-status").ends_with("detail=not-admitted"),
        "{seen:?}"
    );
    assert!(!stage.is_hit(&get("/")), "the old one came back");
}

/// Two requests are in flight, and the earlier one's response ends last: the store keeps the later.
#[test]
fn a_response_does_not_replace_one_that_was_requested_later() {
    let mut stage = Stage::new();
    let plain = stage.open(&get("/"));
    stage.wait(1);
    let reload = stage.open(&get("/").with("cache-control", "no-cache"));
    assert_eq!(
        stage.reply(reload, 200, &[PAGE], "new").completion,
        Some(Completion::Stored)
    );
    let late = stage.reply(plain, 200, &[PAGE], "old");
    assert_eq!(
        late.completion,
        Some(Completion::Refused(Refusal::Invalidated))
    );
    assert_eq!(stage.ask_store(&get("/")).body, b"new");
}

/// The same for a validation: its 304 confirms what a later response has replaced.
#[test]
fn a_late_confirmation_does_not_bring_the_old_page_back() {
    let mut stage = Stage::new();
    stage.ask(&get("/"), 200, &[PAGE, ("etag", "\"1\"")], "old");
    stage.wait(60);
    let validation = stage.open(&get("/"));
    stage.wait(1);
    let reload = stage.open(&get("/").with("cache-control", "no-cache"));
    stage.reply(reload, 200, &[PAGE, ("etag", "\"2\"")], "new");
    stage.reply(validation, 304, &[PAGE, ("etag", "\"1\"")], "");
    assert_eq!(stage.ask_store(&get("/")).body, b"new");
}

/// A reload follows another one, which brings nothing to store. A plain response that was requested
/// before both has come meanwhile, and is none for a reload.
#[test]
fn a_released_reload_is_not_answered_with_an_earlier_request() {
    let mut stage = Stage::new();
    let reload = get("/").with("cache-control", "no-cache");
    let plain = stage.open(&get("/"));
    stage.wait(1);
    let leader = stage.open(&reload);
    stage.wait(1);
    let Step::Follow(follower) = stage.cache.on_request(&reload.head(), stage.now) else {
        panic!()
    };
    stage.wait(1);
    assert_eq!(
        stage.reply(plain, 200, &[PAGE], "old").completion,
        Some(Completion::Stored)
    );
    stage.abandon(leader);
    assert!(stage.is_woken(follower.id()));
    let JoinResult::Again(joined) = stage.cache.join(follower, &reload.headers) else {
        panic!()
    };
    let step = stage.cache.on_released(&reload.head(), joined, stage.now);
    assert!(matches!(step, Step::Forward(_)), "{step:?}");
}
