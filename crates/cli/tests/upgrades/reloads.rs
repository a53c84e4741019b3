//! Failure: a key of the file needs a restart, a reload takes something away that it does not name,
//! or a refused one changes something.

use super::{Node, PATIENCE, get, wait};
use crate::vacant::vacant;
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

impl Node {
    /// Replaces texts of the file.
    pub(crate) fn edit(&self, changes: &[(&str, &str)]) {
        let file = self.path("larder.toml");
        let mut text = std::fs::read_to_string(&file).unwrap();
        for (from, to) in changes {
            assert!(text.contains(from), "no {from:?} in {text}");
            text = text.replace(from, to);
        }
        std::fs::write(&file, text).unwrap();
    }

    /// Changes the file and reloads it. Returns the lines that the node logs until `end`.
    pub(crate) fn reload(&self, changes: &[(&str, &str)], end: &str) -> String {
        self.edit(changes);
        let before = self.log().len();
        self.signal(Signal::HUP);
        let deadline = Instant::now() + PATIENCE;
        while !self.log()[before..].contains(end) {
            assert!(
                Instant::now() < deadline,
                "no {end:?} within {PATIENCE:?} in {}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        self.log()[before..].to_owned()
    }

    /// Changes the file, and applies all of it.
    pub(crate) fn reloaded(&self, changes: &[(&str, &str)]) {
        let log = self.reload(changes, "reloaded");
        assert!(log.contains(" INFO reloaded applied="), "{log}");
    }
}

/// A connection that stays open, and an object that is stored.
struct Kept(TcpStream);

impl Kept {
    /// Fetches the object.
    fn new(node: &Node) -> Kept {
        let stream = TcpStream::connect(node.http).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut kept = Kept(stream);
        assert!(
            kept.get("/10/kept")
                .contains("cache-status: larder; fwd=uri-miss")
        );
        kept
    }

    fn get(&mut self, target: &str) -> String {
        write!(self.0, "GET {target} HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
        let (mut text, mut byte) = (String::new(), [0]);
        while !text.ends_with("\r\n\r\n") {
            self.0.read_exact(&mut byte).unwrap();
            text.push(byte[0].into());
        }
        let text = text.to_ascii_lowercase();
        let length = text
            .split_once("content-length: ")
            .unwrap()
            .1
            .split('\r')
            .next()
            .unwrap();
        self.0
            .read_exact(&mut vec![0; length.parse().unwrap()])
            .unwrap();
        text
    }

    /// The connection is open, and the object is stored.
    fn assert_kept(&mut self) {
        let head = self.get("/10/kept");
        assert!(
            head.contains("cache-status: larder; hit") && !head.contains("connection: close"),
            "{head}"
        );
    }
}

/// A server that answers every request with its name.
fn server(name: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(stream, name));
        }
    });
    address
}

fn answer(mut stream: TcpStream, name: &str) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).unwrap_or(0) == 0 {
            return;
        }
        head.push(byte[0]);
    }
    let length = name.len();
    let _ = write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{name}"
    );
}

const NO_NDN: &str = "[ndn]\nenabled = false\n[log]\nlevel = \"info\"\n";

#[test]
fn the_format_of_the_log_needs_a_restart() {
    let node = Node::start(&format!("{NO_NDN}format = \"text\"\n"));
    let mut kept = Kept::new(&node);
    let log = node.reload(&[("\"text\"", "\"json\"")], "reloaded");
    let line = log
        .lines()
        .find(|line| line.contains("\"message\":\"reloaded\""))
        .expect("a line of JSON");
    assert!(line.starts_with('{') && line.ends_with('}'), "{line}");
    // Both change at once, and what is not logged applies too.
    let (larger, smaller) = ("[http]\n", "[http]\ncache = \"1MiB\"\n");
    node.edit(&[
        ("\"json\"", "\"text\""),
        ("\"info\"", "\"error\""),
        (larger, smaller),
    ]);
    node.signal(Signal::HUP);
    wait("a smaller cache", || {
        get(node.admin, "/status")
            .unwrap()
            .contains("\"capacity_bytes\": 1048576")
    });
    assert_eq!(node.log().matches("reloaded").count(), 1, "{}", node.log());
    let log = node.reload(&[("\"error\"", "\"info\"")], "reloaded");
    assert!(
        log.contains(" INFO reloaded applied=[\"log.level\"]"),
        "{log}"
    );
    kept.assert_kept();
}

