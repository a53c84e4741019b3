//! Failure: one client of HTTP/3 fills the memory or the processor, or a malformed request is
//! served.

use crate::http3_client::{self as http3, DATA, GOAWAY, HEADERS, SETTINGS};
use crate::wire::{Node, Origin, say};
use larder_proxy::{Timeouts, Upstream};
use std::time::Duration;

fn node() -> Node {
    Node::with(&http3::config(Upstream::Generated))
}

/// Failure: a head that is too large gets something else than 431, or takes its connection along.
#[tokio::test]
async fn a_large_head_is_stored_or_ends_the_connection() {
    let node = node();
    let client = http3::connect(http3::address(&node)).await;
    let (mut send, recv) = client.quic.open_bi().await.unwrap();
    send.write_all(&http3::begin(HEADERS, 1 << 30))
        .await
        .unwrap();
    let stopped = send.stopped();
    // It goes on sending until it is asked to stop.
    while send.write_all(&[0; 4096]).await.is_ok() {}
    assert_eq!(
        stopped.await.unwrap().map(http3::code),
        Some(http3::NO_ERROR)
    );
    let seen = http3::receive(recv).await;
    assert_eq!((seen.status, seen.reset), (431, None));
    let long = "x".repeat(70_000);
    let large = client.request("GET", "/100/a", &[("x", &long)], b"").await;
    assert_eq!(large.status, 431);
    let many: Vec<_> = (0..200).map(|_| ("a", "b")).collect();
    let many = client.request("GET", "/100/a", &many, b"").await;
    assert_eq!(many.status, 431);
    assert_eq!(client.get("/100/a").await.status, 200);
    client.leave().await;
}

/// Failure: frames of unknown types, or on the control stream, are an error, or have no bound.
#[tokio::test]
async fn unknown_frames_end_a_request_or_go_on_for_ever() {
    let node = node();
    let mut client = http3::connect(http3::address(&node)).await;
    let unknown = http3::frame(0x21, &[7; 300_000]);
    let request = [
        unknown.clone(),
        http3::head("GET", "/100/a", &[]),
        unknown.clone(),
    ]
    .concat();
    let seen = http3::receive(client.send(&request).await).await;
    assert_eq!(seen.status, 200);
    client.control.write_all(&unknown).await.unwrap();
    assert_eq!(client.get("/100/a").await.status, 200);
    // As many as a client sends that has changed the priorities of ten requests.
    let signals = http3::frame(0xf0700, b"\0u=1").repeat(10);
    client.control.write_all(&signals).await.unwrap();
    assert_eq!(client.get("/100/a").await.status, 200);
    let signals = http3::frame(0x21, b"").repeat(10_000);
    let _ = client.control.write_all(&signals).await;
    assert_eq!(client.closed().await, Some(http3::EXCESSIVE_LOAD));
    let client = http3::connect(http3::address(&node)).await;
    let request = [
        http3::head("GET", "/100/a", &[]),
        http3::frame(0x21, b"").repeat(1000),
    ]
    .concat();
    client.send(&request).await;
    assert_eq!(client.closed().await, Some(http3::EXCESSIVE_LOAD));
}

/// Failure: a frame of the control stream fills the memory.
#[tokio::test]
async fn a_control_frame_of_a_gigabyte_is_awaited() {
    let node = node();
    let mut client = http3::connect(http3::address(&node)).await;
    let bomb = http3::begin(GOAWAY, 1 << 30);
    client.control.write_all(&bomb).await.unwrap();
    assert_eq!(client.closed().await, Some(http3::EXCESSIVE_LOAD));
}

