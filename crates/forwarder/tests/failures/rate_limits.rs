//! Fear: a link is flooded with Interests whose Data it cannot carry, or a limit stops what it
//! should not.

use super::world::{Packet, World, faces, interest, nack, name};
use larder_forwarder::FaceId;
use larder_packet::{LpHeader, NackReason, PitToken, encode_lp};
use std::time::Duration;

/// A world whose links take 1000 Interests a second, and 50 at once.
fn limited(more: &str) -> World {
    let mut world = World::new();
    let strategy = format!("/localhost/nfd/strategy/stateful/v=1/rate~1000/depth~50{more}");
    world
        .forwarder
        .set_strategy(&name("/"), &name(&strategy))
        .unwrap();
    world
}

/// Asks for `count` names under `prefix`; to which faces they went, the consumer's refusals
/// included.
fn burst(world: &mut World, consumer: FaceId, prefix: &str, count: u32) -> Vec<FaceId> {
    (0..count)
        .flat_map(|n| faces(&world.interest(consumer, &format!("{prefix}/{n}"), n + 1)))
        .collect()
}

fn count(faces: &[FaceId], face: FaceId) -> usize {
    faces.iter().filter(|other| **other == face).count()
}

#[test]
fn a_burst_beyond_the_bucket_is_refused_at_once_with_its_token() {
    for leak in ["fluid", "quanta"] {
        let mut world = limited(&format!("/leak~{leak}"));
        let (consumer, link) = (world.local(), world.remote());
        world.route("/", link, 1);
        let sent = burst(&mut world, consumer, "/a", 60);
        assert_eq!(
            (count(&sent, link), count(&sent, consumer)),
            (50, 10),
            "{leak}"
        );
        let mut frame = Vec::new();
        let header = LpHeader {
            pit_token: PitToken::new(&[7]),
            ..LpHeader::default()
        };
        encode_lp(&header, &interest("/b", 9).build(), &mut frame);
        let refused = world.sent(consumer, frame);
        assert_eq!(
            refused[0].packet,
            Packet::Nack {
                name: name("/b"),
                nonce: 9,
                hop_limit: None,
                reason: NackReason::Congestion
            }
        );
        assert_eq!(refused[0].token.as_deref(), Some(&[7][..]));
        assert_eq!(
            world.forwarder.stats().pit_entries,
            50,
            "nothing is kept of what was refused"
        );
        world.pass(Duration::from_millis(21));
        assert_eq!(
            count(&burst(&mut world, consumer, "/c", 60), link),
            if leak == "fluid" { 21 } else { 20 },
            "{leak}"
        );
    }
}

#[test]
fn another_next_hop_has_room_and_is_not_asked() {
    let mut world = limited("");
    let (consumer, cheap, dear) = (world.local(), world.remote(), world.remote());
    world.route("/", cheap, 1);
    world.route("/", dear, 2);
    let sent = burst(&mut world, consumer, "/a", 110);
    assert_eq!(
        (
            count(&sent, cheap),
            count(&sent, dear),
            count(&sent, consumer)
        ),
        (50, 50, 10)
    );
}

#[test]
fn one_prefix_takes_the_whole_link_or_two_take_more_than_it_has() {
    let mut world = limited("/fib~each");
    let (consumer, link, other) = (world.local(), world.remote(), world.remote());
    world.route("/a", link, 1);
    world.route("/b", link, 1);
    world.route("/c", other, 1);
    assert_eq!(count(&burst(&mut world, consumer, "/a", 30), link), 30);
    assert_eq!(
        count(&burst(&mut world, consumer, "/b", 30), link),
        20,
        "the link's bucket is full, /b's is not"
    );
    assert_eq!(
        count(&burst(&mut world, consumer, "/c", 60), other),
        50,
        "another link has its own"
    );
    world.route("/c", link, 2);
    assert_eq!(
        burst(&mut world, consumer, "/c/d", 1),
        [consumer],
        "/c has had its fifty"
    );
}

#[test]
fn an_application_is_limited_as_if_it_were_a_link() {
    let mut world = limited("");
    let (consumer, producer) = (world.remote(), world.local());
    world.route("/", producer, 1);
    assert_eq!(
        count(&burst(&mut world, consumer, "/a", 500), producer),
        500
    );
}

#[test]
fn a_repetition_without_room_ends_what_waits() {
    let mut world = limited("");
    let (consumer, link) = (world.local(), world.remote());
    world.route("/", link, 1);
    burst(&mut world, consumer, "/a", 50);
    let repeated = interest("/a/0", 999).build();
    world.now = larder_units::Time::from_millis(20);
    burst(&mut world, consumer, "/b", 50);
    assert_eq!(
        faces(&world.sent(consumer, repeated)),
        [],
        "refused, but the first may be answered still"
    );
    assert_eq!(faces(&world.data(link, "/a/0")), [consumer]);
}

#[test]
fn a_refusal_from_upstream_stays_here() {
    let mut world = limited("/aimd~halve");
    let (consumer, link) = (world.local(), world.remote());
    world.route("/", link, 1);
    let frame = interest("/a", 1).build();
    world.sent(consumer, frame.clone());
    assert_eq!(
        faces(&world.sent(link, nack(&frame, NackReason::Congestion))),
        [consumer]
    );
    // The bucket leaks 500 a second now, and 501 after the next Data.
    burst(&mut world, consumer, "/b", 49);
    let level = |world: &World| world.forwarder.strategy_gauges(world.now, &name("/"))[0].value;
    assert_eq!(level(&world), 50.0);
    world.pass(Duration::from_millis(10));
    assert!((level(&world) - 45.0).abs() < 1e-6, "{}", level(&world));
    world.data(link, "/b/0");
    world.pass(Duration::from_millis(10));
    assert!((level(&world) - 39.99).abs() < 1e-6, "{}", level(&world));
}

#[test]
fn consumers_are_not_told_that_the_link_is_full() {
    let mut world = limited("/mark~40/report~fair");
    let (consumer, link) = (world.local(), world.remote());
    world.route("/", link, 1);
    burst(&mut world, consumer, "/a", 50);
    let told = &world.data(link, "/a/0")[0];
    assert_eq!((told.ban, told.rate), (Some(1), Some(970)));
    world.now = larder_units::Time::from_millis(40);
    assert_eq!(world.data(link, "/a/1")[0].ban, None);
    // A tighter link upstream has said so.
    let mut frame = Vec::new();
    let header = LpHeader {
        interest_rate: Some(3),
        ..LpHeader::default()
    };
    encode_lp(&header, &super::world::data("/a/2", b"", None), &mut frame);
    assert_eq!(world.sent(link, frame)[0].rate, Some(3));
}
