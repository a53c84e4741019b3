//! The misses of simulated caches.

use super::sample::Sampled;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use larder_policy::Scale;

/// Simulated caches that count their misses.
pub trait Simulated {
    /// Simulates requests, one after another.
    fn requests(&mut self, requests: &[Sampled]);

    /// Returns each capacity in bytes, ascending, with its misses so far. The misses are those of
    /// the share of the objects that the cache was created for.
    fn misses(&self) -> Vec<(u64, Misses)>;

    /// Returns the share of the objects that are simulated now.
    fn rate(&self) -> f64;

    /// Counts the misses of each large object, for [`Simulated::variances`].
    fn measuring(self) -> Self
    where
        Self: Sized;

    /// Returns the variance of these misses, in the same order, that comes from the choice of the
    /// large objects; 0 without [`Simulated::measuring`].
    fn variances(&self) -> Vec<Misses>;

    /// Returns the least error of a ratio from a sample, beyond chance and size.
    fn least_error(&self) -> f64;

    /// Returns true if the simulated policy does not scale with the sample: see
    /// [`Point::error_is_least`](super::Point::error_is_least).
    fn error_is_least(&self) -> bool;

    /// Returns the requests that make the count inexact: see
    /// [`Point::size_changes`](super::Point::size_changes).
    fn size_changes(&self) -> u64;
}

/// A number of misses.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Misses {
    /// Requests.
    pub requests: f64,
    /// Bytes of these requests.
    pub bytes: f64,
}

/// The misses of each large object that might not have been simulated, and its chance.
#[derive(Default)]
pub(super) struct LargeMisses {
    objects: HashMap<u64, (Misses, f64), FixedState>,
}

impl LargeMisses {
    /// Counts a miss of this weight.
    pub fn count(&mut self, sampled: &Sampled, weight: f64, scale: &Scale) {
        let chance = sampled.chance(scale);
        if chance < 1.0 {
            let (object, of) = self.objects.entry(sampled.access.id).or_default();
            object.requests += weight;
            object.bytes += weight * sampled.access.size as f64;
            *of = chance;
        }
    }

    /// Returns the variance of their sum: (1 − q)·m² for each object with m weighted misses that
    /// was chosen with the chance q (Horvitz and Thompson, Journal of the American Statistical
    /// Association 1952, for independent choices).
    pub fn variance(&self) -> Misses {
        let mut sum = Misses::default();
        for (Misses { requests, bytes }, chance) in self.objects.values() {
            let left_out = 1.0 - chance;
            sum.requests += left_out * requests * requests;
            sum.bytes += left_out * bytes * bytes;
        }
        sum
    }
}

impl Misses {
    /// Returns the misses since an earlier count.
    pub(crate) fn since(self, earlier: Misses) -> Misses {
        Misses {
            requests: self.requests - earlier.requests,
            bytes: self.bytes - earlier.bytes,
        }
    }
}
