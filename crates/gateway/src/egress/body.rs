//! A body at the egress: cut into segments as it arrives, kept whole or as a window, with the
//! Interests that wait for segments.
//!
//! If the length is known, every segment except the last is full, and each has FinalBlockId. If it
//! is not, bytes become a segment after [`limits::FLUSH`], even a short one, and only the last
//! segment says that it is the last; it may be empty.

use super::orders::Requester;
use crate::limits;
use bytes::Bytes;
use larder_packet::{Component, DataBuilder, Name, PitToken, Signer, tlv, types};
use larder_units::Time;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// One response's body.
pub(super) struct Body {
    id: u64,
    requester: Requester,
    name: Name,
    /// The question whose answer names it.
    question: Vec<u8>,
    segment_bytes: usize,
    segments: VecDeque<Bytes>,
    /// The number of the first segment that is kept.
    base: u64,
    partial: Vec<u8>,
    partial_since: Time,
    length: Option<u64>,
    received: u64,
    /// Whether it has ended, and completely.
    ended: Option<bool>,
    /// True if nothing is dropped before the end.
    whole: bool,
    /// The Interests for segments that have not arrived.
    waiting: BTreeMap<u64, (Option<PitToken>, Time)>,
    /// One above the number of the furthest segment that was requested.
    asked_to: u64,
    granted: u64,
    reserved: usize,
    /// The time until which caches may name it.
    pinned_until: Time,
    is_shared: bool,
    last_asked: Time,
}

/// A body that the origin is about to send.
pub(super) struct Receipt {
    /// The id of the request to the origin.
    pub(super) id: u64,
    /// The sender of the Interest for it.
    pub(super) requester: Requester,
    /// The name of the segments, with their version.
    pub(super) name: Name,
    /// Bytes of each segment but the last.
    pub(super) segment_bytes: usize,
    /// Content-Length.
    pub(super) length: Option<u64>,
    /// True if all of it is kept, not only a window.
    pub(super) whole: bool,
    /// The bytes of memory that are reserved for it.
    pub(super) reserved: usize,
    /// The time for which other consumers may share it; `None` if they may not.
    pub(super) fresh_for: Option<Duration>,
}

/// The state of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Here,
    NotYet,
    PastEnd,
    /// It was dropped, or will not come.
    Gone,
}

impl Body {
    /// Returns a body of which nothing has arrived. `question` is the name of the Interest for it.
    pub(super) fn new(receipt: Receipt, question: &[u8], now: Time) -> Body {
        let Receipt {
            id,
            requester,
            name,
            segment_bytes,
            length,
            whole,
            reserved,
            fresh_for,
        } = receipt;
        Body {
            id,
            requester,
            name,
            question: question.to_vec(),
            segment_bytes,
            segments: VecDeque::new(),
            base: 0,
            partial: Vec::new(),
            partial_since: now,
            length,
            received: 0,
            ended: None,
            whole,
            waiting: BTreeMap::new(),
            asked_to: 0,
            granted: 0,
            reserved,
            pinned_until: now
                + fresh_for.map_or(Duration::ZERO, |fresh| fresh + limits::BODY_PINNED),
            is_shared: fresh_for.is_some(),
            last_asked: now,
        }
    }

