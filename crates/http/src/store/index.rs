//! The index over the engine: keys to slots, variants of a key in a chain, and the record of
//! invalidations.

use crate::body::budget::Budget;
use crate::limits;
use crate::rfc::key::Key;
use crate::rfc::vary;
use crate::store::entry::{Entry, View};
use crate::store::line_table::LineTable;
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
    /// The header lines that entries share.
    lines: LineTable,
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
    entry: Entry,
    /// The hash of its key.
    hash: u64,
    /// The next older variant of the same key.
    older: Option<Slot>,
}

pub(crate) enum Found {
    Match(Slot),
    OtherVariants,
    Nothing,
}

impl Store {
    /// Returns an empty store. `secret` is the secret of the keys' hash.
    pub(crate) fn new(engine: Engine, budget: Budget, secret: &[u8; 16]) -> Store {
        Store {
            lines: LineTable::new(limits::shared_lines(engine.capacity().bytes()), secret),
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
            if vary::matches(shelf.entry.selector(), request) {
                return Found::Match(slot);
            }
            let Some(older) = shelf.older else { return Found::OtherVariants };
            slot = older;
        }
    }

    /// Whatever selects it.
    pub(crate) fn newest_variant(&self, key: &Key<'_>, hash: u64) -> Option<Slot> {
        self.newest(hash, |entry| key.is(entry.key()))
    }

    pub(crate) fn entry(&self, slot: Slot) -> &Entry {
        &self.shelf(slot).entry
    }

