//! Predicts how many of an interval's requests a cache with the parameter c would have hit, if it
//! had known only the other requests. The search maximises this prediction.
//!
//! Theorem 1 with the counted rates predicts each request from counts that include it. An object
//! with one request has the rate 1, so the theorem expects hits for it, although there were none.
//! And the theorem's P is the long run of the chain. With a tiny p and a huge rµ the chain reaches
//! it only after e^{size/c} requests, so a search for the highest P drives c of Chance to a few
//! bytes (the error of the published form hides this). Leaving one request out corrects both:
//! form's error hides this). Both are mended by leaving one out:
//!
//! * An interval begins with the object in the cache with the probability P₀, from the rate known
//!   *before* the interval.
//! * Each of its k requests in the interval finds the chain on its way from P₀ to P₁, the long run
//!   from the k − 1 *other* requests: the object enters at the rate rp and leaves at r/(e^{rµ} −
//!   1). With λ, their sum, the mean over the interval is P₁ + (P₀ − P₁)(1 − e^{−λ})/λ.
//! * µ comes from Lemma 1 with the smoothed rates, because every object takes room, whether it was
//!   requested once or more often.
//!
//! So an object with one request counts nothing, an object whose popularity has ended counts
//! nothing, and an object that is requested again counts as far as it can be in the cache by then.
//! P₀ itself starts 64 intervals ago from an empty cache.
//!
//! The computation uses bins of objects by size, by requests in the interval and by the rate before
//! it. About a thousand bins represent 100,000 objects and give the same c result
//! (`benches/adaptsize.rs`).

use super::bins::{Admissible, Admission, Bin, Shape};
use super::model::{Model, exp_less_1, presence};
use super::search;
use crate::hash::mix;
use hashbrown::HashTable;
use std::f64::consts::SQRT_2;

/// The number of intervals in which P₀ must have been reached. Object hit ratios with 4 / 16 / 256
/// / no limit: traffic of a CDN's web class, 1 GiB, .837 / .841 / .844 / .846; of its mix, .442 /
/// .498 / .518 / .528; Twitter's cluster 52, 5 MiB, .812 / .811 / .809 / .808; web and mix
/// alternating .653 / .654 / .652 / .649.
const HORIZON: f64 = 64.0;

/// Boundaries that divide an octave into bins, as multiples of the octave's beginning: four bins of
/// size, two of requests in the interval, one of the rate before.
const SIZES: [f64; 3] = [1.189_207_115_002_721, SQRT_2, 1.681_792_830_507_429];
const REQUESTS: [f64; 1] = [SQRT_2];
const RATES: [f64; 0] = [];

/// Returns an object's smoothed rate: 0.7 of the last interval, 0.3 of the rate before it (the
/// authors' weights).
pub(super) fn smoothed(last: f64, before: f64) -> f64 {
    0.7 * last + 0.3 * before
}

/// The statistics of one object, or the mean of the objects in a bin.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Observed {
    /// The size in bytes.
    pub size: f64,
    /// Requests in the last interval.
    pub last: f64,
    /// The smoothed rate before the last interval, in requests per interval.
    pub before: f64,
}

/// The traffic of an interval and of the time before it.
#[derive(Clone, Debug)]
pub struct Foresight {
    pub(super) model: Model,
    /// In the order of the model's bins.
    seen: Vec<Observed>,
}

impl Foresight {
    /// Puts these objects into bins, for a cache of `capacity` bytes.
    pub fn new(objects: impl Iterator<Item = Observed>, capacity: f64, shape: Shape) -> Foresight {
        Foresight::weighted(objects.map(|object| (object, 1.0)), capacity, shape)
    }

