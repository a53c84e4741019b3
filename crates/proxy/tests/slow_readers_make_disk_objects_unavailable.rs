//! Objects on the disk tier must be there for all clients, however slowly some of them take theirs,
//! and however little memory there is.

use crate::wire::{self, Client, Node, Origin, Seen, read_response, say};
use larder_proxy::{HttpConfig, Upstream};
use larder_tier_host::DiskConfig;
use larder_units::ByteSize;
use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const BODY_BYTES: usize = 400_000;

/// Bytes that tell the object and the place in it.
fn body(number: usize) -> Vec<u8> {
    (0..BODY_BYTES / 8)
        .flat_map(|at| format!("{:08x}", at * 1000 + number).into_bytes())
        .collect()
}

fn number_of(target: &str) -> usize {
    target.rsplit('/').next().unwrap().parse().unwrap()
}

/// `/fresh/N`; `/stale/N`, which has to be validated each time; and `/brief/N`, which is stale
/// after a second.
fn origin(is_down: &Arc<AtomicBool>) -> Origin {
    let is_down = Arc::clone(is_down);
    Origin::new(move |asked, stream| {
        if is_down.load(Ordering::SeqCst) {
            return false;
        }
        let target = asked.line.split(' ').nth(1).unwrap();
        let age = match &target[..6] {
            "/fresh" => 600,
            "/brief" => 1,
            _ => 0,
        };
        let head =
            format!("cache-control: max-age={age}, stale-if-error=600\r\netag: \"{target}\"\r\n");
        if asked.header("if-none-match").is_some() {
            return say(stream, &format!("HTTP/1.1 304 Not Modified\r\n{head}\r\n"));
        }
        let head = format!("HTTP/1.1 200 OK\r\n{head}content-length: {BODY_BYTES}\r\n\r\n");
        say(stream, &head) && stream.write_all(&body(number_of(target))).is_ok()
    })
}

/// Memory holds bodies in progress of one object at most.
fn config(origin: SocketAddr, folder: &Path, memory: u64, disk: u64) -> HttpConfig {
    let upstream = Upstream::Http(format!("http://{origin}").parse().unwrap());
    let mut config = wire::config(upstream);
    config.cache.capacity = ByteSize::from_mib(memory);
    config.disk = Some(DiskConfig {
        path: folder.join("tier"),
        capacity: ByteSize::from_mib(disk),
        policy: "fifo".parse().unwrap(),
        queue: ByteSize::from_mib(8),
    });
    config
}

fn nowhere() -> SocketAddr {
    wire::dead()
}

/// A client that has sent its request, and does not read the response yet.
struct Slow(TcpStream);

impl Slow {
    fn new(node: &Node, target: &str, field: &str) -> Slow {
        let socket =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        // So that the kernel takes little of the body: its buffers grow by segments.
        socket.set_recv_buffer_size(4096).unwrap();
        socket.set_tcp_mss(536).unwrap();
        socket.connect(&node.address.into()).unwrap();
        let mut stream = TcpStream::from(socket);
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        write!(
            stream,
            "GET {target} HTTP/1.1\r\nhost: example.test\r\n{field}\r\n"
        )
        .unwrap();
        stream.peek(&mut [0; 300]).unwrap();
        Slow(stream)
    }

    fn finish(self) -> Seen {
        read_response(&mut BufReader::new(self.0), false)
    }
}

