//! The egress without IO: takes Interests and the origin's responses, returns Data and requests.
//!
//! Each question is answered once, and the answer is kept, so that a lost answer can be repeated
//! without a second request to the origin. Interests for a pending answer wait here.
//! [`EgressCore::on_head`] decides which answers may be shared.
//!
//! Memory is reserved before the origin gets a request for a body: all of it for a body of up to an
//! eighth of the room, otherwise a window that ends [`limits::WINDOW_SEGMENTS`] behind the furthest
//! segment that was requested. A body of unknown length is kept whole up to that eighth. When room
//! is short, entries leave in the order of [`super::reply_cache`]; without room, the answer is 503.
//!
//! Room and the places at the origin are shared by requesters ([`Requester`]): one that has more
//! than another gives way.

mod answers;
mod segments;

use super::data::{BAD_NAME, DataSigner, NO_ROOM, OwnError, TIMED_OUT, UNREACHABLE, inline_room};
use super::exchange::{Figures, OriginHead, OriginRequest, Outcome, Reply};
use super::orders::{Requester, Turn};
use super::replay_filter::ReplayFilter;
use super::reply_cache::{Form, Question, ReplyCache, State};
use crate::message::{Answer, Content, Head, Request};
use crate::naming::{self, Object, Subject};
use crate::{Trust, form, limits, request_form};
use bytes::Bytes;
use http::header::{DATE, VIA};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version};
use larder_http::{Now, Sharing, sharing};
use larder_packet::{Interest, Name, PitToken, Signer};
use larder_proxy::limits::RESPONSE;
use larder_units::Time;
use std::collections::VecDeque;
use std::time::{Duration, UNIX_EPOCH};

/// The options of an egress.
#[derive(Clone, Debug)]
pub struct EgressOptions {
    /// Bytes of answers and bodies at once.
    pub memory: usize,
    /// The longest freshness of an answer for caches on the path.
    pub shared_for: Duration,
    /// Targeted response fields for shared caches (RFC 9213).
    pub targets: Vec<HeaderName>,
    /// The same for all egresses with this key and this origin, and after a restart. No others have
    /// it: their segments must not have the same names.
    pub identity: [u8; 32],
}

/// The state of an egress. See the module's documentation.
pub struct EgressCore {
    prefix: Name,
    signer: DataSigner,
    /// The verifier of requests in full; all are accepted without one.
    asked_by: Option<Trust>,
    options: EgressOptions,
    reply_cache: ReplyCache,
    replay_filter: ReplayFilter,
    /// Bodies with bytes that may be too few for a segment.
    flushes: VecDeque<(Time, Vec<u8>)>,
    last_id: u64,
    last_version: u64,
    version_key: [u64; 2],
    housekeeping: Time,
    figures: Figures,
}

/// A consumer that waits for a Data.
#[derive(Clone, Copy)]
struct Waiter {
    /// Its PIT token (NDNLPv2).
    token: Option<PitToken>,
    /// The end of its Interest's lifetime.
    until: Time,
    /// The face by which its Interest came to the forwarder.
    face: Option<u64>,
}

impl EgressCore {
    /// Creates an egress for everything under `prefix`. Versions begin after `version`: the
    /// microseconds since 1970, so that no start repeats those of another. Unguessable versions
    /// come from `version_key`, which is random.
    pub fn new(
        prefix: Name,
        signer: Box<dyn Signer>,
        options: EgressOptions,
        version: u64,
        version_key: [u64; 2],
    ) -> EgressCore {
        let reply_cache = ReplyCache::new(options.memory);
        EgressCore {
            prefix,
            signer: DataSigner::new(signer),
            asked_by: None,
            options,
            reply_cache,
            replay_filter: ReplayFilter::new(version_key),
            flushes: VecDeque::new(),
            last_id: 0,
            last_version: version,
            version_key,
            housekeeping: Time::ZERO,
            figures: Figures::default(),
        }
    }

