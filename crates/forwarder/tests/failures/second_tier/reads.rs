//! Failures of the Interests that wait for a read of the tier: one gets nothing, is forwarded
//! twice, or goes where it may not.

use super::*;

/// Failure: an application that measures a path, or looks for a neighbour, waits for a disk; or an
/// Interest that waited for the disk is forgotten because of it.
#[test]
fn an_interest_with_a_next_hop_of_its_own_waits_for_a_read() {
    for (is_read, is_refused) in [(true, false), (true, true), (false, false)] {
        let mut place = Place::new();
        place.fetch("/a/b", b"kept", None);
        place.fill_memory();
        let (chooser, chosen) = (with_local_fields(&mut place.world), place.world.remote());
        assert!(place.world.interest(place.consumer, "/a/b", 1).is_empty());
        assert_eq!(
            faces(&place.world.sent(chooser, to_chosen("/a/b", 2, chosen))),
            [chosen]
        );
        // Nobody is refused for one who chose what is not there.
        assert!(
            place
                .world
                .sent(chooser, to_chosen("/a/b", 3, FaceId(99_999)))
                .is_empty()
        );
        if is_refused {
            let refusal = nack(&interest("/a/b", 2).build(), NackReason::NoRoute);
            assert!(
                place.world.sent(chosen, refusal).is_empty(),
                "those who wait for the disk are sent elsewhere"
            );
        }
        let (ticket, found) = {
            let mut shelf = lock(&place.shelf);
            let (ticket, lookup) = shelf.reads.pop_front().unwrap();
            (ticket, shelf.read(&lookup).filter(|_| is_read))
        };
        let sent = place.tier_record(ticket, found);
        let sent = if is_read {
            sent
        } else {
            assert_eq!(faces(&sent), [], "the chosen one was asked just now");
            place.world.data(chosen, "/a/b")
        };
        let mut got = faces(&sent);
        got.sort();
        assert_eq!(got, [place.consumer, chooser]);
        assert_eq!(
            (
                place.world.forwarder.waiting(),
                place.world.forwarder.stats().pit_entries
            ),
            (0, 0)
        );
    }
}

/// A place whose Data is only in the tier, and without a route.
pub(super) fn waiting() -> Place {
    let mut place = Place::new();
    place.fetch("/a/b", b"kept", None);
    place.fill_memory();
    place
        .world
        .forwarder
        .remove_route(&"/a".parse().unwrap(), place.producer, 255);
    place
}

/// The next read fails. Returns what is sent then.
pub(super) fn fail_read(place: &mut Place) -> Vec<Sent> {
    let (ticket, _) = lock(&place.shelf).reads.pop_front().unwrap();
    place.tier_record(ticket, None)
}

/// An Interest that may go no further.
fn nearly_there(nonce: u32) -> Vec<u8> {
    interest("/a/b", nonce).hop_limit(1).build()
}

/// Failure: the first consumer has gone, or its Interest may not go far, and all consumers that
/// joined are treated alike.
#[test]
fn who_asked_first_decides_for_all() {
    // One has come as far as he may, the others have not.
    for (joins, expected) in [(Some(9), Some(8)), (None, None)] {
        let mut place = waiting();
        let (far, other) = (place.world.remote(), place.world.remote());
        place.world.route("/a", far, 1);
        assert!(place.world.sent(place.consumer, nearly_there(1)).is_empty());
        let joining = joins
            .into_iter()
            .fold(interest("/a/b", 2), |joining, hops| joining.hop_limit(hops))
            .build();
        assert!(place.world.sent(other, joining).is_empty());
        let sent = fail_read(&mut place);
        assert!(
            matches!(sent[..], [Sent { face, packet: Packet::Interest { hop_limit, .. }, .. }]
            if face == far && hop_limit == expected),
            "{sent:?}"
        );
    }
    // Nobody can be asked: each is refused by what he sent.
    let mut place = waiting();
    let other = place.world.remote();
    assert!(place.world.sent(place.consumer, nearly_there(1)).is_empty());
    assert!(
        place
            .world
            .sent(other, interest("/a/b", 2).hop_limit(9).build())
            .is_empty()
    );
    let refused = |sent: &Sent| match sent.packet {
        Packet::Nack {
            nonce, hop_limit, ..
        } => (sent.face, nonce, hop_limit),
        ref other => panic!("{other:?}"),
    };
    let sent: Vec<_> = fail_read(&mut place).iter().map(refused).collect();
    assert_eq!(sent, [(place.consumer, 1, Some(1)), (other, 2, Some(9))]);
    // An application hears who asks, and not that the store does.
    let mut place = waiting();
    let (other, application) = (place.world.remote(), with_local_fields(&mut place.world));
    place.world.route("/a", application, 1);
    assert!(place.world.sent(place.consumer, nearly_there(1)).is_empty());
    assert!(place.world.interest(other, "/a/b", 2).is_empty());
    assert_eq!(
        fail_read(&mut place)[0].incoming_face,
        Some(place.consumer.0)
    );
    // Alone, he goes no farther.
    let mut place = waiting();
    let far = place.world.remote();
    place.world.route("/a", far, 1);
    assert!(place.world.sent(place.consumer, nearly_there(1)).is_empty());
    assert!(matches!(
        fail_read(&mut place)[..],
        [Sent {
            packet: Packet::Nack { nonce: 1, .. },
            ..
        }]
    ));
}

