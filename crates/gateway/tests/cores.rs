//! Both ends without sockets, in virtual time: what a day of bad luck looks like in a millisecond.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use larder_gateway::egress::{EgressCore, EgressOptions, OriginHead, Outcome};
use larder_gateway::ingress::{Ask, Event, Failure, Fetches};
use larder_gateway::message::{Answer, Content, Head};
use larder_gateway::naming::Object;
use larder_gateway::{form, limits};
use larder_packet::{Data, DataBuilder, DigestSigner, HmacSigner, Interest, Name};
use larder_transfer::PathFeedback;
use larder_units::{Streams, Time};
use proptest::prelude::*;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::time::Duration;

fn prefix() -> Name {
    "/far".parse().unwrap()
}

fn ask(method: Method, target: &str) -> Ask {
    let object = Object::new(prefix().as_name(), "example.test", target).unwrap();
    let headers = HeaderMap::new();
    let shared = form::shared(&method, false, &headers);
    Ask {
        object,
        method,
        shared,
        headers,
        body: Bytes::new(),
        unique: 7,
    }
}

fn fetches() -> Fetches {
    Fetches::new(None, Streams::new(1))
}

fn core(memory: usize) -> EgressCore {
    started_at(memory, 1000)
}

/// A far node that was started at this time.
fn started_at(memory: usize, start: u64) -> EgressCore {
    let shared_for = Duration::from_secs(10);
    let options = EgressOptions {
        memory,
        shared_for,
        targets: Vec::new(),
        identity: [7; 32],
    };
    EgressCore::new(prefix(), Box::new(DigestSigner), options, start, [start, 2])
}

fn head(
    fields: &[(&'static str, &'static str)],
    body: Option<&[u8]>,
    length: Option<u64>,
) -> OriginHead {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        _ = headers.append(*name, HeaderValue::from_static(value));
    }
    OriginHead {
        status: StatusCode::OK,
        headers,
        unframed: false,
        body: body.map(Bytes::copy_from_slice),
        length,
    }
}

/// What the edge wants to send now.
fn interests(fetches: &mut Fetches, now: Time) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let mut wire = Vec::new();
        if !fetches.poll(now, &mut wire) {
            return all;
        }
        all.push(wire);
    }
}

fn hand_in(core: &mut EgressCore, now: Time, wires: &[Vec<u8>], out: &mut Outcome) {
    for wire in wires {
        core.on_interest(now, &Interest::decode(wire).unwrap(), None, None, out);
    }
}

fn hand_back(fetches: &mut Fetches, now: Time, out: &mut Outcome) -> Vec<Event> {
    let mut events = Vec::new();
    for reply in out.replies.drain(..) {
        assert!(reply.wire.len() <= limits::MAX_PACKET_BYTES);
        fetches.on_data(
            now,
            &Data::decode(&reply.wire).unwrap(),
            PathFeedback::default(),
            &mut events,
        );
    }
    events.into_iter().map(|(_, event)| event).collect()
}

#[test]
fn a_far_node_that_says_nothing_is_given_up_in_time_and_not_before() {
    let mut fetches = fetches();
    fetches.begin(Time::ZERO, 1, ask(Method::GET, "/a"));
    let (mut now, mut sent, mut events) = (Time::ZERO, 0, Vec::new());
    while events.is_empty() {
        sent += interests(&mut fetches, now).len();
        now = fetches.next_timeout().expect("it waits for something");
        fetches.on_timeout(now, &mut events);
    }
    assert!(
        matches!(events[..], [(1, Event::Failed(Failure::NoAnswer))]),
        "{events:?}"
    );
    assert_eq!(now, Time::ZERO + limits::ANSWER);
    assert!((10..30).contains(&sent), "{sent} Interests");
    assert_eq!(
        (fetches.next_timeout(), fetches.figures().under_way),
        (None, 0)
    );
}

