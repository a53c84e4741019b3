//! Detects a reload or an upgrade whose outcome stays unknown, or that anybody may send.

use crate::node::{Folder, Node, PATIENCE, command, free_port, get, said};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Output;
use std::time::Instant;

const TOKEN: &str = "0123456789abcdef";

/// The text of a node's file.
fn text(folder: &Folder, http: u16, admin: u16, more: &str) -> String {
    format!(
        "[ndn]\nunix = {:?}\ntcp = \"\"\nudp = \"\"\nwebsocket = \"\"\n[admin]\nlisten = \"127.0.0.1:{admin}\"\n\
         token = {TOKEN:?}\n[http]\nlisten = \"127.0.0.1:{http}\"\n{more}\n",
        folder.path("nfd.sock")
    )
}

fn ctl(arguments: &[&str], token: Option<&str>) -> Output {
    let mut command = command(&[&["ctl"], arguments].concat());
    command.envs(token.map(|token| ("LARDER_TOKEN", token)));
    command.output().unwrap()
}

/// Sends a POST with these fields. Returns the status line.
fn post(admin: u16, path: &str, fields: &str) -> String {
    let mut stream = connect(admin);
    send(&mut stream, admin, path, fields);
    status_line(&mut stream)
}

fn connect(admin: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", admin)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn send(stream: &mut TcpStream, admin: u16, path: &str, fields: &str) {
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{admin}\r\nconnection: close\r\ncontent-length: 0\r\n{fields}\r\n"
    );
    // A connection that has been closed has no answer.
    let _ = stream.write_all(request.as_bytes());
}

/// Returns the first line of an answer; nothing if the connection was closed without one.
fn status_line(stream: &mut TcpStream) -> String {
    let mut answer = String::new();
    if let Err(error) = stream.read_to_string(&mut answer) {
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{answer:?}");
    }
    answer.lines().next().unwrap_or_default().to_owned()
}

/// Failure: the operator does not learn what a reload has changed, what waits for an upgrade, or
/// that the file is wrong; or the answer is lost with the admin server that it comes from.
#[test]
fn the_outcome_of_a_reload_stays_in_the_log() {
    let folder = Folder::new();
    let (http, admin, moved) = (free_port(), free_port(), free_port());
    let file = folder.write("larder.toml", &text(&folder, http, admin, ""));
    let _node = Node::start(&mut command(&["run", &file]));
    let reload = |more: &[&str]| ctl(&[&["reload", "--config", &file], more].concat(), None);
    assert!(said(&reload(&[])).contains("nothing has changed"));
    let more = "cache = \"32MiB\"\n[ndn.disk]\npath = \"/no/tier\"\ncapacity = \"64MiB\"";
    folder.write("larder.toml", &text(&folder, http, admin, more));
    let reloaded = reload(&[]);
    assert!(reloaded.status.success(), "{}", said(&reloaded));
    let lines = said(&reloaded);
    assert!(lines.contains("reloaded: http.cache\n"), "{lines}");
    assert!(
        lines.contains("ctl upgrade") && lines.contains("ndn.disk.path"),
        "{lines}"
    );
    let page: serde_json::Value = serde_json::from_slice(&reload(&["--json"]).stdout).unwrap();
    assert_eq!(page["applied"], serde_json::json!([]));
    assert!(
        page["needs_an_upgrade"]
            .to_string()
            .contains("ndn.disk.path"),
        "{page}"
    );
    // What cannot be applied is an error, and changes nothing.
    let more =
        "cache = \"16MiB\"\norigin = \"https://localhost:1\"\norigin_ca = \"/no/authorities\"";
    folder.write("larder.toml", &text(&folder, http, admin, more));
    let refused = reload(&[]);
    assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
    assert!(
        said(&refused).contains("/no/authorities"),
        "{}",
        said(&refused)
    );
    assert!(get(admin, "/metrics").contains("larder_http_capacity_bytes 33554432"));
    // Another address of the admin server: the former one still tells the outcome.
    folder.write("larder.toml", &text(&folder, http, moved, ""));
    let at = format!("127.0.0.1:{admin}");
    let began = Instant::now();
    let reloaded = reload(&["--admin", &at]);
    assert!(
        reloaded.status.success(),
        "{} after {:?}",
        said(&reloaded),
        began.elapsed()
    );
    assert!(
        said(&reloaded).contains("admin.listen"),
        "{}",
        said(&reloaded)
    );
    assert!(get(moved, "/readyz").contains("ready"));
}

