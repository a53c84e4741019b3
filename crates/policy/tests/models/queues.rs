//! Queues with bits and counts: CLOCK, SIEVE, S3-FIFO, SLRU.

use super::{CAPACITY, Item, Model, Queue, bytes, find, new, remember, take};

/// The hand stands at the first.
#[derive(Default)]
pub struct Clock(Queue);

impl Model for Clock {
    fn request(&mut self, id: u64, size: u64) -> bool {
        if let Some(place) = find(&self.0, id) {
            self.0[place].count = 1;
            return true;
        }
        while bytes(&self.0) + size > CAPACITY {
            let item = self.0.remove(0);
            if item.count > 0 {
                self.0.push(new(item.id, item.size));
            }
        }
        self.0.push(new(id, size));
        false
    }

    fn remove(&mut self, id: u64) {
        take(&mut self.0, id);
    }

    fn cached(&self) -> Vec<u64> {
        self.0.iter().map(|item| item.id).collect()
    }
}

#[derive(Default)]
pub struct Sieve {
    queue: Queue,
    /// A place in the queue; its length: begin again.
    hand: usize,
}

impl Model for Sieve {
    fn request(&mut self, id: u64, size: u64) -> bool {
        if let Some(place) = find(&self.queue, id) {
            self.queue[place].count = 1;
            return true;
        }
        while bytes(&self.queue) + size > CAPACITY {
            if self.hand >= self.queue.len() {
                self.hand = 0;
            }
            while self.queue[self.hand].count > 0 {
                self.queue[self.hand].count = 0;
                self.hand = (self.hand + 1) % self.queue.len();
            }
            self.queue.remove(self.hand);
        }
        // The hand was past the newest: its next step is to the oldest, and not to the newcomer.
        if self.hand >= self.queue.len() {
            self.hand = 0;
        }
        self.queue.push(new(id, size));
        false
    }

    fn remove(&mut self, id: u64) {
        if let Some(place) = find(&self.queue, id) {
            self.queue.remove(place);
            if place < self.hand {
                self.hand -= 1;
            }
            if self.hand >= self.queue.len() {
                self.hand = 0;
            }
        }
    }

    fn cached(&self) -> Vec<u64> {
        self.queue.iter().map(|item| item.id).collect()
    }
}

pub struct S3Fifo {
    percent: u64,
    small: Queue,
    main: Queue,
    ghosts: Queue,
    evicted: bool,
}

impl S3Fifo {
    pub fn new(percent: u64) -> S3Fifo {
        S3Fifo {
            percent,
            small: Queue::new(),
            main: Queue::new(),
            ghosts: Queue::new(),
            evicted: false,
        }
    }
}

impl Model for S3Fifo {
    fn request(&mut self, id: u64, size: u64) -> bool {
        let S3Fifo {
            percent,
            small,
            main,
            ghosts,
            evicted,
        } = self;
        if let Some(item) = small
            .iter_mut()
            .chain(main.iter_mut())
            .find(|item| item.id == id)
        {
            item.count = (item.count + 1).min(3);
            return true;
        }
        let share = CAPACITY * *percent / 100;
        while bytes(small) + bytes(main) + size > CAPACITY {
            *evicted = true;
            if !small.is_empty() && (bytes(small) >= share || main.is_empty()) {
                let item = small.remove(0);
                if item.count > 1 {
                    main.push(new(item.id, item.size));
                } else {
                    remember(ghosts, item, CAPACITY - share);
                }
            } else {
                let item = main.remove(0);
                if item.count > 0 {
                    main.push(Item {
                        count: item.count - 1,
                        ..item
                    });
                }
            }
        }
        match take(ghosts, id) {
            None if *evicted || bytes(small) < share => small.push(new(id, size)),
            _ => main.push(new(id, size)),
        }
        false
    }

    fn remove(&mut self, id: u64) {
        take(&mut self.small, id);
        take(&mut self.main, id);
    }

    fn cached(&self) -> Vec<u64> {
        self.small
            .iter()
            .chain(&self.main)
            .map(|item| item.id)
            .collect()
    }
}

/// The lowest segment first, each with its parts of the capacity.
pub struct Slru {
    segments: Vec<Queue>,
    parts: Vec<u64>,
}

impl Slru {
    pub fn new(parts: Vec<u64>) -> Slru {
        Slru {
            segments: vec![Queue::new(); parts.len()],
            parts,
        }
    }
}

impl Model for Slru {
    fn request(&mut self, id: u64, size: u64) -> bool {
        let Slru { segments, parts } = self;
        let all: u64 = parts.iter().sum();
        let highest = segments.len() - 1;
        if let Some(place) = segments.iter().position(|queue| find(queue, id).is_some()) {
            let item = take(&mut segments[place], id).unwrap();
            segments[(place + 1).min(highest)].push(item);
            for above in (1..=highest).rev() {
                while bytes(&segments[above]) > CAPACITY * parts[above] / all {
                    let item = segments[above].remove(0);
                    segments[above - 1].push(item);
                }
            }
            return true;
        }
        while segments.iter().map(|queue| bytes(queue)).sum::<u64>() + size > CAPACITY {
            segments
                .iter_mut()
                .find(|queue| !queue.is_empty())
                .unwrap()
                .remove(0);
        }
        segments[0].push(new(id, size));
        false
    }

    fn remove(&mut self, id: u64) {
        for queue in &mut self.segments {
            _ = take(queue, id);
        }
    }

    fn cached(&self) -> Vec<u64> {
        self.segments.iter().flatten().map(|item| item.id).collect()
    }
}
