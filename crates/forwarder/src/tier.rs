//! A second tier of the Content Store, on a disk say: larger, slower, and still there after a
//! restart.
//!
//! What it is offered: every Data that the Content Store may keep (asked for, trusted, not under
//! `/localhost`, no `CachePolicy` against it), whatever the store's policy says of it, as it comes;
//! the tier's own policy decides what stays. What it answers: an Interest that nothing in memory
//! answers, by its exact name, with an implicit digest or without. What it does not: a Data whose
//! name is longer than a CanBePrefix Interest's, which a table of hashes cannot find. One Data a
//! name is kept, the last that came.
//!
//! A record says when its Data came and how long it is fresh, by the calendar, since the tier
//! outlives the forwarder's clock. Where the calendar stands before the day on which the Data came,
//! somebody has turned it back: then it is fresh no more. It is never fresh for longer than at
//! first.
//!
//! The walk of an Interest through it is in `pipeline/tier_lookup.rs`.

use bytes::{BufMut, Bytes, BytesMut};
use larder_packet::{Data, NameRef};
use larder_units::{ByteSize, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// The host's side: it keeps records by name. None of these calls may wait for a disk.
pub trait SecondTier: Send {
    /// An Interest for this name: begins to read the record, if there is one. What comes of it is
    /// told by [`crate::Forwarder::on_tier_lookup`], once, with this ticket. The tier's policy
    /// counts the request.
    fn tier_lookup(&mut self, name: NameRef<'_>, ticket: u64) -> TierLookup;

    /// Stores a record in the place of the one of this name.
    fn put(&mut self, name: NameRef<'_>, record: Bytes);

    /// Erases all under a prefix, what is being read included.
    fn erase(&mut self, prefix: NameRef<'_>);

    /// Whether the record of this name that was read at `position` is still there: not replaced,
    /// not erased.
    fn holds(&self, name: NameRef<'_>, position: u64) -> bool;

    /// What it holds.
    fn figures(&self) -> TierFigures;
}

/// What becomes of a request to a [`SecondTier`].
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
    /// What [`SecondTier::holds`] knows it by.
    pub position: u64,
}

/// What a [`SecondTier`] holds.
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
    /// Read, and not what was asked for: not fresh, with another digest, or signed by nobody who
    /// may now.
    pub unfit: u64,
    /// Not read as it was written, or erased or replaced meanwhile.
    pub failed: u64,
    /// Not read in time, or nobody waited any more.
    pub late: u64,
    /// Not asked for: too many reads were under way.
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
        Some(Record { stored, fresh_until, wire: record.slice(TIMES..) })
    }

    /// How long the Data is still fresh; `None` where it is not.
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
    pub(crate) until: Time,
}

impl Tier {
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
        let wire = DataBuilder::new(&name).freshness(Duration::from_secs(10)).build(&DigestSigner).unwrap();
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
            assert_eq!(record.fresh_for(now), fresh.map(Duration::from_millis), "{now}");
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
