//! What a request gets of a representation that its origin has whole: all of it, parts, 304, 412 or
//! 416 (RFC 9110 §13.2.2, §14). For hosts that are origins themselves.

use crate::rfc::conditional;
use crate::rfc::selection::Ready;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, ETAG, LAST_MODIFIED};
use http::{HeaderMap, Method, StatusCode};
use std::ops::Range;

/// The response to a request for a representation.
#[derive(Debug)]
pub struct Selected {
    /// 200, 206, 304, 412 or 416.
    pub status: StatusCode,
    /// Its fields.
    pub headers: HeaderMap,
    /// Its body, in order; empty for HEAD.
    pub pieces: Vec<SelectedPiece>,
}

/// A piece of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectedPiece {
    /// The lines between two parts.
    Lines(Bytes),
    /// These bytes of the representation.
    Part(Range<u64>),
}

/// Selects what a GET or HEAD gets of a representation with these fields of a 200, `Date` included,
/// and this length in bytes. `boundary` separates several parts: the author of the content must not
/// know it in advance.
pub fn select(
    method: &Method,
    request: &HeaderMap,
    headers: HeaderMap,
    length: u64,
    boundary: u64,
) -> Selected {
    if conditional::precondition_fails(request, &headers) {
        let mut failed = HeaderMap::new();
        for name in [ETAG, LAST_MODIFIED] {
            if let Some(value) = headers.get(&name) {
                failed.insert(name, value.clone());
            }
        }
        failed.insert(CONTENT_LENGTH, 0.into());
        return Selected {
            status: StatusCode::PRECONDITION_FAILED,
            headers: failed,
            pieces: Vec::new(),
        };
    }
    let ready = Ready {
        status: StatusCode::OK,
        headers,
        length: Some(length),
        boundary: Some(boundary),
    };
    let reply = ready.reply(method, request);
    let pieces = match reply.parts {
        _ if !reply.has_body => Vec::new(),
        None => vec![SelectedPiece::Part(
            reply.first..reply.end.unwrap_or(length),
        )],
        Some(parts) => {
            let mut pieces = Vec::with_capacity(2 * parts.parts.len() + 1);
            for (lines, part) in parts.parts {
                pieces.extend([SelectedPiece::Lines(lines), SelectedPiece::Part(part)]);
            }
            pieces.push(SelectedPiece::Lines(parts.closing));
            pieces
        }
    };
    Selected {
        status: reply.status,
        headers: reply.headers,
        pieces,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::{CONTENT_RANGE, DATE};
    use http::{HeaderName, HeaderValue};

    fn fields(text: &[(&'static str, &'static str)]) -> HeaderMap {
        text.iter()
            .map(|(name, value)| {
                (
                    HeaderName::from_static(name),
                    HeaderValue::from_static(value),
                )
            })
            .collect()
    }

    fn selected(method: &Method, request: &[(&'static str, &'static str)]) -> Selected {
        let headers = fields(&[
            ("date", "Sun, 06 Nov 1994 09:49:37 GMT"),
            ("etag", "\"x\""),
            ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("content-length", "1000"),
        ]);
        select(method, &fields(request), headers, 1000, 7)
    }

    /// Failure: an origin ignores a condition or a range, or evaluates them in another order.
    #[test]
    fn conditions_come_before_ranges() {
        let before = "Sun, 06 Nov 1994 08:49:36 GMT";
        let same = "Sun, 06 Nov 1994 08:49:37 GMT";
        for (request, status) in [
            (&[][..], 200),
            (&[("if-match", "\"x\"")], 200),
            (&[("if-match", "*")], 200),
            (&[("if-match", "\"y\", \"x\"")], 200),
            (&[("if-match", "\"y\"")], 412),
            (&[("if-match", "W/\"x\"")], 412),
            (&[("if-match", "\"y\""), ("if-none-match", "\"x\"")], 412),
            (&[("if-unmodified-since", before)], 412),
            (&[("if-unmodified-since", same)], 200),
            (&[("if-unmodified-since", "yesterday")], 200),
            (
                &[("if-match", "\"x\""), ("if-unmodified-since", before)],
                200,
            ),
            (&[("if-none-match", "\"x\"")], 304),
            (
                &[("if-none-match", "\"y\""), ("if-modified-since", same)],
                200,
            ),
            (&[("if-modified-since", same)], 304),
            (&[("if-modified-since", before)], 200),
            (&[("if-none-match", "\"x\""), ("range", "bytes=0-1")], 304),
            (&[("range", "bytes=0-1")], 206),
            (&[("range", "bytes=0-1"), ("if-range", "\"x\"")], 206),
            (&[("range", "bytes=0-1"), ("if-range", "\"y\"")], 200),
            (&[("range", "bytes=1000-")], 416),
        ] {
            let found = selected(&Method::GET, request);
            assert_eq!(found.status.as_u16(), status, "{request:?}");
        }
    }

    /// Failure: a part has other bytes or another length than its head says.
    #[test]
    fn parts_are_as_long_as_their_head_says() {
        let one = selected(&Method::GET, &[("range", "bytes=10-19")]);
        assert_eq!(one.pieces, [SelectedPiece::Part(10..20)]);
        assert_eq!(one.headers[CONTENT_RANGE], "bytes 10-19/1000");
        let two = selected(&Method::GET, &[("range", "bytes=0-0,500-509")]);
        let length = |piece: &SelectedPiece| match piece {
            SelectedPiece::Lines(lines) => lines.len() as u64,
            SelectedPiece::Part(part) => part.end - part.start,
        };
        let all: u64 = two.pieces.iter().map(length).sum();
        assert_eq!(two.headers[CONTENT_LENGTH], all.to_string());
        assert_eq!(
            (two.pieces.len(), two.pieces.last().map(length) > Some(0)),
            (5, true)
        );
        let head = selected(&Method::HEAD, &[("range", "bytes=0-0")]);
        assert_eq!((head.status, head.pieces.len()), (StatusCode::OK, 0));
        assert!(head.headers.contains_key(DATE));
    }
}
