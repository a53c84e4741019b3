//! A sample in bounded memory, for several passes over a trace that can be read only once.

use super::estimate::NORMAL;
use super::sample::{Sample, Sampled, Sizes};
use crate::{Access, Survey};
use larder_policy::Scale;

/// The smallest cache that the sample is made for has this part of all objects' bytes.
const LEAST_PART: f64 = 1024.0;

/// The largest size of a small object may fall by this factor where the rate is halved: 2^(−1/.75),
/// with which a large object has the chance that it had.
const LEAST_OF_SMALL: f64 = 0.397;

/// If fewer than one kept request in this many is for an object of the uniform sample, fewer large
/// objects are kept instead of fewer of all.
const LEAST_UNIFORM: usize = 4;

/// All requests for a share of the objects, larger for large ones: see [`Scale`]. The share falls
/// as the trace grows, so that at most a given number of requests is kept (fixed-size SHARDS,
/// Waldspurger et al., Efficient MRC construction with SHARDS, FAST 2015, with requests instead of
/// objects).
///
/// ```
/// use larder_replay::{Access, KeptSample};
/// use larder_units::Time;
///
/// let mut kept = KeptSample::new(100, 1);
/// kept.requests((0..1_000).map(|id| Access { id, size: 1, now: Time::ZERO }));
/// assert!(kept.requests_kept().len() <= 100 && kept.sample().requests() == 1_000);
/// ```
pub struct KeptSample {
    sample: Sample,
    kept: Vec<Sampled>,
    most: usize,
    /// The largest size of a small object: the mean, or what is small in the smallest cache.
    small: u64,
}

impl KeptSample {
    /// Creates an empty sample of at most `most` requests, 40 bytes of memory each. Another `seed`
    /// selects other objects.
    pub fn new(most: usize, seed: u64) -> KeptSample {
        KeptSample {
            sample: Sample::all(seed),
            kept: Vec::new(),
            most,
            small: 1,
        }
    }

    /// Adds the requests of the sample, in their order.
    pub fn requests(&mut self, accesses: impl IntoIterator<Item = Access>) {
        for access in accesses {
            if let Some(sampled) = self.sample.take(&access) {
                self.kept.push(sampled);
            }
            // An object with more requests than may be kept is dropped in the end.
            while self.kept.len() > self.most && self.thin() {}
        }
    }

    /// Makes the sample smaller. Returns false if nothing would be left.
    fn thin(&mut self) -> bool {
        let sizes = self.sizes();
        let (bytes, objects) = self.unique(&sizes);
        let scale = self.sample.scale();
        let uniform = self
            .kept
            .iter()
            .filter(|sampled| sampled.is_uniform(&scale));
        let is_left = if uniform.count() < self.kept.len() / LEAST_UNIFORM {
            // The large objects take too much of the sample.
            self.small = self.small.saturating_mul(2);
            true
        } else {
            let least = (bytes.0 / LEAST_PART) as u64;
            let least = Scale::of(scale.rate() / 2.0, least, 1.0).small();
            // No size may have a higher chance than before.
            let before = (self.small as f64 * LEAST_OF_SMALL).ceil() as u64;
            self.small = before.max(least).max((bytes.0 / objects) as u64);
            self.sample.halve()
        };
        self.sample.set_small(self.small, &mut self.kept, &sizes);
        is_left
    }

    /// Gives every request the largest size of its object in the sample. A log states the bytes
    /// sent, which are fewer for a response without a body or a lost connection.
    pub fn use_largest_sizes(&mut self) {
        let sizes = self.sizes();
        let mut more_bytes = 0.0;
        for sampled in &mut self.kept {
            let before = sampled.access.size;
            let size = sizes.get(&sampled.access.id).copied().unwrap_or_default();
            debug_assert!(size >= before, "{size} is the largest size");
            sampled.set_size(size);
            more_bytes += (size - before) as f64 / sampled.chance(&self.sample.scale());
        }
        self.sample.add_bytes(more_bytes);
    }

