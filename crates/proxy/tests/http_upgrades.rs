//! Failure: a WebSocket does not open, loses bytes, or never ends; or a request with `Upgrade`
//! carries others past the inspection of messages. RFC 9110 §7.8, RFC 6455.

use crate::wire::http2::Http2;
use crate::wire::{self, Asked, Client, Node, Origin, config, read_response, say};
use larder_proxy::{HttpConfig, Timeouts, Upstream};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tungstenite::protocol::Role;
use tungstenite::{Message, WebSocket};

const ACCEPTED: &str =
    "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: Upgrade\r\nx-own: 1\r\n\r\n";
const OFFER: &str = "connection: keep-alive, Upgrade\r\nupgrade: x\r\n";

fn connect(node: &Node) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(node.address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    BufReader::new(stream)
}

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

/// An origin that accepts `x`, and then sends back what it gets, until the end.
fn echo() -> Origin {
    Origin::new(|asked, stream| {
        assert_eq!(asked.header("upgrade"), Some("x"), "{asked:?}");
        say(stream, ACCEPTED);
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = stream.read(&mut buffer) {
            stream.write_all(&buffer[..read]).unwrap();
        }
        false
    })
}

fn with_timeouts(origin: SocketAddr, timeouts: Timeouts) -> Node {
    let upstream = Upstream::Http(format!("http://{origin}").parse().unwrap());
    Node::with(&HttpConfig {
        timeouts,
        ..config(upstream)
    })
}

/// Opens a tunnel to the echo.
fn open(node: &Node) -> BufReader<TcpStream> {
    let mut client = connect(node);
    write!(
        client.get_mut(),
        "GET /chat HTTP/1.1\r\nhost: a\r\n{OFFER}\r\n"
    )
    .unwrap();
    let head = head(&mut client);
    assert!(
        head.starts_with("HTTP/1.1 101 Switching Protocols\r\n"),
        "{head}"
    );
    client
}

fn echoes(client: &mut BufReader<TcpStream>, text: &[u8]) {
    client.get_mut().write_all(text).unwrap();
    let mut back = vec![0; text.len()];
    client.read_exact(&mut back).unwrap();
    assert_eq!(back, text);
}

/// With a client and a server of a WebSocket library.
#[test]
fn websocket_messages_are_lost() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = listener.local_addr().unwrap();
    let serving = std::thread::spawn(move || {
        let mut socket = tungstenite::accept(listener.accept().unwrap().0).unwrap();
        socket.send(Message::text("welcome")).unwrap();
        loop {
            match socket.read() {
                Ok(Message::Close(_)) | Err(_) => break,
                Ok(message) if message.is_text() || message.is_binary() => {
                    socket.send(message).unwrap()
                }
                Ok(_) => {}
            }
        }
        // The handshake of the close.
        let _ = socket.flush();
    });
    let node = Node::of(origin);
    let stream = TcpStream::connect(node.address).unwrap();
    let (mut socket, answer) =
        tungstenite::client(format!("ws://{}/chat?a=b", node.address), stream).unwrap();
    assert!(
        answer.headers()["via"].to_str().unwrap().contains("larder"),
        "{answer:?}"
    );
    let cache_status = answer.headers()["cache-status"].to_str().unwrap();
    assert!(
        cache_status.starts_with("larder; fwd=bypass; fwd-status=101"),
        "{cache_status}"
    );
    assert!(!answer.headers().contains_key("content-length"));
    assert_eq!(socket.read().unwrap(), Message::text("welcome"));
    for length in [0, 1, 125, 126, 70_000, 3_000_000] {
        let message = Message::binary(vec![b'\n'; length]);
        socket.send(message.clone()).unwrap();
        assert_eq!(socket.read().unwrap(), message);
    }
    socket.close(None).unwrap();
    while socket.read().is_ok() {}
    drop(socket);
    serving.join().unwrap();
    node.await_figure("requests", 1);
    let figures = node.status()["upgraded"].clone();
    assert_eq!(
        (figures["opened"].as_u64(), figures["refused"].as_u64()),
        (Some(1), Some(0)),
        "{figures}"
    );
    assert!(
        figures["sent_bytes"].as_u64() > Some(3_000_000)
            && figures["received_bytes"].as_u64() > Some(3_000_000)
    );
    for _ in 0..500 {
        if node.status()["upgraded"]["open"] == 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("its place is not free again");
}

