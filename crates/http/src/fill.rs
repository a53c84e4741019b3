//! A body on its way into the store, beside its way to the clients.

use crate::collapse::Lead;
use crate::shared_body::{Reader, SharedBody};
use crate::slicer::Slicer;
use crate::stored::Stored;
use crate::{Refusal, limits};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use larder_units::Time;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::task::{Context, Poll};

const EVENTS: &[u8] = b"text/event-stream";

/// Collects the body of one response for the store, and passes it to its readers as it arrives. The
/// host passes every piece to [`Fill::push`]. When the body has ended without an error, it passes
/// the fill to [`crate::Cache::on_complete`]; otherwise it drops the fill. A dropped fill is never
/// stored, and its readers get an error.
#[derive(Debug)]
pub struct Fill {
    pub(crate) stored: Stored,
    /// The time when the request was sent, for invalidations in between.
    pub(crate) asked: Time,
    /// Content-Length.
    pub(crate) declared: Option<u64>,
    /// True if the policy did not admit it; it is collected for its present readers.
    pub(crate) unwanted: bool,
    /// HTTP lets it be stored.
    pub(crate) is_storable: bool,
    /// The flight that it ends.
    pub(crate) lead: Option<Lead>,
    pub(crate) shared_body: Writing,
    /// Cuts the body, which is too large to be stored whole.
    pub(crate) slicer: Option<Box<Slicer>>,
    /// The part of the body for its first reader, the client.
    pub(crate) part: (u64, Option<u64>),
    /// Most bytes of body that may be stored.
    limit: u64,
    /// True after the collected part of an abandoned body has been read; from then on the writer's
    /// memory is its window.
    is_passing: bool,
    /// The body outgrew its limit or its declared length, or the budget is spent.
    pub(crate) abandoned: Option<Refusal>,
}

impl Fill {
    /// Returns the fill of a response whose body has a declared length, or may have up to so many
    /// bytes.
    ///
    /// # Errors
    /// [`Refusal::Busy`] if the budget of bodies in progress is spent.
    pub(crate) fn new(
        stored: Stored,
        asked: Time,
        declared: Option<u64>,
        limit: u64,
        budget: &Budget,
    ) -> Result<Fill, Refusal> {
        let mut shared_body = Writing::new(budget);
        if let Some(length) = declared {
            shared_body.room().grow(length)?;
            shared_body.body.reserve(usize::try_from(length).map_err(|_| Refusal::TooLarge)?);
        }
        let limit = declared.unwrap_or(limit);
        let (unwanted, lead, is_passing, abandoned) = (false, None, false, None);
        let part = (0, None);
        let is_storable = true;
        Ok(Fill {
            stored,
            asked,
            declared,
            unwanted,
            is_storable,
            lead,
            shared_body,
            slicer: None,
            part,
            limit,
            is_passing,
            abandoned,
        })
    }

    /// Returns a fill that only passes the body to readers that read it from the start.
    pub(crate) fn passing(stored: Stored, asked: Time, budget: &Budget) -> Fill {
        let (declared, lead, part, limit, abandoned) = (None, None, (0, None), 0, None);
        let (unwanted, is_storable, is_passing) = (true, false, false);
        let shared_body = Writing::new(budget);
        Fill {
            stored,
            asked,
            declared,
            unwanted,
            is_storable,
            lead,
            shared_body,
            slicer: None,
            part,
            limit,
            is_passing,
            abandoned,
        }
    }

    /// Adds a piece of the body. Beyond the limit, the body is no longer collected, and the parts
    /// that its readers have passed are freed.
    pub fn push(&mut self, piece: &[u8]) {
        if let Some(slicer) = &mut self.slicer {
            slicer.push(piece);
        }
        if self.abandoned.is_none()
            && let Err(refusal) = self.make_room(piece.len())
        {
            self.abandoned = Some(refusal);
            self.shared_body.body.become_window(0);
        }
        if self.abandoned.is_some() && !self.is_passing && self.shared_body.body.held().1 == 0 {
            // An endless body must not hold the room of its collected part for ever.
            self.is_passing = true;
            self.shared_body.room().become_window();
            let bytes = self.shared_body.room().bytes;
            self.shared_body.body.become_window(bytes as usize);
        }
        self.shared_body.body.push(piece);
    }

    /// Returns true if [`crate::Cache::on_slices_cut`] has to be called.
    pub fn has_slices(&self) -> bool {
        self.slicer.as_ref().is_some_and(|slicer| slicer.has_slices())
    }

    /// Stops the storing of the rest of the body.
    pub fn stop_slicing(&mut self) {
        if let Some(slicer) = &mut self.slicer {
            slicer.stop();
        }
    }

