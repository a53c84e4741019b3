//! The observer of new connections, and those of connections that began before a reload.

use super::config::HttpConfig;
use super::error::Error;
use super::metrics::Metrics;
use super::observer::Observer;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// All observers that are in use.
pub(super) struct Observers(Mutex<Inner>);

struct Inner {
    current: Arc<Observer>,
    /// Those of connections that began before a reload.
    former: Vec<Weak<Observer>>,
}

impl Observers {
    pub(super) fn new(current: Arc<Observer>) -> Observers {
        Observers(Mutex::new(Inner { current, former: Vec::new() }))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns that of new connections.
    pub(super) fn current(&self) -> Arc<Observer> {
        Arc::clone(&self.inner().current)
    }

    /// Returns the observer for another configuration: the current one if it would not differ.
    ///
    /// # Errors
    /// One line if the file of its access log cannot be opened.
    pub(super) fn of(&self, config: &HttpConfig) -> Result<Arc<Observer>, Error> {
        let current = self.current();
        Ok(current.changed(config)?.map_or(current, Arc::new))
    }

    /// Uses this one for new connections.
    pub(super) fn set(&self, observer: Arc<Observer>) {
        let mut inner = self.inner();
        if !Arc::ptr_eq(&inner.current, &observer) {
            let before = std::mem::replace(&mut inner.current, observer);
            inner.former.retain(|former| former.strong_count() > 0);
            inner.former.push(Arc::downgrade(&before));
        }
    }

    fn all(&self) -> Vec<Arc<Observer>> {
        let inner = self.inner();
        let former = inner.former.iter().filter_map(Weak::upgrade);
        former.chain([Arc::clone(&inner.current)]).collect()
    }

    pub(super) fn reopen_logs(&self) {
        self.all().iter().for_each(|observer| observer.reopen_log());
    }

    /// Writes the last lines.
    pub(super) fn stop(&self) {
        self.all().iter().for_each(|observer| observer.stop());
    }

    pub(super) fn metrics(&self, metrics: &mut Metrics<'_, '_>) {
        self.current().metrics(metrics);
    }
}
