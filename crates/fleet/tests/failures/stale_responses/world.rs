//! A fleet in virtual time: nodes, the log, the network between them, and their faults.

use super::log::{Log, known};
use super::node::{MAX_LAG, NAMES, Node, Start, Stored};
use super::oracle::Oracle;
use larder_fleet::{
    Action, Body, FollowerState, Id, JournalAction, JournalKey, Journaled, LogDescription,
    LogEntry, Message, Outbox, Publication, ReadAnswer, ReadFrom, StaleReason, Token,
};
use larder_units::{Stream, Streams, Time};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

const CALM: Duration = Duration::from_secs(30);

/// What happens at a node. It is void after a crash of this node.
#[derive(Debug)]
enum NodeEvent {
    Republished {
        connection: u32,
        /// Of the log; `None` when it has arrived.
        history: Option<u32>,
        entry: LogEntry,
    },
    Acknowledged {
        connection: u32,
        id: Id,
        sequence: u64,
    },
    Description(Token, Option<LogDescription>),
    Read(Token, ReadAnswer),
    Timer,
    Journaled(JournalKey, Arc<Message>),
    Settle,
    Fetched {
        name: usize,
        stored: Stored,
    },
    ConnectionLost {
        connection: u32,
    },
    Connect,
}

#[derive(Debug)]
enum Event {
    Node(usize, u32, NodeEvent),
    /// A request of a node arrives at the log.
    Publish(usize, u32, Publication),
    Describe(usize, u32, Token),
    Read {
        node: usize,
        connection: u32,
        token: Token,
        from: u64,
        to: u64,
        source: ReadFrom,
    },
    /// A client asks a node for an object.
    Request(usize, usize),
    /// A client purges an object at a node.
    Purge(usize),
    /// Another program publishes.
    Foreign,
    Start(usize),
    Fault,
    /// A node loses its connection.
    Cut(usize),
    /// The log returns to this end.
    RollBack(u64),
    Calm,
    /// The end that all nodes have to apply.
    LastEnd,
}

/// What a run met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub served: u64,
    pub refused: u64,
    pub purges: u64,
    pub lost: u64,
    pub proofs: u64,
    pub crashes: u64,
    pub reasons: BTreeMap<String, u64>,
    pub digest: u64,
}

/// The kinds of a run's faults.
#[derive(Clone, Copy, Debug)]
struct Kinds {
    network: bool,
    nodes: bool,
    /// The log loses entries, or does not keep them.
    log: bool,
}

pub struct World {
    now: Time,
    chance: Stream,
    kinds: Kinds,
    calm: bool,
    ends: Time,
    events: BinaryHeap<Reverse<(Time, u64, usize)>>,
    slots: Vec<Option<Event>>,
    free: Vec<usize>,
    number: u64,
    log: Log,
    /// The log answers nothing until then.
    down_until: Time,
    /// Nodes ask a leader without a majority until then, which knows this end.
    deposed: Option<(Time, u64)>,
    /// Republished entries up to this sequence arrive, in order, at nodes that stayed connected
    /// over a roll-back.
    reliable_to: u64,
    nodes: Vec<Node>,
    oracle: Oracle,
    last_end: u64,
    seen: Seen,
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

impl World {
    pub fn new(seed: u64) -> World {
        let mut chance = Streams::new(seed).stream("fleet");
        let kinds = match chance.below(8) {
            0 => Kinds {
                network: false,
                nodes: false,
                log: false,
            },
            1 | 2 => Kinds {
                network: true,
                nodes: true,
                log: false,
            },
            3 => Kinds {
                network: false,
                nodes: true,
                log: true,
            },
            _ => Kinds {
                network: true,
                nodes: true,
                log: true,
            },
        };
        let chaos = Duration::from_secs(5 + chance.below(30));
        let nodes = (0..2 + chance.below(2) as usize)
            .map(|name| Node::new(&start_of(name, &mut chance)))
            .collect();
        let mut world = World {
            now: Time::from_secs(1),
            chance,
            kinds,
            calm: false,
            ends: Time::from_secs(1) + chaos + CALM,
            events: BinaryHeap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            number: 0,
            log: Log::new(),
            down_until: Time::ZERO,
            deposed: None,
            reliable_to: 0,
            nodes,
            oracle: Oracle::default(),
            last_end: 0,
            seen: Seen::default(),
        };
        for node in 0..world.nodes.len() {
            world.after(ms(0), Event::Start(node));
            world.after(ms(100), Event::Request(node, 0));
        }
        world.after(ms(300), Event::Purge(0));
        world.after(ms(1000), Event::Fault);
        world.after(ms(2000), Event::Foreign);
        world.after(chaos, Event::Calm);
        world.after(chaos + CALM - ms(2000), Event::LastEnd);
        world
    }

