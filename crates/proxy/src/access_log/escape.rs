//! Escapes values, so that no client can write a line of its own into the log.
//!
//! Two forms, as nginx has them. Plain: `"`, `\` and bytes that are not visible ASCII become
//! `\xHH`. JSON: the inside of a string by RFC 8259. Valid UTF-8 stays; the bytes of other values
//! become characters of Latin-1, so that the line is JSON in any case.

/// How values are escaped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Escape {
    /// For lines that people read, and `combined`. A missing value is `-`.
    #[default]
    Default,
    /// Within the strings of a JSON object. A missing value is empty.
    Json,
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Appends a value.
pub(super) fn append(escape: Escape, value: &[u8], line: &mut Vec<u8>) {
    if is_plain(value) {
        return line.extend_from_slice(value);
    }
    match escape {
        Escape::Default => value.iter().for_each(|byte| match byte {
            b'"' | b'\\' | 0..0x20 | 0x7f.. => {
                line.extend_from_slice(&[
                    b'\\',
                    b'x',
                    HEX[usize::from(byte >> 4)],
                    HEX[usize::from(byte & 15)],
                ]);
            }
            _ => line.push(*byte),
        }),
        Escape::Json => {
            let is_text = str::from_utf8(value).is_ok();
            for byte in value {
                match byte {
                    b'"' | b'\\' => line.extend_from_slice(&[b'\\', *byte]),
                    0x80.. if is_text => line.push(*byte),
                    0..0x20 | 0x7f.. => {
                        line.extend_from_slice(b"\\u00");
                        line.extend_from_slice(&[
                            HEX[usize::from(byte >> 4)],
                            HEX[usize::from(byte & 15)],
                        ]);
                    }
                    _ => line.push(*byte),
                };
            }
        }
    }
}

/// Returns true if no byte has to be escaped in either form. Eight bytes at a time: nearly all
/// values are plain.
fn is_plain(value: &[u8]) -> bool {
    let (words, rest) = value.as_chunks::<8>();
    words
        .iter()
        .all(|word| is_plain_word(u64::from_le_bytes(*word)))
        && rest
            .iter()
            .all(|byte| matches!(byte, 0x20..0x7f) && !matches!(byte, b'"' | b'\\'))
}

/// The test of Mycroft (1987) for a byte of zero, and for one below 32, with the high bits in
/// addition. It may only err towards false.
fn is_plain_word(word: u64) -> bool {
    const ONES: u64 = u64::MAX / 255;
    const HIGHS: u64 = ONES * 0x80;
    let zero_in = |word: u64| word.wrapping_sub(ONES) & !word;
    let below = word.wrapping_sub(ONES * 0x20) & !word;
    let quote = zero_in(word ^ (ONES * b'"' as u64));
    let backslash = zero_in(word ^ (ONES * b'\\' as u64));
    let above = word | word.wrapping_add(ONES);
    (below | quote | backslash | above) & HIGHS == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn escaped(escape: Escape, value: &[u8]) -> String {
        let mut line = Vec::new();
        append(escape, value, &mut line);
        String::from_utf8(line).expect("the line is text")
    }

    #[test]
    fn a_value_ends_its_quotes_or_its_line() {
        assert_eq!(
            escaped(Escape::Default, b"a\"b\\c\n\xff"),
            r"a\x22b\x5cc\x0a\xff"
        );
        assert_eq!(
            escaped(Escape::Json, b"a\"b\\c\n\xff"),
            "a\\\"b\\\\c\\u000a\\u00ff"
        );
        assert_eq!(escaped(Escape::Json, "é\u{7f}".as_bytes()), "é\\u007f");
        assert_eq!(
            escaped(Escape::Default, b"Mozilla/5.0 (X11; Linux)"),
            "Mozilla/5.0 (X11; Linux)"
        );
    }

    proptest! {
        #[test]
        fn any_bytes_forge_a_line(value in proptest::collection::vec(any::<u8>(), 0..40)) {
            let plain = escaped(Escape::Default, &value);
            prop_assert!(plain.bytes().all(|byte| matches!(byte, 0x20..0x7f) && byte != b'"'));
            let read: String = serde_json::from_str(&format!("\"{}\"", escaped(Escape::Json, &value))).unwrap();
            match str::from_utf8(&value) {
                Ok(text) => prop_assert_eq!(read, text),
                Err(_) => prop_assert_eq!(read, value.iter().map(|byte| char::from(*byte)).collect::<String>()),
            }
        }

        #[test]
        fn a_byte_is_missed_in_a_word(before in 0usize..9, byte in any::<u8>()) {
            let mut value = [b'a'; 17];
            value[before] = byte;
            prop_assert_eq!(is_plain(&value), matches!(byte, 0x20..0x7f) && byte != b'"' && byte != b'\\');
        }
    }
}
