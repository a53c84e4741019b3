//! HTTP caching (RFC 9111) as a state machine.
//!
//! It contains a shared cache's decisions and its store, over the policy engine. It opens no
//! socket, reads no clock and parses no HTTP: `larder-proxy` does, and a test runs a day in a
//! millisecond. Read [`Cache`] first, then [`Exchange`].
//!
//! Its layers, from the lowest; each imports only from those before it:
//! * `rfc/`: the rules, one RFC's section a file; no state.
//! * `body/`: bodies while they arrive, and the budget of their memory.
//! * `store/`: stored responses, the index over the policy engine, records of the second tier.
//! * `collapse/`: requests in flight to the origin, and the requests that wait for them.
//! * `cache/`: [`Cache`], one file for each message of the host.
//!
//! ```text
//! client ── RequestHead ──► Cache::on_request ──► Step::Answer ─────────────────────► client
//!                               ├─ Step::Assemble(Assembled) ─ slices, next_piece ──► client
//!                               ├─ Step::Follow(Follower) ──── Cache::join ─────────► client
//!                               └─ Step::Forward(Exchange) ── upstream_headers ─────► origin
//! origin ── ResponseHead ─► Cache::on_response ─► Reply::Answer (304: stored) ──────► client
//!                               ├─ Reply::Retry ────────────────────────────────────► origin
//!                               └─ Reply::Relay { head, fill } ── body ─────────────► client
//!                                            ├─ Fill::push ─► SharedBody::read ─────► clients
//!                                            └─ Cache::on_complete ─────────────────► store
//! ```
//!
//! Nothing here waits or wakes. The host owns what is shared: an [`Outbox`], which names the
//! followers that have something to join after a call, and a [`SharedBody`] for each [`Fill`], from
//! which clients read the body while it arrives. An [`Exchange`], a [`Follower`] or a [`Fill`] that
//! the host gives up goes back to the cache too: [`Cache::on_abandoned`],
//! [`Cache::on_follower_left`], [`Cache::on_abort`].
//!
//! [`Cache::plain_hit`] is a shortcut for requests that need only a target, and perhaps a condition
//! or one range: the same answer, as bytes.
//!
//! # Shards
//! [`Cache::new`] makes a cache with one shard, for a host with one thread. [`Cache::shards`] makes
//! many, for a host with several, which puts each behind a lock. A [`Router`] finds the shard of a
//! request. All shards share one policy engine ([`EngineAccess`]) and one budget of bodies in
//! progress.
//!
//! # What it implements
//! RFC 9111: storing (§3, §3.1, §3.2, §3.5), parts and their combination (§3.3, §3.4;
//! `cache/slices.rs`), keys and Vary (§4, §4.1), freshness, heuristics and Age (§4.2), collapsed
//! requests (§4; `collapse/`), serving stale (§4.2.4, RFC 5861), validation (§4.3, also with HEAD),
//! invalidation (§4.4), `Cache-Control` in both directions (§5.2). RFC 9110: responses to POST that
//! are their target's page (§9.3.3), conditional requests and ranges, one or several, of responses
//! that are stored whole or in slices (§13, §14), `Via`, hop-by-hop fields. RFC 9211:
//! `Cache-Status`. RFC 9213: `CDN-Cache-Control`. RFC 8586: `CDN-Loop`. RFC 8246: `immutable`.
//!
//! # Choices that the RFCs leave open
//! * A response with `Set-Cookie` is never stored, even if its `Cache-Control` allows it: origins
//!   set lifetimes and cookies in different places (§7.3 leaves it to the origin's
//!   `Cache-Control`, and so does [`Config::share_cookies`]). A host may remove the field before it
//!   passes the response.
//! * Statuses about one request's fields, body or time (412, 416, 429, 431 and others) are never
//!   stored, because the key does not contain these.
//! * A response that varies by `X-Forwarded-For` is not stored: the host writes that field, and it
//!   differs with every client.
//! * A body that ends with its connection is stored if the connection reports no error (RFC 9112
//!   §8).
//! * `stale-while-revalidate` and `stale-if-error` with `s-maxage` count, although `s-maxage`
//!   implies `proxy-revalidate` (RFC 9111 §5.2.2.10): they address the same caches, are more
//!   specific (RFC 5861), and would have no effect otherwise. [`Config::strict_s_maxage`] selects
//!   the other reading.
//! * While an origin fails for a key, a response that may be served because of it is served at
//!   once, and the origin is tried in the background ([`limits::FAILURE_RETRY`]).
//! * `Date` in the past does not make a response older, if the response has no field of a cache
//!   (`Age`, `Via`, `Cache-Status`, `X-Cache` and others). It then shows an error of the origin's
//!   clock, and the response has just been made (RFC 9111 §4.2.3 guards against caches without
//!   `Age`).
//! * Reload and `max-age` of clients are obeyed; `max-stale` too, unless the origin forbids it.
//! * A client's own conditions go to the origin if nothing is stored, and a 304 is relayed. If a
//!   response is stored, its validators replace them, and the client's conditions are evaluated
//!   against the confirmed response.
//! * Requests whose `Accept-Encoding` have the same meaning have the same variant, independent of
//!   spelling and order (`rfc/coding/accept_encoding.rs`). A host may reduce the field to the
//!   codings that its origins use ([`Codings::reduce`]), before it passes a request.
//! * All variants of a key share one id in the engine: popularity is counted by key.
//!
//! # The public survey of HTTP caches
//! `interop/run http-survey` runs http-cache-tests 0.4.5 (npm) against a node with `share_cookies`:
//! 142 of 157 required behaviours and 76 of 86 optimal ones pass.
//! `interop/http_survey/expected.json` lists the failing ones with the reason of each: they need an
//! answer from a dead origin, contradict each other, or RFC 9111 forbids them or leaves them open.
//! Without `share_cookies`, the default, three more about `Set-Cookie` fail.
//!
//! # A second tier
//! A [`SecondTier`] is, for example, a disk of the host. Stored responses go there too, and those
//! that the store's policy refuses. A request that the store cannot answer is looked up there
//! ([`TierStep`]) before the origin is asked. A stale response there is validated before it is
//! served: only the store has stale-while-revalidate. Slices and their heads go there too, and a
//! body above `max_object` is cut into slices for it while it passes. A response without room in
//! memory is streamed from there ([`Streamed`]). The count of a purge is that of the store.
//!
//! # A third tier
//! An [`ObjectTier`] is, for example, a bucket of S3 that several caches share. A response goes
//! there when it is requested again, if it is worth its price, and a request asks it before the
//! origin ([`Cache::read_object`]).
//!
//! # What is missing
//! * A body that broke off is not kept as a part (§3.3 allows it); nor is a part that is not a
//!   slice, or has no strong validator.
//! * A slice is fetched ahead only if the host calls [`Cache::next_ahead`]. `larder-proxy` fetches
//!   up to four slices ahead of the client.
//! * Several ranges of a body that is in flight, and not stored yet, are answered with the whole
//!   body (RFC 9110 §14.2 allows it).
//! * A sliced response is validated before it is served stale (RFC 5861 §3 would allow to serve it
//!   first).
//! * Informational responses belong to the host (RFC 9110 §15.2; [`interim_fields`] selects the
//!   fields that a proxy forwards); they are not stored. `larder-proxy` sends none (`103 Early
//!   Hints`) to clients of HTTP/2: h2 0.4.20 can (`SendResponse::send_informational`), but hyper
//!   1.12, the newest, does not expose it.
//! * Trailers are discarded (§6.5.1 allows it).
//!
//! ```
//! use http::{HeaderMap, Method, StatusCode, Version};
//! use larder_http::{BodyWakes, Cache, Completion, Config, JoinResult, Now, Outbox, Read, Reply};
//! use larder_http::{RequestHead, ResponseHead, SharedBody, Step};
//! use larder_units::{ByteSize, Streams, Time};
//!
//! let config = Config {
//!     capacity: ByteSize::from_mib(64),
//!     policy: "lru".parse().unwrap(),
//!     max_object: ByteSize::from_mib(8),
//!     slice: ByteSize::from_mib(1),
//!     hash_key: [7; 16], // from the host's entropy
//!     ..Config::default()
//! };
//! let mut cache = Cache::new(&config, &Streams::new(1)).unwrap();
//! let at = |seconds| Now { time: Time::from_secs(seconds), unix_seconds: 1_700_000_000 + seconds };
//! let no_headers = HeaderMap::new();
//! let request = RequestHead {
//!     method: &Method::GET,
//!     scheme: "http",
//!     authority: "example.com",
//!     target: "/a",
//!     version: Version::HTTP_11,
//!     headers: &no_headers,
//!     has_body: false,
//!     coding: None,
//!     confirmed: None,
//! };
//!
//! // The first request goes to the origin.
//! let Step::Forward(mut exchange) = cache.on_request(&request, at(0)) else { panic!() };
//! exchange.take_headers(HeaderMap::new());
//! let _for_the_origin = exchange.upstream_headers();
//! let mut headers = HeaderMap::new();
//! headers.insert("cache-control", "max-age=60".parse().unwrap());
//! headers.insert("content-length", "5".parse().unwrap());
//! let head = ResponseHead { status: StatusCode::OK, version: Version::HTTP_11, headers };
//! // A second client asks for the same meanwhile: it follows the first one.
//! let Step::Follow(follower) = cache.on_request(&request, at(0)) else { panic!() };
//! let follower_id = follower.id();
//! let JoinResult::Wait(follower) = cache.join(follower, &no_headers) else { panic!() };
//!
//! let mut outbox = Outbox::default();
//! let reply = cache.on_response(exchange, head, at(0), &mut outbox);
//! let Reply::Relay { headers, fill: Some(mut fill), .. } = reply else { panic!() };
//! assert_eq!(headers["cache-status"], "larder; fwd=uri-miss; fwd-status=200; stored");
//! assert_eq!(outbox.woken.drain(..).collect::<Vec<_>>(), [follower_id]);
//! let JoinResult::Stream { part, .. } = cache.join(follower, &no_headers) else { panic!() };
//!
//! // Both read the body while it comes.
//! let (mut body, mut wakes) = (SharedBody::default(), BodyWakes::default());
//! let mut readers = [fill.part(), part].map(|part| body.reader(&part).unwrap());
//! fill.push(b"hello", &mut body, &mut wakes);
//! for reader in &mut readers {
//!     assert_eq!(body.read(reader, &mut wakes), Read::Bytes("hello".into()));
//! }
//! let collected = body.take_collected().map(Into::into);
//! let (completion, end) = cache.on_complete(fill, collected, at(0), &mut outbox);
//! body.finish(end, &mut wakes);
//! assert_eq!(completion, Completion::Stored);
//! assert!(readers.iter_mut().all(|reader| body.read(reader, &mut wakes) == Read::End));
//!
//! // The next one does not.
//! let Step::Answer(answer) = cache.on_request(&request, at(10)) else { panic!() };
//! assert_eq!((&answer.body[..], &answer.headers["age"]), (&b"hello"[..], &"10".parse().unwrap()));
//! assert_eq!(answer.headers["cache-status"], "larder; hit; ttl=50");
//! ```
#![forbid(unsafe_code)]

