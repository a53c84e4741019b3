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

/// The time for the first answer.
const FIRST_ANSWER: Duration = Duration::from_secs(10);

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

/// What was requested.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sent {
    /// Interests.
    pub interests: u64,
    /// Requests for segments that were outstanding.
    pub joined: u64,
    /// Bytes of the Data that answered.
    pub bytes: u64,
}

struct Replayed<'a> {
    trace: Trace,
    /// The segments of the current object that have not been requested.
    segments: Box<dyn Iterator<Item = Access>>,
    interest: PreparedInterest,
    options: &'a Options,
    /// When the outstanding segments were requested.
    asked: HashMap<u64, Time>,
    /// The outstanding segments, oldest first. Some of them have been answered.
    oldest: VecDeque<(u64, Time)>,
    sent: Sent,
    outcome: Outcome,
}

/// Requests all of the trace, as far as the time and signals allow.
///
/// # Errors
/// If the trace is not readable or has no request, or if no answer comes.
pub fn run(
    client: &mut Client,
    trace: Trace,
    options: &Options,
    progress: &Progress,
    usage: impl Fn() -> Option<Usage>,
) -> Result<(Outcome, Sent), Failure> {
    let mut replayed = Replayed {
        trace,
        segments: Box::new(std::iter::empty()),
        interest: PreparedInterest::new(client, &options.prefix)?,
        options,
        asked: HashMap::new(),
        oldest: VecDeque::new(),
        sent: Sent::default(),
        outcome: Outcome::new()?,
    };
    let started = client.now();
    let deadline = options.duration.map_or(Time::MAX, |time| started + time);
    let mut shown = started;
    replayed.outcome.before = usage();
    let mut is_over = false;
    while !client.interrupted() {
        let now = client.now();
        is_over = is_over || now >= deadline || !replayed.ask(client, started)?;
        if is_over && replayed.asked.is_empty() {
            break;
        }
        if now >= started + FIRST_ANSWER {
            replayed.outcome.check_answered()?;
        }
        replayed.receive(client, started)?;
        if client.now() >= shown {
            shown = client.now() + PROGRESS_EVERY;
            let share = replayed.trace.progress();
            progress.at("asking", "", replayed.outcome.exchanges, share, UNITS);
        }
    }
    replayed.outcome.took = client.now().since(started);
    replayed.outcome.after = usage();
    let Replayed { outcome, sent, .. } = replayed;
    if sent.interests == 0 && !client.interrupted() {
        return Err(Failure::usage("the trace has no request"));
    }
    outcome.check_answered()?;
    Ok((outcome, sent))
}

impl Replayed<'_> {
    /// Sends as many Interests as allowed. Returns false if the trace is over.
    fn ask(&mut self, client: &mut Client, started: Time) -> Result<bool, Failure> {
        let now = client.now();
        while self.asked.len() < usize::from(self.options.window) && self.may_ask(now, started) {
            let Some(number) = self.next()? else {
                return Ok(false);
            };
            if self.asked.contains_key(&number) {
                self.sent.joined += 1;
                continue;
            }
            self.asked.insert(number, now);
            self.oldest.push_back((number, now));
            self.sent.interests += 1;
            self.interest.send(client, number);
        }
        Ok(true)
    }

    fn may_ask(&self, now: Time, started: Time) -> bool {
        let rate = self.options.rate;
        rate.is_none_or(|rate| due(started, self.sent.interests + 1, rate) <= now)
    }

    /// Returns the number of the next segment, unless the trace is over.
    fn next(&mut self) -> Result<Option<u64>, Failure> {
        loop {
            if let Some(segment) = self.segments.next() {
                return Ok(Some(Content::number(segment.id, segment.size)));
            }
            let Some(access) = self.trace.next() else {
                return Ok(None);
            };
            let access = access.map_err(|error| Failure::usage(error.to_string()))?;
            self.segments = Box::new(access.segments(self.options.segment));
        }
    }

    fn receive(&mut self, client: &mut Client, started: Time) -> Result<(), Failure> {
        let now = client.now();
        let rate = self.options.rate;
        let next = rate.map(|rate| due(started, self.sent.interests + 1, rate));
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
                let Some(at) = number.and_then(|number| self.asked.remove(&number)) else {
                    return;
                };
                self.sent.bytes += data.content.len() as u64;
                self.outcome.answered(now.since(at), marked);
            }
            Received::Nack { interest, reason } => {
                let number = number(interest.name);
                let asked = number.and_then(|number| self.asked.remove(&number));
                // A duplicate nonce drawn by chance is no property of the forwarder.
                let is_refused = asked.is_some() && reason != NackReason::Duplicate;
                self.outcome.nacks += u64::from(is_refused);
                self.sent.interests -= u64::from(asked.is_some() && !is_refused);
            }
            Received::Interest { .. } => {}
        }
    }

    /// Drops the Interests without an answer.
    fn give_up(&mut self, now: Time) {
        while let Some((number, at)) = self.oldest.front().copied() {
            if self.asked.get(&number) == Some(&at) {
                if at + PATIENCE > now {
                    return;
                }
                self.outcome.lost += 1;
                self.asked.remove(&number);
            }
            self.oldest.pop_front();
        }
    }
}
