//! Failures of the Content Store's second tier: stored Data is lost, or erased or replaced Data
//! comes back; the tier serves stale Data, or Data with another digest, or Data that must not be
//! stored; an Interest waits for a disk that hangs, or is forwarded twice, or not at all.
//!
//! The tier is the log that the node has, over a disk in memory whose reads complete when the test
//! says so.

mod lives;
mod reads;
mod records;

use crate::local_fields::{to_chosen, with_local_fields};
use crate::world::{Packet, Sent, World, command, data, faces, interest, nack, response};
use larder_disk::{BanVerdict, Geometry, Identity, Log, Lookup, MemoryStorage};
use larder_forwarder::{
    Config, EraseBans, FaceId, Forwarder, HostRequest, Report, SecondTier, TierCounters,
    TierFigures, TierLookup, TierRecord, VerifyRule,
};
use larder_packet::{
    ControlParameters, ControlResponse, Data, LpHeader, NackReason, Name, NameRef, encode_lp,
};
use larder_policy::Engine;
use larder_units::{ByteSize, Stream, Streams, Time};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

#[derive(Default)]
struct TierBans(EraseBans);

impl larder_disk::Bans for TierBans {
    fn add(&mut self, position: u64, ban: &[u8]) {
        self.0.add(position, ban);
    }

    fn verdict(&self, position: u64, key: &[u8], _: &[u8]) -> BanVerdict {
        if self.0.erased(position, key) {
            BanVerdict::Gone
        } else {
            BanVerdict::Untouched
        }
    }

    fn retire(&mut self, before: u64) {
        self.0.retire(before);
    }

    fn clear(&mut self) {
        self.0 = EraseBans::default();
    }
}

/// The log, and what is being read of it.
struct Shelf {
    log: Log<TierBans>,
    storage: Arc<MemoryStorage>,
    reads: VecDeque<(u64, Lookup)>,
    now: Time,
}

impl Shelf {
    fn on(storage: &Arc<MemoryStorage>) -> Arc<Mutex<Shelf>> {
        let geometry = Geometry::new(1 << 16, 16).unwrap();
        let config = larder_disk::Config {
            geometry,
            policy: "fifo".parse().unwrap(),
            queue_bytes: 1 << 18,
        };
        let identity = Identity {
            id: 7,
            hash_key: [7; 16],
        };
        let (log, _) = Log::open(
            &**storage,
            &config,
            identity,
            TierBans::default(),
            &Streams::new(1),
            Time::ZERO,
        )
        .unwrap();
        Arc::new(Mutex::new(Shelf {
            log,
            storage: storage.clone(),
            reads: VecDeque::new(),
            now: Time::ZERO,
        }))
    }

    /// Everything goes to the disk.
    fn write(&mut self) {
        let ticket = self.log.settle(self.now);
        while let Some(job) = self.log.job(self.now) {
            let done = job.run(&*self.storage);
            self.log.complete(done, self.now);
        }
        self.log.check_invariants();
        assert!(self.log.is_settled(ticket));
    }

    fn read(&mut self, lookup: &Lookup) -> Option<TierRecord> {
        let found = lookup.run(&*self.storage, lookup.room());
        let found = self.log.finish(lookup, found);
        self.log.check_invariants();
        let found = found?;
        Some(TierRecord {
            record: found.value,
            position: found.position,
        })
    }
}

/// The forwarder's side of it.
struct Side(Arc<Mutex<Shelf>>);

impl SecondTier for Side {
    fn tier_lookup(&mut self, name: NameRef<'_>, ticket: u64) -> TierLookup {
        let mut shelf = lock(&self.0);
        let now = shelf.now;
        if !shelf.log.request(name.as_bytes(), now) {
            return TierLookup::Absent;
        }
        let lookup = shelf.log.look_up(name.as_bytes(), None).unwrap();
        shelf.reads.push_back((ticket, lookup));
        TierLookup::Reading
    }

    fn put(&mut self, name: NameRef<'_>, record: bytes::Bytes) {
        let mut shelf = lock(&self.0);
        let now = shelf.now;
        shelf
            .log
            .put(name.as_bytes(), 0, [record, bytes::Bytes::new()], now);
        shelf.log.check_invariants();
    }

