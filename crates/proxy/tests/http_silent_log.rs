//! Failure: the log does not show what goes wrong, or shows it a thousand times. One log for the
//! process: each test looks for its own line.

mod wire;
use larder_proxy::{HttpConfig, Upstream};
use std::io::Write;
use std::net::TcpListener;
use std::sync::{Barrier, LazyLock, Mutex};
use wire::{Client, Node};

static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Log;

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOG.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Installs the log once.
fn listen() {
    static INSTALLED: LazyLock<()> = LazyLock::new(|| {
        tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(|| Log)
            .init();
    });
    LazyLock::force(&INSTALLED);
}

/// How many lines of the log hold `part`.
fn lines(part: &str) -> usize {
    String::from_utf8_lossy(&LOG.lock().unwrap())
        .lines()
        .filter(|line| line.contains(part))
        .count()
}

/// Two caches, each the other's origin. A request ends when it comes back, and one line a cache at
/// most says why.
#[test]
fn a_circle_of_caches_ends() {
    listen();
    let vacant = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let far = Node::of(vacant);
    let upstream = Upstream::Http(format!("http://{}", far.address).parse().unwrap());
    let near = Node::with(&HttpConfig {
        listen: vec![vacant.into()],
        ..wire::config(upstream)
    });
    let ask = |client: &mut Client, number: u32| {
        let seen = client.get(&format!("/{number}"));
        assert_eq!(
            (seen.status, seen.text().as_str()),
            (508, "larder: the request goes round in a circle\n")
        );
    };
    let mut client = Client::new(&near);
    for number in 0..5 {
        ask(&mut client, number);
    }
    let requests = |node: &Node| node.status()["requests"].as_u64().unwrap();
    assert_eq!(
        requests(&near) + requests(&far),
        5 * 3,
        "there, and back, which is refused"
    );
    assert_eq!(lines("get 508"), 1, "one line for all");
    assert_eq!(near.status()["objects"], 0);
    // Both are asked for the same at a time: neither waits for what waits for it. (A client gives
    // up after 20 seconds.)
    let begin = Barrier::new(2);
    std::thread::scope(|scope| {
        for node in [&near, &far] {
            scope.spawn(|| {
                let mut client = Client::new(node);
                for number in 5..105 {
                    begin.wait();
                    ask(&mut client, number);
                }
            });
        }
    });
}

/// A stop that takes long says what for.
#[test]
fn a_stop_with_a_request_under_way_says_so() {
    listen();
    let mut node = Node::generated();
    let address = node.address;
    let slow = std::thread::spawn(move || Client::to(address).get("/100/a?delay=2s"));
    node.await_figure("requests", 1);
    node.http.take().unwrap().stop();
    assert_eq!(slow.join().unwrap().body.len(), 100);
    assert_eq!(
        lines("waiting for requests under way connections=1 at_most=30s"),
        1
    );
}
