//! One line of a log by the meaning of its fields, and the request of a cache that it describes.
//!
//! A cache sees GET and HEAD. It stores the responses whose status is heuristically cacheable
//! (RFC 9110, section 15.1), answers a 304 from what it has stored, and a 206 from the object that
//! the range is a part of. Other statuses and methods are left out, with their reason.

use super::left_out::LeftOut;
use super::names::{ROLES, Role};
use crate::Access;
use crate::trace::decimal::whole;
use crate::trace::error::TraceProblem;
use crate::trace::object_id::name_hash;
use crate::trace::options::LogOptions;
use crate::trace::times;
use larder_units::Time;
use std::borrow::Cow;

/// Stands for a text that is not in the line.
const ESCAPED: &[u8] = b"\\";

/// The texts of one line, by their meaning. A missing field is empty.
#[derive(Debug, Default)]
pub(super) struct Record<'a> {
    texts: [&'a [u8]; ROLES],
    /// Texts that differ from the line, because it escapes them: few lines have any.
    unescaped: Vec<(Role, Vec<u8>)>,
    /// The time, if the pattern has read it already.
    pub time: Option<Time>,
}

/// What is the same for all lines of a log.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LogKind {
    /// True if lines state how many bytes were sent.
    pub has_sizes: bool,
    /// True for the tables of the Internet Traffic Archive, of which published figures count the
    /// statuses 200 and 304, for any method.
    pub is_of_archive: bool,
}

/// What a line says.
#[derive(Clone, Copy, Debug)]
pub(super) enum Said {
    /// A request: its object, the bytes sent of it (or its size), and its time.
    Request {
        access: Access,
        /// True if the line names the host, or the caller does.
        has_host: bool,
    },
    LeftOut(LeftOut),
    /// A header, which is no request of anybody.
    Header,
}

impl<'a> Record<'a> {
    /// Forgets the texts.
    pub fn clear(&mut self) {
        *self = Record::default();
    }

    pub fn set(&mut self, role: Role, text: impl Into<Cow<'a, [u8]>>) {
        match text.into() {
            Cow::Borrowed(text) => self.texts[role as usize] = text,
            Cow::Owned(text) => {
                // Not empty, so that the field is known to be there.
                self.texts[role as usize] = ESCAPED;
                self.unescaped.push((role, text));
            }
        }
    }

