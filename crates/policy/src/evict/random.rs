//! Random: evicts any object with equal chance, independent of its size.
//!
//! One bit for each slot records whether its object may be drawn. A victim is a random slot; an
//! empty one is drawn again. The next slots are drawn ahead, when their future objects are not
//! known yet, so that the objects can be prefetched: Random's victim is the only one that is far
//! from the last one in memory. With a list of the stored slots, as before, a victim needed three
//! cache misses, one after another.
//!
//! `peek` shows victims to a newcomer, and `victim` then takes the ones shown. After a refusal, the
//! next newcomer sees others. O(1) a request, except in a cache that is nearly empty after it was
//! full, in which the slots are searched; one bit an object.

use crate::entry::{Build, PolicyEntry};
use crate::traits::{Evict, Policy};
use crate::{Request, Slot};
use larder_units::Stream;
use std::collections::VecDeque;

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "random",
    citation: "Belady, A study of replacement algorithms for a virtual-storage computer, IBM Systems Journal 1966",
    summary: "evicts any object with equal chance",
    parameters: &[],
    complexity: "O(1)",
    bytes_an_object: 1,
    needs_path: false,
    build: Build::Eviction(|_, context| Ok(Box::new(Random::new(context.stream())))),
};

/// The slots that are drawn ahead. A forwarder stores at most this many Data of a batch.
const AHEAD: usize = 32;

/// The draws of an empty slot after which all slots are searched. A cache with half of its slots in
/// use never reaches this.
const DRAWS: u32 = 64;

struct Random {
    stream: Stream,
    /// The number of slots that were ever in use.
    slots: usize,
    /// A bit for each slot: true if its object is stored, and not in `shown`.
    can_leave: Vec<u64>,
    /// The number of bits that are set.
    count: usize,
    /// The slots of the next draws, in use or not.
    ahead: VecDeque<Slot>,
    /// The victims that were shown to this newcomer, the first to leave first.
    shown: VecDeque<Slot>,
    /// The index in `shown` of the last answer of `peek`.
    last_peek: usize,
}

impl Random {
    fn new(stream: Stream) -> Self {
        Random {
            stream,
            slots: 0,
            can_leave: Vec::new(),
            count: 0,
            ahead: VecDeque::with_capacity(AHEAD),
            shown: VecDeque::new(),
            last_peek: 0,
        }
    }

    /// Draws one more victim from the slots that can leave, which then cannot be drawn again.
    fn draw(&mut self) -> Option<Slot> {
        if self.count == 0 {
            return None;
        }
        let drawn = (0..DRAWS).find_map(|_| {
            let slot = self.ahead.pop_front().unwrap_or_else(|| self.any_slot());
            self.allows(slot).then_some(slot)
        });
        // Two at a time, so that a change of the number of slots costs little.
        for _ in 0..2 {
            if self.ahead.len() < AHEAD {
                let slot = self.any_slot();
                self.ahead.push_back(slot);
            }
        }
        let slot = drawn.unwrap_or_else(|| self.search());
        self.forbid(slot);
        Some(slot)
    }

    fn any_slot(&mut self) -> Slot {
        Slot::new(self.stream.below(self.slots as u64) as u32)
    }

    /// Returns any slot that can leave, each with equal chance, by a search of all slots.
    fn search(&mut self) -> Slot {
        let mut rank = self.stream.below(self.count as u64) as u32;
        let mut slot = 0;
        for word in &self.can_leave {
            let ones = word.count_ones();
            if rank < ones {
                let rest = (0..rank).fold(*word, |word, _| word & (word - 1));
                return Slot::new(slot + rest.trailing_zeros());
            }
            rank -= ones;
            slot += u64::BITS;
        }
        unreachable!("`count` bits are set")
    }

    fn allows(&self, slot: Slot) -> bool {
        self.can_leave[slot.index() / 64] >> (slot.index() % 64) & 1 == 1
    }

    fn allow(&mut self, slot: Slot) {
        self.can_leave[slot.index() / 64] |= 1 << (slot.index() % 64);
        self.count += 1;
    }

    fn forbid(&mut self, slot: Slot) {
        self.can_leave[slot.index() / 64] &= !(1 << (slot.index() % 64));
        self.count -= 1;
    }

    /// Allows the shown slots to be drawn again.
    fn forget_shown(&mut self) {
        while let Some(slot) = self.shown.pop_front() {
            self.allow(slot);
        }
    }
}

