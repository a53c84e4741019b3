//! The sockets of listeners: TCP, or Unix.

use crate::error::ListenError;
use crate::listen_address::{ListenAddress, ListenConfig};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

/// Connections that wait for `accept`: the kernel drops further ones, and their clients try again
/// after a second. nginx has 511; a cache gets more at once.
const BACKLOG: i32 = 4096;

/// A bound socket that listens.
#[derive(Debug)]
pub enum ListenSocket {
    /// TCP.
    Tcp(std::net::TcpListener),
    /// A Unix socket.
    Unix(std::os::unix::net::UnixListener),
}

impl ListenSocket {
    /// Binds the address and listens. The socket file of a process that has ended is replaced. The
    /// address may overlap those of TCP sockets of this process that are about to close.
    ///
    /// # Errors
    /// The system's, or that the file of a Unix socket is something else.
    pub fn bind(config: &ListenConfig, closing: &[&ListenSocket]) -> io::Result<ListenSocket> {
        match &config.address {
            ListenAddress::Tcp(address) => {
                let closing = closing.iter().filter_map(|socket| match socket {
                    ListenSocket::Tcp(listener) => Some(listener.as_fd()),
                    ListenSocket::Unix(_) => None,
                });
                let closing: Vec<_> = closing.collect();
                bind_beside(&closing, |shares_port| bind_tcp(*address, shares_port))
                    .map(ListenSocket::Tcp)
            }
            ListenAddress::Unix(path) => bind_unix(path, config.mode).map(ListenSocket::Unix),
        }
    }

    /// Returns the actual address.
    ///
    /// # Errors
    /// The system's.
    pub fn local(&self) -> io::Result<ListenAddress> {
        Ok(match self {
            ListenSocket::Tcp(listener) => ListenAddress::Tcp(listener.local_addr()?),
            ListenSocket::Unix(listener) => ListenAddress::Unix(
                listener
                    .local_addr()?
                    .as_pathname()
                    .map(Path::to_owned)
                    .unwrap_or_default(),
            ),
        })
    }

    /// Returns another descriptor of the same socket.
    ///
    /// # Errors
    /// The system's.
    pub fn try_clone(&self) -> io::Result<ListenSocket> {
        Ok(match self {
            ListenSocket::Tcp(listener) => ListenSocket::Tcp(listener.try_clone()?),
            ListenSocket::Unix(listener) => ListenSocket::Unix(listener.try_clone()?),
        })
    }
}

/// Binds a socket, although the addresses of sockets of this process may overlap its own, such as
/// 0.0.0.0:80 and 127.0.0.1:80. They are about to close. Until then, the kernel passes what arrives
/// to the socket with the more exact address. `bind` gets true if it has to set `SO_REUSEPORT`.
///
/// # Errors
/// That of `bind`.
pub fn bind_beside<T: AsFd>(
    closing: &[BorrowedFd<'_>],
    bind: impl Fn(bool) -> io::Result<T>,
) -> io::Result<T> {
    match bind(false) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && !closing.is_empty() => {}
        bound => return bound,
    }
    // All sockets of a port need the option at this moment, and no longer: otherwise a program of
    // the same user could listen there too.
    let share = |shares| {
        closing
            .iter()
            .try_for_each(|socket| socket2::SockRef::from(socket).set_reuse_port(shares))
    };
    share(true)?;
    let bound = bind(true);
    share(false)?;
    let bound = bound?;
    socket2::SockRef::from(&bound).set_reuse_port(false)?;
    Ok(bound)
}

/// Listens on a TCP address. `setting` names it in the error. `closing` is a socket that may
/// overlap it.
///
/// # Errors
/// One line that names the setting, the address and the problem.
pub fn bind_listener(
    setting: &str,
    address: SocketAddr,
    closing: Option<&std::net::TcpListener>,
) -> Result<std::net::TcpListener, ListenError> {
    let closing: Vec<_> = closing.iter().map(|listener| listener.as_fd()).collect();
    bind_beside(&closing, |shares_port| bind_tcp(address, shares_port))
        .map_err(|error| ListenError::new(setting, &ListenAddress::Tcp(address), error))
}

fn bind_tcp(address: SocketAddr, shares_port: bool) -> io::Result<std::net::TcpListener> {
    let domain = socket2::Domain::for_address(address);
    let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None)?;
    // A restart does not have to wait until connections of the previous run time out.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shares_port)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// The file gets its permissions before anything listens: nobody connects by others.
fn bind_unix(path: &Path, mode: u32) -> io::Result<std::os::unix::net::UnixListener> {
    remove_stale(path)?;
    let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None)?;
    socket.bind(&socket2::SockAddr::unix(path)?)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Removes a socket file on which no process listens. Any other file stays.
fn remove_stale(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(io::Error::other(
                "the file is no socket; name another path, or remove it",
            ));
        }
        Ok(_) => {}
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
        }
        Err(error) => Err(error),
        Ok(_) => Err(io::ErrorKind::AddrInUse.into()),
    }
}
