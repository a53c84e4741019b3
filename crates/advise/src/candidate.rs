//! A policy at a size.

use crate::gathering::Traffic;
use larder_policy::Spec;
use larder_replay::Point;
use serde::Serialize;

/// A policy at a size, and what it would hit.
#[derive(Clone, Debug, Serialize)]
pub struct Candidate {
    /// The spec.
    pub policy: String,
    /// Bytes, or objects if they have no sizes.
    pub capacity: u64,
    /// The share of the requests that hit.
    pub object_hit_ratio: f64,
    /// Its error with 95 % of confidence; 0 if exact.
    pub object_error: f64,
    /// The share of the bytes that hit; without sizes, every object has one byte.
    pub byte_hit_ratio: f64,
    /// Its error with 95 % of confidence; 0 if exact.
    pub byte_error: f64,
    /// True if the policy behaves otherwise in a small cache than in a large one: then the true
    /// errors are larger than those stated.
    pub error_is_least: bool,
}

impl Candidate {
    /// The cache counted the overhead of every object as bytes of it. The byte hit ratio is that of
    /// the bodies: their missed bytes are the missed bytes without the overhead of the missed
    /// objects.
    pub(crate) fn new(spec: &Spec, point: Point, traffic: &Traffic) -> Candidate {
        let overhead = traffic.requests as f64 * traffic.overhead as f64;
        let all = traffic.requested_bytes + overhead;
        let missed = (1.0 - point.byte_hit_ratio) * all - (1.0 - point.object_hit_ratio) * overhead;
        let (byte_hit_ratio, scale) = if traffic.requested_bytes > 0.0 {
            (
                1.0 - missed / traffic.requested_bytes,
                all / traffic.requested_bytes,
            )
        } else {
            (0.0, 0.0)
        };
        Candidate {
            policy: spec.to_string(),
            capacity: point.capacity,
            object_hit_ratio: point.object_hit_ratio,
            object_error: point.object_error,
            byte_hit_ratio: byte_hit_ratio.clamp(0.0, 1.0),
            byte_error: point.byte_error * scale,
            error_is_least: point.error_is_least,
        }
    }
}
