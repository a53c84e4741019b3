//! Failure: a client gets bytes that it cannot decode, or the parts of two forms in one body; a
//! strong entity tag names two byte strings; a response that must stay as it came is coded.

use crate::wire::http2::Http2;
use crate::wire::{Asked, Client, Node, Origin, Seen, config, say};
use larder_http::ContentCoding;
use larder_proxy::{CompressionConfig, HttpConfig, Upstream};
use proptest::prelude::*;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

fn compressing(origin: &Origin) -> HttpConfig {
    HttpConfig {
        compression: CompressionConfig {
            codings: ContentCoding::ALL.to_vec(),
            ..CompressionConfig::default()
        },
        ..config(Upstream::Http(
            format!("http://{}", origin.address).parse().unwrap(),
        ))
    }
}

/// A page of one version.
fn page(version: u64, bytes: usize) -> String {
    format!("<p>version {version} of a page</p>\n").repeat(bytes / 20)
}

/// Pages by their target: `/text/NAME` in versions, and what must stay as it came.
fn origin(version: &Arc<AtomicU64>) -> Origin {
    let version = Arc::clone(version);
    Origin::new(move |asked, stream| answer(asked, stream, version.load(Ordering::SeqCst)))
}

fn answer(asked: &Asked, stream: &mut TcpStream, version: u64) -> bool {
    let target = asked.line.split(' ').nth(1).unwrap();
    let kind = target.split('/').nth(1).unwrap();
    let size = if target.ends_with("large") {
        300_000
    } else {
        3000
    };
    let body = page(version, size);
    let length = body.len();
    let fields = match kind {
        "text" => "content-type: text/html\r\ncache-control: max-age=60",
        // It is validated at each request.
        "checked" => "content-type: text/html\r\ncache-control: no-cache",
        "passed" => "content-type: text/html\r\ncache-control: no-store",
        "private" => "content-type: text/html\r\ncache-control: private",
        "fixed" => "content-type: text/html\r\ncache-control: max-age=60, no-transform",
        "image" => "content-type: image/png\r\ncache-control: max-age=60",
        "events" => "content-type: text/event-stream\r\ncache-control: max-age=60",
        "coded" => "content-type: text/html\r\ncache-control: max-age=60\r\ncontent-encoding: gzip",
        _ => "cache-control: max-age=60",
    };
    let tag = format!("\"{version}\"");
    let is_held = asked
        .head
        .iter()
        .any(|(name, held)| name == "if-none-match" && held.contains(&tag));
    if is_held {
        return say(
            stream,
            &format!("HTTP/1.1 304 Not Modified\r\netag: {tag}\r\n{fields}\r\n\r\n"),
        );
    }
    let head = format!(
        "HTTP/1.1 200 OK\r\netag: {tag}\r\naccept-ranges: bytes\r\n{fields}\r\ncontent-length: {length}\r\n\r\n"
    );
    say(stream, &head);
    asked.line.starts_with("HEAD") || say(stream, &body)
}

fn decoded(coding: &str, body: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    let result = match coding {
        "" => {
            all.extend_from_slice(body);
            Ok(0)
        }
        "gzip" => flate2::read::GzDecoder::new(body).read_to_end(&mut all),
        "br" => brotli::Decompressor::new(body, 4096).read_to_end(&mut all),
        "zstd" => zstd::stream::read::Decoder::new(body)
            .unwrap()
            .read_to_end(&mut all),
        other => panic!("{other}"),
    };
    result.unwrap();
    all
}

fn ask(client: &mut Client, target: &str, accepted: &str) -> Seen {
    client.send("GET", target, &[("accept-encoding", accepted)], b"")
}

fn check_page(seen: &Seen, coding: &str, whole: &str) {
    assert_eq!(seen.status, 200);
    assert_eq!(seen.header("content-encoding"), coding);
    assert_eq!(seen.header("vary"), "Accept-Encoding");
    assert!(decoded(coding, &seen.body) == whole.as_bytes(), "{coding}");
    let is_weak = seen.header("etag").starts_with("W/");
    assert_eq!(is_weak, !coding.is_empty(), "{}", seen.header("etag"));
    assert_eq!(seen.header("accept-ranges").is_empty(), !coding.is_empty());
}

