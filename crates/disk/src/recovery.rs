//! The content of a region, from the readable bytes of the disk.
//!
//! A block that cannot be read counts as a damaged one. The walk through a region uses the entry or
//! the record, whichever is intact, and stops at the first fact with neither. Sealed regions are
//! walked by their entries; a record is read only if its entry is damaged. In the newest region,
//! unless it has a trailer, every record is read: a crash may have left entries whose records never
//! reached the disk. These are repaired, so that both copies agree from then on.

use crate::layout::{
    BLOCK, ENTRY, FooterEntry, Geometry, HEADER, Identity, Kind, RECORD, Record, RegionEnd,
    TRAILER, read_record, record_length, within_region,
};
use crate::storage::Storage;
use bytes::Bytes;
use std::io;

/// The content of a region.
pub(crate) struct Content {
    pub region: u32,
    pub sequence: u64,
    pub entries: Vec<FooterEntry>,
    /// The values of the region's bans, in order.
    pub bans: Vec<Bytes>,
    /// The repair of a region that has not been sealed.
    pub repair: Option<Repair>,
}

/// The writes before a restart seals a region that it has found open.
#[derive(Default)]
pub(crate) struct Repair {
    pub records: Vec<(FooterEntry, Bytes)>,
    pub entries: Vec<(u32, FooterEntry)>,
}

pub(crate) struct Reader<'a, S> {
    pub storage: &'a S,
    pub geometry: Geometry,
    pub identity: Identity,
}

/// Bytes of records that are read in one call.
const RECORD_WINDOW: u32 = 1 << 20;

/// Entries that are read in one call: 256 KiB.
const ENTRY_WINDOW: u32 = 1 << 13;

impl<S: Storage> Reader<'_, S> {
    /// Returns the longest unbroken sequence of regions up to the newest, oldest first; older
    /// regions stay in `found`.
    pub(crate) fn unbroken(&self, found: &mut Vec<(u64, u32)>) -> Vec<Content> {
        let mut contents: Vec<Content> = Vec::new();
        while let Some((sequence, region)) = found.last().copied() {
            let follows = contents
                .last()
                .is_none_or(|newer| newer.sequence == sequence + 1);
            if !follows {
                break;
            }
            let Some(content) = self.content(region, sequence, contents.is_empty()) else {
                break;
            };
            contents.push(content);
            found.pop();
        }
        contents.reverse();
        contents
    }

    /// Returns the region's sequence number, from either end. The higher one counts, because a
    /// crash may have left the other in an earlier life.
    ///
    /// # Errors
    /// The error of the disk if neither end can be read.
    pub(crate) fn sequence(&self, region: u32) -> io::Result<Option<u64>> {
        let ends = [(0, HEADER), (self.geometry.footer_at(0), TRAILER)]
            .map(|(offset, length)| self.try_read(region, offset, length));
        let sequence =
            |bytes: &Bytes| RegionEnd::read(bytes, &self.identity).map(|end| end.sequence);
        let found = ends.iter().flatten().filter_map(sequence).max();
        match ends {
            [Err(error), Err(_)] => Err(error),
            _ => Ok(found),
        }
    }

    /// Returns `None` if the region cannot be read although it was sealed.
    fn content(&self, region: u32, sequence: u64, is_newest: bool) -> Option<Content> {
        let mut walk = Walk::new(self, region, sequence);
        match self.trailer(region, sequence) {
            Some(records) => {
                walk.most = walk.most.min(records);
                walk.by_entries();
                if walk.entries.len() != records as usize {
                    return None;
                }
            }
            None if is_newest => walk.by_records(),
            // It was sealed before the next one began, so only its trailer is damaged.
            None => walk.by_entries(),
        }
        let Walk {
            entries,
            bans,
            repair,
            ..
        } = walk;
        Some(Content {
            region,
            sequence,
            entries,
            bans,
            repair,
        })
    }

    fn trailer(&self, region: u32, sequence: u64) -> Option<u32> {
        let bytes = self.read(region, self.geometry.footer_at(0), TRAILER);
        RegionEnd::read(&bytes, &self.identity)
            .filter(|end| end.sequence == sequence)?
            .entries
    }

    /// Reads bytes. Unreadable ones become zeros, which match no checksum.
    fn read(&self, region: u32, offset: u32, length: u32) -> Bytes {
        if let Ok(bytes) = self.try_read(region, offset, length) {
            return bytes;
        }
        let start = self.geometry.region_at(region) + u64::from(offset);
        let mut bytes = vec![0; length as usize];
        let (mut at, mut rest) = (start, &mut bytes[..]);
        while !rest.is_empty() {
            #[expect(clippy::cast_possible_truncation, reason = "at most a block")]
            let to_boundary = (u64::from(BLOCK) - at % u64::from(BLOCK)) as usize;
            let (block, behind) = rest.split_at_mut(to_boundary.min(rest.len()));
            if self.storage.read(at, block).is_err() {
                block.fill(0);
            }
            at += block.len() as u64;
            rest = behind;
        }
        bytes.into()
    }

    fn try_read(&self, region: u32, offset: u32, length: u32) -> io::Result<Bytes> {
        let mut bytes = vec![0; length as usize];
        self.storage.read(
            self.geometry.region_at(region) + u64::from(offset),
            &mut bytes,
        )?;
        Ok(bytes.into())
    }
}

