//! The progress of work on traces.

use crate::progress::Bar;
use std::cell::Cell;
use std::sync::Arc;

/// One bar for all work. Its unit is a byte of a trace's file read by one cache, or a generated
/// request.
pub struct Progress {
    bar: Arc<Bar>,
    /// The units of finished work.
    before: Cell<f64>,
}

impl Progress {
    /// Creates a bar of `units` units.
    pub fn new(units: f64) -> Progress {
        Progress::on(Arc::new(Bar::new(units as u64)))
    }

    /// Uses an existing bar with its units, and adds more.
    pub fn on(bar: Arc<Bar>) -> Progress {
        Progress {
            bar,
            before: Cell::new(0.0),
        }
    }

    /// Adds units of work that were not planned.
    pub fn add(&self, units: f64) {
        self.bar.add(units as u64);
    }

    /// Sets the finished share of the `units` that `verb` does to the trace `name`. An unknown
    /// share does not move the bar.
    pub fn at(&self, verb: &str, name: &str, requests: u64, share: Option<f64>, units: f64) {
        self.bar.set_message(format!(
            "{verb} {name}, {:.1} M requests",
            requests as f64 / 1e6
        ));
        self.bar
            .set_position((self.before.get() + share.unwrap_or(0.0) * units) as u64);
    }

    /// Prints a line to standard error.
    pub fn print(&self, text: &str) {
        self.bar.print(text);
    }

    /// Ends a part of the work, which had this many units.
    pub fn done(&self, units: f64) {
        self.before.set(self.before.get() + units);
        self.bar.set_position(self.before.get() as u64);
    }
}
