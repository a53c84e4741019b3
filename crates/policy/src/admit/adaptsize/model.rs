//! The Markov model of AdaptSize: the object hit ratio of an LRU cache behind size-aware admission (Theorem 1, Lemmas 1 and 2).
//!
//! An object with the rate r and the admission probability p is in the cache with the probability
//! P = p(e^{rµ} − 1) / (1 + p(e^{rµ} − 1)), where µ, the characteristic time, is such that the expected bytes fill the capacity.
//!
//! The authors approximate the exponential by a Padé form, which errs for small p and large rµ. Here ln p and ln(e^{rµ} − 1) are added and
//! P is the logistic function of the sum: right for every p and µ, since nothing overflows. µ is found by Newton's method in ln µ within a
//! bracket, which always converges; the fixed-point iteration swings where p is small.
//!
//! Deviation: the theorem's P is the chain's long run, and a tiny p with a huge rµ reaches it after e^{size/c} requests. Maximised as it is, it
//! drives c of Chance to a few bytes, with a predicted ratio near LFU's and a real one of 0 (the authors' Padé error hides this). So P is
//! averaged over a horizon T from an empty cache: the two-state chain enters at the rate rp, leaves at r/(e^{rµ} − 1), and with λ their sum
//! the mean is P·(1 − (1 − e^{−λT})/(λT)), which becomes the theorem's P as T grows.

use crate::limits::ADAPTSIZE_SOLVER_ROUNDS;

/// Objects of about one size and rate; one object where `objects` is 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bin {
    /// How many.
    pub objects: f64,
    /// Their mean size in bytes.
    pub size: f64,
    /// Their mean rate in requests a unit of time. The unit cancels.
    pub rate: f64,
}

/// How size decides admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Admit with the probability exp(−size/c).
    Chance,
    /// Admit where size ≤ c.
    Threshold,
}

/// What the model knows: the traffic, the cache, and how size decides.
///
/// ```
/// use larder_policy::adaptsize_model::{Bin, Model, Shape};
/// // A thousand small objects that are asked for often, a thousand large ones that are not, and room for the small ones.
/// let small = Bin { objects: 1000.0, size: 1e3, rate: 5.0 };
/// let large = Bin { objects: 1000.0, size: 1e5, rate: 1.0 };
/// let model = Model::new(vec![small, large], 1e6, Shape::Threshold);
/// assert!((model.hit_ratio(2e3) - 5.0 / 6.0).abs() < 1e-9);
/// assert!(model.hit_ratio(2e5) < 0.2);
/// ```
#[derive(Clone, Debug)]
pub struct Model {
    pub(crate) bins: Vec<Bin>,
    /// Bytes.
    pub(crate) capacity: f64,
    pub(crate) shape: Shape,
    /// T, in the rates' unit of time; infinite for the theorem's long run.
    pub(crate) horizon: f64,
}

impl Model {
    /// A cache of `capacity` bytes, in the long run.
    pub fn new(bins: Vec<Bin>, capacity: f64, shape: Shape) -> Model {
        Model { bins, capacity, shape, horizon: f64::INFINITY }
    }

    /// Lemma 2: the object hit ratio with the parameter `c` in bytes. NaN where there are no requests.
    pub fn hit_ratio(&self, c: f64) -> f64 {
        let admissible: Vec<Admissible> = self.bins.iter().filter_map(|bin| self.admissible(bin, c)).collect();
        let requests: f64 = self.bins.iter().map(|bin| bin.objects * bin.rate).sum();
        let bytes: f64 = admissible.iter().map(|a| a.bin.objects * a.bin.size).sum();
        let hits: f64 = if bytes <= self.capacity {
            // Everything that can ever be admitted fits, and what was admitted stays: µ is infinite.
            admissible.iter().map(|a| a.bin.objects * a.bin.rate * a.reached(1.0, self.horizon)).sum()
        } else {
            let mu = self.characteristic_time(&admissible);
            let in_cache = |a: &Admissible| a.reached(a.in_cache(mu).0, self.horizon);
            admissible.iter().map(|a| a.bin.objects * a.bin.rate * in_cache(a)).sum()
        };
        hits / requests
    }

    fn admissible(&self, bin: &Bin, c: f64) -> Option<Admissible> {
        let admitted = bin.size <= self.capacity && (self.shape == Shape::Chance || bin.size <= c);
        let ln_p = if self.shape == Shape::Chance { -bin.size / c } else { 0.0 };
        admitted.then_some(Admissible { bin: *bin, ln_p })
    }

