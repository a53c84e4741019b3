//! `larder trace convert`: a trace in another format.

use super::Input;
use super::recording::{OutputFormat, Recording};
use crate::failure::Failure;
use crate::output::line;
use clap::Args;
use larder_units::ByteSize;
use std::num::NonZeroU64;
use std::path::PathBuf;

/// Convert a trace to another format
///
/// The trace is read and written as a stream. libCacheSim's format needs a scratch file of 24 bytes
/// per request beside the destination (for standard output in TMPDIR), and about 30 bytes of memory
/// per object, for the next accesses.
#[derive(Args, Debug)]
#[command(after_help = "Example: larder trace convert twitter.csv.zst twitter.oracleGeneral.zst")]
pub struct ConvertArgs {
    #[command(flatten)]
    input: Input,

    /// Output file, which appears only when it is complete
    output: PathBuf,

    /// Turn each request into requests for the NDN segments of its object, each of at most this
    /// many bytes, in order: what a Content Store sees of this traffic
    #[arg(long, value_name = "SIZE", value_parser = segment_size)]
    segments: Option<NonZeroU64>,

    #[command(flatten)]
    format: OutputFormat,
}

/// Converts the trace, and prints its number of requests.
pub fn run(args: ConvertArgs) -> Result<(), Failure> {
    let mut recording = Recording::open(&args.output, &args.format)?;
    args.input
        .each("converting", |access| match args.segments {
            None => recording.write(access),
            Some(size) => access
                .segments(size)
                .try_for_each(|segment| recording.write(&segment)),
        })?;
    let requests = recording.finish()?;
    if args.output.as_os_str() != "-" {
        line!(
            "{requests} requests from {} in {}",
            args.input.source().name(),
            args.output.display()
        );
    }
    Ok(())
}

fn segment_size(text: &str) -> Result<NonZeroU64, String> {
    let size: ByteSize = text.parse().map_err(|error| format!("{error}"))?;
    NonZeroU64::new(size.bytes()).ok_or_else(|| "expected at least 1 byte".to_owned())
}
