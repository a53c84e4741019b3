//! Opens the listeners.

use super::{EventLoop, Listeners};
use crate::config::NdnConfig;
use crate::inherited::{Inherited, Role};
use crate::ndn::address::with_ipv4_fallback;
use crate::ndn::datagram::UdpListener;
use crate::ndn::error::NdnError;
use crate::ndn::listen::{face_uri, tcp, unix};
use crate::ndn::tokens::{TCP, UDP, UNIX, WEBSOCKET};
use mio::Interest;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

impl EventLoop {
    /// Binds the listeners of the configuration that are not inherited. Returns their addresses for
    /// messages, and the path of the Unix socket.
    pub(in crate::ndn) fn listen(
        &mut self,
        config: &NdnConfig,
        inherited: &mut Inherited,
    ) -> Result<(Vec<String>, Option<PathBuf>), NdnError> {
        let (mut listening, mut channels) = (Vec::new(), Vec::new());
        let registry = self.poll.registry();
        let register = |source: &mut dyn mio::event::Source, token| {
            registry.register(source, token, Interest::READABLE).map_err(NdnError::Events)
        };
        if let Some(address) = config.tcp {
            let mut listener = tcp("tcp", address, inherited.tcp(Role::NdnTcp, address))?;
            register(&mut listener, TCP)?;
            let address = listener.local_addr().unwrap_or(address);
            listening.push(format!("tcp://{address}"));
            channels.push(face_uri("tcp", address));
            self.listeners.tcp = Some(listener);
        }
        if let Some(address) = config.udp {
            let bound = match inherited.udp(address) {
                Some(socket) => UdpListener::on(socket),
                None => with_ipv4_fallback(address, UdpListener::bind),
            };
            let mut listener = bound.map_err(|error| NdnError::Listen { key: "udp", address, error })?;
            let both = Interest::READABLE | Interest::WRITABLE;
            registry.register(listener.socket(), UDP, both).map_err(NdnError::Events)?;
            let address = listener.socket().local_addr().unwrap_or(address);
            listening.push(format!("udp://{address}"));
            self.listeners.udp_address = address;
            channels.push(face_uri("udp", address));
            self.listeners.udp = Some(listener);
        }
        if let Some(address) = config.websocket {
            let mut listener = tcp("websocket", address, inherited.tcp(Role::NdnWebsocket, address))?;
            register(&mut listener, WEBSOCKET)?;
            let uri = format!("ws://{}", listener.local_addr().unwrap_or(address));
            listening.push(uri.clone());
            channels.push(uri);
            self.listeners.websocket = Some(listener);
        }
        listening.extend(self.join_groups(config)?);
        let devices = self.open_ethernet(config)?;
        listening.extend(devices.iter().cloned());
        channels.extend(devices);
        let registry = self.poll.registry();
        // The Unix socket is last, because it leaves a file behind if a later step fails.
        if let Some(setting) = &config.unix {
            let (mut listener, path) = unix(setting.path(), inherited)?;
            registry.register(&mut listener, UNIX, Interest::READABLE).map_err(NdnError::Events)?;
            let uri = format!("unix://{}", path.display());
            listening.insert(0, uri.clone());
            channels.insert(0, uri);
            self.listeners.unix = Some((listener, path));
        }
        self.forwarder.set_channels(channels);
        Ok((listening, self.listeners.unix.as_ref().map(|(_, path)| path.clone())))
    }

    /// Returns the sockets of the listeners for another process.
    pub(in crate::ndn) fn listening_sockets(&mut self) -> io::Result<Vec<(Role, OwnedFd)>> {
        let Listeners { unix, tcp, websocket, udp, .. } = &mut self.listeners;
        let unix = unix.iter().map(|(listener, _)| (Role::NdnUnix, listener.as_fd()));
        let tcp = tcp.iter().map(|listener| (Role::NdnTcp, listener.as_fd()));
        let websocket = websocket.iter().map(|listener| (Role::NdnWebsocket, listener.as_fd()));
        let udp = udp.iter_mut().map(|udp| (Role::NdnUdp, (*udp.socket()).as_fd()));
        let all = unix.chain(tcp).chain(websocket).chain(udp);
        all.map(|(role, descriptor)| Ok((role, descriptor.try_clone_to_owned()?))).collect()
    }

    /// Pauses the listeners: another process takes what arrives at them. Or goes on with them.
    pub(in crate::ndn) fn set_listening(&mut self, is_listening: bool) {
        let registry = self.poll.registry();
        let set = |source: &mut dyn mio::event::Source, token, interest| {
            let set = match is_listening {
                true => source.register(registry, token, interest),
                false => source.deregister(registry),
            };
            if let Err(error) = set {
                tracing::error!(%error, is_listening, "cannot pause or resume a listener");
            }
        };
        let Listeners { unix, tcp, websocket, udp, accept_again, .. } = &mut self.listeners;
        accept_again.clear();
        unix.iter_mut().for_each(|(listener, _)| set(listener, UNIX, Interest::READABLE));
        tcp.iter_mut().for_each(|listener| set(listener, TCP, Interest::READABLE));
        websocket.iter_mut().for_each(|listener| set(listener, WEBSOCKET, Interest::READABLE));
        udp.iter_mut().for_each(|udp| set(udp.socket(), UDP, Interest::READABLE | Interest::WRITABLE));
    }
}
