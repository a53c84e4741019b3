//! The clock of a fleet's proofs: it counts while the machine is suspended.

use larder_units::Time;
use rustix::time::{ClockId, clock_gettime};

/// Returns the time since the start of the machine.
pub(crate) fn now() -> Time {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(now.tv_nsec).unwrap_or(0);
    Time::from_nanos(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}
