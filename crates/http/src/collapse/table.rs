//! The table of fetches in flight.

use crate::collapse::follower::Follower;
use crate::collapse::in_flight::{InFlight, JoinRequest, Lead};
use crate::limits;
use crate::rfc::directives::Reload;
use crate::rfc::key::Key;
use hashbrown::HashTable;
use larder_units::Time;
use std::sync::Arc;

/// The possibilities of a request that the store does not answer.
pub(crate) enum Join {
    /// Ask the origin; others may follow.
    Lead(Lead),
    Follow(Follower),
    /// Ask the origin; none may follow.
    Bypass,
}

/// The fetches in flight, and the keys whose requests do not wait for each other.
pub(crate) struct InFlightTable {
    table: HashTable<Entry>,
    /// Fetches that were given up stay in the table until their key is requested again, or until
    /// the table has grown to this size.
    sweep_at: usize,
    /// By hash: the time until which its requests do not wait for each other.
    alone: Box<[(u64, Time)]>,
}

struct Entry {
    hash: u64,
    key: Box<[u8]>,
    in_flight: Arc<InFlight>,
}

impl InFlightTable {
    pub(crate) fn new() -> InFlightTable {
        let alone = vec![(0, Time::ZERO); limits::ALONE_PLACES].into_boxed_slice();
        InFlightTable { table: HashTable::new(), sweep_at: limits::IN_FLIGHT_SWEPT, alone }
    }

    /// Lets a request lead or follow. A request that must not lead (`may_lead`) follows or
    /// bypasses.
    pub(crate) fn join(&mut self, key: &Key<'_>, hash: u64, asking: &JoinRequest<'_>, may_lead: bool) -> Join {
        let JoinRequest { directives, reason, now, .. } = *asking;
        if self.is_alone(hash, now.time) {
            return Join::Bypass;
        }
        if let Some(entry) = self.table.find(hash, |entry| key.is(&entry.key)) {
            if entry.in_flight.accepts_follower(asking) {
                let in_flight = Arc::clone(&entry.in_flight);
                let (reload, directives) = (directives.reload(), directives.without_reload());
                return Join::Follow(Follower { in_flight, reason, directives, reload, now, ticket: None });
            }
            if !entry.in_flight.yields_to(asking) {
                return Join::Bypass;
            }
        }
        if may_lead {
            Join::Lead(self.lead_for(key, hash, asking.passed, directives.reload(), now.time))
        } else {
            Join::Bypass
        }
    }

    /// Returns true if a fetch for the key is in flight.
    pub(crate) fn is_under_way(&self, key: &Key<'_>, hash: u64) -> bool {
        self.table.find(hash, |entry| key.is(&entry.key)).is_some_and(|entry| !entry.in_flight.is_finished())
    }

    /// Begins a fetch for a request that has passed so many caches of our name.
    pub(crate) fn lead(&mut self, key: &Key<'_>, hash: u64, passed: usize, requested: Time) -> Lead {
        self.lead_for(key, hash, passed, Reload::No, requested)
    }

    fn lead_for(&mut self, key: &Key<'_>, hash: u64, passed: usize, reload: Reload, requested: Time) -> Lead {
        self.forget(key, hash);
        if self.table.len() >= self.sweep_at {
            self.table.retain(|entry| !entry.in_flight.is_finished());
            self.sweep_at = limits::IN_FLIGHT_SWEPT.max(self.table.len() * 2);
        }
        let in_flight = Arc::new(InFlight::new(passed, reload, requested));
        let entry = Entry { hash, key: key.to_bytes(), in_flight: Arc::clone(&in_flight) };
        self.table.insert_unique(hash, entry, |entry| entry.hash);
        Lead(in_flight)
    }

    /// Removes the key's fetch from the table: no request joins it any more, and its followers
    /// stay.
    pub(crate) fn forget(&mut self, key: &Key<'_>, hash: u64) {
        if let Ok(entry) = self.table.find_entry(hash, |entry| key.is(&entry.key)) {
            entry.remove();
        }
    }

    /// Panics if two fetches of one key are in the table.
    pub(crate) fn check_invariants(&self) {
        let mut keys: Vec<&[u8]> = self.table.iter().map(|entry| &*entry.key).collect();
        keys.sort_unstable();
        assert!(keys.windows(2).all(|pair| pair[0] != pair[1]), "two fetches of one key accept followers");
    }

    /// Removes all fetches from the table.
    pub(crate) fn forget_all(&mut self) {
        self.table.clear();
    }

    /// Removes a finished fetch.
    pub(crate) fn end(&mut self, hash: u64, in_flight: &Arc<InFlight>) {
        if let Ok(entry) = self.table.find_entry(hash, |entry| Arc::ptr_eq(&entry.in_flight, in_flight)) {
            entry.remove();
        }
    }

    /// Sets whether requests for the key wait for each other.
    pub(crate) fn set_alone(&mut self, hash: u64, alone: bool, now: Time) {
        let place = &mut self.alone[hash as usize % limits::ALONE_PLACES];
        if alone {
            *place = (hash, now + limits::ALONE);
        } else if place.0 == hash {
            *place = (0, Time::ZERO);
        }
    }

    pub(crate) fn is_alone(&self, hash: u64, now: Time) -> bool {
        let (of, until) = self.alone[hash as usize % limits::ALONE_PLACES];
        of == hash && now < until
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collapse::in_flight::Outcome;
    use crate::now::Now;
    use crate::rfc::cache_status::ForwardReason;
    use crate::rfc::directives::RequestDirectives;
    use http::HeaderMap;
    use std::task::{Context, Waker};

    /// Failure: clients come and go while one request hangs, and each leaves a place behind.
    #[test]
    fn places_of_those_who_have_gone_are_taken_again() {
        let mut in_flight_table = InFlightTable::new();
        let (key, headers) = (Key::new("http", "h", "/"), HeaderMap::new());
        let now = Now { time: Time::ZERO, unix_seconds: 0 };
        let (directives, reason) = (RequestDirectives::default(), ForwardReason::UriMiss);
        let asking = JoinRequest { headers: &headers, directives, reason, passed: 0, now };
        let Join::Lead(lead) = in_flight_table.join(&key, 7, &asking, true) else { panic!() };
        let follower = |in_flight_table: &mut InFlightTable| {
            let Join::Follow(mut follower) = in_flight_table.join(&key, 7, &asking, true) else { panic!() };
            assert!(follower.poll_join(&headers, &mut Context::from_waker(Waker::noop())).is_pending());
            follower
        };
        let stays = follower(&mut in_flight_table);
        for _ in 0..1000 {
            let (one, other) = (follower(&mut in_flight_table), follower(&mut in_flight_table));
            assert_eq!(lead.0.waiting(), 3);
            drop((one, other));
        }
        assert_eq!((lead.0.waiting(), lead.0.lock().waiting.len()), (1, 3));
        lead.0.finish(Outcome::Again);
        drop(stays);
        assert_eq!(lead.0.waiting(), 0);
    }
}
