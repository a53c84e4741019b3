//! Slices: bodies that are requested in ranges are stored in parts of one size, each under a key
//! and in a slot of its own (RFC 9111 §3.3, §3.4).
//!
//! ```text
//!  bytes=5000000-5000099 of an unknown object ──► request: the slice around byte 5000000
//!  206, bytes 4194304-5242879/10000000000 ──────► stored: the head of the whole (no body), and this slice
//!  later requests for any part ─────────────────► assembled from slices; missing ones are requested,
//!                                                  a few ahead of the client
//! ```
//!
//! The head has the length and the *pin*: the strong validator that all slices share. RFC 9111 §3.4
//! allows to combine parts only with it; a response without one is not sliced. The slices of one
//! head have its generation in their keys. If the head is purged or replaced, or is gone from both
//! tiers, no slice of it is ever found again, and the policies evict them. A missing slice is
//! requested with `If-Range`. If the response is not exactly that part of that representation, the
//! answer in progress ends, and the head is removed.
//!
//! Heads and slices go to the second tier, too. Those that memory has evicted are looked up there
//! before the origin is asked.
//!
//! A part that is the whole body is stored as a whole. If an origin does not send the requested
//! slice, it is asked again with the client's own request, and for
//! [`HIT_FOR_MISS_DURATION`](crate::limits::HIT_FOR_MISS_DURATION) not for slices.

use crate::body::segments::Segment;
use crate::body::streamed::Streamed;
use crate::cache::Cache;
use crate::cache::assembly::{Assembled, Assembly, TierSlice};
use crate::cache::exchange::{Ask, Exchange, RequestHead};
use crate::cache::source::Source;
use crate::cache::steps::{Piece, Step};
use crate::collapse::follower::SliceFollower;
use crate::collapse::in_flight::JoinRequest;
use crate::collapse::table::{Join, Sharers};
use crate::now::Now;
use crate::outbox::Outbox;
use crate::rfc::cache_status::{CACHE_STATUS, CacheStatus, ForwardReason};
use crate::rfc::directives::RequestDirectives;
use crate::rfc::key::Key;
use crate::rfc::selection::Response;
use crate::rfc::vary::Selector;
use crate::rfc::{fields, range};
use crate::store::answer::Answer;
use crate::store::index::Found;
use crate::store::policy_engine::EntryId;
use crate::store::second_tier::TierHit;
use crate::store::sliced::Sliced;
use crate::store::stored::Stored;
use bytes::Bytes;
use http::header::{IF_MODIFIED_SINCE, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, Method};
use larder_units::Time;
use std::ops::Range;
use std::sync::Arc;

/// Slices of each range that are looked up before the head of the answer is sent, to distinguish a
/// hit from a miss: about 100 microseconds under the cache's lock. For later slices, the head may
/// state a hit although the origin is asked.
const LOOKED_UP_SLICES: usize = 256;

/// A request that slices answer.
pub(crate) struct Requester<'a> {
    pub key: Key<'a>,
    pub head: &'a RequestHead<'a>,
    pub only_if_cached: bool,
}

/// The result of an answer from slices.
pub(crate) enum Served {
    AtOnce(Answer),
    Assembled(Assembled),
}

impl Cache {
    /// Returns the slice to request for a request that the store does not answer; `held` is the
    /// response that has to be validated. `None` if the request is not for slices.
    pub(crate) fn opening(
        &self,
        request: &RequestHead<'_>,
        hash: u64,
        held: Option<&Stored>,
        now: Now,
    ) -> Option<Range<u64>> {
        if request.method != Method::GET {
            return None;
        }
        let mut slice_bytes = self.slice_bytes;
        let first = match held {
            Some(stored) => {
                slice_bytes = stored.sliced()?.slice_bytes;
                let reply = stored
                    .ready(stored.headers())
                    .reply(request.method, request.headers);
                reply
                    .parts
                    .map_or(reply.first, |parts| parts.parts[0].1.start)
            }
            // With a condition of the client's own, a 304 may suffice.
            None if slice_bytes == 0 => return None,
            None if [IF_NONE_MATCH, IF_MODIFIED_SINCE]
                .iter()
                .any(|name| request.headers.contains_key(name)) =>
            {
                return None;
            }
            None => range::first_byte(request.headers)
                .filter(|_| !self.in_flight_table.is_alone(unsliced(hash), now.time))?,
        };
        let start = first - first % slice_bytes;
        Some(start..start.checked_add(slice_bytes)?)
    }

