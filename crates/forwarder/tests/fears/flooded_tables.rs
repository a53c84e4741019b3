//! Floods: of names, of consumers, of prefixes.

use super::world::{World, faces, interest};
use larder_forwarder::{Config, DropReason, Forwarder, Route, limits};
use larder_policy::Engine;
use larder_units::{ByteSize, Streams};
use std::time::Duration;

#[test]
fn a_full_pit_drops_and_counts_and_recovers() {
    let streams = Streams::new(1);
    let engine = Engine::new(&"fifo".parse().unwrap(), ByteSize::from_mib(1), &streams).unwrap();
    let config = Config { pit_entries: 100, ..Config::new([1, 2], streams) };
    let mut world = World::of(Forwarder::new(config, engine));
    let (consumer, producer) = (world.local(), world.local());
    world.route("/", producer, 0);
    for i in 0..1000 {
        world.interest(consumer, &format!("/flood/{i}"), i);
    }
    let stats = world.forwarder.stats();
    assert_eq!((stats.pit_entries, stats.drops.get(DropReason::PitFull)), (100, 900));
    world.pass(Duration::from_secs(5));
    assert_eq!(faces(&world.interest(consumer, "/flood/1001", 1)), [producer]);
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
fn names_too_deep_to_match_by_prefix_are_dropped() {
    let mut world = World::new();
    let consumer = world.local();
    let deep = "/a".repeat(limits::CAN_BE_PREFIX_COMPONENTS + 1);
    assert_eq!(world.frame(consumer, interest(&deep, 1).can_be_prefix(true).build()), Err(DropReason::NameTooDeep));
    let producer = world.local();
    world.route("/", producer, 0);
    assert_eq!(faces(&world.interest(consumer, &deep, 2)), [producer]);
    assert_eq!(faces(&world.data(producer, &deep)), [consumer]);
    let route = Route { face: producer, origin: 0, cost: 0, flags: 0, expires: None };
    assert!(world.forwarder.add_route(&deep.parse().unwrap(), route).is_err());
}

#[test]
fn an_oversized_packet_is_dropped_with_its_size() {
    let mut world = World::new();
    let consumer = world.local();
    let mut frame = super::world::data("/a", &[0; 8800], None);
    let dropped =
        world.forwarder.on_packet(world.now, consumer, &mut frame, &mut larder_forwarder::Outbox::new()).unwrap_err();
    assert_eq!(dropped.reason, DropReason::Oversized);
    assert!(dropped.to_string().contains("8800"), "{dropped}");
}
