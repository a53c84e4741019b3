//! Filter: admits an object with at least θ requests among the last q requests (Takemasa, Koizumi
//! and Hasegawa, Lightweight cache admission algorithm for fast NDN software routers, Journal of
//! Information Processing 27, 2019, section 4.3).
//!
//! A history queue holds the hashes of the last q requests; a counter table H holds how often each
//! hash is in the queue. A request appends its hash and increments its counter; the oldest hash
//! leaves and its counter is decremented. An arriving object x is admitted if H\[x\] ≥ θ, with the
//! current request included. Collisions are not resolved: a false positive has the chance 1 − (1 −
//! 1/h)^q, about q/h.
//!
//! Choices where the paper says nothing or uses a constant:
//! * q is the cache's size in objects (the paper's q = C). This engine counts bytes, so by default
//!   q follows the cache: capacity ÷ mean size of the recent arrivals, which start with sixteen
//!   assumed objects of 8 KiB.
//! * h is 2^24 slots of 16 bits in the paper (32 MB), 168·q at C = 1e5. By default it is the power
//!   of two at or above 128·q, so that false positives stay below 0.8 %, but never above 2^24, nor
//!   above 8 MB or a sixteenth of the capacity. A large cache of small objects gets false positives
//!   instead of a large table. Their cost: at 32·q, 2.4 % false positives lowered the hit rate from
//!   .258 to .234 (Zipf 0.8, 1 % cached).
//! * A derived table grows up to that size with the requests in the queue, 128 slots for each.
//!   Otherwise each of the first thousands of requests would touch another page of a table of up to
//!   32 MB. On a busy machine the first megabyte through a node with a 512 MiB store took 50 ms of
//!   CPU, and takes 7 ms now.
//! * The queue keeps 32 bits of each hash. The table's index is the first of these bits, so a grown
//!   table is filled from the queue.
//! * A counter that is full (65,535) ignores further requests, and is not decremented when they
//!   leave. So it cannot wrap.
//!
//! O(1) a request (growth is amortised); 260 to 520 bytes an object at the default h, and less if
//! the table would exceed 8 MB.

use crate::Request;
use crate::entry::{Build, BuildContext, PolicyEntry};
use crate::hash::mix;
use crate::limits::FILTER_MAX_WINDOW;
use crate::parameters::{Arguments, Parameter, Preset, Values};
use crate::prefetch::{prefetch, use_large_pages};
use crate::traits::{Admit, Cache, Gauge, Policy};
use std::collections::VecDeque;

/// Shortest derived history of Filter. A cache of a few large objects must see a second request,
/// too.
const MIN_DERIVED_WINDOW: u64 = 64;

/// Largest counter table of Filter, the paper's own: 2^24 slots of 16 bits, 32 MB.
const MAX_TABLE_SLOTS: u64 = 1 << 24;

/// Smallest counter table of Filter: 2 KB.
const MIN_TABLE_SLOTS: u64 = 1 << 10;

/// Slots of Filter's derived table at first: 128 KB, 512 requests of history. Fewer would save no
/// memory to speak of.
const FIRST_TABLE_SLOTS: usize = 1 << 16;

/// Slots of Filter's table a request of its window: at most 1/128 false positives. The paper has
/// 168 at C = 1e5. They add to an insertion ratio of about .03, so 1/32 would double it.
const SLOTS_PER_REQUEST: u64 = 128;

/// Filter's derived table takes at most one part in this many of the capacity's bytes, or
/// [`AFFORDABLE_TABLE_SLOTS`].
const TABLE_CAPACITY_SHARE: u64 = 16;

/// Slots that Filter's derived table may have with any capacity: 8 MB. A 64 MiB cache of full NDN
/// packets takes 2 MB, of 1 KB packets 8 MB. Traces without sizes give capacities in objects, for
/// which a share of the bytes would be meaningless.
const AFFORDABLE_TABLE_SLOTS: u64 = 1 << 22;

/// Arrivals in Filter's mean size of arriving objects, before both sums are halved: enough for a
/// mean within a few per cent, few enough to follow a change of traffic.
const COUNTED_ARRIVALS: u64 = 8192;

/// Objects of [`PRIOR_OBJECT_BYTES`] that Filter assumes to have arrived before the first: a few
/// unusual sizes must not set the window.
const PRIOR_ARRIVALS: u64 = 16;

