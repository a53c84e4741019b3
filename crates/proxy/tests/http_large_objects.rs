//! Failure: a range of ten gigabytes fetches ten gigabytes; or what arrives is put together
//! wrongly.

use crate::wire::{self, Asked, Client, Node, Origin};
use larder_proxy::{HttpConfig, Upstream};
use larder_tier_host::DiskConfig;
use larder_units::ByteSize;
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const LARGE: u64 = 10_000_000_000;
const SLICE: u64 = 1 << 20;

/// The byte of a version at a place of it.
fn byte(version: u64, at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8 ^ version as u8
}

fn bytes(version: u64, first: u64, end: u64) -> Vec<u8> {
    (first..end).map(|at| byte(version, at)).collect()
}

/// An origin of objects of `/LENGTH` bytes, made as they are read.
struct Large {
    origin: Origin,
    version: Arc<AtomicU64>,
    ignores_ranges: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
}

impl Large {
    fn new() -> Large {
        let (version, sent) = (Arc::new(AtomicU64::new(1)), Arc::new(AtomicU64::new(0)));
        let ignores_ranges = Arc::new(AtomicBool::new(false));
        let (of, count, ignores) = (
            Arc::clone(&version),
            Arc::clone(&sent),
            Arc::clone(&ignores_ranges),
        );
        let origin = Origin::new(move |asked, stream| {
            respond(
                asked,
                stream,
                of.load(Ordering::SeqCst),
                ignores.load(Ordering::SeqCst),
                &count,
            )
        });
        Large {
            origin,
            version,
            ignores_ranges,
            sent,
        }
    }
}

fn respond(
    asked: &Asked,
    stream: &mut TcpStream,
    version: u64,
    ignores: bool,
    sent: &AtomicU64,
) -> bool {
    let length: u64 = asked
        .line
        .split(' ')
        .nth(1)
        .and_then(|target| target[1..].parse().ok())
        .unwrap();
    let tag = format!("\"{version}\"");
    let valid = !ignores && asked.header("if-range").is_none_or(|known| known == tag);
    let range = asked.header("range").filter(|_| valid).map(|range| {
        let (first, last) = range["bytes=".len()..].split_once('-').unwrap();
        let first: u64 = first.parse().unwrap();
        (
            first,
            last.parse()
                .map_or(length, |last: u64| (last + 1).min(length)),
        )
    });
    let units = if ignores {
        ""
    } else {
        "accept-ranges: bytes\r\n"
    };
    let common = format!("etag: {tag}\r\ncache-control: max-age=60\r\n{units}");
    let (first, end) = range.unwrap_or((0, length));
    let head = match range {
        None => format!("HTTP/1.1 200 OK\r\n{common}content-length: {length}\r\n\r\n"),
        Some(_) => format!(
            "HTTP/1.1 206 Partial Content\r\n{common}content-range: bytes {first}-{}/{length}\r\ncontent-length: {}\r\n\r\n",
            end - 1,
            end - first
        ),
    };
    // So that who asks at the same time finds it under way.
    std::thread::sleep(Duration::from_millis(20));
    let mut at = first;
    let mut whole = stream.write_all(head.as_bytes()).is_ok();
    while whole && at < end {
        let next = end.min(at + 65_536);
        whole = stream.write_all(&bytes(version, at, next)).is_ok();
        sent.fetch_add(next - at, Ordering::SeqCst);
        at = next;
    }
    whole
}

fn range(client: &mut Client, target: &str, first: u64, last: u64) -> wire::Seen {
    client.send(
        "GET",
        target,
        &[("range", &format!("bytes={first}-{last}"))],
        b"",
    )
}

