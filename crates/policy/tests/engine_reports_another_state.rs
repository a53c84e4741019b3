//! Failure: the owner of an engine, or an admission stage, reads another state than the engine has.

use larder_policy::{Admit, Cache, Engine, Evict, Policy, Request, Slot, Spec};
use larder_units::{ByteSize, Streams, Time};
use std::sync::atomic::{AtomicUsize, Ordering};

fn lru(capacity: u64) -> Engine {
    let spec: Spec = "lru".parse().unwrap();
    Engine::new(&spec, ByteSize::from_bytes(capacity), &Streams::new(1)).unwrap()
}

fn insert(engine: &mut Engine, id: u64) -> (Slot, Vec<Slot>) {
    let mut victims = Vec::new();
    let slot = engine.insert(id, 10, Time::ZERO, &mut victims).expect("it fits");
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
    assert_eq!((engine.last_id(first), engine.object(first)), (Some(7), None));
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
    let slots: Vec<Slot> = (0..OBJECTS as u64).map(|id| insert(&mut engine, id).0).collect();
    let full = engine.state_bytes();
    slots.into_iter().for_each(|slot| engine.remove(slot));
    let free = engine.state_bytes() - full;
    let least = OBJECTS * size_of::<Slot>();
    assert!((least..=2 * least + 64).contains(&free), "{free} bytes for {OBJECTS} free slots");
}

/// The number of stored objects that the admission stage has read last.
static SEEN: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Admits everything.
struct Counting;

impl Policy for Counting {}

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
        let position = after.map_or(0, |after| self.0.iter().position(|slot| *slot == after).map_or(0, |at| at + 1));
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
    let mut engine = Engine::with(ByteSize::from_bytes(50), vec![Box::new(Counting)], Box::<Fifo>::default());
    let slots: Vec<Slot> = (0..4).map(|id| insert(&mut engine, id).0).collect();
    for (removed, slot) in slots.into_iter().enumerate() {
        assert!(engine.admit(9, 10, Time::ZERO));
        assert_eq!(SEEN.load(Ordering::Relaxed), 4 - removed);
        engine.remove(slot);
    }
}
