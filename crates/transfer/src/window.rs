//! The segments between the next one to deliver and the furthest one requested: those in flight,
//! those to be sent again, and those that arrived early.
//!
//! A ring has one [`Slot`] per segment, so every lookup is an index. Interests in flight are also
//! in a queue by sending time. An entry that is outdated by an answer or a retransmission is
//! dropped when it reaches the front. All timeouts are one RTO after sending, so the front of that
//! queue is always the next one to expire, and no timer needs a heap.

use crate::error::Refusal;
use bytes::Bytes;
use larder_units::Time;
use std::collections::VecDeque;

/// The state of a requested segment.
#[derive(Debug)]
struct Slot {
    sends: u32,
    sent_at: Time,
    state: State,
    /// See [`Window::bypass_caches`].
    must_be_fresh: bool,
    /// Interests without MustBeFresh that may still be answered.
    stale: u32,
    /// A refusal by the network. The timeout is then no sign of congestion.
    refused: Option<Refusal>,
}

#[derive(Debug, PartialEq)]
enum State {
    InFlight,
    Lost,
    Arrived(Bytes),
}

/// A segment whose Data arrived, or whose timeout expired.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub segment: u64,
    /// The number of its Interests.
    pub sends: u32,
    /// The time of the last Interest.
    pub sent_at: Time,
    /// See [`Window::bypass_caches`].
    pub must_be_fresh: bool,
    /// See [`Window::refuse`].
    pub refused: Option<Refusal>,
}

/// The ring of slots. It never exceeds the limit given to [`Window::next_to_send`].
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// The next segment to deliver: slot 0.
    base: u64,
    slots: VecDeque<Slot>,
    /// (segment, sent at), oldest first. The first entry is never outdated.
    by_time: VecDeque<(u64, Time)>,
    lost: VecDeque<u64>,
    in_flight: usize,
    buffered_bytes: usize,
}

impl Window {
    /// Returns the next segment to deliver.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Returns the number of Interests in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Returns the bytes of segments that arrived before a missing one.
    pub fn buffered_bytes(&self) -> usize {
        self.buffered_bytes
    }

    /// Returns the segment to request next: a lost one first, otherwise a new one up to `last`, at
    /// most `limit` segments from the next one to deliver.
    pub fn next_to_send(&mut self, last: Option<u64>, limit: usize) -> Option<u64> {
        while let Some(&segment) = self.lost.front() {
            if self
                .slot(segment)
                .is_some_and(|slot| slot.state == State::Lost)
            {
                return Some(segment);
            }
            self.lost.pop_front();
        }
        let new = self.base + self.slots.len() as u64;
        (self.slots.len() < limit && last.is_none_or(|last| new <= last)).then_some(new)
    }

    /// Records that the Interest for the segment of [`Window::next_to_send`] was sent; returns the
    /// number of its Interests.
    pub fn sent(&mut self, segment: u64, now: Time) -> u32 {
        let index = (segment - self.base) as usize;
        if index == self.slots.len() {
            self.slots.push_back(Slot {
                sends: 0,
                sent_at: now,
                state: State::InFlight,
                must_be_fresh: false,
                stale: 0,
                refused: None,
            });
        } else {
            self.lost.pop_front();
        }
        let slot = &mut self.slots[index];
        slot.sends += 1;
        slot.sent_at = now;
        slot.state = State::InFlight;
        slot.refused = None;
        self.by_time.push_back((segment, now));
        self.in_flight += 1;
        slot.sends
    }

    /// Returns the transmission of a segment that has not arrived; `None` for any other segment.
    pub fn pending(&self, segment: u64) -> Option<Sent> {
        let slot = self.slot(segment)?;
        let Slot {
            sends,
            sent_at,
            must_be_fresh,
            refused,
            ..
        } = *slot;
        let is_pending = !matches!(slot.state, State::Arrived(_));
        is_pending.then_some(Sent {
            segment,
            sends,
            sent_at,
            must_be_fresh,
            refused,
        })
    }

    /// Stores a pending segment's content, and passes everything that is now in order to `sink`.
    /// Returns the number of bytes delivered. Content that is already in order is never copied.
    pub fn deliver(&mut self, segment: u64, content: &[u8], sink: &mut impl FnMut(&[u8])) -> u64 {
        let index = (segment - self.base) as usize;
        self.in_flight -= usize::from(self.slots[index].state == State::InFlight);
        if index > 0 {
            self.buffered_bytes += content.len();
            self.slots[index].state = State::Arrived(Bytes::copy_from_slice(content));
            self.drop_stale();
            return 0;
        }
        sink(content);
        let mut delivered = content.len() as u64;
        self.slots.pop_front();
        self.base += 1;
        while let Some(Slot {
            state: State::Arrived(content),
            ..
        }) = self.slots.front()
        {
            sink(content);
            delivered += content.len() as u64;
            self.buffered_bytes -= content.len();
            self.slots.pop_front();
            self.base += 1;
        }
        self.drop_stale();
        delivered
    }

    /// Marks a pending segment to be sent again.
    pub fn lose(&mut self, segment: u64) {
        let Some(slot) = self.slot_mut(segment) else {
            return;
        };
        if slot.state == State::InFlight {
            slot.state = State::Lost;
            self.in_flight -= 1;
            self.lost.push_back(segment);
            self.drop_stale();
        }
    }

