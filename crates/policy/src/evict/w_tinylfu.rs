//! W-TinyLFU: a small LRU window before a segmented LRU, and a comparison by frequency for objects
//! that move from the window (Einziger, Friedman and Manes, TinyLFU: a highly efficient cache
//! admission policy, ACM Transactions on Storage 13, 2017, section 4; Caffeine).
//!
//! A newcomer enters the window (1 % of the bytes), so that it can collect requests. An object that
//! leaves the window is compared with the main part's victim, by an ageing sketch
//! ([`crate::sketch`]); the one with fewer recent requests leaves the cache. The main part is an
//! SLRU: hits move objects from its probation segment to the protected one (80 % of the main part),
//! whose overflow moves back to probation.
//!
//! For sizes it uses the same authors' "aggregated victims" (Einziger, Eytan, Friedman and Manes,
//! Lightweight robust size aware cache management, ACM Transactions on Storage 18, 2022): an object
//! enters the main part only if it has more requests than all objects together whose bytes it
//! takes, or as many and is smaller. Each of them counts as requested at least once, so that at
//! most sixteen are compared. An object larger than the window is compared before it is stored, and
//! enters the main part or is refused; with `large=refuse` it is always refused, as in libCacheSim.
//!
//! Differences from Caffeine:
//! * The engine requests victims before it stores the newcomer, so the comparison comes before the
//!   insertion, and whenever an object must leave and the window is more than half full.
//! * Caffeine's candidate loses every tie. Object hit ratios with ties for the smaller / all lost:
//!   NASA's day, a tenth of its bytes, .888 / .877; a CDN's web class, 1 GiB, .802 / .785; its mix,
//!   .444 / .431; Twitter's cluster 52, 5 MiB, .849 / .848; block I/O, 200 MB, .216 / .217. With
//!   equal sizes there is no difference.
//! * The window's share is fixed; there is no hill climbing.
//! * The loser always leaves. Caffeine admits one in 128 of the frequent losers, as a defence
//!   against chosen hashes; here the owner's keyed ids are that defence.
//!
//! O(1) a request; 32 bytes an object and 8 to 16 of the sketch.

use super::large::{LARGE, are_refused};
use crate::entry::{Build, BuildContext, PolicyEntry};
use crate::limits::SKETCH_MIN_WINDOW;
use crate::list::{Links, List};
use crate::parameters::{Arguments, Parameter, Preset, Values};
use crate::prefetch::prefetch;
use crate::scale::Scale;
use crate::sketch::Sketch;
use crate::traits::{Evict, Gauge, Policy};
use crate::{Request, Slot};

/// The share of the protected segment in W-TinyLFU's main part, as in Caffeine and in the paper's
/// section 4.
const PROTECTED_SHARE: f64 = 0.8;

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "w-tinylfu",
    citation: "Einziger, Friedman, Manes, TinyLFU: a highly efficient cache admission policy, ACM Transactions on Storage 13, 2017",
    summary: "an LRU window before a segmented LRU, with a duel by frequency between them",
    parameters: &[
        Parameter {
            name: "window",
            unit: "",
            values: Values::Share,
            default: Preset::Value("1%"),
            doc: "the window's share of the capacity",
        },
        LARGE,
    ],
    complexity: "O(1)",
    bytes_an_object: 44,
    needs_path: false,
    build: Build::Eviction(|arguments, context| Ok(Box::new(WTinyLfu::new(arguments, context)))),
};

struct WTinyLfu {
    scale: Scale,
    share: f64,
    refuses_large: bool,
    capacity: u64,
    sketch: Sketch,
    objects: Vec<Object>,
    links: Links,
    segments: [Segment; 4],
    len: usize,
}

#[derive(Default)]
struct Segment {
    list: List,
    bytes: u64,
}

#[derive(Clone, Copy)]
struct Object {
    id: u64,
    size: u64,
    segment: u8,
}

const WINDOW: u8 = 0;
const PROBATION: u8 = 1;
const PROTECTED: u8 = 2;
/// Objects that have lost a comparison or were chosen, in the order in which they leave: `victim`
/// takes the objects that `peek` has shown.
const DOOMED: u8 = 3;

