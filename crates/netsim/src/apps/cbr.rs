//! The consumer at a constant rate: ndnSIM's `ConsumerCbr` and `ConsumerZipfMandelbrot`.
//!
//! Source: ndnSIM 1.0 and 2.8 (Afanasyev, Moiseenko, Zhang, NDN-0005, 2012). The first Interest
//! goes at the start; each later one 1/f after the one before, with the frequency at that time: a
//! change of the frequency never moves an Interest that is planned. What timed out or was refused
//! goes first, the lowest number first, in the place of a new one.

use super::names::Names;
use super::retransmission::{Answered, Retransmission};
use crate::app::{App, Received, Sends};
use larder_packet::{Data, Interest, InterestBuilder, Name, types};
use larder_units::{Stream, Time};
use std::time::Duration;

/// The time between two Interests of frequency f.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Randomize {
    /// 1/f.
    #[default]
    None,
    /// Uniform between 0 and 2/f.
    Uniform,
    /// Exponential with mean 1/f, 50/f at most: a Poisson process.
    Exponential,
}

/// What a [`Cbr`] asks for, and how often.
#[derive(Clone, Debug)]
pub struct CbrConfig {
    /// Before the sequence number. Of several, each number has one by its hash: contents of several
    /// producers.
    pub prefixes: Vec<Name>,
    /// Where there are any, hash routing: before the whole name, the one of them that the number's
    /// hash says ([`super::CacheHost`]).
    pub custodians: Vec<Name>,
    /// Interests a second, above 0.
    pub frequency: f64,
    /// The time between them.
    pub randomize: Randomize,
    /// Which numbers.
    pub names: Names,
    /// InterestLifetime; `None` leaves it out (4 s).
    pub lifetime: Option<Duration>,
    /// When it starts.
    pub start: Time,
    /// When it sends no more; answers are still counted.
    pub stop: Time,
}

impl CbrConfig {
    /// One Interest a second under `prefix`, by sequence numbers, with ndnSIM's lifetime of 2 s.
    pub fn new(prefix: Name) -> Self {
        CbrConfig {
            prefixes: vec![prefix],
            custodians: Vec::new(),
            frequency: 1.0,
            randomize: Randomize::None,
            names: Names::Sequence { end: None },
            lifetime: Some(Duration::from_secs(2)),
            start: Time::ZERO,
            stop: Time::MAX,
        }
    }
}

/// Of a number that waits for its Data: its places in a table that is half full, and in a queue.
const PENDING_BYTES: u64 = 150;

/// What a consumer has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ConsumerCounters {
    /// Interests sent.
    pub interests: u64,
    /// Of them, those whose number was under way.
    pub retransmissions: u64,
    /// Data that was waited for.
    pub data: u64,
    /// Its content, bytes.
    pub bytes: u64,
    /// Data that nobody waited for any more.
    pub unexpected: u64,
    /// Nacks.
    pub nacks: u64,
    /// Time-outs.
    pub timeouts: u64,
    /// Data with a congestion mark.
    pub marks: u64,
    /// Seconds from the first sending of each number to its Data, summed (ndnSIM's FullDelay).
    pub full_delay: f64,
    /// Seconds from the last sending (ndnSIM's LastDelay).
    pub last_delay: f64,
}

/// One Data of a consumer: what ndnSIM's AppDelayTracer tells of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DelayRow {
    /// When it came.
    pub at: Time,
    /// The sequence number.
    pub number: u64,
    /// Since the Interest was last sent.
    pub last: Duration,
    /// Since it was first sent.
    pub full: Duration,
    /// How often it was sent.
    pub sends: u32,
}

/// A consumer at a constant rate.
pub struct Cbr {
    config: CbrConfig,
    stream: Stream,
    retransmission: Retransmission,
    /// New numbers so far.
    asked: u64,
    planned: Option<Time>,
    next_timer: Option<Time>,
    counters: ConsumerCounters,
    /// Where somebody wants them, and how many.
    delays: Option<(Vec<DelayRow>, usize)>,
}

impl Cbr {
    /// A consumer with a random stream of its own.
    pub fn new(config: CbrConfig, stream: Stream) -> Self {
        let start = config.start;
        let first = config.names.time(0).map_or(start, |time| start + time.since(Time::ZERO));
        let first = (first < config.stop).then_some(first);
        Cbr {
            retransmission: Retransmission::new(start),
            asked: 0,
            planned: first,
            next_timer: first,
            counters: ConsumerCounters::default(),
            delays: None,
            config,
            stream,
        }
    }

    /// What it has seen.
    pub fn counters(&self) -> &ConsumerCounters {
        &self.counters
    }

    /// Notes the delays of the next `most` Data.
    pub fn note_delays(&mut self, most: usize) {
        self.delays = Some((Vec::new(), most));
    }

    /// What was noted.
    pub fn delays(&self) -> &[DelayRow] {
        self.delays.as_ref().map_or(&[], |(delays, _)| delays)
    }

