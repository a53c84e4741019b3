//! The errors of a start and a reload of the NDN side, and of a new face.

use crate::config::{CertificateError, RouteTarget};
use larder_forwarder::strategy::StrategyError;
use larder_packet::Name;
use larder_policy::SpecError;
use larder_units::system_message;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::{error, fmt, io};

/// The reason why the NDN side cannot start or reload: one line.
#[derive(Debug)]
#[non_exhaustive]
pub enum NdnError {
    /// An address cannot be bound.
    Listen {
        /// The key in `[ndn]`.
        key: &'static str,
        /// The address.
        address: SocketAddr,
        /// The system's error.
        error: io::Error,
    },
    /// The configured Unix socket cannot be bound.
    Unix(PathBuf, SocketError),
    /// No Unix socket is configured, and none of the default ones can be bound.
    NoDefaultPath(Vec<(PathBuf, SocketError)>),
    /// A network interface cannot be used.
    Interface {
        /// The key in `[ndn]`.
        key: &'static str,
        /// The name of the interface.
        name: String,
        /// The system's error.
        error: io::Error,
    },
    /// More interfaces than this number.
    TooManyInterfaces(usize),
    /// The forwarder takes no more faces.
    TooManyFaces {
        /// The key in `[ndn]`.
        key: &'static str,
    },
    /// The system refuses an event queue, or a socket in it.
    Events(io::Error),
    /// The system refuses an Ethernet socket in the event queue.
    EthernetEvents(io::Error),
    /// The policy cannot be used.
    Policy(SpecError),
    /// A strategy cannot be used.
    Strategy {
        /// The prefix.
        prefix: Name,
        /// The problem.
        error: StrategyError,
    },
    /// A certificate cannot be read or used.
    Certificate(CertificateError),
    /// A route needs UDP, which is off.
    UdpIsOff(RouteTarget),
    /// The disk tier cannot start.
    Disk(larder_tier_host::Error),
    /// The system starts no thread.
    Thread(io::Error),
    /// The thread does not answer to a reload.
    NoAnswer,
}

/// The reason why a Unix socket cannot be bound.
#[derive(Debug)]
#[non_exhaustive]
pub enum SocketError {
    /// Another user owns the directory, and could replace the socket.
    ForeignDirectory,
    /// The directory cannot be created.
    Directory(io::Error),
    /// The path is in use by a file of another kind.
    NoSocket,
    /// The socket file of an ended forwarder cannot be removed.
    Stale(io::Error),
    /// Another forwarder listens there.
    InUse,
    /// The system refuses the socket.
    System(io::Error),
}

/// The reason why a face cannot be created.
#[derive(Debug)]
pub(super) enum FaceError {
    /// UDP is off in the configuration.
    UdpIsOff,
    /// The forwarder takes no more faces.
    TooManyFaces,
    /// The system refuses the socket.
    System(io::Error),
}

impl fmt::Display for NdnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NdnError::Listen {
                key,
                address,
                error,
            } => {
                let remedy = match error.kind() {
                    io::ErrorKind::AddrInUse => {
                        "another program has it: stop that, or set another address, or \"\" for none"
                    }
                    io::ErrorKind::PermissionDenied => {
                        "ports below 1024 need privileges: set a higher one"
                    }
                    _ => "set an address of this machine, or \"\" for none",
                };
                write!(
                    f,
                    "[ndn] {key}: cannot listen on {address}: {}; {remedy}",
                    system_message(error)
                )
            }
            NdnError::Unix(path, error) => write!(
                f,
                "[ndn] unix: cannot listen on {}: {error}",
                path.display()
            ),
            NdnError::NoDefaultPath(tried) => {
                f.write_str("[ndn] unix: no default path can be used (")?;
                for (number, (path, error)) in tried.iter().enumerate() {
                    let separator = if number == 0 { "" } else { "; " };
                    write!(f, "{separator}{}: {error}", path.display())?;
                }
                f.write_str("); set [ndn] unix to a path of yours")
            }
            NdnError::Interface { key, name, error } => {
                let remedy = match error.kind() {
                    io::ErrorKind::PermissionDenied => {
                        "this needs root, or the capability CAP_NET_RAW"
                    }
                    _ => "name an interface that `ip link` shows as up, or none",
                };
                write!(
                    f,
                    "[ndn] {key}: cannot use the interface {name:?}: {}; {remedy}",
                    system_message(error)
                )
            }
            NdnError::TooManyInterfaces(most) => {
                write!(f, "[ndn] ethernet: more than {most} interfaces: name fewer")
            }
            NdnError::TooManyFaces { key } => write!(f, "[ndn] {key}: too many faces"),
            NdnError::Events(error) => write!(f, "[ndn]: {error}"),
            NdnError::EthernetEvents(error) => write!(f, "[ndn] ethernet: {error}"),
            NdnError::Policy(error) => write!(f, "[ndn] policy: {error}"),
            NdnError::Strategy { prefix, error } => {
                write!(f, "[ndn]: strategy of {prefix}: {error}")
            }
            NdnError::Certificate(error) => error.fmt(f),
            NdnError::UdpIsOff(target) => {
                write!(
                    f,
                    "[[ndn.route]] to = \"{target}\": [ndn] udp is off: set an address to send from"
                )
            }
            NdnError::Disk(error) => error.fmt(f),
            NdnError::Thread(error) => write!(f, "cannot start the NDN thread: {error}"),
            NdnError::NoAnswer => f.write_str("[ndn]: the NDN thread does not answer"),
        }
    }
}