/// Failure: a consumer is asked for its own Interest, or one whose face is gone is waited for.
#[test]
fn a_consumer_is_its_own_next_hop() {
    // The first consumer is the next hop of those that joined, and waits no more, or still.
    for gone in [true, false] {
        let mut place = waiting();
        let (first, second) = (place.world.remote(), place.world.remote());
        place.world.route("/a", first, 1);
        let lifetime = Duration::from_millis(if gone { 20 } else { 4000 });
        assert!(
            place
                .world
                .sent(first, interest("/a/b", 1).lifetime(lifetime).build())
                .is_empty()
        );
        assert!(place.world.interest(second, "/a/b", 2).is_empty());
        place.world.pass(Duration::from_millis(30));
        assert_eq!(faces(&fail_read(&mut place)), [first], "gone: {gone}");
        assert_eq!(faces(&place.world.data(first, "/a/b")), [second]);
    }
    // The face of the first is gone: no Interest is sent for it, and a consumer that is left alone
    // is not asked itself.
    for others in [0, 1] {
        let mut place = waiting();
        let (first, second) = (place.world.remote(), place.world.remote());
        place.world.route("/a", second, 1);
        assert!(place.world.interest(first, "/a/b", 1).is_empty());
        for _ in 0..others {
            assert!(place.world.interest(second, "/a/b", 2).is_empty());
        }
        place.world.forwarder.remove_face(first);
        let sent = fail_read(&mut place);
        assert!(
            sent.iter()
                .all(|sent| !matches!(sent.packet, Packet::Interest { .. })),
            "{sent:?}"
        );
        assert_eq!(faces(&sent), vec![second; others]);
    }
    // A single consumer is not asked itself.
    let mut place = waiting();
    let first = place.world.remote();
    place.world.route("/a", first, 1);
    assert!(place.world.interest(first, "/a/b", 1).is_empty());
    assert!(matches!(
        fail_read(&mut place)[..],
        [Sent {
            packet: Packet::Nack { nonce: 1, .. },
            ..
        }]
    ));
}

#[test]
fn an_operator_takes_the_disks_answers_for_misses() {
    let mut place = Place::new();
    place.world.forwarder.set_figures_by_prefix(2);
    place.fetch("/a/b", b"kept", None);
    place.fill_memory();
    let figures = |place: &Place| {
        let all = place.world.forwarder.figures_by_prefix(10);
        let found = all
            .iter()
            .find(|figures| figures.name().to_string() == "/a/b")
            .unwrap();
        (found.hits, found.misses)
    };
    assert_eq!(figures(&place), (0, 1));
    assert!(
        place
            .world
            .interest(place.consumer, "/a/b", nonce())
            .is_empty()
    );
    assert_eq!(figures(&place), (0, 2));
    assert_eq!(faces(&place.deliver()), [place.consumer]);
    assert_eq!(figures(&place), (1, 1));
    assert_eq!(faces(&place.ask("/a/b")), [place.consumer]);
    assert_eq!(figures(&place), (2, 1));
}

