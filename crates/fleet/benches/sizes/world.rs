//! A fleet in virtual time: the real cores of the nodes, over the model of the servers.

use crate::servers::{
    APPEND, CORES, Delivery, Log, MESSAGE, SERVERS, Server, WRITE, Word, delivery_of,
    delivery_of_note,
};
use larder_fleet::{
    Acceptor, AcceptorConfig, Action, Follower, FollowerConfig, FollowerState, Id, JournalAction,
    JournalKey, LogDescription, Mark, Members, Message, Outbox, PeerOffer, Publication, ReadAnswer,
    Standing, Token, limits,
};
use larder_units::{Stream, Streams, Time};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

pub const MAX_LAG: Duration = Duration::from_secs(30);

/// From a node to its server, and between servers.
const HOP: Duration = Duration::from_micros(250);

/// What a hop takes longer, at most.
const JITTER: u64 = 200_000;

/// A node's time for a message.
const NODE_MESSAGE: Duration = Duration::from_micros(20);

/// A purge is on the disk of the node that takes it after this.
const SYNC: Duration = Duration::from_millis(1);

/// The time between two looks at the proofs of all nodes.
const LOOK: Duration = Duration::from_millis(100);

/// The longest pause of a node before it connects again.
const RECONNECT: u64 = 2_000;

/// Bytes of a beat, a purge of one URL and a renewal, as the model has them.
const BEAT_BYTES: u64 = 202;
const PURGE_BYTES: u64 = 370;
const RENEWAL_BYTES: u64 = 380;

/// What a node gets.
enum NodeEvent {
    Messages(Rc<[Delivery]>),
    Acknowledged(Id, u64),
    Description(Token, LogDescription),
    Read(Token, ReadAnswer),
    Leases(Vec<String>),
    Journaled(JournalKey),
    Timer,
    Connect,
}

enum Event {
    /// For a node, on this of its connections.
    Node(usize, u32, NodeEvent),
    /// A server sends what waits.
    Send(usize),
    /// An entry arrives at the leader.
    Publish(usize, u32, Publication),
    /// The majority has an entry.
    Committed(usize, u32, Publication),
    Describe(usize, u32, Token),
    Read(usize, u32, Token, u64, u64),
    ReadLeases(usize, u32),
    /// A server has a message for all nodes.
    Deliver(usize, Delivery),
    /// A client purges, and the next one comes after this.
    Purge(Duration),
}

struct Node {
    follower: Follower,
    acceptor: Acceptor,
    members: Members,
    standing: Standing,
    server: usize,
    is_connected: bool,
    connection: u32,
    busy_until: Time,
    timer: Option<Time>,
}

impl Node {
    fn new(number: usize, chance: &mut Stream) -> Node {
        let name = format!("node-{number:05}");
        let config = FollowerConfig {
            node: name.clone(),
            max_lag: MAX_LAG,
            beats: limits::BEATS,
        };
        let offer = offer_of(number);
        let mut node = Node {
            follower: Follower::new(config, u128::from(chance.bits())),
            acceptor: Acceptor::new(AcceptorConfig::default(), u128::from(chance.bits())),
            members: Members::new(&name, Some(offer)),
            standing: Standing {
                instance: format!("{:016x}", chance.bits()),
                version: "0.1.0".to_owned(),
                state: "lagging".to_owned(),
                applied: 0,
                behind: 0,
            },
            server: number % SERVERS,
            is_connected: false,
            connection: 0,
            busy_until: Time::ZERO,
            timer: None,
        };
        node.follower.on_started(None, Vec::new());
        node
    }

    fn is_fresh(&self, now: Time) -> bool {
        let until = self.follower.fresh_until();
        until.is_some_and(|until| !until.has_passed(now))
    }
}

/// Returns what a node offers.
pub fn offer_of(number: usize) -> PeerOffer {
    let host = Ipv4Addr::from_bits(0x0a00_0000 + number as u32);
    PeerOffer {
        address: SocketAddr::new(host.into(), 7443),
        capacity: 1 << 40,
        zone: String::new(),
    }
}

/// What happened since it was taken the last time.
#[derive(Default)]
pub struct Seen {
    pub elapsed: Duration,
    /// Entries of the log: beats, purges, barriers.
    pub entries: u64,
    /// Renewals of leases.
    pub renewals: u64,
    /// Messages from servers to nodes, and their bytes.
    pub delivered: u64,
    pub bytes: u64,
    /// The share of the processors of the busiest server.
    pub busy: f64,
    /// From the journal of one node to the cache of the last one.
    pub purges: Vec<Duration>,
    /// Seconds of nodes without a proof.
    pub not_fresh: f64,
}

