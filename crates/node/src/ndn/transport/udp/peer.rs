//! A peer behind the UDP socket of a thread.

use crate::ndn::transport::frames::Frames;
use larder_units::Time;
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
