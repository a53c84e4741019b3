//! The HTTP cache's second tier: responses in a log on disk.

use crate::disk::{Disk, DiskConfig};
use bytes::Bytes;
use larder_disk::Verdict;
use larder_http::{Budget, Judgement, Purge, PurgeMarks, Recalled, Scope, SecondTier};
use larder_units::Streams;

pub(super) type HttpDisk = Disk<Marks>;

/// Purges, as the log knows them.
#[derive(Default)]
pub(super) struct Marks(PurgeMarks);

impl larder_disk::Marks for Marks {
    fn add(&mut self, position: u64, mark: &[u8]) {
        self.0.add(position, mark);
    }

    fn verdict(&self, position: u64, key: &[u8], value: &[u8]) -> Verdict {
        match self.0.judge(position, key, value) {
            Judgement::Kept => Verdict::Untouched,
            Judgement::Expired => Verdict::Expired,
            Judgement::Purged => Verdict::Gone,
        }
    }

    fn retire(&mut self, before: u64) {
        self.0.retire(before);
    }

    fn clear(&mut self) {
        self.0 = PurgeMarks::default();
    }
}

pub(super) fn start(config: &DiskConfig, streams: &Streams) -> Result<HttpDisk, String> {
    Disk::start("[http.disk]", config, Marks::default(), streams)
}

/// The cache's side of it.
pub(super) struct Tier(pub HttpDisk);

impl SecondTier for Tier {
    fn request(&mut self, key: &[u8]) -> bool {
        self.0.with(|log, now| log.request(key, now))
    }

    fn put(&mut self, key: &[u8], variant: u32, response: [Bytes; 2]) {
        self.0.with(|log, now| log.put(key, variant, response, now));
    }

    fn waiting(&self) -> u64 {
        self.0.with(|log, _| log.queued_bytes() as u64)
    }

    fn remove(&mut self, key: &[u8]) {
        self.0.with(|log, now| log.remove(key, now));
    }

    fn remove_variant(&mut self, key: &[u8], variant: u32) {
        self.0.with(|log, now| log.remove_variant(key, variant, now));
    }

    fn purge(&mut self, purge: &Purge) {
        let everything = purge.scope == Scope::Everything && !purge.soft;
        self.0.with(|log, now| match everything || log.marks().0.is_full() {
            true => log.clear(now),
            false => log.mark(PurgeMarks::encode(purge).into(), now),
        });
    }

    fn is_current(&self, key: &[u8], position: u64) -> bool {
        self.0.with(|log, _| log.is_current(key, position))
    }
}

/// What the disk tier found.
pub(super) async fn recall(disk: &HttpDisk, key: &[u8], variant: Option<u32>, budget: &Budget) -> Option<Recalled> {
    let (found, room) = disk.recall(key, variant, |bytes| budget.reserve(bytes)).await?;
    let larder_disk::Recalled { value, expired, position } = found;
    Some(Recalled { response: value, expired, position, room })
}
