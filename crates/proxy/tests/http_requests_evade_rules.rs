//! Failure: rules, the key, the log or the origin read a request in another way than the others,
//! so that a client reaches what a rule denies, or decides what others get.

use crate::wire::http2::{Http2, pseudo};
use crate::wire::{self, Asked, Node, Origin, raw, say};
use larder_proxy::rules::Rule;
use larder_proxy::{HttpConfig, TrustedProxies, Upstream};
use std::sync::{Arc, Mutex};

fn rules(text: &str) -> Vec<Rule> {
    #[derive(serde::Deserialize)]
    struct Table {
        rules: Vec<Rule>,
    }
    toml::from_str::<Table>(text)
        .unwrap_or_else(|error| panic!("{error}"))
        .rules
}

/// A node with rules, before an origin that remembers the requests.
struct Guarded {
    node: Node,
    asked: Arc<Mutex<Vec<Asked>>>,
    _origin: Origin,
}

impl Guarded {
    fn new(rules: &str) -> Guarded {
        Guarded::with(rules, "", |config| config)
    }

    /// `prefix` is the path of the origin's URL.
    fn with(text: &str, prefix: &str, change: impl FnOnce(HttpConfig) -> HttpConfig) -> Guarded {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        let origin = Origin::new(move |asked, stream| {
            seen.lock().unwrap().push(asked.clone());
            say(
                stream,
                "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: 2\r\n\r\nok",
            )
        });
        let upstream = Upstream::Http(
            format!("http://{}{prefix}", origin.address)
                .parse()
                .unwrap(),
        );
        let config = HttpConfig {
            rules: rules(text),
            ..wire::config(upstream)
        };
        Guarded {
            node: Node::with(&change(config)),
            asked,
            _origin: origin,
        }
    }

    /// Returns the answer to these bytes.
    fn raw(&self, bytes: &[u8]) -> String {
        raw(self.node.address, bytes)
    }

    /// Returns the answer to a GET of this target.
    fn get(&self, target: &str) -> String {
        self.raw(
            format!("GET {target} HTTP/1.1\r\nhost: example.test\r\nconnection: close\r\n\r\n")
                .as_bytes(),
        )
    }

    /// Returns the answer to a GET with these lines.
    fn get_with(&self, target: &str, lines: &str) -> String {
        self.raw(format!("GET {target} HTTP/1.1\r\n{lines}connection: close\r\n\r\n").as_bytes())
    }

    /// Returns the requests that the origin got since.
    fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }

    /// Returns the target that the origin got, if it got one request.
    fn target(&self) -> Option<String> {
        let asked = self.asked();
        assert!(asked.len() < 2, "{asked:?}");
        asked
            .first()
            .map(|asked| asked.line.split(' ').nth(1).unwrap_or_default().to_owned())
    }
}

fn status(answer: &str) -> u16 {
    answer
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .unwrap_or_else(|| panic!("{answer:?}"))
}

const DENY_ADMIN: &str = "[[rules]]\npath = [\"/admin\", \"/admin/*\"]\ndeny = \"all\"";
const DENY_ALL: &str = "[[rules]]\npath = \"/*\"\ndeny = \"all\"";

#[test]
fn a_target_without_a_path_evades_every_rule() {
    let guarded = Guarded::new(DENY_ALL);
    for line in [
        "GET http://example.test?x=1",
        "GET http://example.test",
        "GET http://example.test?",
        "GET /?x=1",
    ] {
        let answer = guarded.raw(
            format!("{line} HTTP/1.1\r\nhost: example.test\r\nconnection: close\r\n\r\n")
                .as_bytes(),
        );
        assert_eq!(status(&answer), 403, "{line}: {answer}");
    }
    for path in ["?x=1", "?", "/?x=1", "/"] {
        let mut client = Http2::new(&guarded.node);
        let stream = client.head(&pseudo("GET", path), true);
        assert_eq!(client.answer(stream).status, Some(403), "{path}");
    }
    assert_eq!(guarded.asked().len(), 0);
}

#[test]
fn the_origins_prefix_is_dropped_with_the_path() {
    let guarded = Guarded::with(
        "[[rules]]\npath = \"/\"\nresponse_headers = { set = { X-Rule = \"yes\" } }",
        "/public",
        |c| c,
    );
    let answer = guarded.raw(
        b"GET http://example.test?x=1 HTTP/1.1\r\nhost: example.test\r\nconnection: close\r\n\r\n",
    );
    assert!(answer.contains("x-rule: yes"), "{answer}");
    assert_eq!(guarded.target().as_deref(), Some("/public/?x=1"));
}

