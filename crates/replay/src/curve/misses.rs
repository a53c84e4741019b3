//! The misses of simulated caches.

use crate::Access;

/// Simulated caches that count their misses.
pub trait Simulated {
    /// Simulates requests, one after another.
    fn requests(&mut self, accesses: &[Access]);

    /// Returns each capacity in bytes, ascending, with its misses so far. The misses are those of
    /// the share of the objects that the cache was created for.
    fn misses(&self) -> Vec<(u64, Misses)>;

    /// Returns the share of the objects that are simulated now.
    fn rate(&self) -> f64;

    /// Returns true if the simulated policy does not scale with the sample: see
    /// [`Point::error_is_least`](super::Point::error_is_least).
    fn error_is_least(&self) -> bool;

    /// Returns the requests that make the count inexact: see
    /// [`Point::size_changes`](super::Point::size_changes).
    fn size_changes(&self) -> u64;
}

/// A number of misses.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Misses {
    /// Requests.
    pub requests: f64,
    /// Bytes of these requests.
    pub bytes: f64,
}

impl Misses {
    /// Returns the misses since an earlier count.
    pub(crate) fn since(self, earlier: Misses) -> Misses {
        Misses {
            requests: self.requests - earlier.requests,
            bytes: self.bytes - earlier.bytes,
        }
    }
}
