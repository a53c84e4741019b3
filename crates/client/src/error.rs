//! The errors of a client: each is one line.

use crate::command_key::CommandKeyError;
use crate::transport::{Transport, TransportError};
use larder_packet::{SignError, tlv};
use larder_units::system_message;
use std::fmt;
use std::io;

/// The reason why a client cannot continue. One line, with the remedy if it is known.
#[derive(Debug)]
#[non_exhaustive]
pub enum ClientError {
    /// The text is no transport.
    Transport(TransportError),
    /// There is no forwarder.
    Connect {
        /// The address.
        transport: Transport,
        /// The system's error.
        error: io::Error,
    },
    /// No socket of a node exists.
    NoNode {
        /// The paths that were tried.
        looked_at: Vec<String>,
    },
    /// The forwarder closed the connection.
    Closed(Transport),
    /// The forwarder sends invalid NDN.
    Garbage(tlv::FrameError),
    /// The connection broke.
    Io(io::Error),
    /// The key that signs commands cannot be used.
    CommandKey(CommandKeyError),
    /// A command cannot be signed.
    Sign(SignError),
    /// The forwarder did not answer a command or a dataset request.
    ManagementUnanswered {
        /// The name of it.
        what: String,
    },
    /// The forwarder refused it.
    ManagementRefused {
        /// The name of it.
        what: String,
        /// The reason.
        reason: String,
    },
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Transport(error) => error.fmt(f),
            ClientError::Connect { transport, error } => {
                write!(
                    f,
                    "cannot connect to {transport}: {}; start a node with `larder run`",
                    system_message(error)
                )
            }
            ClientError::NoNode { looked_at } => write!(
                f,
                "no node is running here (no socket at {}); start one with `larder run`, or name one in NDN_CLIENT_TRANSPORT",
                looked_at.join(", ")
            ),
            ClientError::Closed(transport) => {
                write!(f, "the node at {transport} closed the connection")
            }
            ClientError::Garbage(error) => write!(f, "the node sends what is not NDN: {error}"),
            ClientError::Io(error) => write!(
                f,
                "the connection to the node broke: {}",
                system_message(error)
            ),
            ClientError::CommandKey(error) => {
                write!(f, "the key that signs commands cannot be used: {error}")
            }
            ClientError::Sign(error) => error.fmt(f),
            ClientError::ManagementUnanswered { what } => {
                write!(f, "the node did not answer the {what}")
            }
            ClientError::ManagementRefused { what, reason } => {
                write!(f, "the node refused the {what}: {reason}")
            }
        }
    }
}

impl std::error::Error for ClientError {}

impl From<io::Error> for ClientError {
    fn from(error: io::Error) -> Self {
        ClientError::Io(error)
    }
}
