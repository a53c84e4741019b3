//! Failure: put, get, ping or ping-server ends with the node, or stays without its registration
//! after the node has restarted, was replaced, or has forgotten a silent UDP face. Uses the real
//! program and real sockets.

use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);

/// A process that ends with the test.
struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    fn start(command: &mut Command, errors: Stdio) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Running { child, out }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end. Returns the exit status, standard error, and the rest of standard output.
    fn end(mut self) -> (Option<i32>, String, String) {
        let (mut errors, mut rest) = (String::new(), String::new());
        self.out.read_to_string(&mut rest).unwrap();
        self.child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut errors)
            .unwrap();
        (self.child.wait().unwrap().code(), errors, rest)
    }
}

/// Waits until `is_so`.
fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A node that can be ended and started again, with a directory of its own.
struct Home {
    directory: TempDir,
    node: Option<Running>,
    udp_port: u16,
}

impl Home {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let udp_port = UdpSocket::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let socket = directory.path().join("nfd.sock");
        let text = format!(
            "[ndn]\nunix = {socket:?}\ntcp = \"\"\nudp = \"127.0.0.1:{udp_port}\"\nwebsocket = \"\"\n\
             localhop_registration = true\n[http]\nlisten = \"\"\n[admin]\nlisten = \"\"\n"
        );
        fs::write(directory.path().join("node.toml"), text).unwrap();
        let mut home = Home {
            directory,
            node: None,
            udp_port,
        };
        home.start_node();
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn start_node(&mut self) {
        let file = self.path("node.toml");
        let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
        command.arg("run").arg(file);
        self.node = Some(Running::start(
            &mut command,
            fs::File::create(self.path("log")).unwrap().into(),
        ));
        wait("a start", || {
            UnixStream::connect(self.path("nfd.sock")).is_ok()
        });
    }

    /// Ends the node, without a farewell to its applications.
    fn kill_node(&mut self) {
        self.node = None;
    }

    fn larder(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
        let transport = format!("unix://{}", self.path("nfd.sock").display());
        command
            .args(arguments)
            .env("NDN_CLIENT_TRANSPORT", transport)
            .current_dir(self.directory.path());
        command
    }

    fn over_udp(&self, arguments: &[&str]) -> Command {
        let mut command = self.larder(arguments);
        command.env(
            "NDN_CLIENT_TRANSPORT",
            format!("udp4://127.0.0.1:{}", self.udp_port),
        );
        command
    }

    /// Returns true if an answer to a ping comes.
    fn is_answered(&self, prefix: &str) -> bool {
        let output = self
            .larder(&["ping", prefix, "-c", "1", "--lifetime", "500ms"])
            .output()
            .unwrap();
        output.status.success()
    }

    fn serve(&self, mut command: Command) -> Running {
        let mut server = Running::start(&mut command, Stdio::piped());
        let line = server.line();
        assert!(
            !line.is_empty(),
            "{command:?} did not start: {:?}",
            server.end()
        );
        server
    }

