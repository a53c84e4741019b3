//! LeCaR (Vietri et al., Driving cache replacement with ML-based LeCaR, HotStorage 2018, algorithms
//! 1 and 2).
//!
//! Two experts order the same objects: LRU, and LFU with the older first of equals. A random draw
//! by their weights decides whose victim leaves. Each has a history of the objects that it evicted.
//! A miss for one of these is a regret of that expert, and multiplies the other's weight by
//! e^(λ·d^t), less the longer requests.
//!
//! As in the authors' program, and not in the paper: each history has half of the capacity; a
//! victim that both experts chose enters neither; an object that returns keeps its count of
//! requests; and no weight falls below 0.01.
//!
//! Sizes do not matter to the order of either expert. Histories are bounded in bytes, and N is the
//! number of stored objects. Weights adapt at the request, whether or not admission then stores the
//! object; the ghost stays until the object is stored. A draw of a look ahead stays valid.
//!
//! Compared with libCacheSim's at one size, 1e5 objects of Zipf 1.0, a hundredth and a tenth
//! cached: misses .4133 and .2148, libCacheSim's .4897 and .2616. The count that an object keeps
//! makes the difference: without it, .4900 and .2617.
//!
//! Cacheus (Rodriguez et al., FAST 2021), which follows LeCaR with other experts and an adaptive
//! learning rate, is not implemented: libCacheSim's misses .204 and .114 on twitter cluster 52 at
//! one size with 20,000 and 200,000 objects, where LRU misses .194 and .109, this .182 and .108,
//! S3-FIFO .170 and .107. On the Zipf above it misses .400 and .212, W-TinyLFU .394 and .207.
//!
//! O(1) a hit, otherwise O(log n) amortised; 80 bytes an object, 43 to 85 a ghost.

use super::foreseen::Foreseen;
use super::ghosts::{Ghost, Ghosts};
use super::heap::Heap;
use crate::entry::{Build, BuildContext, PolicyEntry};
use crate::list::{Links, List};
use crate::traits::{Evict, Gauge, Policy};
use crate::{Request, Slot};
use larder_units::Stream;

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "lecar",
    citation: "Vietri et al., Driving cache replacement with ML-based LeCaR, USENIX HotStorage 2018",
    summary: "evicts as LRU or LFU would, by weights that follow requests for evicted objects",
    parameters: &[],
    complexity: "O(1) a hit, O(log n) amortised an eviction",
    bytes_an_object: 220,
    needs_path: false,
    build: Build::Eviction(|_, context| Ok(Box::new(Lecar::new(context)))),
};

/// λ.
const LEARNING_RATE: f64 = 0.45;

/// d^N: the weight of a regret after as many requests as objects are stored.
const DISCOUNT_OF_A_TURN: f64 = 0.005;

/// The least weight of an expert.
const LEAST_WEIGHT: f64 = 0.01;

struct Lecar {
    capacity: u64,
    stream: Stream,
    /// The weight of LRU; LFU has the rest of 1.
    recency_weight: f64,
    stored: usize,
    /// All objects but the foreseen, which are not in `by_count` either.
    by_recency: List,
    links: Links,
    by_count: Heap<(u64, u64)>,
    foreseen: Foreseen,
    recency_history: Ghosts<Left>,
    count_history: Ghosts<Left>,
    /// By slot.
    objects: Vec<Object>,
}

#[derive(Clone, Copy)]
struct Object {
    id: u64,
    size: u64,
    count: u32,
    /// The expert that chose the victim.
    expert: Expert,
}

#[derive(Clone, Copy)]
enum Expert {
    Recency,
    Count,
    Both,
}

/// The note of a history.
#[derive(Clone, Copy, Default)]
struct Left {
    /// The number of the request for which the object left.
    at: u64,
    count: u32,
}

impl Lecar {
    fn new(context: &BuildContext<'_>) -> Lecar {
        Lecar {
            capacity: context.capacity,
            stream: context.stream(),
            recency_weight: 0.5,
            stored: 0,
            by_recency: List::default(),
            links: Links::default(),
            by_count: Heap::default(),
            foreseen: Foreseen::default(),
            recency_history: Ghosts::default(),
            count_history: Ghosts::default(),
            objects: Vec::new(),
        }
    }

