//! A simulation of the clock paper's network that shares no code with Larder: events, links, token
//! buckets and consumers, written from a description of what ndnSIM 1.0 does.
//!
//! Pairs of consumer and producer at the ends of C – R1 – R2 – P. Interests leave at the consumer's
//! rate, which grows by one with each Data and is halved by each Nack. Every node on the way has a
//! token bucket, which refuses the Interest that would overflow it. Time is in nanoseconds.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};

const DELAY: u64 = 50_000_000;
const DATA_BYTES: u64 = 1250;
/// The packets that wait for a link at most.
const QUEUE: usize = 100;

/// The conditions of a run.
#[derive(Clone, Copy)]
pub struct Conditions {
    pub pairs: usize,
    /// The Data that a link carries in a second.
    pub line_rate: u64,
    /// The first rate of each consumer, Interests per second.
    pub start: f64,
    /// The depth of the buckets.
    pub depth: f64,
    /// A bucket for each pair in addition to that of each link.
    pub bucket_for_each_pair: bool,
    pub interest_bytes: u64,
    /// The tick of the consumers' clock; 0 if it is fine.
    pub tick: u64,
    /// Interests that wait for the tick also leave when a Data or a Nack arrives.
    pub smoothing: bool,
    /// When the consumers start. Ticks are multiples of the tick since time zero.
    pub begin: u64,
    /// The time of the end, s.
    pub seconds: u64,
    /// Chooses the moments of the buckets' first leaks.
    pub seed: u64,
}

/// The result of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Mb/s of the segments that were asked for.
    pub asked: f64,
    /// Mb/s of the Data that arrived.
    pub received: f64,
    pub nacks: u64,
    /// The least rate of the first consumer, Interests per second.
    pub least: f64,
    /// The greatest number of Nacks that the first consumer had at one moment.
    pub most_at_once: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Interest,
    Data,
    Nack,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Packet {
    kind: Kind,
    pair: usize,
    segment: u64,
}

/// Nodes of a pair, from its consumer to its producer. All pairs share the routers.
const CONSUMER: usize = 0;
const R1: usize = 1;
const PRODUCER: usize = 3;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The clock of all consumers.
    Tick,
    /// The next Interest of a consumer is due.
    Due(usize),
    Arrival(usize, Packet),
}

#[derive(Default)]
struct Link {
    /// When each packet that waits or is being sent starts, and when the last one ends.
    starts: VecDeque<u64>,
    free_at: u64,
}

struct Bucket {
    level: f64,
    first_leak: u64,
    /// The leaks so far.
    leaks: u64,
}

struct Consumer {
    rate: f64,
    next: u64,
    again: BTreeSet<u64>,
    waiting: VecDeque<u64>,
    received: u64,
    nacks: u64,
    least: f64,
    most_at_once: u64,
    /// The moment of the last Nack, and the Nacks of that moment.
    last_nacks: (u64, u64),
}

pub struct Network {
    conditions: Conditions,
    now: u64,
    number: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    /// By node and direction; those between the routers are of pair 0.
    links: Vec<[[Link; 2]; 4]>,
    link_buckets: Vec<[Bucket; 4]>,
    pair_buckets: Vec<[Bucket; 4]>,
    consumers: Vec<Consumer>,
}

