//! A folder with configurations, and nodes that end with their test.

use crate::vacant::vacant;
use std::fs;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// The time after which a test has failed. Nothing here takes that long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the program with arguments, and without what the environment says of Larder.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command
        .args(arguments)
        .env_remove("NDN_CLIENT_TRANSPORT")
        .env_remove("LARDER_TOKEN")
        .stdin(Stdio::null());
    command
}

pub(crate) fn larder(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

/// Returns standard output and standard error.
pub(crate) fn said(output: &Output) -> String {
    let both = [&output.stdout, &output.stderr];
    both.map(|text| String::from_utf8_lossy(text)).concat()
}

pub(crate) fn free_port() -> u16 {
    vacant().port()
}

/// A folder for the files of a test.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file. Returns its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).unwrap();
        self.path(name).to_str().unwrap().to_owned()
    }
}

/// A node that ends with the test.
pub(crate) struct Node {
    pub(crate) child: Child,
    pub(crate) greeting: String,
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Node {
    /// Starts a node and waits until it has printed its addresses. The admin server's comes last.
    pub(crate) fn start(command: &mut Command) -> Node {
        let mut errors = tempfile::tempfile().unwrap();
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(errors.try_clone().unwrap())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut greeting = String::new();
        while !greeting.contains("admin ") {
            let Some(line) = lines.next() else {
                errors.rewind().unwrap();
                let errors = std::io::read_to_string(errors).unwrap();
                panic!("the node has ended: {errors}");
            };
            greeting += &format!("{}\n", line.unwrap());
        }
        Node { child, greeting }
    }
}

/// Returns the response of a server on this machine.
pub(crate) fn get(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nhost: localhost\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}
