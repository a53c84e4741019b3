//! The heads of requests and responses, and a request on its way to the origin.

use crate::cache::source::Source;
use crate::collapse::in_flight::Lead;
use crate::rfc::cache_status::ForwardReason;
use crate::rfc::coding::content_coding::ContentCoding;
use crate::rfc::fields::CdnLoop;
use crate::rfc::key::Key;
use crate::rfc::overrides::ResponseRules;
use crate::rfc::{cache_status, conditional, fields};
use crate::store::object::FreshObject;
use crate::store::purge_table::Position;
use crate::store::stored::Stored;
use http::header::{AGE, AUTHORIZATION, IF_RANGE, RANGE, TE, VIA};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version};
use larder_units::Time;
use std::ops::Range;
use std::sync::Arc;

/// The head of a client's request, as the host has parsed it.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    /// The method.
    pub method: &'a Method,
    /// The scheme of the client's request: `http` or `https`.
    pub scheme: &'a str,
    /// Host and port, of the target in absolute form or of the one `Host`.
    pub authority: &'a str,
    /// Path and query; empty means `/`.
    pub target: &'a str,
    /// The client's protocol version, for `Via`.
    pub version: Version,
    /// All fields, as received.
    pub headers: &'a HeaderMap,
    /// True if a body follows, of any length.
    pub has_body: bool,
    /// The coding that the client gets where a response may have one
    /// ([`Compression::chosen_by`](crate::Compression::chosen_by)).
    pub coding: Option<ContentCoding>,
    /// The entity tag of the response that the origin would send now to a GET, if the host knows
    /// it. A stored response with this tag counts as validated just now.
    pub confirmed: Option<&'a [u8]>,
}

/// The head of the origin's final response.
#[derive(Debug)]
pub struct ResponseHead {
    /// The status.
    pub status: StatusCode,
    /// The origin's protocol version.
    pub version: Version,
    /// All fields, as received.
    pub headers: HeaderMap,
}

/// The reason why there is no response from the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamFailure {
    /// No connection, or it broke before the head of the response: 502.
    Unreachable,
    /// The origin was too slow: 504.
    TimedOut,
    /// The answer is not HTTP: 502.
    Malformed,
    /// The request has returned to this cache on its way to the origin: 508.
    Circle,
    /// The client's own body broke off: 400.
    Upload,
    /// The client's own body was silent for too long: 408.
    UploadTimedOut,
    /// The client's own body is larger than a limit: 413.
    UploadTooLarge,
    /// The response has more or larger header fields than the limit: 502.
    HeadTooLarge,
    /// The request was not sent, because no server is available: 503, with the seconds until one
    /// may be.
    Unavailable {
        /// For `Retry-After`.
        retry_after: u32,
    },
}

/// A request on its way to the origin. The host returns it to the cache with the response or the
/// failure, or to [`Cache::on_abandoned`](crate::Cache::on_abandoned), because other requests may
/// wait for it.
#[derive(Debug)]
#[must_use = "it goes back to the cache"]
pub struct Exchange {
    pub(crate) key: Key<'static>,
    pub(crate) hash: u64,
    /// The hash of its key and variant, once the response has arrived.
    pub(crate) variant_hash: u64,
    shard: u16,
    pub(crate) method: Method,
    pub(crate) version: Version,
    pub(crate) cdn_loop: CdnLoop,
    pub(crate) reason: ForwardReason,
    /// The time when the request was sent: request_time of RFC 9111 §4.2.3.
    pub(crate) asked: Time,
    /// Its position among the purges.
    pub(crate) asked_at: Position,
    /// True for a GET that did not forbid storing its response.
    pub(crate) may_store: bool,
    /// True if the request has no-store.
    pub(crate) forbids_storing: bool,
    /// True if another cache of the operator has the response: this one admits no copy of it.
    pub(crate) keeps_no_copy: bool,
    /// The seconds for which another cache of the operator, which has sent the response, would
    /// still have used it, negative if it is stale there; `None` if it comes from the origin just
    /// now.
    pub(crate) left_at_peer: Option<i64>,
    /// True if no client waits, because it got the stale response.
    pub(crate) in_background: bool,
    /// The stored response that would answer this request, except for its age or for a directive of
    /// the client.
    pub(crate) held: Option<Stored>,
    /// The requested part of the body.
    pub(crate) ask: Ask,
    /// True if the client accepts the stored response only after the origin has confirmed it.
    pub(crate) insists: bool,
    /// True if the stored response is fresh, but requested before [`crate::Cache::trust_since`].
    pub(crate) is_untrusted: bool,
    /// Present if others may wait for the response.
    pub(crate) lead: Option<Lead>,
    /// The client's fields, without those of its connection.
    pub(crate) headers: HeaderMap,
    /// True if the client accepts trailers: then `Trailer` passes in both directions.
    pub(crate) takes_trailers: bool,
    /// The part of the requested slice that is read first.
    pub(crate) part: (u64, Option<u64>),
    /// The progress of the lookup in the second tier.
    pub(crate) tier_lookup: TierLookup,
    /// True if the response comes from its origin without a cache in between.
    pub(crate) is_direct: bool,
    /// True if the response is an object of the object tier.
    pub(crate) is_object: bool,
    /// True if it is one that the origin was not asked about.
    pub(crate) is_fresh_object: bool,
    /// True if the response becomes no object, by the host's decision.
    pub(crate) becomes_no_object: bool,
    /// The host's rules for the response.
    pub(crate) rules: Option<Arc<dyn ResponseRules>>,
}

