//! The HTTP cache's second tier: responses in a log on disk.

use crate::base::error::Error;
use bytes::Bytes;
use larder_disk::BanVerdict;
use larder_http::limits::TIER_FIRST_BYTES;
use larder_http::{
    Budget, Purge, PurgeBans, PurgeVerdict, Scope, SecondTier, TierHit, TierResponse,
};
use larder_tier_host::{Disk, DiskConfig, Found};
use larder_units::Streams;
use std::sync::Arc;

pub(crate) type HttpDisk = Disk<TierBans>;

/// Purges, as bans of the log.
#[derive(Default)]
pub(crate) struct TierBans(PurgeBans);

impl larder_disk::Bans for TierBans {
    fn add(&mut self, position: u64, ban: &[u8]) {
        self.0.add(position, ban);
    }

    fn verdict(&self, position: u64, key: &[u8], value: &[u8]) -> BanVerdict {
        match self.0.judge(position, key, value) {
            PurgeVerdict::Kept => BanVerdict::Untouched,
            PurgeVerdict::Expired => BanVerdict::Expired,
            PurgeVerdict::Purged => BanVerdict::Gone,
        }
    }

    fn retire(&mut self, before: u64) {
        self.0.retire(before);
    }

    fn clear(&mut self) {
        self.0 = PurgeBans::default();
    }
}

pub(crate) fn start(config: &DiskConfig, streams: &Streams) -> Result<HttpDisk, Error> {
    Ok(Disk::start(
        "[http.disk]",
        config,
        TierBans::default(),
        streams,
    )?)
}

/// The cache's handle of the tier.
pub(crate) struct Tier(pub HttpDisk);

impl SecondTier for Tier {
    fn request(&mut self, key: &[u8]) -> bool {
        self.0
            .change(|log, now| log.request(key, now))
            .unwrap_or(false)
    }

    fn put(&mut self, key: &[u8], variant: u32, response: [Bytes; 2]) -> bool {
        self.0
            .change(|log, now| log.put(key, variant, response, now))
            == Some(larder_disk::Put::Stored)
    }

    fn capacity(&self) -> u64 {
        self.0.with(|log, _| log.engine().capacity().bytes())
    }

    fn waiting(&self) -> u64 {
        self.0.with(|log, _| log.queued_bytes() as u64)
    }

    fn remove(&mut self, key: &[u8]) {
        self.0.change(|log, now| log.remove(key, now));
    }

    fn remove_variant(&mut self, key: &[u8], variant: u32) {
        self.0
            .change(|log, now| log.remove_variant(key, variant, now));
    }

    fn purge(&mut self, purge: &Purge) {
        let everything = purge.scope == Scope::Everything && !purge.soft;
        self.0.change(|log, now| match PurgeBans::encode(purge) {
            _ if everything => log.clear(now),
            Some(ban) => log.ban(ban.into(), now),
            // No stored response can have what it names.
            None => {}
        });
    }

    fn has(&self, key: &[u8]) -> bool {
        self.0.with(|log, _| log.look_up(key, None).is_some())
    }

    fn verdict(&self, key: &[u8], position: u64, response: &[u8]) -> PurgeVerdict {
        self.0.with(|log, _| {
            if log.is_current(key, position) {
                log.bans().0.judge(position, key, response)
            } else {
                PurgeVerdict::Purged
            }
        })
    }
}

/// Returns the record of the disk tier: whole if the budget has room, otherwise its head.
pub(crate) async fn tier_lookup(
    disk: &HttpDisk,
    key: &[u8],
    variant: Option<u32>,
    budget: &Budget,
) -> Option<TierHit> {
    let hold = |bytes| budget.reserve_for_tier_hit(bytes);
    let (found, response) = match disk
        .tier_lookup(key, variant, TIER_FIRST_BYTES, hold)
        .await?
    {
        Found::Whole(found, room) => {
            let bytes = found.value.clone();
            (found, TierResponse::Whole { bytes, room })
        }
        Found::First(found, parts) => {
            let (bytes, length) = (found.value.clone(), parts.length());
            (
                found,
                TierResponse::First {
                    bytes,
                    length,
                    record: Arc::new(parts),
                },
            )
        }
    };
    Some(TierHit {
        response,
        expired: found.expired,
        position: found.position,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_units::ByteSize;

    /// Failure: a response that was removed or replaced while the disk was read is served.
    #[tokio::test]
    async fn a_record_that_is_gone_counts_as_current() {
        let folder = tempfile::tempdir().unwrap();
        let config = DiskConfig {
            path: folder.path().join("disk"),
            capacity: ByteSize::from_mib(64),
            policy: "fifo".parse().unwrap(),
            queue: ByteSize::from_mib(1),
        };
        let disk = start(&config, &Streams::new(1)).unwrap();
        let mut tier = Tier(disk.clone());
        let key = b"http://site.test/";
        let response = || [Bytes::from_static(b"head"), Bytes::from_static(b"body")];
        for change in ["removed", "replaced"] {
            assert!(tier.put(key, 0, response()));
            let found = disk.tier_lookup(key, None, 8, |_| Some(())).await;
            let Some(Found::Whole(found, ())) = found else {
                panic!("{change}: it is there");
            };
            let verdict = |tier: &Tier| tier.verdict(key, found.position, &found.value);
            assert_eq!(verdict(&tier), PurgeVerdict::Kept, "{change}");
            if change == "removed" {
                tier.remove(key);
            } else {
                assert!(tier.put(key, 0, response()));
            }
            assert_eq!(verdict(&tier), PurgeVerdict::Purged, "{change}");
        }
    }
}
