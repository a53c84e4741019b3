//! `larder reproduce`: runs a paper's experiments and prints published and measured figures side by
//! side.

use crate::destination::write_whole;
use crate::failure::Failure;
use crate::interruption;
use crate::lists::parse_all;
use crate::output::{error_line, line};
use crate::progress::Bar;
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use larder_reproduce::{
    Coverage, EarlierArchive, Error, Judged, PAPERS, Paper, Report, Request, Rows, Scale, Verdict,
    Watch, reproduce,
};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// Run a paper's experiments again, and print each published figure beside the measured one
///
/// Writes report.html and claims.json into a directory after each experiment, and finished runs
/// into rows.jsonl. Exits with 0 if all claims hold or fail as listed with a reason, with 1 if
/// another claim fails or the run fails, or with --full a listed claim holds. Exits with 2 if a
/// program or a privilege is missing, or if only claims about times fail and other programs
/// disturbed them.
#[derive(Args, Debug)]
#[command(after_help = papers())]
pub struct ReproduceArgs {
    /// The paper's short name
    paper: String,

    /// Scale catalogue and cache down together: one to three minutes on two idle cores, ndn-vs-http
    /// eight (the default)
    #[arg(long, conflicts_with = "full")]
    quick: bool,

    /// Use the published conditions: the minutes that are listed below
    #[arg(long)]
    full: bool,

    /// Run real servers on loopback instead of replays: adaptsize with nginx and Varnish; some
    /// minutes, hours with --full
    #[arg(long)]
    testbed: bool,

    /// Directory for report.html, claims.json and rows.jsonl, created if missing [default:
    /// reproduce-PAPER, reproduce-PAPER-testbed]
    #[arg(long, short, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Skip the replays, simulations and downloads that the last run of this build recorded in
    /// rows.jsonl of this directory
    #[arg(long)]
    resume: bool,

    /// Print the claims as JSON (the content of claims.json) instead of a table
    #[arg(long)]
    json: bool,

    /// Write claims.json and a page with one figure into a directory of the paper's name in DIR
    /// after each experiment, to keep the report (docs/reproductions). What is there of
    /// experiments that do not run now stays, so it is for Larder's node only
    #[arg(long, value_name = "DIR", conflicts_with = "forwarder")]
    archive: Option<PathBuf>,

    /// Print what of the paper is covered, as a table, and run nothing
    #[arg(long)]
    coverage: bool,

    /// Seed of every random choice
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Directory of traces to replay in addition to the generated ones, for adaptsize
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,

    /// Shell command of a forwarder to run in place of Larder's node, for ndn-vs-http. It listens
    /// on TCP and UDP port 6363 and on the Unix socket $FORWARDER_SOCKET, registers prefixes by
    /// NFD's protocol, and sends everything else to the URI $FORWARDER_UPSTREAM, empty at the
    /// server
    #[arg(long, value_name = "COMMAND")]
    forwarder: Option<String>,

    /// Directory of applications of other NDN implementations, for ndn-vs-http, which then runs
    /// `applications` too: programs NAME-producer and NAME-consumer, as in interop/applications
    #[arg(long, value_name = "DIR")]
    applications: Option<PathBuf>,

    /// Run only these experiments, as listed below. Commas separate several. Their report replaces
    /// a complete one in the same directory
    #[arg(long, value_name = "EXPERIMENT,…")]
    only: Vec<String>,
}

fn papers() -> String {
    let lines = PAPERS.iter().map(|paper| {
        let of_testbed = match with_all_minutes(paper, paper.on_testbed()) {
            none if none.is_empty() => none,
            names => format!("\n  {:<11} with --testbed{names}", ""),
        };
        let experiments = with_all_minutes(paper, paper.experiments());
        format!(
            "  {:<11} {}\n  {:<11} experiments{experiments}{of_testbed}",
            paper.name, paper.citation, ""
        )
    });
    format!("Papers:\n{}", lines.collect::<Vec<_>>().join("\n"))
}

fn with_all_minutes(paper: &Paper, names: impl Iterator<Item = &'static str>) -> String {
    let names: Vec<&str> = names.collect();
    let are_known = names
        .iter()
        .any(|name| paper.minutes(name, Scale::Quick).is_some());
    let minutes = if are_known {
        " (minutes on two idle cores, quick/full)"
    } else {
        ""
    };
    let listed: Vec<String> = names.iter().map(|name| with_minutes(paper, name)).collect();
    if listed.is_empty() {
        String::new()
    } else {
        format!("{minutes} {}", listed.join(", "))
    }
}

