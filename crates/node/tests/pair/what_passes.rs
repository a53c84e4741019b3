//! Failure: a page that the origin has, and the client of the pair does not get, or gets
//! otherwise.

use super::{Place, fetch_by_name, noise, pair};
use crate::wire::{self, Asked, Node, Origin, say};
use larder_proxy::{CertificateFiles, HttpConfig, TlsConfig, Upstream};
use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;

fn answer(stream: &mut TcpStream, status: &str, fields: &str, body: &[u8]) -> bool {
    let head = format!(
        "HTTP/1.1 {status}\r\n{fields}content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).is_ok() && stream.write_all(body).is_ok()
}

/// A small site.
fn site() -> Origin {
    let large = Arc::new(noise(1_000_000));
    Origin::new(move |asked: &Asked, stream| {
        let words: Vec<&str> = asked.line.split(' ').collect();
        let (method, target) = (words[0], words[1]);
        match target {
            "/page" => answer(
                stream,
                "200 OK",
                "content-type: text/plain\r\nx-own: 1\r\nx-own: 2\r\n",
                b"hello",
            ),
            "/fresh" => answer(stream, "200 OK", "cache-control: max-age=60\r\n", b"fresh"),
            "/large" if method == "HEAD" => say(
                stream,
                &format!(
                    "HTTP/1.1 200 OK\r\netag: \"1\"\r\ncontent-length: {}\r\n\r\n",
                    large.len()
                ),
            ),
            "/large" => match asked
                .header("range")
                .and_then(|range| range.strip_prefix("bytes=")?.split_once('-'))
            {
                Some((first, last)) => {
                    let (first, last): (usize, usize) =
                        (first.parse().unwrap(), last.parse().unwrap());
                    let last = last.min(large.len() - 1);
                    let fields = format!(
                        "etag: \"1\"\r\ncontent-range: bytes {first}-{last}/{}\r\n",
                        large.len()
                    );
                    answer(stream, "206 Partial Content", &fields, &large[first..=last])
                }
                None => answer(
                    stream,
                    "200 OK",
                    "etag: \"1\"\r\ncache-control: max-age=60\r\n",
                    &large,
                ),
            },
            "/validated" if asked.header("if-none-match") == Some("\"v\"") => say(
                stream,
                "HTTP/1.1 304 Not Modified\r\netag: \"v\"\r\ncache-control: max-age=60\r\n\r\n",
            ),
            "/validated" => answer(
                stream,
                "200 OK",
                "etag: \"v\"\r\ncache-control: no-cache\r\n",
                b"valid",
            ),
            "/language" => {
                let language = asked.header("accept-language").unwrap_or("none").to_owned();
                let fields = "vary: accept-language\r\ncache-control: max-age=60\r\n";
                answer(stream, "200 OK", fields, language.as_bytes())
            }
            "/browser" => {
                let browser = asked.header("user-agent").unwrap_or("none").to_owned();
                answer(
                    stream,
                    "200 OK",
                    "vary: user-agent\r\ncache-control: max-age=60\r\n",
                    browser.as_bytes(),
                )
            }
            "/form" => {
                let text = format!(
                    "{method} {} {}",
                    asked.header("host").unwrap(),
                    String::from_utf8_lossy(&asked.body)
                );
                answer(stream, "200 OK", "", text.as_bytes())
            }
            "/seen" => {
                let text: Vec<String> = asked
                    .head
                    .iter()
                    .map(|(name, value)| format!("{name}: {value}"))
                    .collect();
                answer(
                    stream,
                    "200 OK",
                    "cache-control: no-store\r\n",
                    text.join("\n").as_bytes(),
                )
            }
            "/trouble" => answer(stream, "500 Internal Server Error", "", b"oh"),
            "/moved" => answer(stream, "302 Found", "location: /page\r\n", b""),
            "/empty" => say(stream, "HTTP/1.1 204 No Content\r\n\r\n"),
            _ if method == "HEAD" => say(
                stream,
                "HTTP/1.1 404 Not Found\r\ncontent-length: 12\r\n\r\n",
            ),
            _ => answer(stream, "404 Not Found", "", b"no such page"),
        }
    })
}

/// Failure: an origin by https is out of the far node's reach; or anybody may be it.
#[test]
fn an_origin_by_https_is_asked_where_its_certificate_is_believed() {
    let data = |name: &str| {
        PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("../proxy/tests/data")
            .join(name)
    };
    let files = CertificateFiles {
        certificate: data("localhost.pem"),
        key: data("localhost.key"),
    };
    let tls = TlsConfig::new(
        vec![std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()],
        files,
    );
    let origin = Node::with(&HttpConfig {
        tls: Some(tls),
        ..wire::config(Upstream::Generated)
    });
    let port = origin
        .http
        .as_ref()
        .unwrap()
        .local_tls_addr()
        .unwrap()
        .port();
    let gateway =
        format!("[ndn.gateway]\nprefix = \"/far\"\norigin = \"https://localhost:{port}\"");
    for (ca, statuses) in [
        ("authority.pem", [200, 200]),
        ("self_signed.pem", [502, 502]),
    ] {
        let far = Place::new(
            &gateway,
            &format!("listen = \"\"\norigin_ca = {:?}", data(ca)),
        );
        let edge = Place::edge(&far.tcp(), "");
        let seen = ["/100/a", "/100000/b"].map(|target| edge.client().get(target));
        assert_eq!(seen.each_ref().map(|seen| seen.status), statuses, "{ca}");
        assert!(statuses[0] != 200 || seen[1].body.len() == 100_000);
    }
}

/// Failure: as many fields as a client may read are too many with those that both ends add.
#[test]
fn as_many_fields_as_http_allows_pass() {
    let fields: String = (0..99)
        .map(|number| format!("x-{number}: {number}\r\n"))
        .collect();
    let origin = Origin::new(move |_, stream| {
        say(
            stream,
            &format!("HTTP/1.1 200 OK\r\n{fields}content-length: 0\r\n\r\n"),
        )
    });
    let (edge, _far) = pair(&origin);
    let seen = edge.client().get("/many");
    assert_eq!((seen.status, seen.header("x-98")), (200, "98"), "{seen:?}");
}

#[test]
fn statuses_fields_and_bodies_are_the_origins() {
    let origin = site();
    let (edge, _far) = pair(&origin);
    let mut client = edge.client();
    let page = client.get("/page");
    assert_eq!(
        (
            page.status,
            page.text().as_str(),
            page.header("content-type")
        ),
        (200, "hello", "text/plain")
    );
    let own: Vec<&str> = page
        .head
        .iter()
        .filter(|(name, _)| name == "x-own")
        .map(|(_, value)| value.as_str())
        .collect();
    assert_eq!(own, ["1", "2"], "several lines of a field");
    for (target, status, text) in [
        ("/none", 404, "no such page"),
        ("/none?a=/b/../c", 404, "no such page"),
        ("/trouble", 500, "oh"),
        ("/moved", 302, ""),
        ("/empty", 204, ""),
        ("//odd//", 404, "no such page"),
    ] {
        let seen = client.get(target);
        assert_eq!(
            (seen.status, seen.text().as_str()),
            (status, text),
            "{target}"
        );
    }
    assert_eq!(client.get("/moved").header("location"), "/page");
    let large = client.get("/large");
    assert!(large.body == noise(1_000_000) && !large.cut);
    assert!(
        client.get("/large").is_hit(),
        "what came over NDN is stored like any other"
    );
    let head = client.send("HEAD", "/large", &[], b"");
    assert_eq!(
        (head.status, head.header("content-length")),
        (200, "1000000")
    );
    let uncached = client.send("HEAD", "/large?other", &[], b"");
    assert_eq!(uncached.status, 404);
}

#[test]
fn ranges_validators_and_variants() {
    let origin = site();
    let (edge, _far) = pair(&origin);
    let mut client = edge.client();
    let part = client.send("GET", "/large", &[("range", "bytes=10000-29999")], b"");
    assert_eq!(
        (part.status, part.header("content-range")),
        (206, "bytes 10000-29999/1000000")
    );
    assert!(part.body == noise(1_000_000)[10_000..30_000]);

    assert_eq!(client.get("/validated").text(), "valid");
    let again = client.get("/validated");
    assert_eq!(
        (again.status, again.text().as_str()),
        (200, "valid"),
        "the origin said 304, the store had the page"
    );
    assert!(
        again.header("cache-status").contains("fwd=stale"),
        "{}",
        again.header("cache-status")
    );
    let known = client.send("GET", "/validated", &[("if-none-match", "\"v\"")], b"");
    assert_eq!((known.status, known.body.len()), (304, 0));

    for language in ["de", "fr", "de"] {
        assert_eq!(
            client
                .send("GET", "/language", &[("accept-language", language)], b"")
                .text(),
            language
        );
    }
    let before = edge.figure("/upstream/asked_again");
    for browser in ["a", "b", "a"] {
        assert_eq!(
            client
                .send("GET", "/browser", &[("user-agent", browser)], b"")
                .text(),
            browser
        );
    }
    assert_eq!(
        edge.figure("/upstream/asked_again"),
        before + 1,
        "the edge remembers what is asked for in full"
    );
}

#[test]
fn requests_with_bodies_pass_once_or_are_refused() {
    let origin = site();
    let (edge, _far) = pair(&origin);
    let mut client = edge.client();
    client.host = "shop.test:81".to_owned();
    let seen = client.send("POST", "/form", &[], b"a=1");
    assert_eq!(
        (seen.status, seen.text().as_str()),
        (200, "POST shop.test:81 a=1")
    );
    let body = noise(4000);
    assert_eq!(client.send("PUT", "/form", &[], &body).status, 200);
    let before = origin.requests();
    let refused = client.send("POST", "/form", &[], &noise(20_000));
    assert_eq!(
        (refused.status, refused.text().contains("too large")),
        (413, true)
    );
    let mut client = edge.client();
    assert_eq!(
        client
            .send("GET", "/page", &[("cookie", &"c".repeat(7000))], b"")
            .status,
        431
    );
    let mut client = edge.client();
    assert_eq!(client.get(&format!("/{}", "p".repeat(3000))).status, 414);
    assert_eq!(origin.requests(), before);
}

#[test]
fn the_origin_hears_who_asks_where_that_makes_no_difference_to_others() {
    let origin = site();
    let (edge, _far) = pair(&origin);
    let mut client = edge.client();
    let seen = client.send(
        "GET",
        "/seen",
        &[
            ("user-agent", "one"),
            ("cookie", "a=1"),
            ("connection", "close, x-a"),
            ("x-a", "1"),
        ],
        b"",
    );
    let text = seen.text();
    assert!(
        text.contains("user-agent: one")
            && text.contains("cookie: a=1")
            && text.contains("x-forwarded-for: unknown"),
        "{text}"
    );
    assert!(
        text.contains("host: example.test") && text.contains("x-forwarded-host: example.test"),
        "{text}"
    );
    assert!(!text.contains("x-a: 1"), "{text}");
    for field in ["via: 1.1 larder", "cdn-loop: larder"] {
        assert_eq!(
            text.matches(field).count(),
            2,
            "both nodes are proxies: {text}"
        );
    }
}

/// What `larder get /far/example.test/large` does.
#[test]
fn a_page_is_fetched_by_its_name_alone() {
    let origin = site();
    let far = Place::far(origin.address, "");
    assert_eq!(
        fetch_by_name(&far, "/far/example.test/large").unwrap().0,
        noise(1_000_000)
    );
    assert_eq!(
        fetch_by_name(&far, "/far/example.test/page").unwrap().0,
        b"hello"
    );
    assert_eq!(
        fetch_by_name(&far, "/far/example.test/browser").unwrap().0,
        b"none",
        "a name has no fields to vary by"
    );
    assert!(
        fetch_by_name(&far, "/far/example.test/none")
            .unwrap_err()
            .contains("no such object")
    );
    assert!(
        fetch_by_name(&far, "/far/example.test/seen")
            .unwrap_err()
            .contains("no such object"),
        "no-store is nobody else's"
    );
}
