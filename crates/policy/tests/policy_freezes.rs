//! A cache that keeps what it stored first, whatever is requested later.

use crate::traffic::{Owner, every_policy};
use larder_policy::Spec;
use larder_units::Time;

/// Hits of 3,000 requests for one new object, after `requests` for each of three others that fill
/// the cache.
fn hits_on_the_next(spec: &Spec, requests: u64) -> u64 {
    let mut owner = Owner::new(spec, 30, 1);
    let old = (0..requests).flat_map(|_| [1, 2, 3]);
    for (second, id) in old.enumerate() {
        owner.request_or_fill(id, 10, Time::from_secs(second as u64));
    }
    let hits = |number: u64| owner.request_or_fill(4, 10, Time::from_secs(3 * requests + number));
    (0..3_000).map(hits).filter(|hit| *hit).count() as u64
}

#[test]
fn what_fills_the_cache_first_stays_for_ever() {
    for spec in every_policy() {
        if spec.is_offline() {
            // It knows that nothing comes again, as these tests tell it.
            continue;
        }
        for requests in [2, 3, 20] {
            let hits = hits_on_the_next(&spec, requests);
            assert!(
                hits >= 2_000,
                "{spec}: {hits} of 3,000 after {requests} requests for each of the others"
            );
        }
    }
}

/// Failure: objects of different sizes, of which the small one alone is worth too little, keep all
/// room from a large one.
#[test]
fn a_small_old_object_protects_a_large_one() {
    for spec in ["gdsf", "agd"] {
        let mut owner = Owner::new(&spec.parse().unwrap(), 30, 1);
        for (second, (id, size)) in (0..20).flat_map(|_| [(1, 1), (2, 29)]).enumerate() {
            owner.request_or_fill(id, size, Time::from_secs(second as u64));
        }
        let hits = (0..3_000_u64).filter(|_| owner.request_or_fill(4, 20, Time::from_secs(100)));
        let hits = hits.count();
        assert!(hits > 2_500, "{spec}: {hits} of 3,000");
    }
}
