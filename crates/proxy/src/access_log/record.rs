//! The record of one finished exchange: what the access log and the figures know of it.
//!
//! A new fact is a field of [`Record`], a [`Variable`](super::template::Variable) that writes it,
//! and its value where records are made (`observer.rs`).

use http::HeaderValue;
use larder_host::Peer;
use std::ops::Range;
use std::time::Duration;

/// The status of an exchange whose client left before the head of its response (nginx's number).
pub const CLIENT_LEFT: u16 = 499;

/// One finished exchange.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    /// The client.
    pub client: Peer,
    /// `http` or `https`.
    pub scheme: &'static str,
    /// The method; empty if the request was no HTTP.
    pub method: &'a str,
    /// Path and query; empty if the request was no HTTP.
    pub target: &'a str,
    /// The host that the client named.
    pub host: &'a str,
    /// The protocol.
    pub protocol: Protocol,
    /// The status, or [`CLIENT_LEFT`].
    pub status: u16,
    /// Bytes of the body that were passed to the connection.
    pub body_bytes: u64,
    /// What the cache did.
    pub cache: CacheResult,
    /// From the request's head to the head of the response; `None` if nothing was sent.
    pub first_byte: Option<Duration>,
    /// From the request's head to the end of the response.
    pub total: Duration,
    /// False if the body broke off, or the client left.
    pub is_complete: bool,
    /// The requests to servers that this exchange caused, in order.
    pub upstream: &'a [Attempt],
    /// The version of TLS, such as `TLSv1.3`.
    pub tls: Option<&'static str>,
    /// The request's number for logs.
    pub request_id: Option<&'a [u8]>,
    /// The reason why the request was refused as malformed.
    pub refusal: Option<&'a str>,
    /// Fields of the request, in the order of [`super::Template::request_fields`].
    pub request_fields: Fields<'a>,
    /// Fields of the response, in the order of [`super::Template::response_fields`].
    pub response_fields: Fields<'a>,
}

impl<'a> Record<'a> {
    /// Returns what the figures count.
    pub fn outcome(&self) -> Outcome<'a> {
        Outcome {
            host: self.host.as_bytes(),
            protocol: self.protocol,
            status: self.status,
            body_bytes: self.body_bytes,
            cache: self.cache,
            first_byte: self.first_byte,
            total: self.total,
            is_complete: self.is_complete,
        }
    }
}

/// What the figures count of an exchange: fields of its [`Record`], which is only made for a log.
#[derive(Clone, Copy, Debug)]
pub struct Outcome<'a> {
    /// The host that the client named.
    pub host: &'a [u8],
    /// See [`Record::protocol`].
    pub protocol: Protocol,
    /// See [`Record::status`].
    pub status: u16,
    /// See [`Record::body_bytes`].
    pub body_bytes: u64,
    /// See [`Record::cache`].
    pub cache: CacheResult,
    /// See [`Record::first_byte`].
    pub first_byte: Option<Duration>,
    /// See [`Record::total`].
    pub total: Duration,
    /// See [`Record::is_complete`].
    pub is_complete: bool,
}

/// The values of the fields that a template names.
#[derive(Clone, Copy, Debug)]
pub enum Fields<'a> {
    /// Values.
    Values(&'a [Option<HeaderValue>]),
    /// Places in a head. An empty one means none.
    Places(&'a [Range<usize>], &'a [u8]),
}

impl<'a> Fields<'a> {
    /// No field at all.
    pub const NONE: Fields<'static> = Fields::Values(&[]);

    /// Returns the value with this number.
    pub(super) fn get(self, number: usize) -> Option<&'a [u8]> {
        match self {
            Fields::Values(values) => values.get(number)?.as_ref().map(HeaderValue::as_bytes),
            Fields::Places(places, head) => head
                .get(places.get(number)?.clone())
                .filter(|value| !value.is_empty()),
        }
    }
}

/// A request to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Host and port.
    pub server: String,
    /// The status of its response; `None` if it failed.
    pub status: Option<u16>,
    /// The time to the head of the response, or to the failure; `None` if it is still in progress.
    pub head: Option<Duration>,
    /// The time to the end of the body, or to the record.
    pub total: Duration,
}

/// The protocol of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    Http11,
    /// HTTP/2.
    Http2,
    /// HTTP/3.
    Http3,
}

impl Protocol {
    /// All of them, for tables of counters.
    pub const ALL: [Protocol; 4] = [
        Protocol::Http10,
        Protocol::Http11,
        Protocol::Http2,
        Protocol::Http3,
    ];

