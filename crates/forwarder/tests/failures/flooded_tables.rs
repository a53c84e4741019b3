//! Floods: of names, of consumers, of prefixes.

use super::world::{Packet, Sent, World, data, faces, interest};
use larder_forwarder::{Config, DropReason, Forwarder, Received, Route, limits};
use larder_packet::LpHeader;
use larder_policy::Engine;
use larder_units::{ByteSize, Streams, Time};
use std::time::Duration;

#[test]
fn a_full_pit_drops_and_counts_and_recovers() {
    let streams = Streams::new(1);
    let engine = Engine::new(&"fifo".parse().unwrap(), ByteSize::from_mib(1), &streams).unwrap();
    let config = Config {
        pit_entries: 100,
        ..Config::new([1, 2], streams)
    };
    let mut world = World::of(Forwarder::new(config, engine));
    let (consumer, producer) = (world.local(), world.local());
    world.route("/", producer, 0);
    for i in 0..1000 {
        world.interest(consumer, &format!("/flood/{i}"), i);
    }
    let stats = world.forwarder.stats();
    assert_eq!(
        (stats.pit_entries, stats.drops.get(DropReason::PitFull)),
        (100, 900)
    );
    world.pass(Duration::from_secs(5));
    assert_eq!(
        faces(&world.interest(consumer, "/flood/1001", 1)),
        [producer]
    );
}

/// The PIT of 1,000 entries and one face that asks for names without end; what `others` ask for
/// meanwhile is answered 500 Interests of the flood later. Returns how much of it was.
fn answered_in_a_flood(others: usize, batch: bool) -> f64 {
    let streams = Streams::new(1);
    let engine = Engine::new(&"fifo".parse().unwrap(), ByteSize::from_bytes(0), &streams).unwrap();
    let config = Config {
        pit_entries: 1000,
        ..Config::new([1, 2], streams)
    };
    let mut world = World::of(Forwarder::new(config, engine));
    let (flooder, producer) = (world.remote(), world.local());
    let others: Vec<_> = (0..others).map(|_| world.remote()).collect();
    world.route("/", producer, 0);
    let mut out = larder_forwarder::Outbox::new();
    let (mut asked, mut answered) = (std::collections::VecDeque::new(), 0);
    let (mut made, mut flood) = (0, 0);
    for round in 0..2_000 {
        let mut frames: Vec<Vec<u8>> = (0..20)
            .map(|i| interest(&format!("/flood/{}", flood + i), round).build())
            .collect();
        flood += 20;
        if batch {
            let frames = frames.iter_mut().map(|frame| Received {
                face: flooder,
                frame,
            });
            world
                .forwarder
                .on_packets(world.now, &mut frames.collect::<Vec<_>>(), &mut out);
        } else {
            for frame in frames {
                drop(world.sent(flooder, frame));
            }
        }
        for face in &others {
            made += 1;
            world.interest(*face, &format!("/other/{made}"), made);
            asked.push_back((round, *face, made));
        }
        while let Some((_, face, number)) = asked.pop_front_if(|(at, ..)| *at + 25 <= round) {
            answered +=
                usize::from(faces(&world.data(producer, &format!("/other/{number}"))) == [face]);
        }
        assert!(world.forwarder.stats().pit_entries <= 1000);
        world.pass(Duration::from_millis(1));
    }
    let stats = world.forwarder.stats();
    assert!(stats.drops.get(DropReason::PitFull) > 30_000, "{stats:?}");
    answered as f64 / (made as usize - asked.len()) as f64
}

#[test]
fn a_flood_of_names_takes_the_room_of_others() {
    assert_eq!(answered_in_a_flood(1, false), 1.0);
    assert_eq!(answered_in_a_flood(1, true), 1.0);
    // Ten need 250 of the 1,000 entries, and have a right to ten elevenths.
    assert_eq!(answered_in_a_flood(10, false), 1.0);
}

