//! The far node without IO: what is asked, what the origin says, what is sent.
//!
//! A question is answered once and the answer kept, so that who has lost it gets it again and the origin is not asked twice; what waits for the
//! origin waits here. What answers may be given to others is decided in [`Desk::on_head`].
//!
//! Memory is reserved before the origin is asked for a body: all of it up to an eighth of the room, else a window that ends
//! [`limits::WINDOW_SEGMENTS`] behind the furthest segment that was asked for. One of unknown length is kept whole as long as it is no longer than that eighth.
//! Where room is short, what nobody is promised goes first, then the oldest answers to what may be asked twice, then
//! those to what may not: who has lost such a one asks in vain, since it is not made again. Without room, the answer is 503.

use super::body::{Body, Found};
use super::exchange::{Figures, Order, OriginHead, Outcome, Reply};
use super::made::Made;
use crate::pair::message::{self, Answer, Content, Head, Request};
use crate::pair::naming::{self, Object, Subject};
use crate::pair::{form, limits};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, DATE, RETRY_AFTER, VIA};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version};
use larder_http::{Now, Sharing, sharing};
use larder_packet::{DataBuilder, Interest, Name, PitToken, Signer, types};
use larder_transfer::Metadata;
use larder_units::Time;
use siphasher::sip::SipHasher13;
use std::collections::{HashMap, VecDeque};
use std::hash::Hasher;
use std::time::{Duration, UNIX_EPOCH};

/// How a far node answers.
#[derive(Clone, Debug)]
pub struct DeskOptions {
    /// Bytes of answers and bodies at once.
    pub memory: usize,
    /// The longest freshness of an answer for caches on the way.
    pub shared_for: Duration,
    /// Response fields that speak to shared caches (RFC 9213).
    pub targets: Vec<HeaderName>,
}

/// What is asked and answered. See the module's documentation.
pub struct Desk {
    prefix: Name,
    signer: Box<dyn Signer>,
    options: DeskOptions,
    /// By the question's name.
    questions: HashMap<Vec<u8>, Question>,
    /// By their versioned names.
    bodies: HashMap<Vec<u8>, Body>,
    /// The question or the body that an order is for.
    orders: HashMap<u64, Vec<u8>>,
    /// Answers that may be let go for others, the oldest first, and until when each is kept; some have gone already.
    answered: VecDeque<(Time, Vec<u8>)>,
    /// The same of requests that must not be made twice: these go last.
    answered_once: VecDeque<(Time, Vec<u8>)>,
    made: Made,
    /// Bodies with bytes that may be too few for a segment.
    flushes: VecDeque<(Time, Vec<u8>)>,
    last_id: u64,
    last_version: u64,
    version_key: [u64; 2],
    reserved: usize,
    housekeeping: Time,
    figures: Figures,
}

struct Question {
    object: Object,
    form: Form,
    is_head: bool,
    /// It must not be made twice.
    is_unsafe: bool,
    state: State,
}

enum State {
    /// The origin has not answered. Who asks is one neighbour, this node's forwarder: the last Interest counts.
    Waiting {
        token: Option<PitToken>,
        until: Time,
    },
    Answered {
        wire: Bytes,
        no_cache: bool,
        until: Time,
    },
}

#[derive(Clone, Copy, PartialEq)]
enum Form {
    Shared,
    InFull,
    Metadata,
}

impl Desk {
    /// Answers for everything under `prefix`. Versions begin behind `version`: the microseconds since 1970, so that no start repeats another's.
    /// `version_key` is random: from it come the versions that nobody shall guess.
    pub fn new(
        prefix: Name,
        signer: Box<dyn Signer>,
        options: DeskOptions,
        version: u64,
        version_key: [u64; 2],
    ) -> Desk {
        Desk {
            prefix,
            signer,
            options,
            questions: HashMap::new(),
            bodies: HashMap::new(),
            orders: HashMap::new(),
            answered: VecDeque::new(),
            answered_once: VecDeque::new(),
            made: Made::new(version_key),
            flushes: VecDeque::new(),
            last_id: 0,
            last_version: version,
            version_key,
            reserved: 0,
            housekeeping: Time::ZERO,
            figures: Figures::default(),
        }
    }

