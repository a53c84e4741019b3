//! A node with its own directory, for tests that transfer files by the real program.

use larder_packet::{
    ControlParameters, DataBuilder, DigestSigner, Interest, InterestBuilder, LpPacket, Name,
    SignatureFreshness,
};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A node with its own directory.
pub(crate) struct Home {
    directory: TempDir,
    _node: Running,
}

/// A process that ends with the test.
pub(crate) struct Running {
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
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Running { child, out }
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end. Returns the exit status, standard error, and the rest of standard output.
    pub(crate) fn end(mut self) -> (Option<i32>, String, String) {
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

impl Home {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("nfd.sock");
        let config = directory.path().join("node.toml");
        let text = format!(
            "[ndn]\nunix = {socket:?}\ntcp = \"\"\nudp = \"\"\nwebsocket = \"\"\n[http]\nlisten = \"\"\n[admin]\nlisten = \"\"\n"
        );
        fs::write(&config, text).unwrap();
        let node = Running::start(
            Command::new(env!("CARGO_BIN_EXE_larder"))
                .arg("run")
                .arg(&config),
        );
        let deadline = Instant::now() + Duration::from_secs(20);
        while UnixStream::connect(&socket).is_err() {
            assert!(Instant::now() < deadline, "the node does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        Home {
            directory,
            _node: node,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn file(&self, name: &str, size: usize) -> PathBuf {
        let bytes: Vec<u8> = (0..size as u64)
            .map(|n| (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8)
            .collect();
        fs::write(self.path(name), bytes).unwrap();
        self.path(name)
    }

    pub(crate) fn larder(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
        let transport = format!("unix://{}", self.path("nfd.sock").display());
        command
            .args(arguments)
            .env("NDN_CLIENT_TRANSPORT", transport)
            .current_dir(self.directory.path());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.larder(arguments).output().unwrap()
    }

    /// Starts a server, and waits until it reports that it serves.
    pub(crate) fn serve(&self, arguments: &[&str]) -> (Running, String) {
        let mut server = Running::start(&mut self.larder(arguments));
        let line = server.line();
        assert!(
            !line.is_empty(),
            "{arguments:?} did not start: {:?}",
            server.end()
        );
        (server, line)
    }

    /// Returns the files that the test did not create.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let names = fs::read_dir(self.directory.path()).unwrap();
        names
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.contains("part"))
            .collect()
    }
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

pub(crate) fn assert_same(left: &Path, right: &Path) {
    assert!(
        fs::read(left).unwrap() == fs::read(right).unwrap(),
        "{left:?} differs from {right:?}"
    );
}

/// Starts a producer of single Data with the prefix /plain. `content` returns the answer for each
/// name.
pub(crate) fn produce_plain(
    home: &Home,
    content: impl Fn(&str) -> Option<(Name, &'static [u8])> + Send + 'static,
) {
    let mut stream = UnixStream::connect(home.path("nfd.sock")).unwrap();
    let parameters = ControlParameters {
        name: Some("/plain".parse().unwrap()),
        ..ControlParameters::default()
    };
    let mut command: Name = "/localhost/nfd/rib/register".parse().unwrap();
    command.push_generic(&parameters.encode());
    let signed = InterestBuilder::new(command)
        .nonce(1)
        .sign(&DigestSigner, SignatureFreshness::default())
        .unwrap();
    stream.write_all(&signed).unwrap();
    let (registered, wait) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let (mut received, mut buffer) = (Vec::new(), [0; 9000]);
        loop {
            match stream.read(&mut buffer) {
                Ok(0) | Err(_) => return,
                Ok(read) => received.extend_from_slice(&buffer[..read]),
            }
            while let Some(length) = larder_packet::tlv::frame(&received, 9000).unwrap() {
                let frame: Vec<u8> = received.drain(..length).collect();
                let packet = LpPacket::decode(&frame).unwrap().fragment.unwrap();
                let Ok(interest) = Interest::decode(packet) else {
                    registered.send(()).unwrap();
                    continue;
                };
                if let Some((name, content)) = content(&interest.name.to_string()) {
                    let mut builder = DataBuilder::new(name.as_name()).content(content);
                    if let Some(last) = name
                        .as_name()
                        .last()
                        .filter(|last| last.as_segment().is_some())
                    {
                        builder = builder.final_block_id(last);
                    }
                    let mut data = builder.build(&DigestSigner).unwrap();
                    if content == b"corrupt" {
                        // The last byte is one of the digest.
                        *data.last_mut().unwrap() ^= 1;
                    }
                    stream.write_all(&data).unwrap();
                }
            }
        }
    });
    wait.recv_timeout(Duration::from_secs(20))
        .expect("the prefix is registered");
}
