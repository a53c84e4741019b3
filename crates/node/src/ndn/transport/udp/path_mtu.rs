//! The largest datagram of a path, as the kernel knows it.
//!
//! The kernel keeps the MTU of the route, and the reports of routers about narrower paths (RFC
//! 1191, RFC 8201: "Packet Too Big" for frames that were sent). A socket is connected to the peer,
//! asked for the MTU, and closed. This sends nothing. If the routers of a path are silent, the MTU
//! has to be configured.

use rustix::net::sockopt::{ip_mtu, ipv6_mtu};
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::SocketAddr;

/// Bytes of the IPv4 and the UDP header.
pub(crate) const IPV4_HEADERS: usize = 20 + 8;

/// Bytes of the IPv6 and the UDP header.
pub(crate) const IPV6_HEADERS: usize = 40 + 8;

/// The path to a peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    /// Bytes of the largest UDP payload.
    pub(crate) mtu: usize,
    /// The local address of packets to the peer.
    pub(crate) local: SocketAddr,
}

/// Returns the path to `peer`, through a network interface if one is named.
pub(crate) fn path_to(peer: SocketAddr, interface: Option<&str>) -> io::Result<Path> {
    let socket = Socket::new(Domain::for_address(peer), Type::DGRAM, None)?;
    if let Some(interface) = interface {
        socket.bind_device(Some(interface.as_bytes()))?;
    }
    socket.connect(&peer.into())?;
    let local = socket
        .local_addr()?
        .as_socket()
        .ok_or(io::ErrorKind::Unsupported)?;
    let mtu = match peer {
        SocketAddr::V4(_) => (ip_mtu(&socket)? as usize).saturating_sub(IPV4_HEADERS),
        SocketAddr::V6(_) => (ipv6_mtu(&socket)? as usize).saturating_sub(IPV6_HEADERS),
    };
    Ok(Path { mtu, local })
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
