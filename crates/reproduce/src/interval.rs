//! The mean of repetitions and its confidence interval.

/// How sure an interval is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Confidence {
    /// 90 %.
    Ninety,
    /// 95 %.
    NinetyFive,
}

impl Confidence {
    /// Student's t, two-sided, for 1 to 9 degrees of freedom; of more the ninth is taken, which is
    /// wider than they need.
    const fn student(self) -> [f64; 9] {
        match self {
            Confidence::Ninety => [6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833],
            Confidence::NinetyFive => [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262],
        }
    }
}

/// A mean and half the width of its interval; no interval from one run.
pub(crate) fn mean_and_interval(runs: &[f64], confidence: Confidence) -> (f64, f64) {
    let n = runs.len() as f64;
    let mean = runs.iter().sum::<f64>() / n;
    let Some(t) = runs.len().checked_sub(2).map(|at| confidence.student()[at.min(8)]) else { return (mean, 0.0) };
    let variance = runs.iter().map(|run| (run - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, t * (variance / n).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_of_other_runs() {
        assert_eq!(mean_and_interval(&[2.0], Confidence::Ninety), (2.0, 0.0));
        for (confidence, t) in [(Confidence::Ninety, 2.132), (Confidence::NinetyFive, 2.776)] {
            let (mean, half) = mean_and_interval(&[1.0, 2.0, 3.0, 4.0, 5.0], confidence);
            assert!((mean - 3.0).abs() < 1e-12 && (half - t * (2.5_f64 / 5.0).sqrt()).abs() < 1e-12);
        }
    }
}
