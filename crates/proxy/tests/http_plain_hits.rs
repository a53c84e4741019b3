//! Failure: what is answered ahead of hyper is answered otherwise than hyper would, out of turn,
//! in part, or though it was no request.

use crate::wire::{self, Client, Node};
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

fn connect(node: &Node) -> TcpStream {
    let stream = TcpStream::connect(node.address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    stream
}

/// Sends the pieces one by one, the last when something has come, and what came until the server
/// closed.
fn said(node: &Node, pieces: &[&[u8]]) -> String {
    let (mut stream, mut all, mut buffer) = (connect(node), Vec::new(), [0; 4096]);
    let (last, before) = pieces.split_last().unwrap();
    for piece in before {
        let _ = stream.write_all(piece);
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut is_last_out = false;
    while let Ok(read @ 1..) = stream.read(&mut buffer) {
        all.extend_from_slice(&buffer[..read]);
        if !is_last_out {
            is_last_out = true;
            // It may have closed.
            let _ = stream.write_all(last);
        }
    }
    String::from_utf8(all).unwrap()
}

/// Its lines without what changes with the second. Sorted: fields stand in another order after a
/// validation, and hyper puts the length of nothing last.
fn timeless(text: &str) -> Vec<&str> {
    let lines = text
        .lines()
        .filter(|line| !line.starts_with("age: ") && !line.starts_with("date: "));
    let mut lines: Vec<&str> = lines
        .map(|line| line.split("; ttl=").next().unwrap())
        .collect();
    lines.sort_unstable();
    lines
}

/// Hyper gets what comes in pieces; what comes whole, if it is plain, is answered ahead of it.
#[test]
fn at_once_or_in_pieces_is_the_same() {
    let node = Node::generated();
    let mut client = Client::new(&node);
    client.host = "a".into();
    for target in [
        "/100/a",
        "/100/a?vary=accept-language",
        "/0/a",
        "/100/a?max-age=0",
        "/100/a?status=404",
        "/100/'%~!",
        "/50/last",
    ] {
        client.get(target);
    }
    let requests = [
        "GET /100/a HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /100/a HTTP/1.1\r\nHOST:  a:80 \r\nConnection: Keep-Alive\r\nAccept: */*\r\n\r\n",
        "GET /100/a HTTP/1.1\r\nHost: A\r\nConnection: close\r\n\r\n",
        "GET /100/a HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, close\r\n\r\n",
        "GET /100/a HTTP/1.1\r\nHost: a\r\nconnection: keep-alive\r\nConnection: close\r\n\r\n",
        "GET /0/a HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /100/a HTTP/1.1\r\nHost: a\r\nIf-None-Match: *\r\n\r\n",
        "GET /100/a HTTP/1.1\r\nHost: a\r\nIf-None-Match: \"no\"\r\nRange: bytes=5-20\r\n\r\n",
        "GET /100/a HTTP/1.1\r\nHost: a\r\nRange: bytes=-7\r\n\r\n",
        "GET /100/a HTTP/1.1\r\nHost: a\r\nRange: bytes=-7, 1-2\r\n\r\n",
        "GET /100/a HTTP/1.1\r\nHost: a\r\nRange: bytes=100-\r\n\r\n",
        "GET /0/a HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1\r\n\r\n",
        "GET /100/a HTTP/1.1\r\nHost: a\r\nIf-Modified-Since: Sat, 06 Nov 2094 08:49:37 GMT\r\n\r\n",
        "GET /100/'%~! HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /100/a?vary=accept-language HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /100/a?vary=accept-language HTTP/1.1\r\nHost: a\r\nAccept-Language: \r\n\r\n",
        "GET /100/a?vary=accept-language HTTP/1.1\r\nHost: a\r\nAccept-Language: xä\r\n\r\n",
        "GET /100/a?max-age=0 HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /100/a?status=404 HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /100/a#b HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /100/a HTTP/1.0\r\nHost: a\r\n\r\n",
        "GET /100/a HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n",
        "GET http://a/100/a HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /100/a HTTP/1.1\r\n\r\n",
        "GET /100/a HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        "GET /100/a HTTP/1.1\r\nHost: a/b\r\n\r\n",
        "GET /100/a HTTP/1.1\r\nHost: a\nX: y\r\n\r\n",
        "GET /100/a HTTP/1.1\nHost: a\r\n\r\n",
        "GET /100/a HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n\r\n",
        "GET /100/a HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n",
        "GET /100/a HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1\r\n\r\n",
        "GET /100/a HTTP/1.1\r\nHost: a\r\nIf-None-Match: *\r\n\r\n",
        "GET /100/a HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
        "GET /100/a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n",
        "GET /100/a HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n",
        "GET /100/a HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n",
        "GET /100/a HTTP/1.1\r\nHost: a\r\n\r\nGET /0/a HTTP/1.1\r\nHost: a\r\n\r\n",
        "HEAD /100/a HTTP/1.1\r\nHost: a\r\n\r\n",
        "\r\nGET /100/a HTTP/1.1\r\nHost: a\r\n\r\n",
        "get /100/a HTTP/1.1\r\nHost: a\r\n\r\n",
    ];
    let last = b"GET /50/last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    for request in requests {
        let request = request.as_bytes();
        // So that all of it is in the store, if it can be.
        said(&node, &[request, last]);
        let whole = said(&node, &[request, last]);
        let pieces = said(&node, &[&request[..1], &request[1..], last]);
        assert_eq!(
            timeless(&whole),
            timeless(&pieces),
            "{}",
            String::from_utf8_lossy(request)
        );
    }
    assert!(said(&node, &[requests[0].as_bytes(), last]).contains("larder; hit"));
}

/// A client is answered before its whole body has come, and the body is a request for what somebody
/// put into the store.
#[test]
fn the_body_of_an_upload_is_no_request() {
    let node = Node::generated();
    let inner = "GET /100/a HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut client = Client::new(&node);
    client.host = "a".into();
    client.get("/100/a");
    let (length, size) = (inner.len(), format!("{:x}\r\n", inner.len()));
    let lengthy = format!("POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
    let chunked = "POST /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned();
    for (head, end) in [(vec![lengthy], ""), (vec![chunked, size], "\r\n0\r\n\r\n")] {
        let mut stream = connect(&node);
        for piece in head {
            let _ = stream.write_all(piece.as_bytes());
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = stream.write_all(format!("{inner}{end}").as_bytes());
        let mut reader = BufReader::new(stream);
        assert_eq!(wire::read_response(&mut reader, false).status, 405);
        // A client that closes its half before the answer leaves.
        let _ = reader.get_ref().shutdown(std::net::Shutdown::Write);
        let mut rest = String::new();
        let _ = reader.read_to_string(&mut rest);
        assert_eq!(rest, "", "an answer to the body");
    }
}

/// What the socket does not take at once comes all the same, in its turn, and a clean stop waits
/// for it.
#[test]
fn a_large_hit_comes_whole_to_who_reads_late() {
    let mut node = Node::generated();
    let page = Client::new(&node).get("/8000000/a").body;
    let request = "GET /8000000/a HTTP/1.1\r\nhost: example.test\r\n\r\n";
    let mut stream = connect(&node);
    stream.write_all(request.as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    // Behind a page that is not out yet.
    stream.write_all(request.as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    for _ in 0..2 {
        let seen = wire::read_response(&mut reader, false);
        assert!(seen.is_hit() && seen.body == page);
    }
    reader.get_mut().write_all(request.as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let stopping = node.http.take().unwrap();
    let stopping = std::thread::spawn(move || stopping.stop());
    std::thread::sleep(Duration::from_millis(100));
    let seen = wire::read_response(&mut reader, false);
    assert!(seen.is_hit() && seen.body == page);
    stopping.join().unwrap();
}

/// The same where hyper lets go of a connection without waiting for its stream: a client has once
/// asked for another protocol.
#[test]
fn a_stop_waits_for_who_has_asked_for_another_protocol() {
    let mut node = Node::generated();
    let page = Client::new(&node).get("/8000000/a").body;
    let mut reader = BufReader::new(connect(&node));
    let asking =
        b"GET /100/a HTTP/1.1\r\nhost: example.test\r\nconnection: upgrade\r\nUPGRADE: h2c\r\n\r\n";
    reader.get_mut().write_all(asking).unwrap();
    assert_eq!(wire::read_response(&mut reader, false).status, 200);
    reader
        .get_mut()
        .write_all(b"GET /8000000/a HTTP/1.1\r\nhost: example.test\r\n\r\n")
        .unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let stopping = node.http.take().unwrap();
    let stopping = std::thread::spawn(move || stopping.stop());
    std::thread::sleep(Duration::from_millis(100));
    let seen = wire::read_response(&mut reader, false);
    assert_eq!((seen.status, seen.body.len()), (200, page.len()));
    assert!(seen.is_hit() && seen.body == page);
    stopping.join().unwrap();
}
