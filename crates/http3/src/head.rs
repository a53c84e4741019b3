//! From the fields of a head to a request (RFC 9114 §4.2 and §4.3).

use crate::code::{Code, Violation};
use crate::qpack::{self, Section};
use http::header::{CONTENT_LENGTH, HeaderName, TE};
use http::request::Parts;
use http::uri::{Authority, PathAndQuery, Scheme, Uri};
use http::{HeaderMap, HeaderValue, Method, Request, Version};

/// The value of `:protocol` of an extended CONNECT (RFC 9220): an extension of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protocol(pub Box<str>);

/// Fields of a connection, which HTTP/3 has not (RFC 9114 §4.2).
const OF_CONNECTION: [&[u8]; 5] = [
    b"connection",
    b"keep-alive",
    b"proxy-connection",
    b"transfer-encoding",
    b"upgrade",
];

/// Reads the head of a request, of at most `most` bytes.
///
/// # Errors
/// The section cannot be read or is too large, or the request is malformed.
pub fn read(section: &[u8], most: usize) -> Result<Parts, Violation> {
    let mut head = Head::default();
    let read = qpack::decode(section, most, |name, value| {
        if head.add(name, value).is_none() {
            head.is_malformed = true;
        }
    });
    match read {
        Err(code) => Err(Violation::Connection(code)),
        Ok(Section::TooLarge) => Err(Violation::HeadTooLarge),
        Ok(Section::Whole) => head.end().ok_or(Violation::Stream(Code::MESSAGE_ERROR)),
    }
}

/// Reads trailers, of at most `most` bytes.
///
/// # Errors
/// The section cannot be read or is too large, or the fields are malformed.
pub fn read_trailers(section: &[u8], most: usize) -> Result<HeaderMap, Violation> {
    let mut head = Head {
        has_fields: true,
        ..Head::default()
    };
    let read = qpack::decode(section, most, |name, value| {
        if head.add(name, value).is_none() {
            head.is_malformed = true;
        }
    });
    match read {
        Err(code) => Err(Violation::Connection(code)),
        Ok(Section::TooLarge) => Err(Violation::Stream(Code::EXCESSIVE_LOAD)),
        Ok(Section::Whole) if head.is_malformed => Err(Violation::Stream(Code::MESSAGE_ERROR)),
        Ok(Section::Whole) => Ok(head.fields),
    }
}

/// The length that a head announces; `None` if there is none, or several.
pub(crate) fn content_length(fields: &HeaderMap) -> Option<u64> {
    let mut lengths = fields.get_all(CONTENT_LENGTH).into_iter();
    let length = lengths.next()?.to_str().ok()?.parse().ok()?;
    lengths.next().is_none().then_some(length)
}

/// A head while its fields come.
#[derive(Default)]
struct Head {
    method: Option<Method>,
    scheme: Option<Scheme>,
    authority: Option<Authority>,
    path: Option<PathAndQuery>,
    protocol: Option<Protocol>,
    fields: HeaderMap,
    /// True after the first field that is no pseudo-header field.
    has_fields: bool,
    is_malformed: bool,
}

/// Sets a pseudo-header field, which there may be once.
fn set<T>(place: &mut Option<T>, value: Option<T>) -> Option<()> {
    if place.is_some() {
        return None;
    }
    *place = Some(value?);
    Some(())
}

impl Head {
    /// Adds a field; `None` if that makes the head malformed.
    fn add(&mut self, name: &[u8], value: &[u8]) -> Option<()> {
        if name.first() != Some(&b':') {
            self.has_fields = true;
            return self.add_field(name, value);
        }
        if self.has_fields {
            return None;
        }
        match name {
            b":method" => set(&mut self.method, Method::from_bytes(value).ok()),
            b":scheme" if value.is_empty() => None,
            b":scheme" => set(&mut self.scheme, Scheme::try_from(value).ok()),
            b":authority" => set(&mut self.authority, Authority::try_from(value).ok()),
            b":path" => set(&mut self.path, path(value)),
            b":protocol" => {
                let text = str::from_utf8(value).ok().filter(|text| !text.is_empty());
                set(&mut self.protocol, text.map(|text| Protocol(text.into())))
            }
            _ => None,
        }
    }

    fn add_field(&mut self, name: &[u8], value: &[u8]) -> Option<()> {
        // It has no capital letters (RFC 9114 §4.2).
        let known = HeaderName::from_lowercase(name).ok()?;
        let is_trailers = || value.eq_ignore_ascii_case(b"trailers");
        if OF_CONNECTION.contains(&name) || known == TE && !is_trailers() {
            return None;
        }
        let value = HeaderValue::from_bytes(value).ok()?;
        // A map has at most 32,768 fields; the section's limit allows fewer.
        self.fields.try_append(known, value).ok().map(drop)
    }

    /// Returns the head of the request; `None` if it is malformed.
    fn end(self) -> Option<Parts> {
        let method = self.method.filter(|_| !self.is_malformed)?;
        let mut uri = http::uri::Parts::default();
        let is_tunnel = method == Method::CONNECT && self.protocol.is_none();
        if is_tunnel {
            // RFC 9114 §4.4: it has a method and an authority, and nothing else.
            if self.scheme.is_some() || self.path.is_some() {
                return None;
            }
            uri.authority = Some(self.authority?);
        } else {
            if self.protocol.is_some() && method != Method::CONNECT {
                return None;
            }
            let scheme = self.scheme?;
            uri.path_and_query = Some(self.path?);
            if let Some(authority) = self.authority {
                uri.authority = Some(authority);
                uri.scheme = Some(scheme);
            }
        }
        let (mut parts, ()) = Request::new(()).into_parts();
        parts.method = method;
        parts.uri = Uri::from_parts(uri).ok()?;
        parts.version = Version::HTTP_3;
        parts.headers = self.fields;
        if let Some(protocol) = self.protocol {
            parts.extensions.insert(protocol);
        }
        Some(parts)
    }
}

