//! Failure: a request that this cache and the origin read differently. What the cache takes for a
//! body, the origin takes for the next request, and the answer to that is stored for somebody else.

use crate::wire::http2::{self, DATA, END_STREAM, Http2, frame, head_frames, pseudo};
use crate::wire::{self, Asked, Client, Node, Origin, config, say, say_last};
use larder_proxy::{HttpConfig, OriginProtocol, Upstream};
use std::io::{BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// An origin that writes down what it was asked.
struct Witness {
    origin: Origin,
    seen: Arc<Mutex<Vec<Asked>>>,
}

impl Witness {
    fn new() -> Witness {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let notes = Arc::clone(&seen);
        let origin = Origin::new(move |asked, stream| {
            notes.lock().unwrap().push(asked.clone());
            say(
                stream,
                "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: 2\r\n\r\nok",
            )
        });
        Witness { origin, seen }
    }

    fn seen(&self) -> Vec<Asked> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

/// Sends all of it, and what came back until the server closed; it must close.
fn exchange(node: &Node, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(node.address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match std::io::Read::read(&mut stream, &mut buffer) {
            Ok(0) => break,
            Ok(read) => answer.extend_from_slice(&buffer[..read]),
            // A server that closes with bytes unread resets the connection.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(error) => {
                let (request, answer) = (
                    String::from_utf8_lossy(bytes),
                    String::from_utf8_lossy(&answer),
                );
                panic!("{error}: it stays open after {request:?}: {answer:?}");
            }
        }
    }
    String::from_utf8_lossy(&answer).into_owned()
}

const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";

/// Header fields that can be read in two ways.
const HEADS: &[&str] = &[
    // Lengths.
    "Content-Length: 5\r\nContent-Length: 6",
    "Content-Length: 5, 6",
    "Content-Length: +5",
    "Content-Length: -5",
    "Content-Length: 0x5",
    "Content-Length: 5 5",
    "Content-Length: 5a",
    "Content-Length:",
    "Content-Length: 99999999999999999999999",
    "Content-Length : 5",
    "Content-Length: 5\r\nContent-Length: 5",
    "Content-Length: 5, 5",
    // With both, the coding would count (RFC 9112 §6.3), to who knows it.
    "Content-Length: 5\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: chunked\r\nContent-Length: 15",
    "TRANSFER-ENCODING: Chunked\r\nX: y\r\ncontent-length: 15\r\nConnection: keep-alive",
    // Codings. Chunked is the only one that this cache can take off again.
    "Transfer-Encoding: identity",
    "Transfer-Encoding: chunked, identity",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    "Transfer-Encoding: gzip, chunked",
    "Transfer-Encoding: chunked, chunked",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: xchunked",
    "Transfer-Encoding: \"chunked\"",
    "Transfer-Encoding : chunked",
    "Transfer-Encoding\x0b: chunked",
    // Lines.
    "X: a\r\n Transfer-Encoding: chunked",
    "X: a\r\n\tb",
    "X: a\rTransfer-Encoding: chunked",
    "X: a\nTransfer-Encoding: chunked",
    "X: a\0b",
    "X: a\x01b",
    "X: a\x7fb",
    " X: a",
    "X a: b",
    ": a",
    "no colon",
];

/// Request lines that can be read in two ways.
const REQUEST_LINES: &[&str] = &[
    "GET  / HTTP/1.1",
    "GET / HTTP/1.1 ",
    "GET /a b HTTP/1.1",
    "GET /\0 HTTP/1.1",
    "GET /\x01 HTTP/1.1",
    "GET /",
    "GET / HTTP/2.0",
    "GET / HTTP/1.11",
    "GET / XTTP/1.1",
    "G@T / HTTP/1.1",
    "GET / HTTP/1.0\r\nTransfer-Encoding: chunked",
    "GET / HTTP/1.1\nX: y",
    "\nGET / HTTP/1.1",
    "GET / HTTP/1.1\r\nHost: b",
    "GET / HTTP/1.1\r\nHost: a",
    "GET / HTTP/1.1\r\nhost:",
    "GET http://a@b/ HTTP/1.1",
    "GET https://a/ HTTP/1.1",
    "CONNECT a:80 HTTP/1.1",
    "GET * HTTP/1.1",
    "GET a/b HTTP/1.1",
];

/// Refused with 400: the connection is closed, and neither the request nor its rest reaches the
/// origin.
#[test]
fn what_can_be_read_in_two_ways_is_refused() {
    let witness = Witness::new();
    let node = Node::of(witness.origin.address);
    for head in HEADS {
        let request = format!(
            "POST / HTTP/1.1\r\nHost: a\r\n{head}\r\n\r\n5\r\nhello\r\n0\r\n\r\n{SMUGGLED}"
        );
        let answer = exchange(&node, request.as_bytes());
        assert!(answer.starts_with("HTTP/1.1 400 "), "{head:?}: {answer:?}");
        assert_eq!(
            answer.matches("HTTP/1.1 ").count(),
            1,
            "{head:?}: {answer:?}"
        );
    }
    for line in REQUEST_LINES {
        let answer = exchange(
            &node,
            format!("{line}\r\nHost: a\r\n\r\n{SMUGGLED}").as_bytes(),
        );
        assert!(
            answer.starts_with("HTTP/1.1 400 ") && answer.matches("HTTP/1.1 ").count() == 1,
            "{line:?}: {answer:?}"
        );
    }
    for hosts in [
        "",
        "Host:\r\n",
        "Host: a b\r\n",
        "Host: a/b\r\n",
        "Host: a@b\r\n",
        "Host: \"a\"\r\n",
        "Host: a:b\r\n",
        "Host: a:1:2\r\n",
        "Host: [::1]x\r\n",
        "Host: [::1\r\n",
    ] {
        let answer = exchange(
            &node,
            format!("GET / HTTP/1.1\r\n{hosts}\r\n{SMUGGLED}").as_bytes(),
        );
        assert!(
            answer.starts_with("HTTP/1.1 400 ") && answer.matches("HTTP/1.1 ").count() == 1,
            "{hosts:?}: {answer:?}"
        );
    }
    assert!(witness.seen().is_empty());
}

/// Failure: a line without an end fills the memory, or is held for ever.
#[test]
fn lines_that_are_too_long_are_refused() {
    let witness = Witness::new();
    let node = Node::of(witness.origin.address);
    let long = "a".repeat(80_000);
    for (head, status) in [
        (format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n"), "431"),
        (
            format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", long.repeat(3)),
            "431",
        ),
        (
            format!(
                "GET / HTTP/1.1\r\nHost: a\r\n{}\r\n",
                "X: y\r\n".repeat(200)
            ),
            "431",
        ),
    ] {
        let answer = exchange(&node, head.as_bytes());
        assert!(
            answer.is_empty() || answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{status}: {answer:?}"
        );
        assert!(answer.matches("HTTP/1.1 ").count() <= 1);
    }
    assert!(witness.seen().is_empty());
}

/// The origin gets no end of a body whose end cannot be told, and so no request after it.
#[test]
fn chunks_that_can_be_read_in_two_ways() {
    let witness = Witness::new();
    let node = Node::of(witness.origin.address);
    for chunks in [
        "0x5\r\nhello\r\n0\r\n\r\n",
        "-5\r\nhello\r\n0\r\n\r\n",
        "5\nhello\r\n0\r\n\r\n",
        "5\rhello\r\n0\r\n\r\n",
        "5;a\nb\r\nhello\r\n0\r\n\r\n",
        "5\r\nhelloXX0\r\n\r\n",
        "5\r\nhello0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "g\r\nhello\r\n0\r\n\r\n",
        "\r\nhello\r\n0\r\n\r\n",
        "FFFFFFFFFFFFFFFFF\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello\r\n0\r\nX\r\n\r\n",
    ] {
        let request = format!(
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}{SMUGGLED}"
        );
        let answer = exchange(&node, request.as_bytes());
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 400 "),
            "{chunks:?}: {answer:?}"
        );
        assert!(
            witness
                .seen()
                .iter()
                .all(|asked| !asked.line.contains("smuggled")),
            "{chunks:?}"
        );
    }
}

