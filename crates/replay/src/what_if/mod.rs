//! What-if analysis of a running cache: the hit ratios that other policies and sizes would have for
//! its traffic, from a sample of it.
//!
//! ```text
//!   cache ──► Observer (sample of the keys) ──► WhatIf: Row (a size, with its own rate)
//!                                                        └─► Cell (a policy): 1 + 8 MiniCaches
//!                                                                              └─► WhatIfCell
//! ```
//!
//! The miniature caches get the events of the cache: responses that may not be stored are misses in
//! every cache, objects become stale after their lifetime, variants are objects of their own, and
//! purges remove objects. Each size has a sample of its own rate, so that its caches hold at most
//! [`OBJECTS_PER_SIZE`]. The rate falls in small steps when they hold more.
//!
//! The estimate and its error are those of a sampled [`Curve`](crate::Curve): the misses of a
//! sample, divided by its rate and by all requests; and the spread of eight parts of the sample. If
//! the rate falls meanwhile, each miss counts with the rate of its time.
//!
//! The caches are empty at first, as the cache is at its start. So a size that is not full yet hits
//! less than it will.

mod cell;
mod keys;
mod mini_cache;
mod report;
mod window;

use cell::{Cell, VARIANT_BITS};
use keys::Keys;
use larder_policy::observe::{Observation, Observed, Removal, Scope, Totals};
use larder_policy::{Spec, SpecError};
use larder_units::{ByteSize, Time};
pub use report::{Measured, WhatIfCell, WhatIfReport};
use window::Window;

/// Objects of a miniature cache of a running node, by its size. Small caches have more, because the
/// hit ratio rises most there. With as many objects again in the parts that measure the error, six
/// policies take less than 32 MiB with the names of their keys. A seventh policy makes all samples
/// smaller.
const OBJECTS_PER_SIZE: [usize; 8] = [2_800, 2_800, 2_800, 2_800, 1_440, 1_440, 1_440, 1_440];

/// The part of a sample that stays when its caches have too many objects. With a half, they would
/// have half as many at worst, with the same memory reserved.
const RATE_STEP: (u64, u64) = (7, 8);

/// A sample of a running node has at least one of 2^24 keys, because other bits of the hash select
/// the parts of a sample.
const LEAST_RATE_BITS: u32 = 24;

/// Requests of the sample between two checks of the number of objects.
const CHECK_INTERVAL_REQUESTS: u64 = 256;

/// The policies that are compared with the present one.
pub const WHAT_IF_POLICIES: [&str; 6] = ["agd", "s3fifo", "w-tinylfu", "gdsf", "sieve", "lru"];

/// The sizes that are compared, as multiples of the present one.
pub const WHAT_IF_SIZES: [f64; 8] = [0.0625, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 16.0];

/// Miniature caches of every policy at every size, over the traffic of one cache.
///
/// ```
/// use larder_policy::observe::{Observation, Observed, Observer, Outcome};
/// use larder_replay::WhatIf;
/// use larder_units::{ByteSize, Time};
/// use std::time::Duration;
///
/// let policies = ["lru".parse().unwrap()];
/// let mut what_if = WhatIf::new(&policies, ByteSize::from_bytes(1_000), 1).unwrap();
/// let (mut observer, mut taken) = (Observer::new(1, 1_024), Vec::new());
/// let totals = observer.take(what_if.sample(), &mut taken);
/// what_if.observe(&mut taken, totals, Time::ZERO);
/// for key in [7, 8, 7] {
///     let observed = |place| Observed {
///         now: Time::ZERO, place, variant: 0, size: 300, bytes: 200, outcome: Outcome::Fetched,
///         lifetime: Duration::from_secs(60), any_age: false, validates: true, label: None,
///     };
///     observer.fetched(key, 200, observed);
/// }
/// let totals = observer.take(what_if.sample(), &mut taken);
/// what_if.observe(&mut taken, totals, Time::ZERO);
/// // Caches of 600 bytes and more hold both.
/// let cell = what_if.report().cells.last().unwrap().clone();
/// let hits = (cell.object_hit_ratio * 3.0).round();
/// assert_eq!((cell.capacity, hits, cell.object_error), (16_000, 1.0, 0.0));
/// ```
pub struct WhatIf {
    rows: Vec<Row>,
    keys: Keys,
    window: Window,
    /// Requests with the ids of their objects that the miniature caches have not processed.
    batch: Vec<(Observed, u64)>,
    since_check: u64,
}

