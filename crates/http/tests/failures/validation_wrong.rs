//! Failure: the cache or a client misinterprets a 304, or a range or a HEAD concerns another
//! representation.

use crate::stage::{Stage, TEN_DAYS_BEFORE, THEN_TEXT, get, request};
use http::Method;

const PAGE: (&str, &str) = ("cache-control", "max-age=60");

#[test]
fn clients_conditions_are_answered_from_the_store() {
    let mut stage = Stage::new();
    let fields: crate::stage::Fields<'_> = &[
        PAGE,
        ("etag", "\"1\""),
        ("last-modified", TEN_DAYS_BEFORE),
        ("content-type", "text/plain"),
        ("x-other", "1"),
    ];
    stage.ask(&get("/"), 200, fields, "page");
    for (name, value, status) in [
        ("if-none-match", "\"1\"", 304),
        ("if-none-match", "\"0\", W/\"1\"", 304),
        ("if-none-match", "*", 304),
        ("if-none-match", "\"2\"", 200),
        ("if-modified-since", TEN_DAYS_BEFORE, 304),
        ("if-modified-since", THEN_TEXT, 304),
        ("if-modified-since", "Wed, 26 Oct 1994 08:49:37 GMT", 200),
        ("if-modified-since", "whenever", 200),
    ] {
        let seen = stage.ask_store(&get("/").with(name, value));
        assert_eq!(seen.status, status, "{name}: {value}");
        assert_eq!(seen.body.is_empty(), status == 304);
        assert_eq!(seen.headers.contains_key("content-type"), status == 200);
        for kept in [
            "cache-control",
            "date",
            "etag",
            "age",
            "cache-status",
            "via",
        ] {
            assert!(seen.headers.contains_key(kept), "{kept}");
        }
    }
    // RFC 9110 §13.1.3: If-None-Match overrules.
    let both = get("/")
        .with("if-none-match", "\"2\"")
        .with("if-modified-since", THEN_TEXT);
    assert_eq!(stage.ask_store(&both).status, 200);
    // Conditions are for pages, not for errors (RFC 9110 §13.2.1).
    stage.ask(&get("/gone"), 410, &[PAGE, ("etag", "\"1\"")], "gone");
    assert_eq!(
        stage
            .ask_store(&get("/gone").with("if-none-match", "\"1\""))
            .status,
        410
    );
}

/// RFC 9110 §13.1.1: whether a change may happen, or a GET with such a condition, is the origin's
/// to say.
#[test]
fn if_match_goes_to_the_origin() {
    let mut stage = Stage::new();
    stage.ask(&get("/"), 200, &[PAGE, ("etag", "\"1\"")], "page");
    let seen = stage.ask(&get("/").with("if-match", "\"1\""), 412, &[], "");
    assert_eq!(
        (seen.status, &seen.asked.unwrap()["if-match"]),
        (412, &"\"1\"".parse().unwrap())
    );
}

/// RFC 9111 §3.2 and §4.3.4.
#[test]
fn a_304_renews_the_stored_headers() {
    let config = larder_http::Config {
        share_cookies: true,
        ..crate::stage::config(1 << 20, "lru")
    };
    let cache = larder_http::Cache::new(&config, &larder_units::Streams::new(1)).unwrap();
    let mut stage = Stage {
        cache,
        ..Stage::new()
    };
    let first: crate::stage::Fields<'_> = &[
        ("cache-control", "public, max-age=60"),
        ("etag", "\"1\""),
        ("last-modified", TEN_DAYS_BEFORE),
        ("x-old", "kept"),
        ("x-both", "old"),
        ("set-cookie", "a=1"),
        ("set-cookie", "b=1"),
    ];
    stage.ask(&get("/"), 200, first, "page");
    stage.wait(100);
    let renewal: crate::stage::Fields<'_> = &[
        ("cache-control", "public, max-age=500"),
        ("etag", "\"1\""),
        ("x-both", "new"),
        ("x-new", "added"),
        ("set-cookie", "c=1"),
        ("content-length", "99"),
        ("connection", "x-hop"),
        ("x-hop", "1"),
    ];
    let client = get("/")
        .with("if-none-match", "\"0\"")
        .with("range", "bytes=0-0")
        .with("if-range", "\"0\"");
    let seen = stage.ask(&client, 304, renewal, "");
    let asked = seen.asked.as_ref().unwrap();
    assert_eq!(
        asked.get_all("if-none-match").iter().collect::<Vec<_>>(),
        ["\"1\""],
        "ours, not the client's"
    );
    assert_eq!(asked["if-modified-since"], TEN_DAYS_BEFORE);
    assert!(!asked.contains_key("range") && !asked.contains_key("if-range"));
    assert_eq!(seen.status, 200);
    assert_eq!(
        seen.header("cache-status"),
        "larder; fwd=stale; fwd-status=304; ttl=500"
    );
    assert_eq!(seen.header("age"), "0");
    stage.wait(499);
    let hit = stage.ask_store(&get("/"));
    assert_eq!(hit.body, b"page");
    for (name, value) in [
        ("x-old", "kept"),
        ("x-both", "new"),
        ("x-new", "added"),
        ("content-length", "4"),
        ("age", "499"),
    ] {
        assert_eq!(hit.header(name), value, "{name}");
    }
    assert!(!hit.headers.contains_key("x-hop") && !hit.headers.contains_key("connection"));
    assert_eq!(
        hit.headers.get_all("set-cookie").iter().collect::<Vec<_>>(),
        ["c=1"]
    );
    assert_eq!(hit.headers.get_all("via").iter().count(), 1);
    assert_eq!(hit.headers.get_all("cache-status").iter().count(), 1);
    stage.wait(1);
    assert!(!stage.is_hit(&get("/")));
    let counters = stage.cache.counters();
    assert_eq!((counters.validated, counters.stored), (1, 1));
}

