//! The index over the engine: keys to slots, variants of a key in a chain, and the record of
//! invalidations.

use crate::body::budget::Budget;
use crate::limits;
use crate::rfc::key::Key;
use crate::store::purge::Purged;
use crate::store::stored::Stored;
use hashbrown::{HashMap, HashTable};
use http::HeaderMap;
use larder_policy::{Engine, Slot};
use larder_units::Time;
use std::collections::VecDeque;

pub(crate) struct Store {
    pub engine: Engine,
    /// The budget of bodies that are not in the engine. Every body that is put here has a
    /// reservation of it.
    budget: Budget,
    /// The newest variant of each key, by the key's hash.
    table: HashTable<Slot>,
    /// By slot; the engine says which are in use.
    shelves: Vec<Option<Shelf>>,
    victims: Vec<Slot>,
    invalidations: Invalidations,
    /// The time of the last invalidation of more than single keys.
    all_invalidated: Option<Time>,
    /// Walks of purges in progress. A response that is stored meanwhile might lie behind a walk
    /// that has to remove it.
    walks: u32,
    /// Objects that left for others to come.
    pub evicted: u64,
}

struct Shelf {
    stored: Stored,
    /// The next older variant of the same key.
    older: Option<Slot>,
}

pub(crate) enum Found {
    Match(Slot),
    OtherVariants,
    Nothing,
}

impl Store {
    pub(crate) fn new(engine: Engine, budget: Budget) -> Store {
        Store {
            engine,
            budget,
            table: HashTable::new(),
            shelves: Vec::new(),
            victims: Vec::new(),
            invalidations: Invalidations::default(),
            all_invalidated: None,
            walks: 0,
            evicted: 0,
        }
    }

    /// The newest variant that the request's fields select (RFC 9111 §4.1: of several, the most
    /// recent).
    pub(crate) fn find(&self, key: &Key<'_>, hash: u64, request: &HeaderMap) -> Found {
        let Some(mut slot) = self.newest_variant(key, hash) else { return Found::Nothing };
        loop {
            let shelf = self.shelf(slot);
            if shelf.stored.selector.matches(request) {
                return Found::Match(slot);
            }
            let Some(older) = shelf.older else { return Found::OtherVariants };
            slot = older;
        }
    }

    /// Whatever selects it.
    pub(crate) fn newest_variant(&self, key: &Key<'_>, hash: u64) -> Option<Slot> {
        self.newest(hash, |stored| key.is(&stored.key))
    }

    pub(crate) fn get_mut(&mut self, slot: Slot) -> &mut Stored {
        &mut self.shelves[slot.index()].as_mut().expect("a slot in use").stored
    }

    /// The slot of the variant with the same key and selecting values.
    pub(crate) fn position(&self, stored: &Stored) -> Option<Slot> {
        let mut slot = self.newest(stored.hash, |other| other.key == stored.key)?;
        loop {
            let shelf = self.shelf(slot);
            if shelf.stored.selector == stored.selector {
                return Some(slot);
            }
            slot = shelf.older?;
        }
    }

    /// Stores a response, and replaces the same variant. Returns false if it can never fit.
    pub(crate) fn put(&mut self, stored: Stored, now: Time) -> bool {
        if let Some(same) = self.position(&stored) {
            self.remove(same);
        }
        self.bound_variants(&stored);
        let size = stored.size(stored.body.len() as u64);
        let slot = self.engine.insert(stored.hash, size, now, &mut self.victims);
        while let Some(victim) = self.victims.pop() {
            self.evicted += 1;
            self.unlink(victim);
        }
        let Some(slot) = slot else { return false };
        if self.shelves.len() <= slot.index() {
            self.shelves.resize_with(slot.index() + 1, || None);
        }
        let shelves = &self.shelves;
        let entry = self.table.find_mut(stored.hash, |head| is_same_key(shelves, *head, &stored));
        let hash = stored.hash;
        self.budget.on_stored(stored.body.len());
        let older = match entry {
            Some(head) => Some(std::mem::replace(head, slot)),
            None => {
                self.table
                    .insert_unique(hash, slot, |head| shelves[head.index()].as_ref().map_or(0, |s| s.stored.hash));
                None
            }
        };
        self.shelves[slot.index()] = Some(Shelf { stored, older });
        true
    }

