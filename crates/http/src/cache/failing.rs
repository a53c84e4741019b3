//! The keys whose origin fails. Without this table, each client of a stale response would wait for
//! the origin again, up to a time limit, before it gets that response (RFC 5861 §4). With it, only
//! the first one waits. Then the response is served at once, and the origin is tried in the
//! background.

use crate::limits;
use larder_units::Time;
use std::time::Duration;

/// The time for which a failure is remembered. Tries renew it, so it ends if nothing is requested.
const FAILURE_REMEMBERED: Duration = Duration::from_secs(60);

/// The keys with recent failures of their origin, by hash.
pub(crate) struct FailingKeys {
    places: Box<[Place]>,
}

#[derive(Clone, Copy, Default)]
struct Place {
    hash: u64,
    /// The time of the last failure.
    failed: Time,
    /// The time from which the origin is tried again.
    next_try: Time,
    /// True if there was no response; false if it was an error status.
    is_disconnected: bool,
    is_used: bool,
}

/// The state of a key whose origin fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failing {
    pub is_disconnected: bool,
    /// True if it is time to try the origin again.
    pub is_try_due: bool,
}

impl FailingKeys {
    pub(crate) fn new(places: usize) -> FailingKeys {
        FailingKeys {
            places: vec![Place::default(); places].into_boxed_slice(),
        }
    }

    /// Records that the origin has failed for a key.
    pub(crate) fn note(&mut self, hash: u64, is_disconnected: bool, now: Time) {
        let next_try = now + limits::FAILURE_RETRY;
        *self.place(hash) = Place {
            hash,
            failed: now,
            next_try,
            is_disconnected,
            is_used: true,
        };
    }

    /// Records that the origin has answered for a key.
    pub(crate) fn clear(&mut self, hash: u64) {
        let place = self.place(hash);
        if place.hash == hash {
            place.is_used = false;
        }
    }

    /// Returns the failure of a key's origin, if there is one. If a try is due, the caller makes
    /// it.
    pub(crate) fn look_up(&mut self, hash: u64, now: Time) -> Option<Failing> {
        let place = self.place(hash);
        if !place.is_used || place.hash != hash || place.failed + FAILURE_REMEMBERED <= now {
            return None;
        }
        let is_try_due = place.next_try <= now;
        if is_try_due {
            place.next_try = now + limits::FAILURE_RETRY;
        }
        Some(Failing {
            is_disconnected: place.is_disconnected,
            is_try_due,
        })
    }

    fn place(&mut self, hash: u64) -> &mut Place {
        let index = hash as usize % self.places.len();
        &mut self.places[index]
    }
}
