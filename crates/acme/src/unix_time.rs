//! Times of the clock, and the time for which a certificate is valid.

use std::time::Duration;

/// A time of the system's clock: seconds since 1970. The clock may be set, in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnixTime(pub u64);

impl UnixTime {
    /// Returns the time so much later.
    pub fn after(self, span: Duration) -> UnixTime {
        UnixTime(self.0.saturating_add(span.as_secs()))
    }

    /// Returns the time since an earlier one; zero if that one is later.
    pub fn since(self, earlier: UnixTime) -> Duration {
        Duration::from_secs(self.0.saturating_sub(earlier.0))
    }
}

/// The time for which a certificate is valid (RFC 5280 §4.1.2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// It is not valid before this.
    pub not_before: UnixTime,
    /// It is not valid after this.
    pub not_after: UnixTime,
}

impl Validity {
    /// Returns the length of this time.
    pub fn lifetime(self) -> Duration {
        self.not_after.since(self.not_before)
    }

    /// Returns the time at which this share of the lifetime has passed.
    pub(crate) fn at(self, share: f64) -> UnixTime {
        self.not_before.after(self.lifetime().mul_f64(share))
    }
}
