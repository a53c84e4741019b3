//! The order of eviction: GreedyDual with a power, over lists by class of value.
//!
//! A value v = f / size^κ is rounded to half an octave, its class. Every object of a class gets the
//! same lifetime v^p on a common clock, so within a class the object that was moved first is also
//! due first. There is one list per class, and the next victim is the earliest of at most 256 tails
//! (the lists of CAMP, Ghandeharizadeh et al., Middleware 2014). The clock jumps to the due time of
//! each victim. Nothing is ever sorted.
//!
//! The state of an object is stored by the owner ([`Places`]): beside the cache's other data about
//! it, or in one line with the state of all shadows.

use super::deadlines::{CLASSES, Deadlines};
use crate::Slot;
use crate::list::{Linked, List};

/// Objects due before a newcomer that agd counts. A newcomer that outlasts this many is admitted,
/// so that the decision about a large object is bounded.
const MAX_COUNTED_VICTIMS: usize = 256;

/// The class of the value 1, of half octaves from 2^−80 (one request of 2^64 bytes, with room to
/// fade) to 2^47.5.
const CLASS_OF_ONE: f64 = 160.0;
/// If the clock is this many times a victim's lifetime, rounding of due times begins to lose short
/// lifetimes. The clock then restarts from zero.
const CLOCK_RANGE: f64 = (1_u64 << 28) as f64;

/// A hit that would postpone an object by less than this share of its lifetime moves nothing: most
/// hits are on objects that were hit recently. No object is due earlier by more than that. With 1/4
/// the hit ratios differ by at most .0002 (web and mix 1 GiB, Twitter 5 MiB). With 1/2 they begin
/// to fall, and so does the speed, because objects that are due too early come back. The power 0
/// does not use it: it is LRU then, and a quarter of the order is up to three points.
pub(super) const REST: f64 = 0.25;

/// From this power on, a newcomer must be worth half an octave more than the objects that it
/// displaces. Otherwise, in a loop larger than the cache, where all objects are worth the same,
/// each would be displaced before its next request. A loop of 1.2 caches: .82 of the requests hit,
/// .03 without.
const STUBBORN_POWER: f64 = 8.0;

/// The state that the order keeps per stored object, and reads from it.
pub(super) trait Places: Linked {
    /// The clock when the object was last moved.
    fn since(&self, slot: Slot) -> f64;
    fn set_since(&mut self, slot: Slot, since: f64);
    fn size(&self, slot: Slot) -> u64;
    /// Applies `change` to the `since` and the class of every object.
    fn change_since(&mut self, change: impl Fn(f64, u8) -> f64);
}

/// The deadlines of all classes.
pub(super) struct Order {
    lists: Box<[List; CLASSES]>,
    /// A bit for each class that is not empty.
    occupied: [u64; CLASSES / 64],
    /// The due time of the tail of each class.
    deadlines: Deadlines,
    /// v^p of each class.
    lifetimes: Box<[f64; CLASSES]>,
    /// The latest due time of any victim.
    clock: f64,
    power: f64,
    /// [`REST`], or 0 at the power 0.
    rest: f64,
    len: usize,
    /// Victims since the clock last started from zero.
    victims: usize,
}

