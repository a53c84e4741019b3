//! The progress and the counters of a transfer.

use crate::error::FetchError;

/// The progress of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// The transfer is not complete.
    Running,
    /// Every byte was delivered.
    Done,
    /// The transfer failed.
    Failed(&'a FetchError),
}

/// The counters of a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FetchStats {
    /// Interests sent, including retransmissions.
    pub interests: u64,
    /// Retransmissions.
    pub retransmissions: u64,
    /// Retransmission timeouts.
    pub time_outs: u64,
    /// Timeouts that a later answer proved to be too early; consecutive ones count once.
    pub early_time_outs: u64,
    /// Valid packets of the manifest; 0 without a manifest, or without a key to check it.
    pub manifest_packets: u64,
    /// Valid segments.
    pub segments: u64,
    /// Bytes delivered, in order.
    pub bytes: u64,
    /// Data with a congestion mark.
    pub marks: u64,
    /// Nacks for Interests in flight.
    pub nacks: u64,
    /// Data and Nacks that were not requested, or that are duplicates.
    pub unexpected: u64,
    /// Data with a wrong digest or signature.
    pub rejected: u64,
    /// Data accepted without a check, because there is no verifier for its key.
    pub unverified: u64,
    /// Reductions of the window by congestion control.
    pub reductions: u64,
    /// The most bytes that waited for a missing segment.
    pub peak_buffered_bytes: usize,
}
