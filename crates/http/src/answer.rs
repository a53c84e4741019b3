//! Answers made of stored responses: whole, 304, 206, 416, and the cache's own errors.

use crate::cache_status::{CACHE_STATUS, CacheStatus};
use crate::range::{self, Selection};
use crate::{Answer, Now, conditional, date};
use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, AGE, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_LOCATION, CONTENT_RANGE, CONTENT_TYPE, DATE, ETAG,
    EXPIRES, LAST_MODIFIED, VARY, VIA,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

/// A stored response, ready to be sent.
pub(crate) struct Ready<'a> {
    pub status: StatusCode,
    pub headers: &'a HeaderMap,
    pub body: &'a Bytes,
}

impl Ready<'_> {
    /// The answer to `method` with the client's fields `request`: its conditions are judged first, then its range (RFC 9110 §13.2.2).
    pub(crate) fn answer(&self, method: &Method, request: &HeaderMap) -> Answer {
        // RFC 9110 §13.2.1: conditions count only where the answer without them would be a success.
        if self.status == StatusCode::OK && conditional::asks_for_less(request) {
            if conditional::is_not_modified(request, self.headers) {
                return self.not_modified();
            }
            // RFC 9110 §14.2: Range is defined for GET alone.
            if method == Method::GET && conditional::if_range_holds(request, self.headers) {
                match range::select(request, self.body.len()) {
                    Selection::Whole => {}
                    Selection::Part { first, end } => return self.part(first, end),
                    Selection::Unsatisfiable => return self.unsatisfiable(),
                }
            }
        }
        let body = if method == Method::HEAD { Bytes::new() } else { self.body.clone() };
        Answer { status: self.status, headers: self.headers.clone(), body }
    }

    /// RFC 9110 §15.4.5: the fields that a 200 would have had and that a cache needs; no other representation metadata.
    fn not_modified(&self) -> Answer {
        const KEPT: [HeaderName; 10] =
            [AGE, CACHE_CONTROL, CACHE_STATUS, CONTENT_LOCATION, DATE, ETAG, EXPIRES, LAST_MODIFIED, VARY, VIA];
        let mut headers = HeaderMap::with_capacity(KEPT.len());
        for name in KEPT {
            for value in self.headers.get_all(&name) {
                headers.append(&name, value.clone());
            }
        }
        Answer { status: StatusCode::NOT_MODIFIED, headers, body: Bytes::new() }
    }

    fn part(&self, first: usize, end: usize) -> Answer {
        let mut headers = self.headers.clone();
        let range = format!("bytes {first}-{}/{}", end - 1, self.body.len());
        headers.insert(CONTENT_RANGE, HeaderValue::try_from(range).expect("digits and a token"));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(end - first));
        Answer { status: StatusCode::PARTIAL_CONTENT, headers, body: self.body.slice(first..end) }
    }

    fn unsatisfiable(&self) -> Answer {
        let mut headers = HeaderMap::new();
        for name in [CACHE_STATUS, DATE, VIA, AGE] {
            if let Some(value) = self.headers.get(&name) {
                headers.insert(name, value.clone());
            }
        }
        let range = format!("bytes */{}", self.body.len());
        headers.insert(CONTENT_RANGE, HeaderValue::try_from(range).expect("digits and a token"));
        headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        Answer { status: StatusCode::RANGE_NOT_SATISFIABLE, headers, body: Bytes::new() }
    }
}

impl Answer {
    /// An error of the cache's own, in one line of text. `no-store`: other caches shall not keep it.
    pub(crate) fn error(
        status: StatusCode,
        method: &Method,
        line: &'static str,
        cache_status: CacheStatus,
        now: Now,
    ) -> Answer {
        let mut headers = HeaderMap::with_capacity(5);
        headers.insert(DATE, date::format(now.unix_seconds));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(line.len()));
        cache_status.set(&mut headers);
        let body = if method == Method::HEAD { Bytes::new() } else { Bytes::from_static(line.as_bytes()) };
        Answer { status, headers, body }
    }
}
