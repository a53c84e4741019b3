//! The advice as a page: one file that needs no other, and no script.

use crate::advice::Advice;
use crate::choice::Goal;
use crate::sentences::{facts, lines_of_choice, ratios, worth};
use larder_figure::{Axis, Figure, Series};
use larder_replay::Unit;
use std::fmt::Write;

const STYLE: &str = "
:root { color-scheme: light dark; --line: #d5d7dc; --box: #f3f4f6; }
@media (prefers-color-scheme: dark) { :root { --line: #3a3c44; --box: #24262c; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--line); padding: .2rem .7rem .2rem 0; text-align: right; white-space: nowrap; }
.scroll, figure { overflow-x: auto; } figure { margin: 1rem 0; }
svg { max-width: 100%; min-width: 38rem; height: auto; }
dt { float: left; clear: left; min-width: 7rem; } dd { margin-left: 7rem; overflow-wrap: anywhere; }
.advice, pre { background: var(--box); padding: .8rem 1rem; border-radius: .4rem; overflow-x: auto; }
";

impl Advice {
    /// Returns the advice as an HTML document with figures, which needs no other file.
    pub fn page(&self) -> String {
        page(self)
    }
}

fn page(advice: &Advice) -> String {
    let title = format!("Which cache for {}?", advice.traffic.files.join(", "));
    let title = escaped(&title);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n<style>{STYLE}</style>\n\
         <h1>{title}</h1>\n<div class=\"advice\">\n"
    );
    // Writing into a string cannot fail, so the result is ignored.
    for line in &lines_of_choice(advice) {
        _ = writeln!(page, "<p>{}</p>", escaped(line));
    }
    page += "</div>\n<h2>Traffic</h2>\n<dl>\n";
    for (name, fact) in facts(&advice.traffic) {
        let _ = writeln!(
            page,
            "<dt>{}</dt><dd>{}</dd>",
            escaped(name),
            escaped(&fact)
        );
    }
    page += "</dl>\n<h2>Hit ratio over the size of the cache</h2>\n";
    for goal in [Goal::Requests, Goal::Bytes] {
        if goal == Goal::Requests || advice.traffic.unit == Unit::Bytes {
            let _ = writeln!(page, "<figure>{}</figure>", curves(advice, goal).svg());
        }
    }
    page += &table(&ratios(advice));
    page += "<h2>What each size saves</h2>\n";
    page += &table(&worth(advice));
    if advice.traffic.unit == Unit::Bytes {
        page += "<h2>Sizes of the objects</h2>\n";
        let _ = writeln!(page, "<figure>{}</figure>", sizes(advice).svg());
        let text = escaped(&advice.configuration());
        let _ = write!(page, "<h2>Configuration</h2>\n<pre>{text}</pre>\n");
    }
    page
}

fn curves(advice: &Advice, goal: Goal) -> Figure {
    let series = advice
        .candidates
        .chunk_by(|a, b| a.policy == b.policy)
        .map(|of_policy| {
            let points = of_policy
                .iter()
                .map(|candidate| (candidate.capacity as f64, goal.ratio(candidate)));
            let line = Series::line(of_policy[0].policy.clone(), points.collect());
            if of_policy
                .iter()
                .all(|candidate| goal.error(candidate) == 0.0)
            {
                return line;
            }
            let interval = of_policy.iter().map(|candidate| {
                let (ratio, error) = (goal.ratio(candidate), goal.error(candidate));
                ((ratio - error).max(0.0), (ratio + error).min(1.0))
            });
            line.with_interval(interval.collect())
        });
    let what = if goal == Goal::Requests {
        "requests"
    } else {
        "bytes"
    };
    Figure {
        title: format!("Share of the {what} that hit"),
        x: Axis::log(Unit::axis([advice.traffic.unit])),
        y: Axis::linear("hit ratio"),
        series: series.collect(),
    }
}

fn sizes(advice: &Advice) -> Figure {
    let decades = &advice.traffic.looked_at.sizes.decades;
    let bars = |name: &str, of: fn(&larder_replay::survey::Decade) -> f64| {
        Series::bars(
            name,
            decades
                .iter()
                .enumerate()
                .map(|(place, decade)| (place as f64, of(decade)))
                .collect(),
        )
    };
    Figure {
        title: "Shares by the power of ten of the size".to_owned(),
        x: Axis::named(
            "size from, bytes",
            decades.iter().map(|decade| decade.from.to_string()),
        ),
        y: Axis::linear("share"),
        series: vec![
            bars("objects", |decade| decade.objects),
            bars("requests", |decade| decade.requests),
            bars("bytes of all objects", |decade| decade.bytes),
        ],
    }
}

fn table(rows: &[Vec<String>]) -> String {
    let mut table = "<div class=\"scroll\"><table>\n".to_owned();
    for (place, row) in rows.iter().enumerate() {
        let tag = if place == 0 { "th" } else { "td" };
        table += "<tr>";
        for cell in row {
            _ = write!(table, "<{tag}>{}</{tag}>", escaped(cell));
        }
        table += "</tr>\n";
    }
    table + "</table></div>\n"
}

/// Returns a text as it stands in HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