/// A body where none is expected (a "fat GET") is neither left on the connection nor part of what
/// is stored.
#[test]
fn a_body_in_a_get_is_one() {
    let witness = Witness::new();
    let node = Node::of(witness.origin.address);
    let mut client = Client::new(&node);
    let chunks = format!("{:x}\r\n{SMUGGLED}\r\n0\r\n\r\n", SMUGGLED.len());
    for method in ["GET", "HEAD"] {
        let head = format!(
            "{method} /fat HTTP/1.1\r\nhost: a\r\nconnection: close\r\ntransfer-encoding: chunked\r\n"
        );
        let answer = exchange(&node, format!("{head}\r\n{chunks}").as_bytes());
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        let asked = witness.seen();
        assert_eq!((asked.len(), &asked[0].body[..]), (1, SMUGGLED.as_bytes()));
        let seen = client.send(method, "/fat", &[], SMUGGLED.as_bytes());
        assert_eq!(seen.status, 200);
        assert!(
            seen.header("cache-status")
                .starts_with("larder; fwd=bypass; fwd-status=200"),
            "{seen:?}"
        );
        let asked = witness.seen();
        assert_eq!((asked.len(), &asked[0].body[..]), (1, SMUGGLED.as_bytes()));
    }
    assert!(!client.get("/fat").is_hit());
}

