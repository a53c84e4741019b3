//! The part of a query and of the cookies that reaches the cache key and the origin. Both get the
//! same: a parameter outside of the key that the origin sees would let one client choose what
//! others get (web cache poisoning).

use super::pattern::Glob;
use crate::message::target::{Target, decoded};
use http::header::{COOKIE, VARY};
use http::{HeaderMap, HeaderValue};

/// Which parameters of a query stay.
#[derive(Default)]
pub(super) struct QueryFilter<'a> {
    /// Those that match one of these go.
    pub(super) drop: Vec<&'a Glob>,
    /// Only those that match one of these stay; `None`: all.
    pub(super) keep: Option<&'a [Glob]>,
    /// True if they are sorted by name.
    pub(super) sorts: bool,
}

impl QueryFilter<'_> {
    /// Returns the target with the parameters that stay; `None` if nothing changes.
    pub(super) fn apply(&self, target: &str) -> Option<String> {
        let target = Target::from(target);
        let query = target.query()?;
        let name_of =
            |parameter: &str| decoded(parameter.split('=').next().unwrap_or_default()).into_owned();
        let stays = |parameter: &&str| {
            let name = name_of(parameter);
            !self.drop.iter().any(|glob| glob.matches(&name))
                && self
                    .keep
                    .is_none_or(|globs| globs.iter().any(|glob| glob.matches(&name)))
        };
        let mut kept: Vec<&str> = query.split('&').filter(stays).collect();
        if self.sorts {
            // The order of parameters with the same name may have a meaning.
            kept.sort_by_key(|parameter| name_of(parameter));
        }
        let kept = kept.join("&");
        let path = target.path();
        (kept != query).then(|| {
            if kept.is_empty() {
                path.to_owned()
            } else {
                format!("{path}?{kept}")
            }
        })
    }
}

/// Removes all cookies except those with these names, and sorts them.
pub(super) fn keep_cookies(names: &[Glob], headers: &mut HeaderMap) {
    if !headers.contains_key(COOKIE) {
        return;
    }
    let lines: Vec<HeaderValue> = headers.get_all(COOKIE).iter().cloned().collect();
    headers.remove(COOKIE);
    let name_of = |cookie: &[u8]| {
        cookie
            .split(|byte| *byte == b'=')
            .next()
            .unwrap_or_default()
            .trim_ascii()
            .to_vec()
    };
    let stays = |cookie: &&[u8]| {
        let name = name_of(cookie);
        !name.is_empty() && names.iter().any(|glob| glob.matches(&name))
    };
    let cookies = lines
        .iter()
        .flat_map(|line| line.as_bytes().split(|byte| *byte == b';'))
        .map(<[u8]>::trim_ascii);
    let mut kept: Vec<&[u8]> = cookies.filter(stays).collect();
    kept.sort_by_key(|cookie| name_of(cookie));
    if !kept.is_empty()
        && let Ok(value) = HeaderValue::from_bytes(&kept.join(&b"; "[..]))
    {
        headers.insert(COOKIE, value);
    }
}

/// Says on a response that it depends on the cookies. A 304 without `Vary` leaves that of the
/// stored response as it is.
pub(super) fn vary_by_cookie(is_not_modified: bool, headers: &mut HeaderMap) {
    let names = |line: &HeaderValue| {
        line.as_bytes()
            .split(|byte| *byte == b',')
            .any(|name| name.trim_ascii().eq_ignore_ascii_case(b"cookie"))
    };
    let is_named = headers.get_all(VARY).iter().any(names);
    if !is_named && (!is_not_modified || headers.contains_key(VARY)) {
        headers.append(VARY, HeaderValue::from_static("Cookie"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn globs(texts: &[&str]) -> Vec<Glob> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn a_parameter_stays_or_goes_wrongly() {
        let drop = globs(&["utm_*", "fbclid"]);
        let keep = globs(&["id", "page"]);
        for (drops, keeps, sorts, target, expected) in [
            (
                true,
                false,
                false,
                "/a?utm_source=x&b=c&fbclid=1&utm%5Fid=2",
                Some("/a?b=c"),
            ),
            (true, false, false, "/a?utm_source=x", Some("/a")),
            (true, false, false, "/a?xutm_=1", None),
            (true, false, false, "/utm_a", None),
            (
                false,
                true,
                false,
                "/a?page=2&x=1&id=3",
                Some("/a?page=2&id=3"),
            ),
            (
                false,
                true,
                true,
                "/a?page=2&x=1&id=3&id=2",
                Some("/a?id=3&id=2&page=2"),
            ),
            (false, false, true, "/a?b&a=2&a=1", Some("/a?a=2&a=1&b")),
            (false, false, true, "/a?a&b", None),
        ] {
            let filter = QueryFilter {
                drop: drop.iter().filter(|_| drops).collect(),
                keep: keeps.then_some(keep.as_slice()),
                sorts,
            };
            assert_eq!(filter.apply(target).as_deref(), expected, "{target}");
        }
    }

    #[test]
    fn a_cookie_stays_or_goes_wrongly() {
        let kept = |lines: &[&'static str], names: &[&str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(COOKIE, HeaderValue::from_static(line));
            }
            keep_cookies(&globs(names), &mut headers);
            headers
                .get(COOKIE)
                .map(|value| value.to_str().unwrap().to_owned())
        };
        assert_eq!(
            kept(&["session=1; lang=de;theme=dark"], &["lang", "th*"]).as_deref(),
            Some("lang=de; theme=dark")
        );
        assert_eq!(
            kept(&["theme=dark", "a; lang=de"], &["lang", "theme"]).as_deref(),
            Some("lang=de; theme=dark")
        );
        assert_eq!(
            kept(&["session=1", ";;=;"], &["lang", "*"]).as_deref(),
            Some("session=1")
        );
        assert_eq!(kept(&["session=1"], &["lang"]), None);
    }

    #[test]
    fn a_confirmation_loses_fields_of_vary() {
        let varied = |vary: Option<&'static str>, is_not_modified| {
            let mut headers: HeaderMap = vary
                .iter()
                .map(|value| (VARY, HeaderValue::from_static(value)))
                .collect();
            vary_by_cookie(is_not_modified, &mut headers);
            headers
                .get_all(VARY)
                .iter()
                .map(|value| value.to_str().unwrap().to_owned())
                .collect::<Vec<_>>()
                .join(",")
        };
        assert_eq!([varied(None, false), varied(None, true)], ["Cookie", ""]);
        assert_eq!(
            [varied(Some("a"), false), varied(Some("a"), true)],
            ["a,Cookie", "a,Cookie"]
        );
        assert_eq!(varied(Some("a, cookie"), false), "a, cookie");
    }
}
