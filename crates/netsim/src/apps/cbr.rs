//! The consumer at a constant rate: ndnSIM's `ConsumerCbr` and `ConsumerZipfMandelbrot`.
//!
//! Source: ndnSIM 1.0 and 2.8 (Afanasyev, Moiseenko, Zhang, NDN-0005, 2012). The first Interest is
//! sent at the start. Each later one is planned 1/f after the one before, with the frequency at
//! that time, so a change of the frequency never moves a planned Interest. A number that timed out
//! or got a Nack takes the place of a new one; the lowest number goes first.
//!
//! Beyond ndnSIM, a congestion control may lower the frequency, and the clock may be coarse: see
//! [`larder_transfer::Clock`]. Interests that become due between two ticks then leave together.

use super::names::Names;
use super::retransmission::{Answered, Retransmission};
use crate::app::{App, Received, Sends};
use larder_packet::{Data, Interest, InterestBuilder, NackReason, Name, types};
use larder_transfer::Clock;
use larder_transfer::congestion::{Answer, Congestion, CongestionControl, PathFeedback, Signal};
use larder_units::{Stream, Time};
use std::time::Duration;

/// The distribution of the time between two Interests at frequency f.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Randomize {
    /// 1/f.
    #[default]
    None,
    /// Uniform between 0 and 2/f.
    Uniform,
    /// Exponential with mean 1/f, at most 50/f: a Poisson process.
    Exponential,
}

/// The configuration of a [`Cbr`].
#[derive(Clone, Debug)]
pub struct CbrConfig {
    /// The prefixes of the names. Each sequence number belongs to one of them by its hash, which
    /// spreads the contents over several producers.
    pub prefixes: Vec<Name>,
    /// The names of the caches of hash routing; empty without hash routing. The hash of the number
    /// selects the cache whose name precedes the whole name ([`super::CacheHost`]).
    pub cache_hosts: Vec<Name>,
    /// Interests per second, above 0.
    pub frequency: f64,
    /// The distribution of the time between two Interests.
    pub randomize: Randomize,
    /// The numbers that are requested.
    pub names: Names,
    /// The InterestLifetime. `None` leaves it out, which means 4 s.
    pub lifetime: Option<Duration>,
    /// The time of the first Interest.
    pub start: Time,
    /// The time from which no Interest is sent. Answers are still counted.
    pub stop: Time,
    /// The clock by which Interests leave. With a tick, due Interests that cannot leave are not
    /// saved up.
    pub clock: Clock,
}

impl CbrConfig {
    /// One Interest per second under `prefix`, by sequence numbers, with ndnSIM's lifetime of 2 s.
    pub fn new(prefix: Name) -> Self {
        CbrConfig {
            prefixes: vec![prefix],
            cache_hosts: Vec::new(),
            frequency: 1.0,
            randomize: Randomize::None,
            names: Names::Sequence { end: None },
            lifetime: Some(Duration::from_secs(2)),
            start: Time::ZERO,
            stop: Time::MAX,
            clock: Clock::default(),
        }
    }
}

/// The memory of a pending number: its entries in a half-full table and in a queue.
const PENDING_BYTES: u64 = 150;

/// The counters of a consumer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ConsumerCounters {
    /// Interests sent.
    pub interests: u64,
    /// Interests for a number that was sent before and not answered.
    pub retransmissions: u64,
    /// Data that answered a pending Interest.
    pub data: u64,
    /// Bytes of the content of these Data.
    pub bytes: u64,
    /// Data without a pending Interest.
    pub unexpected: u64,
    /// Nacks.
    pub nacks: u64,
    /// Timeouts.
    pub timeouts: u64,
    /// Data with a congestion mark.
    pub marks: u64,
    /// The sum of the seconds from the first Interest of each number to its Data (ndnSIM's
    /// FullDelay).
    pub full_delay: f64,
    /// The sum of the seconds from the last Interest of each number to its Data (ndnSIM's
    /// LastDelay).
    pub last_delay: f64,
}

/// One Data of a consumer: a row of ndnSIM's AppDelayTracer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DelayRow {
    /// The time of arrival.
    pub at: Time,
    /// The sequence number.
    pub number: u64,
    /// The time since the last Interest for it.
    pub last: Duration,
    /// The time since the first Interest for it.
    pub full: Duration,
    /// The number of Interests for it.
    pub sends: u32,
}

/// A consumer at a constant rate.
pub struct Cbr {
    config: CbrConfig,
    stream: Stream,
    retransmission: Retransmission,
    /// The number of new numbers so far.
    asked: u64,
    planned: Option<Time>,
    /// The Interests that became due since the last tick; always 0 with a fine clock.
    due: u64,
    /// True if a planned Interest waits for room in the window.
    blocked: bool,
    congestion: Option<Box<dyn CongestionControl>>,
    next_timer: Option<Time>,
    counters: ConsumerCounters,
    /// The recorded delays and their limit, if delays are recorded.
    delays: Option<(Vec<DelayRow>, usize)>,
}