    /// Answers from a fresh sliced response in the store.
    pub(crate) fn hit_slices(&mut self, slot: EntryId, requester: Requester<'_>, now: Now) -> Step {
        self.store.hit(slot, now.time);
        let stored = self.store.stored(slot);
        let Requester {
            key,
            head,
            only_if_cached,
        } = requester;
        let response = stored
            .ready(stored.hit_headers(now.time))
            .reply(head.method, head.headers);
        let mut request = head.headers.clone();
        fields::strip_hop_by_hop(&mut request);
        let passed = fields::cdn_loop_count(head.headers);
        let source = Source {
            key: key.into_owned(),
            version: head.version,
            stored,
            request,
            passed,
        };
        match self.serve(source, response, now) {
            Served::AtOnce(answer) => {
                self.counters.hits += 1;
                Step::Answer(answer)
            }
            Served::Assembled(mut assembled) => {
                if self.is_stored(&assembled.body, most_looked_at(only_if_cached)) {
                    self.counters.hits += 1;
                } else if only_if_cached {
                    return Step::Answer(self.unsatisfied(head, now));
                } else {
                    assembled.headers.insert(
                        CACHE_STATUS,
                        partial(&assembled.body.source.stored, now.time),
                    );
                }
                Step::Assemble(assembled)
            }
        }
    }

    /// Returns the body of `response` from slices, at once if one stored slice holds all of it.
    pub(crate) fn serve(&mut self, source: Source, mut response: Response, now: Now) -> Served {
        if !response.has_body {
            return Served::AtOnce(response.without_body());
        }
        let mut body = Assembly::new(Arc::new(source), &mut response);
        let Response {
            status, headers, ..
        } = response;
        let one = {
            let mut content = body.content();
            let first = content
                .next()
                .filter(|range| body.source.sliced().slice(range.start).end >= range.end);
            first.is_some() && content.next().is_none()
        };
        if one && let Some(bytes) = self.stored_piece(&mut body, now) {
            return Served::AtOnce(Answer::of(status, headers, bytes));
        }
        Served::Assembled(Assembled {
            status,
            headers,
            body,
        })
    }

    /// Returns the next step of a body.
    pub fn next_piece(&mut self, assembly: &mut Assembly, now: Now) -> Piece {
        let range = match assembly.segments.front() {
            None => return Piece::End,
            Some(Segment::Lines(lines)) => {
                let lines = lines.clone();
                assembly.took(lines.len());
                return Piece::Bytes(lines);
            }
            Some(Segment::Content(range)) => range.clone(),
        };
        if let Some(bytes) = self.stored_piece(assembly, now) {
            return Piece::Bytes(bytes);
        }
        let slice = slice_within(range.start, &assembly.source);
        let part = range.start - slice.start..range.end.min(slice.end) - slice.start;
        let (key, _) = self.slice_key(&assembly.source.key, assembly.source.sliced(), slice.start);
        if assembly.looked_up != Some(slice.start) && self.may_be_in_tier(&key) {
            assembly.looked_up = Some(slice.start);
            return Piece::TierLookup(key.to_bytes());
        }
        self.fetch_slice(&assembly.source, slice, part, now)
    }

    /// Returns the next slice to fetch ahead. Of the `ahead` slices after the next one, it is the
    /// first that is neither stored nor in the second tier, and for which `is_known` returns false.
    /// The piece is [`Piece::Ask`] or [`Piece::Wait`]; the number is the start of its bytes in the
    /// whole body. `None` if there is none, or if bodies in progress take more than half of their
    /// memory.
    pub fn next_ahead(
        &mut self,
        assembly: &Assembly,
        ahead: usize,
        is_known: &dyn Fn(u64) -> bool,
        now: Now,
    ) -> Option<(u64, Piece)> {
        if self.budget.is_short() {
            return None;
        }
        let source = &assembly.source;
        let slices = assembly.content().flat_map(|range| {
            let slice = |at: &u64| slice_within(*at, source);
            let starts = std::iter::successors(Some(range.start), move |at| Some(slice(at).end));
            starts
                .take_while(move |at| *at < range.end)
                .map(move |at| (at, range.end))
        });
        let slices: Vec<_> = slices.skip(1).take(ahead).collect();
        let (at, end) = slices.into_iter().find(|(at, _)| {
            let (key, hash) = self.slice_key(&source.key, source.sliced(), *at);
            let is_stored = matches!(
                self.store.find(&key, hash, &HeaderMap::new()),
                Found::Match(_)
            );
            !is_known(*at) && !is_stored && !self.may_be_in_tier(&key)
        })?;
        let slice = slice_within(at, source);
        let part = at - slice.start..end.min(slice.end) - slice.start;
        Some((at, self.fetch_slice(source, slice, part, now)))
    }

    /// Fetches a slice, or waits for another request that fetches it.
    fn fetch_slice(
        &mut self,
        source: &Arc<Source>,
        slice: Range<u64>,
        part: Range<u64>,
        now: Now,
    ) -> Piece {
        let (key, hash) = self.slice_key(&source.key, source.sliced(), slice.start);
        let (headers, directives) = (&HeaderMap::new(), RequestDirectives::default());
        let asking = JoinRequest {
            headers,
            directives,
            reason: ForwardReason::Partial,
            passed: source.passed,
            now,
        };
        let sharers = Sharers {
            key: &key,
            variant: &Selector::default(),
            hash,
        };
        let lead = match self.in_flight_table.join(sharers, &asking, true) {
            Join::Lead(own) => Some(own),
            Join::Follow(follower) => {
                self.counters.collapsed += 1;
                return Piece::Wait(SliceFollower { follower, part });
            }
            Join::Bypass => None,
        };
        self.counters.forward(ForwardReason::Partial);
        let mut exchange = Exchange::new(
            (source.key.clone(), source.stored.hash),
            self.shard,
            Method::GET,
            source.version,
            &self.cdn_loop,
            ForwardReason::Partial,
            (now.time, self.store.purges.now()),
        );
        exchange.headers = source.request.clone();
        exchange.ask = Ask::Next(slice, Arc::clone(source));
        exchange.lead = lead;
        exchange.part = (part.start, Some(part.end));
        Piece::Ask(Box::new(exchange))
    }

