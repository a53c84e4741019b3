//! Failure: the owner of an engine, or an admission stage, reads another state than the engine has.

use larder_policy::{Admit, Cache, Engine, Evict, Policy, Request, Slot, Spec, Work};
use larder_units::{ByteSize, Streams, Time};
use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

fn lru(capacity: u64) -> Engine {
    let spec: Spec = "lru".parse().unwrap();
    Engine::new(&spec, ByteSize::from_bytes(capacity), &Streams::new(1)).unwrap()
}

fn insert(engine: &mut Engine, id: u64) -> (Slot, Vec<Slot>) {
    let mut victims = Vec::new();
    let slot = engine
        .insert(id, 10, Time::ZERO, &mut victims)
        .expect("it fits");
    engine.check_invariants();
    (slot, victims)
}

#[test]
fn a_slot_is_in_use_or_not() {
    let mut engine = lru(20);
    assert!(engine.is_empty());
    let (first, _) = insert(&mut engine, 7);
    assert!(!engine.is_empty() && engine.len() == 1);
    assert_eq!(engine.last_id(first), Some(7));
    assert!(engine.holds(first, 7) && !engine.holds(first, 8));
    let (second, victims) = insert(&mut engine, 8);
    assert!(victims.is_empty() && engine.last_id(second) == Some(8));

    engine.remove(first);
    assert!(!engine.holds(first, 7), "it was removed");
    assert_eq!(
        (engine.last_id(first), engine.object(first)),
        (Some(7), None)
    );
    engine.remove(second);
    assert!(engine.is_empty() && engine.used().bytes() == 0);
}

#[test]
fn a_slot_that_was_never_used_has_no_id() {
    let mut engine = lru(20);
    let (slot, _) = insert(&mut engine, 7);
    let other = lru(20);
    assert_eq!((other.last_id(slot), other.holds(slot, 7)), (None, false));
}

/// The list of free slots is memory too.
#[test]
fn free_slots_are_counted_as_memory() {
    const OBJECTS: usize = 1000;
    let mut engine = lru(10 * OBJECTS as u64);
    let slots: Vec<Slot> = (0..OBJECTS as u64)
        .map(|id| insert(&mut engine, id).0)
        .collect();
    let full = engine.state_bytes();
    for slot in slots {
        engine.remove(slot);
    }
    let free = engine.state_bytes() - full;
    let least = OBJECTS * size_of::<Slot>();
    assert!(
        (least..=2 * least + 64).contains(&free),
        "{free} bytes for {OBJECTS} free slots"
    );
}

/// The number of stored objects that the admission stage has read last.
static SEEN: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Admits everything.
struct Counting;

impl Policy for Counting {
    fn state_bytes(&self) -> usize {
        1000
    }
}

impl Admit for Counting {
    fn on_request(&mut self, _: &Request, _: bool) {}

    fn admit(&mut self, _: &Request, cache: &mut Cache<'_>) -> bool {
        SEEN.store(cache.len(), Ordering::Relaxed);
        true
    }
}

/// Evicts the slots in the order of their use.
#[derive(Default)]
struct Fifo(std::collections::VecDeque<Slot>);

impl Policy for Fifo {}

impl Evict for Fifo {
    fn on_hit(&mut self, _: Slot, _: &Request) {}

    fn on_insert(&mut self, slot: Slot, _: &Request) {
        self.0.push_back(slot);
    }

    fn victim(&mut self, _: Option<&Request>) -> Option<Slot> {
        self.0.pop_front()
    }

    fn peek(&mut self, after: Option<Slot>) -> Option<Slot> {
        let position = after.map_or(0, |after| {
            self.0
                .iter()
                .position(|slot| *slot == after)
                .map_or(0, |at| at + 1)
        });
        self.0.get(position).copied()
    }

    fn on_remove(&mut self, slot: Slot) {
        self.0.retain(|other| *other != slot);
    }

    fn object_count(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

#[test]
fn an_admission_stage_counts_other_objects() {
    let mut engine = Engine::with(
        ByteSize::from_bytes(50),
        vec![Box::new(Counting)],
        Box::<Fifo>::default(),
    );
    let slots: Vec<Slot> = (0..4).map(|id| insert(&mut engine, id).0).collect();
    for (removed, slot) in slots.into_iter().enumerate() {
        assert!(engine.admit(9, 10, Time::ZERO));
        assert_eq!(SEEN.load(Ordering::Relaxed), 4 - removed);
        engine.remove(slot);
    }
}

/// An eviction that keeps the numbers of the requests, and one number of a job.
#[derive(Default)]
struct Recording {
    inner: Fifo,
    hits: Arc<Mutex<Vec<u64>>>,
    results: Arc<Mutex<Vec<u64>>>,
    has_worked: bool,
}

impl Policy for Recording {
    fn work(&mut self) -> Option<Work> {
        (!std::mem::replace(&mut self.has_worked, true))
            .then(|| -> Work { Box::new(|| Box::new(42_u64)) })
    }

    fn complete(&mut self, result: Box<dyn Any + Send>) {
        self.results
            .lock()
            .unwrap()
            .push(*result.downcast().unwrap());
    }

    fn state_bytes(&self) -> usize {
        300_000
    }
}

impl Evict for Recording {
    fn on_hit(&mut self, _: Slot, request: &Request) {
        self.hits.lock().unwrap().push(request.seq);
    }

    fn on_insert(&mut self, slot: Slot, request: &Request) {
        self.inner.on_insert(slot, request);
    }

    fn victim(&mut self, incoming: Option<&Request>) -> Option<Slot> {
        self.inner.victim(incoming)
    }

    fn peek(&mut self, after: Option<Slot>) -> Option<Slot> {
        self.inner.peek(after)
    }

    fn on_remove(&mut self, slot: Slot) {
        self.inner.on_remove(slot);
    }
}

#[test]
fn hits_are_not_numbered_as_requests() {
    let eviction = Recording::default();
    let hits = eviction.hits.clone();
    let mut engine = Engine::with(ByteSize::from_bytes(50), Vec::new(), Box::new(eviction));
    let (slot, _) = insert(&mut engine, 7);
    engine.hit(slot, 7, Time::ZERO);
    engine.miss(8, Time::ZERO);
    engine.hit(slot, 7, Time::ZERO);
    assert_eq!(*hits.lock().unwrap(), [1, 3]);
}

#[test]
fn the_result_of_a_job_is_lost() {
    let eviction = Recording::default();
    let results = eviction.results.clone();
    let mut engine = Engine::with(
        ByteSize::from_bytes(50),
        vec![Box::new(Counting)],
        Box::new(eviction),
    );
    let job = engine.job().expect("the eviction has work");
    assert!(engine.job().is_none(), "one job at a time");
    engine.complete(job.run());
    assert_eq!(*results.lock().unwrap(), [42]);
}

#[test]
fn tables_of_objects_or_policies_are_not_counted_as_memory() {
    const OBJECTS: usize = 1000;
    let capacity = ByteSize::from_bytes(10 * OBJECTS as u64);
    let mut engine = Engine::with(
        capacity,
        vec![Box::new(Counting)],
        Box::new(Recording::default()),
    );
    assert_eq!(engine.state_bytes(), 301_000);
    for id in 0..OBJECTS as u64 {
        drop(insert(&mut engine, id));
    }
    let least = OBJECTS * 2 * size_of::<u64>();
    let own = engine.state_bytes() - 301_000;
    assert!(
        (least..=2 * least + 64).contains(&own),
        "{own} bytes for {OBJECTS} objects"
    );
}
