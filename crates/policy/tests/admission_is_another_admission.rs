//! Each admission policy against a naive model of its definition; those that throw dice also
//! against the share that they should admit.

use crate::traffic::{self, Owner};
use larder_units::{Stream, Streams, Time};
use proptest::prelude::*;
use std::collections::HashMap;

fn requests() -> impl Strategy<Value = Vec<(bool, u64)>> {
    proptest::collection::vec((proptest::bool::weighted(0.05), 0..25u64), 0..400)
}

fn size(id: u64) -> u64 {
    1 + id * 7 % 40
}

/// The stream of the first stage of an owner with this seed.
fn stream_of(name: &str, seed: u64) -> Stream {
    Streams::new(seed).stream(&format!("policy stage 0 {name}"))
}

/// The naive LRU: ids, the newest at the end.
#[derive(Clone, Default)]
struct NaiveLru(Vec<u64>);

impl NaiveLru {
    fn hit(&mut self, id: u64) -> bool {
        let place = self.0.iter().position(|cached| *cached == id);
        if let Some(place) = place {
            let id = self.0.remove(place);
            self.0.push(id);
        }
        place.is_some()
    }

    /// Whom an object of this size would displace.
    fn displaced(&self, bytes: u64, capacity: u64) -> &[u64] {
        let used: u64 = self.0.iter().map(|id| size(*id)).sum();
        let mut left = used + bytes;
        let count = self.0.iter().take_while(|id| {
            let more = left > capacity;
            left -= size(**id);
            more
        });
        &self.0[..count.count()]
    }

    fn insert(&mut self, id: u64, capacity: u64) {
        let gone = self.displaced(size(id), capacity).len();
        self.0.drain(..gone);
        self.0.push(id);
    }
}

/// What is stored must follow `admits`, asked at every miss; hits are told too.
fn follows(
    text: &str,
    steps: &[(bool, u64)],
    mut admits: impl FnMut(u64, bool) -> bool,
) -> Result<(), TestCaseError> {
    let mut owner = Owner::new(&text.parse().unwrap(), 100, 1);
    for (second, (removal, id)) in steps.iter().copied().enumerate() {
        if removal {
            owner.remove(id);
            continue;
        }
        let hit = owner.request(id, size(id), Time::from_secs(second as u64));
        let admitted = admits(id, hit);
        prop_assert_eq!(
            owner.index.contains_key(&id),
            hit || admitted,
            "request {} for {}",
            second,
            id
        );
    }
    Ok(())
}