#[test]
fn each_client_gets_what_it_accepts() {
    let version = Arc::new(AtomicU64::new(1));
    let origin = origin(&version);
    let node = Node::with(&compressing(&origin));
    let mut client = Client::new(&node);
    for target in ["/text/small", "/text/large"] {
        let whole = page(
            1,
            if target.ends_with("large") {
                300_000
            } else {
                3000
            },
        );
        let mut forms = node.status()["coded_forms"].as_u64().unwrap();
        for (accepted, coding) in [
            ("gzip, deflate, br, zstd", "br"),
            ("zstd;q=0.9, gzip;q=0.8", "zstd"),
            ("gzip", "gzip"),
        ] {
            // The first one is coded while it is sent, also from the store. A hit makes the form.
            let first = ask(&mut client, target, accepted);
            check_page(&first, coding, &whole);
            assert_eq!(first.header("transfer-encoding"), "chunked");
            check_page(&ask(&mut client, target, accepted), coding, &whole);
            forms += 1;
            node.await_figure("coded_forms", forms);
            let stored = ask(&mut client, target, accepted);
            check_page(&stored, coding, &whole);
            assert!(stored.is_hit());
            assert_eq!(
                stored.header("content-length"),
                stored.body.len().to_string()
            );
            assert!(stored.body.len() * 10 < whole.len());
            let head = client.send("HEAD", target, &[("accept-encoding", accepted)], b"");
            for name in ["content-length", "content-encoding", "etag", "vary"] {
                assert_eq!(head.header(name), stored.header(name));
            }
        }
        check_page(&ask(&mut client, target, "identity"), "", &whole);
        check_page(&client.get(target), "", &whole);
    }
    assert_eq!(origin.requests(), 2, "one form was fetched of each page");
    let status = node.status();
    let figure = |name: &str| status[name].as_u64().unwrap();
    assert!(figure("coded_responses") >= 6);
    assert!(figure("coded_sent_bytes") > 0);
    assert!(figure("coded_sent_bytes") * 10 < figure("coded_bytes"));
    assert_eq!(figure("busy_encoders"), 0);
}

#[test]
fn what_must_stay_as_it_came_stays() {
    let origin = origin(&Arc::new(AtomicU64::new(1)));
    let node = Node::with(&compressing(&origin));
    let mut client = Client::new(&node);
    for kind in ["private", "fixed", "image", "events", "none"] {
        for _ in 0..2 {
            let seen = ask(&mut client, &format!("/{kind}/a"), "br");
            assert_eq!(
                (seen.header("content-encoding"), seen.header("vary")),
                ("", ""),
                "{kind}"
            );
            assert_eq!((seen.header("etag"), seen.text()), ("\"1\"", page(1, 3000)));
        }
    }
    let coded = ask(&mut client, "/coded/a", "br");
    assert_eq!(
        (coded.header("content-encoding"), coded.text()),
        ("gzip", page(1, 3000))
    );
    // What is not stored is coded, too.
    check_page(&ask(&mut client, "/passed/a", "br"), "br", &page(1, 3000));
    let as_it_is = [("accept-encoding", "br"), ("cache-control", "no-transform")];
    let seen = client.send("GET", "/text/a", &as_it_is, b"");
    assert_eq!(
        (seen.header("content-encoding"), seen.text()),
        ("", page(1, 3000))
    );
    let old = "GET /text/a HTTP/1.0\r\nhost: a\r\naccept-encoding: br\r\n\r\n";
    let old = crate::wire::raw(node.address, old.as_bytes());
    assert!(
        old.ends_with(&page(1, 3000)) && !old.contains("content-encoding"),
        "{old}"
    );
}

#[test]
fn without_codings_nothing_changes() {
    let origin = origin(&Arc::new(AtomicU64::new(1)));
    let node = Node::of(origin.address);
    let mut client = Client::new(&node);
    for _ in 0..2 {
        let seen = ask(&mut client, "/text/a", "br");
        assert_eq!(
            (seen.header("content-encoding"), seen.header("vary")),
            ("", "")
        );
        assert_eq!((seen.header("etag"), seen.text()), ("\"1\"", page(1, 3000)));
    }
}

