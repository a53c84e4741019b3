//! The layout of the disk, byte by byte; all numbers are little-endian.
//!
//! ```text
//! superblock  0 "LARDERD2" │ 8 region bytes u64 │ 16 regions u32 │ 20 0 │ 24 id u64 │ 32 hash key
//!             48 checksum u64, padded to 4 KiB
//! header      0 "LDRG" │ 4 0 │ 8 id u64 │ 16 sequence u64 │ 24 checksum u64
//! record      0 "LDRC" │ 4 kind u32 │ 8 tag u32 │ 12 key bytes u32 │ 16 value bytes u32
//!             20 offset u32 │ 24 hash u64 │ 32 checksum u64 │ key │ value
//! entry       0 hash u64 │ 8 tag u32 │ 12 offset u32 │ 16 length u32 │ 20 kind u32
//!             24 checksum u64 (over its number, too)
//! trailer     0 "LDFT" │ 4 entries u32 │ 8 id u64 │ 16 sequence u64 │ 24 checksum u64
//! ```
//!
//! Every fact is written twice, in different blocks, and either copy is enough. The superblock is
//! at both ends of the file. A region's header is at both ends of the region; the trailer replaces
//! the second one when the region is sealed. Each record has an entry: the first is below the
//! trailer, the next below that one, and so on. The value of a ban is in no entry, so a second
//! record has it, too.
//!
//! Checksums are XXH3 (Collet, 64 bits), seeded with the log's id and the region's sequence number.
//! So bytes of an earlier life of the region, or of an earlier log in the file, never pass the
//! check. A record's checksum also covers its offset, against a write in the wrong place. It covers
//! key and value only if the kind has any ([`Kind::has_content`]): the value of other records only
//! occupies space.

use crate::limits;
use bytes::Bytes;
use larder_units::ByteSize;
use siphasher::sip::SipHasher13;
use std::fmt;
use std::hash::Hasher;
use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

/// Objects take three quarters of a log's space. The rest is for records that are dead but not yet
/// reclaimed. If all of it were in use, reclaiming a region would find only live records and free
/// no space.
const LIVE_SHARE: [u64; 2] = [3, 4];

/// Records of a region. A restart holds their entries, 32 bytes each, in memory until the region is
/// read. Only a large region that consists mostly of removals has so many, and it is then sealed.
const MAX_REGION_RECORDS: usize = 1 << 20;

pub(crate) const SUPERBLOCK: usize = 4096;
pub(crate) const HEADER: u32 = 32;
pub(crate) const RECORD: u32 = 40;
pub(crate) const ENTRY: u32 = 32;
pub(crate) const TRAILER: u32 = 32;
/// Bytes that a disk reads or loses together.
pub(crate) const BLOCK: u32 = 4096;

const SUPERBLOCK_MAGIC: &[u8; 8] = b"LARDERD2";
const HEADER_MAGIC: &[u8; 4] = b"LDRG";
const RECORD_MAGIC: &[u8; 4] = b"LDRC";
const TRAILER_MAGIC: &[u8; 4] = b"LDFT";

/// The size of a log: its regions and their size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    region_bytes: u32,
    regions: u32,
}

/// The error for a size that no log can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeometryError;

impl fmt::Display for GeometryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a log on disk has 8MiB to {}",
            ByteSize::from_bytes(Geometry::MOST_BYTES)
        )
    }
}

impl std::error::Error for GeometryError {}

impl Geometry {
    const LEAST_REGION: u64 = 1 << 20;
    const MOST_REGION: u64 = 256 << 20;
    const MOST_BYTES: u64 = Self::MOST_REGION * limits::MAX_REGIONS as u64;

    /// Returns the geometry for a file of `capacity`: 64 regions, of at least 1 MiB and at most 256
    /// MiB. An object must be smaller than a region.
    ///
    /// # Errors
    /// [`GeometryError`] below 8 MiB, and above 256 TiB.
    pub fn of(capacity: ByteSize) -> Result<Geometry, GeometryError> {
        let region =
            (capacity.bytes() / 64).clamp(Self::LEAST_REGION, Self::MOST_REGION) / 4096 * 4096;
        let regions = u32::try_from(capacity.bytes() / region).map_err(|_| GeometryError)?;
        Geometry::new(u32::try_from(region).map_err(|_| GeometryError)?, regions)
    }

