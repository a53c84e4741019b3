//! A consumer and a producer with a link between them, in virtual time: seeded losses, reordering,
//! duplicates, and a bottleneck with a queue.

use larder_packet::{Data, DigestSigner, Interest, NackReason, Name};
use larder_transfer::{
    CongestionControl, Cubic, FetchError, FetchOptions, FetchStats, Fetcher, PathFeedback,
    Progress, PublishOptions, Publisher,
};
use larder_units::{Stream, Streams, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// The effects of the link on packets, in each direction.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    pub seed: u64,
    /// The least delay of every packet.
    pub delay: Duration,
    /// The greatest extra delay, drawn per packet, so that packets overtake each other.
    pub jitter: Duration,
    pub loss: f64,
    pub duplicates: f64,
    pub bottleneck: Option<Bottleneck>,
    /// Packets that would arrive between these times wait for the second one, as behind a TCP
    /// connection that recovers from a loss.
    pub stall: Option<[Time; 2]>,
}

/// A bottleneck: the producer's side sends one packet after another.
#[derive(Clone, Copy, Debug)]
pub struct Bottleneck {
    pub packets_a_second: u32,
    /// The queue length from which packets are dropped.
    pub queue: usize,
    /// The queue length from which Data get a congestion mark.
    pub mark_from: usize,
    /// The queue length from which Interests are refused.
    pub nack_from: usize,
    /// Whether Data state the rate of the bottleneck.
    pub grants: bool,
}

impl Bottleneck {
    fn service(&self) -> Duration {
        Duration::from_secs(1) / self.packets_a_second
    }
}

impl Default for Link {
    fn default() -> Self {
        let delay = Duration::from_millis(5);
        Link {
            seed: 1,
            delay,
            jitter: Duration::ZERO,
            loss: 0.0,
            duplicates: 0.0,
            bottleneck: None,
            stall: None,
        }
    }
}

/// The result of a transfer.
pub struct Outcome {
    pub result: Result<Vec<u8>, FetchError>,
    pub stats: FetchStats,
    pub elapsed: Duration,
    pub mean_rtt: Duration,
}

/// The producer's answer to an Interest.
pub enum Reply {
    Data(Vec<u8>),
    Nack(NackReason),
    Silence,
}

enum Packet {
    Interest(Vec<u8>),
    Data {
        wire: Vec<u8>,
        marked: bool,
    },
    Nack {
        interest: Vec<u8>,
        reason: NackReason,
    },
}

/// A packet on the link, ordered by arrival.
struct InTransit {
    at: Time,
    number: u64,
    packet: Packet,
}

impl PartialEq for InTransit {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}
impl Eq for InTransit {}
impl PartialOrd for InTransit {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for InTransit {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

struct Wire {
    link: Link,
    chance: Stream,
    queue: BinaryHeap<Reverse<InTransit>>,
    sent: u64,
    bottleneck_free: Time,
}

impl Wire {
    fn send(&mut self, now: Time, mut packet: Packet) {
        let mut leaves = now;
        if let (Some(bottleneck), Packet::Data { marked, .. }) = (self.link.bottleneck, &mut packet)
        {
            let waiting = self.waiting(now);
            if waiting >= bottleneck.queue {
                return;
            }
            *marked = waiting >= bottleneck.mark_from;
            self.bottleneck_free = self.bottleneck_free.max(now) + bottleneck.service();
            leaves = self.bottleneck_free;
        }
        if self.chance.chance(self.link.loss) {
            return;
        }
        if self.chance.chance(self.link.duplicates) {
            let copy = match &packet {
                Packet::Interest(wire) => Packet::Interest(wire.clone()),
                Packet::Data { wire, marked } => Packet::Data {
                    wire: wire.clone(),
                    marked: *marked,
                },
                Packet::Nack { interest, reason } => Packet::Nack {
                    interest: interest.clone(),
                    reason: *reason,
                },
            };
            self.push(leaves, copy);
        }
        self.push(leaves, packet);
    }

    /// The number of packets that wait for the bottleneck.
    fn waiting(&self, now: Time) -> usize {
        let service = self
            .link
            .bottleneck
            .map_or(Duration::MAX, |bottleneck| bottleneck.service());
        (self.bottleneck_free.since(now).as_nanos() / service.as_nanos()) as usize
    }

    fn push(&mut self, leaves: Time, packet: Packet) {
        let at = leaves + self.link.delay + self.link.jitter.mul_f64(self.chance.unit());
        let at = self
            .link
            .stall
            .filter(|[from, to]| (*from..*to).contains(&at))
            .map_or(at, |[_, to]| to);
        self.sent += 1;
        self.queue.push(Reverse(InTransit {
            at,
            number: self.sent,
            packet,
        }));
    }

