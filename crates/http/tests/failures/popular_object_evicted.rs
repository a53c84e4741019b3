//! Failure: the policy does not learn of requests, so the most requested objects are evicted and
//! the others stay.

use crate::stage::{Stage, get};

const PAGE: (&str, &str) = ("cache-control", "max-age=60");

/// Room for some five of them.
fn small(policy: &str) -> Stage {
    Stage::with(1_400, policy)
}

#[test]
fn hits_count() {
    let mut stage = small("lru");
    stage.ask(&get("/popular"), 200, &[PAGE], "x");
    for number in 0..50 {
        assert!(stage.is_hit(&get("/popular")), "{number}");
        stage.ask(&get(&format!("/{number}")), 200, &[PAGE], "x");
    }
    assert!(stage.cache.counters().evicted > 40);
}

#[test]
fn hits_after_validation_count() {
    let mut stage = small("lru");
    let fields: crate::stage::Fields<'_> = &[("cache-control", "no-cache"), ("etag", "\"1\"")];
    stage.ask(&get("/popular"), 200, fields, "x");
    for number in 0..50 {
        let seen = stage.ask(&get("/popular"), 304, fields, "");
        assert_eq!(seen.status, 200, "{number}: it was not stored any more");
        stage.ask(&get(&format!("/{number}")), 200, &[PAGE], "x");
    }
    assert_eq!(stage.cache.counters().validated, 50);
}

/// The filter counts requests, also those whose response is of unknown length; requests that cannot
/// be stored do not count.
#[test]
fn misses_count_once() {
    // The filter's memory is as long as the cache holds objects, so that `/` is not forgotten while
    // the room is filled.
    let mut stage = Stage::with(100_000, "filter(theta=3, window=10000)+fifo");
    for number in 0..100 {
        // Free room takes what comes: only a full cache asks.
        stage.ask(
            &get(&format!("/fill/{number}")),
            200,
            &[PAGE],
            &"f".repeat(2000 - number * 20),
        );
    }
    for (fields, stored) in [
        (&[PAGE][..], false),
        (&[("cache-control", "no-store")], false),
        (&[PAGE, ("transfer-encoding", "chunked")], false),
        (&[PAGE], true),
    ] {
        stage.ask(&get("/"), 200, fields, &"x".repeat(3000));
        assert_eq!(stage.is_hit(&get("/")), stored, "{fields:?}");
    }
}