impl fmt::Display for SocketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SocketError::ForeignDirectory => f.write_str("its directory belongs to somebody else"),
            SocketError::Directory(error) => {
                write!(f, "cannot create its directory: {}", system_message(error))
            }
            SocketError::NoSocket => f.write_str(
                "something that is not a socket is there; remove it, or set another path",
            ),
            SocketError::Stale(error) => write!(
                f,
                "cannot remove the stale socket: {}",
                system_message(error)
            ),
            SocketError::InUse => {
                f.write_str(
                    "another forwarder answers there; stop it, or set another path (--set ndn.unix=PATH), \
                     or do without NDN (--set ndn.enabled=false)",
                )
            }
            SocketError::System(error) => f.write_str(&system_message(error)),
        }
    }
}

impl fmt::Display for FaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaceError::UdpIsOff => f.write_str("[ndn] udp is off in the configuration"),
            FaceError::TooManyFaces => f.write_str("too many faces"),
            FaceError::System(error) => error.fmt(f),
        }
    }
}

impl error::Error for NdnError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            NdnError::Listen { error, .. } | NdnError::Interface { error, .. } => Some(error),
            NdnError::Events(error) | NdnError::EthernetEvents(error) | NdnError::Thread(error) => {
                Some(error)
            }
            NdnError::Unix(_, error) => Some(error),
            NdnError::Policy(error) => Some(error),
            NdnError::Strategy { error, .. } => Some(error),
            NdnError::Certificate(error) => Some(error),
            NdnError::Disk(error) => Some(error),
            _ => None,
        }
    }
}

impl error::Error for SocketError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            SocketError::Directory(error)
            | SocketError::Stale(error)
            | SocketError::System(error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: an error does not name the setting, the problem and the remedy.
    #[test]
    fn an_error_names_the_setting_and_the_remedy() {
        let address = ([127, 0, 0, 1], 6363).into();
        let listen = |kind| {
            NdnError::Listen {
                key: "tcp",
                address,
                error: io::Error::from(kind),
            }
            .to_string()
        };
        assert!(
            listen(io::ErrorKind::AddrInUse)
                .starts_with("[ndn] tcp: cannot listen on 127.0.0.1:6363: ")
        );
        assert!(
            listen(io::ErrorKind::AddrInUse)
                .ends_with("stop that, or set another address, or \"\" for none")
        );
        assert!(listen(io::ErrorKind::PermissionDenied).ends_with("set a higher one"));
        let tried = vec![
            ("/a".into(), SocketError::InUse),
            ("/b".into(), SocketError::ForeignDirectory),
        ];
        assert_eq!(
            NdnError::NoDefaultPath(tried).to_string(),
            "[ndn] unix: no default path can be used (/a: another forwarder answers there; stop it, or set another \
             path (--set ndn.unix=PATH), or do without NDN (--set ndn.enabled=false); /b: its directory belongs to somebody else); set [ndn] unix to a path of yours"
        );
        assert_eq!(
            NdnError::TooManyFaces { key: "ethernet" }.to_string(),
            "[ndn] ethernet: too many faces"
        );
    }
}