#[test]
fn forgeries_end_a_question_and_the_right_answer_after_one_does() {
    let trust = larder_packet::HmacVerifier::new(&[1; 32]);
    let mut fetches = Fetches::new(Some(larder_gateway::Trust::new(trust)), Streams::new(1));
    let content = Answer::Head(Head {
        status: StatusCode::OK,
        headers: HeaderMap::new(),
        body: Content::Inline(Bytes::from_static(b"x")),
        unframed: false,
    });
    let signed = |name: &Name, key: u8| {
        DataBuilder::new(name)
            .content(&content.encode())
            .build(&HmacSigner::new(&[key; 32], prefix()))
            .unwrap()
    };
    for forgeries in [1, limits::FORGERIES, 2 * limits::FORGERIES] {
        fetches.begin(
            Time::ZERO,
            u64::from(forgeries),
            ask(Method::GET, &format!("/{forgeries}")),
        );
        let (mut events, mut names) = (Vec::new(), BTreeSet::new());
        let mut asked = interests(&mut fetches, Time::ZERO);
        for _ in 0..forgeries {
            assert_eq!(asked.len(), 1, "asked again after a forgery");
            let name = Interest::decode(&asked[0]).unwrap().name.to_name();
            names.insert(name.clone());
            fetches.on_data(
                Time::ZERO,
                &Data::decode(&signed(&name, 2)).unwrap(),
                PathFeedback::default(),
                &mut events,
            );
            asked = interests(&mut fetches, Time::ZERO);
        }
        for wire in &asked {
            let name = Interest::decode(wire).unwrap().name.to_name();
            // A cache with a forgery has none for the request in full.
            assert_eq!(names.contains(&name), forgeries < limits::FORGERIES);
            fetches.on_data(
                Time::ZERO,
                &Data::decode(&signed(&name, 1)).unwrap(),
                PathFeedback::default(),
                &mut events,
            );
        }
        let is_forged = |(_, event): &(u64, Event)| matches!(event, Event::Failed(Failure::Forged));
        let is_given_up = forgeries == 2 * limits::FORGERIES;
        assert_eq!(events.iter().any(is_forged), is_given_up, "{events:?}");
        assert_eq!(
            events
                .iter()
                .any(|(_, event)| matches!(event, Event::Head(_))),
            !is_given_up
        );
    }
}

/// Failure: with different secrets, only the first client of a page hears of it soon; or with a key
/// pair, a slow origin is called a forger because a cache has forgeries.
#[test]
fn silence_after_forgeries_means_different_secrets_and_nothing_without_one() {
    let data = |name: &Name, key: u8| {
        let body = Content::Inline(Bytes::from_static(b"x"));
        let head = Head {
            status: StatusCode::OK,
            headers: HeaderMap::new(),
            body,
            unframed: false,
        };
        let content = Answer::Head(head).encode();
        DataBuilder::new(name)
            .content(&content)
            .build(&HmacSigner::new(&[key; 32], prefix()))
            .unwrap()
    };
    for is_secret in [true, false] {
        let trust = larder_gateway::Trust::new(larder_packet::HmacVerifier::new(&[1; 32]));
        let signer =
            is_secret.then(|| std::sync::Arc::new(HmacSigner::new(&[1; 32], prefix())) as _);
        let mut fetches = Fetches::new(Some(trust), Streams::new(1)).signing(signer);
        let mut now = Time::ZERO;
        // Returns the name of the request in full that follows the forgeries.
        let forge = |fetches: &mut Fetches, now: Time, id: u64| {
            fetches.begin(now, id, ask(Method::GET, "/a"));
            let mut asked = interests(fetches, now);
            for _ in 0..limits::FORGERIES {
                let name = Interest::decode(&asked[0]).unwrap().name.to_name();
                let mut events = Vec::new();
                fetches.on_data(
                    now,
                    &Data::decode(&data(&name, 2)).unwrap(),
                    PathFeedback::default(),
                    &mut events,
                );
                assert!(events.is_empty(), "{events:?}");
                asked = interests(fetches, now);
            }
            Interest::decode(&asked[0]).unwrap().name.to_name()
        };
        for id in [1, 2] {
            let (began, mut events) = (now, Vec::new());
            forge(&mut fetches, now, id);
            while events.is_empty() {
                now = fetches.next_timeout().unwrap();
                fetches.on_timeout(now, &mut events);
                interests(&mut fetches, now);
            }
            let [(_, Event::Failed(failure))] = &events[..] else {
                panic!("{events:?}")
            };
            let (expected, after) = if is_secret {
                (Failure::Forged, limits::ANSWER_AFTER_FORGERIES)
            } else {
                (Failure::NoAnswer, limits::ANSWER)
            };
            assert_eq!((failure, now), (&expected, began + after), "request {id}");
        }
        let (name, mut events) = (forge(&mut fetches, now, 3), Vec::new());
        fetches.on_data(
            now,
            &Data::decode(&data(&name, 1)).unwrap(),
            PathFeedback::default(),
            &mut events,
        );
        assert!(
            matches!(events[..], [(3, Event::Head(_)), (3, Event::End)]),
            "{events:?}"
        );
        let shared = fetches.figures().shared;
        fetches.begin(now, 4, ask(Method::GET, "/a"));
        assert_eq!(
            fetches.figures().shared,
            shared,
            "the cache with the forgeries is bypassed at once"
        );
    }
}

