//! Slices from the origin, or of a body that passes: stores them, and handles responses that are
//! not slices.

use crate::body::segments::Segment;
use crate::body::shared_body::BodyPart;
use crate::cache::Cache;
use crate::cache::assembly::{Assembled, Assembly};
use crate::cache::completion::says_it_changed;
use crate::cache::exchange::{Ask, Exchange, ResponseHead};
use crate::cache::fill::Fill;
use crate::cache::slicer::Slicer;
use crate::cache::slices::unsliced;
use crate::cache::source::Source;
use crate::cache::steps::Reply;
use crate::collapse::in_flight::{Lead, Outcome};
use crate::collapse::table::Sharers;
use crate::limits;
use crate::now::Now;
use crate::outbox::Outbox;
use crate::rfc::cache_status::{CacheStatus, ForwardReason};
use crate::rfc::framing::content_length;
use crate::rfc::freshness::Freshness;
use crate::rfc::range::Place;
use crate::rfc::selection::{Ready, Response};
use crate::rfc::storability::Refusal;
use crate::rfc::vary::Selector;
use crate::rfc::{fields, range};
use crate::store::index::Found;
use crate::store::purge_table::Position;
use crate::store::sliced::{Pin, Sliced};
use crate::store::stored::{Elsewhere, Stored};
use http::header::{ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use larder_policy::observe;
use larder_units::Time;
use std::ops::Range;
use std::sync::Arc;

/// The inverse of the share of the second tier that one object may take if it is stored in slices
/// while it passes: a few such objects must not displace all others.
const OBJECT_SHARE_OF_TIER: u64 = 8;

/// A response that is complete after all, or that was not requested as a slice.
pub(crate) struct Whole {
    pub exchange: Box<Exchange>,
    pub headers: HeaderMap,
}

impl Cache {
    /// Handles the origin's response to a [`Piece::Ask`](crate::Piece::Ask). Returns `None` if it
    /// is not the requested slice: the body then breaks off.
    pub fn on_slice(
        &mut self,
        mut exchange: Box<Exchange>,
        head: ResponseHead,
        now: Now,
        outbox: &mut Outbox,
    ) -> Option<Box<Fill>> {
        let Ask::Next(slice, source) = exchange.ask.clone() else {
            self.release_followers(&mut exchange, outbox);
            return None;
        };
        let ResponseHead {
            status, headers, ..
        } = head;
        self.look_at_date(&mut exchange, &headers, now, outbox);
        let sliced = source.sliced();
        let expected = Place {
            part: slice.clone(),
            length: sliced.length,
        };
        let fits = status == StatusCode::PARTIAL_CONTENT
            && sliced.pin.is_of(&headers)
            && is_part(&headers, &expected);
        if !fits {
            if says_it_changed(status) || matches!(status.as_u16(), 412 | 416) {
                self.discard(&source.stored);
                // If it has not changed, the origin does not send the requested ranges.
                self.in_flight_table
                    .set_alone(unsliced(source.stored.hash), true, now.time);
            }
            self.fail_followers(&mut exchange, outbox);
            return None;
        }
        let says = self.says(&exchange, StatusCode::OK, &headers);
        let freshness = Freshness::of(StatusCode::OK, &headers, &says, exchange.asked, now);
        let verdict = self.judge(
            StatusCode::OK,
            &headers,
            &says,
            exchange.is_authorized(),
            &freshness,
        );
        if let Err(refusal) = verdict {
            self.counters.refuse(refusal);
        }
        let mut fill = self.fill_slice(&source, &slice, exchange.asked(), verdict.is_ok(), now);
        if let Some(lead) = exchange.lead.take() {
            self.share_slice(&mut fill, lead, outbox);
        }
        fill.part = exchange.part;
        Some(fill)
    }

    /// Handles a missing response to a [`Piece::Ask`](crate::Piece::Ask): the body breaks off.
    pub fn on_slice_failure(&mut self, mut exchange: Box<Exchange>, outbox: &mut Outbox) {
        self.counters.upstream_failures += 1;
        self.fail_followers(&mut exchange, outbox);
    }

    /// Handles a response with a part. It is the requested slice and the whole body, which is
    /// stored as any other; or one slice of several; or the origin is asked again with the client's
    /// own request.
    pub(crate) fn on_part(
        &mut self,
        mut exchange: Box<Exchange>,
        mut headers: HeaderMap,
        now: Now,
        outbox: &mut Outbox,
    ) -> Result<Reply, Whole> {
        let Ask::Slice(asked) = exchange.ask.clone() else {
            return Err(Whole { exchange, headers });
        };
        let found = range::place(&headers).filter(|found| {
            let part = asked.start..asked.end.min(found.length);
            is_part(
                &headers,
                &Place {
                    part,
                    length: found.length,
                },
            )
        });
        let Some(Place { part, length }) = found else {
            return Ok(self.ask_as_client(exchange, now, outbox));
        };
        headers.remove(CONTENT_RANGE);
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        if part == (0..length) {
            return Err(Whole { exchange, headers });
        }
        let Some(stored) = self.head_of(&exchange, &headers, length, asked.end - asked.start, now)
        else {
            return Ok(self.ask_as_client(exchange, now, outbox));
        };
        if !self.store.is_outdated(&stored, exchange.asked) {
            self.put_in_tier(&stored, now);
            self.store.put(&stored, now.time);
        }
        self.release_followers(&mut exchange, outbox);
        let asked = exchange.asked();
        let (key, hash) =
            self.slice_key(&exchange.key, stored.sliced().expect("it is"), part.start);
        let request = std::mem::take(&mut exchange.headers);
        let passed = fields::cdn_loop_count(&request);
        let sharers = Sharers {
            key: &key,
            variant: &Selector::default(),
            hash,
        };
        let lead = self.in_flight_table.lead(sharers, passed, now.time);
        let mut response = response_of(exchange.reason, headers, length, exchange.hash, &request);
        let source = Source {
            key: exchange.key,
            version: exchange.version,
            stored,
            request,
            passed,
        };
        let mut body = Assembly::new(Arc::new(source), &mut response);
        let mut fill = self.fill_slice(&body.source, &part, asked, true, now);
        self.share_slice(&mut fill, lead, outbox);
        let first = body
            .content()
            .next()
            .filter(|range| part.contains(&range.start))
            .cloned();
        if let (Some(range), Some(Segment::Content(_))) = (first, body.segments.front()) {
            let end = range.end.min(part.end) - part.start;
            body.in_progress = Some(BodyPart::range(
                fill.body(),
                range.start - part.start,
                Some(end),
            ));
        }
        let Response {
            status, headers, ..
        } = response;
        Ok(Reply::Assemble(
            Assembled {
                status,
                headers,
                body,
            },
            Some(fill),
        ))
    }

    /// Handles the origin's response to a request for a last part, whose position was unknown. The
    /// next request is for slices.
    pub(crate) fn learn(&mut self, exchange: &Exchange, headers: &HeaderMap, now: Now) {
        if self.slice_bytes == 0 || !matches!(exchange.ask, Ask::Whole) || exchange.held.is_some() {
            return;
        }
        let Some(Place { length, .. }) = range::place(headers) else {
            return;
        };
        let mut headers = headers.clone();
        headers.remove(CONTENT_RANGE);
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        let found = self
            .store
            .find(&exchange.key, exchange.hash, &exchange.headers);
        if let (Found::Nothing | Found::OtherVariants, Some(stored)) = (
            found,
            self.head_of(exchange, &headers, length, self.slice_bytes, now),
        ) && !self.store.is_outdated(&stored, exchange.asked)
        {
            self.put_in_tier(&stored, now);
            self.store.put(&stored, now.time);
        }
    }

    /// Asks the origin again, with the client's own request.
    pub(crate) fn ask_as_client(
        &mut self,
        mut exchange: Box<Exchange>,
        now: Now,
        outbox: &mut Outbox,
    ) -> Reply {
        self.in_flight_table
            .set_alone(unsliced(exchange.hash), true, now.time);
        // The response may be a part, which other requests cannot use.
        self.release_followers(&mut exchange, outbox);
        if let Some(held) = exchange.held.take() {
            // The response was no confirmation.
            self.discard(&held);
        }
        exchange.ask = Ask::AsClient;
        self.ask_again(&mut exchange, now);
        Reply::Retry(exchange)
    }

    /// Returns the stored head of a sliced response. `None` if it may not be stored, or not in
    /// slices.
    fn head_of(
        &mut self,
        exchange: &Exchange,
        headers: &HeaderMap,
        length: u64,
        slice_bytes: u64,
        now: Now,
    ) -> Option<Stored> {
        let says = self.says(exchange, StatusCode::OK, headers);
        let freshness = Freshness::of(StatusCode::OK, headers, &says, exchange.asked, now);
        let verdict = self.judge(
            StatusCode::OK,
            headers,
            &says,
            exchange.is_authorized(),
            &freshness,
        );
        let verdict = if exchange.may_store {
            verdict
        } else {
            Err(Refusal::NoStore)
        };
        if let Err(refusal) = verdict {
            self.counters.refuse(refusal);
            return None;
        }
        let pin = Pin::of(headers).filter(|_| length.div_ceil(slice_bytes) <= limits::SLICES)?;
        let selector = Selector::of(headers, &exchange.headers);
        let key = exchange.key.to_bytes();
        let stored = Stored::new(
            key,
            exchange.hash,
            selector,
            StatusCode::OK,
            headers,
            freshness,
        );
        let mut stored = stored.at(exchange.asked_at);
        self.generations = self.generations.wrapping_add(1);
        let generation = self.generations;
        stored.elsewhere = Some(Box::new(Elsewhere::Slices(Sliced {
            generation,
            length,
            pin,
            slice_bytes,
        })));
        Some(stored)
    }

    /// Collects a slice: for the store if `stores` is set and the policy admits it, and for its
    /// readers in any case.
    fn fill_slice(
        &mut self,
        source: &Source,
        slice: &Range<u64>,
        (asked, asked_at): (Time, Position),
        stores: bool,
        now: Now,
    ) -> Box<Fill> {
        let (key, hash) = self.slice_key(&source.key, source.sliced(), slice.start);
        let length = slice.end - slice.start;
        let (freshness, status) = (source.stored.freshness, StatusCode::PARTIAL_CONTENT);
        let stored = Stored::new(
            key.to_bytes(),
            hash,
            Selector::default(),
            status,
            &HeaderMap::new(),
            freshness,
        );
        let stored = stored.at(asked_at);
        let size = self.store.size_of(&stored, length);
        let admitted = stores && self.store.miss_and_admit(hash, Some(size), now.time);
        if stores {
            self.store.observe_fetched(
                &stored,
                (size, length),
                observe::Outcome::Fetched,
                now.time,
            );
        }
        let body = self.next_body();
        let mut fill = match Fill::new(
            stored.clone(),
            asked,
            Some(length),
            self.max_object,
            body,
            &self.budget,
        ) {
            Ok(fill) => fill,
            Err(_) => Fill::passing(stored, asked, body, &self.budget),
        };
        fill.unwanted |= !admitted;
        fill.is_storable = stores;
        Box::new(fill)
    }

    /// Lets followers read a slice while it arrives.
    fn share_slice(&mut self, fill: &mut Fill, lead: Lead, outbox: &mut Outbox) {
        self.in_flight_table.start(&lead, fill.head(), outbox);
        fill.lead = Some(lead);
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
        let is_whole =
            status == StatusCode::OK && matches!(exchange.ask, Ask::Whole | Ask::AsClient);
        let is_too_long = length > tier.capacity() / OBJECT_SHARE_OF_TIER;
        let has_ranges =
            fields::list(headers, &ACCEPT_RANGES).any(|unit| unit.eq_ignore_ascii_case(b"bytes"));
        if exchange.method != Method::GET || !is_whole || is_too_long || !has_ranges {
            return None;
        }
        if self
            .in_flight_table
            .is_alone(unsliced(exchange.hash), now.time)
        {
            return None;
        }
        let head = self.head_of(exchange, headers, length, self.slice_bytes, now)?;
        if self.store.is_outdated(&head, exchange.asked) {
            return None;
        }
        let room = self.budget.reserve_for_tier_hit(self.slice_bytes)?;
        self.put_in_tier(&head, now);
        self.store.put(&head, now.time);
        let mut fill = Fill::passing(head.clone(), exchange.asked, self.next_body(), &self.budget);
        fill.part = (0, Some(length));
        fill.slicer = Some(Box::new(Slicer::new(exchange.key.clone(), head, room)));
        Some(fill)
    }

    /// Stores the cut slices ([`Fill::has_slices`]) in the second tier. Returns false if half of
    /// its queue is full; call it again later, or call [`Fill::stop_slicing`].
    pub fn on_slices_cut(&mut self, fill: &mut Fill, now: Now) -> bool {
        let Some(slicer) = &mut fill.slicer else {
            return true;
        };
        while let Some((start, body)) = slicer.next_slice() {
            let waiting = self.tier.as_ref().map_or(0, |tier| tier.waiting());
            if waiting > 0 && waiting + body.len() as u64 > self.tier_queue / 2 {
                slicer.put_back(start, body);
                return false;
            }
            let (key, hash) =
                self.slice_key(&slicer.key, slicer.head.sliced().expect("it is"), start);
            let freshness = slicer.head.freshness;
            let (status, headers) = (StatusCode::PARTIAL_CONTENT, HeaderMap::new());
            let slice = Stored::new(
                key.to_bytes(),
                hash,
                Selector::default(),
                status,
                &headers,
                freshness,
            );
            let mut slice = slice.at(slicer.head.asked_at);
            slice.set_body(body);
            if !self.put_in_tier(&slice, now) {
                slicer.stop();
            }
        }
        true
    }

    /// Ends the fetch of a slice with an error for its followers.
    fn fail_followers(&mut self, exchange: &mut Exchange, outbox: &mut Outbox) {
        if let Some(lead) = exchange.lead.take() {
            let outcome = Outcome::Failed {
                status: StatusCode::BAD_GATEWAY,
                retry_after: None,
                is_of_origin: false,
            };
            self.in_flight_table.finish(lead, outcome, outbox);
        }
    }
}

/// Returns true if the fields describe exactly this part. With another length the body would be
/// corrupted.
fn is_part(headers: &HeaderMap, expected: &Place) -> bool {
    let length = expected.part.end.saturating_sub(expected.part.start);
    let framed = !headers.contains_key(CONTENT_LENGTH) || content_length(headers) == Some(length);
    framed && range::place(headers).as_ref() == Some(expected)
}

/// Returns the response to the client of the first slice: the whole object, or the client's ranges
/// of it. `seed` decides the boundary of several ranges.
fn response_of(
    reason: ForwardReason,
    mut headers: HeaderMap,
    length: u64,
    seed: u64,
    request: &HeaderMap,
) -> Response {
    let forwarded = CacheStatus::Forwarded {
        reason,
        status: Some(StatusCode::PARTIAL_CONTENT),
        stored: false,
        collapsed: false,
        refusal: None,
        object: None,
    };
    forwarded.set(&mut headers);
    let ready = Ready {
        status: StatusCode::OK,
        headers,
        length: Some(length),
        boundary: Some(seed),
    };
    ready.reply(&Method::GET, request)
}
