//! Whether an authority could give certificates by ACME: each host has an address, and the
//! authority can be reached.

use super::{Finding, Level, Topic};
use crate::config::Config;
use http::Uri;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// The time for all names and the connection together. A resolver gives a name five seconds by
/// default, and a sound one needs less than one.
const PATIENCE: Duration = Duration::from_secs(4);

/// Hosts that are looked up, each by a thread. More would only repeat what the first ones show.
const HOSTS: usize = 32;

/// What was looked for, and the problem if it was not found.
type Answer = (usize, Result<(), String>);

/// Looks at `[http.tls.acme]`.
pub(super) fn findings(config: &Config) -> Vec<Finding> {
    let tls = config.http.proxy.tls.as_ref();
    let tls = tls.filter(|tls| config.http.enabled && !tls.listen.is_empty());
    let Some(acme) = tls.and_then(|tls| tls.acme.as_ref()) else {
        return Vec::new();
    };
    let (answer, answers) = mpsc::channel::<Answer>();
    let hosts: Vec<&str> = acme.hosts.iter().map(|host| host.as_str()).collect();
    let hosts = &hosts[..hosts.len().min(HOSTS)];
    let ask = |number: usize, look: Box<dyn FnOnce() -> Result<(), String> + Send>| {
        let answer = answer.clone();
        // The process ends without a thread that still waits for a resolver.
        let spawned = thread::Builder::new().spawn(move || {
            let _ = answer.send((number, look()));
        });
        drop(spawned);
    };
    for (number, host) in hosts.iter().enumerate() {
        // The dot: no domain of the resolver's own is put behind the name.
        let host = format!("{}.", host.trim_end_matches('.'));
        ask(number, Box::new(move || addresses(&host, 443).map(drop)));
    }
    let directory = acme.directory.clone();
    ask(hosts.len(), Box::new(move || connect(&directory)));
    let late = || Err(format!("no answer within {} s", PATIENCE.as_secs()));
    let mut found: Vec<Result<(), String>> = (0..=hosts.len()).map(|_| late()).collect();
    let deadline = Instant::now() + PATIENCE;
    for _ in 0..found.len() {
        let left = deadline.saturating_duration_since(Instant::now());
        match answers.recv_timeout(left) {
            Ok((number, result)) => found[number] = result,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    let of_host = hosts.iter().map(|host| {
        (
            format!("[http.tls.acme] {host}"),
            format!("{host} has an address"),
            format!("{host} has no address"),
            "make a record (A or AAAA) that leads to this machine: the authority checks the host there",
        )
    });
    let directory = &acme.directory;
    let of_authority = (
        "[http.tls.acme] directory".to_owned(),
        format!("{directory} accepts connections"),
        format!("{directory} cannot be reached"),
        "mend the URL, the name servers of this machine, or the firewall: no certificate is ordered before",
    );
    let rest = acme.hosts.len() - hosts.len();
    let not_looked_up = (rest > 0).then(|| {
        let text = format!("{rest} more hosts were not looked up");
        Finding::ok(
            Topic::Certificates,
            "[http.tls.acme] hosts".to_owned(),
            text,
        )
    });
    of_host
        .chain([of_authority])
        .zip(found)
        .map(|((place, well, ill, remedy), found)| match found {
            Ok(()) => Finding::ok(Topic::Certificates, place, well),
            Err(problem) => Finding::new(
                Level::Warning,
                Topic::Certificates,
                place,
                format!("{ill}: {problem}"),
                remedy,
            ),
        })
        .chain(not_looked_up)
        .collect()
}

fn addresses(host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    let found = (host, port).to_socket_addrs();
    let found: Vec<SocketAddr> = found
        .map_err(|error| larder_units::system_message(&error))?
        .collect();
    if found.is_empty() {
        return Err("its name has no record".to_owned());
    }
    Ok(found)
}

/// Connects to the server of a URL, at its first address that accepts.
fn connect(url: &str) -> Result<(), String> {
    let url: Uri = url.parse().map_err(|_| "it is no URL".to_owned())?;
    let host = url.host().unwrap_or_default();
    let host = host.trim_matches(['[', ']']);
    let port = url.port_u16().unwrap_or(443);
    let mut problem = String::new();
    for address in addresses(host, port)? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(_) => return Ok(()),
            Err(error) => problem = larder_units::system_message(&error),
        }
    }
    Err(problem)
}