    /// Draws the next victim, and unlinks it.
    fn choose(&mut self) -> Option<Slot> {
        let oldest = self.by_recency.tail()?;
        let rarest = self.by_count.peek(None)?;
        let (slot, expert) = if oldest == rarest {
            (oldest, Expert::Both)
        } else if self.stream.chance(self.recency_weight) {
            (oldest, Expert::Recency)
        } else {
            (rarest, Expert::Count)
        };
        self.by_recency.unlink(&mut self.links, slot);
        self.by_count.remove(slot);
        self.objects[slot.index()].expert = expert;
        Some(slot)
    }

    /// Updates the weights for a regret of LRU or of LFU, `requests` after the eviction.
    fn learn(&mut self, of_recency: bool, requests: u64) {
        let turns = requests as f64 / self.stored.max(1) as f64;
        let factor = (LEARNING_RATE * DISCOUNT_OF_A_TURN.powf(turns)).exp();
        let (recency, count) = (self.recency_weight, 1.0 - self.recency_weight);
        let weight = if of_recency {
            recency / (recency + count * factor)
        } else {
            recency * factor / (recency * factor + count)
        };
        self.recency_weight = weight.clamp(LEAST_WEIGHT, 1.0 - LEAST_WEIGHT);
    }
}

impl Policy for Lecar {
    fn on_resize(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.recency_history.trim(capacity / 2);
        self.count_history.trim(capacity / 2);
    }

    fn gauges(&self, out: &mut Vec<Gauge>) {
        out.push(Gauge {
            name: "lru_weight",
            value: self.recency_weight,
        });
    }

    fn state_bytes(&self) -> usize {
        let own = self.links.bytes()
            + self.foreseen.bytes()
            + self.objects.capacity() * size_of::<Object>();
        own + self.by_count.bytes()
            + self.recency_history.state_bytes()
            + self.count_history.state_bytes()
    }
}

impl Evict for Lecar {
    fn on_hit(&mut self, slot: Slot, request: &Request) {
        let object = &mut self.objects[slot.index()];
        object.count = object.count.saturating_add(1);
        let key = (u64::from(object.count), request.seq);
        if self.foreseen.take(slot) {
            self.by_recency.push_head(&mut self.links, slot);
            self.by_count.insert(slot, key);
        } else {
            self.by_recency.move_to_head(&mut self.links, slot);
            self.by_count.raise(slot, key);
        }
    }

    fn on_miss(&mut self, request: &Request) {
        if let Some(ghost) = self.recency_history.get(request.id) {
            self.learn(true, request.seq.saturating_sub(ghost.note.at));
        } else if let Some(ghost) = self.count_history.get(request.id) {
            self.learn(false, request.seq.saturating_sub(ghost.note.at));
        }
    }

    fn on_insert(&mut self, slot: Slot, request: &Request) {
        let left_recency = self.recency_history.remove(request.id);
        let ghost = self.count_history.remove(request.id).or(left_recency);
        let count = ghost.map_or(1, |ghost| ghost.note.count.saturating_add(1));
        let object = Object {
            id: request.id,
            size: request.size,
            count,
            expert: Expert::Both,
        };
        if slot.index() >= self.objects.len() {
            self.objects.resize(slot.index() + 1, object);
        }
        self.objects[slot.index()] = object;
        self.by_recency.push_head(&mut self.links, slot);
        self.by_count.insert(slot, (u64::from(count), request.seq));
        self.stored += 1;
    }

    fn victim(&mut self, incoming: Option<&Request>) -> Option<Slot> {
        let slot = self.foreseen.pop().or_else(|| self.choose())?;
        self.stored -= 1;
        let Object {
            id,
            size,
            count,
            expert,
        } = self.objects[slot.index()];
        // Evictions of a cache that shrinks enter no history.
        if let Some(Request { seq, .. }) = incoming {
            let ghost = Ghost {
                id,
                size,
                note: Left { at: *seq, count },
            };
            match expert {
                Expert::Recency => self.recency_history.push(ghost, self.capacity / 2),
                Expert::Count => self.count_history.push(ghost, self.capacity / 2),
                Expert::Both => {}
            }
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
        self.stored -= 1;
        if !self.foreseen.take(slot) {
            self.by_recency.unlink(&mut self.links, slot);
            self.by_count.remove(slot);
        }
    }

    fn object_count(&self) -> Option<usize> {
        Some(self.by_recency.count(&self.links) + self.foreseen.len())
    }
}