    /// Runs to the end. Panics if a stale response is served, or a node does not follow again.
    pub fn run(mut self) -> Seen {
        while let Some(Reverse((at, number, slot))) = self.events.pop() {
            if at > self.ends {
                break;
            }
            self.now = at;
            let event = self.slots[slot].take().expect("a slot has one event");
            self.free.push(slot);
            self.seen.digest =
                (self.seen.digest ^ at.nanos() ^ number).wrapping_mul(0x100_0000_01b3);
            self.step(event);
        }
        self.check_end();
        self.seen
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

    /// A fault of the network, with this chance.
    fn fails(&mut self, chance: f64) -> bool {
        !self.calm && self.kinds.network && self.chance.chance(chance)
    }

    fn delay(&mut self) -> Duration {
        let usual = Duration::from_micros(200 + self.chance.below(3000));
        if self.fails(0.03) {
            {
                let longest = if self.chance.chance(0.2) { 4000 } else { 150 };
                ms(self.chance.below(longest))
            }
        } else {
            usual
        }
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Node(node, incarnation, event) => {
                if !self.nodes[node].alive || self.nodes[node].incarnation != incarnation {
                    return;
                }
                let mut event = event;
                if let NodeEvent::Republished { history, .. } = &mut event {
                    // A server that rolls back sends nothing of what it has lost. What has arrived
                    // waits in the memory of a node that is stopped.
                    if history.is_some_and(|history| history != self.log.history) {
                        return;
                    }
                    *history = None;
                }
                let paused = self.nodes[node].paused_until;
                if paused > self.now {
                    return self.at(paused, Event::Node(node, incarnation, event));
                }
                self.node_event(node, event);
            }
            Event::Publish(node, connection, publication) => {
                self.arrives(node, connection, publication);
            }
            Event::Describe(node, connection, token) => {
                if self.answers(node, connection) {
                    let end = known(&self.log, ReadFrom::Leader, 0, self.deposed_end());
                    let answer = self.log.description(end);
                    self.reply(node, NodeEvent::Description(token, Some(answer)));
                }
            }
            Event::Read {
                node,
                connection,
                token,
                from,
                to,
                source,
            } => {
                if self.answers(node, connection) {
                    let lag = if self.fails(0.3) {
                        self.chance.below(6)
                    } else {
                        0
                    };
                    let end = known(&self.log, source, lag, self.deposed_end());
                    let most = if self.fails(0.2) { 1 } else { 200 };
                    let answer = self.log.read(from, to, end, most);
                    self.reply(node, NodeEvent::Read(token, answer));
                }
            }
            Event::Request(node, name) => self.request(node, name),
            Event::Purge(number) => self.purge(number),
            Event::Foreign => self.foreign(),
            Event::Start(node) => self.start(node),
            Event::Fault => self.fault(),
            Event::Cut(_) | Event::RollBack(_) if self.calm => {}
            Event::RollBack(last) => {
                let last = last.clamp(self.log.first - 1, self.log.last());
                self.lose(last, true, |log| log.roll_back(last, true));
            }
            Event::Cut(node) => self.disconnect(node, 15_000),
            Event::Calm => self.calm_down(),
            Event::LastEnd => self.last_end = self.log.last(),
        }
    }

    fn deposed_end(&self) -> Option<u64> {
        self.deposed
            .filter(|(until, _)| *until > self.now)
            .map(|(_, end)| end)
    }

    /// Whether the log gets a request of this connection and its answer passes.
    fn answers(&mut self, node: usize, connection: u32) -> bool {
        let node = &self.nodes[node];
        let passes = node.connected && node.connection == connection;
        passes && self.now >= self.down_until && !self.fails(0.05)
    }

    fn reply(&mut self, node: usize, event: NodeEvent) {
        let delay = self.delay();
        let incarnation = self.nodes[node].incarnation;
        self.after(delay, Event::Node(node, incarnation, event));
    }

    /// A message arrives at the log.
    fn arrives(&mut self, node: usize, connection: u32, publication: Publication) {
        if !self.answers(node, connection) || self.deposed_end().is_some() {
            return;
        }
        let Publication { id, body } = publication;
        let sequence = self.append(&id, &body);
        if self.fails(0.1) {
            return;
        }
        let incarnation = self.nodes[node].incarnation;
        let at = (self.now + self.delay()).max(self.nodes[node].acknowledged_from);
        let event = NodeEvent::Acknowledged {
            connection,
            id,
            sequence,
        };
        self.at(at, Event::Node(node, incarnation, event));
    }

