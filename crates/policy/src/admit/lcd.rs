//! LCD, leave a copy down (Laoutaris, Syntila and Stavrakakis, Meta algorithms for hierarchical web
//! caches, IEEE IPCCC 2004, section III).
//!
//! Only the first cache after the node that answered stores the object. So each hit moves a copy
//! one hop towards the consumer, and an object with one request stays at the first hop. The
//! distance of a copy counts its requests, without a counter.
//!
//! Admits everything if the engine gets no [`crate::Path`]: a single cache is its own first hop.
//! Sizes do not matter. O(1); no state: 0 bytes an object.

use crate::Request;
use crate::entry::{Build, PolicyEntry};
use crate::traits::{Admit, Cache, Policy};

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "lcd",
    citation: "Laoutaris, Syntila, Stavrakakis, Meta algorithms for hierarchical web caches, IEEE IPCCC 2004",
    summary: "leave a copy down: only the first cache behind the one that answered admits",
    parameters: &[],
    complexity: "O(1)",
    bytes_an_object: 0,
    needs_path: true,
    build: Build::Admission(|_, _| Ok(Box::new(LeaveCopyDown))),
};

struct LeaveCopyDown;

impl Policy for LeaveCopyDown {}

impl Admit for LeaveCopyDown {
    fn on_request(&mut self, _: &Request, _: bool) {}

    fn admit(&mut self, _: &Request, cache: &mut Cache<'_>) -> bool {
        cache.path().is_none_or(|path| path.hops_from_source <= 1)
    }
}
