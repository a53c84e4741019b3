//! The listeners of a configuration, bound by this process or by the one that handed them over.

use crate::accept::request_threads;
use crate::accept::udp_sockets::{HeldBack, UdpSockets};
use crate::base::error::{Error, Problem};
use crate::config::http_config::HttpConfig;
use larder_host::{ListenAddress, ListenConfig, ListenError, ListenSocket, SocketFile};
use std::net::UdpSocket;

/// The listeners of [`Http`](crate::Http), in the order of the configuration: first those for HTTP, then
/// those for TLS, and the one for other nodes.
pub struct Listeners(pub(crate) Vec<Bound>);

impl Listeners {
    /// Binds all listeners.
    ///
    /// # Errors
    /// One line that names the setting, the address and the problem.
    pub fn bind(config: &HttpConfig) -> Result<Listeners, Error> {
        Listeners::bind_or_inherit(config, |_, _| InheritedListener::default())
    }

    /// Binds the listeners whose sockets `inherited` does not have.
    ///
    /// # Errors
    /// As [`Listeners::bind`].
    pub fn bind_or_inherit(
        config: &HttpConfig,
        mut inherited: impl FnMut(&ListenConfig, ListenerKind) -> InheritedListener,
    ) -> Result<Listeners, Error> {
        let mut all = Vec::new();
        for (listen, kind) in configured(config) {
            let InheritedListener { socket, udp } = inherited(listen, kind);
            let mut bound = Bound::new(listen, kind, socket)?;
            bound.set_udp(config, udp);
            all.push(bound);
        }
        Ok(Listeners(all))
    }

    /// Returns the listeners.
    pub fn iter(&self) -> impl Iterator<Item = &Bound> {
        self.0.iter()
    }
}

/// The sockets of a listener that another process has bound.
#[derive(Default)]
pub struct InheritedListener {
    /// The socket that listens.
    pub socket: Option<ListenSocket>,
    /// The UDP sockets for HTTP/3, in the order in which they were bound.
    pub udp: Vec<UdpSocket>,
}

/// A bound listener.
pub struct Bound {
    pub(crate) config: ListenConfig,
    socket: ListenSocket,
    kind: ListenerKind,
    /// The actual address.
    local: ListenAddress,
    /// The socket file, which is removed at the end.
    pub(crate) file: Option<SocketFile>,
    /// The UDP sockets for HTTP/3, if it is on and they could be bound.
    pub(crate) udp: Option<UdpSockets>,
    /// Present while the process before still reads them.
    pub(crate) held_back: Option<HeldBack>,
}

impl Bound {
    /// Binds the listener, unless `inherited` has its socket already: another process bound it,
    /// with the permissions that it has, and its file is not removed at the end.
    pub(crate) fn new(
        config: &ListenConfig,
        kind: ListenerKind,
        inherited: Option<ListenSocket>,
    ) -> Result<Bound, Error> {
        match inherited {
            Some(socket) => Bound::on(socket, config, kind, false),
            None => Bound::beside(&[], config, kind),
        }
    }

    /// Binds the listener. Its address may overlap those of sockets that are about to close.
    pub(crate) fn beside(
        closing: &[&ListenSocket],
        config: &ListenConfig,
        kind: ListenerKind,
    ) -> Result<Bound, Error> {
        let socket = ListenSocket::bind(config, closing);
        let socket =
            socket.map_err(|error| ListenError::new(kind.setting(), &config.address, error))?;
        Bound::on(socket, config, kind, true)
    }

    fn on(
        socket: ListenSocket,
        config: &ListenConfig,
        kind: ListenerKind,
        is_own: bool,
    ) -> Result<Bound, Error> {
        let setting = kind.setting();
        let local = socket
            .local()
            .map_err(|error| Error::setting(setting, Problem::Listener(error)))?;
        let file = if is_own { SocketFile::of(config) } else { None };
        Ok(Bound {
            config: config.clone(),
            socket,
            kind,
            local,
            file,
            udp: None,
            held_back: None,
        })
    }

    /// Returns true if this listener has HTTP/3 by the configuration: over TLS on TCP, without a
    /// header of the PROXY protocol, which UDP has not.
    pub(crate) fn wants_udp(&self, config: &HttpConfig) -> bool {
        let is_on = config.tls.as_ref().is_some_and(|tls| tls.http3);
        let is_direct = self.local.tcp().is_some() && !self.config.proxy_protocol;
        cfg!(feature = "http3") && is_on && self.kind == ListenerKind::Tls && is_direct
    }

