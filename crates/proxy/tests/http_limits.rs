//! Failure: a limit of `[http.limits]` does not hold, or what it refuses is not told why; a limit
//! that a reload raises still refuses.

use crate::wire::http2::{Http2, REFUSED_STREAM};
use crate::wire::{self, Client, Node, Origin, Seen, read_response, say};
use larder_proxy::rules::Rule;
use larder_proxy::{HttpConfig, HttpLimits, Timeouts, Upstream};
use larder_units::ByteSize;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

fn node(upstream: Upstream, limits: HttpLimits) -> Node {
    Node::with(&HttpConfig {
        limits,
        ..wire::config(upstream)
    })
}

fn to(origin: &Origin) -> Upstream {
    Upstream::Http(format!("http://{}", origin.address).parse().unwrap())
}

fn connect(node: &Node) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(node.address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    BufReader::new(stream)
}

fn get(client: &mut BufReader<TcpStream>) -> Seen {
    write!(client.get_mut(), "GET /10/a HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    read_response(client, false)
}

fn is_closed(client: &mut BufReader<TcpStream>) -> bool {
    client.fill_buf().is_ok_and(|rest| rest.is_empty())
}

fn reload(node: &Node, upstream: Upstream, limits: HttpLimits) {
    let http = node.http.as_ref().unwrap();
    http.take_over(
        http.reload(&HttpConfig {
            limits,
            ..wire::config(upstream)
        })
        .unwrap(),
    )
    .unwrap();
}

/// Answers with the length of what it got.
fn counting() -> Origin {
    Origin::new(|asked, stream| {
        let length = asked.body.len().to_string();
        say(
            stream,
            &format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{length}",
                length.len()
            ),
        )
    })
}

/// Sends a request with a body of so many bytes, with its length or in chunks, and reads the
/// response.
fn upload(node: &Node, target: &str, bytes: usize, is_chunked: bool) -> Seen {
    let mut client = connect(node);
    let framing = if is_chunked {
        "transfer-encoding: chunked".to_owned()
    } else {
        format!("content-length: {bytes}")
    };
    write!(
        client.get_mut(),
        "POST {target} HTTP/1.1\r\nhost: a\r\n{framing}\r\n\r\n"
    )
    .unwrap();
    for piece in vec![b'x'; bytes].chunks(1000) {
        if is_chunked {
            write!(client.get_mut(), "{:x}\r\n", piece.len()).unwrap();
        }
        client.get_mut().write_all(piece).unwrap();
        if is_chunked {
            client.get_mut().write_all(b"\r\n").unwrap();
        }
    }
    if is_chunked {
        client.get_mut().write_all(b"0\r\n\r\n").unwrap();
    }
    read_response(&mut client, false)
}

/// A client that writes all of its body before it reads has the response too.
#[test]
fn a_body_above_its_size_reaches_the_origin_or_its_client_gets_no_413() {
    let origin = counting();
    let limits = HttpLimits {
        client_body_size: ByteSize::from_bytes(100_000),
        ..HttpLimits::default()
    };
    let rule: Rule = toml::from_str("path = \"/large/*\"\nclient_body_size = \"200kB\"").unwrap();
    let unlimited: Rule = toml::from_str("path = \"/any/*\"\nclient_body_size = \"0\"").unwrap();
    let page = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&page, "too much").unwrap();
    let paged: Rule = toml::from_str(&format!(
        "path = \"/large/*\"\nstatus = 413\nerror_page = {:?}",
        page.path()
    ))
    .unwrap();
    let rules = vec![rule, unlimited, paged];
    let node = Node::with(&HttpConfig {
        limits,
        rules,
        ..wire::config(to(&origin))
    });
    for is_chunked in [false, true] {
        for (target, bytes, status) in [
            ("/", 100_000, 200),
            ("/", 100_001, 413),
            ("/", 3_000_000, 413),
            ("/large/a", 200_000, 200),
            ("/large/a", 200_001, 413),
            ("/any/a", 3_000_000, 200),
        ] {
            let before = origin.requests();
            let seen = upload(&node, target, bytes, is_chunked);
            let place = format!("{target} {bytes} {is_chunked}: {seen:?}");
            assert_eq!(seen.status, status, "{place}");
            match status {
                200 => assert_eq!(seen.text(), bytes.to_string(), "{place}"),
                _ => {
                    let is_paged = target == "/large/a";
                    let text = if is_paged {
                        "too much"
                    } else {
                        "larder: the request's body is too large\n"
                    };
                    assert_eq!(
                        (seen.text().as_str(), seen.header("connection")),
                        (text, "close"),
                        "{place}"
                    );
                    assert_eq!(origin.requests(), before, "{place}");
                }
            }
        }
    }
    assert_eq!(node.status()["origin_failures"], 0);
}

