//! Failure: what works in the core does not work on sockets. A client, the proxy with the
//! generated origin, and what `curl` would show.

use crate::wire::{self, Client, Node};
use larder_proxy::{Admin, Http, HttpConfig, Upstream};
use std::net::SocketAddr;

#[test]
fn a_miss_and_then_a_hit() {
    let node = Node::generated();
    let mut client = Client::new(&node);
    let miss = client.get("/10000/a");
    assert_eq!((miss.status, miss.body.len()), (200, 10_000));
    assert_eq!(
        miss.header("cache-status"),
        "larder; fwd=uri-miss; fwd-status=200; stored"
    );
    assert_eq!(miss.header("age"), "");
    let hit = client.get("/10000/a");
    assert_eq!((hit.status, &hit.body), (200, &miss.body));
    assert!(
        hit.header("cache-status").starts_with("larder; hit; ttl="),
        "{hit:?}"
    );
    assert!(hit.header("age").parse::<u64>().is_ok(), "{hit:?}");
    assert_eq!(
        (hit.header("via"), hit.header("etag")),
        ("1.1 larder", miss.header("etag"))
    );
    assert_ne!(client.get("/10000/b").body, miss.body);
    // Another connection.
    assert!(Client::new(&node).get("/10000/a").is_hit());
}

#[test]
fn head_conditions_and_ranges() {
    let node = Node::generated();
    let mut client = Client::new(&node);
    let page = client.get("/5000/a");
    let head = client.send("HEAD", "/5000/a", &[], b"");
    assert_eq!(
        (head.status, head.header("content-length"), head.body.len()),
        (200, "5000", 0)
    );
    assert!(head.is_hit());
    let same = client.send(
        "GET",
        "/5000/a",
        &[("if-none-match", page.header("etag"))],
        b"",
    );
    assert_eq!((same.status, same.body.len()), (304, 0));
    assert!(same.is_hit());
    let part = client.send("GET", "/5000/a", &[("range", "bytes=100-199")], b"");
    assert_eq!((part.status, &part.body[..]), (206, &page.body[100..200]));
    assert_eq!(part.header("content-range"), "bytes 100-199/5000");
    // A HEAD that misses goes through, and its GET after it is whole.
    let head = client.send("HEAD", "/6000/a", &[], b"");
    assert_eq!((head.status, head.header("content-length")), (200, "6000"));
    assert_eq!(client.get("/6000/a").body.len(), 6000);
    // The connection is still in step.
    assert_eq!(client.get("/5000/a").body, page.body);
}

/// A max-age of a second, a 304 from the origin, and the stored body again.
#[test]
fn validation_after_the_lifetime() {
    let node = Node::generated();
    let mut client = Client::new(&node);
    let first = client.get("/3000/a?max-age=1");
    assert!(client.get("/3000/a?max-age=1").is_hit());
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let again = client.get("/3000/a?max-age=1");
    assert_eq!(
        again.header("cache-status"),
        "larder; fwd=stale; fwd-status=304; ttl=1"
    );
    assert_eq!((again.status, &again.body), (200, &first.body));
    assert!(client.get("/3000/a?max-age=1").is_hit());
    assert_eq!(node.status()["validated"], 1);
}

#[test]
fn variants() {
    let node = Node::generated();
    let mut client = Client::new(&node);
    let mut ask = |language: &str| {
        let fields = [("accept-language", language)];
        client.send("GET", "/1000/v?vary=Accept-Language", &fields, b"")
    };
    let (french, german) = (ask("fr"), ask("de"));
    assert_ne!(french.body, german.body);
    assert!(german.header("cache-status").contains("fwd=vary-miss"));
    let (french_again, german_again) = (ask("fr"), ask("de"));
    assert!(french_again.is_hit() && german_again.is_hit());
    assert_eq!(
        (french_again.body, german_again.body),
        (french.body, german.body)
    );
}

#[test]
fn what_must_not_be_stored() {
    let node = Node::generated();
    let mut client = Client::new(&node);
    for (target, detail) in [
        ("/10/a?no-store", "no-store"),
        ("/10/b?private", "private"),
        ("/10/c?max-age=0&no-validators", "no-freshness"),
    ] {
        for _ in 0..2 {
            let seen = client.get(target);
            assert_eq!(
                seen.header("cache-status"),
                format!("larder; fwd=uri-miss; fwd-status=200; detail={detail}")
            );
        }
    }
    let secret = client.send("GET", "/10/d", &[("authorization", "Basic dTpw")], b"");
    assert!(
        secret
            .header("cache-status")
            .ends_with("detail=authorization")
    );
    assert!(!client.get("/10/d").is_hit());
    assert!(client.get("/10/d").is_hit());
}

