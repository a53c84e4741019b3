//! Strings in the Huffman code of HPACK (RFC 7541, appendix B), which QPACK uses too. They are only
//! read: this server sends its fields without it, which costs some bytes and saves the time.
//!
//! The code is canonical: codes of one length are consecutive, in the order of their symbols, and
//! longer ones follow shorter ones. So the lengths are the whole table. A string is read by a table
//! over its next nine bits, which hold one of the 74 codes of up to nine bits; a longer code is
//! found by its length.

/// The length of the code of each byte, in bits. The end of the string (30 bits) is no symbol of a
/// string: its first bits fill the last byte.
#[rustfmt::skip]
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];

/// The longest code, in bits.
const LONGEST: usize = 30;

/// The bits of the first table.
const SHORT: usize = 9;

struct Codes {
    /// By the next nine bits: symbol and length; length 0 for a longer code.
    short: [(u8, u8); 1 << SHORT],
    /// By length: the first code, aligned to the left of 32 bits, and the place of its symbol.
    first: [(u64, usize); LONGEST + 2],
    /// The symbols in the order of their codes.
    symbols: [u8; 256],
}

static CODES: Codes = codes();

const fn codes() -> Codes {
    let mut codes = Codes {
        short: [(0, 0); 1 << SHORT],
        first: [(1 << 32, 256); LONGEST + 2],
        symbols: [0; 256],
    };
    let (mut code, mut place, mut length) = (0_u64, 0, 1);
    while length <= LONGEST {
        codes.first[length] = (code << (32 - length), place);
        let mut symbol = 0;
        while symbol < 256 {
            if LENGTHS[symbol] as usize == length {
                codes.symbols[place] = symbol as u8;
                if length <= SHORT {
                    let start = (code as usize) << (SHORT - length);
                    let mut at = start;
                    while at < start + (1 << (SHORT - length)) {
                        codes.short[at] = (symbol as u8, length as u8);
                        at += 1;
                    }
                }
                code += 1;
                place += 1;
            }
            symbol += 1;
        }
        code <<= 1;
        length += 1;
    }
    codes
}

/// A string that is no Huffman code, or is longer than its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    Invalid,
    TooLong,
}

/// Appends the decoded string, of at most `most` bytes.
pub(super) fn decode(bytes: &[u8], most: usize, into: &mut Vec<u8>) -> Result<(), Failure> {
    let end = into.len() + most;
    // The next bits, from the left.
    let (mut bits, mut have) = (0_u64, 0_usize);
    let mut rest = bytes.iter();
    loop {
        while have <= 56 {
            let Some(byte) = rest.next() else { break };
            bits |= u64::from(*byte) << (56 - have);
            have += 8;
        }
        if have < 8 && bits == padding(have) {
            return Ok(());
        }
        let (symbol, length) = next(bits).ok_or(Failure::Invalid)?;
        if length > have {
            return Err(Failure::Invalid);
        }
        if into.len() == end {
            return Err(Failure::TooLong);
        }
        into.push(symbol);
        bits <<= length;
        have -= length;
    }
}

/// Returns `have` bits of the end of the string, which are all ones.
const fn padding(have: usize) -> u64 {
    if have == 0 {
        0
    } else {
        u64::MAX << (64 - have)
    }
}

/// Returns the symbol of the next code, and the code's length.
fn next(bits: u64) -> Option<(u8, usize)> {
    let (symbol, length) = CODES.short[(bits >> (64 - SHORT)) as usize];
    if length > 0 {
        return Some((symbol, usize::from(length)));
    }
    let window = bits >> 32;
    let length = (SHORT + 1..=LONGEST).find(|length| {
        let (first, place) = CODES.first[*length];
        let count = CODES.first[length + 1].1 - place;
        window >> (32 - length) < (first >> (32 - length)) + count as u64
    })?;
    let (first, place) = CODES.first[length];
    let offset = (window >> (32 - length)).checked_sub(first >> (32 - length))?;
    let symbol = CODES.symbols.get(place + usize::try_from(offset).ok()?)?;
    Some((*symbol, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes by the definition: each code from the lengths, bit by bit.
    fn encode(text: &[u8]) -> Vec<u8> {
        let mut order: Vec<usize> = (0..256).collect();
        order.sort_by_key(|symbol| (LENGTHS[*symbol], *symbol));
        let (mut codes, mut code, mut before) = ([(0_u32, 0_u8); 256], 0_u32, 0);
        for symbol in order {
            let length = LENGTHS[symbol];
            code <<= length - before;
            before = length;
            codes[symbol] = (code, length);
            code += 1;
        }
        let mut bits = Vec::new();
        for byte in text {
            let (code, length) = codes[usize::from(*byte)];
            bits.extend((0..length).rev().map(|bit| code >> bit & 1 == 1));
        }
        while bits.len() % 8 != 0 {
            bits.push(true);
        }
        let byte = |bits: &[bool]| bits.iter().fold(0, |byte, bit| byte << 1 | u8::from(*bit));
        bits.chunks(8).map(byte).collect()
    }

    fn decoded(bytes: &[u8]) -> Result<Vec<u8>, Failure> {
        let mut text = Vec::new();
        decode(bytes, 10_000, &mut text).map(|()| text)
    }

    /// The examples of RFC 7541 §C.4 and §C.6.
    #[test]
    fn an_example_of_the_rfc_is_read_as_another_string() {
        let examples: [(&str, &[u8]); 4] = [
            (
                "www.example.com",
                &[
                    0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff,
                ],
            ),
            ("no-cache", &[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf]),
            ("302", &[0x64, 0x02]),
            (
                "custom-value",
                &[0x25, 0xa8, 0x49, 0xe9, 0x5b, 0xb8, 0xe8, 0xb4, 0xbf],
            ),
        ];
        for (text, bytes) in examples {
            assert_eq!(decoded(bytes).as_deref(), Ok(text.as_bytes()));
            assert_eq!(encode(text.as_bytes()), bytes);
        }
    }

    /// Failure: a byte has no code, a code is cut off, padding is too long or no padding, or a
    /// short string takes more memory than its limit.
    #[test]
    fn a_string_is_not_what_was_encoded() {
        let all: Vec<u8> = (0..=255).chain((0..=255).rev()).collect();
        assert_eq!(decoded(&encode(&all)), Ok(all.clone()));
        for invalid in [
            &[0xff][..],
            &[0xff; 4],
            &[0xf1, 0xe3, 0xff, 0xff, 0xff, 0xff],
            &[0x00, 0x7e],
        ] {
            assert_eq!(decoded(invalid), Err(Failure::Invalid), "{invalid:?}");
        }
        let mut text = vec![b'x'];
        assert_eq!(
            decode(&encode(b"00000"), 4, &mut text),
            Err(Failure::TooLong)
        );
        assert_eq!(text, b"x0000");
    }

    proptest::proptest! {
        #[test]
        fn any_string_comes_back(text in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            assert_eq!(decoded(&encode(&text)), Ok(text));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..100)) {
            let _ = decoded(&bytes);
        }
    }
}
