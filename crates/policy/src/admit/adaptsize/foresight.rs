//! How many of an interval's requests a cache with the parameter c would have hit, had it known
//! only the other requests: what the search maximises.
//!
//! Theorem 1 with the counted rates judges each object by the very requests that are to be
//! predicted: one seen once has the rate 1, and is taken to be hit with some probability though it
//! never was. And its P is the chain's long run, which a tiny p with a huge rµ reaches after
//! e^{size/c} requests: maximised as it is, it drives c of Chance to a few bytes (the published
//! form's error hides this). Both are mended by leaving one out:
//!
//! * an interval begins with the object in the cache with the probability P₀, by the rate known
//!   *before* the interval;
//! * each of its k requests in the interval finds the chain on its way from P₀ to P₁, the long run
//!   by the k − 1 *other* requests: it enters at the rate rp and leaves at r/(e^{rµ} − 1), with λ
//!   their sum, so over the interval the mean is P₁ + (P₀ − P₁)(1 − e^{−λ})/λ;
//! * µ comes from Lemma 1 with the smoothed rates, since every object takes its room, seen once or
//!   not.
//!
//! So what is asked for once counts nothing, what was popular and is no more counts nothing, and
//! what will be asked for again counts as far as it can be in the cache by then. P₀ itself starts
//! 64 intervals ago from an empty cache.
//!
//! All of this looks not at objects but at bins of them, by size, by requests in the interval and
//! by the rate before it: some thousand bins stand for 100,000 objects, with the same c as the
//! result (`benches/adaptsize.rs`).

use super::bins::{Admissible, Admission, Bin, Shape};
use super::model::{Model, exp_less_1, presence};
use super::search;
use crate::hash::mix;
use hashbrown::HashTable;
use std::f64::consts::SQRT_2;

/// Intervals in which P₀ must have been reached. Object hit ratios with 4 / 16 / 256 / without end:
/// traffic of a CDN's web class, 1 GiB, .837 / .841 / .844 / .846; of its mix, .442 / .498 / .518 /
/// .528; Twitter's cluster 52, 5 MiB, .812 / .811 / .809 / .808; web and mix by turns .653 / .654 /
/// .652 / .649.
const HORIZON: f64 = 64.0;

/// Where an octave's further bins begin, as multiples of its own beginning: four bins of size, two
/// of requests in the interval, one of the rate before.
const SIZES: [f64; 3] = [1.189_207_115_002_721, SQRT_2, 1.681_792_830_507_429];
const REQUESTS: [f64; 1] = [SQRT_2];
const RATES: [f64; 0] = [];

/// An object's smoothed rate: 0.7 of the interval that ended, 0.3 of what was known before (the
/// authors' weights).
pub(super) fn smoothed(last: f64, before: f64) -> f64 {
    0.7 * last + 0.3 * before
}

/// What is known of an object, or on average of those of one bin.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Observed {
    /// In bytes.
    pub size: f64,
    /// Requests in the last interval.
    pub last: f64,
    /// Smoothed rate before it, in requests an interval.
    pub before: f64,
}

/// The traffic of an interval and of what came before.
#[derive(Clone, Debug)]
pub struct Foresight {
    pub(super) model: Model,
    /// By the model's bins.
    seen: Vec<Observed>,
}

impl Foresight {
    /// Of these objects, in bins, for a cache of `capacity` bytes.
    pub fn new(objects: impl Iterator<Item = Observed>, capacity: f64, shape: Shape) -> Foresight {
        let mut bins: Vec<(u64, f64, f64, Observed)> = Vec::new();
        let mut places: HashTable<usize> = HashTable::new();
        for object in objects {
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
            *objects += 1.0;
            *rate += smoothed(last, before);
            sums.size += size;
            sums.last += last;
            sums.before += before;
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

    /// The same an object at a time: what the bins are held against.
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

    /// How many bins.
    pub fn bins(&self) -> usize {
        self.seen.len()
    }

    /// The c in bytes with the highest hit ratio, and that ratio; `None` where there is none, such
    /// as without requests.
    pub fn best(&self) -> Option<(f64, f64)> {
        search::best(self.model.capacity, |c| self.hit_ratio(c))
    }

    /// The share of the last interval's requests that would have been hits with the parameter `c`
    /// in bytes. NaN where there were none.
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

    /// Hits of one object in the interval.
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

/// The part of an octave in which `value` is, of those that begin with the octave and at `starts`;
/// 0 for 0.
fn part(value: f64, starts: &[f64]) -> u64 {
    if value <= 0.0 {
        return 0;
    }
    let bits = value.to_bits();
    let mantissa = f64::from_bits(bits & ((1 << 52) - 1) | 1.0_f64.to_bits());
    let within = starts.iter().filter(|&&start| mantissa >= start).count();
    (bits >> 52) * (starts.len() as u64 + 1) + within as u64
}

/// An object's chain of two states, in the cache and out of it.
struct Chain {
    /// Its long run: in the cache with this probability.
    long_run: f64,
    /// λ, the rate at which it gets there, an interval.
    turns: f64,
}

/// Of an object with `rate` requests an interval.
fn chain(rate: f64, admission: &Admission, mu: f64) -> Chain {
    // It leaves at r/(e^{rµ} − 1), which is 1/µ where r is 0 and 0 where µ is infinite.
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
    /// The mean probability to be in the cache over `intervals` that begin with the probability
    /// `start`.
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

    /// Of (objects, size, before, last).
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
        // Twice, from nothing, with room for all: the second of the two is a hit, and the chain
        // says .37 of both.
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
        // p = e^{−100}: for ever in the cache once admitted, and never admitted.
        let chain = |rate, ln_p, mu| super::chain(rate, &Admission::with_ln(ln_p), mu);
        let never = chain(200.0, -100.0, 1.0);
        assert!(never.long_run > 0.999_999 && never.mean_from(0.0, HORIZON) < 1e-30);
        // Admitted at the first request, never evicted: out of it for the mean time to that, e^{−1}
        // of it on average over one.
        let sure = chain(1.0, 0.0, f64::INFINITY);
        assert!((sure.mean_from(0.0, 1.0) - (-1.0_f64).exp()).abs() < 1e-12);
        // Nobody asks: it stays as it is where nothing leaves, and is gone in the end where
        // something does.
        assert_eq!(chain(0.0, 0.0, f64::INFINITY).mean_from(0.5, 1e6), 0.5);
        assert!(chain(0.0, 0.0, 2.0).mean_from(0.5, 1e9) < 1e-8);
    }
}