#[test]
fn a_fragment_reaches_the_origin_or_the_key() {
    let guarded = Guarded::new(DENY_ADMIN);
    for (line, target) in [
        ("GET http://example.test#", "/"),
        ("GET http://example.test#f", "/"),
        ("GET /a#b", "/a"),
        ("GET http://example.test/b?c#?d", "/b?c"),
    ] {
        let answer = guarded.raw(
            format!("{line} HTTP/1.1\r\nhost: example.test\r\nconnection: close\r\n\r\n")
                .as_bytes(),
        );
        match guarded.target() {
            Some(asked) => assert_eq!(asked, target, "{line}"),
            None => assert!(
                status(&answer) == 400 || answer.contains("; hit"),
                "{line}: {answer}"
            ),
        }
    }
    let mut client = Http2::new(&guarded.node);
    for path in ["#", "#/admin", "/admin#", "*#"] {
        let stream = client.head(&pseudo("GET", path), true);
        let answer = client.answer(stream);
        assert!(
            matches!(answer.status, None | Some(200 | 400 | 403)),
            "{path}: {answer:?}"
        );
        assert!(
            guarded
                .asked()
                .iter()
                .all(|asked| asked.line == "GET / HTTP/1.1"),
            "{path}"
        );
    }
}

/// Every spelling that some server reads as a path below `/admin`.
const SPELLINGS: &[&str] = &[
    "/admin/x",
    "/%61dmin/x",
    "//admin/x",
    "///admin//x",
    "/./admin/x",
    "/.//admin/x",
    "/y/../admin/x",
    "/y/%2e%2e/admin/x",
    "/y/.%2E/admin/x",
    "/admin%2fx",
    "/admin%2Fx",
    "/admin%5cx",
    "/admin\\x",
    "/\\admin/x",
    "\\admin\\x",
    "/admin/dashboard/../../x",
    "/admin/dashboard/%2e%2e/../x",
    "/admin/..%2f..%2fx",
    "/admin/..%2fx",
    "/admin%2f..%2fx",
    "/admin/%2e%2e%2fx",
    "/admin/..%5cx",
    "/admin/..\\x",
    "/admin\\..\\x",
    "/admin//../secret",
    "/admin/./%2e/secret",
    "/y//../admin/x",
    "/admin/.;/x",
    "/y/..;/admin/x",
    "/admin/..;a=b/x",
    "/y/%2e%2e%3b/admin/x",
    "/y%2f../admin/x",
    "/y%5c..%5cadmin/x",
    "/y%2f/../admin/x",
    "/admin%00/x",
    "/admin/x%00.png",
];

#[test]
fn spellings_of_a_path_evade_a_rule_or_reach_the_origin_in_another_form() {
    let guarded = Guarded::new(DENY_ADMIN);
    for spelling in SPELLINGS {
        let answer = guarded.get(spelling);
        let Some(target) = guarded.target() else {
            // Or it is an earlier one's.
            assert!(
                matches!(status(&answer), 400 | 403) || answer.contains("; hit"),
                "{spelling}: {answer}"
            );
            continue;
        };
        // No server reads this as a path below /admin.
        let plain = target.starts_with('/')
            && !target.starts_with("//")
            && !target.to_lowercase().contains("admin");
        let odd = ["..", "/./", "\\", "%2e", "%5c", "%00", ";"]
            .iter()
            .any(|odd| target.to_lowercase().contains(odd));
        assert!(plain && !odd, "{spelling}: the origin got {target}");
    }
}

#[test]
fn an_allowed_path_opens_others_by_its_spelling() {
    let guarded =
        Guarded::new("[[rules]]\ndeny = \"all\"\n[[rules]]\npath = \"/public/*\"\nallow = \"all\"");
    for spelling in [
        "/public/../admin",
        "/public/%2e%2e/admin",
        "/public/..%2fadmin",
        "/public%2f..%2fadmin",
        "/public/..\\admin",
        "/public/..%5cadmin",
        "/public/..;/admin",
        "/admin/..%2fpublic/x",
        "/admin/..\\public/x",
        "/admin%2f../public/x",
        "/admin//../public/x",
        "//public/../admin",
    ] {
        let answer = guarded.get(spelling);
        assert!(matches!(status(&answer), 400 | 403), "{spelling}: {answer}");
        assert_eq!(guarded.target(), None, "{spelling}");
    }
    // An authority for servers that read a target as a reference (RFC 3986 §4.2).
    let answer = guarded.get("//public/admin/secret");
    assert_eq!(status(&answer), 200);
    assert_eq!(guarded.target().as_deref(), Some("/public/admin/secret"));
}

