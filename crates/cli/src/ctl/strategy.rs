//! `larder ctl strategy`: strategy choices.

use super::Management;
use super::listing::{List, done};
use crate::failure::Failure;
use clap::{Args, Subcommand};
use larder_packet::mgmt::StrategyChoice;
use larder_packet::{ControlParameters, Name};
use serde_json::json;

#[derive(Args, Debug)]
pub(super) struct StrategyArgs {
    #[command(subcommand)]
    verb: Option<StrategyVerb>,
}

#[derive(Subcommand, Debug)]
enum StrategyVerb {
    /// List the strategy choices (default)
    #[command(alias = "show")]
    List,
    /// Set the strategy of a prefix
    Set {
        /// Interests under this prefix
        prefix: Name,

        /// are forwarded by this strategy: best-route, multicast, asf, random, stateful, hobhis, or
        /// one with parameters (asf/v=5/probing-interval~30000)
        strategy: String,
    },
    /// Unset the strategy of a prefix, which then inherits one
    Unset {
        /// The prefix
        prefix: Name,
    },
}

pub(super) fn run(node: &mut Management, args: StrategyArgs, json: bool) -> Result<(), Failure> {
    match args.verb.unwrap_or(StrategyVerb::List) {
        StrategyVerb::List => list(node, json),
        StrategyVerb::Set { prefix, strategy } => {
            let whole = if strategy.starts_with('/') {
                strategy
            } else {
                format!("/localhost/nfd/strategy/{strategy}")
            };
            let whole: Name = whole
                .parse()
                .map_err(|error| Failure::usage(format!("{whole}: {error}")))?;
            let choice = ControlParameters {
                name: Some(prefix.clone()),
                strategy: Some(whole),
                ..ControlParameters::default()
            };
            let chosen = node
                .command("strategy-choice/set", &choice)?
                .strategy
                .unwrap_or_default();
            let figures = [
                ("prefix", json!(prefix.to_string())),
                ("strategy", json!(chosen.to_string())),
            ];
            done(
                json,
                &format!("{prefix} is forwarded by {chosen}"),
                &figures,
            );
            Ok(())
        }
        StrategyVerb::Unset { prefix } => {
            let of = ControlParameters {
                name: Some(prefix.clone()),
                ..ControlParameters::default()
            };
            // For the answer only: the command is given in any case.
            let was_set = choices(node).map_or(true, |choices| {
                choices.iter().any(|choice| choice.name == prefix)
            });
            node.command("strategy-choice/unset", &of)?;
            let words = if was_set {
                format!("{prefix} is forwarded as what is above it")
            } else {
                format!(
                    "{prefix} had no strategy of its own: it is forwarded as what is above it; \
                     `larder ctl strategy` lists the choices"
                )
            };
            let figures = [
                ("prefix", json!(prefix.to_string())),
                ("removed", json!(was_set)),
            ];
            done(json, &words, &figures);
            Ok(())
        }
    }
}

fn choices(node: &mut Management) -> Result<Vec<StrategyChoice>, Failure> {
    node.list("strategy-choice/list", None)
}

fn list(node: &mut Management, json: bool) -> Result<(), Failure> {
    let mut choices = choices(node)?;
    choices.sort_by(|a, b| a.name.cmp(&b.name));
    let mut list = List::new(&["prefix", "strategy"]);
    for choice in &choices {
        list.row([
            json!(choice.name.to_string()),
            json!(choice.strategy.to_string()),
        ])
    }
    list.print(json);
    Ok(())
}