/// Failure: somebody on the way makes up an order, or alters one, and the origin carries it out,
/// though its answer is then nobody's.
#[test]
fn an_order_that_is_altered_on_the_way_is_carried_out() {
    let order = || Ask {
        shared: None,
        body: Bytes::from_static(b"1 book"),
        ..ask(Method::POST, "/order")
    };
    let is_made = |order: &[u8]| {
        let trust = larder_gateway::Trust::new(larder_packet::HmacVerifier::new(&[1; 32]));
        let (mut core, mut out) = (core(1 << 20).asked_by(Some(trust)), Outcome::default());
        core.on_interest(
            Time::ZERO,
            &Interest::decode(order).unwrap(),
            None,
            None,
            &mut out,
        );
        out.orders.len() == 1
    };
    let asked = |signed_by: Option<u8>| {
        let signer =
            signed_by.map(|key| std::sync::Arc::new(HmacSigner::new(&[key; 32], prefix())) as _);
        let mut fetches = fetches().signing(signer);
        fetches.begin(Time::ZERO, 1, order());
        let first = interests(&mut fetches, Time::ZERO);
        let again = fetches.next_timeout().unwrap();
        fetches.on_timeout(again, &mut Vec::new());
        let second = interests(&mut fetches, again);
        let name = |wire: &[u8]| Interest::decode(wire).unwrap().name.to_name();
        assert_eq!(
            name(&first[0]),
            name(&second[0]),
            "lost and said again, it is another order"
        );
        first.into_iter().next().unwrap()
    };
    assert!(is_made(&asked(Some(1))));
    assert!(
        !is_made(&asked(None)) && !is_made(&asked(Some(2))),
        "of somebody without the secret"
    );
    // Altered, with the name's digest made to fit.
    let honest = asked(Some(1));
    let at = honest
        .windows(6)
        .position(|bytes| bytes == b"1 book")
        .unwrap();
    let mut altered = honest.clone();
    altered[at] = b'9';
    assert!(!is_made(&altered));
    let name = Interest::decode(&honest).unwrap().name.to_name();
    let digest = altered
        .windows(32)
        .position(|bytes| bytes == name.as_name().last().unwrap().value)
        .unwrap();
    // From the element of the parameters on, whose type and length take two bytes here.
    let view = Interest::decode(&honest).unwrap();
    let from = view.application_parameters.unwrap().as_ptr().addr() - honest.as_ptr().addr() - 2;
    let fitting = Sha256::digest(&altered[from..]);
    altered[digest..digest + 32].copy_from_slice(&fitting);
    assert!(
        Interest::decode(&altered)
            .unwrap()
            .check_parameters_digest()
            .is_ok()
    );
    assert!(!is_made(&altered));
    assert!(is_made(&honest));
}

/// Failure: an order that is placed twice because the word that it was placed is lost.
#[test]
fn what_is_lost_is_said_again_and_not_done_again() {
    let (mut fetches, mut core) = (fetches(), core(1 << 20));
    fetches.begin(
        Time::ZERO,
        1,
        Ask {
            shared: None,
            body: Bytes::from_static(b"buy"),
            ..ask(Method::POST, "/order")
        },
    );
    let mut out = Outcome::default();
    let mut now = Time::ZERO;
    for round in 0..5 {
        let asked = interests(&mut fetches, now);
        assert_eq!(asked.len(), 1);
        hand_in(&mut core, now, &asked, &mut out);
        if round == 1 {
            core.on_head(now, 1, 1, head(&[], Some(b"bought"), None), &mut out);
        }
        if round < 4 {
            out.replies.clear();
            now = fetches.next_timeout().unwrap();
            fetches.on_timeout(now, &mut Vec::new());
            core.on_timeout(now, &mut out);
        }
    }
    assert_eq!(out.orders.len(), 1);
    assert_eq!(out.orders[0].body, &b"buy"[..]);
    let events = hand_back(&mut fetches, now, &mut out);
    assert!(
        matches!(&events[..], [Event::Head(Head { body: Content::Inline(body), .. }), Event::End] if body == "bought"),
        "{events:?}"
    );
}

