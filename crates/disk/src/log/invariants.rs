//! The invariants of the log's state, for tests, simulations and fuzz targets.

use super::Log;
use crate::bans::Bans;
use crate::index::Entry;
use crate::layout::{HEADER, RECORD};
use crate::limits;
use crate::queue::Content;
use larder_policy::Slot;

/// The state of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Free,
    /// The region is sealed, or being reclaimed.
    Sealed,
    Open,
}

impl<M: Bans> Log<M> {
    /// Checks that the parts of the log are consistent: index and policy engine, the positions of
    /// records and the regions, the sequence numbers of the regions, the records that have left the
    /// index, and the pieces that wait for the disk. For tests, simulations and fuzz targets: O(n
    /// log n) in the number of records, regions and queued pieces.
    ///
    /// # Panics
    /// If they are not consistent, with a text that names the broken invariant:
    /// * Each record of the index is in the engine, with its hash and length, and the only one of
    ///   its hash and tag. It is not among the records that have left the index.
    /// * Each region is free, open, sealed or being reclaimed, and only one of these. Free regions
    ///   have no records, and are used in the order in which they were freed.
    /// * The sequence numbers of the other regions have no gaps, and the last one is the newest.
    /// * The records of a region do not overlap, they are in the part of the region that is in use,
    ///   and reclaiming will find each of them.
    /// * Each piece that was appended and not written is queued, in the order of the log. A queued
    ///   record is the one in the index.
    /// * A log that has failed has no records and queues nothing.
    pub fn check_invariants(&self) {
        self.index.check_invariants();
        self.superseded.check_invariants();
        assert!(
            self.tombstones.len() <= limits::TOMBSTONES,
            "{} removals wait for room",
            self.tombstones.len()
        );
        if self.has_failed() {
            assert!(
                self.index.engine.is_empty(),
                "a log that has failed has no records"
            );
            assert!(
                self.queue.is_empty() && self.tombstones.is_empty(),
                "a log that has failed queues nothing"
            );
            return;
        }
        self.schedule.check_invariants(self.waiting_pieces());
        self.queue
            .check_invariants(self.schedule.written, self.schedule.appended);
        let uses = self.check_regions();
        let records = self.check_records(&uses);
        self.check_places(records);
        self.check_reclaiming();
    }

    /// Checks that each region has one use, and that the sequence numbers of those in use have no
    /// gaps.
    fn check_regions(&self) -> Vec<Use> {
        let open = self.open.as_ref().map(|open| open.region);
        let reclaimed = self.reclaim.as_ref().map(|reclaim| reclaim.region);
        let free = self.free.iter().map(|region| (*region, Use::Free));
        let sealed = reclaimed
            .iter()
            .chain(&self.sealed)
            .map(|region| (*region, Use::Sealed));
        let mut uses = vec![None; self.regions.len()];
        for (region, usage) in free
            .chain(sealed)
            .chain(open.map(|region| (region, Use::Open)))
        {
            let former = uses[region as usize].replace(usage);
            assert_eq!(
                former, None,
                "region {region} is {usage:?} and something else"
            );
        }
        let uses: Vec<Use> = uses
            .into_iter()
            .map(|usage| usage.expect("each region has a use"))
            .collect();

        let sequence = |region: &u32| self.regions[*region as usize].sequence;
        assert!(
            self.free.iter().is_sorted_by_key(sequence),
            "regions are used in the order in which they were freed"
        );
        let used = reclaimed.iter().chain(&self.sealed).chain(&open);
        for (back, region) in used.rev().enumerate() {
            let newer = self.next_sequence - back as u64;
            assert_eq!(
                sequence(region) + 1,
                newer,
                "region {region}: the sequence numbers have no gaps"
            );
        }
        for queued in self
            .free
            .iter()
            .map(|region| &self.regions[*region as usize])
        {
            assert!(queued.slots.is_empty(), "a free region has no records");
        }
        if let Some(open) = &self.open {
            let has_room = self.geometry.fits(open.end, open.records, 0, 0);
            assert!(
                has_room,
                "the open region has room for its entries: {} bytes, {} records",
                open.end, open.records
            );
            assert!(
                open.end >= HEADER + open.records * RECORD,
                "the open region has the headers of its records"
            );
        }
        uses
    }

    /// Checks that each record is in a region in use, equals the queued one at its position, and
    /// has not left the index. Returns the records by position: region, offset, length.
    fn check_records(&self, uses: &[Use]) -> Vec<(u32, u32, u32)> {
        let mut records = Vec::with_capacity(self.index.engine.len());
        for (
            slot,
            &Entry {
                hash,
                tag,
                region,
                offset,
                length,
            },
        ) in self.index.entries()
        {
            assert_ne!(
                uses[region as usize],
                Use::Free,
                "{slot:?}: a record is in the free region {region}"
            );
            assert!(
                !self.superseded.holds(hash, tag),
                "{slot:?}: a record of the index has left it"
            );
            let place = (self.regions[region as usize].sequence, offset);
            let is_queued = self.queue.first().is_some_and(|first| first <= place);
            match self.queue.find(place.0, offset) {
                Some(piece) => {
                    let is_same = matches!(piece.content, Content::Record { hash: h, tag: t, .. } if (h, t) == (hash, tag));
                    assert!(is_same, "{slot:?}: another record is queued in its place");
                }
                None => assert!(
                    !is_queued,
                    "{slot:?}: a record is neither written nor queued"
                ),
            }
            records.push((region, offset, length));
        }
        records
    }

