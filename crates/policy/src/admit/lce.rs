//! LCE, leave a copy everywhere: admits everything (Jacobson et al., Networking named content,
//! CoNEXT 2009, section 3.1).
//!
//! This is a cache without an admission. It has a name so that a comparison of the path-dependent
//! admissions can name all of them. Sizes do not matter. O(1); no state: 0 bytes an object.

use crate::Request;
use crate::entry::{Build, PolicyEntry};
use crate::traits::{Admit, Cache, Policy};

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "lce",
    citation: "Jacobson et al., Networking named content, ACM CoNEXT 2009",
    summary: "leave a copy everywhere: admits everything",
    parameters: &[],
    complexity: "O(1)",
    bytes_an_object: 0,
    needs_path: false,
    build: Build::Admission(|_, _| Ok(Box::new(LeaveCopyEverywhere))),
};

struct LeaveCopyEverywhere;

impl Policy for LeaveCopyEverywhere {}

impl Admit for LeaveCopyEverywhere {
    fn on_request(&mut self, _: &Request, _: bool) {}

    fn admit(&mut self, _: &Request, _: &mut Cache<'_>) -> bool {
        true
    }
}
