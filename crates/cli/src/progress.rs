//! The progress of long work on standard error: a bar on a terminal, otherwise (cron, CI, `nohup`)
//! an occasional line.

use crate::output::{error_line, within_a_line};
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time before the first line, and the first interval between lines. Short work prints nothing.
const LEAST_APART: Duration = Duration::from_secs(60);

/// Later, the interval is this share of the elapsed time: one hour of work prints about thirty
/// lines.
const PARTS: u32 = 10;

/// The progress of work with a known number of units. Any thread may advance it.
pub struct Bar {
    bar: ProgressBar,
    /// The lines for a standard error that is not a terminal.
    lines: Option<Mutex<Lines>>,
}

impl Bar {
    /// Starts with this many units.
    pub fn new(units: u64) -> Bar {
        let (target, lines) = if io::stderr().is_terminal() {
            (ProgressDrawTarget::stderr(), None)
        } else {
            (
                ProgressDrawTarget::hidden(),
                Some(Mutex::new(Lines::from(Instant::now()))),
            )
        };
        let style = ProgressStyle::with_template("{msg} {wide_bar} {percent} %, {eta} left");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        Bar {
            bar: ProgressBar::with_draw_target(Some(units.max(1)), target).with_style(style),
            lines,
        }
    }

    /// Starts other work of this many units. The schedule of lines stays.
    pub fn begin(&self, what: &str, units: u64) {
        self.bar.reset();
        self.bar.set_length(units.max(1));
        self.bar.set_message(within_a_line(what).into_owned());
    }

    /// Sets the message.
    pub fn set_message(&self, what: String) {
        self.bar.set_message(within_a_line(&what).into_owned());
    }

    /// Adds units.
    pub fn add(&self, units: u64) {
        self.bar.inc_length(units);
    }

    /// Adds finished units.
    pub fn advance(&self, units: u64) {
        self.bar.inc(units);
        self.say_if_due();
    }

    /// Sets the finished units.
    pub fn set_position(&self, units: u64) {
        self.bar.set_position(units);
        self.say_if_due();
    }

    /// Prints a line to standard error.
    pub fn print(&self, text: &str) {
        self.bar.suspend(|| error_line!("larder: {text}"));
    }

    /// Returns the message and the finished share, as the bar shows them.
    pub fn describe(&self) -> String {
        let all = self.bar.length().unwrap_or(1);
        format!(
            "{:.0} % of {}",
            percent(self.bar.position(), all),
            self.bar.message()
        )
    }

    /// Removes the bar.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    fn say_if_due(&self) {
        let Some(lines) = &self.lines else { return };
        let is_due = lines
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_due(Instant::now());
        if is_due {
            let (done, all) = (self.bar.position(), self.bar.length().unwrap_or(1));
            self.print(&line(&self.bar.message(), done, all, self.bar.eta()));
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

/// The time left is omitted while it is unknown.
fn line(what: &str, done: u64, all: u64, left: Duration) -> String {
    let percent = percent(done, all);
    if left.is_zero() {
        format!("{what}: {percent:.0} %")
    } else {
        format!(
            "{what}: {percent:.0} %, {left:#} left",
            left = HumanDuration(left)
        )
    }
}

/// The schedule of lines.
struct Lines {
    begun: Instant,
    next: Instant,
}

impl Lines {
    fn from(begun: Instant) -> Lines {
        Lines {
            begun,
            next: begun + LEAST_APART,
        }
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
        let due: Vec<u64> = (0..=3600)
            .filter(|second| lines.is_due(begun + Duration::from_secs(*second)))
            .collect();
        assert_eq!(due[..3], [60, 120, 180]);
        assert!(
            (20..40).contains(&due.len()) && due.last().is_some_and(|last| *last > 3200),
            "{due:?}"
        );
    }

    #[test]
    fn a_line_promises_an_end_that_nobody_knows() {
        assert_eq!(
            line("figures 1 to 4", 1, 3, Duration::ZERO),
            "figures 1 to 4: 33 %"
        );
        assert_eq!(
            line("figures 1 to 4", 1, 3, Duration::from_secs(840)),
            "figures 1 to 4: 33 %, 14m left"
        );
        assert_eq!(
            line("longer than was foreseen", 5, 3, Duration::ZERO),
            "longer than was foreseen: 100 %"
        );
    }
}