    /// Binds the UDP sockets for HTTP/3, one for each thread, or takes over `inherited` ones; or
    /// closes them if it is off. A failure is a warning: clients use HTTP/2. Returns true if
    /// something has changed.
    pub(crate) fn set_udp(&mut self, config: &HttpConfig, inherited: Vec<UdpSocket>) -> bool {
        let address = self.local.tcp().filter(|_| self.wants_udp(config));
        let Some(address) = address else {
            return self.udp.take().is_some();
        };
        if self.udp.is_some() {
            return false;
        }
        let are_inherited = !inherited.is_empty();
        let opened = if are_inherited {
            UdpSockets::new(inherited)
        } else {
            UdpSockets::bind(address, request_threads::count(config.threads))
        };
        match opened {
            Ok(udp) => {
                self.held_back = are_inherited.then(|| udp.hold_back());
                self.udp = Some(udp);
                true
            }
            Err(error) => {
                tracing::warn!(
                    %address,
                    %error,
                    "[http.tls] listen: no HTTP/3, because its UDP address cannot be bound: free it and reload, or set \
                     http3 = false"
                );
                false
            }
        }
    }

    /// Returns the listener with another configuration of the same address, on the same socket.
    pub(crate) fn again(&self, config: &ListenConfig, kind: ListenerKind) -> Result<Bound, Error> {
        let socket = self.socket.try_clone();
        let socket =
            socket.map_err(|error| ListenError::new(kind.setting(), &config.address, error))?;
        let again = Bound::new(config, kind, Some(socket))?;
        Ok(Bound {
            udp: self.udp.clone(),
            ..again
        })
    }

    /// Returns this listener with or without HTTP/3, if that changes by the configuration.
    pub(crate) fn with_udp(&self, config: &HttpConfig) -> Result<Option<Bound>, Error> {
        let mut again = self.again(&self.config, self.kind)?;
        Ok(again.set_udp(config, Vec::new()).then_some(again))
    }

    /// Returns the actual address.
    pub fn local(&self) -> &ListenAddress {
        &self.local
    }

    /// Returns whom the listener is for.
    pub fn kind(&self) -> ListenerKind {
        self.kind
    }

    /// Returns its socket.
    pub fn socket(&self) -> &ListenSocket {
        &self.socket
    }
}

/// Whom a listener is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenerKind {
    /// Clients without TLS.
    Plain,
    /// Clients with TLS.
    Tls,
    /// The other nodes of the fleet, with TLS.
    Peers,
}

impl ListenerKind {
    /// Returns the setting of such listeners.
    pub(crate) fn setting(self) -> &'static str {
        match self {
            ListenerKind::Plain => "[http] listen",
            ListenerKind::Tls => "[http.tls] listen",
            ListenerKind::Peers => "[fleet.peers] listen",
        }
    }

    /// Returns whether it uses TLS.
    pub fn is_secure(self) -> bool {
        self != ListenerKind::Plain
    }
}

/// Returns the listeners of a configuration.
pub(crate) fn configured(
    config: &HttpConfig,
) -> impl Iterator<Item = (&ListenConfig, ListenerKind)> {
    let plain = config.listen.iter();
    let secure = config.tls.iter().flat_map(|tls| &tls.listen);
    let peers = config.peers.iter().map(|peers| &peers.listen);
    plain
        .map(|listen| (listen, ListenerKind::Plain))
        .chain(secure.map(|listen| (listen, ListenerKind::Tls)))
        .chain(peers.map(|listen| (listen, ListenerKind::Peers)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_host::SOCKET_MODE;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    fn config(path: &Path, mode: u32) -> ListenConfig {
        ListenConfig {
            mode,
            ..ListenAddress::Unix(path.to_owned()).into()
        }
    }

    /// Failure: a restart after a kill fails; a second process steals the socket of the first, or
    /// removes its file; a file that is no socket is removed.
    #[test]
    fn a_socket_file_is_lost_or_in_the_way() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("http.sock");
        let bound = Bound::new(&config(&path, 0o600), ListenerKind::Plain, None).unwrap();
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        let refused = Bound::new(&config(&path, SOCKET_MODE), ListenerKind::Plain, None)
            .err()
            .expect("a refusal")
            .to_string();
        assert!(refused.contains("is in use"), "{refused}");
        drop(bound.socket);
        // The file of a process that was killed.
        std::fs::hard_link(&path, folder.path().join("kept.sock")).unwrap();
        let again = Bound::new(&config(&path, SOCKET_MODE), ListenerKind::Plain, None).unwrap();
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            SOCKET_MODE
        );
        // The end of the first does not remove the file of the second.
        drop(bound.file);
        assert!(path.exists());
        drop(again);
        assert!(!path.exists());
        std::fs::write(&path, "text").unwrap();
        let refused = Bound::new(&config(&path, SOCKET_MODE), ListenerKind::Plain, None)
            .err()
            .expect("a refusal")
            .to_string();
        assert!(refused.contains("no socket") && path.exists(), "{refused}");
    }
}
