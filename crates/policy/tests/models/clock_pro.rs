//! CLOCK-Pro with its one clock, hot, cold and remembered objects in the order in which they were
//! placed.

use super::{CAPACITY, Item, Model, new};

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Hot,
    Cold,
    Ghost,
}

#[derive(Clone, Copy)]
struct Hand {
    item: Item,
    kind: Kind,
    requested: bool,
    /// In its test period, past it, or never tested.
    test: Option<bool>,
}

pub struct ClockPro {
    target: u64,
    /// The hot hand stands before the first.
    clock: Vec<Hand>,
}

impl Default for ClockPro {
    fn default() -> Self {
        ClockPro {
            target: CAPACITY / 100,
            clock: Vec::new(),
        }
    }
}

impl ClockPro {
    fn bytes(&self, kind: Kind) -> u64 {
        self.clock
            .iter()
            .filter(|hand| hand.kind == kind)
            .map(|hand| hand.item.size)
            .sum()
    }

    fn first(&self, kind: Kind) -> Option<usize> {
        self.clock.iter().position(|hand| hand.kind == kind)
    }

    fn fail(&mut self, size: u64) {
        self.target = self.target.saturating_sub(size).max(CAPACITY / 100);
    }

    fn forget(&mut self, place: usize) {
        let size = self.clock.remove(place).item.size;
        self.fail(size);
    }

    /// The hot hand goes to the first hot object, ends all tests on its way, and passes it.
    fn pass_hot(&mut self) -> bool {
        let Some(mut place) = self.first(Kind::Hot) else {
            return false;
        };
        while let Some(ghost) = self.clock[..place]
            .iter()
            .position(|hand| hand.kind == Kind::Ghost)
        {
            self.forget(ghost);
            place -= 1;
        }
        for hand in &mut self.clock[..place] {
            hand.test = hand.test.map(|_| false);
        }
        let mut hand = self.clock.remove(place);
        if !std::mem::take(&mut hand.requested) {
            hand.kind = Kind::Cold;
        }
        self.clock.push(hand);
        true
    }

    fn promote(&mut self, item: Item) {
        self.target = (self.target + item.size).min(CAPACITY);
        self.clock.push(Hand {
            item,
            kind: Kind::Hot,
            requested: false,
            test: None,
        });
        while self.bytes(Kind::Hot) > CAPACITY - self.target && self.pass_hot() {}
    }

    fn evict(&mut self) {
        loop {
            let Some(place) = self.first(Kind::Cold) else {
                assert!(self.pass_hot());
                continue;
            };
            let mut hand = self.clock[place];
            if hand.test == Some(false) {
                self.fail(hand.item.size);
                hand.test = None;
            }
            match (hand.requested, hand.test) {
                (false, None) => _ = self.clock.remove(place),
                (false, Some(_)) => {
                    while self.bytes(Kind::Ghost) + hand.item.size > CAPACITY {
                        let oldest = self.first(Kind::Ghost).unwrap();
                        self.forget(oldest);
                    }
                    self.clock
                        .iter_mut()
                        .find(|other| other.item.id == hand.item.id)
                        .unwrap()
                        .kind = Kind::Ghost;
                }
                (true, Some(_)) => {
                    self.clock.remove(place);
                    self.promote(hand.item);
                    continue;
                }
                (true, None) => {
                    self.clock.remove(place);
                    self.clock.push(Hand {
                        requested: false,
                        test: Some(true),
                        ..hand
                    });
                    continue;
                }
            }
            return;
        }
    }
}

impl Model for ClockPro {
    fn request(&mut self, id: u64, size: u64) -> bool {
        if let Some(hand) = self
            .clock
            .iter_mut()
            .find(|hand| hand.item.id == id && hand.kind != Kind::Ghost)
        {
            hand.requested = true;
            return true;
        }
        while self.bytes(Kind::Hot) + self.bytes(Kind::Cold) + size > CAPACITY {
            self.evict();
        }
        let item = new(id, size);
        match self.clock.iter().position(|hand| hand.item.id == id) {
            Some(ghost) => {
                self.clock.remove(ghost);
                self.promote(item);
            }
            None => self.clock.push(Hand {
                item,
                kind: Kind::Cold,
                requested: false,
                test: Some(true),
            }),
        }
        false
    }

    fn remove(&mut self, id: u64) {
        self.clock
            .retain(|hand| hand.item.id != id || hand.kind == Kind::Ghost);
    }

    fn cached(&self) -> Vec<u64> {
        self.clock
            .iter()
            .filter(|hand| hand.kind != Kind::Ghost)
            .map(|hand| hand.item.id)
            .collect()
    }
}
