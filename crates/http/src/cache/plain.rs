//! Plain hits: most requests to a cache only name a target, and a stored response answers them. The
//! answer is the bytes of the head and the stored body, without a map of the stored fields. A
//! request with a condition or one range is plain, too: it selects less of the stored response.

use crate::cache::Cache;
use crate::now::Now;
use crate::rfc::coding::content_coding::{ContentCoding, names_coded_form};
use crate::rfc::directives::RequestDirectives;
use crate::rfc::range::Selection;
use crate::rfc::route::Route;
use crate::rfc::{conditional, date, range};
use crate::store::entry::{Codable, HitHead, View};
use crate::store::index::Found;
use bytes::Bytes;
use http::header::{DATE, ETAG, IF_NONE_MATCH, LAST_MODIFIED};
use http::{HeaderMap, StatusCode};

/// Request fields by which a client requests something other than the stored response, or that the
/// origin has to evaluate: all fields that [`Cache::on_request`] evaluates, except those of
/// [`ASK_FOR_LESS`] and those that a stored `Vary` names.
const PREVENT: [&str; 5] = [
    "cache-control",
    "if-match",
    "if-range",
    "if-unmodified-since",
    "pragma",
];

/// Request fields that may turn the stored response into a 304 or a part.
const ASK_FOR_LESS: [&str; 3] = ["if-modified-since", "if-none-match", "range"];

/// The effect of a request field on a plain hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainField {
    /// No effect, unless a stored `Vary` names it.
    Neutral,
    /// The answer may be a 304 or a part: [`PlainRequest::asks_for_less`].
    AsksForLess,
    /// There is no plain hit.
    Prevents,
}

impl PlainField {
    /// Returns the effect of the field with this name, in upper or lower case.
    pub fn of(name: &str) -> PlainField {
        let is_one = |names: &[&str]| names.iter().any(|other| other.eq_ignore_ascii_case(name));
        match name.len() {
            // The lengths of these names; most names have another one.
            5 | 6 | 8 | 13 | 17 | 19 if is_one(&PREVENT) => PlainField::Prevents,
            5 | 13 | 17 if is_one(&ASK_FOR_LESS) => PlainField::AsksForLess,
            _ => PlainField::Neutral,
        }
    }
}

/// A GET without a body and without fields that prevent a plain hit ([`PlainField`]).
#[derive(Clone, Copy, Debug)]
pub struct PlainRequest<'a> {
    /// The scheme of the client's request: `http` or `https`.
    pub scheme: &'a str,
    /// Host and port.
    pub authority: &'a str,
    /// Path and query.
    pub target: &'a str,
    /// True if one of its fields is [`PlainField::AsksForLess`].
    pub asks_for_less: bool,
    /// See [`RequestHead::coding`](crate::RequestHead).
    pub coding: Option<ContentCoding>,
    /// See [`RequestHead::confirmed`](crate::RequestHead::confirmed).
    pub confirmed: Option<&'a [u8]>,
}

impl<'a> PlainRequest<'a> {
    /// Returns the request with the entity tag of the origin's response, if the host has asked.
    pub fn confirmed_by(self, tag: Option<&'a [u8]>) -> PlainRequest<'a> {
        PlainRequest {
            confirmed: tag,
            ..self
        }
    }
}

/// The answer to a plain request: a head, and this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainHit {
    /// The status.
    pub status: StatusCode,
    /// The length of the whole body.
    pub body_bytes: u64,
    /// The rest of the body, after the part that follows the head.
    pub rest: Bytes,
}

impl Cache {
    /// Answers from the store as [`Cache::on_request`] would: appends the head, for HTTP/1.1, and a
    /// small body to `start`, and returns the rest of the body. Returns `None` if that function has
    /// to be called instead; then nothing is counted. `fields` builds all fields of the request; it
    /// is called if they have to be evaluated.
    pub fn plain_hit(
        &mut self,
        request: PlainRequest<'_>,
        fields: impl FnOnce() -> HeaderMap,
        now: Now,
        start: &mut Vec<u8>,
    ) -> Option<PlainHit> {
        let route = self
            .router
            .route(request.scheme, request.authority, request.target);
        self.plain_hit_at(&route, &request, fields, now, start, |_| ())
    }

