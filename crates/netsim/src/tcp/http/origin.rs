//! Origins: servers whose responses caches may store.

use crate::tcp::messages::{HttpRequest, HttpResponse, http_date};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use http::header::{
    ACCEPT_LANGUAGE, CACHE_CONTROL, CONTENT_LENGTH, DATE, ETAG, IF_NONE_MATCH, VARY,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use larder_units::{ByteSize, Time};
use std::fmt::Write as _;
use std::time::Duration;

/// The behaviour of an origin.
///
/// Any crate can implement this trait for [`crate::Simulation::add_http_origin_with`]. An origin
/// reads no clock, and draws chance only from a stream of [`crate::Simulation::streams`].
pub trait Origin: Send {
    /// Responds to a request.
    fn respond(&mut self, now: Time, request: &HttpRequest) -> HttpResponse;
}

/// The longest lifetime that caches know, 68 years (RFC 9111 §1.2.2).
const FOR_EVER: Duration = Duration::from_secs(larder_http::limits::LIFETIME_SECONDS);

/// The configuration of an origin.
#[derive(Clone, Debug, PartialEq)]
pub struct OriginConfig {
    /// The body size of every object.
    pub body: ByteSize,
    /// The freshness lifetime of responses, in whole seconds.
    pub max_age: Duration,
    /// The time between two versions of an object. The objects change at different times. `None`:
    /// they never change by themselves.
    pub changes: Option<Duration>,
    /// Whether responses have an entity tag, so that caches can validate them.
    pub etag: bool,
    /// The variants of each object. With more than one, responses vary by `Accept-Language`.
    pub variants: u64,
    /// The `stale-while-revalidate` of RFC 5861, in whole seconds.
    pub stale_while_revalidate: Option<Duration>,
    /// The `stale-if-error` of RFC 5861, in whole seconds.
    pub stale_if_error: Option<Duration>,
}

impl OriginConfig {
    /// Objects of this size that stay fresh for ever.
    pub fn new(body: ByteSize) -> Self {
        OriginConfig {
            body,
            max_age: FOR_EVER,
            changes: None,
            etag: true,
            variants: 1,
            stale_while_revalidate: None,
            stale_if_error: None,
        }
    }
}

/// The origin of an [`OriginConfig`].
pub(super) struct ConfiguredOrigin {
    config: OriginConfig,
    cache_control: HeaderValue,
    /// The number of unsafe requests for each object, each of which has made a new version.
    writes: HashMap<u64, u64, FixedState>,
}

impl ConfiguredOrigin {
    pub(super) fn new(config: OriginConfig) -> Self {
        let mut cache_control = format!("max-age={}", config.max_age.as_secs());
        let directives = [
            ("stale-while-revalidate", config.stale_while_revalidate),
            ("stale-if-error", config.stale_if_error),
        ];
        for (name, duration) in directives {
            if let Some(duration) = duration {
                let _ = write!(cache_control, ", {name}={}", duration.as_secs());
            }
        }
        let cache_control = HeaderValue::try_from(cache_control).expect("letters and digits");
        ConfiguredOrigin {
            config,
            cache_control,
            writes: HashMap::default(),
        }
    }

    /// Returns the version of an object: its changes by time, and by requests.
    fn version(&self, now: Time, object: u64) -> (u64, u64) {
        let writes = self.writes.get(&object).copied().unwrap_or_default();
        let Some(period) = self.config.changes.map(|period| period.as_nanos() as u64) else {
            return (0, writes);
        };
        // Fibonacci hashing spreads the changes of neighbouring objects over the period.
        let phase =
            (u128::from(object.wrapping_mul(0x9e37_79b9_7f4a_7c15)) * u128::from(period)) >> 64;
        ((now.nanos() + phase as u64) / period, writes)
    }
}

impl Origin for ConfiguredOrigin {
    fn respond(&mut self, now: Time, request: &HttpRequest) -> HttpResponse {
        let mut headers = HeaderMap::with_capacity(8);
        headers.insert(DATE, http_date(now));
        if !request.method.is_safe() {
            *self.writes.entry(request.object).or_default() += 1;
            return HttpResponse {
                status: StatusCode::NO_CONTENT,
                headers,
                body: 0,
            };
        }
        headers.insert(CACHE_CONTROL, self.cache_control.clone());
        let mut variant = None;
        if self.config.variants > 1 {
            headers.insert(VARY, HeaderValue::from_static("accept-language"));
            variant = request
                .headers
                .get(ACCEPT_LANGUAGE)
                .and_then(|value| value.to_str().ok());
        }
        if self.config.etag {
            let (by_time, by_request) = self.version(now, request.object);
            let tag = format!("\"{by_time}-{by_request}-{}\"", variant.unwrap_or_default());
            let tag = HeaderValue::try_from(tag).expect("visible characters");
            let is_known = request
                .headers
                .get_all(IF_NONE_MATCH)
                .iter()
                .any(|known| *known == tag);
            headers.insert(ETAG, tag);
            if is_known {
                return HttpResponse {
                    status: StatusCode::NOT_MODIFIED,
                    headers,
                    body: 0,
                };
            }
        }
        let body = self.config.body.bytes();
        headers.insert(CONTENT_LENGTH, HeaderValue::from(body));
        let body = if request.method == Method::HEAD {
            0
        } else {
            body
        };
        HttpResponse {
            status: StatusCode::OK,
            headers,
            body,
        }
    }
}
