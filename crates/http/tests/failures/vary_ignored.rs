//! Failure: a client gets another language or coding than it accepts, or copies fill the store (RFC
//! 9111 §4.1).

use crate::stage::{Stage, get};

const BY_LANGUAGE: crate::stage::Fields<'static> = &[
    ("cache-control", "max-age=60"),
    ("vary", "Accept-Language, X-Kind"),
];

#[test]
fn each_variant_for_its_own() {
    let mut stage = Stage::new();
    let french = get("/").with("accept-language", "fr");
    let german = get("/").with("accept-language", "de");
    stage.ask(&french, 200, BY_LANGUAGE, "bonjour");
    let seen = stage.ask(&german, 200, BY_LANGUAGE, "hallo");
    assert_eq!(
        seen.header("cache-status"),
        "larder; fwd=vary-miss; fwd-status=200; stored"
    );
    assert_eq!(stage.ask_store(&french).body, b"bonjour");
    assert_eq!(stage.ask_store(&german).body, b"hallo");
    assert!(!stage.is_hit(&get("/")), "absent is a value of its own");
    assert!(!stage.is_hit(&french.clone().with("x-kind", "a")));
    assert!(stage.is_hit(&french.clone().with("user-agent", "any")));
    assert!(stage.is_hit(&get("/").with("accept-language", " FR ")));
    assert_eq!(stage.cache.engine().len(), 2);
}

#[test]
fn a_new_response_replaces_its_own_variant_only() {
    let mut stage = Stage::new();
    let french = get("/").with("accept-language", "fr");
    let german = get("/").with("accept-language", "de");
    stage.ask(&french, 200, BY_LANGUAGE, "bonjour");
    stage.ask(&german, 200, BY_LANGUAGE, "hallo");
    stage.ask(
        &french.clone().with("cache-control", "no-cache"),
        200,
        BY_LANGUAGE,
        "salut",
    );
    assert_eq!(stage.ask_store(&french).body, b"salut");
    assert_eq!(stage.ask_store(&german).body, b"hallo");
    assert_eq!(stage.cache.engine().len(), 2);
}

#[test]
fn star_and_floods_are_not_stored() {
    let mut stage = Stage::new();
    for vary in ["*", "accept, *", "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q"] {
        stage.ask(
            &get("/"),
            200,
            &[("cache-control", "max-age=60"), ("vary", vary)],
            "x",
        );
        assert_eq!(stage.cache.engine().len(), 0, "{vary}");
    }
}

/// The host writes it anew for every client: the origin sees another value than the one that a
/// client sent.
#[test]
fn one_clients_address_selects_for_no_other() {
    let mut stage = Stage::new();
    let seen = stage.ask(
        &get("/"),
        200,
        &[
            ("cache-control", "max-age=60"),
            ("vary", "Accept, X-Forwarded-For"),
        ],
        "for the first",
    );
    assert!(
        seen.header("cache-status").ends_with("detail=vary"),
        "{seen:?}"
    );
    assert!(!stage.is_hit(&get("/")));
}

#[test]
fn an_explosion_of_variants_stays_small() {
    for (body, most) in [("x".to_owned(), 1000), ("x".repeat(100_000), 9)] {
        let mut stage = Stage::new();
        for client in 0..1500 {
            let request = get("/").with("user-agent", &client.to_string());
            stage.ask(
                &request,
                200,
                &[("cache-control", "max-age=60"), ("vary", "user-agent")],
                &body,
            );
        }
        stage.cache.check_invariants();
        let stored = stage.cache.engine().len();
        assert_eq!(stored, most);
        assert_eq!(
            stage.cache.counters().variants_dropped,
            1500 - stored as u64
        );
        assert!(stage.is_hit(&get("/").with("user-agent", "1499")));
        assert!(
            stage.is_hit(&get("/").with("user-agent", &(1500 - most).to_string())),
            "the oldest left"
        );
        assert!(!stage.is_hit(&get("/").with("user-agent", &(1499 - most).to_string())));
    }
}

/// Failure: an origin has more values than a URL may have variants, and no request hits.
#[test]
fn forty_values_in_turn_never_hit() {
    for values in [40, 200, 999] {
        let mut stage = Stage::new();
        let request = |value: usize| get("/").with("origin", &format!("https://{value}.example"));
        for round in 0..3 {
            for value in 0..values {
                let fields = &[("cache-control", "max-age=600"), ("vary", "origin")];
                let body = value.to_string();
                let seen = stage.ask(&request(value), 200, fields, &body);
                assert_eq!(seen.body, body.as_bytes(), "the body of another variant");
                assert_eq!(
                    seen.header("cache-status").starts_with("larder; hit"),
                    round > 0,
                    "{value} of {values}"
                );
            }
        }
        // One without the field, and two lists of the URL.
        stage.ask(
            &get("/"),
            200,
            &[("cache-control", "max-age=600"), ("vary", "origin, accept")],
            "none",
        );
        assert_eq!(
            stage
                .ask_store(
                    &get("/")
                        .with("accept", "x")
                        .with("origin", "https://3.example")
                )
                .body,
            b"3"
        );
        assert_eq!(stage.ask_store(&get("/")).body, b"none");
        stage.cache.check_invariants();
    }
}

/// Failure: a few encodings of a large object displace each other.
#[test]
fn two_encodings_of_a_large_object_displace_each_other() {
    let mut stage = Stage::new();
    let body = "x".repeat(1_500_000);
    for _ in 0..2 {
        for coding in ["gzip", "br", "zstd"] {
            let fields = &[
                ("cache-control", "max-age=600"),
                ("vary", "accept-encoding"),
            ];
            stage.ask(
                &get("/").with("accept-encoding", coding),
                200,
                fields,
                &body,
            );
        }
    }
    assert_eq!(
        (
            stage.cache.engine().len(),
            stage.cache.counters().variants_dropped
        ),
        (3, 0)
    );
    assert_eq!(stage.cache.counters().hits, 3);
}

/// The selecting values are those that the origin saw: a field that `Connection` had removed on the
/// way selected nothing.
#[test]
fn connection_cannot_poison_a_variant() {
    let mut stage = Stage::new();
    let attack = get("/")
        .with("accept-language", "fr")
        .with("connection", "accept-language");
    stage.ask(&attack, 200, BY_LANGUAGE, "hello");
    assert!(
        !stage.is_hit(&get("/").with("accept-language", "fr")),
        "hello is not French"
    );
    assert_eq!(stage.ask_store(&get("/")).body, b"hello");
}

/// The origin begins to vary while the page itself stays: a 304 says so.
#[test]
fn a_304_that_brings_vary() {
    let mut stage = Stage::new();
    let french = get("/").with("accept-language", "fr");
    let plain: crate::stage::Fields<'_> = &[("cache-control", "max-age=60"), ("etag", "\"1\"")];
    stage.ask(&french, 200, plain, "bonjour");
    assert!(stage.is_hit(&get("/")));
    stage.wait(60);
    let varying: crate::stage::Fields<'_> = &[("vary", "accept-language"), ("etag", "\"1\"")];
    assert_eq!(stage.ask(&french, 304, varying, "").body, b"bonjour");
    assert!(stage.is_hit(&french));
    assert!(!stage.is_hit(&get("/")) && !stage.is_hit(&get("/").with("accept-language", "de")));
    assert_eq!(stage.cache.engine().len(), 1);
    stage.wait(60);
    assert_eq!(
        stage.ask(&french, 304, &[("vary", "*")], "").body,
        b"bonjour"
    );
    assert_eq!(stage.cache.engine().len(), 0);
}
