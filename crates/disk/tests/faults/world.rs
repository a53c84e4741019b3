//! A log over a disk that fails, and beside it what may be read: of each value, everything that has
//! happened to it, in order, and how much of that must have survived.

use super::disk::Disk;
use bytes::Bytes;
use larder_disk::{BanVerdict, Bans, Config, Geometry, Identity, Log, Opened, Put};
use larder_units::{Stream, Streams, Time};
use std::collections::BTreeMap;
use std::time::Duration;

pub const KEYS: u64 = 8;
pub const TAGS: u64 = 2;

/// Bans name the last byte of keys.
#[derive(Default)]
pub struct LastBytes(Vec<(u64, u8)>);

impl LastBytes {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Bans for LastBytes {
    fn add(&mut self, position: u64, ban: &[u8]) {
        self.0.push((position, ban[0]));
    }

    fn verdict(&self, position: u64, key: &[u8], _: &[u8]) -> BanVerdict {
        let concerns = |ban: &&(u64, u8)| ban.0 > position && key.last() == Some(&ban.1);
        if self.0.iter().any(|ban| concerns(&ban)) {
            BanVerdict::Gone
        } else {
            BanVerdict::Untouched
        }
    }

    fn retire(&mut self, before: u64) {
        self.0.retain(|ban| ban.0 >= before);
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    Put(u64),
    Removed,
}

/// What has happened to one value.
#[derive(Default, Debug)]
pub struct History {
    events: Vec<Event>,
    /// So many of them must have survived.
    durable: usize,
    /// A crash has left it unknown which of so many have survived.
    unknown: usize,
}

pub struct World {
    pub disk: Disk,
    pub log: Log<LastBytes>,
    pub now: Time,
    pub stream: Stream,
    config: Config,
    histories: BTreeMap<(u8, u32), History>,
    versions: u64,
    longest: u64,
    /// Values found after crashes that had to be found.
    pub survived: u64,
    /// Regions reclaimed and values rewritten before crashes.
    pub reclaimed: [u64; 2],
}

pub fn key(number: u8) -> Vec<u8> {
    format!("key {number}").into_bytes()
}

/// Tells key, tag and version, and is recognised whole.
fn value(number: u8, tag: u32, version: u64, length: u64) -> [Bytes; 2] {
    let head = format!("{number} {tag} {version} {length} ").into_bytes();
    let body: Vec<u8> = (0..length).map(|at| (at * 7 + version) as u8).collect();
    [head.into(), body.into()]
}

impl World {
    pub fn new(seed: u64, policy: &str, longest: u64) -> World {
        let mut stream = Streams::new(seed).stream("world");
        let geometry = Geometry::new(
            2048 + 64 * stream.below(20) as u32,
            8 + stream.below(4) as u32,
        )
        .unwrap();
        let config = Config {
            geometry,
            policy: policy.parse().unwrap(),
            queue_bytes: 128 << 20,
        };
        let disk = Disk::new(geometry.file_bytes(), Streams::new(seed).stream("disk"));
        let (log, opened) = open(&disk, &config, Time::ZERO);
        assert_eq!(opened, Opened::New);
        World {
            disk,
            log,
            now: Time::ZERO,
            stream,
            config,
            histories: BTreeMap::new(),
            versions: 0,
            longest,
            survived: 0,
            reclaimed: [0; 2],
        }
    }

    pub fn step(&mut self) {
        self.now += Duration::from_millis(self.stream.below(40));
        // One changes often, so that others are old when their regions are used again.
        let number = if self.stream.chance(0.6) {
            0
        } else {
            self.stream.below(KEYS) as u8
        };
        let tag = self.stream.below(TAGS) as u32;
        match self.stream.below(100) {
            0..45 => self.put(number, tag),
            45..49 => {
                self.log.remove(&key(number), self.now);
                self.happened(|(key, _)| *key == number);
            }
            49..52 => {
                self.log.remove_variant(&key(number), tag, self.now);
                self.happened(|name| *name == (number, tag));
            }
            52..55 => {
                self.log.ban(
                    Bytes::copy_from_slice(key(number).last_chunk::<1>().unwrap()),
                    self.now,
                );
                self.happened(|(key, _)| *key == number);
            }
            55 if self.stream.chance(0.2) => {
                self.log.clear(self.now);
                self.happened(|_| true);
            }
            56..75 => self.work(3),
            75..80 => self.settle(),
            80..83 => {
                // A second is promised, half of it for the disk.
                self.work(u32::MAX);
                self.now += larder_disk::limits::SYNC_AFTER;
                self.work(u32::MAX);
                self.everything_lasts();
            }
            _ => self.look(number, tag, false),
        }
        self.log.check_invariants();
    }

    fn put(&mut self, number: u8, tag: u32) {
        self.versions += 1;
        let length = self.stream.below(self.longest);
        self.log.request(&key(number), self.now);
        let put = self.log.put(
            &key(number),
            tag,
            value(number, tag, self.versions, length),
            self.now,
        );
        let history = self.histories.entry((number, tag)).or_default();
        match put {
            Put::Stored => history.events.push(Event::Put(self.versions)),
            // The one before goes with it, also where the policy had let it go.
            _ => history.events.push(Event::Removed),
        }
    }