#[test]
fn each_effect_of_a_rule_counts_for_every_spelling() {
    for (rule, expected) in [
        ("rate_limit = { rate = \"1r/h\" }", 429),
        ("client_body_size = \"1\"", 413),
        ("redirect = \"/login\"", 302),
        ("allow = \"192.0.2.1\"", 403),
    ] {
        let guarded = Guarded::new(&format!(
            "[[rules]]\npath = [\"/admin\", \"/admin/*\"]\n{rule}"
        ));
        if expected == 429 {
            guarded.get("/admin/x");
            guarded.asked();
        }
        for spelling in SPELLINGS {
            let request = format!(
                "POST {spelling} HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 2\r\n\r\nab"
            );
            let answer = guarded.raw(request.as_bytes());
            let refused = [400, expected].contains(&status(&answer));
            let target = guarded.target().unwrap_or_default().to_lowercase();
            assert!(
                refused || !target.contains("admin"),
                "{rule}: {spelling}: {answer} {target}"
            );
        }
    }
}

#[test]
fn a_joined_path_climbs_above_its_prefix() {
    let by_origin = Guarded::with(
        "[[rules]]\nhost = \"none.test\"\npass = true",
        "/public",
        |config| config,
    );
    let by_rewrite = Guarded::new("[[rules]]\nrewrite = \"/public$uri\"");
    let by_capture = Guarded::new("[[rules]]\npath = \"/f*/x\"\nrewrite = \"/public/$1/y\"");
    for guarded in [&by_origin, &by_rewrite, &by_capture] {
        for target in [
            "/../private/s.txt",
            "/%2e%2e/private/s.txt",
            "/..%2fprivate/s.txt",
            "/.%2e/private/s.txt",
            "/a/../../private/s.txt",
            "/..\\private/s.txt",
            "/f../x",
            "/f%2e%2e/x",
            "/f..%2f../x",
            "/f..;/x",
        ] {
            guarded.get(target);
            let Some(asked) = guarded.target() else {
                continue;
            };
            let inside = !std::ptr::eq(guarded, &by_capture) || !asked.starts_with("/public/..");
            let inside =
                inside && (std::ptr::eq(guarded, &by_capture) || asked.starts_with("/public/"));
            let climbs = asked
                .split('/')
                .any(|segment| segment.replace("%2e", ".").trim_end_matches(';') == "..");
            assert!(inside && !climbs, "{target}: {asked}");
        }
    }
}

#[test]
fn a_rewrite_that_fails_sends_the_clients_own_target() {
    let guarded = Guarded::new("[[rules]]\npath = \"/f*/x\"\nrewrite = \"/public/$1/y\"");
    let answer = guarded.get("/f../x");
    assert_eq!((status(&answer), guarded.target()), (400, None), "{answer}");
}

#[test]
fn connection_removes_what_the_node_sets() {
    let guarded = Guarded::with(
        "[[rules]]\nrequest_headers = { set = { X-Real-IP = \"$remote_addr\", X-Tenant = \"a\" } }",
        "",
        |config| HttpConfig {
            request_id: larder_proxy::RequestIdSource::Generate,
            ..config
        },
    );
    let named = "x-real-ip, X-Tenant, x-request-id, x-forwarded-for, x-forwarded-host, x-forwarded-proto, host, cdn-loop, via";
    let lines = format!(
        "host: example.test\r\nx-real-ip: 6.6.6.6\r\nx-own: 1\r\nconnection: {named}, x-own\r\n"
    );
    guarded.get_with("/a", &lines);
    let asked = guarded.asked().remove(0);
    for (name, value) in [
        ("x-real-ip", "127.0.0.1"),
        ("x-tenant", "a"),
        ("x-forwarded-for", "127.0.0.1"),
        ("x-forwarded-host", "example.test"),
        ("x-forwarded-proto", "http"),
        ("host", "example.test"),
    ] {
        assert_eq!(asked.header(name), Some(value), "{name}: {asked:?}");
    }
    assert!(
        asked.header("x-request-id").is_some() && asked.header("cdn-loop").is_some(),
        "{asked:?}"
    );
    assert_eq!(asked.header("x-own"), None, "it belongs to the connection");
}

