//! ExpSize: admits with the chance exp(−size/c) for a fixed c. It is AdaptSize's Chance without its
//! tuning (Berger, Sitaraman and Harchol-Balter, AdaptSize, NSDI 2017, section 3.1). The paper's
//! evaluation tunes this c offline or by hill climbing.
//!
//! Small objects are nearly always admitted, large ones need luck or many requests. Unlike with a
//! threshold, a popular object a little above c is admitted eventually. O(1); no state: 0 bytes an
//! object.

use crate::Request;
use crate::entry::{Build, PolicyEntry};
use crate::parameters::{Parameter, Preset, Values};
use crate::scale::Scale;
use crate::traits::{Admit, Cache, Policy};
use larder_units::Stream;

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "expsize",
    citation: "Berger, Sitaraman, Harchol-Balter, AdaptSize: orchestrating the hot object memory cache in a content delivery network, NSDI 2017 (section 3.1)",
    summary: "admits with the chance exp(-size/c), c fixed",
    parameters: &[Parameter {
        name: "c",
        unit: "bytes",
        values: Values::Bytes(1, u64::MAX),
        default: Preset::Value("32KiB"),
        doc: "the size that is admitted with the chance 1/e",
    }],
    complexity: "O(1)",
    bytes_an_object: 0,
    needs_path: false,
    build: Build::Admission(|arguments, context| {
        let c = arguments.get("c").unwrap_or(32 << 10);
        Ok(Box::new(ExpSize {
            c: c as f64,
            scale: context.scale,
            stream: context.stream(),
        }))
    }),
};

/// Returns the probability of Chance.
pub(super) fn chance(size: u64, c: f64) -> f64 {
    (-(size as f64) / c).exp()
}

struct ExpSize {
    scale: Scale,
    c: f64,
    stream: Stream,
}

impl Policy for ExpSize {}

impl Admit for ExpSize {
    fn on_request(&mut self, _: &Request, _: bool) {}

    fn admit(&mut self, request: &Request, _: &mut Cache<'_>) -> bool {
        let size = self.scale.size(request.size);
        self.stream.chance(chance(size, self.c))
    }
}
