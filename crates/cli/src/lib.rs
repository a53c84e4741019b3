//! The command line of Larder, as a library: [`run`] is the whole of the program `larder`.
//!
//! Each command has a file with its arguments and its output. The crates below do the work. The
//! library exists so that a program outside this workspace can build a complete `larder` with parts
//! of its own, which it passes in [`Registries`].
//!
//! The library also sets the process's allocator (mimalloc), so such a program sets none.
//!
//! ```no_run
//! use larder_cli::{Registries, run};
//!
//! let status: std::process::ExitCode = run(Registries::builtin());
//! ```
#![deny(unsafe_code)]

mod advise;
mod allocator;
mod bench;
mod certificate;
mod config_file;
mod connection;
mod ctl;
mod curve;
mod destination;
mod doctor;
mod failure;
mod fleet;
mod get;
mod init;
mod interruption;
mod layout;
mod lists;
mod load;
mod manual;
mod numbers;
mod origin;
mod output;
mod ping;
mod ping_server;
mod policies;
mod predict;
mod progress;
mod put;
mod replay;
mod reproduce;
mod rules;
mod run;
mod seeds;
mod simulate;
mod testbed;
mod trace;
mod trace_file;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use failure::Failure;
use larder_forwarder::strategy::StrategyRegistry;
use larder_policy::Registry;
use larder_replay::FormatRegistry;
use larder_reproduce::BUILD_COMMIT;
use output::error_line;
use std::process::ExitCode;
use std::sync::LazyLock;

/// The parts that outside code can add to the program.
///
/// Every command, configuration file, scenario and management command knows them by their names.
/// `examples/custom_larder.rs` of this crate is such a program.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Registries {
    /// Cache policies.
    pub policies: Registry,
    /// Forwarding strategies.
    pub strategies: StrategyRegistry,
    /// Trace formats.
    pub formats: FormatRegistry,
}

impl Registries {
    /// Returns the registries of the program `larder`.
    pub fn builtin() -> Registries {
        Registries {
            policies: Registry::builtin(),
            strategies: StrategyRegistry::builtin(),
            formats: formats(),
        }
    }

    /// Makes them the registries of the process.
    fn install(self) -> Result<(), Failure> {
        let read_before = |what| {
            Failure::runtime(format!(
                "{what} were read before larder_cli::run: call it first in main"
            ))
        };
        self.policies
            .install()
            .map_err(|_| read_before("policies"))?;
        self.strategies
            .install()
            .map_err(|_| read_before("strategies"))?;
        self.formats
            .install()
            .map_err(|_| read_before("trace formats"))
    }
}

#[cfg(not(feature = "parquet"))]
fn formats() -> FormatRegistry {
    FormatRegistry::builtin()
}

#[cfg(feature = "parquet")]
fn formats() -> FormatRegistry {
    let builtin = FormatRegistry::builtin();
    // The name and the suffix are free, as the tests with Parquet files show.
    builtin
        .clone()
        .register(&larder_parquet::ENTRY)
        .unwrap_or(builtin)
}

/// The text of `larder --version` after the name; `-V` prints its first line alone.
static LONG_VERSION: LazyLock<String> = LazyLock::new(|| {
    let commit = BUILD_COMMIT.unwrap_or("unknown, not built by packaging/build");
    let features: Vec<&str> = [
        ("http3", cfg!(feature = "http3")),
        ("parquet", cfg!(feature = "parquet")),
    ]
    .into_iter()
    .filter_map(|(name, is_enabled)| is_enabled.then_some(name))
    .collect();
    format!(
        "{}\ncommit: {commit}\nfeatures: {}\nsystem: {}-{}",
        env!("CARGO_PKG_VERSION"),
        features.join(", "),
        std::env::consts::ARCH,
        std::env::consts::OS,
    )
});

/// Larder keeps named content close to the people who request it: an NDN forwarder and an HTTP
/// cache on one policy engine.
///
/// Without a command, it runs the node with its default configuration.
#[derive(Parser, Debug)]
#[command(
    name = "larder",
    version,
    long_version = LONG_VERSION.as_str(),
    arg_required_else_help = false
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand, Debug)]
enum Command {
    Run(run::RunArgs),
    Init(init::InitArgs),
    Doctor(doctor::DoctorArgs),
    Put(put::PutArgs),
    Get(get::GetArgs),
    Ping(ping::PingArgs),
    Certificate(certificate::CertificateArgs),
    PingServer(ping_server::PingServerArgs),
    Ctl(ctl::CtlArgs),
    Fleet(fleet::FleetArgs),
    Bench(bench::BenchArgs),
    Replay(replay::ReplayArgs),
    Curve(curve::CurveArgs),
    Advise(advise::AdviseArgs),
    Predict(predict::PredictArgs),
    Load(load::LoadArgs),
    Origin(origin::OriginArgs),
    Policies(policies::PoliciesArgs),
    Reproduce(reproduce::ReproduceArgs),
    Rules(rules::RulesArgs),
    Simulate(simulate::SimulateArgs),
    Testbed(testbed::TestbedArgs),
    Trace(trace::TraceArgs),
    Completions(manual::shell_files::CompletionsArgs),
    Man(manual::shell_files::ManArgs),
    Reference(manual::reference::ReferenceArgs),
}

