//! A bell: it wakes the process at the other end, if that waits.
//!
//! It is a pipe, and not an eventfd. The two ends of a pipe are two open files, of which each
//! process has one. An eventfd would be one open file of both, so a hostile process could make the
//! other one's writes block: it would clear O_NONBLOCK and set the counter to its maximum.
//!
//! A reader registers its end with an edge-triggered epoll. The kernel raises an event for each
//! write, so the bytes need not be read, except before they fill the pipe.

use crate::limits::WAITS_PER_DRAIN;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::{ioctl_fionread, read, write};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The end that hears.
#[derive(Debug)]
pub(crate) struct Ear {
    pipe: OwnedFd,
    waits: u32,
}

impl Ear {
    pub(crate) fn new(pipe: OwnedFd) -> io::Result<Ear> {
        fcntl_setfl(&pipe, OFlags::NONBLOCK)?;
        Ok(Ear { pipe, waits: 0 })
    }

    /// Counts a wait, before it begins. After many, empties the pipe, except for one byte: epoll
    /// forgets an event that it has not reported yet if the pipe is empty, and the event may be for
    /// the other kind of wait.
    pub(crate) fn before_wait(&mut self) {
        self.waits += 1;
        if self.waits == WAITS_PER_DRAIN {
            self.waits = 0;
            let mut bytes = [0; 2 * WAITS_PER_DRAIN as usize];
            let count = ioctl_fionread(&self.pipe).map_or(0, |count| count.saturating_sub(1) as usize);
            // A peer that has written more fills its own pipe and wakes this end no more.
            let count = count.min(bytes.len());
            let _ = read(&self.pipe, &mut bytes[..count]);
        }
    }
}

impl AsFd for Ear {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
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
