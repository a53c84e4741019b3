//! What unsafe requests have invalidated on this node, on its way to the thread.

use crate::limits;
use larder_http::Url;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use tokio::sync::Notify;

/// A queue of URLs, each once. Clients do not wait for it, and it is bounded.
#[derive(Debug, Default)]
pub(crate) struct Invalidated {
    urls: Mutex<Vec<String>>,
    /// The thread is woken when the queue is no longer empty.
    pub(crate) wake: Notify,
    /// URLs that other nodes keep until they are stale there.
    dropped: AtomicU64,
}

impl Invalidated {
    /// Adds URLs.
    pub(crate) fn push(&self, urls: Vec<Url>) {
        let mut queue = self.urls.lock().unwrap_or_else(PoisonError::into_inner);
        let was_empty = queue.is_empty();
        for url in urls {
            let url = url.to_string();
            let fits = url.len() <= limits::INVALIDATED_BYTES && queue.len() < limits::INVALIDATED;
            // A client that repeats itself comes one after the other.
            if queue.last().is_some_and(|last| *last == url) {
                continue;
            }
            if fits {
                queue.push(url);
            } else {
                self.drop_some(1);
            }
        }
        if was_empty && !queue.is_empty() {
            self.wake.notify_one();
        }
    }

    /// Takes all, as the URLs of entries.
    pub(crate) fn take(&self) -> Vec<Vec<String>> {
        let mut queue = self.urls.lock().unwrap_or_else(PoisonError::into_inner);
        let mut urls = std::mem::take(&mut *queue);
        drop(queue);
        urls.sort_unstable();
        urls.dedup();
        let (mut entries, mut bytes) = (vec![Vec::new()], 0);
        for url in urls {
            let entry = entries.last().map_or(0, Vec::len);
            if entry >= larder_fleet::limits::ITEMS || bytes + url.len() > limits::INVALIDATED_BYTES
            {
                entries.push(Vec::new());
                bytes = 0;
            }
            bytes += url.len();
            if let Some(entry) = entries.last_mut() {
                entry.push(url);
            }
        }
        entries.retain(|entry| !entry.is_empty());
        entries
    }

    /// Counts URLs that are not put into the log.
    pub(crate) fn drop_some(&self, urls: usize) {
        if self.dropped.fetch_add(urls as u64, Ordering::Relaxed) == 0 {
            tracing::warn!(
                "[fleet] invalidate: other nodes keep what a client has changed until it is stale, as too much \
                 changes; larder_fleet_invalidations_dropped_total counts it from now on"
            );
        }
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: an entry is refused, because it has too many URLs or bytes; or the memory has no
    /// bound; or a URL is in two entries.
    #[test]
    fn an_entry_of_the_log_is_too_large() {
        let queue = Invalidated::default();
        let long = "x".repeat(1000);
        let url = |number: usize| format!("http://a/{long}{number}").parse().unwrap();
        for number in 0..2 * limits::INVALIDATED {
            queue.push(vec![url(number % 1000)]);
        }
        // All the rest, but for repetitions of the last one.
        let rest = limits::INVALIDATED as u64;
        assert!((rest * 9 / 10..=rest).contains(&queue.dropped()));
        let entries = queue.take();
        assert_eq!(entries.iter().map(Vec::len).sum::<usize>(), 1000);
        for urls in entries {
            let mut message = larder_fleet::Message::new("a".into(), "n1");
            message.urls = urls;
            assert!(message.encode().is_ok());
        }
        assert!(queue.take().is_empty());
        let short = |number: usize| format!("http://a/{number}").parse().unwrap();
        queue.push((0..1000).map(short).collect());
        let most = queue.take().iter().map(Vec::len).max();
        assert_eq!(most, Some(larder_fleet::limits::ITEMS));
        // One longer than an entry.
        let longest = "x".repeat(limits::INVALIDATED_BYTES);
        queue.push(vec![format!("http://a/{longest}").parse().unwrap()]);
        assert!(queue.take().is_empty());
    }
}
