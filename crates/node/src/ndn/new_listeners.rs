//! The listeners that a start or a reload binds, before the event loop serves them.

use super::address::with_ipv4_fallback;
use super::datagram::UdpListener;
use super::error::NdnError;
use super::listen::{tcp, unix};
use crate::config::{NdnConfig, UnixSetting};
use crate::inherited::{Inherited, Role};
use larder_client::default_socket_paths;
use mio::net::{TcpListener, UnixListener};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The keys of listeners.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ListenKeys {
    unix: Option<UnixSetting>,
    tcp: Option<SocketAddr>,
    udp: Option<SocketAddr>,
    websocket: Option<SocketAddr>,
}

impl ListenKeys {
    pub(super) fn of(config: &NdnConfig) -> ListenKeys {
        ListenKeys { unix: config.unix.clone(), tcp: config.tcp, udp: config.udp, websocket: config.websocket }
    }

    /// Returns true if other machines can reach a listener.
    pub(super) fn are_open(&self) -> bool {
        [self.tcp, self.udp, self.websocket].iter().flatten().any(|address| !address.ip().is_loopback())
    }

    /// Returns true if the Unix socket at `path` is that of the other keys, too.
    fn has_same_unix(&self, other: &ListenKeys, path: Option<&Path>) -> bool {
        self.unix == other.unix
            || match (&other.unix, path) {
                (Some(UnixSetting::Path(other)), Some(path)) => other == path,
                (Some(UnixSetting::Default), Some(path)) => default_socket_paths().iter().any(|known| known == path),
                _ => false,
            }
    }
}

/// The listeners that change: `None` for one that stays, `Some(None)` for one that closes.
#[derive(Default)]
pub(super) struct NewListeners {
    pub(super) unix: Option<Option<(UnixListener, PathBuf)>>,
    pub(super) tcp: Option<Option<TcpListener>>,
    pub(super) udp: Option<Option<UdpListener>>,
    pub(super) websocket: Option<Option<TcpListener>>,
}

/// New listeners, and what another process needs of them.
pub(super) struct Bound {
    pub(super) listeners: NewListeners,
    /// The roles of the listeners that change, each with the new socket, if there is one.
    pub(super) sockets: Vec<(Role, Option<OwnedFd>)>,
    /// The file of the Unix socket, if this process has bound it.
    pub(super) unix_file: Option<UnixFile>,
}

impl Bound {
    /// Binds the listeners of a configuration that those of `running` lack, unless they are
    /// inherited. `path` is that of the running Unix socket.
    ///
    /// # Errors
    /// One line that names the key, the address and the problem.
    pub(super) fn new(
        config: &NdnConfig,
        (running, path): (&ListenKeys, Option<&Path>),
        inherited: &mut Inherited,
    ) -> Result<Bound, NdnError> {
        let keys = ListenKeys::of(config);
        let (mut listeners, mut sockets, mut unix_file) = (NewListeners::default(), Vec::new(), None);
        if keys.tcp != running.tcp {
            let bind = |address| tcp("tcp", address, inherited.tcp(Role::NdnTcp, address));
            listeners.tcp = Some(keys.tcp.map(bind).transpose().map_err(of_overlap(running.tcp))?);
        }
        if keys.udp != running.udp {
            let bind = |address| {
                let bound = match inherited.udp(address) {
                    Some(socket) => UdpListener::on(socket),
                    None => with_ipv4_fallback(address, UdpListener::bind),
                };
                bound.map_err(|error| NdnError::Listen { key: "udp", address, error })
            };
            listeners.udp = Some(keys.udp.map(bind).transpose().map_err(of_overlap(running.udp))?);
        }
        if keys.websocket != running.websocket {
            let bind = |address| tcp("websocket", address, inherited.tcp(Role::NdnWebsocket, address));
            let bound = keys.websocket.map(bind).transpose();
            listeners.websocket = Some(bound.map_err(of_overlap(running.websocket))?);
        }
        // The Unix socket is last, because a failed one may leave its folder behind.
        if !running.has_same_unix(&keys, path) {
            let bound = keys.unix.map(|setting| unix(setting.path(), inherited)).transpose()?;
            let own = bound.as_ref().filter(|(_, path)| !inherited.has_taken(path));
            unix_file = own.map(|(_, path)| UnixFile(path.clone()));
            listeners.unix = Some(bound);
        }
        let NewListeners { unix, tcp, udp, websocket } = &mut listeners;
        let unix = unix.as_ref().map(|unix| (Role::NdnUnix, unix.as_ref().map(|(listener, _)| listener.as_fd())));
        let tcp = tcp.as_ref().map(|tcp| (Role::NdnTcp, tcp.as_ref().map(|listener| listener.as_fd())));
        let udp = udp.as_mut().map(|udp| (Role::NdnUdp, udp.as_mut().map(|udp| (*udp.socket()).as_fd())));
        let websocket =
            websocket.as_ref().map(|socket| (Role::NdnWebsocket, socket.as_ref().map(|listener| listener.as_fd())));
        for (role, descriptor) in [unix, tcp, udp, websocket].into_iter().flatten() {
            let socket = descriptor.map(|descriptor| descriptor.try_clone_to_owned());
            sockets.push((role, socket.transpose().map_err(NdnError::Events)?));
        }
        Ok(Bound { listeners, sockets, unix_file })
    }
}

/// Returns a function that adds to an error that the running listener has the port.
fn of_overlap(running: Option<SocketAddr>) -> impl FnOnce(NdnError) -> NdnError {
    move |error| match (error, running) {
        (NdnError::Listen { key, address, error }, Some(running))
            if error.kind() == io::ErrorKind::AddrInUse && address.port() == running.port() =>
        {
            NdnError::OwnListener { key, address, running }
        }
        (error, _) => error,
    }
}

/// The file of a Unix socket. It is removed when it is dropped.
pub(super) struct UnixFile(pub(super) PathBuf);

impl UnixFile {
    /// Leaves the file in place: another process listens on its socket.
    pub(super) fn leave(self) {
        std::mem::forget(self);
    }
}

impl Drop for UnixFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::debug!(path = %self.0.display(), %error, "the file of a socket stays");
        }
    }
}
