//! `larder trace convert`: a trace in another format.

use super::Input;
use super::recording::{OutputFormat, Recording};
use crate::failure::Failure;
use crate::output::line;
use clap::Args;
use std::path::PathBuf;

/// Write a trace in another format
///
/// The trace is read and written as a stream. To libCacheSim's format it takes a scratch file of 24
/// bytes a request beside the destination, and about 30 bytes of memory an object, for the next
/// accesses.
#[derive(Args, Debug)]
#[command(after_help = "Example: larder trace convert twitter.csv.zst twitter.oracleGeneral.zst")]
pub struct ConvertArgs {
    #[command(flatten)]
    input: Input,

    /// File to write, which appears when it is whole
    output: PathBuf,

    #[command(flatten)]
    format: OutputFormat,
}

/// Converts, and says how many requests there were.
pub fn run(args: ConvertArgs) -> Result<(), Failure> {
    let mut recording = Recording::open(&args.output, &args.format)?;
    args.input.each("converting", |access| recording.write(access))?;
    let requests = recording.finish()?;
    if args.output.as_os_str() != "-" {
        line!("{requests} requests from {} in {}", args.input.source().name(), args.output.display());
    }
    Ok(())
}
