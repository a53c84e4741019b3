//! Failure: gRPC does not pass: trailers are lost, a stream waits for its end, or a call that the
//! origin has not processed fails or is made twice. Requests to an origin of HTTP/2, by prior
//! knowledge and by ALPN; to a Unix socket; to an origin with a path.

use crate::wire::http2::{
    END_HEADERS, END_STREAM, GOAWAY, HEADERS, INTERNAL_ERROR, REFUSED_STREAM, RST_STREAM, frame,
    origin,
};
use crate::wire::{self, Client, Node, Origin, say};
use bytes::Bytes;
use http_body_util::{BodyExt, Channel, Full};
use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use larder_proxy::{CertificateFiles, HttpConfig, OriginProtocol, Timeouts, TlsConfig, Upstream};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

/// An origin of HTTP/2 without TLS. It says what it saw, and offers calls.
struct Http2Origin {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Http2Origin {
    fn new() -> Http2Origin {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&connections);
        let serve = async move {
            let listener = TcpListener::from_std(listener).unwrap();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                counter.fetch_add(1, Ordering::SeqCst);
                let serving = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service_fn(respond));
                tokio::spawn(serving);
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        std::thread::spawn(move || runtime.block_on(async { tokio::spawn(serve).await }));
        Http2Origin {
            address,
            connections,
        }
    }
}

type Sent = Channel<Bytes, Infallible>;

async fn respond(request: Request<Incoming>) -> Result<Response<Sent>, Infallible> {
    let (mut sender, body) = Channel::new(16);
    let mut response = Response::new(body);
    let (head, mut asked) = request.into_parts();
    assert_eq!(head.version, Version::HTTP_2);
    let te = head
        .headers
        .get("te")
        .map_or("none", |te| te.to_str().unwrap())
        .to_owned();
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let path = head.uri.path();
    let target = format!("{} {} {}", head.uri.authority().unwrap(), path, te);
    match path {
        // A call without a message: the status stands in the head.
        "/only" => {
            response
                .headers_mut()
                .insert("grpc-status", HeaderValue::from_static("5"));
        }
        // Each message comes back when it has arrived.
        "/echo" => {
            tokio::spawn(async move {
                let mut seen = HeaderMap::new();
                while let Some(Ok(frame)) = asked.frame().await {
                    match frame.into_data() {
                        Ok(data) => sender.send_data(data).await.unwrap_or_default(),
                        Err(frame) => seen = frame.into_trailers().unwrap(),
                    }
                }
                seen.insert("grpc-status", HeaderValue::from_static("0"));
                sender.send_trailers(seen).await.unwrap_or_default();
            });
        }
        "/page" => {
            response
                .headers_mut()
                .insert("cache-control", HeaderValue::from_static("max-age=60"));
            tokio::spawn(async move { sender.send_data(Bytes::from(target)).await });
        }
        _ => {
            response
                .headers_mut()
                .insert("trailer", HeaderValue::from_static("grpc-status"));
            response
                .headers_mut()
                .insert("cache-control", HeaderValue::from_static("max-age=60"));
            tokio::spawn(async move {
                sender
                    .send_data(Bytes::from(target))
                    .await
                    .unwrap_or_default();
                sender.send_trailers(trailers).await.unwrap_or_default();
            });
        }
    }
    Ok(response)
}

fn to(upstream: String, protocol: OriginProtocol) -> HttpConfig {
    let files = CertificateFiles {
        certificate: data("localhost.pem"),
        key: data("localhost.key"),
    };
    let tls = TlsConfig::new(vec![SocketAddr::from(([127, 0, 0, 1], 0)).into()], files);
    let upstream = Upstream::Http(upstream.parse().unwrap());
    HttpConfig {
        origin_protocol: protocol,
        tls: Some(tls),
        ..wire::config(upstream)
    }
}

fn by_http2(origin: &Http2Origin) -> Node {
    Node::with(&to(
        format!("http://{}", origin.address),
        OriginProtocol::Http2,
    ))
}

