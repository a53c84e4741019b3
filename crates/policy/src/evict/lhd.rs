//! LHD (Beckmann, Chen and Cidon, LHD: improving cache hit rate by maximizing hit density, NSDI
//! 2018).
//!
//! Hit density: the expected hits of an object, divided by the bytes and the time that it will
//! occupy. The estimate comes from other objects of the same age (time since the last request) and
//! class (time between the last requests): counts of hits and of evictions at each age, which fade.
//! The least dense of a sample of 32 leaves. One object in 32 becomes an explorer at its request,
//! if explorers occupy at most a hundredth of the cache. An explorer stays until its next request,
//! whatever its density, because objects that always leave early would never show that they are hit
//! later. If only newcomers explored, old objects of their class would look denser than those of
//! other classes.
//!
//! Deviations: ages are counted in requests and in bins of a 16th of an octave. The authors'
//! program has 20,000 equal bins and tunes their width; here there is nothing to tune, and a bin's
//! width enters the sum. Densities are recomputed after as many requests as objects are stored
//! (within [`LHD_MIN_INTERVAL`] and [`LHD_MAX_INTERVAL`]; every 2^20 in the authors' program), so
//! that short traces are learnt from as well. The authors' program stops exploring after 50
//! computations. Here exploration continues, but an explorer is protected only for 16 requests per
//! stored object. Otherwise objects without further requests would fill the explorers' share, would
//! never count as evicted, and great ages would look as if they were always hit. The authors'
//! program adds the 8 newest objects to the sample; this does not, because with such fine bins they
//! would leave at ages that no object survives. Applications are not distinguished. Classes are
//! relative to a span of 128 requests per stored object.
//!
//! Misses compared with libCacheSim's: twitter cluster 52 with its sizes, 5 and 50 MiB, .149 and
//! .097, libCacheSim's .156 and .100 (.162 and .097 if explorers are protected for ever); at one
//! size, 20,000 and 200,000 objects, .175 and .106, libCacheSim's .181 and .108; Zipf 0.8 over 1e6
//! objects, a tenth cached, 10 million requests, .463, libCacheSim's .458 (.474 with explorers
//! protected for ever); Zipf 1.0 over 1e5, a hundredth and a tenth, .432 and .228, libCacheSim's
//! .468 and .245. Weak: traces too short to learn from (NASA's day, a tenth, .150; GDSF .091).
//!
//! O(1) a request. An eviction reads 16 bytes of each of 32 objects, which takes most of its time:
//! four of them are in a line of the processor's cache, so that the sample is eight lines
//! ([`Pool`]). 20 bytes an object and 230 KB.

use super::foreseen::Foreseen;
use super::pool::Pool;
use crate::entry::{Build, BuildContext, PolicyEntry};
use crate::limits::{LHD_MAX_INTERVAL, LHD_MIN_INTERVAL};
use crate::prefetch::prefetch;
use crate::scale::Scale;
use crate::traits::{Evict, Policy};
use crate::{Request, Slot};
use larder_units::Stream;

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "lhd",
    citation: "Beckmann, Chen, Cidon, LHD: improving cache hit rate by maximizing hit density, NSDI 2018",
    summary: "evicts the least expected hits per byte and time, learnt by age, of a sample",
    parameters: &[],
    complexity: "O(1), an eviction reads 32 objects",
    bytes_an_object: 20,
    needs_path: false,
    build: Build::Eviction(|_, context| Ok(Box::new(Lhd::new(context)))),
};

/// Objects drawn for a victim (section 5.2: associativity 32).
const SAMPLE: usize = 32;

/// On average, one request in this many makes its object an explorer.
const EXPLORE: f64 = 1.0 / 32.0;

/// Explorers take at most one part in this many of the capacity.
const EXPLORERS_SHARE: u64 = 100;

/// Ages below this many requests per stored object protect an explorer. Older ones may leave.
/// Otherwise objects without further requests would never count as evicted, so great ages would
/// seem to be hit always, and they would fill the explorers' share.
const PROTECTED: u64 = 16;

/// The factor of the counts at each computation.
const DECAY: f64 = 0.9;

/// The number of classes by the time between requests. Each has half the time of the one before.
const CLASSES: usize = 16;

/// The time of the first class, in requests per stored object: the range of the authors' bins,
/// about a hundred.
const SPAN_LOG: u32 = 7;

