//! Failure: the fields of one connection are forwarded or stored (RFC 9110 §7.6.1, RFC 9111 §3.1).

use crate::stage::{Stage, get};

const HOPS: [&str; 9] = [
    "keep-alive",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "upgrade",
    "x-named",
];

#[test]
fn towards_the_origin_the_client_and_the_store() {
    let mut stage = Stage::new();
    let mut request = get("/")
        .with("connection", "close, X-Named")
        .with("x-end", "1")
        .with("via", "1.0 before");
    let mut fields = vec![
        ("cache-control", "max-age=60"),
        ("connection", "X-Named"),
        ("x-end", "1"),
        ("via", "1.1 origin"),
    ];
    for name in HOPS {
        request = request.with(name, "1");
        fields.push((name, "1"));
    }
    let seen = stage.ask(&request, 200, &fields, "x");
    let hit = stage.ask_store(&get("/"));
    let asked = seen.asked.as_ref().unwrap();
    for headers in [asked, &seen.headers, &hit.headers] {
        for name in HOPS.iter().chain(&["connection"]) {
            assert!(!headers.contains_key(*name), "{name}");
        }
        assert_eq!(headers["x-end"], "1");
    }
    let via = |headers: &http::HeaderMap| -> Vec<String> {
        headers
            .get_all("via")
            .iter()
            .map(|value| value.to_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(via(asked), ["1.0 before", "1.1 larder"]);
    assert_eq!(via(&seen.headers), ["1.1 origin", "1.1 larder"]);
    assert_eq!(via(&hit.headers), ["1.1 origin", "1.1 larder"]);
}

/// RFC 9211 §2: the caches' words stand in the order of the way, ours last.
#[test]
fn other_caches_keep_their_word() {
    let mut stage = Stage::new();
    let fields: crate::stage::Fields<'_> = &[
        ("cache-control", "max-age=60"),
        ("cache-status", "Origin; hit"),
        ("cache-status", "Mid; fwd=miss"),
    ];
    let seen = stage.ask(&get("/"), 200, fields, "x");
    assert_eq!(
        seen.header("cache-status"),
        "Origin; hit, Mid; fwd=miss, larder; fwd=uri-miss; fwd-status=200; stored"
    );
    assert_eq!(
        stage.ask_store(&get("/")).header("cache-status"),
        "Origin; hit, Mid; fwd=miss, larder; hit; ttl=60"
    );
}

/// RFC 9110 §6.6.1.
#[test]
fn a_missing_date_is_the_time_of_receipt() {
    let mut stage = Stage::new();
    for fields in [
        &[("cache-control", "max-age=60")][..],
        &[("cache-control", "max-age=60"), ("date", "today")],
    ] {
        let request = get("/").with("cache-control", "no-cache");
        assert_eq!(
            stage.ask(&request, 200, fields, "x").header("date"),
            crate::stage::THEN_TEXT
        );
        assert_eq!(
            stage.ask_store(&get("/")).header("date"),
            crate::stage::THEN_TEXT
        );
    }
}
