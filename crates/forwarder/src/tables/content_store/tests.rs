//! The Content Store against a map of what it should have.

use super::*;
use larder_packet::{DataBuilder, DigestSigner, InterestBuilder, Name, types};
use larder_units::Streams;
use proptest::prelude::*;
use std::collections::BTreeMap;

const NAMES: [&str; 7] = ["/a", "/a/b", "/a/b/c", "/a/b/d", "/a/bc", "/b", "/b/c"];

fn engine(capacity: u64) -> Engine {
    Engine::new(
        &"fifo".parse().unwrap(),
        ByteSize::from_bytes(capacity),
        &Streams::new(1),
    )
    .unwrap()
}

fn store_of(capacity: u64) -> ContentStore {
    ContentStore::new(NameHasher::new([1, 2]), engine(capacity), false)
}

fn packet(name: &str, content: &[u8], freshness: u64) -> Vec<u8> {
    let name: Name = name.parse().unwrap();
    let builder = DataBuilder::new(name.as_name())
        .content(content)
        .freshness(Duration::from_secs(freshness));
    builder.build(&DigestSigner).unwrap()
}

/// Failure: the check that property tests, simulations and fuzz targets rely on accepts a broken
/// store.
#[test]
fn a_broken_store_passes_its_check() {
    let breakages: [fn(&mut ContentStore); 6] = [
        |store| {
            for entry in store.entries.iter_mut().flatten() {
                entry.hash ^= 1;
            }
        },
        |store| store.entries[0] = None,
        |store| store.index = SlotIndex::default(),
        |store| store.engine.remove(Slot::new(0)),
        |store| store.counts_packets = true,
        |store| store.entries.swap(0, 1),
    ];
    for (number, breakage) in breakages.into_iter().enumerate() {
        let mut store = store_of(1 << 20);
        for name in ["/a", "/b"] {
            let wire = packet(name, b"1", 0);
            let data = Data::decode(&wire).unwrap();
            assert!(store.store(Time::ZERO, store.hasher.hash(data.name.as_bytes()), &data));
        }
        store.check_invariants();
        breakage(&mut store);
        let check = std::panic::AssertUnwindSafe(|| store.check_invariants());
        assert!(
            std::panic::catch_unwind(check).is_err(),
            "breakage {number}"
        );
    }
}

/// Failure: a store that joins the figures of its shards loses or mixes some.
#[test]
fn counters_of_shards_are_lost() {
    let counters = |first: u64| ContentStoreCounters {
        hits: first,
        misses: first + 1,
        insertions: first + 2,
        rejections: first + 3,
        untrusted: first + 4,
        unverified: first + 5,
        evictions: first + 6,
        evicted_ages: Duration::from_secs(first + 7),
    };
    let mut sum = counters(10);
    sum.add(&counters(100));
    let expected = ContentStoreCounters {
        hits: 110,
        misses: 112,
        insertions: 114,
        rejections: 116,
        untrusted: 118,
        unverified: 120,
        evictions: 122,
        evicted_ages: Duration::from_secs(124),
    };
    assert_eq!(sum, expected);
}

/// Failure: Data that can never fit is not counted, or another name with the same hash is taken
/// for it.
#[test]
fn data_that_does_not_fit_is_lost_silently_or_a_hash_is_taken_for_a_name() {
    let wire = packet("/a", b"1", 0);
    let data = Data::decode(&wire).unwrap();
    let mut small = store_of(wire.len() as u64);
    assert!(
        !small.insert(Time::ZERO, 5, &data, std::iter::once(5), None, || {
            Verdict::Trusted
        })
    );
    assert_eq!(small.counters.rejections, 1);
    assert!(!small.store(Time::ZERO, 5, &data) && !small.store(Time::ZERO, 5, &data));
    assert_eq!(
        (small.counters.rejections, small.counters.insertions),
        (3, 0)
    );
    let mut store = store_of(1 << 20);
    assert!(store.store(Time::ZERO, 5, &data));
    let other: Name = "/b".parse().unwrap();
    assert_eq!(store.exact(5, other.as_name()), None);
    assert_eq!(store.exact(5, data.name), Some(Slot::new(0)));
}