#[test]
fn a_flooder_takes_from_who_asks_for_the_same() {
    let streams = Streams::new(1);
    let engine = Engine::new(&"fifo".parse().unwrap(), ByteSize::from_mib(1), &streams).unwrap();
    let config = Config {
        pit_entries: 10,
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
    for i in 0..10 {
        world.interest(flooder, &format!("/{i}"), i);
    }
    // The two oldest have a second consumer: they stay for him alone, and the third goes.
    world.interest(other, "/0", 100);
    world.interest(other, "/1", 101);
    world.interest(third, "/new", 102);
    assert_eq!(faces(&world.data(producer, "/0")), [other]);
    assert_eq!(faces(&world.data(producer, "/new")), [third]);
    assert!(world.data(producer, "/2").is_empty());
    assert_eq!(faces(&world.data(producer, "/3")), [flooder]);
}

#[test]
fn a_flooder_guards_his_entries_by_a_few_that_he_shares_with_himself() {
    let streams = Streams::new(1);
    let engine = Engine::new(&"fifo".parse().unwrap(), ByteSize::from_mib(1), &streams).unwrap();
    let config = Config {
        pit_entries: 100,
        ..Config::new([1, 2], streams)
    };
    let mut world = World::of(Forwarder::new(config, engine));
    let (flooder, accomplice, other, producer) = (
        world.remote(),
        world.remote(),
        world.remote(),
        world.local(),
    );
    world.route("/", producer, 0);
    for i in 0..100 {
        world.interest(flooder, &format!("/{i}"), i);
        if i < 40 {
            world.interest(accomplice, &format!("/{i}"), 1000 + i);
        }
    }
    let asked = |world: &mut World, i: u32| {
        faces(&world.interest(other, &format!("/other/{i}"), 2000 + i)) == [producer]
    };
    let refused = (0..20).filter(|i| !asked(&mut world, *i)).count();
    assert!(refused <= 3, "{refused} of 20 were refused");
}

#[test]
fn consumers_of_one_name_are_bounded() {
    let mut world = World::new();
    let producer = world.local();
    world.route("/", producer, 0);
    for nonce in 0..limits::RECORDS_PER_ENTRY as u32 + 10 {
        let consumer = world.local();
        world.interest(consumer, "/a", nonce);
    }
    assert_eq!(world.forwarder.stats().drops.get(DropReason::PitFull), 10);
    assert_eq!(world.data(producer, "/a").len(), limits::RECORDS_PER_ENTRY);
}

#[test]
fn upstreams_of_one_name_are_bounded() {
    let mut world = World::new();
    let consumer = world.local();
    world
        .forwarder
        .set_strategy(
            &super::world::name("/"),
            &super::world::name("/localhost/nfd/strategy/multicast"),
        )
        .unwrap();
    for _ in 0..limits::RECORDS_PER_ENTRY + 10 {
        let upstream = world.remote();
        world.route("/", upstream, 0);
    }
    assert_eq!(
        world.interest(consumer, "/a", 1).len(),
        limits::RECORDS_PER_ENTRY
    );
}

#[test]
fn names_too_deep_to_match_by_prefix_are_dropped() {
    let mut world = World::new();
    let consumer = world.local();
    let deep = "/a".repeat(limits::CAN_BE_PREFIX_COMPONENTS + 1);
    assert_eq!(
        world.frame(consumer, interest(&deep, 1).can_be_prefix(true).build()),
        Err(DropReason::NameTooDeep)
    );
    let producer = world.local();
    world.route("/", producer, 0);
    let deepest = "/a".repeat(limits::CAN_BE_PREFIX_COMPONENTS);
    assert_eq!(
        faces(&world.sent(consumer, interest(&deepest, 1).can_be_prefix(true).build())),
        [producer]
    );
    assert_eq!(
        faces(&world.data(producer, &format!("{deepest}/b"))),
        [consumer]
    );
    assert_eq!(faces(&world.interest(consumer, &deep, 2)), [producer]);
    assert_eq!(faces(&world.data(producer, &deep)), [consumer]);
    let route = Route {
        face: producer,
        origin: 0,
        cost: 0,
        flags: 0,
        expires: None,
    };
    assert!(
        world
            .forwarder
            .add_route(&deep.parse().unwrap(), route)
            .is_err()
    );
}

#[test]
fn a_network_of_larger_packets_says_so() {
    let streams = Streams::new(1);
    let engine = Engine::new(&"fifo".parse().unwrap(), ByteSize::from_mib(1), &streams).unwrap();
    let config = Config {
        max_packet_bytes: 200_000,
        ..Config::new([1, 2], streams)
    };
    let mut world = World::of(Forwarder::new(config, engine));
    let (consumer, producer) = (world.local(), world.remote());
    world.route("/a", producer, 0);
    world.interest(consumer, "/a/large", 1);
    let mut fragmenter = larder_packet::Fragmenter::new(5).for_packets_of(200_000);
    let packet = data("/a/large", &vec![7; 160_000], None);
    let (mut frames, mut sent) = (Vec::new(), Vec::new());
    fragmenter
        .fragment(&LpHeader::default(), &packet, 1500, |frame| {
            frames.push(frame.to_vec())
        })
        .unwrap();
    for frame in frames {
        sent.extend(world.frame(producer, frame).unwrap());
    }
    assert!(
        matches!(&sent[..], [Sent { packet: Packet::Data { content, .. }, .. }] if content.len() == 160_000)
    );
    // It is stored, and evicted with the time that it was there.
    world.now = Time::from_secs(3);
    for number in 0..8 {
        let name = format!("/a/{number}");
        world.interest(consumer, &name, 10 + number);
        world.sent(producer, data(&name, &vec![7; 160_000], None));
    }
    let counters = world.forwarder.stats().content_store;
    assert_eq!(
        (counters.evictions, counters.evicted_ages.as_secs()),
        (3, 3),
        "the first, and two of no age"
    );
    assert_eq!(
        world
            .forwarder
            .ages_of_stored(Time::from_secs(5))
            .map(|age| age.as_secs())
            .max(),
        Some(2)
    );
    world.interest(consumer, "/a/larger", 2);
    let dropped = world.frame(producer, data("/a/larger", &vec![7; 200_000], None));
    assert_eq!(dropped, Err(DropReason::Oversized));
}

#[test]
fn an_oversized_packet_is_dropped_with_its_size() {
    let mut world = World::new();
    let consumer = world.local();
    let mut frame = super::world::data("/a", &[0; 8800], None);
    let dropped = world
        .forwarder
        .on_packet(
            world.now,
            consumer,
            &mut frame,
            &mut larder_forwarder::Outbox::new(),
        )
        .unwrap_err();
    assert_eq!(dropped.reason, DropReason::Oversized);
    assert!(dropped.to_string().contains("8800"), "{dropped}");
    // The largest, and a byte more.
    let overhead = data("/a", &[0; 8000], None).len() - 8000;
    let of_size = |size: usize| data("/a", &vec![0; size - overhead], None);
    let largest = of_size(limits::MAX_PACKET_BYTES);
    assert_eq!(largest.len(), limits::MAX_PACKET_BYTES);
    assert_eq!(world.frame(consumer, largest), Err(DropReason::Unsolicited));
    assert_eq!(
        world.frame(consumer, of_size(limits::MAX_PACKET_BYTES + 1)),
        Err(DropReason::Oversized)
    );
}

#[test]
fn one_name_with_ever_other_hints_or_digests_makes_no_long_chain() {
    let mut world = World::new();
    let (attacker, producer) = (world.remote(), world.remote());
    world.route("/", producer, 0);
    for i in 0..1000u32 {
        let hint = format!("/{i}").parse().unwrap();
        world.sent(
            attacker,
            interest("/same", i).forwarding_hint(&[hint]).build(),
        );
        let mut with_digest = super::world::name("/alike");
        with_digest.push(1, &[i as u8; 32]);
        world.sent(
            attacker,
            larder_packet::InterestBuilder::new(with_digest)
                .nonce(i)
                .build(),
        );
    }
    assert_eq!(
        world.forwarder.stats().pit_entries,
        2 * limits::ENTRIES_PER_NAME
    );
    assert!(world.data(producer, "/same").len() <= limits::ENTRIES_PER_NAME);
}

#[test]
fn long_names_fill_the_pit_by_their_bytes() {
    let mut world = World::new();
    let (attacker, producer) = (world.remote(), world.remote());
    world.route("/", producer, 0);
    let most = limits::PIT_BYTES / 8600;
    for i in 0..most as u32 + 100 {
        let mut name = super::world::name("/x");
        let mut long = vec![7; 8600];
        long[..4].copy_from_slice(&i.to_be_bytes());
        name.push_generic(&long);
        world.sent(
            attacker,
            larder_packet::InterestBuilder::new(name).nonce(i).build(),
        );
    }
    let stats = world.forwarder.stats();
    assert!(
        stats.pit_entries <= most && stats.pit_entries > most - 100,
        "{}",
        stats.pit_entries
    );
    assert!(stats.drops.get(DropReason::PitFull) >= 100);
    world.pass(Duration::from_secs(5));
    assert_eq!(faces(&world.interest(attacker, "/short", 1)), [producer]);
}

#[test]
fn fragments_that_never_complete_are_forgotten() {
    let mut world = World::new();
    let fragment = |sequence| {
        let header = larder_packet::LpHeader {
            sequence: Some(sequence),
            frag_count: 400,
            ..larder_packet::LpHeader::default()
        };
        let mut frame = Vec::new();
        larder_packet::encode_lp(&header, &[5; 8700], &mut frame);
        frame
    };
    let patient = world.remote();
    assert!(world.frame(patient, fragment(7)).is_ok());
    let mut most = 0;
    for _ in 0..200 {
        let face = world.remote();
        for sequence in 0..64 {
            assert!(world.frame(face, fragment(sequence * 1000)).is_ok());
            most = most.max(world.forwarder.partial_bytes());
        }
    }
    assert!(
        most <= limits::REASSEMBLY_BYTES && most > limits::REASSEMBLY_BYTES / 2,
        "{most}"
    );
    assert!(
        world
            .forwarder
            .stats()
            .drops
            .get(DropReason::PartialReclaimed)
            >= 64
    );
    let patient_holds = world
        .forwarder
        .partial_holders()
        .any(|(face, ..)| face == patient);
    assert!(patient_holds, "the largest lose first");
    world.pass(Duration::from_secs(2));
    assert_eq!(
        world.forwarder.next_timeout(),
        None,
        "nothing is held any more"
    );
    let face = world.remote();
    assert!(
        world.frame(face, fragment(0)).is_ok(),
        "and there is room again"
    );
    // As much as fits is kept, and no byte more.
    let held = world.forwarder.partial_bytes();
    let streams = Streams::new(1);
    let engine = Engine::new(&"fifo".parse().unwrap(), ByteSize::from_mib(1), &streams).unwrap();
    let mut config = Config::new([1, 2], streams);
    config.reassembly_bytes = held;
    let mut world = World::of(Forwarder::new(config, engine));
    let (one, other) = (world.remote(), world.remote());
    assert!(world.frame(one, fragment(0)).is_ok());
    assert_eq!(world.forwarder.partial_bytes(), held);
    assert!(world.frame(other, fragment(0)).is_ok());
    assert_eq!(
        (
            world.forwarder.partial_bytes(),
            world.forwarder.partial_holders().count()
        ),
        (held, 1)
    );
}

#[test]
fn a_route_is_replaced_where_no_other_fits() {
    let mut world = World::new();
    let application = world.local();
    let name = super::world::name("/x");
    let mut add = |origin| {
        let route = Route {
            face: application,
            origin,
            cost: 0,
            flags: 1,
            expires: None,
        };
        world.forwarder.add_route(&name, route)
    };
    for origin in 0..limits::ROUTES_PER_PREFIX as u64 {
        add(origin).unwrap();
    }
    assert!(add(limits::ROUTES_PER_PREFIX as u64).is_err());
    assert!(add(7).is_ok());
}
