//! The event queue: events in a total order by time, and at one time in the order of their
//! planning.
//!
//! The queue is a binary heap with 32 bytes per event; packets are stored beside it. No event is
//! ever removed early. The receiver of an event recognises one that is no longer valid: a timer by
//! its time, an arrival by the epoch of its link.

use crate::frame::Frame;
use larder_units::Time;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A frame reaches the end of a channel.
    Arrive {
        channel: u32,
        frame: u32,
        epoch: u32,
    },
    /// A channel has sent its last frame, and more frames wait.
    Ready { channel: u32, epoch: u32 },
    /// The timer of link reliability at the start of a channel.
    Reliability { channel: u32 },
    /// A packet for an application.
    Deliver { app: u32, frame: u32 },
    /// The timer of an application.
    Timer { app: u32 },
    /// The timer of a forwarder.
    Wake { node: u32 },
    /// A TCP segment from a host to another host at the same node.
    Segment { node: u32, frame: u32 },
    /// The timer of an end of a TCP connection.
    Tcp { end: u32 },
    /// The timer of an HTTP host.
    Http { host: u32 },
    /// A planned failure or repair.
    Fault { index: u32 },
    /// The nodes learn of an earlier fault.
    Converge,
}

#[derive(Clone, Copy, Debug)]
struct Planned {
    at: Time,
    order: u64,
    event: Event,
}

impl Ord for Planned {
    /// Reverses the order, since the heap returns the greatest element first.
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
    /// Plans an event. Two events at one time happen in the order of their planning.
    pub(crate) fn plan(&mut self, at: Time, event: Event) {
        self.heap.push(Planned {
            at,
            order: self.planned,
            event,
        });
        self.planned += 1;
    }

    /// Removes and returns the next event up to and including the time `end`.
    pub(crate) fn next(&mut self, end: Time) -> Option<(Time, Event)> {
        if self.heap.peek()?.at > end {
            return None;
        }
        self.heap.pop().map(|next| (next.at, next.event))
    }

    /// The time of the next event.
    pub(crate) fn next_at(&self) -> Option<Time> {
        self.heap.peek().map(|next| next.at)
    }

    /// The number of planned events.
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }
}

/// Frames on links, by number. A number is reused after its frame is taken.
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

    /// All frames; a free slot is an empty frame.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Frame> {
        self.slots.iter()
    }

    /// The total length of all frames.
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
            assert_eq!(
                queue.next(Time::from_secs(1)),
                Some((Time::from_secs(1), Event::Wake { node }))
            );
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
