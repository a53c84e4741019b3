//! The errors of a testbed.

use larder_units::UnitError;
use std::{fmt, io};

/// The reason why a testbed cannot be built, used or removed: one line.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The specification is not the expected TOML.
    Syntax {
        /// The line, from 1.
        line: usize,
        /// The problem.
        problem: String,
    },
    /// A link of the specification is invalid.
    Link {
        /// The names of its nodes.
        between: [String; 2],
        /// The problem.
        error: LinkError,
    },
    /// A router is on no link.
    LonelyRouter(String),
    /// A name is empty, too long, or has other characters than letters and digits.
    Name(String),
    /// The MTU is out of range.
    Mtu(usize),
    /// The specification has more hosts than this limit.
    TooManyHosts(usize),
    /// The specification has more hosts and routers than this limit.
    TooManyNodes(usize),
    /// A link leads from this node to itself.
    LinkToItself(String),
    /// There is no host.
    NoHost,
    /// The links do not connect two nodes.
    Disconnected {
        /// A node without a path to the other one.
        from: String,
        /// The first host.
        to: String,
    },
    /// The testbed has no host of this name.
    UnknownHost {
        /// The name.
        host: String,
        /// The testbed.
        testbed: String,
        /// The names of its hosts.
        known: Vec<String>,
    },
    /// The process is not root.
    NotRoot,
    /// A testbed of this name exists already.
    Exists(String),
    /// The kernel does not have the congestion control.
    Congestion {
        /// The requested one.
        name: String,
        /// The ones that the kernel has.
        available: String,
    },
    /// A file or a device cannot be used.
    File {
        /// The file, with the failed action.
        what: String,
        /// The system's error.
        error: io::Error,
    },
    /// A program is missing or cannot be started.
    Program {
        /// The command line.
        command: String,
        /// The system's error.
        error: io::Error,
    },
    /// A program has failed.
    Command {
        /// The command line.
        command: String,
        /// Its standard error.
        output: String,
    },
    /// A thread cannot be started.
    Thread {
        /// The purpose of the thread.
        purpose: &'static str,
        /// The system's error.
        error: io::Error,
    },
    /// A thread has panicked.
    Panicked(&'static str),
    /// The emulator cannot wait for packets.
    Wait(io::Error),
    /// Processes in a testbed's namespaces do not end.
    Processes {
        /// The testbed.
        testbed: String,
        /// Their numbers.
        pids: Vec<String>,
    },
}

/// The reason why a link is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LinkError {
    /// A quantity has another form than the expected one.
    Quantity(UnitError),
    /// The rate is 0.
    NoRate,
}

impl Error {
    /// Returns a constructor of [`Error::File`].
    pub(crate) fn file(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        move |error| Error::File {
            what: what.into(),
            error,
        }
    }

    /// Returns a constructor of [`Error::Thread`].
    pub(crate) fn thread(purpose: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |error| Error::Thread { purpose, error }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Syntax { line, problem } => write!(f, "line {line}: {problem}"),
            Error::Link {
                between: [a, b],
                error,
            } => write!(f, "the link {a} – {b}: {error}"),
            Error::LonelyRouter(name) => write!(f, "the router {name} is on no link"),
            Error::Name(name) => {
                write!(
                    f,
                    "{name:?}: a name has 1 to 64 letters and digits, and no other characters"
                )
            }
            Error::Mtu(bytes) => write!(f, "mtu = {bytes}: expected 576 to 65535 bytes"),
            Error::TooManyHosts(most) => write!(f, "more than {most} hosts"),
            Error::TooManyNodes(most) => write!(f, "more than {most} hosts and routers"),
            Error::LinkToItself(node) => write!(f, "a link leads from {node} to {node}"),
            Error::NoHost => f.write_str("there is no host"),
            Error::Disconnected { from, to } => write!(f, "no links lead from {from} to {to}"),
            Error::UnknownHost {
                host,
                testbed,
                known,
            } => {
                write!(
                    f,
                    "no host {host} in the testbed {testbed}; its hosts are {}",
                    known.join(", ")
                )
            }
            Error::NotRoot => {
                f.write_str("a testbed creates network namespaces and devices; run this as root")
            }
            Error::Exists(name) => {
                write!(
                    f,
                    "the testbed {name} exists already; `larder testbed down {name}` removes it"
                )
            }
            Error::Congestion { name, available } => {
                write!(f, "congestion = {name:?}: this kernel has {available}")
            }
            Error::File { what, error } => write!(f, "{what}: {error}"),
            Error::Program { command, error } => {
                write!(
                    f,
                    "`{command}`: {error} (a testbed needs iproute2 and util-linux)"
                )
            }
            Error::Command { command, output } => write!(f, "`{command}`: {output}"),
            Error::Thread { purpose, error } => {
                write!(f, "cannot start the thread of {purpose}: {error}")
            }
            Error::Panicked(purpose) => write!(f, "the thread of {purpose} panicked"),
            Error::Wait(error) => write!(f, "the emulator cannot wait for packets: {error}"),
            Error::Processes { testbed, pids } => {
                write!(
                    f,
                    "processes of the testbed {testbed} do not end: {}",
                    pids.join(" ")
                )
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Link { error, .. } => Some(error),
            Error::File { error, .. }
            | Error::Program { error, .. }
            | Error::Thread { error, .. }
            | Error::Wait(error) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkError::Quantity(error) => error.fmt(f),
            LinkError::NoRate => {
                f.write_str("has rate 0: leave the rate out for a link that sends in no time")
            }
        }
    }
}

impl std::error::Error for LinkError {}

impl From<UnitError> for LinkError {
    fn from(error: UnitError) -> Self {
        LinkError::Quantity(error)
    }
}
