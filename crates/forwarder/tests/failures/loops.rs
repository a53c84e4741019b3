//! Interests that go round, and retransmissions that are taken for them.

use super::world::{Packet, Sent, World, faces, interest, name};
use larder_forwarder::{DropReason, FaceConfig, LinkType};
use larder_packet::NackReason;
use std::time::Duration;

#[test]
fn an_interest_that_comes_around_is_refused() {
    let mut world = World::new();
    let (consumer, upstream, neighbour) = (world.local(), world.remote(), world.remote());
    world.route("/", upstream, 0);
    world.interest(consumer, "/a", 7);
    let sent = world.interest(neighbour, "/a", 7);
    assert_eq!(faces(&sent), [neighbour]);
    assert_eq!(
        sent[0].packet,
        Packet::Nack {
            name: name("/a"),
            nonce: 7,
            hop_limit: None,
            reason: NackReason::Duplicate
        }
    );
    assert_eq!(
        world
            .forwarder
            .stats()
            .drops
            .get(DropReason::DuplicateNonce),
        1
    );
}

#[test]
fn an_interest_that_comes_back_from_its_upstream_is_refused() {
    let mut world = World::new();
    let (consumer, upstream) = (world.local(), world.remote());
    world.route("/", upstream, 0);
    world.interest(consumer, "/a", 7);
    let sent = world.interest(upstream, "/a", 7);
    assert!(matches!(
        sent[0].packet,
        Packet::Nack {
            reason: NackReason::Duplicate,
            ..
        }
    ));
}

#[test]
fn a_nonce_stays_known_when_its_interest_was_answered() {
    let mut world = World::new();
    let (consumer, upstream, neighbour) = (world.local(), world.remote(), world.remote());
    world.route("/", upstream, 0);
    world.interest(consumer, "/a", 7);
    world.data(upstream, "/a");
    let sent = world.sent(neighbour, interest("/a", 7).must_be_fresh(true).build());
    assert!(matches!(
        sent[0].packet,
        Packet::Nack {
            reason: NackReason::Duplicate,
            ..
        }
    ));
}

#[test]
fn an_interest_does_not_go_back_to_the_face_that_it_came_from() {
    let mut world = World::new();
    let (consumer, upstream) = (world.local(), world.remote());
    world.route("/", upstream, 0);
    world.interest(consumer, "/a", 1);
    world.pass(Duration::from_millis(260));
    // The upstream asks for the same, with a nonce of its own: somebody else waits, and still there
    // is nobody to ask.
    assert!(
        world
            .interest(upstream, "/a", 2)
            .iter()
            .all(|sent| !matches!(sent.packet, Packet::Interest { .. }))
    );
}

#[test]
fn hop_limit_is_spent_and_ends() {
    let mut world = World::new();
    let (consumer, upstream, application) = (world.remote(), world.remote(), world.local());
    world.route("/far", upstream, 0);
    world.route("/here", application, 0);
    let hops = |name: &str, limit: u8| interest(name, limit.into()).hop_limit(limit).build();
    let sent = world.sent(consumer, hops("/far", 3));
    assert!(matches!(
        sent[0].packet,
        Packet::Interest {
            hop_limit: Some(2),
            ..
        }
    ));
    // The last hop may still be an application on this machine.
    let sent = world.sent(consumer, hops("/here", 1));
    assert!(matches!(
        sent[0].packet,
        Packet::Interest {
            hop_limit: Some(0),
            ..
        }
    ));
    assert_ne!(faces(&world.sent(consumer, hops("/far/b", 1))), [upstream]);
    assert_eq!(
        world.frame(consumer, hops("/here/c", 0)),
        Err(DropReason::HopLimit)
    );
}

#[test]
fn a_retransmission_waits_and_then_tries_the_next_hop() {
    let mut world = World::new();
    let (consumer, first, second) = (world.local(), world.remote(), world.remote());
    world.route("/", first, 1);
    world.route("/", second, 2);
    assert_eq!(faces(&world.interest(consumer, "/a", 1)), [first]);
    world.pass(Duration::from_millis(5));
    assert_eq!(faces(&world.interest(consumer, "/a", 2)), [], "suppressed");
    world.pass(Duration::from_millis(10));
    assert_eq!(faces(&world.interest(consumer, "/a", 3)), [second]);
    world.pass(Duration::from_millis(30));
    assert_eq!(
        faces(&world.interest(consumer, "/a", 4)),
        [first],
        "the one that was tried longest ago"
    );
}

/// Failure: on a path of more than ten milliseconds, each consumer of the same name causes a Data
/// of its own.
#[test]
fn a_second_consumer_has_the_first_ones_interest_sent_again() {
    let mut world = World::new();
    let (first, second, third) = (world.remote(), world.remote(), world.remote());
    let (near, far) = (world.remote(), world.remote());
    world.route("/", near, 1);
    world.route("/", far, 2);
    assert_eq!(faces(&world.interest(first, "/a", 1)), [near]);
    world.pass(Duration::from_millis(200));
    assert_eq!(
        faces(&world.interest(second, "/a", 2)),
        [],
        "it is on its way"
    );
    assert_eq!(
        faces(&world.interest(second, "/a", 3)),
        [far],
        "he misses it, and it was sent long ago"
    );
    world.pass(Duration::from_millis(251));
    assert_eq!(
        faces(&world.interest(third, "/a", 4)),
        [near],
        "so long ago that the others may have left"
    );
    assert_eq!(faces(&world.data(near, "/a")), [first, second, third]);
}