#[test]
fn the_address_of_the_admin_pages_needs_a_restart() {
    let mut node = Node::start(NO_NDN);
    let mut kept = Kept::new(&node);
    let mut idle = TcpStream::connect(node.admin).unwrap();
    idle.set_read_timeout(Some(PATIENCE)).unwrap();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n")
        .unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"alive\n") {
        let mut byte = [0];
        idle.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
    let new = vacant();
    let old = std::mem::replace(&mut node.admin, new);
    node.reloaded(&[(&old.to_string(), &new.to_string())]);
    assert_eq!(idle.read(&mut [0]).unwrap(), 0, "the connection ends");
    assert!(
        TcpStream::connect(old).is_err(),
        "the old address is served"
    );
    assert!(get(new, "/readyz").unwrap().ends_with("ready\n"));
    // An address that overlaps the running one.
    let (narrow, wide) = (format!("\"{new}\""), format!("\"0.0.0.0:{}\"", new.port()));
    node.reloaded(&[(&narrow, &wide)]);
    assert!(get(new, "/readyz").unwrap().ends_with("ready\n"));
    node.reloaded(&[(&wide, &narrow)]);
    assert!(get(new, "/readyz").unwrap().ends_with("ready\n"));
    node.reloaded(&[(&format!("listen = \"{new}\""), "listen = \"\"")]);
    assert!(TcpStream::connect(new).is_err());
    node.reloaded(&[("listen = \"\"", &format!("listen = \"{new}\""))]);
    assert!(get(new, "/healthz").unwrap().ends_with("alive\n"));
    kept.assert_kept();
    drop(kept);
    // The new process gets that socket.
    node.upgrade();
    // A refused reload changes nothing, not even another key.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = taken.local_addr().unwrap().to_string();
    let changes = [
        (new.to_string(), other.as_str()),
        ("[http]\n".to_owned(), "[http]\ncache = \"1MiB\"\n"),
    ];
    let changes = changes.each_ref().map(|(from, to)| (from.as_str(), *to));
    let log = node.reload(&changes, "not reloaded");
    assert!(
        log.contains("[admin] listen") && log.contains(&other),
        "{log}"
    );
    assert!(
        get(new, "/status")
            .unwrap()
            .contains("\"capacity_bytes\": 268435456")
    );
}

#[test]
fn a_node_without_http_needs_a_restart_to_serve_it() {
    let mut node = Node::start(
        "enabled = false\nthreads = 1\n[ndn]\nunix = \"\"\ntcp = \"\"\nudp = \"\"\nwebsocket = \"\"\n",
    );
    assert!(TcpStream::connect(node.http).is_err());
    let status = get(node.admin, "/status").unwrap();
    assert!(!status.contains("\"http\""), "{status}");
    // All keys apply to what begins now.
    node.reloaded(&[(
        "enabled = false\nthreads = 1",
        "enabled = true\nthreads = 2",
    )]);
    let mut kept = Kept::new(&node);
    kept.assert_kept();
    assert!(get(node.admin, "/status").unwrap().contains("\"http\""));
    let mut purge = TcpStream::connect(node.admin).unwrap();
    let head = "POST /purge HTTP/1.1\r\nhost: a\r\nauthorization: Bearer 0123456789abcdef\r\nconnection: close\r\n";
    write!(
        purge,
        "{head}content-length: 22\r\n\r\n{{\"url\": \"http://b/10\"}}\n"
    )
    .unwrap();
    let mut purged = String::new();
    purge.read_to_string(&mut purged).unwrap();
    assert!(purged.starts_with("HTTP/1.1 200 "), "{purged}");
    node.reloaded(&[("enabled = true", "enabled = false")]);
    wait("no listener", || TcpStream::connect(node.http).is_err());
    assert!(kept.get("/10/kept").contains("connection: close"));
    assert!(!node.path("http.sock").exists());
    node.reloaded(&[("enabled = false", "enabled = true")]);
    let stored = get(node.http, "/10/kept").unwrap().to_ascii_lowercase();
    assert!(stored.contains("cache-status: larder; hit"), "{stored}");
    node.upgrade();
    node.stop();
}