    /// Returns a text of the line itself; `None` if it was unescaped, or is missing.
    pub fn borrowed(&self, role: Role) -> Option<&'a [u8]> {
        let text = self.texts[role as usize];
        let is_own = self.unescaped.iter().any(|(own, _)| *own == role);
        (!text.is_empty() && !is_own).then_some(text)
    }

    /// Returns a text; empty if it is missing or `-`.
    pub fn text(&self, role: Role) -> &[u8] {
        let mut text = self.texts[role as usize];
        if let Some((_, own)) = self.unescaped.iter().rev().find(|(own, _)| *own == role) {
            text = own;
        }
        match text {
            b"-" | b"\"-\"" | b"null" => b"",
            text => text,
        }
    }

    /// Returns true if the line could describe a request: it has a status and a target.
    pub fn is_request(&self) -> bool {
        let has = |role: Role| !self.texts[role as usize].is_empty();
        (has(Role::Status) || has(Role::Body) || has(Role::Sent) || has(Role::Method))
            && (has(Role::Target) || has(Role::Path) || has(Role::Request))
    }

    /// Returns true if the line has the URL of a request.
    pub fn has_url(&self) -> bool {
        self.is_request() && matches!(self.target(), Ok(Some(_)))
    }

    /// Returns the request that the line describes. `key` is a buffer for the object's key.
    ///
    /// # Errors
    /// If a field is missing, or is no number.
    pub fn said(
        &self,
        options: &LogOptions,
        kind: LogKind,
        key: &mut Vec<u8>,
    ) -> Result<Said, TraceProblem> {
        let Some(target) = self.target()? else {
            return Ok(Said::LeftOut(LeftOut::NoRequest));
        };
        let is_read = matches!(target.method, b"GET" | b"HEAD" | b"get" | b"head" | b"");
        if !is_read && !kind.is_of_archive {
            return Ok(Said::LeftOut(LeftOut::Method));
        }
        let now = self.now(options)?;
        let status = self.status()?;
        let size = if kind.has_sizes {
            self.size(status)?
        } else {
            1
        };
        let is_left = kind.is_of_archive && !matches!(status, 200 | 304);
        if is_left || !is_stored(status) {
            return Ok(Said::LeftOut(LeftOut::Status(status)));
        }
        if forbids(self.text(Role::CacheControl)) {
            return Ok(Said::LeftOut(LeftOut::CacheControl));
        }
        if self.text(Role::CacheStatus).eq_ignore_ascii_case(b"bypass") {
            return Ok(Said::LeftOut(LeftOut::Bypass));
        }
        self.write_key(&target, options, key);
        if options
            .uncacheable
            .iter()
            .any(|pattern| pattern.is_match(key))
        {
            return Ok(Said::LeftOut(LeftOut::Uncacheable));
        }
        let access = Access {
            id: name_hash(key),
            size,
            now,
        };
        let has_host = !target.host.is_empty() || options.host.is_some();
        Ok(Said::Request { access, has_host })
    }

    fn now(&self, options: &LogOptions) -> Result<Time, TraceProblem> {
        if let Some(time) = self.time {
            return Ok(time);
        }
        let (date, clock) = (self.text(Role::Date), self.text(Role::Clock));
        if date.is_empty() {
            let text = self.text(Role::Time);
            if text.is_empty() {
                return Err(TraceProblem::Missing("time"));
            }
            return times::any(text, options.time_unit);
        }
        match times::date(date) {
            Some(time) => Ok(time),
            None => {
                let whole = [date, b":", clock].concat();
                let spaced = || times::date(&[date, b" ", clock].concat());
                times::date(&whole)
                    .or_else(spaced)
                    .ok_or_else(|| TraceProblem::field("time", &whole))
            }
        }
    }

    fn status(&self) -> Result<u64, TraceProblem> {
        let text = self.text(Role::Status);
        if text.is_empty() {
            return Err(TraceProblem::Missing("status"));
        }
        // IIS writes `404.2` in some logs.
        let digits = text.split(|byte| *byte == b'.').next().unwrap_or_default();
        whole(digits)
            .filter(|status| (100..1000).contains(status))
            .ok_or_else(|| TraceProblem::field("status", text))
    }

    /// Returns the bytes that were sent, or the size of the object if the line has it.
    fn size(&self, status: u64) -> Result<u64, TraceProblem> {
        if let Some(size) = content_range_size(self.text(Role::ContentRange)) {
            return Ok(size);
        }
        let object = self.text(Role::ObjectSize);
        if !object.is_empty() && status != 304 {
            return bytes(object);
        }
        let body = self.text(Role::Body);
        bytes(if body.is_empty() {
            self.text(Role::Sent)
        } else {
            body
        })
    }

    /// Returns the parts of the URL; `None` if there was no request. A target of `*` is no object.
    fn target(&self) -> Result<Option<Target<'_>>, TraceProblem> {
        let line = self.text(Role::Request);
        let mut method = self.text(Role::Method);
        let mut url = &b""[..];
        if let Some(parsed) = RequestLine::of(line) {
            url = parsed.target;
            method = if method.is_empty() {
                parsed.method
            } else {
                method
            };
        }
        for role in [Role::Target, Role::Path] {
            if url.is_empty() {
                url = self.text(role);
            }
        }
        if url.is_empty() && line.first().is_some_and(|byte| *byte == b'/') {
            url = line;
        }
        if url.is_empty() {
            let has_line = !self.texts[Role::Request as usize].is_empty();
            let is_early = matches!(self.text(Role::Status), b"400" | b"408" | b"499" | b"000");
            return if has_line || is_early {
                Ok(None)
            } else {
                Err(TraceProblem::Missing("URL"))
            };
        }
        if !method.is_empty() && !is_method(method) {
            return Ok(None);
        }
        let mut target = Target {
            method,
            scheme: self.text(Role::Scheme),
            host: self.text(Role::Host),
            port: self.text(Role::Port),
            path: url,
            query: self.text(Role::Query),
        };
        if matches!(target.host, b"_" | b"") {
            target.host = match self.text(Role::ServerName) {
                b"_" => b"",
                name => name,
            };
        }
        target.split_absolute();
        Ok(Some(target))
    }

    /// Writes the key under which a cache stores the object: scheme and host if the log has them,
    /// path and query.
    fn write_key(&self, target: &Target<'_>, options: &LogOptions, key: &mut Vec<u8>) {
        key.clear();
        let given = options.host.as_deref().unwrap_or_default().as_bytes();
        let host = if target.host.is_empty() {
            given
        } else {
            target.host
        };
        let scheme = target
            .scheme
            .split(|byte| *byte == b'/')
            .next()
            .unwrap_or_default();
        let scheme = scheme.strip_suffix(b":").unwrap_or(scheme);
        if !host.is_empty() {
            if !scheme.is_empty() {
                key.extend(scheme.iter().map(u8::to_ascii_lowercase));
                key.extend_from_slice(b"://");
            }
            key.extend(host_without_port(host).iter().map(u8::to_ascii_lowercase));
            let port = port_of(host).unwrap_or(target.port);
            if !matches!(port, b"" | b"80" | b"443" | b"0") {
                key.push(b':');
                key.extend_from_slice(port);
            }
        }
        let end = memchr::memchr(b'#', target.path).unwrap_or(target.path.len());
        let path = &target.path[..end];
        key.extend_from_slice(path);
        if !target.query.is_empty() && memchr::memchr(b'?', path).is_none() {
            key.push(b'?');
            key.extend_from_slice(target.query.strip_prefix(b"?").unwrap_or(target.query));
        }
    }
}