    /// Adds the bytes that a cache needs for each object besides its body.
    pub fn add_overhead(&mut self, bytes: u64) {
        for sampled in &mut self.kept {
            sampled.set_size(sampled.access.size.saturating_add(bytes));
        }
        if self.sample.rate() < 1.0 {
            // (s + o) ÷ (f + o) ≤ s ÷ f, so no object gets a higher chance than it was chosen with.
            self.small = self.small.saturating_add(bytes);
            let sizes = self.sizes();
            self.sample.set_small(self.small, &mut self.kept, &sizes);
        }
        self.sample
            .add_bytes(self.sample.requests() as f64 * bytes as f64);
    }

    /// Returns the largest size of each object.
    fn sizes(&self) -> Sizes {
        let mut sizes = Sizes::default();
        for Sampled { access, .. } in &self.kept {
            let size = sizes.entry(access.id).or_default();
            *size = access.size.max(*size);
        }
        sizes
    }

    /// Returns the sample: its rate, and the totals of all requests.
    pub fn sample(&self) -> &Sample {
        &self.sample
    }

    /// Returns the kept requests, in their order.
    pub fn requests_kept(&self) -> &[Sampled] {
        &self.kept
    }

    /// Returns statistics of the kept requests for a uniform share of the objects. Shares of
    /// objects, sizes and popularity estimate those of all objects. Numbers of objects and bytes
    /// must be divided by the rate.
    pub fn survey(&self) -> Survey {
        let mut survey = Survey::default();
        let scale = self.sample.scale();
        for sampled in self
            .kept
            .iter()
            .filter(|sampled| sampled.is_uniform(&scale))
        {
            survey.count(&sampled.access);
        }
        survey
    }

    /// Estimates the bytes of all objects. Returns the estimate and its error with 95 % of
    /// confidence; the error is 0 if every object is kept (Horvitz and Thompson, Journal of the
    /// American Statistical Association 1952, for independent choices).
    pub fn unique_bytes(&self) -> (f64, f64) {
        self.unique(&self.sizes()).0
    }

    /// Estimates the bytes of all objects with their error, and their number.
    fn unique(&self, sizes: &Sizes) -> ((f64, f64), f64) {
        let scale = self.sample.scale();
        let (mut bytes, mut objects, mut variance) = (0.0, 0.0, 0.0);
        for size in sizes.values() {
            let chance = scale.chance(*size);
            let stands_for = *size as f64 / chance;
            bytes += stands_for;
            objects += 1.0 / chance;
            variance += (1.0 - chance) * stands_for * stands_for;
        }
        ((bytes, NORMAL * variance.sqrt()), objects)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Curve, Web};
    use larder_units::{ByteSize, Streams, Time};

    fn web(requests: usize) -> Vec<Access> {
        let web = Web {
            objects: 50_000,
            exponent: 0.8,
            ..Web::default()
        };
        web.requests(&Streams::new(3))
            .unwrap()
            .take(requests)
            .collect()
    }

    #[test]
    fn a_kept_sample_has_other_requests_than_one_of_its_final_rate() {
        let accesses = web(200_000);
        let mut kept = KeptSample::new(30_000, 9);
        kept.requests(accesses.iter().copied());
        let mut sample = Sample::of(kept.sample().rate(), 9).unwrap();
        let direct: Vec<Sampled> = accesses
            .iter()
            .filter_map(|access| sample.take(access))
            .collect();
        assert!(
            direct.len() > 10_000 && direct == kept.requests_kept(),
            "{} {}",
            direct.len(),
            sample.rate()
        );
        assert_eq!(
            (sample.requests(), sample.bytes()),
            (kept.sample().requests(), kept.sample().bytes())
        );
    }

    fn once(id: u64, size: u64) -> Access {
        Access {
            id,
            size,
            now: Time::ZERO,
        }
    }

    /// Failure: large objects that were requested before the sample became smaller are dropped, and
    /// those that are left count for themselves only.
    #[test]
    fn large_objects_of_the_past_are_dropped() {
        let mut kept = KeptSample::new(1_000, 1);
        kept.requests((0..10).map(|id| once(id, 1_000_000)));
        kept.requests((10..1_500).map(|id| once(id, 1)));
        assert!(kept.sample().rate() < 1.0);
        let (bytes, error) = kept.unique_bytes();
        assert!(
            (bytes - 10_001_490.0).abs() <= error.max(200.0),
            "{bytes} {error}"
        );
    }

