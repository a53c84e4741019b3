//! What a policy sees: slots and requests. No key, no value.

use larder_units::Time;

/// The dense index of a cached object: from 0, and given to another object after a removal.
///
/// Indexes (the Content Store, the HTTP cache, the replayer) keep their values in a `Vec` by
/// [`Slot::index`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u32);

impl Slot {
    /// The slot of this index: for owners who keep something else than cached objects in a
    /// [`crate::SlotIndex`].
    pub const fn new(index: u32) -> Self {
        Slot(index)
    }

    pub(crate) const fn raw(self) -> u32 {
        self.0
    }

    /// The index into the owner's `Vec` of values.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// One request, as policies see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The object: a keyed hash of its name, or its number in a trace.
    pub id: u64,
    /// Its size in bytes; 0 while unknown (an Interest that missed, before its Data).
    pub size: u64,
    /// The host's time.
    pub now: Time,
    /// Requests that the engine has seen, this one included. At admission and insertion: at that
    /// moment.
    pub seq: u64,
}
