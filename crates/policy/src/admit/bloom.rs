//! Bloom: admits at the second request, by a Bloom filter of what was requested (Maggs and
//! Sitaraman, Algorithmic nuggets in content delivery, ACM SIGCOMM Computer Communication Review
//! 45, 2015: cache on second hit).
//!
//! Three quarters of the objects in a content delivery network are requested once: they are not
//! stored, and take ten bits each. A Bloom filter cannot forget one object, so there are two. A
//! request enters the new filter, and is looked up in both. When the new filter holds `window`
//! objects, the old one is dropped. So the last `window` to 2·`window` objects are remembered.
//!
//! Choices where the paper says nothing: the window follows the cache, four objects for each stored
//! one. By false positives, about 1 to 2 % of the objects requested once are admitted. Sizes do not
//! matter.
//!
//! O(1) a request (dropping is amortised); 80 to 160 bits for each stored object, about 15 bytes.

use crate::Request;
use crate::bloom::Bloom;
use crate::entry::{Build, PolicyEntry};
use crate::parameters::{Arguments, Parameter, Preset, Values};
use crate::traits::{Admit, Cache, Gauge, Policy};

/// Objects that one of Bloom's filters holds, for each stored object.
const WINDOW_PER_OBJECT: u64 = 4;

/// Fewest objects of Bloom's derived window: 2 KB a filter.
const MIN_DERIVED_WINDOW: u64 = 1 << 10;

/// Most objects that one of Bloom's filters holds: two filters of 512 MB.
const MAX_WINDOW: u64 = 1 << 28;

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "bloom",
    citation: "Maggs, Sitaraman, Algorithmic nuggets in content delivery, ACM SIGCOMM Computer Communication Review 45, 2015",
    summary: "admits an object at its second request, by a Bloom filter",
    parameters: &[Parameter {
        name: "window",
        unit: "objects",
        values: Values::Integer(1, MAX_WINDOW),
        default: Preset::Derived("four for each stored object, at least 1024"),
        doc: "objects that one filter holds before the older one is dropped",
    }],
    complexity: "O(1)",
    bytes_an_object: 15,
    needs_path: false,
    build: Build::Admission(|arguments, _| Ok(Box::new(SecondRequest::new(arguments)))),
};

struct SecondRequest {
    window: u64,
    window_is_derived: bool,
    young: Bloom,
    old: Bloom,
    /// Objects in the new filter, and the number that it was made for.
    entered: u64,
    room: u64,
}

impl SecondRequest {
    fn new(arguments: &Arguments<'_>) -> SecondRequest {
        let given = arguments.get("window");
        let window = given.unwrap_or(MIN_DERIVED_WINDOW);
        SecondRequest {
            window,
            window_is_derived: given.is_none(),
            young: Bloom::new(window),
            old: Bloom::new(window),
            entered: 0,
            room: window,
        }
    }

    fn enter(&mut self, id: u64) {
        if self.entered >= self.room {
            std::mem::swap(&mut self.young, &mut self.old);
            self.young.clear_for(self.window);
            self.entered = 0;
            self.room = self.window;
        }
        self.entered += u64::from(self.young.insert(id));
    }
}

impl Policy for SecondRequest {
    fn gauges(&self, out: &mut Vec<Gauge>) {
        out.push(Gauge {
            name: "window_objects",
            value: self.window as f64,
        });
    }

    fn state_bytes(&self) -> usize {
        self.young.bytes() + self.old.bytes()
    }
}

impl Admit for SecondRequest {
    /// A hit is a request too, and renews the object's mark. `admit` enters a miss, because it must
    /// first see whether the mark was there.
    fn on_request(&mut self, request: &Request, hit: bool) {
        if hit {
            self.enter(request.id);
        }
    }

    fn admit(&mut self, request: &Request, cache: &mut Cache<'_>) -> bool {
        if self.window_is_derived {
            let wanted = (cache.len() as u64).saturating_mul(WINDOW_PER_OBJECT);
            self.window = wanted.clamp(MIN_DERIVED_WINDOW, MAX_WINDOW);
        }
        let known = self.young.contains(request.id) || self.old.contains(request.id);
        self.enter(request.id);
        known
    }
}
