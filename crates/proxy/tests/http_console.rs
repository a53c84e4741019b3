//! Failure: the console shows nothing, shows it to others, or runs what others have written.

use crate::wire::{self, Client, Node, Seen};
use larder_admin::{Console, Purging};
use larder_proxy::rules::Rule;
use larder_proxy::{Admin, HttpConfig};
use larder_tier_host::DiskConfig;
use larder_units::ByteSize;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

const TOKEN: &str = "0123456789abcdef";

/// Starts an admin server without a token for its console.
fn start(node: &Node, purging: Option<Arc<Purging>>) -> Admin {
    start_with(None, node, purging)
}

fn start_with(token: Option<&str>, node: &Node, purging: Option<Arc<Purging>>) -> Admin {
    let console = Arc::new(Console::new(token));
    let admin = Admin::open(Admin::bind(([127, 0, 0, 1], 0).into()).unwrap(), &console).unwrap();
    admin.serve(vec![node.http.as_ref().unwrap().source()], purging, None);
    admin
}

fn get(admin: &Admin, target: &str, fields: &[(&str, &str)]) -> Seen {
    let mut client = Client::to(admin.local_addr());
    client.host = admin.local_addr().to_string();
    client.send("GET", target, fields, b"")
}

/// A stream of events.
struct Events(BufReader<TcpStream>);

impl Events {
    fn open(admin: SocketAddr) -> Events {
        let mut stream = TcpStream::connect(admin).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let request = format!(
            "GET /console/events HTTP/1.1\r\nhost: {admin}\r\norigin: http://{admin}\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut events = Events(BufReader::new(stream));
        assert_eq!(events.line().as_deref(), Some("HTTP/1.1 200 OK"));
        events
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        (self.0.read_line(&mut line).ok()? > 0).then(|| line.trim_end().to_owned())
    }

    /// Reads to the next event with this name.
    fn next(&mut self, name: &str) -> Value {
        let wanted = format!("event: {name}");
        while self.line().expect("another event") != wanted {}
        serde_json::from_str(self.line().unwrap().strip_prefix("data: ").unwrap()).unwrap()
    }
}

/// Failure: a browser gets the text for curl, or curl the page.
#[test]
fn a_browser_gets_text() {
    let node = Node::generated();
    let admin = start(&node, None);
    assert!(
        get(&admin, "/", &[("accept", "*/*")])
            .text()
            .starts_with("larder: admin")
    );
    let page = get(
        &admin,
        "/",
        &[("accept", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8")],
    );
    assert!(page.text().starts_with("<!doctype html>"));
    let text = page.text();
    let files = text
        .split(['"'])
        .filter(|word| word.starts_with("/console/"))
        .chain(["/console/elements.js"]);
    for file in files.collect::<Vec<_>>() {
        // Everybody may have them: they hold no figures.
        let seen = get(&admin, file, &[("x-forwarded-for", "192.0.2.1")]);
        assert_eq!(
            (seen.status, seen.header("x-content-type-options")),
            (200, "nosniff"),
            "{file}"
        );
    }
    admin.stop();
}

/// Failure: text of clients runs as a script, or a page of others shows the console in a frame.
#[test]
fn the_page_runs_more_than_its_own_files() {
    let node = Node::generated();
    let admin = start(&node, None);
    let page = get(&admin, "/", &[("accept", "text/html")]);
    let policy = page.header("content-security-policy");
    for directive in [
        "default-src 'self'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    ] {
        assert!(policy.split("; ").any(|one| one == directive), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(
        (
            page.header("referrer-policy"),
            page.header("x-frame-options")
        ),
        ("no-referrer", "DENY")
    );
    let text = page.text();
    assert!(
        !text.contains("style=") && !text.contains("<style") && !text.contains(" on"),
        "{text}"
    );
    assert!(
        text.split("<script")
            .skip(1)
            .all(|script| script.contains(" src=\"/")),
        "{text}"
    );
    for file in ["console", "charts", "elements", "panels", "what_if"] {
        let script = get(&admin, &format!("/console/{file}.js"), &[]).text();
        for parser in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
        ] {
            assert!(!script.contains(parser), "{file}.js has {parser}");
        }
    }
    admin.stop();
}

/// Failure: an open page stands still, or shows other figures than those of the node.
#[test]
fn an_open_page_stands_still() {
    let node = Node::generated();
    let admin = start(&node, None);
    let mut events = Events::open(admin.local_addr());
    let history = events.next("history");
    let place = |name: &str| {
        history["figures"]
            .as_array()
            .unwrap()
            .iter()
            .position(|known| known == name)
            .unwrap()
            + 1
    };
    assert_eq!(events.next("status")["http"]["requests"], 0);
    let mut client = Client::new(&node);
    for _ in 0..20 {
        drop(client.get("/100/a"));
    }
    let requests = std::iter::from_fn(|| Some(events.next("point")))
        .find(|point| point[place("requests")] != 0.0);
    let point = requests.unwrap();
    assert!(
        point[place("hits")].as_f64() > Some(0.0) && point[place("hit_p50")].as_f64() > Some(0.0),
        "{point}"
    );
    let served = std::iter::from_fn(|| Some(events.next("status")))
        .find(|page| page["http"]["requests"] == 20);
    assert_eq!(served.unwrap()["http"]["sent_bytes"], 2000);
    // The stream ends with the server.
    admin.stop();
    while events.line().is_some() {}
}

/// Failure: a request that gets the response to another one counts as broken off.
#[test]
fn a_collapsed_request_is_broken_off() {
    let origin = wire::Origin::new(|_, stream| {
        let is_said = wire::say(
            stream,
            "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: 6\r\n\r\nabc",
        );
        std::thread::sleep(Duration::from_millis(300));
        is_said && wire::say(stream, "def")
    });
    let node = Node::of(origin.address);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(Client::new(&node).get("/a").text(), "abcdef"));
        }
    });
    let total = || {
        node.status()["first_byte_seconds"]["misses"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_u64)
            .sum::<u64>()
    };
    let hits = || {
        node.status()["first_byte_seconds"]["hits"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_u64)
            .sum::<u64>()
    };
    while total() + hits() < 4 {
        std::thread::yield_now();
    }
    assert!(
        node.status()["collapsed"].as_u64() > Some(0),
        "{}",
        node.status()
    );
    assert_eq!(node.status()["broken_exchanges"], 0);
}

