//! A log from what is on the disk.
//!
//! Sealed regions are read by their footers, the newest one, if it has none, record by record up to the first that is not whole: what comes
//! behind it was never synced. Sequence numbers have no holes, and only the newest region may lack its footer; where that is not so,
//! something has rotted that may have held removals, and all that is older is dropped.

use crate::Counters;
use crate::index::Entry;
use crate::layout::{
    ENTRY, FooterEntry, Geometry, HEADER, Identity, Kind, RECORD, SUPERBLOCK, Superblock, TRAILER, read_footer,
    read_record, read_region_header, record_length, superblock, trailer_entries,
};
use crate::log::{Config, Log, Region, position};
use crate::marks::Marks;
use crate::storage::Storage;
use bytes::Bytes;
use larder_policy::{Engine, SpecError};
use larder_units::{ByteSize, Streams, Time};
use std::fmt;
use std::io;

/// What was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// Nothing.
    New,
    /// A log, which goes on.
    Found,
    /// A log of another size or version, a damaged one, or one that the disk does not give back: it begins empty.
    Replaced,
    /// Nobody knows: the disk refused to say, and the log has failed before it began ([`Log::failure`]).
    Failed,
}

/// Why there is no log.
#[derive(Debug)]
pub enum OpenError {
    /// What is there is no log: it is left alone.
    Foreign,
    /// Arguments of a policy contradict each other.
    Policy(SpecError),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Foreign => f.write_str("the file holds something else than a cache"),
            OpenError::Policy(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}

impl<M: Marks> Log<M> {
    /// The log in `storage`, or a new one with `fresh` for its identity where there is none.
    ///
    /// # Errors
    /// [`OpenError`]. A disk that refuses is none: the log has failed, and its owner does without it.
    pub fn open(
        storage: &impl Storage,
        config: &Config,
        fresh: Identity,
        marks: M,
        streams: &Streams,
        now: Time,
    ) -> Result<(Log<M>, Opened), OpenError> {
        let geometry = config.geometry;
        let capacity = ByteSize::from_bytes(geometry.live_bytes());
        let engine = Engine::new(&config.policy, capacity, streams).map_err(OpenError::Policy)?;
        let mut log = Log::empty(config, fresh, engine, marks);
        let mut bytes = vec![0; SUPERBLOCK];
        let result = match storage.read(0, &mut bytes).map(|()| Superblock::read(&bytes)) {
            Ok(Superblock::Foreign) => return Err(OpenError::Foreign),
            Ok(Superblock::Ours(found, identity)) if found == geometry => {
                log.identity = identity;
                log.restore(storage, now).map(|()| Opened::Found).or_else(|_| {
                    // Which region it is that cannot be read is not known, and it may hold removals.
                    log.identity = fresh;
                    log.begin(storage).map(|()| Opened::Replaced)
                })
            }
            Ok(Superblock::Blank) => log.begin(storage).map(|()| Opened::New),
            Ok(Superblock::Ours(..) | Superblock::Unusable) => log.begin(storage).map(|()| Opened::Replaced),
            Err(error) => Err(error),
        };
        let opened = result.unwrap_or_else(|error| {
            log.fail(error);
            Opened::Failed
        });
        Ok((log, opened))
    }

    fn begin(&mut self, storage: &impl Storage) -> io::Result<()> {
        storage.write(0, &superblock(self.geometry, self.identity))?;
        self.free = (0..self.geometry.regions()).collect();
        storage.sync()
    }

    /// An error is that of a region's header; nothing has been restored then.
    fn restore(&mut self, storage: &impl Storage, now: Time) -> io::Result<()> {
        let reader = Reader { storage, geometry: self.geometry, identity: self.identity };
        let mut found = Vec::new();
        for region in 0..self.geometry.regions() {
            match reader.sequence(region)? {
                Some(sequence) => found.push((sequence, region)),
                None => self.free.push_back(region),
            }
        }
        found.sort_unstable();
        self.next_sequence = found.last().map_or(1, |(newest, _)| newest + 1);
        let contents = reader.unbroken(&mut found);
        self.free.extend(found.into_iter().map(|(_, region)| region));
        for content in contents {
            self.replay(content, now);
        }
        while self.free.is_empty()
            && let Some(oldest) = self.sealed.pop_front()
        {
            self.give_up(oldest);
        }
        self.counters = Counters { reclaimed: self.counters.reclaimed, ..Counters::default() };
        Ok(())
    }

    fn replay(&mut self, content: Content, now: Time) {
        let Content { region, sequence, entries, marks, is_sealed } = content;
        self.regions[region as usize] = Region { sequence, slots: Vec::with_capacity(entries.len()) };
        let mut marks = marks.into_iter();
        for FooterEntry { hash, tag, offset, length, kind } in &entries {
            match kind {
                Kind::Put => {
                    if let Some(old) = self.index.find(*hash, *tag) {
                        self.index.remove(old);
                    }
                    let entry = Entry { hash: *hash, tag: *tag, region, offset: *offset, length: *length };
                    self.departed.take(*hash, *tag);
                    if let Some((slot, _)) = self.index.insert(entry, now) {
                        self.regions[region as usize].slots.push(slot);
                    }
                    self.note_departed();
                }
                Kind::RemoveKey => _ = self.index.remove_key(*hash),
                Kind::RemoveVariant => {
                    if let Some(slot) = self.index.find(*hash, *tag) {
                        self.index.remove(slot);
                    }
                }
                Kind::Mark => {
                    if let Some(mark) = marks.next() {
                        self.marks.add(position(sequence, *offset), &mark);
                    }
                }
                Kind::Clear => {
                    self.index.clear();
                    self.departed.clear();
                    self.marks.clear();
                }
            }
        }
        self.sealed.push_back(region);
        if !is_sealed {
            self.push_footer(region, sequence, entries);
            self.schedule.note_append(now);
        }
    }

