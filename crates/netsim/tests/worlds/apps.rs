//! Applications that misbehave as applications do, and know what they may hear.

use larder_netsim::apps::Unsigned;
use larder_netsim::{App, Received, Sends};
use larder_packet::{Data, DataBuilder, Interest, InterestBuilder, LpHeader, NackReason, Name, NameRef, encode_lp};
use larder_units::{Stream, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// FNV-1a: a print of what was seen, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Print(u64);

impl Default for Print {
    fn default() -> Self {
        Print(0xcbf2_9ce4_8422_2325)
    }
}

impl Print {
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
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

/// What Data of this name holds, whoever makes it: so that any Data can be told from a wrong one.
fn content_of(name: NameRef<'_>) -> Vec<u8> {
    let print = print_of(name);
    let length = (print >> 32) % 3000;
    print.to_be_bytes().into_iter().cycle().take(length as usize).collect()
}

/// What an Interest selects Data by.
#[derive(Debug)]
struct Asked {
    name: Name,
    can_be_prefix: bool,
}

/// An Interest, until it expires: several may be answered by one Data, and a Content Store answers
/// each of them. That there are no more answers than Interests, the face's counters tell.
#[derive(Debug)]
struct Pending {
    asked: Asked,
    nonce: u32,
    expires: Time,
}

/// How an [`Asker`] asks.
#[derive(Clone, Debug)]
pub struct Asking {
    pub prefixes: Vec<Name>,
    /// Names under each prefix.
    pub names: u64,
    /// Mean time between bursts.
    pub pause: Duration,
    pub until: Time,
    /// Each name once, plainly, with 4 s to live: all of it must be answered.
    pub gentle: bool,
}

/// What an [`Asker`] has sent and heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpEvent {
    pub interests: u64,
    pub data: u64,
    pub nacks: u64,
    pub print: Print,
}

/// Asks for random names in bursts, and panics at what it did not ask for.
pub struct Asker {
    asking: Asking,
    stream: Stream,
    next: Option<Time>,
    pending: Vec<Pending>,
    pub heard: TcpEvent,
}

impl Asker {
    pub fn new(asking: Asking, stream: Stream) -> Self {
        Asker { asking, stream, next: Some(Time::ZERO), pending: Vec::new(), heard: TcpEvent::default() }
    }

    fn ask(&mut self, now: Time, sends: &mut Sends) {
        let gentle = self.asking.gentle;
        let number = match gentle {
            true => self.heard.interests,
            false => self.stream.below(self.asking.names),
        };
        let prefix = self.stream.below(self.asking.prefixes.len() as u64) as usize;
        let mut name = self.asking.prefixes[prefix].clone();
        name.push_sequence(number);
        if !gentle && self.stream.chance(0.2) {
            name.push_version(self.stream.below(2));
        }
        let mut often = |p: f64| !gentle && self.stream.chance(p);
        let (asked, must_be_fresh) = (Asked { name, can_be_prefix: often(0.3) }, often(0.3));
        let (hurried, default, limited) = (often(0.5), often(0.1), often(0.1));
        let nonce = self.stream.bits() as u32;
        let mut interest = InterestBuilder::new(asked.name.clone())
            .can_be_prefix(asked.can_be_prefix)
            .must_be_fresh(must_be_fresh)
            .nonce(nonce);
        let lifetime = match hurried {
            true => Duration::from_millis(self.stream.below(1000)),
            false => Duration::from_secs(4),
        };
        // Left out, it is 4 s too (packet specification 0.3, "InterestLifetime").
        if hurried || !default {
            interest = interest.lifetime(lifetime);
        }
        if limited {
            interest = interest.hop_limit(1 + self.stream.below(4) as u8);
        }
        sends.push(interest.build());
        self.heard.interests += 1;
        self.pending.push(Pending { nonce, expires: now + lifetime, asked });
    }

    fn on_data(&mut self, now: Time, data: &Data<'_>) {
        let waits = |pending: &Pending| {
            let Asked { name, can_be_prefix, .. } = &pending.asked;
            let fits = match can_be_prefix {
                true => data.name.starts_with(name.as_name()),
                false => data.name == name.as_name(),
            };
            fits && !pending.expires.has_passed(now)
        };
        assert!(
            self.pending.iter().any(waits),
            "at {now} a consumer got Data {:?}, which it does not wait for",
            data.name
        );
        assert!(data.content == content_of(data.name), "Data {:?} with another's content", data.name);
        self.heard.data += 1;
    }

    fn on_nack(&mut self, now: Time, interest: &Interest<'_>) {
        let nonce = interest.nonce;
        let refused = |pending: &Pending| {
            pending.asked.name.as_name() == interest.name
                && Some(pending.nonce) == nonce
                && !pending.expires.has_passed(now)
        };
        assert!(
            self.pending.iter().any(refused),
            "at {now} a consumer got a Nack of {:?}, and has not asked",
            interest.name
        );
        self.heard.nacks += 1;
    }
}

impl App for Asker {
    fn next_timer(&self) -> Option<Time> {
        self.next
    }

    fn on_timer(&mut self, now: Time, sends: &mut Sends) {
        self.pending.retain(|pending| !pending.expires.has_passed(now));
        for _ in 0..=self.stream.below(4) {
            self.ask(now, sends);
        }
        let pause = self.asking.pause.mul_f64(2.0 * self.stream.unit()).max(Duration::from_nanos(1));
        self.next = Some(now + pause).filter(|at| *at < self.asking.until);
    }

    fn on_packet(&mut self, now: Time, packet: &Received<'_>, _: &mut Sends) {
        self.heard.print.number(now.nanos());
        self.heard.print.bytes(packet.packet);
        match (packet.header.nack, Interest::decode(packet.packet), Data::decode(packet.packet)) {
            (Some(_), Ok(interest), _) => self.on_nack(now, &interest),
            (None, _, Ok(data)) => self.on_data(now, &data),
            _ => panic!("a consumer got what is neither Data nor a Nack"),
        }
    }
}

/// How an [`Answerer`] answers: shares of its Interests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Answering {
    pub ignored: f64,
    pub refused: f64,
    pub late: f64,
    /// Answered twice, and with Data that nobody asked for beside it.
    pub rubbish: f64,
    pub freshness: Option<Duration>,
}