/// Failure: pages that are never closed take all connections of scrapers.
#[test]
fn open_pages_take_every_connection() {
    let node = Node::generated();
    let admin = start(&node, None);
    let mut open: Vec<Events> = (0..16).map(|_| Events::open(admin.local_addr())).collect();
    assert_eq!(get(&admin, "/console/events", &[]).status, 503);
    assert_eq!(get(&admin, "/healthz", &[]).status, 200);
    open.pop();
    let is_served = || {
        let text = format!(
            "GET /console/events HTTP/1.1\r\nhost: {}\r\n\r\n",
            admin.local_addr()
        );
        wire::raw_bytes(admin.local_addr(), text.as_bytes(), 15) == b"HTTP/1.1 200 OK"
    };
    while !is_served() {
        std::thread::yield_now();
    }
    admin.stop();
}

/// Failure: a page of another site, another name for this machine, or a client behind a proxy gets
/// the figures, or changes something.
#[test]
fn another_site_reads_the_console() {
    let node = Node::generated();
    let admin = start(
        &node,
        Some(node.http.as_ref().unwrap().purging(Some(TOKEN))),
    );
    let bearer = format!("Bearer {TOKEN}");
    for (field, value, status) in [
        ("origin", "http://evil.example", 403),
        ("sec-fetch-site", "cross-site", 403),
        ("x-forwarded-for", "192.0.2.1", 403),
    ] {
        assert_eq!(
            get(&admin, "/console/events", &[(field, value)]).status,
            status,
            "{field}: {value}"
        );
    }
    let mut client = Client::to(admin.local_addr());
    client.host = "rebound.example".to_owned();
    assert_eq!(client.get("/console/events").status, 421);
    // The status page names peers. Monitoring reads the others under any name.
    assert_eq!(client.get("/status").status, 421);
    for target in ["/metrics", "/healthz", "/readyz", "/"] {
        assert_eq!(client.get(target).status, 200, "{target}");
    }
    for target in ["/status", "/metrics", "/healthz", "/readyz"] {
        for (field, value) in [
            ("origin", "http://evil.example"),
            ("sec-fetch-site", "cross-site"),
        ] {
            assert_eq!(
                get(&admin, target, &[(field, value)]).status,
                403,
                "{target}: {field}"
            );
        }
        assert_eq!(
            get(&admin, target, &[("sec-fetch-site", "none")]).status,
            200,
            "{target}"
        );
    }
    client.host = admin.local_addr().to_string();
    let order = |client: &mut Client, fields: &[(&str, &str)]| {
        client
            .send("POST", "/purge", fields, b"{\"everything\": true}")
            .status
    };
    assert_eq!(
        order(
            &mut client,
            &[
                ("authorization", &bearer),
                ("origin", "http://evil.example")
            ]
        ),
        403
    );
    let own = format!("http://{}", admin.local_addr());
    assert_eq!(
        order(&mut client, &[("authorization", &bearer), ("origin", &own)]),
        200
    );
    assert_eq!(order(&mut client, &[("authorization", &bearer)]), 200);
    // Pages for programs stay as they are.
    assert_eq!(
        get(&admin, "/metrics", &[("x-forwarded-for", "192.0.2.1")]).status,
        200
    );
    admin.stop();
}

