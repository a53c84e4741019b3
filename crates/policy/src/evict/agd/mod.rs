//! agd, adaptive GreedyDual: orders objects by requests per byte and by recency, and adapts the
//! weights of both to the traffic.
//!
//! Larder's own, after GreedyDual-Size-Frequency (Cherkasova, HP Labs 1998), CAMP (Ghandeharizadeh
//! et al., Middleware 2014), TinyLFU's fading sketch (Einziger et al., ACM ToS 2017) and miniature
//! simulation (Waldspurger et al., ATC 2017).
//!
//! # The idea
//! * An object with f requests has the value v = f / size^κ. Each of its requests gives it the
//!   lifetime v^p on a clock. The object that is due first leaves, and the clock advances to its
//!   due time. A newcomer that would be due no later than the objects that must leave for it is
//!   bypassed.
//! * p sets how fast history fades. p = 0 is LRU, p = 1 GDSF, p → ∞ the pure order of values; at p
//!   = 2, an object with ten times the requests per byte stays a hundred times as long. So p also
//!   sets the weight of size against recency, as a power p·κ.
//! * f outlives eviction, in a fading sketch, or in a table if hits are worth bytes. This matters
//!   as much as p.
//! * Seven small shadow caches of a sample of the objects, one for each p = 0, 0.5, 1, 1.5, 2, 4,
//!   8, measure which p suits the traffic; a cumulative sum test selects it.
//! * κ = 1 − bytes/100, and a shadow's hit is worth size^(bytes/100): one parameter trades object
//!   hits for byte hits.
//!
//! # To reimplement it
//! `docs/agd.md` has the pseudo-code, the constants with their reasons, and measurements beside
//! those of other policies. In short:
//!
//! Counts: a hit adds 1 to the object's own count; a miss adds 1 to a count–min sketch
//! ([`history`]). A stored newcomer starts from the sketch's count; the count of an object that is
//! evicted, removed or replaced is written back (up to 255). After 128 requests per stored object,
//! or one miss per counter of the sketch, all counts halve. Stored counts halve by doubling the
//! amount that a request adds ([`frequency`]).
//!
//! If `bytes` is above 0, the history is a table, of as many bytes, of the objects that were missed
//! or evicted last, with counts up to 127; four misses per entry halve them. And a newcomer's first
//! request counts as twice the share of objects that are requested again, at most 1.
//!
//! A hit moves its object only if the class changes, or if a quarter of the lifetime has passed
//! since it was last moved. So most hits only count. At p = 0 all lifetimes are 1, every hit moves
//! its object, and the clock advances by 1/n when an object is moved or stored: this is LRU.
//!
//! Order: log2 v, interpolated linearly between powers of two, is rounded to half octaves. Within
//! such a class all lifetimes are equal, so its list is in the order of due times; the next victim
//! is the earliest of the tails ([`order`]). Each refusal moves the clock 1/n of the way to the
//! first due time, for n stored objects. So a hot set without further requests is due after about
//! n·ln(its lifetime / the newcomer's) refusals. When p changes, every object keeps the remaining
//! share of its lifetime.
//!
//! At p = 8 a newcomer counts as half an octave less than its value. So objects of equal value do
//! not displace each other, and part of a loop stays stored.
//!
//! Choice of p: [`tuner`]. A sample of 1/8 of the objects. The sample halves whenever a shadow
//! would hold more than 4,096 objects (the others stay in the shadows), and doubles if it would
//! hold fewer than 512 (with empty shadows). The shadow caches have the same share of the capacity,
//! and use the classes that the cache has computed. Every 512 sampled requests, the lead of each p
//! over the one in use grows by the difference of their hits, less 0.0005 of the requests, and
//! never falls below 0. At a lead of 60 that p is chosen, and all leads restart. If the cache
//! itself has lost 512 hits of the sample against one p (and an eighth of all hits lost or won
//! against it), that p is chosen, and the required lead is eight times as high; this factor fades.
//! So alternating traffic is not followed for long.
//!
//! # Cost
//! O(1) a request, amortised: the object that is due first is at the root of a tree of minima over
//! the 256 classes. At most 256 objects are counted for the decision about a newcomer. The sketch
//! is halved at most once per as many misses as it has counters (the table once per four misses an
//! entry), or per 128 turns of the cache. All objects are visited once when p changes, and when the
//! clock restarts from zero. 40 bytes an object, and 16 to 32 of sketch or table (they do not
//! shrink), and 0.7 MB of shadows of 2,700 objects each, up to half as much again because tables do
//! not shrink; at most 38 MB. Speed: `docs/agd.md`.
//!
//! # Figures
//! Compared with other policies, and with p fixed: `docs/agd.md`.
//!
//! κ = 0.75 with p fixed gave hardly more object hits (NASA .910, caffeine's trace .425 for .425,
//! CloudPhysics .264 for .265), so κ is not tuned. If only recency matters (40 % new objects, the
//! rest uniformly from the last 20,000 requests, 20,000 stored), agd has .598 and LRU .600, with
//! 10,000 stored .528 and .529.
//!
//! # Weaknesses
//! * If it stores many more objects than S3-FIFO, it has between four fifths and seven sixths of
//!   its speed, see `docs/agd.md`.
//! * Traffic that alternates between more objects than are stored and fewer makes p alternate,
//!   until the test finds that this loses: half a point to one and a half below LRU
//!   (`docs/agd.md`).
//! * Part of a loop larger than the cache stays stored once p = 8 is found (.82 of 1.2 caches);
//!   with other traffic beside it, less of it (`docs/agd.md`).
//! * Short traces end before p is found: CloudPhysics' 114,000 requests have .306, and .312 with p
//!   = 8.
//! * Objects larger than a shadow are not in the sample. With few large objects the shadows are
//!   noisy, and p may stay one step from the best.
//! * Object hits cost byte hits: on web 1 GiB agd hits .524 of the bytes, S3-FIFO .602. `bytes`
//!   trades them: 50 has .866 of the objects and .597 of the bytes, 100 has .752 and .628.

