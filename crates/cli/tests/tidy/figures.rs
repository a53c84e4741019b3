//! The rule for measurements: pages have the figures of `docs/results/measured.toml`, whose code
//! may have changed since.

use super::Source;
use std::path::Path;
use std::process::Command;
use toml::{Table, Value};

/// The file with all measurements.
pub(crate) const FILE: &str = "docs/results/measured.toml";

/// A measurement that pages show.
pub(crate) struct Figure {
    work: String,
    /// Its row of a table.
    row: String,
    commit: String,
    /// The folders of the code that it measures.
    code: Vec<String>,
    is_on_readme: bool,
}

/// Reads the measurements.
pub(crate) fn figures(text: &str) -> Vec<Figure> {
    let table: Table = text.parse().expect("TOML");
    let list = table["figure"].as_array().expect("an array of tables");
    list.iter().map(figure).collect()
}

fn figure(value: &Value) -> Figure {
    let text = |key: &str| {
        let text = value.get(key).and_then(Value::as_str);
        text.unwrap_or_else(|| panic!("{key} of {value}"))
            .to_owned()
    };
    let code = value["code"].as_array().expect("folders");
    let row = format!(
        "| {} | {} | {} | `{}` | {}, {} |",
        text("work"),
        text("larder"),
        text("others"),
        text("command"),
        text("date"),
        text("commit")
    );
    assert!(!text("machine").is_empty());
    Figure {
        work: text("work"),
        row,
        commit: text("commit"),
        code: code
            .iter()
            .filter_map(|folder| folder.as_str().map(str::to_owned))
            .collect(),
        is_on_readme: value["is_on_readme"].as_bool().expect("a boolean"),
    }
}

/// Finds rows of measurements on a page that the file does not have, or the reverse.
pub(crate) fn other_rows(page: &Source, figures: &[Figure], is_whole: bool) -> Vec<String> {
    let head = "| work | Larder |";
    let rows: Vec<&str> = page
        .text
        .lines()
        .skip_while(|line| !line.starts_with(head))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .collect();
    let expected: Vec<&str> = figures
        .iter()
        .filter(|figure| is_whole || figure.is_on_readme)
        .map(|figure| figure.row.as_str())
        .collect();
    let missing = expected
        .iter()
        .filter(|row| !rows.contains(row))
        .map(|row| format!("{}: lacks {row}", page.path));
    let more = rows
        .iter()
        .filter(|row| !expected.contains(row))
        .map(|row| format!("{}: {FILE} does not have {row}", page.path));
    missing.chain(more).collect()
}

/// Returns a line for each measurement whose code has changed since its commit, if git knows it.
pub(crate) fn older_than_their_code(figures: &[Figure], root: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    for figure in figures.iter().filter(|figure| !figure.code.is_empty()) {
        let mut git = Command::new("git");
        git.arg("-C")
            .arg(root)
            .args(["diff", "--name-only", &figure.commit, "--"])
            .args(&figure.code);
        let changed = match git.output() {
            Ok(output) if output.status.success() => {
                String::from_utf8_lossy(&output.stdout).lines().count()
            }
            _ => continue,
        };
        if changed > 0 {
            let (work, commit) = (&figure.work, &figure.commit);
            lines.push(format!(
                "{work}: {changed} files of its code have changed since {commit}"
            ));
        }
    }
    lines
}

/// Finds folders of code that do not exist.
pub(crate) fn code_that_is_gone(figures: &[Figure], root: &Path) -> Vec<String> {
    figures
        .iter()
        .flat_map(|figure| figure.code.iter().map(move |folder| (figure, folder)))
        .filter(|(_, folder)| !root.join(folder).is_dir())
        .map(|(figure, folder)| format!("{FILE}: {}: {folder} does not exist", figure.work))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_planted_row_of_other_figures_is_found() {
        let text = "[[figure]]\nwork = \"hits\"\nlarder = \"9\"\nothers = \"8\"\ncommand = \"c\"\n\
                    date = \"d\"\ncommit = \"e\"\nmachine = \"m\"\ncode = [\"gone\"]\nis_on_readme = false\n";
        let figures = figures(text);
        let found = |row: &str, is_whole| {
            let page = Source {
                path: "README.md".to_owned(),
                text: format!("# A\n| work | Larder |\n| --- | --- |\n{row}\n\nB\n"),
            };
            other_rows(&page, &figures, is_whole).len()
        };
        let row = "| hits | 9 | 8 | `c` | d, e |";
        assert_eq!(found(row, true), 0);
        assert_eq!(found("", true), 1);
        assert_eq!(found(row, false), 1);
        assert_eq!(found("| hits | 10 | 8 | `c` | d, e |", true), 2);
        assert_eq!(code_that_is_gone(&figures, &crate::root()).len(), 1);
    }
}
