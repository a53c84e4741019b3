//! What an operator has to look at, from the status page: each with its remedy.

use serde_json::{Value, json};

/// A counter of the status page that is 0 if all is well, by JSON pointer.
const COUNTERS: [(&str, &str, &str); 9] = [
    (
        "/http/too_many_connections",
        "connections were refused, because their client had too many",
        "Raise [http.limits] connections_per_client, or name the proxy in [http] trusted_proxies.",
    ),
    (
        "/http/slow_clients",
        "slow clients were dropped so that bodies could be stored",
        "Raise [http] cache, or lower [http.timeouts] client_send.",
    ),
    (
        "/http/origin_heads_too_large",
        "responses of the origin had too many or too large header fields",
        "Raise [http.limits] header_fields or header_bytes.",
    ),
    (
        "/http/no_server",
        "requests found no server that answers",
        "Look at the servers under Origins, and at their logs.",
    ),
    (
        "/http/retries_refused",
        "requests were not sent to another server, beyond retry_budget",
        "Look at the servers that fail; a larger retry_budget loads the others more.",
    ),
    (
        "/http/not_stored/busy",
        "responses found no room while they arrived",
        "Raise [http] cache.",
    ),
    (
        "/http/not_stored/too-large",
        "responses were too large for the cache",
        "Raise [http] max_object, or set [http] slice.",
    ),
    (
        "/http/disk/dropped",
        "responses were not written to the disk tier, which was too slow",
        "Raise [http.disk] queue, or use a faster disk.",
    ),
    (
        "/ndn/content_store/disk/dropped",
        "Data were not written to the disk tier, which was too slow",
        "Raise [ndn.disk] queue, or use a faster disk.",
    ),
];

/// Returns the pointers to these counters.
pub(super) fn pointers() -> impl Iterator<Item = &'static str> {
    COUNTERS.iter().map(|(pointer, ..)| *pointer)
}

/// Returns the warnings of a status page. Counters are those since the start.
pub(crate) fn warnings(status: &Value) -> Vec<Value> {
    let mut found = Vec::new();
    let mut warn =
        |what: String, remedy: &str| found.push(json!({ "what": what, "remedy": remedy }));
    let servers = status.pointer("/http/servers").and_then(Value::as_object);
    for (server, _) in servers
        .into_iter()
        .flatten()
        .filter(|(_, is_up)| **is_up == false)
    {
        let remedy = "Look there: it gets requests again by itself when it answers.";
        warn(
            format!("{server} gets no requests, because it does not answer as it should."),
            remedy,
        );
    }
    let certificates = status.pointer("/http/certificates");
    let certificates = certificates.and_then(Value::as_array);
    for certificate in certificates.into_iter().flatten() {
        let host = certificate["host"].as_str().unwrap_or_default();
        let remedy = "Lead the host's name and ports 80 and 443 to this node, then reload (SIGHUP): it orders again at \
                      once.";
        let what = match (
            certificate["last_error"].as_str(),
            &certificate["is_issued"],
        ) {
            (Some(error), _) => format!("No new certificate for {host}: {error}."),
            (None, Value::Bool(false)) => {
                format!("{host} has a self-signed certificate until the authority issues one.")
            }
            _ => continue,
        };
        warn(what, remedy);
    }
    for (what, remedy) in of_fleet(status) {
        warn(what, remedy);
    }
    for tier in ["/http/disk", "/ndn/content_store/disk"] {
        if let Some(failure) = status
            .pointer(&format!("{tier}/failure"))
            .and_then(Value::as_str)
        {
            warn(
                format!("The disk tier has failed: {failure}."),
                "Repair or replace the disk, and restart the node.",
            );
        }
    }
    let number = |pointer: &str| status.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    let (open, most) = (number("/node/open_files"), number("/node/open_files_most"));
    if most > 0 && open >= most - most / 10 {
        let remedy = "Raise the limit (LimitNOFILE of systemd, ulimit -n), or lower [http.limits] connections.";
        warn(
            format!("{open} of {most} file descriptors are open."),
            remedy,
        );
    }
    if let Some(tried) = status
        .pointer("/console/http/tried")
        .filter(|tried| !tried.is_null())
    {
        let text = |key: &str| tried[key].as_str().unwrap_or_default();
        let remedy = "Write that into the configuration, or reload (SIGHUP) to return to it.";
        warn(
            format!(
                "The HTTP cache runs {} with {}, as tried here.",
                text("policy"),
                text("capacity")
            ),
            remedy,
        );
    }
    for (pointer, what, remedy) in COUNTERS {
        match number(pointer) {
            0 => {}
            count => warn(format!("{count} {what}."), remedy),
        }
    }
    found
}