proptest! {
    #[test]
    fn probability(steps in requests(), percent in 0..=100u64) {
        let mut dice = stream_of("probability", 1);
        let p = percent as f64 / 100.0;
        follows(&format!("probability(p={percent}%)+lru"), &steps, |_, hit| !hit && dice.unit() < p)?;
    }

    #[test]
    fn expsize(steps in requests(), c in 1..80u64) {
        let mut dice = stream_of("expsize", 1);
        let chance = |id| (-(size(id) as f64) / c as f64).exp();
        follows(&format!("expsize(c={c})+lru"), &steps, |id, hit| !hit && dice.unit() < chance(id))?;
    }

    #[test]
    fn lrus(steps in requests(), unit in 1..50u64) {
        let mut dice = stream_of("lrus", 1);
        let chance = |id| unit as f64 / size(id) as f64;
        follows(&format!("lrus(unit={unit})+lru"), &steps, |id, hit| !hit && dice.unit() < chance(id))?;
    }

    #[test]
    fn threshold(steps in requests(), c in 1..50u64) {
        follows(&format!("threshold(c={c})+lru"), &steps, |id, _| size(id) <= c)?;
    }

    #[test]
    fn after(steps in requests(), n in 1..5u32, keys in 1..30usize, inactive in 1..200u64) {
        // The requests of each object since it was last admitted, each with its second: the newest
        // object at the end.
        let mut counted: Vec<(u64, Vec<u64>)> = Vec::new();
        let mut owner = Owner::new(&format!("after(n={n},keys={keys},inactive={inactive})+lru").parse().unwrap(), 100, 1);
        for (second, (removal, id)) in steps.into_iter().enumerate() {
            let second = second as u64;
            if removal {
                owner.remove(id);
                continue;
            }
            if owner.request(id, size(id), Time::from_secs(second)) {
                continue;
            }
            let known = counted.iter().position(|(counted, _)| *counted == id);
            let mut seconds = known.map(|place| counted.remove(place).1).unwrap_or_default();
            seconds.push(second);
            counted.push((id, seconds));
            if counted.len() > keys {
                counted.remove(0);
            }
            let seconds = &counted.last().unwrap().1;
            let pause = seconds.windows(2).rposition(|pair| pair[1] - pair[0] > inactive).map_or(0, |place| place + 1);
            let admitted = (seconds.len() - pause) as u32 >= n;
            if admitted {
                counted.pop();
            }
            prop_assert_eq!(owner.index.contains_key(&id), admitted, "second {}", second);
        }
    }

    #[test]
    fn bloom(steps in requests(), window in 1..40usize) {
        // Two sets: these 25 ids are not mistaken for each other (the hash is fixed).
        let mut sets: [Vec<u64>; 2] = Default::default();
        follows(&format!("bloom(window={window})+lru"), &steps, |id, hit| {
            let known = sets.iter().any(|set| set.contains(&id));
            if sets[0].len() >= window {
                sets[1] = std::mem::take(&mut sets[0]);
            }
            if !sets[0].contains(&id) {
                sets[0].push(id);
            }
            !hit && known
        })?;
    }

    #[test]
    fn tinylfu(steps in requests(), window in 1..300usize, doorkeeper in any::<bool>()) {
        let word = if doorkeeper { "on" } else { "off" };
        let mut owner = Owner::new(&format!("tinylfu(window={window},doorkeeper={word})+lru").parse().unwrap(), 100, 1);
        let mut lru = NaiveLru::default();
        let (mut counts, mut marks, mut requests) = (HashMap::new(), Vec::new(), 0);
        for (removal, id) in steps {
            if removal {
                owner.remove(id);
                lru.0.retain(|cached| *cached != id);
                continue;
            }
            if doorkeeper && !marks.contains(&id) {
                marks.push(id);
            } else {
                let count: &mut u32 = counts.entry(id).or_default();
                *count = (*count + 1).min(15);
            }
            requests += 1;
            if requests >= window {
                for count in counts.values_mut() { *count /= 2; }
                requests /= 2;
                marks.clear();
            }
            let frequency = |id: &u64| counts.get(id).copied().unwrap_or(0) + u32::from(marks.contains(id));
            if !lru.hit(id) {
                let displaced = lru.displaced(size(id), 100);
                let theirs: u32 = displaced.iter().map(|victim| frequency(victim).max(1)).sum();
                let smaller = size(id) < displaced.iter().map(|victim| size(*victim)).sum();
                if displaced.is_empty() || theirs < frequency(&id) || theirs == frequency(&id) && smaller {
                    lru.insert(id, 100);
                }
            }
            owner.request(id, size(id), Time::ZERO);
            let mut cached: Vec<_> = owner.index.keys().copied().collect();
            let mut expected = lru.0.clone();
            cached.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(cached, expected);
        }
    }

    #[test]
    fn hillclimb(steps in requests(), interval in 1..60u64, start in 1..100u64, step in proptest::option::of(1..200u64)) {
        let mut dice = stream_of("hillclimb", 1);
        let mut c = start as f64;
        let mut shadows: [(NaiveLru, u64); 2] = Default::default();
        let mut requests = 0;
        let moves = step.map(|step| format!(",step={step}")).unwrap_or_default();
        follows(&format!("hillclimb(interval={interval},start={start}{moves})+lru"), &steps, |id, hit| {
            let chance = |c: f64| (-(size(id) as f64) / c).exp();
            let [below, above] = step.map_or([c / 2.0, c * 2.0], |step| [c - step as f64, c + step as f64]);
            let probes = if step.is_some() { [below.max(1.0), above] } else { [below, c * 1.5] };
            for ((lru, hits), probe) in shadows.iter_mut().zip(probes) {
                if lru.hit(id) {
                    *hits += 1;
                } else if dice.unit() < chance(probe) {
                    lru.insert(id, 100);
                }
            }
            requests += 1;
            if requests == interval {
                requests = 0;
                let [(low, low_hits), (high, high_hits)] = &mut shadows;
                if low_hits > high_hits {
                    *high = low.clone();
                    c = below;
                } else if high_hits > low_hits {
                    *low = high.clone();
                    c = above;
                }
                c = c.clamp(1.0, 100.0);
                (*low_hits, *high_hits) = (0, 0);
            }
            !hit && dice.unit() < chance(c)
        })?;
    }
}

#[test]
fn shares_that_are_no_chances() {
    for text in [
        "probability(p=1.5)+lru",
        "probability(p=-1)+lru",
        "probability(p=NaN)+lru",
        "probability(p=x)+lru",
    ] {
        let error = text.parse::<larder_policy::Spec>().unwrap_err().to_string();
        assert!(
            error.ends_with("is not a share between 0 and 1, such as \"0.1\" or \"10%\""),
            "{error}"
        );
    }
    // 10,000 objects, a quarter of which should come in: deviation 43.
    let mut owner = Owner::new(&"probability(p=0.25)+lru".parse().unwrap(), 100_000, 3);
    for id in 0..10_000 {
        assert!(!owner.request(id, 1, Time::ZERO));
    }
    assert!(
        (2300..2700).contains(&owner.engine.len()),
        "{}",
        owner.engine.len()
    );
}

#[test]
fn a_climb_that_never_leaves_its_start() {
    // Many small objects and a few large ones that fill the cache: c must come down from 2^18 to
    // below the large ones' size.
    let mut owner = Owner::new(
        &"hillclimb(interval=2000,start=256KiB)+lru".parse().unwrap(),
        1 << 20,
        1,
    );
    let mut zipf = traffic::Zipf::new(4000, 0.7, 7);
    for _ in 0..60_000 {
        let id = zipf.draw();
        owner.request(
            id,
            if id.is_multiple_of(10) { 100_000 } else { 500 },
            Time::ZERO,
        );
    }
    let c = owner
        .engine
        .gauges()
        .iter()
        .find(|(_, gauge)| gauge.name == "c_bytes")
        .unwrap()
        .1
        .value;
    assert!((500.0..50_000.0).contains(&c), "{c}");
}
