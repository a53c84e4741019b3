//! The table of fetches in flight.

use crate::collapse::follower::{Follower, JoinResult, SliceFollower, SliceJoin};
use crate::collapse::in_flight::{FetchId, Head, InFlight, JoinRequest, Lead, Outcome, Phase};
use crate::collapse::vary_memory::VaryMemory;
use crate::limits;
use crate::outbox::{FollowerId, Outbox};
use crate::rfc::directives::Reload;
use crate::rfc::key::Key;
use crate::rfc::vary;
use crate::rfc::vary::Selector;
use crate::store::purge_table::Purged;
use hashbrown::HashTable;
use http::{HeaderMap, HeaderName};
use larder_units::Time;
use siphasher::sip::SipHasher13;

/// The result for a request that the store does not answer.
pub(crate) enum Join {
    /// Ask the origin; others may follow.
    Lead(Lead),
    Follow(Follower),
    /// Ask the origin; none may follow.
    Bypass,
}

/// The fetches in flight, and the keys whose requests do not wait for each other.
pub(crate) struct InFlightTable {
    /// By number. A fetch stays until its leader has finished and all its followers have joined or
    /// left.
    fetches: Vec<Option<InFlight>>,
    free: Vec<usize>,
    /// By key: the fetch that requests may join.
    table: HashTable<usize>,
    /// Numbers of followers that are not in use, below `follower_numbers`.
    free_followers: Vec<FollowerId>,
    follower_numbers: usize,
    /// By hash: the time until which its requests do not wait for each other.
    alone: Box<[(u64, Time)]>,
    vary: VaryMemory,
    /// The secret of the variants' hash.
    secret: [u8; 16],
}

/// The requests that may share one response: those for one key that get one variant of it.
#[derive(Clone, Copy)]
pub(crate) struct Sharers<'a> {
    pub key: &'a Key<'a>,
    pub variant: &'a Selector,
    /// The hash of both: [`InFlightTable::hash`].
    pub hash: u64,
}

impl InFlightTable {
    /// Returns an empty table. It remembers this many keys whose requests do not wait for each
    /// other, and the `Vary` fields of this many keys.
    pub(crate) fn new(alone_places: usize, vary_places: usize, secret: &[u8; 16]) -> InFlightTable {
        InFlightTable {
            fetches: Vec::new(),
            free: Vec::new(),
            table: HashTable::new(),
            free_followers: Vec::new(),
            follower_numbers: 0,
            alone: vec![(0, Time::ZERO); alone_places].into_boxed_slice(),
            vary: VaryMemory::new(vary_places),
            secret: *secret,
        }
    }

    /// Lets a request lead or follow. A request that must not lead (`may_lead`) follows or
    /// bypasses.
    pub(crate) fn join(
        &mut self,
        sharers: Sharers<'_>,
        asking: &JoinRequest<'_>,
        may_lead: bool,
    ) -> Join {
        let JoinRequest {
            directives,
            reason,
            now,
            ..
        } = *asking;
        if self.is_alone(sharers.hash, now.time) {
            return Join::Bypass;
        }
        if let Some(number) = self.listed(sharers) {
            let in_flight = self.in_flight(number);
            if in_flight.accepts_follower(asking) {
                let requested = in_flight.requested;
                let (reload, directives) = (directives.reload(), directives.without_reload());
                let id = self.follower_id();
                let place = self.in_flight_mut(number).add_follower(id);
                let fetch = FetchId(number);
                return Join::Follow(Follower {
                    fetch,
                    id,
                    place,
                    reason,
                    directives,
                    reload,
                    now,
                    requested,
                });
            }
            if !in_flight.yields_to(asking) {
                return Join::Bypass;
            }
        }
        if may_lead {
            Join::Lead(self.lead_for(sharers, asking.passed, directives.reload(), now.time))
        } else {
            Join::Bypass
        }
    }

    /// Returns the variant of a request for the key with this hash: its values of the fields by
    /// which responses vary. `stored` is the selector of the newest stored response.
    pub(crate) fn variant(
        &self,
        hash: u64,
        stored: Option<&[u8]>,
        request: &HeaderMap,
        now: Time,
    ) -> Selector {
        let mut names: Vec<HeaderName> = self.vary.names(hash, now).cloned().collect();
        names.extend(stored.into_iter().flat_map(vary::names_of));
        if names.is_empty() {
            Selector::default()
        } else {
            Selector::of_names(names, request)
        }
    }

