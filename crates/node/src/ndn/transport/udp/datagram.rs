//! UDP: a socket of each thread for its peers, read and written in batches (`recvmmsg`, GRO, GSO
//! through quinn-udp). The sockets have one address ([`super::group`]), and the sender's
//! address decides which thread gets its datagrams ([`super::steering`]). If they listen on
//! loopback, one more socket, of the first thread, reaches peers on other machines.
//!
//! Each peer is a face. A peer that sends first gets an on-demand face, which is removed after
//! [`crate::limits::UDP_IDLE`]; a peer of a route has a permanent one. Packets larger than a frame
//! are fragmented (NDNLPv2). Frames have the "don't fragment" flag: a path with a smaller MTU loses
//! them. `udp_mtu` states the MTU. Without it, the kernel's value is read when a face is created
//! and again from time to time ([`super::path_mtu`]).

use crate::limits::{
    CODEL_INTERVAL, CODEL_TARGET, LOOPBACK_MTU, UDP_LEAST_MTU, UDP_MTU, UDP_RECEIVE_BYTES,
    UDP_SEND_BYTES,
};
use crate::ndn::address::{canonical, with_ipv4_fallback};
use crate::ndn::transport::codel::CoDel;
use crate::ndn::transport::frames::Frames;
use crate::ndn::transport::spare_buffers::SpareBuffers;
use crate::ndn::transport::udp::path_mtu::path_to;
use crate::ndn::transport::udp::steering::Steering;
use larder_client::gso;
use larder_units::Time;
use mio::net::UdpSocket;
use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSocketState};
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The sockets of one thread.
pub(crate) struct UdpListener {
    listening: Bound,
    /// The threads of all peers.
    steering: Steering,
    /// True if `listening` is bound to loopback, from where nothing leaves the machine.
    is_on_loopback: bool,
    /// The socket for peers on other machines, if `listening` is bound to loopback.
    outgoing: Option<Bound>,
    /// CoDel of the kernel's receive queue, in which datagrams wait for the node.
    codel: CoDel,
}

/// One of the sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    /// The socket with the configured address. A datagram may come from a new peer.
    Listening,
    /// The socket with a port that the kernel chose. Datagrams of unknown senders are ignored.
    Outgoing,
}

struct Bound {
    socket: UdpSocket,
    state: UdpSocketState,
    ipv6: bool,
}

impl Bound {
    fn new(socket: std::net::UdpSocket) -> io::Result<Self> {
        // The kernel may limit both. A smaller buffer only loses more in a burst.
        let buffers = socket2::SockRef::from(&socket);
        let _ = buffers.set_recv_buffer_size(UDP_RECEIVE_BYTES);
        let _ = buffers.set_send_buffer_size(UDP_SEND_BYTES);
        let state = UdpSocketState::new((&socket).into())?;
        let ipv6 = socket.local_addr()?.is_ipv6();
        Ok(Bound {
            socket: UdpSocket::from_std(socket),
            state,
            ipv6,
        })
    }

    /// Returns the address as the socket needs it: a dual-stack socket takes IPv4 addresses in
    /// mapped form.
    fn destination(&self, address: SocketAddr) -> SocketAddr {
        match address {
            SocketAddr::V4(v4) if self.ipv6 => {
                SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port())
            }
            other => other,
        }
    }
}

impl UdpListener {
    /// Returns a listener on a socket of a group with this choice.
    pub(crate) fn new(socket: std::net::UdpSocket, steering: Steering) -> io::Result<Self> {
        let is_on_loopback = canonical(socket.local_addr()?).ip().is_loopback();
        let listening = Bound::new(socket)?;
        Ok(UdpListener {
            listening,
            steering,
            is_on_loopback,
            outgoing: None,
            codel: CoDel::default(),
        })
    }

    /// Returns the socket that has the configured address.
    pub(crate) fn socket(&mut self) -> &mut UdpSocket {
        &mut self.listening.socket
    }

