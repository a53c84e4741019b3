//! The policy engine alone, over the same law of requests: blocks B2, B12 and B13.
//!
//! In the forwarder a packet passes admission and insertion together, because an admission may
//! depend on what the packet before it has displaced. Here a batch passes each of them together, so
//! the counter is read once per part and batch.

use super::counter;
use larder_policy::{AnyIds, Engine, Slot, SlotIndex};
use larder_units::Time;

/// The median cycles of a request's parts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PolicyCycles {
    /// B2: the request is counted.
    pub(super) history: f64,
    /// B13: the admission decides.
    pub(super) admission: f64,
    /// B12, with the insertion itself: others leave, and the object is stored.
    pub(super) insertion: f64,
}

/// An engine, and where it has its objects.
pub(super) struct PolicyAlone {
    engine: Engine,
    /// The bytes of every object.
    bytes: u64,
    index: SlotIndex<AnyIds>,
    /// By slot.
    ids: Vec<u64>,
    victims: Vec<Slot>,
}

impl PolicyAlone {
    /// An engine that stores objects of this size.
    pub(super) fn new(engine: Engine, bytes: u64) -> PolicyAlone {
        PolicyAlone {
            engine,
            bytes,
            index: SlotIndex::default(),
            ids: Vec::new(),
            victims: Vec::new(),
        }
    }

    /// Requests these objects, and stores those that are missing and admitted. Returns the cycles
    /// of history, admission and insertion, each with the number of its requests.
    pub(super) fn run(&mut self, now: Time, objects: &[u64]) -> [(u64, u32); 3] {
        let found: Vec<Option<Slot>> = objects.iter().map(|id| self.find(*id)).collect();
        let requests = || objects.iter().copied().zip(found.iter().copied());
        // As the forwarder does for a batch.
        for (id, _) in requests() {
            self.engine.prefetch(id);
        }
        for (id, slot) in requests() {
            self.engine.prefetch_slot(id, slot);
        }
        for (id, slot) in requests() {
            self.engine.prefetch_further(id, slot);
        }
        let begun = counter::now();
        for (id, slot) in requests() {
            match slot {
                Some(slot) => self.engine.hit(slot, id, now),
                None => self.engine.miss(id, now),
            }
        }
        let history = counter::now() - begun;

        // An object is fetched once.
        let mut missed: Vec<u64> = requests()
            .filter(|(_, slot)| slot.is_none())
            .map(|(id, _)| id)
            .collect();
        missed.sort_unstable();
        missed.dedup();
        let mut admitted: Vec<u64> = Vec::with_capacity(missed.len());
        let begun = counter::now();
        admitted.extend(
            missed
                .iter()
                .filter(|id| self.engine.admit(**id, self.bytes, now))
                .copied(),
        );
        let admission = counter::now() - begun;

        let mut slots = Vec::with_capacity(admitted.len());
        let begun = counter::now();
        for id in &admitted {
            let slot = self.engine.insert(*id, self.bytes, now, &mut self.victims);
            slots.push((slot, self.victims.len()));
        }
        let insertion = counter::now() - begun;
        // In this order, because a slot may be taken more than once.
        let mut victims = std::mem::take(&mut self.victims);
        let mut gone = 0;
        for (id, (slot, victims_so_far)) in admitted.iter().zip(slots) {
            for victim in &victims[gone..victims_so_far] {
                self.index.remove(self.ids[victim.index()], *victim);
            }
            gone = victims_so_far;
            let Some(slot) = slot else { continue };
            if self.ids.len() <= slot.index() {
                self.ids.resize(slot.index() + 1, 0);
            }
            self.ids[slot.index()] = *id;
            self.index.insert(*id, slot);
        }
        victims.clear();
        self.victims = victims;
        let [requested, missed, stored] =
            [objects.len(), missed.len(), admitted.len()].map(|count| count as u32);
        [
            (history, requested),
            (admission, missed),
            (insertion, stored),
        ]
    }

    fn find(&self, id: u64) -> Option<Slot> {
        self.index.find(id, |slot| self.ids[slot.index()] == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_units::{ByteSize, Streams};

    /// Failure: what is measured stores other objects than the policy says.
    #[test]
    fn an_engine_alone_loses_its_objects() {
        let engine = Engine::new(
            &"lru".parse().unwrap(),
            ByteSize::from_bytes(300),
            &Streams::new(1),
        )
        .unwrap();
        let mut policy = PolicyAlone::new(engine, 100);
        let counts = |costs: [(u64, u32); 3]| costs.map(|(_, requests)| requests);
        assert_eq!(counts(policy.run(Time::ZERO, &[1, 2, 2])), [3, 2, 2]);
        assert_eq!(counts(policy.run(Time::ZERO, &[1, 2, 3])), [3, 1, 1]);
        // The least recently used leave, and one of them within its own batch.
        assert_eq!(counts(policy.run(Time::ZERO, &[4, 5, 6, 7])), [4, 4, 4]);
        assert_eq!(policy.engine.len(), 3);
        assert_eq!(
            [1, 2, 3, 4, 5, 6, 7].map(|id| policy.find(id).is_some()),
            [false, false, false, false, true, true, true]
        );
    }
}
