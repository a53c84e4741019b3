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
mod process;
mod producer;
mod relay;
mod requester;

use crate::connection::broken;
use crate::failure::Failure;
use crate::output::line;
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use larder_client::{Client, Transport};
use larder_packet::Name;
use larder_units::{ByteSize, parse_duration};
use process::{Process, Usage};
use producer::Producer;
use relay::Relay;
use serde::Serialize;
use std::time::Duration;

/// The default content sizes of a Data: a small packet and the usual segment.
const SIZES: [&str; 2] = ["100B", "8000B"];

/// Time from the first Interest to the beginning of the measurement.
const WARM_UP: Duration = Duration::from_millis(300);

/// Load a forwarder and measure it
///
/// A consumer and a producer exchange Interests and Data through the forwarder of this machine,
/// which may be any that speaks NFD's management protocol. By default, 64 Interests and one are
/// outstanding, for Content Store misses and hits, with small Data and with segments. Misses use
/// new names, so the Content Store fills. The forwarder's CPU time comes from /proc and includes
/// all its threads.
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

    /// Bytes of content per Data
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', default_values = SIZES)]
    size: Vec<ByteSize>,

    /// Outstanding Interests
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values = ["64", "1"], value_parser = clap::value_parser!(u16).range(1..))]
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

    /// Duration of each measurement
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = parse_duration)]
    duration: Duration,

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
    /// `miss`, `hit` or `floor`.
    kind: &'static str,
    content_bytes: u64,
    window: u16,
    seconds: f64,
    /// Interests answered by Data.
    exchanges: u64,
    exchanges_per_second: f64,
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

/// Measures all cases, one after another.
pub fn run(args: BenchArgs) -> Result<(), Failure> {
    let mut measured = Vec::new();
    let cases = cases(&args)?;
    let bar = progress_bar(args.json, cases.len());
    for (index, case) in cases.into_iter().enumerate() {
        let row = bar.suspend(|| measure(&args, case, index))?;
        bar.inc(1);
        let Some(row) = row else { break };
        if args.json {
            line!(
                "{}",
                serde_json::to_string(&row).map_err(|error| Failure::runtime(error.to_string()))?
            );
        }
        measured.push(row);
    }
    bar.finish_and_clear();
    if !args.json {
        line!("{}", table(&measured));
    }
    Ok(())
}

fn cases(args: &BenchArgs) -> Result<Vec<Case>, Failure> {
    let mut cases = Vec::new();
    for &window in &args.window {
        for hits in [false, true] {
            let wanted = if hits {
                !args.misses && !args.floor
            } else {
                !args.hits
            };
            for size in args.size.iter().filter(|_| wanted) {
                let content_bytes = usize::try_from(size.bytes()).unwrap_or(usize::MAX);
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

/// Measures one case. Returns `None` if a signal ended it.
fn measure(args: &BenchArgs, case: Case, index: usize) -> Result<Option<Row>, Failure> {
    let mut relay = args.floor.then(Relay::start).transpose()?;
    let (mut consumer, producer) = match &relay {
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
    let process = match &mut relay {
        Some(relay) => Some(Process::thread(relay.thread_id()?)),
        None => Process::of(&args.pid, &consumer),
    };
    // Each measurement has its own names, so Data from the previous one does not answer.
    let mut prefix = args.prefix.clone();
    prefix.push_generic(format!("{}-{index}", std::process::id()).as_bytes());
    let producer = Producer::start(producer, &prefix, case.content_bytes, relay.is_none())?;
    let options = consumer::Options {
        prefix,
        window: case.window,
        hits: case.hits,
        rate: args.rate,
        warm_up: WARM_UP,
        duration: args.duration,
    };
    let outcome = consumer::run(&mut consumer, &options, || {
        process.as_ref().and_then(Process::usage)
    });
    // The producer's own failure explains more than missing answers.
    producer.stop()?;
    let Some(outcome) = outcome? else {
        return Ok(None);
    };
    let cpu = |before: Usage, after: Usage| {
        after.cpu.saturating_sub(before.cpu).as_secs_f64() * 1e6 / outcome.exchanges.max(1) as f64
    };
    let quantile = |q: f64| outcome.round_trips_ns.value_at_quantile(q) as f64 / 1e3;
    Ok(Some(Row {
        kind: if args.floor {
            "floor"
        } else if case.hits {
            "hit"
        } else {
            "miss"
        },
        content_bytes: case.content_bytes as u64,
        window: case.window,
        seconds: outcome.took.as_secs_f64(),
        exchanges: outcome.exchanges,
        exchanges_per_second: outcome.exchanges as f64 / outcome.took.as_secs_f64().max(1e-9),
        lost: outcome.lost,
        nacks: outcome.nacks,
        marks: outcome.marks,
        p50_us: quantile(0.5),
        p99_us: quantile(0.99),
        max_us: quantile(1.0),
        cpu_us_per_exchange: outcome
            .before
            .zip(outcome.after)
            .map(|(before, after)| cpu(before, after)),
        resident_bytes: outcome.after.and_then(|usage| usage.resident_bytes),
    }))
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
