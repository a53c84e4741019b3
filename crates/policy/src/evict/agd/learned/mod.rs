//! The learnt order: the object with the fewest expected hits per byte and request leaves.
//!
//! The powers of [`super::order`] give all objects of a value the same lifetime, by a law that is
//! assumed. If objects are born and die, no such law fits: an object with many requests that fell
//! silent is dead, and one with few that was requested just now is not. This order learns from the
//! traffic what a request count is worth at which age ([`densities`]).
//!
//! The victim is the least of a sample of [`SAMPLE`] stored objects. A newcomer that ranks below
//! one of those that must leave for it is refused; its count includes the requests before it was
//! stored, as for the powers. A few newcomers are stored all the same (explorers), because an order
//! that never keeps objects of a kind would never learn that they are hit.

mod densities;
mod occupied;
mod shadow;

use super::frequency::Standing;
use crate::Slot;
use crate::prefetch::prefetch;
use densities::Densities;
pub(super) use densities::{COUNT_CLASSES, STEPS};
use larder_units::Stream;
use occupied::{Occupied, is_dense, is_sparse};
pub(super) use shadow::LearnedShadow;
use std::collections::VecDeque;

/// Stored objects that are compared for a victim. With 32, as in LHD, births and deaths at .1 %
/// gain up to .002, and an eviction costs twice as much.
const SAMPLE: usize = 16;

/// Neighbours that are drawn together: their entries take one line of the processor's cache. They
/// are unrelated, because a newcomer gets the slot of the last victim.
const GROUP: usize = 8;

/// The most groups that are drawn for a sample, if many slots are empty.
const MOST_GROUPS: usize = 16;

/// On average, one newcomer in this many is stored whatever its rank. One in 256 differs by up to
/// .003.
const EXPLORE: f64 = 1.0 / 32.0;

/// Explorers take at most one part in this many of the capacity.
const EXPLORERS_SHARE: u64 = 100;

/// Accepted explorers that are remembered until they are stored. An HTTP cache accepts a response
/// at its head and stores it at its end, so others are accepted meanwhile.
const MAX_AWAITED_EXPLORERS: usize = 64;

/// An explorer may not leave before this many requests per stored object.
const PROTECTED_TURNS: u64 = 16;

/// The order is computed anew after as many requests as objects are stored, and at least and at
/// most these. Until as many were seen, after each eighth of what was seen.
const LEAST_INTERVAL: u64 = 1 << 12;
const MOST_INTERVAL: u64 = 1 << 20;

/// Stored objects that one computation reads. Of more, it reads an even part.
const READ_OBJECTS: usize = 1 << 12;

/// The most objects that are compared with one newcomer.
const MAX_COMPARED_VICTIMS: usize = 64;

/// A protected object's rank is higher by this: no other rank is.
const PROTECTED_RANK: i32 = 1 << 20;

pub(super) struct Learned {
    densities: Densities,
    /// By slot.
    seen: Vec<Seen>,
    /// The number of stored objects.
    len: usize,
    /// The slots of the stored objects, while most slots are empty.
    occupied: Option<Occupied>,
    /// The next victims, if the order was asked for them.
    chosen: VecDeque<Slot>,
    stream: Stream,
    /// Requests so far.
    now: u64,
    /// The request at which the order is computed next.
    due: u64,
    /// The age up to which explorers are protected.
    protected: u32,
    explorer_bytes: u64,
    /// The most bytes of explorers, of the capacity at the last acceptance.
    most_explorer_bytes: u64,
    /// The newcomers that become explorers if they are stored, the last one at the end.
    awaited_explorers: VecDeque<u64>,
}

/// The last request for a stored object: 8 bytes, so that eight objects of a sample are in one
/// cache line.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// The low bits of the request's number. An object that is not requested for 2^32 requests
    /// looks young again.
    at: u32,
    /// The logarithm of its requests per byte, in [`STEPS`].
    value: i16,
    count_class: u8,
    state: State,
}

/// The state of a slot.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Empty,
    Stored,
    Explores,
    /// One of [`Learned::chosen`].
    Chosen,
    /// The same, of an explorer.
    ChosenExplorer,
}

impl State {
    fn explores(self) -> bool {
        matches!(self, State::Explores | State::ChosenExplorer)
    }

    fn is_chosen(self) -> bool {
        matches!(self, State::Chosen | State::ChosenExplorer)
    }

    fn chosen(self) -> State {
        match self {
            State::Explores => State::ChosenExplorer,
            _ => State::Chosen,
        }
    }

