//! Failure: a purged response is served once more, or a purge removes other responses too.

use crate::stage::{Stage, get, request};
use http::Method;
use larder_http::{Completion, JoinResult, Purge, Refusal, Scope, Step, UpstreamFailure};

const PAGE: (&str, &str) = ("cache-control", "max-age=60");
const TARGETS: [&str; 5] = ["/", "/a", "/a/b", "/ab?q", "/c"];

fn stored() -> Stage {
    let mut stage = Stage::new();
    for target in TARGETS {
        let fields = [
            PAGE,
            ("etag", "\"1\""),
            ("surrogate-key", "all  one"),
            ("cache-tag", "x, y z"),
        ];
        stage.ask(&get(target), 200, &fields, target);
    }
    for language in ["de", "fr"] {
        let fields = [PAGE, ("vary", "accept-language"), ("cache-tag", language)];
        stage.ask(
            &get("/v").with("accept-language", language),
            200,
            &fields,
            language,
        );
    }
    stage
}

fn purge(stage: &mut Stage, scope: Scope, soft: bool) -> u64 {
    let purge = Purge { scope, soft };
    let (mut from, mut objects) = (0, 0);
    loop {
        let step = stage.cache.purge(&purge, from, stage.now);
        objects += step.objects;
        match step.next {
            Some(next) => from = next,
            None => return objects,
        }
    }
}

fn hits(stage: &mut Stage) -> Vec<&'static str> {
    TARGETS
        .into_iter()
        .filter(|target| stage.is_hit(&get(target)))
        .collect()
}

fn url(text: &str) -> larder_http::Url {
    text.parse().unwrap()
}

#[test]
fn each_scope_takes_what_it_names_and_no_more() {
    let tag = |text: &str| Scope::Tag(text.to_owned());
    for (scope, objects, left) in [
        (
            Scope::Exact(url("http://EXAMPLE.com:80/a")),
            1,
            &["/", "/a/b", "/ab?q", "/c"][..],
        ),
        (Scope::Exact(url("http://example.com/v")), 2, &TARGETS),
        (Scope::Exact(url("https://example.com/a")), 0, &TARGETS),
        (Scope::Prefix(url("http://example.com/a")), 3, &["/", "/c"]),
        (
            Scope::Prefix(url("http://example.com/a/")),
            1,
            &["/", "/a", "/ab?q", "/c"],
        ),
        (Scope::Prefix(url("http://example.com")), 7, &[]),
        (Scope::Prefix(url("http://example.co")), 0, &TARGETS),
        (tag("one"), 5, &[]),
        (tag("y z"), 5, &[]),
        (tag("y"), 0, &TARGETS),
        (tag("fr"), 1, &TARGETS),
        (Scope::Everything, 7, &[]),
    ] {
        let mut stage = stored();
        assert_eq!(
            (purge(&mut stage, scope.clone(), false), hits(&mut stage)),
            (objects, left.to_vec()),
            "{scope:?}"
        );
        assert_eq!(stage.cache.counters().purged, objects);
    }
}

/// What was asked for before does not come back after.
#[test]
fn what_is_under_way_is_not_stored() {
    let prefix = Scope::Prefix(url("http://example.com/l"));
    for scope in [
        Scope::Exact(url("http://example.com/late")),
        prefix,
        Scope::Everything,
    ] {
        for soft in [false, true] {
            let mut stage = stored();
            let exchange = stage.open(&get("/late"));
            purge(&mut stage, scope.clone(), soft);
            // A request now does not follow the old one.
            let after = stage.open(&get("/late"));
            let seen = stage.reply(exchange, 200, &[PAGE], "old");
            assert_eq!(
                seen.completion,
                Some(Completion::Refused(Refusal::Invalidated))
            );
            stage.abandon(after);
            stage.wait(1);
            stage.ask(&get("/late"), 200, &[PAGE], "new");
            assert_eq!(stage.ask_store(&get("/late")).body, b"new");
        }
    }
}

