//! The index over the engine: keys to slots, the variants of a key in a chain, and tags.

use crate::body::budget::Budget;
use crate::limits;
use crate::rfc::coding::content_coding::{Compression, ContentCoding};
use crate::rfc::key::Key;
use crate::rfc::vary;
use crate::rfc::vary::Selector;
use crate::store::coded_forms;
use crate::store::coded_forms::WantedForm;
use crate::store::entry::{Codable, Entry, View};
use crate::store::host_counts::HostCounts;
use crate::store::line_table::LineTable;
use crate::store::observed;
use crate::store::policy_engine::{EngineHandle, EngineSlot, EntryId, Eviction, Owner};
use crate::store::purge::Purged;
use crate::store::purge_table::PurgeVerdict;
use crate::store::purges::Purges;
use crate::store::stored::Stored;
use crate::store::tag_index::TagIndex;
use crate::store::variant_index::VariantIndex;
use bytes::Bytes;
use hashbrown::{HashSet, HashTable};
use http::{HeaderMap, HeaderName};
use larder_policy::Slot;
use larder_policy::observe::{Observer, Outcome};
use larder_units::Time;
use std::sync::Arc;

/// The number of variants of a key that may exceed [`limits::VARIANTS_SHARE`]: some encodings or
/// formats of a large object.
const UNBOUNDED_VARIANTS: usize = 8;

/// Variants of a key, the newest first, that are compared with a request. If none matches, a hash
/// of the request's values finds the others. So a key with few variants needs no hash, and one with
/// many no long search.
const COMPARED_VARIANTS: usize = 8;

/// Stored responses that one step of a purge visits: a millisecond or two, in which no request is
/// answered.
const PURGE_STEP_ENTRIES: usize = 4096;

/// The stored responses of one shard.
pub(crate) struct Store {
    pub engine: EngineHandle,
    /// Reports a sample of the requests.
    pub observer: Observer,
    shard: u16,
    /// The memory of a stored response besides its entry.
    overhead: u64,
    /// The budget of bodies that are not in the engine. Every body that is stored here has a
    /// reservation in it.
    budget: Budget,
    /// The newest variant of each key, by the key's hash.
    table: HashTable<EntryId>,
    /// By number.
    entries: Vec<Option<Indexed>>,
    free: Vec<EntryId>,
    /// The header lines that entries share.
    lines: LineTable,
    evictions: Vec<Eviction>,
    variants: VariantIndex,
    /// The maximum number of variants of one key.
    most_variants: usize,
    /// The maximum bytes of these variants.
    variants_bytes: u64,
    tags: TagIndex,
    hosts: HostCounts,
    /// The responses of which clients get coded forms; `None` if they get none.
    compression: Option<Arc<Compression>>,
    /// The purges, which all shards share.
    pub purges: Purges,
    /// Responses that were evicted to make room.
    pub evicted: u64,
    /// Variants that made room for others of their key.
    pub variants_dropped: u64,
}

struct Indexed {
    entry: Entry,
    /// The hash of its key.
    hash: u64,
    /// The next older variant of the same key, or [`NO_ENTRY`].
    older: EntryId,
    /// The slot in the engine.
    slot: Slot,
}

/// Marks the absence of an entry; [`Owner::new`] refuses this number.
const NO_ENTRY: EntryId = EntryId(u32::MAX);

impl Indexed {
    fn older(&self) -> Option<EntryId> {
        (self.older != NO_ENTRY).then_some(self.older)
    }
}

/// The memory of the structures around a stored response: its element here, its element in the
/// table (a number and a byte, and the table is at least 7/16 full), and its object and owner in
/// the engine.
const STRUCTURES: u64 =
    (size_of::<Option<Indexed>>() + (size_of::<EntryId>() + 1) * 16 / 7 + 16 + size_of::<Owner>())
        as u64;

pub(crate) enum Found {
    Match(EntryId),
    OtherVariants,
    Nothing,
}

