//! Decoding and encoding of management elements, from one table of fields per element.
//!
//! A field is `name: Type = count(Codec, TLV-TYPE)`. `one` is required, `opt` is optional, and
//! `many` may repeat. The codec converts between a value and the bytes of its element.

use crate::name::{Name, NameRef};
use crate::tlv::{self, DecodeError, DecodeErrorKind, Tlv, TlvReader};
use crate::types;
use std::time::Duration;

/// An element of the management protocol.
pub trait Element: Sized {
    /// The TLV-TYPE. The same number has other meanings in other datasets.
    const TYPE: u32;

    /// Decodes the fields, without the element around them.
    ///
    /// # Errors
    /// [`DecodeError`] with the offset if a field is malformed or missing.
    fn decode_fields(fields: TlvReader<'_>) -> Result<Self, DecodeError>;

    /// Appends the fields, without the element around them.
    fn encode_fields(&self, out: &mut Vec<u8>);

    /// Decodes exactly one element.
    ///
    /// # Errors
    /// [`DecodeError`] with the offset in `wire` if it is not this element.
    fn decode(wire: &[u8]) -> Result<Self, DecodeError> {
        Self::decode_fields(Tlv::only(wire, Self::TYPE)?.children())
    }

    /// Decodes a sequence of elements, which is the content of a dataset. Elements of other types
    /// between them are skipped.
    ///
    /// # Errors
    /// [`DecodeError`] with the offset in `wire` if one is malformed.
    fn decode_all(wire: &[u8]) -> Result<Vec<Self>, DecodeError> {
        let mut found = Vec::new();
        for element in TlvReader::new(wire) {
            let element = element?;
            if element.typ == Self::TYPE {
                found.push(Self::decode_fields(element.children())?);
            }
        }
        Ok(found)
    }

    /// Appends the whole element.
    fn encode_into(&self, out: &mut Vec<u8>) {
        tlv::write_nested(out, Self::TYPE, 0, |out| self.encode_fields(out));
    }

    /// Returns the whole element.
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode_into(&mut out);
        out
    }
}

