//! The event loop: sockets in, packets through the forwarder, queues out.

use super::connection::{Connection, Refused};
use super::datagram::{self, Peer, UdpListener};
use super::face_requests::Connecting;
use super::stream::{Framed, Reading, Socket, StreamConnection};
use super::upstream::Upstream;
use super::websocket::{self, WebSocketConnection};
use super::{Command, Handle, Snapshot, listen};
use crate::config::{NdnConfig, RouteTarget};
use crate::limits;
use larder_forwarder::{
    Config, Detail, DropReason, Dropped, FaceConfig, FaceId, Forwarder, HostRequest, Outbox, Persistency, Route, Scope,
};
use larder_packet::LpPacket;
use larder_policy::Engine;
use larder_units::{Streams, Time};
use mio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use mio::{Events, Interest, Poll, Token, Waker};
use std::collections::{HashMap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Origin of routes from the configuration (NFD management protocol: static).
const ORIGIN_STATIC: u64 = 255;

const WAKER: Token = Token(0);
const UNIX: Token = Token(1);
const TCP: Token = Token(2);
const WEBSOCKET: Token = Token(3);
const UDP: Token = Token(4);
const TOO_MANY_FACES: &str = "too many faces";
/// No face has this number.
const NOBODY: FaceId = FaceId(0);

/// Faces' tokens are their numbers; those start at 256.
fn token(face: FaceId) -> Token {
    Token(face.0 as usize)
}

pub(super) struct EventLoop {
    start: Instant,
    pub(super) poll: Poll,
    waker: Arc<Waker>,
    commands: Receiver<Command>,
    handle: Option<Handle>,
    pub(super) forwarder: Forwarder,
    pub(super) outbox: Outbox,
    unix: Option<(UnixListener, PathBuf)>,
    tcp: Option<TcpListener>,
    websocket: Option<TcpListener>,
    pub(super) udp: Option<UdpListener>,
    pub(super) udp_mtu: Option<usize>,
    upstreams: Vec<Upstream>,
    /// Faces to other machines.
    remote: HashSet<FaceId>,
    pub(super) connections: HashMap<FaceId, Connection>,
    /// Faces with something queued in this turn.
    dirty: Vec<FaceId>,
    /// Sources that had more to read than their turn allowed.
    ready: Vec<Token>,
    /// Listeners that ran out of descriptors.
    accept_again: Vec<Token>,
    buffer: Vec<u8>,
    frames: Vec<Framed>,
    housekeeping: Time,
    /// No warning about a peer's doing before this time: a flood must not fill the log.
    next_warning: Time,
    /// What management asked for in this turn.
    pub(super) requests: Vec<HostRequest>,
    /// Faces that management waits for until they are connected.
    pub(super) connecting: HashMap<FaceId, Connecting>,
    stopping: bool,
}

impl EventLoop {
    pub(super) fn new(config: &NdnConfig, commands: Receiver<Command>) -> Result<Self, String> {
        let poll = Poll::new().map_err(|error| error.to_string())?;
        let waker = Waker::new(poll.registry(), WAKER).map_err(|error| error.to_string())?;
        let [seed, key0, key1] = crate::entropy::words();
        let streams = Streams::new(seed);
        let engine =
            Engine::new(&config.policy, config.content_store, &streams).map_err(|error| format!("policy: {error}"))?;
        let mut forwarder_config = Config::new([key0, key1], streams);
        forwarder_config.started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut forwarder = Forwarder::new(forwarder_config, engine);
        forwarder.set_rules(config.rules()?);
        for choice in &config.strategies {
            (forwarder.set_strategy(&choice.prefix, &choice.strategy))
                .map_err(|error| format!("strategy of {}: {error}", choice.prefix))?;
        }
        Ok(EventLoop {
            start: Instant::now(),
            poll,
            waker: Arc::new(waker),
            commands,
            handle: None,
            forwarder,
            outbox: Outbox::new(),
            unix: None,
            tcp: None,
            websocket: None,
            udp: None,
            udp_mtu: config.udp_mtu,
            upstreams: Vec::new(),
            remote: HashSet::new(),
            connections: HashMap::new(),
            dirty: Vec::new(),
            ready: Vec::new(),
            accept_again: Vec::new(),
            buffer: vec![0; limits::READ_BYTES + limits::FRAME_BYTES],
            frames: Vec::new(),
            housekeeping: Time::ZERO,
            next_warning: Time::ZERO,
            requests: Vec::new(),
            connecting: HashMap::new(),
            stopping: false,
        })
    }

    pub(super) fn waker(&self) -> Arc<Waker> {
        self.waker.clone()
    }

    /// How finished jobs come back.
    pub(super) fn set_handle(&mut self, handle: Handle) {
        self.handle = Some(handle);
    }

    pub(super) fn now(&self) -> Time {
        Time::from_nanos(self.start.elapsed().as_nanos() as u64)
    }

    // ---- Starting ----

    /// Binds what the configuration names; returns what was bound, for people, and the path of the Unix socket.
    pub(super) fn listen(&mut self, config: &NdnConfig) -> Result<(Vec<String>, Option<PathBuf>), String> {
        let (mut listening, mut channels) = (Vec::new(), Vec::new());
        let registry = self.poll.registry();
        let register = |source: &mut dyn mio::event::Source, token| {
            registry.register(source, token, Interest::READABLE).map_err(|error| format!("[ndn]: {error}"))
        };
        if let Some(address) = config.tcp {
            let mut listener = listen::tcp("tcp", address)?;
            register(&mut listener, TCP)?;
            let address = listener.local_addr().unwrap_or(address);
            listening.push(format!("tcp://{address}"));
            channels.push(listen::face_uri("tcp", address));
            self.tcp = Some(listener);
        }
        if let Some(address) = config.udp {
            let mut listener = listen::with_ipv4_fallback(address, UdpListener::bind)
                .map_err(|error| listen::occupied("udp", address, &error))?;
            register(&mut listener.socket, UDP)?;
            let address = listener.socket.local_addr().unwrap_or(address);
            listening.push(format!("udp://{address}"));
            channels.push(listen::face_uri("udp", address));
            self.udp = Some(listener);
        }
        if let Some(address) = config.websocket {
            let mut listener = listen::tcp("websocket", address)?;
            register(&mut listener, WEBSOCKET)?;
            let uri = format!("ws://{}", listener.local_addr().unwrap_or(address));
            listening.push(uri.clone());
            channels.push(uri);
            self.websocket = Some(listener);
        }
        // Last, since it leaves a file behind where a later step fails.
        if let Some(setting) = &config.unix {
            let (mut listener, path) = listen::unix(setting.path())?;
            register(&mut listener, UNIX)?;
            let uri = format!("unix://{}", path.display());
            listening.insert(0, uri.clone());
            channels.insert(0, uri);
            self.unix = Some((listener, path));
        }
        self.forwarder.set_channels(channels);
        Ok((listening, self.unix.as_ref().map(|(_, path)| path.clone())))
    }

    /// Takes the configured routes in and connects their upstreams; those that are not there, or go, are tried again.
    pub(super) fn add_routes(&mut self, config: &NdnConfig) -> Result<(), String> {
        self.upstreams = Upstream::of(config);
        let needs_udp = |upstream: &&Upstream| matches!(upstream.target, RouteTarget::Udp(_));
        match self.upstreams.iter().find(needs_udp) {
            Some(upstream) if self.udp.is_none() => Err(format!(
                "[[ndn.route]] to = \"{}\": [ndn] udp is off: set an address to send from",
                upstream.target
            )),
            _ => {
                self.connect_upstreams(self.now());
                Ok(())
            }
        }
    }

    fn connect_upstreams(&mut self, now: Time) {
        let mut upstreams = std::mem::take(&mut self.upstreams);
        for upstream in upstreams.iter_mut().filter(|upstream| upstream.is_due(now)) {
            match self.connect(&upstream.target) {
                Ok(face) => {
                    upstream.face = Some(face);
                    for (prefix, cost) in &upstream.routes {
                        let flags = larder_forwarder::CHILD_INHERIT;
                        let route = Route { face, origin: ORIGIN_STATIC, cost: *cost, flags, expires: None };
                        if let Err(error) = self.forwarder.add_route(prefix, route) {
                            tracing::error!(%prefix, to = %upstream.target, %error, "[[ndn.route]] cannot be added");
                        }
                    }
                }
                Err(error) => {
                    tracing::warn!(to = %upstream.target, error, "[[ndn.route]] cannot be connected; it is tried again");
                    upstream.lost(now);
                }
            }
        }
        self.upstreams = upstreams;
    }

    fn connect(&mut self, target: &RouteTarget) -> Result<FaceId, String> {
        match target {
            RouteTarget::Udp(address) => {
                self.add_udp(*address, |config| config.with_persistency(Persistency::Permanent))
            }
            RouteTarget::Tcp(address) => {
                // The connection is made meanwhile; one that fails shows when it is read.
                let socket = TcpStream::connect(*address).map_err(|error| error.to_string())?;
                self.add_tcp(socket, *address, |config| config).ok_or_else(|| TOO_MANY_FACES.to_owned())
            }
            RouteTarget::Unix(path) => {
                let socket = UnixStream::connect(path).map_err(|error| error.to_string())?;
                let uri = format!("unix://{}", path.display());
                self.add_stream(FaceConfig::local(uri), Socket::Unix(socket)).ok_or_else(|| TOO_MANY_FACES.to_owned())
            }
        }
    }

    // ---- Running ----

    pub(super) fn run(&mut self) {
        let mut events = Events::with_capacity(1024);
        while !self.stopping {
            let timeout = self.timeout();
            if let Err(error) = self.poll.poll(&mut events, Some(timeout))
                && error.kind() != io::ErrorKind::Interrupted
            {
                tracing::error!(%error, "the event loop cannot wait for events; stopping");
                return;
            }
            let now = self.now();
            let mut turn = std::mem::take(&mut self.ready);
            for event in &events {
                let token = event.token();
                if event.is_writable() && token.0 >= 256 {
                    let face = FaceId(token.0 as u64);
                    self.dirty.push(face);
                    self.on_connected(now, face);
                }
                // A closed or failed socket shows when it is read.
                if event.is_readable() || event.is_read_closed() || event.is_error() {
                    turn.push(token);
                }
            }
            turn.sort_unstable();
            turn.dedup();
            for token in turn {
                self.readable(now, token);
            }
            self.on_time(now);
            self.flush();
            if !self.requests.is_empty() {
                self.obey_management(now);
                self.flush();
            }
        }
    }

    fn timeout(&self) -> Duration {
        if !self.ready.is_empty() {
            return Duration::ZERO;
        }
        let now = self.now();
        let next = self.forwarder.next_timeout().map_or(limits::HOUSEKEEPING, |at| at.since(now));
        next.min(limits::HOUSEKEEPING)
    }

    fn readable(&mut self, now: Time, token: Token) {
        match token {
            WAKER => self.obey(),
            UNIX | TCP | WEBSOCKET => self.accept(now, token),
            UDP => self.read_udp(now),
            Token(face) => {
                let face = FaceId(face as u64);
                match self.connections.get(&face) {
                    Some(Connection::Stream(_)) => self.read_stream(now, face),
                    Some(Connection::WebSocket(_)) => self.read_websocket(now, face),
                    Some(Connection::Udp(_)) | None => {}
                }
            }
        }
    }

    fn obey(&mut self) {
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Stop => self.stopping = true,
                Command::JobDone(done) => self.forwarder.complete(done),
                Command::Snapshot(reply) => {
                    let snapshot = Snapshot {
                        stats: self.forwarder.stats(),
                        faces: self.forwarder.face_stats(),
                        policy: self.forwarder.policy().to_string(),
                        gauges: self.forwarder.gauges(),
                    };
                    let _ = reply.send(snapshot);
                }
            }
        }
    }

    fn on_time(&mut self, now: Time) {
        if self.forwarder.next_timeout().is_some_and(|at| at <= now) {
            self.forwarder.on_timeout(now, &mut self.outbox);
            self.post(&[]);
        }
        if let Some((job, handle)) = self.forwarder.job().zip(self.handle.clone()) {
            let work = move || handle.command(Command::JobDone(job.run()));
            if let Err(error) = std::thread::Builder::new().name("tuning".to_owned()).spawn(work) {
                tracing::warn!(%error, "cannot start a thread for the policy's tuning; it keeps its parameters");
            }
        }
        if now >= self.housekeeping {
            self.housekeeping = now + limits::HOUSEKEEPING;
            self.keep_house(now);
        }
    }

    fn keep_house(&mut self, now: Time) {
        self.connect_upstreams(now);
        for token in std::mem::take(&mut self.accept_again) {
            self.accept(now, token);
        }
        let full = self.udp.as_ref().is_some_and(|udp| udp.peers.len() >= limits::UDP_PEERS);
        let udp_idle = if full { limits::UDP_IDLE_WHEN_FULL } else { limits::UDP_IDLE };
        let idle = |connection: &Connection| match connection {
            Connection::Udp(peer) => !peer.permanent && now.since(peer.last_heard) >= udp_idle,
            Connection::WebSocket(socket) => !socket.is_open() && now.since(socket.accepted) >= limits::HANDSHAKE,
            Connection::Stream(_) => false,
        };
        self.give_up_connecting(now);
        let over: Vec<FaceId> =
            self.connections.iter().filter(|(_, connection)| idle(connection)).map(|(face, _)| *face).collect();
        for face in over {
            self.close(face, Some("idle".to_owned()));
        }
    }

    // ---- Faces ----

    fn accept(&mut self, now: Time, listener: Token) {
        loop {
            let accepted = match listener {
                UNIX => {
                    self.unix.as_ref().map(|(unix, _)| unix.accept().map(|(socket, _)| (Socket::Unix(socket), None)))
                }
                TCP => {
                    self.tcp.as_ref().map(|tcp| tcp.accept().map(|(socket, from)| (Socket::Tcp(socket), Some(from))))
                }
                _ => self
                    .websocket
                    .as_ref()
                    .map(|ws| ws.accept().map(|(socket, from)| (Socket::Tcp(socket), Some(from)))),
            };
            let (socket, from) = match accepted {
                Some(Ok(accepted)) => accepted,
                Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => return,
                Some(Err(error)) => {
                    // Out of descriptors, most likely: the connection waits in the kernel, and is tried again in a second.
                    if self.may_warn() {
                        tracing::warn!(%error, "cannot accept connections");
                    }
                    if !self.accept_again.contains(&listener) {
                        self.accept_again.push(listener);
                    }
                    return;
                }
                None => return,
            };
            let face = match (socket, from) {
                (Socket::Unix(socket), _) => {
                    let path = self.unix.as_ref().map_or(String::new(), |(_, path)| path.display().to_string());
                    let config = FaceConfig::local(format!("fd://{}", socket.as_raw_fd()))
                        .with_local_uri(format!("unix://{path}"))
                        .with_persistency(Persistency::OnDemand);
                    self.add_stream(config, Socket::Unix(socket))
                }
                (Socket::Tcp(socket), Some(from)) if listener == TCP => {
                    self.add_tcp(socket, from, |config| config.with_persistency(Persistency::OnDemand))
                }
                (Socket::Tcp(socket), Some(from)) => self.add_websocket(now, socket, from),
                (Socket::Tcp(_), None) => None,
            };
            // What came with the connection may have raised no event of its own yet.
            if let Some(face) = face {
                self.ready.push(token(face));
            }
        }
    }

    /// A face over a TCP connection; `adapt` says how it differs from the ordinary.
    pub(super) fn add_tcp(
        &mut self,
        socket: TcpStream,
        from: SocketAddr,
        adapt: impl FnOnce(FaceConfig) -> FaceConfig,
    ) -> Option<FaceId> {
        let _ = socket.set_nodelay(true);
        // A peer that vanished without a word is found out in the end.
        let _ = socket2::SockRef::from(&socket).set_keepalive(true);
        let config = adapt(tcp_face("tcp", from, &socket));
        self.add_stream(config, Socket::Tcp(socket))
    }

    fn add_stream(&mut self, config: FaceConfig, mut socket: Socket) -> Option<FaceId> {
        let face = self.add_face(config, |registry, token| {
            registry.register(socket.source(), token, Interest::READABLE | Interest::WRITABLE)
        })?;
        self.connections.insert(face, Connection::Stream(StreamConnection::new(socket)));
        Some(face)
    }

    fn add_websocket(&mut self, now: Time, socket: TcpStream, from: SocketAddr) -> Option<FaceId> {
        let _ = socket.set_nodelay(true);
        let mut socket = match WebSocketConnection::accept(socket, now) {
            Ok(socket) => socket,
            Err(error) => {
                tracing::debug!(%from, error, "WebSocket handshake failed");
                return None;
            }
        };
        let config = tcp_face("ws", from, socket.socket()?).with_persistency(Persistency::OnDemand);
        let face = self.add_face(config, |registry, token| match socket.socket() {
            Some(socket) => registry.register(socket, token, Interest::READABLE | Interest::WRITABLE),
            None => Ok(()),
        })?;
        self.connections.insert(face, Connection::WebSocket(Box::new(socket)));
        Some(face)
    }

    fn add_face(
        &mut self,
        config: FaceConfig,
        register: impl FnOnce(&mio::Registry, Token) -> io::Result<()>,
    ) -> Option<FaceId> {
        let uri = config.uri.clone();
        let is_remote = config.scope == Scope::NonLocal;
        if self.connections.len() >= limits::FACES || (is_remote && self.remote.len() >= limits::REMOTE_FACES) {
            if self.may_warn() {
                tracing::warn!(uri, limit = limits::FACES, "too many faces; the connection is refused");
            }
            return None;
        }
        let face = self.forwarder.add_face(config);
        if let Err(error) = register(self.poll.registry(), token(face)) {
            tracing::warn!(uri, %error, "cannot watch a connection");
            self.forwarder.remove_face(face);
            return None;
        }
        if is_remote {
            self.remote.insert(face);
        }
        tracing::info!(face = face.0, uri, "face created");
        Some(face)
    }

    /// A face for a UDP peer that was not heard first; `adapt` says how it differs from the ordinary.
    pub(super) fn add_udp(
        &mut self,
        address: SocketAddr,
        adapt: impl FnOnce(FaceConfig) -> FaceConfig,
    ) -> Result<FaceId, String> {
        let face = self.add_peer(self.now(), address, adapt).ok_or(TOO_MANY_FACES)?;
        if let Some(udp) = &mut self.udp {
            udp.peers.insert(address, face);
        }
        Ok(face)
    }

    /// A face for a UDP peer; the caller enters it among the listener's peers.
    fn add_peer(
        &mut self,
        now: Time,
        address: SocketAddr,
        adapt: impl FnOnce(FaceConfig) -> FaceConfig,
    ) -> Option<FaceId> {
        let [first_sequence] = crate::entropy::words();
        let mtu = datagram::mtu_to(address, self.udp_mtu);
        let local = self.udp.as_ref().and_then(|udp| udp.socket.local_addr().ok());
        let local_uri = local.map_or(String::new(), |local| listen::face_uri("udp", local));
        let config = FaceConfig::remote(listen::face_uri("udp", address)).with_local_uri(local_uri).with_mtu(mtu);
        let config = adapt(config);
        let permanent = config.persistency != Persistency::OnDemand;
        let mtu = config.mtu.unwrap_or(mtu);
        let face = self.add_face(config, |_, _| Ok(()))?;
        self.connections.insert(face, Connection::Udp(Peer::new(address, permanent, now, mtu, first_sequence)));
        Some(face)
    }

    pub(super) fn close(&mut self, face: FaceId, why: Option<String>) {
        let Some(mut connection) = self.connections.remove(&face) else { return };
        match &mut connection {
            Connection::Stream(stream) => {
                let _ = self.poll.registry().deregister(stream.socket.source());
            }
            Connection::WebSocket(socket) => {
                if let Some(socket) = socket.socket() {
                    let _ = self.poll.registry().deregister(socket);
                }
            }
            Connection::Udp(peer) => {
                if let Some(udp) = &mut self.udp {
                    udp.peers.remove(&peer.address);
                }
            }
        }
        self.forwarder.remove_face(face);
        self.remote.remove(&face);
        let now = self.now();
        self.upstreams
            .iter_mut()
            .filter(|upstream| upstream.face == Some(face))
            .for_each(|upstream| upstream.lost(now));
        self.on_not_connected(now, face, why.as_deref());
        tracing::info!(face = face.0, why = why.as_deref().unwrap_or("closed by the peer"), "face destroyed");
    }

    // ---- Packets in ----

    /// Reads once; what is left waits for the next turn, so that everybody has his.
    fn read_stream(&mut self, now: Time, face: FaceId) {
        let Some(Connection::Stream(stream)) = self.connections.get_mut(&face) else { return };
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut frames = std::mem::take(&mut self.frames);
        let reading = stream.read(&mut buffer, &mut frames);
        for framed in frames.drain(..) {
            match framed {
                Framed::Packet(range) => self.handle(now, face, &mut buffer[range]),
                Framed::Oversized(bytes) => self.oversized(face, bytes),
            }
        }
        self.buffer = buffer;
        self.frames = frames;
        match reading {
            Reading::Frames => {
                if let Some(upstream) = self.upstreams.iter_mut().find(|upstream| upstream.face == Some(face)) {
                    upstream.heard();
                }
                self.ready.push(token(face));
            }
            Reading::Drained => {}
            Reading::Closed(why) => self.close(face, why),
        }
    }

    fn read_websocket(&mut self, now: Time, face: FaceId) {
        for _ in 0..limits::MESSAGES_PER_TURN {
            let Some(Connection::WebSocket(socket)) = self.connections.get_mut(&face) else { return };
            match socket.read() {
                websocket::Reading::Packet(mut packet) => self.handle(now, face, &mut packet),
                websocket::Reading::Text => self.forwarder.count_drop(face, DropReason::Malformed),
                websocket::Reading::Nothing => self.dirty.push(face),
                websocket::Reading::Drained => return,
                websocket::Reading::Closed(why) => return self.close(face, why),
            }
        }
        self.ready.push(token(face));
    }

    fn read_udp(&mut self, now: Time) {
        let Some(mut udp) = self.udp.take() else { return };
        // Peers are looked up in the listener that is out of the way while its buffers are borrowed.
        let mut peers = std::mem::take(&mut udp.peers);
        let received = udp.receive(|from, to, datagram| {
            let face = peers.get(&from).copied().or_else(|| {
                let face = self.new_peer(now, from, peers.len(), datagram)?;
                peers.insert(from, face);
                Some(face)
            });
            let Some(face) = face else { return };
            if let Some(Connection::Udp(peer)) = self.connections.get_mut(&face) {
                peer.last_heard = now;
                peer.local = to;
            }
            self.handle(now, face, datagram);
        });
        udp.peers = peers;
        self.udp = Some(udp);
        match received {
            Ok(true) => self.ready.push(UDP),
            Ok(false) => {}
            Err(error) => {
                // An ICMP error of some peer, most likely: the others go on.
                tracing::debug!(%error, "UDP receive");
                self.ready.push(UDP);
            }
        }
    }

    /// A face for somebody who was not heard before, if what he sends is a packet and there is room.
    fn new_peer(&mut self, now: Time, from: SocketAddr, peers: usize, datagram: &[u8]) -> Option<FaceId> {
        if let Err(error) = LpPacket::decode(datagram) {
            self.forwarder.count_drop(NOBODY, DropReason::Malformed);
            tracing::debug!(%from, %error, "a datagram of a stranger is no packet");
            return None;
        }
        if peers >= limits::UDP_PEERS {
            if self.may_warn() {
                tracing::warn!(%from, limit = limits::UDP_PEERS, "too many UDP peers; a new one is not heard");
            }
            return None;
        }
        self.add_peer(now, from, |config| config.with_persistency(Persistency::OnDemand))
    }

    fn handle(&mut self, now: Time, face: FaceId, frame: &mut [u8]) {
        if let Err(dropped) = self.forwarder.on_packet(now, face, frame, &mut self.outbox) {
            self.log_drop(face, &dropped);
        }
        self.post(frame);
    }

    fn log_drop(&mut self, face: FaceId, dropped: &Dropped) {
        match dropped.detail {
            Detail::Bytes { found, .. } => self.log_oversized(face, found as u64),
            _ => tracing::debug!(face = face.0, "packet dropped: {dropped}"),
        }
    }

    fn oversized(&mut self, face: FaceId, bytes: u64) {
        self.forwarder.count_drop(face, DropReason::Oversized);
        self.log_oversized(face, bytes);
    }

    fn log_oversized(&mut self, face: FaceId, bytes: u64) {
        if self.may_warn() {
            tracing::warn!(
                face = face.0,
                bytes,
                limit = larder_forwarder::limits::MAX_PACKET_BYTES,
                "a packet is larger than the NDN limit; it was dropped, the face stays: send smaller segments"
            );
        }
    }

    /// Whether a warning about a peer may be logged now: the counters tell of those that may not.
    fn may_warn(&mut self) -> bool {
        let now = self.now();
        let may = now >= self.next_warning;
        if may {
            self.next_warning = now + limits::WARNINGS;
        }
        may
    }

    // ---- Packets out ----

    /// Queues what the forwarder wants sent; `frame` is the packet that it was given.
    pub(super) fn post(&mut self, frame: &[u8]) {
        self.requests.extend(self.outbox.drain_requests());
        let input = frame.get(self.outbox.input()).unwrap_or_default();
        let share = limits::SEND_QUEUES_BYTES / self.connections.len().max(1);
        let most = share.clamp(limits::SEND_QUEUE_LEAST_BYTES, limits::SEND_QUEUE_BYTES);
        for mut send in self.outbox.drain() {
            let Some(connection) = self.connections.get_mut(&send.face) else { continue };
            let queued = connection.queued();
            if queued == 0 {
                self.dirty.push(send.face);
            }
            let marks =
                |face: &FaceConfig| face.congestion_marking && queued as u64 > face.default_congestion_threshold;
            if queued > 0 && self.forwarder.face(send.face).is_some_and(marks) {
                send.header.congestion_mark = Some(1);
            }
            let result = match queued > most {
                true => Err(Refused::QueueFull),
                false => connection.queue(&send, input),
            };
            match result {
                Ok(()) => {}
                Err(Refused::QueueFull) => self.forwarder.count_drop(send.face, DropReason::QueueFull),
                Err(Refused::CannotFragment) => self.forwarder.count_drop(send.face, DropReason::CannotFragment),
            }
        }
    }

    fn flush(&mut self) {
        let mut dirty = std::mem::take(&mut self.dirty);
        for face in dirty.drain(..) {
            let Some(connection) = self.connections.get_mut(&face) else { continue };
            let flushed = match connection {
                Connection::Stream(stream) => stream.flush(),
                Connection::WebSocket(socket) => socket.flush(),
                Connection::Udp(peer) => {
                    let lost = self.udp.as_ref().map_or(0, |udp| udp.flush(peer));
                    for _ in 0..lost {
                        self.forwarder.count_drop(face, DropReason::QueueFull);
                    }
                    Ok(())
                }
            };
            if let Err(error) = flushed {
                self.close(face, Some(error.to_string()));
            }
        }
        self.dirty = dirty;
    }
}

/// A TCP or WebSocket face: local on loopback.
fn tcp_face(scheme: &str, from: SocketAddr, socket: &TcpStream) -> FaceConfig {
    let uri = |address: SocketAddr| match scheme {
        "ws" => format!("ws://{}", datagram::canonical(address)),
        _ => listen::face_uri(scheme, address),
    };
    let config = match from.ip().to_canonical().is_loopback() {
        true => FaceConfig::local(uri(from)),
        false => FaceConfig::remote(uri(from)),
    };
    config.with_local_uri(socket.local_addr().map_or(String::new(), uri))
}
