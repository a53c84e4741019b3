//! The report of a running cache about its requests. Another thread uses it to run other policies
//! and sizes on a sample of the requests.
//!
//! A cache has an [`Observer`], or one for each of its shards. It counts every request and keeps an
//! [`Observation`] of those whose key is in the sample, until the host takes them with
//! [`Observer::take`]. The sample is by key: either all requests for a key are in it, or none

use larder_units::Time;
use std::time::Duration;

/// A request for a storable response, or a removal of stored responses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// A request.
    Request(Observed),
    /// A removal by an operator or by an unsafe request.
    Removed(Removal),
}

impl Observation {
    /// Returns the time of the observation.
    pub fn now(&self) -> Time {
        match self {
            Observation::Request(observed) => observed.now,
            Observation::Removed(removal) => removal.now,
        }
    }
}

/// A request for a storable response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// The time of the request.
    pub now: Time,
    /// The key's position in the order of sampling: see [`Observer::place`].
    pub place: u64,
    /// The variant of the key: 0 if it has only one.
    pub variant: u32,
    /// The bytes that the object takes in the cache.
    pub size: u64,
    /// The bytes of its body.
    pub bytes: u64,
    /// The cache's result for this request.
    pub outcome: Outcome,
    /// The time after its arrival for which the object answers requests without validation.
    pub lifetime: Duration,
    /// True if a stale copy also answers this request.
    pub any_age: bool,
    /// True if a stale copy of it can be validated.
    pub validates: bool,
    /// The names of the object, if it was fetched.
    pub label: Option<Box<Label>>,
}

/// The cache's result for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A stored response answered the request, perhaps after a validation.
    Hit,
    /// The response came from the origin.
    Fetched,
    /// The cache itself has validated or fetched the object in the background, without a request.
    Refreshed,
    /// The response came from the origin because the client required it. A stored copy would not
    /// have
    Reloaded,
}

/// The names by which an object may be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The key.
    pub key: Box<[u8]>,
    /// The tags.
    pub tags: Box<[Box<[u8]>]>,
}

/// A removal of objects, or the end of their freshness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// The time of the removal.
    pub now: Time,
    /// The removed objects.
    pub scope: Scope,
    /// True if the objects became stale, and may be validated.
    pub soft: bool,
}

/// The objects that a removal affects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All variants of a key.
    Place(u64),
    /// All objects whose key has this prefix.
    Prefix(Box<[u8]>),
    /// All objects with this tag.
    Tag(Box<[u8]>),
    /// All objects.
    Everything,
}

/// Counts of all requests, in the sample or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requests that a stored response answered, perhaps after a validation.
    pub hits: u64,
    /// Bytes of their bodies.
    pub hit_bytes: u64,
    /// Requests whose response came from the origin and may be stored.
    pub fetched: u64,
    /// Bytes of their bodies.
    pub fetched_bytes: u64,
    /// Requests whose response may not be stored: they miss in every cache.
    pub unstorable: u64,
    /// Bytes of their bodies, if their length was declared.
    pub unstorable_bytes: u64,
    /// Observations that were dropped because the host did not take the earlier ones.
    pub lost: u64,
}

impl Totals {
    /// Returns the requests for storable responses.
    pub fn storable(&self) -> u64 {
        self.hits + self.fetched
    }

    /// Returns the bytes of their bodies.
    pub fn storable_bytes(&self) -> u64 {
        self.hit_bytes + self.fetched_bytes
    }

    /// Adds the counts of another observer.
    pub fn add(&mut self, other: &Totals) {
        self.hits += other.hits;
        self.hit_bytes += other.hit_bytes;
        self.fetched += other.fetched;
        self.fetched_bytes += other.fetched_bytes;
        self.unstorable += other.unstorable;
        self.unstorable_bytes += other.unstorable_bytes;
        self.lost += other.lost;
    }

    /// Returns the counts since earlier ones.
    pub fn since(&self, earlier: &Totals) -> Totals {
        Totals {
            hits: self.hits - earlier.hits,
            hit_bytes: self.hit_bytes - earlier.hit_bytes,
            fetched: self.fetched - earlier.fetched,
            fetched_bytes: self.fetched_bytes - earlier.fetched_bytes,
            unstorable: self.unstorable - earlier.unstorable,
            unstorable_bytes: self.unstorable_bytes - earlier.unstorable_bytes,
            lost: self.lost - earlier.lost,
        }
    }
}

/// Counts the requests of a cache, or of a shard of one, and keeps a sample of them.
#[derive(Debug)]
pub struct Observer {
    seed: u64,
    /// Keys with a position up to this are in the sample.
    last: Option<u64>,
    totals: Totals,
    kept: Vec<Observation>,
    /// The maximum number of observations that are kept.
    most: usize,
}

impl Observer {
    /// Creates an observer that keeps and counts nothing until [`Observer::take`] sets its sample.
    /// Observers of the same cache have the same `seed`. It keeps at most `most` observations.
    pub fn new(seed: u64, most: usize) -> Observer {
        Observer {
            seed,
            last: None,
            totals: Totals::default(),
            kept: Vec::new(),
            most,
        }
    }

