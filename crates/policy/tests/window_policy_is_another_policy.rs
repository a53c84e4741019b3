//! WLFU and W-TinyLFU against naive models of their definitions.

use crate::traffic::Owner;
use larder_units::Time;
use proptest::prelude::*;
use std::collections::HashMap;

fn requests() -> impl Strategy<Value = Vec<(bool, u64)>> {
    proptest::collection::vec((proptest::bool::weighted(0.05), 0..40u64), 0..400)
}

fn size(id: u64) -> u64 {
    1 + id * 7 % 40
}

fn cached(owner: &Owner) -> Vec<u64> {
    let mut cached: Vec<_> = owner.index.keys().copied().collect();
    cached.sort_unstable();
    cached
}

fn sorted(mut ids: Vec<u64>) -> Vec<u64> {
    ids.sort_unstable();
    ids
}

fn bytes(ids: &[u64]) -> u64 {
    ids.iter().map(|id| size(*id)).sum()
}

proptest! {
    #[test]
    fn wlfu(steps in requests(), window in 1..120usize) {
        let mut owner = Owner::new(&format!("wlfu(window={window})").parse().unwrap(), 200, 1);
        let mut history: Vec<u64> = Vec::new();
        // The stored objects, in the order in which their counts last changed.
        let mut stored: Vec<u64> = Vec::new();
        for (removal, id) in steps {
            if removal {
                owner.remove(id);
                stored.retain(|other| *other != id);
                continue;
            }
            let mut changed = vec![id];
            history.push(id);
            if history.len() > window {
                changed.push(history.remove(0));
            }
            for id in changed {
                if let Some(place) = stored.iter().position(|other| *other == id) {
                    stored.remove(place);
                    stored.push(id);
                }
            }
            let count = |id: &u64| history.iter().filter(|other| *other == id).count();
            let hit = stored.contains(&id);
            prop_assert_eq!(owner.request(id, size(id), Time::ZERO), hit);
            if !hit {
                while bytes(&stored) + size(id) > 200 {
                    let (place, _) = stored.iter().enumerate().min_by_key(|(place, id)| (count(id), *place)).unwrap();
                    stored.remove(place);
                }
                stored.push(id);
            }
            prop_assert_eq!(cached(&owner), sorted(stored.clone()));
        }
    }

    #[test]
    fn w_tinylfu(steps in requests(), percent in 0..=100u64) {
        let mut owner = Owner::new(&format!("w-tinylfu(window={percent}%)").parse().unwrap(), 300, 1);
        let mut model = NaiveWTinyLfu::new(300, percent as f64 / 100.0);
        for (removal, id) in steps {
            if removal {
                owner.remove(id);
                model.remove(id);
                continue;
            }
            owner.request(id, size(id), Time::ZERO);
            model.request(id);
            prop_assert_eq!(cached(&owner), sorted(model.all()));
        }
    }
}

/// Lists with the oldest first. 400 requests do not end the sketch's first window of 640, so its
/// counts are exact up to 15.
struct NaiveWTinyLfu {
    capacity: u64,
    window_capacity: u64,
    counts: HashMap<u64, u32>,
    window: Vec<u64>,
    probation: Vec<u64>,
    protected: Vec<u64>,
}

impl NaiveWTinyLfu {
    fn new(capacity: u64, share: f64) -> Self {
        let window_capacity = (capacity as f64 * share) as u64;
        let (counts, window, probation, protected) = Default::default();
        NaiveWTinyLfu {
            capacity,
            window_capacity,
            counts,
            window,
            probation,
            protected,
        }
    }

    fn all(&self) -> Vec<u64> {
        [&self.window[..], &self.probation, &self.protected].concat()
    }

    fn remove(&mut self, id: u64) {
        for list in [&mut self.window, &mut self.probation, &mut self.protected] {
            list.retain(|other| *other != id);
        }
    }

    fn wins(&self, id: u64, short: u64) -> bool {
        let order = [&self.probation[..], &self.protected].concat();
        let fits = |count: &usize| bytes(&order[..*count]) >= short;
        let Some(count) = (1..=order.len()).find(fits) else {
            return false;
        };
        let count_of = |id: &u64| self.counts.get(id).copied().unwrap_or(0);
        let theirs: u32 = order[..count]
            .iter()
            .map(|victim| count_of(victim).max(1))
            .sum();
        theirs < count_of(&id) || theirs == count_of(&id) && size(id) < bytes(&order[..count])
    }

    fn evict(&mut self) {
        let main = self.probation.first().or(self.protected.first()).copied();
        let candidate = self.window.first().copied();
        let victim = match (candidate, main) {
            (Some(candidate), None) => candidate,
            (Some(candidate), Some(main)) if bytes(&self.window) > self.window_capacity / 2 => {
                if self.wins(candidate, size(candidate)) {
                    self.window.remove(0);
                    self.probation.push(candidate);
                    main
                } else {
                    candidate
                }
            }
            (_, main) => main.unwrap(),
        };
        self.remove(victim);
    }

    fn request(&mut self, id: u64) {
        let count = self.counts.entry(id).or_default();
        *count = (*count + 1).min(15);
        if self.window.contains(&id) {
            self.remove(id);
            self.window.push(id);
        } else if self.all().contains(&id) {
            self.remove(id);
            self.protected.push(id);
            while bytes(&self.protected)
                > ((self.capacity - self.window_capacity) as f64 * 0.8) as u64
            {
                self.probation.push(self.protected.remove(0));
            }
        } else {
            self.miss(id);
        }
    }

    fn miss(&mut self, id: u64) {
        let large = size(id) > self.window_capacity;
        let short = (bytes(&self.all()) + size(id)).saturating_sub(self.capacity);
        if large && short > 0 && !self.wins(id, short) {
            return;
        }
        while bytes(&self.all()) + size(id) > self.capacity {
            self.evict();
        }
        if large {
            self.probation.push(id);
            return;
        }
        self.window.push(id);
        while bytes(&self.window) > self.window_capacity {
            let main = bytes(&self.probation) + bytes(&self.protected);
            if main + size(self.window[0]) > self.capacity - self.window_capacity {
                break;
            }
            self.probation.push(self.window.remove(0));
        }
    }
}

#[test]
fn a_window_is_larger_than_the_cache() {
    let mut owner = Owner::new(&"w-tinylfu(window=100%)".parse().unwrap(), u64::MAX - 1, 1);
    for size in [1, u64::MAX - 1, 7, 1 << 63, (1 << 63) - 9] {
        owner.request(size, size, Time::ZERO);
        owner.check();
    }
    owner.resize((1 << 63) + 1);
    owner.check();
}

#[test]
fn a_scan_empties_the_main_part() {
    // Twenty objects requested often, then a thousand once each: the often requested ones must
    // stay.
    let mut owner = Owner::new(&"w-tinylfu(window=10%)".parse().unwrap(), 1000, 1);
    for _ in 0..5 {
        for id in 0..20 {
            owner.request(id, 40, Time::ZERO);
        }
    }
    for id in 100..600 {
        owner.request(id, 40, Time::ZERO);
    }
    let left = (0..20).filter(|id| owner.index.contains_key(id)).count();
    assert!(left >= 19, "{left} of 20 are left");
}