    /// What has happened so far.
    pub fn figures(&self) -> Figures {
        Figures { reserved_bytes: self.reserved, ..self.figures }
    }

    /// Takes an Interest from the network.
    pub fn on_interest(&mut self, now: Time, interest: &Interest<'_>, token: Option<PitToken>, out: &mut Outcome) {
        let found = naming::read(self.prefix.as_name(), interest.name);
        let Some((object, subject)) = found.filter(|(object, _)| object.name.as_bytes().len() <= limits::NAME_BYTES)
        else {
            self.figures.not_ours += 1;
            return;
        };
        let until = now + interest.lifetime_or_default();
        match subject {
            Subject::Segment { version, segment } => self.on_segment(now, &object, version, segment, token, until, out),
            Subject::Response | Subject::Metadata => {
                self.figures.questions += 1;
                self.on_question(now, object, subject, interest, token, until, out);
            }
        }
    }

    #[allow(clippy::too_many_arguments, reason = "an Interest, taken apart")]
    fn on_question(
        &mut self,
        now: Time,
        object: Object,
        subject: Subject,
        interest: &Interest<'_>,
        token: Option<PitToken>,
        until: Time,
        out: &mut Outcome,
    ) {
        let key = interest.name.as_bytes();
        if let Some(question) = self.questions.get_mut(key) {
            match &mut question.state {
                State::Waiting { token: last, until: end } => (*last, *end) = (token, until),
                State::Answered { wire, no_cache, until } if *until > now => {
                    out.replies.push(Reply { token, wire: wire.clone(), no_cache: *no_cache });
                }
                State::Answered { .. } => {
                    self.forget_question(&key.to_vec());
                    return self.on_question(now, object, subject, interest, token, until, out);
                }
            }
            return;
        }
        let request = match subject {
            Subject::Metadata => {
                Some(Request { method: Method::GET, headers: HeaderMap::new(), body: Bytes::new(), unique: None })
            }
            _ if interest.check_parameters_digest().is_err() => None,
            _ => Request::decode(interest.application_parameters.unwrap_or_default()).ok(),
        };
        let Some(Request { method, mut headers, body, unique }) = request else {
            self.figures.not_ours += 1;
            return;
        };
        let form = match (subject, unique) {
            (Subject::Metadata, _) => Form::Metadata,
            (_, Some(_)) => Form::InFull,
            // Whoever leaves out the number may ask for what is everybody's alone.
            _ => Form::Shared,
        };
        let is_shared = form != Form::InFull;
        let is_unsafe = !method.is_safe();
        if is_shared && form::shared(&method, !body.is_empty(), &headers).is_none_or(|fields| fields != headers) {
            self.figures.not_ours += 1;
            return;
        }
        if is_unsafe && self.made.holds(key) {
            // Its answer is gone, and nobody waits for it so long: somebody repeats what he has read on the way.
            self.figures.not_ours += 1;
            return;
        }
        let is_head = method == Method::HEAD;
        if !self.make_room(now, limits::ANSWER_BYTES) {
            self.figures.no_room += 1;
            // Said once, and not kept.
            let wire = self.build_error(key, NO_ROOM, is_head).filter(|_| form != Form::Metadata);
            out.replies.extend(wire.map(|wire| Reply { token, wire, no_cache: true }));
            return;
        }
        self.reserved += limits::ANSWER_BYTES;
        if is_unsafe {
            self.made.note(key);
        }
        message::strip_connection(&mut headers);
        larder_http::append_passage(&mut headers, Version::HTTP_11);
        self.last_id += 1;
        let id = self.last_id;
        let state = State::Waiting { token, until };
        let (authority, target) = (object.authority.clone(), object.target.clone());
        self.questions.insert(key.to_vec(), Question { object, form, is_head, is_unsafe, state });
        self.orders.insert(id, key.to_vec());
        self.figures.requests += 1;
        out.orders.push(Order { id, method, authority, target, headers, body });
    }

