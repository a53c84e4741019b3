//! `larder ctl capture`: records the requests to a running cache as a trace, over its admin API.
//! The trace has no names: an object is a hash with a secret that only the node knows.

use super::admin::{AdminServer, TextStream};
use super::{Configured, listing};
use crate::failure::Failure;
use crate::interruption;
use crate::output::excerpt;
use crate::progress::Bar;
use crate::trace::recording::{OutputFormat, Recording};
use bytes::Bytes;
use clap::{Args, ValueEnum};
use http::header::{AUTHORIZATION, HOST};
use http::{Request, StatusCode};
use http_body_util::Full;
use larder_replay::Access;
use larder_units::{ByteSize, Ratio, Time, parse_duration};
use serde_json::json;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Bytes of a request on the disk: the longest line of the formats.
const RECORD_BYTES: u64 = 40;

/// The time between two looks whether the capture has to end.
const LOOK: Duration = Duration::from_millis(100);

/// The traffic to record, and the file
///
/// The trace has the time, the object and the size of each request for something that may be
/// stored. An object is a hash with a secret, and its size is what it takes in the cache. `larder
/// advise`, `larder replay` and `larder curve` read it. Ctrl-C ends the capture and keeps the file.
#[derive(Args, Debug)]
#[command(after_help = "Example: larder ctl capture --sample 1% --for 1h -o day.oracleGeneral.zst")]
pub struct CaptureArgs {
    /// The cache
    #[arg(long, value_enum, default_value_t = Cache::Http)]
    cache: Cache,

    /// The share of the objects: all requests for them are recorded
    #[arg(long, default_value = "100%", value_parser = share)]
    sample: Ratio,

    /// The length of the capture
    #[arg(long = "for", value_name = "DURATION", default_value = "1h", value_parser = parse_duration)]
    duration: Duration,

    /// End when the requests take this room on the disk, 40 bytes each before compression
    #[arg(long, value_name = "BYTES", default_value = "1GiB")]
    limit: ByteSize,

    /// The file
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,

    #[command(flatten)]
    format: OutputFormat,

    /// Address of the node's admin server [default: from --config, otherwise 127.0.0.1:8081]
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<SocketAddr>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Cache {
    /// The HTTP cache
    Http,
    /// The Content Store
    Ndn,
}

impl Cache {
    fn name(self) -> &'static str {
        match self {
            Cache::Http => "http",
            Cache::Ndn => "ndn",
        }
    }
}

fn share(text: &str) -> Result<Ratio, String> {
    let share: Ratio = text
        .parse()
        .map_err(|error: larder_units::UnitError| error.to_string())?;
    if share.value() > 0.0 {
        Ok(share)
    } else {
        Err("a share is above 0, such as 1%".to_owned())
    }
}

/// Records, and prints the number of requests.
pub(super) fn run(
    args: &CaptureArgs,
    configured: Option<&Configured>,
    json: bool,
) -> Result<(), Failure> {
    let admin = AdminServer::of(args.admin, configured)?;
    if let Some(configured) = configured {
        let page = admin.status()?;
        configured.check(
            &admin.address.to_string(),
            page["node"]["configuration"].as_str(),
        )?;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    interruption::watch(move || stopped.store(true, Ordering::Relaxed))?;
    let (mut recording, part) = Recording::open_unwatched(&args.output, &args.format)?;
    let captured = begin(args, &admin, configured)
        .and_then(|stream| record(args, stream, &mut recording, &stop));
    if captured.is_err()
        && let Some(part) = part
    {
        // The failure is what has to be told.
        let _ = std::fs::remove_file(part);
    }
    let (end, lost) = captured?;
    let requests = recording.finish()?;
    let file = args.output.display();
    let noun = if requests == 1 { "request" } else { "requests" };
    let lost_text = match lost {
        0 => String::new(),
        lost => format!("; the node had no time for {lost} more, use a smaller --sample"),
    };
    let none_text = match requests {
        0 => {
            "; only requests for something that may be stored are recorded: does the origin answer, \
             and come requests?"
        }
        _ => "",
    };
    let text = format!(
        "{requests} {noun} in {file}; {}{lost_text}{none_text}",
        end.text()
    );
    if end == End::Node {
        return Err(Failure::runtime(text));
    }
    listing::done(
        json,
        &text,
        &[
            ("requests", json!(requests)),
            ("lost", json!(lost)),
            ("file", json!(args.output)),
            ("end", json!(end.name())),
        ],
    );
    Ok(())
}

/// Why a capture has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Time,
    Limit,
    Signal,
    Node,
}

