//! Faces that management creates, changes or closes: the effect of `faces/create` and its relatives
//! on sockets.
//!
//! Management can create UDP and TCP faces and Ethernet unicast faces from canonical FaceUris (NFD
//! wiki, "FaceMgmt"): an address and a port, no host name, because this thread does not wait for a
//! name server. An Ethernet face needs the interface as its LocalUri. Multicast faces belong to the
//! configuration, as in NFD. The command of a TCP face is answered when the connection succeeds or
//! fails.

use super::Command;
use super::ethernet;
use super::event_loop::EventLoop;
use super::faces::TOO_MANY_FACES;
use super::link::{Connection, Link};
use super::listen;
use super::packet_socket::Mac;
use super::stream::{Socket, StreamConnection};
use super::udp_places::Standing;
use crate::limits;
use larder_forwarder::{FaceAnswer, FaceConfig, FaceId, FaceRequest, HostRequest, Persistency};
use larder_units::Time;
use larder_units::system_message;
use mio::net::TcpStream;
use std::net::SocketAddr;

/// A face that is being connected, with the command that waits for it.
pub(super) struct Connecting {
    ticket: u64,
    since: Time,
}

impl EventLoop {
    pub(super) fn obey_management(&mut self, now: Time) {
        for request in std::mem::take(&mut self.requests) {
            match request {
                HostRequest::CreateFace(request) => {
                    let ticket = request.ticket;
                    if let Some(answer) = self.create_face(now, request).unwrap_or_else(Some) {
                        self.answer(now, ticket, answer);
                    }
                }
                HostRequest::DestroyFace(face) => self.close(face, Some("destroyed by management".to_owned())),
                HostRequest::UpdateFace(face) => self.update_face(face),
                HostRequest::SettleTier { ticket } => self.settle_disk(ticket),
                HostRequest::Ask { ticket, shard, question } => {
                    self.shard_channel.port(shard).send(Command::Ask(ticket, question));
                }
            }
        }
    }

    fn answer(&mut self, now: Time, ticket: u64, answer: FaceAnswer) {
        self.forwarder.on_face_answer(now, ticket, answer, &mut self.outbox);
        self.post(now, &[]);
    }

