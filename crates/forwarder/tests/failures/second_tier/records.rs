//! What a record of the tier, and an Interest that waits for one, must not lose: times, the trust
//! in its signer, a congestion mark; and who learns of it.

use super::reads::fail_read;
use super::*;
use crate::poisoned_cache::{ANCHOR, anchor, certificate, key};
use larder_forwarder::PitEntry;
use larder_forwarder::strategy::{Decision, Feedback, Strategy, StrategyEntry};
use larder_packet::DataBuilder;
use std::sync::atomic::{AtomicU32, Ordering};

/// Failure: the tier takes the start of the forwarder for the time at which a Data came.
#[test]
fn data_is_as_old_as_its_forwarder() {
    let mut place = Place::new();
    place.world.pass(Duration::from_secs(100));
    place.fetch("/a/b", b"kept", Some(Duration::from_secs(10)));
    place.fill_memory();
    let fresh = || interest("/a/b", nonce()).must_be_fresh(true).build();
    place.world.pass(Duration::from_secs(5));
    assert!(place.world.sent(place.consumer, fresh()).is_empty());
    assert_eq!(
        contents(&place.deliver()),
        [(place.consumer, b"kept".to_vec())]
    );
    place.fill_memory();
    place.world.pass(Duration::from_secs(5));
    assert!(place.world.sent(place.consumer, fresh()).is_empty());
    assert_eq!(faces(&place.deliver()), [place.producer]);
}

/// Failure: a record is served though its signer's certificate has ended since, or refused though
/// it holds still.
#[test]
fn a_record_is_served_when_its_signers_time_is_over() {
    let site = key(3, "/v/site/KEY/3");
    let until_60_s = certificate("/v/site/KEY/3/v/v=1", 3, &key(1, ANCHOR), "19700101T000100");
    let trusting = |mut place: Place| {
        let certificates = anchor()
            .with_chained(std::slice::from_ref(&until_60_s))
            .unwrap();
        place.world.forwarder.set_verification(vec![VerifyRule {
            prefix: "/v".parse().unwrap(),
            certificates,
        }]);
        place.world.route("/v", place.producer, 1);
        place
    };
    let mut place = trusting(Place::on(Arc::default(), Duration::from_secs(10)));
    let name: Name = "/v/site/a".parse().unwrap();
    let signed = DataBuilder::new(&name)
        .content(b"kept")
        .build(&site)
        .unwrap();
    assert_eq!(
        faces(&place.world.interest(place.consumer, "/v/site/a", nonce())),
        [place.producer]
    );
    assert_eq!(
        faces(&place.world.sent(place.producer, signed)),
        [place.consumer]
    );
    lock(&place.shelf).write();
    for (since_1970, is_served) in [(30, true), (100, false)] {
        let mut place = trusting(place.restarted(Duration::from_secs(since_1970)));
        let to = if is_served {
            place.consumer
        } else {
            place.producer
        };
        assert_eq!(faces(&place.ask("/v/site/a")), [to], "{since_1970} s");
        assert_eq!(place.counters().unfit, u64::from(!is_served));
    }
}

/// Failure: a congested consumer's mark ends with the read that failed.
#[test]
fn a_congestion_mark_is_lost_with_a_read() {
    let mut place = Place::new();
    place.fetch("/a/b", b"kept", None);
    place.fill_memory();
    let mut frame = Vec::new();
    let header = LpHeader {
        congestion_mark: Some(7),
        ..LpHeader::default()
    };
    encode_lp(&header, &interest("/a/b", nonce()).build(), &mut frame);
    assert!(place.world.sent(place.consumer, frame).is_empty());
    let sent = fail_read(&mut place);
    assert_eq!((faces(&sent), sent[0].ban), (vec![place.producer], Some(7)));
}

/// Failure: the end of a read is taken for that of another one, of a later Interest for the name.
#[test]
fn a_read_that_fails_ends_another_one() {
    let mut place = Place::new();
    place.fetch("/a/b", b"kept", None);
    place.fill_memory();
    let short = interest("/a/b", 1)
        .lifetime(Duration::from_millis(20))
        .build();
    assert!(place.world.sent(place.consumer, short).is_empty());
    assert!(place.world.pass(Duration::from_millis(30)).is_empty());
    assert!(place.world.interest(place.consumer, "/a/b", 2).is_empty());
    assert_eq!(lock(&place.shelf).reads.len(), 2);
    assert_eq!(fail_read(&mut place), [], "the first Interest is over");
    assert_eq!(
        contents(&place.deliver()),
        [(place.consumer, b"kept".to_vec())]
    );
}

/// The Data that [`Listener`] was told of.
static TOLD: AtomicU32 = AtomicU32::new(0);

/// A strategy that measures, and sends to the first next hop.
struct Listener;

impl Strategy for Listener {
    fn on_interest(&mut self, decision: &mut Decision<'_>) {
        let first = decision.next_hops().next();
        match first {
            Some(hop) => decision.send(hop.face),
            None => decision.refuse_if_all_refused(),
        }
    }

    fn on_nack(&mut self, decision: &mut Decision<'_>) {
        decision.refuse_if_all_refused();
    }

    fn measures(&self) -> bool {
        true
    }

    fn on_data(&mut self, _: Time, _: FaceId, _: &PitEntry) -> Feedback {
        TOLD.fetch_add(1, Ordering::Relaxed);
        Feedback::default()
    }
}

/// Failure: a strategy measures an Interest that it never saw, because it waited for the tier.
#[test]
fn a_strategy_is_told_of_data_for_an_interest_that_it_never_saw() {
    let mut place = Place::new();
    let entry = StrategyEntry {
        name: "listener",
        version: 1,
        summary: "a strategy of this test",
        parameters: &[],
        build: |_, _| Ok(Box::new(Listener)),
    };
    place.world.forwarder.register_strategy(entry).unwrap();
    let listener = "/localhost/nfd/strategy/listener".parse().unwrap();
    place
        .world
        .forwarder
        .set_strategy(&"/a".parse().unwrap(), &listener)
        .unwrap();
    place.fetch("/a/b", b"kept", None);
    assert_eq!(TOLD.load(Ordering::Relaxed), 1);
    place.fill_memory();
    let before = TOLD.load(Ordering::Relaxed);
    assert_eq!(
        contents(&place.ask("/a/b")),
        [(place.consumer, b"kept".to_vec())],
        "from the tier"
    );
    place.fill_memory();
    let (chooser, chosen) = (with_local_fields(&mut place.world), place.world.remote());
    assert!(place.world.interest(place.consumer, "/a/b", 1).is_empty());
    assert_eq!(
        faces(&place.world.sent(chooser, to_chosen("/a/b", 2, chosen))),
        [chosen]
    );
    assert_eq!(place.world.data(chosen, "/a/b").len(), 2);
    assert_eq!(
        TOLD.load(Ordering::Relaxed),
        before + 4,
        "the four that filled memory"
    );
}
