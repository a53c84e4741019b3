//! Policies that know the trace ahead are bounds: nobody may beat them, and they must be what they
//! are said to be.

use crate::traffic::{Owner, Zipf, every_policy, size_of};
use larder_policy::{Engine, Future, FutureBuilder, Spec};
use larder_units::{ByteSize, Streams, Time};
use proptest::prelude::*;
use std::sync::Arc;

/// An id and a size each.
type Requests = Vec<(u64, u64)>;

fn foreseen(requests: &Requests) -> Arc<Future> {
    let mut trace = FutureBuilder::default();
    for (id, size) in requests {
        trace.push(*id, *size).unwrap();
    }
    Arc::new(trace.build())
}

fn replayed(spec: &Spec, capacity: u64, requests: &Requests, future: &Arc<Future>) -> Owner {
    let mut owner = Owner::foreseeing(spec, capacity, 1, future);
    for (id, size) in requests {
        owner.hits += u64::from(owner.request(*id, *size, Time::ZERO));
        owner.run_jobs();
    }
    owner.check();
    owner
}

fn hits(spec: &str, capacity: u64, requests: &Requests) -> u64 {
    replayed(
        &spec.parse().unwrap(),
        capacity,
        requests,
        &foreseen(requests),
    )
    .hits
}

fn zipf(requests: usize, size: impl Fn(u64) -> u64) -> Requests {
    let mut zipf = Zipf::new(3000, 0.9, 5);
    (0..requests)
        .map(|_| zipf.draw())
        .map(|id| (id, size(id)))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn nobody_hits_more_than_belady_where_sizes_are_equal(ids in proptest::collection::vec(0..40_u64, 1..500), capacity in 1..30_u64) {
        let requests = ids.into_iter().map(|id| (id, 10)).collect();
        let future = foreseen(&requests);
        let hits = |spec: &Spec| replayed(spec, capacity * 10, &requests, &future).hits;
        let bound = hits(&"belady".parse().unwrap());
        prop_assert_eq!(hits(&"belady-size".parse().unwrap()), bound);
        for spec in every_policy() {
            prop_assert!(hits(&spec) <= bound, "{}: {} of {}", spec, hits(&spec), bound);
        }
    }

    #[test]
    fn belady_is_another_policy(ids in proptest::collection::vec(0..40_u64, 1..400), capacity in 1..400_u64, equal: bool) {
        let size = |id: u64| if equal { 10 } else { 1 + id * 7 % 40 };
        let requests: Requests = ids.into_iter().map(|id| (id, size(id))).collect();
        for (spec, bypasses) in [("belady", true), ("belady(always)", false)] {
            prop_assert_eq!(hits(spec, capacity, &requests), naive(&requests, capacity, bypasses), "{}", spec);
        }
    }
}

/// Belady by looking through the rest of the trace at each eviction.
fn naive(requests: &Requests, capacity: u64, bypasses: bool) -> u64 {
    let mut hits = 0;
    let mut stored: Requests = Vec::new();
    for (now, (id, size)) in requests.iter().enumerate() {
        let next = |id: u64| {
            requests[now + 1..]
                .iter()
                .position(|(later, _)| *later == id)
                .unwrap_or(usize::MAX)
        };
        if stored.iter().any(|(cached, _)| cached == id) {
            hits += 1;
            continue;
        }
        let mut kept = stored.clone();
        kept.sort_by_key(|(id, _)| next(*id));
        let mut is_last = false;
        while kept.iter().map(|(_, size)| size).sum::<u64>() + size > capacity
            && let Some((victim, _)) = kept.pop()
        {
            is_last |= next(victim) <= next(*id);
        }
        if *size <= capacity && !(bypasses && is_last) {
            kept.push((*id, *size));
            stored = kept;
        }
    }
    hits
}

#[test]
fn belady_evicts_what_comes_again_first() {
    // The example of every textbook: three frames, and 7 0 1 2 0 3 0 4 2 3 0 3 2 1 2 0 1 7 0 1 has
    // nine faults under MIN.
    let requests: Requests = [7, 0, 1, 2, 0, 3, 0, 4, 2, 3, 0, 3, 2, 1, 2, 0, 1, 7, 0, 1]
        .map(|page| (page, 1))
        .to_vec();
    assert_eq!(hits("belady(always)", 3, &requests), 20 - 9);
}

