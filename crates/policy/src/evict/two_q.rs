//! 2Q, full version (Johnson and Shasha, 2Q: a low overhead high performance buffer management
//! replacement algorithm, VLDB 1994).
//!
//! Newcomers enter a FIFO queue, A1in, in which hits change nothing: requests soon after the first
//! count as one event. An object that leaves A1in is remembered as a ghost in A1out. A newcomer
//! with a ghost is requested over a longer time, and enters Am, an LRU list. A1in evicts while it
//! exceeds its share, otherwise Am does.
//!
//! Sizes: Kin and Kout are shares of the bytes (a quarter for A1in; the sizes of the ghosts sum to
//! a half, as the paper recommends). With `large=refuse`, an object larger than A1in is not stored,
//! as in libCacheSim.
//!
//! O(1) a request; 32 bytes an object, 27 to 53 a ghost.

use super::ghosts::{Ghost, Ghosts};
use super::large::{LARGE, are_refused};
use crate::entry::{Build, BuildContext, PolicyEntry};
use crate::list::{Links, List};
use crate::parameters::{Arguments, Parameter, Preset, Values};
use crate::prefetch::prefetch;
use crate::traits::{Evict, Policy};
use crate::{Request, Slot};

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "2q",
    citation: "Johnson, Shasha, 2Q: a low overhead high performance buffer management replacement algorithm, VLDB 1994",
    summary: "newcomers pass a FIFO queue, and only who returns after it enters the LRU list",
    parameters: &[
        Parameter {
            name: "in",
            unit: "% of the capacity",
            values: Values::Integer(1, 99),
            default: Preset::Value("25"),
            doc: "Kin, the share of A1in",
        },
        Parameter {
            name: "out",
            unit: "% of the capacity",
            values: Values::Integer(1, 100),
            default: Preset::Value("50"),
            doc: "Kout, what the sizes of the ghosts in A1out may sum to",
        },
        LARGE,
    ],
    complexity: "O(1)",
    bytes_an_object: 54,
    needs_path: false,
    build: Build::Eviction(|arguments, context| Ok(Box::new(TwoQ::new(arguments, context)))),
};

struct TwoQ {
    refuses_large: bool,
    in_percent: u64,
    out_percent: u64,
    in_capacity: u64,
    out_capacity: u64,
    links: Links,
    /// A1in.
    recent: List,
    recent_bytes: u64,
    /// Am.
    main: List,
    /// A1out.
    ghosts: Ghosts,
    /// By slot.
    objects: Vec<Object>,
    ahead: Ahead,
}

#[derive(Clone, Copy)]
struct Object {
    id: u64,
    size: u64,
    is_main: bool,
}

/// The state of a look ahead: the next object of each list, and the bytes left in A1in.
#[derive(Clone, Copy, Default)]
struct Ahead {
    recent: Option<Slot>,
    main: Option<Slot>,
    recent_bytes: u64,
}

impl TwoQ {
    fn new(arguments: &Arguments<'_>, context: &BuildContext<'_>) -> TwoQ {
        let mut policy = TwoQ {
            refuses_large: are_refused(arguments),
            in_percent: arguments.get("in").unwrap_or(25),
            out_percent: arguments.get("out").unwrap_or(50),
            in_capacity: 0,
            out_capacity: 0,
            links: Links::default(),
            recent: List::default(),
            recent_bytes: 0,
            main: List::default(),
            ghosts: Ghosts::default(),
            objects: Vec::new(),
            ahead: Ahead::default(),
        };
        policy.on_resize(context.capacity);
        policy
    }

    fn unlink(&mut self, slot: Slot) {
        let Object { size, is_main, .. } = self.objects[slot.index()];
        if is_main {
            self.main.unlink(&mut self.links, slot);
        } else {
            self.recent.unlink(&mut self.links, slot);
            self.recent_bytes -= size;
        }
    }
}

impl Policy for TwoQ {
    fn on_resize(&mut self, capacity: u64) {
        let share = |percent| (u128::from(capacity) * u128::from(percent) / 100) as u64;
        self.in_capacity = share(self.in_percent);
        self.out_capacity = share(self.out_percent);
        self.ghosts.trim(self.out_capacity);
    }

    fn state_bytes(&self) -> usize {
        self.links.bytes()
            + self.objects.capacity() * size_of::<Object>()
            + self.ghosts.state_bytes()
    }
}

impl Evict for TwoQ {
    fn on_hit(&mut self, slot: Slot, _: &Request) {
        if self.objects[slot.index()].is_main {
            self.main.move_to_head(&mut self.links, slot);
        }
    }

    fn accept(&mut self, request: &Request, _: u64) -> bool {
        !self.refuses_large || request.size <= self.in_capacity
    }

    fn on_insert(&mut self, slot: Slot, request: &Request) {
        let is_main = self.ghosts.remove(request.id).is_some();
        let object = Object {
            id: request.id,
            size: request.size,
            is_main,
        };
        if slot.index() >= self.objects.len() {
            self.objects.resize(slot.index() + 1, object);
        }
        self.objects[slot.index()] = object;
        if is_main {
            self.main.push_head(&mut self.links, slot);
        } else {
            self.recent.push_head(&mut self.links, slot);
            self.recent_bytes += request.size;
        }
    }

    fn victim(&mut self, _: Option<&Request>) -> Option<Slot> {
        let slot = self.peek(None)?;
        self.unlink(slot);
        let Object { id, size, is_main } = self.objects[slot.index()];
        if !is_main {
            self.ghosts
                .push(Ghost { id, size, note: () }, self.out_capacity);
        }
        self.main.approach(&self.links, &self.objects);
        if let Some(next) = self.recent.approach(&self.links, &self.objects) {
            self.ghosts.prefetch(self.objects[next.index()].id);
        }
        Some(slot)
    }

    fn peek(&mut self, after: Option<Slot>) -> Option<Slot> {
        if after.is_none() {
            self.ahead = Ahead {
                recent: self.recent.tail(),
                main: self.main.tail(),
                recent_bytes: self.recent_bytes,
            };
        }
        let ahead = &mut self.ahead;
        match (ahead.recent, ahead.main) {
            (Some(slot), main) if ahead.recent_bytes > self.in_capacity || main.is_none() => {
                ahead.recent = self.recent.newer(&self.links, slot);
                ahead.recent_bytes -= self.objects[slot.index()].size;
                Some(slot)
            }
            (_, Some(slot)) => {
                ahead.main = self.main.newer(&self.links, slot);
                Some(slot)
            }
            _ => None,
        }
    }

    fn on_remove(&mut self, slot: Slot) {
        self.unlink(slot);
    }

    fn prefetch(&self, id: u64, slot: Option<Slot>) {
        match slot {
            Some(slot) => {
                prefetch(&self.objects, slot.index());
                self.links.prefetch(slot);
            }
            None => self.ghosts.prefetch(id),
        }
    }

    fn prefetch_further(&self, id: u64, slot: Option<Slot>) {
        match slot {
            Some(slot) => self.links.prefetch_neighbours(slot),
            None => self.ghosts.prefetch_further(id),
        }
    }

    fn expected_victim(&self) -> Option<Slot> {
        if self.recent_bytes > self.in_capacity {
            self.recent.tail()
        } else {
            self.main.tail()
        }
    }

    fn object_count(&self) -> Option<usize> {
        Some(self.recent.count(&self.links) + self.main.count(&self.links))
    }
}