impl Store {
    /// Returns the empty store of a shard: its number, and the number of all. `secret` is the
    /// secret of the keys' hash.
    pub(crate) fn new(
        engine: EngineHandle,
        observer: Observer,
        budget: Budget,
        purges: Purges,
        secret: &[u8; 16],
        (shard, shards): (u16, u16),
    ) -> Store {
        let (capacity, policy) = engine.read(|engine| {
            let figures = engine.figures();
            (figures.capacity().bytes(), figures.spec().bytes_an_object())
        });
        Store {
            lines: LineTable::new(limits::shared_lines(capacity, shards), secret),
            engine,
            observer,
            shard,
            overhead: STRUCTURES + policy,
            budget,
            table: HashTable::new(),
            entries: Vec::new(),
            free: Vec::new(),
            evictions: Vec::new(),
            variants: VariantIndex::new(secret),
            most_variants: usize::MAX,
            variants_bytes: capacity / limits::VARIANTS_SHARE,
            tags: TagIndex::new(secret),
            hosts: HostCounts::new(secret),
            compression: None,
            purges,
            evicted: 0,
            variants_dropped: 0,
        }
    }

    /// Reports a request for a stored response.
    pub(crate) fn hit(&mut self, id: EntryId, now: Time) {
        let Store {
            engine,
            observer,
            shard,
            entries,
            lines,
            overhead,
            ..
        } = self;
        let Some(Indexed {
            entry, hash, slot, ..
        }) = &entries[id.index()]
        else {
            return;
        };
        engine.hit(
            EngineSlot {
                slot: *slot,
                owner: Owner::of_stored(*shard, id),
            },
            *hash,
            now,
        );
        let observed = |place| observed::hit(entry, lines, *overhead, Outcome::Hit, place, now);
        observer.hit(*hash, entry.own_length(), observed);
    }

    /// Reports that a stored response was validated without a client's request.
    pub(crate) fn hit_in_background(&mut self, id: EntryId, now: Time) {
        let Store {
            engine,
            observer,
            shard,
            entries,
            lines,
            overhead,
            ..
        } = self;
        let Some(Indexed {
            entry, hash, slot, ..
        }) = &entries[id.index()]
        else {
            return;
        };
        engine.hit(
            EngineSlot {
                slot: *slot,
                owner: Owner::of_stored(*shard, id),
            },
            *hash,
            now,
        );
        observer.refreshed(*hash, |place| {
            observed::hit(entry, lines, *overhead, Outcome::Refreshed, place, now)
        });
    }

    /// Reports a fetched response to the observer: see [`observed::fetched`].
    pub(crate) fn observe_fetched(
        &mut self,
        stored: &Stored,
        sizes: (u64, u64),
        outcome: Outcome,
        now: Time,
    ) {
        let observed = |place| observed::fetched(stored, sizes, outcome, place, now);
        match outcome {
            Outcome::Refreshed => self.observer.refreshed(stored.hash, observed),
            _ => self.observer.fetched(stored.hash, sizes.1, observed),
        }
    }

    /// Reports a request for a response that is not stored.
    pub(crate) fn miss(&mut self, hash: u64, now: Time) {
        self.engine.with(|engine| engine.miss(hash, now));
    }

    /// Returns true if the policy admits a response of this size, or there is unused room for it.
    pub(crate) fn admit_or_fill(&mut self, hash: u64, size: u64, now: Time) -> bool {
        self.engine
            .with(|engine| engine.admit_or_fill(hash, size, now))
    }

    /// Does what [`Store::miss`] and [`Store::admit_or_fill`] do.
    pub(crate) fn miss_and_admit(&mut self, hash: u64, size: Option<u64>, now: Time) -> bool {
        self.engine.with(|engine| {
            engine.miss(hash, now);
            size.is_none_or(|size| engine.admit_or_fill(hash, size, now))
        })
    }

    /// Returns the newest variant that the request's fields select (RFC 9111 §4.1: of several, the
    /// most recent).
    pub(crate) fn find(&self, key: &Key<'_>, hash: u64, request: &HeaderMap) -> Found {
        let Some(mut id) = self.newest_variant(key, hash) else {
            return Found::Nothing;
        };
        for _ in 0..COMPARED_VARIANTS {
            let indexed = self.indexed(id);
            if vary::matches(indexed.entry.selector(), request) {
                return Found::Match(id);
            }
            let Some(older) = indexed.older() else {
                return Found::OtherVariants;
            };
            id = older;
        }
        self.find_by_hash(key, hash, request)
    }

