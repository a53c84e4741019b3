//! Purge: an operator removes responses from the store, whether or not the origin has changed them.
//!
//! A URL is one lookup, and covers all its variants. A tag is one lookup, too (`tag_index.rs`). A
//! prefix and everything are walks over the store in steps, so that the host can process requests
//! in between. If a purge names a response that was requested before the purge and arrives after
//! it, the response is not stored (`purges.rs`); other responses are. Tags are the ones in the
//! response: `Surrogate-Key` (words) and `Cache-Tag` (a list).

use crate::rfc::fields;
use crate::rfc::key::Key;
use crate::rfc::route::Router;
use http::HeaderName;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

pub(crate) const SURROGATE_KEY: HeaderName = HeaderName::from_static("surrogate-key");
pub(crate) const CACHE_TAG: HeaderName = HeaderName::from_static("cache-tag");

/// The responses to purge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One URL with all its variants.
    Exact(Url),
    /// Every URL with this prefix. A prefix that ends within a path segment selects `/ab` with
    /// `/a`.
    Prefix(Url),
    /// Every response that carries the tag.
    Tag(String),
    /// All responses.
    Everything,
}

/// A purge. A hard one removes responses. A soft one makes them stale: a 304 then confirms
/// unchanged ones, and they may be served while the origin fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purge {
    /// The responses.
    pub scope: Scope,
    /// True if the responses stay and become stale.
    pub soft: bool,
}

impl Purge {
    /// Returns the numbers of the shards that may have such responses.
    pub fn shards(&self, router: &Router) -> Range<usize> {
        match &self.scope {
            Scope::Exact(url) => {
                let shard = router.of_key(url.key()).shard();
                shard..shard + 1
            }
            _ => 0..router.shards(),
        }
    }
}

/// As a line of a log says it: `url https://a.example/x`, `tag "news" softly`.
impl fmt::Display for Purge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.scope {
            Scope::Exact(url) => write!(f, "url {url}"),
            Scope::Prefix(url) => write!(f, "prefix {url}"),
            Scope::Tag(tag) => write!(f, "tag {tag:?}"),
            Scope::Everything => f.write_str("everything"),
        }?;
        f.write_str(if self.soft { " softly" } else { "" })
    }
}

/// The progress of a purge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purged {
    /// Responses that this step removed or made stale.
    pub objects: u64,
    /// The position at which it continues; `None` if it is done.
    pub next: Option<usize>,
}

/// `http://host[:port][/path][?query]`, or with `https`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    scheme: String,
    authority: String,
    target: String,
}

/// The error for a text that is not a [`Url`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlError(String);

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.authority, self.target)
    }
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no URL of the form http://host/path", self.0)
    }
}

impl std::error::Error for UrlError {}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let error = || UrlError(text.to_owned());
        let (scheme, rest) = text.split_once("://").ok_or_else(error)?;
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        let sound = text
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'#');
        if !sound
            || authority.is_empty()
            || !["http", "https"].contains(&scheme.to_ascii_lowercase().as_str())
        {
            return Err(error());
        }
        let target = if target.starts_with('/') {
            target.to_owned()
        } else {
            format!("/{target}")
        };
        Ok(Url {
            scheme: scheme.to_owned(),
            authority: authority.to_owned(),
            target,
        })
    }
}

impl Url {
    /// Returns the URL of a key. `None` if its text would not be read as it.
    pub(crate) fn of(key: &Key<'_>) -> Option<Url> {
        let url: Url = key.text().parse().ok()?;
        (url.key() == *key).then_some(url)
    }

    /// Returns the URL under which its responses are stored: the host in lower case, without the
    /// port of the scheme.
    pub fn normal(&self) -> String {
        self.key().text()
    }

    pub(crate) fn key(&self) -> Key<'_> {
        Key::new(&self.scheme, &self.authority, &self.target)
    }

    /// Returns the prefix of the keys of all URLs with this prefix.
    pub(crate) fn prefix(&self) -> Box<[u8]> {
        self.key().to_bytes()
    }
}

/// Calls `look` with each tag that a response field has.
pub(crate) fn each_tag(name: &str, value: &[u8], look: &mut dyn FnMut(&[u8])) {
    match name {
        "surrogate-key" => {
            value
                .split(u8::is_ascii_whitespace)
                .filter(|tag| !tag.is_empty())
                .for_each(look);
        }
        "cache-tag" => fields::members(value).for_each(look),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: an operator cannot read in the log what was purged.
    #[test]
    fn purges_as_lines_of_a_log() {
        let url = || "https://a.example:443/x?y".parse::<Url>().unwrap();
        for (scope, soft, text) in [
            (Scope::Exact(url()), false, "url https://a.example:443/x?y"),
            (
                Scope::Prefix(url()),
                true,
                "prefix https://a.example:443/x?y softly",
            ),
            (Scope::Tag("new\ns".into()), false, "tag \"new\\ns\""),
            (Scope::Everything, false, "everything"),
        ] {
            assert_eq!(Purge { scope, soft }.to_string(), text);
        }
    }

    #[test]
    fn urls() {
        for (text, key) in [
            ("http://example.com", "http example.com /"),
            ("HTTP://Example.com:80/a?b", "http example.com /a?b"),
            ("https://h:8443?q", "https h:8443 /?q"),
        ] {
            assert_eq!(
                &*text.parse::<Url>().unwrap().key().to_bytes(),
                key.as_bytes(),
                "{text}"
            );
        }
        let written: Url = "HTTP://Example.com:80/A?b".parse().unwrap();
        assert_eq!(written.normal(), "http://example.com/A?b");
        for text in [
            "",
            "/a",
            "example.com/a",
            "ftp://h/",
            "http://",
            "http://h/ a",
            "http://h/#a",
            "http://h/\u{e9}",
        ] {
            assert!(text.parse::<Url>().is_err(), "{text}");
        }
    }
}