    /// Does the same with objects each of which stands for a number of others.
    pub fn weighted(
        objects: impl Iterator<Item = (Observed, f64)>,
        capacity: f64,
        shape: Shape,
    ) -> Foresight {
        let mut bins: Vec<(u64, f64, f64, Observed)> = Vec::new();
        let mut places: HashTable<usize> = HashTable::new();
        for (object, weight) in objects {
            let Observed { size, last, before } = object;
            let key = part(size, &SIZES) << 32 | part(last, &REQUESTS) << 16 | part(before, &RATES);
            let place = match places.find(mix(key), |&place| bins[place].0 == key) {
                Some(&place) => place,
                None => {
                    bins.push((key, 0.0, 0.0, Observed::default()));
                    places.insert_unique(mix(key), bins.len() - 1, |&place| mix(bins[place].0));
                    bins.len() - 1
                }
            };
            let (_, objects, rate, sums) = &mut bins[place];
            *objects += weight;
            *rate += weight * smoothed(last, before);
            sums.size += weight * size;
            sums.last += weight * last;
            sums.before += weight * before;
        }
        let means = bins.into_iter().map(|(_, objects, rate, sums)| {
            let Observed { size, last, before } = sums;
            let seen = Observed {
                size: size / objects,
                last: last / objects,
                before: before / objects,
            };
            (
                Bin {
                    objects,
                    size: seen.size,
                    rate: rate / objects,
                },
                seen,
            )
        });
        let (bins, seen) = means.unzip();
        Foresight {
            model: Model::new(bins, capacity, shape),
            seen,
        }
    }

    /// Does the same without bins, one object at a time. Tests compare the bins with it.
    pub fn unbinned(
        objects: impl Iterator<Item = Observed>,
        capacity: f64,
        shape: Shape,
    ) -> Foresight {
        let seen: Vec<Observed> = objects.collect();
        let bin = |seen: &Observed| Bin {
            objects: 1.0,
            size: seen.size,
            rate: smoothed(seen.last, seen.before),
        };
        Foresight {
            model: Model::new(seen.iter().map(bin).collect(), capacity, shape),
            seen,
        }
    }

    /// Returns the number of bins.
    pub fn bins(&self) -> usize {
        self.seen.len()
    }

    /// Returns the c in bytes with the highest hit ratio, and that ratio; `None` if there is none,
    /// for example without requests.
    pub fn best(&self) -> Option<(f64, f64)> {
        search::best(self.model.capacity, |c| self.hit_ratio(c))
    }

    /// Returns the share of the last interval's requests that would have been hits with the
    /// parameter `c` in bytes; NaN if there were no requests.
    pub fn hit_ratio(&self, c: f64) -> f64 {
        let requests: f64 = self
            .model
            .bins
            .iter()
            .zip(&self.seen)
            .map(|(bin, seen)| bin.objects * seen.last)
            .sum();
        let admissible = self.model.admissible(c);
        let mu = self.model.characteristic_time(&admissible);
        let hits: f64 = admissible
            .iter()
            .map(|a| a.bin.objects * self.hits(a, mu))
            .sum();
        hits / requests
    }

    /// Returns the expected hits of one object in the interval.
    fn hits(&self, object: &Admissible, mu: f64) -> f64 {
        let Observed { before, last, .. } = self.seen[object.at];
        if last <= 0.0 {
            return 0.0;
        }
        let first = chain(before, &object.admission, mu);
        let start = first.mean_from(0.0, HORIZON);
        last * chain((last - 1.0).max(0.0), &object.admission, mu).mean_from(start, 1.0)
    }
}

/// Returns the part of an octave that contains `value`. The parts begin with the octave and at
/// `starts`. Returns 0 for 0.
fn part(value: f64, starts: &[f64]) -> u64 {
    if value <= 0.0 {
        return 0;
    }
    let bits = value.to_bits();
    let mantissa = f64::from_bits(bits & ((1 << 52) - 1) | 1.0_f64.to_bits());
    let within = starts.iter().filter(|&&start| mantissa >= start).count();
    (bits >> 52) * (starts.len() as u64 + 1) + within as u64
}

/// The Markov chain of an object, with two states: in the cache and out of it.
struct Chain {
    /// The long-run probability of being in the cache.
    long_run: f64,
    /// λ, the rate per interval at which the chain approaches its long run.
    turns: f64,
}

/// Returns the chain of an object with `rate` requests per interval.
fn chain(rate: f64, admission: &Admission, mu: f64) -> Chain {
    // The object leaves at r/(e^{rµ} − 1), which is 1/µ if r is 0, and 0 if µ is infinite.
    let x = rate * mu;
    let leaves = if x > 0.0 {
        rate / exp_less_1(x)
    } else {
        1.0 / mu
    };
    let long_run = if rate > 0.0 {
        presence(x, admission).0
    } else {
        0.0
    };
    Chain {
        long_run,
        turns: rate * admission.p + leaves,
    }
}