    /// Returns the hash of a variant of the key with this hash. Requests choose the values, so it
    /// is keyed.
    pub(crate) fn hash(&self, hash: u64, variant: &Selector) -> u64 {
        match variant.as_bytes() {
            [] => hash,
            bytes => hash ^ SipHasher13::new_with_key(&self.secret).hash(bytes),
        }
    }

    /// Records the `Vary` of a response to a request for the key with this hash.
    pub(crate) fn learn_vary(&mut self, hash: u64, response: &HeaderMap, now: Time) {
        self.vary.learn(hash, response, now);
    }

    /// Records the names of the fields that selected a stored response.
    pub(crate) fn learn_selector(&mut self, hash: u64, selector: &Selector, now: Time) {
        self.vary
            .learn_names(hash, vary::names_of(selector.as_bytes()), now);
    }

    /// Records the variant of a fetch, which is now known. Its followers that get another one ask
    /// again when they are woken.
    pub(crate) fn set_variant(&mut self, lead: &Lead, variant: Selector, hash: u64) {
        let number = lead.0.0;
        if self.in_flight(number).variant == variant {
            return;
        }
        let former = self.in_flight(number).hash;
        let was_listed = match self.table.find_entry(former, |other| *other == number) {
            Ok(entry) => {
                entry.remove();
                true
            }
            Err(_) => false,
        };
        let in_flight = self.in_flight_mut(number);
        (in_flight.variant, in_flight.hash) = (variant, hash);
        let in_flight = self.in_flight(number);
        let is_same = |other: &usize| {
            let other = self.in_flight(*other);
            (&other.key, &other.variant) == (&in_flight.key, &in_flight.variant)
        };
        if was_listed && self.table.find(hash, is_same).is_none() {
            self.list(number);
        }
    }

    /// Wakes the followers of a fetch that continues, because its variant is known.
    pub(crate) fn wake_waiting(&self, lead: &Lead, outbox: &mut Outbox) {
        self.in_flight(lead.0.0).wake_waiting(outbox);
    }

    /// Returns true if a fetch for these requests is in flight.
    pub(crate) fn is_under_way(&self, sharers: Sharers<'_>) -> bool {
        self.listed(sharers).is_some()
    }

    /// Begins a fetch for a request that has passed this many caches with our name.
    pub(crate) fn lead(&mut self, sharers: Sharers<'_>, passed: usize, requested: Time) -> Lead {
        self.lead_for(sharers, passed, Reload::No, requested)
    }

    fn lead_for(
        &mut self,
        sharers: Sharers<'_>,
        passed: usize,
        reload: Reload,
        requested: Time,
    ) -> Lead {
        if let Some(former) = self.listed(sharers)
            && let Ok(entry) = self
                .table
                .find_entry(sharers.hash, |other| *other == former)
        {
            entry.remove();
        }
        let Sharers { key, variant, hash } = sharers;
        let in_flight = InFlight::new(
            hash,
            key.to_bytes(),
            variant.clone(),
            passed,
            reload,
            requested,
        );
        let number = self.free.pop().unwrap_or_else(|| {
            self.fetches.push(None);
            self.fetches.len() - 1
        });
        self.fetches[number] = Some(in_flight);
        self.list(number);
        Lead(FetchId(number))
    }

    fn list(&mut self, number: usize) {
        let (fetches, hash) = (&self.fetches, self.in_flight(number).hash);
        self.table.insert_unique(hash, number, |number| {
            fetches[*number].as_ref().map_or(0, |other| other.hash)
        });
    }

    /// Removes the key's fetches from the table. No request joins them any more, and their
    /// followers stay.
    pub(crate) fn forget(&mut self, key: &Key<'_>) {
        let fetches = &self.fetches;
        self.table.retain(|number| {
            fetches[*number]
                .as_ref()
                .is_some_and(|other| !key.is(&other.key))
        });
    }

    /// Removes the fetches that a purge names from the table. The tags of a response are not known
    /// before it begins.
    pub(crate) fn forget_purged(&mut self, what: Purged<'_>) {
        let fetches = &self.fetches;
        self.table.retain(|number| {
            fetches[*number]
                .as_ref()
                .is_some_and(|other| !other.is_named_by(what))
        });
    }