/// All policies at one size.
struct Row {
    capacity: ByteSize,
    /// The maximum number of objects in each of its caches.
    most: usize,
    /// The last position of its sample. Its lower half is [`VARIANT_BITS`].
    last: u64,
    cells: Vec<Cell>,
}

impl Row {
    fn rate(&self) -> f64 {
        // Exact, because only the upper half counts.
        ((self.last >> 32) + 1) as f64 / (1u64 << 32) as f64
    }

    /// Shrinks the sample to this part of it.
    fn shrink(&mut self, (part, whole): (u64, u64)) {
        let places = ((self.last >> 32) + 1) * part / whole;
        if places < 1 << (32 - LEAST_RATE_BITS) {
            return;
        }
        self.last = (places - 1) << 32 | VARIANT_BITS;
        let (last, rate) = (self.last, self.rate());
        for cell in &mut self.cells {
            cell.shrink(last, rate);
        }
    }
}

impl WhatIf {
    /// Returns empty caches with these policies, for a cache of `capacity`.
    ///
    /// # Errors
    /// [`SpecError`] if the arguments of a policy contradict each other.
    pub fn new(policies: &[Spec], capacity: ByteSize, seed: u64) -> Result<WhatIf, SpecError> {
        let row = |(multiple, most): (f64, usize)| {
            let capacity = ByteSize::from_bytes((capacity.bytes() as f64 * multiple) as u64);
            // A further policy shares the memory of the others.
            let most = most * WHAT_IF_POLICIES.len() / policies.len().max(WHAT_IF_POLICIES.len());
            let cells = policies
                .iter()
                .map(|policy| Cell::new(policy, capacity, seed));
            Ok(Row {
                capacity,
                most,
                last: u64::MAX,
                cells: cells.collect::<Result<_, _>>()?,
            })
        };
        let rows = WHAT_IF_SIZES
            .into_iter()
            .zip(OBJECTS_PER_SIZE)
            .map(row)
            .collect::<Result<_, _>>()?;
        Ok(WhatIf {
            rows,
            keys: Keys::default(),
            window: Window::default(),
            batch: Vec::new(),
            since_check: 0,
        })
    }

    /// Returns the sample that the observers have to keep: [`Observer::take`] takes it.
    ///
    /// [`Observer::take`]: larder_policy::observe::Observer::take
    pub fn sample(&self) -> Option<u64> {
        self.rows.iter().map(|row| row.last).max()
    }

    /// Takes the observations of all shards since the last call, sorted here by time, and the
    /// counts of all requests since the start of the cache. The first call only records the counts,
    /// because the sample begins with it. Returns true if observations were lost; the statistics
    /// then restart.
    pub fn observe(&mut self, taken: &mut Vec<Observation>, totals: Totals, now: Time) -> bool {
        if self.window.is_new() {
            taken.clear();
        }
        taken.sort_by_key(Observation::now);
        for observation in taken.drain(..) {
            match observation {
                Observation::Request(observed) => self.request(observed),
                Observation::Removed(removal) => {
                    self.pass_batch();
                    self.remove(&removal);
                }
            }
        }
        self.pass_batch();
        let lost = self.window.lost();
        self.window.count(totals);
        let has_lost = self.window.lost() > lost;
        if has_lost {
            // The misses among them are not counted.
            self.window.restart();
        }
        if self.window.is_due(now) {
            let misses = self
                .rows
                .iter()
                .flat_map(|row| &row.cells)
                .flat_map(Cell::misses)
                .collect();
            self.window.mark(now, misses);
        }
        has_lost
    }