    /// Does what [`Cache::plain_hit`] does, for a request whose route is known. `edit` may change
    /// the complete head, which is the end of the buffer, before the body is appended.
    pub fn plain_hit_at(
        &mut self,
        route: &Route<'_>,
        asked: &PlainRequest<'_>,
        fields: impl FnOnce() -> HeaderMap,
        now: Now,
        start: &mut Vec<u8>,
        edit: impl FnOnce(&mut Vec<u8>),
    ) -> Option<PlainHit> {
        let Route { key, hash, .. } = route;
        let newest = self.store.newest_variant(key, *hash)?;
        let varies = !self.store.entry(newest).selector().is_empty();
        let request = (varies || asked.asks_for_less).then(fields);
        let slot = match &request {
            Some(request) if varies => match self.store.find(key, *hash, request) {
                Found::Match(slot) => slot,
                Found::OtherVariants | Found::Nothing => return None,
            },
            _ => newest,
        };
        if self.store.entry(slot).is_offered() {
            return None;
        }
        let codable = self.store.codable(slot);
        let wanted = asked
            .coding
            .filter(|coding| codable.is_yes() && !self.store.entry(slot).refuses(*coding));
        let own = self.store.view(slot);
        let mut view = match wanted {
            // Without this form, the host codes the response while it sends it.
            Some(coding) => self.store.form(slot, coding)?,
            None => own,
        };
        let entry = view.entry();
        let is_whole = entry.status == StatusCode::OK && entry.sliced().is_none();
        if !is_whole {
            return None;
        }
        let confirmed;
        let is_fresh = entry
            .freshness
            .satisfies(&RequestDirectives::none(self.trusted_since), now.time);
        if !is_fresh {
            asked.confirmed.filter(|tag| own.is_confirmed_by(tag))?;
            confirmed = entry.freshness.confirmed(now.time);
            view = view.with_freshness(&confirmed);
        }
        let hit = match request.filter(|_| asked.asks_for_less) {
            None => HitHead::Whole,
            Some(request) => selected(&request, view, codable)?,
        };
        let head = start.len();
        view.write_hit(&hit, now.time, start);
        if !is_fresh {
            date::renew(&mut start[head..], now.unix_seconds);
        }
        edit(start);
        let (status, part) = match hit {
            HitHead::Whole => (StatusCode::OK, 0..entry.length()),
            HitHead::Part(part) => (StatusCode::PARTIAL_CONTENT, part),
            HitHead::NotModified => (StatusCode::NOT_MODIFIED, 0..0),
        };
        let part_length = part.end - part.start;
        // Both are below the length of the body.
        let part = part.start as usize..part.end as usize;
        let rest = match entry.inline_body() {
            Some(body) => {
                start.extend_from_slice(&body[part]);
                Bytes::new()
            }
            None if part.is_empty() => Bytes::new(),
            None => entry.body().slice(part),
        };
        self.store.hit(slot, now.time);
        self.counters.requests += 1;
        self.counters.hits += 1;
        self.counters.hit_bytes += part_length;
        Some(PlainHit {
            status,
            body_bytes: part_length,
            rest,
        })
    }
}

/// Returns the part of a stored response that a request with a condition or a range gets; `None` if
/// the answer is not plain.
fn selected(request: &HeaderMap, view: View<'_>, codable: Codable) -> Option<HitHead> {
    // RFC 9110 §13.2.2: conditions first, then the range.
    if conditional::has_condition(request) {
        let stored = view.fields(|name| {
            [ETAG, LAST_MODIFIED, DATE]
                .iter()
                .any(|kept| kept.as_str().as_bytes() == name)
        });
        if conditional::is_not_modified(request, &stored) {
            // If the client has a coded form, the host writes its weak tag.
            let is_repaired = codable != Codable::Unknown
                && names_coded_form(request.get_all(IF_NONE_MATCH), &stored);
            return (!is_repaired).then_some(HitHead::NotModified);
        }
    }
    match range::select(request, view.entry().length()) {
        Selection::Whole => Some(HitHead::Whole),
        Selection::Part(part) => Some(HitHead::Part(part)),
        // These answers are rare.
        Selection::Parts(_) | Selection::Unsatisfiable => None,
    }
}
