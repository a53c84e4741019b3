//! Failure: an application that sends many cookies takes itself out of service, and no setting
//! lets it through.

use crate::wire::http2::{self, head_frames};
use crate::wire::{self, Client, Node, Origin, say};
use larder_proxy::{HttpConfig, HttpLimits, OriginGroup, OriginProtocol, Upstream};
use larder_units::ByteSize;
use std::net::SocketAddr;

/// Answers `/N/SIZE` with so many fields of so many bytes.
fn origin() -> Origin {
    Origin::new(|asked, stream| {
        let mut numbers = asked
            .line
            .split(['/', ' '])
            .filter_map(|part| part.parse::<usize>().ok());
        let (count, size) = (numbers.next().unwrap(), numbers.next().unwrap());
        let fields: String = (0..count)
            .map(|number| format!("x-{number}: {}\r\n", "v".repeat(size)))
            .collect();
        say(
            stream,
            &format!(
                "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\n{fields}content-length: 2\r\n\r\nhi"
            ),
        )
    })
}

fn node(origin: &Origin, limits: HttpLimits) -> Node {
    node_of(origin.address, OriginProtocol::Http1, limits)
}

fn node_of(origin: SocketAddr, protocol: OriginProtocol, limits: HttpLimits) -> Node {
    let servers = vec![
        format!("http://{origin}")
            .parse::<http::Uri>()
            .unwrap()
            .into(),
    ];
    let group = OriginGroup {
        host: None,
        path: "/".into(),
        servers,
        protocol,
        ..OriginGroup::default()
    };
    Node::with(&HttpConfig {
        origins: vec![group],
        limits,
        ..wire::config(Upstream::Generated)
    })
}

#[test]
fn a_response_with_too_large_a_head_is_a_502_and_its_server_stays() {
    let origin = origin();
    let node = node(&origin, HttpLimits::default());
    let mut client = Client::new(&node);
    for (number, target) in ["/150/1", "/30/10000", "/150/2", "/30/10001", "/150/3"]
        .into_iter()
        .enumerate()
    {
        let seen = client.get(target);
        assert_eq!(seen.status, 502, "{target}");
        assert!(
            seen.text().contains("too many header fields"),
            "{}",
            seen.text()
        );
        node.await_figure("origin_heads_too_large", number as u64 + 1);
    }
    let status = node.status();
    assert_eq!(
        (
            &status["servers"][origin.address.to_string()],
            &status["origin_failures"]
        ),
        (&true.into(), &0.into())
    );
    assert_eq!(client.get("/20/100").status, 200);
}

#[test]
fn the_limits_can_be_raised_and_lowered() {
    let origin = origin();
    let raised = HttpLimits {
        header_fields: 300,
        header_size: ByteSize::from_bytes(1 << 20),
        ..HttpLimits::default()
    };
    let node_raised = node(&origin, raised);
    let mut client = Client::new(&node_raised);
    for (target, is_stored) in [("/150/1", true), ("/30/10000", false)] {
        for is_hit in [false, is_stored] {
            let seen = client.get(target);
            assert_eq!((seen.status, seen.is_hit()), (200, is_hit), "{target}");
        }
    }
    let cookies: Vec<(String, String)> = (0..200)
        .map(|number| (format!("c-{number}"), "v".repeat(500)))
        .collect();
    let cookies: Vec<_> = cookies
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    assert_eq!(client.send("GET", "/150/1", &cookies, b"").status, 200);
    let lowered = HttpLimits {
        header_fields: 20,
        header_size: ByteSize::from_bytes(8192),
        ..HttpLimits::default()
    };
    let node_lowered = node(&origin, lowered);
    for target in ["/25/1", "/5/2000"] {
        assert_eq!(
            Client::new(&node_lowered).get(target).status,
            502,
            "{target}"
        );
    }
    // A miss, and what would be a plain hit.
    for _ in 0..2 {
        assert_eq!(Client::new(&node_lowered).get("/1/1").status, 200);
        assert_eq!(
            Client::new(&node_lowered)
                .send("GET", "/1/1", &cookies[..25], b"")
                .status,
            431
        );
        assert_eq!(
            Client::new(&node_lowered)
                .send("GET", "/1/1", &cookies[..17], b"")
                .status,
            431
        );
    }
}

/// What the library of HTTP/2 refuses by itself is no failure of the server either.
#[test]
fn a_response_of_http2_with_too_large_a_head_is_a_502_and_its_server_stays() {
    const HEADS: [(usize, usize); 6] = [
        (150, 1),
        (30, 10_000),
        (150, 2),
        (60, 10_000),
        (8, 8000),
        (100, 10),
    ];
    let (address, requests) = http2::origin(|number, stream| {
        let (count, size) = HEADS[number];
        let fields: Vec<_> = (0..count)
            .map(|number| (format!("x-{number}"), "v".repeat(size)))
            .collect();
        head_frames(
            stream,
            &[vec![(":status".to_owned(), "200".to_owned())], fields].concat(),
            true,
        )
    });
    let node = node_of(address, OriginProtocol::Http2, HttpLimits::default());
    let mut client = Client::new(&node);
    for (number, head) in HEADS.into_iter().enumerate() {
        let seen = client.get(&format!("/{number}"));
        let is_sound = number >= 4;
        assert_eq!(seen.status, if is_sound { 200 } else { 502 }, "{head:?}");
        assert!(
            is_sound || seen.text().contains("too many header fields"),
            "{}",
            seen.text()
        );
        node.await_figure("origin_heads_too_large", number.min(3) as u64 + 1);
    }
    let status = node.status();
    assert_eq!(
        (
            &status["servers"][address.to_string()],
            &status["origin_failures"]
        ),
        (&true.into(), &0.into())
    );
    assert_eq!(
        requests.load(std::sync::atomic::Ordering::SeqCst),
        HEADS.len()
    );
}