/// Returns what a fleet of so many nodes would see in a second: all nodes get each entry, each
/// renewal, and the whole bucket of leases from time to time.
pub fn expected(count: usize, purges: u64) -> Seen {
    let nodes = count as u64;
    let beats = nodes * u64::from(limits::BEATS_OF_MANY) / MAX_LAG.as_secs();
    let (entries, renewals) = (beats + purges, nodes / limits::RENEW_LONGEST.as_secs());
    let again = limits::RENEW_LONGEST * limits::LEASES_AGAIN;
    let leases = nodes * nodes / again.as_secs();
    let written = nodes * (entries + renewals);
    let cost = (WRITE + MESSAGE) * u32::try_from(written / SERVERS as u64).unwrap_or(u32::MAX)
        + MESSAGE * u32::try_from(leases / SERVERS as u64).unwrap_or(u32::MAX)
        + APPEND * u32::try_from(entries + renewals).unwrap_or(u32::MAX);
    Seen {
        elapsed: Duration::from_secs(1),
        entries,
        renewals,
        delivered: written + leases,
        bytes: nodes * (beats * BEAT_BYTES + purges * PURGE_BYTES + renewals * RENEWAL_BYTES)
            + leases * RENEWAL_BYTES,
        busy: cost.as_secs_f64() / f64::from(CORES),
        ..Seen::default()
    }
}

pub struct World {
    pub now: Time,
    chance: Stream,
    events: BinaryHeap<Reverse<(Time, u64, usize)>>,
    slots: Vec<Option<Event>>,
    free: Vec<usize>,
    number: u64,
    nodes: Vec<Node>,
    servers: [Server; SERVERS],
    log: Log,
    leader: usize,
    /// Nobody leads until then.
    leaderless_until: Time,
    /// When a purge was taken, and how many nodes have not executed it.
    purges: HashMap<Id, (Time, usize)>,
    /// The time between two purges; `None` without purges.
    purge_pause: Option<Duration>,
    seen: Seen,
    seen_since: Time,
    /// When the nodes' proofs are looked at again.
    next_look: Time,
    /// The names in the bucket of leases, which is in the memory of the servers.
    bucket: BTreeSet<Arc<str>>,
}

impl World {
    /// Starts so many nodes within ten seconds.
    pub fn new(count: usize, seed: u64) -> World {
        let mut chance = Streams::new(seed).stream("sizes");
        let nodes = (0..count).map(|number| Node::new(number, &mut chance));
        let mut world = World {
            now: Time::from_secs(1),
            nodes: nodes.collect(),
            chance,
            events: BinaryHeap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            number: 0,
            servers: Default::default(),
            log: Log::default(),
            leader: 0,
            leaderless_until: Time::ZERO,
            purges: HashMap::new(),
            purge_pause: None,
            seen: Seen::default(),
            seen_since: Time::from_secs(1),
            next_look: Time::from_secs(1),
            bucket: BTreeSet::new(),
        };
        // The phases of their beats are those of nodes that have started at any time.
        for node in 0..count {
            let pause = Duration::from_millis(world.chance.below(10_000));
            world.after(pause, Event::Node(node, 0, NodeEvent::Connect));
        }
        world
    }

    pub fn run_for(&mut self, span: Duration) {
        let end = self.now + span;
        while let Some(Reverse((at, _, _))) = self.events.peek() {
            if *at > end {
                break;
            }
            let Some(Reverse((at, _, slot))) = self.events.pop() else {
                break;
            };
            self.now = at;
            while self.next_look <= at {
                let look = self.next_look;
                let without = self.nodes.iter().filter(|node| !node.is_fresh(look));
                self.seen.not_fresh += without.count() as f64 * LOOK.as_secs_f64();
                self.next_look += LOOK;
            }
            let event = self.slots[slot].take().expect("a slot has one event");
            self.free.push(slot);
            self.step(event);
        }
        self.now = end;
    }

    /// Returns what happened, and begins anew.
    pub fn take_seen(&mut self) -> Seen {
        let mut seen = std::mem::take(&mut self.seen);
        seen.elapsed = self.now.since(self.seen_since);
        self.seen_since = self.now;
        for server in &mut self.servers {
            seen.delivered += std::mem::take(&mut server.messages);
            seen.bytes += std::mem::take(&mut server.bytes);
            let busy = std::mem::take(&mut server.busy);
            seen.busy = seen
                .busy
                .max(busy.as_secs_f64() / seen.elapsed.as_secs_f64());
        }
        seen.purges.sort();
        seen
    }

