//! Type-Length-Value (TLV): decoding with an offset for every error, framing of streams, and
//! encoding into a vector.
//!
//! NDN Packet Format Specification 0.3, section "Type-Length-Value (TLV) Encoding": type and length
//! are VAR-NUMBERs of 1, 3, 5 or 9 bytes, the shortest that fits; a NonNegativeInteger takes 1, 2,
//! 4 or 8 bytes. A type that is at most 31, or odd, is critical: a decoder that does not know it,
//! or meets it out of order, must reject the packet. Other types are skipped.

use crate::types;
use std::fmt;
use std::num::NonZeroU32;

/// The reason why bytes are not the expected packet, and the position of the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// Bytes from the start of the input; at most its length.
    pub offset: usize,
    /// The error at this offset.
    pub kind: DecodeErrorKind,
}

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// The element that starts at this offset, or its header, exceeds the input.
    Truncated,
    /// A type or a length is not in its shortest encoding.
    NotShortest,
    /// A type is 0 or above 2^32 - 1, or a name component's above 65535.
    TypeOutOfRange,
    /// An element of a critical type that has no meaning here.
    UnknownCritical(u32),
    /// An element of a critical type that comes too late, or twice.
    OutOfOrder(u32),
    /// An element of this type is at the place of another.
    Unexpected(u32),
    /// A required element is missing.
    Missing(&'static str),
    /// An element of this type cannot have a value of this many bytes.
    BadLength {
        /// The element's type.
        typ: u32,
        /// Bytes of its value.
        length: usize,
    },
    /// An element of this type cannot have this value.
    BadValue(u32),
    /// Bytes follow after the end of the packet.
    TrailingBytes,
}

impl DecodeErrorKind {
    /// Returns a stable label for counters.
    pub fn reason(&self) -> &'static str {
        match self {
            DecodeErrorKind::Truncated => "truncated",
            DecodeErrorKind::NotShortest => "not_shortest",
            DecodeErrorKind::TypeOutOfRange => "type_out_of_range",
            DecodeErrorKind::UnknownCritical(_) => "unknown_critical",
            DecodeErrorKind::OutOfOrder(_) => "out_of_order",
            DecodeErrorKind::Unexpected(_) => "unexpected_type",
            DecodeErrorKind::Missing(_) => "missing_element",
            DecodeErrorKind::BadLength { .. } => "bad_length",
            DecodeErrorKind::BadValue(_) => "bad_value",
            DecodeErrorKind::TrailingBytes => "trailing_bytes",
        }
    }

    /// Returns this error at `offset`.
    pub const fn at(self, offset: usize) -> DecodeError {
        DecodeError { offset, kind: self }
    }
}

impl fmt::Display for DecodeErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeErrorKind::Truncated => f.write_str("truncated"),
            DecodeErrorKind::NotShortest => f.write_str("number not in its shortest encoding"),
            DecodeErrorKind::TypeOutOfRange => f.write_str("TLV type out of range"),
            DecodeErrorKind::UnknownCritical(typ) => write!(f, "unknown critical TLV type {typ}"),
            DecodeErrorKind::OutOfOrder(typ) => {
                write!(f, "TLV type {typ} out of order or repeated")
            }
            DecodeErrorKind::Unexpected(typ) => write!(f, "unexpected TLV type {typ}"),
            DecodeErrorKind::Missing(what) => write!(f, "{what} missing"),
            DecodeErrorKind::BadLength { typ, length } => {
                write!(f, "TLV type {typ} with a length of {length}")
            }
            DecodeErrorKind::BadValue(typ) => write!(f, "bad value of TLV type {typ}"),
            DecodeErrorKind::TrailingBytes => f.write_str("bytes after the end of the packet"),
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.kind, self.offset)
    }
}

impl std::error::Error for DecodeError {}

/// One element that borrows its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tlv<'a> {
    /// The TLV-TYPE, 1 to 2^32 - 1.
    pub typ: u32,
    /// The TLV-VALUE.
    pub value: &'a [u8],
    /// The whole element.
    pub wire: &'a [u8],
    /// The offset of the element from the start of the input.
    pub offset: usize,
}