#[test]
fn a_body_comes_as_it_is_made_and_is_let_go() {
    let (mut fetches, mut core) = (fetches(), core(20 << 20));
    let mut out = Outcome::default();
    fetches.begin(Time::ZERO, 1, ask(Method::GET, "/a"));
    hand_in(
        &mut core,
        Time::ZERO,
        &interests(&mut fetches, Time::ZERO),
        &mut out,
    );
    let id = out.orders[0].id;
    core.on_head(
        Time::ZERO,
        1,
        id,
        head(&[("cache-control", "max-age=9")], None, None),
        &mut out,
    );
    assert!(matches!(
        &hand_back(&mut fetches, Time::ZERO, &mut out)[..],
        [Event::Head(_)]
    ));
    let mut now = Time::from_millis(1);
    hand_in(&mut core, now, &interests(&mut fetches, now), &mut out);
    let mut got = Vec::new();
    for piece in [&b"first"[..], b"second", &[7; 20_000]] {
        core.on_piece(now, id, piece, &mut out);
        now += limits::FLUSH;
        core.on_timeout(now, &mut out);
        for event in hand_back(&mut fetches, now, &mut out) {
            let Event::Piece(bytes) = event else {
                panic!("{event:?}")
            };
            got.extend_from_slice(&bytes);
        }
        hand_in(&mut core, now, &interests(&mut fetches, now), &mut out);
    }
    assert_eq!(
        got,
        [&b"firstsecond"[..], &[7; 20_000]].concat(),
        "each piece before the next is sent"
    );
    core.on_end(id, true, &mut out);
    assert!(
        matches!(&hand_back(&mut fetches, now, &mut out)[..], [Event::Piece(last), Event::End] if last.is_empty())
    );
    assert!(
        core.figures().reserved_bytes < 40_000,
        "{}",
        core.figures().reserved_bytes
    );
    for _ in 0..200 {
        now += Duration::from_secs(1);
        core.on_timeout(now, &mut out);
    }
    assert_eq!(
        (core.figures().reserved_bytes, core.next_timeout()),
        (0, None)
    );
}

/// What becomes of a question: the answer's content.
fn answered(core: &mut EgressCore, ask: Ask, of_origin: OriginHead) -> (Answer, Option<Duration>) {
    let (mut fetches, mut out) = (fetches(), Outcome::default());
    fetches.begin(Time::ZERO, 1, ask);
    hand_in(
        core,
        Time::ZERO,
        &interests(&mut fetches, Time::ZERO),
        &mut out,
    );
    let id = out.orders[0].id;
    core.on_head(Time::ZERO, 1, id, of_origin, &mut out);
    let data = Data::decode(&out.replies[0].wire).unwrap();
    (Answer::decode(data.content).unwrap(), data.freshness)
}

/// The name of a body that a client is sent to, and what has to be done then.
fn body_named(core: &mut EgressCore, now: Time, ask: Ask, of_origin: OriginHead) -> (u64, Outcome) {
    let (mut fetches, mut out) = (fetches(), Outcome::default());
    fetches.begin(now, 1, ask);
    hand_in(core, now, &interests(&mut fetches, now), &mut out);
    let id = out.orders.pop().expect("the origin is asked").id;
    core.on_head(now, 1, id, of_origin, &mut out);
    let data = out.replies.pop().unwrap().wire;
    match Answer::decode(Data::decode(&data).unwrap().content).unwrap() {
        Answer::Head(Head {
            body: Content::Segments { version, .. },
            ..
        }) => (version, out),
        other => panic!("{other:?}"),
    }
}

const TAGGED: [(&str, &str); 2] = [("cache-control", "max-age=600"), ("etag", "\"a\"")];

