//! Failure: a rule does not apply, applies to another request, or is lost where a plain hit answers
//! before hyper.

use crate::wire::{self, Asked, Client, Node, Origin, Seen, say};
use http::Method;
use larder_proxy::rules::{RequestFields, Rule, RuleRequest, Rules};
use larder_proxy::{Http, HttpConfig, Upstream, normal_target};
use larder_tier_host::DiskConfig;
use larder_units::ByteSize;
use proptest::collection::vec;
use proptest::prelude::*;
use std::sync::{Arc, Mutex};

/// Reads the table of a file.
pub fn rules(text: &str) -> Vec<Rule> {
    #[derive(serde::Deserialize)]
    struct Table {
        rules: Vec<Rule>,
    }
    toml::from_str::<Table>(text)
        .unwrap_or_else(|error| panic!("{error}"))
        .rules
}

fn config(origin: &Origin, text: &str) -> HttpConfig {
    HttpConfig {
        rules: rules(text),
        ..wire::config(Upstream::Http(
            format!("http://{}", origin.address).parse().unwrap(),
        ))
    }
}

/// An origin that answers with these fields and remembers the requests.
fn origin(fields: &'static str) -> (Origin, Arc<Mutex<Vec<Asked>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let origin = Origin::new(move |asked, stream| {
        seen.lock().unwrap().push(asked.clone());
        let status = if asked.line.contains("/missing") {
            "404 Not Found"
        } else {
            "200 OK"
        };
        say(
            stream,
            &format!("HTTP/1.1 {status}\r\n{fields}content-length: 4\r\n\r\nbody"),
        )
    });
    (origin, asked)
}

const CACHEABLE: &str =
    "cache-control: max-age=1000\r\ncontent-type: text/html; charset=utf-8\r\nserver: origin\r\n";

fn lines(seen: &Seen, name: &str) -> Vec<String> {
    seen.head
        .iter()
        .filter(|(field, _)| field == name)
        .map(|(_, value)| value.clone())
        .collect()
}

#[test]
fn a_request_with_a_login_gets_the_stored_page_or_its_page_is_stored() {
    let (origin, _) = origin(CACHEABLE);
    let node = Node::with(&config(
        &origin,
        "[[rules]]\ncookie = \"session_*\"\npass = true\n[[rules]]\npath = \"/img/*\"\npass = false",
    ));
    let mut client = Client::new(&node);
    let with = |cookie: &'static str| [("cookie", cookie)];
    assert!(!client.send("GET", "/a", &with("session_1=x"), b"").is_hit());
    assert!(
        !client.get("/a").is_hit(),
        "the page of the session was stored"
    );
    assert!(client.get("/a").is_hit());
    assert!(
        client
            .send("GET", "/a", &with("other=session_1"), b"")
            .is_hit()
    );
    let passed = client.send("GET", "/a", &with("a=b; session_1=x"), b"");
    assert!(!passed.is_hit(), "a page from the store for a session");
    assert!(
        passed.header("cache-status").contains("fwd=bypass"),
        "{passed:?}"
    );
    client.get("/img/a");
    assert!(
        client
            .send("GET", "/img/a", &with("session_1=x"), b"")
            .is_hit(),
        "the later rule does not count"
    );
}

#[test]
fn fields_differ_between_a_miss_a_plain_hit_and_a_hit_by_hyper() {
    let (origin, asked) = origin(CACHEABLE);
    let text = r#"
        [[rules]]
        response_headers = { set = { X-Frame-Options = "DENY", Server = "edge" }, append = { X-Host = "$host$uri" } }
        request_headers = { set = { X-Real-IP = "$remote_addr" }, remove = ["X-Secret"] }
        [[rules]]
        content_type = "text/html"
        response_headers = { set = { X-Type = "html" } }
        [[rules]]
        content_type = "image/*"
        response_headers = { set = { X-Type = "image" } }
        [[rules]]
        status = "4xx"
        response_headers = { set = { X-Error = "yes" } }
        [[rules]]
        host = "other.test"
        response_headers = { remove = ["X-Frame-Options"] }
    "#;
    let node = Node::with(&config(&origin, text));
    let mut client = Client::new(&node);
    let miss = client.send(
        "GET",
        "/a",
        &[("x-secret", "1"), ("x-real-ip", "6.6.6.6")],
        b"",
    );
    let sent = asked.lock().unwrap()[0].clone();
    assert_eq!(
        (sent.header("x-secret"), sent.header("x-real-ip")),
        (None, Some("127.0.0.1"))
    );
    let (plain, by_hyper) = (
        client.get("/a"),
        client.send("GET", "/a", &[("cache-control", "max-stale=1")], b""),
    );
    assert!(plain.is_hit() && by_hyper.is_hit());
    let part = client.send("GET", "/a", &[("range", "bytes=0-1")], b"");
    assert_eq!((part.status, part.text()), (206, "bo".to_owned()));
    for seen in [&miss, &plain, &by_hyper, &part] {
        assert_eq!(lines(seen, "x-frame-options"), ["DENY"], "{seen:?}");
        assert_eq!(lines(seen, "server"), ["edge"], "{seen:?}");
        assert_eq!(lines(seen, "x-host"), ["example.test/a"], "{seen:?}");
        assert_eq!(lines(seen, "x-type"), ["html"], "{seen:?}");
        assert_eq!(lines(seen, "x-error"), [""; 0], "{seen:?}");
    }
    assert_eq!(lines(&client.get("/missing"), "x-error"), ["yes"]);
    client.host = "other.test".to_owned();
    assert_eq!(lines(&client.get("/a"), "x-frame-options"), [""; 0]);
    assert_eq!(lines(&client.get("/a"), "x-frame-options"), [""; 0]);
}

