//! Failure: the fast path of a hit serves a response that the general path would not serve, or with
//! other fields, or the policy and the counters do not record it.

use crate::stage::{Request, Stage, get, request};
use http::{HeaderMap, Method, StatusCode};
use larder_http::{PlainField, PlainRequest, Purge, Scope, Step};
use proptest::prelude::*;

/// What is stored: a status, and fields beside a body.
const STORED: [(u16, crate::stage::Fields<'static>); 10] = [
    (
        200,
        &[
            ("cache-control", "max-age=60"),
            ("etag", "\"a\""),
            ("x-two", "1"),
            ("x-two", "2"),
        ],
    ),
    (
        200,
        &[("cache-control", "max-age=60"), ("vary", "accept-language")],
    ),
    (
        200,
        &[
            ("cache-control", "max-age=60"),
            ("age", "30"),
            ("cache-status", "other; hit"),
        ],
    ),
    (
        200,
        &[("cache-control", "max-age=10, stale-while-revalidate=60")],
    ),
    (
        200,
        &[("cache-control", "max-age=60, no-cache"), ("etag", "\"a\"")],
    ),
    (200, &[("cache-control", "max-age=60, must-revalidate")]),
    (404, &[("cache-control", "max-age=60")]),
    (204, &[("cache-control", "max-age=60")]),
    (200, &[("cache-control", "no-store")]),
    // Of a 200 it means nothing.
    (
        200,
        &[
            ("cache-control", "max-age=60"),
            ("content-range", "bytes 0-9/1000"),
        ],
    ),
];

/// A stage on which each of them lies under its number, that of `Vary` in two languages.
fn stocked() -> Stage {
    let mut stage = Stage::new();
    for (number, (status, fields)) in STORED.iter().enumerate() {
        // A small body is copied, a larger one is shared.
        let large = "large".repeat(larder_http::limits::INLINE_BODY_BYTES);
        let body = match (status, number) {
            (204, _) => "",
            (_, 5) => &large,
            _ => "a body",
        };
        let request = get(&format!("/{number}"));
        stage.ask(&request, *status, fields, body);
        stage.ask(
            &request.with("accept-language", "de"),
            *status,
            fields,
            body,
        );
    }
    stage
}

/// The lines of the head as it is sent, in the order of their names: the fields of a part and of a
/// 304 stand elsewhere, but those of one name keep their order.
pub fn written(status: StatusCode, headers: &HeaderMap) -> Vec<String> {
    let lines = headers
        .iter()
        .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()));
    sorted([format!("HTTP/1.1 {status}")].into_iter().chain(lines))
}

fn sorted(lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut lines: Vec<String> = lines.collect();
    lines[1..].sort_by_key(|line| line.split(':').next().unwrap().to_owned());
    lines
}

pub fn lines(head: &str) -> Vec<String> {
    sorted(
        head.strip_suffix("\r\n\r\n")
            .unwrap()
            .split("\r\n")
            .map(str::to_owned),
    )
}

pub fn short_way(stage: &mut Stage, request: &Request) -> Option<(String, Vec<u8>)> {
    let has = |kind| {
        request
            .headers
            .keys()
            .any(|name| PlainField::of(name.as_str()) == kind)
    };
    if has(PlainField::Prevents) {
        return None;
    }
    let (authority, target, asks_for_less) = (
        &request.authority,
        &request.target,
        has(PlainField::AsksForLess),
    );
    let plain = PlainRequest {
        scheme: "http",
        authority,
        target,
        asks_for_less,
        coding: request.coding,
        confirmed: None,
    };
    let mut start = b"before".to_vec();
    let hit = stage
        .cache
        .plain_hit(plain, || request.headers.clone(), stage.now, &mut start);
    let start = String::from_utf8(start).unwrap();
    let start = start.strip_prefix("before").unwrap();
    assert_eq!(hit.is_none(), start.is_empty());
    let end = start.find("\r\n\r\n").map_or(0, |end| end + 4);
    let (head, body) = start.split_at(end);
    hit.map(|hit| {
        let whole = [body.as_bytes(), &hit.rest].concat();
        assert!(
            head.starts_with(&format!("HTTP/1.1 {}", hit.status))
                && hit.body_bytes == whole.len() as u64
        );
        (head.to_owned(), whole)
    })
}

