//! `larder ctl cs`.

use super::Management;
use super::listing::{done, figures};
use crate::failure::Failure;
use clap::{Args, Subcommand, ValueEnum};
use larder_packet::mgmt::CsInfo;
use larder_packet::types::nfd::{FLAG_CS_ADMIT, FLAG_CS_SERVE};
use larder_packet::{ControlParameters, Name};
use larder_units::{ByteSize, Ratio};
use serde_json::json;

#[derive(Args, Debug)]
pub(super) struct CsArgs {
    #[command(subcommand)]
    verb: Option<CsVerb>,
}

#[derive(Subcommand, Debug)]
enum CsVerb {
    /// Capacity, policy, hits; so does no verb
    Info,
    /// Change the capacity, or switch admission or serving
    Config {
        /// Bytes that may be stored, such as 1GiB
        #[arg(long, value_name = "SIZE")]
        capacity: Option<ByteSize>,

        /// Whether Data is stored
        #[arg(long, value_enum)]
        admit: Option<Switch>,

        /// Whether stored Data is served
        #[arg(long, value_enum)]
        serve: Option<Switch>,
    },
    /// Forget what is stored under a prefix
    Erase {
        /// The prefix
        prefix: Name,

        /// At most so many packets
        #[arg(long, value_name = "N")]
        count: Option<u64>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    /// Yes
    On,
    /// No
    Off,
}

pub(super) fn run(node: &mut Management, args: CsArgs, json: bool) -> Result<(), Failure> {
    match args.verb.unwrap_or(CsVerb::Info) {
        CsVerb::Info => info(node, json),
        CsVerb::Config { capacity, admit, serve } => {
            let mut wanted =
                ControlParameters { capacity_bytes: capacity.map(|size| size.bytes()), ..ControlParameters::default() };
            let switches = [(FLAG_CS_ADMIT, admit), (FLAG_CS_SERVE, serve)];
            let mask = switches.iter().filter(|(_, to)| to.is_some()).map(|(bit, _)| bit).sum();
            let on = switches.iter().filter(|(_, to)| *to == Some(Switch::On)).map(|(bit, _)| bit).sum();
            if mask != 0 {
                (wanted.flags, wanted.mask) = (Some(on), Some(mask));
            }
            node.command("cs/config", &wanted)?;
            info(node, json)
        }
        CsVerb::Erase { prefix, count } => {
            let erased = erase(node, &prefix, count)?;
            let words = format!("{erased} packets under {prefix} are forgotten");
            done(json, &words, &[("prefix", json!(prefix.to_string())), ("erased", json!(erased))]);
            Ok(())
        }
    }
}

fn info(node: &mut Management, json: bool) -> Result<(), Failure> {
    let infos: Vec<CsInfo> = node.list("cs/info", None)?;
    let Some(info) = infos.first() else { return Err(Failure::runtime("cs/info of the node is empty")) };
    figures(
        json,
        &[
            ("policy", json!(info.policy)),
            ("capacity_bytes", json!(info.capacity_bytes)),
            ("used_bytes", json!(info.used_bytes)),
            ("capacity_packets", json!(info.capacity)),
            ("entries", json!(info.entries)),
            ("admits", json!(info.flags & FLAG_CS_ADMIT != 0)),
            ("serves", json!(info.flags & FLAG_CS_SERVE != 0)),
            ("hits", json!(info.hits)),
            ("misses", json!(info.misses)),
            ("hit_ratio", json!(Ratio::of(info.hits, info.hits + info.misses).value())),
        ],
    );
    Ok(())
}

/// A node erases a few at a time, and says when there are more.
fn erase(node: &mut Management, prefix: &Name, count: Option<u64>) -> Result<u64, Failure> {
    let mut erased = 0;
    loop {
        let left = count.map(|count| count - erased);
        let of = ControlParameters { name: Some(prefix.clone()), count: left, ..ControlParameters::default() };
        let body = node.command("cs/erase", &of)?;
        erased += body.count.unwrap_or(0);
        if body.capacity.is_none() || body.count.unwrap_or(0) == 0 || count.is_some_and(|count| erased >= count) {
            return Ok(erased);
        }
    }
}