    fn erase(&mut self, prefix: NameRef<'_>) {
        let mut shelf = lock(&self.0);
        let now = shelf.now;
        if prefix.is_empty() {
            shelf.log.clear(now)
        } else {
            shelf.log.ban(prefix.as_bytes().to_vec().into(), now)
        }
    }

    fn holds(&self, name: NameRef<'_>, position: u64) -> bool {
        let shelf = lock(&self.0);
        let key = name.as_bytes();
        shelf.log.is_current(key, position) && !shelf.log.bans().0.erased(position, key)
    }

    fn figures(&self) -> TierFigures {
        TierFigures {
            entries: lock(&self.0).log.engine().len(),
            ..TierFigures::default()
        }
    }
}

fn lock(shelf: &Mutex<Shelf>) -> MutexGuard<'_, Shelf> {
    shelf.lock().unwrap()
}

/// A forwarder with a tier, a consumer and a producer of `/a`.
struct Place {
    world: World,
    storage: Arc<MemoryStorage>,
    shelf: Arc<Mutex<Shelf>>,
    consumer: FaceId,
    producer: FaceId,
}

/// Room for two packets of these tests, which have some 100 bytes, in memory.
const SMALL: ByteSize = ByteSize::from_bytes(600);

impl Place {
    fn new() -> Place {
        Place::on(Arc::default(), Duration::from_secs(1_000_000))
    }

    /// As the node starts, `since_1970`.
    fn on(storage: Arc<MemoryStorage>, since_1970: Duration) -> Place {
        let streams = Streams::new(1);
        let engine = Engine::new(&"lru".parse().unwrap(), SMALL, &streams).unwrap();
        let mut config = Config::new([1, 2], streams);
        config.started = since_1970;
        let mut world = World::of(Forwarder::new(config, engine));
        let shelf = Shelf::on(&storage);
        world.forwarder.set_tier(Box::new(Side(shelf.clone())));
        let (consumer, producer) = (world.local(), world.local());
        world.route("/a", producer, 1);
        Place {
            world,
            storage,
            shelf,
            consumer,
            producer,
        }
    }

    /// After a crash: what the disk has not been given is lost.
    fn restarted(&self, since_1970: Duration) -> Place {
        Place::on(self.storage.clone(), since_1970)
    }

    fn counters(&self) -> TierCounters {
        self.world.forwarder.stats().tier
    }

    /// The producer answers an Interest that nothing here answers.
    fn fetch(&mut self, name: &str, content: &[u8], freshness: Option<Duration>) {
        let sent = self.world.interest(self.consumer, name, nonce());
        assert_eq!(faces(&sent), [self.producer], "{name} {sent:?}");
        let sent = self
            .world
            .sent(self.producer, data(name, content, freshness));
        assert_eq!(faces(&sent), [self.consumer]);
    }

    /// Other Data takes the place of all that is in memory.
    fn fill_memory(&mut self) {
        for other in 0..4 {
            self.fetch(&format!("/a/other/{}", nonce()), &[other; 20], None);
        }
    }

    /// The oldest read is done.
    fn deliver(&mut self) -> Vec<Sent> {
        let (ticket, found) = {
            let mut shelf = lock(&self.shelf);
            let (ticket, lookup) = shelf.reads.pop_front().expect("a read");
            (ticket, shelf.read(&lookup))
        };
        self.tier_record(ticket, found)
    }

    fn tier_record(&mut self, ticket: u64, found: Option<TierRecord>) -> Vec<Sent> {
        self.world
            .forwarder
            .on_tier_lookup(self.world.now, ticket, found, &mut self.world.outbox);
        self.world.collect(&[])
    }

    /// Asks, and the tier reads what it is asked for.
    fn ask(&mut self, name: &str) -> Vec<Sent> {
        let sent = self.world.interest(self.consumer, name, nonce());
        if sent.is_empty() {
            self.deliver()
        } else {
            sent
        }
    }

    fn is_reading(&self) -> bool {
        !lock(&self.shelf).reads.is_empty()
    }