/// Failure: with a token, the console and captures serve clients of this machine without it, which
/// are those of the whole world behind a proxy that adds no field; or a scraper needs the token.
#[test]
fn a_client_of_a_local_proxy_needs_no_token() {
    let node = Node::generated();
    let http = node.http.as_ref().unwrap();
    let admin = start_with(Some(TOKEN), &node, Some(http.purging(Some(TOKEN))));
    let bearer = format!("Bearer {TOKEN}");
    for target in [
        "/console/events",
        "/console/lookup?url=http%3A%2F%2Fa%2F",
        "/capture",
    ] {
        assert_eq!(get(&admin, target, &[]).status, 401, "{target}");
        assert_eq!(
            get(
                &admin,
                target,
                &[("authorization", "Bearer 0123456789abcdee")]
            )
            .status,
            401,
            "{target}"
        );
    }
    assert_eq!(
        get(
            &admin,
            "/console/lookup?url=http%3A%2F%2Fa%2F",
            &[("authorization", &bearer)]
        )
        .status,
        200
    );
    for target in [
        "/",
        "/console/console.js",
        "/status",
        "/metrics",
        "/healthz",
    ] {
        assert_eq!(get(&admin, target, &[]).status, 200, "{target}");
    }
    // A client with the token may use any name of the node.
    let mut client = Client::to(admin.local_addr());
    client.host = "node.example".to_owned();
    assert_eq!(client.get("/status").status, 421);
    assert_eq!(
        client
            .send("GET", "/status", &[("authorization", &bearer)], b"")
            .status,
        200
    );
    admin.stop();
}

/// Returns the first status page of a stream that `accepts`.
fn status(admin: &Admin, accepts: impl Fn(&Value) -> bool) -> Value {
    let mut events = Events::open(admin.local_addr());
    std::iter::from_fn(|| Some(events.next("status")))
        .find(accepts)
        .unwrap()
}

/// Failure: the console names no URL that misses, or another reason.
#[test]
fn a_missed_url_has_no_reason() {
    let origin = wire::Origin::new(|asked, stream| {
        let field = if asked.line.contains("/cookie") {
            "set-cookie: a=b"
        } else {
            "cache-control: max-age=60"
        };
        wire::say(
            stream,
            &format!("HTTP/1.1 200 OK\r\n{field}\r\ncontent-length: 3\r\n\r\nabc"),
        )
    });
    let node = Node::of(origin.address);
    let admin = start(&node, None);
    let mut client = Client::new(&node);
    for _ in 0..100 {
        drop(client.get("/cookie?'-alert(1)-'"));
    }
    for _ in 0..200 {
        drop(client.get("/a"));
    }
    let page = status(&admin, |page| page["http"]["requests"] == 300);
    let content = &page["console"]["http"]["content"];
    let refused = &content["refused"][0];
    assert_eq!(
        (refused["url"].as_str(), refused["reason"].as_str()),
        (
            Some("http://example.test/cookie?'-alert(1)-'"),
            Some("set-cookie")
        )
    );
    assert!(
        refused["meaning"].as_str().unwrap().contains("Set-Cookie"),
        "{content}"
    );
    assert_eq!(content["missed"][0]["reason"], "uri-miss", "{content}");
    let requested: Vec<&str> = content["requested"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["url"].as_str().unwrap())
        .collect();
    assert!(requested.contains(&"http://example.test/a"), "{content}");
    // Pages for everybody have no URLs.
    assert!(!get(&admin, "/status", &[]).text().contains("/cookie"));
    assert!(!get(&admin, "/metrics", &[]).text().contains("/cookie"));
    admin.stop();
}