/// Answers as it likes, but never with wrong content.
pub struct Answerer {
    answering: Answering,
    stream: Stream,
    /// Answers for later, in order.
    later: BTreeMap<(Time, u64), Vec<u8>>,
    pub interests: u64,
}

impl Answerer {
    pub fn new(answering: Answering, stream: Stream) -> Self {
        Answerer { answering, stream, later: BTreeMap::new(), interests: 0 }
    }

    fn data(&self, name: &Name) -> Vec<u8> {
        let content = content_of(name.as_name());
        let data = DataBuilder::new(name).content(&content);
        let data = match self.answering.freshness {
            Some(freshness) => data.freshness(freshness),
            None => data,
        };
        data.build(&Unsigned).unwrap()
    }
}

impl App for Answerer {
    fn next_timer(&self) -> Option<Time> {
        self.later.keys().next().map(|(at, _)| *at)
    }

    fn on_timer(&mut self, now: Time, sends: &mut Sends) {
        while let Some(next) = self.later.first_entry().filter(|next| next.key().0 <= now) {
            sends.push(next.remove());
        }
    }

    fn on_packet(&mut self, now: Time, packet: &Received<'_>, sends: &mut Sends) {
        // A Nack to a producer, or Data, would be a packet that it has not asked for.
        assert_eq!(packet.header.nack, None, "a producer got a Nack");
        let interest =
            Interest::decode(packet.packet).unwrap_or_else(|error| panic!("a producer got no Interest: {error}"));
        self.interests += 1;
        let mut name = interest.name.to_name();
        if interest.can_be_prefix && self.stream.chance(0.5) {
            name.push_version(self.stream.below(2));
        }
        let data = self.data(&name);
        let Answering { ignored, refused, late, rubbish, .. } = self.answering;
        let lot = self.stream.unit();
        if lot < ignored {
        } else if lot < ignored + refused {
            let reason =
                [NackReason::NoRoute, NackReason::Congestion, NackReason::Duplicate][self.stream.below(3) as usize];
            let mut nack = Vec::new();
            encode_lp(&LpHeader { nack: Some(reason), ..LpHeader::default() }, packet.packet, &mut nack);
            sends.push(nack);
        } else if lot < ignored + refused + late {
            let at = now + Duration::from_millis(self.stream.below(3000));
            self.later.insert((at, self.interests), data);
        } else if lot < ignored + refused + late + rubbish {
            name.push_generic(b"unasked");
            sends.push(self.data(&name));
            sends.push(data.clone());
            sends.push(data);
        } else {
            sends.push(data);
        }
    }
}
