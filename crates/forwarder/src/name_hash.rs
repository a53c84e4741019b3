//! Keyed hashes of names and of all their prefixes.
//!
//! Names come from the network, so their hashes are keyed, with a key of the host's entropy: nobody outside can make names collide. Tables
//! compare names whole all the same.
//!
//! NH (Black, Halevi, Krawczyk, Krovetz and Rogaway, UMAC: fast and secure message authentication, CRYPTO 1999, section 4.2) over words of 64
//! bits: a sum of products of two words each, every word first added to a key of its own. Of any two names that are chosen without the key the sums
//! agree by a chance of 2^-64. The sum and the length are folded to 64 bits by one more product, as wyhash and foldhash do it, so that
//! names numbered one after the other do not stand in a row.
//! * No product waits for another, and the sum up to a prefix is on the way to every longer one: one pass gives all prefixes, each for its last
//!   pair of words and the fold, and those of lengths that no table has cost nothing ([`Lengths`]). SipHash-1-3, which was here before, took three
//!   times the instructions, each waiting for the one before.
//! * The paper's keys are as long as the text. Here they begin again after 256 bytes, with the fold of what came before as one more pair.
//! * It is no pseudorandom function, as SipHash is: who saw hashes could reckon the key. Nobody does: they do not leave the forwarder.

use larder_packet::NameRef;
use siphasher::sip::SipHasher13;

/// The key of one forwarder's tables.
#[derive(Clone)]
pub struct NameHasher {
    /// Of the pairs of a block.
    pairs: [Pair; BLOCK],
    /// Of what came before the block.
    before: Pair,
    fold: Pair,
    /// Of the empty name.
    root: u64,
}

/// Two words of a name, or the keys for them.
type Pair = [u64; 2];

const PAIR_BYTES: usize = size_of::<Pair>();

/// Pairs that have keys of their own: 256 bytes, more than nearly all names.
const BLOCK: usize = 16;

/// One prefix of a name: its length in bytes of TLV-VALUE and its hash.
#[derive(Clone, Copy, Debug)]
pub struct Prefix {
    /// Length of the prefix in bytes of the name's TLV-VALUE.
    pub end: usize,
    /// Its number of components, at most [`Lengths::MOST`].
    pub components: u8,
    /// The keyed hash of these bytes.
    pub hash: u64,
}

/// Some numbers of components, of 1 to [`Lengths::MOST`]: those of the prefixes in a table, say. The root belongs to every set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lengths(u64);

impl Lengths {
    /// The greatest of them.
    pub const MOST: usize = u64::BITS as usize;

    /// All up to `most`.
    pub const fn up_to(most: usize) -> Lengths {
        match most {
            0 => Lengths(0),
            most @ 1..Lengths::MOST => Lengths((1 << most) - 1),
            _ => Lengths(u64::MAX),
        }
    }

    /// Bit n - 1 stands for n.
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

    /// Whether it is one of them; the root's is not told.
    #[inline]
    pub fn contains(self, components: usize) -> bool {
        self.0 & bit(components) != 0
    }

    /// Whether all of `others` are among them.
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

/// Of 1 to [`Lengths::MOST`] components; of others none.
#[inline]
const fn bit(components: usize) -> u64 {
    match components {
        1..=Lengths::MOST => 1 << (components - 1),
        _ => 0,
    }
}

/// Prefixes of a name that somebody has hashed already, or none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hashed<'a> {
    pub(crate) prefixes: &'a [Prefix],
    pub(crate) lengths: Lengths,
}

impl<'a> Hashed<'a> {
    /// The prefixes, where they are all of these lengths that the name has.
    #[inline]
    pub(crate) fn of(self, lengths: Lengths) -> Option<&'a [Prefix]> {
        (!self.prefixes.is_empty() && self.lengths.contain(lengths)).then_some(self.prefixes)
    }
}

impl NameHasher {
    /// Hashes under this 128-bit key.
    pub fn new([k0, k1]: [u64; 2]) -> Self {
        let prf = SipHasher13::new_with_keys(k0, k1);
        let mut numbers = 0u64..;
        let mut next = || numbers.by_ref().take(2).map(|number| prf.hash(&number.to_le_bytes())).collect::<Vec<_>>();
        let mut pair = || <Pair>::try_from(next()).expect("two of them");
        let mut hasher = NameHasher { pairs: std::array::from_fn(|_| pair()), before: pair(), fold: pair(), root: 0 };
        hasher.root = hasher.hash(&[]);
        hasher
    }