    /// Returns the geometry of regions of `region_bytes`.
    ///
    /// # Errors
    /// [`GeometryError`] if the size is outside of [`limits`].
    pub fn new(region_bytes: u32, regions: u32) -> Result<Geometry, GeometryError> {
        let bytes = limits::MIN_REGION_BYTES..=limits::MAX_REGION_BYTES;
        let sound = bytes.contains(&region_bytes)
            && (limits::MIN_REGIONS..=limits::MAX_REGIONS).contains(&regions);
        sound
            .then_some(Geometry {
                region_bytes,
                regions,
            })
            .ok_or(GeometryError)
    }

    /// Returns the bytes of the whole file.
    pub fn file_bytes(&self) -> u64 {
        self.copy_at() + SUPERBLOCK as u64
    }

    /// Returns the position of the superblock's copy, after the last region.
    pub(crate) fn copy_at(&self) -> u64 {
        self.region_at(self.regions)
    }

    /// Returns the bytes that objects may take, with their headers.
    pub fn live_bytes(&self) -> u64 {
        let usable = u64::from(self.regions) - limits::FREE_REGIONS as u64 - 1;
        u64::from(self.region_bytes) * usable * LIVE_SHARE[0] / LIVE_SHARE[1]
    }

    /// Returns the length of the longest record, with its header and key.
    pub fn record_bytes(&self) -> u32 {
        self.region_bytes - HEADER - ENTRY - TRAILER - self.gap()
    }

    /// Returns the length of the longest value of a mark, which is written twice.
    pub(crate) fn ban_bytes(&self) -> u32 {
        (self.region_bytes - HEADER - 3 * ENTRY - TRAILER - 2 * self.gap()) / 2 - RECORD
    }

    /// Returns the bytes between two copies that keep them in different blocks. Only tests have
    /// regions that are too small for it.
    pub(crate) fn gap(&self) -> u32 {
        if self.region_bytes >= 4 * BLOCK {
            BLOCK
        } else {
            0
        }
    }

    /// Returns the number of regions.
    pub fn regions(&self) -> u32 {
        self.regions
    }

    pub(crate) fn region_bytes(&self) -> u32 {
        self.region_bytes
    }

    /// Returns the start of region `region` in the file.
    pub(crate) fn region_at(&self, region: u32) -> u64 {
        SUPERBLOCK as u64 + u64::from(region) * u64::from(self.region_bytes)
    }

    /// Returns the start of the entries in a region with this number of them. The trailer is at
    /// `footer_at(0)`.
    pub(crate) fn footer_at(&self, entries: u32) -> u32 {
        self.region_bytes - TRAILER - entries * ENTRY
    }

    /// Returns true if a region that is written up to `end`, with this number of records, has room
    /// for `count` more of `length` bytes together.
    pub(crate) fn fits(&self, end: u32, records: u32, length: u32, count: u32) -> bool {
        let records = u64::from(records) + u64::from(count);
        let footer = records * u64::from(ENTRY) + u64::from(TRAILER + self.gap());
        let needed = u64::from(end) + u64::from(length) + footer;
        needed <= u64::from(self.region_bytes) && records <= MAX_REGION_RECORDS as u64
    }
}

/// The identity of this log, from the host's entropy. It is drawn for a new log; an existing log
/// keeps its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Distinguishes this log's bytes from those of an earlier log in the same file.
    pub id: u64,
    /// The secret of the keys' hash. Without it, no client can make keys collide.
    pub hash_key: [u8; 16],
}

impl Identity {
    /// Returns the keyed hash of a key, because keys come from the network.
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&self.hash_key);
        hasher.write(key);
        hasher.finish()
    }

    /// Returns the seed of the checksums in a region's life.
    pub(crate) fn seed(&self, sequence: u64) -> u64 {
        xxh3_64_with_seed(&sequence.to_le_bytes(), self.id)
    }
}

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A key's value. It replaces the value with the same tag.
    Put = 1,
    /// A removal of all of a key's values.
    RemoveKey = 2,
    /// A removal of the value with this tag.
    RemoveVariant = 3,
    /// A mark of the owner. The value is the mark.
    Ban = 4,
    /// A removal of all records before it.
    Clear = 5,
    /// A put that reclaiming has written again. Until this is synced, the former record is still
    /// there.
    Moved = 6,
    /// A second copy of the mark before it.
    BanCopy = 7,
    /// No meaning.
    Padding = 8,
}