/// Each side may send before it knows that the other has read its head; bytes that are no HTTP
/// would be refused as ambiguous.
#[test]
fn early_bytes_are_lost_or_inspected() {
    let origin = Origin::new(|_, stream| {
        say(stream, &format!("{ACCEPTED}early\n\0"));
        let mut seen = [0; 8];
        stream.read_exact(&mut seen).unwrap();
        stream.write_all(&seen).unwrap();
        false
    });
    let node = Node::of(origin.address);
    for pause in [0, 100] {
        let mut client = connect(&node);
        client.get_mut().set_nodelay(true).unwrap();
        let head_bytes = format!("GET /chat HTTP/1.1\r\nhost: a\r\n{OFFER}\r\n");
        if pause == 0 {
            client
                .get_mut()
                .write_all(&[head_bytes.as_bytes(), b"\n\n\0abc\n\n"].concat())
                .unwrap();
        } else {
            client.get_mut().write_all(head_bytes.as_bytes()).unwrap();
            for byte in b"\n\n\0abc\n\n" {
                std::thread::sleep(Duration::from_millis(pause / 10));
                client.get_mut().write_all(&[*byte]).unwrap();
            }
        }
        let head = head(&mut client);
        assert!(
            head.contains("\r\nupgrade: x\r\n") && head.contains("\r\nx-own: 1\r\n"),
            "{head}"
        );
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"early\n\0\n\n\0abc\n\n");
    }
}

/// An origin that refuses, and remembers its requests.
fn refusing() -> (Origin, Arc<Mutex<Vec<Asked>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&seen);
    let origin = Origin::new(move |asked, stream| {
        notes.lock().unwrap().push(asked.clone());
        say(
            stream,
            "HTTP/1.1 200 OK\r\nupgrade: x\r\ncache-control: max-age=60\r\ncontent-length: 2\r\n\r\nok",
        )
    });
    (origin, seen)
}

#[test]
fn what_follows_a_refused_upgrade_passes_without_inspection() {
    let (origin, seen) = refusing();
    let node = Node::of(origin.address);
    let offer = |target: &str| format!("GET {target} HTTP/1.1\r\nhost: a\r\n{OFFER}\r\n");
    // Ordinary requests, one of which offers it again.
    let mut client = connect(&node);
    let plain = "GET /plain HTTP/1.1\r\nhost: a\r\n\r\n";
    client
        .get_mut()
        .write_all(
            [&offer("/1"), plain, &offer("/2"), plain]
                .concat()
                .as_bytes(),
        )
        .unwrap();
    for _ in 0..4 {
        let answer = read_response(&mut client, false);
        assert_eq!(
            (
                answer.status,
                answer.body.as_slice(),
                answer.header("upgrade")
            ),
            (200, &b"ok"[..], "")
        );
    }
    let targets: Vec<String> = seen
        .lock()
        .unwrap()
        .drain(..)
        .map(|asked| asked.line)
        .collect();
    assert_eq!(
        targets,
        ["GET /1 HTTP/1.1", "GET /plain HTTP/1.1", "GET /2 HTTP/1.1"]
    );
    // Ambiguous ones.
    for doubted in [
        "content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "x: y\n\n",
    ] {
        let smuggled = format!(
            "POST /odd HTTP/1.1\r\nhost: a\r\n{doubted}GET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n"
        );
        let answers = wire::raw(node.address, [offer("/3"), smuggled].concat().as_bytes());
        let statuses: Vec<&str> = answers.matches("HTTP/1.1 ").collect();
        assert!(
            statuses.len() == 2 && answers.contains("\nok") | answers.contains("okHTTP/1.1 400 "),
            "{answers}"
        );
        let targets: Vec<String> = seen
            .lock()
            .unwrap()
            .drain(..)
            .map(|asked| asked.line)
            .collect();
        assert_eq!(targets, ["GET /3 HTTP/1.1"]);
    }
}

#[test]
fn an_upgrade_is_answered_from_the_store_or_stored() {
    let (origin, seen) = refusing();
    let node = Node::of(origin.address);
    let mut client = Client::new(&node);
    let offer = [("connection", "upgrade"), ("upgrade", "x")];
    assert!(!client.send("GET", "/", &offer, b"").is_hit());
    assert!(!client.get("/").is_hit(), "the first one was stored");
    assert!(client.get("/").is_hit());
    let answer = client.send("GET", "/", &offer, b"");
    let cache_status = answer.header("cache-status");
    assert!(
        cache_status.starts_with("larder; fwd=bypass; fwd-status=200"),
        "{cache_status}"
    );
    assert_eq!(seen.lock().unwrap().len(), 3);
}