    /// Returns the number of the thread that has the face of this peer.
    pub(crate) fn home_of(&self, peer: SocketAddr) -> usize {
        if self.is_on_loopback && !peer.ip().is_loopback() {
            0
        } else {
            self.steering.socket_of(peer)
        }
    }

    /// Returns the number of threads with a socket of this address.
    pub(crate) fn threads(&self) -> usize {
        self.steering.sockets()
    }

    /// Makes the kernel choose sockets as [`UdpListener::home_of`] does, in the place of another
    /// process.
    pub(crate) fn steer(&self) -> io::Result<()> {
        match self.steering.sockets() {
            1 => Ok(()),
            _ => self.steering.attach(&self.listening.socket),
        }
    }

    /// Returns both sockets.
    pub(crate) fn sockets(&mut self) -> impl Iterator<Item = &mut UdpSocket> {
        std::iter::once(&mut self.listening)
            .chain(&mut self.outgoing)
            .map(|bound| &mut bound.socket)
    }

    /// Creates the second socket if packets to this address need it, and passes it to `register`.
    pub(crate) fn reach(
        &mut self,
        address: SocketAddr,
        register: impl FnOnce(&mut UdpSocket) -> io::Result<()>,
    ) -> io::Result<()> {
        if self.outgoing.is_some() || address.ip().is_loopback() || !self.is_on_loopback {
            return Ok(());
        }
        let any = (std::net::Ipv6Addr::UNSPECIFIED, 0).into();
        let mut outgoing = Bound::new(with_ipv4_fallback(any, |any| bind_udp(any, false))?)?;
        register(&mut outgoing.socket)?;
        self.outgoing = Some(outgoing);
        Ok(())
    }

    /// Returns the socket through which packets to this address leave.
    fn through(&self, address: SocketAddr) -> &Bound {
        self.outgoing
            .as_ref()
            .filter(|_| !address.ip().is_loopback())
            .unwrap_or(&self.listening)
    }

    /// Returns the address and port that packets to `peer` come from.
    ///
    /// # Errors
    /// The kernel has no route to the peer.
    pub(crate) fn end_towards(&self, peer: SocketAddr) -> io::Result<SocketAddr> {
        let bound = self.through(peer);
        let local = canonical(bound.socket.local_addr()?);
        let path = path_to(peer, None)?.local;
        let other_family = if local.ip().is_unspecified() {
            peer.is_ipv6() && !bound.ipv6
        } else {
            peer.is_ipv6() != local.is_ipv6()
        };
        match (other_family, local.ip().is_unspecified()) {
            (true, _) => Err(io::Error::other(format!(
                "[ndn] udp is {local}, which has no way to {peer}"
            ))),
            (false, true) => Ok(SocketAddr::new(path.ip(), local.port())),
            (false, false) => Ok(local),
        }
    }

