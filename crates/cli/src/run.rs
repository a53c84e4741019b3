//! `larder run`: the node.

use crate::failure::Failure;
use crate::output::line;
use clap::Args;
use larder_node::{Config, Node};
use std::io::Write;
use std::path::PathBuf;

/// Run the node: NDN forwarder and HTTP cache
#[derive(Args, Debug, Default)]
pub struct RunArgs {
    /// Configuration file (TOML); without one, the embedded default configuration, which --print-config shows
    config: Option<PathBuf>,

    /// Print the default configuration with every key, and exit
    #[arg(long)]
    print_config: bool,

    /// Read the configuration, say whether it is right, and exit
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
        line!("the configuration is right");
        return Ok(());
    }
    larder_node::log::init(&config.log);
    let node = Node::start(&config).map_err(Failure::runtime)?;
    // A node whose standard output is closed serves all the same.
    let _ = std::io::stdout().write_all(node.greeting().as_bytes());
    node.run(args.config.as_deref()).map_err(Failure::runtime)
}
