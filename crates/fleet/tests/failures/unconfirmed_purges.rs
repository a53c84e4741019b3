//! Failure: a client learns that all nodes have executed its purge, and one has not; or it waits
//! without need or end; or nodes talk while nobody waits.
//!
//! Each seed is a fleet of two to six nodes in virtual time. Notes are lost, late and repeated.
//! Nodes crash, leave, stop for a while, are cut off, and come back without their memory. The log
//! loses its last entries, and other ones get their positions; nodes notice it some time later.

use larder_fleet::limits::{LEASE, NOTE_INTERVAL, RENEW, WAIT};
use larder_fleet::{
    Action, Id, Lease, Members, Note, Outbox, Position, WaitKey, Waited, Waits, Word,
};
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
    /// The log as far as it has applied it.
    history: Vec<Id>,
    /// All that it has ever applied.
    done: BTreeSet<Id>,
    inbox: Vec<(Time, Note)>,
    waiting: BTreeMap<WaitKey, (Time, Id)>,
    said_applied: Option<Time>,
}

struct World {
    now: Time,
    chance: Stream,
    log: Vec<Id>,
    /// How often it has lost entries.
    losses: u32,
    nodes: Vec<Node>,
    bucket: BTreeMap<String, Time>,
    asked: Option<Time>,
    outcomes: u32,
    with_lost: u32,
    unknown: u32,
    calm: bool,
    /// Whether clients come.
    asks: bool,
}

fn position(sequence: u64) -> Position {
    let (log, id) = ("log".to_owned(), format!("id-{sequence}"));
    Position { log, sequence, id }
}

fn applied(to: &str, position: Position) -> Word {
    let to = to.to_owned();
    Word::Applied { position, to }
}

impl Node {
    fn new(name: String, now: Time) -> Node {
        Node {
            members: Members::new(&name, None),
            waits: Waits::new(&name),
            name,
            runs: true,
            paused_until: now,
            connected: false,
            well_since: now,
            history: Vec::new(),
            done: BTreeSet::new(),
            inbox: Vec::new(),
            waiting: BTreeMap::new(),
            said_applied: None,
        }
    }

    /// Goes on at the end of a log that has lost what the node has applied.
    fn notice(&mut self, now: Time, log: &[Id]) -> Vec<Action> {
        let mut out = Outbox::new();
        self.waits.set_position(None);
        self.waits
            .on_timeout(now, &self.members, |_| None, &mut out);
        let actions: Vec<Action> = out.drain().collect();
        assert_eq!(
            actions.len(),
            self.waiting.len(),
            "it waits for what is lost"
        );
        // All that it has stored is stale now.
        self.history = log.to_vec();
        self.done.extend(log.iter().cloned());
        actions
    }

    /// Returns whether nothing shows yet that the log has lost entries.
    fn fits(&self, log: &[Id]) -> bool {
        let mut acknowledged = self.waiting.values();
        log.starts_with(&self.history)
            && acknowledged.all(|(_, id)| {
                let (_, sequence) = id.split_once('-').expect("a sequence");
                let has = log.get(sequence.parse::<usize>().expect("a number") - 1);
                has.is_none_or(|has| has == id)
            })
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
            log: vec!["0-1".into()],
            losses: 0,
            nodes: (0..nodes)
                .map(|index| Node::new(format!("n{index}"), now))
                .collect(),
            bucket: BTreeMap::new(),
            asked: None,
            outcomes: 0,
            with_lost: 0,
            unknown: 0,
            calm: false,
            asks: true,
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
        for _ in 0..2400 {
            self.step();
        }
        self.asks = false;
        for _ in 0..1200 {
            self.step();
        }
        let all = self.nodes.len() - 1;
        for node in &self.nodes[1..] {
            assert_eq!(node.members.count(), all, "{} at the end", node.name);
            assert!(node.members.is_complete(self.now));
            assert!(node.waiting.is_empty(), "{} waits for ever", node.name);
        }
    }

