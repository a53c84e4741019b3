//! Names: [`NameRef`] borrows the bytes of a packet, [`Name`] owns them, [`Component`] is one
//! element.
//!
//! Both kinds of name hold the TLV-VALUE of the Name element, validated once. Every type and length
//! is in its shortest encoding. The specification's canonical order (component by component: type,
//! then length, then bytes; a prefix before longer names) is therefore the bytewise order of these
//! values, and equal names have equal bytes. `memcmp` does both comparisons. (NDN Packet Format
//! Specification 0.3, sections "Name" and "Canonical Order".)

use crate::tlv::{self, DecodeError, DecodeErrorKind, TlvReader};
use crate::types;
use std::cmp::Ordering;
use std::fmt;

/// One component of a name. Displays as in a URI: `video`, `v=7`, `32=metadata`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Component<'a> {
    /// The type, 1 to 65535: see [`types`].
    pub typ: u16,
    /// The TLV-VALUE.
    pub value: &'a [u8],
}

impl<'a> Component<'a> {
    /// Creates a generic component (type 8).
    pub const fn generic(value: &'a [u8]) -> Self {
        Component {
            typ: types::GENERIC_NAME_COMPONENT,
            value,
        }
    }

    /// Returns the value as a NonNegativeInteger, for any type; `None` if it is not 1, 2, 4 or 8
    /// bytes long.
    pub fn as_number(&self) -> Option<u64> {
        tlv::read_nni(self.value)
    }

    /// Returns the number of a segment component; `None` for other types.
    pub fn as_segment(&self) -> Option<u64> {
        self.number_of(types::SEGMENT)
    }

    /// Returns the number of a version component; `None` for other types.
    pub fn as_version(&self) -> Option<u64> {
        self.number_of(types::VERSION)
    }

    /// Returns true if this is the keyword `word`.
    pub fn is_keyword(&self, word: &[u8]) -> bool {
        self.typ == types::KEYWORD && self.value == word
    }

    fn number_of(&self, typ: u16) -> Option<u64> {
        if self.typ == typ {
            self.as_number()
        } else {
            None
        }
    }
}

impl Ord for Component<'_> {
    /// The canonical order: type, then length, then bytes.
    fn cmp(&self, other: &Self) -> Ordering {
        (self.typ, self.value.len(), self.value).cmp(&(other.typ, other.value.len(), other.value))
    }
}

impl PartialOrd for Component<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A name whose bytes are borrowed. Compares in canonical order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NameRef<'a> {
    value: &'a [u8],
}

impl<'a> NameRef<'a> {
    /// Validates the TLV-VALUE of a Name.
    ///
    /// # Errors
    /// [`DecodeError`] if `value` is not a sequence of name components, or a digest component does
    /// not have 32 bytes. Offsets count from the start of `value`.
    pub fn from_value(value: &'a [u8]) -> Result<Self, DecodeError> {
        NameRef::validate(value, 0).map(|(name, _)| name)
    }

    /// Does the same as [`from_value`](Self::from_value) with offsets counted from `offset`. Also
    /// returns the number of ParametersSha256DigestComponents.
    #[inline]
    pub(crate) fn validate(value: &'a [u8], offset: usize) -> Result<(Self, usize), DecodeError> {
        let rest = skip_ordinary(value);
        match rest {
            [] => Ok((NameRef { value }, 0)),
            _ => NameRef::validate_rest(value, rest, offset + value.len() - rest.len()),
        }
    }

    /// Validates the components from the first one that is not ordinary.
    fn validate_rest(
        value: &'a [u8],
        rest: &'a [u8],
        offset: usize,
    ) -> Result<(Self, usize), DecodeError> {
        let mut parameters_digests = 0;
        for element in TlvReader::at(rest, offset) {
            let element = element?;
            match u16::try_from(element.typ) {
                Err(_) => return Err(DecodeErrorKind::TypeOutOfRange.at(element.offset)),
                Ok(types::IMPLICIT_SHA256_DIGEST | types::PARAMETERS_SHA256_DIGEST) => {
                    if element.value.len() != 32 {
                        return Err(element.bad_length());
                    }
                    parameters_digests +=
                        usize::from(element.typ == u32::from(types::PARAMETERS_SHA256_DIGEST));
                }
                Ok(_) => {}
            }
        }
        Ok((NameRef { value }, parameters_digests))
    }

