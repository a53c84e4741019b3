//! LHD: the least dense of all leaves, where no more objects are stored than a sample holds.
//!
//! What befell objects is a list of events, each with its weight, and a density is summed over all
//! of it anew.

use super::{CAPACITY, Item, Model, Queue, bytes, find, new};
use larder_policy::limits::{LHD_MAX_INTERVAL, LHD_MIN_INTERVAL};
use larder_units::{Stream, Streams};
use std::collections::{BTreeSet, HashMap, HashSet};

const CLASSES: u32 = 16;
const BINS: u64 = 592;

pub struct Lhd {
    stream: Stream,
    now: u64,
    due: u64,
    protected: u64,
    span_log: u32,
    /// Hits and evictions, what is left of each, by class and bin.
    hits: HashMap<(u32, u64), f64>,
    evictions: HashMap<(u32, u64), f64>,
    /// None before anything is known.
    densities: Option<HashMap<(u32, u64), f64>>,
    items: Queue,
    /// Where each is: a newcomer takes the place that was left last.
    slots: HashMap<u64, usize>,
    free: Vec<usize>,
    requests: HashMap<u64, Vec<u64>>,
    explorers: HashSet<u64>,
}

impl Default for Lhd {
    fn default() -> Self {
        Lhd {
            stream: Streams::new(1).stream("policy stage 0 lhd"),
            now: 0,
            due: LHD_MIN_INTERVAL,
            protected: u64::MAX,
            span_log: 7,
            hits: HashMap::new(),
            evictions: HashMap::new(),
            densities: None,
            items: Queue::new(),
            slots: HashMap::new(),
            free: Vec::new(),
            requests: HashMap::new(),
            explorers: HashSet::new(),
        }
    }
}

/// The least age of a bin: each its own up to 16, then 16 an octave.
fn first_age(bin: u64) -> u64 {
    if bin < 16 {
        bin
    } else {
        (16 + bin % 16) << (bin / 16 - 1)
    }
}

impl Lhd {
    fn tick(&mut self) {
        self.now += 1;
        if self.now < self.due {
            return;
        }
        let mut densities = HashMap::new();
        for class in 0..CLASSES {
            let (mut hits, mut events, mut time) = (0.0, 0.0, 0.0);
            for bin in (0..BINS).rev() {
                let [hit, evicted] = [&self.hits, &self.evictions]
                    .map(|counts| counts.get(&(class, bin)).copied().unwrap_or(0.0));
                hits += hit;
                events += hit + evicted;
                time += events * (first_age(bin + 1) - first_age(bin)) as f64;
                densities.insert((class, bin), if events > 1e-5 { hits / time } else { 0.0 });
            }
        }
        self.densities = Some(densities);
        for counts in [&mut self.hits, &mut self.evictions] {
            for count in counts.values_mut() {
                *count = if *count > 1e-5 { *count * 0.9 } else { 0.0 };
            }
        }
        let stored = self.items.len().max(1) as u64;
        self.protected = 16 * stored;
        self.span_log = stored.ilog2() + 7;
        self.due = self.now + stored.clamp(LHD_MIN_INTERVAL, LHD_MAX_INTERVAL);
    }

    /// Class and bin: by the time of the last two intervals between requests, and since the last
    /// request.
    fn place(&self, id: u64) -> (u32, u64) {
        let requests = &self.requests[&id];
        let last = *requests.last().unwrap();
        let class = match requests.len() {
            1 => 0,
            length => self
                .span_log
                .saturating_sub((last - requests[length.saturating_sub(3)]).ilog2())
                .min(CLASSES - 1),
        };
        let age = self.now - last;
        (
            class,
            (0..BINS).rev().find(|bin| first_age(*bin) <= age).unwrap(),
        )
    }

    fn density(&self, item: &Item) -> f64 {
        let (class, bin) = self.place(item.id);
        let expected = match &self.densities {
            None => f64::from(class + 1) / (first_age(bin) + 1) as f64,
            Some(densities) => densities[&(class, bin)],
        };
        let age = self.now - self.requests[&item.id].last().unwrap();
        let explores = self.explorers.contains(&item.id) && age < self.protected;
        expected / item.size as f64 + if explores { 1.0 } else { 0.0 }
    }

    /// One in 32, while explorers take a hundredth at most.
    fn explore(&mut self, id: u64, size: u64) {
        let explorers = self
            .items
            .iter()
            .filter(|item| self.explorers.contains(&item.id));
        let taken: u64 = explorers.map(|item| item.size).sum();
        if taken + size <= CAPACITY / 100 && self.stream.chance(1.0 / 32.0) {
            self.explorers.insert(id);
        }
    }

    fn drop(&mut self, id: u64) {
        if let Some(place) = find(&self.items, id) {
            self.items.remove(place);
            self.free.extend(self.slots.remove(&id));
            self.requests.remove(&id);
            self.explorers.remove(&id);
        }
    }
}

impl Model for Lhd {
    fn request(&mut self, id: u64, size: u64) -> bool {
        self.tick();
        if find(&self.items, id).is_some() {
            let place = self.place(id);
            *self.hits.entry(place).or_insert(0.0) += 1.0;
            self.explorers.remove(&id);
            self.explore(id, size);
            self.requests.get_mut(&id).unwrap().push(self.now);
            return true;
        }
        while bytes(&self.items) + size > CAPACITY {
            // The first of the least dense.
            let key = |item: &Item| (self.density(item), self.slots[&item.id]);
            let least = self
                .items
                .iter()
                .min_by(|a, b| key(a).partial_cmp(&key(b)).unwrap())
                .unwrap()
                .id;
            let place = self.place(least);
            *self.evictions.entry(place).or_insert(0.0) += 1.0;
            self.drop(least);
        }
        self.requests.insert(id, vec![self.now]);
        self.explore(id, size);
        let slot = self.free.pop().unwrap_or(self.slots.len());
        self.slots.insert(id, slot);
        self.items.push(new(id, size));
        false
    }

    fn remove(&mut self, id: u64) {
        self.drop(id);
    }

    fn cached(&self) -> Vec<u64> {
        let ids: BTreeSet<u64> = self.items.iter().map(|item| item.id).collect();
        ids.into_iter().collect()
    }
}
