//! The misses of simulated caches.

use crate::Access;

/// Caches that count their misses.
pub trait Simulated {
    /// Runs requests, one after another.
    fn requests(&mut self, accesses: &[Access]);

    /// Each capacity in bytes, ascending, and its misses so far, of the share of the objects that
    /// it was made for.
    fn misses(&self) -> Vec<(u64, Misses)>;

    /// The share of the objects that it looks at by now.
    fn rate(&self) -> f64;

    /// The simulated policy does not scale with the sample: see [`Point::error_is_least`](super::Point::error_is_least).
    fn error_is_least(&self) -> bool;

    /// Requests that make the count inexact: see [`Point::size_changes`](super::Point::size_changes).
    fn size_changes(&self) -> u64;
}

/// Misses.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Misses {
    /// Requests.
    pub requests: f64,
    /// Their bytes.
    pub bytes: f64,
}

impl Misses {
    /// Returns those since an earlier count.
    pub(crate) fn since(self, earlier: Misses) -> Misses {
        Misses {
            requests: self.requests - earlier.requests,
            bytes: self.bytes - earlier.bytes,
        }
    }
}
