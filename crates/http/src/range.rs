//! Single byte ranges of a stored body (RFC 9110 §14). Several ranges at once are answered with the whole body, as §14.2 allows: a client
//! that sends a hundred overlapping ones gets no hundred copies.

use http::HeaderMap;
use http::header::RANGE;

/// What a request's `Range` means to a body of known length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    /// No range, or one that this cache does not know: the whole body.
    Whole,
    /// Bytes `first..end` of the body; not empty.
    Part { first: u64, end: u64 },
    /// 416 (RFC 9110 §15.5.17).
    Unsatisfiable,
}

pub(crate) fn select(request: &HeaderMap, length: u64) -> Selection {
    let mut lines = request.get_all(RANGE).into_iter();
    let (Some(line), None) = (lines.next(), lines.next()) else { return Selection::Whole };
    let Ok(text) = line.to_str() else { return Selection::Whole };
    parse(text, length).unwrap_or(Selection::Whole)
}

fn parse(text: &str, length: u64) -> Option<Selection> {
    let (unit, set) = text.split_once('=')?;
    let (first, last) = set.trim().split_once('-')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") || set.contains(',') {
        return None;
    }
    let part = |first: u64, end: u64| {
        if first < end { Selection::Part { first, end } } else { Selection::Unsatisfiable }
    };
    if first.is_empty() {
        // The last N bytes.
        return Some(part(length.saturating_sub(number(last)?), length));
    }
    let first = number(first)?;
    let end = if last.is_empty() { length } else { number(last)?.saturating_add(1).min(length) };
    if !last.is_empty() && number(last)? < first {
        // §14.1.1: invalid, so ignored.
        return None;
    }
    Some(part(first, end))
}

/// Digits only; what does not fit is past every end.
fn number(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranges_of_ten_bytes() {
        let part = |first, end| Some(Selection::Part { first, end });
        for (text, expected) in [
            ("bytes=0-0", part(0, 1)),
            ("bytes=2-5", part(2, 6)),
            ("Bytes=2-", part(2, 10)),
            ("bytes=-3", part(7, 10)),
            ("bytes=-99", part(0, 10)),
            ("bytes=5-99999999999999999999999", part(5, 10)),
            ("bytes=10-", Some(Selection::Unsatisfiable)),
            ("bytes=-0", Some(Selection::Unsatisfiable)),
            ("bytes=5-2", None),
            ("bytes=0-1,3-4", None),
            ("lines=0-1", None),
            ("bytes=a-b", None),
            ("bytes=-", None),
            ("bytes", None),
        ] {
            assert_eq!(parse(text, 10), expected, "{text}");
        }
        assert_eq!(parse("bytes=0-", 0), Some(Selection::Unsatisfiable));
    }

    proptest! {
        #[test]
        fn a_part_lies_within(text in "bytes=[0-9]{0,21}-[0-9]{0,21}", length in 0u64..5000) {
            if let Some(Selection::Part { first, end }) = parse(&text, length) {
                prop_assert!(first < end && end <= length);
            }
        }
    }
}