    /// Lemma 1: the µ with which the expected bytes are the capacity. They grow with µ, from 0 to all that is admissible, which is more.
    fn characteristic_time(&self, admissible: &[Admissible]) -> f64 {
        // Where rµ is small, P is about p·r·µ, which gives the first guess. Where every p is tiny, any guess will do.
        let flow: f64 = admissible.iter().map(|a| a.bin.objects * a.bin.rate * a.bin.size * a.ln_p.exp()).sum();
        let mut ln_mu = (self.capacity / flow.max(self.capacity * 1e-9)).ln();
        let (mut low, mut high) = (f64::NEG_INFINITY, f64::INFINITY);
        let mut stride = 1.0;
        for _ in 0..ADAPTSIZE_SOLVER_ROUNDS {
            let (bytes, slope) = expected_bytes(admissible, ln_mu.exp());
            let excess = bytes - self.capacity;
            if excess.abs() <= 1e-6 * self.capacity {
                break;
            }
            if excess > 0.0 {
                high = ln_mu
            } else {
                low = ln_mu
            };
            let newton = ln_mu - excess / slope;
            let newton_is_inside = newton > low && newton < high && (newton - ln_mu).abs() < stride;
            ln_mu = match (low.is_finite(), high.is_finite()) {
                _ if newton_is_inside => newton,
                (true, true) => 0.5 * (low + high),
                (true, false) => ln_mu + stride,
                _ => ln_mu - stride,
            };
            stride = if low.is_finite() && high.is_finite() { 0.5 * (high - low) } else { 2.0 * stride };
        }
        ln_mu.exp()
    }
}

/// A bin that can be admitted, and the logarithm of its admission probability.
struct Admissible {
    bin: Bin,
    ln_p: f64,
}

impl Admissible {
    /// Theorem 1: the probability P to be in the cache, and dP/d ln µ.
    fn in_cache(&self, mu: f64) -> (f64, f64) {
        let x = self.bin.rate * mu;
        let left = -(-x).exp_m1(); // 1 − e^{−x}
        if left <= 0.0 {
            return (0.0, 0.0);
        }
        // ln(e^x − 1) = x + ln(1 − e^{−x})
        let log_odds = self.ln_p + x + left.ln();
        let p = 1.0 / (1.0 + (-log_odds).exp());
        (p, p * (1.0 - p) * x / left)
    }

    /// The long run's probability `p`, averaged from an empty cache to the horizon.
    fn reached(&self, p: f64, horizon: f64) -> f64 {
        // In the long run as much enters as leaves, (1 − P)·rp = P·r/(e^{rµ} − 1), so λ = rp + r/(e^{rµ} − 1) is rp/P.
        let turns = self.bin.rate * self.ln_p.exp() * horizon / p;
        match turns {
            turns if turns.is_infinite() => p,
            turns if turns > 1e-6 => p * (1.0 + (-turns).exp_m1() / turns),
            turns if turns >= 0.0 => p * 0.5 * turns,
            _ => 0.0, // 0/0: never in the cache
        }
    }
}

