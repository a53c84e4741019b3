//! When the certificate of one host is ordered.
//!
//! - Without a certificate, at once.
//! - If the authority names a window (RFC 9773, ARI), at a random moment in it. A window in the
//!   past means at once: the authority has revoked the certificate, or will.
//! - Otherwise when two thirds of the certificate's lifetime have passed, less a random share. No
//!   number of days is fixed: some certificates are valid for six days.
//! - After a failure, after a pause that doubles ([`Failures`]). After a success, after a minute at
//!   the earliest.

use crate::failures::{Failure, Failures};
use crate::limits;
use crate::unix_time::{UnixTime, Validity};
use larder_units::Stream;
use std::time::Duration;

/// The share of the lifetime after which a certificate is renewed at the latest, and the spread
/// before that: many certificates that were ordered together are not renewed together.
const RENEWAL: f64 = 2.0 / 3.0;
const SPREAD: f64 = 1.0 / 30.0;

/// The share after which a certificate is renewed whatever window the authority names: a wrong one
/// must not let it expire.
const LATEST: f64 = 0.8;

/// A certificate that is renewed within this share of its lifetime after its order is renewed
/// early. The first time may be a revocation. Repeated ones are a wrong clock, here or there, and
/// would have no end.
const EARLY: f64 = 1.0 / 12.0;

/// What the host does next for a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It waits until this time, or until the clock was set.
    Wait(UnixTime),
    /// It asks the authority for the certificate's renewal window.
    AskWindow,
    /// It orders a certificate.
    Order,
}

/// The plan for the certificate of one host.
#[derive(Clone, Debug)]
pub struct Schedule {
    certificate: Option<Planned>,
    /// The time of the last order that succeeded, and the number of early ones in a row.
    ordered: Option<(UnixTime, u32)>,
    failures: Failures,
    chance: Stream,
}

#[derive(Clone, Copy, Debug)]
struct Planned {
    validity: Validity,
    /// The moment by the certificate's lifetime.
    by_lifetime: UnixTime,
    /// The window that the authority named last, and the moment in it.
    window: Option<((UnixTime, UnixTime), UnixTime)>,
    /// The authority was asked for its window then, and is asked again after the span.
    asked: Option<(UnixTime, Duration)>,
}

impl Schedule {
    /// Returns the plan for a host with this certificate of an authority, if it has one, and these
    /// failures.
    pub fn new(validity: Option<Validity>, failures: Failures, chance: Stream) -> Schedule {
        let mut schedule = Schedule {
            certificate: None,
            ordered: None,
            failures,
            chance,
        };
        schedule.set_certificate(validity);
        schedule
    }

    /// Returns the next step.
    pub fn next(&mut self, now: UnixTime) -> Step {
        let retry = self.failures.retry(now);
        let Some(planned) = &self.certificate else {
            return step(now, retry, None);
        };
        let moment = planned
            .moment()
            .max(retry)
            .max(self.after_early(now, planned));
        let ask = match planned.asked {
            // The clock may have been set back since.
            Some((asked, again)) if asked <= now => Some(asked.after(again)),
            _ => Some(now),
        };
        step(now, moment, ask)
    }

    /// The certificate of the host is another one: this node, or another one, has ordered it.
    pub fn set_certificate(&mut self, validity: Option<Validity>) {
        let chance = &mut self.chance;
        self.certificate = validity.map(|validity| Planned {
            validity,
            by_lifetime: validity.at(RENEWAL - SPREAD * chance.unit()),
            window: None,
            asked: None,
        });
    }

    /// An order has succeeded.
    pub fn on_ordered(&mut self, now: UnixTime, validity: Validity) {
        let early = validity.lifetime().mul_f64(EARLY);
        let in_a_row = match self.ordered {
            Some((last, count)) if last <= now && now.since(last) < early => count + 1,
            _ => 0,
        };
        self.ordered = Some((now, in_a_row));
        self.failures = Failures::default();
        self.set_certificate(Some(validity));
    }

    /// Returns the earliest time of the next order after one that succeeded. The pause doubles with
    /// each early one.
    fn after_early(&self, now: UnixTime, planned: &Planned) -> UnixTime {
        let Some((last, count)) = self.ordered.filter(|(last, _)| *last <= now) else {
            return now;
        };
        let doubled = limits::RETRY_FIRST.saturating_mul(1 << count.saturating_sub(1).min(16));
        // The next one is early, too, so the pauses do not begin anew.
        let early = planned.validity.lifetime().mul_f64(EARLY * 0.75);
        // Whatever the authority issues, and even if it is valid for seconds.
        last.after(doubled.min(early).max(limits::RETRY_FIRST))
    }

    /// An order has failed.
    pub fn on_failed(&mut self, now: UnixTime, failure: Failure) {
        self.failures.add(now, failure, &mut self.chance);
    }

    /// The authority has named a window, and after which time it is asked again; `None` if it names
    /// none, or could not be asked.
    pub fn on_window(&mut self, now: UnixTime, answer: Option<((UnixTime, UnixTime), Duration)>) {
        let Some(planned) = &mut self.certificate else {
            return;
        };
        let Some(((start, end), again)) = answer else {
            planned.asked = Some((now, limits::WINDOW_AGAIN));
            return;
        };
        let again = again.clamp(limits::WINDOW_EARLIEST, limits::WINDOW_LATEST);
        planned.asked = Some((now, again));
        // RFC 9773 §4.2: the end is after the start. A moment once drawn stays, or each question
        // would draw again until one is early.
        let window = (start, end);
        if start >= end {
            planned.window = None;
        } else if planned.window.is_none_or(|(former, _)| former != window) {
            let span = end.since(start).mul_f64(self.chance.unit());
            planned.window = Some((window, start.after(span)));
        }
    }

    /// Ends the pause after failures, and asks for the authority's window at once: an operator has
    /// asked for that.
    pub fn retry_now(&mut self) {
        self.failures.end_pause();
        if let Some(planned) = &mut self.certificate {
            planned.asked = None;
        }
    }

    /// Returns the time of the renewal, without pauses after failures; `None` without a
    /// certificate.
    pub fn renewal(&self) -> Option<UnixTime> {
        self.certificate.as_ref().map(Planned::moment)
    }

    /// Returns the earliest time of the next order after failures.
    pub fn retry(&self, now: UnixTime) -> UnixTime {
        self.failures.retry(now)
    }

    /// Returns its failures.
    pub fn failures(&self) -> &Failures {
        &self.failures
    }
}

impl Planned {
    fn moment(&self) -> UnixTime {
        let latest = self.validity.at(LATEST);
        match self.window {
            Some((_, moment)) => moment.min(latest),
            None => self.by_lifetime,
        }
    }
}

fn step(now: UnixTime, order: UnixTime, ask: Option<UnixTime>) -> Step {
    match ask {
        _ if order <= now => Step::Order,
        Some(ask) if ask <= now => Step::AskWindow,
        Some(ask) => Step::Wait(order.min(ask)),
        None => Step::Wait(order),
    }
}
