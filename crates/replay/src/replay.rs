//! The replay loop: runs a trace through an engine, on one thread, with inline jobs.

use crate::limits::JOB_INTERVAL_REQUESTS;
use crate::{Access, Row, Unit};
use larder_policy::{Engine, Future, Slot, SlotIndex, Spec, SpecError};
use larder_units::{ByteSize, Streams};
use std::collections::VecDeque;
use std::sync::Arc;

/// A cache without values, through which requests are replayed.
///
/// If the size of an object changes in the trace while it is cached, the cache keeps the stored
/// size (the engine's byte counts need it). A request for it is a hit, and counts in the byte hit
/// ratio with the request's own size. When it is stored again, it gets the new size.
///
/// An object of 0 bytes takes one byte of the capacity, so that the capacity also bounds the number
/// of objects. It counts as 0 in the byte hit ratio, which is 0 if no byte was requested. An object
/// larger than the capacity is never stored, and evicts nothing.
pub struct Replay {
    engine: Engine,
    seed: u64,
    /// The entries of the stored objects, and of those in `leaving`.
    index: SlotIndex,
    victims: Vec<Slot>,
    /// Victims whose entries are still in the index, while their memory is prefetched.
    leaving: VecDeque<(u64, Slot)>,
    fills: bool,
    counts: Counts,
    /// The largest size of a request.
    largest: u64,
    /// The counts at the last [`Replay::reset_counts`], which the rows leave out.
    warm_up: Counts,
}

/// The events of a cache, one after another, for statistics beyond those of a row: see
/// [`Replay::requests_with`]. Every method does nothing by default.
pub trait Events {
    /// Reports an answered request, after the evictions and the insertion that it caused.
    #[inline]
    fn on_request(&mut self, access: &Access, is_hit: bool) {
        let _ = (access, is_hit);
    }

    /// Reports a request for the object in `slot`.
    #[inline]
    fn on_hit(&mut self, slot: Slot) {
        let _ = slot;
    }

    /// Reports that the object of this request was stored in `slot`.
    #[inline]
    fn on_insert(&mut self, access: &Access, slot: Slot) {
        let _ = (access, slot);
    }

    /// Reports that the object in `slot` was evicted.
    #[inline]
    fn on_evict(&mut self, slot: Slot) {
        let _ = slot;
    }
}

impl Events for () {}

/// Requests between two steps of prefetching for one request: its index entry, the object's data,
/// and the data that this points to. Values from 4 to 16 are about equally good.
const STEP: usize = 8;

/// The counts of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests.
    pub requests: u64,
    /// Requests whose object was cached.
    pub hits: u64,
    /// Objects stored.
    pub insertions: u64,
    /// Bytes of all requests.
    pub bytes: u64,
    /// Bytes of the requests that hit.
    pub hit_bytes: u64,
}

impl Counts {
    fn since(self, earlier: Counts) -> Counts {
        Counts {
            requests: self.requests - earlier.requests,
            hits: self.hits - earlier.hits,
            insertions: self.insertions - earlier.insertions,
            bytes: self.bytes - earlier.bytes,
            hit_bytes: self.hit_bytes - earlier.hit_bytes,
        }
    }
}

impl Replay {
    /// Creates an empty cache. The same arguments and requests give the same results.
    ///
    /// # Errors
    /// [`SpecError`] if the spec's arguments contradict each other.
    pub fn new(spec: &Spec, capacity: ByteSize, seed: u64) -> Result<Replay, SpecError> {
        Ok(Replay::over(
            Engine::new(spec, capacity, &Streams::new(seed))?,
            seed,
        ))
    }

    /// Does what [`Replay::new`] does, also for policies that know the trace ahead
    /// ([`Spec::is_offline`]). `future` holds the requests that follow.
    ///
    /// # Errors
    /// [`SpecError`] if the spec's arguments contradict each other.
    pub fn foreseeing(
        spec: &Spec,
        capacity: ByteSize,
        seed: u64,
        future: &Arc<Future>,
    ) -> Result<Replay, SpecError> {
        Ok(Replay::over(
            Engine::foreseeing(spec, capacity, &Streams::new(seed), future)?,
            seed,
        ))
    }

    /// Creates an empty cache with an empty engine, whose policies need not be in a registry
    /// ([`Engine::with`]). The row has `seed`, which has no effect here.
    pub fn over(engine: Engine, seed: u64) -> Replay {
        Replay {
            engine,
            seed,
            index: SlotIndex::default(),
            victims: Vec::new(),
            leaving: VecDeque::new(),
            fills: false,
            counts: Counts::default(),
            largest: 0,
            warm_up: Counts::default(),
        }
    }

    /// Makes the cache store objects without an admission while it has free room, as the node's
    /// caches do ([`Engine::admit_or_fill`]). The papers use the admission for every object.
    /// `larder replay` fills unless `--no-fill` is given.
    pub fn filling(self) -> Replay {
        Replay {
            fills: true,
            ..self
        }
    }

    /// Replays one request. Returns true for a hit.
    #[inline]
    pub fn request(&mut self, access: &Access) -> bool {
        self.request_in(access, None, &mut ())
    }

    /// Returns whether the object is cached. This is no request.
    pub fn holds(&self, id: u64) -> bool {
        let stored = self.index.find(id, |slot| self.engine.holds(slot, id));
        stored.is_some()
    }