/// Runs the command that the process's arguments name, and returns its exit status. A failure is
/// printed to standard error.
///
/// Call it first in `main`, while the process has one thread: some commands set options of the
/// allocator, and the registries become those of the process.
pub fn run(registries: Registries) -> ExitCode {
    if let Err(failure) = registries.install() {
        return fail(&failure);
    }
    let command = match Cli::try_parse() {
        Ok(cli) => cli.command.unwrap_or(Command::Run(run::RunArgs::default())),
        Err(error) if !error.use_stderr() => error.exit(),
        Err(error) => return fail(&Failure::usage(one_line(&error))),
    };
    match execute(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => fail(&failure),
    }
}

fn execute(command: Command) -> Result<(), Failure> {
    match command {
        Command::Run(args) => {
            allocator::prepare_node();
            run::run(args)
        }
        Command::Init(args) => init::run(args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Put(args) => put::run(args),
        Command::Get(args) => get::run(args),
        Command::Ping(args) => ping::run(args),
        Command::Certificate(args) => certificate::run(args),
        Command::PingServer(args) => ping_server::run(args),
        Command::Ctl(args) => ctl::run(args),
        Command::Fleet(args) => fleet::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Replay(args) => {
            allocator::give_back_after(allocator::REPLAY_DELAY_MS);
            replay::run(args)
        }
        Command::Curve(args) => curve::run(args),
        Command::Advise(args) => advise::run(args),
        Command::Predict(args) => predict::run(args),
        Command::Load(args) => load::run(args),
        Command::Origin(args) => origin::run(args),
        Command::Policies(args) => policies::run(args),
        Command::Reproduce(args) => reproduce::run(args),
        Command::Rules(args) => rules::run(args),
        Command::Simulate(args) => simulate::run(args),
        Command::Testbed(args) => testbed::run(args),
        Command::Trace(args) => trace::run(args),
        Command::Completions(args) => {
            manual::shell_files::completions(&args, Cli::command());
            Ok(())
        }
        Command::Man(args) => manual::shell_files::manual(&args, Cli::command()),
        Command::Reference(args) => {
            manual::reference::run(&args, Cli::command());
            Ok(())
        }
    }
}

fn fail(Failure { message, code }: &Failure) -> ExitCode {
    for line in message.lines() {
        error_line!("larder: {line}");
    }
    ExitCode::from(*code)
}

/// Returns the fault in the arguments, and clap's tip if there is one, in one line. It leaves out
/// the usage, which `--help` shows better.
fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let command = command_of(&text);
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let names = subcommands_of(&text).join(", ");
        return format!("{command} needs a command: {names}; see {command} --help");
    }
    let lines = text
        .lines()
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    // The way to pass a flag's name as a value is hardly what was meant.
    let lines: Vec<&str> = lines
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("tip: to pass"))
        .collect();
    let line = lines
        .join("; ")
        .replace(":; ", ": ")
        .replace("; tip: ", "; ");
    format!(
        "{}; see {command} --help",
        line.trim_start_matches("error: ")
    )
}

/// Returns the command whose usage a message of clap shows, such as `larder trace generate`.
fn command_of(text: &str) -> String {
    let usage = text.lines().find_map(|line| line.strip_prefix("Usage: "));
    let words = usage.unwrap_or("larder").split_whitespace();
    let is_name = |word: &&str| word.starts_with(|first: char| first.is_ascii_lowercase());
    words.take_while(is_name).collect::<Vec<_>>().join(" ")
}

/// Returns the names of the commands that a help text of clap lists.
fn subcommands_of(text: &str) -> Vec<&str> {
    text.lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_take_more_than_a_line() {
        for (typed, words) in [
            (&["frobnicate"][..], "unrecognized subcommand 'frobnicate'"),
            (&["polices"], "'policies'"),
            (&["run", "--chek"], "a similar argument exists: '--check'"),
            (
                &["trace"],
                "larder trace needs a command: info, convert, generate; see larder trace --help",
            ),
            (
                &["trace", "generate"],
                "larder trace generate needs a command: ",
            ),
            (
                &["replay", "a", "--sampel", "1"],
                "unexpected argument '--sampel' found; see larder replay --help",
            ),
            (
                &["replay", "trace", "-p", "lru"],
                "not provided: --size <SIZE,…>",
            ),
            (&["get", "foo%zz"], "a name starts with \"/\""),
            (
                &["ping", "/x", "--interval", "1 fortnight"],
                "such as \"10ms\"",
            ),
        ] {
            let error = Cli::try_parse_from(["larder"].iter().chain(typed)).expect_err("a mistake");
            let line = one_line(&error);
            assert!(
                line.contains(words)
                    && !line.contains('\n')
                    && line.contains("; see larder")
                    && line.ends_with(" --help"),
                "{line}"
            );
        }
    }
}
