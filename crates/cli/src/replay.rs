//! `larder replay`: a trace through the policies, and a table of what they hit.

use crate::failure::Failure;
use crate::output::line;
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use larder_policy::Spec;
use larder_replay::{Access, Format, Replay, Row, Survey, Trace};
use larder_units::{ByteSize, Ratio};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Caches of one run: each keeps its tables in memory until the trace ends.
const MAX_ROWS: usize = 1_000;

/// Requests that are handed to the caches at once, 24 bytes each: large against the handing over, small against memory.
const CHUNK_REQUESTS: usize = 1 << 16;

/// Chunks that may wait for a slow cache before the reader waits: 6 MB.
const WAITING_CHUNKS: usize = 4;

/// Replay a trace through cache policies and print what they hit
///
/// Every policy runs at every size, all over one reading of the trace; rows share the processor's cores.
#[derive(Args, Debug)]
#[command(after_help = "Example: larder replay twitter.csv.zst --policy lru 'filter(theta=2)+fifo' --size 50MiB 10%")]
pub struct ReplayArgs {
    /// The trace's file, plain or compressed with zstd or xz
    trace: PathBuf,

    /// Policies, as `larder policies` lists them: left stages admit, the last evicts
    #[arg(long, short, value_name = "SPEC", num_args = 1.., required = true)]
    policy: Vec<String>,

    /// Capacities: bytes (64MiB) or a share of the bytes of all the trace's objects (10%), which reads the trace twice
    #[arg(long, short, value_name = "SIZE", num_args = 1.., required = true, allow_negative_numbers = true)]
    size: Vec<String>,

    /// Format of the trace: columns, web-log, arc, oracle-general or numbers; told by the name and the content otherwise
    #[arg(long)]
    format: Option<String>,

    /// Print one JSON object a row instead of a table
    #[arg(long)]
    json: bool,

    /// Store without asking the policy while there is free room, as the node's caches do
    #[arg(long)]
    fill: bool,

    /// Seed of every random choice
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Requests to replay at most
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

/// Replays, and prints the rows in the order of the arguments.
pub fn run(args: ReplayArgs) -> Result<(), Failure> {
    let specs: Vec<Spec> = parse_all(&args.policy)?;
    let sizes: Vec<Size> = parse_all(&args.size)?;
    let format = args.format.as_deref().map(str::parse).transpose().map_err(|e: String| Failure::usage(e))?;
    if specs.len() * sizes.len() > MAX_ROWS {
        return Err(Failure::usage(format!("{} rows, more than {MAX_ROWS}", specs.len() * sizes.len())));
    }
    let source = Source { path: &args.trace, format, limit: args.limit.unwrap_or(u64::MAX) };
    let is_share = sizes.iter().any(Size::is_share);
    if is_share && args.trace.metadata().is_ok_and(|trace| !trace.is_file() && !trace.is_dir()) {
        let trace = args.trace.display();
        return Err(Failure::usage(format!(
            "{trace}: a pipe is read once, a size such as 10% reads twice; give bytes, or a file"
        )));
    }
    let survey = if is_share { Some(source.survey()?) } else { None };
    let unique_bytes = survey.as_ref().map_or(0, Survey::unique_bytes);

    let mut caches = Vec::new();
    for spec in &specs {
        for size in &sizes {
            let replay = Replay::new(spec, size.capacity(unique_bytes), args.seed);
            let replay = replay.map_err(|error| Failure::usage(error.to_string()))?;
            caches.push(Cache { replay: if args.fill { replay.filling() } else { replay }, busy: Duration::ZERO });
        }
    }
    let requests = survey.map(|survey| survey.requests()).or(args.limit);
    source.replay(&mut caches, requests)?;
    let name = args.trace.file_name().unwrap_or_default().to_string_lossy();
    if caches.first().is_some_and(|cache| cache.replay.row("").requests == 0) {
        return Err(Failure::usage(format!("{}: no request was read", args.trace.display())));
    }
    let rows: Vec<Row> = caches.iter().map(|cache| cache.row(&name)).collect();
    print(&rows, args.json)
}

fn parse_all<T: std::str::FromStr<Err: ToString>>(texts: &[String]) -> Result<Vec<T>, Failure> {
    texts.iter().map(|text| text.parse().map_err(|error: T::Err| Failure::usage(error.to_string()))).collect()
}

/// A capacity as typed.
#[derive(Clone, Copy, Debug)]
enum Size {
    Bytes(ByteSize),
    /// Of the bytes of all objects.
    Share(Ratio),
}

impl Size {
    fn is_share(&self) -> bool {
        matches!(self, Size::Share(_))
    }

