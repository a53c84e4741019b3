//! A second tier of the Content Store, such as a disk: it is larger and slower, and it keeps its
//! content over a restart.
//!
//! The tier is offered every Data that the Content Store may keep, as it comes: the Data was
//! requested and is trusted, its name is not under `/localhost`, and no `CachePolicy` forbids it.
//! The Content Store's policy does not matter; the tier's own policy decides what it keeps. The
//! tier answers an Interest that memory cannot answer, by its exact name, with or without an
//! implicit digest. It cannot find a Data whose name is longer than that of a CanBePrefix Interest,
//! because its index is a table of hashes. It keeps one Data per name, the last one.
//!
//! A record holds the time at which its Data came and its FreshnessPeriod, in calendar time,
//! because the tier outlives the forwarder's clock. If the calendar shows a time before the Data
//! came, the clock was set back; the Data is stale then. It is never fresh for longer than at
//! first.
//!
//! The path of an Interest through the tier is in `pipeline/tier_lookup.rs`.

use crate::limits::{RECALLED_BYTES, TIER_LOOKUPS};
use bytes::{BufMut, Bytes, BytesMut};
use larder_packet::{Data, NameRef};
use larder_units::{ByteSize, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// The host's side: it keeps records by name. None of these calls may wait for a disk.
pub trait SecondTier: Send {
    /// Begins to read the record of this name, if there is one. The host reports the result once,
    /// with [`crate::Forwarder::on_tier_lookup`] and this ticket. The tier's policy counts the
    /// request.
    fn tier_lookup(&mut self, name: NameRef<'_>, ticket: u64) -> TierLookup;

    /// Stores a record in the place of the one of this name.
    fn put(&mut self, name: NameRef<'_>, record: Bytes);

    /// Erases everything under a prefix, including records that are being read.
    fn erase(&mut self, prefix: NameRef<'_>);

    /// Returns true if the record of this name that was read at `position` is still stored: neither
    /// replaced nor erased.
    fn holds(&self, name: NameRef<'_>, position: u64) -> bool;

    /// Returns the sizes of the tier.
    fn figures(&self) -> TierFigures;
}

/// The immediate result of a request to a [`SecondTier`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TierLookup {
    /// There is nothing of this name.
    Absent,
    /// It has more to read than it can.
    Busy,
    /// It is being read.
    Reading,
}

/// A record that was read.
#[derive(Clone, Debug)]
pub struct TierRecord {
    /// As it was put.
    pub record: Bytes,
    /// The position that [`SecondTier::holds`] takes.
    pub position: u64,
}

/// The sizes of a [`SecondTier`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierFigures {
    /// Bytes that it may store.
    pub capacity: ByteSize,
    /// Bytes stored.
    pub used: ByteSize,
    /// Data stored.
    pub entries: usize,
}

/// Interests that memory did not answer, and what the second tier did about them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierCounters {
    /// Answered.
    pub hits: u64,
    /// It had nothing of the name.
    pub misses: u64,
    /// Records that were read and did not fit the Interest: stale, with another digest, or signed
    /// by a key that may no longer sign.
    pub unfit: u64,
    /// Records that were damaged, erased or replaced before they were read.
    pub failed: u64,
    /// Records that were read too late, or for which no Interest was waiting any more.
    pub late: u64,
    /// Interests that did not start a read, because too many reads were in progress.
    pub busy: u64,
}

impl TierCounters {
    pub(crate) fn add(&mut self, other: &TierCounters) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.unfit += other.unfit;
        self.failed += other.failed;
        self.late += other.late;
        self.busy += other.busy;
    }
}

/// A Data with its times: milliseconds since 1970 when it came and when it is fresh no more, each
/// in 8 bytes, the least significant first; then the packet.
pub(crate) struct Record {
    stored: u64,
    fresh_until: u64,
    pub(crate) wire: Bytes,
}

const TIMES: usize = 16;

impl Record {
    pub(crate) fn encode(data: &Data<'_>, unix_millis: u64) -> Bytes {
        let fresh = data.freshness.unwrap_or_default().as_millis();
        let mut record = BytesMut::with_capacity(TIMES + data.wire.len());
        record.put_u64_le(unix_millis);
        record.put_u64_le(unix_millis.saturating_add(u64::try_from(fresh).unwrap_or(u64::MAX)));
        record.put_slice(data.wire);
        record.freeze()
    }

    pub(crate) fn decode(record: &Bytes) -> Option<Record> {
        let (stored, rest) = record.split_first_chunk()?;
        let (fresh_until, _) = rest.split_first_chunk()?;
        let [stored, fresh_until] = [stored, fresh_until].map(|time| u64::from_le_bytes(*time));
        Some(Record {
            stored,
            fresh_until,
            wire: record.slice(TIMES..),
        })
    }

    /// Returns how long the Data is still fresh, or `None` if it is stale.
    pub(crate) fn fresh_for(&self, unix_millis: u64) -> Option<Duration> {
        let is_fresh = (self.stored..self.fresh_until).contains(&unix_millis);
        is_fresh.then(|| Duration::from_millis(self.fresh_until - unix_millis))
    }
}

/// The tier, and its reads in progress.
pub(crate) struct Tier {
    pub(crate) host: Box<dyn SecondTier>,
    /// By ticket, so that the oldest read is first.
    pub(crate) reads: BTreeMap<u64, Read>,
    pub(crate) next_ticket: u64,
    pub(crate) most: usize,
    pub(crate) counters: TierCounters,
}

/// An Interest whose answer is being read.
pub(crate) struct Read {
    pub(crate) packet: Bytes,
    pub(crate) hash: u64,
    /// The nonce of its out-record.
    pub(crate) nonce: u32,
    pub(crate) mark: Option<u64>,
    pub(crate) non_discovery: bool,
    pub(crate) until: Time,
}

impl Tier {
    /// Creates the forwarder's part of a tier. The packets have at most so many bytes.
    pub(crate) fn new(host: Box<dyn SecondTier>, max_packet_bytes: usize) -> Self {
        Tier {
            host,
            reads: BTreeMap::new(),
            next_ticket: 0,
            most: (RECALLED_BYTES / max_packet_bytes).clamp(1, TIER_LOOKUPS),
            counters: TierCounters::default(),
        }
    }

    /// Returns the time at which the next read is given up.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.reads.first_key_value().map(|(_, read)| read.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_packet::{DataBuilder, DigestSigner, Name};

    #[test]
    fn a_clock_that_jumps_makes_data_fresh_again() {
        let name: Name = "/a".parse().unwrap();
        let wire = DataBuilder::new(&name)
            .freshness(Duration::from_secs(10))
            .build(&DigestSigner)
            .unwrap();
        let record = Record::encode(&Data::decode(&wire).unwrap(), 1_000_000);
        let record = Record::decode(&record).unwrap();
        assert_eq!(record.wire, wire);
        for (now, fresh) in [
            (1_000_000, Some(10_000)),
            (1_009_999, Some(1)),
            (1_010_000, None),
            (999_999, None),
            (0, None),
            (u64::MAX, None),
        ] {
            assert_eq!(
                record.fresh_for(now),
                fresh.map(Duration::from_millis),
                "{now}"
            );
        }
    }

    #[test]
    fn bytes_that_are_no_record_panic() {
        for length in 0..TIMES {
            assert!(Record::decode(&vec![0xff; length].into()).is_none());
        }
        let odd = Record::decode(&vec![0xff; TIMES].into()).unwrap();
        assert_eq!((odd.fresh_for(u64::MAX), odd.wire.len()), (None, 0));
    }
}
