//! The order of eviction: GreedyDual with a power, over lists by class of value.
//!
//! A value v = f / size^κ is rounded to half an octave, its class. Every object of a class gets the same lifetime v^p on a common clock, so
//! that within a class who was moved first is also due first: one list each, and the next victim is the earliest of at most 256 tails
//! (the lists of CAMP, Ghandeharizadeh et al., Middleware 2014). The clock jumps to the due time of each victim. Nothing is ever sorted.

use super::dues::{CLASSES, Dues};
use crate::Slot;
use crate::limits::AGD_VICTIMS_COUNTED;
use crate::list::{Links, List};
use crate::prefetch::prefetch;

/// The class of the value 1, of half octaves from 2^−80 (one request of 2^64 bytes, with room to fade) to 2^47.5.
const CLASS_OF_ONE: f64 = 160.0;
/// Where the clock is this many times a victim's lifetime, short lifetimes begin to vanish in the rounding of due times: it starts again from zero.
const CLOCK_RANGE: f64 = (1_u64 << 28) as f64;

/// A hit that would put an object off by less than this share of its lifetime moves nothing: most hits are on what was hit a moment ago. Nobody
/// is due earlier by more than that. With 1/4 hit ratios are as without to .0002 (web and mix 1 GiB, Twitter 5 MiB), with 1/2 they begin to fall, and
/// so does the speed: who is due too early comes back. At p = 0 nobody rests: it is LRU then, and a quarter of the order is up to three points.
const REST: f64 = 0.25;

/// From this power on a newcomer must be worth half an octave more than whom it displaces: else a loop that is larger than the cache, where all
/// are worth the same, would displace everyone before it is asked for again. A loop of 1.2 caches: .82 of the requests hit, .03 without.
const STUBBORN_POWER: f64 = 8.0;

/// The stored objects in the order of their leaving.
pub(super) struct Ranking {
    places: Vec<Stored>,
    links: Links,
    lists: Box<[List; CLASSES]>,
    /// A bit for each class that is not empty.
    occupied: [u64; CLASSES / 64],
    /// When the tail of each class is due.
    dues: Dues,
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
    plan: Plan,
}

/// A stored object, and what is known of its requests: 32 bytes, so that a hit finds all of it in one line.
#[derive(Clone, Copy, Default)]
#[repr(align(32))]
pub(super) struct Stored {
    pub id: u64,
    pub size: u64,
    /// The clock when it was last moved.
    pub since: f64,
    /// Requests, in the keeper's measure.
    pub count: f32,
    pub class: u8,
}

/// The next victims as they were shown, and how far each list was read.
#[derive(Default)]
struct Plan {
    victims: Vec<Slot>,
    /// The next of each class that was read already, in the order of reading.
    read: Vec<(u8, Option<Slot>)>,
}

