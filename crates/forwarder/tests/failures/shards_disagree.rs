//! Several shards are not as one forwarder: an Interest and its Data miss each other, state stays
//! behind, or somebody gets what he never asked for, however what passes between the shards'
//! threads is delayed.

use super::world::{command, name};
use larder_forwarder::{
    Body, Change, Config, Dispatch, DropReason, FaceConfig, FaceId, Forwarder, HostRequest, Outbox,
    Report, Shard, ShardQuery,
};
use larder_packet::mgmt::{CsInfo, Element};
use larder_packet::tlv::TlvReader;
use larder_packet::{
    ControlParameters, ControlResponse, Data, DataBuilder, DigestSigner, Fragmenter, Interest,
    InterestBuilder, LpHeader, LpPacket, Name, encode_lp,
};
use larder_policy::Engine;
use larder_units::{ByteSize, Stream, Streams, Time};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// What passes between threads: one queue a shard, as in the node.
enum Message {
    Frame(FaceId, Vec<u8>),
    Send(FaceId, Vec<u8>),
    Change(Change),
    Ask(u64, ShardQuery),
    Said(u64, Report),
}

/// Shards with their threads, and who is at the other ends of the faces.
struct Shards {
    forwarders: Vec<Forwarder>,
    dispatch: Dispatch,
    queues: Vec<VecDeque<Message>>,
    outbox: Outbox,
    now: Time,
    /// Which thread has the socket.
    home: HashMap<FaceId, usize>,
    /// What came out of each face and was not looked at.
    out: HashMap<FaceId, VecDeque<Vec<u8>>>,
    draws: Stream,
    nonce: u32,
}

impl Shards {
    fn new(seed: u64) -> Shards {
        let mut draws = Streams::new(seed).stream("shards");
        let of = 2 + draws.below(3) as usize;
        let forwarder = |shard: Shard| {
            let streams = Streams::new(seed + shard.number() as u64);
            let capacity = shard.part_of(ByteSize::from_bytes(64 << 10));
            let engine = Engine::new(&"lru".parse().unwrap(), capacity, &streams).unwrap();
            let mut config = Config::new([seed, shard.number() as u64], streams);
            config.shard = shard;
            Forwarder::new(config, engine)
        };
        let mut shards = Shards {
            forwarders: Shard::all(of).map(forwarder).collect(),
            dispatch: Dispatch::new([seed, 77], of),
            queues: Shard::all(of).map(|_| VecDeque::new()).collect(),
            outbox: Outbox::new(),
            now: Time::ZERO,
            home: HashMap::new(),
            out: HashMap::new(),
            draws,
            nonce: 0,
        };
        shards.forwarders[0].set_capacity(Time::ZERO, ByteSize::from_bytes(64 << 10));
        shards.tell();
        shards
    }

    fn face(&mut self) -> FaceId {
        let face = self.forwarders[0].add_face(FaceConfig::local("test").with_mtu(9000));
        self.tell();
        let home = self.draws.below(self.forwarders.len() as u64) as usize;
        self.home.insert(face, home);
        self.out.insert(face, VecDeque::new());
        face
    }

    /// The first shard's changes go into the queues of the others.
    fn tell(&mut self) {
        let changes: Vec<Change> = self.forwarders[0].drain_changes().collect();
        for queue in &mut self.queues[1..] {
            queue.extend(changes.iter().cloned().map(Message::Change));
        }
        assert!(
            self.forwarders
                .iter()
                .all(|forwarder| !forwarder.has_changes()),
            "only the first has a say"
        );
    }

    /// A frame comes to the socket of its face.
    fn arrive(&mut self, face: FaceId, frame: Vec<u8>) {
        let Some(home) = self.home.get(&face).copied() else {
            return;
        };
        let forwarders = &self.forwarders;
        match self
            .dispatch
            .homes(&frame, |shard| forwarders[shard].pending_prefixes())
        {
            None => self.handle(home, face, frame),
            Some(homes) => {
                for shard in homes.iter().filter(|shard| *shard != home) {
                    self.queues[shard].push_back(Message::Frame(face, frame.clone()));
                }
                if homes.iter().any(|shard| shard == home) {
                    self.handle(home, face, frame);
                }
            }
        }
    }

    fn handle(&mut self, shard: usize, face: FaceId, mut frame: Vec<u8>) {
        let _ = self.forwarders[shard].on_packet(self.now, face, &mut frame, &mut self.outbox);
        self.post(shard, &frame);
        for (face, frame) in self.outbox.take_reassembled() {
            self.arrive(face, frame);
        }
    }

