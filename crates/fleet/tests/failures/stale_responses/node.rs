//! A node: the real follower and acceptor, over a model of the cache and of its disk.

use larder_fleet::{
    Acceptor, AcceptorConfig, Action, Body, Follower, FollowerConfig, JournalAction, JournalKey,
    Journaled, Kept, Mark, Outbox,
};
use larder_units::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// Names of objects.
pub const NAMES: usize = 4;

pub const MAX_LAG: Duration = Duration::from_secs(6);

/// How long purges stay in the outbox.
pub const OUTBOX_KEEP: Duration = Duration::from_secs(25);

/// A stored response.
#[derive(Clone, Copy, Debug)]
pub struct Stored {
    /// When it was requested from the origin, by the world's clock: for the oracle.
    pub asked: Time,
    /// The node's position then: what the node itself knows.
    pub position: u64,
}

/// The last purges by position, as a cache has them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Purges {
    names: [u64; NAMES],
    everything: u64,
}

impl Purges {
    pub fn allow(&self, name: usize, position: u64) -> bool {
        self.names[name].max(self.everything) <= position
    }
}

/// What outlives a crash.
#[derive(Debug, Default)]
pub struct DiskState {
    pub objects: [Option<Stored>; NAMES],
    purges: Purges,
    /// Positions that were written. A crash may leave an older one.
    pub kept: Vec<Kept>,
    pub journal: BTreeMap<JournalKey, Journaled>,
    /// The counter of local positions.
    position: u64,
}

#[derive(Debug)]
pub struct Node {
    name: String,
    pub follower: Follower,
    pub acceptor: Acceptor,
    pub alive: bool,
    /// Rises with each start.
    pub incarnation: u32,
    /// Rises with each connection.
    pub connection: u32,
    /// Whether messages pass.
    pub connected: bool,
    /// Republished entries do not arrive until then.
    pub mute_until: Time,
    /// Except the node's own beats.
    pub hears_own_beats: bool,
    /// Acknowledgements do not arrive before.
    pub acknowledged_from: Time,
    pub paused_until: Time,
    /// The node's clock is that much ahead of the world's.
    clock: Duration,
    pub objects: [Option<Stored>; NAMES],
    pub purges: Purges,
    pub position: u64,
    pub disk: DiskState,
    last_mark: Mark,
    /// The timer that is set.
    pub timer: Option<Time>,
    /// What the host has published for lookups.
    pub fresh_until: Option<Time>,
}

pub struct Start {
    pub name: usize,
    pub nonce: u128,
    pub clock: Duration,
}

fn name_of(start: &Start) -> String {
    format!("node-{}", start.name)
}

fn cores(start: &Start) -> (Follower, Acceptor) {
    let config = FollowerConfig {
        node: name_of(start),
        max_lag: MAX_LAG,
        beats: 6,
    };
    let outbox = AcceptorConfig {
        keep: OUTBOX_KEEP,
        ..AcceptorConfig::default()
    };
    (
        Follower::new(config, start.nonce),
        Acceptor::new(outbox, start.nonce ^ (1 << 100)),
    )
}

impl Node {
    pub fn new(start: &Start) -> Node {
        let (follower, acceptor) = cores(start);
        Node {
            name: name_of(start),
            follower,
            acceptor,
            alive: false,
            incarnation: 0,
            connection: 0,
            connected: false,
            mute_until: Time::ZERO,
            hears_own_beats: false,
            acknowledged_from: Time::ZERO,
            paused_until: Time::ZERO,
            clock: start.clock,
            objects: [None; NAMES],
            purges: Purges::default(),
            position: 1,
            disk: DiskState::default(),
            last_mark: Mark::default(),
            timer: None,
            fresh_until: None,
        }
    }

    /// Whether a republished entry does not arrive.
    pub fn is_mute(&self, world: Time, body: &Body) -> bool {
        let own = matches!(body, Body::Beat { node } if *node == self.name);
        self.mute_until > world && !(own && self.hears_own_beats)
    }

    /// Returns the node's time.
    pub fn now(&self, world: Time) -> Time {
        world + self.clock
    }

    /// Returns the world's time of a time of the node.
    pub fn world_time(&self, own: Time) -> Time {
        Time::ZERO + own.since(Time::ZERO + self.clock)
    }

    pub fn crash(&mut self) {
        self.alive = false;
        self.connected = false;
        self.connection += 1;
        self.incarnation += 1;
        self.timer = None;
        self.fresh_until = None;
    }

    /// Starts with what the disk has. `older`: the kept position is an older one by so many.
    pub fn start(&mut self, world: Time, start: &Start, older: usize, out: &mut Outbox) {
        (self.follower, self.acceptor) = cores(start);
        self.clock = start.clock;
        self.alive = true;
        self.incarnation += 1;
        self.objects = self.disk.objects;
        self.purges = self.disk.purges;
        self.position = self.disk.position + 1_000_000;
        self.disk.position = self.position;
        self.last_mark = Mark::default();
        let kept = &self.disk.kept;
        let index = kept.len().checked_sub(1 + older.min(kept.len().max(1) - 1));
        let kept = index.map(|index| kept[index].clone());
        let journal = self.disk.journal.values().cloned().collect();
        let now = self.now(world);
        let witnesses = self.acceptor.on_journal_read(now, journal, out);
        self.follower.on_started(kept, witnesses);
    }

    /// Stores a response that was requested at a position, if no purge has overtaken it.
    pub fn store(&mut self, name: usize, stored: Stored, on_disk: bool) {
        if self.purges.allow(name, stored.position) {
            self.objects[name] = Some(stored);
            if on_disk {
                self.disk.objects[name] = Some(stored);
            }
        }
    }

    /// Syncs the purges, and tells the follower.
    pub fn settle(&mut self, world: Time, out: &mut Outbox) {
        self.disk.purges = self.purges;
        self.disk.position = self.disk.position.max(self.position);
        let now = self.now(world);
        self.follower.on_settled(now, self.last_mark, out);
    }

    /// Carries out an action that concerns the cache or the disk. Returns others.
    pub fn carry_out(&mut self, world: Time, action: Action, out: &mut Outbox) -> Option<Action> {
        match action {
            Action::Apply { mark, message, .. } => {
                self.position += 1;
                self.last_mark = mark;
                for url in &message.urls {
                    let name: usize = url.parse().expect("a URL of the model is a number");
                    self.purges.names[name] = self.position;
                }
                if message.everything {
                    self.purges.everything = self.position;
                }
            }
            Action::MakeStale { mark, reason } => {
                self.position += 1;
                self.last_mark = mark;
                self.purges.everything = self.position;
                let now = self.now(world);
                self.acceptor.publish_again(now, reason, out);
                return Some(Action::MakeStale { mark, reason });
            }
            Action::Keep(kept) => {
                self.disk.kept.push(kept);
                if self.disk.kept.len() > 4 {
                    self.disk.kept.remove(0);
                }
            }
            Action::Journal(JournalAction::Remove { key }) => {
                self.disk.journal.remove(&key);
            }
            Action::Journal(JournalAction::Acknowledged { key, entry }) => {
                if let Some(journaled) = self.disk.journal.get_mut(&key) {
                    journaled.entry = entry;
                }
            }
            other => return Some(other),
        }
        None
    }
}