    /// Halves the largest samples, because the host cannot process so many requests.
    pub fn thin_out(&mut self) {
        let largest = self.sample();
        for row in self.rows.iter_mut().filter(|row| Some(row.last) == largest) {
            row.shrink((1, 2));
        }
    }

    fn request(&mut self, mut observed: Observed) {
        let label = observed.label.take();
        let id = self.keys.id(&observed, label);
        self.batch.push((observed, id));
        self.since_check += 1;
        if self.since_check >= CHECK_INTERVAL_REQUESTS {
            self.since_check = 0;
            self.pass_batch();
            let is_large = |row: &&mut Row| row.cells.iter().any(|cell| cell.objects() > row.most);
            for row in self.rows.iter_mut().filter(is_large) {
                row.shrink(RATE_STEP);
            }
        }
    }

    /// Passes the requests of the batch to one miniature cache after the other. If all requests are
    /// in the sample, as at the start of a node, this takes 12 to 17 % less time than passing one
    /// request after the other; if few are, the same (`benches/what_if.rs`, NASA's day and
    /// Twitter).
    fn pass_batch(&mut self) {
        for row in &mut self.rows {
            let (weight, last) = (1.0 / row.rate(), row.last);
            for cell in &mut row.cells {
                cell.requests(&self.batch, last, weight);
            }
        }
        self.batch.clear();
    }

    fn remove(&mut self, removal: &Removal) {
        let ids = match &removal.scope {
            Scope::Everything => None,
            Scope::Place(place) => Some(self.keys.ids_at(*place)),
            Scope::Prefix(prefix) => Some(self.keys.ids_of(|label| label.key.starts_with(prefix))),
            Scope::Tag(tag) => Some(self.keys.ids_of(|label| label.tags.contains(tag))),
        };
        let cells = self.rows.iter_mut().flat_map(|row| &mut row.cells);
        match ids {
            None => cells.for_each(|cell| cell.remove_all(removal.soft, removal.now)),
            Some(ids) => cells.for_each(|cell| {
                for id in &ids {
                    cell.remove(*id, removal.soft, removal.now);
                }
            }),
        }
    }

    /// Returns the estimates.
    pub fn report(&self) -> WhatIfReport {
        let since = self.window.since();
        let totals = since.totals;
        let mut earlier = since.misses.iter();
        let mut cells = Vec::new();
        for row in &self.rows {
            for cell in &row.cells {
                let misses = cell
                    .misses()
                    .map(|misses| misses.since(earlier.next().copied().unwrap_or_default()));
                cells.push(cell.estimate(
                    row.capacity,
                    &misses.collect::<Vec<_>>(),
                    &totals,
                    (row.rate(), since.at),
                ));
            }
        }
        let policies = self.rows.first().map_or(0, |row| row.cells.len());
        // In the order of the policies.
        let order = (0..policies).flat_map(|policy| (policy..cells.len()).step_by(policies));
        let cells = order.map(|place| cells[place].clone()).collect();
        let (requests, bytes) = (
            totals.storable() + totals.unstorable,
            totals.storable_bytes() + totals.unstorable_bytes,
        );
        let share = |part: u64, whole: u64| {
            if whole == 0 {
                0.0
            } else {
                part as f64 / whole as f64
            }
        };
        let measured = Measured {
            object_hit_ratio: share(totals.hits, requests),
            byte_hit_ratio: share(totals.hit_bytes, bytes),
        };
        WhatIfReport {
            seconds: since.seconds,
            requests,
            measured,
            cells,
        }
    }

    /// Returns the bytes of heap of all caches.
    pub fn state_bytes(&self) -> usize {
        let cells: usize = self
            .rows
            .iter()
            .flat_map(|row| &row.cells)
            .map(Cell::state_bytes)
            .sum();
        cells + self.keys.state_bytes()
    }
}

#[cfg(test)]
mod tests;
