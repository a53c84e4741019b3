//! The Pending Interest Table: who asked for what, and who was asked.
//!
//! Entries are keyed by name, CanBePrefix, MustBeFresh and ForwardingHint (packet specification
//! 0.3, "Interest": the elements that select Data or its way). One hash table over the keyed hash
//! of the name; entries live in a slab and keep their buffers when they are freed, so that a steady
//! load allocates nothing. Data is matched in one probe for its whole name, one for each shorter
//! length at which some CanBePrefix Interest is pending. An Interest that names an implicit digest
//! stands under the hash of its name without it, so that a Data's digest is computed only where
//! somebody waits for its name with one.

use crate::face::FaceId;
use crate::limits;
use crate::tables::name_hash::{Lengths, NameHasher, Prefix};
use crate::tables::pit_quota::PitQuota;
use crate::tables::timer_wheel::TimerWheel;
use larder_packet::{Data, Interest, NackReason, NameRef, PitToken, types};
use larder_policy::{KeyedHashes, Slot, SlotIndex, prefetch};
use larder_units::Time;
use std::time::Duration;

/// A consumer of a pending Interest.
#[derive(Clone, Debug)]
pub struct InRecord {
    /// Where the Data goes.
    pub face: FaceId,
    /// The nonce of its last Interest.
    pub nonce: u32,
    /// The HopLimit with which that came: a Nack returns it as it was.
    pub hop_limit: Option<u8>,
    /// The last instant at which it waits: [`Time::has_passed`].
    pub expires: Time,
    /// To be returned with the Data or Nack.
    pub token: Option<PitToken>,
    /// It has asked more than once.
    pub repeated: bool,
}

/// An upstream that was asked.
#[derive(Clone, Debug)]
pub struct OutRecord {
    /// Where the Interest went.
    pub face: FaceId,
    /// The nonce that it carried: a Nack must carry it too.
    pub nonce: u32,
    /// The HopLimit that it carried: a Nack must not raise it.
    pub hop_limit: Option<u8>,
    /// When it was last sent.
    pub sent: Time,
    /// The last instant at which an answer is expected: [`Time::has_passed`].
    pub expires: Time,
    /// Its refusal, where it refused.
    pub nacked: Option<NackReason>,
    /// Not sent yet: the strategy holds it back.
    pub held: bool,
}

/// One pending Interest.
#[derive(Debug, Default)]
pub struct PitEntry {
    hash: u64,
    name: Vec<u8>,
    /// Of a CanBePrefix Interest's name; nobody else's is asked for.
    components: usize,
    hint: Vec<u8>,
    can_be_prefix: bool,
    must_be_fresh: bool,
    has_digest: bool,
    /// The consumers that wait.
    pub in_records: Vec<InRecord>,
    /// The upstreams that were asked; the Content Store's second tier is face 254.
    pub out_records: Vec<OutRecord>,
    /// The interval within which retransmissions are not forwarded; owned by the strategy.
    pub suppression: Duration,
    /// The FIB entry that served it last, as a keyed hash of its prefix.
    pub(crate) namespace: u64,
}

impl PitEntry {
    /// The keyed hash of the Interest's name without an implicit digest.
    pub(crate) fn name_hash(&self) -> u64 {
        self.hash
    }

