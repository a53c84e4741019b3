//! Conditional requests: those of clients, answered from the store, and those to the origin (RFC
//! 9110 §13, RFC 9111 §4.3).

use crate::rfc::{date, fields};
use http::header::{
    DATE, ETAG, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE,
    LAST_MODIFIED, RANGE,
};
use http::{HeaderMap, HeaderName, HeaderValue};

/// Returns true if the client's preconditions turn a stored 200 response into a 304 (RFC 9111
/// §4.3.2).
pub(crate) fn is_not_modified(request: &HeaderMap, stored: &HeaderMap) -> bool {
    if request.contains_key(IF_NONE_MATCH) {
        // RFC 9110 §13.1.3: with If-None-Match, If-Modified-Since MUST be ignored.
        let stored = stored.get(ETAG).map(HeaderValue::as_bytes);
        return request
            .get_all(IF_NONE_MATCH)
            .into_iter()
            .any(|line| none_match_names(line.as_bytes(), stored));
    }
    // RFC 9110 §13.1.3: several values or an invalid date MUST be ignored.
    let mut lines = request.get_all(IF_MODIFIED_SINCE).into_iter();
    let (Some(since), None) = (lines.next(), lines.next()) else {
        return false;
    };
    let Some(since) = date::parse(since) else {
        return false;
    };
    // RFC 9111 §4.3.2: Date replaces a missing Last-Modified.
    let modified = date::field(stored, &LAST_MODIFIED).or_else(|| date::field(stored, &DATE));
    modified.is_some_and(|modified| modified <= since)
}

/// Compares one line of If-None-Match: `*` or entity tags, weakly (RFC 9110 §13.1.2). A tag may
/// hold commas.
fn none_match_names(line: &[u8], stored: Option<&[u8]>) -> bool {
    if line.trim_ascii() == b"*" {
        return true;
    }
    let Some(stored) = stored else { return false };
    let mut rest = line;
    loop {
        rest = rest.trim_ascii_start();
        if let Some((b',', after)) = rest.split_first() {
            rest = after;
            continue;
        }
        let Some(start) = opaque(rest).strip_prefix(b"\"") else {
            return false;
        };
        let Some(end) = start.iter().position(|b| *b == b'"') else {
            return false;
        };
        let length = rest.len() - start.len() + end + 1;
        if opaque(&rest[..length]) == opaque(stored) {
            return true;
        }
        rest = &rest[length..];
    }
}

