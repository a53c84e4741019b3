//! Simulates the next requests with many values of c in one pass. The LRUs need no index and no
//! lists, because the previous request for an object is the same for all values of c.
//!
//! Positions are the objects in the present cache, the oldest first, followed by the requests. An
//! object is stored at the position of its latest request, so positions are in LRU order. Each
//! position has one bit for each c. A hit moves these bits from the previous position to the
//! present one; the next victim is the first position with the bit.

use super::shadow::Shadow;
use crate::future::Future;
use crate::prefetch::prefetch;

/// The requests of a window, and the cache before them. It takes 20 bytes per position, and 8 more
/// in a pass.
pub(super) struct Window {
    capacity: u64,
    /// Bytes stored before the first request, and the number of their objects.
    used: u64,
    stored: usize,
    /// For each position: the object's size. In one window an object has one size: the one in the
    /// cache, or that of its first request.
    sizes: Vec<u64>,
    /// For each request: the previous position of its object, or [`Window::NEVER`].
    before: Vec<u32>,
    /// For each request: the least c that admits its object.
    least_c: Vec<f64>,
}

/// The number of values of c in one pass: the bits of a word.
const LANES: usize = 64;

/// The number of requests between the prefetch of a position and its use.
const AHEAD: usize = 16;

/// The state of one c in a pass.
#[derive(Clone, Copy)]
struct Lane {
    /// The bytes stored.
    used: u64,
    /// No earlier position has this lane's bit.
    oldest: usize,
}

impl Window {
    const NEVER: u32 = u32::MAX;

    /// Takes up to `len` requests from `seq` on, after a cache of `capacity` bytes with the objects
    /// of `shadow`. `least_c` gets the request's number and size, and returns infinity if no c may
    /// admit.
    pub fn new(
        future: &Future,
        seq: u64,
        len: u64,
        shadow: &Shadow,
        capacity: u64,
        least_c: impl Fn(usize, u64) -> f64,
    ) -> Window {
        let mut sizes = Vec::new();
        let mut places = Vec::new();
        for (place, (slot, size)) in (0..).zip(shadow.oldest_first()) {
            sizes.push(size);
            places.resize(places.len().max(slot.index() + 1), Self::NEVER);
            places[slot.index()] = place;
        }
        let stored = sizes.len();
        sizes.extend(future.window(seq, len).map(|(_, size)| size.max(1)));
        let requests = sizes.len() - stored;
        let mut before = vec![Self::NEVER; requests];
        for (place, (id, _)) in future.window(seq, len).enumerate() {
            let own = stored + place;
            if before[place] == Self::NEVER
                && let Some(slot) = shadow.find(id)
            {
                before[place] = places[slot.index()];
            }
            if let Some(size) = sizes.get(before[place] as usize) {
                sizes[own] = *size;
            }
            let next = u64::from(future.next(seq + place as u64)).saturating_sub(seq) as usize;
            if let Some(before) = before.get_mut(next) {
                *before = own as u32;
            }
        }
        let least_c = (0..)
            .zip(&sizes[stored..])
            .map(|(place, size)| least_c(place, *size))
            .collect();
        Window {
            capacity,
            used: shadow.used(),
            stored,
            sizes,
            before,
            least_c,
        }
    }

    /// Returns the hits of the window's requests for each c; `cs` is in ascending order.
    pub fn hits(&self, cs: &[f64]) -> Vec<u64> {
        cs.chunks(LANES)
            .flat_map(|cs| self.hits_in_a_pass(cs))
            .collect()
    }

    fn hits_in_a_pass(&self, cs: &[f64]) -> Vec<u64> {
        let all = u64::MAX >> (LANES - cs.len());
        let mut places = vec![0; self.sizes.len()];
        places[..self.stored].fill(all);
        let mut lanes: Vec<Lane> = cs
            .iter()
            .map(|_| Lane {
                used: self.used,
                oldest: 0,
            })
            .collect();
        let mut hits = Counters([0; LANES]);
        let soon = self
            .before
            .iter()
            .skip(AHEAD)
            .chain(std::iter::repeat(&Self::NEVER));
        let requests = self.before.iter().zip(&self.least_c).zip(soon);
        for (place, ((before, least_c), soon)) in (self.stored..).zip(requests) {
            prefetch(&places, *soon as usize);
            let hit = places.get_mut(*before as usize).map_or(0, std::mem::take);
            hits.add(hit);
            let too_small = cs.partition_point(|c| c < least_c);
            let mut new = if too_small < cs.len() {
                all >> too_small << too_small & !hit
            } else {
                0
            };
            places[place] = hit | new;
            while new != 0 {
                let lane = &mut lanes[new.trailing_zeros() as usize];
                let bit = new & new.wrapping_neg();
                new ^= bit;
                let Lane {
                    mut used,
                    mut oldest,
                } = *lane;
                used += self.sizes[place];
                while used > self.capacity {
                    while places[oldest] & bit == 0 {
                        oldest += 1;
                    }
                    places[oldest] ^= bit;
                    used -= self.sizes[oldest];
                }
                *lane = Lane { used, oldest };
            }
        }
        (0..cs.len()).map(|lane| hits.of(lane)).collect()
    }
}

