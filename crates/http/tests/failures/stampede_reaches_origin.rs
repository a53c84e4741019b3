//! Failure: a hundred clients request one object, and the origin gets a hundred requests; or
//! ninety-nine clients wait for a response that they may not share.

mod reloads;
mod variants;

use crate::stage::{Fields, Reader, Request, Stage, get, headers};
use crate::world::World;
use http::{StatusCode, Version};
use larder_http::{
    Assembly, Cache, Completion, Config, Exchange, Fill, Follower, JoinResult, Joined, Piece, Read,
    Refusal, Reply, ResponseHead, Room, SliceFollower, SliceJoin, Step, UpstreamFailure,
};
use larder_units::Streams;

const PAGE: (&str, &str) = ("cache-control", "max-age=60");

fn follow(stage: &mut Stage, request: &Request) -> Follower {
    match stage.cache.on_request(&request.head(), stage.now) {
        Step::Follow(follower) => follower,
        step => panic!("{step:?}"),
    }
}

/// The head has not come: nobody wakes it, and it would wait again.
fn waiting(stage: &mut Stage, follower: Follower, request: &Request) -> Follower {
    assert!(!stage.is_woken(follower.id()));
    match stage.cache.join(follower, &request.headers) {
        JoinResult::Wait(follower) => follower,
        result => panic!("{result:?}"),
    }
}

/// The result for a follower that has waited, and is woken.
fn woken(stage: &mut Stage, follower: Follower, request: &Request) -> JoinResult {
    assert!(stage.is_woken(follower.id()), "it sleeps");
    at_once(stage, follower, request)
}

/// The result for a follower that came after the head.
fn at_once(stage: &mut Stage, follower: Follower, request: &Request) -> JoinResult {
    match stage.cache.join(follower, &request.headers) {
        JoinResult::Wait(_) => panic!("it waits"),
        result => result,
    }
}

/// A response whose body is collected begins.
fn start(stage: &mut Stage, leader: Box<Exchange>, fields: Fields<'_>) -> Box<Fill> {
    match stage.respond(leader, head(200, fields)) {
        Reply::Relay {
            fill: Some(fill), ..
        } => fill,
        reply => panic!("{reply:?}"),
    }
}

fn read(stage: &mut Stage, reader: &mut Reader) -> Option<Vec<u8>> {
    match stage.read(reader) {
        Read::Bytes(piece) => Some(piece.to_vec()),
        Read::End => None,
        read => panic!("{read:?}"),
    }
}

fn head(status: u16, fields: Fields<'_>) -> ResponseHead {
    ResponseHead {
        status: StatusCode::from_u16(status).unwrap(),
        version: Version::HTTP_11,
        headers: headers(fields),
    }
}

/// Returns true if a request is forwarded that began to wait at this moment and got no answer.
fn is_forwarded(stage: &mut Stage, request: &Request) -> bool {
    let mut other = Stage::new();
    other.now = stage.now;
    let _leader = other.open(&get("/"));
    let joined = follow(&mut other, &get("/")).joined();
    is_released_to_the_origin(stage, request, joined)
}

fn is_released_to_the_origin(stage: &mut Stage, request: &Request, joined: Joined) -> bool {
    let step = stage.cache.on_released(&request.head(), joined, stage.now);
    let is_forwarded = matches!(step, Step::Forward(_));
    stage.give_up(step);
    is_forwarded
}

