//! agd.

mod history;
mod keeper;
mod ranking;
mod tuner;

use crate::parameters::{Parameter, Preset, Values};
use crate::registry::{Build, PolicyEntry};
use crate::traits::{Evict, Gauge, Policy};
use crate::{Request, Slot};
use keeper::Keeper;
use tuner::Tuner;

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "agd",
    citation: "Larder's own; after Cherkasova, Improving WWW proxies performance with Greedy-Dual-Size-Frequency caching policy, HP Labs 1998",
    summary: "evicts what is due first on GreedyDual's clock, lifetimes (requests / size)^p, and bypasses what would be; p follows the traffic",
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
    bytes_an_object: 72,
    build: Build::Eviction(|arguments, setting| {
        let bytes = arguments.get("bytes").unwrap_or(0) as f32 / 100.0;
        let fixed = arguments.get("p").and_then(|choice| (choice as usize).checked_sub(1)).map(|rung| POWERS[rung]);
        Ok(Box::new(Agd::new(fixed, bytes, setting.capacity)))
    }),
};

/// The powers that `p` may be, and between which `auto` chooses.
const POWERS: [f64; 5] = [0.5, 1.0, 1.5, 2.0, 4.0];
const POWER_WORDS: &[&str] = &["auto", "0.5", "1", "1.5", "2", "4"];
/// The rung that `auto` starts from.
const START: usize = 3;

struct Agd {
    keeper: Keeper,
    tuner: Option<Tuner>,
}

impl Agd {
    fn new(fixed: Option<f64>, bytes: f32, capacity: u64) -> Self {
        let size_exponent = 1.0 - bytes;
        let tuner = fixed.is_none().then(|| Tuner::new(&POWERS, START, size_exponent, capacity));
        Agd { keeper: Keeper::new(fixed.unwrap_or(POWERS[START]), size_exponent), tuner }
    }
}

impl Policy for Agd {
    fn on_resize(&mut self, capacity: u64) {
        if let Some(tuner) = &mut self.tuner {
            tuner.on_resize(capacity);
        }
    }

    fn gauges(&self, out: &mut Vec<Gauge>) {
        out.push(Gauge { name: "p", value: self.keeper.ranking.power() });
    }

    fn state_bytes(&self) -> usize {
        self.keeper.bytes() + self.tuner.as_ref().map_or(0, Tuner::bytes)
    }
}

impl Evict for Agd {
    fn on_hit(&mut self, slot: Slot, request: &Request) {
        self.keeper.on_hit(slot);
        if let Some(tuner) = &mut self.tuner
            && let Some(power) = tuner.request(request.id, request.size, self.keeper.ranking.len())
        {
            self.keeper.ranking.set_power(power);
        }
    }

    fn on_miss(&mut self, request: &Request) {
        self.keeper.on_miss(request.id);
    }

    fn accept(&mut self, request: &Request, short_bytes: u64) -> bool {
        if let Some(tuner) = &mut self.tuner
            && let Some(power) = tuner.request(request.id, request.size, self.keeper.ranking.len())
        {
            self.keeper.ranking.set_power(power);
        }
        self.keeper.accept(request.id, request.size, short_bytes)
    }

    fn on_insert(&mut self, slot: Slot, request: &Request) {
        self.keeper.on_insert(slot, request.id, request.size);
    }

    fn victim(&mut self, _: Option<&Request>) -> Option<Slot> {
        self.keeper.victim()
    }

    fn peek(&mut self, after: Option<Slot>) -> Option<Slot> {
        self.keeper.ranking.peek(after)
    }

    fn on_remove(&mut self, slot: Slot) {
        self.keeper.ranking.remove(slot);
    }
}