struct Lhd {
    scale: Scale,
    capacity: u64,
    stream: Stream,
    /// Requests so far.
    now: u64,
    /// The request at which densities are recomputed next.
    due: u64,
    /// The age up to which explorers are protected.
    protected: u64,
    /// The binary logarithm of the first class's time.
    span_log: u32,
    classes: Vec<Class>,
    /// All objects but the foreseen.
    pool: Pool,
    sampled: Vec<Slot>,
    foreseen: Foreseen,
    explorer_bytes: u64,
    /// By slot.
    objects: Vec<Object>,
    /// The ages at the last hits, by slot; 0 before the first hit. Ages of 2^32 and more are
    /// capped.
    hit_ages: Vec<u32>,
}

/// The state that decides in a sample: 16 bytes in a table of its own, so that a lookup loads one
/// line, and few lines in all.
#[derive(Clone, Copy)]
#[repr(align(16))]
struct Object {
    size: u64,
    state: State,
}

/// The last request in the high 56 bits, and in the bit below whether the object explores. The low
/// seven bits hold the length in binary digits of the ages at the last two hits, together, or of
/// the only one; 0 before.
#[derive(Clone, Copy)]
struct State(u64);

impl State {
    fn new(requested: u64, hit_ages: u32, explores: bool) -> State {
        State(
            requested << 8
                | u64::from(explores) << 7
                | u64::from(u32::BITS - hit_ages.leading_zeros()),
        )
    }

    fn requested(self) -> u64 {
        self.0 >> 8
    }

    fn explores(self) -> bool {
        self.0 & 0x80 != 0
    }

    fn settle(&mut self) {
        self.0 &= !0x80;
    }

    /// Returns the binary logarithm of the ages at the last hits, rounded down.
    fn hit_ages_log(self) -> Option<u32> {
        (self.0 as u32 & 0x7f).checked_sub(1)
    }
}

impl Lhd {
    fn new(context: &BuildContext<'_>) -> Lhd {
        Lhd {
            scale: context.scale,
            capacity: context.capacity,
            stream: context.stream(),
            now: 0,
            due: LHD_MIN_INTERVAL,
            protected: u64::MAX,
            span_log: SPAN_LOG,
            classes: (0..CLASSES).map(Class::new).collect(),
            pool: Pool::default(),
            sampled: Vec::new(),
            foreseen: Foreseen::default(),
            explorer_bytes: 0,
            objects: Vec::new(),
            hit_ages: Vec::new(),
        }
    }

    fn tick(&mut self, now: u64) {
        self.now = now;
        if now >= self.due {
            self.classes.iter_mut().for_each(Class::compute);
            let stored = (self.pool.len() + self.foreseen.len()).max(1) as u64;
            self.protected = PROTECTED * stored;
            self.span_log = stored.ilog2() + SPAN_LOG;
            self.due = now + stored.clamp(LHD_MIN_INTERVAL, LHD_MAX_INTERVAL);
        }
    }

    /// Returns the object's class, and the bin of its age.
    fn place(&self, object: &Object) -> (usize, usize) {
        let log = object.state.hit_ages_log();
        let class = log.map_or(0, |log| {
            self.span_log.saturating_sub(log).min(CLASSES as u32 - 1)
        });
        (
            class as usize,
            bin(self.now.saturating_sub(object.state.requested())),
        )
    }

    fn density(&self, slot: Slot) -> f64 {
        let object = &self.objects[slot.index()];
        let (class, bin) = self.place(object);
        let density = self.classes[class].densities[bin] / self.scale.size(object.size) as f64;
        let is_protected = object.state.explores()
            && self.now.saturating_sub(object.state.requested()) < self.protected;
        // No density exceeds one hit per byte and request.
        density + f64::from(u8::from(is_protected))
    }

    fn choose(&mut self) -> Option<Slot> {
        self.pool
            .sample(SAMPLE, &mut self.stream, &self.objects, &mut self.sampled);
        let densities = self.sampled.iter().map(|slot| (self.density(*slot), *slot));
        // Without a branch, because the processor cannot predict which one is less.
        let (_, slot) =
            densities.reduce(|least, other| if other.0 < least.0 { other } else { least })?;
        self.pool.remove(slot);
        Some(slot)
    }

    /// Returns true if an object of `size` bytes that is requested now becomes an explorer, by a
    /// random draw.
    fn explores(&mut self, size: u64) -> bool {
        let free = (self.capacity / EXPLORERS_SHARE).saturating_sub(self.explorer_bytes);
        let explores = size <= free && self.stream.chance(EXPLORE);
        if explores {
            self.explorer_bytes += size;
        }
        explores
    }

