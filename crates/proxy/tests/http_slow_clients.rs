//! Failure: a slow client, or one that sends without end, stops the others, or a stop of the node;
//! or it keeps its place for ever. Over HTTP/1.1 and HTTP/2.

use crate::wire::http2::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, Http2, PING, PREFACE, PRIORITY,
    RST_STREAM, WINDOW_UPDATE, block, frame, pseudo, settings,
};
use crate::wire::{self, Client, Node, Origin, say};
use larder_proxy::{Admin, HttpConfig, Timeouts, Upstream};
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

/// Clients that read nothing do not slow the one that does.
#[test]
fn slow_clients_wait_for_themselves_only() {
    let node = Node::generated();
    let slow: Vec<TcpStream> = (0..100)
        .map(|number| {
            let mut stream = TcpStream::connect(node.address).unwrap();
            write!(
                stream,
                "GET /8000000/{} HTTP/1.1\r\nhost: a\r\n\r\n",
                number % 4
            )
            .unwrap();
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
    let silent: Vec<TcpStream> = (0..larder_admin::limits::ADMIN_CONNECTIONS)
        .map(|number| {
            let mut stream = TcpStream::connect(admin.local_addr()).unwrap();
            // Some in the middle of a request.
            stream
                .write_all(&b"GET / HTTP/1.1\r\nhost: a"[..number % 2 * 23])
                .unwrap();
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
    let requests: String = (0..50)
        .map(|n| format!("GET /{}/p HTTP/1.1\r\nhost: a\r\n\r\n", 100 + n))
        .collect();
    stream.write_all(requests.as_bytes()).unwrap();
    let mut reader = std::io::BufReader::new(stream);
    for n in 0..50 {
        assert_eq!(wire::read_response(&mut reader, false).body.len(), 100 + n);
    }
}

fn with_timeouts(timeouts: Timeouts) -> Node {
    Node::with(&HttpConfig {
        timeouts,
        ..wire::config(Upstream::Generated)
    })
}

/// The setting of the window with which streams begin.
const INITIAL_WINDOW_SIZE: u16 = 4;

/// Clients of HTTP/2 that grant no window for responses, or none for their connection.
#[test]
fn readers_without_a_window_stop_the_others() {
    let node = Node::generated();
    let slow: Vec<Http2> = (0..60)
        .map(|number| {
            let window = if number % 2 == 0 { 0 } else { 1 << 30 };
            let mut slow = Http2::with(&node, &[(INITIAL_WINDOW_SIZE, window)]);
            for object in 0..4 {
                slow.request("GET", &format!("/8000000/{object}"), &[], true);
            }
            slow
        })
        .collect();
    let mut client = Client::new(&node);
    let mut other = Http2::new(&node);
    client.get("/1000/fast");
    // Fewer bytes than the window of a connection.
    for _ in 0..60 {
        assert!(client.get("/1000/fast").is_hit());
        let stream = other.request("GET", "/1000/fast", &[], true);
        assert_eq!(other.answer(stream).body.len(), 1000);
    }
    drop(slow);
}

/// What such a client holds is free again after `client_send`.
#[test]
fn a_client_that_grants_no_window_keeps_its_place() {
    let node = with_timeouts(Timeouts {
        client_send: Duration::from_millis(200),
        ..Timeouts::default()
    });
    // One has read what the connection's first window allows, and its second stream starves.
    let mut starved = Http2::with(&node, &[(INITIAL_WINDOW_SIZE, 1 << 30)]);
    let large = starved.request("GET", "/8000000/a", &[], true);
    assert!(starved.read_body(large, 65_535));
    let small = starved.request("GET", "/100/b", &[], true);
    // The other takes a byte, once.
    let mut closed = Http2::with(&node, &[(INITIAL_WINDOW_SIZE, 0)]);
    let stream = closed.request("GET", "/8000000/a", &[], true);
    closed.window(stream, 1);
    assert!(closed.read_body(stream, 1));
    starved.end();
    closed.end();
    assert!(!starved.answer(small).is_complete);
    node.await_figure("connections", 0);
}

#[test]
fn a_request_of_http2_in_pieces() {
    let node = Node::generated();
    let mut slow = TcpStream::connect(node.address).unwrap();
    slow.set_nodelay(true).unwrap();
    let mut client = Client::new(&node);
    let request = frame(
        HEADERS,
        END_STREAM | END_HEADERS,
        1,
        &block(&pseudo("GET", "/100/a")),
    );
    for byte in [PREFACE, &settings(&[]), &request].concat() {
        slow.write_all(&[byte]).unwrap();
        client.get("/100/b");
    }
    slow.set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let (mut seen, mut buffer) = (Vec::new(), [0; 1000]);
    while !seen.windows(6).any(|six| six == b"/100/a") {
        let read = std::io::Read::read(&mut slow, &mut buffer).unwrap();
        assert!(read > 0, "it ends after {seen:?}");
        seen.extend_from_slice(&buffer[..read]);
    }
}

/// Its stream gets 408; the others of its connection, and the server, stay.
#[test]
fn a_stream_that_sends_its_body_slowly_stops_its_connection() {
    let origin = Origin::new(|asked, stream| {
        let length = asked.body.len().to_string();
        say(
            stream,
            &format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{length}",
                length.len()
            ),
        )
    });
    let timeouts = Timeouts {
        client_body: Duration::from_secs(2),
        ..Timeouts::default()
    };
    let upstream = Upstream::Http(format!("http://{}", origin.address).parse().unwrap());
    let node = Node::with(&HttpConfig {
        timeouts,
        ..wire::config(upstream)
    });
    let mut client = Http2::new(&node);
    let silent = client.request("POST", "/silent", &[("content-length", "10")], false);
    client.data(silent, b"abc", false);
    let slow = client.request("POST", "/slow", &[("content-length", "10")], false);
    for byte in 0..10 {
        let stream = client.request("GET", &format!("/{byte}"), &[], true);
        assert_eq!(client.answer(stream).status, Some(200));
        std::thread::sleep(Duration::from_millis(250));
        client.data(slow, &[byte], byte == 9);
    }
    assert_eq!(client.answer(silent).status, Some(408));
    assert_eq!(client.answer(slow).body, b"10");
    let status = node.status();
    assert_eq!(
        (
            &status["origin_failures"],
            &status["servers"][origin.address.to_string()]
        ),
        (&0.into(), &true.into())
    );
}

/// Frames that are no requests keep no connection open, nor does a head that never ends.
#[test]
fn a_connection_without_requests_keeps_its_place() {
    let node = with_timeouts(Timeouts {
        keepalive: Duration::from_millis(500),
        ..Timeouts::default()
    });
    let stream = |client: &mut Http2| client.request("GET", "/100/a", &[], true);
    let talking: Vec<_> = [
        frame(PING, 0, 0, &[7; 8]),
        frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]),
        settings(&[]),
    ]
    .into_iter()
    .map(|frame| {
        let mut client = Http2::new(&node);
        let stream = stream(&mut client);
        assert_eq!(client.answer(stream).status, Some(200));
        let mut socket = client.socket();
        std::thread::spawn(move || {
            while socket.write_all(&frame).is_ok() {
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        client
    })
    .collect();
    let mut unfinished = Http2::new(&node);
    unfinished.send(&frame(HEADERS, END_STREAM, 1, &block(&pseudo("GET", "/"))));
    let silent = Http2::new(&node);
    for mut client in talking.into_iter().chain([unfinished, silent]) {
        client.end();
    }
    node.await_figure("connections", 0);
}

/// Sends a flood, and returns how it ended: the bytes that the server read, and the code of GOAWAY.
fn flood(node: &Node, frames: impl Iterator<Item = Vec<u8>>) -> (usize, Option<u32>) {
    let mut client = Http2::new(node);
    let socket = client.socket();
    socket
        .set_write_timeout(Some(Duration::from_secs(2)))
        .unwrap();
    let mut sent = 0;
    for frames in frames {
        if !client.send(&frames) {
            break;
        }
        sent += frames.len();
    }
    let _ = socket.shutdown(std::net::Shutdown::Write);
    (sent, client.end())
}

/// Failure: answers to pings and settings fill the memory while their client reads none.
#[test]
fn frames_that_need_an_answer_are_read_without_end() {
    const MANY: usize = 64 << 20;
    let node = Node::generated();
    let mut client = Client::new(&node);
    client.get("/1000/fast");
    for frame in [
        frame(PING, 0, 0, &[7; 8]),
        settings(&[]),
        settings(&[(INITIAL_WINDOW_SIZE, 1000)]),
    ] {
        let mut socket = Http2::new(&node).socket();
        socket
            .set_write_timeout(Some(Duration::from_secs(1)))
            .unwrap();
        let frames = frame.repeat((1 << 16) / frame.len());
        let (mut sent, mut answered) = (0, 0);
        while sent < MANY && socket.write_all(&frames).is_ok() {
            sent += frames.len();
            answered += usize::from(client.get("/1000/fast").is_hit());
        }
        // What the buffers of both sockets hold.
        assert!(sent < MANY / 2, "{sent} bytes were read");
        assert_eq!(answered, sent / frames.len());
    }
}

/// Each request costs its client a frame or two, and may not cost the server a request to the
/// origin. CVE-2023-44487 ("rapid reset"), CVE-2025-8671 ("made you reset").
#[test]
fn requests_that_are_reset_at_once_go_on_without_end() {
    let head = block(&pseudo("GET", "/100/a?no-store"));
    let open = |stream: u32| frame(HEADERS, END_STREAM | END_HEADERS, stream, &head);
    let upload = block(&pseudo("POST", "/100/a"));
    let uploads = |stream: u32| frame(HEADERS, END_HEADERS, stream, &upload);
    let resets: [&dyn Fn(u32) -> Vec<u8>; 4] = [
        &|stream| {
            [
                open(stream),
                frame(RST_STREAM, 0, stream, &8u32.to_be_bytes()),
            ]
            .concat()
        },
        // The server has to reset these.
        &|stream| [open(stream), frame(WINDOW_UPDATE, 0, stream, &[0; 4])].concat(),
        &|stream| [open(stream), frame(DATA, 0, stream, b"x")].concat(),
        &|stream| {
            [
                uploads(stream),
                frame(
                    PRIORITY,
                    0,
                    stream,
                    &[&stream.to_be_bytes()[..], &[1]].concat(),
                ),
            ]
            .concat()
        },
    ];
    for (number, reset) in resets.iter().enumerate() {
        let node = Node::generated();
        let (sent, goaway) = flood(&node, (0..50_000).map(|number| reset(2 * number + 1)));
        let requests = node.status()["requests"].as_u64().unwrap();
        assert!(
            requests < 5000,
            "{number}: {requests} requests, {sent} bytes"
        );
        assert!(goaway.is_some_and(|code| code != 0), "{number}: {goaway:?}");
        assert_eq!(Client::new(&node).get("/100/b").status, 200);
        node.await_figure("connections", 0);
    }
}

/// A few bytes may become many fields (RFC 7541 §7.3), and a head may have many frames.
#[test]
fn a_head_without_end_fills_the_memory() {
    let node = Node::generated();
    let head = block(&pseudo("GET", "/100/a"));
    // An entry of the table of 3,000 bytes, and 10,000 references to it.
    let entry = [&[0x40, 1, b'x', 127, 0xb9, 0x16][..], &[b'v'; 3000]].concat();
    let bomb = [&head[..], &entry, &[0xbe; 10_000]].concat();
    let (_, goaway) = flood(
        &node,
        std::iter::once(frame(HEADERS, END_STREAM | END_HEADERS, 1, &bomb)),
    );
    assert!(goaway.is_some_and(|code| code != 0), "{goaway:?}");
    let field = block(&[("x", "y".repeat(100))]);
    for piece in [&[][..], &field, &field.repeat(100)] {
        let start = std::iter::once(frame(HEADERS, END_STREAM, 1, &head));
        let (sent, goaway) = flood(
            &node,
            start.chain((0..500_000).map(|_| frame(CONTINUATION, 0, 1, piece))),
        );
        assert!(sent < 16 << 20, "{sent} bytes of {}", piece.len());
        assert!(
            goaway.is_some_and(|code| code != 0) || sent == 0,
            "{goaway:?}"
        );
    }
    assert_eq!(node.status()["requests"], 0);
    assert_eq!(Client::new(&node).get("/100/b").status, 200);
}
