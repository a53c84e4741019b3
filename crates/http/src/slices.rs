//! Slices: bodies that are requested in ranges are stored in parts of one size, each under a key
//! and in a slot of its own (RFC 9111 §3.3, §3.4).
//!
//! ```text
//!  bytes=5000000-5000099 of an unknown object ──► request: the slice around byte 5000000
//!  206, bytes 4194304-5242879/10000000000 ──────► stored: the head of the whole (no body), and this slice
//!  later requests for any part ─────────────────► assembled from slices; missing ones are requested one by one
//! ```
//!
//! The head has the length and the *pin*: the strong validator that all slices share. RFC 9111 §3.4
//! allows the combination of parts only with it; a response without one is not sliced. The slices
//! of one head have its generation in their keys. If the head is purged or replaced, or is gone
//! from both tiers, no slice of it is ever found again, and the policies evict them. A missing
//! slice is requested with `If-Range`. If the answer is not exactly that part of that
//! representation, the answer in progress ends, and the head is removed.
//!
//! Heads and slices go to the second tier too. Those that memory has evicted are looked up there
//! before the origin is asked.
//!
//! A part that is the whole is stored as a whole. If an origin does not send the requested slice,
//! it is asked again as the client asked, and for [`limits::ALONE`] not for slices.

use crate::answer::Ready;
use crate::answer::Response;
use crate::assembly::{Assembled, Assembly, Piece, Source, TierSlice};
use crate::cache::Cache;
use crate::cache_status::CACHE_STATUS;
use crate::cache_status::CacheStatus;
use crate::collapse::{Head, Join, JoinRequest, Lead, Outcome, SliceFollower};
use crate::directives::RequestDirectives;
use crate::exchange::Ask;
use crate::fill::Fill;
use crate::freshness::Freshness;
use crate::key::Key;
use crate::range::{self, Place};
use crate::segments::Segment;
use crate::slicer::Slicer;
use crate::store::Found;
use crate::stored::{Elsewhere, Stored};
use crate::storing::{content_length, says_it_changed};
use crate::streamed::Streamed;
use crate::tier::TierHit;
use crate::vary::Selector;
use crate::{
    Answer, Exchange, ForwardReason, Now, Refusal, Reply, RequestHead, ResponseHead, Step, conditional, fields, limits,
    targeted,
};
use bytes::Bytes;
use http::header::{ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, IF_MODIFIED_SINCE, IF_NONE_MATCH};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use larder_policy::Slot;
use larder_units::Time;
use std::ops::Range;
use std::sync::Arc;

/// The description of a body that is stored in slices.
#[derive(Clone, Debug)]
pub(crate) struct Sliced {
    /// The generation in the keys of its slices.
    pub generation: u64,
    /// Bytes of the whole.
    pub length: u64,
    pub pin: Pin,
    /// Bytes of each slice but the last.
    pub slice_bytes: u64,
}

/// The strong validator of a representation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pin {
    name: HeaderName,
    pub value: HeaderValue,
}

impl Pin {
    fn of(headers: &HeaderMap) -> Option<Pin> {
        let (name, value) = conditional::strong_validator(headers)?;
        // A copy: the value may be a slice of a connection's buffer.
        Some(Pin { name, value: HeaderValue::from_bytes(value.as_bytes()).ok()? })
    }

    /// Returns the pin with the parts that [`Pin::parts`] returned.
    pub(crate) fn from_parts(name: HeaderName, value: HeaderValue) -> Pin {
        Pin { name, value }
    }

    pub(crate) fn parts(&self) -> (&HeaderName, &HeaderValue) {
        (&self.name, &self.value)
    }

    fn is_of(&self, headers: &HeaderMap) -> bool {
        headers.get(&self.name) == Some(&self.value)
    }

