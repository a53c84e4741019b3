//! Ethernet faces: frames of type 0x8624 without IP (NFD wiki, "EthernetFace"), one socket per
//! interface.
//!
//! The group 01:00:5e:00:17:aa is one face to all nodes on the link. A neighbour that writes to
//! this machine's own address is another face; it is created when the neighbour is first heard, and
//! removed when it is silent, as for a UDP peer. `faces/create` creates one to
//! `ether://[02:00:00:00:00:01]` from `dev://eth0`. A frame holds one link packet, and zeros behind
//! it if the medium needs a longer one. Each frame costs one system call.

use crate::config::NdnConfig;
use crate::limits;
use crate::ndn::error::NdnError;
use crate::ndn::transport::frames::{Frames, Refused};
use crate::ndn::transport::interfaces;
use crate::ndn::transport::kind::Transport;
use crate::ndn::transport::packet_socket::{Mac, PacketSocket};
use crate::ndn::transport::spare_buffers::SpareBuffers;
use crate::ndn::transport::udp::datagram::UdpListener;
use larder_forwarder::FaceId;
use larder_forwarder::Send;
use larder_units::Time;
use mio::Token;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

/// The EtherType of NDN.
pub(crate) const ETHER_TYPE: u16 = 0x8624;

/// The group of all NDN nodes on the link.
pub(crate) const GROUP: Mac = [0x01, 0x00, 0x5e, 0x00, 0x17, 0xaa];

/// Destination, source, type.
pub(crate) const HEADER_BYTES: usize = 14;

/// The first token of the ports: below the faces' tokens, above the listeners'.
pub(crate) const FIRST_TOKEN: usize = 16;
pub(crate) const MOST_PORTS: usize = 128;

/// An interface with NDN, and the faces behind it.
pub(crate) struct Port {
    pub(crate) socket: Arc<PacketSocket>,
    pub(crate) interface: String,
    pub(crate) group: Option<FaceId>,
    pub(crate) peers: HashMap<Mac, FaceId>,
}

/// A neighbour or group on an Ethernet, and the frames that wait for it.
pub(crate) struct EthernetPeer {
    pub(crate) socket: Arc<PacketSocket>,
    /// The index of the port.
    pub(crate) port: usize,
    pub(crate) address: Mac,
    /// True if the face is never removed as idle.
    pub(crate) permanent: bool,
    pub(crate) last_heard: Time,
    pub(crate) frames: Frames,
}

impl Transport for EthernetPeer {
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

    fn flush(&mut self, _: Option<&UdpListener>, spare: &mut SpareBuffers) -> io::Result<usize> {
        let EthernetPeer {
            socket,
            address,
            frames,
            ..
        } = self;
        let mut whole = Vec::with_capacity(HEADER_BYTES + frames.mtu());
        Ok(frames.flush_each(spare, |frame| {
            whole.clear();
            whole.extend_from_slice(address);
            whole.extend_from_slice(&socket.mac);
            whole.extend_from_slice(&ETHER_TYPE.to_be_bytes());
            whole.extend_from_slice(frame);
            // The smallest frame of the medium. Drivers pad frames, virtual links do not.
            whole.resize(whole.len().max(limits::ETHERNET_LEAST_BYTES), 0);
            socket.send(&whole)
        }))
    }

    fn frames(&mut self) -> Option<&mut Frames> {
        Some(&mut self.frames)
    }

    fn is_idle(&self, now: Time) -> bool {
        !self.permanent && now.since(self.last_heard) >= limits::UDP_IDLE
    }
}

/// Opens the interfaces of the configuration.
pub(crate) fn open_all(config: &NdnConfig) -> Result<Vec<(String, PacketSocket)>, NdnError> {
    let open = |interface: &str| PacketSocket::open(interface, ETHER_TYPE, GROUP);
    interfaces::for_each("ethernet", &config.ethernet, open)
}

/// Opens the interfaces and closes them again.
///
/// # Errors
/// One line that names the interface.
pub(crate) fn check(config: &NdnConfig) -> Result<(), NdnError> {
    open_all(config).map(drop)
}

/// Returns the port of a token.
pub(crate) fn port_of(Token(token): Token) -> Option<usize> {
    (FIRST_TOKEN..FIRST_TOKEN + MOST_PORTS)
        .contains(&token)
        .then(|| token - FIRST_TOKEN)
}

/// Returns the FaceUri of an address: `ether://[02:00:00:00:00:01]`.
pub(crate) fn uri([a, b, c, d, e, f]: Mac) -> String {
    format!("ether://[{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}]")
}

/// Returns the address of a FaceUri after `ether://`; `None` if it is no unicast address.
pub(crate) fn unicast(text: &str) -> Option<Mac> {
    let digits = text
        .trim_end_matches('/')
        .strip_prefix('[')?
        .strip_suffix(']')?;
    let mut parts = digits.split(':');
    let mut mac = [0; 6];
    for byte in &mut mac {
        let part = parts.next().filter(|part| {
            part.len() == 2 && part.bytes().all(|digit| digit.is_ascii_hexdigit())
        })?;
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    (parts.next().is_none() && mac[0] & 1 == 0 && mac != [0; 6]).then_some(mac)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_neighbours_address_is_read_as_it_is_written() {
        let mac = [0x02, 0xfc, 0, 0, 0, 0x1a];
        assert_eq!(uri(mac), "ether://[02:fc:00:00:00:1a]");
        assert_eq!(unicast("[02:fc:00:00:00:1a]"), Some(mac));
        for wrong in [
            "02:fc:00:00:00:1a",
            "[02:fc:00:00:00]",
            "[02:fc:00:00:00:1a:00]",
            "[02:fc:00:00:00:1g]",
            "[+2:fc:00:00:00:1a]",
        ] {
            assert_eq!(unicast(wrong), None, "{wrong}");
        }
        assert_eq!(unicast("[01:00:5e:00:17:aa]"), None, "a group");
        assert_eq!(unicast("[00:00:00:00:00:00]"), None);
    }
}
