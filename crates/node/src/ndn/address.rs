//! IPv4 and IPv6 addresses of dual-stack sockets.

use std::io;
use std::net::SocketAddr;

/// Returns an IPv4 peer of a dual-stack socket in IPv4 form.
pub(super) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Binds with `bind`. On a machine without IPv6, the IPv6 wildcard becomes the IPv4 wildcard.
pub(super) fn with_ipv4_fallback<T>(
    address: SocketAddr,
    bind: impl Fn(SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    match bind(address) {
        Err(error)
            if error.raw_os_error() == Some(EAFNOSUPPORT) && address.ip().is_unspecified() =>
        {
            bind((std::net::Ipv4Addr::UNSPECIFIED, address.port()).into())
        }
        bound => bound,
    }
}

/// "Address family not supported by protocol", on Linux.
pub(super) const EAFNOSUPPORT: i32 = 97;
