//! The request threads. Each knows its number, by which it finds its own resources.

use std::cell::Cell;

thread_local! {
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// Returns the number of this request thread; 0 on every other thread.
pub(crate) fn current() -> usize {
    CURRENT.get()
}

/// Makes this thread the request thread with that number, below [`crate::base::limits::THREADS`].
pub(crate) fn enter(number: usize) {
    CURRENT.set(number);
}