    /// Returns a name of which [`skip_ordinary`] has passed all components.
    #[inline]
    pub(crate) const fn ordinary(value: &'a [u8]) -> Self {
        NameRef { value }
    }

    /// Returns the TLV-VALUE of the Name.
    #[inline]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.value
    }

    /// Returns true if the name has no component.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.value.is_empty()
    }

    /// Iterates over the components from the left.
    #[inline]
    pub fn components(&self) -> Components<'a> {
        Components { rest: self.value }
    }

    /// Returns the number of components.
    pub fn component_count(&self) -> usize {
        self.prefix_ends().count()
    }

    /// Returns the component at `index`, counted from 0.
    pub fn component(&self, index: usize) -> Option<Component<'a>> {
        self.components().nth(index)
    }

    /// Returns the rightmost component.
    pub fn last(&self) -> Option<Component<'a>> {
        self.components().last()
    }

    /// Returns the end of each prefix within [`as_bytes`](Self::as_bytes): after one component,
    /// after two, and so on to the whole name.
    #[inline]
    pub fn prefix_ends(&self) -> impl Iterator<Item = usize> + use<'a> {
        let whole = self.value.len();
        let mut rest = self.value;
        std::iter::from_fn(move || {
            rest = after_first(rest)?;
            Some(whole - rest.len())
        })
    }

    /// Returns the first `count` components, or the whole name if it has fewer.
    pub fn prefix(&self, count: usize) -> NameRef<'a> {
        match count {
            0 => NameRef::default(),
            _ => self
                .prefix_ends()
                .nth(count - 1)
                .map_or(*self, |end| NameRef {
                    value: &self.value[..end],
                }),
        }
    }

    /// Returns the name without its last component; the empty name stays empty.
    pub fn without_last(&self) -> NameRef<'a> {
        self.prefix(self.component_count().saturating_sub(1))
    }

    /// Returns true if the components of `prefix` are the first ones of this name.
    #[inline]
    pub fn starts_with(&self, prefix: NameRef<'_>) -> bool {
        // Components contain their lengths, so equal bytes cannot end inside a component of the
        // longer name.
        self.value.starts_with(prefix.value)
    }

    /// Returns the name without an implicit digest at its end, and that digest.
    #[inline]
    pub fn strip_implicit_digest(&self) -> (NameRef<'a>, Option<[u8; 32]>) {
        // In such a name, "1, 32" is 34 bytes before the end. Other components may contain these
        // bytes, so this is only a filter before the walk.
        let tail = self
            .value
            .len()
            .checked_sub(34)
            .map(|start| (start, &self.value[start..]));
        let Some((start, [1, 32, digest @ ..])) = tail else {
            return (*self, None);
        };
        if start != 0 && self.prefix_ends().all(|end| end != start) {
            return (*self, None);
        }
        (
            NameRef {
                value: &self.value[..start],
            },
            digest.try_into().ok(),
        )
    }

    /// Returns an owned copy.
    pub fn to_name(&self) -> Name {
        Name {
            value: self.value.to_vec(),
        }
    }
}

/// Returns the bytes after the ordinary components at the start of `rest`. Nearly all components
/// are ordinary: one byte of type, above those of the digests, and one byte of length. All names
/// are walked in this way. The decoder of the other components must find the same boundaries.
#[inline]
pub(crate) fn skip_ordinary(mut rest: &[u8]) -> &[u8] {
    while let [3..=252, length @ 0..=252, after @ ..] = rest
        && let Some(next) = after.get(usize::from(*length)..)
    {
        rest = next;
    }
    rest
}

/// Returns the bytes after the first component of the rest of a name.
#[inline(always)]
fn after_first(rest: &[u8]) -> Option<&[u8]> {
    match rest {
        [1..=252, length @ 0..=252, after @ ..] => after.get(usize::from(*length)..),
        _ => {
            let element = TlvReader::new(rest).next()?.ok()?;
            rest.get(element.wire.len()..)
        }
    }
}

