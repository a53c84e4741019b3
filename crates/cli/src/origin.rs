//! `larder origin`: an HTTP server for testbeds that serves any object of any size, generated on
//! the fly.

use crate::failure::Failure;
use crate::output::line;
use clap::Args;
use larder_proxy::OriginServer;
use std::net::SocketAddr;

/// Serve generated objects of any size until interrupted: the origin server of a testbed
///
/// GET /1MiB, /64KiB/any/name, /10000?max-age=5: the path is the size, options control caching, and
/// / lists them.
#[derive(Args, Debug)]
pub struct OriginArgs {
    /// Address to listen on; port 0 selects a free one
    #[arg(long, default_value = "127.0.0.1:8000")]
    listen: SocketAddr,

    /// Number of threads
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
}

/// Serves until SIGINT or SIGTERM.
pub fn run(args: OriginArgs) -> Result<(), Failure> {
    larder_node::raise_descriptor_limit();
    let server = OriginServer::start(args.listen, usize::from(args.threads))
        .map_err(|error| Failure::runtime(error.to_string()))?;
    line!("ORIGIN http://{}/; Ctrl-C ends it", server.local_addr());
    server.run();
    Ok(())
}