    /// The last piece has come: gives back what room was made for more. Where the end comes as a
    /// surprise, that copies the body, which is better done before [`crate::Cache::on_complete`]
    /// than under the lock that this needs.
    pub fn fit(&mut self) {
        self.shared_body.body.fit();
    }

    /// Waits for room for the next piece. Returns false if no reader needs the rest. There is
    /// always room while the body is collected.
    pub fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        self.shared_body.body.poll_room(cx)
    }

    /// Returns a reader of the client's part of the body. `None` if it is too late for that.
    pub fn reader(&self) -> Option<Reader> {
        let (first, end) = self.part;
        let mut reader = self.shared_body.body.reader(first, end)?;
        if end.is_none() {
            reader.expect(self.declared.map(|length| length - first));
        }
        Some(reader)
    }

    /// The body is whole: its readers see its end. The response with it, and the body as the store
    /// and its readers hold it: with its room, which is given back when the last of them has let
    /// go; a slow one may take hours.
    pub(crate) fn into_stored(self) -> (Stored, Bytes) {
        let Fill { mut stored, shared_body, .. } = self;
        let (body, lent) = shared_body.finish();
        stored.set_body(body);
        (stored, lent)
    }

    /// Returns true if silence within the body disturbs no other request: its length is unknown, so
    /// that little memory is reserved, and either no other request waits for it, or it is a stream
    /// of events (server-sent events).
    pub fn may_be_silent(&self) -> bool {
        let is_of_events = || {
            let kind = self.stored.headers().get(CONTENT_TYPE);
            kind.and_then(|kind| kind.as_bytes().get(..EVENTS.len()))
                .is_some_and(|kind| kind.eq_ignore_ascii_case(EVENTS))
        };
        self.declared.is_none() && (self.lead.is_none() || is_of_events())
    }

    pub(crate) fn len(&self) -> u64 {
        self.shared_body.body.len()
    }

    /// Returns true if the body has its declared length, or if none was declared.
    pub(crate) fn is_whole(&self) -> bool {
        self.declared.is_none_or(|declared| declared == self.len())
    }

    fn make_room(&mut self, more: usize) -> Result<(), Refusal> {
        let (held, capacity) = self.shared_body.body.held();
        let needed = held.saturating_add(more);
        if needed as u64 > self.limit {
            // One that only passes does so for want of room.
            return Err(if self.limit == 0 { Refusal::Busy } else { Refusal::TooLarge });
        }
        if needed > capacity {
            let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
            let wanted = needed.max(capacity * 2).max(limits::FILL_START_BYTES).min(limit);
            self.shared_body.room().grow((wanted - capacity) as u64)?;
            self.shared_body.body.reserve(wanted);
        }
        Ok(())
    }
}

/// The writer's side of a body under way: dropped before its end, the body has broken off.
#[derive(Debug)]
pub(crate) struct Writing {
    pub body: Arc<SharedBody>,
    /// Its part of the budget, until it has ended.
    room: Option<Reservation>,
}

impl Writing {
    fn new(budget: &Budget) -> Writing {
        Writing { body: Arc::default(), room: Some(budget.reservation()) }
    }

    fn room(&mut self) -> &mut Reservation {
        self.room.as_mut().expect("only the end takes it")
    }

    /// Ends the body: see [`SharedBody::finish`].
    fn finish(mut self) -> (Bytes, Bytes) {
        self.body.finish(self.room.take().expect("only the end takes it"))
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if let Some(room) = self.room.take() {
            self.body.break_off(room);
        }
    }
}

/// The memory of all bodies that are not in the store: bodies that are received for it, bodies that
/// were read from a second tier, and bodies that clients still read although the store did not take
/// them or has evicted them.
///
/// A body keeps its [`Reservation`] for life, whichever part holds it last. While it is stored, the
/// engine counts it, so the store subtracts its bytes here, and adds them when the body leaves the
/// store. An addition cannot be refused, so the used bytes may exceed the limit; further
/// reservations are refused until readers have finished.
#[derive(Clone, Debug)]
pub struct Budget {
    room: Arc<Room>,
    limit: u64,
}

#[derive(Debug, Default)]
struct Room {
    /// Below zero where two variants in the store share one body: the engine counts it twice, and
    /// its one reservation is taken off twice.
    used: AtomicI64,
    refusals: AtomicU64,
}

impl Budget {
    pub(crate) fn new(limit: u64) -> Budget {
        Budget { room: Arc::default(), limit }
    }

    /// Returns the number of refused reservations so far. The host uses it to recognise slow
    /// readers that keep other bodies from being stored.
    pub fn refusals(&self) -> u64 {
        self.room.refusals.load(Ordering::Relaxed)
    }

