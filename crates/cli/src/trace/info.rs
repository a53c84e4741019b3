//! `larder trace info`: prints the properties of a trace.

use super::Input;
use crate::failure::Failure;
use crate::output::line;
use crate::replay::source::{MEASURING, late};
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use larder_replay::survey::{Report, Survey};
use larder_replay::{TraceReport, Unit};
use larder_units::rounded::{bytes, percent, span};
use serde::Serialize;

/// The remark on a log without hosts.
pub const NO_HOST: &str = "no line names its host, so equal paths are one object: if these are several sites, give each \
     file with --host or --host-from filename";

/// The length of the longest bar, in characters.
const BAR: f64 = 30.0;

/// Print the properties of a trace: requests, objects, sizes and popularity
///
/// Uses about 40 bytes of memory per object.
#[derive(Args, Debug)]
pub struct InfoArgs {
    #[command(flatten)]
    input: Input,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Info<'a> {
    trace: &'a str,
    format: &'static str,
    /// Requests with a time before an earlier request's. They take the latest time instead.
    late_requests: u64,
    #[serde(skip)]
    late: Option<&'a str>,
    /// The form of the lines, and the fields that are used.
    read_as: &'a [String],
    /// Bad lines that were skipped, and lines that do not count, by reason.
    left_out: &'a [String],
    /// What was taken for granted.
    guesses: &'a [String],
    #[serde(flatten)]
    report: &'a Report,
}

/// Reads the trace, and prints its properties.
pub fn run(args: InfoArgs) -> Result<(), Failure> {
    let mut survey = Survey::default();
    let trace = args.input.each(MEASURING, |access| {
        survey.count(access);
        Ok(())
    })?;
    let report = survey.report();
    drop(survey);
    let name = args.input.source().name();
    let (late_requests, late) = (trace.late_requests(), late(&trace));
    let read = trace.report();
    let remarks = read.remarks();
    let info = Info {
        trace: &name,
        format: trace.format().name(),
        late_requests,
        late: late.as_deref(),
        read_as: &read.reader.how,
        left_out: &remarks,
        guesses: &guesses(&read),
        report: &report,
    };
    if args.json {
        let json =
            serde_json::to_string(&info).map_err(|error| Failure::runtime(error.to_string()))?;
        line!("{json}");
        return Ok(());
    }
    print(&info);
    Ok(())
}

/// Returns what was taken for granted.
fn guesses(read: &TraceReport) -> Vec<String> {
    let mut guesses = read.reader.guesses.clone();
    if read.reader.is_without_host {
        guesses.push(NO_HOST.to_owned());
    }
    guesses
}

fn print(info: &Info<'_>) {
    let Report {
        requests,
        objects,
        requested_bytes,
        unique_bytes,
        seconds,
        sizes,
        popularity,
    } = info.report;
    line!("trace        {} ({})", info.trace, info.format);
    print_reading(info);
    let unit = Unit::of_largest(
        sizes
            .percentiles
            .last()
            .map_or(0, |largest| largest.objects),
    );
    match unit {
        Unit::Bytes => {
            line!(
                "requests     {requests}, {} asked for",
                bytes(*requested_bytes as f64)
            );
            line!(
                "objects      {objects}, {} (footprint)",
                bytes(*unique_bytes as f64)
            );
        }
        Unit::Objects => {
            line!("requests     {requests}");
            line!("objects      {objects}, without sizes: capacities count objects");
        }
    }
    match info.late {
        None => line!("time span    {}", span(*seconds)),
        Some(late) => line!("time span    {}; {late}", span(*seconds)),
    }
    line!(
        "popularity   {}",
        match &popularity.zipf {
            Some(fit) => format!(
                "Zipf {:.3} (R² {:.3}; least squares of ln requests over ln rank, eight ranks an octave, ranks 1 to {})",
                fit.exponent, fit.r_squared, fit.ranks
            ),
            None => "no Zipf law fitted, too few objects are requested ten times".to_owned(),
        }
    );
    line!(
        "             the top 1 % of the objects have {} of the requests, the top 10 % {}; the first has {}",
        percent(popularity.top_1_percent),
        percent(popularity.top_10_percent),
        popularity.most_requests
    );
    line!(
        "one-hit      {} of the objects are requested once",
        percent(popularity.one_hit_wonders)
    );
    if unit == Unit::Objects {
        return;
    }
    line!(
        "mean size    {} of an object, {} of a request\n",
        bytes(sizes.mean),
        bytes(sizes.mean_requested)
    );

    let mut table = table(["percentile of sizes", "objects", "requests"]);
    for percentile in sizes.percentiles {
        let name = match percentile.percent {
            0 => "smallest".to_owned(),
            100 => "largest".to_owned(),
            percent => format!("{percent} %"),
        };
        table.add_row([
            name,
            bytes(percentile.objects as f64),
            bytes(percentile.requests as f64),
        ]);
    }
    line!("{table}\n");

    let mut table = self::table(["size from", "objects", "requests", "bytes"]);
    let most = sizes
        .decades
        .iter()
        .map(|decade| decade.objects)
        .fold(0.0, f64::max);
    for decade in &sizes.decades {
        let bar = "█".repeat((decade.objects / most * BAR).round() as usize);
        let shares = [decade.objects, decade.requests, decade.bytes].map(percent);
        table.add_row([vec![decimal(decade.from)], shares.to_vec(), vec![bar]].concat());
    }
    line!("{table}");
}

/// Prints how the trace was read, and what was left out.
fn print_reading(info: &Info<'_>) {
    for (place, line) in info
        .read_as
        .iter()
        .filter(|line| !line.is_empty())
        .enumerate()
    {
        line!("{:12} {line}", if place == 0 { "read as" } else { "" });
    }
    for (name, lines) in [("left out", info.left_out), ("guessed", info.guesses)] {
        for (place, line) in lines.iter().enumerate() {
            line!("{:12} {line}", if place == 0 { name } else { "" });
        }
    }
}

fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header);
    for column in table.column_iter_mut().skip(1).take(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Formats the start of a decade; powers of ten are decimal.
fn decimal(from: u64) -> String {
    let names = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    let thousands = from.checked_ilog10().unwrap_or(0) as usize / 3;
    format!(
        "{} {}",
        from / 1000_u64.pow(thousands as u32),
        names[thousands]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decades_in_other_units() {
        assert_eq!(
            [0, 1, 100, 1000, 10_000_000, 10_u64.pow(19)].map(decimal),
            ["0 B", "1 B", "100 B", "1 kB", "10 MB", "10 EB"]
        );
    }
}
