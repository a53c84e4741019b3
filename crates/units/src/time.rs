//! Points in time, and durations in the notation that people write.

use crate::UnitError;
use std::fmt;
use std::ops::{Add, AddAssign};
use std::time::Duration;

/// Nanoseconds since the host's start (584 years fit). The host guarantees that time is monotonic.
/// The cores only compare and add times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The host's start.
    pub const ZERO: Time = Time(0);
    /// A time later than every event.
    pub const MAX: Time = Time(u64::MAX);

    /// Returns the time `nanos` nanoseconds after the host's start.
    pub const fn from_nanos(nanos: u64) -> Self {
        Time(nanos)
    }

    /// Returns the time `millis` milliseconds after the host's start.
    pub const fn from_millis(millis: u64) -> Self {
        Time(millis.saturating_mul(1_000_000))
    }

    /// Returns the time `secs` seconds after the host's start.
    pub const fn from_secs(secs: u64) -> Self {
        Time(secs.saturating_mul(1_000_000_000))
    }

    /// Nanoseconds since the host's start.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Returns true once `now` is later than this deadline.
    ///
    /// A deadline belongs to the time that it ends. An Interest is pending up to and including its
    /// expiry, so Data that arrives at exactly that instant satisfies it, and stored Data can
    /// answer an Interest with an InterestLifetime of 0. PIT, applications and tests use this
    /// function and compare nothing themselves.
    pub const fn has_passed(self, now: Time) -> bool {
        self.0 < now.0
    }

    /// Seconds since the host's start, as a float.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Returns the span from `earlier` to `self`; zero if `earlier` is later.
    pub const fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    /// Saturates at [`Time::MAX`].
    fn add(self, span: Duration) -> Time {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Time(self.0.saturating_add(nanos))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format_duration(Duration::from_nanos(self.0)))
    }
}

const UNITS: [(&str, f64); 9] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("min", 60e9),
    ("m", 60e9),
    ("h", 3600e9),
    ("d", 86400e9),
];

/// Parses `10ms`, `1.5s`, `2h`: a number and one of ns, us, µs, ms, s, m, min, h, d.
///
/// # Errors
/// [`UnitError`] if the number or the unit is missing, unknown, negative or too large.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    let (number, unit) =
        crate::quantity::split_number(text, "a duration such as \"10ms\" or \"2h\"")?;
    let scale = UNITS
        .iter()
        .find(|(name, _)| *name == unit)
        .map(|(_, scale)| *scale);
    let nanos = match scale {
        Some(scale) => number * scale,
        None if number == 0.0 && unit.is_empty() => 0.0,
        None => {
            return Err(UnitError::new(
                text,
                "a duration such as \"10ms\" or \"2h\" (ns, us, ms, s, m, h, d)",
            ));
        }
    };
    if nanos >= u64::MAX as f64 {
        return Err(UnitError::new(text, "a duration below 584 years"));
    }
    Ok(Duration::from_nanos(nanos.round() as u64))
}

/// Prints the shortest form that [`parse_duration`] parses to the same duration.
pub fn format_duration(span: Duration) -> String {
    let nanos = span.as_nanos();
    if nanos == 0 {
        return "0s".to_owned();
    }
    let (name, scale) = [
        ("d", 86_400_000_000_000),
        ("h", 3_600_000_000_000),
        ("m", 60_000_000_000),
    ]
    .into_iter()
    .find(|(_, scale)| nanos.is_multiple_of(*scale))
    .or_else(|| {
        [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)]
            .into_iter()
            .find(|(_, scale)| nanos >= *scale)
    })
    .unwrap_or(("ns", 1));
    let whole = nanos / scale;
    let rest = nanos % scale;
    if rest == 0 {
        return format!("{whole}{name}");
    }
    let digits = scale.ilog10() as usize;
    let fraction = format!("{rest:0digits$}");
    format!("{whole}.{}{name}", fraction.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_as_people_write_them() {
        for (text, nanos) in [
            ("10ms", 10_000_000),
            ("1.5s", 1_500_000_000),
            ("0", 0),
            ("2h", 7_200_000_000_000),
            ("7 us", 7000),
        ] {
            assert_eq!(parse_duration(text).unwrap().as_nanos(), nanos, "{text}");
        }
        for text in [
            "",
            "ms",
            "10",
            "10 lightyears",
            "-1s",
            "nan s",
            "inf s",
            "1e400s",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn time_saturates() {
        assert_eq!(Time::MAX + Duration::MAX, Time::MAX);
        assert_eq!(Time::ZERO.since(Time::MAX), Duration::ZERO);
    }

    proptest! {
        #[test]
        fn printed_durations_read_back(nanos in 0u64..(1 << 49)) {
            let span = Duration::from_nanos(nanos);
            let text = format_duration(span);
            let back = parse_duration(&text).unwrap();
            // A float has 53 bits, and scaling takes some of them: it is exact to the nanosecond
            // for six days.
            prop_assert_eq!(back, span, "{}", text);
        }

        #[test]
        fn no_text_panics(text in ".*") {
            let _ = parse_duration(&text);
        }
    }
}
