//! Byte ranges (RFC 9110 §14): the part of a body of known length that a request's `Range` selects,
//! and the part that a response's `Content-Range` states.
//!
//! Ranges that overlap, or are closer together than the lines that would separate them, are merged
//! (§15.3.7.2), so an answer is never longer than the body and those lines. More than
//! [`limits::RANGES`] are ignored, as §14.2 allows.

use crate::limits;
use http::HeaderMap;
use http::header::{CONTENT_RANGE, RANGE};
use std::ops::Range;

/// Ranges at most this far apart are merged, because the lines between two parts are as long.
const MERGED_GAP_BYTES: u64 = 80;

/// The meaning of a request's `Range` for a body of known length. Ranges of bytes are half-open and
/// not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    /// No range, or a range that this cache does not support: the whole body.
    Whole,
    Part(Range<u64>),
    /// Two or more ranges, in ascending order.
    Parts(Vec<Range<u64>>),
    /// 416 (RFC 9110 §15.5.17).
    Unsatisfiable,
}

pub(crate) fn select(request: &HeaderMap, length: u64) -> Selection {
    let Some(specs) = specs(request) else {
        return Selection::Whole;
    };
    let mut parts: Vec<Range<u64>> = specs.into_iter().map(|spec| spec.within(length)).collect();
    parts.retain(|part| !part.is_empty());
    parts.sort_unstable_by_key(|part| part.start);
    parts.dedup_by(|next, kept| {
        let joins = next.start <= kept.end.saturating_add(MERGED_GAP_BYTES);
        if joins {
            kept.end = kept.end.max(next.end);
        }
        joins
    });
    match parts.len() {
        0 => Selection::Unsatisfiable,
        1 => Selection::Part(parts.swap_remove(0)),
        _ => Selection::Parts(parts),
    }
}

/// Returns the start of a request for one range of a body of unknown length; `None` for other
/// requests, and for the last N bytes.
pub(crate) fn first_byte(request: &HeaderMap) -> Option<u64> {
    match specs(request)?[..] {
        [Spec::From { first, .. }] => Some(first),
        _ => None,
    }
}

/// The position of a part in a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub part: Range<u64>,
    /// The length of the whole in bytes.
    pub length: u64,
}

