//! Content codings that the host adds to responses of origins (RFC 9110 §8.4, §12.5.3): which
//! responses get one, which one a client gets, and what becomes of the header fields.
//!
//! - A strong entity tag names exact bytes (RFC 9110 §8.8.1), so a coded response has the origin's
//!   tag as a weak one. `If-None-Match` compares weakly, so the one tag serves all codings;
//!   `If-Range` compares strongly, so a part of one coding is never added to another one.
//! - Ranges are those of the response as it came: a request with `Range` gets no coding.
//! - A response with a coding of the origin keeps it.

use crate::rfc::coding::accept_encoding::{Weight, current, members};
use crate::rfc::fields;
use http::header::{
    ACCEPT_ENCODING, ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_TYPE, ETAG, RANGE, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use std::str::FromStr;

/// A content coding that the host can produce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContentCoding {
    /// `br` (RFC 7932).
    Brotli,
    /// `zstd` (RFC 8878).
    Zstd,
    /// `gzip` (RFC 1952).
    Gzip,
}

impl ContentCoding {
    /// All of them: of two that a client likes equally, it gets the one that comes first.
    pub const ALL: [ContentCoding; 3] = [
        ContentCoding::Brotli,
        ContentCoding::Zstd,
        ContentCoding::Gzip,
    ];

    /// Returns its name in `Content-Encoding`.
    pub fn name(self) -> &'static str {
        match self {
            ContentCoding::Brotli => "br",
            ContentCoding::Zstd => "zstd",
            ContentCoding::Gzip => "gzip",
        }
    }

    /// Returns its place in [`ContentCoding::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }
}

impl FromStr for ContentCoding {
    type Err = String;

    /// # Errors
    /// One line, if it is none of the names.
    fn from_str(text: &str) -> Result<ContentCoding, String> {
        let all = ContentCoding::ALL.into_iter();
        all.into_iter()
            .find(|coding| coding.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| format!("{text:?} is no content coding: br, zstd or gzip"))
    }
}

/// Media types, by which a response gets a content coding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MediaTypes {
    /// One type, such as `application/json`.
    Exact(String),
    /// All types before the slash, such as `text/*`.
    Of(String),
    /// All types with a suffix (RFC 6839), such as `*+json`.
    Suffix(String),
}

impl MediaTypes {
    fn have(&self, media_type: &[u8]) -> bool {
        match self {
            MediaTypes::Exact(exact) => media_type.eq_ignore_ascii_case(exact.as_bytes()),
            MediaTypes::Of(start) => media_type
                .get(..start.len())
                .is_some_and(|found| found.eq_ignore_ascii_case(start.as_bytes())),
            MediaTypes::Suffix(end) => {
                let start = media_type.len().saturating_sub(end.len());
                media_type[start..].eq_ignore_ascii_case(end.as_bytes())
            }
        }
    }
}

impl FromStr for MediaTypes {
    type Err = String;

    /// # Errors
    /// One line, if it is neither `type/subtype` nor `type/*` nor `*+suffix`.
    fn from_str(text: &str) -> Result<MediaTypes, String> {
        let is_token = |part: &str| {
            !part.is_empty()
                && part
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
        };
        if let Some(suffix) = text.strip_prefix("*+").filter(|suffix| is_token(suffix)) {
            return Ok(MediaTypes::Suffix(format!("+{suffix}")));
        }
        match text.split_once('/') {
            Some((kind, "*")) if is_token(kind) => Ok(MediaTypes::Of(format!("{kind}/"))),
            Some((kind, subtype)) if is_token(kind) && is_token(subtype) => {
                Ok(MediaTypes::Exact(text.to_owned()))
            }
            _ => Err(format!(
                "{text:?} is no media type: expected \"text/css\", \"text/*\" or \"*+json\""
            )),
        }
    }
}

/// Types that consist of text, or of tables with much in common.
const TYPES: [&str; 20] = [
    "text/*",
    "*+json",
    "*+xml",
    "*+text",
    "application/json",
    "application/javascript",
    "application/x-javascript",
    "application/ecmascript",
    "application/xml",
    "application/wasm",
    "application/manifest+json",
    "application/vnd.ms-fontobject",
    "application/x-ndjson",
    "application/graphql",
    "font/ttf",
    "font/otf",
    "application/x-font-ttf",
    "image/bmp",
    "image/x-icon",
    "image/vnd.microsoft.icon",
];

/// Types that arrive piece by piece and are read so: a coding would only delay them.
const STREAMS: [&str; 2] = ["text/event-stream", "multipart/x-mixed-replace"];

/// The shortest body that gets a coding by default, in bytes: a shorter one travels in one packet
/// of a network anyway.
const LEAST_BYTES: u64 = 1000;