/// Failure: a body that has not changed crosses the network again, because its head is no longer
/// fresh, or because a node was started again.
#[test]
fn an_unchanged_body_keeps_its_name() {
    let mut core = core(100 << 20);
    let page = || ask(Method::GET, "/a");
    let tagged = || head(&TAGGED, None, Some(50_000));
    let (first, out) = body_named(&mut core, Time::ZERO, page(), tagged());
    assert_eq!(
        (out.grants.len(), out.stops.len()),
        (1, 0),
        "the body is read"
    );
    core.on_piece(Time::ZERO, 1, &[7; 50_000], &mut Outcome::default());
    core.on_end(1, true, &mut Outcome::default());
    let reserved = core.figures().reserved_bytes;
    let later = Time::from_secs(15);
    core.on_timeout(later, &mut Outcome::default());
    let (second, out) = body_named(&mut core, later, page(), tagged());
    assert_eq!(second, first);
    assert_eq!(
        (out.grants.len(), out.stops),
        (0, vec![2]),
        "it is here, and not read again"
    );
    assert!(core.figures().reserved_bytes <= reserved, "once");
    // It is gone, and so is the node.
    let much_later = Time::from_secs(600);
    core.on_timeout(much_later, &mut Outcome::default());
    assert_eq!(core.figures().reserved_bytes, 0);
    let (third, out) = body_named(&mut core, much_later, page(), tagged());
    assert_eq!((third, out.grants.len()), (first, 1));
    assert_eq!(
        body_named(&mut started_at(1 << 20, 99), Time::ZERO, page(), tagged()).0,
        first
    );
    // Other bytes, or perhaps.
    let other = [("cache-control", "max-age=600"), ("etag", "\"b\"")];
    let weak = [("cache-control", "max-age=600"), ("etag", "W/\"a\"")];
    let mut versions = vec![first];
    for fields in [other, weak, weak] {
        let (version, _) = body_named(
            &mut core,
            much_later,
            ask(Method::GET, "/b"),
            head(&fields, None, Some(50_000)),
        );
        assert!(!versions.contains(&version));
        versions.push(version);
        core = started_at(100 << 20, version + 1);
    }
    let own = Ask {
        shared: None,
        ..page()
    };
    assert_ne!(
        body_named(&mut core, much_later, own, tagged()).0,
        first,
        "of one client"
    );
}

/// Failure: of two answers that name one body, one goes on naming it after it broke off; or what
/// comes next is the broken one.
#[test]
fn a_broken_body_is_fetched_again_under_its_name() {
    let mut core = core(100 << 20);
    let pages = || {
        ["de", "fr"].map(|language| {
            let mut page = ask(Method::GET, "/a");
            page.headers
                .insert("accept-language", HeaderValue::from_static(language));
            page.shared = form::shared(&page.method, false, &page.headers);
            page
        })
    };
    let named = |core: &mut EgressCore| {
        pages().map(|page| body_named(core, Time::ZERO, page, head(&TAGGED, None, Some(50_000))).0)
    };
    let [one, other] = named(&mut core);
    assert_eq!(one, other, "while it comes, too");
    let mut out = Outcome::default();
    core.on_piece(Time::ZERO, 1, &[7; 20_000], &mut out);
    core.on_end(1, false, &mut out);
    assert_eq!(named(&mut core), [one; 2], "both are asked for again");
    core.on_piece(Time::ZERO, 3, &[8; 50_000], &mut out);
    core.on_end(3, true, &mut out);
    let mut name = pages()[0].object.versioned(one);
    name.push_segment(0);
    hand_in(
        &mut core,
        Time::ZERO,
        &[larder_packet::InterestBuilder::new(name).build()],
        &mut out,
    );
    assert_eq!(Data::decode(&out.replies[0].wire).unwrap().content[0], 8);
}