    /// Does what [`Replay::request`] does, for an object that is probably in the slot `guess`, or
    /// not stored.
    #[inline]
    fn request_in(
        &mut self,
        access: &Access,
        guess: Option<Slot>,
        events: &mut impl Events,
    ) -> bool {
        let Access { id, size, now } = *access;
        self.counts.requests += 1;
        self.counts.bytes = self.counts.bytes.saturating_add(size);
        self.largest = self.largest.max(size);
        if self.counts.requests.is_multiple_of(JOB_INTERVAL_REQUESTS)
            && let Some(job) = self.engine.job()
        {
            self.engine.complete(job.run());
        }
        let stored = match guess {
            Some(slot) if self.engine.holds(slot, id) => guess,
            _ => self.index.find(id, |slot| self.engine.holds(slot, id)),
        };
        if let Some(slot) = stored {
            self.counts.hits += 1;
            self.counts.hit_bytes = self.counts.hit_bytes.saturating_add(size);
            self.engine.hit(slot, id, now);
            events.on_hit(slot);
            events.on_request(access, true);
            return true;
        }
        self.engine.miss(id, now);
        let admitted = if self.fills {
            self.engine.admit_or_fill(id, size, now)
        } else {
            self.engine.admit(id, size, now)
        };
        if admitted && self.engine.make_room(id, size, now, &mut self.victims) {
            for victim in &self.victims {
                events.on_evict(*victim);
            }
            self.forget_victims();
            if let Some(slot) = self.engine.insert(id, size, now, &mut self.victims) {
                self.index.insert(id, slot);
                self.counts.insertions += 1;
                events.on_insert(access, slot);
            }
        }
        events.on_request(access, false);
        false
    }

    /// Replays several requests, with the same result as [`Replay::request`], but faster, because
    /// it prefetches the data of the next ones. Returns the number of hits.
    pub fn requests(&mut self, accesses: &[Access]) -> u64 {
        self.requests_with(accesses, &mut ())
    }

    /// Does what [`Replay::requests`] does, and reports all events to `events`.
    pub fn requests_with(&mut self, accesses: &[Access], events: &mut impl Events) -> u64 {
        let before = self.counts.hits;
        // A guess's position is reused once its request is replayed.
        let mut guesses = [None; 2 * STEP];
        for next in 0..accesses.len() + 3 * STEP {
            let due = |steps: usize| accesses.get(next.wrapping_sub(steps * STEP));
            if let Some(access) = due(3) {
                self.request_in(access, guesses[next % (2 * STEP)], events);
            }
            if let Some(access) = due(2) {
                self.engine
                    .prefetch_further(access.id, guesses[(next - STEP) % (2 * STEP)]);
            }
            if let Some(access) = due(1) {
                let guess = self.index.guess(access.id);
                guesses[next % (2 * STEP)] = guess;
                self.engine.prefetch_slot(access.id, guess);
            }
            if let Some(access) = due(0) {
                self.index.prefetch(access.id);
                self.engine.prefetch(access.id);
            }
        }
        self.counts.hits - before
    }

    /// Removes the victims from the index, but with a delay: their entries are not in the
    /// processor's cache yet.
    fn forget_victims(&mut self) {
        for victim in self.victims.drain(..) {
            if let Some(id) = self.engine.last_id(victim) {
                self.index.prefetch(id);
                self.leaving.push_back((id, victim));
            }
        }
        while self.leaving.len() > STEP
            && let Some((id, slot)) = self.leaving.pop_front()
        {
            self.index.remove(id, slot);
        }
    }

    /// Ends the warm-up: the results count the requests from here on. The cache and its policies do
    /// not change.
    pub fn reset_counts(&mut self) {
        self.warm_up = self.counts;
    }

    /// Returns the missed requests, and their bytes, since the last [`Replay::reset_counts`].
    pub fn misses(&self) -> (u64, u64) {
        let counts = self.counts.since(self.warm_up);
        (
            counts.requests - counts.hits,
            counts.bytes - counts.hit_bytes,
        )
    }

    /// Returns the counts since the last [`Replay::reset_counts`].
    pub fn counts(&self) -> Counts {
        self.counts.since(self.warm_up)
    }

    /// Returns the results since the last [`Replay::reset_counts`]. The host sets
    /// [`Row::requests_per_second`], because it has the clock.
    pub fn row(&self, trace: &str) -> Row {
        let Counts {
            requests,
            hits,
            insertions,
            bytes,
            hit_bytes,
        } = self.counts.since(self.warm_up);
        let share = |part: u64, whole: u64| {
            if whole == 0 {
                0.0
            } else {
                part as f64 / whole as f64
            }
        };
        Row {
            trace: trace.to_owned(),
            policy: self.engine.spec().to_string(),
            capacity: self.engine.capacity().bytes(),
            unit: Unit::of_largest(self.largest),
            seed: self.seed,
            fill: self.fills,
            requests,
            hits,
            object_hit_ratio: share(hits, requests),
            byte_hit_ratio: share(hit_bytes, bytes),
            insertion_ratio: share(insertions, requests - hits),
            requests_per_second: 0.0,
        }
    }

    /// Returns the engine, for its gauges.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }
}

/// Replays all `accesses` through a cache of `capacity` with the policies of `spec`.
///
/// # Errors
/// [`SpecError`] if the spec's arguments contradict each other.
pub fn replay(
    trace: &str,
    accesses: impl IntoIterator<Item = Access>,
    spec: &Spec,
    capacity: ByteSize,
    seed: u64,
) -> Result<Row, SpecError> {
    let mut replay = Replay::new(spec, capacity, seed)?;
    for access in accesses {
        replay.request(&access);
    }
    Ok(replay.row(trace))
}
