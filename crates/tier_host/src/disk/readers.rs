//! The threads that read.

use std::sync::mpsc::Receiver;
use std::sync::{Mutex, PoisonError};

/// The work of a thread that reads.
pub(super) type Read = Box<dyn FnOnce() + Send>;

/// The loop of a thread that reads.
pub(super) fn run_reads(waiting: &Mutex<Receiver<Read>>) {
    loop {
        let next = waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .recv();
        let Ok(read) = next else { return };
        read();
    }
}