/// Failure: a packet that the host shares is copied, or names are entered for every lookup for
/// ever after one Interest for a prefix.
#[test]
fn a_shared_packet_is_copied_or_each_lookup_enters_names_for_ever() {
    let mut store = store_of(1 << 20);
    let shared = StoredPacket::share(&packet("/a", b"1", 0));
    let data = Data::decode(&shared).unwrap();
    let hash = store.hasher.hash(data.name.as_bytes());
    store.offer(Some(shared.clone()));
    assert!(store.store(Time::ZERO, hash, &data));
    store.offer(None);
    assert_eq!(store.wire(Slot::new(0)).unwrap().as_ptr(), shared.as_ptr());
    let wire = InterestBuilder::new("/x".parse::<Name>().unwrap())
        .nonce(1)
        .build();
    let interest = Interest::decode(&wire).unwrap();
    for (left, is_whole) in [(0, false), (1, true)] {
        store.look_ups_that_enter = left;
        store.look_up(Time::ZERO, 1, &interest);
        assert_eq!(
            (store.look_ups_that_enter, store.tree.is_whole()),
            (0, is_whole),
            "{left} lookups"
        );
    }
}

/// Twelve components: the tree does not tell apart the names under it.
const DEEP: &str = "/1/2/3/4/5/6/7/8/9/10/11/12";

/// Stores packets with these numbers below a prefix, without signing each.
fn store_numbered(store: &mut ContentStore, prefix: &str, numbers: impl Iterator<Item = u32>) {
    let mut name: Name = prefix.parse().unwrap();
    name.push_generic(&[0; 4]);
    let mut wire = DataBuilder::new(name.as_name())
        .build(&DigestSigner)
        .unwrap();
    let end = Data::decode(&wire).unwrap().name_range().end;
    for number in numbers {
        wire[end - 4..end].copy_from_slice(&number.to_be_bytes());
        let data = Data::decode(&wire).unwrap();
        let hash = store.hasher.hash(data.name.as_bytes());
        assert!(store.exact(hash, data.name).is_some() || store.store(Time::ZERO, hash, &data));
    }
}

/// Failure: an erasure that stopped begins anew, or one that begins anew leaves out what it passed
/// before: that of another client or prefix, one that ended, or one that was not continued in time.
#[test]
fn an_erasure_begins_in_the_wrong_place() {
    const WANTED: u32 = 160;
    let mut store = store_of(100 << 20);
    store_numbered(
        &mut store,
        &format!("{DEEP}/b"),
        0..NAMES_PASSED_TO_ERASE as u32 * 5 / 4,
    );
    let (a, c): (Name, Name) = (
        format!("{DEEP}/a").parse().unwrap(),
        format!("{DEEP}/c").parse().unwrap(),
    );
    let refill = |store: &mut ContentStore| store_numbered(store, &format!("{DEEP}/a"), 0..WANTED);
    let (one, other, at) = (FaceId(1), FaceId(2), Time::from_secs);
    let erase = |store: &mut ContentStore, now: Time, client: FaceId, prefix: &Name| {
        let (erased, more) = store.erase(now, client, prefix.as_name(), WANTED as usize);
        (erased as u32, more)
    };
    // Names wait for the tree.
    let elsewhere: Name = "/elsewhere".parse().unwrap();
    assert_eq!(
        [(); 2].map(|()| erase(&mut store, at(0), one, &elsewhere)),
        [(0, true), (0, false)]
    );
    refill(&mut store);
    let first = erase(&mut store, at(0), one, &a);
    assert!((1..WANTED).contains(&first.0) && first.1, "{first:?}");
    let rest = (WANTED - first.0, false);
    assert_eq!(erase(&mut store, at(4), one, &a), rest, "it goes on");
    refill(&mut store);
    assert_eq!(erase(&mut store, at(4), one, &a), first, "it ended");
    refill(&mut store);
    assert_eq!(
        erase(&mut store, at(4), other, &a),
        first,
        "it is another client's"
    );
    assert_eq!(erase(&mut store, at(5), other, &a), rest);
    refill(&mut store);
    assert_eq!(
        erase(&mut store, at(5), one, &c),
        (0, true),
        "it is another prefix's"
    );
    assert_eq!(erase(&mut store, at(9), one, &a), first, "it is too late");
    let just_before = Time::from_nanos(at(14).nanos() - 1);
    assert_eq!(erase(&mut store, just_before, one, &a), rest);
    refill(&mut store);
    store.check_invariants();
}

/// Failure: an erasure of few names that stopped at its limit leaves out what came in front of it
/// since.
#[test]
fn an_erasure_passes_what_came_since() {
    let mut store = store_of(1 << 20);
    let prefix: Name = format!("{DEEP}/a").parse().unwrap();
    for round in 1..8 {
        store_numbered(&mut store, &format!("{DEEP}/a"), 0..10);
        assert_eq!(
            store.erase(Time::ZERO, FaceId(1), prefix.as_name(), round),
            (round, true)
        );
    }
    store_numbered(&mut store, &format!("{DEEP}/a"), 0..10);
    assert_eq!(
        store.erase(Time::ZERO, FaceId(1), prefix.as_name(), 10),
        (10, false)
    );
    assert_eq!(
        store.erase(Time::ZERO, FaceId(1), prefix.as_name(), 10),
        (0, false)
    );
}