impl<'a> Tlv<'a> {
    /// Decodes `wire` as exactly one element of type `typ`.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not an element, it has another type, or bytes follow it.
    #[inline]
    pub fn only(wire: &'a [u8], typ: u32) -> Result<Tlv<'a>, DecodeError> {
        let mut reader = TlvReader::new(wire);
        let element = reader.next().ok_or(DecodeErrorKind::Truncated.at(0))??;
        if element.typ != typ {
            return Err(DecodeErrorKind::Unexpected(element.typ).at(0));
        }
        if !reader.rest.is_empty() {
            return Err(DecodeErrorKind::TrailingBytes.at(reader.offset));
        }
        Ok(element)
    }

    /// Returns the offset of the value, from the same start as [`Tlv::offset`].
    #[inline]
    pub const fn value_offset(&self) -> usize {
        self.offset + self.wire.len() - self.value.len()
    }

    /// Returns a reader of the elements inside the value.
    #[inline]
    pub const fn children(&self) -> TlvReader<'a> {
        TlvReader::at(self.value, self.value_offset())
    }

    /// Returns the value as a NonNegativeInteger.
    ///
    /// # Errors
    /// [`DecodeErrorKind::BadLength`] if it is not 1, 2, 4 or 8 bytes long.
    #[inline]
    pub fn number(&self) -> Result<u64, DecodeError> {
        read_nni(self.value).ok_or_else(|| self.bad_length())
    }

    /// Returns the value, which must have `N` bytes.
    ///
    /// # Errors
    /// [`DecodeErrorKind::BadLength`] if it does not have `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&self) -> Result<[u8; N], DecodeError> {
        self.value.try_into().map_err(|_| self.bad_length())
    }

    /// Skips this element if its type allows it. `known` is false if the type is unknown here, and
    /// true if the element is out of order.
    ///
    /// # Errors
    /// [`DecodeError`] if the type is critical.
    #[inline]
    pub fn skip(&self, known: bool) -> Result<(), DecodeError> {
        match (is_critical(self.typ), known) {
            (false, _) => Ok(()),
            (true, false) => Err(DecodeErrorKind::UnknownCritical(self.typ).at(self.offset)),
            (true, true) => Err(DecodeErrorKind::OutOfOrder(self.typ).at(self.offset)),
        }
    }

    /// Returns the error that this element cannot have a value of this length.
    #[cold]
    pub fn bad_length(&self) -> DecodeError {
        DecodeErrorKind::BadLength {
            typ: self.typ,
            length: self.value.len(),
        }
        .at(self.offset)
    }
}

/// Returns true if a decoder that does not know this type must reject the packet.
#[inline]
pub const fn is_critical(typ: u32) -> bool {
    typ <= 31 || typ & 1 == 1
}

/// Iterates over consecutive elements. The iteration ends after an error.
#[derive(Clone, Copy, Debug)]
pub struct TlvReader<'a> {
    rest: &'a [u8],
    offset: usize,
}

impl<'a> TlvReader<'a> {
    /// Reads `bytes`, with offsets counted from their start.
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Self {
        TlvReader::at(bytes, 0)
    }

    /// Reads `bytes`, which start at `offset` of the input.
    #[inline]
    pub const fn at(bytes: &'a [u8], offset: usize) -> Self {
        TlvReader {
            rest: bytes,
            offset,
        }
    }

    /// Returns the offset of the next element.
    #[inline]
    pub const fn offset(&self) -> usize {
        self.offset
    }

    /// Returns the next element, which must be of type `typ`. The error names it `what`.
    ///
    /// # Errors
    /// [`DecodeErrorKind::Missing`] if it has another type, or the error in the bytes.
    #[inline]
    pub fn require(&mut self, typ: u32, what: &'static str) -> Result<Tlv<'a>, DecodeError> {
        let offset = self.offset;
        match self.next() {
            Some(Ok(element)) if element.typ == typ => Ok(element),
            Some(Err(error)) => Err(error),
            _ => Err(DecodeErrorKind::Missing(what).at(offset)),
        }
    }
}

impl<'a> Iterator for TlvReader<'a> {
    type Item = Result<Tlv<'a>, DecodeError>;

