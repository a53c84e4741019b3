//! Finds out whether a part of a node could start, without starting it: binds its listeners, opens
//! its files, and collects every problem.

use crate::error::ListenError;
use crate::listen_address::ListenConfig;
use crate::socket_file::SocketFile;
use crate::sockets::ListenSocket;
use std::any::Any;
use std::io;

/// The checks of one configuration.
pub struct Preflight {
    /// True if a node runs with this file: its listeners and files are no problem.
    is_running: bool,
    /// True if the listeners of [`Preflight::listen`] are open already.
    is_listening: bool,
    /// The opened resources: a conflict of two settings shows only while the first is open.
    held: Vec<Box<dyn Any>>,
    problems: Vec<String>,
}

impl Preflight {
    /// Returns checks without a problem. `is_running` is true if a node runs with the same file.
    pub fn new(is_running: bool) -> Preflight {
        Preflight {
            is_running,
            is_listening: false,
            held: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// Returns the checks of a process that replaces another one: it has its listeners for HTTP
    /// already. To bind their addresses again may need a right that only the first process had.
    pub fn of_upgrade() -> Preflight {
        Preflight {
            is_listening: true,
            ..Preflight::new(true)
        }
    }

    /// Returns the problems, one line each, and closes what was opened.
    pub fn into_problems(self) -> Vec<String> {
        self.problems
    }

    /// Adds a problem.
    pub fn add(&mut self, problem: Option<impl ToString>) {
        self.problems
            .extend(problem.map(|problem| problem.to_string()));
    }

    /// Keeps what was opened until the end, or adds the problem.
    pub fn hold<T: Any, P: ToString>(
        &mut self,
        opened: io::Result<T>,
        problem: impl FnOnce(io::Error) -> P,
    ) {
        match opened {
            Ok(opened) => self.held.push(Box::new(opened)),
            Err(error) if self.is_running && is_in_use(&error) => {}
            Err(error) => self.add(Some(problem(error))),
        }
    }

    /// Returns true if a node runs with the same file.
    pub fn is_running(&self) -> bool {
        self.is_running
    }

    /// Binds a listener for HTTP. The file of a Unix socket is removed again.
    pub fn listen(&mut self, setting: &str, listen: &ListenConfig) {
        if self.is_listening {
            return;
        }
        let opened = ListenSocket::bind(listen, &[]).map(|socket| (socket, SocketFile::of(listen)));
        self.hold(opened, |error| {
            ListenError::new(setting, &listen.address, error)
        });
    }
}

fn is_in_use(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::AddrInUse | io::ErrorKind::WouldBlock
    )
}