impl Policy for Random {
    fn state_bytes(&self) -> usize {
        self.can_leave.capacity() * size_of::<u64>()
            + (self.ahead.capacity() + self.shown.capacity()) * size_of::<Slot>()
    }
}

impl Evict for Random {
    fn on_hit(&mut self, _: Slot, _: &Request) {}

    fn on_refusal(&mut self) {
        // Each newcomer is compared with other victims. Otherwise a popular object that was drawn
        // once would refuse every newcomer until it left.
        self.forget_shown();
    }

    fn on_insert(&mut self, slot: Slot, _: &Request) {
        self.forget_shown();
        if slot.index() >= self.slots {
            // The newcomer must have its chance, so slots that were drawn without its slot are
            // drawn again.
            self.ahead.clear();
            self.slots = slot.index() + 1;
            self.can_leave.resize(self.slots.div_ceil(64), 0);
        }
        self.allow(slot);
    }

    fn victim(&mut self, _: Option<&Request>) -> Option<Slot> {
        self.shown.pop_front().or_else(|| self.draw())
    }

    fn peek(&mut self, after: Option<Slot>) -> Option<Slot> {
        let place = match after {
            None => 0,
            Some(slot) if self.shown.get(self.last_peek) == Some(&slot) => self.last_peek + 1,
            Some(slot) => self.shown.iter().position(|shown| *shown == slot)? + 1,
        };
        if place == self.shown.len() {
            let drawn = self.draw()?;
            self.shown.push_back(drawn);
        }
        self.last_peek = place;
        self.shown.get(place).copied()
    }

    fn on_remove(&mut self, slot: Slot) {
        self.forget_shown();
        self.forbid(slot);
    }

    fn expected_victim(&self) -> Option<Slot> {
        self.shown.front().or_else(|| self.ahead.front()).copied()
    }

    fn expected_victim_after(&self, slot: Slot) -> Option<Slot> {
        let place = self.ahead.iter().position(|ahead| *ahead == slot)?;
        self.ahead.get(place + 1).copied()
    }

    fn object_count(&self) -> Option<usize> {
        Some(self.count + self.shown.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_units::{Streams, Time};
    use std::collections::HashSet;

    fn stored(objects: u32) -> Random {
        let mut random = Random::new(Streams::new(1).stream("random"));
        for slot in 0..objects {
            random.on_insert(Slot::new(slot), &request(u64::from(slot)));
        }
        random
    }

    fn request(seq: u64) -> Request {
        Request {
            id: seq,
            size: 1,
            now: Time::ZERO,
            seq,
        }
    }

    #[test]
    fn one_popular_object_wins_every_duel() {
        // If no object leaves, the next newcomer sees another victim. Within a request, the object
        // that was shown is the one that leaves.
        let mut random = stored(100);
        let mut shown = HashSet::new();
        for _ in 100..2000 {
            let first = random.peek(None);
            assert_eq!(first, random.peek(None));
            shown.extend(first);
            random.on_refusal();
        }
        assert_eq!(shown.len(), 100);
        assert_eq!(random.peek(None), random.victim(None));
    }

    /// Failure: a draw ahead spares a newcomer, or a slot between empty ones.
    #[test]
    fn some_slots_leave_more_often() {
        for empty_after in [100, 50, 1] {
            let mut random = stored(100);
            for slot in empty_after..100 {
                random.on_remove(Slot::new(slot));
            }
            let mut left = vec![0_u32; empty_after as usize];
            for seq in 0..2000 * u64::from(empty_after) {
                let victim = random.victim(None).expect("something is stored");
                left[victim.index()] += 1;
                random.on_insert(victim, &request(seq));
            }
            // 2,000 are expected, and 45 is a deviation.
            assert!(
                left.iter().all(|times| (1800..=2200).contains(times)),
                "{empty_after}: {left:?}"
            );
        }
    }

    /// Failure: the owner loads other objects than those that leave.
    #[test]
    fn the_expected_victims_stay() {
        let mut random = stored(100);
        for seq in 0..1000 {
            let expected = random.expected_victim();
            let then = expected.and_then(|slot| random.expected_victim_after(slot));
            let left = [(); 2].map(|()| {
                let victim = random.victim(None).expect("something is stored");
                random.on_insert(victim, &request(seq));
                Some(victim)
            });
            assert!(
                seq == 0 || left == [expected, then] || expected == then,
                "{left:?}"
            );
        }
    }
}
