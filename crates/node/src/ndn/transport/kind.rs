//! What a kind of face does with its socket and its queue.

use crate::ndn::transport::frames::{Frames, Refused};
use crate::ndn::transport::reading::{Framed, Partial, Reading};
use crate::ndn::transport::spare_buffers::SpareBuffers;
use crate::ndn::transport::udp::datagram::UdpListener;
use larder_forwarder::Send;
use larder_units::Time;
use mio::event::Source;
use std::io;

/// The socket of a face, with the queue for it. A kind of face implements this trait, and has a
/// variant of [`Connection`](crate::ndn::send::link::Connection).
pub(crate) trait Transport {
    /// Returns the bytes that wait to be sent.
    fn queued(&self) -> usize;

    /// Queues a packet.
    fn queue(
        &mut self,
        now: Time,
        send: &Send,
        input: &[u8],
        spare: &mut SpareBuffers,
    ) -> Result<(), Refused>;

    /// Writes the queue as far as the socket accepts it. Returns the number of lost frames.
    ///
    /// # Errors
    /// The peer is gone.
    fn flush(&mut self, udp: Option<&UdpListener>, spare: &mut SpareBuffers) -> io::Result<usize>;

    /// Reads once into `buffer`, behind the kept bytes, and finds the frames there. A socket with
    /// datagrams is read by the event loop.
    fn read(&mut self, _now: Time, _buffer: &mut [u8], _frames: &mut Vec<Framed>) -> Reading {
        Reading::Drained
    }

    /// Returns the queue of a link of frames; `None` for a stream.
    fn frames(&mut self) -> Option<&mut Frames> {
        None
    }

    /// Returns the incomplete packet; `None` for a link of frames.
    fn partial(&self) -> Option<&Partial> {
        None
    }

    /// Drops the incomplete packet and skips its rest. Returns false if that is impossible.
    fn give_up_partial(&mut self) -> bool {
        false
    }

    /// Records that the peer sends no more, or that the socket has failed. `has_hung_up` is true if
    /// it reads no more either. Returns true if a write has to end the face.
    fn set_ending(&mut self, _has_hung_up: bool) -> bool {
        false
    }

    /// Returns true if the face has been idle for too long.
    fn is_idle(&self, _now: Time) -> bool {
        false
    }

    /// Returns the socket that is watched for this face alone; `None` if faces share it.
    fn source(&mut self) -> Option<&mut dyn Source> {
        None
    }

    /// Returns the size of frames that `[ndn] udp_mtu` gives to this face.
    fn configured_mtu(&self, _udp_mtu: Option<usize>) -> Option<usize> {
        None
    }
}
