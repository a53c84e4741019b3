//! Subscribers of face events who are told late, twice or never.

use super::world::{Packet, Sent, World, faces, interest, name};
use larder_forwarder::{FaceId, limits};
use larder_packet::mgmt::{Element, FaceEventNotification};
use std::time::Duration;

const STREAM: &str = "/localhost/nfd/faces/events";

/// Waits for whatever is new, as a subscriber does first.
fn subscribe(world: &mut World, face: FaceId, nonce: u32) -> Vec<Sent> {
    let frame = interest(STREAM, nonce)
        .can_be_prefix(true)
        .must_be_fresh(true)
        .lifetime(Duration::from_secs(60));
    world.sent(face, frame.build())
}

fn next(world: &mut World, face: FaceId, number: u64, nonce: u32) -> Vec<Sent> {
    world.sent(
        face,
        interest(&format!("{STREAM}/seq={number}"), nonce)
            .lifetime(Duration::from_secs(60))
            .build(),
    )
}

fn event(sent: &Sent) -> (u64, FaceEventNotification) {
    match &sent.packet {
        Packet::Data { name, content } => (
            name.as_name().last().unwrap().as_number().unwrap(),
            FaceEventNotification::decode(content).unwrap(),
        ),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_subscriber_is_told_of_each_face_once_and_at_once() {
    let mut world = World::new();
    let (one, two) = (world.local(), world.local());
    world.pass(Duration::from_secs(5));
    assert_eq!(subscribe(&mut world, one, 1), [], "nothing is new");
    assert_eq!(subscribe(&mut world, two, 2), []);
    let made = world.remote();
    assert_eq!(
        world.forwarder.next_timeout(),
        Some(larder_units::Time::ZERO),
        "the host is called at once"
    );
    let sent = world.pass(Duration::ZERO);
    assert_eq!(faces(&sent), [one, two]);
    let (number, told) = event(&sent[0]);
    assert_eq!((told.kind, told.face_id, told.scope), (1, made.0, 0));
    assert_eq!(next(&mut world, one, number + 1, 3), []);
    world.forwarder.remove_face(made);
    let sent = world.pass(Duration::ZERO);
    assert_eq!(faces(&sent), [one]);
    let (next_number, told) = event(&sent[0]);
    assert_eq!(
        (next_number, told.kind, told.face_id),
        (number + 1, 2, made.0)
    );
}

#[test]
fn what_happened_between_two_questions_is_not_missed() {
    let mut world = World::new();
    let subscriber = world.local();
    world.pass(Duration::from_secs(5));
    subscribe(&mut world, subscriber, 1);
    let first = world.remote();
    let (number, _) = event(&world.pass(Duration::ZERO)[0]);
    world.forwarder.remove_face(first);
    let second = world.remote();
    world.pass(Duration::from_secs(30));
    let told: Vec<_> = (1..3)
        .map(|i| event(&next(&mut world, subscriber, number + i, 10 + i as u32)[0]).1)
        .collect();
    assert_eq!((told[0].kind, told[0].face_id), (2, first.0));
    assert_eq!((told[1].kind, told[1].face_id), (1, second.0));
    assert_eq!(
        next(&mut world, subscriber, number + 3, 20),
        [],
        "and then it waits"
    );
}

#[test]
fn what_is_new_is_told_to_who_comes_just_after() {
    let mut world = World::new();
    let subscriber = world.local();
    world.pass(Duration::from_secs(5));
    subscribe(&mut world, subscriber, 1);
    world.remote();
    world.pass(Duration::from_millis(500));
    assert_eq!(subscribe(&mut world, subscriber, 2).len(), 1);
    world.pass(Duration::from_secs(1));
    assert_eq!(
        subscribe(&mut world, subscriber, 3),
        [],
        "a second later it is not news"
    );
}

#[test]
fn events_are_forgotten_in_the_end_and_who_asks_for_them_is_told() {
    let mut world = World::new();
    let subscriber = world.local();
    for _ in 0..limits::FACE_EVENTS {
        let face = world.remote();
        world.forwarder.remove_face(face);
    }
    let sent = next(&mut world, subscriber, 0, 1);
    assert!(matches!(sent[0].packet, Packet::Nack { .. }), "{sent:?}");
    assert_eq!(
        next(&mut world, subscriber, limits::FACE_EVENTS as u64 + 5, 2).len(),
        1
    );
    let strange = world.interest(subscriber, &format!("{STREAM}/other"), 3);
    assert!(
        matches!(strange[0].packet, Packet::Nack { .. }),
        "{strange:?}"
    );
}

#[test]
fn a_subscriber_who_left_leaves_nothing_behind() {
    let mut world = World::new();
    let subscriber = world.local();
    world.pass(Duration::from_secs(5));
    subscribe(&mut world, subscriber, 1);
    world.forwarder.remove_face(subscriber);
    world.pass(Duration::from_secs(61));
    assert_eq!(world.forwarder.stats().pit_entries, 0);
    assert_eq!(world.forwarder.next_timeout(), None);
    let _ = name(STREAM);
}
