//! A client: requests objects one after the other, or at a rate, over new or persistent
//! connections.

use super::host_context::HostContext;
use crate::apps::Names;
use crate::limits;
use crate::tcp::connections::{HostId, TcpEvent};
use crate::tcp::messages::{HttpRequest, HttpResponse, Message};
use crate::tcp::segment::EndId;
use http::header::ACCEPT_LANGUAGE;
use http::{HeaderValue, Method};
use larder_units::{Stream, Streams, Time};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// The requests of a client.
///
/// Any crate can implement this trait for [`crate::Simulation::add_http_client_with`]. It reads no
/// clock, and draws chance only from a stream of [`crate::Simulation::streams`].
pub trait Requester: Send {
    /// Returns a request for an object, which is sent now.
    fn request(&mut self, now: Time, object: u64) -> HttpRequest;

    /// Handles the end of a request: a complete response, or `None` if the connection failed or
    /// closed too early, or the client has given up.
    fn on_end(&mut self, now: Time, request: &HttpRequest, response: Option<&HttpResponse>);
}

/// The configuration of a client.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// The cache or origin that serves the client.
    pub server: HostId,
    /// The numbers of the requested objects.
    pub objects: Names,
    /// The number of requests; `None` is unlimited.
    pub requests: Option<u64>,
    /// Requests per second, independent of the responses. `None` sends the next request after the
    /// last response.
    pub frequency: Option<f64>,
    /// Whether the times between requests are exponential.
    pub randomize: bool,
    /// Whether a connection serves more than one request.
    pub keep_alive: bool,
    /// Concurrent connections. Further requests wait.
    pub connections: usize,
    /// The number of values of `Accept-Language`, one of which each request has. Fewer than two: no
    /// request has the field.
    pub variants: u64,
    /// The probability that a request is a PUT, which changes the object.
    pub writes: f64,
    /// The time after which the client gives up a request that it has sent.
    pub timeout: Option<Duration>,
    /// The time of the first request.
    pub start: Time,
}

impl ClientConfig {
    /// One request at time 0 for object 0, as wget sends it.
    pub fn one_file(server: HostId) -> Self {
        ClientConfig {
            server,
            objects: Names::Sequence { end: None },
            requests: Some(1),
            frequency: None,
            randomize: false,
            keep_alive: false,
            connections: limits::HTTP_CONNECTIONS,
            variants: 1,
            writes: 0.0,
            timeout: None,
            start: Time::ZERO,
        }
    }
}

/// The requests of a [`ClientConfig`].
struct ConfiguredRequester {
    variants: u64,
    writes: f64,
    stream: Stream,
}

impl Requester for ConfiguredRequester {
    fn request(&mut self, _: Time, object: u64) -> HttpRequest {
        let writes = self.writes > 0.0 && self.stream.chance(self.writes);
        let mut request = HttpRequest::new(if writes { Method::PUT } else { Method::GET }, object);
        if self.variants > 1 {
            let variant = format!("v{}", self.stream.below(self.variants));
            request.headers.insert(
                ACCEPT_LANGUAGE,
                HeaderValue::try_from(variant).expect("a letter and digits"),
            );
        }
        request
    }

    fn on_end(&mut self, _: Time, _: &HttpRequest, _: Option<&HttpResponse>) {}
}

struct Pending {
    end: EndId,
    /// The time at which the client decided to send the request.
    at: Time,
    request: Arc<HttpRequest>,
    gives_up: Time,
}

pub(super) struct Client {
    config: ClientConfig,
    stream: Stream,
    requester: Box<dyn Requester>,
    asked: u64,
    /// The time of the next request.
    next: Option<Time>,
    /// Requests without a connection: the time of the request, and the object.
    waiting: VecDeque<(Time, u64)>,
    busy: Vec<Pending>,
    idle: Vec<EndId>,
}

impl Client {
    pub(super) fn new(
        config: ClientConfig,
        streams: &Streams,
        requester: Option<Box<dyn Requester>>,
    ) -> Self {
        let requester = requester.unwrap_or_else(|| {
            let stream = streams.stream("fields");
            Box::new(ConfiguredRequester {
                variants: config.variants,
                writes: config.writes,
                stream,
            })
        });
        Client {
            stream: streams.stream("requests"),
            requester,
            asked: 0,
            next: Some(config.start),
            waiting: VecDeque::new(),
            busy: Vec::new(),
            idle: Vec::new(),
            config,
        }
    }

