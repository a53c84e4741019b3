//! FIFO, Random and LRU without admission.
//!
//! Sizes: the characteristic time does not depend on an object's size, but its share of the
//! capacity does. An object larger than the cache is never in it. Random chooses victims
//! independent of their size. O(groups) for each round of the solver.

use super::{Cached, Group, Popularity, Prediction, characteristic_time};
use larder_units::ByteSize;

/// Predicts FIFO, and Random, which has the same law: an object stays for τ requests and is then
/// absent until its next request, so it is in the cache for λτ/(1 + λτ) of the time (Gelenbe, A
/// unified approach to the evaluation of a class of replacement algorithms, IEEE ToC 1973;
/// equations (5) to (7) of the `filter` paper with p = 1).
pub fn fifo(popularity: &Popularity, capacity: ByteSize) -> Prediction {
    recency(popularity, capacity, |odds| odds / (1.0 + odds))
}

/// Predicts LRU by Che's approximation: an object is in the cache if it was requested within the
/// last τ requests, with the probability 1 − e^{−λτ} (Che, Tung and Wang, Hierarchical Web caching
/// systems: modeling, design and experimental results, IEEE JSAC 2002, equation (3)).
pub fn che_lru(popularity: &Popularity, capacity: ByteSize) -> Prediction {
    recency(popularity, capacity, |requests| -(-requests).exp_m1())
}

/// Predicts a policy with which the probability that an object is in the cache grows with λτ, its
/// expected requests in a characteristic time.
fn recency(
    popularity: &Popularity,
    capacity: ByteSize,
    probability: impl Fn(f64) -> f64,
) -> Prediction {
    let time = characteristic_time(popularity, capacity, |group, time| {
        probability(group.rate * time)
    });
    let cached = |group: &Group| match () {
        () if group.size > capacity.bytes() as f64 => Cached::NEVER,
        () if time.is_infinite() => Cached {
            probability: 1.0,
            insertion: 1.0,
        },
        () => Cached {
            probability: probability(group.rate * time),
            insertion: 1.0,
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

    fn ratio(prediction: Prediction) -> f64 {
        prediction.object_hit_ratio
    }

    #[test]
    fn computed_figures_of_the_filter_paper_are_missed() {
        for (exponent, expected_fifo, expected_lru) in
            [(0.8, 0.2242, 0.2484), (0.81, 0.2390, 0.2641)]
        {
            let popularity = Popularity::zipf(10_000_000, exponent).unwrap();
            let capacity = ByteSize::from_bytes(100_000);
            let (fifo, lru) = (
                ratio(fifo(&popularity, capacity)),
                ratio(che_lru(&popularity, capacity)),
            );
            assert!(
                (fifo - expected_fifo).abs() < 0.0005,
                "FIFO {fifo}, expected {expected_fifo}"
            );
            assert!(
                (lru - expected_lru).abs() < 0.0005,
                "LRU {lru}, expected {expected_lru}"
            );
        }
    }

    #[test]
    fn the_bytes_of_objects_do_not_count() {
        // As many small objects as large ones, with equal rates: each kind has half of the hits,
        // and their bytes fill the cache.
        let group = |size| Group {
            objects: 100.0,
            rate: 1.0,
            size,
            first: 0.0,
        };
        let popularity = Popularity::from_groups(vec![group(1.0), group(9.0)]);
        for model in [fifo, che_lru] {
            let prediction = model(&popularity, ByteSize::from_bytes(250));
            assert!(
                (prediction.object_hit_ratio - 0.25).abs() < 1e-9,
                "{prediction:?}"
            );
            assert!(
                (prediction.byte_hit_ratio - 0.25).abs() < 1e-9,
                "{prediction:?}"
            );
            assert_eq!(prediction.insertion_ratio, 1.0);
        }
        // Nine bytes do not fit into eight: only the small ones are ever cached, eight of two
        // hundred.
        let prediction = che_lru(&popularity, ByteSize::from_bytes(8));
        assert!(
            (prediction.object_hit_ratio - 0.04).abs() < 1e-9,
            "{prediction:?}"
        );
        assert!(
            (prediction.insertion_ratio - 0.46 / 0.96).abs() < 1e-6,
            "{prediction:?}"
        );
    }

    #[test]
    fn a_cache_of_nothing_or_of_everything() {
        let popularity = Popularity::zipf(1000, 1.0).unwrap();
        for model in [fifo, che_lru] {
            assert_eq!(ratio(model(&popularity, ByteSize::from_bytes(0))), 0.0);
            assert_eq!(ratio(model(&popularity, ByteSize::from_bytes(1000))), 1.0);
            assert_eq!(
                ratio(model(
                    &Popularity::from_groups(Vec::new()),
                    ByteSize::from_bytes(1)
                )),
                0.0
            );
        }
    }
}
