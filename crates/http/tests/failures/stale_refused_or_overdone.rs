//! Failure: a client gets a stale response although a fresh one was available, or an error although
//! a stale response was allowed (RFC 5861, RFC 9111 §4.2.4).

use crate::stage::{Fields, Stage, get};
use larder_http::{Step, UpstreamFailure};

fn stored(control: &str) -> Stage {
    let mut stage = Stage::new();
    stage.ask(
        &get("/"),
        200,
        &[("cache-control", control), ("etag", "\"1\"")],
        "old",
    );
    stage.wait(12);
    stage
}

/// The answer where the origin fails in this way.
fn failing(stage: &mut Stage, failure: UpstreamFailure) -> (u16, String) {
    let exchange = stage.open(&get("/"));
    let answer = stage.fail(exchange, failure);
    (
        answer.status.as_u16(),
        answer.headers["cache-status"].to_str().unwrap().to_owned(),
    )
}

#[test]
fn one_validates_in_the_background_and_nobody_waits() {
    let mut stage = stored("max-age=10, stale-while-revalidate=5");
    let Step::Refresh(answer, mut exchange) = stage.cache.on_request(&get("/").head(), stage.now)
    else {
        panic!()
    };
    assert_eq!(
        (&answer.body[..], &answer.headers["cache-status"]),
        (&b"old"[..], &"larder; hit; ttl=-2".parse().unwrap())
    );
    exchange.take_headers(http::HeaderMap::new());
    assert_eq!(exchange.upstream_headers()["if-none-match"], "\"1\"");
    assert_eq!(stage.ask_store(&get("/")).body, b"old", "one is enough");
    stage.reply(exchange, 200, &[("cache-control", "max-age=10")], "new");
    assert_eq!(stage.ask_store(&get("/")).body, b"new");
    assert_eq!(stage.cache.counters().stale, 2);
}

#[test]
fn a_refresh_that_fails_lets_the_next_try() {
    let mut stage = stored("max-age=10, stale-while-revalidate=5");
    for _ in 0..2 {
        let Step::Refresh(_, exchange) = stage.cache.on_request(&get("/").head(), stage.now) else {
            panic!()
        };
        stage.fail(exchange, UpstreamFailure::Unreachable);
        stage.wait(1);
    }
}

/// Failure: what the origin says about stale responses counts for nothing, because it says it
/// beside `s-maxage`, as frameworks do.
#[test]
fn s_maxage_makes_the_stale_directives_void() {
    let strict = larder_http::Config {
        strict_s_maxage: true,
        ..crate::stage::config(1 << 20, "lru")
    };
    for field in ["cache-control", "cdn-cache-control"] {
        for is_strict in [false, true] {
            let mut stage = Stage::new();
            if is_strict {
                stage.cache =
                    larder_http::Cache::new(&strict, &larder_units::Streams::new(1)).unwrap();
            }
            let control = "s-maxage=1, stale-while-revalidate=60";
            stage.ask(&get("/swr"), 200, &[(field, control)], "old");
            stage.ask(
                &get("/sie"),
                200,
                &[(field, "s-maxage=1, stale-if-error=60")],
                "old",
            );
            stage.ask(&get("/none"), 200, &[(field, "s-maxage=1")], "old");
            stage.ask(
                &get("/never"),
                200,
                &[(field, "s-maxage=1, stale-if-error=60, must-revalidate")],
                "old",
            );
            stage.wait(30);
            let step = stage.cache.on_request(&get("/swr").head(), stage.now);
            assert_eq!(matches!(step, Step::Refresh(..)), !is_strict, "{field}");
            stage.give_up(step);
            for (target, allowed) in [
                ("/sie", true),
                ("/none", false),
                ("/never", false),
                ("/swr", false),
            ] {
                stage.wait(31 * u64::from(target == "/swr"));
                let exchange = stage.open(&get(target));
                let answer = stage.fail(exchange, UpstreamFailure::Unreachable);
                let expected = if allowed && !is_strict { 200 } else { 504 };
                assert_eq!(answer.status, expected, "{field} {target}");
            }
            // RFC 9111 §5.2.2.10 still holds for what a client allows.
            let lenient = get("/none").with("cache-control", "max-stale=600");
            let exchange = stage.open(&lenient);
            stage.abandon(exchange);
        }
    }
}

