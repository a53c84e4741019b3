//! ProbCache (Psaras, Chai and Pavlou, Probabilistic in-network caching for information-centric
//! networks, ACM ICN workshop 2012; and In-network cache management and resource allocation for
//! information-centric networks, IEEE TPDS 25, 2014).
//!
//! The x-th of the c caches on the path, counted from the source, admits with the chance TimesIn ·
//! CacheWeight. TimesIn is how many times the rest of the path could hold the object: Σ N_i / (T ·
//! N_x) over the capacities N of this cache and those after it; T is the number of seconds of
//! traffic that a cache should hold. CacheWeight is x/c, larger near the consumer, so that paths
//! share fairly: long paths leave room near their consumer to the short paths of others.
//!
//! The default is the paper of 2012, `weight=linear`. That of 2014 raises the weight to (x/c)^c
//! (`weight=power`), because with equal capacities the linear one gives x(c+1−x)/(c·T), as much
//! near the source as near the consumer.
//!
//! Admits everything if the engine gets no [`crate::Path`]. Sizes matter only for the capacities,
//! which are in bytes. O(1); no state: 0 bytes an object.

use crate::Request;
use crate::entry::{Build, PolicyEntry};
use crate::parameters::{Parameter, Preset, Values};
use crate::traits::{Admit, Cache, Policy};
use larder_units::Stream;

/// Longest window of ProbCache: a day of traffic. Beyond that its chances are close to 0.
const MAX_WINDOW_SECONDS: u64 = 86_400;

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "probcache",
    citation: "Psaras, Chai, Pavlou, Probabilistic in-network caching for information-centric networks, ACM ICN 2012",
    summary: "on a path, admits by chance: likelier with more room behind, nearer the consumer",
    parameters: &[
        Parameter {
            name: "window",
            unit: "seconds",
            values: Values::Integer(1, MAX_WINDOW_SECONDS),
            default: Preset::Value("10"),
            doc: "T: seconds of traffic that a cache should hold",
        },
        Parameter {
            name: "weight",
            unit: "",
            values: Values::Choice(&["linear", "power"]),
            default: Preset::Value("linear"),
            doc: "the weight of the x-th of c caches: x/c, or (x/c)^c as published in 2014",
        },
    ],
    complexity: "O(1)",
    bytes_an_object: 0,
    needs_path: true,
    build: Build::Admission(|arguments, context| {
        Ok(Box::new(ProbCache {
            window: arguments.get("window").unwrap_or(10) as f64,
            is_power: arguments.get("weight") == Some(1),
            stream: context.stream(),
        }))
    }),
};

struct ProbCache {
    /// T.
    window: f64,
    is_power: bool,
    stream: Stream,
}

impl Policy for ProbCache {}

impl Admit for ProbCache {
    fn on_request(&mut self, _: &Request, _: bool) {}

    fn admit(&mut self, _: &Request, cache: &mut Cache<'_>) -> bool {
        let Some(path) = cache.path() else {
            return true;
        };
        // If this cache has no room, the quotient does not matter, because the engine refuses.
        let times_in =
            path.capacity_to_consumer as f64 / (self.window * cache.capacity().max(1) as f64);
        let (place, caches) = (
            f64::from(path.hops_from_source),
            f64::from(path.hops_from_source) + f64::from(path.hops_to_consumer),
        );
        let weight = place / caches.max(1.0);
        let weight = if self.is_power {
            weight.powf(caches)
        } else {
            weight
        };
        self.stream.chance(times_in * weight)
    }
}