    fn capacity(&self, unique_bytes: u64) -> ByteSize {
        match self {
            Size::Bytes(size) => *size,
            Size::Share(share) => ByteSize::from_bytes((unique_bytes as f64 * share.value()) as u64),
        }
    }
}

impl std::str::FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        if text.trim_end().ends_with('%') {
            return text.parse().map(Size::Share).map_err(|error| format!("size {error}"));
        }
        text.parse()
            .map(Size::Bytes)
            .map_err(|error| format!("size {error}, or a share of the trace's bytes such as \"10%\""))
    }
}

/// Processor time of this thread: what other programs do on the machine does not count.
fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// One cache, and how long it was at work.
struct Cache {
    replay: Replay,
    busy: Duration,
}

impl Cache {
    fn take(&mut self, chunk: &[Access]) {
        let start = thread_time();
        for access in chunk {
            self.replay.request(access);
        }
        self.busy += thread_time().saturating_sub(start);
    }

    fn row(&self, trace: &str) -> Row {
        let mut row = self.replay.row(trace);
        let seconds = self.busy.as_secs_f64();
        row.requests_per_second = if seconds > 0.0 { (row.requests as f64 / seconds).round() } else { 0.0 };
        row
    }
}

/// The trace, which is read once or twice.
struct Source<'a> {
    path: &'a Path,
    format: Option<Format>,
    limit: u64,
}

impl Source<'_> {
    fn open(&self) -> Result<impl Iterator<Item = Result<Access, Failure>>, Failure> {
        let trace = Trace::open(self.path, self.format).map_err(|error| Failure::usage(error.to_string()))?;
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        Ok(trace.map(|access| access.map_err(|error| Failure::usage(error.to_string()))).take(limit))
    }

    fn survey(&self) -> Result<Survey, Failure> {
        let progress = progress("measuring", None);
        let mut survey = Survey::default();
        for access in self.open()? {
            survey.count(&access?);
            if survey.requests() % CHUNK_REQUESTS as u64 == 0 {
                progress.set_position(survey.requests());
            }
        }
        progress.finish_and_clear();
        Ok(survey)
    }

    /// Reads the trace once, on this thread, and hands its chunks to a worker a core, each with its share of the caches.
    fn replay(&self, caches: &mut [Cache], requests: Option<u64>) -> Result<(), Failure> {
        let mut accesses = self.open()?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from).min(caches.len());
        let mut shares: Vec<Vec<&mut Cache>> = (0..cores).map(|_| Vec::new()).collect();
        caches.iter_mut().enumerate().for_each(|(index, cache)| shares[index % cores].push(cache));
        let progress = progress("replaying", requests);
        std::thread::scope(|scope| {
            let workers: Vec<SyncSender<Arc<Vec<Access>>>> = shares
                .into_iter()
                .map(|share| {
                    let (sender, chunks) = sync_channel(WAITING_CHUNKS);
                    scope.spawn(move || work(share, &chunks));
                    sender
                })
                .collect();
            loop {
                let chunk: Vec<Access> = accesses.by_ref().take(CHUNK_REQUESTS).collect::<Result<_, _>>()?;
                if chunk.is_empty() {
                    return Ok(());
                }
                progress.inc(chunk.len() as u64);
                let chunk = Arc::new(chunk);
                for worker in &workers {
                    // A worker ends before its channel only by a panic, which the scope passes on.
                    let _ = worker.send(chunk.clone());
                }
            }
        })?;
        progress.finish_and_clear();
        Ok(())
    }
}