mod deadlines;
mod frequency;
mod history;
mod order;
mod ranking;
mod shadows;
mod tuner;

use crate::entry::{Build, PolicyEntry};
use crate::parameters::{Parameter, Preset, Values};
use crate::traits::{Evict, Gauge, Policy};
use crate::{Request, Slot};
use frequency::Frequency;
use shadows::POWERS;
use tuner::Tuner;

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "agd",
    citation: "Larder's own; after Cherkasova, Improving WWW proxies performance with Greedy-Dual-Size-Frequency caching policy, HP Labs 1998",
    summary: "GreedyDual with lifetimes of (requests / size)^p with adaptive p, and a bypass",
    parameters: &[
        Parameter {
            name: "p",
            unit: "",
            values: Values::Choice(POWER_WORDS),
            default: Preset::Value("auto"),
            doc: "how much requests and size count against recency; auto: as shadow caches find",
        },
        Parameter {
            name: "bytes",
            unit: "%",
            values: Values::Integer(0, 100),
            default: Preset::Value("0"),
            doc: "what a hit is worth: 0 every hit the same, 100 its bytes, between them size^(bytes/100)",
        },
    ],
    complexity: "O(1), amortised",
    bytes_an_object: 56,
    needs_path: false,
    build: Build::Eviction(|arguments, context| {
        let bytes = arguments.get("bytes").unwrap_or(0) as f64 / 100.0;
        let fixed = arguments
            .get("p")
            .and_then(|choice| (choice as usize).checked_sub(1))
            .map(|power_index| POWERS[power_index]);
        Ok(Box::new(Agd::new(fixed, bytes, context.capacity)))
    }),
};

/// The values of `p`: `auto`, and each of [`POWERS`].
const POWER_WORDS: &[&str] = &["auto", "0", "0.5", "1", "1.5", "2", "4", "8"];
/// The index of the power that `auto` starts from.
const START: usize = 3;

struct Agd {
    frequency: Frequency,
    tuner: Option<Tuner>,
}

impl Agd {
    fn new(fixed: Option<f64>, bytes: f64, capacity: u64) -> Self {
        let size_exponent = 1.0 - bytes;
        let tuner = fixed
            .is_none()
            .then(|| Tuner::new(START, size_exponent, capacity));
        Agd {
            frequency: Frequency::new(fixed.unwrap_or(POWERS[START]), size_exponent),
            tuner,
        }
    }

    /// Reports a request for an object of `class`, a hit or a miss, to the shadows.
    #[inline]
    fn tune(&mut self, request: &Request, class: u8, hit: bool) {
        if let Some(tuner) = &mut self.tuner
            && let stored = self.frequency.ranking.len()
            && let Some(power) = tuner.request(request.id, request.size, class, hit, stored)
        {
            self.frequency.ranking.set_power(power);
        }
    }
}

impl Policy for Agd {
    fn on_resize(&mut self, capacity: u64) {
        if let Some(tuner) = &mut self.tuner {
            tuner.on_resize(capacity);
        }
    }

    fn gauges(&self, out: &mut Vec<Gauge>) {
        out.push(Gauge {
            name: "p",
            value: self.frequency.ranking.power(),
        });
    }

    fn state_bytes(&self) -> usize {
        self.frequency.bytes() + self.tuner.as_ref().map_or(0, Tuner::bytes)
    }
}

impl Evict for Agd {
    fn on_hit(&mut self, slot: Slot, request: &Request) {
        let class = self.frequency.on_hit(slot);
        self.tune(request, class, true);
    }

    fn on_miss(&mut self, request: &Request) {
        self.frequency.on_miss(request.id);
    }

    fn accept(&mut self, request: &Request, short_bytes: u64) -> bool {
        let class = self.frequency.newcomer(request.id, request.size);
        self.tune(request, class, false);
        short_bytes == 0 || self.frequency.ranking.accept(class, short_bytes)
    }

    fn on_insert(&mut self, slot: Slot, request: &Request) {
        self.frequency.on_insert(slot, request.id, request.size);
    }

    fn victim(&mut self, _: Option<&Request>) -> Option<Slot> {
        self.frequency.victim()
    }

    fn peek(&mut self, after: Option<Slot>) -> Option<Slot> {
        self.frequency.ranking.peek(after)
    }

    fn on_remove(&mut self, slot: Slot) {
        self.frequency.on_remove(slot);
    }

    fn prefetch(&self, id: u64, slot: Option<Slot>) {
        self.frequency.prefetch(id, slot);
    }

    fn prefetch_further(&self, _: u64, slot: Option<Slot>) {
        if let Some(slot) = slot {
            self.frequency.ranking.prefetch_neighbours(slot);
        }
    }

    fn expected_victim(&self) -> Option<Slot> {
        self.frequency.ranking.first()
    }

    fn object_count(&self) -> Option<usize> {
        Some(self.frequency.ranking.len())
    }
}
