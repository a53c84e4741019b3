//! Predicted hit ratios, computed instead of replayed: the models of the literature for independent
//! requests.
//!
//! Every model here uses the independent reference model (each request is for object i with the
//! probability λᵢ, independent of earlier requests) and a characteristic time. A large cache evicts
//! all objects at about the same age, so each object can be treated separately; this age is the one
//! at which the expected bytes in the cache equal its capacity. The models differ in the
//! probability that an object is in the cache:
//!
//! | model | in the cache with probability | source |
//! | --- | --- | --- |
//! | [`fifo`] (and Random) | λτ / (1 + λτ) | Gelenbe 1973; Martina, Garetto and Leonardi, INFOCOM 2014 |
//! | [`che_lru`] | 1 − e^{−λτ} | Che, Tung and Wang, IEEE JSAC 2002; sizes as in Fricker, Robert and Roberts, ITC 2012 |
//! | [`lfu_limit`], [`static_limit`] | 1 for the best objects | – |
//! | [`filter()`] | λpτ / (1 + λpτ), p of equation (3) | Takemasa, Koizumi and Hasegawa 2019, equations (3) to (7) |
//!  [`filter_between_requests`] | the same, p from the history of a miss | – |
//! | [`adaptsize()`] | p(e^{λµ} − 1) / (1 + p(e^{λµ} − 1)) | Berger, Sitaraman and Harchol-Balter 2016, Theorem 1 and Lemma 2 |
//!
//! Objects are in [`Group`]s of equal rate and size ([`Popularity`]): a catalogue of 10⁷ takes
//! milliseconds. Real traffic is not independent: an object with a request is likely to have
//! another one soon, from which LRU and FIFO profit. The difference to a replay shows the effect.
//! [`ModelParameters::models`] lists all models at a capacity.

mod adaptsize;
mod filter;
mod limit;
mod list;
mod popularity;
mod recency;

pub use adaptsize::adaptsize;
pub use filter::{FilterTable, false_positives, filter, filter_between_requests};
pub use limit::{lfu_limit, static_limit};
pub use list::{HistoryLength, ModelParameters, Modelled, ParameterError};
pub use popularity::{Group, Popularity};
pub use recency::{che_lru, fifo};

use larder_units::ByteSize;
use serde::Serialize;

/// The predicted values, with the names of a replay's [`Row`](crate::Row).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// Hits ÷ requests.
    pub object_hit_ratio: f64,
    /// Bytes of the requests that hit ÷ bytes of all requests.
    pub byte_hit_ratio: f64,
    /// Insertions ÷ misses.
    pub insertion_ratio: f64,
}

impl Prediction {
    /// Sums over all groups. The first request for an object is always a miss.
    fn of<'a>(groups: impl Iterator<Item = (&'a Group, Cached)>) -> Prediction {
        let (mut requests, mut hits, mut bytes, mut hit_bytes, mut insertions) =
            (0.0, 0.0, 0.0, 0.0, 0.0);
        for (
            group,
            Cached {
                probability,
                insertion,
            },
        ) in groups
        {
            let rate = group.objects * group.rate;
            let hit = rate * (1.0 - group.first) * probability;
            requests += rate;
            hits += hit;
            bytes += rate * group.size;
            hit_bytes += hit * group.size;
            insertions += (rate - hit) * insertion;
        }
        let share = |part: f64, whole: f64| {
            if whole > 0.0 {
                (part / whole).clamp(0.0, 1.0)
            } else {
                0.0
            }
        };
        Prediction {
            object_hit_ratio: share(hits, requests),
            byte_hit_ratio: share(hit_bytes, bytes),
            insertion_ratio: share(insertions, requests - hits),
        }
    }
}

/// The prediction for one object.
#[derive(Clone, Copy)]
struct Cached {
    /// The probability that the object is in the cache.
    probability: f64,
    /// The probability that a miss inserts it.
    insertion: f64,
}

impl Cached {
    /// An object larger than the cache, which is never in it.
    const NEVER: Cached = Cached {
        probability: 0.0,
        insertion: 0.0,
    };
}

/// Returns the time τ, in requests, at which the expected bytes in the cache equal its capacity;
/// infinite if all objects that can be in it fit.
///
/// `probability(group, τ)` must not fall with τ. Bisection in ln τ over all exponents of f64: after
/// 70 rounds only the rounding error is left.
fn characteristic_time(
    popularity: &Popularity,
    capacity: ByteSize,
    probability: impl Fn(&Group, f64) -> f64,
) -> f64 {
    let capacity_bytes = capacity.bytes() as f64;
    let fitting = || {
        popularity
            .groups()
            .iter()
            .filter(|group| group.size <= capacity_bytes)
    };
    let expected_bytes = |time: f64| -> f64 {
        fitting()
            .map(|group| group.objects * group.size * probability(group, time))
            .sum()
    };
    let (mut low, mut high) = (f64::MIN_POSITIVE.ln(), f64::MAX.ln());
    if expected_bytes(high.exp()) <= capacity_bytes {
        return f64::INFINITY;
    }
    for _ in 0..70 {
        let middle = 0.5 * (low + high);
        if expected_bytes(middle.exp()) < capacity_bytes {
            low = middle
        } else {
            high = middle
        }
    }
    low.exp()
}