    /// Does the same for a key with many variants, by the fields that select the newest ones. An
    /// older one that other fields select is not found.
    #[cold]
    fn find_by_hash(&self, key: &Key<'_>, hash: u64, request: &HeaderMap) -> Found {
        let mut lists: Vec<Vec<HeaderName>> = Vec::new();
        for id in self.variants_of(key, hash).take(COMPARED_VARIANTS) {
            let names: Vec<HeaderName> = vary::names_of(self.entry(id).selector()).collect();
            if lists.contains(&names) {
                continue;
            }
            let selector = Selector::of_names(names.clone(), request);
            lists.push(names);
            let is_one = |id: EntryId| {
                key.is(self.entry(id).key()) && self.entry(id).selector() == selector.as_bytes()
            };
            if let Some(id) = self.variants.find(hash, selector.as_bytes(), is_one) {
                return Found::Match(id);
            }
        }
        Found::OtherVariants
    }

    /// Returns the newest variant, independent of its selecting fields.
    pub(crate) fn newest_variant(&self, key: &Key<'_>, hash: u64) -> Option<EntryId> {
        self.newest(hash, |entry| key.is(entry.key()))
    }

    /// Returns all variants of a key, the newest first.
    pub(crate) fn variants_of(&self, key: &Key<'_>, hash: u64) -> impl Iterator<Item = EntryId> {
        std::iter::successors(self.newest_variant(key, hash), |id| {
            self.indexed(*id).older()
        })
    }

    pub(crate) fn entry(&self, id: EntryId) -> &Entry {
        &self.indexed(id).entry
    }

