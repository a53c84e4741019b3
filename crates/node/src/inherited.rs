//! Listening sockets that another process passes to this one: systemd (socket activation), or the
//! process that this one replaces. Each is given to the listener of the configuration that has its
//! address.

use larder_host::{ListenAddress, ListenSocket};
use larder_proxy::ListenerKind;
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// The sockets that no listener has taken yet.
#[derive(Debug, Default)]
pub(crate) struct Inherited {
    sockets: Vec<InheritedSocket>,
    /// The files of taken sockets, each with true if this process has to remove it at its end.
    taken_files: Vec<(PathBuf, bool)>,
    /// The descriptors that are no sockets of listeners.
    rejected: Vec<(RawFd, io::Error)>,
}

/// A listener of the configuration. A listener on port 0 takes only a socket that had the same role
/// in the process before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Http,
    Https,
    Admin,
    NdnTcp,
    NdnUnix,
    NdnUdp,
    NdnWebsocket,
    /// For the other nodes of the fleet.
    Peers,
    /// A UDP socket of a listener for HTTPS.
    Http3,
}

/// Each role and its name in messages between processes, which may be of different versions.
const ROLES: [(Role, &str); 9] = [
    (Role::Http, "http"),
    (Role::Https, "https"),
    (Role::Admin, "admin"),
    (Role::NdnTcp, "ndn-tcp"),
    (Role::NdnUnix, "ndn-unix"),
    (Role::NdnUdp, "ndn-udp"),
    (Role::NdnWebsocket, "ndn-websocket"),
    (Role::Peers, "peers"),
    (Role::Http3, "http3"),
];

