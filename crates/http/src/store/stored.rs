//! One stored response: a header block ready to be sent, and the body.

use crate::body::streamed::InTier;
use crate::limits;
use crate::now::Now;
use crate::rfc::cache_status::{CACHE_STATUS, CacheStatus};
use crate::rfc::directives::ResponseDirectives;
use crate::rfc::freshness::Freshness;
use crate::rfc::selection::Ready;
use crate::rfc::vary::Selector;
use crate::rfc::{cache_status, fields, targeted};
use crate::store::sliced::Sliced;
use bytes::Bytes;
use http::header::{AGE, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, ETAG, LAST_MODIFIED, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use larder_units::Time;

/// Seconds that no age reaches.
const NEVER: u64 = u64::MAX;

#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub key: Box<[u8]>,
    pub hash: u64,
    pub selector: Selector,
    pub status: StatusCode,
    pub freshness: Freshness,
    pub body: Bytes,
    /// The place of the body, if it is not in `body`.
    pub elsewhere: Option<Box<Elsewhere>>,
    /// Complete except for `Age` and `Cache-Status`, which have the values of the second
    /// [`Stored::rendered`]. So a hit within that second copies the block and formats nothing.
    headers: HeaderMap,
    /// The `Cache-Status` of caches nearer to the origin.
    earlier: Box<str>,
    /// The age in seconds that `headers` tells.
    rendered: u64,
}

/// The place of the body of a [`Stored`].
#[derive(Clone, Debug)]
pub(crate) enum Elsewhere {
    /// In slices, each of which is stored by itself.
    Slices(Sliced),
    /// Left in the second tier. Such a response is in no store.
    Tier(InTier),
}

impl Stored {
    /// Returns the stored form of response headers that are already without hop-by-hop fields, with
    /// `Date` and `Via`. The body is set later.
    pub(crate) fn new(
        key: Box<[u8]>,
        hash: u64,
        selector: Selector,
        status: StatusCode,
        headers: &HeaderMap,
        freshness: Freshness,
    ) -> Stored {
        let earlier = cache_status::earlier(headers).into_boxed_str();
        let headers = fields::compact(headers);
        let mut stored = Stored {
            key,
            hash,
            selector,
            status,
            freshness,
            body: Bytes::new(),
            elsewhere: None,
            headers,
            earlier,
            rendered: 0,
        };
        // Only to hold their places: no response is as old as this, so the first hit renders.
        stored.headers.insert(AGE, HeaderValue::from_static("18446744073709551615"));
        stored.headers.insert(CACHE_STATUS, CacheStatus::Hit { ttl_seconds: 0 }.after(&stored.earlier));
        stored.rendered = NEVER;
        stored
    }

    /// The headers, `Age` and `Cache-Status` of another moment among them.
    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Returns the `Cache-Status` of other caches.
    pub(crate) fn earlier(&self) -> &str {
        &self.earlier
    }

    /// Returns true if it is a part of a larger object ([`Elsewhere::Slices`]): no other stored
    /// response has this status.
    pub(crate) fn is_slice(&self) -> bool {
        self.status == StatusCode::PARTIAL_CONTENT
    }