#[test]
fn a_range_of_ten_gigabytes_is_its_slices() {
    let large = Large::new();
    let node = Node::of(large.origin.address);
    let mut client = Client::new(&node);
    let target = format!("/{LARGE}");
    let first = 5_000_000_000;
    let seen = range(&mut client, &target, first, first + 99);
    assert_eq!(
        (seen.status, &seen.body),
        (206, &bytes(1, first, first + 100))
    );
    assert_eq!(
        seen.header("content-range"),
        format!("bytes {first}-{}/{LARGE}", first + 99)
    );
    node.await_figure("stored", 1);
    let sent = large.sent.load(Ordering::SeqCst);
    assert!(sent <= SLICE, "{sent}");
    assert!(range(&mut client, &target, first + 10, first + 19).is_hit());
    // Three slices and a bit.
    let end = first + 3 * SLICE + 1000;
    let seen = range(&mut client, &target, first, end - 1);
    assert!(!seen.cut && seen.body == bytes(1, first, end));
    assert!(
        seen.header("cache-status")
            .starts_with("larder; fwd=partial; ttl=")
    );
    node.await_figure("stored", 4);
    assert!(range(&mut client, &target, first, end - 1).is_hit());
    // The last bytes, several ranges, and a HEAD, all of it known by now.
    let seen = client.send("GET", &target, &[("range", "bytes=-7")], b"");
    assert_eq!(
        (seen.status, &seen.body),
        (206, &bytes(1, LARGE - 7, LARGE))
    );
    let seen = client.send(
        "GET",
        &target,
        &[("range", &format!("bytes=0-9,{first}-{}", first + 9))],
        b"",
    );
    assert_eq!((seen.status, seen.cut), (206, false));
    assert!(
        seen.header("content-type")
            .starts_with("multipart/byteranges; boundary=")
    );
    assert!(
        seen.body
            .windows(10)
            .any(|window| window == bytes(1, first, first + 10))
    );
    assert_eq!(
        client
            .send("HEAD", &target, &[], b"")
            .header("content-length"),
        LARGE.to_string()
    );
    let sent = large.sent.load(Ordering::SeqCst);
    assert!(sent <= 6 * SLICE, "{sent}");
}

/// All of an object of which a part is stored.
#[test]
fn a_part_is_completed() {
    let large = Large::new();
    let node = Node::of(large.origin.address);
    let mut client = Client::new(&node);
    let length = 5_500_000;
    range(&mut client, "/5500000", 3_000_000, 3_000_009);
    node.await_figure("stored", 1);
    for hit in [false, true] {
        let seen = client.get("/5500000");
        assert!(seen.status == 200 && seen.body == bytes(1, 0, length) && seen.is_hit() == hit);
        node.await_figure("stored", 6);
    }
    assert_eq!(large.sent.load(Ordering::SeqCst), length);
}

#[test]
fn a_change_in_the_middle_is_a_cut_body() {
    let large = Large::new();
    let node = Node::of(large.origin.address);
    let mut client = Client::new(&node);
    let target = format!("/{LARGE}");
    range(&mut client, &target, 0, 9);
    large.version.store(2, Ordering::SeqCst);
    let seen = range(&mut client, &target, 0, 2 * SLICE);
    assert!(
        seen.cut && seen.body == bytes(1, 0, SLICE),
        "{} {}",
        seen.cut,
        seen.body.len()
    );
    // The next one is all of the new version.
    let seen = range(&mut client, &target, 0, 2 * SLICE);
    assert!(!seen.cut && seen.body == bytes(2, 0, 2 * SLICE + 1));
}

#[test]
fn an_origin_that_ignores_ranges() {
    let large = Large::new();
    large.ignores_ranges.store(true, Ordering::SeqCst);
    let node = Node::of(large.origin.address);
    // What can be stored whole is, and the client gets its part.
    let mut client = Client::new(&node);
    let seen = range(&mut client, "/2000000", 1_000_000, 1_000_009);
    assert_eq!(
        (seen.status, &seen.body),
        (206, &bytes(1, 1_000_000, 1_000_010))
    );
    node.await_figure("stored", 1);
    assert!(range(&mut client, "/2000000", 0, 9).is_hit());
    // What cannot is passed on as it comes, at the client's pace.
    let seen = wire::raw_bytes(
        node.address,
        format!("GET /{LARGE} HTTP/1.1\r\nhost: a\r\nrange: bytes=5-9\r\n\r\n").as_bytes(),
        3_000_000,
    );
    let text = String::from_utf8_lossy(&seen);
    assert!(
        text.starts_with("HTTP/1.1 200 OK\r\n")
            && text.contains(&format!("content-length: {LARGE}\r\n"))
    );
    assert_eq!(node.status()["objects"], 1);
}

