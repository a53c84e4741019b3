//! A part of the node that may end before the node does.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A running part. If its threads end before it is stopped, that is a failure of the node.
pub(super) struct Part<T> {
    part: T,
    is_stopped: Arc<AtomicBool>,
}

impl<T> Part<T> {
    /// Starts a part. `start` gets the function that calls `report` at its end, unless it is
    /// stopped before.
    ///
    /// # Errors
    /// That of `start`.
    pub(super) fn start<E>(
        report: impl FnOnce() + Send + 'static,
        start: impl FnOnce(Box<dyn FnOnce() + Send>) -> Result<T, E>,
    ) -> Result<Part<T>, E> {
        let is_stopped = Arc::new(AtomicBool::new(false));
        let is_expected = Arc::clone(&is_stopped);
        let on_end = move || {
            if !is_expected.load(Ordering::Acquire) {
                report();
            }
        };
        Ok(Part {
            part: start(Box::new(on_end))?,
            is_stopped,
        })
    }

    /// Returns the part for its stop: its end is not reported any more.
    pub(super) fn into_stopping(self) -> T {
        self.is_stopped.store(true, Ordering::Release);
        self.part
    }
}

impl<T> Deref for Part<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.part
    }
}

impl<T> DerefMut for Part<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.part
    }
}
