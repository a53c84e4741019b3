//! `request_id` of `[http]`: a number for each request, in the log and in the request to the
//! origin.

use crate::base::limits;
use ::http::{HeaderName, HeaderValue};
use std::sync::atomic::{AtomicU64, Ordering};

/// The field of requests.
pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The source of request ids.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum RequestIdSource {
    /// There are none; a client's `X-Request-Id` passes like any field.
    #[default]
    Off,
    /// Every request gets a new one. A client's is replaced.
    Generate,
    /// A client's is kept if it is a token of at most [`limits::REQUEST_ID_BYTES`]; other requests
    /// get a new one. For clients that are trusted.
    Accept,
}

/// Makes request ids: 128 bits, different in all processes and threads.
pub(crate) struct RequestIds {
    source: RequestIdSource,
    seeds: [u64; 2],
    count: AtomicU64,
}

impl RequestIds {
    pub(crate) fn new(source: RequestIdSource) -> RequestIds {
        RequestIds {
            source,
            seeds: larder_host::entropy::words(),
            count: AtomicU64::new(0),
        }
    }

    pub(crate) fn source(&self) -> RequestIdSource {
        self.source
    }

    pub(crate) fn are_off(&self) -> bool {
        self.source == RequestIdSource::Off
    }

    /// Returns true if this id of a client stays.
    pub(crate) fn accepts(&self, id: &[u8]) -> bool {
        let is_of_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.~+/=:@".contains(byte);
        self.source == RequestIdSource::Accept
            && (1..=limits::REQUEST_ID_BYTES).contains(&id.len())
            && id.iter().all(is_of_token)
    }

    /// Returns a new one: 32 hexadecimal digits, like nginx's.
    pub(crate) fn generate(&self) -> [u8; 32] {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let words = self
            .seeds
            .map(|seed| mix(seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))));
        let mut text = [0; 32];
        for (byte, pair) in words
            .iter()
            .flat_map(|word| word.to_be_bytes())
            .zip(text.as_chunks_mut::<2>().0)
        {
            *pair = [
                b"0123456789abcdef"[usize::from(byte >> 4)],
                b"0123456789abcdef"[usize::from(byte & 15)],
            ];
        }
        text
    }

    /// Returns the id of a request with this field, if there are ids.
    pub(crate) fn of(&self, field: Option<&HeaderValue>) -> Option<HeaderValue> {
        if self.are_off() {
            return None;
        }
        match field.filter(|field| self.accepts(field.as_bytes())) {
            Some(kept) => Some(kept.clone()),
            None => HeaderValue::from_bytes(&self.generate()).ok(),
        }
    }
}

/// The finaliser of SplitMix64: every bit of the result depends on every bit of the word.
fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_repeat_or_a_client_writes_what_it_likes() {
        let ids = RequestIds::new(RequestIdSource::Accept);
        let made: std::collections::HashSet<_> = (0..10_000).map(|_| ids.generate()).collect();
        assert_eq!(made.len(), 10_000);
        assert!(made.iter().all(|id| id.iter().all(u8::is_ascii_hexdigit)));
        let long = "a".repeat(limits::REQUEST_ID_BYTES + 1);
        for (field, is_kept) in [
            ("f47ac10b-58cc", true),
            ("", false),
            ("a b", false),
            ("a\"", false),
            (&long, false),
        ] {
            let field = HeaderValue::from_str(field).unwrap();
            assert_eq!(
                ids.of(Some(&field)).as_ref() == Some(&field),
                is_kept,
                "{field:?}"
            );
        }
        let kept = HeaderValue::from_static("abc");
        assert_ne!(
            RequestIds::new(RequestIdSource::Generate).of(Some(&kept)),
            Some(kept.clone())
        );
        assert_eq!(RequestIds::new(RequestIdSource::Off).of(Some(&kept)), None);
    }
}
