//! Failure: evicted or purged bodies that clients still read slowly are not counted, and a few
//! clients that read large bodies fill the memory.

use crate::stage::{Stage, get};
use bytes::Bytes;
use larder_http::{Completion, Purge, Scope, Step};

const MAX_AGE: crate::stage::Fields<'static> = &[("cache-control", "max-age=600")];
const CAPACITY: u64 = 1 << 20;
const BODY: usize = 20_000;

/// Bytes that are held: of the store, of bodies under way, and by who reads.
fn held(stage: &Stage) -> u64 {
    stage.cache.engine().used().bytes() + stage.cache.filling().bytes()
}

/// What a client gets from the store.
fn hit(stage: &mut Stage, target: &str) -> Option<Bytes> {
    match stage.cache.on_request(&get(target).head(), stage.now) {
        Step::Answer(answer) => Some(answer.body),
        step => {
            stage.give_up(step);
            None
        }
    }
}

#[test]
fn what_leaves_the_store_is_counted_until_its_last_reader_has_it() {
    let mut stage = Stage::with(CAPACITY, "lru");
    let body = "x".repeat(BODY);
    let limit = stage.cache.filling_limit().bytes();
    let mut reading: Vec<Bytes> = Vec::new();
    // Each is read by a client that takes nothing of it, and never ends.
    for number in 0..1000 {
        let target = format!("/{number}");
        stage.ask(&get(&target), 200, MAX_AGE, &body);
        if let Some(bytes) = hit(&mut stage, &target) {
            // A part of it holds all of it.
            reading.push(bytes.slice(BODY - 1..));
        }
        let read = (reading.len() * BODY) as u64;
        assert!(
            read <= CAPACITY + limit && held(&stage) <= CAPACITY + limit + BODY as u64,
            "{read}"
        );
    }
    let departed = stage.cache.filling().bytes();
    // An eighth is kept for small ones.
    let room = limit / 8 * 7;
    assert!(
        departed + BODY as u64 > room && departed.is_multiple_of(BODY as u64),
        "{departed}"
    );
    // What comes meanwhile passes by the store, and what is stored goes on to be served.
    let seen = stage.ask(&get("/new"), 200, MAX_AGE, &body);
    assert!(
        seen.header("cache-status").ends_with("detail=busy"),
        "{seen:?}"
    );
    assert!((0..1000).any(|number| hit(&mut stage, &format!("/{number}")).is_some()));
    // A purge gives back nothing that is read.
    let before = held(&stage);
    let purge = Purge {
        scope: Scope::Everything,
        soft: false,
    };
    let purged = stage.cache.purge(&purge, 0, stage.now);
    assert!(
        purged.objects > 10 && purged.next.is_none() && stage.cache.engine().used().bytes() == 0
    );
    assert_eq!(stage.cache.filling().bytes(), (reading.len() * BODY) as u64);
    assert!(held(&stage) <= before);
    assert_eq!(
        stage.ask(&get("/new"), 200, MAX_AGE, &body).completion,
        None
    );
    drop(reading);
    stage.wait(1);
    assert_eq!(stage.cache.filling().bytes(), 0);
    assert_eq!(
        stage.ask(&get("/new"), 200, MAX_AGE, &body).completion,
        Some(Completion::Stored)
    );
}

/// Failure: two requests validate the same response at the same time, and each answer has another
/// `Vary`. The body that both variants then share is returned twice: the budget for bodies wraps
/// around, and nothing is stored any more.
#[test]
fn one_body_of_two_variants_is_given_back_twice() {
    let mut stage = Stage::with(CAPACITY, "lru");
    let body = "x".repeat(BODY);
    let tagged: crate::stage::Fields<'_> = &[MAX_AGE[0], ("etag", "\"1\"")];
    assert_eq!(
        stage.ask(&get("/"), 200, tagged, &body).completion,
        Some(Completion::Stored)
    );
    // Wishes that no other request's response fulfils: neither waits for the other.
    let wish = |origin| {
        get("/")
            .with("cache-control", "min-fresh=100000")
            .with("origin", origin)
    };
    let [first, second] = ["http://a", "http://b"].map(|origin| stage.open(&wish(origin)));
    for exchange in [first, second] {
        let varied: crate::stage::Fields<'_> = &[tagged[0], tagged[1], ("vary", "origin")];
        assert_eq!(stage.reply(exchange, 304, varied, "").body.len(), BODY);
    }
    assert_eq!(
        (stage.cache.engine().len(), stage.cache.filling().bytes()),
        (2, 0)
    );
    assert_eq!(
        stage.ask(&get("/new"), 200, MAX_AGE, &body).completion,
        Some(Completion::Stored)
    );
    assert_eq!(stage.cache.filling().bytes(), 0);
    let purge = Purge {
        scope: Scope::Everything,
        soft: false,
    };
    assert_eq!(stage.cache.purge(&purge, 0, stage.now).objects, 3);
    assert_eq!(held(&stage), 0);
}
