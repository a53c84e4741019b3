//! Keyed hashes of names and of all their prefixes.
//!
//! Names come from the network, so their hashes are keyed, with a key from the host's entropy: an
//! attacker cannot construct names that collide. Tables still compare whole names.
//!
//! The hash is NH (Black, Halevi, Krawczyk, Krovetz and Rogaway, UMAC: fast and secure message
//! authentication, CRYPTO 1999) over words of 64 bits, as in VMAC (Krovetz and Dai,
//! draft-krovetz-vmac-01): the sum of products of neighbouring words, each with a key word added,
//! modulo 2^128. The sums of each 512 bytes go into a strongly universal hash (Lemire and Kaser,
//! Strongly universal string hashing is fast, Computer Journal 57, 2014: the upper half of
//! Multilinear), and through a bijective mixing function. A sum over whole blocks is part of the
//! sum of every longer name, so one pass computes the hashes of all prefixes: each costs its last
//! block and the finish. Prefixes of lengths that no table has cost nothing ([`Lengths`]). The last
//! block is filled with zeros, and the length is not hashed: no component begins with a zero, so no
//! two names, and no two sequences of elements, become equal.
//!
//! What is guaranteed: if two names are chosen without knowledge of hashes, any b bits of their
//! hashes are equal with a probability of at most 2^-b + 2^-63 over the key. This is a theorem; its
//! only assumption is that the key words, which SipHash-1-3 makes from the key, are as good as
//! random. What is not guaranteed: the hash is not a pseudorandom function, as SipHash is. Whoever
//! reads hashes can compute the key, so no hash leaves the forwarder. A neighbour can observe three
//! things that depend on hashes: the nanoseconds of a lookup; a Nack for a duplicate that was none,
//! if 52 bits of the hashes of two pairs of name and nonce are equal (one Interest in 2^35); and
//! which new Data the Content Store admits sooner, since names share counters. Each shows only that
//! two hashes agree in some bits. No way from there to the key is known, and no proof that there is
//! none.
//!
//! O(bytes), half an instruction per byte; nothing is allocated.

use larder_packet::NameRef;
use siphasher::sip::SipHasher13;
use std::ops::Range;

/// Bytes of which two words make a product.
const BLOCK_BYTES: usize = 16;
/// The number of blocks with key words of their own. Later blocks use the same key words again, and
/// their sums get other factors.
const BLOCKS: usize = 32;

/// The key of one forwarder's tables.
#[derive(Clone)]
pub struct NameHasher {
    /// The function that makes the key words.
    words: SipHasher13,
    /// Added to the words of each block.
    blocks: [[u64; 2]; BLOCKS],
    /// The factors of the first sum.
    factors: Factors,
    constant: u128,
    /// Odd.
    multiplier: u64,
    /// The hash of the empty name.
    root: u64,
}

/// The factors of the halves of a sum.
#[derive(Clone, Copy)]
struct Factors {
    low: u128,
    high: u128,
}

/// The state of the hash after some blocks of a name.
#[derive(Clone, Copy)]
struct State {
    /// The weighed sums of those 512 bytes that are full.
    weighed: u128,
    /// The sum of the others.
    sum: u128,
    /// Blocks in it, fewer than [`BLOCKS`].
    blocks: usize,
    /// The number of finished sums, which selects the factors of the next one.
    sums: u64,
    factors: Factors,
}

/// One prefix of a name: its length in bytes of TLV-VALUE and its hash.
#[derive(Clone, Copy, Debug)]
pub struct Prefix {
    /// Length of the prefix in bytes of the name's TLV-VALUE.
    pub end: usize,
    /// The number of components, at most [`Lengths::MOST`].
    pub components: u8,
    /// The keyed hash of these bytes.
    pub hash: u64,
}

/// A set of numbers of components from 1 to [`Lengths::MOST`], such as those of the prefixes in a
/// table. The root belongs to every set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lengths(u64);

impl Lengths {
    /// The greatest of them.
    pub const MOST: usize = u64::BITS as usize;

    /// All up to `most`.
    pub const fn up_to(most: usize) -> Lengths {
        if most < Lengths::MOST {
            Lengths((1 << most) - 1)
        } else {
            Lengths(u64::MAX)
        }
    }

    /// Returns the set as bits: bit n - 1 stands for n.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// The lengths that [`Lengths::bits`] gave.
    pub fn from_bits(bits: u64) -> Lengths {
        Lengths(bits)
    }

    /// Adds one.
    pub fn insert(&mut self, components: usize) {
        self.0 |= bit(components);
    }

    /// Takes one out.
    pub fn remove(&mut self, components: usize) {
        self.0 &= !bit(components);
    }