/// Names that CGI, WSGI, PHP or Apache take for the same variable as a field that a rule sets.
#[test]
fn another_spelling_of_a_name_survives_what_a_rule_sets() {
    let guarded = Guarded::with(
        "[[rules]]\nrequest_headers = { set = { X-Real-IP = \"$remote_addr\" }, remove = [\"X-Secret\"] }",
        "",
        |config| HttpConfig {
            request_id: larder_proxy::RequestIdSource::Generate,
            ..config
        },
    );
    for name in [
        "x_real_ip",
        "X-Real_IP",
        "x.real.ip",
        "x_secret",
        "x.secret",
        "X_Request_Id",
        "x-request.id",
    ] {
        guarded.get_with(
            &format!("/{name}"),
            &format!("host: example.test\r\n{name}: 6.6.6.6\r\n"),
        );
        let asked = guarded.asked().remove(0);
        assert!(
            asked.head.iter().all(|(_, value)| value != "6.6.6.6"),
            "{name}: {asked:?}"
        );
    }
}

#[test]
fn hosts_that_are_none_evade_a_host_rule() {
    let guarded = Guarded::new("[[rules]]\nhost = \"secret.test\"\ndeny = \"all\"");
    for host in [
        "secret.test",
        "SECRET.test",
        "secret.test.",
        "secret.test..",
        "secret.test:80",
        "secret.test.:80",
        "secret.test:",
        "secret.test:080",
        "secret.test:99999",
        "[secret.test]",
        "[secret.test]:80",
        "secret.test,t.example",
        "t.example,secret.test",
        "secret.test;",
        "secret.test%2e",
        "%73ecret.test",
        "secret.test/",
        "user@secret.test",
        ".secret.test",
        "secret..test",
        "",
        "[::1",
        "[::g]",
        "[v1.a]",
        "::1",
    ] {
        let answer = guarded.get_with("/", &format!("host: {host}\r\n"));
        assert!(matches!(status(&answer), 400 | 403), "{host}: {answer}");
        let lines =
            format!("GET http://{host}/ HTTP/1.1\r\nhost: t.example\r\nconnection: close\r\n\r\n");
        let answer = guarded.raw(lines.as_bytes());
        assert!(
            answer.is_empty() || matches!(status(&answer), 400 | 403),
            "{host}: {answer}"
        );
        assert_eq!(guarded.asked().len(), 0, "{host}");
    }
    for (host, told) in [
        ("A.example.", "a.example"),
        ("a.example:80", "a.example"),
        ("a_b.example", "a_b.example"),
        ("a.example.:8080", "a.example:8080"),
        ("[::1]:8080", "[::1]:8080"),
        ("[0:0::1]", "[::1]"),
        ("192.0.2.1", "192.0.2.1"),
    ] {
        let answer = guarded.get_with(&format!("/{host}"), &format!("host: {host}\r\n"));
        assert_eq!(status(&answer), 200, "{host}: {answer}");
        assert_eq!(guarded.asked().remove(0).header("host"), Some(told));
        assert!(
            guarded
                .get_with(&format!("/{host}"), &format!("host: {told}\r\n"))
                .contains("; hit"),
            "{host}"
        );
    }
}

