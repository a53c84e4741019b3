//! The consumer of a trace: requests its objects in their order, and keeps a window outstanding.
//!
//! An object is requested in segments, as `larder trace convert --segments` writes them. A request
//! for a segment that is outstanding joins it, as in a program on this machine: no Interest is
//! sent.

use super::consumer::{Outcome, due};
use super::interest::{PATIENCE, PreparedInterest};
use super::process::Usage;
use super::producer::{Content, number};
use crate::connection::broken;
use crate::failure::Failure;
use crate::replay::progress::Progress;
use larder_client::{Client, Received};
use larder_packet::{NackReason, Name};
use larder_replay::{Access, Trace};
use larder_units::Time;
use std::collections::{HashMap, VecDeque};
use std::num::NonZeroU64;
use std::time::Duration;

/// The interval between two updates of the progress.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);

/// The units of the progress for the whole trace.
pub const UNITS: f64 = 1e6;

/// The parameters of a measurement.
pub struct Options {
    /// The prefix that the producer serves.
    pub prefix: Name,
    /// The most outstanding Interests.
    pub window: u16,
    /// The most Interests per second.
    pub rate: Option<u32>,
    /// The longest time; without it, the trace ends the measurement.
    pub duration: Option<Duration>,
    /// The most bytes of a segment.
    pub segment: NonZeroU64,
}

/// The requests for a segment that is outstanding.
struct Asked {
    at: Time,
    requests: u64,
}

struct Replayed<'a> {
    trace: Trace,
    /// The segments of the current object that have not been requested, last one first.
    segments: Vec<Access>,
    interest: PreparedInterest,
    options: &'a Options,
    asked: HashMap<u64, Asked>,
    /// The outstanding segments, oldest first. Some of them have been answered.
    sent: VecDeque<(u64, Time)>,
    interests: u64,
    outcome: Outcome,
    bytes: u64,
}

/// Requests all of the trace, as far as the time allows. Returns the outcome and the bytes of what
/// was answered; `None` if a signal ended it.
pub fn run(
    client: &mut Client,
    trace: Trace,
    options: &Options,
    progress: &Progress,
    usage: impl Fn() -> Option<Usage>,
) -> Result<Option<(Outcome, u64)>, Failure> {
    let mut replayed = Replayed {
        trace,
        segments: Vec::new(),
        interest: PreparedInterest::new(client, &options.prefix)?,
        options,
        asked: HashMap::new(),
        sent: VecDeque::new(),
        interests: 0,
        outcome: Outcome::new()?,
        bytes: 0,
    };
    let started = client.now();
    let deadline = options.duration.map_or(Time::MAX, |time| started + time);
    let mut shown = started;
    replayed.outcome.before = usage();
    let mut is_over = false;
    while !client.interrupted() && !(is_over && replayed.asked.is_empty()) {
        let now = client.now();
        is_over = is_over || now >= deadline || !replayed.ask(client, started)?;
        replayed.receive(client, started)?;
        if client.now() >= shown {
            shown = client.now() + PROGRESS_EVERY;
            let share = replayed.trace.progress();
            progress.at("asking", "", replayed.outcome.exchanges, share, UNITS);
        }
    }
    replayed.outcome.took = client.now().since(started);
    replayed.outcome.after = usage();
    let Replayed { outcome, bytes, .. } = replayed;
    Ok((!client.interrupted()).then_some((outcome, bytes)))
}

impl Replayed<'_> {
    /// Sends as many Interests as allowed. Returns false if the trace is over.
    fn ask(&mut self, client: &mut Client, started: Time) -> Result<bool, Failure> {
        let now = client.now();
        while self.asked.len() < usize::from(self.options.window) && self.may_ask(now, started) {
            let Some(number) = self.next()? else {
                return Ok(false);
            };
            if let Some(asked) = self.asked.get_mut(&number) {
                asked.requests += 1;
                continue;
            }
            let asked = Asked {
                at: now,
                requests: 1,
            };
            self.asked.insert(number, asked);
            self.sent.push_back((number, now));
            self.interests += 1;
            self.interest.send(client, number);
        }
        Ok(true)
    }

    fn may_ask(&self, now: Time, started: Time) -> bool {
        let rate = self.options.rate;
        rate.is_none_or(|rate| due(started, self.interests + 1, rate) <= now)
    }

    /// Returns the number of the next segment, unless the trace is over.
    fn next(&mut self) -> Result<Option<u64>, Failure> {
        if self.segments.is_empty() {
            let Some(access) = self.trace.next() else {
                return Ok(None);
            };
            let access = access.map_err(|error| Failure::usage(error.to_string()))?;
            self.segments.extend(access.segments(self.options.segment));
            self.segments.reverse();
        }
        let segment = self.segments.pop();
        Ok(segment.map(|segment| Content::number(segment.id, segment.size)))
    }

    fn receive(&mut self, client: &mut Client, started: Time) -> Result<(), Failure> {
        let now = client.now();
        let rate = self.options.rate;
        let next = rate.map(|rate| due(started, self.interests + 1, rate));
        let until = next.unwrap_or(Time::MAX).min(now + PATIENCE);
        client
            .receive(Some(until), |now, received, _| {
                self.on_packet(now, received)
            })
            .map_err(broken)?;
        self.give_up(client.now());
        Ok(())
    }

    fn on_packet(&mut self, now: Time, received: Received<'_>) {
        match received {
            Received::Data { data, marked, .. } => {
                let number = number(data.name);
                let Some(asked) = number.and_then(|number| self.asked.remove(&number)) else {
                    return;
                };
                self.bytes += data.content.len() as u64 * asked.requests;
                self.outcome
                    .answered(now.since(asked.at), asked.requests, marked);
            }
            Received::Nack { interest, reason } => {
                let number = number(interest.name);
                let asked = number.and_then(|number| self.asked.remove(&number));
                let asked = asked.filter(|_| reason != NackReason::Duplicate);
                self.outcome.nacks += asked.map_or(0, |asked| asked.requests);
            }
            Received::Interest { .. } => {}
        }
    }

    /// Drops the Interests without an answer.
    fn give_up(&mut self, now: Time) {
        while let Some((number, at)) = self.sent.front().copied() {
            let is_same = |asked: &&Asked| asked.at == at;
            if let Some(asked) = self.asked.get(&number).filter(is_same) {
                if at + PATIENCE > now {
                    return;
                }
                self.outcome.lost += asked.requests;
                self.asked.remove(&number);
            }
            self.sent.pop_front();
        }
    }
}
