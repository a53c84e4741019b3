//! The rules for storing responses of files. They are fresh for `check`, by default not at all:
//! then a hit needs the tag of the file ([`LiveFiles`](crate::exchange::live::LiveFiles)).

use crate::exchange::request_rules::Ruled;
use crate::exchange::upstream_request::LiveTarget;
use ::http::{HeaderMap, StatusCode};
use larder_http::{Overrides, ResponseRules};
use std::sync::Arc;
use std::time::Duration;

/// Returns what decides about the storing of the response to a request: the operator's rules, and
/// the time for which files are not looked at.
pub(crate) fn response_rules(
    LiveTarget { live, target }: &LiveTarget,
) -> Option<Arc<dyn ResponseRules>> {
    let host = target.host.to_str().unwrap_or_default();
    if let Some(files) = live.origins.files_of(host, target.target.path()) {
        return Some(Arc::new(FileRules {
            ruled: target.rules.clone(),
            check: files.check(),
        }));
    }
    let rules: Arc<dyn ResponseRules> = target.rules.clone()?;
    Some(rules)
}

#[derive(Debug)]
struct FileRules {
    ruled: Option<Arc<Ruled>>,
    check: Duration,
}

impl ResponseRules for FileRules {
    /// A rule's lifetime comes first: its author accepts older content.
    fn overrides(&self, status: StatusCode, headers: &HeaderMap) -> Overrides {
        let ruled = self.ruled.as_ref();
        let mut overrides =
            ruled.map_or_else(Overrides::default, |ruled| ruled.overrides(status, headers));
        let is_of_files = matches!(status.as_u16(), 200 | 206 | 304 | 308 | 404);
        if is_of_files && overrides.ttl.is_none() && overrides.default_ttl.is_none() {
            overrides.ttl = Some(self.check.as_secs());
        }
        overrides
    }
}
