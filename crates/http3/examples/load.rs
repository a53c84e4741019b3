//! Asks for one URL as fast as it is answered, with quinn's client: `load CONNECTIONS STREAMS
//! SECONDS https://HOST:PORT/PATH`. Prints the number of responses, and of the bytes of their
//! bodies. Certificates are not checked.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "its result")]

use quinn::crypto::rustls::QuicClientConfig;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};
use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Every certificate is the right one.
#[derive(Debug)]
struct Anyone;

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("HTTP/3 has TLS 1.3".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::ring::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}

struct Asked {
    connections: usize,
    streams: usize,
    time: Duration,
    host: String,
    address: SocketAddr,
    path: String,
}

fn arguments() -> Option<Asked> {
    let mut arguments = std::env::args().skip(1);
    let connections = arguments.next()?.parse().ok()?;
    let streams = arguments.next()?.parse().ok()?;
    let time = Duration::from_secs(arguments.next()?.parse().ok()?);
    let url = arguments.next()?;
    let (authority, path) = url.strip_prefix("https://")?.split_once('/')?;
    let host = authority.rsplit_once(':')?.0.to_owned();
    let mut addresses = authority.to_socket_addrs().ok()?;
    let address = addresses.find(SocketAddr::is_ipv4)?;
    let path = format!("/{path}");
    (host.len() < 127 && path.len() < 127).then_some(Asked {
        connections,
        streams,
        time,
        host,
        address,
        path,
    })
}

/// The frame of the head: GET and https are in the static table, authority and path have literals.
fn head(asked: &Asked) -> Vec<u8> {
    let mut section = vec![0, 0, 0xd1, 0xd7];
    for (name, value) in [(0x50, &asked.host), (0x51, &asked.path)] {
        section.extend([name, value.len() as u8]);
        section.extend_from_slice(value.as_bytes());
    }
    let mut frame = vec![1, 0x40 | (section.len() >> 8) as u8, section.len() as u8];
    frame.append(&mut section);
    frame
}

/// The length of a body: the frame of the head is skipped, the others are data.
fn body_of(mut response: &[u8]) -> Option<usize> {
    let mut body = 0;
    while !response.is_empty() {
        let kind = varint(&mut response)?;
        let length = varint(&mut response)?;
        if kind == 0 {
            body += length;
        }
        response = response.get(length..)?;
    }
    Some(body)
}

fn varint(bytes: &mut &[u8]) -> Option<usize> {
    let (&first, _) = bytes.split_first()?;
    let (value, rest) = bytes.split_at_checked(1 << (first >> 6))?;
    *bytes = rest;
    let value = value[1..]
        .iter()
        .fold(usize::from(first & 0x3f), |sum, &byte| {
            sum << 8 | usize::from(byte)
        });
    Some(value)
}

/// Asks over one stream after the other; returns the responses and the bytes of their bodies.
async fn ask(connection: quinn::Connection, head: Arc<Vec<u8>>, end: Instant) -> (usize, usize) {
    let (mut responses, mut bodies) = (0, 0);
    while Instant::now() < end {
        let (mut send, mut receive) = connection.open_bi().await.expect("a stream");
        send.write_all(&head).await.expect("a request");
        send.finish().expect("a request");
        let response = receive.read_to_end(1 << 30).await.expect("a response");
        bodies += body_of(&response).expect("frames");
        responses += 1;
    }
    (responses, bodies)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Some(asked) = arguments() else {
        eprintln!("load CONNECTIONS STREAMS SECONDS https://HOST:PORT/PATH");
        return ExitCode::from(2);
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anyone))
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let quic = QuicClientConfig::try_from(tls).expect("TLS 1.3");
    let config = quinn::ClientConfig::new(Arc::new(quic));
    let head = Arc::new(head(&asked));
    let end = Instant::now() + asked.time;
    let (mut tasks, mut open) = (Vec::new(), Vec::new());
    for _ in 0..asked.connections {
        let own = SocketAddr::from(([127, 0, 0, 1], 0));
        let endpoint = quinn::Endpoint::client(own).expect("a socket");
        let connecting = endpoint.connect_with(config.clone(), asked.address, &asked.host);
        let connection = connecting.expect("an address").await.expect("a connection");
        // The control stream, with empty SETTINGS.
        let mut control = connection.open_uni().await.expect("a stream");
        control.write_all(&[0, 4, 0]).await.expect("SETTINGS");
        for _ in 0..asked.streams {
            tasks.push(tokio::spawn(ask(
                connection.clone(),
                Arc::clone(&head),
                end,
            )));
        }
        open.push((endpoint, connection, control));
    }
    let (mut responses, mut bodies) = (0, 0);
    for task in tasks {
        let (more, bytes) = task.await.expect("a client");
        responses += more;
        bodies += bytes;
    }
    for (_, connection, _) in &open {
        connection.close(0x100_u32.into(), b"");
    }
    println!("{responses} {bodies}");
    ExitCode::SUCCESS
}