    // Inlined, because a call returns the result through memory, and every decoder then takes twice
    // as long.
    #[inline(always)]
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the length is at most that of the slice"
    )]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        match read_header(self.rest) {
            Some(Header { typ, size, length })
                if length <= (self.rest.len() - size.get() as usize) as u64 =>
            {
                let offset = self.offset;
                let (wire, rest) = self.rest.split_at(size.get() as usize + length as usize);
                self.rest = rest;
                self.offset += wire.len();
                Some(Ok(Tlv {
                    typ,
                    value: &wire[size.get() as usize..],
                    wire,
                    offset,
                }))
            }
            _ => {
                let kind = header_error(self.rest);
                self.rest = &[];
                Some(Err(kind.at(self.offset)))
            }
        }
    }
}

/// Type and length of an element, and the bytes that they take. The struct is small enough to stay
/// in registers, on which the speed of all decoders depends. The reason for a failure does not fit;
/// the caller gets it from [`header_error`].
#[derive(Clone, Copy)]
struct Header {
    typ: u32,
    size: NonZeroU32,
    length: u64,
}

/// Returns `None` if the bytes do not start an element.
#[inline]
fn read_header(bytes: &[u8]) -> Option<Header> {
    // Nearly every element has a type below 253. Its length is below 253, or below 65,536 for Data
    // and its content.
    match bytes {
        [typ @ 1..=252, length @ 0..=252, ..] => Some(Header {
            typ: u32::from(*typ),
            size: const { NonZeroU32::new(2).unwrap() },
            length: u64::from(*length),
        }),
        [typ @ 1..=252, 0xFD, high, low, ..] if (*high, *low) >= (0, 253) => Some(Header {
            typ: u32::from(*typ),
            size: const { NonZeroU32::new(4).unwrap() },
            length: u64::from(u16::from_be_bytes([*high, *low])),
        }),
        _ => read_long_header(bytes),
    }
}

#[inline(never)]
fn read_long_header(bytes: &[u8]) -> Option<Header> {
    let (typ, typ_size) = read_var_number(bytes).ok()?;
    let typ = u32::try_from(typ).ok().filter(|typ| *typ != 0)?;
    let (length, length_size) = read_var_number(&bytes[typ_size..]).ok()?;
    Some(Header {
        typ,
        size: NonZeroU32::new(u32::try_from(typ_size + length_size).ok()?)?,
        length,
    })
}

/// Returns the reason why the bytes do not start a whole element.
#[cold]
fn header_error(bytes: &[u8]) -> DecodeErrorKind {
    match read_var_number(bytes) {
        Err(kind) => kind,
        Ok((0 | 0x1_0000_0000.., _)) => DecodeErrorKind::TypeOutOfRange,
        Ok((_, typ_size)) => read_var_number(&bytes[typ_size..])
            .err()
            .unwrap_or(DecodeErrorKind::Truncated),
    }
}

/// Returns the VAR-NUMBER at the start of `bytes`, and the number of its bytes.
#[inline]
pub(crate) fn read_var_number(bytes: &[u8]) -> Result<(u64, usize), DecodeErrorKind> {
    let (number, size, smallest) = match bytes {
        [first @ 0..=252, ..] => return Ok((u64::from(*first), 1)),
        [0xFD, a, b, ..] => (u64::from(u16::from_be_bytes([*a, *b])), 3, 253),
        [0xFE, a, b, c, d, ..] => (u64::from(u32::from_be_bytes([*a, *b, *c, *d])), 5, 1 << 16),
        [0xFF, a, b, c, d, e, f, g, h, ..] => (
            u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]),
            9,
            1 << 32,
        ),
        _ => return Err(DecodeErrorKind::Truncated),
    };
    if number < smallest {
        return Err(DecodeErrorKind::NotShortest);
    }
    Ok((number, size))
}

