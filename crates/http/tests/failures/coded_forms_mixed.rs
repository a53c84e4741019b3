//! Failure: a coded form of a response outlives it, gets the fields of another one, or is sent to a
//! client that does not accept it; a strong entity tag names two byte strings.

use crate::plain_hit_differs::{lines, short_way, written};
use crate::stage::{Fields, Request, Stage, config, get};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use larder_http::{
    Answer, AnswerCoding, Cache, Compression, ContentCoding, Purge, Scope, Step, WantedForm,
};
use larder_units::Streams;
use proptest::prelude::*;
use std::sync::Arc;

/// A stage whose cache has room for so many bytes, and whose clients get coded forms.
fn stage(capacity: u64) -> Stage {
    let mut config = config(capacity, "lru");
    config.compression = Some(Compression::default());
    Stage {
        cache: Cache::new(&config, &Streams::new(1)).unwrap(),
        ..Stage::new()
    }
}

const TEXT: Fields<'_> = &[
    ("cache-control", "max-age=60"),
    ("content-type", "text/plain"),
    ("etag", "\"1\""),
    ("accept-ranges", "bytes"),
];

/// A body of version `version`, of which a coded form is worth its memory.
fn text(version: u64, bytes: usize) -> String {
    format!("version {version};").repeat(bytes / 10)
}

/// What the tests take for a coding: its name, and the beginning of the body.
fn coded(coding: ContentCoding, body: &[u8]) -> Vec<u8> {
    let start = &body[..body.len().min(body.len() / 10)];
    [coding.name().as_bytes(), b":", start].concat()
}

fn accepting(coding: ContentCoding) -> Request {
    Request {
        coding: Some(coding),
        ..get("/a")
    }
}

fn hit(stage: &mut Stage, request: &Request) -> Answer {
    match stage.cache.on_request(&request.head(), stage.now) {
        Step::Answer(answer) => answer,
        step => panic!("{step:?}"),
    }
}

/// What a hit says of a missing form.
fn wanted(stage: &mut Stage, request: &Request) -> Box<WantedForm> {
    match hit(stage, request).coding {
        AnswerCoding::Wanted(wanted) => wanted,
        other => panic!("{other:?}"),
    }
}

fn store(stage: &mut Stage, wanted: &WantedForm) {
    let body = coded(wanted.coding, &wanted.body).into();
    let Stage {
        cache, now, outbox, ..
    } = stage;
    cache.store_coded(wanted, body, *now, outbox);
    cache.check_invariants();
}

fn has_form(stage: &mut Stage, coding: ContentCoding) -> bool {
    hit(stage, &accepting(coding))
        .headers
        .get("content-encoding")
        == Some(&HeaderValue::from_static(coding.name()))
}

/// Bodies that are copied at a hit, and bodies that are shared.
const SIZES: [usize; 2] = [2000, 20_000];

