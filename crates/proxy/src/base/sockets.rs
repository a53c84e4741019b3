//! The sockets of listeners and clients: TCP, or Unix.

use crate::base::error::Error;
use crate::base::listen_address::{ListenAddress, ListenConfig, Peer};
use crate::base::proxy_protocol;
use crate::base::proxy_protocol::Decoded;
use bytes::{Buf, BytesMut};
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

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
    pub(crate) fn bind(
        config: &ListenConfig,
        closing: &[&ListenSocket],
    ) -> io::Result<ListenSocket> {
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

    pub(crate) fn accepting(self) -> io::Result<Accepting> {
        Ok(match self {
            ListenSocket::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                Accepting::Tcp(TcpListener::from_std(listener)?)
            }
            ListenSocket::Unix(listener) => {
                listener.set_nonblocking(true)?;
                Accepting::Unix(UnixListener::from_std(listener)?)
            }
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
pub(crate) fn bind(
    setting: &str,
    address: SocketAddr,
    closing: Option<&std::net::TcpListener>,
) -> Result<std::net::TcpListener, Error> {
    let closing: Vec<_> = closing.iter().map(|listener| listener.as_fd()).collect();
    bind_beside(&closing, |shares_port| bind_tcp(address, shares_port))
        .map_err(|error| Error::listen(setting, &ListenAddress::Tcp(address), error))
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

fn of_tcp((stream, address): (TcpStream, SocketAddr)) -> (ClientSocket, Peer) {
    let _ = stream.set_nodelay(true);
    (ClientSocket::new(Stream::Tcp(stream)), Peer::Tcp(address))
}

fn of_unix(stream: UnixStream) -> (ClientSocket, Peer) {
    (ClientSocket::new(Stream::Unix(stream)), Peer::Unix)
}

/// A listener on a thread's runtime.
pub(crate) enum Accepting {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Accepting {
    pub(crate) async fn accept(&self) -> io::Result<(ClientSocket, Peer)> {
        Ok(match self {
            Accepting::Tcp(listener) => of_tcp(listener.accept().await?),
            Accepting::Unix(listener) => of_unix(listener.accept().await?.0),
        })
    }

    /// Returns the connections that wait in the listener's queue, which the kernel resets when the
    /// listener closes.
    pub(crate) fn into_waiting(
        self,
    ) -> io::Result<Box<dyn Iterator<Item = (ClientSocket, Peer)> + Send>> {
        Ok(match self {
            Accepting::Tcp(listener) => {
                let listener = listener.into_std()?;
                let accept = move || -> io::Result<(ClientSocket, Peer)> {
                    let (stream, address) = listener.accept()?;
                    stream.set_nonblocking(true)?;
                    Ok(of_tcp((TcpStream::from_std(stream)?, address)))
                };
                Box::new(std::iter::from_fn(move || accept().ok()))
            }
            Accepting::Unix(listener) => {
                let listener = listener.into_std()?;
                let accept = move || -> io::Result<(ClientSocket, Peer)> {
                    let (stream, _) = listener.accept()?;
                    stream.set_nonblocking(true)?;
                    Ok(of_unix(UnixStream::from_std(stream)?))
                };
                Box::new(std::iter::from_fn(move || accept().ok()))
            }
        })
    }
}

/// The socket of a client's connection.
pub(crate) struct ClientSocket {
    stream: Stream,
    /// Bytes that were read to look at them, and are read again.
    early: BytesMut,
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

macro_rules! on_stream {
    ($socket:expr, $stream:ident => $call:expr) => {
        match &mut $socket.get_mut().stream {
            Stream::Tcp($stream) => $call,
            Stream::Unix($stream) => $call,
        }
    };
}

impl ClientSocket {
    fn new(stream: Stream) -> ClientSocket {
        ClientSocket {
            stream,
            early: BytesMut::new(),
        }
    }

    /// Reads what has come. Returns false at the end of the stream.
    async fn read_early(&mut self) -> io::Result<bool> {
        let mut space = [0; EARLY_BYTES];
        let read = poll_fn(|cx| {
            let mut buffer = ReadBuf::new(&mut space);
            let read = match &mut self.stream {
                Stream::Tcp(stream) => Pin::new(stream).poll_read(cx, &mut buffer),
                Stream::Unix(stream) => Pin::new(stream).poll_read(cx, &mut buffer),
            };
            read.map_ok(|()| {
                self.early.extend_from_slice(buffer.filled());
                !buffer.filled().is_empty()
            })
        });
        read.await
    }

    /// Reads the header of the PROXY protocol. Returns the client that it names, if there is one.
    ///
    /// # Errors
    /// The stream does not start with a whole header, or the system's.
    pub(crate) async fn read_proxy_header(&mut self) -> io::Result<Option<SocketAddr>> {
        loop {
            match proxy_protocol::decode(&self.early) {
                Decoded::Complete(header) => {
                    self.early.advance(header.length);
                    return Ok(header.client);
                }
                Decoded::Partial if self.read_early().await? => {}
                Decoded::Partial | Decoded::Invalid => {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        "no header of the PROXY protocol",
                    ));
                }
            }
        }
    }

    /// Returns true if the client begins with the preface of HTTP/2 (RFC 9113 §3.4), and so knows
    /// that the server supports it. Waits for the first bytes; they are read again.
    pub(crate) async fn begins_http2(&mut self) -> io::Result<bool> {
        const START: &[u8] = b"PRI * HTTP/2.0";
        loop {
            let common = self.early.len().min(START.len());
            if self.early[..common] != START[..common] {
                return Ok(false);
            }
            if common == START.len() || !self.read_early().await? {
                return Ok(common == START.len());
            }
        }
    }
}

/// Bytes of one early read: most requests fit. They are on the stack.
const EARLY_BYTES: usize = 2048;

impl AsyncRead for ClientSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.early.is_empty() {
            let count = self.early.len().min(buffer.remaining());
            buffer.put_slice(&self.early.split_to(count));
            return Poll::Ready(Ok(()));
        }
        on_stream!(self, stream => Pin::new(stream).poll_read(cx, buffer))
    }
}

impl AsyncWrite for ClientSocket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        on_stream!(self, stream => Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        on_stream!(self, stream => Pin::new(stream).poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(self, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }
}
