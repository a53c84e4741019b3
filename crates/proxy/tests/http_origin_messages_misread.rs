//! Failure: what an origin sends is passed on in a form that clients misread, or a request is lost
//! that the origin has not processed.

use crate::wire::http2::{
    self, ACK, DATA, END_STREAM, GOAWAY, HEADERS, Http2, RST_STREAM, SETTINGS, WINDOW_UPDATE,
    frame, head_frames, pseudo,
};
use crate::wire::{self, Client, Node, Origin, raw, say_last};
use larder_proxy::{HttpConfig, OriginGroup, OriginProtocol, PoolServer, Upstream};
use std::collections::HashMap;
use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A node before an origin of HTTP/1.1 that answers each request with these bytes, and closes.
fn answering(bytes: &'static str) -> (Node, Origin) {
    let origin = Origin::new(move |_, stream| say_last(stream, bytes));
    (Node::of(origin.address), origin)
}

fn by_http2(address: SocketAddr) -> Node {
    let upstream = Upstream::Http(format!("http://{address}").parse().unwrap());
    Node::with(&HttpConfig {
        origin_protocol: OriginProtocol::Http2,
        ..wire::config(upstream)
    })
}

#[test]
fn trailers_of_the_connection_break_the_stream() {
    for name in [
        "Content-Length",
        "Transfer-Encoding",
        "Connection",
        "Keep-Alive",
        "Host",
        "TE",
        "Set-Cookie",
        "X-Good",
    ] {
        let origin = Origin::new(move |_, stream| {
            say_last(
                stream,
                &format!(
                    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: {name}\r\n\r\n2\r\nok\r\n0\r\n{name}: 2\r\n\r\n"
                ),
            )
        });
        let node = Node::of(origin.address);
        let mut client = Http2::new(&node);
        let mut fields = pseudo("GET", "/a");
        fields.push(("te", "trailers"));
        let stream = client.head(&fields, true);
        let answer = client.answer(stream);
        assert!(
            answer.is_complete && answer.reset.is_none() && answer.body == b"ok",
            "{name}: {answer:?}"
        );
        let seen = raw(
            node.address,
            b"GET /b HTTP/1.1\r\nhost: a\r\nte: trailers\r\nconnection: te, close\r\n\r\n",
        );
        let trailers = seen
            .split("\r\n0\r\n")
            .nth(1)
            .unwrap_or_else(|| panic!("{name}: {seen}"));
        assert_eq!(trailers.contains(": 2"), name == "X-Good", "{name}: {seen}");
    }
}

#[test]
fn a_list_of_lengths_is_passed_on() {
    for (lengths, expected) in [
        ("2, 2", Some("2")),
        ("2,2", Some("2")),
        ("2, 3", None),
        ("02", Some("2")),
    ] {
        let text = format!("HTTP/1.1 200 OK\r\ncontent-length: {lengths}\r\n\r\nok");
        let origin = Origin::new(move |_, stream| say_last(stream, &text));
        let node = Node::of(origin.address);
        let answer = raw(
            node.address,
            b"GET /a HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
        );
        let seen: Vec<&str> = answer
            .lines()
            .filter_map(|line| line.strip_prefix("content-length: "))
            .collect();
        match expected {
            Some(expected) => assert!(
                seen == [expected] && answer.ends_with("\r\n\r\nok"),
                "{lengths}: {answer}"
            ),
            None => assert!(answer.starts_with("HTTP/1.1 502"), "{lengths}: {answer}"),
        }
    }
}

#[test]
fn a_blank_before_a_colon_is_a_bad_gateway() {
    let (node, _origin) = answering(
        "HTTP/1.1 200 OK\r\nX-Bad : a\r\nX-Good: b\r\ncontent-length : 2\r\nconnection: close\r\n\r\nok",
    );
    let seen = Client::new(&node).get("/a");
    assert_eq!(
        (
            seen.status,
            seen.header("x-bad"),
            seen.header("x-good"),
            seen.text()
        ),
        (200, "a", "b", "ok".to_owned())
    );
}

