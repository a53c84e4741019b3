//! The host of an HTTP cache: its clients, its connections to the upstream, its bodies in progress.
//!
//! [`larder_http::Cache`] makes all decisions about storing, freshness, validation, collapsing and
//! purges. This host carries them out, as `larder-proxy` does on sockets. A body is forwarded while
//! it arrives. Its bytes are zeros, which all stored bodies share.

use super::host_context::{HostContext, HttpCounters};
use crate::error::ConfigError;
use crate::limits;
use crate::tcp::connections::{HostId, TcpEvent};
use crate::tcp::messages::{HeadBytes, HttpRequest, HttpResponse, Message, unix_seconds};
use crate::tcp::segment::EndId;
use bytes::Bytes;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use http::{HeaderMap, Method, StatusCode, Version};
use larder_http::{
    Answer, BodyId, BodyReader, BodyWakes, Cache, Config, Exchange, Fill, Follower, JoinResult,
    Now, Outbox, Purge, Pushed, Read, Reply, RequestHead, ResponseHead, Room, Scope, SharedBody,
    Step, UpstreamFailure,
};
use larder_policy::Spec;
use larder_units::{ByteSize, Streams, Time};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// The scheme and the authority of all objects.
const SCHEME: &str = "http";
const AUTHORITY: &str = "origin";

/// The configuration of a cache.
#[derive(Clone, Debug)]
pub struct CacheConfig {
    /// The cache or origin that serves its misses.
    pub upstream: HostId,
    /// The admission and eviction policy.
    pub policy: Spec,
    /// The capacity in bytes of bodies, heads and the structures around them.
    pub capacity: ByteSize,
    /// Whether requests for an object in flight join its fetch.
    pub collapse: bool,
    /// Whether it keeps its connections to the upstream.
    pub keep_alive: bool,
    /// The time after which it gives up the wait for the head of a response of the upstream.
    pub timeout: Option<Duration>,
}

impl CacheConfig {
    /// A cache that collapses requests, and keeps its connections to the upstream.
    pub fn new(upstream: HostId, policy: Spec, capacity: ByteSize) -> Self {
        CacheConfig {
            upstream,
            policy,
            capacity,
            collapse: true,
            keep_alive: true,
            timeout: None,
        }
    }
}

/// A purge of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpPurge {
    /// The object; `None` purges all objects.
    pub object: Option<u64>,
    /// Whether responses become stale, and stay. Otherwise they are removed.
    pub soft: bool,
}

/// A request to the upstream.
struct Fetch {
    /// The end of the connection, which is in use up to the end of the response.
    upstream: EndId,
    /// The client's request.
    request: Arc<HttpRequest>,
    /// The client. `None` if it has its answer, or has left.
    client: Option<EndId>,
    /// How often the request was repeated.
    retries: usize,
    /// The time at which it times out if no head has arrived.
    deadline: Time,
    phase: Phase,
}

enum Phase {
    /// The head of the response has not arrived.
    Asking(Box<Exchange>),
    /// The body is collected, or read by several clients.
    Filling(Box<Filling>),
    /// The body passes to the client. The number counts bytes of the head that are not written yet.
    Passing(u64),
    /// No client needs the body.
    Discarding,
}

struct Filling {
    fill: Box<Fill>,
    shared: SharedResponse,
}

/// A body in progress, and the clients that read it.
struct SharedResponse {
    body: SharedBody,
    clients: Vec<BodyClient>,
}

/// A request that has to be sent again.
struct Retry {
    exchange: Box<Exchange>,
    client: Option<EndId>,
    request: Arc<HttpRequest>,
    retries: usize,
}

/// A client that reads a body in progress.
struct BodyClient {
    end: EndId,
    reader: BodyReader,
    /// Bytes of the head that are not written yet.
    head: u64,
}

/// A client whose request follows another one.
struct Waiting {
    follower: Follower,
    end: EndId,
    request: Arc<HttpRequest>,
}

/// The source of a client's answer.
#[derive(Clone, Copy)]
enum Source {
    /// The number of the follower.
    Follower(usize),
    /// The number of this host's end of the upstream connection.
    Fetch(u32),
}

