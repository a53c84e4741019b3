//! The listeners that a start or a reload binds, before the event loop serves them.

use crate::config::{NdnConfig, UnixSetting};
use crate::inherited::{Inherited, Role};
use crate::ndn::error::NdnError;
use crate::ndn::tokens::{TCP, UDP, UNIX, WEBSOCKET};
use crate::ndn::transport::listen::{tcp, unix};
use crate::ndn::transport::udp::datagram::UdpListener;
use crate::ndn::transport::udp::group;
use larder_client::default_socket_paths;
use mio::event::Source;
use mio::net::{TcpListener, UnixListener};
use mio::{Interest, Registry, Token};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The keys of listeners.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListenKeys {
    unix: Option<UnixSetting>,
    tcp: Option<SocketAddr>,
    udp: Option<SocketAddr>,
    websocket: Option<SocketAddr>,
}

impl ListenKeys {
    pub(crate) fn of(config: &NdnConfig) -> ListenKeys {
        ListenKeys {
            unix: config.unix.clone(),
            tcp: config.tcp,
            udp: config.udp,
            websocket: config.websocket,
        }
    }

    /// Returns true if other machines can reach a listener.
    pub(crate) fn are_open(&self) -> bool {
        [self.tcp, self.udp, self.websocket]
            .iter()
            .flatten()
            .any(|address| !address.ip().is_loopback())
    }

    /// Returns true if the Unix socket at `path` is that of the other keys, too.
    fn has_same_unix(&self, other: &ListenKeys, path: Option<&Path>) -> bool {
        self.unix == other.unix
            || match (&other.unix, path) {
                (Some(UnixSetting::Path(other)), Some(path)) => other == path,
                (Some(UnixSetting::Default), Some(path)) => {
                    default_socket_paths().iter().any(|known| known == path)
                }
                _ => false,
            }
    }
}

/// The listeners that change: `None` for one that stays, `Some(None)` for one that closes.
#[derive(Default)]
pub(crate) struct NewListeners {
    pub(crate) unix: Option<Option<(UnixListener, PathBuf)>>,
    pub(crate) tcp: Option<Option<TcpListener>>,
    /// One for each thread; empty if it closes.
    pub(crate) udp: Option<Vec<UdpListener>>,
    pub(crate) websocket: Option<Option<TcpListener>>,
}

/// The events of sockets that are read and written.
pub(crate) const BOTH: Interest = Interest::READABLE.add(Interest::WRITABLE);

impl NewListeners {
    /// Watches the new listeners of the first thread.
    ///
    /// # Errors
    /// The event queue refuses one of them.
    pub(crate) fn watch(&mut self, registry: &Registry) -> Result<(), NdnError> {
        let watch = |source: &mut dyn Source, token, interest| {
            registry
                .register(source, token, interest)
                .map_err(NdnError::Events)
        };
        let NewListeners {
            unix,
            tcp,
            udp,
            websocket,
        } = self;
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
            .try_for_each(|udp| watch(udp.socket(), UDP, BOTH))
    }

    /// Returns the listeners of streams that change.
    pub(crate) fn changed_streams(&self) -> impl Iterator<Item = Token> + use<> {
        let streams = [
            (UNIX, self.unix.is_some()),
            (TCP, self.tcp.is_some()),
            (WEBSOCKET, self.websocket.is_some()),
        ];
        let changed = streams.into_iter().filter(|(_, changes)| *changes);
        changed.map(|(token, _)| token)
    }

    /// Returns the roles of the listeners that change, each with a copy of the new socket, if there
    /// is one.
    fn sockets(&mut self) -> io::Result<Vec<(Role, Option<OwnedFd>)>> {
        let NewListeners {
            unix,
            tcp,
            udp,
            websocket,
        } = self;
        let mut sockets = Vec::new();
        if let Some(group) = udp {
            let descriptors = group
                .iter_mut()
                .map(|udp| (*udp.socket()).as_fd().try_clone_to_owned().map(Some));
            let descriptors = descriptors.collect::<io::Result<Vec<_>>>()?;
            let descriptors = if descriptors.is_empty() {
                vec![None]
            } else {
                descriptors
            };
            sockets.extend(descriptors.into_iter().map(|socket| (Role::NdnUdp, socket)));
        }
        let unix = unix.as_ref().map(|unix| {
            (
                Role::NdnUnix,
                unix.as_ref().map(|(listener, _)| listener.as_fd()),
            )
        });
        let tcp = tcp
            .as_ref()
            .map(|tcp| (Role::NdnTcp, tcp.as_ref().map(|listener| listener.as_fd())));
        let websocket = websocket.as_ref().map(|socket| {
            (
                Role::NdnWebsocket,
                socket.as_ref().map(|listener| listener.as_fd()),
            )
        });
        for (role, descriptor) in [unix, tcp, websocket].into_iter().flatten() {
            let socket = descriptor.map(|descriptor| descriptor.try_clone_to_owned());
            sockets.push((role, socket.transpose()?));
        }
        Ok(sockets)
    }
}

