//! Which objects are looked at.

use crate::limits::CURVE_SETS;
use crate::{Access, Unit};

/// The objects of a trace whose id's hash is below a rate; counts everything that it is shown.
#[derive(Clone, Debug)]
pub struct Sample {
    rate: f64,
    /// Hashes up to this are in the sample.
    last: u64,
    seed: u64,
    requests: u64,
    bytes: f64,
    /// Bytes that a request asked for at most.
    largest: u64,
}

/// A request for an object of the sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// The request.
    pub access: Access,
    /// Which of the [`CURVE_SETS`] the object is in.
    pub set: u8,
}

impl Sample {
    /// The share `rate` of all objects; another `seed`, other objects. `None` unless 0 < rate ≤ 1.
    pub fn of(rate: f64, seed: u64) -> Option<Sample> {
        let last = (rate * 2.0_f64.powi(64)) as u64;
        (rate > 0.0 && rate <= 1.0).then_some(Sample {
            rate,
            last,
            seed: hash(seed),
            requests: 0,
            bytes: 0.0,
            largest: 0,
        })
    }

    /// All objects.
    pub(super) fn all(seed: u64) -> Sample {
        Sample {
            rate: 1.0,
            last: u64::MAX,
            seed: hash(seed),
            requests: 0,
            bytes: 0.0,
            largest: 0,
        }
    }

    /// Adds bytes to those of the requests shown.
    pub(super) fn add_bytes(&mut self, bytes: f64) {
        self.bytes += bytes;
    }

    /// The request, if its object is in the sample.
    #[inline]
    pub fn take(&mut self, access: &Access) -> Option<Sampled> {
        self.requests += 1;
        self.bytes += access.size as f64;
        self.largest = self.largest.max(access.size);
        let hash = self.hash(access.id);
        (hash <= self.last).then_some(Sampled {
            access: *access,
            set: (hash % CURVE_SETS as u64) as u8,
        })
    }

    /// Whether the object is in the sample.
    #[inline]
    pub(super) fn has(&self, id: u64) -> bool {
        self.hash(id) <= self.last
    }

    /// Leaves every second of its objects out; false where none would be left.
    pub(super) fn halve(&mut self) -> bool {
        self.last >>= 1;
        self.rate /= 2.0;
        self.last > 0
    }

    /// One of the [`CURVE_SETS`] parts of it, which has this rate; that its objects are of that
    /// part is for the caller to see to.
    pub(super) fn set(&self) -> Sample {
        Sample {
            rate: self.rate / CURVE_SETS as f64,
            ..self.clone()
        }
    }

    fn hash(&self, id: u64) -> u64 {
        hash(id ^ self.seed)
    }

    /// The share of the objects.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Requests shown, of the sample or not.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Bytes of all requests shown.
    pub fn bytes(&self) -> f64 {
        self.bytes
    }

    /// What the sizes of the requests shown count.
    pub fn unit(&self) -> Unit {
        Unit::of_largest(self.largest)
    }
}

/// SplitMix64's finalizer (Steele, Lea and Flood, OOPSLA 2014): a bijection in which every bit of
/// the input sways every bit of the output. Not the policies' hash, to whose tables a sample by it
/// would be no sample.
fn hash(id: u64) -> u64 {
    let word = id.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
