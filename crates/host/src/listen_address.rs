//! Addresses of listeners for clients, and the clients' own.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// The address of a listener: `127.0.0.1:8080`, `[::]:80` or `unix:/run/larder/http.sock`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ListenAddress {
    /// TCP; port 0 takes a free one.
    Tcp(SocketAddr),
    /// The file of a Unix socket.
    Unix(PathBuf),
}

/// One entry of `listen`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenConfig {
    /// The address.
    pub address: ListenAddress,
    /// The permissions of the socket file, such as `0o660`; nothing for TCP.
    pub mode: u32,
    /// True if each connection begins with a header of the PROXY protocol, version 1 or 2.
    pub proxy_protocol: bool,
}

/// The permissions of a socket file by default: its owner and its group may connect.
pub const SOCKET_MODE: u32 = 0o660;

impl From<ListenAddress> for ListenConfig {
    fn from(address: ListenAddress) -> ListenConfig {
        ListenConfig {
            address,
            mode: SOCKET_MODE,
            proxy_protocol: false,
        }
    }
}

impl From<SocketAddr> for ListenConfig {
    fn from(address: SocketAddr) -> ListenConfig {
        ListenAddress::Tcp(address).into()
    }
}

impl ListenAddress {
    /// Returns the address for TCP.
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            ListenAddress::Tcp(address) => Some(*address),
            ListenAddress::Unix(_) => None,
        }
    }

    /// Returns the part of it that may be taken.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            ListenAddress::Tcp(_) => "port",
            ListenAddress::Unix(_) => "path",
        }
    }

    /// Returns true if only programs on this machine reach it.
    pub fn is_local(&self) -> bool {
        self.tcp()
            .is_none_or(|address| address.ip().to_canonical().is_loopback())
    }
}

impl FromStr for ListenAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<ListenAddress, Self::Err> {
        match text.strip_prefix("unix:") {
            Some(path) if path.starts_with('/') => Ok(ListenAddress::Unix(path.into())),
            Some(_) => Err("expected a whole path, such as \"unix:/run/larder/http.sock\""),
            None => text.parse().map(ListenAddress::Tcp).map_err(
                |_| "expected an address and a port, such as \"127.0.0.1:8080\" or \"[::]:80\", or \"unix:/PATH\"",
            ),
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAddress::Tcp(address) => address.fmt(f),
            ListenAddress::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// The other end of a client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A TCP connection from this address.
    Tcp(SocketAddr),
    /// A program on this machine, over a Unix socket: it has no address.
    Unix,
}

impl Peer {
    /// Returns its address; an IPv4 address that is mapped to IPv6 as IPv4.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Peer::Tcp(address) => Some(address.ip().to_canonical()),
            Peer::Unix => None,
        }
    }
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Peer {
        Peer::Tcp(address)
    }
}

/// Writes the address without its port, or `unix:`, as nginx does.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ip() {
            Some(ip) => ip.fmt(f),
            None => f.write_str("unix:"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_not_what_it_says() {
        for text in ["127.0.0.1:8080", "[::]:80", "unix:/run/larder/http.sock"] {
            assert_eq!(text.parse::<ListenAddress>().unwrap().to_string(), text);
        }
        for text in ["", "unix:", "unix:a", "/a", "localhost:80", "127.0.0.1"] {
            assert!(text.parse::<ListenAddress>().is_err(), "{text}");
        }
        let local = |text: &str| text.parse::<ListenAddress>().unwrap().is_local();
        assert!(
            local("127.0.0.2:1")
                && local("[::1]:1")
                && local("[::ffff:127.0.0.1]:1")
                && local("unix:/a")
        );
        assert!(!local("[::]:1") && !local("192.0.2.1:1"));
    }
}