/// Failure: a far node that sends other bodies than its heads announce fills the edge's memory, or
/// keeps it at work for ever.
#[test]
fn a_far_node_that_lies_about_a_body_is_cut_off() {
    let content = |length| {
        Answer::Head(Head {
            status: StatusCode::OK,
            headers: HeaderMap::new(),
            body: Content::Segments { version: 7, length },
            unframed: false,
        })
    };
    let lie = |length, piece: &'static [u8]| {
        let (mut fetches, mut events, mut now, mut unread) = (fetches(), Vec::new(), Time::ZERO, 0);
        fetches.begin(now, 1, ask(Method::GET, "/a"));
        for _ in 0..5000 {
            for wire in interests(&mut fetches, now) {
                let name = Interest::decode(&wire).unwrap().name.to_name();
                let is_segment = name.as_name().last().unwrap().as_segment().is_some();
                let content = if is_segment {
                    piece.to_vec()
                } else {
                    content(length).encode()
                };
                let data = DataBuilder::new(&name)
                    .content(&content)
                    .build(&DigestSigner)
                    .unwrap();
                fetches.on_data(
                    now,
                    &Data::decode(&data).unwrap(),
                    PathFeedback::default(),
                    &mut events,
                );
            }
            now += Duration::from_millis(10);
            for (_, event) in events.drain(..) {
                match event {
                    Event::Failed(failure) => return (unread, Some(failure)),
                    Event::Piece(_) => unread += 1,
                    _ => {}
                }
            }
        }
        (unread, None)
    };
    let (pieces, failure) = lie(Some(1000), b"12345678901");
    assert!(
        matches!(failure, Some(Failure::Body(_))) && pieces <= 90,
        "{pieces} pieces, {failure:?}"
    );
    let (pieces, failure) = lie(Some(1000), b"");
    assert!(
        matches!(failure, Some(Failure::Body(_))) && pieces <= 1000,
        "{pieces} pieces, {failure:?}"
    );
    // Of unknown length, and its reader stands still.
    for piece in [&b""[..], b"1"] {
        let (pieces, failure) = lie(None, piece);
        assert_eq!(failure, None);
        let most = limits::UNREAD_BYTES / limits::PIECE_BYTES + limits::WINDOW_SEGMENTS;
        assert!(pieces <= most, "{pieces} pieces");
    }
}

/// Failure: one page's own version tells a stranger under which name the next client's is.
#[test]
fn nobody_guesses_where_the_body_of_one_clients_page_is() {
    let mut core = core(100 << 20);
    let mut version = |number: u32, is_shared: bool| {
        let page = ask(Method::GET, &format!("/{number}"));
        let page = if is_shared {
            page
        } else {
            Ask {
                shared: None,
                ..page
            }
        };
        match answered(
            &mut core,
            page,
            head(&[("cache-control", "max-age=9")], None, Some(50_000)),
        )
        .0
        {
            Answer::Head(Head {
                body: Content::Segments { version, .. },
                ..
            }) => version,
            other => panic!("{other:?}"),
        }
    };
    let shared = [version(1, true), version(2, true)];
    assert_eq!(shared[1], shared[0] + 1);
    let own = [version(3, false), version(4, false), version(5, false)];
    for pair in own.windows(2) {
        assert!(pair[0].abs_diff(pair[1]) > 1 << 32, "{own:?}");
    }
    assert!(
        own.iter().all(|own| own.abs_diff(shared[0]) > 1 << 32),
        "{own:?}"
    );
}

/// Failure: an origin that fails where a field is missing, which the shared form left out, fails
/// always.
#[test]
fn trouble_is_heard_of_the_whole_request_alone() {
    let mut core = core(1 << 20);
    let trouble = || OriginHead {
        status: StatusCode::SERVICE_UNAVAILABLE,
        ..head(&[], Some(b"who?"), Some(4))
    };
    assert_eq!(
        answered(&mut core, ask(Method::GET, "/a"), trouble()).0,
        Answer::InFull
    );
    let in_full = Ask {
        shared: None,
        ..ask(Method::GET, "/b")
    };
    assert!(matches!(
        answered(&mut core, in_full, trouble()).0,
        Answer::Head(_)
    ));
}

/// Failure: one hour of trouble, and nobody shares the page again.
#[test]
fn a_page_that_was_not_for_everybody_is_asked_for_as_such_again_some_day() {
    let (mut fetches, mut core, mut now) = (fetches(), core(10 << 20), Time::ZERO);
    let mut asked_again = Vec::new();
    for wait in [Duration::ZERO, limits::PRIVATE_FOR / 2, limits::PRIVATE_FOR] {
        now += wait;
        let id = asked_again.len() as u64;
        fetches.begin(now, id, ask(Method::GET, "/a"));
        let mut out = Outcome::default();
        for _ in 0..2 {
            hand_in(&mut core, now, &interests(&mut fetches, now), &mut out);
            for order in out.orders.split_off(0) {
                core.on_head(
                    now,
                    1,
                    order.id,
                    head(&[("cache-control", "private")], Some(b"x"), None),
                    &mut out,
                );
            }
            hand_back(&mut fetches, now, &mut out);
        }
        asked_again.push(fetches.figures().asked_again);
    }
    assert_eq!(asked_again, [1, 1, 2]);
}

