//! `larder get`: fetches a segmented object, or a single Data.

use crate::connection::{OUTAGE_OF_TRANSFER, connect, receive};
use crate::destination::Destination;
use crate::failure::Failure;
use crate::output::{error_line, line};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use larder_client::{Client, Received};
use larder_packet::{Name, Verifier, types, verifier_from_file};
use larder_transfer::{
    Clock, CongestionSpec, FetchError, FetchOptions, Fetcher, Naming, PathFeedback, Progress,
};
use larder_units::{ByteSize, Time, parse_duration, system_message};
use serde_json::json;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Fetch the object that is served under a name
///
/// Discovers the current version (RDR), fetches and verifies every segment, and writes them in
/// order. This is the protocol of `larder put`, ndnputchunks, `ndnd put`, ndn6-file-server and
/// NDNts. A single Data of exactly this name is fetched too, and so are versioned segments without
/// metadata, NAME/v=7/seg=0, 1, … (ndn-cxx's SegmentFetcher).
#[derive(Args, Debug)]
pub struct GetArgs {
    /// Name of the object; if it ends in a version, that version
    name: Name,

    /// Write to this file, which appears only when it is complete; `-` or nothing is standard
    /// output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Accept only segments that this Ed25519, ECDSA P-256 or RSA key signed, each one or all at
    /// once (`larder put --manifest`, for which NAME must have no version); otherwise only SHA-256
    /// digests are checked. The file is a public key (PEM) or a certificate (base64, as `ndnsec
    /// cert-dump` writes it)
    #[arg(long, value_name = "FILE")]
    trust: Option<PathBuf>,

    /// InterestLifetime
    #[arg(long, value_name = "TIME", default_value = "4s", value_parser = parse_duration)]
    lifetime: Duration,

    /// Retransmissions of one Interest before the transfer fails
    #[arg(long, value_name = "N", default_value_t = larder_transfer::limits::DEFAULT_RETRIES)]
    retries: u32,

    /// Congestion control: cubic, aimd, bbr, bic, explicit, fixed(window=N), icp, pcon or rate
    #[arg(long, value_name = "SPEC", default_value_t)]
    congestion: CongestionSpec,

    /// Send only at multiples of this time, and when a Data or a Nack arrives: fewer wake-ups when
    /// a rate paces
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_duration)]
    tick: Duration,

    /// With --tick, send nothing when a Data or a Nack arrives: a host with a coarse clock
    #[arg(long, requires = "tick")]
    no_smoothing: bool,

    /// Fail if the object is larger
    #[arg(long, value_name = "SIZE", default_value = "1TiB")]
    max_size: ByteSize,

    /// Fetch NAME/seg=0, 1, … without discovering a version
    #[arg(long)]
    exact: bool,

    /// Print one JSON object at the end, and no progress
    #[arg(long, requires = "output")]
    json: bool,
}

/// Fetches the object. The error names the missing part.
pub fn run(args: GetArgs) -> Result<(), Failure> {
    if args.no_smoothing && args.tick.is_zero() {
        return Err(Failure::usage(
            "--no-smoothing: a tick of 0s is a fine clock; give --tick 50ms",
        ));
    }
    let verifier = args.trust.as_ref().map(read_verifier).transpose()?;
    let mut client = connect(OUTAGE_OF_TRANSFER)?;
    // The connection comes first, because it catches signals. A signal before that would leave the
    // temporary file behind.
    let mut destination = Destination::open(args.output.as_deref())?;
    if args.json && destination.is_standard_output() {
        return Err(Failure::usage(
            "--json needs a file: with -o -, it would mix with the content",
        ));
    }
    let options = FetchOptions {
        lifetime: args.lifetime,
        retries: args.retries,
        max_bytes: args.max_size.bytes(),
        naming: if args.exact {
            Naming::Exact
        } else {
            Naming::DiscoverOrPlain
        },
        clock: Clock {
            tick: args.tick,
            smoothing: !args.no_smoothing,
        },
        ..FetchOptions::default()
    };
    let nonces = client.random_stream("nonces");
    let mut fetcher = Fetcher::new(
        args.name.clone(),
        options,
        args.congestion.build(),
        verifier,
        nonces,
    );
    let bar = progress_bar(args.json);
    let started = client.now();
    let outcome = fetch(&mut client, &mut fetcher, &mut destination, &bar);
    bar.finish_and_clear();
    outcome?;
    let path = destination.finish()?;
    report(
        &args,
        &fetcher,
        client.now().since(started),
        path.as_deref(),
    );
    Ok(())
}

fn read_verifier(path: &PathBuf) -> Result<Box<dyn Verifier>, Failure> {
    let wrong = |error: &dyn std::fmt::Display| {
        Failure::usage(format!("--trust {}: {error}", path.display()))
    };
    let bytes = std::fs::read(path).map_err(|error| wrong(&system_message(&error)))?;
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    verifier_from_file(&bytes, now).map_err(|error| wrong(&error))
}