impl End {
    fn name(self) -> &'static str {
        match self {
            End::Time => "time",
            End::Limit => "limit",
            End::Signal => "signal",
            End::Node => "node",
        }
    }

    fn text(self) -> &'static str {
        match self {
            End::Time => "the time is over",
            End::Limit => "the file has reached --limit",
            End::Signal => "ended by a signal",
            End::Node => {
                "the node has ended the capture too early: it stops, or sends faster than this command writes"
            }
        }
    }
}

/// Asks the node to begin.
fn begin<'a>(
    args: &CaptureArgs,
    admin: &'a AdminServer,
    configured: Option<&Configured>,
) -> Result<TextStream<'a>, Failure> {
    let token = configured.and_then(|configured| configured.config.admin.token.clone());
    let token = token.or_else(|| std::env::var("LARDER_TOKEN").ok());
    let target = format!(
        "/capture?cache={}&share={}",
        args.cache.name(),
        args.sample.value()
    );
    let mut request = Request::get(target).header(HOST, admin.address.to_string());
    if let Some(token) = token {
        request = request.header(AUTHORIZATION, format!("Bearer {token}"));
    }
    let request = request.body(Full::new(Bytes::new()));
    let request = request
        .map_err(|_| Failure::usage("the token has characters that are not allowed in a header"))?;
    let mut stream = admin.stream(request)?;
    let status = stream.status();
    if status == StatusCode::OK {
        return Ok(stream);
    }
    // The status says most; the reason may be too long.
    let reason = stream
        .lines(Duration::from_secs(5))
        .ok()
        .flatten()
        .unwrap_or_default();
    let reason = excerpt(reason.trim().trim_start_matches("larder: "));
    Err(Failure::runtime(format!(
        "the node refused: {} {reason}",
        status.as_u16()
    )))
}

/// Records the lines until the capture has to end. Returns why it has ended, and the requests that
/// the node has lost.
fn record(
    args: &CaptureArgs,
    mut stream: TextStream<'_>,
    recording: &mut Recording,
    stop: &AtomicBool,
) -> Result<(End, u64), Failure> {
    let (begun, mut requests, most) = (Instant::now(), 0, args.limit.bytes() / RECORD_BYTES);
    let mut lost = 0;
    let bar = Bar::new(args.duration.as_millis() as u64);
    let end = loop {
        let left = args.duration.saturating_sub(begun.elapsed());
        if stop.load(Ordering::Relaxed) {
            break End::Signal;
        }
        if left.is_zero() {
            break End::Time;
        }
        // A broken connection is an end, too: what has come is kept.
        let Ok(Some(lines)) = stream.lines(left.min(LOOK)) else {
            break End::Node;
        };
        for line in lines.lines().filter(|line| !line.starts_with("time")) {
            if requests == most {
                break;
            }
            if let Some(number) = line.strip_prefix("# lost ") {
                lost += number.parse::<u64>().unwrap_or(0);
                continue;
            }
            let access = access(line).ok_or_else(|| {
                Failure::runtime(format!("this is no line of a capture: {}", excerpt(line)))
            })?;
            recording.write(&access)?;
            requests += 1;
        }
        if requests == most {
            break End::Limit;
        }
        bar.set_message(format!("{requests} requests"));
        bar.set_position(begun.elapsed().as_millis() as u64);
    };
    bar.clear();
    Ok((end, lost))
}

/// Reads a line of time in seconds, object and size.
fn access(line: &str) -> Option<Access> {
    let mut fields = line.split(',');
    let seconds: f64 = fields
        .next()?
        .parse()
        .ok()
        .filter(|seconds: &f64| *seconds >= 0.0)?;
    let access = Access {
        now: Time::from_nanos((seconds * 1e9) as u64),
        id: fields.next()?.parse().ok()?,
        size: fields.next()?.parse().ok()?,
    };
    fields.next().is_none().then_some(access)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_another_request() {
        let read = access("1.250,17,300").unwrap();
        assert_eq!(
            (read.now, read.id, read.size),
            (Time::from_millis(1_250), 17, 300)
        );
        for line in ["", "1,2", "1,2,3,4", "x,2,3", "-1,2,3", "1,-2,3"] {
            assert!(access(line).is_none(), "{line}");
        }
    }

    #[test]
    fn no_share_is_a_share() {
        assert!(share("1%").is_ok() && share("0.5").is_ok());
        for text in ["0", "0%", "101%", "1.5", "-1%", "x"] {
            assert!(share(text).is_err(), "{text}");
        }
    }
}
