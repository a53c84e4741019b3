//! Failure: a restart cuts requests that would have been answered a moment later; or it waits for
//! a client without end.

use crate::wire::{self, Node, Origin, say};
use larder_proxy::{HttpConfig, Timeouts, Upstream};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Duration;

/// Stops the node while a request waits for the origin; returns what the client got.
fn stopped(shutdown: Duration, delay: &str) -> String {
    let timeouts = Timeouts {
        shutdown,
        ..Timeouts::default()
    };
    let mut node = Node::with(&HttpConfig {
        timeouts,
        ..wire::config(Upstream::Generated)
    });
    let mut stream = TcpStream::connect(node.address).unwrap();
    write!(
        stream,
        "GET /100/a?delay={delay} HTTP/1.1\r\nhost: a\r\n\r\n"
    )
    .unwrap();
    node.await_figure("requests", 1);
    node.http.take().unwrap().stop();
    let mut all = String::new();
    // A reset is the end, too.
    let _ = stream.read_to_string(&mut all);
    all
}

/// Failure: a client that connects a moment before a stop gets a reset instead of an answer.
#[test]
fn the_first_request_of_a_new_connection_is_answered() {
    let answered = |_| {
        let mut node = Node::with(&wire::config(Upstream::Generated));
        let mut stream = TcpStream::connect(node.address).unwrap();
        while node.status()["connections"] != 1 {
            thread::yield_now();
        }
        let http = node.http.take().unwrap();
        let stop = thread::spawn(move || http.stop());
        thread::sleep(Duration::from_millis(50));
        let mut all = String::new();
        let _ = stream
            .write_all(b"GET /100/a HTTP/1.1\r\nhost: a\r\n\r\n")
            .and_then(|()| stream.read_to_string(&mut all));
        stop.join().unwrap();
        all.starts_with("HTTP/1.1 200") && all.contains("connection: close")
    };
    // On a busy machine, the stop may begin later, or the connection's time may be over.
    assert!((0..10).any(answered));
}

/// Failure: while requests in progress end, a new connection waits for nobody in the kernel's
/// queue, and its client goes to no other node.
#[test]
fn new_connections_are_refused_while_a_request_in_progress_ends() {
    let (answer, waits) = mpsc::channel();
    let waits = Mutex::new(waits);
    let origin = Origin::new(move |_, stream| {
        let _ = waits.lock().unwrap().recv();
        say(stream, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
    });
    let mut node = Node::of(origin.address);
    let mut stream = TcpStream::connect(node.address).unwrap();
    stream
        .write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        .unwrap();
    while origin.requests() == 0 {
        thread::yield_now();
    }
    let http = node.http.take().unwrap();
    let stop = thread::spawn(move || http.stop());
    let is_refused = (0..1000).any(|_| {
        thread::sleep(Duration::from_millis(10));
        TcpStream::connect(node.address).is_err()
    });
    assert!(is_refused && !stop.is_finished());
    answer.send(()).unwrap();
    let mut all = String::new();
    stream.read_to_string(&mut all).unwrap();
    assert!(all.ends_with("ok"), "{all}");
    stop.join().unwrap();
}

#[test]
fn a_request_in_progress_has_the_time_that_is_configured_and_no_more() {
    assert!(stopped(Duration::from_secs(20), "600ms").starts_with("HTTP/1.1 200"));
    assert_eq!(stopped(Duration::from_millis(100), "60s"), "");
}