#[test]
fn what_is_no_offer_reaches_the_origin_as_one() {
    let (origin, seen) = refusing();
    let node = Node::of(origin.address);
    let passed = |fields: &str, body: &str, version: &str| {
        let request = format!(
            "POST /odd HTTP/{version}\r\nhost: a\r\nconnection: close\r\n{fields}\r\n{body}"
        );
        assert!(
            wire::raw(node.address, request.as_bytes()).contains(" 200 "),
            "{request}"
        );
        let asked = seen.lock().unwrap().pop().unwrap();
        let connection = asked
            .header("connection")
            .is_some_and(|value| value.contains("upgrade"));
        assert_eq!(connection, asked.header("upgrade").is_some(), "{asked:?}");
        asked.header("upgrade").map(str::to_owned)
    };
    for none in [
        "h2c",
        "H2C",
        "h2c, HTTP/2.0",
        "TLS/1.2",
        "h2c/1",
        ",",
        "HTTP/3, h3",
    ] {
        let fields = format!(
            "connection: Upgrade, HTTP2-Settings\r\nhttp2-settings: AAMAAABk\r\nupgrade: {none}\r\n"
        );
        assert_eq!(passed(&fields, "", "1.1"), None, "{none}");
    }
    assert_eq!(passed("upgrade: x\r\n", "", "1.1"), None);
    assert_eq!(passed(OFFER, "", "1.0"), None);
    assert_eq!(
        passed(&format!("{OFFER}content-length: 2\r\n"), "ab", "1.1"),
        None
    );
    assert_eq!(
        passed(
            &format!("{OFFER}transfer-encoding: chunked\r\n"),
            "0\r\n\r\n",
            "1.1"
        ),
        None
    );
    assert_eq!(
        passed(
            "connection: UPGRADE\r\nupgrade: h2c, Web/1\r\nupgrade: tcp\r\n",
            "",
            "1.1"
        )
        .unwrap(),
        "Web/1, tcp"
    );
}

/// The protocol has changed at the origin, but nobody offered it.
#[test]
fn a_protocol_that_was_not_offered_passes() {
    for accepted in [
        ACCEPTED.replace("upgrade: x", "upgrade: y"),
        ACCEPTED.replace("upgrade: x\r\n", ""),
    ] {
        let origin = Origin::new(move |_, stream| say(stream, &accepted));
        let node = Node::of(origin.address);
        let mut client = Client::new(&node);
        assert_eq!(
            client
                .send(
                    "GET",
                    "/",
                    &[("connection", "upgrade"), ("upgrade", "x")],
                    b""
                )
                .status,
            502
        );
    }
}

#[test]
fn the_end_of_one_direction_ends_the_other() {
    let origin = Origin::new(|_, stream| {
        say(stream, ACCEPTED);
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        stream.write_all(&all).unwrap();
        false
    });
    let node = Node::of(origin.address);
    let mut client = open(&node);
    client.get_mut().write_all(&[7; 200_000]).unwrap();
    client.get_mut().shutdown(Shutdown::Write).unwrap();
    let mut back = Vec::new();
    client.read_to_end(&mut back).unwrap();
    assert!(back == [7; 200_000], "{}", back.len());
}

#[test]
fn a_silent_tunnel_stays_for_ever() {
    let (origin, upgrade) = (echo(), Duration::from_millis(300));
    let node = with_timeouts(
        origin.address,
        Timeouts {
            upgrade,
            keepalive: upgrade,
            ..Timeouts::default()
        },
    );
    let mut client = open(&node);
    for _ in 0..10 {
        echoes(&mut client, b"still here");
        std::thread::sleep(upgrade / 4);
    }
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
}

#[test]
fn a_stop_cuts_tunnels_at_once_or_waits_for_ever() {
    let origin = echo();
    let mut node = with_timeouts(
        origin.address,
        Timeouts {
            shutdown: Duration::from_secs(1),
            ..Timeouts::default()
        },
    );
    let mut client = open(&node);
    echoes(&mut client, b"before");
    let http = node.http.take().unwrap();
    let stopping = std::thread::spawn(move || http.stop());
    std::thread::sleep(Duration::from_millis(300));
    echoes(&mut client, b"within the grace");
    stopping.join().unwrap();
    let ended = client.read(&mut [0]);
    assert!(
        matches!(&ended, Ok(0))
            || ended.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
    );
}

/// A client that leaves before the answer would keep its place, and the origin's connection.
#[test]
fn a_client_that_leaves_is_not_noticed() {
    let (told, left) = std::sync::mpsc::channel();
    let told = Mutex::new(told);
    let origin = Origin::new(move |_, stream| {
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        told.lock()
            .unwrap()
            .send(stream.read(&mut [0]).unwrap())
            .unwrap();
        false
    });
    let node = Node::of(origin.address);
    let mut client = connect(&node);
    write!(
        client.get_mut(),
        "GET /chat HTTP/1.1\r\nhost: a\r\n{OFFER}\r\n"
    )
    .unwrap();
    std::thread::sleep(Duration::from_millis(200));
    drop(client);
    assert_eq!(left.recv_timeout(Duration::from_secs(10)), Ok(0));
}

