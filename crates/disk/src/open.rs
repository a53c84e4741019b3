//! Opens a log from a disk.
//!
//! Regions are found by the headers at their ends, and read by `recovery.rs`. Sequence numbers have
//! no gaps, and a region with a trailer has the number of records that the trailer states. If this
//! is not true, two copies of a fact are damaged, and the fact may have been a removal. All older
//! regions are then dropped.

use crate::Counters;
use crate::bans::Bans;
use crate::index::Entry;
use crate::layout::{
    FooterEntry, Identity, Kind, SUPERBLOCK, Superblock, choose_superblock, superblock,
    within_region,
};
use crate::log::{Config, Log, Region, position};
use crate::queue;
use crate::recovery::{Content, Reader, Repair};
use crate::storage::Storage;
use larder_policy::{Engine, SpecError};
use larder_units::{ByteSize, Streams, Time};
use std::fmt;
use std::io;

/// The former content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// The storage was empty.
    New,
    /// A log, which continues.
    Found,
    /// A log of another size or version, a damaged one, or one that the disk cannot return. The new
    /// log is empty.
    Replaced,
    /// Unknown: a read failed, and the log has failed before it started ([`Log::failure`]).
    Failed,
}

/// The reason why there is no log.
#[derive(Debug)]
pub enum OpenError {
    /// The content is not a log. It is not changed.
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

impl<M: Bans> Log<M> {
    /// Opens the log in `storage`, or creates a new one with the identity `fresh` if there is none.
    ///
    /// # Errors
    /// [`OpenError`]. A disk error is not an error here: the returned log has failed, and its owner
    /// continues without it.
    pub fn open(
        storage: &impl Storage,
        config: &Config,
        fresh: Identity,
        bans: M,
        streams: &Streams,
        now: Time,
    ) -> Result<(Log<M>, Opened), OpenError> {
        let geometry = config.geometry;
        let capacity = ByteSize::from_bytes(geometry.live_bytes());
        let engine = Engine::new(&config.policy, capacity, streams).map_err(OpenError::Policy)?;
        let mut log = Log::empty(config, fresh, engine, bans);
        let copies = [0, geometry.copy_at()].map(|at| {
            let mut bytes = vec![0; SUPERBLOCK];
            storage.read(at, &mut bytes).map(|()| bytes)
        });
        let result = match find_superblock(&copies) {
            Ok(Superblock::Foreign) => return Err(OpenError::Foreign),
            Ok(Superblock::Ours(found, identity)) if found == geometry => {
                log.identity = identity;
                let restored = log
                    .restore(storage, now)
                    .map(|()| Opened::Found)
                    .or_else(|_| {
                        // It is not known which region cannot be read, and it may hold removals.
                        log.identity = fresh;
                        log.begin(storage).map(|()| Opened::Replaced)
                    });
                restored.and_then(|opened| log.mend_superblocks(storage, &copies).map(|()| opened))
            }
            Ok(Superblock::Blank) => log.begin(storage).map(|()| Opened::New),
            Ok(Superblock::Ours(..) | Superblock::Unusable) => {
                log.begin(storage).map(|()| Opened::Replaced)
            }
            Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
        };
        let opened = result.unwrap_or_else(|error| {
            log.fail(error);
            Opened::Failed
        });
        Ok((log, opened))
    }

    fn begin(&mut self, storage: &impl Storage) -> io::Result<()> {
        let bytes = superblock(self.geometry, self.identity);
        self.free = (0..self.geometry.regions()).collect();
        // The first superblock is synced before the file is extended. The host would take a long
        // file that begins with zeros for a file of another program.
        for at in [0, self.geometry.copy_at()] {
            storage.write(at, &bytes)?;
            storage.sync()?;
        }
        Ok(())
    }

    /// Writes the superblock again if one of its copies is damaged.
    fn mend_superblocks(
        &self,
        storage: &impl Storage,
        copies: &[io::Result<Vec<u8>>; 2],
    ) -> io::Result<()> {
        let bytes = superblock(self.geometry, self.identity);
        for (at, copy) in [0, self.geometry.copy_at()].into_iter().zip(copies) {
            // A block that cannot be written does no harm while the other one can be read.
            if copy.as_ref().ok() != Some(&bytes) && storage.write(at, &bytes).is_ok() {
                storage.sync()?;
            }
        }
        Ok(())
    }