    /// The origin has answered; what is to come of the body comes by [`Desk::on_piece`], as far as it is granted.
    pub fn on_head(&mut self, now: Time, unix_seconds: u64, id: u64, mut head: OriginHead, out: &mut Outcome) {
        let Some(key) = self.orders.get(&id).cloned() else { return };
        let Some(question) = self.questions.get(&key) else { return };
        let (form, is_head) = (question.form, question.is_head);
        head.headers.append(VIA, HeaderValue::from_static(VIA_US));
        if !head.headers.contains_key(DATE) {
            let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(unix_seconds));
            head.headers.extend(HeaderValue::try_from(date).ok().map(|date| (DATE, date)));
        }
        let sharing = sharing(head.status, &head.headers, &self.options.targets, Now { time: now, unix_seconds });
        let fresh_for = match (form, sharing) {
            (Form::InFull, _) => None,
            (Form::Metadata, Sharing::Never) => return self.refuse_metadata(now, id, &key, out),
            // The name alone is all that is asked by: there is nothing to vary by.
            (Form::Metadata, Sharing::WhenValidated) => Some(Duration::ZERO),
            (Form::Metadata, _) if !form::is_enough(&head.headers) => Some(Duration::ZERO),
            (_, Sharing::For(fresh)) if form::is_enough(&head.headers) => {
                // What caches may name has to stay: where room is short, nothing is promised.
                let crowded = self.reserved > self.options.memory / 2;
                Some(if crowded { Duration::ZERO } else { fresh.min(self.options.shared_for) })
            }
            _ => return self.ask_in_full(now, id, &key, out),
        };
        // Of unknown length, it is kept as a window: what a cache on the way named might be gone.
        let is_window = head.body.is_none() && head.length.is_none() && !is_head;
        let fresh_for = fresh_for.map(|fresh| if is_window { Duration::ZERO } else { fresh });
        if form == Form::Metadata && head.status != StatusCode::OK {
            return self.refuse_metadata(now, id, &key, out);
        }
        let room = inline_room(&key, &head.headers);
        if is_head {
            head.body = Some(Bytes::new());
        }
        let fits = form != Form::Metadata && head.body.as_ref().is_some_and(|body| body.len() <= room);
        let content = match head.body.take_if(|_| fits) {
            Some(body) => {
                out.stops.push(id);
                self.orders.remove(&id);
                Content::Inline(body)
            }
            None => match self.open_body(now, id, &key, &head, fresh_for, out) {
                Opened::Body(content) => content,
                Opened::TooLargeToShare => return self.ask_in_full(now, id, &key, out),
                Opened::NoRoom => return self.answer_error(now, id, &key, NO_ROOM, out),
            },
        };
        let OriginHead { status, headers, unframed, .. } = head;
        self.answer(now, id, &key, Head { status, headers, body: content, unframed }, fresh_for, out);
    }

    /// The origin has not answered, or not in HTTP.
    pub fn on_failure(&mut self, now: Time, id: u64, timed_out: bool, out: &mut Outcome) {
        let Some(key) = self.orders.get(&id).cloned() else { return };
        let error = if timed_out { TIMED_OUT } else { UNREACHABLE };
        self.answer_error(now, id, &key, error, out);
    }

    /// Bytes of a body.
    pub fn on_piece(&mut self, now: Time, id: u64, bytes: &[u8], out: &mut Outcome) {
        let Some(key) = self.orders.get(&id).cloned() else { return };
        let Some(body) = self.bodies.get_mut(&key) else { return };
        if let Some(at) = body.push(now, bytes) {
            self.flushes.push_back((at, key.clone()));
        }
        if body.is_full() {
            self.widen(now, &key);
        }
        self.serve_waiting(&key, out);
    }

    /// A body has ended, or broken off.
    pub fn on_end(&mut self, id: u64, is_whole: bool, out: &mut Outcome) {
        let Some(key) = self.orders.remove(&id) else { return };
        let Some(body) = self.bodies.get_mut(&key) else { return };
        let is_whole = body.end(is_whole);
        self.reserved -= body.shrink();
        let question = body.question().to_vec();
        if !is_whole {
            self.figures.broken += 1;
            // Who asks next asks the origin again; but an order is not made twice for that.
            if self.questions.get(&question).is_some_and(|question| !question.is_unsafe) {
                self.forget_question(&question);
            }
        }
        self.serve_waiting(&key, out);
    }

    /// When [`Desk::on_timeout`] is to be called, if nothing else happens before.
    pub fn next_timeout(&self) -> Option<Time> {
        let flush = self.flushes.front().map(|(at, _)| *at);
        let idle = self.questions.is_empty() && self.bodies.is_empty();
        flush.into_iter().chain((!idle).then_some(self.housekeeping)).min()
    }

    /// Takes the passing of time.
    pub fn on_timeout(&mut self, now: Time, out: &mut Outcome) {
        while let Some((_, key)) = self.flushes.pop_front_if(|(at, _)| *at <= now) {
            if let Some(body) = self.bodies.get_mut(&key) {
                body.flush(now);
                self.serve_waiting(&key, out);
            }
        }
        if now < self.housekeeping {
            return;
        }
        self.housekeeping = now + limits::HOUSEKEEPING;
        let past = |question: &Question| matches!(question.state, State::Answered { until, .. } if until <= now);
        let old: Vec<_> =
            self.questions.iter().filter(|(_, question)| past(question)).map(|(key, _)| key.clone()).collect();
        old.iter().for_each(|key| self.forget_question(key));
        for answers in [&mut self.answered, &mut self.answered_once] {
            answers.retain(|(until, key)| is_answered(&self.questions, key, *until));
        }
        let old: Vec<_> =
            self.bodies.iter().filter(|(_, body)| body.is_past(now)).map(|(key, _)| key.clone()).collect();
        old.iter().for_each(|key| self.forget_body(key, out));
    }

    // ---- Answers ----

    /// Makes place for the segments of a body; the order is the body's from now on.
    fn open_body(
        &mut self,
        now: Time,
        id: u64,
        key: &[u8],
        head: &OriginHead,
        fresh_for: Option<Duration>,
        out: &mut Outcome,
    ) -> Opened {
        let Some(object) = self.questions.get(key).map(|question| question.object.clone()) else {
            return Opened::NoRoom;
        };
        let length = head.body.as_ref().map(|body| body.len() as u64).or(head.length);
        let (window, most) = (Body::window_bytes(), self.options.memory / 8);
        let whole = length.and_then(|length| usize::try_from(length).ok()).filter(|length| *length <= most);
        if fresh_for.is_some() && whole.is_none() && length.is_some() {
            return Opened::TooLargeToShare;
        }
        let needed = whole.unwrap_or(window);
        if !self.make_room(now, needed) {
            self.figures.no_room += 1;
            return Opened::NoRoom;
        }
        self.reserved += needed;
        // Of unknown length, it may turn out to be short.
        let is_whole = whole.is_some() || length.is_none();
        let version = self.next_version(fresh_for.is_some());
        let name = object.versioned(version);
        let segment_bytes = segment_bytes(&name);
        let mut body = Body::new(id, name, key, segment_bytes, length, is_whole, needed, fresh_for, now);
        let versioned = body.name().as_bytes().to_vec();
        if let Some(bytes) = &head.body {
            body.push(now, bytes);
            body.end(true);
            self.orders.remove(&id);
            out.stops.push(id);
        } else {
            self.orders.insert(id, versioned.clone());
            out.grants.extend(body.grant().map(|bytes| (id, bytes)));
        }
        self.bodies.insert(versioned, body);
        Opened::Body(Content::Segments { version, length })
    }

    /// Whoever knows a body's name may fetch it: that of one client's response is told in its head alone, whose own name nobody guesses.
    fn next_version(&mut self, is_shared: bool) -> u64 {
        self.last_version += 1;
        if is_shared {
            return self.last_version;
        }
        let [key, other] = self.version_key;
        let mut hasher = SipHasher13::new_with_keys(key, other);
        hasher.write_u64(self.last_version);
        hasher.finish()
    }

    fn answer(&mut self, now: Time, id: u64, key: &[u8], head: Head, fresh_for: Option<Duration>, out: &mut Outcome) {
        let is_metadata = self.questions.get(key).is_some_and(|question| question.form == Form::Metadata);
        let built = if is_metadata {
            self.build_metadata(key, &head.body)
        } else {
            let content = Answer::Head(head).encode();
            self.build(key, &content, fresh_for.unwrap_or_default(), None)
        };
        match built {
            Some(wire) if wire.len() <= limits::MAX_PACKET_BYTES => {
                self.figures.answers[usize::from(fresh_for.is_none())] += 1;
                let kept = fresh_for.unwrap_or_default().max(limits::ANSWER_KEPT_SHARED);
                let kept = if fresh_for.is_some() { kept } else { limits::ANSWER_KEPT };
                self.settle(now, key, wire, fresh_for.is_none(), kept, out);
            }
            _ => {
                // The body, where one was begun, is nobody's.
                if let Some(versioned) = self.orders.get(&id).cloned() {
                    self.forget_body(&versioned, out);
                }
                self.answer_error(now, id, key, HEAD_TOO_LARGE, out);
            }
        }
    }

    /// An error of our own.
    fn answer_error(&mut self, now: Time, id: u64, key: &[u8], error: (StatusCode, &'static str), out: &mut Outcome) {
        out.stops.push(id);
        self.orders.remove(&id);
        let Some(question) = self.questions.get(key) else { return };
        if question.form == Form::Metadata {
            return self.refuse_metadata(now, id, key, out);
        }
        let no_cache = question.form == Form::InFull;
        if let Some(wire) = self.build_error(key, error, question.is_head) {
            self.settle(now, key, wire, no_cache, limits::ANSWER_KEPT_SHARED, out);
        }
    }

    fn build_error(&self, key: &[u8], (status, line): (StatusCode, &'static str), is_head: bool) -> Option<Bytes> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(line.len()));
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        let text = if is_head { Bytes::new() } else { Bytes::from_static(line.as_bytes()) };
        let head = Head { status, headers, body: Content::Inline(text), unframed: false };
        self.build(key, &Answer::Head(head).encode(), Duration::ZERO, None)
    }

    fn ask_in_full(&mut self, now: Time, id: u64, key: &[u8], out: &mut Outcome) {
        out.stops.push(id);
        self.orders.remove(&id);
        self.figures.answers[2] += 1;
        if let Some(wire) = self.build(key, &Answer::InFull.encode(), limits::IN_FULL_FRESHNESS, None) {
            self.settle(now, key, wire, false, limits::ANSWER_KEPT_SHARED, out);
        }
    }

    /// There is nothing that a name alone may fetch.
    fn refuse_metadata(&mut self, now: Time, id: u64, key: &[u8], out: &mut Outcome) {
        out.stops.push(id);
        self.orders.remove(&id);
        if let Some(wire) = self.build(key, &[], limits::METADATA_FRESHNESS, Some(types::CONTENT_NACK)) {
            self.settle(now, key, wire, false, limits::METADATA_FRESHNESS, out);
        }
    }

    fn build_metadata(&self, key: &[u8], content: &Content) -> Option<Bytes> {
        let Content::Segments { version, length } = content else { return None };
        let question = self.questions.get(key)?;
        let versioned = question.object.versioned(*version);
        let segment_bytes = segment_bytes(&versioned) as u64;
        let metadata = Metadata {
            name: versioned,
            last_segment: length.map(|length| length.div_ceil(segment_bytes).max(1) - 1),
            segment_bytes: length.map(|_| segment_bytes),
            size_bytes: *length,
            ..Metadata::default()
        };
        let mut content = Vec::new();
        metadata.encode(&mut content);
        let mut name = question.object.name.clone();
        name.push_keyword(larder_transfer::METADATA_KEYWORD).push_version(*version).push_segment(0);
        let data = DataBuilder::new(&name).freshness(limits::METADATA_FRESHNESS).content(&content);
        data.build(self.signer.as_ref()).ok().map(Bytes::from)
    }

    fn build(&self, key: &[u8], content: &[u8], fresh: Duration, content_type: Option<u64>) -> Option<Bytes> {
        let name = larder_packet::NameRef::from_value(key).ok()?;
        let mut data = DataBuilder::new(name).content(content);
        if !fresh.is_zero() {
            data = data.freshness(fresh);
        }
        if let Some(content_type) = content_type {
            data = data.content_type(content_type);
        }
        data.build(self.signer.as_ref()).ok().map(Bytes::from)
    }

    /// Sends an answer to who waits, and keeps it.
    fn settle(&mut self, now: Time, key: &[u8], wire: Bytes, no_cache: bool, kept: Duration, out: &mut Outcome) {
        let Some(question) = self.questions.get_mut(key) else { return };
        let kept = if question.is_unsafe { limits::ANSWER_TO_UNSAFE_KEPT } else { kept };
        if let State::Waiting { token, until } = question.state
            && until > now
        {
            out.replies.push(Reply { token, wire: wire.clone(), no_cache });
        }
        let until = now + kept;
        question.state = State::Answered { wire, no_cache, until };
        let answers = if question.is_unsafe { &mut self.answered_once } else { &mut self.answered };
        answers.push_back((until, key.to_vec()));
    }

    // ---- Segments ----

    #[allow(clippy::too_many_arguments, reason = "an Interest, taken apart")]
    fn on_segment(
        &mut self,
        now: Time,
        object: &Object,
        version: u64,
        segment: u64,
        token: Option<PitToken>,
        until: Time,
        out: &mut Outcome,
    ) {
        let name = object.versioned(version);
        let Some(body) = self.bodies.get_mut(name.as_bytes()) else {
            self.figures.gone += 1;
            return self.say_gone(name, segment, token, out);
        };
        match body.ask(now, segment) {
            Found::Here => {
                let reply = body.data(segment, self.signer.as_ref()).map(|wire| Reply {
                    token,
                    wire,
                    no_cache: body.no_cache(),
                });
                self.figures.segments += u64::from(reply.is_some());
                out.replies.extend(reply);
            }
            Found::NotYet => body.wait(segment, token, until),
            Found::PastEnd => {}
            Found::Gone => {
                self.figures.gone += 1;
                self.say_gone(name.clone(), segment, token, out);
            }
        }
        let Some(body) = self.bodies.get_mut(name.as_bytes()) else { return };
        out.grants.extend(body.grant().map(|bytes| (body.id(), bytes)));
        if body.is_shared_no_more() {
            let question = body.question().to_vec();
            self.forget_question(&question);
        }
    }

    /// Who hears that a segment will not come need not wait for it.
    fn say_gone(&self, mut name: Name, segment: u64, token: Option<PitToken>, out: &mut Outcome) {
        name.push_segment(segment);
        let data = DataBuilder::new(&name).content_type(types::CONTENT_NACK).build(self.signer.as_ref());
        out.replies.extend(data.ok().map(|wire| Reply { token, wire: Bytes::from(wire), no_cache: true }));
    }

    fn serve_waiting(&mut self, key: &[u8], out: &mut Outcome) {
        let Some(body) = self.bodies.get_mut(key) else { return };
        let (mut sent, mut gone) = (0, Vec::new());
        while let Some((segment, token, found)) = body.next_waiting() {
            match found {
                Found::Here => {
                    let wire = body.data(segment, self.signer.as_ref());
                    out.replies.extend(wire.map(|wire| Reply { token, wire, no_cache: body.no_cache() }));
                    sent += 1;
                }
                Found::Gone => gone.push((segment, token)),
                Found::NotYet | Found::PastEnd => {}
            }
        }
        body.trim();
        self.figures.segments += sent;
        let name = body.name().clone();
        gone.into_iter().for_each(|(segment, token)| self.say_gone(name.clone(), segment, token, out));
    }

    // ---- Room ----

    /// Lets go what nobody is promised any more, and then answers, until there is room for so many bytes; false where there is not.
    fn make_room(&mut self, now: Time, needed: usize) -> bool {
        if self.has_room(needed) {
            return true;
        }
        let mut idle: Vec<(Time, Vec<u8>)> = self
            .bodies
            .iter()
            .filter_map(|(key, body)| body.idle_since(now).map(|since| (since, key.clone())))
            .collect();
        idle.sort_unstable();
        for (_, key) in idle {
            if self.has_room(needed) {
                return true;
            }
            self.forget_body(&key, &mut Outcome::default());
        }
        while !self.has_room(needed) {
            let oldest = self.answered.pop_front().or_else(|| self.answered_once.pop_front());
            let Some((until, key)) = oldest else { return false };
            if is_answered(&self.questions, &key, until) {
                self.forget_question(&key);
            }
        }
        true
    }

    fn has_room(&self, needed: usize) -> bool {
        self.reserved + needed <= self.options.memory
    }

    /// A body of unknown length has come to the end of its room: it gets more, or becomes a window.
    fn widen(&mut self, now: Time, key: &[u8]) {
        let Some(reserved) = self.bodies.get(key).map(Body::reserved) else { return };
        let more = Body::window_bytes();
        let gets = reserved + more <= self.options.memory / 8 && self.make_room(now, more);
        let Some(body) = self.bodies.get_mut(key) else { return };
        if gets {
            body.widen(more);
            self.reserved += more;
        } else {
            self.reserved -= body.become_window();
        }
    }

    fn forget_question(&mut self, key: &Vec<u8>) {
        if self.questions.remove(key).is_some() {
            self.reserved -= limits::ANSWER_BYTES;
        }
    }

    fn forget_body(&mut self, key: &[u8], out: &mut Outcome) {
        let Some(body) = self.bodies.remove(key) else { return };
        self.reserved -= body.reserved();
        if self.orders.remove(&body.id()).is_some() {
            out.stops.push(body.id());
        }
    }
}

/// Whether the answer that is kept so long is there still: the question may have been asked anew since.
fn is_answered(questions: &HashMap<Vec<u8>, Question>, key: &[u8], kept: Time) -> bool {
    matches!(questions.get(key), Some(Question { state: State::Answered { until, .. }, .. }) if *until == kept)
}

/// What became of the wish for a body's place.
enum Opened {
    Body(Content),
    TooLargeToShare,
    NoRoom,
}

const VIA_US: &str = "1.1 larder";

const NO_ROOM: (StatusCode, &str) =
    (StatusCode::SERVICE_UNAVAILABLE, "larder: the far node has no room for another response\n");
const TIMED_OUT: (StatusCode, &str) =
    (StatusCode::GATEWAY_TIMEOUT, "larder: the origin does not answer the far node\n");
const UNREACHABLE: (StatusCode, &str) = (StatusCode::BAD_GATEWAY, "larder: the far node does not reach the origin\n");
const HEAD_TOO_LARGE: (StatusCode, &str) =
    (StatusCode::BAD_GATEWAY, "larder: the fields of the origin's response do not fit a Data\n");

/// Bytes of body for which an answer has room.
fn inline_room(key: &[u8], headers: &HeaderMap) -> usize {
    // A field takes four bytes beside its name and value, or eight where it is long.
    let fields: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 8).sum();
    limits::MAX_PACKET_BYTES.saturating_sub(limits::OVERHEAD_BYTES + key.len() * 2 + fields).min(limits::SEGMENT_BYTES)
}