impl Cbr {
    /// Creates a consumer with its own random stream.
    pub fn new(config: CbrConfig, stream: Stream) -> Self {
        let start = config.start;
        let first = config
            .names
            .time(0)
            .map_or(start, |time| start + time.since(Time::ZERO));
        let first = (first < config.stop).then_some(first);
        let mut consumer = Cbr {
            retransmission: Retransmission::new(start),
            asked: 0,
            planned: first,
            due: 0,
            blocked: false,
            congestion: None,
            next_timer: None,
            counters: ConsumerCounters::default(),
            delays: None,
            config,
            stream,
        };
        consumer.update_timer(Time::ZERO);
        consumer
    }

    /// Lets an algorithm lower the frequency to its rate, and limit the Interests in flight to its
    /// window.
    pub fn set_congestion_control(&mut self, congestion: Box<dyn CongestionControl>) {
        self.congestion = Some(congestion);
    }

    /// The counters.
    pub fn counters(&self) -> &ConsumerCounters {
        &self.counters
    }

    /// Records the delays of the next `most` Data.
    pub fn record_delays(&mut self, most: usize) {
        self.delays = Some((Vec::new(), most));
    }

    /// The recorded delays.
    pub fn delays(&self) -> &[DelayRow] {
        self.delays.as_ref().map_or(&[], |(delays, _)| delays)
    }

    /// The number of pending Interests.
    pub fn pending(&self) -> usize {
        self.retransmission.pending()
    }

    /// Sets the frequency from the next planned Interest on.
    pub fn set_frequency(&mut self, frequency: f64) {
        self.config.frequency = frequency;
    }

