//! A response outside of the store: on its way into it, or taken out of it to be validated, sliced
//! or shared. In the store it is an `Entry`.

use crate::body::streamed::InTier;
use crate::limits;
use crate::now::Now;
use crate::rfc::cache_status;
use crate::rfc::cache_status::{CACHE_STATUS, CacheStatus};
use crate::rfc::directives::ResponseDirectives;
use crate::rfc::freshness::Freshness;
use crate::rfc::selection::Ready;
use crate::rfc::vary::Selector;
use crate::store::purge::{CACHE_TAG, SURROGATE_KEY, each_tag};
use crate::store::purge_table::Position;
use crate::store::sliced::Sliced;
use bytes::Bytes;
use http::header::{
    AGE, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, ETAG, LAST_MODIFIED, TRANSFER_ENCODING,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use larder_units::{Time, allocated};
use std::sync::Arc;
use std::time::Duration;

/// Longest stored `Cache-Status` of other caches, in bytes. Each cache on the path adds about
/// fifty.
const EARLIER_BYTES: usize = u16::MAX as usize;

/// Longest selecting fields of a stored response (RFC 9111 §4.1), in bytes: as long as the longest
/// header block that servers commonly accept.
const SELECTOR_BYTES: usize = u16::MAX as usize;

/// Fields that each answer adds.
const WRITTEN_ANEW: [HeaderName; 3] = [AGE, CACHE_STATUS, CONTENT_LENGTH];

#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub key: Box<[u8]>,
    pub hash: u64,
    pub selector: Selector,
    pub status: StatusCode,
    pub freshness: Freshness,
    /// The position of its request among the purges.
    pub asked_at: Position,
    pub body: Bytes,
    /// The location of the body, if it is not in `body`.
    pub elsewhere: Option<Box<Elsewhere>>,
    /// True if the next hit offers it to the object tier.
    pub is_offered: bool,
    /// All fields except `Age`, `Cache-Status` and `Content-Length`, which each answer adds.
    headers: Arc<HeaderMap>,
    /// The `Cache-Status` of caches nearer to the origin.
    earlier: Box<str>,
}

/// The location of the body of a [`Stored`].
#[derive(Clone, Debug)]
pub(crate) enum Elsewhere {
    /// In slices, each of which is stored separately.
    Slices(Sliced),
    /// In the second tier. Such a response is in no store.
    Tier(InTier),
}

impl Stored {
    /// Returns a response with headers that are already without hop-by-hop fields, with `Date` and
    /// `Via`. Its position is before all purges; it and the body are set later.
    pub(crate) fn new(
        key: Box<[u8]>,
        hash: u64,
        selector: Selector,
        status: StatusCode,
        headers: &HeaderMap,
        freshness: Freshness,
    ) -> Stored {
        let earlier = cache_status::earlier(headers).into_boxed_str();
        let headers = Arc::new(without_written_anew(headers.clone()));
        let (asked_at, body, elsewhere) = (Position::default(), Bytes::new(), None);
        Stored {
            key,
            hash,
            selector,
            status,
            freshness,
            asked_at,
            body,
            elsewhere,
            is_offered: false,
            headers,
            earlier,
        }
    }

