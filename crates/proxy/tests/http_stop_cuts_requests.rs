//! Failure: a restart cuts requests that would have been answered a moment later; or it waits for
//! a client without end.

mod wire;

use larder_proxy::{HttpConfig, Timeouts, Upstream};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use wire::Node;

/// Stops the node while a request waits for the origin; returns what the client got.
fn stopped(shutdown: Duration, delay: &str) -> String {
    let timeouts = Timeouts { shutdown, ..Timeouts::default() };
    let mut node = Node::with(&HttpConfig { timeouts, ..wire::config(Upstream::Generated) });
    let mut stream = TcpStream::connect(node.address).unwrap();
    write!(stream, "GET /100/a?delay={delay} HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    node.await_figure("requests", 1);
    node.http.take().unwrap().stop();
    let mut all = String::new();
    // A reset is the end, too.
    let _ = stream.read_to_string(&mut all);
    all
}

#[test]
fn a_request_in_progress_has_the_time_that_is_configured_and_no_more() {
    assert!(stopped(Duration::from_secs(20), "600ms").starts_with("HTTP/1.1 200"));
    assert_eq!(stopped(Duration::from_millis(100), "60s"), "");
}