/// Failure: two routers are each other's next hop. One forwards to the other what the other has
/// just forwarded to it, and waits for itself while a third router could answer. Or all are refused
/// because the other router is the only next hop.
#[test]
fn an_upstream_that_asks_back_is_waited_for() {
    let mut world = World::new();
    let (consumer, near, far) = (world.remote(), world.remote(), world.remote());
    world.route("/", near, 1);
    assert_eq!(faces(&world.interest(consumer, "/a", 1)), [near]);
    assert_eq!(
        faces(&world.interest(near, "/a", 2)),
        [],
        "there is nobody else, and he may answer still"
    );
    assert_eq!(faces(&world.data(near, "/a")), [consumer]);
    world.route("/", far, 2);
    assert_eq!(faces(&world.interest(consumer, "/b", 3)), [near]);
    assert_eq!(faces(&world.interest(near, "/b", 4)), [far]);
    world.pass(Duration::from_millis(5));
    assert_eq!(
        faces(&world.interest(near, "/b", 5)),
        [],
        "it is on its way"
    );
    assert_eq!(faces(&world.interest(consumer, "/b", 6)), []);
    assert_eq!(faces(&world.data(far, "/b")), [consumer, near]);
    // An upstream that is gone is waited for by nobody.
    assert_eq!(faces(&world.interest(consumer, "/c", 7)), [near]);
    world.forwarder.remove_face(near);
    world.forwarder.remove_face(far);
    world.pass(Duration::from_millis(20));
    let sent = world.interest(consumer, "/c", 8);
    assert!(
        matches!(
            sent[..],
            [Sent {
                packet: Packet::Nack { nonce: 8, .. },
                ..
            }]
        ),
        "{sent:?}"
    );
}

/// Failure: on a link with several peers, a consumer is taken for the upstream, and each of several
/// consumers of a name sends it elsewhere too.
#[test]
fn an_answer_from_a_third_on_the_link_is_not_waited_for() {
    for link_type in [LinkType::MultiAccess, LinkType::AdHoc] {
        let mut world = World::new();
        let (consumer, far) = (world.remote(), world.remote());
        let group = FaceConfig {
            link_type,
            ..FaceConfig::remote("udp4://224.0.23.170:56363")
        };
        let group = world.forwarder.add_face(group);
        world.route("/", group, 1);
        world.route("/", far, 2);
        assert_eq!(faces(&world.interest(consumer, "/a", 1)), [group]);
        assert_eq!(faces(&world.interest(group, "/a", 2)), [], "{link_type:?}");
        world.pass(Duration::from_millis(251));
        assert_eq!(
            faces(&world.interest(group, "/a", 3)),
            [far],
            "{link_type:?}"
        );
        assert_eq!(faces(&world.data(far, "/a")), [consumer, group]);
    }
}

/// Failure: synchronising neighbours send the same Interest at the same time, and the first of them
/// never gets one.
#[test]
fn under_multicast_who_asked_first_is_not_asked() {
    let mut world = World::new();
    let (application, first, second) = (world.local(), world.remote(), world.remote());
    world.route("/", first, 0);
    world.route("/", second, 1);
    world.route("/", application, 2);
    let strategy = larder_forwarder::strategy::strategy_by_name("multicast").unwrap();
    world.forwarder.set_strategy(&name("/"), &strategy).unwrap();
    assert_eq!(
        faces(&world.interest(first, "/a", 1)),
        [second, application]
    );
    assert_eq!(
        faces(&world.interest(application, "/a", 2)),
        [first],
        "the others were asked just now"
    );
    assert_eq!(faces(&world.interest(second, "/a", 3)), []);
    assert_eq!(faces(&world.interest(application, "/a", 4)), []);
    // What a neighbour asks of this link alone goes to applications alone, until one of them asks.
    assert_eq!(
        faces(&world.interest(first, "/localhop/a", 5)),
        [application]
    );
    assert_eq!(
        faces(&world.interest(application, "/localhop/a", 6)),
        [first, second]
    );
}

#[test]
fn an_interest_without_a_nonce_gets_one() {
    let mut world = World::new();
    let (consumer, producer) = (world.local(), world.local());
    world.route("/", producer, 0);
    let bare = interest("/a", 1).build();
    // Cut the Nonce (6 bytes at the end) out of the packet.
    let mut bare = bare[..bare.len() - 6].to_vec();
    bare[1] -= 6;
    let sent = world.frame(consumer, bare).unwrap();
    assert_eq!(faces(&sent), [producer]);
    assert!(matches!(&sent[0].packet, Packet::Interest { name: n, .. } if *n == name("/a")));
}

#[test]
fn a_nonce_that_was_sent_out_is_known_after_a_suppressed_retransmission() {
    let mut world = World::new();
    let (consumer, upstream, neighbour) = (world.local(), world.remote(), world.remote());
    world.route("/", upstream, 0);
    world.interest(consumer, "/a", 1);
    world.pass(Duration::from_millis(1));
    assert_eq!(
        faces(&world.interest(consumer, "/a", 2)),
        [],
        "suppressed; the consumer's nonce is 2 now"
    );
    world.pass(Duration::from_millis(20));
    assert_eq!(
        world.frame(neighbour, interest("/a", 1).build()),
        Err(DropReason::DuplicateNonce)
    );
}