#[test]
fn a_read_that_fails_is_the_end_of_it() {
    let mut place = Place::new();
    place.fetch("/a/b", b"kept", None);
    place.fill_memory();
    lock(&place.shelf).write();
    // The sector that it is in is bad from now on.
    assert!(place.world.interest(place.consumer, "/a/b", 1).is_empty());
    let (ticket, _) = lock(&place.shelf).reads.pop_front().unwrap();
    let sent = place.tier_record(ticket, None);
    assert_eq!(faces(&sent), [place.producer]);
    assert!(matches!(sent[0].packet, Packet::Interest { nonce: 1, .. }));
    assert_eq!(
        contents(&place.world.data(place.producer, "/a/b")),
        [(place.consumer, b"content".to_vec())]
    );
    assert_eq!(place.counters().failed, 1);
    // Without a route, it is refused.
    place.fill_memory();
    place
        .world
        .forwarder
        .remove_route(&"/a".parse().unwrap(), place.producer, 255);
    assert!(place.world.interest(place.consumer, "/a/b", 2).is_empty());
    let (ticket, _) = lock(&place.shelf).reads.pop_front().unwrap();
    assert!(matches!(
        place.tier_record(ticket, None)[..],
        [Sent {
            packet: Packet::Nack { nonce: 2, .. },
            ..
        }]
    ));
    // Bytes that are none of what was put.
    let (rotten, position) = (vec![0xff; 40].into(), 0);
    assert!(place.world.interest(place.consumer, "/a/b", 4).is_empty());
    let (ticket, _) = lock(&place.shelf).reads.pop_front().unwrap();
    let sent = place.tier_record(
        ticket,
        Some(TierRecord {
            record: rotten,
            position,
        }),
    );
    assert!(matches!(
        sent[..],
        [Sent {
            packet: Packet::Nack { nonce: 4, .. },
            ..
        }]
    ));
}

#[test]
fn a_slow_disk_stops_somebody() {
    let mut place = Place::new();
    place.fetch("/a/b", b"kept", None);
    place.fill_memory();
    assert!(place.world.interest(place.consumer, "/a/b", 1).is_empty());
    assert!(place.world.pass(Duration::from_millis(99)).is_empty());
    assert_eq!(
        faces(&place.world.pass(Duration::from_millis(1))),
        [place.producer]
    );
    // Too late, and for another Interest of the same name.
    assert!(place.deliver().is_empty());
    assert_eq!(
        contents(&place.world.data(place.producer, "/a/b")),
        [(place.consumer, b"content".to_vec())]
    );
    assert_eq!(place.counters().late, 1);
    // A short life ends in time too, and no strategy takes the tier for a next hop.
    place.fill_memory();
    let short = interest("/a/b", 5)
        .lifetime(Duration::from_millis(20))
        .build();
    assert!(place.world.sent(place.consumer, short).is_empty());
    assert!(place.world.pass(Duration::from_millis(30)).is_empty());
    assert_eq!(place.world.forwarder.waiting(), 0);
    assert!(place.deliver().is_empty());
    assert!(place.world.pass(Duration::from_secs(1)).is_empty());
    assert_eq!(place.world.forwarder.next_timeout(), None);
}

#[test]
fn reads_pile_up() {
    let mut place = Place::new();
    let most =
        larder_forwarder::limits::RECALLED_BYTES / larder_forwarder::limits::MAX_PACKET_BYTES;
    let numbered = |number: usize| format!("/a/{number}");
    for number in 0..=most {
        place.fetch(&numbered(number), b"kept", None);
        lock(&place.shelf).write();
    }
    place.fill_memory();
    for number in 0..most {
        assert!(
            place
                .world
                .interest(place.consumer, &numbered(number), nonce())
                .is_empty(),
            "{number}"
        );
    }
    assert_eq!(lock(&place.shelf).reads.len(), most);
    assert_eq!(
        faces(
            &place
                .world
                .interest(place.consumer, &numbered(most), nonce())
        ),
        [place.producer]
    );
    assert_eq!(place.counters().busy, 1);
    while place.is_reading() {
        assert_eq!(faces(&place.deliver()), [place.consumer]);
    }
    assert!(
        place
            .world
            .interest(place.consumer, &numbered(0), nonce())
            .is_empty(),
        "there is room again"
    );
    // Interests of one name, each for another digest, are as many reads: none of them is what was
    // asked for.
    let before = place.counters().unfit;
    for number in 0..8 {
        assert!(
            place
                .world
                .interest(
                    place.consumer,
                    &format!("/a/1/sha256digest={number:064x}"),
                    nonce()
                )
                .is_empty()
        );
    }
    assert_eq!(faces(&place.deliver()), [place.consumer]);
    while place.is_reading() {
        assert_eq!(faces(&place.deliver()), [place.producer]);
    }
    assert_eq!(place.counters().unfit, before + 8);
}