    /// Appends to the log, and republishes.
    fn append(&mut self, id: &Id, body: &Body) -> u64 {
        let (sequence, new) = self.log.publish(id, body);
        if !new {
            return sequence;
        }
        self.oracle.entered(self.now, sequence, body);
        let entry = LogEntry {
            sequence,
            id: id.clone(),
            body: body.clone(),
        };
        for node in 0..self.nodes.len() {
            let copies = if sequence <= self.reliable_to {
                1
            } else if self.nodes[node].is_mute(self.now, body) || self.fails(0.03) {
                0
            } else {
                1 + u32::from(self.fails(0.03))
            };
            for _ in 0..copies {
                let delay = if sequence <= self.reliable_to {
                    Duration::from_micros(200)
                } else {
                    self.delay()
                };
                let (connection, history) = (self.nodes[node].connection, Some(self.log.history));
                let incarnation = self.nodes[node].incarnation;
                let entry = entry.clone();
                let event = NodeEvent::Republished {
                    connection,
                    history,
                    entry,
                };
                if self.nodes[node].connected {
                    self.after(delay, Event::Node(node, incarnation, event));
                }
            }
        }
        sequence
    }

    fn node_event(&mut self, index: usize, event: NodeEvent) {
        let mut out = Outbox::new();
        let world = self.now;
        let node = &mut self.nodes[index];
        let now = node.now(world);
        match event {
            NodeEvent::Republished {
                connection, entry, ..
            } => {
                if connection != node.connection {
                    return;
                }
                node.follower.on_entry(now, entry, &mut out);
            }
            NodeEvent::Acknowledged {
                connection,
                id,
                sequence,
            } => {
                if connection != node.connection {
                    return;
                }
                node.follower.on_acknowledged(now, &id, sequence, &mut out);
                let log = node.follower.position().map(|(log, _)| log);
                node.acceptor
                    .on_acknowledged(now, &id, sequence, log, &mut out);
            }
            NodeEvent::Description(token, description) => {
                node.follower
                    .on_description(now, token, description, &mut out);
            }
            NodeEvent::Read(token, answer) => {
                node.follower.on_read(now, token, answer, &mut out);
            }
            NodeEvent::Timer => {
                if node.timer != Some(world) {
                    return;
                }
                node.timer = None;
                node.follower.on_timeout(now, &mut out);
                node.acceptor.set_in_doubt(now, node.follower.doubts_log());
                node.acceptor.on_timeout(now, &mut out);
            }
            NodeEvent::Journaled(key, message) => {
                self.oracle.journaled(&message);
                let journaled = Journaled {
                    key,
                    message,
                    entry: None,
                };
                node.disk.journal.insert(key, journaled);
                node.acceptor.on_journaled(now, key, true, &mut out);
            }
            NodeEvent::Settle => {
                node.settle(world, &mut out);
                let pause = ms(100 + self.chance.below(400));
                let incarnation = node.incarnation;
                self.after(pause, Event::Node(index, incarnation, NodeEvent::Settle));
            }
            NodeEvent::Fetched { name, stored } => {
                node.store(name, stored, self.chance.chance(0.5));
            }
            NodeEvent::ConnectionLost { connection } => {
                if node.connected || connection != node.connection {
                    return;
                }
                node.follower.on_disconnected();
                node.acceptor.on_disconnected();
            }
            NodeEvent::Connect => {
                if node.connected {
                    return;
                }
                node.connected = true;
                node.connection += 1;
                node.follower.on_connected(now, &mut out);
                node.acceptor.on_connected(now, &mut out);
            }
        }
        self.carry_out(index, out);
    }

    /// Carries out a node's actions in their order. It may crash between any two of them.
    fn carry_out(&mut self, index: usize, mut out: Outbox) {
        while !out.is_empty() {
            let actions: Vec<Action> = out.drain().collect();
            for action in actions {
                let crash = !self.calm && self.kinds.nodes && self.chance.chance(0.002);
                if crash {
                    return self.crash(index);
                }
                if let Some(action) = self.nodes[index].carry_out(self.now, action, &mut out) {
                    self.send(index, action);
                }
            }
        }
        let world = self.now;
        let node = &mut self.nodes[index];
        node.fresh_until = node.follower.fresh_until();
        let times = [node.follower.next_timeout(), node.acceptor.next_timeout()];
        let Some(next) = times.into_iter().flatten().min() else {
            return;
        };
        let next = node.world_time(next).max(world + Duration::from_nanos(1));
        if node.timer != Some(next) {
            node.timer = Some(next);
            let incarnation = node.incarnation;
            self.at(next, Event::Node(index, incarnation, NodeEvent::Timer));
        }
    }

