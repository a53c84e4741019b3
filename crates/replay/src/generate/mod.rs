//! Generated traffic, from published tables and properties of traces that are not public.
//!
//! Every generator is an iterator of [`crate::Access`] and gives the same requests for the same
//! seed. Most are endless; the caller takes as many as it needs. Catalogues are numbered from the
//! most popular object, except [`Joint`]'s.

mod arrivals;
mod cdn;
mod flash_crowd;
mod joint;
mod mix;
mod traffic_mix;
mod video;
mod web;
mod windows;

pub use cdn::{Cdn, CdnRequests};
pub use flash_crowd::{CrowdShape, FlashCrowd, FlashCrowdRequests};
pub use joint::{Joint, JointRequests, TableError};
pub use mix::{Mix, MixRequests};
pub use traffic_mix::{Class, TrafficMix, TrafficMixRequests};
pub use video::{Video, VideoRequests};
pub use web::{Web, WebRequests};
pub use windows::{Windows, gather};

use std::fmt;

/// A parameter of a generator that cannot produce traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterError {
    parameter: &'static str,
    needed: &'static str,
}

impl ParameterError {
    /// Returns the error of [`crate::Zipf`].
    fn popularity() -> Self {
        ParameterError {
            parameter: "objects, exponent, shift",
            needed: "at least one object, a positive exponent and a shift from 0 to 1e12 are needed",
        }
    }
}

impl fmt::Display for ParameterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.parameter, self.needed)
    }
}

impl std::error::Error for ParameterError {}