    /// Accepts only requests in full that are signed so: a request that was made up or altered on
    /// the path does not reach the origin.
    pub fn asked_by(self, trust: Option<Trust>) -> EgressCore {
        EgressCore {
            asked_by: trust,
            ..self
        }
    }

    /// Returns the counters.
    pub fn figures(&self) -> Figures {
        Figures {
            reserved_bytes: self.reply_cache.reserved,
            ..self.figures
        }
    }

    /// Processes an Interest from the network. `face` is the face by which it came to the
    /// forwarder, if the forwarder names it.
    pub fn on_interest(
        &mut self,
        now: Time,
        interest: &Interest<'_>,
        token: Option<PitToken>,
        face: Option<u64>,
        out: &mut Outcome,
    ) {
        let found = naming::read(self.prefix.as_name(), interest.name);
        let Some((object, subject)) =
            found.filter(|(object, _)| object.name.as_bytes().len() <= limits::NAME_BYTES)
        else {
            self.figures.not_ours += 1;
            return;
        };
        let waiter = Waiter {
            token,
            until: now + interest.lifetime_or_default(),
            face,
        };
        match subject {
            Subject::Segment { version, segment } => {
                self.on_segment(now, &object, version, segment, waiter, out)
            }
            Subject::Response | Subject::Metadata => {
                self.figures.questions += 1;
                let last_id = self.last_id;
                self.on_question(now, object, subject, interest, waiter, out);
                self.start_waiting(now, out);
                if self.last_id > last_id {
                    self.prefer_signed(now, interest.name.as_bytes(), out);
                }
            }
        }
    }

    fn on_question(
        &mut self,
        now: Time,
        object: Object,
        subject: Subject,
        interest: &Interest<'_>,
        waiter: Waiter,
        out: &mut Outcome,
    ) {
        let Waiter { token, until, face } = waiter;
        let key = interest.name.as_bytes();
        if let Some(question) = self.reply_cache.questions.get_mut(key) {
            question.last_asked = now;
            match &mut question.state {
                State::Waiting {
                    token: last,
                    until: end,
                } => (*last, *end) = (token, until),
                State::Answered {
                    wire,
                    no_cache,
                    until,
                } if *until > now => {
                    out.replies.push(Reply {
                        token,
                        wire: wire.clone(),
                        no_cache: *no_cache,
                    });
                }
                State::Answered { .. } => {
                    self.reply_cache.forget_question(&key.to_vec());
                    return self.on_question(now, object, subject, interest, waiter, out);
                }
            }
            return;
        }
        let Some((
            form,
            Request {
                method,
                mut headers,
                body,
                ..
            },
        )) = self.accepted(subject, interest)
        else {
            self.figures.not_ours += 1;
            return;
        };
        let (is_unsafe, is_head) = (!method.is_safe(), method == Method::HEAD);
        if !request_form::is_authority(&object.authority)
            || !request_form::is_target(&object.target)
        {
            return self.refuse_once(key, BAD_NAME, form, is_head, token, out);
        }
        let is_signed = form == Form::InFull && self.asked_by.is_some();
        let requester = Requester { face, is_signed };
        if !self.make_room(now, requester, limits::ANSWER_BYTES, out) {
            self.figures.no_room += 1;
            return self.refuse_once(key, NO_ROOM, form, is_head, token, out);
        }
        self.reply_cache.reserve(requester, limits::ANSWER_BYTES);
        if is_unsafe {
            self.replay_filter.note(key);
        }
        request_form::set_fields(&mut headers, &object.authority, is_signed);
        larder_http::append_cdn_loop(&mut headers, Version::HTTP_11);
        self.last_id += 1;
        let id = self.last_id;
        let state = State::Waiting { token, until };
        let (authority, target) = (object.authority.clone(), object.target.clone());
        let fields = if form == Form::Shared {
            headers.clone()
        } else {
            HeaderMap::new()
        };
        let question = Question {
            id,
            requester,
            last_asked: now,
            object,
            form,
            is_head,
            is_unsafe,
            fields,
            body: None,
            state,
        };
        self.reply_cache.questions.insert(key.to_vec(), question);
        let request = OriginRequest {
            id,
            method,
            authority,
            target,
            headers,
            body,
        };
        self.reply_cache.orders.add(now, key, requester, request);
    }

