//! `larder simulate`: a scenario's network in virtual time, with one seed or with many.

mod show;

use crate::failure::Failure;
use crate::output::line;
use crate::seeds::Seeds;
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use larder_netsim::scenario::{Figure, Scenario};
use larder_reproduce::on_all_cores;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

/// Simulate a network of forwarders as a scenario file describes it
///
/// The nodes are the forwarder that `larder run` runs, and packets are real; links and time are modelled. The same seed gives the same figures
/// again. With many seeds, prints the mean of each figure with the 95 % interval of the mean.
#[derive(Args, Debug)]
pub struct SimulateArgs {
    /// The scenario, a TOML file: docs/simulate.md has every key
    scenario: PathBuf,

    /// Seed of every random choice, or a range of seeds, each a run of its own: 1..30
    #[arg(long, visible_alias = "seed", default_value = "1", value_name = "SEEDS")]
    seeds: Seeds,

    /// Show only components whose name contains this: "cbr", "node r1"
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,

    /// Print one JSON array of {component, quantity, unit, mean, interval, values} instead of tables
    #[arg(long, conflicts_with = "csv")]
    json: bool,

    /// Print CSV instead of tables: seed,component,quantity,unit,value
    #[arg(long)]
    csv: bool,
}

/// Runs the scenario with every seed, and prints the figures.
pub fn run(args: SimulateArgs) -> Result<(), Failure> {
    let source = args.scenario.display().to_string();
    let text = std::fs::read_to_string(&args.scenario)
        .map_err(|error| Failure::usage(format!("cannot read {source}: {}", larder_node::system_message(&error))))?;
    // Files that a scenario names stand beside it.
    let beside = args.scenario.parent().map(Path::to_owned).unwrap_or_default();
    let read = |name: &str| std::fs::read(beside.join(name)).map_err(|error| larder_node::system_message(&error));
    let scenario = Scenario::parse_with(&text, &source, &read).map_err(|error| Failure::usage(error.to_string()))?;
    let seeds: Vec<u64> = args.seeds.into_iter().collect();
    let bar = progress(seeds.len() as u64);
    let runs: Result<Vec<Vec<Figure>>, _> = on_all_cores(seeds.clone(), |seed| {
        let figures = scenario.run(seed);
        bar.inc(1);
        figures
    })
    .into_iter()
    .collect();
    bar.finish_and_clear();
    let runs = runs.map_err(|error| Failure::runtime(error.to_string()))?;
    let mut figures = show::over_seeds(runs);
    if let Some(only) = &args.only {
        figures.retain(|figure| figure.component.contains(only.as_str()));
        if figures.is_empty() {
            return Err(Failure::usage(format!(
                "no component's name contains {only:?}; leave --only out to see them all"
            )));
        }
    }
    if args.json {
        line!("{}", show::json(&figures));
    } else if args.csv {
        show::csv(&figures, &seeds);
    } else {
        show::tables(&figures);
    }
    Ok(())
}

/// A bar of runs, on a terminal's standard error.
fn progress(runs: u64) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("simulating {wide_bar} {pos} of {len} seeds, {eta} left");
    let bar = ProgressBar::new(runs).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_draw_target(ProgressDrawTarget::stderr());
    bar
}
