//! The stored objects in the order in which they leave.

use super::deadlines::rank;
use super::order::{Order, Places};
use crate::Slot;
use crate::list::{Link, Linked, Links};
use crate::prefetch::{lengthen, prefetch};

/// The stored objects in the order in which they leave.
pub(super) struct Ranking {
    store: Store,
    order: Order,
    plan: Plan,
}

/// A stored object with its request count: 32 bytes, so that a hit reads one cache line.
#[derive(Clone, Copy, Default)]
#[repr(align(32))]
pub(super) struct Stored {
    pub id: u64,
    pub size: u64,
    /// The clock when the object was last moved.
    pub since: f64,
    /// Requests, in the scale of [`super::frequency`].
    pub count: f32,
    pub class: u8,
}

#[derive(Default)]
struct Store {
    places: Vec<Stored>,
    links: Links,
}

/// The next victims as they were shown, and how far each list was read.
#[derive(Default)]
struct Plan {
    victims: Vec<Slot>,
    /// For each class that was read, the next object; in the order of reading.
    read: Vec<(u8, Option<Slot>)>,
}

impl Ranking {
    pub fn new(power: f64) -> Self {
        Ranking {
            store: Store::default(),
            order: Order::new(power),
            plan: Plan::default(),
        }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.order.len()
    }

    pub fn power(&self) -> f64 {
        self.order.power()
    }

    pub fn bytes(&self) -> usize {
        self.store.links.bytes()
            + self.store.places.capacity() * size_of::<Stored>()
            + self.order.bytes()
    }

    pub fn stored(&self, slot: Slot) -> &Stored {
        &self.store.places[slot.index()]
    }

    /// Stores an object in `slot`.
    pub fn push(&mut self, slot: Slot, stored: Stored) {
        self.forget_plan();
        if slot.index() >= self.store.places.len() {
            lengthen(&mut self.store.places, slot.index() + 1, stored);
        }
        self.store.places[slot.index()] = stored;
        self.order.push(&mut self.store, slot, stored.class);
    }

    /// Reports a request for the object in `slot`. `class` may record the request, and returns the
    /// object's class, which is also the result. The object is not moved if it would gain less than
    /// a share of its lifetime ([`Order::rests`]).
    #[inline]
    pub fn touch(&mut self, slot: Slot, class: impl FnOnce(&mut Stored) -> u8) -> u8 {
        let place = &mut self.store.places[slot.index()];
        let class = class(place);
        if place.class != class || !self.order.rests(class, place.since) {
            self.relink(slot, class);
        }
        class
    }

    /// A function of its own, so that hits that move nothing do not pay for it.
    #[inline(never)]
    fn relink(&mut self, slot: Slot, class: u8) {
        self.forget_plan();
        let old = std::mem::replace(&mut self.store.places[slot.index()].class, class);
        self.order.relink(&mut self.store, slot, old, class);
    }

    /// Multiplies all counts.
    pub fn scale_counts(&mut self, by: f32) {
        for place in &mut self.store.places {
            place.count *= by;
        }
    }

    /// Begins to load the object in `slot`, which will probably be requested soon.
    #[inline]
    pub fn prefetch(&self, slot: Slot) {
        prefetch(&self.store.places, slot.index());
        self.store.links.prefetch(slot);
    }

    /// Begins to load its neighbours, some requests after `prefetch`.
    #[inline]
    pub fn prefetch_neighbours(&self, slot: Slot) {
        self.store.links.prefetch_neighbours(slot);
    }

    /// Returns the object with the first deadline.
    #[inline]
    pub fn first(&self) -> Option<Slot> {
        self.order.first()
    }

    /// Removes the object in `slot`.
    pub fn remove(&mut self, slot: Slot) {
        self.forget_plan();
        let class = self.stored(slot).class;
        self.order.remove(&mut self.store, slot, class);
    }

    /// Removes the object that is due first, and advances the clock to its due time.
    pub fn pop(&mut self) -> Option<Slot> {
        self.forget_plan();
        let slot = self.order.pop(&mut self.store)?;
        self.order
            .list(self.stored(slot).class)
            .approach(&self.store.links, &self.store.places);
        Some(slot)
    }

    /// See [`Order::accept`].
    pub fn accept(&mut self, class: u8, short: u64) -> bool {
        self.order.accept(&self.store, class, short)
    }

    /// See [`Order::set_power`].
    pub fn set_power(&mut self, power: f64) {
        self.forget_plan();
        self.order.set_power(&mut self.store, power);
    }

    /// Returns the object that `pop` would remove after `after`.
    pub fn peek(&mut self, after: Option<Slot>) -> Option<Slot> {
        let nth = match after {
            None => 0,
            // The caller continues after the object that it was shown last.
            Some(slot) => 1 + self.plan.victims.iter().rposition(|shown| *shown == slot)?,
        };
        while self.plan.victims.len() <= nth {
            self.plan_one_more()?;
        }
        self.plan.victims.get(nth).copied()
    }

    /// Adds the first object after those in the plan to the plan.
    fn plan_one_more(&mut self) -> Option<()> {
        let mut best: Option<(u64, u8, Slot)> = None;
        for class in self.order.classes() {
            let read = self.plan.read.iter().find(|(read, _)| *read == class);
            let Some(next) = read.map_or(self.order.list(class).tail(), |(_, next)| *next) else {
                continue;
            };
            let rank = rank(class, self.order.due(&self.store, next, class));
            if best.is_none_or(|(least, ..)| rank < least) {
                best = Some((rank, class, next));
            }
        }
        let (_, class, slot) = best?;
        let next = self.order.list(class).newer(&self.store, slot);
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
}

impl Linked for Store {
    #[inline]
    fn link(&self, slot: u32) -> &Link {
        self.links.link(slot)
    }

    #[inline]
    fn link_mut(&mut self, slot: u32) -> &mut Link {
        self.links.link_mut(slot)
    }

    #[inline]
    fn reach(&mut self, slot: Slot) {
        self.links.reach(slot);
    }
}

impl Places for Store {
    #[inline]
    fn since(&self, slot: Slot) -> f64 {
        self.places[slot.index()].since
    }

    #[inline]
    fn set_since(&mut self, slot: Slot, since: f64) {
        self.places[slot.index()].since = since;
    }

    #[inline]
    fn size(&self, slot: Slot) -> u64 {
        self.places[slot.index()].size
    }

    fn change_since(&mut self, change: impl Fn(f64, u8) -> f64) {
        for place in &mut self.places {
            place.since = change(place.since, place.class);
        }
    }
}