    /// Returns true if the set contains this number of components. The root is not in question.
    #[inline]
    pub fn contains(self, components: usize) -> bool {
        self.0 & bit(components) != 0
    }

    /// Returns true if the set contains all of `others`.
    #[inline]
    pub fn contain(self, others: Lengths) -> bool {
        others.0 & !self.0 == 0
    }

    /// These and the others.
    #[inline]
    pub fn and(self, others: Lengths) -> Lengths {
        Lengths(self.0 | others.0)
    }
}

/// Returns the bit of 1 to [`Lengths::MOST`] components, and no bit for other numbers.
#[inline]
const fn bit(components: usize) -> u64 {
    match components {
        1..=Lengths::MOST => 1 << (components - 1),
        _ => 0,
    }
}

/// The prefixes of a name that were hashed before, or none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hashed<'a> {
    pub(crate) prefixes: &'a [Prefix],
    pub(crate) lengths: Lengths,
}

impl<'a> Hashed<'a> {
    /// Those of one name, where these are the prefixes of many.
    #[inline]
    pub(crate) fn at(self, places: &Range<usize>) -> Hashed<'a> {
        Hashed {
            prefixes: &self.prefixes[places.clone()],
            ..self
        }
    }

    /// The prefixes, where they are all of these lengths that the name has.
    #[inline]
    pub(crate) fn of(self, lengths: Lengths) -> Option<&'a [Prefix]> {
        (!self.prefixes.is_empty() && self.lengths.contain(lengths)).then_some(self.prefixes)
    }
}

impl NameHasher {
    /// Hashes under this 128-bit key.
    pub fn new([k0, k1]: [u64; 2]) -> Self {
        let words = SipHasher13::new_with_keys(k0, k1);
        let word = |number: usize| word(&words, number as u64);
        let mut hasher = NameHasher {
            blocks: std::array::from_fn(|block| [word(2 * block), word(2 * block + 1)]),
            constant: wide(&words, CONSTANTS),
            multiplier: word(CONSTANTS as usize + 2) | 1,
            factors: Factors::of(&words, 0),
            root: 0,
            words,
        };
        hasher.root = hasher.hash(&[]);
        hasher
    }

    /// The hash of a name's TLV-VALUE; bytes that are none may differ in zeros at the end, and have
    /// the same.
    #[inline(always)]
    pub fn hash(&self, name: &[u8]) -> u64 {
        let mut state = self.begin();
        self.absorb(&mut state, name.as_chunks().0);
        self.finish(&state, name, name.len())
    }

    /// The hashes of the name's prefixes of these lengths, the root's first, into `out` (cleared
    /// first).
    pub fn prefixes(&self, name: NameRef<'_>, lengths: Lengths, out: &mut Vec<Prefix>) {
        out.clear();
        self.append_prefixes(name, lengths, out);
    }

    /// Like [`NameHasher::prefixes`], and appends to `out`.
    #[inline]
    pub fn append_prefixes(&self, name: NameRef<'_>, lengths: Lengths, out: &mut Vec<Prefix>) {
        out.push(Prefix {
            end: 0,
            components: 0,
            hash: self.root,
        });
        let mut state = self.begin();
        let bytes = name.as_bytes();
        let (blocks, _) = bytes.as_chunks();
        let (mut absorbed, mut left, mut components) = (0, lengths.0, 0);
        let mut ends = name.prefix_ends();
        while left != 0
            && let Some(end) = ends.next()
        {
            components += 1;
            let is_wanted = left & 1 == 1;
            left >>= 1;
            if !is_wanted {
                continue;
            }
            self.absorb(&mut state, &blocks[absorbed..end / BLOCK_BYTES]);
            absorbed = end / BLOCK_BYTES;
            out.push(Prefix {
                end,
                components,
                hash: self.finish(&state, bytes, end),
            });
        }
    }

    #[inline(always)]
    fn begin(&self) -> State {
        State {
            weighed: self.constant,
            sum: 0,
            blocks: 0,
            sums: 0,
            factors: self.factors,
        }
    }

    /// Whole blocks, behind those that were absorbed.
    #[inline(always)]
    fn absorb(&self, state: &mut State, mut blocks: &[[u8; BLOCK_BYTES]]) {
        loop {
            let keys = &self.blocks[state.blocks..];
            for (block, key) in blocks.iter().zip(keys) {
                state.sum = state
                    .sum
                    .wrapping_add(product(u128::from_le_bytes(*block), key));
            }
            if blocks.len() < keys.len() {
                state.blocks += blocks.len();
                return;
            }
            blocks = &blocks[keys.len()..];
            *state = state.end_sum(&self.words);
        }
    }

