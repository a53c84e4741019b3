//! Failure: an origin that is down, slow, cut off or malicious takes the cache with it.

use crate::wire::{self, Client, Node, Origin, say, say_last};
use std::net::TcpListener;
use std::time::Duration;

#[test]
fn down_is_502_with_its_reason() {
    let vacant = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let node = Node::of(vacant);
    let mut client = Client::new(&node);
    let seen = client.get("/");
    assert_eq!(
        (seen.status, seen.header("cache-status")),
        (502, "larder; fwd=uri-miss")
    );
    assert!(seen.text().contains("cannot be reached"));
    assert_eq!(client.send("POST", "/", &[], b"x").status, 502);
    assert_eq!(node.status()["origin_failures"], 2);
}

#[test]
fn not_http_is_502() {
    let origin = Origin::new(|_, stream| say_last(stream, "SSH-2.0-OpenSSH_9.0\r\n\r\n"));
    let node = Node::of(origin.address);
    let seen = Client::new(&node).get("/");
    assert_eq!(seen.status, 502);
    assert!(seen.text().contains("malformed"), "{seen:?}");
    let origin = Origin::new(|_, _| false);
    assert_eq!(
        Client::new(&Node::of(origin.address)).get("/").status,
        502,
        "closed without a word"
    );
}

/// What was cut reaches the client as cut, and the store not at all.
#[test]
fn cut_bodies_are_neither_hidden_nor_stored() {
    let head = "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\n";
    let origin = Origin::new(move |asked, stream| {
        let body = if asked.line.contains("chunked") {
            "transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n5\r\nwo"
        } else if asked.line.contains("close") {
            "connection: close\r\n\r\nhello"
        } else {
            "content-length: 10\r\n\r\nhello"
        };
        say_last(stream, &format!("{head}{body}"))
    });
    let node = Node::of(origin.address);
    for target in ["/length", "/chunked"] {
        for attempt in 0..2 {
            let seen = Client::new(&node).get(target);
            assert!(seen.cut && !seen.is_hit(), "{target} {attempt}: {seen:?}");
        }
    }
    node.await_figure("truncated", 4);
    assert_eq!(node.status()["objects"], 0);
    // A body that ends with its connection, as long as that ends well.
    for is_hit in [false, true] {
        let seen = Client::new(&node).get("/close");
        assert_eq!(
            (&seen.body[..], seen.cut, seen.is_hit()),
            (&b"hello"[..], false, is_hit)
        );
    }
}

/// Failure: a body that ends with its connection is stored although the connection was reset.
#[test]
fn a_reset_is_taken_for_the_end_of_a_body() {
    let origin = Origin::new(|_, stream| {
        socket2::SockRef::from(&*stream)
            .set_linger(Some(Duration::ZERO))
            .unwrap();
        say_last(
            stream,
            "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\nconnection: close\r\n\r\nhello",
        )
    });
    let node = Node::of(origin.address);
    for attempt in 0..2 {
        let seen = Client::new(&node).get("/");
        // The reset may overtake the head.
        assert!(
            (seen.cut || seen.status == 502) && !seen.is_hit(),
            "{attempt}: {seen:?}"
        );
    }
    assert_eq!(node.status()["objects"], 0);
}

/// The generated origin can be cut, too.
#[test]
fn cut_in_process() {
    let node = Node::generated();
    // It breaks off at once, perhaps before the head has been written.
    let seen = wire::raw(
        node.address,
        b"GET /300000/a?cut HTTP/1.1\r\nhost: a\r\n\r\n",
    );
    assert!(seen.len() < 160_000);
    node.await_figure("truncated", 1);
    assert_eq!(node.status()["objects"], 0);
}

#[test]
fn what_the_origin_is_told() {
    let origin = Origin::new(|asked, stream| {
        let text = asked
            .head
            .iter()
            .map(|(name, value)| format!("{name}: {value}\n"))
            .collect::<String>();
        let text = format!("{}\n{text}", asked.line);
        say(
            stream,
            &format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: keep-alive, x-hop\r\nx-hop: 1\r\n\r\n{text}",
                text.len()
            ),
        )
    });
    let node = Node::of(origin.address);
    let mut client = Client::new(&node);
    let fields = [
        ("connection", "x-mine"),
        ("x-mine", "1"),
        ("x-forwarded-for", "192.0.2.1"),
        ("x-forwarded-host", "evil"),
        ("x-original-url", "/evil"),
        ("x-kept", "1"),
        ("expect", "200-ok"),
    ];
    let seen = client.send("GET", "/a?b", &fields, b"");
    let told = seen.text();
    assert!(told.starts_with("GET /a?b HTTP/1.1\n"), "{told}");
    for line in [
        "host: example.test",
        "x-forwarded-for: 192.0.2.1, 127.0.0.1",
        "x-forwarded-host: example.test",
        "x-forwarded-proto: http",
        "via: 1.1 larder",
        "x-kept: 1",
    ] {
        assert!(
            told.contains(&format!("\n{line}\n")),
            "{line} is not in\n{told}"
        );
    }
    for name in ["x-mine", "x-original-url", "expect", "evil"] {
        assert!(!told.contains(name), "{name} is in\n{told}");
    }
    assert_eq!((seen.header("x-hop"), seen.header("connection")), ("", ""));
}

