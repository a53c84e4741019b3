//! The Content Store's second tier: Data in a log on disk, one for all shards.

use super::Command;
use super::crossing::{Crossing, Port};
use super::event_loop::EventLoop;
use crate::disk::{Asked, Disk, DiskConfig};
use bytes::Bytes;
use larder_disk::Verdict;
use larder_forwarder::{EraseMarks, Recall, Recalled, Report, SecondTier, TierFigures};
use larder_packet::NameRef;
use larder_units::Streams;
use std::sync::Arc;

pub(super) type NdnDisk = Disk<Marks>;

/// Erasures, as the log knows them.
#[derive(Default)]
pub(super) struct Marks(EraseMarks);

impl larder_disk::Marks for Marks {
    fn add(&mut self, position: u64, mark: &[u8]) {
        self.0.add(position, mark);
    }

    fn verdict(&self, position: u64, key: &[u8], _: &[u8]) -> Verdict {
        if self.0.erased(position, key) { Verdict::Gone } else { Verdict::Untouched }
    }

    fn retire(&mut self, before: u64) {
        self.0.retire(before);
    }

    fn clear(&mut self) {
        self.0 = EraseMarks::default();
    }
}

pub(super) fn start(config: &DiskConfig) -> Result<NdnDisk, String> {
    let [seed, _, _] = crate::entropy::words();
    Disk::start("[ndn.disk]", config, Marks::default(), &Streams::new(seed))
}

/// A shard's side of it.
struct Tier {
    disk: NdnDisk,
    ports: Arc<[Port]>,
    shard: usize,
}

pub(super) fn tier(disk: &NdnDisk, crossing: &Crossing) -> Box<dyn SecondTier> {
    Box::new(Tier { disk: disk.clone(), ports: crossing.ports.clone(), shard: crossing.shard.number() })
}

/// Data of one name are told apart by nothing: the last that came stays.
const TAG: u32 = 0;

impl SecondTier for Tier {
    fn recall(&mut self, name: NameRef<'_>, ticket: u64) -> Recall {
        let (ports, shard) = (self.ports.clone(), self.shard);
        let answer = move |found: Option<larder_disk::Recalled>| {
            let found = found.map(|found| Recalled { record: found.value, position: found.position });
            ports[shard].send(Command::Recalled(ticket, found));
        };
        match self.disk.recall_then(name.as_bytes(), answer) {
            Asked::Absent => Recall::Absent,
            Asked::Refused => Recall::Busy,
            Asked::Reading => Recall::Reading,
        }
    }

    fn put(&mut self, name: NameRef<'_>, record: Bytes) {
        self.disk.with(|log, now| log.put(name.as_bytes(), TAG, [record, Bytes::new()], now));
    }

    fn erase(&mut self, prefix: NameRef<'_>) {
        self.disk.with(|log, now| match prefix.is_empty() || log.marks().0.is_full() {
            true => log.clear(now),
            false => log.mark(Bytes::copy_from_slice(prefix.as_bytes()), now),
        });
    }

    fn holds(&self, name: NameRef<'_>, position: u64) -> bool {
        let key = name.as_bytes();
        self.disk.with(|log, _| log.is_current(key, position) && !log.marks().0.erased(position, key))
    }

    fn figures(&self) -> TierFigures {
        let figures = self.disk.figures();
        TierFigures { capacity: figures.capacity, used: figures.used, entries: figures.objects }
    }
}

impl EventLoop {
    /// Waits, on a thread of its own, until the disk knows what was erased: erasing is rare, and a disk may take seconds.
    pub(super) fn settle_disk(&self, ticket: u64) {
        let Some(disk) = self.disk.clone() else { return };
        let ports = self.crossing.ports.clone();
        let shard = self.crossing.shard.number();
        let settle = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            let settled = match runtime {
                Ok(runtime) => runtime.block_on(disk.settle()),
                Err(error) => Err(format!("cannot wait for the disk: {error}")),
            };
            ports[shard].send(Command::Said(ticket, Report::Settled(settled)));
        };
        if let Err(error) = std::thread::Builder::new().name("disk-settle".to_owned()).spawn(settle) {
            let why = format!("cannot start a thread that waits for the disk: {error}");
            self.crossing.own().send(Command::Said(ticket, Report::Settled(Err(why))));
        }
    }
}