    /// A region is needed now, and there is no time to rewrite what it holds.
    fn give_up(&mut self, region: u32) {
        for slot in std::mem::take(&mut self.regions[region as usize].slots) {
            if self.index.get_if_used(slot).is_some_and(|entry| entry.region == region) {
                self.let_go(slot);
                self.counters.reclaimed += 1;
            }
        }
        self.free.push_back(region);
    }
}

/// What a region holds.
struct Content {
    region: u32,
    sequence: u64,
    entries: Vec<FooterEntry>,
    /// Of its marks, in order.
    marks: Vec<Bytes>,
    is_sealed: bool,
}

struct Reader<'a, S> {
    storage: &'a S,
    geometry: Geometry,
    identity: Identity,
}

/// Read at once where a region is gone through record by record.
const WINDOW_BYTES: u32 = 1 << 20;

impl<S: Storage> Reader<'_, S> {
    /// The longest unbroken sequence of regions up to the newest, oldest first; what is older stays in `found`. What the disk does not give back is
    /// as good as rotten.
    fn unbroken(&self, found: &mut Vec<(u64, u32)>) -> Vec<Content> {
        let mut contents: Vec<Content> = Vec::new();
        while let Some((sequence, region)) = found.last().copied() {
            let follows = contents.last().is_none_or(|newer| newer.sequence == sequence + 1);
            if !follows {
                break;
            }
            let Ok(Some(content)) = self.content(region, sequence, contents.is_empty()) else { break };
            contents.push(content);
            found.pop();
        }
        contents.reverse();
        contents
    }

    fn sequence(&self, region: u32) -> io::Result<Option<u64>> {
        let header = self.read(region, 0, HEADER)?;
        // The index has 32 bits of it, which last for longer than any disk.
        Ok(read_region_header(&header, &self.identity).filter(|sequence| (1..1 << 32).contains(sequence)))
    }

    /// `None` where it cannot be read and should be readable.
    fn content(&self, region: u32, sequence: u64, is_newest: bool) -> io::Result<Option<Content>> {
        let footer = self.footer(region, sequence)?;
        let is_sealed = footer.is_some();
        let entries = match footer {
            Some(entries) => entries,
            None if is_newest => self.scan(region, sequence)?,
            None => return Ok(None),
        };
        let mut marks = Vec::new();
        for entry in entries.iter().filter(|entry| entry.kind == Kind::Mark) {
            let bytes = self.read(region, entry.offset, entry.length)?;
            let Some(record) = read_record(&bytes, entry.offset, self.identity.seed(sequence)) else { return Ok(None) };
            marks.push(record.value);
        }
        Ok(Some(Content { region, sequence, entries, marks, is_sealed }))
    }

    fn footer(&self, region: u32, sequence: u64) -> io::Result<Option<Vec<FooterEntry>>> {
        let trailer = self.read(region, self.geometry.footer_at(0), TRAILER)?;
        let Some(entries) = trailer_entries(&trailer, &self.identity, sequence, self.geometry) else { return Ok(None) };
        let bytes = self.read(region, self.geometry.footer_at(entries), entries as u32 * ENTRY + TRAILER)?;
        Ok(read_footer(&bytes, &self.identity, sequence, self.geometry))
    }

    fn scan(&self, region: u32, sequence: u64) -> io::Result<Vec<FooterEntry>> {
        let seed = self.identity.seed(sequence);
        let mut entries = Vec::new();
        let (mut window, mut window_at) = (Bytes::new(), 0);
        let mut offset = HEADER;
        loop {
            let end = self.geometry.footer_at(entries.len() + 1);
            let in_window = |window: &Bytes, window_at: u32, length: u64| {
                u64::from(offset) + length <= u64::from(window_at) + window.len() as u64
            };
            let mut wanted = u64::from(RECORD);
            let record = loop {
                if u64::from(offset) + wanted > u64::from(end) {
                    break None;
                }
                if !in_window(&window, window_at, wanted) {
                    let length = (wanted as u32).max(WINDOW_BYTES).min(self.geometry.region_bytes() - offset);
                    (window, window_at) = (self.read(region, offset, length)?, offset);
                }
                let bytes = window.slice((offset - window_at) as usize..);
                match record_length(&bytes) {
                    Some(length) if length > wanted => wanted = length,
                    Some(_) => break read_record(&bytes, offset, seed),
                    None => break None,
                }
            };
            let Some(record) = record else { return Ok(entries) };
            let (hash, tag, length, kind) = (record.hash, record.tag, record.length, record.kind);
            entries.push(FooterEntry { hash, tag, offset, length, kind });
            offset += length;
        }
    }

    fn read(&self, region: u32, offset: u32, length: u32) -> io::Result<Bytes> {
        let mut bytes = vec![0; length as usize];
        self.storage.read(self.geometry.region_at(region) + u64::from(offset), &mut bytes)?;
        Ok(bytes.into())
    }
}
