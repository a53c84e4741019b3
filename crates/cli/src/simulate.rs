//! `larder simulate`: runs a scenario's network in virtual time, with one seed or with many.

mod ndnsim;
mod pictures;
mod replay;
mod show;
mod trace;

use crate::destination::check_writable;
use crate::failure::Failure;
use crate::output::{error_line, line};
use crate::progress::Bar;
use crate::seeds::Seeds;
use clap::Args;
use larder_netsim::scenario::{Figure, Scenario, ScenarioError, Timeline, Watch};
use larder_reproduce::on_all_cores;
use larder_units::parse_duration;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Simulate the network of forwarders that a scenario file describes
///
/// The nodes are the forwarder of `larder run`, and packets are real. Links and time are modelled.
/// The same seed gives the same figures. With many seeds, the mean of each figure is printed with
/// the 95 % interval of the mean.
#[derive(Args, Debug)]
pub struct SimulateArgs {
    /// Scenario file (TOML); docs/guides/simulation.md documents every key
    scenario: PathBuf,

    /// Seed of all random choices, or a range of seeds with one run for each: 1..30
    #[arg(
        long,
        visible_alias = "seed",
        default_value = "1",
        value_name = "SEEDS"
    )]
    seeds: Seeds,

    /// Show only components whose name contains this text: "cbr", "node r1"
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,

    /// Print one JSON array of {component, quantity, unit, mean, interval, values} instead of
    /// tables
    #[arg(long, conflicts_with = "csv")]
    json: bool,

    /// Print CSV instead of tables: seed,component,quantity,unit,value
    #[arg(long)]
    csv: bool,

    /// Write an animated replay of the first seed's run as one HTML file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Write figures over time of the first seed's run into this directory as SVG
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,

    /// Write the first seed's run as ndnSIM traces into this directory: rate-trace.txt,
    /// cs-trace.txt, app-delays-trace.txt
    #[arg(long, value_name = "DIR")]
    ndnsim: Option<PathBuf>,

    /// Write the figures of every component in each step of the first seed's run as CSV:
    /// time_s,component,quantity,unit,value
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    /// Time step of --html, --svg, --ndnsim and --trace [default: 500ms with --ndnsim, otherwise a
    /// 240th of the run]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    step: Option<Duration>,
}

/// Runs the scenario with every seed, and prints the figures.
pub fn run(args: SimulateArgs) -> Result<(), Failure> {
    let source = args.scenario.display().to_string();
    let text = std::fs::read_to_string(&args.scenario).map_err(|error| {
        Failure::usage(format!(
            "cannot read {source}: {}",
            larder_units::system_message(&error)
        ))
    })?;
    // Files that a scenario names are in its own directory.
    let beside = args
        .scenario
        .parent()
        .map(Path::to_owned)
        .unwrap_or_default();
    let read = |name: &str| {
        std::fs::read(beside.join(name))
            .map_err(|error| std::io::Error::other(larder_units::system_message(&error)))
    };
    let scenario = Scenario::parse_with(&text, &source, &read)
        .map_err(|error| Failure::usage(error.to_string()))?;
    for warning in scenario.warnings() {
        error_line!("larder: warning: {warning}");
    }
    let seeds: Vec<u64> = args.seeds.clone().into_iter().collect();
    let mut figures = show::over_seeds(args.run_all(&scenario, &source, &seeds)?);
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

/// The run whose timeline is recorded, if any.
struct Watched {
    seed: u64,
    watch: Option<Watch>,
}

impl Watched {
    fn run(
        &self,
        scenario: &Scenario,
        seed: u64,
    ) -> Result<(Vec<Figure>, Option<Timeline>), ScenarioError> {
        match self.watch.filter(|_| seed == self.seed) {
            Some(watch) => scenario
                .watch(seed, watch)
                .map(|(figures, timeline)| (figures, Some(timeline))),
            None => scenario.run(seed).map(|figures| (figures, None)),
        }
    }
}

impl SimulateArgs {
    /// Checks before the work that the files can be created.
    fn check_files(&self) -> Result<(), Failure> {
        self.html
            .iter()
            .chain(&self.trace)
            .try_for_each(|path| check_writable(path))?;
        self.svg
            .iter()
            .chain(&self.ndnsim)
            .try_for_each(|directory| pictures::make(directory))
    }

    /// Returns each seed's figures, and writes the first seed's run into files.
    fn run_all(
        &self,
        scenario: &Scenario,
        source: &str,
        seeds: &[u64],
    ) -> Result<Vec<Vec<Figure>>, Failure> {
        self.check_files()?;
        let watched = Watched {
            seed: seeds.first().copied().unwrap_or_default(),
            watch: self.watch(scenario),
        };
        let bar = Bar::new(seeds.len() as u64);
        bar.set_message(format!("simulating {} seeds", seeds.len()));
        let runs = on_all_cores(seeds.to_vec(), |seed| {
            let run = watched.run(scenario, seed);
            bar.advance(1);
            run
        });
        drop(bar);
        let mut all = Vec::new();
        for run in runs {
            let (figures, timeline) = run.map_err(|error| Failure::runtime(error.to_string()))?;
            all.push(figures);
            if let Some(timeline) = timeline {
                self.write_timeline(source, &timeline)?;
            }
        }
        Ok(all)
    }

    fn watch(&self, scenario: &Scenario) -> Option<Watch> {
        let closely = self.ndnsim.is_some();
        let is_wanted =
            closely || self.html.is_some() || self.svg.is_some() || self.trace.is_some();
        let usual = if closely {
            ndnsim::STEP
        } else {
            scenario.duration() / pictures::STEPS
        };
        is_wanted.then(|| Watch {
            step: self.step.unwrap_or(usual),
            closely,
        })
    }

    fn write_timeline(&self, source: &str, timeline: &Timeline) -> Result<(), Failure> {
        if let Some(path) = &self.html {
            replay::write(timeline, source, path)?;
        }
        if let Some(directory) = &self.svg {
            pictures::write(timeline, directory)?;
        }
        if let Some(directory) = &self.ndnsim {
            ndnsim::write(timeline, directory)?;
        }
        if let Some(path) = &self.trace {
            trace::write(timeline, path)?;
        }
        Ok(())
    }
}
