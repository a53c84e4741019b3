//! `larder ctl route`: routes.

use super::face::{find, find_or_create, unknown_face};
use super::listing::{List, done};
use super::{Management, seconds};
use crate::failure::Failure;
use clap::{Args, Subcommand, value_parser};
use larder_packet::mgmt::RibEntry;
use larder_packet::{ControlParameters, Name};
use larder_units::parse_duration;
use serde_json::json;
use std::time::Duration;

/// Flags of a route (NFD management protocol).
const CHILD_INHERIT: u64 = 1;
const CAPTURE: u64 = 2;
/// The origin of a route that an operator added.
const STATIC: u64 = 255;

#[derive(Args, Debug)]
pub(super) struct RouteArgs {
    #[command(subcommand)]
    verb: Option<RouteVerb>,
}

#[derive(Subcommand, Debug)]
enum RouteVerb {
    /// List routes (default)
    List,
    /// List the routes of a prefix
    Show {
        /// The prefix [default: all]
        prefix: Option<Name>,
    },
    /// Add a route, or change its cost and flags
    Add {
        /// Interests under this prefix
        prefix: Name,

        /// are forwarded to the face with this number, or to this peer (udp://HOST:PORT,
        /// tcp://HOST:PORT), to which a face is created if necessary
        face: String,

        /// Cost; the lowest is preferred. A route of the configuration has 10
        #[arg(long, default_value_t = 0)]
        cost: u64,

        /// Origin of the route: 0 an application, 65 a client, 255 the operator
        #[arg(long, default_value_t = STATIC, value_parser = value_parser!(u64).range(..=0xFFFF))]
        origin: u64,

        /// Lifetime of the route [default: unlimited]
        #[arg(long, value_name = "TIME", value_parser = parse_duration)]
        expires: Option<Duration>,

        /// Do not let longer prefixes inherit the route
        #[arg(long)]
        no_inherit: bool,

        /// Do not let this prefix and longer ones inherit routes from shorter ones
        #[arg(long)]
        capture: bool,
    },
    /// Remove a route
    Remove {
        /// Its prefix
        prefix: Name,

        /// The number of its face, or the peer's URI
        face: String,

        /// Origin of the route
        #[arg(long, default_value_t = STATIC, value_parser = value_parser!(u64).range(..=0xFFFF))]
        origin: u64,
    },
}

pub(super) fn run(node: &mut Management, args: RouteArgs, json: bool) -> Result<(), Failure> {
    match args.verb.unwrap_or(RouteVerb::List) {
        RouteVerb::List => list(node, None, json),
        RouteVerb::Show { prefix } => list(node, prefix.as_ref(), json),
        RouteVerb::Add {
            prefix,
            face,
            cost,
            origin,
            expires,
            no_inherit,
            capture,
        } => {
            let id = find_or_create(node, &face)?;
            let flags = u64::from(!no_inherit) * CHILD_INHERIT + u64::from(capture) * CAPTURE;
            let route = ControlParameters {
                name: Some(prefix.clone()),
                face_id: Some(id),
                origin: Some(origin),
                cost: Some(cost),
                flags: Some(flags),
                expiration: expires,
                ..ControlParameters::default()
            };
            node.command("rib/register", &route)?;
            let figures = [
                ("prefix", json!(prefix.to_string())),
                ("face", json!(id)),
                ("cost", json!(cost)),
            ];
            done(
                json,
                &format!("{prefix} goes to face {id} at cost {cost}"),
                &figures,
            );
            Ok(())
        }
        RouteVerb::Remove {
            prefix,
            face,
            origin,
        } => remove(node, &prefix, &face, origin, json),
    }
}

/// Removes a route. As with nfdc, it is no error if there is none: the text says so.
fn remove(
    node: &mut Management,
    prefix: &Name,
    face: &str,
    origin: u64,
    json: bool,
) -> Result<(), Failure> {
    let id = find(node, face)?.ok_or_else(|| unknown_face(face))?.face_id;
    // Whether there is one is for the answer only: the command is given in any case.
    let was_there = routes(node, Some(prefix)).map_or(true, |entries| {
        let mut routes = entries.iter().flat_map(|entry| &entry.routes);
        routes.any(|route| route.face_id == id && route.origin == origin)
    });
    let route = ControlParameters {
        name: Some(prefix.clone()),
        face_id: Some(id),
        origin: Some(origin),
        ..ControlParameters::default()
    };
    node.command("rib/unregister", &route)?;
    let words = if was_there {
        format!("{prefix} goes to face {id} no more (origin {origin})")
    } else {
        format!(
            "there was no route from {prefix} to face {id} with origin {origin}; \
             `larder ctl route` lists them"
        )
    };
    let figures = [
        ("prefix", json!(prefix.to_string())),
        ("face", json!(id)),
        ("origin", json!(origin)),
        ("removed", json!(was_there)),
    ];
    done(json, &words, &figures);
    Ok(())
}

/// Returns the routes of all prefixes, or of one.
fn routes(node: &mut Management, prefix: Option<&Name>) -> Result<Vec<RibEntry>, Failure> {
    let mut entries: Vec<RibEntry> = node.list("rib/list", None)?;
    entries.retain(|entry| prefix.is_none_or(|prefix| entry.name == *prefix));
    Ok(entries)
}

fn list(node: &mut Management, prefix: Option<&Name>, json: bool) -> Result<(), Failure> {
    let entries = routes(node, prefix)?;
    let mut list = List::new(&[
        "prefix",
        "face",
        "origin",
        "cost",
        "inherit",
        "capture",
        "expires_s",
    ]);
    for entry in &entries {
        for route in &entry.routes {
            list.row([
                json!(entry.name.to_string()),
                json!(route.face_id),
                json!(route.origin),
                json!(route.cost),
                json!(route.flags & CHILD_INHERIT != 0),
                json!(route.flags & CAPTURE != 0),
                seconds(route.expiration),
            ]);
        }
    }
    list.print(json);
    Ok(())
}
