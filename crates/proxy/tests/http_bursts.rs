//! Failure: a hundred clients ask for one cold thing at once, and the origin is asked a hundred
//! times; or they wait for each other for ever.

use crate::wire::http2::{CANCEL, Http2};
use crate::wire::{Client, Node, Origin, Seen, say};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

const CLIENTS: usize = 100;

/// A gate that the test opens for the origin, or the clients for the test.
#[derive(Default)]
struct Gate(Mutex<usize>, Condvar);

impl Gate {
    fn pass(&self) {
        *self.0.lock().unwrap() += 1;
        self.1.notify_all();
    }

    /// Waits until so many have passed. That they never do is what these tests fear.
    fn wait(&self, passed: usize) {
        let count = self.0.lock().unwrap();
        let (count, timeout) = self
            .1
            .wait_timeout_while(count, Duration::from_secs(15), |count| *count < passed)
            .unwrap();
        assert!(!timeout.timed_out(), "{} of {passed}", *count);
    }
}

fn burst(node: &Node) -> Vec<JoinHandle<Seen>> {
    let address = node.address;
    (0..CLIENTS)
        .map(|_| std::thread::spawn(move || Client::to(address).get("/burst")))
        .collect()
}

fn all(clients: Vec<JoinHandle<Seen>>) -> Vec<Seen> {
    clients
        .into_iter()
        .map(|client| client.join().unwrap())
        .collect()
}

/// One fetch; everybody has the first half before the second half exists.
#[test]
fn cacheable_is_fetched_once_and_streamed_to_all() {
    let (joined, half) = (Arc::new(Gate::default()), Arc::new(Gate::default()));
    let (at_origin, of_clients) = (Arc::clone(&joined), Arc::clone(&half));
    let origin = Origin::new(move |_, stream| {
        at_origin.wait(1);
        say(
            stream,
            "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: 10\r\n\r\nfirst",
        );
        of_clients.wait(CLIENTS);
        say(stream, "-last")
    });
    let node = Node::of(origin.address);
    let address = node.address;
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let half = Arc::clone(&half);
            std::thread::spawn(move || {
                let mut stream = TcpStream::connect(address).unwrap();
                stream
                    .set_read_timeout(Some(Duration::from_secs(20)))
                    .unwrap();
                stream
                    .write_all(b"GET /burst HTTP/1.1\r\nhost: example.test\r\n\r\n")
                    .unwrap();
                let mut reader = BufReader::new(stream);
                let mut line = String::new();
                while line != "\r\n" {
                    line.clear();
                    reader.read_line(&mut line).unwrap();
                }
                let mut body = [0; 10];
                reader.read_exact(&mut body[..5]).unwrap();
                half.pass();
                reader.read_exact(&mut body[5..]).unwrap();
                body
            })
        })
        .collect();
    node.await_figure("collapsed", CLIENTS as u64 - 1);
    joined.pass();
    for client in clients {
        assert_eq!(&client.join().unwrap(), b"first-last");
    }
    assert_eq!(origin.requests(), 1);
    assert!(Client::new(&node).get("/burst").is_hit());
}

/// The head of the first response releases everybody; the next burst does not wait for anything.
#[test]
fn uncacheable_waits_for_one_head_and_never_again() {
    let (joined, here) = (Arc::new(Gate::default()), Arc::new(Gate::default()));
    let (at_origin, arrived) = (Arc::clone(&joined), Arc::clone(&here));
    let origin = Origin::new(move |_, stream| {
        at_origin.wait(1);
        say(
            stream,
            "HTTP/1.1 200 OK\r\ncache-control: no-store\r\ncontent-length: 1\r\n\r\n",
        );
        // No body before all of the burst are here.
        arrived.pass();
        let burst = { *arrived.0.lock().unwrap() }.div_ceil(CLIENTS);
        arrived.wait(burst * CLIENTS);
        say(stream, "x")
    });
    let node = Node::of(origin.address);
    let clients = burst(&node);
    node.await_figure("collapsed", CLIENTS as u64 - 1);
    joined.pass();
    for requests in [CLIENTS, 2 * CLIENTS] {
        if requests > CLIENTS {
            all(burst(&node));
        }
        here.wait(requests);
        assert_eq!(origin.requests(), requests);
    }
    assert!(
        all(clients)
            .iter()
            .all(|seen| seen.status == 200 && seen.body == b"x")
    );
    assert_eq!(
        node.status()["collapsed"],
        CLIENTS as u64 - 1,
        "the second burst waited for nobody"
    );
}