type Sender<B> = hyper::client::conn::http2::SendRequest<B>;

/// A client of HTTP/2.
async fn http2<B>(node: &Node) -> Sender<B>
where
    B: hyper::body::Body<Data = Bytes, Error = Infallible> + Send + Unpin + 'static,
{
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(data("authority.pem")).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect(node.http.as_ref().unwrap().local_tls_addr().unwrap())
        .await
        .unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = tokio_rustls::TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
        .unwrap();
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    sender
}

fn call(path: &str) -> hyper::http::request::Builder {
    Request::post(format!("https://localhost{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
}

async fn stop(mut node: Node) {
    let http = node.http.take().unwrap();
    tokio::task::spawn_blocking(move || http.stop())
        .await
        .unwrap();
}

#[tokio::test]
async fn messages_wait_for_the_end_of_a_stream_or_trailers_are_lost() {
    let origin = Http2Origin::new();
    let timeouts = Timeouts {
        client_body: Duration::from_millis(200),
        ..Timeouts::default()
    };
    let config = to(format!("http://{}", origin.address), OriginProtocol::Http2);
    let node = Node::with(&HttpConfig { timeouts, ..config });
    let mut sender = http2::<Sent>(&node).await;
    let (mut messages, body) = Channel::new(16);
    let response = sender
        .send_request(call("/echo").body(body).unwrap())
        .await
        .unwrap();
    assert!(
        response.headers()["via"]
            .to_str()
            .unwrap()
            .contains("2 larder")
    );
    let mut answers = response.into_body();
    for number in 0..20u8 {
        // A call may be silent for longer than an upload, once it has its answer.
        let pause = if number == 3 { 500 } else { 0 };
        tokio::time::sleep(Duration::from_millis(pause)).await;
        messages
            .send_data(Bytes::from(vec![number; 1000]))
            .await
            .unwrap();
        let mut seen = Vec::new();
        while seen.len() < 1000 {
            seen.extend_from_slice(&answers.frame().await.unwrap().unwrap().into_data().unwrap());
        }
        assert_eq!(seen, vec![number; 1000]);
    }
    messages
        .send_trailers(HeaderMap::from_iter([(
            "x-sum".parse().unwrap(),
            "7".parse().unwrap(),
        )]))
        .await
        .unwrap();
    drop(messages);
    let trailers = answers
        .frame()
        .await
        .unwrap()
        .unwrap()
        .into_trailers()
        .unwrap();
    assert_eq!(
        (&trailers["grpc-status"], &trailers["x-sum"]),
        (&"0".parse().unwrap(), &"7".parse().unwrap())
    );
    // Its status alone.
    let response = sender
        .send_request(call("/only").body(Channel::new(1).1).unwrap())
        .await
        .unwrap();
    assert_eq!(
        (response.status(), &response.headers()["grpc-status"]),
        (StatusCode::OK, &"5".parse().unwrap())
    );
    assert!(
        response
            .into_body()
            .collect()
            .await
            .unwrap()
            .to_bytes()
            .is_empty()
    );
    stop(node).await;
}

#[tokio::test]
async fn calls_open_a_connection_each_or_lose_their_host() {
    let origin = Http2Origin::new();
    let node = by_http2(&origin);
    let sender = http2::<Full<Bytes>>(&node).await;
    let calls: Vec<_> = (0..300)
        .map(|number| {
            let mut sender = sender.clone();
            tokio::spawn(async move {
                let request = call(&format!("/call{number}"))
                    .body(Full::new(Bytes::from_static(b"x")))
                    .unwrap();
                let body = sender
                    .send_request(request)
                    .await
                    .unwrap()
                    .into_body()
                    .collect()
                    .await
                    .unwrap();
                let trailers = body.trailers().unwrap().clone();
                (trailers["grpc-status"].clone(), body.to_bytes())
            })
        })
        .collect();
    for (number, one) in calls.into_iter().enumerate() {
        let (status, text) = one.await.unwrap();
        assert_eq!(
            (status.to_str().unwrap(), &text[..]),
            ("0", format!("localhost /call{number} trailers").as_bytes())
        );
    }
    let opened = origin.connections.load(Ordering::SeqCst);
    assert!(opened <= 4, "{opened} connections");
    stop(node).await;
}

/// What a cache keeps has no trailers, so a response that announces some is not kept.
#[test]
fn a_stored_response_lacks_its_trailers() {
    let origin = Http2Origin::new();
    let node = by_http2(&origin);
    let request =
        b"GET /trailers HTTP/1.1\r\nhost: a\r\nte: trailers\r\nconnection: te, close\r\n\r\n";
    for _ in 0..2 {
        let all = wire::raw(node.address, request);
        assert!(
            all.contains("; detail=trailers\r\n") && all.contains("trailer: grpc-status\r\n"),
            "{all}"
        );
        // Those of HTTP/2 come behind the last chunk of HTTP/1.1.
        assert!(
            all.ends_with("\r\na /trailers trailers\r\n0\r\ngrpc-status: 0\r\n\r\n"),
            "{all}"
        );
    }
    // For a client that takes none, it is a response as any other.
    let mut client = Client::new(&node);
    assert_eq!(
        client.get("/trailers").text(),
        "example.test /trailers none"
    );
    assert!(client.get("/trailers").is_hit());
    assert_eq!(client.get("/page").text(), "example.test /page none");
    assert!(client.get("/page").is_hit());
}

/// Trailers of HTTP/1.1 in both directions.
#[test]
fn trailers_of_chunked_messages_are_lost() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, notes) = (listener.local_addr().unwrap(), Arc::clone(&seen));
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = [0; 1000];
        while !notes.lock().unwrap().ends_with(b"\r\n\r\n")
            || !notes.lock().unwrap().windows(3).any(|w| w == b"\r\n0")
        {
            let read = stream.read(&mut buffer).unwrap();
            notes.lock().unwrap().extend_from_slice(&buffer[..read]);
        }
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n2\r\nok\r\n0\r\nx-sum: 9\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
    });
    let node = Node::of(address);
    let head =
        "POST / HTTP/1.1\r\nhost: a\r\nte: trailers\r\nconnection: te, close\r\ntrailer: x-in\r\n";
    let request =
        format!("{head}transfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nx-in: 3\r\n\r\n");
    let all = wire::raw(node.address, request.as_bytes());
    assert!(all.ends_with("2\r\nok\r\n0\r\nx-sum: 9\r\n\r\n"), "{all}");
    let seen = String::from_utf8(seen.lock().unwrap().clone()).unwrap();
    assert!(
        seen.ends_with("\r\n0\r\nx-in: 3\r\n\r\n") && seen.contains("te: trailers\r\n"),
        "{seen}"
    );
}

