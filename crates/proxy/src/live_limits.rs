//! The time limits and the limits of header blocks, which a reload replaces.

use super::header_limits::HeaderLimits;
use super::timeouts::Timeouts;
use std::sync::{PoisonError, RwLock};

/// The limits of new connections and requests. Those in progress keep what they began with.
pub(super) struct LiveLimits(RwLock<(Timeouts, HeaderLimits)>);

impl LiveLimits {
    pub(super) fn new(timeouts: Timeouts, headers: HeaderLimits) -> LiveLimits {
        LiveLimits(RwLock::new((timeouts, headers)))
    }

    /// Replaces them.
    pub(super) fn set(&self, timeouts: Timeouts, headers: HeaderLimits) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = (timeouts, headers);
    }

    pub(super) fn current(&self) -> (Timeouts, HeaderLimits) {
        *self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn timeouts(&self) -> Timeouts {
        self.current().0
    }
}
