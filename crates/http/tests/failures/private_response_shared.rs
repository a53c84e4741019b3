//! Failure: a response for one client reaches another.

use crate::stage::{Fields, Stage, TEN_DAYS_BEFORE, get};
use http::Method;
use larder_http::Refusal;

/// Whether the response to `request` is stored; checks that it says so, and that the next client is
/// not served it if not.
fn stores(request: &crate::stage::Request, status: u16, fields: Fields<'_>) -> Result<(), String> {
    let mut stage = Stage::new();
    let seen = stage.ask(request, status, fields, "mine");
    let status = seen.header("cache-status");
    let found = stage.cache.engine().len();
    if status.ends_with("; stored") {
        assert_eq!(found, 1);
        Ok(())
    } else {
        assert_eq!(found, 0, "{status}");
        assert!(!stage.is_hit(&get("/")));
        Err(status.split_once("detail=").expect("a reason").1.to_owned())
    }
}

fn refused(refusal: Refusal) -> Result<(), String> {
    Err(refusal.name().to_owned())
}

#[test]
fn directives_that_forbid() {
    let fresh = ("cache-control", "max-age=60");
    for (value, refusal) in [
        ("private", Refusal::Private),
        ("PRIVATE", Refusal::Private),
        ("private=\"set-cookie\"", Refusal::Private),
        ("no-store", Refusal::NoStore),
        ("No-Store", Refusal::NoStore),
        ("extension=\"unclosed, private", Refusal::NoStore),
    ] {
        assert_eq!(
            stores(&get("/"), 200, &[fresh, ("cache-control", value)]),
            refused(refusal),
            "{value}"
        );
        let public = format!("public, s-maxage=60, {value}");
        assert_eq!(
            stores(&get("/"), 200, &[("cache-control", &public)]),
            refused(refusal),
            "{public}"
        );
    }
    let request = get("/").with("cache-control", "no-store");
    let mut stage = Stage::new();
    let seen = stage.ask(&request, 200, &[fresh], "mine");
    assert!(
        seen.header("cache-status").ends_with("detail=no-store"),
        "{seen:?}"
    );
    assert!(!stage.is_hit(&get("/")));
}

/// RFC 9111 §5.2.1.5: no part of the response to a no-store request is stored, be it a 304's or a
/// HEAD's fields.
#[test]
fn a_no_store_request_renews_nothing() {
    for (method, status) in [(Method::GET, 304), (Method::HEAD, 304), (Method::HEAD, 200)] {
        let fresh: Fields<'_> = &[("cache-control", "max-age=60"), ("etag", "\"1\"")];
        let mut stage = Stage::new();
        stage.ask(&get("/"), 200, fresh, "x");
        stage.wait(60);
        let mut request = get("/").with("cache-control", "no-store");
        request.method = method.clone();
        let mine: Fields<'_> = &[
            fresh[0],
            fresh[1],
            ("x-secret", "alice"),
            ("content-length", "1"),
        ];
        let seen = stage.ask(&request, status, mine, "");
        assert_eq!((seen.status, seen.header("x-secret")), (200, "alice"));
        assert!(!stage.is_hit(&get("/")), "renewed by {method} {status}");
        let seen = stage.ask(&get("/"), 304, fresh, "");
        assert_eq!(
            (seen.header("x-secret"), &seen.body[..]),
            ("", &b"x"[..]),
            "{method} {status}"
        );
    }
}

/// RFC 9111 §5.2.2.3: must-understand overrules no-store, for statuses that are understood.
#[test]
fn must_understand() {
    let fields: Fields<'_> = &[("cache-control", "max-age=60, no-store, must-understand")];
    assert_eq!(stores(&get("/"), 200, fields), Ok(()));
    assert_eq!(stores(&get("/"), 299, fields), refused(Refusal::Status));
    assert_eq!(
        stores(
            &get("/"),
            299,
            &[("cache-control", "max-age=60, must-understand")]
        ),
        refused(Refusal::Status)
    );
}

/// Failure: a client gets the session of another one, because the origin, or a framework of it,
/// gives the response a lifetime.
#[test]
fn a_cookie_is_stored_with_its_response() {
    let cookie = ("set-cookie", "id=1");
    let expires = ("expires", "Sun, 06 Nov 1994 09:49:37 GMT");
    for fields in [
        &[("last-modified", TEN_DAYS_BEFORE)][..],
        &[
            ("last-modified", TEN_DAYS_BEFORE),
            ("cache-control", "public"),
        ],
        &[expires],
        &[expires, ("cache-control", "public")],
        &[("cache-control", "max-age=60")],
        &[("cache-control", "max-age=60, public")],
        &[("cache-control", "s-maxage=60")],
        &[("cache-control", "max-age=60, immutable")],
        &[
            ("cache-control", "no-store"),
            ("cdn-cache-control", "public, max-age=60"),
        ],
    ] {
        assert_eq!(stores(&get("/"), 200, fields), Ok(()), "{fields:?}");
        let with_cookie = [fields, &[cookie]].concat();
        assert_eq!(
            stores(&get("/"), 200, &with_cookie),
            refused(Refusal::SetCookie),
            "{fields:?}"
        );
    }
}

