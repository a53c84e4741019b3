//! The target of a request in its normal form, and the form of its path in which rules compare it.
//!
//! The key, the rules and the origin get the same normal form ([`normal_target`]), so none of them
//! can read a target in another way than the others:
//!
//! - Dot segments are resolved (RFC 3986 §5.2.4), also in the spelling `%2e`. None climbs above
//!   the root.
//! - Slashes at the start are one: some servers read what follows two of them as a host (RFC 3986
//!   §4.2).
//! - Bytes that no target may have are percent-encoded: `"`, `<`, `>`, a backtick, a backslash, a
//!   `%` without two digits, and what is no ASCII.
//! - Nothing else changes. `%2F`, other encoded bytes, and repeated slashes within the path reach
//!   the origin as they came, because they may mean something else there.
//!
//! A target that servers read in several ways is refused: a dot segment beside an encoded slash, a
//! backslash or a parameter (`..%2f`, `..\`, `..;`), a parameter without a segment (`/;a/b`), `..`
//! after repeated slashes, `%00`, and dots in overlong UTF-8 (`%c0%ae`).

use std::borrow::Cow;
use std::ops::Range;

/// Returns the normal form of a target in origin form, or of `*`. It is its own normal form.
///
/// # Errors
/// The reason of the refusal, if servers read the target in several ways.
pub fn normal_target(text: &str) -> Result<Cow<'_, str>, &'static str> {
    let target = Target::from(text);
    if target.is_normal && target.is_rfc_3986 && text.starts_with('/') {
        return Ok(Cow::Borrowed(text));
    }
    let whole = text.split('#').next().unwrap_or_default();
    if whole == "*" {
        return Ok(Cow::Borrowed("*"));
    }
    let (path, query) = match whole.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (whole, None),
    };
    let mut normal = match path {
        "" => "/".to_owned(),
        path if path.starts_with('/') => normal_path(path)?,
        _ => return Err("the target is no path"),
    };
    if let Some(query) = query {
        normal.push('?');
        encode(query, false, &mut normal);
    }
    Ok(if normal == text {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(normal)
    })
}

/// Returns the normal form of the beginning of a path, for example of a prefix purge. What follows
/// its last slash is no whole segment.
pub(crate) fn normal_prefix(text: &str) -> Result<String, &'static str> {
    let path_end = text.find('?').unwrap_or(text.len());
    let last = text[..path_end].rfind('/').map_or(0, |slash| slash + 1);
    let mut normal = normal_target(&text[..last])?.into_owned();
    // An escape may be incomplete there.
    let tail = &text[last..path_end];
    let whole = tail
        .rfind('%')
        .filter(|at| tail.len() - at < 3)
        .unwrap_or(tail.len());
    encode(&tail[..whole], true, &mut normal);
    normal.push_str(&tail[whole..]);
    encode(&text[path_end..], false, &mut normal);
    Ok(normal)
}

/// Returns the normal form of a target that a rule makes of a client's.
///
/// # Errors
/// The path has dot segments, by which it would leave the path that the rule names.
pub(crate) fn rewritten_target(text: &str) -> Result<Cow<'_, str>, &'static str> {
    let path = text.split(['?', '#']).next().unwrap_or_default();
    for part in path.split('/') {
        if matches!(segment(part)?, Segment::Current | Segment::Parent) {
            return Err("the target has a dot segment");
        }
    }
    normal_target(text)
}

/// The meaning of a segment of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Segment {
    Name,
    /// It has an encoded slash or a backslash: several segments for some servers.
    Several,
    /// `.`
    Current,
    /// `..`
    Parent,
}

fn normal_path(path: &str) -> Result<String, &'static str> {
    let mut kept: Vec<(&str, Segment)> = Vec::new();
    let mut segments = path.trim_start_matches('/').split('/').peekable();
    while let Some(text) = segments.next() {
        let segment = segment(text)?;
        // Servers of Java cut parameters off: `/;/admin` is `//admin` for them.
        if decoded(text).first() == Some(&b';') && segments.peek().is_some() {
            return Err("the target has an empty segment with a parameter");
        }
        if segment == Segment::Parent {
            match kept.pop() {
                Some(("", _)) => return Err("the target has .. after repeated slashes"),
                Some((_, Segment::Several)) => {
                    return Err("the target has .. after an encoded slash");
                }
                _ => {}
            }
        }
        match segment {
            Segment::Name | Segment::Several => kept.push((text, segment)),
            Segment::Current | Segment::Parent if segments.peek().is_none() => {
                kept.push(("", Segment::Name))
            }
            Segment::Current | Segment::Parent => {}
        }
    }
    let mut normal = String::with_capacity(path.len());
    for (text, _) in kept {
        // Resolved segments may leave others empty at the start.
        if !text.is_empty() || !normal.is_empty() {
            normal.push('/');
            encode(text, true, &mut normal);
        }
    }
    if normal.is_empty() {
        normal.push('/');
    }
    Ok(normal)
}

