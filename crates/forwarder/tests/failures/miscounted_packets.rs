//! Counters that say something else than what happened.

use super::world::{World, data, faces, interest, nack};
use larder_forwarder::{Config, DropReason, FaceCounters, FaceId, Forwarder, limits};
use larder_packet::{Fragmenter, LpHeader, NackReason, PitToken, encode_lp};
use larder_policy::Engine;
use larder_units::{ByteSize, Streams};

fn counters(world: &World, face: FaceId) -> FaceCounters {
    world
        .forwarder
        .face_stats()
        .into_iter()
        .find(|stats| stats.id == face)
        .unwrap()
        .counters
}

fn len(packet: &[u8]) -> u64 {
    packet.len() as u64
}

/// Failure: an operator reads other numbers of packets and bytes than a face has received and sent.
#[test]
fn a_face_counts_other_packets_than_it_had() {
    let mut world = World::new();
    let (consumer, producer) = (world.remote(), world.remote());
    world.route("/a", producer, 0);
    let (asked, again, answer) = (
        interest("/a/1", 1).build(),
        interest("/a/1", 2).build(),
        data("/a/1", b"1", None),
    );
    let mut framed = Vec::new();
    let header = LpHeader {
        pit_token: PitToken::new(&[1; 4]),
        ..LpHeader::default()
    };
    encode_lp(&header, &asked, &mut framed);
    assert_eq!(faces(&world.sent(consumer, framed.clone())), [producer]);
    assert_eq!(faces(&world.sent(producer, answer.clone())), [consumer]);
    assert_eq!(
        faces(&world.sent(consumer, again.clone())),
        [consumer],
        "from the Content Store"
    );
    let mut of_consumer = FaceCounters {
        in_interests: 2,
        in_bytes: len(&framed) + len(&again),
        in_interest_bytes: len(&asked) + len(&again),
        out_data: 2,
        out_bytes: 2 * len(&answer),
        out_data_bytes: 2 * len(&answer),
        ..FaceCounters::default()
    };
    let mut of_producer = FaceCounters {
        in_data: 1,
        in_bytes: len(&answer),
        in_data_bytes: len(&answer),
        out_interests: 1,
        out_bytes: len(&asked),
        out_interest_bytes: len(&asked),
        ..FaceCounters::default()
    };
    assert_eq!(
        (counters(&world, consumer), counters(&world, producer)),
        (of_consumer, of_producer)
    );
    // Refused by the upstream, and by this forwarder.
    let refused = interest("/a/2", 3).build();
    let refusal = nack(&refused, NackReason::NoRoute);
    assert_eq!(faces(&world.sent(consumer, refused.clone())), [producer]);
    assert_eq!(faces(&world.sent(producer, refusal.clone())), [consumer]);
    assert_eq!(
        world.forwarder.stats().drops.get(DropReason::NoRoute),
        0,
        "this forwarder has a route"
    );
    let without_route = interest("/b", 4).build();
    assert_eq!(
        faces(&world.sent(consumer, without_route.clone())),
        [consumer]
    );
    assert_eq!(world.forwarder.stats().drops.get(DropReason::NoRoute), 1);
    of_consumer.in_interests += 2;
    of_consumer.in_bytes += len(&refused) + len(&without_route);
    of_consumer.in_interest_bytes += len(&refused) + len(&without_route);
    of_consumer.out_nacks += 2;
    of_consumer.out_bytes += len(&refused) + len(&without_route);
    of_producer.in_nacks += 1;
    of_producer.in_bytes += len(&refusal);
    of_producer.out_interests += 1;
    of_producer.out_bytes += len(&refused);
    of_producer.out_interest_bytes += len(&refused);
    assert_eq!(
        (counters(&world, consumer), counters(&world, producer)),
        (of_consumer, of_producer)
    );
}