#[test]
fn a_client_that_waits_to_be_asked_sends_a_body_that_is_too_large() {
    let origin = counting();
    let limits = HttpLimits {
        client_body_size: ByteSize::from_bytes(10),
        ..HttpLimits::default()
    };
    let node = node(to(&origin), limits);
    let mut client = connect(&node);
    let head = "POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 11\r\n\r\n";
    client.get_mut().write_all(head.as_bytes()).unwrap();
    assert_eq!(read_response(&mut client, false).status, 413);
    assert!(is_closed(&mut client));
    assert_eq!(origin.requests(), 0);
}

#[test]
fn a_stream_with_a_body_above_its_size_ends_its_connection_or_gets_no_413() {
    let origin = counting();
    let limits = HttpLimits {
        client_body_size: ByteSize::from_bytes(1000),
        ..HttpLimits::default()
    };
    let node = node(to(&origin), limits);
    let mut client = Http2::new(&node);
    for fields in [&[("content-length", "1001")][..], &[]] {
        let stream = client.request("POST", "/", fields, false);
        client.data(stream, &[b'x'; 1001], true);
        assert_eq!(client.answer(stream).status, Some(413), "{fields:?}");
        let stream = client.request("POST", "/", &[], false);
        client.data(stream, &[b'x'; 1000], true);
        let answer = client.answer(stream);
        assert_eq!((answer.status, &answer.body[..]), (Some(200), &b"1000"[..]));
    }
    assert_eq!(node.status()["origin_failures"], 0);
}

