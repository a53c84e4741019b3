//! Failure: a client gets the certificate of another host or an old one, a stranger is let in by
//! mutual TLS, or another subject reaches the origin.

use crate::wire::{self, Node, Origin, Seen};
use larder_proxy::{
    CertificateFiles, CertificateNeed, ClientCertificates, HttpConfig, TlsConfig, TlsVersion,
    Upstream,
};
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned};
use std::io::{self, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

fn files(folder: Option<&Path>, name: &str) -> CertificateFiles {
    let path = |name: String| folder.map_or_else(|| data(&name), |folder| folder.join(&name));
    CertificateFiles {
        certificate: path(format!("{name}.pem")),
        key: path(format!("{name}.key")),
    }
}

fn tls(certificate: CertificateFiles) -> TlsConfig {
    TlsConfig::new(
        vec![SocketAddr::from(([127, 0, 0, 1], 0)).into()],
        certificate,
    )
}

fn node(tls: TlsConfig, upstream: Upstream) -> Node {
    Node::with(&HttpConfig {
        tls: Some(tls),
        ..wire::config(upstream)
    })
}

fn address(node: &Node) -> SocketAddr {
    node.http.as_ref().unwrap().local_tls_addr().unwrap()
}

/// A client that believes both authorities, and has a certificate if `own` names one.
fn client(own: Option<&str>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for authority in ["authority.pem", "other_authority.pem"] {
        roots
            .add(CertificateDer::from_pem_file(data(authority)).unwrap())
            .unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = config.with_root_certificates(roots);
    let mut config = match own {
        Some(name) => {
            let chain = vec![CertificateDer::from_pem_file(data(&format!("{name}.pem"))).unwrap()];
            config.with_client_auth_cert(
                chain,
                PrivateKeyDer::from_pem_file(data(&format!("{name}.key"))).unwrap(),
            )
        }
        None => Ok(config.with_no_client_auth()),
    }
    .unwrap();
    config.resumption = Resumption::in_memory_sessions(8);
    Arc::new(config)
}

/// Sends a request. Returns the response, the server's certificate, and the kind of handshake.
fn get(
    address: SocketAddr,
    config: &Arc<ClientConfig>,
    host: &str,
    fields: &str,
) -> io::Result<(Seen, CertificateDer<'static>, HandshakeKind)> {
    let name = ServerName::try_from(host.to_owned()).unwrap();
    let connection = ClientConnection::new(Arc::clone(config), name).unwrap();
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut stream = BufReader::new(StreamOwned::new(connection, stream));
    write!(
        stream.get_mut(),
        "GET /10/a HTTP/1.1\r\nhost: {host}\r\n{fields}\r\n"
    )?;
    // An alert comes with the first read.
    io::BufRead::fill_buf(&mut stream)?;
    let seen = wire::read_response(&mut stream, false);
    let connection = &stream.get_ref().conn;
    let shown = connection.peer_certificates().unwrap()[0]
        .clone()
        .into_owned();
    Ok((seen, shown, connection.handshake_kind().unwrap()))
}

fn certificate(name: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(data(&format!("{name}.pem"))).unwrap()
}

#[test]
fn the_certificate_of_another_host_is_shown() {
    let tls = TlsConfig {
        certificates: vec![files(None, "hosts")],
        ..tls(files(None, "localhost"))
    };
    let node = node(tls, Upstream::Generated);
    for (host, name) in [
        ("localhost", "localhost"),
        ("a.test", "hosts"),
        ("x.b.test", "hosts"),
        ("X.B.Test", "hosts"),
    ] {
        let (seen, shown, _) = get(address(&node), &client(None), host, "").unwrap();
        assert_eq!((seen.status, shown), (200, certificate(name)), "{host}");
    }
    // These get the first, which is not for them.
    for host in ["b.test", "y.x.b.test", "c.test"] {
        get(address(&node), &client(None), host, "").expect_err(host);
    }
}

#[test]
fn a_session_is_not_resumed() {
    let node = node(tls(files(None, "localhost")), Upstream::Generated);
    let client = client(None);
    let kinds: Vec<_> = (0..6)
        .map(|_| get(address(&node), &client, "localhost", "").unwrap().2)
        .collect();
    // Whichever thread serves it.
    assert_eq!(kinds[0], HandshakeKind::Full);
    assert!(
        kinds[1..]
            .iter()
            .all(|kind| *kind == HandshakeKind::Resumed),
        "{kinds:?}"
    );
}

/// Failure: a renewed certificate needs a restart, or half of a change breaks the listener.
#[test]
fn a_changed_certificate_is_not_shown_or_a_broken_one_is() {
    let folder = tempfile::tempdir().unwrap();
    let put = |from: &str, ending: &str| {
        std::fs::copy(
            data(&format!("{from}.{ending}")),
            folder.path().join(format!("own.{ending}")),
        )
        .unwrap();
    };
    let both = |from: &str| {
        for ending in ["pem", "key"] {
            put(from, ending);
        }
    };
    both("localhost");
    let node = node(tls(files(Some(folder.path()), "own")), Upstream::Generated);
    let shown =
        |host: &str| get(address(&node), &client(None), host, "").map(|(_, shown, _)| shown);
    assert_eq!(shown("localhost").unwrap(), certificate("localhost"));
    let old = client(None);
    get(address(&node), &old, "localhost", "").unwrap();
    // A certificate without its key, long enough to be seen.
    put("hosts", "pem");
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(shown("localhost").unwrap(), certificate("localhost"));
    // Sessions outlive a change.
    assert_eq!(
        get(address(&node), &old, "localhost", "").unwrap().2,
        HandshakeKind::Resumed
    );
    put("hosts", "key");
    let start = Instant::now();
    while shown("a.test").ok() != Some(certificate("hosts")) {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "the new certificate is not shown"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    std::fs::write(folder.path().join("own.pem"), "broken").unwrap();
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(shown("a.test").unwrap(), certificate("hosts"));
}

fn mutual(are_required: bool) -> TlsConfig {
    let clients = ClientCertificates {
        authorities: Some(data("other_authority.pem")),
        need: (!are_required).then_some(CertificateNeed::Optional),
        subject_field: Some("x-client-subject".parse().unwrap()),
    };
    TlsConfig {
        clients,
        ..tls(files(None, "localhost"))
    }
}

#[test]
fn a_stranger_is_let_in_or_another_subject_reaches_the_origin() {
    let origin = Origin::new(|asked, stream| {
        let subject = asked
            .head
            .iter()
            .find(|(name, _)| name.replace('_', "-") == "x-client-subject");
        let subject = subject.map_or("nobody", |(_, value)| value.as_str());
        let head = format!(
            "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: {}",
            subject.len()
        );
        wire::say(stream, &format!("{head}\r\n\r\n{subject}"))
    });
    let upstream = || Upstream::Http(format!("http://{}", origin.address).parse().unwrap());
    let required = node(mutual(true), upstream());
    const FORGED: &str = "X-Client-Subject: CN=root\r\n";
    for own in [None, Some("hosts"), Some("self_signed")] {
        get(address(&required), &client(own), "localhost", "").expect_err("a stranger");
    }
    required.await_figure("no_tls", 3);
    let alice = client(Some("alice"));
    for fields in ["", FORGED] {
        // Also where the session is resumed.
        let (seen, ..) = get(address(&required), &alice, "localhost", fields).unwrap();
        assert_eq!(seen.text(), "CN=alice,O=Example\\, Inc.");
    }
    // Without TLS, nobody has a certificate.
    let plain = wire::Client::new(&required).send(
        "GET",
        "/10/a",
        &[
            ("x-client-subject", "CN=root"),
            ("x_client_subject", "CN=root"),
        ],
        b"",
    );
    assert_eq!(plain.text(), "nobody");
    let optional = node(mutual(false), upstream());
    for (own, fields, subject) in [
        (None, "", "nobody"),
        (Some("alice"), "", "CN=alice,O=Example\\, Inc."),
        (None, "", "nobody"),
        (None, FORGED, "nobody"),
    ] {
        let (seen, ..) = get(address(&optional), &client(own), "localhost", fields).unwrap();
        assert_eq!(seen.text(), subject, "{own:?}");
    }
    get(
        address(&optional),
        &client(Some("self_signed")),
        "localhost",
        "",
    )
    .expect_err("a stranger");
}

/// Failure: another name of the field needs a restart, a connection goes on without it, or clients
/// may set it.
#[test]
fn the_name_of_the_field_is_that_of_the_start() {
    let origin = Origin::new(|asked, stream| {
        let names = asked.head.iter().map(|(name, _)| name.as_str());
        let names: Vec<_> = names.filter(|name| name.ends_with("-subject")).collect();
        let body = names.join(" ");
        wire::say(
            stream,
            &format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            ),
        )
    });
    let upstream = || Upstream::Http(format!("http://{}", origin.address).parse().unwrap());
    let named = |name: Option<&str>| {
        let mut tls = mutual(true);
        tls.clients.subject_field = name.map(|name| name.parse().unwrap());
        tls
    };
    let node = node(named(None), upstream());
    let (alice, http) = (client(Some("alice")), node.http.as_ref().unwrap());
    let seen = |fields: &str| {
        get(address(&node), &alice, "localhost", fields)
            .unwrap()
            .0
            .text()
    };
    assert_eq!(
        seen("X-Client-Subject: CN=root\r\n"),
        "x-client-subject",
        "a field like any other"
    );
    for name in ["x-client-subject", "x-other-subject"] {
        // A connection that began before has no subject, or one for the other field.
        let name_of_server = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(Arc::clone(&alice), name_of_server).unwrap();
        let mut open = BufReader::new(StreamOwned::new(
            connection,
            TcpStream::connect(address(&node)).unwrap(),
        ));
        write!(
            open.get_mut(),
            "GET /10/b HTTP/1.1\r\nhost: localhost\r\n\r\n"
        )
        .unwrap();
        assert_eq!(wire::read_response(&mut open, false).status, 200);
        let tls = Some(named(Some(name)));
        http.take_over(
            http.reload(&HttpConfig {
                tls,
                ..wire::config(upstream())
            })
            .unwrap(),
        )
        .unwrap();
        assert_eq!(seen(&format!("{name}: CN=root\r\n")), name);
        write!(
            open.get_mut(),
            "GET /10/b HTTP/1.1\r\nhost: localhost\r\n\r\n"
        )
        .unwrap();
        assert_eq!(
            wire::read_response(&mut open, false).header("connection"),
            "close"
        );
    }
    assert_eq!(
        seen("X-Client-Subject: CN=root\r\n"),
        "x-client-subject x-other-subject"
    );
}

#[test]
fn an_old_version_is_served() {
    let node = node(
        TlsConfig {
            min_version: TlsVersion::Tls13,
            ..tls(files(None, "localhost"))
        },
        Upstream::Generated,
    );
    let connect = |version: &str| {
        let mut command = std::process::Command::new("openssl");
        let address = address(&node).to_string();
        command
            .args(["s_client", "-connect", &address, version])
            .stdin(std::process::Stdio::null());
        command.output().expect("openssl is there").status.success()
    };
    assert!(connect("-tls1_3"));
    assert!(!connect("-tls1_2"));
}