/// RFC 9114 §4.3.1: the path is not empty; `*` is for OPTIONS, which the server checks.
fn path(value: &[u8]) -> Option<PathAndQuery> {
    let is_path = value.first() == Some(&b'/') || value == b"*";
    is_path.then(|| PathAndQuery::try_from(value).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    type Fields<'a> = &'a [(&'a str, &'a str)];

    fn section(fields: Fields<'_>) -> Vec<u8> {
        let mut section = vec![0, 0];
        for (name, value) in fields {
            assert!(name.len() < 128 && value.len() < 127);
            match name.len() {
                length @ 0..7 => section.push(0b0010_0000 | length as u8),
                length => section.extend([0b0010_0111, length as u8 - 7]),
            }
            section.extend_from_slice(name.as_bytes());
            section.push(value.len() as u8);
            section.extend_from_slice(value.as_bytes());
        }
        section
    }

    const GET: [(&str, &str); 4] = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "a.example:8443"),
        (":path", "/a?b"),
    ];

    fn get(more: Fields<'_>) -> Result<Parts, Violation> {
        read(&section(&[&GET, more].concat()), 10_000)
    }

    #[test]
    fn a_request_is_read_as_another_one() {
        let fields = [("te", "trailers"), ("cookie", "a"), ("cookie", "b")];
        let parts = get(&fields).unwrap();
        assert_eq!(parts.method, Method::GET);
        assert_eq!(parts.uri, "https://a.example:8443/a?b");
        assert_eq!(parts.version, Version::HTTP_3);
        assert_eq!(parts.headers.get_all("cookie").iter().count(), 2);
        let options = [(":method", "OPTIONS"), (":scheme", "https"), (":path", "*")];
        let parts = read(&section(&options), 1000).unwrap();
        assert_eq!(parts.uri.path(), "*");
        let tunnel = [(":method", "CONNECT"), (":authority", "a.example:1")];
        let parts = read(&section(&tunnel), 1000).unwrap();
        assert_eq!(parts.uri, "a.example:1");
        let mut extended = GET;
        extended[0].1 = "CONNECT";
        let extended = [&[(":protocol", "websocket")][..], &extended].concat();
        let parts = read(&section(&extended), 1000).unwrap();
        assert_eq!(parts.extensions.get(), Some(&Protocol("websocket".into())));
    }

    /// Failure: a request that servers read in several ways is passed on.
    #[test]
    fn a_malformed_head_is_a_request() {
        let malformed = |read: Result<Parts, Violation>, what: &str| {
            let violation = Violation::Stream(Code::MESSAGE_ERROR);
            assert_eq!(read.err(), Some(violation), "{what}");
        };
        for (name, value) in [
            ("Accept", "a"),
            ("a b", "a"),
            ("", "a"),
            ("a", "x\r\ny: z"),
            ("a", "x\0"),
            ("connection", "close"),
            ("keep-alive", "1"),
            ("proxy-connection", "close"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("te", "gzip"),
            (":path", "/b"),
            (":method", "GET"),
            (":status", "200"),
            (":protocol", "websocket"),
        ] {
            malformed(get(&[(name, value)]), name);
        }
        malformed(get(&[("a", "b"), (":unknown", "a")]), "late");
        for left_out in [0, 1, 3] {
            let mut fields = GET.to_vec();
            fields.remove(left_out);
            malformed(read(&section(&fields), 1000), "left out");
        }
        for (at, value) in [
            (0, "G T"),
            (0, ""),
            (1, ""),
            (2, "a b"),
            (3, ""),
            (3, "a"),
            (3, "https://b/"),
            (3, "/a b"),
        ] {
            let mut fields = GET;
            fields[at].1 = value;
            malformed(read(&section(&fields), 1000), value);
        }
        let with_path = [(":method", "CONNECT"), (":authority", "a"), (":path", "/")];
        malformed(read(&section(&with_path), 1000), "CONNECT with a path");
        assert_eq!(
            read(&section(&GET), 100).err(),
            Some(Violation::HeadTooLarge)
        );
        assert_eq!(
            read(b"\x00\x00\x80", 100).err(),
            Some(Violation::Connection(Code::DECOMPRESSION_FAILED))
        );
        let pseudo = read_trailers(&section(&[(":path", "/")]), 1000);
        assert_eq!(pseudo.err(), Some(Violation::Stream(Code::MESSAGE_ERROR)));
        let trailers = read_trailers(&section(&[("grpc-status", "0")]), 1000).unwrap();
        assert_eq!(trailers["grpc-status"], "0");
    }

    #[test]
    fn several_lengths_are_one() {
        let of = |fields| content_length(&get(fields).unwrap().headers);
        assert_eq!(of(&[("content-length", "12")]), Some(12));
        assert_eq!(of(&[("content-length", "1x")]), None);
        assert_eq!(
            of(&[("content-length", "1"), ("content-length", "1")]),
            None
        );
        assert_eq!(of(&[]), None);
    }
}
