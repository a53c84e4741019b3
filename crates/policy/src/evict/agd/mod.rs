//! agd, adaptive GreedyDual: orders objects by requests per byte and by recency, and adapts the
//! weights of both to the traffic; or by an order that it learns.
//!
//! Larder's own, after GreedyDual-Size-Frequency (Cherkasova, HP Labs 1998), CAMP (Ghandeharizadeh
//! et al., Middleware 2014), LHD (Beckmann, Chen and Cidon, NSDI 2018), TinyLFU's fading counts
//! (Einziger et al., ACM ToS 2017) and miniature simulation (Waldspurger et al., ATC 2017).
//!
//! # The idea
//! * An object with f requests has the value v = f / size^κ. Each of its requests gives it the
//!   lifetime v^p on a clock. The object that is due first leaves, and the clock advances to its
//!   due time. A newcomer that would be due no later than the objects that must leave for it is
//!   bypassed.
//! * p sets how fast history fades. p = 0 is LRU, p = 1 GDSF, p → ∞ the pure order of values; at p
//!   = 2, an object with ten times the requests per byte stays a hundred times as long. So p also
//!   sets the weight of size against recency, as a power p·κ.
//! * If objects are born and die, no law of lifetimes fits. The learnt order ranks objects by the
//!   hits per byte that others of the same count and age had ([`learned`]).
//! * f outlives eviction, in a table. This matters as much as p.
//! * Eight small shadow caches of a sample of the objects, one for each p = 0, 0.5, 1, 1.5, 2, 4, 8
//!   and one for the learnt order, measure which one suits the traffic; a cumulative sum test
//!   selects it.
//! * κ = 1 − bytes/100, and a shadow's hit is worth size^(bytes/100): one parameter trades object
//!   hits for byte hits.
//!
//! `docs/results/agd.md` has measurements beside those of other policies.
//!
//! # The powers
//! Counts: a hit adds 1 to the object's own count; a miss adds 1 to its entry in a table of the
//! objects that were missed or evicted last ([`history`]). A stored newcomer starts from that
//! count; the count of an object that is evicted, removed or replaced is written back (up to 127).
//! After 128 requests per stored object, or four misses per entry of the table, all counts halve.
//! Stored counts halve by doubling the amount that a request adds ([`frequency`]). If `bytes` is
//! above 0, a newcomer's first request counts as twice the share of objects that are requested
//! again, at most 1.
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
//! # The choice
//! [`tuner`]. A sample of 1/8 of the objects, 1/4 in small caches. The sample halves whenever a
//! shadow would hold more than 4,096 objects (the others stay in the shadows), and doubles if it
//! would hold fewer than 512 (with empty shadows). The shadow caches have the same share of the
//! capacity, and use the classes that the cache has computed. Every 512 sampled requests, the lead
//! of each order over the one in use grows by the difference of their hits, less 0.0005 of the
//! requests, and never falls below 0. At a lead of 20 that order is chosen, and all leads restart.
//! The learnt order is chosen for the first time at any lead. If the cache itself has lost 512 hits
//! of the sample against one order (and an eighth of all hits lost or won against it), that order
//! is chosen, and the required lead is eight times as high; this factor fades. So alternating
//! traffic is not followed for long.
//!
//! # Cost
//! O(1) a request, amortised: the object that is due first is at the root of a tree of minima over
//! the 256 classes. At most 256 objects are counted for the decision about a newcomer. In the
//! learnt order, an eviction reads 16 objects. All objects are visited once when p changes, and
//! when the clock restarts from zero. 48 bytes an object, and 16 to 32 of the table (it does not
//! shrink), and about 1 MB of shadows of 2,700 objects each, up to half as much again because
//! tables do not shrink; at most 46 MB. Speed: `docs/results/agd.md`.
//!
//! # Weaknesses
//! `docs/results/agd.md`, *Where it loses*.

mod deadlines;
mod frequency;
mod history;
mod learned;
mod order;
mod ranking;
mod shadows;
mod tuner;

