//! Detects an engine that loses objects or their order when its policies change.

use larder_policy::{Engine, Registry, Slot, Spec};
use larder_units::{ByteSize, Streams, Time};

fn engine(policy: &str, capacity: u64) -> Engine {
    Engine::new(
        &policy.parse().unwrap(),
        ByteSize::from_bytes(capacity),
        &Streams::new(1),
    )
    .unwrap()
}

fn reconfigure(engine: &mut Engine, policy: &str, capacity: u64) -> Vec<Slot> {
    let (spec, mut victims): (Spec, _) = (policy.parse().unwrap(), Vec::new());
    engine
        .reconfigure(
            &spec,
            ByteSize::from_bytes(capacity),
            &Streams::new(2),
            Time::ZERO,
            &mut victims,
        )
        .unwrap();
    engine.check_invariants();
    victims
}

/// Returns the ids of the objects of an engine, in the order of their eviction.
fn evicted(engine: &mut Engine) -> Vec<u64> {
    let mut ids = Vec::new();
    while !engine.is_empty() {
        let mut victims = Vec::new();
        engine.set_capacity(
            ByteSize::from_bytes(engine.used().bytes() - 1),
            &mut victims,
        );
        ids.extend(victims.iter().filter_map(|slot| engine.last_id(*slot)));
    }
    ids
}

#[test]
fn the_order_of_eviction_is_lost() {
    let mut lru = engine("lru", 1000);
    let mut slots = Vec::new();
    for id in 0..10 {
        lru.miss(id, Time::ZERO);
        slots.extend(lru.insert(id, 100, Time::ZERO, &mut Vec::new()));
    }
    for id in &[3, 0, 7] {
        lru.hit(slots[*id as usize], *id, Time::ZERO);
    }
    assert!(reconfigure(&mut lru, "fifo", 1000).is_empty());
    for id in 0..10 {
        assert!(lru.holds(slots[id as usize], id), "{id} has another slot");
    }
    let left = reconfigure(&mut lru, "lru", 800);
    assert_eq!(
        left.iter()
            .filter_map(|slot| lru.last_id(*slot))
            .collect::<Vec<_>>(),
        [1, 2]
    );
    assert_eq!(evicted(&mut lru), [4, 5, 6, 8, 9, 3, 0, 7]);
}

/// Every eviction policy, each after every other one: all objects stay, and the engine continues.
#[test]
fn a_policy_loses_what_another_one_had() {
    let registry = Registry::builtin();
    let policies: Vec<String> = registry
        .iter()
        .filter(|entry| entry.name.parse::<Spec>().is_ok())
        .map(|entry| entry.name.to_owned())
        .filter(|name| {
            Engine::new(
                &name.parse().unwrap(),
                ByteSize::from_bytes(9),
                &Streams::new(1),
            )
            .is_ok()
        })
        .collect();
    assert!(policies.len() > 15, "{policies:?}");
    let mut random = Streams::new(7).stream("requests");
    let mut engine = engine("lru", 20_000);
    let mut slots = std::collections::HashMap::new();
    for round in 0..6 {
        for (at, policy) in policies.iter().enumerate() {
            let before = engine.len();
            assert!(reconfigure(&mut engine, policy, 20_000).is_empty());
            assert_eq!(engine.len(), before, "{policy}");
            for number in 0..60 {
                let (id, now) = (
                    random.below(300),
                    Time::from_nanos(round * 1_000_000 + at as u64 * 1000 + number),
                );
                match slots.get(&id).filter(|slot| engine.holds(**slot, id)) {
                    Some(slot) => engine.hit(*slot, id, now),
                    None => {
                        engine.miss(id, now);
                        let slot = engine.insert(id, 50 + random.below(400), now, &mut Vec::new());
                        slots.insert(id, slot.unwrap());
                    }
                }
            }
            engine.check_invariants();
        }
    }
}
