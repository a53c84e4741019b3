//! Faces to the neighbours on a link: multicast groups over UDP, and Ethernet.

use super::EventLoop;
use crate::config::NdnConfig;
use crate::limits;
use crate::ndn::error::NdnError;
use crate::ndn::send::link::{Connection, Link};
use crate::ndn::tokens::token;
use crate::ndn::transport::ethernet::{
    EthernetPeer, FIRST_TOKEN, GROUP, HEADER_BYTES, MOST_PORTS, Port, open_all, uri,
};
use crate::ndn::transport::frames::Frames;
use crate::ndn::transport::listen;
use crate::ndn::transport::multicast::{Multicast, join_all, link_type};
use crate::ndn::transport::packet_socket::Mac;
use larder_forwarder::{FaceConfig, FaceId, Persistency};
use larder_packet::{LpPacket, tlv};
use larder_units::Time;
use mio::unix::SourceFd;
use mio::{Interest, Token};
use std::collections::HashMap;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

impl EventLoop {
    /// Opens the interfaces of the configuration.
    pub(super) fn open_ethernet(&mut self, config: &NdnConfig) -> Result<(), NdnError> {
        for (interface, socket) in open_all(config)? {
            let port = self.listeners.ethernet.len();
            if port >= MOST_PORTS {
                return Err(NdnError::TooManyInterfaces(MOST_PORTS));
            }
            let both = Interest::READABLE | Interest::WRITABLE;
            (self.poll.registry())
                .register(
                    &mut SourceFd(&socket.as_raw_fd()),
                    Token(FIRST_TOKEN + port),
                    both,
                )
                .map_err(NdnError::EthernetEvents)?;
            self.listeners.ethernet.push(Port {
                socket: Arc::new(socket),
                interface,
                group: None,
                peers: HashMap::new(),
            });
            let kind = link_type(config, &self.listeners.ethernet[port].interface);
            let face = self.add_ethernet(self.now(), port, GROUP, |face| FaceConfig {
                link_type: kind,
                persistency: Persistency::Permanent,
                ..face
            });
            self.listeners.ethernet[port].group =
                Some(face.ok_or(NdnError::TooManyFaces { key: "ethernet" })?);
        }
        Ok(())
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
        let Port {
            socket, interface, ..
        } = &self.listeners.ethernet[port];
        let (socket, device) = (socket.clone(), format!("dev://{interface}"));
        let mut config = adapt(
            FaceConfig::remote(uri(address))
                .with_local_uri(device)
                .with_mtu(socket.mtu),
        );
        config.mtu = config.mtu.map(|mtu| mtu.min(socket.mtu));
        let permanent = config.persistency != Persistency::OnDemand;
        let frames = Frames::new(
            config.mtu.unwrap_or(socket.mtu),
            socket.mtu,
            self.bounds.largest_packet,
        );
        let face = self.add_face(config, |_, _| Ok(()))?;
        let peer = EthernetPeer {
            socket,
            port,
            address,
            permanent,
            last_heard: now,
            frames,
        };
        self.links
            .insert(face, Link::new(Connection::Ethernet(Box::new(peer))));
        Some(face)
    }

    pub(super) fn read_ethernet(&mut self, now: Time, port: usize) {
        let Some(socket) = self
            .listeners
            .ethernet
            .get(port)
            .map(|port| port.socket.clone())
        else {
            return;
        };
        let mut buffer = std::mem::take(&mut self.scratch.buffer);
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
        self.scratch.buffer = buffer;
        if left {
            self.ready.push(Token(FIRST_TOKEN + port));
        }
    }

