//! The observer of new connections, and those of connections that began before a reload.

use crate::access_log::WriterEnd;
use crate::base::error::Error;
use crate::config::http_config::HttpConfig;
use crate::report::observer::Observer;
use larder_admin::Metrics;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// All observers that are in use.
pub(crate) struct Observers(Mutex<Inner>);

struct Inner {
    current: Arc<Observer>,
    /// Those of connections that began before a reload, each with the end of its log's writer.
    former: Vec<(Weak<Observer>, Option<WriterEnd>)>,
}

impl Observers {
    pub(crate) fn new(current: Arc<Observer>) -> Observers {
        Observers(Mutex::new(Inner {
            current,
            former: Vec::new(),
        }))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the observer of new connections.
    pub(crate) fn current(&self) -> Arc<Observer> {
        Arc::clone(&self.inner().current)
    }

    /// Returns the observer for another configuration: the current one if it would not differ.
    ///
    /// # Errors
    /// One line if the file of its access log cannot be opened.
    pub(crate) fn of(&self, config: &HttpConfig) -> Result<Arc<Observer>, Error> {
        let current = self.current();
        Ok(current.changed(config)?.map_or(current, Arc::new))
    }

    /// Uses this one for new connections.
    pub(crate) fn set(&self, observer: Arc<Observer>) {
        let mut inner = self.inner();
        if !Arc::ptr_eq(&inner.current, &observer) {
            let before = std::mem::replace(&mut inner.current, observer);
            let is_over = |end: &Option<WriterEnd>| end.as_ref().is_none_or(WriterEnd::is_over);
            inner
                .former
                .retain(|(former, end)| former.strong_count() > 0 || !is_over(end));
            inner
                .former
                .push((Arc::downgrade(&before), before.log_end()));
        }
    }

    fn all(&self) -> Vec<Arc<Observer>> {
        let inner = self.inner();
        let former = inner
            .former
            .iter()
            .filter_map(|(former, _)| former.upgrade());
        former.chain([Arc::clone(&inner.current)]).collect()
    }

    pub(crate) fn reopen_logs(&self) {
        for observer in &self.all() {
            observer.reopen_log();
        }
    }

    /// Writes the last lines, also those of logs whose last connection has just ended.
    pub(crate) fn stop(&self) {
        for observer in &self.all() {
            observer.stop();
        }
        let inner = self.inner();
        let gone = inner
            .former
            .iter()
            .filter(|(former, _)| former.strong_count() == 0);
        gone.filter_map(|(_, end)| end.as_ref())
            .for_each(WriterEnd::wait);
    }

    pub(crate) fn metrics(&self, metrics: &mut Metrics<'_, '_>) {
        self.current().metrics(metrics);
    }
}