    /// The name, as nginx writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Protocol::Http10 => "HTTP/1.0",
            Protocol::Http11 => "HTTP/1.1",
            Protocol::Http2 => "HTTP/2.0",
            Protocol::Http3 => "HTTP/3.0",
        }
    }
}

/// What the cache did, in one word. `Cache-Status` has the details (`$sent_http_cache_status`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheResult {
    /// A fresh stored response.
    Hit,
    /// A stored response, though it was stale.
    Stale,
    /// A stored response, which the origin has validated.
    Revalidated,
    /// Nothing usable was stored.
    Miss,
    /// The stored response was replaced by a new one.
    Expired,
    /// The request had to go to the origin.
    Bypass,
    /// An answer of the proxy itself, or none.
    None,
}

impl CacheResult {
    /// All of them, for tables of counters.
    pub const ALL: [CacheResult; 7] = [
        CacheResult::Hit,
        CacheResult::Stale,
        CacheResult::Revalidated,
        CacheResult::Miss,
        CacheResult::Expired,
        CacheResult::Bypass,
        CacheResult::None,
    ];

    /// The word.
    pub const fn name(self) -> &'static str {
        match self {
            CacheResult::Hit => "hit",
            CacheResult::Stale => "stale",
            CacheResult::Revalidated => "revalidated",
            CacheResult::Miss => "miss",
            CacheResult::Expired => "expired",
            CacheResult::Bypass => "bypass",
            CacheResult::None => "none",
        }
    }

    /// nginx's word for it (`$upstream_cache_status`); `None` for an answer without the cache.
    pub(super) const fn nginx_name(self) -> Option<&'static str> {
        match self {
            CacheResult::Hit => Some("HIT"),
            CacheResult::Stale => Some("STALE"),
            CacheResult::Revalidated => Some("REVALIDATED"),
            CacheResult::Miss => Some("MISS"),
            CacheResult::Expired => Some("EXPIRED"),
            CacheResult::Bypass => Some("BYPASS"),
            CacheResult::None => None,
        }
    }

    /// Reads this cache's member of a `Cache-Status` field: the last one (RFC 9211 §2).
    pub fn of(cache_status: &[u8]) -> CacheResult {
        let own = memchr::memrchr(b',', cache_status)
            .map_or(cache_status, |comma| &cache_status[comma + 1..]);
        let (mut is_hit, mut forwarded, mut has_ttl, mut ttl_is_negative, mut is_of_error) =
            (false, None, false, false, false);
        let mut rest = own;
        while let Some(end) = memchr::memchr(b';', rest) {
            rest = rest[end + 1..].trim_ascii_start();
            let parameter = &rest[..memchr::memchr(b';', rest).unwrap_or(rest.len())];
            let (name, value) = match memchr::memchr(b'=', parameter) {
                Some(at) => (&parameter[..at], &parameter[at + 1..]),
                None => (parameter, &b""[..]),
            };
            match name {
                b"hit" => is_hit = true,
                b"fwd" => forwarded = Some(value),
                b"ttl" => (has_ttl, ttl_is_negative) = (true, value.starts_with(b"-")),
                b"detail" => is_of_error = value == b"stale-if-error",
                _ => {}
            }
        }
        match forwarded {
            None if is_hit && ttl_is_negative => CacheResult::Stale,
            None if is_hit => CacheResult::Hit,
            None => CacheResult::None,
            Some(_) if is_of_error => CacheResult::Stale,
            // Only a stored response has a time to live.
            Some(_) if has_ttl => CacheResult::Revalidated,
            Some(b"uri-miss" | b"vary-miss" | b"partial") => CacheResult::Miss,
            Some(b"stale" | b"request") => CacheResult::Expired,
            Some(_) => CacheResult::Bypass,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_says_something_else_than_the_field() {
        for (field, word) in [
            ("larder; hit; ttl=58", "hit"),
            ("larder; hit; ttl=-2", "stale"),
            ("larder; hit; ttl=5; detail=recalled", "hit"),
            (
                "edge; hit, larder; fwd=uri-miss; fwd-status=200; stored",
                "miss",
            ),
            ("larder; fwd=vary-miss; collapsed", "miss"),
            ("larder; fwd=stale; fwd-status=304; ttl=60", "revalidated"),
            ("larder; fwd=stale; fwd-status=200; stored", "expired"),
            (
                "larder; fwd=stale; fwd-status=503; ttl=-4; detail=stale-if-error",
                "stale",
            ),
            ("larder; fwd=method; fwd-status=200", "bypass"),
            ("larder; detail=only-if-cached", "none"),
            ("", "none"),
        ] {
            assert_eq!(CacheResult::of(field.as_bytes()).name(), word, "{field}");
        }
    }
}
