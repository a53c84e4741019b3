//! Detects a reload or an upgrade whose outcome stays unknown, or that anybody may send.

use crate::node::{Folder, Node, PATIENCE, command, free_port, get, said};
use std::io::{Read, Write};
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
    let mut stream = TcpStream::connect(("127.0.0.1", admin)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{admin}\r\nconnection: close\r\ncontent-length: 0\r\n{fields}\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
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
