//! Random lives of a second tier: seeds search for a wrong answer.

use super::*;

const NAMES: u64 = 24;

/// What a consumer waits for.
struct Wish {
    fresh: bool,
}

struct Version {
    number: u64,
    fresh_until: Duration,
}

/// A random life, with restarts, and what is known of it.
struct Life {
    place: Place,
    random: Stream,
    consumers: Vec<FaceId>,
    /// By consumer and name.
    wishes: BTreeMap<(FaceId, u64), Wish>,
    /// Interests that went upstream.
    upstream: Vec<u64>,
    /// All versions ever made, by name.
    versions: BTreeMap<u64, Vec<Version>>,
    next_version: u64,
    /// Names whose newest version was made in this run: nothing older may be served.
    made_here: BTreeMap<u64, u64>,
    /// Nothing older than this may be served, by name: it was erased, and the disk knows.
    floor: BTreeMap<u64, u64>,
    started: Duration,
    seen: TierCounters,
    answered: u64,
}

fn uri(name: u64) -> String {
    format!("/a/{}/{}", name % 4, name)
}

impl Life {
    fn new(seed: u64) -> Life {
        let started = Duration::from_secs(1_000_000);
        let mut life = Life {
            place: Place::new(),
            random: Streams::new(seed).stream("life"),
            consumers: Vec::new(),
            wishes: BTreeMap::new(),
            upstream: Vec::new(),
            versions: BTreeMap::new(),
            next_version: 1,
            made_here: BTreeMap::new(),
            floor: BTreeMap::new(),
            started,
            seen: TierCounters::default(),
            answered: 0,
        };
        life.meet_consumers();
        life
    }

    fn meet_consumers(&mut self) {
        self.consumers = (0..3).map(|_| self.place.world.local()).collect();
    }