    fn erase(&mut self, prefix: &str) -> ControlResponse {
        let parameters = ControlParameters {
            name: Some(prefix.parse().unwrap()),
            ..Default::default()
        };
        let sent = self
            .world
            .sent(self.consumer, command("cs", "erase", &parameters, nonce()));
        assert!(sent.is_empty(), "answered before it lasts");
        let Some(HostRequest::SettleTier { ticket }) = self.world.requests.pop() else {
            panic!("not settled")
        };
        lock(&self.shelf).write();
        let World {
            forwarder,
            now,
            outbox,
            ..
        } = &mut self.world;
        forwarder.on_report(*now, ticket, Report::Settled(Ok(())), outbox);
        response(&self.world.collect(&[]), self.consumer)
    }
}

/// Another one every time.
fn nonce() -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static LAST: AtomicU32 = AtomicU32::new(1 << 20);
    LAST.fetch_add(1, Ordering::Relaxed)
}

fn contents(sent: &[Sent]) -> Vec<(FaceId, Vec<u8>)> {
    let content = |sent: &Sent| match &sent.packet {
        Packet::Data { content, .. } => (sent.face, content.clone()),
        other => panic!("{other:?}"),
    };
    sent.iter().map(content).collect()
}

#[test]
fn what_memory_let_go_or_a_restart_took_is_fetched_again() {
    let mut place = Place::new();
    place.fetch("/a/b", b"kept", None);
    place.fill_memory();
    assert_eq!(
        contents(&place.ask("/a/b")),
        [(place.consumer, b"kept".to_vec())]
    );
    // From memory now.
    assert_eq!(
        contents(&place.world.interest(place.consumer, "/a/b", nonce())),
        [(place.consumer, b"kept".to_vec())]
    );
    assert_eq!(
        place.counters(),
        TierCounters {
            hits: 1,
            misses: 5,
            ..TierCounters::default()
        }
    );
    lock(&place.shelf).write();
    let mut place = place.restarted(Duration::from_secs(1_000_060));
    assert_eq!(
        contents(&place.ask("/a/b")),
        [(place.consumer, b"kept".to_vec())]
    );
    assert_eq!(place.world.forwarder.waiting(), 0);
}

#[test]
fn somebody_of_those_who_wait_gets_nothing_or_is_sent_upstream() {
    let mut place = Place::new();
    place.fetch("/a/b", b"kept", None);
    place.fill_memory();
    let other = place.world.local();
    assert!(place.world.interest(place.consumer, "/a/b", 1).is_empty());
    assert!(place.world.interest(other, "/a/b", 2).is_empty());
    // Repeated, as consumers do.
    assert!(place.world.interest(place.consumer, "/a/b", 3).is_empty());
    assert_eq!(lock(&place.shelf).reads.len(), 1);
    let mut got = contents(&place.deliver());
    got.sort();
    assert_eq!(
        got,
        [
            (place.consumer, b"kept".to_vec()),
            (other, b"kept".to_vec())
        ]
    );
    assert_eq!(
        (
            place.world.forwarder.waiting(),
            place.world.forwarder.stats().pit_entries
        ),
        (0, 0)
    );
}

/// Failure: an operator finds a poisoned cache and enables the verification of signatures, and the
/// poisoned Data comes back from the disk.
#[test]
fn a_restart_with_a_rule_serves_what_came_before_it() {
    let mut place = Place::new();
    place.fetch("/a/b", b"poison", None);
    lock(&place.shelf).write();
    let mut place = place.restarted(Duration::from_secs(1_000_060));
    let rule = VerifyRule {
        prefix: "/a".parse().unwrap(),
        certificates: Vec::new(),
    };
    place.world.forwarder.set_verification(vec![rule]);
    assert_eq!(faces(&place.ask("/a/b")), [place.producer]);
    assert_eq!(place.counters().unfit, 1);
}

