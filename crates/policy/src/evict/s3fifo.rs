//! S3-FIFO (Yang, Zhang, Qiu, Yue and Rashmi, FIFO queues are all you need for cache eviction, SOSP
//! 2023, algorithm 1).
//!
//! Three queues: newcomers enter *small*, a tenth of the cache. Objects with at least two requests
//! while in *small* move to *main*; the others leave and are remembered as ghosts. A newcomer with
//! a ghost enters main at once. Main gives one more round for each request, up to three. So an
//! object with one request leaves after a tenth of the cache's turnover. Hits only count, up to
//! three, and move nothing.
//!
//! Sizes: shares are shares of the bytes, also those of the ghosts (their sizes sum to at most the
//! nine tenths of the main queue). Until the first eviction, newcomers that do not fit into small
//! enter main, as in the authors' program. Otherwise a large cache would begin with a small queue
//! of its whole length (Zipf 0.8 over 1e7, a tenth cached, 20 million requests: a miss ratio of
//! .4619 with this rule, .4676 without; the authors' program .4620). Later, while main is below its
//! share, small may exceed its own. An object larger than the small queue enters it nevertheless,
//! and pushes the others out; with `large=refuse` it is not stored, as in libCacheSim. A look ahead
//! moves objects as the eviction would; an object that is hit after it was chosen goes to the end
//! of its queue.
//!
//! O(1) a hit, O(1) amortised an eviction; 32 bytes an object and 27 to 53 a ghost.

use super::foreseen::Foreseen;
use super::ghosts::{Ghost, Ghosts};
use super::large::{LARGE, are_refused};
use crate::entry::{Build, BuildContext, PolicyEntry};
use crate::list::{Links, List};
use crate::parameters::{Arguments, Parameter, Preset, Values};
use crate::prefetch::prefetch;
use crate::traits::{Evict, Policy};
use crate::{Request, Slot};

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "s3fifo",
    citation: "Yang, Zhang, Qiu, Yue, Rashmi, FIFO queues are all you need for cache eviction, SOSP 2023",
    summary: "a small FIFO queue sifts newcomers for a main one; ghosts return into main",
    parameters: &[
        Parameter {
            name: "small",
            unit: "% of the capacity",
            values: Values::Integer(1, 99),
            default: Preset::Value("10"),
            doc: "the small queue's share; the ghosts' is the rest",
        },
        LARGE,
    ],
    complexity: "O(1) amortised",
    bytes_an_object: 78,
    needs_path: false,
    build: Build::Eviction(|arguments, context| Ok(Box::new(S3Fifo::new(arguments, context)))),
};

/// The largest count: two bits (section 4.1).
const MAX_COUNT: u8 = 3;

/// Requests in the small queue that move an object to main: "accessed more than once" (section
/// 4.2).
const PROMOTING_COUNT: u8 = 2;

struct S3Fifo {
    refuses_large: bool,
    small_percent: u64,
    small_capacity: u64,
    ghost_capacity: u64,
    links: Links,
    small: List,
    main: List,
    small_bytes: u64,
    ghosts: Ghosts,
    /// True after the first eviction: newcomers that do not fit into small no longer enter main.
    has_evicted: bool,
    foreseen: Foreseen,
    /// By slot.
    objects: Vec<Object>,
}

#[derive(Clone, Copy)]
struct Object {
    id: u64,
    size: u64,
    /// Requests since the object entered its queue, up to [`MAX_COUNT`].
    count: u8,
    is_main: bool,
}

impl S3Fifo {
    fn new(arguments: &Arguments<'_>, context: &BuildContext<'_>) -> S3Fifo {
        let mut policy = S3Fifo {
            refuses_large: are_refused(arguments),
            small_percent: arguments.get("small").unwrap_or(10),
            small_capacity: 0,
            ghost_capacity: 0,
            links: Links::default(),
            small: List::default(),
            main: List::default(),
            small_bytes: 0,
            ghosts: Ghosts::default(),
            has_evicted: false,
            foreseen: Foreseen::default(),
            objects: Vec::new(),
        };
        policy.on_resize(context.capacity);
        policy
    }

