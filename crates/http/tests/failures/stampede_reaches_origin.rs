//! Failure: a hundred clients request one object, and the origin gets a hundred requests; or
//! ninety-nine clients wait for a response that they may not share.

use crate::stage::{Fields, Request, Stage, get, headers};
use http::{StatusCode, Version};
use larder_http::{
    Cache, Completion, Exchange, Follower, JoinResult, Reader, Refusal, Reply, ResponseHead, Step, UpstreamFailure,
};
use larder_units::Streams;
use std::task::{Context, Poll, Waker};

const PAGE: (&str, &str) = ("cache-control", "max-age=60");

fn follow(stage: &mut Stage, request: &Request) -> Follower {
    match stage.cache.on_request(&request.head(), stage.now) {
        Step::Follow(follower) => follower,
        step => panic!("{step:?}"),
    }
}

fn join_streaming(follower: &mut Follower, request: &Request) -> Poll<JoinResult> {
    follower.poll_join(&request.headers, &mut Context::from_waker(Waker::noop()))
}

fn ready(follower: &mut Follower, request: &Request) -> JoinResult {
    match join_streaming(follower, request) {
        Poll::Ready(boarding) => boarding,
        Poll::Pending => panic!("it waits"),
    }
}

fn read(body: &mut Reader) -> Option<Vec<u8>> {
    match body.poll_piece(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(piece) => piece.map(|piece| piece.unwrap().to_vec()),
        Poll::Pending => panic!("it waits"),
    }
}

fn head(status: u16, fields: Fields<'_>) -> ResponseHead {
    ResponseHead { status: StatusCode::from_u16(status).unwrap(), version: Version::HTTP_11, headers: headers(fields) }
}

/// Returns true if a request is forwarded that began to wait at this moment and got no answer.
fn is_forwarded(stage: &mut Stage, request: &Request) -> bool {
    let mut other = Stage::new();
    other.now = stage.now;
    let _leader = other.open(&get("/"));
    let joined = follow(&mut other, &get("/")).joined();
    matches!(stage.cache.on_released(&request.head(), joined, stage.now), Step::Forward(_))
}

#[test]
fn followers_stream_what_the_leader_gets() {
    let mut stage = Stage::new();
    let leader = stage.open(&get("/"));
    let part = get("/").with("range", "bytes=3-7");
    let known = get("/").with("if-none-match", "\"1\"");
    let (mut whole, mut of_part, mut of_known) =
        (follow(&mut stage, &get("/")), follow(&mut stage, &part), follow(&mut stage, &known));
    assert!(join_streaming(&mut whole, &get("/")).is_pending());
    let fields: Fields<'_> = &[PAGE, ("etag", "\"1\""), ("content-length", "10"), ("date", crate::stage::THEN_TEXT)];
    let Reply::Relay { fill: Some(mut fill), .. } = stage.cache.on_response(leader, head(200, fields), stage.now)
    else {
        panic!()
    };
    fill.push(b"01234");
    let JoinResult::Stream { status, headers, mut body } = ready(&mut whole, &get("/")) else { panic!() };
    assert_eq!((status.as_u16(), &headers["content-length"]), (200, &"10".parse().unwrap()));
    assert_eq!(headers["cache-status"], "larder; fwd=uri-miss; fwd-status=200; collapsed");
    assert_eq!(read(&mut body).unwrap(), b"01234");
    let JoinResult::Stream { status, headers, body: mut range } = ready(&mut of_part, &part) else { panic!() };
    assert_eq!((status.as_u16(), &headers["content-range"]), (206, &"bytes 3-7/10".parse().unwrap()));
    assert_eq!(read(&mut range).unwrap(), b"34");
    let JoinResult::Answer(answer) = ready(&mut of_known, &known) else { panic!() };
    assert_eq!(answer.status, 304);
    // A request that comes while the body is in flight joins as well.
    let mut late = follow(&mut stage, &get("/"));
    fill.push(b"56789");
    assert_eq!((read(&mut range).unwrap(), read(&mut range)), (b"567".to_vec(), None));
    assert_eq!(stage.cache.on_complete(fill, stage.now), Completion::Stored);
    assert_eq!((read(&mut body).unwrap(), read(&mut body)), (b"56789".to_vec(), None));
    assert!(matches!(ready(&mut late, &get("/")), JoinResult::Again));
    assert_eq!(stage.ask_store(&get("/")).body, b"0123456789");
    let counters = stage.cache.counters();
    assert_eq!((counters.collapsed, counters.forwarded.iter().sum::<u64>()), (4, 1));
}