    /// Returns the entry with all its header lines.
    pub(crate) fn view(&self, slot: Slot) -> View<'_> {
        View::new(self.entry(slot), &self.lines)
    }

    /// Returns a copy of the stored response, with its fields as a map.
    pub(crate) fn stored(&self, slot: Slot) -> Stored {
        self.view(slot).to_stored(self.shelf(slot).hash)
    }

    /// Returns the bytes of header lines that stored responses share, beside [`Engine::used`].
    pub(crate) fn shared_line_bytes(&self) -> u64 {
        self.lines.bytes()
    }

    /// The slot of the variant with the same key and selecting values.
    pub(crate) fn position(&self, stored: &Stored) -> Option<Slot> {
        let mut slot = self.newest(stored.hash, |entry| *entry.key() == *stored.key)?;
        loop {
            let shelf = self.shelf(slot);
            if shelf.entry.selector() == stored.selector.as_bytes() {
                return Some(slot);
            }
            slot = shelf.older?;
        }
    }

    /// Stores a response, and replaces the same variant. Returns false if it can never fit.
    pub(crate) fn put(&mut self, stored: &Stored, now: Time) -> bool {
        if let Some(same) = self.position(stored) {
            self.remove(same);
        }
        self.bound_variants(stored);
        let entry = Entry::new(stored, &mut self.lines);
        let slot = self.engine.insert(stored.hash, entry.size(), now, &mut self.victims);
        while let Some(victim) = self.victims.pop() {
            self.evicted += 1;
            self.unlink(victim);
        }
        let Some(slot) = slot else {
            entry.release(&mut self.lines);
            return false;
        };
        if self.shelves.len() <= slot.index() {
            self.shelves.resize_with(slot.index() + 1, || None);
        }
        self.budget.on_stored(entry.shared_body_bytes());
        let Store { shelves, table, .. } = self;
        let older = match table.find_mut(stored.hash, |head| is_key(shelves, *head, &stored.key)) {
            Some(head) => Some(std::mem::replace(head, slot)),
            None => {
                table.insert_unique(stored.hash, slot, |head| {
                    shelves[head.index()].as_ref().map_or(0, |shelf| shelf.hash)
                });
                None
            }
        };
        shelves[slot.index()] = Some(Shelf { entry, hash: stored.hash, older });
        true
    }

    /// Writes a renewed response back. If it has grown, the engine takes it for a new object.
    pub(crate) fn renew(&mut self, stored: &Stored, now: Time) {
        let Some(slot) = self.position(stored) else {
            self.put(stored, now);
            return;
        };
        let entry = Entry::new(stored, &mut self.lines);
        let fits = self.engine.object(slot).is_some_and(|(_, size)| entry.size() <= size.bytes());
        if !fits {
            entry.release(&mut self.lines);
            self.put(stored, now);
            return;
        }
        self.budget.on_stored(entry.shared_body_bytes());
        if let Some(shelf) = &mut self.shelves[slot.index()] {
            let old = std::mem::replace(&mut shelf.entry, entry);
            self.budget.on_departed(old.shared_body_bytes());
            old.release(&mut self.lines);
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
            next = self.expire_slot(slot, now);
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
    pub(crate) fn purge(&mut self, from: usize, soft: bool, now: Time, takes: impl Fn(View<'_>) -> bool) -> Purged {
        let end = self.shelves.len().min(from.saturating_add(limits::PURGE_STEP));
        // A slot whose entry was taken out of the engine has no entry either.
        let slots = (from..end).filter_map(|index| u32::try_from(index).ok().map(Slot::new));
        let is_taken = |slot: &Slot| {
            let shelf = self.shelves[slot.index()].as_ref();
            shelf.is_some_and(|shelf| takes(View::new(&shelf.entry, &self.lines)))
        };
        let taken: Vec<Slot> = slots.filter(is_taken).collect();
        for slot in &taken {
            if soft {
                self.expire_slot(*slot, now);
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
        let is_later = |slot| self.entry(slot).freshness.is_requested_after(asked);
        self.was_invalidated_since(stored.hash, asked) || self.position(stored).is_some_and(is_later)
    }

    fn shelf(&self, slot: Slot) -> &Shelf {
        self.shelves[slot.index()].as_ref().expect("a slot in use")
    }

    /// Makes the entry stale. Returns the next older variant.
    fn expire_slot(&mut self, slot: Slot, now: Time) -> Option<Slot> {
        let shelf = self.shelves[slot.index()].as_mut()?;
        shelf.entry.freshness.expire(now);
        shelf.older
    }

    fn newest(&self, hash: u64, is_key: impl Fn(&Entry) -> bool) -> Option<Slot> {
        self.table.find(hash, |head| is_key(self.entry(*head))).copied()
    }

    /// Makes room for one more variant of the key: the oldest goes.
    fn bound_variants(&mut self, stored: &Stored) {
        let mut next = self.newest(stored.hash, |entry| *entry.key() == *stored.key);
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
        let Some(Shelf { entry, hash, older }) = self.shelves[slot.index()].take() else { return };
        self.budget.on_departed(entry.shared_body_bytes());
        entry.release(&mut self.lines);
        let shelves = &mut self.shelves;
        // The chain's head is either this slot, which has just been emptied, or another variant of
        // the key.
        let found = self.table.find_entry(hash, |head| *head == slot || is_key(shelves, *head, entry.key()));
        let Ok(mut head) = found else { return };
        if *head.get() == slot {
            match older {
                Some(older) => *head.get_mut() = older,
                None => {
                    head.remove();
                }
            }
            return;
        }
        let mut at = *head.get();
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
            let key = self.entry(*head).key();
            let mut next = Some(*head);
            while let Some(slot) = next {
                let Shelf { entry, hash, older } = self.shelf(slot);
                assert_eq!(entry.key(), key);
                let (id, size) = self.engine.object(slot).expect("the engine knows the slot");
                assert_eq!(id, *hash);
                assert!(size.bytes() >= entry.size(), "the engine has {size} for {} bytes", entry.size());
                (seen, bodies) = (seen + 1, bodies + entry.shared_body_bytes() as u64);
                next = *older;
            }
        }
        assert_eq!(seen, self.engine.len(), "the index has the engine's objects");
        self.engine.check_invariants();
        self.budget.check_invariants(bodies);
        assert_eq!(seen, self.shelves.iter().flatten().count());
        self.lines.check_invariants(self.shelves.iter().flatten().flat_map(|shelf| shelf.entry.shared_lines()));
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

fn is_key(shelves: &[Option<Shelf>], head: Slot, key: &[u8]) -> bool {
    shelves[head.index()].as_ref().is_some_and(|shelf| shelf.entry.key() == key)
}

#[cfg(test)]
mod tests;