pub(super) struct CachingProxy {
    config: CacheConfig,
    cache: Cache,
    outbox: Outbox,
    wakes: BodyWakes,
    /// The fetches, by the number of this host's end of the upstream connection.
    fetches: HashMap<u32, Fetch, FixedState>,
    /// The fetch of each body in progress.
    bodies: HashMap<BodyId, u32, FixedState>,
    followers: HashMap<usize, Waiting, FixedState>,
    /// The clients that wait for an answer, by the number of this host's end.
    clients: HashMap<u32, Source, FixedState>,
    /// Connections to the upstream without a request.
    idle: Vec<EndId>,
    /// The times at which fetches time out if no head has arrived, in order.
    deadlines: VecDeque<(Time, EndId)>,
    /// Planned purges, by time and number.
    purges: BTreeMap<(Time, u64), HttpPurge>,
    planned: u64,
    /// As many zeros as the largest body had.
    zeros: Bytes,
}

impl CachingProxy {
    pub(super) fn new(config: CacheConfig, streams: &Streams) -> Result<Self, ConfigError> {
        if config.policy.needs_path() {
            return Err(ConfigError::PolicyNeedsPath(Box::new(config.policy)));
        }
        let mut hash_key = streams.stream("keys");
        let key = u128::from(hash_key.bits()) << 64 | u128::from(hash_key.bits());
        let cache = Cache::new(
            &Config {
                capacity: config.capacity,
                policy: config.policy.clone(),
                max_object: config
                    .capacity
                    .min(ByteSize::from_bytes(limits::HTTP_STORED_BODY)),
                slice: ByteSize::from_bytes(0),
                collapse: config.collapse,
                targets: Vec::new(),
                compression: None,
                hash_key: key.to_be_bytes(),
                ..Config::default()
            },
            streams,
        );
        Ok(CachingProxy {
            cache: cache.map_err(|error| ConfigError::Policy {
                cache: "an HTTP cache".to_owned(),
                error,
            })?,
            config,
            outbox: Outbox::default(),
            wakes: BodyWakes::default(),
            fetches: HashMap::default(),
            bodies: HashMap::default(),
            followers: HashMap::default(),
            clients: HashMap::default(),
            idle: Vec::new(),
            deadlines: VecDeque::new(),
            purges: BTreeMap::new(),
            planned: 0,
            zeros: Bytes::new(),
        })
    }

    pub(super) fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Adds the counters of the cache to those of its host.
    pub(super) fn counters(&self, host: HttpCounters) -> HttpCounters {
        let cache = self.cache.counters();
        HttpCounters {
            requests: cache.requests,
            hits: cache.hits,
            stale: cache.stale,
            joined: cache.collapsed,
            misses: cache.forwarded.iter().sum(),
            validated: cache.validated,
            evictions: cache.evicted,
            ..host
        }
    }

    // ---- Timers ----

    pub(super) fn plan_purge(&mut self, at: Time, purge: HttpPurge) {
        self.purges.insert((at, self.planned), purge);
        self.planned += 1;
    }

    pub(super) fn next_timer(&self) -> Option<Time> {
        let purge = self.purges.keys().next().map(|(at, _)| *at);
        let deadline = self.deadlines.front().map(|(at, _)| *at);
        [purge, deadline].into_iter().flatten().min()
    }

    pub(super) fn on_timer(&mut self, net: &mut HostContext<'_, '_>) {
        while let Some(due) = self
            .purges
            .first_entry()
            .filter(|due| due.key().0 <= net.now())
        {
            let purge = due.remove();
            self.purge(purge, now(net));
        }
        while let Some((_, upstream)) = self.next_deadline().filter(|(at, _)| *at <= net.now()) {
            self.on_upstream_gone(net, upstream, UpstreamFailure::TimedOut);
        }
        self.settle(net);
    }

    /// Returns the next deadline of a fetch whose head has not arrived, and forgets those before
    /// it.
    fn next_deadline(&mut self) -> Option<(Time, EndId)> {
        while let Some((at, upstream)) = self.deadlines.front().copied() {
            let fetch = self
                .fetches
                .get(&upstream.number)
                .filter(|fetch| fetch.upstream == upstream);
            if fetch.is_some_and(|fetch| {
                fetch.deadline == at && matches!(fetch.phase, Phase::Asking(_))
            }) {
                return Some((at, upstream));
            }
            self.deadlines.pop_front();
        }
        None
    }

