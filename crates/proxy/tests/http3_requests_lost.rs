//! Failure: a reload or a stop of the node loses requests of HTTP/3 that would have been answered,
//! or an answer before the end of an upload is an error for its client.

use crate::http3_client::{self as http3, DATA, GOAWAY};
use crate::wire::{self, Node};
use larder_http3::varint;
use larder_proxy::{Http, HttpLimits, InheritedListener, Listeners, Timeouts, Upstream};
use larder_units::ByteSize;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Failure: a response that is on its way at a stop is cut, or the client learns a wrong number of
/// the last request.
#[tokio::test]
async fn a_stop_cuts_a_response() {
    let mut node = Node::with(&http3::config(Upstream::Generated));
    let client = http3::connect(http3::address(&node)).await;
    assert_eq!(client.get("/100/a").await.status, 200);
    let slow = client
        .send(&http3::head("GET", "/2000000/b?delay=500ms", &[]))
        .await;
    let mut control = client.quic.accept_uni().await.unwrap();
    http3::await_figure(&node, "requests", 2).await;
    let http = node.http.take().unwrap();
    let stop = std::thread::spawn(move || http.stop());
    let seen = http3::receive(slow).await;
    assert_eq!(
        (seen.status, seen.body.len(), seen.reset),
        (200, 2_000_000, None)
    );
    assert_eq!(client.closed().await, Some(http3::NO_ERROR));
    stop.join().unwrap();
    // Behind the type of the stream: settings, and two frames of the end.
    let mut start = [0; 1];
    control.read_exact(&mut start).await.unwrap();
    let mut bytes = Vec::new();
    while let Ok(Some(chunk)) = control.read_chunk(1000, true).await {
        bytes.extend_from_slice(&chunk.bytes);
    }
    let (mut last, mut rest) = (Vec::new(), &bytes[..]);
    while let Some((kind, at)) = varint::decode(rest) {
        let (length, behind) = varint::decode(&rest[at..]).unwrap();
        rest = &rest[at + behind..];
        if kind == GOAWAY {
            last.push(varint::decode(rest).unwrap().0);
        }
        rest = &rest[length as usize..];
    }
    // Streams 0 and 4 were processed.
    assert_eq!(last, [varint::MOST - 3, 8]);
}

/// Connects, and sends a request whose response fits into the node's buffer, and does not arrive
/// until the line is repaired.
async fn ask_on_a_cut_line(node: &Node) -> (http3::Line, http3::Client, quinn::RecvStream) {
    let line = http3::line(http3::address(node)).await;
    let client = http3::connect(line.address).await;
    assert_eq!(client.get("/100/a").await.status, 200);
    line.is_cut.store(true, Ordering::Relaxed);
    let recv = client.send(&http3::head("GET", "/900000/a", &[])).await;
    http3::await_figure(node, "requests", 2).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    (line, client, recv)
}

/// Failure: a response that the node has handed to QUIC, but that its client has not got, is cut at
/// a stop.
#[tokio::test]
async fn a_stop_cuts_what_waits_for_a_slow_client() {
    let mut node = Node::with(&http3::config(Upstream::Generated));
    let (line, client, recv) = ask_on_a_cut_line(&node).await;
    let http = node.http.take().unwrap();
    let stop = std::thread::spawn(move || http.stop());
    tokio::time::sleep(Duration::from_secs(4)).await;
    line.is_cut.store(false, Ordering::Relaxed);
    let seen = http3::receive(recv).await;
    assert_eq!((seen.body.len(), seen.reset), (900_000, None));
    assert_eq!(client.closed().await, Some(http3::NO_ERROR));
    stop.join().unwrap();
}

/// Failure: a connection counts as idle while its client receives what the node has handed to QUIC.
#[tokio::test]
async fn a_slow_client_is_idle() {
    let mut config = http3::config(Upstream::Generated);
    config.timeouts = Timeouts {
        keepalive: Duration::from_secs(1),
        ..Timeouts::default()
    };
    let node = Node::with(&config);
    let (line, client, recv) = ask_on_a_cut_line(&node).await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    line.is_cut.store(false, Ordering::Relaxed);
    let seen = http3::receive(recv).await;
    assert_eq!((seen.body.len(), seen.reset), (900_000, None));
    assert_eq!(client.closed().await, Some(http3::NO_ERROR));
}