/// Failure: a request follows a fetch that was purged before it came, because the tags of the
/// response were not known then.
#[test]
fn a_follower_gets_what_was_purged_by_tag_before_it_came() {
    for names_it in [false, true] {
        let mut stage = Stage::new();
        let exchange = stage.open(&get("/late"));
        purge(
            &mut stage,
            Scope::Tag(if names_it { "x" } else { "z" }.to_owned()),
            false,
        );
        let Step::Follow(follower) = stage.cache.on_request(&get("/late").head(), stage.now) else {
            panic!()
        };
        let fill = stage.begin(
            exchange,
            &[PAGE, ("cache-tag", "x, y"), ("content-length", "3")],
        );
        let joined = stage.cache.join(follower, &get("/late").headers);
        assert_eq!(
            matches!(joined, JoinResult::Again(_)),
            names_it,
            "{joined:?}"
        );
        stage.abort(fill);
    }
}

#[test]
fn soft_ones_are_confirmed_or_serve_in_need() {
    for scope in [
        Scope::Exact(url("http://example.com/a")),
        Scope::Tag("one".to_owned()),
    ] {
        let mut stage = stored();
        purge(&mut stage, scope, true);
        stage.wait(1);
        let exchange = stage.open(&get("/a"));
        let answer = stage.fail(exchange, UpstreamFailure::Unreachable);
        assert_eq!(
            (answer.status.as_u16(), &answer.body[..]),
            (200, &b"/a"[..])
        );
        // A client that insists, because the failure is remembered.
        let insists = get("/a").with("cache-control", "max-age=0");
        let seen = stage.ask(&insists, 304, &[PAGE, ("etag", "\"1\"")], "");
        assert_eq!(
            (
                seen.status,
                &seen.body[..],
                seen.asked.unwrap()["if-none-match"].as_bytes()
            ),
            (200, &b"/a"[..], &b"\"1\""[..])
        );
        assert!(stage.is_hit(&get("/a")));
    }
}

/// A walk in steps meets everything, whatever comes and goes meanwhile.
#[test]
fn a_long_walk_goes_in_steps() {
    let mut stage = Stage::with(64 << 20, "lru");
    for number in 0..10_000 {
        stage.ask(&get(&format!("/{number}")), 200, &[PAGE], "x");
    }
    stage.wait(1);
    let everything = Purge {
        scope: Scope::Everything,
        soft: false,
    };
    let (mut from, mut steps, mut objects) = (Some(0), 0, 0);
    while let Some(at) = from {
        let step = stage.cache.purge(&everything, at, stage.now);
        (from, steps, objects) = (step.next, steps + 1, objects + step.objects);
        stage.ask(
            &request(Method::POST, &format!("/{}", 9_999 - steps)),
            200,
            &[],
            "",
        );
    }
    assert!(steps > 1);
    assert!(
        objects + steps >= 10_000 && stage.cache.engine().is_empty(),
        "{objects} in {steps}"
    );
}

/// Failure: between two steps of a purge, a request validates a response that the walk has not
/// reached yet. Its 304 stores the response again, perhaps behind the walk.
#[test]
fn a_304_under_way_does_not_escape_a_walk() {
    // With a longer header block it is stored anew, in a slot that the walk has passed.
    for extra in ["", "a longer value than before"] {
        for late in [false, true] {
            let mut stage = Stage::with(64 << 20, "lru");
            for number in 0..4200 {
                let fields = [("cache-control", "max-age=1"), ("etag", "\"1\"")];
                stage.ask(&get(&format!("/{number}")), 200, &fields, "old");
            }
            stage.wait(2);
            let everything = Purge {
                scope: Scope::Everything,
                soft: false,
            };
            let next = stage
                .cache
                .purge(&everything, 0, stage.now)
                .next
                .expect("another step");
            stage.now.time += std::time::Duration::from_millis(1);
            let exchange = stage.open(&get("/4199"));
            let confirm = |stage: &mut Stage, exchange| {
                stage.reply(exchange, 304, &[PAGE, ("etag", "\"1\""), ("x", extra)], "")
            };
            let mut exchange = Some(exchange);
            if !late {
                confirm(&mut stage, exchange.take().unwrap());
            }
            stage.now.time += std::time::Duration::from_millis(1);
            assert_eq!(stage.cache.purge(&everything, next, stage.now).next, None);
            if let Some(exchange) = exchange {
                confirm(&mut stage, exchange);
            }
            assert!(stage.cache.engine().is_empty(), "{extra:?}, late: {late}");
            stage.now.time += std::time::Duration::from_millis(1);
            stage.ask(&get("/4199"), 200, &[PAGE], "new");
            assert_eq!(stage.ask_store(&get("/4199")).body, b"new");
        }
    }
}

