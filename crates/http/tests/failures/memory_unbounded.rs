//! Failure: a stream of responses fills the memory of the machine.

use crate::stage::{Stage, get, headers};
use http::{StatusCode, Version};
use larder_http::{Completion, Fill, Read, Refusal, Reply, ResponseHead, Room, limits};

const PAGE: (&str, &str) = ("cache-control", "max-age=60");

#[test]
fn the_store_stays_within_its_capacity() {
    let mut stage = Stage::with(100_000, "lru");
    for number in 0..1000 {
        let body = "x".repeat(number * 7 % 5000);
        stage.ask(
            &get(&format!("/{number}")),
            200,
            &[PAGE, ("x-long", &"h".repeat(number % 300))],
            &body,
        );
        let engine = stage.cache.engine();
        assert!(engine.used() <= engine.capacity());
    }
    assert!(stage.cache.counters().evicted > 500);
    assert!(stage.cache.engine().len() > 5);
}

/// Small objects cost more than their bytes, and that counts.
#[test]
fn empty_bodies_are_not_free() {
    let mut stage = Stage::with(100_000, "lru");
    for number in 0..1000 {
        stage.ask(&get(&format!("/{number}")), 200, &[PAGE], "");
    }
    assert!(
        stage.cache.engine().len() < 500,
        "{}",
        stage.cache.engine().len()
    );
}

#[test]
fn what_is_too_large_is_not_even_collected() {
    let mut stage = Stage::with(100_000, "lru");
    let seen = stage.ask(&get("/"), 200, &[PAGE, ("content-length", "25001")], "");
    assert_eq!(
        seen.header("cache-status"),
        "larder; fwd=uri-miss; fwd-status=200; detail=too-large"
    );
    let seen = stage.ask(
        &get("/"),
        200,
        &[PAGE, ("content-length", "18446744073709551616")],
        "",
    );
    assert!(
        seen.header("cache-status").ends_with("detail=unframed"),
        "{seen:?}"
    );
}

/// The limit of one object, well below what the budget would take.
#[test]
fn the_limit_of_one_object_holds_with_and_without_a_length() {
    let mut config = crate::stage::config(1_000_000, "lru");
    config.max_object = larder_units::ByteSize::from_bytes(100);
    let mut stage = Stage::new();
    stage.cache = larder_http::Cache::new(&config, &larder_units::Streams::new(1)).unwrap();
    for (length, stored) in [(100, true), (101, false)] {
        let body = "x".repeat(length);
        let seen = stage.ask(&get(&format!("/{length}")), 200, &[PAGE], &body);
        assert_eq!(
            seen.completion,
            stored.then_some(Completion::Stored),
            "{seen:?}"
        );
        let chunked: crate::stage::Fields<'_> = &[PAGE, ("transfer-encoding", "chunked")];
        stage.ask(&get(&format!("/c{length}")), 200, chunked, &body);
        assert_eq!(stage.is_hit(&get(&format!("/c{length}"))), stored);
    }
}

#[test]
fn what_the_policy_refuses_is_not_collected() {
    let mut stage = Stage::with(100_000, "filter(theta=2)+fifo");
    // Free room is filled with whatever comes; the policy is asked when something would have to
    // leave.
    let fill = |stage: &mut Stage, from: usize, body: &str| {
        for number in from..from + 100 {
            stage.ask(&get(&format!("/fill/{number}")), 200, &[PAGE], body);
        }
    };
    fill(&mut stage, 0, &"f".repeat(2000));
    fill(&mut stage, 100, "");
    let seen = stage.ask(&get("/"), 200, &[PAGE], "once");
    assert_eq!(
        seen.header("cache-status"),
        "larder; fwd=uri-miss; fwd-status=200; detail=not-admitted"
    );
    assert_eq!(seen.completion, None);
    assert_eq!(
        stage.ask(&get("/"), 200, &[PAGE], "twice").completion,
        Some(Completion::Stored)
    );
    assert_eq!(stage.ask_store(&get("/")).body, b"twice");
    // Of unknown length: it is asked at the end.
    fill(&mut stage, 200, "");
    let chunked: crate::stage::Fields<'_> = &[PAGE, ("transfer-encoding", "chunked")];
    let seen = stage.ask(&get("/c"), 200, chunked, "once");
    assert_eq!(
        seen.completion,
        Some(Completion::Refused(Refusal::NotAdmitted))
    );
}

