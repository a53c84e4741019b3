//! LIRS with its stack, as the paper draws it.

use super::{CAPACITY, Model, Queue, bytes, find, new, take};

/// In [`super::Item::count`]: what an entry of the stack is.
const LIR: u64 = 0;
const HIR: u64 = 1;
const GHOST: u64 = 2;

pub struct Lirs {
    limit: u64,
    filling: bool,
    /// The bottom first.
    stack: Queue,
    queue: Queue,
}

impl Lirs {
    pub fn new(percent: u64) -> Lirs {
        Lirs {
            limit: (CAPACITY as f64 * (1.0 - percent as f64 / 100.0)) as u64,
            filling: true,
            stack: Queue::new(),
            queue: Queue::new(),
        }
    }

    fn of(&self, kind: u64) -> Queue {
        self.stack
            .iter()
            .filter(|item| item.count == kind)
            .copied()
            .collect()
    }

    fn prune(&mut self) {
        if !self.of(LIR).is_empty() {
            while self.stack[0].count != LIR {
                self.stack.remove(0);
            }
        }
    }

    /// Pushes onto the stack what is in no list.
    fn push(&mut self, id: u64, size: u64, is_lir: bool) {
        let mut item = new(id, size);
        item.count = if is_lir { LIR } else { HIR };
        self.stack.push(item);
        if !is_lir {
            self.queue.push(item);
        }
        while bytes(&self.of(LIR)) > self.limit {
            let bottom = self.of(LIR)[0];
            take(&mut self.stack, bottom.id);
            self.queue.push(bottom);
        }
        self.prune();
    }

    fn evict(&mut self) {
        if self.queue.is_empty() {
            let bottom = self.of(LIR)[0];
            take(&mut self.stack, bottom.id);
        } else {
            let gone = self.queue.remove(0);
            if let Some(place) = find(&self.stack, gone.id) {
                self.stack[place].count = GHOST;
            }
            while bytes(&self.of(GHOST)) > CAPACITY {
                let oldest = self.of(GHOST)[0];
                take(&mut self.stack, oldest.id);
            }
        }
        self.prune();
    }

    fn used(&self) -> u64 {
        bytes(&self.of(LIR)) + bytes(&self.queue)
    }
}

impl Model for Lirs {
    fn request(&mut self, id: u64, size: u64) -> bool {
        if let Some(item) = take(&mut self.queue, id) {
            let was_in_stack = take(&mut self.stack, id).is_some();
            self.push(id, item.size, was_in_stack && size <= self.limit);
            return true;
        }
        if find(&self.of(LIR), id).is_some() {
            let item = take(&mut self.stack, id).unwrap();
            self.stack.push(item);
            self.prune();
            return true;
        }
        while self.used() + size > CAPACITY {
            self.evict();
        }
        let came_back = take(&mut self.stack, id).is_some() && size <= self.limit;
        if !came_back {
            let lir = bytes(&self.of(LIR));
            self.filling = (self.filling || lir < self.limit / 2) && lir + size <= self.limit;
        }
        self.push(id, size, came_back || self.filling);
        false
    }

    fn remove(&mut self, id: u64) {
        if take(&mut self.queue, id).is_some() || find(&self.of(LIR), id).is_some() {
            take(&mut self.stack, id);
            self.prune();
        }
    }

    fn cached(&self) -> Vec<u64> {
        self.of(LIR)
            .iter()
            .chain(&self.queue)
            .map(|item| item.id)
            .collect()
    }
}
