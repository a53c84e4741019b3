//! Failure: the host's rules do not decide about a response, or decide more than they say: a
//! private response is shared, or a lifetime is lost when the response is validated.

use crate::stage::{Fields, Seen, Stage, get};
use http::{HeaderMap, StatusCode};
use larder_http::{Overrides, Refusal, ResponseRules, Step};
use std::sync::Arc;

#[derive(Debug)]
struct Always(Overrides);

impl ResponseRules for Always {
    fn overrides(&self, status: StatusCode, _: &HeaderMap) -> Overrides {
        assert_ne!(status, StatusCode::NOT_MODIFIED, "the stored status counts");
        self.0
    }
}

fn ask(stage: &mut Stage, overrides: Overrides, status: u16, fields: Fields<'_>) -> Seen {
    let mut exchange = stage.open(&get("/"));
    exchange.set_rules(Arc::new(Always(overrides)));
    stage.reply(exchange, status, fields, "body")
}

/// Returns the seconds for which the response is a hit; `None` if it is not stored.
fn lifetime(overrides: Overrides, status: u16, fields: Fields<'_>) -> Option<u64> {
    let mut stage = Stage::new();
    ask(&mut stage, overrides, status, fields);
    let lifetime = (0..200).find(|_| {
        let is_hit = stage.is_hit(&get("/"));
        stage.wait(1);
        !is_hit
    });
    lifetime.filter(|seconds| *seconds > 0)
}

const NONE: Overrides = Overrides {
    ttl: None,
    default_ttl: None,
    stale_while_revalidate: None,
    stale_if_error: None,
    ignores_no_store: false,
    ignores_private: false,
};

#[test]
fn lifetimes() {
    let (ttl, default_ttl) = (
        Overrides {
            ttl: Some(60),
            ..NONE
        },
        Overrides {
            default_ttl: Some(60),
            ..NONE
        },
    );
    let control = |value: &'static str| [("cache-control", value)];
    for (value, without, with_ttl, with_default) in [
        ("max-age=10", Some(10), Some(60), Some(10)),
        ("s-maxage=10", Some(10), Some(60), Some(10)),
        ("max-age=0, must-revalidate", None, Some(60), None),
        ("no-cache", None, Some(60), None),
        ("x", None, Some(60), Some(60)),
        ("no-store", None, None, None),
        ("private, max-age=10", None, None, None),
    ] {
        assert_eq!(lifetime(NONE, 200, &control(value)), without, "{value}");
        assert_eq!(lifetime(ttl, 200, &control(value)), with_ttl, "{value}");
        assert_eq!(
            lifetime(default_ttl, 200, &control(value)),
            with_default,
            "{value}"
        );
    }
    assert_eq!(
        lifetime(ttl, 200, &[("expires", "0"), ("age", "5000")]),
        Some(60),
        "it counts from the receipt"
    );
    assert_eq!(lifetime(ttl, 302, &[]), Some(60));
    assert_eq!(
        lifetime(
            Overrides {
                ttl: Some(0),
                ..NONE
            },
            200,
            &[("cache-control", "max-age=10"), ("age", "5")]
        ),
        None
    );
    let ignores = Overrides {
        ignores_no_store: true,
        ignores_private: true,
        ..ttl
    };
    assert_eq!(
        lifetime(ignores, 200, &control("private, no-store")),
        Some(60)
    );
}

#[test]
fn a_cookie_or_a_login_is_shared_because_of_a_lifetime() {
    let ttl = Overrides {
        ttl: Some(60),
        ..NONE
    };
    for control in ["x", "public, max-age=0", "s-maxage=60"] {
        let fields = &[("set-cookie", "session=1"), ("cache-control", control)];
        let seen = ask(&mut Stage::new(), ttl, 200, fields);
        assert!(
            seen.header("cache-status")
                .ends_with(Refusal::SetCookie.name()),
            "{control}: {seen:?}"
        );
    }
    for control in ["x", "max-age=0, must-revalidate", "s-maxage=0"] {
        let mut stage = Stage::new();
        let Step::Forward(mut exchange) = stage.cache.on_request(&get("/").head(), stage.now)
        else {
            panic!("a hit")
        };
        exchange.take_headers(get("/").with("authorization", "Basic x").headers);
        exchange.set_rules(Arc::new(Always(ttl)));
        let seen = stage.reply(exchange, 200, &[("cache-control", control)], "body");
        assert!(
            seen.header("cache-status")
                .ends_with(Refusal::Authorization.name()),
            "{control}: {seen:?}"
        );
    }
}

#[test]
fn a_confirmed_response_loses_its_lifetime() {
    let ttl = Overrides {
        ttl: Some(60),
        ..NONE
    };
    let mut stage = Stage::new();
    ask(
        &mut stage,
        ttl,
        200,
        &[("etag", "\"1\""), ("cache-control", "max-age=5")],
    );
    stage.wait(61);
    let seen = ask(
        &mut stage,
        ttl,
        304,
        &[("etag", "\"1\""), ("cache-control", "max-age=5")],
    );
    assert_eq!(
        (
            seen.status,
            seen.header("cache-status").contains("fwd=stale")
        ),
        (200, true),
        "{seen:?}"
    );
    stage.wait(59);
    assert!(stage.is_hit(&get("/")));
}

#[test]
fn stale_responses_are_served_for_the_time_of_the_rules() {
    let stale = Overrides {
        stale_while_revalidate: Some(30),
        stale_if_error: Some(100),
        ..NONE
    };
    for control in ["max-age=10", "s-maxage=10"] {
        let mut stage = Stage::new();
        ask(&mut stage, stale, 200, &[("cache-control", control)]);
        stage.wait(20);
        let step = stage.cache.on_request(&get("/").head(), stage.now);
        assert!(matches!(step, Step::Refresh(..)), "{control}: {step:?}");
        stage.give_up(step);
        stage.wait(40);
        assert_eq!(ask(&mut stage, stale, 503, &[]).status, 200, "{control}");
        stage.wait(60);
        assert_eq!(ask(&mut stage, stale, 503, &[]).status, 503, "{control}");
    }
    let mut stage = Stage::new();
    ask(
        &mut stage,
        stale,
        200,
        &[("cache-control", "max-age=10, must-revalidate")],
    );
    stage.wait(20);
    assert_eq!(
        ask(&mut stage, stale, 503, &[]).status,
        503,
        "the origin forbids it"
    );
}

/// Failure: a request that bypasses the store gets a stored response, or leaves its own there.
#[test]
fn a_pass_touches_the_store() {
    let mut stage = Stage::new();
    stage.ask(&get("/"), 200, &[("cache-control", "max-age=60")], "shared");
    let Step::Forward(mut exchange) = stage.cache.on_pass(&get("/").head(), stage.now) else {
        panic!("an answer")
    };
    exchange.take_headers(HeaderMap::new());
    let seen = stage.reply(exchange, 200, &[("cache-control", "max-age=60")], "own");
    assert_eq!(&seen.body[..], b"own");
    assert_eq!(&stage.ask_store(&get("/")).body[..], b"shared");
}
