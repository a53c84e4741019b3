//! `larder ctl face`: faces.

use super::listing::{List, done, figures};
use super::{Management, refused};
use crate::failure::Failure;
use crate::numbers::bytes;
use clap::{Args, Subcommand, ValueEnum};
use larder_client::Transport;
use larder_client::transport::Endpoint;
use larder_packet::ControlParameters;
use larder_packet::mgmt::{Element, FaceQueryFilter, FaceStatus};
use larder_packet::types::nfd::{FLAG_CONGESTION_MARKING, FLAG_LOCAL_FIELDS, FLAG_LP_RELIABILITY};
use serde_json::{Value, json};

#[derive(Args, Debug)]
pub(super) struct FaceArgs {
    #[command(subcommand)]
    verb: Option<FaceVerb>,
}

#[derive(Subcommand, Debug)]
enum FaceVerb {
    /// List faces (default)
    List,
    /// Show all properties of a face
    Show {
        /// Its number, or the URI of its other end
        face: String,
    },
    /// Connect to another forwarder
    Create {
        /// URI of the peer: udp://HOST:PORT, tcp://HOST:PORT or `ether://[02:00:00:00:00:01]`
        uri: String,

        /// The interface of an Ethernet face: dev://eth0
        #[arg(long, value_name = "URI")]
        local: Option<String>,

        /// Persistency of the face
        #[arg(long, value_enum, default_value = "persistent")]
        persistency: Persistency,

        /// The largest frame in bytes
        #[arg(long, value_name = "BYTES", value_parser = bytes)]
        mtu: Option<u64>,

        /// Retransmit lost frames (NDNLPv2 link reliability); both ends must enable it
        #[arg(long)]
        reliable: bool,
    },
    /// Close a face
    Destroy {
        /// Its number, or the URI of its other end
        face: String,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Persistency {
    /// Until it fails
    Persistent,
    /// Until it is destroyed
    Permanent,
}

pub(super) fn run(node: &mut Management, args: FaceArgs, json: bool) -> Result<(), Failure> {
    match args.verb.unwrap_or(FaceVerb::List) {
        FaceVerb::List => list(node, json),
        FaceVerb::Show { face } => show(node, &face, json),
        FaceVerb::Create {
            uri,
            local,
            persistency,
            mtu,
            reliable,
        } => {
            let code = match persistency {
                Persistency::Persistent => 0,
                Persistency::Permanent => 2,
            };
            let reliability = reliable.then_some(FLAG_LP_RELIABILITY);
            let wanted = ControlParameters {
                face_persistency: Some(code),
                local_uri: local,
                mtu,
                flags: reliability,
                mask: reliability,
                ..ControlParameters::default()
            };
            let (id, uri) = create(node, &uri, wanted)?;
            done(
                json,
                &format!("face {id} to {uri}"),
                &[("face", json!(id)), ("uri", json!(uri))],
            );
            Ok(())
        }
        FaceVerb::Destroy { face } => {
            let id = find(node, &face)?
                .ok_or_else(|| unknown_face(&face))?
                .face_id;
            node.command(
                "faces/destroy",
                &ControlParameters {
                    face_id: Some(id),
                    ..ControlParameters::default()
                },
            )?;
            done(
                json,
                &format!("face {id} is destroyed"),
                &[("face", json!(id))],
            );
            Ok(())
        }
    }
}

fn list(node: &mut Management, json: bool) -> Result<(), Failure> {
    let faces: Vec<FaceStatus> = node.list("faces/list", None)?;
    let mut list = List::new(&[
        "face",
        "uri",
        "local_uri",
        "scope",
        "persistency",
        "mtu",
        "in_interests",
        "in_data",
        "in_nacks",
        "in_bytes",
        "out_interests",
        "out_data",
        "out_nacks",
        "out_bytes",
    ]);
    for face in &faces {
        list.row([
            json!(face.face_id),
            json!(face.uri),
            json!(face.local_uri),
            json!(scope(face)),
            json!(persistency(face)),
            json!(face.mtu),
            json!(face.in_interests),
            json!(face.in_data),
            json!(face.in_nacks),
            json!(face.in_bytes),
            json!(face.out_interests),
            json!(face.out_data),
            json!(face.out_nacks),
            json!(face.out_bytes),
        ]);
    }
    list.print(json);
    Ok(())
}

fn show(node: &mut Management, face: &str, json: bool) -> Result<(), Failure> {
    let face = find(node, face)?.ok_or_else(|| unknown_face(face))?;
    let flag = |bit| json!(face.flags & bit != 0);
    let lines: [(&'static str, Value); 17] = [
        ("face", json!(face.face_id)),
        ("uri", json!(face.uri)),
        ("local_uri", json!(face.local_uri)),
        ("scope", json!(scope(&face))),
        ("persistency", json!(persistency(&face))),
        ("link_type", json!(link_type(&face))),
        ("mtu_bytes", json!(face.mtu)),
        ("local_fields", flag(FLAG_LOCAL_FIELDS)),
        ("link_reliability", flag(FLAG_LP_RELIABILITY)),
        ("congestion_marking", flag(FLAG_CONGESTION_MARKING)),
        (
            "congestion_threshold_bytes",
            json!(face.default_congestion_threshold),
        ),
        ("in_interests", json!(face.in_interests)),
        ("in_data", json!(face.in_data)),
        ("in_bytes", json!(face.in_bytes)),
        ("out_interests", json!(face.out_interests)),
        ("out_data", json!(face.out_data)),
        ("out_bytes", json!(face.out_bytes)),
    ];
    figures(json, &lines);
    Ok(())
}

/// Returns the number of the face to a peer, which is created if missing, and its canonical URI.
pub(super) fn find_or_create(node: &mut Management, face: &str) -> Result<u64, Failure> {
    match find(node, face)? {
        Some(found) => Ok(found.face_id),
        None if face.contains("://") => {
            create(node, face, ControlParameters::default()).map(|(id, _)| id)
        }
        None => Err(unknown_face(face)),
    }
}

/// Finds a face by its number or its peer's URI.
pub(super) fn find(node: &mut Management, face: &str) -> Result<Option<FaceStatus>, Failure> {
    let filter = match face.parse() {
        Ok(id) => FaceQueryFilter {
            face_id: Some(id),
            ..FaceQueryFilter::default()
        },
        Err(_) if face.contains("://") => FaceQueryFilter {
            uri: Some(canonical(face)?),
            ..FaceQueryFilter::default()
        },
        Err(_) => {
            return Err(Failure::usage(format!(
                "{face:?} is neither a face's number nor a URI such as udp://HOST:6363"
            )));
        }
    };
    Ok(node
        .list("faces/query", Some(&filter.encode()))?
        .into_iter()
        .next())
}

fn create(
    node: &mut Management,
    uri: &str,
    wanted: ControlParameters,
) -> Result<(u64, String), Failure> {
    let uri = canonical(uri)?;
    let wanted = ControlParameters {
        uri: Some(uri.clone()),
        ..wanted
    };
    let response = node.try_command("faces/create", &wanted)?;
    let id = response.body.and_then(|body| body.face_id);
    match (response.status_code, id) {
        (200, Some(id)) => Ok((id, uri)),
        (409, Some(id)) => Err(Failure::runtime(format!(
            "face {id} to {uri} exists already"
        ))),
        (code, _) => Err(refused(
            "faces/create",
            &wanted,
            code,
            &response.status_text,
        )),
    }
}

/// Returns the URI in the protocol's form: with an address instead of a name, and with a port.
fn canonical(uri: &str) -> Result<String, Failure> {
    let transport = match uri.split_once("://") {
        Some(("udp" | "udp4" | "udp6" | "tcp" | "tcp4" | "tcp6", _)) => Transport::parse(uri, None),
        _ => return Ok(uri.to_owned()),
    };
    let transport = transport.map_err(|error| Failure::usage(error.to_string()))?;
    let (scheme, addresses) = match &transport.endpoint {
        Endpoint::Udp(addresses) => ("udp", addresses),
        Endpoint::Tcp(addresses) => ("tcp", addresses),
        Endpoint::Unix(_) => return Ok(uri.to_owned()),
    };
    let first = addresses
        .first()
        .ok_or_else(|| Failure::usage(format!("{uri}: the host has no address")))?;
    Ok(format!(
        "{scheme}{}://{first}",
        if first.is_ipv4() { 4 } else { 6 }
    ))
}

pub(super) fn unknown_face(face: &str) -> Failure {
    Failure::runtime(format!(
        "there is no face {face}; `larder ctl face` lists them"
    ))
}

fn scope(face: &FaceStatus) -> &'static str {
    if face.scope == 1 {
        "local"
    } else {
        "non-local"
    }
}

fn persistency(face: &FaceStatus) -> &'static str {
    ["persistent", "on-demand", "permanent"]
        .get(face.persistency as usize)
        .unwrap_or(&"?")
}

fn link_type(face: &FaceStatus) -> &'static str {
    ["point-to-point", "multi-access", "ad hoc"]
        .get(face.link_type as usize)
        .unwrap_or(&"?")
}
