//! The numbers of objects: whole numbers as they are, and names by a hash.

use super::decimal::whole;
use siphasher::sip::SipHasher24;
use std::hash::Hasher;

/// Returns the id of an object: the number that `text` is, or the hash of the name. `07` is a name:
/// it is not the object `7`.
pub(super) fn id_of(text: &[u8]) -> u64 {
    let number = if text.starts_with(b"0") && text.len() > 1 {
        None
    } else {
        whole(text)
    };
    number.unwrap_or_else(|| name_hash(text))
}

/// Returns the number of an object with a name: SipHash-2-4 with a fixed key. Every reader uses it.
pub fn name_hash(name: &[u8]) -> u64 {
    // The fractional digits of the golden ratio, a number that was not chosen for a purpose.
    let mut hasher = SipHasher24::new_with_keys(0x9e37_79b9_7f4a_7c15, 0xf39c_c060_5ced_c834);
    hasher.write(name);
    hasher.finish()
}