#[test]
fn a_reason_becomes_none() {
    for (status, reason) in [
        ("520 Web Server Is Down", "Web Server Is Down"),
        ("520", ""),
        ("599 ", ""),
        ("418 Teapot", "418 I'm a teapot"),
    ] {
        let text = format!(
            "HTTP/1.1 {status}\r\ncache-control: max-age=60\r\ncontent-length: 2\r\n\r\nno"
        );
        let origin = Origin::new(move |_, stream| say_last(stream, &text));
        let node = Node::of(origin.address);
        for round in 0..2 {
            // The store keeps no words.
            let reason = if round == 0 { reason } else { "" };
            let answer = raw(
                node.address,
                b"GET /a HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
            );
            let line = answer.lines().next().unwrap();
            assert!(
                !line.contains('<') && line.starts_with(&format!("HTTP/1.1 {}", &status[..3])),
                "{status}: {line}"
            );
            assert!(
                reason.is_empty() || line.ends_with(reason),
                "{status}: {line}"
            );
        }
    }
    // From the store, as a plain hit.
    let (node, _origin) =
        answering("HTTP/1.1 299 Fine\r\ncache-control: max-age=60\r\ncontent-length: 2\r\n\r\nok");
    for _ in 0..3 {
        let answer = raw(
            node.address,
            b"GET /a HTTP/1.1\r\nhost: a\r\nconnection: keep-alive\r\n\r\n",
        );
        assert!(
            answer.starts_with("HTTP/1.1 299") && !answer.contains('<'),
            "{answer}"
        );
    }
}

#[test]
fn a_coding_below_chunked_disappears() {
    for coding in [
        "gzip, chunked",
        "chunked, chunked",
        "gzip",
        "identity, chunked",
    ] {
        let text = format!(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: {coding}\r\nconnection: close\r\n\r\n2\r\nok\r\n0\r\n\r\n"
        );
        let origin = Origin::new(move |_, stream| say_last(stream, &text));
        let node = Node::of(origin.address);
        let answer = raw(
            node.address,
            b"GET /a HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
        );
        assert!(answer.starts_with("HTTP/1.1 502"), "{coding}: {answer}");
    }
    let two = "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
    let (node, _origin) = answering(two);
    assert_eq!(Client::new(&node).get("/a").status, 502);
}

#[test]
fn an_old_client_waits_for_more() {
    let (node, _origin) =
        answering("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n");
    let answer = raw(
        node.address,
        b"GET /a HTTP/1.0\r\nhost: a\r\nconnection: keep-alive\r\n\r\n",
    );
    let head = answer.split("\r\n\r\n").next().unwrap().to_lowercase();
    assert!(answer.ends_with("\r\n\r\nok"), "{answer}");
    assert!(
        !head.contains("keep-alive") || head.contains("content-length: 2"),
        "{answer}"
    );
}

/// An origin of HTTP/2 on which `act` gets each frame: the number of the connection, kind, stream,
/// flags and payload. It returns the frames of the answer, and whether the connection goes on.
fn scripted(
    act: impl Fn(usize, u8, u32, u8, &[u8]) -> (Vec<u8>, bool) + Send + Sync + 'static,
) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (connections, act) = (Arc::new(AtomicUsize::new(0)), Arc::new(act));
    let counter = Arc::clone(&connections);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let number = counter.fetch_add(1, Ordering::SeqCst);
            let (act, Ok(stream)) = (Arc::clone(&act), stream) else {
                return;
            };
            std::thread::spawn(move || {
                converse(stream, |kind, id, flags, payload| {
                    act(number, kind, id, flags, payload)
                })
            });
        }
    });
    (address, connections)
}