fn segment(text: &str) -> Result<Segment, &'static str> {
    let decoded = decoded(text);
    if decoded.contains(&0) {
        return Err("the target has a NUL");
    }
    let read = old_utf8(&decoded);
    let mut parts = read.split(|byte| matches!(byte, b'/' | b'\\'));
    let is_several = parts.clone().nth(1).is_some();
    // Servers of Java cut parameters off: `%2f;a` is `//` for them.
    if is_several && parts.clone().any(|part| part.first() == Some(&b';')) {
        return Err("the target has a parameter beside an encoded slash or a backslash");
    }
    let dots = parts.find_map(|part| match part.split(|byte| *byte == b';').next() {
        Some(b".") => Some((part, Segment::Current)),
        Some(b"..") => Some((part, Segment::Parent)),
        _ => None,
    });
    if dots.is_some() && read.len() != decoded.len() {
        return Err("the target has a dot segment in overlong UTF-8");
    }
    match dots {
        Some(_) if is_several => {
            Err("the target has a dot segment beside an encoded slash or a backslash")
        }
        Some((part, _)) if part.contains(&b';') => {
            Err("the target has a dot segment with a parameter")
        }
        Some((_, segment)) => Ok(segment),
        None if is_several => Ok(Segment::Several),
        None => Ok(Segment::Name),
    }
}

/// Returns bytes as old decoders of UTF-8 read them, for which `%c0%ae` is a dot, and `%c0%af` and
/// `%c1%9c` are slashes (RFC 3629 §10). In other encodings, these bytes are letters.
fn old_utf8(bytes: &[u8]) -> Cow<'_, [u8]> {
    if !bytes.contains(&0xc0) && !bytes.contains(&0xc1) {
        return Cow::Borrowed(bytes);
    }
    let (mut all, mut rest) = (Vec::with_capacity(bytes.len()), bytes);
    while let Some((first, after)) = rest.split_first() {
        let (byte, after) = match rest {
            [0xc0, 0xae, after @ ..] => (b'.', after),
            [0xc0, 0xaf, after @ ..] => (b'/', after),
            [0xc1, 0x9c, after @ ..] => (b'\\', after),
            _ => (*first, after),
        };
        all.push(byte);
        rest = after;
    }
    Cow::Owned(all)
}

/// Returns true for bytes that are encoded in a normal form.
pub(crate) fn is_encoded(byte: u8) -> bool {
    !byte.is_ascii_graphic() || matches!(byte, b'"' | b'<' | b'>' | b'`')
}

/// Appends a part of a target, with the bytes encoded that it may not have. In a query, a lone `%`
/// and a backslash are harmless: many sites send them.
fn encode(text: &str, is_path: bool, all: &mut String) {
    let bytes = text.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        let is_odd = is_path && (*byte == b'\\' || *byte == b'%' && pair(bytes, at).is_none());
        if is_odd || is_encoded(*byte) {
            push_encoded(*byte, all);
        } else {
            all.push(char::from(*byte));
        }
    }
}

fn push_encoded(byte: u8, all: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    all.push('%');
    all.push(char::from(DIGITS[usize::from(byte >> 4)]));
    all.push(char::from(DIGITS[usize::from(byte & 15)]));
}

/// Returns the byte that is encoded at this position.
fn pair(bytes: &[u8], at: usize) -> Option<u8> {
    let digit = |at: usize| char::from(*bytes.get(at)?).to_digit(16);
    let is_encoded = bytes.get(at) == Some(&b'%');
    u8::try_from(digit(at + 1)? * 16 + digit(at + 2)?)
        .ok()
        .filter(|_| is_encoded)
}

/// Decodes percent-encoded bytes.
pub(crate) fn decoded(text: &str) -> Cow<'_, [u8]> {
    if !text.contains('%') {
        return Cow::Borrowed(text.as_bytes());
    }
    let (bytes, mut all, mut at) = (text.as_bytes(), Vec::with_capacity(text.len()), 0);
    while let Some(byte) = bytes.get(at) {
        let pair = pair(bytes, at);
        all.push(pair.unwrap_or(*byte));
        at += if pair.is_some() { 3 } else { 1 };
    }
    Cow::Owned(all)
}

