//! What the handle of the store and its thread share.

use crate::breaker::{Breaker, Outcome};
use crate::config::ObjectStoreConfig;
use crate::filter::Filter;
use crate::limits;
use crate::names::Name;
use object_store::ObjectStore;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

pub(crate) struct Shared {
    pub config: ObjectStoreConfig,
    pub store: Arc<dyn ObjectStore>,
    pub filter: Mutex<Filter>,
    /// For reads.
    pub breaker: Mutex<Breaker>,
    /// For all that is written, removed and listed.
    pub write_breaker: Mutex<Breaker>,
    /// The names that were removed, and not written since. When there are many, they are forgotten,
    /// and some are removed twice.
    pub removed: Mutex<HashSet<Name>>,
    /// The notes that were written: when, and the names that they have. When there are many, they
    /// are forgotten, and written again.
    pub notes: Mutex<HashMap<Name, (Instant, Box<str>)>>,
    /// True after a failure has been in the log, until a success.
    has_warned: AtomicBool,
    pub counters: Counters,
}

/// What requests to the store came to.
#[derive(Debug, Default)]
pub struct Counters {
    /// Objects that were read.
    pub read: AtomicU64,
    /// Bytes of them.
    pub read_bytes: AtomicU64,
    /// Reads of objects that did not exist.
    pub missing: AtomicU64,
    /// Reads that came to nothing in time.
    pub late: AtomicU64,
    /// Reads and writes that failed.
    pub failed: AtomicU64,
    /// Objects that were written.
    pub written: AtomicU64,
    /// Bytes of them.
    pub written_bytes: AtomicU64,
    /// Objects that were not written because the queue was full, or the store is left alone.
    pub dropped: AtomicU64,
    /// Objects that were removed.
    pub removed: AtomicU64,
    /// Bytes that wait to be written.
    pub waiting_bytes: AtomicU64,
    /// Objects that wait to be removed.
    pub waiting_removals: AtomicU64,
}

impl Shared {
    pub fn new(config: ObjectStoreConfig, store: Arc<dyn ObjectStore>) -> Shared {
        Shared {
            config,
            store,
            filter: Mutex::new(Filter::new()),
            breaker: Mutex::default(),
            write_breaker: Mutex::default(),
            removed: Mutex::default(),
            notes: Mutex::default(),
            has_warned: AtomicBool::new(false),
            counters: Counters::default(),
        }
    }

    /// Records that a note is written, or about to be.
    pub fn add_note(&self, name: Name, selected_by: Box<str>) {
        let mut notes = lock(&self.notes);
        if notes.len() >= limits::NAMES {
            notes.clear();
        }
        notes.insert(name, (Instant::now(), selected_by));
    }

    /// Records the result of a read, once for each; and again if its body breaks off.
    pub fn note_read(&self, outcome: Outcome, error: &dyn fmt::Display) {
        self.note(&self.breaker, outcome, error);
    }

    /// Records a write, a removal or a list that failed.
    pub fn write_failed(&self, error: &dyn fmt::Display) {
        self.note(&self.write_breaker, Outcome::Failed, error);
    }

    fn note(&self, breaker: &Mutex<Breaker>, outcome: Outcome, error: &dyn fmt::Display) {
        if outcome == Outcome::Failed {
            self.counters.failed.fetch_add(1, Ordering::Relaxed);
        }
        let is_good = matches!(outcome, Outcome::Good | Outcome::Answered);
        let had_warned = self.has_warned.swap(!is_good, Ordering::Relaxed);
        if !is_good && !had_warned {
            let url = self.config.url.to_string();
            tracing::warn!(url, %error, "[http.object_store]: it fails; `larder doctor` tries it");
        }
        if lock(breaker).note(outcome, Instant::now()) {
            tracing::warn!(pause = ?limits::PAUSE, "[http.object_store]: it is left alone");
        }
    }

    /// Records a write, a removal or a list that succeeded.
    pub fn write_succeeded(&self) {
        self.note(&self.write_breaker, Outcome::Good, &"");
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn unix_seconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
