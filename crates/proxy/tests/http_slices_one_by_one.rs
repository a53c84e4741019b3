//! Failure: a large object takes a round trip to its origin for each slice, one after another; or
//! slices are fetched twice, in any number at once, or on for a client that has left.

use crate::wire::{Asked, Client, Node, Origin};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SLICE: u64 = 1 << 20;
const BLOCK: u64 = 64 << 10;

/// The content of a block: its number.
fn block(at: u64) -> Vec<u8> {
    (at / BLOCK).to_be_bytes().repeat(BLOCK as usize / 8)
}

/// An origin of objects of `/LENGTH` bytes, which answers after 20 ms.
struct Slow {
    origin: Origin,
    /// The most requests at once.
    most: Arc<AtomicUsize>,
    /// Requests by the start of their range.
    starts: Arc<Mutex<BTreeMap<u64, u32>>>,
}

impl Slow {
    fn new() -> Slow {
        let (now, most, starts) = (
            AtomicUsize::new(0),
            Arc::new(AtomicUsize::new(0)),
            Arc::default(),
        );
        let (seen, asked_for): (_, Arc<Mutex<BTreeMap<u64, u32>>>) =
            (Arc::clone(&most), Arc::clone(&starts));
        let origin = Origin::new(move |asked, stream| {
            seen.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            let (first, end, length) = range(asked);
            *asked_for.lock().unwrap().entry(first).or_insert(0) += 1;
            std::thread::sleep(Duration::from_millis(20));
            let sent = respond(stream, first, end, length);
            now.fetch_sub(1, Ordering::SeqCst);
            sent
        });
        Slow {
            origin,
            most,
            starts,
        }
    }

    fn twice(&self) -> Vec<u64> {
        let starts = self.starts.lock().unwrap();
        starts
            .iter()
            .filter(|(_, count)| **count > 1)
            .map(|(start, _)| start / SLICE)
            .collect()
    }
}

fn range(asked: &Asked) -> (u64, u64, u64) {
    let length: u64 = asked
        .line
        .split(' ')
        .nth(1)
        .and_then(|target| target[1..].parse().ok())
        .unwrap();
    let (first, last) = asked.header("range").unwrap()["bytes=".len()..]
        .split_once('-')
        .unwrap();
    (
        first.parse().unwrap(),
        last.parse()
            .map_or(length, |last: u64| (last + 1).min(length)),
        length,
    )
}

fn respond(stream: &mut TcpStream, first: u64, end: u64, length: u64) -> bool {
    let head = format!(
        "HTTP/1.1 206 Partial Content\r\netag: \"a\"\r\ncache-control: max-age=60\r\naccept-ranges: bytes\r\n\
         content-range: bytes {first}-{}/{length}\r\ncontent-length: {}\r\n\r\n",
        end - 1,
        end - first
    );
    let mut whole = stream.write_all(head.as_bytes()).is_ok();
    for at in (first..end).step_by(BLOCK as usize) {
        whole = whole && stream.write_all(&block(at)).is_ok();
    }
    whole
}

fn read(node: &Node, slices: u64) {
    let seen = Client::new(node).send(
        "GET",
        &format!("/{}", slices * SLICE),
        &[("range", "bytes=0-")],
        b"",
    );
    assert_eq!((seen.status, seen.body.len() as u64), (206, slices * SLICE));
    let is_right = |(number, found): (usize, &[u8])| found == block(number as u64 * BLOCK);
    assert!(seen.body.chunks(BLOCK as usize).enumerate().all(is_right));
}

#[test]
fn slices_are_fetched_ahead_a_few_at_once_and_each_one_once() {
    let slow = Slow::new();
    let node = Node::of(slow.origin.address);
    read(&node, 64);
    let most = slow.most.load(Ordering::SeqCst);
    assert!((3..=5).contains(&most), "{most} at once");
    assert_eq!(slow.twice(), [0; 0]);
    assert_eq!(slow.starts.lock().unwrap().len(), 64);
}

#[test]
fn two_clients_of_one_object_fetch_each_slice_once() {
    let slow = Slow::new();
    let node = Node::of(slow.origin.address);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            drop(scope.spawn(|| read(&node, 16)));
        }
    });
    assert_eq!(slow.twice(), [0; 0]);
    assert_eq!(slow.starts.lock().unwrap().len(), 16);
}

#[test]
fn a_client_that_leaves_ends_its_fetches_and_one_that_does_not_read_has_few() {
    let slow = Slow::new();
    let node = Node::of(slow.origin.address);
    let target = 512 * SLICE;
    let stream = TcpStream::connect(node.address).unwrap();
    let request = format!("GET /{target} HTTP/1.1\r\nhost: a\r\nrange: bytes=0-\r\n\r\n");
    (&stream).write_all(request.as_bytes()).unwrap();
    // Without a reader, the buffers of the sockets fill, and then nothing more is fetched.
    let last = AtomicU64::new(u64::MAX);
    let settled = |_| {
        std::thread::sleep(Duration::from_millis(300));
        let requests = slow.origin.requests() as u64;
        last.swap(requests, Ordering::SeqCst) == requests
    };
    assert!((0..60).any(settled), "it goes on");
    let before = slow.origin.requests();
    assert!(
        before < 40,
        "{before} slices for a client that reads nothing"
    );
    drop(stream);
    std::thread::sleep(Duration::from_millis(500));
    assert!(
        slow.origin.requests() - before <= 1,
        "{} after it has left",
        slow.origin.requests() - before
    );
}
