//! How far long work is, on standard error: a bar where that is a terminal; elsewhere (cron, CI,
//! `nohup`) a plain line now and then.

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The first line comes after so long, and the next ones are as far apart: short work says nothing.
const LEAST_APART: Duration = Duration::from_secs(60);

/// Later they are a tenth of what has passed apart: an hour's work says some thirty lines.
const PARTS: u32 = 10;

/// Work of so many units, in the making; any thread may move it.
pub struct Bar {
    bar: ProgressBar,
    /// Where there is no terminal to draw a bar on.
    lines: Option<Mutex<Lines>>,
}

impl Bar {
    /// Work of so many units.
    pub fn new(units: u64) -> Bar {
        let (target, lines) = match io::stderr().is_terminal() {
            true => (ProgressDrawTarget::stderr(), None),
            false => (ProgressDrawTarget::hidden(), Some(Mutex::new(Lines::from(Instant::now())))),
        };
        let style = ProgressStyle::with_template("{msg} {wide_bar} {percent} %, {eta} left");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        Bar { bar: ProgressBar::with_draw_target(Some(units.max(1)), target).with_style(style), lines }
    }

    /// Other work begins, of so many units. Lines are due as before.
    pub fn begin(&self, what: &str, units: u64) {
        self.bar.reset();
        self.bar.set_length(units.max(1));
        self.bar.set_message(what.to_owned());
    }

    /// What goes on.
    pub fn set_message(&self, what: String) {
        self.bar.set_message(what);
    }

    /// There is more to do than was foreseen.
    pub fn add(&self, units: u64) {
        self.bar.inc_length(units);
    }

    /// So much more is done.
    pub fn advance(&self, units: u64) {
        self.bar.inc(units);
        self.say_if_due();
    }

    /// So much is done in all.
    pub fn set_position(&self, units: u64) {
        self.bar.set_position(units);
        self.say_if_due();
    }

    /// A line on standard error.
    pub fn say(&self, text: &str) {
        self.bar.suspend(|| eprintln!("larder: {text}"));
    }

    /// What the bar says: the message, and how much is done.
    pub fn said(&self) -> String {
        let all = self.bar.length().unwrap_or(1);
        format!("{:.0} % of {}", percent(self.bar.position(), all), self.bar.message())
    }

    /// Takes the bar away, for good.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    fn say_if_due(&self) {
        let Some(lines) = &self.lines else { return };
        let is_due = lines.lock().unwrap_or_else(PoisonError::into_inner).is_due(Instant::now());
        if is_due {
            let (done, all) = (self.bar.position(), self.bar.length().unwrap_or(1));
            self.say(&line(&self.bar.message(), done, all, self.bar.eta()));
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.clear();
    }
}

fn percent(done: u64, all: u64) -> f64 {
    (100.0 * done as f64 / all as f64).min(100.0)
}

/// Without the time left where nobody can say yet.
fn line(what: &str, done: u64, all: u64, left: Duration) -> String {
    let percent = percent(done, all);
    match left.is_zero() {
        true => format!("{what}: {percent:.0} %"),
        false => format!("{what}: {percent:.0} %, {left:#} left", left = HumanDuration(left)),
    }
}

/// When lines are due.
struct Lines {
    begun: Instant,
    next: Instant,
}

impl Lines {
    fn from(begun: Instant) -> Lines {
        Lines { begun, next: begun + LEAST_APART }
    }

    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = now >= self.next;
        if is_due {
            self.next = now + LEAST_APART.max((now - self.begun) / PARTS);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_in_a_log_says_nothing_or_fills_it() {
        let begun = Instant::now();
        let mut lines = Lines::from(begun);
        let due: Vec<u64> = (0..=3600).filter(|second| lines.is_due(begun + Duration::from_secs(*second))).collect();
        assert_eq!(due[..3], [60, 120, 180]);
        assert!((20..40).contains(&due.len()) && due.last().is_some_and(|last| *last > 3200), "{due:?}");
    }

    #[test]
    fn a_line_promises_an_end_that_nobody_knows() {
        assert_eq!(line("figures 1 to 4", 1, 3, Duration::ZERO), "figures 1 to 4: 33 %");
        assert_eq!(line("figures 1 to 4", 1, 3, Duration::from_secs(840)), "figures 1 to 4: 33 %, 14m left");
        assert_eq!(line("longer than was foreseen", 5, 3, Duration::ZERO), "longer than was foreseen: 100 %");
    }
}
