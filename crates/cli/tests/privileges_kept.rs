//! Detects a node that keeps privileges of root, or that does not tell its supervisor its state.
//! The real program, started as root in a child process.
#![expect(clippy::print_stderr, reason = "a test that is skipped says so")]

use crate::vacant::vacant;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn vacant_port() -> u16 {
    vacant().port()
}

fn page(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nhost: a\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// Returns a command of a node without NDN, and the port of its admin server.
fn node(arguments: &[&str]) -> (Command, u16) {
    let (http, admin) = (vacant_port(), vacant_port());
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command.args([
        "run",
        "--listen",
        &format!("127.0.0.1:{http}"),
        "--admin",
        &format!("127.0.0.1:{admin}"),
    ]);
    command
        .args(["--set", "ndn.enabled=false", "--set", "http.threads=2"])
        .args(arguments);
    (command, admin)
}

/// Starts a node and waits for its last address.
fn start(command: &mut Command) -> Running {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while !lines
        .next()
        .expect("the node has ended")
        .unwrap()
        .starts_with("admin ")
    {}
    Running(child)
}

/// Returns the values of a field in the status of each thread of a process. A thread may end
/// meanwhile.
fn of_threads(pid: u32, field: &str) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let status = |thread: std::io::Result<fs::DirEntry>| {
        fs::read_to_string(thread.ok()?.path().join("status")).ok()
    };
    let value = |text: String| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(field))
            .unwrap()
            .to_owned();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    threads.filter_map(status).map(value).collect()
}

#[test]
fn a_node_keeps_privileges_of_root() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: only root can give up privileges");
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(
        folder.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let tier = folder.path().join("tier");
    let disk = [
        format!("http.disk.path={}", tier.display()),
        "http.disk.capacity=64MiB".to_owned(),
    ];
    let as_nobody = [
        "--set",
        "process.user=nobody",
        "--set",
        &disk[0],
        "--set",
        &disk[1],
    ];
    let (mut command, admin) = node(&as_nobody);
    let node = start(&mut command);
    let pid = node.0.id();
    for (field, value) in [
        ("CapEff:", "0000000000000000"),
        ("CapPrm:", "0000000000000000"),
        ("CapAmb:", "0000000000000000"),
        ("NoNewPrivs:", "1"),
    ] {
        let values = of_threads(pid, field);
        assert!(
            values.len() > 4 && values.iter().all(|found| found == value),
            "{field} {values:?}"
        );
    }
    let nobody = fs::metadata(&tier).unwrap().uid();
    assert_ne!(nobody, 0, "the disk tier belongs to root");
    let user = format!("{nobody} {nobody} {nobody} {nobody}");
    assert!(of_threads(pid, "Uid:").iter().all(|found| *found == user));
    assert!(
        of_threads(pid, "Gid:")
            .iter()
            .all(|found| !found.split(' ').any(|group| group == "0"))
    );
    assert!(
        of_threads(pid, "Groups:")
            .iter()
            .all(|found| !found.split(' ').any(|group| group == "0"))
    );
    // It still serves, reads its own figures, and reloads.
    kill_process(Pid::from_child(&node.0), Signal::HUP).unwrap();
    assert!(page(admin, "/metrics").contains("process_open_fds "));
}

#[test]
fn a_file_that_the_user_cannot_read_is_noticed_at_the_next_reload() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: only root can give up privileges");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("larder.toml");
    fs::write(&file, "[process]\nuser = \"nobody\"\n").unwrap();
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let refused =
        |command: &mut Command| String::from_utf8(command.output().unwrap().stderr).unwrap();
    let said = refused(node(&[file.to_str().unwrap()]).0.arg("--log-level=error"));
    assert!(
        said.contains("larder.toml")
            && said.contains("nobody")
            && said.contains("change its owner"),
        "{said}"
    );
    let said = refused(&mut node(&["--set", "process.user=no-such-user"]).0);
    assert!(said.contains("no such user"), "{said}");
    assert!(Path::new(&file).exists());
}

/// Returns the next message to a supervisor.
/// The files are read with the rights of the user, also those that root could read.
#[test]
fn files_of_root_are_served_by_another_user() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: only root can give up privileges");
    }
    let set_mode = |path: &Path, mode| {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    let folder = tempfile::tempdir().unwrap();
    for (name, mode) in [("open.txt", 0o644), ("closed.txt", 0o600)] {
        fs::write(folder.path().join(name), "text").unwrap();
        set_mode(&folder.path().join(name), mode);
    }
    let (port, admin) = (vacant_port(), vacant_port());
    let command = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
        let [listen, admin] = [port, admin].map(|port| format!("127.0.0.1:{port}"));
        command.args(["run", "--listen", &listen, "--admin", &admin, "--origin"]);
        command.arg(folder.path());
        command.args(["--set", "ndn.enabled=false", "--set", "process.user=nobody"]);
        command
    };
    set_mode(folder.path(), 0o700);
    for arguments in [&["--check"][..], &[]] {
        let refused = command().args(arguments).output().unwrap();
        let said = String::from_utf8(refused.stderr).unwrap();
        let is_named = said.contains("[http] origin") && said.contains("nobody");
        assert!(!refused.status.success() && is_named, "{said}");
    }
    set_mode(folder.path(), 0o755);
    let _node = start(&mut command());
    assert_eq!(page(port, "/open.txt"), "text");
    assert_eq!(
        page(port, "/closed.txt"),
        "larder: this file is not served\n"
    );
}

fn message(socket: &UnixDatagram) -> String {
    let mut bytes = [0; 4096];
    let length = socket
        .recv(&mut bytes)
        .expect("no message for the supervisor");
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

#[test]
fn the_supervisor_does_not_know_the_state_of_the_node() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let (mut command, _) = node(&[]);
    let mut node = start(
        command
            .env("NOTIFY_SOCKET", &path)
            .env("WATCHDOG_USEC", "400000"),
    );
    let until = |wanted: &[&str]| {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let text = message(&socket);
            if wanted.iter().all(|wanted| text.contains(wanted)) {
                return text;
            }
            assert!(Instant::now() < deadline, "no {wanted:?}");
        }
    };
    assert!(message(&socket).contains("READY=1"));
    until(&["WATCHDOG=1"]);
    kill_process(Pid::from_child(&node.0), Signal::HUP).unwrap();
    until(&["RELOADING=1", "MONOTONIC_USEC="]);
    until(&["READY=1"]);
    kill_process(Pid::from_child(&node.0), Signal::TERM).unwrap();
    until(&["STOPPING=1"]);
    assert!(node.0.wait().unwrap().success());
}
