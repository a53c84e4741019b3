//! The Content Store's second tier: Data in a log on disk, one for all shards.

use crate::ndn::error::NdnError;
use crate::ndn::shards::channel::{Port, ShardChannel};
use crate::ndn::shards::command::Command;
use bytes::Bytes;
use larder_disk::BanVerdict;
use larder_forwarder::{EraseBans, SecondTier, TierFigures, TierLookup, TierRecord};
use larder_packet::NameRef;
use larder_tier_host::{Asked, Disk, DiskConfig};
use larder_units::Streams;
use std::sync::Arc;

pub(super) type NdnDisk = Disk<TierBans>;

/// Erasures, as bans of the log.
#[derive(Default)]
pub(super) struct TierBans(EraseBans);

impl larder_disk::Bans for TierBans {
    fn add(&mut self, position: u64, ban: &[u8]) {
        self.0.add(position, ban);
    }

    fn verdict(&self, position: u64, key: &[u8], _: &[u8]) -> BanVerdict {
        if self.0.erased(position, key) {
            BanVerdict::Gone
        } else {
            BanVerdict::Untouched
        }
    }

    fn retire(&mut self, before: u64) {
        self.0.retire(before);
    }

    fn clear(&mut self) {
        self.0 = EraseBans::default();
    }
}

pub(super) fn start(config: &DiskConfig) -> Result<NdnDisk, NdnError> {
    let [seed, _, _] = larder_client::entropy::words();
    Disk::start(
        "[ndn.disk]",
        config,
        TierBans::default(),
        &Streams::new(seed),
    )
    .map_err(NdnError::Disk)
}

/// One shard's handle of the tier.
pub(super) struct Tier {
    pub(super) disk: NdnDisk,
    pub(super) ports: Arc<[Port]>,
    pub(super) shard: usize,
}

pub(super) fn tier(disk: &NdnDisk, shard_channel: &ShardChannel) -> Box<dyn SecondTier> {
    Box::new(Tier {
        disk: disk.clone(),
        ports: shard_channel.ports.clone(),
        shard: shard_channel.shard.number(),
    })
}

/// A name has one record: the newest Data replaces the older one.
pub(super) const TAG: u32 = 0;

impl SecondTier for Tier {
    fn tier_lookup(&mut self, name: NameRef<'_>, ticket: u64) -> TierLookup {
        let (ports, shard) = (self.ports.clone(), self.shard);
        let answer = move |found: Option<larder_disk::FoundRecord>| {
            let found = found.map(|found| TierRecord {
                record: found.value,
                position: found.position,
            });
            ports[shard].send(Command::TierRecord(ticket, found));
        };
        match self.disk.look_up_then(name.as_bytes(), answer) {
            Asked::Absent => TierLookup::Absent,
            Asked::Refused => TierLookup::Busy,
            Asked::Reading => TierLookup::Reading,
        }
    }

    fn put(&mut self, name: NameRef<'_>, record: Bytes) {
        self.disk
            .change(|log, now| log.put(name.as_bytes(), TAG, [record, Bytes::new()], now));
    }

    fn erase(&mut self, prefix: NameRef<'_>) {
        self.disk.change(|log, now| {
            if prefix.is_empty() || log.bans().0.is_full() {
                log.clear(now)
            } else {
                log.ban(Bytes::copy_from_slice(prefix.as_bytes()), now)
            }
        });
    }

    fn holds(&self, name: NameRef<'_>, position: u64) -> bool {
        let key = name.as_bytes();
        self.disk
            .with(|log, _| log.is_current(key, position) && !log.bans().0.erased(position, key))
    }

    fn figures(&self) -> TierFigures {
        let figures = self.disk.figures();
        TierFigures {
            capacity: figures.capacity,
            used: figures.used,
            entries: figures.objects,
        }
    }
}