    fn step(&mut self) {
        self.now += STEP;
        if self.chance.chance(0.1) {
            for _ in 0..self.chance.below(4) {
                let id = format!("{}-{}", self.losses, self.log.len() + 1);
                self.log.push(id.into());
            }
        }
        if !self.calm && self.chance.chance(0.002) {
            let left = self.log.len().saturating_sub(self.chance.below(6) as usize);
            self.log.truncate(left.max(1));
            self.losses += 1;
        }
        if !self.calm && self.chance.chance(0.01) {
            self.fault();
        }
        for index in 0..self.nodes.len() {
            let now = self.now;
            let node = &mut self.nodes[index];
            if !node.runs || node.paused_until > now {
                continue;
            }
            let is_same = node.fits(&self.log);
            if is_same && node.connected && self.chance.chance(0.3) {
                let had = node.history.len();
                let has = self.log.len().min(had + self.chance.below(8) as usize);
                node.history.extend_from_slice(&self.log[had..has]);
                node.done.extend(self.log[had..has].iter().cloned());
            }
            // The acknowledgement of its purge shows it, or something else later.
            let asks = self.asks && node.connected && self.chance.chance(0.01);
            if !is_same && node.connected && (asks || self.chance.chance(0.02)) {
                for action in node.notice(now, &self.log) {
                    let Action::Waited { key, waited } = action else {
                        panic!("{action:?}");
                    };
                    self.check(index, key, &waited);
                }
            }
            let node = &mut self.nodes[index];
            let is_due = |(at, _): &mut (Time, Note)| *at <= now;
            let due: Vec<_> = node.inbox.extract_if(.., is_due).collect();
            for (_, note) in due {
                node.members.on_note(now, &note);
                node.waits.on_note(now, note, &node.members);
            }
            if asks && let Some(id) = self.log.last() {
                let position = Position {
                    log: "log".to_owned(),
                    sequence: self.log.len() as u64,
                    id: id.to_string(),
                };
                let key = node.waits.wait(now, position);
                node.waiting.insert(key, (now, id.clone()));
                self.asked = Some(now);
            }
            self.advance(index);
        }
    }

