//! Request counts of stored and of other objects, their fading, and the classes that follow from
//! them.

use super::history::History;
use super::learned::{COUNT_CLASSES, STEPS};
use super::ranking::{Ranking, Stored};
use crate::Slot;
use crate::scale::Scale;

/// agd halves its counts after this many requests for each stored object. With 8, Twitter 5 MiB
/// loses half a point.
const HALF_LIFE_TURNS: usize = 128;

/// The least number of stored objects that agd assumes when it counts turns of the cache: counts
/// mean nothing before some thousand requests.
const MIN_TURN_OBJECTS: usize = 64;

/// The bits of a float's mantissa.
const MANTISSA: u32 = 23;
/// log2 of 1 in the representation of [`log2`].
const LOG2_OF_ONE: i32 = 127 << MANTISSA;
/// The class of the value 1, and the half that rounding adds, in the representation of [`log2`].
const CLASS_OF_ONE: i32 = 160 << (MANTISSA - 1);
const HALF_A_CLASS: i32 = 1 << (MANTISSA - 2);

/// After this many halvings the counts are scaled back, before their powers of two exceed a float.
const ERAS: i32 = 64;

/// What the orders need to know of an object at its request.
#[derive(Clone, Copy, Default)]
pub(super) struct Standing {
    /// Half octaves of its worth, for the order by a power.
    pub class: u8,
    /// Half octaves of its request count, and the logarithm of its requests per byte, for the
    /// learnt order.
    pub count_class: u8,
    pub value: i16,
}

/// The weight of the size in the value of an object.
#[derive(Clone, Copy)]
pub(super) struct SizeWeight {
    /// κ.
    pub exponent: f64,
    /// From it come the sizes, of which the cache knows the rooms.
    pub scale: Scale,
}

impl SizeWeight {
    /// Returns the logarithm of the part of the objects that are sampled, where a whole cache has
    /// `whole`. A miniature, which is a sample already, samples more of its objects.
    pub fn sample_shift(&self, whole: u32) -> u32 {
        whole.saturating_sub((1.0 / self.scale.rate()).log2() as u32)
    }
}

pub(super) struct Frequency {
    pub ranking: Ranking,
    history: History,
    size_weight: SizeWeight,
    /// The object that was missed last, and its requests then. It is the next to be compared and
    /// stored.
    missed: Option<(u64, u8)>,
    /// The object that was removed last. If it is stored next, it was replaced.
    removed: Option<u64>,
    /// The share of the objects that are requested a second time; `None` if all hits are worth the
    /// same.
    second_requests: Option<SecondRequests>,
    /// Requests since the counts were last halved.
    requests: usize,
    /// Halvings since the stored counts were last scaled back.
    era: i32,
    /// The amount that a request adds to a stored count: 2^era. So earlier requests are worth half
    /// after a halving, without a change to any object.
    one: f32,
}

impl Frequency {
    pub fn new(power: f64, size_weight: SizeWeight) -> Self {
        Frequency {
            ranking: Ranking::new(power),
            history: History::new(),
            size_weight,
            missed: None,
            removed: None,
            second_requests: (size_weight.exponent < 1.0).then(SecondRequests::default),
            requests: 0,
            era: 0,
            one: 1.0,
        }
    }

    pub fn bytes(&self) -> usize {
        self.ranking.bytes() + self.history.bytes()
    }

    /// Counts a request for the object in `slot`, and returns its new standing.
    #[inline]
    pub fn on_hit(&mut self, slot: Slot) -> Standing {
        self.fade();
        let (one, era, size_weight) = (self.one, self.era, self.size_weight);
        if let Some(second_requests) = &mut self.second_requests {
            second_requests.on_request(rounded(self.ranking.stored(slot).count / one + 1.0));
        }
        let mut standing = Standing::default();
        self.ranking.touch(slot, |stored| {
            stored.count += one;
            standing = Standing::new(stored.count, era, stored.size, size_weight);
            standing.class
        });
        standing
    }

    #[inline]
    pub fn on_miss(&mut self, id: u64) {
        self.fade();
        if self.history.is_full() {
            self.halve();
        }
        let known = self.history.count(id);
        if let Some(second_requests) = &mut self.second_requests {
            second_requests.on_request(known);
        }
        self.missed = Some((id, known));
    }

    /// Returns the standing that a newcomer would have.
    #[inline]
    pub fn newcomer(&self, id: u64, size: u64) -> Standing {
        self.newcomer_standing(self.known(id), size)
    }

    /// Stores a newcomer, and returns its standing.
    #[inline]
    pub fn on_insert(&mut self, slot: Slot, id: u64, size: u64) -> Standing {
        let count = self.known(id);
        let standing = self.newcomer_standing(count, size);
        let replaces = self.removed.take() == Some(id);
        self.missed = None;
        self.ranking.push(
            slot,
            Stored {
                id,
                size,
                count,
                class: standing.class,
                ..Stored::default()
            },
        );
        self.history.on_insert(id, self.ranking.len(), replaces);
        standing
    }

    #[inline]
    pub fn victim(&mut self) -> Option<Slot> {
        let slot = self.ranking.pop()?;
        self.remember(slot);
        if let Some(next) = self.ranking.first() {
            self.history.prefetch(self.ranking.stored(next).id);
        }
        Some(slot)
    }

    /// Evicts the object in `slot`, which another order has chosen.
    #[inline]
    pub fn evict(&mut self, slot: Slot) {
        self.ranking.remove(slot);
        self.remember(slot);
    }

    #[inline]
    pub fn on_remove(&mut self, slot: Slot) {
        self.evict(slot);
        self.removed = Some(self.ranking.stored(slot).id);
    }