fn fetch(
    client: &mut Client,
    fetcher: &mut Fetcher,
    destination: &mut Destination,
    bar: &ProgressBar,
) -> Result<(), Failure> {
    loop {
        let now = client.now();
        // Interests that cannot leave use up no tries.
        if client.is_connected() {
            if fetcher.next_timeout().is_some_and(|at| at <= now) {
                fetcher.on_timeout(now);
            }
            while client.output().send(None, |out| fetcher.poll(now, out)) {}
        }
        match fetcher.progress() {
            Progress::Running => {}
            Progress::Done => return Ok(()),
            Progress::Failed(error) => {
                return Err(Failure::runtime(format!("{error}{}", remedy(error))));
            }
        }
        if client.interrupted() {
            return Err(Failure::interrupted(&format!(
                "{} bytes had arrived",
                fetcher.stats().bytes
            )));
        }
        let deadline = fetcher.next_timeout().filter(|_| client.is_connected());
        receive(client, deadline, |now, received, _| {
            on_packet(now, received, fetcher, destination)
        })?;
        destination.check()?;
        if let Some(bytes) = fetcher.expected_bytes() {
            bar.set_length(bytes);
        }
        bar.set_position(fetcher.stats().bytes);
    }
}

/// Returns the remedy for an error, as the end of its line.
fn remedy(error: &FetchError) -> String {
    match error {
        FetchError::OnlyLonger { found, .. } => {
            let found = found.as_name();
            let Some(_segment) = found.last().and_then(|last| last.as_segment()) else {
                return format!(": fetch that with `larder get {found}`");
            };
            let prefix = found.without_last();
            if prefix.last().is_some_and(|last| last.typ == types::VERSION) {
                format!(
                    ": fetch that object with `larder get {}`",
                    prefix.without_last()
                )
            } else {
                format!(": fetch these segments with `larder get --exact {prefix}`")
            }
        }
        FetchError::Invalid { name, problem } if problem.is_only_digest() => {
            if name
                .as_name()
                .last()
                .is_some_and(|last| last.as_segment().is_some())
            {
                "; if one signature covers the whole object (`larder put --manifest`), fetch the name without \
                         its version"
                    .to_owned()
            } else {
                String::new()
            }
        }
        _ => String::new(),
    }
}

fn on_packet(
    now: Time,
    received: Received<'_>,
    fetcher: &mut Fetcher,
    destination: &mut Destination,
) {
    match received {
        Received::Data {
            data,
            marked,
            granted_rate,
        } => {
            let path = PathFeedback {
                marked,
                granted_rate,
            };
            fetcher.on_data(now, &data, path, |bytes| destination.write(bytes));
        }
        Received::Nack { interest, reason } => fetcher.on_nack(now, interest.name, reason),
        Received::Interest { .. } => {}
    }
}

/// Returns a progress bar on standard error, which is hidden if that is not a terminal.
fn progress_bar(json: bool) -> ProgressBar {
    if json {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::no_length();
    let style = "{bar:40} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec} {eta}";
    bar.set_style(
        ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    bar
}

fn report(args: &GetArgs, fetcher: &Fetcher, took: Duration, path: Option<&std::path::Path>) {
    let stats = fetcher.stats();
    let seconds = took.as_secs_f64();
    let megabits = stats.bytes as f64 * 8.0 / 1e6 / seconds.max(1e-9);
    let rtt_ms = fetcher.rtt().mean().unwrap_or_default().as_secs_f64() * 1e3;
    let name = fetcher.versioned_name().map(ToString::to_string);
    if args.json {
        line!(
            "{}",
            json!({
                "name": name, "file": path, "bytes": stats.bytes, "segments": stats.segments, "seconds": seconds,
                "megabits_per_second": megabits, "mean_rtt_ms": rtt_ms, "interests": stats.interests,
                "retransmissions": stats.retransmissions, "time_outs": stats.time_outs,
                "early_time_outs": stats.early_time_outs, "nacks": stats.nacks,
                "congestion_marks": stats.marks, "window_reductions": stats.reductions, "rejected": stats.rejected,
                "unverified": stats.unverified, "manifest_packets": stats.manifest_packets,
            })
        );
        return;
    }
    error_line!(
        "{}: {} bytes in {seconds:.2} s, {megabits:.1} Mb/s, RTT {rtt_ms:.2} ms, {} retransmissions",
        name.unwrap_or_default(),
        stats.bytes,
        stats.retransmissions
    );
    if stats.unverified > 0 {
        error_line!(
            "{} packets were signed with a key and not checked: give the key with --trust",
            stats.unverified
        );
    }
}
