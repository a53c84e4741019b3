//! Compares the index with the engine: chains of variants, evictions and invalidations in any
//! order.

use super::*;
use crate::now::Now;
use crate::rfc::directives::ResponseDirectives;
use crate::rfc::freshness::Freshness;
use crate::rfc::vary::Selector;
use crate::store::policy_engine::PolicyEngine;
use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use larder_policy::Engine;
use larder_units::{ByteSize, Streams};
use proptest::prelude::*;
use std::cell::RefCell;
use std::time::Duration;

const SECRET: [u8; 16] = [3; 16];

fn store(capacity: u64, policy: &str) -> Store {
    let engine = Engine::new(
        &policy.parse().unwrap(),
        ByteSize::from_bytes(capacity),
        &Streams::new(1),
    )
    .unwrap();
    let engine = EngineHandle::new(Box::new(RefCell::new(PolicyEngine::new(engine))));
    Store::new(
        engine,
        larder_policy::observe::Observer::new(0, 0),
        Budget::new(u64::MAX),
        Purges::default(),
        &SECRET,
        (0, 1),
    )
}

/// Returns a response as a fill produces it.
fn stored_in(store: &Store, key: &Key<'_>, hash: u64, variant: u8, length: usize) -> Stored {
    let mut stored = stored(key, hash, variant, 0);
    let room = store.budget.reserve(length as u64).unwrap();
    stored.set_body(room.lend(Bytes::from(vec![variant; length])));
    stored
}

fn request(variant: u8) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("x", HeaderValue::from(u16::from(variant)));
    headers
}

fn stored(key: &Key<'_>, hash: u64, variant: u8, length: usize) -> Stored {
    let mut headers = HeaderMap::new();
    headers.insert("vary", HeaderValue::from_static("x"));
    headers.insert(
        "surrogate-key",
        HeaderValue::try_from(format!("all all tag-{variant}")).unwrap(),
    );
    let now = Now {
        time: Time::ZERO,
        unix_seconds: 0,
    };
    let freshness = Freshness::of(
        StatusCode::OK,
        &headers,
        &ResponseDirectives::default(),
        Time::ZERO,
        now,
    );
    let selector = Selector::of(&headers, &request(variant));
    let mut stored = Stored::new(
        key.to_bytes(),
        hash,
        selector,
        StatusCode::OK,
        &headers,
        freshness,
    );
    stored.set_body(Bytes::from(vec![variant; length]));
    stored
}

#[test]
fn variants_of_one_key_are_bounded() {
    let mut store = store(10_000_000, "lru");
    store.bound_variants_to(32, 10_000_000);
    let key = Key::new("http", "h", "/");
    let hash = key.hash(&SECRET);
    for variant in 0..100 {
        let stored = stored_in(&store, &key, hash, variant, 10);
        assert!(store.put(&stored, Time::ZERO));
        store.check_invariants();
    }
    assert_eq!(
        (
            store.engine.read(PolicyEngine::figures).len(),
            store.variants_dropped
        ),
        (32, 68)
    );
    assert!(
        matches!(store.find(&key, hash, &request(99)), Found::Match(_)),
        "the newest stays"
    );
    assert!(
        matches!(store.find(&key, hash, &request(0)), Found::OtherVariants),
        "the oldest went"
    );
}

/// A bare 64-bit hash is never trusted.
#[test]
fn keys_with_one_hash_are_told_apart() {
    let mut store = store(1_000_000, "fifo");
    let keys = ["/a", "/b", "/c"].map(|target| Key::new("http", "h", target));
    for (number, key) in keys.iter().enumerate() {
        let stored = stored_in(&store, key, 42, number as u8, 10);
        assert!(store.put(&stored, Time::ZERO));
        let stored = stored_in(&store, key, 42, 9, 10);
        assert!(store.put(&stored, Time::ZERO));
        store.check_invariants();
    }
    for (number, key) in keys.iter().enumerate() {
        let Found::Match(slot) = store.find(key, 42, &request(number as u8)) else {
            panic!("{key:?}")
        };
        assert_eq!(store.entry(slot).body()[0], number as u8);
    }
    assert_eq!(store.invalidate(&keys[1], 42, Time::ZERO), 2);
    store.check_invariants();
    assert!(matches!(
        store.find(&keys[1], 42, &request(1)),
        Found::Nothing
    ));
    assert!(matches!(
        store.find(&keys[2], 42, &request(2)),
        Found::Match(_)
    ));
}

