//! `larder run`: runs the node.

use crate::failure::Failure;
use crate::output::line;
use clap::Args;
use larder_node::{Config, Node};
use std::io::Write;
use std::path::PathBuf;

/// Run the node: NDN forwarder and HTTP cache
#[derive(Args, Debug, Default)]
pub struct RunArgs {
    /// Configuration file (TOML) [default: the embedded configuration, which --print-config shows]
    config: Option<PathBuf>,

    /// Print the default configuration with every key, and exit
    #[arg(long)]
    print_config: bool,

    /// Read the configuration, try its listeners, certificates, keys and disk files, report every
    /// problem, and exit
    #[arg(long)]
    check: bool,
}

/// Runs the node until SIGINT or SIGTERM; SIGHUP reloads its file.
pub fn run(args: RunArgs) -> Result<(), Failure> {
    if args.print_config {
        line!("{}", larder_node::DEFAULT.trim_end());
        return Ok(());
    }
    let config = match &args.config {
        Some(path) => Config::read(path).map_err(|error| Failure::usage(error.to_string()))?,
        None => Config::default(),
    };
    if args.check {
        return check(&config);
    }
    larder_node::log::init(&config.log);
    let node = Node::start(&config).map_err(|error| cannot_start(&config, error.to_string()))?;
    // A closed standard output does not stop the node.
    let _ = std::io::stdout().write_all(node.greeting().as_bytes());
    node.run(args.config.as_deref()).map_err(|error| Failure::runtime(error.to_string()))
}

/// Checks whether a node could start with this configuration.
fn check(config: &Config) -> Result<(), Failure> {
    let problems = larder_node::problems(config);
    if !problems.is_empty() {
        return Err(Failure::usage(problems.join("\n")));
    }
    match larder_node::running_node(config) {
        Some(pid) => line!("the configuration is right; process {pid} runs by this file, and reads it again at SIGHUP"),
        None => line!("the configuration is right"),
    }
    Ok(())
}

/// Returns a failure with all problems, not only the first one at which the start stopped.
fn cannot_start(config: &Config, first: String) -> Failure {
    let mut problems = larder_node::problems(config);
    if !problems.contains(&first) {
        problems.insert(0, first);
    }
    Failure::runtime(problems.join("\n"))
}
