//! A small cache over the engine, and traffic for it.
#![allow(dead_code)]

use larder_policy::{Engine, Future, Kind, Slot, Spec, registry};
use larder_units::{ByteSize, Stream, Streams, Time};
use std::collections::HashMap;
use std::sync::Arc;

/// One spec for every policy of the registry, each composed with a plain partner.
pub fn every_policy() -> Vec<Spec> {
    let text = |name: &str, kind| match (name, kind) {
        ("size", _) => "size(max=300)+lru".to_owned(),
        (name, Kind::Admission) => format!("{name}+lru"),
        (name, Kind::Eviction) => name.to_owned(),
    };
    let mut all: Vec<Spec> = registry()
        .iter()
        .map(|e| text(e.name, e.kind()).parse().unwrap())
        .collect();
    let others = [
        "filter(theta=2,window=50)+adaptsize(threshold,interval=1000,start=200)+random",
        // By default, short traffic does not reach this order.
        "agd(p=learned)",
    ];
    all.extend(others.map(|spec| spec.parse().unwrap()));
    all
}

/// An owner: an index by id, and what each slot holds.
pub struct Owner {
    pub engine: Engine,
    pub index: HashMap<u64, Slot>,
    pub held: Vec<Option<(u64, u64)>>,
    /// For tests that count.
    pub hits: u64,
    victims: Vec<Slot>,
}

impl Owner {
    /// Nothing is foreseen: policies that know the trace ahead are told that nothing comes again.
    pub fn new(spec: &Spec, capacity: u64, seed: u64) -> Owner {
        Owner::foreseeing(spec, capacity, seed, &Arc::default())
    }

    pub fn foreseeing(spec: &Spec, capacity: u64, seed: u64, future: &Arc<Future>) -> Owner {
        let capacity = ByteSize::from_bytes(capacity);
        let engine = Engine::foreseeing(spec, capacity, &Streams::new(seed), future).unwrap();
        Owner {
            engine,
            index: HashMap::new(),
            held: Vec::new(),
            hits: 0,
            victims: Vec::new(),
        }
    }

    /// One request; true at a hit.
    pub fn request(&mut self, id: u64, size: u64, now: Time) -> bool {
        if let Some(slot) = self.index.get(&id) {
            self.engine.hit(*slot, id, now);
            return true;
        }
        self.engine.miss(id, now);
        if self.engine.admit(id, size, now) {
            self.insert(id, size, now);
        }
        false
    }

    /// One request of a cache that fills free room whatever its admission says, as the node's do;
    /// true at a hit.
    pub fn request_or_fill(&mut self, id: u64, size: u64, now: Time) -> bool {
        if let Some(slot) = self.index.get(&id) {
            self.engine.hit(*slot, id, now);
            return true;
        }
        self.engine.miss(id, now);
        if self.engine.admit_or_fill(id, size, now) {
            self.insert(id, size, now);
        }
        false
    }

    pub fn insert(&mut self, id: u64, size: u64, now: Time) {
        let slot = self.engine.insert(id, size, now, &mut self.victims);
        self.drop_victims();
        if let Some(slot) = slot {
            if slot.index() >= self.held.len() {
                self.held.resize(slot.index() + 1, None);
            }
            assert_eq!(self.held[slot.index()], None, "a slot in use is given out");
            self.held[slot.index()] = Some((id, size));
            self.index.insert(id, slot);
        }
    }

    pub fn remove(&mut self, id: u64) {
        if let Some(slot) = self.index.remove(&id) {
            self.engine.remove(slot);
            self.held[slot.index()] = None;
        }
    }

    pub fn resize(&mut self, capacity: u64) {
        self.engine
            .set_capacity(ByteSize::from_bytes(capacity), &mut self.victims);
        self.drop_victims();
    }

    pub fn run_jobs(&mut self) {
        while let Some(job) = self.engine.job() {
            self.engine.complete(job.run());
        }
    }

    fn drop_victims(&mut self) {
        for slot in self.victims.drain(..) {
            let (id, _) = self.held[slot.index()]
                .take()
                .expect("a victim was not cached");
            self.index.remove(&id);
        }
    }

    pub fn check(&self) {
        self.engine.check_invariants();
        let bytes: u64 = self
            .held
            .iter()
            .flatten()
            .map(|(_, size)| (*size).max(1))
            .sum();
        assert!(
            self.engine.used() <= self.engine.capacity(),
            "{} over its capacity",
            self.engine.spec()
        );
        assert_eq!(
            self.engine.used().bytes(),
            bytes,
            "{}: bytes",
            self.engine.spec()
        );
        assert_eq!(
            self.engine.len(),
            self.index.len(),
            "{}: objects",
            self.engine.spec()
        );
    }
}

/// Each test that drives an engine also checks its invariants at the end.
impl Drop for Owner {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.engine.check_invariants();
        }
    }
}

/// Independent requests of objects with Zipf popularity, each with a size of its own.
pub struct Zipf {
    cumulative: Vec<f64>,
    stream: Stream,
}

impl Zipf {
    pub fn new(objects: usize, exponent: f64, seed: u64) -> Zipf {
        let mut sum = 0.0;
        let cumulative = (1..=objects).map(|rank| {
            sum += (rank as f64).powf(-exponent);
            sum
        });
        Zipf {
            cumulative: cumulative.collect(),
            stream: Streams::new(seed).stream("zipf"),
        }
    }

    pub fn draw(&mut self) -> u64 {
        let total = *self.cumulative.last().unwrap();
        let at = self.stream.unit() * total;
        self.cumulative.partition_point(|c| *c <= at) as u64
    }

    /// The probability of the object `id`.
    pub fn share(&self, id: usize) -> f64 {
        let before = if id == 0 {
            0.0
        } else {
            self.cumulative[id - 1]
        };
        (self.cumulative[id] - before) / self.cumulative.last().unwrap()
    }
}

/// A size for an object, log-uniform from 100 B to 1.6 MB, fixed by its id.
pub fn size_of(id: u64) -> u64 {
    let spread = (id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11) as f64 / (1_u64 << 53) as f64;
    (100.0 * (spread * 14.0).exp2()) as u64
}