    /// Numbers that wait for their Data.
    pub fn pending(&self) -> usize {
        self.retransmission.pending()
    }

    /// The frequency from the next planning on.
    pub fn set_frequency(&mut self, frequency: f64) {
        self.config.frequency = frequency;
    }

    fn send(&mut self, now: Time, sends: &mut Sends) {
        let number = match self.retransmission.next_again() {
            Some(number) => number,
            None => {
                let Some(number) = self.config.names.next(self.asked, &mut self.stream) else { return };
                self.asked += 1;
                number
            }
        };
        let name = self.name(number);
        let interest = InterestBuilder::new(name).nonce(self.stream.bits() as u32);
        let interest = match self.config.lifetime {
            Some(lifetime) => interest.lifetime(lifetime),
            None => interest,
        };
        sends.push(interest.build());
        self.counters.interests += 1;
        self.counters.retransmissions += u64::from(self.retransmission.sent(now, number));
        self.plan(now);
    }

    fn name(&self, number: u64) -> Name {
        let prefix = spread(number, 0, &self.config.prefixes).cloned().unwrap_or_default();
        let mut name = match spread(number, 1, &self.config.custodians) {
            Some(cache_host) => {
                let mut name = cache_host.clone();
                name.append(prefix.as_name());
                name
            }
            None => prefix,
        };
        name.push_sequence(number);
        name
    }

    fn plan(&mut self, now: Time) {
        if self.planned.is_none() {
            let at = match &self.config.names {
                // After the last one there is room for what is to be sent again.
                Names::Trace(trace) if trace.timed => {
                    let next =
                        self.config.names.time(self.asked).map(|time| self.config.start + time.since(Time::ZERO));
                    next.unwrap_or(now).max(now)
                }
                _ => now + self.interval(),
            };
            self.planned = (at < self.config.stop).then_some(at);
        }
    }

    fn interval(&mut self) -> Duration {
        let mean = 1.0 / self.config.frequency;
        let seconds = match self.config.randomize {
            Randomize::None => mean,
            Randomize::Uniform => 2.0 * mean * self.stream.unit(),
            Randomize::Exponential => loop {
                let drawn = -(1.0 - self.stream.unit()).ln() * mean;
                if drawn <= 50.0 * mean {
                    break drawn;
                }
            },
        };
        Duration::from_nanos((seconds * 1e9).round() as u64)
    }

    fn number(&self, name: larder_packet::NameRef<'_>) -> Option<u64> {
        let last = name.last().filter(|last| last.typ == types::SEQUENCE_NUM)?;
        last.as_number()
    }

    fn update_timer(&mut self) {
        self.next_timer = [self.planned, self.retransmission.next_scan()].into_iter().flatten().min();
    }
}

/// The one of these that a number belongs to; `salt` tells one choice from another. The finalizer
/// of SplitMix64 (Steele, Lea and Flood, 2014).
fn spread(number: u64, salt: u64, among: &[Name]) -> Option<&Name> {
    let mut hash = number.wrapping_add(salt << 32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    hash ^= hash >> 31;
    among.get(hash.checked_rem(among.len() as u64)? as usize)
}

impl App for Cbr {
    fn next_timer(&self) -> Option<Time> {
        self.next_timer
    }

    fn kept_bytes(&self) -> u64 {
        self.pending() as u64 * PENDING_BYTES
    }

    fn on_timer(&mut self, now: Time, sends: &mut Sends) {
        if self.retransmission.next_scan().is_some_and(|at| at <= now) {
            self.counters.timeouts += self.retransmission.scan(now);
            self.plan(now);
        }
        if self.planned.is_some_and(|at| at <= now) {
            self.planned = None;
            self.send(now, sends);
        }
        self.update_timer();
    }

    fn on_packet(&mut self, now: Time, packet: &Received<'_>, _: &mut Sends) {
        if packet.header.nack.is_some() {
            self.counters.nacks += 1;
            if let Some(number) = Interest::decode(packet.packet).ok().and_then(|interest| self.number(interest.name)) {
                self.retransmission.refused(number);
                self.plan(now);
            }
        } else if let Ok(data) = Data::decode(packet.packet) {
            let number = self.number(data.name).unwrap_or(u64::MAX);
            let answered = self.retransmission.answered(now, number);
            self.counters.marks += u64::from(packet.header.congestion_mark.is_some_and(|mark| mark > 0));
            match answered {
                Some(answered) => {
                    self.counters.data += 1;
                    self.counters.bytes += data.content.len() as u64;
                    self.counters.full_delay += answered.full.as_secs_f64();
                    self.counters.last_delay += answered.last.as_secs_f64();
                    if let Some((delays, _)) = self.delays.as_mut().filter(|(delays, most)| delays.len() < *most) {
                        let Answered { full, last, sends } = answered;
                        delays.push(DelayRow { at: now, number, last, full, sends });
                    }
                }
                None => self.counters.unexpected += 1,
            }
        }
        self.update_timer();
    }
}
