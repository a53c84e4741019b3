//! The cache key: scheme, authority and the whole target (RFC 9111 §2). GET and HEAD share it; a
//! stored response always answers a GET.
//!
//! The authority is in lower case and without the scheme's default port (RFC 9110 §4.2.3). The
//! target is compared byte by byte: an origin may distinguish `/a` from `/%61`, so the cache does
//! too.

use siphasher::sip::SipHasher13;
use std::borrow::Cow;
use std::hash::Hasher;

/// A key over borrowed parts, so that a lookup allocates nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key<'a> {
    scheme: Cow<'a, str>,
    authority: Cow<'a, str>,
    target: Cow<'a, str>,
}

impl<'a> Key<'a> {
    /// Returns the key of a request for `target` (path and query; empty means `/`).
    pub(crate) fn new(scheme: &'a str, authority: &'a str, target: &'a str) -> Key<'a> {
        let scheme = small(scheme);
        let mut authority = small(authority);
        let default_port = if scheme == "https" { ":443" } else { ":80" };
        if authority.ends_with(default_port) || authority.ends_with(':') {
            let end = authority.rfind(':').unwrap_or(0);
            match &mut authority {
                Cow::Borrowed(text) => *text = &text[..end],
                Cow::Owned(text) => text.truncate(end),
            }
        }
        let target = if target.is_empty() { "/" } else { target };
        Key {
            scheme,
            authority,
            target: Cow::Borrowed(target),
        }
    }

    /// Returns a keyed hash: names come from the network, and no client may choose names that
    /// collide.
    pub(crate) fn hash(&self, secret: &[u8; 16]) -> u64 {
        // Hashes short keys, which are the most frequent, in one piece: half of the hasher's time
        // is spent between pieces.
        let mut text = [0; 256];
        let mut end = 0;
        let mut hasher = SipHasher13::new_with_key(secret);
        if self.len() <= text.len() {
            for part in self.parts() {
                text[end..end + part.len()].copy_from_slice(part);
                end += part.len();
            }
            return hasher.hash(&text[..end]);
        }
        for part in self.parts() {
            hasher.write(part);
        }
        hasher.finish()
    }

    pub(crate) fn into_owned(self) -> Key<'static> {
        let own = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        Key {
            scheme: own(self.scheme),
            authority: own(self.authority),
            target: own(self.target),
        }
    }

    /// Returns the key as a URL.
    pub(crate) fn text(&self) -> String {
        format!("{}://{}{}", self.scheme, self.authority, self.target)
    }

    /// Returns the authority as in the key.
    pub(crate) fn into_authority(self) -> Cow<'a, str> {
        self.authority
    }

    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    pub(crate) fn len(&self) -> usize {
        self.parts().iter().map(|part| part.len()).sum()
    }

    /// Returns the bytes of the stored key.
    pub(crate) fn to_bytes(&self) -> Box<[u8]> {
        self.parts().concat().into_boxed_slice()
    }

    /// Returns the key of a slice of the object with this key. A target contains no space, so this
    /// is no request's key.
    pub(crate) fn slice(&self, generation: u64, index: u64) -> Key<'static> {
        let (scheme, authority) = (
            self.scheme.to_string().into(),
            self.authority.to_string().into(),
        );
        Key {
            scheme,
            authority,
            target: format!("{} {generation} {index}", self.target).into(),
        }
    }

    pub(crate) fn is(&self, mut stored: &[u8]) -> bool {
        self.parts()
            .into_iter()
            .all(|part| match stored.strip_prefix(part) {
                Some(rest) => {
                    stored = rest;
                    true
                }
                None => false,
            })
            && stored.is_empty()
    }

    /// Returns the parts of the stored key. A space ends scheme and authority: neither they nor a
    /// target can contain one, so no two keys have the same bytes.
    fn parts(&self) -> [&[u8]; 5] {
        [
            self.scheme.as_bytes(),
            b" ",
            self.authority.as_bytes(),
            b" ",
            self.target.as_bytes(),
        ]
    }

    /// Returns the key of `reference` (of a `Location` or `Content-Location`) in a response of this
    /// key, if it has the same origin (RFC 9111 §4.4 allows to invalidate no other). Resolves it by
    /// RFC 3986 §5.2. Returns `None` for other origins and for an invalid reference.
    pub(crate) fn same_origin_reference(&self, reference: &str) -> Option<Key<'static>> {
        let reference = reference.trim();
        let reference = reference
            .split_once('#')
            .map_or(reference, |(before, _)| before);
        let target = if let Some((scheme, rest)) =
            reference.split_once("://").filter(|(s, _)| is_scheme(s))
        {
            let (authority, target) = split_authority(rest);
            self.is_origin(scheme, authority)
                .then(|| target.into_owned())?
        } else if let Some(rest) = reference.strip_prefix("//") {
            let (authority, target) = split_authority(rest);
            self.is_origin(&self.scheme, authority)
                .then(|| target.into_owned())?
        } else if reference.starts_with('/') {
            reference.to_owned()
        } else {
            let path = self.target.split('?').next().unwrap_or("/");
            if reference.is_empty() {
                self.target.to_string()
            } else if reference.starts_with('?') {
                format!("{path}{reference}")
            } else {
                let folder = &path[..path.rfind('/').map_or(0, |slash| slash + 1)];
                format!("{folder}{reference}")
            }
        };
        if target.contains(|c: char| c == ' ' || c.is_control()) {
            return None;
        }
        let target = without_dots(&target);
        let (scheme, authority) = (
            self.scheme.to_string().into(),
            self.authority.to_string().into(),
        );
        Some(Key {
            scheme,
            authority,
            target: target.into(),
        })
    }

    fn is_origin(&self, scheme: &str, authority: &str) -> bool {
        let other = Key::new(scheme, authority, "/");
        other.scheme == self.scheme && other.authority == self.authority
    }
}

