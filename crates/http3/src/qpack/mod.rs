//! Field sections (QPACK, RFC 9204) without a dynamic table: this server allows the client none,
//! and needs none itself. So no section waits for another stream, and a connection holds no state.

mod huffman;
mod static_table;

use crate::code::Code;
use crate::varint;
use http::{HeaderMap, StatusCode};
use static_table::{Entry, STATUS, TABLE};

/// The bytes that a field counts beside its name and its value (RFC 9114 §4.2.2).
const FIELD_BYTES: usize = 32;

/// The result of reading a field section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// All fields were read.
    Whole,
    /// It has more bytes than the limit; reading stopped there.
    TooLarge,
}

/// Reads a field section of at most `most` bytes, as RFC 9114 §4.2.2 counts them, and passes name
/// and value of each field on.
///
/// # Errors
/// The section is malformed, or refers to the dynamic table.
pub fn decode(
    section: &[u8],
    most: usize,
    mut each: impl FnMut(&[u8], &[u8]),
) -> Result<Section, Code> {
    let mut input = section;
    let insertions = integer(&mut input, 8)?;
    let _base = integer(&mut input, 7)?;
    if insertions != 0 {
        return Err(Code::DECOMPRESSION_FAILED);
    }
    let (mut name, mut value, mut left) = (Vec::new(), Vec::new(), most);
    while let Some(first) = input.first().copied() {
        name.clear();
        value.clear();
        let is_static_field = first & 0b1100_0000 == 0b1100_0000;
        let (name, value): (&[u8], &[u8]) = if is_static_field {
            let (name, value) = entry(&mut input, 6)?;
            (name.as_bytes(), value.as_bytes())
        } else {
            let name: &[u8] =
                if first & 0b1111_0000 == 0b0101_0000 || first & 0b1111_0000 == 0b0111_0000 {
                    entry(&mut input, 4)?.0.as_bytes()
                } else if first & 0b1110_0000 == 0b0010_0000 {
                    if string(&mut input, 3, left, &mut name)? == Section::TooLarge {
                        return Ok(Section::TooLarge);
                    }
                    &name
                } else {
                    return Err(Code::DECOMPRESSION_FAILED);
                };
            if string(&mut input, 7, left, &mut value)? == Section::TooLarge {
                return Ok(Section::TooLarge);
            }
            (name, &value)
        };
        match left.checked_sub(name.len() + value.len() + FIELD_BYTES) {
            Some(rest) => left = rest,
            None => return Ok(Section::TooLarge),
        }
        each(name, value);
    }
    Ok(Section::Whole)
}

/// Reads an integer with a prefix of so many bits (RFC 9204 §4.1.1).
fn integer(input: &mut &[u8], prefix: u32) -> Result<u64, Code> {
    let byte = |input: &mut &[u8]| {
        let (first, rest) = input.split_first().ok_or(Code::DECOMPRESSION_FAILED)?;
        *input = rest;
        Ok(*first)
    };
    let most = (1_u64 << prefix) - 1;
    let mut value = u64::from(byte(input)?) & most;
    if value < most {
        return Ok(value);
    }
    for shift in (0..63).step_by(7) {
        let next = byte(input)?;
        let part = u64::from(next & 0x7f)
            .checked_mul(1 << shift)
            .and_then(|part| value.checked_add(part));
        value = part
            .filter(|value| *value <= varint::MOST)
            .ok_or(Code::DECOMPRESSION_FAILED)?;
        if next < 0x80 {
            return Ok(value);
        }
    }
    Err(Code::DECOMPRESSION_FAILED)
}

/// Reads the index of an entry of the static table.
fn entry(input: &mut &[u8], prefix: u32) -> Result<(&'static str, &'static str), Code> {
    let index = usize::try_from(integer(input, prefix)?).ok();
    let entry = index.and_then(|index| TABLE.get(index));
    entry.copied().ok_or(Code::DECOMPRESSION_FAILED)
}

/// Reads a string of at most `most` bytes (RFC 9204 §4.1.2). The bit before its prefix says whether
/// it is Huffman code.
fn string(
    input: &mut &[u8],
    prefix: u32,
    most: usize,
    into: &mut Vec<u8>,
) -> Result<Section, Code> {
    let is_coded = input.first().is_some_and(|first| first >> prefix & 1 == 1);
    let length = integer(input, prefix)?;
    let length = usize::try_from(length).map_err(|_| Code::DECOMPRESSION_FAILED)?;
    let (bytes, rest) = input
        .split_at_checked(length)
        .ok_or(Code::DECOMPRESSION_FAILED)?;
    *input = rest;
    if is_coded {
        return match huffman::decode(bytes, most, into) {
            Ok(()) => Ok(Section::Whole),
            Err(huffman::Failure::TooLong) => Ok(Section::TooLarge),
            Err(huffman::Failure::Invalid) => Err(Code::DECOMPRESSION_FAILED),
        };
    }
    if length > most {
        return Ok(Section::TooLarge);
    }
    into.extend_from_slice(bytes);
    Ok(Section::Whole)
}

/// Appends the field section of a response's head.
pub(crate) fn encode_head(status: StatusCode, fields: &HeaderMap, into: &mut Vec<u8>) {
    into.extend_from_slice(&[0, 0]);
    match static_table::find_status(status.as_u16()) {
        Some(index) => append_integer(index, 6, 0b1100_0000, into),
        None => {
            append_integer(STATUS, 4, 0b0101_0000, into);
            append_string(status.as_str().as_bytes(), into);
        }
    }
    append_fields(fields, into);
}

