//! The HTTP cache's second tier: responses in a log on disk.

use crate::disk::{Disk, DiskConfig, Found};
use bytes::Bytes;
use larder_disk::Verdict;
use larder_http::limits::RECALLED_FIRST_BYTES;
use larder_http::{Budget, Judgement, Purge, PurgeMarks, Recalled, RecalledResponse, Scope, SecondTier};
use larder_units::Streams;
use std::sync::Arc;

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

    fn put(&mut self, key: &[u8], variant: u32, response: [Bytes; 2]) -> bool {
        self.0.with(|log, now| log.put(key, variant, response, now)) == larder_disk::Put::Stored
    }

    fn capacity(&self) -> u64 {
        self.0.with(|log, _| log.engine().capacity().bytes())
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

    fn has(&self, key: &[u8]) -> bool {
        self.0.with(|log, _| log.look_up(key, None).is_some())
    }

    fn is_current(&self, key: &[u8], position: u64) -> bool {
        self.0.with(|log, _| log.is_current(key, position))
    }
}

/// What the disk tier found: all of it where the budget has room, else its head.
pub(super) async fn recall(disk: &HttpDisk, key: &[u8], variant: Option<u32>, budget: &Budget) -> Option<Recalled> {
    let hold = |bytes| budget.reserve_to_recall(bytes);
    let (found, response) = match disk.recall(key, variant, RECALLED_FIRST_BYTES, hold).await? {
        Found::Whole(found, room) => {
            let bytes = found.value.clone();
            (found, RecalledResponse::Whole { bytes, room })
        }
        Found::First(found, parts) => {
            let (bytes, length) = (found.value.clone(), parts.length());
            (found, RecalledResponse::First { bytes, length, record: Arc::new(parts) })
        }
    };
    Some(Recalled { response, expired: found.expired, position: found.position })
}
