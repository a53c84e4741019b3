//! Clients that send requests all the time, and count those without a whole answer.

use super::{PATIENCE, data};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What clients of all kinds have seen.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) stop: AtomicBool,
    /// Answers, by kind of client.
    pub(crate) answers: [AtomicU64; KINDS.len()],
    /// Connections that were opened, by kind of client.
    pub(crate) connections: [AtomicU64; KINDS.len()],
    pub(crate) failures: Mutex<Vec<String>>,
}

pub(crate) const KINDS: [&str; 5] = ["keep-alive", "new", "unix", "tls", "http2"];

impl Seen {
    pub(crate) fn answers(&self) -> Vec<u64> {
        self.answers
            .iter()
            .map(|answers| answers.load(Ordering::Relaxed))
            .collect()
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn note(&self, kind: usize, result: Result<(), String>) {
        match result {
            Ok(()) => drop(self.answers[kind].fetch_add(1, Ordering::Relaxed)),
            Err(error) => self
                .failures
                .lock()
                .unwrap()
                .push(format!("{}: {error}", KINDS[kind])),
        }
    }

    fn connected(&self, kind: usize) {
        self.connections[kind].fetch_add(1, Ordering::Relaxed);
    }
}

/// Some objects are stored, others are not; some answers take a while.
fn target(number: u64) -> String {
    match number % 10 {
        0 => format!("/1KiB/new-{number}"),
        1 => format!("/20KiB/slow-{number}?delay=30ms"),
        rest => format!("/1KiB/{rest}"),
    }
}

/// Sends a request and reads its answer. Returns true if the connection may be used again.
fn exchange(stream: &mut (impl Read + Write), number: u64, fields: &str) -> Result<bool, String> {
    let text = |error: io::Error| format!("request {number}: {error}");
    let request = format!(
        "GET {} HTTP/1.1\r\nhost: localhost\r\n{fields}\r\n",
        target(number)
    );
    stream.write_all(request.as_bytes()).map_err(text)?;
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    let head = loop {
        match stream.read(&mut piece).map_err(text)? {
            0 => {
                return Err(format!(
                    "request {number}: the end after {} bytes",
                    bytes.len()
                ));
            }
            read => bytes.extend_from_slice(&piece[..read]),
        }
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
    };
    let fields = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
    if !fields.starts_with("http/1.1 200 ") {
        return Err(format!("request {number}: {fields}"));
    }
    let length = fields
        .split_once("content-length: ")
        .and_then(|(_, rest)| rest.split('\r').next());
    let length: usize = length
        .and_then(|length| length.parse().ok())
        .ok_or("no length")?;
    while bytes.len() < head + length {
        match stream.read(&mut piece).map_err(text)? {
            0 => {
                return Err(format!(
                    "request {number}: cut after {} of {length} bytes",
                    bytes.len() - head
                ));
            }
            read => bytes.extend_from_slice(&piece[..read]),
        }
    }
    Ok(!fields.contains("connection: close"))
}

fn connect(address: SocketAddr) -> Result<TcpStream, String> {
    let stream = TcpStream::connect(address).map_err(|error| format!("connect: {error}"))?;
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    Ok(stream)
}

/// Uses a connection until the server says that it ends, with pauses between requests.
pub(crate) fn keep_alive(seen: &Seen, address: SocketAddr, mut number: u64) {
    while !seen.is_over() {
        let mut stream = match connect(address) {
            Ok(stream) => stream,
            Err(error) => return seen.note(0, Err(error)),
        };
        seen.connected(0);
        loop {
            number = number
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let again = exchange(&mut stream, number >> 33, "");
            seen.note(0, again.clone().map(drop));
            if seen.is_over() || again != Ok(true) {
                break;
            }
            std::thread::sleep(Duration::from_millis(number >> 59));
        }
    }
}

/// Opens a connection for each request.
pub(crate) fn new_connections(seen: &Seen, address: SocketAddr, mut number: u64) {
    while !seen.is_over() {
        number += 1;
        let answer = connect(address)
            .and_then(|mut stream| exchange(&mut stream, number, "connection: close\r\n"));
        seen.connected(1);
        seen.note(1, answer.map(drop));
    }
}

/// The same on the Unix socket.
pub(crate) fn unix(seen: &Seen, path: &Path, mut number: u64) {
    while !seen.is_over() {
        number += 1;
        let stream = UnixStream::connect(path).map_err(|error| format!("connect: {error}"));
        let answer = stream.and_then(|mut stream| {
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            exchange(&mut stream, number, "connection: close\r\n")
        });
        seen.connected(2);
        seen.note(2, answer.map(drop));
    }
}

/// Opens a TLS connection for each request.
pub(crate) fn tls(seen: &Seen, address: SocketAddr, mut number: u64) {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(data("authority.pem")).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = Arc::new(config.with_root_certificates(roots).with_no_client_auth());
    while !seen.is_over() {
        number += 1;
        let answer = connect(address).and_then(|stream| {
            let client =
                ClientConnection::new(Arc::clone(&config), "localhost".try_into().unwrap())
                    .unwrap();
            exchange(
                &mut StreamOwned::new(client, stream),
                number,
                "connection: close\r\n",
            )
        });
        seen.connected(3);
        seen.note(3, answer.map(drop));
    }
}

/// Sends several requests at once on one HTTP/2 connection, until the server ends it.
pub(crate) fn http2(seen: &Arc<Seen>, address: SocketAddr) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        while !seen.is_over() {
            let stream = match tokio::net::TcpStream::connect(address).await {
                Ok(stream) => stream,
                Err(error) => return seen.note(4, Err(format!("connect: {error}"))),
            };
            seen.connected(4);
            let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
            let (sender, connection) = handshake.unwrap();
            let streams = (0..4).map(|number| {
                let (seen, sender) = (Arc::clone(seen), sender.clone());
                tokio::spawn(http2_stream(seen, sender, number * 1_000_000))
            });
            let streams: Vec<_> = streams.collect();
            // The end of the connection is that of its streams.
            tokio::spawn(connection);
            drop(sender);
            for stream in streams {
                stream.await.unwrap();
            }
        }
    });
}

async fn http2_stream(
    seen: Arc<Seen>,
    mut sender: http2::SendRequest<Empty<Bytes>>,
    mut number: u64,
) {
    while !seen.is_over() {
        if sender.ready().await.is_err() {
            return;
        }
        number += 1;
        let request = hyper::Request::get(format!("http://localhost{}", target(number)))
            .body(Empty::new())
            .unwrap();
        let answer = match sender.try_send_request(request).await {
            Err(mut error) => match error.take_message() {
                // The connection has ended before the request was sent (RFC 9113 §6.8).
                Some(_) => return,
                None => Err(format!("request {number}: {:?}", error.into_error())),
            },
            Ok(response) if response.status() != 200 => {
                Err(format!("request {number}: {}", response.status()))
            }
            Ok(response) => response
                .into_body()
                .collect()
                .await
                .map(drop)
                .map_err(|error| format!("{error:?}")),
        };
        seen.note(4, answer);
    }
}
