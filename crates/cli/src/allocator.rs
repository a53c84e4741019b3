//! The binary's allocator. The node's caches and connections are made of many small pieces, taken on one thread and given back on another: with the system's
//! allocator a miss of the HTTP cache takes a tenth more time, and what large bodies have left behind stays with the process.

#![allow(unsafe_code, reason = "one option of mimalloc, which has no safe way to it")]

use std::ffi::c_int;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay`, which the bindings do not name.
const PURGE_DELAY: c_int = 15;

/// What is free goes back to the system at once, instead of after a second: with bodies of up to 64 MiB that come and go, that second held 30 MiB more. A
/// miss costs no more time for it. To be called first, while there is one thread.
pub fn set_up() {
    // SAFETY: it stores a number in a table; nobody reads it at the same time, since there is no other thread yet.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, 0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fear: another version has another option under this number.
    #[test]
    fn the_number_is_that_of_the_delay() {
        // SAFETY: it reads a number.
        let delay = || unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) };
        assert_eq!(delay(), 1000, "its default");
        set_up();
        assert_eq!(delay(), 0);
    }
}