/// Assumed bytes of an object for Filter's first window: a full NDN packet.
const PRIOR_OBJECT_BYTES: u64 = 8 << 10;

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "filter",
    citation: "Takemasa, Koizumi, Hasegawa, Lightweight cache admission algorithm for fast NDN software routers, Journal of Information Processing 27, 2019",
    summary: "admits what was requested at least theta times among the last requests",
    parameters: &[
        Parameter {
            name: "theta",
            unit: "requests",
            values: Values::Integer(1, u16::MAX as u64),
            default: Preset::Value("2"),
            doc: "requests within the window that admit, the current one included",
        },
        Parameter {
            name: "window",
            unit: "requests",
            values: Values::Integer(1, FILTER_MAX_WINDOW),
            default: Preset::Derived("the objects that fit: capacity / mean size of what arrives"),
            doc: "length q of the history",
        },
        Parameter {
            name: "table",
            unit: "slots of 16 bits",
            values: Values::PowerOfTwo(MIN_TABLE_SLOTS, MAX_TABLE_SLOTS),
            default: Preset::Derived(
                "128 a request of the window, at most 8 MB or 1/16 of the capacity",
            ),
            doc: "size h of the counter table; false positives are about window / table",
        },
    ],
    complexity: "O(1)",
    bytes_an_object: 390,
    needs_path: false,
    build: Build::Admission(|arguments, context| {
        Filter::new(arguments, context).map(|f| Box::new(f) as _)
    }),
};

struct Filter {
    theta: u16,
    /// q: the number of requests in a full history.
    window: usize,
    window_is_derived: bool,
    /// h: the number of counters for a full history.
    table: usize,
    table_is_derived: bool,
    /// The bytes of the cache.
    capacity: u64,
    /// The recent arrivals: bytes and objects. Both are halved at [`COUNTED_ARRIVALS`].
    arrived_bytes: u64,
    arrived: u64,
    /// The last requests, oldest first: 32 bits of hash, or [`UNCOUNTED`].
    history: VecDeque<u32>,
    /// H; its length is a power of two.
    counters: Vec<u16>,
}

/// The number of requests between the prefetch of a counter and the departure that decrements it.
const PREFETCHED_DEPARTURES: usize = 16;

/// Marks a request in the history whose counter was saturated.
const UNCOUNTED: u32 = u32::MAX;

impl Filter {
    fn new(arguments: &Arguments<'_>, context: &BuildContext<'_>) -> Result<Filter, String> {
        let window = arguments.get("window");
        let table = arguments.get("table");
        if let (Some(window), Some(table)) = (window, table)
            && window > table
        {
            return Err(format!(
                "`table={table}` is smaller than `window={window}`: nearly everything would be admitted"
            ));
        }
        let theta = arguments.get("theta").unwrap_or(2);
        if let Some(window) = window
            && window < theta
        {
            return Err(format!(
                "`window={window}` is shorter than `theta={theta}`: nothing would be admitted"
            ));
        }
        let mut filter = Filter {
            theta: theta as u16,
            window: window
                .unwrap_or_else(|| derived_window(context.capacity, PRIOR_OBJECT_BYTES, 1))
                as usize,
            window_is_derived: window.is_none(),
            table: 0,
            table_is_derived: table.is_none(),
            capacity: context.capacity,
            arrived_bytes: PRIOR_ARRIVALS * PRIOR_OBJECT_BYTES,
            arrived: PRIOR_ARRIVALS,
            history: VecDeque::new(),
            counters: Vec::new(),
        };
        filter.table = table.unwrap_or_else(|| filter.wanted_slots()) as usize;
        let first = if filter.table_is_derived {
            filter.table.min(FIRST_TABLE_SLOTS)
        } else {
            filter.table
        };
        filter.counters = empty_counters(first);
        Ok(filter)
    }

    /// Returns the table's size for the present window.
    fn wanted_slots(&self) -> u64 {
        let wanted = (self.window as u64 * SLOTS_PER_REQUEST).next_power_of_two();
        let affordable = if self.window_is_derived {
            previous_power_of_two(self.capacity / TABLE_CAPACITY_SHARE / size_of::<u16>() as u64)
                .max(AFFORDABLE_TABLE_SLOTS)
        } else {
            MAX_TABLE_SLOTS
        };
        wanted
            .min(affordable)
            .clamp(MIN_TABLE_SLOTS, MAX_TABLE_SLOTS)
    }

