//! Ethernet faces: frames of type 0x8624 without IP (NFD wiki, "EthernetFace"), one socket per
//! interface.
//!
//! The group 01:00:5e:00:17:aa is one face to all nodes on the link. A neighbour that writes to
//! this machine's own address is another face; it is created when the neighbour is first heard, and
//! removed when it is silent, as for a UDP peer. `faces/create` creates one to
//! `ether://[02:00:00:00:00:01]` from `dev://eth0`. A frame holds one link packet, and zeros behind
//! it if the medium needs a longer one. Each frame costs one system call.

use super::event_loop::EventLoop;
use super::frames::Frames;
use super::interfaces;
use super::link::{Connection, Link, SpareBuffers};
use super::multicast::link_type;
use super::packet_socket::{Mac, PacketSocket};
use crate::config::NdnConfig;
use crate::limits;
use larder_forwarder::{FaceConfig, FaceId, Persistency};
use larder_packet::{LpPacket, tlv};
use larder_units::Time;
use mio::unix::SourceFd;
use mio::{Interest, Token};
use std::collections::HashMap;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// The EtherType of NDN.
const ETHER_TYPE: u16 = 0x8624;

/// The group of all NDN nodes on the link.
const GROUP: Mac = [0x01, 0x00, 0x5e, 0x00, 0x17, 0xaa];

/// Destination, source, type.
const HEADER_BYTES: usize = 14;

/// The first token of the ports: below the faces' tokens, above the listeners'.
const FIRST_TOKEN: usize = 16;
const MOST_PORTS: usize = 128;

/// An interface with NDN, and the faces behind it.
pub(super) struct Port {
    socket: Arc<PacketSocket>,
    interface: String,
    group: Option<FaceId>,
    pub(super) peers: HashMap<Mac, FaceId>,
}

/// A neighbour or group on an Ethernet, and the frames that wait for it.
pub(super) struct EthernetPeer {
    socket: Arc<PacketSocket>,
    /// The index of the port.
    port: usize,
    pub(super) address: Mac,
    /// True if the face is never removed as idle.
    pub(super) permanent: bool,
    pub(super) last_heard: Time,
    pub(super) frames: Frames,
}

impl EthernetPeer {
    /// Sends the queue. Returns the number of lost frames.
    pub(super) fn flush(&mut self, spare: &mut SpareBuffers) -> usize {
        let EthernetPeer { socket, address, frames, .. } = self;
        let mut whole = Vec::with_capacity(HEADER_BYTES + frames.mtu());
        frames.flush_each(spare, |frame| {
            whole.clear();
            whole.extend_from_slice(address);
            whole.extend_from_slice(&socket.mac);
            whole.extend_from_slice(&ETHER_TYPE.to_be_bytes());
            whole.extend_from_slice(frame);
            // The smallest frame of the medium. Drivers pad frames, virtual links do not.
            whole.resize(whole.len().max(limits::ETHERNET_LEAST_BYTES), 0);
            socket.send(&whole)
        })
    }
}

/// Opens the interfaces of the configuration.
fn open_all(config: &NdnConfig) -> Result<Vec<(String, PacketSocket)>, String> {
    let open = |interface: &str| PacketSocket::open(interface, ETHER_TYPE, GROUP);
    interfaces::for_each("ethernet", &config.ethernet, open)
}

/// Opens the interfaces and closes them again.
///
/// # Errors
/// One line that names the interface.
pub(super) fn check(config: &NdnConfig) -> Result<(), String> {
    open_all(config).map(drop)
}

/// Returns the port of a token.
pub(super) fn port_of(Token(token): Token) -> Option<usize> {
    (FIRST_TOKEN..FIRST_TOKEN + MOST_PORTS).contains(&token).then(|| token - FIRST_TOKEN)
}

impl EventLoop {
    /// Opens the interfaces of the configuration and returns their FaceUris.
    pub(super) fn open_ethernet(&mut self, config: &NdnConfig) -> Result<Vec<String>, String> {
        let mut opened = Vec::new();
        for (interface, socket) in open_all(config)? {
            let port = self.ethernet.len();
            if port >= MOST_PORTS {
                return Err(format!("[ndn] ethernet: more than {MOST_PORTS} interfaces: name fewer"));
            }
            let both = Interest::READABLE | Interest::WRITABLE;
            (self.poll.registry())
                .register(&mut SourceFd(&socket.as_raw_fd()), Token(FIRST_TOKEN + port), both)
                .map_err(|error| format!("[ndn] ethernet: {error}"))?;
            let device = format!("dev://{interface}");
            self.ethernet.push(Port { socket: Arc::new(socket), interface, group: None, peers: HashMap::new() });
            let kind = link_type(config, &self.ethernet[port].interface);
            let face = self.add_ethernet(self.now(), port, GROUP, |face| FaceConfig {
                link_type: kind,
                persistency: Persistency::Permanent,
                ..face
            });
            self.ethernet[port].group = Some(face.ok_or("[ndn] ethernet: too many faces")?);
            opened.push(device);
        }
        Ok(opened)
    }