/// Failure: a cache on the way goes on naming a body of which the far node has kept the end alone.
#[test]
fn what_is_kept_as_a_window_is_named_by_no_cache_and_to_nobody_who_comes_late() {
    let mut core = core(20 << 20);
    let page = || ask(Method::GET, "/stream");
    let fields = [("cache-control", "max-age=60")];
    let (answer, freshness) = answered(&mut core, page(), head(&fields, None, None));
    assert_eq!(freshness, None);
    let Answer::Head(Head {
        body: Content::Segments { version, .. },
        ..
    }) = answer
    else {
        panic!("{answer:?}")
    };
    let (mut out, id) = (Outcome::default(), 1);
    let mut segment = 0;
    while segment <= 2 * limits::WINDOW_SEGMENTS as u64 {
        core.on_piece(Time::ZERO, id, &[7; limits::SEGMENT_BYTES], &mut out);
        let name = page().object.versioned(version);
        let mut interest = name.clone();
        interest.push_segment(segment);
        let wire = larder_packet::InterestBuilder::new(interest).build();
        hand_in(&mut core, Time::ZERO, &[wire], &mut out);
        segment += 1;
    }
    assert_eq!(core.figures().gone, 0);
    let before = core.figures().requests;
    answered(&mut core, page(), head(&fields, Some(b"new"), Some(3)));
    assert_eq!(
        core.figures().requests,
        before + 1,
        "who comes late has a body of his own"
    );
}

/// Failure: who asks for what nobody has made takes the memory, or ends the node.
#[test]
fn a_crowd_of_questions_ends_where_the_room_does() {
    let mut core = core(1 << 20);
    let mut out = Outcome::default();
    for number in 0..500 {
        let mut fetches = fetches();
        fetches.begin(Time::ZERO, 1, ask(Method::GET, &format!("/{number}")));
        hand_in(
            &mut core,
            Time::ZERO,
            &interests(&mut fetches, Time::ZERO),
            &mut out,
        );
    }
    assert!(core.figures().reserved_bytes <= 1 << 20 && core.figures().no_room > 300);
    assert!(out.orders.len() > 50);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Failure: an Interest, an origin or a Data that ends a node.
    #[test]
    fn nothing_that_comes_panics(
        steps in proptest::collection::vec((0u8..9, any::<u16>(), proptest::collection::vec(any::<u8>(), 0..40)), 0..60),
    ) {
        let (mut fetches, mut core) = (fetches(), core(1 << 20));
        let (mut out, mut events, mut now, mut next) = (Outcome::default(), Vec::new(), Time::ZERO, 0);
        let mut wires = Vec::new();
        for (step, number, bytes) in steps {
            let id = u64::from(number % 8);
            match step {
                0 => {
                    next += 1;
                    fetches.begin(now, next, ask(if number % 2 == 0 { Method::GET } else { Method::HEAD }, &format!("/{}", number % 5)));
                }
                1 => {
                    let mut name = prefix();
                    name.push_generic(&bytes);
                    if number % 2 == 0 { name.push_keyword(b"metadata"); } else { name.push_version(id).push_segment(number.into()); }
                    let wire = larder_packet::InterestBuilder::new(name).application_parameters(&bytes).build();
                    core.on_interest(now, &Interest::decode(&wire).unwrap(), None, None, &mut out);
                }
                2 => core.on_head(now, 1, id, head(&[("cache-control", "max-age=5")], (number % 3 == 0).then_some(&bytes), (number % 3 == 1).then_some(number.into())), &mut out),
                3 => core.on_piece(now, id, &bytes.repeat(1 + usize::from(number % 400)), &mut out),
                4 => core.on_end(id, number % 2 == 0, &mut out),
                5 => core.on_failure(now, id, number % 2 == 0, &mut out),
                6 => fetches.cancel(id),
                7 => {
                    now += Duration::from_millis(number.into());
                    core.on_timeout(now, &mut out);
                    fetches.on_timeout(now, &mut events);
                }
                _ => {
                    wires.extend(interests(&mut fetches, now));
                    for wire in &wires {
                        core.on_interest(now, &Interest::decode(wire).unwrap(), None, None, &mut out);
                    }
                    for reply in out.replies.drain(..) {
                        let data = Data::decode(&reply.wire).unwrap();
                        fetches.on_data(now, &data, PathFeedback::default(), &mut events);
                        fetches.taken(id, bytes.len());
                    }
                }
            }
            prop_assert!(core.figures().reserved_bytes <= 1 << 20);
        }
    }
}
