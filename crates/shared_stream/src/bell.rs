//! A bell: it wakes the process at the other end, if that waits.
//!
//! It is a pipe, and not an eventfd. The two ends of a pipe are two open files, of which each
//! process has one. An eventfd would be one open file of both, so a hostile process could make the
//! other one's writes block: it would clear O_NONBLOCK and set the counter to its maximum.
//!
//! A reader registers its end with an edge-triggered epoll, and empties the pipe after each event.
//! Linux 5.5 to 5.13 raises no event for a write to a pipe that is not empty.

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::{read, write};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Bytes that an ear takes from its pipe at once. Between two events there are a few: one for each
/// wait. A peer that writes more fills its own pipe, and may wake this end no more.
const EAR_BYTES: usize = 512;

/// The end that hears.
#[derive(Debug)]
pub(crate) struct Ear(OwnedFd);

impl Ear {
    pub(crate) fn new(pipe: OwnedFd) -> io::Result<Ear> {
        fcntl_setfl(&pipe, OFlags::NONBLOCK)?;
        Ok(Ear(pipe))
    }

    /// Empties the pipe.
    pub(crate) fn empty(&self) {
        let _ = read(&self.0, &mut [0; EAR_BYTES]);
    }
}

impl AsFd for Ear {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The end that rings.
#[derive(Debug)]
pub(crate) struct Bell(OwnedFd);

impl Bell {
    pub(crate) fn new(pipe: OwnedFd) -> io::Result<Bell> {
        fcntl_setfl(&pipe, OFlags::NONBLOCK)?;
        Ok(Bell(pipe))
    }

    pub(crate) fn ring(&self) {
        // If the pipe is full, the other end does not empty it. If it is closed, the other end is
        // gone, which its socket tells.
        let _ = write(&self.0, &[1]);
    }
}
