//! Failure: a client learns that all nodes have executed its purge, and one has not; or it waits
//! without need or end; or nodes talk while nobody waits.
//!
//! Each seed is a fleet of two to six nodes in virtual time. Notes are lost, late and repeated.
//! Nodes crash, leave, stop for a while, are cut off, and come back without their memory.

use larder_fleet::limits::{LEASE, NOTE_INTERVAL, RENEW, RENEW_GAP, WAIT};
use larder_fleet::{Action, Members, Note, Outbox, Position, WaitKey, Waited, Waits, Word};
use larder_units::{Stream, Streams, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const STEP: Duration = Duration::from_millis(10);
/// After this, a lease that is not renewed has ended everywhere.
const ENDED: Duration = Duration::from_millis(6000 + 2000 + 500);

struct Node {
    name: String,
    members: Members,
    waits: Waits,
    runs: bool,
    paused_until: Time,
    connected: bool,
    /// Since when it runs, connected and without a pause.
    well_since: Time,
    applied: u64,
    /// The most that it has applied.
    most: u64,
    inbox: Vec<(Time, Note)>,
    waiting: BTreeMap<WaitKey, (Time, u64)>,
    said_applied: Option<Time>,
}

struct World {
    now: Time,
    chance: Stream,
    end: u64,
    nodes: Vec<Node>,
    bucket: BTreeMap<String, Time>,
    asked: Option<Time>,
    outcomes: u32,
    with_lost: u32,
    calm: bool,
}

fn position(sequence: u64) -> Position {
    let log = "log".to_owned();
    Position { log, sequence }
}

impl Node {
    fn new(name: String, now: Time) -> Node {
        Node {
            members: Members::new(&name),
            waits: Waits::new(&name),
            name,
            runs: true,
            paused_until: now,
            connected: false,
            well_since: now,
            applied: 0,
            most: 0,
            inbox: Vec::new(),
            waiting: BTreeMap::new(),
            said_applied: None,
        }
    }

    fn is_well(&self, now: Time) -> bool {
        self.runs && self.connected && self.paused_until <= now
    }
}

impl World {
    fn new(seed: u64) -> World {
        let mut chance = Streams::new(seed).stream("waits");
        let now = Time::from_secs(100);
        let nodes = 2 + chance.below(5) as usize;
        World {
            now,
            chance,
            end: 1,
            nodes: (0..nodes)
                .map(|index| Node::new(format!("n{index}"), now))
                .collect(),
            bucket: BTreeMap::new(),
            asked: None,
            outcomes: 0,
            with_lost: 0,
            calm: false,
        }
    }

    fn run(&mut self) {
        for index in 0..self.nodes.len() {
            self.connect(index);
        }
        for _ in 0..4000 {
            self.step();
        }
        // All is well again, and one node stays away.
        self.calm = true;
        for index in 0..self.nodes.len() {
            let node = &mut self.nodes[index];
            node.paused_until = self.now;
            if !node.runs {
                self.start(index);
            } else if !node.connected {
                self.connect(index);
            }
        }
        self.nodes[0].runs = false;
        for _ in 0..1200 {
            self.step();
        }
        let all = self.nodes.len() - 1;
        for node in &self.nodes[1..] {
            assert_eq!(node.members.count(), all, "{} at the end", node.name);
            assert!(node.members.is_complete());
            assert!(node.waiting.is_empty() || self.asked.is_some());
        }
    }

    fn step(&mut self) {
        self.now += STEP;
        if self.chance.chance(0.1) {
            self.end += self.chance.below(4);
        }
        if !self.calm && self.chance.chance(0.01) {
            self.fault();
        }
        for index in 0..self.nodes.len() {
            let (now, end) = (self.now, self.end);
            let node = &mut self.nodes[index];
            if !node.runs || node.paused_until > now {
                continue;
            }
            if node.connected && self.chance.chance(0.3) {
                node.applied = end.min(node.applied + self.chance.below(8));
                node.most = node.most.max(node.applied);
            }
            let is_due = |(at, _): &mut (Time, Note)| *at <= now;
            let due: Vec<_> = node.inbox.extract_if(.., is_due).collect();
            for (_, note) in due {
                node.members.on_note(now, &note);
                node.waits.on_note(now, note);
            }
            if node.connected && self.chance.chance(0.01) {
                let key = node.waits.wait(now, position(end));
                node.waiting.insert(key, (now, end));
                self.asked = Some(now);
            }
            self.advance(index);
        }
    }

    fn advance(&mut self, index: usize) {
        let (now, mut out) = (self.now, Outbox::new());
        let node = &mut self.nodes[index];
        let position = (node.applied > 0).then_some(("log", node.applied));
        node.waits.set_position(position);
        node.members.on_timeout(now, &mut out);
        node.waits.on_timeout(now, &node.members, &mut out);
        let dues = [node.members.next_timeout(), node.waits.next_timeout()];
        let due = dues.into_iter().flatten().min();
        assert!(due.is_none_or(|due| due > now), "it is due for ever");
        let actions: Vec<Action> = out.drain().collect();
        for action in actions {
            match action {
                Action::Say(note) => self.say(index, note),
                Action::ReadLeases => self.read(index),
                Action::Waited { key, waited } => self.check(index, key, &waited),
                other => panic!("{other:?}"),
            }
        }
    }

    fn say(&mut self, index: usize, note: Note) {
        let now = self.now;
        let node = &mut self.nodes[index];
        if let Word::Applied(said) = &note.word {
            assert!(said.sequence <= node.applied, "more than it has");
            let last = node.said_applied.replace(now);
            assert!(last.is_none_or(|last| now.since(last) >= NOTE_INTERVAL));
            let asked = self.asked.map(|asked| now.since(asked));
            assert!(asked.is_some_and(|since| since <= WAIT * 3), "nobody waits");
        }
        if !node.connected {
            return;
        }
        match note.word {
            Word::Lease => drop(self.bucket.insert(note.node.clone(), now)),
            Word::Left => drop(self.bucket.remove(&note.node)),
            _ => {}
        }
        for other in 0..self.nodes.len() {
            let times = self.chance.below(20);
            if !self.calm && times == 0 {
                continue;
            }
            let longest = if times == 1 && !self.calm { 400 } else { 5 };
            let at = now + Duration::from_millis(self.chance.below(longest));
            let other = &mut self.nodes[other];
            if other.runs && other.connected {
                other.inbox.push((at, note.clone()));
                if times == 2 {
                    other.inbox.push((at, note.clone()));
                }
            }
        }
    }

    fn read(&mut self, index: usize) {
        let now = self.now;
        self.bucket.retain(|_, since| now.since(*since) < LEASE);
        let names = self.bucket.keys().cloned().collect();
        let fails = !self.calm && self.chance.chance(0.3);
        let names = (!fails).then_some(names);
        self.nodes[index].members.on_read(now, names);
    }

    /// Compares what a client learns with what the nodes have done.
    fn check(&mut self, index: usize, key: WaitKey, waited: &Waited) {
        let now = self.now;
        let asker = &mut self.nodes[index];
        let (since, sequence) = asker.waiting.remove(&key).expect("it waits");
        let waits = now.since(since);
        assert!(
            waits <= WAIT + STEP || asker.paused_until > since,
            "it waits for {waits:?}"
        );
        self.outcomes += 1;
        self.with_lost += u32::from(!waited.lost.is_empty());
        let lost: BTreeSet<&str> = waited.lost.iter().map(String::as_str).collect();
        assert_eq!(lost.len(), waited.lost.len(), "each once");
        let done = self.nodes.iter().filter(|node| node.most >= sequence);
        assert!(waited.applied <= done.count() && waited.applied <= waited.members);
        if waits >= WAIT {
            return;
        }
        for node in &self.nodes {
            let well = node.is_well(now) && now.since(node.well_since) > ENDED;
            assert!(
                !well || node.most >= sequence || lost.contains(node.name.as_str()),
                "{} has not applied {sequence}, and is not among {waited:?}",
                node.name
            );
        }
    }

    fn fault(&mut self) {
        let index = self.chance.below(self.nodes.len() as u64) as usize;
        let pause = Duration::from_millis(self.chance.below(15_000));
        let what = self.chance.below(6);
        let node = &mut self.nodes[index];
        match what {
            _ if !node.runs => self.start(index),
            0 => node.runs = false,
            1 => {
                let note = node.members.leave();
                self.say(index, note);
                self.nodes[index].runs = false;
            }
            2 => {
                node.paused_until = self.now + pause;
                node.well_since = node.paused_until;
            }
            _ if !node.connected => self.connect(index),
            3 => {
                node.connected = false;
                node.members.on_disconnected();
            }
            _ => {}
        }
    }

    fn start(&mut self, index: usize) {
        let name = self.nodes[index].name.clone();
        let most = self.nodes[index].most;
        self.nodes[index] = Node::new(name, self.now);
        // It continues before what it had applied.
        self.nodes[index].applied = most.saturating_sub(self.chance.below(5));
        self.nodes[index].most = most;
        self.connect(index);
    }

    fn connect(&mut self, index: usize) {
        let (now, mut out) = (self.now, Outbox::new());
        let node = &mut self.nodes[index];
        (node.connected, node.well_since) = (true, now);
        node.inbox.clear();
        node.members.on_connected(now, &mut out);
        let actions: Vec<Action> = out.drain().collect();
        for action in actions {
            match action {
                Action::Say(note) => self.say(index, note),
                Action::ReadLeases => self.read(index),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn a_client_learns_that_a_node_has_executed_what_it_has_not() {
    let (mut outcomes, mut with_lost) = (0, 0);
    for seed in 0..100 {
        let mut world = World::new(seed);
        let run = std::panic::AssertUnwindSafe(|| world.run());
        if let Err(panic) = std::panic::catch_unwind(run) {
            let said = panic.downcast_ref::<String>();
            panic!("seed {seed}: {said:?}");
        }
        outcomes += world.outcomes;
        with_lost += world.with_lost;
    }
    assert!(
        with_lost > 300 && outcomes > with_lost + 300,
        "{with_lost} of {outcomes}"
    );
}

fn lease(node: &str) -> Note {
    let node = node.to_owned();
    let word = Word::Lease;
    Note { node, word }
}

fn names(members: &Members) -> Vec<&str> {
    members.live().collect()
}

/// Failure: the servers are away for a minute, and then no other node is there.
#[test]
fn a_list_is_empty_while_the_servers_are_away() {
    let (mut out, mut now) = (Outbox::new(), Time::from_secs(50));
    let mut members = Members::new("a");
    members.on_connected(now, &mut out);
    for name in ["a", "b", "c"] {
        members.on_note(now, &lease(name));
    }
    assert!(!members.is_complete());
    members.on_disconnected();
    now += Duration::from_secs(60);
    members.on_connected(now, &mut out);
    members.on_note(now, &lease("a"));
    assert_eq!(names(&members), ["a", "b", "c"]);
    // From then on, a lease ends as before, and the node is remembered as lost.
    let begun = now;
    while now.since(begun) <= LEASE {
        assert_eq!(names(&members), ["a", "b", "c"]);
        now += RENEW;
        members.on_note(now, &lease("c"));
        members.on_note(now, &lease("a"));
    }
    assert!(members.is_complete());
    assert_eq!(names(&members), ["a", "c"]);
    assert_eq!(members.lost().collect::<Vec<_>>(), ["b"]);
    // One that leaves is not lost, and one that returns neither.
    let (node, word) = ("c".to_owned(), Word::Left);
    members.on_note(now, &Note { node, word });
    members.on_note(now, &lease("b"));
    assert_eq!(names(&members), ["a", "b"]);
    assert_eq!(members.lost().count(), 0);
    // A gap of the own renewals is not the others' death.
    now += LEASE + RENEW_GAP;
    members.on_note(now, &lease("a"));
    assert_eq!(names(&members), ["a", "b"]);
}

/// Failure: a node that has just connected knows no other, and takes itself for the whole fleet.
#[test]
fn a_node_that_knows_nobody_counts_as_all() {
    let (mut out, now) = (Outbox::new(), Time::from_secs(50));
    let (mut members, mut waits) = (Members::new("a"), Waits::new("a"));
    members.on_connected(now, &mut out);
    members.on_note(now, &lease("a"));
    waits.set_position(Some(("log", 7)));
    let key = waits.wait(now, position(7));
    out.drain().for_each(drop);
    waits.on_timeout(now, &members, &mut out);
    let said: Vec<Action> = out.drain().collect();
    assert!(
        matches!(&said[..], [Action::Say(Note { word: Word::Wait(of), .. })] if *of == position(7)),
        "{said:?}"
    );
    members.on_read(now, Some(vec!["a".to_owned(), "b".to_owned()]));
    let word = Word::Applied(position(6));
    let node = "b".to_owned();
    waits.on_note(now, Note { node, word });
    waits.on_timeout(now, &members, &mut out);
    assert!(out.is_empty());
    // Another log's entries are others.
    for log in ["other", "log"] {
        let (log, node) = (log.to_owned(), "b".to_owned());
        let word = Word::Applied(Position { log, sequence: 7 });
        waits.on_note(now, Note { node, word });
        waits.on_timeout(now, &members, &mut out);
    }
    let waited = Waited {
        members: 2,
        applied: 2,
        lost: Vec::new(),
    };
    let outcome: Vec<Action> = out.drain().collect();
    assert_eq!(outcome, [Action::Waited { key, waited }]);
}

/// Failure: a note is read as another one, or one of another fleet is.
#[test]
fn a_foreign_note_is_read() {
    let node = "n-1".to_owned();
    for word in [
        Word::Lease,
        Word::Left,
        Word::Wait(position(5)),
        Word::Applied(position(u64::MAX)),
    ] {
        let operation = (word == Word::Left).then_some("DEL");
        let node = node.clone();
        let note = Note { node, word };
        let read =
            |fleet: &str| Note::decode(fleet, &note.subject("cdn"), operation, &note.payload());
        assert_eq!(read("cdn").as_ref(), Some(&note));
        assert_eq!(read("cd"), None);
    }
    for (subject, payload) in [
        (
            "larder.cdn.wait.n-1",
            "{\"v\":2,\"log\":\"a\",\"position\":1}",
        ),
        ("larder.cdn.wait.n-1", "{\"v\":1}"),
        (
            "larder.cdn.wait.n.1",
            "{\"v\":1,\"log\":\"a\",\"position\":1}",
        ),
        ("larder.cdn.wait", "{\"v\":1,\"log\":\"a\",\"position\":1}"),
        (
            "larder.cdn.beat.n-1",
            "{\"v\":1,\"log\":\"a\",\"position\":1}",
        ),
        ("$KV.larder_cdn_members.n/1", "{\"v\":1}"),
    ] {
        let read = Note::decode("cdn", subject, None, payload.as_bytes());
        assert_eq!(read, None, "{subject}");
    }
}