impl Kind {
    fn of(number: u32) -> Option<Kind> {
        use Kind::{Ban, BanCopy, Clear, Moved, Padding, Put, RemoveKey, RemoveVariant};
        [
            Put,
            RemoveKey,
            RemoveVariant,
            Ban,
            Clear,
            Moved,
            BanCopy,
            Padding,
        ]
        .into_iter()
        .find(|kind| *kind as u32 == number)
    }

    /// Returns true if key and value have a meaning.
    pub(crate) fn has_content(self) -> bool {
        matches!(self, Kind::Put | Kind::Moved | Kind::Ban | Kind::BanCopy)
    }
}

/// All fields of a record except its key and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FooterEntry {
    pub hash: u64,
    pub tag: u32,
    pub offset: u32,
    pub length: u32,
    pub kind: Kind,
}

pub(crate) fn superblock(geometry: Geometry, identity: Identity) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(SUPERBLOCK);
    bytes.extend_from_slice(SUPERBLOCK_MAGIC);
    bytes.extend_from_slice(&u64::from(geometry.region_bytes).to_le_bytes());
    bytes.extend_from_slice(&geometry.regions.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&identity.id.to_le_bytes());
    bytes.extend_from_slice(&identity.hash_key);
    let checksum = xxh3_64_with_seed(&bytes, 0);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes.resize(SUPERBLOCK, 0);
    bytes
}

/// Returns true for an intact superblock of another version.
fn is_of_another_version(bytes: &[u8]) -> bool {
    bytes.len() >= 56
        && !bytes.starts_with(SUPERBLOCK_MAGIC)
        && u64_at(bytes, 48) == xxh3_64_with_seed(&bytes[..48], 0)
}

/// Selects one of two superblocks. The second counts if the first is damaged. But if another
/// program has written the file's beginning since, the file does not belong to this log, although
/// its end is intact.
pub(crate) fn choose_superblock(first: &[u8], second: &[u8]) -> Superblock {
    let found = Superblock::read(first);
    let may_have_rotted = match found {
        Superblock::Ours(..) => false,
        Superblock::Blank => true,
        Superblock::Unusable => !is_of_another_version(first),
        Superblock::Foreign => first.get(8..) == second.get(8..),
    };
    match Superblock::read(second) {
        copy @ Superblock::Ours(..) if may_have_rotted => copy,
        _ => found,
    }
}

/// Returns true if a block of 4,096 bytes is the superblock of a log, which is at both ends of its
/// file.
pub fn is_superblock(block: &[u8]) -> bool {
    matches!(Superblock::read(block), Superblock::Ours(..))
}

/// The content of a file's first bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Superblock {
    Blank,
    Ours(Geometry, Identity),
    /// A log's superblock, of another version or damaged.
    Unusable,
    Foreign,
}

impl Superblock {
    pub(crate) fn read(bytes: &[u8]) -> Superblock {
        if bytes.iter().all(|byte| *byte == 0) {
            return Superblock::Blank;
        }
        if bytes.get(..6) != Some(b"LARDER") {
            return Superblock::Foreign;
        }
        let sound = bytes.len() >= 56
            && bytes.starts_with(SUPERBLOCK_MAGIC)
            && u64_at(bytes, 48) == xxh3_64_with_seed(&bytes[..48], 0);
        let region_bytes = sound
            .then(|| u32::try_from(u64_at(bytes, 8)).ok())
            .flatten();
        let geometry =
            region_bytes.and_then(|region| Geometry::new(region, u32_at(bytes, 16)).ok());
        let Some(geometry) = geometry else {
            return Superblock::Unusable;
        };
        let hash_key = std::array::from_fn(|at| bytes[32 + at]);
        Superblock::Ours(
            geometry,
            Identity {
                id: u64_at(bytes, 24),
                hash_key,
            },
        )
    }
}

