//! The second tier of a cache, on a disk: a log of regions, reclaimed first in, first out, with the
//! policy engine.
//!
//! The crate is the log's state machine. It positions records, keeps the index, selects the next
//! write, sync and read, and rebuilds itself from the disk. It is not a host: it opens no file,
//! starts no thread and reads no clock. `larder-tier-host` does that, and a test runs it on a disk
//! that tears, reorders and forgets writes. Read [`Log`] first, then [`Job`].
//!
//! ```text
//!  owner ── put, remove, ban ───► Log ── job ──► Job::run(&Storage) ── complete ──► Log       (one thread, one job at a time)
//!        ── look_up ────────────► Lookup::run(&Storage) ── finish ──► FoundRecord             (any thread, any number)
//!
//!  file:   superblock │ region │ region │ region … │ copy of the superblock
//!  region: header │ record record record …  ··· entry entry entry │ trailer, or copy of the header
//! ```
//!
//! # Guarantees
//! * No torn value is served: a record has a checksum over itself, its position and the life of its
//!   region, and its whole key is compared.
//! * No removed value comes back: removals are records too. All records that were synced before a
//!   crash are there after it. Later records may be lost: at most those of the last
//!   [`limits::SYNC_AFTER`] and of the time that the disk took for them. [`Log::settle`] shortens
//!   this.
//! * One fault of the disk, a damaged or unreadable block, only loses the values in this block:
//!   every fact except a value is written twice, in different blocks. No removed value comes back
//!   because of it. After a crash, a value that was about to be replaced may be lost, too.
//! * A write or sync that fails ends the log, because after a failed sync the content of the disk
//!   is unknown. The cache above continues without it.
//!
//! # What is missing
//! A log of another size than the file starts empty. Two faults that affect the same fact cost
//! more: if the records or headers of a region are lost, it is dropped with all older ones, because
//! it may have had removals. If both headers of the *newest* region are lost, they look like
//! headers that were never written, and values that the region removed come back.
//!
//! ```
//! use larder_disk::{Config, Geometry, Identity, Log, MemoryStorage};
//! use larder_units::{ByteSize, Streams, Time};
//!
//! let geometry = Geometry::of(ByteSize::from_mib(16)).unwrap();
//! let config = Config { geometry, policy: "fifo".parse().unwrap(), queue_bytes: 1 << 20 };
//! let storage = MemoryStorage::default();
//! let identity = Identity { id: 1, hash_key: [7; 16] }; // from the host's entropy
//! let (mut log, _) = Log::open(&storage, &config, identity, (), &Streams::new(1), Time::ZERO).unwrap();
//!
//! log.put(b"key", 0, [b"head".as_slice().into(), b"body".as_slice().into()], Time::ZERO);
//! let ticket = log.settle(Time::ZERO);
//! while let Some(job) = log.job(Time::ZERO) {
//!     let done = job.run(&storage);
//!     log.complete(done, Time::ZERO);
//! }
//! assert!(log.is_settled(ticket));
//! drop(log);
//!
//! let (mut log, _) = Log::open(&storage, &config, identity, (), &Streams::new(1), Time::ZERO).unwrap();
//! let lookup = log.look_up(b"key", None).unwrap();
//! let found = lookup.run(&storage, lookup.room());
//! assert_eq!(log.finish(&lookup, found).unwrap().value, "headbody");
//! ```
#![forbid(unsafe_code)]
#![deny(clippy::cast_possible_truncation, clippy::cast_sign_loss)]

mod bans;
mod counters;
mod index;
mod job;
mod layout;
pub mod limits;
mod log;
mod lookup;
mod open;
mod parts;
mod queue;
mod recovery;
mod schedule;
mod storage;
mod superseded;

pub use bans::{BanVerdict, Bans};
pub use counters::Counters;
pub use job::{Done, Job};
pub use layout::{Geometry, GeometryError, Identity, is_superblock};
pub use log::{Config, Log, Put};
pub use lookup::{FoundRecord, Lookup, ReadError};
pub use open::{OpenError, Opened};
pub use parts::Parts;
pub use storage::{MemoryStorage, Storage};

#[doc(hidden)]
pub use layout::parse_anything;