#[derive(Clone, Debug)]
enum Step {
    /// A name, its content, its freshness, and whether its signature is trusted.
    Data(usize, u8, u64, Verdict),
    /// A name, CanBePrefix, MustBeFresh, and the content whose digest it has.
    LookUp(usize, bool, bool, Option<u8>),
    Erase(usize, usize),
    Capacity(u64),
    NewEngine(u64),
    Admits(bool),
    Serves(bool),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let name = || 0..NAMES.len();
    // Up to nine packets fit.
    let capacity = || prop_oneof![1 => 0u64..400, 3 => 400u64..3000];
    let verdict = prop_oneof![3 => Just(Verdict::Trusted), 1 => Just(Verdict::Untrusted), 1 => Just(Verdict::Unknown)];
    prop_oneof![
        8 => (name(), 0u8..2, 0u64..4, verdict).prop_map(|(name, content, fresh, verdict)| {
            Step::Data(name, content, fresh, verdict)
        }),
        8 => (name(), any::<bool>(), any::<bool>(), prop::option::of(0u8..2))
            .prop_map(|(name, prefix, fresh, digest)| Step::LookUp(name, prefix, fresh, digest)),
        1 => (name(), 1usize..4).prop_map(|(name, most)| Step::Erase(name, most)),
        1 => capacity().prop_map(Step::Capacity),
        1 => capacity().prop_map(Step::NewEngine),
        1 => any::<bool>().prop_map(Step::Admits),
        1 => any::<bool>().prop_map(Step::Serves),
        2 => (0u64..3).prop_map(Step::Pass),
    ]
}

struct Kept {
    wire: Vec<u8>,
    stored: Time,
    fresh_until: Time,
    hits: u32,
}

fn weight(wire: &[u8]) -> u64 {
    wire.len() as u64 + CONTENT_STORE_ENTRY_BYTES
}

/// A store and what it should have.
struct Model {
    store: ContentStore,
    now: Time,
    capacity: u64,
    kept: BTreeMap<Name, Kept>,
    counters: ContentStoreCounters,
}

impl Model {
    fn data(&mut self, name: usize, content: u8, fresh: u64, verdict: Verdict) {
        let wire = packet(NAMES[name], &[content], fresh);
        let data = Data::decode(&wire).unwrap();
        let (hash, name) = (
            self.store.hasher.hash(data.name.as_bytes()),
            data.name.to_name(),
        );
        let stored = self
            .store
            .insert(self.now, hash, &data, std::iter::once(hash), None, || {
                verdict
            });
        let fresh_until = self.now + Duration::from_secs(fresh);
        if let Some(kept) = self.kept.get_mut(&name).filter(|kept| kept.wire == wire) {
            kept.fresh_until = fresh_until;
            assert!(stored, "the same packet came again");
            return;
        }
        let is_known = self.kept.contains_key(&name);
        // The policy admits whatever fits.
        let admits = self.store.admits && weight(&wire) <= self.capacity;
        if admits || is_known {
            self.counters.untrusted += u64::from(verdict == Verdict::Untrusted);
            self.counters.unverified += u64::from(verdict == Verdict::Unknown);
        }
        let is_judged = !is_known || verdict == Verdict::Trusted;
        self.counters.rejections += u64::from(!admits && is_judged);
        let expected = admits && verdict == Verdict::Trusted;
        assert_eq!(stored, expected, "{name}");
        if verdict == Verdict::Trusted && is_known {
            self.kept.remove(&name);
        }
        if expected {
            self.counters.insertions += 1;
            self.kept.insert(
                name,
                Kept {
                    wire,
                    stored: self.now,
                    fresh_until,
                    hits: 0,
                },
            );
        }
        self.evict(u64::MAX);
    }

    /// What the engine evicted is gone, and counted; its age too, unless it is larger than `room`.
    fn evict(&mut self, room: u64) {
        let (store, now, counters) = (&self.store, self.now, &mut self.counters);
        self.kept.retain(|name, kept| {
            let is_there = store
                .exact(store.hasher.hash(name.as_bytes()), name.as_name())
                .is_some();
            counters.evictions += u64::from(!is_there);
            if !is_there && weight(&kept.wire) <= room {
                counters.evicted_ages += now.since(kept.stored);
            }
            is_there
        });
    }