    fn given_back(self) -> State {
        match self {
            State::ChosenExplorer => State::Explores,
            _ => State::Stored,
        }
    }
}

impl Learned {
    pub fn new(stream: Stream) -> Self {
        Learned {
            densities: Densities::new(),
            seen: Vec::new(),
            len: 0,
            occupied: None,
            chosen: VecDeque::new(),
            stream,
            now: 0,
            due: LEAST_INTERVAL,
            protected: u32::MAX,
            explorer_bytes: 0,
            most_explorer_bytes: 0,
            awaited_explorers: VecDeque::new(),
        }
    }

    pub fn bytes(&self) -> usize {
        self.densities.bytes()
            + self.seen.capacity() * size_of::<Seen>()
            + self.occupied.as_ref().map_or(0, Occupied::bytes)
            + self.awaited_explorers.capacity() * size_of::<u64>()
    }

    /// Counts a request, a hit or a miss.
    #[inline]
    pub fn tick(&mut self) {
        self.now += 1;
        if self.now >= self.due {
            self.compute();
        }
    }

    #[cold]
    fn compute(&mut self) {
        let stored = self.len as u64;
        let whole = stored.clamp(LEAST_INTERVAL, MOST_INTERVAL);
        let interval = whole.min((self.now / 8).max(LEAST_INTERVAL));
        self.due = self.now + interval;
        self.protected = u32::try_from(PROTECTED_TURNS * stored).unwrap_or(u32::MAX);
        let (now, of_whole) = (self.now as u32, interval as f64 / whole as f64);
        let read =
            |seen: &Seen, part: usize| (seen.count_class, now.wrapping_sub(seen.at), part as f32);
        if let Some(occupied) = &self.occupied {
            let part = self.len.div_ceil(READ_OBJECTS).max(1);
            let slots = occupied.slots().iter().step_by(part);
            let objects = slots.map(|slot| read(&self.seen[slot.index()], part));
            self.densities.compute(objects, of_whole);
            return;
        }
        // Whole groups, so that a part of the objects is a part of the lines.
        let part = self.seen.len().div_ceil(READ_OBJECTS).max(1);
        let groups = self.seen.chunks(GROUP).step_by(part);
        let stored = groups.flatten().filter(|seen| seen.state != State::Empty);
        self.densities
            .compute(stored.map(|seen| read(seen, part)), of_whole);
    }

    /// Reports a hit on the object in `slot`, of `size` bytes.
    #[inline]
    pub fn on_hit(&mut self, slot: Slot, size: u64, standing: Standing) {
        let now = self.now as u32;
        let seen = &mut self.seen[slot.index()];
        self.densities
            .hit(seen.count_class, now.wrapping_sub(seen.at));
        let before = seen.state;
        *seen = Seen {
            at: now,
            value: standing.value,
            count_class: standing.count_class,
            state: State::Stored,
        };
        if before != State::Stored {
            self.settle(slot, before, size);
        }
    }

    /// Ends the exploration of an object that was in this state, and its choice as a victim.
    #[inline(never)]
    fn settle(&mut self, slot: Slot, before: State, size: u64) {
        if before.explores() {
            self.explorer_bytes -= size;
        }
        if before.is_chosen() {
            self.chosen.retain(|chosen| *chosen != slot);
        }
    }

    /// Returns true if a newcomer ranks above all objects that must leave for `short` bytes, or if
    /// it explores.
    pub fn accept(
        &mut self,
        newcomer: (u64, u64, Standing),
        short: u64,
        capacity: u64,
        size_of: impl Fn(Slot) -> u64,
    ) -> bool {
        let (id, size, standing) = newcomer;
        self.most_explorer_bytes = capacity / EXPLORERS_SHARE;
        self.awaited_explorers.retain(|awaited| *awaited != id);
        if self.has_room_for_explorer(size) && self.stream.chance(EXPLORE) {
            if self.awaited_explorers.len() == MAX_AWAITED_EXPLORERS {
                self.awaited_explorers.pop_front();
            }
            self.awaited_explorers.push_back(id);
            return true;
        }
        let rank = self.densities.rank(standing.count_class, 0) + i32::from(standing.value);
        let mut freed = 0_u64;
        for nth in 0..MAX_COMPARED_VICTIMS {
            if freed >= short {
                break;
            }
            let Some(slot) = self.nth_victim(nth) else {
                break;
            };
            if self.rank(slot) > rank {
                return false;
            }
            freed = freed.saturating_add(size_of(slot));
        }
        true
    }

