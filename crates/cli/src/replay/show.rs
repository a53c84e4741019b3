//! Rows as a table for people, or as JSON lines or comma-separated values for programs.

use crate::failure::Failure;
use crate::output::line;
use comfy_table::{CellAlignment, Table, presets};
use larder_replay::{Row, Unit};

/// Prints one JSON object per line.
pub fn json(rows: &[Row]) -> Result<(), Failure> {
    for row in rows {
        let row =
            serde_json::to_string(row).map_err(|error| Failure::runtime(error.to_string()))?;
        line!("{row}");
    }
    Ok(())
}

/// Prints the names of the columns of [`csv`].
pub fn csv_header() {
    line!(
        "trace,policy,capacity,unit,seed,fill,requests,hits,object_hit_ratio,byte_hit_ratio,insertion_ratio,requests_per_second"
    );
}

/// Prints one row per line, by RFC 4180. Texts are quoted, because specs contain commas.
pub fn csv(rows: &[Row]) -> Result<(), Failure> {
    for row in rows {
        line!("{}", csv_line(row));
    }
    Ok(())
}

fn csv_line(row: &Row) -> String {
    let Row {
        trace,
        policy,
        capacity,
        unit,
        seed,
        fill,
        requests,
        hits,
        ..
    } = row;
    let Row {
        object_hit_ratio,
        byte_hit_ratio,
        insertion_ratio,
        requests_per_second,
        ..
    } = row;
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let (trace, policy) = (quoted(trace), quoted(policy));
    format!(
        "{trace},{policy},{capacity},{unit},{seed},{fill},{requests},{hits},{object_hit_ratio},{byte_hit_ratio},{insertion_ratio},{requests_per_second}"
    )
}

/// Prints a table. The columns of the trace and the seed appear only if there are several.
pub fn table(rows: &[Row]) {
    line!("{}", mode(rows.iter().all(|row| row.fill)));
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let differ = |of: fn(&Row) -> String| rows.iter().any(|row| of(row) != of(&rows[0]));
    let traces = differ(|row| row.trace.clone());
    let seeds = differ(|row| row.seed.to_string());
    let cells = |row: Option<&Row>| {
        let column = |name: &str, value: fn(&Row) -> String| row.map_or(name.to_owned(), value);
        let mut cells = Vec::new();
        if traces {
            cells.push(column("trace", |row| row.trace.clone()));
        }
        cells.push(column("policy", |row| {
            format!("{}{}", row.policy, if is_no_bound(row) { "*" } else { "" })
        }));
        cells.push(column("capacity", |row| row.unit.show(row.capacity)));
        if seeds {
            cells.push(column("seed", |row| row.seed.to_string()));
        }
        cells.push(column("requests", |row| row.requests.to_string()));
        cells.push(column("hits", |row| row.hits.to_string()));
        cells.push(column("object hit ratio", |row| {
            format!("{:.4}", row.object_hit_ratio)
        }));
        cells.push(column("byte hit ratio", |row| {
            format!("{:.4}", row.byte_hit_ratio)
        }));
        cells.push(column("insertion ratio", |row| {
            format!("{:.4}", row.insertion_ratio)
        }));
        cells.push(column("requests/s", |row| {
            format!("{:.2} M", row.requests_per_second / 1e6)
        }));
        cells
    };
    table.set_header(cells(None));
    for row in rows {
        _ = table.add_row(cells(Some(row)));
    }
    let texts = 1 + usize::from(traces);
    for column in table.column_iter_mut().skip(texts) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    line!("{table}");
    if rows.iter().any(is_no_bound) {
        line!(
            "* no bound: objects differ in size, which belady ignores. belady-size is a better estimate."
        );
    }
}

/// Describes how caches fill, for the head of a table.
pub fn mode(fills: bool) -> &'static str {
    if fills {
        "Caches fill without asking the admission policy, as the node's do (--no-fill asks always)."
    } else {
        "The admission policy is asked for every object (--no-fill)."
    }
}

/// Returns true for Belady's algorithm over objects of different sizes. It is optimal only for
/// objects of one size.
pub fn is_no_bound(row: &Row) -> bool {
    row.unit == Unit::Bytes && row.policy.rsplit('+').next() == Some("belady")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_in_a_spec_makes_a_column() {
        let row = Row {
            trace: "a \"b\".csv".to_owned(),
            policy: "filter(theta=2,window=50)+fifo".to_owned(),
            capacity: 10,
            unit: Unit::Bytes,
            seed: 3,
            fill: true,
            requests: 4,
            hits: 1,
            object_hit_ratio: 0.25,
            byte_hit_ratio: 0.5,
            insertion_ratio: 1.0,
            requests_per_second: 7.0,
        };
        assert_eq!(
            csv_line(&row),
            "\"a \"\"b\"\".csv\",\"filter(theta=2,window=50)+fifo\",10,bytes,3,true,4,1,0.25,0.5,1,7"
        );
    }
}
