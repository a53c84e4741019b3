//! When an end polls its stream before it sleeps, and for how long.

use crate::limits::{SPIN, SPIN_REST, SPIN_WORTH};
use rustix::thread::sched_yield;
use std::time::{Duration, Instant};

/// Decides when a thread polls before it sleeps. It does while its waits are short: then nothing
/// has to wake it. An idle thread sleeps, and one that another program keeps from its processor
/// does not poll either.
#[derive(Debug)]
pub struct Spin {
    is_possible: bool,
    is_worth: bool,
    rests_until: Instant,
}

impl Default for Spin {
    fn default() -> Self {
        Spin::new()
    }
}

impl Spin {
    /// Polls after the first wait that is short. On a machine with one processor, polling only
    /// keeps the other end from its work, so it never does.
    pub fn new() -> Spin {
        let is_possible = std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1);
        Spin {
            is_possible,
            is_worth: false,
            rests_until: Instant::now(),
        }
    }

    /// Never polls from now on.
    pub fn forbid(&mut self) {
        self.is_possible = false;
    }

    /// Returns true if the next wait begins with a poll.
    pub fn is_due(&self) -> bool {
        self.is_possible && self.is_worth && Instant::now() >= self.rests_until
    }

    /// Calls `has_come` until it returns true, but not longer than [`SPIN`]. Returns true if it
    /// did.
    pub fn run(&mut self, mut has_come: impl FnMut() -> bool) -> bool {
        let start = Instant::now();
        loop {
            let found = has_come();
            let now = Instant::now();
            if found || now - start >= SPIN {
                if now - start > 2 * SPIN {
                    self.rests_until = now + SPIN_REST * (now - start);
                }
                return found;
            }
            // Another thread may need this processor, perhaps to make what this one waits for.
            sched_yield();
        }
    }

    /// Records how long the thread has waited, with the poll.
    pub fn waited(&mut self, time: Duration) {
        self.is_worth = time < SPIN_WORTH;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with one processor never polls.
    fn with_two_cores() -> Spin {
        Spin {
            is_possible: true,
            ..Spin::new()
        }
    }

    #[test]
    fn an_idle_thread_polls() {
        let mut spin = with_two_cores();
        assert!(!spin.is_due(), "it has not waited yet");
        spin.waited(SPIN_WORTH / 2);
        assert!(spin.is_due());
        spin.waited(SPIN_WORTH);
        assert!(!spin.is_due());
        spin.waited(Duration::ZERO);
        spin.forbid();
        assert!(!spin.is_due());
    }

    #[test]
    fn a_poll_misses_what_comes_or_never_ends() {
        let (mut spin, mut looks) = (with_two_cores(), 0);
        assert!(spin.run(|| true));
        let third = || {
            looks += 1;
            looks == 3
        };
        // The machine may be busy: then the poll ends before the third look.
        let found = spin.run(third);
        assert_eq!(found, looks == 3);
        assert!(!spin.run(|| false));
    }

    #[test]
    fn a_thread_without_a_processor_of_its_own_polls_on() {
        let mut spin = with_two_cores();
        spin.waited(Duration::ZERO);
        let slow = || {
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(100) {}
            true
        };
        assert!(spin.run(slow));
        assert!(!spin.is_due(), "another program had the processor");
    }
}