    fn send(&mut self, index: usize, action: Action) {
        let connection = self.nodes[index].connection;
        let event = match action {
            Action::Publish(publication) => {
                if self.fails(0.02) {
                    return;
                }
                Event::Publish(index, connection, publication)
            }
            Action::ReadDescription { token } => {
                if self.fails(0.1) {
                    return self.reply(index, NodeEvent::Description(token, None));
                }
                Event::Describe(index, connection, token)
            }
            Action::Read {
                token,
                from,
                to,
                source,
            } => {
                if self.fails(0.1) {
                    return self.reply(index, NodeEvent::Read(token, ReadAnswer::Failed));
                }
                Event::Read {
                    node: index,
                    connection,
                    token,
                    from,
                    to,
                    source,
                }
            }
            Action::Journal(JournalAction::Write { key, message }) => {
                let incarnation = self.nodes[index].incarnation;
                let event = NodeEvent::Journaled(key, message);
                let pause = Duration::from_micros(100 + self.chance.below(20_000));
                return self.after(pause, Event::Node(index, incarnation, event));
            }
            Action::MakeStale { reason, .. } => {
                *self.seen.reasons.entry(format!("{reason:?}")).or_default() += 1;
                let harmless = matches!(reason, StaleReason::Began | StaleReason::Unreadable);
                assert!(
                    harmless || self.kinds.log,
                    "{reason:?}, and the log has lost nothing"
                );
                return;
            }
            Action::Answer { .. } => return,
            other => panic!("{other:?} is an action of the cache"),
        };
        let delay = self.delay();
        self.after(delay, event);
    }

    /// A client asks for an object: it is served if the node may, otherwise fetched.
    fn request(&mut self, index: usize, again: usize) {
        if again == 0 {
            let pause = ms(20 + self.chance.below(if self.calm { 800 } else { 250 }));
            self.after(pause, Event::Request(index, 0));
        }
        let (world, name) = (self.now, self.chance.below(NAMES as u64) as usize);
        let node = &self.nodes[index];
        if !node.alive || node.paused_until > world {
            return;
        }
        let stored = node.objects[name].filter(|o| node.purges.allow(name, o.position));
        let fresh = node
            .fresh_until
            .is_some_and(|until| !until.has_passed(node.now(world)));
        if let Some(stored) = stored.filter(|_| fresh) {
            self.seen.served += 1;
            self.oracle.serve(world, index, name, stored.asked);
            return;
        }
        self.seen.refused += 1;
        let stored = Stored {
            asked: world,
            position: node.position,
        };
        let incarnation = node.incarnation;
        let longest = if self.chance.chance(0.1) { 3000 } else { 100 };
        let pause = ms(1 + self.chance.below(longest));
        let event = NodeEvent::Fetched { name, stored };
        self.after(pause, Event::Node(index, incarnation, event));
    }

    fn purge(&mut self, number: usize) {
        let pause = ms(50 + self.chance.below(1500));
        if !self.calm && number < 1000 {
            self.after(pause, Event::Purge(number + 1));
        }
        let index = self.chance.below(self.nodes.len() as u64) as usize;
        let node = &mut self.nodes[index];
        if !node.alive || node.paused_until > self.now {
            return;
        }
        let (now, id) = (node.now(self.now), node.acceptor.next_id());
        let mut message = Message::new(id, "client");
        message.tags = vec![number.to_string()];
        let name = self.chance.below(NAMES as u64) as usize;
        message.urls = vec![name.to_string()];
        message.everything = self.chance.chance(0.1);
        self.oracle.accept(number, index, name, message.everything);
        self.seen.purges += 1;
        let mut out = Outbox::new();
        let accepted = node.acceptor.accept(now, message, &mut out);
        assert!(accepted.is_ok(), "{accepted:?}");
        self.carry_out(index, out);
    }

    /// A program without an outbox publishes something unreadable.
    fn foreign(&mut self) {
        if self.calm {
            return;
        }
        let pause = ms(1000 + self.chance.below(20_000));
        self.after(pause, Event::Foreign);
        if self.now >= self.down_until && self.deposed_end().is_none() {
            let id: Id = format!("foreign-{}", self.number).into();
            self.append(&id, &Body::Unreadable);
        }
    }