    /// Returns the bytes of a body that is kept as a window: what may be requested again, what is
    /// read ahead, and one piece.
    pub(super) fn window_bytes() -> usize {
        limits::WINDOW_SEGMENTS * limits::SEGMENT_BYTES
            + limits::AHEAD_BYTES
            + larder_proxy::limits::BUFFER_BYTES
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn requester(&self) -> Requester {
        self.requester
    }

    pub(super) fn last_asked(&self) -> Time {
        self.last_asked
    }

    pub(super) fn name(&self) -> &Name {
        &self.name
    }

    /// Returns the name of the question whose answer names it.
    pub(super) fn question(&self) -> &[u8] {
        &self.question
    }

    pub(super) fn reserved(&self) -> usize {
        self.reserved
    }

    /// Returns true for the answer to a request in full: no cache may keep it.
    pub(super) fn no_cache(&self) -> bool {
        !self.is_shared
    }

    /// Returns true if a later answer may name it too: all of its bytes are here, or will be.
    pub(super) fn is_whole(&self) -> bool {
        self.whole && self.base == 0 && self.ended != Some(false)
    }

    /// Keeps it as long as caches may name it after another answer, which is fresh for `fresh_for`.
    pub(super) fn pin(&mut self, now: Time, fresh_for: Duration) {
        self.pinned_until = self.pinned_until.max(now + fresh_for + limits::BODY_PINNED);
        self.last_asked = now;
    }

    /// Returns true if its beginning is gone: later requests must not get its version.
    pub(super) fn is_shared_no_more(&self) -> bool {
        self.is_shared && self.base > 0
    }

    /// Adds bytes. Returns the time at which to flush if nothing more arrives.
    pub(super) fn push(&mut self, now: Time, mut bytes: &[u8]) -> Option<Time> {
        self.received += bytes.len() as u64;
        let segments = self.segments.len();
        let was_empty = self.partial.is_empty();
        while !bytes.is_empty() {
            let (taken, rest) =
                bytes.split_at(bytes.len().min(self.segment_bytes - self.partial.len()));
            self.partial.extend_from_slice(taken);
            if self.partial.len() == self.segment_bytes {
                self.cut();
            }
            bytes = rest;
        }
        let begun = !self.partial.is_empty() && (was_empty || self.segments.len() > segments);
        if begun {
            self.partial_since = now;
        }
        (begun && self.length.is_none()).then_some(now + limits::FLUSH)
    }

    /// Makes a short segment of bytes that have waited long enough.
    pub(super) fn flush(&mut self, now: Time) {
        let has_waited = now.since(self.partial_since) >= limits::FLUSH;
        if !self.partial.is_empty() && self.ended.is_none() && has_waited {
            self.cut();
        }
    }

    fn cut(&mut self) {
        self.segments
            .push_back(Bytes::from(std::mem::take(&mut self.partial)));
    }

    /// Ends it. Returns false if it broke off, also if it is shorter than declared.
    pub(super) fn end(&mut self, is_whole: bool) -> bool {
        let is_whole = is_whole && self.length.is_none_or(|length| length == self.received);
        // With unknown length, the last segment marks the end, and the one before has left without
        // a mark.
        if is_whole && (self.length.is_none() || !self.partial.is_empty()) {
            self.cut();
        }
        self.ended = Some(is_whole);
        is_whole
    }

    /// Returns true if it is kept whole and the bytes until the next check may exceed its room.
    /// Only a body of unknown length can.
    pub(super) fn is_full(&self) -> bool {
        let may_come = (limits::AHEAD_BYTES + larder_proxy::limits::BUFFER_BYTES) as u64;
        self.whole && self.length.is_none() && self.received + may_come > self.reserved as u64
    }

    /// Grants it so many more bytes.
    pub(super) fn widen(&mut self, bytes: usize) {
        self.reserved += bytes;
    }

    /// Turns it into a window. Returns the room that this frees.
    pub(super) fn become_window(&mut self) -> usize {
        self.whole = false;
        self.trim();
        let more = self.reserved.saturating_sub(Body::window_bytes());
        self.reserved -= more;
        more
    }

    /// Frees the room that it does not need. Returns the bytes.
    pub(super) fn shrink(&mut self) -> usize {
        let held: usize = self.segments.iter().map(Bytes::len).sum();
        let more = self.reserved.saturating_sub(held);
        self.reserved -= more;
        more
    }

    /// Records a request for a segment.
    pub(super) fn ask(&mut self, now: Time, segment: u64) -> Found {
        self.last_asked = now;
        let found = self.find(segment);
        if found == Found::Here || found == Found::NotYet {
            self.asked_to = self.asked_to.max(segment + 1);
            self.trim();
        }
        found
    }

    fn find(&self, segment: u64) -> Found {
        let next = self.base + self.segments.len() as u64;
        match self.ended {
            _ if segment < self.base => Found::Gone,
            _ if segment < next => Found::Here,
            Some(true) => Found::PastEnd,
            Some(false) => Found::Gone,
            None if self.last_segment().is_some_and(|last| segment > last) => Found::PastEnd,
            None if segment >= next + limits::WINDOW_SEGMENTS as u64 => Found::PastEnd,
            None => Found::NotYet,
        }
    }

    /// Records an Interest for a segment that has not arrived.
    pub(super) fn wait(&mut self, segment: u64, token: Option<PitToken>, until: Time) {
        self.waiting.insert(segment, (token, until));
    }

    /// Returns the next waiting Interest whose segment has arrived, or will not come.
    pub(super) fn next_waiting(&mut self) -> Option<(u64, Option<PitToken>, Found)> {
        let (&segment, &(token, _)) = self.waiting.first_key_value()?;
        let found = self.find(segment);
        if found == Found::NotYet {
            return None;
        }
        self.waiting.remove(&segment);
        Some((segment, token, found))
    }

    /// Returns the Data of a segment that is kept.
    pub(super) fn data(&self, segment: u64, signer: &dyn Signer) -> Option<Bytes> {
        let content = self
            .segments
            .get(usize::try_from(segment.checked_sub(self.base)?).ok()?)?;
        let mut name = self.name.clone();
        name.push_segment(segment);
        let mut data = DataBuilder::new(&name).content(content);
        if self.is_shared {
            data = data.freshness(larder_transfer::limits::DEFAULT_FRESHNESS);
        }
        let digits;
        if let Some(last) = self.last_segment() {
            digits = last.to_be_bytes();
            data = data.final_block_id(Component {
                typ: types::SEGMENT,
                value: &digits[8 - tlv::nni_len(last)..],
            });
        }
        data.build(signer).ok().map(Bytes::from)
    }

    fn last_segment(&self) -> Option<u64> {
        match (self.length, self.ended) {
            (Some(length), _) => Some(length.div_ceil(self.segment_bytes as u64).max(1) - 1),
            (None, Some(true)) => Some((self.base + self.segments.len() as u64).max(1) - 1),
            (None, _) => None,
        }
    }

    /// Returns how many more bytes may come, if any.
    pub(super) fn grant(&mut self) -> Option<u64> {
        let asked =
            self.asked_to.saturating_mul(self.segment_bytes as u64) + limits::AHEAD_BYTES as u64;
        let wanted = if self.whole {
            self.length.unwrap_or(asked).max(asked)
        } else {
            asked
        };
        let more = wanted.checked_sub(self.granted).filter(|more| *more > 0)?;
        self.granted = wanted;
        Some(more)
    }

    /// Drops segments that no reader may request again.
    pub(super) fn trim(&mut self) {
        if self.whole {
            return;
        }
        while !self.segments.is_empty()
            && self.base + (limits::WINDOW_SEGMENTS as u64) < self.asked_to
        {
            self.segments.pop_front();
            self.base += 1;
        }
    }

    /// Returns true if no answer names it any more, and no request has come for a while.
    pub(super) fn is_past(&self, now: Time) -> bool {
        now >= self.pinned_until && now.since(self.last_asked) >= limits::BODY_KEPT
    }

    /// Returns the time since when it could make room for others.
    pub(super) fn idle_since(&self, now: Time) -> Option<Time> {
        let is_done = self.ended.is_some() && now >= self.pinned_until;
        let is_idle = now.since(self.last_asked) >= limits::BODY_PINNED;
        (is_done && is_idle).then_some(self.last_asked)
    }
}
