//! The largest datagram of a path, as the kernel knows it.
//!
//! The kernel keeps the MTU of the route, and the reports of routers about narrower paths (RFC
//! 1191, RFC 8201: "Packet Too Big" for frames that were sent). A socket is connected to the peer,
//! asked for the MTU, and closed. This sends nothing. If the routers of a path are silent, the MTU
//! has to be configured.

use super::datagram;
use super::event_loop::EventLoop;
use super::link::{Connection, Link};
use crate::limits::PATHS_AT_ONCE;
use larder_forwarder::FaceId;
use rustix::net::sockopt::{ip_mtu, ipv6_mtu};
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::SocketAddr;

/// Bytes of the IPv4 and the UDP header.
const IPV4_HEADERS: usize = 20 + 8;

/// Bytes of the IPv6 and the UDP header.
const IPV6_HEADERS: usize = 40 + 8;

/// The path to a peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    /// Bytes of the largest UDP payload.
    pub(super) mtu: usize,
    /// The local address of packets to the peer.
    pub(super) local: SocketAddr,
}

/// Returns the path to `peer`, through a network interface if one is named.
pub(super) fn path_to(peer: SocketAddr, interface: Option<&str>) -> io::Result<Path> {
    let socket = Socket::new(Domain::for_address(peer), Type::DGRAM, None)?;
    if let Some(interface) = interface {
        socket.bind_device(Some(interface.as_bytes()))?;
    }
    socket.connect(&peer.into())?;
    let local = socket.local_addr()?.as_socket().ok_or(io::ErrorKind::Unsupported)?;
    let mtu = match peer {
        SocketAddr::V4(_) => (ip_mtu(&socket)? as usize).saturating_sub(IPV4_HEADERS),
        SocketAddr::V6(_) => (ipv6_mtu(&socket)? as usize).saturating_sub(IPV6_HEADERS),
    };
    Ok(Path { mtu, local })
}

impl EventLoop {
    /// Reads the MTU of some paths to UDP peers again, and of the others in the next calls: a
    /// router may have reported a narrower one.
    pub(super) fn look_at_paths(&mut self) {
        if self.udp_mtu.is_some() {
            return;
        }
        let by_path = |(face, link): (&FaceId, &Link)| match &link.connection {
            Connection::Udp(peer) if !peer.address.ip().is_loopback() => Some((*face, peer.address)),
            _ => None,
        };
        let mut peers: Vec<(FaceId, SocketAddr)> = self.links.iter().filter_map(by_path).collect();
        peers.sort_unstable_by_key(|(face, _)| (*face <= self.path_looked_at, *face));
        for (face, address) in peers.into_iter().take(PATHS_AT_ONCE) {
            self.path_looked_at = face;
            let mtu = datagram::mtu_to(address, None);
            let smaller = self.forwarder.face(face).is_some_and(|config| config.mtu.is_some_and(|old| mtu < old));
            // Only the operator can make it larger.
            if smaller {
                self.forwarder.set_mtu(face, mtu);
                self.update_face(face);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_takes_large_datagrams() {
        let path = path_to("127.0.0.1:6363".parse().unwrap(), None).unwrap();
        assert!(path.mtu > 8800 && path.local.ip().is_loopback(), "{path:?}");
    }
}
