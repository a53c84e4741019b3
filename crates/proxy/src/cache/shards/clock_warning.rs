//! The warning of an origin whose clock is behind.

use larder_http::ClockBehind;
use std::sync::atomic::{AtomicBool, Ordering};

/// Logs the first origin only: the counter has the others.
#[derive(Default)]
pub(super) struct ClockWarning {
    is_logged: AtomicBool,
}

impl ClockWarning {
    #[cold]
    pub(super) fn log(&self, origin: &ClockBehind) {
        if self.is_logged.swap(true, Ordering::Relaxed) {
            return;
        }
        let (authority, seconds) = (&origin.authority, origin.behind.as_secs());
        tracing::warn!(
            authority,
            seconds,
            "the clock of an origin is behind: its responses count as made when they come, but caches beyond this one \
             may take them for stale; larder_http_clocks_behind counts them"
        );
    }
}