fn with_minutes(paper: &Paper, name: &str) -> String {
    match [Scale::Quick, Scale::Full].map(|scale| paper.minutes(name, scale)) {
        [Some(quick), Some(full)] => {
            format!("{name} {}/{}", at_least_one(quick), at_least_one(full))
        }
        _ => name.to_owned(),
    }
}

fn at_least_one(minutes: u64) -> String {
    if minutes == 0 {
        "<1".to_owned()
    } else {
        minutes.to_string()
    }
}

/// Runs the experiments and reports.
pub fn run(mut args: ReproduceArgs) -> Result<(), Failure> {
    args.only = parse_all(&args.only)?;
    let paper = Paper::named(&args.paper).map_err(|error| Failure::usage(error.to_string()))?;
    paper
        .check(args.testbed, &args.only)
        .map_err(|error| Failure::usage(error.to_string()))?;
    if args.coverage {
        return print_coverage(paper);
    }
    if args.forwarder.is_some() && !paper.takes_forwarder() {
        return Err(Failure::usage(format!(
            "--forwarder: {} runs no forwarder as a program",
            paper.name
        )));
    }
    if args.applications.is_some() && !paper.takes_applications() {
        return Err(Failure::usage(format!(
            "--applications: {} runs no applications as programs",
            paper.name
        )));
    }
    if let Some(traces) = &args.traces {
        if args.testbed {
            return Err(Failure::usage("--traces: --testbed replays no traces"));
        }
        check_traces(paper, traces, &args.only)?;
    }
    let scale = if args.full { Scale::Full } else { Scale::Quick };
    let kind = if args.testbed { "-testbed" } else { "" };
    let out = args
        .out
        .unwrap_or_else(|| PathBuf::from(format!("reproduce-{}{kind}", args.paper)));
    // A directory that cannot be written is reported before the work, not after it.
    std::fs::create_dir_all(&out).map_err(|error| Failure {
        code: 2,
        message: format!(
            "the report cannot be written; --out names its folder: {}",
            unwritable(&out, &error).message
        ),
    })?;
    if !args.resume && out.join("report.html").exists() {
        error_line!(
            "{}: the report there will be replaced; rows.jsonl.old keeps its rows",
            out.display()
        );
    }
    let archive = args.archive.map(|archive| Archive {
        directory: archive.join(format!("{}{kind}", args.paper)),
    });
    archive
        .iter()
        .try_for_each(|archive| archive.create((paper.name, scale, args.seed)))?;
    let rows = Rows::open(&out.join("rows.jsonl"), args.resume)
        .map_err(|error| Failure::usage(error.to_string()))?;
    let (traces, only) = (args.traces.as_deref(), &*args.only);
    let (testbed, forwarder, applications) = (
        args.testbed,
        args.forwarder.as_deref(),
        args.applications.as_deref(),
    );
    let request = Request {
        paper,
        scale,
        seed: args.seed,
        traces,
        testbed,
        only,
        forwarder,
        applications,
        rows: &rows,
    };
    paper
        .check_requirements(&request)
        .map_err(|error| Failure::usage(error.to_string()))?;
    let status = Arc::new(RunStatus::of(&request, &out, archive));
    watch_signals(status.clone(), paper.builds_networks())?;
    let reproduced = reproduce(&request, &*status).map_err(|error| status.unfinished(&error));
    status.bar.clear();
    let report = reproduced?;
    if args.json {
        line!("{}", report.claims_json());
    } else {
        print(&report);
        let (seconds, page) = (report.seconds(), out.join("report.html"));
        line!(
            "{seconds} s; {}; claims that hold: {}",
            page.display(),
            report.counted()
        );
        if report.claims().any(|claim| claim.known_failure.is_some()) {
            line!(
                "The page has the band of each claim with its reason, and why a listed one fails."
            );
        }
    }
    verdict(&report)
}

/// Checks that a directory of traces can be read, and that the paper replays traces. Otherwise only
/// the experiment that replays them would fail, after the others, or it would not run.
fn check_traces(paper: &Paper, traces: &Path, only: &[String]) -> Result<(), Failure> {
    if !paper.takes_traces() {
        return Err(Failure::usage(format!(
            "--traces: {} replays no traces",
            paper.name
        )));
    }
    let replays = Paper::WITH_TRACES;
    if !only.is_empty() && !only.iter().any(|name| name == replays) {
        return Err(Failure::usage(format!(
            "--traces: only `{replays}` replays them; add it to --only"
        )));
    }
    match std::fs::read_dir(traces) {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::usage(format!(
            "--traces {}: {}",
            traces.display(),
            larder_units::system_message(&error)
        ))),
    }
}

