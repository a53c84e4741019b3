//! A request in an Interest's parameters, and the head of a response in a Data's content.
//!
//! Both are TLV. A request: Method, then alternating FieldName and FieldValue, Body, Unique. A
//! response: Status, the fields, and Inline (the whole body) or Version and perhaps Length (of the
//! segments), Unframed; or InFull alone, if it may not be given in the shared form. Elements come
//! in this order, each at most once except the fields. A reader refuses unknown elements, because
//! it cannot know whether it may ignore them.

use super::limits;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, EXPECT, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use larder_packet::DecodeError;
use larder_packet::tlv::{Tlv, TlvReader, write_nni, write_tlv};
use std::fmt;

const METHOD: u32 = 129;
const FIELD_NAME: u32 = 131;
const FIELD_VALUE: u32 = 133;
const BODY: u32 = 135;
const UNIQUE: u32 = 137;
const STATUS: u32 = 139;
const INLINE: u32 = 141;
const VERSION: u32 = 143;
const LENGTH: u32 = 145;
const UNFRAMED: u32 = 147;
const IN_FULL: u32 = 149;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// Its fields, without those of a connection and without `Host`.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
    /// For a request in full: a unique number.
    pub unique: Option<u64>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The head of the origin's response.
    Head(Head),
    /// This page is not shared, and has to be requested in full.
    InFull,
}

/// The head of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The final status.
    pub status: StatusCode,
    /// Its fields, without those of a connection except `Content-Length`.
    pub headers: HeaderMap,
    /// The body, or its place.
    pub body: Content,
    /// True if the origin marks the end of the body only by closing the connection: a cut body
    /// looks complete.
    pub unframed: bool,
}

impl Head {
    /// Returns the head as an answer to a request with this method, whatever its sender says: a
    /// response that has no body by its status or method (RFC 9110, 6.4.1) has none here, and
    /// Content-Length is that of the body. HTTP frames the response by it, and with another length
    /// its end would be read as the next response.
    pub fn for_request(mut self, method: &Method) -> Head {
        let has_no_body = *method == Method::HEAD || matches!(self.status.as_u16(), 204 | 304);
        if has_no_body {
            self.body = Content::Inline(Bytes::new());
            // That of the body which is left out; 204 has none (RFC 9110, 8.6).
            let mut lengths = self.headers.get_all(CONTENT_LENGTH).iter();
            let is_length = |value: &HeaderValue| {
                value
                    .to_str()
                    .is_ok_and(|value| value.parse::<u64>().is_ok())
            };
            let is_valid = lengths.next().is_none_or(is_length) && lengths.next().is_none();
            if !is_valid || self.status == StatusCode::NO_CONTENT {
                self.headers.remove(CONTENT_LENGTH);
            }
            return self;
        }
        self.headers.remove(CONTENT_LENGTH);
        let length = match &self.body {
            Content::Inline(body) => Some(body.len() as u64),
            Content::Segments { length, .. } => *length,
        };
        self.headers
            .extend(length.map(|length| (CONTENT_LENGTH, HeaderValue::from(length))));
        self
    }
}

/// The body of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// In this message; empty if there is none.
    Inline(Bytes),
    /// In segments under this version.
    Segments {
        /// The version.
        version: u64,
        /// Bytes, if that is known.
        length: Option<u64>,
    },
}

/// The reason why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageError {
    /// Invalid TLV.
    Malformed(DecodeError),
    /// An element is missing, of an unknown type, or in the wrong place.
    Structure,
    /// The method, the status or a field is not valid in HTTP.
    NotHttp,
    /// More fields than [`limits::FIELDS`] and [`limits::FIELDS_ADDED`].
    TooManyFields,
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MessageError::Malformed(error) => error.fmt(f),
            MessageError::Structure => {
                f.write_str("the message's elements are not those of a request or a response")
            }
            MessageError::NotHttp => f.write_str("the message holds no HTTP"),
            MessageError::TooManyFields => {
                write!(
                    f,
                    "the message has more than {} fields",
                    limits::FIELDS + limits::FIELDS_ADDED
                )
            }
        }
    }
}

