//! Failure: an origin's HTTPS that anybody can answer, a trust that a reload does not renew, an
//! origin that is believed for another's name.

use crate::wire::{self, Client, Node};
use larder_proxy::{CertificateFiles, Http, HttpConfig, TlsConfig, Upstream};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

/// A node that makes its objects, with HTTPS for `localhost` by our own authority.
fn origin() -> Node {
    origin_with("localhost.pem", "localhost.key")
}

fn origin_with(certificate: &str, key: &str) -> Node {
    let listen = vec![std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()];
    let tls = TlsConfig::new(
        listen,
        CertificateFiles {
            certificate: data(certificate),
            key: data(key),
        },
    );
    Node::with(&HttpConfig {
        tls: Some(tls),
        ..wire::config(Upstream::Generated)
    })
}

fn edge(of: &Node, host: &str, ca: Option<&str>) -> HttpConfig {
    let port = of.http.as_ref().unwrap().local_tls_addr().unwrap().port();
    let upstream = Upstream::Http(format!("https://{host}:{port}").parse().unwrap());
    HttpConfig {
        origin_ca: ca.map(data),
        ..wire::config(upstream)
    }
}

#[test]
fn an_origin_by_https_is_asked_over_connections_that_stay() {
    let origin = origin();
    let node = Node::with(&edge(&origin, "localhost", Some("authority.pem")));
    let mut client = Client::new(&node);
    for size in [1, 10_000, 3_000_000] {
        let first = client.get(&format!("/{size}/a"));
        assert_eq!(
            (first.status, first.body.len(), first.cut),
            (200, size, false)
        );
        let again = client.get(&format!("/{size}/a"));
        // The origin's own word stands before it.
        assert!(
            again.header("cache-status").contains(", larder; hit"),
            "{}",
            again.header("cache-status")
        );
        assert_eq!(again.body, first.body);
    }
    assert_eq!(origin.status()["requests"], 3);
}

#[test]
fn a_certificate_of_nobody_or_for_another_name_is_a_502_and_a_reload_brings_trust() {
    let origin = origin();
    // Its certificate names localhost and no address.
    let node = Node::with(&edge(&origin, "127.0.0.2", Some("authority.pem")));
    assert_eq!(Client::new(&node).get("/10/a").status, 502);
    let node = Node::with(&edge(&origin, "localhost", Some("self_signed.pem")));
    let mut client = Client::new(&node);
    assert_eq!(client.get("/10/a").status, 502);
    assert_eq!(
        origin.status()["requests"],
        0,
        "nothing was said to whom nobody believes"
    );
    let http = node.http.as_ref().unwrap();
    http.take_over(
        http.reload(&edge(&origin, "localhost", Some("authority.pem")))
            .unwrap(),
    )
    .unwrap();
    assert_eq!(client.get("/10/a").status, 200);
}

#[test]
fn a_file_of_certificates_that_cannot_be_read_is_one_line_with_the_file() {
    let origin = origin();
    for file in ["missing.pem", "README.md"] {
        let said = Http::start(&edge(&origin, "localhost", Some(file)), || ())
            .err()
            .expect("a refusal")
            .to_string();
        assert!(
            said.starts_with("[http] origin_ca") && said.contains(file) && !said.contains('\n'),
            "{said}"
        );
    }
}

/// Failure: a certificate that its operator has named is refused, or one is believed that is not
/// in the file, is for another name, or has expired.
#[test]
fn a_self_signed_certificate_in_the_file_is_refused() {
    let signs_itself = origin_with("self_signed.pem", "self_signed.key");
    let expired = origin_with("expired.pem", "self_signed.key");
    let of_authority = origin();
    for (origin, host, file, status) in [
        (&signs_itself, "localhost", "self_signed.pem", 200),
        (&signs_itself, "127.0.0.2", "self_signed.pem", 502),
        (&signs_itself, "localhost", "authority.pem", 502),
        (&expired, "localhost", "expired.pem", 502),
        (&expired, "localhost", "self_signed.pem", 502),
        // Of an authority, but itself in the file.
        (&of_authority, "localhost", "localhost.pem", 200),
        (&of_authority, "127.0.0.2", "localhost.pem", 502),
    ] {
        let node = Node::with(&edge(origin, host, Some(file)));
        assert_eq!(
            Client::new(&node).get("/10/a").status,
            status,
            "{host} {file}"
        );
    }
}

/// Failure: a body that ends with its connection is stored although somebody else ended it, and
/// not the origin with its close_notify (RFC 9112, section 9.8).
#[test]
fn a_truncation_attack_is_taken_for_the_end_of_a_body() {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};

    let chain = vec![CertificateDer::from_pem_file(data("self_signed.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(data("self_signed.key")).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(
        rustls::crypto::ring::default_provider(),
    ))
    .with_safe_default_protocol_versions()
    .unwrap()
    .with_no_client_auth()
    .with_single_cert(chain, key)
    .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = rustls::StreamOwned::new(connection, stream.unwrap());
            let mut line = String::new();
            for read in BufReader::new(&mut stream).lines() {
                match read {
                    Ok(field) if !field.is_empty() => line += &field,
                    _ => break,
                }
            }
            let head =
                "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\nconnection: close\r\n\r\nhello";
            if stream.write_all(head.as_bytes()).is_ok() && line.contains("/whole") {
                stream.conn.send_close_notify();
            }
            let _ = stream.flush();
        }
    });
    let upstream = Upstream::Http(format!("https://localhost:{port}").parse().unwrap());
    let config = HttpConfig {
        origin_ca: Some(data("self_signed.pem")),
        ..wire::config(upstream)
    };
    let node = Node::with(&config);
    for (target, is_cut, is_hit) in [
        ("/cut", true, false),
        ("/cut", true, false),
        ("/whole", false, false),
        ("/whole", false, true),
    ] {
        let seen = Client::new(&node).get(target);
        assert_eq!(
            (&seen.body[..], seen.cut, seen.is_hit()),
            (&b"hello"[..], is_cut, is_hit),
            "{target}"
        );
    }
}