    /// Writes a renewed response back. Where its size changed, the engine takes it for a new
    /// object.
    pub(crate) fn renew(&mut self, stored: Stored, now: Time) {
        let size = stored.size(stored.body.len() as u64);
        let position = self.position(&stored);
        match position.filter(|slot| self.engine.object(*slot).is_some_and(|(_, old)| old.bytes() == size)) {
            Some(slot) => {
                self.budget.on_stored(stored.body.len());
                let old = std::mem::replace(self.get_mut(slot), stored);
                self.budget.on_departed(old.body.len());
            }
            None => {
                self.put(stored, now);
            }
        }
    }

    pub(crate) fn remove(&mut self, slot: Slot) {
        self.engine.remove(slot);
        self.unlink(slot);
    }

    /// Removes all variants of a key, and prevents the storing of responses that were requested
    /// before `now`. Returns the number of removed variants.
    pub(crate) fn invalidate(&mut self, key: &Key<'_>, hash: u64, now: Time) -> u64 {
        self.invalidations.note(hash, now);
        let mut removed = 0;
        while let Some(slot) = self.newest_variant(key, hash) {
            self.remove(slot);
            removed += 1;
        }
        removed
    }

    /// Does the same as [`Store::invalidate`], but all variants stay, stale.
    pub(crate) fn expire(&mut self, key: &Key<'_>, hash: u64, now: Time) -> u64 {
        self.invalidations.note(hash, now);
        let mut expired = 0;
        let mut next = self.newest_variant(key, hash);
        while let Some(slot) = next {
            self.get_mut(slot).freshness.expire(now);
            next = self.shelf(slot).older;
            expired += 1;
        }
        expired
    }

    /// Begins a walk: until it ends nothing is stored, and after it nothing that was requested
    /// before its end.
    pub(crate) fn begin_walk(&mut self) {
        self.walks += 1;
    }

    pub(crate) fn end_walk(&mut self, now: Time) {
        self.walks = self.walks.saturating_sub(1);
        self.all_invalidated = self.all_invalidated.max(Some(now));
    }

    /// Removes, or makes stale, what `takes` says of the slots from `from` on,
    /// [`limits::PURGE_STEP`] of them. Returns how many it took, and where to go on.
    pub(crate) fn purge(&mut self, from: usize, soft: bool, now: Time, takes: impl Fn(&Stored) -> bool) -> Purged {
        let end = self.shelves.len().min(from.saturating_add(limits::PURGE_STEP));
        let taken: Vec<Slot> = self
            .shelves
            .get(from..end)
            .unwrap_or_default()
            .iter()
            .flatten()
            .filter(|shelf| takes(&shelf.stored))
            .filter_map(|shelf| self.position(&shelf.stored))
            .collect();
        for slot in &taken {
            if soft {
                self.get_mut(*slot).freshness.expire(now);
            } else {
                self.remove(*slot);
            }
        }
        Purged { objects: taken.len() as u64, next: (end < self.shelves.len()).then_some(end) }
    }

    /// Returns true if the key was invalidated after `asked`, or may have been, or if a walk is in
    /// progress.
    pub(crate) fn was_invalidated_since(&self, hash: u64, asked: Time) -> bool {
        self.walks > 0
            || [self.invalidations.last(hash), self.all_invalidated].into_iter().flatten().any(|at| asked <= at)
    }

    /// Returns true if a response that was requested at `asked` must not be stored as `stored`:
    /// [`Store::was_invalidated_since`], or the same variant is stored and was requested later.
    pub(crate) fn is_outdated(&self, stored: &Stored, asked: Time) -> bool {
        let is_later = |slot| self.shelf(slot).stored.freshness.is_requested_after(asked);
        self.was_invalidated_since(stored.hash, asked) || self.position(stored).is_some_and(is_later)
    }

    fn shelf(&self, slot: Slot) -> &Shelf {
        self.shelves[slot.index()].as_ref().expect("a slot in use")
    }

    fn newest(&self, hash: u64, is_key: impl Fn(&Stored) -> bool) -> Option<Slot> {
        self.table.find(hash, |head| is_key(&self.shelf(*head).stored)).copied()
    }