    /// Unlinks the next victim, after all objects before it have moved on.
    fn choose(&mut self) -> Option<Slot> {
        loop {
            let small = self.small.tail();
            let main = self.main.tail();
            match (small, main) {
                (Some(slot), _) if self.small_bytes >= self.small_capacity || main.is_none() => {
                    self.small.unlink(&mut self.links, slot);
                    let object = &mut self.objects[slot.index()];
                    self.small_bytes -= object.size;
                    if object.count < PROMOTING_COUNT {
                        return Some(slot);
                    }
                    object.count = 0;
                    object.is_main = true;
                    self.main.push_head(&mut self.links, slot);
                }
                (_, Some(slot)) => match &mut self.objects[slot.index()].count {
                    0 => {
                        self.main.unlink(&mut self.links, slot);
                        self.main.approach(&self.links, &self.objects);
                        return Some(slot);
                    }
                    count => {
                        *count -= 1;
                        self.main.move_to_head(&mut self.links, slot);
                        self.main.approach(&self.links, &self.objects);
                    }
                },
                _ => return None,
            }
        }
    }
}

impl Policy for S3Fifo {
    fn on_resize(&mut self, capacity: u64) {
        self.small_capacity = (u128::from(capacity) * u128::from(self.small_percent) / 100) as u64;
        self.ghost_capacity = capacity - self.small_capacity;
        self.ghosts.trim(self.ghost_capacity);
    }

    fn state_bytes(&self) -> usize {
        let own = self.links.bytes() + self.objects.capacity() * size_of::<Object>();
        own + self.foreseen.bytes() + self.ghosts.state_bytes()
    }
}

impl Evict for S3Fifo {
    fn on_hit(&mut self, slot: Slot, _: &Request) {
        let object = &mut self.objects[slot.index()];
        object.count = (object.count + 1).min(MAX_COUNT);
        if self.foreseen.take(slot) {
            if object.is_main {
                self.main.push_tail(&mut self.links, slot);
            } else {
                self.small_bytes += object.size;
                self.small.push_tail(&mut self.links, slot);
            }
        }
    }

    fn accept(&mut self, request: &Request, _: u64) -> bool {
        !self.refuses_large || request.size <= self.small_capacity
    }

    fn on_insert(&mut self, slot: Slot, request: &Request) {
        let returns = self.ghosts.remove(request.id).is_some();
        let is_main = returns || (!self.has_evicted && self.small_bytes >= self.small_capacity);
        let object = Object {
            id: request.id,
            size: request.size,
            count: 0,
            is_main,
        };
        if slot.index() >= self.objects.len() {
            self.objects.resize(slot.index() + 1, object);
        }
        self.objects[slot.index()] = object;
        if is_main {
            self.main.push_head(&mut self.links, slot);
        } else {
            self.small_bytes += request.size;
            self.small.push_head(&mut self.links, slot);
        }
    }

    fn victim(&mut self, _: Option<&Request>) -> Option<Slot> {
        let slot = self.foreseen.pop().or_else(|| self.choose())?;
        self.has_evicted = true;
        let Object {
            id, size, is_main, ..
        } = self.objects[slot.index()];
        if !is_main {
            self.ghosts
                .push(Ghost { id, size, note: () }, self.ghost_capacity);
        }
        if let Some(next) = self.small.approach(&self.links, &self.objects) {
            self.ghosts.prefetch(self.objects[next.index()].id);
        }
        Some(slot)
    }

    fn peek(&mut self, after: Option<Slot>) -> Option<Slot> {
        self.foreseen.next(after).or_else(|| {
            let slot = self.choose()?;
            self.foreseen.push(slot);
            Some(slot)
        })
    }

    fn on_remove(&mut self, slot: Slot) {
        let Object { size, is_main, .. } = self.objects[slot.index()];
        if self.foreseen.take(slot) {
            return;
        }
        if is_main {
            self.main.unlink(&mut self.links, slot);
        } else {
            self.small_bytes -= size;
            self.small.unlink(&mut self.links, slot);
        }
    }

    fn prefetch(&self, id: u64, slot: Option<Slot>) {
        match slot {
            Some(slot) => prefetch(&self.objects, slot.index()),
            None => self.ghosts.prefetch(id),
        }
    }

    fn prefetch_further(&self, id: u64, slot: Option<Slot>) {
        if slot.is_none() {
            self.ghosts.prefetch_further(id);
        }
    }

    fn expected_victim(&self) -> Option<Slot> {
        if self.small_bytes >= self.small_capacity {
            self.small.tail()
        } else {
            self.main.tail()
        }
    }

    fn expected_victim_after(&self, slot: Slot) -> Option<Slot> {
        self.small.newer(&self.links, slot)
    }

    fn object_count(&self) -> Option<usize> {
        Some(self.small.count(&self.links) + self.main.count(&self.links) + self.foreseen.len())
    }
}