#[test]
fn what_was_not_processed_fails_and_what_perhaps_was_is_sent_twice() {
    // The first stream of a client has the number 1.
    let reset = |code: u32| frame(RST_STREAM, 0, 1, &code.to_be_bytes());
    let goaway = frame(GOAWAY, 0, 0, &[0; 8]);
    for (answer, status, asked) in [
        (reset(REFUSED_STREAM), 200, 2),
        (goaway, 200, 2),
        (reset(INTERNAL_ERROR), 502, 1),
    ] {
        // `:status 200` to all others.
        let (address, requests) = origin(move |number, stream| match number {
            0 => answer.clone(),
            _ => frame(HEADERS, END_STREAM | END_HEADERS, stream, &[0x88]),
        });
        let node = Node::with(&to(format!("http://{address}"), OriginProtocol::Http2));
        // Not idempotent, without a body.
        let seen = Client::new(&node).send("POST", "/", &[("content-length", "0")], b"");
        assert_eq!(
            (seen.status, requests.load(Ordering::SeqCst)),
            (status, asked)
        );
    }
}

#[test]
fn a_server_by_tls_gets_another_protocol_than_it_chooses() {
    // A node offers both to its clients, so it is an origin that may choose.
    let origin = Node::with(&to("http://127.0.0.1:9".to_owned(), OriginProtocol::Http1));
    let generated = Node::with(&HttpConfig {
        upstream: Upstream::Generated,
        ..to("http://a".to_owned(), OriginProtocol::Http1)
    });
    drop(origin);
    let port = generated
        .http
        .as_ref()
        .unwrap()
        .local_tls_addr()
        .unwrap()
        .port();
    for (protocol, via) in [
        (OriginProtocol::Http1, "1.1 larder"),
        (OriginProtocol::Http2, "2 larder"),
        (OriginProtocol::Auto, "2 larder"),
    ] {
        let config = to(format!("https://localhost:{port}"), protocol);
        let node = Node::with(&HttpConfig {
            origin_ca: Some(data("authority.pem")),
            ..config
        });
        let answer = Client::new(&node).get(&format!("/100/{protocol:?}"));
        assert_eq!((answer.status, answer.body.len()), (200, 100));
        // The origin's own word stands before it.
        let last = answer.head.iter().rfind(|(name, _)| name == "via").unwrap();
        assert!(last.1.ends_with(via), "{protocol:?}: {last:?}");
    }
    // Without TLS there is nothing to choose.
    let node = Node::with(&to(
        format!("http://{}", generated.address),
        OriginProtocol::Auto,
    ));
    assert!(
        Client::new(&node)
            .get("/100/plain")
            .header("via")
            .ends_with("1.1 larder")
    );
}