/// New listeners, and what another process needs of them.
pub(crate) struct Bound {
    pub(crate) listeners: NewListeners,
    /// The roles of the listeners that change, each with the new socket, if there is one.
    pub(crate) sockets: Vec<(Role, Option<OwnedFd>)>,
    /// The file of the Unix socket, if this process has bound it.
    pub(crate) unix_file: Option<UnixFile>,
}

/// The listeners that run.
#[derive(Default)]
pub(crate) struct RunningListeners<'a> {
    pub(crate) keys: ListenKeys,
    /// The path of the Unix socket.
    pub(crate) path: Option<&'a Path>,
    pub(crate) sockets: &'a [(Role, OwnedFd)],
}

impl RunningListeners<'_> {
    /// Returns the sockets that new ones replace: their addresses may overlap.
    fn closing(&self, role: Role) -> Vec<BorrowedFd<'_>> {
        self.sockets
            .iter()
            .filter(|(running, _)| *running == role)
            .map(|(_, socket)| socket.as_fd())
            .collect()
    }
}

impl Bound {
    /// Binds the listeners of a configuration that differ from those that run, unless they are
    /// inherited, for so many threads.
    ///
    /// # Errors
    /// One line that names the key, the address and the problem.
    pub(crate) fn new(
        config: &NdnConfig,
        threads: usize,
        running: &RunningListeners<'_>,
        inherited: &mut Inherited,
    ) -> Result<Bound, NdnError> {
        let keys = ListenKeys::of(config);
        let (mut listeners, mut unix_file) = (NewListeners::default(), None);
        if keys.tcp != running.keys.tcp {
            let closing = running.closing(Role::NdnTcp);
            let bind = |address| {
                tcp(
                    "tcp",
                    address,
                    inherited.tcp(Role::NdnTcp, address),
                    &closing,
                )
            };
            listeners.tcp = Some(keys.tcp.map(bind).transpose()?);
        }
        if keys.udp != running.keys.udp {
            let closing = running.closing(Role::NdnUdp);
            let bind = |address| {
                let inherited = inherited.udp(Role::NdnUdp, address);
                let bound = if inherited.is_empty() {
                    group::bind(address, threads, &closing)
                } else {
                    group::listen_on(inherited, threads)
                };
                bound.map_err(|error| NdnError::Listen {
                    key: "udp",
                    address,
                    error,
                })
            };
            listeners.udp = Some(keys.udp.map(bind).transpose()?.unwrap_or_default());
        }
        if keys.websocket != running.keys.websocket {
            let closing = running.closing(Role::NdnWebsocket);
            let bind = |address| {
                tcp(
                    "websocket",
                    address,
                    inherited.tcp(Role::NdnWebsocket, address),
                    &closing,
                )
            };
            listeners.websocket = Some(keys.websocket.map(bind).transpose()?);
        }
        // The Unix socket is last, because a failed one may leave its folder behind.
        if !running.keys.has_same_unix(&keys, running.path) {
            let bound = keys
                .unix
                .map(|setting| unix(setting.path(), inherited))
                .transpose()?;
            let own = bound
                .as_ref()
                .filter(|(_, path)| !inherited.has_taken(path));
            unix_file = own.map(|(_, path)| UnixFile(path.clone()));
            listeners.unix = Some(bound);
        }
        let sockets = listeners.sockets().map_err(NdnError::Events)?;
        Ok(Bound {
            listeners,
            sockets,
            unix_file,
        })
    }
}

/// The file of a Unix socket. It is removed when it is dropped.
pub(crate) struct UnixFile(pub(crate) PathBuf);

impl UnixFile {
    /// Leaves the file in place: another process listens on its socket.
    pub(crate) fn leave(self) {
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
