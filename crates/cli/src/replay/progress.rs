//! The progress of all traces, on a terminal's standard error; elsewhere nothing is drawn.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::cell::Cell;
use std::io::{self, IsTerminal};

/// Units of the bar for one reading of one trace by one cache.
const UNITS: f64 = 1e6;

/// One bar for everything: a trace counts by the rows that it has to fill, and what it is read for ahead as one row more.
pub struct Progress {
    bar: ProgressBar,
    /// Units of what is done.
    before: Cell<f64>,
}

impl Progress {
    /// For traces that have so many rows each to fill.
    pub fn new(rows: impl Iterator<Item = usize>) -> Progress {
        let units = rows.map(|rows| rows as f64).sum::<f64>() * UNITS;
        let bar = if io::stderr().is_terminal() { ProgressBar::new(units as u64) } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template("{msg} {wide_bar} {percent} %, {eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        if !bar.is_hidden() {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        Progress { bar, before: Cell::new(0.0) }
    }

    /// The trace `name` will be read once more than was foreseen.
    pub fn add_reading(&self) {
        self.bar.inc_length(UNITS as u64);
    }

    /// This share of what `verb` does to the trace `name` for `rows` caches is done. An unknown share leaves the bar where it is.
    pub fn at(&self, verb: &str, name: &str, share: Option<f64>, requests: u64, rows: usize) {
        self.bar.set_position((self.before.get() + share.unwrap_or(0.0) * rows as f64 * UNITS) as u64);
        self.bar.set_message(format!("{verb} {name}, {:.1} M requests", requests as f64 / 1e6));
    }

    /// A line on standard error.
    pub fn say(&self, text: &str) {
        self.bar.suspend(|| eprintln!("larder: {text}"));
    }

    /// What went on for `rows` caches is done.
    pub fn done(&self, rows: usize) {
        self.before.set(self.before.get() + rows as f64 * UNITS);
        self.bar.set_position(self.before.get() as u64);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
