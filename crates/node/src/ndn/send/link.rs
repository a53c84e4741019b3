//! A face's link: its socket, the queue for it, and the decision that the queue is too long.
//!
//! Packets are encoded into the socket's queue. A list beside it has the arrival times of bytes, so
//! the wait of the oldest is known. A packet that comes to a long queue is marked (NDNLPv2,
//! CongestionMark). A queue is above its target by time, as in RFC 8289, or by bytes, as the face's
//! DefaultCongestionThreshold says and as in NFD. Either has to last for a whole interval, and then
//! marks come at the pace of [`CoDel`]: a burst that leaves at once is not marked. Interests that
//! wait because their face is not read (`backpressure.rs`) count as a queue above its target: their
//! answers wait as if they stood in it.

use crate::limits::{ARRIVALS_APART, CODEL_TARGET, WRITE_BYTES, WRITE_PACKETS};
use crate::ndn::guard::stream_places::Activity;
use crate::ndn::send::backpressure::Pause;
use crate::ndn::transport::codel::CoDel;
use crate::ndn::transport::ethernet::EthernetPeer;
use crate::ndn::transport::frames::{Frames, Refused};
use crate::ndn::transport::kind::Transport;
use crate::ndn::transport::multicast::Multicast;
use crate::ndn::transport::reading::{Framed, Partial, Reading};
use crate::ndn::transport::spare_buffers::SpareBuffers;
use crate::ndn::transport::stream::StreamConnection;
use crate::ndn::transport::udp::datagram::UdpListener;
use crate::ndn::transport::udp::peer::Peer;
use crate::ndn::transport::websocket::WebSocketConnection;
use larder_forwarder::{FaceConfig, Send};
use larder_units::Time;
use mio::event::Source;
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

/// A face's socket, and its queue.
pub(crate) struct Link {
    pub(crate) connection: Connection,
    arrivals: Arrivals,
    codel: CoDel,
    /// Packets that were marked.
    marked: u64,
    /// Packets queued since the last write.
    packets: usize,
    /// The pause of a face that is not read because its queue is long.
    pub(crate) pause: Option<Pause>,
    /// True while Interests of the face wait because of its queue.
    pub(crate) is_backlogged: bool,
    /// True after the socket accepted no more. It is written again when it reports that it can be.
    blocked: bool,
    /// The activity record of a connection from another machine.
    pub(crate) activity: Option<Activity>,
}

/// A face's socket.
pub(crate) enum Connection {
    Stream(StreamConnection),
    WebSocket(Box<WebSocketConnection>),
    Udp(Peer),
    Multicast(Box<Multicast>),
    Ethernet(Box<EthernetPeer>),
}

/// Evaluates an expression for the [`Transport`] of a connection, whatever its kind.
macro_rules! with_transport {
    ($connection:expr, $transport:ident => $expression:expr) => {
        match $connection {
            Connection::Stream($transport) => $expression,
            Connection::WebSocket($transport) => $expression,
            Connection::Udp($transport) => $expression,
            Connection::Multicast($transport) => $expression,
            Connection::Ethernet($transport) => $expression,
        }
    };
}

/// The methods of [`Transport`] that the event loop uses.
impl Connection {
    pub(crate) fn read(
        &mut self,
        now: Time,
        buffer: &mut [u8],
        frames: &mut Vec<Framed>,
    ) -> Reading {
        with_transport!(self, transport => transport.read(now, buffer, frames))
    }

    pub(crate) fn frames(&mut self) -> Option<&mut Frames> {
        with_transport!(self, transport => transport.frames())
    }

    pub(crate) fn partial(&self) -> Option<&Partial> {
        with_transport!(self, transport => transport.partial())
    }

    /// Returns the bytes of memory that the incomplete packet takes.
    pub(crate) fn partial_bytes(&self) -> usize {
        self.partial().map_or(0, Partial::held)
    }

    pub(crate) fn give_up_partial(&mut self) -> bool {
        with_transport!(self, transport => transport.give_up_partial())
    }

    pub(crate) fn set_ending(&mut self, has_hung_up: bool) -> bool {
        with_transport!(self, transport => transport.set_ending(has_hung_up))
    }

    pub(crate) fn is_idle(&self, now: Time) -> bool {
        with_transport!(self, transport => transport.is_idle(now))
    }

    pub(crate) fn source(&mut self) -> Option<&mut dyn Source> {
        with_transport!(self, transport => transport.source())
    }

    pub(crate) fn configured_mtu(&self, udp_mtu: Option<usize>) -> Option<usize> {
        with_transport!(self, transport => transport.configured_mtu(udp_mtu))
    }
}

impl Link {
    pub(crate) fn new(connection: Connection) -> Self {
        let (arrivals, codel) = (Arrivals::default(), CoDel::default());
        Link {
            connection,
            arrivals,
            codel,
            marked: 0,
            packets: 0,
            pause: None,
            is_backlogged: false,
            blocked: false,
            activity: None,
        }
    }

