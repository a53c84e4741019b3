//! The progress of work on traces.

use crate::progress::Bar;
use std::cell::Cell;
use std::sync::Arc;

/// One bar for everything: its unit is a byte of a trace's file, read by one cache, or a request
/// that is made.
pub struct Progress {
    bar: Arc<Bar>,
    /// Units of what is done.
    before: Cell<f64>,
}

impl Progress {
    /// Of so many units.
    pub fn new(units: f64) -> Progress {
        Progress::on(Arc::new(Bar::new(units as u64)))
    }

    /// Of as many units as the bar has, and those that are added.
    pub fn on(bar: Arc<Bar>) -> Progress {
        Progress { bar, before: Cell::new(0.0) }
    }

    /// There is more to do than was foreseen.
    pub fn add(&self, units: f64) {
        self.bar.add(units as u64);
    }

    /// This share of the `units` that `verb` does to the trace `name` is done. An unknown share
    /// leaves the bar where it is.
    pub fn at(&self, verb: &str, name: &str, requests: u64, share: Option<f64>, units: f64) {
        self.bar.set_message(format!("{verb} {name}, {:.1} M requests", requests as f64 / 1e6));
        self.bar.set_position((self.before.get() + share.unwrap_or(0.0) * units) as u64);
    }

    /// A line on standard error.
    pub fn say(&self, text: &str) {
        self.bar.say(text);
    }

    /// What went on is done, and it was so many units.
    pub fn done(&self, units: f64) {
        self.before.set(self.before.get() + units);
        self.bar.set_position(self.before.get() as u64);
    }
}
