//! Failure: an upgrade, a reload or a change of certificates costs a client a request.

use super::clients::{self, KINDS, Seen};
use super::{Node, data, signal, wait};
use crate::vacant::vacant;
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

type Client = Box<dyn FnOnce(&Arc<Seen>) + Send>;

fn clients(seen: &Arc<Seen>, node: &Node, tls: std::net::SocketAddr) -> Vec<JoinHandle<()>> {
    let mut threads = Vec::new();
    let mut spawn = |client: Client| {
        let seen = Arc::clone(seen);
        threads.push(std::thread::spawn(move || client(&seen)));
    };
    let (http, unix) = (node.http, node.path("http.sock"));
    for number in 0..4 {
        spawn(Box::new(move |seen| {
            clients::keep_alive(seen, http, number)
        }));
    }
    spawn(Box::new(move |seen| {
        clients::new_connections(seen, http, 0)
    }));
    spawn(Box::new(move |seen| clients::unix(seen, &unix, 0)));
    spawn(Box::new(move |seen| clients::tls(seen, tls, 0)));
    spawn(Box::new(move |seen| clients::http2(seen, http)));
    threads
}

/// Replaces a file as ACME clients do: it is there all the time. The new one differs by its end.
fn copy(node: &Node, from: &str, to: &str, end: &str) {
    let text = std::fs::read_to_string(data(from)).unwrap();
    std::fs::write(node.path("new"), text + end).unwrap();
    std::fs::rename(node.path("new"), node.path(to)).unwrap();
}

#[test]
fn upgrades_reloads_and_new_certificates_lose_requests() {
    let tls = vacant();
    let more = format!(
        "[http.tls]\nlisten = \"{tls}\"\ncertificate = \"{}\"\nkey = \"{}\"\n[ndn]\nenabled = false\n",
        data("localhost.pem").display(),
        data("localhost.key").display()
    );
    let mut node = Node::start(&more);
    // The files of the certificate are the node's own from the first reload on.
    copy(&node, "localhost.pem", "cert.pem", "");
    copy(&node, "localhost.key", "cert.key", "");
    let file = node.path("larder.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let text = text.replace(
        data("localhost.pem").to_str().unwrap(),
        node.path("cert.pem").to_str().unwrap(),
    );
    let text = text.replace(
        data("localhost.key").to_str().unwrap(),
        node.path("cert.key").to_str().unwrap(),
    );
    let seen = Arc::new(Seen::default());
    let threads = clients(&seen, &node, tls);
    let some_answers = |seen: &Seen| {
        let before = seen.answers();
        wait("answers of every kind", || {
            seen.answers()
                .iter()
                .zip(&before)
                .all(|(now, before)| now - before >= 20)
                || !seen.failures.lock().unwrap().is_empty()
        });
    };
    some_answers(&seen);
    node.upgrade();
    some_answers(&seen);
    // The listeners get another access log and other threads: they are replaced, on the same
    // sockets.
    let added = node.path("added.sock");
    let text = text.replace(
        "listen = [",
        &format!("listen = [\"unix:{}\", ", added.display()),
    );
    let log = format!(
        "[http.access_log]\npath = {:?}\n[http.tls]",
        node.path("access.log")
    );
    let text = text
        .replace("[http.tls]", &log)
        .replace("[http]\n", "[http]\nthreads = 1\n");
    std::fs::write(&file, text).unwrap();
    node.signal(Signal::HUP);
    wait("a reload", || node.log().contains("reloaded applied="));
    assert!(added.exists(), "{}", node.log());
    some_answers(&seen);
    copy(&node, "localhost.key", "cert.key", "\nrenewed\n");
    copy(&node, "localhost.pem", "cert.pem", "\nrenewed\n");
    wait("the new certificate", || {
        node.log()
            .contains("have changed: new connections use them")
    });
    some_answers(&seen);
    node.upgrade();
    some_answers(&seen);
    seen.stop.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().unwrap();
    }
    let failures = seen.failures.lock().unwrap();
    let total: u64 = seen.answers().iter().sum();
    assert!(
        failures.is_empty(),
        "{} of {total} requests: {:#?}\n{}",
        failures.len(),
        &*failures,
        node.log()
    );
    // Connections that could be used again were left at each upgrade and that reload, only then.
    for (kind, of_clients) in [(0, 4), (4, 1)] {
        let connections = seen.connections[kind].load(Ordering::Relaxed);
        assert!(
            connections >= 4 * of_clients && connections <= 6 * of_clients,
            "{} opened {connections} connections",
            KINDS[kind]
        );
    }
    assert!(node.path("http.sock").exists());
    node.stop();
    assert!(
        !node.path("http.sock").exists(),
        "the last process leaves the socket file"
    );
}