/// The header or the trailer of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RegionEnd {
    pub sequence: u64,
    /// In the trailer: the number of records of the region.
    pub entries: Option<u32>,
}

impl RegionEnd {
    pub(crate) fn encode(&self, identity: &Identity) -> [u8; HEADER as usize] {
        let mut bytes = [0; HEADER as usize];
        bytes[..4].copy_from_slice(if self.entries.is_some() {
            TRAILER_MAGIC
        } else {
            HEADER_MAGIC
        });
        bytes[4..8].copy_from_slice(&self.entries.unwrap_or(0).to_le_bytes());
        bytes[8..16].copy_from_slice(&identity.id.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        let checksum = xxh3_64_with_seed(&bytes[..24], identity.seed(self.sequence));
        bytes[24..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Returns `None` if the bytes are not those of a region of this log.
    pub(crate) fn read(bytes: &[u8], identity: &Identity) -> Option<RegionEnd> {
        let bytes = bytes.get(..HEADER as usize)?;
        let entries = bytes.starts_with(TRAILER_MAGIC).then(|| u32_at(bytes, 4));
        let end = RegionEnd {
            sequence: u64_at(bytes, 16),
            entries,
        };
        // The index has 32 bits of the sequence number, which suffice for the life of any disk.
        let is_whole = end.encode(identity) == bytes && (1..1 << 32).contains(&end.sequence);
        is_whole.then_some(end)
    }
}

/// A record's header, with its checksum.
pub(crate) struct RecordHead<'a> {
    pub kind: Kind,
    pub tag: u32,
    pub offset: u32,
    pub hash: u64,
    pub key: &'a [u8],
    pub value: &'a [Bytes],
    /// Bytes without a meaning after key and value.
    pub filler: u32,
}

impl RecordHead<'_> {
    pub(crate) fn encode(&self, seed: u64) -> [u8; RECORD as usize] {
        let mut head = [0; RECORD as usize];
        head[..4].copy_from_slice(RECORD_MAGIC);
        head[4..8].copy_from_slice(&(self.kind as u32).to_le_bytes());
        head[8..12].copy_from_slice(&self.tag.to_le_bytes());
        head[12..16].copy_from_slice(&within_region(self.key.len()).to_le_bytes());
        let value_bytes: usize = self.value.iter().map(Bytes::len).sum();
        head[16..20].copy_from_slice(&(within_region(value_bytes) + self.filler).to_le_bytes());
        head[20..24].copy_from_slice(&self.offset.to_le_bytes());
        head[24..32].copy_from_slice(&self.hash.to_le_bytes());
        let mut checksum = Xxh3::with_seed(seed);
        checksum.update(&head[..32]);
        if self.kind.has_content() {
            checksum.update(self.key);
            for piece in self.value {
                checksum.update(piece);
            }
        }
        head[32..].copy_from_slice(&checksum.digest().to_le_bytes());
        head
    }
}

/// A record that was read.
pub(crate) struct Record {
    pub kind: Kind,
    pub tag: u32,
    pub hash: u64,
    pub length: u32,
    pub key: Bytes,
    pub value: Bytes,
}

/// Returns the length of the record that begins with these bytes, if they may begin one.
pub(crate) fn record_length(head: &[u8]) -> Option<u64> {
    let head = head
        .get(..RECORD as usize)
        .filter(|head| head.starts_with(RECORD_MAGIC))?;
    Some(u64::from(RECORD) + u64::from(u32_at(head, 12)) + u64::from(u32_at(head, 16)))
}

/// The check of a record whose bytes arrive in pieces.
pub(crate) struct RecordCheck {
    sum: u64,
    checksum: Xxh3,
}

impl RecordCheck {
    /// Begins the check of a record with this header at `offset`, with this number of bytes of key
    /// and value. Also returns the value's length.
    pub(crate) fn begin(
        head: &[u8],
        offset: u32,
        length: u32,
        key_bytes: usize,
        seed: u64,
    ) -> Option<(RecordCheck, u32)> {
        let fits = record_length(head)? == u64::from(length)
            && matches!(Kind::of(u32_at(head, 4)), Some(Kind::Put | Kind::Moved))
            && u32_at(head, 12) as usize == key_bytes
            && u32_at(head, 20) == offset;
        let mut checksum = Xxh3::with_seed(seed);
        checksum.update(&head[..32]);
        fits.then(|| {
            (
                RecordCheck {
                    sum: u64_at(head, 32),
                    checksum,
                },
                u32_at(head, 16),
            )
        })
    }

