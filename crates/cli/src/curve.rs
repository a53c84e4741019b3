//! `larder curve`: computes the hit ratios of policies at many sizes, exactly or from a sample, in
//! one reading of the trace.

mod show;
mod work;

use crate::destination::check_figure;
use crate::failure::Failure;
use crate::layout::Layout;
use crate::lists::parse_all;
use crate::numbers::count;
use crate::replay::progress::Progress;
use crate::replay::source::Source;
use clap::Args;
use larder_policy::Spec;
use larder_replay::{Curve, Point, Sample, Size, Survey, Unit, spaced_sizes};
use larder_units::{ByteSize, Ratio};
use serde::Serialize;
use std::path::PathBuf;
use work::{Line, Lines};

/// The largest number of sizes in one run. Every policy except lru keeps a cache for each.
const MAX_POINTS: usize = 200;

/// The least number of objects that a bounded curve follows. Each of the eight sets that estimate
/// the error has its share of them.
const MIN_OBJECTS: i64 = 1_000;

/// Draw the hit ratio of cache policies over the size of the cache
///
/// LRU's curve is computed at all sizes at once. Other policies run one cache per size. With
/// --sample, all of them follow only a share of the objects, chosen by a hash (SHARDS, miniature
/// simulation), and state the error.
#[derive(Args, Debug)]
#[command(
    after_help = "Example: larder curve twitter.csv.zst --policy lru,s3fifo --points 20 --sample 0.05 --svg curve.svg"
)]
pub struct CurveArgs {
    /// Trace file, plain or compressed (zstd, xz, gzip, bzip2, zip); - is standard input
    trace: PathBuf,

    /// Policies, as `larder policies` lists them. Commas separate several
    #[arg(long, short, value_name = "SPEC,…", default_value = "lru")]
    policy: Vec<String>,

    /// Sizes: bytes (64MiB), objects if they have no sizes (1000), or a share of all objects of the
    /// trace (10% or 0.1), which reads the trace twice
    #[arg(
        long,
        short,
        value_name = "SIZE,…",
        conflicts_with = "points",
        allow_negative_numbers = true
    )]
    size: Vec<String>,

    /// Number of sizes, from a thousandth of the bytes of all objects up to all; reads the trace
    /// twice
    #[arg(long, value_name = "N", default_value_t = 16)]
    points: usize,

    /// Share of the objects to follow, 0.01 or 1%, and more of the large ones; the error is stated
    /// with 95 % confidence
    #[arg(long, value_name = "RATE", default_value = "1")]
    sample: String,

    /// The most objects that lru's curve follows, and as many again for the error: bounds the
    /// memory by lowering the share as objects are added (fixed-size SHARDS)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(MIN_OBJECTS..))]
    objects: Option<u32>,

    /// Seed of the sample and of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Ask the admission policy for every object, as the papers do. By default, objects are stored
    /// without asking until the first one has to leave, as in the node's caches
    #[arg(long)]
    no_fill: bool,

    #[command(flatten)]
    layout: Layout,

    /// Read at most this many requests
    #[arg(long, value_name = "N", value_parser = count)]
    limit: Option<u64>,

    /// Print one JSON object per point instead of a table
    #[arg(long)]
    json: bool,

    /// Print comma-separated values with a header instead of a table
    #[arg(long, conflicts_with = "json")]
    csv: bool,

    /// Also draw the curves into this SVG file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// One point of one policy, as `--json` and `--csv` print it; names as in a replay's row.
#[derive(Clone, Debug, Serialize)]
struct CurveRow {
    trace: String,
    policy: String,
    /// The share of the objects that was followed to the end.
    sample: f64,
    /// The requests of the whole trace.
    requests: u64,
    /// The unit of the capacity.
    unit: Unit,
    #[serde(flatten)]
    point: Point,
    /// Requests of the trace divided by seconds of processor time for this policy's whole curve and
    /// the sampling, without reading the trace.
    requests_per_second: f64,
}

/// Computes the points, and prints them in the order of the arguments.
pub fn run(args: CurveArgs) -> Result<(), Failure> {
    // A file that cannot be written is reported before the work, not after it.
    args.svg.as_deref().map_or(Ok(()), check_figure)?;
    let rows = rows(&args)?;
    match (args.json, args.csv) {
        (true, _) => show::json(&rows)?,
        (_, true) => show::csv(&rows),
        _ => show::table(&rows, !args.no_fill),
    }
    args.svg
        .as_deref()
        .map_or(Ok(()), |path| show::figure(&rows, path))
}

fn rows(args: &CurveArgs) -> Result<Vec<CurveRow>, Failure> {
    let usage = |error: String| Failure::usage(error);
    let specs: Vec<Spec> = parse_all(&args.policy)?;
    if let (Some(_), Some(spec)) = (
        args.objects,
        specs.iter().find(|spec| spec.to_string() != "lru"),
    ) {
        return Err(usage(format!(
            "--objects: only lru can leave objects out on the way; give --sample 0.01 for {spec}"
        )));
    }
    let sample = sample(&args.sample, args.seed)?;
    let source = Source::new(&args.trace, &args.layout, args.limit);
    let progress = Progress::new(source.units(1));
    let capacities = capacities(args, &source, &progress)?;
    let mut sample = match args.objects {
        None => sample.for_caches(&specs, &capacities),
        Some(_) => sample,
    };
    let mut lines = Vec::new();
    for spec in &specs {
        lines.push(match (spec.to_string().as_str(), args.objects) {
            ("lru", None) => vec![Line::Lru(Curve::lru(&capacities, &sample))],
            ("lru", Some(objects)) => vec![Line::Lru(Curve::bounded_lru(
                &capacities,
                &sample,
                objects as usize,
            ))],
            _ => {
                let cache = |capacity: &u64| {
                    let capacity = ByteSize::from_bytes(*capacity);
                    let cache = Curve::miniature(spec, capacity, &sample, args.seed);
                    let cache = cache.map_err(|error| usage(error.to_string()))?;
                    Ok(Line::Cache(if args.no_fill {
                        cache
                    } else {
                        cache.filling()
                    }))
                };
                capacities.iter().map(cache).collect::<Result<_, _>>()?
            }
        });
    }
    let mut lines = Lines::new(lines);
    lines.read(&source, &progress, &mut sample)?;
    let mut rows = Vec::new();
    for (spec, (points, rate, seconds)) in specs.iter().zip(lines.points(&sample)) {
        rows.extend(points.into_iter().map(|point| CurveRow {
            trace: source.name(),
            policy: spec.to_string(),
            sample: rate,
            requests: sample.requests(),
            unit: sample.unit(),
            point,
            requests_per_second: if seconds > 0.0 {
                (sample.requests() as f64 / seconds).round()
            } else {
                0.0
            },
        }));
    }
    Ok(rows)
}

