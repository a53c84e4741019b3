//! Failures of an egress that need a look at its state, or many requesters.

use super::*;
use larder_packet::{Data, DigestSigner, InterestBuilder};
use std::collections::BTreeSet;

fn core() -> EgressCore {
    core_of(64 << 20)
}

fn core_of(memory: usize) -> EgressCore {
    let options = EgressOptions {
        memory,
        shared_for: Duration::ZERO,
        targets: Vec::new(),
        identity: [0; 32],
    };
    EgressCore::new(
        "/far".parse().unwrap(),
        Box::new(DigestSigner),
        options,
        1,
        [1, 2],
    )
}

fn question(method: Method, unique: u64) -> Vec<u8> {
    let object = Object::new("/far".parse::<Name>().unwrap().as_name(), "a", "/order").unwrap();
    let request = Request {
        method,
        headers: HeaderMap::new(),
        body: Bytes::new(),
        unique: Some(unique),
    };
    InterestBuilder::new(object.question())
        .nonce(1)
        .application_parameters(&request.encode())
        .build()
}

/// Returns true if the origin gets the request, and answers it.
fn is_made(core: &mut EgressCore, now: Time, wire: &[u8]) -> bool {
    let mut out = Outcome::default();
    core.on_interest(now, &Interest::decode(wire).unwrap(), None, None, &mut out);
    let Some(origin_request) = out.orders.pop() else {
        return false;
    };
    let head = OriginHead {
        status: StatusCode::OK,
        headers: HeaderMap::new(),
        unframed: false,
        body: Some(Bytes::new()),
        length: Some(0),
    };
    core.on_head(now, 0, origin_request.id, head, &mut out);
    assert_eq!(out.replies.len(), 1);
    true
}

/// Failure: each request for a page after its answer has expired leaves one more entry behind.
#[test]
fn a_page_that_is_asked_for_ever_fills_the_memory() {
    let (mut core, page) = (core(), question(Method::GET, 7));
    for turn in 0..50 {
        let now = Time::from_secs(100 * turn);
        assert!(is_made(&mut core, now, &page));
        core.on_timeout(now, &mut Outcome::default());
    }
    assert_eq!(
        (core.reply_cache.answered.len(), core.reply_cache.reserved),
        (1, limits::ANSWER_BYTES)
    );
}

/// Failure: a client that posts without end leaves no room for other requests until its answers
/// expire.
#[test]
fn orders_without_end_keep_everybody_out() {
    let mut core = core();
    let fill = core.options.memory / limits::ANSWER_BYTES;
    for unique in 0..fill as u64 + 100 {
        assert!(is_made(
            &mut core,
            Time::ZERO,
            &question(Method::POST, unique)
        ));
    }
    assert!(is_made(&mut core, Time::ZERO, &question(Method::GET, 0)));
    assert!(core.reply_cache.reserved <= core.options.memory);
    assert!(
        !is_made(&mut core, Time::ZERO, &question(Method::POST, 0)),
        "though its answer has gone"
    );
}

/// Failure: a node that has read an unsafe request on the path has it executed again after its
/// answer was dropped.
#[test]
fn an_order_is_repeated_a_day_later() {
    let mut core = core();
    let (posted, page) = (question(Method::POST, 7), question(Method::GET, 7));
    assert!(is_made(&mut core, Time::ZERO, &posted) && is_made(&mut core, Time::ZERO, &page));
    let later = Time::from_secs(86_400);
    core.on_timeout(later, &mut Outcome::default());
    assert!(!is_made(&mut core, later, &posted));
    assert!(
        is_made(&mut core, later, &page),
        "nothing happens twice by that"
    );
    assert!(is_made(&mut core, later, &question(Method::POST, 8)));
}

/// An Interest for a page, in full.
fn page_in_full(target: &str, unique: u64) -> Vec<u8> {
    let object = Object::new(
        "/far".parse::<Name>().unwrap().as_name(),
        "example.test",
        target,
    )
    .unwrap();
    let request = Request {
        method: Method::GET,
        headers: HeaderMap::new(),
        body: Bytes::new(),
        unique: Some(unique),
    };
    InterestBuilder::new(object.question())
        .nonce(1)
        .application_parameters(&request.encode())
        .build()
}

/// The requests of an egress to its origin that have not ended.
#[derive(Default)]
struct AtOrigin(BTreeSet<u64>);

impl AtOrigin {
    fn ask(&mut self, core: &mut EgressCore, now: Time, face: u64, wire: &[u8]) -> Outcome {
        let mut out = Outcome::default();
        core.on_interest(
            now,
            &Interest::decode(wire).unwrap(),
            None,
            Some(face),
            &mut out,
        );
        self.take(&out);
        out
    }

    fn take(&mut self, out: &Outcome) {
        self.0.extend(out.orders.iter().map(|request| request.id));
        for id in &out.stops {
            _ = self.0.remove(id);
        }
        assert!(
            self.0.len() <= limits::ORIGIN_REQUESTS,
            "more than there are places"
        );
    }
}

