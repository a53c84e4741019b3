//! Failure: an upgrade that fails ends the node, or the supervisor watches the wrong process.

use super::{Node, PATIENCE, get, wait};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;

/// Asks for an upgrade that fails, and checks that the old process serves. Returns the log.
fn refused(node: &Node, times: usize) -> String {
    let pid = node.pid();
    node.signal(Signal::USR2);
    wait("a failure", || {
        node.log().matches("this process goes on").count() == times
    });
    assert_eq!(node.pid(), pid);
    assert!(get(node.http, "/10/a").is_some_and(|answer| answer.starts_with("HTTP/1.1 200 ")));
    node.log()
}

#[test]
fn a_failed_upgrade_ends_the_node() {
    let mut node = Node::start(
        "[ndn]\nunix = \"FOLDER/nfd.sock\"\ntcp = \"\"\nudp = \"\"\nwebsocket = \"\"\n",
    );
    let file = node.path("larder.toml");
    let right = std::fs::read_to_string(&file).unwrap();
    // The file is wrong.
    std::fs::write(&file, format!("{right}\n[log]\nlevel = \"loud\"\n")).unwrap();
    let log = refused(&node, 1);
    assert!(log.contains("loud"), "{log}");
    // A file that it needs is not there.
    std::fs::write(
        &file,
        format!("{right}\n[[http.rules]]\nstatus = 502\nerror_page = \"/no/such/page\"\n"),
    )
    .unwrap();
    let log = refused(&node, 2);
    assert!(log.contains("/no/such/page"), "{log}");
    std::fs::write(&file, &right).unwrap();
    // The program is another one, or gone.
    let (program, broken) = (node.path("larder"), node.path("broken"));
    std::fs::write(&broken, "#!/bin/sh\nexit 3\n").unwrap();
    std::fs::set_permissions(&broken, PermissionsExt::from_mode(0o755)).unwrap();
    let original = std::fs::read_link(&program).unwrap();
    std::fs::remove_file(&program).unwrap();
    let log = refused(&node, 3);
    assert!(log.contains("cannot start the program"), "{log}");
    std::os::unix::fs::symlink(&broken, &program).unwrap();
    let log = refused(&node, 4);
    assert!(log.contains("exit status: 3"), "{log}");
    // Nothing of that prevents the next one.
    std::fs::remove_file(&program).unwrap();
    std::os::unix::fs::symlink(original, &program).unwrap();
    for name in ["http.sock", "nfd.sock"] {
        assert!(node.path(name).exists(), "{name} is gone");
    }
    std::fs::write(node.path("log"), "").unwrap();
    node.upgrade();
}

#[test]
fn the_supervisor_watches_the_old_process() {
    let folder = tempfile::tempdir().unwrap();
    let socket = UnixDatagram::bind(folder.path().join("notify")).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut node = Node::start_with("[ndn]\nenabled = false\n", |command| {
        command.env("NOTIFY_SOCKET", folder.path().join("notify"));
    });
    node.upgrade();
    let pid = node.pid().unwrap();
    node.stop();
    let mut messages = Vec::new();
    while !messages
        .iter()
        .any(|message: &String| message.contains("STOPPING=1"))
    {
        let mut bytes = [0; 4096];
        let length = socket.recv(&mut bytes).unwrap();
        messages.push(String::from_utf8_lossy(&bytes[..length]).into_owned());
    }
    let main = format!("MAINPID={pid}\n");
    assert!(
        messages.iter().any(|message| message.contains(&main)),
        "{messages:?}"
    );
    assert_eq!(
        messages
            .iter()
            .filter(|message| message.contains("STOPPING=1"))
            .count(),
        1,
        "{messages:?}"
    );
}

/// Failure: after an upgrade that has failed late, a purge reports success, and what it has purged
/// comes back from the disk tier at the next start; or the node cannot be upgraded any more.
#[test]
fn purged_content_comes_back() {
    let mut node = Node::start(
        "[http.disk]\npath = \"FOLDER/tier\"\ncapacity = \"64MiB\"\n[ndn]\nenabled = false\n",
    );
    get(node.http, "/1KiB/stored").unwrap();
    node.upgrade();
    assert!(get(node.http, "/1KiB/stored").unwrap().contains("hit"));
    let (file, right) = (
        node.path("larder.toml"),
        std::fs::read_to_string(node.path("larder.toml")).unwrap(),
    );
    std::fs::write(node.path("foreign"), "something else").unwrap();
    std::fs::write(&file, right.replace("/tier\"", "/foreign\"")).unwrap();
    // A second line is about the tier, when purges have an effect again.
    let log = refused(&node, 2);
    assert!(
        log.contains("foreign") && log.contains("was closed for the upgrade"),
        "{log}"
    );
    let mut purge = std::net::TcpStream::connect(node.admin).unwrap();
    let body = "{\"everything\": true}";
    let token = "authorization: Bearer 0123456789abcdef";
    let length = body.len();
    write!(
        purge,
        "POST /purge HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{token}\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    purge.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    std::fs::write(&file, &right).unwrap();
    std::fs::write(node.path("log"), "").unwrap();
    node.upgrade();
    let answer = get(node.http, "/1KiB/stored").unwrap();
    assert!(answer.contains("fwd=uri-miss"), "{answer}");
    node.upgrade();
    assert!(
        get(node.http, "/1KiB/stored").unwrap().contains("hit"),
        "the tier is used again\n{}",
        node.log()
    );
}

/// Failure: an upgrade ends a systemd service that watches its first process only.
#[test]
fn a_service_ends_with_its_first_process() {
    let node = Node::start_with("[ndn]\nenabled = false\n", |command| {
        command
            .env("INVOCATION_ID", "0123")
            .env_remove("NOTIFY_SOCKET")
            .env_remove("SYSTEMD_EXEC_PID");
    });
    let log = refused(&node, 1);
    assert!(log.contains("Type=notify"), "{log}");
}