/// The part of the body that is requested from the origin.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    /// The whole body for a validation, otherwise the part that the client requests.
    Whole,
    /// This slice of a representation that is unknown, or being validated.
    Slice(Range<u64>),
    /// This slice of a known representation.
    Next(Range<u64>, Arc<Source>),
    /// Exactly the client's request, because a slice could not be fetched.
    AsClient,
}

/// The progress of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TierLookup {
    /// There is nothing to read from the second tier, or nothing more.
    No,
    /// Any variant may match.
    Any,
    /// This variant matches, if any.
    Variant,
}

impl Ask {
    /// Replaces the client's range, and restricts it to the known representation.
    fn set_range(&self, headers: &mut HeaderMap) {
        let (Ask::Slice(range) | Ask::Next(range, _)) = self else {
            return;
        };
        let text = format!("bytes={}-{}", range.start, range.end - 1);
        headers.insert(
            RANGE,
            HeaderValue::try_from(text).expect("digits and a token"),
        );
        if let Ask::Next(_, source) = self {
            headers.insert(IF_RANGE, source.sliced().pin.value.clone());
        }
    }
}

impl Exchange {
    /// Creates the exchange of a request that bypasses the store.
    pub(crate) fn new(
        (key, hash): (Key<'static>, u64),
        shard: u16,
        method: Method,
        version: Version,
        cdn_loop: &CdnLoop,
        reason: ForwardReason,
        (asked, asked_at): (Time, Position),
    ) -> Exchange {
        Exchange {
            key,
            hash,
            variant_hash: hash,
            shard,
            method,
            version,
            cdn_loop: cdn_loop.clone(),
            reason,
            asked,
            asked_at,
            may_store: false,
            forbids_storing: false,
            keeps_no_copy: false,
            left_at_peer: None,
            in_background: false,
            held: None,
            ask: Ask::Whole,
            insists: false,
            is_untrusted: false,
            lead: None,
            headers: HeaderMap::new(),
            takes_trailers: false,
            part: (0, None),
            tier_lookup: TierLookup::No,
            is_direct: false,
            is_object: false,
            is_fresh_object: false,
            becomes_no_object: false,
            rules: None,
        }
    }

    /// Returns the time and the position when the request was sent.
    pub(crate) fn asked(&self) -> (Time, Position) {
        (self.asked, self.asked_at)
    }

    /// Takes the client's header fields. Call it once, before [`Exchange::upstream_headers`].
    pub fn take_headers(&mut self, client: HeaderMap) {
        self.headers = client;
        self.takes_trailers = fields::has_token(&self.headers, &TE, b"trailers");
        fields::strip_hop_by_hop_but_trailer(&mut self.headers, self.takes_trailers);
    }

    /// Sets the host's rules for the response. Call it before the response arrives.
    pub fn set_rules(&mut self, rules: Arc<dyn ResponseRules>) {
        self.rules = Some(rules);
    }

    /// Forbids to store the response, by the host's decision. Call it before
    /// [`Cache::on_response`](crate::Cache::on_response).
    pub fn forbid_storing(&mut self) {
        self.forbids_storing = true;
    }

    /// Returns whether the response may be stored, as far as the request says: it is a GET without
    /// `no-store`.
    pub fn may_be_stored(&self) -> bool {
        self.may_store && !self.forbids_storing
    }

    /// Returns whether a stored response is being validated.
    pub fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Asks for what the client asks for, and for no slice of it: the response will not be stored.
    /// Call it before [`Exchange::upstream_headers`].
    pub fn ask_as_client(&mut self) {
        if matches!(self.ask, Ask::Slice(_)) {
            self.ask = Ask::AsClient;
        }
    }

    /// Takes the response for one of another cache of the same operator, which tells in its
    /// `Cache-Status` for how long it is still fresh there: it is no longer here. Both count as one
    /// cache, so the other one's `Via` goes. The other cache may not know the last purges, even if
    /// it has a proof: the response counts as requested when it was requested there, by `Age`, so
    /// that it is trusted no longer than there
    /// ([`Cache::trust_since`](crate::Cache::trust_since)). Call it before
    /// [`Cache::on_response`](crate::Cache::on_response).
    pub fn set_peer_response(&mut self, headers: &mut HeaderMap) {
        fields::remove_last_line(headers, &VIA);
        self.left_at_peer = cache_status::ttl(headers);
        self.set_asked_by_age(headers);
    }

    fn set_asked_by_age(&mut self, headers: &mut HeaderMap) {
        let age = headers.get(AGE).and_then(|age| age.to_str().ok());
        let Some(age) = age.and_then(|age| age.trim().parse::<u32>().ok()) else {
            return;
        };
        // `Age` is rounded down. This cache may be younger than the response; the rest stays its
        // age.
        let known = (u64::from(age) + 1).min(self.asked.nanos() / 1_000_000_000);
        self.asked = Time::from_nanos(self.asked.nanos() - known * 1_000_000_000);
        match u64::from(age).saturating_sub(known) {
            0 => drop(headers.remove(AGE)),
            rest => drop(headers.insert(AGE, HeaderValue::from(rest))),
        }
    }

    /// Returns the key of the object that may answer the request; `None` if none does. Call it
    /// after [`Exchange::take_headers`].
    pub fn object_key(&self) -> Option<Box<[u8]>> {
        let is_whole = matches!(self.ask, Ask::Whole) && !conditional::asks_for_less(&self.headers);
        let may_have = self.may_store
            && self.held.is_none()
            && !self.is_authorized()
            && !self.becomes_no_object;
        (self.method == Method::GET && is_whole && may_have).then(|| self.key.to_bytes())
    }

    /// Records that the response is an object of the object tier: confirmed by the origin just now,
    /// or `fresh`. It is not offered to the tier again. Call it before
    /// [`Cache::on_response`](crate::Cache::on_response).
    pub fn set_object(&mut self, headers: &mut HeaderMap, fresh: Option<FreshObject>) {
        (self.is_object, self.is_fresh_object) = (true, fresh.is_some());
        if let Some(fresh) = fresh {
            self.left_at_peer = Some(fresh.ttl_seconds);
            self.asked_at = fresh.asked_at;
            self.set_asked_by_age(headers);
        }
    }

    /// Neither asks for an object nor lets the response become one, by the host's decision.
    pub fn without_objects(&mut self) {
        self.becomes_no_object = true;
    }

    /// Refuses to admit the response, by the host's decision. Requests that wait for it get it all
    /// the same. Call it before [`Cache::on_response`](crate::Cache::on_response).
    pub fn keep_no_copy(&mut self) {
        self.keeps_no_copy = true;
    }

    /// Returns the header fields for the origin, for each time that the request is sent: the
    /// client's without the connection's own, with `Via`, and with validators if a stored response
    /// must be validated.
    pub fn upstream_headers(&self) -> HeaderMap {
        let mut headers = self.headers.clone();
        // A clone has no spare capacity. `Via`, `CDN-Loop`, validators or a range are added here,
        // and `Forwarded` fields by the host.
        headers.reserve(8);
        if let Some(stored) = &self.held {
            conditional::set_validators(&mut headers, &stored.headers());
        }
        let slice = matches!(self.ask, Ask::Slice(_) | Ask::Next(..));
        if (self.in_background || slice) && !self.is_validating() {
            conditional::clear(&mut headers);
        }
        self.ask.set_range(&mut headers);
        self.cdn_loop.append(&mut headers, self.version);
        headers
    }

    /// Returns true if other requests wait, or may wait later, for the response. It must then
    /// continue without the client of this request.
    pub fn is_shared(&self) -> bool {
        self.lead.is_some()
    }

    pub(crate) fn is_validating(&self) -> bool {
        self.held.as_ref().is_some_and(Stored::has_validator)
    }

    /// Returns the header fields for the next attempt after [`Reply::Retry`](crate::Reply::Retry),
    /// and for a slice ([`crate::Piece::Ask`]).
    pub fn retry_headers(&self) -> HeaderMap {
        let mut headers = self.headers.clone();
        if !matches!(self.ask, Ask::AsClient) {
            conditional::clear(&mut headers);
        }
        self.ask.set_range(&mut headers);
        self.cdn_loop.append(&mut headers, self.version);
        headers
    }

    /// Returns the authority as in the key: in lower case and without the scheme's default port.
    pub fn authority(&self) -> &str {
        self.key.authority()
    }

    /// Returns the number of the shard.
    pub fn shard(&self) -> usize {
        usize::from(self.shard)
    }

    /// Returns the reason why the request is forwarded.
    pub fn reason(&self) -> ForwardReason {
        self.reason
    }

    /// Returns the key to look up in the second tier, before the origin is asked.
    pub fn tier_key(&self) -> Option<Box<[u8]>> {
        (self.tier_lookup != TierLookup::No).then(|| self.key.to_bytes())
    }

    pub(crate) fn is_authorized(&self) -> bool {
        self.headers.contains_key(AUTHORIZATION)
    }
}