/// Failure: while an origin fails, each client waits for it before it gets the stale response.
#[test]
fn each_client_waits_for_a_failing_origin() {
    for failure in [Some(UpstreamFailure::TimedOut), None] {
        let mut stage = stored("max-age=10, stale-if-error=99");
        let fail = |stage: &mut Stage, exchange| match failure {
            Some(failure) => stage.fail(exchange, failure).status.as_u16(),
            None => stage.reply(exchange, 503, &[], "trouble").status,
        };
        let exchange = stage.open(&get("/"));
        assert_eq!(fail(&mut stage, exchange), 200);
        for _ in 0..3 {
            // Nobody waits, and the origin is left alone for a second.
            assert_eq!(stage.ask_store(&get("/")).body, b"old");
            assert_eq!(
                stage
                    .ask_store(&get("/"))
                    .header("cache-status")
                    .split("; ")
                    .nth(1),
                Some("hit")
            );
            stage.wait(1);
            let Step::Refresh(answer, exchange) =
                stage.cache.on_request(&get("/").head(), stage.now)
            else {
                panic!("it is tried in the background")
            };
            assert_eq!(answer.body, "old");
            assert_eq!(stage.ask_store(&get("/")).body, b"old", "one try at a time");
            fail(&mut stage, exchange);
        }
        // A client that insists waits, and gets the error.
        let exchange = stage.open(&get("/").with("cache-control", "no-cache"));
        assert!(fail(&mut stage, exchange) >= 500);
        stage.wait(1);
        let step = stage.cache.on_request(&get("/").head(), stage.now);
        let Step::Refresh(_, exchange) = step else {
            panic!("{step:?}")
        };
        stage.reply(
            exchange,
            200,
            &[("cache-control", "max-age=10, stale-if-error=99")],
            "new",
        );
        assert_eq!(stage.ask_store(&get("/")).body, b"new");
        // It has recovered: what is stale is validated first.
        stage.wait(11);
        let exchange = stage.open(&get("/"));
        stage.abandon(exchange);
    }
}

/// Failure: a failure is remembered for ever, or lets a response be served for longer than it may
/// be.
#[test]
fn a_remembered_failure_allows_what_the_response_forbids() {
    let mut stage = stored("max-age=10, stale-if-error=20");
    let exchange = stage.open(&get("/"));
    assert_eq!(stage.fail(exchange, UpstreamFailure::TimedOut).status, 200);
    stage.wait(17);
    assert_eq!(stage.ask(&get("/"), 503, &[], "").body, b"old");
    stage.wait(1);
    let exchange = stage.open(&get("/"));
    assert_eq!(stage.fail(exchange, UpstreamFailure::TimedOut).status, 504);
    // A 503 does not make stale what may be stale only without an answer.
    let mut stage = stored("max-age=10");
    let exchange = stage.open(&get("/"));
    assert_eq!(stage.fail(exchange, UpstreamFailure::TimedOut).status, 200);
    stage.wait(61);
    let exchange = stage.open(&get("/"));
    assert_eq!(stage.reply(exchange, 503, &[], "trouble").status, 503);
}

#[test]
fn who_must_not_get_stale_waits() {
    for control in [
        "max-age=10, stale-while-revalidate=2",
        "max-age=10, stale-while-revalidate=99, must-revalidate",
        "s-maxage=10, stale-while-revalidate=99, proxy-revalidate",
        "max-age=10, stale-while-revalidate=99, no-cache",
        "max-age=10, stale-while-revalidate=x",
        "max-age=10",
    ] {
        let _ = stored(control).open(&get("/"));
    }
    for wish in ["no-cache", "max-age=20", "min-fresh=1", "no-store"] {
        let _ = stored("max-age=10, stale-while-revalidate=99")
            .open(&get("/").with("cache-control", wish));
    }
}

#[test]
fn stale_if_error_as_long_as_the_response_says() {
    for status in [500, 502, 503, 504] {
        let mut stage = stored("max-age=10, stale-if-error=3");
        let seen = stage.ask(&get("/"), status, &[], "trouble");
        assert_eq!((seen.status, &seen.body[..]), (200, &b"old"[..]));
        let expected =
            format!("larder; fwd=stale; fwd-status={status}; ttl=-2; detail=stale-if-error");
        assert_eq!(
            (seen.header("cache-status"), seen.header("age")),
            (expected.as_str(), "12")
        );
    }
    let mut stage = stored("max-age=10, stale-if-error=3");
    let (status, cache_status) = failing(&mut stage, UpstreamFailure::Unreachable);
    assert_eq!(
        (status, cache_status.as_str()),
        (200, "larder; fwd=stale; ttl=-2; detail=stale-if-error")
    );
    stage.wait(1);
    assert_eq!(stage.ask(&get("/"), 503, &[], "trouble").status, 503);
    assert_eq!(failing(&mut stage, UpstreamFailure::Unreachable).0, 502);
}

