//! The sample of objects.

use super::parts::parts;
use crate::limits::CURVE_SETS;
use crate::{Access, Unit};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use larder_policy::{Scale, Spec};

/// The objects of a trace whose position, a hash of the id, is below the chance of their size. It
/// also counts all requests and bytes.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The chances by size.
    scale: Scale,
    /// Small objects with positions up to this are in the sample.
    last: u64,
    seed: u64,
    requests: u64,
    bytes: f64,
    /// The largest size of a request.
    largest: u64,
    /// The large objects of the sample, and the largest size that each of them had. An object is in
    /// the sample by this size: all of its requests are, or none. Of one whose first requests were
    /// for small sizes, those may be missing.
    large: Sizes,
}

/// A request for an object of the sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// The request.
    pub access: Access,
    /// The position of its object.
    position: u64,
    /// The largest size of its object so far, if that is large; otherwise the size of this request.
    /// By it the object is in the sample.
    size: u64,
}

/// The size of each object.
pub(super) type Sizes = HashMap<u64, u64, FixedState>;

/// 2^64.
const POSITIONS: f64 = (1_u128 << 64) as f64;

impl Sample {
    /// Creates a sample of the share `rate` of all objects. Another `seed` selects other objects.
    /// `None` unless 0 < rate ≤ 1.
    pub fn of(rate: f64, seed: u64) -> Option<Sample> {
        let last = (rate * POSITIONS) as u64;
        (rate > 0.0 && rate <= 1.0).then(|| Sample {
            scale: Scale::new(rate, u64::MAX),
            last,
            seed: hash(seed),
            requests: 0,
            bytes: 0.0,
            largest: 0,
            large: Sizes::default(),
        })
    }

    /// Also takes the objects that are large for miniatures of caches of these capacities in bytes,
    /// and with these policies: see [`Scale`].
    pub fn for_caches(self, specs: &[Spec], capacities: &[u64]) -> Sample {
        let least = capacities.iter().copied().min().unwrap_or(u64::MAX);
        let parts = specs.iter().map(parts).fold(1.0, f64::max);
        Sample {
            scale: Scale::of(self.rate(), least, parts),
            ..self
        }
    }

    /// Creates a sample of all objects.
    pub(super) fn all(seed: u64) -> Sample {
        Sample {
            scale: Scale::FULL,
            last: u64::MAX,
            seed: hash(seed),
            requests: 0,
            bytes: 0.0,
            largest: 0,
            large: Sizes::default(),
        }
    }

    /// Adds bytes to the total of the requests.
    pub(super) fn add_bytes(&mut self, bytes: f64) {
        self.bytes += bytes;
    }

    /// Counts a request. Returns it if its object is in the sample.
    #[inline]
    pub fn take(&mut self, access: &Access) -> Option<Sampled> {
        self.requests += 1;
        self.bytes += access.size as f64;
        self.largest = self.largest.max(access.size);
        let position = self.position(access.id);
        let mut sampled = Sampled {
            access: *access,
            position,
            size: access.size,
        };
        if access.size > self.scale.small() {
            sampled.size = self.take_large(access, position)?;
        } else if !self.large.is_empty()
            && let Some(size) = self.large.get(&access.id)
        {
            sampled.size = *size;
        } else if position > self.last {
            return None;
        }
        Some(sampled)
    }

    /// Returns the largest size so far of the large object of this request, if it is in the sample.
    fn take_large(&mut self, access: &Access, position: u64) -> Option<u64> {
        if let Some(size) = self.large.get_mut(&access.id) {
            *size = access.size.max(*size);
            return Some(*size);
        }
        let takes = position <= self.last || is_below(position, self.scale.chance(access.size));
        takes.then(|| {
            self.large.insert(access.id, access.size);
            access.size
        })
    }

    /// Returns true if an object without a large size is in the sample.
    #[inline]
    pub(super) fn has_small(&self, id: u64) -> bool {
        self.position(id) <= self.last
    }

    /// Halves the sample of small objects. Returns false if none would be left.
    pub(super) fn halve(&mut self) -> bool {
        self.last >>= 1;
        self.scale = Scale::new(self.rate() / 2.0, self.scale.small());
        self.last > 0
    }

