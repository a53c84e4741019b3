//! HTTP hosts: clients, caches, origins. They take no time and see no bytes. The requests of a
//! connection follow each other, as in HTTP/1.1.

mod cache;
mod client;
mod host_context;

pub use cache::CacheConfig;
pub use client::ClientConfig;
pub use host_context::HttpCounters;

use super::TcpConfig;
use super::connections::{Connections, HostId, Message, NetworkContext, TcpEvent};
use super::segment::EndId;
use crate::error::ConfigError;
use crate::frame::Frame;
use crate::node::NodeId;
use cache::Cache;
use client::Client;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use host_context::{HEAD_BYTES, HostContext};
use larder_units::{ByteSize, Streams, Time};

/// The configuration of an origin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OriginConfig {
    /// The body size of every object.
    pub body: ByteSize,
}

enum Role {
    Client(Box<Client>),
    Cache(Box<Cache>),
    Origin(OriginConfig),
}

struct Host {
    role: Role,
    counters: HttpCounters,
    /// The time of the valid timer event. Events at other times are void.
    wake: Option<Time>,
}

/// All hosts, and their connections.
pub(crate) struct TcpHosts {
    hosts: Vec<Host>,
    /// The number of hosts at each node.
    counts: HashMap<u32, u32, FixedState>,
    connections: Connections,
}

impl TcpHosts {
    pub(crate) fn new() -> Self {
        TcpHosts { hosts: Vec::new(), counts: HashMap::default(), connections: Connections::new() }
    }

    // ---- What it is made of: each host draws from `streams` of its own ----

    pub(crate) fn add_origin(
        &mut self,
        node: NodeId,
        config: OriginConfig,
        tcp: TcpConfig,
        streams: Streams,
    ) -> HostId {
        self.add(node, tcp, streams, Role::Origin(config))
    }

    pub(crate) fn add_cache(
        &mut self,
        node: NodeId,
        config: CacheConfig,
        tcp: TcpConfig,
        streams: Streams,
    ) -> Result<HostId, ConfigError> {
        let cache = Cache::new(config, &streams)?;
        Ok(self.add(node, tcp, streams, Role::Cache(Box::new(cache))))
    }

    pub(crate) fn add_client(
        &mut self,
        node: NodeId,
        config: ClientConfig,
        tcp: TcpConfig,
        streams: Streams,
    ) -> HostId {
        let client = Client::new(config, streams.stream("requests"));
        self.add(node, tcp, streams, Role::Client(Box::new(client)))
    }

    fn add(&mut self, node: NodeId, tcp: TcpConfig, streams: Streams, role: Role) -> HostId {
        *self.counts.entry(node.0).or_default() += 1;
        self.hosts.push(Host { role, counters: HttpCounters::default(), wake: None });
        self.connections.add_host(node, tcp, streams)
    }

    /// Bytes that connections take.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.connections.held_bytes()
    }

    /// The number of hosts at a node.
    pub(crate) fn hosts_at(&self, node: NodeId) -> u32 {
        self.counts.get(&node.0).copied().unwrap_or_default()
    }

    /// Returns true if there are paths between the nodes of two hosts in both directions.
    pub(crate) fn reaches(&mut self, context: &NetworkContext<'_>, from: HostId, to: HostId) -> bool {
        let [here, there] = [from, to].map(|host| self.connections.node_of(host));
        let mut leads = |from, to| self.connections.path_mtu(context, from, to).is_some();
        leads(here, there) && leads(there, here)
    }

    // ---- What happens ----

    /// Plans the next timer of a host.
    pub(crate) fn plan(&mut self, context: &mut NetworkContext<'_>, host: HostId) {
        let own = &mut self.hosts[host.0 as usize];
        let Role::Client(client) = &own.role else { return };
        let next = client.next_timer().map(|at| at.max(context.now));
        if next != own.wake {
            own.wake = next;
            if let Some(at) = next {
                context.events.plan(at, crate::events::Event::Http { host: host.0 });
            }
        }
    }

    pub(crate) fn on_host_timer(&mut self, context: &mut NetworkContext<'_>, host: u32) {
        let own = &mut self.hosts[host as usize];
        if own.wake != Some(context.now) {
            return;
        }
        own.wake = None;
        self.act(context, HostId(host), |role, net| {
            if let Role::Client(client) = role {
                client.on_timer(net);
            }
        });
    }

    pub(crate) fn on_tcp_timer(&mut self, context: &mut NetworkContext<'_>, end: u32) {
        if let Some(end) = self.connections.on_timer(context.now, end) {
            self.deliver_events(context, end);
        }
    }

    /// Handles a segment at a node that is up.
    pub(crate) fn on_segment(&mut self, context: &mut NetworkContext<'_>, at: NodeId, frame: Frame) {
        match self.connections.destination(&frame) {
            Some((end, to)) if to == at => {
                self.connections.arrive(context, end, &frame);
                self.deliver_events(context, end);
            }
            Some((_, to)) => self.connections.forward(context, at, to, frame),
            // The connection is over, so the segment is dropped.
            None => {}
        }
    }

    /// Delivers the events of an end to its host, and sends what the end has to send.
    fn deliver_events(&mut self, context: &mut NetworkContext<'_>, end: EndId) {
        while let Some(host) = self.connections.host_of(end)
            && let Some(event) = self.connections.next_event(end)
        {
            let there = EndId { number: end.number ^ 1, ..end };
            let other = self.connections.host_of(there);
            if event == TcpEvent::Failed {
                self.connections.forget(end);
            }
            self.act(context, host, |role, net| role.on_tcp_event(net, end, event));
            if let Some(other) = other.filter(|_| event == TcpEvent::Failed) {
                self.act(context, other, |role, net| role.on_tcp_event(net, there, event));
            }
        }
        self.connections.flush(context, end);
    }

    fn act(
        &mut self,
        context: &mut NetworkContext<'_>,
        host: HostId,
        act: impl FnOnce(&mut Role, &mut HostContext<'_, '_>),
    ) {
        let Host { role, counters, .. } = &mut self.hosts[host.0 as usize];
        act(role, &mut HostContext { connections: &mut self.connections, context, counters, host });
        self.plan(context, host);
    }

    // ---- What has become of it ----

    pub(crate) fn counters(&self, host: HostId) -> HttpCounters {
        HttpCounters { tcp: self.connections.counters(host), ..self.hosts[host.0 as usize].counters }
    }

    /// The number of objects in a cache, and their bytes.
    pub(crate) fn stored(&self, host: HostId) -> (usize, ByteSize) {
        match &self.hosts[host.0 as usize].role {
            Role::Cache(cache) => cache.stored(),
            _ => (0, ByteSize::from_bytes(0)),
        }
    }

    /// The number of open connections.
    pub(crate) fn connections(&self) -> usize {
        self.connections.count()
    }
}

impl Role {
    fn on_tcp_event(&mut self, net: &mut HostContext<'_, '_>, end: EndId, event: TcpEvent) {
        match self {
            Role::Client(client) => client.on_tcp_event(net, end, event),
            Role::Cache(cache) => cache.on_tcp_event(net, end, event),
            Role::Origin(OriginConfig { body }) => match event {
                TcpEvent::Bytes { message: Message::Request { object }, is_all: true, .. } => {
                    net.counters.requests += 1;
                    net.respond(end, object, body.bytes(), HEAD_BYTES + body.bytes());
                }
                TcpEvent::Closed => net.close(end),
                _ => {}
            },
        }
    }
}