/// An origin that repeats what it was told.
fn echo() -> Origin {
    Origin::new(|asked, stream| {
        let text = asked
            .head
            .iter()
            .map(|(name, value)| format!("{name}: {value}\n"))
            .collect::<String>();
        let text = format!("{}\n{text}", asked.line);
        let head = format!(
            "cache-control: max-age=60\r\ncontent-length: {}",
            text.len()
        );
        say(stream, &format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{text}"))
    })
}

/// What one spelling of the host gets is stored for all of them: so the origin may not see which it
/// was.
#[test]
fn the_origin_is_told_the_host_that_is_keyed() {
    let origin = echo();
    let node = Node::of(origin.address);
    let mut client = Client::new(&node);
    client.host = "EXAMPLE.test:80".into();
    let told = client.get("/").text();
    for line in ["host: example.test", "x-forwarded-host: example.test"] {
        assert!(
            told.contains(&format!("\n{line}\n")),
            "{line} is not in\n{told}"
        );
    }
    assert!(
        !told.contains("EXAMPLE") && !told.contains(":80\n"),
        "{told}"
    );
    client.host = "example.test".into();
    assert!(client.get("/").is_hit());
    client.host = "example.test:8080".into();
    assert!(
        client
            .get("/")
            .text()
            .contains("\nhost: example.test:8080\n")
    );
}

/// RFC 9110 §7.6.2: at zero this hop answers; above, the next one gets one less. For OPTIONS and
/// TRACE only.
#[test]
fn max_forwards_counts_hops() {
    let origin = echo();
    let node = Node::of(origin.address);
    let mut client = Client::new(&node);
    let mut ask = |method: &str, hops: &str| {
        let fields = [
            ("max-forwards", hops),
            ("cookie", "secret=1"),
            ("authorization", "Basic c2VjcmV0"),
            ("x-a", "b"),
        ];
        client.send(method, "/a?b", &fields, b"")
    };
    let options = ask("OPTIONS", "0");
    assert_eq!(
        (
            options.status,
            options.body.len(),
            options.header("content-length")
        ),
        (200, 0, "0")
    );
    let trace = ask("TRACE", "0");
    assert_eq!(
        (trace.status, trace.header("content-type")),
        (200, "message/http")
    );
    assert_eq!(
        trace.text(),
        "TRACE /a?b HTTP/1.1\r\nhost: example.test\r\nmax-forwards: 0\r\nx-a: b\r\n\r\n"
    );
    assert_eq!(
        (origin.requests(), &node.status()["requests"]),
        (0, &0.into())
    );
    for (method, hops, told) in [
        ("OPTIONS", "1", "0"),
        ("TRACE", "10", "9"),
        ("OPTIONS", "99999999999999999999999", "18446744073709551614"),
        ("OPTIONS", "-1", "-1"),
        ("OPTIONS", "many", "many"),
        ("GET", "0", "0"),
    ] {
        let seen = ask(method, hops).text();
        assert!(
            seen.contains(&format!("\nmax-forwards: {told}\n")),
            "{method} {hops}: {seen}"
        );
    }
    assert_eq!(origin.requests(), 6);
}

#[test]
fn bodies_of_requests_go_through() {
    let origin = Origin::new(|asked, stream| {
        let echo = format!(
            "{} bytes, sum {}",
            asked.body.len(),
            asked.body.iter().map(|b| u64::from(*b)).sum::<u64>()
        );
        say(
            stream,
            &format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{echo}",
                echo.len()
            ),
        )
    });
    let node = Node::of(origin.address);
    let body: Vec<u8> = (0..1_000_000u32).map(|n| n as u8).collect();
    let sum: u64 = body.iter().map(|b| u64::from(*b)).sum();
    let mut client = Client::new(&node);
    for _ in 0..2 {
        let seen = client.send("PUT", "/", &[], &body);
        assert_eq!(seen.text(), format!("1000000 bytes, sum {sum}"));
        assert_eq!(
            seen.header("cache-status"),
            "larder; fwd=method; fwd-status=200"
        );
    }
    assert_eq!(origin.requests(), 2);
}

