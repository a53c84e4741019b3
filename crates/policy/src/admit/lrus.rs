//! LRU-S: admits with a chance that falls as 1/size (Starobinski and Tse, Probabilistic methods for
//! web caching, Performance Evaluation 46, 2001, as AdaptSize's authors describe and compare it,
//! NSDI 2017, section 2). The paper combines it with LRU.
//!
//! Each byte of an object has the same chance, whatever the object's size: an object of twice the
//! size is admitted half as often.
//!
//! Differences: 1/size needs a unit. In bytes, as in the text (`unit=1`), an object of 1 KB needs a
//! thousand misses on average, and hardly any trace fills a cache. The default unit is 1 KiB, the
//! size of the common small objects of a CDN; smaller objects are always admitted. This file has
//! only the admission; the eviction stage orders the stored objects.
//!
//! O(1); no state: 0 bytes an object.

use crate::Request;
use crate::entry::{Build, PolicyEntry};
use crate::parameters::{Parameter, Preset, Values};
use crate::scale::Scale;
use crate::traits::{Admit, Cache, Policy};
use larder_units::Stream;

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "lrus",
    citation: "Starobinski, Tse, Probabilistic methods for web caching, Performance Evaluation 46, 2001",
    summary: "admits with the chance unit/size",
    parameters: &[Parameter {
        name: "unit",
        unit: "bytes",
        values: Values::Bytes(1, u64::MAX),
        default: Preset::Value("1KiB"),
        doc: "the largest size that is always admitted; 1 is the literal 1/size",
    }],
    complexity: "O(1)",
    bytes_an_object: 0,
    needs_path: false,
    build: Build::Admission(|arguments, context| {
        let unit = arguments.get("unit").unwrap_or(1 << 10);
        Ok(Box::new(LruS {
            unit: unit as f64,
            scale: context.scale,
            stream: context.stream(),
        }))
    }),
};

struct LruS {
    scale: Scale,
    unit: f64,
    stream: Stream,
}

impl Policy for LruS {}

impl Admit for LruS {
    fn on_request(&mut self, _: &Request, _: bool) {}

    fn admit(&mut self, request: &Request, _: &mut Cache<'_>) -> bool {
        self.stream
            .chance(self.unit / self.scale.size(request.size) as f64)
    }
}
