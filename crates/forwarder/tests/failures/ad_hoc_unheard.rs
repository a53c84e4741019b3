//! Neighbours on an ad-hoc link who do not hear each other: what came from one must go out there
//! again for the others, and on other links must not.

use super::world::{Packet, World, faces};
use larder_forwarder::{DropReason, FaceConfig, LinkType};
use std::time::Duration;

#[test]
fn an_ad_hoc_link_is_relayed_to_itself_and_no_other_is() {
    for (link_type, relayed) in [
        (LinkType::AdHoc, 1),
        (LinkType::MultiAccess, 0),
        (LinkType::PointToPoint, 0),
    ] {
        let mut world = World::new();
        let config = FaceConfig {
            link_type,
            ..FaceConfig::remote("udp4://224.0.23.170:56363")
        };
        let radio = world.forwarder.add_face(config);
        world.route("/", radio, 0);
        let asked = world.interest(radio, "/a", 1);
        let on_air = |sent: &[super::world::Sent]| {
            sent.iter()
                .filter(|sent| sent.face == radio && !matches!(sent.packet, Packet::Nack { .. }))
                .count()
        };
        assert_eq!(on_air(&asked), relayed, "{link_type:?}: the Interest");
        let unsatisfied = world.forwarder.stats().unsatisfied;
        if relayed == 1 {
            assert_eq!(faces(&world.data(radio, "/a")), [radio], "and its Data");
            assert_eq!(world.forwarder.stats().unsatisfied, unsatisfied);
        }
    }
}

/// Two relays of one link would hand an Interest to and fro; from a peer with a link of its own it
/// is a retransmission.
#[test]
fn what_a_neighbour_relays_is_not_taken_for_a_retransmission() {
    for (link_type, came_round) in [
        (LinkType::AdHoc, 1),
        (LinkType::MultiAccess, 1),
        (LinkType::PointToPoint, 0),
    ] {
        let mut world = World::new();
        let config = FaceConfig {
            link_type,
            ..FaceConfig::remote("udp4://224.0.23.170:56363")
        };
        let radio = world.forwarder.add_face(config);
        let upstream = world.remote();
        world.route("/", upstream, 0);
        assert_eq!(faces(&world.interest(radio, "/a", 1)), [upstream]);
        world.pass(Duration::from_millis(100));
        let relayed = world.interest(radio, "/a", 1);
        assert_eq!(
            relayed.len() as u64,
            1 - came_round,
            "{link_type:?}: {relayed:?}"
        );
        assert_eq!(
            world
                .forwarder
                .stats()
                .drops
                .get(DropReason::DuplicateNonce),
            came_round,
            "{link_type:?}"
        );
    }
}