    /// Returns true if the fields may confirm this representation: they have the same validator, or
    /// none.
    pub(crate) fn agrees(&self, headers: &HeaderMap) -> bool {
        !headers.contains_key(&self.name) || self.is_of(headers)
    }
}

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
        if self.slice_bytes == 0 || request.method != Method::GET {
            return None;
        }
        let first = match held {
            Some(stored) => {
                stored.sliced()?;
                let reply = stored.ready(stored.headers()).reply(request.method, request.headers);
                reply.parts.map_or(reply.first, |parts| parts.parts[0].1.start)
            }
            // With a condition of the client's own, a 304 may be all that it needs.
            None if [IF_NONE_MATCH, IF_MODIFIED_SINCE].iter().any(|name| request.headers.contains_key(name)) => {
                return None;
            }
            None => range::first_byte(request.headers)
                .filter(|_| !self.in_flight_table.is_alone(unsliced(hash), now.time))?,
        };
        let start = first - first % self.slice_bytes;
        Some(start..start.checked_add(self.slice_bytes)?)
    }

    /// A fresh sliced response is stored.
    pub(crate) fn hit_slices(&mut self, slot: Slot, hash: u64, requester: Requester<'_>, now: Now) -> Step {
        self.store.engine.hit(slot, hash, now.time);
        let stored = self.store.get_mut(slot);
        stored.hit_headers(now.time);
        let stored = stored.clone();
        let Requester { key, head, only_if_cached } = requester;
        let response = stored.ready(stored.headers()).reply(head.method, head.headers);
        let mut request = head.headers.clone();
        fields::strip_hop_by_hop(&mut request);
        let passed = fields::cdn_loop_count(head.headers);
        let source = Source { key: key.into_owned(), version: head.version, stored, request, passed };
        match self.serve(source, response, now) {
            Served::AtOnce(answer) => {
                self.counters.hits += 1;
                Step::Answer(answer)
            }
            Served::Assembled(mut assembled) => {
                if self.is_stored(&assembled.body, most_looked_at(only_if_cached)) {
                    self.counters.hits += 1;
                } else if only_if_cached {
                    return self.unsatisfied(head, now);
                } else {
                    assembled.headers.insert(CACHE_STATUS, partial(&assembled.body.source.stored));
                }
                Step::Assemble(assembled)
            }
        }
    }

    /// The body of `response` from slices: at once where one that is stored holds all of it.
    pub(crate) fn serve(&mut self, source: Source, mut response: Response, now: Now) -> Served {
        if !response.has_body {
            return Served::AtOnce(response.without_body());
        }
        let mut body = Assembly::new(Arc::new(source), &mut response);
        let Response { status, headers, .. } = response;
        let one = {
            let mut content = body.content();
            let first = content.next().filter(|range| self.slice(range.start).end >= range.end);
            first.is_some() && content.next().is_none()
        };
        if one && let Some(bytes) = self.stored_piece(&mut body, now) {
            return Served::AtOnce(Answer::of(status, headers, bytes));
        }
        Served::Assembled(Assembled { status, headers, body })
    }

    /// Returns the next step of a body.
    pub fn next_piece(&mut self, assembly: &mut Assembly, now: Now) -> Piece {
        if let Some(reader) = assembly.reader.take() {
            return Piece::Read(reader);
        }
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
        let slice = self.slice_within(range.start, &assembly.source);
        let part = range.start - slice.start..range.end.min(slice.end) - slice.start;
        let (key, hash) = self.slice_key(&assembly.source.key, assembly.source.sliced(), slice.start);
        if assembly.looked_up != Some(slice.start) && self.may_be_in_tier(&key) {
            assembly.looked_up = Some(slice.start);
            return Piece::TierLookup(key.to_bytes());
        }
        let (headers, directives) = (&HeaderMap::new(), RequestDirectives::default());
        let asking =
            JoinRequest { headers, directives, reason: ForwardReason::Partial, passed: assembly.source.passed, now };
        let lead = match self.in_flight_table.join(&key, hash, &asking, true) {
            Join::Lead(own) => Some(own),
            Join::Follow(follower) => {
                self.counters.collapsed += 1;
                return Piece::Wait(SliceFollower { follower, part });
            }
            Join::Bypass => None,
        };
        self.counters.forward(ForwardReason::Partial);
        let source = &assembly.source;
        let mut exchange = Exchange::new(
            source.key.clone(),
            source.stored.hash,
            Method::GET,
            source.version,
            &self.cdn_loop,
            ForwardReason::Partial,
            now.time,
        );
        exchange.headers = source.request.clone();
        exchange.ask = Ask::Next(slice, Arc::clone(source));
        exchange.lead = lead;
        exchange.part = (part.start, Some(part.end));
        Piece::Ask(Box::new(exchange))
    }

    /// Takes the answer of the second tier to a [`Piece::TierLookup`]. Returns `None` if that is
    /// not the slice: [`Cache::next_piece`] returns the next step.
    pub fn on_tier_slice(&mut self, assembly: &mut Assembly, tier_hit: TierHit, now: Now) -> Option<TierSlice> {
        let Some(Segment::Content(range)) = assembly.segments.front() else { return None };
        let source = Arc::clone(&assembly.source);
        let slice = self.slice_within(range.start, &source);
        let part = range.start - slice.start..range.end.min(slice.end) - slice.start;
        let (key, hash) = self.slice_key(&source.key, source.sliced(), slice.start);
        let stored = self.decode_tier_hit(tier_hit, key.to_bytes(), hash, now)?;
        if !stored.is_slice() || stored.length() != slice.end - slice.start {
            return None;
        }
        self.counters.tier_hits += 1;
        self.counters.hit_bytes += part.end - part.start;
        if let Some(body) = stored.in_tier() {
            return Some(TierSlice::Streamed(Box::new(Streamed::part(body.clone(), part))));
        }
        let bytes = stored.body.slice(part.start as usize..part.end as usize);
        self.promote(stored, now);
        assembly.took(bytes.len());
        Some(TierSlice::Bytes(bytes))
    }

    /// Takes the origin's answer to a [`Piece::Ask`]. Returns `None` if that is not the slice: the
    /// body breaks off here.
    pub fn on_slice(&mut self, mut exchange: Box<Exchange>, head: ResponseHead, now: Now) -> Option<Box<Fill>> {
        let lead = exchange.lead.take();
        let Ask::Next(slice, source) = &exchange.ask else { return None };
        let ResponseHead { status, headers, .. } = head;
        let sliced = source.sliced();
        let expected = Place { part: slice.clone(), length: sliced.length };
        let fits = status == StatusCode::PARTIAL_CONTENT && sliced.pin.is_of(&headers) && is_part(&headers, &expected);
        if !fits {
            if says_it_changed(status) || matches!(status.as_u16(), 412 | 416) {
                self.discard(&source.stored);
                // If it has not changed, the origin does not send the ranges that it is asked for.
                self.in_flight_table.set_alone(unsliced(source.stored.hash), true, now.time);
            }
            self.finish(&exchange, lead);
            return None;
        }
        let says = targeted::directives(&headers, &self.targets);
        let freshness = Freshness::of(StatusCode::OK, &headers, &says, exchange.asked, now);
        let verdict = self.judge(StatusCode::OK, &headers, &says, exchange.is_authorized(), &freshness);
        if let Err(refusal) = verdict {
            self.counters.refuse(refusal);
        }
        let mut fill = self.fill_slice(source, slice, exchange.asked, verdict.is_ok(), lead, now);
        fill.part = exchange.part;
        Some(fill)
    }

    /// The origin did not answer a [`Piece::Ask`]: the body breaks off here.
    pub fn on_slice_failure(&mut self, mut exchange: Box<Exchange>) {
        self.counters.upstream_failures += 1;
        let lead = exchange.lead.take();
        self.finish(&exchange, lead);
    }

    /// Takes an origin's answer with a part. It is the requested slice and the whole body, which is
    /// stored as any other; or one slice of several; or the origin is asked again as the client
    /// asked.
    pub(crate) fn on_part(
        &mut self,
        mut exchange: Box<Exchange>,
        mut headers: HeaderMap,
        now: Now,
    ) -> Result<Reply, Whole> {
        let Ask::Slice(asked) = exchange.ask.clone() else { return Err(Whole { exchange, headers }) };
        let found = range::place(&headers).filter(|found| {
            let part = asked.start..asked.end.min(found.length);
            is_part(&headers, &Place { part, length: found.length })
        });
        let Some(Place { part, length }) = found else { return Ok(self.ask_as_client(exchange, now)) };
        headers.remove(CONTENT_RANGE);
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        if part == (0..length) {
            return Err(Whole { exchange, headers });
        }
        let Some(stored) = self.head_of(&exchange, &headers, length, now) else {
            return Ok(self.ask_as_client(exchange, now));
        };
        if !self.store.is_outdated(&stored, exchange.asked) {
            self.put_in_tier(&stored, now);
            self.store.put(stored.clone(), now.time);
        }
        if let Some(lead) = exchange.lead.take() {
            self.in_flight_table.end(exchange.hash, &lead.0);
            lead.0.finish(Outcome::Again);
        }
        let (key, hash) = self.slice_key(&exchange.key, stored.sliced().expect("it is"), part.start);
        let request = std::mem::take(&mut exchange.headers);
        let passed = fields::cdn_loop_count(&request);
        let lead = self.in_flight_table.lead(&key, hash, passed, now.time);
        let response = {
            let status = StatusCode::PARTIAL_CONTENT;
            let reason = exchange.reason;
            let forwarded =
                CacheStatus::Forwarded { reason, status: Some(status), stored: false, collapsed: false, refusal: None };
            forwarded.set(&mut headers);
            let ready = Ready {
                status: StatusCode::OK,
                headers: &headers,
                length: Some(length),
                boundary: Some(exchange.hash),
            };
            ready.reply(&Method::GET, &request)
        };
        let source = Source { key: exchange.key, version: exchange.version, stored, request, passed };
        let mut response = response;
        let mut body = Assembly::new(Arc::new(source), &mut response);
        let fill = self.fill_slice(&body.source, &part, exchange.asked, true, Some(lead), now);
        let first = body.content().next().filter(|range| part.contains(&range.start)).cloned();
        if let (Some(range), Some(Segment::Content(_))) = (first, body.segments.front()) {
            body.reader =
                fill.shared_body.body.reader(range.start - part.start, Some(range.end.min(part.end) - part.start));
        }
        let Response { status, headers, .. } = response;
        Ok(Reply::Assemble(Assembled { status, headers, body }, Some(fill)))
    }

    /// The origin has answered a request for a last part, whose position was unknown, with that
    /// part. The next request is for slices.
    pub(crate) fn learn(&mut self, exchange: &Exchange, headers: &HeaderMap, now: Now) {
        if self.slice_bytes == 0 || !matches!(exchange.ask, Ask::Whole) || exchange.held.is_some() {
            return;
        }
        let Some(Place { length, .. }) = range::place(headers) else { return };
        let mut headers = headers.clone();
        headers.remove(CONTENT_RANGE);
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        let found = self.store.find(&exchange.key, exchange.hash, &exchange.headers);
        if let (Found::Nothing | Found::OtherVariants, Some(stored)) =
            (found, self.head_of(exchange, &headers, length, now))
            && !self.store.is_outdated(&stored, exchange.asked)
        {
            self.put_in_tier(&stored, now);
            self.store.put(stored, now.time);
        }
    }

    /// The origin is asked again, as the client asked.
    pub(crate) fn ask_as_client(&mut self, mut exchange: Box<Exchange>, now: Now) -> Reply {
        self.in_flight_table.set_alone(unsliced(exchange.hash), true, now.time);
        if let Some(lead) = exchange.lead.take() {
            // What comes may be a part, of which others have nothing.
            self.in_flight_table.end(exchange.hash, &lead.0);
            lead.0.finish(Outcome::Again);
        }
        if let Some(held) = exchange.held.take() {
            // The answer was not a confirmation.
            self.discard(&held);
        }
        exchange.ask = Ask::AsClient;
        exchange.asked = now.time;
        Reply::Retry(exchange)
    }

    /// Returns the stored head of a sliced response. `None` if it may not be stored, or not in
    /// slices.
    fn head_of(&mut self, exchange: &Exchange, headers: &HeaderMap, length: u64, now: Now) -> Option<Stored> {
        let says = targeted::directives(headers, &self.targets);
        let freshness = Freshness::of(StatusCode::OK, headers, &says, exchange.asked, now);
        let verdict = self.judge(StatusCode::OK, headers, &says, exchange.is_authorized(), &freshness);
        let verdict = if exchange.may_store { verdict } else { Err(Refusal::NoStore) };
        if let Err(refusal) = verdict {
            self.counters.refuse(refusal);
            return None;
        }
        let pin = Pin::of(headers).filter(|_| length.div_ceil(self.slice_bytes) <= limits::SLICES)?;
        let selector = Selector::of(headers, &exchange.headers);
        let key = exchange.key.to_bytes();
        let mut stored = Stored::new(key, exchange.hash, selector, StatusCode::OK, headers, freshness);
        self.generations = self.generations.wrapping_add(1);
        let (generation, slice_bytes) = (self.generations, self.slice_bytes);
        stored.elsewhere = Some(Box::new(Elsewhere::Slices(Sliced { generation, length, pin, slice_bytes })));
        Some(stored)
    }

    /// Collects a slice: for the store if `stores` is set and the policy admits it, and for its
    /// readers in any case.
    fn fill_slice(
        &mut self,
        source: &Source,
        slice: &Range<u64>,
        asked: Time,
        stores: bool,
        lead: Option<Lead>,
        now: Now,
    ) -> Box<Fill> {
        let (key, hash) = self.slice_key(&source.key, source.sliced(), slice.start);
        let length = slice.end - slice.start;
        let freshness = source.stored.freshness;
        let status = StatusCode::PARTIAL_CONTENT;
        let stored = Stored::new(key.to_bytes(), hash, Selector::default(), status, &HeaderMap::new(), freshness);
        let size = stored.size(length);
        if stores {
            self.store.engine.miss(hash, now.time);
        }
        let admitted = stores && self.store.engine.admit_or_fill(hash, size, now.time);
        let mut fill = match Fill::new(stored.clone(), asked, Some(length), self.max_object, &self.budget) {
            Ok(fill) => fill,
            Err(_) => Fill::passing(stored, asked, &self.budget),
        };
        fill.unwanted |= !admitted;
        fill.is_storable = stores;
        if let Some(lead) = lead {
            let (headers, selector) = (HeaderMap::new(), Selector::default());
            let shared_body = Arc::clone(&fill.shared_body.body);
            lead.0.start(Head { status, headers, selector, freshness, length: Some(length), shared_body });
            fill.lead = Some(lead);
        }
        Box::new(fill)
    }

    /// Starts to put a body into the second tier in slices while it passes, because it is too large
    /// to be stored whole. Returns `None` if it must not be stored, if it would take too much of
    /// the tier, or if the origin does not announce ranges: a lost slice could not be fetched.
    pub(crate) fn start_slicing(
        &mut self,
        exchange: &Exchange,
        status: StatusCode,
        headers: &HeaderMap,
        length: u64,
        now: Now,
    ) -> Option<Fill> {
        let tier = self.tier.as_ref().filter(|_| self.slice_bytes > 0)?;
        let is_whole = status == StatusCode::OK && matches!(exchange.ask, Ask::Whole | Ask::AsClient);
        let is_too_long = length > tier.capacity() / limits::OBJECT_SHARE_OF_TIER;
        let has_ranges = fields::list(headers, &ACCEPT_RANGES).any(|unit| unit.eq_ignore_ascii_case(b"bytes"));
        if exchange.method != Method::GET || !is_whole || is_too_long || !has_ranges {
            return None;
        }
        if self.in_flight_table.is_alone(unsliced(exchange.hash), now.time) {
            return None;
        }
        let head = self.head_of(exchange, headers, length, now)?;
        if self.store.is_outdated(&head, exchange.asked) {
            return None;
        }
        let room = self.budget.reserve_for_tier_hit(self.slice_bytes)?;
        self.put_in_tier(&head, now);
        self.store.put(head.clone(), now.time);
        let mut fill = Fill::passing(head.clone(), exchange.asked, &self.budget);
        fill.part = (0, Some(length));
        fill.slicer = Some(Box::new(Slicer::new(exchange.key.clone(), head, room)));
        Some(fill)
    }

    /// A [`Fill::has_slices`]: puts them into the second tier. False where half of its queue is
    /// full; call it again in a moment, or [`Fill::stop_slicing`].
    pub fn on_slices_cut(&mut self, fill: &mut Fill, now: Now) -> bool {
        let Some(slicer) = &mut fill.slicer else { return true };
        while let Some((start, body)) = slicer.next_slice() {
            let waiting = self.tier.as_ref().map_or(0, |tier| tier.waiting());
            if waiting > 0 && waiting + body.len() as u64 > self.tier_queue / 2 {
                slicer.put_back(start, body);
                return false;
            }
            let (key, hash) = self.slice_key(&slicer.key, slicer.head.sliced().expect("it is"), start);
            let freshness = slicer.head.freshness;
            let (status, headers) = (StatusCode::PARTIAL_CONTENT, HeaderMap::new());
            let mut slice = Stored::new(key.to_bytes(), hash, Selector::default(), status, &headers, freshness);
            slice.set_body(body);
            if !self.put_in_tier(&slice, now) {
                slicer.stop();
            }
        }
        true
    }

    /// The next bytes, where they are stored.
    fn stored_piece(&mut self, assembly: &mut Assembly, now: Now) -> Option<Bytes> {
        let Some(Segment::Content(range)) = assembly.segments.front() else { return None };
        let slice = self.slice_within(range.start, &assembly.source);
        let part = range.start - slice.start..range.end.min(slice.end) - slice.start;
        let (key, hash) = self.slice_key(&assembly.source.key, assembly.source.sliced(), slice.start);
        let Found::Match(slot) = self.store.find(&key, hash, &HeaderMap::new()) else { return None };
        self.store.engine.hit(slot, hash, now.time);
        let bytes = self.store.get_mut(slot).body.slice(part.start as usize..part.end as usize);
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
            matches!(self.store.find(&key, hash, &HeaderMap::new()), Found::Match(_))
                || self.tier.as_ref().is_some_and(|tier| tier.has(&key.to_bytes()))
        };
        assembly.content().all(|range| {
            let starts = std::iter::successors(Some(range.start), |at| Some(self.slice(*at).end));
            starts.take_while(|at| *at < range.end).take(most).all(is_stored)
        })
    }

    /// Ends the fetch of this slice for its followers.
    fn finish(&mut self, exchange: &Exchange, lead: Option<Lead>) {
        let (Some(lead), Ask::Next(slice, source)) = (lead, &exchange.ask) else { return };
        let (_, hash) = self.slice_key(&source.key, source.sliced(), slice.start);
        self.in_flight_table.end(hash, &lead.0);
        lead.0.finish(Outcome::Failed { status: StatusCode::BAD_GATEWAY, retry_after: None });
    }

    fn slice_key(&self, key: &Key<'_>, sliced: &Sliced, at: u64) -> (Key<'static>, u64) {
        let key = key.slice(sliced.generation, at / self.slice_bytes);
        let hash = key.hash(&self.hash_key);
        (key, hash)
    }

    /// The slice around a byte, as if the body had no end.
    fn slice(&self, at: u64) -> Range<u64> {
        let start = at - at % self.slice_bytes;
        start..start.saturating_add(self.slice_bytes)
    }

    fn slice_within(&self, at: u64, source: &Source) -> Range<u64> {
        let slice = self.slice(at);
        slice.start..slice.end.min(source.sliced().length)
    }
}

/// A response that is whole after all, or that was not requested as a slice.
pub(crate) struct Whole {
    pub exchange: Box<Exchange>,
    pub headers: HeaderMap,
}

/// Returns true if the fields describe exactly this part: with another length the body would be
/// torn.
fn is_part(headers: &HeaderMap, expected: &Place) -> bool {
    let length = expected.part.end.saturating_sub(expected.part.start);
    let framed = !headers.contains_key(CONTENT_LENGTH) || content_length(headers) == Some(length);
    framed && range::place(headers).as_ref() == Some(expected)
}

pub(crate) fn partial(stored: &Stored) -> HeaderValue {
    let (reason, status, refusal) = (ForwardReason::Partial, None, None);
    stored.cache_status(CacheStatus::Forwarded { reason, status, stored: false, collapsed: false, refusal })
}

/// Returns the number of slices that are searched before an answer begins: all, if none may be
/// fetched.
pub(crate) fn most_looked_at(only_if_cached: bool) -> usize {
    if only_if_cached { usize::MAX } else { limits::SLICES_LOOKED_AT }
}

/// Returns the hash under which the cache remembers that a key must not be requested in slices.
fn unsliced(hash: u64) -> u64 {
    hash.rotate_left(32) ^ 1
}