impl WTinyLfu {
    fn new(arguments: &Arguments<'_>, context: &BuildContext<'_>) -> WTinyLfu {
        WTinyLfu {
            scale: context.scale,
            share: arguments.share("window"),
            refuses_large: are_refused(arguments),
            capacity: context.capacity,
            sketch: Sketch::new(SKETCH_MIN_WINDOW),
            objects: Vec::new(),
            links: Links::default(),
            segments: Default::default(),
            len: 0,
        }
    }

    fn window_capacity(&self) -> u64 {
        // A float may be slightly larger than the capacity that it was computed from.
        ((self.capacity as f64 * self.share) as u64).min(self.capacity)
    }

    fn main_bytes(&self) -> u64 {
        self.segments[PROBATION as usize].bytes + self.segments[PROTECTED as usize].bytes
    }

    fn tail(&self, segment: u8) -> Option<Slot> {
        self.segments[segment as usize].list.tail()
    }

    fn unlink(&mut self, slot: Slot) {
        let Object { size, segment, .. } = self.objects[slot.index()];
        let segment = &mut self.segments[segment as usize];
        segment.list.unlink(&mut self.links, slot);
        segment.bytes -= size;
    }

    fn push(&mut self, slot: Slot, segment: u8) {
        let object = &mut self.objects[slot.index()];
        object.segment = segment;
        let segment = &mut self.segments[segment as usize];
        segment.bytes += object.size;
        segment.list.push_head(&mut self.links, slot);
    }

    fn shift(&mut self, slot: Slot, segment: u8) {
        self.unlink(slot);
        self.push(slot, segment);
    }

    /// Returns the object that the main part would evict next, or after `slot` has left.
    fn main_victim(&self, after: Option<Slot>) -> Option<Slot> {
        let Some(slot) = after else {
            return self.tail(PROBATION).or(self.tail(PROTECTED));
        };
        let segment = self.objects[slot.index()].segment;
        let next = self.segments[segment as usize]
            .list
            .newer(&self.links, slot);
        next.or_else(|| {
            if segment == PROBATION {
                self.tail(PROTECTED)
            } else {
                None
            }
        })
    }

    /// Returns true if the object has more requests than all the objects together that the main
    /// part would evict for `short` bytes, or as many and is smaller than they are. At least one is
    /// compared with it.
    fn wins(&self, id: u64, size: u64, short: u64) -> bool {
        let frequency = f64::from(self.sketch.estimate(id));
        let (mut freed, mut displaced) = (0, 0.0);
        let mut last = None;
        loop {
            let Some(victim) = self.main_victim(last) else {
                return false;
            };
            let victim_object = self.objects[victim.index()];
            displaced += f64::from(self.sketch.estimate(victim_object.id).max(1))
                * self.scale.displaced(victim_object.size, size);
            if displaced > frequency {
                return false;
            }
            freed += victim_object.size;
            if freed >= short {
                return displaced < frequency || size < freed;
            }
            last = Some(victim);
        }
    }

    /// Chooses the next victim. If the window is more than half full, it is the loser of a
    /// comparison between the window's oldest object and the main part's victim.
    fn doom(&mut self) -> Option<Slot> {
        let main = self.main_victim(None);
        let over =
            self.segments[WINDOW as usize].bytes > self.window_capacity() / 2 || main.is_none();
        let loser = match (self.tail(WINDOW).filter(|_| over), main) {
            (Some(candidate), Some(main)) => {
                let Object { id, size, .. } = self.objects[candidate.index()];
                if self.wins(id, size, size) {
                    self.shift(candidate, PROBATION);
                    main
                } else {
                    candidate
                }
            }
            (candidate, main) => candidate.or(main)?,
        };
        self.shift(loser, DOOMED);
        Some(loser)
    }