    /// Failure: an overhead makes objects large after they were chosen as small ones.
    #[test]
    fn an_overhead_changes_the_chances_of_the_past() {
        for (size, overhead) in [(1_000, 1_000), (1, 512)] {
            let mut kept = KeptSample::new(20_000, 1);
            kept.requests((0..100_000).map(|id| once(id, size)));
            kept.add_overhead(overhead);
            let (bytes, error) = kept.unique_bytes();
            let truth = 100_000.0 * (size + overhead) as f64;
            assert!((bytes - truth).abs() <= 1.5 * error, "{bytes} of {truth}");
        }
    }

    /// Failure: one large object that is requested all the time takes the place of all others.
    #[test]
    fn a_hot_large_object_leaves_no_others() {
        let mut kept = KeptSample::new(10_000, 1);
        let request = |n: u64| match n % 3 {
            0 => once(n % 30_000, 50_000),
            _ => once(u64::MAX, 2_000_000_000),
        };
        kept.requests((0..100_000).map(request));
        let objects = kept.survey().report().objects;
        assert!(
            objects > 300,
            "{objects} at the rate {}",
            kept.sample().rate()
        );
    }

    #[test]
    fn everything_is_kept_while_there_is_room() {
        let mut kept = KeptSample::new(1_000, 1);
        kept.requests(web(1_000));
        assert_eq!(
            (kept.sample().rate(), kept.requests_kept().len()),
            (1.0, 1_000)
        );
        assert_eq!(
            kept.unique_bytes(),
            (kept.survey().unique_bytes() as f64, 0.0)
        );
    }

    #[test]
    fn an_object_with_more_requests_than_fit_grows_without_end() {
        let mut kept = KeptSample::new(100, 1);
        kept.requests((0..100_000).map(|_| Access {
            id: 7,
            size: 1,
            now: Time::ZERO,
        }));
        assert!(kept.requests_kept().len() <= 100);
    }

    #[test]
    fn the_footprint_is_beyond_its_error() {
        let accesses = web(300_000);
        let mut exact = Survey::default();
        for access in &accesses {
            exact.count(access);
        }
        let mut missed = 0;
        for seed in 1..=20 {
            let mut kept = KeptSample::new(40_000, seed);
            kept.requests(accesses.iter().copied());
            let (bytes, error) = kept.unique_bytes();
            missed += u32::from((bytes - exact.unique_bytes() as f64).abs() > error);
        }
        // One in twenty may exceed it, by the definition of the confidence.
        assert!(missed <= 4, "{missed} of 20");
    }

    #[test]
    fn sizes_of_a_log_are_those_sent() {
        let access = |id, size| Access {
            id,
            size,
            now: Time::ZERO,
        };
        let mut kept = KeptSample::new(10, 1);
        kept.requests([access(1, 0), access(1, 500), access(2, 7), access(1, 0)]);
        kept.use_largest_sizes();
        kept.add_overhead(100);
        let sizes: Vec<u64> = kept
            .requests_kept()
            .iter()
            .map(|sampled| sampled.access.size)
            .collect();
        assert_eq!(sizes, [600, 600, 107, 600]);
        assert_eq!(kept.sample().bytes(), 1_907.0);
        let mut curve = Curve::lru(&[10_000], kept.sample());
        curve.requests(kept.requests_kept());
        let point = curve.points(kept.sample())[0];
        assert_eq!(
            (point.object_hit_ratio, point.byte_hit_ratio),
            (0.5, 1_200.0 / 1_907.0)
        );
        let mut cache = Curve::miniature(
            &"lru".parse().unwrap(),
            ByteSize::from_bytes(600),
            kept.sample(),
            1,
        )
        .unwrap();
        cache.requests(kept.requests_kept());
        assert_eq!(cache.points(kept.sample())[0].object_hit_ratio, 0.25);
    }
}