#[test]
fn chunked_bodies_are_stored_with_their_length() {
    let node = Node::generated();
    let mut client = Client::new(&node);
    let first = client.get("/200000/a?chunked");
    assert_eq!(
        (first.body.len(), first.header("transfer-encoding")),
        (200_000, "chunked")
    );
    let hit = client.get("/200000/a?chunked");
    assert_eq!(
        (
            hit.is_hit(),
            hit.header("content-length"),
            hit.body == first.body
        ),
        (true, "200000", true)
    );
}

/// hyper does not ask an empty body for its end: it must be stored all the same.
#[test]
fn empty_bodies_of_all_kinds() {
    let node = Node::generated();
    let mut client = Client::new(&node);
    for target in ["/0/a", "/0/b?status=204", "/0/c?chunked", "/0/d?status=404"] {
        let first = client.get(target);
        let hit = client.get(target);
        assert!(hit.is_hit(), "{target}: {first:?} {hit:?}");
        assert_eq!((hit.status, hit.body.len()), (first.status, 0));
    }
}

#[test]
fn a_request_must_say_whom_it_is_for() {
    let node = Node::generated();
    for (request, status) in [
        ("GET /10/a HTTP/1.1\r\n\r\n", 400),
        ("GET /10/a HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        ("GET /10/a HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
        ("GET /10/a HTTP/1.1\r\nHost: user@a\r\n\r\n", 400),
        ("GET /10/a HTTP/1.1\r\nHost:\r\n\r\n", 400),
        ("GET https://a/10/a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", 400),
        ("GET http://a/10/a HTTP/1.1\r\nHost: b\r\n\r\n", 200),
        ("GET /10/a HTTP/1.0\r\n\r\n", 200),
        ("GET / HTTP/1.1\r\nHost: a\r\nbad header\r\n\r\n", 400),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            400,
        ),
        ("nonsense\r\n\r\n", 400),
    ] {
        let answer = wire::raw(node.address, request.as_bytes());
        let said = answer.split(' ').nth(1).unwrap_or_default();
        assert_eq!(said, status.to_string(), "{request:?} gave {answer:?}");
    }
    // A target in absolute form names the key (RFC 9112 §3.2.2).
    let mut client = Client::new(&node);
    client.host = "A:80".into();
    assert!(client.get("/10/a").is_hit());
}

#[test]
fn oversized_heads_are_refused() {
    let node = Node::generated();
    let long = "x".repeat(100_000);
    let many = "a: b\r\n".repeat(200);
    for request in [
        format!("GET /10/{long} HTTP/1.1\r\nhost: a\r\n\r\n"),
        format!("GET /10/a HTTP/1.1\r\nhost: a\r\nx: {long}\r\n\r\n"),
        format!("GET /10/a HTTP/1.1\r\nhost: a\r\n{many}\r\n"),
    ] {
        let answer = wire::raw(node.address, request.as_bytes());
        // The peer may see the reset before the answer, since it sent more than was read.
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 4"),
            "{answer:?}"
        );
    }
    assert_eq!(node.status()["requests"], 0);
}

#[test]
fn bad_settings_are_one_line_that_names_them() {
    let node = Node::generated();
    let config = |listen: SocketAddr, origin: &str| HttpConfig {
        listen: vec![listen.into()],
        upstream: Upstream::Http(origin.parse().unwrap()),
        ..wire::config(Upstream::Generated)
    };
    let free = ([127, 0, 0, 1], 0).into();
    let vacant = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    for (config, parts) in [
        (
            config(node.address, "http://a"),
            ["[http] listen", "in use"],
        ),
        (
            config(([192, 0, 2, 1], 1).into(), "http://a"),
            ["[http] listen", "192.0.2.1:1"],
        ),
        (config(free, "ftp://a"), ["[http] origin", "ftp://a"]),
        (
            config(free, "http://a/path?query"),
            ["[http] origin", "/path?query"],
        ),
        (
            config(vacant, &format!("http://localhost:{}", vacant.port())),
            ["[http] origin", "is [http] listen itself"],
        ),
    ] {
        let error = Http::start(&config, || ())
            .err()
            .expect("a refusal")
            .to_string();
        assert!(
            parts.iter().all(|part| error.contains(part)) && !error.contains('\n'),
            "{error}"
        );
    }
}