/// While all have requests, further connections wait; an idle one makes room.
#[test]
fn more_connections_are_served_than_there_may_be() {
    let few = HttpLimits {
        connections: 4,
        ..HttpLimits::default()
    };
    let node = node(Upstream::Generated, few);
    let mut served: Vec<_> = (0..4).map(|_| connect(&node)).collect();
    for (number, client) in served.iter_mut().enumerate() {
        write!(
            client.get_mut(),
            "GET /10/{number}?delay=1s HTTP/1.1\r\nhost: a\r\n\r\n"
        )
        .unwrap();
    }
    node.await_figure("requests", 4);
    let mut waiting = connect(&node);
    write!(waiting.get_mut(), "GET /10/a HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    waiting
        .get_mut()
        .set_read_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    assert!(waiting.read(&mut [0]).is_err(), "it is not served yet");
    waiting
        .get_mut()
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    for client in &mut served {
        assert_eq!(read_response(client, false).status, 200);
    }
    assert_eq!(read_response(&mut waiting, false).status, 200);
    node.await_figure("displaced_connections", 1);
    // A reload with more places lets more in, at once.
    reload(
        &node,
        Upstream::Generated,
        HttpLimits {
            connections: 6,
            ..few
        },
    );
    drop(served);
    node.await_figure("connections", 1);
    let mut more: Vec<_> = (0..5).map(|_| connect(&node)).collect();
    for client in more.iter_mut().chain([&mut waiting]) {
        assert_eq!(get(client).status, 200);
    }
    assert_eq!(node.status()["connections"], 6);
}

#[test]
fn one_client_has_all_connections() {
    let limits = HttpLimits {
        connections_per_client: 2,
        ..HttpLimits::default()
    };
    let limited = node(Upstream::Generated, limits);
    // One of them has not sent anything.
    let (mut first, _silent) = (connect(&limited), connect(&limited));
    assert_eq!(get(&mut first).status, 200);
    limited.await_figure("connections", 2);
    assert!(is_closed(&mut connect(&limited)));
    limited.await_figure("too_many_connections", 1);
    drop(first);
    limited.await_figure("connections", 1);
    assert_eq!(get(&mut connect(&limited)).status, 200);
    // A proxy has the connections of many clients.
    let trusted_proxies = larder_proxy::TrustedProxies::parse(["127.0.0.1"]).unwrap();
    let behind = Node::with(&HttpConfig {
        limits,
        trusted_proxies,
        ..wire::config(Upstream::Generated)
    });
    let mut clients: Vec<_> = (0..5).map(|_| connect(&behind)).collect();
    for client in &mut clients {
        assert_eq!(get(client).status, 200);
    }
}

/// With hits that hyper answers, those that it does not see, and misses.
#[test]
fn a_connection_has_more_requests_than_it_may() {
    let limits = HttpLimits {
        keepalive_requests: 3,
        ..HttpLimits::default()
    };
    let node = node(Upstream::Generated, limits);
    for _ in 0..2 {
        let mut client = connect(&node);
        for last in [false, false, true] {
            let seen = get(&mut client);
            assert_eq!(
                (seen.status, seen.header("connection") == "close"),
                (200, last),
                "{seen:?}"
            );
        }
        assert!(is_closed(&mut client));
    }
    // HTTP/2: the requests that are open go on.
    let mut client = Http2::new(&node);
    let streams: Vec<u32> = (0..3)
        .map(|number| client.request("GET", &format!("/100/{number}?delay=300ms"), &[], true))
        .collect();
    for stream in streams {
        assert_eq!(client.answer(stream).status, Some(200));
    }
    assert_eq!(client.end(), Some(0), "GOAWAY without an error");
}

#[test]
fn a_connection_has_more_streams_than_it_may() {
    let limits = HttpLimits {
        http2_streams: 2,
        ..HttpLimits::default()
    };
    let node = node(Upstream::Generated, limits);
    let mut client = Http2::new(&node);
    let open: Vec<u32> = (0..2)
        .map(|number| client.request("GET", &format!("/10/{number}?delay=1s"), &[], true))
        .collect();
    let refused = client.request("GET", "/10/c", &[], true);
    assert_eq!(client.answer(refused).reset, Some(REFUSED_STREAM));
    for stream in open {
        assert_eq!(client.answer(stream).status, Some(200));
    }
}

#[test]
fn more_uploads_are_at_the_origin_than_there_may_be() {
    let origin = counting();
    let node = node(
        to(&origin),
        HttpLimits {
            uploads: 1,
            ..HttpLimits::default()
        },
    );
    let mut open = connect(&node);
    write!(
        open.get_mut(),
        "POST /open HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nx"
    )
    .unwrap();
    node.await_figure("requests", 1);
    let waiting = {
        let mut waiting = connect(&node);
        write!(
            waiting.get_mut(),
            "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\r\nx"
        )
        .unwrap();
        waiting
            .get_mut()
            .set_read_timeout(Some(Duration::from_millis(300)))
            .unwrap();
        assert!(waiting.read(&mut [0]).is_err(), "it waits");
        waiting
    };
    // Requests without a body do not wait for them.
    assert_eq!(Client::new(&node).get("/").status, 200);
    assert_eq!(origin.requests(), 1);
    let mut waiting = waiting;
    waiting
        .get_mut()
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    // A client has at most as many as are free.
    reload(
        &node,
        to(&origin),
        HttpLimits {
            uploads: 4,
            ..HttpLimits::default()
        },
    );
    assert_eq!(read_response(&mut waiting, false).text(), "1");
    open.get_mut().write_all(b"x").unwrap();
    assert_eq!(read_response(&mut open, false).text(), "2");
}

/// A client has at most as many as are free.
#[test]
fn one_client_has_all_upgrades() {
    let origin = Origin::new(|_, stream| {
        say(
            stream,
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        );
        let _ = stream.read(&mut [0]);
        false
    });
    let trusted_proxies = larder_proxy::TrustedProxies::parse(["127.0.0.1"]).unwrap();
    let limits = HttpLimits {
        upgrades: 4,
        ..HttpLimits::default()
    };
    let node = Node::with(&HttpConfig {
        limits,
        trusted_proxies,
        ..wire::config(to(&origin))
    });
    let open = |address: &str| {
        let mut client = connect(&node);
        let offer = "connection: upgrade\r\nupgrade: x\r\n";
        write!(
            client.get_mut(),
            "GET / HTTP/1.1\r\nhost: a\r\n{offer}x-forwarded-for: {address}\r\n\r\n"
        )
        .unwrap();
        (read_response(&mut client, true).status, client)
    };
    let clients = [
        "192.0.2.1",
        "192.0.2.1",
        "192.0.2.1",
        "192.0.2.2",
        "192.0.2.3",
    ]
    .map(open);
    assert_eq!(
        clients.each_ref().map(|(status, _)| *status),
        [101, 101, 503, 101, 101]
    );
    assert_eq!(open("192.0.2.4").0, 503);
    assert_eq!(node.status()["upgraded"]["refused"], 2);
}

/// Failure: a server that closes idle connections soon has requests on closed ones.
#[test]
fn connections_to_servers_are_kept_for_longer_than_they_may() {
    for (kept, connections) in [(Duration::from_secs(60), 1), (Duration::from_millis(10), 3)] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let opened = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&opened);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                counter.fetch_add(1, Ordering::SeqCst);
                let mut stream = BufReader::new(stream.unwrap());
                std::thread::spawn(move || {
                    let mut line = String::new();
                    while stream.read_line(&mut line).is_ok_and(|read| read > 0) {
                        if line.ends_with("\r\n\r\n") {
                            line.clear();
                            say(
                                stream.get_mut(),
                                "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
                            );
                        }
                    }
                });
            }
        });
        let timeouts = Timeouts {
            origin_keepalive: kept,
            ..Timeouts::default()
        };
        let upstream = Upstream::Http(format!("http://{address}").parse().unwrap());
        // Each thread has its own.
        let config = HttpConfig {
            timeouts,
            threads: 1,
            ..wire::config(upstream)
        };
        let node = Node::with(&config);
        let ask = |targets: [&str; 3]| {
            for target in targets {
                assert_eq!(Client::new(&node).get(target).status, 200);
                std::thread::sleep(Duration::from_millis(50));
            }
        };
        ask(["/a", "/b", "/c"]);
        assert_eq!(opened.load(Ordering::SeqCst), connections);
        // A reload changes it at once.
        let timeouts = Timeouts {
            origin_keepalive: Duration::from_millis(10),
            ..timeouts
        };
        let http = node.http.as_ref().unwrap();
        http.reload(&HttpConfig { timeouts, ..config })
            .and_then(|reload| http.take_over(reload))
            .unwrap();
        ask(["/d", "/e", "/f"]);
        assert_eq!(opened.load(Ordering::SeqCst), connections + 3);
    }
}