    /// The hash of the first `end` bytes of `name`, whose whole blocks were absorbed.
    #[inline(always)]
    fn finish(&self, state: &State, name: &[u8], end: usize) -> u64 {
        let mut sum = state.sum;
        if !end.is_multiple_of(BLOCK_BYTES) {
            sum = sum.wrapping_add(product(last_block(name, end), &self.blocks[state.blocks]));
        }
        let all = state.weighed.wrapping_add(state.factors.weigh(sum));
        self.mix((all >> 64) as u64)
    }

    /// Numbers one after the other would have hashes at equal distances, which for one key in so
    /// many lie side by side. One to one: what holds of pairs of hashes holds of them mixed.
    #[inline]
    fn mix(&self, hash: u64) -> u64 {
        let mixed = (hash ^ hash >> 32).wrapping_mul(self.multiplier);
        mixed ^ mixed >> 32
    }
}

impl State {
    /// The key words of blocks are used up: the sum is weighed, and the next begins.
    // By value: so most names, which are shorter, never have their state in memory.
    #[cold]
    #[inline(never)]
    fn end_sum(self, words: &SipHasher13) -> State {
        let weighed = self.weighed.wrapping_add(self.factors.weigh(self.sum));
        let sums = self.sums + 1;
        State {
            weighed,
            sum: 0,
            blocks: 0,
            sums,
            factors: Factors::of(words, sums),
        }
    }
}

/// Key words by number: of the blocks, of the constants, of the sums.
const CONSTANTS: u64 = 2 * BLOCKS as u64;
const FACTORS: u64 = CONSTANTS + 3;

fn word(words: &SipHasher13, number: u64) -> u64 {
    words.hash(&number.to_le_bytes())
}

fn wide(words: &SipHasher13, number: u64) -> u128 {
    u128::from(word(words, number)) << 64 | u128::from(word(words, number + 1))
}

impl Factors {
    fn of(words: &SipHasher13, sum: u64) -> Factors {
        let number = FACTORS + 4 * sum;
        Factors {
            low: wide(words, number),
            high: wide(words, number + 2),
        }
    }

    #[inline]
    fn weigh(&self, sum: u128) -> u128 {
        let low = self.low.wrapping_mul(u128::from(sum as u64));
        low.wrapping_add(self.high.wrapping_mul(sum >> 64))
    }
}

#[inline]
fn product(block: u128, key: &[u64; 2]) -> u128 {
    let [first, second] = [
        (block as u64).wrapping_add(key[0]),
        ((block >> 64) as u64).wrapping_add(key[1]),
    ];
    u128::from(first) * u128::from(second)
}