/// Released by the head, and remembered: the next ones do not wait at all, until it turns
/// cacheable.
#[test]
fn what_may_not_be_shared_keeps_nobody_waiting() {
    for fields in [
        &[("cache-control", "private, max-age=60"), ("content-length", "1")][..],
        &[("cache-control", "no-store"), ("content-length", "1")],
        &[("cache-control", "no-cache"), ("etag", "\"1\""), ("content-length", "1")],
        &[PAGE, ("vary", "*"), ("content-length", "1")],
        &[PAGE, ("set-cookie", "a=1"), ("content-length", "1")],
    ] {
        let mut stage = Stage::new();
        let leader = stage.open(&get("/"));
        let mut follower = follow(&mut stage, &get("/"));
        let reply = stage.cache.on_response(leader, head(200, fields), stage.now);
        assert!(matches!(ready(&mut follower, &get("/")), JoinResult::Again), "{fields:?}");
        for _ in 0..3 {
            assert!(is_forwarded(&mut stage, &get("/")), "{fields:?}");
        }
        drop(reply);
        stage.wait(60);
        stage.ask(&get("/"), 200, &[PAGE], "cacheable now");
        stage.wait(60);
        let _leader = stage.open(&get("/"));
        follow(&mut stage, &get("/"));
    }
}

#[test]
fn other_variants_and_other_wishes_go_alone() {
    let mut stage = Stage::new();
    let german = get("/").with("accept-language", "de");
    let leader = stage.open(&get("/"));
    let mut follower = follow(&mut stage, &german);
    assert!(is_forwarded(&mut stage, &get("/").with("cache-control", "no-store")));
    assert!(!is_forwarded(&mut stage, &get("/").with("cache-control", "only-if-cached")));
    assert!(is_forwarded(&mut stage, &crate::stage::request(http::Method::HEAD, "/")));
    let fields: Fields<'_> = &[PAGE, ("vary", "accept-language"), ("content-length", "1")];
    let _reply = stage.cache.on_response(leader, head(200, fields), stage.now);
    assert!(matches!(ready(&mut follower, &german), JoinResult::Again));
    assert!(is_forwarded(&mut stage, &german), "it does not wait for what is not its variant");
    follow(&mut stage, &get("/"));
}

/// A condition or a range of the client may bring a 304 or a part: nobody waits for that.
#[test]
fn requests_for_less_lead_nobody() {
    let mut stage = Stage::new();
    let _part = stage.open(&get("/").with("range", "bytes=0-0"));
    assert!(is_forwarded(&mut stage, &get("/").with("if-none-match", "\"1\"")));
    let _leader = stage.open(&get("/"));
    follow(&mut stage, &get("/"));
}

#[test]
fn an_origin_in_trouble_is_asked_once() {
    let mut stage = Stage::new();
    let leader = stage.open(&get("/"));
    let mut follower = follow(&mut stage, &get("/"));
    let fields: Fields<'_> = &[("retry-after", "5"), ("set-cookie", "secret=1"), ("content-length", "0")];
    stage.cache.on_response(leader, head(503, fields), stage.now);
    let JoinResult::Answer(answer) = ready(&mut follower, &get("/")) else { panic!() };
    assert_eq!((answer.status.as_u16(), &answer.headers["retry-after"]), (503, &"5".parse().unwrap()));
    assert!(!answer.headers.contains_key("set-cookie"), "the leader's alone");
    let leader = stage.open(&get("/"));
    let mut follower = follow(&mut stage, &get("/"));
    stage.cache.on_failure(&leader, UpstreamFailure::TimedOut, stage.now);
    let JoinResult::Answer(answer) = ready(&mut follower, &get("/")) else { panic!() };
    assert_eq!(answer.status, 504);
    // A 500 may be one request's own.
    let leader = stage.open(&get("/"));
    let mut follower = follow(&mut stage, &get("/"));
    stage.cache.on_response(leader, head(500, &[("content-length", "0")]), stage.now);
    assert!(matches!(ready(&mut follower, &get("/")), JoinResult::Again));
}

