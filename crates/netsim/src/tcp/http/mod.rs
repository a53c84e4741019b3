//! HTTP hosts: clients, caches, origins. They take no time and see no bytes. The requests of a
//! connection follow each other, as in HTTP/1.1.

mod caching_proxy;
mod client;
mod host_context;
mod origin;

pub use caching_proxy::{CacheConfig, HttpPurge};
pub use client::{ClientConfig, Requester};
pub use host_context::HttpCounters;
pub use origin::{Origin, OriginConfig};

use super::TcpConfig;
use super::connections::{Connections, HostId, NetworkContext, TcpEvent};
use super::messages::Message;
use super::segment::EndId;
use crate::error::ConfigError;
use crate::frame::Frame;
use crate::node::NodeId;
use caching_proxy::CachingProxy;
use client::Client;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use host_context::HostContext;
use larder_units::{Streams, Time};
use origin::ConfiguredOrigin;

enum Role {
    Client(Box<Client>),
    Cache(Box<CachingProxy>),
    Origin(Box<dyn Origin>),
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
        TcpHosts {
            hosts: Vec::new(),
            counts: HashMap::default(),
            connections: Connections::new(),
        }
    }

    // ---- What it is made of: each host draws from `streams` of its own ----

    pub(crate) fn add_origin(
        &mut self,
        node: NodeId,
        origin: Box<dyn Origin>,
        tcp: TcpConfig,
        streams: Streams,
    ) -> HostId {
        self.add(node, tcp, streams, Role::Origin(origin))
    }

    pub(crate) fn add_configured_origin(
        &mut self,
        node: NodeId,
        config: OriginConfig,
        tcp: TcpConfig,
        streams: Streams,
    ) -> HostId {
        self.add_origin(node, Box::new(ConfiguredOrigin::new(config)), tcp, streams)
    }

    pub(crate) fn add_cache(
        &mut self,
        node: NodeId,
        config: CacheConfig,
        tcp: TcpConfig,
        streams: Streams,
    ) -> Result<HostId, ConfigError> {
        let cache = CachingProxy::new(config, &streams)?;
        Ok(self.add(node, tcp, streams, Role::Cache(Box::new(cache))))
    }

    pub(crate) fn add_client(
        &mut self,
        node: NodeId,
        config: ClientConfig,
        tcp: TcpConfig,
        streams: Streams,
        requester: Option<Box<dyn Requester>>,
    ) -> HostId {
        let client = Client::new(config, &streams, requester);
        self.add(node, tcp, streams, Role::Client(Box::new(client)))
    }

    fn add(&mut self, node: NodeId, tcp: TcpConfig, streams: Streams, role: Role) -> HostId {
        *self.counts.entry(node.0).or_default() += 1;
        self.hosts.push(Host {
            role,
            counters: HttpCounters::default(),
            wake: None,
        });
        self.connections.add_host(node, tcp, streams)
    }

    /// Bytes that connections, and bodies in progress in caches, take.
    pub(crate) fn held_bytes(&self) -> u64 {
        let filling = |host: &Host| match &host.role {
            Role::Cache(cache) => cache.cache().filling().bytes(),
            _ => 0,
        };
        self.connections.held_bytes() + self.hosts.iter().map(filling).sum::<u64>()
    }

    /// The number of hosts at a node.
    pub(crate) fn hosts_at(&self, node: NodeId) -> u32 {
        self.counts.get(&node.0).copied().unwrap_or_default()
    }

    /// Plans a purge. Returns false if the host is not a cache.
    pub(crate) fn plan_purge(
        &mut self,
        context: &mut NetworkContext<'_>,
        host: HostId,
        at: Time,
        purge: HttpPurge,
    ) -> bool {
        let Role::Cache(cache) = &mut self.hosts[host.0 as usize].role else {
            return false;
        };
        cache.plan_purge(at, purge);
        self.plan(context, host);
        true
    }

    /// Returns true if there are paths between the nodes of two hosts in both directions.
    pub(crate) fn reaches(
        &mut self,
        context: &NetworkContext<'_>,
        from: HostId,
        to: HostId,
    ) -> bool {
        let [here, there] = [from, to].map(|host| self.connections.node_of(host));
        let mut leads = |from, to| self.connections.path_mtu(context, from, to).is_some();
        leads(here, there) && leads(there, here)
    }

    /// Forgets the paths of segments, after the routes have changed.
    pub(crate) fn forget_paths(&mut self) {
        self.connections.forget_paths();
    }

    // ---- What happens ----

    /// Plans the next timer of a host.
    pub(crate) fn plan(&mut self, context: &mut NetworkContext<'_>, host: HostId) {
        let own = &mut self.hosts[host.0 as usize];
        let next = match &own.role {
            Role::Client(client) => client.next_timer(),
            Role::Cache(cache) => cache.next_timer(),
            Role::Origin(_) => None,
        };
        let next = next.map(|at| at.max(context.now));
        if next != own.wake {
            own.wake = next;
            if let Some(at) = next {
                context
                    .events
                    .plan(at, crate::events::Event::Http { host: host.0 });
            }
        }
    }

    pub(crate) fn on_host_timer(&mut self, context: &mut NetworkContext<'_>, host: u32) {
        let own = &mut self.hosts[host as usize];
        if own.wake != Some(context.now) {
            return;
        }
        own.wake = None;
        self.act(context, HostId(host), |role, net| match role {
            Role::Client(client) => client.on_timer(net),
            Role::Cache(cache) => cache.on_timer(net),
            Role::Origin(_) => {}
        });
    }

    pub(crate) fn on_tcp_timer(&mut self, context: &mut NetworkContext<'_>, end: u32) {
        if let Some(end) = self.connections.on_timer(context.now, end) {
            self.deliver_events(context, end);
        }
    }

    /// Handles a segment at a node that is up.
    pub(crate) fn on_segment(
        &mut self,
        context: &mut NetworkContext<'_>,
        at: NodeId,
        frame: Frame,
    ) {
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
            let there = EndId {
                number: end.number ^ 1,
                ..end
            };
            let other = self.connections.host_of(there);
            let has_failed = matches!(event, TcpEvent::Failed);
            if has_failed {
                self.connections.forget(end);
            }
            self.act(context, host, |role, net| {
                role.on_tcp_event(net, end, event)
            });
            if let Some(other) = other.filter(|_| has_failed) {
                self.act(context, other, |role, net| {
                    role.on_tcp_event(net, there, TcpEvent::Failed)
                });
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
        act(
            role,
            &mut HostContext {
                connections: &mut self.connections,
                context,
                counters,
                host,
            },
        );
        self.plan(context, host);
    }

    // ---- What has become of it ----

    pub(crate) fn counters(&self, host: HostId) -> HttpCounters {
        let host_slot = &self.hosts[host.0 as usize];
        let counters = HttpCounters {
            tcp: self.connections.counters(host),
            ..host_slot.counters
        };
        match &host_slot.role {
            Role::Cache(cache) => cache.counters(counters),
            _ => counters,
        }
    }

    /// The HTTP cache of a host, if the host is a cache.
    pub(crate) fn cache(&self, host: HostId) -> Option<&larder_http::Cache> {
        match &self.hosts[host.0 as usize].role {
            Role::Cache(cache) => Some(cache.cache()),
            _ => None,
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
            Role::Origin(origin) => match event {
                TcpEvent::Bytes {
                    message: Message::Request(request, length),
                    bytes,
                } if bytes.end == length => {
                    net.counters.requests += 1;
                    let response = origin.respond(net.now(), &request);
                    net.respond(end, response);
                }
                TcpEvent::Closed => net.close(end),
                _ => {}
            },
        }
    }
}