    /// The Interest's name.
    pub(crate) fn name(&self) -> NameRef<'_> {
        // It was a name when it came.
        NameRef::from_value(&self.name).unwrap_or_default()
    }

    pub(crate) fn must_be_fresh(&self) -> bool {
        self.must_be_fresh
    }

    /// When the last consumer stops waiting.
    pub(crate) fn last_expiry(&self) -> Time {
        self.in_records.iter().map(|record| record.expires).max().unwrap_or(Time::ZERO)
    }

    /// Whether the Content Store's second tier was asked: then no strategy has heard of it.
    pub(crate) fn waits_for_tier(&self) -> bool {
        self.out_records.iter().any(|record| record.face == FaceId::CONTENT_STORE)
    }

    fn matches(&self, hash: u64, interest: &Interest<'_>) -> bool {
        self.hash == hash
            && self.can_be_prefix == interest.can_be_prefix
            && self.must_be_fresh == interest.must_be_fresh
            && self.name == interest.name.as_bytes()
            && self.hint == interest.forwarding_hint.unwrap_or_default()
    }

    fn fill(&mut self, hash: u64, interest: &Interest<'_>) {
        self.hash = hash;
        self.name.clear();
        self.name.extend_from_slice(interest.name.as_bytes());
        self.components = if interest.can_be_prefix { interest.name.component_count() } else { 0 };
        self.hint.clear();
        self.hint.extend_from_slice(interest.forwarding_hint.unwrap_or_default());
        self.can_be_prefix = interest.can_be_prefix;
        self.must_be_fresh = interest.must_be_fresh;
        self.has_digest = interest.name.strip_implicit_digest().1.is_some();
        self.suppression = Duration::ZERO;
        // Most have one of each: the room for four, which a vector begins with, would be half of
        // what a pending Interest takes.
        self.in_records.reserve_exact(1);
        self.out_records.reserve_exact(1);
    }

    /// Empties the entry; buffers of ordinary size are kept for the next.
    fn clear(&mut self) {
        self.in_records.clear();
        self.out_records.clear();
        self.in_records.shrink_to(8);
        self.out_records.shrink_to(8);
        self.name.clear();
        self.name.shrink_to(512);
        self.hint.clear();
        self.hint.shrink_to(256);
    }
}

/// Of its name and its forwarding hint.
fn bytes_of(interest: &Interest<'_>) -> usize {
    interest.name.as_bytes().len() + interest.forwarding_hint.map_or(0, <[u8]>::len)
}

/// Type and length of an ImplicitSha256DigestComponent.
const DIGEST_HEADER: &[u8] = &[types::IMPLICIT_SHA256_DIGEST as u8, 32];

pub(crate) struct Pit {
    index: SlotIndex<KeyedHashes>,
    entries: Vec<PitEntry>,
    free: Vec<u32>,
    wheel: TimerWheel,
    holders: PitQuota,
    /// Pending CanBePrefix Interests by their number of components.
    prefix_counts: Box<[u32; limits::CAN_BE_PREFIX_COMPONENTS + 1]>,
    /// Those lengths of which there are some.
    prefix_lengths: Lengths,
    limit: usize,
    /// Bytes that names and hints may take.
    most_bytes: usize,
    /// Bytes of the pending Interests' names and hints.
    bytes: usize,
}

