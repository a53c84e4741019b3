//! A default route of the same cost, which takes the Interests of the node's own applications.

use super::{App, Stage, interest};
use larder_packet::{ControlParameters, Interest, InterestBuilder, LpPacket, Name};
use std::os::unix::net::UnixStream;

/// Creates a face to another machine, and a route of nfdc's defaults to it: cost 0, child-inherit.
fn add_route(app: &mut App<UnixStream>, prefix: &str, uri: &str) -> u64 {
    let create = ControlParameters {
        uri: Some(uri.into()),
        ..Default::default()
    };
    let face = app.obeyed("faces/create", &create).face_id.unwrap();
    let route = ControlParameters {
        name: Some(prefix.parse().unwrap()),
        face_id: Some(face),
        origin: Some(255),
        cost: Some(0),
        flags: Some(1),
        ..Default::default()
    };
    app.obeyed("rib/register", &route);
    face
}

fn name_of(frame: &[u8]) -> Name {
    let packet = LpPacket::decode(frame).unwrap().fragment.unwrap();
    Interest::decode(packet).unwrap().name.to_name()
}

#[test]
fn a_default_route_takes_the_interests_of_an_application() {
    for strategy in ["best-route", "multicast", "asf", "stateful", "hobhis"] {
        let stage = Stage::with(&format!(
            "[[ndn.strategy]]\nprefix = \"/\"\nstrategy = \"{strategy}\"\n"
        ));
        let mut consumer = stage.unix();
        add_route(&mut consumer, "/", "udp4://192.0.2.1:6363");
        let mut producer = stage.unix();
        producer.register("/x");
        for number in 0..3 {
            consumer.send(&interest(&format!("/x/{number}"), number));
            let frame = producer.receive().expect("an Interest");
            assert_eq!(
                name_of(&frame).to_string(),
                format!("/x/{number}"),
                "{strategy}"
            );
        }
    }
}

/// The application of a transit node in a group whose prefix has a route per link.
#[test]
fn routes_of_a_group_take_the_interests_of_a_member() {
    let stage = Stage::new();
    let mut admin = stage.unix();
    for uri in ["udp4://192.0.2.1:6363", "udp4://192.0.2.3:6363"] {
        add_route(&mut admin, "/ndn/svs", uri);
    }
    let mut member = stage.unix();
    member.register("/ndn/svs/b");
    admin.send(&interest("/ndn/svs/b/1", 1));
    assert_eq!(
        name_of(&member.receive().expect("an Interest")).to_string(),
        "/ndn/svs/b/1"
    );
}

/// In the producer's region the hint would lead back to the default route.
#[test]
fn a_hint_keeps_an_interest_from_the_producer_in_its_region() {
    let stage = Stage::with("network_region = [\"/isp/1\"]\n");
    let mut consumer = stage.unix();
    add_route(&mut consumer, "/", "udp4://192.0.2.1:6363");
    let mut producer = stage.unix();
    producer.register("/x");
    for (number, hint) in (0..).zip(["/isp", "/isp/1"]) {
        let name: Name = format!("/x/{number}").parse().unwrap();
        let hints = [hint.parse().unwrap()];
        consumer.send(
            &InterestBuilder::new(&name)
                .forwarding_hint(&hints)
                .nonce(number)
                .build(),
        );
        let frame = producer.receive().expect("an Interest");
        let packet = LpPacket::decode(&frame).unwrap().fragment.unwrap();
        let interest = Interest::decode(packet).unwrap();
        assert_eq!(
            (interest.name.to_name(), interest.forwarding_hint),
            (name, None),
            "{hint}"
        );
    }
}
