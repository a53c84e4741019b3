//! `larder ctl cs`: the Content Store.

use super::listing::{List, done, figures};
use super::{Management, seconds};
use crate::failure::Failure;
use crate::numbers::count;
use clap::{Args, Subcommand, ValueEnum};
use larder_packet::mgmt::{CsInfo, CsObject, CsPrefix};
use larder_packet::types::nfd::{FLAG_CS_ADMIT, FLAG_CS_SERVE};
use larder_packet::{ControlParameters, Name, tlv, types};
use larder_policy::Spec;
use larder_units::{ByteSize, Ratio};
use serde_json::json;

#[derive(Args, Debug)]
pub(super) struct CsArgs {
    #[command(subcommand)]
    verb: Option<CsVerb>,
}

#[derive(Subcommand, Debug)]
enum CsVerb {
    /// Show capacity, policy and hits (default)
    #[command(aliases = ["show", "status"])]
    Info,
    /// List stored Data under a prefix, with age and hits
    List {
        /// The prefix
        #[arg(default_value = "/")]
        prefix: Name,
    },
    /// Show hits and misses by prefix, most requested first, if the node counts them
    Prefixes,
    /// Change capacity or policy, which keeps all Data that fits, or switch admission or serving
    Config {
        /// Capacity in bytes, such as 1GiB
        #[arg(long, value_name = "SIZE")]
        capacity: Option<ByteSize>,

        /// Policy, such as "filter(theta=2)+lru"; `larder policies` lists all
        #[arg(long, value_name = "SPEC")]
        policy: Option<Spec>,

        /// Whether Data is stored
        #[arg(long, value_enum)]
        admit: Option<Switch>,

        /// Whether stored Data is served
        #[arg(long, value_enum)]
        serve: Option<Switch>,
    },
    /// Remove stored Data under a prefix
    Erase {
        /// The prefix
        prefix: Name,

        /// Remove at most this many packets
        #[arg(long, value_name = "N", value_parser = count)]
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
        CsVerb::List { prefix } => list(node, &prefix, json),
        CsVerb::Prefixes => prefixes(node, json),
        CsVerb::Config {
            capacity,
            policy,
            admit,
            serve,
        } => {
            let mut wanted = ControlParameters {
                capacity_bytes: capacity.map(|size| size.bytes()),
                policy: policy.map(|policy| policy.to_string()),
                ..ControlParameters::default()
            };
            let switches = [(FLAG_CS_ADMIT, admit), (FLAG_CS_SERVE, serve)];
            let mask = switches
                .iter()
                .filter(|(_, to)| to.is_some())
                .map(|(bit, _)| bit)
                .sum();
            let on = switches
                .iter()
                .filter(|(_, to)| *to == Some(Switch::On))
                .map(|(bit, _)| bit)
                .sum();
            if mask != 0 {
                (wanted.flags, wanted.mask) = (Some(on), Some(mask));
            }
            node.command("cs/config", &wanted)?;
            info(node, json)
        }
        CsVerb::Erase { prefix, count } => {
            let erased = erase(node, &prefix, count)?;
            let words = format!("{erased} packets under {prefix} are forgotten");
            done(
                json,
                &words,
                &[
                    ("prefix", json!(prefix.to_string())),
                    ("erased", json!(erased)),
                ],
            );
            Ok(())
        }
    }
}

fn info(node: &mut Management, json: bool) -> Result<(), Failure> {
    let infos: Vec<CsInfo> = node.list("cs/info", None)?;
    let Some(info) = infos.first() else {
        return Err(Failure::runtime("cs/info of the node is empty"));
    };
    let mut shown = vec![
        ("policy", json!(info.policy)),
        ("capacity_bytes", json!(info.capacity_bytes)),
        ("used_bytes", json!(info.used_bytes)),
        ("capacity_packets", json!(info.capacity)),
        ("entries", json!(info.entries)),
        ("admits", json!(info.flags & FLAG_CS_ADMIT != 0)),
        ("serves", json!(info.flags & FLAG_CS_SERVE != 0)),
        ("hits", json!(info.hits)),
        ("misses", json!(info.misses)),
        (
            "hit_ratio",
            json!(Ratio::of(info.hits, info.hits + info.misses).value()),
        ),
    ];
    if let Some(capacity) = info.disk_capacity_bytes {
        shown.extend([
            ("disk_capacity_bytes", json!(capacity)),
            ("disk_used_bytes", json!(info.disk_used_bytes)),
            ("disk_entries", json!(info.disk_entries)),
            ("disk_hits", json!(info.disk_hits)),
            ("disk_misses", json!(info.disk_misses)),
        ]);
    }
    figures(json, &shown);
    Ok(())
}

fn list(node: &mut Management, prefix: &Name, json: bool) -> Result<(), Failure> {
    let mut argument = Vec::new();
    tlv::write_tlv(&mut argument, types::NAME, prefix.as_bytes());
    let objects: Vec<CsObject> = node.list("cs/query", Some(&argument))?;
    let mut list = List::new(&["name", "bytes", "age_s", "fresh_s", "hits"]);
    for object in &objects {
        list.row([
            json!(object.name.to_string()),
            json!(object.bytes),
            seconds(Some(object.age)),
            seconds(object.fresh),
            json!(object.hits),
        ]);
    }
    list.print(json);
    Ok(())
}

fn prefixes(node: &mut Management, json: bool) -> Result<(), Failure> {
    let prefixes: Vec<CsPrefix> = node.list("cs/prefixes", None)?;
    let mut list = List::new(&["prefix", "hits", "misses", "hit_ratio", "overcount"]);
    for prefix in &prefixes {
        list.row([
            json!(prefix.name.to_string()),
            json!(prefix.hits),
            json!(prefix.misses),
            json!(Ratio::of(prefix.hits, prefix.hits + prefix.misses).value()),
            json!(prefix.overcount),
        ]);
    }
    list.print(json);
    Ok(())
}

/// The most answers without an erased entry. A node examines 65,536 names at a time, so this covers
/// a hundred million.
const FRUITLESS_ANSWERS: u32 = 2048;

/// A node erases a limited number at a time, and reports whether more remain.
fn erase(node: &mut Management, prefix: &Name, count: Option<u64>) -> Result<u64, Failure> {
    let (mut erased, mut fruitless) = (0, 0);
    loop {
        let left = count.map(|count| count - erased);
        let of = ControlParameters {
            name: Some(prefix.clone()),
            count: left,
            ..ControlParameters::default()
        };
        let body = node.command("cs/erase", &of)?;
        erased += body.count.unwrap_or(0);
        fruitless += u32::from(body.count.unwrap_or(0) == 0);
        if body.capacity.is_none() || count.is_some_and(|count| erased >= count) {
            return Ok(erased);
        }
        if fruitless > FRUITLESS_ANSWERS {
            let problem = format!(
                "{erased} packets under {prefix} are removed, and more may remain; run the command again"
            );
            return Err(Failure::runtime(problem));
        }
    }
}
