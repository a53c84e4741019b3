//! The live what-if analysis: other policies and sizes of a cache, on the requests that it gets.
//!
//! What it is: a thread that takes a sample of the requests of an [`ObservedCache`] some times a
//! second, runs miniature caches on it ([`larder_replay::WhatIf`]), and reports what they would
//! hit. It also sends the sample as lines of a trace, for captures. What it is not: a cache, or a
//! part of HTTP or NDN. Each of their caches has an analysis of its own.
//!
//! ```text
//!  cache ── sample of requests ──► thread "what-if" ─┬─► miniature caches ──► status page, metrics
//!           ten times a second                       └─► captures, as lines of a trace
//! ```
//!
//! Read [`LiveWhatIf`] first, then [`ObservedCache`].
#![forbid(unsafe_code)]

mod analysis;
mod capture;
pub mod limits;

pub use analysis::{CacheState, LiveWhatIf, ObservedCache};
