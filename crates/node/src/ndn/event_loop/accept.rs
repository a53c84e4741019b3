//! Accepts connections, and serves new listeners in the place of others.

use super::EventLoop;
use crate::ndn::error::NdnError;
use crate::ndn::shards::command::Command;
use crate::ndn::tokens::{TCP, UDP, token};
use crate::ndn::transport::new_listeners::{BOTH, NewListeners};
use crate::ndn::transport::stream::Socket;
use crate::ndn::transport::udp::datagram::UdpListener;
use larder_forwarder::{FaceConfig, Persistency};
use larder_units::Time;
use mio::Token;
use std::os::fd::AsRawFd;

impl EventLoop {
    /// Accepts the connections that wait at a listener.
    pub(super) fn accept(&mut self, now: Time, listener: Token) {
        loop {
            let (socket, from) = match self.listeners.accept(listener) {
                Ok(Some(accepted)) => accepted,
                Ok(None) => return,
                Err(error) => {
                    if self.may_warn() {
                        tracing::warn!(%error, "cannot accept connections");
                    }
                    return self.listeners.accept_later(listener);
                }
            };
            let face = match (socket, from) {
                (Socket::Unix(socket), _) => {
                    let path = self.listeners.unix_path();
                    let config = FaceConfig::local(format!("fd://{}", socket.socket.as_raw_fd()))
                        .with_local_uri(format!("unix://{path}"))
                        .with_persistency(Persistency::OnDemand);
                    let home = self.shard_channel.next_home();
                    self.add_stream(config, Socket::Unix(socket), home)
                }
                (Socket::Tcp(socket), Some(from)) if listener == TCP => {
                    let home = self.shard_channel.next_home();
                    self.add_tcp(socket, from, home, |config| {
                        config.with_persistency(Persistency::OnDemand)
                    })
                }
                (Socket::Tcp(socket), Some(from)) => self.add_websocket(now, socket, from),
                (Socket::Tcp(_), None) => None,
            };
            // Bytes that came with the connection may have raised no event of their own.
            if let Some(face) = face {
                self.ready.push(token(face));
            }
        }
    }

    /// Serves new listeners. Faces stay, except those of a UDP socket that is replaced or closed.
    ///
    /// # Errors
    /// The event queue refuses one of them. Nothing has changed then.
    pub(in crate::ndn) fn replace_listeners(
        &mut self,
        now: Time,
        mut new: NewListeners,
    ) -> Result<(), NdnError> {
        // The old ones are watched until all new ones are.
        new.watch(self.poll.registry())?;
        // Connections that wait in a socket that closes become faces, too.
        for listener in new.changed_streams() {
            self.accept(now, listener);
        }
        let udp = self.listeners.replace(self.poll.registry(), new);
        if let Some(group) = udp {
            self.replace_udp_group(now, group);
        }
        let channels = self.listeners.channels();
        self.forwarder.set_channels(channels);
        Ok(())
    }

    /// Gives each thread its socket of a new group; none without a group.
    fn replace_udp_group(&mut self, now: Time, group: Vec<UdpListener>) {
        let mut group = group.into_iter();
        let mut own = group.next();
        let address = own.as_mut().and_then(|udp| udp.socket().local_addr().ok());
        self.listeners.udp_address = address.unwrap_or(self.listeners.udp_address);
        self.set_udp(own);
        for shard in self.shard_channel.others() {
            self.shard_channel
                .port(shard)
                .send(Command::Udp(group.next().map(Box::new)));
        }
        for face in self.places.udp_faces.all() {
            self.close(face, Some("[ndn] udp has changed".to_owned()));
        }
        for upstream in &mut self.outgoing.upstreams {
            upstream.udp_changed(now);
        }
    }

    /// Serves the UDP socket that the first thread has bound for this one.
    pub(super) fn replace_udp(&mut self, mut udp: Option<UdpListener>) {
        if let Some(Err(error)) = udp
            .as_mut()
            .map(|udp| self.poll.registry().register(udp.socket(), UDP, BOTH))
        {
            tracing::error!(%error, "[ndn] udp: cannot watch a thread's socket; its peers are not heard");
        }
        self.set_udp(udp);
    }

    fn set_udp(&mut self, udp: Option<UdpListener>) {
        self.places
            .udp_places
            .share(udp.as_ref().map_or(1, UdpListener::threads));
        self.listeners.replace_udp(self.poll.registry(), udp);
    }
}
