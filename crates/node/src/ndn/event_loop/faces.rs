//! Creates and removes faces, and their resources.

use super::EventLoop;
use crate::limits;
use crate::ndn::address::canonical;
use crate::ndn::error::FaceError;
use crate::ndn::guard::udp_faces::NewPeer;
use crate::ndn::guard::udp_places::Standing;
use crate::ndn::send::link::{Connection, Link};
use crate::ndn::shards::command::Command;
use crate::ndn::tokens::{UDP_OUTGOING, token};
use crate::ndn::transport::frames::Frames;
use crate::ndn::transport::listen;
use crate::ndn::transport::stream::{Socket, StreamConnection};
use crate::ndn::transport::udp::datagram;
use crate::ndn::transport::udp::peer::Peer;
use crate::ndn::transport::websocket::WebSocketConnection;
use larder_forwarder::{FaceConfig, FaceId, Persistency, Scope};
use larder_units::Time;
use mio::net::TcpStream;
use mio::{Interest, Token};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

impl EventLoop {
    /// Adds a face over a TCP connection at thread `home`. `adapt` changes its configuration from
    /// the default.
    pub(super) fn add_tcp(
        &mut self,
        socket: TcpStream,
        from: SocketAddr,
        home: usize,
        adapt: impl FnOnce(FaceConfig) -> FaceConfig,
    ) -> Option<FaceId> {
        prepare(&socket);
        let config = adapt(tcp_face("tcp", from, &socket));
        self.add_stream(config, Socket::Tcp(socket), home)
    }

    /// Adds a face over a stream at thread `home`.
    pub(super) fn add_stream(
        &mut self,
        config: FaceConfig,
        mut socket: Socket,
        home: usize,
    ) -> Option<FaceId> {
        let source = source_of(&config, &socket);
        if home != 0 {
            let face = self.add_face(config, |_, _| Ok(()))?;
            let now = self.now();
            let activity = self.places.add_stream(now, face, source);
            self.shard_channel.give_away(face, socket, activity, home);
            return Some(face);
        }
        let face = self.add_face(config, |registry, token| {
            registry.register(
                socket.source(),
                token,
                Interest::READABLE | Interest::WRITABLE,
            )
        })?;
        let stream = Connection::Stream(StreamConnection::new(socket, self.bounds.largest_frame));
        let now = self.now();
        let activity = self.places.add_stream(now, face, source);
        self.links
            .insert(face, Link::new(stream).watched_by(activity));
        Some(face)
    }

    pub(super) fn add_websocket(
        &mut self,
        now: Time,
        socket: TcpStream,
        from: SocketAddr,
    ) -> Option<FaceId> {
        let _ = socket.set_nodelay(true);
        let local = socket.local_addr().ok()?.ip();
        let config = tcp_face("ws", from, &socket).with_persistency(Persistency::OnDemand);
        let mut socket = Socket::Tcp(socket);
        let source = source_of(&config, &socket);
        let face = self.add_face(config, |registry, token| {
            registry.register(
                socket.source(),
                token,
                Interest::READABLE | Interest::WRITABLE,
            )
        })?;
        let origins = self.listeners.origins.clone();
        let websocket =
            WebSocketConnection::new(socket, local, origins, self.bounds.largest_frame, now);
        let now = self.now();
        let activity = self.places.add_stream(now, face, source);
        self.links.insert(
            face,
            Link::new(Connection::WebSocket(Box::new(websocket))).watched_by(activity),
        );
        Some(face)
    }

    pub(super) fn add_face(
        &mut self,
        config: FaceConfig,
        register: impl FnOnce(&mio::Registry, Token) -> io::Result<()>,
    ) -> Option<FaceId> {
        if !self.make_room(config.scope == Scope::NonLocal) {
            if self.may_warn() {
                tracing::warn!(
                    uri = config.uri,
                    "too many faces; the connection is refused"
                );
            }
            return None;
        }
        self.enter_face(config, register)
    }

    fn enter_face(
        &mut self,
        config: FaceConfig,
        register: impl FnOnce(&mio::Registry, Token) -> io::Result<()>,
    ) -> Option<FaceId> {
        let uri = config.uri.clone();
        let is_remote = config.scope == Scope::NonLocal;
        let face = self.forwarder.add_face(config);
        if let Err(error) = register(self.poll.registry(), token(face)) {
            tracing::warn!(uri, %error, "cannot watch a connection");
            self.forwarder.remove_face(face);
            return None;
        }
        if is_remote {
            self.places.add_remote(face);
        }
        self.tell_others();
        if self.places.is_crowded(&self.bounds) {
            // A flood must not fill the log.
            tracing::debug!(face = face.0, uri, "face created")
        } else {
            tracing::info!(face = face.0, uri, "face created")
        }
        Some(face)
    }

    /// Adds a face for a UDP peer that did not send first. `adapt` changes its configuration from
    /// the default.
    pub(super) fn add_udp(
        &mut self,
        address: SocketAddr,
        adapt: impl FnOnce(FaceConfig) -> FaceConfig,
    ) -> Result<FaceId, FaceError> {
        // A network that is down may come up. Until then the local address is unknown.
        let local = self
            .udp_end_towards(address)?
            .unwrap_or_else(|_| match address {
                SocketAddr::V4(_) => {
                    (Ipv4Addr::UNSPECIFIED, self.listeners.udp_address.port()).into()
                }
                SocketAddr::V6(_) => {
                    (Ipv6Addr::UNSPECIFIED, self.listeners.udp_address.port()).into()
                }
            });
        if !self.make_room(true) {
            return Err(FaceError::TooManyFaces);
        }
        let now = self.now();
        let (face, peer) = self
            .new_peer(now, address, local, adapt)
            .ok_or(FaceError::TooManyFaces)?;
        let standing = Standing::of_made(peer.permanent);
        self.place_peer(
            now,
            NewPeer {
                face,
                peer,
                standing,
                first: None,
            },
        );
        Ok(face)
    }