    /// Moves objects beyond the window's share to the main part without a comparison, while the
    /// main part has free room.
    fn spill(&mut self) {
        let window = self.window_capacity();
        while self.segments[WINDOW as usize].bytes > window
            && let Some(oldest) = self.tail(WINDOW)
            && self.main_bytes() + self.objects[oldest.index()].size <= self.capacity - window
        {
            self.shift(oldest, PROBATION);
        }
    }

    /// Moves objects beyond the protected segment's share to probation.
    fn demote(&mut self) {
        let protected = ((self.capacity - self.window_capacity()) as f64 * PROTECTED_SHARE) as u64;
        while self.segments[PROTECTED as usize].bytes > protected
            && let Some(oldest) = self.tail(PROTECTED)
        {
            self.shift(oldest, PROBATION);
        }
    }
}

impl Policy for WTinyLfu {
    fn on_resize(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.demote();
    }

    fn gauges(&self, out: &mut Vec<Gauge>) {
        out.push(Gauge {
            name: "window_bytes",
            value: self.segments[WINDOW as usize].bytes as f64,
        });
        out.push(Gauge {
            name: "protected_bytes",
            value: self.segments[PROTECTED as usize].bytes as f64,
        });
    }

    fn state_bytes(&self) -> usize {
        self.sketch.bytes() + self.objects.capacity() * size_of::<Object>() + self.links.bytes()
    }
}

impl Evict for WTinyLfu {
    fn on_hit(&mut self, slot: Slot, request: &Request) {
        self.sketch.count(request.id);
        match self.objects[slot.index()].segment {
            WINDOW => self.shift(slot, WINDOW),
            PROTECTED => self.shift(slot, PROTECTED),
            // Also objects that were shown as victims and then not taken.
            _ => {
                self.shift(slot, PROTECTED);
                self.demote();
            }
        }
    }

    fn on_miss(&mut self, request: &Request) {
        self.sketch.count(request.id);
    }

    fn accept(&mut self, request: &Request, short_bytes: u64) -> bool {
        if request.size <= self.window_capacity() {
            return true;
        }
        !self.refuses_large
            && (short_bytes == 0 || self.wins(request.id, request.size, short_bytes))
    }

    fn on_insert(&mut self, slot: Slot, request: &Request) {
        let object = Object {
            id: request.id,
            size: request.size,
            segment: WINDOW,
        };
        if slot.index() >= self.objects.len() {
            self.objects.resize(slot.index() + 1, object);
        }
        self.objects[slot.index()] = object;
        self.len += 1;
        self.sketch.set_window(Sketch::window_for(self.len));
        if request.size > self.window_capacity() {
            self.push(slot, PROBATION);
        } else {
            self.push(slot, WINDOW);
            self.spill();
        }
    }

    fn victim(&mut self, _: Option<&Request>) -> Option<Slot> {
        if self.tail(DOOMED).is_none() {
            self.doom()?;
        }
        let victim = self.tail(DOOMED)?;
        self.on_remove(victim);
        for segment in [WINDOW, PROBATION] {
            if let Some(next) = self.segments[segment as usize]
                .list
                .approach(&self.links, &self.objects)
            {
                self.sketch.prefetch(self.objects[next.index()].id);
            }
        }
        Some(victim)
    }

    fn peek(&mut self, after: Option<Slot>) -> Option<Slot> {
        let doomed = &self.segments[DOOMED as usize].list;
        let shown = after.map_or(doomed.tail(), |slot| doomed.newer(&self.links, slot));
        shown.or_else(|| self.doom())
    }

    fn on_remove(&mut self, slot: Slot) {
        self.unlink(slot);
        self.len -= 1;
    }

    fn prefetch(&self, id: u64, slot: Option<Slot>) {
        self.sketch.prefetch(id);
        if let Some(slot) = slot {
            prefetch(&self.objects, slot.index());
            self.links.prefetch(slot);
        }
    }

    fn prefetch_further(&self, _: u64, slot: Option<Slot>) {
        if let Some(slot) = slot {
            self.links.prefetch_neighbours(slot);
        }
    }

    fn expected_victim(&self) -> Option<Slot> {
        self.tail(WINDOW)
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
