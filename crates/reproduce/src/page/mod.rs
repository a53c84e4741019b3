//! `report.html`: a summary in five lines and one figure first, then each experiment with its
//! claims, figures, tables and conditions. No script, nothing from elsewhere; for light and dark
//! pages, phones and print.

mod claims;
mod coverage;

use crate::section::{Drawing, Section, Table};
use crate::{Kind, Provenance, Report, Verdict};
use larder_figure::Style;
use std::fmt::Write;

const STYLE: &str = include_str!("style.css");

impl Report {
    /// Returns `report.html`: one page that needs no other file.
    pub fn html(&self) -> String {
        page(self, Detail::All)
    }
}

/// How much of a report its page has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Everything.
    All,
    /// Everything but the figures below the head, which are most of its bytes.
    OneFigure,
}

/// Returns the figure of an experiment that stands at the head of the page, if it has one.
pub(crate) fn headline(section: &Section) -> String {
    let mut written = section.headline.clone();
    if let Some(drawing) = section.figures.iter().find(|drawing| drawing.is_headline) {
        written.clear();
        write_figure(&mut written, drawing);
    }
    written
}

/// Writing into a string cannot fail, so the results of `write!` are ignored here and below.
pub(crate) fn page(report: &Report, detail: Detail) -> String {
    let title = format!("Reproduction of {}, {} scale", report.paper, report.scale);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{0}</title>\n<style>\n{STYLE}</style>\n<h1>{0}</h1>\n<p class=\"soft\">{1}</p>\n",
        escaped(&title),
        escaped(report.citation),
    );
    write_summary(&mut page, report);
    write_contents(&mut page, report);
    page.extend(
        report
            .sections
            .iter()
            .map(headline)
            .find(|figure| !figure.is_empty()),
    );
    if report.sections.iter().any(has_published_marks) {
        page.push_str(
            "<p class=\"soft\">Diamonds mark the values, ratios and ranges that the paper&#39;s text states. The papers print \
         their curves as pictures, and their texts have no values for them, so no published curve is drawn.</p>\n",
        );
    }
    write_run(&mut page, report);
    for section in &report.sections {
        write_section(&mut page, section, detail);
    }
    coverage::write(&mut page, report);
    page.push_str("</html>\n");
    page
}

/// Returns true if a figure of the section may have a diamond. An archive keeps a figure at the
/// head of its page as text.
fn has_published_marks(section: &Section) -> bool {
    if !section.headline.is_empty() {
        return true;
    }
    let mut figures = section.figures.iter();
    figures.any(|drawing| {
        let mut series = drawing.figure.series.iter();
        series.any(|series| series.style == Style::Reference)
    })
}

/// Writes the summary, one line for each question.
fn write_summary(page: &mut String, report: &Report) {
    let [value, order, theory, arithmetic, goal] =
        report.counts().map(|count| match count.judged {
            0 => "none judged".to_owned(),
            judged => format!("{} of {judged}", count.holding),
        });
    let finished = report.sections.len();
    let mut ran = format!(
        "Ran {finished} of {} experiments at the {} scale in {}.",
        finished + report.missing.len(),
        report.scale,
        duration(report.seconds())
    );
    if !report.only.is_empty() {
        ran += &format!(
            " A part of the reproduction: only {}.",
            report.only.join(", ")
        );
    }
    let links = |verdict: Verdict| {
        let of = report.with_verdict(verdict);
        of.map(|claim| format!("<a href=\"#{0}\">{0}</a>", escaped(&claim.id)))
            .collect::<Vec<_>>()
    };
    let listed = links(Verdict::FailsAsListed);
    let unexpected = [links(Verdict::Fails), links(Verdict::NotMeasured)].concat();
    let or_none = |links: &[String]| {
        if links.is_empty() {
            "none".to_owned()
        } else {
            links.join(", ")
        }
    };
    let _ = writeln!(
        page,
        "<ol class=\"summary\">\n<li>{}\n<li>Published values that hold: {value}.\n<li>Published orders and shapes that \
         hold: {order}.\n<li>Consequences of theory that hold: {theory}; arithmetic of the paper: {arithmetic}; goals of this project: \
         {goal}.\n\
         <li>Claims that fail as listed, with reasons: {}. Without a listed reason: <span class=\"{}\">{}</span>.\n</ol>",
        escaped(&ran),
        or_none(&listed),
        if unexpected.is_empty() {
            "holds"
        } else {
            "fails"
        },
        or_none(&unexpected),
    );
    if !report.missing.is_empty() {
        let _ = writeln!(
            page,
            "<p class=\"fails\">Not finished: {}.</p>",
            escaped(&report.missing.join(", "))
        );
    }
}