/// Failure: a 304 brings the cookie of one client into what is stored for all.
#[test]
fn a_cookie_of_a_304_is_stored() {
    let mut stage = Stage::new();
    let control = ("cache-control", "public, max-age=1");
    stage.ask(&get("/"), 200, &[control, ("etag", "\"1\"")], "page");
    stage.wait(2);
    let seen = stage.ask(
        &get("/"),
        304,
        &[control, ("etag", "\"1\""), ("set-cookie", "id=1")],
        "",
    );
    assert_eq!(
        (seen.header("set-cookie"), &seen.body[..]),
        ("id=1", &b"page"[..]),
        "its client gets it"
    );
    assert!(!stage.is_hit(&get("/")));
}

/// Where the operator says that his origin minds its cookies, Cache-Control alone decides; what is
/// private stays private.
#[test]
fn cookies_that_the_operator_lets_be_shared() {
    let config = larder_http::Config {
        share_cookies: true,
        ..crate::stage::config(1 << 20, "lru")
    };
    for (control, shared) in [
        ("max-age=60", true),
        ("private, max-age=60", false),
        ("no-store", false),
    ] {
        let mut stage = Stage::new();
        stage.cache = larder_http::Cache::new(&config, &larder_units::Streams::new(1)).unwrap();
        stage.ask(
            &get("/"),
            200,
            &[("cache-control", control), ("set-cookie", "id=1")],
            "page",
        );
        assert_eq!(stage.is_hit(&get("/")), shared, "{control}");
    }
}

#[test]
fn statuses() {
    let fresh: Fields<'_> = &[("cache-control", "max-age=60")];
    let modified: Fields<'_> = &[("last-modified", TEN_DAYS_BEFORE)];
    for status in [200, 203, 300, 301, 308, 404, 405, 410, 414, 501] {
        assert_eq!(stores(&get("/"), status, modified), Ok(()), "{status}");
    }
    for status in [201, 302, 307, 499, 502, 503, 504, 599] {
        assert_eq!(
            stores(&get("/"), status, modified),
            refused(Refusal::Status),
            "{status}"
        );
        assert_eq!(stores(&get("/"), status, fresh), Ok(()), "{status}");
    }
    // One client may have caused it.
    for status in [
        400, 402, 403, 406, 409, 422, 423, 424, 451, 500, 505, 506, 507, 508, 510,
    ] {
        for lifetime in [
            fresh,
            modified,
            &[("cdn-cache-control", "public, max-age=60")],
        ] {
            assert_eq!(
                stores(&get("/"), status, lifetime),
                refused(Refusal::Status),
                "{status}"
            );
        }
    }
    // Partial content is not stored as if it were whole.
    assert_eq!(stores(&get("/"), 206, fresh), refused(Refusal::Status));
    let torn: Fields<'_> = &[
        ("cache-control", "max-age=60"),
        ("content-range", "bytes 0-3/10"),
    ];
    assert_eq!(
        stores(&get("/"), 200, torn),
        Ok(()),
        "elsewhere the field means nothing"
    );
    assert_eq!(
        stores(&get("/").with("range", "bytes=0-3"), 206, torn),
        refused(Refusal::Status)
    );
    assert_eq!(stores(&get("/"), 200, &[]), refused(Refusal::Useless));
}

/// A 304 to a client's own condition is for that client.
#[test]
fn a_relayed_304_is_not_a_page() {
    let mut stage = Stage::new();
    let request = get("/").with("if-none-match", "\"1\"");
    let seen = stage.ask(
        &request,
        304,
        &[("cache-control", "max-age=60"), ("etag", "\"1\"")],
        "",
    );
    assert_eq!(
        (
            seen.status,
            seen.asked
                .as_ref()
                .unwrap()
                .get("if-none-match")
                .unwrap()
                .as_bytes()
        ),
        (304, &b"\"1\""[..])
    );
    assert!(!stage.is_hit(&get("/")));
}

/// A body in a GET is not part of the key.
#[test]
fn fat_get_neither_reads_nor_fills_the_store() {
    let mut stage = Stage::new();
    let mut fat = get("/");
    fat.has_body = true;
    let seen = stage.ask(&fat, 200, &[("cache-control", "max-age=60")], "by the body");
    assert!(
        seen.header("cache-status")
            .starts_with("larder; fwd=bypass")
    );
    assert!(!stage.is_hit(&get("/")));
    stage.ask(&get("/"), 200, &[("cache-control", "max-age=60")], "plain");
    assert_eq!(
        stage.ask(&fat, 200, &[], "by the body").body,
        b"by the body"
    );
    assert_eq!(stage.ask_store(&get("/")).body, b"plain");
}

/// Another host, another page.
#[test]
fn authorities_do_not_share() {
    let mut stage = Stage::new();
    stage.ask(&get("/"), 200, &[("cache-control", "max-age=60")], "x");
    let mut other = get("/");
    other.authority = "example.org".into();
    assert!(!stage.is_hit(&other));
    other.authority = "EXAMPLE.com:80".into();
    assert!(stage.is_hit(&other));
    assert!(!stage.is_hit(&get("/?a")) && !stage.is_hit(&get("/%61")));
}