impl Chain {
    /// Returns the mean probability of being in the cache over `intervals` that begin with the
    /// probability `start`.
    fn mean_from(&self, start: f64, intervals: f64) -> f64 {
        let turns = self.turns * intervals;
        let kept = match turns {
            40.0.. => 1.0 / turns,
            1e-9.. => -(-turns).exp_m1() / turns,
            _ => 1.0,
        };
        self.long_run + (start - self.long_run) * kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds it from groups of (objects, size, before, last).
    fn foresight(groups: &[(usize, f64, f64, f64)], capacity: f64, shape: Shape) -> Foresight {
        let object = |&(objects, size, before, last): &_| {
            std::iter::repeat_n(Observed { size, last, before }, objects)
        };
        Foresight::new(groups.iter().flat_map(object), capacity, shape)
    }

    #[test]
    fn bins_that_lose_bytes_or_requests() {
        let objects = (0..5000_u32).map(|id| Observed {
            size: f64::from(1 + id.wrapping_mul(id) % 100_003),
            last: f64::from(id % 37),
            before: f64::from(id % 5),
        });
        let [binned, each] = [
            Foresight::new(objects.clone(), 1e6, Shape::Chance),
            Foresight::unbinned(objects, 1e6, Shape::Chance),
        ];
        assert!(binned.bins() < 4000, "{}", binned.bins());
        let total = |foresight: &Foresight, of: fn(&Bin) -> f64| {
            foresight
                .model
                .bins
                .iter()
                .map(|bin| bin.objects * of(bin))
                .sum::<f64>()
        };
        for of in [(|bin| bin.size) as fn(&Bin) -> f64, |bin| bin.rate, |_| 1.0] {
            assert!((total(&binned, of) / total(&each, of) - 1.0).abs() < 1e-9);
        }
        let [binned, each] = [binned, each].map(|foresight| foresight.best().unwrap());
        assert!(
            (binned.0 / each.0).log2().abs() < 0.1,
            "{binned:?}, {each:?}"
        );
        assert!((binned.1 - each.1).abs() < 2e-3, "{binned:?}, {each:?}");
    }

    #[test]
    fn objects_seen_once_are_expected_back() {
        let once = foresight(&[(100_000, 1000.0, 0.0, 1.0)], 1e7, Shape::Threshold);
        assert_eq!(once.hit_ratio(1e6), 0.0);
        assert!(once.model.hit_ratio(1e6) > 0.05, "Lemma 2 expects them");
        // Two requests, an empty cache at first, and room for all: the second request is a hit. The
        // chain expects .37 for both.
        let twice = foresight(&[(1000, 1000.0, 0.0, 2.0)], 1e9, Shape::Threshold);
        assert!((twice.hit_ratio(1e6) - (-1.0_f64).exp()).abs() < 1e-9);
    }

    #[test]
    fn what_was_popular_before_is_still_counted_on() {
        let gone = foresight(
            &[(100, 1000.0, 50.0, 0.0), (100, 1000.0, 0.0, 1.0)],
            1e5,
            Shape::Threshold,
        );
        assert_eq!(gone.hit_ratio(1e6), 0.0);
        let steady = foresight(&[(100, 1000.0, 50.0, 50.0)], 1e6, Shape::Threshold);
        assert!(steady.hit_ratio(1e6) > 0.98);
    }

    #[test]
    fn a_long_run_that_never_comes() {
        // p = e^{−100}: the object is never evicted once admitted, and never admitted.
        let chain = |rate, ln_p, mu| super::chain(rate, &Admission::with_ln(ln_p), mu);
        let never = chain(200.0, -100.0, 1.0);
        assert!(never.long_run > 0.999_999 && never.mean_from(0.0, HORIZON) < 1e-30);
        // Admitted at the first request and never evicted: out of the cache for the mean time to
        // that request, e^{−1} on average over one interval.
        let sure = chain(1.0, 0.0, f64::INFINITY);
        assert!((sure.mean_from(0.0, 1.0) - (-1.0_f64).exp()).abs() < 1e-12);
        // No requests: the state is constant if nothing leaves, and the object is gone in the end
        // if objects leave.
        assert_eq!(chain(0.0, 0.0, f64::INFINITY).mean_from(0.5, 1e6), 0.5);
        assert!(chain(0.0, 0.0, 2.0).mean_from(0.5, 1e9) < 1e-8);
    }
}
