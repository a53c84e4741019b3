//! The least of a rank leaves: LFU, GreedyDual-Size and with Frequency, LRU-K, hyperbolic, random
//! priority.

use super::{CAPACITY, Item, Model, Queue, bytes, find, new, take};
use larder_units::{Stream, Streams};
use std::collections::HashMap;

#[derive(Clone, Copy)]
pub enum Rank {
    Frequency,
    AgedFrequency,
    GreedyDual { frequency: bool },
}

/// Items in the order of their last requests, oldest first; an item's key is fixed at its last
/// request.
pub struct Ranked {
    rank: Rank,
    bypasses: bool,
    age: f64,
    items: Queue,
    keys: HashMap<u64, f64>,
}

impl Ranked {
    pub fn new(rank: Rank) -> Ranked {
        Ranked {
            rank,
            bypasses: false,
            age: 0.0,
            items: Queue::new(),
            keys: HashMap::new(),
        }
    }

    pub fn bypassing(self) -> Ranked {
        Ranked {
            bypasses: true,
            ..self
        }
    }

    fn key(&self, item: Item) -> f64 {
        match self.rank {
            Rank::Frequency => item.count as f64,
            Rank::AgedFrequency => self.age + item.count as f64,
            Rank::GreedyDual { frequency: false } => self.age + 1.0 / item.size as f64,
            Rank::GreedyDual { frequency: true } => self.age + item.count as f64 / item.size as f64,
        }
    }

    fn store(&mut self, item: Item) {
        self.keys.insert(item.id, self.key(item));
        self.items.push(item);
    }
}

impl Model for Ranked {
    fn request(&mut self, id: u64, size: u64) -> bool {
        if let Some(item) = take(&mut self.items, id) {
            self.store(Item {
                count: item.count + 1,
                ..item
            });
            return true;
        }
        // The least key first, of equals the least recent (the sort is stable).
        let mut order = self.items.clone();
        order.sort_by(|a, b| self.keys[&a.id].total_cmp(&self.keys[&b.id]));
        let mut left = 0;
        while bytes(&order[left..]) + size > CAPACITY {
            left += 1;
        }
        let newcomer = Item {
            count: 1,
            ..new(id, size)
        };
        let stronger = order[..left]
            .iter()
            .map(|item| self.keys[&item.id])
            .find(|key| *key > self.key(newcomer));
        if self.bypasses
            && let Some(required) = stronger
        {
            self.age += (required - self.age) / self.items.len() as f64;
            return false;
        }
        for item in &order[..left] {
            self.age = self.age.max(self.keys[&item.id]);
            take(&mut self.items, item.id);
        }
        self.store(newcomer);
        false
    }

    fn remove(&mut self, id: u64) {
        take(&mut self.items, id);
    }

    fn cached(&self) -> Vec<u64> {
        self.items.iter().map(|item| item.id).collect()
    }
}

pub struct LruK {
    k: usize,
    history_bytes: u64,
    now: u64,
    items: Queue,
    left: Queue,
    /// Of every object, stored or not, oldest first.
    times: HashMap<u64, Vec<u64>>,
}

impl LruK {
    pub fn new(k: usize, percent: u64) -> LruK {
        let history_bytes = CAPACITY * percent / 100;
        LruK {
            k,
            history_bytes,
            now: 0,
            items: Queue::new(),
            left: Queue::new(),
            times: HashMap::new(),
        }
    }

    /// The K-th last request, 0 where there were fewer, and the last.
    fn rank(&self, id: u64) -> (u64, u64) {
        let times = &self.times[&id];
        let kth = times
            .len()
            .checked_sub(self.k)
            .map_or(0, |place| times[place]);
        (kth, times[times.len() - 1])
    }
}

impl Model for LruK {
    fn request(&mut self, id: u64, size: u64) -> bool {
        self.now += 1;
        let hit = find(&self.items, id).is_some();
        if !hit {
            while bytes(&self.items) + size > CAPACITY {
                let item = *self
                    .items
                    .iter()
                    .min_by_key(|item| self.rank(item.id))
                    .unwrap();
                take(&mut self.items, item.id);
                self.left.push(item);
                if item.size > self.history_bytes {
                    self.left.pop();
                    self.times.remove(&item.id);
                }
                while bytes(&self.left) > self.history_bytes {
                    let forgotten = self.left.remove(0);
                    self.times.remove(&forgotten.id);
                }
            }
            take(&mut self.left, id);
            self.items.push(new(id, size));
        }
        self.times.entry(id).or_default().push(self.now);
        hit
    }

    fn remove(&mut self, id: u64) {
        if take(&mut self.items, id).is_some() {
            self.times.remove(&id);
        }
    }

    fn cached(&self) -> Vec<u64> {
        self.items.iter().map(|item| item.id).collect()
    }
}

/// Items with their count and, by id, when they were stored.
#[derive(Default)]
pub struct Hyperbolic {
    now: u64,
    items: Queue,
    stored: HashMap<u64, u64>,
}

impl Model for Hyperbolic {
    fn request(&mut self, id: u64, size: u64) -> bool {
        self.now += 1;
        if let Some(place) = find(&self.items, id) {
            self.items[place].count += 1;
            return true;
        }
        while bytes(&self.items) + size > CAPACITY {
            let rank = |item: &Item| {
                let stored = self.stored[&item.id];
                (
                    item.count as f64 / (item.size as f64 * (self.now - stored).max(1) as f64),
                    stored,
                )
            };
            let least = self
                .items
                .iter()
                .min_by(|a, b| rank(a).partial_cmp(&rank(b)).unwrap())
                .unwrap()
                .id;
            take(&mut self.items, least);
        }
        self.items.push(Item {
            count: 1,
            ..new(id, size)
        });
        self.stored.insert(id, self.now);
        false
    }

    fn remove(&mut self, id: u64) {
        take(&mut self.items, id);
    }

    fn cached(&self) -> Vec<u64> {
        self.items.iter().map(|item| item.id).collect()
    }
}

/// The count is the priority.
pub struct RandomPriority {
    /// The policy's own stream.
    stream: Stream,
    items: Queue,
}

impl Default for RandomPriority {
    fn default() -> Self {
        RandomPriority {
            stream: Streams::new(1).stream("policy stage 0 random-priority"),
            items: Queue::new(),
        }
    }
}

impl Model for RandomPriority {
    fn request(&mut self, id: u64, size: u64) -> bool {
        if find(&self.items, id).is_some() {
            return true;
        }
        let mut all = self.items.clone();
        all.push(Item {
            count: self.stream.bits(),
            ..new(id, size)
        });
        all.sort_by_key(|item| item.count);
        while bytes(&all) > CAPACITY {
            if all.remove(0).id == id {
                return false;
            }
        }
        self.items = all;
        false
    }

    fn remove(&mut self, id: u64) {
        take(&mut self.items, id);
    }

    fn cached(&self) -> Vec<u64> {
        self.items.iter().map(|item| item.id).collect()
    }
}