    /// Clients purge so often, at any node.
    pub fn set_purges(&mut self, a_second: u32) {
        self.purge_pause = Duration::from_secs(1).checked_div(a_second);
        if let Some(pause) = self.purge_pause {
            self.after(pause, Event::Purge(pause));
        }
    }

    /// Returns whether all nodes follow the log, up to its last entries, and know each other.
    pub fn is_settled(&self) -> bool {
        let (last, count) = (self.log.entries.len() as u64, self.nodes.len());
        self.nodes.iter().all(|node| {
            node.follower.state(self.now) == FollowerState::Following
                && node.follower.applied() + 64 >= last
                && node.members.count() == count
        })
    }

    /// The number of nodes that other nodes believe lost.
    pub fn believed_lost(&self) -> usize {
        let lost = self.nodes.iter().map(|node| node.members.lost().count());
        lost.max().unwrap_or(0)
    }

    /// The leader ends, and is replaced after an election.
    pub fn kill_leader(&mut self) {
        let dead = self.leader;
        self.servers[dead].is_down = true;
        self.servers[dead].waiting.clear();
        self.leader = (dead + 1) % SERVERS;
        self.leaderless_until = self.now + Duration::from_millis(6_500);
        for node in 0..self.nodes.len() {
            if self.nodes[node].server == dead {
                self.disconnect(node);
                self.connect_later(node);
            }
        }
    }

    /// All servers are away, and lose what is in their memory.
    pub fn stop_servers(&mut self) {
        self.bucket.clear();
        for server in &mut self.servers {
            server.is_down = true;
            server.waiting.clear();
        }
        for node in 0..self.nodes.len() {
            self.disconnect(node);
        }
    }

    /// All servers are there again.
    pub fn start_servers(&mut self) {
        for server in &mut self.servers {
            server.is_down = false;
        }
        for node in 0..self.nodes.len() {
            if !self.nodes[node].is_connected {
                self.connect_later(node);
            }
        }
    }

    fn disconnect(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        node.is_connected = false;
        node.connection += 1;
        node.timer = None;
        node.follower.on_disconnected();
        node.acceptor.on_disconnected();
        node.members.on_disconnected(self.now);
    }

    fn connect_later(&mut self, index: usize) {
        let pause = Duration::from_millis(self.chance.below(RECONNECT));
        let connection = self.nodes[index].connection;
        self.after(pause, Event::Node(index, connection, NodeEvent::Connect));
    }

    fn hop(&mut self) -> Duration {
        HOP + Duration::from_nanos(self.chance.below(JITTER))
    }

    fn after(&mut self, pause: Duration, event: Event) {
        self.at(self.now + pause, event);
    }

