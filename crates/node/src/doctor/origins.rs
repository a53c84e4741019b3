//! Reaches the servers behind the cache as the node does: with its name servers and with the
//! certificates that it trusts, within a short time.

use super::{Finding, Level, Topic};
use crate::config::Config;
use crate::parts;
use http::Uri;
use larder_proxy::{Reach, reach_servers};
use std::time::Duration;

/// The time for a name, a connection and a handshake together.
const CONNECT_TIME: Duration = Duration::from_secs(4);

/// Tries all origins at once.
pub(super) fn findings(config: &Config) -> Vec<Finding> {
    if !config.http.enabled {
        return Vec::new();
    }
    let http = parts::http_with(&config.http, None);
    let groups = match reach_servers(&http, CONNECT_TIME) {
        Ok(groups) => groups,
        Err(error) => {
            let error = larder_units::system_message(&error);
            let text = format!("no server was tried: {error}");
            return vec![Finding::new(
                Level::Warning,
                Topic::Origins,
                "[http] origin",
                text,
                "",
            )];
        }
    };
    let mut findings = Vec::new();
    for (number, servers) in groups.iter().enumerate() {
        let setting = if number < http.origins.len() {
            "[[http.origins]] servers"
        } else {
            "[http] origin"
        };
        let is_dead = !servers
            .iter()
            .any(|(_, reach)| matches!(reach, Reach::Reached { .. }));
        findings.extend(
            servers
                .iter()
                .map(|(uri, reach)| of_server(setting, uri, reach, is_dead)),
        );
    }
    findings
}

/// Returns the finding for a server. `is_dead`: no server of its table was reached.
fn of_server(setting: &str, uri: &Uri, reach: &Reach, is_dead: bool) -> Finding {
    let name = shown(uri);
    let is_secure = uri.scheme_str() == Some("https");
    let (reason, remedy) = match reach {
        Reach::Reached { address } => {
            let at = address.map_or(String::new(), |address| format!(" at {address}"));
            let trusted = if is_secure {
                ", and its certificate is trusted"
            } else {
                ""
            };
            let text = format!("{name} accepts connections{at}{trusted}");
            return Finding::ok(Topic::Origins, setting, text);
        }
        Reach::NotTried => {
            let text = format!("{name} was not tried: no certificates would verify it");
            let remedy = "mend [http] origin_ca, or install the system's (ca-certificates)";
            return Finding::new(Level::Warning, Topic::Origins, setting, text, remedy);
        }
        Reach::Failed(reason) => (
            reason.clone(),
            "start the server, or mend its name or address",
        ),
        Reach::NotSecure(reason) => (
            format!("accepts connections, and the handshake of TLS fails: {reason}"),
            "mend its certificate, or name the certificates that verify it in [http] origin_ca",
        ),
    };
    let (level, until_then) = if is_dead {
        (Level::Error, "clients get 502 for what is not stored")
    } else {
        (Level::Warning, "the other servers of its table answer")
    };
    Finding::new(
        level,
        Topic::Origins,
        setting,
        format!("{name}: {reason}"),
        format!("{remedy}; until then, {until_then}"),
    )
}

/// Returns the server as a configuration names it.
fn shown(uri: &Uri) -> String {
    match uri.scheme_str() {
        Some("unix") => format!("unix:{}", uri.path()),
        _ => uri.to_string().trim_end_matches('/').to_owned(),
    }
}