#[test]
fn a_node_without_ndn_needs_a_restart_to_forward() {
    let (ndn, socket) = (vacant(), "FOLDER/nfd.sock");
    let more = format!(
        "[ndn]\nenabled = false\nunix = \"{socket}\"\ntcp = \"{ndn}\"\nudp = \"\"\nwebsocket = \"\"\nshards = 2\n"
    );
    let mut node = Node::start(&more);
    let mut kept = Kept::new(&node);
    for _ in 0..2 {
        assert!(TcpStream::connect(ndn).is_err());
        node.reloaded(&[("[ndn]\nenabled = false", "[ndn]\nenabled = true")]);
        assert!(TcpStream::connect(ndn).is_ok() && node.path("nfd.sock").exists());
        assert!(
            get(node.admin, "/status")
                .unwrap()
                .contains("\"content_store\"")
        );
        node.reloaded(&[("[ndn]\nenabled = true", "[ndn]\nenabled = false")]);
        assert!(!node.path("nfd.sock").exists());
        assert!(
            !get(node.admin, "/status")
                .unwrap()
                .contains("\"content_store\"")
        );
        kept.assert_kept();
    }
    // An address that is taken refuses the reload.
    let taken = TcpListener::bind(ndn).unwrap();
    let log = node.reload(
        &[("[ndn]\nenabled = false", "[ndn]\nenabled = true")],
        "not reloaded",
    );
    assert!(
        log.contains("[ndn] tcp") && log.contains(&ndn.to_string()),
        "{log}"
    );
    assert!(!node.path("nfd.sock").exists());
    kept.assert_kept();
    drop(taken);
    node.stop();
}

#[test]
fn http_over_ndn_needs_a_restart() {
    let (one, two) = (server("one"), server("two"));
    let mut node = Node::start(
        "policy = \"lru\"\n[ndn]\nunix = \"FOLDER/nfd.sock\"\ntcp = \"\"\nudp = \"\"\nwebsocket = \"\"\n",
    );
    let mut kept = Kept::new(&node);
    let pair = format!(
        "[http.upstream]\nndn = \"/far\"\n[ndn.gateway]\nprefix = \"/far\"\norigin = \"http://{one}\"\n[ndn]\n"
    );
    node.reloaded(&[("[ndn]\n", &pair)]);
    let fetched = |target: &str| {
        get(node.http, target)
            .unwrap()
            .rsplit('\n')
            .next()
            .unwrap()
            .to_owned()
    };
    assert_eq!(fetched("/a"), "one");
    node.reloaded(&[(&one.to_string(), &two.to_string())]);
    assert_eq!(fetched("/b"), "two");
    let broken = node.reload(
        &[(
            "[http.upstream]\n",
            "[http.upstream]\ntrust = \"/no/such/file\"\n",
        )],
        "not reloaded",
    );
    assert!(broken.contains("/no/such/file"), "{broken}");
    assert_eq!(fetched("/c"), "two");
    let pair = std::fs::read_to_string(node.path("larder.toml")).unwrap();
    let pair = &pair[pair.find("[http.upstream]").unwrap()..pair.find("[ndn]\n").unwrap()];
    node.reloaded(&[(pair, "")]);
    assert_eq!(fetched("/3/generated").len(), 3);
    kept.assert_kept();
    node.stop();
}

/// An answer of the admin server that does not end by itself.
struct Endless(TcpStream);

impl Endless {
    fn open(node: &Node, target: &str, token: &str) -> Endless {
        let mut stream = TcpStream::connect(node.admin).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let token = if token.is_empty() {
            String::new()
        } else {
            format!("authorization: Bearer {token}\r\n")
        };
        let host = node.admin;
        write!(
            stream,
            "GET {target} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{token}\r\n"
        )
        .unwrap();
        let mut answer = Endless(stream);
        assert!(answer.has("HTTP/1.1 200 OK\r\n"), "{target}");
        answer
    }

    /// Reads until this text has come. Returns false if the answer ends before.
    fn has(&mut self, wanted: &str) -> bool {
        let (deadline, mut read, mut piece) = (Instant::now() + PATIENCE, Vec::new(), [0; 4096]);
        while !read
            .windows(wanted.len())
            .any(|part| part == wanted.as_bytes())
        {
            assert!(
                Instant::now() < deadline,
                "neither {wanted:?} nor the end within {PATIENCE:?}"
            );
            match self.0.read(&mut piece).expect("more, or the end") {
                0 => return false,
                length => read.extend_from_slice(&piece[..length]),
            }
            // The text may begin in the last piece.
            read.drain(..read.len().saturating_sub(piece.len() + wanted.len()));
        }
        true
    }
}

/// Failure: who had no token, or has one that has leaked, watches on after the reload that is to
/// prevent it; or any reload ends open consoles.
#[test]
fn a_new_token_needs_a_restart_to_end_what_is_open() {
    let mut node = Node::start(NO_NDN);
    let (first, second) = ("0123456789abcdef", "fedcba9876543210");
    node.reloaded(&[(first, "")]);
    for (before, after) in [("", first), (first, second), (second, "")] {
        let mut events = Endless::open(&node, "/console/events", before);
        let mut capture = Endless::open(&node, "/capture", before);
        node.reloaded(&[(
            &format!("token = \"{before}\""),
            &format!("token = \"{after}\""),
        )]);
        assert!(!events.has("no such text"), "from {before:?} to {after:?}");
        assert!(!capture.has("no such text"), "from {before:?} to {after:?}");
        Endless::open(&node, "/console/events", after);
    }
    let mut events = Endless::open(&node, "/console/events", "");
    node.reloaded(&[("[http]\n", "[http]\ncache = \"1MiB\"\n")]);
    assert!(
        events.has("\"capacity_bytes\":1048576"),
        "a reload of another key has ended the console"
    );
    node.stop();
}

