//! Leaves a failing store alone.

use crate::limits;
use std::collections::VecDeque;
use std::time::Instant;

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Good,
    /// It has not come yet, and nobody waits any longer.
    Late,
    /// It came after all.
    Answered,
    Failed,
}

/// The last results of requests to the store.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    /// True for failures.
    results: VecDeque<bool>,
    /// Until when the store is left alone.
    open_until: Option<Instant>,
    /// True while the request whose result decides is on its way.
    is_probing: bool,
}

impl Breaker {
    /// Returns true if the store may be asked. After a pause it gets one request, whose result
    /// decides.
    pub(crate) fn may_ask(&mut self, now: Instant) -> bool {
        match self.open_until {
            None => true,
            Some(until) if now < until => false,
            Some(_) => {
                self.open_until = Some(now + limits::PAUSE);
                self.is_probing = true;
                true
            }
        }
    }

    /// Takes the result of a request. Returns true if the store is left alone from now on.
    pub(crate) fn note(&mut self, outcome: Outcome, now: Instant) -> bool {
        if self.open_until.is_some() {
            // The first one over a new connection may be late. Others have begun before.
            let decides = outcome != Outcome::Late && std::mem::take(&mut self.is_probing);
            if decides && outcome != Outcome::Failed {
                *self = Breaker::default();
            }
            return false;
        }
        if outcome == Outcome::Answered {
            return false;
        }
        let failed = outcome != Outcome::Good;
        if self.results.len() == limits::RESULTS {
            self.results.pop_front();
        }
        self.results.push_back(failed);
        let failures = self.results.iter().filter(|failed| **failed).count();
        let is_over = failures * 2 >= limits::RESULTS;
        if is_over {
            self.open_until = Some(now + limits::PAUSE);
        }
        is_over
    }

    pub(crate) fn is_open(&self, now: Instant) -> bool {
        self.open_until.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Failure: each request waits for a store that is down, or one that is up again is not asked.
    #[test]
    fn a_store_that_fails() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        for number in 0..limits::RESULTS / 2 {
            assert!(breaker.may_ask(now));
            let is_last = number + 1 == limits::RESULTS / 2;
            assert_eq!(breaker.note(Outcome::Failed, now), is_last);
        }
        assert!(!breaker.may_ask(now) && breaker.is_open(now));
        // What was begun before says nothing.
        assert!(!breaker.note(Outcome::Good, now) && !breaker.may_ask(now));
        let later = now + limits::PAUSE;
        assert!(!breaker.is_open(later));
        assert!(breaker.may_ask(later) && !breaker.may_ask(later));
        assert!(!breaker.note(Outcome::Failed, later));
        assert!(!breaker.may_ask(later + Duration::from_secs(1)));
        let later = later + limits::PAUSE;
        assert!(breaker.may_ask(later));
        assert!(!breaker.note(Outcome::Good, later) && breaker.may_ask(later));
        assert!(!breaker.is_open(later));
        // One that is late counts at once, and once; as a probe, its answer decides.
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        for _ in 0..limits::RESULTS / 2 {
            breaker.note(Outcome::Answered, now);
            breaker.note(Outcome::Late, now);
        }
        assert!(breaker.is_open(now));
        let later = now + limits::PAUSE;
        assert!(breaker.may_ask(later));
        breaker.note(Outcome::Late, later);
        assert!(breaker.is_open(later));
        breaker.note(Outcome::Answered, later);
        assert!(!breaker.is_open(later));
        // One failure is not many.
        assert!(!breaker.note(Outcome::Failed, later) && breaker.may_ask(later));
    }
}
