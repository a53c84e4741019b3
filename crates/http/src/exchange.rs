//! What passes between the host and the cache: heads of messages, what to do with a request, and a
//! request's way to the origin.

use crate::assembly::{Assembled, Source};
use crate::cache_status::ForwardReason;
use crate::collapse::{Follower, Lead};
use crate::fields::CdnLoop;
use crate::key::Key;
use crate::stored::Stored;
use crate::streamed::Streamed;
use crate::tier_lookup::TierLookup;
use crate::{Fill, conditional, fields};
use bytes::Bytes;
use http::header::{AUTHORIZATION, IF_RANGE, RANGE};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version};
use larder_units::Time;
use std::ops::Range;
use std::sync::Arc;

/// The head of a client's request, as the host has parsed it.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    /// The method.
    pub method: &'a Method,
    /// `http` or `https`: how the client came.
    pub scheme: &'a str,
    /// Host and port, of the target in absolute form or of the one `Host`.
    pub authority: &'a str,
    /// Path and query; empty means `/`.
    pub target: &'a str,
    /// The client's protocol version, for `Via`.
    pub version: Version,
    /// All fields, as received.
    pub headers: &'a HeaderMap,
    /// A body follows, of whatever length.
    pub has_body: bool,
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

/// What to do with a request.
#[derive(Debug)]
pub enum Step {
    /// Send this.
    Answer(Answer),
    /// Send this; its body is put together from slices.
    Assemble(Assembled),
    /// Send this, which is stale, and ask the origin beside it (RFC 5861 §3): nobody waits for what
    /// comes.
    Refresh(Answer, Box<Exchange>),
    /// Somebody is asking the origin the same: wait for what comes.
    Follow(Follower),
    /// Ask the origin, then call [`crate::Cache::on_response`] or [`crate::Cache::on_failure`];
    /// before that the second tier, if there is one and the exchange has a [`Exchange::tier_key`].
    Forward(Box<Exchange>),
}

/// A whole response.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// All fields, ready to be sent.
    pub headers: HeaderMap,
    /// The body; empty for HEAD, though `Content-Length` tells GET's.
    pub body: Bytes,
    /// What follows it: the parts of an answer with several ranges.
    pub more: Vec<Bytes>,
    /// The body instead, where it is to be read from the second tier.
    pub streamed: Option<Box<Streamed>>,
}

/// What to do with the origin's response.
#[derive(Debug)]
pub enum Reply {
    /// Send this; the origin's response had no body.
    Answer(Answer),
    /// Send this head and the origin's body.
    Relay {
        /// The status.
        status: StatusCode,
        /// All fields, ready to be sent.
        headers: HeaderMap,
        /// Where the body is worth storing: give it every piece as it passes.
        fill: Option<Box<Fill>>,
    },
    /// Send this; its body is put together from slices, of which the origin's response is one:
    /// collect it beside that.
    Assemble(Assembled, Option<Box<Fill>>),
    /// The origin confirmed something that is not stored, or sent a part that was not asked for.
    /// Ask again, with [`Exchange::retry_headers`]; it happens [`crate::limits::RETRIES`] times at
    /// most.
    Retry(Box<Exchange>),
}

/// Why there is no response from the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamFailure {
    /// No connection, or it broke before the head of the response: 502.
    Unreachable,
    /// Too slow: 504.
    TimedOut,
    /// What came is not HTTP: 502.
    Malformed,
    /// The request has come back here on its way to the origin: 508.
    Circle,
    /// The client's own body broke off on its way there: 400.
    Upload,
    /// The client sent nothing more of its own body in time: 408.
    UploadTimedOut,
    /// The response has more header fields, or larger ones, than are read: 502.
    HeadTooLarge,
}

/// A request on its way to the origin.
#[derive(Debug)]
pub struct Exchange {
    pub(crate) key: Key<'static>,
    pub(crate) hash: u64,
    pub(crate) method: Method,
    pub(crate) version: Version,
    pub(crate) cdn_loop: CdnLoop,
    pub(crate) reason: ForwardReason,
    /// When the request was sent: request_time of RFC 9111 §4.2.3.
    pub(crate) asked: Time,
    /// A GET that did not forbid to store its response.
    pub(crate) may_store: bool,
    /// The request said no-store.
    pub(crate) forbids_storing: bool,
    /// Nobody waits for the answer: the client has got what was stale.
    pub(crate) in_background: bool,
    /// The stored response that does for this request but for its age, or for a wish of the client.
    pub(crate) held: Option<Stored>,
    /// Which part of the body is asked for.
    pub(crate) ask: Ask,
    /// The client does not want what is stored unless the origin confirms it.
    pub(crate) insists: bool,
    /// Others may wait for what comes.
    pub(crate) lead: Option<Lead>,
    /// The client's fields without those of its connection.
    pub(crate) headers: HeaderMap,
    /// Of the slice that is asked for, what is read first.
    pub(crate) part: (u64, Option<u64>),
    /// The second tier is asked first.
    pub(crate) tier_lookup: TierLookup,
}