/// Returns `value` as a NonNegativeInteger; `None` if it is not 1, 2, 4 or 8 bytes long.
#[inline]
pub fn read_nni(value: &[u8]) -> Option<u64> {
    match value {
        [a] => Some(u64::from(*a)),
        [a, b] => Some(u64::from(u16::from_be_bytes([*a, *b]))),
        [a, b, c, d] => Some(u64::from(u32::from_be_bytes([*a, *b, *c, *d]))),
        _ => value.try_into().ok().map(u64::from_be_bytes),
    }
}

/// The reason why a stream does not continue with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The next byte does not start an Interest, Data or LpPacket.
    NotAPacket {
        /// The next byte.
        first: u8,
    },
    /// The next element is larger than the reader accepts.
    TooLarge {
        /// The type of the element.
        typ: u32,
        /// The stated size of the whole element in bytes, with its header: the number of bytes to
        /// skip.
        total: u64,
    },
    /// The length of the next packet is not in its shortest form.
    NotATlv,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::NotAPacket { first } => {
                write!(
                    f,
                    "the byte {first:#04x} begins no Interest, Data or LpPacket"
                )
            }
            FrameError::TooLarge { typ, total } => {
                write!(f, "an element of TLV type {typ} announces {total} bytes")
            }
            FrameError::NotATlv => f.write_str("the stream is not a sequence of TLV elements"),
        }
    }
}

impl std::error::Error for FrameError {}

/// Returns the number of bytes of the packet at the start of a stream, with its header; `None` if
/// the packet is not complete yet.
///
/// Only an Interest, Data or LpPacket may be there; the first byte identifies it. A reader that
/// skips other elements would find packets in a stream of another protocol: a web page can send an
/// HTTP request to any port, with a body of its choice. So the caller closes such a stream.
///
/// # Errors
/// [`FrameError`] if the packet has more than `max` bytes, or if the stream has no packet there.
pub fn frame(buf: &[u8], max: usize) -> Result<Option<usize>, FrameError> {
    match buf.first() {
        None => return Ok(None),
        Some(first) if !starts_packet(*first) => {
            return Err(FrameError::NotAPacket { first: *first });
        }
        Some(_) => {}
    }
    match read_header(buf) {
        Some(Header { typ, size, length }) => {
            let total = length.saturating_add(u64::from(size.get()));
            if total > max as u64 {
                return Err(FrameError::TooLarge { typ, total });
            }
            Ok(usize::try_from(total)
                .ok()
                .filter(|total| *total <= buf.len()))
        }
        None if header_error(buf) == DecodeErrorKind::Truncated => Ok(None),
        None => Err(FrameError::NotATlv),
    }
}

/// Returns true if this byte is the type of an Interest, Data or LpPacket. Each type is one byte.
const fn starts_packet(first: u8) -> bool {
    matches!(
        first as u32,
        types::INTEREST | types::DATA | types::LP_PACKET
    )
}

/// Appends `number` as a VAR-NUMBER.
pub fn write_var_number(out: &mut Vec<u8>, number: u64) {
    let (bytes, size) = var_number(number);
    out.extend_from_slice(&bytes[..size]);
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "the size says how many bytes the number needs"
)]
fn var_number(number: u64) -> ([u8; 9], usize) {
    let mut bytes = [0; 9];
    let size = var_number_len(number);
    match size {
        1 => bytes[0] = number as u8,
        3 => {
            bytes[0] = 0xFD;
            bytes[1..3].copy_from_slice(&(number as u16).to_be_bytes());
        }
        5 => {
            bytes[0] = 0xFE;
            bytes[1..5].copy_from_slice(&(number as u32).to_be_bytes());
        }
        _ => {
            bytes[0] = 0xFF;
            bytes[1..].copy_from_slice(&number.to_be_bytes());
        }
    }
    (bytes, size)
}