    /// Returns the position of a key in the order of sampling. Different keys have different
    /// positions, which are uniformly distributed.
    #[inline]
    pub fn place(&self, key: u64) -> u64 {
        spread(key ^ self.seed)
    }

    /// Counts a request that a stored response with this many bytes answered.
    #[inline]
    pub fn hit(&mut self, key: u64, bytes: u64, observed: impl FnOnce(u64) -> Observed) {
        if let Some(last) = self.last {
            self.totals.hits += 1;
            self.totals.hit_bytes += bytes;
            self.request(key, last, observed);
        }
    }

    /// Counts a request that the origin answered with a storable response of this many bytes.
    #[inline]
    pub fn fetched(&mut self, key: u64, bytes: u64, observed: impl FnOnce(u64) -> Observed) {
        if let Some(last) = self.last {
            self.totals.fetched += 1;
            self.totals.fetched_bytes += bytes;
            self.request(key, last, observed);
        }
    }

    #[inline]
    fn request(&mut self, key: u64, last: u64, observed: impl FnOnce(u64) -> Observed) {
        let place = self.place(key);
        if place <= last {
            self.keep(Observation::Request(observed(place)));
        }
    }

    /// Records that the cache has validated or fetched an object in the background.
    pub fn refreshed(&mut self, key: u64, observed: impl FnOnce(u64) -> Observed) {
        if let Some(last) = self.last {
            self.request(key, last, observed);
        }
    }

    /// Counts a request whose response may not be stored.
    pub fn unstorable(&mut self, bytes: Option<u64>) {
        if self.last.is_some() {
            self.totals.unstorable += 1;
            self.totals.unstorable_bytes += bytes.unwrap_or(0);
        }
    }

    /// Records that all variants of a key are removed, or stale.
    pub fn removed(&mut self, key: u64, soft: bool, now: Time) {
        let place = self.place(key);
        if self.last.is_some_and(|last| place <= last) {
            self.keep(Observation::Removed(Removal {
                now,
                scope: Scope::Place(place),
                soft,
            }));
        }
    }

    /// Records that several keys are removed, or stale.
    pub fn removed_all(&mut self, scope: Scope, soft: bool, now: Time) {
        if self.last.is_some() {
            self.keep(Observation::Removed(Removal { now, scope, soft }));
        }
    }

    #[cold]
    fn keep(&mut self, observation: Observation) {
        if self.kept.len() < self.most {
            self.kept.push(observation);
        } else {
            self.totals.lost += 1;
        }
    }

    /// Appends the observations since the last call to `taken`, and returns the counts since the
    /// start. From now on, keys with a position up to `last` are in the sample; no keys if it is
    /// `None`.
    pub fn take(&mut self, last: Option<u64>, taken: &mut Vec<Observation>) -> Totals {
        self.last = last;
        taken.append(&mut self.kept);
        self.totals
    }
}

/// SplitMix64's finalizer (Steele, Lea and Flood, OOPSLA 2014), a bijection. It is not the hash of
/// the policies, because a sample by their own hash would fill their tables unevenly.
fn spread(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 1_000;

    fn observed(place: u64) -> Observed {
        Observed {
            now: Time::ZERO,
            place,
            variant: 0,
            size: 100,
            bytes: 50,
            outcome: Outcome::Hit,
            lifetime: Duration::from_secs(60),
            any_age: false,
            validates: true,
            label: None,
        }
    }

    fn requests(observer: &mut Observer, last: Option<u64>) -> usize {
        let mut taken = Vec::new();
        observer.take(last, &mut taken);
        taken.clear();
        for key in 0..10_000 {
            observer.hit(key, 50, observed);
        }
        observer.take(last, &mut taken);
        taken.len()
    }

    #[test]
    fn an_observer_without_a_sample_keeps_requests() {
        let mut observer = Observer::new(1, MOST);
        assert_eq!(requests(&mut observer, None), 0);
        assert_eq!(observer.take(None, &mut Vec::new()), Totals::default());
        assert_eq!(requests(&mut observer, Some(0)), 0);
        let totals = observer.take(None, &mut Vec::new());
        assert_eq!(
            (
                totals.storable(),
                totals.hits,
                totals.storable_bytes(),
                totals.lost
            ),
            (10_000, 10_000, 500_000, 0)
        );
    }

    #[test]
    fn the_sample_is_not_its_share_of_the_keys() {
        let kept = requests(&mut Observer::new(1, MOST), Some(u64::MAX / 16));
        assert!(
            (525..725).contains(&kept),
            "{kept} of 10,000 at a sixteenth"
        );
    }

    #[test]
    fn observations_that_nobody_takes_grow_without_end() {
        let mut observer = Observer::new(1, MOST);
        assert_eq!(requests(&mut observer, Some(u64::MAX)), MOST);
        let totals = observer.take(None, &mut Vec::new());
        assert_eq!(totals.lost, 10_000 - MOST as u64);
    }
}