fn sample(text: &str, seed: u64) -> Result<Sample, Failure> {
    let rate = text
        .parse::<Ratio>()
        .map_err(|error| Failure::usage(format!("sample {error}")))?;
    Sample::of(rate.value(), seed)
        .ok_or_else(|| Failure::usage("sample 0 has no objects; give 0.01"))
}

/// Returns the capacities in bytes, ascending and distinct.
fn capacities(
    args: &CurveArgs,
    source: &Source<'_>,
    progress: &Progress,
) -> Result<Vec<u64>, Failure> {
    let sizes: Vec<Size> = parse_all(&args.size)?;
    if sizes.len() > MAX_POINTS || args.points > MAX_POINTS || args.points == 0 {
        let points = args.points.max(sizes.len());
        return Err(Failure::usage(format!(
            "{points} sizes: give 1 to {MAX_POINTS}"
        )));
    }
    sizes.iter().try_for_each(|size| source.check_unit(size))?;
    source.note_bare_sizes(&args.size)?;
    let share = match sizes.iter().find(|size| size.bytes().is_none()) {
        Some(size) => Some(format!("size {size}")),
        None => sizes.is_empty().then(|| "--points".to_owned()),
    };
    let survey = source.measure(share.as_deref(), None, progress)?.survey;
    let mut capacities: Vec<u64> = if sizes.is_empty() {
        spaced_sizes(survey.as_ref().map_or(0, Survey::unique_bytes), args.points)
    } else {
        let bytes = sizes.iter().map(|size| {
            size.capacity(survey.as_ref())
                .map(ByteSize::bytes)
                .map_err(Failure::refused)
        });
        bytes.collect::<Result<_, _>>()?
    };
    capacities.sort_unstable();
    capacities.dedup();
    Ok(capacities)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::path::Path;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: CurveArgs,
    }

    fn args(arguments: &[&str]) -> CurveArgs {
        let trace =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../replay/tests/data/web07.trace.xz");
        let typed = ["larder".as_ref(), trace.as_os_str()]
            .into_iter()
            .chain(arguments.iter().map(|a| a.as_ref()));
        Cli::try_parse_from(typed).expect("arguments").args
    }

    #[test]
    fn mistakes_that_are_not_explained() {
        for (arguments, words) in [
            (&["-p", "lur"][..], "did you mean `lru`?"),
            (&["--points", "201"], "201 sizes: give 1 to 200"),
            (&["--points", "0"], "give 1 to 200"),
            (&["--sample", "0"], "sample 0 has no objects"),
            (
                &["-p", "lru,fifo", "--objects", "5000"],
                "give --sample 0.01 for fifo",
            ),
            (&["--sample", "2"], "sample "),
            (&["--size", "5 parsecs"], "such as \"64MiB\""),
            (&["--limit", "0"], "no request was read"),
        ] {
            let failure = run(args(arguments)).expect_err("it should fail");
            assert_eq!(failure.code, 2, "{arguments:?}");
            assert!(
                failure.message.contains(words) && !failure.message.contains('\n'),
                "{}",
                failure.message
            );
        }
    }

    #[test]
    fn a_figure_that_cannot_be_written_is_said_after_the_work() {
        // The failure precedes that of the policy's name, so it comes before the trace is read.
        let failure =
            run(args(&["-p", "lur", "--svg", "/nonexistent/x.svg"])).expect_err("it should fail");
        assert_eq!(
            failure.message,
            "cannot write /nonexistent/x.svg: No such file or directory"
        );
    }

    #[test]
    fn the_curve_is_not_the_replay_s() {
        // The values of a naive LRU and FIFO over the same numbers.
        let rows = rows(&args(&["-p", "lru,fifo", "--size", "2000,1000"])).unwrap();
        let hits = |row: &CurveRow| (row.point.object_hit_ratio * row.requests as f64).round();
        let found: Vec<_> = rows
            .iter()
            .map(|row| (row.policy.as_str(), row.point.capacity, hits(row)))
            .collect();
        let expected = [
            ("lru", 1000, 38_368.0),
            ("lru", 2000, 42_245.0),
            ("fifo", 1000, 36_300.0),
            ("fifo", 2000, 40_288.0),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_bounded_curve_calls_itself_exact() {
        let rows = rows(&args(&["--size", "2000,1000", "--objects", "1000"])).unwrap();
        assert!(
            rows.iter()
                .all(|row| row.sample < 0.3 && row.point.object_error > 0.0),
            "{rows:?}"
        );
        let off = rows[1].point.object_hit_ratio - 42_245.0 / 76_118.0;
        assert!(off.abs() < 0.1, "{rows:?}");
    }
}
