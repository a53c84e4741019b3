//! Purge: an operator removes responses from the store, whether the origin has changed them or not.
//!
//! A URL is one lookup, and covers all its variants. A prefix, a tag and everything are a walk over
//! the store in steps, so that the host can process requests in between. A response that was
//! requested before the walk and arrives during it is not stored. Tags are the ones in the
//! response: `Surrogate-Key` (words) and `Cache-Tag` (a list).

use crate::rfc::fields;
use crate::rfc::key::Key;
use crate::rfc::route::Router;
use crate::store::entry::View;
use http::HeaderName;
use larder_policy::observe;
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
    /// Every URL that begins so. A prefix that ends within a path segment takes `/ab` with `/a`.
    Prefix(Url),
    /// Every response that carries the tag.
    Tag(String),
    /// All.
    Everything,
}

/// A purge: hard ones remove; soft ones make stale, so that what has not changed is confirmed by a
/// 304, and serves while the origin fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purge {
    /// What.
    pub scope: Scope,
    /// True if the responses stay, stale.
    pub soft: bool,
}

impl Purge {
    /// Returns the numbers of the shards in which it may find something.
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

/// The progress of a purge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purged {
    /// Responses removed or made stale by this step.
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

/// The error of a text that is no [`Url`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlError(String);

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
        let sound = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
        if !sound || authority.is_empty() || !["http", "https"].contains(&scheme.to_ascii_lowercase().as_str()) {
            return Err(error());
        }
        let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
        Ok(Url { scheme: scheme.to_owned(), authority: authority.to_owned(), target })
    }
}

impl Url {
    pub(crate) fn key(&self) -> Key<'_> {
        Key::new(&self.scheme, &self.authority, &self.target)
    }

    /// Returns the beginning of the keys of all URLs with this beginning.
    pub(crate) fn prefix(&self) -> Box<[u8]> {
        self.key().to_bytes()
    }
}

/// The test that a walk puts to each stored response.
pub(crate) enum Test {
    Prefix(Box<[u8]>),
    Tag(Box<[u8]>),
    Any,
}

impl Test {
    /// Returns what it takes, for observers.
    pub(crate) fn scope(&self) -> observe::Scope {
        match self {
            Test::Prefix(prefix) => observe::Scope::Prefix(prefix.clone()),
            Test::Tag(tag) => observe::Scope::Tag(tag.clone()),
            Test::Any => observe::Scope::Everything,
        }
    }

    pub(crate) fn takes(&self, stored: View<'_>) -> bool {
        match self {
            Test::Prefix(prefix) => stored.key().starts_with(prefix),
            Test::Tag(tag) => {
                let is_tag = |word: &[u8]| word == &**tag;
                stored.values(&SURROGATE_KEY).flat_map(|line| line.split(u8::is_ascii_whitespace)).any(is_tag)
                    || stored.values(&CACHE_TAG).flat_map(fields::members).any(is_tag)
            }
            Test::Any => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        for (text, key) in [
            ("http://example.com", "http example.com /"),
            ("HTTP://Example.com:80/a?b", "http example.com /a?b"),
            ("https://h:8443?q", "https h:8443 /?q"),
        ] {
            assert_eq!(&*text.parse::<Url>().unwrap().key().to_bytes(), key.as_bytes(), "{text}");
        }
        for text in ["", "/a", "example.com/a", "ftp://h/", "http://", "http://h/ a", "http://h/#a", "http://h/\u{e9}"]
        {
            assert!(text.parse::<Url>().is_err(), "{text}");
        }
    }
}
