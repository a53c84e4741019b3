//! Failure: an exchange has no line in the access log, several, or one that says something else
//! than what happened.

use crate::wire::{self, Client, Node, Origin, say, say_last};
use http_body_util::Empty;
use hyper_util::rt::{TokioExecutor, TokioIo};
use larder_proxy::access_log::{Escape, LogTarget, Template};
use larder_proxy::{
    AccessLogConfig, Admin, CertificateFiles, HttpConfig, OriginGroup, PoolServer, RequestIdSource,
    TlsConfig, Upstream,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A node whose log has this format. One thread keeps the lines in order.
struct Logged {
    folder: tempfile::TempDir,
    node: Node,
}

impl Logged {
    fn new(format: &str, config: HttpConfig) -> Logged {
        Logged::sampled(format, 1.0, config)
    }

    fn sampled(format: &str, sample: f64, config: HttpConfig) -> Logged {
        let folder = tempfile::tempdir().unwrap();
        let target = LogTarget::File(folder.path().join("log"));
        let template = Template::parse(format, Escape::Default).unwrap();
        let log = AccessLogConfig {
            target,
            template,
            sample,
            rotation: None,
        };
        Logged {
            folder,
            node: Node::with(&HttpConfig {
                access_log: Some(log),
                threads: 1,
                ..config
            }),
        }
    }

    /// Stops the node and returns the lines in order.
    fn lines(self) -> Vec<String> {
        drop(self.node);
        let text = std::fs::read_to_string(self.folder.path().join("log")).unwrap();
        assert!(text.is_empty() || text.ends_with('\n'), "{text}");
        text.lines().map(str::to_owned).collect()
    }

    /// Waits for a line with this text: a record may be written after its client has gone.
    fn await_line(&self, part: &str) -> String {
        for _ in 0..1000 {
            let text = std::fs::read_to_string(self.folder.path().join("log")).unwrap();
            if let Some(line) = text.lines().find(|line| line.contains(part)) {
                return line.to_owned();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("no line has {part:?}");
    }
}

fn of(origin: SocketAddr) -> HttpConfig {
    wire::config(Upstream::Http(format!("http://{origin}").parse().unwrap()))
}

const FORMAT: &str = "$request_method $host $request_uri $status $body_bytes_sent $cache_status $request_completion \
                      $server_protocol $http_user_agent $sent_http_content_length";

/// Plain hits are answered before hyper, and what comes in pieces is not.
#[test]
fn a_line_is_missing_or_says_something_else() {
    let mut all = Vec::new();
    for is_plain in [true, false] {
        let logged = Logged::new(FORMAT, wire::config(Upstream::Generated));
        Client::new(&logged.node).get("/1000/a");
        let mut stream = TcpStream::connect(logged.node.address).unwrap();
        stream.set_nodelay(true).unwrap();
        for (fields, status) in [
            ("", 200),
            ("User-Agent: me \"x\"\r\n", 200),
            ("Range: bytes=0-9\r\n", 206),
            ("If-None-Match: *\r\n", 304),
        ] {
            let request = format!("GET /1000/a HTTP/1.1\r\nHost: example.test\r\n{fields}\r\n");
            let (first, rest) = request.split_at(if is_plain { 0 } else { 20 });
            stream.write_all(first.as_bytes()).unwrap();
            std::thread::sleep(Duration::from_millis(if is_plain { 0 } else { 20 }));
            stream.write_all(rest.as_bytes()).unwrap();
            let mut reader = std::io::BufReader::new(&mut stream);
            assert_eq!(wire::read_response(&mut reader, false).status, status);
        }
        drop(stream);
        let lines = logged.lines();
        assert_eq!(lines.len(), 5, "{lines:#?}");
        assert!(
            lines[0].ends_with("200 1000 miss OK HTTP/1.1 - 1000"),
            "{lines:?}"
        );
        all.push(lines);
    }
    assert_eq!(all[0], all[1]);
    assert_eq!(
        all[0][1],
        "GET example.test /1000/a 200 1000 hit OK HTTP/1.1 - 1000"
    );
    assert_eq!(
        all[0][2],
        "GET example.test /1000/a 200 1000 hit OK HTTP/1.1 me \\x22x\\x22 1000"
    );
    assert!(
        all[0][3].starts_with("GET example.test /1000/a 206 10 hit OK"),
        "{}",
        all[0][3]
    );
    assert!(
        all[0][4].starts_with("GET example.test /1000/a 304 0 hit OK"),
        "{}",
        all[0][4]
    );
}

#[test]
fn other_methods_errors_and_what_is_no_http_have_no_line() {
    let logged = Logged::new(
        FORMAT,
        of(TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()),
    );
    let mut client = Client::new(&logged.node);
    assert_eq!(client.get("/down").status, 502);
    assert_eq!(client.send("HEAD", "/down", &[], b"").status, 502);
    assert_eq!(client.send("POST", "/down", &[], b"abc").status, 502);
    wire::raw(logged.node.address, b"GET /old HTTP/1.0\r\n\r\n");
    wire::raw(
        logged.node.address,
        b"GET /two HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    );
    wire::raw(logged.node.address, b"\x16\x03\x01 this is TLS\r\n\r\n");
    let lines = logged.lines();
    let starts = [
        "GET example.test /down 502 ",
        "HEAD example.test /down 502 0 ",
        "POST example.test /down 502 ",
        // The breaker is open by now. Without Host, the request is for the origin's.
        "GET 127.0.0.1:",
        "GET a /two 400 ",
        "- - - 400 0 none OK HTTP/1.1 - -",
    ];
    assert_eq!(lines.len(), starts.len(), "{lines:#?}");
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(start), "{line}: {start}");
    }
}

/// nginx's 499, and a body that only a part of was sent.
#[test]
fn a_client_that_leaves_has_no_line_or_a_whole_response() {
    let logged = Logged::new(FORMAT, wire::config(Upstream::Generated));
    let mut stream = TcpStream::connect(logged.node.address).unwrap();
    stream
        .write_all(b"GET /10/slow?delay=60s&no-store HTTP/1.1\r\nHost: a\r\n\r\n")
        .unwrap();
    std::thread::sleep(Duration::from_millis(50));
    drop(stream);
    let line = logged.await_line("/10/slow");
    assert!(line.contains(" 499 0 none - HTTP/1.1"), "{line}");

    // Stored, then left in the middle: before hyper, and behind it.
    let size = 8_000_000;
    let target = format!("/{size}/large");
    assert_eq!(Client::new(&logged.node).get(&target).body.len(), size);
    for (agent, fields) in [("plain", ""), ("hyper", "Connection: close\r\n")] {
        let request = format!(
            "GET {target} HTTP/1.1\r\nHost: example.test\r\nUser-Agent: {agent}\r\n{fields}\r\n"
        );
        let mut stream = TcpStream::connect(logged.node.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream.read_exact(&mut [0; 100_000]).unwrap();
        drop(stream);
        let line = logged.await_line(agent);
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(
            (words[3], words[5], words[6]),
            ("200", "hit", "-"),
            "{line}"
        );
        let sent: usize = words[4].parse().unwrap();
        assert!(sent >= 90_000 && sent < size, "{line}");
    }
}

#[test]
fn a_body_that_broke_off_counts_as_complete() {
    let origin = Origin::new(|_, stream| {
        say_last(
            stream,
            "HTTP/1.1 200 OK\r\ncontent-length: 100\r\ncache-control: no-store\r\n\r\nhalf",
        )
    });
    let logged = Logged::new(FORMAT, of(origin.address));
    assert!(Client::new(&logged.node).get("/half").cut);
    let lines = logged.lines();
    assert!(
        lines[0].contains(" /half 200 4 ") && lines[0].contains(" - HTTP/1.1"),
        "{lines:?}"
    );
}

#[test]
fn servers_that_were_asked_are_not_named() {
    let origin = Origin::new(|_, stream| {
        say(
            stream,
            "HTTP/1.1 200 OK\r\ncontent-length: 4\r\ncache-control: max-age=9\r\n\r\nbody",
        )
    });
    let dead = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let servers = [origin.address, dead].map(|server| format!("http://{server}").parse().unwrap());
    let servers = servers
        .map(|server: http::Uri| PoolServer::from(server))
        .to_vec();
    let group = OriginGroup {
        path: "/".to_owned(),
        servers,
        ..OriginGroup::default()
    };
    let config = HttpConfig {
        origins: vec![group],
        ..wire::config(Upstream::Generated)
    };
    let format = "$request_uri|$upstream_addr|$upstream_status|$upstream_header_time|$upstream_response_time";
    let logged = Logged::new(format, config);
    let mut client = Client::new(&logged.node);
    let requests = 16;
    for number in 0..requests {
        assert_eq!(client.get(&format!("/{number}")).status, 200);
    }
    client.get("/0");
    let lines = logged.lines();
    let both = format!("|{dead}, {}|-, 200|", origin.address);
    let one = format!("|{}|200|", origin.address);
    assert!(
        lines[..requests]
            .iter()
            .all(|line| line.contains(&both) || line.contains(&one)),
        "{lines:#?}"
    );
    assert!(lines.iter().any(|line| line.contains(&both)), "{lines:#?}");
    let times = lines[0].rsplit('|').next().unwrap();
    assert!(
        times
            .split(", ")
            .all(|time| time.parse::<f64>().is_ok_and(|time| time >= 0.0)),
        "{times}"
    );
    assert_eq!(lines[requests], "/0|-|-|-|-", "a hit asks nobody");
}

#[test]
fn the_log_and_the_origin_know_a_request_by_different_ids() {
    let origin = Origin::new(|asked, stream| {
        let id = asked.header("x-request-id").unwrap_or("none");
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\ncache-control: max-age=9\r\n\r\n{id}",
            id.len()
        );
        say(stream, &head)
    });
    for source in [
        RequestIdSource::Off,
        RequestIdSource::Generate,
        RequestIdSource::Accept,
    ] {
        let config = HttpConfig {
            request_id: source,
            ..of(origin.address)
        };
        let logged = Logged::new("$request_id", config);
        let mut client = Client::new(&logged.node);
        let own = [("x-request-id", "from-the-client")];
        let mut seen = vec![
            client.get("/a").text(),
            client.send("GET", "/b", &own, b"").text(),
        ];
        // Plain hits: the body is that of the first request.
        client.get("/a");
        client.send("GET", "/b", &own, b"");
        let lines = logged.lines();
        let is_new = |id: &str| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        match source {
            RequestIdSource::Off => {
                assert_eq!(seen, ["none", "from-the-client"]);
                assert_eq!(lines, ["-"; 4]);
            }
            RequestIdSource::Generate => {
                assert_eq!(lines[..2], seen);
                assert!(lines.iter().all(|id| is_new(id)), "{lines:?}");
            }
            RequestIdSource::Accept => {
                assert_eq!(lines[..2], seen);
                assert_eq!(
                    (lines[1].as_str(), lines[3].as_str()),
                    ("from-the-client", "from-the-client")
                );
                assert!(is_new(&lines[0]) && is_new(&lines[2]), "{lines:?}");
            }
        }
        seen.extend(lines);
        seen.retain(|id| is_new(id));
        let all = seen.len();
        seen.sort();
        seen.dedup();
        let twice = if source == RequestIdSource::Off {
            0
        } else {
            all - seen.len()
        };
        assert_eq!(
            twice,
            match source {
                RequestIdSource::Generate => 2,
                RequestIdSource::Accept => 1,
                RequestIdSource::Off => 0,
            },
            "each new id belongs to one request"
        );
    }
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

#[tokio::test]
async fn http2_over_tls_has_no_line_or_that_of_http1() {
    let files = CertificateFiles {
        certificate: data("localhost.pem"),
        key: data("localhost.key"),
    };
    let tls = TlsConfig::new(vec![SocketAddr::from(([127, 0, 0, 1], 0)).into()], files);
    let config = HttpConfig {
        tls: Some(tls),
        ..wire::config(Upstream::Generated)
    };
    let logged = Logged::new(
        "$scheme $host $request $status $body_bytes_sent $cache_status $ssl_protocol",
        config,
    );
    let address = logged.node.http.as_ref().unwrap().local_tls_addr().unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(data("authority.pem")).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let mut tls = tls.with_root_certificates(roots).with_no_client_auth();
    tls.alpn_protocols = vec![b"h2".to_vec()];
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = tokio_rustls::TlsConnector::from(Arc::new(tls))
        .connect(name, stream)
        .await
        .unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    for _ in 0..2 {
        let request = hyper::Request::get("https://localhost/1000/a?max-age=60")
            .body(Empty::<bytes::Bytes>::new())
            .unwrap();
        let body = sender.send_request(request).await.unwrap().into_body();
        http_body_util::BodyExt::collect(body).await.unwrap();
    }
    let lines = tokio::task::spawn_blocking(move || logged.lines())
        .await
        .unwrap();
    let line = |result| {
        format!("https localhost GET /1000/a?max-age=60 HTTP/2.0 200 1000 {result} TLSv1.3")
    };
    assert_eq!(lines, [line("miss"), line("hit")]);
}

#[test]
fn a_sample_loses_errors() {
    let logged = Logged::sampled(
        "$status",
        0.000_001,
        of(TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()),
    );
    let mut client = Client::new(&logged.node);
    for _ in 0..5 {
        client.get("/down");
        wire::raw(logged.node.address, b"GET * HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    let lines = logged.lines();
    let is_of_server = |line: &String| line == "502" || line == "503";
    assert!(
        lines.len() == 5 && lines.iter().all(is_of_server),
        "a 400 belongs to the sample: {lines:?}"
    );
}

#[test]
fn metrics_lack_times_hosts_or_lines() {
    let logged = Logged::new("json", wire::config(Upstream::Generated));
    let mut client = Client::new(&logged.node);
    client.get("/1000/a");
    client.get("/1000/a");
    client.host = "other.test".into();
    client.get("/1000/a?status=503&no-store");
    logged.await_line("other.test");
    let source = logged.node.http.as_ref().unwrap().source();
    let admin = Admin::start(([127, 0, 0, 1], 0).into(), vec![source], None).unwrap();
    let metrics = Client::to(admin.local_addr()).get("/metrics").text();
    for line in [
        "# TYPE larder_http_request_seconds histogram",
        "larder_http_request_seconds_count{cache=\"hit\",protocol=\"HTTP/1.1\"} 1",
        "larder_http_request_seconds_bucket{le=\"+Inf\",cache=\"miss\",protocol=\"HTTP/1.1\"} 2",
        "larder_http_first_byte_seconds_count{cache=\"hit\",protocol=\"HTTP/1.1\"} 1",
        "larder_http_responses_total{class=\"2xx\"} 2",
        "larder_http_responses_total{class=\"5xx\"} 1",
        "larder_http_host_requests_total{host=\"example.test\"} 2",
        "larder_http_host_hits_total{host=\"example.test\"} 1",
        "larder_http_host_sent_bytes_total{host=\"example.test\"} 2000",
        "larder_http_host_server_errors_total{host=\"other\"} 1",
        "larder_http_access_log_lines_total 3",
        "larder_http_access_log_dropped_total 0",
    ] {
        assert!(
            metrics.contains(&format!("{line}\n")),
            "{line} is not in\n{metrics}"
        );
    }
    admin.stop();
    for line in logged.lines() {
        assert!(
            serde_json::from_str::<serde_json::Value>(&line).is_ok_and(|object| object.is_object()),
            "{line}"
        );
    }
}

#[test]
fn a_log_that_cannot_be_opened_is_no_error() {
    let template = Template::parse("combined", Escape::Default).unwrap();
    let target = LogTarget::File("/no/such/folder/log".into());
    let log = AccessLogConfig {
        target,
        template,
        sample: 1.0,
        rotation: None,
    };
    let config = HttpConfig {
        access_log: Some(log),
        ..wire::config(Upstream::Generated)
    };
    let error = larder_proxy::Http::start(&config, || ())
        .err()
        .expect("a refusal")
        .to_string();
    assert!(
        error.contains("[http.access_log] path") && error.contains("/no/such/folder/log"),
        "{error}"
    );
}
