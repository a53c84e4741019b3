//! The listeners of a thread, while they run.

use crate::config::WebOrigins;
use crate::ndn::tokens::{TCP, UDP, UNIX, WEBSOCKET};
use crate::ndn::transport::ethernet::{EthernetPeer, GROUP, Port};
use crate::ndn::transport::listen::face_uri;
use crate::ndn::transport::new_listeners::{BOTH, NewListeners};
use crate::ndn::transport::stream::Socket;
use crate::ndn::transport::udp::datagram::UdpListener;
use crate::ndn::transport::unix_socket::UnixSocket;
use mio::event::Source;
use mio::net::{TcpListener, UnixListener};
use mio::{Interest, Registry, Token};
use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

/// The listeners of a thread.
pub(crate) struct Listeners {
    unix: Option<(UnixListener, PathBuf)>,
    tcp: Option<TcpListener>,
    websocket: Option<TcpListener>,
    pub(crate) udp: Option<UdpListener>,
    /// Where the UDP sockets are bound.
    pub(crate) udp_address: SocketAddr,
    /// The names of the multicast faces, for messages.
    pub(crate) groups: Vec<String>,
    /// Interfaces with NDN on Ethernet.
    pub(crate) ethernet: Vec<Port>,
    /// The web pages that may connect.
    pub(crate) origins: Arc<WebOrigins>,
    /// Listeners that ran out of descriptors.
    accept_again: Vec<Token>,
}

impl Listeners {
    /// Creates the state of a thread that listens to nothing yet.
    pub(crate) fn new(origins: WebOrigins) -> Self {
        Listeners {
            unix: None,
            tcp: None,
            websocket: None,
            udp: None,
            udp_address: (Ipv6Addr::UNSPECIFIED, 0).into(),
            groups: Vec::new(),
            ethernet: Vec::new(),
            origins: Arc::new(origins),
            accept_again: Vec::new(),
        }
    }

