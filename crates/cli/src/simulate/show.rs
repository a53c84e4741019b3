//! Figures over seeds, as tables, JSON and CSV.

use crate::output::line;
use comfy_table::{CellAlignment, Table, presets};
use larder_netsim::scenario::Figure;
use serde::Serialize;

/// A figure over all seeds. In JSON, an entry of the array. A missing value is null.
#[derive(Debug, PartialEq, Serialize)]
pub struct OverSeeds {
    /// The component, as in [`Figure`].
    pub component: String,
    quantity: &'static str,
    unit: &'static str,
    /// The mean of the existing values.
    mean: Option<f64>,
    /// Half the width of the mean's 95 % interval (Student); null with fewer than two values.
    interval: Option<f64>,
    /// The values by seed.
    values: Vec<Option<f64>>,
}

/// Combines the figures of the runs. Each run has the same figures in the same order.
pub fn over_seeds(runs: Vec<Vec<Figure>>) -> Vec<OverSeeds> {
    let Some(first) = runs.first() else {
        return Vec::new();
    };
    let of = |at: usize, figure: &Figure| {
        let values: Vec<Option<f64>> = runs
            .iter()
            .map(|run| {
                run.get(at)
                    .map(|figure| figure.value)
                    .filter(|value| value.is_finite())
            })
            .collect();
        let found: Vec<f64> = values.iter().flatten().copied().collect();
        let (mean, interval) = mean_and_interval(&found);
        OverSeeds {
            component: figure.component.clone(),
            quantity: figure.quantity,
            unit: figure.unit,
            mean,
            interval,
            values,
        }
    };
    first
        .iter()
        .enumerate()
        .map(|(at, figure)| of(at, figure))
        .collect()
}

fn mean_and_interval(values: &[f64]) -> (Option<f64>, Option<f64>) {
    if values.is_empty() {
        return (None, None);
    }
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    if values.len() < 2 {
        return (Some(mean), None);
    }
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (
        Some(mean),
        Some(student(values.len() - 1) * (squares / (n - 1.0) / n).sqrt()),
    )
}

/// Returns the 97.5 % quantile of Student's distribution: from a table up to 10 degrees of freedom,
/// then by Cornish and Fisher's expansion, which is within 0.001 there.
fn student(freedom: usize) -> f64 {
    const TABLE: [f64; 10] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    ];
    if let Some(quantile) = freedom.checked_sub(1).and_then(|index| TABLE.get(index)) {
        return *quantile;
    }
    let (z, v) = (1.959_964_f64, freedom as f64);
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    z + first / v + second / (v * v) + third / (v * v * v)
}

/// Returns one JSON array.
pub fn json(figures: &[OverSeeds]) -> String {
    // Numbers are finite and keys are strings, so serialization does not fail.
    serde_json::to_string_pretty(figures).unwrap_or_default()
}

/// Prints one line per value.
pub fn csv(figures: &[OverSeeds], seeds: &[u64]) {
    line!("seed,component,quantity,unit,value");
    for (at, seed) in seeds.iter().enumerate() {
        for figure in figures {
            let value = figure
                .values
                .get(at)
                .copied()
                .flatten()
                .map_or(String::new(), |value| value.to_string());
            // A scenario file defines the names of nodes, which may contain quotes.
            let component = figure.component.replace('"', "\"\"");
            line!(
                "{seed},\"{component}\",{},{},{value}",
                figure.quantity,
                figure.unit
            );
        }
    }
}

/// Prints a table for the components with the same quantities: applications, nodes, channels.
pub fn tables(figures: &[OverSeeds]) {
    let mut rest = figures;
    while let Some(first) = rest.first() {
        let width = rest
            .iter()
            .take_while(|figure| figure.component == first.component)
            .count();
        let quantities: Vec<&str> = rest[..width].iter().map(|figure| figure.quantity).collect();
        let like = |row: &&[OverSeeds]| {
            row.iter()
                .map(|figure| figure.quantity)
                .eq(quantities.iter().copied())
        };
        let rows: Vec<&[OverSeeds]> = rest.chunks(width).take_while(like).collect();
        rest = &rest[rows.len() * width..];
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        let titles = rows[0].iter().map(|figure| match figure.unit {
            "" => figure.quantity.to_owned(),
            unit => format!("{}, {unit}", figure.quantity),
        });
        table.set_header(std::iter::once(String::new()).chain(titles));
        for row in rows {
            table.add_row(std::iter::once(row[0].component.clone()).chain(row.iter().map(shown)));
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        line!("{table}\n");
    }
}

fn shown(figure: &OverSeeds) -> String {
    match (figure.mean, figure.interval) {
        (None, _) => "–".to_owned(),
        (Some(mean), Some(interval)) if interval > 0.0 => {
            format!("{} ± {}", number(mean), number(interval))
        }
        (Some(mean), _) => number(mean),
    }
}

/// Formats a number with its significant digits.
fn number(value: f64) -> String {
    match value.abs() {
        _ if value.fract() == 0.0 => format!("{value}"),
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_students() {
        // Calculated by hand: mean 2, standard deviation 1, three values: 4.303 / √3.
        let (mean, interval) = mean_and_interval(&[1.0, 2.0, 3.0]);
        assert_eq!(mean, Some(2.0));
        assert!((interval.unwrap() - 2.4843).abs() < 1e-3);
        // 29 degrees of freedom: 2.0452.
        assert!((student(29) - 2.0452).abs() < 1e-3 && (student(11) - 2.2010).abs() < 1e-3);
        assert_eq!(mean_and_interval(&[]), (None, None));
        assert_eq!(mean_and_interval(&[5.0]), (Some(5.0), None));
    }

    #[test]
    fn what_is_not_there_is_left_out_of_the_mean() {
        let figure = |value| Figure {
            component: "a".to_owned(),
            quantity: "delay",
            unit: "ms",
            value,
        };
        let figures = over_seeds(vec![vec![figure(f64::NAN)], vec![figure(4.0)]]);
        assert_eq!(
            (figures[0].mean, figures[0].values.as_slice()),
            (Some(4.0), [None, Some(4.0)].as_slice())
        );
    }
}
