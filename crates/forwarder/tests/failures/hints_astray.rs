//! Interests with a forwarding hint that go where NFD does not send them.

use super::world::{Packet, World, faces, interest, name};
use larder_forwarder::FaceId;
use larder_packet::{Interest, NackReason, Name};

fn hinted(name: &str, nonce: u32, hints: &[&str]) -> Vec<u8> {
    let hints: Vec<Name> = hints.iter().map(|hint| hint.parse().unwrap()).collect();
    interest(name, nonce).forwarding_hint(&hints).build()
}

fn is_refused(world: &mut World, consumer: FaceId, frame: Vec<u8>) -> bool {
    let sent = world.sent(consumer, frame);
    faces(&sent) == [consumer]
        && matches!(&sent[0].packet, Packet::Nack { reason, .. } if *reason == NackReason::NoRoute)
}

#[test]
fn a_hint_does_not_follow_a_default_route() {
    let mut world = World::new();
    let (consumer, uplink, region) = (world.local(), world.remote(), world.remote());
    world.route("/", uplink, 0);
    assert_eq!(
        faces(&world.sent(consumer, hinted("/x/1", 1, &["/isp"]))),
        [uplink]
    );
    // The first delegation with next hops decides, also by the default route, as in NFD.
    world.route("/isp/2", region, 0);
    assert_eq!(
        faces(&world.sent(consumer, hinted("/x/2", 2, &["/isp/2/a"]))),
        [region]
    );
    assert_eq!(
        faces(&world.sent(consumer, hinted("/x/3", 3, &["/other", "/isp/2"]))),
        [uplink]
    );
}

#[test]
fn a_hint_without_a_route_is_forwarded_by_the_name() {
    let mut world = World::new();
    let (consumer, producer, region) = (world.local(), world.local(), world.remote());
    world.route("/x", producer, 0);
    world.route("/isp", region, 0);
    assert!(is_refused(
        &mut world,
        consumer,
        hinted("/x/1", 1, &["/nowhere"])
    ));
    assert!(is_refused(
        &mut world,
        consumer,
        hinted("/x/2", 2, &["/nowhere", "/neither"])
    ));
    assert_eq!(
        faces(&world.sent(consumer, hinted("/x/3", 3, &["/nowhere", "/isp/a"]))),
        [region]
    );
    assert_eq!(faces(&world.interest(consumer, "/x/4", 4)), [producer]);
}

#[test]
fn an_interest_does_not_reach_the_producer_in_its_region() {
    let mut world = World::new();
    let (uplink, producer) = (world.remote(), world.local());
    world.route("/", uplink, 0);
    world.route("/x", producer, 0);
    let regions = ["/isp/1", "/campus"].map(|region| region.parse().unwrap());
    world.forwarder.set_network_regions(regions.to_vec());
    for (nonce, hint) in (1..).zip(["/isp", "/isp/1", "/campus", "/"]) {
        let frame = hinted(&format!("/x/{nonce}"), nonce, &["/elsewhere", hint]);
        let mut frame = frame.clone();
        world
            .forwarder
            .on_packet(world.now, uplink, &mut frame, &mut world.outbox)
            .unwrap();
        let [send] = world.outbox.sends() else {
            panic!("{hint}: {:?}", world.outbox.sends())
        };
        assert_eq!(send.face, producer, "{hint}");
        let packet = send
            .packet(frame.get(world.outbox.input_of(send)).unwrap_or_default())
            .to_vec();
        let sent = Interest::decode(&packet).unwrap();
        assert_eq!(sent.forwarding_hint, None, "it has served its purpose");
        assert_eq!(
            (sent.nonce, sent.name.to_name()),
            (Some(nonce), name(&format!("/x/{nonce}")))
        );
        world.collect(&frame);
        assert_eq!(
            faces(&world.data(producer, &format!("/x/{nonce}"))),
            [uplink],
            "{hint}"
        );
    }
    // A longer name than that of the region lies elsewhere.
    assert!(is_refused(
        &mut world,
        uplink,
        hinted("/x/9", 9, &["/isp/1/a", "/campus2"])
    ));
}
