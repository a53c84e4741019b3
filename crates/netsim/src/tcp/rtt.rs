//! The round-trip estimate and the retransmission timeout: RFC 6298, with Linux' least variance of
//! 200 ms and its slow decay.
//!
//! The mean moves by an eighth of the error, the deviation by a quarter (by a thirty-second if a
//! *shorter* round trip would increase it). The timeout is the mean plus four deviations. The
//! deviation term is the maximum of the last round trip and at least 200 ms, and decays by a
//! quarter per round trip. The shortest round trip is that of the whole connection (Linux: of five
//! minutes). O(1), 64 bytes. All values are in nanoseconds.

use super::TcpConfig;
use std::time::Duration;

/// The timeout before the first sample (RFC 6298, section 2.1).
pub(super) const INITIAL_RTO: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub(super) struct Rtt {
    least_variance: f64,
    /// The mean; 0 before the first sample.
    mean: f64,
    /// Four mean deviations. The next two fields have the same unit.
    deviation: f64,
    greatest: f64,
    variance: f64,
    /// A round trip has passed when the stream is acknowledged beyond this position.
    round_end: u64,
    shortest: Option<Duration>,
}

impl Rtt {
    pub(super) fn new(config: &TcpConfig) -> Self {
        let least_variance = config.min_rto.as_nanos() as f64;
        Rtt {
            least_variance,
            mean: 0.0,
            deviation: 0.0,
            greatest: 0.0,
            variance: 0.0,
            round_end: 0,
            shortest: None,
        }
    }

    /// Handles a sample; `una` is acknowledged of what was sent up to `next`.
    pub(super) fn sample(&mut self, rtt: Duration, una: u64, next: u64) {
        self.shortest = Some(self.shortest.map_or(rtt, |shortest| shortest.min(rtt)));
        let sample = (rtt.as_nanos() as f64).max(1.0);
        if self.mean == 0.0 {
            (self.mean, self.deviation, self.round_end) = (sample, 2.0 * sample, next);
            self.variance = self.deviation.max(self.least_variance);
            self.greatest = self.variance;
            return;
        }
        let error = sample - self.mean;
        self.mean += error / 8.0;
        let change = error.abs() - self.deviation / 4.0;
        self.deviation += if error < 0.0 && change > 0.0 {
            change / 8.0
        } else {
            change
        };
        self.greatest = self.greatest.max(self.deviation);
        self.variance = self.variance.max(self.greatest);
        if una > self.round_end {
            self.variance -= (self.variance - self.greatest).max(0.0) / 4.0;
            (self.round_end, self.greatest) = (next, self.least_variance);
        }
    }

    /// The smoothed round trip; `None` without a sample.
    pub(super) fn mean(&self) -> Option<Duration> {
        (self.mean > 0.0).then(|| Duration::from_nanos(self.mean as u64))
    }

    /// The shortest round trip.
    pub(super) fn shortest(&self) -> Option<Duration> {
        self.shortest
    }

    /// The timeout without its exponential backoff.
    pub(super) fn timeout(&self) -> Duration {
        if self.mean > 0.0 {
            Duration::from_nanos((self.mean + self.variance) as u64)
        } else {
            INITIAL_RTO
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_round_trip_times_out_early_or_late() {
        let mut rtt = Rtt::new(&TcpConfig::default());
        assert_eq!(rtt.timeout(), INITIAL_RTO);
        rtt.sample(Duration::from_millis(100), 0, 10);
        assert_eq!(
            rtt.timeout(),
            Duration::from_millis(300),
            "four halves of the first, which is the least too"
        );
        for at in 0..100 {
            rtt.sample(Duration::from_millis(100), at * 10, at * 10 + 5);
        }
        assert_eq!(
            (rtt.mean(), rtt.timeout()),
            (Some(Duration::from_millis(100)), Duration::from_millis(300))
        );
        // This round trip is half a second longer: the deviation is 125 ms of it plus the rest of
        // the old one.
        rtt.sample(Duration::from_millis(600), 1005, 1006);
        assert!(
            rtt.timeout() > Duration::from_millis(600),
            "{:?}",
            rtt.timeout()
        );
        assert_eq!(rtt.shortest(), Some(Duration::from_millis(100)));
    }
}