/// A server of a WebSocket library that sends back what it gets, on each of its connections.
fn websocket_echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || {
                let mut socket = tungstenite::accept(stream.unwrap()).unwrap();
                while let Ok(message) = socket.read() {
                    if message.is_text() || message.is_binary() {
                        socket.send(message).unwrap();
                    }
                }
            });
        }
    });
    address
}

fn asks_for_websocket(client: &mut Http2, protocol: &str) -> u32 {
    let pseudo = [
        (":method", "CONNECT"),
        (":protocol", protocol),
        (":scheme", "http"),
        (":authority", "a"),
        (":path", "/chat"),
    ];
    client.head(
        &[
            &pseudo[..],
            &[("sec-websocket-version", "13"), ("origin", "http://a")],
        ]
        .concat(),
        false,
    )
}

/// A stream of HTTP/2, for the WebSocket library.
struct StreamOfHttp2 {
    client: Http2,
    stream: u32,
    read: usize,
}

impl Read for StreamOfHttp2 {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.client.read_body(self.stream, self.read + 1);
        let read = (&self.client.body(self.stream)[self.read..]).read(buffer)?;
        self.read += read;
        Ok(read)
    }
}

impl Write for StreamOfHttp2 {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.client.data(self.stream, bytes, false);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// RFC 8441. Failure: a WebSocket on a stream does not open, ends with the idle time of its
/// connection, or keeps its place.
#[test]
fn a_websocket_over_http2_is_lost() {
    let timeouts = Timeouts {
        keepalive: Duration::from_millis(100),
        ..Timeouts::default()
    };
    let node = with_timeouts(websocket_echo(), timeouts);
    let mut client = Http2::new(&node);
    let stream = asks_for_websocket(&mut client, "websocket");
    assert_eq!(client.status(stream), Some(200));
    let mut socket = WebSocket::from_raw_socket(
        StreamOfHttp2 {
            client,
            stream,
            read: 0,
        },
        Role::Client,
        None,
    );
    let long = "x".repeat(10_000);
    for text in ["one", &long, "two"] {
        socket.send(Message::text(text)).unwrap();
        assert_eq!(socket.read().unwrap(), Message::text(text));
    }
    assert_eq!(node.status()["upgraded"]["open"], 1);
    // Longer than the interval in which connections are checked.
    std::thread::sleep(larder_proxy::limits::STREAMS_LOOK + Duration::from_millis(500));
    // Another request of its connection does not disturb it.
    let client = &mut socket.get_mut().client;
    let other = asks_for_websocket(client, "websocket");
    assert_eq!(client.status(other), Some(200));
    socket.send(Message::text("three")).unwrap();
    assert_eq!(socket.read().unwrap(), Message::text("three"));
    let StreamOfHttp2 { client, stream, .. } = socket.get_mut();
    client.data(*stream, &[], true);
    assert!(client.answer(*stream).is_complete);
    drop(socket);
    for _ in 0..500 {
        if node.status()["upgraded"]["open"] == 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let upgraded = &node.status()["upgraded"];
    assert_eq!(
        (&upgraded["open"], &upgraded["opened"]),
        (&0.into(), &2.into())
    );
}

/// Failure: a stream becomes a tunnel to what is no WebSocket.
#[test]
fn a_stream_opens_what_is_no_websocket() {
    let without_key =
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n";
    let wrong_key = without_key.replace(
        "\r\n\r\n",
        "\r\nsec-websocket-accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n\r\n",
    );
    for (answer, status) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", 502),
        ("HTTP/1.1 204 No Content\r\n\r\n", 502),
        ("HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno", 403),
        (
            "HTTP/1.1 302 Found\r\nlocation: /b\r\ncontent-length: 0\r\n\r\n",
            302,
        ),
        (without_key, 502),
        (&wrong_key, 502),
    ] {
        let text = answer.to_owned();
        let origin = Origin::new(move |asked, stream| {
            assert_eq!(
                (asked.header("upgrade"), &asked.line[..]),
                (Some("websocket"), "GET /chat HTTP/1.1")
            );
            wire::say_last(stream, &text)
        });
        let node = Node::of(origin.address);
        let mut client = Http2::new(&node);
        let stream = asks_for_websocket(&mut client, "websocket");
        assert_eq!(client.status(stream), Some(status), "{answer}");
    }
    let node = Node::of(websocket_echo());
    for protocol in ["connect-udp", "WebSocket", "h2c"] {
        let mut client = Http2::new(&node);
        let stream = asks_for_websocket(&mut client, protocol);
        assert_eq!(client.status(stream), Some(400), "{protocol}");
    }
    let mut client = Http2::new(&node);
    let stream = client.head(&[(":method", "CONNECT"), (":authority", "a:80")], false);
    assert_eq!(client.status(stream), Some(400));
    assert_eq!(node.status()["upgraded"]["opened"], 0);
}
