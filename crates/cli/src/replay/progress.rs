//! The progress of work on traces, on a terminal's standard error; elsewhere nothing is drawn.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::cell::Cell;
use std::io::{self, IsTerminal};

/// One bar for everything: its unit is a byte of a trace's file, read by one cache, or a request that is made.
pub struct Progress {
    bar: ProgressBar,
    /// Units of what is done.
    before: Cell<f64>,
}

impl Progress {
    /// Of so many units.
    pub fn new(units: f64) -> Progress {
        let bar = if io::stderr().is_terminal() { ProgressBar::new(units as u64) } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template("{msg} {wide_bar} {percent} %, {eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        if !bar.is_hidden() {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        Progress { bar, before: Cell::new(0.0) }
    }

    /// There is more to do than was foreseen.
    pub fn add(&self, units: f64) {
        self.bar.inc_length(units as u64);
    }

    /// This share of the `units` that `verb` does to the trace `name` is done. An unknown share leaves the bar where it is.
    pub fn at(&self, verb: &str, name: &str, requests: u64, share: Option<f64>, units: f64) {
        self.bar.set_position((self.before.get() + share.unwrap_or(0.0) * units) as u64);
        self.bar.set_message(format!("{verb} {name}, {:.1} M requests", requests as f64 / 1e6));
    }

    /// A line on standard error.
    pub fn say(&self, text: &str) {
        self.bar.suspend(|| eprintln!("larder: {text}"));
    }

    /// What went on is done, and it was so many units.
    pub fn done(&self, units: f64) {
        self.before.set(self.before.get() + units);
        self.bar.set_position(self.before.get() as u64);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