/// Fields that describe the bytes of the response as it came (RFC 9530; RFC 3230).
const DIGESTS: [HeaderName; 4] = [
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("repr-digest"),
];

/// The responses that get a content coding, and which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compression {
    /// The codings that clients may get.
    pub codings: Vec<ContentCoding>,
    /// The media types of responses that get one.
    pub types: Vec<MediaTypes>,
    /// The shortest body that gets one, in bytes, if its length is known.
    pub least_bytes: u64,
}

impl Default for Compression {
    fn default() -> Compression {
        let types = TYPES.iter().filter_map(|text| text.parse().ok());
        Compression {
            codings: ContentCoding::ALL.to_vec(),
            types: types.collect(),
            least_bytes: LEAST_BYTES,
        }
    }
}

impl Compression {
    /// Returns the coding that a client gets: of those with the highest weight in `Accept-Encoding`
    /// the first one of [`ContentCoding::ALL`]. `None` for a client that accepts none, requests a
    /// part, or forbids transformations (RFC 9111 §5.2.1.6).
    pub fn chosen_by(&self, request: &HeaderMap) -> Option<ContentCoding> {
        if request.contains_key(RANGE)
            || fields::has_token(request, &CACHE_CONTROL, b"no-transform")
        {
            return None;
        }
        let lines = request.get_all(ACCEPT_ENCODING).iter();
        self.chosen(lines.map(HeaderValue::as_bytes))
    }

    /// Returns the same by the lines of `Accept-Encoding` alone.
    pub fn chosen<'a>(&self, lines: impl Iterator<Item = &'a [u8]>) -> Option<ContentCoding> {
        // Of equal weights the first one is the maximum.
        let weighed = self.weighed(lines).rev();
        weighed
            .max_by_key(|(weight, _)| *weight)
            .map(|(_, coding)| coding)
    }

    /// Returns true if a client may also get this coding, which may not be its first choice.
    pub fn allows(&self, coding: ContentCoding, request: &HeaderMap) -> bool {
        let lines = request.get_all(ACCEPT_ENCODING).iter();
        self.weighed(lines.map(HeaderValue::as_bytes))
            .any(|(_, other)| other == coding)
    }

    /// Returns the codings that a client accepts, each with its weight in thousandths, in the order
    /// of [`ContentCoding::ALL`].
    fn weighed<'a>(
        &self,
        lines: impl Iterator<Item = &'a [u8]>,
    ) -> impl DoubleEndedIterator<Item = (u16, ContentCoding)> {
        let mut named = [None; ContentCoding::ALL.len()];
        let mut others = None;
        for (name, weight) in lines.flat_map(members) {
            // A malformed weight is a refusal, as it is for the reduced field.
            let thousandths = weight.map_or(0, Weight::thousandths);
            if name == b"*" {
                others = Some(thousandths);
                continue;
            }
            let coding = ContentCoding::ALL
                .into_iter()
                .find(|coding| current(name).eq_ignore_ascii_case(coding.name().as_bytes()));
            if let Some(coding) = coding {
                named[coding.index()] = Some(thousandths);
            }
        }
        ContentCoding::ALL.into_iter().filter_map(move |coding| {
            let weight = named[coding.index()].or(others)?;
            (weight > 0 && self.codings.contains(&coding)).then_some((weight, coding))
        })
    }

    /// Returns true if a response gets a coding, for clients that accept one. `length` is that of
    /// the body, if it is known.
    ///
    /// Never: a part; a response with a coding of the origin, or that forbids transformations (RFC
    /// 9110 §7.7); what is `private`, because the length of a page with a secret and with text of
    /// an attacker tells the secret (the attack BREACH).
    pub fn may_code(&self, status: StatusCode, headers: &HeaderMap, length: Option<u64>) -> bool {
        let is_of_status = [
            StatusCode::OK,
            StatusCode::NON_AUTHORITATIVE_INFORMATION,
            StatusCode::NOT_FOUND,
            StatusCode::GONE,
        ]
        .contains(&status);
        if !is_of_status
            || length.is_some_and(|length| length < self.least_bytes)
            || has_coding(headers)
            || headers.contains_key(CONTENT_RANGE)
        {
            return false;
        }
        let mut types = headers.get_all(CONTENT_TYPE).iter();
        let (Some(media_type), None) = (types.next(), types.next()) else {
            return false;
        };
        let media_type = media_type.as_bytes();
        let end = media_type.iter().position(|byte| *byte == b';');
        let media_type = media_type[..end.unwrap_or(media_type.len())].trim_ascii();
        let is_stream = STREAMS
            .iter()
            .any(|stream| media_type.eq_ignore_ascii_case(stream.as_bytes()))
            || media_type
                .get(..b"application/grpc".len())
                .is_some_and(|start| start.eq_ignore_ascii_case(b"application/grpc"));
        !is_stream
            && self.types.iter().any(|types| types.have(media_type))
            && !forbids_coding(headers)
    }
}

