//! Random: evicts any object with equal chance, whatever its size.
//!
//! The slots stand in one vector in no order, and the victims are drawn into its end, one
//! Fisher–Yates step each, so that `peek` can look ahead and `victim` then takes what was shown to
//! this newcomer; once it is refused, the next one is shown others. O(1) a request; 8 bytes an
//! object.

use crate::entry::{Build, PolicyEntry};
use crate::traits::{Evict, Policy};
use crate::{Request, Slot};
use larder_units::Stream;

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "random",
    citation: "Belady, A study of replacement algorithms for a virtual-storage computer, IBM Systems Journal 1966",
    summary: "evicts any object with equal chance",
    parameters: &[],
    complexity: "O(1)",
    bytes_an_object: 8,
    needs_path: false,
    build: Build::Eviction(|_, context| Ok(Box::new(Random::new(context.stream())))),
};

struct Random {
    stream: Stream,
    /// The stored slots.
    slots: Vec<Slot>,
    /// Where each slot stands in `slots`, by slot.
    places: Vec<u32>,
    /// How many at the end of `slots` are drawn already.
    drawn: usize,
}

impl Random {
    fn new(stream: Stream) -> Self {
        Random { stream, slots: Vec::new(), places: Vec::new(), drawn: 0 }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.slots.swap(a, b);
        self.places[self.slots[a].index()] = a as u32;
        self.places[self.slots[b].index()] = b as u32;
    }

    /// Draws one more victim from the slots not yet drawn.
    fn draw(&mut self) -> Option<Slot> {
        let rest = self.slots.len() - self.drawn;
        let last = rest.checked_sub(1)?;
        let place = self.stream.below(rest as u64) as usize;
        self.swap(place, last);
        self.drawn += 1;
        Some(self.slots[last])
    }
}

impl Policy for Random {
    fn state_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>() + self.places.capacity() * size_of::<u32>()
    }
}

impl Evict for Random {
    fn on_hit(&mut self, _: Slot, _: &Request) {}

    fn on_refusal(&mut self) {
        // Each newcomer duels with others: a popular object that was drawn once would beat every
        // newcomer until it left.
        self.drawn = 0;
    }

    fn on_insert(&mut self, slot: Slot, _: &Request) {
        // A newcomer must have its chance: what was drawn without it is drawn again.
        self.drawn = 0;
        if slot.index() >= self.places.len() {
            self.places.resize(slot.index() + 1, 0);
        }
        self.places[slot.index()] = self.slots.len() as u32;
        self.slots.push(slot);
    }

    fn victim(&mut self, _: Option<&Request>) -> Option<Slot> {
        if self.drawn == 0 {
            self.draw()?;
        }
        self.drawn -= 1;
        self.slots.pop()
    }

    fn peek(&mut self, after: Option<Slot>) -> Option<Slot> {
        let nth = after.map_or(0, |slot| self.slots.len() - self.places[slot.index()] as usize);
        if nth < self.drawn { Some(self.slots[self.slots.len() - 1 - nth]) } else { self.draw() }
    }

    fn on_remove(&mut self, slot: Slot) {
        self.drawn = 0;
        let last = self.slots.len() - 1;
        self.swap(self.places[slot.index()] as usize, last);
        self.slots.pop();
    }

    fn object_count(&self) -> Option<usize> {
        Some(self.slots.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_units::{Streams, Time};
    use std::collections::HashSet;

    #[test]
    fn one_popular_object_wins_every_duel() {
        // Where nobody leaves, the next newcomer meets somebody else; within a request, the one who
        // was shown is the one who leaves.
        let request = |seq| Request { id: seq, size: 1, now: Time::ZERO, seq };
        let mut random = Random::new(Streams::new(1).stream("random"));
        (0..100).for_each(|slot| random.on_insert(Slot::new(slot), &request(u64::from(slot))));
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
}