#[test]
fn followers_stream_what_the_leader_gets() {
    let mut stage = Stage::new();
    let leader = stage.open(&get("/"));
    let part = get("/").with("range", "bytes=3-7");
    let known = get("/").with("if-none-match", "\"1\"");
    let (whole, of_part, of_known) = (
        follow(&mut stage, &get("/")),
        follow(&mut stage, &part),
        follow(&mut stage, &known),
    );
    let whole = waiting(&mut stage, whole, &get("/"));
    let fields: Fields<'_> = &[
        PAGE,
        ("etag", "\"1\""),
        ("content-length", "10"),
        ("date", crate::stage::THEN_TEXT),
    ];
    let mut fill = start(&mut stage, leader, fields);
    stage.push(&mut fill, b"01234");
    let JoinResult::Stream {
        status,
        headers,
        part: all,
    } = woken(&mut stage, whole, &get("/"))
    else {
        panic!()
    };
    assert_eq!(
        (status.as_u16(), &headers["content-length"]),
        (200, &"10".parse().unwrap())
    );
    assert_eq!(
        headers["cache-status"],
        "larder; fwd=uri-miss; fwd-status=200; collapsed"
    );
    let mut body = stage.reader(&all).unwrap();
    assert_eq!(read(&mut stage, &mut body).unwrap(), b"01234");
    let JoinResult::Stream {
        status,
        headers,
        part: bytes,
    } = woken(&mut stage, of_part, &part)
    else {
        panic!()
    };
    assert_eq!(
        (status.as_u16(), &headers["content-range"]),
        (206, &"bytes 3-7/10".parse().unwrap())
    );
    let mut range = stage.reader(&bytes).unwrap();
    assert_eq!(read(&mut stage, &mut range).unwrap(), b"34");
    assert_eq!(stage.read(&mut range), Read::Wait);
    let JoinResult::Answer(answer) = woken(&mut stage, of_known, &known) else {
        panic!()
    };
    assert_eq!(answer.status, 304);
    // A request that comes while the body is in flight joins as well.
    let late = follow(&mut stage, &get("/"));
    stage.push(&mut fill, b"56789");
    assert_eq!(
        (
            read(&mut stage, &mut range).unwrap(),
            read(&mut stage, &mut range)
        ),
        (b"567".to_vec(), None)
    );
    assert_eq!(stage.complete(fill), Completion::Stored);
    assert_eq!(
        (
            read(&mut stage, &mut body).unwrap(),
            read(&mut stage, &mut body)
        ),
        (b"56789".to_vec(), None)
    );
    assert!(matches!(
        at_once(&mut stage, late, &get("/")),
        JoinResult::Again(_)
    ));
    assert_eq!(stage.ask_store(&get("/")).body, b"0123456789");
    let counters = stage.cache.counters();
    assert_eq!(
        (counters.collapsed, counters.forwarded.iter().sum::<u64>()),
        (4, 1)
    );
}

/// Released by the head, and remembered: the next ones do not wait at all, until it turns
/// cacheable.
#[test]
fn what_may_not_be_shared_keeps_nobody_waiting() {
    for fields in [
        &[
            ("cache-control", "private, max-age=60"),
            ("content-length", "1"),
        ][..],
        &[("cache-control", "no-store"), ("content-length", "1")],
        &[
            ("cache-control", "no-cache"),
            ("etag", "\"1\""),
            ("content-length", "1"),
        ],
        &[PAGE, ("vary", "*"), ("content-length", "1")],
        &[PAGE, ("set-cookie", "a=1"), ("content-length", "1")],
    ] {
        let mut stage = Stage::new();
        let leader = stage.open(&get("/"));
        let follower = follow(&mut stage, &get("/"));
        let reply = stage.respond(leader, head(200, fields));
        assert!(
            matches!(woken(&mut stage, follower, &get("/")), JoinResult::Again(_)),
            "{fields:?}"
        );
        for _ in 0..3 {
            assert!(is_forwarded(&mut stage, &get("/")), "{fields:?}");
        }
        stage.break_off(reply);
        stage.wait(60);
        stage.ask(&get("/"), 200, &[PAGE], "cacheable now");
        stage.wait(60);
        let _leader = stage.open(&get("/"));
        let _ = follow(&mut stage, &get("/"));
    }
}