#[test]
fn trouble_is_asked_about_once() {
    let joined = Arc::new(Gate::default());
    let at_origin = Arc::clone(&joined);
    let origin = Origin::new(move |_, stream| {
        at_origin.wait(1);
        say(
            stream,
            "HTTP/1.1 503 Service Unavailable\r\nretry-after: 7\r\ncontent-length: 0\r\n\r\n",
        )
    });
    let node = Node::of(origin.address);
    let clients = burst(&node);
    node.await_figure("collapsed", CLIENTS as u64 - 1);
    joined.pass();
    assert!(
        all(clients)
            .iter()
            .all(|seen| seen.status == 503 && seen.header("retry-after") == "7")
    );
    assert_eq!(origin.requests(), 1);
}

/// The client that happened to be first goes away: the others do not notice.
#[test]
fn the_first_client_may_leave() {
    let joined = Arc::new(Gate::default());
    let at_origin = Arc::clone(&joined);
    let origin = Origin::new(move |_, stream| {
        at_origin.wait(1);
        say(
            stream,
            "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: 3\r\n\r\nall",
        )
    });
    let node = Node::of(origin.address);
    let mut first = TcpStream::connect(node.address).unwrap();
    first
        .write_all(b"GET /burst HTTP/1.1\r\nhost: example.test\r\n\r\n")
        .unwrap();
    while origin.requests() == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let clients = burst(&node);
    node.await_figure("collapsed", CLIENTS as u64);
    drop(first);
    joined.pass();
    assert!(all(clients).iter().all(|seen| seen.body == b"all"));
    assert_eq!(origin.requests(), 1);
}

/// Longer than what may be stored, and of unknown length: all who were there get all of it.
#[test]
fn too_long_to_store_is_whole_for_all_who_were_there() {
    const LENGTH: usize = 12 << 20;
    let joined = Arc::new(Gate::default());
    let at_origin = Arc::clone(&joined);
    let origin = Origin::new(move |_, stream| {
        at_origin.wait(1);
        say(
            stream,
            "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ntransfer-encoding: chunked\r\n\r\n",
        );
        let chunk = "y".repeat(1 << 20);
        for _ in 0..LENGTH >> 20 {
            say(stream, &format!("100000\r\n{chunk}\r\n"));
        }
        say(stream, "0\r\n\r\n")
    });
    let node = Node::of(origin.address);
    let address = node.address;
    let clients: Vec<_> = (0..5)
        .map(|_| std::thread::spawn(move || Client::to(address).get("/long")))
        .collect();
    node.await_figure("collapsed", 4);
    joined.pass();
    for seen in all(clients) {
        assert_eq!((seen.body.len(), seen.cut), (LENGTH, false));
    }
    node.await_figure("filling_bytes", 0);
    assert_eq!(
        (origin.requests(), node.status()["objects"].as_u64()),
        (1, Some(0))
    );
}

/// What is served stale is renewed without a client that waits for it.
#[test]
fn stale_is_renewed_in_the_background() {
    let requests = AtomicUsize::new(0);
    let origin = Origin::new(move |_, stream| {
        let number = requests.fetch_add(1, Ordering::SeqCst);
        let age = 9 - 9 * number.min(1);
        let fields = format!("cache-control: max-age=5, stale-while-revalidate=60\r\nage: {age}");
        say(
            stream,
            &format!("HTTP/1.1 200 OK\r\n{fields}\r\ncontent-length: 1\r\n\r\n{number}"),
        )
    });
    let node = Node::of(origin.address);
    let mut client = Client::new(&node);
    assert_eq!(client.get("/").text(), "0");
    let seen = client.get("/");
    assert!(seen.is_hit() && seen.text() == "0", "{seen:?}");
    node.await_figure("stored", 2);
    assert_eq!(client.get("/").text(), "1");
    assert_eq!(
        (origin.requests(), node.status()["stale"].as_u64()),
        (2, Some(1))
    );
}

