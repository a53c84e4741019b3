//! The admissions that depend on a cache's place on the path, in a line of four caches between a
//! producer and a consumer.

use crate::traffic::{Owner, Zipf};
use larder_policy::Path;
use larder_units::Time;

/// The betweenness of each cache of the line: the third is the most central.
const BETWEENNESS: [f64; 4] = [2.0, 3.0, 5.0, 2.0];

/// Caches by their distance from the producer; the consumer asks the last.
struct Line {
    caches: Vec<Owner>,
    capacities: [u64; 4],
}

impl Line {
    fn new(admission: &str, capacities: [u64; 4]) -> Line {
        let spec = format!("{admission}+lru").parse().unwrap();
        Line {
            caches: capacities
                .iter()
                .map(|capacity| Owner::new(&spec, *capacity, *capacity))
                .collect(),
            capacities,
        }
    }

    /// One request of the consumer for an object of one byte; the caches on the way of the answer
    /// that stored it.
    fn request(&mut self, id: u64) -> Vec<usize> {
        let last = self.caches.len() - 1;
        let hit =
            (0..=last)
                .rev()
                .find(|cache| match self.caches[*cache].index.get(&id).copied() {
                    Some(slot) => {
                        self.caches[*cache].engine.hit(slot, id, Time::ZERO);
                        true
                    }
                    None => {
                        self.caches[*cache].engine.miss(id, Time::ZERO);
                        false
                    }
                });
        let first = hit.map_or(0, |cache| cache + 1);
        let greatest = BETWEENNESS[first.min(last)..]
            .iter()
            .copied()
            .fold(0.0, f64::max);
        (first..=last)
            .filter(|cache| {
                let path = Path {
                    hops_from_source: (cache - first + 1) as u32,
                    hops_to_consumer: (last - cache) as u32,
                    capacity_to_consumer: self.capacities[*cache..].iter().sum(),
                    betweenness: BETWEENNESS[*cache],
                    greatest_betweenness: greatest,
                };
                let owner = &mut self.caches[*cache];
                let admitted = owner.engine.admit_from(id, 1, Time::ZERO, &path);
                if admitted {
                    owner.insert(id, 1, Time::ZERO);
                }
                admitted
            })
            .collect()
    }

    /// The share of answers from the producer, for objects asked for once, that each cache stores.
    fn shares(&mut self) -> [f64; 4] {
        let mut copies = [0_u32; 4];
        for id in 0..40_000 {
            for cache in self.request(id) {
                copies[cache] += 1;
            }
        }
        copies.map(|count| f64::from(count) / 40_000.0)
    }
}

#[test]
fn lce_leaves_a_cache_out() {
    let mut line = Line::new("lce", [100; 4]);
    assert_eq!(line.request(1), [0, 1, 2, 3]);
    assert_eq!(line.request(1), [0; 0], "the consumer's own cache answers");
}

#[test]
fn lcd_copies_further_than_a_hop_down() {
    let mut line = Line::new("lcd", [100; 4]);
    for hop in 0..4 {
        assert_eq!(line.request(1), [hop]);
    }
    assert_eq!(line.request(1), [0; 0]);
    assert_eq!(line.request(2), [0]);
}

#[test]
fn betweenness_copies_beside_the_centre() {
    let mut line = Line::new("betweenness", [100; 4]);
    assert_eq!(line.request(1), [2]);
    // Between the centre and the consumer there is one more cache, the most central of that shorter
    // path.
    assert_eq!(line.request(1), [3]);
}

/// What equation 3 of ProbCache gives for an answer of the producer, at most 1.
fn published(capacities: [u64; 4], window: f64, power: bool) -> [f64; 4] {
    std::array::from_fn(|cache| {
        let times_in =
            capacities[cache..].iter().sum::<u64>() as f64 / (window * capacities[cache] as f64);
        let weight = (cache + 1) as f64 / 4.0;
        (times_in * if power { weight.powi(4) } else { weight }).min(1.0)
    })
}

#[test]
fn probcache_departs_from_its_equation() {
    for (spec, capacities, window, power) in [
        ("probcache", [100; 4], 10.0, false),
        ("probcache(window=3)", [50, 100, 200, 400], 3.0, false),
        (
            "probcache(window=1,weight=power)",
            [400, 200, 100, 50],
            1.0,
            true,
        ),
    ] {
        let measured = Line::new(spec, capacities).shares();
        let expected = published(capacities, window, power);
        for (measured, expected) in measured.iter().zip(expected) {
            // Five standard deviations of a share of 40,000 are .0125 at most.
            assert!(
                (measured - expected).abs() < 0.0125,
                "{spec}: {measured} and not {expected}"
            );
        }
    }
}

#[test]
fn probcache_gathers_copies_at_the_source() {
    // Popular objects come from caches near the consumer, and only long paths reach the producer:
    // copies a request fall towards it.
    for weight in ["linear", "power"] {
        let mut line = Line::new(&format!("probcache(weight={weight})"), [100; 4]);
        let mut zipf = Zipf::new(2000, 1.0, 7);
        let mut copies = [0_u32; 4];
        for _ in 0..60_000 {
            for cache in line.request(zipf.draw()) {
                copies[cache] += 1;
            }
        }
        // The linear weight is as small for the last of a long path as for the first; the power
        // ranks all four.
        let ranked = if weight == "linear" {
            &copies[..3]
        } else {
            &copies[..]
        };
        assert!(
            ranked.is_sorted_by(|nearer, farther| nearer < farther),
            "{weight}: {copies:?}"
        );
    }
}

#[test]
fn a_cache_that_knows_no_path_refuses() {
    for admission in ["lce", "lcd", "probcache", "betweenness"] {
        let mut owner = Owner::new(&format!("{admission}+lru").parse().unwrap(), 100, 1);
        for id in 0..100 {
            _ = owner.request(id, 1, Time::ZERO);
        }
        assert_eq!(owner.index.len(), 100, "{admission}");
    }
}

#[test]
fn a_path_that_makes_no_sense_panics() {
    for admission in ["lce", "lcd", "probcache(weight=power)", "betweenness"] {
        let mut owner = Owner::new(&format!("{admission}+lru").parse().unwrap(), 0, 1);
        for (hops, betweenness) in [(0, f64::NAN), (u32::MAX, f64::INFINITY)] {
            let path = Path {
                hops_from_source: hops,
                hops_to_consumer: hops,
                capacity_to_consumer: u64::MAX,
                betweenness,
                greatest_betweenness: f64::NAN,
            };
            assert!(
                !owner.engine.admit_from(1, 1, Time::ZERO, &path),
                "nothing fits"
            );
        }
    }
}
