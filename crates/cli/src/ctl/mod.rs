//! `larder ctl`: inspects and changes a running forwarder over NFD's management protocol, so it
//! works with NFD too. `purge`, `status`, `capture`, `reload` and `upgrade` ask the
//! admin server.
//!
//! The subcommands are those of NFD's `nfdc`: `face list`, `route add`, `cs erase`. Without a verb,
//! `list` or `info` is meant. The names of NFD's datasets and plural forms mean the same.

pub(crate) mod admin;
mod capture;
mod cs;
mod face;
pub(crate) mod listing;
mod purge;
mod reload;
mod route;
mod status;
mod strategy;

use crate::connection::{CommandKeyArgs, broken, connect, connect_to};
use crate::failure::Failure;
use crate::output::{error_line, excerpt};
use clap::{Args, Subcommand};
use larder_client::Client;
use larder_node::{Config, ConfigSources};
use larder_packet::mgmt::{ChannelStatus, Element, FibEntry, ForwarderStatus};
use larder_packet::tlv::TlvReader;
use larder_packet::{ControlParameters, ControlResponse};
use listing::List;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Inspect and change a running node: faces, routes, strategies, Content Store
///
/// Speaks NFD's management protocol with the forwarder of NDN_CLIENT_TRANSPORT or client.conf, or
/// with the local node.
#[derive(Args, Debug)]
pub struct CtlArgs {
    #[command(subcommand)]
    thing: Thing,

    /// Print JSON instead of tables
    #[arg(long, global = true)]
    json: bool,

    /// Configuration file of the intended node; it is an error if another node answers
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,

    #[command(flatten)]
    command_key: CommandKeyArgs,
}

/// A configuration file and its content.
pub(crate) struct Configured {
    path: PathBuf,
    config: Config,
}

/// What a command needs of the file to reach its node. Another mistake in it is a warning.
const NEEDED: [&str; 6] = [
    "ndn.enabled",
    "ndn.unix",
    "ndn.command_key",
    "ndn.command_certificate",
    "admin.listen",
    "admin.token",
];

impl Configured {
    pub(crate) fn read(path: &Path) -> Result<Configured, Failure> {
        let (config, problems) = ConfigSources::of_process(Some(path))
            .load_for(&NEEDED)
            .map_err(|error| Failure::usage(error.to_string()))?;
        for problem in problems {
            error_line!("larder: warning: {problem}");
        }
        Ok(Configured {
            path: path.to_owned(),
            config,
        })
    }

    /// Compares the file with the path that the answering node has reported, `place`.
    fn check(&self, place: &str, reported: Option<&str>) -> Result<(), Failure> {
        if reported.is_some() && reported.map(Path::new) == self.config.source.as_deref() {
            return Ok(());
        }
        let path = self.path.display();
        let other = match reported {
            Some(other) => format!("runs by {}", excerpt(other)),
            None => "runs without a configuration file, or is no Larder of this version".to_owned(),
        };
        Err(Failure::runtime(format!(
            "the node at {place} is not that of {path}: it {other}; start that one, or leave out --config"
        )))
    }
}

#[derive(Subcommand, Debug)]
enum Thing {
    /// Show counters and sizes of the forwarder and of the HTTP cache
    Status(status::StatusArgs),
    /// List the addresses that it listens on
    #[command(alias = "channels")]
    Channel(ListArgs),
    /// Faces: connections to applications and other forwarders
    #[command(alias = "faces")]
    Face(face::FaceArgs),
    /// RIB: registered prefixes and their routes
    #[command(aliases = ["routes", "rib"])]
    Route(route::RouteArgs),
    /// FIB: prefixes and next hops that result from the routes
    Fib(ListArgs),
    /// The Content Store
    #[command(visible_alias = "content-store")]
    Cs(cs::CsArgs),
    /// Record the traffic of a running cache as a trace
    Capture(capture::CaptureArgs),
    /// Remove responses from the HTTP cache
    Purge(purge::PurgeArgs),
    /// Read the configuration of the node again, as SIGHUP does, and say the outcome
    Reload(reload::CommandArgs),
    /// Start the program of the node again, as SIGUSR2 does, and say the outcome
    Upgrade(reload::CommandArgs),
    /// Strategies: the forwarding of Interests under a prefix
    #[command(aliases = ["strategies", "strategy-choice"])]
    Strategy(strategy::StrategyArgs),
}

/// What nfdc writes after the thing of which there is only a list.
#[derive(Args, Debug)]
struct ListArgs {
    /// The verb
    #[arg(hide = true, value_parser = ["list"])]
    verb: Option<String>,
}

