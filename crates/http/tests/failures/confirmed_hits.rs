//! Failure: a host that knows the origin's present entity tag gets an outdated response, one that
//! it has not confirmed, or a head that says when the response was stored instead of now.

use crate::stage::{Request, Stage, get};
use http::{HeaderMap, StatusCode};
use larder_http::{PlainHit, PlainRequest, RequestHead, Step};

const TAG: &str = "\"a\"";

/// A stage on which a response with this tag is stale, an hour later.
fn stale() -> Stage {
    let mut stage = Stage::new();
    for target in ["/small", "/large"] {
        let body = if target == "/small" {
            "body".to_owned()
        } else {
            "x".repeat(100_000)
        };
        let fields = [("cache-control", "no-cache"), ("etag", TAG)];
        stage.ask(&get(target), 200, &fields, &body);
    }
    stage.ask(
        &get("/missing"),
        404,
        &[("cache-control", "max-age=1"), ("etag", TAG)],
        "none",
    );
    stage.wait(3600);
    stage
}

fn plain(stage: &mut Stage, target: &str, confirmed: Option<&str>) -> Option<(PlainHit, String)> {
    let request = PlainRequest {
        scheme: "http",
        authority: "example.com",
        target,
        asks_for_less: false,
        coding: None,
        confirmed: confirmed.map(str::as_bytes),
    };
    let mut start = Vec::new();
    let hit = stage
        .cache
        .plain_hit(request, HeaderMap::new, stage.now, &mut start)?;
    Some((hit, String::from_utf8(start).unwrap()))
}

/// The status and the fields of the long way; `None` if it asks the origin.
fn long(
    stage: &mut Stage,
    request: &Request,
    confirmed: Option<&str>,
) -> Option<(StatusCode, HeaderMap)> {
    let head = RequestHead {
        confirmed: confirmed.map(str::as_bytes),
        ..request.head()
    };
    match stage.cache.on_request(&head, stage.now) {
        Step::Answer(answer) => Some((answer.status, answer.headers)),
        Step::Forward(exchange) => {
            stage.cache.on_abandoned(exchange, &mut stage.outbox);
            None
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_response_is_used_that_is_not_the_confirmed_one() {
    let mut stage = stale();
    for target in ["/small", "/large"] {
        for confirmed in [None, Some("\"b\""), Some("W/\"a\""), Some("a"), Some("")] {
            assert!(
                plain(&mut stage, target, confirmed).is_none(),
                "{target} {confirmed:?}"
            );
            assert!(
                long(&mut stage, &get(target), confirmed).is_none(),
                "{target} {confirmed:?}"
            );
        }
        assert!(plain(&mut stage, target, Some(TAG)).is_some(), "{target}");
        assert!(
            long(&mut stage, &get(target), Some(TAG)).is_some(),
            "{target}"
        );
    }
    // A tag is that of a 200.
    assert!(plain(&mut stage, "/missing", Some(TAG)).is_none());
    assert!(long(&mut stage, &get("/missing"), Some(TAG)).is_none());
    assert!(plain(&mut stage, "/other", Some(TAG)).is_none());
}

#[test]
fn a_confirmed_response_looks_old() {
    let mut stage = stale();
    let now = "date: Sun, 06 Nov 1994 09:49:37 GMT";
    let (_, head) = plain(&mut stage, "/small", Some(TAG)).unwrap();
    assert!(head.contains(now), "{head}");
    assert!(
        head.contains("\r\nage: 0\r\n") && head.contains("larder; hit; ttl="),
        "{head}"
    );
    let (status, headers) = long(&mut stage, &get("/small"), Some(TAG)).unwrap();
    assert_eq!(status, StatusCode::OK);
    assert_eq!(
        (&headers["age"], headers["date"].to_str().unwrap()),
        (&"0".parse().unwrap(), &now[6..])
    );
}

/// A client's directives ask for a validated response, which a confirmed one is.
#[test]
fn a_reload_of_a_confirmed_response_goes_to_the_origin() {
    let mut stage = stale();
    for (name, value, status) in [
        ("cache-control", "no-cache", 200),
        ("cache-control", "max-age=0", 200),
        ("if-none-match", TAG, 304),
        ("range", "bytes=0-1", 206),
    ] {
        let request = get("/small").with(name, value);
        let found = long(&mut stage, &request, Some(TAG)).map(|(status, _)| status.as_u16());
        assert_eq!(found, Some(status), "{name}: {value}");
    }
}