#[test]
fn each_client_gets_the_form_that_it_accepts() {
    for bytes in SIZES {
        let mut stage = stage(16 << 20);
        let body = text(1, bytes);
        stage.ask(&get("/a"), 200, TEXT, &body);
        // Before there is a form, the response goes out as it came, and the host may code it.
        let first = hit(&mut stage, &accepting(ContentCoding::Brotli));
        assert_eq!(
            (&first.body[..], &first.headers["etag"]),
            (body.as_bytes(), &"\"1\"".parse().unwrap())
        );
        for coding in [ContentCoding::Brotli, ContentCoding::Gzip] {
            assert_eq!(
                short_way(&mut stage, &accepting(coding)),
                None,
                "the host codes it"
            );
            let wanted = wanted(&mut stage, &accepting(coding));
            assert_eq!((&wanted.body[..], wanted.coding), (body.as_bytes(), coding));
            store(&mut stage, &wanted);
        }
        for coding in [ContentCoding::Brotli, ContentCoding::Gzip] {
            let answer = hit(&mut stage, &accepting(coding));
            let expected = coded(coding, body.as_bytes());
            assert_eq!(answer.coding, AnswerCoding::Form(coding));
            assert_eq!(answer.body, expected);
            for (name, value) in [
                ("content-encoding", coding.name()),
                ("etag", "W/\"1\""),
                ("vary", "Accept-Encoding"),
                ("content-length", &expected.len().to_string()),
                ("content-type", "text/plain"),
            ] {
                assert_eq!(answer.headers[name], value, "{name}");
            }
            assert!(!answer.headers.contains_key("accept-ranges"));
        }
        assert!(!has_form(&mut stage, ContentCoding::Zstd));
        let plain = hit(&mut stage, &get("/a"));
        assert_eq!(plain.coding, AnswerCoding::Decided);
        assert_eq!(
            (&plain.body[..], &plain.headers["vary"]),
            (body.as_bytes(), &"Accept-Encoding".parse().unwrap())
        );
        assert_eq!(
            (
                &plain.headers["etag"],
                plain.headers.contains_key("content-encoding")
            ),
            (&"\"1\"".parse().unwrap(), false)
        );
        let head = Request {
            method: Method::HEAD,
            ..accepting(ContentCoding::Brotli)
        };
        let head = hit(&mut stage, &head);
        assert_eq!(
            head.headers,
            hit(&mut stage, &accepting(ContentCoding::Brotli)).headers
        );
        assert!(head.body.is_empty());
        assert_eq!(stage.cache.counters().coded_forms, 2);
    }
}

/// Failure: the memory of coded forms is not counted, or not given back.
#[test]
fn forms_are_part_of_the_capacity_and_leave_with_their_response() {
    let mut stage = stage(16 << 20);
    for bytes in SIZES {
        stage.ask(&get("/a"), 200, TEXT, &text(1, bytes));
        let before = stage.cache.engine().used().bytes();
        for coding in ContentCoding::ALL {
            let wanted = wanted(&mut stage, &accepting(coding));
            store(&mut stage, &wanted);
        }
        assert!(stage.cache.engine().used().bytes() >= before + 3 * (bytes as u64 / 10));
        let everything = Purge {
            scope: Scope::Everything,
            soft: false,
        };
        stage.cache.purge(&everything, 0, stage.now);
        stage.cache.check_invariants();
        assert_eq!(stage.cache.engine().used().bytes(), 0);
        assert_eq!(stage.cache.filling().bytes(), 0);
    }
}

#[test]
fn a_form_of_another_body_is_not_stored() {
    for bytes in SIZES {
        let mut stage = stage(16 << 20);
        stage.ask(&get("/a"), 200, TEXT, &text(1, bytes));
        let late = wanted(&mut stage, &accepting(ContentCoding::Zstd));
        stage.wait(60);
        stage.ask(&get("/a"), 200, TEXT, &text(2, bytes));
        store(&mut stage, &late);
        assert!(!has_form(&mut stage, ContentCoding::Zstd));
        stage.cache.purge(
            &Purge {
                scope: Scope::Everything,
                soft: false,
            },
            0,
            stage.now,
        );
        store(&mut stage, &late);
        assert_eq!(stage.cache.counters().coded_forms, 0);
    }
}

/// Failure: a 304 of the origin brings its strong tag to a coded form, or renews only one form.
#[test]
fn a_validation_renews_all_forms_and_keeps_their_tags_weak() {
    for bytes in SIZES {
        let mut stage = stage(16 << 20);
        stage.ask(&get("/a"), 200, TEXT, &text(1, bytes));
        for coding in [ContentCoding::Brotli, ContentCoding::Zstd] {
            let wanted = wanted(&mut stage, &accepting(coding));
            store(&mut stage, &wanted);
        }
        stage.wait(61);
        let renewed: Fields<'_> = &[
            ("cache-control", "max-age=60"),
            ("etag", "\"1\""),
            ("x-new", "1"),
        ];
        let seen = stage.ask(&accepting(ContentCoding::Brotli), 304, renewed, "");
        assert_eq!(
            seen.asked.unwrap()["if-none-match"],
            "\"1\"",
            "the origin's own tag"
        );
        for coding in [ContentCoding::Brotli, ContentCoding::Zstd] {
            let answer = hit(&mut stage, &accepting(coding));
            assert_eq!(
                (&answer.headers["etag"], &answer.headers["x-new"]),
                (&"W/\"1\"".parse().unwrap(), &"1".parse().unwrap())
            );
            assert_eq!(answer.headers["content-encoding"], coding.name());
        }
        // From now on, it must not change.
        stage.wait(61);
        let as_it_is: Fields<'_> = &[
            ("cache-control", "max-age=60, no-transform"),
            ("etag", "\"1\""),
        ];
        stage.ask(&get("/a"), 304, as_it_is, "");
        assert!(!has_form(&mut stage, ContentCoding::Brotli));
        stage.cache.check_invariants();
    }
}

