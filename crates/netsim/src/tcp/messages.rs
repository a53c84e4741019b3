//! The heads of HTTP requests and responses. Bodies are lengths.

use http::{HeaderMap, HeaderValue, Method, StatusCode};
use larder_units::Time;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

/// The least bytes of a request: wget's for a short name.
const REQUEST_BYTES: u64 = 150;

/// The least bytes of a response's head: lighttpd's.
const HEAD_BYTES: u64 = 250;

/// The wall clock at the start of a simulation, in seconds since 1970: the begin of 2026.
const EPOCH: u64 = 1_767_225_600;

/// Returns the wall clock of the simulation, in seconds since 1970.
pub fn unix_seconds(now: Time) -> u64 {
    EPOCH + now.since(Time::ZERO).as_secs()
}

/// Returns the value of a `Date` field.
pub fn http_date(now: Time) -> HeaderValue {
    let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(unix_seconds(now)));
    HeaderValue::try_from(date).expect("letters and digits")
}

/// A request without a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRequest {
    /// The method.
    pub method: Method,
    /// The object. The target is `/object/` and this number.
    pub object: u64,
    /// All fields.
    pub headers: HeaderMap,
}

/// A response. Its body has a length and no bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpResponse {
    /// The status.
    pub status: StatusCode,
    /// All fields.
    pub headers: HeaderMap,
    /// Bytes of the body that follow. A response to HEAD has none, whatever its `Content-Length`.
    pub body: u64,
}

impl HttpRequest {
    /// Creates a request without fields.
    pub fn new(method: Method, object: u64) -> HttpRequest {
        HttpRequest {
            method,
            object,
            headers: HeaderMap::new(),
        }
    }

    /// Returns the request target.
    pub fn target(&self) -> String {
        format!("/object/{}", self.object)
    }
}

/// A message on a connection.
#[derive(Clone, Debug)]
pub(super) enum Message {
    /// A request of this many bytes.
    Request(Arc<HttpRequest>, u64),
    Response(Arc<HttpResponse>, HeadBytes),
}

/// The length of a response's head on the wire.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeadBytes(pub(super) u64);

impl HeadBytes {
    /// Returns true if these bytes of the message contain the last one of the head.
    pub(super) fn end_in(self, bytes: &Range<u64>) -> bool {
        bytes.start < self.0 && self.0 <= bytes.end
    }

    /// Returns how many of these bytes of the message belong to the body.
    pub(super) fn body_of(self, bytes: &Range<u64>) -> u64 {
        bytes.end.saturating_sub(self.0) - bytes.start.saturating_sub(self.0)
    }
}

impl Message {
    pub(super) fn request(request: Arc<HttpRequest>) -> Message {
        // "GET /object/17 HTTP/1.1"
        let digits = request.object.max(1).ilog10() as usize + 1;
        let line =
            request.method.as_str().len() + " /object/".len() + digits + " HTTP/1.1\r\n".len();
        let bytes = REQUEST_BYTES.max(line as u64 + field_bytes(&request.headers));
        Message::Request(request, bytes)
    }

    pub(super) fn response(response: HttpResponse) -> Message {
        let bytes =
            HEAD_BYTES.max("HTTP/1.1 200 OK\r\n".len() as u64 + field_bytes(&response.headers));
        Message::Response(Arc::new(response), HeadBytes(bytes))
    }

    /// Returns the length of the message.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Message::Request(_, bytes) => *bytes,
            Message::Response(response, head) => head.0 + response.body,
        }
    }
}

/// Returns the bytes of all field lines and of the empty line after them.
fn field_bytes(headers: &HeaderMap) -> u64 {
    let lines = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len());
    lines.sum::<usize>() as u64 + 2
}
