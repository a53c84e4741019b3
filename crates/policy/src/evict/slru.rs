//! Segmented LRU (Karedla, Love and Wherry, Caching strategies to improve disk system performance,
//! IEEE Computer 1994), and with four segments S4LRU (Huang et al., An analysis of Facebook photo
//! caching, SOSP 2013).
//!
//! n LRU lists, one above the other, of equal shares; those of S4LRU may be unequal. A newcomer
//! enters the lowest. A hit moves an object to the head of the next higher list, in the highest to
//! its head. Objects beyond a list's share move from its tail to the head of the list below. The
//! tail of the lowest list is the next victim.
//!
//! Sizes: shares are shares of the bytes. The lowest list has no limit of its own: it may use the
//! free room of the higher ones. In Huang's version this room is unused until objects have risen.
//! With `large=refuse`, an object larger than the lowest share is not stored, as in libCacheSim.
//!
//! O(n) a request at worst for n segments; each step moves one object down (with sizes, several may
//! move for one that rises, amortised by their own rise); 24 bytes an object.

use super::large::{LARGE, are_refused};
use crate::entry::{Build, PolicyEntry};
use crate::list::{Links, List};
use crate::parameters::{Parameter, Preset, Values};
use crate::traits::{Evict, Policy};
use crate::{Request, Slot};

/// Segments of SLRU. The published ones have two to eight, and a request may visit all.
const MAX_SEGMENTS: u64 = 16;

/// Parts of a segment of S4LRU: a hundredth is finer than any published partition.
const MAX_PARTS: u64 = 100;

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "slru",
    citation: "Karedla, Love, Wherry, Caching strategies to improve disk system performance, IEEE Computer 1994",
    summary: "LRU in segments: a hit lifts an object into the next, and the lowest evicts",
    parameters: &[
        Parameter {
            name: "segments",
            unit: "",
            values: Values::Integer(1, MAX_SEGMENTS),
            default: Preset::Value("2"),
            doc: "how many segments share the capacity",
        },
        LARGE,
    ],
    complexity: "O(1) amortised",
    bytes_an_object: 24,
    needs_path: false,
    build: Build::Eviction(|arguments, context| {
        let segments = arguments.get("segments").unwrap_or(2);
        Ok(Box::new(Slru::new(
            vec![1; segments as usize],
            context.capacity,
            are_refused(arguments),
        )))
    }),
};

pub(crate) const ENTRY_OF_FOUR: PolicyEntry = PolicyEntry {
    name: "s4lru",
    citation: "Huang et al., An analysis of Facebook photo caching, SOSP 2013",
    summary: "slru with four segments, whose shares may be unequal",
    parameters: &[
        parts("part1", "the lowest segment, which newcomers enter"),
        parts("part2", "the second segment"),
        parts("part3", "the third segment"),
        parts("part4", "the highest segment"),
        LARGE,
    ],
    complexity: "O(1) amortised",
    bytes_an_object: 24,
    needs_path: false,
    build: Build::Eviction(|arguments, context| {
        let parts =
            ["part1", "part2", "part3", "part4"].map(|name| arguments.get(name).unwrap_or(1));
        let refuses_large = are_refused(arguments);
        let slru = Slru::new(parts.to_vec(), context.capacity, refuses_large);
        Ok(Box::new(slru))
    }),
};

/// The parameter for the share of a segment of S4LRU, in parts of the sum of all four.
const fn parts(name: &'static str, doc: &'static str) -> Parameter {
    Parameter {
        name,
        unit: "parts",
        values: Values::Integer(1, MAX_PARTS),
        default: Preset::Value("1"),
        doc,
    }
}

struct Slru {
    refuses_large: bool,
    links: Links,
    /// The lowest first.
    segments: Vec<Segment>,
    /// By slot.
    objects: Vec<Object>,
}

#[derive(Default)]
struct Segment {
    list: List,
    bytes: u64,
    /// The share, in parts of the sum over all segments.
    parts: u64,
    /// The share in bytes. The lowest segment may exceed it.
    share: u64,
}

