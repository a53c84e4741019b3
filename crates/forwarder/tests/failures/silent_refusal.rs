//! Consumers that wait for what cannot come.

use super::local_fields::with_local_fields;
use super::world::{Packet, World, faces, interest, nack, name};
use larder_forwarder::DropReason;
use larder_packet::tlv::write_tlv;
use larder_packet::{
    DigestSigner, Interest, LpHeader, LpPacket, NackReason, PitToken, Signer, encode_lp, types,
};

#[test]
fn a_name_without_a_route_is_refused_at_once_with_its_token() {
    let mut world = World::new();
    let consumer = world.local();
    let mut frame = Vec::new();
    let header = LpHeader {
        pit_token: PitToken::new(&[1, 2, 3]),
        ..LpHeader::default()
    };
    encode_lp(&header, &interest("/a", 9).build(), &mut frame);
    let sent = world.frame(consumer, frame).unwrap();
    assert_eq!(sent.len(), 1);
    assert_eq!(
        sent[0].packet,
        Packet::Nack {
            name: name("/a"),
            nonce: 9,
            hop_limit: None,
            reason: NackReason::NoRoute
        }
    );
    assert_eq!(sent[0].token.as_deref(), Some(&[1, 2, 3][..]));
    let stats = world.forwarder.stats();
    assert_eq!(
        (stats.pit_entries, stats.drops.get(DropReason::NoRoute)),
        (0, 1)
    );
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
    let refusal = |nonce| Packet::Nack {
        name: name("/a"),
        nonce,
        hop_limit: None,
        reason: NackReason::Congestion,
    };
    assert_eq!(
        sent.iter()
            .map(|s| (s.face, s.packet.clone()))
            .collect::<Vec<_>>(),
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
    assert_eq!(
        world.frame(stranger, nack(&frame, NackReason::NoRoute)),
        Err(DropReason::UnexpectedNack)
    );
    let other_nonce = nack(&interest("/a", 5).build(), NackReason::NoRoute);
    assert_eq!(
        world.frame(upstream, other_nonce),
        Err(DropReason::UnexpectedNack)
    );
    assert_eq!(faces(&world.data(upstream, "/a")), [consumer]);
}

#[test]
fn multicast_waits_for_the_last_refusal() {
    let mut world = World::new();
    let (consumer, first, second) = (world.local(), world.remote(), world.remote());
    world.route("/", first, 1);
    world.route("/", second, 2);
    let strategy =
        larder_forwarder::strategy::strategy_by_name("/localhost/nfd/strategy/multicast").unwrap();
    world
        .forwarder
        .set_strategy(&name("/a"), &strategy)
        .unwrap();
    let frame = interest("/a/b", 1).build();
    assert_eq!(faces(&world.sent(consumer, frame.clone())), [first, second]);
    assert_eq!(
        faces(&world.sent(first, nack(&frame, NackReason::NoRoute))),
        []
    );
    assert_eq!(
        faces(&world.sent(second, nack(&frame, NackReason::NoRoute))),
        [consumer]
    );
}

#[test]
fn who_refuses_cannot_change_the_interest_that_others_get() {
    let mut world = World::new();
    let (consumer, evil, good) = (world.local(), world.remote(), world.remote());
    world.route("/", evil, 0);
    world.route("/", good, 1);
    assert_eq!(
        faces(&world.sent(consumer, interest("/a", 1).hop_limit(3).build())),
        [evil]
    );
    let refusals = [
        interest("/a", 1).hop_limit(255).build(),
        interest("/a", 1).build(),
        interest("/a", 1).hop_limit(2).can_be_prefix(true).build(),
        interest("/a", 1)
            .hop_limit(2)
            .forwarding_hint(&[name("/evil")])
            .build(),
    ];
    for forged in refusals {
        assert_eq!(
            world.frame(evil, nack(&forged, NackReason::NoRoute)),
            Err(DropReason::UnexpectedNack)
        );
    }
    let sent = world.sent(
        evil,
        nack(&interest("/a", 1).hop_limit(2).build(), NackReason::NoRoute),
    );
    assert_eq!(faces(&sent), [good]);
}

/// Failure: a downstream that identifies its Interests by all of their bytes drops the Nack, and
/// waits.
#[test]
fn a_refusal_is_of_another_interest_than_was_sent() {
    let refusals = |sent: Vec<super::world::Sent>| -> Vec<_> {
        let of = |packet: &Packet| match packet {
            Packet::Nack {
                nonce, hop_limit, ..
            } => (*nonce, *hop_limit),
            other => panic!("{other:?}"),
        };
        sent.iter()
            .map(|sent| (sent.face, of(&sent.packet)))
            .collect()
    };
    // NFD returns what it has spent of the HopLimit; Larder what it got.
    for returned in [7, 8] {
        let mut world = World::new();
        let [one, two, three, upstream] = std::array::from_fn(|_| world.remote());
        world.route("/a", upstream, 1);
        let first = interest("/a", 1)
            .hop_limit(9)
            .application_parameters(b"with parameters")
            .build();
        let joining = interest("/a", 2).application_parameters(b"with parameters");
        assert_eq!(faces(&world.sent(one, first.clone())), [upstream]);
        assert!(world.sent(two, joining.clone().build()).is_empty());
        assert!(
            world
                .sent(
                    three,
                    interest("/a", 3)
                        .hop_limit(255)
                        .application_parameters(b"with parameters")
                        .build()
                )
                .is_empty()
        );
        let back = interest("/a", 1)
            .hop_limit(returned)
            .application_parameters(b"with parameters")
            .build();
        let sent = refusals(world.sent(upstream, nack(&back, NackReason::NoRoute)));
        assert_eq!(
            sent,
            [
                (one, (1, Some(9))),
                (two, (2, None)),
                (three, (3, Some(255)))
            ]
        );
    }
    let mut world = World::new();
    let [one, two, upstream] = std::array::from_fn(|_| world.remote());
    let application = world.local();
    world.route("/a", upstream, 1);
    let limited = |name: &str| interest(name, 1).hop_limit(9).build();
    assert_eq!(
        refusals(world.sent(one, limited("/b"))),
        [(one, (1, Some(9)))]
    );
    let nothing = limited("/localhost/nfd/nothing/here");
    assert_eq!(
        refusals(world.sent(application, nothing)),
        [(application, (1, Some(9)))]
    );
    assert_eq!(faces(&world.sent(one, limited("/a"))), [upstream]);
    assert_eq!(
        refusals(world.sent(two, limited("/a"))),
        [(two, (1, Some(9)))],
        "a duplicate"
    );
}

/// An Interest for `/a` with this HopLimit in its place and ApplicationParameters, behind which
/// stands an element of HopLimit's type: out of its place it is no HopLimit, but what was hashed.
fn with_hop_limit_behind_parameters(hop_limit: Option<u8>, nonce: u32) -> Vec<u8> {
    let mut hashed = Vec::new();
    write_tlv(&mut hashed, types::APPLICATION_PARAMETERS, b"parameters");
    write_tlv(&mut hashed, types::HOP_LIMIT, &[77]);
    let mut components = name("/a").as_name().as_bytes().to_vec();
    write_tlv(
        &mut components,
        types::PARAMETERS_SHA256_DIGEST.into(),
        &DigestSigner.sign(&[&hashed]).unwrap(),
    );
    let mut value = Vec::new();
    write_tlv(&mut value, types::NAME, &components);
    write_tlv(&mut value, types::NONCE, &nonce.to_be_bytes());
    if let Some(hops) = hop_limit {
        write_tlv(&mut value, types::HOP_LIMIT, &[hops]);
    }
    value.extend_from_slice(&hashed);
    let mut wire = Vec::new();
    write_tlv(&mut wire, types::INTEREST, &value);
    wire
}

/// Failure: an Interest that is encoded again loses an element that the digest in its name covers.
#[test]
fn a_hop_limit_behind_the_parameters_is_dropped() {
    let mut world = World::new();
    let [one, two, first, second] = std::array::from_fn(|_| world.remote());
    world.route("/a", first, 1);
    world.route("/a", second, 2);
    let mut send = |from, mut frame: Vec<u8>| {
        let _ = world
            .forwarder
            .on_packet(world.now, from, &mut frame, &mut world.outbox);
        let mut sent = Vec::new();
        for send in world.outbox.drain().collect::<Vec<_>>() {
            let mut wire = Vec::new();
            send.write_stream(&frame[world.outbox.input()], &mut wire);
            let packet = LpPacket::decode(&wire).unwrap().fragment.unwrap();
            let interest = Interest::decode(packet).unwrap();
            assert_eq!(
                interest.check_parameters_digest(),
                Ok(()),
                "to {}: {packet:02x?}",
                send.face
            );
            sent.push((send.face, interest.hop_limit));
        }
        sent
    };
    let limited = |hops, nonce| with_hop_limit_behind_parameters(hops, nonce);
    assert_eq!(send(one, limited(Some(9), 1)), [(first, Some(8))]);
    assert_eq!(send(two, limited(None, 2)), []);
    // The next upstream gets what the first one got, and each consumer what it sent.
    assert_eq!(
        send(first, nack(&limited(Some(3), 1), NackReason::NoRoute)),
        [(second, Some(8))]
    );
    assert_eq!(
        send(second, nack(&limited(Some(3), 1), NackReason::NoRoute)),
        [(one, Some(9)), (two, None)]
    );
}

/// Failure: each upstream that refuses takes one hop from the hop limit of the next one, or an
/// application gets its own Interest.
#[test]
fn the_next_hop_after_a_refusal_gets_another_interest() {
    let mut world = World::new();
    let (consumer, upstream, application) =
        (world.local(), world.remote(), with_local_fields(&mut world));
    world.route("/a", upstream, 1);
    world.route("/a", application, 2);
    assert_eq!(
        faces(&world.sent(consumer, interest("/a", 1).hop_limit(9).build())),
        [upstream]
    );
    let sent = world.sent(
        upstream,
        nack(&interest("/a", 1).hop_limit(3).build(), NackReason::NoRoute),
    );
    assert_eq!(
        (faces(&sent), sent[0].incoming_face),
        (vec![application], Some(consumer.0))
    );
    assert!(
        matches!(
            sent[0].packet,
            Packet::Interest {
                hop_limit: Some(8),
                nonce: 1,
                ..
            }
        ),
        "{sent:?}"
    );
}
