//! Failure: one client decides what others get (poisoning), or gets what was made for another
//! (deception).

use crate::wire::{Client, Node, Origin, say};

/// An origin that repeats what it was told, and says that it may be kept.
fn echo() -> Origin {
    Origin::new(|asked, stream| {
        let lines = asked
            .head
            .iter()
            .map(|(name, value)| format!("{name}: {value}\n"));
        let text = format!("{}\n{}", asked.line, lines.collect::<String>());
        let head = format!(
            "cache-control: max-age=60\r\ncontent-length: {}",
            text.len()
        );
        say(stream, &format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{text}"))
    })
}

/// An origin that answers with this status and these fields.
fn fixed(status: &'static str, fields: &'static str) -> Origin {
    Origin::new(move |_, stream| {
        say(
            stream,
            &format!("HTTP/1.1 {status}\r\n{fields}content-length: 4\r\n\r\npage"),
        )
    })
}

/// Fields from which a framework takes the host, the scheme, the path or the method, and which no
/// key holds.
#[test]
fn unkeyed_fields_do_not_reach_the_origin() {
    let origin = echo();
    let node = Node::of(origin.address);
    let mut client = Client::new(&node);
    for name in [
        "forwarded",
        "x-forwarded-host",
        "x-forwarded-port",
        "x-forwarded-prefix",
        "x-forwarded-proto",
        "x-forwarded-scheme",
        "x-forwarded-server",
        "x-host",
        "x-http-method-override",
        "x-method-override",
        "x-original-url",
        "x-rewrite-url",
        "x-forwarded-ssl",
        "x-http-method",
        "x-original-host",
        // One variable with the other name in CGI, WSGI and PHP.
        "x_forwarded_host",
        "x-forwarded_proto",
        "x_http_method_override",
    ] {
        let told = client
            .send("GET", &format!("/{name}"), &[(name, "evil")], b"")
            .text();
        assert!(!told.contains("evil"), "{name}: {told}");
    }
}

/// Two targets that an origin may tell apart have two keys, and it sees each as it came: in its
/// normal form.
#[test]
fn targets_are_keyed_byte_by_byte() {
    let origin = echo();
    let node = Node::of(origin.address);
    let mut client = Client::new(&node);
    let targets = [
        "/a",
        "/A",
        "/%61",
        "/a/",
        "/a//b",
        "/a?",
        "/a?b=1&c=2",
        "/a?c=2&b=1",
        "/a?b=1&b=1&c=2",
        "/a;b=1",
        "/a%2fb",
        "/a%2Fb",
        "/a%20",
        "/a%0d%0a",
        "/a%5C",
        "/a?b=1%26c=2",
    ];
    for target in targets {
        let seen = client.get(target);
        assert!(!seen.is_hit(), "{target}");
        assert!(
            seen.text().starts_with(&format!("GET {target} HTTP/1.1\n")),
            "{target}: {}",
            seen.text()
        );
    }
    assert!(targets.iter().all(|target| client.get(target).is_hit()));
    client.host = "other.test".into();
    assert!(!client.get("/a").is_hit());
}

/// A page that says nothing of caching is not kept because its address looks like a picture's.
#[test]
fn an_ending_makes_nothing_cacheable() {
    for fields in [
        "",
        "cache-control: private, max-age=60\r\n",
        "cache-control: no-store\r\n",
        "set-cookie: id=1\r\n",
    ] {
        let origin = fixed("200 OK", fields);
        let node = Node::of(origin.address);
        let mut client = Client::new(&node);
        for target in [
            "/account/x.css",
            "/account;x.js",
            "/account%2fx.png",
            "/account?x.jpg",
            "/account/..%2f..%2fx.ico",
        ] {
            client.get(target);
            assert!(!client.get(target).is_hit(), "{target} {fields:?}");
        }
        assert_eq!(node.status()["objects"], 0);
    }
}

/// A refusal of one odd request is not everybody's page, whatever the origin adds to every
/// response.
#[test]
fn refusals_of_one_request_are_not_kept() {
    for status in [
        "401 Unauthorized",
        "408 Request Timeout",
        "412 Precondition Failed",
        "413 Content Too Large",
        "416 Range Not Satisfiable",
        "417 Expectation Failed",
        "421 Misdirected Request",
        "429 Too Many Requests",
        "431 Request Header Fields Too Large",
    ] {
        let origin = fixed(status, "cache-control: public, max-age=60\r\n");
        let node = Node::of(origin.address);
        let mut client = Client::new(&node);
        for fields in [
            &[("range", "bytes=9-")][..],
            &[("x-long", "x")],
            &[("if-none-match", "\"1\"")],
            &[],
        ] {
            let seen = client.send("GET", "/", fields, b"");
            assert!(
                !seen.is_hit() && seen.header("cache-status").ends_with("detail=status"),
                "{status}: {seen:?}"
            );
        }
    }
}

/// A cookie or a credential of one client changes what others get only where the origin says so.
#[test]
fn what_was_asked_with_credentials_is_not_shared() {
    let origin = echo();
    let node = Node::of(origin.address);
    let mut client = Client::new(&node);
    let mine = client
        .send("GET", "/", &[("authorization", "Basic dTpw")], b"")
        .text();
    assert!(mine.contains("Basic dTpw"));
    assert!(!client.get("/").text().contains("Basic"));
    assert!(
        !client
            .send("GET", "/", &[("cookie", "id=2")], b"")
            .text()
            .contains("Basic")
    );
}