/// The same from the other side: an origin whose response can be read in two ways is not believed,
/// and nothing of it stored.
#[test]
fn responses_that_can_be_read_in_two_ways() {
    for (fields, body) in [
        ("content-length: 5\r\ncontent-length: 6", "hello!"),
        ("content-length: 5, 6", "hello!"),
        ("content-length: +5", "hello"),
        ("content-length: 0x5", "hello"),
        ("x: a\0b\r\ncontent-length: 5", "hello"),
    ] {
        let text =
            format!("HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\n{fields}\r\n\r\n{body}");
        let origin = Origin::new(move |_, stream| say_last(stream, &text));
        let node = Node::of(origin.address);
        for _ in 0..2 {
            assert_eq!(Client::new(&node).get("/").status, 502, "{fields:?}");
        }
    }
    // With both, the coding counts (RFC 9112 §6.3).
    for fields in [
        "content-length: 3\r\ntransfer-encoding: chunked",
        "transfer-encoding: chunked\r\ncontent-length: 3",
    ] {
        let head = format!("HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\n{fields}\r\n\r\n");
        let origin = Origin::new(move |_, stream| {
            say_last(stream, &format!("{head}5\r\nhello\r\n0\r\n\r\n"))
        });
        let node = Node::of(origin.address);
        for _ in 0..2 {
            let seen = Client::new(&node).get("/");
            assert_eq!(
                (&seen.body[..], seen.cut),
                (&b"hello"[..], false),
                "{fields}: {seen:?}"
            );
        }
    }
    // Bytes after a response are nobody's.
    let twice = "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: 2\r\n\r\nok\
                 HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: 4\r\n\r\nevil";
    let origin = Origin::new(move |_, stream| say(stream, twice));
    let node = Node::of(origin.address);
    let mut client = Client::new(&node);
    for target in ["/a", "/b", "/c"] {
        assert_eq!(client.get(target).body, b"ok", "{target}");
    }
}

