//! The forwarder as a whole: any frames, from any of four faces, at any times. What it sends
//! decodes, nothing of `/localhost` leaves the machine, its tables keep their limits, whoever waits
//! no more was answered or counted as unanswered, and an hour later nothing is pending.
//!
//! The input is a list of: a control byte (low two bits: the face; the highest: together with the
//! next frame, in a batch; the others: how long since the last batch), a frame (one TLV). `/a` is
//! forwarded by best-route, `/s` by the strategy that limits rates.
//!
//! Behind the Content Store is a second tier that answers when the input says so: a TLV of type 1
//! is no frame, but which read is over (a byte) and what comes of it (a byte, and in one case bytes
//! that follow): the record, nothing, another name's record, or bytes of the input, as a broken
//! disk might read them. What has no such TLV is never answered. Nothing may be served for a record
//! that is there no more, nor another name's.
#![no_main]

use bytes::Bytes;
use larder_forwarder::{
    Authorized, Config, FaceConfig, FaceId, Forwarder, Outbox, Received, Route, Rule, SecondTier,
    TierFigures, TierLookup, TierRecord,
};
use larder_packet::{Data, Interest, NameRef, tlv};
use larder_policy::Engine;
use larder_units::{ByteSize, Streams, Time};
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const PIT_ENTRIES: usize = 16;
const STORE_BYTES: u64 = 2 << 10;
const TIER_RECORDS: usize = 32;
const READS: usize = 8;
/// The TLV that tells what came of a read: of a type that no frame has.
const READ: u8 = 1;

fuzz_target!(|bytes: &[u8]| {
    let mut node = Node::new();
    let (mut rest, mut batch) = (bytes, Vec::new());
    while let Some((&control, after)) = rest.split_first() {
        let Ok(Some(length)) = tlv::frame(after, 10_000) else {
            break;
        };
        let (frame, after) = after.split_at(length);
        rest = after;
        node.now = Time::from_nanos(node.now.nanos() + (8 << (control >> 2 & 31)));
        if frame[0] == READ {
            node.receive(std::mem::take(&mut batch));
            node.read(&frame[frame.len().min(2)..]);
            continue;
        }
        batch.push((usize::from(control & 3), frame.to_vec()));
        if control < 128 {
            node.receive(std::mem::take(&mut batch));
        }
    }
    node.receive(batch);
    node.an_hour_later();
});

struct Node {
    forwarder: Forwarder,
    faces: [FaceId; 4],
    outbox: Outbox,
    shelf: Arc<Mutex<Shelf>>,
    now: Time,
    /// Consumers that waited, and those that were done with, after the last call.
    waited: (u64, u64),
}

impl Node {
    /// Two local faces and two remote ones; `/a` is routed to the second local face, `/` to the
    /// second remote one.
    fn new() -> Self {
        let streams = Streams::new(1);
        let policy = "fifo".parse().expect("a policy");
        let engine =
            Engine::new(&policy, ByteSize::from_bytes(STORE_BYTES), &streams).expect("an engine");
        let config = Config {
            pit_entries: PIT_ENTRIES,
            ..Config::new([1, 2], streams)
        };
        let mut forwarder = Forwarder::new(config, engine);
        forwarder.set_rules(
            [false, true]
                .map(|localhop| Rule {
                    signer: Authorized::Anybody,
                    localhop,
                    modules: None,
                })
                .into(),
        );
        let shelf = Arc::new(Mutex::new(Shelf::default()));
        forwarder.set_tier(Box::new(Tier(shelf.clone())));
        let faces = [
            FaceConfig::local("unix://1"),
            FaceConfig::local("unix://2"),
            FaceConfig::remote("udp4://192.0.2.3:6363").with_mtu(1280),
            FaceConfig::remote("udp4://192.0.2.4:6363"),
        ]
        .map(|face| forwarder.add_face(face));
        for (prefix, face) in [("/a", faces[1]), ("/", faces[3])] {
            let route = Route {
                face,
                origin: 255,
                cost: 0,
                flags: 1,
                expires: None,
            };
            forwarder
                .add_route(&prefix.parse().expect("a name"), route)
                .expect("room for a route");
        }
        for (prefix, strategy) in [
            ("/s", "stateful"),
            ("/h", "hobhis/v=1/rate~100/queue~4/report~share"),
        ] {
            let strategy =
                larder_forwarder::strategy::strategy_by_name(strategy).expect("a strategy");
            forwarder
                .set_strategy(&prefix.parse().expect("a name"), &strategy)
                .expect("room for a strategy");
        }
        Node {
            forwarder,
            faces,
            outbox: Outbox::new(),
            shelf,
            now: Time::from_secs(1),
            waited: (0, 0),
        }
    }

    /// One frame by itself, several as a batch.
    fn receive(&mut self, mut frames: Vec<(usize, Vec<u8>)>) {
        self.on_time();
        if let [(from, frame)] = &mut frames[..] {
            let _ = self
                .forwarder
                .on_packet(self.now, self.faces[*from], frame, &mut self.outbox);
        } else {
            let received =
                |(from, frame): &mut (usize, Vec<u8>)| (self.faces[*from], std::mem::take(frame));
            let mut taken: Vec<(FaceId, Vec<u8>)> = frames.iter_mut().map(received).collect();
            let mut batch: Vec<Received<'_>> = taken
                .iter_mut()
                .map(|(face, frame)| Received { face: *face, frame })
                .collect();
            self.forwarder
                .on_packets(self.now, &mut batch, &mut self.outbox);
            assert!(
                self.outbox
                    .drops()
                    .iter()
                    .all(|(index, _)| *index < batch.len())
            );
            frames = taken.into_iter().map(|(_, frame)| (0, frame)).collect();
        }
        self.check_sends(&frames);
        let stats = self.forwarder.stats();
        self.forwarder.check_invariants();
        assert!(
            stats.pit_entries <= PIT_ENTRIES && stats.content_store_bytes <= STORE_BYTES,
            "{stats:?}"
        );
    }