#[derive(Clone, Copy)]
struct Object {
    size: u64,
    segment: u8,
}

impl Segment {
    fn is_over(&self) -> bool {
        self.bytes > self.share
    }
}

impl Slru {
    /// Creates segments with these parts of the capacity, the lowest first.
    fn new(parts: Vec<u64>, capacity: u64, refuses_large: bool) -> Slru {
        let segments = parts
            .into_iter()
            .map(|parts| Segment {
                parts,
                ..Segment::default()
            })
            .collect();
        let mut policy = Slru {
            refuses_large,
            links: Links::default(),
            segments,
            objects: Vec::new(),
        };
        policy.on_resize(capacity);
        policy
    }

    fn enter(&mut self, slot: Slot, segment: u8) {
        let object = &mut self.objects[slot.index()];
        object.segment = segment;
        let segment = &mut self.segments[usize::from(segment)];
        segment.list.push_head(&mut self.links, slot);
        segment.bytes += object.size;
    }

    fn leave(&mut self, slot: Slot) {
        let Object { size, segment } = self.objects[slot.index()];
        let segment = &mut self.segments[usize::from(segment)];
        segment.list.unlink(&mut self.links, slot);
        segment.bytes -= size;
    }

    /// Moves objects beyond their segment's share down, for the segments from `from` downwards.
    fn settle(&mut self, from: u8) {
        for segment in (1..=from).rev() {
            while self.segments[usize::from(segment)].is_over()
                && let Some(slot) = self.segments[usize::from(segment)].list.tail()
            {
                self.leave(slot);
                self.enter(slot, segment - 1);
            }
        }
    }

    fn highest(&self) -> u8 {
        (self.segments.len() - 1) as u8
    }
}

impl Policy for Slru {
    fn on_resize(&mut self, capacity: u64) {
        let all: u64 = self.segments.iter().map(|segment| segment.parts).sum();
        for segment in &mut self.segments {
            segment.share =
                (u128::from(capacity) * u128::from(segment.parts) / u128::from(all)) as u64;
        }
        self.settle(self.highest());
    }

    fn state_bytes(&self) -> usize {
        self.links.bytes()
            + self.segments.capacity() * size_of::<Segment>()
            + self.objects.capacity() * size_of::<Object>()
    }
}

impl Evict for Slru {
    fn on_hit(&mut self, slot: Slot, _: &Request) {
        let segment = self.objects[slot.index()].segment;
        if segment == self.highest() {
            self.segments[usize::from(segment)]
                .list
                .move_to_head(&mut self.links, slot);
        } else {
            self.leave(slot);
            self.enter(slot, segment + 1);
            self.settle(segment + 1);
        }
    }

    fn accept(&mut self, request: &Request, _: u64) -> bool {
        !self.refuses_large || request.size <= self.segments[0].share
    }

    fn on_insert(&mut self, slot: Slot, request: &Request) {
        let object = Object {
            size: request.size,
            segment: 0,
        };
        if slot.index() >= self.objects.len() {
            self.objects.resize(slot.index() + 1, object);
        }
        self.objects[slot.index()] = object;
        self.enter(slot, 0);
    }

    fn victim(&mut self, _: Option<&Request>) -> Option<Slot> {
        let slot = self.peek(None)?;
        self.leave(slot);
        Some(slot)
    }

    fn peek(&mut self, after: Option<Slot>) -> Option<Slot> {
        let above = match after {
            None => 0,
            Some(slot) => {
                let segment = usize::from(self.objects[slot.index()].segment);
                if let Some(newer) = self.segments[segment].list.newer(&self.links, slot) {
                    return Some(newer);
                }
                segment + 1
            }
        };
        self.segments[above..]
            .iter()
            .find_map(|segment| segment.list.tail())
    }

    fn on_remove(&mut self, slot: Slot) {
        self.leave(slot);
    }

    fn object_count(&self) -> Option<usize> {
        Some(
            self.segments
                .iter()
                .map(|segment| segment.list.count(&self.links))
                .sum(),
        )
    }
}