/// Requests one behind the other on one connection are answered one after the other, each with its
/// own.
#[test]
fn pipelined_requests_stay_apart() {
    let node = Node::generated();
    let mut stream = TcpStream::connect(node.address).unwrap();
    let requests: String = (1..=20)
        .map(|size| format!("GET /{size}00/p HTTP/1.1\r\nHost: a\r\n\r\n"))
        .collect();
    stream.write_all(requests.as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    for size in 1..=20 {
        let seen = wire::read_response(&mut reader, false);
        assert_eq!((seen.status, seen.body.len()), (200, size * 100));
        assert!(seen.body.starts_with(format!("/{size}00/p\n").as_bytes()));
    }
}

/// Fields that no message of HTTP/2 may have (RFC 9113 §8.2): they frame messages of HTTP/1.1, or
/// become other fields there.
const HTTP2_FIELDS: &[(&str, &str)] = &[
    ("connection", "close"),
    ("connection", "content-length"),
    ("keep-alive", "timeout=5"),
    ("proxy-connection", "close"),
    ("transfer-encoding", "chunked"),
    ("transfer-encoding", "identity"),
    ("upgrade", "websocket"),
    ("te", "gzip"),
    ("te", "trailers, deflate"),
    // Names.
    ("X-Upper", "a"),
    ("Transfer-Encoding", "chunked"),
    ("content-Length", "5"),
    ("", "a"),
    ("x a", "b"),
    ("x ", "b"),
    (" x", "b"),
    ("x:", "b"),
    ("x: a\r\ny", "b"),
    ("transfer-encoding: chunked\r\nx", "b"),
    ("x\0", "b"),
    ("x\r", "b"),
    ("x\n", "b"),
    ("x\x7f", "b"),
    ("x\u{e9}", "b"),
    // Values.
    ("x", "a\r\ntransfer-encoding: chunked"),
    ("x", "a\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a"),
    ("x", "a\nb"),
    ("x", "a\rb"),
    ("x", "a\0b"),
    ("x", "\n"),
    ("x", " a"),
    ("x", "a "),
    ("x", "\ta"),
    // Lengths.
    ("content-length", "+5"),
    ("content-length", "-5"),
    ("content-length", "0x5"),
    ("content-length", "5, 5"),
    ("content-length", " 5"),
    ("content-length", ""),
    ("content-length", "99999999999999999999999"),
    // The host.
    ("host", "other.test"),
    ("host", "example.test:80"),
    ("host", ""),
    // Pseudo-fields (§8.3) after fields, unknown ones, and those of responses.
    (":path", "/smuggled"),
    (":method", "GET"),
    (":authority", "other.test"),
    (":scheme", "https"),
    (":status", "200"),
    (":protocol", "websocket"),
    (":x", "a"),
    (":", "a"),
];

/// Returns a head with another value of a pseudo-field, or without it.
fn with_pseudo<'a>(name: &str, value: Option<&'a str>) -> Vec<(&'a str, &'a str)> {
    let mut head = pseudo("POST", "/");
    match value {
        Some(value) => head
            .iter_mut()
            .filter(|field| field.0 == name)
            .for_each(|field| field.1 = value),
        None => head.retain(|field| field.0 != name),
    }
    head
}

/// Pseudo-fields that cannot become a request line and a `Host`.
const PSEUDO: &[(&str, Option<&str>)] = &[
    (":method", None),
    (":method", Some("")),
    (":method", Some("G T")),
    (":method", Some("GET /smuggled HTTP/1.1\r\nx:")),
    (":method", Some("G@T")),
    (":method", Some("CONNECT")),
    (":scheme", None),
    (":scheme", Some("")),
    (":scheme", Some("https")),
    (":scheme", Some("ftp")),
    (":scheme", Some("http://evil.test/x")),
    (":path", None),
    (":path", Some("")),
    (":path", Some("*")),
    (":path", Some("a/b")),
    (":path", Some("http://other.test/")),
    (":path", Some("/a b")),
    (":path", Some("/a HTTP/1.1\r\nx: y")),
    (":path", Some("/a\tb")),
    (":path", Some("/a\0b")),
    (":path", Some("/a\x7fb")),
    (":authority", None),
    (":authority", Some("")),
    (":authority", Some("a b")),
    (":authority", Some("a/b")),
    (":authority", Some("user@a")),
    (":authority", Some("a:b")),
    (":authority", Some("a:1:2")),
    (":authority", Some("[::1]x")),
    (":authority", Some("a\r\nx: y")),
];

