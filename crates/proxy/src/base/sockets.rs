//! Listeners on a thread's runtime, and the sockets of clients: TCP, or Unix.

use crate::base::proxy_protocol;
use crate::base::proxy_protocol::Decoded;
use bytes::{Buf, BytesMut};
use larder_host::{ListenSocket, Peer};
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

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
    /// Registers a socket with the runtime of this thread.
    pub(crate) fn new(socket: ListenSocket) -> io::Result<Accepting> {
        Ok(match socket {
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
        // The space is in the closure, so that a silent connection does not hold it.
        let read = poll_fn(|cx| {
            let mut space = [0; EARLY_BYTES];
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
