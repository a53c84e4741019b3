//! Probability: admits each missed object with the same chance p (Prob(p) of the literature on
//! cache networks; Laoutaris, Che and Stavrakakis, The LCD interconnection of LRU caches and its
//! analysis, Performance Evaluation 63, 2006).
//!
//! An object with k requests while it is not stored is admitted with the chance 1 − (1 − p)^k.
//! Without any memory of requests this favours popular objects, and mostly refuses objects with one
//! request. A smaller p is nearer to LFU, and follows changes more slowly. Sizes do not matter.
//! O(1); no state: 0 bytes an object.

use crate::Request;
use crate::entry::{Build, PolicyEntry};
use crate::parameters::{Parameter, Preset, Values};
use crate::traits::{Admit, Cache, Policy};
use larder_units::Stream;

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "probability",
    citation: "Laoutaris, Che, Stavrakakis, The LCD interconnection of LRU caches and its analysis, Performance Evaluation 63, 2006",
    summary: "admits each object with the same chance",
    parameters: &[Parameter {
        name: "p",
        unit: "",
        values: Values::Share,
        default: Preset::Value("0.5"),
        doc: "the chance",
    }],
    complexity: "O(1)",
    bytes_an_object: 0,
    needs_path: false,
    build: Build::Admission(|arguments, context| {
        Ok(Box::new(Probability {
            p: arguments.share("p"),
            stream: context.stream(),
        }))
    }),
};

struct Probability {
    p: f64,
    stream: Stream,
}

impl Policy for Probability {}

impl Admit for Probability {
    fn on_request(&mut self, _: &Request, _: bool) {}

    fn admit(&mut self, _: &Request, _: &mut Cache<'_>) -> bool {
        self.stream.chance(self.p)
    }
}
