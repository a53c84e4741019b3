//! The part of a response that a request gets: all of it, 304, 206 or 416 (RFC 9110 §13.2.2, §14).

use crate::rfc::cache_status::CACHE_STATUS;
use crate::rfc::multipart::Multipart;
use crate::rfc::range::Selection;
use crate::rfc::{conditional, range};
use http::header::{
    ACCEPT_RANGES, AGE, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_LOCATION, CONTENT_RANGE,
    CONTENT_TYPE, DATE, ETAG, EXPIRES, LAST_MODIFIED, VARY, VIA,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use std::ops::Range;

/// The fields of a 304. RFC 9110 §15.4.5: those of a 200 that a cache needs, and no other
/// representation metadata.
pub(crate) const NOT_MODIFIED_FIELDS: [HeaderName; 10] = [
    AGE,
    CACHE_CONTROL,
    CACHE_STATUS,
    CONTENT_LOCATION,
    DATE,
    ETAG,
    EXPIRES,
    LAST_MODIFIED,
    VARY,
    VIA,
];

/// A stored response, or one that is being received, ready to be sent.
pub(crate) struct Ready {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// The length of its body, if it is known already.
    pub length: Option<u64>,
    /// The hash that determines the boundary of several ranges. With `None`, several ranges are
    /// answered with the whole body, because it is read in one pass.
    pub boundary: Option<u64>,
}

/// The bytes of a response that a request gets.
pub(crate) struct Response {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub has_body: bool,
    pub first: u64,
    /// `None` is the end of the body.
    pub end: Option<u64>,
    /// Several ranges. `first` and `end` then have no meaning.
    pub parts: Option<Multipart>,
}

impl Ready {
    /// Returns the answer to `method` with the client's fields `request`. Conditions are evaluated
    /// first, then the range (RFC 9110 §13.2.2).
    pub(crate) fn reply(self, method: &Method, request: &HeaderMap) -> Response {
        // RFC 9110 §13.2.1: conditions count only if the answer without them would be a success.
        if self.status == StatusCode::OK && conditional::asks_for_less(request) {
            if conditional::is_not_modified(request, &self.headers) {
                return self.not_modified();
            }
            // RFC 9110 §14.2: Range is defined for GET only.
            if let Some(length) = self.length
                && method == Method::GET
                && conditional::if_range_holds(request, &self.headers)
            {
                match range::select(request, length) {
                    Selection::Whole => {}
                    Selection::Part(part) => return self.part(part, length),
                    Selection::Parts(parts) => {
                        if let Some(boundary) = self.boundary {
                            return self.parts(parts, length, boundary);
                        }
                    }
                    Selection::Unsatisfiable => return self.unsatisfiable(length),
                }
            }
        }
        let has_body = method != Method::HEAD;
        Response {
            status: self.status,
            headers: self.headers,
            has_body,
            first: 0,
            end: None,
            parts: None,
        }
    }

    fn not_modified(&self) -> Response {
        let mut headers = HeaderMap::with_capacity(NOT_MODIFIED_FIELDS.len());
        for name in NOT_MODIFIED_FIELDS {
            for value in self.headers.get_all(&name) {
                headers.append(&name, value.clone());
            }
        }
        Response {
            status: StatusCode::NOT_MODIFIED,
            headers,
            has_body: false,
            first: 0,
            end: None,
            parts: None,
        }
    }

    fn part(self, part: Range<u64>, length: u64) -> Response {
        let mut headers = self.headers;
        let range = format!("bytes {}-{}/{length}", part.start, part.end - 1);
        headers.insert(
            CONTENT_RANGE,
            HeaderValue::try_from(range).expect("digits and a token"),
        );
        headers.insert(CONTENT_LENGTH, HeaderValue::from(part.end - part.start));
        let (first, end) = (part.start, Some(part.end));
        Response {
            status: StatusCode::PARTIAL_CONTENT,
            headers,
            has_body: true,
            first,
            end,
            parts: None,
        }
    }

    /// Returns several parts. RFC 9110 §15.3.7.2: no Content-Range in the head, which would make it
    /// look like one part.
    fn parts(self, parts: Vec<Range<u64>>, length: u64, boundary: u64) -> Response {
        let mut headers = self.headers;
        let parts = Multipart::new(parts, length, headers.get(CONTENT_TYPE), boundary);
        headers.insert(CONTENT_TYPE, parts.content_type());
        headers.insert(CONTENT_LENGTH, HeaderValue::from(parts.length()));
        let status = StatusCode::PARTIAL_CONTENT;
        Response {
            status,
            headers,
            has_body: true,
            first: 0,
            end: None,
            parts: Some(parts),
        }
    }

    fn unsatisfiable(&self, length: u64) -> Response {
        let mut headers = HeaderMap::new();
        for name in [CACHE_STATUS, DATE, VIA, AGE] {
            if let Some(value) = self.headers.get(&name) {
                headers.insert(name, value.clone());
            }
        }
        let range = format!("bytes */{length}");
        headers.insert(
            CONTENT_RANGE,
            HeaderValue::try_from(range).expect("digits and a token"),
        );
        headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        Response {
            status: StatusCode::RANGE_NOT_SATISFIABLE,
            headers,
            has_body: false,
            first: 0,
            end: None,
            parts: None,
        }
    }
}
