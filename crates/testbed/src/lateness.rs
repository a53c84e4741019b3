//! The lateness of the emulator: the difference between the time at which a frame should have
//! arrived and the time at which it arrived. A late emulator emulates another link.
//!
//! Not included: the time that a packet waited in its sender's device before the emulator read it.
//! The link's clock starts with the reading.

use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// The largest 99th percentile with which a measured value is valid, where the path has no delay of
/// its own.
pub const LATEST: Duration = Duration::from_millis(1);

/// Counts of frames by lateness in microseconds, up to [`Lateness::MOST`].
#[derive(Clone)]
pub(crate) struct Lateness {
    counts: Vec<u64>,
    frames: u64,
    max: Duration,
}

/// The lateness of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LatenessReport {
    /// Frames delivered.
    pub frames: u64,
    /// The median, ns.
    pub p50_ns: u64,
    /// The 99th percentile, ns.
    pub p99_ns: u64,
    /// The maximum, ns.
    pub max_ns: u64,
    /// Frames that a host's device did not accept.
    pub refused: u64,
}

impl LatenessReport {
    /// Returns true if a value measured over the emulator is valid: frames were in time, and only
    /// the model lost frames.
    pub fn is_sound(&self) -> bool {
        self.is_sound_for(Duration::ZERO)
    }

    /// Returns true if a value measured over a path with this round trip is valid
    /// ([`LatenessReport::is_sound`]). On a long path, 99 of 100 frames may be late by a hundredth
    /// of the round trip, on each link, with a delay of its own or not. A download lasts several
    /// round trips, beside which this is little.
    pub fn is_sound_for(&self, round_trip: Duration) -> bool {
        u128::from(self.p99_ns) <= LATEST.max(round_trip / 100).as_nanos() && self.refused == 0
    }
}

impl fmt::Display for LatenessReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = |nanos: u64| nanos as f64 / 1e3;
        let [p50, p99, max] = [self.p50_ns, self.p99_ns, self.max_ns].map(micros);
        write!(
            f,
            "{} frames, late by {p50:.0} µs (median), {p99:.0} µs (99 of 100), {max:.0} µs (most)",
            self.frames
        )?;
        match self.refused {
            0 => Ok(()),
            refused => write!(f, "; {refused} refused by hosts"),
        }
    }
}

impl Lateness {
    const MOST: usize = 100_000;

    pub(crate) fn new() -> Self {
        Lateness {
            counts: vec![0; Lateness::MOST + 1],
            frames: 0,
            max: Duration::ZERO,
        }
    }

    pub(crate) fn count(&mut self, late: Duration) {
        let micros = usize::try_from(late.as_micros())
            .unwrap_or(Lateness::MOST)
            .min(Lateness::MOST);
        self.counts[micros] += 1;
        self.frames += 1;
        self.max = self.max.max(late);
    }

    pub(crate) fn report(&self, refused: u64) -> LatenessReport {
        let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        let at = |share: f64| {
            let wanted = (self.frames as f64 * share).ceil() as u64;
            let mut seen = 0;
            let found = self.counts.iter().position(|count| {
                seen += count;
                seen >= wanted
            });
            // The upper edge of the microsecond, so that the result is never better than the truth.
            found.map_or(0, |micros| nanos(Duration::from_micros(micros as u64 + 1)))
        };
        match self.frames {
            0 => LatenessReport {
                refused,
                ..LatenessReport::default()
            },
            frames => LatenessReport {
                frames,
                p50_ns: at(0.5),
                p99_ns: at(0.99),
                max_ns: nanos(self.max),
                refused,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emulator_that_is_late_one_time_in_fifty_gives_no_figure() {
        let mut lateness = Lateness::new();
        assert!(lateness.report(0).is_sound(), "nothing was late");
        for i in 0..1000 {
            lateness.count(Duration::from_micros(if i % 50 == 0 { 2000 } else { 20 }));
        }
        let report = lateness.report(3);
        assert_eq!(
            (report.p50_ns, report.p99_ns, report.max_ns, report.refused),
            (21_000, 2_001_000, 2_000_000, 3)
        );
        assert!(!report.is_sound());
        let over = |millis: u64| {
            LatenessReport {
                refused: 0,
                ..report
            }
            .is_sound_for(Duration::from_millis(millis))
        };
        assert!(
            !over(200) && over(201),
            "2.001 ms are a hundredth of 200.1 ms"
        );
        assert!(
            !report.is_sound_for(Duration::from_secs(1)),
            "three frames went astray"
        );
        assert!(
            !LatenessReport {
                p99_ns: 1000,
                ..report
            }
            .is_sound(),
            "three frames went astray"
        );
        assert!(
            LatenessReport {
                p99_ns: 1000,
                refused: 0,
                ..report
            }
            .is_sound()
        );
    }
}
