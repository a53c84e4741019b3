//! A peer behind the UDP socket of a thread.

use crate::limits::UDP_IDLE;
use crate::ndn::transport::frames::{Frames, Refused};
use crate::ndn::transport::kind::Transport;
use crate::ndn::transport::spare_buffers::SpareBuffers;
use crate::ndn::transport::udp::datagram::{UdpListener, mtu_to};
use larder_forwarder::Send;
use larder_units::Time;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// The frames that wait for one peer.
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    /// True for the peer of a route: its face is never removed as idle.
    pub(crate) permanent: bool,
    pub(crate) last_heard: Time,
    /// The local address that the peer sends to. Answers leave from it.
    pub(crate) local: Option<IpAddr>,
    pub(crate) frames: Frames,
}

impl Peer {
    pub(crate) fn new(address: SocketAddr, permanent: bool, now: Time, frames: Frames) -> Self {
        Peer {
            address,
            permanent,
            last_heard: now,
            local: None,
            frames,
        }
    }
}

impl Transport for Peer {
    #[inline]
    fn queued(&self) -> usize {
        self.frames.bytes.len()
    }

    fn queue(
        &mut self,
        now: Time,
        send: &Send,
        input: &[u8],
        spare: &mut SpareBuffers,
    ) -> Result<(), Refused> {
        self.frames.queue(now, send, input, spare)
    }

    fn flush(&mut self, udp: Option<&UdpListener>, spare: &mut SpareBuffers) -> io::Result<usize> {
        let (address, local, frames) = (self.address, self.local, &mut self.frames);
        Ok(udp.map_or(0, |udp| udp.flush(address, local, frames, spare)))
    }

    fn frames(&mut self) -> Option<&mut Frames> {
        Some(&mut self.frames)
    }

    fn is_idle(&self, now: Time) -> bool {
        !self.permanent && now.since(self.last_heard) >= UDP_IDLE
    }

    fn configured_mtu(&self, udp_mtu: Option<usize>) -> Option<usize> {
        Some(mtu_to(self.address, udp_mtu))
    }
}
