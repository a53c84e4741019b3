//! Failure: HTTP/3 is another cache than HTTP/1.1 and 2, breaks other rules or limits than they, or
//! is announced where it is not served.

use crate::http3_client::{self as http3, Seen};
use crate::wire::{self, Node, Origin, say};
use larder_proxy::access_log::{Escape, LogTarget, Template};
use larder_proxy::{AccessLogConfig, HttpLimits, TlsConfig, Upstream};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

fn node(upstream: Upstream) -> Node {
    Node::with(&http3::config(upstream))
}

#[tokio::test]
async fn a_response_is_another_one_by_http3() {
    let node = node(Upstream::Generated);
    let client = http3::connect(http3::address(&node)).await;
    let miss = client.get("/10000/a").await;
    assert_eq!(
        (miss.status, miss.body.len(), miss.reset),
        (200, 10_000, None)
    );
    assert!(miss.header("cache-status").contains("fwd=uri-miss"));
    assert!(!miss.header("date").is_empty() && miss.header("alt-svc").is_empty());
    let hit = client.get("/10000/a").await;
    assert!(hit.is_hit() && hit.body == miss.body);
    let large = client.get("/3000000/b").await;
    assert_eq!((large.status, large.body.len()), (200, 3_000_000));
    let again = client.get("/3000000/b").await;
    assert!(again.is_hit() && again.body == large.body);
    let head = client.request("HEAD", "/10000/a", &[], b"").await;
    assert!(head.is_hit() && head.body.is_empty());
    assert_eq!(head.header("content-length"), "10000");
    let tag = [("if-none-match", hit.header("etag"))];
    let unchanged = client.request("GET", "/10000/a", &tag, b"").await;
    assert_eq!((unchanged.status, unchanged.body.len()), (304, 0));
    let part = [("range", "bytes=5-9")];
    let part = client.request("GET", "/10000/a", &part, b"").await;
    assert_eq!((part.status, &part.body[..]), (206, &miss.body[5..10]));
    let missing = client.get("/nothing/here").await;
    assert_eq!((missing.status, missing.reset), (404, None));
    // All at once.
    let all = (0..100).map(|number| client.get(if number % 2 == 0 { "/10000/a" } else { "/77/c" }));
    for seen in join(all).await {
        assert_eq!(seen.status, 200);
    }
    client.leave().await;
}