#[test]
fn other_variants_and_other_wishes_go_alone() {
    let mut stage = Stage::new();
    let german = get("/").with("accept-language", "de");
    let leader = stage.open(&get("/"));
    let follower = follow(&mut stage, &german);
    assert!(is_forwarded(
        &mut stage,
        &get("/").with("cache-control", "no-store")
    ));
    assert!(!is_forwarded(
        &mut stage,
        &get("/").with("cache-control", "only-if-cached")
    ));
    assert!(is_forwarded(
        &mut stage,
        &crate::stage::request(http::Method::HEAD, "/")
    ));
    let fields: Fields<'_> = &[PAGE, ("vary", "accept-language"), ("content-length", "1")];
    let _reply = stage.respond(leader, head(200, fields));
    assert!(matches!(
        woken(&mut stage, follower, &german),
        JoinResult::Again(_)
    ));
    assert!(
        is_forwarded(&mut stage, &german),
        "it does not wait for what is not its variant"
    );
    let _ = follow(&mut stage, &get("/"));
}

/// A condition or a range of the client may bring a 304 or a part: nobody waits for that.
#[test]
fn requests_for_less_lead_nobody() {
    let mut stage = Stage::new();
    let _part = stage.open(&get("/").with("range", "bytes=0-0"));
    assert!(is_forwarded(
        &mut stage,
        &get("/").with("if-none-match", "\"1\"")
    ));
    let _leader = stage.open(&get("/"));
    let _ = follow(&mut stage, &get("/"));
}

#[test]
fn an_origin_in_trouble_is_asked_once() {
    let mut stage = Stage::new();
    let leader = stage.open(&get("/"));
    let follower = follow(&mut stage, &get("/"));
    let fields: Fields<'_> = &[
        ("retry-after", "5"),
        ("set-cookie", "secret=1"),
        ("content-length", "0"),
    ];
    stage.respond(leader, head(503, fields));
    let JoinResult::Answer(answer) = woken(&mut stage, follower, &get("/")) else {
        panic!()
    };
    assert_eq!(
        (answer.status.as_u16(), &answer.headers["retry-after"]),
        (503, &"5".parse().unwrap())
    );
    assert!(
        !answer.headers.contains_key("set-cookie"),
        "the leader's alone"
    );
    let leader = stage.open(&get("/"));
    let follower = follow(&mut stage, &get("/"));
    stage.fail(leader, UpstreamFailure::TimedOut);
    let JoinResult::Answer(answer) = woken(&mut stage, follower, &get("/")) else {
        panic!()
    };
    assert_eq!(answer.status, 504);
    // A 500 may be one request's own.
    let leader = stage.open(&get("/"));
    let follower = follow(&mut stage, &get("/"));
    stage.respond(leader, head(500, &[("content-length", "0")]));
    assert!(matches!(
        woken(&mut stage, follower, &get("/")),
        JoinResult::Again(_)
    ));
}

#[test]
fn a_leader_that_is_given_up_strands_nobody() {
    let mut stage = Stage::new();
    let leader = stage.open(&get("/"));
    let [first, second] = [(); 2].map(|()| follow(&mut stage, &get("/")));
    let (first, second) = (
        waiting(&mut stage, first, &get("/")),
        waiting(&mut stage, second, &get("/")),
    );
    stage.abandon(leader);
    stage.cache.check_invariants();
    let JoinResult::Again(joined) = woken(&mut stage, first, &get("/")) else {
        panic!()
    };
    let Step::Forward(leader) = stage.cache.on_released(&get("/").head(), joined, stage.now) else {
        panic!()
    };
    // It leads: the other one follows it now.
    let JoinResult::Again(joined) = woken(&mut stage, second, &get("/")) else {
        panic!()
    };
    let Step::Follow(follower) = stage.cache.on_released(&get("/").head(), joined, stage.now)
    else {
        panic!()
    };
    stage.cache.check_invariants();
    let fields: Fields<'_> = &[PAGE, ("content-length", "10")];
    let fill = start(&mut stage, leader, fields);
    let JoinResult::Stream { part, .. } = woken(&mut stage, follower, &get("/")) else {
        panic!()
    };
    let mut body = stage.reader(&part).unwrap();
    assert_eq!(stage.read(&mut body), Read::Wait);
    stage.abort(fill);
    assert_eq!(stage.read(&mut body), Read::Broken);
    stage.cache.check_invariants();
}

