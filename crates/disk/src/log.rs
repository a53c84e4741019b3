//! The log: the methods that its owner calls. `schedule.rs` decides when the disk does what,
//! `reclaim.rs` reuses regions, `open.rs` restores the log after a restart.

mod invariants;
mod jobs;
mod reclaim;

use crate::bans::{BanVerdict, Bans};
use crate::counters::Counters;
use crate::index::{Entry, Index};
use crate::layout::{BLOCK, Geometry, HEADER, Identity, Kind, RECORD, within_region};
use crate::limits;
use crate::lookup::{FoundRecord, Lookup, Place, ReadError};
use crate::queue::{Content, Piece, Queue};
use crate::schedule::Schedule;
use crate::superseded::Superseded;
use bytes::Bytes;
use larder_policy::{Engine, Slot, Spec};
use larder_units::Time;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// The configuration of a [`Log`].
#[derive(Clone, Debug)]
pub struct Config {
    /// The size.
    pub geometry: Geometry,
    /// The policy that selects the stored records and the victims.
    pub policy: Spec,
    /// Appended bytes that wait for the disk. Beyond this, new records are dropped and counted,
    /// because a slow disk must not fill the memory.
    pub queue_bytes: usize,
}

/// Records on a disk, by key, and the index of them; see the crate's documentation.
///
/// A key may have several values with different tags, which the owner chooses. A value replaces the
/// one with the same tag.
pub struct Log<M> {
    pub(crate) geometry: Geometry,
    pub(crate) identity: Identity,
    pub(crate) index: Index,
    pub(crate) superseded: Superseded,
    pub(crate) bans: M,
    pub(crate) regions: Vec<Region>,
    /// Regions that may be written, the one that was free first in front.
    pub(crate) free: VecDeque<u32>,
    /// Sealed regions, the oldest in front.
    pub(crate) sealed: VecDeque<u32>,
    pub(crate) open: Option<OpenRegion>,
    pub(crate) next_sequence: u64,
    pub(crate) queue: Queue,
    pub(crate) queue_bytes: usize,
    /// Removals and marks that wait for room. No record is appended before them.
    tombstones: VecDeque<Tombstone>,
    reclaim: Option<Reclaim>,
    pub(crate) schedule: Schedule,
    pub(crate) failure: Option<io::Error>,
    pub(crate) counters: Counters,
}

#[derive(Clone, Default)]
pub(crate) struct Region {
    /// 0 if it has none.
    pub sequence: u64,
    /// The slots of its records, and other records that have reused these slots.
    pub slots: Vec<Slot>,
}

pub(crate) struct OpenRegion {
    pub region: u32,
    pub end: u32,
    pub records: u32,
}

struct Tombstone {
    kind: Kind,
    hash: u64,
    tag: u32,
    value: Bytes,
    /// The number of pieces that this removal replaces, because it removes all that they removed.
    instead_of: u64,
}

static ZEROS: [u8; BLOCK as usize] = [0; BLOCK as usize];

impl Tombstone {
    /// Returns the bytes that it takes in a region, and the number of its records.
    fn room(&self, geometry: Geometry) -> (u32, u32) {
        let length = RECORD + within_region(self.value.len());
        let gap = geometry.gap();
        match self.kind {
            Kind::Ban => (2 * length + gap, 2 + u32::from(gap > 0)),
            _ => (length, 1),
        }
    }
}

/// The result of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The value can be looked up, and will be on the disk.
    Stored,
    /// The policy refused the value.
    Refused,
    /// The value is larger than a region.
    TooLarge,
    /// The disk is too slow, or has failed.
    Dropped,
}

/// A region that is being reclaimed.
struct Reclaim {
    region: u32,
    slots: std::vec::IntoIter<Slot>,
    /// The bytes that may still be rewritten.
    budget: u32,
}