/// The client's conditions are judged against what the origin confirmed.
#[test]
fn a_304_for_us_and_for_the_client() {
    let mut stage = Stage::new();
    stage.ask(&get("/"), 200, &[PAGE, ("etag", "\"1\"")], "page");
    stage.wait(60);
    let seen = stage.ask(
        &get("/").with("if-none-match", "\"1\""),
        304,
        &[PAGE, ("etag", "\"1\"")],
        "",
    );
    assert_eq!((seen.status, seen.body.len()), (304, 0));
    assert!(stage.is_hit(&get("/")));
}

/// RFC 9111 §4.3.4: a 304 with another entity tag MUST NOT renew what is stored.
#[test]
fn a_304_about_something_else_confirms_nothing() {
    let mut stage = Stage::new();
    stage.ask(&get("/"), 200, &[PAGE, ("etag", "\"1\"")], "page");
    stage.wait(60);
    let client = get("/")
        .with("if-none-match", "\"0\"")
        .with("range", "bytes=0-0")
        .with("x-kept", "1");
    let seen = stage.ask(&client, 304, &[PAGE, ("etag", "\"2\"")], "");
    assert_eq!((seen.status, &seen.body[..]), (200, &b"retried"[..]));
    let again = seen.asked.unwrap();
    assert!(
        !again.contains_key("if-none-match")
            && !again.contains_key("range")
            && again.contains_key("x-kept")
    );
    assert_eq!(again["via"], "1.1 larder");
    assert!(!stage.is_hit(&get("/")));
}

/// What was evicted while it was being validated still answers who waited for it, and is stored
/// again.
#[test]
fn evicted_while_being_validated() {
    let mut stage = Stage::with(5000, "lru");
    stage.ask(&get("/a"), 200, &[PAGE, ("etag", "\"1\"")], "page");
    stage.wait(60);
    let exchange = stage.open(&get("/a"));
    for number in 0..20 {
        stage.ask(&get(&format!("/other{number}")), 200, &[PAGE], "xxxx");
    }
    assert!(stage.cache.counters().evicted > 0);
    let seen = stage.reply(exchange, 304, &[PAGE], "");
    assert_eq!((seen.status, &seen.body[..]), (200, &b"page"[..]));
    assert_eq!(stage.ask_store(&get("/a")).body, b"page");
}

/// A page that was changed while it was being validated: the 304 may be from before.
#[test]
fn invalidated_while_being_validated() {
    let mut stage = Stage::new();
    stage.ask(&get("/"), 200, &[PAGE, ("etag", "\"1\"")], "page");
    stage.wait(60);
    let exchange = stage.open(&get("/"));
    stage.ask(&request(Method::POST, "/"), 204, &[], "");
    let seen = stage.reply(exchange, 304, &[PAGE], "");
    assert_eq!((seen.status, &seen.body[..]), (200, &b"page"[..]));
    assert!(!stage.is_hit(&get("/")));
}