/// The same over HTTP/2. A malformed request is an error of its stream (RFC 9113 §8.1.1); a broken
/// field section is one of the connection (RFC 7541 §3).
#[test]
fn http2_requests_that_can_be_read_in_two_ways_reach_the_origin() {
    let witness = Witness::new();
    let node = Node::of(witness.origin.address);
    let fields = HTTP2_FIELDS
        .iter()
        .map(|field| [pseudo("POST", "/"), vec![*field]].concat());
    let others = PSEUDO.iter().map(|(name, value)| with_pseudo(name, *value));
    let twice = ["content-length", "host"].map(|name| {
        let values = if name == "host" {
            ["example.test"; 2]
        } else {
            ["5", "6"]
        };
        [
            pseudo("POST", "/"),
            values.map(|value| (name, value)).to_vec(),
        ]
        .concat()
    });
    let first = pseudo("POST", "/")
        .into_iter()
        .map(|field| [vec![field], pseudo("POST", "/")].concat());
    let mut faults = Vec::new();
    for head in fields.chain(others).chain(twice).chain(first) {
        let mut client = Http2::new(&node);
        let stream = client.head(&head, false);
        client.data(stream, b"hello", true);
        let answer = client.answer(stream);
        let is_broken_off =
            answer == Default::default() && client.end().is_some_and(|code| code != 0);
        let seen = witness.seen();
        if !(answer.is_refused() || is_broken_off) || !seen.is_empty() {
            faults.push((head, answer, seen));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

/// A stream that was refused does not harm the others of its connection.
#[test]
fn the_origin_gets_a_body_of_http2_of_another_length_than_announced() {
    let witness = Witness::new();
    let node = Node::of(witness.origin.address);
    let mut client = Http2::new(&node);
    for (length, pieces) in [
        ("5", &["hell"][..]),
        ("5", &["hello!"]),
        ("5", &["hel", "lo!"]),
        ("5", &[""]),
        ("5", &[]),
        ("0", &["hello"]),
        ("5", &["hello", SMUGGLED]),
        ("5", &["hello", "", SMUGGLED]),
    ] {
        let stream = client.request(
            "POST",
            "/",
            &[("content-length", length)],
            pieces.is_empty(),
        );
        for (number, piece) in pieces.iter().enumerate() {
            // What has come is complete by its length, and what follows makes it malformed.
            std::thread::sleep(Duration::from_millis(50));
            client.data(stream, piece.as_bytes(), number + 1 == pieces.len());
        }
        let answer = client.answer(stream);
        assert!(answer.is_refused(), "{length} {pieces:?}: {answer:?}");
        assert!(witness.seen().is_empty(), "{length} {pieces:?}");
    }
    // The end may come later than the last byte, and with trailers.
    for (length, body) in [("5", "hello"), ("0", "")] {
        let stream = client.request("POST", "/", &[("content-length", length)], false);
        client.data(stream, body.as_bytes(), false);
        client.data(stream, b"", true);
        assert_eq!(client.answer(stream).status, Some(200));
        let stream = client.request(
            "POST",
            "/",
            &[("content-length", length), ("trailer", "x")],
            false,
        );
        client.data(stream, body.as_bytes(), false);
        client.trailers(stream, &[("x", "y")]);
        assert_eq!(client.answer(stream).status, Some(200));
        let seen = witness.seen();
        assert_eq!(
            (seen.len(), &seen[0].body[..], &seen[1].body[..]),
            (2, body.as_bytes(), body.as_bytes())
        );
    }
    // A fragment is no part of a target.
    let stream = client.request("POST", "/a#b", &[("content-length", "0")], true);
    assert_eq!(client.answer(stream).status, Some(200));
    assert_eq!(witness.seen()[0].line, "POST /a HTTP/1.1");
    // What looks like chunks and a request is a body.
    let text = format!("5\r\nhello\r\n0\r\n\r\n{SMUGGLED}");
    for fields in [&[][..], &[("content-length", &*text.len().to_string())]] {
        for method in ["POST", "GET"] {
            let stream = client.request(method, "/whole", fields, false);
            client.data(stream, text.as_bytes(), true);
            assert_eq!(client.answer(stream).status, Some(200));
            let seen = witness.seen();
            assert_eq!(
                (seen.len(), &seen[0].body[..]),
                (1, text.as_bytes()),
                "{fields:?}"
            );
        }
    }
}

/// A client that sends the last byte and never ends the stream.
#[test]
fn the_origin_gets_a_body_of_http2_that_never_ends() {
    let witness = Witness::new();
    let mut config = config(Upstream::Http(
        format!("http://{}", witness.origin.address)
            .parse()
            .unwrap(),
    ));
    config.timeouts.client_body = Duration::from_millis(300);
    let node = Node::with(&config);
    let mut client = Http2::new(&node);
    for (length, body) in [("5", "hello"), ("0", "")] {
        let stream = client.request("POST", "/", &[("content-length", length)], false);
        client.data(stream, body.as_bytes(), false);
        assert_eq!(client.status(stream), Some(408), "{length}");
        assert!(witness.seen().is_empty(), "{length}");
    }
}

/// The end of a stream without END_STREAM is no end of its body, whatever the code of the reset
/// (RFC 9113 §8.1). The origin has answered before, so that the node still reads the body.
#[test]
fn a_body_of_http2_that_is_reset_reaches_the_origin_as_complete() {
    for code in [0, 8] {
        for length in [&[("content-length", "5")][..], &[]] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let node = Node::of(listener.local_addr().unwrap());
            let origin = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                stream
                    .set_read_timeout(Some(Duration::from_secs(10)))
                    .unwrap();
                let (mut read, mut buffer) = (Vec::new(), [0; 4096]);
                let mut is_answered = false;
                // The node closes the connection of a body that broke off.
                while let Ok(count @ 1..) = stream.read(&mut buffer) {
                    read.extend_from_slice(&buffer[..count]);
                    if !is_answered && read.windows(4).any(|four| four == b"\r\n\r\n") {
                        stream
                            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
                            .unwrap();
                        is_answered = true;
                    }
                }
                String::from_utf8_lossy(&read).into_owned()
            });
            let mut client = Http2::new(&node);
            let stream = client.request("POST", "/", length, false);
            client.data(stream, b"he", false);
            assert_eq!(client.status(stream), Some(200));
            client.data(stream, b"llo", false);
            client.reset(stream, code);
            let seen = origin.join().unwrap();
            let (_, body) = seen.split_once("\r\n\r\n").unwrap();
            let is_whole = if length.is_empty() {
                body.ends_with("0\r\n\r\n")
            } else {
                body == "hello"
            };
            assert!(!is_whole, "{code} {length:?}: {seen:?}");
        }
    }
}

