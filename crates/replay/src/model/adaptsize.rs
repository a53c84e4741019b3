//! LRU with admission by size: Theorem 1 and Lemmas 1 and 2 of Berger, Sitaraman and
//! Harchol-Balter, AdaptSize, 2016, section 3.2.1.
//!
//! An object of the rate λ that is admitted with the probability p is in the cache with
//! p(e^{λµ} − 1) / (1 + p(e^{λµ} − 1)); µ is the characteristic time. With p = 1 it is Che's
//! approximation.
//! The tuner of `adaptsize` in `larder-policy` has the same theorem, with the horizon that a search
//! for c needs. This model also gives byte hits and insertions; a test compares it with the
//! tuner's.

use super::{Cached, Group, Popularity, Prediction, characteristic_time};
use larder_policy::adaptsize_model::Shape;
use larder_units::ByteSize;

/// Predicts LRU with admission by `shape` with the parameter `c` in bytes.
///
/// It is the long run: if `c` is far below the sizes of popular objects, Chance needs e^{size/c}
/// requests to approach it.
pub fn adaptsize(popularity: &Popularity, capacity: ByteSize, shape: Shape, c: f64) -> Prediction {
    let ln_admission = |group: &Group| match shape {
        Shape::Chance => -group.size / c,
        Shape::Threshold if group.size <= c => 0.0,
        Shape::Threshold => f64::NEG_INFINITY,
    };
    let probability = |group: &Group, time: f64| {
        let requests = group.rate * time;
        // ln(e^x − 1) = x + ln(1 − e^{−x}), which does not overflow.
        let ln_odds = ln_admission(group) + requests + (-(-requests).exp_m1()).ln();
        1.0 / (1.0 + (-ln_odds).exp())
    };
    let time = characteristic_time(popularity, capacity, probability);
    let cached = |group: &Group| match ln_admission(group).exp() {
        _ if group.size > capacity.bytes() as f64 => Cached::NEVER,
        // By the logarithm: an admission that is too rare for a double fills the cache in the long
        // run, too.
        insertion if time.is_infinite() => Cached {
            probability: if ln_admission(group).is_finite() {
                1.0
            } else {
                0.0
            },
            insertion,
        },
        insertion => Cached {
            probability: probability(group, time),
            insertion,
        },
    };
    Prediction::of(
        popularity
            .groups()
            .iter()
            .map(|group| (group, cached(group))),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_policy::adaptsize_model::{Bin, Model};

    #[test]
    fn the_tuner_predicts_something_else() {
        let popularity = Popularity::zipf(100_000, 0.9).unwrap();
        let groups: Vec<Group> = popularity
            .groups()
            .iter()
            .enumerate()
            .map(|(index, group)| Group {
                size: 100.0 * f64::from(index as u32 % 14).exp2(),
                ..*group
            })
            .collect();
        let bins: Vec<Bin> = groups
            .iter()
            .map(|g| Bin {
                objects: g.objects,
                size: g.size,
                rate: g.rate,
            })
            .collect();
        let popularity = Popularity::from_groups(groups);
        for capacity in [1 << 20, 1 << 24, 1 << 40] {
            for c in [500.0, 1e4, 1e6, 1e9] {
                for shape in [Shape::Chance, Shape::Threshold] {
                    let ours = adaptsize(&popularity, ByteSize::from_bytes(capacity), shape, c)
                        .object_hit_ratio;
                    let theirs = Model::new(bins.clone(), capacity as f64, shape).hit_ratio(c);
                    assert!(
                        (ours - theirs).abs() < 1e-5,
                        "{capacity}, c {c}, {shape:?}: {ours} and {theirs}"
                    );
                }
            }
        }
    }

    #[test]
    fn admitting_everything_is_not_lru() {
        let popularity = Popularity::zipf(100_000, 0.8).unwrap();
        let capacity = ByteSize::from_bytes(1000);
        let all = adaptsize(&popularity, capacity, Shape::Threshold, 1.0);
        let lru = super::super::che_lru(&popularity, capacity);
        assert!(
            (all.object_hit_ratio - lru.object_hit_ratio).abs() < 1e-9,
            "{all:?} and {lru:?}"
        );
        let none = adaptsize(&popularity, capacity, Shape::Threshold, 0.5);
        assert_eq!((none.object_hit_ratio, none.insertion_ratio), (0.0, 0.0));
    }
}