    fn purge(&mut self, purge: HttpPurge, now: Now) {
        let scope = match purge.object {
            Some(object) => {
                let target = HttpRequest::new(Method::GET, object).target();
                Scope::Exact(
                    format!("{SCHEME}://{AUTHORITY}{target}")
                        .parse()
                        .expect("a URL"),
                )
            }
            None => Scope::Everything,
        };
        let purge = Purge {
            scope,
            soft: purge.soft,
        };
        let mut from = Some(0);
        while let Some(position) = from {
            from = self.cache.purge(&purge, position, now).next;
        }
    }

    // ---- Requests ----

    pub(super) fn on_tcp_event(
        &mut self,
        net: &mut HostContext<'_, '_>,
        end: EndId,
        event: TcpEvent,
    ) {
        match event {
            TcpEvent::Bytes {
                message: Message::Request(request, length),
                bytes,
            } => {
                if bytes.end == length {
                    let step = self
                        .cache
                        .on_request(&head_of(&request, &request.target()), now(net));
                    self.take_step(net, end, request, step);
                }
            }
            TcpEvent::Bytes {
                message: Message::Response(response, head),
                bytes,
            } => {
                self.on_response(net, end, &response, head, bytes);
            }
            // This host has opened the connections whose ends have even numbers.
            TcpEvent::Closed | TcpEvent::Failed if end.number.is_multiple_of(2) => {
                self.idle.retain(|idle| *idle != end);
                self.on_upstream_gone(net, end, UpstreamFailure::Unreachable);
            }
            TcpEvent::Closed | TcpEvent::Failed => {
                net.close(end);
                self.on_client_gone(net, end);
            }
        }
        self.settle(net);
    }

    fn take_step(
        &mut self,
        net: &mut HostContext<'_, '_>,
        client: EndId,
        request: Arc<HttpRequest>,
        step: Step,
    ) {
        match step {
            Step::Answer(answer) => self.answer(net, client, answer),
            Step::Refresh(answer, exchange) => {
                self.answer(net, client, answer);
                self.forward(net, None, request, exchange);
            }
            Step::Follow(follower) => self.follow(
                net,
                Waiting {
                    follower,
                    end: client,
                    request,
                },
            ),
            Step::Forward(exchange) => self.forward(net, Some(client), request, exchange),
            Step::Assemble(_) => unreachable!("the cache has no slices"),
        }
    }

    fn answer(&mut self, net: &mut HostContext<'_, '_>, client: EndId, answer: Answer) {
        self.clients.remove(&client.number);
        let body = answer.length();
        net.respond(
            client,
            HttpResponse {
                status: answer.status,
                headers: answer.headers,
                body,
            },
        );
    }

    fn follow(&mut self, net: &mut HostContext<'_, '_>, waiting: Waiting) {
        let Waiting {
            follower,
            end,
            request,
        } = waiting;
        let joined = follower.joined();
        let joined = match self.cache.join(follower, &request.headers) {
            JoinResult::Wait(follower) => {
                let id = follower.id().index();
                self.clients.insert(end.number, Source::Follower(id));
                self.followers.insert(
                    id,
                    Waiting {
                        follower,
                        end,
                        request,
                    },
                );
                return;
            }
            JoinResult::Answer(answer) => return self.answer(net, end, answer),
            JoinResult::Stream {
                status,
                headers,
                part,
            } => {
                let place = self.bodies.get(&part.body).copied();
                let fetch = place.and_then(|place| self.fetches.get_mut(&place));
                if let Some(Fetch {
                    phase: Phase::Filling(filling),
                    upstream,
                    ..
                }) = fetch
                    && let Some(reader) = filling.shared.body.reader(&part)
                {
                    let body = part.left.unwrap_or_else(|| declared(&headers));
                    let head = net.begin(
                        end,
                        HttpResponse {
                            status,
                            headers,
                            body,
                        },
                    );
                    filling
                        .shared
                        .clients
                        .push(BodyClient { end, reader, head });
                    self.clients
                        .insert(end.number, Source::Fetch(upstream.number));
                    return filling
                        .shared
                        .pass_on(net, &mut self.wakes, &mut self.clients);
                }
                joined
            }
            JoinResult::Again(joined) => joined,
        };
        let step = self
            .cache
            .on_released(&head_of(&request, &request.target()), joined, now(net));
        self.take_step(net, end, request, step);
    }

    // ---- The upstream ----