/// Bytes of a segment under this name: the key's name, which stands in every packet, is shorter than the object's and 16 bytes.
fn segment_bytes(name: &Name) -> usize {
    let names = 2 * name.as_bytes().len() + 32;
    (limits::MAX_PACKET_BYTES - limits::OVERHEAD_BYTES).saturating_sub(names).clamp(1, limits::SEGMENT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_packet::{DigestSigner, InterestBuilder};

    fn desk() -> Desk {
        let options = DeskOptions { memory: 64 << 20, shared_for: Duration::ZERO, targets: Vec::new() };
        Desk::new("/far".parse().unwrap(), Box::new(DigestSigner), options, 1, [1, 2])
    }

    fn question(method: Method, unique: u64) -> Vec<u8> {
        let object = Object::new("/far".parse::<Name>().unwrap().as_name(), "a", "/order").unwrap();
        let request = Request { method, headers: HeaderMap::new(), body: Bytes::new(), unique: Some(unique) };
        InterestBuilder::new(object.question()).nonce(1).application_parameters(&request.encode()).build()
    }

    /// Whether the origin is asked, and answers.
    fn is_made(desk: &mut Desk, now: Time, wire: &[u8]) -> bool {
        let mut out = Outcome::default();
        desk.on_interest(now, &Interest::decode(wire).unwrap(), None, &mut out);
        let Some(order) = out.orders.pop() else { return false };
        let head = OriginHead {
            status: StatusCode::OK,
            headers: HeaderMap::new(),
            unframed: false,
            body: Some(Bytes::new()),
            length: Some(0),
        };
        desk.on_head(now, 0, order.id, head, &mut out);
        assert_eq!(out.replies.len(), 1);
        true
    }

    /// The fear: each time that a page is asked again when its answer is past, one more entry stays behind.
    #[test]
    fn a_page_that_is_asked_for_ever_fills_the_memory() {
        let (mut desk, page) = (desk(), question(Method::GET, 7));
        for turn in 0..50 {
            let now = Time::from_secs(100 * turn);
            assert!(is_made(&mut desk, now, &page));
            desk.on_timeout(now, &mut Outcome::default());
        }
        assert_eq!((desk.answered.len(), desk.reserved), (1, limits::ANSWER_BYTES));
    }

    /// The fear: whoever posts without end leaves no room for anybody else's request until his answers are past.
    #[test]
    fn orders_without_end_keep_everybody_out() {
        let mut desk = desk();
        let fill = desk.options.memory / limits::ANSWER_BYTES;
        for unique in 0..fill as u64 + 100 {
            assert!(is_made(&mut desk, Time::ZERO, &question(Method::POST, unique)));
        }
        assert!(is_made(&mut desk, Time::ZERO, &question(Method::GET, 0)));
        assert!(desk.reserved <= desk.options.memory);
        assert!(!is_made(&mut desk, Time::ZERO, &question(Method::POST, 0)), "though its answer has gone");
    }

    /// The fear: who has read an order on the way has it carried out again when its answer is forgotten.
    #[test]
    fn an_order_is_repeated_a_day_later() {
        let mut desk = desk();
        let (order, page) = (question(Method::POST, 7), question(Method::GET, 7));
        assert!(is_made(&mut desk, Time::ZERO, &order) && is_made(&mut desk, Time::ZERO, &page));
        let later = Time::from_secs(86_400);
        desk.on_timeout(later, &mut Outcome::default());
        assert!(!is_made(&mut desk, later, &order));
        assert!(is_made(&mut desk, later, &page), "nothing happens twice by that");
        assert!(is_made(&mut desk, later, &question(Method::POST, 8)));
    }
}
