//! Names that must not leave the machine, or the link.

use super::world::{World, faces, interest, nack};
use larder_forwarder::DropReason;
use larder_packet::NackReason;

#[test]
fn localhost_is_for_local_faces() {
    let mut world = World::new();
    let (application, producer, remote) = (world.local(), world.local(), world.remote());
    world.route("/localhost/app", producer, 0);
    assert_eq!(
        world.frame(remote, interest("/localhost/app", 1).build()),
        Err(DropReason::Scope)
    );
    assert_eq!(
        faces(&world.interest(application, "/localhost/app", 2)),
        [producer]
    );
    let data = super::world::data("/localhost/app", b"", None);
    assert_eq!(world.frame(remote, data), Err(DropReason::Scope));
    assert_eq!(
        faces(&world.data(producer, "/localhost/app")),
        [application]
    );
    assert_eq!(
        world.forwarder.stats().content_store_entries,
        0,
        "what is local is not cached"
    );
}

#[test]
fn localhop_goes_one_hop() {
    let mut world = World::new();
    let (application, near, far) = (world.local(), world.remote(), world.remote());
    world.route("/localhop", far, 0);
    assert_eq!(
        faces(&world.interest(near, "/localhop/a", 1)),
        [near],
        "a Nack, and nothing to the other"
    );
    assert_eq!(faces(&world.interest(application, "/localhop/b", 2)), [far]);
}

#[test]
fn a_local_refusal_does_not_send_localhop_further() {
    let mut world = World::new();
    let (neighbour, application, far) = (world.remote(), world.local(), world.remote());
    world.route("/localhop", application, 0);
    world.route("/localhop", far, 1);
    let frame = interest("/localhop/a", 1).build();
    assert_eq!(faces(&world.sent(neighbour, frame.clone())), [application]);
    assert_eq!(
        faces(&world.sent(application, nack(&frame, NackReason::NoRoute))),
        [neighbour],
        "refused, not forwarded"
    );
}

#[test]
fn localhost_does_not_take_the_default_route_out() {
    let mut world = World::new();
    let (application, remote, other) = (world.local(), world.remote(), world.local());
    world.route("/", remote, 0);
    assert_eq!(
        faces(&world.interest(application, "/localhost/secret", 1)),
        [application],
        "a Nack"
    );
    world.route("/", other, 1);
    assert_eq!(
        faces(&world.interest(application, "/localhost/secret", 2)),
        [other],
        "the dearer one is on this machine"
    );
}

#[test]
fn a_remote_refusal_lets_local_localhop_try_the_next() {
    let mut world = World::new();
    let (application, one, two) = (world.local(), world.remote(), world.remote());
    world.route("/localhop", one, 0);
    world.route("/localhop", two, 1);
    let frame = interest("/localhop/a", 1).build();
    assert_eq!(faces(&world.sent(application, frame.clone())), [one]);
    assert_eq!(
        faces(&world.sent(one, nack(&frame, NackReason::NoRoute))),
        [two]
    );
}