/// Failure: a stored URL is not found, or a lookup asks the origin.
#[test]
fn a_stored_url_is_not_found() {
    let origin = wire::Origin::new(|_, stream| {
        wire::say(
            stream,
            "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\netag: \"x\"\r\ncontent-length: 3\r\n\r\nabc",
        )
    });
    let node = Node::of(origin.address);
    let admin = start(
        &node,
        Some(node.http.as_ref().unwrap().purging(Some(TOKEN))),
    );
    let look_up = |url: &str| get(&admin, &format!("/console/lookup?url={url}"), &[]);
    let found = |url: &str| serde_json::from_str::<Value>(&look_up(url).text()).unwrap();
    assert_eq!(
        found("http%3A%2F%2Fexample.test%2Fa")["stored"],
        "nothing in memory"
    );
    Client::new(&node).get("/a");
    let page = found("http%3A%2F%2Fexample.test%2Fa");
    let stored = page["stored"][0].as_str().unwrap();
    assert!(
        stored.starts_with("fresh for ")
            && stored.contains("bytes 3")
            && stored.contains("ETag \"x\""),
        "{page}"
    );
    assert_eq!(
        (page["rules"].as_str(), origin.requests()),
        (Some("none"), 1)
    );
    for wrong in ["", "%2Fa", "ftp%3A%2F%2Fa%2F", "%zz", "http%3A%2F%2F"] {
        assert_eq!(look_up(wrong).status, 400, "{wrong}");
    }
    assert_eq!(
        get(
            &admin,
            "/console/lookup?url=http://a/",
            &[("x-forwarded-for", "192.0.2.1")]
        )
        .status,
        403
    );
    admin.stop();
}

/// Failure: a policy or size is applied without the token, or not at all, or a reload does not end
/// it.
#[test]
fn a_choice_is_not_applied() {
    let node = Node::generated();
    let http = node.http.as_ref().unwrap();
    let admin = start(&node, Some(http.purging(Some(TOKEN))));
    let bearer = format!("Bearer {TOKEN}");
    let apply = |token: &str, body: &str| {
        Client::to(admin.local_addr()).send(
            "POST",
            "/console/apply",
            &[("authorization", token)],
            body.as_bytes(),
        )
    };
    let choice = "{\"policy\": \"gdsf\", \"capacity\": 2097152}";
    assert_eq!(apply("", choice).status, 401);
    for wrong in [
        "{\"policy\": \"lur\", \"capacity\": 1}",
        "{}",
        "{\"policy\": \"lru\", \"capacity\": 1000000000000000}",
    ] {
        assert_eq!(apply(&bearer, wrong).status, 400, "{wrong}");
    }
    let before = (
        node.status()["policy"]["spec"].clone(),
        node.status()["capacity_bytes"].clone(),
    );
    let applied = apply(&bearer, choice);
    let lines = serde_json::from_str::<Value>(&applied.text()).unwrap();
    assert_eq!(
        lines["lines"],
        "[http]\ncache = \"2MiB\"\npolicy = \"gdsf\""
    );
    let status_now = node.status();
    assert_eq!(
        (&status_now["policy"]["spec"], &status_now["capacity_bytes"]),
        (&Value::from("gdsf"), &Value::from(2097152))
    );
    let page = status(&admin, |page| {
        page["console"]["http"]["tried"]["capacity"] == "2MiB"
    });
    assert!(
        page["console"]["warnings"][0]["what"]
            .as_str()
            .unwrap()
            .contains("gdsf"),
        "{page}"
    );
    http.take_over(
        http.reload(&wire::config(larder_proxy::Upstream::Generated))
            .unwrap(),
    )
    .unwrap();
    let after = (
        node.status()["policy"]["spec"].clone(),
        node.status()["capacity_bytes"].clone(),
    );
    assert_eq!(before, after);
    admin.stop();
}

/// Failure: the console names a field as the cause of what a rule does, or not the rule.
#[test]
fn a_rule_that_passes_is_not_named() {
    let origin = wire::Origin::new(|_, stream| {
        wire::say(
            stream,
            "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: 3\r\n\r\nabc",
        )
    });
    let upstream =
        larder_proxy::Upstream::Http(format!("http://{}", origin.address).parse().unwrap());
    let rule = |path: &str, pass: Option<bool>| Rule {
        path: vec![path.parse().unwrap()],
        ttl: pass.is_none().then_some(60),
        pass,
        ..Rule::default()
    };
    let rules = vec![rule("/img/*", None), rule("/admin/*", Some(true))];
    let node = Node::with(&HttpConfig {
        rules,
        ..wire::config(upstream)
    });
    let admin = start(&node, None);
    let mut client = Client::new(&node);
    for _ in 0..10 {
        drop(client.get("/admin/a"));
    }
    let page = status(&admin, |page| page["http"]["requests"] == 10);
    let refused = &page["console"]["http"]["content"]["refused"][0];
    assert_eq!(
        (refused["reason"].as_str(), refused["meaning"].as_str()),
        (
            Some("pass"),
            Some("rule 2: path /admin/*: pass true ([[http.rules]])")
        )
    );
    admin.stop();
}