#[test]
fn a_leader_that_is_given_up_strands_nobody() {
    let mut stage = Stage::new();
    let leader = stage.open(&get("/"));
    let mut follower = follow(&mut stage, &get("/"));
    drop(leader);
    assert!(matches!(ready(&mut follower, &get("/")), JoinResult::Again));
    let leader = stage.open(&get("/"));
    let mut follower = follow(&mut stage, &get("/"));
    let fields: Fields<'_> = &[PAGE, ("content-length", "10")];
    let reply = stage.cache.on_response(leader, head(200, fields), stage.now);
    let JoinResult::Stream { mut body, .. } = ready(&mut follower, &get("/")) else { panic!() };
    drop(reply);
    let broken = body.poll_piece(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(broken, Poll::Ready(Some(Err(larder_http::BrokenOff)))), "{broken:?}");
}

/// A request after a change does not get a response that was requested before it.
#[test]
fn an_invalidation_parts_before_from_after() {
    let mut stage = Stage::new();
    let _leader = stage.open(&get("/"));
    stage.ask(&crate::stage::request(http::Method::POST, "/"), 200, &[], "changed");
    let _other = stage.open(&get("/"));
    follow(&mut stage, &get("/"));
}

/// What the policy refuses is fetched once all the same for those who wait for it together.
#[test]
fn what_is_not_admitted_is_shared_all_the_same() {
    let mut stage = Stage::with(40_000, "filter(theta=2)+fifo");
    for number in 0..30 {
        stage.ask(&get(&format!("/{number}")), 200, &[PAGE], &"x".repeat(2000));
    }
    let leader = stage.open(&get("/"));
    let mut follower = follow(&mut stage, &get("/"));
    assert!(join_streaming(&mut follower, &get("/")).is_pending());
    let fields: Fields<'_> = &[PAGE, ("content-length", "1")];
    let Reply::Relay { fill: Some(mut fill), headers, .. } =
        stage.cache.on_response(leader, head(200, fields), stage.now)
    else {
        panic!()
    };
    assert_eq!(headers["cache-status"], "larder; fwd=uri-miss; fwd-status=200");
    let JoinResult::Stream { mut body, .. } = ready(&mut follower, &get("/")) else { panic!() };
    fill.push(b"x");
    assert_eq!(stage.cache.on_complete(fill, stage.now), Completion::Refused(Refusal::NotAdmitted));
    assert_eq!(stage.cache.filling().bytes(), 1, "who reads it slowly holds it");
    assert_eq!((read(&mut body).unwrap(), read(&mut body)), (b"x".to_vec(), None));
    drop(body);
    assert_eq!(stage.cache.filling().bytes(), 0);
}

/// Failure: a client that joins a slow body a minute later gets the freshness of its head, and
/// caches downstream begin to count again.
#[test]
fn who_boards_late_gets_nothing_stale_and_the_true_age() {
    for control in ["max-age=10", "max-age=10, must-revalidate", "s-maxage=10"] {
        let mut stage = Stage::new();
        let leader = stage.open(&get("/"));
        let fields: Fields<'_> =
            &[("cache-control", control), ("content-length", "10"), ("date", crate::stage::THEN_TEXT)];
        let _reply = stage.cache.on_response(leader, head(200, fields), stage.now);
        stage.wait(9);
        let mut late = follow(&mut stage, &get("/"));
        let JoinResult::Stream { headers, .. } = ready(&mut late, &get("/")) else { panic!("{control}") };
        assert_eq!(headers["age"], "9", "{control}");
        assert!(is_forwarded(&mut stage, &get("/").with("cache-control", "max-age=5")), "{control}");
        stage.wait(1);
        assert!(is_forwarded(&mut stage, &get("/")), "{control}");
    }
}

/// A cache of our name, and not the others.
fn cache_number(number: u8) -> Stage {
    let mut config = crate::stage::config(1 << 20, "lru");
    config.hash_key = [number; 16];
    Stage { cache: Cache::new(&config, &Streams::new(1)).unwrap(), ..Stage::new() }
}

/// The same request as the next cache gets it.
fn passed(exchange: &Exchange) -> Request {
    Request { headers: exchange.upstream_headers(), ..get("/") }
}

/// Failure: fifty caches request one page from one cache, and the origin gets fifty requests.
#[test]
fn requests_of_other_caches_of_our_name_follow_each_other() {
    let mut stage = cache_number(0);
    // A client of its own has asked first. It does not wait for them, nor they for it.
    let _leader = stage.open(&get("/"));
    let [first, second] = [1, 2].map(|number| passed(&cache_number(number).open(&get("/"))));
    let foremost = stage.open(&first);
    let _followers = [follow(&mut stage, &second), follow(&mut stage, &get("/").with("via", "1.1 larder"))];
    let mut client = follow(&mut stage, &get("/"));
    let _reply = stage.cache.on_response(foremost, head(200, &[PAGE, ("content-length", "1")]), stage.now);
    assert!(matches!(ready(&mut client, &get("/")), JoinResult::Stream { .. }));
    // What is coming can be shared with everybody.
    let _further = follow(&mut stage, &second.with("cdn-loop", "larder").with("cdn-loop", "larder"));
}

