//! Accepts connections, and serves new listeners in the place of others.

use super::{EventLoop, Listeners};
use crate::ndn::error::NdnError;
use crate::ndn::shards::command::Command;
use crate::ndn::tokens::{TCP, UDP, UNIX, WEBSOCKET, token};
use crate::ndn::transport::datagram::UdpListener;
use crate::ndn::transport::listen::face_uri;
use crate::ndn::transport::new_listeners::NewListeners;
use crate::ndn::transport::stream::Socket;
use crate::ndn::transport::unix_socket::UnixSocket;
use larder_forwarder::{FaceConfig, Persistency};
use larder_units::Time;
use mio::event::Source;
use mio::{Interest, Token};
use std::io;
use std::os::fd::AsRawFd;

const BOTH: Interest = Interest::READABLE.add(Interest::WRITABLE);

impl EventLoop {
    /// Accepts the connections that wait at a listener.
    pub(super) fn accept(&mut self, now: Time, listener: Token) {
        loop {
            let accepted = match listener {
                UNIX => self.listeners.unix.as_ref().map(|(unix, _)| {
                    unix.accept()
                        .map(|(socket, _)| (Socket::Unix(UnixSocket::new(socket)), None))
                }),
                TCP => self.listeners.tcp.as_ref().map(|tcp| {
                    tcp.accept()
                        .map(|(socket, from)| (Socket::Tcp(socket), Some(from)))
                }),
                _ => self.listeners.websocket.as_ref().map(|ws| {
                    ws.accept()
                        .map(|(socket, from)| (Socket::Tcp(socket), Some(from)))
                }),
            };
            let (socket, from) = match accepted {
                Some(Ok(accepted)) => accepted,
                Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => return,
                Some(Err(error)) => {
                    // The node is probably out of descriptors. The connection waits in the kernel,
                    // and is accepted after a second.
                    if self.may_warn() {
                        tracing::warn!(%error, "cannot accept connections");
                    }
                    if !self.listeners.accept_again.contains(&listener) {
                        self.listeners.accept_again.push(listener);
                    }
                    return;
                }
                None => return,
            };
            let face = match (socket, from) {
                (Socket::Unix(socket), _) => {
                    let path = self
                        .listeners
                        .unix
                        .as_ref()
                        .map_or(String::new(), |(_, path)| path.display().to_string());
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
        new: NewListeners,
    ) -> Result<(), NdnError> {
        let NewListeners {
            mut unix,
            mut tcp,
            mut udp,
            mut websocket,
        } = new;
        let registry = self.poll.registry();
        let watch = |source: &mut dyn Source, token, interest| {
            registry
                .register(source, token, interest)
                .map_err(NdnError::Events)
        };
        // The old ones are watched until all new ones are.
        unix.iter_mut()
            .flatten()
            .try_for_each(|(socket, _)| watch(socket, UNIX, Interest::READABLE))?;
        tcp.iter_mut()
            .flatten()
            .try_for_each(|socket| watch(socket, TCP, Interest::READABLE))?;
        websocket
            .iter_mut()
            .flatten()
            .try_for_each(|socket| watch(socket, WEBSOCKET, Interest::READABLE))?;
        udp.iter_mut()
            .flatten()
            .take(1)
            .try_for_each(|udp| watch(udp.socket(), UDP, BOTH))?;
        // Connections that wait in a socket that closes become faces, too.
        let waiting = [
            (UNIX, unix.is_some()),
            (TCP, tcp.is_some()),
            (WEBSOCKET, websocket.is_some()),
        ];
        waiting
            .iter()
            .filter(|(_, changes)| *changes)
            .for_each(|(token, _)| self.accept(now, *token));
        let Listeners {
            unix: old_unix,
            tcp: old_tcp,
            websocket: old_websocket,
            ..
        } = &mut self.listeners;
        let registry = self.poll.registry();
        // Another process may have the same socket, so closing it does not end its watch.
        let unwatch = |source: &mut dyn Source| drop(registry.deregister(source));
        if let Some(unix) = unix {
            std::mem::replace(old_unix, unix)
                .iter_mut()
                .for_each(|(socket, _)| unwatch(socket));
        }
        if let Some(tcp) = tcp {
            std::mem::replace(old_tcp, tcp)
                .iter_mut()
                .for_each(|socket| unwatch(socket));
        }
        if let Some(websocket) = websocket {
            std::mem::replace(old_websocket, websocket)
                .iter_mut()
                .for_each(|socket| unwatch(socket));
        }
        if let Some(group) = udp {
            self.replace_udp_group(now, group);
        }
        let channels = self.channels();
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
        self.outgoing
            .upstreams
            .iter_mut()
            .for_each(|upstream| upstream.udp_changed(now));
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
        let before = std::mem::replace(&mut self.listeners.udp, udp);
        let registry = self.poll.registry();
        // Another process may have the same socket, so closing it does not end its watch.
        before.into_iter().for_each(|mut udp| {
            udp.sockets()
                .for_each(|socket| drop(registry.deregister(socket)))
        });
    }

    /// Returns the addresses of the listeners for messages.
    pub(in crate::ndn) fn listening(&mut self) -> Vec<String> {
        let Listeners {
            unix,
            tcp,
            websocket,
            udp,
            groups,
            ethernet,
            ..
        } = &mut self.listeners;
        let mut listening: Vec<String> = unix
            .iter()
            .map(|(_, path)| format!("unix://{}", path.display()))
            .collect();
        listening.extend(
            tcp.iter()
                .filter_map(|tcp| Some(format!("tcp://{}", tcp.local_addr().ok()?))),
        );
        listening.extend(
            udp.iter_mut()
                .filter_map(|udp| Some(format!("udp://{}", udp.socket().local_addr().ok()?))),
        );
        listening.extend(
            websocket
                .iter()
                .filter_map(|socket| Some(format!("ws://{}", socket.local_addr().ok()?))),
        );
        listening.extend(groups.iter().cloned());
        listening.extend(
            ethernet
                .iter()
                .map(|port| format!("dev://{}", port.interface)),
        );
        listening
    }

    /// Returns the FaceUris at which this node listens.
    fn channels(&mut self) -> Vec<String> {
        let Listeners {
            unix,
            tcp,
            websocket,
            udp,
            ethernet,
            ..
        } = &mut self.listeners;
        let mut channels: Vec<String> = unix
            .iter()
            .map(|(_, path)| format!("unix://{}", path.display()))
            .collect();
        channels.extend(
            tcp.iter()
                .filter_map(|tcp| Some(face_uri("tcp", tcp.local_addr().ok()?))),
        );
        channels.extend(
            udp.iter_mut()
                .filter_map(|udp| Some(face_uri("udp", udp.socket().local_addr().ok()?))),
        );
        channels.extend(
            websocket
                .iter()
                .filter_map(|socket| Some(format!("ws://{}", socket.local_addr().ok()?))),
        );
        channels.extend(
            ethernet
                .iter()
                .map(|port| format!("dev://{}", port.interface)),
        );
        channels
    }

    /// Pauses the listeners: another process takes what arrives at them. Or goes on with them.
    pub(in crate::ndn) fn set_listening(&mut self, is_listening: bool) {
        let registry = self.poll.registry();
        let set = |source: &mut dyn Source, token, interest| {
            let set = match is_listening {
                true => source.register(registry, token, interest),
                false => source.deregister(registry),
            };
            if let Err(error) = set {
                tracing::error!(%error, is_listening, "cannot pause or resume a listener");
            }
        };
        let Listeners {
            unix,
            tcp,
            websocket,
            udp,
            accept_again,
            ..
        } = &mut self.listeners;
        accept_again.clear();
        unix.iter_mut()
            .for_each(|(listener, _)| set(listener, UNIX, Interest::READABLE));
        tcp.iter_mut()
            .for_each(|listener| set(listener, TCP, Interest::READABLE));
        websocket
            .iter_mut()
            .for_each(|listener| set(listener, WEBSOCKET, Interest::READABLE));
        udp.iter_mut().for_each(|udp| set(udp.socket(), UDP, BOTH));
        if let Some(Err(error)) = udp
            .as_ref()
            .filter(|_| is_listening)
            .map(UdpListener::steer)
        {
            tracing::warn!(%error, "UDP peers are not spread over the threads as before");
        }
    }
}