    /// A read of the second tier is over, late or not.
    fn read(&mut self, answer: &[u8]) {
        let [which, how, bytes @ ..] = answer else {
            return;
        };
        let (ticket, found, may_be_served) = {
            let mut shelf = self.shelf.lock().expect("nobody panicked");
            if shelf.reads.is_empty() {
                return;
            }
            let at = usize::from(*which) % shelf.reads.len();
            let (ticket, name, position) = shelf.reads.swap_remove(at);
            let of_name = |is: bool| {
                shelf
                    .records
                    .iter()
                    .find(|(other, _)| (**other == name) == is)
            };
            let record = match how % 4 {
                0 => of_name(true).map(|(_, (_, record))| record.clone()),
                1 => None,
                2 => of_name(false).map(|(_, (_, record))| record.clone()),
                _ => Some(Bytes::copy_from_slice(bytes)),
            };
            let is_there = shelf
                .records
                .get(&name)
                .is_some_and(|(known, _)| *known == position);
            (
                ticket,
                record.map(|record| TierRecord { record, position }),
                is_there && how % 4 % 3 == 0,
            )
        };
        self.on_time();
        self.forwarder
            .on_tier_lookup(self.now, ticket, found, &mut self.outbox);
        let is_data = self.check_sends(&[]);
        self.forwarder.check_invariants();
        assert!(
            may_be_served || !is_data,
            "another name's record was served, or one that is there no more"
        );
    }

    fn on_time(&mut self) {
        while self
            .forwarder
            .next_timeout()
            .is_some_and(|due| due <= self.now)
        {
            self.forwarder.on_timeout(self.now, &mut self.outbox);
            self.check_sends(&[]);
        }
    }

    /// Whether Data was among them.
    fn check_sends(&mut self, frames: &[(usize, Vec<u8>)]) -> bool {
        let stats = self.forwarder.stats();
        let (waiting, done) = (
            self.forwarder.waiting(),
            stats.satisfied + stats.unsatisfied,
        );
        let (waited, before) = self.waited;
        assert!(
            waited <= waiting + done - before,
            "a consumer was forgotten: {waited} waited, {waiting} wait"
        );
        self.waited = (waiting, done);
        let (mut sends, mut is_data) = (Vec::new(), false);
        self.outbox.swap(&mut sends);
        for send in sends {
            let input = self.outbox.input_of(&send);
            let frame = frames
                .get(send.index)
                .and_then(|(_, frame)| frame.get(input));
            let packet = send.packet(frame.unwrap_or_default());
            let name = match packet.first() {
                Some(5) => {
                    Interest::decode(packet)
                        .expect("a forwarded Interest decodes")
                        .name
                }
                Some(6) => {
                    is_data = true;
                    Data::decode(packet).expect("a forwarded Data decodes").name
                }
                other => panic!("sent a packet that begins with {other:?}"),
            };
            let local = self.faces[..2].contains(&send.face);
            assert!(
                local || !of_localhost(name) || send.header.nack.is_some(),
                "{name} left the machine"
            );
        }
        is_data
    }

    fn an_hour_later(&mut self) {
        self.now = Time::from_nanos(self.now.nanos() + 3_600_000_000_000);
        self.on_time();
        assert_eq!(
            self.forwarder.stats().pit_entries,
            0,
            "an Interest outlived an hour"
        );
        self.forwarder.check_invariants();
    }
}

/// What the tier has, by name, with a number that no other record has; and its reads: ticket, name,
/// the number of the record that was there.
#[derive(Default)]
struct Shelf {
    records: BTreeMap<Vec<u8>, (u64, Bytes)>,
    last: u64,
    reads: Vec<(u64, Vec<u8>, u64)>,
}

struct Tier(Arc<Mutex<Shelf>>);

impl SecondTier for Tier {
    fn tier_lookup(&mut self, name: NameRef<'_>, ticket: u64) -> TierLookup {
        let mut shelf = self.0.lock().expect("nobody panicked");
        let Some((position, _)) = shelf.records.get(name.as_bytes()) else {
            return TierLookup::Absent;
        };
        let read = (ticket, name.as_bytes().to_vec(), *position);
        if shelf.reads.len() == READS {
            return TierLookup::Busy;
        }
        shelf.reads.push(read);
        TierLookup::Reading
    }

    fn put(&mut self, name: NameRef<'_>, record: Bytes) {
        assert!(!of_localhost(name), "{name} was to be kept");
        let mut shelf = self.0.lock().expect("nobody panicked");
        shelf.last += 1;
        let position = shelf.last;
        shelf
            .records
            .insert(name.as_bytes().to_vec(), (position, record));
        if shelf.records.len() > TIER_RECORDS {
            shelf.records.pop_first();
        }
    }

    fn erase(&mut self, prefix: NameRef<'_>) {
        let mut shelf = self.0.lock().expect("nobody panicked");
        shelf
            .records
            .retain(|name, _| !name.starts_with(prefix.as_bytes()));
    }

    fn holds(&self, name: NameRef<'_>, position: u64) -> bool {
        let shelf = self.0.lock().expect("nobody panicked");
        shelf
            .records
            .get(name.as_bytes())
            .is_some_and(|(known, _)| *known == position)
    }

    fn figures(&self) -> TierFigures {
        TierFigures::default()
    }
}

fn of_localhost(name: NameRef<'_>) -> bool {
    name.component(0)
        .is_some_and(|first| first.typ == 8 && first.value == b"localhost")
}
