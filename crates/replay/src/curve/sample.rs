//! The sample of objects.

use crate::limits::CURVE_SETS;
use crate::{Access, Unit};

/// The objects of a trace whose id's hash is below a rate. It also counts all requests and bytes.
#[derive(Clone, Debug)]
pub struct Sample {
    rate: f64,
    /// Objects with hashes up to this are in the sample.
    last: u64,
    seed: u64,
    requests: u64,
    bytes: f64,
    /// The largest size of a request.
    largest: u64,
}

/// A request for an object of the sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// The request.
    pub access: Access,
    /// The index of the object's set, below [`CURVE_SETS`].
    pub set: u8,
}

impl Sample {
    /// Creates a sample of the share `rate` of all objects. Another `seed` selects other objects.
    /// `None` unless 0 < rate ≤ 1.
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

    /// Creates a sample of all objects.
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
        let hash = self.hash(access.id);
        (hash <= self.last).then_some(Sampled {
            access: *access,
            set: (hash % CURVE_SETS as u64) as u8,
        })
    }

    /// Returns true if the object is in the sample.
    #[inline]
    pub(super) fn has(&self, id: u64) -> bool {
        self.hash(id) <= self.last
    }

    /// Halves the sample. Returns false if no object would be left.
    pub(super) fn halve(&mut self) -> bool {
        self.last >>= 1;
        self.rate /= 2.0;
        self.last > 0
    }

    /// Returns one of its [`CURVE_SETS`] parts, with this part's rate. The caller selects the
    /// objects of the part.
    pub(super) fn set(&self) -> Sample {
        Sample {
            rate: self.rate / CURVE_SETS as f64,
            ..self.clone()
        }
    }

    fn hash(&self, id: u64) -> u64 {
        hash(id ^ self.seed)
    }

    /// Returns the share of the objects in the sample.
    pub fn rate(&self) -> f64 {
        self.rate
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

/// SplitMix64's finalizer (Steele, Lea and Flood, OOPSLA 2014): a bijection in which every bit of
/// the input affects every bit of the output. It is not the policies' hash, because a sample by
/// that hash would fill their tables unevenly.
fn hash(id: u64) -> u64 {
    let word = id.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
