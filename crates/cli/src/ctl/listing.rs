//! The output of `larder ctl`: the same values as a table, or as JSON.

use crate::output::{line, within_a_line};
use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Map, Value};

/// Rows under named columns.
pub(crate) struct List {
    columns: &'static [&'static str],
    rows: Vec<Vec<Value>>,
}

impl List {
    pub(crate) fn new(columns: &'static [&'static str]) -> Self {
        List {
            columns,
            rows: Vec::new(),
        }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [Value; N]) {
        self.rows.push(cells.into());
    }

    /// Prints a table, or a JSON array of objects.
    pub(crate) fn print(&self, json: bool) {
        if json {
            let object = |row: &Vec<Value>| {
                Value::Object(object(
                    self.columns.iter().copied().zip(row.iter().cloned()),
                ))
            };
            return line!("{}", Value::Array(self.rows.iter().map(object).collect()));
        }
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(self.columns.iter().map(|name| name.replace('_', " ")));
        for row in &self.rows {
            _ = table.add_row(row.iter().map(cell));
        }
        for (at, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, 2));
            if self.rows.iter().any(|row| row[at].is_number()) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        line!("{}", table.trim_fmt());
    }
}

/// Prints named figures one below the other, or as a JSON object.
pub(super) fn figures(json: bool, figures: &[(&'static str, Value)]) {
    if json {
        return json_only(figures);
    }
    let width = figures
        .iter()
        .map(|(name, _)| name.len())
        .max()
        .unwrap_or(0);
    for (name, value) in figures {
        line!("{:width$}  {}", name.replace('_', " "), cell(value));
    }
}

/// Prints that a command succeeded, as text or as JSON.
pub(super) fn done(json: bool, words: &str, figures: &[(&'static str, Value)]) {
    if json {
        json_only(figures)
    } else {
        line!("{words}")
    }
}

fn json_only(figures: &[(&'static str, Value)]) {
    line!("{}", Value::Object(object(figures.iter().cloned())));
}

fn object(fields: impl Iterator<Item = (&'static str, Value)>) -> Map<String, Value> {
    fields
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => within_a_line(text).into_owned(),
        other => other.to_string(),
    }
}