    /// Ends the exploration of an object, and returns its bytes to the explorers' share.
    fn settle(&mut self, slot: Slot) {
        let object = &mut self.objects[slot.index()];
        if object.state.explores() {
            object.state.settle();
            self.explorer_bytes -= object.size;
        }
    }
}

impl Policy for Lhd {
    fn on_resize(&mut self, capacity: u64) {
        self.capacity = capacity;
    }

    fn state_bytes(&self) -> usize {
        self.pool.bytes()
            + self.foreseen.bytes()
            + self.objects.capacity() * size_of::<Object>()
            + self.hit_ages.capacity() * size_of::<u32>()
            + self.classes.len() * 3 * BINS * size_of::<f64>()
    }
}

impl Evict for Lhd {
    fn on_hit(&mut self, slot: Slot, request: &Request) {
        self.tick(request.seq);
        let (class, bin) = self.place(&self.objects[slot.index()]);
        self.classes[class].hits[bin] += 1.0;
        self.settle(slot);
        let explores = self.explores(request.size);
        let Object { state, .. } = &mut self.objects[slot.index()];
        let age = request
            .seq
            .saturating_sub(state.requested())
            .clamp(1, u64::from(u32::MAX)) as u32;
        let last = std::mem::replace(&mut self.hit_ages[slot.index()], age);
        *state = State::new(request.seq, last.saturating_add(age), explores);
        if self.foreseen.take(slot) {
            self.pool.insert(slot);
        }
    }

    fn on_miss(&mut self, request: &Request) {
        self.tick(request.seq);
    }

    fn on_insert(&mut self, slot: Slot, request: &Request) {
        let explores = self.explores(request.size);
        let object = Object {
            size: request.size,
            state: State::new(request.seq, 0, explores),
        };
        if slot.index() >= self.objects.len() {
            self.objects.resize(slot.index() + 1, object);
            self.hit_ages.resize(slot.index() + 1, 0);
        }
        self.objects[slot.index()] = object;
        self.hit_ages[slot.index()] = 0;
        self.pool.insert(slot);
    }

    fn victim(&mut self, _: Option<&Request>) -> Option<Slot> {
        let slot = self.foreseen.pop().or_else(|| self.choose())?;
        let (class, bin) = self.place(&self.objects[slot.index()]);
        self.classes[class].evictions[bin] += 1.0;
        self.settle(slot);
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
        if !self.foreseen.take(slot) {
            self.pool.remove(slot);
        }
        self.settle(slot);
    }

    fn prefetch(&self, _: u64, slot: Option<Slot>) {
        if let Some(slot) = slot {
            prefetch(&self.objects, slot.index());
            prefetch(&self.hit_ages, slot.index());
        }
    }

    fn object_count(&self) -> Option<usize> {
        Some(self.pool.len() + self.foreseen.len())
    }
}

/// The events of the objects of one class, by age.
struct Class {
    hits: Vec<f64>,
    evictions: Vec<f64>,
    densities: Vec<f64>,
}

impl Class {
    /// Returns the initial state, as in the authors' program: a little like GDSF, with a higher
    /// density for shorter times between requests and for lower ages.
    fn new(class: usize) -> Class {
        let density = |bin| (class + 1) as f64 / (first_age(bin) + 1) as f64;
        Class {
            hits: vec![0.0; BINS],
            evictions: vec![0.0; BINS],
            densities: (0..BINS).map(density).collect(),
        }
    }

    /// Computes the densities (section 4.1): for the objects that reached an age, the hits to come
    /// divided by the time to come. Without events no hits are expected.
    fn compute(&mut self) {
        let mut hits = 0.0;
        let mut events = 0.0;
        let mut time = 0.0;
        for bin in (0..BINS).rev() {
            hits += self.hits[bin];
            events += self.hits[bin] + self.evictions[bin];
            time += events * (first_age(bin + 1) - first_age(bin)) as f64;
            self.densities[bin] = if events > FORGOTTEN { hits / time } else { 0.0 };
            fade(&mut self.hits[bin]);
            fade(&mut self.evictions[bin]);
        }
    }
}

/// Multiplies a count by its decay. A count close to 0 becomes 0, because arithmetic with subnormal
/// floats is slow.
fn fade(count: &mut f64) {
    *count = if *count > FORGOTTEN {
        *count * DECAY
    } else {
        0.0
    };
}

/// Counts up to this do not contribute to a density (the authors' bound).
const FORGOTTEN: f64 = 1e-5;

/// Bins an octave.
const PARTS: u64 = 16;

