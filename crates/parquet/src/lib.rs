//! Traces in Parquet files, the format of dataframes and of data lakes; isolates the crate
//! `parquet`.
//!
//! [`ENTRY`] is a format for [`larder_replay::FormatRegistry`], and [`ParquetWriter`] writes such
//! files. Both hold a bounded part of a file in memory.
//!
//! ```
//! use larder_parquet::{ENTRY, ParquetWriter};
//! use larder_replay::{Access, FormatRegistry, Trace};
//! use larder_units::Time;
//!
//! let file = tempfile::NamedTempFile::new().unwrap();
//! let access = Access { id: 7, size: 100, now: Time::from_secs(1) };
//! let mut writer = ParquetWriter::new(file.reopen().unwrap()).unwrap();
//! writer.write(&access).unwrap();
//! writer.finish().unwrap();
//!
//! let formats = FormatRegistry::builtin().register(&ENTRY).unwrap();
//! let trace = Trace::open(file.path(), formats.get("parquet")).unwrap();
//! assert_eq!(trace.map(Result::unwrap).collect::<Vec<_>>(), [access]);
//! ```

#![deny(unsafe_code, clippy::cast_possible_truncation, clippy::cast_sign_loss)]

mod arrow_schema;
mod column;
pub mod limits;
mod read;
mod write;

pub use read::ENTRY;
pub use write::{ParquetWriter, WriteError};
