//! Neighbours on an ad-hoc link who do not hear each other: what came from one must go out there again for the others, and on other links must not.

use super::world::{Packet, World, faces};
use larder_forwarder::{FaceConfig, LinkType};

#[test]
fn an_ad_hoc_link_is_relayed_to_itself_and_no_other_is() {
    for (link_type, relayed) in [(LinkType::AdHoc, 1), (LinkType::MultiAccess, 0), (LinkType::PointToPoint, 0)] {
        let mut world = World::new();
        let config = FaceConfig { link_type, ..FaceConfig::remote("udp4://224.0.23.170:56363") };
        let radio = world.forwarder.add_face(config);
        world.route("/", radio, 0);
        let asked = world.interest(radio, "/a", 1);
        let on_air = |sent: &[super::world::Sent]| {
            sent.iter().filter(|sent| sent.face == radio && !matches!(sent.packet, Packet::Nack { .. })).count()
        };
        assert_eq!(on_air(&asked), relayed, "{link_type:?}: the Interest");
        let unsatisfied = world.forwarder.stats().unsatisfied;
        if relayed == 1 {
            assert_eq!(faces(&world.data(radio, "/a")), [radio], "and its Data");
            assert_eq!(world.forwarder.stats().unsatisfied, unsatisfied);
        }
    }
}
