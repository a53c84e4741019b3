//! The Pending Interest Table: the Interests that wait for Data, with their consumers and the
//! upstreams that they were sent to.
//!
//! The key of an entry is name, CanBePrefix, MustBeFresh and ForwardingHint (packet specification
//! 0.3, "Interest": the elements that select Data or its path). One hash table has the keyed hashes
//! of the names. Entries are in a slab and keep their buffers when they are freed, so a steady load
//! allocates nothing. Data is matched with one probe for its whole name, and one for each shorter
//! length at which a CanBePrefix Interest is pending. An Interest with an implicit digest is found
//! by the hash of its name without the digest. So the digest of a Data is computed only if an
//! Interest for its name has one.

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
    /// The face that gets the Data.
    pub face: FaceId,
    /// The nonce of its last Interest.
    pub nonce: u32,
    /// The HopLimit of that Interest as received. A Nack returns it unchanged.
    pub hop_limit: Option<u8>,
    /// The last instant at which it waits: [`Time::has_passed`].
    pub expires: Time,
    /// The token that the Data or Nack returns.
    pub token: Option<PitToken>,
    /// True if it has sent the Interest more than once.
    pub repeated: bool,
}

/// An upstream that the Interest was sent to.
#[derive(Clone, Debug)]
pub struct OutRecord {
    /// The face that the Interest was sent to.
    pub face: FaceId,
    /// The nonce of the Interest. A Nack must have the same.
    pub nonce: u32,
    /// The HopLimit of the Interest. A Nack must not have a higher one.
    pub hop_limit: Option<u8>,
    /// The time of the last sending.
    pub sent: Time,
    /// The last instant at which an answer is expected: [`Time::has_passed`].
    pub expires: Time,
    /// The reason of its Nack, if it sent one.
    pub nacked: Option<NackReason>,
    /// True while the strategy holds the Interest back.
    pub held: bool,
}

/// One pending Interest.
#[derive(Debug, Default)]
pub struct PitEntry {
    hash: u64,
    name: Vec<u8>,
    /// The number of components of a CanBePrefix Interest's name; 0 for other Interests.
    components: usize,
    hint: Vec<u8>,
    can_be_prefix: bool,
    must_be_fresh: bool,
    has_digest: bool,
    /// The consumers that wait.
    pub in_records: Vec<InRecord>,
    /// The upstreams that it was sent to. The Content Store's second tier is face 254.
    pub out_records: Vec<OutRecord>,
    /// The interval within which retransmissions are not forwarded; owned by the strategy.
    pub suppression: Duration,
    /// The keyed hash of the prefix of the FIB entry that was used last.
    pub(crate) namespace: u64,
}

impl PitEntry {
    /// The keyed hash of the Interest's name without an implicit digest.
    pub(crate) fn name_hash(&self) -> u64 {
        self.hash
    }

    /// The Interest's name.
    pub(crate) fn name(&self) -> NameRef<'_> {
        // The name was valid when the Interest arrived.
        NameRef::from_value(&self.name).unwrap_or_default()
    }

    pub(crate) fn must_be_fresh(&self) -> bool {
        self.must_be_fresh
    }

    /// Returns the time at which the last consumer stops waiting.
    pub(crate) fn last_expiry(&self) -> Time {
        self.in_records.iter().map(|record| record.expires).max().unwrap_or(Time::ZERO)
    }

    /// Returns true if the Content Store's second tier is reading the Data. The strategy has not
    /// seen such an Interest.
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
        // Most entries have one of each. The first allocation of a vector has room for four, which
        // would be half of the memory of a pending Interest.
        self.in_records.reserve_exact(1);
        self.out_records.reserve_exact(1);
    }

    /// Empties the entry. Keeps buffers of ordinary size for the next Interest.
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

/// Returns the bytes of the name and the forwarding hint.
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
    /// The lengths with a count above 0.
    prefix_lengths: Lengths,
    limit: usize,
    /// The limit on the bytes of names and hints.
    most_bytes: usize,
    /// The bytes of the names and hints of pending Interests.
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

    /// Returns the numbers of components of pending CanBePrefix Interests.
    #[inline]
    pub(crate) fn prefix_lengths(&self) -> Lengths {
        self.prefix_lengths
    }

    /// Returns the number of consumers over all entries.
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

    /// Returns true if an entry must be removed before this Interest has room.
    pub(crate) fn is_full_for(&self, interest: &Interest<'_>) -> bool {
        self.index.len() >= self.limit || self.bytes + bytes_of(interest) > self.most_bytes
    }

    /// Makes room for an entry of `face` at the expense of another face, if the quota allows it
    /// (`pit_quota.rs`). Returns that face and the entry that the caller must remove. If other
    /// faces wait for the entry too, it now belongs to one of them, the first face does not wait
    /// any more, and no entry is returned.
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

    /// Makes an entry for an Interest of `face` that [`Pit::find`] did not find. Returns `None` if
    /// the table, or the limit of entries per name, is full.
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
            // Returns the memory after a burst.
            *self = Pit::new(self.limit, self.most_bytes);
        }
    }

    /// Collects every entry that this Data satisfies.
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
            // Interests for the whole name were found above. No Interest has an empty name.
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

    /// Begins to load the index line of a name with this hash, before its lookup.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        self.index.prefetch(hash);
    }

    /// Begins to load the entry, after the index line is loaded.
    #[inline]
    pub(crate) fn prefetch_entry(&self, hash: u64) {
        if let Some(slot) = self.index.guess(hash) {
            prefetch(&self.entries, slot.index());
        }
    }

    /// Returns the entry that a Nack of `face` answers: the Interest that was sent there with this
    /// nonce and at least this HopLimit; and the HopLimit that was sent. The Interest in the Nack
    /// may be forwarded, so it must be the one that was sent.
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
