//! Reclaims regions, first in, first out.
//!
//! It walks through the records of the oldest region. Records that the engine still has are read,
//! checked against the bans and appended again, up to half a region; the others are dropped. So the
//! engine's policy decides which records stay, and the log only does the work: with `fifo` the
//! oldest region has almost no live record, and little is written twice.
//!
//! A crash loses no record: a freed region is overwritten only after the region that was being
//! written, with all rewritten records, has been sealed and synced. And no removed value comes
//! back: a removal is newer than the value, so its region is reclaimed later, and regions are
//! overwritten in the order in which they were freed.

use super::{Log, Reclaim, position};
use crate::bans::{BanVerdict, Bans};
use crate::layout::Kind;
use crate::limits;
use crate::lookup::{Lookup, ReadError};
use bytes::Bytes;
use larder_policy::Slot;
use larder_units::Time;

/// The reclaiming of a region rewrites at most half of it; further live records are dropped. So
/// each reclaiming frees at least half a region, and a stored byte costs at most two written ones.
const REWRITE_SHARE: u32 = 2;

impl<M: Bans> Log<M> {
    /// Returns the next record to read, of the region that is being reclaimed or of the next one.
    pub(crate) fn next_to_rewrite(&mut self) -> Option<Lookup> {
        loop {
            if self.reclaim.is_none() {
                if self.free.len() >= limits::FREE_REGIONS {
                    return None;
                }
                let region = self.sealed.pop_front()?;
                let slots = std::mem::take(&mut self.regions[region as usize].slots).into_iter();
                let budget = self.geometry.region_bytes() / REWRITE_SHARE;
                self.reclaim = Some(Reclaim {
                    region,
                    slots,
                    budget,
                });
            }
            let Some(reclaim) = &mut self.reclaim else {
                return None;
            };
            let region = reclaim.region;
            let Some(slot) = reclaim.slots.next() else {
                self.finish_reclaim(region);
                continue;
            };
            let Some(length) = self
                .index
                .get_if_used(slot)
                .filter(|entry| entry.region == region)
                .map(|entry| entry.length)
            else {
                continue;
            };
            if length > reclaim.budget {
                self.drop_reclaimed(slot);
                continue;
            }
            reclaim.budget -= length;
            return Some(self.lookup(slot, Box::default()));
        }
    }

    /// Appends a record that was read again, if it is still current.
    pub(crate) fn rewrite(
        &mut self,
        lookup: &Lookup,
        found: Result<(Bytes, Bytes), ReadError>,
        now: Time,
    ) {
        let (key, found) = match found {
            Ok((key, value)) => (key, Ok(value)),
            Err(error) => (Bytes::new(), Err(error)),
        };
        let Some(value) = self.check(lookup, found) else {
            return;
        };
        if self.bans.verdict(lookup.position, &key, &value) != BanVerdict::Untouched {
            self.index.remove(lookup.slot);
            self.counters.removed += 1;
            return;
        }
        let entry = *self.index.get(lookup.slot);
        if !self.make_room(entry.length, 0) {
            return self.drop_reclaimed(lookup.slot);
        }
        let value = [Bytes::new(), value];
        let (region, offset) = self.append(
            Kind::Moved,
            entry.hash,
            entry.tag,
            key[..].into(),
            value,
            now,
        );
        self.index.relocate(lookup.slot, region, offset);
        self.regions[region as usize].slots.push(lookup.slot);
        self.counters.rewritten += 1;
        self.counters.rewritten_bytes += u64::from(entry.length);
    }

    fn drop_reclaimed(&mut self, slot: Slot) {
        self.let_go(slot);
        self.counters.reclaimed += 1;
    }

    fn finish_reclaim(&mut self, region: u32) {
        self.reclaim = None;
        self.counters.regions_reclaimed += 1;
        self.free.push_back(region);
        let oldest = self
            .sealed
            .front()
            .copied()
            .or(self.open.as_ref().map(|open| open.region));
        let sequence = oldest.map_or(self.next_sequence, |oldest| {
            self.regions[oldest as usize].sequence
        });
        self.bans.retire(position(sequence, 0));
    }
}