impl Role {
    /// Returns the role of an HTTP listener.
    pub(crate) fn of_http(kind: ListenerKind) -> Role {
        match kind {
            ListenerKind::Plain => Role::Http,
            ListenerKind::Tls => Role::Https,
            ListenerKind::Peers => Role::Peers,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        ROLES
            .iter()
            .find(|(role, _)| *role == self)
            .map_or("", |(_, name)| name)
    }

    pub(crate) fn parse(name: &str) -> Option<Role> {
        ROLES
            .iter()
            .find(|(_, known)| *known == name)
            .map(|(role, _)| *role)
    }
}

#[derive(Debug)]
struct InheritedSocket {
    socket: Socket,
    address: ListenAddress,
    /// True for UDP.
    is_datagram: bool,
    /// Its role in the process before; `None` if systemd passed it.
    role: Option<Role>,
    /// True if the process that stops listening removes its file.
    owns_file: bool,
}

impl Inherited {
    /// Returns the sockets that systemd passes to this process: `LISTEN_FDS` of `sd_listen_fds(3)`.
    ///
    /// # Errors
    /// The variables are malformed, or a descriptor is missing.
    #[allow(
        unsafe_code,
        reason = "a number from the environment becomes an owned descriptor"
    )]
    pub(crate) fn of_service_manager() -> io::Result<Inherited> {
        let mut inherited = Inherited::default();
        for descriptor in sd_notify::listen_fds()? {
            let number: RawFd = descriptor;
            // SAFETY: systemd opened these descriptors for this process alone, which its id in
            // LISTEN_PID confirms, and `listen_fds` has set a flag on each: it is open. Nothing
            // else uses them: this is called once, before anything else is opened.
            let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
            if let Err(error) = inherited.add(descriptor, None, false) {
                inherited.rejected.push((number, error));
            }
        }
        Ok(inherited)
    }

    /// Adds a socket.
    ///
    /// # Errors
    /// It is neither a listening stream socket nor a UDP socket.
    pub(crate) fn add(
        &mut self,
        descriptor: OwnedFd,
        role: Option<Role>,
        owns_file: bool,
    ) -> io::Result<()> {
        let socket = Socket::from(descriptor);
        let is_datagram = socket.r#type()? == Type::DGRAM;
        let local = socket.local_addr()?;
        let address = match (local.as_socket(), local.as_pathname()) {
            (Some(address), _) => ListenAddress::Tcp(address),
            (None, Some(path)) => ListenAddress::Unix(path.to_owned()),
            (None, None) => {
                return Err(io::Error::other(
                    "it has no address that a listener can have",
                ));
            }
        };
        let is_udp = is_datagram && local.domain() != Domain::UNIX;
        if !(is_udp || socket.r#type()? == Type::STREAM && socket.is_listener()?) {
            return Err(io::Error::other("it is no listening socket"));
        }
        socket.set_nonblocking(true)?;
        self.sockets.push(InheritedSocket {
            socket,
            address,
            is_datagram,
            role,
            owns_file,
        });
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sockets.is_empty()
    }

    /// Takes the socket of an HTTP listener.
    pub(crate) fn http(&mut self, role: Role, address: &ListenAddress) -> Option<ListenSocket> {
        let socket = self.take(role, address)?;
        Some(match address {
            ListenAddress::Tcp(_) => ListenSocket::Tcp(socket.into()),
            ListenAddress::Unix(_) => ListenSocket::Unix(socket.into()),
        })
    }

    /// Takes a TCP socket that listens.
    pub(crate) fn tcp(&mut self, role: Role, address: SocketAddr) -> Option<TcpListener> {
        self.take(role, &ListenAddress::Tcp(address))
            .map(TcpListener::from)
    }

    /// Takes the UDP sockets of one address, in the order in which they were passed.
    pub(crate) fn udp(&mut self, role: Role, address: SocketAddr) -> Vec<UdpSocket> {
        let mut group: Vec<UdpSocket> = Vec::new();
        let mut address = address;
        while let Some(socket) = self
            .take(role, &ListenAddress::Tcp(address))
            .map(UdpSocket::from)
        {
            // The others have the address that this one got for port 0.
            address = socket.local_addr().unwrap_or(address);
            group.push(socket);
        }
        group
    }

    /// Takes a Unix socket that listens.
    pub(crate) fn unix(&mut self, path: &Path) -> Option<UnixListener> {
        self.take(Role::NdnUnix, &ListenAddress::Unix(path.to_owned()))
            .map(UnixListener::from)
    }

    /// Returns true if there is a socket for this listener.
    pub(crate) fn has(&self, role: Role, address: &ListenAddress) -> bool {
        self.find(role, address).is_some()
    }

    fn find(&self, role: Role, address: &ListenAddress) -> Option<usize> {
        let is_datagram = matches!(role, Role::NdnUdp | Role::Http3);
        let found = |fits: &dyn Fn(&InheritedSocket) -> bool| {
            self.sockets
                .iter()
                .position(|socket| socket.is_datagram == is_datagram && fits(socket))
        };
        let same_role = |socket: &InheritedSocket| socket.role == Some(role);
        found(&|socket| socket.address == *address)
            .or_else(|| found(&|socket| same_role(socket) && is_bound_as(address, &socket.address)))
    }

    fn take(&mut self, role: Role, address: &ListenAddress) -> Option<Socket> {
        let at = self.find(role, address)?;
        let InheritedSocket {
            socket,
            address,
            owns_file,
            ..
        } = self.sockets.remove(at);
        if let ListenAddress::Unix(path) = address {
            self.taken_files.push((path, owns_file));
        }
        Some(socket)
    }

    /// Returns the files of taken sockets that this process has to remove at its end.
    pub(crate) fn own_files(&self) -> Vec<PathBuf> {
        self.taken_files
            .iter()
            .filter(|(_, owns)| *owns)
            .map(|(path, _)| path.clone())
            .collect()
    }

    /// Returns true if the socket with this file has been taken.
    pub(crate) fn has_taken(&self, path: &Path) -> bool {
        self.taken_files.iter().any(|(taken, _)| taken == path)
    }

    /// Closes the sockets that no listener has taken, and removes the files of those that the
    /// process before had bound. The log names those of systemd, that no listener uses.
    pub(crate) fn close_rest(&mut self) {
        for (number, error) in self.rejected.drain(..) {
            tracing::warn!(number, %error, "systemd passes a descriptor that is not used");
        }
        for InheritedSocket {
            address,
            role,
            owns_file,
            ..
        } in self.sockets.drain(..)
        {
            if role.is_none() {
                tracing::warn!(
                    %address,
                    "systemd passes a socket that no listener has: name its address in `listen`, or remove it from the .socket unit"
                );
            }
            if let (ListenAddress::Unix(path), true) = (address, owns_file) {
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

/// Returns true if a socket with this address can be the result of binding `configured`: port 0
/// takes a free port, and without IPv6 a wildcard is that of IPv4.
fn is_bound_as(configured: &ListenAddress, bound: &ListenAddress) -> bool {
    let (Some(configured), Some(bound)) = (configured.tcp(), bound.tcp()) else {
        return false;
    };
    let is_port = configured.port() == 0 || configured.port() == bound.port();
    let without_ipv6 =
        configured.ip().is_unspecified() && bound.ip() == IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    is_port && (configured.ip() == bound.ip() || without_ipv6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(address: &str) -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind(address).unwrap();
        let local = listener.local_addr().unwrap();
        (listener, local)
    }

    /// Failure: a listener gets the socket of another one, or none although there is one.
    #[test]
    fn a_socket_is_given_to_the_wrong_listener() {
        let (admin, admin_at) = listener("127.0.0.1:0");
        let (http, http_at) = listener("127.0.0.1:0");
        let udp = UdpSocket::bind(http_at).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("http.sock");
        let unix = UnixListener::bind(&path).unwrap();
        let mut inherited = Inherited::default();
        inherited
            .add(admin.into(), Some(Role::Admin), false)
            .unwrap();
        inherited
            .add(udp.into(), Some(Role::NdnUdp), false)
            .unwrap();
        inherited.add(http.into(), Some(Role::Http), false).unwrap();
        inherited.add(unix.into(), Some(Role::Http), true).unwrap();
        assert!(
            inherited
                .tcp(Role::NdnTcp, "127.0.0.1:0".parse().unwrap())
                .is_none()
        );
        let taken = inherited
            .tcp(Role::Http, "127.0.0.1:0".parse().unwrap())
            .expect("the same role");
        assert_eq!(taken.local_addr().unwrap(), http_at);
        let taken = inherited
            .tcp(Role::Https, admin_at)
            .expect("the same address");
        assert_eq!(taken.local_addr().unwrap(), admin_at);
        assert!(
            inherited
                .tcp(Role::Admin, "127.0.0.1:0".parse().unwrap())
                .is_none(),
            "it is taken"
        );
        let udp = inherited.udp(Role::NdnUdp, http_at);
        assert_eq!(
            udp.iter()
                .map(|socket| socket.local_addr().unwrap())
                .collect::<Vec<_>>(),
            [http_at]
        );
        assert!(inherited.own_files().is_empty());
        assert!(inherited.unix(&path).is_some() && inherited.has_taken(&path));
        assert_eq!(inherited.own_files(), [path]);
        assert!(inherited.is_empty());
    }

    /// Failure: a connection, or a file, is used as a listener.
    #[test]
    fn something_else_is_taken_for_a_listener() {
        let (listener, address) = listener("127.0.0.1:0");
        let connection = std::net::TcpStream::connect(address).unwrap();
        let mut inherited = Inherited::default();
        assert!(inherited.add(connection.into(), None, false).is_err());
        assert!(
            inherited
                .add(
                    std::fs::File::open("/dev/null").unwrap().into(),
                    None,
                    false
                )
                .is_err()
        );
        assert!(inherited.is_empty());
        drop(listener);
    }
}