/// One counter for each bit of a word. One word holds the n-th digits of all counters.
struct Counters([u64; 64]);

impl Counters {
    /// Increments the counters of the bits that are set.
    fn add(&mut self, mut carry: u64) {
        for digits in &mut self.0 {
            if carry == 0 {
                break;
            }
            (*digits, carry) = (*digits ^ carry, *digits & carry);
        }
    }

    fn of(&self, bit: usize) -> u64 {
        (0..)
            .zip(&self.0)
            .map(|(digit, digits)| (digits >> bit & 1) << digit)
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FutureBuilder;
    use larder_units::Streams;

    /// Replays the requests one by one.
    fn replayed(
        requests: &[(u64, u64)],
        shadow: &Shadow,
        capacity: u64,
        admits: impl Fn(usize, u64) -> bool,
    ) -> u64 {
        let mut shadow = shadow.clone();
        shadow.hits = 0;
        for (place, (id, size)) in requests.iter().enumerate() {
            if !shadow.hit(*id) && *size <= capacity && admits(place, *size) {
                shadow.insert(*id, *size, capacity);
            }
        }
        shadow.hits
    }

    #[test]
    fn a_window_is_another_cache_than_the_shadow() {
        for seed in 1..40 {
            let mut stream = Streams::new(seed).stream("window");
            let (objects, capacity) = (1 + stream.below(200), 1 + stream.below(3000));
            let size = |id: u64| 1 + id * id % 97;
            let mut draw = || (stream.unit() * stream.unit() * objects as f64) as u64;
            let requests: Vec<(u64, u64)> =
                (0..1000).map(|_| draw()).map(|id| (id, size(id))).collect();
            let mut future = FutureBuilder::default();
            for (id, size) in &requests {
                future.push(*id, *size).unwrap();
            }
            let future = future.build();
            let mut shadow = Shadow::default();
            // The cache after some requests, each of which was admitted or not.
            for (seq, (id, size)) in (1..).zip(&requests) {
                if [1, 2, 300, 990, 1000].contains(&seq) {
                    let coin =
                        |place: usize| ((seq + place as u64) * 0x9e37 % 1000) as f64 / 1000.0;
                    let least_c = |place: usize, size: u64| {
                        if size <= capacity {
                            size as f64 / -coin(place).ln()
                        } else {
                            f64::INFINITY
                        }
                    };
                    let window = Window::new(&future, seq, 500, &shadow, capacity, least_c);
                    let ahead = &requests[seq as usize - 1..(seq as usize + 499).min(1000)];
                    let cs = [0.5, 1.0, 8.0, 20.0, 1e9];
                    let naive = |c: &f64| {
                        replayed(ahead, &shadow, capacity, |place, size| {
                            least_c(place, size) <= *c
                        })
                    };
                    let naive: Vec<u64> = cs.iter().map(naive).collect();
                    assert_eq!(window.hits(&cs), naive, "seed {seed}, from request {seq}");
                }
                if !shadow.hit(*id) && *size <= capacity && (id + seq) % 3 > 0 {
                    shadow.insert(*id, *size, capacity);
                }
            }
        }
    }

    /// Failure: the bytes that are subtracted differ from the bytes that were added, and their sum
    /// falls below 0.
    #[test]
    fn an_object_changes_its_size() {
        let mut future = FutureBuilder::default();
        for (id, size) in [(1, 10), (2, 50), (1, 90), (3, 60), (1, 5), (2, 1), (4, 100)] {
            future.push(id, size).unwrap();
        }
        let window = Window::new(
            &future.build(),
            1,
            100,
            &Shadow::default(),
            100,
            |_, size| size as f64,
        );
        assert_eq!(window.hits(&[1.0, 50.0, 100.0]), [0, 3, 2]);
        // More than fit into one pass.
        let many: Vec<f64> = (0..200).map(f64::from).collect();
        let hits = window.hits(&many);
        assert_eq!(
            [0, 49, 50, 59, 60, 63, 64, 199].map(|c| hits[c]),
            [0, 2, 3, 3, 2, 2, 2, 2]
        );
    }
}