/// Which part of the body a request to the origin asks for.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    /// Where something is validated, all of it; else what the client asks for.
    Whole,
    /// This slice: nothing is known of the whole, or it is being validated.
    Slice(Range<u64>),
    /// This slice of what is known already.
    Next(Range<u64>, Arc<Source>),
    /// Exactly what the client asks for, since a slice could not be had.
    AsClient,
}

impl Ask {
    /// Puts the range in the place of the client's, and lets it count only for the representation
    /// that is known.
    fn set_range(&self, headers: &mut HeaderMap) {
        let (Ask::Slice(range) | Ask::Next(range, _)) = self else { return };
        let text = format!("bytes={}-{}", range.start, range.end - 1);
        headers.insert(RANGE, HeaderValue::try_from(text).expect("digits and a token"));
        if let Ask::Next(_, source) = self {
            headers.insert(IF_RANGE, source.sliced().pin.value.clone());
        }
    }
}

impl Exchange {
    /// Of a request that has no part in the store.
    pub(crate) fn new(
        key: Key<'static>,
        hash: u64,
        method: Method,
        version: Version,
        cdn_loop: &CdnLoop,
        reason: ForwardReason,
        asked: Time,
    ) -> Exchange {
        Exchange {
            key,
            hash,
            method,
            version,
            cdn_loop: cdn_loop.clone(),
            reason,
            asked,
            may_store: false,
            forbids_storing: false,
            in_background: false,
            held: None,
            ask: Ask::Whole,
            insists: false,
            lead: None,
            headers: HeaderMap::new(),
            part: (0, None),
            tier_lookup: TierLookup::No,
        }
    }

    /// Takes the client's header fields. Call it once, before [`Exchange::upstream_headers`].
    pub fn take_headers(&mut self, client: HeaderMap) {
        self.headers = client;
        fields::strip_hop_by_hop(&mut self.headers);
    }

    /// The header fields for the origin, each time that the request is sent to it: the client's
    /// without the connection's own, with `Via` and, where something stored is to be validated,
    /// with its validators.
    pub fn upstream_headers(&self) -> HeaderMap {
        let mut headers = self.headers.clone();
        if let Some(stored) = &self.held {
            conditional::set_validators(&mut headers, stored.headers());
        }
        let slice = matches!(self.ask, Ask::Slice(_) | Ask::Next(..));
        if (self.in_background || slice) && !self.is_validating() {
            conditional::clear(&mut headers);
        }
        self.ask.set_range(&mut headers);
        self.cdn_loop.append(&mut headers, self.version);
        headers
    }

    /// Whether others wait, or may come to wait, for what comes: then it shall come even where the
    /// client of this request has gone.
    pub fn is_shared(&self) -> bool {
        self.lead.is_some()
    }

    pub(crate) fn is_validating(&self) -> bool {
        self.held.as_ref().is_some_and(Stored::has_validator)
    }

    /// The header fields for the next attempt after [`Reply::Retry`], and for a slice
    /// ([`crate::Piece::Ask`]).
    pub fn retry_headers(&self) -> HeaderMap {
        let mut headers = self.headers.clone();
        if !matches!(self.ask, Ask::AsClient) {
            conditional::clear(&mut headers);
        }
        self.ask.set_range(&mut headers);
        self.cdn_loop.append(&mut headers, self.version);
        headers
    }

    /// Whom the request is for, as it is keyed: in small letters and without the scheme's own port.
    pub fn authority(&self) -> &str {
        self.key.authority()
    }

    /// Why the request is forwarded.
    pub fn reason(&self) -> ForwardReason {
        self.reason
    }

    pub(crate) fn is_authorized(&self) -> bool {
        self.headers.contains_key(AUTHORIZATION)
    }
}
