//! Failure: an authority cannot check a host, a client gets an answer that is for the authority, or
//! an authority that fails stops the site.

use crate::wire::{self, Client, Node, Origin};
use larder_proxy::{
    AcmeConfig, CertificateFiles, CertificateHost, HttpConfig, TlsConfig, Upstream,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

/// A node whose authority refuses connections.
fn config(folder: &Path, hosts: &[&str]) -> HttpConfig {
    let host = |text: &&str| CertificateHost::parse(text).unwrap();
    let acme = AcmeConfig {
        folder: folder.to_owned(),
        directory: format!("https://{}/directory", wire::dead()),
        directory_ca: Some(data("authority.pem")),
        ..AcmeConfig::new(hosts.iter().map(host).collect())
    };
    let listen = vec![SocketAddr::from(([127, 0, 0, 1], 0)).into()];
    let files = CertificateFiles {
        certificate: data("hosts.pem"),
        key: data("hosts.key"),
    };
    let tls = TlsConfig {
        certificate: None,
        acme: Some(acme),
        ..TlsConfig::new(listen, files)
    };
    HttpConfig {
        tls: Some(tls),
        redirect_to_https: true,
        ..wire::config(Upstream::Generated)
    }
}

/// Believes every certificate, and offers these protocols.
fn client(provider: &Arc<CryptoProvider>, protocols: &[&[u8]]) -> ClientConfig {
    let config = ClientConfig::builder_with_provider(Arc::clone(provider));
    let mut config = config
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anything(Arc::clone(provider))))
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    config
}

/// Returns the certificate that a client of this host gets, and the protocol.
fn shown(
    node: &Node,
    host: &str,
    protocols: &[&[u8]],
) -> io::Result<(CertificateDer<'static>, Option<Vec<u8>>)> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = Arc::new(client(&provider, protocols));
    let name = ServerName::try_from(host.to_owned()).unwrap();
    let mut connection = ClientConnection::new(config, name).unwrap();
    let address = node.http.as_ref().unwrap().local_tls_addr().unwrap();
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    while connection.is_handshaking() {
        connection.complete_io(&mut stream)?;
    }
    let shown = connection.peer_certificates().unwrap()[0].clone();
    let protocol = connection.alpn_protocol().map(<[u8]>::to_vec);
    Ok((shown.into_owned(), protocol))
}

#[test]
fn an_authority_that_fails_stops_the_site() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::with(&config(folder.path(), &["a.test", "b.test"]));
    let (of_a, protocol) = shown(&node, "a.test", &[b"h2"]).unwrap();
    assert_eq!(protocol.as_deref(), Some(&b"h2"[..]));
    let (of_b, _) = shown(&node, "b.test", &[]).unwrap();
    assert_ne!(of_a, of_b, "one certificate for each host");
    assert_eq!(shown(&node, "A.Test", &[]).unwrap().0, of_a);
    assert_eq!(shown(&node, "unknown.test", &[]).unwrap().0, of_a);
    assert_eq!(Client::new(&node).get("/10/a").status, 308);
    // The failure is reported, and what is there stays.
    let mut last = serde_json::Value::Null;
    for _ in 0..1000 {
        last = node.status()["certificates"].clone();
        if last[0]["failures"] == 1 {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(last[0]["is_issued"], false, "{last}");
    let error = last[0]["last_error"].as_str().unwrap();
    assert!(error.contains("cannot reach 127.0.0.1:"), "{error}");
    assert_eq!(shown(&node, "a.test", &[]).unwrap().0, of_a);
}

#[test]
fn an_open_challenge_is_redirected_denied_or_kept_from_the_origin() {
    let folder = tempfile::tempdir().unwrap();
    let rules = "[[rules]]\ndeny = \"all\"";
    let node = Node::with(&HttpConfig {
        rules: rules_of(rules),
        ..config(folder.path(), &["a.test"])
    });
    // As another node that shares the folder has written it.
    let put = |name: &str, text: &str| {
        std::fs::write(folder.path().join("challenges").join(name), text).unwrap();
    };
    put("open_token", "open_token.thumb");
    let mut client = Client::new(&node);
    let target = "/.well-known/acme-challenge/open_token";
    let answer = wait_for(|| Some(client.get(target)).filter(|seen| seen.status == 200));
    assert_eq!(answer.text(), "open_token.thumb");
    assert_eq!(answer.header("cache-control"), "no-store");
    // Others pass the redirect, and have the rules of every request.
    for path in [
        "/.well-known/acme-challenge/other",
        "/.well-known/acme-challenge/../a.test.lock",
        "/.well-known/acme-challenge/",
    ] {
        let status = client.get(path).status;
        assert!(matches!(status, 403 | 308), "{path}: {status}");
    }
    assert_eq!(client.get("/").status, 308);
    std::fs::remove_file(folder.path().join("challenges/open_token")).unwrap();
    wait_for(|| (client.get(target).status == 403).then_some(()));
}

#[test]
fn a_stored_response_of_the_origin_answers_the_authority() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::new(|_, stream| {
        // A page for every path.
        let head = "HTTP/1.1 200 OK\r\ncache-control: max-age=3600\r\n";
        wire::say(stream, &format!("{head}content-length: 4\r\n\r\npage"))
    });
    let of_origin = Upstream::Http(format!("http://{}", origin.address).parse().unwrap());
    let node = Node::with(&HttpConfig {
        redirect_to_https: false,
        upstream: of_origin,
        ..config(folder.path(), &["a.test"])
    });
    let mut client = Client::new(&node);
    let target = "/.well-known/acme-challenge/open_token";
    assert_eq!(client.get(target).text(), "page");
    assert!(client.get(target).is_hit(), "it is stored");
    std::fs::write(folder.path().join("challenges/open_token"), "answer").unwrap();
    wait_for(|| (client.get(target).text() == "answer").then_some(()));
}