/// Failure: clients that leave while they wait keep their fetch in memory, or others from joining.
#[test]
fn a_follower_that_leaves_disturbs_nobody() {
    let mut stage = Stage::new();
    let leader = stage.open(&get("/"));
    let [leaves, stays] = [(); 2].map(|()| follow(&mut stage, &get("/")));
    stage.cache.on_follower_left(leaves);
    stage.cache.check_invariants();
    let further = follow(&mut stage, &get("/"));
    let fill = start(&mut stage, leader, &[PAGE, ("content-length", "1")]);
    assert_eq!(stage.outbox.woken.len(), 2, "those who are there");
    assert!(matches!(
        woken(&mut stage, stays, &get("/")),
        JoinResult::Stream { .. }
    ));
    // Woken, it leaves all the same.
    stage.cache.on_follower_left(further);
    stage.abort(fill);
    stage.cache.check_invariants();
}

/// Failure: a request joins a body whose start is gone, and gets its rest, or waits without end.
#[test]
fn nobody_joins_what_only_passes() {
    let mut stage = Stage::with(100_000, "lru");
    let leader = stage.open(&get("/"));
    let woken_late = follow(&mut stage, &get("/"));
    let mut fill = start(
        &mut stage,
        leader,
        &[PAGE, ("transfer-encoding", "chunked")],
    );
    let mut client = stage.reader(&fill.part()).unwrap();
    let early = follow(&mut stage, &get("/"));
    let JoinResult::Stream { part, .. } = at_once(&mut stage, early, &get("/")) else {
        panic!()
    };
    let mut early = stage.reader(&part).unwrap();
    let begun = follow(&mut stage, &get("/"));
    let JoinResult::Stream { part: too_late, .. } = at_once(&mut stage, begun, &get("/")) else {
        panic!()
    };
    let mut pushed = 0;
    while stage.room(&fill) == Room::Ready {
        stage.push(&mut fill, &[7; 1000]);
        pushed += 1000;
    }
    assert!(pushed > 20_000, "{pushed}");
    stage.cache.check_invariants();
    // A follower that was told to read it, and comes too late, asks again. So does one that is
    // woken now.
    assert!(stage.reader(&too_late).is_none());
    let JoinResult::Again(joined) = woken(&mut stage, woken_late, &get("/")) else {
        panic!()
    };
    assert!(is_released_to_the_origin(&mut stage, &get("/"), joined));
    // No new request follows, and none leads in its place.
    for _ in 0..2 {
        let _alone = stage.open(&get("/"));
    }
    // Those who joined in time get all of it.
    for reader in [&mut client, &mut early] {
        let mut got = 0;
        while let Read::Bytes(piece) = stage.read(reader) {
            got += piece.len();
        }
        assert_eq!(got, pushed);
    }
    assert_eq!(stage.room(&fill), Room::Ready);
    assert_eq!(stage.complete(fill), Completion::Refused(Refusal::TooLarge));
    assert_eq!(
        (stage.read(&mut client), stage.read(&mut early)),
        (Read::End, Read::End)
    );
    stage.cache.check_invariants();
}

/// A client asks for a slice that is missing, and others for parts of the same slice.
fn slice_in_flight(world: &mut World) -> (Box<Exchange>, Assembly, [SliceFollower; 2]) {
    world.range("bytes=0-9");
    world.asked();
    let stage = &mut world.stage;
    let mut ask = |range: &str| {
        let request = get("/").with("range", range);
        let Step::Assemble(assembled) = stage.cache.on_request(&request.head(), stage.now) else {
            panic!()
        };
        let mut assembly = assembled.body;
        (stage.cache.next_piece(&mut assembly, stage.now), assembly)
    };
    let (Piece::Ask(exchange), _) = ask("bytes=20480-24575") else {
        panic!()
    };
    let (Piece::Wait(first), assembly) = ask("bytes=20485-20499") else {
        panic!()
    };
    let (Piece::Wait(second), _) = ask("bytes=20480-30000") else {
        panic!()
    };
    let SliceJoin::Wait(first) = stage.cache.join_slice(first) else {
        panic!()
    };
    assert!(!stage.is_woken(first.id()) && !stage.is_woken(second.id()));
    stage.cache.check_invariants();
    (exchange, assembly, [first, second])
}

