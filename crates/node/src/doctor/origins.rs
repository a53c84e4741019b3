//! Resolves and connects to the servers behind the cache, within a short time.

use super::{Finding, Level, Topic};
use crate::config::{Config, Origin};
use http::Uri;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// The time for a name and for a connection together.
const CONNECT_TIME: Duration = Duration::from_secs(4);

/// Servers that are tried at most: each takes a thread for a moment.
const SERVERS: usize = 64;

/// A server of an origin.
struct OriginServer {
    setting: &'static str,
    uri: Uri,
    /// True if no other server answers in its place.
    is_alone: bool,
}

/// The address of the server as text, or the reason of a failure.
type Outcome = Result<String, String>;

/// Tries all origins at once.
pub(super) fn findings(config: &Config) -> Vec<Finding> {
    if !config.http.enabled {
        return Vec::new();
    }
    let servers = servers(config);
    let outcomes = outcomes(&servers);
    let findings = servers.iter().zip(outcomes);
    findings
        .map(|(server, outcome)| server.finding(outcome))
        .collect()
}

/// Returns the servers of all origins.
fn servers(config: &Config) -> Vec<OriginServer> {
    let mut servers = Vec::new();
    if let Origin::Http(uri) = &config.http.origin {
        servers.push(OriginServer {
            setting: "[http] origin",
            uri: uri.clone(),
            is_alone: true,
        });
    }
    for table in &config.http.origins {
        let of_table = table.servers.iter().map(|server| OriginServer {
            setting: "[[http.origins]] servers",
            uri: server.uri.clone(),
            is_alone: table.servers.len() == 1,
        });
        servers.extend(of_table);
    }
    servers.truncate(SERVERS);
    servers
}

/// Connects to all servers at once. `None` for one without an answer in time.
fn outcomes(servers: &[OriginServer]) -> Vec<Option<Outcome>> {
    let (results, reached) = mpsc::channel();
    for (number, server) in servers.iter().enumerate() {
        let (results, uri) = (results.clone(), server.uri.clone());
        let attempt = move || drop(results.send((number, connect(&uri))));
        // A server without a thread has no answer in time.
        let _ = std::thread::Builder::new()
            .name("origin".to_owned())
            .spawn(attempt);
    }
    drop(results);
    let mut outcomes = vec![None; servers.len()];
    let end = Instant::now() + CONNECT_TIME + Duration::from_secs(1);
    while outcomes.iter().any(Option::is_none) {
        let left = end.saturating_duration_since(Instant::now());
        let Ok((number, outcome)) = reached.recv_timeout(left) else {
            break;
        };
        outcomes[number] = Some(outcome);
    }
    outcomes
}

impl OriginServer {
    fn finding(&self, outcome: Option<Outcome>) -> Finding {
        let name = shown(&self.uri);
        let reason = match outcome {
            Some(Ok(address)) => {
                let text = format!("{name} accepts connections{address}");
                return Finding::ok(Topic::Origins, self.setting, text);
            }
            Some(Err(reason)) => reason,
            None => format!("no answer within {CONNECT_TIME:?}"),
        };
        let level = if self.is_alone {
            Level::Error
        } else {
            Level::Warning
        };
        let remedy = "start the server, or mend its name or address; until then, clients get 502 for what is not stored";
        let text = format!("{name}: {reason}");
        Finding::new(level, Topic::Origins, self.setting, text, remedy)
    }
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
fn connect(uri: &Uri) -> Outcome {
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