    /// Answers a new question that has to wait for a place: an ingress asks again with its
    /// signature, and then it is another requester than the strangers behind its face.
    fn prefer_signed(&mut self, now: Time, key: &[u8], out: &mut Outcome) {
        let Some(question) = self.reply_cache.questions.get(key) else {
            return;
        };
        let (id, form) = (question.id, question.form);
        if form == Form::Shared && self.asked_by.is_some() && self.reply_cache.orders.is_waiting(id)
        {
            self.ask_in_full(now, id, key, out);
        }
    }

    /// Answers a question with an error that is sent once, and not kept. Without room, an ingress
    /// that can sign asks again with its signature.
    fn refuse_once(
        &mut self,
        key: &[u8],
        error: OwnError,
        form: Form,
        is_head: bool,
        token: Option<PitToken>,
        out: &mut Outcome,
    ) {
        let wire = match form {
            Form::Metadata => self.signer.nothing(key, Duration::ZERO),
            Form::Shared if error == NO_ROOM && self.asked_by.is_some() => {
                self.signer
                    .answer(key, &Answer::InFull.encode(), Duration::ZERO)
            }
            Form::Shared | Form::InFull => self.signer.error(key, error, is_head),
        };
        out.replies.extend(wire.map(|wire| Reply {
            token,
            wire,
            no_cache: true,
        }));
    }

    // ---- Shares of the requesters ----

    /// Starts requests that wait for a place at the origin, as far as there are places.
    fn start_waiting(&mut self, now: Time, out: &mut Outcome) {
        while let Some(turn) = self.reply_cache.orders.next_turn() {
            match turn {
                Turn::Start(request) => {
                    self.figures.requests += 1;
                    out.orders.push(request);
                }
                Turn::Displace(requester) => {
                    let Some(key) = self.reply_cache.least_wanted_started(requester) else {
                        return;
                    };
                    self.displace(now, &key, out);
                }
            }
        }
    }

    /// Makes room for a requester, if need be at the cost of a larger one. Returns false if there
    /// is none.
    fn make_room(
        &mut self,
        now: Time,
        requester: Requester,
        needed: usize,
        out: &mut Outcome,
    ) -> bool {
        while !self.reply_cache.make_room(now, needed) {
            let Some(largest) = self.reply_cache.larger_than(requester, needed) else {
                return false;
            };
            let Some(key) = self.reply_cache.least_wanted(largest) else {
                return false;
            };
            self.displace(now, &key, out);
        }
        true
    }

    /// Ends the question or the body of this name, because another requester needs its place.
    fn displace(&mut self, now: Time, key: &[u8], out: &mut Outcome) {
        self.figures.displaced += 1;
        let Some(question) = self.reply_cache.questions.get(key) else {
            if let Some(body) = self.reply_cache.bodies.get_mut(key) {
                body.end(false);
            }
            self.reply_cache.forget_answers_with(key);
            self.serve_waiting(key, out);
            return self.reply_cache.forget_body(key, out);
        };
        let (id, form, is_head) = (question.id, question.form, question.is_head);
        if let State::Waiting { token, until } = question.state
            && until > now
        {
            self.refuse_once(key, NO_ROOM, form, is_head, token, out);
        }
        out.stops.push(id);
        self.reply_cache.orders.remove(id);
        self.reply_cache.forget_question(&key.to_vec());
    }