impl<M: Bans> Log<M> {
    pub(crate) fn empty(config: &Config, identity: Identity, engine: Engine, bans: M) -> Log<M> {
        let geometry = config.geometry;
        Log {
            geometry,
            identity,
            index: Index::new(engine),
            superseded: Superseded::default(),
            bans,
            regions: vec![Region::default(); geometry.regions() as usize],
            free: VecDeque::new(),
            sealed: VecDeque::new(),
            open: None,
            next_sequence: 1,
            queue: Queue::default(),
            queue_bytes: config.queue_bytes,
            tombstones: VecDeque::new(),
            reclaim: None,
            schedule: Schedule::default(),
            failure: None,
            counters: Counters::default(),
        }
    }

    /// Counts a request for `key` in the policy. Returns true if the key has a value. Lookups are
    /// not counted.
    pub fn request(&mut self, key: &[u8], now: Time) -> bool {
        let hash = self.identity.hash(key);
        let slot = self.newest(hash);
        match slot {
            Some(slot) => self.index.engine.hit(slot, hash, now),
            None => self.index.engine.miss(hash, now),
        }
        slot.is_some()
    }

    /// Returns the position of the value with this tag, or of the newest one without a tag.
    pub fn look_up(&self, key: &[u8], tag: Option<u32>) -> Option<Lookup> {
        let hash = self.identity.hash(key);
        let slot = match tag {
            Some(tag) => self.index.find(hash, tag),
            None => self.newest(hash),
        };
        Some(self.lookup(slot?, key.into()))
    }

    /// Returns the tags of the values of a key, at most `most`, in no order.
    pub fn tags(&self, key: &[u8], most: usize) -> Vec<u32> {
        let slots = self.index.of_key(self.identity.hash(key));
        slots
            .map(|slot| self.index.get(slot).tag)
            .take(most)
            .collect()
    }

    /// Returns the value that a lookup has read, if it is still the current one. A [`ReadError`]
    /// removes the record from the index.
    pub fn finish(
        &mut self,
        lookup: &Lookup,
        found: Result<Bytes, ReadError>,
    ) -> Option<FoundRecord> {
        let value = self.check(lookup, found)?;
        let verdict = self.bans.verdict(lookup.position, &lookup.key, &value);
        if verdict == BanVerdict::Gone {
            self.index.remove(lookup.slot);
            self.counters.removed += 1;
            return None;
        }
        self.counters.recalled += 1;
        Some(FoundRecord {
            value,
            expired: verdict == BanVerdict::Expired,
            position: lookup.position,
        })
    }

    /// Returns true if the value at `position` is still one of the key's.
    pub fn is_current(&self, key: &[u8], position: u64) -> bool {
        self.index
            .of_key(self.identity.hash(key))
            .any(|slot| self.position_of(slot) == position)
    }

    /// Stores a value, in two parts to avoid a copy. In any case, the former value is removed, from
    /// the disk too.
    pub fn put(&mut self, key: &[u8], tag: u32, value: [Bytes; 2], now: Time) -> Put {
        let hash = self.identity.hash(key);
        let put = self.try_put(hash, key, tag, value, now);
        match put {
            Put::Stored => self.counters.stored += 1,
            Put::Refused => self.counters.refused += 1,
            Put::TooLarge => self.counters.too_large += 1,
            Put::Dropped => self.counters.dropped += 1,
        }
        let may_come_back = self.superseded.take(hash, tag) || self.index.find(hash, tag).is_some();
        if put != Put::Stored && may_come_back {
            self.remove_variant(key, tag, now);
        }
        put
    }

    fn try_put(&mut self, hash: u64, key: &[u8], tag: u32, value: [Bytes; 2], now: Time) -> Put {
        if self.has_failed() {
            return Put::Dropped;
        }
        let length = RECORD as usize + key.len() + value[0].len() + value[1].len();
        let length = match u32::try_from(length) {
            Ok(length)
                if length <= self.geometry.record_bytes() && key.len() <= limits::KEY_BYTES =>
            {
                length
            }
            _ => return Put::TooLarge,
        };
        if !self
            .index
            .engine
            .admit_or_fill(hash, u64::from(length), now)
        {
            return Put::Refused;
        }
        let queued = self.queue.bytes() + length as usize;
        // A record that is larger than the whole queue is queued alone.
        if queued > self.queue_bytes.max(length as usize) || !self.make_room(length, 1) {
            return Put::Dropped;
        }
        match self.index.find(hash, tag) {
            Some(old) => self.index.remove(old),
            None => self.bound_variants(hash),
        }
        let (region, offset) = self.append(Kind::Put, hash, tag, key.into(), value, now);
        let inserted = self.index.insert(
            Entry {
                hash,
                tag,
                region,
                offset,
                length,
            },
            now,
        );
        self.note_superseded();
        let Some((slot, evicted)) = inserted else {
            return Put::TooLarge;
        };
        self.regions[region as usize].slots.push(slot);
        self.counters.evicted += evicted;
        self.counters.stored_bytes += u64::from(length);
        Put::Stored
    }