    /// Returns the number of followers that wait for the head.
    pub(crate) fn waiting(&self, lead: &Lead) -> usize {
        self.in_flight(lead.0.0).waiting()
    }

    /// Records that the head has arrived: followers read the body while it arrives.
    pub(crate) fn start(&mut self, lead: &Lead, head: Head, outbox: &mut Outbox) {
        self.in_flight_mut(lead.0.0)
            .change(Phase::Streaming(Box::new(head)), outbox);
    }

    /// Records that the body is no longer collected: no further request may follow.
    pub(crate) fn close(&mut self, lead: &Lead) {
        if let Phase::Streaming(head) = &mut self.in_flight_mut(lead.0.0).phase {
            head.is_open = false;
        }
    }

    /// Ends a fetch, and removes it from the table.
    pub(crate) fn finish(&mut self, lead: Lead, outcome: Outcome, outbox: &mut Outbox) {
        let number = lead.0.0;
        let in_flight = self.in_flight_mut(number);
        in_flight.change(Phase::Finished(outcome), outbox);
        let hash = in_flight.hash;
        if let Ok(entry) = self.table.find_entry(hash, |other| *other == number) {
            entry.remove();
        }
        self.free_if_unused(number);
    }

    /// Returns the result for a follower; it waits if there is none.
    pub(crate) fn resolve(&mut self, follower: Follower, request: &HeaderMap) -> JoinResult {
        match follower.result(self.in_flight(follower.fetch.0), request) {
            Some(result) => {
                self.leave(follower);
                result
            }
            None => JoinResult::Wait(follower),
        }
    }

    /// Returns the result for a follower of a slice; it waits if there is none.
    pub(crate) fn resolve_slice(&mut self, waiting: SliceFollower) -> SliceJoin {
        match waiting.result(self.in_flight(waiting.follower.fetch.0)) {
            Some(result) => {
                self.leave(waiting.follower);
                result
            }
            None => SliceJoin::Wait(waiting),
        }
    }

    /// Removes a follower, which joins, or does not wait any more.
    pub(crate) fn leave(&mut self, follower: Follower) {
        let number = follower.fetch.0;
        self.in_flight_mut(number).remove_follower(follower.place);
        self.free_followers.push(follower.id);
        self.free_if_unused(number);
    }

    /// Panics if two fetches of one variant accept followers, or a fetch or a follower is lost.
    pub(crate) fn check_invariants(&self) {
        let listed = self.table.iter().map(|number| self.in_flight(*number));
        let mut variants: Vec<(&[u8], &[u8])> = listed
            .map(|in_flight| {
                assert!(
                    !in_flight.is_finished(),
                    "a finished fetch accepts followers"
                );
                (&*in_flight.key, in_flight.variant.as_bytes())
            })
            .collect();
        variants.sort_unstable();
        assert!(
            variants.windows(2).all(|pair| pair[0] != pair[1]),
            "two fetches of one variant accept followers"
        );
        let fetches = self.fetches.iter().flatten();
        let followers: usize = fetches.clone().map(|in_flight| in_flight.followers).sum();
        assert_eq!(
            followers + self.free_followers.len(),
            self.follower_numbers,
            "a follower is lost"
        );
        assert_eq!(
            fetches.clone().count() + self.free.len(),
            self.fetches.len(),
            "a fetch is lost"
        );
        for in_flight in fetches {
            assert!(in_flight.waiting() <= in_flight.followers);
            assert!(
                in_flight.followers > 0 || !in_flight.is_finished(),
                "a fetch that is over stays"
            );
        }
    }

    /// Sets whether requests with this hash of key and variant wait for each other.
    pub(crate) fn set_alone(&mut self, hash: u64, alone: bool, now: Time) {
        let place = hash as usize % self.alone.len();
        let place = &mut self.alone[place];
        if alone {
            *place = (hash, now + limits::HIT_FOR_MISS_DURATION);
        } else if place.0 == hash {
            *place = (0, Time::ZERO);
        }
    }

    pub(crate) fn is_alone(&self, hash: u64, now: Time) -> bool {
        let (of, until) = self.alone[hash as usize % self.alone.len()];
        of == hash && now < until
    }