    /// Adds the next bytes after the header.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.checksum.update(bytes);
    }

    /// Returns true if all bytes match the checksum.
    pub(crate) fn is_whole(&self) -> bool {
        self.checksum.digest() == self.sum
    }
}

/// Returns the record at the start of `bytes`, if it is intact and was written to this position in
/// this life of the region.
pub(crate) fn read_record(bytes: &Bytes, offset: u32, seed: u64) -> Option<Record> {
    let whole = u32::try_from(record_length(bytes)?).ok()?;
    let length = Some(whole as usize).filter(|length| *length <= bytes.len())?;
    let kind = Kind::of(u32_at(bytes, 4))?;
    let mut checksum = Xxh3::with_seed(seed);
    checksum.update(&bytes[..32]);
    if kind.has_content() {
        checksum.update(&bytes[RECORD as usize..length]);
    }
    if u32_at(bytes, 20) != offset || u64_at(bytes, 32) != checksum.digest() {
        return None;
    }
    let value_at = RECORD as usize + u32_at(bytes, 12) as usize;
    Some(Record {
        kind,
        tag: u32_at(bytes, 8),
        hash: u64_at(bytes, 24),
        length: whole,
        key: bytes.slice(RECORD as usize..value_at),
        value: bytes.slice(value_at..length),
    })
}

