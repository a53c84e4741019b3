//! Local fields for who did not ask for them, and Interests that go where nobody may send them.

use super::world::{Packet, World, data, faces, interest};
use larder_forwarder::FaceId;
use larder_packet::{ControlParameters, LpHeader, encode_lp};
use std::time::Duration;

pub fn with_local_fields(world: &mut World) -> FaceId {
    let face = world.local();
    let enable = ControlParameters {
        flags: Some(1),
        mask: Some(1),
        ..ControlParameters::default()
    };
    assert_eq!(
        world.command(face, "faces", "update", &enable).status_code,
        200
    );
    face
}

pub fn to_chosen(uri: &str, nonce: u32, next_hop: FaceId) -> Vec<u8> {
    let mut frame = Vec::new();
    let header = LpHeader {
        next_hop_face: Some(next_hop.0),
        ..LpHeader::default()
    };
    encode_lp(&header, &interest(uri, nonce).build(), &mut frame);
    frame
}

#[test]
fn only_who_asked_is_told_where_packets_come_from() {
    let mut world = World::new();
    let (plain, curious) = (world.local(), with_local_fields(&mut world));
    let producer = with_local_fields(&mut world);
    world.route("/a", producer, 0);
    let sent = world.interest(plain, "/a/1", 1);
    assert_eq!(
        (sent[0].face, sent[0].incoming_face),
        (producer, Some(plain.0))
    );
    world.interest(curious, "/a/1", 2);
    let told: Vec<_> = world
        .data(producer, "/a/1")
        .iter()
        .map(|sent| (sent.face, sent.incoming_face))
        .collect();
    assert_eq!(told, [(plain, None), (curious, Some(producer.0))]);
    let hit = world.interest(curious, "/a/1", 3);
    assert_eq!(
        hit[0].incoming_face,
        Some(254),
        "the Content Store's number in NFD"
    );
}

#[test]
fn only_who_may_chooses_the_next_hop() {
    let mut world = World::new();
    let (plain, chooser) = (world.local(), with_local_fields(&mut world));
    let (routed, chosen) = (world.remote(), world.remote());
    world.route("/", routed, 0);
    assert_eq!(
        faces(&world.sent(plain, to_chosen("/a/1", 1, chosen))),
        [routed]
    );
    assert_eq!(
        faces(&world.sent(chooser, to_chosen("/a/2", 2, chosen))),
        [chosen]
    );
    assert_eq!(
        faces(&world.sent(chosen, data("/a/2", b"x", None))),
        [chooser]
    );
    for nowhere in [FaceId(99_999), chooser] {
        let sent = world.sent(chooser, to_chosen("/a/3", nowhere.0 as u32, nowhere));
        assert!(matches!(sent[0].packet, Packet::Nack { .. }), "{sent:?}");
    }
}

#[test]
fn scope_holds_for_a_chosen_next_hop() {
    let mut world = World::new();
    let (chooser, remote) = (with_local_fields(&mut world), world.remote());
    let sent = world.sent(chooser, to_chosen("/localhost/secret", 1, remote));
    assert_eq!(faces(&sent), [chooser], "a Nack");
}

/// Failure: the producer reads that an Interest came from the first consumer, though the second
/// one sent it again.
#[test]
fn the_wrong_consumer_is_named() {
    let mut world = World::new();
    let (first, second) = (world.local(), world.local());
    let producer = with_local_fields(&mut world);
    world.route("/a", producer, 0);
    assert_eq!(
        world.interest(first, "/a/1", 1)[0].incoming_face,
        Some(first.0)
    );
    world.pass(Duration::from_millis(500));
    let sent = world.interest(second, "/a/1", 2);
    assert_eq!(
        (sent[0].face, sent[0].incoming_face),
        (producer, Some(second.0))
    );
    world.pass(Duration::from_millis(500));
    let sent = world.interest(first, "/a/1", 3);
    assert_eq!(
        (sent[0].face, sent[0].incoming_face),
        (producer, Some(first.0))
    );
}
