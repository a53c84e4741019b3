//! Failure: a proxy in front is not believed, or a client that is none; plain hits of their clients
//! go to the wrong key.

use crate::wire::{self, Client, Node, Origin, Seen};
use larder_host::ListenConfig;
use larder_proxy::{HttpConfig, TrustedFields, TrustedProxies, Upstream};
use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

fn any_port() -> ListenConfig {
    SocketAddr::from(([127, 0, 0, 1], 0)).into()
}

/// An origin whose stored responses name what it was told of the client.
fn echo() -> Origin {
    Origin::new(|asked, stream| {
        let field = |name: &str| {
            asked
                .head
                .iter()
                .find(|(n, _)| n == name)
                .map_or("-", |(_, value)| value.as_str())
        };
        let told = [
            "x-forwarded-for",
            "x-forwarded-proto",
            "x-forwarded-host",
            "host",
            "forwarded",
        ]
        .map(field)
        .join("|");
        let head = format!(
            "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: {}",
            told.len()
        );
        wire::say(stream, &format!("{head}\r\n\r\n{told}"))
    })
}

fn node(origin: &Origin, trusted: &[&str], change: impl FnOnce(&mut HttpConfig)) -> Node {
    let mut config = wire::config(Upstream::Http(
        format!("http://{}", origin.address).parse().unwrap(),
    ));
    let all = TrustedFields::of(TrustedFields::NAMES).unwrap();
    config.trusted_proxies = TrustedProxies::parse(trusted.iter().copied())
        .unwrap()
        .with_fields(all);
    change(&mut config);
    Node::with(&config)
}

const FIELDS: &[(&str, &str)] = &[
    ("x-forwarded-for", "198.51.100.1, 192.0.2.1"),
    ("x-forwarded-proto", "https"),
    ("x-forwarded-host", "other.test"),
];

#[test]
fn a_proxy_is_not_believed_or_a_client_is() {
    let origin = echo();
    let open = node(&origin, &["10.0.0.0/8", "unix:"], |_| ());
    let told = Client::new(&open).send("GET", "/", FIELDS, b"").text();
    assert_eq!(
        told,
        "198.51.100.1, 192.0.2.1, 127.0.0.1|http|example.test|example.test|-"
    );
    let behind = node(&origin, &["127.0.0.0/8"], |_| ());
    let mut client = Client::new(&behind);
    let told = client.send("GET", "/", FIELDS, b"").text();
    assert_eq!(
        told,
        "198.51.100.1, 192.0.2.1, 127.0.0.1|https|other.test|other.test|-"
    );
    // Each scheme and each host has its own response, also as plain hits.
    for round in 0..3 {
        for (fields, is_hit, told) in [
            (FIELDS, true, "https|other.test"),
            (&FIELDS[..2], round > 0, "https|example.test"),
            (&[], round > 0, "http|example.test"),
            (
                &[("forwarded", "for=192.0.2.1;proto=https;host=third.test")],
                round > 0,
                "https|third.test",
            ),
        ] {
            let seen = client.send("GET", "/", fields, b"");
            assert_eq!(seen.is_hit(), is_hit, "{round} {fields:?} {seen:?}");
            assert!(seen.text().contains(told), "{round} {fields:?} {seen:?}");
        }
    }
    for host in ["a b", "a/b", "a@b", ""] {
        let status = client
            .send("GET", "/", &[("x-forwarded-host", host)], b"")
            .status;
        assert_eq!(status, if host.is_empty() { 200 } else { 400 }, "{host:?}");
    }
}

fn get_after(address: SocketAddr, header: &[u8], requests: usize) -> Vec<Seen> {
    let mut stream = BufReader::new(TcpStream::connect(address).unwrap());
    (0..requests)
        .map(|number| {
            let request = "GET /10/a HTTP/1.1\r\nhost: example.test\r\n\r\n";
            let first = if number == 0 { header } else { b"" };
            stream
                .get_mut()
                .write_all(&[first, request.as_bytes()].concat())
                .unwrap();
            wire::read_response(&mut stream, false)
        })
        .collect()
}

/// Failure: the client that a header names is not told to the origin, hits do not pass, or a
/// connection without a header is served.
#[test]
fn the_client_of_a_balancer_is_lost() {
    let origin = echo();
    let node = node(&origin, &[], |config| {
        config.listen = vec![
            ListenConfig {
                proxy_protocol: true,
                ..any_port()
            },
            any_port(),
        ];
    });
    let seen = get_after(
        node.address,
        b"PROXY TCP4 192.0.2.1 10.0.0.1 5000 80\r\n",
        3,
    );
    assert!(
        seen[0].text().starts_with("192.0.2.1|") && seen[1].is_hit() && seen[2].is_hit(),
        "{seen:?}"
    );
    let v2 = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x02\x0a\0\0\x01\x12\x34\0\x50";
    assert!(get_after(node.address, v2, 1)[0].is_hit());
    // One byte at a time.
    let mut slow = TcpStream::connect(node.address).unwrap();
    slow.set_nodelay(true).unwrap();
    for byte in [
        &v2[..],
        b"GET /10/a HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
    ]
    .concat()
    {
        slow.write_all(&[byte]).unwrap();
    }
    let mut answer = String::new();
    slow.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("192.0.2.2|http|a|"), "{answer}");
    let counted = || node.status()["no_proxy_header"].as_u64();
    assert_eq!(counted(), Some(0));
    for (number, wrong) in [
        &b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"[..],
        b"PROXY TCP4 a b\r\n",
        &v2[..5],
    ]
    .iter()
    .enumerate()
    {
        let mut stream = TcpStream::connect(node.address).unwrap();
        stream.write_all(wrong).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        // A server that closes with bytes unread resets the connection.
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty(), "{answer:?}");
        node.await_figure("no_proxy_header", number as u64 + 1);
    }
    // The other listener has no header.
    let other = node.http.as_ref().unwrap().listening()[1].0.tcp().unwrap();
    assert!(get_after(other, b"", 1)[0].is_hit());
    assert_eq!(
        get_after(other, b"PROXY TCP4 192.0.2.1 10.0.0.1 5000 80\r\n", 1)[0].status,
        400
    );
}

/// Failure: a page is served without TLS, or a client that has it is sent in a circle; a
/// certificate cannot be renewed.
#[test]
fn a_redirect_to_https_goes_wrong() {
    let origin = echo();
    let node = node(&origin, &["127.0.0.1"], |config| {
        config.redirect_to_https = true
    });
    let mut client = Client::new(&node);
    client.host = "example.test:8080".to_owned();
    for method in ["GET", "POST"] {
        let seen = client.send(method, "/a?b", &[], b"");
        assert_eq!(
            (seen.status, seen.header("location")),
            (308, "https://example.test/a?b"),
            "{seen:?}"
        );
    }
    assert_eq!(client.get("/.well-known/acme-challenge/token").status, 200);
    for is_hit in [false, true] {
        let seen = client.send("GET", "/a?b", &[("x-forwarded-proto", "https")], b"");
        assert_eq!((seen.status, seen.is_hit()), (200, is_hit));
        // What is stored for https stays there.
        assert_eq!(client.get("/a?b").status, 308);
    }
}