/// Returns the URL of a stored key ([`Exchange::tier_key`](crate::Exchange::tier_key)); `None` for
/// other bytes.
pub fn key_url(stored: &[u8]) -> Option<String> {
    let mut parts = std::str::from_utf8(stored).ok()?.splitn(3, ' ');
    let (scheme, authority, target) = (parts.next()?, parts.next()?, parts.next()?);
    Some(format!("{scheme}://{authority}{target}"))
}

/// Returns an authority as in the key: in lower case and without the scheme's default port.
pub fn keyed_authority<'a>(scheme: &'a str, authority: &'a str) -> Cow<'a, str> {
    Key::new(scheme, authority, "/").into_authority()
}

fn small(text: &str) -> Cow<'_, str> {
    if text.bytes().any(|b| b.is_ascii_uppercase()) {
        text.to_ascii_lowercase().into()
    } else {
        text.into()
    }
}

fn is_scheme(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
}

/// Splits `host:port/path?query`; an absent path is `/`.
fn split_authority(text: &str) -> (&str, Cow<'_, str>) {
    let end = text.find(['/', '?']).unwrap_or(text.len());
    let (authority, target) = text.split_at(end);
    let target = if target.starts_with('/') {
        target.into()
    } else {
        format!("/{target}").into()
    };
    (authority, target)
}

/// Removes dot segments (RFC 3986 §5.2.4).
fn without_dots(target: &str) -> String {
    let (path, query) = target
        .split_once('?')
        .map_or((target, None), |(path, query)| (path, Some(query)));
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    kept.pop();
                }
                if last {
                    kept.push("");
                }
            }
            _ => kept.push(segment),
        }
    }
    let mut result = format!("/{}", kept.join("/"));
    if let Some(query) = query {
        result.push('?');
        result.push_str(query);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_resource_has_one_key() {
        let key = Key::new("http", "example.com", "/a?b");
        assert_eq!(key, Key::new("HTTP", "Example.COM:80", "/a?b"));
        assert_eq!(
            Key::new("https", "example.com:443", "/"),
            Key::new("https", "example.com", "")
        );
        assert!(key.is(&key.to_bytes()));
        for other in [
            Key::new("https", "example.com", "/a?b"),
            Key::new("http", "example.com:8080", "/a?b"),
            Key::new("http", "example.org", "/a?b"),
            Key::new("http", "example.com", "/A?b"),
            Key::new("http", "example.com", "/a?b="),
            Key::new("http", "example.com", "/a"),
        ] {
            assert!(!key.is(&other.to_bytes()), "{other:?}");
            assert_ne!(key.hash(&[1; 16]), other.hash(&[1; 16]));
        }
        assert_ne!(key.hash(&[1; 16]), key.hash(&[2; 16]));
    }

    #[test]
    fn references_resolve_within_the_origin() {
        let base = Key::new("http", "h:8080", "/a/b?q");
        for (reference, target) in [
            ("/x", Some("/x")),
            ("x", Some("/a/x")),
            ("../x?y#z", Some("/x?y")),
            ("../../../x/.", Some("/x/")),
            ("?r", Some("/a/b?r")),
            ("", Some("/a/b?q")),
            ("http://H:8080/c", Some("/c")),
            ("http://h:8080?c", Some("/?c")),
            ("//h:8080", Some("/")),
            ("//other/c", None),
            ("http://h/c", None),
            ("https://h:8080/c", None),
            ("/with space", None),
        ] {
            let expected = target.map(|target| Key::new("http", "h:8080", target));
            assert_eq!(
                base.same_origin_reference(reference),
                expected,
                "{reference}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_reference_panics(path in "/[a-z./?]{0,20}", reference in "\\PC{0,40}") {
            let _ = Key::new("http", "h", &path).same_origin_reference(&reference);
        }
    }
}
