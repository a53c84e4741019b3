//! `larder ping`: sends Interests to a ping server and measures round trips, as ndnping does.

use crate::connection::{connect, receive};
use crate::failure::Failure;
use crate::output::line;
use clap::Args;
use larder_client::{Client, Received};
use larder_packet::{InterestBuilder, Name, NameRef};
use larder_units::{Stream, Time, parse_duration};
use std::collections::BTreeMap;
use std::time::Duration;

/// The shortest interval. A thousand pings a second would be a load test.
const MIN_INTERVAL: Duration = Duration::from_millis(1);

/// Measure the round-trip time to a ping server
///
/// Requests PREFIX/ping/NUMBER, with a number that counts up from a random one, from `larder
/// ping-server` or ndnpingserver. The exit status is 1 if an answer is missing.
#[derive(Args, Debug)]
pub struct PingArgs {
    /// The prefix of the server
    prefix: Name,

    /// Number of pings [default: until interrupted]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Time from one ping to the next
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    interval: Duration,

    /// Time to wait for an answer (InterestLifetime)
    #[arg(long, value_name = "TIME", default_value = "4s", value_parser = parse_duration)]
    lifetime: Duration,
}

/// Pings until the count is reached or a signal comes.
pub fn run(args: PingArgs) -> Result<(), Failure> {
    if args.interval < MIN_INTERVAL {
        return Err(Failure::usage("--interval: at least 1ms"));
    }
    let mut client = connect(Duration::MAX)?;
    let mut random = client.random_stream("pings");
    let mut pings = Pings::new(&args, random.bits() >> 1);
    line!("PING {}", args.prefix);
    while !client.interrupted() && pings.go_on() {
        pings.expire(client.now());
        pings.send_due(&mut client, &mut random);
        if !pings.go_on() {
            // The last ping has timed out, so nothing is outstanding.
            break;
        }
        receive(&mut client, pings.next_event(), |now, received, _| {
            pings.on_packet(now, &received)
        })?;
    }
    pings.report(client.now());
    match pings.sent - pings.received {
        0 => Ok(()),
        // The answer to the last ping may have been on its way when the signal came.
        1 if client.interrupted() && pings.waiting.len() == 1 => Ok(()),
        lost => Err(Failure::runtime(format!(
            "{lost} of {} pings were not answered",
            pings.sent
        ))),
    }
}

/// The pings that were sent, and their results.
struct Pings<'a> {
    args: &'a PingArgs,
    prefix: Name,
    next_number: u64,
    next_at: Time,
    waiting: BTreeMap<u64, Time>,
    sent: u64,
    received: u64,
    nacked: u64,
    round_trips: RoundTrips,
}

impl<'a> Pings<'a> {
    fn new(args: &'a PingArgs, first_number: u64) -> Self {
        let mut prefix = args.prefix.clone();
        prefix.push_generic(b"ping");
        Pings {
            args,
            prefix,
            next_number: first_number,
            next_at: Time::ZERO,
            waiting: BTreeMap::new(),
            sent: 0,
            received: 0,
            nacked: 0,
            round_trips: RoundTrips::default(),
        }
    }

    fn all_sent(&self) -> bool {
        self.args.count.is_some_and(|count| self.sent >= count)
    }

    fn go_on(&self) -> bool {
        !self.all_sent() || !self.waiting.is_empty()
    }

    fn send_due(&mut self, client: &mut Client, random: &mut Stream) {
        let now = client.now();
        if self.all_sent() || now < self.next_at {
            return;
        }
        let mut name = self.prefix.clone();
        name.push_generic(self.next_number.to_string().as_bytes());
        let interest = InterestBuilder::new(name)
            .must_be_fresh(true)
            .nonce(random.bits() as u32)
            .lifetime(self.args.lifetime)
            .build();
        client
            .output()
            .send(None, |out| out.extend_from_slice(&interest));
        self.waiting.insert(self.next_number, now);
        self.next_number += 1;
        self.next_at = now + self.args.interval;
        self.sent += 1;
    }

    fn expire(&mut self, now: Time) {
        // Numbers and times of sending grow together, so the first one is the oldest.
        while let Some((&number, &sent_at)) = self.waiting.first_key_value() {
            if !(sent_at + self.args.lifetime).has_passed(now) {
                return;
            }
            self.waiting.remove(&number);
            line!("timeout from {}: seq={number}", self.args.prefix);
        }
    }

    fn next_event(&self) -> Option<Time> {
        // The first instant at which `expire` finds it.
        let patience = self.args.lifetime + Duration::from_nanos(1);
        let expiry = self
            .waiting
            .first_key_value()
            .map(|(_, sent_at)| *sent_at + patience);
        let next = (!self.all_sent()).then_some(self.next_at);
        expiry.into_iter().chain(next).min()
    }

