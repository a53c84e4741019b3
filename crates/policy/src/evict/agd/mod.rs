//! agd, adaptive GreedyDual: evicts by requests a byte against recency, and finds from the traffic
//! how much either counts.
//!
//! Larder's own, after GreedyDual-Size-Frequency (Cherkasova, HP Labs 1998), CAMP (Ghandeharizadeh
//! et al., Middleware 2014), TinyLFU's fading sketch (Einziger et al., ACM ToS 2017) and miniature
//! simulation (Waldspurger et al., ATC 2017).
//!
//! # The idea
//! * An object that was requested f times is worth v = f / size^κ. At each of its requests it gets
//!   the lifetime v^p on a clock; what is due first leaves, and the clock jumps there. A newcomer
//!   that would be due no later than what must leave for it is bypassed.
//! * p says how fast history fades. p = 0 is LRU, p = 1 GDSF, p → ∞ the pure order of values; at p
//!   = 2, ten times the requests a byte stay a hundred times as long. So p also sets how much size
//!   counts, as a power p·κ, against recency.
//! * f outlives eviction, in a fading sketch, or in a table where hits are worth bytes. That is as
//!   important as p.
//! * Seven small shadow caches of a sample of the objects, one a rung p = 0, 0.5, 1, 1.5, 2, 4, 8,
//!   say which p the traffic likes; a cumulative sum test changes to it.
//! * κ = 1 − bytes/100, and a shadow's hit is worth size^(bytes/100): one parameter trades object
//!   hits for byte hits.
//!
//! # To reimplement it
//! `docs/agd.md` has the pseudo-code, the constants with their reasons, and figures beside the
//! peers'. In short:
//!
//! Counts: a hit adds 1 to the object's own count; a miss adds 1 to a count–min sketch
//! ([`history`]). A stored newcomer starts from the sketch's count; the count of an object that is
//! evicted, removed or replaced is written back (up to 255). After 128 requests an object of the
//! cache, or one miss a counter of the sketch, all counts halve: of stored ones by what a request
//! adds being doubled ([`frequency`]).
//!
//! If `bytes` is above 0, the history is a table of the objects that were missed or evicted last,
//! of as many bytes, with counts up to 127; four misses an entry halve them. And a newcomer's first
//! request counts as twice the share of objects that are requested again, at most 1.
//!
//! A hit moves its object only where the class changes or a quarter of the lifetime has passed
//! since it was moved last: what was hit a moment ago rests, and most hits count and do no more. At
//! p = 0 all lifetimes are 1, nothing rests, and the clock goes on by 1/n where an object is moved
//! or stored: LRU.
//!
//! Order: log2 v, by straight lines between powers of two, is rounded to half octaves. Within such
//! a class all lifetimes are equal, so its list is in the order of due times; the next victim is
//! the earliest of the tails ([`order`]). Each refusal moves the clock 1/n of the way to the first
//! due time, n objects being stored, so that a hot set that died with high counts is due after some
//! n·ln(its lifetime / the newcomer's) refusals. When p changes, everyone keeps the share of its
//! lifetime that is left.
//!
//! At p = 8 a newcomer is judged as half an octave less than it is worth: equals do not displace
//! each other, so that a loop is kept in part.
//!
//! Choice of p: [`tuner`]. A sample of 1/8 of the objects, halved each time that a shadow would
//! hold more than 4,096 of them (the others stay in the shadows), doubled again where it would hold
//! fewer than 512 (from empty shadows), and shadow caches with that share of the capacity, which
//! order the classes that the cache has found. Every 512 sampled requests, each rung's lead over
//! the rung in use grows by the difference of their hits, less 0.0005 of the requests, and never
//! falls below 0; at 60 the rung is taken and all leads start anew. Where the cache itself has lost
//! 512 hits of the sample (and an eighth of all that it has lost or won) against one rung, that is
//! taken, and eight times the lead asked for, which fades: traffic to and fro is not followed for
//! long.
//!
//! # Cost
//! O(1) a request, amortised: what is due first stands at the root of a tree of minima over the 256
//! classes; at most 256 objects counted to judge a newcomer; the sketch is halved at most once in
//! as many misses as it has counters (the table in four an entry), or 128 turns of the cache; all
//! objects are passed once at a change of p, and where the clock is set back to zero. 40 bytes an
//! object, and 16 to 32 of sketch or table (they do not shrink), and 0.7 MB of shadows of 2,700
//! objects each, half as much again once they had more, for tables are kept; at most 38 MB. Speed:
//! `docs/agd.md`.
//!
//! # Figures
//! Beside the peers', and with p fixed: `docs/agd.md`.
//!
//! κ = 0.75 with p fixed gave no more object hits to speak of (NASA .910, caffeine's trace .425 for
//! .425, CloudPhysics .264 for .265): κ is no rung of its own. Where recency is all that counts (40
//! % new objects, the rest uniformly from the last 20,000 requests, 20,000 stored) agd has .598 and
//! LRU .600, with 10,000 stored .528 and .529.
//!
//! # What falls short
//! * As fast as S3-FIFO it is not where it stores many more objects: four fifths of its speed to a
//!   sixth more, see `docs/agd.md`.
//! * Traffic that asks for more than is stored in turn, and back, sends p to and fro until that is
//!   found to lose: half a point to one and a half below LRU (`docs/agd.md`).
//! * A loop larger than the cache is kept in part once p = 8 is found (.82 of 1.2 caches); beside
//!   other traffic, less of it (`docs/agd.md`).
//! * Short traces end before p is found: CloudPhysics' 114,000 requests have .306 where p = 8 has
//!   .312.
//! * Objects larger than a shadow are not in the sample's game; with few large objects the shadows
//!   are noisy, and p may rest a rung from the best.
//! * Object hits are bought with byte hits: on web 1 GiB .524 of the bytes, S3-FIFO .602. `bytes`
//!   is the remedy: 50 has .866 of the objects and .597 of the bytes, 100 has .752 and .628.

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

/// What `p` may be: `auto`, and each of [`POWERS`].
const POWER_WORDS: &[&str] = &["auto", "0", "0.5", "1", "1.5", "2", "4", "8"];
/// The rung that `auto` starts from.
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

    /// The shadows see the request for an object of `class`, which was a hit or not.
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