/// Failure: clients that need one slice each request it, or one of them waits for ever when its
/// leader fails or leaves.
#[test]
fn a_slice_is_requested_once() {
    let mut world = World::new(100_000);
    let (leader, mut assembly, [reads, leaves]) = slice_in_flight(&mut world);
    let (status, headers, content) = world.origin.respond(&leader.retry_headers()).unwrap();
    let stage = &mut world.stage;
    let fill = stage.respond_with_slice(
        leader,
        ResponseHead {
            status,
            version: Version::HTTP_11,
            headers,
        },
    );
    assert!(stage.is_woken(reads.id()) && stage.is_woken(leaves.id()));
    stage.cache.on_slice_follower_left(leaves);
    let SliceJoin::Read(part) = stage.cache.join_slice(reads) else {
        panic!()
    };
    let mut reader = stage.reader(&part).unwrap();
    assert_eq!(stage.read(&mut reader), Read::Wait);
    world.collect(fill.unwrap(), &content);
    assert_eq!(
        read(&mut world.stage, &mut reader).unwrap(),
        world.origin.content[20485..20500]
    );
    assert_eq!(read(&mut world.stage, &mut reader), None);
    assembly.took(15);
    assert!(matches!(
        world.stage.cache.next_piece(&mut assembly, world.stage.now),
        Piece::End
    ));
    assert_eq!(world.asked(), ["bytes=20480-24575"]);
    assert!(world.range("bytes=20480-24575").is_hit());
    world.stage.cache.check_invariants();
}

#[test]
fn the_leader_of_a_slice_strands_nobody() {
    for fails in [false, true] {
        let mut world = World::new(100_000);
        let (leader, mut assembly, followers) = slice_in_flight(&mut world);
        let stage = &mut world.stage;
        if fails {
            stage.cache.on_slice_failure(leader, &mut stage.outbox)
        } else {
            stage.abandon(leader)
        }
        for follower in followers {
            assert!(stage.is_woken(follower.id()));
            let join = stage.cache.join_slice(follower);
            assert!(
                matches!(
                    (fails, &join),
                    (true, SliceJoin::Broken) | (false, SliceJoin::Again)
                ),
                "{join:?}"
            );
        }
        // The next one leads.
        assert!(matches!(
            stage.cache.next_piece(&mut assembly, stage.now),
            Piece::Ask(_)
        ));
        stage.cache.check_invariants();
    }
}

/// A request after a change does not get a response that was requested before it.
#[test]
fn an_invalidation_parts_before_from_after() {
    let mut stage = Stage::new();
    let _leader = stage.open(&get("/"));
    stage.ask(
        &crate::stage::request(http::Method::POST, "/"),
        200,
        &[],
        "changed",
    );
    let _other = stage.open(&get("/"));
    let _ = follow(&mut stage, &get("/"));
}

/// What the policy refuses is fetched once all the same for those who wait for it together.
#[test]
fn what_is_not_admitted_is_shared_all_the_same() {
    let mut stage = Stage::with(40_000, "filter(theta=2)+fifo");
    for number in 0..30 {
        stage.ask(&get(&format!("/{number}")), 200, &[PAGE], &"x".repeat(2000));
    }
    let leader = stage.open(&get("/"));
    let follower = follow(&mut stage, &get("/"));
    let follower = waiting(&mut stage, follower, &get("/"));
    let fields: Fields<'_> = &[PAGE, ("content-length", "1")];
    let Reply::Relay {
        fill: Some(mut fill),
        headers,
        ..
    } = stage.respond(leader, head(200, fields))
    else {
        panic!()
    };
    assert_eq!(
        headers["cache-status"],
        "larder; fwd=uri-miss; fwd-status=200"
    );
    let JoinResult::Stream { part, .. } = woken(&mut stage, follower, &get("/")) else {
        panic!()
    };
    let mut body = stage.reader(&part).unwrap();
    stage.push(&mut fill, b"x");
    assert_eq!(
        stage.complete(fill),
        Completion::Refused(Refusal::NotAdmitted)
    );
    assert_eq!(
        stage.cache.filling().bytes(),
        1,
        "who reads it slowly holds it"
    );
    assert_eq!(
        (
            read(&mut stage, &mut body).unwrap(),
            read(&mut stage, &mut body)
        ),
        (b"x".to_vec(), None)
    );
    stage.leave(body);
    assert_eq!(stage.cache.filling().bytes(), 0);
}

