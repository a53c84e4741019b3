//! One stored response: its header fields, and the body.

use crate::body::streamed::InTier;
use crate::limits;
use crate::now::Now;
use crate::rfc::cache_status::{CACHE_STATUS, CacheStatus};
use crate::rfc::directives::ResponseDirectives;
use crate::rfc::freshness::Freshness;
use crate::rfc::selection::Ready;
use crate::rfc::vary::Selector;
use crate::rfc::{cache_status, targeted};
use crate::store::header_block::HeaderBlock;
use crate::store::sliced::Sliced;
use bytes::Bytes;
use http::header::{AGE, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, ETAG, LAST_MODIFIED, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use larder_units::Time;

/// Fields that each answer gets anew.
const WRITTEN_ANEW: [HeaderName; 3] = [AGE, CACHE_STATUS, CONTENT_LENGTH];

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
    /// All fields but `Age`, `Cache-Status` and `Content-Length`, which are written anew for each
    /// answer.
    headers: HeaderBlock,
    /// The `Cache-Status` of caches nearer to the origin.
    earlier: Box<str>,
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
        let headers = HeaderBlock::new(headers, &WRITTEN_ANEW);
        Stored { key, hash, selector, status, freshness, body: Bytes::new(), elsewhere: None, headers, earlier }
    }

    /// Returns all fields but `Age` and `Cache-Status`.
    pub(crate) fn headers(&self) -> HeaderMap {
        let mut headers = self.headers.to_map(WRITTEN_ANEW.len());
        if let Some(length) = self.content_length() {
            headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        headers
    }

    /// Returns the fields that do not depend on the time or the length of the body.
    pub(crate) fn header_block(&self) -> &HeaderBlock {
        &self.headers
    }

    /// The value of Content-Length. RFC 9110 §8.6: a 204 has none.
    pub(crate) fn content_length(&self) -> Option<u64> {
        (self.status != StatusCode::NO_CONTENT).then(|| self.length())
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
    pub(crate) fn ready(&self, headers: HeaderMap) -> Ready {
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
        let validators = [ETAG, LAST_MODIFIED];
        self.headers.lines().any(|line| validators.iter().any(|name| line.name == name.as_str().as_bytes()))
    }

    /// The headers of a hit at `now`.
    pub(crate) fn hit_headers(&self, now: Time) -> HeaderMap {
        self.validated_headers(now, CacheStatus::Hit { ttl_seconds: self.freshness.ttl_seconds(now) })
    }

    /// The headers of an answer at `now` with this `Cache-Status`.
    pub(crate) fn validated_headers(&self, now: Time, status: CacheStatus) -> HeaderMap {
        let mut headers = self.headers();
        headers.insert(AGE, HeaderValue::from(self.freshness.age(now).as_secs()));
        headers.insert(CACHE_STATUS, status.after(&self.earlier));
        headers
    }

    /// Appends the header lines of a hit at `now`, as HTTP/1.1 sends them, with the empty line at
    /// their end.
    pub(crate) fn write_hit(&self, now: Time, head: &mut Vec<u8>) {
        head.extend_from_slice(self.headers.as_bytes());
        let mut digits = itoa::Buffer::new();
        if let Some(length) = self.content_length() {
            head.extend_from_slice(b"content-length: ");
            head.extend_from_slice(digits.format(length).as_bytes());
            head.extend_from_slice(b"\r\n");
        }
        head.extend_from_slice(b"age: ");
        head.extend_from_slice(digits.format(self.freshness.age(now).as_secs()).as_bytes());
        head.extend_from_slice(b"\r\ncache-status: ");
        cache_status::append_hit(self.freshness.ttl_seconds(now), &self.earlier, head);
        head.extend_from_slice(b"\r\n\r\n");
    }

    /// Returns the headers with another `Cache-Status`.
    pub(crate) fn cache_status(&self, status: CacheStatus) -> HeaderValue {
        status.after(&self.earlier)
    }

    pub(crate) fn set_body(&mut self, body: Bytes) {
        self.body = body;
    }

    /// The body stays in the second tier.
    pub(crate) fn leave_in_tier(&mut self, body: InTier) {
        self.elsewhere = Some(Box::new(Elsewhere::Tier(body)));
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
        let mut headers = self.headers();
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
        self.headers = HeaderBlock::new(&headers, &WRITTEN_ANEW);
        says
    }

    /// Returns its cost with a body of `body` bytes: body, header block, key, selecting values and
    /// the structures around them.
    pub(crate) fn size(&self, body: u64) -> u64 {
        let bytes = self.headers.as_bytes().len() + self.key.len() + self.selector.bytes() + self.earlier.len();
        body.saturating_add(bytes as u64)
            .saturating_add(self.selector.len() as u64 * limits::FIELD_OVERHEAD_BYTES)
            .saturating_add(limits::OBJECT_OVERHEAD_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_overheads_cover_the_structures() {
        // A selecting field: its name, the value's pointer and length, and two allocations'
        // headers.
        let selecting = size_of::<(HeaderName, Option<Box<[u8]>>)>() + 2 * 16;
        assert!(limits::FIELD_OVERHEAD_BYTES as usize >= selecting, "{selecting}");
        // The record in the slots (with its link), the index entry, the engine's object and list
        // nodes, the body's owner and its count of references, five allocations' headers.
        let body = size_of::<crate::body::budget::BorrowedBytes>() + 16 + 32;
        let object = size_of::<Stored>() + 8 + 2 * 8 + 64 + body + 5 * 16;
        assert!(limits::OBJECT_OVERHEAD_BYTES as usize >= object, "{object}");
    }
}
