//! The consumer: keeps a window of Interests outstanding, or sends at a rate, and measures the
//! round trips.

use super::interest::{PATIENCE, PreparedInterest};
use super::process::Usage;
use super::producer::number;
use super::requester::{Names, Requester};
use crate::connection::broken;
use crate::failure::Failure;
use hdrhistogram::Histogram;
use larder_client::{Client, Received};
use larder_packet::{NackReason, Name};
use larder_units::Time;
use std::time::Duration;

/// The least number of names that are requested repeatedly when hits are measured: 8 MB of
/// segments, which fit into every Content Store.
const HIT_NAMES: u64 = 1000;

/// The longest round trip that the histogram distinguishes, and its precision in decimal digits.
const LONGEST_NS: u64 = 10_000_000_000;
const DIGITS: u8 = 2;

/// The parameters of a measurement.
pub struct Options {
    /// The prefix that the producer serves.
    pub prefix: Name,
    /// The most outstanding Interests.
    pub window: u16,
    /// Whether names are requested repeatedly.
    pub hits: bool,
    /// The most Interests per second.
    pub rate: Option<u32>,
    /// The time before counting starts.
    pub warm_up: Duration,
    /// The time during which everything counts.
    pub duration: Duration,
}

/// The result of a measurement.
pub struct Outcome {
    /// The time from the first counted Interest to the last answer.
    pub took: Duration,
    /// Interests answered by Data.
    pub exchanges: u64,
    /// Interests without an answer within a second.
    pub lost: u64,
    /// Interests answered by a Nack.
    pub nacks: u64,
    /// Data with a congestion mark.
    pub marks: u64,
    /// Round-trip times.
    pub round_trips_ns: Histogram<u64>,
    /// The forwarder's usage at the start.
    pub before: Option<Usage>,
    /// The forwarder's usage at the end.
    pub after: Option<Usage>,
}

/// Sends Interests until the time is over. Returns `None` if a signal ended it.
pub fn run(
    client: &mut Client,
    options: &Options,
    usage: impl Fn() -> Option<Usage>,
) -> Result<Option<Outcome>, Failure> {
    let mut load = Load::new(client, options)?;
    if let Names::Cycle(names) = load.names {
        load.count_to(client, names)?;
    }
    load.pass_time(client, options.warm_up)?;
    load.outcome.forget()?;
    load.outcome.before = usage();
    load.outcome.took = load.pass_time(client, options.duration)?;
    load.outcome.after = usage();
    if client.interrupted() {
        return Ok(None);
    }
    load.outcome.check_answered()?;
    Ok(Some(load.outcome))
}

impl Outcome {
    /// Nothing has happened yet.
    pub fn new() -> Result<Self, Failure> {
        let round_trips_ns = Histogram::new_with_max(LONGEST_NS, DIGITS)
            .map_err(|error| Failure::runtime(error.to_string()))?;
        let took = Duration::ZERO;
        Ok(Outcome {
            took,
            exchanges: 0,
            lost: 0,
            nacks: 0,
            marks: 0,
            round_trips_ns,
            before: None,
            after: None,
        })
    }

    /// Checks that there was an answer.
    ///
    /// # Errors
    /// If there was none.
    pub fn check_answered(&self) -> Result<(), Failure> {
        if self.exchanges > 0 {
            return Ok(());
        }
        Err(Failure::runtime(if self.nacks > 0 {
            "the forwarder answers with Nacks: it has no route to the producer"
        } else {
            "no answer arrives through the forwarder"
        }))
    }

    /// Counts Data.
    pub fn answered(&mut self, took: Duration, marked: bool) {
        self.exchanges += 1;
        self.marks += u64::from(marked);
        self.round_trips_ns
            .saturating_record(took.as_nanos() as u64);
    }

    fn forget(&mut self) -> Result<(), Failure> {
        *self = Outcome::new()?;
        Ok(())
    }
}

struct Load {
    requester: Requester,
    names: Names,
    interest: PreparedInterest,
    rate: Option<u32>,
    /// The number of Interests that the rate has allowed, and the start of the count.
    started: Time,
    asked: u64,
    outcome: Outcome,
}

impl Load {
    fn new(client: &Client, options: &Options) -> Result<Self, Failure> {
        let window = u64::from(options.window);
        let names = if options.hits {
            Names::Cycle(HIT_NAMES.div_ceil(window) * window)
        } else {
            Names::New
        };
        Ok(Load {
            requester: Requester::new(options.window, names),
            names,
            interest: PreparedInterest::new(client, &options.prefix)?,
            rate: options.rate,
            started: client.now(),
            asked: 0,
            outcome: Outcome::new()?,
        })
    }

    /// Requests each of the names once, so that all are in the Content Store.
    fn count_to(&mut self, client: &mut Client, names: u64) -> Result<(), Failure> {
        let (rate, deadline) = (self.rate.take(), client.now() + 10 * PATIENCE);
        while self.outcome.exchanges < 2 * names && client.now() < deadline && !client.interrupted()
        {
            self.turn(client, deadline)?;
        }
        self.rate = rate;
        Ok(())
    }

    fn pass_time(&mut self, client: &mut Client, time: Duration) -> Result<Duration, Failure> {
        let (started, deadline) = (client.now(), client.now() + time);
        (self.started, self.asked) = (started, 0);
        while client.now() < deadline && !client.interrupted() {
            self.turn(client, deadline)?;
        }
        Ok(client.now().since(started))
    }

    /// Sends as many Interests as allowed, and receives answers.
    fn turn(&mut self, client: &mut Client, deadline: Time) -> Result<(), Failure> {
        let now = client.now();
        self.ask(now, client);
        let next = self.rate.map_or(deadline, |rate| {
            due(self.started, self.asked + 1, rate).min(deadline)
        });
        client
            .receive(Some(next.min(now + PATIENCE)), |now, received, _| {
                self.on_packet(now, received)
            })
            .map_err(broken)?;
        self.outcome.lost += self.requester.give_up(client.now(), PATIENCE);
        Ok(())
    }

    fn ask(&mut self, now: Time, client: &mut Client) {
        while self
            .rate
            .is_none_or(|rate| due(self.started, self.asked + 1, rate) <= now)
        {
            let Some(number) = self.requester.ask(now) else {
                return;
            };
            self.asked += 1;
            self.interest.send(client, number);
        }
    }

    fn on_packet(&mut self, now: Time, received: Received<'_>) {
        match received {
            Received::Data { data, marked, .. } => {
                let Some(took) =
                    number(data.name).and_then(|number| self.requester.answered(now, number))
                else {
                    return;
                };
                self.outcome.answered(took, marked);
            }
            Received::Nack { interest, reason } => {
                let answered =
                    number(interest.name).and_then(|number| self.requester.answered(now, number));
                // A duplicate nonce drawn by chance is no property of the forwarder.
                self.outcome.nacks +=
                    u64::from(answered.is_some() && reason != NackReason::Duplicate);
            }
            Received::Interest { .. } => {}
        }
    }
}

/// Returns the time at which the rate, since the start, allows the n-th Interest.
pub fn due(started: Time, n: u64, rate: u32) -> Time {
    started + Duration::from_nanos((u128::from(n) * 1_000_000_000 / u128::from(rate)) as u64)
}
