//! Consumers that wait for what cannot come.

use super::world::{Packet, World, faces, interest, nack, name};
use larder_forwarder::DropReason;
use larder_packet::{LpHeader, NackReason, PitToken, encode_lp};

#[test]
fn a_name_without_a_route_is_refused_at_once_with_its_token() {
    let mut world = World::new();
    let consumer = world.local();
    let mut frame = Vec::new();
    let header = LpHeader { pit_token: PitToken::new(&[1, 2, 3]), ..LpHeader::default() };
    encode_lp(&header, &interest("/a", 9).build(), &mut frame);
    let sent = world.frame(consumer, frame).unwrap();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].packet, Packet::Nack { name: name("/a"), nonce: 9, reason: NackReason::NoRoute });
    assert_eq!(sent[0].token.as_deref(), Some(&[1, 2, 3][..]));
    let stats = world.forwarder.stats();
    assert_eq!((stats.pit_entries, stats.drops.get(DropReason::NoRoute)), (0, 1));
}

#[test]
fn a_refusal_tries_the_next_hop_before_it_goes_downstream() {
    let mut world = World::new();
    let (one, two, first, second) = (world.local(), world.local(), world.remote(), world.remote());
    world.route("/", first, 1);
    world.route("/", second, 2);
    let frame = interest("/a", 1).build();
    assert_eq!(faces(&world.sent(one, frame.clone())), [first]);
    assert_eq!(faces(&world.interest(two, "/a", 2)), []);
    let sent = world.sent(first, nack(&frame, NackReason::NoRoute));
    assert_eq!(faces(&sent), [second]);
    let sent = world.sent(second, nack(&frame, NackReason::Congestion));
    // The least severe reason, to both, each with its own nonce.
    let refusal = |nonce| Packet::Nack { name: name("/a"), nonce, reason: NackReason::Congestion };
    assert_eq!(
        sent.iter().map(|s| (s.face, s.packet.clone())).collect::<Vec<_>>(),
        [(one, refusal(1)), (two, refusal(2))]
    );
    assert_eq!(world.forwarder.stats().pit_entries, 0);
}

#[test]
fn a_refusal_by_somebody_who_was_not_asked_counts_nothing() {
    let mut world = World::new();
    let (consumer, upstream, stranger) = (world.local(), world.remote(), world.remote());
    world.route("/", upstream, 1);
    let frame = interest("/a", 1).build();
    world.sent(consumer, frame.clone());
    assert_eq!(world.frame(stranger, nack(&frame, NackReason::NoRoute)), Err(DropReason::UnexpectedNack));
    let other_nonce = nack(&interest("/a", 5).build(), NackReason::NoRoute);
    assert_eq!(world.frame(upstream, other_nonce), Err(DropReason::UnexpectedNack));
    assert_eq!(faces(&world.data(upstream, "/a")), [consumer]);
}

#[test]
fn multicast_waits_for_the_last_refusal() {
    let mut world = World::new();
    let (consumer, first, second) = (world.local(), world.remote(), world.remote());
    world.route("/", first, 1);
    world.route("/", second, 2);
    let strategy = larder_forwarder::strategy::strategy_by_name("/localhost/nfd/strategy/multicast").unwrap();
    world.forwarder.set_strategy(&name("/a"), &strategy).unwrap();
    let frame = interest("/a/b", 1).build();
    assert_eq!(faces(&world.sent(consumer, frame.clone())), [first, second]);
    assert_eq!(faces(&world.sent(first, nack(&frame, NackReason::NoRoute))), []);
    assert_eq!(faces(&world.sent(second, nack(&frame, NackReason::NoRoute))), [consumer]);
}

#[test]
fn who_refuses_cannot_change_the_interest_that_others_get() {
    let mut world = World::new();
    let (consumer, evil, good) = (world.local(), world.remote(), world.remote());
    world.route("/", evil, 0);
    world.route("/", good, 1);
    assert_eq!(faces(&world.sent(consumer, interest("/a", 1).hop_limit(3).build())), [evil]);
    let refusals = [
        interest("/a", 1).hop_limit(255).build(),
        interest("/a", 1).build(),
        interest("/a", 1).hop_limit(2).can_be_prefix(true).build(),
        interest("/a", 1).hop_limit(2).forwarding_hint(&[name("/evil")]).build(),
    ];
    for forged in refusals {
        assert_eq!(world.frame(evil, nack(&forged, NackReason::NoRoute)), Err(DropReason::UnexpectedNack));
    }
    let sent = world.sent(evil, nack(&interest("/a", 1).hop_limit(2).build(), NackReason::NoRoute));
    assert_eq!(faces(&sent), [good]);
}