#[test]
fn ranges_of_what_is_stored_whole() {
    let mut stage = Stage::new();
    stage.ask(
        &get("/"),
        200,
        &[PAGE, ("etag", "\"1\""), ("content-type", "text/plain")],
        "0123456789",
    );
    let part = stage.ask_store(&get("/").with("range", "bytes=2-4"));
    assert_eq!((part.status, &part.body[..]), (206, &b"234"[..]));
    assert_eq!(
        (part.header("content-range"), part.header("content-length")),
        ("bytes 2-4/10", "3")
    );
    assert_eq!(
        (part.header("etag"), part.header("content-type")),
        ("\"1\"", "text/plain")
    );
    let past = stage.ask_store(&get("/").with("range", "bytes=10-"));
    assert_eq!(
        (past.status, past.header("content-range")),
        (416, "bytes */10")
    );
    assert!(past.body.is_empty() && past.header("cache-status").contains("hit"));
    for (condition, status) in [
        ("\"1\"", 206),
        ("\"2\"", 200),
        ("W/\"1\"", 200),
        (THEN_TEXT, 200),
    ] {
        let seen = stage.ask_store(
            &get("/")
                .with("range", "bytes=0-0")
                .with("if-range", condition),
        );
        assert_eq!(seen.status, status, "{condition}");
    }
    // A weak tag never holds (RFC 9110 §13.1.5), and a date only a minute after the last change
    // (§8.8.2.2).
    let weak: crate::stage::Fields<'_> = &[
        PAGE,
        ("etag", "W/\"1\""),
        ("last-modified", THEN_TEXT),
        ("date", THEN_TEXT),
    ];
    stage.ask(&get("/weak"), 200, weak, "0123456789");
    let old: crate::stage::Fields<'_> = &[
        PAGE,
        ("last-modified", TEN_DAYS_BEFORE),
        ("date", THEN_TEXT),
    ];
    stage.ask(&get("/old"), 200, old, "0123456789");
    for (target, condition, status) in [
        ("/weak", "W/\"1\"", 200),
        ("/weak", "\"1\"", 200),
        ("/weak", THEN_TEXT, 200),
        ("/old", TEN_DAYS_BEFORE, 206),
        ("/old", THEN_TEXT, 200),
    ] {
        let seen = stage.ask_store(
            &get(target)
                .with("range", "bytes=0-0")
                .with("if-range", condition),
        );
        assert_eq!(seen.status, status, "{target} {condition}");
    }
    let many = stage.ask_store(&get("/").with("range", "bytes=0-0,0-9,0-9,0-9"));
    assert_eq!(
        (many.status, many.body.len()),
        (206, 10),
        "overlapping ones are one"
    );
    // RFC 9110 §14.2: a server MUST ignore Range in other methods.
    let head = stage.ask_store(&crate::stage::Request {
        method: Method::HEAD,
        ..get("/").with("range", "bytes=0-0")
    });
    assert_eq!((head.status, head.header("content-length")), (200, "10"));
    // Conditions before ranges.
    let both = get("/")
        .with("range", "bytes=0-0")
        .with("if-none-match", "\"1\"");
    assert_eq!(stage.ask_store(&both).status, 304);
}

#[test]
fn a_range_of_something_unknown_passes_through() {
    let mut stage = Stage::new();
    let ranged = get("/").with("range", "bytes=0-3");
    let seen = stage.ask(
        &ranged,
        206,
        &[PAGE, ("content-range", "bytes 0-3/10")],
        "0123",
    );
    assert_eq!(
        (seen.status, &seen.asked.unwrap()["range"]),
        (206, &"bytes=0-3".parse().unwrap())
    );
    // An origin that ignores ranges sends the whole, and that is worth storing.
    assert_eq!(stage.ask(&ranged, 200, &[PAGE], "0123456789").status, 200);
    assert_eq!(stage.ask_store(&ranged).body, b"0123");
}

#[test]
fn head_is_answered_from_a_stored_get_and_stores_nothing() {
    let mut stage = Stage::new();
    let head = request(Method::HEAD, "/");
    stage.ask(&head, 200, &[PAGE, ("content-length", "4")], "");
    assert!(!stage.is_hit(&get("/")) && stage.cache.engine().is_empty());
    stage.ask(&get("/"), 200, &[PAGE, ("etag", "\"1\"")], "page");
    let seen = stage.ask_store(&head);
    assert_eq!(
        (seen.status, seen.body.len(), seen.header("content-length")),
        (200, 0, "4")
    );
    assert_eq!(
        stage.ask_store(&head.with("if-none-match", "\"1\"")).status,
        304
    );
}

/// RFC 9111 §4.3.5.
#[test]
fn head_shows_whether_the_stored_get_is_outdated() {
    for (fields, survives) in [
        (
            &[PAGE, ("etag", "\"1\""), ("content-length", "4")][..],
            true,
        ),
        (&[PAGE, ("etag", "\"2\""), ("content-length", "4")], false),
        (&[PAGE, ("etag", "\"1\""), ("content-length", "5")], false),
    ] {
        let mut stage = Stage::new();
        stage.ask(&get("/"), 200, &[PAGE, ("etag", "\"1\"")], "page");
        stage.wait(60);
        stage.ask(&request(Method::HEAD, "/"), 200, fields, "");
        assert_eq!(stage.is_hit(&get("/")), survives, "{fields:?}");
        assert_eq!(stage.cache.engine().len(), usize::from(survives));
    }
    let mut stage = Stage::new();
    stage.ask(&get("/"), 200, &[PAGE, ("etag", "\"1\"")], "page");
    stage.wait(60);
    let seen = stage.ask(
        &request(Method::HEAD, "/"),
        304,
        &[PAGE, ("etag", "\"1\"")],
        "",
    );
    assert_eq!(
        (seen.status, seen.body.len(), seen.header("content-length")),
        (200, 0, "4")
    );
    assert!(stage.is_hit(&get("/")));
}
