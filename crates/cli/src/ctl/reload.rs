//! `larder ctl reload` and `larder ctl upgrade`: what SIGHUP and SIGUSR2 do, over the admin API.
//! They wait for the outcome and print it.

use super::admin::{AdminServer, token, token_of_environment};
use super::{Configured, listing};
use crate::failure::Failure;
use clap::Args;
use http::StatusCode;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;

/// The time for a reload: it reads files, and inserts a large Content Store into another policy.
const RELOAD_TIME: Duration = Duration::from_secs(120);

/// The time for an upgrade: the node gives the new process a minute to prepare itself, and ten to
/// open its disk tiers.
const UPGRADE_TIME: Duration = Duration::from_secs(12 * 60);

/// The node, and the token
///
/// The token is the one that the node runs with: from the environment variable LARDER_TOKEN,
/// otherwise that of the table `admin` in the file of --config.
#[derive(Args, Debug)]
pub struct CommandArgs {
    /// Address of the node's admin server [default: from --config, otherwise 127.0.0.1:8081]
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<SocketAddr>,
}

/// Reloads, and prints the keys that have changed.
pub(super) fn reload(
    args: &CommandArgs,
    configured: Option<&Configured>,
    json: bool,
) -> Result<(), Failure> {
    let outcome = command("/reload", RELOAD_TIME, args, configured)?;
    let (applied, waiting) = (
        keys(&outcome["applied"]),
        keys(&outcome["needs_an_upgrade"]),
    );
    let mut text = match applied.as_str() {
        "" => "reloaded: no other key has changed".to_owned(),
        keys => format!("reloaded: {keys}"),
    };
    if applied.is_empty() && waiting.is_empty() {
        text = "reloaded: nothing has changed".to_owned();
    }
    if !waiting.is_empty() {
        text += &format!("\nneeds `larder ctl upgrade`, or a restart: {waiting}");
    }
    if waiting.split(", ").any(|key| key.starts_with("process.")) {
        text += "\nprocess: only a restart by root applies it";
    }
    let results = [
        ("applied", outcome["applied"].clone()),
        ("needs_an_upgrade", outcome["needs_an_upgrade"].clone()),
    ];
    listing::done(json, &text, &results);
    Ok(())
}

/// Returns the names of keys in a line.
fn keys(value: &Value) -> String {
    let keys = value.as_array().into_iter().flatten();
    let keys: Vec<&str> = keys.filter_map(Value::as_str).collect();
    keys.join(", ")
}

/// Upgrades, and prints the process that serves now.
pub(super) fn upgrade(
    args: &CommandArgs,
    configured: Option<&Configured>,
    json: bool,
) -> Result<(), Failure> {
    let outcome = command("/upgrade", UPGRADE_TIME, args, configured)?;
    let pid = &outcome["pid"];
    let text = format!("upgraded: process {pid} serves, and the former one finishes its requests");
    listing::done(json, &text, &[("pid", json!(pid))]);
    Ok(())
}

/// Sends a command, and returns its outcome.
fn command(
    path: &str,
    limit: Duration,
    args: &CommandArgs,
    configured: Option<&Configured>,
) -> Result<Value, Failure> {
    // The file may have the next token already.
    let of_file = || configured.and_then(|configured| configured.config.admin.token.clone());
    let token = token(token_of_environment().or_else(of_file), configured)?;
    let admin = AdminServer::of(args.admin, configured)?;
    admin.check(configured).map_err(|failure| Failure {
        message: match args.admin {
            Some(_) => failure.message,
            None => format!(
                "{}; if the node runs with another [admin] listen than the file has now, give that with --admin, \
                 or send SIGHUP",
                failure.message
            ),
        },
        ..failure
    })?;
    let request = admin.order(path, &token, String::new())?;
    let (status, body) = admin.exchange_within(request, limit)?;
    let text = String::from_utf8_lossy(&body);
    let reason = text.trim().trim_start_matches("larder: ");
    match status {
        StatusCode::OK => serde_json::from_str(&text).map_err(|_| {
            let address = admin.address;
            Failure::runtime(format!("{address} does not answer as a Larder node does"))
        }),
        StatusCode::CONFLICT => Err(Failure::runtime(reason)),
        StatusCode::UNAUTHORIZED => Err(Failure::runtime(
            "the node refused: it runs with another token: set LARDER_TOKEN to that",
        )),
        _ => Err(Failure::runtime(format!(
            "the node refused: {} {}",
            status.as_u16(),
            crate::output::excerpt(reason)
        ))),
    }
}