    /// Receives into a batch.
    pub(crate) fn receive(
        &mut self,
        now: Time,
        via: Via,
        batch: &mut DatagramBatch,
    ) -> io::Result<Left> {
        let bound = match via {
            Via::Listening => &self.listening,
            Via::Outgoing => self.outgoing.as_ref().unwrap_or(&self.listening),
        };
        batch.origins.clear();
        let mut meta = [RecvMeta::default(); BATCH_SIZE];
        let mut buffers = batch.buffers.iter_mut();
        let mut slices: [_; BATCH_SIZE] = std::array::from_fn(|_| {
            IoSliceMut::new(buffers.next().map_or(&mut [], |buffer| buffer))
        });
        let received = match bound
            .state
            .recv((&bound.socket).into(), &mut slices, &mut meta)
        {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Left::Nothing),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(Left::Perhaps),
            Err(error) => return Err(error),
        };
        let wall_clock = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        for meta in &meta[..received] {
            // A clock that was set back in between gives no information: assume no wait.
            let wait = meta
                .timestamp
                .map_or(Duration::ZERO, |came| wall_clock.saturating_sub(came));
            let congested = self.codel.mark(now, wait >= CODEL_TARGET, CODEL_INTERVAL);
            let origin = Origin {
                from: canonical(meta.addr),
                to: meta.dst_ip,
                length: meta.stride.max(1),
                congested,
            };
            batch.origins.push((origin, meta.len));
        }
        Ok(if received == BATCH_SIZE {
            Left::Perhaps
        } else {
            Left::Nothing
        })
    }

    /// Sends the queue of the peer at `address`, from our address `local`, as far as the kernel has
    /// room. Frames that the kernel refuses for another reason are lost, as on any datagram link.
    /// Returns the number of lost frames.
    pub(crate) fn flush(
        &self,
        address: SocketAddr,
        local: Option<IpAddr>,
        frames: &mut Frames,
        spare: &mut SpareBuffers,
    ) -> usize {
        let mut lost = 0;
        let bound = self.through(address);
        let destination = bound.destination(address);
        let most = bound.state.max_gso_segments();
        let (mut from, mut first) = (0, 0);
        while first < frames.lengths.len() {
            let size = frames.lengths[first];
            let (count, bytes) = gso::run(frames.lengths[first..].iter().copied(), most);
            let (end, last) = (from + bytes, first + count);
            let contents = &frames.bytes[from..end];
            let segment_size = (count > 1).then_some(size);
            let transmit = Transmit {
                destination,
                ecn: None,
                contents,
                segment_size,
                src_ip: local,
            };
            match bound.state.try_send((&bound.socket).into(), &transmit) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => lost += count,
            }
            (from, first) = (end, last);
        }
        frames.sent(first, from, spare);
        lost
    }
}

/// Binds a UDP socket; an IPv6 one takes both families.
pub(crate) fn bind_udp(address: SocketAddr, shares_port: bool) -> io::Result<std::net::UdpSocket> {
    let socket = socket2::Socket::new(
        socket2::Domain::for_address(address),
        socket2::Type::DGRAM,
        None,
    )?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_port(shares_port)?;
    socket.bind(&address.into())?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// The datagrams of one system call.
#[derive(Default)]
pub(crate) struct DatagramBatch {
    /// One buffer per message. With GRO each may hold several datagrams, together 64 KiB.
    buffers: Vec<Vec<u8>>,
    /// The origin and the bytes of each message.
    origins: Vec<(Origin, usize)>,
}

impl DatagramBatch {
    pub(crate) fn new() -> Self {
        DatagramBatch {
            buffers: vec![vec![0; 1 << 16]; BATCH_SIZE],
            origins: Vec::new(),
        }
    }

    /// Returns the datagrams of one sender that arrived together, back to back, in order of
    /// arrival.
    pub(crate) fn messages(&mut self) -> impl Iterator<Item = (Origin, &mut [u8])> {
        let messages = self.origins.iter().zip(&mut self.buffers);
        messages.map(|((origin, length), buffer)| (*origin, &mut buffer[..*length]))
    }
}

/// Facts about datagrams that arrived together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    /// Their sender.
    pub(crate) from: SocketAddr,
    /// The local address that they were sent to.
    pub(crate) to: Option<IpAddr>,
    /// Bytes of each datagram. The last may be shorter.
    pub(crate) length: usize,
    /// True if one Data has to be marked, because datagrams wait too long for the node.
    pub(crate) congested: bool,
}

/// Whether the kernel has more after a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    Nothing,
    Perhaps,
}

/// Returns the largest frame for this peer: the configured size, else the kernel's MTU of the path,
/// else a size that most paths carry.
pub(crate) fn mtu_to(address: SocketAddr, configured: Option<usize>) -> usize {
    let usual = if address.ip().is_loopback() {
        LOOPBACK_MTU
    } else {
        UDP_MTU
    };
    configured.unwrap_or_else(|| {
        path_to(address, None).map_or(usual, |path| path.mtu.clamp(UDP_LEAST_MTU, usual))
    })
}
