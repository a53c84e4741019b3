//! Failure: the cache ignores a field that addresses CDNs, or obeys a field for browsers although
//! the origin sent one for CDNs (RFC 9213).

use crate::stage::{Stage, get};

#[test]
fn the_targeted_field_rules_alone() {
    for (cdn, control, expires, hit) in [
        ("max-age=60", "no-store", "0", true),
        ("max-age=60", "max-age=1", "0", true),
        ("no-store", "max-age=60", "0", false),
        ("private", "public, max-age=60", "0", false),
        ("max-age=1", "max-age=60", "0", false),
        // Not a dictionary, so not there.
        ("max-age = 60", "max-age=1", "0", false),
        // It says nothing of the lifetime, and Expires is not asked.
        (
            "public",
            "max-age=60",
            "Sun, 06 Nov 2094 08:49:37 GMT",
            false,
        ),
    ] {
        let mut stage = Stage::new();
        let fields = [
            ("cdn-cache-control", cdn),
            ("cache-control", control),
            ("expires", expires),
            ("etag", "\"1\""),
        ];
        let seen = stage.ask(&get("/"), 200, &fields, "x");
        assert_eq!(
            (
                seen.header("cdn-cache-control"),
                seen.header("cache-control")
            ),
            (cdn, control),
            "both are passed on"
        );
        stage.wait(5);
        assert_eq!(stage.is_hit(&get("/")), hit, "{cdn} {control}");
    }
}

/// A 304 renews it like any other field.
#[test]
fn a_304_changes_it() {
    let mut stage = Stage::new();
    stage.ask(
        &get("/"),
        200,
        &[("cdn-cache-control", "max-age=1"), ("etag", "\"1\"")],
        "x",
    );
    stage.wait(5);
    stage.ask(
        &get("/"),
        304,
        &[("cdn-cache-control", "max-age=60"), ("etag", "\"1\"")],
        "",
    );
    stage.wait(5);
    assert!(stage.is_hit(&get("/")));
}
