//! The text of a certificate's subject (RFC 4514): `CN=alice,O=Example`, the last part of the name
//! first.
//!
//! Attributes without a short name are written by their object identifier, and values that are no
//! text as `#` and their hexadecimal DER.

use std::fmt::Write;

/// Returns the text of a `Name` (RFC 5280 §4.1.2.4) without its outer tag and length; `None` if it
/// is malformed.
pub(crate) fn text(mut name: &[u8]) -> Option<String> {
    let mut parts = Vec::new();
    while !name.is_empty() {
        let mut set = take(&mut name, SET)?;
        let mut attributes = Vec::new();
        while !set.is_empty() {
            let mut attribute = take(&mut set, SEQUENCE)?;
            let kind = take(&mut attribute, OBJECT_IDENTIFIER)?;
            attributes.push(format!("{}={}", kind_text(kind)?, value_text(attribute)?));
        }
        parts.push(attributes.join("+"));
    }
    parts.reverse();
    Some(parts.join(","))
}

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 6;
/// `UTF8String`, `PrintableString`, `IA5String`.
const TEXTS: [u8; 3] = [12, 19, 22];

/// Takes an element of this tag. Returns its content.
fn take<'a>(from: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    let (&found, rest) = from.split_first()?;
    let (&length, rest) = rest.split_first()?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(length), rest),
        0x81 => rest
            .split_first()
            .map(|(length, rest)| (usize::from(*length), rest))?,
        0x82 => rest
            .split_first_chunk()
            .map(|(length, rest)| (usize::from(u16::from_be_bytes(*length)), rest))?,
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    *from = rest;
    (found == tag).then_some(content)
}

/// The short names of RFC 4514 §3, and two that openssl writes.
fn kind_text(kind: &[u8]) -> Option<String> {
    let short = match kind {
        [0x55, 4, 3] => "CN",
        [0x55, 4, 6] => "C",
        [0x55, 4, 7] => "L",
        [0x55, 4, 8] => "ST",
        [0x55, 4, 9] => "STREET",
        [0x55, 4, 10] => "O",
        [0x55, 4, 11] => "OU",
        [0x55, 4, 5] => "serialNumber",
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1] => "emailAddress",
        [0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25] => "DC",
        [0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1] => "UID",
        _ => return dotted(kind),
    };
    Some(short.to_owned())
}

fn dotted(kind: &[u8]) -> Option<String> {
    let (&first, rest) = kind.split_first()?;
    let mut text = format!(
        "{}.{}",
        (first / 40).min(2),
        first - (first / 40).min(2) * 40
    );
    let mut number = 0_u64;
    for byte in rest {
        number = number.checked_mul(128)? + u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            write!(text, ".{number}").ok()?;
            number = 0;
        }
    }
    Some(text)
}

fn value_text(value: &[u8]) -> Option<String> {
    let tag = *value.first()?;
    let mut rest = value;
    let content = take(&mut rest, tag).filter(|_| rest.is_empty())?;
    let mut text = String::new();
    match str::from_utf8(content)
        .ok()
        .filter(|_| TEXTS.contains(&tag))
    {
        Some(words) => {
            let last = words.len().saturating_sub(1);
            for (at, letter) in words.char_indices() {
                match letter {
                    '"' | '+' | ',' | ';' | '<' | '>' | '\\' => write!(text, "\\{letter}").ok()?,
                    '#' | ' ' if at == 0 => write!(text, "\\{letter}").ok()?,
                    ' ' if at == last => text.push_str("\\ "),
                    ' '..='~' => text.push(letter),
                    // A field has visible ASCII only.
                    _ => {
                        let mut bytes = [0; 4];
                        for byte in letter.encode_utf8(&mut bytes).bytes() {
                            write!(text, "\\{byte:02X}").ok()?;
                        }
                    }
                }
            }
        }
        None => {
            text.push('#');
            value
                .iter()
                .try_for_each(|byte| write!(text, "{byte:02x}"))
                .ok()?;
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn element(tag: u8, content: &[u8]) -> Vec<u8> {
        [&[tag, u8::try_from(content.len()).unwrap()], content].concat()
    }

    fn attribute(kind: &[u8], tag: u8, value: &[u8]) -> Vec<u8> {
        element(
            SEQUENCE,
            &[element(OBJECT_IDENTIFIER, kind), element(tag, value)].concat(),
        )
    }

    /// Failure: two subjects have the same text, or a subject ends the field.
    #[test]
    fn a_subject_is_taken_for_another() {
        let name = |parts: &[Vec<u8>]| {
            text(
                &parts
                    .iter()
                    .flat_map(|part| element(SET, part))
                    .collect::<Vec<u8>>(),
            )
        };
        let (cn, o) = ([0x55, 4, 3], [0x55, 4, 10]);
        assert_eq!(
            name(&[attribute(&o, 19, b"Example"), attribute(&cn, 12, b"alice")]).as_deref(),
            Some("CN=alice,O=Example")
        );
        assert_eq!(
            name(&[attribute(&cn, 12, "a,O=b\r\n\u{e9} ".as_bytes())]).as_deref(),
            Some("CN=a\\,O=b\\0D\\0A\\C3\\A9\\ ")
        );
        assert_eq!(
            name(&[attribute(&[0x2a, 0x86, 0x48, 5], 4, &[1])]).as_deref(),
            Some("1.2.840.5=#040101")
        );
        let both = [attribute(&cn, 12, b"a"), attribute(&o, 12, b"b")].concat();
        assert_eq!(name(&[both]).as_deref(), Some("CN=a+O=b"));
        assert_eq!(name(&[]).as_deref(), Some(""));
        assert_eq!(text(&[SET, 5, 1]), None);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..60)) {
            let nested = element(SET, &element(SEQUENCE, &bytes));
            for name in [&bytes, &nested] {
                let sound = text(name).is_none_or(|text| text.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
                proptest::prop_assert!(sound);
            }
        }
    }
}
