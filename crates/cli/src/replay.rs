//! `larder replay`: replays traces through policies and prints a table of hit ratios.
//!
//! Every policy runs at every size with every seed over every trace. A trace is read once for all
//! of them. It is read once more if a size is a share of it, or if a policy needs to know the
//! future. With `--resume`, rows that an earlier run has finished are not computed again. The other
//! rows are computed in groups, with one reading of the trace for each group, because all rows of a
//! reading finish at its end.

mod figure;
mod finished;
pub mod progress;
pub mod show;
pub mod source;
#[cfg(test)]
mod tests;
pub mod workers;

use crate::destination::check_figure;
use crate::failure::Failure;
use crate::interruption;
use crate::layout::Layout;
use crate::lists::parse_all;
use crate::numbers::count;
use crate::progress::Bar;
use crate::seeds::Seeds;
use crate::trace_file;
use clap::Args;
use finished::{Finished, Run};
use larder_policy::{Spec, SpecError};
use larder_replay::{Replay, Row, Size};
use progress::Progress;
use source::{Identity, Measured, Source};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::available_parallelism;
use workers::Cache;

/// The largest number of rows in one run. The caches of one trace stay in memory until it ends.
const MAX_ROWS: usize = 1_000;

/// The least number of rows in one reading when rows are kept as they finish, so that a kill loses
/// few. Reading a compressed trace costs as much as two or three rows of a quick policy, so such a
/// sweep takes up to two fifths more processor time.
const KEPT_AT_ONCE: usize = 8;

/// Replay traces through cache policies and print their hit ratios
///
/// Every policy runs at every size with every seed. One reading of each trace serves all rows, and
/// the rows share the processor's cores.
#[derive(Args, Debug)]
#[command(
    after_help = "Example: larder replay t.csv.zst -p 'lru,filter(theta=2)+fifo' -s 50MiB,10%"
)]
pub struct ReplayArgs {
    /// Trace files, plain or compressed (zstd, xz, gzip, bzip2, zip); - is standard input
    #[arg(required = true)]
    trace: Vec<PathBuf>,

    /// Policies, as `larder policies` lists them: the first stages admit, the last evicts. Commas
    /// separate several
    #[arg(long, short, value_name = "SPEC,…", required = true)]
    policy: Vec<String>,

    /// Capacities: bytes (64MiB), objects if they have no sizes (1000), or a share of all objects
    /// of the trace (10% or 0.1), which reads the trace twice
    #[arg(
        long,
        short,
        value_name = "SIZE,…",
        required = true,
        allow_negative_numbers = true
    )]
    size: Vec<String>,

    #[command(flatten)]
    layout: Layout,

    /// Seeds of all random choices, one run for each: 7, or from 1 to 5 as 1..5
    #[arg(
        long,
        visible_alias = "seed",
        value_name = "SEED,…",
        default_value = "1"
    )]
    seeds: Vec<String>,

    /// Ask the admission policy for every object, as the papers do. By default, objects are stored
    /// without asking until the first one has to leave, as in the node's caches
    #[arg(long)]
    no_fill: bool,

    /// Replay at most this many requests of each trace
    #[arg(long, value_name = "N", value_parser = count)]
    limit: Option<u64>,

    /// Print one JSON object per row instead of a table
    #[arg(long)]
    json: bool,

    /// Print comma-separated values with a header instead of a table
    #[arg(long, conflicts_with = "json")]
    csv: bool,

    /// Also draw the hit ratios over the size into this SVG file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// Keep finished rows in this file (JSON lines) and compute only the missing ones, at least
    /// eight per reading of the trace
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
}

/// Replays, and prints the rows in the order of the arguments.
pub fn run(args: ReplayArgs) -> Result<(), Failure> {
    let (json, csv, svg) = (args.json, args.csv, args.svg.clone());
    // A file that cannot be written is reported before the work, not after it.
    svg.as_deref().map_or(Ok(()), check_figure)?;
    if csv {
        show::csv_header();
    }
    let status = Arc::new(SweepStatus::new());
    let (watched, keeps) = (status.clone(), args.resume.is_some());
    interruption::watch(move || interruption::end(&watched.bar, &watched.describe(keeps)))?;
    // JSON and CSV rows are printed when their trace is done, the table at the end.
    let swept = sweep(&args, &status, |rows| match (json, csv) {
        (true, _) => show::json(rows),
        (_, true) => show::csv(rows),
        _ => Ok(()),
    });
    status.bar.clear();
    let rows = swept?;
    if !json && !csv {
        show::table(&rows);
    }
    svg.map_or(Ok(()), |path| figure::write(&rows, &path))
}