/// A page whose length nobody knows begins.
fn chunked(stage: &mut Stage, target: &str) -> Box<Fill> {
    let exchange = stage.open(&get(target));
    let head = ResponseHead {
        status: StatusCode::OK,
        version: Version::HTTP_11,
        headers: headers(&[PAGE, ("transfer-encoding", "chunked")]),
    };
    let Reply::Relay {
        fill: Some(fill), ..
    } = stage.respond(exchange, head)
    else {
        panic!()
    };
    fill
}

#[test]
fn a_body_without_end_is_let_go_at_the_limit() {
    let mut stage = Stage::with(100_000, "lru");
    let mut fill = chunked(&mut stage, "/");
    let mut most = 0;
    for _ in 0..1000 {
        stage.push(&mut fill, &[7; 1000]);
        most = most.max(stage.cache.filling().bytes());
    }
    assert!((16_000..=25_000).contains(&most), "{most}");
    assert_eq!(stage.cache.filling().bytes(), 0, "let go before the end");
    assert_eq!(stage.complete(fill), Completion::Refused(Refusal::TooLarge));
}

/// Failure: a client is a little behind when the limit is reached, and a body without end holds its
/// memory for ever.
#[test]
fn what_was_collected_is_let_go_when_it_has_been_read() {
    let mut stage = Stage::with(100_000, "lru");
    let mut fill = chunked(&mut stage, "/");
    let mut reader = stage.reader(&fill.part()).unwrap();
    for _ in 0..30 {
        stage.push(&mut fill, &[7; 1000]);
    }
    assert!(stage.cache.filling().bytes() > 20_000, "it is unread");
    while matches!(stage.read(&mut reader), Read::Bytes(_)) {}
    stage.push(&mut fill, &[7; 1000]);
    assert_eq!(stage.cache.filling().bytes(), 0);
}

/// Failure: bodies that are not stored, and that hundreds of clients read slowly, are not counted;
/// or they prevent the storing of everything else.
#[test]
fn what_only_passes_is_counted_and_leaves_room() {
    const CAPACITY: u64 = 16 << 20;
    let mut config = crate::stage::config(CAPACITY, "lru");
    config.max_object = larder_units::ByteSize::from_bytes(100_000);
    let mut stage = Stage::new();
    stage.cache = larder_http::Cache::new(&config, &larder_units::Streams::new(1)).unwrap();
    let piece = [7; limits::PIECE_BYTES];
    let (mut passing, mut ahead, mut wide) = (Vec::new(), 0, 0);
    for number in 0..100 {
        let mut fill = chunked(&mut stage, &format!("/{number}"));
        let mut reader = stage.reader(&fill.part()).unwrap();
        for _ in 0..3 {
            stage.push(&mut fill, &piece);
            while matches!(stage.read(&mut reader), Read::Bytes(_)) {}
        }
        // Now he stops.
        let mut own = 0;
        while stage.room(&fill) == Room::Ready {
            stage.push(&mut fill, &piece);
            own += piece.len();
        }
        wide += usize::from(own == limits::WINDOW_BYTES);
        assert!(own == limits::WINDOW_BYTES || own == piece.len(), "{own}");
        ahead += own;
        passing.push((fill, reader));
    }
    let (counted, limit) = (
        stage.cache.filling().bytes() as usize,
        stage.cache.filling_limit().bytes() as usize,
    );
    assert!(
        wide > 2 && counted == wide * limits::WINDOW_BYTES && counted <= limit / 2,
        "{wide}: {counted}"
    );
    assert_eq!(ahead - counted, (100 - wide) * piece.len());
    assert_eq!(
        stage
            .ask(&get("/page"), 200, &[PAGE], &"x".repeat(90_000))
            .completion,
        Some(Completion::Stored)
    );
    // Half of them end, the others break off; he has read neither.
    let (fills, readers): (Vec<_>, Vec<_>) = passing.into_iter().unzip();
    for (number, fill) in fills.into_iter().enumerate() {
        match number % 2 {
            0 => assert!(matches!(stage.complete(fill), Completion::Refused(_))),
            _ => stage.abort(fill),
        }
    }
    assert_eq!(stage.cache.filling().bytes() as usize, counted);
    for reader in readers {
        stage.leave(reader);
    }
    assert_eq!(stage.cache.filling().bytes(), 0);
}

