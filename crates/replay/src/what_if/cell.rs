//! A policy at a size: the miniature cache of the whole sample, and those of its parts, which
//! measure the error.

use super::mini_cache::MiniCache;
use super::report::WhatIfCell;
use crate::curve::{Misses, PLAIN, error_is_least, ratio};
use crate::limits::CURVE_SETS;
use larder_policy::observe::{Observed, Totals};
use larder_policy::{Spec, SpecError};
use larder_units::{ByteSize, Time};

pub(super) struct Cell {
    spec: Spec,
    capacity: ByteSize,
    whole: MiniCache,
    sets: Vec<MiniCache>,
}

impl Cell {
    pub(super) fn new(spec: &Spec, capacity: ByteSize, seed: u64) -> Result<Cell, SpecError> {
        let part = scaled(capacity, 1.0 / CURVE_SETS as f64);
        let sets = (0..CURVE_SETS)
            .map(|_| MiniCache::new(spec, part, seed))
            .collect::<Result<_, _>>()?;
        Ok(Cell {
            spec: spec.clone(),
            capacity,
            whole: MiniCache::new(spec, capacity, seed)?,
            sets,
        })
    }

    /// Passes requests, with the ids of their objects, to the caches. Requests with a position up
    /// to `last` are in the sample.
    pub(super) fn requests(&mut self, requests: &[(Observed, u64)], last: u64, weight: f64) {
        let sampled = || {
            requests
                .iter()
                .filter(|(observed, _)| observed.place <= last)
        };
        for (observed, id) in sampled() {
            self.whole.request(observed, *id, weight);
        }
        for (observed, id) in sampled() {
            self.sets[set(*id)].request(observed, *id, weight);
        }
    }

    pub(super) fn remove(&mut self, id: u64, soft: bool, now: Time) {
        self.whole.remove(id, soft, now);
        self.sets[set(id)].remove(id, soft, now);
    }

    pub(super) fn remove_all(&mut self, soft: bool, now: Time) {
        for cache in self.caches() {
            cache.remove_all(soft, now);
        }
    }

    /// Drops the objects with a position after `last`. The sample has this rate now.
    pub(super) fn shrink(&mut self, last: u64, rate: f64) {
        let keeps = |id: u64| id <= last | VARIANT_BITS;
        self.whole.shrink(scaled(self.capacity, rate), keeps);
        let part = scaled(self.capacity, rate / CURVE_SETS as f64);
        for set in &mut self.sets {
            set.shrink(part, keeps);
        }
    }

    fn caches(&mut self) -> impl Iterator<Item = &mut MiniCache> {
        std::iter::once(&mut self.whole).chain(&mut self.sets)
    }

    pub(super) fn objects(&self) -> usize {
        self.whole.len()
    }

    pub(super) fn state_bytes(&self) -> usize {
        self.whole.state_bytes() + self.sets.iter().map(MiniCache::state_bytes).sum::<usize>()
    }

    /// Returns the misses of the whole sample, and of each part.
    pub(super) fn misses(&self) -> impl Iterator<Item = Misses> {
        std::iter::once(&self.whole)
            .chain(&self.sets)
            .map(|cache| cache.misses)
    }

    /// Returns the estimate from these misses since a time.
    pub(super) fn estimate(
        &self,
        capacity: ByteSize,
        misses: &[Misses],
        totals: &Totals,
        (rate, since): (f64, Time),
    ) -> WhatIfCell {
        let estimate = |storable: u64, unstorable: u64, of: fn(&Misses) -> f64| {
            let sets: Vec<f64> = misses[1..].iter().map(of).collect();
            let (hit_ratio, error) = ratio(
                (of(&misses[0]), 0.0),
                &sets,
                storable as f64,
                [1.0, rate],
                PLAIN,
            );
            // Responses that may not be stored miss in every cache.
            let share = if storable == 0 {
                0.0
            } else {
                storable as f64 / (storable + unstorable) as f64
            };
            (hit_ratio * share, error * share)
        };
        let (object_hit_ratio, object_error) =
            estimate(totals.storable(), totals.unstorable, |misses| {
                misses.requests
            });
        let (byte_hit_ratio, byte_error) =
            estimate(totals.storable_bytes(), totals.unstorable_bytes, |misses| {
                misses.bytes
            });
        WhatIfCell {
            policy: self.spec.to_string(),
            capacity: capacity.bytes(),
            object_hit_ratio,
            object_error,
            byte_hit_ratio,
            byte_error,
            error_is_least: rate < 1.0
                && (self.whole.coarse_at.is_some_and(|at| at >= since)
                    || error_is_least(&self.spec)
                    || tunes_rarely(&self.spec)),
            rate,
        }
    }
}

/// The lower half of an id distinguishes the variants of a key: see `keys.rs`. Only the upper half
/// selects the part of the sample, so that all variants are in the same.
pub(super) const VARIANT_BITS: u64 = u32::MAX as u64;

/// Returns true if the policy tunes itself after a number of requests that a small sample reaches
/// late. On Twitter's trace the byte hit ratio of AdaptSize was off by twice the stated error.
fn tunes_rarely(spec: &Spec) -> bool {
    spec.to_string().starts_with("adaptsize")
}

fn set(id: u64) -> usize {
    (id >> 32) as usize % CURVE_SETS
}

fn scaled(capacity: ByteSize, rate: f64) -> ByteSize {
    ByteSize::from_bytes((capacity.bytes() as f64 * rate) as u64)
}