/// Returns true if the origin has coded the response.
fn has_coding(headers: &HeaderMap) -> bool {
    fields::list(headers, &CONTENT_ENCODING).any(|coding| !coding.eq_ignore_ascii_case(b"identity"))
}

/// Returns true if `Cache-Control` has `no-transform`, or `private` with or without field names.
fn forbids_coding(headers: &HeaderMap) -> bool {
    fields::list(headers, &CACHE_CONTROL).any(|directive| {
        let end = directive.iter().position(|byte| *byte == b'=');
        let name = directive[..end.unwrap_or(directive.len())].trim_ascii();
        name.eq_ignore_ascii_case(b"no-transform") || name.eq_ignore_ascii_case(b"private")
    })
}

/// Changes the fields of a response to those of its coded form. The host adds the length, if it
/// knows it.
pub fn code_fields(headers: &mut HeaderMap, coding: ContentCoding) {
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
    headers.remove(CONTENT_LENGTH);
    headers.remove(ACCEPT_RANGES);
    for digest in DIGESTS {
        headers.remove(digest);
    }
    weaken_tag(headers);
    vary_by_coding(headers);
}

/// Makes the entity tag a weak one.
pub fn weaken_tag(headers: &mut HeaderMap) {
    let Some(tag) = headers.get(ETAG) else { return };
    if tag.as_bytes().starts_with(b"W/") {
        return;
    }
    let weak = [b"W/", tag.as_bytes()].concat();
    match HeaderValue::from_bytes(&weak) {
        Ok(weak) => drop(headers.insert(ETAG, weak)),
        Err(_) => drop(headers.remove(ETAG)),
    }
}

/// Returns true if the lines of `If-None-Match` have the weak form of the response's strong entity
/// tag: the client has a coded form.
pub fn names_coded_form<'a>(
    if_none_match: impl IntoIterator<Item = &'a HeaderValue>,
    headers: &HeaderMap,
) -> bool {
    let Some(tag) = headers.get(ETAG) else {
        return false;
    };
    let weak = [b"W/", tag.as_bytes()].concat();
    let mut lines = if_none_match.into_iter();
    lines.any(|line| memchr::memmem::find(line.as_bytes(), &weak).is_some())
}

