//! The order of eviction: GreedyDual with a power, over lists by class of value.
//!
//! A value v = f / size^κ is rounded to half an octave, its class. Every object of a class gets the same lifetime v^p on a common clock, so
//! that within a class who was moved first is also due first: one list each, and the next victim is the earliest of at most 256 tails
//! (the lists of CAMP, Ghandeharizadeh et al., Middleware 2014). The clock jumps to the due time of each victim. Nothing is ever sorted.

use crate::Slot;
use crate::limits::AGD_VICTIMS_COUNTED;
use crate::list::{Links, List};
use crate::prefetch::prefetch;

/// Classes of value: half octaves from 2^−80 (one request of 2^64 bytes, with room to fade) to 2^47.5.
const CLASSES: usize = 256;
/// The class of the value 1.
const CLASS_OF_ONE: f32 = 160.0;
/// Where the clock is this many times a victim's lifetime, short lifetimes begin to vanish in its rounding: it starts again from zero.
const CLOCK_RANGE: f64 = (1_u64 << 36) as f64;

/// A hit that would put an object off by less than this share of its lifetime moves nothing: most hits are on what was hit a moment ago. Nobody
/// is due earlier by more than that. With 1/4 hit ratios are as without to .0002 (web and mix 1 GiB, Twitter 5 MiB), with 1/2 they begin to fall, and
/// so does the speed: who is due too early comes back.
const REST: f64 = 0.25;

/// From this power on a newcomer must be worth half an octave more than whom it displaces: else a loop that is larger than the cache, where all
/// are worth the same, would displace everyone before it is asked for again. A loop of 1.2 caches: .82 of the requests hit, .03 without.
const STUBBORN_POWER: f64 = 8.0;

/// The stored objects in the order of their leaving.
pub(super) struct Ranking {
    places: Vec<Stored>,
    links: Links,
    lists: Vec<List>,
    /// A bit for each class that is not empty.
    occupied: [u64; CLASSES / 64],
    /// When the tail of each class is due.
    dues: Dues,
    /// v^p of each class.
    lifetimes: Vec<f64>,
    /// The latest due time of any victim.
    clock: f64,
    power: f64,
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
    /// Requests, as of the era.
    pub count: f32,
    /// When `count` was last halved, in the keeper's count of halvings.
    pub era: u16,
    pub class: u8,
}

/// The next victims as they were shown, and how far each list was read.
#[derive(Default)]
struct Plan {
    victims: Vec<Slot>,
    /// The next of each class that was read already, in the order of reading.
    read: Vec<(u8, Option<Slot>)>,
}

/// The class of the value 2^`log2`.
pub(super) fn class_of(log2: f32) -> u8 {
    // Rounds the half up, saturates at both ends.
    (log2 * 2.0 + CLASS_OF_ONE + 0.5) as u8
}