/// Appends the field section of trailers.
pub(crate) fn encode_trailers(fields: &HeaderMap, into: &mut Vec<u8>) {
    into.extend_from_slice(&[0, 0]);
    append_fields(fields, into);
}

fn append_fields(fields: &HeaderMap, into: &mut Vec<u8>) {
    for (name, value) in fields {
        let (name, value) = (name.as_str(), value.as_bytes());
        match static_table::find(name, value) {
            Some(Entry::Field(index)) => append_integer(index, 6, 0b1100_0000, into),
            Some(Entry::Name(index)) => {
                append_integer(index, 4, 0b0101_0000, into);
                append_string(value, into);
            }
            None => {
                append_integer(name.len(), 3, 0b0010_0000, into);
                into.extend_from_slice(name.as_bytes());
                append_string(value, into);
            }
        }
    }
}

fn append_string(bytes: &[u8], into: &mut Vec<u8>) {
    append_integer(bytes.len(), 7, 0, into);
    into.extend_from_slice(bytes);
}

/// Appends an integer with a prefix of so many bits, below the bits of `first`.
fn append_integer(value: usize, prefix: u32, first: u8, into: &mut Vec<u8>) {
    let most = (1_usize << prefix) - 1;
    if value < most {
        return into.push(first | value as u8);
    }
    into.push(first | most as u8);
    let mut rest = value - most;
    while rest >= 0x80 {
        into.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    into.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderName, HeaderValue};

    type Fields = Vec<(String, String)>;

    fn decoded(section: &[u8], most: usize) -> Result<(Section, Fields), Code> {
        let mut fields = Fields::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let end = decode(section, most, |name, value| {
            fields.push((text(name), text(value)));
        })?;
        Ok((end, fields))
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    /// The first example of RFC 9204 (appendix B.1), an indexed field, a literal name, and a value
    /// in Huffman code.
    #[test]
    fn a_field_is_read_as_another_one() {
        let example = b"\x00\x00\x51\x0b/index.html";
        assert_eq!(
            decoded(example, 1000).unwrap().1,
            [pair(":path", "/index.html")]
        );
        let mut section = b"\x00\x00\xd1\xff\x22\x23abc\x01x\x50\x8c".to_vec();
        section.extend_from_slice(&[
            0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff,
        ]);
        let fields = [
            pair(":method", "GET"),
            pair("x-frame-options", "deny"),
            pair("abc", "x"),
            pair(":authority", "www.example.com"),
        ];
        assert_eq!(
            decoded(&section, 1000),
            Ok((Section::Whole, fields.to_vec()))
        );
    }

    /// Failure: a section that refers to what this server does not have, or ends early, is read as
    /// a request.
    #[test]
    fn a_section_that_cannot_be_read_has_fields() {
        for section in [
            &b""[..],
            b"\x00",
            b"\x01\x00",          // an insertion is required
            b"\x00\x00\x80",      // an entry of the dynamic table
            b"\x00\x00\x40\x01x", // a name of the dynamic table
            b"\x00\x00\x10",      // an entry after the base
            b"\x00\x00\x00\x01x", // a name after the base
            b"\x00\x00\xff\x24",  // entry 99
            b"\x00\x00\x51\x0b/index.htm",
            b"\x00\x00\x51\x81\x00", // padding of zeros
            b"\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        ] {
            assert_eq!(
                decoded(section, 1000),
                Err(Code::DECOMPRESSION_FAILED),
                "{section:?}"
            );
        }
    }

    /// Failure: a small section becomes a large one, by many references or by Huffman code.
    #[test]
    fn a_section_has_more_bytes_than_its_limit() {
        let mut many = vec![0, 0];
        many.resize(2000, 0xc1);
        let (end, fields) = decoded(&many, 380).unwrap();
        assert_eq!((end, fields.len()), (Section::TooLarge, 10));
        let long = [&b"\x00\x00\x51\xe4"[..], &[0; 100]].concat();
        assert_eq!(decoded(&long, 100).unwrap().0, Section::TooLarge);
        assert_eq!(decoded(&long, 1000).unwrap().1[0].1.len(), 160);
    }

    /// Failure: a client reads other fields than those that were sent.
    #[test]
    fn fields_change_on_their_way() {
        let mut fields = HeaderMap::new();
        let long = "v".repeat(500);
        for (name, value) in [
            ("content-type", "text/plain"),
            ("content-type", "image/webp"),
            ("content-length", "0"),
            ("x-a-name-that-no-table-has", &long),
            ("set-cookie", "a=b"),
            ("set-cookie", ""),
        ] {
            fields.append(
                HeaderName::try_from(name).unwrap(),
                HeaderValue::try_from(value).unwrap(),
            );
        }
        for (status, entry_bytes) in [(200, 1), (404, 1), (418, 6)] {
            let status = StatusCode::from_u16(status).unwrap();
            let mut section = Vec::new();
            encode_head(status, &HeaderMap::new(), &mut section);
            assert_eq!(section.len(), 2 + entry_bytes);
            append_fields(&fields, &mut section);
            let (_, read) = decoded(&section, 10_000).unwrap();
            let sent = fields
                .iter()
                .map(|(name, value)| pair(name.as_str(), value.to_str().unwrap()));
            let all: Fields = std::iter::once(pair(":status", status.as_str()))
                .chain(sent)
                .collect();
            assert_eq!(read, all);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_section_is_read_within_its_limit(section in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
            if let Ok((_, fields)) = decoded(&section, 500) {
                let bytes: usize = fields.iter().map(|(name, value)| name.len() + value.len() + FIELD_BYTES).sum();
                // A byte that is no UTF-8 has three of the replacement character.
                assert!(bytes <= 1500);
            }
        }
    }
}
