//! Patterns of rules: globs and statuses. And percent-encoding.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// A text in which each `*` stands for any characters, also for none.
#[derive(Clone, PartialEq, Eq)]
pub struct Glob {
    /// The texts between the `*`s.
    parts: Vec<String>,
}

impl FromStr for Glob {
    type Err = String;

    fn from_str(text: &str) -> Result<Glob, String> {
        let mut parts: Vec<String> = text.split('*').map(str::to_owned).collect();
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
            Ok(Glob { parts })
        }
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.parts.join("*"))
    }
}

impl fmt::Debug for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

impl Glob {
    /// Returns the same pattern in lower case.
    pub(super) fn lower(self) -> Glob {
        Glob { parts: self.parts.into_iter().map(|part| part.to_ascii_lowercase()).collect() }
    }

    /// Returns the texts between the `*`s.
    pub(super) fn parts(&self) -> &[String] {
        &self.parts
    }

    /// Returns true if the whole text matches.
    pub(super) fn matches(&self, text: &str) -> bool {
        self.each_star(text, |_| ()).is_some()
    }

    /// Returns the characters for which each `*` stands; each takes as few as possible, and the
    /// last one the rest.
    pub(super) fn captures<'a>(&self, text: &'a str) -> Option<Vec<&'a str>> {
        let mut found = Vec::new();
        self.each_star(text, |part| found.push(part)).map(|()| found)
    }

    fn each_star<'a>(&self, text: &'a str, mut take: impl FnMut(&'a str)) -> Option<()> {
        let (first, others) = self.parts.split_first()?;
        let Some((last, middle)) = others.split_last() else { return (text == first).then_some(()) };
        let mut rest = text.strip_prefix(first.as_str())?;
        for part in middle {
            let (before, after) = rest.split_once(part.as_str())?;
            take(before);
            rest = after;
        }
        take(rest.strip_suffix(last.as_str())?);
        Some(())
    }
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
        Ok(StatusPattern { first, last: first + if class.is_some() { 99 } else { 0 } })
    }
}

impl fmt::Display for StatusPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last { self.first.fmt(f) } else { write!(f, "{}xx", self.first / 100) }
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

/// Decodes percent-encoded bytes. What is no UTF-8 becomes U+FFFD.
pub(super) fn decoded(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let bytes = text.as_bytes();
    let digit = |at: usize| char::from(*bytes.get(at)?).to_digit(16);
    let pair = |at: usize| u8::try_from(digit(at + 1)? * 16 + digit(at + 2)?).ok();
    let (mut all, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(byte) = bytes.get(at) {
        let pair = pair(at).filter(|_| *byte == b'%');
        all.push(pair.unwrap_or(*byte));
        at += if pair.is_some() { 3 } else { 1 };
    }
    Cow::Owned(String::from_utf8_lossy(&all).into_owned())
}

/// Encodes a text for a path: what may not stand there is percent-encoded.
pub(super) fn encoded(text: &str) -> String {
    let mut all = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/".contains(&byte) {
            all.push(char::from(byte));
        } else {
            all.push_str(&format!("%{byte:02X}"));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn naive(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern.split_first(), text.split_first()) {
            (None, None) => true,
            (Some((b'*', rest)), _) => naive(rest, text) || !text.is_empty() && naive(pattern, &text[1..]),
            (Some((a, pattern)), Some((b, text))) => a == b && naive(pattern, text),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn a_glob_matches_something_else(pattern in "[ab*]{1,8}", text in "[ab]{0,10}") {
            let glob: Glob = pattern.parse().unwrap();
            prop_assert_eq!(glob.matches(&text), naive(pattern.as_bytes(), text.as_bytes()));
            if let Some(found) = glob.captures(&text) {
                let joined: String = glob.parts().iter().zip(found.into_iter().chain([""])).map(|(a, b)| format!("{a}{b}")).collect();
                prop_assert_eq!(joined, text);
            }
        }
    }

    #[test]
    fn statuses() {
        let pattern = |text: &str| text.parse::<StatusPattern>();
        let status = |code| http::StatusCode::from_u16(code).unwrap();
        assert!(pattern("5xx").unwrap().contains(status(503)) && !pattern("5xx").unwrap().contains(status(499)));
        assert!(pattern("404").unwrap().contains(status(404)) && !pattern("404").unwrap().contains(status(405)));
        for wrong in ["", "1xx", "600", "20", "2000", "xx", "5xxx"] {
            assert!(pattern(wrong).is_err(), "{wrong}");
        }
    }
}
