//! A body on its way into the store, while it is sent to the clients.

use crate::body::budget::{Budget, Reservation};
use crate::body::shared_body::{BodyEnd, BodyId, BodyPart, BodyWakes, End, SharedBody};
use crate::cache::slicer::Slicer;
use crate::collapse::in_flight::{Head, Lead};
use crate::rfc::storability::Refusal;
use crate::store::stored::Stored;
use bytes::Bytes;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use larder_units::Time;

/// First buffer of a body of unknown length. It doubles from there: small bodies cost one page or
/// four, not the object limit.
const FIRST_BUFFER_BYTES: usize = 16 * 1024;

const EVENTS: &[u8] = b"text/event-stream";

/// Collects the body of one response for the store, and passes it to its readers as it arrives. The
/// host has a [`SharedBody`] for it, and passes every piece to [`Fill::push`]. When the body has
/// ended without an error, it passes the fill to [`crate::Cache::on_complete`], otherwise to
/// [`crate::Cache::on_abort`].
#[derive(Debug)]
#[must_use = "it goes back to Cache::on_complete or Cache::on_abort"]
pub struct Fill {
    pub(crate) stored: Stored,
    /// The time when the request was sent, for comparison with later invalidations.
    pub(crate) asked: Time,
    /// Content-Length.
    pub(crate) declared: Option<u64>,
    /// True if the policy did not admit it; it is collected for its present readers.
    pub(crate) unwanted: bool,
    /// True if HTTP allows storing it.
    pub(crate) is_storable: bool,
    /// True if it is an object of the object tier.
    pub(crate) is_object: bool,
    /// True if nothing was stored before.
    pub(crate) is_miss: bool,
    /// The fetch that this body ends.
    pub(crate) lead: Option<Lead>,
    body: BodyId,
    /// Its part of the budget.
    room: Reservation,
    /// Bytes received so far.
    received: u64,
    /// Cuts the body, which is too large to be stored whole.
    pub(crate) slicer: Option<Box<Slicer>>,
    /// The part of the body for its first reader, the client.
    pub(crate) part: (u64, Option<u64>),
    /// The maximum number of body bytes that may be stored.
    limit: u64,
    /// True after the collected part of an abandoned body has been read; from then on the writer's
    /// memory is its window.
    is_passing: bool,
    /// The body exceeded its limit or its declared length, or the budget is used up.
    pub(crate) abandoned: Option<Refusal>,
}

impl Fill {
    /// Returns the fill of a response whose body has a declared length, or may have up to this many
    /// bytes.
    ///
    /// # Errors
    /// [`Refusal::Busy`] if the budget of bodies in progress is used up.
    pub(crate) fn new(
        stored: Stored,
        asked: Time,
        declared: Option<u64>,
        limit: u64,
        body: BodyId,
        budget: &Budget,
    ) -> Result<Fill, Refusal> {
        let mut fill = Fill::passing(stored, asked, body, budget);
        fill.room.grow(declared.unwrap_or(0))?;
        (fill.declared, fill.limit) = (declared, declared.unwrap_or(limit));
        (fill.unwanted, fill.is_storable) = (false, true);
        Ok(fill)
    }

    /// Returns a fill that is not collected, for readers that read it from the start.
    pub(crate) fn passing(stored: Stored, asked: Time, body: BodyId, budget: &Budget) -> Fill {
        Fill {
            stored,
            asked,
            declared: None,
            unwanted: true,
            is_storable: false,
            is_object: false,
            is_miss: false,
            lead: None,
            body,
            room: budget.reservation(),
            received: 0,
            slicer: None,
            part: (0, None),
            limit: 0,
            is_passing: false,
            abandoned: None,
        }
    }

    /// Returns the number of its body.
    pub fn body(&self) -> BodyId {
        self.body
    }

    /// Returns the head that the followers of its request get before the body.
    pub(crate) fn head(&self) -> Head {
        let stored = &self.stored;
        Head {
            status: stored.status,
            headers: stored.shared_fields(),
            earlier: stored.earlier().into(),
            selector: stored.selector.clone(),
            freshness: stored.freshness,
            length: self.declared,
            body: self.body,
            is_object: self.is_object,
            is_open: true,
        }
    }