    fn on_packet(&mut self, now: Time, received: &Received<'_>) {
        match received {
            Received::Data { data, .. } => {
                let Some((number, took)) = self.take(now, data.name) else {
                    return;
                };
                self.received += 1;
                self.round_trips.add(took);
                line!(
                    "content from {}: seq={number} time={} ms",
                    self.args.prefix,
                    millis(took)
                );
            }
            Received::Nack { interest, reason } => {
                let Some((number, took)) = self.take(now, interest.name) else {
                    return;
                };
                self.nacked += 1;
                line!(
                    "nack from {}: seq={number} time={} ms reason={reason}",
                    self.args.prefix,
                    millis(took)
                );
            }
            Received::Interest { .. } => {}
        }
    }

    /// The ping of this name, which no longer waits.
    fn take(&mut self, now: Time, name: NameRef<'_>) -> Option<(u64, Duration)> {
        let number = name.last()?.value;
        let of_ours = name.without_last() == self.prefix.as_name();
        let number = std::str::from_utf8(number)
            .ok()
            .filter(|_| of_ours)?
            .parse()
            .ok()?;
        let sent_at = self.waiting.remove(&number)?;
        Some((number, now.since(sent_at)))
    }

    fn report(&self, now: Time) {
        let lost = self.sent - self.received - self.nacked;
        let percent = |part: u64| 100.0 * part as f64 / self.sent.max(1) as f64;
        line!("\n--- {} ping statistics ---", self.args.prefix);
        line!(
            "{} packets transmitted, {} received, {} nacked, {:.0}% lost, {:.0}% nacked, time {} ms",
            self.sent,
            self.received,
            self.nacked,
            percent(lost),
            percent(self.nacked),
            millis(now.since(Time::ZERO))
        );
        self.round_trips.print();
    }
}

/// Smallest, mean, largest and deviation without keeping each.
#[derive(Default)]
struct RoundTrips {
    count: u64,
    sum: f64,
    sum_of_squares: f64,
    min: f64,
    max: f64,
}

impl RoundTrips {
    fn add(&mut self, took: Duration) {
        let ms = took.as_secs_f64() * 1e3;
        self.min = if self.count == 0 {
            ms
        } else {
            self.min.min(ms)
        };
        self.max = self.max.max(ms);
        self.count += 1;
        self.sum += ms;
        self.sum_of_squares += ms * ms;
    }

    fn mean_and_deviation(&self) -> (f64, f64) {
        let mean = self.sum / self.count.max(1) as f64;
        // Rounding may leave a little below zero.
        let variance = (self.sum_of_squares / self.count.max(1) as f64 - mean * mean).max(0.0);
        (mean, variance.sqrt())
    }

    fn print(&self) {
        if self.count > 0 {
            let (mean, deviation) = self.mean_and_deviation();
            line!(
                "rtt min/avg/max/mdev = {:.3}/{mean:.3}/{:.3}/{deviation:.3} ms",
                self.min,
                self.max
            );
        }
    }
}

fn millis(span: Duration) -> String {
    format!("{:.3}", span.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_are_summed_up() {
        let mut trips = RoundTrips::default();
        for ms in [2, 4, 4, 4, 5, 5, 7, 9] {
            trips.add(Duration::from_millis(ms));
        }
        let (mean, deviation) = trips.mean_and_deviation();
        assert!(
            (mean - 5.0).abs() < 1e-9 && (deviation - 2.0).abs() < 1e-6,
            "{mean} {deviation}"
        );
        assert_eq!((trips.min, trips.max), (2.0, 9.0));
    }

    fn args() -> PingArgs {
        PingArgs {
            prefix: "/here".parse().unwrap(),
            count: Some(2),
            interval: Duration::from_secs(1),
            lifetime: Duration::from_secs(4),
        }
    }

    #[test]
    fn only_our_own_pings_count_and_only_once() {
        let args = args();
        let mut pings = Pings::new(&args, 7);
        pings.waiting.insert(7, Time::from_secs(1));
        for name in [
            "/here/ping/8",
            "/here/7",
            "/there/ping/7",
            "/here/ping/7/x",
            "/here/ping/%FF",
            "/here/ping/seven",
        ] {
            assert!(
                pings
                    .take(Time::from_secs(2), name.parse::<Name>().unwrap().as_name())
                    .is_none(),
                "{name}"
            );
        }
        let name: Name = "/here/ping/7".parse().unwrap();
        assert_eq!(
            pings.take(Time::from_secs(2), name.as_name()),
            Some((7, Duration::from_secs(1)))
        );
        assert_eq!(pings.take(Time::from_secs(2), name.as_name()), None);
    }

    #[test]
    fn what_is_never_answered_ends() {
        let args = args();
        let mut pings = Pings::new(&args, 7);
        pings.sent = 2;
        pings.waiting.insert(7, Time::from_secs(0));
        pings.waiting.insert(8, Time::from_secs(1));
        assert_eq!(
            pings.next_event(),
            Some(Time::from_secs(4) + Duration::from_nanos(1))
        );
        let after = |secs| Time::from_secs(secs) + Duration::from_nanos(1);
        pings.expire(Time::from_secs(4));
        assert_eq!(
            pings.next_event(),
            Some(after(4)),
            "Data is in time until then"
        );
        pings.expire(after(4));
        assert_eq!(pings.next_event(), Some(after(5)));
        assert!(pings.go_on());
        pings.expire(after(5));
        assert!(!pings.go_on());
        assert_eq!(pings.next_event(), None);
    }
}
