//! Failure: a killed node loses responses that its disk tier received more than a second before, or
//! serves half of one. Uses the real program, SIGKILL at any moment, and no origin after the
//! restart.

use crate::vacant::vacant;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

struct Node(Child);

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Node {
    fn start(config: &Path, listen: SocketAddr) -> Node {
        let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
        let child = command
            .arg("run")
            .arg(config)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let node = Node(child);
        let deadline = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(listen).is_err() {
            assert!(Instant::now() < deadline, "the node does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        node
    }
}

/// Returns bytes that identify page, version and position.
fn body(page: u64, version: u64) -> Vec<u8> {
    let length = 500 + page * 137 % 30_000;
    (0..length)
        .map(|at| (at ^ page.wrapping_mul(31) ^ version.wrapping_mul(7)) as u8)
        .collect()
}

/// Serves `/PAGE/VERSION` until the test ends.
fn origin() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream);
                while let Some((line, fields)) = head(&mut reader) {
                    let version: u64 = fields["version"].parse().unwrap();
                    let page: u64 = line.split(['/', ' ']).nth(2).unwrap().parse().unwrap();
                    let body = body(page, version);
                    let answer = format!(
                        "HTTP/1.1 200 OK\r\ncache-control: max-age=9999\r\nversion: {version}\r\ncontent-length: {}\r\n\r\n",
                        body.len()
                    );
                    if reader
                        .get_mut()
                        .write_all(&[answer.as_bytes(), &body].concat())
                        .is_err()
                    {
                        return;
                    }
                }
            });
        }
    });
    address
}

fn head(from: &mut impl BufRead) -> Option<(String, BTreeMap<String, String>)> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if from.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let first = lines.remove(0);
    let field = |line: String| {
        line.split_once(':')
            .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
    };
    Some((first, lines.into_iter().filter_map(field).collect()))
}

/// Returns the version of a page that the node serves completely, or `None` if it has none or ends
/// in the meantime.
fn get(node: &mut BufReader<TcpStream>, page: u64, ask: &str) -> Option<u64> {
    let request = format!("GET /{page} HTTP/1.1\r\nhost: h\r\n{ask}\r\n\r\n");
    node.get_mut().write_all(request.as_bytes()).ok()?;
    let (line, fields) = head(node)?;
    let mut found = vec![0; fields["content-length"].parse().ok()?];
    node.read_exact(&mut found).ok()?;
    if !line.contains(" 200 ") {
        return None;
    }
    let version = fields["version"].parse().unwrap();
    assert!(found == body(page, version), "page {page} is torn");
    Some(version)
}

fn connect(to: SocketAddr) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(to).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    BufReader::new(stream)
}

#[test]
fn what_is_older_than_a_second_survives_sigkill() {
    let folder = tempfile::tempdir().unwrap();
    let listen = vacant();
    let config = |origin: SocketAddr| {
        let path = folder.path().join("node.toml");
        let tier = folder.path().join("tier");
        let text = format!(
            "[ndn]\nunix = \"\"\ntcp = \"\"\nudp = \"\"\nwebsocket = \"\"\n[admin]\nlisten = \"\"\n[http]\nlisten = \"{listen}\"\n\
             origin = \"http://{origin}\"\ncache = \"1MiB\"\n[http.disk]\npath = {tier:?}\ncapacity = \"64MiB\"\n"
        );
        std::fs::write(&path, text).unwrap();
        path
    };
    let nowhere = vacant();
    let origin = origin();
    // For each page: the received versions, with their times.
    let mut received: BTreeMap<u64, Vec<(u64, Instant)>> = BTreeMap::new();
    let mut version = 0;
    for round in 0..2 {
        let mut node = Node::start(&config(origin), listen);
        let mut client = connect(listen);
        let (begun, wait) = std::sync::mpsc::channel();
        let killer = std::thread::spawn(move || {
            wait.recv().unwrap();
            std::thread::sleep(Duration::from_millis(1400 + round * 130));
            node.0.kill().unwrap();
            (node, Instant::now())
        });
        // Half of the requests are for new pages, half for newer versions.
        for page in 0.. {
            // However slow the machine is, enough is stored more than a second before the end.
            if page == 40 {
                begun.send(()).unwrap();
            }
            version += 1;
            let page = if page % 2 == 0 {
                page / 2 + round * 1000
            } else {
                page * 7 % 50
            };
            match get(
                &mut client,
                page,
                &format!("cache-control: no-cache\r\nversion: {version}"),
            ) {
                Some(version) => received
                    .entry(page)
                    .or_default()
                    .push((version, Instant::now())),
                None => break,
            }
        }
        // The killer does not wait for ever if the node ended by itself.
        drop(begun);
        let (node, killed) = killer.join().unwrap();
        drop(node);
        let _node = Node::start(&config(nowhere), listen);
        let mut client = connect(listen);
        for (page, versions) in &received {
            let safe = versions
                .iter()
                .rev()
                .find(|(_, at)| killed.saturating_duration_since(*at) > Duration::from_secs(1));
            let found = get(&mut client, *page, "x: y");
            let known = versions.iter().any(|(version, _)| Some(*version) == found);
            assert!(
                found.is_none() || known,
                "page {page} has a version that was never served: {found:?}"
            );
            if let Some((safe, _)) = safe {
                assert!(
                    found >= Some(*safe),
                    "page {page}: {found:?}, and {safe} was stored more than a second before"
                );
            }
        }
        let safe = received
            .values()
            .flatten()
            .filter(|(_, at)| killed.saturating_duration_since(*at) > Duration::from_secs(1));
        assert!(safe.count() > 20, "too little was stored for a test");
        // A lost version is not expected later.
        for (page, versions) in &mut received {
            let found = get(&mut client, *page, "x: y");
            versions.retain(|(version, _)| Some(*version) <= found);
        }
    }
}
