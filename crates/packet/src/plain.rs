//! Fast path of the decoders, for packets of the common form: types of one byte, lengths of one or
//! three bytes, ordinary name components.
//!
//! A forwarder decodes every packet. Reading elements at fixed positions takes a quarter of the
//! instructions of reading any elements in any order. The fast path refuses every packet that is
//! not certainly well-formed, without a reason. The decoders then decode it again with
//! [`crate::tlv`].

use crate::name::{NameRef, skip_ordinary};
use crate::types;

/// Returns the value of the only element in `wire`, which must have this type.
#[inline]
pub(crate) fn only(wire: &[u8], typ: u8) -> Option<&[u8]> {
    let (value, after) = element(wire, typ)?;
    after.is_empty().then_some(value)
}

/// Returns the value of the first element, which must have this type, and the bytes after it.
#[inline]
pub(crate) fn element(bytes: &[u8], typ: u8) -> Option<(&[u8], &[u8])> {
    match bytes {
        [first, length @ 0..=252, rest @ ..] if *first == typ => {
            rest.split_at_checked(usize::from(*length))
        }
        [first, 0xFD, high, low, rest @ ..] if *first == typ => {
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            if length < 253 {
                None
            } else {
                rest.split_at_checked(length)
            }
        }
        _ => None,
    }
}

/// Returns the name at the start, if its components are ordinary, and the bytes after it.
#[inline]
pub(crate) fn name(bytes: &[u8]) -> Option<(NameRef<'_>, &[u8])> {
    let (value, rest) = element(bytes, types::short(types::NAME))?;
    skip_ordinary(value)
        .is_empty()
        .then(|| (NameRef::ordinary(value), rest))
}

/// Returns the position in `wire` at which `rest`, the end of `wire`, begins.
#[inline]
pub(crate) fn offset(wire: &[u8], rest: &[u8]) -> usize {
    wire.len() - rest.len()
}

/// A change for tests: one byte is replaced, inserted, removed, or swapped with an earlier one. The
/// position is near the front, where the elements begin.
#[cfg(test)]
pub(crate) type Change = (proptest::sample::Index, u8, u8);

#[cfg(test)]
pub(crate) fn a_change() -> impl proptest::strategy::Strategy<Value = Change> {
    use proptest::prelude::any;
    (any::<proptest::sample::Index>(), 0u8..3, any::<u8>())
}

#[cfg(test)]
pub(crate) fn change(wire: &mut [u8], (place, kind, byte): &Change) {
    let place = place.index(wire.len().min(120));
    match kind {
        0 => wire[place] = *byte,
        1 => wire[place] = wire[place].wrapping_add(byte % 3).wrapping_sub(1),
        _ => wire.swap(place, place / 2),
    }
}