/// Failure: one client that asks for one stale page after another, and need not wait for any, has
/// the origin asked for all of them at once.
#[test]
fn renewals_at_once_are_bounded() {
    const PAGES: usize = 160;
    const BOUND: usize = 128;
    let (renewing, open) = (Arc::new(Gate::default()), Arc::new(Gate::default()));
    let (came, door) = (Arc::clone(&renewing), Arc::clone(&open));
    let requests = AtomicUsize::new(0);
    let origin = Origin::new(move |_, stream| {
        if requests.fetch_add(1, Ordering::SeqCst) >= PAGES {
            came.pass();
            door.wait(1);
        }
        let fields = "cache-control: max-age=5, stale-while-revalidate=60\r\nage: 9";
        say(
            stream,
            &format!("HTTP/1.1 200 OK\r\n{fields}\r\ncontent-length: 1\r\n\r\nx"),
        )
    });
    let node = Node::of(origin.address);
    let mut client = Client::new(&node);
    for round in 0..2 {
        for page in 0..PAGES {
            assert_eq!(client.get(&format!("/{page}")).is_hit(), round == 1);
        }
    }
    renewing.wait(BOUND);
    // A miss is not held back by them, and what was to come before it has come.
    let behind = node.address;
    let miss = std::thread::spawn(move || Client::to(behind).get("/miss"));
    renewing.wait(BOUND + 1);
    open.pass();
    assert_eq!(miss.join().unwrap().text(), "x");
    assert_eq!(origin.requests(), PAGES + BOUND + 1);
}

/// Requests of both protocols at once, many of them on one connection.
#[test]
fn streams_of_http2_and_connections_ask_for_one_thing_each() {
    const STREAMS: usize = 100;
    let joined = Arc::new(Gate::default());
    let at_origin = Arc::clone(&joined);
    let origin = Origin::new(move |_, stream| {
        at_origin.wait(1);
        say(
            stream,
            "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: 3\r\n\r\nall",
        )
    });
    let node = Node::of(origin.address);
    let mut multiplexed = [Http2::new(&node), Http2::new(&node)];
    let streams = multiplexed.each_mut().map(|client| {
        (0..STREAMS)
            .map(|_| client.request("GET", "/burst", &[], true))
            .collect::<Vec<_>>()
    });
    let clients = burst(&node);
    node.await_figure("collapsed", (2 * STREAMS + CLIENTS) as u64 - 1);
    joined.pass();
    assert!(all(clients).iter().all(|seen| seen.body == b"all"));
    for (client, streams) in multiplexed.iter_mut().zip(streams) {
        for stream in streams {
            let answer = client.answer(stream);
            assert_eq!((answer.status, &answer.body[..]), (Some(200), &b"all"[..]));
        }
    }
    assert_eq!(origin.requests(), 1);
}

/// The stream that was first is reset, or its whole connection goes away.
#[test]
fn the_first_stream_may_leave() {
    for leaves_at_all in [false, true] {
        let joined = Arc::new(Gate::default());
        let at_origin = Arc::clone(&joined);
        let origin = Origin::new(move |_, stream| {
            at_origin.wait(1);
            say(
                stream,
                "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: 3\r\n\r\nall",
            )
        });
        let node = Node::of(origin.address);
        let mut first = Http2::new(&node);
        let stream = first.request("GET", "/burst", &[], true);
        node.await_figure("requests", 1);
        let others: Vec<u32> = (0..CLIENTS)
            .map(|_| first.request("GET", "/burst", &[], true))
            .collect();
        let clients = burst(&node);
        node.await_figure("collapsed", 2 * CLIENTS as u64);
        if leaves_at_all {
            drop(first);
            joined.pass();
        } else {
            first.reset(stream, CANCEL);
            joined.pass();
            for stream in others {
                assert_eq!(first.answer(stream).body, b"all");
            }
        }
        assert!(all(clients).iter().all(|seen| seen.body == b"all"));
        assert_eq!(origin.requests(), 1);
    }
}

/// Failure: requests for what may not be stored wait for each other on one connection.
#[test]
fn uncacheable_streams_wait_for_each_other() {
    const STREAMS: usize = 100;
    let arrived = Arc::new(Gate::default());
    let at_origin = Arc::clone(&arrived);
    let origin = Origin::new(move |_, stream| {
        say(
            stream,
            "HTTP/1.1 200 OK\r\ncache-control: no-store\r\ncontent-length: 1\r\n\r\n",
        );
        at_origin.pass();
        at_origin.wait(STREAMS);
        say(stream, "x")
    });
    let node = Node::of(origin.address);
    let mut client = Http2::new(&node);
    let streams: Vec<u32> = (0..STREAMS)
        .map(|_| client.request("GET", "/private", &[], true))
        .collect();
    for stream in streams {
        assert_eq!(client.answer(stream).body, b"x");
    }
    assert_eq!(origin.requests(), STREAMS);
}
