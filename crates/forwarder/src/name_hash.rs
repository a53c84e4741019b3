//! Keyed hashes of names and of all their prefixes.
//!
//! Names come from the network, so their hashes are keyed, with a key of the host's entropy: nobody outside can make names collide. Tables
//! compare names whole all the same.
//!
//! SipHash-1-3 (Aumasson and Bernstein, SipHash: a fast short-input PRF, INDOCRYPT 2012). Its state after the whole words of a prefix is on the
//! way to every longer one, so one pass gives them all: a prefix costs its last word and the finish. The siphasher crate, which buffers
//! what is written, is the oracle in the tests.

use larder_packet::NameRef;

/// The key of one forwarder's tables.
#[derive(Clone)]
pub struct NameHasher {
    keyed: State,
}

/// One prefix of a name: its length in bytes of TLV-VALUE and its hash.
#[derive(Clone, Copy, Debug)]
pub struct Prefix {
    /// Length of the prefix in bytes of the name's TLV-VALUE.
    pub end: usize,
    /// The keyed hash of these bytes.
    pub hash: u64,
}

impl NameHasher {
    /// Hashes under this 128-bit key.
    pub fn new([k0, k1]: [u64; 2]) -> Self {
        // "somepseudorandomlygeneratedbytes", the paper's initialisation.
        let constants = [0x736f_6d65_7073_6575, 0x646f_7261_6e64_6f6d, 0x6c79_6765_6e65_7261, 0x7465_6462_7974_6573];
        let [c0, c1, c2, c3] = constants;
        NameHasher { keyed: State { v0: k0 ^ c0, v1: k1 ^ c1, v2: k0 ^ c2, v3: k1 ^ c3 } }
    }

    /// The hash of a name's TLV-VALUE.
    #[inline]
    pub fn hash(&self, name: &[u8]) -> u64 {
        let mut state = self.keyed;
        let (words, tail) = name.as_chunks::<8>();
        words.iter().for_each(|word| state.absorb(u64::from_le_bytes(*word)));
        state.finish(last_word(tail, name.len()))
    }

    /// The hashes of the prefixes of 0, 1, 2, … components, at most `most` components long, into `out` (cleared first).
    pub fn prefixes(&self, name: NameRef<'_>, most: usize, out: &mut Vec<Prefix>) {
        out.clear();
        self.append_prefixes(name, most, out);
    }

    /// As [`NameHasher::prefixes`], behind what is in `out`.
    pub fn append_prefixes(&self, name: NameRef<'_>, most: usize, out: &mut Vec<Prefix>) {
        let mut state = self.keyed;
        out.push(Prefix { end: 0, hash: state.finish(0) });
        let bytes = name.as_bytes();
        let mut absorbed = 0;
        for end in name.prefix_ends().take(most) {
            while let Some(word) = bytes[absorbed..end].first_chunk::<8>() {
                state.absorb(u64::from_le_bytes(*word));
                absorbed += 8;
            }
            // Of a longer name the word at the end is there whole, with what belongs to the next components cut off.
            let last = match bytes[absorbed..].first_chunk::<8>() {
                Some(word) => {
                    let tail = u64::from_le_bytes(*word) & !(u64::MAX << (8 * (end - absorbed)));
                    tail | (end as u64) << 56
                }
                None => last_word(&bytes[absorbed..end], end),
            };
            out.push(Prefix { end, hash: state.finish(last) });
        }
    }
}

/// Fewer than eight bytes at the end, with the lowest byte of the whole length above them.
#[inline]
fn last_word(tail: &[u8], length: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes[..tail.len()].copy_from_slice(tail);
    u64::from_le_bytes(bytes) | (length as u64) << 56
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
            most in 0usize..14,
        ) {
            let mut name = Name::root();
            for component in &components {
                name.push_generic(component);
            }
            let (hasher, oracle) = (NameHasher::new(key), SipHasher13::new_with_keys(key[0], key[1]));
            prop_assert_eq!(hasher.hash(name.as_bytes()), oracle.hash(name.as_bytes()));
            let mut prefixes = Vec::new();
            hasher.prefixes(name.as_name(), most, &mut prefixes);
            prop_assert_eq!(prefixes.len(), components.len().min(most) + 1);
            for (length, prefix) in prefixes.iter().enumerate() {
                let expected = name.as_name().prefix(length).to_name();
                prop_assert_eq!(prefix.end, expected.as_bytes().len());
                prop_assert_eq!(prefix.hash, oracle.hash(expected.as_bytes()));
            }
        }
    }
}
