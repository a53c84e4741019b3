//! `larder bench`: measures the throughput and the cost of a forwarder under load.
//!
//! A consumer and a producer in this process, each with its own connection, exchange Interests and
//! Data through the forwarder. Packets are prepared in advance, and many are read and written per
//! call, so that the forwarder is the bottleneck. `--floor` replaces the forwarder with a relay
//! without tables, which measures the cost of the sockets and of this generator alone.
//!
//! ```text
//!  consumer ── Interests ──► forwarder (or relay) ── Interests ──► producer
//!     ▲──────────── Data ───────────┴──────────────────── Data ◄──────┘
//! ```

mod consumer;
mod interest;
mod process;
mod producer;
mod relay;
mod replayed;
mod requester;

use crate::connection::broken;
use crate::failure::Failure;
use crate::layout::Layout;
use crate::output::line;
use crate::replay::progress::Progress;
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use consumer::Outcome;
use indicatif::{ProgressBar, ProgressStyle};
use larder_client::{Client, Transport};
use larder_packet::Name;
use larder_units::{ByteSize, parse_duration};
use process::{Process, Usage};
use producer::{Content, Producer};
use relay::Relay;
use serde::Serialize;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The default content sizes of a Data: a small packet and the usual segment.
const SIZES: [usize; 2] = [100, SEGMENT];
const SEGMENT: usize = 8000;

/// The default windows.
const WINDOWS: [u16; 2] = [64, 1];

/// The default duration of a measurement.
const DURATION: Duration = Duration::from_secs(3);

/// Time from the first Interest to the beginning of the measurement.
const WARM_UP: Duration = Duration::from_millis(300);

/// Load a forwarder and measure it
///
/// A consumer and a producer exchange Interests and Data through the forwarder of this machine,
/// which may be any that speaks NFD's management protocol. By default, 64 Interests and one are
/// outstanding, for Content Store misses and hits, with small Data and with segments. Misses use
/// new names, so the Content Store fills. The forwarder's CPU time comes from /proc and includes
/// all its threads.
///
/// With --trace, the consumer requests the objects of a trace in their order instead, in segments.
/// The share of Interests that do not reach the producer is the hit ratio of the forwarder; lost
/// ones count as misses. `larder replay` computes it from the segments of the same trace, which
/// `larder trace convert --segments` writes. A request for a segment that is outstanding joins it,
/// without an Interest.
#[derive(Args, Debug)]
pub struct BenchArgs {
    /// URI of the forwarder, such as unix:///run/nfd/nfd.sock or tcp://127.0.0.1:6363 [default: as
    /// for the other commands]
    #[arg(long, value_name = "URI")]
    to: Option<String>,

    /// URI that the producer connects to [default: the consumer's]
    #[arg(long, value_name = "URI")]
    producer_to: Option<String>,

    /// The prefix that the producer registers
    #[arg(long, value_name = "NAME", default_value = "/bench")]
    prefix: Name,

    /// Request the objects of this trace, each as often as the trace does; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["misses", "hits", "floor"])]
    trace: Option<PathBuf>,

    #[command(flatten)]
    layout: Layout,

    /// Bytes of content per Data; the most of a segment with --trace [default: 100B,8000B; 8000B]
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',')]
    size: Vec<ByteSize>,

    /// Outstanding Interests [default: 64,1; 1 with --trace, which keeps the order]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..))]
    window: Vec<u16>,

    /// Send at most this many Interests per second, a few in each millisecond
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,

    /// Measure only Interests that miss in the Content Store
    #[arg(long, conflicts_with = "hits")]
    misses: bool,

    /// Measure only Interests that hit in the Content Store: names that were requested before
    #[arg(long)]
    hits: bool,

    /// Duration of each measurement [default: 3s; the whole trace]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,

    /// Process IDs of the forwarder [default: the process that listens on the Unix socket]
    #[arg(long, value_name = "PID,…", value_delimiter = ',')]
    pid: Vec<u32>,

    /// Measure a relay without tables in place of a forwarder
    #[arg(long, conflicts_with_all = ["to", "producer_to", "pid", "hits"])]
    floor: bool,

    /// Use the Unix socket, even if the forwarder offers shared memory
    #[arg(long)]
    no_shared_memory: bool,

    /// Print one JSON object per line instead of a table
    #[arg(long)]
    json: bool,
}

/// One measurement.
#[derive(Clone, Debug, Serialize)]
struct Row {
    /// `miss`, `hit`, `floor` or `trace`.
    kind: &'static str,
    /// Of each Data; the mean of a trace.
    content_bytes: u64,
    window: u16,
    seconds: f64,
    /// Interests answered by Data; requests of a trace.
    exchanges: u64,
    exchanges_per_second: f64,
    /// The share of a trace's Interests that the forwarder answered; what is lost is a miss.
    #[serde(skip_serializing_if = "Option::is_none")]
    hit_ratio: Option<f64>,
    /// The share of the bytes of their Data.
    #[serde(skip_serializing_if = "Option::is_none")]
    byte_hit_ratio: Option<f64>,
    /// Requests of a trace that joined an outstanding Interest.
    #[serde(skip_serializing_if = "Option::is_none")]
    joined: Option<u64>,
    /// Interests without an answer, and with a Nack.
    lost: u64,
    nacks: u64,
    /// Data with a congestion mark.
    marks: u64,
    p50_us: f64,
    p99_us: f64,
    max_us: f64,
    /// The CPU time of the forwarder; absent if its process is unknown.
    cpu_us_per_exchange: Option<f64>,
    /// The resident memory of the forwarder at the end of the measurement.
    resident_bytes: Option<u64>,
}

