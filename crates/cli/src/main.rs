//! `larder`: the command line.
//!
//! One file a command: its arguments, and what it prints. The work is done in the crates below; what stands here is for people and for
//! programs that read `--json`.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line prints")]

mod failure;
mod run;

use clap::{Parser, Subcommand};
use failure::Failure;
use std::process::ExitCode;

/// Larder keeps named content close to the people who ask for it: an NDN forwarder and an HTTP cache on one policy engine.
///
/// Without a command, it runs the node with its default configuration.
#[derive(Parser, Debug)]
#[command(name = "larder", version, arg_required_else_help = false)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand, Debug)]
enum Command {
    Run(run::RunArgs),
}

fn main() -> ExitCode {
    let command = Cli::parse().command.unwrap_or(Command::Run(run::RunArgs::default()));
    let result = match command {
        Command::Run(args) => run::run(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { message, code }) => {
            eprintln!("larder: {message}");
            ExitCode::from(code)
        }
    }
}