/// Failure: a client that joins a slow body a minute later gets the freshness of its head, and
/// caches downstream begin to count again.
#[test]
fn who_boards_late_gets_nothing_stale_and_the_true_age() {
    for control in ["max-age=10", "max-age=10, must-revalidate", "s-maxage=10"] {
        let mut stage = Stage::new();
        let leader = stage.open(&get("/"));
        let fields: Fields<'_> = &[
            ("cache-control", control),
            ("content-length", "10"),
            ("date", crate::stage::THEN_TEXT),
        ];
        let _reply = stage.respond(leader, head(200, fields));
        stage.wait(9);
        let late = follow(&mut stage, &get("/"));
        let JoinResult::Stream { headers, .. } = at_once(&mut stage, late, &get("/")) else {
            panic!("{control}")
        };
        assert_eq!(headers["age"], "9", "{control}");
        assert!(
            is_forwarded(&mut stage, &get("/").with("cache-control", "max-age=5")),
            "{control}"
        );
        stage.wait(1);
        assert!(is_forwarded(&mut stage, &get("/")), "{control}");
    }
}

/// A cache of our name, and not the others.
fn cache_number(number: u8) -> Stage {
    let mut config = crate::stage::config(1 << 20, "lru");
    config.hash_key = [number; 16];
    Stage {
        cache: Cache::new(&config, &Streams::new(1)).unwrap(),
        ..Stage::new()
    }
}

/// The same request as the next cache gets it.
fn passed(exchange: &Exchange) -> Request {
    Request {
        headers: exchange.upstream_headers(),
        ..get("/")
    }
}

/// Failure: fifty caches request one page from one cache, and the origin gets fifty requests.
#[test]
fn requests_of_other_caches_of_our_name_follow_each_other() {
    let mut stage = cache_number(0);
    // A client of its own has asked first. It does not wait for them, nor they for it.
    let _leader = stage.open(&get("/"));
    let [first, second] = [1, 2].map(|number| passed(&cache_number(number).open(&get("/"))));
    let foremost = stage.open(&first);
    let _followers = [
        follow(&mut stage, &second),
        follow(&mut stage, &get("/").with("via", "1.1 larder")),
    ];
    let client = follow(&mut stage, &get("/"));
    let _fill = start(&mut stage, foremost, &[PAGE, ("content-length", "1")]);
    assert!(matches!(
        woken(&mut stage, client, &get("/")),
        JoinResult::Stream { .. }
    ));
    // What is coming can be shared with everybody.
    let _further = follow(
        &mut stage,
        &second.with("cdn-loop", "larder").with("cdn-loop", "larder"),
    );
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

/// Failure: a cache that does not collapse requests lets one wait for another.
#[test]
fn a_cache_without_collapsing_asks_for_each_request() {
    let mut stage = Stage::new();
    let config = Config {
        collapse: false,
        ..crate::stage::config(1 << 20, "lru")
    };
    stage.cache = Cache::new(&config, &Streams::new(1)).unwrap();
    let [first, second] = [(); 2].map(|()| stage.open(&get("/")));
    stage.reply(first, 200, &[("cache-control", "max-age=60")], "first");
    stage.reply(second, 200, &[("cache-control", "max-age=60")], "second");
    assert_eq!(stage.ask_store(&get("/")).body, b"second");
}