    fn calendar(&self) -> Duration {
        self.started + self.place.world.now.since(Time::ZERO)
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..45 => self.ask(),
            45..70 => self.produce(),
            70..85 => self.read(),
            85..92 => {
                let span = Duration::from_millis(self.random.below(80));
                let sent = self.place.world.pass(span);
                self.look(sent);
            }
            92..96 => lock(&self.place.shelf).write(),
            96..98 => self.erase(),
            98 => {
                let failing = lock(&self.place.shelf).reads.pop_front();
                if let Some((ticket, _)) = failing {
                    let sent = self.place.tier_record(ticket, None);
                    self.look(sent);
                }
            }
            _ if self.random.below(4) == 0 => self.crash(),
            _ => {}
        }
        self.place.world.forwarder.check_invariants();
    }

    fn ask(&mut self) {
        let consumer = self.consumers[self.random.below(3) as usize];
        let name = self.random.below(NAMES);
        let fresh = self.random.below(3) == 0;
        if self.wishes.contains_key(&(consumer, name)) {
            return;
        }
        self.wishes.insert((consumer, name), Wish { fresh });
        let lifetime = Duration::from_millis(20 + self.random.below(400));
        let packet = interest(&uri(name), nonce())
            .must_be_fresh(fresh)
            .lifetime(lifetime)
            .build();
        let sent = self.place.world.sent(consumer, packet);
        self.look(sent);
    }

    /// The producer answers one that it was asked, with something new.
    fn produce(&mut self) {
        if self.upstream.is_empty() {
            return;
        }
        let at = self.random.below(self.upstream.len() as u64) as usize;
        let name = self.upstream.swap_remove(at);
        let fresh_for = Duration::from_millis(self.random.below(300));
        let number = self.next_version;
        let wire = data(&uri(name), &number.to_be_bytes(), Some(fresh_for));
        let packets = self
            .place
            .world
            .forwarder
            .stats()
            .drops
            .iter()
            .map(|(_, count)| count)
            .sum::<u64>();
        let fresh_until = self.calendar() + fresh_for;
        self.next_version += 1;
        self.versions.entry(name).or_default().push(Version {
            number,
            fresh_until,
        });
        let before = self.made_here.insert(name, number);
        let sent = self.place.world.sent(self.place.producer, wire);
        if self
            .place
            .world
            .forwarder
            .stats()
            .drops
            .iter()
            .map(|(_, count)| count)
            .sum::<u64>()
            > packets
        {
            // Nobody waited: it was not taken.
            match before {
                Some(before) => drop(self.made_here.insert(name, before)),
                None => drop(self.made_here.remove(&name)),
            }
        }
        self.look_with(sent, Some(number));
    }

    fn read(&mut self) {
        if self.place.is_reading() {
            let sent = self.place.deliver();
            self.look(sent);
        }
    }

    fn erase(&mut self) {
        let group = self.random.below(4);
        self.place.erase(&format!("/a/{group}"));
        for name in (0..NAMES).filter(|name| name % 4 == group) {
            self.floor.insert(name, self.next_version);
        }
    }

    /// SIGKILL, and the next start, some time later.
    fn crash(&mut self) {
        self.count();
        self.started = self.calendar() + Duration::from_millis(self.random.below(200));
        self.place = self.place.restarted(self.started);
        self.meet_consumers();
        self.wishes.clear();
        self.upstream.clear();
        self.made_here.clear();
    }

    fn count(&mut self) {
        let TierCounters {
            hits,
            misses,
            unfit,
            failed,
            late,
            ..
        } = self.place.counters();
        self.seen.hits += hits;
        self.seen.misses += misses;
        self.seen.unfit += unfit;
        self.seen.failed += failed;
        self.seen.late += late;
    }

    fn look(&mut self, sent: Vec<Sent>) {
        self.look_with(sent, None);
    }

    /// `new` has just come from the producer.
    fn look_with(&mut self, sent: Vec<Sent>, new: Option<u64>) {
        for Sent { face, packet, .. } in sent {
            match packet {
                Packet::Interest { name, .. } => {
                    assert_eq!(face, self.place.producer);
                    self.upstream.push(number_of(&name));
                }
                Packet::Data { name, content } => self.check(face, number_of(&name), &content, new),
                Packet::Nack { .. } => panic!("there is a route"),
            }
        }
        let World { forwarder, .. } = &self.place.world;
        let waiting = forwarder.waiting();
        assert!(
            waiting <= self.wishes.len() as u64,
            "somebody waits who got it"
        );
        let figures = forwarder.stats();
        assert!(figures.pit_entries as u64 <= waiting, "an entry for nobody");
        // A consumer that does not wait any more has waited long enough.
        if waiting == 0 {
            self.wishes.clear();
        }
    }

    fn check(&mut self, face: FaceId, name: u64, content: &[u8], new: Option<u64>) {
        let number = u64::from_be_bytes(content.try_into().unwrap());
        let wish = self
            .wishes
            .remove(&(face, name))
            .expect("somebody who asked");
        let version = self.versions[&name]
            .iter()
            .find(|version| version.number == number)
            .expect("a version of this name");
        if let Some(newest) = self.made_here.get(&name) {
            assert_eq!(number, *newest, "something older of {}", uri(name));
        }
        if let Some(floor) = self.floor.get(&name) {
            assert!(number >= *floor, "{} was erased", uri(name));
        }
        if wish.fresh && new != Some(number) {
            assert!(
                version.fresh_until > self.calendar(),
                "{} is stale",
                uri(name)
            );
        }
        self.answered += 1;
    }
}

fn number_of(name: &Name) -> u64 {
    name.to_string()
        .rsplit('/')
        .next()
        .unwrap()
        .parse()
        .unwrap()
}

#[test]
fn something_wrong_is_served_in_some_life() {
    let (mut seen, mut answered) = (TierCounters::default(), 0);
    for seed in 0..20 {
        let life = std::panic::catch_unwind(|| {
            let mut life = Life::new(seed);
            for _ in 0..1500 {
                life.step();
            }
            // The disk answers what it was asked; who still waits, waits for the producer, until
            // his time is over.
            while life.place.is_reading() {
                life.read();
            }
            life.place.world.pass(Duration::from_secs(5));
            let forwarder = &life.place.world.forwarder;
            assert_eq!((forwarder.waiting(), forwarder.stats().pit_entries), (0, 0));
            assert_eq!(forwarder.next_timeout(), None);
            life.count();
            life
        });
        let life = life.unwrap_or_else(|_| panic!("seed {seed}"));
        seen.hits += life.seen.hits;
        seen.unfit += life.seen.unfit;
        seen.failed += life.seen.failed;
        seen.late += life.seen.late;
        answered += life.answered;
    }
    // It happened.
    let TierCounters {
        hits,
        unfit,
        failed,
        late,
        ..
    } = seen;
    assert!(
        hits > 100 && unfit > 20 && failed > 20 && late > 20,
        "{seen:?} {answered}"
    );
}