    /// Removes all values of a key, including those that the policy has evicted and that a restart
    /// could find.
    pub fn remove(&mut self, key: &[u8], now: Time) {
        let hash = self.identity.hash(key);
        self.counters.removed += self.index.remove_key(hash);
        self.tombstone(Kind::RemoveKey, hash, 0, Bytes::new(), now);
    }

    /// Removes the value with this tag, even if the policy has evicted it and a restart could find
    /// it.
    pub fn remove_variant(&mut self, key: &[u8], tag: u32, now: Time) {
        let hash = self.identity.hash(key);
        if let Some(slot) = self.index.find(hash, tag) {
            self.index.remove(slot);
            self.counters.removed += 1;
        }
        self.tombstone(Kind::RemoveVariant, hash, tag, Bytes::new(), now);
    }

    /// Appends a mark, which applies to all records so far. A mark longer than
    /// [`limits::MARK_BYTES`] removes everything.
    pub fn ban(&mut self, ban: Bytes, now: Time) {
        if self.has_failed() {
            return;
        }
        if ban.len() > limits::MARK_BYTES.min(self.geometry.ban_bytes() as usize) {
            return self.clear(now);
        }
        let position = match &self.open {
            Some(open) => position(self.regions[open.region as usize].sequence, open.end),
            None => position(self.next_sequence, 0),
        };
        self.bans.add(position, &ban);
        self.tombstone(Kind::Ban, 0, 0, ban, now);
    }

    /// Removes everything.
    pub fn clear(&mut self, now: Time) {
        self.counters.removed += self.index.engine.len() as u64;
        self.index.clear();
        self.superseded.clear();
        self.bans.clear();
        // The removals that wait for room remove less than this one.
        let instead_of = self.waiting_pieces();
        self.tombstones.clear();
        self.push_tombstone(
            Tombstone {
                kind: Kind::Clear,
                hash: 0,
                tag: 0,
                value: Bytes::new(),
                instead_of,
            },
            now,
        );
    }

    fn tombstone(&mut self, kind: Kind, hash: u64, tag: u32, value: Bytes, now: Time) {
        if self.tombstones.len() >= limits::TOMBSTONES {
            self.counters.emptied += 1;
            self.clear(now);
        } else {
            self.push_tombstone(
                Tombstone {
                    kind,
                    hash,
                    tag,
                    value,
                    instead_of: 0,
                },
                now,
            )
        }
    }

    fn push_tombstone(&mut self, tombstone: Tombstone, now: Time) {
        if !self.has_failed() {
            self.tombstones.push_back(tombstone);
            self.place_tombstones(now);
        }
    }

    /// Appends the removals and marks that wait for room.
    pub(crate) fn place_tombstones(&mut self, now: Time) {
        while let Some(tombstone) = self.tombstones.front() {
            let (length, records) = tombstone.room(self.geometry);
            if !self.make_room_keeping(length, records, 0) {
                return;
            }
            let Some(Tombstone {
                kind,
                hash,
                tag,
                value,
                instead_of,
            }) = self.tombstones.pop_front()
            else {
                debug_assert!(false, "make_room does not remove tombstones");
                return;
            };
            self.schedule.appended += instead_of;
            self.append(
                kind,
                hash,
                tag,
                Box::default(),
                [value.clone(), Bytes::new()],
                now,
            );
            if kind == Kind::Ban {
                self.append_copy(value, now);
            }
        }
    }

