//! Failure: a page behind a password reaches a client without it (RFC 9111 §3.5).

use crate::stage::{Fields, Stage, TEN_DAYS_BEFORE, get};

fn is_shared(fields: Fields<'_>) -> bool {
    let mut stage = Stage::new();
    let authorized = get("/").with("authorization", "Basic dTpw");
    let seen = stage.ask(&authorized, 200, fields, "secret");
    assert_eq!(seen.asked.as_ref().unwrap()["authorization"], "Basic dTpw");
    stage.is_hit(&get("/"))
}

#[test]
fn only_with_the_origins_word() {
    assert!(!is_shared(&[("cache-control", "max-age=60")]));
    assert!(!is_shared(&[("expires", "Sun, 06 Nov 1994 09:49:37 GMT")]));
    assert!(!is_shared(&[("last-modified", TEN_DAYS_BEFORE)]));
    assert!(
        !is_shared(&[("cache-control", "max-age=60, proxy-revalidate")]),
        "not one of the three"
    );
    assert!(is_shared(&[("cache-control", "max-age=60, public")]));
    assert!(is_shared(&[(
        "cache-control",
        "max-age=60, must-revalidate"
    )]));
    assert!(is_shared(&[("cache-control", "s-maxage=60")]));
    assert!(!is_shared(&[("cache-control", "s-maxage=60, private")]));
}

/// `Connection: authorization` would have the field removed on the way; the response is still not
/// shared freely, since the origin saw no credentials, and what it said about a stranger is what is
/// stored.
#[test]
fn connection_does_not_launder_credentials() {
    let mut stage = Stage::new();
    let request = get("/")
        .with("authorization", "Basic dTpw")
        .with("connection", "authorization");
    let seen = stage.ask(
        &request,
        200,
        &[("cache-control", "max-age=60")],
        "for strangers",
    );
    assert!(!seen.asked.unwrap().contains_key("authorization"));
    assert_eq!(stage.ask_store(&get("/")).body, b"for strangers");
}

/// A validated answer of one user does not make the stored one public.
#[test]
fn a_304_that_withdraws_consent_ends_sharing() {
    let mut stage = Stage::new();
    let authorized = get("/").with("authorization", "Basic dTpw");
    stage.ask(
        &authorized,
        200,
        &[("cache-control", "max-age=60, public"), ("etag", "\"1\"")],
        "secret",
    );
    stage.wait(60);
    let seen = stage.ask(
        &authorized,
        304,
        &[("cache-control", "max-age=60"), ("etag", "\"1\"")],
        "",
    );
    assert_eq!(seen.body, b"secret");
    assert!(!stage.is_hit(&get("/")));
    assert_eq!(stage.cache.engine().len(), 0);
}