    /// Adds a piece of the body. Beyond the limit, the body is no longer collected, and the parts
    /// that its readers have passed are freed.
    pub fn push(&mut self, piece: &[u8], body: &mut SharedBody, wakes: &mut BodyWakes) -> Pushed {
        if let Some(slicer) = &mut self.slicer {
            slicer.push(piece);
        }
        let mut pushed = Pushed::Kept;
        if self.abandoned.is_none()
            && let Err(refusal) = self.make_room(piece.len(), body)
        {
            self.abandoned = Some(refusal);
            body.become_window(0, wakes);
            pushed = Pushed::Passing;
        }
        if self.abandoned.is_some() && !self.is_passing && body.held().1 == 0 {
            // A body without end must not hold the memory of its collected part for ever.
            self.is_passing = true;
            self.room.become_window();
            body.become_window(self.room.bytes as usize, wakes);
        }
        self.received += piece.len() as u64;
        body.push(piece, wakes);
        pushed
    }

    /// Returns true if [`crate::Cache::on_slices_cut`] has to be called.
    pub fn has_slices(&self) -> bool {
        self.slicer
            .as_ref()
            .is_some_and(|slicer| slicer.has_slices())
    }

    /// Stops the storing of the rest of the body.
    pub fn stop_slicing(&mut self) {
        if let Some(slicer) = &mut self.slicer {
            slicer.stop();
        }
    }

    /// Returns the client's part of the body.
    pub fn part(&self) -> BodyPart {
        let (first, end) = self.part;
        let left = end.or(self.declared).map(|end| end.saturating_sub(first));
        BodyPart {
            body: self.body,
            first,
            end,
            left,
        }
    }

    /// Returns the response with its body, and the end for the readers. The store and the readers
    /// hold the body with its reservation, which ends when the last of them drops it; a slow reader
    /// may take hours.
    pub(crate) fn into_stored(self, collected: Option<Bytes>) -> (Stored, Bytes, BodyEnd) {
        let Fill {
            mut stored,
            mut room,
            ..
        } = self;
        let Some(body) = collected.filter(|_| self.abandoned.is_none()) else {
            return (stored, Bytes::new(), BodyEnd(End::Passed(room)));
        };
        room.shrink_to(body.len() as u64);
        let lent = room.lend(body.clone());
        // Bytes that wait for a write to a second tier have a reservation of their own.
        stored.set_body(body);
        (stored, lent.clone(), BodyEnd(End::Whole(lent)))
    }

    /// Returns the end of a body that broke off.
    pub(crate) fn broken(self) -> BodyEnd {
        BodyEnd(End::Broken(self.room))
    }

    /// Returns the end of a body that is not as its head declared. Its readers get the part that
    /// has arrived.
    pub(crate) fn cut_short(self, collected: Option<Bytes>) -> BodyEnd {
        match collected {
            Some(collected) => BodyEnd(End::Short(collected, self.room)),
            None => self.broken(),
        }
    }

    /// Returns true if a pause within the body affects no other request: its length is unknown, so
    /// that little memory is reserved, and either no other request waits for it, or it is a stream
    /// of events (server-sent events).
    pub fn may_be_silent(&self) -> bool {
        let is_of_events = || {
            let kind = self
                .stored
                .fields()
                .get(CONTENT_TYPE)
                .map(HeaderValue::as_bytes);
            kind.and_then(|kind| kind.get(..EVENTS.len()))
                .is_some_and(|kind| kind.eq_ignore_ascii_case(EVENTS))
        };
        self.declared.is_none() && (self.lead.is_none() || is_of_events())
    }

    /// Returns the bytes received so far.
    pub(crate) fn len(&self) -> u64 {
        self.received
    }

    /// Returns true if the body has its declared length, or if none was declared, and if all of it
    /// was collected, unless it only passes.
    pub(crate) fn is_whole(&self, collected: Option<&Bytes>) -> bool {
        let is_collected = || collected.is_some_and(|bytes| bytes.len() as u64 == self.received);
        self.declared
            .is_none_or(|declared| declared == self.received)
            && (self.abandoned.is_some() || is_collected())
    }

    fn make_room(&mut self, more: usize, body: &mut SharedBody) -> Result<(), Refusal> {
        let (held, capacity) = body.held();
        let needed = (held as u64).saturating_add(more as u64);
        if needed > self.limit {
            // It is not collected because there was no room.
            return Err(if self.limit == 0 {
                Refusal::Busy
            } else {
                Refusal::TooLarge
            });
        }
        let reserved = self.room.bytes;
        if needed > reserved {
            let wanted = needed
                .max(reserved * 2)
                .max(FIRST_BUFFER_BYTES as u64)
                .min(self.limit);
            self.room.grow(wanted - reserved)?;
        }
        let reserved = usize::try_from(self.room.bytes).map_err(|_| Refusal::TooLarge)?;
        if capacity < reserved {
            body.reserve(reserved);
        }
        Ok(())
    }
}

/// The effect of [`Fill::push`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// Continue.
    Kept,
    /// From now on, the body is no longer collected: call
    /// [`Cache::on_passing`](crate::Cache::on_passing).
    Passing,
}
