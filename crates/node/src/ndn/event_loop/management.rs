//! What management asks of this node: faces to create, change and destroy, and a disk to wait for.

use super::EventLoop;
use crate::ndn::error::FaceError;
use crate::ndn::faces::requests::{Remote, peer};
use crate::ndn::guard::udp_places::Standing;
use crate::ndn::send::link::{Connection, Link};
use crate::ndn::shards::command::Command;
use crate::ndn::transport::listen;
use crate::ndn::transport::packet_socket::Mac;
use crate::ndn::transport::stream::{Socket, StreamConnection};
use larder_forwarder::{
    FaceAnswer, FaceConfig, FaceId, FaceRequest, HostRequest, Persistency, Report,
};
use larder_units::{Time, system_message};
use mio::net::TcpStream;
use std::net::SocketAddr;

impl EventLoop {
    pub(super) fn obey_management(&mut self, now: Time) {
        for request in std::mem::take(&mut self.scratch.requests) {
            match request {
                HostRequest::CreateFace(request) => {
                    let ticket = request.ticket;
                    if let Some(answer) = self.create_face(now, request).unwrap_or_else(Some) {
                        self.answer(now, ticket, answer);
                    }
                }
                HostRequest::DestroyFace(face) => {
                    self.close(face, Some("destroyed by management".to_owned()))
                }
                HostRequest::UpdateFace(face) => self.update_face(face),
                HostRequest::SettleTier { ticket } => self.settle_disk(ticket),
                HostRequest::Ask {
                    ticket,
                    shard,
                    question,
                } => {
                    self.shard_channel
                        .port(shard)
                        .send(Command::Ask(ticket, question));
                }
            }
        }
    }

    fn answer(&mut self, now: Time, ticket: u64, answer: FaceAnswer) {
        self.forwarder
            .on_face_answer(now, ticket, answer, &mut self.scratch.outbox);
        self.post(now, &[]);
    }

    /// Creates the face. Returns `None` while it is being connected, and `Err` if it cannot be
    /// created.
    fn create_face(
        &mut self,
        now: Time,
        request: FaceRequest,
    ) -> Result<Option<FaceAnswer>, FaceAnswer> {
        let refused = |code, text: &str| FaceAnswer::Refused(code, text.to_owned());
        let failed = |code, error: FaceError| FaceAnswer::Refused(code, error.to_string());
        let remote = peer(&request.uri)?;
        if request.local_uri.is_some() && !matches!(remote, Remote::Ethernet(_)) {
            return Err(refused(
                406,
                "the local end of a unicast face cannot be chosen",
            ));
        }
        let persistency = request.persistency;
        let is_local = matches!(remote, Remote::Tcp(address) if address.ip().is_loopback());
        if request.local_fields && !is_local {
            return Err(refused(
                406,
                "local fields pass on faces to this machine only",
            ));
        }
        if request.mtu.is_some() && matches!(remote, Remote::Tcp(_)) {
            return Err(refused(406, "a TCP face has no MTU: it is a stream"));
        }
        let adapt = |config: FaceConfig| {
            let threshold = config.default_congestion_threshold;
            FaceConfig {
                persistency,
                mtu: config.mtu.map(|mtu| request.mtu.unwrap_or(mtu)),
                local_fields: request.local_fields,
                link_reliability: request.link_reliability,
                congestion_marking: request.congestion_marking,
                base_congestion_marking_interval: request
                    .base_congestion_marking_interval
                    .unwrap_or(config.base_congestion_marking_interval),
                default_congestion_threshold: request
                    .default_congestion_threshold
                    .unwrap_or(threshold),
                ..config
            }
        };
        match remote {
            Remote::Udp(address) => {
                if self.listeners.udp.is_none() {
                    return Err(failed(406, FaceError::UdpIsOff));
                }
                if let Some(face) = self.places.udp_faces.get(address) {
                    return Err(FaceAnswer::Exists(face));
                }
                let unreachable = |why: String| {
                    FaceAnswer::Refused(504, format!("{address} cannot be reached: {why}"))
                };
                let end = self
                    .udp_end_towards(address)
                    .map_err(|error| unreachable(error.to_string()))?;
                end.map_err(|error| unreachable(system_message(&error)))?;
                let made = self
                    .add_udp(address, adapt)
                    .map_err(|error| failed(507, error))?;
                self.update_face(made);
                Ok(Some(FaceAnswer::Created(made)))
            }
            Remote::Ethernet(address) => {
                let device = request.local_uri.ok_or(refused(
                    406,
                    "an Ethernet face needs a LocalUri, such as dev://eth0",
                ))?;
                self.create_ethernet_face(now, &device, address, adapt)
                    .map(Some)
            }
            Remote::Tcp(address) => {
                if let Some(face) = self.tcp_face_to(address) {
                    return Err(FaceAnswer::Exists(face));
                }
                let unconnected = |error: std::io::Error| {
                    FaceAnswer::Refused(504, format!("cannot connect: {error}"))
                };
                let socket = TcpStream::connect(address).map_err(unconnected)?;
                let face = self
                    .add_tcp(socket, address, 0, adapt)
                    .ok_or(failed(507, FaceError::TooManyFaces))?;
                self.outgoing.connecting.insert(now, face, request.ticket);
                if persistency == Persistency::Permanent {
                    self.outgoing.permanent.insert(face, address);
                }
                Ok(None)
            }
        }
    }