#[test]
fn the_admin_pages() {
    let node = Node::generated();
    let mut client = Client::new(&node);
    client.get("/10/a");
    client.get("/10/a");
    let source = node.http.as_ref().unwrap().source();
    let admin = Admin::start(([127, 0, 0, 1], 0).into(), vec![source], None).unwrap();
    let mut pages = Client::to(admin.local_addr());
    pages.host = "localhost".to_owned();
    assert!(pages.get("/").text().contains("/metrics"));
    let metrics = pages.get("/metrics");
    assert!(
        metrics
            .header("content-type")
            .starts_with("text/plain; version=0.0.4")
    );
    let metrics = metrics.text();
    for line in [
        "# TYPE larder_http_requests_total counter",
        "larder_http_requests_total 2",
        "larder_http_hits_total 1",
        "larder_http_forwarded_total{reason=\"uri-miss\"} 1",
        "larder_http_objects 1.0",
    ] {
        assert!(
            metrics.contains(&format!("{line}\n")),
            "{line} is not in\n{metrics}"
        );
    }
    let status: serde_json::Value = serde_json::from_str(&pages.get("/status").text()).unwrap();
    assert_eq!(
        (&status["http"]["hits"], &status["http"]["origin"]),
        (&1.into(), &"generated".into())
    );
    assert_eq!(pages.get("/nothing").status, 404);
    assert_eq!(pages.send("POST", "/status", &[], b"x").status, 405);
    admin.stop();
}

/// The samples of a page of metrics by the type and help of their family, read as Prometheus reads
/// it: in the text format, a sample belongs to the family of exactly its name; in OpenMetrics, a
/// counter's has `_total` behind it.
fn parse_metrics(text: &str, suffix: &str) -> Vec<(String, String)> {
    let mut samples = Vec::new();
    let (mut help, mut family) = (String::new(), (String::new(), String::new()));
    for line in text.lines() {
        if let Some(about) = line.strip_prefix("# HELP ") {
            help = about
                .split_once(' ')
                .expect("a name and a text")
                .0
                .to_owned();
        } else if let Some(about) = line.strip_prefix("# TYPE ") {
            let (name, kind) = about.split_once(' ').expect("a name and a type");
            assert_eq!(name, help, "HELP and TYPE are of one family");
            family = (name.to_owned(), kind.to_owned());
        } else {
            let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line:?}"));
            let name = name.split('{').next().unwrap();
            let counter = if family.1 == "counter" { suffix } else { "" };
            let of_histogram = ["_bucket", "_count", "_sum"]
                .into_iter()
                .find_map(|end| name.strip_suffix(end));
            let own = if family.1 == "histogram" {
                of_histogram.unwrap_or_default()
            } else {
                name
            };
            assert_eq!(
                own,
                format!("{}{counter}", family.0),
                "a sample outside its family: {line}"
            );
            assert!(value.parse::<f64>().is_ok_and(f64::is_finite), "{line}");
            samples.push((name.to_owned(), family.1.clone()));
        }
    }
    samples
}

/// Failure: Prometheus takes the counters for untyped, or refuses the page.
#[test]
fn both_formats_of_the_metrics() {
    let node = Node::generated();
    let source = node.http.as_ref().unwrap().source();
    let admin = Admin::start(([127, 0, 0, 1], 0).into(), vec![source], None).unwrap();
    let mut pages = Client::to(admin.local_addr());
    let plain = pages.get("/metrics").text();
    // What Prometheus 2 and 3 send.
    let accept =
        "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
    let open = pages.send("GET", "/metrics", &[("accept", accept)], b"");
    assert!(
        open.header("content-type")
            .starts_with("application/openmetrics-text; version=1.0.0")
    );
    let open = open.text();
    let (body, end) = open.split_at(open.len() - "# EOF\n".len());
    assert_eq!(end, "# EOF\n");
    let (plain, open) = (parse_metrics(&plain, ""), parse_metrics(body, "_total"));
    assert_eq!(plain, open);
    let counters = plain.iter().filter(|(_, kind)| kind == "counter").count();
    assert!(counters > 20 && plain.len() > counters, "{plain:?}");
    assert!(
        plain
            .iter()
            .all(|(name, kind)| name.ends_with("_total") == (kind == "counter"))
    );
    admin.stop();
}