    fn look_up(
        &mut self,
        name_of: usize,
        can_be_prefix: bool,
        must_be_fresh: bool,
        digest: Option<u8>,
    ) {
        let mut full: Name = NAMES[name_of].parse().unwrap();
        let plain = full.clone();
        if let Some(content) = digest {
            let wire = packet(NAMES[name_of], &[content], 1);
            full.push(
                types::IMPLICIT_SHA256_DIGEST,
                &Data::decode(&wire).unwrap().implicit_digest(),
            );
        }
        let wire = InterestBuilder::new(full)
            .can_be_prefix(can_be_prefix)
            .must_be_fresh(must_be_fresh)
            .nonce(1)
            .build();
        let interest = Interest::decode(&wire).unwrap();
        let found = self.store.look_up(
            self.now,
            self.store.hasher.hash(plain.as_bytes()),
            &interest,
        );
        let found = found.and_then(|slot| self.store.wire(slot));
        let now = self.now;
        let fits = |name: &Name, kept: &Kept| {
            let is_it = if can_be_prefix && digest.is_none() {
                name.as_name().starts_with(plain.as_name())
            } else {
                *name == plain
            };
            let has_digest =
                digest.is_none_or(|content| kept.wire == packet(NAMES[name_of], &[content], 1));
            is_it && has_digest && (!must_be_fresh || now < kept.fresh_until)
        };
        let serves = self.store.serves;
        let mut answers = self
            .kept
            .iter_mut()
            .filter(|(name, kept)| serves && fits(name, kept));
        match found {
            None => {
                assert!(answers.next().is_none(), "{interest:?}");
                self.counters.misses += 1;
            }
            Some(found) => {
                let (_, kept) = answers
                    .find(|(_, kept)| *kept.wire == *found)
                    .expect("it answers");
                kept.hits += 1;
                self.counters.hits += 1;
            }
        }
    }

    fn erase(&mut self, name: usize, most: usize) {
        let prefix: Name = NAMES[name].parse().unwrap();
        let under = self
            .kept
            .keys()
            .filter(|name| name.as_name().starts_with(prefix.as_name()))
            .count();
        let erased = self
            .store
            .erase(self.now, FaceId(1), prefix.as_name(), most);
        assert_eq!(erased, (under.min(most), under > most));
        let before = self.kept.len();
        let store = &self.store;
        self.kept.retain(|name, _| {
            let is_under = name.as_name().starts_with(prefix.as_name());
            !is_under
                || store
                    .exact(store.hasher.hash(name.as_bytes()), name.as_name())
                    .is_some()
        });
        assert_eq!(before - self.kept.len(), erased.0);
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Data(name, content, fresh, verdict) => self.data(name, content, fresh, verdict),
            Step::LookUp(name, prefix, fresh, digest) => self.look_up(name, prefix, fresh, digest),
            Step::Erase(name, most) => self.erase(name, most),
            Step::Capacity(capacity) => {
                self.store
                    .set_capacity(self.now, ByteSize::from_bytes(capacity));
                self.capacity = capacity;
                self.evict(u64::MAX);
            }
            Step::NewEngine(capacity) => {
                self.store.set_engine(self.now, engine(capacity));
                self.capacity = capacity;
                self.evict(capacity);
            }
            Step::Admits(admits) => self.store.admits = admits,
            Step::Serves(serves) => self.store.serves = serves,
            Step::Pass(seconds) => self.now += Duration::from_secs(seconds),
        }
    }

    fn compare(&self) {
        assert_eq!(self.store.counters, self.counters);
        let root = Name::root();
        let mut all: Vec<_> = self.store.under(root.as_name()).collect();
        all.sort_by_key(|entry| entry.name().to_name());
        assert_eq!(all.len(), self.kept.len());
        for (entry, (name, kept)) in all.into_iter().zip(&self.kept) {
            assert_eq!(
                (entry.name(), &entry.wire[..]),
                (name.as_name(), &kept.wire[..])
            );
            assert_eq!(
                (entry.hits, entry.packet_bytes()),
                (kept.hits, kept.wire.len())
            );
            assert_eq!(
                (entry.stored, entry.fresh_until),
                (kept.stored, kept.fresh_until)
            );
        }
        let mut ages: Vec<Duration> = self.store.ages(self.now).collect();
        let mut expected: Vec<Duration> = self
            .kept
            .values()
            .map(|kept| self.now.since(kept.stored))
            .collect();
        ages.sort();
        expected.sort();
        assert_eq!(ages, expected);
        assert_eq!(self.store.slots().count(), self.kept.len());
        self.store.check_invariants();
    }
}

proptest! {
    /// Failure: Data is served that does not answer, or that does is not found; counters or ages
    /// are others than what happened.
    #[test]
    fn the_store_has_other_data_than_it_was_given(steps in prop::collection::vec(step(), 1..80)) {
        let (now, capacity) = (Time::from_secs(100), 3000);
        let counters = ContentStoreCounters::default();
        let mut model = Model { store: store_of(capacity), now, capacity, kept: BTreeMap::new(), counters };
        for step in steps {
            model.take(step);
            model.compare();
        }
    }
}
