//! Poisson arrivals: exponential pauses, independent of each other.

use super::ParameterError;
use larder_units::Stream;
use std::time::Duration;

/// Returns the pause before the next of `per_second` arrivals, at most the longest [`Duration`].
pub(super) fn pause(per_second: f64, stream: &mut Stream) -> Duration {
    // 1 − u is never 0.
    Duration::try_from_secs_f64(-(1.0 - stream.unit()).ln() / per_second).unwrap_or(Duration::MAX)
}

/// Returns an error if `per_second` is not a rate.
pub(super) fn check(parameter: &'static str, per_second: f64) -> Result<(), ParameterError> {
    if per_second.is_finite() && per_second > 0.0 {
        Ok(())
    } else {
        Err(ParameterError {
            parameter,
            needed: "a positive number is needed",
        })
    }
}
