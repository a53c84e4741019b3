//! Each eviction policy against a naive model of its definition: vectors of ids, searched from one
//! end.

use crate::models::*;
use crate::traffic::{self, Owner};
use larder_units::Time;
use proptest::prelude::*;

/// Requests and removals of a few objects.
fn steps() -> impl Strategy<Value = Vec<(bool, u64)>> {
    // Few are popular, so that there are hits on what was nearly gone.
    let id = prop_oneof![0..6u64, 0..40u64];
    proptest::collection::vec((proptest::bool::weighted(0.02), id), 0..600)
}

/// The same requests for the policy and for its model; `equal`: every object has the same size.
fn compare(
    spec: &str,
    model: &mut impl Model,
    equal: bool,
    steps: &[(bool, u64)],
) -> Result<(), TestCaseError> {
    let mut owner = Owner::new(&spec.parse().unwrap(), CAPACITY, 1);
    for (second, (removal, id)) in steps.iter().copied().enumerate() {
        let now = Time::from_secs(second as u64);
        let size = if equal { 10 } else { 1 + id * 7 % 40 };
        if removal {
            owner.remove(id);
            model.remove(id);
        } else {
            let hit = owner.request(id, size, now);
            prop_assert_eq!(
                hit,
                model.request(id, size),
                "request {} of {}, {}",
                second,
                id,
                spec
            );
        }
        let mut cached: Vec<_> = owner.index.keys().copied().collect();
        let mut expected = model.cached();
        cached.sort_unstable();
        expected.sort_unstable();
        prop_assert_eq!(
            cached,
            expected,
            "after request {} of {}, {}",
            second,
            id,
            spec
        );
    }
    Ok(())
}

proptest! {
    // 600 steps each and every policy: more cases would take most of the crate's test time.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn clock(steps in steps(), equal: bool) {
        compare("clock", &mut Clock::default(), equal, &steps)?;
    }

    #[test]
    fn sieve(steps in steps(), equal: bool) {
        compare("sieve", &mut Sieve::default(), equal, &steps)?;
    }

    #[test]
    fn s3fifo(steps in steps(), equal: bool, percent in 5..60u64) {
        compare(&format!("s3fifo(small={percent})"), &mut S3Fifo::new(percent), equal, &steps)?;
    }

    #[test]
    fn slru(steps in steps(), equal: bool, segments in 1..7usize, parts in [1..9u64, 1..9u64, 1..9u64, 1..9u64]) {
        compare(&format!("slru(segments={segments})"), &mut Slru::new(vec![1; segments]), equal, &steps)?;
        compare("s4lru", &mut Slru::new(vec![1; 4]), equal, &steps)?;
        let [one, two, three, four] = parts;
        let spec = format!("s4lru(part1={one},part2={two},part3={three},part4={four})");
        compare(&spec, &mut Slru::new(parts.to_vec()), equal, &steps)?;
    }

    #[test]
    fn two_q(steps in steps(), equal: bool, share in 5..60u64, out in 5..100u64) {
        compare(&format!("2q(in={share},out={out})"), &mut TwoQ::new(share, out), equal, &steps)?;
    }

    #[test]
    fn arc(steps in steps(), equal: bool) {
        compare("arc", &mut Arc::default(), equal, &steps)?;
    }

    #[test]
    fn car(steps in steps(), equal: bool) {
        compare("car", &mut Car::default(), equal, &steps)?;
    }

    #[test]
    fn lirs(steps in steps(), equal: bool, percent in 0..101u64) {
        compare(&format!("lirs(hir={percent}%)"), &mut Lirs::new(percent), equal, &steps)?;
    }

    #[test]
    fn clock_pro(steps in steps(), equal: bool) {
        compare("clock-pro", &mut ClockPro::default(), equal, &steps)?;
    }

    #[test]
    fn lecar(steps in steps(), equal: bool) {
        compare("lecar", &mut Lecar::default(), equal, &steps)?;
    }

    #[test]
    fn lfu(steps in steps(), equal: bool) {
        compare("lfu", &mut Ranked::new(Rank::Frequency), equal, &steps)?;
        compare("lfu(ageing=dynamic)", &mut Ranked::new(Rank::AgedFrequency), equal, &steps)?;
    }

    #[test]
    fn greedy_dual_size(steps in steps(), equal: bool) {
        compare("gds", &mut Ranked::new(Rank::GreedyDual { frequency: false }), equal, &steps)?;
        compare("gdsf(always)", &mut Ranked::new(Rank::GreedyDual { frequency: true }), equal, &steps)?;
        compare("gdsf", &mut Ranked::new(Rank::GreedyDual { frequency: true }).bypassing(), equal, &steps)?;
    }

    #[test]
    fn lhd(steps in steps(), equal: bool) {
        compare("lhd", &mut Lhd::default(), equal, &steps)?;
    }

    #[test]
    fn lru_k(steps in steps(), equal: bool, k in prop_oneof![1..5usize, 5..40usize], percent in 0..101u64) {
        compare(&format!("lru-k(k={k},history={percent})"), &mut LruK::new(k, percent), equal, &steps)?;
    }

    #[test]
    fn hyperbolic(steps in steps(), equal: bool) {
        // Fewer objects than a sample: the least of all leaves.
        compare("hyperbolic(sample=1000)", &mut Hyperbolic::default(), equal, &steps)?;
    }

    #[test]
    fn random_priority(steps in steps(), equal: bool) {
        compare("random-priority", &mut RandomPriority::default(), equal, &steps)?;
    }
}

