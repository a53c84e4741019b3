//! Recent request counts: a count–min sketch of four-bit counters with ageing (Einziger, Friedman
//! and Manes, TinyLFU: a highly efficient cache admission policy, ACM Transactions on Storage 13,
//! 2017, section 3).
//!
//! * An id has one counter in each of four rows; only the smallest ones are raised (conservative
//!   update), and the smallest is the estimate. It is never too low, and is too high only if other
//!   ids share all four counters.
//! * After `window` requests every counter is halved (the paper's reset), and so is the number of
//!   requests. So old counts fade.
//! * The counters of an id are in one block of a cache line, as in Caffeine, so a request reads one
//!   line. There are sixteen counters for every ten requests of the window: 0.8 bytes a request,
//!   and 8 bytes an object if the window is ten requests an object.
//! * The table grows by doubling. Both halves have the old contents, so no estimate falls.
//!
//! O(1) a request; halving is amortised, 64 bytes for every 80 requests.

use crate::hash::mix;
use crate::limits::{SKETCH_MAX_WINDOW, SKETCH_MIN_WINDOW};
use crate::prefetch::prefetch;

/// Requests after which a frequency sketch halves its counts, for each stored object: Caffeine's
/// W/C. Counts end at 15, so a longer window would not distinguish popular objects.
const WINDOW_PER_OBJECT: u64 = 10;

/// Smallest table of a frequency sketch, in cache lines: 4 KB, so that the header is negligible.
const MIN_BLOCKS: usize = 64;

/// The largest estimate.
pub(crate) const MAX_COUNT: u32 = 15;

/// Requests of the window for each block: a block has 128 counters, and ten requests need sixteen.
const REQUESTS_A_BLOCK: u64 = 80;

pub(crate) struct Sketch {
    /// Their number is a power of two.
    blocks: Vec<Block>,
    requests: u64,
    window: u64,
}

/// Four rows of two words, with sixteen counters in each word.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Block([u64; 8]);

impl Sketch {
    /// Creates a sketch for a window of this many requests.
    pub fn new(window: u64) -> Sketch {
        let mut sketch = Sketch {
            blocks: vec![Block::default(); MIN_BLOCKS],
            requests: 0,
            window: 1,
        };
        sketch.set_window(window);
        sketch
    }

    /// Returns the window for a cache of this many objects.
    pub fn window_for(objects: usize) -> u64 {
        (objects as u64)
            .saturating_mul(WINDOW_PER_OBJECT)
            .clamp(SKETCH_MIN_WINDOW, SKETCH_MAX_WINDOW)
    }

    /// Changes the window: counters are halved after this many requests from now on. The table
    /// grows with it and does not shrink.
    pub fn set_window(&mut self, window: u64) {
        self.window = window;
        while (self.blocks.len() as u64) * REQUESTS_A_BLOCK < window {
            self.blocks.extend_from_within(..);
        }
    }

    pub fn window(&self) -> u64 {
        self.window
    }

    /// Counts a request. Returns true if this request ended the window and halved all counters.
    pub fn count(&mut self, id: u64) -> bool {
        let (block, counters) = self.place(id);
        let Block(words) = &mut self.blocks[block];
        let lowest = counters
            .map(|(word, shift)| words[word] >> shift & 15)
            .into_iter()
            .fold(15, u64::min);
        if lowest < u64::from(MAX_COUNT) {
            for (word, shift) in counters {
                if words[word] >> shift & 15 == lowest {
                    words[word] += 1 << shift;
                }
            }
        }
        self.pass()
    }

    /// Advances the window without counting a request for an id. Returns true if the window ended.
    pub fn pass(&mut self) -> bool {
        self.requests += 1;
        let ended = self.requests >= self.window;
        if ended {
            self.age();
        }
        ended
    }

    /// Returns the estimated number of requests for `id`, at most [`MAX_COUNT`].
    pub fn estimate(&self, id: u64) -> u32 {
        let (block, counters) = self.place(id);
        let Block(words) = &self.blocks[block];
        counters
            .map(|(word, shift)| (words[word] >> shift & 15) as u32)
            .into_iter()
            .fold(MAX_COUNT, u32::min)
    }

    /// Begins to load the counters of `id`, which will be used soon.
    #[inline]
    pub fn prefetch(&self, id: u64) {
        prefetch(&self.blocks, mix(id) as usize & (self.blocks.len() - 1));
    }

    pub fn bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<Block>()
    }

    fn age(&mut self) {
        for Block(words) in &mut self.blocks {
            for word in words {
                *word = *word >> 1 & 0x7777_7777_7777_7777;
            }
        }
        self.requests /= 2;
    }

    /// Returns the block, and in each row the word and the shift of the id's counter.
    fn place(&self, id: u64) -> (usize, [(usize, u32); 4]) {
        let hash = mix(id);
        let counter = |row: usize| {
            let pick = (hash >> (64 - 5 * (row + 1)) & 31) as usize;
            (2 * row + pick / 16, (pick % 16 * 4) as u32)
        };
        (
            hash as usize & (self.blocks.len() - 1),
            [counter(0), counter(1), counter(2), counter(3)],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[derive(Clone, Debug)]
    enum Step {
        Count(u64),
        Window(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![60 => (0..30_u64).prop_map(Step::Count), 1 => (1..30_000_u64).prop_map(Step::Window)]
    }

    proptest! {
        /// Thirty ids do not share all rows in 64 blocks or more (the hash is fixed), so exact
        /// counts are expected.
        #[test]
        fn an_estimate_differs_from_the_count(steps in proptest::collection::vec(step(), 0..600), window in 1..300_u64) {
            let mut sketch = Sketch::new(window);
            let (mut counts, mut requests, mut window) = (HashMap::new(), 0, window);
            for (nth, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Count(id) => {
                        let count: &mut u32 = counts.entry(id).or_default();
                        *count = (*count + 1).min(15);
                        requests += 1;
                        let ended = requests >= window;
                        prop_assert_eq!(sketch.count(id), ended);
                        if ended {
                            for count in counts.values_mut() { *count /= 2; }
                            requests /= 2;
                        }
                    }
                    Step::Window(other) => {
                        window = other;
                        sketch.set_window(window);
                    }
                }
                for id in (nth as u64 % 10..30).step_by(10) {
                    prop_assert_eq!(sketch.estimate(id), counts.get(&id).copied().unwrap_or(0));
                }
            }
        }
    }

    #[test]
    fn strangers_look_popular() {
        // 10,000 objects, and as many requests for others as the window allows before it ends.
        let mut sketch = Sketch::new(Sketch::window_for(10_000));
        for id in 0..50_000 {
            sketch.count(id);
        }
        let once = (0..50_000).filter(|id| sketch.estimate(*id) == 1).count();
        let never = (100_000..150_000)
            .filter(|id| sketch.estimate(*id) == 0)
            .count();
        assert!(
            once > 45_000,
            "{once} of 50000 that came once are known as such"
        );
        assert!(
            never > 40_000,
            "{never} of 50000 that never came are known as such"
        );
        assert!(sketch.bytes() <= 16 * 10_000);
    }
}