    /// Returns the local address and port for packets to a UDP peer, or the reason why there is no
    /// route. Creates the socket that the peer needs. `Err` if that fails.
    pub(super) fn udp_end_towards(
        &mut self,
        peer: SocketAddr,
    ) -> Result<io::Result<SocketAddr>, FaceError> {
        let Some(udp) = &mut self.listeners.udp else {
            return Err(FaceError::UdpIsOff);
        };
        let both = Interest::READABLE | Interest::WRITABLE;
        let registry = self.poll.registry();
        udp.reach(peer, |socket| registry.register(socket, UDP_OUTGOING, both))
            .map_err(FaceError::System)?;
        Ok(udp.end_towards(peer))
    }

    /// Creates a face for a UDP peer. The caller has made sure that there is a place, and assigns
    /// it.
    pub(super) fn new_peer(
        &mut self,
        now: Time,
        address: SocketAddr,
        local: SocketAddr,
        adapt: impl FnOnce(FaceConfig) -> FaceConfig,
    ) -> Option<(FaceId, Peer)> {
        let mtu = datagram::mtu_to(address, self.bounds.udp_mtu);
        let uri = listen::face_uri("udp", address);
        let config = FaceConfig::remote(uri)
            .with_local_uri(listen::face_uri("udp", local))
            .with_mtu(mtu);
        let config = adapt(config);
        let permanent = config.persistency != Persistency::OnDemand;
        let (mtu, reliable) = (config.mtu.unwrap_or(mtu), config.link_reliability);
        let face = self.enter_face(config, |_, _| Ok(()))?;
        let mut frames = Frames::new(
            mtu,
            larder_client::limits::UDP_MOST_BYTES,
            self.bounds.largest_packet,
        );
        frames.set_reliable(reliable);
        Some((face, Peer::new(address, permanent, now, frames)))
    }

    pub(super) fn close(&mut self, face: FaceId, why: Option<String>) {
        // The packets that it has sent travel before the message about its end.
        self.flush_shard_channel();
        if self.drop_link(face) {
            if self.shard_channel.shard.number() != 0 {
                // The first thread removes the face everywhere.
                return self.shard_channel.port(0).send(Command::Closed(face, why));
            }
        } else if !self.shard_channel.forget_face(face) && !self.outgoing.permanent.contains(face) {
            return;
        }
        self.forwarder.remove_face(face);
        self.tell_others();
        self.places.forget(face);
        let now = self.now();
        self.outgoing.closed(now, face);
        self.on_not_connected(now, face, why.as_deref());
        let why = why.as_deref().unwrap_or("closed by the peer");
        if self.places.is_crowded(&self.bounds) {
            tracing::debug!(face = face.0, why, "face destroyed")
        } else {
            tracing::info!(face = face.0, why, "face destroyed")
        }
    }

    /// Ends the connection of a face. Returns false if this thread has none.
    pub(super) fn drop_link(&mut self, face: FaceId) -> bool {
        let Some(mut link) = self.links.remove(face) else {
            return false;
        };
        self.forget_socket(face, &mut link.connection);
        self.polling.forget(face);
        true
    }

    pub(super) fn forget_socket(&mut self, face: FaceId, connection: &mut Connection) {
        self.places
            .partial
            .connection_changed(connection.partial_bytes(), 0);
        if let Some(source) = connection.source() {
            let _ = self.poll.registry().deregister(source);
        }
        match connection {
            Connection::Udp(peer) => self.places.udp_places.remove(peer.address, face),
            Connection::Ethernet(peer) => self.listeners.forget_ethernet(peer),
            _ => {}
        }
    }
}

/// Returns the address of the other machine that has opened this connection, if there is one.
fn source_of(config: &FaceConfig, socket: &Socket) -> Option<IpAddr> {
    let is_accepted =
        config.scope == Scope::NonLocal && config.persistency == Persistency::OnDemand;
    match socket {
        Socket::Tcp(socket) if is_accepted => socket.peer_addr().ok().map(|from| from.ip()),
        _ => None,
    }
}

/// Sets the options of a TCP face's socket.
pub(super) fn prepare(socket: &TcpStream) {
    let _ = socket.set_nodelay(true);
    // Keepalive detects a peer that disappears silently.
    let _ = socket2::SockRef::from(socket).set_keepalive(true);
    #[cfg(target_os = "linux")]
    let _ = socket2::SockRef::from(socket).set_tcp_notsent_lowat(limits::TCP_UNSENT_BYTES);
}

/// Returns the configuration of a TCP or WebSocket face. On loopback its scope is local.
fn tcp_face(scheme: &str, from: SocketAddr, socket: &TcpStream) -> FaceConfig {
    let uri = |address: SocketAddr| match scheme {
        "ws" => format!("ws://{}", canonical(address)),
        _ => listen::face_uri(scheme, address),
    };
    let config = if from.ip().to_canonical().is_loopback() {
        FaceConfig::local(uri(from))
    } else {
        FaceConfig::remote(uri(from))
    };
    config.with_local_uri(socket.local_addr().map_or(String::new(), uri))
}
