//! The advice as text for a terminal.

use crate::advice::Advice;
use crate::choice::Goal;
use crate::sentences::{facts, lines_of_choice, ratios, worth};
use comfy_table::{CellAlignment, Table, presets};
use larder_replay::Unit;

impl Advice {
    /// Returns the advice as text for a terminal, without a line feed at its end.
    pub fn text(&self) -> String {
        text(self)
    }
}

fn text(advice: &Advice) -> String {
    let mut text = String::new();
    for (name, fact) in facts(&advice.traffic) {
        text += &format!("{name:<13}{fact}\n");
    }
    let goal = match advice.choice.goal {
        Goal::Requests => "requests",
        Goal::Bytes => "bytes",
    };
    text += &format!(
        "\nShare of the {goal} that hit, by policy and size:\n\n{}\n",
        aligned(ratios(advice))
    );
    text += &format!(
        "\nThe best policy at each size, and what it saves:\n\n{}\n",
        aligned(worth(advice))
    );
    text += "\nAdvice:\n";
    for line in &lines_of_choice(advice) {
        text += &format!("  {line}\n");
    }
    if advice.traffic.unit == Unit::Bytes {
        text += &format!("\nConfiguration:\n\n{}", advice.configuration());
    }
    text.trim_end().to_owned()
}

fn aligned(rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut rows = rows.into_iter();
    table.set_header(rows.next().unwrap_or_default());
    for row in rows {
        _ = table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}
