//! Applications that cannot register, and strangers that can. The commands are what real clients
//! sent.

use super::arbitrary_bytes::hex;
use super::world::{Packet, World, faces, interest};
use larder_forwarder::{
    Authorized, CAPTURE, CHILD_INHERIT, DropReason, FaceConfig, FaceId, Route, Rule,
};
use larder_packet::{
    ControlParameters, ControlResponse, DigestSigner, InterestBuilder, Name, SignatureFreshness,
};
use std::time::Duration;

fn response(world: &mut World, face: FaceId, frame: Vec<u8>) -> ControlResponse {
    let sent = world.frame(face, frame).expect("an answer");
    assert_eq!(faces(&sent), [face]);
    match &sent[0].packet {
        Packet::Data { content, .. } => ControlResponse::decode(content).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn command(verb: &str, parameters: &ControlParameters, nonce: u8) -> Vec<u8> {
    let mut name: Name = format!("/localhost/nfd/rib/{verb}").parse().unwrap();
    name.push_generic(&parameters.encode());
    let freshness = SignatureFreshness {
        nonce: Some(&[nonce; 8]),
        time: Some(1_700_000_000_000),
        ..Default::default()
    };
    InterestBuilder::new(name)
        .nonce(nonce.into())
        .sign(&DigestSigner, freshness)
        .unwrap()
}

fn parameters(prefix: &str) -> ControlParameters {
    ControlParameters {
        name: Some(prefix.parse().unwrap()),
        ..ControlParameters::default()
    }
}

#[test]
fn the_commands_of_real_clients_are_carried_out() {
    for client in ["python-ndn-appv2", "python-ndn-legacy", "ndnts"] {
        let mut world = World::new();
        let (application, consumer) = (world.local(), world.local());
        let done = response(&mut world, application, hex(&format!("{client}-register")));
        assert_eq!(
            (done.status_code, done.status_text.as_str()),
            (200, "OK"),
            "{client}"
        );
        let body = done.body.expect("the parameters come back");
        assert_eq!(body.name, Some("/recorded".parse().unwrap()));
        assert_eq!(body.face_id, Some(application.0));
        let (origin, flags) = if client == "ndnts" {
            (65, CAPTURE)
        } else {
            (0, CHILD_INHERIT)
        };
        assert_eq!(
            (body.origin, body.flags, body.cost),
            (Some(origin), Some(flags), Some(0)),
            "{client}"
        );
        assert_eq!(
            faces(&world.interest(consumer, "/recorded/a", 1)),
            [application]
        );
        let done = response(
            &mut world,
            application,
            hex(&format!("{client}-unregister")),
        );
        assert_eq!(done.status_code, 200, "{client}");
        assert_eq!(
            faces(&world.interest(consumer, "/recorded/b", 2)),
            [consumer],
            "a Nack"
        );
        assert_eq!(world.forwarder.stats().rib_routes, 0);
    }
}

#[test]
fn applications_that_sign_with_a_digest_at_the_same_moment_are_all_accepted() {
    let mut world = World::new();
    for i in 0..4 {
        let application = world.local();
        // The very same nonce and time: what one application sends says nothing of another.
        let command = command("register", &parameters(&format!("/app/{i}")), 1);
        assert_eq!(response(&mut world, application, command).status_code, 200);
        assert_eq!(
            response(&mut world, application, hex("python-ndn-appv2-register")).status_code,
            200
        );
    }
    assert_eq!(world.forwarder.stats().rib_routes, 8);
}

#[test]
fn a_command_that_comes_again_is_answered_again_and_not_carried_out_again() {
    let mut world = World::new();
    let application = world.local();
    let register = command("register", &parameters("/a"), 1);
    assert_eq!(
        response(&mut world, application, register.clone()).status_code,
        200
    );
    assert_eq!(
        response(
            &mut world,
            application,
            command("unregister", &parameters("/a"), 2)
        )
        .status_code,
        200
    );
    assert_eq!(response(&mut world, application, register).status_code, 200);
    assert_eq!(
        world.forwarder.stats().rib_routes,
        0,
        "an old command brings no route back"
    );
}

#[test]
fn forged_and_unsigned_commands_are_refused() {
    let mut world = World::new();
    let application = world.local();
    let good = command("register", &parameters("/a"), 1);
    // A byte of the signature, which the digest in the name covers too: not even an Interest.
    let mut forged = good.clone();
    *forged.last_mut().unwrap() ^= 1;
    assert_eq!(
        world.frame(application, forged),
        Err(DropReason::ParametersDigest)
    );
    // The older form, with a byte of its signature changed.
    let mut forged = hex("python-ndn-legacy-register");
    let text = forged.clone();
    let at = text
        .windows(2)
        .rposition(|pair| pair == [0x17, 0x20])
        .expect("the SignatureValue")
        + 5;
    forged[at] ^= 1;
    assert_eq!(response(&mut world, application, forged).status_code, 403);
    // And no signature at all.
    let mut name: Name = "/localhost/nfd/rib/register".parse().unwrap();
    name.push_generic(&parameters("/a").encode());
    let unsigned = InterestBuilder::new(name).nonce(1).build();
    assert_eq!(response(&mut world, application, unsigned).status_code, 403);
    assert_eq!(world.forwarder.stats().rib_routes, 0);
}

#[test]
fn what_cannot_be_registered_is_said() {
    let mut world = World::new();
    let application = world.local();
    let mut refused = |verb, parameters: ControlParameters, nonce| {
        let response = response(&mut world, application, command(verb, &parameters, nonce));
        assert!(!response.status_text.is_empty());
        response.status_code
    };
    assert_eq!(refused("register", ControlParameters::default(), 1), 400);
    assert_eq!(
        refused(
            "register",
            ControlParameters {
                face_id: Some(99_999),
                ..parameters("/a")
            },
            2
        ),
        410
    );
    assert_eq!(refused("register", parameters(&"/a".repeat(40)), 3), 414);
    assert_eq!(
        refused("announce", parameters("/a"), 4),
        400,
        "no announcement"
    );
    assert_eq!(refused("frobnicate", parameters("/a"), 6), 501);
    assert_eq!(
        refused("unregister", parameters("/never"), 5),
        200,
        "as in NFD"
    );
}

#[test]
fn remote_applications_register_only_where_they_may_and_only_themselves() {
    let localhop = |parameters: &ControlParameters| {
        let mut name: Name = "/localhop/nfd/rib/register".parse().unwrap();
        name.push_generic(&parameters.encode());
        InterestBuilder::new(name)
            .nonce(1)
            .sign(&DigestSigner, SignatureFreshness::default())
            .unwrap()
    };
    let mut world = World::new();
    let remote = world.remote();
    let sent = world.sent(remote, localhop(&parameters("/a")));
    assert!(
        matches!(sent[0].packet, Packet::Nack { .. }),
        "off by default: {sent:?}"
    );
    assert_eq!(
        world.frame(remote, command("register", &parameters("/a"), 1)),
        Err(DropReason::Scope)
    );

    let mut world = World::new();
    let rule = |localhop| Rule {
        signer: Authorized::Anybody,
        localhop,
        modules: None,
    };
    world.forwarder.set_rules(vec![rule(false), rule(true)]);
    let (remote, other) = (world.remote(), world.remote());
    assert_eq!(
        response(&mut world, remote, localhop(&parameters("/a"))).status_code,
        200
    );
    for reserved in ["/", "/localhost/nfd", "/localhop"] {
        assert_eq!(
            response(&mut world, remote, localhop(&parameters(reserved))).status_code,
            403,
            "{reserved}"
        );
    }
    let for_another = ControlParameters {
        face_id: Some(other.0),
        ..parameters("/b")
    };
    assert_eq!(
        response(&mut world, remote, localhop(&for_another)).status_code,
        403
    );
}

#[test]
fn a_dataset_that_is_missing_is_refused_and_not_left_to_time_out() {
    let mut world = World::new();
    let application = world.local();
    let sent = world.sent(
        application,
        interest("/localhost/nfd/faces/lost", 1)
            .can_be_prefix(true)
            .build(),
    );
    assert!(matches!(sent[0].packet, Packet::Nack { .. }));
}

#[test]
fn routes_end_with_their_face_and_with_their_time() {
    let mut world = World::new();
    let (application, consumer) = (world.local(), world.local());
    world.route("/a", application, 0);
    let for_a_second = ControlParameters {
        expiration: Some(Duration::from_secs(1)),
        ..parameters("/b")
    };
    assert_eq!(
        response(
            &mut world,
            application,
            command("register", &for_a_second, 1)
        )
        .status_code,
        200
    );
    assert_eq!(faces(&world.interest(consumer, "/b", 1)), [application]);
    world.pass(Duration::from_millis(1001));
    assert_eq!(
        faces(&world.interest(consumer, "/b/c", 2)),
        [consumer],
        "a Nack"
    );
    assert_eq!(faces(&world.interest(consumer, "/a/c", 3)), [application]);
    world.forwarder.remove_face(application);
    assert_eq!(
        faces(&world.interest(consumer, "/a/d", 4)),
        [consumer],
        "a Nack"
    );
    let stats = world.forwarder.stats();
    assert_eq!((stats.rib_routes, stats.fib_entries), (0, 0));
    let route = Route {
        face: application,
        origin: 0,
        cost: 0,
        flags: 0,
        expires: None,
    };
    assert!(
        world
            .forwarder
            .add_route(&"/a".parse().unwrap(), route)
            .is_err()
    );
    let _ = FaceConfig::local("a face number is not used again");
    assert_ne!(world.local(), application);
}