/// Failure: a client adds a part of the page as it came to the coded form that it has.
#[test]
fn parts_are_those_of_the_page_as_it_came() {
    let origin = origin(&Arc::new(AtomicU64::new(1)));
    let node = Node::with(&compressing(&origin));
    let mut client = Client::new(&node);
    let whole = page(1, 3000);
    for forms in 0..2 {
        node.await_figure("coded_forms", forms);
        let range = [("accept-encoding", "br"), ("range", "bytes=5-9")];
        ask(&mut client, "/text/a", "br");
        let part = client.send("GET", "/text/a", &range, b"");
        assert_eq!((part.status, part.text().as_str()), (206, &whole[5..10]));
        assert_eq!(
            (part.header("etag"), part.header("content-encoding")),
            ("\"1\"", "")
        );
        for (tag, status) in [("W/\"1\"", 200), ("\"1\"", 206)] {
            let fields = [&range[..], &[("if-range", tag)]].concat();
            let seen = client.send("GET", "/text/a", &fields, b"");
            assert_eq!((seen.status, seen.header("content-encoding")), (status, ""));
            assert_eq!(seen.body.len(), if status == 200 { whole.len() } else { 5 });
        }
        ask(&mut client, "/text/a", "br");
    }
}

/// Failure: a 304 gives the client of a coded form the strong tag of the page as it came.
#[test]
fn a_coded_form_stays_valid_and_its_tag_weak() {
    let version = Arc::new(AtomicU64::new(1));
    let origin = origin(&version);
    let node = Node::with(&compressing(&origin));
    let mut client = Client::new(&node);
    let held = [("accept-encoding", "br"), ("if-none-match", "W/\"1\"")];
    for kind in ["text", "checked", "passed"] {
        let target = format!("/{kind}/a");
        for _ in 0..3 {
            check_page(&ask(&mut client, &target, "br"), "br", &page(1, 3000));
            let seen = client.send("GET", &target, &held, b"");
            assert_eq!(
                (seen.status, seen.header("etag")),
                (304, "W/\"1\""),
                "{kind}"
            );
            assert_eq!(seen.header("vary"), "Accept-Encoding", "{kind}");
            // In a second line, without a coding, and for a part.
            for other in [("accept", "*/*"), ("range", "bytes=0-1")] {
                let lines = [
                    ("if-none-match", "\"0\""),
                    ("if-none-match", "W/\"1\""),
                    other,
                ];
                let seen = client.send("GET", &target, &lines, b"");
                assert_eq!(
                    (seen.status, seen.header("etag")),
                    (304, "W/\"1\""),
                    "{kind}"
                );
            }
            let plain = client.send("GET", &target, &[("if-none-match", "\"1\"")], b"");
            assert_eq!(
                (plain.status, plain.header("etag")),
                (304, "\"1\""),
                "{kind}"
            );
        }
    }
    node.await_some("coded_forms");
    version.store(2, Ordering::SeqCst);
    let changed = client.send("GET", "/checked/a", &held, b"");
    check_page(&changed, "br", &page(2, 3000));
}

/// Failure: the client of a page that is made slowly sees nothing until its end.
#[test]
fn what_a_slow_origin_has_sent_arrives() {
    let (go, wait) = std::sync::mpsc::channel();
    let wait = Mutex::new(wait);
    let origin = Origin::new(move |_, stream| {
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n";
        say(stream, head);
        say(stream, "6\r\nfirst \r\n");
        stream.flush().unwrap();
        wait.lock().unwrap().recv().unwrap();
        say(stream, "6\r\nsecond\r\n0\r\n\r\n")
    });
    let node = Node::with(&compressing(&origin));
    let mut stream = TcpStream::connect(node.address).unwrap();
    stream
        .write_all(
            b"GET / HTTP/1.1\r\nhost: a\r\naccept-encoding: gzip\r\nconnection: close\r\n\r\n",
        )
        .unwrap();
    let mut all = Vec::new();
    let text = |all: &[u8]| {
        // Chunks of a few bytes each: the coded bytes are those between the lines of sizes.
        let start = memchr::memmem::find(all, b"\r\n\r\n").map_or(all.len(), |at| at + 4);
        let (mut rest, mut coded) = (&all[start..], Vec::new());
        while let Some(end) = memchr::memmem::find(rest, b"\r\n") {
            let size =
                usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
            let piece = &rest[end + 2..rest.len().min(end + 2 + size)];
            coded.extend_from_slice(piece);
            rest = rest.get(end + 2 + size + 2..).unwrap_or_default();
        }
        let mut text = String::new();
        let _ = flate2::read::GzDecoder::new(&coded[..]).read_to_string(&mut text);
        text
    };
    let mut piece = [0; 1000];
    while text(&all) != "first " {
        let read = stream.read(&mut piece).unwrap();
        assert_ne!(read, 0);
        all.extend_from_slice(&piece[..read]);
    }
    go.send(()).unwrap();
    stream.read_to_end(&mut all).unwrap();
    assert_eq!(text(&all), "first second");
}

