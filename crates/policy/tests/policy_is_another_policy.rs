//! Each policy against a naive model of its definition.

use crate::traffic::Owner;
use larder_units::{ByteSize, Time};
use proptest::prelude::*;
use std::collections::VecDeque;

/// Requests and removals of a few objects; the size follows the id.
fn requests() -> impl Strategy<Value = Vec<(bool, u64)>> {
    proptest::collection::vec((proptest::bool::weighted(0.05), 0..25u64), 0..400)
}

fn size(id: u64) -> u64 {
    1 + id * 7 % 40
}

/// FIFO and LRU by a vector: the newest at the end.
fn list_model(text: &str, moves_at_hit: bool, steps: &[(bool, u64)]) -> Result<(), TestCaseError> {
    let mut owner = Owner::new(&text.parse().unwrap(), 100, 1);
    let mut model: Vec<u64> = Vec::new();
    for (removal, id) in steps.iter().copied() {
        let place = model.iter().position(|cached| *cached == id);
        if removal {
            owner.remove(id);
            model.retain(|cached| *cached != id);
            continue;
        }
        let hit = owner.request(id, size(id), Time::ZERO);
        prop_assert_eq!(hit, place.is_some());
        match place {
            Some(place) if moves_at_hit => {
                let id = model.remove(place);
                model.push(id);
            }
            Some(_) => {}
            None => {
                while model.iter().map(|id| size(*id)).sum::<u64>() + size(id) > 100 {
                    model.remove(0);
                }
                model.push(id);
            }
        }
        let mut cached: Vec<_> = owner.index.keys().copied().collect();
        let mut expected = model.clone();
        cached.sort_unstable();
        expected.sort_unstable();
        prop_assert_eq!(cached, expected);
    }
    Ok(())
}

proptest! {
    #[test]
    fn fifo(steps in requests()) {
        list_model("fifo", false, &steps)?;
    }

    #[test]
    fn lru(steps in requests()) {
        list_model("lru", true, &steps)?;
    }

    #[test]
    fn filter(steps in requests(), theta in 1..5u64, longer in 0..56usize) {
        let window = theta as usize + longer;
        // 2^20 slots: these 25 ids do not collide (the hash is fixed), so the naive counts are
        // exact.
        let spec = format!("filter(theta={theta},window={window},table=1048576)+fifo").parse().unwrap();
        let mut owner = Owner::new(&spec, 100, 1);
        let mut history = VecDeque::new();
        for (_, id) in steps {
            history.push_back(id);
            if history.len() > window {
                history.pop_front();
            }
            let seen = history.iter().filter(|earlier| **earlier == id).count() as u64;
            let hit = owner.request(id, size(id), Time::ZERO);
            let stored = owner.index.contains_key(&id);
            prop_assert_eq!(stored, hit || seen >= theta);
        }
    }

    #[test]
    fn size_threshold(steps in requests(), max in 1..50u64) {
        let mut owner = Owner::new(&format!("size(max={max})+fifo").parse().unwrap(), 100, 1);
        for (_, id) in steps {
            owner.request(id, size(id), Time::ZERO);
            prop_assert_eq!(owner.index.contains_key(&id), size(id) <= max);
        }
    }
}

#[test]
fn random_prefers_some() {
    // Ten cached; each newcomer takes the slot of one of them, and each slot's turn should come
    // about as often.
    let mut owner = Owner::new(&"random".parse().unwrap(), 10, 1);
    let mut left = [0_u32; 10];
    for id in 0..5_010 {
        owner.insert(id, 1, Time::ZERO);
        if id >= 10 {
            left[owner.index[&id].index()] += 1;
        }
    }
    // χ² with nine degrees of freedom: 27.9 is exceeded once in a thousand.
    let chi: f64 = left
        .iter()
        .map(|count| (f64::from(*count) - 500.0).powi(2) / 500.0)
        .sum();
    assert!(chi < 27.9, "{chi}: {left:?}");
}

#[test]
fn filter_counts_wrap_around() {
    // 70,000 requests of one object fill its 16-bit counter; then it ages out of the window, and a
    // newcomer must start from zero.
    let mut owner = Owner::new(
        &"filter(window=70000,table=131072)+fifo".parse().unwrap(),
        100,
        1,
    );
    for _ in 0..70_000 {
        owner.request(1, 60, Time::ZERO);
    }
    for id in 2..80_000 {
        assert!(!owner.request(id, 60, Time::ZERO));
    }
    owner.remove(1);
    owner.request(1, 60, Time::ZERO);
    assert!(
        !owner.index.contains_key(&1),
        "counted once in the window, θ is 2"
    );
    owner.request(1, 60, Time::ZERO);
    assert!(owner.index.contains_key(&1));
}

#[test]
fn filter_keeps_its_first_window() {
    // 1,000-byte objects in 1 MB: the window should become a thousand, and the table follow.
    let mut owner = Owner::new(&"filter+fifo".parse().unwrap(), 1_000_000, 1);
    for round in 0..4 {
        for id in 0..900 {
            let hit = owner.request(id, 1000, Time::ZERO);
            // Once seen twice within the window: everything of this loop of 900 is admitted, which
            // the first window of 122 would not do.
            assert!(round < 3 || hit || !owner.index.is_empty());
        }
    }
    let gauges = owner.engine.gauges();
    let window = gauges
        .iter()
        .find(|(_, gauge)| gauge.name == "window_requests")
        .unwrap()
        .1
        .value;
    assert!((900.0..1000.0).contains(&window), "{window}");
    assert!(owner.engine.len() > 850, "{}", owner.engine.len());
}

#[test]
fn free_room_is_refused_or_full_room_filled() {
    let mut owner = Owner::new(&"size(max=10)+fifo".parse().unwrap(), 100, 1);
    assert!(!owner.engine.admit(1, 60, Time::ZERO));
    assert!(owner.engine.admit_or_fill(1, 60, Time::ZERO));
    owner.insert(1, 60, Time::ZERO);
    assert!(
        owner.engine.admit_or_fill(2, 40, Time::ZERO),
        "it just fits"
    );
    assert!(
        !owner.engine.admit_or_fill(2, 41, Time::ZERO),
        "something would have to leave"
    );
    assert!(!owner.engine.admit_or_fill(2, u64::MAX, Time::ZERO));
    assert!(owner.engine.admit_or_fill(2, 10, Time::ZERO), "admitted");
    // A victim of 60 leaves more room than the newcomer of 50 takes: what is left is the policy's
    // to give.
    owner.insert(3, 50, Time::ZERO);
    assert!(!owner.engine.admit_or_fill(4, 20, Time::ZERO));
    // Nearly everything was purged: that room is free again.
    let mut victims = Vec::new();
    owner
        .engine
        .set_capacity(ByteSize::from_bytes(200), &mut victims);
    assert!(owner.engine.admit_or_fill(4, 20, Time::ZERO));
}
