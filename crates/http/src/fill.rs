//! A body on its way into the store, beside its way to the client.

use crate::stored::Stored;
use crate::{Refusal, limits};
use bytes::Bytes;
use larder_units::Time;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Collects the body of one response for the store. Give it every piece with [`Fill::push`], then hand it to [`crate::Cache::on_complete`]
/// when the body has ended well, or drop it when it has not: what is dropped is never stored.
#[derive(Debug)]
pub struct Fill {
    pub(crate) stored: Stored,
    /// When the request was sent, for invalidations in between.
    pub(crate) asked: Time,
    /// Content-Length.
    pub(crate) declared: Option<u64>,
    body: Vec<u8>,
    /// Most bytes of body that may be stored.
    limit: u64,
    reservation: Reservation,
    /// The body outgrew its limit or its declared length, or the budget is spent.
    pub(crate) abandoned: Option<Refusal>,
}

impl Fill {
    /// Of a response whose body is declared to have, or may have up to, so many bytes.
    ///
    /// # Errors
    /// [`Refusal::Busy`] where the budget of bodies under way is spent.
    pub(crate) fn new(
        stored: Stored,
        asked: Time,
        declared: Option<u64>,
        limit: u64,
        budget: &Budget,
    ) -> Result<Fill, Refusal> {
        let mut reservation = budget.reservation();
        let mut body = Vec::new();
        if let Some(length) = declared {
            reservation.grow(length)?;
            body = Vec::with_capacity(usize::try_from(length).map_err(|_| Refusal::TooLarge)?);
        }
        let limit = declared.unwrap_or(limit);
        Ok(Fill { stored, asked, declared, body, limit, reservation, abandoned: None })
    }

    /// A piece of the body. Past the limit, what was collected is let go at once.
    pub fn push(&mut self, piece: &[u8]) {
        if self.abandoned.is_some() {
            return;
        }
        match self.make_room(piece.len()) {
            Ok(()) => self.body.extend_from_slice(piece),
            Err(refusal) => {
                self.abandoned = Some(refusal);
                self.body = Vec::new();
                self.reservation.shrink();
            }
        }
    }

    /// The response with its body.
    pub(crate) fn into_stored(mut self) -> Stored {
        self.body.shrink_to_fit();
        self.stored.set_body(Bytes::from(std::mem::take(&mut self.body)));
        self.stored
    }

    pub(crate) fn len(&self) -> u64 {
        self.body.len() as u64
    }

    /// Whether the body has the length that was declared, if one was.
    pub(crate) fn is_whole(&self) -> bool {
        self.declared.is_none_or(|declared| declared == self.len())
    }

    fn make_room(&mut self, more: usize) -> Result<(), Refusal> {
        let needed = self.body.len().saturating_add(more);
        if needed as u64 > self.limit {
            return Err(Refusal::TooLarge);
        }
        if needed > self.body.capacity() {
            let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
            let capacity = needed.max(self.body.capacity() * 2).max(limits::FILL_START_BYTES).min(limit);
            self.reservation.grow((capacity - self.body.capacity()) as u64)?;
            self.body.reserve_exact(capacity - self.body.len());
        }
        Ok(())
    }
}

/// The memory of all bodies under way.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    used: Arc<AtomicU64>,
    limit: u64,
}

impl Budget {
    pub(crate) fn new(limit: u64) -> Budget {
        Budget { used: Arc::new(AtomicU64::new(0)), limit }
    }

    /// Bytes reserved.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// What the bodies that are not small share: the rest is kept for the small, so that a few clients that read large ones slowly do
    /// not keep every small one from being stored.
    pub(crate) fn limit_for_large(&self) -> u64 {
        self.limit - self.limit / limits::SMALL_FILLS_SHARE
    }

    fn limit_for(&self, bytes: u64) -> u64 {
        if bytes <= self.limit / limits::SMALL_FILL { self.limit } else { self.limit_for_large() }
    }

    fn reservation(&self) -> Reservation {
        Reservation { budget: self.clone(), bytes: 0 }
    }
}

/// A part of the budget, given back when dropped.
#[derive(Debug)]
struct Reservation {
    budget: Budget,
    bytes: u64,
}

impl Reservation {
    fn grow(&mut self, bytes: u64) -> Result<(), Refusal> {
        let limit = self.budget.limit_for(self.bytes.saturating_add(bytes));
        let grown = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= limit);
        self.budget.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).map_err(|_| Refusal::Busy)?;
        self.bytes += bytes;
        Ok(())
    }

    fn shrink(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = 0;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink();
    }
}
