//! `larder reproduce`: a paper's experiments, published beside measured.

use crate::failure::Failure;
use crate::output::line;
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use larder_reproduce::{PAPERS, Paper, Report, Request, Scale, Watch, reproduce};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

/// Run a paper's experiments again, and print each published figure beside the measured one
///
/// Writes report.html and claims.json into a directory. Exits with 1 if a claim does not hold.
#[derive(Args, Debug)]
#[command(after_help = papers())]
pub struct ReproduceArgs {
    /// The paper's short name
    paper: String,

    /// Catalogue and cache scaled down together: under a minute (the default)
    #[arg(long, conflicts_with = "full")]
    quick: bool,

    /// The published conditions: by estimate, under an hour on two idle cores
    #[arg(long)]
    full: bool,

    /// Directory of report.html and claims.json, made where there is none [default: reproduce-PAPER]
    #[arg(long, short, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Print the claims as one JSON array instead of a table
    #[arg(long)]
    json: bool,

    /// Seed of every random choice
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Directory of traces that stand beside the generated ones, for the papers that use some
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,

    /// Experiments to run alone, as listed below; all where none is named. Their report takes the place of a whole one in the same directory
    #[arg(long, value_name = "EXPERIMENT", num_args = 1..)]
    only: Vec<String>,
}

fn papers() -> String {
    let lines = PAPERS.iter().map(|paper| {
        format!("  {:<10} {}\n  {:<10} experiments {}", paper.name, paper.citation, "", paper.experiments.join(", "))
    });
    format!("Papers:\n{}", lines.collect::<Vec<_>>().join("\n"))
}

/// Runs the experiments and reports.
pub fn run(args: ReproduceArgs) -> Result<(), Failure> {
    let paper = Paper::named(&args.paper).map_err(|error| Failure::usage(error.to_string()))?;
    paper.check(&args.only).map_err(|error| Failure::usage(error.to_string()))?;
    let scale = if args.full { Scale::Full } else { Scale::Quick };
    let request = Request { paper, scale, seed: args.seed, traces: args.traces.as_deref(), only: &args.only };
    let out = args.out.unwrap_or_else(|| PathBuf::from(format!("reproduce-{}", args.paper)));
    // Before an hour's work, not after it.
    std::fs::create_dir_all(&out).map_err(|error| unwritable(&out, &error))?;
    let bar = Bar::new();
    let report = reproduce(&request, &bar).map_err(|error| Failure::runtime(error.to_string()))?;
    bar.0.finish_and_clear();
    write(&out.join("report.html"), &report.html())?;
    write(&out.join("claims.json"), &report.claims_json())?;
    if args.json {
        line!("{}", report.claims_json());
    } else {
        print(&report);
        line!("{} s; {}", report.took.as_secs(), out.join("report.html").display());
    }
    verdict(&report)
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| unwritable(path, &error))
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::runtime(format!("{}: {}", path.display(), larder_node::system_message(error)))
}

fn print(report: &Report) {
    for section in &report.sections {
        line!("{}", section.title);
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(["", "claim", "published", "expected", "measured", "band"]);
        for claim in &section.claims {
            let [published, expected, measured, band] = claim.shown();
            let mark = if claim.holds { "holds" } else { "FAILS" };
            table.add_row([mark, &claim.says, &published, &expected, &measured, &band]);
        }
        table.column_iter_mut().skip(2).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
        line!("{table}\n");
    }
}

fn verdict(report: &Report) -> Result<(), Failure> {
    let failed: Vec<&str> = report.failures().map(|claim| claim.id.as_str()).collect();
    match failed.is_empty() {
        true => Ok(()),
        false => Err(Failure::runtime(format!(
            "{} of {} claims do not hold: {}",
            failed.len(),
            report.claims().count(),
            failed.join(", ")
        ))),
    }
}

/// A bar an experiment, on a terminal's standard error; elsewhere nothing is drawn.
struct Bar(ProgressBar);

impl Bar {
    fn new() -> Bar {
        if !io::stderr().is_terminal() {
            return Bar(ProgressBar::hidden());
        }
        let style = ProgressStyle::with_template("{msg} {wide_bar} {percent} %, {eta} left");
        let bar = ProgressBar::new(1).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_draw_target(ProgressDrawTarget::stderr());
        Bar(bar)
    }
}

impl Watch for Bar {
    fn begin(&self, what: &str, units: u64) {
        self.0.reset();
        self.0.set_length(units.max(1));
        self.0.set_message(what.to_owned());
    }

    fn advance(&self, units: u64) {
        self.0.inc(units);
    }

    fn warn(&self, line: &str) {
        self.0.suspend(|| eprintln!("larder: {line}"));
    }
}
