//! A client of HTTP/3 whose streams and frames are made by hand (RFC 9114), over QUIC of quinn,
//! because libraries refuse to send what these tests send.

use crate::wire::{self, Node};
use larder_http3::{qpack, varint};
use larder_proxy::{CertificateFiles, HttpConfig, TlsConfig, Upstream};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{Connection, ConnectionError, Endpoint, RecvStream, SendStream, VarInt};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::UdpSocket;

pub const DATA: u64 = 0x0;
pub const HEADERS: u64 = 0x1;
pub const SETTINGS: u64 = 0x4;
pub const GOAWAY: u64 = 0x7;

pub const NO_ERROR: u32 = 0x100;
pub const FRAME_UNEXPECTED: u32 = 0x105;
pub const EXCESSIVE_LOAD: u32 = 0x107;
pub const REQUEST_REJECTED: u32 = 0x10b;
pub const REQUEST_CANCELLED: u32 = 0x10c;
pub const MESSAGE_ERROR: u32 = 0x10e;
pub const DECOMPRESSION_FAILED: u32 = 0x200;

pub fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

/// The configuration of a node with TLS, and with HTTP/3 at the same port.
pub fn config(upstream: Upstream) -> HttpConfig {
    let files = CertificateFiles {
        certificate: data("localhost.pem"),
        key: data("localhost.key"),
    };
    let listen = vec![SocketAddr::from(([127, 0, 0, 1], 0)).into()];
    HttpConfig {
        tls: Some(TlsConfig::new(listen, files)),
        ..wire::config(upstream)
    }
}

pub fn address(node: &Node) -> SocketAddr {
    node.http.as_ref().unwrap().local_tls_addr().unwrap()
}

pub fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = begin(kind, payload.len() as u64);
    bytes.extend_from_slice(payload);
    bytes
}

/// The begin of a frame of this length.
pub fn begin(kind: u64, length: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    varint::encode(kind, &mut bytes);
    varint::encode(length, &mut bytes);
    bytes
}

