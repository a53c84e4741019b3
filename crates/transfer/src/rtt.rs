//! Round-trip time and retransmission timeout: RFC 6298, with the deviations at the constants
//! below.
//!
//! The caller passes only segments whose Interest was sent once (Karn's algorithm, RFC 6298 section
//! 3).

use crate::limits::INITIAL_RTO;
use std::time::Duration;

/// The smallest margin of the RTO over the smoothed round trip. RFC 6298 has an RTO of at least 1 s
/// for TCP's delayed acknowledgements, which NDN does not have. Linux TCP and `ndncatchunks` use
/// 200 ms, which a busy machine's scheduler does not exceed.
const MIN_RTO_MARGIN: Duration = Duration::from_millis(200);

/// The largest RTO, with its backoff: `ndncatchunks`' 4 s, the default InterestLifetime. After this
/// time the Interest has left every PIT.
const MAX_RTO: Duration = Duration::from_secs(4);

/// Smoothed round-trip time, its variation, and the timeout that follows from both.
#[derive(Clone, Debug)]
pub struct RttEstimator {
    smoothed: Option<Duration>,
    variation: Duration,
    min: Duration,
    backoff: u32,
    samples: u64,
    sum: Duration,
}

impl Default for RttEstimator {
    fn default() -> Self {
        RttEstimator {
            smoothed: None,
            variation: Duration::ZERO,
            min: Duration::MAX,
            backoff: 0,
            samples: 0,
            sum: Duration::ZERO,
        }
    }
}

impl RttEstimator {
    /// Records a round trip (RFC 6298 sections 2.2 and 2.3), and resets the backoff.
    pub fn sample(&mut self, rtt: Duration) {
        match self.smoothed {
            None => {
                self.smoothed = Some(rtt);
                self.variation = rtt / 2;
            }
            Some(smoothed) => {
                let deviation = smoothed.abs_diff(rtt);
                self.variation = self.variation * 3 / 4 + deviation / 4;
                self.smoothed = Some(smoothed * 7 / 8 + rtt / 8);
            }
        }
        self.min = self.min.min(rtt);
        self.backoff = 0;
        self.samples += 1;
        self.sum += rtt;
    }

    /// Doubles the timeout (RFC 6298 section 5.5) until the next sample.
    pub fn back_off(&mut self) {
        // 2^10 times the smallest RTO is already beyond MAX_RTO.
        self.backoff = (self.backoff + 1).min(10);
    }

    /// Returns the estimate of the path for the next transfer, without this one's backoff.
    #[must_use]
    pub fn without_backoff(&self) -> RttEstimator {
        RttEstimator {
            backoff: 0,
            ..self.clone()
        }
    }

    /// Returns the present retransmission timeout.
    pub fn rto(&self) -> Duration {
        let base = match self.smoothed {
            None => INITIAL_RTO,
            // With a slowly growing queue the variation is close to zero. So the margin has a lower
            // bound, and not the sum (as in Linux TCP).
            Some(smoothed) => smoothed + (self.variation * 4).max(MIN_RTO_MARGIN),
        };
        (base * (1 << self.backoff)).min(MAX_RTO)
    }

    /// Returns the smoothed round-trip time; `None` before the first sample.
    pub fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    /// Returns the smallest round trip so far; `None` before the first sample.
    pub fn min(&self) -> Option<Duration> {
        (self.samples > 0).then_some(self.min)
    }

    /// Returns the mean of all samples; `None` before the first.
    pub fn mean(&self) -> Option<Duration> {
        // Computed as floats, because a Duration divides by a u32 only.
        (self.samples > 0)
            .then(|| Duration::from_secs_f64(self.sum.as_secs_f64() / self.samples as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn first_sample_sets_three_times_the_rtt() {
        let mut rtt = RttEstimator::default();
        assert_eq!(rtt.rto(), INITIAL_RTO);
        rtt.sample(300 * MS);
        // SRTT 300 ms + 4 × 150 ms.
        assert_eq!(rtt.rto(), 900 * MS);
        rtt.sample(300 * MS);
        // RTTVAR 112.5 ms.
        assert_eq!(rtt.rto(), 750 * MS);
    }

    #[test]
    fn time_out_never_leaves_its_bounds() {
        let mut rtt = RttEstimator::default();
        for _ in 0..100 {
            rtt.sample(MS);
        }
        assert_eq!(rtt.rto(), MIN_RTO_MARGIN + MS);
        rtt.back_off();
        assert_eq!(rtt.rto(), 2 * (MIN_RTO_MARGIN + MS));
        for _ in 0..100 {
            rtt.back_off();
        }
        assert_eq!(rtt.rto(), MAX_RTO);
        rtt.sample(Duration::from_secs(3600));
        assert_eq!(rtt.rto(), MAX_RTO);
    }

    #[test]
    fn a_sample_ends_the_backoff() {
        let mut rtt = RttEstimator::default();
        rtt.sample(MS);
        rtt.back_off();
        rtt.back_off();
        assert_eq!(rtt.rto(), 4 * (MIN_RTO_MARGIN + MS));
        rtt.sample(MS);
        assert_eq!(rtt.rto(), MIN_RTO_MARGIN + MS);
        assert_eq!(rtt.mean(), Some(MS));
        assert_eq!(rtt.min(), Some(MS));
    }
}
