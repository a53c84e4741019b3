//! Finds the forwarder of an application.
//!
//! The order is: `$NDN_CLIENT_TRANSPORT`; `transport=` in the first client.conf that exists
//! (`~/.ndn`, `/usr/local/etc/ndn`, `/etc/ndn`), as in ndn-cxx's applications; then
//! [`default_socket_paths`].

use std::fmt;
use std::fs;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// NDN's port, UDP and TCP.
const PORT: u16 = 6363;
const VARIABLE: &str = "NDN_CLIENT_TRANSPORT";

/// A forwarder's address, and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transport {
    /// The address.
    pub endpoint: Endpoint,
    uri: String,
    source: Option<String>,
    shared_memory: bool,
}

/// An address to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A Unix stream socket.
    Unix(PathBuf),
    /// TCP: the first of these that accepts.
    Tcp(Vec<SocketAddr>),
    /// UDP: the first of these.
    Udp(Vec<SocketAddr>),
}

/// The error of a text that is no transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransportError {
    uri: String,
    source: Option<String>,
    problem: Problem,
}

/// The problem of a text that is no transport.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Problem {
    /// It has another form.
    Form,
    /// The host has no address of the scheme's family.
    Family,
    /// The text after the colon is no port.
    Port(String),
    NoHost,
    /// The host is not found.
    NoAddress(String),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Form => {
                f.write_str("it reads unix:///path, tcp://host:port or udp://host:port (also tcp4, tcp6, udp4, udp6)")
            }
            Problem::Family => f.write_str("the host has no address of this family"),
            Problem::Port(port) => write!(f, "{port:?} is no port number"),
            Problem::NoHost => f.write_str("the host is missing"),
            Problem::NoAddress(host) => write!(f, "the host {host:?} has no address"),
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.uri)?;
        self.source
            .iter()
            .try_for_each(|source| write!(f, " (from {source})"))
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.uri)?;
        self.source
            .iter()
            .try_for_each(|source| write!(f, " (from {source})"))?;
        write!(f, " is no transport: {}", self.problem)
    }
}

impl std::error::Error for TransportError {}

impl Transport {
    /// Returns the transport of a Unix socket at this path.
    pub fn unix(path: PathBuf) -> Self {
        Transport {
            uri: format!("unix://{}", path.display()),
            endpoint: Endpoint::Unix(path),
            source: None,
            shared_memory: true,
        }
    }

    /// Returns this transport without a request for shared memory, which is made of each node on a
    /// Unix socket.
    pub fn without_shared_memory(self) -> Self {
        Transport {
            shared_memory: false,
            ..self
        }
    }

    /// Returns true if the node on a Unix socket is asked for shared memory.
    pub(crate) fn uses_shared_memory(&self) -> bool {
        self.shared_memory
    }

    /// Parses a URI, and resolves its host name if there is one. Messages name `source`.
    ///
    /// # Errors
    /// The text is no transport, or the host name has no address.
    pub fn parse(uri: &str, source: Option<&str>) -> Result<Self, TransportError> {
        let source = source.map(str::to_owned);
        match endpoint(uri) {
            Ok(endpoint) => Ok(Transport {
                endpoint,
                uri: uri.to_owned(),
                source,
                shared_memory: true,
            }),
            Err(problem) => Err(TransportError {
                uri: uri.to_owned(),
                source,
                problem,
            }),
        }
    }
}

fn endpoint(uri: &str) -> Result<Endpoint, Problem> {
    let (scheme, rest) = uri.split_once("://").ok_or(Problem::Form)?;
    if scheme == "unix" {
        // ndn-cxx accepts unix:/path and unix:///path; the path must be absolute.
        return if rest.starts_with('/') {
            Ok(Endpoint::Unix(rest.into()))
        } else {
            Err(Problem::Form)
        };
    }
    let (kind, family) = scheme.split_at_checked(3).ok_or(Problem::Form)?;
    let family: fn(&SocketAddr) -> bool = match family {
        "" => |_| true,
        "4" => SocketAddr::is_ipv4,
        "6" => SocketAddr::is_ipv6,
        _ => return Err(Problem::Form),
    };
    let make = match kind {
        "tcp" => Endpoint::Tcp,
        "udp" => Endpoint::Udp,
        _ => return Err(Problem::Form),
    };
    let addresses = resolve(rest.trim_end_matches('/'))?;
    let addresses: Vec<_> = addresses.into_iter().filter(family).collect();
    if addresses.is_empty() {
        Err(Problem::Family)
    } else {
        Ok(make(addresses))
    }
}