/// Failure: a client makes the node work by requests that it gives up at once (CVE-2023-44487), or
/// a browser that leaves a page loses its connection.
#[tokio::test]
async fn requests_given_up_have_no_bound() {
    let node = node();
    let client = http3::connect(http3::address(&node)).await;
    let give_up = |path: String| {
        let quic = client.quic.clone();
        async move {
            let (mut send, mut recv) = quic.open_bi().await?;
            let _ = send.write_all(&http3::head("GET", &path, &[])).await;
            let code = quinn::VarInt::from_u32(http3::REQUEST_CANCELLED);
            let _ = (send.reset(code), recv.stop(code));
            Ok::<_, quinn::ConnectionError>(())
        }
    };
    for number in 0..100 {
        give_up(format!("/100/{number}?delay=10s")).await.unwrap();
    }
    assert_eq!(client.get("/100/a").await.status, 200);
    for number in 0..1000 {
        if give_up(format!("/100/{number}?delay=10s")).await.is_err() {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(client.closed().await, Some(http3::EXCESSIVE_LOAD));
}

/// Failure: a client makes the node work by requests that the node itself breaks off
/// (CVE-2025-8671), or by streams that end before their type.
#[tokio::test]
async fn broken_streams_have_no_bound() {
    let origin =
        Origin::new(|_, stream| say(stream, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"));
    let node = Node::with(&http3::config(Upstream::Http(
        format!("http://{}", origin.address).parse().unwrap(),
    )));
    let malformed = http3::head("GET", "/100/a", &[("connection", "close")]);
    let miscounted = [
        http3::head("POST", "/100/a", &[("content-length", "6")]),
        http3::frame(DATA, b"hello"),
    ]
    .concat();
    for request in [malformed, miscounted] {
        let client = http3::connect(http3::address(&node)).await;
        for _ in 0..1000 {
            let Ok((mut send, mut recv)) = client.quic.open_bi().await else {
                break;
            };
            let _ = send.write_all(&request).await;
            let _ = send.finish();
            let _ = recv.read_to_end(10_000).await;
        }
        assert_eq!(client.closed().await, Some(http3::EXCESSIVE_LOAD));
    }
    let client = http3::connect(http3::address(&node)).await;
    while let Ok(mut stream) = client.quic.open_uni().await {
        stream.finish().unwrap();
    }
    assert_eq!(client.closed().await, Some(http3::EXCESSIVE_LOAD));
}

/// Failure: a head that never ends holds its place for ever.
#[tokio::test]
async fn a_slow_head_is_awaited_for_ever() {
    let mut config = http3::config(Upstream::Generated);
    config.timeouts = Timeouts {
        client_header: Duration::from_millis(300),
        ..Timeouts::default()
    };
    let node = Node::with(&config);
    let client = http3::connect(http3::address(&node)).await;
    let (mut send, recv) = client.quic.open_bi().await.unwrap();
    let head = http3::head("GET", "/100/a", &[]);
    send.write_all(&head[..10]).await.unwrap();
    let seen = http3::receive(recv).await;
    assert_eq!(seen.reset, Some(http3::REQUEST_REJECTED));
    assert_eq!(client.get("/100/a").await.status, 200);
    client.leave().await;
}

/// Failure: a client that reads nothing of a response holds its body for ever.
#[tokio::test]
async fn a_client_that_reads_nothing_holds_its_response() {
    let mut config = http3::config(Upstream::Generated);
    config.timeouts = Timeouts {
        client_send: Duration::from_millis(500),
        ..Timeouts::default()
    };
    let node = Node::with(&config);
    let client = http3::connect(http3::address(&node)).await;
    let _unread = client.send(&http3::head("GET", "/7000000/a", &[])).await;
    assert_eq!(client.closed().await, Some(http3::NO_ERROR));
}

/// Failure: a malformed request is served, or ends more than it has to.
#[tokio::test]
async fn a_malformed_request_is_served() {
    let node = node();
    let client = http3::connect(http3::address(&node)).await;
    for fields in [
        &[("Accept", "a")][..],
        &[("connection", "close")],
        &[("transfer-encoding", "chunked")],
        &[(":path", "/b")],
        &[("content-length", "5")],
    ] {
        let seen = client.request("GET", "/100/a", fields, b"").await;
        assert_eq!(seen.reset, Some(http3::MESSAGE_ERROR), "{fields:?}");
    }
    let smuggled = client.request("GET", "/100/a", &[("x", " a")], b"").await;
    assert_eq!(smuggled.status, 400);
    let tunnel = client.request("CONNECT", "/100/a", &[], b"").await;
    assert!(tunnel.status != 200);
    for (bytes, code) in [
        (http3::frame(DATA, b"x"), http3::FRAME_UNEXPECTED),
        (http3::frame(SETTINGS, b""), http3::FRAME_UNEXPECTED),
        (
            http3::frame(HEADERS, b"\0\0\x80"),
            http3::DECOMPRESSION_FAILED,
        ),
    ] {
        let client = http3::connect(http3::address(&node)).await;
        client.send(&bytes).await;
        assert_eq!(client.closed().await, Some(code), "{bytes:?}");
    }
    for (stream, code) in [
        (&[0, 4, 0][..], 0x103),
        (&[1], 0x103),
        (&[2, 0x80], 0x201),
        (&[3, 0x80], 0x202),
    ] {
        let client = http3::connect(http3::address(&node)).await;
        // The second control stream comes after the first one.
        assert_eq!(client.get("/100/a").await.status, 200);
        let mut other = client.quic.open_uni().await.unwrap();
        other.write_all(stream).await.unwrap();
        assert_eq!(client.closed().await, Some(code), "{stream:?}");
    }
    let mut client = http3::connect(http3::address(&node)).await;
    client.control.finish().unwrap();
    assert_eq!(client.closed().await, Some(0x104));
}
