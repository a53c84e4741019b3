//! Failure: datagrams leave one by one, which takes a multiple of the processor time.

use bytes::Bytes;
use larder_http3::{DataFrame, Endpoint, Identity, Settings, Transport, bind};
use quinn::crypto::rustls::QuicClientConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../proxy/tests/data")
        .join(name)
}

fn identity() -> Identity {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let certificates = CertificateDer::pem_file_iter(data("localhost.pem")).unwrap();
    let tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            certificates.map(Result::unwrap).collect(),
            PrivateKeyDer::from_pem_file(data("localhost.key")).unwrap(),
        )
        .unwrap();
    let transport = Transport {
        streams: 10,
        stream_window: 65_536,
        connection_window: 262_144,
        silence: Duration::from_secs(60),
    };
    Identity::new(&tls, &transport).unwrap()
}

async fn connect(address: SocketAddr) -> (quinn::Endpoint, quinn::Connection) {
    let mut roots = rustls::RootCertStore::empty();
    let authority = CertificateDer::from_pem_file(data("authority.pem")).unwrap();
    roots.add(authority).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let config = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
    let endpoint = quinn::Endpoint::client(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let connecting = endpoint.connect_with(config, address, "localhost");
    let connection = connecting.unwrap().await.unwrap();
    (endpoint, connection)
}

/// The kernel takes many datagrams by one call (GSO, Linux 4.18).
#[tokio::test]
async fn datagrams_leave_one_by_one() {
    let identity = identity();
    let socket = bind(SocketAddr::from(([127, 0, 0, 1], 0)), 1)
        .unwrap()
        .remove(0);
    let address = socket.local_addr().unwrap();
    let server = Endpoint::new(socket, &identity).unwrap();
    let body = Bytes::from(vec![7; 4_000_000]);
    let serve = async {
        let handshake = server.accept().await.unwrap();
        let established = handshake.accept(&identity).await.unwrap();
        let settings = Settings {
            section_bytes: 10_000,
            unacknowledged: Duration::from_secs(60),
            streams: 10,
        };
        let mut connection = established.begin(settings).await.unwrap();
        let stream = connection.accept().await.unwrap();
        let read = stream.request(Duration::from_secs(60), |_| true).await;
        let (request, mut reply) = read.unwrap_or_else(|reason| panic!("{reason:?}"));
        assert_eq!(request.uri().path(), "/");
        let frame = DataFrame {
            first: body.clone(),
            length: body.len() as u64,
        };
        let head = http::Response::new(());
        reply.send_head(&head, Some(frame)).await.unwrap();
        reply.finish().await;
        // The client closes the connection when it has everything.
        assert!(connection.accept().await.is_err());
        connection.sent_datagrams()
    };
    let fetch = async {
        let (_endpoint, client) = connect(address).await;
        let (mut send, mut recv) = client.open_bi().await.unwrap();
        // GET, https, localhost, /: the static table has all but the host.
        let head = b"\x01\x10\x00\x00\xd1\xd7\x50\x09localhost\xc1";
        send.write_all(head).await.unwrap();
        send.finish().unwrap();
        let response = recv.read_to_end(8_000_000).await.unwrap();
        assert!(response.len() > 4_000_000);
        client.close(0x100_u32.into(), b"");
    };
    let ((datagrams, calls), ()) = tokio::join!(serve, fetch);
    assert!(
        datagrams > 1000 && calls * 3 < datagrams,
        "{datagrams} datagrams by {calls} calls"
    );
}
