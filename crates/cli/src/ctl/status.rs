//! `larder ctl status`: the forwarder over NFD's management protocol, and the HTTP cache over the
//! admin server. Each is shown without the other one, so it works with NFD, and with a node that
//! forwards no NDN packets.

use super::admin::AdminServer;
use super::{Configured, Management, listing};
use crate::connection::CommandKeyArgs;
use crate::failure::Failure;
use crate::output::error_line;
use clap::Args;
use serde_json::{Value, json};
use std::net::SocketAddr;

/// The node to show
#[derive(Args, Debug)]
pub struct StatusArgs {
    /// What nfdc writes after the thing
    #[arg(hide = true, value_parser = ["report", "show", "list"])]
    verb: Option<String>,

    /// Address of the node's admin server, for its HTTP cache [default: from --config, otherwise
    /// LARDER_ADMIN_LISTEN or 127.0.0.1:8081]
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<SocketAddr>,
}

type Figures = Vec<(&'static str, Value)>;

pub(super) fn run(
    args: &StatusArgs,
    configured: Option<&Configured>,
    json: bool,
) -> Result<(), Failure> {
    let has_ndn = configured.is_none_or(|configured| configured.config.ndn.enabled);
    let has_admin = args.admin.is_some()
        || configured.is_none_or(|configured| configured.config.admin.listen.is_some());
    // With a file, the node has to have what the file names. Otherwise one of them is enough.
    let is_strict = configured.is_some();
    let page = has_admin.then(|| node(args.admin, configured)).transpose();
    let ndn = has_ndn
        .then(|| {
            Management::connect(configured, &CommandKeyArgs::default())
                .and_then(|mut node| forwarder(&mut node))
        })
        .transpose();
    let (page, ndn) = match (page, ndn) {
        (Ok(page), Ok(ndn)) => (page, ndn),
        (Ok(Some(page)), Err(_)) if !is_strict && page.get("ndn").is_none() => (Some(page), None),
        (Err(_), Ok(Some(ndn))) if !is_strict && args.admin.is_none() => (None, Some(ndn)),
        (Err(admin), Err(ndn)) if !is_strict => {
            return Err(Failure {
                message: format!("{}\n{}", ndn.message, admin.message),
                code: ndn.code,
            });
        }
        (_, Err(failure)) | (Err(failure), _) => return Err(failure),
    };
    let page = match (&ndn, page) {
        (Some(ndn), Some(page)) if is_of_another(&page, ndn) && args.admin.is_none() => {
            error_line!(
                "the admin server at {} is that of another node (process {}): name this one's by --admin ADDRESS or --config FILE",
                AdminServer::of(args.admin, configured)?.address,
                page["node"]["pid"]
            );
            None
        }
        (_, page) => page,
    };
    if page.is_none() && ndn.is_none() {
        return Err(Failure::usage(
            "this configuration has neither NDN nor an admin server: nothing tells the status",
        ));
    }
    let mut figures = ndn.unwrap_or_default();
    if let Some(page) = &page {
        if figures.is_empty() {
            let uptime = page["uptime_seconds"].as_f64();
            figures.extend([
                ("version", page["larder"].clone()),
                ("configuration", page["node"]["configuration"].clone()),
                ("uptime_s", json!(uptime)),
            ]);
        }
        figures.push(("pid", page["node"]["pid"].clone()));
        figures.extend(http(&page["http"]));
    }
    listing::figures(json, &figures);
    Ok(())
}

/// Returns true if an admin server is certainly not that of the forwarder: both belong to nodes of
/// Larder that forward, and these run by different files. NFD has its own status, and no file.
fn is_of_another(page: &Value, ndn: &Figures) -> bool {
    let of_ndn = |key| {
        let figure = ndn.iter().find(|(name, _)| *name == key);
        figure.and_then(|(_, value)| value.as_str())
    };
    let is_larder = of_ndn("version").is_some_and(|version| version.starts_with("larder-"));
    let file = page["node"]["configuration"].as_str();
    is_larder && page.get("ndn").is_some() && of_ndn("configuration") != file
}

/// Returns the status page of the admin server.
fn node(admin: Option<SocketAddr>, configured: Option<&Configured>) -> Result<Value, Failure> {
    let server = AdminServer::of(admin, configured)?;
    let page = server.status()?;
    if let Some(configured) = configured {
        configured.check(
            &server.address.to_string(),
            page["node"]["configuration"].as_str(),
        )?;
    }
    Ok(page)
}

/// Returns the figures of the forwarder.
fn forwarder(node: &mut Management) -> Result<Figures, Failure> {
    let status = node.status()?;
    let uptime_ms = status
        .current_timestamp_ms
        .saturating_sub(status.start_timestamp_ms);
    Ok(vec![
        ("version", json!(status.version)),
        ("configuration", json!(status.configuration)),
        ("uptime_s", json!(uptime_ms as f64 / 1e3)),
        ("fib_entries", json!(status.fib_entries)),
        ("pit_entries", json!(status.pit_entries)),
        ("cs_entries", json!(status.cs_entries)),
        ("in_interests", json!(status.in_interests)),
        ("in_data", json!(status.in_data)),
        ("in_nacks", json!(status.in_nacks)),
        ("out_interests", json!(status.out_interests)),
        ("out_data", json!(status.out_data)),
        ("out_nacks", json!(status.out_nacks)),
        ("satisfied_interests", json!(status.satisfied_interests)),
        ("unsatisfied_interests", json!(status.unsatisfied_interests)),
    ])
}

/// Returns the figures of the HTTP cache; none if HTTP is off.
fn http(page: &Value) -> Figures {
    if page.is_null() {
        return Vec::new();
    }
    let down = page["servers"].as_object().map_or(0, |servers| {
        servers.values().filter(|up| **up == false).count()
    });
    let mut figures = vec![
        ("http_listen", page["listen"].clone()),
        ("http_origin", page["origin"].clone()),
        ("http_servers_down", json!(down)),
        ("http_policy", page["policy"]["spec"].clone()),
        ("http_capacity_bytes", page["capacity_bytes"].clone()),
        ("http_used_bytes", page["used_bytes"].clone()),
        ("http_objects", page["objects"].clone()),
        ("http_requests", page["requests"].clone()),
        ("http_hits", page["hits"].clone()),
        ("http_hit_ratio", page["hit_ratio"].clone()),
        ("http_stale", page["stale"].clone()),
        ("http_origin_failures", page["origin_failures"].clone()),
    ];
    let disk = &page["disk"];
    if !disk.is_null() {
        figures.extend([
            ("http_disk_capacity_bytes", disk["capacity_bytes"].clone()),
            ("http_disk_used_bytes", disk["used_bytes"].clone()),
            ("http_disk_objects", disk["objects"].clone()),
            ("http_disk_failure", disk["failure"].clone()),
        ]);
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: the process id and the HTTP cache of one node stand below the packets of another,
    /// and an operator stops the wrong process.
    #[test]
    fn two_nodes_are_shown_as_one() {
        let ndn = |version: &str, file: Option<&str>| -> Figures {
            vec![("version", json!(version)), ("configuration", json!(file))]
        };
        let page = |file: Option<&str>| json!({ "ndn": {}, "node": { "configuration": file } });
        let (first, second) = (Some("first.toml"), Some("second.toml"));
        for (version, file, other, is_another) in [
            ("larder-0.1.0", first, first, false),
            ("larder-0.1.0", None, None, false),
            ("larder-0.1.0", first, second, true),
            ("larder-0.1.0", first, None, true),
            ("larder-0.1.0", None, second, true),
            ("22.12", None, second, false),
        ] {
            let (ndn, page) = (ndn(version, file), page(other));
            assert_eq!(is_of_another(&page, &ndn), is_another, "{file:?} {other:?}");
        }
        // A node that forwards nothing beside NFD, or beside another Larder.
        let page = json!({ "node": { "configuration": "second.toml" } });
        assert!(!is_of_another(&page, &ndn("larder-0.1.0", first)));
    }
}