#[test]
fn an_origin_on_a_unix_socket_or_with_a_path_is_not_reached() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("app.sock");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (mut seen, mut buffer) = (Vec::new(), [0; 1000]);
            while !seen.ends_with(b"\r\n\r\n") {
                let read = stream.read(&mut buffer).unwrap();
                seen.extend_from_slice(&buffer[..read]);
            }
            let text = String::from_utf8(seen).unwrap();
            let host = text
                .lines()
                .find(|line| line.starts_with("host: "))
                .unwrap();
            let body = format!("{} {host}", text.lines().next().unwrap());
            let head = format!(
                "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            stream.write_all((head + &body).as_bytes()).unwrap();
        }
    });
    let tcp = Origin::new(|asked, stream| {
        let body = format!("{} host: {}", asked.line, asked.header("host").unwrap());
        say(
            stream,
            &format!(
                "HTTP/1.1 302 Found\r\nlocation: /app/next\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            ),
        )
    });
    let unix = format!("unix://localhost{}", socket.display());
    for (upstream, prefix) in [
        (unix.clone(), ""),
        (format!("{unix}:/app/v1"), "/app/v1"),
        (format!("http://{}", tcp.address), ""),
        (format!("http://{}/app", tcp.address), "/app"),
        (format!("http://{}/app/", tcp.address), "/app"),
    ] {
        let node = Node::with(&to(upstream.clone(), OriginProtocol::Http1));
        let mut client = Client::new(&node);
        let answer = client.get("/a/b?c=d");
        assert_eq!(
            answer.text(),
            format!("GET {prefix}/a/b?c=d HTTP/1.1 host: example.test")
        );
        assert!(answer.status == 200 || answer.header("location") == "/app/next");
        assert_eq!(
            client.send("OPTIONS", "*", &[], b"").text(),
            "OPTIONS * HTTP/1.1 host: example.test"
        );
        let servers = node.status()["servers"].clone();
        let name = servers.as_object().unwrap().keys().next().unwrap().clone();
        assert!(
            name.ends_with(prefix) && name.starts_with("unix:/") == upstream.starts_with("unix"),
            "{name}"
        );
    }
}