/// An archive: a directory of the paper's name.
struct Archive {
    directory: PathBuf,
}

impl Archive {
    /// Creates the directory. An archive that cannot be kept is reported before the work.
    fn create(&self, run: (&str, Scale, u64)) -> Result<(), Failure> {
        let unwritable = |error: io::Error| Failure {
            code: 2,
            ..unwritable(&self.directory, &error)
        };
        std::fs::create_dir_all(&self.directory).map_err(unwritable)?;
        self.read(run).map(drop)
    }

    fn read(&self, run: (&str, Scale, u64)) -> Result<EarlierArchive, Failure> {
        let path = self.directory.join(EarlierArchive::CLAIMS);
        let claims = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(EarlierArchive::default());
            }
            read => read.map_err(|error| Failure {
                code: 2,
                ..unwritable(&path, &error)
            })?,
        };
        EarlierArchive::read(&claims, run).map_err(|error| {
            Failure::usage(format!(
                "{}: {error}; remove it, or name another --archive",
                path.display()
            ))
        })
    }

    /// Adds the experiments of the report to what is there now: another run may have added others.
    fn write(&self, report: &Report) -> Result<(), Failure> {
        let files = report.archived(&self.read((report.paper, report.scale, report.seed))?);
        files
            .iter()
            .try_for_each(|(name, content)| write_whole(&self.directory.join(name), content))
    }
}

/// Prints each item of the paper with the files and claims that cover it.
fn print_coverage(paper: &Paper) -> Result<(), Failure> {
    let coverage = Coverage::of(paper.name).map_err(|error| Failure::runtime(error.to_string()))?;
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["item", "what", "files", "claims"]);
    for item in &coverage.items {
        let claims: Vec<&str> = item.claims.iter().map(|claim| claim.id.as_str()).collect();
        let state = if claims.is_empty() {
            item.plan()
        } else {
            claims.join(", ")
        };
        table.add_row([&item.name, &item.what, &item.files().join(", "), &state]);
    }
    let [covered, explained, missing] = coverage.counts();
    line!("{table}\n");
    line!(
        "{} items: {covered} have claims, {explained} have a reason for none, {missing} are missing",
        coverage.items.len()
    );
    Ok(())
}

/// Ends this program at a signal. If the paper builds networks, the first signal asks for their
/// removal and the second one ends the program.
fn watch_signals(status: Arc<RunStatus>, builds_networks: bool) -> Result<(), Failure> {
    interruption::watch(move || {
        if status.stop.swap(true, Relaxed) || !builds_networks {
            interruption::end(&status.bar, &status.describe());
        }
    })
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::runtime(format!(
        "{}: {}",
        path.display(),
        larder_units::system_message(error)
    ))
}

fn print(report: &Report) {
    for section in &report.sections {
        line!("{}", section.title);
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header([
            "",
            "claim",
            "kind",
            "published",
            "expected",
            "measured",
            "band",
        ]);
        for claim in &section.claims {
            let [published, expected, measured, band] = claim.shown();
            table.add_row([
                &claim.verdict_text(),
                &claim.says,
                &claim.kind.to_string(),
                &published,
                &expected,
                &measured,
                &band,
            ]);
        }
        for column in table.column_iter_mut().skip(3) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        line!("{table}\n");
    }
}