    fn file(&self, name: &str, size: usize) -> Vec<u8> {
        let bytes: Vec<u8> = (0..size as u64)
            .map(|n| (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8)
            .collect();
        fs::write(self.path(name), &bytes).unwrap();
        bytes
    }

    fn gets(&self, name: &str) -> Option<Vec<u8>> {
        let output = self
            .larder(&["get", name, "--retries", "1", "--lifetime", "500ms"])
            .output()
            .unwrap();
        output.status.success().then_some(output.stdout)
    }
}

/// Ends a server by SIGINT. It must have served until then.
fn ends_well(server: Running) -> String {
    server.signal(Signal::INT);
    let (status, errors, _) = server.end();
    assert_eq!(status, Some(0), "{errors}");
    errors
}

#[test]
fn servers_end_or_are_deaf_after_a_restart() {
    let mut home = Home::new();
    let content = home.file("file", 20_000);
    let pings = home.serve(home.larder(&["ping-server", "/p"]));
    let put = home.serve(home.larder(&["put", "/f", "file"]));
    for _ in 0..2 {
        assert!(home.is_answered("/p"));
        home.kill_node();
        home.start_node();
        wait("an answer after the restart", || home.is_answered("/p"));
        wait("the file after the restart", || {
            home.gets("/f").is_some_and(|bytes| bytes == content)
        });
    }
    for server in [pings, put] {
        let said = ends_well(server);
        assert_eq!(said.matches("closed the connection").count(), 2, "{said}");
        assert_eq!(said.matches("connected again").count(), 2, "{said}");
    }
}

#[test]
fn servers_over_udp_are_deaf_after_a_restart() {
    let mut home = Home::new();
    let content = home.file("file", 20_000);
    let pings = home.serve(home.over_udp(&["ping-server", "/p"]));
    let put = home.serve(home.over_udp(&["put", "/f", "file"]));
    assert!(home.is_answered("/p"));
    home.kill_node();
    home.start_node();
    wait("an answer after the restart", || home.is_answered("/p"));
    wait("the file after the restart", || {
        home.gets("/f").is_some_and(|bytes| bytes == content)
    });
    ends_well(pings);
    ends_well(put);
}

/// A node destroys a UDP face that is silent for ten minutes, as this command does.
#[test]
fn servers_over_udp_are_deaf_after_their_face_was_destroyed() {
    let home = Home::new();
    let pings = home.serve(home.over_udp(&["ping-server", "/p"]));
    assert!(home.is_answered("/p"));
    let list = home
        .larder(&["ctl", "face", "list", "--json"])
        .output()
        .unwrap()
        .stdout;
    let faces: serde_json::Value = serde_json::from_slice(&list).unwrap();
    let mut destroyed = 0;
    for face in faces.as_array().unwrap() {
        if face["uri"]
            .as_str()
            .is_some_and(|uri| uri.starts_with("udp4://127.0.0.1:"))
        {
            let id = face["face"].to_string();
            let output = home
                .larder(&["ctl", "face", "destroy", &id])
                .output()
                .unwrap();
            assert!(output.status.success(), "{output:?}");
            destroyed += 1;
        }
    }
    assert_eq!(destroyed, 1, "{faces}");
    wait("an answer of a new face", || home.is_answered("/p"));
    ends_well(pings);
}

#[test]
fn a_transfer_ends_with_the_node() {
    let mut home = Home::new();
    let content = home.file("file", 40_000_000);
    let put = home.serve(home.larder(&["put", "/f", "file"]));
    let get = Running::start(
        &mut home.larder(&[
            "get",
            "/f",
            "-o",
            "out",
            "--json",
            "--congestion",
            "fixed(window=1)",
        ]),
        Stdio::piped(),
    );
    let part_bytes = || {
        let parts = fs::read_dir(home.directory.path())
            .unwrap()
            .map(|entry| entry.unwrap());
        let sizes = parts.filter(|entry| entry.file_name().to_string_lossy().ends_with(".part"));
        sizes
            .map(|entry| entry.metadata().map_or(0, |metadata| metadata.len()))
            .sum::<u64>()
    };
    wait("a part of the file", || part_bytes() > 0);
    assert!(
        !home.path("out").exists(),
        "the transfer was over before the node ended"
    );
    home.kill_node();
    home.start_node();
    let (status, errors, _) = get.end();
    assert_eq!(status, Some(0), "{errors}");
    assert!(
        errors.contains("closed the connection") && errors.contains("connected again"),
        "{errors}"
    );
    assert!(fs::read(home.path("out")).unwrap() == content);
    ends_well(put);
}

#[test]
fn pings_end_with_the_node() {
    let mut home = Home::new();
    let server = home.serve(home.larder(&["ping-server", "/p"]));
    let mut ping = Running::start(
        &mut home.larder(&["ping", "/p", "-i", "20ms", "--lifetime", "200ms"]),
        Stdio::piped(),
    );
    let answered = |ping: &mut Running| {
        while !ping.line().starts_with("content from /p") {
            assert!(ping.child.try_wait().unwrap().is_none(), "it has ended");
        }
    };
    answered(&mut ping);
    home.kill_node();
    while !ping.line().starts_with("timeout from /p") {
        assert!(ping.child.try_wait().unwrap().is_none(), "it has ended");
    }
    home.start_node();
    answered(&mut ping);
    ping.signal(Signal::INT);
    let (_, _, rest) = ping.end();
    assert!(rest.contains("packets transmitted"), "{rest}");
    ends_well(server);
}

#[test]
fn a_command_waits_for_a_node_that_has_gone() {
    let mut home = Home::new();
    home.kill_node();
    for arguments in [
        &["ctl", "face"][..],
        &["get", "/x"],
        &["ping", "/x", "-c", "1"],
        &["ping-server", "/x"],
    ] {
        let output = home.larder(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.ends_with("start a node with `larder run`\n"), "{said}");
        let output = home.over_udp(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    }
}