#[test]
fn clients_of_http2_get_the_same() {
    let origin = origin(&Arc::new(AtomicU64::new(1)));
    let node = Node::with(&compressing(&origin));
    let mut client = Http2::new(&node);
    for number in 0..4 {
        if number == 2 {
            node.await_figure("coded_forms", 1);
        }
        let stream = client.request("GET", "/text/large", &[("accept-encoding", "zstd")], true);
        let answer = client.answer(stream);
        assert!(answer.is_complete);
        assert!(decoded("zstd", &answer.body) == page(1, 300_000).as_bytes());
    }
}

/// Failure: a reload with other codings leaves stored responses, or open connections, as they were.
#[test]
fn a_reload_applies_to_what_is_stored() {
    let origin = origin(&Arc::new(AtomicU64::new(1)));
    let with = compressing(&origin);
    let without = HttpConfig {
        compression: CompressionConfig::default(),
        ..compressing(&origin)
    };
    let node = Node::with(&without);
    let http = node.http.as_ref().unwrap();
    let mut client = Client::new(&node);
    for _ in 0..2 {
        assert_eq!(
            ask(&mut client, "/text/a", "br").header("content-encoding"),
            ""
        );
    }
    http.take_over(http.reload(&with).unwrap()).unwrap();
    for _ in 0..3 {
        check_page(&ask(&mut client, "/text/a", "br"), "br", &page(1, 3000));
    }
    node.await_some("coded_forms");
    http.take_over(http.reload(&without).unwrap()).unwrap();
    let seen = ask(&mut client, "/text/a", "br");
    assert_eq!(
        (seen.header("content-encoding"), seen.header("etag")),
        ("", "\"1\"")
    );
    assert_eq!(origin.requests(), 1);
}

/// Failure: clients that read slowly take the memory of all encoders, or others get no answer.
#[test]
fn busy_encoders_leave_gzip_and_then_the_page_as_it_came() {
    let origin = Origin::new(|_, stream| {
        say(
            stream,
            "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n6\r\nfirst \r\n",
        )
    });
    let node = Node::with(&compressing(&origin));
    let mut held: Vec<_> = (0..40)
        .map(|number| endless_answer(&node, number, "br, gzip"))
        .collect();
    let is_coded = |coding: &'static str| move |answer: &(String, TcpStream)| answer.0 == coding;
    assert!(held[..32].iter().all(is_coded("br")), "{held:?}");
    assert!(held[32..].iter().all(is_coded("gzip")), "{held:?}");
    held.push(endless_answer(&node, 40, "zstd"));
    assert_eq!(held[40].0, "");
    node.await_figure("busy_encoders", 9);
    drop(held);
    // The places come back with the clients' end.
    let is_free = (0..500).any(|number| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        endless_answer(&node, 100 + number, "br").0 == "br"
    });
    assert!(is_free);
}