/// Encodes bytes for a path: what may not stand there is percent-encoded.
pub(crate) fn encoded(bytes: &[u8]) -> String {
    let mut all = String::with_capacity(bytes.len());
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/".contains(byte) {
            all.push(char::from(*byte));
        } else {
            push_encoded(*byte, &mut all);
        }
    }
    all
}

/// A target that has been read once, byte by byte.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    text: &'a str,
    path_end: usize,
    /// True if the path is its own normal form, and the form in which patterns see it.
    is_normal: bool,
    is_rfc_3986: bool,
}

// Classes of bytes; a byte may be in several.
const SLASH: u8 = 1;
/// A slash, a dot or a semicolon: behind a slash, they need a closer look. It is `SLASH << 1`, so a
/// shift finds both beside each other.
const BEHIND_SLASH: u8 = 2;
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
    classes[b'/' as usize] = SLASH | BEHIND_SLASH;
    classes[b'.' as usize] = BEHIND_SLASH;
    classes[b';' as usize] = BEHIND_SLASH;
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
        let is_normal =
            (all & (PERCENT | OTHER)) | (pairs & BEHIND_SLASH) == 0 && bytes.first() == Some(&b'/');
        let all = bytes[path_end..]
            .iter()
            .fold(all, |all, byte| all | CLASSES[usize::from(*byte)]);
        Target {
            text,
            path_end,
            is_normal,
            is_rfc_3986: all & OTHER == 0,
        }
    }
}

impl<'a> Target<'a> {
    /// Returns the text.
    pub fn as_str(self) -> &'a str {
        self.text
    }

    /// Returns true if it has only characters of RFC 3986 §3.3 and §3.4, and is its own normal
    /// form.
    pub(crate) fn is_plain(self) -> bool {
        self.is_rfc_3986
            && (self.is_normal || normal_target(self.text).is_ok_and(|normal| normal == self.text))
    }

    /// Returns the path.
    pub(crate) fn path(self) -> &'a str {
        &self.text[..self.path_end]
    }

    /// Returns the query, without the question mark.
    pub(crate) fn query(self) -> Option<&'a str> {
        self.text.get(self.path_end + 1..)
    }

    /// Returns the path as patterns see it: decoded, with backslashes as slashes, and repeated
    /// slashes merged. Otherwise `/%61dmin`, `/x//admin` and `/admin%2fx` would evade a rule for
    /// `/admin/*`.
    #[inline]
    pub(crate) fn matched_path(self) -> Cow<'a, [u8]> {
        if self.is_normal {
            Cow::Borrowed(self.path().as_bytes())
        } else {
            Cow::Owned(Decoded::new(self.path(), true).bytes)
        }
    }
}

/// A decoded path with backslashes as slashes, and where its bytes stand in the path.
pub(crate) struct Decoded {
    pub(crate) bytes: Vec<u8>,
    starts: Vec<usize>,
}

impl Decoded {
    /// Decodes a path. `merges`: repeated slashes become one.
    pub(crate) fn new(path: &str, merges: bool) -> Decoded {
        // A rule for every path is one for `*`, too.
        let path = if path == "*" { "/" } else { path };
        let (raw, mut at) = (path.as_bytes(), 0);
        let mut decoded = Decoded {
            bytes: Vec::with_capacity(raw.len()),
            starts: Vec::new(),
        };
        while let Some(byte) = raw.get(at) {
            let pair = pair(raw, at);
            let byte = match pair.unwrap_or(*byte) {
                b'\\' => b'/',
                byte => byte,
            };
            if !(merges && byte == b'/' && decoded.bytes.last() == Some(&b'/')) {
                decoded.bytes.push(byte);
                decoded.starts.push(at);
            }
            at += if pair.is_some() { 3 } else { 1 };
        }
        decoded
    }