/// Returns the number of bytes of `number` as a VAR-NUMBER.
pub const fn var_number_len(number: u64) -> usize {
    match number {
        0..=252 => 1,
        253..=0xFFFF => 3,
        0x1_0000..=0xFFFF_FFFF => 5,
        _ => 9,
    }
}

/// Returns the number of bytes of an element of type `typ` with `length` bytes of value.
pub const fn tlv_len(typ: u32, length: usize) -> usize {
    var_number_len(typ as u64) + var_number_len(length as u64) + length
}

/// Appends the header of an element whose `length` bytes of value the caller appends next.
pub fn write_header(out: &mut Vec<u8>, typ: u32, length: usize) {
    write_var_number(out, u64::from(typ));
    write_var_number(out, length as u64);
}

/// Appends an element.
pub fn write_tlv(out: &mut Vec<u8>, typ: u32, value: &[u8]) {
    write_header(out, typ, value.len());
    out.extend_from_slice(value);
}

/// Returns the number of bytes of `number` as a NonNegativeInteger.
pub const fn nni_len(number: u64) -> usize {
    match number {
        0..=0xFF => 1,
        0x100..=0xFFFF => 2,
        0x1_0000..=0xFFFF_FFFF => 4,
        _ => 8,
    }
}

/// Appends an element whose value is a NonNegativeInteger.
pub fn write_nni(out: &mut Vec<u8>, typ: u32, number: u64) {
    let size = nni_len(number);
    write_header(out, typ, size);
    out.extend_from_slice(&number.to_be_bytes()[8 - size..]);
}

