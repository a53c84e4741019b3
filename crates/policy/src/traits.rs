//! The two kinds of policy, and what both share.
//!
//! * [`Admit`] decides whether an object that was just fetched is stored;
//! * [`Evict`] orders the stored objects and chooses which of them leaves.
//!
//! The engine calls both in this order: `on_request` and `on_hit` or `on_miss` for each request;
//! `admit` and `accept` once the size of a missed object is known; `victim` until the object fits;
//! then `on_insert`. An eviction policy gets the id with each insertion, so that it can remember
//! ids that have left (ghosts). An admission compares a newcomer with its victims by
//! [`Cache::next_victim`]. An eviction policy refuses a newcomer in [`Evict::accept`].

use crate::path::Path;
use crate::request::{Request, Slot};
use std::any::Any;

/// The common part of admission and eviction: resizing, long work and gauges for a status page.
/// Every method has a default.
pub trait Policy: Send {
    /// Reports that the capacity is now `capacity` bytes.
    fn on_resize(&mut self, capacity: u64) {
        let _ = capacity;
    }

    /// Returns long work that is due, a pure function that can run on any thread. Returns `None`
    /// until [`Policy::complete`] got the result of the last one.
    fn work(&mut self) -> Option<Work> {
        None
    }

    /// Accepts the result of the last [`Work`].
    fn complete(&mut self, result: Box<dyn Any + Send>) {
        drop(result);
    }

    /// Appends this policy's gauges, such as AdaptSize's current c.
    fn gauges(&self, out: &mut Vec<Gauge>) {
        let _ = out;
    }

    /// Returns the bytes of heap that the policy's tables use now.
    fn state_bytes(&self) -> usize {
        0
    }
}

/// Long work of a policy; see [`Policy::work`].
pub type Work = Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>;

/// A policy's value for a status page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gauge {
    /// The name, with its unit last (`c_bytes`).
    pub name: &'static str,
    /// The present value.
    pub value: f64,
}

/// Decides whether an object is worth storing.
pub trait Admit: Policy {
    /// Reports a request, a hit or a miss. `request.size` is the stored size at a hit and 0 at a
    /// miss.
    fn on_request(&mut self, request: &Request, hit: bool);

    /// Returns true if the missed object should be stored, now that its size is known. `on_request`
    /// has counted the request already. The engine asks every stage, even if another stage has
    /// refused or the object is larger than the capacity, so that the statistics include each size
    /// once.
    fn admit(&mut self, request: &Request, cache: &mut Cache<'_>) -> bool;

    /// Begins to load the data that a request for `id`, expected soon, will read. Changes nothing.
    fn prefetch(&self, id: u64) {
        let _ = id;
    }
}

/// Orders the stored objects and chooses which of them leaves.
pub trait Evict: Policy {
    /// Reports a request for the object in `slot`.
    fn on_hit(&mut self, slot: Slot, request: &Request);

    /// Reports a request for an object that is not stored; its size is unknown.
    fn on_miss(&mut self, request: &Request) {
        let _ = request;
    }

    /// Returns false if the newcomer is worth less than the objects that it would displace. The
    /// engine calls it after all admissions admitted the newcomer. `short_bytes` must be freed for
    /// it; 0 if it fits. Evicts nothing.
    fn accept(&mut self, request: &Request, short_bytes: u64) -> bool {
        let _ = (request, short_bytes);
        true
    }

    /// Reports that an admission or [`Evict::accept`] refused a newcomer. Answers can come in
    /// another order than their requests, so a comparison with victims ends here or with
    /// `on_insert`, not with the next `on_miss`.
    fn on_refusal(&mut self) {}

    /// Reports that the object was stored in `slot`.
    fn on_insert(&mut self, slot: Slot, request: &Request);

    /// Chooses the object that leaves, and unlinks it. Returns `None` only if nothing is stored.
    /// `incoming` is the object that needs the room, `None` if the capacity shrank.
    fn victim(&mut self, incoming: Option<&Request>) -> Option<Slot>;

    /// Returns the slot that [`Evict::victim`] would choose next, or after `after` had left.
    /// Unlinks nothing. The answer holds until the next call of another method.
    fn peek(&mut self, after: Option<Slot>) -> Option<Slot>;

    /// Reports that the owner removed the object in `slot`, because of a purge or an expiry. The
    /// engine does not call it for victims.
    fn on_remove(&mut self, slot: Slot);

    /// Begins to load the data that a request for `id`, expected soon, will read. The object is
    /// probably in `slot`, or not stored. Changes nothing.
    fn prefetch(&self, id: u64, slot: Option<Slot>) {
        let _ = (id, slot);
    }

    /// Begins to load the data that the entries loaded by [`Evict::prefetch`] point to. The engine
    /// calls it some requests later.
    fn prefetch_further(&self, id: u64, slot: Option<Slot>) {
        let _ = (id, slot);
    }

    /// Returns the object that will probably leave next, if that is known at no cost. The policy
    /// prefetches its own data about it.
    fn expected_victim(&self) -> Option<Slot> {
        None
    }

    /// Returns the object that will probably leave after `slot`, if that is known at no cost.
    fn expected_victim_after(&self, slot: Slot) -> Option<Slot> {
        let _ = slot;
        None
    }

    /// Returns the number of objects that the policy keeps, or `None` if it cannot count them. It
    /// may take O(n): only [`crate::Engine::check_invariants`] calls it.
    fn object_count(&self) -> Option<usize> {
        None
    }
}

/// The engine's record of one slot.
#[derive(Clone, Copy)]
pub(crate) struct Object {
    pub id: u64,
    /// The size in bytes, or the engine's mark of a slot that is not in use.
    pub size: u64,
}

/// The state of the cache that an admission policy can read.
pub struct Cache<'a> {
    pub(crate) capacity: u64,
    pub(crate) used: u64,
    pub(crate) objects: &'a [Object],
    pub(crate) len: usize,
    pub(crate) eviction: &'a mut dyn Evict,
    pub(crate) last: Option<Slot>,
    pub(crate) path: Option<&'a Path>,
}

/// An object that would be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// Its id.
    pub id: u64,
    /// Its size in bytes.
    pub size: u64,
}

impl Cache<'_> {
    /// Returns the bytes that can be stored.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Returns the bytes stored.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Returns the number of objects stored.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if nothing is stored.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the path of the answer, if the engine's owner knows it.
    pub fn path(&self) -> Option<&Path> {
        self.path
    }

    /// Returns the object that would be evicted next; each further call returns the one after it.
    /// Evicts nothing.
    pub fn next_victim(&mut self) -> Option<Victim> {
        let slot = self.eviction.peek(self.last)?;
        self.last = Some(slot);
        let Object { id, size } = self.objects[slot.index()];
        Some(Victim { id, size })
    }
}
