//! What a caller says about the lines of a trace, and what of it counts.

use super::table::ColumnNames;
use super::times::TimeUnit;

/// What a caller says about the lines of a trace, which its reader needs.
#[derive(Clone, Debug, Default)]
pub struct LineOptions {
    /// The columns of time, object and size.
    pub columns: Option<ColumnNames>,
    /// What is said about the lines of a log, and what of it counts.
    pub log: LogOptions,
}

/// What is said about the lines of a log or of a table, and what of it counts.
#[derive(Clone, Debug, Default)]
pub struct LogOptions {
    /// The format of a log's lines, as [`LogFormat`](crate::LogFormat) reads it; `None`: they tell
    /// it.
    pub format: Option<String>,
    /// The host of lines that name none.
    pub host: Option<String>,
    /// The unit of times that are numbers; `None`: by their size, or seconds.
    pub time_unit: Option<TimeUnit>,
    /// URLs whose responses no cache stores.
    pub uncacheable: Vec<UrlPattern>,
    /// True if writes of block traces count as requests.
    pub writes: bool,
}

/// A pattern of URLs: `*` stands for any text. A pattern that begins with `/` or `*` is one of path
/// and query, another one begins with the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlPattern {
    parts: Vec<String>,
    has_host: bool,
}

impl UrlPattern {
    /// Returns the pattern of this text, such as `/api/*` or `a.example/*.php`.
    pub fn new(text: &str) -> UrlPattern {
        UrlPattern {
            parts: text.split('*').map(str::to_owned).collect(),
            has_host: !text.starts_with(['/', '*']),
        }
    }

    /// Returns true if a URL has this pattern: `scheme://host/path?query`, without the first parts
    /// if they are not known.
    pub(super) fn is_match(&self, url: &[u8]) -> bool {
        let without_scheme = memchr::memmem::find(url, b"://")
            .filter(|at| !url[..*at].contains(&b'/'))
            .map_or(url, |at| &url[at + 3..]);
        let path = memchr::memchr(b'/', without_scheme).unwrap_or(0);
        let mut rest = if self.has_host {
            without_scheme
        } else {
            &without_scheme[path..]
        };
        let last = self.parts.len() - 1;
        for (place, part) in self.parts.iter().enumerate() {
            let part = part.as_bytes();
            if place == 0 {
                let Some(after) = rest.strip_prefix(part) else {
                    return false;
                };
                rest = after;
            } else if place == last {
                return rest.ends_with(part);
            } else {
                let Some(at) = memchr::memmem::find(rest, part) else {
                    return false;
                };
                rest = &rest[at + part.len()..];
            }
        }
        rest.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: a URL counts that should not, or one is left out that counts.
    #[test]
    fn another_url_is_left_out() {
        for (pattern, url, expected) in [
            ("/api/*", "/api/x", true),
            ("/api/*", "http://a.example/api/x", true),
            ("/api/*", "a.example/x/api/", false),
            ("*.php", "/a.php", true),
            ("*.php", "/a.php?x", false),
            ("*.php*", "/a.php?x", true),
            ("a.example/*", "https://a.example/x", true),
            ("a.example/*", "b.example/x", false),
            ("/x", "/x", true),
            ("/x", "/xy", false),
            ("/x*y*z", "/xayaz", true),
            ("/x*y*z", "/xz", false),
        ] {
            let found = UrlPattern::new(pattern).is_match(url.as_bytes());
            assert_eq!(found, expected, "{pattern} {url}");
        }
    }
}
