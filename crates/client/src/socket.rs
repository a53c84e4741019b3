//! One non-blocking socket, Unix (or shared memory), TCP or UDP, and the wait for it and for
//! signals.

use super::limits;
use super::spin::Spin;
use super::transport::{Endpoint, Transport};
use super::unix_socket::UnixSocket;
use larder_packet::SharedMemory;
use mio::net::{TcpStream, UdpSocket, UnixStream};
use mio::{Events, Interest, Poll, Token, Waker};
use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::{self, IoSliceMut, Read as _, Write as _};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const SOCKET: Token = Token(0);
const SIGNALS: Token = Token(1);
const WAKER: Token = Token(2);
const SHARED_MEMORY: Token = Token(3);

/// A connected socket. mio reports only changes, so both readiness flags are kept until a call
/// would block.
pub(super) struct Socket {
    stream: Stream,
    /// See [`Socket::is_local`] and [`Socket::mtu`]: of the last connection.
    is_local: bool,
    mtu: Option<usize>,
    poll: Poll,
    events: Events,
    pub(super) readable: bool,
    writable: bool,
    /// True if the other end sends no more, or the connection failed: the rest is read to its end.
    ending: bool,
    /// The end of a pipe to which signal handlers write.
    signals: Option<UnixStream>,
    interrupted: bool,
    woken: bool,
    /// Whether a wait polls shared memory first.
    pub(super) spin: Spin,
    /// Polls that found something since the last look at events.
    pub(super) spun: u32,
}

enum Stream {
    Unix(UnixSocket),
    Tcp(TcpStream),
    Udp(Box<Datagrams>),
    Closed,
}

/// A connected UDP socket, with many datagrams per read and write if the kernel supports it (GRO
/// and GSO, through quinn-udp).
struct Datagrams {
    socket: UdpSocket,
    state: UdpSocketState,
    peer: SocketAddr,
}

impl Socket {
    pub(super) fn connect(transport: &Transport) -> io::Result<Socket> {
        let poll = Poll::new()?;
        let stream = Stream::connect(transport, &poll)?;
        Ok(Socket {
            is_local: stream.is_local(),
            mtu: stream.mtu(),
            stream,
            poll,
            events: Events::with_capacity(4),
            readable: true,
            writable: true,
            ending: false,
            signals: None,
            interrupted: false,
            woken: false,
            spin: Spin::new(),
            spun: 0,
        })
    }

    /// Closes the connection. Signals and the waker go on ending a wait.
    pub(super) fn close(&mut self) {
        self.stream = Stream::Closed;
    }

    /// Replaces the connection by a new one.
    pub(super) fn connect_again(&mut self, transport: &Transport) -> io::Result<()> {
        self.stream = Stream::Closed;
        self.stream = Stream::connect(transport, &self.poll)?;
        (self.is_local, self.mtu) = (self.stream.is_local(), self.stream.mtu());
        (self.readable, self.writable, self.ending) = (true, true, false);
        Ok(())
    }

    /// Returns true if the other end is on this machine, over a transport from which management
    /// accepts commands under /localhost.
    pub(super) fn is_local(&self) -> bool {
        self.is_local
    }

    /// Returns the process that listens there, if the system tells it.
    pub(super) fn peer_process(&self) -> Option<u32> {
        match &self.stream {
            #[cfg(target_os = "linux")]
            Stream::Unix(unix) => {
                let peer = rustix::net::sockopt::socket_peercred(&unix.socket).ok()?;
                u32::try_from(peer.pid.as_raw_nonzero().get()).ok()
            }
            _ => None,
        }
    }

    /// Returns the largest datagram; `None` for streams.
    pub(super) fn mtu(&self) -> Option<usize> {
        self.mtu
    }

