use super::Rules;
use std::sync::Arc;

/// The rule by which a request has bypassed the cache: an extension of its response, for the
/// console.
#[derive(Clone)]
pub(crate) struct PassedBy {
    rules: Arc<Rules>,
    place: usize,
}

impl PassedBy {
    /// The rule at this place.
    pub(crate) fn new(rules: &Arc<Rules>, place: usize) -> PassedBy {
        PassedBy {
            rules: Arc::clone(rules),
            place,
        }
    }

    /// Describes the rule.
    pub(crate) fn describe(&self) -> String {
        self.rules.describe(self.place)
    }
}