    /// Records a refusal. The segment stays in flight until its timeout, which is then no sign of
    /// congestion.
    pub fn refuse(&mut self, segment: u64, refusal: Refusal) {
        if let Some(slot) = self.slot_mut(segment) {
            slot.refused = Some(refusal);
        }
    }

    /// Makes the segment's next Interests require fresh Data, so that no cache answers with useless
    /// stale Data.
    pub fn bypass_caches(&mut self, segment: u64) {
        if let Some(slot) = self.slot_mut(segment).filter(|slot| !slot.must_be_fresh) {
            slot.must_be_fresh = true;
            slot.stale = slot.sends.saturating_sub(1);
        }
    }

    /// Returns true if an answer may be stale although fresh Data is required, because it may
    /// answer an earlier Interest. Each of those is answered at most once.
    pub fn may_be_stale(&mut self, segment: u64) -> bool {
        let Some(slot) = self.slot_mut(segment).filter(|slot| slot.must_be_fresh) else {
            return false;
        };
        let may_be = slot.state == State::Lost || slot.stale > 0;
        slot.stale = slot.stale.saturating_sub(1);
        may_be
    }

    /// Returns the oldest Interest in flight.
    pub fn oldest(&self) -> Option<Sent> {
        self.pending(self.by_time.front()?.0)
    }

    /// Drops all segments after `last`, the end of the object.
    pub fn truncate(&mut self, last: u64) {
        let keep =
            usize::try_from(last.saturating_add(1).saturating_sub(self.base)).unwrap_or(usize::MAX);
        while self.slots.len() > keep {
            let slot = self.slots.pop_back();
            self.in_flight -= usize::from(slot.is_some_and(|slot| slot.state == State::InFlight));
        }
        self.drop_stale();
    }

    fn slot(&self, segment: u64) -> Option<&Slot> {
        self.slots
            .get(usize::try_from(segment.checked_sub(self.base)?).ok()?)
    }

    fn slot_mut(&mut self, segment: u64) -> Option<&mut Slot> {
        self.slots
            .get_mut(usize::try_from(segment.checked_sub(self.base)?).ok()?)
    }

    /// Drops outdated entries, so that the front of the queue is in flight.
    fn drop_stale(&mut self) {
        while let Some(&(segment, sent_at)) = self.by_time.front() {
            let current = |slot: &Slot| slot.state == State::InFlight && slot.sent_at == sent_at;
            if self.slot(segment).is_some_and(current) {
                return;
            }
            self.by_time.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(window: &mut Window, count: u64) {
        for n in 0..count {
            let segment = window.next_to_send(None, 1000).unwrap();
            window.sent(segment, Time::from_millis(n));
        }
    }

    #[test]
    fn early_segments_wait_and_come_out_in_order() {
        let mut window = Window::default();
        fill(&mut window, 4);
        let mut out = Vec::new();
        let mut sink = |bytes: &[u8]| out.extend_from_slice(bytes);
        assert_eq!(window.deliver(2, b"c", &mut sink), 0);
        assert_eq!(window.deliver(1, b"b", &mut sink), 0);
        assert_eq!(window.buffered_bytes(), 2);
        assert!(window.pending(1).is_none(), "a second copy is not pending");
        assert_eq!(window.deliver(0, b"a", &mut sink), 3);
        assert_eq!(window.buffered_bytes(), 0);
        assert_eq!((window.base(), window.in_flight()), (3, 1));
        assert_eq!(out, b"abc");
        assert!(window.pending(2).is_none(), "delivered");
    }

    #[test]
    fn a_missing_segment_stops_the_window_at_its_limit() {
        let mut window = Window::default();
        fill(&mut window, 8);
        for segment in 1..8 {
            window.deliver(segment, b"x", &mut |_| ());
        }
        assert_eq!(window.next_to_send(None, 8), None);
        assert_eq!(
            window.oldest().map(|sent| (sent.segment, sent.sent_at)),
            Some((0, Time::ZERO))
        );
        window.lose(0);
        assert!(window.oldest().is_none());
        assert_eq!(window.next_to_send(None, 8), Some(0));
        assert_eq!(window.sent(0, Time::from_millis(100)), 2);
    }

    #[test]
    fn a_lost_segment_that_arrives_late_is_not_sent_again() {
        let mut window = Window::default();
        fill(&mut window, 2);
        window.lose(1);
        window.lose(1);
        assert_eq!(window.in_flight(), 1);
        window.deliver(1, b"b", &mut |_| ());
        assert_eq!(window.next_to_send(Some(1), 10), None);
        window.deliver(0, b"a", &mut |_| ());
        assert_eq!(
            (window.base(), window.in_flight(), window.oldest().is_none()),
            (2, 0, true)
        );
    }

    #[test]
    fn segments_past_the_end_are_forgotten() {
        let mut window = Window::default();
        fill(&mut window, 10);
        window.lose(7);
        window.truncate(3);
        assert_eq!(window.in_flight(), 4);
        assert_eq!(window.next_to_send(Some(3), 10), None);
        window.truncate(u64::MAX);
        assert_eq!(window.in_flight(), 4);
        for segment in 0..4 {
            window.deliver(segment, b"", &mut |_| ());
        }
        assert_eq!((window.in_flight(), window.oldest().is_none()), (0, true));
    }
}