    fn post(&mut self, shard: usize, frame: &[u8]) {
        self.tell();
        for request in self.outbox.drain_requests() {
            let HostRequest::Ask {
                ticket,
                shard,
                question,
            } = request
            else {
                continue;
            };
            self.queues[shard].push_back(Message::Ask(ticket, question));
        }
        let input = frame.get(self.outbox.input()).unwrap_or_default();
        for send in self.outbox.drain() {
            let mut wire = Vec::new();
            assert!(!matches!(send.body, Body::Input) || !input.is_empty());
            send.write_stream(input, &mut wire);
            match self.home.get(&send.face).copied() {
                Some(home) if home == shard => {
                    self.out.entry(send.face).or_default().push_back(wire)
                }
                Some(home) => self.queues[home].push_back(Message::Send(send.face, wire)),
                None => {}
            }
        }
    }

    /// One message of some queue is taken out; false where there is none.
    fn deliver(&mut self) -> bool {
        let waiting: Vec<usize> = (0..self.queues.len())
            .filter(|shard| !self.queues[*shard].is_empty())
            .collect();
        if waiting.is_empty() {
            return false;
        }
        let shard = waiting[self.draws.below(waiting.len() as u64) as usize];
        match self.queues[shard].pop_front().unwrap() {
            Message::Frame(face, frame) => self.handle(shard, face, frame),
            Message::Send(face, wire) if self.home.contains_key(&face) => {
                self.out.entry(face).or_default().push_back(wire);
            }
            Message::Send(..) => {}
            Message::Change(change) => self.forwarders[shard].apply(self.now, change),
            Message::Ask(ticket, question) => {
                let report = self.forwarders[shard].report(self.now, question);
                self.queues[0].push_back(Message::Said(ticket, report));
            }
            Message::Said(ticket, report) => {
                self.forwarders[0].on_report(self.now, ticket, report, &mut self.outbox);
                self.post(0, &[]);
            }
        }
        true
    }

    fn pass(&mut self, span: Duration) {
        self.now += span;
        for shard in 0..self.forwarders.len() {
            if self.forwarders[shard]
                .next_timeout()
                .is_some_and(|at| at <= self.now)
            {
                self.forwarders[shard].on_timeout(self.now, &mut self.outbox);
                self.post(shard, &[]);
            }
            self.forwarders[shard].check_invariants();
        }
    }

    fn close(&mut self, face: FaceId) {
        self.home.remove(&face);
        self.out.remove(&face);
        self.forwarders[0].remove_face(face);
        self.tell();
    }

    /// Sends a packet, in pieces sometimes.
    fn send(&mut self, face: FaceId, packet: &[u8]) {
        if !self.draws.chance(0.2) {
            return self.arrive(face, packet.to_vec());
        }
        let (mut frames, sequence) = (Vec::new(), self.draws.bits());
        let cut = Fragmenter::new(sequence).fragment(&LpHeader::default(), packet, 60, |frame| {
            frames.push(frame.to_vec())
        });
        assert!(cut.is_ok());
        for frame in frames {
            self.arrive(face, frame);
        }
    }

    /// Everything is delivered; the answer to a command or dataset of this face.
    fn answer_to(&mut self, face: FaceId, packet: &[u8]) -> Vec<u8> {
        while self.deliver() {}
        self.out.get_mut(&face).unwrap().clear();
        self.arrive(face, packet.to_vec());
        while self.deliver() {}
        let frame = self
            .out
            .get_mut(&face)
            .unwrap()
            .pop_front()
            .expect("an answer");
        Data::decode(LpPacket::decode(&frame).unwrap().fragment.unwrap())
            .unwrap()
            .content
            .to_vec()
    }

    fn command(
        &mut self,
        face: FaceId,
        module: &str,
        verb: &str,
        parameters: &ControlParameters,
    ) -> ControlParameters {
        self.nonce += 1;
        let response = self.answer_to(face, &command(module, verb, parameters, self.nonce));
        let response = ControlResponse::decode(&response).unwrap();
        assert_eq!(response.status_code, 200, "{}", response.status_text);
        response.body.unwrap()
    }

    fn info(&mut self, face: FaceId) -> CsInfo {
        self.nonce += 1;
        let dataset = name("/localhost/nfd/cs/info");
        let interest = InterestBuilder::new(dataset)
            .can_be_prefix(true)
            .must_be_fresh(true)
            .nonce(self.nonce)
            .build();
        let content = self.answer_to(face, &interest);
        CsInfo::decode(TlvReader::new(&content).next().unwrap().unwrap().wire).unwrap()
    }

