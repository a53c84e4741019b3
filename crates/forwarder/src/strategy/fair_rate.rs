//! The rate that a link grants each of its flows, without knowing the flows: explicit rate
//! reporting.
//!
//! Source: the Rate Control Protocol's law (Dukkipati, "Rate Control Protocol (RCP): Congestion
//! control to make flows complete quickly", PhD thesis, Stanford 2007, equation 3.1), as MIRCC
//! takes it to Interests (Mahdian et al., "MIRCC: Multipath-aware ICN rate-based congestion
//! control", ICN 2016). One rate R for all flows of a link; every round trip d it changes by what
//! the link has left and by the queue:
//!
//! > R ← R · (1 + (α (η C − y) − β q / d) / C)
//!
//! with C the link's Interests a second, y those that came, and q those that wait. All flows that
//! take what they are given end at the same share of C, whatever their round trips.
//!
//! Deviations. y counts the Interests of this forwarder's consumers, refused ones included, and q
//! is the level of the link's token bucket: the queue of Data at the far end is not to be seen
//! here, and Interests that pass the bucket do not fill it. MIRCC's inflated demand and its second
//! class of paths are left out. d is the smoothed time from Interest to Data, 10 ms at least, and R
//! changes once each d. Sizes: the rate is in Interests, and C says what their Data are. O(1) a
//! packet, 64 bytes a link.

use larder_units::Time;
use std::time::Duration;

/// RCP's gains (section 3.2.1 there: stable with any number of flows and any round trips).
const ALPHA: f64 = 0.4;
const BETA: f64 = 0.226;

/// The share of the link that is aimed at: the report itself makes Data a few bytes longer.
const ETA: f64 = 0.97;

/// The shortest interval between two changes.
const LEAST_INTERVAL: Duration = Duration::from_millis(10);

#[derive(Clone, Debug)]
pub(super) struct FairRate {
    capacity: f64,
    rate: f64,
    /// Interests since the last change.
    offered: u64,
    changed: Time,
    rtt: Option<Duration>,
}

impl FairRate {
    /// Creates the state of a link that takes `capacity` Interests per second. The first flow is
    /// granted the whole target rate.
    pub(super) fn new(capacity: f64, now: Time) -> Self {
        FairRate {
            capacity,
            rate: ETA * capacity,
            offered: 0,
            changed: now,
            rtt: None,
        }
    }

    /// An Interest came for this link.
    pub(super) fn on_interest(&mut self) {
        self.offered += 1;
    }

    /// Records that Data came after `rtt`, while `queue` Interests wait. Returns the granted rate
    /// in Interests per second.
    pub(super) fn on_data(&mut self, now: Time, rtt: Duration, queue: f64) -> u64 {
        let smoothed = self.rtt.map_or(rtt, |old| (old * 7 + rtt) / 8);
        self.rtt = Some(smoothed);
        let interval = smoothed.max(LEAST_INTERVAL);
        let elapsed = now.since(self.changed);
        if elapsed >= interval {
            let load = self.offered as f64 / elapsed.as_secs_f64();
            let spare =
                ALPHA * (ETA * self.capacity - load) - BETA * queue / interval.as_secs_f64();
            // Half at the least, so that one burst does not starve everyone for many round trips.
            self.rate =
                (self.rate * (1.0 + spare / self.capacity).max(0.5)).clamp(1.0, self.capacity);
            self.offered = 0;
            self.changed = now;
        }
        self.rate as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `flows` take what they are granted, in full, for ten seconds at 100 ms; what each is granted
    /// then, and the most of the last second.
    fn settle(flows: f64) -> (f64, f64) {
        let (mut link, mut queue) = (FairRate::new(1000.0, Time::ZERO), 0.0_f64);
        let (mut granted, mut due, mut most) = (1000.0, 0.0, 0.0_f64);
        for millis in 1..=10_000 {
            due += flows * granted / 1000.0;
            while due >= 1.0 {
                due -= 1.0;
                link.on_interest();
                queue += 1.0;
            }
            queue = (queue - 1.0).max(0.0);
            granted =
                link.on_data(Time::from_millis(millis), Duration::from_millis(100), queue) as f64;
            if millis > 9000 {
                most = most.max(granted);
            }
        }
        (granted, most)
    }

    #[test]
    fn a_share_is_not_the_link_by_the_number_of_flows() {
        for flows in [1.0, 2.0, 5.0, 10.0] {
            let (granted, most) = settle(flows);
            let share = 970.0 / flows;
            assert!(
                (granted - share).abs() < 0.1 * share && most < 1.1 * share,
                "{flows} flows: {granted}, at most {most}"
            );
        }
    }

    #[test]
    fn nobody_is_granted_nothing_or_more_than_the_link() {
        let mut link = FairRate::new(1000.0, Time::ZERO);
        for round in 1..200 {
            for _ in 0..100_000 {
                link.on_interest();
            }
            assert!(link.on_data(Time::from_secs(round), Duration::from_millis(1), 1e9) >= 1);
        }
        for round in 200..2000 {
            assert!(link.on_data(Time::from_secs(round), Duration::from_millis(1), 0.0) <= 1000);
        }
        assert!(link.on_data(Time::from_secs(3000), Duration::from_millis(1), 0.0) >= 990);
    }
}