    fn crash(&mut self, index: usize) {
        self.seen.crashes += 1;
        self.nodes[index].crash();
        let pause = ms(self.chance.below(9000));
        self.after(pause, Event::Start(index));
    }

    fn start(&mut self, index: usize) {
        if self.nodes[index].alive {
            return;
        }
        let faults = !self.calm && self.kinds.nodes;
        let node = &mut self.nodes[index];
        if faults && self.kinds.log && self.chance.chance(0.06) {
            // Its disk is lost, or only the file with the position.
            if self.chance.chance(0.5) {
                let journal = node.disk.journal.values();
                self.oracle.journal_lost(journal.map(|of| &of.message));
                node.disk = Default::default();
            } else {
                node.disk.kept.clear();
            }
        }
        let start = start_of(index, &mut self.chance);
        let older = if faults && self.chance.chance(0.3) {
            self.chance.below(4) as usize
        } else {
            0
        };
        let mut out = Outbox::new();
        node.start(self.now, &start, older, &mut out);
        let incarnation = node.incarnation;
        let wait = if faults && self.chance.chance(0.3) {
            ms(self.chance.below(10_000))
        } else {
            ms(self.chance.below(100))
        };
        self.after(wait, Event::Node(index, incarnation, NodeEvent::Connect));
        let settle = ms(self.chance.below(300));
        self.after(settle, Event::Node(index, incarnation, NodeEvent::Settle));
        self.carry_out(index, out);
    }

    /// The connection of a node breaks. The host notices it, or connects again before.
    fn disconnect(&mut self, index: usize, longest: u64) {
        let node = &mut self.nodes[index];
        if !node.alive {
            return;
        }
        node.connected = false;
        node.connection += 1;
        let (incarnation, connection) = (node.incarnation, node.connection);
        let notice = ms(self.chance.below(3000));
        let lost = NodeEvent::ConnectionLost { connection };
        self.after(notice, Event::Node(index, incarnation, lost));
        let back = ms(50 + self.chance.below(longest));
        self.after(back, Event::Node(index, incarnation, NodeEvent::Connect));
    }

    fn fault(&mut self) {
        if self.calm {
            return;
        }
        let pause = ms(100 + self.chance.below(4000));
        self.after(pause, Event::Fault);
        let index = self.chance.below(self.nodes.len() as u64) as usize;
        let Kinds {
            network,
            nodes,
            log,
        } = self.kinds;
        match self.chance.below(14) {
            0 | 1 if network => self.disconnect(index, 15_000),
            2 if network => {
                let until = self.now + ms(self.chance.below(9000));
                if self.log.last() >= self.reliable_to {
                    self.nodes[index].mute_until = until;
                    self.nodes[index].hears_own_beats = false;
                }
            }
            3 if network => self.down_until = self.now + ms(self.chance.below(9000)),
            4 if network => {
                let until = self.now + ms(self.chance.below(6000));
                let end = self.log.last() - self.chance.below(self.log.last().min(5) + 1);
                self.deposed = Some((until, end));
            }
            12 if network && self.log.last() >= self.reliable_to => {
                // Late acknowledgements, purges meanwhile, and then silence.
                let node = &mut self.nodes[index];
                node.acknowledged_from = self.now + ms(950);
                node.mute_until = self.now + ms(1000);
                node.hears_own_beats = true;
                self.after(ms(1000), Event::Cut(index));
                self.purge_soon(900);
            }
            13 if network && log && self.log.last() >= self.reliable_to => {
                // Nobody hears of purges which then are lost, and whose ids the servers know.
                for node in &mut self.nodes {
                    node.acknowledged_from = self.now + ms(600);
                    node.mute_until = self.now + ms(600);
                }
                self.after(ms(500), Event::RollBack(self.log.last()));
                self.purge_soon(450);
            }
            5 | 6 if nodes && self.nodes[index].alive => self.crash(index),
            // What waits for a node that is stopped stays in its order.
            7 | 8 if nodes && self.nodes[index].paused_until <= self.now => {
                let until = self.now + ms(self.chance.below(9000));
                self.nodes[index].paused_until = until;
                // Lookups come before all that has waited.
                for _ in 0..NAMES {
                    self.at(until, Event::Request(index, 1));
                }
            }
            9 if log => {
                // Entries end by age. What a node reads of them it has, or it has missed them.
                let last = self.log.last();
                let first = self.log.first + self.chance.below(last + 2 - self.log.first);
                self.log.forget(first);
            }
            10 if log => {
                let kept = self.log.last() + 1 - self.log.first;
                let depth = if self.chance.chance(0.5) {
                    kept.min(4)
                } else {
                    kept
                };
                let last = self.log.last() - self.chance.below(depth + 1);
                let remembers = self.chance.chance(0.4);
                self.lose(last, false, |log| log.roll_back(last, remembers));
            }
            11 if log && self.chance.chance(0.3) => self.lose(0, false, Log::create_anew),
            _ => {}
        }
    }