/// The bytes after the last whole block, in the low end.
#[inline(always)]
fn last_block(name: &[u8], end: usize) -> u128 {
    let bits = 8 * (end % BLOCK_BYTES) as u32;
    // In a longer name the block is complete; the bytes of the next components are masked.
    if let Some(block) = name[end - end % BLOCK_BYTES..].first_chunk() {
        return u128::from_le_bytes(*block) & !(u128::MAX << bits);
    }
    match name[..end].last_chunk() {
        // They are the last of these sixteen; there are some.
        Some(block) => u128::from_le_bytes(*block) >> (128 - bits),
        None => name[..end]
            .iter()
            .rev()
            .fold(0, |tail, byte| tail << 8 | u128::from(*byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_packet::Name;
    use proptest::prelude::*;

    /// As the head of this file has it, a sum and a prefix at a time.
    fn by_definition(hasher: &NameHasher, name: &[u8]) -> u64 {
        let wide = |number: u64| {
            let [high, low] =
                [number, number + 1].map(|number| u128::from(word(&hasher.words, number)));
            (high << 64) + low
        };
        let mut blocks: Vec<[u8; 16]> = name
            .chunks(16)
            .map(|chunk| std::array::from_fn(|at| *chunk.get(at).unwrap_or(&0)))
            .collect();
        blocks.resize(blocks.len().max(1), [0; 16]);
        let sums = blocks.chunks(32).enumerate().map(|(number, blocks)| {
            let products = blocks.iter().enumerate().map(|(place, block)| {
                let words =
                    [0, 8].map(|at| u64::from_le_bytes(block[at..at + 8].try_into().unwrap()));
                let keys = [0, 1].map(|half| word(&hasher.words, 2 * place as u64 + half));
                let is_there = 512 * number + 16 * place < name.len();
                u128::from(is_there)
                    * u128::from(words[0].wrapping_add(keys[0]))
                    * u128::from(words[1].wrapping_add(keys[1]))
            });
            let sum = products.fold(0, u128::wrapping_add);
            let at = 67 + 4 * number as u64;
            let [low, high] = [at, at + 2].map(wide);
            low.wrapping_mul(sum & u128::from(u64::MAX))
                .wrapping_add(high.wrapping_mul(sum >> 64))
        });
        let sum = (sums.fold(wide(64), u128::wrapping_add) >> 64) as u64;
        let mixed = (sum ^ sum >> 32).wrapping_mul(word(&hasher.words, 66) | 1);
        mixed ^ mixed >> 32
    }

    /// Failure: a set of all lengths up to some number has one more or less.
    #[test]
    fn lengths_up_to_a_number_end_elsewhere() {
        for most in [
            0,
            1,
            12,
            Lengths::MOST - 1,
            Lengths::MOST,
            Lengths::MOST + 1,
        ] {
            let lengths = Lengths::up_to(most);
            assert!(
                (1..=Lengths::MOST).all(|length| lengths.contains(length) == (length <= most)),
                "{most}"
            );
        }
    }

    proptest! {
        #[test]
        fn a_prefix_has_another_hash_than_as_a_name_of_its_own(
            key in any::<[u64; 2]>(),
            components in prop::collection::vec(prop_oneof![
                prop::collection::vec(any::<u8>(), 0..40),
                prop::collection::vec(any::<u8>(), 0..700),
            ], 0..12),
            wanted in prop::collection::btree_set(1usize..14, 0..14),
        ) {
            let mut name = Name::root();
            for component in &components {
                name.push_generic(component);
            }
            let hasher = NameHasher::new(key);
            prop_assert_eq!(hasher.hash(name.as_bytes()), by_definition(&hasher, name.as_bytes()));
            let mut prefixes = Vec::new();
            let mut lengths = Lengths::default();
            for length in &wanted { lengths.insert(*length); }
            prop_assert!((1..14).all(|length| lengths.contains(length) == wanted.contains(&length)));
            hasher.prefixes(name.as_name(), lengths, &mut prefixes);
            let there: Vec<usize> = prefixes.iter().map(|prefix| usize::from(prefix.components)).collect();
            let expected: Vec<usize> = (0..=components.len()).filter(|length| *length == 0 || wanted.contains(length)).collect();
            prop_assert_eq!(there, expected);
            for prefix in &prefixes {
                let expected = name.as_name().prefix(usize::from(prefix.components)).to_name();
                prop_assert_eq!(prefix.end, expected.as_bytes().len());
                prop_assert_eq!(prefix.hash, by_definition(&hasher, expected.as_bytes()));
            }
        }

        #[test]
        fn blocks_at_their_edges_are_hashed_otherwise(key in any::<[u64; 2]>(), block in 0usize..70, more in 0usize..3) {
            let hasher = NameHasher::new(key);
            let name: Vec<u8> = (0..16 * block + more).map(|at| (at % 251) as u8 + 1).collect();
            for name in [&name[..], &name[..name.len().saturating_sub(1)]] {
                prop_assert_eq!(hasher.hash(name), by_definition(&hasher, name));
            }
        }
    }

    /// Names that collide wherever a hash is not keyed well: words changed places, zeros came or
    /// went, a difference cancels in the next word, in the other half of a block, in the block or
    /// the 512 bytes behind it.
    #[test]
    fn names_made_to_collide_do_so_under_many_keys() {
        const NAME: [u8; 1200] = [0x5a; 1200];
        let changed = |changes: &[(usize, u8)]| {
            let mut name = NAME.to_vec();
            for (at, byte) in changes {
                name[*at] = *byte;
            }
            name
        };
        let mut pairs = vec![
            (vec![0; 16], vec![0; 32]),
            (vec![], vec![0]),
            (vec![0; 512], vec![0; 513]),
            (NAME[..15].to_vec(), NAME[..14].to_vec()),
        ];
        for [a, b] in [[0, 8], [0, 16], [8, 16], [0, 512], [496, 512], [24, 1048]] {
            pairs.push((changed(&[(a, 1)]), changed(&[(b, 1)])));
            pairs.push((changed(&[(a, 0x5b), (b, 0x59)]), changed(&[])));
            pairs.push((changed(&[(a + 7, 0xda), (b + 7, 0xda)]), changed(&[])));
        }
        let hashers: Vec<NameHasher> = (0..2048).map(|key| NameHasher::new([key, 7])).collect();
        for (one, other) in pairs {
            let mut same = [0; 4];
            for hasher in &hashers {
                let differ = hasher.hash(&one) ^ hasher.hash(&other);
                assert_ne!(differ, 0, "{one:?} {other:?}");
                // Bits that choose a bucket, a tag, a line of the filter and a bit of it.
                for (shift, same) in [56, 32, 6, 0].iter().zip(&mut same) {
                    *same += u32::from((differ >> shift) as u8 == 0);
                }
            }
            // 8 of 2,048 are expected of each eight bits; 32 are more than eight deviations off.
            assert!(
                same.iter().all(|same| *same < 32),
                "{same:?} of {one:?} {other:?}"
            );
        }
    }
}
