//! Invariants of every policy in the registry, over the same traffic: capacity, victims,
//! accounting, determinism, bounded state.

use crate::traffic::{Owner, Zipf, every_policy, size_of};
use larder_policy::Spec;
use larder_units::Time;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Request(u64, u64),
    /// Stored although no policy was asked.
    Insert(u64, u64),
    Remove(u64),
    Resize(u64),
    Job,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (0..60u64, 0..400u64).prop_map(|(id, size)| Step::Request(id, size)),
        2 => (0..60u64, 0..1500u64).prop_map(|(id, size)| Step::Insert(id, size)),
        2 => (0..60u64).prop_map(Step::Remove),
        1 => (0..2000u64).prop_map(Step::Resize),
        1 => Just(Step::Job),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_order_of_calls_keeps_the_books(steps in proptest::collection::vec(step(), 0..300), capacity in 0..2000u64) {
        for spec in every_policy() {
            let mut owner = Owner::new(&spec, capacity, 1);
            for (second, step) in steps.iter().enumerate() {
                let now = Time::from_secs(second as u64);
                match *step {
                    Step::Request(id, size) => { owner.request(id, size, now); }
                    Step::Insert(id, size) => if !owner.index.contains_key(&id) { owner.insert(id, size, now) },
                    Step::Remove(id) => owner.remove(id),
                    Step::Resize(capacity) => owner.resize(capacity),
                    Step::Job => owner.run_jobs(),
                }
                owner.check();
            }
        }
    }
}

fn hits(spec: &Spec, seed: u64, capacity: u64, requests: u64) -> (u64, usize) {
    let mut owner = Owner::new(spec, capacity, seed);
    let mut zipf = Zipf::new(2000, 0.9, 7);
    let mut hits = 0;
    for second in 0..requests {
        let id = zipf.draw();
        hits += u64::from(owner.request(id, size_of(id), Time::from_secs(second)));
        owner.run_jobs();
    }
    owner.check();
    (hits, owner.engine.state_bytes())
}

#[test]
fn the_same_seed_gives_other_decisions() {
    for spec in every_policy() {
        assert_eq!(
            hits(&spec, 3, 10 << 20, 5_000),
            hits(&spec, 3, 10 << 20, 5_000),
            "{spec}"
        );
    }
    let random = "random".parse().unwrap();
    assert_ne!(
        hits(&random, 3, 10 << 20, 5_000).0,
        hits(&random, 4, 10 << 20, 5_000).0,
        "the seed does not matter"
    );
}

#[test]
fn a_policy_that_never_hits() {
    for spec in every_policy() {
        let (hits, state) = hits(&spec, 1, 20 << 20, 20_000);
        assert!(hits > 2_000, "{spec}: {hits} of 20000");
        assert!(
            state < 2 << 20,
            "{spec}: {state} bytes of state for 2000 objects"
        );
    }
}

#[test]
fn state_that_grows_with_traffic_and_not_with_the_cache() {
    for spec in every_policy() {
        let mut owner = Owner::new(&spec, 64 << 10, 1);
        let scan = |owner: &mut Owner, range: std::ops::Range<u64>| {
            for id in range {
                owner.request(id, 1000, Time::ZERO);
                if id % 1000 == 0 {
                    owner.run_jobs();
                }
            }
            owner.engine.state_bytes()
        };
        // Long enough for AdaptSize's second interval; an eviction alone has seen the cache turned
        // over a hundred times long before.
        let half = if spec.to_string().contains('+') {
            520_000
        } else {
            20_000
        };
        let early = scan(&mut owner, 0..half);
        let late = scan(&mut owner, half..half + half / 2);
        assert!(
            late <= early + early / 4,
            "{spec}: {early} bytes, then {late}"
        );
    }
}

#[test]
fn stale_slots_do_harm() {
    for spec in every_policy() {
        let mut owner = Owner::new(&spec, 1000, 1);
        owner.insert(1, 100, Time::ZERO);
        let slot = owner.index[&1];
        owner.remove(1);
        owner.engine.remove(slot);
        owner.engine.hit(slot, 1, Time::ZERO);
        owner.check();
        owner.insert(2, 100, Time::ZERO);
        owner.check();
    }
}

#[test]
fn what_is_larger_than_the_cache_empties_it() {
    for spec in every_policy() {
        let mut owner = Owner::new(&spec, 1000, 1);
        owner.insert(1, 100, Time::ZERO);
        owner.insert(2, 1001, Time::ZERO);
        owner.insert(3, u64::MAX, Time::ZERO);
        owner.request(4, 5000, Time::ZERO);
        assert_eq!(owner.index.keys().collect::<Vec<_>>(), [&1], "{spec}");
        owner.resize(u64::MAX);
        owner.insert(3, u64::MAX, Time::ZERO);
        owner.insert(4, u64::MAX - 1, Time::ZERO);
        owner.check();
    }
}

#[test]
fn objects_without_bytes_are_without_bound() {
    let mut owner = Owner::new(&"lru".parse().unwrap(), 100, 1);
    for id in 0..1000 {
        owner.insert(id, 0, Time::ZERO);
    }
    assert_eq!(owner.engine.len(), 100);
}