    /// Ready to be sent with these headers, which are its own at some moment.
    pub(crate) fn ready<'a>(&self, headers: &'a HeaderMap) -> Ready<'a> {
        Ready { status: self.status, headers, length: Some(self.length()), boundary: Some(self.hash) }
    }

    /// Bytes of the whole body, wherever it is.
    pub(crate) fn length(&self) -> u64 {
        match self.elsewhere.as_deref() {
            Some(Elsewhere::Slices(sliced)) => sliced.length,
            Some(Elsewhere::Tier(body)) => body.length,
            None => self.body.len() as u64,
        }
    }

    /// Returns the description of its slices, if its body is stored in slices.
    pub(crate) fn sliced(&self) -> Option<&Sliced> {
        match self.elsewhere.as_deref() {
            Some(Elsewhere::Slices(sliced)) => Some(sliced),
            _ => None,
        }
    }

    /// Returns the place of its body, if it was left in the second tier.
    pub(crate) fn in_tier(&self) -> Option<&InTier> {
        match self.elsewhere.as_deref() {
            Some(Elsewhere::Tier(body)) => Some(body),
            _ => None,
        }
    }

    pub(crate) fn has_validator(&self) -> bool {
        self.headers.contains_key(ETAG) || self.headers.contains_key(LAST_MODIFIED)
    }

    /// The headers of a hit at `now`.
    pub(crate) fn hit_headers(&mut self, now: Time) -> &HeaderMap {
        let age = self.freshness.age(now).as_secs();
        if age != self.rendered {
            self.render(age, self.freshness.ttl_seconds(now));
        }
        &self.headers
    }

    /// The headers of an answer after validation at `now`.
    pub(crate) fn validated_headers(&self, now: Time, status: CacheStatus) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.insert(AGE, HeaderValue::from(self.freshness.age(now).as_secs()));
        headers.insert(CACHE_STATUS, status.after(&self.earlier));
        headers
    }

    /// Returns the headers with another `Cache-Status`.
    pub(crate) fn cache_status(&self, status: CacheStatus) -> HeaderValue {
        status.after(&self.earlier)
    }

    pub(crate) fn set_body(&mut self, body: Bytes) {
        self.set_length(body.len() as u64);
        self.body = body;
    }

    /// The body stays in the second tier.
    pub(crate) fn leave_in_tier(&mut self, body: InTier) {
        self.set_length(body.length);
        self.elsewhere = Some(Box::new(Elsewhere::Tier(body)));
    }

    fn set_length(&mut self, length: u64) {
        // RFC 9110 §8.6: no Content-Length in a 204.
        if self.status != StatusCode::NO_CONTENT {
            self.headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
    }

    /// A 304 renews the header fields and the freshness (RFC 9111 §4.3.4). §3.2: every field that
    /// it brings, but those that say how the stored bytes are framed and encoded: with them
    /// changed, the body would be read wrongly.
    pub(crate) fn freshen(
        &mut self,
        not_modified: &HeaderMap,
        targets: &[HeaderName],
        asked: Time,
        now: Now,
    ) -> ResponseDirectives {
        let mut headers = self.headers.clone();
        headers.remove(AGE);
        headers.remove(CACHE_STATUS);
        const OF_THE_BODY: [HeaderName; 6] = [
            CONTENT_ENCODING,
            CONTENT_LENGTH,
            HeaderName::from_static("content-md5"),
            CONTENT_RANGE,
            HeaderName::from_static("content-digest"),
            TRANSFER_ENCODING,
        ];
        let renewed = not_modified.keys().filter(|name| !OF_THE_BODY.contains(name));
        for name in renewed {
            headers.remove(name);
            for value in not_modified.get_all(name) {
                headers.append(name, value.clone());
            }
        }
        let says = targeted::directives(&headers, targets);
        self.freshness = Freshness::of(self.status, &headers, &says, asked, now);
        self.earlier = cache_status::earlier(&headers).into_boxed_str();
        self.headers = fields::compact(&headers);
        self.render(self.freshness.age(now.time).as_secs(), self.freshness.ttl_seconds(now.time));
        says
    }

    /// Returns its cost with a body of `body` bytes: body, header block, key, selecting values and
    /// the structures around them.
    pub(crate) fn size(&self, body: u64) -> u64 {
        let fields = (self.headers.len() + self.selector.len() + 1) as u64;
        let bytes = fields::bytes(&self.headers) + self.key.len() + self.selector.bytes() + self.earlier.len();
        body.saturating_add(bytes as u64)
            .saturating_add(fields * limits::FIELD_OVERHEAD_BYTES)
            .saturating_add(limits::OBJECT_OVERHEAD_BYTES)
    }

    /// Replacing a value of a map moves nothing.
    fn render(&mut self, age: u64, ttl_seconds: i64) {
        self.headers.insert(AGE, HeaderValue::from(age));
        self.headers.insert(CACHE_STATUS, CacheStatus::Hit { ttl_seconds }.after(&self.earlier));
        self.rendered = age;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_overheads_cover_the_structures() {
        // A bucket of HeaderMap: name, value, hash, links; plus an index entry of four bytes at
        // most half used, twice for growth.
        let bucket = size_of::<http::HeaderName>() + size_of::<HeaderValue>() + 24 + 2 * 4;
        assert!(limits::FIELD_OVERHEAD_BYTES as usize >= bucket, "{bucket}");
        // The record in the slots (with its link), the index entry, the engine's object and list
        // nodes, the body's owner with its count, four allocations' headers.
        let object =
            size_of::<Stored>() + 8 + 2 * 8 + 64 + size_of::<crate::body::budget::BorrowedBytes>() + 16 + 4 * 16;
        assert!(limits::OBJECT_OVERHEAD_BYTES as usize >= object, "{object}");
    }
}