    /// Checks that the records of a region do not overlap, and end before the entries.
    fn check_places(&self, mut records: Vec<(u32, u32, u32)>) {
        records.sort_unstable();
        for of_region in records.chunk_by(|one, other| one.0 == other.0) {
            let region = of_region[0].0;
            let (mut end, mut count) = (HEADER, 0);
            for &(_, offset, length) in of_region {
                assert!(
                    offset >= end && length >= RECORD,
                    "region {region}: a record at {offset}, the last ends at {end}"
                );
                (end, count) = (offset + length, count + 1);
            }
            match self.open.as_ref().filter(|open| open.region == region) {
                Some(open) => {
                    let is_inside = end <= open.end && count <= open.records;
                    assert!(
                        is_inside,
                        "region {region}: {count} records up to {end}, the region ends at {}",
                        open.end
                    );
                }
                None => assert!(
                    end <= self.geometry.footer_at(count),
                    "region {region}: records overlap the entries"
                ),
            }
        }
    }

    /// Checks that reclaiming finds each record in the list of its region. The one that it reads
    /// now is in no list.
    fn check_reclaiming(&self) {
        let mut missing = self.index.engine.len();
        let mut is_found = Vec::new();
        let mut find = |region: usize, slots: &[Slot]| {
            for slot in slots {
                if self
                    .index
                    .get_if_used(*slot)
                    .is_none_or(|entry| entry.region as usize != region)
                {
                    continue;
                }
                is_found.resize(is_found.len().max(slot.index() + 1), false);
                missing -= usize::from(!std::mem::replace(&mut is_found[slot.index()], true));
            }
        };
        for (region, state) in self.regions.iter().enumerate() {
            find(region, &state.slots);
        }
        if let Some(reclaim) = &self.reclaim {
            find(reclaim.region as usize, reclaim.slots.as_slice());
        }
        let read = usize::from(self.reclaim.is_some() && self.schedule.busy);
        assert!(missing <= read, "reclaiming would miss {missing} records");
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Config, OpenRegion};
    use super::*;
    use crate::layout::{Geometry, Identity};
    use crate::storage::MemoryStorage;
    use bytes::Bytes;
    use larder_units::{Streams, Time};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// A log with three sealed regions, an open one, and a record that is not on the disk yet.
    fn log() -> Log<()> {
        let geometry = Geometry::new(2048, 8).unwrap();
        let config = Config {
            geometry,
            policy: "fifo".parse().unwrap(),
            queue_bytes: 1 << 20,
        };
        let storage = MemoryStorage::default();
        let identity = Identity {
            id: 7,
            hash_key: [3; 16],
        };
        let mut log = Log::open(
            &storage,
            &config,
            identity,
            (),
            &Streams::new(1),
            Time::ZERO,
        )
        .unwrap()
        .0;
        for number in 0..14 {
            log.put(
                &[number],
                0,
                [vec![number; 400].into(), Bytes::new()],
                Time::ZERO,
            );
            if number < 13 {
                log.settle(Time::ZERO);
            }
            while let Some(job) = log.job(Time::ZERO) {
                let done = job.run(&storage);
                log.complete(done, Time::ZERO);
            }
        }
        assert!(log.sealed.len() == 3 && log.open.is_some() && !log.queue.is_empty());
        log
    }

    /// Returns the slot of a key.
    fn slot(log: &Log<()>, key: u8) -> Slot {
        log.index.find(log.identity.hash(&[key]), 0).unwrap()
    }

    /// Failure: an inconsistent state passes the checks.
    #[test]
    fn a_broken_invariant_is_not_found() {
        type Break = fn(&mut Log<()>);
        let broken: [(&str, Break); 14] = [
            ("as many records as the engine", |log| {
                let slot = slot(log, 0);
                log.index.engine.remove(slot);
            }),
            ("noted", |log| {
                log.index.left.push(*log.index.get(slot(log, 0)))
            }),
            ("has left it", |log| {
                log.superseded.tombstone(log.identity.hash(&[0]), 0, 1, 1)
            }),
            ("each region has a use", |log| _ = log.free.pop_back()),
            ("and something else", |log| {
                log.free.push_back(log.sealed[0])
            }),
            ("have no gaps", |log| log.sealed.swap(0, 1)),
            ("have no gaps", |log| log.next_sequence += 1),
            ("in the free region", |log| {
                let region = log.free[0];
                log.index.relocate(slot(log, 0), region, HEADER);
            }),
            ("the last ends at", |log| {
                let Entry { region, offset, .. } = *log.index.get(slot(log, 0));
                log.index.relocate(slot(log, 1), region, offset + RECORD);
            }),
            ("the region ends at", |log| {
                log.open = log.open.take().map(|open| OpenRegion {
                    end: open.end - 1,
                    ..open
                })
            }),
            ("reclaiming would miss 1", |log| {
                let region = log.sealed[0] as usize;
                log.regions[region].slots.remove(0);
            }),
            ("neither written nor queued", |log| {
                let (region, end) = log
                    .open
                    .as_ref()
                    .map(|open| (open.region, open.end))
                    .unwrap();
                log.index.relocate(slot(log, 13), region, end - RECORD);
            }),
            ("queued or written", |log| log.queue.drop_front(1)),
            ("synced", |log| log.schedule.synced = log.schedule.appended),
        ];
        log().check_invariants();
        for (expected, breaks) in broken {
            let mut log = log();
            breaks(&mut log);
            let found = catch_unwind(AssertUnwindSafe(|| log.check_invariants()));
            let text = found.expect_err(expected).downcast::<String>().map_or_else(
                |other| {
                    other
                        .downcast::<&str>()
                        .map(|text| text.to_string())
                        .unwrap_or_default()
                },
                |text| *text,
            );
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }
}