/// Twenty who watch the same film from the same place: each slice is fetched once.
#[test]
fn a_stampede_for_a_range_is_one_request_a_slice() {
    let large = Large::new();
    let node = Node::of(large.origin.address);
    let target = format!("/{LARGE}");
    let (first, end) = (7 * SLICE + 5, 10 * SLICE + 5);
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                let seen = range(&mut Client::new(&node), &target, first, end - 1);
                assert!(!seen.cut && seen.body == bytes(1, first, end));
            });
        }
    });
    assert_eq!(large.origin.requests(), 4);
}

/// A client that goes away ends its own answer, and the origin is not asked for the rest of ten
/// gigabytes.
#[test]
fn who_leaves_takes_the_rest_with_him() {
    let large = Large::new();
    let node = Node::of(large.origin.address);
    let target = format!("/{LARGE}");
    range(&mut Client::new(&node), &target, 0, 9);
    let request = format!("GET {target} HTTP/1.1\r\nhost: example.test\r\n\r\n");
    let seen = wire::raw_bytes(node.address, request.as_bytes(), 3_000_000);
    assert!(seen.len() >= 3_000_000);
    std::thread::sleep(Duration::from_millis(300));
    let asked = large.origin.requests();
    assert!(asked < 20, "{asked}");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(large.origin.requests(), asked);
}

/// With a disk tier.
fn with_disk(large: &Large, folder: &Path, memory: u64) -> HttpConfig {
    let upstream = Upstream::Http(format!("http://{}", large.origin.address).parse().unwrap());
    let disk = DiskConfig {
        path: folder.join("tier"),
        capacity: ByteSize::from_mib(256),
        policy: "fifo".parse().unwrap(),
        queue: ByteSize::from_mib(16),
    };
    let mut config = wire::config(upstream);
    config.cache.capacity = ByteSize::from_mib(memory);
    config.disk = Some(disk);
    config
}

/// What was fetched in slices is there after a restart, also where memory is short.
#[test]
fn slices_are_lost_at_a_restart() {
    let (large, folder) = (Large::new(), tempfile::tempdir().unwrap());
    let target = "/10000000000";
    let (first, last) = (5 * SLICE - 100, 9 * SLICE + 99);
    let node = Node::with(&with_disk(&large, folder.path(), 64));
    assert_eq!(
        range(&mut Client::new(&node), target, first, last).body,
        bytes(1, first, last + 1)
    );
    let fetched = large.origin.requests();
    assert!(fetched >= 6, "{fetched}");
    // The client needs the start of the last slice only. A stop gives up a slice that is not whole.
    node.await_figure("filling_bytes", 0);
    drop(node);
    // Of 16 MiB, bodies in progress have two slices: half of that is less than one, so they are
    // streamed.
    for memory in [64, 16] {
        let node = Node::with(&with_disk(&large, folder.path(), memory));
        let mut client = Client::new(&node);
        for (first, last) in [(first, last), (7 * SLICE + 5, 7 * SLICE + 9)] {
            let seen = range(&mut client, target, first, last);
            assert_eq!(
                (seen.status, seen.is_hit()),
                (206, true),
                "{memory}: {:?}",
                seen.head
            );
            assert!(seen.body == bytes(1, first, last + 1));
        }
        assert_eq!(large.origin.requests(), fetched);
    }
    // What is missing is fetched, and only that.
    let node = Node::with(&with_disk(&large, folder.path(), 64));
    let seen = range(&mut Client::new(&node), target, 9 * SLICE, 11 * SLICE);
    assert!(!seen.is_hit() && seen.body == bytes(1, 9 * SLICE, 11 * SLICE + 1));
    assert_eq!(large.origin.requests(), fetched + 2);
}

/// What is on the disk of an object that was removed is not a part of its successor, though it has
/// the same tag.
#[test]
fn slices_on_disk_outlive_their_object() {
    let (large, folder) = (Large::new(), tempfile::tempdir().unwrap());
    let ask = |node: &Node| {
        let seen = range(&mut Client::new(node), "/10000000000", 10, 2 * SLICE);
        assert!(seen.body == bytes(1, 10, 2 * SLICE + 1));
        seen.is_hit()
    };
    let node = Node::with(&with_disk(&large, folder.path(), 64));
    // The rest of the last slice may still come.
    let hits_at_last = || assert!((0..100).any(|_| ask(&node)));
    assert!(!ask(&node));
    hits_at_last();
    Client::new(&node).send("POST", "/10000000000", &[("range", "bytes=0-9")], b"");
    assert!(!ask(&node));
    hits_at_last();
    drop(node);
    let before = large.origin.requests();
    assert!(ask(&Node::with(&with_disk(&large, folder.path(), 64))));
    assert_eq!(large.origin.requests(), before);
}