/// Returns the exit status: a failure if a claim fails without a listed reason, or was not
/// measured. If only times fail that others disturbed, it is that of a missing condition (2). At
/// the full scale, a claim that is listed as failing and holds is a failure too,
/// because its file is wrong; at the quick scale and where the machine's speed decides, it is only
/// reported.
fn verdict(report: &Report) -> Result<(), Failure> {
    let ids = |claims: Vec<&Judged>| {
        claims
            .iter()
            .map(|claim| claim.id.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let listed: Vec<&Judged> = report.with_verdict(Verdict::HoldsThoughListed).collect();
    if !listed.is_empty() {
        error_line!(
            "larder: listed as failing, but hold: {}",
            ids(listed.clone())
        );
    }
    let disturbed: Vec<(&Judged, String)> = report.disturbed_failures().collect();
    let disturbed_ids = ids(disturbed.iter().map(|(claim, _)| *claim).collect());
    let is_disturbed = |claim: &Judged| disturbed.iter().any(|(other, _)| other.id == claim.id);
    let failed: Vec<&Judged> = report
        .unexpected_failures()
        .filter(|claim| !is_disturbed(claim))
        .collect();
    if let Some((_, disturbance)) = disturbed.first().filter(|_| !failed.is_empty()) {
        error_line!("larder: of times that others disturbed ({disturbance}): {disturbed_ids} fail");
    }
    if !failed.is_empty() {
        let all = report.claims().count();
        let fail = if failed.len() == 1 { "fails" } else { "fail" };
        let ids = ids(failed.clone());
        return Err(Failure::runtime(format!(
            "{} of {all} claims {fail} without a listed reason: {ids}",
            failed.len()
        )));
    }
    let stale: Vec<&Judged> = listed.into_iter().filter(|claim| !claim.timed).collect();
    if report.scale == Scale::Full && !stale.is_empty() {
        return Err(Failure::runtime(format!(
            "remove `fails` from the files of claims that hold: {}",
            ids(stale)
        )));
    }
    match disturbed.first() {
        Some((_, disturbance)) => Err(Failure::usage(format!(
            "claims about times fail beside other load: {disturbed_ids}: {disturbance}; run it again on an idle machine"
        ))),
        None => Ok(()),
    }
}

/// The progress of the experiments, and the directory of their report.
struct RunStatus {
    bar: Bar,
    out: PathBuf,
    archive: Option<Archive>,
    experiments: usize,
    /// Experiments that are in the report.
    finished: AtomicUsize,
    /// Set by a signal.
    stop: AtomicBool,
}

impl RunStatus {
    fn of(request: &Request<'_>, out: &Path, archive: Option<Archive>) -> RunStatus {
        let bar = Bar::new(1);
        bar.set_message(request.paper.name.to_owned());
        let (finished, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        let experiments = request.experiments().count();
        RunStatus {
            bar,
            out: out.to_owned(),
            archive,
            experiments,
            finished,
            stop,
        }
    }

    /// Describes the progress, for the message after an interruption.
    fn describe(&self) -> String {
        let RunStatus {
            experiments, out, ..
        } = self;
        let (finished, out) = (self.finished.load(Relaxed), out.display());
        let now = self.bar.describe();
        let rows = std::fs::metadata(self.out.join("rows.jsonl"));
        let way_on = if rows.is_ok_and(|rows| rows.len() > 0) {
            format!("go on with --resume ({out}/rows.jsonl)")
        } else {
            "nothing is finished that could be kept".to_owned()
        };
        format!("{finished} of {experiments} experiments finished, {now}; {way_on}")
    }

    /// Returns the failure for an error: its reason, and which results are kept.
    fn unfinished(&self, error: &Error) -> Failure {
        if self.stop.load(Relaxed) {
            return Failure::interrupted(&self.describe());
        }
        let out = self.out.display();
        let report = match self.finished.load(Relaxed) {
            0 => String::new(),
            _ => format!("{out}/report.html holds the experiments before it, "),
        };
        Failure::runtime(format!(
            "{error}; {report}{out}/rows.jsonl the runs that are finished, which --resume does not repeat"
        ))
    }
}

impl Watch for RunStatus {
    fn begin(&self, what: &str, units: u64) {
        self.bar.begin(what, units);
    }

    fn now(&self, part: &str) {
        self.bar.set_message(part.to_owned());
    }

    fn advance(&self, units: u64) {
        self.bar.advance(units);
    }

    fn warn(&self, line: &str) {
        self.bar.print(line);
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    fn ended(&self, report: &Report) -> Result<(), Error> {
        let write = |name: &str, text: &str| write_whole(&self.out.join(name), text);
        let written = write("report.html", &report.html())
            .and_then(|()| write("claims.json", &report.claims_json()));
        let archived = written.and_then(|()| match &self.archive {
            Some(archive) => {
                let (commit, directory) = (&report.provenance.commit, archive.directory.display());
                if commit.len() != 40 && report.sections.len() == 1 {
                    let remedy = "build and run a clean checkout for an archive";
                    self.bar
                        .print(&format!("{directory}: the commit is `{commit}`; {remedy}"));
                }
                archive.write(report)
            }
            None => Ok(()),
        });
        archived.map_err(|failure| Error::from(failure.message))?;
        self.finished.store(report.sections.len(), Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: ReproduceArgs,
    }

    #[test]
    fn an_experiment_is_taken_for_the_paper_or_not_found() {
        // Nothing runs with --coverage, but the experiments are checked.
        let failure = |only: &str| {
            let arguments = ["larder", "--only", only, "clock", "--coverage"];
            run(Cli::try_parse_from(arguments).expect("arguments").args)
                .err()
                .map(|failure| failure.message)
        };
        assert_eq!(failure("linear, dumbbell"), None);
        let message = failure("linear,square").unwrap_or_default();
        assert!(
            message.contains("square") && !message.contains("linear,square"),
            "{message}"
        );
    }
}