#[test]
fn a_form_that_is_hardly_smaller_is_not_made_again() {
    let mut stage = stage(16 << 20);
    stage.ask(&get("/a"), 200, TEXT, &text(1, 2000));
    let wanted = wanted(&mut stage, &accepting(ContentCoding::Gzip));
    let (body, now) = (wanted.body.clone(), stage.now);
    stage
        .cache
        .store_coded(&wanted, body, now, &mut stage.outbox);
    let answer = hit(&mut stage, &accepting(ContentCoding::Gzip));
    assert_eq!(answer.coding, AnswerCoding::Decided);
    assert!(
        !answer.headers.contains_key("vary"),
        "all clients get one form"
    );
    assert!(short_way(&mut stage, &accepting(ContentCoding::Gzip)).is_some());
}

/// Failure: two hits want a form before it is there, and the second one is stored over it, as a new
/// object without its popularity.
#[test]
fn a_form_is_stored_twice() {
    let mut stage = stage(16 << 20);
    stage.ask(&get("/a"), 200, TEXT, &text(1, 2000));
    let request = accepting(ContentCoding::Gzip);
    let (first, second) = (wanted(&mut stage, &request), wanted(&mut stage, &request));
    for wanted in [first, second] {
        store(&mut stage, &wanted);
        assert!(has_form(&mut stage, ContentCoding::Gzip));
        assert_eq!(stage.cache.counters().coded_forms, 1);
    }
}

/// Failure: a 304 that confirms another body than the stored one keeps the forms of that one.
#[test]
fn forms_of_another_body_are_not_carried_over() {
    for bytes in SIZES {
        let mut stage = stage(16 << 20);
        let validated: Fields<'_> = &[
            ("cache-control", "max-age=0"),
            ("content-type", "text/plain"),
            ("etag", "\"1\""),
        ];
        stage.ask(&get("/a"), 200, validated, &text(1, bytes));
        stage.wait(1);
        // It holds the first version while a second one is stored, and coded.
        let reload = get("/a").with("cache-control", "no-cache");
        let late = stage.open(&reload);
        let newer = stage.open(&reload.clone().with("cache-control", "max-age=0"));
        let changed: Fields<'_> = &[
            ("cache-control", "max-age=60"),
            ("content-type", "text/plain"),
            ("etag", "\"2\""),
        ];
        stage.reply(newer, 200, changed, &text(2, bytes));
        let wanted = wanted(&mut stage, &accepting(ContentCoding::Brotli));
        store(&mut stage, &wanted);
        stage.reply(late, 304, TEXT, "");
        stage.cache.check_invariants();
        let own = hit(&mut stage, &get("/a")).body;
        let coded_body = hit(&mut stage, &accepting(ContentCoding::Brotli)).body;
        assert!(coded_body == own || coded_body == coded(ContentCoding::Brotli, &own));
    }
}