/// A planned measurement.
#[derive(Clone, Copy, Debug)]
struct Case {
    hits: bool,
    content_bytes: usize,
    window: u16,
}

/// Measures all cases, one after another, or with a trace.
pub fn run(args: BenchArgs) -> Result<(), Failure> {
    let mut measured = Vec::new();
    if let Some(path) = &args.trace {
        measured.push(replay(&args, path)?);
    } else {
        let cases = cases(&args)?;
        let bar = progress_bar(args.json, cases.len());
        for (index, case) in cases.into_iter().enumerate() {
            let row = bar.suspend(|| measure(&args, case, index))?;
            bar.inc(1);
            let Some(row) = row else { break };
            print_json(&args, &row)?;
            measured.push(row);
        }
        bar.finish_and_clear();
    }
    if !args.json {
        line!("{}", table(&measured));
    }
    Ok(())
}

fn print_json(args: &BenchArgs, row: &Row) -> Result<(), Failure> {
    if args.json {
        let text = serde_json::to_string(row);
        line!(
            "{}",
            text.map_err(|error| Failure::runtime(error.to_string()))?
        );
    }
    Ok(())
}

fn cases(args: &BenchArgs) -> Result<Vec<Case>, Failure> {
    let mut cases = Vec::new();
    let mut sizes: Vec<usize> = args.size.iter().map(|size| bytes_of(*size)).collect();
    if sizes.is_empty() {
        sizes = SIZES.to_vec();
    }
    let windows: &[u16] = if args.window.is_empty() {
        &WINDOWS
    } else {
        &args.window
    };
    for &window in windows {
        for hits in [false, true] {
            let wanted = if hits {
                !args.misses && !args.floor
            } else {
                !args.hits
            };
            for &content_bytes in sizes.iter().filter(|_| wanted) {
                producer::check_size(&args.prefix, content_bytes)?;
                cases.push(Case {
                    hits,
                    content_bytes,
                    window,
                });
            }
        }
    }
    Ok(cases)
}

fn bytes_of(size: ByteSize) -> usize {
    usize::try_from(size.bytes()).unwrap_or(usize::MAX)
}

/// The connections of a measurement.
struct Ends {
    consumer: Client,
    producer: Client,
    process: Option<Process>,
    /// The prefix of its names.
    prefix: Name,
}

impl Ends {
    fn new(args: &BenchArgs, relay: &mut Option<Relay>, index: usize) -> Result<Ends, Failure> {
        let (mut consumer, producer) = match relay {
            Some(relay) => (relay.connect()?, relay.connect()?),
            None => {
                let connect = |to: Option<&str>| connect(to, !args.no_shared_memory);
                (
                    connect(args.to.as_deref())?,
                    connect(args.producer_to.as_deref().or(args.to.as_deref()))?,
                )
            }
        };
        consumer.stop_on_signals().map_err(broken)?;
        let process = match relay {
            Some(relay) => Some(Process::thread(relay.thread_id()?)),
            None => Process::of(&args.pid, &consumer),
        };
        // Each measurement has its own names, so Data from the previous one does not answer.
        let mut prefix = args.prefix.clone();
        prefix.push_generic(format!("{}-{index}", std::process::id()).as_bytes());
        Ok(Ends {
            consumer,
            producer,
            process,
            prefix,
        })
    }
}

/// Measures one case. Returns `None` if a signal ended it.
fn measure(args: &BenchArgs, case: Case, index: usize) -> Result<Option<Row>, Failure> {
    let mut relay = args.floor.then(Relay::start).transpose()?;
    let Ends {
        mut consumer,
        producer,
        process,
        prefix,
    } = Ends::new(args, &mut relay, index)?;
    let content = Content::Fixed(case.content_bytes);
    let producer = Producer::start(producer, &prefix, content, relay.is_none())?;
    let options = consumer::Options {
        prefix,
        window: case.window,
        hits: case.hits,
        rate: args.rate,
        warm_up: WARM_UP,
        duration: args.duration.unwrap_or(DURATION),
    };
    let outcome = consumer::run(&mut consumer, &options, || {
        process.as_ref().and_then(Process::usage)
    });
    // The producer's own failure explains more than missing answers.
    producer.stop()?;
    let kind = if args.floor {
        "floor"
    } else if case.hits {
        "hit"
    } else {
        "miss"
    };
    let row = |outcome| Row::new(kind, case.content_bytes as u64, case.window, &outcome);
    Ok(outcome?.map(row))
}