/// Conditions and ranges, met and not, and none of both.
const LESS: [(&str, &str); 16] = [
    ("if-none-match", "\"a\""),
    ("if-none-match", "W/\"a\", \"b\""),
    ("if-none-match", "\"b\""),
    ("if-none-match", "*"),
    ("if-none-match", "nonsense"),
    ("if-modified-since", "Sat, 06 Nov 2094 08:49:37 GMT"),
    ("if-modified-since", "Sun, 06 Nov 1994 08:49:37 GMT"),
    ("if-modified-since", "yesterday"),
    ("range", "bytes=1-3"),
    ("range", "bytes=0-"),
    ("range", "bytes=-2"),
    ("range", "bytes=0-0,4-5"),
    ("range", "bytes=100000-"),
    ("range", "lines=1-2"),
    ("if-range", "\"a\""),
    ("cache-control", "no-cache"),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn both_ways_are_one(
        targets in proptest::collection::vec(0..STORED.len() + 1, 1..12),
        waits in proptest::collection::vec(0u64..40, 12),
        language in proptest::option::of(prop_oneof!["de", "fr", " DE"]),
        less in proptest::collection::vec(proptest::sample::select(&LESS[..]), 0..3),
    ) {
        let (mut short, mut long) = (stocked(), stocked());
        let mut hits = 0;
        for (target, wait) in targets.iter().zip(waits) {
            short.wait(wait);
            long.wait(wait);
            let mut request = get(&format!("/{target}"));
            if let Some(language) = &language {
                request = request.with("accept-language", language);
            }
            for (name, value) in &less {
                request = request.with(name, value);
            }
            let Some((head, body)) = short_way(&mut short, &request) else {
                // The host asks then.
                for stage in [&mut short, &mut long] {
                    let step = stage.cache.on_request(&request.head(), stage.now);
                    stage.give_up(step);
                }
                continue;
            };
            hits += 1;
            let Step::Answer(answer) = long.cache.on_request(&request.head(), long.now) else { panic!("{target}") };
            prop_assert_eq!(lines(&head), written(answer.status, &answer.headers));
            prop_assert_eq!(body, answer.body.to_vec());
        }
        prop_assert_eq!(short.cache.counters(), long.cache.counters());
        prop_assert!(short.cache.counters().hits >= hits);
    }
}

/// Which of them take it: without this, a short way that nothing takes would pass.
#[test]
fn fresh_pages_are_plain_hits_in_their_language() {
    let mut stage = stocked();
    let taken = |stage: &mut Stage, language: &str| -> Vec<usize> {
        let request = |number: &usize| get(&format!("/{number}")).with("accept-language", language);
        (0..STORED.len())
            .filter(|number| short_way(stage, &request(number)).is_some())
            .collect()
    };
    assert_eq!(taken(&mut stage, "de"), [0, 1, 2, 3, 5, 9]);
    assert_eq!(taken(&mut stage, "fr"), [0, 2, 3, 5, 9]);
    stage.wait(29);
    assert_eq!(taken(&mut stage, "de"), [0, 1, 2, 5, 9]);
    stage.wait(1);
    assert_eq!(taken(&mut stage, "de"), [0, 1, 5, 9]);
}

/// Which conditions and ranges take it.
#[test]
fn conditions_and_one_range_are_plain() {
    let mut stage = stocked();
    let mut status = |name: &str, value: &str| {
        let (head, body) = short_way(&mut stage, &get("/0").with(name, value))?;
        let status: u16 = head.split(' ').nth(1).unwrap().parse().unwrap();
        Some((status, String::from_utf8(body).unwrap()))
    };
    let found: Vec<_> = LESS
        .iter()
        .map(|(name, value)| status(name, value))
        .collect();
    let whole = || Some((200, "a body".to_owned()));
    let confirmed = || Some((304, String::new()));
    let part = |text: &str| Some((206, text.to_owned()));
    let expected = [
        confirmed(),
        confirmed(),
        whole(),
        confirmed(),
        whole(),
        confirmed(),
        confirmed(),
        whole(),
        part(" bo"),
        part("a body"),
        part("dy"),
        part("a body"),
        None,
        whole(),
        None,
        None,
    ];
    assert_eq!(found, expected);
}

