//! Resolves and connects to the servers behind the cache, within a short time.

use super::{Finding, Level, Topic};
use crate::config::{Config, Origin};
use http::Uri;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::time::Duration;

/// The time for a name and for a connection together.
const CONNECT_TIME: Duration = Duration::from_secs(4);

/// Servers that are tried at most: each takes a thread for a moment.
const SERVERS: usize = 64;

/// Tries all origins at once.
pub(super) fn findings(config: &Config) -> Vec<Finding> {
    if !config.http.enabled {
        return Vec::new();
    }
    let mut servers: Vec<(&str, Uri, bool)> = Vec::new();
    if let Origin::Http(uri) = &config.http.origin {
        servers.push(("[http] origin", uri.clone(), true));
    }
    for table in &config.http.origins {
        let is_alone = table.servers.len() == 1;
        let of_table = table.servers.iter();
        servers.extend(
            of_table.map(|server| ("[[http.origins]] servers", server.uri.clone(), is_alone)),
        );
    }
    servers.truncate(SERVERS);
    let (results, reached) = mpsc::channel();
    for (number, (_, uri, _)) in servers.iter().enumerate() {
        let (results, uri) = (results.clone(), uri.clone());
        let attempt = move || drop(results.send((number, connect(&uri))));
        // A server without a thread has no answer in time.
        let _ = std::thread::Builder::new()
            .name("origin".to_owned())
            .spawn(attempt);
    }
    drop(results);
    let mut outcomes: Vec<Option<Result<String, String>>> = vec![None; servers.len()];
    let end = std::time::Instant::now() + CONNECT_TIME + Duration::from_secs(1);
    while outcomes.iter().any(Option::is_none) {
        let left = end.saturating_duration_since(std::time::Instant::now());
        let Ok((number, outcome)) = reached.recv_timeout(left) else {
            break;
        };
        outcomes[number] = Some(outcome);
    }
    let finding = |((setting, uri, is_alone), outcome): (
        &(&str, Uri, bool),
        Option<Result<String, String>>,
    )| {
        let name = shown(uri);
        match outcome {
            Some(Ok(address)) => Finding::ok(
                Topic::Origins,
                *setting,
                format!("{name} accepts connections{address}"),
            ),
            failed => {
                let reason = match failed {
                    Some(Err(reason)) => reason,
                    _ => format!("no answer within {CONNECT_TIME:?}"),
                };
                let level = if *is_alone {
                    Level::Error
                } else {
                    Level::Warning
                };
                let remedy = "start the server, or mend its name or address; until then, clients get 502 for what is not stored";
                Finding::new(
                    level,
                    Topic::Origins,
                    *setting,
                    format!("{name}: {reason}"),
                    remedy,
                )
            }
        }
    };
    servers.iter().zip(outcomes).map(finding).collect()
}

/// Returns the server as a configuration names it.
fn shown(uri: &Uri) -> String {
    match uri.scheme_str() {
        Some("unix") => format!("unix:{}", socket_path(uri)),
        _ => uri.to_string().trim_end_matches('/').to_owned(),
    }
}

/// Returns the path of a socket, without that of requests.
fn socket_path(uri: &Uri) -> &str {
    uri.path().split(':').next().unwrap_or_default()
}

/// Connects. Returns the address as text.
fn connect(uri: &Uri) -> Result<String, String> {
    let message = |error: &std::io::Error| larder_units::system_message(error);
    if uri.scheme_str() == Some("unix") {
        let connected = UnixStream::connect(socket_path(uri));
        return connected
            .map(|_| String::new())
            .map_err(|error| message(&error));
    }
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let usual = if uri.scheme_str() == Some("https") {
        443
    } else {
        80
    };
    let port = uri.port_u16().unwrap_or(usual);
    let addresses: Vec<_> = (host, port)
        .to_socket_addrs()
        .map_err(|error| format!("its name has no address: {}", message(&error)))?
        .collect();
    let mut last = "its name has no address".to_owned();
    for address in &addresses {
        match TcpStream::connect_timeout(address, CONNECT_TIME) {
            Ok(_) if host.parse::<std::net::IpAddr>().is_ok() => return Ok(String::new()),
            Ok(_) => return Ok(format!(" at {}", address.ip())),
            Err(error) => last = format!("{address}: {}", message(&error)),
        }
    }
    Err(last)
}
