//! The health of one member: a circuit breaker, active checks, and a slow start after both.
//!
//! ```text
//!           max_fails failures, and no answer                  the pause is over
//!  closed ──────────────────────────────────────► open ──────────────────────────► probing
//!    ▲                                              ▲                                │ │
//!    │                                              └── no answer: twice the pause ──┘ │
//!    └──────────────────────────── an answer, of any status ───────────────────────────┘
//! ```
//!
//! While the breaker probes, one request uses the member. A probe without an answer within
//! [`limits::PROBE`] has failed, so a request that hangs does not keep a member out that has
//! recovered.

use crate::base::limits;
use larder_units::Time;
use std::time::Duration;

/// The settings of breakers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Thresholds {
    /// Failed requests in a row that open a breaker; 0: it stays closed.
    pub max_fails: u32,
    /// The longest pause.
    pub longest_pause: Duration,
    /// The time in which the weight grows after a recovery.
    pub slow_start: Duration,
}

/// The health of one member.
#[derive(Clone, Debug)]
pub(super) struct Breaker {
    thresholds: Thresholds,
    state: State,
    /// Failed requests in a row.
    failures: u32,
    /// The duration of the next pause.
    pause: Duration,
    /// The number of the latest probe.
    probe: u32,
    /// The start of its slow start.
    recovered: Option<Time>,
    /// The time of the latest answer.
    answered: Option<Time>,
    /// Results of active checks.
    checks: Checks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed,
    Open { until: Time },
    Probing { since: Time },
}

/// The latest active checks: their number with the same result, and that result.
#[derive(Clone, Debug)]
struct Checks {
    count: u32,
    well: bool,
    is_down: bool,
}

/// A change that is worth a line in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The member gets no requests but probes.
    Opened,
    /// The member gets requests again.
    Closed,
}

impl Breaker {
    pub(super) fn new(thresholds: Thresholds) -> Breaker {
        Breaker {
            thresholds,
            state: State::Closed,
            failures: 0,
            pause: limits::OUT_FIRST.min(thresholds.longest_pause),
            probe: 0,
            recovered: None,
            answered: None,
            checks: Checks {
                count: 0,
                well: true,
                is_down: false,
            },
        }
    }

    /// Lets the share of a new member grow.
    pub(super) fn start_slowly(&mut self, now: Time) {
        self.recovered = Some(now);
    }

    /// Returns this health under other settings. A probe in progress does not report to it.
    pub(super) fn under(&self, thresholds: Thresholds, now: Time) -> Breaker {
        let state = match self.state {
            State::Probing { .. } => State::Open { until: now },
            _ if thresholds.max_fails == 0 => State::Closed,
            state => state,
        };
        let pause = self.pause.min(thresholds.longest_pause);
        Breaker {
            thresholds,
            state,
            pause,
            ..self.clone()
        }
    }

    /// Ends a probe that has taken too long. Call this before the state is used.
    pub(super) fn settle(&mut self, now: Time) {
        if let State::Probing { since } = self.state
            && since + limits::PROBE <= now
        {
            self.reopen(since + limits::PROBE);
        }
    }

    /// Returns true if the breaker is closed, whatever active checks say.
    pub(super) fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Returns true if active checks have taken the member out.
    pub(super) fn is_down(&self) -> bool {
        self.checks.is_down
    }

    /// Returns true if the member gets requests.
    pub(super) fn is_healthy(&self) -> bool {
        self.is_closed() && !self.checks.is_down
    }

    /// Returns true if the member gets requests, and has failed none since its last answer.
    pub(super) fn is_trusted(&self) -> bool {
        self.is_healthy() && self.failures == 0
    }

    /// Returns true if the next request may be a probe.
    pub(super) fn is_due(&self, now: Time) -> bool {
        matches!(self.state, State::Open { until } if until <= now)
    }

    /// Returns the time at which its state may change by itself; `None` if it is closed.
    pub(super) fn opens_at(&self) -> Option<Time> {
        match self.state {
            State::Closed => None,
            State::Open { until } => Some(until),
            State::Probing { since } => Some(since + limits::PROBE),
        }
    }

    /// Starts a probe and returns its number.
    pub(super) fn begin_probe(&mut self, now: Time) -> u32 {
        self.state = State::Probing { since: now };
        self.probe = self.probe.wrapping_add(1);
        self.probe
    }

    /// Records that a request was answered, with any status.
    pub(super) fn on_answer(&mut self, now: Time) -> Option<Change> {
        (self.failures, self.answered) = (0, Some(now));
        if self.is_closed() {
            return None;
        }
        self.state = State::Closed;
        self.pause = limits::OUT_FIRST.min(self.thresholds.longest_pause);
        self.recovered = Some(now);
        Some(Change::Closed)
    }

    /// Records that a request was not answered that was sent at `sent`. `probe`: its number, if it
    /// was one. If the member has answered others since then, the failure is that of the request:
    /// many requests at once for one bad page do not open the breaker.
    pub(super) fn on_failure(
        &mut self,
        probe: Option<u32>,
        sent: Time,
        now: Time,
    ) -> Option<Change> {
        if self.is_closed() && self.answered.is_some_and(|answered| answered > sent) {
            return None;
        }
        self.failures = self.failures.saturating_add(1);
        match self.state {
            State::Closed
                if self.thresholds.max_fails > 0 && self.failures >= self.thresholds.max_fails =>
            {
                self.state = State::Open {
                    until: now + self.pause,
                };
                Some(Change::Opened)
            }
            State::Probing { .. } if probe == Some(self.probe) => {
                self.reopen(now);
                None
            }
            // Requests that began before the breaker opened say nothing new.
            _ => None,
        }
    }

    /// Records that a request ended without a verdict about the member: the next one may be the
    /// probe.
    pub(super) fn on_nothing(&mut self, probe: Option<u32>, now: Time) {
        if matches!(self.state, State::Probing { .. }) && probe == Some(self.probe) {
            self.state = State::Open { until: now };
        }
    }

    /// Records the result of an active check. Returns the change if it is one.
    pub(super) fn on_check(&mut self, well: bool, now: Time) -> Option<Change> {
        let checks = &mut self.checks;
        checks.count = if checks.well == well {
            checks.count.saturating_add(1)
        } else {
            1
        };
        checks.well = well;
        if checks.count < limits::PROBES || checks.is_down != well {
            return None;
        }
        checks.is_down = !well;
        if !well {
            return Some(Change::Opened);
        }
        self.on_answer(now);
        self.recovered = Some(now);
        Some(Change::Closed)
    }

    /// Returns the share of its weight that a member has, which grows from a tenth to all.
    pub(super) fn share(&mut self, now: Time) -> f64 {
        let Some(recovered) = self.recovered else {
            return 1.0;
        };
        let (grown, whole) = (now.since(recovered), self.thresholds.slow_start);
        if grown >= whole {
            self.recovered = None;
            return 1.0;
        }
        (grown.as_secs_f64() / whole.as_secs_f64()).max(limits::SLOW_START_LEAST)
    }

    /// Returns its name for the status page.
    pub(super) fn name(&self) -> &'static str {
        match self.state {
            State::Open { .. } => "open",
            State::Probing { .. } => "probing",
            State::Closed if self.checks.is_down => "check failed",
            State::Closed if self.recovered.is_some() && !self.thresholds.slow_start.is_zero() => {
                "slow start"
            }
            State::Closed => "up",
        }
    }

    fn reopen(&mut self, from: Time) {
        self.pause = (self.pause * 2).min(self.thresholds.longest_pause);
        self.state = State::Open {
            until: from + self.pause,
        };
    }
}
