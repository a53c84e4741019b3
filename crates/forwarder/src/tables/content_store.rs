//! The Content Store: Data packets by name, in bytes, under the policy engine.
//!
//! The engine decides which packets are stored and evicted; this file has the index. Exact names
//! are found by keyed hash. Interests with CanBePrefix use a tree that keeps names with a common
//! prefix together (`name_tree.rs`); names are entered into it when an Interest asks for a prefix.
//! Each name has one Data, the last that arrived. An Interest with another implicit digest is a
//! miss, and the Data that answers it replaces the stored one.
//!
//! Admission judges the *request*: Data for a prefix Interest is judged by the frequency of
//! requests for that prefix. While there is free room, every Data is stored
//! ([`Engine::admit_or_fill`]).

use crate::face::FaceId;
use crate::limits::{
    CONTENT_STORE_ENTRY_BYTES, ERASURE_GOES_ON, ERASURES_GOING_ON, LOOK_UPS_THAT_ENTER,
    NAMES_ENTERED_A_LOOK_UP, NAMES_ENTERED_AT_ONCE, NAMES_ENTERED_TO_ERASE, NAMES_PASSED_TO_ERASE,
    OBSERVATIONS,
};
use crate::tables::name_hash::NameHasher;
use crate::tables::name_tree::{Key, NameTree};
use crate::tables::stored_packet::{Spare, StoredPacket};
use crate::verification::Verdict;
use larder_packet::{Data, Interest, NameRef};
use larder_policy::observe::{Label, Observed, Observer, Outcome, Scope};
use larder_policy::{Engine, KeyedHashes, Path, Slot, SlotIndex, grow, prefetch};
use larder_units::{ByteSize, Time};
use std::ops::Range;
use std::time::Duration;

/// A cache line.
#[repr(align(64))]
pub(crate) struct Entry {
    hash: u64,
    /// The whole packet.
    wire: StoredPacket,
    /// The range of the name's TLV-VALUE in `wire`.
    name: Range<u32>,
    /// The Data satisfies MustBeFresh before this time.
    pub(crate) fresh_until: Time,
    pub(crate) stored: Time,
    /// The number of Interests that it answered.
    pub(crate) hits: u32,
}

impl Entry {
    fn new(now: Time, hash: u64, data: &Data<'_>, wire: StoredPacket) -> Self {
        let name = data.name_range();
        Entry {
            hash,
            wire,
            name: name.start as u32..name.end as u32,
            fresh_until: now + data.freshness.unwrap_or_default(),
            stored: now,
            hits: 0,
        }
    }

    /// Bytes of the packet.
    pub(crate) fn packet_bytes(&self) -> usize {
        self.wire.len()
    }

    pub(crate) fn name(&self) -> NameRef<'_> {
        NameRef::from_value(self.name_bytes()).unwrap_or_default()
    }

    /// The name's TLV-VALUE.
    #[inline]
    pub(crate) fn name_bytes(&self) -> &[u8] {
        &self.wire[self.name.start as usize..self.name.end as usize]
    }
}

/// The results of Content Store lookups and insertions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContentStoreCounters {
    /// Interests answered.
    pub hits: u64,
    /// Lookups that missed.
    pub misses: u64,
    /// Data stored.
    pub insertions: u64,
    /// Data that the policy rejected.
    pub rejections: u64,
    /// Data that the policy admitted, without a trusted signature.
    pub untrusted: u64,
    /// Data that the policy admitted, but that could not be verified for lack of time.
    pub unverified: u64,
    /// Data that was evicted.
    pub evictions: u64,
    /// The sum of the times for which the evicted Data was stored.
    pub evicted_ages: Duration,
}

impl ContentStoreCounters {
    pub(crate) fn add(&mut self, other: &ContentStoreCounters) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.insertions += other.insertions;
        self.rejections += other.rejections;
        self.untrusted += other.untrusted;
        self.unverified += other.unverified;
        self.evictions += other.evictions;
        self.evicted_ages += other.evicted_ages;
    }
}