/// Measures with the requests of a trace, up to a signal.
fn replay(args: &BenchArgs, path: &Path) -> Result<Row, Failure> {
    let (window, segment) = match (&args.window[..], &args.size[..]) {
        ([], []) => (1, SEGMENT),
        ([window], []) => (*window, SEGMENT),
        ([], [size]) => (1, bytes_of(*size)),
        ([window], [size]) => (*window, bytes_of(*size)),
        _ => {
            return Err(Failure::usage(
                "--trace: one --window and one --size, for one run",
            ));
        }
    };
    producer::check_size(&args.prefix, segment)?;
    let segment = NonZeroU64::new(segment as u64)
        .ok_or_else(|| Failure::usage("--size 0B: a segment has at least one byte"))?;
    let trace = args.layout.open(path)?;
    let Ends {
        mut consumer,
        producer,
        process,
        prefix,
    } = Ends::new(args, &mut None, 0)?;
    let producer = Producer::start(producer, &prefix, Content::Named, true)?;
    let options = replayed::Options {
        prefix,
        window,
        rate: args.rate,
        duration: args.duration,
        segment,
    };
    let progress = Progress::new(replayed::UNITS);
    let usage = || process.as_ref().and_then(Process::usage);
    let outcome = replayed::run(&mut consumer, trace, &options, &progress, usage);
    // The producer's own failure explains more than missing answers.
    let answered = producer.stop()?;
    let (outcome, sent) = outcome?;
    let missed = answered.interests + outcome.lost + outcome.nacks;
    let share = |missed: u64, all: u64| 1.0 - missed.min(all) as f64 / all.max(1) as f64;
    let row = Row {
        hit_ratio: Some(share(missed, sent.interests)),
        byte_hit_ratio: Some(share(answered.bytes, sent.bytes)),
        joined: Some(sent.joined),
        ..Row::new(
            "trace",
            sent.bytes / outcome.exchanges.max(1),
            window,
            &outcome,
        )
    };
    print_json(args, &row)?;
    Ok(row)
}

impl Row {
    fn new(kind: &'static str, content_bytes: u64, window: u16, outcome: &Outcome) -> Row {
        let cpu = |before: Usage, after: Usage| {
            let used = after.cpu.saturating_sub(before.cpu).as_secs_f64();
            used * 1e6 / outcome.exchanges.max(1) as f64
        };
        let quantile = |q: f64| outcome.round_trips_ns.value_at_quantile(q) as f64 / 1e3;
        let usages = outcome.before.zip(outcome.after);
        Row {
            kind,
            content_bytes,
            window,
            seconds: outcome.took.as_secs_f64(),
            exchanges: outcome.exchanges,
            exchanges_per_second: outcome.exchanges as f64 / outcome.took.as_secs_f64().max(1e-9),
            hit_ratio: None,
            byte_hit_ratio: None,
            joined: None,
            lost: outcome.lost,
            nacks: outcome.nacks,
            marks: outcome.marks,
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
            max_us: quantile(1.0),
            cpu_us_per_exchange: usages.map(|(before, after)| cpu(before, after)),
            resident_bytes: outcome.after.and_then(|usage| usage.resident_bytes),
        }
    }
}

fn connect(to: Option<&str>, shared_memory: bool) -> Result<Client, Failure> {
    let adapt = if shared_memory {
        |transport| transport
    } else {
        Transport::without_shared_memory
    };
    let client = match to {
        Some(uri) => {
            let transport =
                Transport::parse(uri, None).map_err(|error| Failure::usage(error.to_string()))?;
            Client::connect_to(adapt(transport))
        }
        None => Client::connect_over(adapt),
    };
    let mut client = client.map_err(broken)?;
    // A measurement over the restart of a node would be none.
    client.wait_out(Duration::ZERO);
    Ok(client)
}

/// Returns a progress bar on standard error, which is hidden if that is not a terminal.
fn progress_bar(json: bool, cases: usize) -> ProgressBar {
    if json || cases < 2 {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} measurements {eta}");
    let bar = ProgressBar::new(cases as u64);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "",
        "content",
        "window",
        "hits",
        "exchanges/s",
        "CPU µs each",
        "p50 µs",
        "p99 µs",
        "lost",
        "marks",
        "memory",
    ]);
    for row in rows {
        table.add_row([
            row.kind.to_owned(),
            format!("{} B", row.content_bytes),
            row.window.to_string(),
            row.hit_ratio
                .map_or("-".to_owned(), |ratio| format!("{:.2} %", ratio * 100.0)),
            format!("{:.0}", row.exchanges_per_second),
            row.cpu_us_per_exchange
                .map_or("-".to_owned(), |us| format!("{us:.2}")),
            format!("{:.1}", row.p50_us),
            format!("{:.1}", row.p99_us),
            (row.lost + row.nacks).to_string(),
            row.marks.to_string(),
            row.resident_bytes
                .map_or("-".to_owned(), |bytes| format!("{} MB", bytes / 1_000_000)),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