/// Returns what an operator has to know of the node's fleet, with remedies.
fn of_fleet(status: &Value) -> Vec<(String, &'static str)> {
    let mut found = Vec::new();
    let mut warn = |what: String, remedy: &'static str| found.push((what, remedy));
    let fleet = |key: &str| {
        status
            .pointer(&format!("/fleet/{key}"))
            .and_then(Value::as_str)
    };
    if let Some(problem) = fleet("problem") {
        let remedy =
            "Until it is repaired, the node asks the origin before it serves what it has stored.";
        warn(format!("The fleet: {problem}."), remedy);
    } else if fleet("state").is_some_and(|state| state == "lagging") {
        warn(
            "The log of the fleet does not answer, so purges of other nodes may be missing here."
                .to_owned(),
            "Look at the servers of [fleet] nats: the node goes on by itself when they answer.",
        );
    }
    if status.pointer("/fleet/two_nodes") == Some(&Value::Bool(true)) {
        let node = fleet("node").unwrap_or_default();
        warn(
            format!(
                "Another node of the fleet has the name {node}, too: both count as one, so a purge may \
                 seem executed everywhere that one of them has not executed."
            ),
            "Give each node its own [fleet] node, and restart one of them.",
        );
    }
    let lost = status
        .pointer("/fleet/lost")
        .and_then(Value::as_array)
        .into_iter();
    let lost: Vec<&str> = lost.flatten().filter_map(Value::as_str).collect();
    if !lost.is_empty() {
        warn(
            format!(
                "Nodes of the fleet are not heard any more: {}.",
                lost.join(", ")
            ),
            "Look whether they run: a node that is cut off asks the origin before it serves what it has stored.",
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: the console does not say that the node has no proof that it knows all purges.
    #[test]
    fn a_node_without_its_fleet_looks_well() {
        let of = |state: &str, problem: Value| {
            let status = json!({ "fleet": { "state": state, "problem": problem } });
            warnings(&status).len()
        };
        assert_eq!(of("following", Value::Null), 0);
        assert_eq!(of("starting", Value::Null), 0);
        assert_eq!(of("lagging", Value::Null), 1);
        assert_eq!(of("lagging", json!("the log cannot be read")), 1);
        let status = json!({ "fleet": { "state": "lagging", "two_nodes": true, "node": "n1" } });
        let told = warnings(&status);
        assert!(told.len() == 2 && told[1]["what"].to_string().contains("n1"));
        let status = json!({ "fleet": { "state": "following", "lost": ["n2", "n3"] } });
        let told = warnings(&status)[0]["what"].as_str().unwrap().to_owned();
        assert!(told.ends_with("n2, n3."), "{told}");
        assert!(warnings(&json!({ "fleet": { "state": "following", "lost": [] } })).is_empty());
    }

    /// Failure: a failure is not named, or a node without failures has warnings.
    #[test]
    fn a_failure_has_no_warning() {
        let well = json!({
            "node": { "open_files": 80, "open_files_most": 1024 },
            "http": {
                "servers": { "a:80": true }, "slow_clients": 0, "disk": { "failure": null },
                "certificates": [{ "host": "a.test", "is_issued": true, "last_error": null }],
            },
            "console": { "http": { "tried": null } },
        });
        assert!(warnings(&well).is_empty());
        let ill = json!({
            "node": { "open_files": 1000, "open_files_most": 1024 },
            "http": { "servers": { "a:80": false, "b:80": true }, "slow_clients": 3, "disk": { "failure": "EIO" } },
            "console": { "http": { "tried": { "policy": "lru", "capacity": "1GiB" } } },
        });
        let texts: Vec<String> = warnings(&ill)
            .iter()
            .map(|one| one["what"].as_str().unwrap().to_owned())
            .collect();
        for (text, part) in texts.iter().zip([
            "a:80",
            "EIO",
            "1000 of 1024",
            "lru with 1GiB",
            "3 slow clients",
        ]) {
            assert!(text.contains(part), "{texts:?}");
        }
        assert_eq!(texts.len(), 5);
    }
}
