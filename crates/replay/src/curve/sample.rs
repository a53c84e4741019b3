//! The sample of objects.

use super::miniature::parts;
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
    /// the sample by this size, so that either all of its requests are, or none.
    large: HashMap<u64, u64, FixedState>,
}

/// A request for an object of the sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// The request.
    pub access: Access,
    /// The position of its object.
    position: u64,
}

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
            large: HashMap::default(),
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
            large: HashMap::default(),
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
        let sampled = Sampled {
            access: *access,
            position,
        };
        if access.size <= self.scale.small() {
            return (position <= self.last || self.has_large(access.id)).then_some(sampled);
        }
        self.take_large(access, position).then_some(sampled)
    }

    #[inline]
    fn has_large(&self, id: u64) -> bool {
        !self.large.is_empty() && self.large.contains_key(&id)
    }

    /// Returns true if the large object of this request is in the sample.
    fn take_large(&mut self, access: &Access, position: u64) -> bool {
        if let Some(size) = self.large.get_mut(&access.id) {
            *size = access.size.max(*size);
            return true;
        }
        let takes = position <= self.last || is_below(position, self.scale.chance(access.size));
        if takes {
            self.large.insert(access.id, access.size);
        }
        takes
    }

    /// Returns true if an object without a large size is in the sample.
    #[inline]
    pub(super) fn has_small(&self, id: u64) -> bool {
        self.position(id) <= self.last
    }

    /// Returns true if this request of a former sample, of a higher rate, is in this one.
    pub(super) fn keeps(&self, sampled: &Sampled) -> bool {
        let Sampled { access, position } = *sampled;
        position <= self.last || self.has_large(access.id)
    }

    /// Halves the sample. Returns false if no object would be left.
    pub(super) fn halve(&mut self) -> bool {
        self.halve_for(self.scale.small())
    }

    /// Halves the sample; objects above `small` bytes are now the large ones. Returns false if no
    /// object would be left.
    pub(super) fn halve_for(&mut self, small: u64) -> bool {
        self.last >>= 1;
        self.scale = Scale::new(self.rate() / 2.0, small);
        let (scale, last, seed) = (self.scale, self.last, self.seed);
        self.large.retain(|id, size| {
            let position = hash(*id ^ seed);
            let is_large = *size > scale.small();
            is_large && (position <= last || is_below(position, scale.chance(*size)))
        });
        self.last > 0
    }

    /// Returns one of its [`CURVE_SETS`] parts, with this part's rate. The caller selects the
    /// objects of the part.
    pub(super) fn set(&self) -> Sample {
        Sample {
            scale: Scale::new(self.rate() / CURVE_SETS as f64, self.scale.small()),
            ..self.clone()
        }
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
        is_below(self.position, scale.chance(self.access.size))
    }

    /// Returns true if the object is in the set of this number, below [`CURVE_SETS`]: with the
    /// chance of `set` if that of `whole` was needed to be here. A small object is in one set, and
    /// an object that is always simulated is in all.
    #[inline]
    pub(super) fn is_in_set(&self, number: usize, set: &Scale, whole: &Scale) -> bool {
        let step = u64::MAX / CURVE_SETS as u64;
        let place = hash(self.position).wrapping_add(step.wrapping_mul(number as u64));
        let size = self.access.size;
        is_below(place, set.chance(size) / whole.chance(size))
    }

    /// Returns true if the object is in the sample's uniform part, which has this scale's share of
    /// the objects of every size.
    pub(super) fn is_uniform(&self, scale: &Scale) -> bool {
        is_below(self.position, scale.rate())
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
