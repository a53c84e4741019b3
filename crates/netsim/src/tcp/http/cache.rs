//! A cache between clients and origins: the policy engine decides what it keeps, and misses go to
//! the next cache or the origin.
//!
//! A body is forwarded as it arrives, and stored when it is complete. The policy decides on
//! admission by the object's size; free room is filled without asking it, as in the node's caches.
//! With collapsing, requests for an object in flight join its fetch, as in Larder's node (and in
//! Squid if configured). Without it, each of them is a miss. Objects are always fresh.

use super::host_context::{HEAD_BYTES, HostContext};
use crate::error::ConfigError;
use crate::tcp::connections::{HostId, Message, TcpEvent};
use crate::tcp::segment::EndId;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use larder_policy::{Engine, Slot, Spec};
use larder_units::{ByteSize, Streams};

/// The configuration of a cache.
#[derive(Clone, Debug)]
pub struct CacheConfig {
    /// The cache or origin that serves its misses.
    pub upstream: HostId,
    /// The admission and eviction policy.
    pub policy: Spec,
    /// The capacity in bytes of bodies.
    pub capacity: ByteSize,
    /// Whether requests for an object in flight join its fetch.
    pub collapse: bool,
    /// Whether it keeps its connections to the upstream.
    pub keep_alive: bool,
}

/// A fetch of an object from the upstream.
struct UpstreamFetch {
    object: u64,
    waiting: Vec<EndId>,
    /// The length of the body, once the head has arrived.
    body: Option<u64>,
    /// Received bytes, including the head.
    received: u64,
}

pub(super) struct Cache {
    config: CacheConfig,
    engine: Engine,
    /// The slot and the body length of each stored object.
    index: HashMap<u64, (Slot, u64), FixedState>,
    /// The fetches, by the number of this cache's end of the upstream connection.
    fetches: HashMap<u32, UpstreamFetch, FixedState>,
    /// The fetch that requests for an object join.
    by_object: HashMap<u64, u32, FixedState>,
    idle: Vec<EndId>,
    victims: Vec<Slot>,
}

impl Cache {
    pub(super) fn new(config: CacheConfig, streams: &Streams) -> Result<Self, ConfigError> {
        if config.policy.needs_path() {
            return Err(ConfigError::PolicyNeedsPath(Box::new(config.policy)));
        }
        let engine = Engine::new(&config.policy, config.capacity, streams);
        Ok(Cache {
            engine: engine.map_err(|error| ConfigError::Policy { cache: "an HTTP cache".to_owned(), error })?,
            config,
            index: HashMap::default(),
            fetches: HashMap::default(),
            by_object: HashMap::default(),
            idle: Vec::new(),
            victims: Vec::new(),
        })
    }

    pub(super) fn stored(&self) -> (usize, ByteSize) {
        (self.engine.len(), self.engine.used())
    }

    pub(super) fn on_tcp_event(&mut self, net: &mut HostContext<'_, '_>, end: EndId, event: TcpEvent) {
        match event {
            TcpEvent::Bytes { message: Message::Request { object }, is_all: true, .. } => {
                self.on_request(net, end, object)
            }
            TcpEvent::Bytes { message: Message::Request { .. }, .. } => {}
            TcpEvent::Bytes { message: Message::Response { body, .. }, bytes, is_all } => {
                self.on_response(net, end, body, bytes, is_all);
            }
            TcpEvent::Closed | TcpEvent::Failed => self.on_closed(net, end),
        }
    }

    fn on_request(&mut self, net: &mut HostContext<'_, '_>, end: EndId, object: u64) {
        net.counters.requests += 1;
        if let Some((slot, body)) = self.index.get(&object).copied() {
            net.counters.hits += 1;
            self.engine.hit(slot, object, net.now());
            return net.respond(end, object, body, HEAD_BYTES + body);
        }
        let fetch = self.by_object.get(&object).and_then(|number| self.fetches.get_mut(number));
        if let Some(fetch) = fetch.filter(|_| self.config.collapse) {
            net.counters.joined += 1;
            fetch.waiting.push(end);
            if let Some(body) = fetch.body {
                net.respond(end, object, body, fetch.received);
            }
            return;
        }
        net.counters.misses += 1;
        self.engine.miss(object, net.now());
        let Some(upstream) = self.idle.pop().or_else(|| net.open(self.config.upstream)) else {
            return net.close(end);
        };
        self.fetches.insert(upstream.number, UpstreamFetch { object, waiting: vec![end], body: None, received: 0 });
        self.by_object.insert(object, upstream.number);
        net.request(upstream, object);
    }

    fn on_response(&mut self, net: &mut HostContext<'_, '_>, upstream: EndId, body: u64, bytes: u64, is_all: bool) {
        let Some(fetch) = self.fetches.get_mut(&upstream.number) else { return };
        fetch.received += bytes;
        let begins = fetch.body.replace(body).is_none();
        for end in &fetch.waiting {
            match begins {
                true => net.respond(*end, fetch.object, body, bytes),
                false => net.write(*end, bytes),
            }
        }
        if is_all {
            if let Some(fetch) = self.finish(upstream.number) {
                self.store(net, fetch.object, body);
            }
            match self.config.keep_alive {
                true => self.idle.push(upstream),
                false => net.close(upstream),
            }
        }
    }

    fn finish(&mut self, number: u32) -> Option<UpstreamFetch> {
        let fetch = self.fetches.remove(&number)?;
        if self.by_object.get(&fetch.object) == Some(&number) {
            self.by_object.remove(&fetch.object);
        }
        Some(fetch)
    }

    fn store(&mut self, net: &mut HostContext<'_, '_>, object: u64, body: u64) {
        let now = net.now();
        // Without collapsing, another fetch may have stored it.
        if self.index.contains_key(&object) || !self.engine.admit_or_fill(object, body, now) {
            return;
        }
        self.victims.clear();
        if !self.engine.make_room(object, body, now, &mut self.victims) {
            return;
        }
        for victim in &self.victims {
            net.counters.evictions += 1;
            if let Some(id) = self.engine.last_id(*victim) {
                self.index.remove(&id);
            }
        }
        if let Some(slot) = self.engine.insert(object, body, now, &mut self.victims) {
            self.index.insert(object, (slot, body));
        }
        // Tuning jobs run at once, since they take no virtual time.
        while let Some(job) = self.engine.job() {
            let done = job.run();
            self.engine.complete(done);
        }
    }

    /// Handles a closed connection. If the upstream closed it, the waiting clients' connections are
    /// closed.
    fn on_closed(&mut self, net: &mut HostContext<'_, '_>, end: EndId) {
        net.close(end);
        self.idle.retain(|idle| *idle != end);
        if end.number.is_multiple_of(2)
            && let Some(fetch) = self.finish(end.number)
        {
            fetch.waiting.iter().for_each(|waiting| net.close(*waiting));
        }
    }
}
