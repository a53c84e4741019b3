//! A cache, a clock that the test moves, and an origin that says what the test says. The bodies in
//! progress and the outbox are here, as a host has them.

mod bodies;

use bodies::Bodies;
pub use bodies::Reader;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version};
use larder_http::{
    Answer, BodyPart, Cache, Completion, Config, ContentCoding, Exchange, Fill, FollowerId, Now,
    Outbox, PlainRequest, Pushed, Read, Reply, RequestHead, ResponseHead, Room, Step,
    UpstreamFailure,
};
use larder_units::{ByteSize, Streams, Time};
use std::time::Duration;

/// Sun, 06 Nov 1994 08:49:37 GMT: the wall clock when a stage is built.
pub const THEN: u64 = 784_111_777;
pub const THEN_TEXT: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
/// Ten and a hundred days earlier.
pub const TEN_DAYS_BEFORE: &str = "Thu, 27 Oct 1994 08:49:37 GMT";

pub type Fields<'a> = &'a [(&'a str, &'a str)];

pub struct Stage {
    pub cache: Cache,
    pub now: Now,
    pub outbox: Outbox,
    pub bodies: Bodies,
}

/// A request that can be changed.
#[derive(Clone)]
pub struct Request {
    pub method: Method,
    pub authority: String,
    pub target: String,
    pub headers: HeaderMap,
    pub has_body: bool,
    pub coding: Option<ContentCoding>,
}

/// What a client saw.
#[derive(Debug)]
pub struct Seen {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    /// What the origin was asked, where it was.
    pub asked: Option<HeaderMap>,
    pub completion: Option<Completion>,
}

impl Seen {
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    /// Answered without the origin.
    pub fn is_hit(&self) -> bool {
        self.asked.is_none() && self.header("cache-status").contains("; hit")
    }
}

pub fn headers(fields: Fields<'_>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(
            HeaderName::try_from(*name).unwrap(),
            HeaderValue::try_from(*value).unwrap(),
        );
    }
    headers
}

pub fn get(target: &str) -> Request {
    request(Method::GET, target)
}

pub fn request(method: Method, target: &str) -> Request {
    let (authority, target) = ("example.com".to_owned(), target.to_owned());
    Request {
        method,
        authority,
        target,
        headers: HeaderMap::new(),
        has_body: false,
        coding: None,
    }
}

impl Request {
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.append(
            HeaderName::try_from(name).unwrap(),
            HeaderValue::try_from(value).unwrap(),
        );
        self
    }

    pub fn head(&self) -> RequestHead<'_> {
        RequestHead {
            method: &self.method,
            scheme: "http",
            authority: &self.authority,
            target: &self.target,
            version: Version::HTTP_11,
            headers: &self.headers,
            has_body: self.has_body,
            coding: self.coding,
            confirmed: None,
        }
    }
}

pub fn config(capacity: u64, policy: &str) -> Config {
    Config {
        capacity: ByteSize::from_bytes(capacity),
        policy: policy.parse().unwrap(),
        max_object: ByteSize::from_bytes(capacity),
        slice: ByteSize::from_bytes(0),
        hash_key: [9; 16],
        ..Config::default()
    }
}

impl Stage {
    pub fn new() -> Stage {
        Stage::with(16 << 20, "lru")
    }

    pub fn with(capacity: u64, policy: &str) -> Stage {
        let cache = Cache::new(&config(capacity, policy), &Streams::new(1)).unwrap();
        let now = Now {
            time: Time::from_secs(5000),
            unix_seconds: THEN,
        };
        Stage {
            cache,
            now,
            outbox: Outbox::default(),
            bodies: Bodies::default(),
        }
    }

    pub fn wait(&mut self, seconds: u64) {
        self.cache.check_invariants();
        self.now.time += Duration::from_secs(seconds);
        self.now.unix_seconds += seconds;
    }

