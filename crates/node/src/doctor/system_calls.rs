//! Two system calls that no safe library has: the state of the clock (`adjtimex(2)`), and a trial
//! of `recvmmsg(2)`. Both only ask.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;

/// `TIME_ERROR` of adjtimex(2): the clock is not synchronised.
const TIME_ERROR: i32 = 5;

/// Returns true if the kernel knows that the clock is synchronised.
///
/// # Errors
/// The system's.
pub(super) fn is_synchronised() -> io::Result<bool> {
    // SAFETY: `timex` is a C structure of numbers, for which zeros are a value. With zero `modes`,
    // the call only writes into it.
    let state = unsafe {
        let mut state = MaybeUninit::<libc::timex>::zeroed().assume_init();
        libc::adjtimex(&raw mut state)
    };
    match state {
        -1 => Err(io::Error::last_os_error()),
        state => Ok(state != TIME_ERROR),
    }
}

/// Tries whether the process may receive several datagrams by one system call. A sandbox may
/// forbid it.
///
/// # Errors
/// The system's.
pub(super) fn try_recvmmsg(socket: &impl AsRawFd) -> io::Result<()> {
    // SAFETY: with room for zero messages, the kernel writes nothing.
    let received = unsafe {
        libc::recvmmsg(
            socket.as_raw_fd(),
            std::ptr::null_mut(),
            0,
            libc::MSG_DONTWAIT as _,
            std::ptr::null_mut(),
        )
    };
    if received < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