    /// Sends an Interest. Returns false if all numbers have been requested.
    fn send(&mut self, now: Time, sends: &mut Sends) -> bool {
        let number = match self.retransmission.next_again() {
            Some(number) => number,
            None => {
                let Some(number) = self.config.names.next(self.asked, &mut self.stream) else {
                    return false;
                };
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
        true
    }

    /// Sends the planned Interest, with a fine clock.
    fn send_planned(&mut self, now: Time, sends: &mut Sends) {
        if self.planned.is_none_or(|at| at > now) {
            return;
        }
        self.planned = None;
        if !self.has_room() {
            self.blocked = true;
        } else if self.send(now, sends) {
            self.plan(now);
        }
    }

    /// Counts the Interests that became due before `now`, with a coarse clock. One that becomes due
    /// at a tick waits for the next one, as in the pacer of transfers.
    fn count_due(&mut self, now: Time) {
        while let Some(at) = self.planned.filter(|at| *at < now) {
            self.planned = None;
            self.due += 1;
            self.plan(at);
        }
    }

    /// Sends the due Interests, with a coarse clock.
    fn send_due(&mut self, now: Time, sends: &mut Sends) {
        for _ in 0..std::mem::take(&mut self.due) {
            if !self.has_room() || now >= self.config.stop {
                break;
            }
            if !self.send(now, sends) {
                self.planned = None;
                break;
            }
        }
    }

    /// A consumer that follows the times of a trace has a fine clock.
    fn is_coarse(&self) -> bool {
        let is_timed = matches!(&self.config.names, Names::Trace(trace) if trace.timed);
        !self.config.clock.tick.is_zero() && !is_timed
    }

    fn has_room(&self) -> bool {
        let window = self.congestion.as_ref().map(|control| control.window());
        window.is_none_or(|window| self.retransmission.in_flight() < window)
    }

    fn on_congestion(&mut self, now: Time, sent_at: Time, signal: Signal) {
        if let Some(control) = &mut self.congestion {
            control.on_congestion(&Congestion {
                now,
                sent_at,
                signal,
            });
        }
    }

    fn name(&self, number: u64) -> Name {
        let prefix = spread(number, 0, &self.config.prefixes)
            .cloned()
            .unwrap_or_default();
        let mut name = match spread(number, 1, &self.config.cache_hosts) {
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
                // After the last request of a trace, retransmissions continue.
                Names::Trace(trace) if trace.timed => {
                    let next = self
                        .config
                        .names
                        .time(self.asked)
                        .map(|time| self.config.start + time.since(Time::ZERO));
                    next.unwrap_or(now).max(now)
                }
                _ => now + self.interval(),
            };
            self.planned = (at < self.config.stop).then_some(at);
        }
    }

    fn interval(&mut self) -> Duration {
        let granted = self.congestion.as_ref().and_then(|control| control.rate());
        let frequency = granted.map_or(self.config.frequency, |rate| {
            self.config.frequency.min(rate.max(1e-9))
        });
        let mean = 1.0 / frequency;
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

    fn update_timer(&mut self, now: Time) {
        let scan = self.retransmission.next_scan();
        let planned = self.planned;
        self.next_timer = if self.is_coarse() {
            // What a packet has found due leaves at the next tick, whatever is planned after it.
            let due = (self.due > 0).then(|| self.tick_from(now));
            let planned = planned.map(|at| self.tick_from(at + Duration::from_nanos(1)));
            [due, planned, scan.map(|at| self.tick_from(at))]
        } else {
            [None, planned, scan]
        }
        .into_iter()
        .flatten()
        .min();
    }

    /// Returns the first tick at or after a time.
    fn tick_from(&self, at: Time) -> Time {
        let tick = self.config.clock.tick.as_nanos() as u64;
        Time::from_nanos(at.nanos().div_ceil(tick).saturating_mul(tick))
    }
}

/// Returns the name of the list that a number belongs to; `salt` makes choices independent. The
/// hash is the finalizer of SplitMix64 (Steele, Lea and Flood, 2014).
fn spread(number: u64, salt: u64, among: &[Name]) -> Option<&Name> {
    let mut hash = number
        .wrapping_add(salt << 32)
        .wrapping_mul(0x9E37_79B9_7F4A_7C15);
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
        if self.is_coarse() {
            self.count_due(now);
        }
        if self.retransmission.next_scan().is_some_and(|at| at <= now) {
            for sent_at in self.retransmission.scan(now) {
                self.counters.timeouts += 1;
                self.on_congestion(now, sent_at, Signal::TimeOut);
            }
            self.plan_again(now);
        }
        if self.is_coarse() {
            self.send_due(now, sends);
        } else {
            self.send_planned(now, sends);
        }
        self.update_timer(now);
    }

    fn on_packet(&mut self, now: Time, packet: &Received<'_>, sends: &mut Sends) {
        if self.is_coarse() {
            self.count_due(now);
        }
        if let Some(reason) = packet.header.nack {
            self.counters.nacks += 1;
            if let Some(number) = Interest::decode(packet.packet)
                .ok()
                .and_then(|interest| self.number(interest.name))
            {
                let sent_at = self.retransmission.refused(number);
                if let Some(sent_at) = sent_at.filter(|_| reason == NackReason::Congestion) {
                    self.on_congestion(now, sent_at, Signal::Nack);
                }
                self.plan_again(now);
            }
        } else if let Ok(data) = Data::decode(packet.packet) {
            self.on_data(now, &data, PathFeedback::from(&packet.header));
        }
        if self.is_coarse() && self.config.clock.smoothing {
            self.send_due(now, sends);
        }
        self.update_timer(now);
    }
}

impl Cbr {
    fn on_data(&mut self, now: Time, data: &Data<'_>, path: PathFeedback) {
        let number = self.number(data.name).unwrap_or(u64::MAX);
        let window_limited = !self.has_room();
        self.counters.marks += u64::from(path.marked);
        let Some(answered) = self.retransmission.answered(now, number) else {
            self.counters.unexpected += 1;
            return;
        };
        let Answered { full, last, sends } = answered;
        self.counters.data += 1;
        self.counters.bytes += data.content.len() as u64;
        self.counters.full_delay += full.as_secs_f64();
        self.counters.last_delay += last.as_secs_f64();
        let delays = self.delays.as_mut();
        if let Some((delays, _)) = delays.filter(|(delays, most)| delays.len() < *most) {
            delays.push(DelayRow {
                at: now,
                number,
                last,
                full,
                sends,
            });
        }
        if let Some(control) = &mut self.congestion {
            control.on_answer(&Answer {
                now,
                rtt: (sends == 1).then_some(full),
                smoothed_rtt: self.retransmission.smoothed_rtt(),
                window_limited,
                granted_rate: path.granted_rate,
            });
        }
        if path.marked {
            let sent_at = Time::from_nanos(now.nanos() - last.as_nanos() as u64);
            self.on_congestion(now, sent_at, Signal::Mark);
        }
        self.unblock(now);
    }

    /// Plans the Interest that waits for room in the window, if there is room.
    fn unblock(&mut self, now: Time) {
        if self.blocked && self.has_room() {
            self.blocked = false;
            self.planned = (now < self.config.stop).then_some(now);
        }
    }

    /// Plans an Interest after a timeout or a Nack, so that the number is sent again.
    fn plan_again(&mut self, now: Time) {
        self.unblock(now);
        if !self.blocked {
            self.plan(now);
        }
    }
}
