//! The queue before a link: drop-tail, CoDel or RED.
//!
//! * Drop-tail in packets behaves as in ns-3: a frame leaves the queue when its transmission
//!   starts.
//! * CoDel: Nichols and Jacobson, RFC 8289. The code follows the pseudocode of section 5 and
//!   measures the time that frames have waited.
//! * RED: Floyd and Jacobson, IEEE/ACM ToN 1(4), 1993, in packets, without the gentle variant. The
//!   average does not decay while the queue is idle.
//!
//! With marking, CoDel and RED put an NDNLPv2 congestion mark on a frame and do not drop it. A TCP
//! segment is always dropped, since the TCP model has no ECN.

use crate::frame::{Frame, is_segment};
use larder_packet::{LpHeader, LpPacket, encode_lp};
use larder_units::{Stream, Time};
use std::collections::VecDeque;
use std::time::Duration;

/// The capacity of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// A number of frames of any size.
    Packets(usize),
    /// A number of bytes. An empty queue always takes one frame.
    Bytes(u64),
}

/// The queueing discipline: which frames wait, and which are dropped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Queueing {
    /// Drops a frame that arrives at a full queue.
    DropTail(Depth),
    /// Drops or marks frames if frames have waited longer than a target for an interval.
    CoDel(CoDel),
    /// Drops or marks frames with a probability that grows with the average length of the queue.
    Red(Red),
}

/// The parameters of CoDel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CoDel {
    /// The tolerated waiting time.
    pub target: Duration,
    /// The time for which the target may be exceeded.
    pub interval: Duration,
    /// Whether to mark frames and not drop them.
    pub mark: bool,
    /// The capacity of the queue.
    pub depth: Depth,
}

impl Default for CoDel {
    /// RFC 8289, section 4: 5 ms and 100 ms; 1000 packets.
    fn default() -> Self {
        let (target, interval) = (Duration::from_millis(5), Duration::from_millis(100));
        CoDel {
            target,
            interval,
            mark: false,
            depth: Depth::Packets(1000),
        }
    }
}

/// The parameters of RED.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Red {
    /// The average length in packets below which no frame is dropped or marked.
    pub least: f64,
    /// The average length from which on every frame is dropped or marked.
    pub most: f64,
    /// The probability just below `most`.
    pub probability: f64,
    /// The weight of the newest length in the average.
    pub weight: f64,
    /// Whether to mark frames and not drop them.
    pub mark: bool,
    /// The capacity of the queue.
    pub depth: Depth,
}

impl Default for Red {
    /// Floyd and Jacobson's thresholds 5 and 15, probability 1/50, weight 0.002.
    fn default() -> Self {
        Red {
            least: 5.0,
            most: 15.0,
            probability: 0.02,
            weight: 0.002,
            mark: false,
            depth: Depth::Packets(1000),
        }
    }
}

impl Queueing {
    fn depth(&self) -> Depth {
        match self {
            Queueing::DropTail(depth)
            | Queueing::CoDel(CoDel { depth, .. })
            | Queueing::Red(Red { depth, .. }) => *depth,
        }
    }
}

struct Waiting {
    frame: Frame,
    since: Time,
}

/// The frames in the queue, and the state of the discipline.
pub(crate) struct Queue {
    queueing: Queueing,
    waiting: VecDeque<Waiting>,
    bytes: u64,
    codel: CoDelState,
    red: RedState,
}

#[derive(Default)]
struct CoDelState {
    /// The time at which frames will have waited above the target for an interval.
    first_above: Option<Time>,
    dropping: bool,
    drop_next: Time,
    count: u32,
    last_count: u32,
}

#[derive(Default)]
struct RedState {
    average: f64,
    since_last: u32,
}

/// The numbers of frames that one operation dropped and marked.
pub(crate) struct Verdict {
    pub(crate) dropped: u64,
    pub(crate) marked: u64,
}