#[test]
fn a_client_gets_the_answer_of_a_challenge_or_the_authority_none() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::with(&config(folder.path(), &["a.test", "b.test"]));
    let usual = shown(&node, "a.test", &[]).unwrap().0;
    let alone: &[&[u8]] = &[b"acme-tls/1"];
    shown(&node, "a.test", alone).expect_err("no challenge is open");
    // base64url of 32 bytes.
    let digest = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE";
    std::fs::write(folder.path().join("challenges/a.test.alpn"), digest).unwrap();
    let (answer, protocol) = wait_for(|| shown(&node, "a.test", alone).ok());
    assert_eq!(protocol.as_deref(), Some(alone[0]));
    assert_ne!(answer, usual);
    // id-pe-acmeIdentifier (RFC 8737 §3), critical, with the digest.
    let mut extension = vec![0x2b, 6, 1, 5, 5, 7, 1, 31, 1, 1, 0xff, 4, 34, 4, 32];
    extension.extend([1; 32]);
    let has_it = answer.windows(extension.len()).any(|at| at == extension);
    assert!(has_it, "{answer:?}");
    shown(&node, "b.test", alone).expect_err("no challenge of this host is open");
    let (certificate, protocol) = shown(&node, "a.test", &[b"acme-tls/1", b"http/1.1"]).unwrap();
    assert_eq!(certificate, usual, "a client is no authority");
    assert_eq!(protocol.as_deref(), Some(&b"http/1.1"[..]));
}

#[test]
fn a_file_of_the_host_gives_way_to_a_self_signed_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path(), &["a.test", "c.test"]);
    let files = CertificateFiles {
        certificate: data("hosts.pem"),
        key: data("hosts.key"),
    };
    config.tls.as_mut().unwrap().certificates = vec![files];
    let node = Node::with(&config);
    let file = CertificateDer::from_pem_file(data("hosts.pem")).unwrap();
    assert_eq!(shown(&node, "a.test", &[]).unwrap().0, file);
    assert_ne!(shown(&node, "c.test", &[]).unwrap().0, file);
    drop(node);
    let mode = std::fs::metadata(folder.path().join("challenges")).unwrap();
    assert_eq!(mode.permissions().mode() & 0o777, 0o700);
}

/// Waits until there is one.
fn wait_for<T>(mut found: impl FnMut() -> Option<T>) -> T {
    for _ in 0..2000 {
        if let Some(found) = found() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("it does not come");
}

fn rules_of(text: &str) -> Vec<larder_proxy::rules::Rule> {
    #[derive(serde::Deserialize)]
    struct Table {
        rules: Vec<larder_proxy::rules::Rule>,
    }
    toml::from_str::<Table>(text).unwrap().rules
}

#[derive(Debug)]
struct Anything(Arc<CryptoProvider>);

impl ServerCertVerifier for Anything {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    // The signatures are not checked either: webpki does not read a challenge's certificate.
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