#[test]
fn a_redirect_is_lost_or_hides_another_page() {
    let (origin, _) = origin(CACHEABLE);
    let text = r#"
        [[rules]]
        host = "*.old.test"
        redirect = "https://new.test$request_uri"
        redirect_status = 301
        [[rules]]
        path = ["/blog/*/page/*", "/b/*/*"]
        redirect = "/posts/$1?page=$2"
        [[rules]]
        path = "/*"
        scheme = "https"
        redirect = "/never"
    "#;
    let node = Node::with(&config(&origin, text));
    let mut client = Client::new(&node);
    let location = |seen: Seen| (seen.status, seen.header("location").to_owned());
    for _ in 0..2 {
        assert_eq!(client.get("/a").status, 200);
        assert_eq!(
            location(client.get("/blog/x/page/2")),
            (302, "/posts/x?page=2".to_owned())
        );
        assert_eq!(
            location(client.get("/b/%0d%0ax%20/2")),
            (302, "/posts/%0d%0ax%20?page=2".to_owned())
        );
    }
    client.host = "www.old.test:8080".to_owned();
    assert_eq!(
        location(client.get("/a?b=c")),
        (301, "https://new.test/a?b=c".to_owned())
    );
}

/// Failure: the origin gets the client's path; or a page is stored under another URL, so that a
/// purge of the client's URL does not find it.
#[test]
fn a_rewritten_request_reaches_the_origin_as_it_was() {
    let (origin, asked) = origin(CACHEABLE);
    let text = r#"
        [[rules]]
        path = "/api/*"
        rewrite = "/v2/$1$is_args$args"
        rewrite_host = "backend.test"
    "#;
    let node = Node::with(&config(&origin, text));
    let mut client = Client::new(&node);
    assert_eq!(client.get("/api/users?id=1").status, 200);
    assert!(client.get("/api/users?id=1").is_hit());
    assert!(
        !client.get("/v2/users?id=1").is_hit(),
        "the key is not the client's URL"
    );
    let asked = asked.lock().unwrap();
    assert_eq!(asked[0].line, "GET /v2/users?id=1 HTTP/1.1");
    assert_eq!(asked[0].header("host"), Some("backend.test"));
    assert_eq!(asked[0].header("x-forwarded-host"), Some("example.test"));
    assert_eq!(asked[1].header("host"), Some("example.test"));
}

/// Failure: a connection keeps the rules that it began with.
#[test]
fn a_reload_does_not_reach_an_open_connection() {
    let (origin, _) = origin(CACHEABLE);
    let with = |value: &str| {
        config(
            &origin,
            &format!("[[rules]]\nresponse_headers = {{ set = {{ X-Rules = \"{value}\" }} }}"),
        )
    };
    let node = Node::with(&with("one"));
    let mut client = Client::new(&node);
    client.get("/a");
    assert_eq!(client.get("/a").header("x-rules"), "one");
    let http = node.http.as_ref().unwrap();
    http.take_over(http.reload(&with("two")).unwrap()).unwrap();
    assert_eq!(client.get("/a").header("x-rules"), "two");
    http.take_over(
        http.reload(&HttpConfig {
            rules: Vec::new(),
            ..with("")
        })
        .unwrap(),
    )
    .unwrap();
    assert_eq!(client.get("/a").header("x-rules"), "");
}

