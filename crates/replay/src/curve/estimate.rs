//! Estimates the hit ratios of all requests from the misses of a sample, and the error of the
//! estimate.

use super::miniature::scale;
use super::misses::{Misses, Simulated};
use super::parts::parts;
use super::{LruCurve, Miniature, Sample, Sampled};
use crate::limits::CURVE_SETS;
use larder_policy::{Scale, Spec, SpecError};
use larder_units::ByteSize;
use serde::Serialize;

/// Student's t for seven degrees of freedom, two-sided 95 %.
const STUDENT: f64 = 2.365;
const _: () = assert!(CURVE_SETS == 8, "STUDENT is for eight sets");

/// The normal distribution's 97.5th percentile.
pub(super) const NORMAL: f64 = 1.96;

/// The sets of a sample have its large objects in common, so they differ less than independent
/// samples. This factor is measured (`benches/intervals.rs`): without it, 90 to 92 % of the
/// intervals of object hit ratios hold.
const SHARED: f64 = 1.3;

/// What the error has beside the spread of the sets.
#[derive(Clone, Copy)]
pub(crate) struct Margins {
    /// The factor of the spread, because of objects that are in several sets.
    shared: f64,
    /// The error beyond chance and size.
    least: f64,
}

/// The margins of a sample that takes all objects with the same chance.
pub(crate) const PLAIN: Margins = Margins {
    shared: 1.0,
    least: 0.0,
};

/// The power of the rate with which the difference between a small cache and a large one falls, at
/// least. Where a fixed number of objects decides it is 1; where sizes have a heavy tail, each
/// larger cache has objects that a smaller one has not, and it is less.
const BIAS_POWER: f64 = 1.0 / 3.0;

/// One point of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// The capacity in bytes.
    pub capacity: u64,
    /// Hits ÷ requests.
    pub object_hit_ratio: f64,
    /// The true ratio is this close with 95 % confidence. 0 if every object was simulated: the
    /// ratio is then exact, unless `size_changes` is above 0.
    pub object_error: f64,
    /// Bytes of the requests that hit ÷ bytes of all requests.
    pub byte_hit_ratio: f64,
    /// The error of `byte_hit_ratio`, as in `object_error`.
    pub byte_error: f64,
    /// True if the policy behaves differently in a small cache than in a large one, beyond the
    /// stated errors: the true errors are larger.
    pub error_is_least: bool,
    /// Simulated requests for a held object with another size than its stored one, if one pass
    /// simulates all capacities ([`LruCurve`]). The errors do not include the difference from a
    /// replay that these cause. 0 if each capacity has its own cache.
    pub size_changes: u64,
}

/// A curve, or a point of one. It is exact, or estimated from a sample with a stated error.
///
/// ```
/// use larder_replay::{Access, Curve, Sample};
/// use larder_units::Time;
///
/// let mut sample = Sample::of(1.0, 1).unwrap();
/// let mut curve = Curve::lru(&[1, 2], &sample);
/// let accesses = [7, 8, 7, 7].map(|id| Access { id, size: 1, now: Time::ZERO });
/// curve.requests(&accesses.map(|access| sample.take(&access).unwrap()));
/// let ratios: Vec<f64> = curve.points(&sample).iter().map(|point| point.object_hit_ratio).collect();
/// assert_eq!(ratios, [0.25, 0.5]);
/// ```
pub struct Curve<S> {
    whole: S,
    /// One simulation for each part of the sample; none if the sample has all objects.
    sets: Vec<S>,
    margins: Margins,
    /// The scales of `whole` and of each set.
    scales: [Scale; 2],
    /// Buffers for the requests of the whole sample and of each set, kept to reuse their memory.
    sorted: [Vec<Sampled>; 1 + CURVE_SETS],
}

impl Curve<LruCurve> {
    /// Creates the curve of LRU caches of `capacities` bytes.
    pub fn lru(capacities: &[u64], sample: &Sample) -> Self {
        let least = capacities.iter().copied().min().unwrap_or(u64::MAX);
        let scale = scale(least, sample.scale(), 1.0);
        let set_scale = self::scale(least, set_of(sample.scale()), 1.0);
        let curve = |scale| LruCurve::new(capacities, sample.clone(), scale, usize::MAX);
        let sets = (0..sets(sample)).map(|_| curve(set_scale)).collect();
        Curve::of(curve(scale), sets, [scale, set_scale])
    }

    /// Does the same in bounded memory. It simulates fewer of the sample's objects as soon as more
    /// than `max_objects` would be simulated. The sets that measure the error have as many again.
    pub fn bounded_lru(capacities: &[u64], sample: &Sample, max_objects: usize) -> Self {
        let [sample, set] = sample.uniform();
        let scales = [sample.scale(), set.scale()];
        let curve = |sample: Sample, max_objects| {
            let scale = sample.scale();
            LruCurve::new(capacities, sample, scale, max_objects)
        };
        let set = |_| curve(set.clone(), max_objects / CURVE_SETS);
        Curve::of(
            curve(sample.clone(), max_objects),
            (0..CURVE_SETS).map(set).collect(),
            scales,
        )
    }
}