/// Failure: an Interest that was never forwarded counts as one in a loop.
#[test]
fn who_hears_of_an_interest_twice_is_refused() {
    let mut place = Place::new();
    place.fetch("/a/b", b"kept", None);
    place.fill_memory();
    let other = place.world.remote();
    assert!(place.world.interest(place.consumer, "/a/b", 1).is_empty());
    assert_eq!(
        contents(&place.deliver()),
        [(place.consumer, b"kept".to_vec())]
    );
    assert_eq!(
        contents(&place.world.interest(other, "/a/b", 1)),
        [(other, b"kept".to_vec())]
    );
}

#[test]
fn another_digest_or_stale_data_is_served() {
    let mut place = Place::new();
    let wire = data("/a/b", b"kept", Some(Duration::from_secs(10)));
    let digest = Data::decode(&wire).unwrap().implicit_digest();
    place.fetch("/a/b", b"kept", Some(Duration::from_secs(10)));
    place.fill_memory();
    let with_digest = |digest: &[u8; 32]| {
        let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("/a/b/sha256digest={digits}")
    };
    assert_eq!(
        contents(&place.ask(&with_digest(&digest))),
        [(place.consumer, b"kept".to_vec())]
    );
    place.fill_memory();
    assert_eq!(faces(&place.ask(&with_digest(&[9; 32]))), [place.producer]);
    place.world.pass(Duration::from_secs(5));
    let fresh = || interest("/a/b", nonce()).must_be_fresh(true).build();
    assert!(place.world.sent(place.consumer, fresh()).is_empty());
    assert_eq!(
        contents(&place.deliver()),
        [(place.consumer, b"kept".to_vec())]
    );
    // It has not become fresher by that, in memory or there.
    place.world.pass(Duration::from_secs(6));
    assert_eq!(
        faces(&place.world.sent(place.consumer, fresh())),
        [place.producer]
    );
    place.world.pass(Duration::from_secs(5));
    place.fill_memory();
    assert!(place.world.sent(place.consumer, fresh()).is_empty());
    assert_eq!(faces(&place.deliver()), [place.producer]);
    // A consumer of fresh Data from upstream is not answered by what another gets from the tier.
    let other = place.world.local();
    assert!(place.world.interest(other, "/a/b", nonce()).is_empty());
    assert_eq!(contents(&place.deliver()), [(other, b"kept".to_vec())]);
    assert_eq!(place.world.forwarder.waiting(), 1);
    assert_eq!(
        contents(&place.world.data(place.producer, "/a/b")),
        [(place.consumer, b"content".to_vec())]
    );
}

#[test]
fn a_restart_makes_data_fresh() {
    let mut place = Place::new();
    place.fetch("/a/b", b"kept", Some(Duration::from_secs(10)));
    lock(&place.shelf).write();
    for (since_1970, fresh) in [
        (1_000_009, true),
        (1_000_010, false),
        (999_999, false),
        (0, false),
    ] {
        let mut place = place.restarted(Duration::from_secs(since_1970));
        assert!(
            place
                .world
                .sent(
                    place.consumer,
                    interest("/a/b", nonce()).must_be_fresh(true).build()
                )
                .is_empty()
        );
        let to = if fresh {
            place.consumer
        } else {
            place.producer
        };
        assert_eq!(faces(&place.deliver()), [to], "{since_1970}");
        // Fresh or not, it is what others asked for.
        assert_eq!(
            contents(&place.ask("/a/b")),
            [(place.consumer, b"kept".to_vec())]
        );
    }
}

#[test]
fn an_erased_name_comes_back() {
    for prefix in ["/a/b", "/a", "/"] {
        let mut place = Place::new();
        place.fetch("/a/b", b"kept", None);
        place.fill_memory();
        // Being read meanwhile.
        assert!(
            place
                .world
                .interest(place.consumer, "/a/b", nonce())
                .is_empty()
        );
        let (ticket, found) = {
            let mut shelf = lock(&place.shelf);
            let (ticket, lookup) = shelf.reads.pop_front().unwrap();
            (ticket, shelf.read(&lookup))
        };
        assert!(found.is_some());
        assert_eq!(place.erase(prefix).status_code, 200);
        assert_eq!(
            faces(&place.tier_record(ticket, found)),
            [place.producer],
            "{prefix}"
        );
        let mut place = place.restarted(Duration::from_secs(1_000_060));
        // It is still in the index, and is judged when it is read; or is not there at all.
        assert_eq!(faces(&place.ask("/a/b")), [place.producer], "{prefix}");
        // What comes after it stays.
        place.world.sent(place.producer, data("/a/b", b"new", None));
        place.fill_memory();
        assert_eq!(
            contents(&place.ask("/a/b")),
            [(place.consumer, b"new".to_vec())]
        );
    }
}