/// Failure: a request that came back in a loop waits for itself, or two caches that are each
/// other's origin, in any chain, wait for each other.
#[test]
fn nobody_waits_in_a_circle() {
    for caches in 2..5 {
        let mut row: Vec<Stage> = (0..caches).map(cache_number).collect();
        let own: Vec<_> = row.iter().map(|stage| stage.cache.cdn_loop()).collect();
        let mut under_way: Vec<_> = row.iter_mut().map(|stage| stage.open(&get("/"))).collect();
        let mut asked: Vec<Request> = under_way.iter().map(|exchange| passed(exchange)).collect();
        for round in 0..caches {
            // Each gets what the one before it has sent.
            asked.rotate_right(1);
            for ((stage, own), request) in row.iter_mut().zip(&own).zip(&mut asked) {
                let is_back = own.goes_round(&request.headers);
                assert_eq!(is_back, round + 1 == caches, "round {round} of {caches}");
                if !is_back {
                    let exchange = stage.open(request);
                    *request = passed(&exchange);
                    under_way.push(exchange);
                }
            }
        }
    }
}

/// Failure: a reload is answered with a response that was requested before it (RFC 9111 §5.2.1.4).
#[test]
fn a_reload_does_not_board_what_flew_before_it() {
    for wish in [("cache-control", "no-cache"), ("pragma", "no-cache")] {
        let mut stage = Stage::new();
        let leader = stage.open(&get("/"));
        assert!(is_forwarded(&mut stage, &get("/").with(wish.0, wish.1)));
        let picky = get("/").with("cache-control", "min-fresh=61");
        let mut waits = follow(&mut stage, &picky);
        let _reply = stage.cache.on_response(leader, head(200, &[PAGE, ("content-length", "1")]), stage.now);
        assert!(matches!(ready(&mut waits, &picky), JoinResult::Again));
        assert!(is_forwarded(&mut stage, &get("/").with(wish.0, wish.1)));
    }
}

/// Failure: reloads wait for a request that does not carry out a reload, or each of them goes to
/// the origin.
#[test]
fn a_reload_follows_only_what_is_as_much_of_a_reload() {
    let plain = get("/");
    let aged = get("/").with("cache-control", "max-age=0");
    let forced = get("/").with("cache-control", "no-cache");
    for (leads, comes, follows) in [
        (&plain, &aged, false),
        (&plain, &forced, false),
        (&aged, &forced, false),
        (&aged, &plain, true),
        (&aged, &aged, true),
        (&forced, &plain, true),
        (&forced, &aged, true),
        (&forced, &forced, true),
    ] {
        let mut stage = Stage::new();
        let leader = stage.open(leads);
        let step = stage.cache.on_request(&comes.head(), stage.now);
        assert_eq!(matches!(step, Step::Follow(_)), follows, "{:?} {:?}", leads.headers, comes.headers);
        if !follows {
            // It has taken the lead: what comes now follows it.
            let mut waits = follow(&mut stage, comes);
            drop(leader);
            assert!(join_streaming(&mut waits, comes).is_pending());
        }
    }
}

/// Failure: a failed reload denies a page to clients that accept it stale.
#[test]
fn a_request_that_follows_a_failed_reload_asks_for_itself() {
    let mut stage = Stage::new();
    stage.ask(&get("/"), 200, &[("cache-control", "max-age=1, stale-if-error=60")], "x");
    stage.wait(2);
    let forced = get("/").with("cache-control", "no-cache");
    let leader = stage.open(&forced);
    let (mut plain, mut same) = (follow(&mut stage, &get("/")), follow(&mut stage, &forced));
    stage.cache.on_failure(&leader, UpstreamFailure::Unreachable, stage.now);
    assert!(matches!(ready(&mut plain, &get("/")), JoinResult::Again));
    let JoinResult::Answer(answer) = ready(&mut same, &forced) else { panic!() };
    assert_eq!(answer.status, 502);
    let alone = stage.open(&get("/"));
    assert_eq!(stage.cache.on_failure(&alone, UpstreamFailure::Unreachable, stage.now).status, 200);
}