    /// Returns the number of the fetch that these requests may join.
    fn listed(&self, sharers: Sharers<'_>) -> Option<usize> {
        let is_theirs = |number: &usize| {
            let in_flight = self.in_flight(*number);
            sharers.key.is(&in_flight.key) && *sharers.variant == in_flight.variant
        };
        self.table.find(sharers.hash, is_theirs).copied()
    }

    fn follower_id(&mut self) -> FollowerId {
        self.free_followers.pop().unwrap_or_else(|| {
            self.follower_numbers += 1;
            FollowerId(self.follower_numbers - 1)
        })
    }

    fn free_if_unused(&mut self, number: usize) {
        let in_flight = self.in_flight(number);
        if in_flight.followers == 0 && in_flight.is_finished() {
            self.fetches[number] = None;
            self.free.push(number);
        }
    }

    fn in_flight(&self, number: usize) -> &InFlight {
        self.fetches[number]
            .as_ref()
            .expect("whoever has the number keeps the fetch")
    }

    fn in_flight_mut(&mut self, number: usize) -> &mut InFlight {
        self.fetches[number]
            .as_mut()
            .expect("whoever has the number keeps the fetch")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::now::Now;
    use crate::rfc::cache_status::ForwardReason;
    use crate::rfc::directives::RequestDirectives;

    const HASH: u64 = 7;

    fn join(table: &mut InFlightTable) -> Join {
        let now = Now {
            time: Time::ZERO,
            unix_seconds: 0,
        };
        let (directives, reason) = (RequestDirectives::default(), ForwardReason::UriMiss);
        let asking = JoinRequest {
            headers: &HeaderMap::new(),
            directives,
            reason,
            passed: 0,
            now,
        };
        let sharers = Sharers {
            key: &Key::new("http", "h", "/"),
            variant: &Selector::default(),
            hash: HASH,
        };
        table.join(sharers, &asking, true)
    }

    fn follow(table: &mut InFlightTable) -> Follower {
        let Join::Follow(follower) = join(table) else {
            panic!("a fetch is in flight")
        };
        let JoinResult::Wait(follower) = table.resolve(follower, &HeaderMap::new()) else {
            panic!("it is asking")
        };
        table.check_invariants();
        follower
    }

    /// Failure: clients come and go while one request hangs, and each leaves an unused entry
    /// behind.
    #[test]
    fn places_of_those_who_have_gone_are_taken_again() {
        let (mut table, mut outbox) = (InFlightTable::new(16, 16, &[7; 16]), Outbox::default());
        let Join::Lead(lead) = join(&mut table) else {
            panic!()
        };
        let stays = follow(&mut table);
        for _ in 0..1000 {
            let (one, other) = (follow(&mut table), follow(&mut table));
            assert_eq!(table.waiting(&lead), 3);
            table.leave(one);
            table.leave(other);
        }
        assert_eq!((table.waiting(&lead), table.follower_numbers), (1, 3));
        table.finish(lead, Outcome::Again, &mut outbox);
        assert_eq!(outbox.woken, [stays.id()]);
        assert!(matches!(
            table.resolve(stays, &HeaderMap::new()),
            JoinResult::Again(_)
        ));
        table.check_invariants();
        assert!(
            table.fetches.iter().all(Option::is_none),
            "the fetch is over"
        );
    }

    /// Failure: a request joins a fetch whose leader has given up, and waits for ever; or a fetch
    /// is freed while a follower has its number, and the follower joins another one.
    #[test]
    fn a_fetch_stays_for_its_followers_only() {
        let (mut table, mut outbox) = (InFlightTable::new(16, 16, &[7; 16]), Outbox::default());
        let Join::Lead(first) = join(&mut table) else {
            panic!()
        };
        let follower = follow(&mut table);
        table.finish(first, Outcome::Again, &mut outbox);
        let Join::Lead(second) = join(&mut table) else {
            panic!("nothing is in flight")
        };
        assert!(matches!(
            table.resolve(follower, &HeaderMap::new()),
            JoinResult::Again(_)
        ));
        let other = follow(&mut table);
        assert_eq!(table.fetches.len(), 2);
        table.leave(other);
        table.finish(second, Outcome::Again, &mut outbox);
        table.check_invariants();
    }
}