    /// Appends the mark's value again, in other blocks than the first copy.
    fn append_copy(&mut self, value: Bytes, now: Time) {
        if let Some(zeros) = self.geometry.gap().checked_sub(RECORD) {
            let zeros = Bytes::from_static(&ZEROS).slice(..zeros as usize);
            self.append(
                Kind::Padding,
                0,
                0,
                Box::default(),
                [zeros, Bytes::new()],
                now,
            );
        }
        self.append(
            Kind::BanCopy,
            0,
            0,
            Box::default(),
            [value, Bytes::new()],
            now,
        );
    }

    /// Returns the number of pieces between the queue's end and that of the removals and bans that
    /// wait for room: these, and the ends and beginnings of their regions.
    pub(crate) fn waiting_pieces(&self) -> u64 {
        let mut pieces = 0;
        let mut open = self.open.as_ref().map(|open| (open.end, open.records));
        for tombstone in &self.tombstones {
            let (length, added) = tombstone.room(self.geometry);
            let has_room =
                |(end, records): &(u32, u32)| self.geometry.fits(*end, *records, length, added);
            let (end, records) = open.filter(has_room).unwrap_or_else(|| {
                pieces += 1 + u64::from(open.is_some());
                (HEADER, 0)
            });
            open = Some((end + length, records + added));
            pieces += tombstone.instead_of + u64::from(added);
        }
        pieces
    }

    /// Returns true if a record of `length` bytes can be appended, if necessary in a new region;
    /// `kept` free regions are not used.
    pub(crate) fn make_room(&mut self, length: u32, kept: usize) -> bool {
        self.tombstones.is_empty() && self.make_room_keeping(length, 1, kept)
    }

    fn make_room_keeping(&mut self, length: u32, records: u32, kept: usize) -> bool {
        let has_room =
            |open: &OpenRegion| self.geometry.fits(open.end, open.records, length, records);
        if self.open.as_ref().is_some_and(has_room) {
            return true;
        }
        if self.free.len() <= kept {
            return false;
        }
        self.seal();
        let Some(region) = self.free.pop_front() else {
            return false;
        };
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.regions[region as usize] = Region {
            sequence,
            slots: Vec::new(),
        };
        self.open = Some(OpenRegion {
            region,
            end: HEADER,
            records: 0,
        });
        self.push(region, sequence, 0, Content::Header);
        true
    }

    fn seal(&mut self) {
        let Some(OpenRegion {
            region, records, ..
        }) = self.open.take()
        else {
            return;
        };
        let sequence = self.regions[region as usize].sequence;
        self.push_at_end(region, sequence, Content::Trailer(records));
        self.sealed.push_back(region);
    }

    /// Appends a piece after all records of the region.
    pub(crate) fn push_at_end(&mut self, region: u32, sequence: u64, content: Content) {
        self.push(region, sequence, self.geometry.footer_at(0), content);
    }

    fn push(&mut self, region: u32, sequence: u64, offset: u32, content: Content) {
        self.schedule.appended += 1;
        self.queue.push(Piece {
            number: self.schedule.appended,
            region,
            sequence,
            offset,
            content,
        });
    }

    /// Appends a record after [`Log::make_room`]. Returns its position.
    pub(crate) fn append(
        &mut self,
        kind: Kind,
        hash: u64,
        tag: u32,
        key: Box<[u8]>,
        value: [Bytes; 2],
        now: Time,
    ) -> (u32, u32) {
        let open = self.open.as_mut().expect("room was made");
        let (region, offset, number) = (open.region, open.end, open.records);
        open.end += RECORD + within_region(key.len() + value[0].len() + value[1].len());
        open.records += 1;
        let sequence = self.regions[region as usize].sequence;
        let content = Content::Record {
            number,
            kind,
            tag,
            hash,
            key,
            value,
        };
        self.push(region, sequence, offset, content);
        self.schedule.note_append(now);
        (region, offset)
    }

    /// Returns the value of a lookup, if its record is still in this position.
    pub(crate) fn check(
        &mut self,
        lookup: &Lookup,
        found: Result<Bytes, ReadError>,
    ) -> Option<Bytes> {
        let entry = self.index.get_if_used(lookup.slot)?;
        if entry.hash != lookup.hash || self.position_of(lookup.slot) != lookup.position {
            return None;
        }
        match found {
            Ok(value) => Some(value),
            Err(error) => {
                match error {
                    ReadError::Io(_) => self.counters.unreadable += 1,
                    ReadError::Corrupt => self.counters.corrupt += 1,
                }
                self.let_go(lookup.slot);
                None
            }
        }
    }