/// The number of bins, for ages up to 2^40 requests. The last bin also has all greater ages.
const BINS: usize = 16 * 37;

/// Returns the bin of an age. Ages below 16 have a bin each; above there are 16 to an octave.
fn bin(age: u64) -> usize {
    let octave = u64::from((age | PARTS).ilog2() - PARTS.ilog2());
    ((octave * PARTS + (age >> octave)) as usize).min(BINS - 1)
}

/// Returns the least age of a bin.
fn first_age(bin: usize) -> u64 {
    let bin = bin as u64;
    if bin < 2 * PARTS {
        bin
    } else {
        (bin % PARTS + PARTS) << (bin / PARTS - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_outside_its_bin() {
        for age in (0..5000).chain((13..39).map(|log| (1 << log) + 77)) {
            let bin = bin(age);
            assert!(
                first_age(bin) <= age && age < first_age(bin + 1),
                "{age} in {bin}"
            );
        }
        assert_eq!(bin(u64::MAX), BINS - 1);
    }

    #[test]
    fn a_density_that_is_not_hits_by_time() {
        // Of ten objects, four are hit at age 3, five are evicted at age 9, and one is hit at age
        // 40.
        let mut class = Class::new(0);
        (
            class.hits[bin(3)],
            class.evictions[bin(9)],
            class.hits[bin(40)],
        ) = (4.0, 5.0, 1.0);
        let known: [(u64, f64); 3] = [(3, 4.0), (9, 5.0), (40, 1.0)];
        class.compute();
        for age in [0, 3, 4, 9, 10, 40] {
            // The time to come in whole bins, so up to the end of the event's bin.
            let to_come = known.iter().filter(|(at, _)| *at >= age);
            let time: f64 = to_come
                .clone()
                .map(|(at, n)| n * (first_age(bin(*at) + 1) - age) as f64)
                .sum();
            let hits: f64 = to_come.filter(|(at, _)| *at != 9).map(|(_, n)| n).sum();
            let density = class.densities[bin(age)];
            assert!(
                (density - hits / time).abs() < 1e-12,
                "{age}: {density}, {hits} in {time}"
            );
        }
        assert!((class.hits[3] - 3.6).abs() < 1e-12, "counts fade");
    }

    #[test]
    fn a_first_hit_teaches_nothing() {
        let streams = larder_units::Streams::new(1);
        let mut lhd = Lhd::new(&BuildContext {
            capacity: 1000,
            scale: Scale::FULL,
            streams: &streams,
            stage: 0,
            name: "lhd",
        });
        let request = |seq| Request {
            id: 1,
            size: 1,
            now: larder_units::Time::ZERO,
            seq,
        };
        let slot = Slot::new(0);
        lhd.on_insert(slot, &request(1));
        assert_eq!(lhd.place(&lhd.objects[0]).0, 0);
        lhd.on_hit(slot, &request(9));
        let (soon, _) = lhd.place(&lhd.objects[0]);
        lhd.on_hit(slot, &request(73));
        let (later, _) = lhd.place(&lhd.objects[0]);
        assert!(soon > later && later > 0, "{soon}, {later}");
    }

    #[test]
    fn the_dead_explore_for_ever() {
        let streams = larder_units::Streams::new(1);
        let mut lhd = Lhd::new(&BuildContext {
            capacity: 100_000,
            scale: Scale::FULL,
            streams: &streams,
            stage: 0,
            name: "lhd",
        });
        let request = |seq| Request {
            id: seq,
            size: 1,
            now: larder_units::Time::ZERO,
            seq,
        };
        for seq in 1..=1000 {
            lhd.on_miss(&request(seq));
            lhd.on_insert(Slot::new(seq as u32 - 1), &request(seq));
        }
        assert!(lhd.explorer_bytes > 10, "{} explore", lhd.explorer_bytes);
        // At age 0 every newcomer has the highest density before anything is learnt.
        lhd.on_miss(&request(1001));
        let protected = |lhd: &Lhd| {
            (0..1000)
                .filter(|slot| lhd.density(Slot::new(*slot)) >= 1.0)
                .count() as u64
        };
        assert_eq!(protected(&lhd), lhd.explorer_bytes);
        // None of them is requested during 17 requests per object, and densities are computed
        // meanwhile.
        for seq in 1002..=1000 + 17 * LHD_MIN_INTERVAL.max(1000) {
            lhd.on_miss(&request(seq));
        }
        assert_eq!(protected(&lhd), 0);
        while lhd.victim(None).is_some() {}
        assert_eq!(lhd.explorer_bytes, 0);
    }
}