/// The progress of a sweep.
struct SweepStatus {
    bar: Arc<Bar>,
    rows: AtomicUsize,
    finished: AtomicUsize,
}

impl SweepStatus {
    fn new() -> SweepStatus {
        SweepStatus {
            bar: Arc::new(Bar::new(0)),
            rows: AtomicUsize::new(0),
            finished: AtomicUsize::new(0),
        }
    }

    /// Describes the progress, for the message after an interruption. `keeps` says whether finished
    /// rows are kept.
    fn describe(&self, keeps: bool) -> String {
        let way_on = if keeps {
            "go on with the same --resume"
        } else {
            "--resume FILE keeps those that are"
        };
        format!(
            "{} of {} rows finished; {way_on}",
            self.finished.load(Relaxed),
            self.rows.load(Relaxed)
        )
    }
}

/// The checked arguments.
struct Plan {
    specs: Vec<Spec>,
    sizes: Vec<Size>,
    seeds: Vec<u64>,
    layout: Layout,
    fill: bool,
    limit: Option<u64>,
}

/// The parameters of one row.
struct Cell<'a> {
    spec: &'a Spec,
    size: Size,
    seed: u64,
}

/// Returns all rows, in the order of the arguments. Calls `done` with the rows of each trace as
/// soon as the trace is done.
fn sweep(
    args: &ReplayArgs,
    status: &SweepStatus,
    mut done: impl FnMut(&[Row]) -> Result<(), Failure>,
) -> Result<Vec<Row>, Failure> {
    let plan = Plan::new(args)?;
    let mut finished = args.resume.as_deref().map(Finished::open).transpose()?;
    let cells = plan.cells();
    if cells.len() * args.trace.len() > MAX_ROWS {
        return Err(Failure::usage(format!(
            "{} rows, more than {MAX_ROWS}",
            cells.len() * args.trace.len()
        )));
    }
    trace_file::check_once(args.trace.iter().map(PathBuf::as_path))?;
    let mut parts = Vec::new();
    for path in &args.trace {
        let source = Source::new(path, &plan.layout, plan.limit);
        check_is_trace(path)?;
        plan.sizes
            .iter()
            .try_for_each(|size| source.check_unit(size))?;
        source.note_bare_sizes(&args.size)?;
        parts.push(match &finished {
            Some(finished) => {
                let identity = source.identity()?;
                let runs: Vec<Run> = cells.iter().map(|cell| plan.run(cell, &identity)).collect();
                Part {
                    rows: runs.iter().map(|run| finished.row(run)).collect(),
                    source,
                    runs,
                }
            }
            None => Part {
                source,
                runs: Vec::new(),
                rows: vec![None; cells.len()],
            },
        });
    }
    let missing: usize = parts.iter().map(|part| part.missing().len()).sum();
    status.rows.store(cells.len() * parts.len(), Relaxed);
    status
        .finished
        .store(cells.len() * parts.len() - missing, Relaxed);
    let progress = Progress::on(status.bar.clone());
    progress.add(
        parts
            .iter()
            .map(|part| part.source.units(part.missing().len()))
            .sum(),
    );
    let mut all = Vec::new();
    for mut part in parts {
        part.complete(&plan, &cells, &mut finished, status, &progress)?;
        let rows: Vec<Row> = part.rows.into_iter().flatten().collect();
        done(&rows)?;
        all.extend(rows);
    }
    Ok(all)
}

/// A trace of the sweep.
struct Part<'a> {
    source: Source<'a>,
    /// The key under which each row is kept, with the identity of the trace before it was read.
    /// Empty if rows are not kept.
    runs: Vec<Run>,
    /// The known rows; one entry per cell.
    rows: Vec<Option<Row>>,
}

impl Part<'_> {
    /// Returns the indices of the unknown rows.
    fn missing(&self) -> Vec<usize> {
        (0..self.rows.len())
            .filter(|place| self.rows[*place].is_none())
            .collect()
    }

    /// Computes the missing rows, and keeps each as it finishes.
    fn complete(
        &mut self,
        plan: &Plan,
        cells: &[Cell<'_>],
        finished: &mut Option<Finished>,
        status: &SweepStatus,
        progress: &Progress,
    ) -> Result<(), Failure> {
        let missing = self.missing();
        if missing.is_empty() {
            return Ok(());
        }
        let wanted: Vec<&Cell<'_>> = missing.iter().map(|place| &cells[*place]).collect();
        let measured = plan.measure(&wanted, &self.source, progress)?;
        let at_once = match finished {
            Some(_) => available_parallelism()
                .map_or(1, usize::from)
                .max(KEPT_AT_ONCE),
            None => missing.len(),
        };
        for group in missing.chunks(at_once) {
            let caches = group
                .iter()
                .map(|place| plan.cache(&cells[*place], &measured));
            let keep = |nth: usize, row: Row| {
                let place = group[nth];
                if let Some(finished) = finished.as_mut() {
                    let run = &self.runs[place];
                    self.source.check_unchanged(&run.trace)?;
                    finished.add(run, &row)?;
                }
                self.rows[place] = Some(row);
                status.finished.fetch_add(1, Relaxed);
                Ok(())
            };
            workers::replay(
                &self.source,
                caches.collect::<Result<_, _>>()?,
                progress,
                keep,
            )?;
        }
        Ok(())
    }
}