    /// Returns the request of an Interest and its form, if the origin may get it.
    fn accepted(&self, subject: Subject, interest: &Interest<'_>) -> Option<(Form, Request)> {
        let request = match subject {
            Subject::Metadata => Request {
                method: Method::GET,
                headers: HeaderMap::new(),
                body: Bytes::new(),
                unique: None,
            },
            _ if interest.check_parameters_digest().is_err() => return None,
            _ => Request::decode(interest.application_parameters.unwrap_or_default()).ok()?,
        };
        let form = match (subject, request.unique) {
            (Subject::Metadata, _) => Form::Metadata,
            (_, Some(_)) => Form::InFull,
            // A request without the number gets only what is shared.
            _ => Form::Shared,
        };
        let Request {
            method,
            headers,
            body,
            ..
        } = &request;
        if !request_form::is_method(method) {
            return None;
        }
        let is_accepted = match form {
            Form::InFull => self
                .asked_by
                .as_ref()
                .is_none_or(|trust| interest.verify(trust).is_ok()),
            _ => form::shared(method, !body.is_empty(), headers)
                .is_some_and(|fields| fields == *headers),
        };
        // The answer to a repeated unsafe request is gone, and no client waits that long: a node
        // repeats a request that it has read on the path.
        let is_repeated = !method.is_safe() && self.replay_filter.holds(interest.name.as_bytes());
        (is_accepted && !is_repeated).then_some((form, request))
    }