    /// Returns all fields except `Age` and `Cache-Status`.
    pub(crate) fn headers(&self) -> HeaderMap {
        let mut headers = (*self.headers).clone();
        if let Some(length) = self.content_length() {
            headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        headers
    }

    /// Returns the fields that do not depend on the time or the length of the body.
    pub(crate) fn fields(&self) -> &HeaderMap {
        &self.headers
    }

    /// Returns the same, for the requests that share the response while it arrives.
    pub(crate) fn shared_fields(&self) -> Arc<HeaderMap> {
        Arc::clone(&self.headers)
    }

    /// Returns the value of Content-Length.
    pub(crate) fn content_length(&self) -> Option<u64> {
        content_length(self.status, self.length())
    }

    /// Returns true if the parts that a 304 does not bound fit into an entry of the store.
    pub(crate) fn fits_an_entry(&self) -> bool {
        self.selector.as_bytes().len() <= SELECTOR_BYTES && self.earlier.len() <= EARLIER_BYTES
    }

    /// Returns the `Cache-Status` of other caches.
    pub(crate) fn earlier(&self) -> &str {
        &self.earlier
    }

    pub(crate) fn set_earlier(&mut self, earlier: &str) {
        self.earlier = earlier.into();
    }

    /// Returns true if it is a part of a larger object ([`Elsewhere::Slices`]): no other stored
    /// response has this status.
    pub(crate) fn is_slice(&self) -> bool {
        self.status == StatusCode::PARTIAL_CONTENT
    }

    /// Returns the response with these headers, ready to be sent. They are its own at some moment.
    pub(crate) fn ready(&self, headers: HeaderMap) -> Ready {
        Ready {
            status: self.status,
            headers,
            length: Some(self.length()),
            boundary: Some(self.hash),
        }
    }

    /// Returns the length of the whole body in bytes, whatever its location.
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

    /// Sets the position of its request.
    pub(crate) fn at(mut self, asked_at: Position) -> Stored {
        self.asked_at = asked_at;
        self
    }

    /// Calls `look` with each of its tags.
    pub(crate) fn each_tag(&self, look: &mut dyn FnMut(&[u8])) {
        for name in [SURROGATE_KEY, CACHE_TAG] {
            for line in &self.headers.get_all(&name) {
                each_tag(name.as_str(), line.as_bytes(), look);
            }
        }
    }

    /// Returns the number of its tags.
    pub(crate) fn tags(&self) -> u64 {
        let mut tags = 0;
        self.each_tag(&mut |_| tags += 1);
        tags
    }

    pub(crate) fn has_validator(&self) -> bool {
        [ETAG, LAST_MODIFIED]
            .iter()
            .any(|name| self.headers.contains_key(name))
    }

    /// Returns the headers of a hit at `now`.
    pub(crate) fn hit_headers(&self, now: Time) -> HeaderMap {
        self.validated_headers(
            now,
            CacheStatus::Hit {
                ttl_seconds: self.freshness.ttl_seconds(now),
            },
        )
    }

    /// Returns the headers of an answer at `now` with this `Cache-Status`.
    pub(crate) fn validated_headers(&self, now: Time, status: CacheStatus) -> HeaderMap {
        let mut headers = (*self.headers).clone();
        let age = self.freshness.age(now);
        insert_written_anew(
            &mut headers,
            self.content_length(),
            age,
            status.after(&self.earlier),
        );
        headers
    }

    /// Returns the headers with another `Cache-Status`.
    pub(crate) fn cache_status(&self, status: CacheStatus) -> HeaderValue {
        status.after(&self.earlier)
    }

    pub(crate) fn set_body(&mut self, body: Bytes) {
        self.body = body;
    }

    /// Records that the body stays in the second tier.
    pub(crate) fn leave_in_tier(&mut self, body: InTier) {
        self.elsewhere = Some(Box::new(Elsewhere::Tier(body)));
    }

    /// Renews the header fields and the freshness by a 304 (RFC 9111 §4.3.4). §3.2: every field of
    /// the 304 is used, except those that describe the length and the coding of the stored bytes,
    /// because the body would then be read wrongly.
    pub(crate) fn freshen(
        &mut self,
        not_modified: &HeaderMap,
        says: impl FnOnce(StatusCode, &HeaderMap) -> ResponseDirectives,
        asked: Time,
        now: Now,
    ) -> ResponseDirectives {
        let mut headers = self.headers();
        Stored::renew_fields(&mut headers, not_modified);
        let says = says(self.status, &headers);
        self.freshness = Freshness::of(self.status, &headers, &says, asked, now);
        self.earlier = cache_status::earlier(&headers).into_boxed_str();
        self.headers = Arc::new(without_written_anew(headers));
        says
    }

    /// Takes over the fields of a 304, as [`Stored::freshen`] does.
    pub(crate) fn renew_fields(headers: &mut HeaderMap, not_modified: &HeaderMap) {
        const OF_THE_BODY: [HeaderName; 6] = [
            CONTENT_ENCODING,
            CONTENT_LENGTH,
            HeaderName::from_static("content-md5"),
            CONTENT_RANGE,
            HeaderName::from_static("content-digest"),
            TRANSFER_ENCODING,
        ];
        let renewed = not_modified
            .keys()
            .filter(|name| !OF_THE_BODY.contains(name));
        for name in renewed {
            headers.remove(name);
            for value in not_modified.get_all(name) {
                headers.append(name, value.clone());
            }
        }
    }

    /// Returns the memory of its entry with a body of `body` bytes, if it shares no header line
    /// with others: see `Entry::size`.
    pub(crate) fn size(&self, body: u64) -> u64 {
        let lines: usize = self
            .headers
            .iter()
            .map(|(name, value)| name.as_str().len() + value.len() + 4)
            .sum();
        let bytes = lines + self.key.len() + self.selector.as_bytes().len() + self.earlier.len();
        let body = usize::try_from(body).unwrap_or(usize::MAX);
        let variant = if self.selector.as_bytes().is_empty() {
            0
        } else {
            limits::VARIANT_BYTES
        };
        let indexes = self.tags() * limits::TAG_BYTES + variant;
        if body <= limits::INLINE_BODY_BYTES {
            return allocated(bytes + body) as u64 + indexes;
        }
        let overhead = limits::LARGE_BODY_OVERHEAD_BYTES + allocated(bytes) as u64 + indexes;
        overhead.saturating_add(allocated(body.min(1 << 62)) as u64)
    }
}

/// Returns the value of Content-Length. RFC 9110 §8.6: a 204 has none.
pub(crate) fn content_length(status: StatusCode, length: u64) -> Option<u64> {
    (status != StatusCode::NO_CONTENT).then_some(length)
}

/// Inserts the fields that each answer adds.
pub(crate) fn insert_written_anew(
    headers: &mut HeaderMap,
    content_length: Option<u64>,
    age: Duration,
    cache_status: HeaderValue,
) {
    if let Some(length) = content_length {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    headers.insert(AGE, HeaderValue::from(age.as_secs()));
    headers.insert(CACHE_STATUS, cache_status);
}

fn without_written_anew(mut headers: HeaderMap) -> HeaderMap {
    for name in WRITTEN_ANEW {
        headers.remove(name);
    }
    headers
}
