//! Entity tags of files (RFC 9110 §8.8.3).

use crate::look::Meta;
use std::time::SystemTime;
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// The nanoseconds after a change for which another one may leave all times as they are. The
/// clocks of file systems have ticks of up to 10 ms, and FAT's of 2 s.
const UNSETTLED_NANOS: i128 = 2_000_000_000;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// An entity tag: `"..."`, or `W/"..."`. A weak one and the strong one of the same file differ, so
/// that bytes which were read under the weak one never get the strong one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    text: [u8; Tag::BYTES],
    /// 0 for a weak tag, 2 for a strong one.
    start: usize,
}

impl Tag {
    const BYTES: usize = 36;

    /// Makes the tag of a file. `seed` differs between configurations that make different heads.
    pub(crate) fn new(meta: &Meta, seed: u64, now: SystemTime) -> Tag {
        let is_weak = nanos(now) - meta.changed_nanos < UNSETTLED_NANOS;
        let mut bytes = [0; 49];
        bytes[..8].copy_from_slice(&meta.inode.to_le_bytes());
        bytes[8..16].copy_from_slice(&meta.size.to_le_bytes());
        bytes[16..32].copy_from_slice(&meta.modified_nanos.to_le_bytes());
        bytes[32..48].copy_from_slice(&meta.changed_nanos.to_le_bytes());
        bytes[48] = u8::from(is_weak);
        let hash = xxh3_128_with_seed(&bytes, seed).to_be_bytes();
        let mut text = *b"W/\"00000000000000000000000000000000\"";
        for (byte, place) in hash.into_iter().zip(text[3..35].chunks_exact_mut(2)) {
            place[0] = DIGITS[usize::from(byte >> 4)];
            place[1] = DIGITS[usize::from(byte & 15)];
        }
        Tag {
            text,
            start: if is_weak { 0 } else { 2 },
        }
    }

    /// Returns the tag as `ETag` has it.
    pub fn as_bytes(&self) -> &[u8] {
        &self.text[self.start..]
    }
}

/// Returns the nanoseconds since 1970.
fn nanos(time: SystemTime) -> i128 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or_else(
        |before| -(before.duration().as_nanos() as i128),
        |since| since.as_nanos() as i128,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Failure: two contents have one strong tag, or a tag that was weak becomes strong.
    #[test]
    fn tags_change_with_their_file() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let meta = Meta {
            inode: 1,
            size: 2,
            modified_nanos: 100_000_000_000,
            changed_nanos: 100_000_000_000,
        };
        let strong = Tag::new(&meta, 0, at(102));
        assert_eq!((strong.as_bytes().len(), strong.as_bytes()[0]), (34, b'"'));
        for other in [
            Meta { inode: 2, ..meta },
            Meta { size: 3, ..meta },
            Meta {
                modified_nanos: meta.modified_nanos + 1,
                ..meta
            },
            Meta {
                changed_nanos: meta.changed_nanos - 1,
                ..meta
            },
        ] {
            assert_ne!(Tag::new(&other, 0, at(102)), strong, "{other:?}");
        }
        assert_ne!(Tag::new(&meta, 1, at(102)), strong);
        assert_eq!(Tag::new(&meta, 0, at(900)), strong);
        let weak = Tag::new(&meta, 0, at(101));
        assert!(weak.as_bytes().starts_with(b"W/\"") && weak.as_bytes()[2..] != *strong.as_bytes());
        // Of a clock that was set back.
        assert!(Tag::new(&meta, 0, at(50)).as_bytes().starts_with(b"W/"));
    }
}
