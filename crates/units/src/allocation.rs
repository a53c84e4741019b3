//! What an allocator takes for a number of bytes.

/// Returns the memory that an allocator takes for so many bytes. Allocators such as mimalloc and
/// jemalloc have four sizes between two powers of two. `bytes` is at most 2^62, beyond which the
/// result may exceed a `usize`.
pub const fn allocated(bytes: usize) -> usize {
    if bytes == 0 {
        return 0;
    }
    if bytes <= 64 {
        return bytes.next_multiple_of(16);
    }
    let step = 1 << (bytes - 1).ilog2().saturating_sub(2);
    bytes.next_multiple_of(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_four_sizes_between_two_powers_of_two() {
        for (bytes, expected) in [
            (0, 0),
            (1, 16),
            (64, 64),
            (65, 80),
            (128, 128),
            (129, 160),
            (1024, 1024),
            (1025, 1280),
            (1_600, 1_792),
        ] {
            assert_eq!(allocated(bytes), expected, "{bytes}");
        }
    }
}
