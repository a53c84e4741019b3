//! Simulated years of an authority that fails, and of a clock that is set.
//!
//! `LARDER_SEEDS=0..10000` runs other seeds.

use larder_acme::{Failure, Failures, Schedule, Step, UnixTime, Validity, limits};
use larder_units::{Stream, Streams};
use std::time::Duration;

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

/// What happens in a simulated year.
struct World {
    now: UnixTime,
    chance: Stream,
    lifetime: u64,
    has_windows: bool,
    /// The authority answers.
    is_up: bool,
    /// The authority reaches the host.
    is_host_right: bool,
    /// Since then, both, and the clock was not set.
    well_since: Option<UnixTime>,
    refusals: Vec<UnixTime>,
    certificate: Option<Validity>,
    /// The window of the present certificate.
    window: Option<(UnixTime, UnixTime)>,
    orders: u32,
}

impl World {
    fn new(seed: u64) -> World {
        let mut chance = Streams::new(seed).stream("world");
        let lifetime = [6 * DAY, 47 * DAY, 90 * DAY][chance.below(3) as usize];
        World {
            now: UnixTime(1_700_000_000),
            lifetime,
            has_windows: chance.chance(0.5),
            is_up: chance.chance(0.7),
            is_host_right: chance.chance(0.7),
            well_since: None,
            refusals: Vec::new(),
            certificate: None,
            window: None,
            orders: 0,
            chance,
        }
    }

    /// Something outside changes.
    fn change(&mut self) {
        match self.chance.below(4) {
            0 | 1 => self.is_up = self.chance.chance(0.7),
            2 => self.is_host_right = self.chance.chance(0.7),
            _ if self.chance.chance(0.2) => {
                let span = self.chance.below(20 * DAY);
                self.now = if self.chance.chance(0.5) {
                    self.now.after(Duration::from_secs(span))
                } else {
                    UnixTime(self.now.0 - span)
                };
                self.refusals.clear();
                self.well_since = None;
            }
            _ => {}
        }
        if !(self.is_up && self.is_host_right) {
            self.well_since = None;
        } else if self.well_since.is_none() {
            self.well_since = Some(self.now);
        }
    }

    fn order(&mut self) -> Result<Validity, Failure> {
        self.orders += 1;
        if !self.is_up {
            return Err(Failure::Unreachable);
        }
        if !self.is_host_right {
            self.refusals.push(self.now);
            return Err(Failure::Refused);
        }
        // Authorities date certificates back by an hour.
        let validity = Validity {
            not_before: UnixTime(self.now.0 - HOUR),
            not_after: UnixTime(self.now.0 + self.lifetime),
        };
        self.certificate = Some(validity);
        self.window = self.has_windows.then(|| {
            let start = self.now.0 + self.chance.below(self.lifetime * 3 / 2);
            let length = self.chance.below(2 * DAY);
            (UnixTime(start), UnixTime(start + length))
        });
        Ok(validity)
    }

    fn ask(&mut self) -> Option<((UnixTime, UnixTime), Duration)> {
        let again = Duration::from_secs(self.chance.below(3 * DAY));
        self.window
            .filter(|_| self.is_up)
            .map(|window| (window, again))
    }

    /// Asserts what holds at any time.
    fn check(&self, seed: u64) {
        let last_hour = self
            .refusals
            .iter()
            .filter(|time| self.now.since(**time) < limits::FAILURES_PERIOD && **time <= self.now);
        assert!(
            last_hour.count() <= limits::FAILURES,
            "seed {seed}: too many refused orders"
        );
        // The longest pause, and its spread.
        let pause = limits::RETRY_LONGEST.mul_f64(1.25).as_secs();
        if let Some(since) = self.well_since
            && self.now.since(since).as_secs() > pause
        {
            let is_valid = self
                .certificate
                .is_some_and(|validity| self.now <= validity.not_after);
            assert!(
                is_valid,
                "seed {seed}: it has expired, and nothing prevents an order"
            );
        }
    }
}

fn simulate(seed: u64) {
    let mut world = World::new(seed);
    let chance = |run: u32| Streams::new(seed).stream(&format!("schedule {run}"));
    let mut schedule = Schedule::new(None, Failures::default(), chance(0));
    let end = UnixTime(world.now.0 + 365 * DAY);
    let mut next_change = world.now;
    for run in 0.. {
        if world.now > end {
            break;
        }
        assert!(run < 200_000, "seed {seed}: the schedule does not get on");
        if world.now >= next_change {
            world.change();
            let pause = world.chance.below(4 * DAY);
            next_change = world.now.after(Duration::from_secs(pause + 60));
            if world.chance.chance(0.2) {
                let failures = Failures::from_text(&schedule.failures().to_text());
                schedule = Schedule::new(world.certificate, failures, chance(run));
            } else if world.chance.chance(0.1) {
                schedule.retry_now();
            }
        }
        world.check(seed);
        match schedule.next(world.now) {
            Step::Order => match world.order() {
                Ok(validity) => schedule.on_ordered(world.now, validity),
                Err(failure) => schedule.on_failed(world.now, failure),
            },
            Step::AskWindow => {
                let answer = world.ask();
                schedule.on_window(world.now, answer);
            }
            Step::Wait(until) => {
                assert!(until > world.now, "seed {seed}: it waits for the past");
                // The host looks at the clock from time to time.
                world.now = until
                    .min(next_change)
                    .max(world.now.after(Duration::from_secs(1)));
            }
        }
    }
    // While the authority is away, one in a quarter of an hour.
    let most = 365 * DAY / world.lifetime * 4 + 96 * 365;
    assert!(
        u64::from(world.orders) < most,
        "seed {seed}: {} orders",
        world.orders
    );
}