#[test]
fn letters_of_a_method_evade_a_rule() {
    let guarded = Guarded::new(
        "[[rules]]\nmethod = \"POST\"\ndeny = \"all\"\n[[rules]]\npath = \"/got\"\nmethod = \"GET\"\ndeny = \"all\"",
    );
    for method in ["POST", "post", "Post", "pOST"] {
        let request = format!(
            "{method} /x HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 2\r\n\r\nab"
        );
        let answer = guarded.raw(request.as_bytes());
        assert!(matches!(status(&answer), 400 | 403), "{method}: {answer}");
    }
    let head = guarded.raw(b"HEAD /got HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    assert_eq!(status(&head), 403, "a rule for GET is one for HEAD");
    assert_eq!(guarded.asked().len(), 0);
    guarded.raw(b"PROPFIND /x HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    assert_eq!(guarded.asked().len(), 1);
}

#[test]
fn a_cookie_is_another_one_for_php() {
    let guarded = Guarded::new("[[rules]]\ncookie = \"session_a\"\npass = true");
    for cookie in [
        "session_a=1",
        "session.a=1",
        "session a=1",
        "session[a=1",
        "x=y; session.a=1",
        "session_a",
    ] {
        let answer = guarded.get_with("/", &format!("host: a\r\ncookie: {cookie}\r\n"));
        assert!(answer.contains("fwd=bypass"), "{cookie}: {answer}");
    }
}

/// The refused upgrade and fields from which frameworks take scheme, host, path or length.
#[test]
fn fields_that_no_key_holds_reach_the_origin() {
    let guarded = Guarded::new("[[rules]]\nhost = \"none.test\"\npass = true");
    for name in [
        "X-Forwarded-Protocol",
        "Front-End-Https",
        "X-Scheme",
        "X-Url-Scheme",
        "X-Original-URI",
        "X.Forwarded.Host",
        "x_forwarded.host",
        "X~Forwarded~Host",
        "x.original.url",
        "content_length",
        "Content.Length",
        "transfer_encoding",
        "X_Http_Method",
        "HTTP2-Settings",
        "http2_settings",
    ] {
        guarded.get_with(&format!("/{name}"), &format!("host: a\r\n{name}: evil\r\n"));
        let asked = guarded.asked().remove(0);
        assert!(
            asked.head.iter().all(|(_, value)| value != "evil"),
            "{name}: {asked:?}"
        );
    }
    guarded.get_with(
        "/h2c",
        "host: a\r\nhttp2-settings: AAMAAABkAAQAAP__\r\nupgrade: h2c\r\nconnection: upgrade, http2-settings\r\n",
    );
    assert_eq!(guarded.asked().remove(0).header("http2-settings"), None);
}

#[test]
fn a_length_twice_or_none_is_forwarded() {
    let guarded = Guarded::new("[[rules]]\nhost = \"none.test\"\npass = true");
    for (number, lengths) in [&["0", "0"][..], &["0", "1"], &[""], &["+0"], &["0, 0"]]
        .iter()
        .enumerate()
    {
        let target = format!("/{number}");
        let mut fields = pseudo("GET", &target);
        fields.extend(lengths.iter().map(|length| ("content-length", *length)));
        let mut client = Http2::new(&guarded.node);
        let stream = client.head(&fields, true);
        assert!(client.answer(stream).is_refused(), "{lengths:?}");
        assert_eq!(guarded.asked().len(), 0, "{lengths:?}");
    }
}

#[test]
fn captures_lose_bytes() {
    let guarded = Guarded::new(
        r#"
        [[rules]]
        path = "/pl/*"
        rewrite = "/new/$1"
        [[rules]]
        path = "/api/queues/*"
        rewrite = "/q/$1"
        [[rules]]
        path = "/d/*"
        request_headers = { set = { X-Decoded = "$decoded_1", X-Raw = "$1", X-Host = "$host|$http_host" } }
    "#,
    );
    for (target, told) in [
        ("/pl/%e9", "/new/%e9"),
        ("/pl/%e8", "/new/%e8"),
        ("/pl/a%2Bb%3Bc+d;e", "/new/a%2Bb%3Bc+d;e"),
        ("/pl/a%20b", "/new/a%20b"),
        ("/pl/a//b", "/new/a//b"),
        ("/api/queues/%2F/name", "/q/%2F/name"),
        ("/api//queues/x", "/q/x"),
    ] {
        guarded.get(target);
        assert_eq!(guarded.target().as_deref(), Some(told), "{target}");
    }
    guarded.get_with("/d/a%2fb%20c", "host: A.example:8080\r\n");
    let asked = guarded.asked().remove(0);
    assert_eq!(asked.header("x-decoded"), Some("a/b c"));
    assert_eq!(asked.header("x-raw"), Some("a%2fb%20c"));
    assert_eq!(asked.header("x-host"), Some("a.example|a.example:8080"));
}

#[test]
fn bytes_that_can_be_encoded_are_refused() {
    let guarded = Guarded::new(DENY_ADMIN);
    for (target, told) in [
        (&b"/db/v?key=\"abc\""[..], "/db/v?key=%22abc%22"),
        (b"/a<b>`c", "/a%3Cb%3E%60c"),
        (b"/caf\xe9?q=\xe9", "/caf%E9?q=%E9"),
        (b"/caf\xc3\xa9", "/caf%C3%A9"),
        (b"/a{b}|c^d", "/a{b}|c^d"),
        (b"/100%", "/100%25"),
        (b"/%zz", "/%25zz"),
        (b"/ok?100%", "/ok?100%"),
    ] {
        let request = [
            b"GET ",
            target,
            b" HTTP/1.1\r\nhost: example.test\r\nconnection: close\r\n\r\n",
        ]
        .concat();
        for piece in [1, 3, request.len()] {
            let answer = wire::raw_in_pieces(guarded.node.address, &request, piece);
            assert_eq!(status(&answer), 200, "{told}: {answer}");
        }
        assert_eq!(
            guarded.target().as_deref(),
            Some(told),
            "one key, and one request"
        );
    }
    let answer =
        guarded.raw(b"GET /adm\xe9n/../admin/x HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    assert_eq!(status(&answer), 403);
    // Two requests on one connection; the second begins in the same read.
    let two = b"GET /1\xff HTTP/1.1\r\nhost: a\r\n\r\nGET /2\xff\xff HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    assert_eq!(guarded.raw(two).matches("HTTP/1.1 200").count(), 2);
    let answer = guarded.get("/a/..%2fb");
    assert!(
        answer.contains("larder: bad request: "),
        "the reason: {answer}"
    );
}

#[test]
fn an_address_is_believed_that_nobody_wrote() {
    let trusted = TrustedProxies::parse(["127.0.0.1"]).unwrap();
    let allow = "[[rules]]\npath = \"/in\"\nallow = \"127.0.0.1\"\n[[rules]]\npath = \"/limited\"\nrate_limit = { rate = \"1r/h\" }";
    let guarded = Guarded::with(allow, "", |config| HttpConfig {
        trusted_proxies: trusted,
        ..config
    });
    let get = |target: &str, lines: &[u8]| {
        let head = format!("GET {target} HTTP/1.1\r\nhost: a\r\n");
        guarded.raw(&[head.as_bytes(), lines, b"connection: close\r\n\r\n"].concat())
    };
    for lines in [
        &b"x-forwarded-for: \xff, 192.0.2.1\r\n"[..],
        b"x-forwarded-for: 192.0.2.1\xff\r\n",
        b"x-forwarded-for: 127.0.0.1, \xff\r\n",
        b"x-forwarded-for: 127.0.0.1, unknown\r\n",
        b"x-forwarded-for: 127.0.0.1,\r\n",
        b"x-forwarded-for: \r\n",
    ] {
        assert_eq!(
            status(&get("/in", lines)),
            403,
            "{}",
            String::from_utf8_lossy(lines)
        );
    }
    assert_eq!(status(&get("/in", b"")), 200, "the proxy itself");
    // What the client wrote before the proxy's element does not count, whatever it is.
    get("/limited", b"x-forwarded-for: \xfe, 192.0.2.7\r\n");
    assert_eq!(
        status(&get("/limited", b"x-forwarded-for: 192.0.2.8\r\n")),
        200
    );
    assert_eq!(
        status(&get("/limited", b"x-forwarded-for: x, 192.0.2.7\r\n")),
        429
    );
}

#[test]
fn another_virtual_host_is_reached_through_an_ordinary_proxy() {
    let trusted = TrustedProxies::parse(["127.0.0.1"]).unwrap();
    let guarded = Guarded::with(
        "[[rules]]\nhost = \"secret.test\"\ndeny = \"all\"",
        "",
        |config| HttpConfig {
            trusted_proxies: trusted,
            ..config
        },
    );
    guarded.get_with(
        "/",
        "host: t.example\r\nx-forwarded-for: 192.0.2.1\r\nx-forwarded-host: other.test\r\n",
    );
    assert_eq!(guarded.asked().remove(0).header("host"), Some("t.example"));
    guarded.get_with(
        "/f",
        "host: t.example\r\nforwarded: for=192.0.2.1;host=other.test\r\n",
    );
    assert_eq!(guarded.asked().remove(0).header("host"), Some("t.example"));
}

#[test]
fn a_purge_names_another_key_than_a_request() {
    let guarded = Guarded::new(DENY_ADMIN);
    guarded.get("/a/../b%2fc?x=\"");
    assert_eq!(guarded.target().as_deref(), Some("/b%2fc?x=%22"));
    assert!(guarded.get("/b%2fc?x=%22").contains("; hit"));
}
