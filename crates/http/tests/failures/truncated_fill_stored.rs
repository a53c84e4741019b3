//! Failure: half a file is served for a day (RFC 9111 §3.3).

use crate::stage::{Stage, get, headers};
use http::{StatusCode, Version};
use larder_http::{Completion, Read, Refusal, Reply, ResponseHead};

const PAGE: (&str, &str) = ("cache-control", "max-age=60");

#[test]
fn shorter_or_longer_than_declared() {
    let mut stage = Stage::new();
    for (length, body) in [("10", "short"), ("3", "too long"), ("0", "x")] {
        let seen = stage.ask(&get("/"), 200, &[PAGE, ("content-length", length)], body);
        assert_eq!(seen.completion, Some(Completion::Truncated), "{length}");
        assert!(!stage.is_hit(&get("/")));
    }
    assert_eq!(stage.cache.counters().truncated, 3);
    assert_eq!(stage.cache.filling().bytes(), 0);
}

#[test]
fn a_broken_connection() {
    let mut stage = Stage::new();
    let exchange = stage.open(&get("/"));
    let head = ResponseHead {
        status: StatusCode::OK,
        version: Version::HTTP_11,
        headers: headers(&[PAGE, ("transfer-encoding", "chunked")]),
    };
    let Reply::Relay {
        fill: Some(mut fill),
        ..
    } = stage.respond(exchange, head)
    else {
        panic!()
    };
    stage.push(&mut fill, b"half");
    assert!(stage.cache.filling().bytes() > 0);
    stage.abort(fill);
    assert_eq!(stage.cache.filling().bytes(), 0);
    assert!(!stage.is_hit(&get("/")));
}

/// A body may end with its connection, where the fields do not say otherwise (RFC 9112, section 8).
#[test]
fn bodies_without_an_end_of_their_own() {
    let mut stage = Stage::new();
    let seen = stage.ask(&get("/close"), 200, &[PAGE, ("x-unframed", "1")], "all");
    assert_eq!(
        seen.header("cache-status"),
        "larder; fwd=uri-miss; fwd-status=200"
    );
    assert_eq!(seen.completion, Some(Completion::Stored));
    let hit = stage.ask_store(&get("/close"));
    assert_eq!(
        (hit.header("content-length"), &hit.body[..]),
        ("3", &b"all"[..])
    );
    let seen = stage.ask(
        &get("/"),
        200,
        &[PAGE, ("transfer-encoding", "gzip")],
        "perhaps all",
    );
    assert!(seen.header("cache-status").ends_with("detail=unframed"));
    let seen = stage.ask(
        &get("/"),
        200,
        &[PAGE, ("transfer-encoding", "chunked")],
        "all",
    );
    assert_eq!(
        seen.header("cache-status"),
        "larder; fwd=uri-miss; fwd-status=200"
    );
    assert_eq!(seen.completion, Some(Completion::Stored));
    let hit = stage.ask_store(&get("/"));
    assert_eq!(
        (hit.header("content-length"), &hit.body[..]),
        ("3", &b"all"[..])
    );
}

/// The old response stays until a whole new one is there.
#[test]
fn a_truncated_successor_does_not_remove_what_can_be_validated() {
    let mut stage = Stage::new();
    stage.ask(&get("/"), 200, &[PAGE, ("etag", "\"1\"")], "whole");
    stage.wait(60);
    stage.ask(
        &get("/"),
        200,
        &[PAGE, ("etag", "\"2\""), ("content-length", "100")],
        "half",
    );
    let seen = stage.ask(&get("/"), 304, &[PAGE, ("etag", "\"1\"")], "");
    assert_eq!((seen.status, &seen.body[..]), (200, &b"whole"[..]));
}

/// A GET that was under way when its target was changed may carry what was before.
#[test]
fn a_response_from_before_an_invalidation() {
    let mut stage = Stage::new();
    let exchange = stage.open(&get("/"));
    stage.wait(1);
    stage.ask(
        &crate::stage::request(http::Method::POST, "/"),
        200,
        &[],
        "changed",
    );
    let seen = stage.reply(exchange, 200, &[PAGE], "before");
    assert_eq!(
        seen.completion,
        Some(Completion::Refused(Refusal::Invalidated))
    );
    assert!(!stage.is_hit(&get("/")));
    stage.wait(1);
    stage.ask(&get("/"), 200, &[PAGE], "after");
    assert_eq!(stage.ask_store(&get("/")).body, b"after");
}

/// Failure: on a busy site, invalidations of other pages prevent the storing of a page that was
/// requested at the same time.
#[test]
fn other_pages_that_change_meanwhile_do_not_matter() {
    let mut stage = Stage::new();
    let exchange = stage.open(&get("/"));
    stage.wait(1);
    for page in 0..5000 {
        stage.ask(
            &crate::stage::request(http::Method::PUT, &format!("/{page}")),
            200,
            &[],
            "changed",
        );
    }
    assert_eq!(
        stage.reply(exchange, 200, &[PAGE], "page").completion,
        Some(Completion::Stored)
    );
    assert!(stage.is_hit(&get("/")));
}

/// Failure: who reads a body that turns out to be too short gets nothing of it.
#[test]
fn what_came_of_a_truncated_body_is_read() {
    let mut stage = Stage::new();
    let exchange = stage.open(&get("/"));
    let head = ResponseHead {
        status: StatusCode::OK,
        version: Version::HTTP_11,
        headers: headers(&[PAGE, ("content-length", "10")]),
    };
    let Reply::Relay {
        fill: Some(mut fill),
        ..
    } = stage.respond(exchange, head)
    else {
        panic!()
    };
    let mut reader = stage.reader(&fill.part()).unwrap();
    stage.push(&mut fill, b"short");
    assert_eq!(stage.complete(fill), Completion::Truncated);
    assert_eq!(stage.read(&mut reader), Read::Bytes("short".into()));
    assert_eq!(stage.read(&mut reader), Read::Broken);
    stage.leave(reader);
    assert_eq!(stage.cache.filling().bytes(), 0);
}
