//! Applications: what asks and answers behind a node's local face.

use larder_packet::LpHeader;
use larder_units::Time;
use std::any::Any;

/// An application's number, in the order in which they were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppId(pub u32);

/// An application of one node.
///
/// What it sends reaches its forwarder when the call returns, in order, and in no time. What the
/// forwarder sends it comes in a call of its own, at the same time but after this one: an
/// application that sends a burst hears of its refusals when the whole burst is out.
pub trait App: Any + Send {
    /// When [`App::on_timer`] is to be called; asked after every call. A time that has passed means
    /// now.
    fn next_timer(&self) -> Option<Time>;

    /// The time has come; never before [`App::next_timer`].
    fn on_timer(&mut self, now: Time, sends: &mut Sends);

    /// About how many bytes it keeps of what it waits for, where that may grow without end: a run
    /// ends with an error first.
    fn kept_bytes(&self) -> u64 {
        0
    }

    /// A packet came.
    fn on_packet(&mut self, now: Time, packet: &Received<'_>, sends: &mut Sends);
}

/// A packet for an application.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// Nack, congestion mark.
    pub header: LpHeader,
    /// The Interest or Data.
    pub packet: &'a [u8],
}

/// What an application sends: Interests, Data, or link packets around them.
#[derive(Debug, Default)]
pub struct Sends {
    pub(crate) frames: Vec<Vec<u8>>,
}

impl Sends {
    /// Sends a packet.
    pub fn push(&mut self, packet: Vec<u8>) {
        self.frames.push(packet);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// True where there are none.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }
}
