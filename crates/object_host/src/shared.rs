//! What the handle of the store and its thread share.

use crate::breaker::Breaker;
use crate::config::ObjectStoreConfig;
use crate::filter::Filter;
use crate::limits;
use object_store::ObjectStore;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

pub(crate) struct Shared {
    pub config: ObjectStoreConfig,
    pub store: Arc<dyn ObjectStore>,
    pub filter: Mutex<Filter>,
    pub breaker: Mutex<Breaker>,
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
}

impl Shared {
    /// Records a failure.
    pub fn failed(&self, error: &object_store::Error) {
        self.counters.failed.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(%error, "the object store fails");
        if self.note_result(true) {
            let url = self.config.url.to_string();
            tracing::warn!(url, %error, "[http.object_store]: it fails: it is left alone for {:?}", limits::PAUSE);
        }
    }

    /// Records a result. Returns true if the store is left alone from now on.
    pub fn note_result(&self, failed: bool) -> bool {
        lock(&self.breaker).note(failed, Instant::now())
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn unix_seconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
