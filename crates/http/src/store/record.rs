//! A stored response as bytes that outlive the process; all numbers little-endian.
//!
//! ```text
//! length of all but the body u32 │ version u8 │ status u16 │ freshness │ fields that select: count u16, each name, 0 or 1 and a value
//! │ header fields: count u16, each flags u8, name, value
//! │ 0, or 1 and, of a body in slices: generation u64, length u64, bytes of a slice u64, name and value of its validator │ body
//! ```
//!
//! A name has its length before it as u16, a value as u32. Freshness uses the wall clock, because
//! the monotonic one starts again. If the wall clock is before the receipt of the response, its age
//! is unknown, and it counts as stale. `Age` and this cache's `Cache-Status` are left out; those of
//! other caches are kept.

use crate::codec::{Reader, Writer};
use crate::now::Now;
use crate::rfc::cache_status::CACHE_STATUS;
use crate::rfc::freshness::Freshness;
use crate::rfc::vary::Selector;
use crate::store::sliced::{Pin, Sliced};
use crate::store::stored::{Elsewhere, Stored};
use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderValue, StatusCode};

/// Records of other versions are not read.
const VERSION: u8 = 2;

/// Encodes everything but the body.
pub(crate) fn encode(stored: &Stored, now: Now) -> Vec<u8> {
    let mut record = Writer::after(vec![0; 4]);
    record.byte(VERSION);
    record.u16(stored.status.as_u16());
    stored.freshness.encode(now, &mut record);
    stored.selector.encode(&mut record);
    let (fields, length, earlier) = (stored.fields(), stored.content_length(), stored.earlier());
    record.u16(fields.len() as u16 + u16::from(length.is_some()) + u16::from(!earlier.is_empty()));
    for (name, value) in fields {
        record.byte(u8::from(value.is_sensitive()));
        record.name(name.as_str().as_bytes());
        record.value(value.as_bytes());
    }
    if let Some(length) = length {
        record.byte(0);
        record.name(CONTENT_LENGTH.as_str().as_bytes());
        record.value(length.to_string().as_bytes());
    }
    if !earlier.is_empty() {
        record.byte(0);
        record.name(CACHE_STATUS.as_str().as_bytes());
        record.value(earlier.as_bytes());
    }
    record.byte(u8::from(stored.sliced().is_some()));
    if let Some(sliced) = stored.sliced() {
        let (name, value) = sliced.pin.parts();
        record.u64(sliced.generation);
        record.u64(sliced.length);
        record.u64(sliced.slice_bytes);
        record.name(name.as_str().as_bytes());
        record.value(value.as_bytes());
    }
    let mut bytes = record.into_bytes();
    let length = bytes.len() as u32;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes
}

/// Decodes a record followed by its body; `None` if it is not a record.
pub(crate) fn decode(bytes: &Bytes, key: Box<[u8]>, hash: u64, now: Now) -> Option<Stored> {
    let (mut stored, length) = decode_head(bytes, key, hash, now)?;
    if stored.sliced().is_none() {
        stored.set_body(bytes.slice(length..));
    }
    Some(stored)
}

/// Decodes a record without its body. Returns the response and the offset of the body.
pub(crate) fn decode_head(
    bytes: &[u8],
    key: Box<[u8]>,
    hash: u64,
    now: Now,
) -> Option<(Stored, usize)> {
    let (mut record, length) = opened(bytes)?;
    let status = StatusCode::from_u16(record.u16()?).ok()?;
    let freshness = Freshness::decode(&mut record, now)?;
    let selector = Selector::decode(&mut record)?;
    let mut headers = HeaderMap::new();
    for _ in 0..record.u16()? {
        let is_sensitive = record.byte()? != 0;
        let name = record.name()?;
        let mut value = HeaderValue::from_bytes(record.value()?).ok()?;
        value.set_sensitive(is_sensitive);
        headers.append(name, value);
    }
    let mut stored = Stored::new(key, hash, selector, status, &headers, freshness);
    if record.byte()? != 0 {
        stored.elsewhere = Some(Box::new(Elsewhere::Slices(sliced(&mut record)?)));
    }
    Some((stored, length))
}

fn sliced(record: &mut Reader<'_>) -> Option<Sliced> {
    let [generation, length, slice_bytes] = [record.u64()?, record.u64()?, record.u64()?];
    let pin = Pin::from_parts(
        record.name()?,
        HeaderValue::from_bytes(record.value()?).ok()?,
    );
    Some(Sliced {
        generation,
        length,
        pin,
        slice_bytes,
    })
}

