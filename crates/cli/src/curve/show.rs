//! Curves as a table, for programs, and as a figure.

use super::CurveRow;
use crate::destination::write_whole;
use crate::failure::Failure;
use crate::output::line;
use crate::replay::show::mode;
use comfy_table::{CellAlignment, Table, presets};
use larder_figure::{Axis, Figure, Series};
use larder_replay::{Point, Unit};
use std::path::Path;

pub fn table(rows: &[CurveRow], fills: bool) {
    line!("{}", mode(fills));
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "policy",
        "capacity",
        "object hit ratio",
        "±",
        "byte hit ratio",
        "±",
        "requests/s",
    ]);
    for CurveRow {
        policy,
        unit,
        point,
        requests_per_second,
        ..
    } in rows
    {
        table.add_row([
            policy.clone(),
            unit.show(point.capacity),
            format!("{:.4}", point.object_hit_ratio),
            error(point.object_error, point),
            format!("{:.4}", point.byte_hit_ratio),
            error(point.byte_error, point),
            format!("{:.2} M", requests_per_second / 1e6),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    line!("{table}");
}

fn error(error: f64, point: &Point) -> String {
    match error == 0.0 {
        _ if point.error_is_least => format!("> {error:.4}"),
        true if point.size_changes == 0 => "exact".to_owned(),
        true => "sizes change".to_owned(),
        false => format!("{error:.4}"),
    }
}

pub fn json(rows: &[CurveRow]) -> Result<(), Failure> {
    for row in rows {
        line!(
            "{}",
            serde_json::to_string(row).map_err(|error| Failure::runtime(error.to_string()))?
        );
    }
    Ok(())
}

pub fn csv(rows: &[CurveRow]) {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    line!(
        "trace,policy,sample,requests,capacity,unit,object_hit_ratio,object_error,byte_hit_ratio,byte_error,error_is_least,size_changes,requests_per_second"
    );
    for CurveRow {
        trace,
        policy,
        sample,
        requests,
        unit,
        point,
        requests_per_second,
    } in rows
    {
        let (trace, policy) = (quoted(trace), quoted(policy));
        let (objects, bytes) = (point.object_hit_ratio, point.byte_hit_ratio);
        line!(
            "{trace},{policy},{sample},{requests},{},{unit},{objects},{},{bytes},{},{},{},{requests_per_second}",
            point.capacity,
            point.object_error,
            point.byte_error,
            point.error_is_least,
            point.size_changes
        );
    }
}

/// Draws a line for each policy into the file at `path`, with the stated errors as whiskers.
pub fn figure(rows: &[CurveRow], path: &Path) -> Result<(), Failure> {
    let series = rows.chunk_by(|a, b| a.policy == b.policy).map(|rows| {
        let points = rows
            .iter()
            .map(|row| (row.point.capacity as f64, row.point.object_hit_ratio))
            .collect();
        let line = Series::line(rows[0].policy.clone(), points);
        if rows.iter().all(|row| row.point.object_error == 0.0) {
            return line;
        }
        let interval = |row: &CurveRow| {
            let (ratio, error) = (row.point.object_hit_ratio, row.point.object_error);
            ((ratio - error).max(0.0), (ratio + error).min(1.0))
        };
        line.with_interval(rows.iter().map(interval).collect())
    });
    let figure = Figure {
        title: format!("Hit ratio of {}", rows.first().map_or("", |row| &row.trace)),
        x: Axis::log(Unit::axis(rows.iter().map(|row| row.unit))),
        y: Axis::linear("object hit ratio"),
        series: series.collect(),
    };
    write_whole(path, &figure.svg())
}
