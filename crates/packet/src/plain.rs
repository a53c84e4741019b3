//! The short way of the decoders, for packets as most are: types of one byte, lengths of one or
//! three, ordinary names.
//!
//! A forwarder decodes every packet, so this pays: a look at fixed places takes a quarter of the
//! instructions of reading any elements in any order. It refuses what is not surely well-formed,
//! and says nothing of why; the decoders then read again, by [`crate::tlv`].

use crate::name::{NameRef, skip_ordinary};
use crate::types;

/// The value of the only element in `wire`, of this type.
#[inline]
pub(crate) fn only(wire: &[u8], typ: u8) -> Option<&[u8]> {
    let (value, after) = element(wire, typ)?;
    after.is_empty().then_some(value)
}

/// The value of the element of this type that stands first, and what is behind it.
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

/// The name that stands first, of ordinary components, and what is behind it.
#[inline]
pub(crate) fn name(bytes: &[u8]) -> Option<(NameRef<'_>, &[u8])> {
    let (value, rest) = element(bytes, types::short(types::NAME))?;
    skip_ordinary(value)
        .is_empty()
        .then(|| (NameRef::ordinary(value), rest))
}

/// Where `rest`, the end of `wire`, begins.
#[inline]
pub(crate) fn offset(wire: &[u8], rest: &[u8]) -> usize {
    wire.len() - rest.len()
}

/// For tests: a byte to be another, one more or less, or to change places with one before it; near
/// the front, where elements are.
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
