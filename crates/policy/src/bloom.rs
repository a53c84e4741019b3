//! A Bloom filter in blocks of a cache line (Putze, Sanders and Singler, Cache-, hash- and
//! space-efficient Bloom filters, WEA 2007).
//!
//! An id sets six bits of one block of 512. With ten bits a key, about 1.3 % of the other keys seem
//! to be present. This is a little worse than bits spread over the whole table, and costs one cache
//! miss instead of six.

use crate::hash::mix;

/// Bits that are provided for each key.
const BITS_A_KEY: u64 = 10;
/// Bits that a key sets.
const BITS_SET: u32 = 6;

#[derive(Clone, Default)]
pub(crate) struct Bloom {
    /// Their number is a power of two, or 0.
    blocks: Vec<Block>,
}

#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Block([u64; 8]);

impl Bloom {
    /// Creates an empty filter for `keys`.
    pub fn new(keys: u64) -> Bloom {
        Bloom {
            blocks: vec![Block::default(); blocks_for(keys)],
        }
    }

    /// Removes all keys, and adapts the size to `keys`.
    pub fn clear_for(&mut self, keys: u64) {
        let blocks = blocks_for(keys);
        if blocks == self.blocks.len() {
            self.blocks.fill(Block::default());
        } else {
            *self = Bloom::new(keys);
        }
    }

    /// Adds `id`. Returns false if it seems to be present already.
    pub fn insert(&mut self, id: u64) -> bool {
        let (block, mask) = self.place(id);
        let Some(Block(words)) = self.blocks.get_mut(block) else {
            return false;
        };
        let mut new = false;
        for (word, bits) in words.iter_mut().zip(mask) {
            new |= *word & bits != bits;
            *word |= bits;
        }
        new
    }

    /// Returns true if `id` was added, and sometimes for other ids.
    pub fn contains(&self, id: u64) -> bool {
        let (block, mask) = self.place(id);
        self.blocks.get(block).is_some_and(|Block(words)| {
            words
                .iter()
                .zip(mask)
                .all(|(word, bits)| word & bits == bits)
        })
    }

    pub fn bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<Block>()
    }

    fn place(&self, id: u64) -> (usize, [u64; 8]) {
        let hash = mix(id);
        // Six times nine bits, which are independent of the block's number.
        let mut bits = mix(hash ^ 0x9e37_79b9_7f4a_7c15);
        let mut mask = [0; 8];
        for _ in 0..BITS_SET {
            mask[(bits >> 6 & 7) as usize] |= 1 << (bits & 63);
            bits >>= 9;
        }
        (hash as usize & self.blocks.len().wrapping_sub(1), mask)
    }
}

fn blocks_for(keys: u64) -> usize {
    (keys * BITS_A_KEY).div_ceil(512).next_power_of_two() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_forgets_or_knows_too_much() {
        for keys in [1_u64, 100, 20_000] {
            let mut bloom = Bloom::new(keys);
            for id in 0..keys {
                bloom.insert(id);
            }
            assert!((0..keys).all(|id| bloom.contains(id) && !bloom.clone().insert(id)));
            let taken = (keys..keys + 20_000)
                .filter(|id| bloom.contains(*id))
                .count();
            assert!(
                taken < 500,
                "{taken} of 20000 unknown ids are taken for known, at {keys} keys"
            );
            bloom.clear_for(keys);
            assert!((0..keys).all(|id| !bloom.contains(id)));
        }
    }
}
