//! Faces that an operator cannot list, create, change or destroy by commands.

use crate::world::{World, command, name, response};
use larder_forwarder::{FaceAnswer, FaceConfig, FaceId, HostRequest, LinkType, Persistency};
use larder_packet::ControlParameters;
use larder_packet::mgmt::{ChannelStatus, Element, FaceQueryFilter, FaceStatus};
use std::time::Duration;

#[test]
fn faces_are_listed_and_found() {
    let mut world = World::new();
    let application = world.local();
    let config = FaceConfig::remote("udp4://192.0.2.1:6363")
        .with_mtu(1452)
        .with_persistency(Persistency::OnDemand);
    let udp = world.forwarder.add_face(config);
    let query = |world: &mut World, filter: FaceQueryFilter| {
        let mut asked = name("/localhost/nfd/faces/query");
        asked.push_generic(&filter.encode());
        let (content, _) = world.dataset(application, &asked);
        FaceStatus::decode_all(&content)
            .unwrap()
            .iter()
            .map(|face| face.face_id)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        query(&mut world, FaceQueryFilter::default()),
        [application.0, udp.0]
    );
    let filter = FaceQueryFilter {
        uri_scheme: Some("udp4".into()),
        ..FaceQueryFilter::default()
    };
    assert_eq!(query(&mut world, filter), [udp.0]);
    let filter = FaceQueryFilter {
        scope: Some(1),
        ..FaceQueryFilter::default()
    };
    assert_eq!(query(&mut world, filter), [application.0]);
    let filter = FaceQueryFilter {
        persistency: Some(1),
        face_id: Some(application.0),
        ..FaceQueryFilter::default()
    };
    assert!(query(&mut world, filter).is_empty());
    let (content, _) = world.dataset(application, &name("/localhost/nfd/faces/list"));
    let faces = FaceStatus::decode_all(&content).unwrap();
    let found = faces.iter().find(|face| face.face_id == udp.0).unwrap();
    assert_eq!(
        (found.mtu, found.scope, found.persistency),
        (Some(1452), 0, 1)
    );
    world
        .forwarder
        .set_channels(vec!["tcp4://0.0.0.0:6363".into()]);
    let (content, _) = world.dataset(application, &name("/localhost/nfd/faces/channels"));
    assert_eq!(
        ChannelStatus::decode_all(&content).unwrap()[0].local_uri,
        "tcp4://0.0.0.0:6363"
    );
}

#[test]
fn a_malformed_filter_is_refused_with_a_reason() {
    let mut world = World::new();
    let application = world.local();
    let asked = name("/localhost/nfd/faces/query/nonsense");
    let (content, _) = world.dataset(application, &asked);
    assert_eq!(
        larder_packet::ControlResponse::decode(&content)
            .unwrap()
            .status_code,
        400
    );
}