    fn at(&mut self, at: Time, event: Event) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[slot] = Some(event);
        self.number += 1;
        self.events.push(Reverse((at, self.number, slot)));
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Node(node, connection, event) => {
                // Its disk is as near without a connection.
                let is_local = matches!(event, NodeEvent::Journaled(_));
                if is_local || self.nodes[node].connection == connection {
                    self.node_event(node, event);
                }
            }
            Event::Send(server) => self.send_waiting(server),
            Event::Deliver(server, delivery) => self.deliver(server, delivery),
            Event::Publish(node, connection, publication) => {
                if self.leads() {
                    self.servers[self.leader].append(self.now);
                    let at = self.log.append_at(self.now) + HOP + HOP;
                    self.at(at, Event::Committed(node, connection, publication));
                }
            }
            Event::Committed(node, connection, publication) => {
                self.commit(node, connection, publication);
            }
            Event::Describe(node, connection, token) => {
                if self.leads() {
                    let answer = NodeEvent::Description(token, self.log.description());
                    self.answer(node, connection, 1, answer);
                }
            }
            Event::Read(node, connection, token, from, to) => {
                let answer = self.log.read(from, to);
                let messages = (to + 1 - from) as usize;
                self.answer(node, connection, messages, NodeEvent::Read(token, answer));
            }
            Event::ReadLeases(node, connection) => {
                let names: Vec<String> = self.bucket.iter().map(|name| name.to_string()).collect();
                // Each is a message of its own.
                self.answer(node, connection, names.len(), NodeEvent::Leases(names));
            }
            Event::Purge(pause) => self.purge(pause),
        }
    }

    fn leads(&self) -> bool {
        self.now >= self.leaderless_until && !self.servers[self.leader].is_down
    }

    /// The node's own server answers it.
    fn answer(&mut self, node: usize, connection: u32, messages: usize, event: NodeEvent) {
        let server = &mut self.servers[self.nodes[node].server];
        if server.is_down {
            return;
        }
        let at = server.answer(self.now, messages) + self.hop();
        self.at(at, Event::Node(node, connection, event));
    }

    fn commit(&mut self, node: usize, connection: u32, publication: Publication) {
        if self.servers[self.leader].is_down {
            return;
        }
        let (entry, is_new) = self.log.append(publication.id, publication.body);
        let (id, sequence) = (entry.id.clone(), entry.sequence);
        if is_new {
            self.seen.entries += 1;
            let delivery = delivery_of(entry);
            for server in 0..SERVERS {
                let pause = if server == self.leader {
                    Duration::ZERO
                } else {
                    self.hop()
                };
                self.after(pause, Event::Deliver(server, delivery.clone()));
            }
        }
        let event = NodeEvent::Acknowledged(id, sequence);
        self.answer(node, connection, 1, event);
    }

    fn deliver(&mut self, index: usize, delivery: Delivery) {
        let now = self.now;
        let server = &mut self.servers[index];
        if server.is_down {
            return;
        }
        server.waiting.push(delivery);
        if !server.is_planned {
            server.is_planned = true;
            let at = server.free_at(now);
            self.at(at, Event::Send(index));
        }
    }

    /// A server writes what waits to each of its nodes.
    fn send_waiting(&mut self, index: usize) {
        let now = self.now;
        let server = &mut self.servers[index];
        server.is_planned = false;
        let waiting: Rc<[Delivery]> = std::mem::take(&mut server.waiting).into();
        if server.is_down || waiting.is_empty() {
            return;
        }
        for node in 0..self.nodes.len() {
            let of = &self.nodes[node];
            if of.server == index && of.is_connected {
                let connection = of.connection;
                let at = self.servers[index].write(now, &waiting) + self.hop();
                let event = NodeEvent::Messages(Rc::clone(&waiting));
                self.at(at, Event::Node(node, connection, event));
            }
        }
    }

    fn purge(&mut self, pause: Duration) {
        if self.purge_pause != Some(pause) {
            return;
        }
        self.after(pause, Event::Purge(pause));
        let index = self.chance.below(self.nodes.len() as u64) as usize;
        let taken = (self.now, self.nodes.len());
        let node = &mut self.nodes[index];
        let mut message = Message::new(node.acceptor.next_id(), "client");
        message.urls = vec![format!("https://www.example/articles/{}", self.number)];
        self.purges.insert(message.id.clone(), taken);
        let mut out = Outbox::new();
        let accepted = node.acceptor.accept(self.now, message, &mut out);
        assert!(accepted.is_ok(), "{accepted:?}");
        self.carry_out(index, out);
    }

    fn node_event(&mut self, index: usize, event: NodeEvent) {
        let now = self.now;
        let node = &mut self.nodes[index];
        if let NodeEvent::Messages(messages) = &event {
            // It takes them when it has done what came before.
            if node.busy_until > now {
                let (at, connection) = (node.busy_until, node.connection);
                return self.at(at, Event::Node(index, connection, event));
            }
            node.busy_until = now + NODE_MESSAGE * messages.len() as u32;
        }
        let mut out = Outbox::new();
        match event {
            NodeEvent::Messages(messages) => {
                for message in &*messages {
                    match &message.word {
                        Word::Entry(entry) => {
                            node.follower.on_entry(now, entry.clone(), &mut out);
                        }
                        Word::Note(note) => node.members.on_note(now, note),
                    }
                }
            }
            NodeEvent::Acknowledged(id, sequence) => {
                node.follower.on_acknowledged(now, &id, sequence, &mut out);
                let log = node.follower.position().map(|(log, _)| log);
                node.acceptor
                    .on_acknowledged(now, &id, sequence, log, &mut out);
            }
            NodeEvent::Description(token, description) => {
                node.follower
                    .on_description(now, token, Some(description), &mut out);
            }
            NodeEvent::Read(token, answer) => node.follower.on_read(now, token, answer, &mut out),
            NodeEvent::Leases(names) => node.members.on_read(now, Some(names)),
            NodeEvent::Journaled(key) => node.acceptor.on_journaled(now, key, true, &mut out),
            NodeEvent::Timer => {
                if node.timer != Some(now) {
                    return;
                }
                node.timer = None;
                node.follower.on_timeout(now, &mut out);
                node.acceptor.set_in_doubt(now, node.follower.doubts_log());
                node.acceptor.on_timeout(now, &mut out);
            }
            NodeEvent::Connect => return self.connect(index),
        }
        self.carry_out(index, out);
    }

    fn connect(&mut self, index: usize) {
        let now = self.now;
        let up: Vec<usize> = (0..SERVERS).filter(|s| !self.servers[*s].is_down).collect();
        if up.is_empty() {
            return self.connect_later(index);
        }
        let server = up[self.chance.below(up.len() as u64) as usize];
        let node = &mut self.nodes[index];
        (node.server, node.is_connected) = (server, true);
        let mut out = Outbox::new();
        node.follower.on_connected(now, &mut out);
        node.acceptor.on_connected(now, &mut out);
        node.members.on_connected(now, &mut out);
        self.carry_out(index, out);
    }

    /// Carries out a node's actions, and plans its next timer.
    fn carry_out(&mut self, index: usize, mut out: Outbox) {
        loop {
            while !out.is_empty() {
                let actions: Vec<Action> = out.drain().collect();
                for action in actions {
                    self.act(index, action, &mut out);
                }
            }
            self.tell_standing(index, &mut out);
            if out.is_empty() {
                break;
            }
        }
        let now = self.now;
        let node = &mut self.nodes[index];
        let times = [
            node.follower.next_timeout(),
            node.acceptor.next_timeout(),
            node.members.next_timeout(),
        ];
        let Some(next) = times.into_iter().flatten().min() else {
            return;
        };
        let next = next.max(now + Duration::from_nanos(1));
        if node.timer.is_none_or(|timer| timer > next || timer <= now) {
            node.timer = Some(next);
            let connection = node.connection;
            self.at(next, Event::Node(index, connection, NodeEvent::Timer));
        }
    }

    /// The node tells others how it stands, as the host does after each event.
    fn tell_standing(&mut self, index: usize, out: &mut Outbox) {
        let now = self.now;
        let node = &mut self.nodes[index];
        node.follower.set_beats(node.members.beats());
        let is_due = node.members.next_timeout().is_some_and(|at| at <= now);
        let is_sound = node.is_fresh(now);
        if is_due || is_sound != node.standing.is_sound() {
            let state = if is_sound { "following" } else { "lagging" };
            node.standing.state = state.to_owned();
            node.standing.applied = node.follower.applied();
            node.standing.behind = node.follower.behind();
            node.members.set_standing(now, node.standing.clone());
            node.members.on_timeout(now, out);
        }
    }

    fn act(&mut self, index: usize, action: Action, out: &mut Outbox) {
        let now = self.now;
        let (connection, server) = (self.nodes[index].connection, self.nodes[index].server);
        let event = match action {
            Action::Publish(publication) => Event::Publish(index, connection, publication),
            Action::ReadDescription { token } => Event::Describe(index, connection, token),
            Action::Read {
                token, from, to, ..
            } => Event::Read(index, connection, token, from, to),
            Action::ReadLeases => Event::ReadLeases(index, connection),
            Action::Say(note) => {
                self.seen.renewals += 1;
                self.bucket.insert(note.node.as_str().into());
                self.servers[self.leader].append(now);
                let delivery = delivery_of_note(note);
                for other in (0..SERVERS).filter(|other| *other != server) {
                    let pause = self.hop() + HOP;
                    self.after(pause, Event::Deliver(other, delivery.clone()));
                }
                Event::Deliver(server, delivery)
            }
            Action::Journal(JournalAction::Write { key, .. }) => {
                let event = Event::Node(index, connection, NodeEvent::Journaled(key));
                return self.after(SYNC, event);
            }
            Action::Apply { mark, message, .. } => {
                self.executed(&message.id);
                return self.settled(index, mark, out);
            }
            Action::MakeStale { mark, reason } => {
                let node = &mut self.nodes[index];
                node.acceptor.publish_again(now, reason, out);
                return self.settled(index, mark, out);
            }
            Action::Keep(_)
            | Action::Journal(_)
            | Action::Answer { .. }
            | Action::Waited { .. } => {
                return;
            }
        };
        if self.nodes[index].is_connected {
            let pause = self.hop();
            self.after(pause, event);
        }
    }

    fn settled(&mut self, index: usize, mark: Mark, out: &mut Outbox) {
        self.nodes[index].follower.on_settled(self.now, mark, out);
    }

    /// A node has executed a purge.
    fn executed(&mut self, id: &Id) {
        if let Some((taken, left)) = self.purges.get_mut(id) {
            *left -= 1;
            if *left == 0 {
                self.seen.purges.push(self.now.since(*taken));
                self.purges.remove(id);
            }
        }
    }

    /// The number of purges that some node has not executed.
    pub fn open_purges(&self) -> usize {
        self.purges.len()
    }
}
