//! An hour of traffic in milliseconds: two of the node's forwarders, a lossy link between them, no
//! socket and no clock.

use super::world::{Packet, World};
use larder_forwarder::FaceId;
use larder_units::{ByteSize, Stream, Streams, Time};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

/// A frame that arrives somewhere, or a consumer's next request.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Ask,
    Arrive {
        node: usize,
        face: FaceId,
        frame: Vec<u8>,
    },
    Produce {
        frame: Vec<u8>,
    },
}

const LINK: Duration = Duration::from_millis(20);
const LOSS: f64 = 0.01;
const HOUR: Time = Time::from_secs(3600);

struct Network {
    worlds: [World; 2],
    consumer: FaceId,
    producer: FaceId,
    link: [FaceId; 2],
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    number: u64,
    loss: Stream,
    asked: u64,
    answered: BTreeMap<String, u64>,
    lost: u64,
}

impl Network {
    fn at(&mut self, time: Time, event: Event) {
        self.number += 1;
        self.events.push(Reverse((time, self.number, event)));
    }

    fn deliver(&mut self, now: Time, node: usize, face: FaceId, frame: Vec<u8>) {
        let world = &mut self.worlds[node];
        world.pass(now.since(world.now));
        for sent in world.sent(face, frame) {
            let wire = encode(&sent.packet);
            if sent.face == self.link[node] {
                if self.loss.chance(LOSS) {
                    self.lost += 1
                } else {
                    self.at(
                        now + LINK,
                        Event::Arrive {
                            node: 1 - node,
                            face: self.link[1 - node],
                            frame: wire,
                        },
                    )
                }
            } else if node == 1 && sent.face == self.producer {
                self.at(
                    now + Duration::from_millis(1),
                    Event::Produce { frame: wire },
                );
            } else if let Packet::Data { name, .. } = sent.packet {
                *self.answered.entry(name.to_string()).or_default() += 1;
            }
        }
    }
}

fn encode(packet: &Packet) -> Vec<u8> {
    match packet {
        Packet::Interest { name, nonce, .. } => larder_packet::InterestBuilder::new(name.clone())
            .nonce(*nonce)
            .build(),
        Packet::Data { name, content } => super::world::data(&name.to_string(), content, None),
        Packet::Nack { .. } => panic!("nobody refuses here"),
    }
}

fn hour(seed: u64) -> (u64, u64, u64, u64) {
    let streams = Streams::new(seed);
    let mut worlds = [
        World::with("filter(theta=2)+fifo", ByteSize::from_bytes(40_000)),
        World::with("lru", ByteSize::from_bytes(40_000)),
    ];
    let (consumer, producer) = (worlds[0].local(), worlds[1].local());
    let link = [worlds[0].remote(), worlds[1].remote()];
    worlds[0].route("/", link[0], 0);
    worlds[1].route("/", producer, 0);
    let loss = streams.stream("loss");
    let (events, answered) = (BinaryHeap::new(), BTreeMap::new());
    let mut network = Network {
        worlds,
        consumer,
        producer,
        link,
        events,
        number: 0,
        loss,
        asked: 0,
        answered,
        lost: 0,
    };
    let mut draws = streams.stream("consumer");
    network.at(Time::ZERO, Event::Ask);
    while let Some(Reverse((now, _, event))) = network.events.pop() {
        match event {
            Event::Ask => {
                // Poisson, two a second; names by a power law.
                let rank = (1000.0_f64.powf(draws.unit()) - 1.0) as u64;
                let frame =
                    super::world::interest(&format!("/hour/{rank}"), draws.bits() as u32).build();
                network.asked += 1;
                let consumer = network.consumer;
                network.deliver(now, 0, consumer, frame);
                let next = now + Duration::from_secs_f64(-(1.0 - draws.unit()).ln() / 2.0);
                if next < HOUR {
                    network.at(next, Event::Ask);
                }
            }
            Event::Arrive { node, face, frame } => network.deliver(now, node, face, frame),
            Event::Produce { frame } => {
                let interest = larder_packet::Interest::decode(&frame).unwrap();
                let data = super::world::data(&interest.name.to_string(), &[7; 100], None);
                let producer = network.producer;
                network.deliver(now, 1, producer, data);
            }
        }
    }
    let mut hits = 0;
    for world in &mut network.worlds {
        world.pass(Duration::from_secs(10));
        let stats = world.forwarder.stats();
        assert_eq!(stats.pit_entries, 0, "nothing stays pending");
        assert!(stats.content_store_bytes <= 40_000);
        hits += stats.content_store.hits;
    }
    let end = network.worlds[0].now;
    assert!(
        end >= HOUR,
        "an hour has passed, and the last answers came: {end}"
    );
    let answered: u64 = network.answered.values().sum();
    (network.asked, answered, hits, network.lost)
}

#[test]
fn an_hour_passes_and_everything_adds_up() {
    let (asked, answered, hits, lost) = hour(1);
    assert!((6_900..7_500).contains(&asked), "two a second: {asked}");
    // Retransmission is the consumer's; here every answer that is missing was lost on the link (or
    // aggregated with one that was).
    assert!(
        answered <= asked && asked - answered <= 3 * lost,
        "{asked} asked, {answered} answered, {lost} lost"
    );
    assert!(
        hits > asked / 3,
        "the popular names stay close: {hits} of {asked}"
    );
    assert_eq!(
        hour(1),
        (asked, answered, hits, lost),
        "the same seed gives the same hour"
    );
    assert_ne!(hour(2), (asked, answered, hits, lost));
}
