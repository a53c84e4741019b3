//! Integers of variable length (RFC 9000 §16).

/// The largest value.
pub const MOST: u64 = (1 << 62) - 1;

/// Returns the integer at the start of `bytes` and its length; `None` if it is not complete.
pub fn decode(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    let length = 1 << (first >> 6);
    let rest = bytes.get(1..length)?;
    let value = rest.iter().fold(u64::from(first & 0x3f), |value, byte| {
        value << 8 | u64::from(*byte)
    });
    Some((value, length))
}

/// Appends an integer of at most [`MOST`].
pub fn encode(value: u64, into: &mut Vec<u8>) {
    debug_assert!(value <= MOST);
    match value {
        0..0x40 => into.push(value as u8),
        0x40..0x4000 => into.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        0x4000..0x4000_0000 => {
            into.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes());
        }
        _ => into.extend_from_slice(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 9000 §A.1, and the ends of each length.
    #[test]
    fn an_integer_is_read_as_another() {
        let long = [0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c];
        assert_eq!(decode(&long), Some((151_288_809_941_952_652, 8)));
        assert_eq!(decode(&[0x9d, 0x7f, 0x3e, 0x7d]), Some((494_878_333, 4)));
        assert_eq!(decode(&[0x7b, 0xbd, 1]), Some((15_293, 2)));
        assert_eq!(decode(&[0x40, 0x25]), Some((37, 2)));
        for value in [0, 63, 64, 16_383, 16_384, (1 << 30) - 1, 1 << 30, MOST] {
            let mut bytes = Vec::new();
            encode(value, &mut bytes);
            assert_eq!(decode(&bytes), Some((value, bytes.len())));
            assert_eq!(decode(&bytes[..bytes.len() - 1]), None);
        }
    }
}
