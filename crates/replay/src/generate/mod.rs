//! Traffic that is made, not recorded: by published tables and properties, where the traces
//! themselves are not public.
//!
//! Every generator is an iterator of [`crate::Access`] and the same for the same seed; most are
//! endless, so take as many as you want. Catalogues are numbered from the most popular object,
//! except [`Joint`]'s.

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
pub use windows::gather;

use std::fmt;

/// A generator's parameter that makes no traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterError {
    parameter: &'static str,
    needed: &'static str,
}

impl ParameterError {
    /// Of [`crate::Zipf`].
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