impl FooterEntry {
    /// Returns the head of a record that takes the place of this one, with this value and no key.
    pub(crate) fn without_key<'a>(&self, value: &'a Bytes) -> RecordHead<'a> {
        RecordHead {
            kind: self.kind,
            tag: self.tag,
            offset: self.offset,
            hash: self.hash,
            key: &[],
            value: std::slice::from_ref(value),
            filler: self.length - RECORD - within_region(value.len()),
        }
    }

    /// Returns the start of the next record.
    pub(crate) fn end(&self) -> u32 {
        self.offset + self.length
    }

    /// Encodes the entry with this `number` of a region with this seed.
    pub(crate) fn encode(&self, number: u32, seed: u64) -> [u8; ENTRY as usize] {
        let mut bytes = [0; ENTRY as usize];
        bytes[..8].copy_from_slice(&self.hash.to_le_bytes());
        for (at, field) in [self.tag, self.offset, self.length, self.kind as u32]
            .into_iter()
            .enumerate()
        {
            bytes[8 + 4 * at..12 + 4 * at].copy_from_slice(&field.to_le_bytes());
        }
        let checksum = entry_checksum(&bytes, number, seed);
        bytes[24..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Returns the entry with this `number`, if it is intact.
    pub(crate) fn read(bytes: &[u8], number: u32, seed: u64) -> Option<FooterEntry> {
        let bytes = bytes.get(..ENTRY as usize)?;
        if u64_at(bytes, 24) != entry_checksum(bytes, number, seed) {
            return None;
        }
        let (offset, length) = (u32_at(bytes, 12), u32_at(bytes, 16));
        let kind = Kind::of(u32_at(bytes, 20))?;
        Some(FooterEntry {
            hash: u64_at(bytes, 0),
            tag: u32_at(bytes, 8),
            offset,
            length,
            kind,
        })
    }
}

fn entry_checksum(bytes: &[u8], number: u32, seed: u64) -> u64 {
    let mut checked = [0; 28];
    checked[..24].copy_from_slice(&bytes[..24]);
    checked[24..].copy_from_slice(&number.to_le_bytes());
    xxh3_64_with_seed(&checked, seed)
}

/// Decodes arbitrary bytes as every structure of a disk. For the fuzz target: no input may panic.
pub fn parse_anything(bytes: &[u8]) -> bool {
    let identity = Identity {
        id: 1,
        hash_key: [0; 16],
    };
    let (first, second) = bytes.split_at(bytes.len() / 2);
    let record = read_record(&Bytes::copy_from_slice(bytes), HEADER, identity.seed(1));
    matches!(Superblock::read(bytes), Superblock::Ours(..))
        || matches!(choose_superblock(first, second), Superblock::Ours(..))
        || RegionEnd::read(bytes, &identity).is_some()
        || record.is_some()
        || FooterEntry::read(bytes, 0, identity.seed(1)).is_some()
}

/// Returns a length or a number of records in a region as its 32 bits on disk.
///
/// # Panics
/// If it exceeds every region ([`limits::MAX_REGION_BYTES`]). Longer records are refused before.
pub(crate) fn within_region(number: usize) -> u32 {
    u32::try_from(number).expect("it lies in a region")
}

/// Reads a number. The callers have checked the length.
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const IDENTITY: Identity = Identity {
        id: 7,
        hash_key: [3; 16],
    };

    fn geometry() -> Geometry {
        Geometry::new(4096, 8).unwrap()
    }

    #[test]
    fn sizes() {
        let of = |mib| {
            Geometry::of(ByteSize::from_mib(mib))
                .map(|found| (found.region_bytes >> 20, found.regions))
        };
        assert_eq!(
            (of(7), of(8), of(64), of(100)),
            (Err(GeometryError), Ok((1, 8)), Ok((1, 64)), Ok((1, 64)))
        );
        assert_eq!((of(6400), of(1 << 20)), (Ok((100, 64)), Ok((256, 4096))));
        assert!(Geometry::of(ByteSize::from_bytes(u64::MAX)).is_err());
    }

    /// Failure: a changed byte on the disk, or a record of another position or time, is accepted.
    #[test]
    fn every_changed_bit_is_seen() {
        let value = [Bytes::from_static(b"head"), Bytes::from_static(b"body")];
        let head = RecordHead {
            kind: Kind::Put,
            tag: 5,
            offset: 32,
            hash: 9,
            key: b"key",
            value: &value,
            filler: 0,
        };
        let seed = IDENTITY.seed(4);
        let bytes = [&head.encode(seed)[..], b"key", b"headbody"].concat();
        let read =
            |bytes: &[u8], offset, seed| read_record(&Bytes::copy_from_slice(bytes), offset, seed);
        let record = read(&bytes, 32, seed).unwrap();
        assert_eq!(
            (&record.key[..], &record.value[..], record.tag),
            (&b"key"[..], &b"headbody"[..], 5)
        );
        assert!(read(&bytes, 33, seed).is_none() && read(&bytes, 32, IDENTITY.seed(5)).is_none());
        assert!(read(&bytes[..bytes.len() - 1], 32, seed).is_none());
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&changed, 32, seed).is_none(), "bit {bit}");
        }
        let entry = FooterEntry {
            hash: 9,
            tag: 5,
            offset: 32,
            length: 51,
            kind: Kind::Put,
        };
        let bytes = entry.encode(3, seed);
        assert_eq!(FooterEntry::read(&bytes, 3, seed).unwrap(), entry);
        assert!(
            FooterEntry::read(&bytes, 4, seed).is_none()
                && FooterEntry::read(&bytes, 3, seed + 1).is_none()
        );
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(FooterEntry::read(&changed, 3, seed).is_none(), "bit {bit}");
        }
        for entries in [None, Some(7)] {
            let end = RegionEnd {
                sequence: 4,
                entries,
            };
            let bytes = end.encode(&IDENTITY);
            assert_eq!(RegionEnd::read(&bytes, &IDENTITY), Some(end));
            for bit in 0..bytes.len() * 8 {
                let mut changed = bytes;
                changed[bit / 8] ^= 1 << (bit % 8);
                assert!(RegionEnd::read(&changed, &IDENTITY).is_none(), "bit {bit}");
            }
        }
        let bytes = superblock(geometry(), IDENTITY);
        assert_eq!(
            Superblock::read(&bytes),
            Superblock::Ours(geometry(), IDENTITY)
        );
        for bit in 0..56 * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(
                !matches!(
                    Superblock::read(&changed),
                    Superblock::Ours(..) | Superblock::Blank
                ),
                "bit {bit}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), magic in 0..4_usize) {
            let magic: &[u8] = [&b""[..], SUPERBLOCK_MAGIC, RECORD_MAGIC, TRAILER_MAGIC][magic];
            parse_anything(&[magic, &bytes].concat());
        }
    }
}
