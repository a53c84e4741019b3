//! Failure: a socket of systemd (`LISTEN_FDS`) is not used, or its file is removed.

use super::{PATIENCE, get, wait};
use crate::vacant::vacant;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::process::{Child, Command, Stdio};

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_passed_socket_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let (tcp, path) = (
        TcpListener::bind("127.0.0.1:0").unwrap(),
        folder.path().join("http.sock"),
    );
    let (unix, address, other, admin) = (
        UnixListener::bind(&path).unwrap(),
        tcp.local_addr().unwrap(),
        vacant(),
        vacant(),
    );
    let unused = TcpListener::bind("127.0.0.1:0").unwrap();
    let unused_at = unused.local_addr().unwrap();
    // A request from before the start waits in the socket.
    let mut early = TcpStream::connect(address).unwrap();
    early.set_read_timeout(Some(PATIENCE)).unwrap();
    early
        .write_all(b"GET /10/a HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        .unwrap();
    // The shell gives the descriptors the numbers that systemd uses, and its own id to the node.
    let script = "exec 3<&0 4<&1 5<&2 0</dev/null 1>&0 2>\"$LOG\"; export LISTEN_PID=$$ LISTEN_FDS=3; exec \"$@\"";
    let log = folder.path().join("log");
    File::create(&log).unwrap();
    let mut command = Command::new("sh");
    command.args([
        "-c",
        script,
        "sh",
        env!("CARGO_BIN_EXE_larder"),
        "run",
        "--set",
        "ndn.enabled=false",
    ]);
    command.args([
        "--set",
        &format!(
            "http.listen=[\"{address}\", \"unix:{}\", \"{other}\"]",
            path.display()
        ),
    ]);
    command
        .args(["--admin", &admin.to_string()])
        .env("LOG", &log);
    command
        .stdin(OwnedFd::from(tcp))
        .stdout(OwnedFd::from(unix))
        .stderr(Stdio::from(OwnedFd::from(unused)));
    let mut node = Running(command.spawn().unwrap());
    let mut answer = String::new();
    early.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let mut local = std::os::unix::net::UnixStream::connect(&path).unwrap();
    local.write_all(b"GET /10/a HTTP/1.0\r\n\r\n").unwrap();
    local.read_to_string(&mut answer).unwrap();
    assert!(
        get(other, "/10/a").is_some_and(|answer| answer.starts_with("HTTP/1.1 200 ")),
        "its own listener"
    );
    let said = || std::fs::read_to_string(&log).unwrap();
    wait("a warning", || said().contains(&unused_at.to_string()));
    assert!(said().contains(".socket unit"), "{}", said());
    let pid = rustix::process::Pid::from_child(&node.0);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(node.0.wait().unwrap().success(), "{}", said());
    assert!(path.exists(), "the file belongs to systemd");
}