impl std::error::Error for MessageError {}

impl From<DecodeError> for MessageError {
    fn from(error: DecodeError) -> Self {
        MessageError::Malformed(error)
    }
}

impl Request {
    /// Encodes it as parameters of an Interest. Equal requests give equal bytes: fields are sorted
    /// by name.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        write_tlv(&mut out, METHOD, self.method.as_str().as_bytes());
        write_fields(&mut out, &self.headers);
        if !self.body.is_empty() {
            write_tlv(&mut out, BODY, &self.body);
        }
        if let Some(unique) = self.unique {
            write_nni(&mut out, UNIQUE, unique);
        }
        out
    }

    /// Decodes parameters of an Interest.
    ///
    /// # Errors
    /// [`MessageError`] if they are no request.
    pub fn decode(bytes: &[u8]) -> Result<Request, MessageError> {
        let mut elements = Elements::new(bytes)?;
        let method = elements.take(METHOD)?.ok_or(MessageError::Structure)?;
        let method = Method::from_bytes(method.value).map_err(|_| MessageError::NotHttp)?;
        let headers = elements.fields()?;
        let body = elements
            .take(BODY)?
            .map_or(Bytes::new(), |body| Bytes::copy_from_slice(body.value));
        let unique = elements
            .take(UNIQUE)?
            .map(|unique| unique.number())
            .transpose()?;
        elements.end()?;
        Ok(Request {
            method,
            headers,
            body,
            unique,
        })
    }
}

impl Answer {
    /// Encodes it as content of a Data.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let Answer::Head(head) = self else {
            write_tlv(&mut out, IN_FULL, &[]);
            return out;
        };
        write_nni(&mut out, STATUS, head.status.as_u16().into());
        write_fields(&mut out, &head.headers);
        match &head.body {
            Content::Inline(body) => write_tlv(&mut out, INLINE, body),
            Content::Segments { version, length } => {
                write_nni(&mut out, VERSION, *version);
                if let Some(length) = length {
                    write_nni(&mut out, LENGTH, *length);
                }
            }
        }
        if head.unframed {
            write_tlv(&mut out, UNFRAMED, &[]);
        }
        out
    }

    /// Decodes content of a Data.
    ///
    /// # Errors
    /// [`MessageError`] if it is no answer.
    pub fn decode(bytes: &[u8]) -> Result<Answer, MessageError> {
        let mut elements = Elements::new(bytes)?;
        if elements.take(IN_FULL)?.is_some() {
            elements.end()?;
            return Ok(Answer::InFull);
        }
        let status = elements
            .take(STATUS)?
            .ok_or(MessageError::Structure)?
            .number()?;
        // Informational responses are no answers.
        let status = u16::try_from(status).ok().filter(|status| *status >= 200);
        let status = status
            .and_then(|status| StatusCode::from_u16(status).ok())
            .ok_or(MessageError::NotHttp)?;
        let headers = elements.fields()?;
        let body = match elements.take(INLINE)? {
            Some(body) => Content::Inline(Bytes::copy_from_slice(body.value)),
            None => {
                let version = elements
                    .take(VERSION)?
                    .ok_or(MessageError::Structure)?
                    .number()?;
                let length = elements
                    .take(LENGTH)?
                    .map(|length| length.number())
                    .transpose()?;
                Content::Segments { version, length }
            }
        };
        let unframed = elements.take(UNFRAMED)?.is_some();
        elements.end()?;
        Ok(Answer::Head(Head {
            status,
            headers,
            body,
            unframed,
        }))
    }
}

/// Removes the fields of a connection from a request, and those with which a forged message could
/// change another request: with its own length or coding, it would be read as another request.
pub fn strip_connection(headers: &mut HeaderMap) {
    larder_http::strip_hop_by_hop(headers);
    for name in [CONTENT_LENGTH, EXPECT, HOST] {
        headers.remove(name);
    }
}