/// Parses `Content-Range: bytes 0-99/1000`. Returns `None` if it is invalid (§14.4), or the length
/// of the whole is unknown.
pub(crate) fn place(response: &HeaderMap) -> Option<Place> {
    let mut lines = response.get_all(CONTENT_RANGE).into_iter();
    let (Some(line), None) = (lines.next(), lines.next()) else {
        return None;
    };
    let (unit, rest) = line.to_str().ok()?.trim().split_once(' ')?;
    let (part, length) = rest.split_once('/')?;
    let (first, last) = part.split_once('-')?;
    let (first, last, length) = (number(first)?, number(last)?, number(length)?);
    let valid =
        unit.eq_ignore_ascii_case("bytes") && first <= last && last < length && length < u64::MAX;
    valid.then(|| Place {
        part: first..last + 1,
        length,
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spec {
    From {
        first: u64,
        last: u64,
    },
    /// The last bytes of this number.
    Suffix(u64),
}

impl Spec {
    fn within(self, length: u64) -> Range<u64> {
        match self {
            Spec::From { first, last } => first.min(length)..last.saturating_add(1).min(length),
            Spec::Suffix(bytes) => length.saturating_sub(bytes)..length,
        }
    }
}

/// Returns the requested ranges, at least one. `None` if there are none, too many, or those that
/// §14.1.1 and §14.2 allow to ignore.
fn specs(request: &HeaderMap) -> Option<Vec<Spec>> {
    let mut lines = request.get_all(RANGE).into_iter();
    let (Some(line), None) = (lines.next(), lines.next()) else {
        return None;
    };
    let (unit, set) = line.to_str().ok()?.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let members = set
        .split(',')
        .map(str::trim)
        .filter(|member| !member.is_empty());
    let specs: Vec<Spec> = members
        .take(limits::RANGES + 1)
        .map(spec)
        .collect::<Option<_>>()?;
    (1..=limits::RANGES).contains(&specs.len()).then_some(specs)
}

fn spec(text: &str) -> Option<Spec> {
    let (first, last) = text.split_once('-')?;
    if first.is_empty() {
        return Some(Spec::Suffix(number(last)?));
    }
    let first = number(first)?;
    let last = if last.is_empty() {
        u64::MAX
    } else {
        number(last)?
    };
    (first <= last).then_some(Spec::From { first, last })
}

/// Parses digits only; a number that is too large is past every end.
fn number(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;

    fn of(name: http::HeaderName, text: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(text).unwrap())])
    }

    fn selected(text: &str, length: u64) -> Selection {
        select(&of(RANGE, text), length)
    }

    #[test]
    fn ranges_of_ten_bytes() {
        let part = |first, end| Selection::Part(first..end);
        for (text, expected) in [
            ("bytes=0-0", part(0, 1)),
            ("bytes=2-5", part(2, 6)),
            ("Bytes=2-", part(2, 10)),
            ("bytes=-3", part(7, 10)),
            ("bytes=-99", part(0, 10)),
            ("bytes=5-99999999999999999999999", part(5, 10)),
            ("bytes=10-", Selection::Unsatisfiable),
            ("bytes=-0", Selection::Unsatisfiable),
            ("bytes=10-,-0", Selection::Unsatisfiable),
            ("bytes=5-2", Selection::Whole),
            ("bytes=0-1,3-2", Selection::Whole),
            ("bytes=0-1, ,8-", part(0, 10)),
            ("lines=0-1", Selection::Whole),
            ("bytes=a-b", Selection::Whole),
            ("bytes=-", Selection::Whole),
            ("bytes=,", Selection::Whole),
            ("bytes", Selection::Whole),
        ] {
            assert_eq!(selected(text, 10), expected, "{text}");
        }
        assert_eq!(selected("bytes=0-", 0), Selection::Unsatisfiable);
        let far = Selection::Parts(vec![0..2, 500..510, 990..1000]);
        assert_eq!(selected("bytes=500-509,-10,0-1,995-2000", 1000), far);
        let (most, more) = (
            "0-0,".repeat(limits::RANGES),
            "0-0,".repeat(limits::RANGES + 1),
        );
        assert_eq!(selected(&format!("bytes={most}"), 10), part(0, 1));
        assert_eq!(selected(&format!("bytes={more}"), 10), Selection::Whole);
    }

    #[test]
    fn places() {
        let found = |text| place(&of(CONTENT_RANGE, text));
        assert_eq!(
            found("bytes 0-99/1000"),
            Some(Place {
                part: 0..100,
                length: 1000
            })
        );
        for text in [
            "bytes 0-99/*",
            "bytes */1000",
            "bytes 5-4/10",
            "bytes 0-10/10",
            "bytes=0-1/2",
            "lines 0-1/2",
            "bytes 0-1",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
        assert_eq!(
            found("bytes 0-18446744073709551615/18446744073709551616"),
            None
        );
        assert_eq!(
            found("bytes 0-9/18446744073709551616"),
            None,
            "a length that no number has"
        );
    }

    proptest! {
        /// Failure: a hundred overlapping ranges become a hundred copies, or a range reaches beyond
        /// the body.
        #[test]
        fn parts_lie_within_and_apart(text in "bytes=([0-9]{0,4}-[0-9]{0,21},){1,5}", length in 0u64..5000) {
            let parts = match selected(&text, length) {
                Selection::Part(part) => vec![part],
                Selection::Parts(parts) => { prop_assert!(parts.len() > 1); parts }
                _ => vec![],
            };
            prop_assert!(parts.iter().all(|part| part.start < part.end && part.end <= length));
            prop_assert!(parts.windows(2).all(|two| two[0].end < two[1].start));
        }

        #[test]
        fn no_field_panics(text in "\\PC{0,40}") {
            if let Ok(value) = HeaderValue::from_str(&text) {
                place(&HeaderMap::from_iter([(CONTENT_RANGE, value.clone())]));
                select(&HeaderMap::from_iter([(RANGE, value)]), 10);
            }
        }
    }
}
