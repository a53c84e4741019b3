//! `report.html`: the claims first, then each experiment with its conditions, figures and tables.
//! No script, nothing from elsewhere.

use crate::section::{Section, Table};
use crate::{Judged, Report};
use std::fmt::Write;

const STYLE: &str = "
:root { color-scheme: light dark; --line: #d5d7dc; --good: #00734f; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --line: #3a3c44; --good: #2fd1a2; --bad: #ff8a80; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; } h3 { font-size: 1rem; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--line); padding: .2rem .7rem .2rem 0; text-align: left; vertical-align: top; }
td.number { text-align: right; white-space: nowrap; }
.holds { color: var(--good); } .fails { color: var(--bad); font-weight: 600; }
.scroll { overflow-x: auto; } dt { float: left; clear: left; min-width: 11rem; } dd { margin-left: 11rem; }
small { opacity: .75; }
";

impl Report {
    /// Returns `report.html`: one page that needs no other file.
    pub fn html(&self) -> String {
        page(self)
    }
}

fn page(report: &Report) -> String {
    let title = format!("Reproduction of `{}`, {}", report.paper, report.scale);
    let (all, failed) = (report.claims().count(), report.claims().filter(|claim| !claim.holds).count());
    let seconds = report.took.as_secs_f64();
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{0}</title>\n<style>{STYLE}</style>\n<h1>{0}</h1>\n<p>{1}</p>\n\
         <p>{2} of {all} claims hold ({9}). Scale: {3}; seed: {4}; took {seconds:.0} s; larder {5}, {6} {7}, {8} cores.</p>\n",
        escaped(&title),
        escaped(report.citation),
        all - failed,
        report.scale,
        report.seed,
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        std::env::consts::ARCH,
        std::thread::available_parallelism().map_or(1, usize::from),
        report.counted(),
    );
    if !report.only.is_empty() {
        let _ = writeln!(page, "<p>A part of the reproduction: only {}.</p>", escaped(&report.only.join(", ")));
    }
    if !report.missing.is_empty() {
        let _ = writeln!(page, "<p class=\"fails\">Not finished: {}.</p>", escaped(&report.missing.join(", ")));
    }
    for section in &report.sections {
        write_section(&mut page, section);
    }
    page
}

/// Writing into a string cannot fail, so the result is ignored.
fn write_section(page: &mut String, section: &Section) {
    let _ = writeln!(page, "<h2>{}</h2>\n<p>{}</p>", escaped(&section.title), escaped(&section.shows));
    if !section.conditions.is_empty() {
        let pairs = section.conditions.iter();
        let pairs = pairs.map(|(name, value)| format!("<dt>{}</dt><dd>{}</dd>\n", escaped(name), escaped(value)));
        let _ = writeln!(page, "<dl>\n{}</dl>", pairs.collect::<String>());
    }
    if !section.claims.is_empty() {
        page.push_str(
            "<div class=\"scroll\"><table>\n<tr><th>claim<th>kind<th>published<th>expected<th>measured<th>band<th>verdict<th>why this band</tr>\n",
        );
        section.claims.iter().for_each(|claim| write_claim(page, claim));
        page.push_str("</table></div>\n");
    }
    for figure in &section.figures {
        page.push_str(&figure.svg());
    }
    section.tables.iter().for_each(|table| write_table(page, table));
}

fn write_claim(page: &mut String, claim: &Judged) {
    let [published, expected, measured, band] = claim.shown();
    let source = claim.source.iter().map(|source| format!(" <small>{}</small>", escaped(source))).collect::<String>();
    let class = if claim.verdict().is_unexpected_failure() { "fails" } else { "holds" };
    let listed = claim.known_failure.iter().map(|reason| format!("<br>Known to fail: {}", escaped(reason)));
    let _ = writeln!(
        page,
        "<tr><td>{} <small>{}</small><td>{}<td class=\"number\">{published}<td>{expected}{source}<td class=\"number\">{measured}<td class=\"number\">{band}\
         <td class=\"{class}\">{}<td><small>{}{}</small></tr>",
        escaped(&claim.says),
        escaped(&claim.id),
        claim.kind,
        claim.verdict(),
        escaped(&claim.reason),
        listed.collect::<String>(),
    );
}

fn write_table(page: &mut String, table: &Table) {
    let _ = writeln!(page, "<h3>{}</h3>\n<div class=\"scroll\"><table>", escaped(&table.title));
    let header = table.header.iter().map(|column| format!("<th>{}", escaped(column)));
    let _ = writeln!(page, "<tr>{}</tr>", header.collect::<String>());
    for row in &table.rows {
        let cells = row.iter().map(|cell| format!("<td>{}", escaped(cell)));
        let _ = writeln!(page, "<tr>{}</tr>", cells.collect::<String>());
    }
    page.push_str("</table></div>\n");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