/// The parts of a URL, each empty if it is missing.
struct Target<'a> {
    method: &'a [u8],
    scheme: &'a [u8],
    host: &'a [u8],
    port: &'a [u8],
    path: &'a [u8],
    query: &'a [u8],
}

impl Target<'_> {
    /// Takes scheme and host out of an absolute URL.
    fn split_absolute(&mut self) {
        if self.path.first() == Some(&b'/') {
            return;
        }
        let Some(at) = memchr::memmem::find(self.path, b"://").filter(|at| *at <= 8) else {
            return;
        };
        let (scheme, rest) = (&self.path[..at], &self.path[at + 3..]);
        if !scheme.iter().all(u8::is_ascii_alphanumeric) || scheme.is_empty() {
            return;
        }
        let end = rest
            .iter()
            .position(|byte| matches!(byte, b'/' | b'?'))
            .unwrap_or(rest.len());
        self.scheme = scheme;
        self.host = &rest[..end];
        self.port = b"";
        self.path = if end == rest.len() {
            b"/"
        } else {
            &rest[end..]
        };
    }
}

/// Method and target of a request line.
struct RequestLine<'a> {
    method: &'a [u8],
    target: &'a [u8],
}

impl RequestLine<'_> {
    /// Reads `GET /a b HTTP/1.1`, or `GET /a` of HTTP/0.9. The target may have blanks.
    fn of(line: &[u8]) -> Option<RequestLine<'_>> {
        let line = line.trim_ascii();
        let blank = memchr::memchr(b' ', line)?;
        let (method, rest) = (&line[..blank], line[blank..].trim_ascii_start());
        if !is_method(method) {
            return None;
        }
        let target = match memchr::memrchr(b' ', rest) {
            Some(at) if rest[at + 1..].starts_with(b"HTTP/") => &rest[..at],
            _ => rest,
        };
        Some(RequestLine {
            method,
            target: target.trim_ascii_end(),
        })
    }
}

/// Returns true if a text has the form of a method: some letters.
fn is_method(text: &[u8]) -> bool {
    (1..=24).contains(&text.len())
        && text
            .iter()
            .all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'_'))
}

