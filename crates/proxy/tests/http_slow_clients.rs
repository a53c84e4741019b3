//! Failure: one slow client stops the others, or a stop of the node.

mod wire;
use larder_proxy::{Admin, limits};
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;
use wire::{Client, Node};

/// Clients that read nothing do not slow the one that does.
#[test]
fn slow_clients_wait_for_themselves_only() {
    let node = Node::generated();
    let slow: Vec<TcpStream> = (0..100)
        .map(|number| {
            let mut stream = TcpStream::connect(node.address).unwrap();
            write!(stream, "GET /8000000/{} HTTP/1.1\r\nhost: a\r\n\r\n", number % 4).unwrap();
            stream
        })
        .collect();
    let mut client = Client::new(&node);
    client.get("/1000/fast");
    for _ in 0..200 {
        assert!(client.get("/1000/fast").is_hit());
    }
    drop(slow);
}

/// A client that sends its request a byte at a time is served, and nobody waits for it.
#[test]
fn a_request_in_pieces() {
    let node = Node::generated();
    let mut slow = TcpStream::connect(node.address).unwrap();
    let mut client = Client::new(&node);
    for byte in b"GET /100/a HTTP/1.1\r\nhost: example.test\r\n\r\n" {
        slow.write_all(&[*byte]).unwrap();
        client.get("/100/b");
    }
    let seen = wire::read_response(&mut std::io::BufReader::new(slow), false);
    assert_eq!((seen.status, seen.body.len()), (200, 100));
}

/// A clean stop lets what is under way finish, and then nothing listens.
#[test]
fn stop_is_clean() {
    let mut node = Node::generated();
    let address = node.address;
    let waiting = std::thread::spawn(move || Client::to(address).get("/100/a?delay=300ms"));
    let idle = TcpStream::connect(address).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    node.http.take().unwrap().stop();
    assert_eq!(waiting.join().unwrap().body.len(), 100);
    assert!(TcpStream::connect(address).is_err());
    drop(idle);
}

/// A few clients that say nothing do not keep the admin pages from the one that asks: their places
/// come free.
#[test]
fn silent_clients_do_not_shut_out_the_scraper() {
    let node = Node::generated();
    let source = node.http.as_ref().unwrap().source();
    let admin = Admin::start(([127, 0, 0, 1], 0).into(), vec![source], None).unwrap();
    let silent: Vec<TcpStream> = (0..limits::ADMIN_CONNECTIONS)
        .map(|number| {
            let mut stream = TcpStream::connect(admin.local_addr()).unwrap();
            // Some in the middle of a request.
            stream.write_all(&b"GET / HTTP/1.1\r\nhost: a"[..number % 2 * 23]).unwrap();
            stream
        })
        .collect();
    // The client gives up after 20 seconds.
    assert_eq!(Client::to(admin.local_addr()).get("/metrics").status, 200);
    drop(silent);
    admin.stop();
}

/// Pipelined requests get their answers in order.
#[test]
fn pipelined_requests() {
    let node = Node::generated();
    let mut stream = TcpStream::connect(node.address).unwrap();
    let requests: String = (0..50).map(|n| format!("GET /{}/p HTTP/1.1\r\nhost: a\r\n\r\n", 100 + n)).collect();
    stream.write_all(requests.as_bytes()).unwrap();
    let mut reader = std::io::BufReader::new(stream);
    for n in 0..50 {
        assert_eq!(wire::read_response(&mut reader, false).body.len(), 100 + n);
    }
}