/// Calls `look` with each header field of a record that can be read.
pub(crate) fn each_field(bytes: &[u8], mut look: impl FnMut(&str, &[u8])) -> Option<()> {
    let (mut record, _) = opened(bytes)?;
    record.u16()?;
    Freshness::skip(&mut record)?;
    Selector::decode(&mut record)?;
    for _ in 0..record.u16()? {
        record.byte()?;
        let name = record.text()?;
        look(name, record.value()?);
    }
    Some(())
}

/// Returns a reader after length and version, and the length of everything but the body.
fn opened(bytes: &[u8]) -> Option<(Reader<'_>, usize)> {
    let (length, _) = bytes.split_first_chunk()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let mut reader = Reader::new(bytes.get(4..length)?);
    (reader.byte()? == VERSION).then_some((reader, length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rfc::directives::ResponseDirectives;
    use larder_units::Time;
    use proptest::prelude::*;
    use std::time::Duration;

    const RECEIVED: Now = Now {
        time: Time::from_secs(100),
        unix_seconds: 784_111_777,
    };

    fn stored() -> Stored {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("date", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("cache-control", "max-age=60, immutable, stale-if-error=5"),
            ("age", "3"),
            ("cache-status", "edge; hit"),
            ("set-cookie", "a=1"),
            ("set-cookie", "b=2"),
            ("vary", "accept, x-none"),
            ("etag", "\"a\""),
            ("surrogate-key", "one two"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        let mut request = HeaderMap::new();
        request.insert("accept", HeaderValue::from_static("text/html"));
        let says = ResponseDirectives::of(&headers);
        let freshness = Freshness::of(StatusCode::OK, &headers, &says, RECEIVED.time, RECEIVED);
        let selector = Selector::of(&headers, &request);
        let mut stored = Stored::new(
            b"key"[..].into(),
            7,
            selector,
            StatusCode::OK,
            &headers,
            freshness,
        );
        stored.set_body(Bytes::from_static(b"body"));
        stored
    }

    fn record() -> Bytes {
        [&encode(&stored(), RECEIVED)[..], b"body"].concat().into()
    }

    /// Failure: a response that is read after a restart is younger, fresher or another variant than
    /// the stored one.
    #[test]
    fn all_of_it_comes_back() {
        // Another process, 10 seconds later.
        let later = Now {
            time: Time::from_secs(2),
            unix_seconds: RECEIVED.unix_seconds + 10,
        };
        let back = decode(&record(), b"key"[..].into(), 7, later).unwrap();
        let same = stored();
        assert_eq!(back.freshness.age(later.time), Duration::from_secs(13));
        assert_eq!(back.freshness.ttl_seconds(later.time), 47);
        assert!(
            back.selector == same.selector && back.status == same.status && back.body == same.body
        );
        let in_this = RECEIVED.time + Duration::from_secs(10);
        assert_eq!(back.hit_headers(later.time), same.hit_headers(in_this));
        assert_eq!(back.size(4), same.size(4));
        // Written and read again, it has the same age.
        let again = [&encode(&back, later)[..], b"body"].concat().into();
        let back = decode(&again, b"key"[..].into(), 7, later).unwrap();
        assert_eq!(back.freshness.age(later.time), Duration::from_secs(13));
    }

    #[test]
    fn a_clock_that_went_back_makes_stale() {
        let earlier = Now {
            time: Time::from_secs(2),
            unix_seconds: RECEIVED.unix_seconds - 1,
        };
        let back = decode(&record(), b"key"[..].into(), 7, earlier).unwrap();
        assert!(!back.freshness.is_fresh(earlier.time));
    }

    #[test]
    fn cut_or_of_another_version_it_is_none() {
        let whole = record();
        for length in 0..whole.len() - 4 {
            assert!(
                decode(&whole.slice(..length), b"key"[..].into(), 7, RECEIVED).is_none(),
                "{length}"
            );
        }
        let mut other = whole.to_vec();
        other[4] = VERSION + 1;
        assert!(decode(&other.into(), b"key"[..].into(), 7, RECEIVED).is_none());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(at in 0..200_usize, with in proptest::collection::vec(any::<u8>(), 0..8)) {
            let mut bytes = record().to_vec();
            let at = at.min(bytes.len() - with.len());
            bytes[at..at + with.len()].copy_from_slice(&with);
            let bytes = Bytes::from(bytes);
            if let Some(stored) = decode(&bytes, b"key"[..].into(), 7, RECEIVED) {
                stored.hit_headers(Time::from_secs(200));
                let _ = encode(&stored, RECEIVED);
            }
            each_field(&bytes, |_, _| ());
        }
    }
}