    fn has_room_for_explorer(&self, size: u64) -> bool {
        size <= self.most_explorer_bytes.saturating_sub(self.explorer_bytes)
    }

    /// Ends a comparison with victims, none of which leaves.
    #[inline]
    pub fn on_refusal(&mut self) {
        for slot in self.chosen.drain(..) {
            let state = &mut self.seen[slot.index()].state;
            *state = state.given_back();
        }
    }

    /// Reports that an object was stored in `slot`.
    pub fn on_insert(&mut self, slot: Slot, id: u64, size: u64, standing: Standing) {
        if slot.index() >= self.seen.len() {
            self.seen.resize(slot.index() + 1, Seen::default());
        }
        let mut awaited = self.awaited_explorers.iter();
        let place = awaited.position(|awaited| *awaited == id);
        let explorer = place.and_then(|place| self.awaited_explorers.remove(place));
        // Others may have taken the room since it was accepted.
        let explores = explorer.is_some() && self.has_room_for_explorer(size);
        if explores {
            self.explorer_bytes += size;
        }
        self.seen[slot.index()] = Seen {
            at: self.now as u32,
            value: standing.value,
            count_class: standing.count_class,
            state: if explores {
                State::Explores
            } else {
                State::Stored
            },
        };
        self.len += 1;
        if let Some(occupied) = &mut self.occupied {
            occupied.insert(slot);
            if is_dense(self.len, self.seen.len()) {
                self.occupied = None;
            }
        }
    }

    /// Reports that the object in `slot` was evicted, by this order or by another.
    pub fn on_evict(&mut self, slot: Slot, size: u64) {
        let seen = self.seen[slot.index()];
        self.densities
            .evict(seen.count_class, (self.now as u32).wrapping_sub(seen.at));
        self.on_remove(slot, size);
    }

    /// Reports that the object in `slot` was removed by its owner.
    pub fn on_remove(&mut self, slot: Slot, size: u64) {
        let before = std::mem::take(&mut self.seen[slot.index()].state);
        self.settle(slot, before, size);
        self.len -= 1;
        if let Some(occupied) = &mut self.occupied {
            occupied.remove(slot);
        } else if is_sparse(self.len, self.seen.len()) {
            let all = (0..self.seen.len() as u32).map(Slot::new);
            let stored = all.filter(|slot| self.seen[slot.index()].state != State::Empty);
            self.occupied = Some(Occupied::new(stored));
            // Objects of another number leave at other ages.
            self.densities = Densities::new();
            self.due = self.now + LEAST_INTERVAL;
        }
    }

    /// Returns the object that leaves next. It leaves with [`Learned::on_evict`].
    pub fn victim(&mut self) -> Option<Slot> {
        self.nth_victim(0)
    }

    /// Returns the object that leaves after `after`, or next.
    pub fn peek(&mut self, after: Option<Slot>) -> Option<Slot> {
        let nth = match after {
            None => 0,
            // The caller continues after the object that it was shown last.
            Some(slot) => 1 + self.chosen.iter().rposition(|chosen| *chosen == slot)?,
        };
        self.nth_victim(nth)
    }

    /// Returns the object that was chosen to leave next, if one was.
    pub fn expected_victim(&self) -> Option<Slot> {
        self.chosen.front().copied()
    }

    fn nth_victim(&mut self, nth: usize) -> Option<Slot> {
        while self.chosen.len() <= nth {
            let slot = self.choose()?;
            let state = &mut self.seen[slot.index()].state;
            *state = state.chosen();
            self.chosen.push_back(slot);
        }
        self.chosen.get(nth).copied()
    }

    fn choose(&mut self) -> Option<Slot> {
        if self.len == self.chosen.len() {
            return None;
        }
        if self.occupied.is_some() {
            return self.choose_occupied();
        }
        let groups = self.seen.len().div_ceil(GROUP) as u64;
        let (mut least, mut compared) = ((i32::MAX, 0), 0);
        for _ in 0..MOST_GROUPS {
            let start = self.stream.below(groups) as usize * GROUP;
            let end = self.seen.len().min(start + GROUP);
            for (at, seen) in self.seen[start..end].iter().enumerate() {
                if let Some(rank) = self.rank_of_victim(seen) {
                    compared += 1;
                    least = least.min((rank, start + at));
                }
            }
            if compared >= SAMPLE - GROUP / 2 {
                break;
            }
        }
        if compared == 0 {
            // Nearly all slots are empty.
            let start = self.stream.below(self.seen.len() as u64) as usize;
            let is_there = |at: &usize| self.rank_of_victim(&self.seen[*at]).is_some();
            let all = (start..self.seen.len()).chain(0..start);
            least.1 = all.into_iter().find(is_there)?;
        }
        Some(Slot::new(least.1 as u32))
    }