    fn on_ethernet_frame(&mut self, now: Time, port: usize, own: Mac, frame: &mut [u8]) {
        let Some((header, payload)) = frame.split_at_mut_checked(HEADER_BYTES) else {
            return;
        };
        let (mut to, mut from): (Mac, Mac) = ([0; 6], [0; 6]);
        to.copy_from_slice(&header[..6]);
        from.copy_from_slice(&header[6..12]);
        // The first element ends where the padding of the frame begins. If there is no element, the
        // decoder refuses the bytes.
        let length = tlv::frame(payload, payload.len())
            .ok()
            .flatten()
            .unwrap_or(payload.len());
        let packet = &mut payload[..length];
        let is_group_address = from[0] & 1 == 1;
        let face = if to == GROUP {
            self.listeners.ethernet[port].group
        } else if to == own && from != own && !is_group_address {
            self.listeners.ethernet[port]
                .peers
                .get(&from)
                .copied()
                .or_else(|| self.new_neighbour(now, port, from, packet))
        } else {
            None
        };
        let Some(face) = face else { return };
        if let Some(Connection::Ethernet(peer)) = self.links.connection_mut(face) {
            peer.last_heard = now;
        }
        self.handle_frames(now, face, std::iter::once(packet));
    }

    /// Adds a face for a new neighbour, if it sends a valid packet and there is room.
    fn new_neighbour(
        &mut self,
        now: Time,
        port: usize,
        from: Mac,
        packet: &[u8],
    ) -> Option<FaceId> {
        if LpPacket::decode(packet).is_err()
            || self.listeners.ethernet[port].peers.len() >= limits::ETHERNET_PEERS
        {
            return None;
        }
        let on_demand = |config: FaceConfig| config.with_persistency(Persistency::OnDemand);
        let face = self.add_ethernet(now, port, from, on_demand)?;
        self.listeners.ethernet[port].peers.insert(from, face);
        Some(face)
    }

    /// Creates the faces to groups of neighbours that the configuration names.
    pub(in crate::ndn) fn open_neighbours(&mut self, config: &NdnConfig) -> Result<(), NdnError> {
        self.join_groups(config)?;
        self.open_ethernet(config)
    }

    fn join_groups(&mut self, config: &NdnConfig) -> Result<(), NdnError> {
        for (interface, groups) in join_all(config)? {
            for multicast in groups {
                let face = FaceConfig {
                    link_type: link_type(config, &interface),
                    ..FaceConfig::remote(listen::face_uri("udp", multicast.group))
                }
                .with_local_uri(listen::face_uri("udp", multicast.local))
                .with_persistency(Persistency::Permanent)
                .with_mtu(multicast.frames.mtu());
                self.listeners
                    .groups
                    .push(format!("{} on {interface}", face.uri));
                self.add_multicast(face, multicast)
                    .ok_or(NdnError::TooManyFaces {
                        key: "udp_multicast",
                    })?;
            }
        }
        Ok(())
    }

    fn add_multicast(&mut self, config: FaceConfig, mut multicast: Multicast) -> Option<FaceId> {
        let face = self.add_face(config, |registry, token| {
            registry.register(
                &mut multicast.socket,
                token,
                Interest::READABLE | Interest::WRITABLE,
            )
        })?;
        self.links
            .insert(face, Link::new(Connection::Multicast(Box::new(multicast))));
        Some(face)
    }

    pub(super) fn read_multicast(&mut self, now: Time, face: FaceId) {
        let mut buffer = std::mem::take(&mut self.scratch.buffer);
        for _ in 0..limits::FRAMES_PER_TURN {
            let Some(Connection::Multicast(multicast)) = self.links.connection_mut(face) else {
                break;
            };
            match multicast.socket.recv_from(&mut buffer) {
                Ok((length, _)) => self.handle(now, face, std::iter::once(&mut buffer[..length])),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.scratch.buffer = buffer;
                    return;
                }
                // The interface is probably down. It may come back.
                Err(error) => {
                    tracing::debug!(face = face.0, %error, "UDP multicast receive");
                    self.scratch.buffer = buffer;
                    return;
                }
            }
        }
        self.scratch.buffer = buffer;
        self.ready.push(token(face));
    }
}
