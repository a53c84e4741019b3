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
        self.in_records
            .iter()
            .map(|record| record.expires)
            .max()
            .unwrap_or(Time::ZERO)
    }

    /// Returns true if the Content Store's second tier is reading the Data. The strategy has not
    /// seen such an Interest.
    pub(crate) fn waits_for_tier(&self) -> bool {
        self.out_records
            .iter()
            .any(|record| record.face == FaceId::CONTENT_STORE)
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
        self.components = if interest.can_be_prefix {
            interest.name.component_count()
        } else {
            0
        };
        self.hint.clear();
        self.hint
            .extend_from_slice(interest.forwarding_hint.unwrap_or_default());
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
        self.entries
            .iter()
            .map(|entry| entry.in_records.len() as u64)
            .sum()
    }

    pub(crate) fn entry(&self, slot: u32) -> &PitEntry {
        &self.entries[slot as usize]
    }

    pub(crate) fn entry_mut(&mut self, slot: u32) -> &mut PitEntry {
        &mut self.entries[slot as usize]
    }

    #[inline]
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
        let Some(heir) = waiting
            .iter()
            .map(|record| record.face)
            .find(|face| *face != holder)
        else {
            return Some((holder, Some(slot)));
        };
        waiting.retain(|record| record.face != holder);
        self.holders.remove(slot);
        self.holders.insert(heir, slot);
        Some((holder, None))
    }

    /// Makes an entry for an Interest of `face` that [`Pit::find`] did not find. Returns `None` if
    /// the table, or the limit of entries per name, is full.
    pub(crate) fn insert(
        &mut self,
        face: FaceId,
        hash: u64,
        interest: &Interest<'_>,
    ) -> Option<u32> {
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

    /// Returns true if so many further Interests have room, with so many bytes of names and hints.
    #[inline]
    pub(crate) fn has_room_for(&self, interests: usize, bytes: usize) -> bool {
        self.index.len() + interests <= self.limit && self.bytes + bytes <= self.most_bytes
    }

    /// Appends every entry that this Data satisfies to `found`.
    pub(crate) fn matches(
        &self,
        hasher: &NameHasher,
        hash: u64,
        data: &Data<'_>,
        prefixes: &mut Vec<Prefix>,
        found: &mut Vec<u32>,
    ) {
        let name = data.name.as_bytes();
        let mut digest = None;
        let full_name = |entry: &PitEntry, digest: &[u8; 32]| {
            entry
                .name
                .strip_prefix(name)
                .and_then(|rest| rest.strip_prefix(DIGEST_HEADER))
                == Some(&digest[..])
        };
        self.collect(hash, found, |entry| {
            if entry.has_digest {
                full_name(entry, digest.get_or_insert_with(|| data.implicit_digest()))
            } else {
                entry.name == name
            }
        });
        if self.prefix_lengths != Lengths::default() {
            hasher.prefixes(data.name, self.prefix_lengths, prefixes);
            // Interests for the whole name were found above. No Interest has an empty name.
            for prefix in prefixes
                .iter()
                .filter(|prefix| (1..name.len()).contains(&prefix.end))
            {
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
        self.entries[slot as usize]
            .out_records
            .iter()
            .find(sent)
            .map(|out| (slot, out.hop_limit))
    }

    /// Checks that the index, the free list, the counts and the quota describe the same entries,
    /// and that the limits hold. O(entries); for tests.
    ///
    /// # Panics
    /// If they do not.
    pub(crate) fn check_invariants(&self) {
        let mut is_free = vec![false; self.entries.len()];
        for slot in &self.free {
            assert!(
                !std::mem::replace(&mut is_free[*slot as usize], true),
                "a slot is free once"
            );
            let entry = &self.entries[*slot as usize];
            assert!(
                entry.in_records.is_empty() && entry.out_records.is_empty(),
                "a free entry has no records"
            );
        }
        assert_eq!(
            self.index.len() + self.free.len(),
            self.entries.len(),
            "an entry is pending or free"
        );
        let (mut bytes, mut counts) = (0, [0; limits::CAN_BE_PREFIX_COMPONENTS + 1]);
        for (slot, entry) in self
            .entries
            .iter()
            .enumerate()
            .filter(|(slot, _)| !is_free[*slot])
        {
            assert!(
                self.index
                    .find(entry.hash, |other| other.index() == slot)
                    .is_some(),
                "the index has each entry"
            );
            assert!(
                entry.in_records.len() <= limits::RECORDS_PER_ENTRY,
                "the consumers of an entry are limited"
            );
            assert!(
                entry.out_records.len() <= limits::RECORDS_PER_ENTRY,
                "the upstreams of an entry are limited"
            );
            bytes += entry.name.len() + entry.hint.len();
            if entry.can_be_prefix {
                counts[entry.components] += 1;
            }
        }
        assert_eq!(
            self.bytes, bytes,
            "the bytes are those of all names and hints"
        );
        assert_eq!(
            *self.prefix_counts, counts,
            "CanBePrefix Interests are counted by their components"
        );
        for (components, count) in counts.iter().enumerate().skip(1) {
            assert_eq!(
                self.prefix_lengths.contains(components),
                *count > 0,
                "a length in use is looked up"
            );
        }
        assert!(
            self.len() <= self.limit && self.bytes <= self.most_bytes,
            "the PIT keeps its limits"
        );
        self.holders
            .check_invariants(self.len(), |slot| !is_free[slot as usize]);
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

#[cfg(test)]
mod tests {
    use super::*;
    use larder_packet::{DataBuilder, DigestSigner, InterestBuilder, Name};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const NAMES: [&str; 5] = ["/a", "/a/b", "/a/b/c", "/b", "/ab"];
    const UPSTREAM: FaceId = FaceId(9);

    /// An Interest by what tells it from others; its digest is right or wrong.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Wish {
        name: usize,
        can_be_prefix: bool,
        must_be_fresh: bool,
        hint: bool,
        digest: Option<bool>,
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u64, Wish),
        Remove(usize),
        Data(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let wish = (
            0..NAMES.len(),
            any::<bool>(),
            any::<bool>(),
            any::<bool>(),
            any::<Option<bool>>(),
        );
        let wish = wish.prop_map(|(name, can_be_prefix, must_be_fresh, hint, digest)| Wish {
            name,
            can_be_prefix,
            must_be_fresh,
            hint,
            digest,
        });
        prop_oneof![
            4 => (1u64..4, wish).prop_map(|(face, wish)| Step::Insert(face, wish)),
            2 => (0usize..20).prop_map(Step::Remove),
            1 => (0..NAMES.len()).prop_map(Step::Data),
        ]
    }

    fn consumer(face: u64, expires: Time) -> InRecord {
        InRecord {
            face: FaceId(face),
            nonce: 1,
            hop_limit: None,
            expires,
            token: None,
            repeated: false,
        }
    }

    fn data(name: usize) -> Vec<u8> {
        let name: Name = NAMES[name].parse().unwrap();
        DataBuilder::new(name.as_name())
            .content(b"x")
            .build(&DigestSigner)
            .unwrap()
    }

    fn frame(wish: Wish, hop_limit: Option<u8>) -> Vec<u8> {
        let mut name: Name = NAMES[wish.name].parse().unwrap();
        let right = Data::decode(&data(wish.name)).unwrap().implicit_digest();
        if let Some(is_right) = wish.digest {
            name.push(
                types::IMPLICIT_SHA256_DIGEST,
                if is_right { &right } else { &[7; 32] },
            );
        }
        let builder = InterestBuilder::new(name)
            .can_be_prefix(wish.can_be_prefix)
            .must_be_fresh(wish.must_be_fresh);
        let builder = if wish.hint {
            builder.forwarding_hint(&["/hint".parse().unwrap()])
        } else {
            builder
        };
        let builder = hop_limit.map_or(builder.clone(), |hops| builder.hop_limit(hops));
        builder.nonce(1).build()
    }

    /// Compares what the table says of each possible Interest with the pending ones.
    fn look_for(
        pit: &Pit,
        hasher: &NameHasher,
        pending: &[(u32, Wish)],
        wish: Wish,
        sent: Option<u8>,
    ) {
        let slot = pending
            .iter()
            .find(|(_, other)| *other == wish)
            .map(|(slot, _)| *slot);
        for hops in [None, Some(4), Some(5), Some(6)] {
            let wire = frame(wish, hops);
            let interest = Interest::decode(&wire).unwrap();
            let hash = hasher.hash(interest.name.strip_implicit_digest().0.as_bytes());
            assert_eq!(pit.find(hash, &interest), slot, "{wish:?}");
            for (face, nonce) in [(UPSTREAM, 1), (FaceId(1), 1), (UPSTREAM, 2)] {
                let may = (face, nonce) == (UPSTREAM, 1)
                    && hops.is_some() == sent.is_some()
                    && hops <= sent;
                let expected = slot.filter(|_| may).map(|slot| (slot, sent));
                assert_eq!(
                    pit.find_asked(hash, &interest, face, nonce),
                    expected,
                    "{wish:?} {hops:?}"
                );
            }
        }
    }

    proptest! {
        /// Failure: an Interest is taken for another one, Data does not match what it answers, or
        /// a Nack is taken for one of what was not sent.
        #[test]
        fn an_interest_is_taken_for_another(
            steps in prop::collection::vec(step(), 1..60),
            sent in prop_oneof![Just(None), Just(Some(5))],
        ) {
            let hasher = NameHasher::new([1, 2]);
            let (limit, most_bytes) = (12, 200);
            let mut pit = Pit::new(limit, most_bytes);
            let mut pending: Vec<(u32, Wish)> = Vec::new();
            let (mut prefixes, mut found) = (Vec::new(), Vec::new());
            for step in steps {
                match step {
                    Step::Insert(face, wish) => {
                        look_for(&pit, &hasher, &pending, wish, sent);
                        if pending.iter().any(|(_, other)| *other == wish) {
                            continue;
                        }
                        let wire = frame(wish, None);
                        let interest = Interest::decode(&wire).unwrap();
                        let bytes = |wish| bytes_of(&Interest::decode(&frame(wish, None)).unwrap());
                        let used: usize = pending.iter().map(|(_, wish)| bytes(*wish)).sum();
                        let has_room = pending.len() < limit && used + bytes(wish) <= most_bytes;
                        prop_assert_eq!(pit.is_full_for(&interest), !has_room);
                        let hash = hasher.hash(interest.name.strip_implicit_digest().0.as_bytes());
                        let slot = pit.insert(FaceId(face), hash, &interest);
                        prop_assert_eq!(slot.is_some(), has_room);
                        let Some(slot) = slot else { continue };
                        let record = OutRecord {
                            face: UPSTREAM,
                            nonce: 1,
                            hop_limit: sent,
                            sent: Time::ZERO,
                            expires: Time::ZERO,
                            nacked: None,
                            held: false,
                        };
                        let expires = Time::from_secs(face);
                        let entry = pit.entry_mut(slot);
                        prop_assert!(!entry.waits_for_tier());
                        entry.out_records.push(record);
                        entry.in_records.push(consumer(face, expires));
                        entry.in_records.push(consumer(face + 10, Time::ZERO));
                        prop_assert_eq!((entry.name(), entry.name_hash()), (interest.name, hash));
                        prop_assert_eq!(entry.must_be_fresh(), wish.must_be_fresh);
                        prop_assert_eq!((entry.last_expiry(), entry.waits_for_tier()), (expires, false));
                        pending.push((slot, wish));
                    }
                    Step::Remove(at) if !pending.is_empty() => pit.remove(pending.remove(at % pending.len()).0),
                    Step::Remove(_) => {}
                    Step::Data(name) => {
                        let wire = data(name);
                        let data = Data::decode(&wire).unwrap();
                        found.clear();
                        pit.matches(&hasher, hasher.hash(data.name.as_bytes()), &data, &mut prefixes, &mut found);
                        let answers = |wish: &Wish| match wish.digest {
                            Some(is_right) => is_right && wish.name == name,
                            None if wish.name == name => true,
                            None => wish.can_be_prefix && NAMES[name].starts_with(&format!("{}/", NAMES[wish.name])),
                        };
                        let expected = pending.iter().filter(|(_, wish)| answers(wish)).map(|(slot, _)| *slot);
                        prop_assert_eq!(found.iter().copied().collect::<BTreeSet<_>>(), expected.collect());
                    }
                }
                prop_assert_eq!((pit.len(), pit.waiting()), (pending.len(), 2 * pending.len() as u64));
                prop_assert_eq!(pit.prefix_lengths(), pit.prefix_lengths);
                pit.check_invariants();
            }
        }
    }

    /// Failure: the memory of a burst of Interests is kept for ever, or a steady load gives its
    /// entries back and allocates them again.
    #[test]
    fn a_burst_of_interests_keeps_its_entries_or_a_steady_load_loses_them() {
        for (interests, kept) in [(4096, 4096), (4097, 0)] {
            let mut pit = Pit::new(1 << 16, 1 << 20);
            let wire = InterestBuilder::new("/a".parse::<Name>().unwrap())
                .nonce(1)
                .build();
            let interest = Interest::decode(&wire).unwrap();
            // As many names: their hashes differ.
            let slots: Vec<u32> = (0..interests)
                .map(|hash: u64| {
                    pit.insert(
                        FaceId(1),
                        hash.wrapping_mul(0x9e37_79b9_7f4a_7c15),
                        &interest,
                    )
                    .unwrap()
                })
                .collect();
            for slot in slots {
                pit.remove(slot);
            }
            assert_eq!((pit.len(), pit.entries.len()), (0, kept), "{interests}");
            pit.check_invariants();
        }
    }

    /// Failure: the check that property tests, simulations and fuzz targets rely on accepts a
    /// broken table.
    #[test]
    fn a_broken_pit_passes_its_check() {
        let hasher = NameHasher::new([1, 2]);
        let record = consumer(1, Time::ZERO);
        let breakages: [fn(&mut Pit, InRecord); 9] = [
            |pit, _| pit.bytes += 1,
            |pit, _| pit.most_bytes = 0,
            |pit, _| pit.limit = 0,
            |pit, _| pit.free.push(0),
            |pit, _| pit.free.clear(),
            |pit, _| pit.prefix_counts[1] += 1,
            |pit, _| pit.prefix_lengths.remove(1),
            |pit, _| pit.prefix_lengths.insert(2),
            |pit, record| pit.entries[1].in_records.push(record),
        ];
        for (number, breakage) in breakages.into_iter().enumerate() {
            let mut pit = Pit::new(10, 1000);
            for uri in ["/a", "/b"] {
                let name: Name = uri.parse().unwrap();
                let frame = InterestBuilder::new(name)
                    .can_be_prefix(uri == "/a")
                    .nonce(1)
                    .build();
                let interest = Interest::decode(&frame).unwrap();
                pit.insert(FaceId(1), hasher.hash(interest.name.as_bytes()), &interest);
            }
            pit.remove(1);
            pit.check_invariants();
            breakage(&mut pit, record.clone());
            let check = std::panic::AssertUnwindSafe(|| pit.check_invariants());
            assert!(
                std::panic::catch_unwind(check).is_err(),
                "breakage {number}"
            );
        }
    }

    /// Failure: a name with ever other hints makes a chain without end, or it takes the room of
    /// other names.
    #[test]
    fn entries_of_one_name_are_not_bounded() {
        let mut pit = Pit::new(1000, 1 << 20);
        for number in 0..=limits::ENTRIES_PER_NAME {
            let hint = format!("/{number}").parse().unwrap();
            let wire = InterestBuilder::new("/a".parse::<Name>().unwrap())
                .forwarding_hint(&[hint])
                .nonce(1)
                .build();
            let slot = pit.insert(FaceId(1), 5, &Interest::decode(&wire).unwrap());
            assert_eq!(
                slot.is_some(),
                number < limits::ENTRIES_PER_NAME,
                "{number}"
            );
        }
        let wire = InterestBuilder::new("/b".parse::<Name>().unwrap())
            .nonce(1)
            .build();
        assert!(
            pit.insert(FaceId(1), 6, &Interest::decode(&wire).unwrap())
                .is_some()
        );
        pit.check_invariants();
    }

    /// Failure: an entry goes although others wait for it, or the face that loses it still gets
    /// the Data.
    #[test]
    fn a_shared_entry_is_lost_with_the_face_that_made_it() {
        let mut pit = Pit::new(10, 1000);
        for (number, name) in ["/a", "/b", "/c"].into_iter().enumerate() {
            let wire = InterestBuilder::new(name.parse::<Name>().unwrap())
                .nonce(1)
                .build();
            let slot = pit
                .insert(FaceId(1), number as u64, &Interest::decode(&wire).unwrap())
                .unwrap();
            pit.entry_mut(slot).in_records.push(consumer(1, Time::ZERO));
        }
        pit.entry_mut(0).in_records.push(consumer(2, Time::ZERO));
        assert_eq!(
            pit.take_from(FaceId(3)),
            Some((FaceId(1), None)),
            "another waits for it"
        );
        let waiting: Vec<FaceId> = pit
            .entry(0)
            .in_records
            .iter()
            .map(|record| record.face)
            .collect();
        assert_eq!(
            (waiting, pit.holders.face_of(0)),
            (vec![FaceId(2)], FaceId(2))
        );
        assert_eq!(pit.take_from(FaceId(3)), Some((FaceId(1), Some(1))));
        pit.check_invariants();
    }
}
