//! Applications that behave randomly, as real ones do, and check every packet that they receive.

use larder_netsim::apps::Unsigned;
use larder_netsim::{App, Received, Sends};
use larder_packet::{
    Data, DataBuilder, Interest, InterestBuilder, LpHeader, NackReason, Name, NameRef, encode_lp,
};
use larder_units::{Stream, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// FNV-1a: a fingerprint of the packets, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Print(u64);

impl Default for Print {
    fn default() -> Self {
        Print(0xcbf2_9ce4_8422_2325)
    }
}

impl Print {
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
        });
    }

    pub fn number(&mut self, number: u64) {
        self.bytes(&number.to_be_bytes());
    }

    pub fn value(self) -> u64 {
        self.0
    }
}

fn print_of(name: NameRef<'_>) -> u64 {
    let mut print = Print::default();
    print.bytes(name.as_bytes());
    print.value()
}

/// The content of Data with this name, from any producer. It makes every wrong Data detectable.
fn content_of(name: NameRef<'_>) -> Vec<u8> {
    let print = print_of(name);
    let length = (print >> 32) % 3000;
    print
        .to_be_bytes()
        .into_iter()
        .cycle()
        .take(length as usize)
        .collect()
}

/// The selectors of an Interest.
#[derive(Debug)]
struct Request {
    name: Name,
    can_be_prefix: bool,
}

/// A pending Interest, until it expires. One Data may answer several of them, and a Content Store
/// answers each of them. The counters of the face show that there are no more answers than
/// Interests.
#[derive(Debug)]
struct Pending {
    request: Request,
    nonce: u32,
    expires: Time,
}

/// The configuration of a [`RandomConsumer`].
#[derive(Clone, Debug)]
pub struct ConsumerConfig {
    pub prefixes: Vec<Name>,
    /// The number of names under each prefix.
    pub names: u64,
    /// The mean time between bursts.
    pub pause: Duration,
    pub until: Time,
    /// Whether to request each name once, without selectors and with a lifetime of 4 s, so that
    /// every Interest must be answered.
    pub faultless: bool,
}

/// The counters of a [`RandomConsumer`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConsumerStats {
    pub interests: u64,
    pub data: u64,
    pub nacks: u64,
    pub print: Print,
}

/// Sends Interests for random names in bursts, and panics at a packet that it did not request.
pub struct RandomConsumer {
    config: ConsumerConfig,
    stream: Stream,
    next: Option<Time>,
    pending: Vec<Pending>,
    pub stats: ConsumerStats,
}

impl RandomConsumer {
    pub fn new(config: ConsumerConfig, stream: Stream) -> Self {
        RandomConsumer {
            config,
            stream,
            next: Some(Time::ZERO),
            pending: Vec::new(),
            stats: ConsumerStats::default(),
        }
    }

    fn ask(&mut self, now: Time, sends: &mut Sends) {
        let faultless = self.config.faultless;
        let number = if faultless {
            self.stats.interests
        } else {
            self.stream.below(self.config.names)
        };
        let prefix = self.stream.below(self.config.prefixes.len() as u64) as usize;
        let mut name = self.config.prefixes[prefix].clone();
        name.push_sequence(number);
        if !faultless && self.stream.chance(0.2) {
            name.push_version(self.stream.below(2));
        }
        let mut often = |p: f64| !faultless && self.stream.chance(p);
        let (request, must_be_fresh) = (
            Request {
                name,
                can_be_prefix: often(0.3),
            },
            often(0.3),
        );
        let (short_lived, default, limited) = (often(0.5), often(0.1), often(0.1));
        let nonce = self.stream.bits() as u32;
        let mut interest = InterestBuilder::new(request.name.clone())
            .can_be_prefix(request.can_be_prefix)
            .must_be_fresh(must_be_fresh)
            .nonce(nonce);
        let lifetime = if short_lived {
            Duration::from_millis(self.stream.below(1000))
        } else {
            Duration::from_secs(4)
        };
        // Without the element the lifetime is also 4 s (packet specification 0.3,
        // "InterestLifetime").
        if short_lived || !default {
            interest = interest.lifetime(lifetime);
        }
        if limited {
            interest = interest.hop_limit(1 + self.stream.below(4) as u8);
        }
        sends.push(interest.build());
        self.stats.interests += 1;
        self.pending.push(Pending {
            nonce,
            expires: now + lifetime,
            request,
        });
    }

    fn on_data(&mut self, now: Time, data: &Data<'_>) {
        let waits = |pending: &Pending| {
            let Request {
                name,
                can_be_prefix,
                ..
            } = &pending.request;
            let fits = if *can_be_prefix {
                data.name.starts_with(name.as_name())
            } else {
                data.name == name.as_name()
            };
            fits && !pending.expires.has_passed(now)
        };
        assert!(
            self.pending.iter().any(waits),
            "at {now} a consumer got Data {:?}, which it did not request",
            data.name
        );
        assert!(
            data.content == content_of(data.name),
            "Data {:?} with wrong content",
            data.name
        );
        self.stats.data += 1;
    }

