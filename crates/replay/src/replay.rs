//! The replay loop: a trace through an engine, one thread, jobs inline.

use crate::limits::JOB_INTERVAL;
use crate::{Access, Row};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use larder_policy::{Engine, Future, Slot, Spec, SpecError};
use larder_units::{ByteSize, Streams};
use std::sync::Arc;

/// A cache without values that requests are replayed through.
///
/// An object whose size changes in the trace keeps, while it is cached, the size with which it was stored (the engine's books need it);
/// a request for it is a hit, and counts in the byte hit ratio with the request's own size. Stored again, it gets its new size.
pub struct Replay {
    engine: Engine,
    seed: u64,
    index: HashMap<u64, Slot, FixedState>,
    /// Whose each slot is.
    ids: Vec<u64>,
    victims: Vec<Slot>,
    fills: bool,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    requests: u64,
    hits: u64,
    insertions: u64,
    bytes: u64,
    hit_bytes: u64,
}

impl Replay {
    /// An empty cache. The same arguments and requests give the same figures.
    ///
    /// # Errors
    /// [`SpecError`] where the spec's arguments contradict each other.
    pub fn new(spec: &Spec, capacity: ByteSize, seed: u64) -> Result<Replay, SpecError> {
        Ok(Replay::over(Engine::new(spec, capacity, &Streams::new(seed))?, seed))
    }

    /// As [`Replay::new`], also for the policies that know the trace ahead ([`Spec::is_offline`]): `future` holds the requests that will be made.
    ///
    /// # Errors
    /// [`SpecError`] where the spec's arguments contradict each other.
    pub fn foreseeing(spec: &Spec, capacity: ByteSize, seed: u64, future: &Arc<Future>) -> Result<Replay, SpecError> {
        Ok(Replay::over(Engine::foreseeing(spec, capacity, &Streams::new(seed), future)?, seed))
    }

    fn over(engine: Engine, seed: u64) -> Replay {
        Replay {
            engine,
            seed,
            index: HashMap::default(),
            ids: Vec::new(),
            victims: Vec::new(),
            fills: false,
            counts: Counts::default(),
        }
    }

    /// The same cache, but storing without asking the policies while there is free room, as the node's caches do
    /// ([`Engine::admit_or_fill`]); the papers ask for every object.
    pub fn filling(self) -> Replay {
        Replay { fills: true, ..self }
    }

    /// One request; true at a hit.
    #[inline]
    pub fn request(&mut self, access: &Access) -> bool {
        let Access { id, size, now } = *access;
        self.counts.requests += 1;
        self.counts.bytes = self.counts.bytes.saturating_add(size);
        if self.counts.requests.is_multiple_of(JOB_INTERVAL)
            && let Some(job) = self.engine.job()
        {
            self.engine.complete(job.run());
        }
        if let Some(slot) = self.index.get(&id) {
            self.counts.hits += 1;
            self.counts.hit_bytes = self.counts.hit_bytes.saturating_add(size);
            self.engine.hit(*slot, id, now);
            return true;
        }
        self.engine.miss(id, now);
        let admitted = match self.fills {
            true => self.engine.admit_or_fill(id, size, now),
            false => self.engine.admit(id, size, now),
        };
        if admitted && let Some(slot) = self.engine.insert(id, size, now, &mut self.victims) {
            for victim in self.victims.drain(..) {
                self.index.remove(&self.ids[victim.index()]);
            }
            if slot.index() == self.ids.len() {
                self.ids.push(id);
            } else {
                self.ids[slot.index()] = id;
            }
            self.index.insert(id, slot);
            self.counts.insertions += 1;
        }
        false
    }

    /// The figures so far. The host fills in [`Row::requests_per_second`], since it has the clock.
    pub fn row(&self, trace: &str) -> Row {
        let Counts { requests, hits, insertions, bytes, hit_bytes } = self.counts;
        let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        Row {
            trace: trace.to_owned(),
            policy: self.engine.spec().to_string(),
            capacity: self.engine.capacity().bytes(),
            seed: self.seed,
            requests,
            hits,
            object_hit_ratio: share(hits, requests),
            byte_hit_ratio: share(hit_bytes, bytes),
            insertion_ratio: share(insertions, requests - hits),
            requests_per_second: 0.0,
        }
    }

    /// The engine, for its gauges.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }
}

/// Replays all `accesses` through a cache of `capacity` with the policies of `spec`.
///
/// # Errors
/// [`SpecError`] where the spec's arguments contradict each other.
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