/// Failure: a form that is not worth its memory is made again at each hit, because there is
/// another one.
#[test]
fn a_refused_form_is_not_made_again() {
    let mut stage = stage(16 << 20);
    stage.ask(&get("/a"), 200, TEXT, &text(1, 2000));
    let brotli = wanted(&mut stage, &accepting(ContentCoding::Brotli));
    store(&mut stage, &brotli);
    let gzip = wanted(&mut stage, &accepting(ContentCoding::Gzip));
    let now = stage.now;
    let body = gzip.body.clone();
    stage.cache.store_coded(&gzip, body, now, &mut stage.outbox);
    let answer = hit(&mut stage, &accepting(ContentCoding::Gzip));
    assert_eq!(answer.coding, AnswerCoding::Decided);
    assert_eq!(answer.headers["vary"], "Accept-Encoding");
    assert!(short_way(&mut stage, &accepting(ContentCoding::Gzip)).is_some());
    assert!(has_form(&mut stage, ContentCoding::Brotli));
}

/// Failure: a client that has a coded form gets the strong tag of the response as it came.
#[test]
fn the_short_way_leaves_weak_tags_to_the_host() {
    let mut stage = stage(16 << 20);
    stage.ask(&get("/a"), 200, TEXT, &text(1, 2000));
    for (held, is_short) in [("W/\"1\"", false), ("\"1\"", true)] {
        let request = get("/a").with("if-none-match", held);
        assert_eq!(short_way(&mut stage, &request).is_some(), is_short);
    }
}

/// Failure: after a reload, stored responses keep the former settings.
#[test]
fn other_settings_apply_to_what_is_stored() {
    let mut stage = Stage::new();
    stage.ask(&get("/a"), 200, TEXT, &text(1, 2000));
    let mut config = config(16 << 20, "lru");
    let brotli = accepting(ContentCoding::Brotli);
    assert_eq!(hit(&mut stage, &brotli).coding, AnswerCoding::Open);
    config.compression = Some(Compression::default());
    stage.cache.reconfigure(&Arc::new(config.clone()));
    let wanted = wanted(&mut stage, &brotli);
    store(&mut stage, &wanted);
    assert!(has_form(&mut stage, ContentCoding::Brotli));
    config.compression = None;
    stage.cache.reconfigure(&Arc::new(config.clone()));
    assert!(!has_form(&mut stage, ContentCoding::Brotli));
    config.compression = Some(Compression {
        types: Vec::new(),
        ..Compression::default()
    });
    stage.cache.reconfigure(&Arc::new(config.clone()));
    assert!(!has_form(&mut stage, ContentCoding::Brotli));
}

/// One action of a client, the host, the origin or an operator.
#[derive(Clone, Debug)]
enum Action {
    /// A GET of one of the pages, with a coding, and perhaps a condition or a range.
    Ask(
        usize,
        Option<ContentCoding>,
        Option<(&'static str, &'static str)>,
    ),
    /// The host has coded one of the wanted forms.
    Code(usize),
    /// One of the pages changes.
    Change(usize),
    Wait(u64),
    Purge(bool),
}

const PAGES: usize = 4;

fn action() -> impl Strategy<Value = Action> {
    let coding = || {
        let all = ContentCoding::ALL.map(Some);
        proptest::sample::select([&all[..], &[None]].concat())
    };
    let less = proptest::sample::select(vec![
        None,
        Some(("if-none-match", "\"1\"")),
        Some(("if-none-match", "W/\"1\"")),
        Some(("if-none-match", "W/\"2\", \"1\"")),
        Some(("range", "bytes=5-14")),
    ]);
    prop_oneof![
        8 => (0..PAGES, coding(), less).prop_map(|(page, coding, less)| Action::Ask(page, coding, less)),
        4 => (0usize..16).prop_map(Action::Code),
        1 => (0..PAGES).prop_map(Action::Change),
        1 => (1u64..40).prop_map(Action::Wait),
        1 => any::<bool>().prop_map(Action::Purge),
    ]
}