fn resolve(authority: &str) -> Result<Vec<SocketAddr>, Problem> {
    let (host, port) = match authority.rsplit_once(':') {
        // The colons of a bare IPv6 address separate no port.
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (
            host,
            port.parse().map_err(|_| Problem::Port(port.to_owned()))?,
        ),
        _ => (authority, PORT),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() {
        return Err(Problem::NoHost);
    }
    let addresses = (host, port)
        .to_socket_addrs()
        .map_err(|_| Problem::NoAddress(host.to_owned()))?;
    Ok(addresses.collect())
}

/// Returns the transport of the environment or of client.conf; `None` if neither has one.
///
/// # Errors
/// Their text is no transport.
pub fn configured() -> Result<Option<Transport>, TransportError> {
    if let Some(uri) = std::env::var(VARIABLE)
        .ok()
        .filter(|uri| !uri.trim().is_empty())
    {
        return Transport::parse(uri.trim(), Some(VARIABLE)).map(Some);
    }
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".ndn/client.conf"));
    let system = ["/usr/local/etc/ndn/client.conf", "/etc/ndn/client.conf"].map(PathBuf::from);
    // As in ndn-cxx: the first file that exists counts, even without a transport.
    for path in home.into_iter().chain(system) {
        if let Ok(text) = fs::read_to_string(&path) {
            return match transport_line(&text) {
                Some(uri) => Transport::parse(uri, Some(&path.display().to_string())).map(Some),
                None => Ok(None),
            };
        }
    }
    Ok(None)
}

/// Returns the value of `transport=` in a client.conf, whose comments start with a semicolon.
fn transport_line(text: &str) -> Option<&str> {
    let mut values = text.lines().filter_map(|line| {
        let (key, value) = line.split(';').next()?.split_once('=')?;
        (key.trim() == "transport").then(|| value.trim())
    });
    values.next_back().filter(|value| !value.is_empty())
}

/// Returns the paths at which Larder's node listens and its applications look, in order of
/// preference: NFD's path, so that other applications find it too; the user's runtime directory; a
/// directory under /tmp that only the user owns.
pub fn default_socket_paths() -> Vec<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|directory| !directory.is_empty());
    let user = rustix::process::geteuid().as_raw();
    let mut paths = vec![PathBuf::from("/run/nfd/nfd.sock")];
    paths.extend(runtime.map(|directory| PathBuf::from(directory).join("larder/nfd.sock")));
    paths.push(PathBuf::from(format!("/tmp/larder-{user}/nfd.sock")));
    paths
}

/// Returns true if there is a socket that may be the node's.
pub(super) fn is_ours(path: &Path) -> bool {
    path.exists() && is_safe(path)
}

/// Returns true if no other user could have put a socket there: under /tmp, where anyone could, its
/// directory must belong to this user.
pub fn is_safe(path: &Path) -> bool {
    let owner = || {
        path.parent()
            .and_then(|directory| fs::symlink_metadata(directory).ok())
            .map(|found| found.uid())
    };
    !path.starts_with("/tmp") || owner() == Some(rustix::process::geteuid().as_raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_as_client_conf_has_them() {
        let unix = Transport::parse("unix:///run/nfd/nfd.sock", Some("the test")).unwrap();
        assert_eq!(unix.endpoint, Endpoint::Unix("/run/nfd/nfd.sock".into()));
        assert_eq!(unix.to_string(), "unix:///run/nfd/nfd.sock (from the test)");
        for (uri, expected) in [
            ("tcp://127.0.0.1", "127.0.0.1:6363"),
            ("tcp4://127.0.0.1:7000", "127.0.0.1:7000"),
            ("tcp6://[::1]:7000", "[::1]:7000"),
            ("tcp://[::1]", "[::1]:6363"),
            ("tcp://127.0.0.1:7000/", "127.0.0.1:7000"),
        ] {
            let expected = vec![expected.parse().unwrap()];
            assert_eq!(
                Transport::parse(uri, None).unwrap().endpoint,
                Endpoint::Tcp(expected),
                "{uri}"
            );
        }
        let udp = Transport::parse("udp4://127.0.0.1:7000", None).unwrap();
        assert_eq!(
            udp.endpoint,
            Endpoint::Udp(vec!["127.0.0.1:7000".parse().unwrap()])
        );
    }

    #[test]
    fn what_is_no_transport_says_what_would_be() {
        for uri in [
            "",
            "unix",
            "unix://nfd.sock",
            "ws://h",
            "tcp5://h",
            "tcp://",
            "tcp://h:port",
            "tcp://:1",
            "aaé://x",
            "tcp4://[::1]",
        ] {
            let error = Transport::parse(uri, Some("NDN_CLIENT_TRANSPORT"))
                .unwrap_err()
                .to_string();
            assert!(
                error.starts_with(&format!(
                    "{uri:?} (from NDN_CLIENT_TRANSPORT) is no transport: "
                )),
                "{error}"
            );
        }
    }

    #[test]
    fn the_last_transport_line_counts_and_comments_do_not() {
        assert_eq!(transport_line("; transport=unix:///a\n"), None);
        assert_eq!(
            transport_line("pib=x\n transport = unix:///b ; old\n"),
            Some("unix:///b")
        );
        assert_eq!(
            transport_line("transport=unix:///a\ntransport=tcp://h\n"),
            Some("tcp://h")
        );
        assert_eq!(transport_line("transport=\n"), None);
    }
}