/// Failure: an idle connection is closed at an upgrade, and the request that is under way on it is
/// lost; or an answer does not say that it is the last one.
#[test]
fn an_idle_connection_loses_its_next_request() {
    let mut node = Node::start("[ndn]\nenabled = false\n");
    let mut stream = TcpStream::connect(node.http).unwrap();
    stream.set_read_timeout(Some(super::PATIENCE)).unwrap();
    let request = b"GET /10/a HTTP/1.1\r\nhost: a\r\n\r\n";
    stream.write_all(request).unwrap();
    let mut bytes = [0; 4096];
    let mut head = String::new();
    while !head.contains("\r\n\r\n") {
        let read = stream.read(&mut bytes).unwrap();
        head.push_str(&String::from_utf8_lossy(&bytes[..read]));
    }
    assert!(!head.contains("connection: close"), "{head}");
    // A connection without a request, too.
    let mut fresh = TcpStream::connect(node.http).unwrap();
    fresh.set_read_timeout(Some(super::PATIENCE)).unwrap();
    let old = node.pid().unwrap();
    signal(old, Signal::USR2);
    // Before that, the old process takes further requests on these connections.
    wait("an upgrade", || {
        node.log().contains("this process finishes its requests")
    });
    let new = node.pid().unwrap();
    for stream in [&mut stream, &mut fresh] {
        stream.write_all(request).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 200 ") && answer.contains("connection: close"),
            "{answer}"
        );
    }
    node.pids.push(new);
    wait("the end of the old process", || node.has_ended(old));
}

/// Failure: an upgrade removes the disk tier's objects, or two processes write its file.
#[test]
fn a_disk_tier_is_lost() {
    let mut node = Node::start(
        "[http.disk]\npath = \"FOLDER/tier\"\ncapacity = \"64MiB\"\n[ndn]\nenabled = false\n",
    );
    super::get(node.http, "/1KiB/stored").unwrap();
    for _ in 0..2 {
        node.upgrade();
        let answer = super::get(node.http, "/1KiB/stored").unwrap();
        assert!(answer.contains("hit"), "{answer}\n{}", node.log());
    }
}

/// Failure: after an upgrade, applications do not reach the forwarder, or its socket file is gone.
#[test]
fn an_upgraded_forwarder_is_not_reached() {
    let more = "[ndn]\nunix = \"FOLDER/nfd.sock\"\ntcp = \"127.0.0.1:0\"\nudp = \"127.0.0.1:0\"\nwebsocket = \"\"\n";
    let mut node = Node::start(more);
    for _ in 0..2 {
        node.upgrade();
        let mut ctl = Command::new(env!("CARGO_BIN_EXE_larder"));
        let socket = format!("unix://{}", node.path("nfd.sock").display());
        let output = ctl
            .args(["ctl", "status"])
            .env("NDN_CLIENT_TRANSPORT", socket)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}\n{}",
            String::from_utf8_lossy(&output.stderr),
            node.log()
        );
    }
    node.stop();
    assert!(!node.path("nfd.sock").exists());
}