/// Runs futures at once.
async fn join(all: impl Iterator<Item = impl Future<Output = Seen>>) -> Vec<Seen> {
    let mut all: Vec<_> = all.map(|one| (Box::pin(one), None)).collect();
    std::future::poll_fn(|cx| {
        let mut is_ready = true;
        for (one, seen) in &mut all {
            if seen.is_none()
                && let std::task::Poll::Ready(done) = one.as_mut().poll(cx)
            {
                *seen = Some(done);
            }
            is_ready &= seen.is_some();
        }
        if is_ready {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    all.into_iter().filter_map(|(_, seen)| seen).collect()
}

/// Failure: the body of a request does not reach the origin, or the fields of HTTP/3 do.
#[test]
fn an_upload_is_lost() {
    let origin = Origin::new(|asked, stream| {
        let text = String::from_utf8_lossy(&asked.body).into_owned();
        let cookie = asked.header("cookie").unwrap_or("none");
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\ncache-control: no-store\r\nx-cookie: {cookie}\r\n\r\n{text}",
            text.len()
        );
        say(stream, &answer)
    });
    let node = node(Upstream::Http(
        format!("http://{}", origin.address).parse().unwrap(),
    ));
    runtime().block_on(async {
        let client = http3::connect(http3::address(&node)).await;
        let fields = [
            ("content-length", "5"),
            ("cookie", "a=1"),
            ("cookie", "b=2"),
        ];
        let posted = client.request("POST", "/form", &fields, b"hello").await;
        assert_eq!((posted.status, &posted.body[..]), (200, &b"hello"[..]));
        assert_eq!(posted.header("x-cookie"), "a=1; b=2");
        let long = "x".repeat(300_000);
        let posted = client.request("POST", "/form", &[], long.as_bytes()).await;
        assert_eq!(posted.body.len(), long.len());
        for (length, body) in [("6", "hello"), ("4", "hello")] {
            let fields = [("content-length", length)];
            let posted = client
                .request("POST", "/form", &fields, body.as_bytes())
                .await;
            assert!(posted.status != 200, "{posted:?}");
        }
        let shorter = [
            http3::head("POST", "/form", &[("content-length", "6")]),
            http3::frame(http3::DATA, b"hello"),
            http3::frame(http3::HEADERS, &http3::section(&[("x-sum", "5")])),
        ];
        let posted = http3::receive(client.send(&shorter.concat()).await).await;
        assert_eq!(posted.status, 400, "{posted:?}");
        client.leave().await;
    });
}

/// Failure: a GET whose client ends its stream in another packet is taken for one with a body, and
/// goes to the origin each time.
#[tokio::test]
async fn a_late_end_of_the_stream_is_a_body() {
    let node = node(Upstream::Generated);
    let client = http3::connect(http3::address(&node)).await;
    client.get("/100/a").await;
    let (mut send, recv) = client.quic.open_bi().await.unwrap();
    for byte in http3::head("GET", "/100/a", &[]) {
        send.write_all(&[byte]).await.unwrap();
        tokio::task::yield_now().await;
    }
    // It arrives by itself.
    let other = client.get("/100/a").await;
    send.finish().unwrap();
    assert!(http3::receive(recv).await.is_hit() && other.is_hit());
    client.leave().await;
}

/// Returns the `Alt-Svc` of a response of HTTP/1.1 over TLS.
fn announced(address: SocketAddr) -> Option<String> {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_file(http3::data("authority.pem")).unwrap();
    roots.add(authority).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = StreamOwned::new(connection, TcpStream::connect(address).unwrap());
    stream
        .write_all(b"GET /100/a HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .unwrap();
    let seen = wire::read_response(&mut BufReader::new(stream), false);
    Some(seen.header("alt-svc").to_owned()).filter(|value| !value.is_empty())
}

/// Failure: a client learns of HTTP/3 where there is none, or not where there is.
#[test]
fn http3_is_announced_where_it_is_not_served() {
    let mut config = http3::config(Upstream::Generated);
    let served = Node::with(&config);
    let address = http3::address(&served);
    let expected = Some(format!("h3=\":{}\"; ma=86400", address.port()));
    // The threads begin to read their sockets a moment later.
    let mut first = None;
    for _ in 0..500 {
        first = announced(address);
        if first.is_some() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(first, expected);
    for _ in 0..3 {
        assert_eq!(announced(address), expected, "also a plain hit");
    }
    let plain = wire::Client::new(&served).get("/100/a");
    assert_eq!(plain.header("alt-svc"), "", "the listener without TLS");
    config.tls.as_mut().unwrap().http3 = false;
    let off = Node::with(&config);
    assert_eq!(announced(http3::address(&off)), None);
    // Nothing has its UDP address.
    std::net::UdpSocket::bind(http3::address(&off)).unwrap();
}

/// Failure: one client has as many connections as it likes by HTTP/3.
#[tokio::test]
async fn connections_of_http3_are_not_counted() {
    let mut config = http3::config(Upstream::Generated);
    config.limits = HttpLimits {
        connections_per_client: 2,
        ..HttpLimits::default()
    };
    let node = Node::with(&config);
    let address = http3::address(&node);
    let one = http3::connect(address).await;
    let two = http3::connect(address).await;
    assert!(http3::try_connect(address).await.is_err());
    assert_eq!(one.get("/100/a").await.status, 200);
    assert_eq!(node.status()["connections"], 2);
    two.leave().await;
    http3::await_figure(&node, "connections", 1).await;
    let three = http3::connect(address).await;
    assert_eq!(three.get("/100/a").await.status, 200);
}

/// Failure: requests of HTTP/3 are missing in the log, or have another version there.
#[test]
fn the_log_has_another_version() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let format = "$server_protocol $ssl_protocol $status $request_uri";
    let mut config = http3::config(Upstream::Generated);
    config.access_log = Some(AccessLogConfig {
        target: LogTarget::File(path.clone()),
        template: Template::parse(format, Escape::Default).unwrap(),
        sample: 1.0,
        rotation: None,
    });
    let mut node = Node::with(&config);
    runtime().block_on(async {
        let client = http3::connect(http3::address(&node)).await;
        client.get("/100/a").await;
        client.leave().await;
    });
    node.http.take().unwrap().stop();
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text, "HTTP/3.0 TLSv1.3 200 /100/a\n");
}

/// Failure: a UDP address that another program has keeps the node from serving at all.
#[test]
fn a_node_without_its_udp_address_serves_over_tcp() {
    // The system chose the port for UDP: another test may have it for TCP, and then it is no use.
    let (node, taken) = (0..20)
        .find_map(|_| {
            let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            let mut config = http3::config(Upstream::Generated);
            let tls: &mut TlsConfig = config.tls.as_mut().unwrap();
            tls.listen = vec![taken.local_addr().unwrap().into()];
            Some((Node::started(&config).ok()?, taken))
        })
        .expect("twenty ports are taken for TCP");
    assert_eq!(announced(http3::address(&node)), None);
    drop(taken);
}
