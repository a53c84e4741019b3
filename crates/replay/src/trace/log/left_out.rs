//! Why a line of a log is no request of a cache.

use std::fmt;

/// The reason why a line that was read is no request that a cache could serve. It is no fault of
/// the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::trace) enum LeftOut {
    /// The connection ended without a request that could be read: `-`, or the bytes of TLS.
    NoRequest,
    /// Another method than GET and HEAD.
    Method,
    /// A status that a cache stores only if `Cache-Control` says so (RFC 9110, section 15.1).
    Status(u64),
    /// The response's `Cache-Control` forbids a shared cache to store it.
    CacheControl,
    /// The server's own cache did not store the response, by its configuration.
    Bypass,
    /// The URL is one of those that the caller called uncacheable.
    Uncacheable,
    /// A comment, or a header that is repeated.
    Comment,
    /// A line of the server's error log.
    ErrorLog,
    /// A line of the same server that describes no request.
    OtherLine,
    /// A write to a block, or another operation that reads nothing.
    Write,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LeftOut::NoRequest => "connections without a request (`-`, raw bytes of TLS)",
            LeftOut::Method => "methods other than GET and HEAD",
            LeftOut::Status(status) => {
                return write!(f, "status {status}, which a cache does not store by itself");
            }
            LeftOut::CacheControl => "responses whose Cache-Control forbids to store them",
            LeftOut::Bypass => "responses that the server's own cache bypassed",
            LeftOut::Uncacheable => "URLs that --uncacheable names",
            LeftOut::Comment => "comments and headers",
            LeftOut::ErrorLog => "lines of an error log",
            LeftOut::OtherLine => "lines that describe no request",
            LeftOut::Write => {
                "writes, and other operations that read nothing (--writes keeps them)"
            }
        })
    }
}

/// The number of lines of each reason.
#[derive(Clone, Debug, Default)]
pub(in crate::trace) struct Tally(Vec<(LeftOut, u64)>);

impl Tally {
    /// Counts one line.
    pub fn count(&mut self, reason: LeftOut) {
        match self.0.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, lines)) => *lines += 1,
            None => self.0.push((reason, 1)),
        }
    }

    /// Returns the reasons and their lines, the most frequent first.
    pub fn lines(&self) -> Vec<(String, u64)> {
        let mut all = self.0.clone();
        all.sort_by_key(|(reason, lines)| (std::cmp::Reverse(*lines), *reason));
        all.into_iter()
            .map(|(reason, lines)| (reason.to_string(), lines))
            .collect()
    }
}