use crate::entry::{Build, BuildContext, PolicyEntry};
use crate::parameters::{Parameter, Preset, Values};
use crate::traits::{Evict, Gauge, Policy};
use crate::{Request, Slot};
use frequency::{Frequency, SizeWeight, Standing};
use larder_units::Stream;
use learned::Learned;
use shadows::POWERS;
use tuner::{Choice, Tuner};

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "agd",
    citation: "Larder's own; after Cherkasova, Improving WWW proxies performance with Greedy-Dual-Size-Frequency caching policy, HP Labs 1998",
    summary: "lifetimes of (requests / size)^p, or a learnt order, as shadow caches find",
    parameters: &[
        Parameter {
            name: "p",
            unit: "",
            values: Values::Choice(POWER_WORDS),
            default: Preset::Value("auto"),
            doc: "how much requests and size count against recency; learned: as hits tell; auto: as shadow caches find; powers: the same without the learnt order",
        },
        Parameter {
            name: "optimise",
            unit: "",
            values: Values::Choice(&["requests", "balanced", "bytes"]),
            default: Preset::Derived("as bytes= says"),
            doc: "what the cache saves, in words: requests is bytes=10, balanced 50, bytes 75; requests hits .2 points less than bytes=0 on average of docs/results/agd.md's table, at most 4.1, and more bytes",
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
    bytes_an_object: 64,
    needs_path: false,
    build: Build::Eviction(|arguments, context| {
        let optimise = arguments.get("optimise").map(|word| BYTES[word as usize]);
        if optimise.is_some() && arguments.is_given("bytes") {
            return Err("`optimise` sets `bytes`: give one of them".to_owned());
        }
        let bytes = optimise.or(arguments.get("bytes")).unwrap_or(0) as f64 / 100.0;
        let orders = match arguments.get("p").unwrap_or(0) {
            0 => Orders::All(context.stream()),
            1 => Orders::Powers,
            2 => Orders::Learned(context.stream()),
            word => Orders::Power(POWERS[word as usize - 3]),
        };
        Ok(Box::new(Agd::new(orders, bytes, context)))
    }),
};

/// The values of `p`: those of [`Orders`], and each of [`POWERS`].
const POWER_WORDS: &[&str] = &[
    "auto", "powers", "learned", "0", "0.5", "1", "1.5", "2", "4", "8",
];
/// The value of `bytes` for each word of `optimise`. In the table of `docs/results/agd.md`, 0 hits
/// .2 points more of the requests than 10 on average (CloudPhysics 10 %: 4.1), and 2.8 points fewer
/// of the bytes. 100 hits hardly more bytes than 75.
const BYTES: [u64; 3] = [10, 50, 75];
/// The index of the power that `auto` starts from.
const START: usize = 3;

/// The orders that an agd may use.
enum Orders {
    /// The learnt one and all powers, as the shadows find.
    All(Stream),
    /// All powers, as the shadows find.
    Powers,
    /// The learnt one.
    Learned(Stream),
    /// One power.
    Power(f64),
}

struct Agd {
    frequency: Frequency,
    /// `None` if only powers are used.
    learned: Option<Learned>,
    /// Whether the learnt order chooses the victims.
    uses_learned: bool,
    tuner: Option<Tuner>,
    capacity: u64,
}

impl Agd {
    fn new(orders: Orders, bytes: f64, context: &BuildContext<'_>) -> Self {
        let capacity = context.capacity;
        let size_weight = SizeWeight {
            exponent: 1.0 - bytes,
            scale: context.scale,
        };
        let tuner = |stream| Some(Tuner::new(START, size_weight, capacity, stream));
        let (tuner, learned, power) = match orders {
            Orders::All(stream) => (tuner(Some(stream.clone())), Some(stream), POWERS[START]),
            Orders::Powers => (tuner(None), None, POWERS[START]),
            Orders::Learned(stream) => (None, Some(stream), POWERS[START]),
            Orders::Power(power) => (None, None, power),
        };
        Agd {
            frequency: Frequency::new(power, size_weight),
            uses_learned: tuner.is_none() && learned.is_some(),
            learned: learned.map(Learned::new),
            tuner,
            capacity,
        }
    }

    /// Reports a request for an object, a hit or a miss, to the shadows.
    #[inline]
    fn tune(&mut self, request: &Request, standing: Standing, hit: bool) {
        if let Some(tuner) = &mut self.tuner
            && let stored = self.frequency.ranking.len()
            && let Some(choice) = tuner.request((request.id, request.size), standing, hit, stored)
        {
            self.change_to(choice);
        }
    }

    /// The order by a power is kept while the learnt one is used, so only a change of the power
    /// visits the objects.
    #[cold]
    fn change_to(&mut self, choice: Choice) {
        if let Some(learned) = &mut self.learned {
            learned.on_refusal();
        }
        self.uses_learned = choice == Choice::Learned;
        if let Choice::Power(power) = choice
            && power != self.frequency.ranking.power()
        {
            self.frequency.ranking.set_power(power);
        }
    }

    /// Returns the learnt order if it is in use.
    #[inline]
    fn used_order(&mut self) -> Option<&mut Learned> {
        self.learned.as_mut().filter(|_| self.uses_learned)
    }
}

impl Policy for Agd {
    fn on_resize(&mut self, capacity: u64) {
        self.capacity = capacity;
        if let Some(tuner) = &mut self.tuner {
            tuner.on_resize(capacity);
        }
    }

    fn gauges(&self, out: &mut Vec<Gauge>) {
        out.push(Gauge {
            name: "p",
            value: self.frequency.ranking.power(),
        });
        if self.learned.is_some() {
            out.push(Gauge {
                name: "learned",
                value: f64::from(u8::from(self.uses_learned)),
            });
        }
    }

    fn state_bytes(&self) -> usize {
        self.frequency.bytes()
            + self.learned.as_ref().map_or(0, Learned::bytes)
            + self.tuner.as_ref().map_or(0, Tuner::bytes)
    }
}

impl Evict for Agd {
    fn on_hit(&mut self, slot: Slot, request: &Request) {
        let standing = self.frequency.on_hit(slot);
        if let Some(learned) = &mut self.learned {
            learned.tick();
            learned.on_hit(slot, request.size, standing);
        }
        self.tune(request, standing, true);
    }

    fn on_miss(&mut self, request: &Request) {
        self.frequency.on_miss(request.id);
        if let Some(learned) = &mut self.learned {
            learned.tick();
        }
    }

    fn accept(&mut self, request: &Request, short_bytes: u64) -> bool {
        let standing = self.frequency.newcomer(request.id, request.size);
        self.tune(request, standing, false);
        if short_bytes == 0 {
            return true;
        }
        let Agd {
            frequency,
            learned,
            capacity,
            ..
        } = self;
        match learned {
            Some(learned) if self.uses_learned => {
                let newcomer = (request.id, request.size, standing);
                let size_of = |slot| frequency.ranking.stored(slot).size;
                learned.accept(newcomer, short_bytes, *capacity, size_of)
            }
            _ => frequency.ranking.accept(standing.class, short_bytes),
        }
    }

    fn on_refusal(&mut self) {
        if let Some(learned) = &mut self.learned {
            learned.on_refusal();
        }
    }

    fn on_insert(&mut self, slot: Slot, request: &Request) {
        let standing = self.frequency.on_insert(slot, request.id, request.size);
        if let Some(learned) = &mut self.learned {
            learned.on_insert(slot, request.id, request.size, standing);
        }
    }

    fn victim(&mut self, _: Option<&Request>) -> Option<Slot> {
        if let Some(tuner) = &mut self.tuner {
            tuner.on_full();
        }
        let slot = match self.used_order() {
            Some(learned) => {
                let slot = learned.victim()?;
                self.frequency.evict(slot);
                slot
            }
            None => self.frequency.victim()?,
        };
        if let Some(learned) = &mut self.learned {
            learned.on_evict(slot, self.frequency.ranking.stored(slot).size);
        }
        Some(slot)
    }

    fn peek(&mut self, after: Option<Slot>) -> Option<Slot> {
        match self.used_order() {
            Some(learned) => learned.peek(after),
            None => self.frequency.ranking.peek(after),
        }
    }

    fn on_remove(&mut self, slot: Slot) {
        self.frequency.on_remove(slot);
        if let Some(learned) = &mut self.learned {
            learned.on_remove(slot, self.frequency.ranking.stored(slot).size);
        }
    }

    fn prefetch(&self, id: u64, slot: Option<Slot>) {
        self.frequency.prefetch(id, slot);
        if let Some(learned) = &self.learned
            && let Some(slot) = slot
        {
            learned.prefetch(slot);
        }
    }

    fn prefetch_further(&self, _: u64, slot: Option<Slot>) {
        if let Some(slot) = slot {
            self.frequency.ranking.prefetch_neighbours(slot);
        }
    }

    fn expected_victim(&self) -> Option<Slot> {
        match &self.learned {
            Some(learned) if self.uses_learned => learned.expected_victim(),
            _ => self.frequency.ranking.first(),
        }
    }

    fn object_count(&self) -> Option<usize> {
        Some(self.frequency.ranking.len())
    }
}