/// Failure: the fast path serves a response once more after a purge, a soft purge, or an unsafe
/// request.
#[test]
fn what_was_purged_or_changed_is_no_plain_hit() {
    let url = || "http://example.com/0".parse().unwrap();
    let scopes = [
        Scope::Exact(url()),
        Scope::Prefix(url()),
        Scope::Tag("a".to_owned()),
        Scope::Everything,
    ];
    let purges = scopes.into_iter().flat_map(|scope| {
        [false, true].map(|soft| Purge {
            scope: scope.clone(),
            soft,
        })
    });
    for purge in purges.map(Some).chain([None]) {
        let mut stage = Stage::new();
        // What may be served stale is no plain hit all the same: its validation in the background
        // hangs on it.
        let fields = [
            ("cache-control", "max-age=60, stale-while-revalidate=60"),
            ("surrogate-key", "a"),
        ];
        stage.ask(&get("/0"), 200, &fields, "old");
        assert_eq!(short_way(&mut stage, &get("/0")).unwrap().1, b"old");
        match &purge {
            Some(purge) => assert_eq!(stage.cache.purge(purge, 0, stage.now).objects, 1),
            None => drop(stage.ask(&request(Method::POST, "/0"), 204, &[], "")),
        }
        assert_eq!(short_way(&mut stage, &get("/0")), None, "{purge:?}");
        stage.wait(1);
        let exchange = match stage.cache.on_request(&get("/0").head(), stage.now) {
            Step::Forward(exchange) | Step::Refresh(_, exchange) => exchange,
            step => panic!("{step:?}"),
        };
        stage.reply(exchange, 200, &fields, "new");
        assert_eq!(
            short_way(&mut stage, &get("/0")).unwrap().1,
            b"new",
            "{purge:?}"
        );
    }
}

/// What one way touches stays, though many come after it.
#[test]
fn the_policy_hears_of_it() {
    for short in [false, true] {
        let mut stage = Stage::with(15_000, "lru");
        let fields: crate::stage::Fields<'_> = &[("cache-control", "max-age=60")];
        stage.ask(&get("/a"), 200, fields, "a body");
        for number in 0..100 {
            stage.ask(&get(&format!("/{number}")), 200, fields, "a body");
            if short {
                assert!(
                    short_way(&mut stage, &get("/a")).is_some(),
                    "after {number}"
                );
            } else {
                stage.ask_store(&get("/a"));
            }
        }
        assert!(!stage.is_hit(&get("/0")));
    }
}

/// Failure: a field that the cache evaluates is missing in the list, and the fast path ignores it.
/// The test takes every request field that RFC 9110, 9111 and 9112 define, and some more. If the
/// general path treats a request with the field differently, the field must be in the list.
#[test]
fn what_the_cache_judges_is_a_wish() {
    let fields = [
        ("accept", "x/y"),
        ("accept-charset", "x"),
        ("accept-encoding", "x"),
        ("accept-language", "x"),
        ("authorization", "x"),
        ("cache-control", "no-cache"),
        ("cookie", "a=b"),
        ("date", crate::stage::THEN_TEXT),
        ("from", "a@b"),
        ("if-match", "\"x\""),
        ("if-modified-since", crate::stage::THEN_TEXT),
        ("if-none-match", "\"a\""),
        ("if-range", "\"a\""),
        ("if-unmodified-since", crate::stage::THEN_TEXT),
        ("max-forwards", "0"),
        ("origin", "x"),
        ("pragma", "no-cache"),
        ("priority", "u=1"),
        ("range", "bytes=0-1"),
        ("referer", "x"),
        ("te", "trailers"),
        ("user-agent", "x"),
        ("via", "1.1 x"),
        ("x-forwarded-for", "1.2.3.4"),
        ("cdn-loop", "x"),
        ("surrogate-control", "x"),
        ("cdn-cache-control", "no-cache"),
    ];
    let say = |stage: &mut Stage, request: &Request| match stage
        .cache
        .on_request(&request.head(), stage.now)
    {
        Step::Answer(answer) => format!("{answer:?}"),
        step => format!("{step:?}"),
    };
    let plain = say(&mut stocked(), &get("/0"));
    let mut differing = 0;
    for (name, value) in fields {
        let differs = say(&mut stocked(), &get("/0").with(name, value)) != plain;
        // If-Range alone says nothing, but belongs to a range.
        let is_neutral = PlainField::of(name) == PlainField::Neutral;
        assert_eq!(differs || name == "if-range", !is_neutral, "{name}");
        assert_eq!(PlainField::of(&name.to_uppercase()), PlainField::of(name));
        differing += usize::from(differs);
    }
    assert_eq!(differing, 7);
}
