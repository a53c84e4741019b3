//! The receiving half: bytes received in order and beyond gaps, and the times of acknowledgements.
//!
//! The rules are Linux'. A segment is acknowledged at once if it is out of order, fills a gap or is
//! a duplicate, for the first 16 segments, and for each second segment. Otherwise the
//! acknowledgement waits 40 ms. SACK blocks list the newest ranges first (RFC 2018, section 4),
//! after a block for a duplicate (RFC 2883). The application reads bytes in order at once, so the
//! window never closes. Blocks are sent if they fit beside the bytes: a full segment has none
//! (Linux shortens it). Missing: the compression of SACKs (Linux delays them by a twentieth of the
//! round trip, at most 1 ms).

use super::TcpConfig;
use super::ranges::Ranges;
use super::segment::{BLOCK_BYTES, BLOCKS_BYTES, Blocks, MAX_BLOCKS, Segment};
use larder_units::Time;
use std::time::Duration;

/// The delay of an acknowledgement that waits for a second segment: Linux' least.
const DELAYED_ACK: Duration = Duration::from_millis(40);

/// The number of segments that are acknowledged one by one, at the start and after a duplicate, as
/// in Linux.
const QUICK_ACKS: u32 = 16;

#[derive(Clone, Debug)]
pub(super) struct Receiver {
    /// The length of the connection's largest segment.
    largest: u64,
    window: u32,
    /// The first missing byte.
    next: u64,
    early: Ranges,
    /// A byte of each recently extended range, newest first.
    recent: Vec<u64>,
    twice: Option<(u64, u64)>,
    /// The end of the stream, once it is known.
    end: Option<u64>,
    unacknowledged: u64,
    quick: u32,
    due: bool,
    delayed: Option<Time>,
}

impl Receiver {
    pub(super) fn new(config: &TcpConfig) -> Self {
        Receiver {
            largest: u64::from(config.segment_bytes),
            window: config.receive_window,
            next: 0,
            early: Ranges::default(),
            recent: Vec::new(),
            twice: None,
            end: None,
            unacknowledged: 0,
            quick: QUICK_ACKS,
            due: false,
            delayed: None,
        }
    }

    /// The number of bytes received in order.
    pub(super) fn received(&self) -> u64 {
        self.end.map_or(self.next, |end| self.next.min(end))
    }

    /// The number of ranges beyond a gap.
    pub(super) fn early(&self) -> usize {
        self.early.len()
    }

    /// Returns true if the whole stream and its end have arrived.
    pub(super) fn is_over(&self) -> bool {
        self.end.is_some_and(|end| self.next > end)
    }

    /// Handles a segment that takes room in the stream: bytes, or the end.
    pub(super) fn on_segment(&mut self, now: Time, segment: &Segment) {
        let (start, bytes) = (segment.seq, u64::from(segment.bytes));
        let end = start + bytes + u64::from(segment.is_fin);
        if start == end {
            return;
        }
        if segment.is_fin {
            self.end = Some(start + bytes);
        }
        if end <= self.next || self.early.around(start).is_some_and(|(_, to)| to >= end) {
            self.twice = Some((start, end));
            self.quick = QUICK_ACKS;
            self.due = true;
        } else if start > self.next {
            self.early.insert(start, end, |_, _| {});
            self.recent.retain(|at| !(start..end).contains(at));
            self.recent.insert(0, start);
            self.recent.truncate(MAX_BLOCKS + 1);
            self.due = true;
        } else {
            self.in_order(now, end);
        }
    }

    fn in_order(&mut self, now: Time, end: u64) {
        self.due |= !self.early.is_empty();
        self.unacknowledged += end - self.next;
        self.next = end;
        if let Some((_, to)) = self.early.around(end) {
            self.next = to;
        }
        self.early.remove_below(self.next);
        if self.quick > 0 {
            self.quick -= 1;
            self.due = true;
        }
        self.due |= self.unacknowledged > self.largest || self.is_over();
        if !self.due && self.delayed.is_none() {
            self.delayed = Some(now + DELAYED_ACK);
        }
    }

    /// Makes an acknowledgement due at once.
    pub(super) fn acknowledge_now(&mut self) {
        self.due = true;
    }

    /// Returns true if an acknowledgement is due now, even in a segment of its own.
    pub(super) fn is_due(&self, now: Time) -> bool {
        self.due || self.delayed.is_some_and(|at| at <= now)
    }