impl Order {
    pub fn new(power: f64) -> Self {
        Order {
            lists: Box::new(std::array::from_fn(|_| List::default())),
            occupied: [0; CLASSES / 64],
            deadlines: Deadlines::new(),
            lifetimes: lifetimes(power),
            clock: 0.0,
            power,
            rest: rest(power),
            len: 0,
            victims: 0,
        }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn power(&self) -> f64 {
        self.power
    }

    #[inline]
    pub fn clock(&self) -> f64 {
        self.clock
    }

    pub fn lifetime(&self, class: u8) -> f64 {
        self.lifetimes[usize::from(class)]
    }

    pub fn bytes(&self) -> usize {
        CLASSES * (size_of::<List>() + size_of::<f64>())
    }

    /// Stores an object of `class` in `slot`.
    pub fn push(&mut self, places: &mut impl Places, slot: Slot, class: u8) {
        self.len += 1;
        self.tick();
        places.set_since(slot, self.clock);
        self.link(places, slot, class);
    }

    /// Returns true if a request for an object of `class` that was last moved at `since` moves
    /// nothing, because the gain would be less than [`REST`] of its lifetime.
    #[inline]
    pub fn rests(&self, class: u8, since: f64) -> bool {
        self.clock - since <= self.rest * self.lifetimes[usize::from(class)]
    }

    /// Gives the object in `slot`, which was in the class `old`, a whole lifetime of `class`.
    #[inline]
    pub fn relink(&mut self, places: &mut impl Places, slot: Slot, old: u8, class: u8) {
        self.tick();
        places.set_since(slot, self.clock);
        if old != class {
            self.unlink(places, slot, old);
            self.link(places, slot, class);
            return;
        }
        let list = &mut self.lists[usize::from(class)];
        let was_tail = list.tail() == Some(slot);
        list.move_to_head(places, slot);
        if was_tail && let Some(tail) = list.tail() {
            self.deadlines.set(class, self.due(places, tail, class));
        }
    }

    /// At the power 0 all lifetimes are 1, and an object that was moved later must be due later. So
    /// the clock itself advances, by 1 per turn of the cache.
    #[inline]
    fn tick(&mut self) {
        if self.power == 0.0 {
            self.clock += 1.0 / self.len as f64;
        }
    }

    /// Returns the object with the first deadline.
    #[inline]
    pub fn first(&self) -> Option<Slot> {
        self.lists[usize::from(self.deadlines.first()?.0)].tail()
    }

    /// Removes the object in `slot`, of `class`.
    pub fn remove(&mut self, places: &mut impl Places, slot: Slot, class: u8) {
        self.unlink(places, slot, class);
        self.len -= 1;
    }

    /// Removes the object that is due first, and moves the clock to its due time.
    pub fn pop(&mut self, places: &mut impl Places) -> Option<Slot> {
        let (class, due) = self.deadlines.first()?;
        let slot = self.lists[usize::from(class)].tail()?;
        self.unlink(places, slot, class);
        self.len -= 1;
        self.clock = self.clock.max(due);
        self.victims += 1;
        if self.clock > CLOCK_RANGE * self.lifetimes[usize::from(class)] && self.victims > self.len
        {
            self.set_power(places, self.power);
        }
        Some(slot)
    }

    /// Returns the list of `class`.
    pub fn list(&self, class: u8) -> &List {
        &self.lists[usize::from(class)]
    }

    /// Returns the classes that are not empty, from the lowest.
    pub fn classes(&self) -> impl Iterator<Item = u8> + use<> {
        occupied(self.occupied)
    }

    /// Returns true if a newcomer in `class` is worth more than the objects that must leave for
    /// `short` bytes.
    ///
    /// If it is refused, the clock moves a share of the way to the first due time: all but 1/e of
    /// the way in as many refusals as there are objects. Otherwise a stored set without requests
    /// would never be due.
    pub fn accept(&mut self, places: &impl Places, class: u8, short: u64) -> bool {
        let outlasts = self.outlasts(places, class, short);
        if !outlasts && let Some((_, due)) = self.deadlines.first() {
            self.clock += (due - self.clock).max(0.0) / self.len as f64;
        }
        outlasts
    }

    /// Returns true if a newcomer in `class` would be due after every object that must leave for
    /// `short` bytes. This holds if the objects that are due before it have as many bytes, in any
    /// order of counting: it counts from the low classes, which have the large objects. After a
    /// number of objects that bounds the work, the rest is assumed to fit. From [`STUBBORN_POWER`]
    /// on, the newcomer counts as one class less. At the power 0 no newcomer is refused: the object
    /// that was moved last would be due at the same time, and must leave for a newcomer that takes
    /// all the room.
    fn outlasts(&self, places: &impl Places, class: u8, short: u64) -> bool {
        if self.power == 0.0 {
            return true;
        }
        let class = if self.power >= STUBBORN_POWER {
            class.saturating_sub(1)
        } else {
            class
        };
        let due = self.clock + self.lifetimes[usize::from(class)];
        if self.deadlines.first().is_none_or(|(_, first)| first >= due) {
            return false;
        }
        let (mut freed, mut counted) = (0_u64, 0);
        for class in occupied(self.occupied).filter(|class| self.deadlines.of(*class) < due) {
            let class = usize::from(class);
            let mut next = self.lists[class].tail();
            while let Some(slot) = next {
                if places.since(slot) + self.lifetimes[class] >= due {
                    break;
                }
                freed = freed.saturating_add(places.size(slot));
                counted += 1;
                if freed >= short || counted == MAX_COUNTED_VICTIMS {
                    return true;
                }
                next = self.lists[class].newer(places, slot);
            }
        }
        false
    }

    /// Sets lifetimes to v^`power` from now on, and restarts the clock from zero. Every object
    /// keeps the remaining share of its lifetime. O(objects).
    pub fn set_power(&mut self, places: &mut impl Places, power: f64) {
        let new = lifetimes(power);
        let (old, clock) = (&self.lifetimes, self.clock);
        places.change_since(|since, class| {
            (since - clock) / old[usize::from(class)] * new[usize::from(class)]
        });
        self.clock = 0.0;
        self.power = power;
        self.rest = rest(power);
        self.lifetimes = new;
        self.victims = 0;
        for class in self.classes() {
            if let Some(tail) = self.lists[usize::from(class)].tail() {
                self.deadlines.set(class, self.due(places, tail, class));
            }
        }
    }

    #[inline]
    fn link(&mut self, places: &mut impl Places, slot: Slot, class: u8) {
        let list = &mut self.lists[usize::from(class)];
        let was_empty = list.tail().is_none();
        list.push_head(places, slot);
        if was_empty {
            self.occupied[usize::from(class / 64)] |= 1 << (class % 64);
            self.deadlines.set(class, self.due(places, slot, class));
        }
    }

    /// Removes `slot` from the list of `class`.
    #[inline]
    fn unlink(&mut self, places: &mut impl Places, slot: Slot, class: u8) {
        let list = &mut self.lists[usize::from(class)];
        let was_tail = list.tail() == Some(slot);
        list.unlink(places, slot);
        if was_tail {
            match list.tail() {
                Some(tail) => self.deadlines.set(class, self.due(places, tail, class)),
                None => {
                    self.occupied[usize::from(class / 64)] &= !(1 << (class % 64));
                    self.deadlines.clear(class);
                }
            }
        }
    }

    /// Returns the due time of the object in `slot`, of `class`.
    #[inline]
    pub fn due(&self, places: &impl Places, slot: Slot, class: u8) -> f64 {
        places.since(slot) + self.lifetimes[usize::from(class)]
    }
}

fn rest(power: f64) -> f64 {
    if power == 0.0 { 0.0 } else { REST }
}

fn lifetimes(power: f64) -> Box<[f64; CLASSES]> {
    Box::new(std::array::from_fn(|class| {
        (power * (class as f64 - CLASS_OF_ONE) / 2.0).exp2()
    }))
}

/// The numbers of the bits that are set, from the lowest.
fn occupied(words: [u64; CLASSES / 64]) -> impl Iterator<Item = u8> {
    (0..CLASSES / 64).flat_map(move |index| {
        let mut word = words[index];
        std::iter::from_fn(move || {
            let bit = (word != 0).then(|| word.trailing_zeros() as usize)?;
            word &= word - 1;
            Some((index * 64 + bit) as u8)
        })
    })
}