/// Generates the structs of elements, and their codecs.
macro_rules! elements {
    ($($(#[$doc:meta])* $name:ident = $typ:expr => {
        $($(#[$field_doc:meta])* $field:ident: $value:ty = $count:ident($codec:ty, $field_typ:expr),)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $value,)*
        }

        impl $crate::mgmt::element::Element for $name {
            const TYPE: u32 = $typ;

            fn decode_fields(mut fields: $crate::tlv::TlvReader<'_>) -> Result<Self, $crate::tlv::DecodeError> {
                use $crate::mgmt::element::{Count, count};
                $(let mut $field = <count::$count as Count<$codec>>::Slot::default();)*
                for element in &mut fields {
                    let element = element?;
                    $(if element.typ == $field_typ {
                        <count::$count as Count<$codec>>::take(&mut $field, &element)?;
                        continue;
                    })*
                }
                Ok($name {
                    $($field: <count::$count as Count<$codec>>::finish($field)
                        .ok_or($crate::tlv::DecodeErrorKind::Missing(stringify!($field)).at(fields.offset()))?,)*
                })
            }

            fn encode_fields(&self, out: &mut Vec<u8>) {
                use $crate::mgmt::element::{Count, count};
                $(<count::$count as Count<$codec>>::write(&self.$field, $field_typ, out);)*
            }
        }
    )*};
}
pub(crate) use elements;

/// Conversion between a value and its element.
pub(crate) trait Codec {
    type Value;
    fn read(element: &Tlv<'_>) -> Result<Self::Value, DecodeError>;
    fn write(value: &Self::Value, typ: u32, out: &mut Vec<u8>);
}

/// The number of times that a field may occur.
pub(crate) trait Count<C: Codec> {
    type Slot: Default;
    type Value;
    fn take(slot: &mut Self::Slot, element: &Tlv<'_>) -> Result<(), DecodeError>;
    /// Returns `None` if a required field is missing.
    fn finish(slot: Self::Slot) -> Option<Self::Value>;
    fn write(value: &Self::Value, typ: u32, out: &mut Vec<u8>);
}

/// The words of the tables.
#[allow(
    non_camel_case_types,
    reason = "they are words of a table, not names of types"
)]
pub(crate) mod count {
    pub(crate) struct one;
    pub(crate) struct opt;
    pub(crate) struct many;
}

impl<C: Codec> Count<C> for count::one {
    type Slot = Option<C::Value>;
    type Value = C::Value;

    fn take(slot: &mut Self::Slot, element: &Tlv<'_>) -> Result<(), DecodeError> {
        <count::opt as Count<C>>::take(slot, element)
    }

    fn finish(slot: Self::Slot) -> Option<Self::Value> {
        slot
    }

    fn write(value: &Self::Value, typ: u32, out: &mut Vec<u8>) {
        C::write(value, typ, out);
    }
}

impl<C: Codec> Count<C> for count::opt {
    type Slot = Option<C::Value>;
    type Value = Option<C::Value>;

    fn take(slot: &mut Self::Slot, element: &Tlv<'_>) -> Result<(), DecodeError> {
        if slot.is_none() {
            *slot = Some(C::read(element)?);
        }
        Ok(())
    }

    fn finish(slot: Self::Slot) -> Option<Self::Value> {
        Some(slot)
    }

    fn write(value: &Self::Value, typ: u32, out: &mut Vec<u8>) {
        if let Some(value) = value {
            C::write(value, typ, out);
        }
    }
}

impl<C: Codec> Count<C> for count::many {
    type Slot = Vec<C::Value>;
    type Value = Vec<C::Value>;

    fn take(slot: &mut Self::Slot, element: &Tlv<'_>) -> Result<(), DecodeError> {
        slot.push(C::read(element)?);
        Ok(())
    }

    fn finish(slot: Self::Slot) -> Option<Self::Value> {
        Some(slot)
    }

    fn write(value: &Self::Value, typ: u32, out: &mut Vec<u8>) {
        for value in value {
            C::write(value, typ, out);
        }
    }
}

/// A NonNegativeInteger.
pub(crate) struct Number;
/// UTF-8.
pub(crate) struct Text;
/// A duration in whole milliseconds.
pub(crate) struct Millis;
/// A duration in whole nanoseconds.
pub(crate) struct Nanos;
/// The element is the Name itself.
pub(crate) struct NameElement;
/// A Name inside the element.
pub(crate) struct NameInside;
/// Another element of the protocol inside the element.
pub(crate) struct Nested<T>(std::marker::PhantomData<T>);

impl Codec for Number {
    type Value = u64;

    fn read(element: &Tlv<'_>) -> Result<u64, DecodeError> {
        element.number()
    }

    fn write(value: &u64, typ: u32, out: &mut Vec<u8>) {
        tlv::write_nni(out, typ, *value);
    }
}

impl Codec for Text {
    type Value = String;

    fn read(element: &Tlv<'_>) -> Result<String, DecodeError> {
        let text = std::str::from_utf8(element.value);
        text.map(str::to_owned)
            .map_err(|_| DecodeErrorKind::BadValue(element.typ).at(element.offset))
    }

    fn write(value: &String, typ: u32, out: &mut Vec<u8>) {
        tlv::write_tlv(out, typ, value.as_bytes());
    }
}

impl Codec for Millis {
    type Value = Duration;

    fn read(element: &Tlv<'_>) -> Result<Duration, DecodeError> {
        element.number().map(Duration::from_millis)
    }

    fn write(value: &Duration, typ: u32, out: &mut Vec<u8>) {
        tlv::write_nni(
            out,
            typ,
            u64::try_from(value.as_millis()).unwrap_or(u64::MAX),
        );
    }
}

impl Codec for Nanos {
    type Value = Duration;

    fn read(element: &Tlv<'_>) -> Result<Duration, DecodeError> {
        element.number().map(Duration::from_nanos)
    }

    fn write(value: &Duration, typ: u32, out: &mut Vec<u8>) {
        tlv::write_nni(
            out,
            typ,
            u64::try_from(value.as_nanos()).unwrap_or(u64::MAX),
        );
    }
}

impl Codec for NameElement {
    type Value = Name;

    fn read(element: &Tlv<'_>) -> Result<Name, DecodeError> {
        NameRef::validate(element.value, element.value_offset()).map(|(name, _)| name.to_name())
    }

    fn write(value: &Name, typ: u32, out: &mut Vec<u8>) {
        tlv::write_tlv(out, typ, value.as_bytes());
    }
}

impl Codec for NameInside {
    type Value = Name;

    fn read(element: &Tlv<'_>) -> Result<Name, DecodeError> {
        NameElement::read(&element.children().require(types::NAME, "Name")?)
    }

    fn write(value: &Name, typ: u32, out: &mut Vec<u8>) {
        tlv::write_nested(out, typ, value.as_bytes().len(), |out| {
            tlv::write_tlv(out, types::NAME, value.as_bytes())
        });
    }
}

impl<T: Element> Codec for Nested<T> {
    type Value = T;

    fn read(element: &Tlv<'_>) -> Result<T, DecodeError> {
        T::decode_fields(element.children())
    }

    fn write(value: &T, typ: u32, out: &mut Vec<u8>) {
        tlv::write_nested(out, typ, 0, |out| value.encode_fields(out));
    }
}