    fn forward(
        &mut self,
        net: &mut HostContext<'_, '_>,
        client: Option<EndId>,
        request: Arc<HttpRequest>,
        mut exchange: Box<Exchange>,
    ) {
        exchange.take_headers(request.headers.clone());
        let headers = exchange.upstream_headers();
        self.send(net, client, request, exchange, headers, 0);
    }

    fn send(
        &mut self,
        net: &mut HostContext<'_, '_>,
        client: Option<EndId>,
        request: Arc<HttpRequest>,
        exchange: Box<Exchange>,
        headers: HeaderMap,
        retries: usize,
    ) {
        let Some(upstream) = self.idle.pop().or_else(|| net.open(self.config.upstream)) else {
            return self.fail(net, client, exchange, UpstreamFailure::Unreachable);
        };
        // A validation in the background is a GET, whatever the client's method was.
        let method = if client.is_some() {
            request.method.clone()
        } else {
            Method::GET
        };
        let sent = HttpRequest {
            method,
            object: request.object,
            headers,
        };
        let deadline = self
            .config
            .timeout
            .map_or(Time::MAX, |timeout| net.now() + timeout);
        if deadline < Time::MAX {
            self.deadlines.push_back((deadline, upstream));
        }
        if let Some(client) = client {
            self.clients
                .insert(client.number, Source::Fetch(upstream.number));
        }
        let phase = Phase::Asking(exchange);
        self.fetches.insert(
            upstream.number,
            Fetch {
                upstream,
                request,
                client,
                retries,
                deadline,
                phase,
            },
        );
        net.request(upstream, Arc::new(sent));
    }

    fn fail(
        &mut self,
        net: &mut HostContext<'_, '_>,
        client: Option<EndId>,
        exchange: Box<Exchange>,
        failure: UpstreamFailure,
    ) {
        let answer = self
            .cache
            .on_failure(exchange, failure, now(net), &mut self.outbox);
        if let Some(client) = client {
            self.answer(net, client, answer);
        }
    }

    fn on_response(
        &mut self,
        net: &mut HostContext<'_, '_>,
        upstream: EndId,
        response: &HttpResponse,
        head: HeadBytes,
        bytes: Range<u64>,
    ) {
        let retry = if head.end_in(&bytes) {
            self.on_head(net, upstream, response)
        } else {
            None
        };
        self.on_body(net, upstream.number, head.body_of(&bytes));
        // Followers get the head and these bytes in one write.
        self.settle(net);
        if bytes.end == head.0 + response.body {
            self.on_end(net, upstream);
        }
        if let Some(Retry {
            exchange,
            client,
            request,
            retries,
        }) = retry
        {
            let headers = exchange.retry_headers();
            self.send(net, client, request, exchange, headers, retries);
        }
    }

    /// Handles the head of a response. Returns the request if it has to be sent again.
    fn on_head(
        &mut self,
        net: &mut HostContext<'_, '_>,
        upstream: EndId,
        response: &HttpResponse,
    ) -> Option<Retry> {
        let fetch = self.fetches.get_mut(&upstream.number)?;
        let Phase::Asking(exchange) = std::mem::replace(&mut fetch.phase, Phase::Discarding) else {
            return None;
        };
        let (status, headers) = (response.status, response.headers.clone());
        let head = ResponseHead {
            status,
            version: Version::HTTP_11,
            headers,
        };
        match self
            .cache
            .on_response(exchange, head, now(net), &mut self.outbox)
        {
            Reply::Answer(answer) => {
                if let Some(client) = fetch.client.take() {
                    self.answer(net, client, answer);
                }
            }
            Reply::Relay {
                status,
                headers,
                fill,
            } => self.relay(net, upstream, response.body, status, headers, fill),
            Reply::Retry(exchange) if fetch.retries < larder_http::limits::RETRIES => {
                let (request, client, retries) = (
                    Arc::clone(&fetch.request),
                    fetch.client.take(),
                    fetch.retries + 1,
                );
                return Some(Retry {
                    exchange,
                    client,
                    request,
                    retries,
                });
            }
            Reply::Retry(exchange) => {
                let client = fetch.client.take();
                self.fail(net, client, exchange, UpstreamFailure::Malformed);
            }
            Reply::Assemble(..) => unreachable!("the cache has no slices"),
        }
        None
    }

