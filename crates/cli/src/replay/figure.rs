//! A figure of hit ratios over the size, with a line per policy.

use super::show::is_no_bound;
use crate::destination::write_whole;
use crate::failure::Failure;
use larder_figure::{Axis, Figure, Series};
use larder_replay::{Row, Unit};
use std::path::Path;

/// Draws `rows` into the file at `path`.
///
/// # Errors
/// If the file cannot be written.
pub fn write(rows: &[Row], path: &Path) -> Result<(), Failure> {
    write_whole(path, &figure(rows).svg())
}

/// Returns a figure with a line for each policy and trace. With several seeds, it shows the mean,
/// with the least and the greatest value as its interval.
fn figure(rows: &[Row]) -> Figure {
    let mut lines: Vec<(&Row, Vec<&Row>)> = Vec::new();
    for row in rows {
        match lines
            .iter_mut()
            .find(|(first, _)| first.policy == row.policy && first.trace == row.trace)
        {
            Some((_, line)) => line.push(row),
            None => lines.push((row, vec![row])),
        }
    }
    let first = rows.first().map_or("", |row| &row.trace);
    let one_trace = rows.iter().all(|row| row.trace == first);
    let series = lines.into_iter().map(|(first, line)| {
        let policy = if is_no_bound(first) {
            format!("{} (no bound)", first.policy)
        } else {
            first.policy.clone()
        };
        let name = if one_trace {
            policy
        } else {
            format!("{policy}, {}", first.trace)
        };
        line_of(name, line)
    });
    Figure {
        title: if one_trace {
            format!("Hit ratio of {first}")
        } else {
            "Hit ratio".to_owned()
        },
        x: Axis::log(Unit::axis(rows.iter().map(|row| row.unit))),
        y: Axis::linear("object hit ratio"),
        series: series.collect(),
    }
}

fn line_of(name: String, mut rows: Vec<&Row>) -> Series {
    rows.sort_by_key(|row| row.capacity);
    let mut points = Vec::new();
    let mut interval = Vec::new();
    for seeds in rows.chunk_by(|a, b| a.capacity == b.capacity) {
        let ratios = || seeds.iter().map(|row| row.object_hit_ratio);
        points.push((
            seeds[0].capacity as f64,
            ratios().sum::<f64>() / seeds.len() as f64,
        ));
        interval.push((
            ratios().fold(f64::INFINITY, f64::min),
            ratios().fold(0.0, f64::max),
        ));
    }
    let has_seeds = rows.len() > points.len();
    let line = Series::line(name, points);
    if has_seeds {
        line.with_interval(interval)
    } else {
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_drawn_as_sizes() {
        let row = |policy: &str, capacity, seed, ratio| Row {
            trace: "t".to_owned(),
            policy: policy.to_owned(),
            capacity,
            unit: Unit::Bytes,
            seed,
            fill: true,
            requests: 10,
            hits: 0,
            object_hit_ratio: ratio,
            byte_hit_ratio: 0.0,
            insertion_ratio: 0.0,
            requests_per_second: 0.0,
        };
        let rows = [
            row("random", 20, 1, 0.5),
            row("random", 20, 2, 0.7),
            row("random", 10, 1, 0.2),
            row("lru", 10, 1, 0.3),
        ];
        let figure = figure(&rows);
        let names: Vec<&str> = figure
            .series
            .iter()
            .map(|series| series.name.as_str())
            .collect();
        assert_eq!(names, ["random", "lru"]);
        assert_eq!(figure.series[0].points, [(10.0, 0.2), (20.0, 0.6)]);
        assert_eq!(
            figure.series[0].interval.as_deref(),
            Some(&[(0.2, 0.2), (0.5, 0.7)][..])
        );
        assert_eq!(figure.series[1].interval, None);
        assert!(figure.svg().contains("Hit ratio of t"));
    }
}