    /// Removes a record from the index, because it is no longer needed or cannot be read. It stays
    /// on the disk until its region is reused.
    pub(crate) fn let_go(&mut self, slot: Slot) {
        self.index.left.push(*self.index.get(slot));
        self.index.remove(slot);
        self.note_superseded();
    }

    /// Remembers evicted records, which could come back at a restart.
    pub(crate) fn note_superseded(&mut self) {
        // A new region overwrites the oldest.
        let oldest = self
            .next_sequence
            .saturating_sub(u64::from(self.geometry.regions()));
        for Entry {
            hash, tag, region, ..
        } in self.index.left.drain(..)
        {
            self.superseded
                .tombstone(hash, tag, self.regions[region as usize].sequence, oldest);
        }
    }

    pub(crate) fn lookup(&self, slot: Slot, key: Box<[u8]>) -> Lookup {
        let Entry {
            hash,
            region,
            offset,
            length,
            ..
        } = *self.index.get(slot);
        let sequence = self.regions[region as usize].sequence;
        let place = Place {
            at: self.geometry.region_at(region) + u64::from(offset),
            offset,
            length,
            seed: self.identity.seed(sequence),
        };
        let queued = self.queue.find(sequence, offset).map(Arc::clone);
        Lookup {
            key,
            hash,
            slot,
            position: position(sequence, offset),
            place,
            queued,
        }
    }

    pub(crate) fn position_of(&self, slot: Slot) -> u64 {
        let entry = self.index.get(slot);
        position(self.regions[entry.region as usize].sequence, entry.offset)
    }

    fn newest(&self, hash: u64) -> Option<Slot> {
        self.index
            .of_key(hash)
            .max_by_key(|slot| self.position_of(*slot))
    }

    fn bound_variants(&mut self, hash: u64) {
        if self.index.of_key(hash).count() >= limits::VARIANTS_PER_KEY
            && let Some(oldest) = self
                .index
                .of_key(hash)
                .min_by_key(|slot| self.position_of(*slot))
        {
            self.let_go(oldest);
            self.counters.evicted += 1;
        }
    }

    /// Stops using the disk and forgets the stored values, because a write has failed or the host
    /// knows of an equally bad fault.
    pub fn fail(&mut self, error: io::Error) {
        self.failure = Some(error);
        self.index.clear();
        self.superseded.clear();
        self.bans.clear();
        self.queue.clear();
        self.tombstones.clear();
        self.reclaim = None;
    }

    /// Returns true if a write or a sync has failed. The log then stores nothing. The content of
    /// the file is outdated and must not be used again.
    pub fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Returns the error of that failure.
    pub fn failure(&self) -> Option<&io::Error> {
        self.failure.as_ref()
    }

    /// Returns the counters.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns the policy engine with its bytes, objects and gauges.
    pub fn engine(&self) -> &Engine {
        &self.index.engine
    }

    /// Returns the owner's marks.
    pub fn bans(&self) -> &M {
        &self.bans
    }

    /// Returns the bytes that wait for the disk.
    pub fn queued_bytes(&self) -> usize {
        self.queue.bytes()
    }

    /// Returns the secret of the keys' hash. It stays the same for the life of the log.
    pub fn hash_key(&self) -> [u8; 16] {
        self.identity.hash_key
    }

    /// Returns the heap bytes of the index and the policies, without the pieces that wait for the
    /// disk.
    pub fn state_bytes(&self) -> usize {
        let slots = self
            .regions
            .iter()
            .map(|region| region.slots.capacity() * size_of::<Slot>())
            .sum::<usize>();
        self.index.state_bytes()
            + self.superseded.state_bytes()
            + slots
            + self.regions.capacity() * size_of::<Region>()
    }
}

/// Returns a position in the order of the log.
pub(crate) fn position(sequence: u64, offset: u32) -> u64 {
    sequence << 32 | u64::from(offset)
}