    fn on_nack(&mut self, now: Time, interest: &Interest<'_>) {
        let nonce = interest.nonce;
        let refused = |pending: &Pending| {
            pending.request.name.as_name() == interest.name
                && Some(pending.nonce) == nonce
                && !pending.expires.has_passed(now)
        };
        assert!(
            self.pending.iter().any(refused),
            "at {now} a consumer got a Nack of {:?}, and has not request",
            interest.name
        );
        self.stats.nacks += 1;
    }
}

impl App for RandomConsumer {
    fn next_timer(&self) -> Option<Time> {
        self.next
    }

    fn on_timer(&mut self, now: Time, sends: &mut Sends) {
        self.pending
            .retain(|pending| !pending.expires.has_passed(now));
        for _ in 0..=self.stream.below(4) {
            self.ask(now, sends);
        }
        let pause = self
            .config
            .pause
            .mul_f64(2.0 * self.stream.unit())
            .max(Duration::from_nanos(1));
        self.next = Some(now + pause).filter(|at| *at < self.config.until);
    }

    fn on_packet(&mut self, now: Time, packet: &Received<'_>, _: &mut Sends) {
        self.stats.print.number(now.nanos());
        self.stats.print.bytes(packet.packet);
        match (
            packet.header.nack,
            Interest::decode(packet.packet),
            Data::decode(packet.packet),
        ) {
            (Some(_), Ok(interest), _) => self.on_nack(now, &interest),
            (None, _, Ok(data)) => self.on_data(now, &data),
            _ => panic!("a consumer got a packet that is neither Data nor a Nack"),
        }
    }
}

/// The configuration of a [`RandomProducer`]: shares of its Interests.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnswerConfig {
    pub ignored: f64,
    pub refused: f64,
    pub late: f64,
    /// Answered twice, together with an unsolicited Data.
    pub unsolicited: f64,
    pub freshness: Option<Duration>,
}

/// Answers at random, but never with wrong content.
pub struct RandomProducer {
    config: AnswerConfig,
    stream: Stream,
    /// Delayed answers, in order.
    later: BTreeMap<(Time, u64), Vec<u8>>,
    pub interests: u64,
}

impl RandomProducer {
    pub fn new(config: AnswerConfig, stream: Stream) -> Self {
        RandomProducer {
            config,
            stream,
            later: BTreeMap::new(),
            interests: 0,
        }
    }

    fn data(&self, name: &Name) -> Vec<u8> {
        let content = content_of(name.as_name());
        let data = DataBuilder::new(name).content(&content);
        let data = match self.config.freshness {
            Some(freshness) => data.freshness(freshness),
            None => data,
        };
        data.build(&Unsigned).unwrap()
    }
}

impl App for RandomProducer {
    fn next_timer(&self) -> Option<Time> {
        self.later.keys().next().map(|(at, _)| *at)
    }

    fn on_timer(&mut self, now: Time, sends: &mut Sends) {
        while let Some(next) = self.later.first_entry().filter(|next| next.key().0 <= now) {
            sends.push(next.remove());
        }
    }

    fn on_packet(&mut self, now: Time, packet: &Received<'_>, sends: &mut Sends) {
        // A Nack or a Data at a producer would be an unsolicited packet.
        assert_eq!(packet.header.nack, None, "a producer got a Nack");
        let interest = Interest::decode(packet.packet)
            .unwrap_or_else(|error| panic!("a producer got no Interest: {error}"));
        self.interests += 1;
        let mut name = interest.name.to_name();
        if interest.can_be_prefix && self.stream.chance(0.5) {
            name.push_version(self.stream.below(2));
        }
        let data = self.data(&name);
        let AnswerConfig {
            ignored,
            refused,
            late,
            unsolicited,
            ..
        } = self.config;
        let lot = self.stream.unit();
        if lot < ignored {
        } else if lot < ignored + refused {
            let reason = [
                NackReason::NoRoute,
                NackReason::Congestion,
                NackReason::Duplicate,
            ][self.stream.below(3) as usize];
            let mut nack = Vec::new();
            encode_lp(
                &LpHeader {
                    nack: Some(reason),
                    ..LpHeader::default()
                },
                packet.packet,
                &mut nack,
            );
            sends.push(nack);
        } else if lot < ignored + refused + late {
            let at = now + Duration::from_millis(self.stream.below(3000));
            self.later.insert((at, self.interests), data);
        } else if lot < ignored + refused + late + unsolicited {
            name.push_generic(b"unasked");
            sends.push(self.data(&name));
            sends.push(data.clone());
            sends.push(data);
        } else {
            sends.push(data);
        }
    }
}