/// Failure: a connection that asks several hosts, or that a reload finds open, gets the rules of
/// the host that it asked before.
#[test]
fn a_connection_gets_the_rules_of_another_host() {
    let (origin, _) = origin(CACHEABLE);
    let with = |host: &str| {
        let text = format!(
            "[[rules]]\nhost = \"{host}\"\nresponse_headers = {{ set = {{ X-Rules = \"{host}\" }} }}"
        );
        config(&origin, &text)
    };
    let node = Node::with(&with("one.test"));
    let mut client = Client::new(&node);
    let mut check = |host: &str| {
        // Misses, and then plain hits.
        for _ in 0..2 {
            for asked in [
                "one.test",
                "two.test",
                "two.test",
                "ONE.test:80",
                "one.test",
            ] {
                let is_same = asked.to_ascii_lowercase().starts_with(host);
                client.host = asked.to_owned();
                let seen = client.get("/a");
                assert_eq!(
                    seen.header("x-rules"),
                    if is_same { host } else { "" },
                    "{asked} by the rule of {host}"
                );
            }
        }
    };
    check("one.test");
    let http = node.http.as_ref().unwrap();
    http.take_over(http.reload(&with("two.test")).unwrap())
        .unwrap();
    // The last host was the one that had a rule before.
    check("two.test");
}

/// Failure: a response of the wrong status or type gets a lifetime; or a restart forgets it.
#[test]
fn a_lifetime_of_the_rules_is_lost() {
    let (origin, _) = origin("cache-control: max-age=0\r\ncontent-type: image/png\r\n");
    let text = r#"
        [[rules]]
        path = "/img/*"
        content_type = "image/*"
        ttl = "1h"
        [[rules]]
        path = "/text/*"
        content_type = "text/*"
        ttl = "1h"
        [[rules]]
        status = 404
        path = "/img/missing2"
        ttl = "10m"
    "#;
    let folder = tempfile::tempdir().unwrap();
    let disk = DiskConfig {
        path: folder.path().join("disk"),
        capacity: ByteSize::from_mib(64),
        policy: "fifo".parse().unwrap(),
        queue: ByteSize::from_mib(8),
    };
    let config = HttpConfig {
        disk: Some(disk),
        ..config(&origin, text)
    };
    let node = Node::with(&config);
    let mut client = Client::new(&node);
    for (target, is_stored) in [
        ("/img/a", true),
        ("/a", false),
        ("/text/a", false),
        ("/img/missing", false),
        ("/img/missing2", true),
    ] {
        client.get(target);
        assert_eq!(client.get(target).is_hit(), is_stored, "{target}");
    }
    assert_eq!(
        client
            .get("/img/a")
            .header("cache-status")
            .split("ttl=")
            .nth(1)
            .map(|ttl| ttl.len()),
        Some(4)
    );
    drop(node);
    let asked = origin.requests();
    // The rules are not needed any more.
    let node = Node::with(&HttpConfig {
        rules: Vec::new(),
        ..config
    });
    assert_eq!(Client::new(&node).get("/img/a").text(), "body");
    assert_eq!(
        origin.requests(),
        asked,
        "the lifetime is gone after a restart"
    );
}

#[test]
fn a_cookie_is_stored_unless_it_is_ignored() {
    let (origin, _) = origin("set-cookie: session=1\r\n");
    let text = r#"
        [[rules]]
        ttl = "1h"
        [[rules]]
        path = "/static/*"
        ignore = ["set-cookie"]
    "#;
    let node = Node::with(&config(&origin, text));
    let mut client = Client::new(&node);
    for _ in 0..2 {
        let seen = client.get("/a");
        assert_eq!(
            (seen.is_hit(), seen.header("set-cookie")),
            (false, "session=1")
        );
    }
    assert_eq!(client.get("/static/a").header("set-cookie"), "");
    let seen = client.get("/static/a");
    assert_eq!((seen.is_hit(), seen.header("set-cookie")), (true, ""));
    let login = client.send("POST", "/static/login", &[], b"");
    assert_eq!(
        login.header("set-cookie"),
        "session=1",
        "a login loses its cookie"
    );
}

