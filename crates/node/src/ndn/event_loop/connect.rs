//! Connections that this node opens: the routes of the configuration, and permanent faces.

use super::reload::check_upstreams;
use super::{EventLoop, faces};
use crate::config::{NdnConfig, RouteTarget};
use crate::ndn::error::{FaceError, NdnError};
use crate::ndn::faces::upstream::{ORIGIN_STATIC, Upstream};
use crate::ndn::send::link::{Connection, Link};
use crate::ndn::tokens::token;
use crate::ndn::transport::stream::{Socket, StreamConnection};
use crate::ndn::transport::unix_socket::UnixSocket;
use larder_forwarder::{FaceConfig, FaceId, Persistency, Route};
use larder_units::Time;
use mio::Interest;
use mio::net::{TcpStream, UnixStream};
use std::io;
use std::net::SocketAddr;

impl EventLoop {
    /// Adds the configured routes and connects their upstreams. Those that fail, or fail later, are
    /// tried again.
    pub(in crate::ndn) fn add_routes(&mut self, config: &NdnConfig) -> Result<(), NdnError> {
        let upstreams = Upstream::of(config);
        check_upstreams(&upstreams, self.listeners.udp.is_some())?;
        self.outgoing.upstreams = upstreams;
        self.connect_upstreams(self.now());
        Ok(())
    }

    /// Replaces the upstreams. Faces of both lists stay; faces without a route are closed.
    pub(super) fn set_upstreams(&mut self, now: Time, upstreams: Vec<Upstream>) {
        let mut before = std::mem::replace(&mut self.outgoing.upstreams, upstreams);
        for mut upstream in std::mem::take(&mut self.outgoing.upstreams) {
            if let Some(at) = before.iter().position(|old| old.target == upstream.target) {
                let old = before.swap_remove(at);
                (upstream.face, upstream.retry, upstream.wait) = (old.face, old.retry, old.wait);
                if let Some(face) = upstream.face {
                    let gone = old.routes.iter().filter(|(prefix, _)| {
                        !upstream.routes.iter().any(|(still, _)| still == prefix)
                    });
                    for (prefix, _) in gone {
                        self.forwarder.remove_route(prefix, face, ORIGIN_STATIC)
                    }
                    self.add_routes_of(&upstream, face);
                    if upstream.reliable != old.reliable {
                        self.be_reliable(face, upstream.reliable);
                    }
                }
            }
            self.outgoing.upstreams.push(upstream);
        }
        for face in before.into_iter().filter_map(|old| old.face) {
            self.close(
                face,
                Some("no [[ndn.route]] goes there any more".to_owned()),
            );
        }
        self.connect_upstreams(now);
    }

    fn add_routes_of(&mut self, upstream: &Upstream, face: FaceId) {
        for (prefix, cost) in &upstream.routes {
            let flags = larder_forwarder::CHILD_INHERIT;
            let route = Route {
                face,
                origin: ORIGIN_STATIC,
                cost: *cost,
                flags,
                expires: None,
            };
            if let Err(error) = self.forwarder.add_route(prefix, route) {
                tracing::error!(%prefix, to = %upstream.target, %error, "[[ndn.route]] cannot be added");
            }
        }
    }

    pub(super) fn connect_upstreams(&mut self, now: Time) {
        let mut upstreams = std::mem::take(&mut self.outgoing.upstreams);
        for upstream in upstreams.iter_mut().filter(|upstream| upstream.is_due(now)) {
            match self.connect(&upstream.target) {
                Ok(face) => {
                    upstream.face = Some(face);
                    self.add_routes_of(upstream, face);
                    if upstream.reliable {
                        self.be_reliable(face, true);
                    }
                }
                Err(error) => {
                    tracing::warn!(to = %upstream.target, %error, "[[ndn.route]] cannot be connected; it is tried again");
                    upstream.lost(now);
                }
            }
        }
        // Room for one of these may have cost another one its face.
        for upstream in &mut upstreams {
            if upstream
                .face
                .is_some_and(|face| self.forwarder.face(face).is_none())
            {
                upstream.lost(now);
            }
        }
        self.outgoing.upstreams = upstreams;
    }

    fn connect(&mut self, target: &RouteTarget) -> Result<FaceId, FaceError> {
        match target {
            RouteTarget::Udp(address) => self.add_udp(*address, |config| {
                config.with_persistency(Persistency::Permanent)
            }),
            RouteTarget::Tcp(address) => {
                // The connection is being made. A failure shows when it is read.
                let socket = TcpStream::connect(*address).map_err(FaceError::System)?;
                self.add_tcp(socket, *address, 0, |config| config)
                    .ok_or(FaceError::TooManyFaces)
            }
            RouteTarget::Unix(path) => {
                let socket = UnixStream::connect(path).map_err(FaceError::System)?;
                let uri = format!("unix://{}", path.display());
                self.add_stream(
                    FaceConfig::local(uri),
                    Socket::Unix(UnixSocket::new(socket)),
                    0,
                )
                .ok_or(FaceError::TooManyFaces)
            }
        }
    }

    /// Ends the permanence of the face. A face without a connection ends.
    pub(super) fn end_permanence(&mut self, face: FaceId) {
        if self.outgoing.permanent.is_down(face) {
            let why = "it has no connection, and is not permanent any more";
            self.close(face, Some(why.to_owned()));
        } else {
            self.outgoing.permanent.remove(face);
        }
    }

    /// Ends the face after its connection is gone, unless it is permanent.
    pub(super) fn disconnected(&mut self, now: Time, face: FaceId, why: Option<String>) {
        if !self.outgoing.lost(now, face) {
            return self.close(face, why);
        }
        self.drop_link(face);
        tracing::info!(
            face = face.0,
            why = why.as_deref().unwrap_or("closed by the peer"),
            "a permanent face is down"
        );
    }

    /// Connects the permanent faces that are due.
    pub(super) fn connect_permanent(&mut self, now: Time) {
        for (face, address) in self.outgoing.permanent.due(now) {
            let result = self.connect_again(face, address);
            if let Err(error) = &result {
                tracing::debug!(face = face.0, %error, "a permanent face cannot be connected");
            }
            self.outgoing.permanent.tried(now, face, result.is_ok());
        }
    }

    fn connect_again(&mut self, face: FaceId, address: SocketAddr) -> io::Result<()> {
        let mut socket = TcpStream::connect(address)?;
        faces::prepare(&socket);
        self.poll.registry().register(
            &mut socket,
            token(face),
            Interest::READABLE | Interest::WRITABLE,
        )?;
        let stream = StreamConnection::new(Socket::Tcp(socket), self.bounds.largest_frame);
        self.links
            .insert(face, Link::new(Connection::Stream(stream)));
        Ok(())
    }
}