/// A client that breaks off its upload gets an error, and the origin is not blamed.
#[test]
fn an_upload_that_breaks_off_is_the_clients_failure() {
    let origin = Origin::new(|asked, stream| {
        // A body that broke off ends here, and nobody waits for an answer.
        say(
            stream,
            &format!(
                "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx-body: {}\r\n\r\nok",
                asked.body.len()
            ),
        )
    });
    let node = Node::of(origin.address);
    let broken = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\nnonsense\r\n";
    let answer = wire::raw(node.address, broken.as_bytes());
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer:?}");
    assert!(
        answer.contains("the request's body broke off"),
        "{answer:?}"
    );
    assert_eq!(node.status()["origin_failures"], 0);
    assert_eq!(
        Client::new(&node)
            .send("POST", "/", &[], b"hello")
            .header("x-body"),
        "5"
    );
}

/// A 304 for something that the cache did not ask about is followed by an unconditional request,
/// once.
#[test]
fn a_304_that_confirms_nothing() {
    let origin = Origin::new(|asked, stream| {
        let conditional = asked.header("if-none-match").is_some();
        say(
            stream,
            if conditional {
                "HTTP/1.1 304 Not Modified\r\netag: \"other\"\r\n\r\n"
            } else {
                "HTTP/1.1 200 OK\r\netag: \"1\"\r\ncache-control: no-cache\r\ncontent-length: 5\r\n\r\nhello"
            },
        )
    });
    let node = Node::of(origin.address);
    let mut client = Client::new(&node);
    for requests in [1, 3] {
        let seen = client.get("/");
        assert_eq!(
            (seen.status, &seen.body[..], origin.requests()),
            (200, &b"hello"[..], requests)
        );
    }
}

#[test]
fn an_origin_that_comes_back() {
    let vacant = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = vacant.local_addr().unwrap();
    drop(vacant);
    let node = Node::of(address);
    let mut client = Client::new(&node);
    assert_eq!(client.get("/").status, 502);
    let listener = TcpListener::bind(address).unwrap();
    std::thread::spawn(move || {
        use std::io::Read;
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let _ = stream.read(&mut [0; 1024]);
            say(
                &mut stream,
                "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
            );
        }
    });
    assert_eq!(client.get("/").status, 200);
}

/// Interim responses come before the one that counts (RFC 9110 §15.2): they are neither taken for
/// it nor part of it.
#[test]
fn interim_responses_are_not_stored() {
    let origin = Origin::new(|_, stream| {
        let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\nset-cookie: a=b\r\n\r\n";
        let last = "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: 5\r\n\r\nhello";
        say(stream, &format!("{}{last}", interim.repeat(2)))
    });
    let node = Node::of(origin.address);
    let mut client = Client::new(&node);
    for hit in [false, true] {
        let seen = client.get("/");
        assert_eq!(
            (seen.status, &seen.body[..], seen.is_hit()),
            (200, &b"hello"[..], hit)
        );
        assert_eq!((seen.header("link"), seen.header("set-cookie")), ("", ""));
    }
}

/// Trailers are no header fields (RFC 9110 §6.5.1: who does not know what they mean discards them).
#[test]
fn trailers_reach_neither_the_head_nor_the_store() {
    let origin = Origin::new(|asked, stream| {
        let control = if asked.line.contains("stored") {
            "max-age=60"
        } else {
            "no-store"
        };
        let head = format!(
            "HTTP/1.1 200 OK\r\ncache-control: {control}\r\ntrailer: x-sum\r\ntransfer-encoding: chunked\r\n\r\n"
        );
        say(
            stream,
            &format!(
                "{head}5\r\nhello\r\n0\r\nx-sum: 1\r\ncontent-length: 3\r\ncache-control: max-age=9\r\n\r\n"
            ),
        )
    });
    let node = Node::of(origin.address);
    let mut client = Client::new(&node);
    for (target, hits) in [("/stored", [false, true]), ("/relayed", [false, false])] {
        for hit in hits {
            let seen = client.get(target);
            assert_eq!(
                (seen.status, &seen.body[..], seen.is_hit()),
                (200, &b"hello"[..], hit),
                "{target}"
            );
            assert_eq!(
                (seen.header("x-sum"), seen.header("trailer")),
                ("", ""),
                "{target}"
            );
            assert_ne!(seen.header("cache-control"), "max-age=9", "{target}");
        }
    }
}