    /// Handles the second tier's result of a [`Piece::TierLookup`]. Returns `None` if it is not the
    /// slice: [`Cache::next_piece`] then returns the next step.
    pub fn on_tier_slice(
        &mut self,
        assembly: &mut Assembly,
        tier_hit: TierHit,
        now: Now,
        outbox: &mut Outbox,
    ) -> Option<TierSlice> {
        let Some(Segment::Content(range)) = assembly.segments.front() else {
            return None;
        };
        let source = Arc::clone(&assembly.source);
        let slice = slice_within(range.start, &source);
        let part = range.start - slice.start..range.end.min(slice.end) - slice.start;
        let (key, hash) = self.slice_key(&source.key, source.sliced(), slice.start);
        let stored = self.decode_tier_hit(tier_hit, key.to_bytes(), hash, now)?;
        if !stored.is_slice() || stored.length() != slice.end - slice.start {
            return None;
        }
        self.counters.tier_hit(part.end - part.start);
        if let Some(body) = stored.in_tier() {
            return Some(TierSlice::Streamed(Box::new(Streamed::part(
                body.clone(),
                part,
            ))));
        }
        let bytes = stored.body.slice(part.start as usize..part.end as usize);
        self.promote(stored, now);
        self.report(outbox);
        assembly.took(bytes.len());
        Some(TierSlice::Bytes(bytes))
    }

    /// Returns the next bytes if the store has them.
    fn stored_piece(&mut self, assembly: &mut Assembly, now: Now) -> Option<Bytes> {
        let Some(Segment::Content(range)) = assembly.segments.front() else {
            return None;
        };
        let slice = slice_within(range.start, &assembly.source);
        let part = range.start - slice.start..range.end.min(slice.end) - slice.start;
        let (key, hash) =
            self.slice_key(&assembly.source.key, assembly.source.sliced(), slice.start);
        let Found::Match(slot) = self.store.find(&key, hash, &HeaderMap::new()) else {
            return None;
        };
        self.store.hit(slot, now.time);
        let bytes = self
            .store
            .entry(slot)
            .body()
            .slice(part.start as usize..part.end as usize);
        assembly.took(bytes.len());
        self.counters.hit_bytes += bytes.len() as u64;
        Some(bytes)
    }

    /// Returns true if all missing parts of a body are stored, here or in the second tier. It stops
    /// at the first slice that is not, and after `most` slices of each range.
    pub(crate) fn is_stored(&self, assembly: &Assembly, most: usize) -> bool {
        let source = &assembly.source;
        let is_stored = |at: u64| {
            let (key, hash) = self.slice_key(&source.key, source.sliced(), at);
            matches!(
                self.store.find(&key, hash, &HeaderMap::new()),
                Found::Match(_)
            ) || self
                .tier
                .as_ref()
                .is_some_and(|tier| tier.has(&key.to_bytes()))
        };
        assembly.content().all(|range| {
            let starts =
                std::iter::successors(Some(range.start), |at| Some(source.sliced().slice(*at).end));
            starts
                .take_while(|at| *at < range.end)
                .take(most)
                .all(is_stored)
        })
    }

    pub(crate) fn slice_key(&self, key: &Key<'_>, sliced: &Sliced, at: u64) -> (Key<'static>, u64) {
        let key = key.slice(sliced.generation, at / sliced.slice_bytes);
        let hash = key.hash(&self.hash_key);
        (key, hash)
    }
}

fn slice_within(at: u64, source: &Source) -> Range<u64> {
    let slice = source.sliced().slice(at);
    slice.start..slice.end.min(source.sliced().length)
}

pub(crate) fn partial(stored: &Stored, now: Time) -> HeaderValue {
    let ttl_seconds = stored.freshness.ttl_seconds(now);
    stored.cache_status(CacheStatus::Partial { ttl_seconds })
}

/// Returns the number of slices that are looked up before an answer begins: all, if none may be
/// fetched.
pub(crate) fn most_looked_at(only_if_cached: bool) -> usize {
    if only_if_cached {
        usize::MAX
    } else {
        LOOKED_UP_SLICES
    }
}

/// Returns the hash under which the cache remembers that a key must not be requested in slices.
pub(crate) fn unsliced(hash: u64) -> u64 {
    hash.rotate_left(32) ^ 1
}