fn face_request(world: &mut World) -> larder_forwarder::FaceRequest {
    match world.requests.pop() {
        Some(HostRequest::CreateFace(request)) => request,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_face_is_made_by_the_host_and_everyone_who_asked_is_answered() {
    let mut world = World::new();
    let application = world.local();
    let wanted = ControlParameters {
        uri: Some("udp4://192.0.2.1:6363".into()),
        face_persistency: Some(2),
        mtu: Some(1400),
        ..ControlParameters::default()
    };
    let frame = command("faces", "create", &wanted, 1);
    assert_eq!(
        world.sent(application, frame.clone()),
        [],
        "the host is at work"
    );
    assert_eq!(
        world.sent(application, frame),
        [],
        "the client asked again: the host is not"
    );
    let request = face_request(&mut world);
    assert_eq!(world.requests, []);
    assert_eq!(
        (request.persistency, request.mtu),
        (Persistency::Permanent, Some(1400))
    );
    let made = world
        .forwarder
        .add_face(FaceConfig::remote(request.uri).with_persistency(request.persistency));
    let now = world.now;
    world.forwarder.on_face_answer(
        now,
        request.ticket,
        FaceAnswer::Created(made),
        &mut world.outbox,
    );
    let sent = world.collect(&[]);
    let answer = response(&sent, application);
    let body = answer.body.unwrap();
    assert_eq!(
        (answer.status_code, body.face_id, body.face_persistency),
        (200, Some(made.0), Some(2))
    );
    assert_eq!(body.uri.as_deref(), Some("udp4://192.0.2.1:6363"));
    assert!(
        body.flags.is_some() && body.mask.is_none(),
        "ndn-cxx refuses a response with a Mask"
    );
    // And an answer that nobody asked for does nothing.
    world.forwarder.on_face_answer(
        now,
        request.ticket,
        FaceAnswer::Created(made),
        &mut world.outbox,
    );
    assert_eq!(world.collect(&[]), []);
}

#[test]
fn what_the_host_refuses_is_said() {
    let mut world = World::new();
    let application = world.local();
    let wanted = ControlParameters {
        uri: Some("tcp4://192.0.2.1:1".into()),
        ..ControlParameters::default()
    };
    for (nonce, (answer, code)) in [
        (FaceAnswer::Refused(504, "no".into()), 504),
        (FaceAnswer::Exists(application), 409),
        (FaceAnswer::Created(larder_forwarder::FaceId(99_999)), 504),
    ]
    .into_iter()
    .enumerate()
    {
        world.sent(
            application,
            command("faces", "create", &wanted, nonce as u32),
        );
        let ticket = face_request(&mut world).ticket;
        let now = world.now;
        world
            .forwarder
            .on_face_answer(now, ticket, answer, &mut world.outbox);
        let said = response(&world.collect(&[]), application);
        assert_eq!(said.status_code, code);
        assert_eq!(
            said.body.is_some(),
            code == 409,
            "what is there already is named"
        );
    }
    let mut refused = |parameters: ControlParameters| {
        world
            .command(application, "faces", "create", &parameters)
            .status_code
    };
    assert_eq!(refused(ControlParameters::default()), 400);
    assert_eq!(
        refused(ControlParameters {
            face_persistency: Some(1),
            ..wanted.clone()
        }),
        406
    );
    assert_eq!(
        refused(ControlParameters {
            face_persistency: Some(9),
            ..wanted.clone()
        }),
        400
    );
    assert_eq!(
        refused(ControlParameters {
            mtu: Some(10),
            ..wanted.clone()
        }),
        406
    );
    let reliable = ControlParameters {
        flags: Some(2),
        mask: Some(2),
        ..wanted
    };
    world.sent(application, command("faces", "create", &reliable, 9));
    assert!(
        face_request(&mut world).link_reliability,
        "which links can is the host's to say"
    );
}

/// A forwarder with an application and a face over UDP.
fn with_udp() -> (World, FaceId, FaceId) {
    let mut world = World::new();
    let application = world.local();
    let udp = FaceConfig::remote("udp4://192.0.2.1:6363").with_mtu(1452);
    let udp = world.forwarder.add_face(udp);
    (world, application, udp)
}

/// The parameters of a change of a face, without the change.
fn of(face_id: Option<u64>) -> ControlParameters {
    ControlParameters {
        face_id,
        ..ControlParameters::default()
    }
}

#[test]
fn a_flag_is_set_on_a_face_that_cannot_have_it() {
    let (mut world, application, udp) = with_udp();
    // Without a face it is the sender's own.
    let local_fields = ControlParameters {
        flags: Some(1),
        mask: Some(1),
        ..of(None)
    };
    let done = world.command(application, "faces", "update", &local_fields);
    assert_eq!(
        (done.status_code, done.body.as_ref().unwrap().face_id),
        (200, Some(application.0))
    );
    assert_eq!(
        done.body.unwrap().flags,
        Some(5),
        "local fields, and congestion marking as before"
    );
    let wrong = world.command(
        application,
        "faces",
        "update",
        &ControlParameters {
            face_id: Some(udp.0),
            ..local_fields
        },
    );
    assert_eq!(
        (wrong.status_code, wrong.body.unwrap().flags),
        (409, Some(1))
    );
    // A link to one neighbour can be reliable, as in NFD, and a stream is by itself; a group has
    // too many.
    let reliable = |face| ControlParameters {
        flags: Some(2),
        mask: Some(2),
        ..of(face)
    };
    let group = FaceConfig {
        link_type: LinkType::MultiAccess,
        ..FaceConfig::remote("udp4://224.0.23.170:56363")
    };
    let group = world.forwarder.add_face(
        group
            .with_mtu(1452)
            .with_persistency(Persistency::Permanent),
    );
    for (face, code, flags) in [(udp, 200, 6), (application, 200, 7), (group, 409, 2)] {
        let done = world.command(application, "faces", "update", &reliable(Some(face.0)));
        assert_eq!(
            (done.status_code, done.body.unwrap().flags),
            (code, Some(flags))
        );
    }
    let on_demand = ControlParameters {
        face_persistency: Some(1),
        ..of(Some(group.0))
    };
    assert_eq!(
        world
            .command(application, "faces", "update", &on_demand)
            .status_code,
        409
    );
}

#[test]
fn a_face_is_changed_only_as_it_can_be() {
    let (mut world, application, udp) = with_udp();
    let change = ControlParameters {
        face_persistency: Some(2),
        mtu: Some(1200),
        ..of(Some(udp.0))
    };
    assert_eq!(
        world
            .command(application, "faces", "update", &change)
            .status_code,
        200
    );
    assert!(world.requests.contains(&HostRequest::UpdateFace(udp)));
    let config = world.forwarder.face(udp).unwrap();
    assert_eq!(
        (config.persistency, config.mtu),
        (Persistency::Permanent, Some(1200))
    );
    let interval = ControlParameters {
        base_congestion_marking_interval: Some(Duration::from_millis(10)),
        ..of(Some(udp.0))
    };
    let done = world
        .command(application, "faces", "update", &interval)
        .body
        .unwrap();
    assert_eq!(
        done.base_congestion_marking_interval,
        Some(Duration::from_millis(10))
    );
    let threshold = ControlParameters {
        default_congestion_threshold: Some(9),
        flags: Some(0),
        mask: Some(4),
        ..of(None)
    };
    assert_eq!(
        world
            .command(application, "faces", "update", &threshold)
            .status_code,
        200
    );
    let config = world.forwarder.face(application).unwrap();
    assert_eq!(
        (
            config.default_congestion_threshold,
            config.congestion_marking
        ),
        (9, false)
    );
    let nonsense = ControlParameters {
        face_persistency: Some(7),
        mtu: Some(1),
        ..of(Some(udp.0))
    };
    let wrong = world.command(application, "faces", "update", &nonsense);
    let named = wrong.body.unwrap();
    assert_eq!(
        (wrong.status_code, named.face_persistency, named.mtu),
        (409, Some(7), Some(1))
    );
    assert_eq!(
        world
            .command(application, "faces", "update", &of(Some(9999)))
            .status_code,
        404
    );
}

#[test]
fn destroying_a_face_is_asked_of_the_host() {
    let mut world = World::new();
    let (application, other) = (world.local(), world.remote());
    let of = |face_id| ControlParameters {
        face_id: Some(face_id),
        ..ControlParameters::default()
    };
    assert_eq!(
        world
            .command(application, "faces", "destroy", &of(other.0))
            .status_code,
        200
    );
    assert_eq!(world.requests, [HostRequest::DestroyFace(other)]);
    assert_eq!(
        world
            .command(application, "faces", "destroy", &of(99_999))
            .status_code,
        200,
        "as in NFD"
    );
    assert_eq!(
        world
            .command(application, "faces", "destroy", &of(0))
            .status_code,
        400
    );
    assert_eq!(world.requests.len(), 1);
}

#[test]
fn a_face_is_made_twice_for_one_command() {
    let mut world = World::new();
    let application = world.local();
    let parameters = ControlParameters {
        uri: Some("tcp4://192.0.2.1:6363".into()),
        ..Default::default()
    };
    let create = || command("faces", "create", &parameters, 1);
    assert_eq!(world.sent(application, create()), []);
    world.pass(Duration::from_secs(10));
    // The Interest has ended; its sender asks again, and the host is still at work.
    assert_eq!(world.sent(application, create()), []);
    let request = face_request(&mut world);
    assert!(world.requests.is_empty(), "the host is asked once");
    let answer = FaceAnswer::Refused(504, "nobody there".into());
    world
        .forwarder
        .on_face_answer(world.now, request.ticket, answer, &mut world.outbox);
    let sent = world.collect(&[]);
    assert_eq!(
        response(&sent, application).status_code,
        504,
        "the second Interest is answered"
    );
}
