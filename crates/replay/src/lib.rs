//! Runs traces through the policy engine, to measure the hits of a cache.
//!
//! The crate has readers of trace files ([`Trace`]), the replay loop ([`Replay`]) over the same
//! engine that the node runs, and its results ([`Row`]). [`Sweep`] replays several caches over one
//! reading; the host owns the threads. The crate does not simulate a network, and reads no clock:
//! the host measures the speed.
//!
//! ```text
//!   file ──► decompress ──► Format's reader ──► Access{id, size, now} ──► Replay: index u64→Slot over Engine ──► Row
//!            zstd, xz, gzip line or byte of every error
//! ```
//!
//! ```
//! use larder_replay::{Trace, replay};
//! use larder_units::ByteSize;
//!
//! let text = "# time, object, size\n0, 7, 60\n1, 8, 60\n2, 8, 60\n3, 7, 60\n";
//! let trace = Trace::read(text.as_bytes(), "example.csv", None).unwrap();
//! let accesses: Result<Vec<_>, _> = trace.collect();
//! let row = replay("example.csv", accesses.unwrap(), &"lru".parse().unwrap(), ByteSize::from_bytes(100), 1).unwrap();
//! assert_eq!((row.requests, row.hits), (4, 1));
//! ```
#![forbid(unsafe_code)]

mod access;
mod breakdown;
mod curve;
mod fleet;
mod generate;
pub mod limits;
pub mod model;
mod replay;
mod row;
mod size;
pub mod survey;
mod sweep;
mod trace;
mod unit;
mod what_if;
mod zipf;

pub use access::Access;
pub use breakdown::{Breakdown, Evictions, Figures, Part, Window};
pub use curve::{
    Curve, KeptSample, LruCurve, Miniature, Misses, Point, Sample, Sampled, Simulated, spaced_sizes,
};
pub use fleet::{FleetCounts, FleetReplay};
pub use generate::{
    Cdn, CdnRequests, Class, CrowdShape, FlashCrowd, FlashCrowdRequests, Joint, JointRequests, Mix,
    MixRequests, ParameterError, TableError, TrafficMix, TrafficMixRequests, Video, VideoRequests,
    Web, WebRequests, Windows, gather,
};
pub use replay::{Counts, Events, Replay, replay};
pub use row::Row;
pub use size::{Size, SizeError};
pub use survey::Survey;
pub use sweep::{EndsOnPanic, Sweep};
pub use trace::{
    BadLines, ColumnNames, ColumnNamesError, ColumnPlaces, Format, FormatEntry, FormatError,
    FormatRegistry, LineOptions, Lines, LogFormat, LogFormatError, LogOptions, Open, Place,
    ReadError, ReadOptions, ReaderReport, Requests, TimeUnit, TimeUnitError, Trace, TraceBytes,
    TraceError, TraceProblem, TraceReader, TraceReport, TraceWriter, UrlPattern, WriteError,
    WriteFormat, WriteFormatError, link_next_accesses, name_hash,
};
pub use unit::Unit;
pub use what_if::{Measured, WHAT_IF_POLICIES, WHAT_IF_SIZES, WhatIf, WhatIfCell, WhatIfReport};
pub use zipf::Zipf;