    pub(super) fn next_timer(&self) -> Option<Time> {
        let gives_up = self
            .busy
            .iter()
            .map(|pending| pending.gives_up)
            .min()
            .filter(|at| *at < Time::MAX);
        [self.next, gives_up].into_iter().flatten().min()
    }

    pub(super) fn on_timer(&mut self, net: &mut HostContext<'_, '_>) {
        while let Some(place) = self
            .busy
            .iter()
            .position(|pending| pending.gives_up <= net.now())
        {
            net.close(self.busy[place].end);
            self.end(net, place, None);
        }
        if self.next.is_none_or(|next| next > net.now()) {
            return;
        }
        self.next = None;
        if self.ask(net)
            && let Some(frequency) = self.config.frequency
        {
            let mean = 1.0 / frequency;
            let wait = if self.config.randomize {
                -mean * (1.0 - self.stream.unit()).ln()
            } else {
                mean
            };
            // The conversion saturates, so a rate near zero gives a very late time.
            self.next = Some(net.now() + Duration::from_nanos((wait * 1e9) as u64));
        }
    }

    /// Makes one request more; returns false if there are no more.
    fn ask(&mut self, net: &mut HostContext<'_, '_>) -> bool {
        let left = self
            .config
            .requests
            .is_none_or(|requests| self.asked < requests);
        let Some(object) = left
            .then(|| self.config.objects.next(self.asked, &mut self.stream))
            .flatten()
        else {
            return false;
        };
        self.asked += 1;
        net.counters.requests += 1;
        if self.waiting.len() < limits::HTTP_WAITING {
            self.waiting.push_back((net.now(), object));
        } else {
            net.counters.failures += 1;
        }
        self.dispatch(net);
        true
    }

    fn dispatch(&mut self, net: &mut HostContext<'_, '_>) {
        while self.busy.len() < self.config.connections
            && let Some((at, object)) = self.waiting.pop_front()
        {
            let Some(end) = self.idle.pop().or_else(|| net.open(self.config.server)) else {
                net.counters.failures += 1;
                continue;
            };
            let request = Arc::new(self.requester.request(net.now(), object));
            let gives_up = self
                .config
                .timeout
                .map_or(Time::MAX, |timeout| net.now() + timeout);
            self.busy.push(Pending {
                end,
                at,
                request: Arc::clone(&request),
                gives_up,
            });
            net.request(end, request);
        }
    }

    pub(super) fn on_tcp_event(
        &mut self,
        net: &mut HostContext<'_, '_>,
        end: EndId,
        event: TcpEvent,
    ) {
        match event {
            TcpEvent::Bytes {
                message: Message::Response(response, head),
                bytes,
            } => {
                let Some(place) = self.busy.iter().position(|pending| pending.end == end) else {
                    return;
                };
                net.counters.bytes += head.body_of(&bytes);
                if bytes.end == head.0 + response.body {
                    net.counters.responses += 1;
                    net.counters.seconds += net.now().since(self.busy[place].at).as_secs_f64();
                    if self.config.keep_alive {
                        self.idle.push(end)
                    } else {
                        net.close(end)
                    }
                    self.end(net, place, Some(&response));
                }
            }
            TcpEvent::Bytes { .. } => {}
            TcpEvent::Closed | TcpEvent::Failed => {
                net.close(end);
                self.idle.retain(|idle| *idle != end);
                if let Some(place) = self.busy.iter().position(|pending| pending.end == end) {
                    self.end(net, place, None);
                }
            }
        }
    }

    /// Ends a request, and uses the connection that became free.
    fn end(
        &mut self,
        net: &mut HostContext<'_, '_>,
        place: usize,
        response: Option<&HttpResponse>,
    ) {
        let pending = self.busy.swap_remove(place);
        net.counters.failures += u64::from(response.is_none());
        self.requester.on_end(net.now(), &pending.request, response);
        self.request_next(net);
    }

    /// Uses a connection that became free.
    fn request_next(&mut self, net: &mut HostContext<'_, '_>) {
        self.dispatch(net);
        if self.config.frequency.is_none() && self.next.is_none() {
            // A timer starts the next request, so that a client whose requests all fail at once
            // does not loop.
            let left = self
                .config
                .requests
                .is_none_or(|requests| self.asked < requests);
            self.next = left.then(|| net.now());
        }
    }
}
