//! One miniature cache, in which objects become stale.

use crate::curve::{Misses, most_room};
use crate::limits::JOB_INTERVAL_REQUESTS;
use larder_policy::observe::{Observed, Outcome};
use larder_policy::{Engine, Slot, SlotIndex, Spec, SpecError};
use larder_units::{ByteSize, Streams, Time};

/// A cache without values, for the objects of a sample.
pub(super) struct MiniCache {
    engine: Engine,
    index: SlotIndex,
    /// For each slot: the object answers requests until then.
    fresh_until: Vec<Time>,
    victims: Vec<Slot>,
    requests: u64,
    /// The misses of all objects, by calculation.
    pub misses: Misses,
    /// The share of the capacity beyond which an object is too large for a miniature.
    coarse_share: f64,
    /// The last time at which an object that stands for others was so large that the cache itself
    /// treats it otherwise: see [`most_room`].
    pub coarse_at: Option<Time>,
}

impl MiniCache {
    pub(super) fn new(spec: &Spec, capacity: ByteSize, seed: u64) -> Result<MiniCache, SpecError> {
        Ok(MiniCache {
            engine: Engine::new(spec, capacity, &Streams::new(seed))?,
            index: SlotIndex::default(),
            fresh_until: Vec::new(),
            victims: Vec::new(),
            requests: 0,
            misses: Misses::default(),
            coarse_share: most_room(spec, 1.0),
            coarse_at: None,
        })
    }

    /// Simulates a request. A miss counts `weight` times.
    pub(super) fn request(&mut self, observed: &Observed, id: u64, weight: f64) {
        let Observed { now, size, .. } = *observed;
        if observed.outcome == Outcome::Refreshed {
            if let Some(slot) = self.find(id) {
                self.fresh_until[slot.index()] = fresh_until(observed);
            }
            return;
        }
        self.requests += 1;
        if self.requests.is_multiple_of(JOB_INTERVAL_REQUESTS)
            && let Some(job) = self.engine.job()
        {
            self.engine.complete(job.run());
        }
        if let Some(slot) = self.find(id) {
            let is_fresh = observed.any_age || !self.fresh_until[slot.index()].has_passed(now);
            // The cache itself has the object unchanged, so its origin would confirm this copy.
            let is_confirmed = observed.outcome == Outcome::Hit && observed.validates;
            if (is_fresh && observed.outcome != Outcome::Reloaded) || is_confirmed {
                if !is_fresh {
                    self.fresh_until[slot.index()] = fresh_until(observed);
                }
                self.engine.hit(slot, id, now);
                return;
            }
            self.engine.remove(slot);
            self.index.remove(id, slot);
        }
        self.misses.requests += weight;
        self.misses.bytes += weight * observed.bytes as f64;
        let most = self.engine.capacity().bytes() as f64 * self.coarse_share;
        if weight > 1.0 && size as f64 > most {
            self.coarse_at = Some(now);
        }
        self.engine.miss(id, now);
        if self.engine.admit_or_fill(id, size, now)
            && self.engine.make_room(id, size, now, &mut self.victims)
        {
            self.forget_victims();
            if let Some(slot) = self.engine.insert(id, size, now, &mut self.victims) {
                self.index.insert(id, slot);
                if self.fresh_until.len() <= slot.index() {
                    self.fresh_until.resize(slot.index() + 1, Time::ZERO);
                }
                self.fresh_until[slot.index()] = fresh_until(observed);
            }
        }
    }

    fn find(&self, id: u64) -> Option<Slot> {
        self.index.find(id, |slot| self.engine.holds(slot, id))
    }

    fn forget_victims(&mut self) {
        for victim in self.victims.drain(..) {
            if let Some(id) = self.engine.last_id(victim) {
                self.index.remove(id, victim);
            }
        }
    }

    /// Removes an object, or makes it stale.
    pub(super) fn remove(&mut self, id: u64, soft: bool, now: Time) {
        if let Some(slot) = self.find(id) {
            self.remove_slot(slot, id, soft, now);
        }
    }

    fn remove_slot(&mut self, slot: Slot, id: u64, soft: bool, now: Time) {
        if soft {
            let until = &mut self.fresh_until[slot.index()];
            *until = (*until).min(Time::from_nanos(now.nanos().saturating_sub(1)));
        } else {
            self.engine.remove(slot);
            self.index.remove(id, slot);
        }
    }

    /// Removes all objects, or makes them stale.
    pub(super) fn remove_all(&mut self, soft: bool, now: Time) {
        for (slot, id) in self.objects() {
            self.remove_slot(slot, id, soft, now);
        }
    }

    /// Removes the objects for which `keeps` returns false, then others until the rest fits.
    pub(super) fn shrink(&mut self, capacity: ByteSize, keeps: impl Fn(u64) -> bool) {
        for (slot, id) in self.objects() {
            if !keeps(id) {
                self.remove_slot(slot, id, false, Time::ZERO);
            }
        }
        self.engine.set_capacity(capacity, &mut self.victims);
        self.forget_victims();
    }

    fn objects(&self) -> Vec<(Slot, u64)> {
        let slots = (0..self.fresh_until.len())
            .filter_map(|place| u32::try_from(place).ok().map(Slot::new));
        slots
            .filter_map(|slot| Some((slot, self.engine.object(slot)?.0)))
            .collect()
    }

    /// Returns the number of its objects.
    pub(super) fn len(&self) -> usize {
        self.engine.len()
    }

    /// Returns the bytes of its heap.
    pub(super) fn state_bytes(&self) -> usize {
        self.engine.state_bytes()
            + self.index.bytes()
            + self.fresh_until.capacity() * size_of::<Time>()
    }
}

/// Returns the end of the freshness of an object that arrives with this request.
fn fresh_until(observed: &Observed) -> Time {
    let lifetime = u64::try_from(observed.lifetime.as_nanos()).unwrap_or(u64::MAX);
    // An object without a freshness lifetime is already stale at its next request.
    match lifetime {
        0 => Time::ZERO,
        lifetime => Time::from_nanos(observed.now.nanos().saturating_add(lifetime)),
    }
}