/// Checks what a client got of a page with this version.
fn check(answer: (StatusCode, &HeaderMap, &[u8]), sizes: usize, less: Option<(&str, &str)>) {
    let (status, headers, body) = answer;
    let tag = headers.get("etag").map(|tag| tag.to_str().unwrap());
    let coding = headers.get("content-encoding");
    let version = |tag: &str| tag.trim_matches(['W', '/', '"']).parse::<u64>().unwrap();
    let tag = tag.expect("every page has a tag");
    let whole = text(version(tag), sizes);
    match (status.as_u16(), coding) {
        (200, None) => {
            assert_eq!(body, whole.as_bytes());
            assert!(tag.starts_with('"'));
        }
        (200, Some(coding)) => {
            let coding = coding.to_str().unwrap().parse().unwrap();
            assert_eq!(body, coded(coding, whole.as_bytes()));
            assert!(tag.starts_with("W/"));
        }
        (206, None) => assert_eq!(body, &whole.as_bytes()[5..15]),
        (304, None) => assert!(body.is_empty() && less.is_some()),
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]
    /// Two caches get the same requests; one is asked on the short way first. Little room evicts.
    #[test]
    fn any_mix_gives_what_the_origin_sent(
        actions in proptest::collection::vec(action(), 1..60),
        size in proptest::sample::select(&SIZES[..]),
        pages_in_room in 2u64..12,
    ) {
        let mut short = stage(pages_in_room * (size as u64 + 1000) * 2);
        let mut long = stage(pages_in_room * (size as u64 + 1000) * 2);
        let mut versions = [1u64; PAGES];
        // Of both caches.
        let mut wanted: Vec<Vec<WantedForm>> = Vec::new();
        for action in actions {
            match action {
                Action::Ask(page, coding, less) => {
                    let mut request = get(&format!("/{page}"));
                    // As the host does.
                    request.coding = coding.filter(|_| less.is_none_or(|(name, _)| name != "range"));
                    if let Some((name, value)) = less {
                        request = request.with(name, value);
                    }
                    if let Some((head, body)) = short_way(&mut short, &request) {
                        let answer = hit(&mut long, &request);
                        prop_assert_eq!(lines(&head), written(answer.status, &answer.headers));
                        prop_assert_eq!(&body, &answer.body.to_vec());
                        check((answer.status, &answer.headers, &body), size, less);
                        continue;
                    }
                    let (tag, body) = (format!("\"{}\"", versions[page]), text(versions[page], size));
                    let fields = [("cache-control", "max-age=60"), ("content-type", "text/css"), ("etag", tag.as_str())];
                    let mut forms = Vec::new();
                    for stage in [&mut short, &mut long] {
                        let answer = match stage.cache.on_request(&request.head(), stage.now) {
                            Step::Answer(answer) => answer,
                            Step::Forward(exchange) => {
                                let is_same = exchange.upstream_headers().get("if-none-match")
                                    .is_some_and(|held| held.to_str().unwrap().contains(&tag));
                                if is_same {
                                    stage.reply(exchange, 304, &fields, "");
                                } else {
                                    stage.reply(exchange, 200, &fields, &body);
                                }
                                continue;
                            }
                            step => panic!("{step:?}"),
                        };
                        check((answer.status, &answer.headers, &answer.body), size, less);
                        if let AnswerCoding::Wanted(form) = answer.coding {
                            forms.push(*form);
                        }
                    }
                    prop_assert!(forms.is_empty() || forms.len() == 2);
                    if !forms.is_empty() {
                        wanted.push(forms);
                    }
                }
                Action::Code(number) if !wanted.is_empty() => {
                    let forms = wanted.swap_remove(number % wanted.len());
                    for (form, stage) in forms.iter().zip([&mut short, &mut long]) {
                        store(stage, form);
                    }
                }
                Action::Code(_) => {}
                Action::Change(page) => versions[page] += 1,
                Action::Wait(seconds) => {
                    short.wait(seconds);
                    long.wait(seconds);
                }
                Action::Purge(soft) => {
                    let purge = Purge { scope: Scope::Everything, soft };
                    for stage in [&mut short, &mut long] {
                        stage.cache.purge(&purge, 0, stage.now);
                    }
                }
            }
            short.cache.check_invariants();
            long.cache.check_invariants();
        }
    }
}