    fn happened(&mut self, to: impl Fn(&(u8, u32)) -> bool) {
        for (_, history) in self.histories.iter_mut().filter(|(name, _)| to(name)) {
            history.events.push(Event::Removed);
        }
    }

    fn everything_lasts(&mut self) {
        for history in self
            .histories
            .values_mut()
            .filter(|history| history.events.len() > history.unknown)
        {
            history.durable = history.events.len();
        }
    }

    pub fn work(&mut self, jobs: u32) {
        for _ in 0..jobs {
            let Some(job) = self.log.job(self.now) else {
                return;
            };
            let done = job.run(&self.disk);
            self.log.check_invariants();
            self.log.complete(done, self.now);
        }
    }

    pub fn settle(&mut self) {
        let ticket = self.log.settle(self.now);
        self.work(u32::MAX);
        if !self.log.has_failed() {
            assert!(
                self.log.is_settled(ticket),
                "it was settled, and there is nothing left to do"
            );
            self.everything_lasts();
        }
    }

    /// Reads one value, and checks that it is the newest, or that there is none.
    pub fn look(&mut self, number: u8, tag: u32, after_crash: bool) {
        let found = self.read(number, tag);
        let Some(history) = self.histories.get_mut(&(number, tag)) else {
            return assert_eq!(found, None);
        };
        let Some(version) = found else {
            if after_crash {
                history.unknown = history.events.len();
            }
            return;
        };
        let at = history
            .events
            .iter()
            .rposition(|event| *event == Event::Put(version))
            .expect("it was never put");
        let first = if after_crash {
            history.durable.saturating_sub(1)
        } else {
            history.events.len() - 1
        };
        assert!(
            at >= first,
            "version {version} of {number} {tag} is out of date: {history:?}"
        );
        if after_crash {
            history.events.truncate(at + 1);
            (history.durable, history.unknown) = (at + 1, 0);
        }
    }

    fn read(&mut self, number: u8, tag: u32) -> Option<u64> {
        let lookup = self.log.look_up(&key(number), Some(tag))?;
        let read = lookup.run(&self.disk, lookup.room());
        let recalled = self.log.finish(&lookup, read)?;
        assert!(self.log.is_current(&key(number), recalled.position));
        let text = String::from_utf8_lossy(&recalled.value).into_owned();
        let mut words = text
            .split(' ')
            .map(|word| word.parse::<u64>().unwrap_or(u64::MAX));
        let [_, _, version, length] = std::array::from_fn(|_| words.next().unwrap());
        let whole = value(number, tag, version, length).concat();
        assert!(recalled.value == whole, "torn, or another's");
        Some(version)
    }

    /// A crash after which only what is found is checked: the policy may have let go of the rest.
    pub fn crash_without_count(&mut self) {
        self.disk.crash();
        self.reopen();
        self.look_at_all();
    }

    /// Flips a bit anywhere.
    pub fn rot(&mut self) {
        let at = self.stream.below(self.config.geometry.file_bytes());
        self.disk.rot(at as usize);
    }

    /// How many values can be read.
    pub fn readable(&mut self) -> usize {
        let names: Vec<_> = self.histories.keys().copied().collect();
        names
            .iter()
            .filter(|(number, tag)| self.read(*number, *tag).is_some())
            .count()
    }

    fn reopen(&mut self) {
        let (log, opened) = open(&self.disk, &self.config, self.now);
        assert_eq!(opened, Opened::Found);
        log.check_invariants();
        self.log = log;
    }

    fn look_at_all(&mut self) {
        for number in 0..KEYS as u8 {
            for tag in 0..TAGS as u32 {
                self.look(number, tag, true);
            }
        }
    }

    pub fn crash(&mut self) {
        let mut held = Vec::new();
        for (number, tag) in self.histories.keys().copied().collect::<Vec<_>>() {
            let version = self.read(number, tag);
            let history = &self.histories[&(number, tag)];
            // Nothing has happened to it that is not synced.
            if version.is_some() && history.durable == history.events.len() {
                held.push((number, tag, version));
            }
        }
        let counters = self.log.counters();
        self.reclaimed[0] += counters.regions_reclaimed;
        self.reclaimed[1] += counters.rewritten;
        self.disk.crash();
        self.reopen();
        let missing = held
            .iter()
            .filter(|(number, tag, version)| self.read(*number, *tag) != *version)
            .count() as u64;
        self.survived += held.len() as u64 - missing;
        let counters = self.log.counters();
        assert_eq!(
            counters.corrupt + counters.unreadable,
            0,
            "what the index names is there"
        );
        assert!(missing <= counters.reclaimed, "{missing} values were lost");
        self.look_at_all();
    }
}

fn open(disk: &Disk, config: &Config, now: Time) -> (Log<LastBytes>, Opened) {
    let identity = Identity {
        id: 77,
        hash_key: [5; 16],
    };
    Log::open(
        disk,
        config,
        identity,
        LastBytes::default(),
        &Streams::new(1),
        now,
    )
    .unwrap()
}
