//! The list of policies.

use crate::trace::wrong;
use larder_policy::{Kind, Spec, registry};
use pyo3::prelude::*;
use serde::Serialize;

/// A policy, as the table of `larder_cache.policies()` has it.
#[derive(Serialize)]
struct Entry {
    name: &'static str,
    kind: &'static str,
    offline: bool,
    summary: &'static str,
    parameters: Vec<String>,
    citation: &'static str,
    complexity: &'static str,
    bytes_an_object: u32,
}

/// Returns one JSON object for each registered policy.
#[pyfunction]
pub fn policies() -> Vec<String> {
    let entry = |policy: &larder_policy::PolicyEntry| Entry {
        name: policy.name,
        kind: match policy.kind() {
            Kind::Admission => "admission",
            Kind::Eviction => "eviction",
        },
        offline: policy.is_offline(),
        summary: policy.summary,
        parameters: policy
            .parameters
            .iter()
            .map(|parameter| parameter.name.to_owned())
            .collect(),
        citation: policy.citation,
        complexity: policy.complexity,
        bytes_an_object: policy.bytes_an_object,
    };
    registry()
        .iter()
        .filter_map(|policy| serde_json::to_string(&entry(policy)).ok())
        .collect()
}

/// Returns a spec as the rows have it: `S3-FIFO` is `s3fifo`.
#[pyfunction]
pub fn canonical_spec(spec: &str) -> PyResult<String> {
    Ok(spec.parse::<Spec>().map_err(wrong)?.to_string())
}