    /// Returns true if more than half of it is spent.
    pub fn is_short(&self) -> bool {
        self.used() > self.limit / 2
    }

    /// Panics if more bytes were returned than reserved. `stored` are the bytes of all bodies in
    /// the store: they were subtracted from the reservations, which are never negative. (Two
    /// variants may share a body with one reservation, so the used bytes may be negative by
    /// themselves.)
    pub(crate) fn check_invariants(&self, stored: u64) {
        let used = self.room.used.load(Ordering::Relaxed);
        let reserved = used.saturating_add_unsigned(stored);
        assert!(reserved >= 0, "{used} bytes of the budget are in use, beside {stored} in the store");
    }

    /// Returns the reserved bytes.
    pub(crate) fn used(&self) -> u64 {
        self.room.used.load(Ordering::Relaxed).max(0).cast_unsigned()
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the limit for bodies that are not small. The rest is kept for small ones, so that a
    /// few clients that read large bodies slowly do not prevent the storing of every small one.
    pub(crate) fn limit_for_large(&self) -> u64 {
        self.limit - self.limit / limits::SMALL_FILLS_SHARE
    }

    fn limit_for(&self, bytes: u64) -> u64 {
        if bytes <= self.limit / limits::SMALL_FILL { self.limit } else { self.limit_for_large() }
    }

    /// A body with so many bytes is stored.
    pub(crate) fn on_stored(&self, bytes: usize) {
        self.room.used.fetch_sub(bytes as i64, Ordering::Relaxed);
    }

    /// A body with so many bytes leaves the store.
    pub(crate) fn on_departed(&self, bytes: usize) {
        self.room.used.fetch_add(bytes as i64, Ordering::Relaxed);
    }

    /// Gives up so much of it for another purpose, but never more than half.
    pub(crate) fn cede(&mut self, bytes: u64) {
        self.limit -= bytes.min(self.limit / 2);
    }

    /// Reserves a part of it; `None` if it is spent.
    pub fn reserve(&self, bytes: u64) -> Option<Reservation> {
        let mut reservation = self.reservation();
        reservation.grow(bytes).is_ok().then_some(reservation)
    }

    /// Reserves a part of it for a response that is read whole from a second tier; `None` if the
    /// response has to be streamed. Responses that are not small leave half of it for received
    /// bodies, unless nearly all of it is free.
    pub fn reserve_for_tier_hit(&self, bytes: u64) -> Option<Reservation> {
        let is_small = bytes <= self.limit / limits::SMALL_FILL;
        let is_idle = self.used() <= self.limit / limits::SMALL_FILLS_SHARE;
        let limit = if is_small || is_idle { self.limit_for_large() } else { self.limit / 2 };
        let mut reservation = self.reservation();
        reservation.grow_within(bytes, limit).ok()?;
        Some(reservation)
    }

    fn reservation(&self) -> Reservation {
        Reservation { budget: self.clone(), bytes: 0 }
    }
}

/// A part of the [`Budget`], given back when dropped.
#[derive(Debug)]
pub struct Reservation {
    budget: Budget,
    bytes: u64,
}

impl Reservation {
    fn grow(&mut self, bytes: u64) -> Result<(), Refusal> {
        let limit = self.budget.limit_for(self.bytes.saturating_add(bytes));
        let grown = self.grow_within(bytes, limit);
        // A body that would not fit even an empty budget is not refused because of others.
        if grown.is_err() && self.bytes.saturating_add(bytes) <= limit {
            self.budget.room.refusals.fetch_add(1, Ordering::Relaxed);
        }
        grown
    }

    /// Holds [`limits::WINDOW_BYTES`] instead of its former bytes, or nothing.
    fn become_window(&mut self) {
        self.shrink_to(0);
        // Else there is no window.
        let _ = self.grow_within(limits::WINDOW_BYTES as u64, self.budget.limit / 2);
    }

    fn grow_within(&mut self, bytes: u64, limit: u64) -> Result<(), Refusal> {
        let more = i64::try_from(bytes).map_err(|_| Refusal::Busy)?;
        let fits = |sum: &i64| *sum < 0 || sum.cast_unsigned() <= limit;
        let grown = |used: i64| used.checked_add(more).filter(fits);
        let used = &self.budget.room.used;
        used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).map_err(|_| Refusal::Busy)?;
        self.bytes += bytes;
        Ok(())
    }

    pub(crate) fn shrink_to(&mut self, bytes: u64) {
        let less = self.bytes.saturating_sub(bytes);
        self.budget.room.used.fetch_sub(less as i64, Ordering::Relaxed);
        self.bytes -= less;
    }

    /// Returns the same bytes, which hold the reservation: it ends when the last reference to them,
    /// or to a part of them, is dropped.
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