    /// Sets the window to the number of objects that fit. A table that is too small for it grows
    /// later.
    fn follow(&mut self, window: u64) {
        self.window = window as usize;
        if self.table_is_derived {
            self.table = self.table.max(self.wanted_slots() as usize);
        }
    }

    /// Replaces a table that is too small for the history, and counts the history again.
    fn grow(&mut self) {
        let wanted = (self.history.len() * SLOTS_PER_REQUEST as usize).next_power_of_two();
        let slots = wanted.min(self.table);
        let mut counters = empty_counters(slots);
        for entry in self.history.iter_mut().filter(|entry| **entry != UNCOUNTED) {
            let counter = &mut counters[slot_of(*entry, slots)];
            match counter.checked_add(1) {
                Some(more) => *counter = more,
                None => *entry = UNCOUNTED,
            }
        }
        self.counters = counters;
    }

    fn push(&mut self, hash: u32) {
        let slot = slot_of(hash, self.counters.len());
        match self.counters[slot].checked_add(1) {
            Some(more) => {
                self.counters[slot] = more;
                self.history.push_back(hash);
            }
            None => self.history.push_back(UNCOUNTED),
        }
    }

    fn pop(&mut self) {
        if let Some(hash) = self.history.pop_front().filter(|hash| *hash != UNCOUNTED) {
            let slot = slot_of(hash, self.counters.len());
            self.counters[slot] -= 1;
        }
    }
}

fn empty_counters(slots: usize) -> Vec<u16> {
    let mut counters = vec![0; slots];
    use_large_pages(&mut counters);
    counters
}

/// Returns the number of objects with the mean size `bytes / objects` that fit into `capacity`.
fn derived_window(capacity: u64, bytes: u64, objects: u64) -> u64 {
    let fit = u128::from(capacity) * u128::from(objects) / u128::from(bytes.max(1));
    u64::try_from(fit)
        .unwrap_or(u64::MAX)
        .clamp(MIN_DERIVED_WINDOW, FILTER_MAX_WINDOW)
}

fn previous_power_of_two(n: u64) -> u64 {
    if n == 0 { 0 } else { 1 << n.ilog2() }
}

/// Returns 32 bits of the object's hash, never [`UNCOUNTED`].
fn hash_of(id: u64) -> u32 {
    ((mix(id) >> 32) as u32).min(UNCOUNTED - 1)
}

/// Returns the slot: the first bits of the hash.
fn slot_of(hash: u32, slots: usize) -> usize {
    ((u64::from(hash) * slots as u64) >> 32) as usize
}

impl Policy for Filter {
    fn on_resize(&mut self, capacity: u64) {
        self.capacity = capacity;
    }

    fn gauges(&self, out: &mut Vec<Gauge>) {
        out.push(Gauge {
            name: "window_requests",
            value: self.window as f64,
        });
        out.push(Gauge {
            name: "table_slots",
            value: self.counters.len() as f64,
        });
    }

    fn state_bytes(&self) -> usize {
        self.history.capacity() * size_of::<u32>() + self.counters.capacity() * size_of::<u16>()
    }
}

impl Admit for Filter {
    fn on_request(&mut self, request: &Request, _: bool) {
        self.push(hash_of(request.id));
        // At most two per request, so that it is O(1) even after the window has shrunk by much.
        for _ in 0..2 {
            if self.history.len() > self.window {
                self.pop();
            }
        }
        let slots = self.counters.len();
        if slots < self.table && slots < self.history.len() * SLOTS_PER_REQUEST as usize {
            self.grow();
        }
        // The next departures are known, and a large table is in no processor cache.
        if let Some(hash) = self.history.get(PREFETCHED_DEPARTURES) {
            prefetch(&self.counters, slot_of(*hash, self.counters.len()));
        }
    }

    fn prefetch(&self, id: u64) {
        prefetch(&self.counters, slot_of(hash_of(id), self.counters.len()));
    }

    fn admit(&mut self, request: &Request, _: &mut Cache<'_>) -> bool {
        if self.window_is_derived {
            self.arrived_bytes = self
                .arrived_bytes
                .saturating_add(request.size.min(self.capacity));
            self.arrived += 1;
            if self.arrived >= COUNTED_ARRIVALS {
                self.arrived_bytes /= 2;
                self.arrived /= 2;
            }
            self.follow(derived_window(
                self.capacity,
                self.arrived_bytes,
                self.arrived,
            ));
        }
        self.counters[slot_of(hash_of(request.id), self.counters.len())] >= self.theta
    }
}