fn write_fields(out: &mut Vec<u8>, headers: &HeaderMap) {
    let mut names: Vec<&HeaderName> = headers.keys().collect();
    names.sort_unstable_by_key(|name| name.as_str());
    for name in names {
        for value in headers.get_all(name) {
            write_tlv(out, FIELD_NAME, name.as_str().as_bytes());
            write_tlv(out, FIELD_VALUE, value.as_bytes());
        }
    }
}

/// Elements in a fixed order.
struct Elements<'a> {
    rest: TlvReader<'a>,
    next: Option<Tlv<'a>>,
}

impl<'a> Elements<'a> {
    fn new(bytes: &'a [u8]) -> Result<Self, MessageError> {
        let mut elements = Elements {
            rest: TlvReader::new(bytes),
            next: None,
        };
        elements.advance()?;
        Ok(elements)
    }

    fn advance(&mut self) -> Result<(), MessageError> {
        self.next = self.rest.next().transpose()?;
        Ok(())
    }

    /// Returns the next element if it is of this type.
    fn take(&mut self, typ: u32) -> Result<Option<Tlv<'a>>, MessageError> {
        if self.next.as_ref().is_none_or(|next| next.typ != typ) {
            return Ok(None);
        }
        let taken = self.next.take();
        self.advance()?;
        Ok(taken)
    }

    fn fields(&mut self) -> Result<HeaderMap, MessageError> {
        let mut headers = HeaderMap::new();
        while let Some(name) = self.take(FIELD_NAME)? {
            let value = self.take(FIELD_VALUE)?.ok_or(MessageError::Structure)?;
            if headers.len() >= limits::FIELDS + limits::FIELDS_ADDED {
                return Err(MessageError::TooManyFields);
            }
            let name = HeaderName::from_bytes(name.value).map_err(|_| MessageError::NotHttp)?;
            headers.append(
                name,
                HeaderValue::from_bytes(value.value).map_err(|_| MessageError::NotHttp)?,
            );
        }
        Ok(headers)
    }

    fn end(&self) -> Result<(), MessageError> {
        if self.next.is_none() {
            Ok(())
        } else {
            Err(MessageError::Structure)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn headers(fields: &[(String, String)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(
                HeaderName::try_from(name.as_str()).unwrap(),
                HeaderValue::try_from(value.as_str()).unwrap(),
            );
        }
        headers
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(
            fields in proptest::collection::vec(("[a-z-]{1,10}", "[ -~]{0,20}"), 0..10),
            body in proptest::collection::vec(any::<u8>(), 0..50),
            unique: Option<u64>,
            status in 200u16..1000,
            length: Option<u64>,
            version: u64,
            unframed: bool,
        ) {
            let (headers, body) = (headers(&fields), Bytes::from(body));
            let request = Request { method: Method::PUT, headers: headers.clone(), body: body.clone(), unique };
            prop_assert_eq!(Request::decode(&request.encode()).unwrap(), request);
            for body in [Content::Inline(body), Content::Segments { version, length }] {
                let status = StatusCode::from_u16(status).unwrap();
                let answer = Answer::Head(Head { status, headers: headers.clone(), body, unframed });
                prop_assert_eq!(Answer::decode(&answer.encode()).unwrap(), answer);
            }
        }

        /// Failure: a foreign Interest ends the egress, or a foreign Data the ingress.
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), mut start in Just(vec![129, 3, b'G', b'E', b'T'])) {
            start.extend_from_slice(&bytes);
            for bytes in [&bytes, &start] {
                let _ = Request::decode(bytes);
                let _ = Answer::decode(bytes);
            }
        }

        /// Failure: the same request has two names, so that it is not shared.
        #[test]
        fn the_order_of_fields_makes_no_other_request(mut fields in proptest::collection::vec(("[a-z]{1,10}", "[ -~]{0,20}"), 0..8)) {
            fields.sort_by(|a, b| a.0.cmp(&b.0));
            fields.dedup_by(|a, b| a.0 == b.0);
            let request = |fields: &[_]| Request { method: Method::GET, headers: headers(fields), body: Bytes::new(), unique: None };
            let one = request(&fields).encode();
            fields.reverse();
            prop_assert_eq!(request(&fields).encode(), one);
        }
    }

    #[test]
    fn in_full_reads_back_and_half_a_message_does_not() {
        assert_eq!(Answer::decode(&Answer::InFull.encode()), Ok(Answer::InFull));
        let request = Request {
            method: Method::GET,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            unique: None,
        };
        let answer = Answer::Head(Head {
            status: StatusCode::OK,
            headers: HeaderMap::new(),
            body: Content::Inline(Bytes::new()),
            unframed: false,
        });
        assert_eq!(Request::decode(&[]), Err(MessageError::Structure));
        assert_eq!(Answer::decode(&[]), Err(MessageError::Structure));
        assert!(
            Request::decode(&answer.encode()).is_err()
                && Answer::decode(&request.encode()).is_err()
        );
        let mut twice = request.encode();
        twice.extend(request.encode());
        assert_eq!(Request::decode(&twice), Err(MessageError::Structure));
        let mut many = request.encode();
        for _ in 0..=limits::FIELDS + limits::FIELDS_ADDED {
            write_tlv(&mut many, FIELD_NAME, b"a");
            write_tlv(&mut many, FIELD_VALUE, b"b");
        }
        assert_eq!(Request::decode(&many), Err(MessageError::TooManyFields));
    }

    /// Failure: a far node that lies about the length of a body puts a response into a response.
    #[test]
    fn a_head_says_what_follows_it() {
        let head = |status, fields: &[(String, String)], body| Head {
            status: StatusCode::from_u16(status).unwrap(),
            headers: headers(fields),
            body,
            unframed: false,
        };
        let lies = [
            ("content-length".to_owned(), "5".to_owned()),
            ("content-length".to_owned(), "6".to_owned()),
        ];
        let segments = |length| Content::Segments { version: 1, length };
        for (body, length) in [
            (Content::Inline(Bytes::from_static(b"abc")), Some("3")),
            (segments(Some(9)), Some("9")),
            (segments(None), None),
        ] {
            let seen = head(200, &lies, body.clone()).for_request(&Method::GET);
            assert_eq!(seen.body, body);
            let lengths: Vec<_> = seen
                .headers
                .get_all("content-length")
                .iter()
                .map(|value| value.to_str().unwrap())
                .collect();
            assert_eq!(lengths, Vec::from_iter(length));
            let cases = [
                (Method::HEAD, 200, 1),
                (Method::GET, 304, 1),
                (Method::GET, 204, 1),
                (Method::HEAD, 200, 2),
            ];
            for (method, status, lengths) in cases {
                let seen = head(status, &lies[..lengths], body.clone()).for_request(&method);
                let length = seen
                    .headers
                    .get("content-length")
                    .map(|value| value.to_str().unwrap());
                assert_eq!(seen.body, Content::Inline(Bytes::new()));
                assert_eq!(
                    length,
                    (status != 204 && lengths == 1).then_some("5"),
                    "{method} {status}"
                );
            }
        }
    }

    /// Failure: a request within a request.
    #[test]
    fn nothing_of_a_connection_comes_from_the_network() {
        let text = [
            "connection",
            "transfer-encoding",
            "content-length",
            "host",
            "upgrade",
            "expect",
            "te",
            "trailer",
            "keep-alive",
        ];
        let mut map = headers(&text.map(|name| (name.to_owned(), "5".to_owned())));
        map.insert("accept", HeaderValue::from_static("*/*"));
        strip_connection(&mut map);
        assert_eq!(
            map.keys().map(HeaderName::as_str).collect::<Vec<_>>(),
            ["accept"]
        );
    }
}
