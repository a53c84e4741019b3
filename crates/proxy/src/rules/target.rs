//! A request target in origin form, and the form of its path in which rules compare it.

use super::pattern::decoded;
use std::borrow::Cow;

/// A target that has been read once, byte by byte.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    text: &'a str,
    path_end: usize,
    /// True if the path has the form in which patterns see it.
    is_normal: bool,
    is_rfc_3986: bool,
}

// Classes of bytes; a byte may be in several.
const SLASH: u8 = 1;
/// A slash or a dot: neither stands behind a slash of a normal path. It is `SLASH << 1`, so a shift
/// finds both beside each other.
const SLASH_OR_DOT: u8 = 2;
const PERCENT: u8 = 4;
/// No character of RFC 3986 §3.3 and §3.4.
const OTHER: u8 = 8;

const CLASSES: [u8; 256] = {
    let (mut classes, allowed) = ([OTHER; 256], b"-_~!$&'()*+,;=:@?");
    let mut at = 0;
    while at < 128 {
        if (at as u8).is_ascii_alphanumeric() {
            classes[at] = 0;
        }
        if at < allowed.len() {
            classes[allowed[at] as usize] = 0;
        }
        at += 1;
    }
    classes[b'/' as usize] = SLASH | SLASH_OR_DOT;
    classes[b'.' as usize] = SLASH_OR_DOT;
    classes[b'%' as usize] = PERCENT;
    classes
};

impl<'a> From<&'a str> for Target<'a> {
    fn from(text: &'a str) -> Target<'a> {
        let bytes = text.as_bytes();
        let (mut path_end, mut all, mut pairs, mut previous) = (bytes.len(), 0, 0, 0);
        for (at, byte) in bytes.iter().enumerate() {
            if *byte == b'?' {
                path_end = at;
                break;
            }
            let class = CLASSES[usize::from(*byte)];
            all |= class;
            pairs |= previous << 1 & class;
            previous = class;
        }
        let is_normal = (all & PERCENT) | (pairs & SLASH_OR_DOT) == 0;
        let all = bytes[path_end..].iter().fold(all, |all, byte| all | CLASSES[usize::from(*byte)]);
        Target { text, path_end, is_normal, is_rfc_3986: all & OTHER == 0 }
    }
}

impl<'a> Target<'a> {
    /// Returns the target as it was sent.
    pub fn as_str(self) -> &'a str {
        self.text
    }

    /// Returns true if it has only characters of RFC 3986 §3.3 and §3.4.
    pub(crate) fn is_rfc_3986(self) -> bool {
        self.is_rfc_3986
    }

    /// Returns the path as it was sent.
    pub(super) fn path(self) -> &'a str {
        &self.text[..self.path_end]
    }

    /// Returns the query, without the question mark.
    pub(super) fn query(self) -> Option<&'a str> {
        self.text.get(self.path_end + 1..)
    }

    /// Returns the path as patterns see it: decoded, with dot segments resolved and repeated
    /// slashes merged. Otherwise `/%61dmin`, `//admin` and `/x/../admin` would evade a rule for
    /// `/admin`.
    #[inline]
    pub(super) fn matched_path(self) -> Cow<'a, str> {
        if self.is_normal { Cow::Borrowed(self.path()) } else { Cow::Owned(normalised(self.path())) }
    }
}

fn normalised(path: &str) -> String {
    let decoded = decoded(path);
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = decoded.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            ".." | "." | "" => {
                if segment == ".." {
                    kept.pop();
                }
                if is_last {
                    kept.push("");
                }
            }
            _ => kept.push(segment),
        }
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matched_path(target: &str) -> Cow<'_, str> {
        Target::from(target).matched_path()
    }

    proptest! {
        #[test]
        fn no_path_panics_or_keeps_a_dot_segment(path in "/(%[0-9a-f]{0,2}|[a/.]){0,12}") {
            let normal = matched_path(&path);
            prop_assert!(normal.starts_with('/') && !normal.contains("//"), "{}", normal);
            prop_assert!(!normal.split('/').any(|segment| segment == ".." || segment == "."), "{}", normal);
        }

        /// Failure: the classes of bytes say something else than a look at the text.
        #[test]
        fn a_target_is_misread(target in "/([a/.%?é\\[\"# -]|%2[fe]){0,12}") {
            let read = Target::from(target.as_str());
            let (path, query) = target.split_once('?').map_or((&*target, None), |(path, query)| (path, Some(query)));
            prop_assert_eq!((read.as_str(), read.path(), read.query()), (&*target, path, query));
            let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/?%".contains(&byte);
            prop_assert_eq!(read.is_rfc_3986(), target.bytes().all(is_allowed));
            prop_assert_eq!(read.matched_path(), normalised(path));
        }
    }

    #[test]
    fn spellings_of_a_path_evade_a_pattern() {
        for spelling in ["/admin", "/%61dmin", "//admin", "/./admin", "/x/../admin", "/x/%2e%2e/admin", "/%2fadmin"] {
            assert_eq!(matched_path(spelling), "/admin", "{spelling}");
            assert_eq!(matched_path(&format!("{spelling}?a=/../b")), "/admin", "{spelling}");
        }
        for (path, normal) in [
            ("/a/.", "/a/"),
            ("/a/..", "/"),
            ("/..", "/"),
            ("/a.b/.c", "/a.b/.c"),
            ("/%zz%4", "/%zz%4"),
            ("/%ff", "/\u{fffd}"),
        ] {
            assert_eq!(matched_path(path), normal);
        }
    }
}