/// hyper does not count the fields of HTTP/2.
#[test]
fn a_request_of_http2_has_more_header_fields_than_it_may() {
    let limits = HttpLimits {
        header_fields: 20,
        header_size: ByteSize::from_bytes(8192),
        ..HttpLimits::default()
    };
    let node = node(Upstream::Generated, limits);
    let mut client = Http2::new(&node);
    let names: Vec<String> = (0..25).map(|number| format!("x-{number}")).collect();
    let fields: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "v")).collect();
    let large = "v".repeat(8000);
    for (fields, status) in [
        (&fields[..20], 200),
        (&fields[..21], 431),
        (&[("x-large", &*large)], 431),
    ] {
        let stream = client.request("GET", "/10/a", fields, true);
        assert_eq!(
            client.answer(stream).status,
            Some(status),
            "{}",
            fields.len()
        );
    }
    // Cookies in several fields are one.
    let crumbs: Vec<(&str, &str)> = (0..100).map(|_| ("cookie", "a=b")).collect();
    let stream = client.request("GET", "/10/a", &crumbs, true);
    assert_eq!(client.answer(stream).status, Some(200));
}

/// Failure: a server that understands only lengths gets an empty body, or a slow client holds a
/// connection to it.
#[test]
fn an_upload_reaches_the_origin_in_chunks() {
    let (seen, requests) = std::sync::mpsc::channel();
    let origin = Origin::new(move |asked, stream| {
        let field = |name| asked.header(name).map(str::to_owned);
        let _ = seen.send((
            field("content-length"),
            field("transfer-encoding"),
            asked.body.clone(),
        ));
        say(stream, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
    });
    let config = HttpConfig {
        buffer_requests: ByteSize::from_mib(1),
        ..wire::config(to(&origin))
    };
    let node = Node::with(&config);
    for length in [3, 70_000, 300_000_usize] {
        let mut client = connect(&node);
        write!(
            client.get_mut(),
            "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        .unwrap();
        let body: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        for piece in body.chunks(10_000) {
            assert_eq!(origin.requests(), 0, "a part of the body is at the origin");
            write!(client.get_mut(), "{:x}\r\n", piece.len()).unwrap();
            client
                .get_mut()
                .write_all(&[piece, b"\r\n"].concat())
                .unwrap();
        }
        client.get_mut().write_all(b"0\r\n\r\n").unwrap();
        assert_eq!(read_response(&mut client, false).status, 200);
        assert!(
            requests.recv().unwrap() == (Some(length.to_string()), None, body),
            "{length}"
        );
        origin
            .requests
            .store(0, std::sync::atomic::Ordering::SeqCst);
    }
    let mut client = Client::new(&node);
    assert_eq!(
        client.send("POST", "/", &[], &vec![b'x'; 1_200_000]).status,
        503
    );
    assert_eq!(
        client
            .send("POST", "/", &[("expect", "100-continue")], b"abc")
            .status,
        200
    );
}
