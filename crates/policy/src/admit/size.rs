//! Size: admits an object that is not larger than a fixed threshold. It is the static form of
//! AdaptSize's Threshold.
//!
//! O(1) a request; no state: 0 bytes an object.

use crate::Request;
use crate::entry::{Build, PolicyEntry};
use crate::parameters::{Parameter, Preset, Values};
use crate::scale::Scale;
use crate::traits::{Admit, Cache, Policy};

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "size",
    citation: "Abrams et al., Caching proxies: limitations and potentials, WWW 1995 (LRU-Threshold)",
    summary: "admits objects up to a fixed size",
    parameters: &[Parameter {
        name: "max",
        unit: "bytes",
        values: Values::Bytes(1, u64::MAX),
        default: Preset::Required,
        doc: "the largest size that is admitted",
    }],
    complexity: "O(1)",
    bytes_an_object: 0,
    needs_path: false,
    build: Build::Admission(|arguments, context| {
        Ok(Box::new(Size {
            scale: context.scale,
            max: arguments.get("max").unwrap_or(u64::MAX),
        }))
    }),
};

pub(super) struct Size {
    pub scale: Scale,
    pub max: u64,
}

impl Policy for Size {}

impl Admit for Size {
    fn on_request(&mut self, _: &Request, _: bool) {}

    fn admit(&mut self, request: &Request, _: &mut Cache<'_>) -> bool {
        self.scale.size(request.size) <= self.max
    }
}