/// Adds `Accept-Encoding` to `Vary`, unless it says so already. Every form of the response needs
/// it, for the caches on the way to the client.
pub fn vary_by_coding(headers: &mut HeaderMap) {
    let says_so = |name: &[u8]| {
        name == b"*" || name.eq_ignore_ascii_case(ACCEPT_ENCODING.as_str().as_bytes())
    };
    if !fields::list(headers, &VARY).any(says_so) {
        headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields_of(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in lines {
            map.append(*name, value.parse().unwrap());
        }
        map
    }

    fn chosen(value: &str) -> Option<&'static str> {
        Compression::default()
            .chosen_by(&fields_of(&[("accept-encoding", value)]))
            .map(ContentCoding::name)
    }

    /// Failure: a client gets a coding that it refuses, or none that it accepts.
    #[test]
    fn a_client_gets_a_coding_that_it_does_not_accept() {
        for (accepted, coding) in [
            ("gzip, deflate, br, zstd", Some("br")),
            ("gzip, deflate", Some("gzip")),
            ("x-gzip", Some("gzip")),
            ("GZIP", Some("gzip")),
            ("zstd, gzip", Some("zstd")),
            ("br;q=0.5, gzip", Some("gzip")),
            ("br;q=0.5, gzip;q=0.50", Some("br")),
            ("*", Some("br")),
            ("br;q=0, *", Some("zstd")),
            ("*;q=0", None),
            ("gzip;q=0", None),
            ("gzip;q=0.000", None),
            ("gzip;q=0.001", Some("gzip")),
            ("gzip;q=x", None),
            ("gzip;q=2", None),
            ("identity", None),
            ("identity;q=0", None),
            ("deflate", None),
            ("", None),
            ("gzip;q=1.0, identity;q=0.5, *;q=0", Some("gzip")),
        ] {
            assert_eq!(chosen(accepted), coding, "{accepted}");
        }
        let some = Compression::default();
        assert_eq!(some.chosen_by(&HeaderMap::new()), None);
        let two = fields_of(&[
            ("accept-encoding", "gzip;q=0.2"),
            ("accept-encoding", "zstd"),
        ]);
        assert_eq!(some.chosen_by(&two), Some(ContentCoding::Zstd));
        assert!(some.allows(ContentCoding::Gzip, &two));
        assert!(!some.allows(ContentCoding::Brotli, &two));
        let part = fields_of(&[("accept-encoding", "gzip"), ("range", "bytes=0-1")]);
        assert_eq!(some.chosen_by(&part), None);
        let as_it_is = fields_of(&[
            ("accept-encoding", "gzip"),
            ("cache-control", "no-transform"),
        ]);
        assert_eq!(some.chosen_by(&as_it_is), None);
        let only_gzip = Compression {
            codings: vec![ContentCoding::Gzip],
            ..some
        };
        let all = fields_of(&[("accept-encoding", "br, zstd;q=0.3, gzip;q=0.1")]);
        assert_eq!(only_gzip.chosen_by(&all), Some(ContentCoding::Gzip));
    }

    /// Failure: a response gets a coding that it must not get, or none though it is text.
    #[test]
    fn a_response_that_must_not_change_is_coded() {
        let all = Compression::default();
        let may = |status: u16, length, lines: &[(&'static str, &str)]| {
            let status = StatusCode::from_u16(status).unwrap();
            all.may_code(status, &fields_of(lines), length)
        };
        let html = ("content-type", "text/html; charset=utf-8");
        assert!(may(200, Some(1000), &[html]));
        assert!(may(200, None, &[html]));
        assert!(may(404, None, &[html]));
        assert!(may(200, None, &[html, ("content-encoding", "identity")]));
        for media_type in [
            "application/JSON",
            "image/svg+xml",
            "application/ld+json;a=b",
            "text/x",
        ] {
            assert!(
                may(200, None, &[("content-type", media_type)]),
                "{media_type}"
            );
        }
        for status in [204, 206, 301, 304, 500] {
            assert!(!may(status, None, &[html]), "{status}");
        }
        assert!(!may(200, Some(999), &[html]));
        assert!(!may(200, None, &[]));
        assert!(!may(200, None, &[html, html]));
        for other in [
            ("content-encoding", "gzip"),
            ("content-encoding", "gzip, br"),
            ("content-encoding", "unknown"),
            ("content-range", "bytes 0-1/2"),
            ("cache-control", "max-age=9, No-Transform"),
            ("cache-control", "private"),
            ("cache-control", "private=\"set-cookie\""),
        ] {
            assert!(!may(200, None, &[html, other]), "{other:?}");
        }
        for media_type in [
            "image/png",
            "text/event-stream",
            "Text/Event-Stream; a",
            "application/grpc",
            "application/grpc+json",
            "application/octet-stream",
            "textual",
            "",
        ] {
            assert!(
                !may(200, None, &[("content-type", media_type)]),
                "{media_type}"
            );
        }
    }

    /// Failure: a strong tag names two byte strings; a field describes other bytes than those sent;
    /// caches in between mix the forms, or `Vary` grows.
    #[test]
    fn fields_of_the_coded_form_are_those_of_the_other() {
        let mut headers = fields_of(&[
            ("etag", "\"x\""),
            ("content-length", "9"),
            ("accept-ranges", "bytes"),
            ("content-md5", "a"),
            ("repr-digest", "sha-256=:a:"),
            ("vary", "Origin"),
            ("content-type", "text/css"),
        ]);
        code_fields(&mut headers, ContentCoding::Brotli);
        code_fields(&mut headers, ContentCoding::Brotli);
        let expected = fields_of(&[
            ("etag", "W/\"x\""),
            ("vary", "Origin"),
            ("vary", "Accept-Encoding"),
            ("content-type", "text/css"),
            ("content-encoding", "br"),
        ]);
        assert_eq!(headers, expected);
        for vary in ["*", "accept-encoding", "Origin, ACCEPT-ENCODING"] {
            let mut headers = fields_of(&[("vary", vary)]);
            vary_by_coding(&mut headers);
            assert_eq!(headers, fields_of(&[("vary", vary)]));
        }
        let held: [HeaderValue; 2] = ["\"a\", \"b\"", "W/\"x\""].map(|line| line.parse().unwrap());
        assert!(names_coded_form(&held, &fields_of(&[("etag", "\"x\"")])));
        assert!(!names_coded_form(&held, &fields_of(&[("etag", "\"a\"")])));
        assert!(!names_coded_form(&held, &fields_of(&[("etag", "W/\"x\"")])));
        assert!(!names_coded_form(&held, &HeaderMap::new()));
    }

    #[test]
    fn media_types_are_read() {
        for good in ["text/*", "*+json", "application/vnd.a.b+xml"] {
            assert!(good.parse::<MediaTypes>().is_ok(), "{good}");
        }
        for bad in [
            "", "text", "*/*", "*", "text/", "/a", "a/b;c", "*+", "a b/c",
        ] {
            assert!(bad.parse::<MediaTypes>().is_err(), "{bad}");
        }
        assert_eq!(Compression::default().types.len(), TYPES.len());
        assert_eq!("BR".parse(), Ok(ContentCoding::Brotli));
        assert!("deflate".parse::<ContentCoding>().is_err());
    }
}
