//! The best hit ratio with known popularities and nothing else: a set that is stored once and never
//! changes.
//!
//! The object at the edge counts with the part that fits. So with sizes the result is an upper
//! bound, which is close if objects are small compared with the cache. O(n log n) in the groups.

use super::{Cached, Group, Popularity, Prediction};
use larder_units::ByteSize;
use std::cmp::Ordering;

/// Predicts a cache of the most requested objects, which LFU approaches.
pub fn lfu_limit(popularity: &Popularity, capacity: ByteSize) -> Prediction {
    stored(popularity, capacity, |group| group.rate)
}

/// Predicts a cache of the objects with the most requests per byte, which is the best set for
/// object hits (a fractional knapsack). For equal sizes it is the same as [`lfu_limit`].
pub fn static_limit(popularity: &Popularity, capacity: ByteSize) -> Prediction {
    stored(popularity, capacity, |group| group.rate / group.size)
}

/// Fills the cache in the order of `worth`, the highest first.
fn stored(
    popularity: &Popularity,
    capacity: ByteSize,
    worth: impl Fn(&Group) -> f64,
) -> Prediction {
    let capacity_bytes = capacity.bytes() as f64;
    let mut order: Vec<&Group> = popularity.groups().iter().collect();
    order.sort_by(|a, b| worth(b).partial_cmp(&worth(a)).unwrap_or(Ordering::Equal));
    let mut room = capacity_bytes;
    Prediction::of(order.into_iter().map(|group| {
        if group.size > capacity_bytes {
            return (group, Cached::NEVER);
        }
        let bytes = group.objects * group.size;
        let probability = (room / bytes).min(1.0);
        room = (room - bytes).max(0.0);
        (
            group,
            Cached {
                probability,
                insertion: 0.0,
            },
        )
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computed_figures_of_the_filter_paper_are_missed() {
        for (exponent, expected) in [(0.8, 0.3761), (0.81, 0.3915)] {
            let popularity = Popularity::zipf(10_000_000, exponent).unwrap();
            let limit = lfu_limit(&popularity, ByteSize::from_bytes(100_000));
            assert!(
                (limit.object_hit_ratio - expected).abs() < 0.0005,
                "{limit:?}, expected {expected}"
            );
            assert_eq!(
                limit,
                static_limit(&popularity, ByteSize::from_bytes(100_000))
            );
        }
    }

    #[test]
    fn a_large_object_is_preferred_to_two_small_ones() {
        let group = |size, rate| Group {
            objects: 2.0,
            rate,
            size,
            first: 0.0,
        };
        let popularity = Popularity::from_groups(vec![group(10.0, 0.3), group(5.0, 0.2)]);
        let capacity = ByteSize::from_bytes(10);
        assert!((lfu_limit(&popularity, capacity).object_hit_ratio - 0.3).abs() < 1e-12);
        assert!((static_limit(&popularity, capacity).object_hit_ratio - 0.4).abs() < 1e-12);
        assert_eq!(
            static_limit(&popularity, ByteSize::from_bytes(4)).object_hit_ratio,
            0.0
        );
    }
}