    fn stored(&self) -> u64 {
        self.forwarders
            .iter()
            .map(|forwarder| forwarder.stats().content_store_entries as u64)
            .sum()
    }
}

/// An Interest that a consumer sent.
struct Asked {
    name: Name,
    can_be_prefix: bool,
    /// Data that fits has come since.
    answered: bool,
    /// It is what one of them came for.
    spent: bool,
}

/// Consumers and a producer, and what they have seen.
struct Run {
    shards: Shards,
    consumers: Vec<FaceId>,
    producer: FaceId,
    asked: HashMap<FaceId, Vec<Asked>>,
    /// Interests that came to the producer.
    to_answer: Vec<(Name, bool)>,
    /// Data is always sent, nobody leaves, and no lifetime ends.
    kind: bool,
}

impl Run {
    fn new(seed: u64, kind: bool) -> Run {
        let mut shards = Shards::new(seed);
        let producer = shards.face();
        let consumers: Vec<FaceId> = (0..3).map(|_| shards.face()).collect();
        let root = ControlParameters {
            name: Some(Name::root()),
            ..Default::default()
        };
        shards.command(producer, "rib", "register", &root);
        Run {
            shards,
            consumers,
            producer,
            asked: HashMap::new(),
            to_answer: Vec::new(),
            kind,
        }
    }

    fn ask(&mut self) {
        let draws = &mut self.shards.draws;
        let mut name = name(&format!("/n/{}", draws.below(6)));
        for _ in 0..draws.below(3) {
            name.push_generic(format!("{}", draws.below(3)).as_bytes());
        }
        if draws.chance(0.3) {
            name.push_version(draws.below(2))
                .push_segment(draws.below(3));
        }
        let can_be_prefix = draws.chance(0.4);
        let consumer = self.consumers[draws.below(3) as usize];
        self.shards.nonce += 1;
        let interest = InterestBuilder::new(&name)
            .can_be_prefix(can_be_prefix)
            .nonce(self.shards.nonce)
            .build();
        self.asked.entry(consumer).or_default().push(Asked {
            name,
            can_be_prefix,
            answered: false,
            spent: false,
        });
        self.shards.send(consumer, &interest);
        self.look();
    }

    /// The producer answers one of the Interests that it has, or does not.
    fn answer(&mut self) {
        if self.to_answer.is_empty() {
            return;
        }
        let at = self.shards.draws.below(self.to_answer.len() as u64) as usize;
        let (mut name, can_be_prefix) = self.to_answer.swap_remove(at);
        if can_be_prefix {
            let draws = &mut self.shards.draws;
            for _ in 0..draws.below(3) {
                name.push_generic(b"z");
            }
            if draws.chance(0.5) {
                name.push_version(1).push_segment(0);
            }
        }
        if self.kind || self.shards.draws.chance(0.7) {
            let data = DataBuilder::new(name.as_name())
                .content(b"content")
                .build(&DigestSigner)
                .unwrap();
            self.shards.send(self.producer, &data);
            self.look();
        }
    }

    /// What has come out of the faces.
    fn look(&mut self) {
        let faces: Vec<FaceId> = self.shards.out.keys().copied().collect();
        for face in faces {
            while let Some(frame) = self.shards.out.get_mut(&face).and_then(VecDeque::pop_front) {
                let lp = LpPacket::decode(&frame).unwrap();
                let packet = lp.fragment.unwrap();
                assert_eq!(
                    lp.header.nack, None,
                    "there is a route, and no nonce comes twice"
                );
                match packet[0] {
                    5 => {
                        assert_eq!(face, self.producer);
                        let interest = Interest::decode(packet).unwrap();
                        self.to_answer
                            .push((interest.name.to_name(), interest.can_be_prefix));
                    }
                    _ => self.data_came(face, Data::decode(packet).unwrap().name.to_name()),
                }
            }
        }
    }