    /// One request; the origin, if it is asked, answers with this.
    pub fn ask(&mut self, request: &Request, status: u16, fields: Fields<'_>, body: &str) -> Seen {
        match self.cache.on_request(&request.head(), self.now) {
            Step::Answer(answer) => seen(answer, None),
            // The origin does not answer in the background.
            Step::Refresh(answer, exchange) => {
                self.abandon(exchange);
                seen(answer, None)
            }
            Step::Follow(_) | Step::Assemble(_) => panic!("somebody else is asking"),
            Step::Forward(mut exchange) => {
                exchange.take_headers(request.headers.clone());
                let asked = exchange.upstream_headers();
                let mut seen = self.reply(exchange, status, fields, body);
                seen.asked.get_or_insert(asked);
                seen
            }
        }
    }

    /// One request that must not reach the origin.
    pub fn ask_store(&mut self, request: &Request) -> Seen {
        match self.cache.on_request(&request.head(), self.now) {
            Step::Answer(answer) => seen(answer, None),
            Step::Forward(exchange) => panic!("forwarded: {:?}", exchange.reason()),
            step => panic!("{step:?}"),
        }
    }

    /// Whether the store answers.
    pub fn is_hit(&mut self, request: &Request) -> bool {
        match self.cache.on_request(&request.head(), self.now) {
            Step::Answer(answer) => answer.status.is_success() || !answer.status.is_server_error(),
            step => {
                self.give_up(step);
                false
            }
        }
    }

    /// Whether the store answers a GET of this target without its fields.
    pub fn is_plain_hit(&mut self, target: &str) -> bool {
        let request = PlainRequest {
            scheme: "http",
            authority: "example.com",
            target,
            asks_for_less: false,
            coding: None,
            confirmed: None,
        };
        let hit = self
            .cache
            .plain_hit(request, HeaderMap::new, self.now, &mut Vec::new());
        hit.is_some()
    }

    pub fn open(&mut self, request: &Request) -> Box<Exchange> {
        match self.cache.on_request(&request.head(), self.now) {
            Step::Forward(mut exchange) => {
                exchange.take_headers(request.headers.clone());
                exchange
            }
            step => panic!("{step:?}"),
        }
    }

    /// The origin's response, with a right Content-Length unless the fields have a word on framing.
    pub fn reply(
        &mut self,
        exchange: Box<Exchange>,
        status: u16,
        fields: Fields<'_>,
        body: &str,
    ) -> Seen {
        let mut headers = headers(fields);
        let framed =
            headers.contains_key("content-length") || headers.contains_key("transfer-encoding");
        if !framed && status != 304 && status != 204 && !headers.contains_key("x-unframed") {
            headers.insert("content-length", HeaderValue::from(body.len()));
        }
        self.cache.check_invariants();
        let status = StatusCode::from_u16(status).unwrap();
        let head = ResponseHead {
            status,
            version: Version::HTTP_11,
            headers,
        };
        match self.respond(exchange, head) {
            Reply::Answer(answer) => seen(answer, None),
            Reply::Assemble(..) => panic!("tests of slices have a stage of their own"),
            Reply::Retry(exchange) => {
                let asked = exchange.retry_headers();
                let mut seen = self.reply(exchange, 200, &[], "retried");
                seen.asked = Some(asked);
                seen
            }
            Reply::Relay {
                status,
                headers,
                fill,
            } => {
                let completion = fill.map(|mut fill| {
                    // In uneven pieces, as from a socket.
                    for piece in body.as_bytes().chunks(7) {
                        self.push(&mut fill, piece);
                    }
                    self.complete(fill)
                });
                Seen {
                    status: status.as_u16(),
                    headers,
                    body: body.into(),
                    asked: None,
                    completion,
                }
            }
        }
    }

    /// The head of a response with these fields, whose body is collected.
    pub fn begin(&mut self, exchange: Box<Exchange>, fields: Fields<'_>) -> Box<Fill> {
        let head = ResponseHead {
            status: StatusCode::OK,
            version: Version::HTTP_11,
            headers: headers(fields),
        };
        match self.respond(exchange, head) {
            Reply::Relay {
                fill: Some(fill), ..
            } => fill,
            reply => panic!("{reply:?}"),
        }
    }