#[test]
fn random_priority_prefers_some() {
    // A reservoir: of a thousand different objects, each is among the hundred stored with the same
    // chance.
    let mut stored = [0_u32; 10];
    for seed in 0..20 {
        let mut owner = Owner::new(&"random-priority".parse().unwrap(), 100, seed);
        for id in 0..1000 {
            _ = owner.request(id, 1, Time::ZERO);
        }
        for id in owner.index.keys() {
            stored[(id / 100) as usize] += 1;
        }
    }
    // χ² with nine degrees of freedom: 27.9 is exceeded once in a thousand.
    let chi: f64 = stored
        .iter()
        .map(|count| (f64::from(*count) - 200.0).powi(2) / 200.0)
        .sum();
    assert!(chi < 27.9, "{chi}: {stored:?}");
}

/// As long as it takes to compute densities three times.
#[test]
fn lhd_learns_something_else() {
    for equal in [false, true] {
        let mut zipf = traffic::Zipf::new(40, 0.7, 5);
        let steps: Vec<(bool, u64)> = (0..14_000)
            .map(|step| (step % 97 == 0, zipf.draw()))
            .collect();
        compare("lhd", &mut Lhd::default(), equal, &steps).unwrap();
    }
}

/// Of a thousand objects every second is requested again and again; newcomers must not displace
/// those.
fn keeps_what_is_requested(spec: &str) {
    let mut owner = Owner::new(&spec.parse().unwrap(), 1000, 1);
    for id in 0..1000 {
        _ = owner.request(id, 1, Time::ZERO);
    }
    for round in 0..20 {
        for pair in 0..500 {
            _ = owner.request(pair * 2, 1, Time::ZERO);
        }
        for nth in 0..20 {
            _ = owner.request(10_000 + round * 20 + nth, 1, Time::ZERO);
        }
    }
    let kept = (0..500)
        .filter(|pair| owner.index.contains_key(&(pair * 2)))
        .count();
    assert!(kept >= 498, "{spec}: {kept} of 500");
}

#[test]
fn hyperbolic_evicts_what_is_requested() {
    keeps_what_is_requested("hyperbolic");
}

#[test]
fn lhd_evicts_what_is_requested() {
    keeps_what_is_requested("lhd");
}

#[test]
fn lhd_keeps_what_is_large() {
    // The same traffic to small and to large objects: hits a byte come from the small ones. LRU, to
    // which size is nothing, has 1.14 hits on small for one on large objects, GDSF 1.89, LHD 1.94.
    let mut owner = Owner::new(&"lhd".parse().unwrap(), 20_000, 1);
    let mut zipf = traffic::Zipf::new(2000, 0.8, 3);
    let (mut small, mut large) = (0, 0);
    for _ in 0..60_000 {
        let id = zipf.draw();
        let is_large = id % 2 == 1;
        if owner.request(id, if is_large { 100 } else { 10 }, Time::ZERO) {
            *(if is_large { &mut large } else { &mut small }) += 1;
        }
    }
    assert!(
        10 * small > 17 * large,
        "{small} hits on small, {large} on large objects"
    );
}
