//! The two clocks that HTTP needs, as one argument.

use larder_units::Time;

/// A time on both clocks. Durations (ages, freshness) are measured on the monotonic clock, so that
/// a step of the wall clock neither freezes nor expires stored responses. The wall clock is only
/// compared with dates in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Nanoseconds since the host's start.
    pub time: Time,
    /// Seconds since 1970-01-01T00:00:00Z.
    pub unix_seconds: u64,
}