    /// Records the arrival of packets in `activity`.
    pub(crate) fn watched_by(self, activity: Option<Activity>) -> Self {
        Link { activity, ..self }
    }

    /// Bytes that wait to be sent.
    pub(crate) fn queued(&self) -> usize {
        with_transport!(&self.connection, transport => transport.queued())
    }

    /// Returns the bytes that have left the queue since the face was created.
    pub(crate) fn taken(&self) -> u64 {
        self.arrivals.total.saturating_sub(self.queued() as u64)
    }

    /// Returns true if a packet that comes now has to be marked.
    pub(crate) fn is_long(&mut self, now: Time, config: &FaceConfig) -> bool {
        let queued = self.queued();
        let wait = self.arrivals.wait(now, queued);
        let interval = config.base_congestion_marking_interval;
        let is_above = self.is_backlogged
            || wait >= CODEL_TARGET
            || queued as u64 > config.default_congestion_threshold;
        let is_long = config.congestion_marking && self.codel.mark(now, is_above, interval);
        self.marked += u64::from(is_long);
        is_long
    }

    /// Returns the number of packets that were marked because of this queue.
    pub(crate) fn marked(&self) -> u64 {
        self.marked
    }

    /// Queues a packet.
    pub(crate) fn queue(
        &mut self,
        now: Time,
        send: &Send,
        input: &[u8],
        spare: &mut SpareBuffers,
    ) -> Result<(), Refused> {
        let before = self.queued();
        self.packets += 1;
        if before == 0 {
            self.arrivals.forget();
            if !self.is_backlogged {
                self.codel.on_empty();
            }
        }
        let queued = with_transport!(
            &mut self.connection,
            transport => transport.queue(now, send, input, spare)
        );
        self.arrivals
            .note(now, self.queued().saturating_sub(before));
        queued
    }

    /// Returns true if the queue is worth a write before the end of the turn. Then the reader
    /// begins while the rest is made, and the queue waits for the reader and not for this thread.
    pub(crate) fn is_worth_writing(&self) -> bool {
        !self.blocked && (self.packets >= WRITE_PACKETS || self.queued() >= WRITE_BYTES)
    }

    /// Tells that the socket can be written again.
    pub(crate) fn unblock(&mut self) {
        self.blocked = false;
    }

    /// Writes the queue as far as the socket accepts it. Returns the number of lost frames, and
    /// `Err` if the peer is gone.
    pub(crate) fn flush(
        &mut self,
        udp: Option<&UdpListener>,
        spare: &mut SpareBuffers,
    ) -> io::Result<usize> {
        self.packets = 0;
        let lost = with_transport!(&mut self.connection, transport => transport.flush(udp, spare))?;
        self.blocked = self.queued() > 0;
        Ok(lost)
    }

    /// Returns true if the queue waits until the socket can be written.
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked
    }
}

/// The arrival times of the bytes in a queue: one entry for all that came within
/// [`ARRIVALS_APART`].
#[derive(Debug, Default)]
struct Arrivals {
    /// The time of the first of these bytes, and the count of all bytes up to the last of them.
    entries: VecDeque<(Time, u64)>,
    total: u64,
}

impl Arrivals {
    fn note(&mut self, now: Time, bytes: usize) {
        self.total += bytes as u64;
        match self.entries.back_mut() {
            Some((since, end)) if now.since(*since) < ARRIVALS_APART => *end = self.total,
            _ => self.entries.push_back((now, self.total)),
        }
    }

    /// Returns the wait of the oldest byte, if the last `queued` bytes are still in the queue.
    fn wait(&mut self, now: Time, queued: usize) -> Duration {
        let gone = self.total.saturating_sub(queued as u64);
        while self.entries.front().is_some_and(|(_, end)| *end <= gone) {
            self.entries.pop_front();
        }
        self.entries
            .front()
            .map_or(Duration::ZERO, |(since, _)| now.since(*since))
    }

    fn forget(&mut self) {
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_is_that_of_the_oldest_byte_left() {
        let mut arrivals = Arrivals::default();
        arrivals.note(Time::from_millis(0), 100);
        arrivals.note(Time::from_millis(10), 100);
        arrivals.note(Time::from_millis(20), 100);
        let mut wait = |queued| arrivals.wait(Time::from_millis(30), queued).as_millis();
        assert_eq!(wait(300), 30);
        assert_eq!(wait(201), 30);
        assert_eq!(wait(200), 20);
        assert_eq!(wait(1), 10);
        assert_eq!(wait(0), 0);
    }

    #[test]
    fn a_queue_that_never_empties_takes_no_memory_for_its_times() {
        let mut arrivals = Arrivals::default();
        for micros in 0..1_000_000 {
            arrivals.note(Time::from_nanos(micros * 1000), 1);
            arrivals.wait(
                Time::from_nanos(micros * 1000),
                10_000.min(micros as usize + 1),
            );
        }
        assert!(arrivals.entries.len() < 25, "{}", arrivals.entries.len());
    }
}