    /// The hash of a name's TLV-VALUE.
    #[inline]
    pub fn hash(&self, name: &[u8]) -> u64 {
        let (pairs, _) = name.as_chunks();
        let mut sum = Sum::default();
        if pairs.len() < BLOCK {
            // Nearly all names.
            let products = pairs.iter().zip(&self.pairs).map(|(pair, keys)| product(words(*pair), *keys));
            sum = Sum { sum: products.fold(0, u128::wrapping_add), pairs: pairs.len() };
        } else {
            pairs.iter().for_each(|pair| sum.add(self, words(*pair)));
        }
        sum.finish(self, name)
    }

    /// The hashes of the name's prefixes of these lengths, the root's first, into `out` (cleared first).
    pub fn prefixes(&self, name: NameRef<'_>, lengths: Lengths, out: &mut Vec<Prefix>) {
        out.clear();
        self.append_prefixes(name, lengths, out);
    }

    /// As [`NameHasher::prefixes`], behind what is in `out`.
    #[inline]
    pub fn append_prefixes(&self, name: NameRef<'_>, lengths: Lengths, out: &mut Vec<Prefix>) {
        out.push(Prefix { end: 0, components: 0, hash: self.root });
        let mut sum = Sum::default();
        let bytes = name.as_bytes();
        let mut pairs = bytes.as_chunks().0.iter();
        let (mut left, mut components) = (lengths.0, 0);
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
            while sum.pairs < end / PAIR_BYTES
                && let Some(pair) = pairs.next()
            {
                sum.add(self, words(*pair));
            }
            out.push(Prefix { end, components, hash: sum.finish(self, &bytes[..end]) });
        }
    }
}

/// What the pairs of a name came to so far.
#[derive(Clone, Copy, Default)]
struct Sum {
    sum: u128,
    pairs: usize,
}

impl Sum {
    #[inline(always)]
    fn add(&mut self, keys: &NameHasher, pair: Pair) {
        let place = self.pairs % BLOCK;
        if place == 0 && self.pairs > 0 {
            self.sum = product([self.fold(keys, 0), 0], keys.before);
        }
        self.sum = self.sum.wrapping_add(product(pair, keys.pairs[place]));
        self.pairs += 1;
    }

    /// The hash of `name`, whose whole pairs have been added.
    #[inline(always)]
    fn finish(mut self, keys: &NameHasher, name: &[u8]) -> u64 {
        self.add(keys, last_pair(name));
        self.fold(keys, name.len())
    }

    #[inline(always)]
    fn fold(self, keys: &NameHasher, length: usize) -> u64 {
        let [low, high] = halves(self.sum);
        let [low, high] = halves(u128::from(low ^ keys.fold[0]) * u128::from(high ^ keys.fold[1] ^ length as u64));
        low ^ high
    }
}

#[inline(always)]
fn product([a, b]: Pair, keys: Pair) -> u128 {
    u128::from(a.wrapping_add(keys[0])) * u128::from(b.wrapping_add(keys[1]))
}

#[inline(always)]
fn halves(number: u128) -> Pair {
    [number as u64, (number >> 64) as u64]
}

#[inline(always)]
fn words(bytes: [u8; PAIR_BYTES]) -> Pair {
    halves(u128::from_le_bytes(bytes))
}