impl Ranking {
    pub fn new(power: f64) -> Self {
        Ranking {
            places: Vec::new(),
            links: Links::default(),
            lists: Box::new(std::array::from_fn(|_| List::default())),
            occupied: [0; CLASSES / 64],
            dues: Dues::new(),
            lifetimes: lifetimes(power),
            clock: 0.0,
            power,
            rest: rest(power),
            len: 0,
            victims: 0,
            plan: Plan::default(),
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn power(&self) -> f64 {
        self.power
    }

    pub fn bytes(&self) -> usize {
        self.links.bytes()
            + self.places.capacity() * size_of::<Stored>()
            + CLASSES * (size_of::<List>() + size_of::<f64>())
    }

    pub fn stored(&self, slot: Slot) -> &Stored {
        &self.places[slot.index()]
    }

    /// Stores an object in `slot`.
    pub fn push(&mut self, slot: Slot, stored: Stored) {
        self.forget_plan();
        if slot.index() >= self.places.len() {
            self.grow(slot);
        }
        self.len += 1;
        self.tick();
        self.places[slot.index()] = Stored { since: self.clock, ..stored };
        self.link(slot, stored.class);
    }

    #[cold]
    fn grow(&mut self, slot: Slot) {
        self.places.resize(slot.index() + 1, Stored::default());
    }

    /// The object in `slot` was requested, and is in the class that `class` finds, which may write down the request: that class. It stays where it is as
    /// long as it would gain less than [`REST`] of its lifetime.
    #[inline]
    pub fn touch(&mut self, slot: Slot, class: impl FnOnce(&mut Stored) -> u8) -> u8 {
        let place = &mut self.places[slot.index()];
        let class = class(place);
        if place.class != class || self.clock - place.since > self.rest * self.lifetimes[usize::from(class)] {
            self.relink(slot, class);
        }
        class
    }

    /// Apart, so that who rests pays nothing for it.
    #[inline(never)]
    fn relink(&mut self, slot: Slot, class: u8) {
        self.forget_plan();
        self.tick();
        let place = &mut self.places[slot.index()];
        let old = std::mem::replace(&mut place.class, class);
        place.since = self.clock;
        if old != class {
            self.unlink(slot, old);
            self.link(slot, class);
            return;
        }
        let list = &mut self.lists[usize::from(class)];
        let was_tail = list.tail() == Some(slot);
        list.move_to_head(&mut self.links, slot);
        if was_tail && let Some(tail) = list.tail() {
            self.dues.set(class, self.due(tail));
        }
    }

    /// At the power 0 all lifetimes are 1, and who was moved later must be due later: the clock itself goes on, 1 in a turn of the cache.
    #[inline]
    fn tick(&mut self) {
        if self.power == 0.0 {
            self.clock += 1.0 / self.len as f64;
        }
    }

    /// Multiplies all counts.
    pub fn scale_counts(&mut self, by: f32) {
        self.places.iter_mut().for_each(|place| place.count *= by);
    }

    /// A request for what is probably in `slot` will come soon.
    #[inline]
    pub fn prefetch(&self, slot: Slot) {
        prefetch(&self.places, slot.index());
        self.links.prefetch(slot);
    }

    /// As `prefetch`, some requests later.
    #[inline]
    pub fn prefetch_neighbours(&self, slot: Slot) {
        self.links.prefetch_neighbours(slot);
    }

    /// Who is due first.
    #[inline]
    pub fn first(&self) -> Option<Slot> {
        self.lists[usize::from(self.dues.first()?.0)].tail()
    }

    /// Takes the object in `slot` out.
    pub fn remove(&mut self, slot: Slot) {
        self.forget_plan();
        self.unlink(slot, self.places[slot.index()].class);
        self.len -= 1;
    }

    /// Takes out who is due first, and moves the clock there.
    pub fn pop(&mut self) -> Option<Slot> {
        self.forget_plan();
        let (class, due) = self.dues.first()?;
        let slot = self.lists[usize::from(class)].tail()?;
        self.unlink(slot, class);
        self.len -= 1;
        let class = usize::from(class);
        self.lists[class].approach(&self.links, &self.places);
        self.clock = self.clock.max(due);
        self.victims += 1;
        if self.clock > CLOCK_RANGE * self.lifetimes[class] && self.victims > self.len {
            self.restart(self.power);
        }
        Some(slot)
    }

    /// Whom `pop` would take after `after`.
    pub fn peek(&mut self, after: Option<Slot>) -> Option<Slot> {
        let nth = match after {
            None => 0,
            // The caller walks on from the one that it was shown last.
            Some(slot) => 1 + self.plan.victims.iter().rposition(|shown| *shown == slot)?,
        };
        while self.plan.victims.len() <= nth {
            self.plan_one_more()?;
        }
        self.plan.victims.get(nth).copied()
    }

    /// Is a newcomer in `class` worth more than what must leave for `short` bytes?
    ///
    /// Where it is refused, the clock goes a share of the way to who is due first, all of it but 1/e in as many refusals as there are objects.
    /// Else a stored set that nobody wants any more would never be due.
    pub fn accept(&mut self, class: u8, short: u64) -> bool {
        let outlasts = self.outlasts(class, short);
        if !outlasts && let Some((_, due)) = self.dues.first() {
            self.clock += (due - self.clock).max(0.0) / self.len as f64;
        }
        outlasts
    }

    /// Would a newcomer in `class` be due after everyone who must leave for `short` bytes? So it is where what is due before it has as many
    /// bytes, in whatever order they are counted: from the low classes, where the large objects are. After a number of objects that
    /// bounds the work, the rest is believed. From [`STUBBORN_POWER`] on, the newcomer counts as one class less. At the power 0 nobody is refused: who
    /// was moved last would be due at the same time, and must leave for a newcomer that takes all the room.
    fn outlasts(&self, class: u8, short: u64) -> bool {
        if self.power == 0.0 {
            return true;
        }
        let class = if self.power >= STUBBORN_POWER { class.saturating_sub(1) } else { class };
        let due = self.clock + self.lifetimes[usize::from(class)];
        if self.dues.first().is_none_or(|(_, first)| first >= due) {
            return false;
        }
        let (mut freed, mut counted) = (0_u64, 0);
        for class in occupied(self.occupied).filter(|class| self.dues.of(*class) < due) {
            let class = usize::from(class);
            let mut next = self.lists[class].tail();
            while let Some(slot) = next {
                let place = &self.places[slot.index()];
                if place.since + self.lifetimes[class] >= due {
                    break;
                }
                freed = freed.saturating_add(place.size);
                counted += 1;
                if freed >= short || counted == AGD_VICTIMS_COUNTED {
                    return true;
                }
                next = self.lists[class].newer(&self.links, slot);
            }
        }
        false
    }

    /// Lifetimes are v^`power` from now on; everyone keeps the share of its lifetime that is left. O(objects).
    pub fn set_power(&mut self, power: f64) {
        self.restart(power);
    }

    /// The clock starts from zero.
    fn restart(&mut self, power: f64) {
        let new = lifetimes(power);
        for place in &mut self.places {
            let class = usize::from(place.class);
            place.since = (place.since - self.clock) / self.lifetimes[class] * new[class];
        }
        self.clock = 0.0;
        self.power = power;
        self.rest = rest(power);
        self.lifetimes = new;
        self.victims = 0;
        for class in occupied(self.occupied) {
            if let Some(tail) = self.lists[usize::from(class)].tail() {
                self.dues.set(class, self.due(tail));
            }
        }
        self.forget_plan();
    }

    /// As `first`, past those in the plan; adds it there.
    fn plan_one_more(&mut self) -> Option<()> {
        let mut best: Option<(u8, Slot, f64)> = None;
        for class in occupied(self.occupied) {
            let read = self.plan.read.iter().find(|(read, _)| *read == class);
            let Some(next) = read.map_or(self.lists[usize::from(class)].tail(), |(_, next)| *next) else { continue };
            let due = self.due(next);
            if best.is_none_or(|(_, _, earliest)| due < earliest) {
                best = Some((class, next, due));
            }
        }
        let (class, slot, _) = best?;
        let next = self.lists[usize::from(class)].newer(&self.links, slot);
        match self.plan.read.iter_mut().find(|(read, _)| *read == class) {
            Some((_, read)) => *read = next,
            None => self.plan.read.push((class, next)),
        }
        self.plan.victims.push(slot);
        Some(())
    }

    #[inline]
    fn forget_plan(&mut self) {
        if !self.plan.victims.is_empty() {
            self.plan.victims.clear();
            self.plan.read.clear();
        }
    }

    #[inline]
    fn link(&mut self, slot: Slot, class: u8) {
        let list = &mut self.lists[usize::from(class)];
        let was_empty = list.tail().is_none();
        list.push_head(&mut self.links, slot);
        if was_empty {
            self.occupied[usize::from(class / 64)] |= 1 << (class % 64);
            self.dues.set(class, self.due(slot));
        }
    }

    /// Takes `slot` out of the list of `class`.
    #[inline]
    fn unlink(&mut self, slot: Slot, class: u8) {
        let list = &mut self.lists[usize::from(class)];
        let was_tail = list.tail() == Some(slot);
        list.unlink(&mut self.links, slot);
        if was_tail {
            match list.tail() {
                Some(tail) => self.dues.set(class, self.due(tail)),
                None => {
                    self.occupied[usize::from(class / 64)] &= !(1 << (class % 64));
                    self.dues.clear(class);
                }
            }
        }
    }

    /// When the clock comes to the object in `slot`.
    #[inline]
    fn due(&self, slot: Slot) -> f64 {
        let Stored { since, class, .. } = self.places[slot.index()];
        since + self.lifetimes[usize::from(class)]
    }
}

fn rest(power: f64) -> f64 {
    if power == 0.0 { 0.0 } else { REST }
}

fn lifetimes(power: f64) -> Box<[f64; CLASSES]> {
    Box::new(std::array::from_fn(|class| (power * (class as f64 - CLASS_OF_ONE) / 2.0).exp2()))
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