    /// Sets which objects are large, and removes from `kept` what is not in the sample any more. No
    /// size may get a higher chance. `sizes` has the largest size of each object of `kept`.
    pub(super) fn set_small(&mut self, small: u64, kept: &mut Vec<Sampled>, sizes: &Sizes) {
        self.scale = Scale::new(self.rate(), small);
        self.large.clear();
        kept.retain_mut(|sampled| {
            let id = sampled.access.id;
            sampled.size = sizes.get(&id).copied().unwrap_or(sampled.access.size);
            let is_in = sampled.position <= self.last || sampled.is_in(&self.scale);
            if is_in && sampled.size > self.scale.small() {
                self.large.insert(id, sampled.size);
            }
            is_in
        });
    }

    /// Returns the same sample without the higher chance of large objects, and one of its
    /// [`CURVE_SETS`] parts, with this part's rate. The caller selects the objects of the part.
    pub(super) fn uniform(&self) -> [Sample; 2] {
        [1, CURVE_SETS].map(|parts| Sample {
            scale: Scale::new(self.rate() / parts as f64, u64::MAX),
            large: Sizes::default(),
            ..self.clone()
        })
    }

    #[inline]
    fn position(&self, id: u64) -> u64 {
        hash(id ^ self.seed)
    }

    /// Returns the share of the small objects in the sample.
    pub fn rate(&self) -> f64 {
        self.scale.rate()
    }

    /// Returns the chances by size. Those of a simulation may not be higher.
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// Returns the number of all requests, in the sample or not.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Returns the bytes of all requests.
    pub fn bytes(&self) -> f64 {
        self.bytes
    }

    /// Returns the unit of the sizes of all requests.
    pub fn unit(&self) -> Unit {
        Unit::of_largest(self.largest)
    }
}

impl Sampled {
    /// Returns true if the object is simulated with this scale, whose chances may not be higher
    /// than those of the sample.
    #[inline]
    pub(super) fn is_in(&self, scale: &Scale) -> bool {
        is_below(self.position, scale.chance(self.size))
    }

    /// Calls `put` with the number of each set, below [`CURVE_SETS`], that the object is in: with
    /// the chance of `set` if that of `whole` was needed to be here. A small object is in one set,
    /// and an object that is simulated at any rate is in all.
    #[inline]
    pub(super) fn for_sets(&self, set: &Scale, whole: &Scale, mut put: impl FnMut(usize)) {
        const STEP: u64 = (POSITIONS / CURVE_SETS as f64) as u64;
        let place = hash(self.position);
        if self.size <= set.small() {
            return put((place / STEP) as usize);
        }
        let share = set.chance(self.size) / whole.chance(self.size);
        for number in 0..CURVE_SETS {
            if is_below(place.wrapping_sub(STEP * number as u64), share) {
                put(number);
            }
        }
    }

    /// Returns the number of objects that this one stands for at this scale, as a part of what a
    /// small one stands for.
    #[inline]
    pub(super) fn weight(&self, scale: &Scale) -> f64 {
        scale.weight_of(self.size)
    }

    /// Returns the chance with which the object is simulated at this scale.
    pub(super) fn chance(&self, scale: &Scale) -> f64 {
        scale.chance(self.size)
    }

    /// Returns the room that the object takes in a miniature of this scale.
    #[inline]
    pub(super) fn room(&self, scale: &Scale) -> u64 {
        if self.size <= scale.small() {
            return self.access.size;
        }
        (self.access.size as f64 * self.weight(scale)).round() as u64
    }

    /// Returns true if the object is in the sample's uniform part, which has this scale's share of
    /// the objects of every size.
    pub(super) fn is_uniform(&self, scale: &Scale) -> bool {
        is_below(self.position, scale.rate())
    }

    /// Changes the object's size.
    pub(super) fn set_size(&mut self, size: u64) {
        (self.access.size, self.size) = (size, size);
    }

    /// Returns a request for an object of a sample of all.
    #[cfg(test)]
    pub(super) fn of_all(access: Access) -> Sampled {
        Sampled {
            access,
            position: 0,
            size: access.size,
        }
    }
}

/// Returns true with this chance, for a random position.
#[inline]
fn is_below(position: u64, chance: f64) -> bool {
    (position as f64) < chance * POSITIONS || chance >= 1.0
}

/// SplitMix64's finalizer (Steele, Lea and Flood, OOPSLA 2014): a bijection in which every bit of
/// the input affects every bit of the output. It is not the policies' hash, because a sample by
/// that hash would fill their tables unevenly.
fn hash(id: u64) -> u64 {
    let word = id.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