/// Failure: each piece of a packet counts as a packet, or none does; a packet that younger ones
/// have displaced before it was whole counts as nothing.
#[test]
fn a_packet_in_pieces_counts_otherwise_than_a_whole_one() {
    let mut world = World::new();
    let (consumer, producer) = (world.remote(), world.remote());
    world.route("/", producer, 0);
    let packet = interest(&format!("/{}", "x".repeat(500)), 1).build();
    let mut frames = Vec::new();
    let mut fragmenter = Fragmenter::new(7);
    fragmenter
        .fragment(&LpHeader::default(), &packet, 200, |frame| {
            frames.push(frame.to_vec())
        })
        .unwrap();
    let bytes = frames.iter().map(|frame| len(frame)).sum();
    for frame in frames {
        assert!(world.frame(consumer, frame).is_ok());
    }
    let expected = FaceCounters {
        in_interests: 1,
        in_bytes: bytes,
        in_interest_bytes: len(&packet),
        ..FaceCounters::default()
    };
    assert_eq!(counters(&world, consumer), expected);
    // One of two pieces of each.
    let most = larder_packet::limits::MAX_PARTIAL_PACKETS as u64;
    for number in 0..most + 6 {
        let header = LpHeader {
            sequence: Some(1000 + 2 * number),
            frag_count: 2,
            ..LpHeader::default()
        };
        let mut frame = Vec::new();
        encode_lp(&header, b"the first half", &mut frame);
        assert!(world.frame(consumer, frame).is_ok());
    }
    assert_eq!(world.forwarder.stats().drops.get(DropReason::Reassembly), 6);
    assert_eq!(counters(&world, consumer).dropped, 6);
}

/// Failure: an Interest that the Content Store answered, or one that its own upstream sent, counts
/// as nothing; or one that joins another counts as a lookup.
#[test]
fn an_interest_is_neither_satisfied_nor_unsatisfied() {
    let mut world = World::new();
    let (consumer, upstream) = (world.remote(), world.remote());
    world.route("/", upstream, 0);
    let ended = |world: &World| {
        (
            world.forwarder.stats().satisfied,
            world.forwarder.stats().unsatisfied,
        )
    };
    world.interest(consumer, "/a", 1);
    world.data(upstream, "/a");
    assert_eq!(faces(&world.interest(consumer, "/a", 2)), [consumer]);
    assert_eq!(ended(&world), (2, 0));
    // An upstream that asks for what it then sends does not get it.
    assert_eq!(faces(&world.interest(consumer, "/b", 3)), [upstream]);
    world.interest(upstream, "/b", 4);
    assert_eq!(faces(&world.data(upstream, "/b")), [consumer]);
    assert_eq!(ended(&world), (3, 1));
    let store = world.forwarder.stats().content_store;
    assert_eq!(
        (store.hits, store.misses),
        (1, 2),
        "an Interest for a pending name is not looked up"
    );
}

/// Failure: Interests that a full PIT took from their face count as nothing, or one new Interest
/// takes more of them than its limit allows.
#[test]
fn an_interest_takes_more_entries_than_it_may() {
    let streams = Streams::new(1);
    let engine = Engine::new(&"fifo".parse().unwrap(), ByteSize::from_mib(1), &streams).unwrap();
    let most = limits::SHARED_ENTRIES_TO_MAKE_ROOM as u64;
    let config = Config {
        pit_entries: 3 * most as usize,
        ..Config::new([1, 2], streams)
    };
    let mut world = World::of(Forwarder::new(config, engine));
    let (flooder, other, third, producer) = (
        world.remote(),
        world.remote(),
        world.remote(),
        world.local(),
    );
    world.route("/", producer, 0);
    for number in 0..3 * most as u32 {
        world.interest(flooder, &format!("/{number}"), number);
        world.interest(other, &format!("/{number}"), 1000 + number);
    }
    // All are shared: they stay for the other face, and there is no room in the end.
    assert_eq!(
        world.frame(third, interest("/new", 2000).build()),
        Err(DropReason::PitFull)
    );
    let stats = world.forwarder.stats();
    assert_eq!(
        (stats.unsatisfied, stats.drops.get(DropReason::PitFull)),
        (most, most + 1)
    );
    assert_eq!(
        (
            counters(&world, flooder).dropped,
            counters(&world, third).dropped
        ),
        (most, 1)
    );
}
