//! The two kinds of policy, and what both share.
//!
//! * [`Admit`] decides whether an object that was just fetched is stored at all;
//! * [`Evict`] orders the stored objects and chooses who leaves.
//!
//! Both see requests in the engine's order: `on_request` or `on_hit`/`on_miss` at every request,
//! `admit` once the size of a missed object is known, then `victim` until it fits, then
//! `on_insert`. Ghost lists remember ids, which an evictor gets with every insertion; a duel with
//! the victim reads [`Cache::next_victim`]; an evictor that would rather bypass the newcomer says
//! so in [`Evict::accept`].

use crate::cache::Cache;
use crate::{Request, Slot};
use std::any::Any;

/// What admission and eviction share: resizing, long work and figures for a status page. Every
/// method has a default.
pub trait Policy: Send {
    /// The capacity is now `capacity` bytes.
    fn on_resize(&mut self, capacity: u64) {
        let _ = capacity;
    }

    /// Long work that is due, to be run on any thread: a pure function of what it carries. `None`
    /// while one is out.
    fn work(&mut self) -> Option<Work> {
        None
    }

    /// The result of the last [`Work`].
    fn complete(&mut self, result: Box<dyn Any + Send>) {
        drop(result);
    }

    /// Adds this policy's figures, such as AdaptSize's current c.
    fn gauges(&self, out: &mut Vec<Gauge>) {
        let _ = out;
    }

    /// Bytes of heap that the policy's tables hold now.
    fn state_bytes(&self) -> usize {
        0
    }
}

/// Long work of a policy; see [`Policy::work`].
pub type Work = Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>;

/// A policy's figure for a status page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gauge {
    /// The figure's name, unit last (`c_bytes`).
    pub name: &'static str,
    /// Its value now.
    pub value: f64,
}

/// Decides whether an object is worth storing.
pub trait Admit: Policy {
    /// A request, hit or missed. `request.size` is the stored size at a hit and 0 at a miss.
    fn on_request(&mut self, request: &Request, hit: bool);

    /// Should the missed object be stored, now that its size is known? The request itself was
    /// counted by `on_request` already. Asked of every stage, also where another has refused or the
    /// object is larger than the capacity, so that statistics see each size once.
    fn admit(&mut self, request: &Request, cache: &mut Cache<'_>) -> bool;

    /// A request for `id` will come soon: begins to load what it will read. Changes nothing.
    fn prefetch(&self, id: u64) {
        let _ = id;
    }
}

/// Orders the stored objects and chooses who leaves.
pub trait Evict: Policy {
    /// A request for the object in `slot`.
    fn on_hit(&mut self, slot: Slot, request: &Request);

    /// A request for an object that is not stored; its size is unknown.
    fn on_miss(&mut self, request: &Request) {
        let _ = request;
    }

    /// The last word at admission: `false` where the newcomer is worth less than what it would
    /// displace. `short_bytes` must be freed for it; 0 where it fits. Nothing is unlinked.
    fn accept(&mut self, request: &Request, short_bytes: u64) -> bool {
        let _ = (request, short_bytes);
        true
    }

    /// A newcomer was refused, by an admission or by [`Evict::accept`]. Answers may come in another
    /// order than their requests: a duel ends here, or with `on_insert`, not with the next
    /// `on_miss`.
    fn on_refusal(&mut self) {}

    /// The object is stored in `slot`.
    fn on_insert(&mut self, slot: Slot, request: &Request);

    /// Chooses who leaves, and unlinks it; `None` only where nothing is stored. `incoming` is the
    /// object that needs the room, `None` where the capacity shrank.
    fn victim(&mut self, incoming: Option<&Request>) -> Option<Slot>;

    /// Whom [`Evict::victim`] would choose next, or after `after` had left; nothing is unlinked.
    /// Holds until the next call of another method.
    fn peek(&mut self, after: Option<Slot>) -> Option<Slot>;

    /// The owner removed the object in `slot` (a purge, an expiry). Not called for victims.
    fn on_remove(&mut self, slot: Slot);

    /// A request for `id` will come soon, which is probably in `slot`, or not stored: begins to
    /// load what it will read. Changes nothing.
    fn prefetch(&self, id: u64, slot: Option<Slot>) {
        let _ = (id, slot);
    }

    /// As [`Evict::prefetch`], some requests later: what was loaded then may be read now, to load
    /// what it refers to.
    fn prefetch_further(&self, id: u64, slot: Option<Slot>) {
        let _ = (id, slot);
    }

    /// Returns the object that will probably leave next, if that is known at no cost. The policy
    /// prefetches its own data of it.
    fn expected_victim(&self) -> Option<Slot> {
        None
    }
}
