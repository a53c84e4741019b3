//! The policy engine of a cache, which all its shards share: one capacity, one order of eviction,
//! one tuner of each policy.
//!
//! A shard does not call it at a hit. It collects hits, and passes a batch of them when the engine
//! is free (AdaptSize, NSDI 2017, §3.3.1: statistics stay off the path of a request). If the engine
//! stays busy, hits beyond [`MAX_NOTED_HITS`] are not counted. All other calls go to the engine
//! at once, after the collected hits of the shard. So a cache of one shard behaves exactly as an
//! engine without batches.

use crate::limits;
use larder_policy::{Engine, Gauge, Job, JobDone, Slot, Spec, SpecError};
use larder_units::{ByteSize, Streams, Time};
use std::cell::RefCell;

/// Hits that a shard collects before it passes them to the policy engine, if that is free. With 64,
/// the engine's lock is held for two microseconds once in 64 hits, and its cache misses overlap.
const BATCH_HITS: usize = 64;

/// Hits that a shard collects while other shards use the engine. Beyond this, hits are not counted:
/// with so many threads that the engine is always busy, it gets a sample.
const MAX_NOTED_HITS: usize = 512;

/// The number of a stored response among those of its shard; free numbers are reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct EntryId(pub u32);

impl EntryId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The shard and the entry of a stored response, in four bytes: the engine has one for each object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner(u32);

impl Owner {
    /// Bits of the shard's number: see [`limits::SHARDS`].
    const SHARD_BITS: u32 = limits::SHARDS.ilog2();

    /// Returns the owner; `None` if a shard has no number for this many entries.
    pub(crate) fn new(shard: u16, entry: EntryId) -> Option<Owner> {
        (entry.0 >> (u32::BITS - Owner::SHARD_BITS) == 0).then_some(Owner::of_stored(shard, entry))
    }

    /// Returns the owner of an entry that exists.
    pub(crate) fn of_stored(shard: u16, entry: EntryId) -> Owner {
        Owner(u32::from(shard) << (u32::BITS - Owner::SHARD_BITS) | entry.0)
    }

    pub(crate) fn shard(self) -> u16 {
        (self.0 >> (u32::BITS - Owner::SHARD_BITS)) as u16
    }

    pub(crate) fn entry(self) -> EntryId {
        EntryId(self.0 & (u32::MAX >> Owner::SHARD_BITS))
    }
}

/// A stored response, and its slot in the engine. When the response has left the engine, the slot
/// is free or has another owner: the number of an entry is reused only after the entry has left its
/// shard, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EngineSlot {
    pub slot: Slot,
    pub owner: Owner,
}

/// A hit that the engine has not counted yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hit {
    pub at: EngineSlot,
    pub hash: u64,
    pub now: Time,
}

/// A response that must be removed from its shard, because the engine has evicted it: call
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eviction(pub(crate) EngineSlot);

impl Eviction {
    /// Returns the number of its shard.
    pub fn shard(&self) -> usize {
        usize::from(self.0.owner.shard())
    }
}

/// The policy engine, with the shard and the entry of each object.
pub struct PolicyEngine {
    engine: Engine,
    /// By slot.
    owners: Vec<Owner>,
    victims: Vec<Slot>,
}

impl PolicyEngine {
    pub(crate) fn new(engine: Engine) -> PolicyEngine {
        PolicyEngine {
            engine,
            owners: Vec::new(),
            victims: Vec::new(),
        }
    }

    /// Counts hits, in their order.
    pub(crate) fn hit(&mut self, hits: &[Hit]) {
        /// Hits from the loading of an object's data to its use.
        const AHEAD: usize = 8;
        for (at, hit) in hits.iter().enumerate() {
            if let Some(soon) = hits.get(at + AHEAD) {
                self.engine.prefetch_slot(soon.hash, Some(soon.at.slot));
            }
            // The engine ignores a slot that is not in use.
            if self.owners.get(hit.at.slot.index()) == Some(&hit.at.owner) {
                self.engine.hit(hit.at.slot, hit.hash, hit.now);
            }
        }
    }

    pub(crate) fn miss(&mut self, hash: u64, now: Time) {
        self.engine.miss(hash, now);
    }

    pub(crate) fn admit_or_fill(&mut self, hash: u64, size: u64, now: Time) -> bool {
        self.engine.admit_or_fill(hash, size, now)
    }

    /// Stores an object for its owner, and appends the victims. Returns `None` if it can never fit.
    pub(crate) fn insert(
        &mut self,
        hash: u64,
        size: u64,
        owner: Owner,
        now: Time,
        evictions: &mut Vec<Eviction>,
    ) -> Option<EngineSlot> {
        let PolicyEngine {
            engine,
            owners,
            victims,
        } = self;
        if !engine.make_room(hash, size, now, victims) {
            return None;
        }
        let leaving = victims.drain(..).map(|slot| {
            Eviction(EngineSlot {
                slot,
                owner: owners[slot.index()],
            })
        });
        evictions.extend(leaving);
        let slot = engine.insert(hash, size, now, victims)?;
        match owners.get_mut(slot.index()) {
            Some(place) => *place = owner,
            None => owners.resize(slot.index() + 1, owner),
        }
        Some(EngineSlot { slot, owner })
    }

    /// Changes policies and capacity, and appends the victims: see [`Engine::reconfigure`].
    pub(crate) fn reconfigure(
        &mut self,
        policy: &Spec,
        capacity: ByteSize,
        streams: &Streams,
        now: Time,
        evictions: &mut Vec<Eviction>,
    ) -> Result<(), SpecError> {
        let PolicyEngine {
            engine,
            owners,
            victims,
        } = self;
        engine.reconfigure(policy, capacity, streams, now, victims)?;
        let leaving = victims.drain(..).map(|slot| {
            Eviction(EngineSlot {
                slot,
                owner: owners[slot.index()],
            })
        });
        evictions.extend(leaving);
        Ok(())
    }

