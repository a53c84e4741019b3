//! Failure: what an origin says ahead of its response does not reach the client, comes late, or
//! between the bytes of something else; and a client that waits with its body until it is asked for
//! it waits for ever, or is asked for what nobody takes. RFC 9110 §10.1.1, §15.2; RFC 8297.

use crate::wire::{self, Client, Node, Origin, read_response, say};
use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use larder_proxy::Upstream;
use std::future::{Future, poll_fn};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::pin::Pin;
use std::sync::mpsc::channel;
use std::task::Poll;
use std::time::{Duration, Instant};

const PAGE: &str = "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: 2\r\n\r\nok";

fn connect(node: &Node) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(node.address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    BufReader::new(stream)
}

/// A head, up to its empty line.
fn head(from: &mut impl BufRead) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(
            from.read_line(&mut head).unwrap() > 0,
            "it ends within {head:?}"
        );
    }
    head
}

/// Nothing comes for so long.
fn is_silent(stream: &mut BufReader<TcpStream>) -> bool {
    let limit = |limit| stream.get_ref().set_read_timeout(limit).unwrap();
    limit(Some(Duration::from_millis(200)));
    let mut probe = [0];
    let read = stream.get_ref().peek(&mut probe);
    limit(Some(Duration::from_secs(20)));
    matches!(read, Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
}

#[test]
fn hints_come_before_the_origin_has_its_response() {
    let (seen, told) = channel();
    let told = std::sync::Mutex::new(told);
    let origin = Origin::new(move |_, stream| {
        say(
            stream,
            "HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\nconnection: x-own\r\nx-own: 1\r\n\r\n",
        );
        say(
            stream,
            "HTTP/1.1 102 Processing\r\ncontent-length: 7\r\n\r\n",
        );
        told.lock()
            .unwrap()
            .recv_timeout(Duration::from_secs(10))
            .unwrap();
        say(
            stream,
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 199 Odd\r\nvia: 1.0 b\r\n\r\n",
        );
        say(stream, PAGE)
    });
    let node = Node::of(origin.address);
    let mut client = connect(&node);
    write!(client.get_mut(), "GET / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    let hints =
        "HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\nvia: 1.1 larder\r\n\r\n";
    assert_eq!(head(&mut client), hints);
    assert_eq!(
        head(&mut client),
        "HTTP/1.1 102 Processing\r\nvia: 1.1 larder\r\n\r\n"
    );
    seen.send(()).unwrap();
    assert_eq!(
        head(&mut client),
        "HTTP/1.1 100 Continue\r\nvia: 1.1 larder\r\n\r\n"
    );
    assert_eq!(
        head(&mut client),
        "HTTP/1.1 199 \r\nvia: 1.0 b\r\nvia: 1.1 larder\r\n\r\n"
    );
    assert_eq!(read_response(&mut client, false).body, b"ok");
    // What is stored is the response; and the connection is in step.
    write!(client.get_mut(), "GET / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    assert!(read_response(&mut client, false).is_hit());
}

/// Returns a client's connection of HTTP/2 to a node.
async fn connect_http2(node: &Node) -> h2::client::SendRequest<Bytes> {
    let stream = tokio::net::TcpStream::connect(node.address).await.unwrap();
    let (sender, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    sender.ready().await.unwrap()
}

fn http2_request(method: &str, fields: &[(&str, &str)]) -> Request<()> {
    let mut request = Request::builder().method(method).uri("http://a/");
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap()
}

/// Returns the next informational response, within ten seconds.
async fn interim(response: &mut h2::client::ResponseFuture) -> Response<()> {
    let next = poll_fn(|cx| response.poll_informational(cx));
    tokio::time::timeout(Duration::from_secs(10), next)
        .await
        .expect("in time")
        .expect("one more")
        .unwrap()
}

/// Browsers use hints over HTTP/2 only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hints_reach_clients_of_http_2() {
    let (seen, told) = channel();
    let told = std::sync::Mutex::new(told);
    let origin = Origin::new(move |_, stream| {
        say(
            stream,
            "HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\nconnection: x-own\r\nx-own: 1\r\n\r\n",
        );
        say(
            stream,
            "HTTP/1.1 102 Processing\r\ncontent-length: 7\r\n\r\n",
        );
        told.lock()
            .unwrap()
            .recv_timeout(Duration::from_secs(10))
            .unwrap();
        say(stream, "HTTP/1.1 199 Odd\r\nvia: 1.0 b\r\n\r\n");
        say(stream, PAGE)
    });
    let node = Node::of(origin.address);
    let mut client = connect_http2(&node).await;
    let (mut response, _) = client
        .send_request(http2_request("GET", &[]), true)
        .unwrap();
    let hints = interim(&mut response).await;
    assert_eq!(
        (hints.status().as_u16(), &hints.headers()["link"]),
        (103, &HeaderValue::from_static("</a.css>; rel=preload"))
    );
    assert!(
        !hints.headers().contains_key("x-own") && hints.headers()["via"] == "1.1 larder",
        "{hints:?}"
    );
    let processing = interim(&mut response).await;
    assert_eq!(processing.status().as_u16(), 102);
    assert!(!processing.headers().contains_key("content-length"));
    seen.send(()).unwrap();
    assert_eq!(interim(&mut response).await.status().as_u16(), 199);
    let response = response.await.unwrap();
    assert_eq!(
        (
            response.status().as_u16(),
            response.into_body().data().await.unwrap().unwrap().as_ref()
        ),
        (200, &b"ok"[..])
    );
    // What is stored is the response.
    let (mut response, _) = client
        .send_request(http2_request("GET", &[]), true)
        .unwrap();
    let stored = poll_fn(|cx| match response.poll_informational(cx) {
        Poll::Ready(Some(interim)) => panic!("{interim:?}"),
        _ => Pin::new(&mut response).poll(cx),
    });
    assert!(
        stored.await.unwrap().headers()["cache-status"]
            .to_str()
            .unwrap()
            .contains("hit")
    );
}

/// Failure: a client of HTTP/2 that waits to be asked waits until it gives up, with each upload.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_http_2_are_asked_for_the_body_when_the_origin_asks() {
    let (address, origin) = asks(Some("HTTP/1.1 100 Continue\r\n\r\n"), Duration::ZERO, true);
    let node = Node::of(address);
    let mut client = connect_http2(&node).await;
    let request = http2_request(
        "POST",
        &[("content-length", "5"), ("expect", "100-continue")],
    );
    let (mut response, mut body) = client.send_request(request, false).unwrap();
    assert_eq!(interim(&mut response).await.status().as_u16(), 100);
    body.send_data(Bytes::from_static(b"hello"), true).unwrap();
    assert_eq!(response.await.unwrap().status().as_u16(), 200);
    drop((client, node));
    let asked = tokio::task::spawn_blocking(|| origin.join().unwrap())
        .await
        .unwrap();
    assert!(asked.contains("\r\nexpect: 100-continue\r\n"), "{asked}");
}

/// Failure: a client of HTTP/2 is asked for a body that the origin has refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_body_is_not_asked_for_over_http_2() {
    let refusal = "HTTP/1.1 413 Content Too Large\r\ncontent-length: 3\r\n\r\nno\n";
    let (address, origin) = asks(Some(refusal), Duration::ZERO, false);
    let node = Node::of(address);
    let mut client = connect_http2(&node).await;
    let request = http2_request(
        "POST",
        &[("content-length", "5"), ("expect", "100-continue")],
    );
    let (mut response, body) = client.send_request(request, false).unwrap();
    let first = poll_fn(|cx| match response.poll_informational(cx) {
        Poll::Ready(Some(interim)) => panic!("{interim:?}"),
        _ => Pin::new(&mut response).poll(cx),
    });
    assert_eq!(first.await.unwrap().status().as_u16(), 413);
    drop((body, client, node));
    tokio::task::spawn_blocking(|| origin.join().unwrap())
        .await
        .unwrap();
}

/// On one connection, with a client that reads late: each hint stands before its own response, and
/// behind all of the one before.
#[test]
fn hints_of_pipelined_requests_stay_with_their_own() {
    const BYTES: usize = 3_000_000;
    let origin = Origin::new(|asked, stream| {
        let number = asked
            .line
            .split(' ')
            .nth(1)
            .unwrap()
            .trim_start_matches('/');
        let hint = format!("HTTP/1.1 103 Early Hints\r\nlink: <{number}>\r\n\r\n");
        let page =
            format!("HTTP/1.1 200 OK\r\ncontent-length: {BYTES}\r\nx-number: {number}\r\n\r\n");
        // The hint and its response come at once, too.
        say(stream, &(hint.repeat(3) + &page + &number.repeat(BYTES)))
    });
    let node = Node::of(origin.address);
    let mut client = connect(&node);
    let requests: String = (1..=5)
        .map(|number| format!("GET /{number} HTTP/1.1\r\nhost: a\r\n\r\n"))
        .collect();
    client.get_mut().write_all(requests.as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    for number in 1..=5 {
        for _ in 0..3 {
            let hint =
                format!("HTTP/1.1 103 Early Hints\r\nlink: <{number}>\r\nvia: 1.1 larder\r\n\r\n");
            assert_eq!(head(&mut client), hint);
        }
        let seen = read_response(&mut client, false);
        assert_eq!(
            (seen.header("x-number"), seen.body.len()),
            (number.to_string().as_str(), BYTES)
        );
        assert!(seen.body.iter().all(|byte| *byte == b'0' + number));
    }
}

/// Those of a slice that is asked for when the client has the head of its response would shift all
/// that follows.
#[test]
fn hints_of_late_slices_are_not_in_the_body() {
    const SLICE: usize = 1 << 20;
    let origin = Origin::new(|asked, stream| {
        let (first, last) = asked.header("range").unwrap()["bytes=".len()..]
            .split_once('-')
            .unwrap();
        let (first, last) = (
            first.parse::<usize>().unwrap(),
            last.parse().unwrap_or(usize::MAX).min(3 * SLICE - 1),
        );
        say(stream, "HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\n\r\n");
        // Long enough for it to be passed on by itself.
        std::thread::sleep(Duration::from_millis(100));
        let (all, length) = (3 * SLICE, last + 1 - first);
        let fields =
            format!("etag: \"1\"\r\ncache-control: max-age=60\r\ncontent-length: {length}");
        let range = format!("content-range: bytes {first}-{last}/{all}");
        say(
            stream,
            &format!(
                "HTTP/1.1 206 Partial Content\r\n{fields}\r\n{range}\r\n\r\n{}",
                "x".repeat(length)
            ),
        )
    });
    let node = Node::of(origin.address);
    let mut client = Client::new(&node);
    assert_eq!(
        client.send("GET", "/", &[("range", "bytes=0-9")], b"").body,
        b"xxxxxxxxxx"
    );
    node.await_figure("stored", 1);
    for _ in 0..2 {
        let seen = client.send(
            "GET",
            "/",
            &[("range", &format!("bytes=0-{}", 3 * SLICE - 1))],
            b"",
        );
        assert_eq!((seen.status, seen.body.len()), (206, 3 * SLICE));
        assert!(
            seen.body.iter().all(|byte| *byte == b'x'),
            "the hint is in the body"
        );
    }
}

#[test]
fn clients_of_http_1_0_get_none_and_no_switch_of_protocols_passes() {
    let origin = Origin::new(|asked, stream| {
        if asked.line.contains("switch") {
            say(
                stream,
                "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
            )
        } else {
            say(stream, &format!("HTTP/1.1 103 Early Hints\r\n\r\n{PAGE}"))
        }
    });
    let node = Node::of(origin.address);
    let answer = wire::raw(
        node.address,
        b"GET /old HTTP/1.0\r\nhost: a\r\nexpect: 100-continue\r\n\r\n",
    );
    assert!(
        answer.starts_with("HTTP/1.0 200 ") && answer.matches("HTTP/1.").count() == 1,
        "{answer:?}"
    );
    for fields in [
        &[][..],
        &[("upgrade", "x")],
        &[("connection", "upgrade"), ("upgrade", "y")],
    ] {
        assert_eq!(
            Client::new(&node)
                .send("GET", "/switch", fields, b"")
                .status,
            502,
            "it did not offer x"
        );
    }
}

/// An origin for one request: what it says to the head, then, where it wants the body, to that.
fn asks(
    to_head: Option<&'static str>,
    pause: Duration,
    wants_body: bool,
) -> (SocketAddr, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let origin = std::thread::spawn(move || {
        let mut stream = BufReader::new(listener.accept().unwrap().0);
        let asked = head(&mut stream);
        std::thread::sleep(pause);
        if let Some(answer) = to_head {
            stream.get_mut().write_all(answer.as_bytes()).unwrap();
        }
        if wants_body {
            stream.read_exact(&mut [0; 5]).unwrap();
            stream.get_mut().write_all(PAGE.as_bytes()).unwrap();
        }
        // Open until the other side has what it needs.
        let _ = stream.read(&mut [0]);
        asked
    });
    (address, origin)
}

const EXPECTING: &[u8] =
    b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\nexpect: 100-Continue\r\n\r\n";

#[test]
fn a_body_is_asked_for_when_the_origin_asks_for_it() {
    let (address, origin) = asks(
        Some("HTTP/1.1 100 Continue\r\n\r\n"),
        Duration::from_millis(400),
        true,
    );
    let node = Node::of(address);
    let mut client = connect(&node);
    client.get_mut().write_all(EXPECTING).unwrap();
    assert!(is_silent(&mut client), "nobody has asked yet");
    assert_eq!(head(&mut client), "HTTP/1.1 100 Continue\r\n\r\n");
    assert!(is_silent(&mut client), "once");
    client.get_mut().write_all(b"hello").unwrap();
    assert_eq!(read_response(&mut client, false).body, b"ok");
    drop((client, node));
    assert!(
        origin
            .join()
            .unwrap()
            .contains("\r\nexpect: 100-continue\r\n")
    );
}

/// Failure: the client sends its body all the same, after an answer that did not need it, and the
/// body is read as the next request.
#[test]
fn who_is_answered_at_once_without_being_asked_for_the_body_hears_that_the_connection_ends() {
    let origin = Origin::new(|_, stream| say(stream, PAGE));
    let node = Node::of(origin.address);
    let round = format!("via: {}1.1 larder\r\n", "1.1 larder, ".repeat(7));
    for (method, fields, status) in [
        ("GET", "cache-control: only-if-cached\r\n", "504"),
        ("POST", &round, "508"),
        ("OPTIONS", "max-forwards: 0\r\n", "200"),
    ] {
        let mut client = connect(&node);
        let expects = "host: a\r\ncontent-length: 5\r\nexpect: 100-continue\r\n";
        write!(
            client.get_mut(),
            "{method} / HTTP/1.1\r\n{expects}{fields}\r\n"
        )
        .unwrap();
        let said = head(&mut client);
        assert!(
            said.starts_with(&format!("HTTP/1.1 {status} ")),
            "{method}: {said}"
        );
        assert!(
            said.contains("\r\nconnection: close\r\n"),
            "{method}: {said}"
        );
    }
}

#[test]
fn an_origin_that_never_asks_gets_the_body_after_a_while() {
    let (address, origin) = asks(None, Duration::ZERO, true);
    let node = Node::of(address);
    let mut client = connect(&node);
    let begun = Instant::now();
    client.get_mut().write_all(EXPECTING).unwrap();
    assert_eq!(head(&mut client), "HTTP/1.1 100 Continue\r\n\r\n");
    assert!(begun.elapsed() >= larder_proxy::limits::CONTINUE);
    client.get_mut().write_all(b"hello").unwrap();
    assert_eq!(read_response(&mut client, false).body, b"ok");
    drop((client, node));
    origin.join().unwrap();
}

#[test]
fn a_body_that_nobody_takes_is_not_asked_for() {
    let refusal = "HTTP/1.1 413 Content Too Large\r\ncontent-length: 3\r\n\r\nno\n";
    let (address, origin) = asks(Some(refusal), Duration::ZERO, false);
    let node = Node::of(address);
    let mut client = connect(&node);
    client.get_mut().write_all(EXPECTING).unwrap();
    let seen = read_response(&mut client, false);
    assert_eq!(
        (seen.status, seen.text().as_str()),
        (413, "no\n"),
        "and nothing before it"
    );
    assert_eq!(
        seen.header("connection"),
        "close",
        "a client that sends it all the same must not"
    );
    drop((client, node));
    origin.join().unwrap();
    let gone = wire::dead();
    let node = Node::of(gone);
    let mut client = connect(&node);
    client.get_mut().write_all(EXPECTING).unwrap();
    let seen = read_response(&mut client, false);
    assert_eq!((seen.status, seen.header("connection")), (502, "close"));
}

/// Failure: an origin that refuses a body before it comes takes it for a request when it does, and
/// somebody else gets the answer.
#[test]
fn who_was_answered_before_its_body_came_has_had_the_connection_alone() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let upstream = Upstream::Http(
        format!("http://{}", listener.local_addr().unwrap())
            .parse()
            .unwrap(),
    );
    let origin = std::thread::spawn(move || {
        let mut first = BufReader::new(listener.accept().unwrap().0);
        head(&mut first);
        first
            .get_mut()
            .write_all(b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 0\r\n\r\n")
            .unwrap();
        let mut rest = String::new();
        first.read_to_string(&mut rest).unwrap();
        let mut second = BufReader::new(listener.accept().unwrap().0);
        head(&mut second);
        second.get_mut().write_all(PAGE.as_bytes()).unwrap();
        rest
    });
    // One pool of idle connections.
    let node = Node::with(&larder_proxy::HttpConfig {
        threads: 1,
        ..wire::config(upstream)
    });
    let mut client = connect(&node);
    client.get_mut().write_all(EXPECTING).unwrap();
    assert_eq!(read_response(&mut client, false).status, 413);
    client.get_mut().write_all(b"hello").unwrap();
    std::thread::sleep(larder_proxy::limits::CONTINUE + Duration::from_millis(300));
    assert_eq!(Client::new(&node).get("/other").text(), "ok");
    assert_eq!(origin.join().unwrap(), "hello");
}
