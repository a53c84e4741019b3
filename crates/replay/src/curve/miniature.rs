//! Any policy at one capacity, by a cache scaled down with the sample (Waldspurger, Saemundsson,
//! Ahmad and Park, Cache modeling and optimization using miniature simulations, USENIX ATC 2017):
//! the objects of a sample with the rate R, in a cache of R times the capacity.
//!
//! At the rate 1 it is the replay itself. It takes the policy's time for each sampled request, and
//! its memory for R of the objects.

use super::misses::{Misses, Simulated};
use crate::{Access, Replay};
use larder_policy::{Spec, SpecError};
use larder_units::ByteSize;

/// Evictions that learn at intervals with a minimum in requests. A miniature spends a larger part
/// of its life in the first interval: on Twitter's trace at 5 MiB and the rate 0.01, the error
/// stated for LHD was right in one sample of ten.
const UNSCALED: [&str; 1] = ["lhd"];

/// Returns true if a miniature behaves differently from the cache, beyond the stated errors.
pub(crate) fn error_is_least(spec: &Spec) -> bool {
    let spec = spec.to_string();
    spec.rsplit('+')
        .next()
        .is_some_and(|eviction| UNSCALED.contains(&eviction))
}

/// One cache with any policy.
pub struct Miniature {
    replay: Replay,
    capacity: u64,
    rate: f64,
}

impl Miniature {
    /// Creates an empty cache that represents one of `capacity` with the policies of `spec`, for
    /// the share `rate` of all objects.
    ///
    /// # Errors
    /// [`SpecError`] if the spec's arguments contradict each other.
    pub fn new(
        spec: &Spec,
        capacity: ByteSize,
        rate: f64,
        seed: u64,
    ) -> Result<Miniature, SpecError> {
        let scaled = match rate {
            1.0 => capacity,
            rate => ByteSize::from_bytes((capacity.bytes() as f64 * rate).round() as u64),
        };
        Ok(Miniature {
            replay: Replay::new(spec, scaled, seed)?,
            capacity: capacity.bytes(),
            rate,
        })
    }

    /// Returns the same cache, filled as [`Replay::filling`] does.
    pub fn filling(self) -> Miniature {
        Miniature {
            replay: self.replay.filling(),
            ..self
        }
    }
}

impl Simulated for Miniature {
    fn requests(&mut self, accesses: &[Access]) {
        self.replay.requests(accesses);
    }

    fn misses(&self) -> Vec<(u64, Misses)> {
        let (requests, bytes) = self.replay.misses();
        vec![(
            self.capacity,
            Misses {
                requests: requests as f64,
                bytes: bytes as f64,
            },
        )]
    }

    fn rate(&self) -> f64 {
        self.rate
    }

    fn error_is_least(&self) -> bool {
        error_is_least(self.replay.engine().spec())
    }

    fn size_changes(&self) -> u64 {
        0
    }
}