/// RFC 9113 §8.1: trailers have no pseudo-fields, and end the stream. RFC 9110 §6.5.1: they frame
/// no message.
#[test]
fn trailers_of_http2_change_the_request() {
    let witness = Witness::new();
    let node = Node::of(witness.origin.address);
    for field in [
        (":x", "a"),
        ("X-Upper", "a"),
        ("connection", "close"),
        ("transfer-encoding", "chunked"),
        ("x", "a\r\nb: c"),
        ("x: a\r\ny", "b"),
    ] {
        let mut client = Http2::new(&node);
        let stream = client.request("POST", "/", &[("trailer", "x")], false);
        client.data(stream, b"hello", false);
        client.trailers(stream, &[field]);
        let answer = client.answer(stream);
        let is_broken_off =
            answer == Default::default() && client.end().is_some_and(|code| code != 0);
        assert!(
            answer.is_refused() || is_broken_off,
            "{field:?}: {answer:?}"
        );
        assert!(witness.seen().is_empty(), "{field:?}");
    }
    let mut client = Http2::new(&node);
    let announced = "content-length, transfer-encoding, host, x";
    let fields = [("content-length", "0"), ("host", "other.test"), ("x", "y")];
    // h2 ignores pseudo-fields in trailers.
    for trailers in [
        &fields[..],
        &[(":path", "/smuggled")],
        &[(":method", "GET")],
        &[(":authority", "other.test")],
    ] {
        let stream = client.request("POST", "/", &[("trailer", announced)], false);
        client.data(stream, b"hello", false);
        client.trailers(stream, trailers);
        assert_eq!(client.answer(stream).status, Some(200));
        let seen = witness.seen();
        let [one] = &seen[..] else {
            panic!("{trailers:?}: {seen:?}")
        };
        assert_eq!(
            (&one.line[..], &one.body[..], one.header("host")),
            ("POST / HTTP/1.1", &b"hello"[..], Some("example.test"))
        );
    }
}