impl Curve<Miniature> {
    /// Creates a curve of one cache of `capacity` with the policies of `spec`.
    ///
    /// # Errors
    /// [`SpecError`] if the spec's arguments contradict each other.
    pub fn miniature(
        spec: &Spec,
        capacity: ByteSize,
        sample: &Sample,
        seed: u64,
    ) -> Result<Self, SpecError> {
        let cache = |scale| Miniature::new(spec, capacity, scale, seed);
        let (bytes, parts) = (capacity.bytes(), parts(spec));
        let scale = scale(bytes, sample.scale(), parts);
        let set_scale = self::scale(bytes, set_of(sample.scale()), parts);
        Ok(Curve::of(
            cache(scale)?,
            (0..sets(sample))
                .map(|_| cache(set_scale))
                .collect::<Result<_, _>>()?,
            [scale, set_scale],
        ))
    }

    /// Returns the same cache, filled as [`crate::Replay::filling`] does.
    pub fn filling(self) -> Self {
        Curve {
            whole: self.whole.filling(),
            sets: self.sets.into_iter().map(Miniature::filling).collect(),
            ..self
        }
    }
}

/// Returns the number of parts of a sample: none if it has all objects.
fn sets(sample: &Sample) -> usize {
    if sample.rate() < 1.0 { CURVE_SETS } else { 0 }
}

/// Returns the scale of a part of a sample of this scale. More of the large objects are in a part.
fn set_of(whole: Scale) -> Scale {
    let small = match whole.small() {
        u64::MAX => u64::MAX,
        small => small / CURVE_SETS as u64,
    };
    Scale::new(whole.rate() / CURVE_SETS as f64, small)
}

impl<S: Simulated> Curve<S> {
    fn of(whole: S, sets: Vec<S>, scales: [Scale; 2]) -> Curve<S> {
        // Only objects that are larger than this are in several sets.
        let is_plain = scales[0].small() == u64::MAX;
        let margins = Margins {
            shared: if is_plain { 1.0 } else { SHARED },
            least: whole.least_error(),
        };
        Curve {
            whole: if sets.is_empty() {
                whole
            } else {
                whole.measuring()
            },
            margins,
            sets,
            scales,
            sorted: Default::default(),
        }
    }

    /// Simulates requests of the sample, one after another. Many in one call are faster.
    pub fn requests(&mut self, sampled: &[Sampled]) {
        self.sorted.iter_mut().for_each(Vec::clear);
        let [whole, set] = self.scales;
        let [of_whole, of_sets @ ..] = &mut self.sorted;
        for sampled in sampled.iter().filter(|sampled| sampled.is_in(&whole)) {
            of_whole.push(*sampled);
            if !self.sets.is_empty() {
                sampled.for_sets(&set, &whole, |number| of_sets[number].push(*sampled));
            }
        }
        let [all, of_sets @ ..] = &self.sorted;
        self.whole.requests(all);
        for (set, accesses) in self.sets.iter_mut().zip(of_sets) {
            set.requests(accesses);
        }
    }

    /// Returns the share of the objects that it simulates now.
    pub fn rate(&self) -> f64 {
        self.whole.rate()
    }

    /// Returns the curve so far. `sample` is the sample that took the requests.
    pub fn points(&self, sample: &Sample) -> Vec<Point> {
        let sets: Vec<Vec<(u64, Misses)>> = self.sets.iter().map(S::misses).collect();
        let variances = self.whole.variances();
        let points = self.whole.misses().into_iter().enumerate();
        points
            .map(|(place, (capacity, whole))| {
                let estimate = |all: f64, of: fn(&Misses) -> f64| {
                    let sets: Vec<f64> = sets.iter().map(|set| of(&set[place].1)).collect();
                    let rates = [sample.rate(), self.rate()];
                    let large = of(&variances[place]);
                    ratio((of(&whole), large), &sets, all, rates, self.margins)
                };
                let (object_hit_ratio, object_error) =
                    estimate(sample.requests() as f64, |misses| misses.requests);
                let (byte_hit_ratio, byte_error) = estimate(sample.bytes(), |misses| misses.bytes);
                let error_is_least = self.rate() < 1.0 && self.whole.error_is_least();
                let size_changes = self.whole.size_changes();
                Point {
                    capacity,
                    object_hit_ratio,
                    object_error,
                    byte_hit_ratio,
                    byte_error,
                    error_is_least,
                    size_changes,
                }
            })
            .collect()
    }
}

/// Returns the hit ratio of `all`, from the misses of a sample and of its sets, and its error: see
/// the documentation of the module. The misses are scaled to the first of the rates. The last rate
/// is that of the objects that are still simulated. `large` is the variance by the choice of
/// the large objects.
pub(crate) fn ratio(
    (whole, large): (f64, f64),
    sets: &[f64],
    all: f64,
    [rate, last]: [f64; 2],
    margins: Margins,
) -> (f64, f64) {
    if all == 0.0 {
        return (0.0, 0.0);
    }
    let miss_ratio = whole / (all * rate);
    let hit_ratio = (1.0 - miss_ratio).clamp(0.0, 1.0);
    if last == 1.0 {
        return (hit_ratio, 0.0);
    }
    let count = sets.len() as f64;
    let of_sets: Vec<f64> = sets
        .iter()
        .map(|misses| misses * count / (all * rate))
        .collect();
    let mean = of_sets.iter().sum::<f64>() / count;
    let squares: f64 = of_sets.iter().map(|set| (set - mean).powi(2)).sum();
    let chance =
        margins.shared * STUDENT * (1.0 - last).sqrt() * (squares / (count * (count - 1.0))).sqrt();
    let of_large = NORMAL * large.sqrt() / (all * rate);
    let bias = (mean - miss_ratio) / (count.powf(BIAS_POWER) - 1.0);
    let error = [of_large, bias, margins.least]
        .into_iter()
        .fold(chance, f64::hypot);
    (hit_ratio, error.min(1.0))
}
