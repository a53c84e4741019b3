//! The host of a disk tier (`larder-disk`): a log in a file, one thread that writes and syncs, and
//! several that read.
//!
//! What it is: the second tier of the HTTP cache and of the Content Store, with its figures. What
//! it is not: the format of the log, which tests run over a disk that fails; and no cache: it knows
//! keys and bytes.
//!
//! ```text
//!  cache ── put, remove, ban ──► Log (a mutex, held for no IO) ◄── job, complete ── thread "disk"
//!        ── tier_lookup, read_part ── bounded queue ──► threads "disk-read": pread, checksum ──► caller
//! ```
//!
//! A million objects of 1 KB are available 0.3 s after the start, from the page cache.
//! `benches/disk.rs` measures the cost of the threads.
//!
//! A disk that fails, at the start or later, is no longer used, and one line is logged. The tier is
//! empty from then on, and its file is truncated, because the file does not know later removals.
//!
//! Read [`Disk`] first, then [`DiskConfig`].
#![forbid(unsafe_code)]

mod disk;
mod error;
pub mod limits;

pub use disk::{Asked, Disk, DiskConfig, DiskFigures, Found, check, metrics, status};
pub use error::{Error, Problem};
