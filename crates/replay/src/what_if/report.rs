//! The result of the analysis.

use serde::Serialize;

/// The estimate for a policy at a size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WhatIfCell {
    /// The policy.
    pub policy: String,
    /// The capacity in bytes.
    pub capacity: u64,
    /// Hits ÷ requests.
    pub object_hit_ratio: f64,
    /// The true ratio is this close with 95 % confidence.
    pub object_error: f64,
    /// Bytes of the requests that hit ÷ bytes of all requests.
    pub byte_hit_ratio: f64,
    /// The error of `byte_hit_ratio`, as in `object_error`.
    pub byte_error: f64,
    /// True if the errors are lower bounds: see
    /// [`Point::error_is_least`](crate::Point::error_is_least).
    pub error_is_least: bool,
    /// The share of the keys in the sample.
    pub rate: f64,
}

/// The statistics of [`WhatIf`](super::WhatIf) for the last hour.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WhatIfReport {
    /// The seconds that the statistics cover.
    pub seconds: f64,
    /// Requests in this time, in the sample or not.
    pub requests: u64,
    /// The results of the cache itself.
    pub measured: Measured,
    /// Each policy at each size, from the smallest to the largest.
    pub cells: Vec<WhatIfCell>,
}

/// The hit ratios of the cache itself, by the same count as those of the cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Measured {
    /// Hits ÷ requests.
    pub object_hit_ratio: f64,
    /// Bytes of the requests that hit ÷ bytes of all requests.
    pub byte_hit_ratio: f64,
}