    /// Returns the part of the path for these decoded bytes.
    pub(crate) fn raw<'a>(&self, path: &'a str, range: Range<usize>) -> &'a str {
        let place = |at: usize| self.starts.get(at).copied().unwrap_or(path.len());
        path.get(place(range.start)..place(range.end))
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matched_path(target: &str) -> String {
        String::from_utf8_lossy(&Target::from(target).matched_path()).into_owned()
    }

    proptest! {
        /// Failure: a normal form has another normal form, or a part that some server reads as a
        /// way up.
        #[test]
        fn a_normal_form_is_none(target in "/(%[0-9a-f]{0,2}|%2[ef]|%5c|[a/.;?\\\\%é\"]){0,12}") {
            let Ok(normal) = normal_target(&target) else { return Ok(()) };
            let again = normal_target(&normal);
            prop_assert_eq!(again.as_deref(), Ok(&*normal));
            prop_assert!(normal.is_ascii() && normal.starts_with('/') && !normal.starts_with("//"), "{}", normal);
            let path = Target::from(&*normal).path();
            let unfolded = String::from_utf8_lossy(&decoded(path)).replace('\\', "/");
            let is_dots = |segment: &str| matches!(segment.split(';').next(), Some("." | ".."));
            prop_assert!(!unfolded.split('/').any(is_dots), "{}", normal);
            let matched = matched_path(&normal);
            prop_assert!(matched.starts_with('/') && !matched.contains("//"), "{}", matched);
        }

        /// Failure: the classes of bytes say something else than a look at the text.
        #[test]
        fn a_target_is_misread(target in "/([a/.%?é\\[\"# -]|%2[fe]){0,12}") {
            let read = Target::from(target.as_str());
            let (path, query) = target.split_once('?').map_or((&*target, None), |(path, query)| (path, Some(query)));
            prop_assert_eq!((read.as_str(), read.path(), read.query()), (&*target, path, query));
            let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/?%".contains(&byte);
            prop_assert_eq!(read.is_rfc_3986, target.bytes().all(is_allowed));
            prop_assert_eq!(read.matched_path().into_owned(), Decoded::new(path, true).bytes);
            if read.is_plain() {
                let normal = normal_target(&target);
                prop_assert_eq!(normal.as_deref(), Ok(&*target));
            }
        }
    }

    #[test]
    fn normal_forms() {
        for (target, normal) in [
            ("", "/"),
            ("?x", "/?x"),
            ("#", "/"),
            ("/a#b?c", "/a"),
            ("*", "*"),
            ("/a/./b/../c", "/a/c"),
            ("/a/%2e/b/.%2E/c/..", "/a/"),
            ("/../../a", "/a"),
            ("/..", "/"),
            ("/.", "/"),
            ("//a//b/", "/a//b/"),
            ("/.//a", "/a"),
            ("/a/..//b", "/b"),
            ("/%61/%7e/%2F/%5c", "/%61/%7e/%2F/%5c"),
            ("/a\\b", "/a%5Cb"),
            (
                "/é\"<>`?é\"<>`\\%",
                "/%C3%A9%22%3C%3E%60?%C3%A9%22%3C%3E%60\\%",
            ),
            ("/100%/%zz%4", "/100%25/%25zz%254"),
            ("/%%32%65", "/%25%32%65"),
            ("/a.b/.c/..d/...", "/a.b/.c/..d/..."),
            ("/a;b/;c", "/a;b/;c"),
            ("/;jsessionid=1?a", "/;jsessionid=1?a"),
            ("/%C0%B4%C0%AE/%C0%AFb", "/%C0%B4%C0%AE/%C0%AFb"),
        ] {
            assert_eq!(normal_target(target).as_deref(), Ok(normal), "{target}");
        }
        for target in [
            "a",
            "/a/..%2fb",
            "/a%2f..",
            "/a%2f../b",
            "/a\\..",
            "/a/%2e%2e%5cb",
            "/a//../b",
            "/a/..;/b",
            "/a/%2e;x",
            "/a%00",
            "/%c0%ae%c0%ae/",
            "/;/admin",
            "/a/;b=c/d",
            "/%3b/admin",
            "/a/%c0%ae./b",
            "/..%C0%AFb",
            "/%2f;;/admin",
            "/..%2f",
            "/a%2fb/../c",
            "/a/..%3b/c",
        ] {
            assert!(normal_target(target).is_err(), "{target}");
        }
        assert_eq!(normal_prefix("/a/../b/.x"), Ok("/b/.x".to_owned()));
        assert_eq!(normal_prefix("/a/b%2"), Ok("/a/b%2".to_owned()));
        assert_eq!(normal_prefix("/a/b?c\""), Ok("/a/b?c%22".to_owned()));
    }

    #[test]
    fn spellings_of_a_path_evade_a_pattern() {
        for spelling in [
            "/admin",
            "/%61dmin",
            "//admin",
            "/%2fadmin",
            "/%5cadmin",
            "/%2F/admin",
        ] {
            assert_eq!(matched_path(spelling), "/admin", "{spelling}");
            assert_eq!(
                matched_path(&format!("{spelling}?a=/../b")),
                "/admin",
                "{spelling}"
            );
        }
    }
}
