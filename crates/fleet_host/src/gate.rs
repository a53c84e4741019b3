//! Which stored responses a lookup may serve without the origin.

use crate::clock;
use crate::config::OnPartition;
use larder_units::Time;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The state of the proof of freshness, for lookups of all threads.
///
/// While a proof holds, all stored responses are trusted. Otherwise those are that were requested
/// within `max_lag`: a purge that names one of them was acknowledged less than `max_lag` ago. So a
/// node without the log asks the origin at most once per object and `max_lag`.
#[derive(Debug)]
pub(crate) struct Gate {
    max_lag: Duration,
    on_partition: OnPartition,
    /// The end of the proof, in nanoseconds of [`clock::now`]; 0 without one.
    fresh_until: AtomicU64,
    /// The time of this clock less that of the cache, in nanoseconds, when they were last compared.
    /// It grows while the machine is suspended.
    offset: AtomicU64,
    /// Responses that were requested before are not trusted without a proof, in the cache's time:
    /// the machine was suspended since.
    floor: AtomicU64,
    /// Whether the node has left the log, and executes no purge of it any more.
    is_closed: AtomicBool,
}

/// Two clocks that are read one after the other differ by less, if the machine runs.
const SUSPENDED: Duration = Duration::from_secs(1);

impl Gate {
    /// A node without a proof.
    pub(crate) fn new(max_lag: Duration, on_partition: OnPartition) -> Gate {
        Gate {
            max_lag,
            on_partition,
            fresh_until: AtomicU64::new(0),
            offset: AtomicU64::new(0),
            // Responses of an earlier process count as requested at 0.
            floor: AtomicU64::new(1),
            is_closed: AtomicBool::new(false),
        }
    }

    /// Sets the end of the proof. `of_cache` is the present time of the cache.
    pub(crate) fn set(&self, fresh_until: Option<Time>, now: Time, of_cache: Time) {
        self.compare(now, of_cache);
        let until = fresh_until.map_or(0, Time::nanos);
        self.fresh_until.store(until, Ordering::Release);
    }

    /// Trusts no stored response from now on, or again: the node has left the log, and other nodes
    /// count it as gone, or its new process as its only one.
    pub(crate) fn set_closed(&self, is_closed: bool) {
        self.is_closed.store(is_closed, Ordering::Release);
    }

    /// Returns the time since which responses are trusted: see
    /// [`Fleet::trusted_since`](larder_proxy::Fleet::trusted_since).
    pub(crate) fn trusted_since(&self, of_cache: Time) -> Time {
        if self.on_partition == OnPartition::Serve {
            return Time::ZERO;
        }
        self.at(clock::now(), of_cache)
    }

    fn at(&self, now: Time, of_cache: Time) -> Time {
        if self.is_closed.load(Ordering::Acquire) {
            return of_cache;
        }
        if now.nanos() <= self.fresh_until.load(Ordering::Acquire) {
            return Time::ZERO;
        }
        self.compare(now, of_cache);
        let lag = u64::try_from(self.max_lag.as_nanos()).unwrap_or(u64::MAX);
        let recent = of_cache.nanos().saturating_sub(lag);
        Time::from_nanos(recent.max(self.floor.load(Ordering::Acquire)))
    }

    /// Raises the floor if the machine was suspended since the last call.
    fn compare(&self, now: Time, of_cache: Time) {
        let offset = now.nanos().saturating_sub(of_cache.nanos());
        let before = self.offset.swap(offset, Ordering::AcqRel);
        if before != 0 && offset > before.saturating_add(SUSPENDED.as_nanos() as u64) {
            self.floor.fetch_max(of_cache.nanos(), Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAG: Duration = Duration::from_secs(30);

    fn gate() -> Gate {
        Gate::new(LAG, OnPartition::Revalidate)
    }

    fn seconds(seconds: u64) -> Time {
        Time::from_secs(seconds)
    }

    /// Failure: a node serves what it stored in an earlier process, or longer than a proof holds.
    #[test]
    fn a_node_without_a_proof_trusts_what_may_be_purged() {
        let gate = gate();
        // The machine has run for 1000 s, the cache for 5 s.
        assert_eq!(gate.at(seconds(1005), seconds(5)), Time::from_nanos(1));
        assert_eq!(gate.at(seconds(1100), seconds(100)), seconds(70));
        gate.set(Some(seconds(1130)), seconds(1100), seconds(100));
        assert_eq!(gate.at(seconds(1130), seconds(130)), Time::ZERO);
        assert_eq!(gate.at(seconds(1131), seconds(131)), seconds(101));
        gate.set(None, seconds(1132), seconds(132));
        assert_eq!(gate.at(seconds(1132), seconds(132)), seconds(102));
        // A node that has handed over trusts nothing, whatever proof it had.
        gate.set(Some(seconds(1200)), seconds(1133), seconds(133));
        gate.set_closed(true);
        assert_eq!(gate.at(seconds(1133), seconds(133)), seconds(133));
        gate.set_closed(false);
        assert_eq!(gate.at(seconds(1133), seconds(133)), Time::ZERO);
        let serves = Gate::new(LAG, OnPartition::Serve);
        assert_eq!(serves.trusted_since(seconds(5)), Time::ZERO);
    }

    /// Failure: after the machine was suspended for an hour, a response that was requested just
    /// before counts as requested just now.
    #[test]
    fn a_suspended_machine_takes_old_responses_for_new_ones() {
        let gate = gate();
        gate.set(Some(seconds(1130)), seconds(1100), seconds(100));
        // An hour later by the one clock, a second later by the other.
        assert_eq!(gate.at(seconds(4701), seconds(101)), seconds(101));
        // What is requested from then on is trusted.
        assert_eq!(gate.at(seconds(4711), seconds(111)), seconds(101));
        assert_eq!(gate.at(seconds(4750), seconds(150)), seconds(120));
    }
}