    /// The time at which a delayed acknowledgement is due.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.delayed
    }

    /// Writes the acknowledgement into a segment that leaves now.
    pub(super) fn acknowledge(&mut self, segment: &mut Segment) {
        (segment.ack, segment.window) = (Some(self.next), self.window);
        segment.blocks = Blocks::default();
        let room = self.largest.saturating_sub(u64::from(segment.bytes)) as usize;
        let most = room.saturating_sub(BLOCKS_BYTES) / BLOCK_BYTES;
        if most > 0
            && let Some(twice) = self.twice.take()
        {
            segment.blocks.push(twice);
        }
        self.recent.retain(|at| *at >= self.next);
        for at in &self.recent {
            if let Some(range) = self.early.around(*at) {
                segment.blocks.push(range);
            }
        }
        segment.blocks.truncate(most);
        (self.due, self.delayed, self.unacknowledged) = (false, None, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(seq: u64, bytes: u32) -> Segment {
        Segment {
            seq,
            bytes,
            ack: Some(0),
            ..Segment::default()
        }
    }

    fn acknowledged(receiver: &mut Receiver) -> (u64, Vec<(u64, u64)>) {
        let mut segment = Segment::default();
        receiver.acknowledge(&mut segment);
        (segment.ack.unwrap(), segment.blocks.as_slice().to_vec())
    }

    #[test]
    fn acknowledgements_come_too_often_or_too_late() {
        let mut receiver = Receiver::new(&TcpConfig::default());
        let (mut at, mut sent) = (0, Vec::new());
        for number in 0..20 {
            receiver.on_segment(Time::ZERO, &data(at, 1448));
            at += 1448;
            if receiver.is_due(Time::ZERO) {
                sent.push(number);
                acknowledged(&mut receiver);
            }
        }
        // The first sixteen one by one, then each second one.
        assert_eq!(sent, (0..16).chain([17, 19]).collect::<Vec<u64>>());
        receiver.on_segment(Time::from_millis(5), &data(at, 100));
        assert_eq!(receiver.next_timeout(), Some(Time::from_millis(45)));
        assert!(!receiver.is_due(Time::from_millis(44)) && receiver.is_due(Time::from_millis(45)));
    }

    #[test]
    fn a_segment_with_blocks_is_longer_than_the_mtu() {
        let mut receiver = Receiver::new(&TcpConfig::default());
        for seq in [0, 2000, 4000, 6000] {
            receiver.on_segment(Time::ZERO, &data(seq, 1000));
        }
        receiver.on_segment(Time::ZERO, &data(0, 1000));
        for (bytes, blocks) in [(1448, 0), (1437, 0), (1436, 1), (1400, 3), (0, 3)] {
            let mut segment = data(0, bytes);
            receiver.acknowledge(&mut segment);
            let reported = segment.blocks.as_slice();
            assert_eq!(reported.len(), blocks, "{bytes} bytes");
            assert!(
                segment
                    .frame(crate::tcp::segment::EndId {
                        number: 0,
                        generation: 0
                    })
                    .len()
                    <= 1500
            );
            // A duplicate is reported once, as soon as there is room.
            assert_eq!(reported.first() == Some(&(0, 1000)), bytes == 1436);
        }
    }

    #[test]
    fn a_gap_is_told_wrongly() {
        let mut receiver = Receiver::new(&TcpConfig::default());
        receiver.on_segment(Time::ZERO, &data(2000, 1000));
        receiver.on_segment(Time::ZERO, &data(5000, 1000));
        receiver.on_segment(Time::ZERO, &data(3000, 1000));
        assert!(receiver.is_due(Time::ZERO));
        assert_eq!(
            acknowledged(&mut receiver),
            (0, vec![(2000, 4000), (5000, 6000)]),
            "the newest first"
        );
        receiver.on_segment(Time::ZERO, &data(0, 1000));
        receiver.on_segment(Time::ZERO, &data(0, 1000));
        assert_eq!(
            acknowledged(&mut receiver),
            (1000, vec![(0, 1000), (2000, 4000), (5000, 6000)]),
            "twice, first"
        );
        receiver.on_segment(Time::ZERO, &data(1000, 1000));
        assert_eq!(receiver.received(), 4000);
        let fin = Segment {
            is_fin: true,
            ..data(6000, 0)
        };
        receiver.on_segment(Time::ZERO, &fin);
        assert!(!receiver.is_over());
        receiver.on_segment(Time::ZERO, &data(4000, 1000));
        assert!(receiver.is_over());
        assert_eq!(receiver.received(), 6000);
        assert_eq!(acknowledged(&mut receiver), (6001, vec![]));
    }
}