/// The bytes after the last whole pair, with zeros behind them.
#[inline(always)]
fn last_pair(name: &[u8]) -> Pair {
    let length = name.len() % PAIR_BYTES;
    match name.last_chunk() {
        // They are the last of these sixteen; the shift is by all of them where there are none.
        Some(bytes) => {
            let bits = 8 * (PAIR_BYTES - length) as u32;
            halves(u128::from_le_bytes(*bytes).checked_shr(bits).unwrap_or(0))
        }
        None => {
            let mut bytes = [0; PAIR_BYTES];
            bytes[..length].copy_from_slice(name);
            words(bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_packet::Name;
    use proptest::prelude::*;
    use std::collections::HashSet;

    /// The same, written down as in the paper: a block after the other, and all bytes copied.
    fn naive(keys: &NameHasher, name: &[u8]) -> u64 {
        let mut text = name.to_vec();
        text.resize((name.len() / 16 + 1) * 16, 0);
        let word = |place: usize| u64::from_le_bytes(text[8 * place..8 * place + 8].try_into().unwrap());
        let nh = |a: u64, b: u64, [k, l]: Pair| u128::from(a.wrapping_add(k)) * u128::from(b.wrapping_add(l));
        let fold = |sum: u128, length: u64| {
            let product =
                u128::from(sum as u64 ^ keys.fold[0]) * u128::from((sum >> 64) as u64 ^ keys.fold[1] ^ length);
            (product ^ (product >> 64)) as u64
        };
        let places: Vec<usize> = (0..text.len() / 16).collect();
        let mut sum = 0;
        for (number, block) in places.chunks(16).enumerate() {
            sum = if number == 0 { 0 } else { nh(fold(sum, 0), 0, keys.before) };
            for (key, place) in block.iter().enumerate() {
                sum = sum.wrapping_add(nh(word(2 * place), word(2 * place + 1), keys.pairs[key]));
            }
        }
        fold(sum, name.len() as u64)
    }

    proptest! {
        #[test]
        fn a_prefix_has_another_hash_than_as_a_name(
            key in any::<[u64; 2]>(),
            components in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..16),
            wanted in prop::collection::btree_set(1usize..18, 0..18),
        ) {
            let mut name = Name::root();
            for component in &components {
                name.push_generic(component);
            }
            let hasher = NameHasher::new(key);
            prop_assert_eq!(hasher.hash(name.as_bytes()), naive(&hasher, name.as_bytes()));
            let mut prefixes = Vec::new();
            let mut lengths = Lengths::default();
            wanted.iter().for_each(|length| lengths.insert(*length));
            prop_assert!((1..18).all(|length| lengths.contains(length) == wanted.contains(&length)));
            hasher.prefixes(name.as_name(), lengths, &mut prefixes);
            let there: Vec<usize> = prefixes.iter().map(|prefix| usize::from(prefix.components)).collect();
            let expected: Vec<usize> = (0..=components.len()).filter(|length| *length == 0 || wanted.contains(length)).collect();
            prop_assert_eq!(there, expected);
            for prefix in &prefixes {
                let expected = name.as_name().prefix(usize::from(prefix.components)).to_name();
                prop_assert_eq!(prefix.end, expected.as_bytes().len());
                prop_assert_eq!(prefix.hash, naive(&hasher, expected.as_bytes()));
            }
        }
    }

    #[test]
    fn names_that_collide_under_one_key_collide_under_all() {
        // Whoever knows the keys makes one factor of a product 0; then the other's word may be anything.
        let known = NameHasher::new([1, 2]);
        let crafted = |word: u64| {
            let mut name = 0u64.wrapping_sub(known.pairs[0][0]).to_le_bytes().to_vec();
            name.extend_from_slice(&word.to_le_bytes());
            name
        };
        let different =
            |hasher: &NameHasher| (0..1000).map(|word| hasher.hash(&crafted(word))).collect::<HashSet<_>>().len();
        assert_eq!(different(&known), 1, "they do not collide at all");
        assert_eq!(different(&NameHasher::new([1, 3])), 1000);
    }

    #[test]
    fn numbered_names_crowd_in_a_table() {
        const BUCKETS: usize = 1 << 16;
        for key in 0..2 {
            let hasher = NameHasher::new([key, 5]);
            for (step, at) in [(1u64, 0usize), (256, 8), (1 << 48, 40), (10, 300)] {
                let mut buckets = vec![0u8; BUCKETS];
                for number in 0..BUCKETS as u64 {
                    let mut name = vec![b'x'; at + 11];
                    name[at..at + 8].copy_from_slice(&(number * step).to_le_bytes());
                    // What the tables take: the upper half of the hash.
                    buckets[(hasher.hash(&name) >> 48) as usize] += 1;
                }
                // Thrown in at random: 1/e of them are empty, and none has more than a dozen.
                let empty = buckets.iter().filter(|count| **count == 0).count() as f64 / BUCKETS as f64;
                assert!((0.35..0.39).contains(&empty), "{empty} at {at} by {step}");
                assert!(buckets.iter().all(|count| *count < 13), "at {at} by {step}");
            }
        }
    }
}
