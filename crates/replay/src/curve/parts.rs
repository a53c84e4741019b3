//! The parts of a cache that a policy treats by themselves.

use larder_policy::Spec;

/// Evictions that treat a small part of the cache by itself, and how many such parts it has. An
/// object that does not fit into W-TinyLFU's window skips it, so that a miniature whose window is
/// smaller than many objects hits .02 to .03 more. With 100 it takes half as many requests again.
const PARTS: [(&str, f64); 1] = [("w-tinylfu", 25.0)];

/// Returns the number of equal parts of the size of the smallest part that the policy treats by
/// itself.
pub(super) fn parts(spec: &Spec) -> f64 {
    let spec = spec.to_string();
    let found = PARTS.iter().find(|(name, _)| *name == eviction(&spec));
    found.map_or(1.0, |(_, parts)| *parts)
}

/// Returns the last stage of a spec, without its arguments.
pub(super) fn eviction(spec: &str) -> &str {
    let last = spec.rsplit('+').next().unwrap_or(spec);
    last.split('(').next().unwrap_or(last)
}