/// Failure: the origin fails during a request, and a response that was purged meanwhile is served
/// instead.
#[test]
fn what_was_purged_meanwhile_does_not_serve_for_a_failing_origin() {
    for (scope, soft, status) in [
        (Scope::Exact(url("http://example.com/a")), false, 502),
        (Scope::Everything, false, 502),
        (Scope::Exact(url("http://example.com/a")), true, 200),
        (Scope::Everything, true, 200),
    ] {
        let mut stage = stored();
        stage.wait(61);
        let exchange = stage.open(&get("/a"));
        purge(&mut stage, scope.clone(), soft);
        let answer = stage.fail(exchange, UpstreamFailure::Unreachable);
        assert_eq!(answer.status, status, "{scope:?}, soft: {soft}");
    }
}

/// Failure: purges of other things keep from the store what is on its way, and its followers ask
/// again; or the purge of what is on its way is missed, because its tags come later.
#[test]
fn a_purge_of_another_thing_keeps_a_response_out_of_the_store() {
    let tag = |text: &str| Scope::Tag(text.to_owned());
    for (scope, names_it) in [
        (Scope::Exact(url("http://example.com/other")), false),
        (Scope::Exact(url("http://example.com/late")), true),
        (Scope::Prefix(url("http://example.org/")), false),
        (Scope::Prefix(url("http://example.com/later")), false),
        (Scope::Prefix(url("http://example.com/la")), true),
        (tag("nothing"), false),
        (tag("one"), true),
        (tag("y"), true),
        (Scope::Everything, true),
    ] {
        for soft in [false, true] {
            for after_head in [false, true] {
                let mut stage = stored();
                let fields = [
                    PAGE,
                    ("surrogate-key", "all one"),
                    ("cache-tag", "x, y"),
                    ("content-length", "3"),
                ];
                let exchange = stage.open(&get("/late"));
                let case = format!("{scope:?}, soft: {soft}, after the head: {after_head}");
                let mut fill = if after_head {
                    let fill = stage.begin(exchange, &fields);
                    purge(&mut stage, scope.clone(), soft);
                    fill
                } else {
                    purge(&mut stage, scope.clone(), soft);
                    stage.begin(exchange, &fields)
                };
                let step = stage.cache.on_request(&get("/late").head(), stage.now);
                assert_eq!(matches!(step, Step::Follow(_)), !names_it, "{case}");
                stage.give_up(step);
                stage.push(&mut fill, b"old");
                let expected = if names_it {
                    Completion::Refused(Refusal::Invalidated)
                } else {
                    Completion::Stored
                };
                assert_eq!(stage.complete(fill), expected, "{case}");
                assert_eq!(stage.is_hit(&get("/late")), !names_it, "{case}");
                stage.cache.check_invariants();
            }
        }
    }
}

/// Failure: a 304 that was requested after the purge stores a purged body again: the tags of the
/// response are others meanwhile.
#[test]
fn a_304_stores_again_what_its_former_tags_have_purged() {
    let mut stage = Stage::new();
    let fields = |tag| {
        [
            ("cache-control", "max-age=1"),
            ("etag", "\"1\""),
            ("surrogate-key", tag),
        ]
    };
    stage.ask(&get("/"), 200, &fields("old"), "bad");
    stage.wait(2);
    let exchange = stage.open(&get("/"));
    assert_eq!(purge(&mut stage, Scope::Tag("old".to_owned()), false), 1);
    stage.reply(exchange, 304, &fields("new"), "");
    assert!(stage.cache.engine().is_empty());
    stage.ask(&get("/"), 200, &fields("new"), "good");
    assert_eq!(stage.ask_store(&get("/")).body, b"good");
    assert_eq!(purge(&mut stage, Scope::Tag("old".to_owned()), false), 0);
    assert_eq!(purge(&mut stage, Scope::Tag("new".to_owned()), false), 1);
}