/// The coding of the answer to one more client, whose body does not end.
fn endless_answer(node: &Node, number: usize, accepted: &str) -> (String, TcpStream) {
    let mut stream = TcpStream::connect(node.address).unwrap();
    let request =
        format!("GET /{number} HTTP/1.1\r\nhost: a\r\naccept-encoding: {accepted}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let (mut head, mut piece) = (Vec::new(), [0; 1000]);
    while memchr::memmem::find(&head, b"\r\n\r\n").is_none() {
        let read = stream.read(&mut piece).unwrap();
        assert_ne!(read, 0);
        head.extend_from_slice(&piece[..read]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let coding = head
        .lines()
        .find_map(|line| line.strip_prefix("content-encoding: "));
    (coding.unwrap_or_default().to_owned(), stream)
}

/// Failure: an operator cannot exempt pages with secrets, or a stored form is sent all the same.
#[test]
fn a_rule_exempts_pages() {
    let origin = origin(&Arc::new(AtomicU64::new(1)));
    let with = compressing(&origin);
    let node = Node::with(&with);
    let http = node.http.as_ref().unwrap();
    let mut client = Client::new(&node);
    ask(&mut client, "/text/a", "br");
    ask(&mut client, "/text/a", "br");
    node.await_some("coded_forms");
    let rules = "[[rules]]\npath = [\"/text/*\"]\ncompress = false";
    let exempted = HttpConfig {
        rules: crate::http_rules::rules(rules),
        ..with
    };
    http.take_over(http.reload(&exempted).unwrap()).unwrap();
    for target in ["/text/a", "/text/new"] {
        let seen = ask(&mut client, target, "br");
        assert_eq!(
            (
                seen.header("content-encoding"),
                seen.header("etag"),
                seen.text()
            ),
            ("", "\"1\"", page(1, 3000))
        );
    }
    check_page(&ask(&mut client, "/passed/a", "br"), "br", &page(1, 3000));
}

/// Failure: a rule gives all forms one strong tag, or takes `Vary` from a coded form.
#[test]
fn rules_leave_coded_forms_apart() {
    let origin = origin(&Arc::new(AtomicU64::new(1)));
    let rules = "[[rules]]\nresponse_headers = { set = { ETag = '\"v\"' }, remove = [\"Vary\"] }";
    let node = Node::with(&HttpConfig {
        rules: crate::http_rules::rules(rules),
        ..compressing(&origin)
    });
    let mut client = Client::new(&node);
    for number in 0..4 {
        if number == 3 {
            node.await_some("coded_forms");
        }
        let seen = ask(&mut client, "/text/a", "br");
        assert_eq!(seen.header("content-encoding"), "br");
        assert_eq!(
            (seen.header("etag"), seen.header("vary")),
            ("W/\"v\"", "Accept-Encoding"),
            "{number}"
        );
    }
}

/// A request of the random mix: its page, what it accepts, and its condition or range.
fn request() -> impl Strategy<
    Value = (
        &'static str,
        &'static str,
        Option<(&'static str, &'static str)>,
        bool,
    ),
> {
    let targets = [
        "/text/a",
        "/text/large",
        "/checked/a",
        "/passed/a",
        "/image/a",
        "/fixed/a",
    ];
    let accepted = [
        "",
        "br",
        "gzip, br;q=0.1",
        "zstd",
        "*",
        "identity",
        "gzip;q=0",
    ];
    let less = [
        None,
        Some(("if-none-match", "\"1\"")),
        Some(("if-none-match", "W/\"1\"")),
        Some(("if-none-match", "W/\"2\"")),
        Some(("range", "bytes=7-31")),
    ];
    (
        proptest::sample::select(targets.to_vec()),
        proptest::sample::select(accepted.to_vec()),
        proptest::sample::select(less.to_vec()),
        // The pages change after it.
        proptest::bool::weighted(0.05),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_mix_decodes_to_what_the_origin_sent(requests in proptest::collection::vec(request(), 1..80)) {
        let version = Arc::new(AtomicU64::new(1));
        let origin = origin(&version);
        let node = Node::with(&compressing(&origin));
        let mut client = Client::new(&node);
        // The bytes that each strong tag of a page has named.
        let mut named: HashMap<(&str, String), Vec<u8>> = HashMap::new();
        for (target, accepted, less, is_last) in requests {
            let mut fields = vec![("accept-encoding", accepted)];
            fields.extend(less);
            let seen = client.send("GET", target, &fields, b"");
            let tag = seen.header("etag").to_owned();
            let of_tag: u64 = tag.trim_matches(['W', '/', '"']).parse().unwrap();
            let whole = page(of_tag, if target.ends_with("large") { 300_000 } else { 3000 });
            let coding = seen.header("content-encoding");
            prop_assert!(coding.is_empty() || tag.starts_with("W/"));
            match seen.status {
                200 => prop_assert!(decoded(coding, &seen.body) == whole.as_bytes(), "{} {}", target, coding),
                206 => prop_assert_eq!(&seen.body[..], &whole.as_bytes()[7..32]),
                304 => prop_assert!(less.is_some_and(|(_, held)| held.contains(tag.trim_start_matches("W/")))),
                status => prop_assert!(false, "{}", status),
            }
            if seen.status == 200 && !tag.starts_with("W/") {
                let before = named.entry((target, tag)).or_insert_with(|| seen.body.clone());
                prop_assert!(*before == seen.body);
            }
            if is_last {
                version.fetch_add(1, Ordering::SeqCst);
            }
        }
    }
}
