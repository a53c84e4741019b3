//! The upgrade of a running node: SIGUSR2 starts its program again, perhaps a newer one, and the
//! new process takes over the listeners.
//!
//! ```text
//!  old process                              new process
//!  start it, pass the sockets ────────────► read the configuration, check everything
//!  close disk tiers, pause NDN ◄─ prepared ─┘
//!                      └────── released ──► open disk tiers, start all parts: accept connections
//!       ┌────────────────────────── ready ───┘
//!       └───────────────────────── yours ──► own the socket files
//!  MAINPID to systemd, accept no more
//!  finish requests of HTTP/3 ── (end) ────► read the UDP sockets of HTTP/3
//!  finish requests, end
//! ```
//!
//! Both processes accept connections between `ready` and `yours`, so no connection is refused. If
//! the new process fails before that, the old one goes on. If the old one ends after `ready`, the
//! new one has everything.
//!
//! The processes have a pair of Unix sockets (`SOCK_SEQPACKET`); its end in the new process is
//! standard input. The listening sockets are sent over it (`SCM_RIGHTS`): unlike with `LISTEN_FDS`
//! of systemd, they need no fixed numbers and no id of a process that does not exist yet, and they
//! are never open in other programs. [`crate::inherited`] gives sockets of both kinds to listeners.

mod channel;
mod predecessor;
mod successor;

pub use predecessor::Handover;
pub(crate) use predecessor::Predecessor;
pub(crate) use successor::{News, Successor};

use crate::inherited::Role;
use std::os::fd::OwnedFd;
use std::{error, fmt, io};

/// The variable that tells a process that it replaces its parent, whose id is the value.
pub(crate) const VARIABLE: &str = "LARDER_UPGRADE";

/// A listening socket for the new process.
#[derive(Debug)]
pub(crate) struct HandedSocket {
    pub(crate) role: Role,
    pub(crate) descriptor: OwnedFd,
    /// True if the process that stops listening removes the socket's file.
    pub(crate) owns_file: bool,
}

/// The reason why an upgrade fails: one line.
#[derive(Debug)]
#[non_exhaustive]
pub enum HandoverError {
    /// This process is the first of its container.
    FirstProcess,
    /// This process is that of a systemd service which does not learn a new main process.
    UnnotifiedService,
    /// The program cannot be started.
    Start(io::Error),
    /// The sockets cannot be passed.
    Pass(io::Error),
    /// The other process has ended, or sends something unexpected.
    Gone,
    /// The other process was asked to stop.
    Stopping,
    /// `LISTEN_FDS` of systemd is wrong.
    ListenFds(io::Error),
    /// The new process would not start: its problems.
    Refused(String),
}

impl fmt::Display for HandoverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HandoverError::FirstProcess => f.write_str(
                "this is the first process of its container, which would end with it: replace the container instead",
            ),
            HandoverError::UnnotifiedService => f.write_str(
                "the systemd service would end with this process: it needs Type=notify and NotifyAccess=main, or restart it instead",
            ),
            HandoverError::Start(error) => write!(f, "cannot start the program again: {error}"),
            HandoverError::Pass(error) => write!(f, "cannot pass the listening sockets: {error}"),
            HandoverError::Gone => f.write_str("the process that is to be replaced has ended"),
            HandoverError::Stopping => f.write_str("the process that is to be replaced stops"),
            HandoverError::ListenFds(error) => write!(f, "LISTEN_FDS: {error}"),
            HandoverError::Refused(problems) => f.write_str(problems),
        }
    }
}

impl error::Error for HandoverError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            HandoverError::Start(error)
            | HandoverError::Pass(error)
            | HandoverError::ListenFds(error) => Some(error),
            HandoverError::FirstProcess
            | HandoverError::UnnotifiedService
            | HandoverError::Gone
            | HandoverError::Stopping
            | HandoverError::Refused(_) => None,
        }
    }
}
