//! A cache's second tier on a disk: a log of regions, reclaimed first in, first out, under the
//! policy engine.
//!
//! What it is: the log's state machine. It places records, keeps the index, says what is to be
//! written, synced and read next, and rebuilds itself from what is on the disk. What it is not: a
//! host. It opens no file, starts no thread and reads no clock; `larder-node` does that around it,
//! and a test drives it over a disk that tears, reorders and forgets writes. Read [`Log`] first,
//! then [`Job`].
//!
//! ```text
//!  owner ── put, remove, mark ──► Log ── job ──► Job::run(&Storage) ── complete ──► Log       (one thread, one job at a time)
//!        ── look_up ────────────► Lookup::run(&Storage) ── finish ──► Recalled                (any thread, any number)
//!
//!  file:   superblock │ region │ region │ region … │ copy of the superblock
//!  region: header │ record record record …  ··· entry entry entry │ trailer, or copy of the header
//! ```
//!
//! # What it promises
//! * Nothing torn is served: a record bears a checksum over itself, its place and the life of its
//!   region, and its whole key is compared.
//! * Nothing removed comes back: removals are records too. What was synced before a crash is there
//!   after it, what came later may be lost: at most what was appended in the last
//!   [`limits::SYNC_AFTER`] and the time that the disk took for it. [`Log::settle`] waits for less.
//! * One fault of the disk, a block that rots or cannot be read, costs the values that stand there
//!   and nothing else: every fact but a value stands twice, in different blocks. Nothing removed
//!   comes back by it. After a crash, a value that was about to be replaced may be gone, too.
//! * A write or sync that fails ends the log: after a failed sync nobody knows what is on the disk.
//!   The cache above goes on without it.
//!
//! # What is missing
//! A log of another size than the file has begins empty. Two faults that concern the same fact cost
//! more: a region whose records or headers are lost is dropped with all that is older, since it may
//! have held removals, and of the *newest* region both headers look like ones that were never
//! written: what that region removed would come back.
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

mod bans;
mod counters;
mod index;
mod job;
mod layout;
pub mod limits;
mod log;
mod open;
mod parts;
mod queue;
mod reclaim;
mod recovery;
mod schedule;
mod storage;
mod superseded;

pub use bans::{BanVerdict, Bans};
pub use counters::Counters;
pub use job::{Done, Job};
pub use layout::{Geometry, GeometryError, Identity, is_superblock};
pub use log::{Config, FoundRecord, Log, Lookup, Put, ReadError};
pub use open::{OpenError, Opened};
pub use parts::Parts;
pub use storage::{MemoryStorage, Storage};

#[doc(hidden)]
pub use layout::parse_anything;
