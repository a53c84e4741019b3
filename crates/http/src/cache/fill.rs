//! A body on its way into the store, beside its way to the clients.

use crate::body::budget::Budget;
use crate::body::shared_body::Reader;
use crate::body::writing::Writing;
use crate::cache::slicer::Slicer;
use crate::collapse::in_flight::Lead;
use crate::limits;
use crate::rfc::storability::Refusal;
use crate::store::stored::Stored;
use bytes::Bytes;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use larder_units::Time;
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
            let kind = self.stored.fields().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
            kind.and_then(|kind| kind.get(..EVENTS.len())).is_some_and(|kind| kind.eq_ignore_ascii_case(EVENTS))
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
