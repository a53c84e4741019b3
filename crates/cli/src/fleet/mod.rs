//! `larder fleet`: what an operator does once for a fleet of nodes, and its overview.

mod nodes;
mod plan;

use crate::config_file::NeededConfigFile;
use crate::failure::Failure;
use crate::output::line;
use clap::{Args, Subcommand};
use larder_fleet_host::{Created, LogSettings, create_log, make_certificates};
use larder_node::ConfigSources;
use larder_units::{ByteSize, parse_duration};
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

/// Prepare and show a fleet: nodes that share purges and responses
#[derive(Args, Debug)]
pub struct FleetArgs {
    #[command(subcommand)]
    command: FleetCommand,
}

#[derive(Subcommand, Debug)]
enum FleetCommand {
    Init(InitArgs),
    Certificates(CertificatesArgs),
    Status(nodes::StatusArgs),
    Owner(nodes::OwnerArgs),
    Plan(plan::PlanArgs),
}

/// Make the log of purges on the servers of NATS, once for a fleet
///
/// The servers are those of the table `fleet` in the configuration of any node. A log that is there
/// already is left as it is, so the command may be repeated. Nodes never make it: if it is lost,
/// somebody has to know.
#[derive(Args, Debug)]
struct InitArgs {
    #[command(flatten)]
    file: NeededConfigFile,

    /// Servers that keep a copy: 1, 3 or 5. One is for tests: it loses the log with its disk
    #[arg(long, value_name = "COUNT", default_value_t = LogSettings::default().replicas, value_parser = replicas)]
    replicas: usize,

    /// Time for which purges are kept: a node that was away for longer validates all that it has
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = duration)]
    keep: Duration,

    /// Most bytes of the log
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    max_size: ByteSize,

    /// Print JSON instead of lines
    #[arg(long)]
    json: bool,
}

/// Make certificates for nodes that share their responses
///
/// The nodes of a fleet ask each other by TLS with certificates of one authority, whose name is
/// that of the node ([fleet.peers]). This command makes the authority if the folder has none, and a
/// certificate for each node. Call it again to add nodes or to renew certificates: running nodes
/// read changed files by themselves. The authority's key, fleet-ca.key, belongs on no node.
#[derive(Args, Debug)]
struct CertificatesArgs {
    /// Names of nodes, as in [fleet] node
    #[arg(value_name = "NODE", required = true)]
    nodes: Vec<String>,

    /// Folder of the authority and the certificates
    #[arg(long, value_name = "DIR", default_value = ".")]
    folder: PathBuf,

    /// Time for which the certificates of nodes are valid
    #[arg(long, value_name = "TIME", default_value = "365d", value_parser = validity)]
    valid: Duration,

    /// Print JSON instead of lines
    #[arg(long)]
    json: bool,
}

fn validity(text: &str) -> Result<Duration, String> {
    let valid = parse_duration(text).map_err(|error| error.to_string())?;
    if (Duration::from_secs(3600)..=TEN_YEARS).contains(&valid) {
        Ok(valid)
    } else {
        Err("expected 1h to 3650d".to_owned())
    }
}

/// The validity of the authority.
const TEN_YEARS: Duration = Duration::from_secs(3650 * 86_400);

fn replicas(text: &str) -> Result<usize, String> {
    match text {
        "1" => Ok(1),
        "3" => Ok(3),
        "5" => Ok(5),
        _ => Err("expected 1, 3 or 5".to_owned()),
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let keep = parse_duration(text).map_err(|error| error.to_string())?;
    if keep < Duration::from_secs(3600) {
        return Err(
            "expected 1h or more: a node that was restarted reads what it has missed".to_owned(),
        );
    }
    Ok(keep)
}

/// Executes a command.
pub fn run(args: FleetArgs) -> Result<(), Failure> {
    match args.command {
        FleetCommand::Init(args) => init(&args),
        FleetCommand::Certificates(args) => certificates(&args),
        FleetCommand::Status(args) => nodes::status(&args),
        FleetCommand::Owner(args) => nodes::owner(&args),
        FleetCommand::Plan(args) => plan::run(&args),
    }
}

fn init(args: &InitArgs) -> Result<(), Failure> {
    let sources = ConfigSources::of_process(Some(args.file.path()));
    let config = sources
        .load()
        .map_err(|error| Failure::usage(error.to_string()))?;
    let Some(fleet) = &config.fleet else {
        return Err(Failure::usage(format!(
            "{}: [fleet] is missing: name the fleet and its servers of NATS",
            args.file.path().display()
        )));
    };
    let settings = LogSettings {
        replicas: args.replicas,
        keep: args.keep,
        bytes: args.max_size.bytes(),
    };
    let created = create_log(&fleet.config(&config.http.proxy), settings);
    let created = created.map_err(|error| Failure::runtime(error.to_string()))?;
    report(&created, &fleet.name, args.json);
    Ok(())
}

fn certificates(args: &CertificatesArgs) -> Result<(), Failure> {
    let made = make_certificates(&args.folder, &args.nodes, args.valid);
    let made = made.map_err(|error| Failure::runtime(error.to_string()))?;
    if args.json {
        let nodes = args.nodes.iter().zip(&made.nodes);
        let nodes: serde_json::Map<_, _> = nodes
            .map(|(node, (certificate, key))| {
                (
                    node.clone(),
                    json!({ "certificate": certificate, "key": key }),
                )
            })
            .collect();
        let page = json!({ "ca": made.ca, "existed": made.existed, "nodes": nodes });
        line!("{page}");
        return Ok(());
    }
    let done = if made.existed {
        "is there already"
    } else {
        "is made"
    };
    line!("the authority of the fleet {done}: {}", made.ca.display());
    for (certificate, key) in &made.nodes {
        line!("{} and {}", certificate.display(), key.display());
    }
    line!("copy fleet-ca.pem and its own two files to each node; keep fleet-ca.key elsewhere");
    Ok(())
}

fn report(created: &Created, fleet: &str, json: bool) {
    let Created {
        stream,
        identity,
        replicas,
        existed,
        server,
    } = created;
    if json {
        let page = json!({
            "fleet": fleet, "stream": stream, "log": identity, "replicas": replicas, "existed": existed,
            "server": server,
        });
        return line!("{page}");
    }
    let copies = if *replicas == 1 { "copy" } else { "copies" };
    let done = if *existed {
        "is there already"
    } else {
        "is made"
    };
    line!(
        "the log of the fleet {fleet} {done}: stream {stream}, {replicas} {copies}, nats-server {server}"
    );
    line!(
        "start each node with its [fleet]; /status and larder_fleet_state show how it follows the log"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        fleet: FleetArgs,
    }

    /// Failure: a log that cannot have a majority, or that forgets what a restarted node has
    /// missed, is made.
    #[test]
    fn a_useless_log_is_made() {
        let parse = |more: &[&str]| {
            let words = ["larder", "init", "--config", "a.toml"];
            Program::try_parse_from(words.iter().chain(more))
        };
        assert!(parse(&[]).is_ok() && parse(&["--replicas", "5", "--keep", "1d"]).is_ok());
        for wrong in [
            ["--replicas", "2"],
            ["--replicas", "0"],
            ["--keep", "10m"],
            ["--keep", "forever"],
        ] {
            assert!(parse(&wrong).is_err(), "{wrong:?}");
        }
    }
}
