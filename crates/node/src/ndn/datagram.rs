//! UDP: one socket for all peers, read and written in batches (`recvmmsg`, GRO, GSO through quinn-udp).
//!
//! A peer is a face: one that sends first gets its own (on-demand, forgotten after [`crate::limits::UDP_IDLE`]), one that a route names has
//! it for ever. Packets larger than a frame are fragmented (NDNLPv2). Frames carry "don't fragment": on a path with a smaller MTU than the
//! frame's size they are lost, so `udp_mtu` must fit the path.

use super::connection::Refused;
use crate::limits::{LOOPBACK_MTU, UDP_MTU, UDP_SOCKET_BYTES};
use larder_forwarder::{FaceId, Send};
use larder_packet::Fragmenter;
use larder_units::Time;
use mio::net::UdpSocket;
use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSocketState};
use std::collections::HashMap;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};

/// The socket, and the faces behind it.
pub(super) struct UdpListener {
    pub(super) socket: UdpSocket,
    state: UdpSocketState,
    pub(super) peers: HashMap<SocketAddr, FaceId>,
    /// One buffer for every datagram of a batch; with GRO each may hold many, 64 KiB together.
    buffers: Vec<Vec<u8>>,
    ipv6: bool,
}

impl UdpListener {
    pub(super) fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = socket2::Socket::new(socket2::Domain::for_address(address), socket2::Type::DGRAM, None)?;
        if address.is_ipv6() {
            // One socket takes both families.
            socket.set_only_v6(false)?;
        }
        // The kernel may cap both; a smaller buffer only loses more in a burst.
        let _ = socket.set_recv_buffer_size(UDP_SOCKET_BYTES);
        let _ = socket.set_send_buffer_size(UDP_SOCKET_BYTES);
        socket.bind(&address.into())?;
        socket.set_nonblocking(true)?;
        let state = UdpSocketState::new((&socket).into())?;
        let buffers = vec![vec![0; 1 << 16]; BATCH_SIZE];
        Ok(UdpListener {
            socket: UdpSocket::from_std(socket.into()),
            state,
            peers: HashMap::new(),
            buffers,
            ipv6: address.is_ipv6(),
        })
    }

    /// Receives one batch and calls `each` with every datagram, its sender and our address that it was sent to; false where nothing is left.
    pub(super) fn receive(&mut self, mut each: impl FnMut(SocketAddr, Option<IpAddr>, &mut [u8])) -> io::Result<bool> {
        let mut meta = [RecvMeta::default(); BATCH_SIZE];
        let mut slices: Vec<IoSliceMut<'_>> = self.buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
        let received = match self.state.recv((&self.socket).into(), &mut slices, &mut meta) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            Err(error) => return Err(error),
        };
        for (meta, buffer) in meta.iter().zip(&mut self.buffers).take(received) {
            let from = canonical(meta.addr);
            for datagram in buffer[..meta.len].chunks_mut(meta.stride.max(1)) {
                each(from, meta.dst_ip, datagram);
            }
        }
        Ok(true)
    }

    /// Sends what a peer has queued. What the kernel does not take is lost, as on any datagram link; the count of lost frames is returned.
    pub(super) fn flush(&self, peer: &mut Peer) -> usize {
        let mut lost = 0;
        let destination = self.destination(peer.address);
        let most = self.state.max_gso_segments();
        let (mut from, mut first) = (0, 0);
        while first < peer.lengths.len() {
            // Frames of one size in a row, and a shorter last one, go in one call.
            let size = peer.lengths[first];
            let (mut end, mut last) = (from + size, first + 1);
            while last < peer.lengths.len()
                && last - first < most
                && peer.lengths[last] <= size
                && peer.lengths[last - 1] == size
                && end + peer.lengths[last] - from <= MOST_GSO_BYTES
            {
                end += peer.lengths[last];
                last += 1;
            }
            let contents = &peer.out[from..end];
            let segment_size = (last - first > 1).then_some(size);
            let transmit = Transmit { destination, ecn: None, contents, segment_size, src_ip: peer.local };
            if self.state.try_send((&self.socket).into(), &transmit).is_err() {
                lost += last - first;
            }
            (from, first) = (end, last);
        }
        peer.out.clear();
        peer.lengths.clear();
        lost
    }

    /// A dual-stack socket takes IPv4 addresses in their mapped form.
    fn destination(&self, address: SocketAddr) -> SocketAddr {
        match address {
            SocketAddr::V4(v4) if self.ipv6 => SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()),
            other => other,
        }
    }
}

/// The largest payload of one GSO call: a UDP datagram's.
const MOST_GSO_BYTES: usize = 65_507;

/// An IPv4 peer of a dual-stack socket as what it is.
pub(super) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// One peer's frames to be sent.
pub(super) struct Peer {
    pub(super) address: SocketAddr,
    /// Made by a route: never idle.
    pub(super) permanent: bool,
    pub(super) last_heard: Time,
    /// Which of our addresses it sends to: answers come from there.
    pub(super) local: Option<IpAddr>,
    pub(super) mtu: usize,
    fragmenter: Fragmenter,
    out: Vec<u8>,
    lengths: Vec<usize>,
}

impl Peer {
    /// `first_sequence` numbers the first fragment; NDNLPv2 asks for a random one.
    pub(super) fn new(address: SocketAddr, permanent: bool, now: Time, mtu: usize, first_sequence: u64) -> Self {
        Peer {
            address,
            permanent,
            last_heard: now,
            local: None,
            mtu,
            fragmenter: Fragmenter::new(first_sequence),
            out: Vec::new(),
            lengths: Vec::new(),
        }
    }

    pub(super) fn queued(&self) -> usize {
        self.out.len()
    }

    pub(super) fn queue(&mut self, send: &Send, input: &[u8]) -> Result<(), Refused> {
        let Peer { out, lengths, mtu, fragmenter, .. } = self;
        let frame = |frame: &[u8]| {
            out.extend_from_slice(frame);
            lengths.push(frame.len());
        };
        send.write_frames(input, *mtu, fragmenter, frame).map(|_| ()).map_err(|_| Refused::CannotFragment)
    }
}

/// The largest frame to this peer, where the configuration says nothing.
pub(super) fn mtu_to(address: SocketAddr, configured: Option<usize>) -> usize {
    configured.unwrap_or(if address.ip().is_loopback() { LOOPBACK_MTU } else { UDP_MTU })
}