    /// Writes the count of the object that has left `slot` to the history. The count saturates; an
    /// object with that many requests is admitted at once.
    #[inline]
    fn remember(&mut self, slot: Slot) {
        let &Stored { id, count, .. } = self.ranking.stored(slot);
        let mut count = rounded(count / self.one);
        if let Some((missed, known)) = &mut self.missed
            && *missed == id
        {
            // The object was missed while it was stored, and the history did not include its hits.
            count = count.saturating_add(1).max(*known);
            *known = count;
        }
        self.history.raise(id, count);
    }

    /// See [`crate::traits::Evict::prefetch`].
    #[inline]
    pub fn prefetch(&self, id: u64, slot: Option<Slot>) {
        match slot {
            Some(slot) => self.ranking.prefetch(slot),
            None => self.history.prefetch(id),
        }
    }

    /// Returns the standing of an object with `count` requests that is not stored.
    #[inline]
    fn newcomer_standing(&self, count: f32, size: u64) -> Standing {
        let standing = Standing::new(count, self.era, size, self.size_weight);
        match &self.second_requests {
            Some(second_requests) if count <= self.one => Standing {
                class: class(value(
                    count * second_requests.promise(),
                    self.era,
                    size,
                    self.size_weight,
                )),
                ..standing
            },
            _ => standing,
        }
    }

    /// Returns the requests of an object that is not stored, including this one, in the scale of a
    /// stored count.
    #[inline]
    fn known(&self, id: u64) -> f32 {
        let known = match self.missed {
            Some((missed, count)) if missed == id => count,
            _ => self.history.estimate(id).max(1),
        };
        f32::from(known) * self.one
    }

    /// Halves all counts after [`HALF_LIFE_TURNS`] requests for each stored object.
    #[inline]
    fn fade(&mut self) {
        self.requests += 1;
        if self.requests >= HALF_LIFE_TURNS * self.ranking.len().max(MIN_TURN_OBJECTS) {
            self.halve();
        }
    }

    #[cold]
    fn halve(&mut self) {
        self.requests = 0;
        self.missed = None;
        self.history.halve();
        if let Some(second_requests) = &mut self.second_requests {
            second_requests.halve();
        }
        self.era += 1;
        self.one *= 2.0;
        if self.era == ERAS {
            self.ranking.scale_counts(self.one.recip());
            self.era = 0;
            self.one = 1.0;
        }
    }
}

/// The numbers of objects that were requested for the first and for the second time.
///
/// If hits are worth bytes, most newcomers in a small cache were requested once, and most of these
/// will never be requested again.
#[derive(Default)]
struct SecondRequests {
    once: f64,
    twice: f64,
}

/// The number of objects of either kind that [`SecondRequests`] assumes at first. Until more are
/// counted, one request is worth one.
const PRESUMED: f64 = 10.0;

impl SecondRequests {
    /// Records that an object was requested for the `count`-th time.
    #[inline]
    fn on_request(&mut self, count: u8) {
        match count {
            1 => self.once += 1.0,
            2 => self.twice += 1.0,
            _ => {}
        }
    }

    /// Returns the requests that the first request of an object stands for: twice the share of
    /// objects that are requested again, at most 1. A heuristic near the estimator of Good and
    /// Turing (Good, Biometrika 1953), which compares exactly two requests with exactly one.
    #[inline]
    fn promise(&self) -> f32 {
        (2.0 * (self.twice + PRESUMED) / (self.once + PRESUMED)).min(1.0) as f32
    }

    fn halve(&mut self) {
        self.once /= 2.0;
        self.twice /= 2.0;
    }
}

impl Standing {
    /// Returns the standing of `count` · 2^−`era` requests of an object of `size` bytes.
    #[inline]
    fn new(count: f32, era: i32, size: u64, size_weight: SizeWeight) -> Standing {
        const VALUE_BITS: u32 = MANTISSA - STEPS.ilog2();
        let value = value(count, era, size, size_weight);
        let counted = log2(count) - (era << MANTISSA) - LOG2_OF_ONE + HALF_A_CLASS;
        Standing {
            class: class(value),
            count_class: (counted >> (MANTISSA - 1)).clamp(0, COUNT_CLASSES as i32 - 1) as u8,
            value: (value >> VALUE_BITS).clamp(i16::MIN.into(), i16::MAX.into()) as i16,
        }
    }
}

/// Returns `count` for the history: rounded, at most 255. The history keeps up to 127.
#[inline]
fn rounded(count: f32) -> u8 {
    (count + 0.5) as u8
}

/// Returns log2 of the requests per size^κ of an object, in steps of 2^−23.
#[inline]
fn value(count: f32, era: i32, size: u64, size_weight: SizeWeight) -> i32 {
    let SizeWeight { exponent, scale } = size_weight;
    let mut size = log2(scale.size(size) as f32);
    // κ is mostly 1; then the ones of both log2 values cancel.
    if exponent != 1.0 {
        size = (f64::from(size) * exponent + f64::from(LOG2_OF_ONE) * (1.0 - exponent)) as i32;
    }
    log2(count) - (era << MANTISSA) - size
}

/// Returns the class of a value. A class is half an octave.
#[inline]
fn class(value: i32) -> u8 {
    ((value + CLASS_OF_ONE + HALF_A_CLASS) >> (MANTISSA - 1)).clamp(0, 255) as u8
}

/// Returns log2 with an error of up to 0.09, plus 127, in steps of 2^−23: the exponent and the
/// mantissa of a positive float as an integer. Classes are wider than the error.
#[inline]
fn log2(value: f32) -> i32 {
    value.to_bits() as i32
}
