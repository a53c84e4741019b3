//! What is to happen, in a total order: by time, and at one time in the order in which it was
//! planned.
//!
//! A binary heap; 32 bytes an event, the packets beside it. Nothing is ever taken out again: an
//! event that no longer holds is recognised by who gets it (a timer by its time, an arrival by its
//! link's epoch).

use crate::frame::Frame;
use larder_units::Time;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A frame reaches the end of a channel.
    Arrive { channel: u32, frame: u32, epoch: u32 },
    /// A channel has sent its last frame, and there are more.
    Ready { channel: u32, epoch: u32 },
    /// The end of a link from which a channel leads asked to be called.
    Reliability { channel: u32 },
    /// A packet for an application.
    Deliver { app: u32, frame: u32 },
    /// An application asked to be called.
    Timer { app: u32 },
    /// A forwarder asked to be called.
    Wake { node: u32 },
    /// A TCP segment for an end at the node that it leaves from.
    Segment { node: u32, frame: u32 },
    /// A connection's end asked to be called.
    Tcp { end: u32 },
    /// An HTTP host asked to be called.
    Http { host: u32 },
    /// Something breaks, or is mended.
    Fault { index: u32 },
}

#[derive(Clone, Copy, Debug)]
struct Planned {
    at: Time,
    order: u64,
    event: Event,
}

impl Ord for Planned {
    /// The heap gives the greatest: the earliest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

impl PartialOrd for Planned {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Planned {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Planned {}

#[derive(Default)]
pub(crate) struct EventQueue {
    heap: BinaryHeap<Planned>,
    planned: u64,
}

impl EventQueue {
    /// Plans an event; two at one time happen in the order of their planning.
    pub(crate) fn plan(&mut self, at: Time, event: Event) {
        self.heap.push(Planned { at, order: self.planned, event });
        self.planned += 1;
    }

    /// Takes out the next event up to `end`.
    pub(crate) fn next(&mut self, end: Time) -> Option<(Time, Event)> {
        if self.heap.peek()?.at > end {
            return None;
        }
        self.heap.pop().map(|next| (next.at, next.event))
    }

    /// When the next event happens.
    pub(crate) fn next_at(&self) -> Option<Time> {
        self.heap.peek().map(|next| next.at)
    }

    /// Events planned and not yet happened.
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }
}

/// Frames on their way, by number; a number is used again.
#[derive(Default)]
pub(crate) struct Frames {
    slots: Vec<Frame>,
    free: Vec<u32>,
    bytes: u64,
}

impl Frames {
    pub(crate) fn put(&mut self, frame: Frame) -> u32 {
        self.bytes += frame.len() as u64;
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = frame;
                slot
            }
            None => {
                self.slots.push(frame);
                self.slots.len() as u32 - 1
            }
        }
    }

    pub(crate) fn take(&mut self, slot: u32) -> Frame {
        self.free.push(slot);
        let frame = std::mem::take(&mut self.slots[slot as usize]);
        self.bytes -= frame.len() as u64;
        frame
    }

    /// Those that are on their way.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Frame> {
        self.slots.iter()
    }

    /// Of them all.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_one_instant_keep_their_order() {
        let mut queue = EventQueue::default();
        let late = Event::Wake { node: 9 };
        queue.plan(Time::from_secs(2), late);
        for node in 0..100 {
            queue.plan(Time::from_secs(1), Event::Wake { node });
        }
        for node in 0..100 {
            assert_eq!(queue.next(Time::from_secs(1)), Some((Time::from_secs(1), Event::Wake { node })));
        }
        assert_eq!(queue.next(Time::from_secs(1)), None);
        assert_eq!(queue.next(Time::MAX), Some((Time::from_secs(2), late)));
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn a_frame_is_taken_once() {
        let mut frames = Frames::default();
        let (a, b) = (frames.put(vec![1].into()), frames.put(vec![2].into()));
        assert_eq!(*frames.take(a), [1]);
        let c = frames.put(vec![3].into());
        assert_eq!((c, frames.bytes()), (a, 2));
        assert_eq!((&*frames.take(b), &*frames.take(c)), (&[2][..], &[3][..]));
        assert_eq!(frames.bytes(), 0);
    }
}
