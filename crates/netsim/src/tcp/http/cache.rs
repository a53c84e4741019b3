//! A cache between clients and origins: objects kept by the policy engine, misses fetched from the
//! next cache or the origin.
//!
//! A body goes on to who asked as it comes, and is kept when it is complete; it is asked of the
//! policy by its size, and free room is filled without asking, as the node's caches do. With
//! collapsing, requests for what is on its way join it, as in Larder's node (and in Squid where it
//! is told so); without, each is a miss of its own. Everything is fresh for ever.

use super::{HEAD_BYTES, HostId, Message, Net, TcpEvent};
use crate::error::ConfigError;
use crate::tcp::segment::EndId;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use larder_policy::{Engine, Slot, Spec};
use larder_units::{ByteSize, Streams};

/// What a cache is like.
#[derive(Clone, Debug)]
pub struct CacheConfig {
    /// The cache or origin that it asks for what it has not got.
    pub upstream: HostId,
    /// What it keeps.
    pub policy: Spec,
    /// Bytes of bodies.
    pub capacity: ByteSize,
    /// Whether requests for what is on its way join it.
    pub collapse: bool,
    /// Whether it keeps its connections to the next one.
    pub keep_alive: bool,
}

/// An object on its way.
struct Flight {
    object: u64,
    waiting: Vec<EndId>,
    /// Of the body, once the head has come.
    body: Option<u64>,
    /// Bytes that came, the head's among them.
    come: u64,
}

pub(super) struct Cache {
    config: CacheConfig,
    engine: Engine,
    /// Slot and body of what is stored.
    index: HashMap<u64, (Slot, u64), FixedState>,
    /// By the number of the connection's end that brings it.
    flights: HashMap<u32, Flight, FixedState>,
    /// Which flight to join.
    under_way: HashMap<u64, u32, FixedState>,
    idle: Vec<EndId>,
    victims: Vec<Slot>,
}

impl Cache {
    pub(super) fn new(config: CacheConfig, streams: &Streams) -> Result<Self, ConfigError> {
        if config.policy.needs_path() {
            return Err(ConfigError::new(format!(
                "the policy {} asks for a cache's place on the path, which HTTP does not tell; it is for nodes' Content Stores",
                config.policy
            )));
        }
        let engine = Engine::new(&config.policy, config.capacity, streams);
        Ok(Cache {
            engine: engine.map_err(|error| ConfigError::new(error.to_string()))?,
            config,
            index: HashMap::default(),
            flights: HashMap::default(),
            under_way: HashMap::default(),
            idle: Vec::new(),
            victims: Vec::new(),
        })
    }

    pub(super) fn stored(&self) -> (usize, ByteSize) {
        (self.engine.len(), self.engine.used())
    }

    pub(super) fn on_tcp_event(&mut self, net: &mut Net<'_, '_>, end: EndId, event: TcpEvent) {
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

    fn on_request(&mut self, net: &mut Net<'_, '_>, end: EndId, object: u64) {
        net.counters.requests += 1;
        if let Some((slot, body)) = self.index.get(&object).copied() {
            net.counters.hits += 1;
            self.engine.hit(slot, object, net.now());
            return net.respond(end, object, body, HEAD_BYTES + body);
        }
        let flight = self.under_way.get(&object).and_then(|number| self.flights.get_mut(number));
        if let Some(flight) = flight.filter(|_| self.config.collapse) {
            net.counters.joined += 1;
            flight.waiting.push(end);
            if let Some(body) = flight.body {
                net.respond(end, object, body, flight.come);
            }
            return;
        }
        net.counters.misses += 1;
        self.engine.miss(object, net.now());
        let Some(upstream) = self.idle.pop().or_else(|| net.open(self.config.upstream)) else {
            return net.close(end);
        };
        self.flights.insert(upstream.number, Flight { object, waiting: vec![end], body: None, come: 0 });
        self.under_way.insert(object, upstream.number);
        net.request(upstream, object);
    }

    fn on_response(&mut self, net: &mut Net<'_, '_>, upstream: EndId, body: u64, bytes: u64, is_all: bool) {
        let Some(flight) = self.flights.get_mut(&upstream.number) else { return };
        flight.come += bytes;
        let begins = flight.body.replace(body).is_none();
        for end in &flight.waiting {
            match begins {
                true => net.respond(*end, flight.object, body, bytes),
                false => net.write(*end, bytes),
            }
        }
        if is_all {
            if let Some(flight) = self.land(upstream.number) {
                self.store(net, flight.object, body);
            }
            match self.config.keep_alive {
                true => self.idle.push(upstream),
                false => net.close(upstream),
            }
        }
    }

    fn land(&mut self, number: u32) -> Option<Flight> {
        let flight = self.flights.remove(&number)?;
        if self.under_way.get(&flight.object) == Some(&number) {
            self.under_way.remove(&flight.object);
        }
        Some(flight)
    }

    fn store(&mut self, net: &mut Net<'_, '_>, object: u64, body: u64) {
        let now = net.now();
        // Without collapsing, another may have brought it meanwhile.
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
        // Tuning is done here and now: virtual time does not pass.
        while let Some(job) = self.engine.job() {
            let done = job.run();
            self.engine.complete(done);
        }
    }

    /// A client has done, or whom it asked has gone away: then those who waited are told by the end
    /// of their connection.
    fn on_closed(&mut self, net: &mut Net<'_, '_>, end: EndId) {
        net.close(end);
        self.idle.retain(|idle| *idle != end);
        if end.number.is_multiple_of(2)
            && let Some(flight) = self.land(end.number)
        {
            flight.waiting.iter().for_each(|waiting| net.close(*waiting));
        }
    }
}