fn converse(stream: TcpStream, act: impl Fn(u8, u32, u8, &[u8]) -> (Vec<u8>, bool)) {
    stream.set_nodelay(true).unwrap();
    let mut stream = BufReader::new(stream);
    if stream.read_exact(&mut [0; http2::PREFACE.len()]).is_err() {
        return;
    }
    let _ = stream.get_mut().write_all(&http2::settings(&[]));
    let mut head = [0; 9];
    while stream.read_exact(&mut head).is_ok() {
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        if stream.read_exact(&mut payload).is_err() {
            return;
        }
        let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        if head[3] == DATA && !payload.is_empty() {
            // The window of the connection is for all its streams.
            let _ = stream.get_mut().write_all(&frame(
                WINDOW_UPDATE,
                0,
                0,
                &(payload.len() as u32).to_be_bytes(),
            ));
        }
        let (bytes, goes_on) = match head[3] {
            SETTINGS if head[4] & ACK == 0 => (frame(SETTINGS, ACK, 0, &[]), true),
            kind => act(kind, id, head[4], &payload),
        };
        if stream.get_mut().write_all(&bytes).is_err() || !goes_on {
            // What still comes is read, so that no reset takes the answer away.
            let _ = stream.get_mut().shutdown(std::net::Shutdown::Write);
            let _ = stream.read_to_end(&mut Vec::new());
            return;
        }
    }
}

fn ok(stream: u32, body: &[u8]) -> Vec<u8> {
    let head = head_frames(
        stream,
        &[(":status", "200"), ("cache-control", "no-store")],
        false,
    );
    [head, frame(DATA, END_STREAM, stream, body)].concat()
}

fn goaway(last: u32) -> Vec<u8> {
    frame(
        GOAWAY,
        0,
        0,
        &[last.to_be_bytes(), 0_u32.to_be_bytes()].concat(),
    )
}

/// The bodies of requests by connection and stream.
type Bodies = HashMap<(usize, u32), Vec<u8>>;

/// nginx ends a connection after `keepalive_requests`: it sends GOAWAY, and ignores later streams.
#[test]
fn a_post_that_the_origin_has_not_processed_is_lost() {
    for (length, when) in [
        (0, HEADERS),
        (1000, HEADERS),
        (1000, DATA),
        (40_000, DATA),
        (0, DATA),
    ] {
        let bodies: Arc<Mutex<Bodies>> = Arc::default();
        let kept = Arc::clone(&bodies);
        let (address, connections) = scripted(move |connection, kind, id, flags, payload| {
            let mut bodies = kept.lock().unwrap();
            let body = bodies.entry((connection, id)).or_default();
            if kind == DATA {
                body.extend_from_slice(payload);
            }
            // The first connection serves one request.
            if connection == 0 && id > 1 {
                return if kind == when || when == DATA && flags & END_STREAM != 0 {
                    (goaway(1), false)
                } else {
                    (Vec::new(), true)
                };
            }
            let is_end = matches!(kind, HEADERS | DATA) && flags & END_STREAM != 0;
            let answer = if is_end {
                ok(id, body.len().to_string().as_bytes())
            } else {
                Vec::new()
            };
            (answer, true)
        });
        let node = by_http2(address);
        let mut client = Client::new(&node);
        let body = vec![b'x'; length];
        assert_eq!(
            client
                .send("POST", "/first", &[("content-length", "0")], b"")
                .status,
            200
        );
        for round in 0..3 {
            let fields: &[(&str, &str)] = if length == 0 {
                &[("content-length", "0")]
            } else {
                &[]
            };
            let seen = client.send("POST", "/next", fields, &body);
            assert_eq!(
                (seen.status, seen.text()),
                (200, length.to_string()),
                "{length} {when} {round}"
            );
        }
        assert_eq!(connections.load(Ordering::SeqCst), 2, "{length} {when}");
    }
}