    /// Processes the head of the origin's response. The body comes by [`EgressCore::on_piece`], as
    /// far as it is granted.
    pub fn on_head(
        &mut self,
        now: Time,
        unix_seconds: u64,
        id: u64,
        mut head: OriginHead,
        out: &mut Outcome,
    ) {
        let Some(key) = self.reply_cache.orders.get(id).cloned() else {
            return;
        };
        let Some(question) = self.reply_cache.questions.get(&key) else {
            return;
        };
        let (form, is_head) = (question.form, question.is_head);
        head.headers.append(VIA, HeaderValue::from_static(VIA_US));
        if !head.headers.contains_key(DATE) {
            let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(unix_seconds));
            head.headers
                .extend(HeaderValue::try_from(date).ok().map(|date| (DATE, date)));
        }
        let sharing = sharing(
            head.status,
            &head.headers,
            &self.options.targets,
            Now {
                time: now,
                unix_seconds,
            },
        );
        let fresh_for = match (form, sharing) {
            (Form::InFull, _) => None,
            (Form::Metadata, Sharing::Never) => return self.refuse_metadata(now, id, &key, out),
            // The request has only a name: there is nothing to vary by.
            (Form::Metadata, Sharing::WhenValidated) => Some(Duration::ZERO),
            (Form::Metadata, _) if !form::is_enough(&head.headers) => Some(Duration::ZERO),
            (_, Sharing::For(fresh)) if form::is_enough(&head.headers) => {
                // A body that caches may name has to stay: when room is short, none is promised.
                let crowded = self.reply_cache.reserved > self.options.memory / 2;
                Some(if crowded {
                    Duration::ZERO
                } else {
                    fresh.min(self.options.shared_for)
                })
            }
            _ => return self.ask_in_full(now, id, &key, out),
        };
        // With unknown length, it is kept as a window: the part that a cache on the path names
        // might be gone.
        let is_window = head.body.is_none() && head.length.is_none() && !is_head;
        let fresh_for = fresh_for.map(|fresh| if is_window { Duration::ZERO } else { fresh });
        if form == Form::Metadata && head.status != StatusCode::OK {
            return self.refuse_metadata(now, id, &key, out);
        }
        let room = inline_room(&key, &head.headers);
        if is_head {
            head.body = Some(Bytes::new());
        }
        let fits =
            form != Form::Metadata && head.body.as_ref().is_some_and(|body| body.len() <= room);
        let content = match head.body.take_if(|_| fits) {
            Some(body) => {
                out.stops.push(id);
                self.reply_cache.orders.remove(id);
                Content::Inline(body)
            }
            None => match self.body_of(now, id, &key, &head, fresh_for, out) {
                Opened::Body(content) => content,
                Opened::TooLargeToShare => return self.ask_in_full(now, id, &key, out),
                Opened::NoRoom => return self.answer_error(now, id, &key, NO_ROOM, out),
            },
        };
        let OriginHead {
            status,
            headers,
            unframed,
            ..
        } = head;
        self.answer(
            now,
            id,
            &key,
            Head {
                status,
                headers,
                body: content,
                unframed,
            },
            fresh_for,
            out,
        );
    }

    /// Records that the origin has not answered, or not in HTTP.
    pub fn on_failure(&mut self, now: Time, id: u64, timed_out: bool, out: &mut Outcome) {
        let Some(key) = self.reply_cache.orders.get(id).cloned() else {
            return;
        };
        let error = if timed_out { TIMED_OUT } else { UNREACHABLE };
        self.answer_error(now, id, &key, error, out);
    }

    /// Adds bytes of a body.
    pub fn on_piece(&mut self, now: Time, id: u64, bytes: &[u8], out: &mut Outcome) {
        let Some(key) = self.reply_cache.orders.get(id).cloned() else {
            return;
        };
        let Some(body) = self.reply_cache.bodies.get_mut(&key) else {
            return;
        };
        if let Some(at) = body.push(now, bytes) {
            self.flushes.push_back((at, key.clone()));
        }
        if body.is_full() {
            self.reply_cache.widen(now, &key);
        }
        self.serve_waiting(&key, out);
    }

    /// Ends a body, completely or broken off. Its place at the origin is free at the next
    /// [`EgressCore::on_timeout`].
    pub fn on_end(&mut self, id: u64, is_whole: bool, out: &mut Outcome) {
        let Some(key) = self.reply_cache.orders.remove(id) else {
            return;
        };
        let Some(body) = self.reply_cache.bodies.get_mut(&key) else {
            return;
        };
        let is_whole = body.end(is_whole);
        let (requester, freed) = (body.requester(), body.shrink());
        self.reply_cache.release(requester, freed);
        if !is_whole {
            self.figures.broken += 1;
            // The next request asks the origin again; but an unsafe request is not repeated for
            // that.
            self.reply_cache.forget_answers_with(&key);
        }
        self.serve_waiting(&key, out);
    }

    /// Returns the time at which [`EgressCore::on_timeout`] has to be called.
    pub fn next_timeout(&self) -> Option<Time> {
        let flush = self.flushes.front().map(|(at, _)| *at);
        let idle = self.reply_cache.questions.is_empty() && self.reply_cache.bodies.is_empty();
        flush
            .into_iter()
            .chain((!idle).then_some(self.housekeeping))
            .min()
    }

    /// Processes the passing of time.
    pub fn on_timeout(&mut self, now: Time, out: &mut Outcome) {
        while let Some((_, key)) = self.flushes.pop_front_if(|(at, _)| *at <= now) {
            if let Some(body) = self.reply_cache.bodies.get_mut(&key) {
                body.flush(now);
                self.serve_waiting(&key, out);
            }
        }
        if now < self.housekeeping {
            return self.start_waiting(now, out);
        }
        self.housekeeping = now + limits::HOUSEKEEPING;
        self.reply_cache.sweep(now, out);
        for id in self
            .reply_cache
            .orders
            .waiting_for_longer_than(now, RESPONSE)
        {
            self.on_failure(now, id, true, out);
        }
        for key in self.reply_cache.unwanted(now) {
            self.displace(now, &key, out);
        }
        self.start_waiting(now, out);
    }
}

/// The result of a request for a body's place.
enum Opened {
    Body(Content),
    TooLargeToShare,
    NoRoom,
}

const VIA_US: &str = "1.1 larder";

#[cfg(test)]
mod tests;