fn store(node: &Node, targets: impl Iterator<Item = String>) {
    let mut client = Client::new(node);
    for target in targets {
        assert_eq!(client.get(&target).body.len(), BODY_BYTES);
        // What comes while the queue is full is not put there.
        while node.status()["disk"]["queued_bytes"].as_u64().unwrap() > 2_000_000 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn slow_readers_make_disk_objects_unavailable() {
    let (origin, folder) = (origin(&Arc::default()), tempfile::tempdir().unwrap());
    let targets = || (0..12).map(|number| format!("/fresh/{number}"));
    store(
        &Node::with(&config(origin.address, folder.path(), 4, 32)),
        targets(),
    );
    let node = Node::with(&config(nowhere(), folder.path(), 4, 32));
    let slow: Vec<Slow> = targets()
        .map(|target| Slow::new(&node, &target, ""))
        .collect();
    let part = Slow::new(&node, "/fresh/3", "range: bytes=100000-299999\r\n");
    let parts = Slow::new(&node, "/fresh/4", "range: bytes=10-19,200000-399999\r\n");
    let mut client = Client::new(&node);
    for (number, target) in targets().enumerate() {
        let seen = client.get(&target);
        assert_eq!((seen.status, seen.is_hit()), (200, true), "{target}");
        assert!(seen.body == body(number), "{target}");
    }
    for (number, slow) in slow.into_iter().enumerate() {
        let seen = slow.finish();
        assert_eq!(seen.status, 200, "{number}");
        assert!(seen.body == body(number), "{number}");
    }
    let seen = part.finish();
    assert_eq!(
        (seen.status, seen.header("content-range")),
        (206, "bytes 100000-299999/400000")
    );
    assert!(seen.body == body(3)[100_000..300_000]);
    let (seen, whole) = (parts.finish(), body(4));
    assert_eq!(seen.status, 206);
    for part in [&whole[10..20], &whole[200_000..]] {
        assert!(seen.body.windows(part.len()).any(|window| window == part));
    }
    assert_eq!(node.status()["disk"]["reads_refused"], 0);
}

/// Also what has to be validated first, and what is served stale because the origin is down.
#[test]
fn stale_objects_are_fetched_again_for_want_of_memory() {
    let is_down = Arc::<AtomicBool>::default();
    let (origin, folder) = (origin(&is_down), tempfile::tempdir().unwrap());
    let targets = || (0..4).map(|number| format!("/stale/{number}"));
    store(
        &Node::with(&config(origin.address, folder.path(), 4, 32)),
        targets(),
    );
    let node = Node::with(&config(origin.address, folder.path(), 4, 32));
    for validates in [true, false] {
        is_down.store(!validates, Ordering::SeqCst);
        let slow: Vec<Slow> = targets()
            .map(|target| Slow::new(&node, &target, ""))
            .collect();
        for (number, slow) in slow.into_iter().enumerate() {
            let seen = slow.finish();
            assert!(
                seen.status == 200 && seen.body == body(number),
                "{validates} {number}: {}",
                seen.status
            );
            let expected = if validates {
                "fwd-status=304"
            } else {
                "fwd=stale"
            };
            assert!(
                seen.header("cache-status").contains(expected),
                "{:?}",
                seen.header("cache-status")
            );
        }
    }
}

/// The log overwrites its oldest regions while they are read.
#[test]
fn slow_readers_get_what_has_been_overwritten() {
    let (origin, folder) = (origin(&Arc::default()), tempfile::tempdir().unwrap());
    let targets = || (0..4).map(|number| format!("/fresh/{number}"));
    store(
        &Node::with(&config(origin.address, folder.path(), 8, 8)),
        targets(),
    );
    let node = Node::with(&config(origin.address, folder.path(), 8, 8));
    // Memory has room to keep the rest of one of them.
    let slow = Slow::new(&node, "/fresh/1", "");
    store(&node, (100..140).map(|number| format!("/fresh/{number}")));
    assert!(
        !Client::new(&node).get("/fresh/0").is_hit(),
        "nothing was overwritten"
    );
    assert!(slow.finish().body == body(1));
}

/// One validation answers all that wait for it.
#[test]
fn each_of_many_validates_what_stays_on_disk() {
    let (origin, folder) = (origin(&Arc::default()), tempfile::tempdir().unwrap());
    store(
        &Node::with(&config(origin.address, folder.path(), 4, 32)),
        ["/brief/1".to_owned()].into_iter(),
    );
    std::thread::sleep(Duration::from_millis(2100));
    let node = Node::with(&config(origin.address, folder.path(), 4, 32));
    // A slow reader of another object leaves no room to read this one whole.
    let before = origin.requests();
    std::thread::scope(|scope| {
        for _ in 0..20 {
            let address = node.address;
            scope.spawn(move || assert!(Client::to(address).get("/brief/1").body == body(1)));
        }
    });
    let validations = origin.requests() - before;
    assert!(validations <= 10, "{validations}");
}