impl Plan {
    fn new(args: &ReplayArgs) -> Result<Plan, Failure> {
        let seeds: Vec<Seeds> = parse_all(&args.seeds)?;
        Ok(Plan {
            specs: parse_all(&args.policy)?,
            sizes: parse_all(&args.size)?,
            seeds: seeds.into_iter().flatten().take(MAX_ROWS + 1).collect(),
            layout: args.layout.clone(),
            fill: !args.no_fill,
            limit: args.limit,
        })
    }

    fn cells(&self) -> Vec<Cell<'_>> {
        let mut cells = Vec::new();
        for spec in &self.specs {
            for size in &self.sizes {
                cells.extend(self.seeds.iter().map(|seed| Cell {
                    spec,
                    size: *size,
                    seed: *seed,
                }));
            }
        }
        cells
    }

    /// Returns everything that the row of `cell` depends on.
    fn run(&self, cell: &Cell<'_>, trace: &Identity) -> Run {
        Run {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            trace: trace.clone(),
            layout: self.layout.clone(),
            policy: cell.spec.to_string(),
            size: cell.size.to_string(),
            seed: cell.seed,
            fill: self.fill,
            limit: self.limit,
        }
    }

    /// Reads the trace if `cells` need its totals or its future.
    fn measure(
        &self,
        cells: &[&Cell<'_>],
        source: &Source<'_>,
        progress: &Progress,
    ) -> Result<Measured, Failure> {
        let check = |cell: &Cell<'_>, capacity| {
            Replay::foreseeing(cell.spec, capacity, 0, &Default::default())
                .map(drop)
                .map_err(refused)
        };
        let (absolute, shares): (Vec<&Cell<'_>>, Vec<_>) =
            cells.iter().partition(|cell| cell.size.bytes().is_some());
        // A fault in a spec is reported before the trace is read, if its capacity is known by then.
        absolute.iter().try_for_each(|cell| {
            check(cell, cell.size.capacity(None).map_err(Failure::refused)?)
        })?;
        let share = shares.first().map(|cell| cell.size.to_string());
        let offline = cells
            .iter()
            .find(|cell| cell.spec.is_offline())
            .map(|cell| cell.spec.to_string());
        let measured = source.measure(share.as_deref(), offline.as_deref(), progress)?;
        shares.iter().try_for_each(|cell| {
            check(
                cell,
                cell.size
                    .capacity(measured.survey.as_ref())
                    .map_err(Failure::refused)?,
            )
        })?;
        Ok(measured)
    }

    /// Returns an empty cache for `cell`.
    fn cache(&self, cell: &Cell<'_>, measured: &Measured) -> Result<Cache, Failure> {
        let capacity = cell
            .size
            .capacity(measured.survey.as_ref())
            .map_err(Failure::refused)?;
        let replay = match &measured.future {
            Some(future) => Replay::foreseeing(cell.spec, capacity, cell.seed, future),
            None => Replay::new(cell.spec, capacity, cell.seed),
        };
        let replay = replay.map_err(refused)?;
        Ok(Cache::new(if self.fill {
            replay.filling()
        } else {
            replay
        }))
    }
}

/// Checks that an argument without a flag is not a policy or a size. `--policy lru fifo` has one
/// policy, and a trace with the name fifo.
fn check_is_trace(path: &Path) -> Result<(), Failure> {
    let text = path.to_string_lossy();
    let flag = match (text.parse::<Spec>(), text.parse::<Size>()) {
        (Ok(_), _) => "--policy lru,fifo",
        (_, Ok(_)) => "--size 10%,20%",
        _ => return Ok(()),
    };
    if path.exists() {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "there is no trace `{text}`; commas separate the elements of a list, as in {flag}"
    )))
}

fn refused(error: SpecError) -> Failure {
    Failure::usage(error.to_string())
}