    /// Gives a packet to the end that it goes to. The producer answers at once.
    fn deliver(
        &mut self,
        now: Time,
        packet: Packet,
        fetcher: &mut Fetcher,
        producer: &mut impl FnMut(&Interest<'_>) -> Reply,
        content: &mut Vec<u8>,
    ) {
        match packet {
            Packet::Interest(interest)
                if self
                    .link
                    .bottleneck
                    .is_some_and(|bottleneck| self.waiting(now) >= bottleneck.nack_from) =>
            {
                self.send(
                    now,
                    Packet::Nack {
                        interest,
                        reason: NackReason::Congestion,
                    },
                );
            }
            Packet::Interest(interest) => match producer(&Interest::decode(&interest).unwrap()) {
                Reply::Data(data) => self.send(
                    now,
                    Packet::Data {
                        wire: data,
                        marked: false,
                    },
                ),
                Reply::Nack(reason) => self.send(now, Packet::Nack { interest, reason }),
                Reply::Silence => {}
            },
            Packet::Data { wire, marked } => {
                let data = Data::decode(&wire).unwrap();
                let granted = self.link.bottleneck.filter(|bottleneck| bottleneck.grants);
                let granted_rate = granted.map(|bottleneck| bottleneck.packets_a_second.into());
                fetcher.on_data(
                    now,
                    &data,
                    PathFeedback {
                        marked,
                        granted_rate,
                    },
                    |bytes| content.extend_from_slice(bytes),
                );
            }
            Packet::Nack { interest, reason } => {
                fetcher.on_nack(now, Interest::decode(&interest).unwrap().name, reason);
            }
        }
    }
}

/// Runs a transfer to its end. Panics if it hangs, or lasts longer than a simulated day.
pub fn run(
    mut fetcher: Fetcher,
    mut producer: impl FnMut(&Interest<'_>) -> Reply,
    link: Link,
) -> Outcome {
    let chance = Streams::new(link.seed).stream("link");
    let mut wire = Wire {
        link,
        chance,
        queue: BinaryHeap::new(),
        sent: 0,
        bottleneck_free: Time::ZERO,
    };
    let mut now = Time::ZERO;
    let mut content = Vec::new();
    loop {
        let mut interest = Vec::new();
        while fetcher.poll(now, &mut interest) {
            wire.send(now, Packet::Interest(std::mem::take(&mut interest)));
        }
        let result = match fetcher.progress() {
            Progress::Running => None,
            Progress::Done => Some(Ok(std::mem::take(&mut content))),
            Progress::Failed(error) => Some(Err(error.clone())),
        };
        if let Some(result) = result {
            let mean_rtt = fetcher.rtt().mean().unwrap_or_default();
            return Outcome {
                result,
                stats: *fetcher.stats(),
                elapsed: now.since(Time::ZERO),
                mean_rtt,
            };
        }
        let arrival = wire.queue.peek().map(|Reverse(next)| next.at);
        let time_out = fetcher.next_timeout();
        now = arrival
            .into_iter()
            .chain(time_out)
            .min()
            .expect("nothing on its way and no timer: it hangs");
        assert!(
            now < Time::from_secs(86_400),
            "a day has passed: {:?}",
            fetcher.stats()
        );
        if time_out.is_some_and(|at| at <= now) {
            fetcher.on_timeout(now);
        }
        while wire
            .queue
            .peek()
            .is_some_and(|Reverse(next)| next.at <= now)
        {
            let Reverse(next) = wire.queue.pop().unwrap();
            wire.deliver(now, next.packet, &mut fetcher, &mut producer, &mut content);
        }
    }
}

/// Creates a fetcher with CUBIC that checks digests only.
pub fn fetcher(name: &str, options: FetchOptions) -> Fetcher {
    fetcher_with(name, options, Box::new(Cubic::new()))
}

/// Creates a fetcher with another congestion control.
pub fn fetcher_with(
    name: &str,
    options: FetchOptions,
    congestion: Box<dyn CongestionControl>,
) -> Fetcher {
    Fetcher::new(
        name.parse::<Name>().unwrap(),
        options,
        congestion,
        None,
        Streams::new(1).stream("nonces"),
    )
}

/// Returns bytes that differ between positions, so that a swap of segments is visible.
pub fn bytes(length: usize) -> Vec<u8> {
    (0..length as u64)
        .map(|n| (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8)
        .collect()
}

/// Creates a producer of `content` as `/file` in version 7.
pub fn publisher(content: Vec<u8>, segment_bytes: usize) -> Publisher<Vec<u8>> {
    let options = PublishOptions {
        segment_bytes,
        ..PublishOptions::default()
    };
    Publisher::new(
        "/file".parse().unwrap(),
        7,
        content,
        Box::new(DigestSigner),
        options,
    )
    .unwrap()
}

/// Serves with a publisher that must not fail.
pub fn serve(mut publisher: Publisher<Vec<u8>>) -> impl FnMut(&Interest<'_>) -> Reply {
    move |interest| {
        let mut out = Vec::new();
        publisher.on_interest(interest, &mut out).unwrap();
        if out.is_empty() {
            Reply::Silence
        } else {
            Reply::Data(out)
        }
    }
}