/// Runs the subcommand.
pub fn run(args: CtlArgs) -> Result<(), Failure> {
    let json = args.json;
    let configured = args.config.as_deref().map(Configured::read).transpose()?;
    let node = || Management::connect(configured.as_ref(), &args.command_key);
    match args.thing {
        Thing::Status(args) => status::run(&args, configured.as_ref(), json),
        Thing::Channel(_) => channels(&mut node()?, json),
        Thing::Face(args) => face::run(&mut node()?, args, json),
        Thing::Route(args) => route::run(&mut node()?, args, json),
        Thing::Fib(_) => fib(&mut node()?, json),
        Thing::Cs(args) => cs::run(&mut node()?, args, json),
        Thing::Capture(args) => capture::run(&args, configured.as_ref(), json),
        Thing::Purge(args) => purge::run(args, configured.as_ref(), json),
        Thing::Reload(args) => reload::reload(&args, configured.as_ref(), json),
        Thing::Upgrade(args) => reload::upgrade(&args, configured.as_ref(), json),
        Thing::Strategy(args) => strategy::run(&mut node()?, args, json),
    }
}

/// A connection to the forwarder for commands and datasets.
struct Management {
    client: Client,
}

impl Management {
    /// Connects to the node of this configuration, or to the one of the environment.
    fn connect(
        configured: Option<&Configured>,
        key: &CommandKeyArgs,
    ) -> Result<Management, Failure> {
        let client = match configured {
            None => connect(Duration::ZERO)?,
            Some(configured) => connect_to(&configured.config, &configured.path)?,
        };
        let mut node = Management { client };
        key.apply(&mut node.client)?;
        let Some(configured) = configured else {
            return Ok(node);
        };
        let place = node.client.transport().to_string();
        configured.check(&place, node.status()?.configuration.as_deref())?;
        Ok(node)
    }

    fn status(&mut self) -> Result<ForwarderStatus, Failure> {
        let content = self.dataset("status/general", None)?;
        ForwarderStatus::decode_fields(TlvReader::new(&content))
            .map_err(|error| malformed("status/general", &error))
    }

    /// Sends a command. Returns the response with any status.
    fn try_command(
        &mut self,
        command: &str,
        parameters: &ControlParameters,
    ) -> Result<ControlResponse, Failure> {
        self.client.command(command, parameters).map_err(broken)
    }

    /// Sends a command that must succeed. Returns its parameters.
    fn command(
        &mut self,
        command: &str,
        parameters: &ControlParameters,
    ) -> Result<ControlParameters, Failure> {
        let response = self.try_command(command, parameters)?;
        match response.status_code {
            200 => Ok(response.body.unwrap_or_default()),
            code => Err(refused(command, parameters, code, &response.status_text)),
        }
    }

    fn dataset(&mut self, dataset: &str, argument: Option<&[u8]>) -> Result<Vec<u8>, Failure> {
        self.client.dataset(dataset, argument).map_err(broken)
    }

    /// Returns the entries of a dataset.
    fn list<T: Element>(
        &mut self,
        dataset: &str,
        argument: Option<&[u8]>,
    ) -> Result<Vec<T>, Failure> {
        T::decode_all(&self.dataset(dataset, argument)?).map_err(|error| malformed(dataset, &error))
    }
}

/// Returns the failure of a command, with what it was about: the URI, prefix or face.
fn refused(command: &str, about: &ControlParameters, code: u64, text: &str) -> Failure {
    let name = about.name.as_ref().map(ToString::to_string);
    let face = about.face_id.map(|face| format!("face {face}"));
    let parts: Vec<String> = [about.uri.clone(), name, face]
        .into_iter()
        .flatten()
        .collect();
    let about = if parts.is_empty() {
        String::new()
    } else {
        format!(" for {}", excerpt(&parts.join(", ")))
    };
    Failure::runtime(format!(
        "the node refused {command}{about}: {code} {}",
        excerpt(text)
    ))
}

fn malformed(dataset: &str, error: &larder_packet::DecodeError) -> Failure {
    Failure::runtime(format!("{dataset} of the node cannot be read: {error}"))
}

fn channels(node: &mut Management, json: bool) -> Result<(), Failure> {
    let channels: Vec<ChannelStatus> = node.list("faces/channels", None)?;
    let mut list = List::new(&["local_uri"]);
    for channel in &channels {
        list.row([json!(channel.local_uri)]);
    }
    list.print(json);
    Ok(())
}

fn fib(node: &mut Management, json: bool) -> Result<(), Failure> {
    let mut entries: Vec<FibEntry> = node.list("fib/list", None)?;
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    let mut list = List::new(&["prefix", "face", "cost"]);
    for entry in &entries {
        for hop in &entry.next_hops {
            list.row([
                json!(entry.name.to_string()),
                json!(hop.face_id),
                json!(hop.cost),
            ]);
        }
    }
    list.print(json);
    Ok(())
}

/// Formats milliseconds as seconds; empty if absent.
fn seconds(span: Option<std::time::Duration>) -> Value {
    span.map_or(Value::Null, |span| json!(span.as_millis() as f64 / 1e3))
}