/// A walk through a region, record by record.
struct Walk<'a, S> {
    reader: &'a Reader<'a, S>,
    region: u32,
    /// The seed of the region's checksums.
    seed: u64,
    /// The maximum number of entries.
    most: u32,
    /// The number of the first entry in `entry_window`.
    first: u32,
    entry_window: Bytes,
    /// The start of `record_window`.
    window_at: u32,
    record_window: Bytes,
    /// The start of the next record.
    end: u32,
    entries: Vec<FooterEntry>,
    bans: Vec<Bytes>,
    repair: Option<Repair>,
}

impl<'a, S: Storage> Walk<'a, S> {
    fn new(reader: &'a Reader<'a, S>, region: u32, sequence: u64) -> Walk<'a, S> {
        Walk {
            reader,
            region,
            seed: reader.identity.seed(sequence),
            most: (reader.geometry.region_bytes() - HEADER - TRAILER) / ENTRY,
            first: 0,
            entry_window: Bytes::new(),
            window_at: 0,
            record_window: Bytes::new(),
            end: HEADER,
            entries: Vec::new(),
            bans: Vec::new(),
            repair: None,
        }
    }

    /// Walks by the entries, and uses records only if an entry is damaged.
    fn by_entries(&mut self) {
        while let Some((number, limit)) = self.next() {
            let entry = self.written(number, limit).or_else(|| {
                let record = self.record(limit)?;
                Some(self.entry_of(&record))
            });
            let Some(mut entry) = entry else { return };
            if entry.kind == Kind::Ban {
                match self.ban(&entry).or_else(|| self.copy_of(&entry)) {
                    Some(value) => self.bans.push(value),
                    // The record may have removed any value.
                    None => entry.kind = Kind::Clear,
                }
            }
            self.pass(entry);
        }
    }

    /// Walks by the records, and uses entries only if a record is damaged.
    fn by_records(&mut self) {
        let mut repair = Repair::default();
        while let Some((number, limit)) = self.next() {
            let written = self.written(number, limit);
            let entry = match (self.record(limit), written) {
                (Some(record), _) => {
                    if record.kind == Kind::Ban {
                        self.bans.push(record.value.clone());
                    }
                    self.entry_of(&record)
                }
                (None, Some(written)) => {
                    let (entry, value) = self.instead_of(written);
                    if entry.kind == Kind::Ban {
                        self.bans.push(value.clone());
                    }
                    repair.records.push((entry, value));
                    entry
                }
                (None, None) => break,
            };
            if written != Some(entry) {
                repair.entries.push((number, entry));
            }
            self.pass(entry);
        }
        self.repair = Some(repair);
    }

    /// Returns the entry and value that replace a record that is damaged, or that has never reached
    /// the disk.
    fn instead_of(&self, written: FooterEntry) -> (FooterEntry, Bytes) {
        let of_kind = |kind| (FooterEntry { kind, ..written }, Bytes::new());
        let value = match written.kind {
            // The value that it replaced is outdated.
            Kind::Put => return of_kind(Kind::RemoveVariant),
            // The former record is overwritten only after this region is sealed.
            Kind::Moved => None,
            Kind::Ban => self.copy_of(&written),
            Kind::BanCopy => self.ban_before(&written),
            _ => return of_kind(written.kind),
        };
        // Neither copy of the mark was synced.
        value.map_or_else(|| of_kind(Kind::Padding), |value| (written, value))
    }

    fn pass(&mut self, entry: FooterEntry) {
        self.end = entry.end();
        self.entries.push(entry);
    }

    /// Returns the next record's number, and its latest possible end.
    fn next(&self) -> Option<(u32, u32)> {
        let number = within_region(self.entries.len());
        (number < self.most).then(|| (number, self.reader.geometry.footer_at(number + 1)))
    }

    fn entry_of(&self, record: &Record) -> FooterEntry {
        let Record {
            hash,
            tag,
            length,
            kind,
            ..
        } = *record;
        FooterEntry {
            hash,
            tag,
            offset: self.end,
            length,
            kind,
        }
    }

    /// Returns the entry with this number, if it is intact and its record begins at the present
    /// position.
    fn written(&mut self, number: u32, limit: u32) -> Option<FooterEntry> {
        let geometry = self.reader.geometry;
        if number >= self.first + within_region(self.entry_window.len()) / ENTRY {
            let count = ENTRY_WINDOW.min(self.most - number);
            self.entry_window = self.reader.read(
                self.region,
                geometry.footer_at(number + count),
                count * ENTRY,
            );
            self.first = number;
        }
        let behind = (number - self.first + 1) * ENTRY;
        let entry = FooterEntry::read(
            &self.entry_window[self.entry_window.len() - behind as usize..],
            number,
            self.seed,
        )?;
        let ends = u64::from(entry.offset) + u64::from(entry.length);
        (entry.offset == self.end && entry.length >= RECORD && ends <= u64::from(limit))
            .then_some(entry)
    }

    /// Returns the record at the present position, if it is intact.
    fn record(&mut self, limit: u32) -> Option<Record> {
        let mut wanted = u64::from(RECORD);
        loop {
            if u64::from(self.end) + wanted > u64::from(limit) {
                return None;
            }
            let window_end = u64::from(self.window_at) + self.record_window.len() as u64;
            if u64::from(self.end) + wanted > window_end {
                let length = u32::try_from(wanted)
                    .ok()?
                    .max(RECORD_WINDOW)
                    .min(self.reader.geometry.region_bytes() - self.end);
                self.record_window = self.reader.read(self.region, self.end, length);
                self.window_at = self.end;
            }
            let bytes = self
                .record_window
                .slice((self.end - self.window_at) as usize..);
            match record_length(&bytes)? {
                length if length > wanted => wanted = length,
                _ => return read_record(&bytes, self.end, self.seed),
            }
        }
    }

    fn ban(&self, entry: &FooterEntry) -> Option<Bytes> {
        self.value_at(Kind::Ban, Some(entry.offset), entry.length)
    }

    /// Returns the second copy of a mark, by its position.
    fn copy_of(&self, ban: &FooterEntry) -> Option<Bytes> {
        let offset = ban.end().checked_add(self.reader.geometry.gap());
        self.value_at(Kind::BanCopy, offset, ban.length)
    }

    /// Returns the first copy of a mark, by its position.
    fn ban_before(&self, copy: &FooterEntry) -> Option<Bytes> {
        let offset = copy
            .offset
            .checked_sub(self.reader.geometry.gap() + copy.length);
        self.value_at(Kind::Ban, offset, copy.length)
    }

    fn value_at(&self, kind: Kind, offset: Option<u32>, length: u32) -> Option<Bytes> {
        let offset = offset.filter(|at| {
            u64::from(*at) + u64::from(length) <= self.reader.geometry.region_bytes().into()
        })?;
        let record = read_record(
            &self.reader.read(self.region, offset, length),
            offset,
            self.seed,
        )?;
        (record.kind == kind && record.length == length).then_some(record.value)
    }
}