    /// Clients purge three objects within so many milliseconds.
    fn purge_soon(&mut self, millis: u64) {
        for number in 0..3 {
            let pause = ms(self.chance.below(millis));
            self.after(pause, Event::Purge(1000 * self.number as usize + number));
        }
    }

    /// The log loses all entries above `last`.
    fn lose(&mut self, last: u64, breaks: bool, change: impl FnOnce(&mut Log)) {
        self.reliable_to = self.reliable_to.max(self.log.last());
        change(&mut self.log);
        self.deposed = None;
        let nodes = &self.nodes;
        self.seen.lost += self.oracle.lost(self.now, last, |index, number| {
            let journal = nodes[index].disk.journal.values();
            journal
                .into_iter()
                .any(|of| of.message.tags[0].parse() == Ok(number))
        });
        let broken = breaks || self.chance.chance(0.7);
        for index in 0..self.nodes.len() {
            self.nodes[index].mute_until = Time::ZERO;
            if broken {
                self.disconnect(index, 4000);
            }
        }
        if broken {
            self.down_until = self.now + ms(self.chance.below(2000));
        }
    }

    fn calm_down(&mut self) {
        self.calm = true;
        (self.down_until, self.deposed) = (Time::ZERO, None);
        for index in 0..self.nodes.len() {
            let node = &mut self.nodes[index];
            node.mute_until = Time::ZERO;
            node.acknowledged_from = self.now;
            if node.connected {
                // It has no reason to connect again.
            } else if node.alive {
                let incarnation = node.incarnation;
                self.after(ms(10), Event::Node(index, incarnation, NodeEvent::Connect));
            } else {
                self.after(ms(10), Event::Start(index));
            }
        }
    }

    /// All nodes follow, have applied the log's end, and have no response that a purge concerns.
    fn check_end(&mut self) {
        for (index, node) in self.nodes.iter().enumerate() {
            let (now, follower) = (node.now(self.now), &node.follower);
            let state = follower.state(now);
            let follows = matches!(state, FollowerState::Following | FollowerState::Catching);
            assert!(
                follows,
                "node {index} is {state:?} after all faults: {follower:?}"
            );
            assert!(
                follower.applied() >= self.last_end,
                "node {index} has not applied the end {}: {follower:?}",
                self.last_end
            );
            self.seen.proofs += follower.counters().proofs;
            for (name, stored) in node.objects.iter().enumerate() {
                let stored = stored.filter(|o| node.purges.allow(name, o.position));
                if let Some(stored) = stored {
                    let later = self.now + MAX_LAG;
                    self.oracle.serve(later, index, name, stored.asked);
                }
            }
        }
        self.oracle.check_end();
    }
}

fn start_of(name: usize, chance: &mut Stream) -> Start {
    Start {
        name,
        nonce: u128::from(chance.bits()),
        // Each start has a clock of its own.
        clock: Duration::from_millis(chance.below(1_000_000)),
    }
}

impl Seen {
    pub fn add(&mut self, other: &Seen) {
        self.served += other.served;
        self.refused += other.refused;
        self.purges += other.purges;
        self.lost += other.lost;
        self.proofs += other.proofs;
        self.crashes += other.crashes;
        for (reason, count) in &other.reasons {
            *self.reasons.entry(reason.clone()).or_default() += count;
        }
    }

    /// Panics unless the runs met what they are for.
    pub fn check_coverage(&self) {
        let reasons = [
            "Began",
            "Missed",
            "RolledBack",
            "IdentityChanged",
            "Barrier",
            "Unreadable",
        ];
        for reason in reasons {
            assert!(self.reasons.contains_key(reason), "no run met {reason}");
        }
        assert!(self.lost > 100 && self.crashes > 100, "{self:?}");
        // Nodes that never serve would prove nothing.
        assert!(self.served > self.refused, "{self:?}");
    }
}