impl Pit {
    pub(crate) fn new(limit: usize, most_bytes: usize) -> Self {
        Pit {
            index: SlotIndex::default(),
            entries: Vec::new(),
            free: Vec::new(),
            wheel: TimerWheel::new(),
            holders: PitQuota::default(),
            prefix_counts: Box::new([0; limits::CAN_BE_PREFIX_COMPONENTS + 1]),
            prefix_lengths: Lengths::default(),
            limit,
            most_bytes,
            bytes: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// The numbers of components of pending CanBePrefix Interests.
    #[inline]
    pub(crate) fn prefix_lengths(&self) -> Lengths {
        self.prefix_lengths
    }

    /// Consumers over all entries.
    pub(crate) fn waiting(&self) -> u64 {
        self.entries.iter().map(|entry| entry.in_records.len() as u64).sum()
    }

    pub(crate) fn entry(&self, slot: u32) -> &PitEntry {
        &self.entries[slot as usize]
    }

    pub(crate) fn entry_mut(&mut self, slot: u32) -> &mut PitEntry {
        &mut self.entries[slot as usize]
    }

    pub(crate) fn find(&self, hash: u64, interest: &Interest<'_>) -> Option<u32> {
        let same = |slot: Slot| self.entries[slot.index()].matches(hash, interest);
        self.index.find(hash, same).map(|slot| slot.index() as u32)
    }

    /// Whether there is no room for this Interest before something goes.
    pub(crate) fn is_full_for(&self, interest: &Interest<'_>) -> bool {
        self.index.len() >= self.limit || self.bytes + bytes_of(interest) > self.most_bytes
    }

    /// Who should make room for an entry of `face`, if somebody should: see `pit_quota.rs`. With
    /// the entry that should go, or without one where others wait for it too: then it is theirs
    /// now, and only who held it does not wait any more.
    pub(crate) fn take_from(&mut self, face: FaceId) -> Option<(FaceId, Option<u32>)> {
        let slot = self.holders.oldest_of_the_greatest(face)?;
        let holder = self.holders.face_of(slot);
        let waiting = &mut self.entries[slot as usize].in_records;
        let Some(heir) = waiting.iter().map(|record| record.face).find(|face| *face != holder) else {
            return Some((holder, Some(slot)));
        };
        waiting.retain(|record| record.face != holder);
        self.holders.remove(slot);
        self.holders.insert(heir, slot);
        Some((holder, None))
    }

    /// A new entry for an Interest of `face` that [`Pit::find`] did not find; `None` where the
    /// table, or its name's share of it, is full.
    pub(crate) fn insert(&mut self, face: FaceId, hash: u64, interest: &Interest<'_>) -> Option<u32> {
        let mut same_name = 0;
        self.index.find(hash, |slot| {
            same_name += usize::from(self.entries[slot.index()].hash == hash);
            same_name == limits::ENTRIES_PER_NAME
        });
        if self.is_full_for(interest) || same_name == limits::ENTRIES_PER_NAME {
            return None;
        }
        self.bytes += bytes_of(interest);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.entries.push(PitEntry::default());
            (self.entries.len() - 1) as u32
        });
        let entry = &mut self.entries[slot as usize];
        entry.fill(hash, interest);
        if entry.can_be_prefix {
            self.prefix_counts[entry.components] += 1;
            self.prefix_lengths.insert(entry.components);
        }
        self.index.insert(hash, Slot::new(slot));
        self.holders.insert(face, slot);
        Some(slot)
    }

    pub(crate) fn remove(&mut self, slot: u32) {
        self.wheel.cancel(slot);
        self.holders.remove(slot);
        let entry = &mut self.entries[slot as usize];
        self.index.remove(entry.hash, Slot::new(slot));
        if entry.can_be_prefix {
            self.prefix_counts[entry.components] -= 1;
            if self.prefix_counts[entry.components] == 0 {
                self.prefix_lengths.remove(entry.components);
            }
        }
        self.bytes -= entry.name.len() + entry.hint.len();
        entry.clear();
        self.free.push(slot);
        if self.index.is_empty() && self.entries.len() > 4096 {
            // After a burst, the memory goes back.
            *self = Pit::new(self.limit, self.most_bytes);
        }
    }

    /// Every entry that this Data satisfies.
    pub(crate) fn matches(
        &self,
        hasher: &NameHasher,
        hash: u64,
        data: &Data<'_>,
        prefixes: &mut Vec<Prefix>,
        found: &mut Vec<u32>,
    ) {
        found.clear();
        let name = data.name.as_bytes();
        let mut digest = None;
        let full_name = |entry: &PitEntry, digest: &[u8; 32]| {
            entry.name.strip_prefix(name).and_then(|rest| rest.strip_prefix(DIGEST_HEADER)) == Some(&digest[..])
        };
        self.collect(hash, found, |entry| match entry.has_digest {
            false => entry.name == name,
            true => full_name(entry, digest.get_or_insert_with(|| data.implicit_digest())),
        });
        if self.prefix_lengths != Lengths::default() {
            hasher.prefixes(data.name, self.prefix_lengths, prefixes);
            // Interests of the whole name were found above, and none has the root's.
            for prefix in prefixes.iter().filter(|prefix| (1..name.len()).contains(&prefix.end)) {
                self.collect(prefix.hash, found, |entry| {
                    entry.can_be_prefix && !entry.has_digest && entry.name == name[..prefix.end]
                });
            }
        }
    }