/// The position at which an erasure continues.
struct Erasing {
    /// The face of the client that requested it. If another client erases the same prefix, it also
    /// means Data that was stored after this erasure began, so its erasure starts at the beginning.
    client: FaceId,
    prefix: Box<[u8]>,
    /// The last name that was looked at.
    last: Key,
    /// Until then: a command that comes later means what has come meanwhile, too.
    until: Time,
}

pub(crate) struct ContentStore {
    hasher: NameHasher,
    engine: Engine,
    /// Reports a sample of the requests.
    pub(crate) observer: Observer,
    /// True if each packet takes 1 of the capacity, and not its bytes.
    counts_packets: bool,
    /// By the engine's slot.
    entries: Vec<Option<Entry>>,
    index: SlotIndex<KeyedHashes>,
    tree: NameTree,
    /// Erasures that stopped at the limit of names per command, oldest first.
    erasing: Vec<Erasing>,
    /// The number of further lookups that also enter names into the tree. An Interest for a prefix
    /// sets it.
    look_ups_that_enter: u32,
    spare: Spare,
    victims: Vec<Slot>,
    /// Entries that will probably leave for the Data of the present batch.
    leaving: Vec<Slot>,
    /// The evictions before the last batch of Data.
    evictions_before: u64,
    pub(crate) counters: ContentStoreCounters,
    /// True if new Data is stored. An operator sets this.
    pub(crate) admits: bool,
    /// True if stored Data answers Interests. An operator sets this.
    pub(crate) serves: bool,
}

