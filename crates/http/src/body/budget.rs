//! The memory of bodies that are not in the store.

use crate::limits;
use crate::rfc::storability::Refusal;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// The inverse of the share of the memory for bodies in progress that is kept for small ones.
/// Otherwise a few clients that read large ones slowly would prevent all storing. An eighth still
/// holds eight of the largest that count as small.
const SMALL_BODIES_SHARE: u64 = 8;

/// The inverse of the share of the memory for bodies in progress up to which a body is small: with
/// a capacity of 64 MiB and 16 MiB for bodies in progress, this is 256 KiB, above most pages and
/// scripts.
const SMALL_BODY_SHARE: u64 = 64;

/// The memory of all bodies that are not in the store: bodies that are received for it, bodies that
/// were read from a second tier, and bodies that clients still read although the store did not take
/// them or has evicted them.
///
/// A body keeps its [`Reservation`] for life, independent of the part that holds it last. While it
/// is stored, the engine counts it, so the store subtracts its bytes here, and adds them when the
/// body leaves the store. An addition cannot be refused, so the used bytes may exceed the limit;
/// further reservations are refused until readers have finished.
#[derive(Clone, Debug)]
pub struct Budget {
    room: Arc<Room>,
}

#[derive(Debug, Default)]
struct Room {
    /// Below zero if two variants in the store share one body: the engine counts it twice, and its
    /// one reservation is subtracted twice.
    used: AtomicI64,
    limit: AtomicU64,
    refusals: AtomicU64,
}

impl Budget {
    pub(crate) fn new(limit: u64) -> Budget {
        Budget {
            room: Arc::new(Room {
                limit: AtomicU64::new(limit),
                ..Room::default()
            }),
        }
    }

    /// Returns the number of refused reservations so far. The host uses it to recognise slow
    /// readers that prevent the storing of other bodies.
    pub fn refusals(&self) -> u64 {
        self.room.refusals.load(Ordering::Relaxed)
    }

    /// Returns true if more than half of the budget is in use.
    pub fn is_short(&self) -> bool {
        self.used() > self.limit() / 2
    }

    /// Panics if more bytes were returned than reserved. `stored` are the bytes of all bodies in
    /// the store: they were subtracted from the reservations, which are never negative. (Two
    /// variants may share a body with one reservation, so the used bytes may be negative by
    /// themselves.)
    pub(crate) fn check_invariants(&self, stored: u64) {
        let used = self.room.used.load(Ordering::Relaxed);
        let reserved = used.saturating_add_unsigned(stored);
        assert!(
            reserved >= 0,
            "{used} bytes of the budget are in use, beside {stored} in the store"
        );
    }

    /// Returns the reserved bytes.
    pub(crate) fn used(&self) -> u64 {
        self.room
            .used
            .load(Ordering::Relaxed)
            .max(0)
            .cast_unsigned()
    }

    pub(crate) fn limit(&self) -> u64 {
        self.room.limit.load(Ordering::Relaxed)
    }

    /// Returns the limit for bodies that are not small. The rest is kept for small ones, so that a
    /// few clients that read large bodies slowly do not prevent the storing of every small one.
    pub(crate) fn limit_for_large(&self) -> u64 {
        self.limit() - self.limit() / SMALL_BODIES_SHARE
    }

    fn limit_for(&self, bytes: u64) -> u64 {
        if bytes <= self.limit() / SMALL_BODY_SHARE {
            self.limit()
        } else {
            self.limit_for_large()
        }
    }

    /// Records that a body with this many bytes is stored.
    pub(crate) fn on_stored(&self, bytes: usize) {
        self.room.used.fetch_sub(bytes as i64, Ordering::Relaxed);
    }

    /// Records that a body with this many bytes leaves the store.
    pub(crate) fn on_departed(&self, bytes: usize) {
        self.room.used.fetch_add(bytes as i64, Ordering::Relaxed);
    }

    /// Changes the limit. Reserved bytes stay reserved.
    pub(crate) fn set_limit(&self, limit: u64) {
        self.room.limit.store(limit, Ordering::Relaxed);
    }

    /// Gives up this many bytes for another purpose, but never more than half of the budget.
    pub(crate) fn cede(&self, bytes: u64) {
        self.room
            .limit
            .fetch_sub(bytes.min(self.limit() / 2), Ordering::Relaxed);
    }

    /// Reserves a part of the budget; `None` if there is too little left.
    pub fn reserve(&self, bytes: u64) -> Option<Reservation> {
        let mut reservation = self.reservation();
        reservation.grow(bytes).is_ok().then_some(reservation)
    }

    /// Reserves memory for a response that is read whole from a second tier; `None` if the response
    /// has to be streamed. Responses that are not small leave half of it for received bodies,
    /// unless nearly all of it is free.
    pub fn reserve_for_tier_hit(&self, bytes: u64) -> Option<Reservation> {
        let is_small = bytes <= self.limit() / SMALL_BODY_SHARE;
        let is_idle = self.used() <= self.limit() / SMALL_BODIES_SHARE;
        let limit = if is_small || is_idle {
            self.limit_for_large()
        } else {
            self.limit() / 2
        };
        let mut reservation = self.reservation();
        reservation.grow_within(bytes, limit).ok()?;
        Some(reservation)
    }

    pub(crate) fn reservation(&self) -> Reservation {
        Reservation {
            budget: self.clone(),
            bytes: 0,
        }
    }
}

/// A part of the [`Budget`], returned when dropped.
#[derive(Debug)]
pub struct Reservation {
    budget: Budget,
    pub(crate) bytes: u64,
}

impl Reservation {
    pub(crate) fn grow(&mut self, bytes: u64) -> Result<(), Refusal> {
        let limit = self.budget.limit_for(self.bytes.saturating_add(bytes));
        let grown = self.grow_within(bytes, limit);
        // If a body would not fit even an empty budget, other bodies are not the cause of the
        // refusal.
        if grown.is_err() && self.bytes.saturating_add(bytes) <= limit {
            self.budget.room.refusals.fetch_add(1, Ordering::Relaxed);
        }
        grown
    }

    /// Holds [`limits::WINDOW_BYTES`] instead of its former bytes, or nothing.
    pub(crate) fn become_window(&mut self) {
        self.shrink_to(0);
        // If this fails, there is no window.
        let _ = self.grow_within(limits::WINDOW_BYTES as u64, self.budget.limit() / 2);
    }

    fn grow_within(&mut self, bytes: u64, limit: u64) -> Result<(), Refusal> {
        let more = i64::try_from(bytes).map_err(|_| Refusal::Busy)?;
        let fits = |sum: &i64| *sum < 0 || sum.cast_unsigned() <= limit;
        let grown = |used: i64| used.checked_add(more).filter(fits);
        let used = &self.budget.room.used;
        used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown)
            .map_err(|_| Refusal::Busy)?;
        self.bytes += bytes;
        Ok(())
    }

    pub(crate) fn shrink_to(&mut self, bytes: u64) {
        let less = self.bytes.saturating_sub(bytes);
        self.budget
            .room
            .used
            .fetch_sub(less as i64, Ordering::Relaxed);
        self.bytes -= less;
    }

    /// Returns the same bytes with the reservation: it ends when the last reference to them, or to
    /// a part of them, is dropped.
    pub(crate) fn lend(self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(BorrowedBytes { bytes, _room: self })
    }
}

pub(crate) struct BorrowedBytes {
    bytes: Bytes,
    _room: Reservation,
}

impl AsRef<[u8]> for BorrowedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}