    /// Removes an object, if it has not left already.
    pub(crate) fn remove(&mut self, at: EngineSlot) {
        if self.object(at).is_some() {
            self.engine.remove(at.slot);
        }
    }

    /// Returns the id and the size of an object, if it has not left.
    pub(crate) fn object(&self, at: EngineSlot) -> Option<(u64, u64)> {
        let (id, size) = self
            .engine
            .object(at.slot)
            .filter(|_| self.owners[at.slot.index()] == at.owner)?;
        Some((id, size.bytes()))
    }

    /// Returns the number of a shard's objects.
    pub(crate) fn objects_of(&self, shard: u16) -> usize {
        let slots = (0..).map(Slot::new).zip(&self.owners);
        slots
            .filter(|(slot, owner)| owner.shard() == shard && self.engine.object(*slot).is_some())
            .count()
    }

    pub(crate) fn check_invariants(&self) {
        self.engine.check_invariants();
    }

    pub(crate) fn job(&mut self) -> Option<Job> {
        self.engine.job()
    }

    pub(crate) fn complete(&mut self, done: JobDone) {
        self.engine.complete(done);
    }

    pub(crate) fn figures(&self) -> EngineFigures {
        EngineFigures {
            spec: self.engine.spec().clone(),
            capacity: self.engine.capacity(),
            used: self.engine.used(),
            objects: self.engine.len(),
            gauges: self.engine.gauges(),
            state_bytes: self.engine.state_bytes() + self.owners.capacity() * size_of::<Owner>(),
        }
    }
}

/// The statistics of the policy engine at one moment.
#[derive(Clone, Debug)]
pub struct EngineFigures {
    spec: Spec,
    capacity: ByteSize,
    used: ByteSize,
    objects: usize,
    gauges: Vec<(&'static str, Gauge)>,
    state_bytes: usize,
}

impl EngineFigures {
    /// Returns the policies.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Returns the bytes that can be stored.
    pub fn capacity(&self) -> ByteSize {
        self.capacity
    }

    /// Returns the bytes stored.
    pub fn used(&self) -> ByteSize {
        self.used
    }

    /// Returns the number of stored responses and slices.
    pub fn len(&self) -> usize {
        self.objects
    }

    /// Returns true if nothing is stored.
    pub fn is_empty(&self) -> bool {
        self.objects == 0
    }

    /// Returns the gauges of the policies, each with its policy's name.
    pub fn gauges(&self) -> &[(&'static str, Gauge)] {
        &self.gauges
    }

    /// Returns the bytes of heap that the engine and its policies use, without the responses.
    pub fn state_bytes(&self) -> usize {
        self.state_bytes
    }
}

/// The access of one shard to the engine. A host whose threads share the shards puts the engine
/// behind a lock. A shard never calls it from within another call.
pub trait EngineAccess: Send {
    /// Runs `work` on the engine, and waits for it if another shard uses it.
    fn with(&self, work: &mut dyn FnMut(&mut PolicyEngine));

    /// Runs `work` and returns true, unless another shard uses the engine.
    fn try_with(&self, work: &mut dyn FnMut(&mut PolicyEngine)) -> bool;
}

/// The engine of a cache with one shard.
impl EngineAccess for RefCell<PolicyEngine> {
    fn with(&self, work: &mut dyn FnMut(&mut PolicyEngine)) {
        work(&mut self.borrow_mut());
    }

    fn try_with(&self, work: &mut dyn FnMut(&mut PolicyEngine)) -> bool {
        work(&mut self.borrow_mut());
        true
    }
}

/// The engine as its shard uses it, with the hits that it has not counted yet.
pub(crate) struct EngineHandle {
    access: Box<dyn EngineAccess>,
    hits: Vec<Hit>,
    /// Hits until the shard checks again whether the engine is free.
    until_batch: usize,
    /// Hits that were not counted, because the engine was busy.
    pub uncounted: u64,
}

impl EngineHandle {
    pub(crate) fn new(access: Box<dyn EngineAccess>) -> EngineHandle {
        EngineHandle {
            access,
            hits: Vec::with_capacity(BATCH_HITS),
            until_batch: BATCH_HITS,
            uncounted: 0,
        }
    }

    /// Collects a hit.
    pub(crate) fn hit(&mut self, at: EngineSlot, hash: u64, now: Time) {
        if self.hits.len() < MAX_NOTED_HITS {
            self.hits.push(Hit { at, hash, now });
        } else {
            self.uncounted += 1;
        }
        self.until_batch -= 1;
        if self.until_batch == 0 {
            self.until_batch = BATCH_HITS;
            let EngineHandle { access, hits, .. } = self;
            if access.try_with(&mut |engine| engine.hit(hits)) {
                hits.clear();
            }
        }
    }

    /// Runs `work` on the engine, after it has counted the collected hits.
    pub(crate) fn with<T>(&mut self, work: impl FnOnce(&mut PolicyEngine) -> T) -> T {
        let EngineHandle { access, hits, .. } = self;
        let (mut work, mut result) = (Some(work), None);
        access.with(&mut |engine| {
            engine.hit(hits);
            result = work.take().map(|work| work(engine));
        });
        hits.clear();
        result.expect("EngineAccess::with runs the work")
    }

    /// Reads the engine.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&PolicyEngine) -> T) -> T {
        let (mut read, mut result) = (Some(read), None);
        self.access
            .with(&mut |engine| result = read.take().map(|read| read(engine)));
        result.expect("EngineAccess::with runs the work")
    }
}