    /// Accepts a connection that waits at a listener, with the address of the other machine. `None`
    /// if none waits.
    ///
    /// # Errors
    /// The node is probably out of descriptors. The connection waits in the kernel.
    pub(crate) fn accept(
        &self,
        listener: Token,
    ) -> io::Result<Option<(Socket, Option<SocketAddr>)>> {
        let stream = |listener: &Option<TcpListener>| {
            let accepted = listener.as_ref().map(TcpListener::accept);
            accepted
                .map(|accepted| accepted.map(|(socket, from)| (Socket::Tcp(socket), Some(from))))
        };
        let accepted = match listener {
            UNIX => self.unix.as_ref().map(|(unix, _)| {
                unix.accept()
                    .map(|(socket, _)| (Socket::Unix(UnixSocket::new(socket)), None))
            }),
            TCP => stream(&self.tcp),
            _ => stream(&self.websocket),
        };
        match accepted.transpose() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            accepted => accepted,
        }
    }

    /// Accepts connections at a listener again after a while.
    pub(crate) fn accept_later(&mut self, listener: Token) {
        if !self.accept_again.contains(&listener) {
            self.accept_again.push(listener);
        }
    }

    /// Returns the listeners at which connections may wait.
    pub(crate) fn take_accept_again(&mut self) -> Vec<Token> {
        std::mem::take(&mut self.accept_again)
    }

    /// Returns the path of the Unix socket.
    pub(crate) fn unix_path(&self) -> String {
        let unix = self.unix.as_ref();
        unix.map_or(String::new(), |(_, path)| path.display().to_string())
    }

    /// Replaces the listeners of streams that change. Returns the UDP sockets of all threads, if
    /// they change.
    pub(crate) fn replace(
        &mut self,
        registry: &Registry,
        new: NewListeners,
    ) -> Option<Vec<UdpListener>> {
        let NewListeners {
            unix,
            tcp,
            udp,
            websocket,
        } = new;
        // Another process may have the same socket, so closing it does not end its watch.
        let unwatch = |source: &mut dyn Source| drop(registry.deregister(source));
        if let Some(unix) = unix
            && let Some((socket, _)) = &mut std::mem::replace(&mut self.unix, unix)
        {
            unwatch(socket);
        }
        if let Some(tcp) = tcp
            && let Some(socket) = &mut std::mem::replace(&mut self.tcp, tcp)
        {
            unwatch(socket);
        }
        if let Some(websocket) = websocket
            && let Some(socket) = &mut std::mem::replace(&mut self.websocket, websocket)
        {
            unwatch(socket);
        }
        udp
    }

    /// Replaces the UDP socket of this thread.
    pub(crate) fn replace_udp(&mut self, registry: &Registry, udp: Option<UdpListener>) {
        let before = std::mem::replace(&mut self.udp, udp);
        // Another process may have the same socket, so closing it does not end its watch.
        if let Some(mut udp) = before {
            for socket in udp.sockets() {
                drop(registry.deregister(socket));
            }
        }
    }

    /// Returns the addresses of the listeners for messages.
    pub(crate) fn listening(&mut self) -> Vec<String> {
        let mut listening = self.sockets(|scheme, address| format!("{scheme}://{address}"));
        listening.extend(self.groups.iter().cloned());
        listening.extend(self.interfaces());
        listening
    }

    /// Returns the FaceUris at which this node listens.
    pub(crate) fn channels(&mut self) -> Vec<String> {
        let mut channels = self.sockets(face_uri);
        channels.extend(self.interfaces());
        channels
    }

    /// Returns the addresses of the sockets. `uri` is the form of those of TCP and UDP.
    fn sockets(&mut self, uri: impl Fn(&str, SocketAddr) -> String) -> Vec<String> {
        let unix = self.unix.iter();
        let mut sockets: Vec<String> = unix
            .map(|(_, path)| format!("unix://{}", path.display()))
            .collect();
        let tcp = self.tcp.iter();
        sockets.extend(tcp.filter_map(|tcp| Some(uri("tcp", tcp.local_addr().ok()?))));
        let udp = self.udp.iter_mut();
        sockets.extend(udp.filter_map(|udp| Some(uri("udp", udp.socket().local_addr().ok()?))));
        let websocket = self.websocket.iter();
        sockets.extend(
            websocket.filter_map(|socket| Some(format!("ws://{}", socket.local_addr().ok()?))),
        );
        sockets
    }

    fn interfaces(&self) -> impl Iterator<Item = String> {
        let ports = self.ethernet.iter();
        ports.map(|port| format!("dev://{}", port.interface))
    }

    /// Pauses the listeners: another process takes what arrives at them. Or goes on with them.
    pub(crate) fn set_listening(&mut self, registry: &Registry, is_listening: bool) {
        let set = |source: &mut dyn Source, token, interest| {
            let set = if is_listening {
                source.register(registry, token, interest)
            } else {
                source.deregister(registry)
            };
            if let Err(error) = set {
                tracing::error!(%error, is_listening, "cannot pause or resume a listener");
            }
        };
        self.accept_again.clear();
        if let Some((listener, _)) = &mut self.unix {
            set(listener, UNIX, Interest::READABLE);
        }
        if let Some(listener) = &mut self.tcp {
            set(listener, TCP, Interest::READABLE);
        }
        if let Some(listener) = &mut self.websocket {
            set(listener, WEBSOCKET, Interest::READABLE);
        }
        let udp = &mut self.udp;
        for udp in udp.iter_mut() {
            set(udp.socket(), UDP, BOTH);
        }
        if let Some(Err(error)) = udp
            .as_ref()
            .filter(|_| is_listening)
            .map(UdpListener::steer)
        {
            tracing::warn!(%error, "UDP peers are not spread over the threads as before");
        }
    }

    /// Returns the Ethernet port of a local FaceUri.
    pub(crate) fn port_named(&self, device: &str) -> Option<usize> {
        let name = device.strip_prefix("dev://")?;
        let mut ports = self.ethernet.iter();
        ports.position(|port| port.interface == name)
    }

    /// Forgets the face of an Ethernet peer or group that is gone.
    pub(crate) fn forget_ethernet(&mut self, peer: &EthernetPeer) {
        let port = &mut self.ethernet[peer.port];
        if peer.address == GROUP {
            port.group = None;
        } else {
            port.peers.remove(&peer.address);
        }
    }
}
