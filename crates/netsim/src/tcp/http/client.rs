//! A client: requests objects one after the other, or at a rate, over new or persistent
//! connections.

use super::host_context::{HEAD_BYTES, HostContext};
use crate::apps::Names;
use crate::limits;
use crate::tcp::connections::{HostId, Message, TcpEvent};
use crate::tcp::segment::EndId;
use larder_units::{Stream, Time};
use std::collections::VecDeque;
use std::time::Duration;

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
            start: Time::ZERO,
        }
    }
}

struct Pending {
    end: EndId,
    at: Time,
    /// Bytes of the response's head that have not arrived.
    head_left: u64,
}

pub(super) struct Client {
    config: ClientConfig,
    stream: Stream,
    asked: u64,
    next: Option<Time>,
    /// Requests without a connection: the time of the request, and the object.
    waiting: VecDeque<(Time, u64)>,
    busy: Vec<Pending>,
    idle: Vec<EndId>,
}

impl Client {
    pub(super) fn new(config: ClientConfig, stream: Stream) -> Self {
        let next = Some(config.start);
        Client { config, stream, asked: 0, next, waiting: VecDeque::new(), busy: Vec::new(), idle: Vec::new() }
    }

    pub(super) fn next_timer(&self) -> Option<Time> {
        self.next
    }

    pub(super) fn on_timer(&mut self, net: &mut HostContext<'_, '_>) {
        self.next = None;
        if self.ask(net)
            && let Some(frequency) = self.config.frequency
        {
            let mean = 1.0 / frequency;
            let wait = if self.config.randomize { -mean * (1.0 - self.stream.unit()).ln() } else { mean };
            // The conversion saturates, so a rate near zero gives a very late time.
            self.next = Some(net.now() + Duration::from_nanos((wait * 1e9) as u64));
        }
    }

    /// Makes one request more; returns false if there are no more.
    fn ask(&mut self, net: &mut HostContext<'_, '_>) -> bool {
        let left = self.config.requests.is_none_or(|requests| self.asked < requests);
        let Some(object) = left.then(|| self.config.objects.next(self.asked, &mut self.stream)).flatten() else {
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
            self.busy.push(Pending { end, at, head_left: HEAD_BYTES });
            net.request(end, object);
        }
    }

    pub(super) fn on_tcp_event(&mut self, net: &mut HostContext<'_, '_>, end: EndId, event: TcpEvent) {
        match event {
            TcpEvent::Bytes { message: Message::Response { .. }, bytes, is_all } => {
                let Some(place) = self.busy.iter().position(|asked| asked.end == end) else { return };
                let asked = &mut self.busy[place];
                let of_head = bytes.min(asked.head_left);
                asked.head_left -= of_head;
                net.counters.bytes += bytes - of_head;
                if is_all {
                    net.counters.responses += 1;
                    net.counters.seconds += net.now().since(asked.at).as_secs_f64();
                    self.busy.swap_remove(place);
                    match self.config.keep_alive {
                        true => self.idle.push(end),
                        false => net.close(end),
                    }
                    self.request_next(net);
                }
            }
            TcpEvent::Bytes { .. } => {}
            TcpEvent::Closed | TcpEvent::Failed => {
                net.close(end);
                self.idle.retain(|idle| *idle != end);
                let before = self.busy.len();
                self.busy.retain(|asked| asked.end != end);
                if self.busy.len() < before {
                    net.counters.failures += 1;
                    self.request_next(net);
                }
            }
        }
    }

    /// Uses a connection that became free.
    fn request_next(&mut self, net: &mut HostContext<'_, '_>) {
        self.dispatch(net);
        if self.config.frequency.is_none() && self.next.is_none() {
            // A timer starts the next request, so that a client whose requests all fail at once
            // does not loop.
            let left = self.config.requests.is_none_or(|requests| self.asked < requests);
            self.next = left.then(|| net.now());
        }
    }
}
