//! Failure: a producer ends with the process that an upgrade replaces, or stays without its
//! registration at the new one.

use super::{Node, wait};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn larder(node: &Node, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command.args(arguments).current_dir(node.folder.path());
    command.env(
        "NDN_CLIENT_TRANSPORT",
        format!("unix://{}", node.path("ndn.sock").display()),
    );
    command
}

/// Starts a server, and waits until it says that it serves.
fn serve(node: &Node, arguments: &[&str]) -> Server {
    let mut server = Server(
        larder(node, arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(!line.is_empty(), "{arguments:?} did not start");
    server
}

#[test]
fn producers_are_deaf_after_an_upgrade() {
    let ndn = "[ndn]\nunix = \"FOLDER/ndn.sock\"\ntcp = \"\"\nudp = \"\"\nwebsocket = \"\"\n";
    let mut node = Node::start(ndn);
    std::fs::write(node.path("file"), b"content").unwrap();
    let mut servers = [
        serve(&node, &["ping-server", "/p"]),
        serve(&node, &["put", "/f", "file"]),
    ];
    let ping = |node: &Node| {
        let output = larder(node, &["ping", "/p", "-c", "1", "--lifetime", "500ms"])
            .output()
            .unwrap();
        output.status.success()
    };
    let get = |node: &Node| {
        let output = larder(
            node,
            &["get", "/f", "--retries", "1", "--lifetime", "500ms"],
        )
        .output()
        .unwrap();
        output.status.success() && output.stdout == b"content"
    };
    assert!(ping(&node) && get(&node));
    for _ in 0..2 {
        node.upgrade();
        wait("an answer to a ping by the new process", || ping(&node));
        wait("the file from the new process", || get(&node));
    }
    for server in &mut servers {
        assert!(server.0.try_wait().unwrap().is_none(), "a server has ended");
    }
}