/// Failure: after a reload that replaces the listener, HTTP/3 is not served any more, or requests
/// in progress are cut.
#[tokio::test]
async fn a_reload_ends_http3() {
    let mut config = http3::config(Upstream::Generated);
    config.timeouts = Timeouts {
        shutdown: Duration::from_secs(20),
        ..Timeouts::default()
    };
    // A listener on port 0 would get another port at each reload.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    config.tls.as_mut().unwrap().listen = vec![address.into()];
    let node = Node::with(&config);
    let http = node.http.as_ref().unwrap();
    let client = http3::connect(address).await;
    let slow = client
        .send(&http3::head("GET", "/1000000/b?delay=1s", &[]))
        .await;
    http3::await_figure(&node, "requests", 1).await;
    // Another number of threads replaces the listener; the sockets stay.
    for threads in [2, 4] {
        config.threads = threads;
        let reload = http.reload(&config).unwrap();
        http.take_over(reload).unwrap();
    }
    let seen = http3::receive(slow).await;
    assert_eq!(
        (seen.status, seen.body.len(), seen.reset),
        (200, 1_000_000, None)
    );
    let again = loop {
        match http3::try_connect(address).await {
            Ok(client) => break client,
            // The former connections are about to end.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    };
    assert!(again.get("/1000000/b?delay=1s").await.is_hit());
    again.leave().await;
}

/// Failure: after a reload, this process reads the UDP sockets while the former one still does, and
/// each gets datagrams of the other's clients.
#[tokio::test]
async fn a_reload_reads_sockets_of_the_former_process() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let mut config = http3::config(Upstream::Generated);
    config.listen.clear();
    config.threads = 2;
    let tls = config.tls.as_mut().unwrap();
    tls.listen = vec![address.into()];
    tls.http3 = false;
    let first = Listeners::bind(&config).unwrap();
    config.tls.as_mut().unwrap().http3 = true;
    let handed = first.iter().next().unwrap().socket().try_clone().unwrap();
    let mut handed = Some((handed, larder_http3::bind(address, 2).unwrap()));
    let inherited = |_: &_, _| {
        let (socket, udp) = handed.take().unwrap();
        let socket = Some(socket);
        InheritedListener { socket, udp }
    };
    let listeners = Listeners::bind_or_inherit(&config, inherited).unwrap();
    let http = Http::start_on(listeners, &config, || ()).unwrap();
    config.threads = 4;
    let reload = http.reload(&config).unwrap();
    http.take_over(reload).unwrap();
    let early = tokio::time::timeout(Duration::from_secs(1), http3::try_connect(address));
    assert!(early.await.is_err(), "the socket is read");
    http.read_udp();
    let client = http3::connect(address).await;
    assert_eq!(client.get("/100/a").await.status, 200);
    client.leave().await;
    http.stop();
}

/// Failure: at an upgrade, a socket whose connections have all ended has no reader until those of
/// the other sockets have: its new clients wait for an answer, and do not use HTTP/2.
#[tokio::test]
async fn a_socket_without_connections_answers_nobody() {
    let mut config = http3::config(Upstream::Generated);
    config.threads = 2;
    let node = Node::with(&config);
    let address = http3::address(&node);
    let client = http3::connect(address).await;
    let slow = client
        .send(&http3::head("GET", "/1000/b?delay=4s", &[]))
        .await;
    http3::await_figure(&node, "requests", 1).await;
    node.http.as_ref().unwrap().drain();
    tokio::time::sleep(Duration::from_millis(500)).await;
    // Half of them meet the other socket.
    for number in 0..12 {
        let connecting = http3::try_connect(address);
        let answer = tokio::time::timeout(Duration::from_secs(2), connecting).await;
        assert!(matches!(answer, Ok(Err(_))), "client {number}");
    }
    assert_eq!(http3::receive(slow).await.status, 200);
}

/// Failure: the client of an upload that is answered before its end gets an error (libcurl does, if
/// the code is not that of success).
#[tokio::test]
async fn an_early_answer_is_an_error() {
    let mut config = http3::config(Upstream::Generated);
    config.limits = HttpLimits {
        client_body_size: ByteSize::from_bytes(1000),
        ..HttpLimits::default()
    };
    let node = Node::with(&config);
    let client = http3::connect(http3::address(&node)).await;
    let (mut send, recv) = client.quic.open_bi().await.unwrap();
    let fields = [("content-length", "2000")];
    send.write_all(&http3::head("POST", "/100/a", &fields))
        .await
        .unwrap();
    let stopped = send.stopped();
    let seen = http3::receive(recv).await;
    assert_eq!((seen.status, seen.reset), (413, None));
    // It is read for a while, and then stopped.
    assert_eq!(
        stopped.await.unwrap().map(http3::code),
        Some(http3::NO_ERROR)
    );
    client.leave().await;
}

/// Failure: informational responses or trailers of the origin do not reach a client of HTTP/3.
#[test]
fn hints_and_trailers_are_dropped() {
    let origin = wire::Origin::new(|asked, stream| {
        if asked.line.contains("/hints") {
            wire::say(stream, "HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\n\r\n");
        }
        wire::say(
            stream,
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\ncache-control: no-store\r\n\r\n\
             5\r\nhello\r\n0\r\nx-sum: 5\r\n\r\n",
        )
    });
    let node = Node::with(&http3::config(Upstream::Http(
        format!("http://{}", origin.address).parse().unwrap(),
    )));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let client = http3::connect(http3::address(&node)).await;
        let fields = [("te", "trailers")];
        let seen = client.request("GET", "/hints", &fields, b"").await;
        assert_eq!((seen.status, &seen.body[..]), (200, &b"hello"[..]));
        assert_eq!(seen.interims, [103]);
        assert_eq!(seen.trailers, [("x-sum".to_owned(), "5".to_owned())]);
        let (mut send, recv) = client.quic.open_bi().await.unwrap();
        let fields = [("expect", "100-continue"), ("content-length", "2")];
        send.write_all(&http3::head("POST", "/", &fields))
            .await
            .unwrap();
        send.write_all(&http3::frame(DATA, b"ab")).await.unwrap();
        send.finish().unwrap();
        assert_eq!(http3::receive(recv).await.interims, [100]);
        client.leave().await;
    });
}