#[test]
fn a_disk_that_does_not_know_of_an_erasure_is_silent() {
    let mut place = Place::new();
    let parameters = ControlParameters {
        name: Some("/a".parse().unwrap()),
        ..Default::default()
    };
    let erase = command("cs", "erase", &parameters, nonce());
    assert!(place.world.sent(place.consumer, erase.clone()).is_empty());
    // Repeated meanwhile, it is not done twice.
    assert!(place.world.sent(place.consumer, erase).is_empty());
    let [HostRequest::SettleTier { ticket }] = place.world.requests[..] else {
        panic!()
    };
    let why = "/x has failed: remove it";
    let World {
        forwarder,
        now,
        outbox,
        ..
    } = &mut place.world;
    forwarder.on_report(*now, ticket, Report::Settled(Err(why.to_owned())), outbox);
    let told = response(&place.world.collect(&[]), place.consumer);
    assert_eq!((told.status_code, told.status_text.as_str()), (504, why));
}

#[test]
fn what_nobody_may_keep_is_kept() {
    let mut place = Place::new();
    place.world.route("/localhost/a", place.producer, 1);
    place.fetch("/localhost/a/b", b"mine", None);
    // The producer says so.
    assert_eq!(
        faces(&place.world.interest(place.consumer, "/a/c", nonce())),
        [place.producer]
    );
    let mut frame = Vec::new();
    encode_lp(
        &LpHeader {
            no_cache: true,
            ..LpHeader::default()
        },
        &data("/a/c", b"not to be kept", None),
        &mut frame,
    );
    assert_eq!(
        faces(&place.world.sent(place.producer, frame)),
        [place.consumer]
    );
    // Unsolicited.
    place.world.data(place.producer, "/a/d");
    assert_eq!(lock(&place.shelf).log.engine().len(), 0);
    // The operator says so.
    let switch = |place: &mut Place, flags| {
        let parameters = ControlParameters {
            flags: Some(flags),
            mask: Some(3),
            ..Default::default()
        };
        let told = place
            .world
            .command(place.consumer, "cs", "config", &parameters);
        assert_eq!(told.status_code, 200, "{told:?}");
    };
    switch(&mut place, 2);
    place.fetch("/a/e", b"x", None);
    assert_eq!(lock(&place.shelf).log.engine().len(), 0);
    switch(&mut place, 1);
    place.fetch("/a/e", b"x", None);
    assert_eq!(lock(&place.shelf).log.engine().len(), 1);
    place.fetch("/a/e", b"x", None);
    switch(&mut place, 3);
    place.fill_memory();
    assert_eq!(
        contents(&place.ask("/a/e")),
        [(place.consumer, b"x".to_vec())]
    );
}

// ---- By seed ----

/// Failure: the tier is read for an Interest that may not come from it: one with a chosen next hop,
/// or one of this machine's own names.
#[test]
fn the_tier_is_read_for_what_it_may_not_answer() {
    let mut place = Place::new();
    place.fetch("/a/b", b"kept", None);
    place.fill_memory();
    let (chooser, chosen) = (with_local_fields(&mut place.world), place.world.remote());
    assert_eq!(
        faces(
            &place
                .world
                .sent(chooser, to_chosen("/a/b", nonce(), chosen))
        ),
        [chosen]
    );
    assert!(!place.is_reading());
    let before = place.counters();
    place.world.route("/localhost/a", place.producer, 1);
    assert_eq!(
        faces(
            &place
                .world
                .interest(place.consumer, "/localhost/a/b", nonce())
        ),
        [place.producer]
    );
    assert_eq!(place.counters(), before, "no lookup");
}