    /// Restores the log. An error means that both headers of a region are unreadable; no region has
    /// been restored then.
    fn restore(&mut self, storage: &impl Storage, now: Time) -> io::Result<()> {
        let reader = Reader {
            storage,
            geometry: self.geometry,
            identity: self.identity,
        };
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
        self.free
            .extend(found.into_iter().map(|(_, region)| region));
        for content in contents {
            self.replay(content, now);
        }
        while self.free.is_empty()
            && let Some(oldest) = self.sealed.pop_front()
        {
            self.give_up(oldest);
        }
        self.counters = Counters {
            reclaimed: self.counters.reclaimed,
            ..Counters::default()
        };
        Ok(())
    }

    fn replay(&mut self, content: Content, now: Time) {
        let Content {
            region,
            sequence,
            entries,
            bans,
            repair,
        } = content;
        self.regions[region as usize] = Region {
            sequence,
            slots: Vec::with_capacity(entries.len()),
        };
        let mut bans = bans.into_iter();
        for FooterEntry {
            hash,
            tag,
            offset,
            length,
            kind,
        } in &entries
        {
            match kind {
                Kind::Put | Kind::Moved => {
                    if let Some(old) = self.index.find(*hash, *tag) {
                        self.index.remove(old);
                    }
                    let entry = Entry {
                        hash: *hash,
                        tag: *tag,
                        region,
                        offset: *offset,
                        length: *length,
                    };
                    self.superseded.take(*hash, *tag);
                    if let Some((slot, _)) = self.index.insert(entry, now) {
                        self.regions[region as usize].slots.push(slot);
                    }
                    self.note_superseded();
                }
                Kind::RemoveKey => _ = self.index.remove_key(*hash),
                Kind::RemoveVariant => {
                    if let Some(slot) = self.index.find(*hash, *tag) {
                        self.index.remove(slot);
                    }
                }
                Kind::Ban => {
                    if let Some(ban) = bans.next() {
                        self.bans.add(position(sequence, *offset), &ban);
                    }
                }
                Kind::Clear => {
                    self.index.clear();
                    self.superseded.clear();
                    self.bans.clear();
                }
                Kind::BanCopy | Kind::Padding => {}
            }
        }
        self.sealed.push_back(region);
        if let Some(repair) = repair {
            self.seal_found(region, sequence, repair, within_region(entries.len()));
            self.schedule.note_append(now);
        }
    }

    /// Seals a region that a crash has left open. Each step is synced before the next one.
    fn seal_found(&mut self, region: u32, sequence: u64, repair: Repair, records: u32) {
        if !repair.records.is_empty() {
            self.push_at_end(region, sequence, queue::Content::Repairs(repair.records));
        }
        if !repair.entries.is_empty() {
            self.push_at_end(region, sequence, queue::Content::Entries(repair.entries));
        }
        self.push_at_end(region, sequence, queue::Content::Trailer(records));
    }

    /// Frees a region that is needed now, when there is no time to rewrite its records.
    fn give_up(&mut self, region: u32) {
        for slot in std::mem::take(&mut self.regions[region as usize].slots) {
            if self
                .index
                .get_if_used(slot)
                .is_some_and(|entry| entry.region == region)
            {
                self.let_go(slot);
                self.counters.reclaimed += 1;
            }
        }
        self.free.push_back(region);
    }
}

/// Returns the superblock, from either end of the file.
fn find_superblock(copies: &[io::Result<Vec<u8>>; 2]) -> Result<Superblock, &io::Error> {
    match copies {
        [Ok(first), Ok(second)] => Ok(choose_superblock(first, second)),
        [Ok(first), Err(_)] => Ok(Superblock::read(first)),
        [Err(error), Ok(second)] => match Superblock::read(second) {
            copy @ Superblock::Ours(..) => Ok(copy),
            _ => Err(error),
        },
        [Err(error), Err(_)] => Err(error),
    }
}