/// Failure: a 304 that was requested before a soft purge, or before the purge of a tag that it
/// brings, makes the response fresh again.
#[test]
fn a_304_of_before_a_purge_makes_a_response_fresh() {
    for (brought, purged, soft, is_fresh) in [
        ("old", "old", true, false),
        ("new", "old", true, false),
        ("new", "new", true, false),
        ("new", "new", false, false),
        ("new", "other", false, true),
    ] {
        let mut stage = Stage::new();
        let fields = |lifetime, tag| {
            [
                ("cache-control", lifetime),
                ("etag", "\"1\""),
                ("surrogate-key", tag),
            ]
        };
        stage.ask(&get("/"), 200, &fields("max-age=1", "old"), "bad");
        stage.wait(2);
        let exchange = stage.open(&get("/"));
        purge(&mut stage, Scope::Tag(purged.to_owned()), soft);
        stage.reply(exchange, 304, &fields("max-age=60", brought), "");
        let case = format!("{brought}, {purged}, soft: {soft}");
        assert_eq!(stage.is_hit(&get("/")), is_fresh, "{case}");
    }
}

/// Failure: many purges of other keys, or unsafe requests, make the store forget since when it may
/// store a response, and it stores none.
#[test]
fn a_slow_response_is_not_stored_after_many_purges_of_others() {
    let mut stage = Stage::new();
    let (slow, named) = (stage.open(&get("/slow")), stage.open(&get("/named")));
    purge(
        &mut stage,
        Scope::Exact(url("http://example.com/named")),
        false,
    );
    for number in 0..16_385 {
        let text = format!("http://example.org/x/{number}");
        purge(&mut stage, Scope::Exact(url(&text)), false);
        purge(&mut stage, Scope::Tag(text.clone()), false);
        purge(&mut stage, Scope::Prefix(url(&text)), false);
    }
    for (exchange, completion) in [
        (slow, Completion::Stored),
        (named, Completion::Refused(Refusal::Invalidated)),
    ] {
        assert_eq!(
            stage.reply(exchange, 200, &[PAGE], "slow").completion,
            Some(completion)
        );
    }
}

/// Failure: a purge by tag arrives while a POST is under way. The answer to the POST may be older
/// than the purge, and is stored as if it were later.
#[test]
fn the_answer_to_a_post_does_not_escape_a_purge_by_tag() {
    let own = [PAGE, ("content-location", "/a"), ("surrogate-key", "one")];
    for (tag, purged) in [("one", true), ("two", false)] {
        let mut stage = Stage::with(64 << 20, "lru");
        let exchange = stage.open(&request(Method::POST, "/a"));
        let purge = Purge {
            scope: Scope::Tag(tag.to_owned()),
            soft: false,
        };
        assert_eq!(stage.cache.purge(&purge, 0, stage.now).next, None);
        stage.reply(exchange, 200, &own, "older");
        assert_eq!(stage.is_hit(&get("/a")), !purged, "{tag}");
    }
}

/// Failure: so many prefixes were purged that they are remembered by their host alone. A response
/// of that host, which none of them named, is validated for each request from then on.
#[test]
fn a_response_that_many_purges_did_not_name_is_fetched_once() {
    let mut stage = Stage::with(64 << 20, "lru");
    stage.ask(
        &get("/a"),
        200,
        &[("cache-control", "max-age=1"), ("etag", "\"1\"")],
        "old",
    );
    for number in 0..16_385 {
        let scope = Scope::Prefix(url(&format!("http://example.com/b/{number}/")));
        assert_eq!(
            stage
                .cache
                .purge(&Purge { scope, soft: false }, 0, stage.now)
                .objects,
            0
        );
    }
    stage.wait(2);
    stage.ask(&get("/a"), 304, &[PAGE, ("etag", "\"1\"")], "");
    assert!(
        stage.cache.engine().is_empty(),
        "the next request is not a validation"
    );
    stage.ask(&get("/a"), 200, &[PAGE, ("etag", "\"1\"")], "new");
    assert!(stage.is_hit(&get("/a")));
}