/// Failure: a client waits for the outcome of a command that nobody takes any more, and the end of
/// the node waits for that client.
#[test]
fn a_command_is_left_without_an_answer() {
    let folder = Folder::new();
    let (http, admin, moved) = (free_port(), free_port(), free_port());
    let origin = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let more = format!(
        "origin = \"http://{}\"\n[http.timeouts]\nshutdown = \"20s\"",
        origin.local_addr().unwrap()
    );
    let file = folder.write("larder.toml", &text(&folder, http, admin, &more));
    let mut node = Node::start(&mut command(&["run", &file]));
    let bearer = format!("authorization: Bearer {TOKEN}\r\n");
    // Several at once, of which the first one moves the server.
    folder.write("larder.toml", &text(&folder, http, moved, &more));
    let mut clients: Vec<_> = (0..6).map(|_| connect(admin)).collect();
    for client in &mut clients {
        send(client, admin, "/reload", &bearer);
    }
    let answers: Vec<String> = clients.iter_mut().map(status_line).collect();
    let with = |status: &str| answers.iter().filter(|it| it.contains(status)).count();
    assert!(with(" 200 ") >= 1, "{answers:?}");
    // A connection from which the server has read nothing yet is closed. None is left to wait.
    let closed = answers.iter().filter(|it| it.is_empty()).count();
    assert_eq!(with(" 200 ") + with(" 503 ") + closed, 6, "{answers:?}");
    // A request in progress holds the end of the node.
    let mut client = TcpStream::connect(("127.0.0.1", http)).unwrap();
    write!(client, "GET / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    let (_asked, _) = origin.accept().unwrap();
    let pid = rustix::process::Pid::from_child(&node.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    while get(moved, "/readyz").contains("ready\n") {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let answer = post(moved, "/reload", &bearer);
    assert!(answer.contains(" 503 "), "{answer:?}");
    drop((client, _asked));
    assert!(node.child.wait().unwrap().success());
}

/// Failure: a stranger, or a page of another site, reloads or ends a node.
#[test]
fn a_stranger_reloads_or_upgrades() {
    let folder = Folder::new();
    let (http, admin) = (free_port(), free_port());
    let file = folder.write("larder.toml", &text(&folder, http, admin, ""));
    let node = Node::start(&mut command(&["run", &file]));
    let bearer = format!("authorization: Bearer {TOKEN}\r\n");
    for path in ["/reload", "/upgrade"] {
        assert!(post(admin, path, "").contains(" 401 "), "{path}");
        let other = post(admin, path, "authorization: Bearer 0123456789abcdeX\r\n");
        assert!(other.contains(" 401 "), "{other}");
        let of_site = post(
            admin,
            path,
            &format!("{bearer}origin: http://site.example\r\n"),
        );
        assert!(of_site.contains(" 403 "), "{of_site}");
        assert!(
            get(admin, path).lines().next().unwrap().contains(" 405 "),
            "{path}"
        );
    }
    // A file that names another node, or none, says what to do.
    let other = text(&folder, http, free_port(), "");
    let other = folder.write("other.toml", &other);
    let unreachable = said(&ctl(&["reload", "--config", &other], None));
    assert!(unreachable.contains("--admin"), "{unreachable}");
    folder.write("other.toml", "[http]\ncache = \"1GiB\"\n");
    let without = said(&ctl(&["reload", "--config", &other], None));
    assert!(
        without.contains("other.toml: [admin] token is missing"),
        "{without}"
    );
    let none = ctl(&["reload", "--admin", &format!("127.0.0.1:{admin}")], None);
    assert_eq!(none.status.code(), Some(2), "{}", said(&none));
    assert!(said(&none).contains("LARDER_TOKEN"), "{}", said(&none));
    assert!(get(admin, "/status").contains(&format!("\"pid\": {}", node.child.id())));
    assert!(post(admin, "/reload", &bearer).contains(" 200 "));
    // The token is gone: so are the commands.
    let without = text(&folder, http, admin, "").replace(&format!("token = {TOKEN:?}\n"), "");
    folder.write("larder.toml", &without);
    assert!(post(admin, "/reload", &bearer).contains(" 200 "));
    for path in ["/reload", "/upgrade"] {
        assert!(post(admin, path, &bearer).contains(" 403 "), "{path}");
    }
}

/// Failure: the outcome of an upgrade stays unknown, or a failed one is called a success.
#[test]
fn the_outcome_of_an_upgrade_stays_in_the_log() {
    let folder = Folder::new();
    let (http, admin) = (free_port(), free_port());
    let file = folder.write("larder.toml", &text(&folder, http, admin, ""));
    let mut node = Node::start(&mut command(&["run", &file]));
    let upgrade = || {
        ctl(
            &[
                "upgrade",
                "--json",
                "--admin",
                &format!("127.0.0.1:{admin}"),
            ],
            Some(TOKEN),
        )
    };
    folder.write("larder.toml", &text(&folder, http, admin, "cahce = 1"));
    let refused = upgrade();
    assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
    assert!(said(&refused).contains("cahce"), "{}", said(&refused));
    assert!(get(admin, "/readyz").contains("ready"));
    folder.write("larder.toml", &text(&folder, http, admin, ""));
    let upgraded = upgrade();
    assert!(upgraded.status.success(), "{}", said(&upgraded));
    let page: serde_json::Value = serde_json::from_slice(&upgraded.stdout).unwrap();
    let next = page["pid"].as_u64().unwrap();
    assert_ne!(next, u64::from(node.child.id()));
    assert!(node.child.wait().unwrap().success());
    assert!(get(admin, "/status").contains(&format!("\"pid\": {next}")));
    let pid = rustix::process::Pid::from_raw(next as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let begun = Instant::now();
    while Path::new(&format!("/proc/{next}/exe")).exists() && begun.elapsed() < PATIENCE {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}
