//! Selects the queued datagrams of one system call (UDP generic segmentation offload): several of
//! one size, and a shorter last one.

use crate::limits::UDP_MOST_BYTES;

/// Returns how many of the datagrams of these lengths one call sends, and their bytes; `most` is
/// the kernel's limit. At least one, if there is one.
pub fn run(lengths: impl IntoIterator<Item = usize>, most: usize) -> (usize, usize) {
    let mut lengths = lengths.into_iter();
    let Some(size) = lengths.next() else {
        return (0, 0);
    };
    let (mut count, mut bytes, mut last) = (1, size, size);
    for length in lengths {
        if count >= most || last != size || length > size || bytes + length > UDP_MOST_BYTES {
            break;
        }
        (count, bytes, last) = (count + 1, bytes + length, length);
    }
    (count, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_are_cut_again_where_they_were_put_together() {
        assert_eq!(run([], 64), (0, 0));
        assert_eq!(run([100], 64), (1, 100));
        assert_eq!(run([100, 100, 100], 64), (3, 300));
        assert_eq!(run([100, 100, 100], 2), (2, 200));
        assert_eq!(
            run([100, 100, 40, 40], 64),
            (3, 240),
            "one shorter one, at the end"
        );
        assert_eq!(run([100, 200], 64), (1, 100));
        assert_eq!(run([8000; 20], 64), (8, 64_000));
        assert_eq!(
            run([70_000, 1], 64),
            (1, 70_000),
            "whoever queues such a one is told by the kernel"
        );
    }
}
