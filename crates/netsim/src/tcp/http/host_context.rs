//! What an HTTP host uses during a call: its connections, its counters, the network.

use crate::tcp::TcpCounters;
use crate::tcp::connections::{Connections, HostId, NetworkContext};
use crate::tcp::messages::{HttpRequest, HttpResponse, Message};
use crate::tcp::segment::EndId;
use larder_units::Time;
use std::sync::Arc;

/// The counters of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HttpCounters {
    /// Requests sent (client) or received (cache, origin).
    pub requests: u64,
    /// Complete responses (client), or started ones (cache, origin).
    pub responses: u64,
    /// For a client: requests whose connection failed or closed too early.
    pub failures: u64,
    /// For a client: bytes of bodies.
    pub bytes: u64,
    /// For a client: the sum of the seconds from the request to the last byte, over all complete
    /// responses. The wait for a connection is included.
    pub seconds: f64,
    /// Opened connections.
    pub connections: u64,
    /// For a cache: requests that a stored response answered without the upstream.
    pub hits: u64,
    /// For a cache: stale responses among the answers.
    pub stale: u64,
    /// For a cache: requests that joined a fetch in flight.
    pub joined: u64,
    /// For a cache: requests that it sent upstream, validations included.
    pub misses: u64,
    /// For a cache: stored responses that the upstream confirmed by a 304.
    pub validated: u64,
    /// For a cache: evicted responses.
    pub evictions: u64,
    /// The counters of its TCP senders.
    pub tcp: TcpCounters,
}

impl HttpCounters {
    /// What was counted since an earlier reading.
    pub fn since(&self, before: &HttpCounters) -> HttpCounters {
        HttpCounters {
            requests: self.requests - before.requests,
            responses: self.responses - before.responses,
            failures: self.failures - before.failures,
            bytes: self.bytes - before.bytes,
            seconds: self.seconds - before.seconds,
            connections: self.connections - before.connections,
            hits: self.hits - before.hits,
            stale: self.stale - before.stale,
            joined: self.joined - before.joined,
            misses: self.misses - before.misses,
            validated: self.validated - before.validated,
            evictions: self.evictions - before.evictions,
            tcp: self.tcp.since(&before.tcp),
        }
    }
}

/// The view of one host during a call.
pub(super) struct HostContext<'a, 'w> {
    pub(super) connections: &'a mut Connections,
    pub(super) context: &'a mut NetworkContext<'w>,
    pub(super) counters: &'a mut HttpCounters,
    pub(super) host: HostId,
}

impl HostContext<'_, '_> {
    pub(super) fn now(&self) -> Time {
        self.context.now
    }

    pub(super) fn open(&mut self, to: HostId) -> Option<EndId> {
        let opened = self.connections.open(self.context, self.host, to);
        self.counters.connections += u64::from(opened.is_some());
        opened
    }

    pub(super) fn request(&mut self, end: EndId, request: Arc<HttpRequest>) {
        let message = Message::request(request);
        let bytes = message.bytes();
        self.connections.begin(end, message);
        self.connections.write(self.context, end, bytes);
    }

    /// Begins a response. Returns the length of its head, which [`HostContext::write`] has to
    /// provide before the body.
    pub(super) fn begin(&mut self, end: EndId, response: HttpResponse) -> u64 {
        self.counters.responses += 1;
        let body = response.body;
        let message = Message::response(response);
        let head = message.bytes() - body;
        self.connections.begin(end, message);
        head
    }

    /// Sends a response with its whole body.
    pub(super) fn respond(&mut self, end: EndId, response: HttpResponse) {
        let body = response.body;
        let head = self.begin(end, response);
        self.write(end, head + body);
    }

    pub(super) fn write(&mut self, end: EndId, bytes: u64) {
        self.connections.write(self.context, end, bytes);
    }

    pub(super) fn close(&mut self, end: EndId) {
        self.connections.close(self.context, end);
    }
}