impl Ranking {
    pub fn new(power: f64) -> Self {
        Ranking {
            places: Vec::new(),
            links: Links::default(),
            lists: (0..CLASSES).map(|_| List::default()).collect(),
            occupied: [0; CLASSES / 64],
            dues: Dues::new(),
            lifetimes: lifetimes(power),
            clock: 0.0,
            power,
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
            + CLASSES * (size_of::<List>() + 3 * size_of::<f64>())
    }

    pub fn stored(&self, slot: Slot) -> &Stored {
        &self.places[slot.index()]
    }

    /// Stores an object in `slot`.
    pub fn push(&mut self, slot: Slot, stored: Stored) {
        self.forget_plan();
        if slot.index() >= self.places.len() {
            self.places.resize(slot.index() + 1, Stored::default());
        }
        self.places[slot.index()] = Stored { since: self.clock, ..stored };
        self.link(slot, stored.class);
        self.len += 1;
    }

    /// The object in `slot` was requested, and is in `class` now. It stays where it is as long as it would gain less than [`REST`] of its lifetime.
    pub fn touch(&mut self, slot: Slot, count: f32, era: u16, class: u8) {
        let place = &mut self.places[slot.index()];
        place.count = count;
        place.era = era;
        if place.class == class && self.clock - place.since <= REST * self.lifetimes[usize::from(class)] {
            return;
        }
        self.forget_plan();
        self.unlink(slot);
        let place = &mut self.places[slot.index()];
        place.since = self.clock;
        place.class = class;
        self.link(slot, class);
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
        self.lists[self.dues.first()?.0].tail()
    }

    /// Takes the object in `slot` out.
    pub fn remove(&mut self, slot: Slot) {
        self.forget_plan();
        self.unlink(slot);
        self.len -= 1;
    }

    /// Takes out who is due first, and moves the clock there.
    pub fn pop(&mut self) -> Option<Slot> {
        self.forget_plan();
        let (class, due) = self.dues.first()?;
        let slot = self.lists[class].tail()?;
        self.unlink(slot);
        self.len -= 1;
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

    /// Would a newcomer in `class` be due after everyone who must leave for `short` bytes? So it is where what is due before it has as many
    /// bytes, in whatever order they are counted: from the low classes, where the large objects are. After a number of objects that
    /// bounds the work, the rest is believed. From [`STUBBORN_POWER`] on, the newcomer counts as one class less.
    pub fn outlasts(&self, class: u8, short: u64) -> bool {
        let class = if self.power >= STUBBORN_POWER { class.saturating_sub(1) } else { class };
        let due = self.clock + self.lifetimes[usize::from(class)];
        if self.dues.first().is_none_or(|(_, first)| first >= due) {
            return false;
        }
        let (mut freed, mut counted) = (0_u64, 0);
        for class in occupied(self.occupied).filter(|class| self.dues.of(*class) < due) {
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

    /// A newcomer was refused: the clock goes a share of the way to who is due first, all of it but 1/e in as many refusals as there are
    /// objects. Else a stored set that nobody wants any more would never be due.
    pub fn refuse(&mut self) {
        if let Some((_, due)) = self.dues.first() {
            self.clock += (due - self.clock).max(0.0) / self.len as f64;
        }
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
        self.lifetimes = new;
        self.victims = 0;
        for class in occupied(self.occupied) {
            if let Some(tail) = self.lists[class].tail() {
                self.dues.set(class, self.due(tail));
            }
        }
        self.forget_plan();
    }

    /// As `first`, past those in the plan; adds it there.
    fn plan_one_more(&mut self) -> Option<()> {
        let mut best: Option<(usize, Slot, f64)> = None;
        for class in occupied(self.occupied) {
            let read = self.plan.read.iter().find(|(read, _)| usize::from(*read) == class);
            let Some(next) = read.map_or(self.lists[class].tail(), |(_, next)| *next) else { continue };
            let due = self.due(next);
            if best.is_none_or(|(_, _, earliest)| due < earliest) {
                best = Some((class, next, due));
            }
        }
        let (class, slot, _) = best?;
        let next = self.lists[class].newer(&self.links, slot);
        match self.plan.read.iter_mut().find(|(read, _)| usize::from(*read) == class) {
            Some((_, read)) => *read = next,
            None => self.plan.read.push((class as u8, next)),
        }
        self.plan.victims.push(slot);
        Some(())
    }

    fn forget_plan(&mut self) {
        self.plan.victims.clear();
        self.plan.read.clear();
    }

    fn link(&mut self, slot: Slot, class: u8) {
        let class = usize::from(class);
        let was_empty = self.lists[class].tail().is_none();
        self.lists[class].push_head(&mut self.links, slot);
        if was_empty {
            self.occupied[class / 64] |= 1 << (class % 64);
            self.dues.set(class, self.due(slot));
        }
    }

    fn unlink(&mut self, slot: Slot) {
        let class = usize::from(self.places[slot.index()].class);
        let was_tail = self.lists[class].tail() == Some(slot);
        self.lists[class].unlink(&mut self.links, slot);
        if was_tail {
            match self.lists[class].tail() {
                Some(tail) => self.dues.set(class, self.due(tail)),
                None => {
                    self.occupied[class / 64] &= !(1 << (class % 64));
                    self.dues.set(class, f64::INFINITY);
                }
            }
        }
    }

    /// When the clock comes to the object in `slot`.
    fn due(&self, slot: Slot) -> f64 {
        let Stored { since, class, .. } = self.places[slot.index()];
        since + self.lifetimes[usize::from(class)]
    }
}

/// When each class is due, in a tree of minima: who is first stands at the root, a change climbs eight levels at most.
struct Dues {
    of: [f64; CLASSES],
    /// The class that is due first below each node, the lower of two; the root is node 1, the leaves are the last half.
    first: [u8; 2 * CLASSES],
}

impl Dues {
    fn new() -> Self {
        let mut dues = Dues { of: [f64::INFINITY; CLASSES], first: [0; 2 * CLASSES] };
        // All are due never, so the lowest class below a node is its first.
        for node in (1..2 * CLASSES).rev() {
            dues.first[node] = if node >= CLASSES { (node - CLASSES) as u8 } else { dues.first[2 * node] };
        }
        dues
    }

    #[inline]
    fn of(&self, class: usize) -> f64 {
        self.of[class]
    }

    fn set(&mut self, class: usize, due: f64) {
        self.of[class] = due;
        let (changed, mut first, mut due) = (class as u8, class as u8, due);
        let mut node = CLASSES + class;
        while node > 1 {
            let other = self.first[node ^ 1];
            let other_due = self.of[usize::from(other)];
            if other_due < due || (other_due == due && other < first) {
                (first, due) = (other, other_due);
            }
            node /= 2;
            if self.first[node] == first && first != changed {
                break;
            }
            self.first[node] = first;
        }
    }

    /// The class that is due first, and when; the lower class of two.
    #[inline]
    fn first(&self) -> Option<(usize, f64)> {
        let class = usize::from(self.first[1]);
        (self.of[class] < f64::INFINITY).then_some((class, self.of[class]))
    }
}

fn lifetimes(power: f64) -> Vec<f64> {
    (0..CLASSES).map(|class| (power * (class as f64 - f64::from(CLASS_OF_ONE)) / 2.0).exp2()).collect()
}

/// The numbers of the bits that are set, from the lowest.
fn occupied(words: [u64; CLASSES / 64]) -> impl Iterator<Item = usize> {
    (0..CLASSES / 64).flat_map(move |index| {
        let mut word = words[index];
        std::iter::from_fn(move || {
            let bit = (word != 0).then(|| word.trailing_zeros() as usize)?;
            word &= word - 1;
            Some(index * 64 + bit)
        })
    })
}