/// Returns an entity tag without its weakness.
fn opaque(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// Compares strongly (RFC 9110 §8.8.3.2).
fn is_same_strong_tag(a: &[u8], b: &[u8]) -> bool {
    a == b && a.starts_with(b"\"")
}

/// Returns true if `If-Range`, if there is one, allows a range of the stored response (RFC 9110
/// §13.1.5): it has the same strong entity tag, or exactly its Last-Modified, which must be strong:
/// a minute older than the Date (§8.8.2.2).
pub(crate) fn if_range_holds(request: &HeaderMap, stored: &HeaderMap) -> bool {
    let Some(condition) = request.get(IF_RANGE) else {
        return true;
    };
    if let Some(tag) = stored.get(ETAG)
        && is_same_strong_tag(condition.as_bytes(), tag.as_bytes())
    {
        return true;
    }
    date::parse(condition).is_some_and(|wanted| strong_last_modified(stored) == Some(wanted))
}

fn strong_last_modified(headers: &HeaderMap) -> Option<u64> {
    let modified = date::field(headers, &LAST_MODIFIED)?;
    date::field(headers, &DATE)
        .is_some_and(|date| date >= modified + 60)
        .then_some(modified)
}

/// Returns the validator that distinguishes this representation from every other of the same
/// resource, if there is one: a strong entity tag, or without a tag a strong Last-Modified.
pub fn strong_validator(headers: &HeaderMap) -> Option<(HeaderName, &HeaderValue)> {
    match headers.get(ETAG) {
        Some(tag) => is_same_strong_tag(tag.as_bytes(), tag.as_bytes()).then_some((ETAG, tag)),
        None => strong_last_modified(headers)
            .and_then(|_| Some((LAST_MODIFIED, headers.get(LAST_MODIFIED)?))),
    }
}

/// Returns true if the request has preconditions that only the origin can evaluate (RFC 9110
/// §13.1.1, §13.1.4).
pub(crate) fn asks_the_origin(request: &HeaderMap) -> bool {
    request
        .keys()
        .any(|name| [IF_MATCH, IF_UNMODIFIED_SINCE].contains(name))
}

/// Returns true if a precondition of the request fails for the current representation: its answer
/// is 412 (RFC 9110 §13.1.1, §13.1.4, §13.2.2).
pub(crate) fn precondition_fails(request: &HeaderMap, current: &HeaderMap) -> bool {
    if request.contains_key(IF_MATCH) {
        // Compared strongly: a weak tag matches nothing.
        let tag = current.get(ETAG).map(HeaderValue::as_bytes);
        let strong = tag.filter(|tag| tag.starts_with(b"\""));
        return !request.get_all(IF_MATCH).into_iter().any(|line| {
            line.as_bytes().trim_ascii() == b"*"
                || strong.is_some() && names_strong_tag(line.as_bytes(), strong)
        });
    }
    let mut lines = request.get_all(IF_UNMODIFIED_SINCE).into_iter();
    let (Some(since), None) = (lines.next(), lines.next()) else {
        return false;
    };
    let modified = date::field(current, &LAST_MODIFIED);
    date::parse(since)
        .zip(modified)
        .is_some_and(|(since, modified)| modified > since)
}

/// Returns true if a list of entity tags has this strong one.
fn names_strong_tag(line: &[u8], strong: Option<&[u8]>) -> bool {
    let members = fields::members(line);
    let mut tags = members.filter(|tag| tag.starts_with(b"\""));
    tags.any(|tag| Some(tag) == strong)
}

/// Returns true if the request may be answered with less than the whole current representation.
pub(crate) fn asks_for_less(request: &HeaderMap) -> bool {
    // Few requests have more than a dozen fields, so one pass over them costs less than four
    // lookups.
    request
        .keys()
        .any(|name| [RANGE, IF_RANGE, IF_NONE_MATCH, IF_MODIFIED_SINCE].contains(name))
}

/// Returns true if the request has a condition that a 304 may answer.
pub(crate) fn has_condition(request: &HeaderMap) -> bool {
    request
        .keys()
        .any(|name| [IF_NONE_MATCH, IF_MODIFIED_SINCE].contains(name))
}

/// Replaces the client's conditions by the stored response's validators (RFC 9111 §4.3.1). Removes
/// the range too, because the answer must be able to replace the stored response. Returns false if
/// there is no validator.
pub(crate) fn set_validators(request: &mut HeaderMap, stored: &HeaderMap) -> bool {
    let (tag, modified) = (stored.get(ETAG), stored.get(LAST_MODIFIED));
    if tag.is_none() && modified.is_none() {
        return false;
    }
    clear(request);
    if let Some(tag) = tag {
        request.insert(IF_NONE_MATCH, tag.clone());
    }
    if let Some(modified) = modified {
        request.insert(IF_MODIFIED_SINCE, modified.clone());
    }
    true
}

/// Removes the conditions that a cache may answer, and the range.
pub(crate) fn clear(request: &mut HeaderMap) {
    for name in [IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_RANGE, RANGE] {
        request.remove(name);
    }
}

/// Returns true if a 304 concerns the stored response (RFC 9111 §4.3.4). With an entity tag, it
/// concerns only the response with that tag; without one, the response that was validated.
pub(crate) fn selects(not_modified: &HeaderMap, stored: &HeaderMap) -> bool {
    match (not_modified.get(ETAG), stored.get(ETAG)) {
        (Some(new), Some(old)) => opaque(new.as_bytes()) == opaque(old.as_bytes()),
        // A strong tag that the stored response does not have identifies another representation.
        (Some(new), None) => new.as_bytes().starts_with(b"W/"),
        (None, _) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tags_in_lists() {
        let stored = Some(&b"\"a,b\""[..]);
        for (line, names) in [
            ("\"a,b\"", true),
            ("W/\"a,b\"", true),
            ("\"x\", \"a,b\"", true),
            (" , ,\"x\" W/\"a,b\"", true),
            ("*", true),
            ("\"a\"", false),
            ("a,b", false),
            ("\"a,b", false),
            ("", false),
            ("\"x\", garbage, \"a,b\"", false),
        ] {
            assert_eq!(none_match_names(line.as_bytes(), stored), names, "{line}");
        }
        assert!(none_match_names(b"*", None) && !none_match_names(b"\"a\"", None));
        assert!(none_match_names(b"\"a\"", Some(b"W/\"a\"")));
    }

    proptest! {
        #[test]
        fn no_line_panics(line in proptest::collection::vec(any::<u8>(), 0..60)) {
            none_match_names(&line, Some(b"\"a\""));
        }
    }
}
