//! One request of a trace.

use larder_units::Time;
use std::num::NonZeroU64;

/// One request of a trace: its object, the object's size, and the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The object's number in the trace, or a hash of its name.
    pub id: u64,
    /// The size in bytes; 1 in traces without sizes.
    pub size: u64,
    /// The time since the start of the trace; zero in traces without times.
    pub now: Time,
}

impl Access {
    /// Returns the requests for the NDN segments of the object, in order, each of at most `size`
    /// bytes. An empty object has one. The first segment keeps the object's number.
    pub fn segments(self, size: NonZeroU64) -> impl Iterator<Item = Access> {
        (0..self.size.div_ceil(size.get()).max(1)).map(move |number| Access {
            id: if number == 0 {
                self.id
            } else {
                mix(self.id ^ mix(number))
            },
            size: (self.size - number * size.get()).min(size.get()),
            now: self.now,
        })
    }
}

/// SplitMix64's finalizer: Steele et al., Fast splittable pseudorandom number generators, OOPSLA
/// 2014.
fn mix(mut word: u64) -> u64 {
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Failure: segments are mistaken for other segments, or bytes are lost.
    #[test]
    fn segments_are_the_object() {
        let size = NonZeroU64::new(8000).unwrap();
        let sizes = |bytes: u64| -> Vec<u64> {
            Access {
                id: 7,
                size: bytes,
                now: Time::ZERO,
            }
            .segments(size)
            .map(|segment| segment.size)
            .collect()
        };
        assert_eq!(sizes(0), [0]);
        assert_eq!(sizes(8000), [8000]);
        assert_eq!(sizes(16_001), [8000, 8000, 1]);
        let of = |id: u64| {
            Access {
                id,
                size: 1_000_000,
                now: Time::ZERO,
            }
            .segments(size)
        };
        let ids: HashSet<u64> = (0..1000).flat_map(of).map(|segment| segment.id).collect();
        assert_eq!(ids.len(), 125_000);
    }
}
