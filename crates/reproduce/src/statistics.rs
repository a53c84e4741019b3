//! Statistics of repetitions: mean with its confidence interval, median, percentiles.

/// The level of a confidence interval.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Confidence {
    /// 90 %.
    Ninety,
    /// 95 %.
    NinetyFive,
}

impl Confidence {
    /// Returns Student's t, two-sided, for 1 to 9 degrees of freedom. More degrees use the ninth
    /// value, which gives a wider interval than necessary.
    const fn student(self) -> [f64; 9] {
        match self {
            Confidence::Ninety => [
                6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833,
            ],
            Confidence::NinetyFive => [
                12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262,
            ],
        }
    }
}

/// Returns the mean and half the width of its interval, which is 0 for a single run.
pub(crate) fn mean_and_interval(runs: &[f64], confidence: Confidence) -> (f64, f64) {
    let n = runs.len() as f64;
    let mean = runs.iter().sum::<f64>() / n;
    let Some(t) = runs
        .len()
        .checked_sub(2)
        .map(|at| confidence.student()[at.min(8)])
    else {
        return (mean, 0.0);
    };
    let variance = runs.iter().map(|run| (run - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, t * (variance / n).sqrt())
}

/// Returns the median; NaN without values, or if one of them is NaN.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    if values.iter().any(|value| value.is_nan()) {
        return f64::NAN;
    }
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match (values.get(middle), values.len() % 2) {
        (None, _) => f64::NAN,
        (Some(upper), 0) => (values[middle - 1] + upper) / 2.0,
        (Some(value), _) => *value,
    }
}

/// Returns a percentile by nearest rank, so the fifth percentile of up to 20 repetitions is the
/// least; NaN without values, or if one of them is NaN.
pub(crate) fn percentile(values: &[f64], percent: usize) -> f64 {
    let mut values = values.to_vec();
    if values.iter().any(|value| value.is_nan()) {
        return f64::NAN;
    }
    values.sort_by(f64::total_cmp);
    let rank = (values.len() * percent).div_ceil(100).max(1);
    values.get(rank - 1).copied().unwrap_or(f64::NAN)
}

/// Returns the greatest value; NaN without values, or if one of them is NaN.
pub(crate) fn greatest(values: impl IntoIterator<Item = f64>) -> f64 {
    extreme(values, f64::max)
}

/// Returns the least value; NaN without values, or if one of them is NaN.
pub(crate) fn least(values: impl IntoIterator<Item = f64>) -> f64 {
    extreme(values, f64::min)
}

fn extreme(values: impl IntoIterator<Item = f64>, of: fn(f64, f64) -> f64) -> f64 {
    let of_two = |a: f64, b: f64| {
        if a.is_nan() || b.is_nan() {
            f64::NAN
        } else {
            of(a, b)
        }
    };
    values.into_iter().reduce(of_two).unwrap_or(f64::NAN)
}

/// Returns how many checks are true; NaN without checks, because then nothing was compared.
pub(crate) fn count(checks: impl IntoIterator<Item = bool>) -> f64 {
    let counted =
        |(all, true_ones): (u32, u32), check: bool| (all + 1, true_ones + u32::from(check));
    match checks.into_iter().fold((0, 0), counted) {
        (0, _) => f64::NAN,
        (_, true_ones) => f64::from(true_ones),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_of_other_runs() {
        assert_eq!(mean_and_interval(&[2.0], Confidence::Ninety), (2.0, 0.0));
        for (confidence, t) in [(Confidence::Ninety, 2.132), (Confidence::NinetyFive, 2.776)] {
            let (mean, half) = mean_and_interval(&[1.0, 2.0, 3.0, 4.0, 5.0], confidence);
            assert!(
                (mean - 3.0).abs() < 1e-12 && (half - t * (2.5_f64 / 5.0).sqrt()).abs() < 1e-12
            );
        }
    }

    #[test]
    fn a_median_is_not_in_the_middle() {
        assert_eq!(
            (median(vec![3.0, 1.0, 9.0]), median(vec![4.0, 1.0])),
            (3.0, 2.5)
        );
        assert!(median(Vec::new()).is_nan() && median(vec![1.0, f64::NAN, 2.0]).is_nan());
    }

    #[test]
    fn a_percentile_is_of_another_rank() {
        let shares = |count: usize| {
            (1..=count)
                .rev()
                .map(|share| share as f64)
                .collect::<Vec<f64>>()
        };
        let of = |percent| [1, 2, 20, 21, 50].map(|count| percentile(&shares(count), percent));
        assert_eq!(of(5), [1.0, 1.0, 1.0, 2.0, 3.0]);
        assert_eq!(of(50), [1.0, 1.0, 10.0, 11.0, 25.0]);
        assert_eq!(of(95), [1.0, 2.0, 19.0, 20.0, 48.0]);
        assert!(percentile(&[], 5).is_nan() && percentile(&[1.0, f64::NAN], 5).is_nan());
    }

    /// `f64::max` and `f64::min` ignore a NaN, and a fold over nothing returns its start.
    #[test]
    fn a_missing_value_is_ignored() {
        assert_eq!(
            (greatest([1.0, 3.0, 2.0]), least([2.0, 1.0, 3.0])),
            (3.0, 1.0)
        );
        for values in [
            &[][..],
            &[f64::NAN, 1.0],
            &[1.0, f64::NAN],
            &[1.0, f64::NAN, 2.0],
        ] {
            let values = || values.iter().copied();
            assert!(greatest(values()).is_nan() && least(values()).is_nan());
        }
        assert_eq!((count([true, false, true]), count([false])), (2.0, 0.0));
        assert!(count([]).is_nan());
    }
}
