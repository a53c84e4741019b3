//! The life of a node's process: the real program is replaced, and started with sockets of another
//! process, while clients send requests.

mod clients;
mod failed_upgrades;
mod ndn_producers;
mod ndn_reloads;
mod new_settings;
mod passed_sockets;
mod reloads;
mod upgrades_lose_requests;

use crate::vacant::vacant;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A node and the processes that have replaced it, in a folder of its own. The last one is killed
/// at the end.
pub(crate) struct Node {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) http: SocketAddr,
    pub(crate) admin: SocketAddr,
    child: Child,
    pids: Vec<u32>,
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for pid in &self.pids {
            signal(*pid, Signal::KILL);
        }
    }
}

pub(crate) fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
    // A process that has ended gets none.
    let _ = kill_process(pid, signal);
}

/// Waits until `is_so`.
pub(crate) fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

impl Node {
    /// Starts a node whose file has the listeners of `[http]` and `[admin]`, and then `more`, which
    /// begins with keys of `[http]`.
    pub(crate) fn start(more: &str) -> Node {
        Node::start_with(more, |_| {})
    }

    pub(crate) fn start_with(more: &str, change: impl FnOnce(&mut Command)) -> Node {
        let (folder, http, admin) = (tempfile::tempdir().unwrap(), vacant(), vacant());
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_larder"), folder.path().join("larder"))
            .unwrap();
        let file = folder.path().join("larder.toml");
        let more = more.replace("FOLDER", folder.path().to_str().unwrap());
        let unix = folder.path().join("http.sock");
        let text = format!(
            "[admin]\nlisten = \"{admin}\"\ntoken = \"0123456789abcdef\"\n[http]\nlisten = [\"{http}\", \"unix:{}\"]\n{more}",
            unix.display()
        );
        std::fs::write(&file, text).unwrap();
        let mut command = Command::new(folder.path().join("larder"));
        command
            .arg("run")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command.stderr(File::create(folder.path().join("log")).unwrap());
        change(&mut command);
        let child = command.spawn().unwrap();
        let mut node = Node {
            folder,
            http,
            admin,
            child,
            pids: Vec::new(),
        };
        wait("a start", || node.pid().is_some());
        let pid = node.pid().unwrap();
        node.pids.push(pid);
        node
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap()
    }

    /// Returns the process that serves, as its status page tells; `None` if none answers.
    pub(crate) fn pid(&self) -> Option<u32> {
        let page = get(self.admin, "/status")?;
        page.split_once("\"pid\": ")?
            .1
            .split(|next: char| !next.is_ascii_digit())
            .next()?
            .parse()
            .ok()
    }

    /// Replaces the process, and waits until the new one has taken over and the old one has ended.
    pub(crate) fn upgrade(&mut self) {
        self.signal(Signal::USR2);
        self.upgraded();
    }

    /// Waits for the end of an upgrade.
    pub(crate) fn upgraded(&mut self) {
        let old = *self.pids.last().unwrap();
        let mut new = None;
        wait("an upgrade", || {
            let log = self.log();
            assert!(!log.contains("ERROR"), "{log}");
            // The old process may still answer after the new one has.
            new = self.pid().filter(|pid| *pid != old);
            new.is_some()
        });
        self.pids.extend(new);
        wait("the end of the old process", || self.has_ended(old));
    }

    fn has_ended(&mut self, pid: u32) -> bool {
        if pid == self.child.id() {
            return self
                .child
                .try_wait()
                .unwrap()
                .is_some_and(|status| status.success());
        }
        // A process whose parent does not wait for it stays as a zombie.
        std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .map_or(true, |stat| stat.contains(") Z "))
    }

    pub(crate) fn signal(&self, of: Signal) {
        signal(*self.pids.last().unwrap(), of);
    }

    /// Ends the node cleanly.
    pub(crate) fn stop(&mut self) {
        self.signal(Signal::TERM);
        let last = *self.pids.last().unwrap();
        wait("the end", || self.has_ended(last));
    }
}

/// Returns the answer to a request on a connection of its own; `None` if there is no whole one.
pub(crate) fn get(address: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    // The status page is shown under this name only.
    let host = if path == "/status" { "localhost" } else { "a" };
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"
    )
    .ok()?;
    let mut text = Vec::new();
    stream.read_to_end(&mut text).ok()?;
    String::from_utf8(text).ok()
}

/// A certificate file of the tests.
pub(crate) fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../proxy/tests/data")
        .join(name)
}