/// A field section without any table.
pub fn section(fields: &[(&str, &str)]) -> Vec<u8> {
    fn string(text: &str, bits: u32, first: u8, into: &mut Vec<u8>) {
        let most = (1 << bits) - 1;
        if text.len() < most {
            into.push(first | text.len() as u8);
        } else {
            into.push(first | most as u8);
            let mut rest = text.len() - most;
            while rest >= 0x80 {
                into.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            into.push(rest as u8);
        }
        into.extend_from_slice(text.as_bytes());
    }
    let mut section = vec![0, 0];
    for (name, value) in fields {
        string(name, 3, 0b0010_0000, &mut section);
        string(value, 7, 0, &mut section);
    }
    section
}

/// The head of a request.
pub fn head(method: &str, path: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let pseudo = [
        (":method", method),
        (":scheme", "https"),
        (":authority", "localhost"),
        (":path", path),
    ];
    frame(HEADERS, &section(&[&pseudo, fields].concat()))
}

/// A response.
#[derive(Debug, Default)]
pub struct Seen {
    /// The statuses of informational responses.
    pub interims: Vec<u16>,
    pub status: u16,
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub trailers: Vec<(String, String)>,
    /// The code with which the stream was reset.
    pub reset: Option<u32>,
}

impl Seen {
    pub fn header(&self, name: &str) -> &str {
        let mut fields = self.fields.iter();
        fields
            .find(|(known, _)| known == name)
            .map_or("", |(_, value)| value)
    }

    pub fn is_hit(&self) -> bool {
        self.header("cache-status").starts_with("larder; hit")
    }
}

/// One connection.
pub struct Client {
    endpoint: Endpoint,
    pub quic: Connection,
    /// The client's control stream.
    pub control: SendStream,
}

/// Connects to a node.
///
/// # Errors
/// The node refuses the connection.
pub async fn try_connect(address: SocketAddr) -> Result<Client, ConnectionError> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(data("authority.pem")).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap();
    let mut tls = tls.with_root_certificates(roots).with_no_client_auth();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let tls = QuicClientConfig::try_from(tls).unwrap();
    let endpoint = Endpoint::client(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let config = quinn::ClientConfig::new(Arc::new(tls));
    let connecting = endpoint.connect_with(config, address, "localhost").unwrap();
    let quic = connecting.await?;
    let mut control = quic.open_uni().await?;
    let settings = [&[0][..], &frame(SETTINGS, &[])].concat();
    control.write_all(&settings).await.unwrap();
    Ok(Client {
        endpoint,
        quic,
        control,
    })
}

pub async fn connect(address: SocketAddr) -> Client {
    try_connect(address).await.unwrap()
}

/// The path between a client and a node.
pub struct Line {
    /// The client connects to it.
    pub address: SocketAddr,
    /// While this is true, what the node sends is lost.
    pub is_cut: Arc<AtomicBool>,
}

/// Begins a path to a node.
pub async fn line(node: SocketAddr) -> Line {
    let front = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let back = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    back.connect(node).await.unwrap();
    let address = front.local_addr().unwrap();
    let is_cut = Arc::new(AtomicBool::new(false));
    let is_lost = Arc::clone(&is_cut);
    tokio::spawn(async move {
        let (mut to_node, mut to_client) = ([0; 2000], [0; 2000]);
        let mut client = address;
        loop {
            tokio::select! {
                Ok((bytes, from)) = front.recv_from(&mut to_node) => {
                    client = from;
                    let _ = back.send(&to_node[..bytes]).await;
                }
                Ok(bytes) = back.recv(&mut to_client) => {
                    if !is_lost.load(Ordering::Relaxed) {
                        let _ = front.send_to(&to_client[..bytes], client).await;
                    }
                }
            }
        }
    });
    Line { address, is_cut }
}

impl Client {
    /// Sends bytes on a stream of its own, and its end.
    pub async fn send(&self, bytes: &[u8]) -> RecvStream {
        let (mut send, recv) = self.quic.open_bi().await.unwrap();
        // The server may ask to stop.
        let _ = send.write_all(bytes).await;
        let _ = send.finish();
        recv
    }

    pub async fn get(&self, path: &str) -> Seen {
        self.request("GET", path, &[], b"").await
    }

    pub async fn request(
        &self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> Seen {
        let mut bytes = head(method, path, fields);
        if !body.is_empty() {
            bytes.extend(frame(DATA, body));
        }
        receive(self.send(&bytes).await).await
    }

    /// Waits for the end of the connection; returns its code.
    pub async fn closed(&self) -> Option<u32> {
        let closed = tokio::time::timeout(Duration::from_secs(60), self.quic.closed());
        match closed.await.expect("the connection stays open") {
            ConnectionError::ApplicationClosed(close) => Some(code(close.error_code)),
            _ => None,
        }
    }

    /// Waits until everything has left.
    pub async fn leave(self) {
        self.quic.close(VarInt::from_u32(NO_ERROR), b"");
        self.endpoint.wait_idle().await;
    }
}

pub fn code(code: VarInt) -> u32 {
    u32::try_from(code.into_inner()).unwrap()
}

/// Waits until a figure of the status page has this value. [`Node::await_figure`] would keep the
/// client's thread from sending.
pub async fn await_figure(node: &Node, name: &str, value: u64) {
    while node.status()[name] != value {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Reads frames to the end of a stream.
pub async fn frames(recv: &mut RecvStream) -> (Vec<(u64, Vec<u8>)>, Option<u32>) {
    let (mut bytes, mut reset) = (Vec::new(), None);
    loop {
        match recv.read_chunk(1 << 20, true).await {
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk.bytes),
            Ok(None) => break,
            Err(quinn::ReadError::Reset(with)) => {
                reset = Some(code(with));
                break;
            }
            Err(_) => {
                reset = Some(0);
                break;
            }
        }
    }
    let (mut found, mut rest) = (Vec::new(), &bytes[..]);
    while let Some((kind, at)) = varint::decode(rest)
        && let Some((length, behind)) = varint::decode(&rest[at..])
    {
        rest = &rest[at + behind..];
        let (payload, more) = rest.split_at(rest.len().min(length as usize));
        found.push((kind, payload.to_vec()));
        rest = more;
    }
    (found, reset)
}

/// Reads a response to its end.
pub async fn receive(mut recv: RecvStream) -> Seen {
    let read = tokio::time::timeout(Duration::from_secs(60), frames(&mut recv));
    let (frames, reset) = read.await.expect("the response does not end");
    let mut seen = Seen {
        reset,
        ..Seen::default()
    };
    for (kind, payload) in frames {
        if kind == DATA {
            seen.body.extend(payload);
            continue;
        }
        assert_eq!(kind, HEADERS);
        let mut fields = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let read = qpack::decode(&payload, 1 << 20, |name, value| {
            fields.push((text(name), text(value)));
        });
        assert_eq!(read, Ok(qpack::Section::Whole));
        match fields.first() {
            Some((name, status)) if name == ":status" => {
                let status = status.parse().unwrap();
                if status < 200 {
                    seen.interims.push(status);
                } else {
                    (seen.status, seen.fields) = (status, fields);
                }
            }
            _ => seen.trailers = fields,
        }
    }
    seen
}
