//! Axes: their labels and scales, their ranges, and the positions of their ticks.
//!
//! Positions are linear. A logarithmic axis is a linear one of decimal logarithms with other
//! labels, so that the drawing code handles one kind of axis.

use crate::limits::{GREATEST_VALUE, TICKS};

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The measured quantity, with the unit.
    pub label: String,
    /// The mapping of values to positions.
    pub scale: Scale,
    /// Values with names, such as policies under bars. If empty, numbers are chosen.
    pub names: Vec<(f64, String)>,
}

/// The mapping of values to positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Equal steps have equal distances.
    Linear,
    /// Equal factors have equal distances; only positive values are shown.
    Log,
}

impl Axis {
    /// Creates a linear axis with numbers.
    pub fn linear(label: impl Into<String>) -> Axis {
        Axis {
            label: label.into(),
            scale: Scale::Linear,
            names: Vec::new(),
        }
    }

    /// Creates a logarithmic axis with numbers.
    pub fn log(label: impl Into<String>) -> Axis {
        Axis {
            scale: Scale::Log,
            ..Axis::linear(label)
        }
    }

    /// Creates an axis of names: the first at 0, the next at 1, and so on.
    pub fn named(
        label: impl Into<String>,
        names: impl IntoIterator<Item = impl Into<String>>,
    ) -> Axis {
        let names = names
            .into_iter()
            .enumerate()
            .map(|(at, name)| (at as f64, name.into()))
            .collect();
        Axis {
            names,
            ..Axis::linear(label)
        }
    }

    /// Returns the position of a value, if it can be shown.
    pub(crate) fn position(&self, value: f64) -> Option<f64> {
        match self.scale {
            Scale::Linear => (value.abs() < GREATEST_VALUE).then_some(value),
            Scale::Log => {
                (value > 1.0 / GREATEST_VALUE && value < GREATEST_VALUE).then(|| value.log10())
            }
        }
    }

    /// Returns the ticks between two positions: their positions and labels.
    pub(crate) fn ticks(&self, low: f64, high: f64) -> Vec<(f64, String)> {
        if !self.names.is_empty() {
            let placed = self
                .names
                .iter()
                .filter_map(|(value, name)| Some((self.position(*value)?, name.clone())));
            return placed.filter(|(at, _)| (low..=high).contains(at)).collect();
        }
        match self.scale {
            Scale::Linear => linear_ticks(low, high)
                .into_iter()
                .map(|value| (value, number(value)))
                .collect(),
            Scale::Log => log_ticks(low, high)
                .into_iter()
                .map(|value| (value.log10(), number(value)))
                .collect(),
        }
    }
}

/// Returns multiples of 1, 2 or 5 times a power of ten, at most [`TICKS`].
fn linear_ticks(low: f64, high: f64) -> Vec<f64> {
    let power = 10_f64.powf(((high - low) / TICKS as f64).log10().floor());
    let fits = |step: &f64| (((high - low) / step) as usize) < TICKS;
    let step = [1.0, 2.0, 5.0, 10.0, 20.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(fits)
        .unwrap_or(high - low);
    let (first, last) = ((low / step).ceil(), (high / step).floor());
    // In a range that is too narrow for its magnitude, the steps vanish in rounding.
    if (last - first).is_nan() || last - first > TICKS as f64 {
        return vec![low, high];
    }
    (0..=(last - first).max(0.0) as u32)
        .map(|i| (first + f64::from(i)) * step)
        .map(|tick| tick + 0.0)
        .collect()
}

/// Returns powers of ten, thinned to [`TICKS`]; with their double and fivefold if there are at most
/// two of them. Positions are logarithms, ticks are not.
fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let (first, last) = (low.floor() as i32, high.ceil() as i32);
    let every = ((last - first) as usize).div_ceil(TICKS).max(1);
    let factors: &[f64] = if high - low <= 2.0 {
        &[1.0, 2.0, 5.0]
    } else {
        &[1.0]
    };
    let powers = (first..=last).step_by(every);
    let all = powers.flat_map(|power| {
        factors
            .iter()
            .map(move |factor| factor * 10_f64.powi(power))
    });
    let slack = (high - low) * 1e-9;
    all.filter(|value| (low - slack..=high + slack).contains(&value.log10()))
        .collect()
}

/// Formats a number as short as it is readable: three to five digits, k, M, G and T, powers of ten
/// beyond.
fn number(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 {
        return "0".to_owned();
    }
    let (divisor, suffix) = match size {
        1e4..1e6 => (1e3, "k"),
        1e6..1e9 => (1e6, "M"),
        1e9..1e12 => (1e9, "G"),
        1e12..1e15 => (1e12, "T"),
        1e-4..1e4 => (1.0, ""),
        _ => return format!("{value:.1e}").replace(".0e", "e"),
    };
    let shown = value / divisor;
    let decimals = (4 - shown.abs().log10().floor() as i32).clamp(0, 8) as usize;
    let digits = format!("{shown:.decimals$}");
    let digits = if digits.contains('.') {
        digits.trim_end_matches('0').trim_end_matches('.')
    } else {
        &digits
    };
    format!("{digits}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_that_nobody_would_choose() {
        let labels = |low, high| {
            linear_ticks(low, high)
                .into_iter()
                .map(number)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            labels(0.0, 0.43),
            [
                "0", "0.05", "0.1", "0.15", "0.2", "0.25", "0.3", "0.35", "0.4"
            ]
        );
        assert_eq!(labels(-1.0, 1.0), ["-1", "-0.5", "0", "0.5", "1"]);
        assert_eq!(
            labels(0.0, 1e6),
            ["0", "200k", "400k", "600k", "800k", "1M"]
        );
        assert_eq!(log_ticks(4.0, 6.0), [1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6]);
        assert_eq!(log_ticks(0.0, 6.0), [1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6]);
        assert!(log_ticks(-90.0, 90.0).len() <= TICKS + 1);
    }

    #[test]
    fn numbers_that_are_misread() {
        let shown = [
            0.0,
            0.15000000000000002,
            1.0,
            30.0,
            9_999.0,
            100_000.0,
            2.5e6,
            1e10,
            1e18,
            -0.5,
            1e-7,
        ]
        .map(number);
        assert_eq!(
            shown,
            [
                "0", "0.15", "1", "30", "9999", "100k", "2.5M", "10G", "1e18", "-0.5", "1e-7"
            ]
        );
    }
}
