//! Betweenness (Chai, He, Psaras and Pavlou, Cache "less for more" in information-centric networks,
//! IFIP Networking 2012, section 3).
//!
//! Only the cache with the greatest betweenness centrality on the path stores the object: the
//! router that most paths cross, where a copy meets most requests. If several caches are equally
//! central, each of them stores it, as in the paper. The same admission serves the paper's EgoBetw:
//! the caller computes the betweenness, of the whole network or of a router's neighbours.
//!
//! Admits everything if the engine gets no [`crate::Path`]. Sizes do not matter. O(1); no state: 0
//! bytes an object.

use crate::Request;
use crate::entry::{Build, PolicyEntry};
use crate::traits::{Admit, Cache, Policy};

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "betweenness",
    citation: "Chai, He, Psaras, Pavlou, Cache \"less for more\" in information-centric networks, IFIP Networking 2012",
    summary: "on a path, only the cache that most shortest paths cross admits",
    parameters: &[],
    complexity: "O(1)",
    bytes_an_object: 0,
    needs_path: true,
    build: Build::Admission(|_, _| Ok(Box::new(Betweenness))),
};

struct Betweenness;

impl Policy for Betweenness {}

impl Admit for Betweenness {
    fn on_request(&mut self, _: &Request, _: bool) {}

    fn admit(&mut self, _: &Request, cache: &mut Cache<'_>) -> bool {
        cache
            .path()
            .is_none_or(|path| path.betweenness >= path.greatest_betweenness)
    }
}