    /// Makes room for one more variant of the key: the oldest goes.
    fn bound_variants(&mut self, stored: &Stored) {
        let mut next = self.newest(stored.hash, |other| other.key == stored.key);
        let mut count = 0;
        let mut oldest = None;
        while let Some(slot) = next {
            count += 1;
            oldest = Some(slot);
            next = self.shelf(slot).older;
        }
        if let Some(oldest) = oldest.filter(|_| count >= limits::VARIANTS_PER_KEY) {
            self.remove(oldest);
        }
    }

    /// Takes a slot that the engine has given up out of the index and drops its response; the body
    /// stays for as long as clients read it.
    fn unlink(&mut self, slot: Slot) {
        let Some(Shelf { stored, older }) = self.shelves[slot.index()].take() else { return };
        self.budget.on_departed(stored.body.len());
        let shelves = &mut self.shelves;
        // The chain's head is either this slot, which has just been emptied, or another variant of
        // the key.
        let found = self.table.find_entry(stored.hash, |head| *head == slot || is_same_key(shelves, *head, &stored));
        let Ok(mut entry) = found else { return };
        if *entry.get() == slot {
            match older {
                Some(older) => *entry.get_mut() = older,
                None => {
                    entry.remove();
                }
            }
            return;
        }
        let mut at = *entry.get();
        while let Some(shelf) = shelves[at.index()].as_mut() {
            if shelf.older == Some(slot) {
                shelf.older = older;
                return;
            }
            let Some(next) = shelf.older else { return };
            at = next;
        }
    }

    /// Panics if index, engine and budget disagree: see [`crate::Cache::check_invariants`].
    pub(crate) fn check_invariants(&self) {
        let (mut seen, mut bodies) = (0, 0);
        for head in &self.table {
            let key = &self.shelf(*head).stored.key;
            let mut next = Some(*head);
            while let Some(slot) = next {
                let shelf = self.shelf(slot);
                let stored = &shelf.stored;
                assert_eq!(&stored.key, key);
                let (id, size) = self.engine.object(slot).expect("the engine knows the slot");
                assert_eq!(id, stored.hash);
                let body = stored.body.len() as u64;
                assert_eq!(size.bytes(), stored.size(body), "the engine has another size");
                (seen, bodies) = (seen + 1, bodies + body);
                next = shelf.older;
            }
        }
        assert_eq!(seen, self.engine.len(), "the index has the engine's objects");
        self.engine.check_invariants();
        self.budget.check_invariants(bodies);
        assert_eq!(seen, self.shelves.iter().flatten().count());
    }
}

/// The last [`limits::INVALIDATIONS`] keys that were invalidated, and when: exact, so that no busy
/// key keeps another from being stored.
#[derive(Default)]
struct Invalidations {
    /// By the key's hash.
    at: HashMap<u64, Time>,
    /// The invalidations in their order; a key that was noted again occurs twice.
    order: VecDeque<(u64, Time)>,
    /// The latest of those that were forgotten.
    forgotten: Option<Time>,
}

impl Invalidations {
    fn note(&mut self, hash: u64, now: Time) {
        if self.order.len() == limits::INVALIDATIONS
            && let Some((oldest, at)) = self.order.pop_front()
        {
            self.forgotten = self.forgotten.max(Some(at));
            if self.at.get(&oldest).is_some_and(|last| *last <= at) {
                self.at.remove(&oldest);
            }
        }
        self.order.push_back((hash, now));
        // Threads read the clock before they lock the cache, so a later note may have an earlier
        // time. It must not move the time back.
        let last = self.at.entry(hash).or_insert(now);
        *last = now.max(*last);
    }

    /// Returns the time of the last certain or possible invalidation of the key.
    fn last(&self, hash: u64) -> Option<Time> {
        self.at.get(&hash).copied().max(self.forgotten)
    }
}

fn is_same_key(shelves: &[Option<Shelf>], head: Slot, stored: &Stored) -> bool {
    shelves[head.index()]
        .as_ref()
        .is_some_and(|shelf| shelf.stored.hash == stored.hash && shelf.stored.key == stored.key)
}

#[cfg(test)]
mod tests;