/// Appends an element whose value `write` appends. `expected` is a guess of the value's length. If
/// the true length takes as many bytes to encode, the value is not moved afterwards.
pub fn write_nested<R>(
    out: &mut Vec<u8>,
    typ: u32,
    expected: usize,
    write: impl FnOnce(&mut Vec<u8>) -> R,
) -> R {
    write_var_number(out, u64::from(typ));
    let start = out.len();
    let reserved = var_number_len(expected as u64);
    out.resize(start + reserved, 0);
    let result = write(out);
    let (length, size) = var_number((out.len() - start - reserved) as u64);
    if size == reserved {
        out[start..start + size].copy_from_slice(&length[..size]);
    } else {
        out.splice(start..start + reserved, length[..size].iter().copied());
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn var_numbers_at_their_edges() {
        let cases: [(u64, &[u8]); 7] = [
            (0, &[0]),
            (252, &[252]),
            (253, &[0xFD, 0, 253]),
            (0xFFFF, &[0xFD, 0xFF, 0xFF]),
            (0x1_0000, &[0xFE, 0, 1, 0, 0]),
            (0xFFFF_FFFF, &[0xFE, 0xFF, 0xFF, 0xFF, 0xFF]),
            (0x1_0000_0000, &[0xFF, 0, 0, 0, 1, 0, 0, 0, 0]),
        ];
        for (number, bytes) in cases {
            let mut out = Vec::new();
            write_var_number(&mut out, number);
            assert_eq!(out, bytes);
            assert_eq!(var_number_len(number), bytes.len());
            assert_eq!(read_var_number(bytes), Ok((number, bytes.len())));
            for cut in 0..bytes.len() {
                assert_eq!(
                    read_var_number(&bytes[..cut]),
                    Err(DecodeErrorKind::Truncated)
                );
            }
        }
    }

    #[test]
    fn a_longer_encoding_than_needed_is_refused() {
        for bytes in [
            &[0xFD, 0, 252][..],
            &[0xFE, 0, 0, 0xFF, 0xFF],
            &[0xFF, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF],
        ] {
            assert_eq!(read_var_number(bytes), Err(DecodeErrorKind::NotShortest));
        }
        assert_eq!(
            Tlv::only(&[8, 0xFD, 0, 1, 7], 8),
            Err(DecodeErrorKind::NotShortest.at(0))
        );
    }

    #[test]
    fn types_outside_the_range_are_refused() {
        assert_eq!(
            Tlv::only(&[0, 0], 0),
            Err(DecodeErrorKind::TypeOutOfRange.at(0))
        );
        assert_eq!(
            Tlv::only(&[0xFF, 0, 0, 0, 1, 0, 0, 0, 0, 0], 1),
            Err(DecodeErrorKind::TypeOutOfRange.at(0))
        );
        assert!(Tlv::only(&[0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0], u32::MAX).is_ok());
    }

    #[test]
    fn errors_say_where() {
        let mut reader = TlvReader::at(&[1, 1, 9, 2, 5, 0], 10);
        assert_eq!(
            reader.next().unwrap().unwrap(),
            Tlv {
                typ: 1,
                value: &[9],
                wire: &[1, 1, 9],
                offset: 10
            }
        );
        assert_eq!(
            reader.next().unwrap().unwrap_err().to_string(),
            "truncated at byte 13"
        );
        assert_eq!(reader.next(), None);
        assert_eq!(
            Tlv::only(&[1, 0, 7], 1).unwrap_err().to_string(),
            "bytes after the end of the packet at byte 2"
        );
        let seven = Tlv {
            typ: 7,
            value: &[],
            wire: &[7, 0],
            offset: 4,
        };
        assert_eq!(
            seven.skip(false).unwrap_err().to_string(),
            "unknown critical TLV type 7 at byte 4"
        );
    }

    #[test]
    fn a_stream_is_framed_or_refused() {
        assert_eq!(frame(&[], 100), Ok(None));
        assert_eq!(frame(&[5], 100), Ok(None));
        assert_eq!(frame(&[5, 3, 1, 2], 100), Ok(None));
        assert_eq!(frame(&[5, 3, 1, 2, 3, 6, 0], 100), Ok(Some(5)));
        assert_eq!(frame(&[5, 0xFD, 1], 100), Ok(None));
        assert_eq!(
            frame(&[5, 99], 100),
            Err(FrameError::TooLarge { typ: 5, total: 101 })
        );
        assert_eq!(frame(&[5, 98], 100), Ok(None));
        let huge = [6, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF];
        assert_eq!(
            frame(&huge, 8800),
            Err(FrameError::TooLarge {
                typ: 6,
                total: u64::MAX
            })
        );
        assert_eq!(frame(&[5, 0xFD, 0, 1], 100), Err(FrameError::NotATlv));
        for first in 0..=u8::MAX {
            let refused = Err(FrameError::NotAPacket { first });
            let is_packet = [5, 6, 100].contains(&first);
            assert_eq!(
                frame(&[first], 100),
                if is_packet { Ok(None) } else { refused }
            );
            assert_eq!(
                frame(&[first, 1, 0], 100),
                if is_packet { Ok(Some(3)) } else { refused }
            );
        }
    }

    proptest! {
        #[test]
        fn numbers_read_back(number in any::<u64>(), shift in 0u32..64) {
            let number = number >> shift;
            let mut out = Vec::new();
            write_nni(&mut out, 12, number);
            prop_assert_eq!(Tlv::only(&out, 12).unwrap().number(), Ok(number));
            prop_assert_eq!(out.len(), tlv_len(12, nni_len(number)));
            out.clear();
            write_var_number(&mut out, number);
            prop_assert_eq!(read_var_number(&out), Ok((number, out.len())));
        }

        #[test]
        fn a_wrong_guess_changes_nothing(value in proptest::collection::vec(any::<u8>(), 0..600), guess in 0usize..70_000) {
            let mut plain = vec![1];
            write_tlv(&mut plain, 300, &value);
            let mut nested = vec![1];
            write_nested(&mut nested, 300, guess, |out| out.extend_from_slice(&value));
            prop_assert_eq!(plain, nested);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            for element in TlvReader::new(&bytes) {
                match element {
                    Ok(element) => prop_assert!(element.offset + element.wire.len() <= bytes.len()),
                    Err(error) => prop_assert!(error.offset <= bytes.len()),
                }
            }
            if let Ok(Some(size)) = frame(&bytes, 40) {
                prop_assert!(size <= bytes.len() && size <= 40);
            }
        }
    }
}