    /// Creates the face. Returns `None` while it is being connected, and `Err` if it cannot be
    /// created.
    fn create_face(&mut self, now: Time, request: FaceRequest) -> Result<Option<FaceAnswer>, FaceAnswer> {
        let refused = |code, text: &str| FaceAnswer::Refused(code, text.to_owned());
        let remote = peer(&request.uri)?;
        if request.local_uri.is_some() && !matches!(remote, Remote::Ethernet(_)) {
            return Err(refused(406, "the local end of a unicast face cannot be chosen"));
        }
        let persistency = request.persistency;
        let is_local = matches!(remote, Remote::Tcp(address) if address.ip().is_loopback());
        if request.local_fields && !is_local {
            return Err(refused(406, "local fields pass on faces to this machine only"));
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
                default_congestion_threshold: request.default_congestion_threshold.unwrap_or(threshold),
                ..config
            }
        };
        match remote {
            Remote::Udp(address) => {
                if self.udp.is_none() {
                    return Err(refused(406, "[ndn] udp is off in the configuration"));
                }
                if let Some(face) = self.udp_places.get(address) {
                    return Err(FaceAnswer::Exists(face));
                }
                let unreachable = |why: String| FaceAnswer::Refused(504, format!("{address} cannot be reached: {why}"));
                let end = self.udp_end_towards(address).map_err(unreachable)?;
                end.map_err(|error| unreachable(system_message(&error)))?;
                let made = self.add_udp(address, adapt).map_err(|why| FaceAnswer::Refused(507, why))?;
                self.update_face(made);
                Ok(Some(FaceAnswer::Created(made)))
            }
            Remote::Ethernet(address) => {
                let device =
                    request.local_uri.ok_or(refused(406, "an Ethernet face needs a LocalUri, such as dev://eth0"))?;
                self.create_ethernet_face(now, &device, address, adapt).map(Some)
            }
            Remote::Tcp(address) => {
                if let Some(face) = self.tcp_face_to(address) {
                    return Err(FaceAnswer::Exists(face));
                }
                let failed = |error: std::io::Error| FaceAnswer::Refused(504, format!("cannot connect: {error}"));
                let socket = TcpStream::connect(address).map_err(failed)?;
                let face = self.add_tcp(socket, address, 0, adapt).ok_or(refused(507, TOO_MANY_FACES))?;
                self.connecting.insert(face, Connecting { ticket: request.ticket, since: now });
                if persistency == Persistency::Permanent {
                    self.make_permanent(face, address);
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
        let none = || FaceAnswer::Refused(406, format!("[ndn] ethernet does not name the interface of {device}"));
        let port = self.port_named(device).ok_or_else(none)?;
        if let Some(face) = self.ethernet[port].peers.get(&address) {
            return Err(FaceAnswer::Exists(*face));
        }
        let full = || FaceAnswer::Refused(507, TOO_MANY_FACES.to_owned());
        let made = self.add_ethernet(now, port, address, adapt).ok_or_else(full)?;
        self.ethernet[port].peers.insert(address, made);
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
        let remote_shard_faces = || {
            self.remote_shard_faces
                .keys()
                .copied()
                .find(|face| self.forwarder.face(*face).is_some_and(|config| config.uri == uri))
        };
        let connected = self.links.iter().find(|(_, link)| same(link)).map(|(face, _)| *face);
        connected.or_else(|| self.permanent_face_to(address)).or_else(remote_shard_faces)
    }

    /// Answers the command that waits for this face. Call it when the face's socket can be written.
    pub(super) fn on_connected(&mut self, now: Time, face: FaceId) {
        if !self.connecting.contains_key(&face) {
            return;
        }
        let Some(Connection::Stream(stream)) = self.links.get(&face).map(|link| &link.connection) else { return };
        // A socket whose connection failed can be written too. Its error shows when it is read.
        if matches!(&stream.socket, Socket::Tcp(socket) if socket.peer_addr().is_ok())
            && let Some(Connecting { ticket, .. }) = self.connecting.remove(&face)
        {
            self.answer(now, ticket, FaceAnswer::Created(face));
        }
    }

    /// Refuses the command that waits for this face. Call it when the face is closed.
    pub(super) fn on_not_connected(&mut self, now: Time, face: FaceId, why: Option<&str>) {
        if let Some(Connecting { ticket, .. }) = self.connecting.remove(&face) {
            let why = why.unwrap_or("the peer closed the connection");
            self.answer(now, ticket, FaceAnswer::Refused(504, format!("cannot connect: {why}")));
        }
    }

    pub(super) fn give_up_connecting(&mut self, now: Time) {
        let late = self.connecting.iter().filter(|(_, one)| now.since(one.since) >= limits::FACE_CONNECT);
        let late: Vec<FaceId> = late.map(|(face, _)| *face).collect();
        for face in late {
            self.close(face, Some("it took too long".to_owned()));
        }
    }

    pub(super) fn update_face(&mut self, face: FaceId) {
        let Some(config) = self.forwarder.face(face) else { return };
        let permanent = config.persistency != Persistency::OnDemand;
        let (mtu, reliable) = (config.mtu, config.link_reliability);
        let stays = config.persistency == Persistency::Permanent;
        match self.links.get(&face).map(|link| &link.connection) {
            Some(Connection::Stream(StreamConnection { socket: Socket::Tcp(socket), .. })) if stays => {
                if let Ok(address) = socket.peer_addr() {
                    self.make_permanent(face, address);
                }
            }
            _ if !stays => self.end_permanence(face),
            _ => {}
        }
        let Some(link) = self.links.get_mut(&face) else { return };
        match &mut link.connection {
            Connection::Udp(peer) => {
                peer.permanent = permanent;
                self.udp_places.set_standing(peer.address, Standing::of_made(permanent));
            }
            Connection::Ethernet(peer) => peer.permanent = permanent,
            _ => {}
        }
        if let Some((frames, mtu)) = link.connection.frames().zip(mtu) {
            frames.set_mtu(mtu);
        }
        self.set_reliable(face, reliable);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remote {
    Udp(SocketAddr),
    Tcp(SocketAddr),
    Ethernet(Mac),
}

/// Returns the peer of a canonical FaceUri.
fn peer(uri: &str) -> Result<Remote, FaceAnswer> {
    let (scheme, rest) =
        uri.split_once("://").ok_or_else(|| FaceAnswer::Refused(400, format!("{uri:?} is no FaceUri")))?;
    let (remote, version): (fn(SocketAddr) -> Remote, _) = match scheme {
        "udp" | "udp4" | "udp6" => (Remote::Udp, scheme.get(3..)),
        "tcp" | "tcp4" | "tcp6" => (Remote::Tcp, scheme.get(3..)),
        "ether" => {
            let wrong = || {
                let text =
                    format!("{uri:?} is no neighbour: it needs its own address, as in ether://[02:00:00:00:00:01]");
                FaceAnswer::Refused(400, text)
            };
            return ethernet::unicast(rest).map(Remote::Ethernet).ok_or_else(wrong);
        }
        _ => return Err(FaceAnswer::Refused(406, format!("faces of the scheme {scheme:?} cannot be made"))),
    };
    let address: SocketAddr = rest.trim_end_matches('/').parse().map_err(|_| {
        FaceAnswer::Refused(
            400,
            format!("{uri:?} is not canonical: it needs an address and a port, such as udp4://192.0.2.1:6363"),
        )
    })?;
    let fits = match version {
        Some("4") => address.is_ipv4(),
        Some("6") => address.is_ipv6(),
        _ => true,
    };
    if fits && address.ip().is_multicast() {
        return Err(FaceAnswer::Refused(
            406,
            "multicast faces are made by [ndn] udp_multicast of the configuration".to_owned(),
        ));
    }
    match fits && address.port() != 0 && !address.ip().is_unspecified() {
        true => Ok(remote(address)),
        false => Err(FaceAnswer::Refused(400, format!("{uri:?} is no peer of a unicast face"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_peer_is_refused_with_the_protocols_codes() {
        for (uri, code) in [
            ("udp4://127.0.0.1", 400),
            ("udp4://localhost:6363", 400),
            ("udp6://127.0.0.1:6363", 400),
            ("udp4://224.0.23.170:56363", 406),
            ("ether://[01:00:5e:00:17:aa]", 400),
            ("tcp4://0.0.0.0:6363", 400),
            ("udp4://127.0.0.1:0", 400),
            ("6363", 400),
            ("unix:///run/nfd/nfd.sock", 406),
            ("ws://127.0.0.1:9696", 406),
        ] {
            assert!(matches!(peer(uri), Err(FaceAnswer::Refused(said, _)) if said == code), "{uri}: {:?}", peer(uri));
        }
        assert_eq!(peer("udp4://127.0.0.1:6363").unwrap(), Remote::Udp("127.0.0.1:6363".parse().unwrap()));
        assert_eq!(peer("tcp6://[::1]:6363").unwrap(), Remote::Tcp("[::1]:6363".parse().unwrap()));
        assert_eq!(peer("ether://[02:00:00:00:00:01]").unwrap(), Remote::Ethernet([2, 0, 0, 0, 0, 1]));
    }
}