/// Failure: a lookup does not find variants that other fields than codings select, shows a secret
/// of a client, counts as a request, or does not find what is on disk alone.
#[test]
fn a_variant_is_not_found() {
    let origin = wire::Origin::new(|_, stream| {
        let head = "HTTP/1.1 200 OK\r\ncache-control: max-age=600\r\nvary: accept-language, cookie, x-api-key\r\ncontent-length: 3";
        wire::say(stream, &format!("{head}\r\n\r\nabc"))
    });
    let folder = tempfile::tempdir().unwrap();
    let disk = DiskConfig {
        path: folder.path().join("tier"),
        capacity: ByteSize::from_mib(8),
        policy: "fifo".parse().unwrap(),
        queue: ByteSize::from_mib(8),
    };
    let upstream =
        larder_proxy::Upstream::Http(format!("http://{}", origin.address).parse().unwrap());
    let config = HttpConfig {
        disk: Some(disk),
        ..wire::config(upstream)
    };
    let look_up = |node: &Node| {
        let admin = start(node, Some(node.http.as_ref().unwrap().purging(Some(TOKEN))));
        let page = get(
            &admin,
            "/console/lookup?url=http%3A%2F%2Fexample.test%2Fa",
            &[],
        )
        .text();
        admin.stop();
        let page: Value = serde_json::from_str(&page).unwrap();
        let lines = page["stored"].as_array().cloned().unwrap_or_default();
        lines
            .iter()
            .map(|line| line.as_str().unwrap().to_owned())
            .collect::<Vec<String>>()
    };
    let node = Node::with(&config);
    let mut client = Client::new(&node);
    for (language, secret) in [("fr", "secret=1"), ("de", "secret=2")] {
        let fields = [
            ("accept-language", language),
            ("cookie", secret),
            ("x-api-key", secret),
        ];
        assert_eq!(client.send("GET", "/a", &fields, b"").status, 200);
    }
    client.get("/a");
    node.await_figure("stored", 3);
    let check = |lines: &[String], place: &str| {
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(
            lines
                .iter()
                .all(|line| line.contains(place) && line.contains("bytes 3")),
            "{lines:?}"
        );
        assert!(
            lines.iter().all(|line| !line.contains("secret")),
            "{lines:?}"
        );
        for part in [
            "for accept-language: fr",
            "for accept-language: de",
            "for requests without accept-language",
            "for cookie: (hidden)",
            "for x-api-key: (hidden)",
        ] {
            assert!(
                lines.iter().any(|line| line.contains(part)),
                "{part}: {lines:?}"
            );
        }
    };
    check(&look_up(&node), "in memory and on disk");
    assert_eq!(
        (origin.requests(), node.status()["requests"].as_u64()),
        (3, Some(3))
    );
    drop(node);
    let node = Node::with(&config);
    check(&look_up(&node), "on disk");
    assert_eq!(
        (origin.requests(), node.status()["requests"].as_u64()),
        (3, Some(0))
    );
}

/// Failure: a figure of the status page has another name than the console reads, which then draws
/// and warns of nothing.
#[test]
fn a_figure_that_the_console_reads_is_not_on_the_status_page() {
    let folder = tempfile::tempdir().unwrap();
    let disk = DiskConfig {
        path: folder.path().join("tier"),
        capacity: ByteSize::from_mib(8),
        policy: "fifo".parse().unwrap(),
        queue: ByteSize::from_mib(8),
    };
    let node = Node::with(&HttpConfig {
        disk: Some(disk),
        ..wire::config(larder_proxy::Upstream::Generated)
    });
    let page = serde_json::json!({ "http": node.status() });
    let read: Vec<&str> = Console::pointers()
        .filter(|pointer| pointer.starts_with("/http/"))
        .collect();
    assert!(read.len() > 20, "{read:?}");
    for pointer in read {
        assert!(page.pointer(pointer).is_some(), "{pointer}");
    }
}
