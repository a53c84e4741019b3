//! The stored responses of one URL, for display to an operator. They are not counted as requests.

use crate::cache::Cache;
use crate::now::Now;
use crate::rfc::route::Route;
use crate::store::second_tier::TierHit;
use crate::store::stored::Stored;
use http::header::{
    ACCEPT, ACCEPT_CHARSET, ACCEPT_ENCODING, ACCEPT_LANGUAGE, HeaderName, ORIGIN,
    UPGRADE_INSECURE_REQUESTS, USER_AGENT,
};
use http::{HeaderMap, StatusCode};
use std::time::Duration;

/// Request fields whose values are shown, because none of them is a credential. Any other may hold
/// a secret, such as `X-Api-Key`.
const SHOWN: [HeaderName; 7] = [
    ACCEPT,
    ACCEPT_CHARSET,
    ACCEPT_ENCODING,
    ACCEPT_LANGUAGE,
    ORIGIN,
    UPGRADE_INSECURE_REQUESTS,
    USER_AGENT,
];

/// One of the stored responses of a URL.
#[derive(Clone, Debug)]
pub struct StoredVariant {
    /// Its variant in a [`SecondTier`](crate::SecondTier).
    pub variant: u32,
    /// The request fields that select it (`Vary`, RFC 9111 §4.1), each with the value of the
    /// request that it answered, if that had the field: "(hidden)" except for fields of content
    /// negotiation, `Origin` and `User-Agent`, because any other may hold a secret.
    pub selected_by: Vec<(String, Option<String>)>,
    /// Its status.
    pub status: StatusCode,
    /// Its fields, without `Age` and `Cache-Status`.
    pub headers: HeaderMap,
    /// Its age (RFC 9111 §4.2.3).
    pub age: Duration,
    /// The seconds for which it is fresh; negative if it is stale.
    pub ttl_seconds: i64,
    /// Bytes of its body.
    pub length: u64,
    /// True if its body is stored in slices. Not all slices need to be present.
    pub is_sliced: bool,
}

impl Cache {
    /// Returns the responses that the store has under a URL, the newest first.
    pub fn variants(&self, route: &Route<'_>, now: Now) -> Vec<StoredVariant> {
        let ids = self.store.variants_of(&route.key, route.hash);
        ids.map(|id| self.variant(&self.store.stored(id), now))
            .collect()
    }

    /// Returns the response that the second tier has returned for a URL, if it is still there.
    pub fn variant_in_tier(
        &self,
        route: &Route<'_>,
        tier_hit: TierHit,
        now: Now,
    ) -> Option<StoredVariant> {
        let stored = self.decode_tier_hit(tier_hit, route.tier_key(), route.hash, now)?;
        Some(self.variant(&stored, now))
    }

    fn variant(&self, stored: &Stored, now: Now) -> StoredVariant {
        let text = |(name, value): (&str, Option<&[u8]>)| {
            let is_shown = SHOWN.iter().any(|shown| *name == *shown.as_str());
            let value = value.map(|value| {
                if is_shown {
                    String::from_utf8_lossy(value).into_owned()
                } else {
                    "(hidden)".to_owned()
                }
            });
            (name.to_owned(), value)
        };
        StoredVariant {
            variant: stored.selector.variant(&self.hash_key),
            selected_by: stored.selector.fields().map(text).collect(),
            status: stored.status,
            headers: stored.headers(),
            age: stored.freshness.age(now.time),
            ttl_seconds: stored.freshness.ttl_seconds(now.time),
            length: stored.length(),
            is_sliced: stored.sliced().is_some(),
        }
    }
}
