//! Keyed hashes of names and of all their prefixes.
//!
//! Names come from the network, so their hashes are keyed (SipHash-1-3 with a key of the host's entropy): nobody outside can make names
//! collide. One incremental pass gives the hashes of all prefixes. Tables compare names whole all the same.

use larder_packet::NameRef;
use siphasher::sip::SipHasher13;
use std::hash::Hasher;

/// The key of one forwarder's tables.
#[derive(Clone)]
pub struct NameHasher {
    key: SipHasher13,
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
    pub fn new(key: [u64; 2]) -> Self {
        NameHasher { key: SipHasher13::new_with_keys(key[0], key[1]) }
    }

    /// The hash of a name's TLV-VALUE.
    pub fn hash(&self, name: &[u8]) -> u64 {
        self.key.hash(name)
    }

    /// The hashes of the prefixes of 0, 1, 2, … components, at most `most` components long, into `out` (cleared first).
    pub fn prefixes(&self, name: NameRef<'_>, most: usize, out: &mut Vec<Prefix>) {
        out.clear();
        let mut hasher = self.key;
        out.push(Prefix { end: 0, hash: hasher.finish() });
        let bytes = name.as_bytes();
        let mut from = 0;
        for end in name.prefix_ends().take(most) {
            hasher.write(&bytes[from..end]);
            out.push(Prefix { end, hash: hasher.finish() });
            from = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_packet::Name;

    #[test]
    fn the_pass_over_prefixes_agrees_with_single_hashes() {
        let hasher = NameHasher::new([1, 2]);
        let name: Name = "/a/bb/ccc/v=7/seg=9".parse().unwrap();
        let name = name.as_name();
        let mut prefixes = Vec::new();
        hasher.prefixes(name, 64, &mut prefixes);
        assert_eq!(prefixes.len(), 6);
        for prefix in &prefixes {
            assert_eq!(prefix.hash, hasher.hash(&name.as_bytes()[..prefix.end]));
        }
        hasher.prefixes(name, 2, &mut prefixes);
        assert_eq!(prefixes.len(), 3);
        assert_ne!(hasher.hash(name.as_bytes()), NameHasher::new([1, 3]).hash(name.as_bytes()));
    }
}