    fn create_ethernet_face(
        &mut self,
        now: Time,
        device: &str,
        address: Mac,
        adapt: impl FnOnce(FaceConfig) -> FaceConfig,
    ) -> Result<FaceAnswer, FaceAnswer> {
        let none = || {
            FaceAnswer::Refused(
                406,
                format!("[ndn] ethernet does not name the interface of {device}"),
            )
        };
        let port = self.listeners.port_named(device).ok_or_else(none)?;
        if let Some(face) = self.listeners.ethernet[port].peers.get(&address) {
            return Err(FaceAnswer::Exists(*face));
        }
        let full = || FaceAnswer::Refused(507, FaceError::TooManyFaces.to_string());
        let made = self
            .add_ethernet(now, port, address, adapt)
            .ok_or_else(full)?;
        self.listeners.ethernet[port].peers.insert(address, made);
        self.update_face(made);
        Ok(FaceAnswer::Created(made))
    }

    fn tcp_face_to(&self, address: SocketAddr) -> Option<FaceId> {
        let same = |link: &Link| match &link.connection {
            Connection::Stream(stream) => match &stream.socket {
                Socket::Tcp(socket) => socket.peer_addr().is_ok_and(|peer| peer == address),
                Socket::Unix(_) => false,
            },
            _ => false,
        };
        // For another thread's socket, only the face is known here.
        let uri = listen::face_uri("tcp", address);
        let has_uri = |face| {
            self.forwarder
                .face(face)
                .is_some_and(|config| config.uri == uri)
        };
        let connected = self
            .links
            .iter()
            .find(|(_, link)| same(link))
            .map(|(face, _)| face);
        connected
            .or_else(|| self.outgoing.permanent.face_to(address))
            .or_else(|| self.shard_channel.find_face(has_uri))
    }

    /// Answers the command that waits for this face. Call it when the face's socket can be written.
    pub(super) fn on_connected(&mut self, now: Time, face: FaceId) {
        if !self.outgoing.connecting.contains(face) {
            return;
        }
        let Some(Connection::Stream(stream)) = self.links.connection(face) else {
            return;
        };
        // A socket whose connection failed can be written too. Its error shows when it is read.
        if matches!(&stream.socket, Socket::Tcp(socket) if socket.peer_addr().is_ok())
            && let Some(ticket) = self.outgoing.connecting.remove(face)
        {
            self.answer(now, ticket, FaceAnswer::Created(face));
        }
    }

    /// Refuses the command that waits for this face. Call it when the face is closed.
    pub(super) fn on_not_connected(&mut self, now: Time, face: FaceId, why: Option<&str>) {
        if let Some(ticket) = self.outgoing.connecting.remove(face) {
            let why = why.unwrap_or("the peer closed the connection");
            self.answer(
                now,
                ticket,
                FaceAnswer::Refused(504, format!("cannot connect: {why}")),
            );
        }
    }

    pub(super) fn give_up_connecting(&mut self, now: Time) {
        for face in self.outgoing.connecting.late(now) {
            self.close(face, Some("it took too long".to_owned()));
        }
    }

    pub(super) fn update_face(&mut self, face: FaceId) {
        let Some(config) = self.forwarder.face(face) else {
            return;
        };
        let permanent = config.persistency != Persistency::OnDemand;
        let stays = config.persistency == Persistency::Permanent;
        self.places.udp_faces.set_permanent(face, permanent);
        match self.links.connection(face) {
            Some(Connection::Stream(StreamConnection {
                socket: Socket::Tcp(socket),
                ..
            })) if stays => {
                if let Ok(address) = socket.peer_addr() {
                    self.outgoing.permanent.insert(face, address);
                }
            }
            _ if !stays => self.end_permanence(face),
            _ => {}
        }
        self.update_link(face);
    }

    /// Gives a face's link the settings of its configuration.
    pub(super) fn update_link(&mut self, face: FaceId) {
        let Some((link, config)) = self.links.get_mut(face).zip(self.forwarder.face(face)) else {
            return;
        };
        let permanent = config.persistency != Persistency::OnDemand;
        let (mtu, reliable) = (config.mtu, config.link_reliability);
        match &mut link.connection {
            Connection::Udp(peer) if peer.permanent != permanent => {
                peer.permanent = permanent;
                self.places
                    .udp_places
                    .set_standing(peer.address, Standing::of_made(permanent));
            }
            Connection::Ethernet(peer) => peer.permanent = permanent,
            _ => {}
        }
        if let Some((frames, mtu)) = link.connection.frames().zip(mtu) {
            frames.set_mtu(mtu);
        }
        self.set_reliable(face, reliable);
    }

    /// Waits on its own thread until the erasures are on disk. Erasing is rare, and a disk may take
    /// seconds.
    pub(super) fn settle_disk(&self, ticket: u64) {
        let Some(disk) = self.disk.clone() else {
            return;
        };
        let ports = self.shard_channel.ports.clone();
        let shard = self.shard_channel.shard.number();
        let settle = move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .build();
            let settled = match runtime {
                Ok(runtime) => runtime
                    .block_on(disk.settle())
                    .map_err(|error| error.to_string()),
                Err(error) => Err(format!("cannot wait for the disk: {error}")),
            };
            ports[shard].send(Command::Said(ticket, Report::Settled(settled)));
        };
        if let Err(error) = std::thread::Builder::new()
            .name("disk-settle".to_owned())
            .spawn(settle)
        {
            let why = format!("cannot start a thread that waits for the disk: {error}");
            self.shard_channel
                .own()
                .send(Command::Said(ticket, Report::Settled(Err(why))));
        }
    }
}