    /// Does what [`Learned::choose`] does, while most slots are empty: no group would hold more
    /// than an object or two.
    fn choose_occupied(&mut self) -> Option<Slot> {
        let slots = self.occupied.as_ref()?.slots();
        let mut least: Option<(i32, usize)> = None;
        for _ in 0..SAMPLE {
            let at = self.stream.below(slots.len() as u64) as usize;
            if let Some(rank) = self.rank_of_victim(&self.seen[slots[at].index()])
                && least.is_none_or(|least| (rank, at) < least)
            {
                least = Some((rank, at));
            }
        }
        match least {
            Some((_, at)) => Some(slots[at]),
            // Nearly all are chosen already.
            None => {
                let mut left = slots.iter().copied();
                left.find(|slot| self.rank_of_victim(&self.seen[slot.index()]).is_some())
            }
        }
    }

    /// Returns the rank of an object that may be chosen.
    #[inline]
    fn rank_of_victim(&self, seen: &Seen) -> Option<i32> {
        let age = (self.now as u32).wrapping_sub(seen.at);
        let rank = self.densities.rank(seen.count_class, age) + i32::from(seen.value);
        match seen.state {
            State::Stored => Some(rank),
            State::Explores if age < self.protected => Some(rank + PROTECTED_RANK),
            State::Explores => Some(rank),
            _ => None,
        }
    }

    #[inline]
    fn rank(&self, slot: Slot) -> i32 {
        let seen = &self.seen[slot.index()];
        let age = (self.now as u32).wrapping_sub(seen.at);
        self.densities.rank(seen.count_class, age) + i32::from(seen.value)
    }

    /// Begins to load the object in `slot`, which will probably be requested soon.
    #[inline]
    pub fn prefetch(&self, slot: Slot) {
        prefetch(&self.seen, slot.index());
    }

    /// Halves all ages, because the owner sees half as many requests from now on.
    fn halve_ages(&mut self) {
        self.densities.halve_ages();
        let now = self.now as u32;
        for seen in &mut self.seen {
            seen.at = now.wrapping_sub(now.wrapping_sub(seen.at) / 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_units::Streams;

    const STANDING: Standing = Standing {
        class: 140,
        value: 0,
        count_class: 0,
    };

    /// Failure: an HTTP cache, which accepts at the head and stores at the end, learns less than a
    /// replay says.
    #[test]
    fn an_explorer_is_forgotten_because_another_was_accepted_meanwhile() {
        let mut learned = Learned::new(Streams::new(1).stream("explorers"));
        let accept = |learned: &mut Learned, id: u64| {
            assert!(learned.accept((id, 1, STANDING), 1, 10_000, |_| 1));
            learned.awaited_explorers.contains(&id)
        };
        let mut ids = 0_u64..;
        let explorer = ids.find(|id| accept(&mut learned, *id)).unwrap();
        let other = ids.find(|id| !accept(&mut learned, *id)).unwrap();
        for (slot, id) in [other, explorer].into_iter().enumerate() {
            learned.on_insert(Slot::new(slot as u32), id, 1, STANDING);
        }
        assert_eq!(learned.explorer_bytes, 1);
        assert!(learned.seen[1].state == State::Explores);
    }

    /// Failure: all responses under way become explorers, and take more than their share.
    #[test]
    fn explorers_that_arrive_together_take_more_than_their_share() {
        let mut learned = Learned::new(Streams::new(1).stream("explorers"));
        for id in 0..10_000 {
            learned.accept((id, 10, STANDING), 1, 10_000, |_| 10);
        }
        let awaited = learned.awaited_explorers.clone();
        assert_eq!(awaited.len(), MAX_AWAITED_EXPLORERS);
        for (slot, id) in awaited.into_iter().enumerate() {
            learned.on_insert(Slot::new(slot as u32), id, 10, STANDING);
        }
        assert_eq!(learned.explorer_bytes, 10_000 / EXPLORERS_SHARE);
        assert!(learned.awaited_explorers.is_empty());
    }
}
