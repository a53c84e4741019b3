//! Tests of `peek`: a look ahead shows the victims that will leave, and removes none.

use super::*;
use crate::entry::Kind;
use crate::future::FutureBuilder;
use crate::registry::registry;
use crate::traits::Policy;
use std::collections::HashMap;
use std::sync::Mutex;

/// Admits only an object that is smaller than everything that would leave for it, and records the
/// victims it was shown.
struct Duel(Arc<Mutex<Vec<u64>>>);

impl Policy for Duel {}

impl Admit for Duel {
    fn on_request(&mut self, _: &Request, _: bool) {}

    fn admit(&mut self, request: &Request, cache: &mut Cache<'_>) -> bool {
        let mut shown = self.0.lock().unwrap();
        shown.clear();
        let mut room = cache.capacity() - cache.used();
        while room < request.size
            && let Some(victim) = cache.next_victim()
        {
            shown.push(victim.id);
            room += victim.size;
        }
        room >= request.size
    }
}

#[test]
fn an_engine_that_cannot_move_to_another_thread() {
    fn sent<T: Send>() {}
    sent::<Engine>();
    sent::<Job>();
    sent::<JobDone>();
}

#[test]
fn a_duel_is_shown_others_than_those_who_leave() {
    // A window that holds nothing never compares.
    for name in evictors().chain(["w-tinylfu(window=50%)"]) {
        let capacity = ByteSize::from_bytes(1000);
        let mut engine = Engine::foreseeing(
            &name.parse().unwrap(),
            capacity,
            &Streams::new(1),
            &future(),
        )
        .unwrap();
        let shown = Arc::new(Mutex::new(Vec::new()));
        engine.admission.push(Box::new(Duel(shown.clone())));
        let mut victims = Vec::new();
        let mut ids = Vec::new();
        for id in 0..500_u64 {
            let size = 10 + id * 37 % 300;
            engine.miss(id, Time::ZERO);
            // An evictor may refuse the newcomer. The test stores it nevertheless, and the same
            // victims must leave for it.
            let _ = engine.admit(id, size, Time::ZERO);
            victims.clear();
            let slot = engine.insert(id, size, Time::ZERO, &mut victims).unwrap();
            let left: Vec<u64> = victims.iter().map(|slot| ids[slot.index()]).collect();
            assert_eq!(left, *shown.lock().unwrap(), "{name}");
            ids.resize(ids.len().max(slot.index() + 1), 0);
            ids[slot.index()] = id;
            engine.hit(slot, id, Time::ZERO);
        }
    }
}

/// Reads all victims, and refuses every third object in spite of the result.
struct Fickle(Duel);

impl Policy for Fickle {}

impl Admit for Fickle {
    fn on_request(&mut self, _: &Request, _: bool) {}

    fn admit(&mut self, request: &Request, cache: &mut Cache<'_>) -> bool {
        self.0.admit(request, cache) && !request.seq.is_multiple_of(3)
    }
}

#[test]
fn looking_ahead_loses_objects() {
    for name in evictors() {
        let capacity = ByteSize::from_bytes(1000);
        let mut engine = Engine::foreseeing(
            &name.parse().unwrap(),
            capacity,
            &Streams::new(1),
            &future(),
        )
        .unwrap();
        let shown = Arc::new(Mutex::new(Vec::new()));
        engine.admission.push(Box::new(Fickle(Duel(shown.clone()))));
        let mut stream = Streams::new(2).stream("test");
        let mut index = HashMap::new();
        let mut victims = Vec::new();
        for second in 0..20_000 {
            let now = Time::from_secs(second);
            let ids = 1 + stream.below(80);
            let id = stream.below(ids);
            let size = 10 + id * 37 % 300;
            match index.get(&id).copied() {
                Some(slot) if stream.chance(0.1) => {
                    engine.remove(slot);
                    index.remove(&id);
                }
                Some(slot) => engine.hit(slot, id, now),
                None => {
                    engine.miss(id, now);
                    if engine.admit(id, size, now) {
                        let slot = engine.insert(id, size, now, &mut victims).unwrap();
                        let left: Vec<u64> = victims
                            .drain(..)
                            .map(|left| {
                                *index
                                    .iter()
                                    .find(|(_, slot)| **slot == left)
                                    .expect("a victim was not stored")
                                    .0
                            })
                            .collect();
                        assert_eq!(left, *shown.lock().unwrap(), "{name}");
                        for id in &left {
                            _ = index.remove(id);
                        }
                        index.insert(id, slot);
                    }
                }
            }
            assert_eq!(engine.len(), index.len(), "{name}");
        }
        engine.set_capacity(ByteSize::from_bytes(0), &mut victims);
        victims.sort_unstable();
        let mut stored: Vec<Slot> = index.into_values().collect();
        stored.sort_unstable();
        assert_eq!(victims, stored, "{name}");
    }
}

/// Requests that will not come. A policy with foresight must not lose objects because of them.
fn future() -> Arc<Future> {
    let mut trace = FutureBuilder::default();
    for place in 0..10_000_u64 {
        trace.push(place * place % 97, 10).unwrap();
    }
    Arc::new(trace.build())
}

fn evictors() -> impl Iterator<Item = &'static str> {
    registry()
        .iter()
        .filter(|entry| entry.kind() == Kind::Eviction)
        .map(|entry| entry.name)
}

/// Failure: an owner prefetches other objects than those that leave, or a look at the victims
/// changes them.
#[test]
fn the_expected_victims_are_not_those_that_leave() {
    for policy in ["fifo", "lru"] {
        let mut engine = Engine::new(
            &policy.parse().unwrap(),
            ByteSize::from_bytes(10),
            &Streams::new(1),
        )
        .unwrap();
        let mut victims = Vec::new();
        assert_eq!(engine.expected_victims().next(), None, "{policy}");
        let slots: Vec<_> = (0..10)
            .map(|id| engine.insert(id, 1, Time::ZERO, &mut victims).unwrap())
            .collect();
        engine.hit(slots[3], 3, Time::ZERO);
        let expected: Vec<_> = engine.expected_victims().take(8).collect();
        assert_eq!(engine.expected_victims().count(), 10, "{policy}");
        for id in 20..28 {
            _ = engine.insert(id, 1, Time::ZERO, &mut victims);
        }
        assert_eq!(victims, expected, "{policy}");
    }
}
