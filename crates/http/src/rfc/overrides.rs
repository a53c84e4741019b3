//! The host's rules that replace fields of a response. RFC 9111 leaves this to the operator's
//! configuration (§4.2.2, §4.2.4). The rules are applied when the response is stored or validated,
//! and the result is stored with it.

use crate::rfc::directives::ResponseDirectives;
use crate::rfc::freshness;
use http::{HeaderMap, StatusCode};
use std::fmt::Debug;

/// The rules of an exchange.
pub trait ResponseRules: Debug + Send + Sync {
    /// Returns the rules for a response with this status and these fields. If the origin confirms a
    /// response with a 304, the fields are the stored ones.
    fn overrides(&self, status: StatusCode, headers: &HeaderMap) -> Overrides;
}

/// The directives that replace a response's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// Seconds from its receipt for which the response is fresh. They replace `max-age`,
    /// `s-maxage`, `Expires`, `no-cache`, `must-revalidate` and `proxy-revalidate`, but neither
    /// `no-store` nor `private`. With it or `default_ttl`, errors that a client can cause are
    /// stored (400, 403, 500 and others).
    pub ttl: Option<u64>,
    /// Its lifetime in seconds if it states none.
    pub default_ttl: Option<u64>,
    /// Seconds (RFC 5861 §3).
    pub stale_while_revalidate: Option<u64>,
    /// Seconds (RFC 5861 §4).
    pub stale_if_error: Option<u64>,
    /// True if `no-store` of the response does not count.
    pub ignores_no_store: bool,
    /// True if `private` of the response does not count.
    pub ignores_private: bool,
}

impl Overrides {
    /// Changes the directives of a response with these fields.
    pub(crate) fn apply(&self, says: &mut ResponseDirectives, headers: &HeaderMap) {
        says.no_store &= !self.ignores_no_store;
        says.private &= !self.ignores_private;
        if self.default_ttl.is_some() && !freshness::is_explicit(headers, says) {
            says.max_age = self.default_ttl;
        }
        says.ttl = self.ttl;
        says.names_status = self.ttl.is_some() || self.default_ttl.is_some();
        says.allows_stale = self.stale_while_revalidate.is_some() || self.stale_if_error.is_some();
        says.stale_while_revalidate = self.stale_while_revalidate.or(says.stale_while_revalidate);
        says.stale_if_error = self.stale_if_error.or(says.stale_if_error);
    }
}
