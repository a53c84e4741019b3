//! What an HTTP host uses during a call: its connections, its counters, the network.

use crate::tcp::TcpCounters;
use crate::tcp::connections::{Connections, HostId, Message, NetworkContext};
use crate::tcp::segment::EndId;
use larder_units::Time;

/// Bytes of a request: wget's for a short name.
const REQUEST_BYTES: u64 = 150;

/// Bytes of a response's head: lighttpd's.
pub(super) const HEAD_BYTES: u64 = 250;

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
    /// For a cache: requests for stored objects.
    pub hits: u64,
    /// For a cache: requests that joined a fetch in flight.
    pub joined: u64,
    /// For a cache: requests that it sent upstream.
    pub misses: u64,
    /// For a cache: evicted objects.
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
            joined: self.joined - before.joined,
            misses: self.misses - before.misses,
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

    pub(super) fn request(&mut self, end: EndId, object: u64) {
        self.connections.begin(end, REQUEST_BYTES, Message::Request { object });
        self.connections.write(self.context, end, REQUEST_BYTES);
    }

    /// Begins a response of which this many bytes are available, including the head.
    pub(super) fn respond(&mut self, end: EndId, object: u64, body: u64, there: u64) {
        self.counters.responses += 1;
        self.connections.begin(end, HEAD_BYTES + body, Message::Response { object, body });
        self.connections.write(self.context, end, there);
    }

    pub(super) fn write(&mut self, end: EndId, bytes: u64) {
        self.connections.write(self.context, end, bytes);
    }

    pub(super) fn close(&mut self, end: EndId) {
        self.connections.close(self.context, end);
    }
}