fn work(mut caches: Vec<&mut Cache>, chunks: &Receiver<Arc<Vec<Access>>>) {
    while let Ok(chunk) = chunks.recv() {
        caches.iter_mut().for_each(|cache| cache.take(&chunk));
    }
}

/// On a terminal's standard error; elsewhere nothing is drawn.
fn progress(verb: &'static str, requests: Option<u64>) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = match requests {
        Some(requests) => {
            ProgressBar::new(requests).with_style(style("{msg} {wide_bar} {human_pos}/{human_len}, {per_sec}"))
        }
        None => ProgressBar::no_length().with_style(style("{spinner} {msg} {human_pos} requests, {per_sec}")),
    };
    bar.set_draw_target(ProgressDrawTarget::stderr());
    bar.with_message(verb)
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

fn print(rows: &[Row], json: bool) -> Result<(), Failure> {
    if json {
        for row in rows {
            let row = serde_json::to_string(row).map_err(|error| Failure::runtime(error.to_string()))?;
            line!("{row}");
        }
        return Ok(());
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "policy",
        "capacity",
        "requests",
        "hits",
        "object hit ratio",
        "byte hit ratio",
        "insertion ratio",
        "requests/s",
    ]);
    for row in rows {
        table.add_row([
            row.policy.clone(),
            ByteSize::from_bytes(row.capacity).to_string(),
            row.requests.to_string(),
            row.hits.to_string(),
            format!("{:.4}", row.object_hit_ratio),
            format!("{:.4}", row.byte_hit_ratio),
            format!("{:.4}", row.insertion_ratio),
            format!("{:.2} M", row.requests_per_second / 1e6),
        ]);
    }
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    line!("{table}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: ReplayArgs,
    }

    fn failure(arguments: &[&str]) -> Failure {
        let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../replay/tests/data/web07.trace.xz");
        let typed = ["larder".as_ref(), trace.as_os_str()].into_iter().chain(arguments.iter().map(|a| a.as_ref()));
        run(Cli::parse_from(typed).args).expect_err("it should fail")
    }

    #[test]
    fn mistakes_that_are_not_explained() {
        for (arguments, words) in [
            (["-p", "lur", "-s", "10%"], "did you mean `lru`?"),
            (["-p", "filter(window=9999,table=1024)+lru", "-s", "1000"], "smaller than `window=9999`"),
            (["-p", "lru", "-s", "10 parsecs"], "such as \"64MiB\""),
            (["-p", "lru", "-s", "101%"], "between 0 and 1"),
            (["-p", "lru", "-s", "10%"], "must name the columns"),
        ] {
            let mut arguments = arguments.to_vec();
            if words.contains("columns") {
                arguments.extend(["--format", "columns"]);
            }
            let failure = failure(&arguments);
            assert_eq!(failure.code, 2);
            assert!(failure.message.contains(words) && !failure.message.contains('\n'), "{}", failure.message);
        }
    }

    #[test]
    fn a_trace_of_nothing_prints_zeros() {
        let failure = failure(&["-p", "lru", "-s", "10", "--limit", "0"]);
        assert_eq!(failure.code, 2);
        assert!(failure.message.ends_with("web07.trace.xz: no request was read"), "{}", failure.message);
    }

    #[test]
    fn a_share_of_the_trace_is_other_than_its_bytes() {
        assert_eq!("10%".parse::<Size>().unwrap().capacity(20_484).bytes(), 2_048);
        assert_eq!("64KiB".parse::<Size>().unwrap().capacity(1).bytes(), 65_536);
    }
}
