//! The node's messages to systemd, or to another supervisor with its protocol (`sd_notify`).
//! Without `NOTIFY_SOCKET` they go nowhere.

use sd_notify::NotifyState;
use std::time::Duration;

/// The node takes requests, for the first time or again after a reload.
pub(crate) fn ready() {
    send(&[NotifyState::Ready]);
}

/// The node reads its configuration again.
pub(crate) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => send(&[NotifyState::Reloading, now]),
        Err(error) => tracing::debug!(%error, "no monotonic time for the supervisor"),
    }
}

/// The process with this id replaces this one: the supervisor watches the new one.
pub(crate) fn main_process_is(pid: u32) {
    send(&[NotifyState::MainPid(pid), NotifyState::Ready]);
}

/// The node stops.
pub(crate) fn stopping() {
    send(&[NotifyState::Stopping]);
}

/// The node lives: due every [`watchdog`].
pub(crate) fn alive() {
    send(&[NotifyState::Watchdog]);
}

/// Returns the interval of signs of life: half of the time that the supervisor waits for one.
/// `None` if it waits for none.
pub(crate) fn watchdog() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|within| within / 2)
}

fn send(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "the supervisor does not listen");
    }
}
