//! Failure: a new process does not get the settings of its file, or a right that only the first one
//! had is needed again.

use super::{Node, data, get, wait};
use rustix::process::Signal;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Failure: the socket file of the old process keeps its mode.
#[test]
fn a_socket_file_keeps_its_mode() {
    let mut node = Node::start("[ndn]\nenabled = false\n");
    let (file, socket) = (node.path("larder.toml"), node.path("http.sock"));
    let text = std::fs::read_to_string(&file).unwrap();
    let plain = format!("\"unix:{}\"", socket.display());
    let changed = text.replace(&plain, &format!("{{ address = {plain}, mode = \"0600\" }}"));
    assert_ne!(text, changed);
    std::fs::write(&file, changed).unwrap();
    node.upgrade();
    wait("the new mode", || {
        std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777 == 0o600
    });
}

/// Failure: a reload is lost, because the new process has read its file before.
#[test]
fn a_reload_is_lost() {
    let mut node = Node::start("[ndn]\nenabled = false\n");
    let (program, starts, go) = (node.path("larder"), node.path("starts"), node.path("go"));
    // Starts when it may.
    std::fs::remove_file(&program).unwrap();
    let script = format!(
        "#!/bin/sh\n: >'{}'\nuntil [ -e '{}' ]; do sleep 0.05; done\nexec '{}' \"$@\"\n",
        starts.display(),
        go.display(),
        env!("CARGO_BIN_EXE_larder")
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    node.signal(Signal::USR2);
    wait("a start", || starts.exists());
    node.signal(Signal::HUP);
    wait("the signal", || {
        node.log().contains("the reload waits for the new process")
    });
    std::fs::write(&go, "").unwrap();
    node.upgraded();
    wait("a reload of the new process", || {
        node.log().matches("reloaded applied=").count() == 1
    });
}

/// Returns a free port that only root can bind.
fn privileged_port(after: u16) -> u16 {
    (after + 1..1024)
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .unwrap()
}

/// Failure: a node that has given up the rights of root cannot be upgraded, because it would bind
/// ports below 1024 again. The test needs root.
#[test]
fn rights_of_root_are_needed_again() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let https = privileged_port(600);
    let ndn = privileged_port(https);
    let more = format!(
        "[http.tls]\nlisten = \"127.0.0.1:{https}\"\ncertificate = \"FOLDER/cert.pem\"\nkey = \"FOLDER/cert.key\"\n\
         [ndn]\ntcp = \"127.0.0.1:{ndn}\"\nudp = \"127.0.0.1:{ndn}\"\nunix = \"\"\nwebsocket = \"\"\n\
         [process]\nuser = \"nobody\"\n"
    );
    let mut node = Node::start_with(&more, |command| {
        let program = Path::new(command.get_program()).to_owned();
        let folder = program.parent().unwrap();
        std::fs::set_permissions(folder, PermissionsExt::from_mode(0o755)).unwrap();
        // The user may have no way to the others.
        std::fs::remove_file(&program).unwrap();
        std::fs::copy(env!("CARGO_BIN_EXE_larder"), &program).unwrap();
        for (from, to) in [("localhost.pem", "cert.pem"), ("localhost.key", "cert.key")] {
            std::fs::copy(data(from), folder.join(to)).unwrap();
            std::fs::set_permissions(folder.join(to), PermissionsExt::from_mode(0o644)).unwrap();
        }
    });
    for _ in 0..2 {
        node.upgrade();
        assert!(get(node.http, "/10/a").is_some_and(|answer| answer.starts_with("HTTP/1.1 200 ")));
    }
}