/// What is larger than any object that memory takes is stored on the disk as it passes.
#[test]
fn large_objects_are_not_stored_on_disk() {
    const LENGTH: u64 = 20_000_000;
    let (large, folder) = (Large::new(), tempfile::tempdir().unwrap());
    let target = format!("/{LENGTH}");
    let is_whole = |node: &Node| {
        let seen = Client::new(node).get(&target);
        assert!(
            seen.status == 200 && seen.body == bytes(1, 0, LENGTH),
            "{:?}",
            seen.head
        );
        seen.is_hit()
    };
    // Of 16 MiB, an object has two at most.
    let node = Node::with(&with_disk(&large, folder.path(), 16));
    assert!(!is_whole(&node));
    assert!(is_whole(&node));
    assert_eq!(large.origin.requests(), 1);
    drop(node);
    assert!(is_whole(&Node::with(&with_disk(&large, folder.path(), 16))));
    assert_eq!(large.origin.requests(), 1);
}

/// A client that leaves in the middle: the next one gets what has come from the disk, and only the
/// rest from the origin.
#[test]
fn half_a_large_object_is_fetched_twice() {
    const LENGTH: u64 = 20_000_000;
    let (large, folder) = (Large::new(), tempfile::tempdir().unwrap());
    let node = Node::with(&with_disk(&large, folder.path(), 16));
    let request = format!("GET /{LENGTH} HTTP/1.1\r\nhost: example.test\r\n\r\n");
    assert_eq!(
        wire::raw_bytes(node.address, request.as_bytes(), 10_000_000).len(),
        10_000_000
    );
    let disk = |figure: &str| node.status()["disk"][figure].as_u64().unwrap();
    let is_stored = |_: &u32| {
        std::thread::sleep(Duration::from_millis(5));
        disk("stored") >= 9
    };
    assert!(
        (0..2000).any(|attempt| is_stored(&attempt)),
        "{}",
        disk("stored")
    );
    let before = large.sent.load(Ordering::SeqCst);
    let seen = Client::new(&node).get(&format!("/{LENGTH}"));
    assert!(seen.body == bytes(1, 0, LENGTH));
    let again = large.sent.load(Ordering::SeqCst) - before;
    assert!(again <= LENGTH - 8 * SLICE, "{again}");
}

/// With an origin that does not say that it answers ranges, a slice that is missing could not be
/// fetched.
#[test]
fn large_objects_of_an_origin_without_ranges_are_cut() {
    const LENGTH: u64 = 20_000_000;
    let (large, folder) = (Large::new(), tempfile::tempdir().unwrap());
    large.ignores_ranges.store(true, Ordering::SeqCst);
    let node = Node::with(&with_disk(&large, folder.path(), 16));
    let request = format!("GET /{LENGTH} HTTP/1.1\r\nhost: example.test\r\n\r\n");
    assert_eq!(
        wire::raw_bytes(node.address, request.as_bytes(), 5_000_000).len(),
        5_000_000
    );
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let (address, target) = (node.address, format!("/{LENGTH}"));
            scope.spawn(move || {
                assert!(Client::to(address).get(&target).body == bytes(1, 0, LENGTH))
            });
        }
    });
}

/// Several clients at once, the first of which is still being sent the object.
#[test]
fn large_objects_are_torn_while_they_pass() {
    const LENGTH: u64 = 20_000_000;
    let (large, folder) = (Large::new(), tempfile::tempdir().unwrap());
    let node = Node::with(&with_disk(&large, folder.path(), 16));
    std::thread::scope(|scope| {
        for number in 0..6 {
            let (address, target) = (node.address, format!("/{LENGTH}"));
            scope.spawn(move || {
                std::thread::sleep(Duration::from_millis(20 * number));
                assert!(
                    Client::to(address).get(&target).body == bytes(1, 0, LENGTH),
                    "{number}"
                );
            });
        }
    });
}
