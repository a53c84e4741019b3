//! Patterns of rules: globs and statuses.

use crate::message::target::{Decoded, Target, decoded};
use memchr::memmem;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// A text in which each `*` stands for any bytes, also for none.
#[derive(Clone, PartialEq, Eq)]
pub struct Glob {
    text: String,
    /// The texts between the `*`s.
    parts: Vec<Vec<u8>>,
}

impl FromStr for Glob {
    type Err = String;

    fn from_str(text: &str) -> Result<Glob, String> {
        let mut parts: Vec<Vec<u8>> = text
            .split('*')
            .map(|part| part.as_bytes().to_vec())
            .collect();
        // `**` is `*`.
        let last = parts.len() - 1;
        let mut at = 0;
        parts.retain(|part| {
            at += 1;
            at == 1 || at == last + 1 || !part.is_empty()
        });
        if text.is_empty() {
            Err("expected a text; * stands for any characters".to_owned())
        } else {
            Ok(Glob {
                text: text.to_owned(),
                parts,
            })
        }
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text)
    }
}

impl Glob {
    /// Reads a pattern of paths. Its texts are compared with decoded paths, so they are decoded
    /// too, and their repeated slashes are merged.
    ///
    /// # Errors
    /// The text is empty.
    pub(super) fn of_path(text: &str) -> Result<Glob, String> {
        let mut glob: Glob = text.parse()?;
        for part in &mut glob.parts {
            *part = decoded(&String::from_utf8_lossy(part)).into_owned();
            part.dedup_by(|one, other| *one == b'/' && *other == b'/');
        }
        Ok(glob)
    }

    /// Returns the same pattern in lower case.
    pub(super) fn lower(self) -> Glob {
        Glob {
            parts: self
                .parts
                .iter()
                .map(|part| part.to_ascii_lowercase())
                .collect(),
            ..self
        }
    }

    /// Returns the texts between the `*`s.
    pub(super) fn parts(&self) -> &[Vec<u8>] {
        &self.parts
    }

    /// Returns true if the whole text matches.
    pub(super) fn matches(&self, text: impl AsRef<[u8]>) -> bool {
        self.each_star(text.as_ref(), |_| ()).is_some()
    }

    /// Returns the bytes for which each `*` stands; each takes as few as possible, and the last one
    /// the rest.
    fn captures(&self, text: &[u8]) -> Option<Vec<Range<usize>>> {
        let mut found = Vec::new();
        self.each_star(text, |range| found.push(range))
            .map(|()| found)
    }

    fn each_star(&self, text: &[u8], mut take: impl FnMut(Range<usize>)) -> Option<()> {
        let (first, others) = self.parts.split_first()?;
        let Some((last, middle)) = others.split_last() else {
            return (text == first).then_some(());
        };
        text.strip_prefix(&first[..])?;
        let mut at = first.len();
        for part in middle {
            let found = at + memmem::find(&text[at..], part)?;
            take(at..found);
            at = found + part.len();
        }
        let end = at + text[at..].strip_suffix(&last[..])?.len();
        take(at..end);
        Some(())
    }
}

/// Returns the part of the path for each `*` of the first pattern that matches, as it stands in the
/// target. Repeated and encoded slashes are kept if the pattern matches with them.
pub(super) fn captures<'a>(globs: &[Glob], target: Target<'a>) -> Vec<&'a str> {
    let path = target.path();
    let readings = [Decoded::new(path, false), Decoded::new(path, true)];
    for glob in globs {
        for decoded in &readings {
            if let Some(found) = glob.captures(&decoded.bytes) {
                return found
                    .into_iter()
                    .map(|range| decoded.raw(path, range))
                    .collect();
            }
        }
    }
    Vec::new()
}

/// A status, such as `404`, or all statuses of a class, such as `5xx`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusPattern {
    first: u16,
    last: u16,
}

impl FromStr for StatusPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<StatusPattern, String> {
        let class = text.strip_suffix("xx").map(|class| format!("{class}00"));
        let first: Option<u16> = class.as_deref().unwrap_or(text).parse().ok();
        let first = first.filter(|status| (200..600).contains(status) && text.len() == 3);
        let first = first.ok_or("expected a status, such as 404 or \"5xx\"")?;
        Ok(StatusPattern {
            first,
            last: first + if class.is_some() { 99 } else { 0 },
        })
    }
}

impl fmt::Display for StatusPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            self.first.fmt(f)
        } else {
            write!(f, "{}xx", self.first / 100)
        }
    }
}

impl StatusPattern {
    /// Returns true if it is for errors.
    pub(super) fn is_error(&self) -> bool {
        self.first >= 400
    }

    /// Returns true if the status matches.
    pub(super) fn contains(&self, status: http::StatusCode) -> bool {
        (self.first..=self.last).contains(&status.as_u16())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn naive(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern.split_first(), text.split_first()) {
            (None, None) => true,
            (Some((b'*', rest)), _) => {
                naive(rest, text) || !text.is_empty() && naive(pattern, &text[1..])
            }
            (Some((a, pattern)), Some((b, text))) => a == b && naive(pattern, text),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn a_glob_matches_something_else(pattern in "[ab*]{1,8}", text in "[ab]{0,10}") {
            let glob: Glob = pattern.parse().unwrap();
            prop_assert_eq!(glob.matches(&text), naive(pattern.as_bytes(), text.as_bytes()));
            if let Some(found) = glob.captures(text.as_bytes()) {
                let mut joined = Vec::new();
                for (part, range) in glob.parts().iter().zip(found.into_iter().chain(std::iter::once(0..0))) {
                    joined.extend([&part[..], &text.as_bytes()[range]].concat());
                }
                prop_assert_eq!(joined, text.into_bytes());
            }
        }
    }

    #[test]
    fn statuses() {
        let pattern = |text: &str| text.parse::<StatusPattern>();
        let status = |code| http::StatusCode::from_u16(code).unwrap();
        assert!(
            pattern("5xx").unwrap().contains(status(503))
                && !pattern("5xx").unwrap().contains(status(499))
        );
        assert!(
            pattern("404").unwrap().contains(status(404))
                && !pattern("404").unwrap().contains(status(405))
        );
        for wrong in ["", "1xx", "600", "20", "2000", "xx", "5xxx"] {
            assert!(pattern(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn captures_lose_bytes() {
        let capture = |glob: &str, target| {
            captures(&[Glob::of_path(glob).unwrap()], Target::from(target)).join("|")
        };
        for (glob, target, found) in [
            ("/a/*", "/a/%e9", "%e9"),
            ("/a/*", "/a/%2F/b", "%2F/b"),
            ("/a/*/c", "/a/b//c", "b/"),
            ("/a/*", "/a//b", "/b"),
            ("/a/b*", "/a//bc", "c"),
            ("/*/b/*", "/a%20/b/%2b?c", "a%20|%2b"),
            ("/%61/*", "/a/b", "b"),
        ] {
            assert_eq!(capture(glob, target), found, "{glob} {target}");
        }
    }
}
