//! What other programs write around the lines of a log: syslog, Docker, Kubernetes.

use super::json::string_member;
use crate::trace::times;
use std::borrow::Cow;

/// A wrapper of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrapper {
    /// `<190>Oct 10 13:55:00 host program[1]: line`, with or without the priority, and with a date
    /// of ISO 8601 (RFC 3164, rsyslog), or as RFC 5424 says.
    Syslog,
    /// `2025-10-10T13:55:00Z stdout F line` of Kubernetes (CRI), or the time alone.
    Cri,
    /// A JSON object with the line in `log` (Docker), `message` (Filebeat, journald) or
    /// `textPayload`.
    Json,
    /// `container-1  | line` of Docker Compose, or `[pod/a/b] line` of kubectl.
    Name,
}

/// The wrappers, in the order in which they are tried.
pub(super) const WRAPPERS: [Wrapper; 4] =
    [Wrapper::Json, Wrapper::Cri, Wrapper::Syslog, Wrapper::Name];

const LINE_MEMBERS: [&str; 7] = [
    "log",
    "message",
    "MESSAGE",
    "textPayload",
    "msg",
    "line",
    "_raw",
];

impl Wrapper {
    /// Returns the name for people.
    pub fn name(self) -> &'static str {
        match self {
            Wrapper::Syslog => "after a prefix of syslog",
            Wrapper::Cri => "after a prefix of Kubernetes (CRI)",
            Wrapper::Json => "in JSON objects (Docker, Filebeat, journald)",
            Wrapper::Name => "after the name of a container",
        }
    }

    /// Returns the line inside; `None` if this is not its wrapper.
    pub fn inner(self, line: &[u8]) -> Option<Cow<'_, [u8]>> {
        match self {
            Wrapper::Syslog => syslog(line).map(Cow::Borrowed),
            Wrapper::Cri => cri(line).map(Cow::Borrowed),
            Wrapper::Name => container(line).map(Cow::Borrowed),
            Wrapper::Json => {
                if line.trim_ascii_start().first() != Some(&b'{') {
                    return None;
                }
                let inner = string_member(line, &LINE_MEMBERS)?;
                let end = inner.trim_ascii_end().len();
                let mut inner = inner;
                inner.truncate(end);
                Some(Cow::Owned(inner))
            }
        }
    }
}

fn syslog(line: &[u8]) -> Option<&[u8]> {
    let mut rest = line;
    if let [b'<', after @ ..] = rest {
        let close = memchr::memchr(b'>', after).filter(|close| *close <= 3)?;
        rest = &after[close + 1..];
        if let Some(after) = rest.strip_prefix(b"1 ") {
            return rfc5424(after);
        }
    }
    let date = match rest {
        // `Oct 10 13:55:00 `, perhaps with a year.
        [a, b, c, b' ', ..] if [a, b, c].iter().all(|byte| byte.is_ascii_alphabetic()) => {
            let clock = memchr::memchr(b':', rest).filter(|at| (8..=14).contains(at))?;
            clock + 6
        }
        [b'0'..=b'9', ..] => {
            let end = memchr::memchr(b' ', rest)?;
            times::date(&rest[..end])?;
            end
        }
        _ => return None,
    };
    let rest = rest.get(date..)?.strip_prefix(b" ")?;
    // Host, then the program and a colon.
    let tag = memchr::memmem::find(rest, b": ").filter(|at| *at < 200)?;
    let is_tag = rest[..tag].iter().filter(|byte| **byte == b' ').count() <= 2
        && !rest[..tag].iter().any(|byte| matches!(byte, b'"' | b'{'));
    is_tag.then(|| &rest[tag + 2..])
}

/// Reads `2025-10-10T13:55:00Z host app 123 - - line`, after `<190>1 `.
fn rfc5424(text: &[u8]) -> Option<&[u8]> {
    let mut rest = text;
    for _ in 0..5 {
        let blank = memchr::memchr(b' ', rest)?;
        rest = &rest[blank + 1..];
    }
    if let Some(after) = rest.strip_prefix(b"-") {
        rest = after;
    } else {
        // Structured data: `[id name="value"]`.
        while rest.first() == Some(&b'[') {
            let close = memchr::memchr(b']', rest)?;
            rest = &rest[close + 1..];
        }
    }
    let line = rest.strip_prefix(b" ")?;
    Some(line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line))
}

fn cri(line: &[u8]) -> Option<&[u8]> {
    let blank = memchr::memchr(b' ', line)?;
    let time = &line[..blank];
    if !time.contains(&b'T') {
        return None;
    }
    times::date(time)?;
    let rest = &line[blank + 1..];
    for stream in [&b"stdout "[..], b"stderr "] {
        if let Some(after) = rest.strip_prefix(stream) {
            return match after {
                [b'F' | b'P', b' ', inner @ ..] => Some(inner),
                _ => None,
            };
        }
    }
    Some(rest)
}

fn container(line: &[u8]) -> Option<&[u8]> {
    if let Some(rest) = line.strip_prefix(b"[pod/") {
        let close = memchr::memmem::find(rest, b"] ")?;
        return Some(&rest[close + 2..]);
    }
    let bar = memchr::memmem::find(line, b"| ").filter(|at| *at < 80)?;
    let name = line[..bar].trim_ascii_end();
    let is_name = !name.is_empty()
        && name
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
    is_name.then(|| &line[bar + 2..])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: a line keeps a part of what is around it, or loses a part of its own.
    #[test]
    fn a_line_is_cut_at_another_place() {
        for (wrapper, line) in [
            (Wrapper::Syslog, "Oct 10 13:55:00 web1 nginx: LINE"),
            (
                Wrapper::Syslog,
                "Feb  6 12:14:14 localhost haproxy[14389]: LINE",
            ),
            (Wrapper::Syslog, "<190>Oct 10 13:55:00 web1 nginx: LINE"),
            (
                Wrapper::Syslog,
                "<134>2025-10-10T13:55:00Z cache-lhr1234 name[123]: LINE",
            ),
            (
                Wrapper::Syslog,
                "2025-10-10T13:55:00.123456+00:00 web1 nginx: LINE",
            ),
            (
                Wrapper::Syslog,
                "<190>1 2025-10-10T13:55:00Z web1 nginx 12 - - LINE",
            ),
            (
                Wrapper::Syslog,
                "<190>1 2025-10-10T13:55:00Z web1 nginx 12 - [a b=\"c\"] LINE",
            ),
            (Wrapper::Cri, "2025-10-10T13:55:00.123456789Z stdout F LINE"),
            (
                Wrapper::Cri,
                "2025-10-10T13:55:00.123456789+02:00 stderr P LINE",
            ),
            (Wrapper::Cri, "2025-10-10T13:55:00Z LINE"),
            (
                Wrapper::Json,
                r#"{"log":"LINE\n","stream":"stdout","time":"2025-10-10T13:55:00Z"}"#,
            ),
            (
                Wrapper::Json,
                r#"{"@timestamp":"2025-10-10T13:55:00Z","message":"LINE"}"#,
            ),
            (Wrapper::Name, "web-1  | LINE"),
            (Wrapper::Name, "[pod/web-1/nginx] LINE"),
        ] {
            let inner = wrapper.inner(line.as_bytes());
            assert_eq!(inner.as_deref(), Some(&b"LINE"[..]), "{line}");
        }
        for wrapper in WRAPPERS {
            for line in [
                "",
                "<",
                "192.0.2.1 - - [x]",
                "{",
                "a b | c",
                "Oct 10: x",
                "2025",
            ] {
                assert_eq!(wrapper.inner(line.as_bytes()), None, "{line}");
            }
        }
    }
}
