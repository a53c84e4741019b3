//! Options of a transfer.

use crate::limits;
use crate::pacer::Clock;
use std::time::Duration;

/// Options of a [`Fetcher`](crate::Fetcher).
#[derive(Clone, Copy, Debug)]
pub struct FetchOptions {
    /// The InterestLifetime of every Interest.
    pub lifetime: Duration,
    /// The number of retransmissions of one Interest before the transfer fails.
    pub retries: u32,
    /// The most segments between the next one to deliver and the furthest one requested. It limits
    /// the Interests in flight and the memory.
    pub max_window: usize,
    /// The size of the largest accepted object in bytes. Every segment counts as at least one byte.
    pub max_bytes: u64,
    /// The naming of the segments.
    pub naming: Naming,
    /// The clock by which Interests leave.
    pub clock: Clock,
}

impl Default for FetchOptions {
    fn default() -> Self {
        FetchOptions {
            lifetime: limits::DEFAULT_LIFETIME,
            retries: limits::DEFAULT_RETRIES,
            max_window: limits::MAX_WINDOW,
            max_bytes: limits::MAX_OBJECT_BYTES,
            naming: Naming::Discover,
            clock: Clock::default(),
        }
    }
}

/// The kind of an object's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// The segments are under the version that the metadata names, or under the name itself if it
    /// ends in a version.
    Discover,
    /// As [`Naming::Discover`], but without metadata the object is the one Data with that name.
    DiscoverOrPlain,
    /// The segments are under the name itself, even if it does not end in a version.
    Exact,
}
