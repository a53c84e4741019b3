//! Applications: state machines that send Interests and Data through a local face of their node.

use larder_packet::LpHeader;
use larder_units::Time;
use std::any::Any;

/// The number of an application, in the order in which applications were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppId(pub u32);

/// An application of one node.
///
/// Any crate can implement this trait: [`crate::Simulation::add_app`] takes a boxed application,
/// and [`crate::Simulation::app`] returns it by its type after the run, with what it has measured.
/// `examples/custom_app.rs` is a complete program. An application reads no clock and draws chance
/// only from a stream of [`crate::Simulation::streams`], so that one seed always gives one result.
///
/// The forwarder receives what the application sends when the call returns, in order, and without
/// delay. The application receives each answer in a call of its own, at the same time but later: an
/// application that sends a burst receives the first Nack after the whole burst is sent.
pub trait App: Any + Send {
    /// Returns the time at which [`App::on_timer`] should be called. The simulation reads it after
    /// every call. A time in the past means now.
    fn next_timer(&self) -> Option<Time>;

    /// Handles the timer. The simulation never calls it before [`App::next_timer`].
    fn on_timer(&mut self, now: Time, sends: &mut Sends);

    /// Returns about how many bytes the application keeps for pending requests, if that number may
    /// grow without a bound. A run ends with an error before they fill the memory.
    fn kept_bytes(&self) -> u64 {
        0
    }

    /// Handles a packet from the forwarder.
    fn on_packet(&mut self, now: Time, packet: &Received<'_>, sends: &mut Sends);
}

/// A packet that an application receives.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// The link header: a Nack, a congestion mark.
    pub header: LpHeader,
    /// The Interest or Data.
    pub packet: &'a [u8],
}

/// The packets that an application sends in one call: Interests, Data, or link packets around them.
#[derive(Debug, Default)]
pub struct Sends {
    frames: Vec<Vec<u8>>,
}

impl Sends {
    /// Sends a packet.
    pub fn push(&mut self, packet: Vec<u8>) {
        self.frames.push(packet);
    }

    /// Takes out all packets in order. The simulation does this after each call; a test of an
    /// application can do it too.
    pub fn drain(&mut self) -> impl Iterator<Item = Vec<u8>> + '_ {
        self.frames.drain(..)
    }

    /// The number of packets.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Returns true if there are no packets.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }
}