#[test]
fn without_a_word_only_where_the_origin_is_out_of_reach() {
    let mut stage = stored("max-age=10");
    assert_eq!(stage.ask(&get("/"), 503, &[], "trouble").status, 503);
    for failure in [
        UpstreamFailure::Unreachable,
        UpstreamFailure::TimedOut,
        UpstreamFailure::Malformed,
    ] {
        assert_eq!(failing(&mut stored("max-age=10"), failure).0, 200);
    }
    assert_eq!(failing(&mut stage, UpstreamFailure::Circle).0, 508);
    stage.wait(3600);
    assert_eq!(failing(&mut stage, UpstreamFailure::Unreachable).0, 502);
    for control in [
        "max-age=10, must-revalidate",
        "max-age=10, proxy-revalidate",
        "s-maxage=10",
        "max-age=10, no-cache",
    ] {
        let status = failing(&mut stored(control), UpstreamFailure::Unreachable).0;
        assert!(status == 504 || status == 502, "{control}: {status}");
    }
    assert_eq!(
        failing(
            &mut stored("max-age=10, stale-if-error=0"),
            UpstreamFailure::Unreachable
        )
        .0,
        502
    );
}

/// RFC 9111 §5.2.1.4: what a reload asks for is not replaced by what it wanted confirmed, be that
/// fresh or stale.
#[test]
fn a_reload_gets_the_error() {
    for wait in [0, 20] {
        let mut stage = stored("max-age=15, stale-if-error=99");
        stage.wait(wait);
        let exchange = stage.open(&get("/").with("cache-control", "no-cache"));
        assert_eq!(
            stage.fail(exchange, UpstreamFailure::Unreachable).status,
            502,
            "{wait}"
        );
    }
}

/// RFC 8246: a reload of what cannot have changed is not worth a question; a forced one is.
#[test]
fn immutable_is_reloaded_only_by_force() {
    let mut stage = Stage::new();
    let fields: Fields<'_> = &[("cache-control", "max-age=10, immutable")];
    stage.ask(&get("/"), 200, fields, "fixed");
    stage.wait(5);
    assert!(stage.is_hit(&get("/").with("cache-control", "max-age=0")));
    assert!(!stage.is_hit(&get("/").with("cache-control", "no-cache")));
    stage.wait(5);
    assert!(!stage.is_hit(&get("/")), "stale is stale");
}

/// Failure: an origin whose clock is behind never gets a hit; or what a cache in between has kept
/// counts as new.
#[test]
fn an_origin_whose_clock_is_behind_never_hits() {
    // 120 s before the stage's time.
    let date = ("date", "Sun, 06 Nov 1994 08:47:37 GMT");
    let max_age = ("cache-control", "max-age=60");
    let expires = ("expires", "Sun, 06 Nov 1994 08:48:37 GMT");
    for lifetime in [max_age, expires, ("cdn-cache-control", "max-age=60")] {
        let mut stage = Stage::new();
        stage.ask(&get("/"), 200, &[lifetime, date, ("etag", "\"1\"")], "page");
        stage.wait(59);
        assert_eq!(
            stage.ask_store(&get("/")).header("age"),
            "59",
            "{lifetime:?}"
        );
        stage.wait(1);
        assert!(!stage.is_hit(&get("/")), "{lifetime:?}");
        assert_eq!(stage.cache.counters().clocks_behind, 1);
        // A 304 of the same clock.
        stage.ask(
            &get("/"),
            304,
            &[
                max_age,
                ("date", "Sun, 06 Nov 1994 08:48:37 GMT"),
                ("etag", "\"1\""),
            ],
            "",
        );
        assert!(stage.is_hit(&get("/")), "{lifetime:?}");
    }
    for of_a_cache in [
        ("age", "0"),
        ("age", "120"),
        ("via", "1.1 varnish"),
        ("cache-status", "edge; hit"),
        ("x-cache", "HIT"),
        ("x-varnish", "1 2"),
        ("cf-cache-status", "HIT"),
    ] {
        let mut stage = Stage::new();
        stage.ask(&get("/"), 200, &[max_age, date, of_a_cache], "page");
        assert!(!stage.is_hit(&get("/")), "{of_a_cache:?}");
        assert_eq!(stage.cache.counters().clocks_behind, 0, "{of_a_cache:?}");
    }
    // Each origin is reported once, and not for a second.
    let mut stage = Stage::new();
    let warned = [("date", "Sun, 06 Nov 1994 08:49:36 GMT"), date, date].map(|date| {
        stage.ask(
            &get("/"),
            200,
            &[("cache-control", "no-store"), date],
            "page",
        );
        stage
            .outbox
            .clock_behind
            .take()
            .map(|origin| (origin.authority, origin.behind.as_secs()))
    });
    assert_eq!(warned, [None, Some(("example.com".to_owned(), 120)), None]);
}
