//! Failure: an unsafe request changes a page, and the stored page is still served (RFC 9111 §4.4).

use crate::stage::{Fields, Stage, get, request};
use http::Method;

const PAGE: (&str, &str) = ("cache-control", "max-age=60");

/// Which of /a, /b, /c outlive `method` on /a.
fn left(method: &str, status: u16, fields: Fields<'_>) -> String {
    let mut stage = Stage::new();
    for target in ["/a", "/b", "/c"] {
        stage.ask(&get(target), 200, &[PAGE], target);
    }
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    let seen = stage.ask(&request(method, "/a"), status, fields, "done");
    assert_eq!(
        seen.header("cache-status"),
        format!("larder; fwd=method; fwd-status={status}")
    );
    ["a", "b", "c"]
        .into_iter()
        .filter(|name| stage.is_hit(&get(&format!("/{name}"))))
        .collect()
}

#[test]
fn unsafe_and_unknown_methods_that_succeed() {
    for method in ["POST", "PUT", "DELETE", "PATCH", "M-SEARCH", "get"] {
        assert_eq!(left(method, 200, &[]), "bc", "{method}");
        assert_eq!(left(method, 303, &[]), "bc", "{method}");
        assert_eq!(left(method, 403, &[]), "abc", "{method}");
        assert_eq!(left(method, 500, &[]), "abc", "{method}");
    }
    for method in ["OPTIONS", "TRACE"] {
        assert_eq!(left(method, 200, &[]), "abc", "{method}");
    }
}

#[test]
fn location_and_content_location_of_the_same_origin() {
    assert_eq!(left("POST", 201, &[("location", "/b")]), "c");
    assert_eq!(
        left(
            "POST",
            201,
            &[
                ("location", "http://EXAMPLE.com:80/b"),
                ("content-location", "c")
            ]
        ),
        ""
    );
    // Another origin's pages are not ours to remove.
    assert_eq!(
        left(
            "POST",
            201,
            &[
                ("location", "http://other/b"),
                ("content-location", "https://example.com/c")
            ]
        ),
        "bc"
    );
    assert_eq!(left("POST", 500, &[("location", "/b")]), "abc");
}

#[test]
fn all_variants_go() {
    let mut stage = Stage::new();
    for language in ["fr", "de"] {
        let request = get("/").with("accept-language", language);
        stage.ask(
            &request,
            200,
            &[PAGE, ("vary", "accept-language")],
            language,
        );
    }
    stage.ask(&request(Method::DELETE, "/"), 204, &[], "");
    assert_eq!(stage.cache.engine().len(), 0);
    assert_eq!(stage.cache.counters().invalidated, 2);
}

/// RFC 9110 §9.3.3: the answer to a POST takes the place of the page where it says that it is the
/// page, and for how long; else nothing does.
#[test]
fn a_post_that_brings_the_page() {
    let own = ("content-location", "/a");
    for (status, fields, stored) in [
        (200, &[PAGE, own][..], true),
        (
            200,
            &[PAGE, ("content-location", "http://EXAMPLE.com:80/a")],
            true,
        ),
        (200, &[PAGE], false),
        (200, &[PAGE, ("content-location", "/b")], false),
        (
            200,
            &[PAGE, ("content-location", "http://other.com/a")],
            false,
        ),
        (
            200,
            &[own, ("last-modified", crate::stage::TEN_DAYS_BEFORE)],
            false,
        ),
        (200, &[own, ("cache-control", "private, max-age=60")], false),
        (201, &[PAGE, own], false),
        (404, &[PAGE, own], false),
    ] {
        let mut stage = Stage::new();
        stage.ask(&get("/a"), 200, &[PAGE], "before");
        stage.wait(1);
        stage.ask(&request(Method::POST, "/a"), status, fields, "after");
        assert_eq!(
            stage.is_hit(&get("/a")),
            stored || status == 404,
            "{status} {fields:?}"
        );
        if stored {
            assert_eq!(stage.ask_store(&get("/a")).body, b"after");
        }
        let mut stage = Stage::new();
        stage.ask(
            &request(Method::POST, "/a").with("cache-control", "no-store"),
            status,
            fields,
            "after",
        );
        assert!(!stage.is_hit(&get("/a")), "{status} {fields:?}");
    }
}