/// Expected bytes in the cache, and their derivative by ln µ.
fn expected_bytes(admissible: &[Admissible], mu: f64) -> (f64, f64) {
    admissible.iter().fold((0.0, 0.0), |(bytes, slope), a| {
        let (p, dp) = a.in_cache(mu);
        let weight = a.bin.objects * a.bin.size;
        (bytes + weight * p, slope + weight * dp)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Engine, Slot};
    use larder_units::{ByteSize, Streams, Time};
    use proptest::prelude::*;

    #[test]
    fn the_pade_error_of_the_authors_programs() {
        // p = .001, rµ = 8: the truth is .749, their form gives 0.
        let a = Admissible { bin: Bin { objects: 1.0, size: 1.0, rate: 8.0 }, ln_p: 0.001_f64.ln() };
        assert!((a.in_cache(1.0).0 - 0.749).abs() < 0.0005, "{}", a.in_cache(1.0).0);
        let certain = Admissible { ln_p: -2000.0, bin: Bin { rate: 3000.0, ..a.bin } };
        assert!((certain.in_cache(1.0).0 - 1.0).abs() < 1e-12, "e^3000 overflows, its logarithm does not");
        assert_eq!(a.in_cache(0.0).0, 0.0);
    }

    #[test]
    fn without_admission_it_is_che() {
        // Equal objects, p = 1: a tenth of the bytes cached is a tenth of the requests hit.
        let bins = vec![Bin { objects: 1000.0, size: 10.0, rate: 3.0 }];
        let model = Model { bins, capacity: 1000.0, shape: Shape::Threshold, horizon: f64::INFINITY };
        assert!((model.hit_ratio(10.0) - 0.1).abs() < 1e-6);
        assert_eq!(model.hit_ratio(9.0), 0.0);
        assert_eq!(Model { capacity: 1e9, ..model }.hit_ratio(10.0), 1.0);
    }

    #[test]
    fn a_long_run_that_never_comes() {
        // p = e^{−100}: for ever in the cache once admitted, and never admitted.
        let a = Admissible { bin: Bin { objects: 1.0, size: 1.0, rate: 200.0 }, ln_p: -100.0 };
        assert!(a.in_cache(1.0).0 > 0.999_999);
        assert!(a.reached(a.in_cache(1.0).0, 1000.0) < 1e-30);
        assert!(a.reached(a.in_cache(1.0).0, f64::INFINITY) > 0.999_999);
        // Admitted at once, never evicted: over one request's mean time, in the cache for e^{−1} of it.
        let sure = Admissible { bin: Bin { objects: 1.0, size: 1.0, rate: 1.0 }, ln_p: 0.0 };
        assert!((sure.reached(1.0, 1.0) - (-1.0_f64).exp()).abs() < 1e-12);
        assert_eq!(sure.reached(0.0, 1.0), 0.0);
    }

    const REQUESTS: f64 = 250_000.0;

    /// The object hit ratio of independent requests from an empty cache, replayed through the engine.
    fn replay(spec: &str, capacity: u64, objects: &[Bin]) -> f64 {
        let streams = Streams::new(1);
        let mut engine = Engine::new(&spec.parse().unwrap(), ByteSize::from_bytes(capacity), &streams).unwrap();
        let mut requests = streams.stream("requests");
        let ends: Vec<f64> = objects
            .iter()
            .scan(0.0, |sum, o| {
                *sum += o.rate;
                Some(*sum)
            })
            .collect();
        let total = ends[ends.len() - 1];
        let (mut slots, mut ids, mut victims) = (vec![None; objects.len()], Vec::new(), Vec::new());
        let mut hits = 0;
        for _ in 0..REQUESTS as u32 {
            let at = requests.unit() * total;
            let id = ends.partition_point(|end| *end <= at);
            if let Some(slot) = slots[id] {
                hits += 1;
                engine.hit(slot, id as u64, Time::ZERO);
            } else {
                engine.miss(id as u64, Time::ZERO);
                let size = objects[id].size as u64;
                if engine.admit(id as u64, size, Time::ZERO) {
                    slots[id] = engine.insert(id as u64, size, Time::ZERO, &mut victims);
                    victims.drain(..).for_each(|victim| slots[ids[victim.index()]] = None);
                    let slot: Slot = slots[id].unwrap();
                    ids.resize(ids.len().max(slot.index() + 1), 0);
                    ids[slot.index()] = id;
                }
            }
        }
        f64::from(hits) / REQUESTS
    }

    /// The model's own assumption, independent requests, with the true rates. Threshold: within a point. Chance: within two, and four where c is
    /// so small that the cache is still filling, which the model does not know (it is too low then).
    #[test]
    fn the_model_is_off() {
        let mut sizes = Streams::new(2).stream("sizes");
        let object = |rank: u32| Bin {
            objects: 1.0,
            size: (100.0 * (14.0 * sizes.unit()).exp2()).floor(),
            rate: f64::from(rank).powf(-0.9),
        };
        let bins: Vec<Bin> = (1..=2000).map(object).collect();
        let horizon = REQUESTS / bins.iter().map(|bin| bin.rate).sum::<f64>();
        for (capacity, c, chance_band) in [
            (4 << 20, 4 << 10, 0.04),
            (4 << 20, 64 << 10, 0.02),
            (40 << 20, 32 << 10, 0.02),
            (40 << 20, 512 << 10, 0.01),
            (40 << 20, 40 << 20, 0.01),
        ] {
            for (shape, name, band) in [(Shape::Chance, "chance", chance_band), (Shape::Threshold, "threshold", 0.01)] {
                let model = Model { bins: bins.clone(), capacity: capacity as f64, shape, horizon };
                let predicted = model.hit_ratio(f64::from(c));
                let replayed = replay(&format!("adaptsize({name},start={c},interval=1000000)+lru"), capacity, &bins);
                assert!((predicted - replayed).abs() < band, "{name}, {capacity}, c {c}: {predicted}, {replayed}");
            }
        }
    }

    proptest! {
        #[test]
        fn expected_bytes_miss_the_capacity(
            bins in proptest::collection::vec((1.0..1e5f64, 0.0..30.0f64, 0.1..1e5f64), 1..40),
            share in 0.001..0.999f64, log_c in 0.0..30.0f64, chance: bool,
        ) {
            let bins: Vec<Bin> = bins.into_iter()
                .map(|(objects, log_size, rate)| Bin { objects, size: log_size.exp2(), rate })
                .collect();
            let capacity = share * bins.iter().map(|b| b.objects * b.size).sum::<f64>();
            let shape = if chance { Shape::Chance } else { Shape::Threshold };
            let model = Model { bins, capacity, shape, horizon: f64::INFINITY };
            let c = log_c.exp2();
            let ratio = model.hit_ratio(c);
            prop_assert!((0.0..=1.0 + 1e-9).contains(&ratio), "{ratio}");
            let admissible: Vec<_> = model.bins.iter().filter_map(|bin| model.admissible(bin, c)).collect();
            let bytes: f64 = admissible.iter().map(|a| a.bin.objects * a.bin.size).sum();
            if bytes > capacity {
                let mu = model.characteristic_time(&admissible);
                let filled = expected_bytes(&admissible, mu).0;
                prop_assert!((filled / capacity - 1.0).abs() < 1e-4, "{filled} of {capacity}");
            }
        }
    }
}
