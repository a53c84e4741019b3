//! `larder`: the command line.
//!
//! One file a command: its arguments, and what it prints. The work is done in the crates below; what stands here is for people and for
//! programs that read `--json`.
#![forbid(unsafe_code)]
#![allow(clippy::print_stderr, reason = "a command line says what went wrong")]

mod connection;
mod failure;
mod get;
mod output;
mod ping;
mod ping_server;
mod policies;
mod put;
mod replay;
mod run;
mod system_message;

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
    Put(put::PutArgs),
    Get(get::GetArgs),
    Ping(ping::PingArgs),
    PingServer(ping_server::PingServerArgs),
    Replay(replay::ReplayArgs),
    Policies(policies::PoliciesArgs),
}

fn main() -> ExitCode {
    let command = Cli::parse().command.unwrap_or(Command::Run(run::RunArgs::default()));
    let result = match command {
        Command::Run(args) => run::run(args),
        Command::Put(args) => put::run(args),
        Command::Get(args) => get::run(args),
        Command::Ping(args) => ping::run(args),
        Command::PingServer(args) => ping_server::run(args),
        Command::Replay(args) => replay::run(args),
        Command::Policies(args) => policies::run(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { message, code }) => {
            eprintln!("larder: {message}");
            ExitCode::from(code)
        }
    }
}
