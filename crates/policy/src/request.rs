//! The input of a policy: slots and requests, without keys and values.

use larder_units::Time;

/// The dense index of a cached object. It starts at 0, and is reused after a removal.
///
/// Indexes (the Content Store, the HTTP cache, the replayer) keep their values in a `Vec` by
/// [`Slot::index`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u32);

impl Slot {
    /// Creates the slot with this index, for owners that store other things than cached objects in
    /// a [`crate::SlotIndex`].
    pub const fn new(index: u32) -> Self {
        Slot(index)
    }

    pub(crate) const fn raw(self) -> u32 {
        self.0
    }

    /// Returns the index into the owner's `Vec` of values.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// One request, as policies get it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The id of the object: a keyed hash of its name, or its number in a trace.
    pub id: u64,
    /// The size in bytes; 0 while it is unknown (an Interest that missed, before its Data).
    pub size: u64,
    /// The host's time.
    pub now: Time,
    /// The number of requests that the engine has seen, including this one; at admission and
    /// insertion, the number at that moment.
    pub seq: u64,
}