/// Failure: a certificate expires although the authority answers and reaches the host, or the
/// authority gets more failing orders than it allows.
#[test]
fn a_certificate_expires_or_the_authority_is_flooded() {
    #[allow(
        clippy::disallowed_methods,
        reason = "the environment selects the seeds of the search"
    )]
    let seeds = std::env::var("LARDER_SEEDS").unwrap_or_else(|_| "0..300".to_owned());
    let (first, last) = seeds.split_once("..").expect("LARDER_SEEDS=0..300");
    for seed in first.parse().unwrap()..last.parse().unwrap() {
        simulate(seed);
    }
}

fn validity(days: u64) -> Validity {
    Validity {
        not_before: UnixTime(DAY),
        not_after: UnixTime(DAY + days * DAY),
    }
}

fn schedule(seed: u64, days: u64) -> Schedule {
    let chance = Streams::new(seed).stream("schedule");
    Schedule::new(Some(validity(days)), Failures::default(), chance)
}

/// Failure: a certificate of six days is renewed "30 days before", so at once and again and again;
/// or all hosts are renewed in the same second.
#[test]
fn short_certificates_are_renewed_at_once_or_all_at_the_same_time() {
    for days in [6, 90] {
        let renewals: Vec<u64> = (0..50)
            .filter_map(|seed| schedule(seed, days).renewal())
            .map(|time| time.0 - DAY)
            .collect();
        let share = |renewal: &u64| *renewal as f64 / (days * DAY) as f64;
        assert!(
            renewals
                .iter()
                .all(|time| (0.63..0.67).contains(&share(time)))
        );
        assert!(renewals.iter().max() > renewals.iter().min());
    }
}

/// Failure: a node whose clock is months ahead orders without end, because each new certificate is
/// already due.
#[test]
fn a_wrong_clock_orders_without_end() {
    let (mut schedule, mut now) = (schedule(1, 90), UnixTime(100 * DAY));
    let (end, mut orders) = (now.after(Duration::from_secs(30 * DAY)), 0);
    while now < end {
        match schedule.next(now) {
            Step::Order => {
                orders += 1;
                schedule.on_ordered(now, validity(90));
            }
            Step::AskWindow => schedule.on_window(now, None),
            Step::Wait(until) => now = until,
        }
    }
    assert!((2..20).contains(&orders), "{orders} orders in 30 days");
}

/// Failure: an authority that issues certificates which are valid for seconds, or never, is flooded
/// with orders.
#[test]
fn certificates_of_no_use_are_ordered_without_a_pause() {
    for (not_before, not_after) in [(0, 20), (0, 0), (20, 0), (0, 300)] {
        let (mut schedule, mut now) = (schedule(1, 0), UnixTime(100 * DAY));
        let (end, mut orders) = (now.after(Duration::from_secs(HOUR)), 0);
        while now < end {
            match schedule.next(now) {
                Step::Order => {
                    orders += 1;
                    assert!(orders <= 60, "{not_before}..{not_after}");
                    let at = |seconds: u64| now.after(Duration::from_secs(seconds));
                    let validity = Validity {
                        not_before: at(not_before),
                        not_after: at(not_after),
                    };
                    schedule.on_ordered(now, validity);
                }
                Step::AskWindow => schedule.on_window(now, None),
                Step::Wait(until) => now = until,
            }
        }
        assert!(orders > 1, "{orders}");
    }
}

/// Failure: the authority's window is not kept, a window in the past (a revoked certificate) is not
/// followed at once, or a wrong window lets the certificate expire.
#[test]
fn the_window_of_the_authority_is_not_followed() {
    let now = UnixTime(2 * DAY);
    let at = |days: u64| UnixTime(days * DAY);
    let answered = |start: u64, end: u64| {
        let mut schedule = schedule(1, 90);
        assert_eq!(schedule.next(now), Step::AskWindow);
        schedule.on_window(now, Some(((at(start), at(end)), Duration::from_secs(HOUR))));
        schedule
    };
    let mut soon = answered(10, 12);
    let moment = soon.renewal().unwrap();
    assert!((at(10)..=at(12)).contains(&moment));
    // It asks again, and the same window does not move the moment.
    assert_eq!(
        soon.next(now),
        Step::Wait(now.after(Duration::from_secs(HOUR)))
    );
    let later = now.after(Duration::from_secs(HOUR));
    assert_eq!(soon.next(later), Step::AskWindow);
    soon.on_window(later, Some(((at(10), at(12)), Duration::ZERO)));
    assert_eq!(soon.renewal(), Some(moment));
    assert_eq!(soon.next(moment), Step::Order);
    assert_eq!(answered(0, 1).next(now), Step::Order, "it was revoked");
    let late = answered(100, 110).renewal().unwrap();
    assert!(late < validity(90).not_after);
    // A window that ends before it starts is none.
    let by_lifetime = schedule(1, 90).renewal();
    assert_eq!(answered(12, 10).renewal(), by_lifetime);
    let mut without = schedule(1, 90);
    without.on_window(now, None);
    assert_eq!(without.renewal(), by_lifetime);
    assert_eq!(
        without.next(now),
        Step::Wait(now.after(limits::WINDOW_AGAIN))
    );
}
