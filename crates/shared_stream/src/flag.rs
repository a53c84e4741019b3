//! The flags by which an end tells that it waits, and the fences that make a wake-up certain.
//!
//! An end that waits sets its flag, and then looks again at what it waits for. The other end
//! changes that, and then looks at the flag. A fence between the two steps on both sides makes sure
//! that one of them sees the other's change. The tests try every order of these steps with loom.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU32, Ordering};

/// An atomic word: that of std, in memory shared with another process, or that of a test.
pub(crate) trait Word {
    fn load(&self, ordering: Ordering) -> u32;
    fn store(&self, value: u32, ordering: Ordering);
    fn swap(&self, value: u32, ordering: Ordering) -> u32;
    fn fence(&self, ordering: Ordering);
}

impl Word for AtomicU32 {
    #[inline]
    fn load(&self, ordering: Ordering) -> u32 {
        AtomicU32::load(self, ordering)
    }

    #[inline]
    fn store(&self, value: u32, ordering: Ordering) {
        AtomicU32::store(self, value, ordering);
    }

    #[inline]
    fn swap(&self, value: u32, ordering: Ordering) -> u32 {
        AtomicU32::swap(self, value, ordering)
    }

    #[inline]
    fn fence(&self, ordering: Ordering) {
        std::sync::atomic::fence(ordering);
    }
}

/// Sets the flag, unless `has_come` returns true afterwards. Returns true if it is set: the other
/// end rings when something comes.
pub(crate) fn begins_to_wait(flag: &impl Word, has_come: impl FnOnce() -> bool) -> bool {
    flag.store(1, Relaxed);
    flag.fence(SeqCst);
    let waits = !has_come();
    if !waits {
        flag.store(0, Relaxed);
    }
    waits
}

/// Rings if the other end waits. Call it after the change that the other end waits for.
pub(crate) fn wake(flag: &impl Word, ring: impl FnOnce()) {
    flag.fence(SeqCst);
    if flag.load(Relaxed) != 0 && flag.swap(0, Relaxed) != 0 {
        ring();
    }
}