    pub(super) fn stop_on_signals(&mut self) -> io::Result<()> {
        let (mut reader, writer) = UnixStream::pair()?;
        self.poll
            .registry()
            .register(&mut reader, SIGNALS, Interest::READABLE)?;
        let writer = std::os::unix::net::UnixStream::from(writer);
        for signal in [SIGINT, SIGTERM] {
            // The second signal ends the process at once: after the first it waits for a read or
            // write that may never end (a FIFO without a reader).
            let asked = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
            signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, asked.clone())?;
            signal_hook::flag::register(signal, asked)?;
            signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
        }
        self.signals = Some(reader);
        Ok(())
    }

    pub(super) fn waker(&mut self) -> io::Result<Waker> {
        // A poll of shared memory does not notice the waker.
        self.spin.forbid();
        Waker::new(self.poll.registry(), WAKER)
    }

    /// Returns true if the waker was called since the last call.
    pub(super) fn take_woken(&mut self) -> bool {
        std::mem::take(&mut self.woken)
    }

    pub(super) fn interrupted(&self) -> bool {
        self.interrupted
    }

    /// Reads; `None` if there is nothing.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<Read>> {
        while self.readable && !buffer.is_empty() {
            let read = match &mut self.stream {
                Stream::Unix(unix) => unix
                    .read(buffer, self.poll.registry(), SHARED_MEMORY)
                    .and_then(Read::of_stream),
                Stream::Tcp(stream) => stream.read(buffer).and_then(Read::of_stream),
                Stream::Udp(udp) => udp.receive(buffer),
                Stream::Closed => Err(io::ErrorKind::WouldBlock.into()),
            };
            match read {
                Ok(read) => {
                    // A stream that returns less than there is room for has no more, and raises an
                    // event when it has (epoll(7)). This does not hold for its end, whose event has
                    // already come.
                    let may_have_more = match &self.stream {
                        Stream::Unix(unix) => unix.may_have_more(),
                        Stream::Tcp(_) | Stream::Closed => false,
                        Stream::Udp(_) => true,
                    };
                    self.readable = self.ending || may_have_more || read.bytes == buffer.len();
                    return Ok(Some(read));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.readable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Returns the number of datagrams of one size that [`Socket::write`] accepts; 1 for streams,
    /// where it is not used.
    pub(super) fn most_datagrams(&self) -> usize {
        match &self.stream {
            Stream::Udp(udp) => udp.state.max_gso_segments(),
            _ => 1,
        }
    }

    /// Writes; `None` if it would block. For UDP, `bytes` are datagrams of `datagram` bytes, of
    /// which the last may be shorter.
    pub(super) fn write(&mut self, bytes: &[u8], datagram: usize) -> io::Result<Option<usize>> {
        while self.writable {
            let written = match &mut self.stream {
                Stream::Unix(unix) => unix.write(bytes),
                Stream::Tcp(stream) => stream.write(bytes),
                Stream::Udp(udp) => udp.send(bytes, datagram),
                Stream::Closed => Err(io::ErrorKind::WouldBlock.into()),
            };
            match written {
                Ok(bytes) => return Ok(Some(bytes)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Handles a packet by which a node on a Unix socket agrees on shared memory.
    pub(super) fn on_shared_memory(&mut self, step: SharedMemory) {
        if let Stream::Unix(unix) = &mut self.stream {
            unix.on_shared_memory(step);
            // Nobody rings for bytes that came before.
            self.readable = true;
        }
    }

    /// Changes to shared memory for what is written next, if the node has offered some. Call it
    /// between two packets.
    pub(super) fn between_packets(&mut self) -> io::Result<()> {
        if let Stream::Unix(unix) = &mut self.stream {
            self.writable |= unix.between_packets()?;
        }
        Ok(())
    }

    /// Waits until the socket may be readable or writable, `timeout` passes, or a signal comes.
    pub(super) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let start = Instant::now();
        let mut timeout = timeout;
        // If something is readable already, this waits for room.
        if let Stream::Unix(unix) = &mut self.stream
            && let Some(shared) = unix.shared_input().filter(|_| !self.readable)
        {
            if self.spin.is_due() && self.spin.run(|| shared.poll()) {
                self.readable = true;
                self.spun += 1;
                if self.spun < limits::SPINS_AT_ONCE {
                    return Ok(());
                }
                timeout = Some(Duration::ZERO);
            } else if shared.wait() {
                self.readable = true;
                timeout = Some(Duration::ZERO);
            }
        }
        self.spun = 0;
        // epoll counts whole milliseconds; mio rounds up, so that a time-out is never early.
        match self.poll.poll(&mut self.events, timeout) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        self.spin.waited(start.elapsed());
        for event in &self.events {
            match event.token() {
                SIGNALS => self.interrupted = true,
                WAKER => self.woken = true,
                SHARED_MEMORY => {
                    (self.readable, self.writable) = (true, true);
                    if let Stream::Unix(unix) = &mut self.stream {
                        unix.on_event();
                    }
                }
                _ => {
                    let is_ending = event.is_read_closed() || event.is_error();
                    self.ending |= is_ending;
                    self.readable |= event.is_readable() || is_ending;
                    self.writable |=
                        event.is_writable() || event.is_write_closed() || event.is_error();
                    if let Stream::Unix(unix) = &mut self.stream
                        && is_ending
                    {
                        unix.set_ending(event.is_write_closed());
                    }
                }
            }
        }
        Ok(())
    }
}

/// The result of one read.
pub(super) struct Read {
    pub(super) bytes: usize,
    /// Bytes of each datagram except the last, which may be shorter; all bytes for a stream.
    pub(super) datagram: usize,
}

impl Read {
    fn of_stream(bytes: usize) -> io::Result<Read> {
        match bytes {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(Read {
                bytes,
                datagram: bytes,
            }),
        }
    }
}

impl Stream {
    fn connect(transport: &Transport, poll: &Poll) -> io::Result<Stream> {
        let mut stream = match &transport.endpoint {
            Endpoint::Unix(path) => {
                Stream::Unix(UnixSocket::connect(path, transport.uses_shared_memory())?)
            }
            Endpoint::Tcp(addresses) => first(addresses, connect_tcp)?,
            Endpoint::Udp(addresses) => first(addresses, connect_udp)?,
        };
        let both = Interest::READABLE | Interest::WRITABLE;
        match &mut stream {
            Stream::Unix(unix) => poll.registry().register(&mut unix.socket, SOCKET, both)?,
            Stream::Tcp(stream) => poll.registry().register(stream, SOCKET, both)?,
            Stream::Udp(udp) => poll.registry().register(&mut udp.socket, SOCKET, both)?,
            Stream::Closed => {}
        }
        Ok(stream)
    }

    fn is_local(&self) -> bool {
        match self {
            Stream::Unix(_) => true,
            Stream::Tcp(stream) => stream
                .peer_addr()
                .is_ok_and(|peer| peer.ip().to_canonical().is_loopback()),
            Stream::Udp(_) | Stream::Closed => false,
        }
    }

    fn mtu(&self) -> Option<usize> {
        let Stream::Udp(udp) = self else { return None };
        let loopback = udp.peer.ip().to_canonical().is_loopback();
        Some(if loopback {
            limits::LOOPBACK_MTU
        } else {
            limits::UDP_MTU
        })
    }
}

impl Datagrams {
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Read> {
        let mut meta = [RecvMeta::default()];
        self.state.recv(
            (&self.socket).into(),
            &mut [IoSliceMut::new(buffer)],
            &mut meta,
        )?;
        let [meta] = meta;
        Ok(Read {
            bytes: meta.len,
            datagram: meta.stride.max(1),
        })
    }

    fn send(&mut self, contents: &[u8], datagram: usize) -> io::Result<usize> {
        let segment_size = (datagram < contents.len()).then_some(datagram);
        let transmit = Transmit {
            destination: self.peer,
            ecn: None,
            contents,
            segment_size,
            src_ip: None,
        };
        self.state.try_send((&self.socket).into(), &transmit)?;
        Ok(contents.len())
    }
}

/// Connects to the first address that accepts.
fn first(
    addresses: &[SocketAddr],
    connect: impl Fn(SocketAddr) -> io::Result<Stream>,
) -> io::Result<Stream> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for &address in addresses {
        match connect(address) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn connect_tcp(address: SocketAddr) -> io::Result<Stream> {
    let stream = std::net::TcpStream::connect_timeout(&address, limits::CONNECT)?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(Stream::Tcp(TcpStream::from_std(stream)))
}

fn connect_udp(address: SocketAddr) -> io::Result<Stream> {
    let any: SocketAddr = if address.is_ipv4() {
        ([0, 0, 0, 0], 0).into()
    } else {
        ([0u16; 8], 0).into()
    };
    let socket = std::net::UdpSocket::bind(any)?;
    socket.connect(address)?;
    // The kernel may give less; a smaller buffer only loses more.
    let _ = socket2::SockRef::from(&socket).set_recv_buffer_size(limits::UDP_BUFFER_BYTES);
    socket.set_nonblocking(true)?;
    let state = UdpSocketState::new((&socket).into())?;
    Ok(Stream::Udp(Box::new(Datagrams {
        socket: UdpSocket::from_std(socket),
        state,
        peer: address,
    })))
}