/// Failure: the requests of one face take all places at the origin, or those that wait get them
/// before another face's; or a face alone gets less than all.
#[test]
fn one_face_takes_all_places_at_the_origin() {
    let (mut core, mut origin) = (core_of(256 << 20), AtOrigin::default());
    let most = limits::ORIGIN_REQUESTS;
    for unique in 0..2 * most as u64 {
        let now = Time::from_millis(unique);
        assert!(
            origin
                .ask(&mut core, now, 1, &page_in_full("/slow", unique))
                .replies
                .is_empty()
        );
    }
    assert_eq!(origin.0.len(), most);
    let now = Time::from_secs(3);
    for unique in 0..most as u64 / 2 {
        let out = origin.ask(&mut core, now, 2, &page_in_full("/other", unique));
        assert_eq!(
            (out.orders.len(), out.replies.len()),
            (1, 1),
            "{unique}: the oldest of the other face ends"
        );
    }
    let out = origin.ask(&mut core, now, 2, &page_in_full("/other", most as u64));
    assert!(
        out.orders.is_empty() && out.replies.is_empty(),
        "both have the same now"
    );
    assert_eq!(core.figures().displaced, most as u64 / 2);
    // A place that becomes free goes to the face with fewer.
    let ended = *origin.0.first().unwrap();
    let mut out = Outcome::default();
    core.on_failure(now, ended, false, &mut out);
    core.on_timeout(now, &mut out);
    origin.take(&out);
    assert_eq!(out.orders.len(), 1);
    let mut failed = Outcome::default();
    core.on_timeout(now + limits::ANSWER + Duration::from_secs(1), &mut failed);
    assert!(
        failed.stops.len() >= most / 2,
        "those that wait are not answered"
    );
}

/// Failure: slow pages that nobody waits for keep their places, and clients behind the same face
/// wait for the end of each.
#[test]
fn pages_that_nobody_waits_for_keep_their_places() {
    let (mut core, mut origin) = (core_of(256 << 20), AtOrigin::default());
    for unique in 0..2 * limits::ORIGIN_REQUESTS as u64 {
        origin.ask(&mut core, Time::ZERO, 1, &page_in_full("/slow", unique));
    }
    let wanted = page_in_full("/wanted", 0);
    assert!(
        origin
            .ask(&mut core, Time::ZERO, 1, &wanted)
            .orders
            .is_empty()
    );
    let mut asked = Vec::new();
    for second in 1..10 {
        let now = Time::from_secs(second);
        asked.extend(origin.ask(&mut core, now, 1, &wanted).orders);
        let mut out = Outcome::default();
        core.on_timeout(now, &mut out);
        origin.take(&out);
        asked.extend(out.orders);
    }
    assert!(asked.iter().any(|request| request.target == "/wanted"));
}

/// Failure: bodies that one face has requested, and does not read, take the memory from all others.
#[test]
fn one_face_takes_all_memory() {
    let (mut core, mut origin) = (core_of(64 << 20), AtOrigin::default());
    for unique in 0..100 {
        let now = Time::from_millis(unique);
        let out = origin.ask(&mut core, now, 1, &page_in_full("/endless", unique));
        for request in out.orders {
            let mut out = Outcome::default();
            core.on_head(now, 0, request.id, endless(), &mut out);
            origin.take(&out);
        }
    }
    assert!(core.figures().no_room > 0, "the memory is full");
    let mut others = Vec::new();
    for unique in 0..3 {
        let now = Time::from_secs(1);
        let out = origin.ask(&mut core, now, 2, &page_in_full("/other", unique));
        let mut out = answer_endlessly(&mut core, now, &out.orders[0], &mut origin);
        let answer = Data::decode(&out.replies.pop().unwrap().wire)
            .map(|data| Answer::decode(data.content).unwrap());
        let Ok(Answer::Head(Head {
            status,
            body: Content::Segments { version, .. },
            ..
        })) = answer
        else {
            panic!()
        };
        assert_eq!(status, 200);
        others.push(version);
    }
    assert!(core.figures().displaced > 0 && core.figures().reserved_bytes <= 64 << 20);
    let out = origin.ask(
        &mut core,
        Time::from_secs(2),
        1,
        &page_in_full("/endless", 1_000),
    );
    let out = answer_endlessly(&mut core, Time::from_secs(2), &out.orders[0], &mut origin);
    let data = Data::decode(&out.replies[0].wire).unwrap();
    assert!(matches!(Answer::decode(data.content), Ok(Answer::Head(head)) if head.status == 503));
}

/// The head of a body of unknown length, for a request.
fn answer_endlessly(
    core: &mut EgressCore,
    now: Time,
    request: &OriginRequest,
    origin: &mut AtOrigin,
) -> Outcome {
    let mut out = Outcome::default();
    core.on_head(now, 0, request.id, endless(), &mut out);
    origin.take(&out);
    out
}

/// The head of a body of unknown length.
fn endless() -> OriginHead {
    OriginHead {
        status: StatusCode::OK,
        headers: HeaderMap::new(),
        unframed: false,
        body: None,
        length: None,
    }
}