/// Failure: a name with a final dot evades the rules of its host.
#[test]
fn a_final_dot_opens_a_host() {
    let (origin, _) = origin(CACHEABLE);
    let text = r#"
        [[rules]]
        host = ["admin.example", "*.intern.example"]
        deny = "all"
    "#;
    let node = Node::with(&config(&origin, text));
    for (host, status) in [
        ("admin.example", 403),
        ("admin.example.", 403),
        ("ADMIN.example.:80", 403),
        ("a.intern.example.", 403),
        ("other.example.", 200),
    ] {
        let seen = wire::raw(
            node.address,
            format!("GET /a HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes(),
        );
        assert!(
            seen.starts_with(&format!("HTTP/1.1 {status} ")),
            "{host}: {seen}"
        );
    }
}

/// Failure: a parameter outside of the key reaches the origin, so a client chooses what others get;
/// or the plain hit has another key than the miss.
#[test]
fn the_key_is_not_what_the_origin_got() {
    let (origin, asked) = origin(CACHEABLE);
    let text = r#"
        [[rules]]
        query_drop = ["utm_*", "fbclid"]
        query_sort = true
        [[rules]]
        path = "/few"
        query_keep = ["id"]
        [[rules]]
        path = "/lang"
        cookie_keep = ["lang"]
        [[rules]]
        path = "/bare"
        cookie_keep = []
        [[rules]]
        cookie = "login"
        pass = true
    "#;
    let node = Node::with(&config(&origin, text));
    let mut client = Client::new(&node);
    for (first, second) in [
        ("/a?utm_source=x&b=1&a=2", "/a?a=2&fbclid=3&b=1"),
        ("/a?utm_source=x", "/a"),
        ("/few?x=1&id=2", "/few?id=2&y"),
    ] {
        assert!(!client.get(first).is_hit(), "{first}");
        assert!(client.get(second).is_hit(), "{second}");
        assert!(
            client
                .send("GET", second, &[("cache-control", "max-stale=1")], b"")
                .is_hit(),
            "{second}"
        );
    }
    let lang =
        |client: &mut Client, cookie: &str| client.send("GET", "/lang", &[("cookie", cookie)], b"");
    assert!(!lang(&mut client, "lang=de; id=1").is_hit());
    let seen = lang(&mut client, "id=2; lang=de");
    assert_eq!((seen.is_hit(), seen.header("vary")), (true, "Cookie"));
    assert!(!lang(&mut client, "lang=en; id=1").is_hit());
    assert!(!lang(&mut client, "lang=de; login=1").is_hit());
    assert!(
        !client
            .send("GET", "/bare", &[("cookie", "a=1")], b"")
            .is_hit()
    );
    assert!(
        client
            .send("GET", "/bare", &[("cookie", "b=2")], b"")
            .is_hit()
    );
    let asked = asked.lock().unwrap();
    let lines: Vec<&str> = asked
        .iter()
        .map(|asked| asked.line.split(' ').nth(1).unwrap())
        .collect();
    assert_eq!(
        lines,
        [
            "/a?a=2&b=1",
            "/a",
            "/few?id=2",
            "/lang",
            "/lang",
            "/lang",
            "/bare"
        ]
    );
    let cookies: Vec<Option<&str>> = asked[3..]
        .iter()
        .map(|asked| asked.header("cookie"))
        .collect();
    assert_eq!(
        cookies,
        [
            Some("lang=de"),
            Some("lang=en"),
            Some("lang=de; login=1"),
            None
        ]
    );
}

/// Failure: a client that may not come is answered from the store; or one that may is refused.
#[test]
fn an_address_is_let_in_or_kept_out_wrongly() {
    let (origin, _) = origin(CACHEABLE);
    let text = r#"
        [[rules]]
        path = ["/admin", "/admin/*"]
        allow = "10.0.0.0/8"
        [[rules]]
        path = "/admin/health"
        allow = "all"
        [[rules]]
        path = "/there"
        deny = ["192.0.2.0/24", "127.0.0.1"]
        [[rules]]
        path = "/elsewhere"
        client = "192.0.2.0/24"
        deny = "all"
    "#;
    let node = Node::with(&config(&origin, text));
    let mut client = Client::new(&node);
    for _ in 0..2 {
        for (target, status) in [
            ("/admin", 403),
            ("/admin/x", 403),
            ("/%61dmin//x", 403),
            ("/admin/health", 200),
            ("/there", 403),
            ("/elsewhere", 200),
            ("/", 200),
        ] {
            assert_eq!(client.get(target).status, status, "{target}");
        }
    }
}

/// Failure: hits are not counted, or counted twice; or the answer does not say when to come again.
#[test]
fn requests_pass_the_limit() {
    let (origin, _) = origin(CACHEABLE);
    let text = r#"
        [[rules]]
        path = "/a"
        rate_limit = { rate = "1r/h", burst = 5 }
        [[rules]]
        path = "/key"
        rate_limit = { rate = "2r/h", by = "header:X-Key" }
    "#;
    let node = Node::with(&config(&origin, text));
    let mut client = Client::new(&node);
    let seen: Vec<(u16, bool)> = (0..7)
        .map(|_| client.get("/a"))
        .map(|seen| (seen.status, seen.is_hit()))
        .collect();
    let mut expected = vec![(200, true); 5];
    expected[0] = (200, false);
    expected.extend([(429, false); 2]);
    assert_eq!(seen, expected);
    let seconds: u64 = client.get("/a").header("retry-after").parse().unwrap();
    assert!((3000..=3600).contains(&seconds), "{seconds}");
    assert_eq!(client.get("/b").status, 200);
    let mut with_key = |key| client.send("GET", "/key", &[("x-key", key)], b"").status;
    assert_eq!(
        ["1", "1", "1", "2", "2", "2"].map(&mut with_key),
        [200, 200, 429, 200, 200, 429]
    );
}

/// Failure: nobody can tell from an answer of the node itself that it is one, and why it came.
#[test]
fn an_answer_of_the_node_itself_does_not_say_why_it_came() {
    let (origin, _) = origin(CACHEABLE);
    let text = r#"
        [[rules]]
        path = "/denied"
        deny = "all"
        [[rules]]
        path = "/seldom"
        rate_limit = { rate = "1r/h" }
        [[rules]]
        path = "/moved"
        redirect = "/there"
        [[rules]]
        path = "/small"
        client_body_size = "10B"
    "#;
    let node = Node::with(&config(&origin, text));
    let mut client = Client::new(&node);
    client.get("/seldom");
    let body = [b'x'; 100];
    for (method, path, status, why) in [
        ("GET", "/denied", 403, "access-denied"),
        ("GET", "/seldom", 429, "rate-limit"),
        ("GET", "/moved", 302, "redirect"),
        ("POST", "/small", 413, "request-too-large"),
    ] {
        let sent: &[u8] = if method == "POST" { &body } else { b"" };
        let seen = client.send(method, path, &[], sent);
        assert_eq!(seen.status, status, "{path}: {seen:?}");
        let whole = format!("larder; detail={why}");
        assert_eq!(lines(&seen, "cache-status"), [whole], "{path}");
        let plain = (!seen.body.is_empty()).then(|| "text/plain; charset=utf-8".to_owned());
        let types: Vec<String> = plain.into_iter().collect();
        assert_eq!(lines(&seen, "content-type"), types, "{path}");
        assert_eq!(seen.body.is_empty(), why == "redirect", "{path}");
    }
}

/// Failure: the page of another status, or half of the old body.
#[test]
fn an_error_has_the_wrong_page() {
    let (origin, _) = origin("etag: \"1\"\r\ncache-control: max-age=1000\r\n");
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("missing.html");
    std::fs::write(&page, "<p>nothing here, nor there</p>").unwrap();
    let text = format!(
        "[[rules]]\nstatus = \"4xx\"\nerror_page = {page:?}\n[[rules]]\npath = \"/forbidden\"\ndeny = \"all\"\n\
         [[rules]]\nstatus = \"5xx\"\nerror_page = {page:?}"
    );
    let node = Node::with(&config(&origin, &text));
    let mut client = Client::new(&node);
    for _ in 0..2 {
        for target in ["/missing", "/forbidden"] {
            let seen = client.get(target);
            assert_eq!(seen.text(), "<p>nothing here, nor there</p>", "{target}");
            assert_eq!(
                (seen.header("content-type"), seen.header("etag")),
                ("text/html; charset=utf-8", "")
            );
        }
        let head = client.send("HEAD", "/missing", &[], b"");
        assert_eq!((head.status, head.header("content-length")), (404, "30"));
        assert_eq!(client.get("/a").text(), "body");
    }
    let missing = rules("[[rules]]\nstatus = 500\nerror_page = \"/no/such/page\"");
    let refused = Http::start(
        &HttpConfig {
            rules: missing,
            ..wire::config(Upstream::Generated)
        },
        || (),
    );
    let refused = refused.err().expect("a refusal").to_string();
    assert!(
        refused.contains("error_page") && refused.contains("/no/such/page"),
        "{refused}"
    );
}

proptest! {
    /// Failure: the index finds other rules than a look at each of them.
    #[test]
    fn the_index_finds_other_rules_than_a_look_at_each(
        conditions in vec((0..7_usize, 0..12_usize, 0..3_usize, 0..3_usize), 1..20),
        host in prop_oneof![Just("a.test"), Just("A.test:80"), Just("b.a.test"), Just("a.test:8080"), Just("c.test")],
        path in "(/[ab.]{0,2}){1,4}(\\.jpg|\\.html|x)?",
        is_post: bool,
    ) {
        const HOSTS: [&str; 7] = ["", "a.test", "*.test", "*.a.test", "a.test:8080", "b.a.test", "c.test"];
        const PATHS: [&str; 12] =
            ["", "/", "/*", "*", "*.jpg", "*.jpeg-large-file", "/a*", "/a/*", "/a", "/*/b", "/a/*.html", "*b*"];
        const METHODS: [&str; 3] = ["", "GET", "POST"];
        let method = if is_post { Method::POST } else { Method::GET };
        let Ok(path) = normal_target(&path) else { return Ok(()) };
        let request = |host| RuleRequest {
            scheme: "http",
            host,
            target: (*path).into(),
            method: &method,
            client: [127, 0, 0, 1].into(),
            fields: RequestFields::Parsed(&[]),
        };
        let mut expected = Vec::new();
        let mut text = String::new();
        for (number, (of_host, of_path, of_method, of_scheme)) in conditions.iter().enumerate() {
            let scheme = ["", "http", "https"][*of_scheme];
            let (wanted_host, wanted_path, wanted_method) = (HOSTS[*of_host], PATHS[*of_path], METHODS[*of_method]);
            text.push_str("[[rules]]\n");
            for (key, value) in
                [("host", wanted_host), ("path", wanted_path), ("method", wanted_method), ("scheme", scheme)]
            {
                if !value.is_empty() {
                    text.push_str(&format!("{key} = {value:?}\n"));
                }
            }
            let name = host.to_ascii_lowercase().replace(":80", if host.ends_with(":8080") { ":80" } else { "" });
            let bare = name.split(':').next().unwrap();
            let host_fits = match wanted_host.strip_prefix('*') {
                _ if wanted_host.is_empty() => true,
                Some(domain) => bare.ends_with(domain) && bare.len() > domain.len(),
                None if wanted_host.contains(':') => name == wanted_host,
                None => bare == wanted_host,
            };
            let normal = normal_path(&path);
            let fits = host_fits
                && (wanted_path.is_empty() || glob(wanted_path.as_bytes(), normal.as_bytes()))
                && (wanted_method.is_empty() || wanted_method == method.as_str())
                && scheme != "https";
            if fits {
                expected.push(number + 1);
            }
        }
        let rules = Rules::new(rules(&text)).unwrap();
        let (request, none) = (request(host), http::HeaderMap::new());
        let found = rules.explain(&request, &none, http::StatusCode::OK, &none).rules;
        let found: Vec<usize> = found.iter().map(|rule| rule.number).collect();
        prop_assert_eq!(found, expected, "{} {} {}", host, path, text);
    }
}

/// RFC 3986 §5.2.4, and no empty segments.
fn normal_path(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for segment in path[1..].split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(kept.pop()),
            _ => kept.push(segment),
        }
    }
    let is_folder = ["/", "/.", "/.."].iter().any(|end| path.ends_with(end)) && !kept.is_empty();
    format!("/{}{}", kept.join("/"), if is_folder { "/" } else { "" })
}

fn glob(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => {
            glob(rest, text) || !text.is_empty() && glob(pattern, &text[1..])
        }
        (Some((a, pattern)), Some((b, text))) => a == b && glob(pattern, text),
        _ => false,
    }
}

#[test]
fn a_contradiction_is_accepted() {
    for (text, part) in [
        ("status = 404\nredirect = \"/\"", "redirect"),
        ("status = 200\nerror_page = \"/x\"", "statuses from 400"),
        ("redirect_status = 301", "needs redirect"),
        ("path = \"/a\"\nredirect = \"/$1\"", "that many *"),
        ("cookie = \"a\"\nrewrite = \"/b\"", "pass = true"),
        (
            "client = \"10.0.0.0/8\"\nrequest_headers = { set = { X-A = \"b\" } }",
            "pass = true",
        ),
    ] {
        let errors = Rules::new(rules(&format!("[[rules]]\n{text}")))
            .err()
            .unwrap_or_else(|| panic!("{text}"));
        assert!(
            errors[0].to_string().contains(part),
            "{text}: {}",
            errors[0]
        );
    }
}