    fn collect(&self, hash: u64, found: &mut Vec<u32>, mut want: impl FnMut(&PitEntry) -> bool) {
        self.index.find(hash, |slot| {
            let entry = &self.entries[slot.index()];
            if entry.hash == hash && want(entry) {
                found.push(slot.index() as u32);
            }
            false
        });
    }

    /// Something with a name of this hash will be looked up soon: begins to load its line of the
    /// index.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        self.index.prefetch(hash);
    }

    /// The same for the entry, once the index is there.
    #[inline]
    pub(crate) fn prefetch_entry(&self, hash: u64) {
        if let Some(slot) = self.index.guess(hash) {
            prefetch(&self.entries, slot.index());
        }
    }

    /// The entry that asked `face` for this with this nonce, and no fewer hops: the one that a Nack
    /// answers; and the HopLimit that was sent. The Interest in the Nack may be sent on, so it must
    /// be the one that was sent.
    pub(crate) fn find_asked(
        &self,
        hash: u64,
        interest: &Interest<'_>,
        face: FaceId,
        nonce: u32,
    ) -> Option<(u32, Option<u8>)> {
        let slot = self.find(hash, interest)?;
        let sent = |out: &&OutRecord| {
            out.face == face
                && out.nonce == nonce
                && out.hop_limit.is_some() == interest.hop_limit.is_some()
                && interest.hop_limit <= out.hop_limit
        };
        self.entries[slot as usize].out_records.iter().find(sent).map(|out| (slot, out.hop_limit))
    }

    /// Checks that the index, the free list, the counts and the quota describe the same entries,
    /// and that the limits hold. O(entries); for tests.
    ///
    /// # Panics
    /// If they do not.
    pub(crate) fn check_invariants(&self) {
        let mut is_free = vec![false; self.entries.len()];
        for slot in &self.free {
            assert!(!std::mem::replace(&mut is_free[*slot as usize], true), "a slot is free once");
            let entry = &self.entries[*slot as usize];
            assert!(entry.in_records.is_empty() && entry.out_records.is_empty(), "a free entry has no records");
        }
        assert_eq!(self.index.len() + self.free.len(), self.entries.len(), "an entry is pending or free");
        let (mut bytes, mut counts) = (0, [0; limits::CAN_BE_PREFIX_COMPONENTS + 1]);
        for (slot, entry) in self.entries.iter().enumerate().filter(|(slot, _)| !is_free[*slot]) {
            assert!(self.index.find(entry.hash, |other| other.index() == slot).is_some(), "the index has each entry");
            assert!(entry.in_records.len() <= limits::RECORDS_PER_ENTRY, "the consumers of an entry are limited");
            assert!(entry.out_records.len() <= limits::RECORDS_PER_ENTRY, "the upstreams of an entry are limited");
            bytes += entry.name.len() + entry.hint.len();
            if entry.can_be_prefix {
                counts[entry.components] += 1;
            }
        }
        assert_eq!(self.bytes, bytes, "the bytes are those of all names and hints");
        assert_eq!(*self.prefix_counts, counts, "CanBePrefix Interests are counted by their components");
        for (components, count) in counts.iter().enumerate().skip(1) {
            assert_eq!(self.prefix_lengths.contains(components), *count > 0, "a length in use is looked up");
        }
        assert!(self.len() <= self.limit && self.bytes <= self.most_bytes, "the PIT keeps its limits");
        self.holders.check_invariants(self.len(), |slot| !is_free[slot as usize]);
    }

    pub(crate) fn set_timer(&mut self, slot: u32, deadline: Time) {
        self.wheel.set(slot, deadline);
    }

    pub(crate) fn expire(&mut self, now: Time, due: &mut Vec<u32>) {
        self.wheel.expire(now, due);
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.wheel.next_timeout()
    }
}
