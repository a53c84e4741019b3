//! Quantities and random streams, for every layer of Larder.
//!
//! * [`Time`]: nanoseconds since the host's start. No crate below the hosts reads a clock; a `Time`
//!   is an argument.
//! * [`ByteSize`], [`BitRate`], [`Ratio`]: parsed from and printed in the notation that people
//!   write: `64MiB`, `1Gbps`, `35%`.
//! * [`parse_duration`] and [`format_duration`]: `10ms`, `1.5s`, `2h`, for [`std::time::Duration`].
//! * [`parsed`] and [`from_text`]: readers of such values for serde.
//! * [`allocated`]: the memory that an allocator takes for a number of bytes.
//! * [`rounded`]: numbers of bytes, shares and lengths of time, rounded for people.
//! * [`Streams`] and [`Stream`]: random streams by name and seed, so that a new component does not
//!   change the draws of others.
//!
//! The crate knows no terms of networks or caches (packet, cache, face).
//!
//! ```
//! use larder_units::{ByteSize, Streams, Time};
//! use std::time::Duration;
//!
//! let size: ByteSize = "64MiB".parse().unwrap();
//! assert_eq!(size.bytes(), 64 << 20);
//! assert_eq!(size.to_string(), "64MiB");
//!
//! let later = Time::ZERO + Duration::from_millis(10);
//! assert_eq!(later.since(Time::ZERO), Duration::from_millis(10));
//!
//! let mut coin = Streams::new(1).stream("coin");
//! assert!((0.0..1.0).contains(&coin.unit()));
//! ```
#![forbid(unsafe_code)]

mod allocation;
mod chance;
mod deserialize;
mod quantity;
pub mod rounded;
mod system_message;
mod time;

pub use allocation::allocated;
pub use chance::{Stream, Streams};
pub use deserialize::{from_text, optional_path, parsed};
pub use quantity::{BitRate, ByteSize, Ratio, UnitError};
pub use system_message::system_message;
pub use time::{Time, format_duration, parse_duration};
