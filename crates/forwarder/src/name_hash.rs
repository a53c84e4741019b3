//! Keyed hashes of names and of all their prefixes.
//!
//! Names come from the network, so their hashes are keyed, with a key of the host's entropy: nobody outside can make names collide. Tables
//! compare names whole all the same.
//!
//! SipHash-1-3 (Aumasson and Bernstein, SipHash: a fast short-input PRF, INDOCRYPT 2012). Its state after the whole words of a prefix is on the
//! way to every longer one, so one pass gives them all: a prefix costs its last word and the finish, and those of lengths that no table has
//! cost nothing ([`Lengths`]). The siphasher crate, which buffers what is written, is the oracle in the tests.

use larder_packet::NameRef;

/// The key of one forwarder's tables.
#[derive(Clone)]
pub struct NameHasher {
    keyed: State,
    /// Of the empty name.
    root: u64,
}

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
        // "somepseudorandomlygeneratedbytes", the paper's initialisation.
        let constants = [0x736f_6d65_7073_6575, 0x646f_7261_6e64_6f6d, 0x6c79_6765_6e65_7261, 0x7465_6462_7974_6573];
        let [c0, c1, c2, c3] = constants;
        let keyed = State { v0: k0 ^ c0, v1: k1 ^ c1, v2: k0 ^ c2, v3: k1 ^ c3 };
        NameHasher { keyed, root: keyed.finish(0) }
    }

    /// The hash of a name's TLV-VALUE.
    #[inline]
    pub fn hash(&self, name: &[u8]) -> u64 {
        let mut state = self.keyed;
        let (words, _) = name.as_chunks::<8>();
        words.iter().for_each(|word| state.absorb(u64::from_le_bytes(*word)));
        state.finish(last_word(name))
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
        let mut state = self.keyed;
        let bytes = name.as_bytes();
        let (words, _) = bytes.as_chunks::<8>();
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
            for word in &words[absorbed..end / 8] {
                state.absorb(u64::from_le_bytes(*word));
            }
            absorbed = end / 8;
            // Of a longer name the word at the end is there whole, with what belongs to the next components cut off.
            let last = match words.get(absorbed) {
                Some(word) => {
                    let tail = u64::from_le_bytes(*word) & !(u64::MAX << (8 * (end % 8)));
                    tail | (end as u64) << 56
                }
                None => last_word(&bytes[..end]),
            };
            out.push(Prefix { end, components, hash: state.finish(last) });
        }
    }
}

/// The bytes after the last whole word, with the lowest byte of the whole length above them.
#[inline]
fn last_word(name: &[u8]) -> u64 {
    let length = name.len() as u64;
    let tail = match name.last_chunk::<8>() {
        // They are the last of these eight; the shift is by 8 bytes where there are none.
        Some(word) => u64::from_le_bytes(*word).checked_shr(64 - 8 * (length % 8) as u32).unwrap_or(0),
        None => name.iter().rev().fold(0, |tail, byte| tail << 8 | u64::from(*byte)),
    };
    tail | length << 56
}

#[derive(Clone, Copy)]
struct State {
    v0: u64,
    v1: u64,
    v2: u64,
    v3: u64,
}

impl State {
    #[inline(always)]
    fn round(&mut self) {
        self.v0 = self.v0.wrapping_add(self.v1);
        self.v2 = self.v2.wrapping_add(self.v3);
        self.v1 = self.v1.rotate_left(13) ^ self.v0;
        self.v3 = self.v3.rotate_left(16) ^ self.v2;
        self.v0 = self.v0.rotate_left(32);
        self.v2 = self.v2.wrapping_add(self.v1);
        self.v0 = self.v0.wrapping_add(self.v3);
        self.v1 = self.v1.rotate_left(17) ^ self.v2;
        self.v3 = self.v3.rotate_left(21) ^ self.v0;
        self.v2 = self.v2.rotate_left(32);
    }

    #[inline(always)]
    fn absorb(&mut self, word: u64) {
        self.v3 ^= word;
        self.round();
        self.v0 ^= word;
    }

    #[inline(always)]
    fn finish(mut self, last: u64) -> u64 {
        self.absorb(last);
        self.v2 ^= 0xff;
        self.round();
        self.round();
        self.round();
        self.v0 ^ self.v1 ^ self.v2 ^ self.v3
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_packet::Name;
    use proptest::prelude::*;
    use siphasher::sip::SipHasher13;

    proptest! {
        #[test]
        fn hashes_of_names_and_prefixes_are_those_of_siphash(
            key in any::<[u64; 2]>(),
            components in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..12),
            wanted in prop::collection::btree_set(1usize..14, 0..14),
        ) {
            let mut name = Name::root();
            for component in &components {
                name.push_generic(component);
            }
            let (hasher, oracle) = (NameHasher::new(key), SipHasher13::new_with_keys(key[0], key[1]));
            prop_assert_eq!(hasher.hash(name.as_bytes()), oracle.hash(name.as_bytes()));
            let mut prefixes = Vec::new();
            let mut lengths = Lengths::default();
            wanted.iter().for_each(|length| lengths.insert(*length));
            prop_assert!((1..14).all(|length| lengths.contains(length) == wanted.contains(&length)));
            hasher.prefixes(name.as_name(), lengths, &mut prefixes);
            let there: Vec<usize> = prefixes.iter().map(|prefix| usize::from(prefix.components)).collect();
            let expected: Vec<usize> = (0..=components.len()).filter(|length| *length == 0 || wanted.contains(length)).collect();
            prop_assert_eq!(there, expected);
            for prefix in &prefixes {
                let expected = name.as_name().prefix(usize::from(prefix.components)).to_name();
                prop_assert_eq!(prefix.end, expected.as_bytes().len());
                prop_assert_eq!(prefix.hash, oracle.hash(expected.as_bytes()));
            }
        }
    }
}