    /// Returns the entry with all its header lines.
    pub(crate) fn view(&self, id: EntryId) -> View<'_> {
        View::new(self.entry(id), &self.lines)
    }

    /// Returns a copy of the stored response, with its fields as a map.
    pub(crate) fn stored(&self, id: EntryId) -> Stored {
        self.view(id).to_stored(self.indexed(id).hash)
    }

    /// Returns the bytes of header lines that stored responses share. They add to those of the
    /// engine.
    pub(crate) fn shared_line_bytes(&self) -> u64 {
        self.lines.bytes()
    }

    /// Returns the id of the variant with the same key and selecting values.
    pub(crate) fn position(&self, stored: &Stored) -> Option<EntryId> {
        self.position_of(&stored.key, stored.hash, stored.selector.as_bytes())
    }

    fn position_of(&self, key: &[u8], hash: u64, selector: &[u8]) -> Option<EntryId> {
        if !selector.is_empty() {
            let is_one =
                |id: EntryId| self.entry(id).key() == key && self.entry(id).selector() == selector;
            return self.variants.find(hash, selector, is_one);
        }
        let newest = self.newest(hash, |entry| entry.key() == key);
        let mut ids = std::iter::successors(newest, |id| self.indexed(*id).older());
        ids.find(|id| self.entry(*id).selector().is_empty())
    }

    /// Stores a response, and replaces the same variant. Returns false if it can never fit.
    pub(crate) fn put(&mut self, stored: &Stored, now: Time) -> bool {
        if let Some(same) = self.position(stored) {
            self.remove(same);
        }
        if !stored.fits_an_entry() {
            return false;
        }
        let entry = Entry::new(stored, &mut self.lines);
        self.bound_variants(stored, self.overhead + entry.size());
        let id = self.free_id();
        let size = self.overhead + entry.size();
        let Some(slot) = self.insert(stored.hash, size, id, now) else {
            self.free.push(id);
            entry.release(&mut self.lines);
            return false;
        };
        self.budget.on_stored(entry.shared_body_bytes());
        let Store {
            entries,
            table,
            variants,
            tags,
            hosts,
            lines,
            ..
        } = self;
        variants.add(stored.hash, entry.selector(), id);
        tags.add(id, View::new(&entry, lines));
        hosts.add(entry.key());
        let older = match table.find_mut(stored.hash, |head| is_key(entries, *head, &stored.key)) {
            Some(head) => std::mem::replace(head, id),
            None => {
                table.insert_unique(stored.hash, id, |head| {
                    entries[head.index()]
                        .as_ref()
                        .map_or(0, |indexed| indexed.hash)
                });
                NO_ENTRY
            }
        };
        entries[id.index()] = Some(Indexed {
            entry,
            hash: stored.hash,
            older,
            slot,
        });
        true
    }

    /// Inserts an object into the engine, and unlinks the victims. Victims of other shards stay in
    /// `evictions`.
    fn insert(&mut self, hash: u64, size: u64, id: EntryId, now: Time) -> Option<Slot> {
        let Store {
            engine,
            shard,
            evictions,
            ..
        } = self;
        let (owner, first) = (Owner::new(*shard, id)?, evictions.len());
        let at = engine.with(|engine| engine.insert(hash, size, owner, now, evictions));
        for index in (first..self.evictions.len()).rev() {
            if self.evictions[index].0.owner.shard() == self.shard {
                let Eviction(at) = self.evictions.swap_remove(index);
                self.evicted += 1;
                self.unlink(at.owner.entry());
            }
        }
        at.map(|at| at.slot)
    }

    /// Removes the entry that an eviction of another shard names, unless it has left already. Its
    /// number is then free, or belongs to a response in the engine.
    pub(crate) fn evict(&mut self, eviction: Eviction) {
        let Eviction(at) = eviction;
        let indexed = self
            .entries
            .get(at.owner.entry().index())
            .and_then(Option::as_ref);
        if indexed.is_some_and(|indexed| indexed.slot == at.slot)
            && self.engine.read(|engine| engine.object(at).is_none())
        {
            self.evicted += 1;
            self.unlink(at.owner.entry());
        }
    }

    /// Moves the evictions of other shards to `evictions`.
    pub(crate) fn take_evictions(&mut self, evictions: &mut Vec<Eviction>) {
        evictions.append(&mut self.evictions);
    }

    fn free_id(&mut self) -> EntryId {
        self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            // The engine has at most as many objects.
            EntryId(
                u32::try_from(self.entries.len() - 1).expect("a shard has fewer than 2^32 entries"),
            )
        })
    }

    /// Writes a renewed response back. If it has grown, it is a new object for the engine.
    pub(crate) fn renew(&mut self, stored: &Stored, now: Time) {
        let Some(id) = self.position(stored).filter(|_| stored.fits_an_entry()) else {
            self.put(stored, now);
            return;
        };
        let mut entry = Entry::new(stored, &mut self.lines);
        if let Some(former) = &self.entries[id.index()] {
            coded_forms::carry_over(
                &former.entry,
                stored,
                &mut entry,
                self.compression.as_deref(),
                &mut self.lines,
            );
        }
        let (at, size) = (self.engine_slot(id), self.overhead + entry.size());
        let fits = self
            .engine
            .read(|engine| engine.object(at).is_some_and(|(_, object)| size <= object));
        if !fits {
            entry.release(&mut self.lines);
            self.put(stored, now);
            return;
        }
        self.budget.on_stored(entry.shared_body_bytes());
        let Store {
            entries,
            tags,
            lines,
            budget,
            ..
        } = self;
        if let Some(indexed) = &mut entries[id.index()] {
            let old = std::mem::replace(&mut indexed.entry, entry);
            budget.on_departed(old.shared_body_bytes());
            tags.remove(id, View::new(&old, lines));
            tags.add(id, View::new(&indexed.entry, lines));
            old.release(lines);
        }
    }

    /// Changes which responses have coded forms. Those that exist stay with their responses, and
    /// are not asked for if clients get none now.
    pub(crate) fn set_compression(&mut self, compression: Option<&Compression>) {
        if self.compression.as_deref() == compression {
            return;
        }
        self.compression = compression.cloned().map(Arc::new);
        for indexed in self.entries.iter_mut().flatten() {
            indexed.entry.set_codable(Codable::Unknown);
        }
    }

    /// Returns whether clients get coded forms of a response; [`Codable::Unknown`] if the host
    /// makes none at all.
    pub(crate) fn codable(&mut self, id: EntryId) -> Codable {
        let (Some(compression), Some(indexed)) = (&self.compression, &mut self.entries[id.index()])
        else {
            return Codable::Unknown;
        };
        let entry = &mut indexed.entry;
        if entry.codable() == Codable::Unknown {
            let found = coded_forms::codable(View::new(entry, &self.lines), entry, compression);
            entry.set_codable(found);
        }
        entry.codable()
    }

    /// Returns the response if this hit offers it to the object tier.
    pub(crate) fn take_offered(&mut self, id: EntryId) -> Option<Stored> {
        let offered = self.entry(id).is_offered();
        if let Some(indexed) = self.entries[id.index()].as_mut().filter(|_| offered) {
            indexed.entry.clear_offered();
        }
        offered.then(|| self.stored(id))
    }

    /// Returns the form of a stored response with this coding.
    pub(crate) fn form(&self, id: EntryId, coding: ContentCoding) -> Option<View<'_>> {
        let form = self.entry(id).form(coding)?;
        Some(View::new(form, &self.lines))
    }

    /// Returns what the host needs to make a coded form.
    pub(crate) fn wanted(&self, id: EntryId, coding: ContentCoding) -> WantedForm {
        let indexed = self.indexed(id);
        let entry = &indexed.entry;
        WantedForm {
            shard: self.shard,
            key: entry.key().into(),
            hash: indexed.hash,
            selector: entry.selector().into(),
            coding,
            body: entry.body(),
        }
    }

    /// Stores a coded form, if its response is still there. Returns true if it is stored.
    pub(crate) fn store_coded(&mut self, wanted: &WantedForm, coded: Bytes, now: Time) -> bool {
        let id = self.position_of(&wanted.key, wanted.hash, &wanted.selector);
        let Some(id) = id.filter(|id| wanted.is_of(self.entry(*id)) && self.codable(*id).is_yes())
        else {
            return false;
        };
        // Two hits may have wanted it, the second one before the first form was stored.
        if self.form(id, wanted.coding).is_some() {
            return false;
        }
        let coded = Some(coded).filter(|coded| wanted.is_worth(coded));
        let Some(coded) = coded.and_then(|coded| coded_forms::reserved(coded, &self.budget)) else {
            if let Some(indexed) = &mut self.entries[id.index()] {
                indexed.entry.refuse(wanted.coding);
            }
            return false;
        };
        let (stored, at) = (self.stored(id), self.engine_slot(id));
        let form = coded_forms::form(&stored, wanted.coding, coded, &mut self.lines);
        self.budget.on_stored(form.shared_body_bytes());
        let Some(indexed) = &mut self.entries[id.index()] else {
            return false;
        };
        if let Some(other) = indexed.entry.set_form(wanted.coding, form) {
            self.budget.on_departed(other.shared_body_bytes());
            other.release(&mut self.lines);
        }
        let size = self.overhead + indexed.entry.size();
        // The engine has no larger objects in place of smaller ones: it is a new one there.
        self.engine.with(|engine| engine.remove(at));
        match self.insert(wanted.hash, size, id, now) {
            Some(slot) => {
                if let Some(indexed) = &mut self.entries[id.index()] {
                    indexed.slot = slot;
                }
                true
            }
            // A body has at most a fifth of the capacity, so it finds room with all its forms,
            // unless a reload has made the cache smaller meanwhile.
            None => {
                self.unlink(id);
                false
            }
        }
    }

    pub(crate) fn remove(&mut self, id: EntryId) {
        let at = self.engine_slot(id);
        self.engine.with(|engine| engine.remove(at));
        self.unlink(id);
    }

    /// Removes all variants of a key, and prevents the storing of responses that were requested
    /// before. Returns the number of removed variants.
    pub(crate) fn invalidate(&mut self, key: &Key<'_>, hash: u64, now: Time) -> u64 {
        self.purges.note_key(&key.to_bytes(), false);
        self.observer.removed(hash, false, now);
        let mut removed = 0;
        while let Some(id) = self.newest_variant(key, hash) {
            self.remove(id);
            removed += 1;
        }
        removed
    }

    /// Does the same as [`Store::invalidate`], but makes all variants stale instead.
    pub(crate) fn expire(&mut self, key: &Key<'_>, hash: u64, now: Time) -> u64 {
        self.purges.note_key(&key.to_bytes(), true);
        self.observer.removed(hash, true, now);
        let mut expired = 0;
        let mut next = self.newest_variant(key, hash);
        while let Some(id) = next {
            next = self.expire_slot(id, now);
            expired += 1;
        }
        expired
    }

    /// Removes entries with a tag, or makes them stale: [`PURGE_STEP_ENTRIES`] of them from the
    /// number `from` on. Returns their number, and the next `from`.
    pub(crate) fn purge_tag(&mut self, tag: &str, from: usize, soft: bool, now: Time) -> Purged {
        let ids = self.tags.of_tag(tag.as_bytes(), from, PURGE_STEP_ENTRIES);
        let mut objects = 0;
        for id in &ids {
            // Two tags may have one hash.
            let mut has_tag = false;
            self.view(*id)
                .each_tag(|other| has_tag |= other == tag.as_bytes());
            if has_tag {
                self.purge_entry(*id, soft, now);
                objects += 1;
            }
        }
        let last = ids.last().filter(|_| ids.len() == PURGE_STEP_ENTRIES);
        Purged {
            objects,
            next: last.map(|id| id.index() + 1),
        }
    }

    /// Removes entries whose keys begin with a prefix, or makes them stale: see [`Store::purge`].
    pub(crate) fn purge_prefix(
        &mut self,
        prefix: &[u8],
        from: usize,
        soft: bool,
        now: Time,
    ) -> Purged {
        if !self.hosts.has_host_of(prefix) {
            return Purged {
                objects: 0,
                next: None,
            };
        }
        self.purge(from, soft, now, |stored| stored.key().starts_with(prefix))
    }

    fn purge_entry(&mut self, id: EntryId, soft: bool, now: Time) {
        if soft {
            self.expire_slot(id, now);
        } else {
            self.remove(id);
        }
    }

    /// Removes the entries for which `takes` returns true, or makes them stale:
    /// [`PURGE_STEP_ENTRIES`] of them from `from` on. Returns their number, and the next `from`.
    pub(crate) fn purge(
        &mut self,
        from: usize,
        soft: bool,
        now: Time,
        takes: impl Fn(View<'_>) -> bool,
    ) -> Purged {
        let end = self
            .entries
            .len()
            .min(from.saturating_add(PURGE_STEP_ENTRIES));
        let ids = (from..end).filter_map(|index| u32::try_from(index).ok().map(EntryId));
        let is_taken = |id: &EntryId| {
            let indexed = self.entries[id.index()].as_ref();
            indexed.is_some_and(|indexed| takes(View::new(&indexed.entry, &self.lines)))
        };
        let taken: Vec<EntryId> = ids.filter(is_taken).collect();
        for id in &taken {
            self.purge_entry(*id, soft, now);
        }
        Purged {
            objects: taken.len() as u64,
            next: (end < self.entries.len()).then_some(end),
        }
    }

    /// Returns true if a response that was requested at `asked` must not be stored: a purge has
    /// named it since then, or the same variant is stored and was requested later.
    pub(crate) fn is_outdated(&self, stored: &Stored, asked: Time) -> bool {
        let is_later = |id| self.entry(id).freshness.is_requested_after(asked);
        self.purges.verdict(stored) != PurgeVerdict::Kept
            || self.position(stored).is_some_and(is_later)
    }

    fn engine_slot(&self, id: EntryId) -> EngineSlot {
        EngineSlot {
            slot: self.indexed(id).slot,
            owner: Owner::of_stored(self.shard, id),
        }
    }

    /// Returns the size in the engine of a response with a body of `body` bytes, if it shares no
    /// header line with others.
    pub(crate) fn size_of(&self, stored: &Stored, body: u64) -> u64 {
        self.overhead.saturating_add(stored.size(body))
    }

    fn indexed(&self, id: EntryId) -> &Indexed {
        self.entries[id.index()].as_ref().expect("a id in use")
    }

    /// Makes the entry stale. Returns the next older variant.
    fn expire_slot(&mut self, id: EntryId, now: Time) -> Option<EntryId> {
        let indexed = self.entries[id.index()].as_mut()?;
        indexed.entry.expire(now);
        indexed.older()
    }

    fn newest(&self, hash: u64, is_key: impl Fn(&Entry) -> bool) -> Option<EntryId> {
        self.table
            .find(hash, |head| is_key(self.entry(*head)))
            .copied()
    }

    /// Sets the bounds of the variants of one key, for a store of this capacity. They apply to the
    /// next stored variant.
    pub(crate) fn bound_variants_to(&mut self, most: usize, capacity: u64) {
        (self.most_variants, self.variants_bytes) =
            (most.max(1), capacity / limits::VARIANTS_SHARE);
    }

    /// Makes room for one more variant of the key, of this many bytes, by removing the oldest.
    fn bound_variants(&mut self, stored: &Stored, size: u64) {
        let newest = self.newest(stored.hash, |entry| *entry.key() == *stored.key);
        let (mut count, mut bytes, mut dropped) = (1, size, Vec::new());
        for id in std::iter::successors(newest, |id| self.indexed(*id).older()) {
            (count, bytes) = (count + 1, bytes + self.overhead + self.entry(id).size());
            let is_many = count > UNBOUNDED_VARIANTS && bytes > self.variants_bytes;
            if count > self.most_variants || is_many {
                dropped.push(id);
            }
        }
        for id in dropped {
            self.remove(id);
            self.variants_dropped += 1;
        }
    }

    /// Removes an id that the engine has evicted from the index, and drops its response. Clients
    /// keep the body while they read it.
    fn unlink(&mut self, id: EntryId) {
        let Some(Indexed {
            entry, hash, older, ..
        }) = self.entries[id.index()].take()
        else {
            debug_assert!(false, "{id:?} is not stored");
            return;
        };
        self.free.push(id);
        self.budget.on_departed(entry.shared_body_bytes());
        self.tags.remove(id, View::new(&entry, &self.lines));
        self.variants.remove(hash, entry.selector(), id);
        self.hosts.remove(entry.key());
        entry.release(&mut self.lines);
        let entries = &mut self.entries;
        // The chain's head is either this entry, which has just been emptied, or another variant of
        // the key.
        let found = self.table.find_entry(hash, |head| {
            *head == id || is_key(entries, *head, entry.key())
        });
        let Ok(mut head) = found else {
            debug_assert!(false, "the key of {id:?} has no variants");
            return;
        };
        if *head.get() == id {
            if older == NO_ENTRY {
                head.remove();
            } else {
                *head.get_mut() = older;
            }
            return;
        }
        let mut at = *head.get();
        while let Some(indexed) = entries[at.index()].as_mut() {
            if indexed.older == id {
                indexed.older = older;
                return;
            }
            let Some(next) = indexed.older() else {
                debug_assert!(false, "{id:?} is not among the variants of its key");
                return;
            };
            at = next;
        }
    }

    /// Panics if index and engine are inconsistent: see [`crate::Cache::check_invariants`]. Returns
    /// the bytes of bodies in the store that readers may share.
    pub(crate) fn check_invariants(&self) -> u64 {
        let (mut seen, mut bodies, mut tags, mut variants) = (0, 0, HashSet::new(), 0);
        for head in &self.table {
            let key = self.entry(*head).key();
            let mut next = Some(*head);
            while let Some(id) = next {
                let indexed = self.indexed(id);
                let Indexed { entry, hash, .. } = indexed;
                assert_eq!(entry.key(), key);
                let at = self.engine_slot(id);
                let object = self.engine.read(|engine| engine.object(at));
                let (object, size) = object.expect("the engine knows the entry");
                assert_eq!(object, *hash);
                let least = self.overhead + entry.size();
                assert!(size >= least, "the engine has {size} for {least} bytes");
                (seen, bodies) = (seen + 1, bodies + entry.shared_body_bytes() as u64);
                if !entry.selector().is_empty() {
                    let is_one = |other| other == id;
                    assert_eq!(
                        self.variants.find(*hash, entry.selector(), is_one),
                        Some(id),
                        "a variant is found"
                    );
                    variants += 1;
                }
                self.view(id)
                    .each_tag(|tag| _ = tags.insert((id, tag.to_vec())));
                next = indexed.older();
            }
        }
        assert_eq!(
            tags.len(),
            self.tags.len(),
            "the index of tags has those of the entries"
        );
        for (id, tag) in tags {
            assert!(
                self.tags.of_tag(&tag, id.index(), 1) == [id],
                "an entry is found by its tag"
            );
        }
        assert_eq!(
            variants,
            self.variants.len(),
            "the index of variants has those of the entries"
        );
        assert_eq!(seen, self.hosts.len(), "each entry has a host");
        let objects = self.engine.read(|engine| {
            engine.check_invariants();
            engine.objects_of(self.shard)
        });
        assert_eq!(seen, objects, "the index has the engine's objects");
        assert_eq!(seen, self.entries.iter().flatten().count());
        assert_eq!(
            seen + self.free.len(),
            self.entries.len(),
            "an entry is in use or free"
        );
        self.lines.check_invariants(
            self.entries
                .iter()
                .flatten()
                .flat_map(|indexed| indexed.entry.all_shared_lines()),
        );
        bodies
    }
}

fn is_key(entries: &[Option<Indexed>], head: EntryId, key: &[u8]) -> bool {
    entries[head.index()]
        .as_ref()
        .is_some_and(|indexed| indexed.entry.key() == key)
}

#[cfg(test)]
mod tests;