#[test]
fn sizes_do_not_matter_to_belady_size() {
    // Of 40,000 requests for sizes from 100 B to 1.6 MB: LRU 15,478, belady 24,081, gdsf 29,542,
    // belady-size 32,259.
    let requests = zipf(40_000, size_of);
    let [lru, belady, gdsf, by_size] =
        ["lru", "belady", "gdsf", "belady-size"].map(|spec| hits(spec, 20 << 20, &requests));
    assert!(
        lru < belady && belady < gdsf && 20 * by_size > 21 * gdsf,
        "{lru} {belady} {gdsf} {by_size}"
    );
}

#[test]
fn lookahead_does_not_look_ahead() {
    // Small objects, then only large ones: whoever learns from the past has the wrong c at every
    // change. What is popular changes with it.
    let mut requests = zipf(120_000, |_| 0);
    for (place, (id, size)) in requests.iter_mut().enumerate() {
        let phase = place as u64 / 20_000;
        *id += phase * 10_000;
        *size = if phase.is_multiple_of(2) == id.is_multiple_of(3) {
            100
        } else {
            4_000
        };
        // What nobody asks for twice, of the size that the phase has not.
        if place % 3 == 0 {
            *id = 1_000_000 + place as u64;
            *size = if phase.is_multiple_of(2) { 200_000 } else { 50 };
        }
    }
    let hits = |spec: &str| hits(spec, 1 << 20, &requests);
    let [lru, fixed, ahead] = [
        "lru",
        "static+lru",
        "lookahead(threshold,interval=5000,window=20000)+lru",
    ]
    .map(hits);
    assert!(lru < fixed && fixed <= ahead, "{lru} {fixed} {ahead}");
    // The chance has no better c than the threshold where sizes are apart, and finds nearly as
    // much.
    let chance = hits("lookahead(interval=5000,window=20000)+lru");
    assert!(chance > lru && chance * 10 > ahead * 9, "{chance} {ahead}");
}

#[test]
fn static_is_not_the_best_fixed_threshold() {
    let requests = zipf(30_000, size_of);
    let found = hits("static+lru", 10 << 20, &requests);
    for log in 0..=23 {
        let fixed = hits(
            &format!("threshold(c={})+lru", 1_u64 << log),
            10 << 20,
            &requests,
        );
        assert!(fixed <= found, "c = 2^{log}: {fixed}, static {found}");
    }
}

#[test]
fn lookahead_s_shadow_is_another_cache() {
    // With the whole trace ahead and no second choice, the tries' threshold finds what the cache
    // then has: the shadow is the cache.
    let requests = zipf(30_000, size_of);
    let future = foreseen(&requests);
    let once = "lookahead(threshold,interval=30000,window=30000)+lru"
        .parse()
        .unwrap();
    let often = "lookahead(threshold,interval=1000,window=30000)+lru"
        .parse()
        .unwrap();
    let [once, often] = [once, often].map(|spec| replayed(&spec, 10 << 20, &requests, &future));
    // Never worse for choosing again with the same end in view: each choice may keep the last.
    assert!(often.hits >= once.hits, "{} {}", often.hits, once.hits);
}

#[test]
fn a_node_is_asked_to_know_the_future() {
    for name in [
        "belady",
        "belady-size",
        "lookahead+lru",
        "static+lru",
        "lru+belady",
    ] {
        let Ok(spec) = name.parse::<Spec>() else {
            continue;
        };
        let error = Engine::new(&spec, ByteSize::from_mib(1), &Streams::new(1))
            .err()
            .expect(name)
            .to_string();
        assert!(
            error.contains("knows the trace ahead, only `larder replay` can run it"),
            "{error}"
        );
        assert!(spec.is_offline());
    }
    assert!(!"filter+lru".parse::<Spec>().unwrap().is_offline());
}