proptest! {
    #[test]
    fn the_index_and_the_engine_agree(
        policy in prop::sample::select(vec!["lru", "fifo", "random"]),
        steps in prop::collection::vec((0u8..6, 0u8..5, 0u8..4, 0usize..12_000), 1..200),
    ) {
        let mut store = store(60_000, policy);
        // Clients that never read to the end.
        let mut readers: Vec<Bytes> = Vec::new();
        for (at, (what, target, variant, length)) in steps.into_iter().enumerate() {
            let now = Time::ZERO + Duration::from_secs(at as u64);
            let target = format!("/{target}");
            let key = Key::new("http", "h", &target);
            // Two keys share a hash.
            let hash = if target == "/4" { Key::new("http", "h", "/3").hash(&SECRET) } else { key.hash(&SECRET) };
            match what {
                0 | 1 => {
                    let stored = stored_in(&store, &key, hash, variant, length);
                    if what == 1 {
                        readers.push(stored.body.clone());
                    }
                    prop_assert!(store.put(&stored, now));
                    let found = matches!(store.find(&key, hash, &request(variant)), Found::Match(_));
                    prop_assert!(found, "what was just stored is there");
                }
                2 => if let Found::Match(slot) = store.find(&key, hash, &request(variant)) {
                    prop_assert!(vary::matches(store.entry(slot).selector(), &request(variant)));
                    store.remove(slot);
                },
                3 => if let Found::Match(slot) = store.find(&key, hash, &request(variant)) {
                    // Renewed with another tag.
                    let renewed = stored(&key, hash, variant, 0);
                    let mut other = stored(&key, hash, variant ^ 1, 0);
                    other.selector = renewed.selector;
                    other.set_body(store.entry(slot).body());
                    store.renew(&other, now);
                },
                4 => {
                    let tag = format!("tag-{variant}");
                    store.purge_tag(&tag, 0, false, now);
                    let mut left = 0;
                    for id in (0..store.entries.len() as u32).map(EntryId) {
                        if store.entries[id.index()].is_some() {
                            store.view(id).each_tag(|other| left += u32::from(other == tag.as_bytes()));
                        }
                    }
                    prop_assert_eq!(left, 0, "a purged tag is stored");
                }
                _ => {
                    let before = stored(&key, hash, variant, 0).at(store.purges.now());
                    store.invalidate(&key, hash, now);
                    prop_assert!(matches!(store.find(&key, hash, &request(variant)), Found::Nothing));
                    prop_assert!(store.is_outdated(&before, now));
                    prop_assert!(!store.is_outdated(&before.at(store.purges.now()), now));
                }
            }
            let bodies = store.check_invariants();
            store.budget.check_invariants(bodies);
            prop_assert!(store.engine.read(PolicyEngine::figures).used().bytes() <= 60_000);
            let entries = store.entries.iter().flatten().map(|indexed| &indexed.entry);
            let stored: Vec<_> = entries.map(|entry| entry.body().as_ptr()).collect();
            let departed = readers.iter().filter(|body| !body.is_empty() && !stored.contains(&body.as_ptr()));
            prop_assert_eq!(store.budget.used(), departed.map(|body| body.len() as u64).sum::<u64>());
        }
    }
}

/// Failure: the structures around a small response grow, so fewer responses fit into the memory.
#[test]
fn a_small_response_takes_much_more_than_its_body() {
    let mut store = store(10_000_000, "lru");
    let now = Now {
        time: Time::ZERO,
        unix_seconds: 0,
    };
    for number in 0..100 {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("date", "Sun, 06 Nov 1994 08:49:37 GMT".to_owned()),
            ("server", "Apache/2.4.62 (Debian)".to_owned()),
            ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT".to_owned()),
            ("etag", format!("\"{number:016x}\"")),
            ("accept-ranges", "bytes".to_owned()),
            ("cache-control", "public, max-age=86400".to_owned()),
            ("content-type", "text/html; charset=utf-8".to_owned()),
            ("x-content-type-options", "nosniff".to_owned()),
            (
                "strict-transport-security",
                "max-age=63072000; includeSubDomains".to_owned(),
            ),
            ("via", "1.1 larder".to_owned()),
        ] {
            headers.insert(name, HeaderValue::try_from(value).unwrap());
        }
        let target = format!("/articles/{number}.html");
        let key = Key::new("https", "www.example.com", &target);
        let hash = key.hash(&SECRET);
        let freshness = Freshness::of(
            StatusCode::OK,
            &headers,
            &ResponseDirectives::default(),
            Time::ZERO,
            now,
        );
        let mut stored = Stored::new(
            key.to_bytes(),
            hash,
            Selector::default(),
            StatusCode::OK,
            &headers,
            freshness,
        );
        stored.set_body(Bytes::from(vec![0; 1024]));
        let before = store.engine.read(PolicyEngine::figures).used().bytes();
        assert!(store.put(&stored, Time::ZERO));
        let beyond = store.engine.read(PolicyEngine::figures).used().bytes() - before - 1024;
        // The first ones share no line yet.
        assert!(number < 2 || beyond <= 400, "{beyond}");
    }
    store.check_invariants();
}

/// Failure: two entries have one owner, or the owner of none is that of an entry.
#[test]
fn owners_are_told_apart() {
    let last = EntryId((1 << 26) - 1);
    for shard in [0, 1, limits::SHARDS - 1] {
        for entry in [EntryId(0), EntryId(1), last] {
            let owner = Owner::new(shard, entry).unwrap();
            assert_eq!((owner.shard(), owner.entry()), (shard, entry));
        }
        assert_eq!(Owner::new(shard, EntryId(last.0 + 1)), None);
        assert_eq!(Owner::new(shard, NO_ENTRY), None);
    }
}