mod body;
mod cache;
mod codec;
mod collapse;
mod config;
pub mod limits;
mod now;
mod outbox;
mod rfc;
mod store;

pub use body::budget::{Budget, Reservation};
pub use body::shared_body::{
    BodyEnd, BodyId, BodyPart, BodyReader, BodyWakes, Read, ReaderId, Room, SharedBody,
};
pub use body::streamed::{RecordHandle, Streamed, StreamedPiece};
pub use cache::Cache;
pub use cache::assembly::{Assembled, Assembly, TierSlice};
pub use cache::completion::Completion;
pub use cache::counters::{COUNTERS, Counter, Counters, ShownIn};
pub use cache::exchange::{Exchange, RequestHead, ResponseHead, UpstreamFailure};
pub use cache::fill::{Fill, Pushed};
pub use cache::plain::{PlainField, PlainHit, PlainRequest};
pub use cache::steps::{Piece, Reply, Step, TierStep};
pub use cache::variants::StoredVariant;
pub use collapse::follower::{Follower, JoinResult, Joined, SliceFollower, SliceJoin};
pub use config::{ClientNoCache, Config};
pub use now::Now;
pub use outbox::{ClockBehind, FollowerId, Invalidation, Outbox};
pub use rfc::cache_status::{ForwardReason, is_of_origin, name_own_answer};
pub use rfc::coding::accept_encoding::Codings;
pub use rfc::coding::content_coding::{
    Compression, ContentCoding, MediaTypes, code_fields, names_coded_form, vary_by_coding,
    weaken_tag,
};
pub use rfc::conditional::strong_validator;
pub use rfc::fields::{
    CdnLoop, NAME, append_cdn_loop, cdn_loop_count, interim_fields, remove_own_hop,
    strip_hop_by_hop,
};
pub use rfc::key::{key_url, keyed_authority};
pub use rfc::overrides::{Overrides, ResponseRules};
pub use rfc::representation::{Selected, SelectedPiece, select};
pub use rfc::route::{Route, Router};
pub use rfc::sharing::{Sharing, sharing};
pub use rfc::storability::Refusal;
pub use store::answer::Answer;
pub use store::bans::PurgeBans;
pub use store::coded_forms::{AnswerCoding, WantedForm};
pub use store::object::{
    FreshObject, ObjectHead, ObjectTier, OfferedObject, ReadObject, object_head_bytes,
};
pub use store::policy_engine::{EngineAccess, EngineFigures, Eviction, PolicyEngine};
pub use store::purge::{Purge, Purged, Scope, Url, UrlError};
pub use store::purge_table::{Position, PurgeVerdict};

pub use store::second_tier::{SecondTier, TierHit, TierResponse};
