//! Failure: `larder get` does not fetch what docs/guides/http-over-ndn.md describes: a page of an
//! HTTP origin by its name. Uses the real program, an egress gateway, and an origin over a socket.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A node with an egress gateway.
struct Far {
    directory: TempDir,
    node: Child,
}

impl Drop for Far {
    fn drop(&mut self) {
        let _ = self.node.kill();
        let _ = self.node.wait();
    }
}

impl Far {
    fn of(origin: SocketAddr) -> Far {
        let directory = tempfile::tempdir().unwrap();
        let (socket, config) = (
            directory.path().join("nfd.sock"),
            directory.path().join("node.toml"),
        );
        let key = keys("ed25519.pem");
        let text = format!(
            "[ndn]\nunix = {socket:?}\ntcp = \"\"\nudp = \"\"\nwebsocket = \"\"\n\
             [ndn.gateway]\nprefix = \"/far\"\norigin = \"http://{origin}\"\nkey = {key:?}\n\
             [http]\nlisten = \"\"\n[admin]\nlisten = \"\"\n"
        );
        fs::write(&config, text).unwrap();
        let mut node = Command::new(env!("CARGO_BIN_EXE_larder"));
        let node = node
            .arg("run")
            .arg(&config)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        while UnixStream::connect(&socket).is_err() {
            assert!(Instant::now() < deadline, "the node does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        Far { directory, node }
    }

    fn get(&self, name: &str, more: &[&Path]) -> Output {
        let transport = format!(
            "unix://{}",
            self.directory.path().join("nfd.sock").display()
        );
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
            let got = command
                .args(["get", name])
                .args(more)
                .env("NDN_CLIENT_TRANSPORT", &transport)
                .output()
                .unwrap();
            // The node listens before its gateway has registered the prefix.
            if Instant::now() > deadline
                || !String::from_utf8_lossy(&got.stderr).contains("no route")
            {
                return got;
            }
        }
    }
}

fn keys(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../packet/tests/keys")
        .join(name)
}

/// Answers with the target, twenty thousand times, and forbids caches to store `/own`.
fn origin() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(stream));
        }
    });
    address
}

fn answer(mut stream: TcpStream) -> Option<()> {
    let mut lines = BufReader::new(stream.try_clone().ok()?).lines();
    loop {
        let target = lines.next()?.ok()?.split(' ').nth(1)?.to_owned();
        while !lines.next()?.ok()?.is_empty() {}
        let (status, field) = match target.as_str() {
            "/none" => ("404 Not Found", "x-a: b"),
            "/own" => ("200 OK", "cache-control: private"),
            _ => ("200 OK", "cache-control: max-age=60"),
        };
        let body = page(&target);
        write!(
            stream,
            "HTTP/1.1 {status}\r\n{field}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .ok()?;
    }
}

fn page(target: &str) -> String {
    target.repeat(20_000)
}

#[test]
fn a_page_comes_by_its_name_signed_by_the_far_node() {
    let far = Far::of(origin());
    let trust = [Path::new("--trust"), &keys("ed25519.pub.pem")];
    for (name, target) in [
        ("/far/example.com/img/logo.png", "/img/logo.png"),
        ("/far/example.com/search%3Fq%3Da%2Fb", "/search?q=a/b"),
        // An empty component has three dots in NDN's notation.
        ("/far/example.com/list/...", "/list/"),
    ] {
        let got = far.get(name, &trust);
        assert!(
            got.status.success(),
            "{name}: {}",
            String::from_utf8_lossy(&got.stderr)
        );
        assert!(
            got.stdout == page(target).into_bytes(),
            "{name}: {} bytes",
            got.stdout.len()
        );
    }
    let got = far.get(
        "/far/example.com/img/logo.png",
        &[Path::new("--trust"), &keys("p256.pub.pem")],
    );
    assert!(
        !got.status.success() && got.stdout.is_empty(),
        "by another's key"
    );
}

#[test]
fn what_is_not_for_everybody_is_no_page() {
    let far = Far::of(origin());
    for name in ["/far/example.com/none", "/far/example.com/own"] {
        let got = far.get(name, &[]);
        let said = String::from_utf8_lossy(&got.stderr).into_owned();
        assert!(
            !got.status.success() && got.stdout.is_empty() && said.contains("no such object"),
            "{name}: {said}"
        );
    }
}