/// Failure: an origin that aborts bodies frees the budget each time, while slow clients hold the
/// received parts.
#[test]
fn what_broke_off_is_counted_until_it_is_read() {
    let mut stage = Stage::with(1_000_000, "lru");
    let mut fill = chunked(&mut stage, "/half");
    stage.push(&mut fill, &[7; 30_000]);
    let reader = stage.reader(&fill.part()).unwrap();
    stage.abort(fill);
    assert!(stage.cache.filling().bytes() >= 30_000);
    stage.leave(reader);
    assert_eq!(stage.cache.filling().bytes(), 0);
}

#[test]
fn many_bodies_at_once_share_one_budget() {
    let mut stage = Stage::with(100_000, "lru");
    let mut fills = Vec::new();
    for number in 0..20 {
        let exchange = stage.open(&get(&format!("/{number}")));
        let head = ResponseHead {
            status: StatusCode::OK,
            version: Version::HTTP_11,
            headers: headers(&[PAGE, ("content-length", "10000")]),
        };
        match stage.respond(exchange, head) {
            Reply::Relay {
                fill: Some(fill), ..
            } => fills.push(fill),
            Reply::Relay { headers, .. } => {
                assert!(headers["cache-status"].as_bytes().ends_with(b"detail=busy"))
            }
            reply => panic!("{reply:?}"),
        }
        assert!(stage.cache.filling() <= stage.cache.filling_limit());
    }
    assert_eq!(fills.len(), 2, "two of 10 kB fit into a quarter of 100 kB");
    let chunked: crate::stage::Fields<'_> = &[PAGE, ("transfer-encoding", "chunked")];
    let seen = stage.ask(&get("/c"), 200, chunked, "x");
    assert_eq!(
        seen.completion,
        Some(Completion::Refused(Refusal::Busy)),
        "its first buffer finds no room"
    );
    for fill in fills {
        stage.abort(fill);
    }
    assert_eq!(stage.cache.filling().bytes(), 0);
}

/// Clients that read large bodies slowly do not keep small ones from being stored.
#[test]
fn a_part_of_the_budget_is_kept_for_small_bodies() {
    let mut stage = Stage::with(1_000_000, "lru");
    let mut held = Vec::new();
    for (number, length) in [100_000, 100_000, 10_000, 5_000, 3_750].iter().enumerate() {
        let exchange = stage.open(&get(&format!("/large/{number}")));
        let head = ResponseHead {
            status: StatusCode::OK,
            version: Version::HTTP_11,
            headers: headers(&[PAGE, ("content-length", &length.to_string())]),
        };
        let Reply::Relay {
            fill: Some(fill), ..
        } = stage.respond(exchange, head)
        else {
            panic!("{length} found no room")
        };
        held.push(fill);
    }
    assert_eq!(
        stage.cache.filling().bytes(),
        218_750,
        "seven eighths of a quarter of 1 MB"
    );
    let large = stage.ask(&get("/large"), 200, &[PAGE], &"x".repeat(4000));
    assert!(
        large.header("cache-status").ends_with("detail=busy"),
        "{large:?}"
    );
    assert_eq!(
        stage
            .ask(&get("/small"), 200, &[PAGE], &"x".repeat(3900))
            .completion,
        Some(Completion::Stored)
    );
}

#[test]
fn long_names_pass_by() {
    let mut stage = Stage::new();
    let long = format!("/{}", "x".repeat(larder_http::limits::KEY_BYTES));
    let seen = stage.ask(&get(&long), 200, &[PAGE], "x");
    assert!(
        seen.header("cache-status")
            .starts_with("larder; fwd=bypass")
    );
    let seen = stage.ask(
        &get("/"),
        200,
        &[PAGE, ("x-long", &"h".repeat(70_000))],
        "x",
    );
    assert!(seen.header("cache-status").ends_with("detail=too-large"));
    assert!(stage.cache.engine().is_empty());
}