#[test]
fn an_upload_in_pieces_is_lost_or_begins_again_with_others() {
    let received: Arc<Mutex<Vec<u8>>> = Arc::default();
    let kept = Arc::clone(&received);
    // Says that a piece has come, and on which connection.
    let (arrived, pieces) = std::sync::mpsc::channel();
    let (address, _) = scripted(move |connection, kind, id, flags, payload| {
        if kind == DATA {
            let _ = arrived.send(connection);
        }
        if connection == 0 && kind == DATA {
            return (goaway(0), false);
        }
        if kind == DATA {
            kept.lock().unwrap().extend_from_slice(payload);
        }
        let is_end = kind == DATA && flags & END_STREAM != 0;
        (if is_end { ok(id, b"ok") } else { Vec::new() }, true)
    });
    let node = by_http2(address);
    let mut stream = TcpStream::connect(node.address).unwrap();
    stream.set_nodelay(true).unwrap();
    let head =
        "POST /a HTTP/1.1\r\nhost: a\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(b"5\r\nfirst\r\n").unwrap();
    assert_eq!(
        (pieces.recv(), pieces.recv()),
        (Ok(0), Ok(1)),
        "the first piece comes again"
    );
    stream.write_all(b"6\r\nsecond\r\n0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(
        String::from_utf8_lossy(&received.lock().unwrap()),
        "firstsecond"
    );
}

/// Failure: a server is left out because it ends its connections as it may.
#[test]
fn a_server_that_ends_connections_is_taken_for_down() {
    let (address, _) = scripted(|_, kind, id, flags, _| {
        if id > 1 {
            return (goaway(1), false);
        }
        let is_end = matches!(kind, HEADERS | DATA) && flags & END_STREAM != 0;
        (if is_end { ok(id, b"ok") } else { Vec::new() }, true)
    });
    let server = || PoolServer::from(format!("http://{address}").parse::<http::Uri>().unwrap());
    let group = OriginGroup {
        path: "/".to_owned(),
        servers: vec![server()],
        protocol: OriginProtocol::Http2,
        ..OriginGroup::default()
    };
    let node = Node::with(&HttpConfig {
        origins: vec![group],
        ..wire::config(Upstream::Generated)
    });
    let mut client = Client::new(&node);
    for round in 0..30 {
        assert_eq!(
            client.send("POST", "/a", &[], b"abc").status,
            200,
            "{round}"
        );
    }
}

/// RFC 9113 §8.1: a server that needs no more of a request sends its whole response, and then
/// RST_STREAM with NO_ERROR.
#[test]
fn a_response_before_a_reset_is_lost() {
    let no_error = |id| frame(RST_STREAM, 0, id, &0_u32.to_be_bytes());
    let (address, _) = scripted(move |_, kind, id, flags, _| match kind {
        HEADERS => ([ok(id, b"whole"), no_error(id)].concat(), true),
        _ => {
            let _ = flags;
            (Vec::new(), true)
        }
    });
    let node = by_http2(address);
    let mut client = Client::new(&node);
    for method in ["GET", "POST"] {
        for _ in 0..5 {
            let body: &[u8] = if method == "POST" { &[b'x'; 3000] } else { b"" };
            let seen = client.send(method, "/a", &[], body);
            assert_eq!(
                (seen.status, seen.text()),
                (200, "whole".to_owned()),
                "{method}"
            );
        }
    }
}

/// Without END_STREAM, the response is incomplete: no client may take it for a whole one.
#[test]
fn a_reset_ends_a_body_as_if_it_were_whole() {
    let no_error = |id| frame(RST_STREAM, 0, id, &0_u32.to_be_bytes());
    let (address, _) = scripted(move |_, kind, id, _, _| match kind {
        HEADERS => {
            let head = head_frames(
                id,
                &[(":status", "200"), ("cache-control", "max-age=60")],
                false,
            );
            (
                [head, frame(DATA, 0, id, b"part"), no_error(id)].concat(),
                true,
            )
        }
        _ => (Vec::new(), true),
    });
    let node = by_http2(address);
    for _ in 0..5 {
        let answer = raw(node.address, b"GET /a HTTP/1.1\r\nhost: a\r\n\r\n");
        assert!(
            answer.is_empty()
                || answer.starts_with("HTTP/1.1 502")
                || !answer.contains("\r\n0\r\n"),
            "{answer}"
        );
        assert!(!answer.contains("; hit"), "{answer}");
    }
    assert_eq!(node.status()["objects"], 0);
}