impl fmt::Debug for NameRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Iterates over the components of a name.
#[derive(Clone, Copy, Debug)]
pub struct Components<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Components<'a> {
    type Item = Component<'a>;

    #[inline]
    #[allow(
        clippy::cast_possible_truncation,
        reason = "a validated component's type fits 16 bits"
    )]
    fn next(&mut self) -> Option<Component<'a>> {
        // The bytes are validated, so this meets no error.
        let element = TlvReader::new(self.rest).next()?.ok()?;
        self.rest = &self.rest[element.wire.len()..];
        Some(Component {
            typ: element.typ as u16,
            value: element.value,
        })
    }
}

/// A name that owns its bytes. Compares in canonical order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Name {
    value: Vec<u8>,
}

impl Name {
    /// Returns the empty name, `/`.
    pub const fn root() -> Self {
        Name { value: Vec::new() }
    }

    /// Returns the borrowed name.
    #[inline]
    pub fn as_name(&self) -> NameRef<'_> {
        NameRef { value: &self.value }
    }

    /// Returns the borrowed name.
    // Not the `AsRef` trait: a borrowed name is a value with a lifetime, not a reference.
    #[allow(clippy::should_implement_trait)]
    #[inline]
    pub fn as_ref(&self) -> NameRef<'_> {
        self.as_name()
    }

    /// Returns the TLV-VALUE of the Name.
    pub fn as_bytes(&self) -> &[u8] {
        &self.value
    }

    /// Appends a component of type `typ`.
    ///
    /// # Panics
    /// If `typ` is 0, or the type of a digest and `value` does not have 32 bytes. No name has such
    /// a component.
    pub fn push(&mut self, typ: u16, value: &[u8]) -> &mut Self {
        let digest = matches!(
            typ,
            types::IMPLICIT_SHA256_DIGEST | types::PARAMETERS_SHA256_DIGEST
        );
        assert!(
            typ != 0 && (!digest || value.len() == 32),
            "no component has type {typ} and {} bytes",
            value.len()
        );
        tlv::write_tlv(&mut self.value, u32::from(typ), value);
        self
    }

    /// Appends a copy of `component`, as [`push`](Self::push) does.
    pub fn push_component(&mut self, component: Component<'_>) -> &mut Self {
        self.push(component.typ, component.value)
    }

    /// Appends a generic component (type 8).
    pub fn push_generic(&mut self, value: &[u8]) -> &mut Self {
        self.push(types::GENERIC_NAME_COMPONENT, value)
    }

    /// Appends a keyword, such as `32=metadata`.
    pub fn push_keyword(&mut self, word: &[u8]) -> &mut Self {
        self.push(types::KEYWORD, word)
    }

    /// Appends a version, `v=`.
    pub fn push_version(&mut self, version: u64) -> &mut Self {
        self.push_number(types::VERSION, version)
    }

    /// Appends a segment number, `seg=`.
    pub fn push_segment(&mut self, segment: u64) -> &mut Self {
        self.push_number(types::SEGMENT, segment)
    }

    /// Appends a timestamp, `t=`, in microseconds since 1970.
    pub fn push_timestamp(&mut self, micros: u64) -> &mut Self {
        self.push_number(types::TIMESTAMP, micros)
    }

    /// Appends a sequence number, `seq=`.
    pub fn push_sequence(&mut self, sequence: u64) -> &mut Self {
        self.push_number(types::SEQUENCE_NUM, sequence)
    }

    /// Appends a component of type `typ` that holds a NonNegativeInteger.
    pub fn push_number(&mut self, typ: u16, number: u64) -> &mut Self {
        self.push(typ, &number.to_be_bytes()[8 - tlv::nni_len(number)..])
    }

    /// Appends all components of `name`.
    pub fn append(&mut self, name: NameRef<'_>) -> &mut Self {
        self.value.extend_from_slice(name.value);
        self
    }

    /// Keeps the first `count` components.
    pub fn truncate(&mut self, count: usize) -> &mut Self {
        let kept = self.as_name().prefix(count).value.len();
        self.value.truncate(kept);
        self
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<'a> From<&'a Name> for NameRef<'a> {
    fn from(name: &'a Name) -> Self {
        name.as_name()
    }
}

impl From<NameRef<'_>> for Name {
    fn from(name: NameRef<'_>) -> Self {
        name.to_name()
    }
}

impl From<&Name> for Name {
    fn from(name: &Name) -> Self {
        name.clone()
    }
}