/// Returns true for the statuses that are heuristically cacheable (RFC 9110, section 15.1), and
/// 304, for which a cache has the object.
fn is_stored(status: u64) -> bool {
    matches!(
        status,
        200 | 203 | 204 | 206 | 300 | 301 | 304 | 308 | 404 | 405 | 410 | 414 | 501
    )
}

/// Returns true if `Cache-Control` forbids a shared cache to store the response.
fn forbids(cache_control: &[u8]) -> bool {
    cache_control
        .split(|byte| matches!(byte, b',' | b';'))
        .map(|directive| directive.trim_ascii())
        .any(|directive| {
            directive.eq_ignore_ascii_case(b"no-store")
                || directive.eq_ignore_ascii_case(b"private")
        })
}

/// Reads a number of bytes: `-` and nothing are 0, and HAProxy writes `+` before the bytes of a
/// response that had not ended.
fn bytes(text: &[u8]) -> Result<u64, TraceProblem> {
    if text.is_empty() {
        return Ok(0);
    }
    let digits = text.strip_prefix(b"+").unwrap_or(text);
    // JSON writers with one type of number write `5000.0`.
    let digits = digits.strip_suffix(b".0").unwrap_or(digits);
    whole(digits).ok_or_else(|| TraceProblem::field("size in bytes", text))
}

/// Returns the size of the whole object of `bytes 0-99/1000`.
fn content_range_size(text: &[u8]) -> Option<u64> {
    let slash = memchr::memrchr(b'/', text)?;
    whole(text[slash + 1..].trim_ascii())
}

/// Returns the host of `a.example:443` or `[::1]:80`.
fn host_without_port(host: &[u8]) -> &[u8] {
    let port = port_of(host).map_or(0, |port| port.len() + 1);
    &host[..host.len() - port]
}

fn port_of(host: &[u8]) -> Option<&[u8]> {
    let colon = memchr::memrchr(b':', host)?;
    let port = &host[colon + 1..];
    let is_port = !port.is_empty() && port.len() <= 5 && port.iter().all(u8::is_ascii_digit);
    // An IPv6 address has several colons; its port follows a bracket.
    let is_after_name = !host[..colon].contains(&b':') || host[..colon].ends_with(b"]");
    (is_port && is_after_name).then_some(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(fields: &[(Role, &'static str)]) -> String {
        let mut record = Record::default();
        for (role, text) in fields {
            record.set(*role, text.as_bytes());
        }
        let mut key = Vec::new();
        let target = record.target().unwrap().unwrap();
        record.write_key(&target, &LogOptions::default(), &mut key);
        String::from_utf8(key).unwrap()
    }

    /// Failure: one object has two keys, or two objects have one.
    #[test]
    fn an_object_has_another_key() {
        use Role::{Host, Path, Port, Query, Request, Scheme, ServerName, Target};
        for (fields, expected) in [
            (&[(Request, "GET /a b HTTP/1.1")][..], "/a b"),
            (&[(Request, "GET /a")], "/a"),
            (
                &[(Request, "GET http://A.example:80/x?y HTTP/1.1")],
                "http://a.example/x?y",
            ),
            (
                &[(Request, "GET http://a.example HTTP/1.1")],
                "http://a.example/",
            ),
            (
                &[(Host, "a:443"), (Target, "/x"), (Scheme, "https")],
                "https://a/x",
            ),
            (&[(Host, "a:8080"), (Target, "/x")], "a:8080/x"),
            (&[(Host, "a"), (Port, "8080"), (Target, "/x")], "a:8080/x"),
            (&[(Host, "[::1]:8080"), (Target, "/x")], "[::1]:8080/x"),
            (&[(Host, "-"), (ServerName, "b"), (Target, "/x")], "b/x"),
            (&[(Path, "/x"), (Query, "y=1")], "/x?y=1"),
            (&[(Path, "/x"), (Query, "-")], "/x"),
            (&[(Target, "/x?y=1"), (Query, "y=1")], "/x?y=1"),
            (&[(Target, "/x?u=http://b/")], "/x?u=http://b/"),
        ] {
            assert_eq!(key(fields), expected, "{fields:?}");
        }
    }
}