    /// Returns the port of a local FaceUri.
    pub(super) fn port_named(&self, device: &str) -> Option<usize> {
        let name = device.strip_prefix("dev://")?;
        self.ethernet.iter().position(|port| port.interface == name)
    }

    /// Adds a face to `address`. `adapt` changes its configuration from the default. The caller
    /// adds it to the port's peers.
    pub(super) fn add_ethernet(
        &mut self,
        now: Time,
        port: usize,
        address: Mac,
        adapt: impl FnOnce(FaceConfig) -> FaceConfig,
    ) -> Option<FaceId> {
        let Port { socket, interface, .. } = &self.ethernet[port];
        let (socket, device) = (socket.clone(), format!("dev://{interface}"));
        let mut config = adapt(FaceConfig::remote(uri(address)).with_local_uri(device).with_mtu(socket.mtu));
        config.mtu = config.mtu.map(|mtu| mtu.min(socket.mtu));
        let permanent = config.persistency != Persistency::OnDemand;
        let frames = Frames::new(config.mtu.unwrap_or(socket.mtu), socket.mtu, self.largest_packet);
        let face = self.add_face(config, |_, _| Ok(()))?;
        let peer = EthernetPeer { socket, port, address, permanent, last_heard: now, frames };
        self.links.insert(face, Link::new(Connection::Ethernet(Box::new(peer))));
        Some(face)
    }

    pub(super) fn forget_ethernet(&mut self, peer: &EthernetPeer) {
        let port = &mut self.ethernet[peer.port];
        match peer.address == GROUP {
            true => port.group = None,
            false => drop(port.peers.remove(&peer.address)),
        }
    }

    pub(super) fn read_ethernet(&mut self, now: Time, port: usize) {
        let Some(socket) = self.ethernet.get(port).map(|port| port.socket.clone()) else { return };
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut left = true;
        for _ in 0..limits::FRAMES_PER_TURN {
            match socket.receive(&mut buffer) {
                Ok(length) => self.on_ethernet_frame(now, port, socket.mac, &mut buffer[..length]),
                Err(error) => {
                    if error.kind() != io::ErrorKind::WouldBlock {
                        // The interface is probably down. It may come back.
                        tracing::debug!(%error, "Ethernet receive");
                    }
                    left = false;
                    break;
                }
            }
        }
        self.buffer = buffer;
        if left {
            self.ready.push(Token(FIRST_TOKEN + port));
        }
    }

    fn on_ethernet_frame(&mut self, now: Time, port: usize, own: Mac, frame: &mut [u8]) {
        let Some((header, payload)) = frame.split_at_mut_checked(HEADER_BYTES) else { return };
        let (mut to, mut from): (Mac, Mac) = ([0; 6], [0; 6]);
        to.copy_from_slice(&header[..6]);
        from.copy_from_slice(&header[6..12]);
        // The first element ends where the padding of the frame begins. If there is no element, the
        // decoder refuses the bytes.
        let length = tlv::frame(payload, payload.len()).ok().flatten().unwrap_or(payload.len());
        let packet = &mut payload[..length];
        let is_group_address = from[0] & 1 == 1;
        let face = if to == GROUP {
            self.ethernet[port].group
        } else if to == own && from != own && !is_group_address {
            self.ethernet[port].peers.get(&from).copied().or_else(|| self.new_neighbour(now, port, from, packet))
        } else {
            None
        };
        let Some(face) = face else { return };
        if let Some(Connection::Ethernet(peer)) = self.links.get_mut(&face).map(|link| &mut link.connection) {
            peer.last_heard = now;
        }
        self.handle_frames(now, face, std::iter::once(packet));
    }

    /// Adds a face for a new neighbour, if it sends a valid packet and there is room.
    fn new_neighbour(&mut self, now: Time, port: usize, from: Mac, packet: &[u8]) -> Option<FaceId> {
        if LpPacket::decode(packet).is_err() || self.ethernet[port].peers.len() >= limits::ETHERNET_PEERS {
            return None;
        }
        let on_demand = |config: FaceConfig| config.with_persistency(Persistency::OnDemand);
        let face = self.add_ethernet(now, port, from, on_demand)?;
        self.ethernet[port].peers.insert(from, face);
        Some(face)
    }
}

/// Returns the FaceUri of an address: `ether://[02:00:00:00:00:01]`.
fn uri([a, b, c, d, e, f]: Mac) -> String {
    format!("ether://[{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}]")
}

/// Returns the address of a FaceUri after `ether://`; `None` if it is no unicast address.
pub(super) fn unicast(text: &str) -> Option<Mac> {
    let digits = text.trim_end_matches('/').strip_prefix('[')?.strip_suffix(']')?;
    let mut parts = digits.split(':');
    let mut mac = [0; 6];
    for byte in &mut mac {
        let part =
            parts.next().filter(|part| part.len() == 2 && part.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
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
