//! The fields of a line: what stands between them, and quotes around them (RFC 4180).

use std::borrow::Cow;

/// What stands between fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Separator {
    /// This byte; fields may be quoted and empty.
    Byte(u8),
    /// Blanks or tabs, one or several.
    Blanks,
}

impl Separator {
    /// Returns the separator of a line, outside quotes: a tab, else the most frequent one of comma,
    /// semicolon and bar, else blanks.
    pub fn of(line: &[u8]) -> Separator {
        let mut counts = [(b'\t', 0), (b',', 0), (b';', 0), (b'|', 0)];
        let mut is_quoted = false;
        for byte in line {
            if *byte == b'"' {
                is_quoted = !is_quoted;
            }
            if let Some((_, count)) = counts.iter_mut().find(|(known, _)| known == byte)
                && !is_quoted
            {
                *count += 1;
            }
        }
        let [(_, tabs), rest @ ..] = counts;
        if tabs > 0 && rest.iter().all(|(_, count)| *count == 0 || *count < tabs) {
            return Separator::Byte(b'\t');
        }
        let most = rest.into_iter().rev().max_by_key(|(_, count)| *count);
        match most {
            Some((byte, count)) if count > 0 => Separator::Byte(byte),
            _ => Separator::Blanks,
        }
    }
}

/// The fields of a line, as they are written, without the blanks around them.
pub(super) struct Fields<'a> {
    rest: Option<&'a [u8]>,
    separator: Separator,
}

impl<'a> Fields<'a> {
    pub fn of(line: &'a [u8], separator: Separator) -> Fields<'a> {
        Fields {
            rest: Some(line),
            separator,
        }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        match self.separator {
            Separator::Byte(byte) => {
                let quoted = quoted_length(rest);
                let Some(end) = memchr::memchr(byte, &rest[quoted..]) else {
                    self.rest = None;
                    return Some(rest.trim_ascii());
                };
                let end = quoted + end;
                self.rest = Some(&rest[end + 1..]);
                Some(rest[..end].trim_ascii())
            }
            Separator::Blanks => {
                let start = rest.iter().position(|byte| !byte.is_ascii_whitespace())?;
                let rest = &rest[start..];
                let end = rest
                    .iter()
                    .position(u8::is_ascii_whitespace)
                    .unwrap_or(rest.len());
                self.rest = Some(&rest[end..]);
                Some(&rest[..end])
            }
        }
    }
}

/// Returns the bytes of the quoted text with which a field begins; 0 if it begins with none.
#[inline]
fn quoted_length(text: &[u8]) -> usize {
    if text.first() != Some(&b'"') {
        return 0;
    }
    let mut at = 1;
    while let Some(quote) = memchr::memchr(b'"', &text[at..]) {
        at += quote + 1;
        // A quote within is doubled.
        if text.get(at) != Some(&b'"') {
            return at;
        }
        at += 1;
    }
    // No end: the quote is a part of the text.
    0
}

/// Returns a field without its quotes.
pub(super) fn unquoted(field: &[u8]) -> Cow<'_, [u8]> {
    match field {
        [b'"', inner @ .., b'"'] if !inner.contains(&b'"') => Cow::Borrowed(inner),
        [b'"', inner @ .., b'"'] => {
            let mut text = Vec::with_capacity(inner.len());
            let mut bytes = inner.iter();
            while let Some(byte) = bytes.next() {
                text.push(*byte);
                if *byte == b'"' {
                    bytes.next();
                }
            }
            Cow::Owned(text)
        }
        other => Cow::Borrowed(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: a separator within quotes splits a field, or another separator is taken.
    #[test]
    fn a_line_has_other_fields() {
        for (line, expected) in [
            ("a,b,,c", &["a", "b", "", "c"][..]),
            ("0,\"k,0\",5000", &["0", "k,0", "5000"]),
            ("0;\"k\"\"0\";5", &["0", "k\"0", "5"]),
            ("a|b,c|d", &["a", "b,c", "d"]),
            ("a\tb c\t", &["a", "b c", ""]),
            ("a  b c ", &["a", "b", "c"]),
            ("1,\"a", &["1", "\"a"]),
        ] {
            let separator = Separator::of(line.as_bytes());
            let fields: Vec<String> = Fields::of(line.as_bytes(), separator)
                .map(|field| String::from_utf8_lossy(&unquoted(field)).into_owned())
                .collect();
            assert_eq!(fields, expected, "{line}");
        }
    }
}
