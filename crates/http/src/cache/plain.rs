//! Plain hits: most requests to a cache only name a target, and a stored response answers them. The
//! answer is the bytes of the head and the stored body. No map of fields is built, neither of the
//! request nor of the response.

use crate::cache::Cache;
use crate::cache::route::Route;
use crate::now::Now;
use crate::rfc::directives::RequestDirectives;
use crate::store::index::Found;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};

/// Request fields by which a client requests something other than the stored response, or that the
/// origin has to evaluate: all fields that [`Cache::on_request`] evaluates, except those that a
/// stored `Vary` names.
const PREVENT_PLAIN_HIT: [&str; 8] = [
    "cache-control",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "pragma",
    "range",
];

/// Returns true if a request with a field of this name needs more than a plain hit.
pub fn prevents_plain_hit(name: &str) -> bool {
    PREVENT_PLAIN_HIT.iter().any(|wish| wish.eq_ignore_ascii_case(name))
}

/// A GET without a body and without fields that prevent one ([`prevents_plain_hit`]).
#[derive(Clone, Copy, Debug)]
pub struct PlainRequest<'a> {
    /// `http` or `https`: how the client came.
    pub scheme: &'a str,
    /// Host and port.
    pub authority: &'a str,
    /// Path and query.
    pub target: &'a str,
}

impl Cache {
    /// Answers from the store as [`Cache::on_request`] would: appends the head, for HTTP/1.1, and a
    /// small body to `start`, and returns the rest of the body. Returns `None` if that function has
    /// to be called instead; then nothing is counted. `fields` builds all fields of the request; it
    /// is called if a stored `Vary` has to be evaluated.
    pub fn plain_hit(
        &mut self,
        request: PlainRequest<'_>,
        fields: impl FnOnce() -> HeaderMap,
        now: Now,
        start: &mut Vec<u8>,
    ) -> Option<Bytes> {
        let route = self.router.route(request.scheme, request.authority, request.target);
        self.plain_hit_at(&route, fields, now, start)
    }

    /// Does what [`Cache::plain_hit`] does, for a request whose route is known.
    pub fn plain_hit_at(
        &mut self,
        route: &Route<'_>,
        fields: impl FnOnce() -> HeaderMap,
        now: Now,
        start: &mut Vec<u8>,
    ) -> Option<Bytes> {
        let Route { key, hash, .. } = route;
        let newest = self.store.newest_variant(key, *hash)?;
        let slot = match self.store.entry(newest).selector().is_empty() {
            true => newest,
            false => match self.store.find(key, *hash, &fields()) {
                Found::Match(slot) => slot,
                Found::OtherVariants | Found::Nothing => return None,
            },
        };
        let view = self.store.view(slot);
        let entry = self.store.entry(slot);
        let is_whole = entry.status == StatusCode::OK && entry.sliced().is_none();
        if !is_whole || !entry.freshness.satisfies(&RequestDirectives::default(), now.time) {
            return None;
        }
        // RFC 9112 §4, §5.
        start.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        view.write_hit(now.time, start);
        let (length, rest) = match entry.inline_body() {
            Some(body) => {
                start.extend_from_slice(body);
                (body.len(), Bytes::new())
            }
            None => {
                let body = entry.body();
                (body.len(), body)
            }
        };
        self.store.hit(slot, now.time);
        self.counters.requests += 1;
        self.counters.hits += 1;
        self.counters.hit_bytes += length as u64;
        Some(rest)
    }
}
