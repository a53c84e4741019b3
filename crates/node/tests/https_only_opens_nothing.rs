//! Failure: a configuration with HTTPS alone (`[http] listen = ""`) opens no listener, or one for
//! HTTP.

use larder_node::{Config, Node};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../proxy/tests/data")
        .join(name)
}

#[test]
fn https_only_opens_nothing() {
    let text = format!(
        "[ndn]\nenabled = false\n[admin]\nlisten = \"\"\n[http]\nlisten = \"\"\n\
         [http.tls]\nlisten = \"127.0.0.1:0\"\ncertificate = {:?}\nkey = {:?}\n",
        data("localhost.pem"),
        data("localhost.key")
    );
    let config = Config::parse(&text, "test").unwrap_or_else(|error| panic!("{error}"));
    let node = Node::start(&config).unwrap();
    let greeting = node.greeting();
    assert!(!greeting.contains("http://"), "{greeting}");
    let (_, address) = greeting.split_once("https://").expect("an address");
    let stream = TcpStream::connect(address.split('/').next().unwrap()).unwrap();
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(data("authority.pem")).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let client = client.with_root_certificates(roots).with_no_client_auth();
    let connection =
        ClientConnection::new(Arc::new(client), "localhost".try_into().unwrap()).unwrap();
    let mut stream = StreamOwned::new(connection, stream);
    stream
        .write_all(b"GET /10000/a HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .unwrap();
    let mut response = Vec::new();
    // The server may close without a close_notify.
    let _ = stream.read_to_end(&mut response);
    assert!(
        response.starts_with(b"HTTP/1.1 200 OK\r\n"),
        "{}",
        String::from_utf8_lossy(&response)
    );
    node.stop();
}
