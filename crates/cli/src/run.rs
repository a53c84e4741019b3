//! `larder run`: the node.

use crate::failure::Failure;
use clap::Args;
use larder_node::{Config, Node};
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

/// Runs the node until SIGINT or SIGTERM.
pub fn run(args: RunArgs) -> Result<(), Failure> {
    if args.print_config {
        print!("{}", larder_node::DEFAULT);
        return Ok(());
    }
    let config = match &args.config {
        Some(path) => Config::read(path).map_err(|error| Failure::usage(error.to_string()))?,
        None => Config::default(),
    };
    if args.check {
        println!("the configuration is right");
        return Ok(());
    }
    larder_node::log::init(&config.log);
    let node = Node::start(&config).map_err(Failure::runtime)?;
    print!("{}", node.greeting());
    node.run().map_err(Failure::runtime)
}