    fn advance(&mut self, index: usize) {
        let (now, mut out) = (self.now, Outbox::new());
        let node = &mut self.nodes[index];
        let applied = node.history.len() as u64;
        node.waits.set_position(Some(("log", applied)));
        node.members.on_timeout(now, &mut out);
        let id_of = |sequence: u64| node.history.get(usize::try_from(sequence).ok()? - 1);
        node.waits.on_timeout(now, &node.members, id_of, &mut out);
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
        if let Word::Applied { position: said, .. } = &note.word {
            let has = node.history.get(said.sequence as usize - 1);
            assert_eq!(has.map(|id| &**id), Some(said.id.as_str()), "it has that");
            let last = node.said_applied.replace(now);
            let pause = last.map_or(NOTE_INTERVAL, |last| now.since(last));
            assert!(pause.is_zero() || pause >= NOTE_INTERVAL, "{pause:?}");
            let asked = self.asked.map(|asked| now.since(asked));
            assert!(asked.is_some_and(|since| since <= WAIT * 3), "nobody waits");
        }
        if !node.connected {
            return;
        }
        match note.word {
            Word::Lease(_) => drop(self.bucket.insert(note.node.clone(), now)),
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
        let (since, id) = asker.waiting.remove(&key).expect("it waits");
        let waits = now.since(since);
        assert!(
            waits <= WAIT + STEP || asker.paused_until > since,
            "it waits for {waits:?}"
        );
        self.outcomes += 1;
        let lost: BTreeSet<&str> = waited.lost.iter().map(String::as_str).collect();
        assert_eq!(lost.len(), waited.lost.len(), "each once");
        let done = self.nodes.iter().filter(|node| node.done.contains(&id));
        assert!(waited.applied <= done.count());
        let Some(members) = waited.members else {
            self.unknown += 1;
            return;
        };
        self.with_lost += u32::from(!waited.lost.is_empty());
        assert!(waited.applied <= members);
        for node in &self.nodes {
            let well = node.is_well(now) && now.since(node.well_since) > ENDED;
            assert!(
                !well || node.done.contains(&id) || lost.contains(node.name.as_str()),
                "{} has not applied {id}, and is not among {waited:?}",
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
                node.members.on_disconnected(self.now);
            }
            _ => {}
        }
    }

    fn start(&mut self, index: usize) {
        let name = self.nodes[index].name.clone();
        let old = std::mem::replace(&mut self.nodes[index], Node::new(name, self.now));
        let node = &mut self.nodes[index];
        (node.history, node.done) = (old.history, old.done);
        // It continues before what it had applied.
        let kept = node.history.len();
        let kept = kept.saturating_sub(self.chance.below(5) as usize);
        node.history.truncate(kept);
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
    let (mut outcomes, mut with_lost, mut unknown) = (0, 0, 0);
    for seed in 0..100 {
        let mut world = World::new(seed);
        let run = std::panic::AssertUnwindSafe(|| world.run());
        if let Err(panic) = std::panic::catch_unwind(run) {
            let said = panic.downcast_ref::<String>();
            panic!("seed {seed}: {said:?}");
        }
        outcomes += world.outcomes;
        with_lost += world.with_lost;
        unknown += world.unknown;
    }
    assert!(
        with_lost.min(unknown) > 300 && outcomes > with_lost + unknown + 300,
        "{with_lost} and {unknown} of {outcomes}"
    );
}

fn lease(node: &str) -> Note {
    let node = node.to_owned();
    let word = Word::Lease(Lease::default());
    Note { node, word }
}

fn names(members: &Members) -> Vec<&str> {
    members.live().collect()
}

/// Failure: the servers are away for a minute, and then no other node is there.
#[test]
fn a_list_is_empty_while_the_servers_are_away() {
    let (mut out, mut now) = (Outbox::new(), Time::from_secs(50));
    let mut members = Members::new("a", None);
    members.on_connected(now, &mut out);
    for name in ["a", "b", "c"] {
        members.on_note(now, &lease(name));
    }
    members.on_read(now, Some(Vec::new()));
    assert!(!members.is_complete(now));
    members.on_disconnected(now);
    now += Duration::from_secs(60);
    members.on_connected(now, &mut out);
    members.on_read(now, Some(Vec::new()));
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
    assert!(members.is_complete(now));
    assert_eq!(names(&members), ["a", "c"]);
    assert_eq!(members.lost().collect::<Vec<_>>(), ["b"]);
    // One that leaves is not lost, and one that returns neither.
    let (node, word) = ("c".to_owned(), Word::Left);
    members.on_note(now, &Note { node, word });
    members.on_note(now, &lease("b"));
    assert_eq!(names(&members), ["a", "b"]);
    assert_eq!(members.lost().count(), 0);
    // A gap of the own renewals is not the others' death.
    now += LEASE + 2 * RENEW;
    members.on_note(now, &lease("a"));
    assert_eq!(names(&members), ["a", "b"]);
}

/// The renewals that a node publishes within a minute, with their times. It hears them.
fn renewals_of_a_minute(members: &mut Members, begun: Time) -> Vec<(Time, Lease)> {
    let (mut out, mut now, mut said) = (Outbox::new(), begun, Vec::new());
    while now.since(begun) < Duration::from_secs(60) {
        members.on_timeout(now, &mut out);
        for action in out.drain() {
            if let Action::Say(note) = action {
                members.on_note(now, &note);
                let Word::Lease(says) = note.word else {
                    panic!("{note:?}");
                };
                said.push((now, says));
            }
        }
        now = members.next_timeout().expect("it is connected").max(now);
    }
    said
}

/// The node hears that all of these are there for a minute.
fn hear_all(members: &mut Members, names: &[String], now: Time) {
    for name in names {
        let word = Word::Lease(Lease {
            renewal_seconds: Some(20),
            ..Lease::default()
        });
        let node = name.clone();
        members.on_note(now, &Note { node, word });
    }
}

/// Failure: each of 1,000 nodes renews its lease every two seconds. All nodes hear it, so the
/// servers send 500,000 messages a second when nothing happens. Or a node speaks later than it has
/// said, or goes on to speak seldom when the others have gone.
#[test]
fn many_nodes_renew_as_often_as_few() {
    let begun = Time::from_secs(50);
    for (nodes, most, renew) in [
        (100, 31, None),
        (101, 17, Some(4)),
        (1_000, 6, Some(20)),
        (4_000, 6, Some(20)),
    ] {
        let mut members = Members::new("node-0", None);
        members.on_connected(begun, &mut Outbox::new());
        let names: Vec<String> = (0..nodes).map(|number| format!("node-{number}")).collect();
        members.on_read(begun, Some(names.clone()));
        hear_all(&mut members, &names[1..], begun);
        let said = renewals_of_a_minute(&mut members, begun);
        assert!(said.len() <= most, "{nodes} nodes: {}", said.len());
        let last = &said.last().expect("it renews its lease").1;
        assert_eq!(last.renewal_seconds, renew, "{nodes} nodes");
        assert_eq!(members.beats(), if nodes > 100 { 4 } else { 6 });
        for pair in said.windows(2) {
            let (at, promised) = (pair[0].0, pair[0].1.renewal());
            assert!(pair[1].0.since(at) <= promised, "{nodes} nodes: {said:?}");
        }
        // The others leave.
        let begun = begun + Duration::from_secs(60);
        for name in &names[1..] {
            let (node, word) = (name.clone(), Word::Left);
            members.on_note(begun, &Note { node, word });
        }
        let said = renewals_of_a_minute(&mut members, begun);
        let last = &said.last().expect("it renews its lease").1;
        assert_eq!((last.renewal_seconds, members.beats()), (None, 6));
        assert!(said.len() > 15, "{nodes} nodes: {}", said.len());
    }
}

/// Failure: the nodes of a large fleet connect at once after an outage, and speak at once from then
/// on: 500 renewals in two seconds are heard by 1,000 nodes.
#[test]
fn many_nodes_speak_at_once() {
    let begun = Time::from_secs(50);
    let names: Vec<String> = (0..1_000).map(|number| format!("node-{number}")).collect();
    let mut times = Vec::new();
    for name in names.iter().step_by(10) {
        let mut members = Members::new(name, None);
        members.on_connected(begun, &mut Outbox::new());
        hear_all(&mut members, &names, begun);
        renewals_of_a_minute(&mut members, begun);
        let again = begun + Duration::from_secs(60);
        members.on_disconnected(again);
        let again = again + Duration::from_secs(10);
        members.on_connected(again, &mut Outbox::new());
        hear_all(&mut members, &names, again);
        let said = renewals_of_a_minute(&mut members, again);
        let last = said.last().expect("it renews its lease").0;
        times.push(last.since(again).as_secs() / 2);
    }
    // Two seconds in each twenty, after a renewal that may be lost, stay free.
    let shares = (20..30).map(|second| times.iter().filter(|time| **time == second).count());
    let mut shares: Vec<usize> = shares.collect();
    shares.sort_unstable();
    assert!(shares[1] >= 4 && shares[9] <= 20, "{shares:?}");
}

/// Failure: a node of a large fleet counts as lost between two of its renewals, or for ever as
/// there; or the bucket brings back one that is lost.
#[test]
fn a_rare_renewal_counts_as_lost() {
    let begun = Time::from_secs(50);
    let (mut members, mut now) = (Members::new("a", None), begun);
    members.on_connected(now, &mut Outbox::new());
    members.on_note(now, &lease("a"));
    let says = |renewal_seconds| Note {
        node: "b".to_owned(),
        word: Word::Lease(Lease {
            renewal_seconds,
            ..Lease::default()
        }),
    };
    // An hour is no promise of this version: a lease lasts a minute at most.
    for (renewal, lasts) in [(Some(20), 60), (Some(3_600), 60), (Some(0), 6), (None, 6)] {
        members.on_note(now, &says(renewal));
        let heard = now;
        while members.is_live("b") {
            now += RENEW;
            members.on_note(now, &lease("a"));
            members.on_read(now, Some(vec!["b".to_owned()]));
            assert!(now.since(heard) <= Duration::from_secs(62), "{renewal:?}");
        }
        let lasted = now.since(heard).as_secs();
        assert!(
            (lasts..=lasts + 2).contains(&lasted),
            "{renewal:?}: {lasted} s"
        );
        assert_eq!(members.lost().collect::<Vec<_>>(), ["b"]);
    }
    // What is no number does not make the rest unreadable.
    for (text, seconds) in [
        ("20", Some(20)),
        ("\"soon\"", None),
        ("-1", None),
        ("1e9", None),
    ] {
        let payload =
            format!("{{\"v\":1,\"renew\":{text},\"peer\":\"10.0.0.1:7443\",\"capacity\":1}}");
        let read = Note::decode("cdn", "$KV.larder_cdn_members.b", None, payload.as_bytes());
        let Some(Note {
            word: Word::Lease(says),
            ..
        }) = read
        else {
            panic!("{text}: {read:?}");
        };
        assert_eq!(
            (says.renewal_seconds, says.offer.is_some()),
            (seconds, true),
            "{text}"
        );
    }
}

/// Failure: the servers are away twice, for a moment and for longer, and then a node takes others
/// for lost that it could not hear.
#[test]
fn a_renewal_that_could_not_be_heard_counts_as_missing() {
    let (mut members, mut out) = (Members::new("a", None), Outbox::new());
    let begun = Time::from_secs(50);
    let at = |millis| begun + Duration::from_millis(millis);
    members.on_connected(begun, &mut out);
    members.on_note(begun, &lease("a"));
    members.on_note(begun, &lease("b"));
    // The other one renews its lease after 2, 4, 6 and 8 s.
    for (from, to) in [(1_900, 2_100), (3_900, 7_500)] {
        members.on_disconnected(at(from));
        members.on_connected(at(to), &mut out);
        members.on_note(at(to), &lease("a"));
        assert_eq!(names(&members), ["a", "b"]);
    }
    // It ends in its time if the connection stays, or comes and goes.
    for (away, lasts) in [(0, 6..=8), (1, 6..=8), (500, 8..=10)] {
        members.on_note(at(8_000), &lease("b"));
        let mut now = at(8_000);
        while members.is_live("b") {
            now += Duration::from_millis(2_000 - away);
            members.on_disconnected(now);
            now += Duration::from_millis(away);
            members.on_connected(now, &mut out);
            members.on_note(now, &lease("a"));
            assert!(now < at(60_000), "{away} ms away: it never ends");
        }
        let lasted = now.since(at(8_000)).as_secs();
        assert!(lasts.contains(&lasted), "{away} ms away: {lasted} s");
    }
}

/// A node that has applied entries of a log.
struct Asker {
    members: Members,
    waits: Waits,
    out: Outbox,
    now: Time,
}

impl Asker {
    fn new() -> Asker {
        let mut asker = Asker {
            members: Members::new("a", None),
            waits: Waits::new("a"),
            out: Outbox::new(),
            now: Time::from_secs(50),
        };
        asker.members.on_connected(asker.now, &mut asker.out);
        asker.waits.set_position(Some(("log", 7)));
        asker
    }

    fn note(&mut self, node: &str, word: Word) {
        let node = node.to_owned();
        let note = Note { node, word };
        self.members.on_note(self.now, &note);
        self.waits.on_note(self.now, note, &self.members);
    }

    /// Lets time pass, in which these nodes renew their leases.
    fn pass(&mut self, time: Duration, nodes: &[&str]) {
        let end = self.now + time;
        while self.now < end {
            for node in nodes {
                self.note(node, Word::Lease(Lease::default()));
            }
            self.now += RENEW.min(end.since(self.now));
        }
    }

    /// What it says and asks for, with the entries `id-1`, `id-2` and so on.
    fn actions(&mut self) -> Vec<Action> {
        let ids: Vec<Id> = (0..9).map(|n| format!("id-{n}").into()).collect();
        let id_of = |sequence: u64| ids.get(sequence as usize);
        let (now, members) = (self.now, &self.members);
        self.waits.on_timeout(now, members, id_of, &mut self.out);
        let is_lease = |action: &Action| match action {
            Action::Say(note) => matches!(note.word, Word::Lease(_)),
            action => *action == Action::ReadLeases,
        };
        let actions = self.out.drain();
        actions.filter(|action| !is_lease(action)).collect()
    }
}

fn waited(members: Option<usize>, applied: usize, lost: &[&str]) -> Waited {
    Waited {
        members,
        applied,
        lost: lost.iter().map(|&name| name.to_owned()).collect(),
    }
}

/// Failure: a node that has just connected knows no other, and takes itself for the whole fleet.
#[test]
fn a_node_that_knows_nobody_counts_as_all() {
    let mut asker = Asker::new();
    asker.note("a", Word::Lease(Lease::default()));
    let key = asker.waits.wait(asker.now, position(7));
    let said = asker.actions();
    let Some(Action::Say(Note { word, .. })) = said.last() else {
        panic!("{said:?}");
    };
    assert_eq!(*word, Word::Wait(position(7)));
    // The bucket is in memory: it may have lost the others.
    let names = vec!["a".to_owned()];
    asker.members.on_read(asker.now, Some(names));
    assert_eq!(asker.actions(), []);
    asker.pass(LEASE, &["a", "b"]);
    asker.note("a", Word::Lease(Lease::default()));
    let is_outcome = |action: &Action| matches!(action, Action::Waited { .. });
    // Not the entry, and not one of another log or after a roll-back.
    let other_log = Position {
        log: "other".to_owned(),
        ..position(7)
    };
    let other_entry = Position {
        id: "other".to_owned(),
        ..position(7)
    };
    for of in [position(6), other_log, other_entry] {
        asker.note("b", applied("a", of));
        assert!(!asker.actions().iter().any(is_outcome));
    }
    // Not a node either.
    asker.note("z", applied("a", position(7)));
    // Not what another one waits for.
    asker.note("b", applied("c", position(7)));
    assert!(!asker.actions().iter().any(is_outcome));
    asker.note("b", applied("a", position(7)));
    let waited = waited(Some(2), 2, &[]);
    assert_eq!(asker.actions(), [Action::Waited { key, waited }]);
}

/// Failure: nobody hears leases, as without the rights for it, and the node alone counts as all.
#[test]
fn a_node_without_rights_counts_as_all() {
    let mut asker = Asker::new();
    let key = asker.waits.wait(asker.now, position(7));
    asker.now += WAIT;
    let waited = waited(None, 1, &[]);
    assert_eq!(asker.actions(), [Action::Waited { key, waited }]);
}

/// Failure: the log loses the purge, or is another one, and its client learns that nodes have it.
#[test]
fn a_purge_that_is_lost_counts_as_executed() {
    for log in [None, Some(("other", 9))] {
        let mut asker = Asker::new();
        asker.members.on_read(asker.now, Some(Vec::new()));
        asker.pass(LEASE * 2, &["a", "b"]);
        let key = asker.waits.wait(asker.now, position(8));
        asker.note("b", applied("a", position(8)));
        asker.waits.set_position(log);
        let waited = waited(None, 1, &["a"]);
        assert_eq!(asker.actions(), [Action::Waited { key, waited }]);
    }
}

/// Failure: a node says that it has applied an entry, and has another one at its position; or one
/// node keeps the questions of others from being answered.
#[test]
fn a_node_answers_what_it_does_not_have() {
    let mut asker = Asker::new();
    let other = Position {
        id: "other".to_owned(),
        ..position(5)
    };
    asker.note("b", Word::Wait(other));
    assert_eq!(asker.actions(), []);
    for sequence in 100..10_000 {
        asker.note("b", Word::Wait(position(sequence)));
    }
    asker.note("c", Word::Wait(position(5)));
    asker.note("d", Word::Wait(position(5)));
    let answers = ["c", "d"].map(|to| {
        let (node, word) = ("a".to_owned(), applied(to, position(5)));
        Action::Say(Note { node, word })
    });
    assert_eq!(asker.actions(), answers);
    assert_eq!(asker.actions(), []);
}

/// Failure: a note is read as another one, or one of another fleet is.
#[test]
fn a_foreign_note_is_read() {
    let node = "n-1".to_owned();
    for word in [
        Word::Lease(Lease::default()),
        Word::Left,
        Word::Wait(position(5)),
        applied("n-2", position(u64::MAX)),
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
            "{\"v\":2,\"log\":\"a\",\"position\":1,\"id\":\"b\"}",
        ),
        ("larder.cdn.wait.n-1", "{\"v\":1}"),
        (
            "larder.cdn.wait.n-1",
            "{\"v\":1,\"log\":\"a\",\"position\":1}",
        ),
        (
            "larder.cdn.wait.n.1",
            "{\"v\":1,\"log\":\"a\",\"position\":1,\"id\":\"b\"}",
        ),
        (
            "larder.cdn.wait",
            "{\"v\":1,\"log\":\"a\",\"position\":1,\"id\":\"b\"}",
        ),
        (
            "larder.cdn.applied.n-1",
            "{\"v\":1,\"log\":\"a\",\"position\":1,\"id\":\"b\"}",
        ),
        (
            "larder.cdn.applied.n-1.n-2.n-3",
            "{\"v\":1,\"log\":\"a\",\"position\":1,\"id\":\"b\"}",
        ),
        (
            "larder.cdn.beat.n-1",
            "{\"v\":1,\"log\":\"a\",\"position\":1,\"id\":\"b\"}",
        ),
        ("$KV.larder_cdn_members.n/1", "{\"v\":1}"),
    ] {
        let read = Note::decode("cdn", subject, None, payload.as_bytes());
        assert_eq!(read, None, "{subject}");
    }
}