    fn relay(
        &mut self,
        net: &mut HostContext<'_, '_>,
        upstream: EndId,
        length: u64,
        status: StatusCode,
        headers: HeaderMap,
        fill: Option<Box<Fill>>,
    ) {
        let Some(fetch) = self.fetches.get_mut(&upstream.number) else {
            return;
        };
        let Some(fill) = fill else {
            if let Some(client) = fetch.client {
                fetch.phase = Phase::Passing(net.begin(
                    client,
                    HttpResponse {
                        status,
                        headers,
                        body: length,
                    },
                ));
            }
            return;
        };
        let (part, mut body, mut clients) = (fill.part(), SharedBody::default(), Vec::new());
        if let Some(end) = fetch.client.take()
            && let Some(reader) = body.reader(&part)
        {
            let body = part.left.unwrap_or(length);
            let head = net.begin(
                end,
                HttpResponse {
                    status,
                    headers,
                    body,
                },
            );
            clients.push(BodyClient { end, reader, head });
        }
        self.bodies.insert(fill.body(), upstream.number);
        fetch.phase = Phase::Filling(Box::new(Filling {
            fill,
            shared: SharedResponse { body, clients },
        }));
    }

    /// Handles more bytes of the body of a response.
    fn on_body(&mut self, net: &mut HostContext<'_, '_>, number: u32, bytes: u64) {
        let Some(fetch) = self.fetches.get_mut(&number) else {
            return;
        };
        match (&mut fetch.phase, fetch.client) {
            (Phase::Passing(head), Some(client)) => net.write(client, std::mem::take(head) + bytes),
            (Phase::Filling(filling), _) => {
                let mut left = bytes;
                while left > 0 {
                    let piece = &ZEROS[..left.min(ZEROS.len() as u64) as usize];
                    left -= piece.len() as u64;
                    if filling
                        .fill
                        .push(piece, &mut filling.shared.body, &mut self.wakes)
                        == Pushed::Passing
                    {
                        self.cache.on_passing(&filling.fill);
                    }
                }
                filling
                    .shared
                    .pass_on(net, &mut self.wakes, &mut self.clients);
            }
            _ => {}
        }
    }

    /// Handles the end of a response.
    fn on_end(&mut self, net: &mut HostContext<'_, '_>, upstream: EndId) {
        // Without a fetch, this host has closed the connection before the end of the response.
        let Some(Fetch { phase, client, .. }) = self.fetches.remove(&upstream.number) else {
            return;
        };
        if self.config.keep_alive {
            self.idle.push(upstream)
        } else {
            net.close(upstream)
        }
        if let Phase::Filling(filling) = phase {
            let Filling { fill, mut shared } = *filling;
            self.bodies.remove(&fill.body());
            // Zeros that all bodies share take the place of the collected ones.
            let collected = shared
                .body
                .take_collected()
                .map(|bytes| self.zeros(bytes.len()));
            let (_, end) = self
                .cache
                .on_complete(fill, collected, now(net), &mut self.outbox);
            shared.body.finish(end, &mut self.wakes);
            shared.pass_on(net, &mut self.wakes, &mut self.clients);
        } else if let Some(client) = client {
            self.clients.remove(&client.number);
        }
    }

    fn zeros(&mut self, length: usize) -> Bytes {
        if self.zeros.len() < length {
            self.zeros = Bytes::from(vec![0; length.next_power_of_two()]);
        }
        self.zeros.slice(..length)
    }

    /// Handles the loss of a connection to the upstream, or the end of the wait for a head.
    fn on_upstream_gone(
        &mut self,
        net: &mut HostContext<'_, '_>,
        upstream: EndId,
        failure: UpstreamFailure,
    ) {
        net.close(upstream);
        let Some(Fetch { phase, client, .. }) = self.fetches.remove(&upstream.number) else {
            return;
        };
        match phase {
            Phase::Asking(exchange) => self.fail(net, client, exchange, failure),
            Phase::Filling(filling) => self.abort(net, *filling),
            Phase::Passing(_) => {
                if let Some(client) = client {
                    self.clients.remove(&client.number);
                    net.close(client);
                }
            }
            Phase::Discarding => {}
        }
    }

    /// Ends a body that is not complete.
    fn abort(&mut self, net: &mut HostContext<'_, '_>, filling: Filling) {
        let Filling { fill, mut shared } = filling;
        self.bodies.remove(&fill.body());
        let end = self.cache.on_abort(fill, &mut self.outbox);
        shared.body.finish(end, &mut self.wakes);
        shared.pass_on(net, &mut self.wakes, &mut self.clients);
    }