/// Returns the names of a node's request threads.
fn request_threads(node: &Node) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", node.pid().unwrap())).unwrap();
    let name = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.ok()?.path().join("comm")).ok()
    };
    let names = tasks.filter_map(name).map(|name| name.trim().to_owned());
    let is_numbered = |name: &String| {
        name.strip_prefix("http")
            .is_some_and(|rest| rest.parse::<u8>().is_ok())
    };
    let mut names: Vec<_> = names.filter(is_numbered).collect();
    names.sort();
    names
}

/// An origin that sends half of each body, and the rest when the sender is used or gone.
fn halting_origin() -> (SocketAddr, Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, (go, waits)) = (listener.local_addr().unwrap(), channel());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let head = "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: 20\r\n\r\n";
        assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
        write!(stream, "{head}0123456789").unwrap();
        let _ = waits.recv();
        write!(stream, "0123456789").unwrap();
    });
    (address, go)
}

#[test]
fn the_number_of_threads_needs_a_restart_or_costs_requests() {
    let (origin, go) = halting_origin();
    let more = format!(
        "threads = 8\n[[http.origins]]\nhost = \"halting\"\nservers = [\"http://{origin}\"]\n{NO_NDN}"
    );
    let mut node = Node::start(&more);
    let mut kept = Kept::new(&node);
    // A thread gives itself its name.
    wait("all threads", || request_threads(&node).len() == 8);
    // Requests of many connections, which all threads have accepted.
    let slow = |number: usize| {
        let mut stream = TcpStream::connect(node.http).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(
            stream,
            "GET /10/slow-{number}?delay=2s HTTP/1.1\r\nhost: a\r\n\r\n"
        )
        .unwrap();
        stream
    };
    let slow: Vec<_> = (0..32).map(slow).collect();
    // A body that the thread of a client that leaves collects for others.
    let halted = || {
        let mut stream = TcpStream::connect(node.http).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "GET /halted HTTP/1.1\r\nhost: halting\r\n\r\n").unwrap();
        let (mut text, mut piece) = (Vec::new(), [0; 1024]);
        while !text.ends_with(b"\r\n\r\n0123456789") {
            let read = stream.read(&mut piece).unwrap();
            assert!(read > 0, "{}", String::from_utf8_lossy(&text));
            text.extend_from_slice(&piece[..read]);
        }
        stream
    };
    let leaves = halted();
    let followers: Vec<_> = (0..8).map(|_| halted()).collect();
    drop(leaves);
    node.reloaded(&[("threads = 8", "threads = 1")]);
    for mut stream in slow {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let is_whole = answer.starts_with("HTTP/1.1 200 ")
            && answer.rsplit("\r\n\r\n").next().unwrap().len() == 10;
        assert!(is_whole && answer.contains("connection: close"), "{answer}");
    }
    assert!(kept.get("/10/kept").contains("connection: close"));
    assert!(
        request_threads(&node).len() > 1,
        "the requests of the followers were not waited for"
    );
    drop(go);
    for mut stream in followers {
        let mut rest = [0; 10];
        stream.read_exact(&mut rest).unwrap();
        assert_eq!(&rest, b"0123456789");
    }
    wait("the end of the other threads", || {
        request_threads(&node) == ["http0"]
    });
    let mut again = Kept(TcpStream::connect(node.http).unwrap());
    again.assert_kept();
    node.reloaded(&[("threads = 1", "threads = 3")]);
    wait("more threads", || {
        request_threads(&node) == ["http0", "http1", "http2"]
    });
    assert!(again.get("/10/kept").contains("connection: close"));
    for _ in 0..8 {
        Kept(TcpStream::connect(node.http).unwrap()).assert_kept();
    }
    // A refused reload leaves no thread behind.
    let log = node.reload(
        &[
            ("threads = 3", "threads = 6"),
            ("/http.sock", "/none/http.sock"),
        ],
        "not reloaded",
    );
    assert!(log.contains("none/http.sock"), "{log}");
    wait("the former threads", || request_threads(&node).len() == 3);
    node.stop();
}