fn write_contents(page: &mut String, report: &Report) {
    page.push_str("<nav>\n<h2>Contents</h2>\n<ul>\n<li><a href=\"#run\">How it ran</a>\n");
    for section in &report.sections {
        let (held, all) = (
            section.claims.iter().filter(|claim| claim.holds).count(),
            section.claims.len(),
        );
        let counted = if all == 0 {
            "no claims".to_owned()
        } else {
            format!("{held} of {all} claims hold")
        };
        let (name, title) = (escaped(&section.name), escaped(&section.title));
        let _ = writeln!(
            page,
            "<li><a href=\"#{name}\">{title}</a> <small>{counted}</small>"
        );
    }
    page.push_str("<li><a href=\"#coverage\">What of the paper is covered</a>\n</ul>\n</nav>\n");
}

fn write_run(page: &mut String, report: &Report) {
    let _ = writeln!(
        page,
        "<h2 id=\"run\">How it ran</h2>\n<p>With the seed {}.</p>",
        report.seed
    );
    // The experiments of one program on one machine stand together; an archive may have several.
    let program = |run: &Provenance| {
        let Provenance {
            command,
            commit,
            processor,
            processors,
            ..
        } = run;
        [
            ("command", format!("<code>{}</code>", escaped(command))),
            ("commit", format!("<code>{}</code>", escaped(commit))),
            (
                "processor",
                format!("{}, {processors} processors", escaped(processor)),
            ),
        ]
    };
    for sections in report
        .sections
        .chunk_by(|a, b| program(&a.run) == program(&b.run))
    {
        let pairs = program(&sections[0].run)
            .map(|(name, value)| format!("<dt>{name}</dt><dd>{value}</dd>\n"));
        let _ = writeln!(
            page,
            "<dl>\n{}</dl>\n<div class=\"scroll\"><table>\n<tr><th>experiment<th>started<th>duration\
             <th>load average (one minute), start and end<th>stolen time<th>other programs</tr>",
            pairs.concat()
        );
        let unknown = || "not recorded".to_owned();
        for Section { name, run, .. } in sections {
            let ([begin, end], name) = (run.load, escaped(name));
            let _ = writeln!(
                page,
                "<tr><td><a href=\"#{name}\">{name}</a><td>{}<td>{}<td>{begin:.2}, {end:.2}<td>{:.1} %<td>{}</tr>",
                escaped(&run.started),
                run.seconds.map_or_else(unknown, duration),
                run.steal_percent,
                run.other_percent
                    .map_or_else(unknown, |percent| format!("{percent:.1} %"))
            );
        }
        page.push_str("</table></div>\n");
    }
}

fn duration(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

fn write_section(page: &mut String, section: &Section, detail: Detail) {
    let _ = writeln!(
        page,
        "<section>\n<h2 id=\"{}\">{}</h2>\n<p>{}</p>",
        escaped(&section.name),
        escaped(&section.title),
        escaped(section.shows.trim())
    );
    if !section.conditions.is_empty() {
        let pairs = section.conditions.iter();
        let pairs = pairs.map(|(name, value)| {
            format!("<dt>{}</dt><dd>{}</dd>\n", escaped(name), escaped(value))
        });
        let _ = writeln!(page, "<dl>\n{}</dl>", pairs.collect::<String>());
    }
    claims::write(page, &section.claims);
    if detail == Detail::All {
        for drawing in &section.figures {
            write_figure(page, drawing);
        }
    }
    for table in &section.tables {
        write_table(page, table);
    }
    page.push_str("</section>\n");
}

fn write_figure(page: &mut String, drawing: &Drawing) {
    let captions = drawing
        .captions
        .iter()
        .map(|caption| format!("<p>{}</p>", escaped(caption)));
    let _ = writeln!(
        page,
        "<figure>\n<div class=\"scroll\">{}</div>\n<figcaption>{}</figcaption>\n</figure>",
        drawing.figure.svg(),
        captions.collect::<String>()
    );
}

fn write_table(page: &mut String, table: &Table) {
    let _ = writeln!(
        page,
        "<h3>{}</h3>\n<div class=\"scroll\"><table>",
        escaped(&table.title)
    );
    let header = table
        .header
        .iter()
        .map(|column| format!("<th>{}", escaped(column)));
    let _ = writeln!(page, "<tr>{}</tr>", header.collect::<String>());
    for row in &table.rows {
        let cells = row.iter().map(|cell| format!("<td>{}", escaped(cell)));
        let _ = writeln!(page, "<tr>{}</tr>", cells.collect::<String>());
    }
    page.push_str("</table></div>\n");
}

/// Returns the name of a kind on the page.
fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Value => "published value",
        Kind::Order => "published order",
        Kind::Theory => "theory",
        Kind::Arithmetic => "arithmetic of the paper",
        Kind::Goal => "goal of this project",
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}