    /// Handles the loss of a client. A fetch goes on if other requests may need the response.
    fn on_client_gone(&mut self, net: &mut HostContext<'_, '_>, end: EndId) {
        let number = match self.clients.remove(&end.number) {
            Some(Source::Fetch(number)) => number,
            Some(Source::Follower(id)) => {
                if let Some(waiting) = self.followers.remove(&id) {
                    self.cache.on_follower_left(waiting.follower);
                }
                return;
            }
            None => return,
        };
        let Some(fetch) = self.fetches.get_mut(&number) else {
            return;
        };
        fetch.client = None;
        let goes_on = match &mut fetch.phase {
            Phase::Asking(exchange) => exchange.is_shared(),
            Phase::Filling(filling) => filling.shared.leave(end, &mut self.wakes),
            Phase::Passing(_) => false,
            Phase::Discarding => true,
        };
        if goes_on {
            return;
        }
        let Some(Fetch {
            upstream, phase, ..
        }) = self.fetches.remove(&number)
        else {
            return;
        };
        net.close(upstream);
        match phase {
            Phase::Asking(exchange) => self.cache.on_abandoned(exchange, &mut self.outbox),
            Phase::Filling(filling) => self.abort(net, *filling),
            Phase::Passing(_) | Phase::Discarding => {}
        }
    }

    // ---- The effects of a call ----

    /// Runs the policy's jobs, which take no virtual time, and lets the followers go on that the
    /// cache has woken.
    fn settle(&mut self, net: &mut HostContext<'_, '_>) {
        loop {
            while let Some(job) = self.cache.job() {
                self.cache.complete_job(job.run());
            }
            if self.outbox.woken.is_empty() {
                break;
            }
            for id in std::mem::take(&mut self.outbox.woken) {
                if let Some(waiting) = self.followers.remove(&id.index()) {
                    self.follow(net, waiting);
                }
            }
        }
        // Clients take what there is at once, so no reader and no writer waits for a wake-up.
        self.wakes.readers.clear();
        self.wakes.writer = false;
        self.next_deadline();
    }
}

impl SharedResponse {
    /// Gives all clients the bytes that they have not got.
    fn pass_on(
        &mut self,
        net: &mut HostContext<'_, '_>,
        wakes: &mut BodyWakes,
        sources: &mut HashMap<u32, Source, FixedState>,
    ) {
        let mut place = 0;
        while let Some(client) = self.clients.get_mut(place) {
            let mut bytes = std::mem::take(&mut client.head);
            let last = loop {
                match self.body.read(&mut client.reader, wakes) {
                    Read::Bytes(piece) => bytes += piece.len() as u64,
                    last => break last,
                }
            };
            if bytes > 0 {
                net.write(client.end, bytes);
            }
            if last == Read::Wait {
                place += 1;
                continue;
            }
            // The others stay in their order.
            let BodyClient { end, reader, .. } = self.clients.remove(place);
            self.body.leave(reader, wakes);
            sources.remove(&end.number);
            if last == Read::Broken {
                net.close(end);
            }
        }
    }

    /// Removes a client. Returns false if nobody needs the rest of the body.
    fn leave(&mut self, end: EndId, wakes: &mut BodyWakes) -> bool {
        if let Some(place) = self.clients.iter().position(|client| client.end == end) {
            let client = self.clients.remove(place);
            self.body.leave(client.reader, wakes);
        }
        self.body.room() != Room::NoReader
    }
}

/// A piece of a body.
static ZEROS: [u8; larder_http::limits::PIECE_BYTES] = [0; larder_http::limits::PIECE_BYTES];

fn now(net: &HostContext<'_, '_>) -> Now {
    Now {
        time: net.now(),
        unix_seconds: unix_seconds(net.now()),
    }
}

fn head_of<'a>(request: &'a HttpRequest, target: &'a str) -> RequestHead<'a> {
    let HttpRequest {
        method, headers, ..
    } = request;
    let (scheme, authority, version) = (SCHEME, AUTHORITY, Version::HTTP_11);
    RequestHead {
        method,
        scheme,
        authority,
        target,
        version,
        headers,
        has_body: false,
        coding: None,
        confirmed: None,
    }
}

/// Returns the `Content-Length`.
fn declared(headers: &HeaderMap) -> u64 {
    let length = headers
        .get(http::header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok());
    length
        .and_then(|length| length.parse().ok())
        .unwrap_or_default()
}