    /// The head of the origin's response; a body in progress begins.
    pub fn respond(&mut self, exchange: Box<Exchange>, head: ResponseHead) -> Reply {
        let reply = self
            .cache
            .on_response(exchange, head, self.now, &mut self.outbox);
        if let Reply::Relay {
            fill: Some(fill), ..
        }
        | Reply::Assemble(_, Some(fill)) = &reply
        {
            self.bodies.begin(fill);
        }
        reply
    }

    /// The same for a slice; `None` if that is not what came.
    pub fn respond_with_slice(
        &mut self,
        exchange: Box<Exchange>,
        head: ResponseHead,
    ) -> Option<Box<Fill>> {
        let fill = self
            .cache
            .on_slice(exchange, head, self.now, &mut self.outbox)?;
        self.bodies.begin(&fill);
        Some(fill)
    }

    pub fn fail(&mut self, exchange: Box<Exchange>, failure: UpstreamFailure) -> Answer {
        self.cache
            .on_failure(exchange, failure, self.now, &mut self.outbox)
    }

    pub fn abandon(&mut self, exchange: Box<Exchange>) {
        self.cache.on_abandoned(exchange, &mut self.outbox);
    }

    /// The client leaves before anything else happens.
    pub fn give_up(&mut self, step: Step) {
        match step {
            Step::Answer(_) | Step::Assemble(_) => {}
            Step::Refresh(_, exchange) | Step::Forward(exchange) => self.abandon(exchange),
            Step::Follow(follower) => self.cache.on_follower_left(follower),
        }
    }

    /// The origin breaks off after its head.
    pub fn break_off(&mut self, reply: Reply) {
        match reply {
            Reply::Relay {
                fill: Some(fill), ..
            }
            | Reply::Assemble(_, Some(fill)) => self.abort(fill),
            Reply::Retry(exchange) => self.abandon(exchange),
            Reply::Answer(_) | Reply::Relay { fill: None, .. } | Reply::Assemble(_, None) => {}
        }
    }

    pub fn push(&mut self, fill: &mut Fill, piece: &[u8]) {
        match self.bodies.push(fill, piece) {
            Pushed::Kept => {}
            Pushed::Passing => self.cache.on_passing(fill),
        }
    }

    pub fn room(&mut self, fill: &Fill) -> Room {
        self.bodies.room(fill)
    }

    pub fn complete(&mut self, fill: Box<Fill>) -> Completion {
        let body = fill.body();
        let collected = self.bodies.take_collected(&fill).map(Bytes::from);
        let (completion, end) = self
            .cache
            .on_complete(fill, collected, self.now, &mut self.outbox);
        self.bodies.finish(body, end);
        completion
    }

    pub fn abort(&mut self, fill: Box<Fill>) {
        let body = fill.body();
        let end = self.cache.on_abort(fill, &mut self.outbox);
        self.bodies.finish(body, end);
    }

    /// `None` where it is too late.
    pub fn reader(&mut self, part: &BodyPart) -> Option<Reader> {
        self.bodies.reader(part)
    }

    pub fn read(&mut self, reader: &mut Reader) -> Read {
        self.bodies.read(reader)
    }

    pub fn leave(&mut self, reader: Reader) {
        self.bodies.leave(reader);
    }

    /// Whether a follower has been woken since the last time.
    pub fn is_woken(&mut self, follower: FollowerId) -> bool {
        let place = self
            .outbox
            .woken
            .iter()
            .position(|woken| *woken == follower);
        place
            .map(|place| self.outbox.woken.swap_remove(place))
            .is_some()
    }
}

fn seen(answer: Answer, asked: Option<HeaderMap>) -> Seen {
    let Answer {
        status,
        headers,
        body,
        more,
        ..
    } = answer;
    let body = [&[body], &more[..]].concat().concat();
    Seen {
        status: status.as_u16(),
        headers,
        body,
        asked,
        completion: None,
    }
}