impl Network {
    pub fn new(conditions: Conditions) -> Network {
        let mut state = conditions.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut bucket = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            Bucket {
                level: 0.0,
                first_leak: state % 1_000_000,
                leaks: 0,
            }
        };
        let mut buckets = || {
            (0..conditions.pairs)
                .map(|_| [(); 4].map(|()| bucket()))
                .collect::<Vec<_>>()
        };
        let consumer = |_| Consumer {
            rate: conditions.start,
            next: 0,
            again: BTreeSet::new(),
            waiting: VecDeque::new(),
            received: 0,
            nacks: 0,
            least: conditions.start,
            most_at_once: 0,
            last_nacks: (u64::MAX, 0),
        };
        let (link_buckets, pair_buckets) = (buckets(), buckets());
        Network {
            conditions,
            now: 0,
            number: 0,
            events: BinaryHeap::new(),
            links: (0..conditions.pairs).map(|_| Default::default()).collect(),
            link_buckets,
            pair_buckets,
            consumers: (0..conditions.pairs).map(consumer).collect(),
        }
    }

    /// Runs the network.
    pub fn run(mut self) -> Outcome {
        if self.conditions.tick > 0 {
            self.at(0, Event::Tick);
        }
        for pair in 0..self.conditions.pairs {
            self.at(self.conditions.begin, Event::Due(pair));
        }
        let end = self.conditions.seconds * 1_000_000_000;
        while let Some(Reverse((time, _, event))) = self.events.pop()
            && time < end
        {
            self.now = time;
            match event {
                Event::Tick => {
                    for pair in 0..self.conditions.pairs {
                        self.flush(pair);
                    }
                    self.at(self.conditions.tick, Event::Tick);
                }
                Event::Due(pair) => self.due(pair),
                Event::Arrival(CONSUMER, packet) => self.at_consumer(packet),
                Event::Arrival(node, packet) => self.at_node(node, packet),
            }
        }
        let megabits = |segments: u64| {
            (segments * DATA_BYTES * 8) as f64 / (1e6 * self.conditions.seconds as f64)
        };
        Outcome {
            asked: self
                .consumers
                .iter()
                .map(|consumer| megabits(consumer.next))
                .sum(),
            received: self
                .consumers
                .iter()
                .map(|consumer| megabits(consumer.received))
                .sum(),
            nacks: self.consumers.iter().map(|consumer| consumer.nacks).sum(),
            least: self.consumers[0].least,
            most_at_once: self.consumers[0].most_at_once,
        }
    }

    fn at(&mut self, after: u64, event: Event) {
        self.number += 1;
        self.events
            .push(Reverse((self.now + after, self.number, event)));
    }

    /// Asks for one segment, and sets the time of the next, which no later rate changes.
    fn due(&mut self, pair: usize) {
        let consumer = &mut self.consumers[pair];
        let segment = consumer.again.pop_first().unwrap_or_else(|| {
            consumer.next += 1;
            consumer.next - 1
        });
        consumer.waiting.push_back(segment);
        let pause = (1e9 / consumer.rate).round() as u64;
        if self.conditions.tick == 0 {
            self.flush(pair);
        }
        self.at(pause, Event::Due(pair));
    }

    fn flush(&mut self, pair: usize) {
        while let Some(segment) = self.consumers[pair].waiting.pop_front() {
            self.at_node(
                CONSUMER,
                Packet {
                    kind: Kind::Interest,
                    pair,
                    segment,
                },
            );
        }
    }

    fn at_consumer(&mut self, packet: Packet) {
        let consumer = &mut self.consumers[packet.pair];
        if packet.kind == Kind::Data {
            consumer.received += 1;
            consumer.rate = (consumer.rate + 1.0).min(self.conditions.line_rate as f64);
        } else {
            consumer.nacks += 1;
            consumer.rate = (consumer.rate / 2.0).max(1.0);
            consumer.least = consumer.least.min(consumer.rate);
            let (at, count) = consumer.last_nacks;
            consumer.last_nacks = (self.now, if at == self.now { count + 1 } else { 1 });
            consumer.most_at_once = consumer.most_at_once.max(consumer.last_nacks.1);
            consumer.again.insert(packet.segment);
        }
        if self.conditions.smoothing {
            self.flush(packet.pair);
        }
    }

    fn at_node(&mut self, node: usize, packet: Packet) {
        match packet.kind {
            Kind::Interest if node == PRODUCER => self.send(
                node,
                false,
                Packet {
                    kind: Kind::Data,
                    ..packet
                },
            ),
            Kind::Interest if self.is_allowed(node, packet.pair) => self.send(node, true, packet),
            Kind::Interest => {
                let refused = Packet {
                    kind: Kind::Nack,
                    ..packet
                };
                match node {
                    // Its own node refuses after all Interests of this moment.
                    CONSUMER => self.at(0, Event::Arrival(CONSUMER, refused)),
                    _ => self.send(node, false, refused),
                }
            }
            Kind::Data | Kind::Nack => self.send(node, false, packet),
        }
    }

    /// Takes a place in the buckets of the pair and of the link, or in neither.
    fn is_allowed(&mut self, node: usize, pair: usize) -> bool {
        let Conditions {
            line_rate,
            depth,
            bucket_for_each_pair,
            ..
        } = self.conditions;
        let now = self.now;
        let of_link = &mut self.link_buckets[if node == R1 { 0 } else { pair }][node];
        let of_pair = &mut self.pair_buckets[pair][node];
        of_link.leak(now, line_rate);
        of_pair.leak(now, line_rate);
        let is_allowed =
            of_link.level + 1.0 <= depth && (!bucket_for_each_pair || of_pair.level + 1.0 <= depth);
        if is_allowed {
            of_link.level += 1.0;
            of_pair.level += 1.0;
        }
        is_allowed
    }

    /// Sends over the link to the next node, towards the producer or the consumer.
    fn send(&mut self, node: usize, upwards: bool, packet: Packet) {
        let (lower, next) = if upwards {
            (node, node + 1)
        } else {
            (node - 1, node - 1)
        };
        let link =
            &mut self.links[if lower == R1 { 0 } else { packet.pair }][lower][usize::from(upwards)];
        while link.starts.front().is_some_and(|start| *start <= self.now) {
            link.starts.pop_front();
        }
        if link.starts.len() >= QUEUE {
            return;
        }
        let bytes = if packet.kind == Kind::Data {
            DATA_BYTES
        } else {
            self.conditions.interest_bytes
        };
        let start = link.free_at.max(self.now);
        link.starts.push_back(start);
        link.free_at = start + bytes * 1_000_000_000 / (DATA_BYTES * self.conditions.line_rate);
        let arrival = link.free_at + DELAY - self.now;
        self.at(arrival, Event::Arrival(next, packet));
    }
}

impl Bucket {
    /// Leaks 1.001 Interests for each 1.001 times the line's interval since the first leak.
    fn leak(&mut self, now: u64, line_rate: u64) {
        let interval = 1_001_000_000 / line_rate;
        let leaks = now.saturating_sub(self.first_leak) / interval;
        self.level = (self.level - 1.001 * (leaks - self.leaks) as f64).max(0.0);
        self.leaks = leaks;
    }
}