impl Queue {
    pub(crate) fn new(queueing: Queueing) -> Self {
        let (codel, red) = (CoDelState::default(), RedState::default());
        Queue {
            queueing,
            waiting: VecDeque::new(),
            bytes: 0,
            codel,
            red,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn frames(&self) -> impl Iterator<Item = &Frame> {
        self.waiting.iter().map(|waiting| &waiting.frame)
    }

    pub(crate) fn clear(&mut self) -> u64 {
        let lost = self.waiting.len() as u64;
        self.waiting.clear();
        self.bytes = 0;
        lost
    }

    /// Adds a frame.
    pub(crate) fn push(&mut self, now: Time, mut frame: Frame, stream: &mut Stream) -> Verdict {
        let room = match self.queueing.depth() {
            Depth::Packets(most) => self.waiting.len() < most,
            Depth::Bytes(most) => {
                self.waiting.is_empty() || self.bytes + frame.len() as u64 <= most
            }
        };
        let mut verdict = Verdict {
            dropped: 0,
            marked: 0,
        };
        if let Queueing::Red(red) = &self.queueing
            && self.red.selects(red, self.waiting.len(), stream)
        {
            if red.mark && !is_segment(&frame) {
                verdict.marked = mark(&mut frame)
            } else {
                verdict.dropped = 1
            }
        }
        if !room {
            verdict = Verdict {
                dropped: 1,
                marked: 0,
            };
        }
        if verdict.dropped == 0 {
            self.bytes += frame.len() as u64;
            self.waiting.push_back(Waiting { frame, since: now });
        }
        verdict
    }

    /// Removes and returns the frame to send next.
    pub(crate) fn pop(&mut self, now: Time) -> (Option<Frame>, Verdict) {
        let verdict = Verdict {
            dropped: 0,
            marked: 0,
        };
        match self.queueing {
            Queueing::CoDel(codel) => self.pop_codel(now, &codel),
            _ => (self.take().map(|waiting| waiting.frame), verdict),
        }
    }

    fn take(&mut self) -> Option<Waiting> {
        let waiting = self.waiting.pop_front()?;
        self.bytes -= waiting.frame.len() as u64;
        Some(waiting)
    }

    /// RFC 8289, section 5.6 (`dequeue`).
    fn pop_codel(&mut self, now: Time, codel: &CoDel) -> (Option<Frame>, Verdict) {
        let mut verdict = Verdict {
            dropped: 0,
            marked: 0,
        };
        let (mut head, mut late) = self.take_head(now, codel);
        if self.codel.dropping {
            if !late {
                self.codel.dropping = false;
            }
            while self.codel.dropping && now >= self.codel.drop_next {
                self.codel.count += 1;
                if codel.mark && !holds_segment(&head) {
                    // A frame carries at most one mark, so the next frame takes the next mark that
                    // is due.
                    verdict.marked += head.as_mut().map_or(0, |head| mark(&mut head.frame));
                    self.codel.drop_next =
                        control_law(self.codel.drop_next, codel, self.codel.count);
                    break;
                }
                verdict.dropped += 1;
                (head, late) = self.take_head(now, codel);
                if late {
                    self.codel.drop_next =
                        control_law(self.codel.drop_next, codel, self.codel.count)
                } else {
                    self.codel.dropping = false
                }
            }
        } else if late {
            if codel.mark && !holds_segment(&head) {
                verdict.marked += head.as_mut().map_or(0, |head| mark(&mut head.frame))
            } else {
                verdict.dropped += 1;
                (head, _) = self.take_head(now, codel);
            }
            self.codel.dropping = true;
            let delta = self.codel.count.saturating_sub(self.codel.last_count);
            let recent = now.since(self.codel.drop_next) < 16 * codel.interval;
            self.codel.count = if delta > 1 && recent { delta } else { 1 };
            self.codel.drop_next = control_law(now, codel, self.codel.count);
            self.codel.last_count = self.codel.count;
        }
        (head.map(|head| head.frame), verdict)
    }

    /// Removes the first frame. Returns it, and whether frames have waited above the target for an
    /// interval (`dodequeue` in the RFC).
    fn take_head(&mut self, now: Time, codel: &CoDel) -> (Option<Waiting>, bool) {
        let Some(head) = self.take() else {
            self.codel.first_above = None;
            return (None, false);
        };
        // With an empty queue behind this frame, the link is not the bottleneck (`backlog <= mtu`).
        if now.since(head.since) < codel.target || self.waiting.is_empty() {
            self.codel.first_above = None;
            return (Some(head), false);
        }
        let at = *self.codel.first_above.get_or_insert(now + codel.interval);
        (Some(head), now >= at)
    }
}

impl RedState {
    fn selects(&mut self, red: &Red, length: usize, stream: &mut Stream) -> bool {
        self.average += red.weight * (length as f64 - self.average);
        if self.average < red.least {
            self.since_last = 0;
            return false;
        }
        if self.average >= red.most {
            self.since_last = 0;
            return true;
        }
        let share = (self.average - red.least) / (red.most - red.least);
        let base = red.probability * share;
        let spread = 1.0 - f64::from(self.since_last) * base;
        self.since_last += 1;
        let struck = spread <= 0.0 || stream.chance(base / spread);
        if struck {
            self.since_last = 0;
        }
        struck
    }
}

/// Returns the time of the next drop. The interval shrinks with the square root of the count.
fn control_law(from: Time, codel: &CoDel, count: u32) -> Time {
    from + codel.interval.div_f64(f64::from(count).sqrt())
}

fn holds_segment(head: &Option<Waiting>) -> bool {
    head.as_ref().is_some_and(|head| is_segment(&head.frame))
}

/// Puts a congestion mark on a frame; returns 1 if the frame is marked. Only the first fragment of
/// a packet is marked, because receivers ignore the mark of the others.
fn mark(frame: &mut Frame) -> u64 {
    let Ok(LpPacket {
        header,
        fragment: Some(packet),
        ..
    }) = LpPacket::decode(frame)
    else {
        return 0;
    };
    if header.frag_index > 0 {
        return 0;
    }
    let mut marked = Vec::with_capacity(frame.len() + 16);
    encode_lp(
        &LpHeader {
            congestion_mark: Some(1),
            ..header
        },
        packet,
        &mut marked,
    );
    *frame = marked.into();
    1
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_packet::{InterestBuilder, Name};
    use larder_units::Streams;

    /// Returns the milliseconds at which a queue drops or marks. All its frames have waited 50 ms,
    /// and one of them is sent every `every` ms.
    fn struck(codel: CoDel, every: u64, millis: u64) -> Vec<u64> {
        let interest = InterestBuilder::new("/a".parse::<Name>().unwrap())
            .nonce(1)
            .build();
        let (mut queue, mut stream) = (
            Queue::new(Queueing::CoDel(codel)),
            Streams::new(1).stream("none"),
        );
        let mut struck = Vec::new();
        for now in (50..millis).step_by(every as usize) {
            while queue.len() < 4 {
                queue.push(
                    Time::from_millis(now - 50),
                    interest.clone().into(),
                    &mut stream,
                );
            }
            let (_, verdict) = queue.pop(Time::from_millis(now));
            assert!(
                verdict.marked + verdict.dropped <= 1 || !codel.mark,
                "{} marks on one frame",
                verdict.marked
            );
            struck.extend((0..verdict.marked + verdict.dropped).map(|_| now));
        }
        struck
    }

    #[test]
    fn codel_strikes_at_other_times_than_its_control_law() {
        // The first drop follows an interval above the target, the second one an interval later,
        // and the others by the square root of the count.
        let expected = [
            150.0,
            250.0,
            250.0 + 70.7,
            250.0 + 70.7 + 57.7,
            250.0 + 70.7 + 57.7 + 50.0,
        ];
        for mark in [false, true] {
            let struck = struck(
                CoDel {
                    mark,
                    ..CoDel::default()
                },
                1,
                500,
            );
            let close = struck
                .iter()
                .zip(expected)
                .all(|(at, expected)| (*at as f64 - expected).abs() <= 2.0);
            assert!(
                close && struck.len() >= expected.len(),
                "mark {mark}: {struck:?}"
            );
        }
    }

    #[test]
    fn a_frame_of_a_slow_link_is_marked_twice() {
        // With 80 ms per frame, the control law is due more often than there are frames.
        assert!(
            struck(
                CoDel {
                    mark: true,
                    ..CoDel::default()
                },
                80,
                20_000
            )
            .len()
                > 200
        );
    }

    #[test]
    fn codel_strikes_short_waits() {
        let (mut queue, mut stream) = (
            Queue::new(Queueing::CoDel(CoDel::default())),
            Streams::new(1).stream("none"),
        );
        for now in 4..1000 {
            while queue.len() < 2 {
                queue.push(Time::from_millis(now - 3), vec![0].into(), &mut stream);
            }
            assert_eq!(
                queue.pop(Time::from_millis(now)).1.dropped,
                0,
                "at {now} ms"
            );
        }
    }

    #[test]
    fn red_drops_in_bursts_or_seldom() {
        let (mut state, mut stream) = (
            RedState {
                average: 10.0,
                since_last: 0,
            },
            Streams::new(1).stream("red"),
        );
        let red = Red::default();
        let (mut gaps, mut gap) = (Vec::new(), 0u32);
        for _ in 0..200_000 {
            gap += 1;
            if state.selects(&red, 10, &mut stream) {
                gaps.push(std::mem::take(&mut gap));
            }
        }
        // Half-way between the thresholds the probability is 1/100, and the gaps are uniform
        // between 1 and 100 (Floyd and Jacobson, section 7).
        let mean = f64::from(gaps.iter().sum::<u32>()) / gaps.len() as f64;
        assert!(
            (mean - 50.5).abs() < 2.0 && gaps.iter().all(|gap| *gap <= 100),
            "{mean}"
        );
        assert!(!RedState::default().selects(&red, 4, &mut stream));
        assert!(
            RedState {
                average: 20.0,
                since_last: 0
            }
            .selects(&red, 20, &mut stream)
        );
    }
}