    fn data_came(&mut self, face: FaceId, name: Name) {
        let fits = |asked: &&mut Asked| {
            asked.name == name
                || (asked.can_be_prefix && name.as_name().starts_with(asked.name.as_name()))
        };
        let mut asked: Vec<&mut Asked> = self
            .asked
            .get_mut(&face)
            .into_iter()
            .flatten()
            .filter(fits)
            .collect();
        // The closest first: others fit more.
        asked.sort_by_key(|asked| {
            (
                std::cmp::Reverse(asked.name.as_bytes().len()),
                asked.can_be_prefix,
            )
        });
        // One Data may be for several Interests, but each of them is answered once at most.
        for asked in &mut asked {
            asked.answered = true;
        }
        match asked.into_iter().find(|asked| !asked.spent) {
            Some(asked) => asked.spent = true,
            None => panic!("{face} was sent {name} without a record"),
        }
    }

    fn leave(&mut self) {
        let at = self.shards.draws.below(3) as usize;
        let new = self.shards.face();
        let old = std::mem::replace(&mut self.consumers[at], new);
        self.shards.close(old);
    }

    fn go(mut self) {
        for _ in 0..600 {
            match self.shards.draws.below(100) {
                0..25 => self.ask(),
                25..50 => self.answer(),
                50..90 => drop(self.shards.deliver()),
                90..99 => {
                    let most = if self.kind { 1 } else { 200 };
                    let span = Duration::from_millis(self.shards.draws.below(most + 1));
                    self.shards.pass(span);
                }
                _ if self.kind => {}
                _ => self.leave(),
            }
            self.look();
        }
        while self.shards.deliver() || !self.to_answer.is_empty() {
            self.look();
            self.answer();
        }
        self.look();
        if self.kind {
            self.everybody_has_an_answer();
        }
        self.shards.pass(Duration::from_secs(10));
        for forwarder in &self.shards.forwarders {
            assert_eq!(
                (forwarder.stats().pit_entries, forwarder.waiting()),
                (0, 0),
                "it waits for ever"
            );
            assert_eq!(forwarder.pending_prefixes(), 0);
        }
        self.all_shards_are_counted();
    }

    fn everybody_has_an_answer(&self) {
        assert!(self.asked.values().flatten().all(|asked| asked.answered));
        for forwarder in &self.shards.forwarders {
            let stats = forwarder.stats();
            assert_eq!(
                (stats.pit_entries, stats.unsatisfied),
                (0, 0),
                "something waits that was answered"
            );
            // Data for a prefix passes its own home too.
            let drops = stats
                .drops
                .iter()
                .filter(|(reason, count)| *count > 0 && *reason != DropReason::Unsolicited);
            assert_eq!(drops.count(), 0);
        }
    }

    /// Datasets and `cs/erase` are of all shards.
    fn all_shards_are_counted(mut self) {
        let (face, stored) = (self.producer, self.shards.stored());
        let info = self.shards.info(face);
        assert_eq!(
            (info.entries, info.capacity_bytes),
            (stored, Some(64 << 10))
        );
        let erase = ControlParameters {
            name: Some(Name::root()),
            ..Default::default()
        };
        let erased = self.shards.command(face, "cs", "erase", &erase);
        assert_eq!((erased.count, self.shards.stored()), (Some(stored), 0));
        let faces = self.shards.forwarders[0].face_stats().len();
        assert!(
            self.shards
                .forwarders
                .iter()
                .all(|shard| shard.face_stats().len() == faces)
        );
    }
}

#[test]
fn an_answered_interest_waits_in_vain_where_shards_are_slow() {
    for seed in 0..30 {
        Run::new(seed, true).go();
    }
}

#[test]
fn state_stays_behind_or_data_goes_to_who_never_asked() {
    for seed in 0..30 {
        Run::new(seed, false).go();
    }
}

/// Failure: fragments that contain fragments, which contain fragments, exhaust the stack.
#[test]
fn pieces_of_pieces_are_put_together_for_ever() {
    let mut shards = Shards::new(1);
    let face = shards.face();
    while shards.deliver() {}
    let mut inner = Vec::new();
    encode_lp(
        &LpHeader {
            sequence: Some(9),
            frag_index: 1,
            frag_count: 2,
            ..LpHeader::default()
        },
        b"x",
        &mut inner,
    );
    let mut frames = Vec::new();
    Fragmenter::new(3)
        .fragment(&LpHeader::default(), &inner.repeat(40), 200, |frame| {
            frames.push(frame.to_vec())
        })
        .unwrap();
    for frame in frames {
        shards.arrive(face, frame);
    }
    assert!(shards.queues.iter().all(VecDeque::is_empty));
    let drops: u64 = shards
        .forwarders
        .iter()
        .map(|shard| shard.stats().drops.get(DropReason::Malformed))
        .sum();
    assert_eq!(drops, 1);
}