/// What an origin of HTTP/2 says may not become another message of HTTP/1.1, or be stored.
#[test]
fn responses_of_http2_that_can_be_read_in_two_ways() {
    let status = (":status", "200");
    let heads: &[&[(&str, &str)]] = &[
        &[],
        &[(":status", "")],
        &[(":status", "20")],
        &[(":status", "abc")],
        &[(":status", "101")],
        &[status, status],
        &[("x", "y"), status],
        &[status, (":x", "y")],
        &[status, ("connection", "close")],
        &[status, ("transfer-encoding", "chunked")],
        &[status, ("upgrade", "x")],
        &[status, ("X-Upper", "a")],
        &[
            status,
            ("x", "a\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
        ],
        &[status, ("x", "a\nb")],
        &[status, ("x", "a\0b")],
        &[status, ("x: y\r\nz", "a")],
        &[status, ("content-length", "5"), ("content-length", "6")],
        &[status, ("content-length", "5, 6")],
        &[status, ("content-length", "+5")],
    ];
    let mut faults = Vec::new();
    for head in heads {
        let head = head.to_vec();
        let (address, _) = http2::origin({
            let head = [head.clone(), vec![("cache-control", "max-age=60")]].concat();
            move |_, stream| {
                [
                    head_frames(stream, &head, false),
                    frame(DATA, END_STREAM, stream, b"hello"),
                ]
                .concat()
            }
        });
        let node = by_http2(address);
        for _ in 0..2 {
            let seen = Client::new(&node).get("/");
            if seen.status != 502 {
                faults.push((head.clone(), seen));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    // A body of another length than announced breaks off, and is not stored.
    for body in ["hell", "hello!"] {
        let head = [
            status,
            ("cache-control", "max-age=60"),
            ("content-length", "5"),
        ];
        let (address, requests) = http2::origin(move |_, stream| {
            [
                head_frames(stream, &head, false),
                frame(DATA, END_STREAM, stream, body.as_bytes()),
            ]
            .concat()
        });
        let node = by_http2(address);
        for asked in 1..3 {
            let text = wire::raw(node.address, b"GET / HTTP/1.1\r\nhost: a\r\n\r\n");
            let begun = text.split_once("\r\n\r\n").map_or("", |(_, begun)| begun);
            assert!(
                text.starts_with("HTTP/1.1 502 ") || begun.len() < 5,
                "{body}: {text}"
            );
            assert_eq!(requests.load(std::sync::atomic::Ordering::SeqCst), asked);
        }
    }
}

fn by_http2(origin: std::net::SocketAddr) -> Node {
    let upstream = Upstream::Http(format!("http://{origin}").parse().unwrap());
    Node::with(&HttpConfig {
        origin_protocol: OriginProtocol::Http2,
        ..wire::config(upstream)
    })
}
