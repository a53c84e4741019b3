//! Threshold: admits if size ≤ c, for a fixed c. It is AdaptSize's Threshold without its tuning,
//! and the Static of the paper's evaluation (Berger, Sitaraman and Harchol-Balter, AdaptSize, NSDI
//! 2017, sections 3.1 and 5.3).
//!
//! The rule is that of [`super::size`], with the paper's name and parameter, so that both forms are
//! written alike: `threshold(c=64KiB)`, `expsize(c=64KiB)`. O(1); no state: 0 bytes an object.

use super::size::Size;
use crate::entry::{Build, PolicyEntry};
use crate::parameters::{Parameter, Preset, Values};

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "threshold",
    citation: "Berger, Sitaraman, Harchol-Balter, AdaptSize: orchestrating the hot object memory cache in a content delivery network, NSDI 2017 (sections 3.1, 5.3)",
    summary: "admits where size <= c, c fixed",
    parameters: &[Parameter {
        name: "c",
        unit: "bytes",
        values: Values::Bytes(1, u64::MAX),
        default: Preset::Value("32KiB"),
        doc: "the largest size that is admitted",
    }],
    complexity: "O(1)",
    bytes_an_object: 0,
    needs_path: false,
    build: Build::Admission(|arguments, context| {
        Ok(Box::new(Size {
            scale: context.scale,
            max: arguments.get("c").unwrap_or(32 << 10),
        }))
    }),
};
