//! Default sizes of a curve.

/// The smallest size is the bytes of all objects divided by this.
const SPAN: f64 = 1_000.0;

/// Returns `count` sizes in bytes up to `all`, ascending, with equal steps of their logarithm.
pub fn spaced_sizes(all: u64, count: usize) -> Vec<u64> {
    let step =
        |place: usize| (place as f64 / count.saturating_sub(1).max(1) as f64 - 1.0) * SPAN.ln();
    let size = |place| ((all as f64 * step(place).exp()).round() as u64).clamp(1, all.max(1));
    (if count == 1 { 1..2 } else { 0..count })
        .map(size)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_do_not_span_the_trace() {
        assert_eq!(
            spaced_sizes(1_000_000, 4),
            [1_000, 10_000, 100_000, 1_000_000]
        );
        assert_eq!(spaced_sizes(1_000_000, 1), [1_000_000]);
        assert_eq!(spaced_sizes(0, 2), [1, 1]);
        assert_eq!(spaced_sizes(u64::MAX, 2)[1], u64::MAX);
        assert!(spaced_sizes(7, 0).is_empty());
    }
}
