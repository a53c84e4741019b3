//! The errors of a start, a reload and a run of the node.

use crate::config::ConfigError;
use crate::handover::HandoverError;
use crate::ndn::NdnError;
use crate::privileges::PrivilegeError;
use std::{error, fmt, io};

/// The reason why a node cannot start, or ends by itself: one line.
#[derive(Debug)]
#[non_exhaustive]
pub enum NodeError {
    /// The system refuses to report signals.
    Signals(io::Error),
    /// The system starts no thread.
    Thread(io::Error),
    /// The node cannot run as the configured user.
    Privileges(PrivilegeError),
    /// The NDN side cannot start.
    Ndn(NdnError),
    /// The HTTP side or the admin server cannot start.
    Http(larder_proxy::Error),
    /// An end of HTTP over NDN cannot start.
    Gateway(larder_gateway::Error),
    /// The node cannot follow its fleet.
    Fleet(larder_fleet_host::Error),
    /// The sockets of another process cannot be taken over.
    Handover(HandoverError),
    /// The thread with this name has ended by itself.
    Ended(&'static str),
    /// All threads have ended by themselves.
    AllEnded,
}

/// The reason why a configuration file is not applied to the running node: one line.
#[derive(Debug)]
pub(crate) enum ReloadError {
    /// The file cannot be read, or a value is wrong.
    Config(ConfigError),
    /// A part of the node refuses it.
    Part(NodeError),
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeError::Signals(error) => write!(f, "cannot listen for signals: {error}"),
            NodeError::Thread(error) => write!(f, "cannot start a thread: {error}"),
            NodeError::Privileges(error) => error.fmt(f),
            NodeError::Ndn(error) => error.fmt(f),
            NodeError::Http(error) => error.fmt(f),
            NodeError::Gateway(error) => error.fmt(f),
            NodeError::Fleet(error) => error.fmt(f),
            NodeError::Handover(error) => error.fmt(f),
            NodeError::Ended(name) => write!(f, "the {name} thread ended; the log says why"),
            NodeError::AllEnded => f.write_str("every thread ended; the log says why"),
        }
    }
}

impl fmt::Display for ReloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReloadError::Config(error) => error.fmt(f),
            ReloadError::Part(error) => error.fmt(f),
        }
    }
}

impl error::Error for NodeError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            NodeError::Signals(error) | NodeError::Thread(error) => Some(error),
            NodeError::Privileges(error) => Some(error),
            NodeError::Ndn(error) => Some(error),
            NodeError::Http(error) => Some(error),
            NodeError::Gateway(error) => Some(error),
            NodeError::Fleet(error) => Some(error),
            NodeError::Handover(error) => Some(error),
            NodeError::Ended(_) | NodeError::AllEnded => None,
        }
    }
}

impl From<PrivilegeError> for NodeError {
    fn from(error: PrivilegeError) -> NodeError {
        NodeError::Privileges(error)
    }
}

impl From<HandoverError> for NodeError {
    fn from(error: HandoverError) -> NodeError {
        NodeError::Handover(error)
    }
}

impl From<NdnError> for NodeError {
    fn from(error: NdnError) -> NodeError {
        NodeError::Ndn(error)
    }
}

impl From<larder_proxy::Error> for NodeError {
    fn from(error: larder_proxy::Error) -> NodeError {
        NodeError::Http(error)
    }
}