impl ContentStore {
    /// `hasher` must be the one that made the hashes of the names.
    pub(crate) fn new(hasher: NameHasher, engine: Engine, counts_packets: bool) -> Self {
        ContentStore {
            hasher,
            engine,
            // The hashes of names have a secret.
            observer: Observer::new(0, OBSERVATIONS),
            counts_packets,
            entries: Vec::new(),
            index: SlotIndex::default(),
            tree: NameTree::default(),
            erasing: Vec::new(),
            look_ups_that_enter: 0,
            spare: Spare::default(),
            victims: Vec::new(),
            leaving: Vec::new(),
            evictions_before: 0,
            counters: ContentStoreCounters::default(),
            admits: true,
            serves: true,
        }
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn engine_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// Returns the slot of the Data that answers this Interest, and reports the request to the
    /// policy. `hash` is of the Interest's name without an implicit digest.
    pub(crate) fn look_up(
        &mut self,
        now: Time,
        hash: u64,
        interest: &Interest<'_>,
    ) -> Option<Slot> {
        if self.look_ups_that_enter > 0 {
            self.look_ups_that_enter -= 1;
            self.enter_names(NAMES_ENTERED_A_LOOK_UP);
        }
        let (name, digest) = interest.name.strip_implicit_digest();
        let fits = |entry: &Entry| {
            // Unlike other deadlines, the end of freshness is not fresh: Data without
            // FreshnessPeriod never is.
            (!interest.must_be_fresh || now < entry.fresh_until)
                && digest.is_none_or(|digest| {
                    Data::decode(&entry.wire).is_ok_and(|data| data.implicit_digest() == digest)
                })
        };
        let found = if !self.serves {
            None
        } else if interest.can_be_prefix && digest.is_none() {
            self.under_prefix(name, fits)
        } else {
            self.exact(hash, name)
                .filter(|slot| self.entry(*slot).is_some_and(fits))
        };
        match found {
            Some(slot) => {
                self.counters.hits += 1;
                let entry = self.entries[slot.index()].as_mut()?;
                entry.hits = entry.hits.saturating_add(1);
                self.engine.hit(slot, entry.hash, now);
                let bytes = entry.wire.len() as u64;
                let size = weight(self.counts_packets, &entry.wire);
                self.observer.hit(entry.hash, bytes, |place| Observed {
                    now,
                    place,
                    variant: 0,
                    size,
                    bytes,
                    outcome: Outcome::Hit,
                    lifetime: Data::decode(&entry.wire)
                        .ok()
                        .and_then(|data| data.freshness)
                        .unwrap_or_default(),
                    any_age: !interest.must_be_fresh,
                    validates: false,
                    label: None,
                });
                Some(slot)
            }
            None => {
                self.counters.misses += 1;
                self.engine.miss(hash, now);
                None
            }
        }
    }

    /// The Data in a slot.
    pub(crate) fn wire(&self, slot: Slot) -> Option<StoredPacket> {
        self.entry(slot).map(|entry| entry.wire.clone())
    }

    pub(crate) fn entry(&self, slot: Slot) -> Option<&Entry> {
        self.entries.get(slot.index())?.as_ref()
    }

    /// The Data of exactly this name.
    #[inline]
    pub(crate) fn exact(&self, hash: u64, name: NameRef<'_>) -> Option<Slot> {
        self.by_hash(hash, |entry| {
            entry.hash == hash && entry.name_bytes() == name.as_bytes()
        })
    }

    /// The Data that `is` recognises among those that the index has for this hash.
    #[inline]
    pub(crate) fn by_hash(&self, hash: u64, is: impl Fn(&Entry) -> bool) -> Option<Slot> {
        self.index
            .find(hash, |slot| self.entry(slot).is_some_and(&is))
    }

    /// Every Data, in no order.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> {
        let used = self
            .entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.is_some());
        used.map(|(index, _)| Slot::new(index as u32))
    }

    fn under_prefix(&mut self, prefix: NameRef<'_>, fits: impl Fn(&Entry) -> bool) -> Option<Slot> {
        self.enter_names(NAMES_ENTERED_AT_ONCE);
        self.look_ups_that_enter = LOOK_UPS_THAT_ENTER;
        let entries = &self.entries;
        let is_under =
            |entry: &Entry| entry.name_bytes().starts_with(prefix.as_bytes()) && fits(entry);
        let mut near = self.tree.near(&self.hasher, prefix).take(MOST_UNDER_PREFIX);
        near.find(|slot| entries[slot.index()].as_ref().is_some_and(is_under))
    }

    /// Enters up to `most` of the names that wait for it into the tree.
    fn enter_names(&mut self, most: usize) {
        let entries = &self.entries;
        let named = |slot: Slot| {
            entries[slot.index()]
                .as_ref()
                .map(|entry| (entry.name(), entry.hash))
        };
        self.tree.enter(&self.hasher, most, named);
    }

    /// A name of this hash will be looked up soon: begins to load its line of the index, and what
    /// the policy will read of it.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        self.index.prefetch(hash);
        self.engine.prefetch(hash);
    }

    /// Prefetches the entry, when the index is in the processor's cache. The slot is probably that
    /// of the name.
    #[inline]
    pub(crate) fn prefetch_entry(&self, hash: u64) -> Option<Slot> {
        let guess = self.index.guess(hash);
        if let Some(slot) = guess {
            prefetch(&self.entries, slot.index());
        }
        self.engine.prefetch_slot(hash, guess);
        guess
    }

    /// Prefetches the packet, when the entry is in the processor's cache.
    #[inline]
    pub(crate) fn prefetch_packet(&self, hash: u64, slot: Slot) {
        if let Some(entry) = self.entry(slot) {
            entry.wire.prefetch();
        }
        self.engine.prefetch_further(hash, Some(slot));
    }

    /// Prefetches the entries that will probably leave for `data` new ones: as many as left for the
    /// last batch, because the policy may want few of them.
    pub(crate) fn prefetch_victims(&mut self, data: usize) {
        let left = self.counters.evictions
            - std::mem::replace(&mut self.evictions_before, self.counters.evictions);
        self.leaving.clear();
        self.leaving
            .extend(self.engine.expected_victims().take(data.min(left as usize)));
        for slot in &self.leaving {
            prefetch(&self.entries, slot.index());
        }
    }

    /// Prefetches their lines of the index, and their packets, whose memory the new ones take.
    pub(crate) fn prefetch_victims_further(&self) {
        for entry in self.leaving.iter().filter_map(|slot| self.entry(*slot)) {
            self.index.prefetch(entry.hash);
            entry.wire.prefetch_whole();
        }
    }

    /// Stores the Data if the policy wants it, and it can be trusted; `asked` are the hashes of the
    /// Interests' names that it answers, `path` is its way, where known.
    pub(crate) fn insert(
        &mut self,
        now: Time,
        hash: u64,
        data: &Data<'_>,
        asked: impl Iterator<Item = u64>,
        path: Option<&Path>,
        judge: impl FnOnce() -> Verdict,
    ) -> bool {
        if let Some(slot) = self.exact(hash, data.name) {
            if self.refresh(now, slot, data) {
                return true;
            }
            // Data that is not trusted does not replace trusted Data.
            if !self.trusts(judge()) {
                return false;
            }
            self.remove(slot);
            return self.is_wanted(now, data, asked, path) && self.store(now, hash, data);
        }
        self.is_wanted(now, data, asked, path)
            && self.trusts(judge())
            && self.store(now, hash, data)
    }

    /// Reports Data that came for an Interest, before it is inserted. `must_be_fresh` is that of
    /// the Interest.
    pub(crate) fn observe_fetched(
        &mut self,
        now: Time,
        hash: u64,
        data: &Data<'_>,
        must_be_fresh: bool,
    ) {
        let (bytes, size) = (data.wire.len() as u64, self.weight(data.wire));
        let ContentStore {
            observer,
            index,
            entries,
            ..
        } = self;
        observer.fetched(hash, bytes, |place| {
            // It did not answer the Interest, though it is stored: another one would not, either.
            let is_name = |slot: Slot| {
                entries
                    .get(slot.index())
                    .and_then(Option::as_ref)
                    .is_some_and(|entry| entry.hash == hash)
            };
            let outcome = if index.find(hash, is_name).is_some() {
                Outcome::Reloaded
            } else {
                Outcome::Fetched
            };
            let label = Some(Box::new(Label {
                key: data.name.as_bytes().into(),
                tags: [].into(),
            }));
            let (lifetime, any_age) = (data.freshness.unwrap_or_default(), !must_be_fresh);
            Observed {
                now,
                place,
                variant: 0,
                size,
                bytes,
                outcome,
                lifetime,
                any_age,
                validates: false,
                label,
            }
        });
    }

    fn trusts(&mut self, verdict: Verdict) -> bool {
        match verdict {
            Verdict::Trusted => return true,
            Verdict::Untrusted => self.counters.untrusted += 1,
            Verdict::Unknown => self.counters.unverified += 1,
        }
        false
    }

    /// Returns true if the policy wants the Data, or if there is room that was never used. Free
    /// room does not count for policies that know the path, because they decide which cache of the
    /// path stores the copy.
    pub(crate) fn is_wanted(
        &mut self,
        now: Time,
        data: &Data<'_>,
        asked: impl Iterator<Item = u64>,
        path: Option<&Path>,
    ) -> bool {
        if !self.admits {
            self.counters.rejections += 1;
            return false;
        }
        let weight = self.weight(data.wire);
        let mut wanted = false;
        for id in asked {
            wanted |= match path {
                Some(path) => self.engine.admit_from(id, weight, now, path),
                None => self.engine.admit_or_fill(id, weight, now),
            };
        }
        self.counters.rejections += u64::from(!wanted);
        wanted
    }

    /// Sets the shared bytes of the Data that is processed next. Storing it then needs no copy.
    pub(crate) fn offer(&mut self, packet: Option<StoredPacket>) {
        self.spare.offer(packet);
    }

    /// Stores the Data, and evicts as many entries as it needs. Its name must not be stored.
    /// Returns false if it can never fit.
    pub(crate) fn store(&mut self, now: Time, hash: u64, data: &Data<'_>) -> bool {
        let Some(slot) = self.insert_by_force(now, hash, self.weight(data.wire)) else {
            self.counters.rejections += 1;
            return false;
        };
        self.counters.insertions += 1;
        let wire = self.spare.store(data.wire);
        self.keep(slot, Entry::new(now, hash, data, wire));
        true
    }

    /// Makes the entry fresh again if the same packet came again. Returns false if the name now has
    /// other Data.
    fn refresh(&mut self, now: Time, slot: Slot, data: &Data<'_>) -> bool {
        let Some(entry) = self.entries[slot.index()].as_mut() else {
            return false;
        };
        if *entry.wire != *data.wire {
            return false;
        }
        entry.fresh_until = now + data.freshness.unwrap_or_default();
        true
    }

    fn keep(&mut self, slot: Slot, entry: Entry) {
        self.tree.add(slot);
        self.index.insert(entry.hash, slot);
        if self.entries.len() <= slot.index() {
            if self.entries.capacity() <= slot.index() {
                grow(&mut self.entries, (2 * slot.index()).max(16));
            }
            self.entries.resize_with(slot.index() + 1, || None);
        }
        self.entries[slot.index()] = Some(entry);
    }

    /// Replaces the engine, and inserts the stored Data into the new one, the oldest first. The new
    /// engine knows nothing of the objects' popularity. If its capacity is smaller, it chooses the
    /// evicted objects.
    pub(crate) fn set_engine(&mut self, now: Time, engine: Engine) {
        self.engine = engine;
        let mut entries: Vec<Entry> = self.entries.drain(..).flatten().collect();
        entries.sort_by_key(|entry| entry.stored);
        self.index = SlotIndex::default();
        self.tree.clear();
        for entry in entries {
            match self.insert_by_force(now, entry.hash, self.weight(&entry.wire)) {
                Some(slot) => self.keep(slot, entry),
                None => self.counters.evictions += 1,
            }
        }
    }

    /// Returns a slot for an object, even if the admission policy rejects it. The engine evicts
    /// what it needs.
    fn insert_by_force(&mut self, now: Time, hash: u64, size: u64) -> Option<Slot> {
        let mut victims = std::mem::take(&mut self.victims);
        let slot = self.engine.insert(hash, size, now, &mut victims);
        self.forget_all(now, victims);
        slot
    }

    fn forget_all(&mut self, now: Time, mut victims: Vec<Slot>) {
        self.counters.evictions += victims.len() as u64;
        for victim in victims.drain(..) {
            if let Some(stored) = self.forget(victim) {
                self.counters.evicted_ages += now.since(stored);
            }
        }
        self.victims = victims;
    }

    /// Returns the entries under a prefix, in no order.
    pub(crate) fn under<'a>(&'a self, prefix: NameRef<'a>) -> impl Iterator<Item = &'a Entry> + 'a {
        let near = self
            .tree
            .under(&self.hasher, prefix)
            .filter_map(|slot| self.entry(slot));
        near.filter(move |entry| entry.name_bytes().starts_with(prefix.as_bytes()))
    }

    /// Makes the capacity `capacity`; what has to leave leaves at once.
    pub(crate) fn set_capacity(&mut self, now: Time, capacity: ByteSize) {
        let mut victims = std::mem::take(&mut self.victims);
        self.engine.set_capacity(capacity, &mut victims);
        self.forget_all(now, victims);
    }

    /// Erases up to `most` Data under a prefix; returns how many, and whether there are more, or
    /// may be among the names that it has not looked at: those that wait for the tree, and a deep
    /// prefix's siblings beyond [`NAMES_PASSED_TO_ERASE`], where the client's next erasure of this
    /// prefix goes on.
    pub(crate) fn erase(
        &mut self,
        now: Time,
        client: FaceId,
        prefix: NameRef<'_>,
        most: usize,
    ) -> (usize, bool) {
        self.observer
            .removed_all(Scope::Prefix(prefix.as_bytes().into()), false, now);
        self.enter_names(NAMES_ENTERED_TO_ERASE);
        self.look_ups_that_enter = LOOK_UPS_THAT_ENTER;
        self.erasing.retain(|erasing| now < erasing.until);
        let is_same =
            |erasing: &Erasing| erasing.client == client && *erasing.prefix == *prefix.as_bytes();
        let stopped = self
            .erasing
            .iter()
            .position(is_same)
            .map(|at| self.erasing.remove(at));
        let mut last = stopped.map(|erasing| erasing.last);
        let mut is_long = last.is_some();
        let entries = &self.entries;
        let is_under = |entry: &Entry| entry.name_bytes().starts_with(prefix.as_bytes());
        let (mut passed, mut found, mut more) = (0, Vec::new(), false);
        for (key, slot) in self.tree.near_behind(&self.hasher, prefix, last) {
            let is_under = entries[slot.index()].as_ref().is_some_and(is_under);
            is_long |= passed == NAMES_PASSED_TO_ERASE;
            more = passed == NAMES_PASSED_TO_ERASE || (is_under && found.len() == most);
            if more {
                break;
            }
            passed += 1;
            last = Some(key);
            found.extend(is_under.then_some(slot));
        }
        for slot in &found {
            self.remove(*slot);
        }
        // A name that waits now may be entered in front.
        let is_whole = self.tree.is_whole();
        let goes_on = last.filter(|_| more && is_long && is_whole);
        if let Some(last) = goes_on {
            if self.erasing.len() == ERASURES_GOING_ON {
                self.erasing.remove(0);
            }
            let until = now + ERASURE_GOES_ON;
            self.erasing.push(Erasing {
                client,
                prefix: prefix.as_bytes().into(),
                last,
                until,
            });
        }
        (found.len(), more || !is_whole)
    }

    /// Checks that the index, the tree of names and the engine describe the same packets, and that
    /// the capacity holds. O(packets); for tests.
    ///
    /// # Panics
    /// If they do not.
    pub(crate) fn check_invariants(&self) {
        let (mut packets, mut used) = (0, 0);
        for slot in self.slots() {
            let Some(entry) = self.entry(slot) else {
                continue;
            };
            let weight = self.weight(&entry.wire);
            assert_eq!(
                self.hasher.hash(entry.name_bytes()),
                entry.hash,
                "an entry has the hash of its name"
            );
            assert_eq!(
                self.exact(entry.hash, entry.name()),
                Some(slot),
                "the index has each packet, once"
            );
            let object = self
                .engine
                .object(slot)
                .map(|(id, size)| (id, size.bytes()));
            assert_eq!(
                object,
                Some((entry.hash, weight)),
                "the engine has each packet"
            );
            (packets, used) = (packets + 1, used + weight);
        }
        assert_eq!(
            self.index.len(),
            packets,
            "the index has no packet but these"
        );
        assert_eq!(
            self.engine.len(),
            packets,
            "the engine has no packet but these"
        );
        assert_eq!(
            self.engine.used().bytes(),
            used,
            "the used bytes are those of all packets"
        );
        assert!(
            used <= self.engine.capacity().bytes(),
            "the Content Store keeps its capacity"
        );
        self.engine.check_invariants();
        self.tree
            .check_invariants(|slot| self.entry(slot).is_some());
    }

    fn remove(&mut self, slot: Slot) {
        self.engine.remove(slot);
        self.forget(slot);
    }

    /// Returns the part of the capacity that a packet takes.
    fn weight(&self, packet: &[u8]) -> u64 {
        weight(self.counts_packets, packet)
    }

    /// Returns the age of each entry.
    pub(crate) fn ages(&self, now: Time) -> impl Iterator<Item = Duration> {
        self.entries
            .iter()
            .flatten()
            .map(move |entry| now.since(entry.stored))
    }

    /// Takes out of the indexes what the engine has given up; returns when it was stored.
    fn forget(&mut self, slot: Slot) -> Option<Time> {
        let entry = self.entries[slot.index()].take()?;
        self.index.remove(entry.hash, slot);
        self.tree
            .remove(&self.hasher, entry.name(), entry.hash, slot);
        self.spare.put(entry.wire);
        Some(entry.stored)
    }
}

/// Data looked at under one prefix before the Interest counts as a miss: stale ones before a fresh
/// one cost no more than this.
const MOST_UNDER_PREFIX: usize = 256;

/// Returns what a packet takes of the capacity.
fn weight(counts_packets: bool, packet: &[u8]) -> u64 {
    if counts_packets {
        1
    } else {
        packet.len() as u64 + CONTENT_STORE_ENTRY_BYTES
    }
}

#[cfg(test)]
mod tests;
