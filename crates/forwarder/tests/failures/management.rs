//! An operator who cannot see or change what the forwarder does: commands, datasets and their
//! refusals.

use super::world::{Packet, Sent, World, command, data, faces, interest, name, response};
use larder_forwarder::{
    Authorized, DropReason, FaceAnswer, FaceConfig, FaceId, HostRequest, LinkType, Persistency,
    Rule,
};
use larder_packet::mgmt::{
    ChannelStatus, CsInfo, CsObject, Element, FaceQueryFilter, FaceStatus, FibEntry,
    ForwarderStatus, RibEntry, StrategyChoice,
};
use larder_packet::tlv::TlvReader;
use larder_packet::{
    ControlParameters, DataBuilder, DigestSigner, InterestBuilder, Name, SignatureFreshness, tlv,
    types,
};
use larder_units::ByteSize;
use proptest::prelude::*;
use std::time::Duration;

fn of_name(prefix: &str) -> ControlParameters {
    ControlParameters {
        name: Some(name(prefix)),
        ..ControlParameters::default()
    }
}

#[test]
fn the_general_status_counts_what_happened() {
    let mut world = World::new();
    let (consumer, producer) = (world.local(), world.local());
    world.route("/a", producer, 0);
    world.interest(consumer, "/a/1", 1);
    world.data(producer, "/a/1");
    world.pass(Duration::from_secs(3));
    let (content, segments) = world.dataset(consumer, &name("/localhost/nfd/status/general"));
    let status = ForwarderStatus::decode_fields(TlvReader::new(&content)).unwrap();
    assert_eq!(segments, 1);
    assert_eq!(
        (
            status.fib_entries,
            status.cs_entries,
            status.in_data,
            status.satisfied_interests
        ),
        (1, 1, 1, 1)
    );
    assert_eq!(
        status.current_timestamp_ms - status.start_timestamp_ms,
        3000
    );
    assert!(status.version.starts_with("larder-"));
}

#[test]
fn a_dataset_larger_than_a_packet_comes_in_segments_of_one_moment() {
    let mut world = World::new();
    let application = world.local();
    for i in 0..2000 {
        world.route(&format!("/prefix/number/{i}"), application, i);
    }
    let list = name("/localhost/nfd/rib/list");
    let (content, segments) = world.dataset(application, &list);
    assert!(segments > 5, "{segments}");
    let routes = RibEntry::decode_all(&content).unwrap();
    assert_eq!(routes.len(), 2000);
    assert_eq!(routes[0].routes[0].origin, 255);
    let (content, _) = world.dataset(application, &name("/localhost/nfd/fib/list"));
    assert_eq!(FibEntry::decode_all(&content).unwrap().len(), 2000);
    // A segment behind the last, and a version that never was.
    for missing in [
        "/localhost/nfd/rib/list/v=77/seg=0",
        "/localhost/nfd/rib/list/v=77",
    ] {
        let sent = world.interest(application, missing, 9);
        assert!(matches!(sent[0].packet, Packet::Nack { .. }), "{missing}");
    }
}

#[test]
fn datasets_do_not_pile_up() {
    let mut world = World::new();
    let application = world.local();
    let list = name("/localhost/nfd/faces/list");
    let ask = |world: &mut World, nonce| {
        let sent = world.sent(
            application,
            InterestBuilder::new(&list)
                .can_be_prefix(true)
                .nonce(nonce)
                .build(),
        );
        match &sent[0].packet {
            Packet::Data { name, .. } => name.to_string(),
            other => panic!("{other:?}"),
        }
    };
    let first = ask(&mut world, 1);
    for nonce in 2..=larder_forwarder::limits::DATASETS as u32 {
        ask(&mut world, nonce);
    }
    assert!(matches!(
        world.interest(application, &first, 5)[0].packet,
        Packet::Data { .. }
    ));
    ask(&mut world, 1000);
    assert!(
        matches!(
            world.interest(application, &first, 6)[0].packet,
            Packet::Nack { .. }
        ),
        "the oldest goes first"
    );
}

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

#[test]
fn a_face_is_changed_only_as_it_can_be() {
    let mut world = World::new();
    let application = world.local();
    let udp = world
        .forwarder
        .add_face(FaceConfig::remote("udp4://192.0.2.1:6363").with_mtu(1452));
    let of = |face_id| ControlParameters {
        face_id,
        ..ControlParameters::default()
    };
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
fn a_next_hop_put_into_the_fib_is_no_route_and_inherits_nothing() {
    let mut world = World::new();
    let (consumer, above, direct) = (world.local(), world.local(), world.local());
    world.route("/a", above, 1);
    let hop = ControlParameters {
        face_id: Some(direct.0),
        cost: Some(9),
        ..of_name("/a/b")
    };
    let done = world.command(consumer, "fib", "add-nexthop", &hop);
    assert_eq!((done.status_code, done.body.unwrap().cost), (200, Some(9)));
    assert_eq!(faces(&world.interest(consumer, "/a/b/c", 1)), [direct]);
    assert_eq!(faces(&world.interest(consumer, "/a/c", 2)), [above]);
    let (content, _) = world.dataset(consumer, &name("/localhost/nfd/rib/list"));
    assert_eq!(RibEntry::decode_all(&content).unwrap().len(), 1);
    // A route at the prefix brings what is above it back in.
    let registered = world.local();
    world.route("/a/b", registered, 20);
    let (content, _) = world.dataset(consumer, &name("/localhost/nfd/fib/list"));
    let fib = FibEntry::decode_all(&content).unwrap();
    let hops = &fib
        .iter()
        .find(|entry| entry.name == name("/a/b"))
        .unwrap()
        .next_hops;
    let hops: Vec<_> = hops.iter().map(|hop| (hop.face_id, hop.cost)).collect();
    assert_eq!(hops, [(above.0, 1), (direct.0, 9), (registered.0, 20)]);
    assert_eq!(
        world
            .command(consumer, "fib", "remove-nexthop", &hop)
            .status_code,
        200
    );
    assert_eq!(faces(&world.interest(consumer, "/a/b/d", 3)), [above]);
    let nowhere = ControlParameters {
        face_id: Some(99_999),
        ..of_name("/x")
    };
    assert_eq!(
        world
            .command(consumer, "fib", "add-nexthop", &nowhere)
            .status_code,
        410
    );
    assert_eq!(
        world
            .command(consumer, "fib", "add-nexthop", &of_name(&"/x".repeat(40)))
            .status_code,
        414
    );
}

#[test]
fn a_prefix_announcement_makes_a_route_that_ends() {
    let mut world = World::new();
    let (consumer, producer) = (world.local(), world.local());
    let announcement = |prefix: &str, content: &[u8]| {
        let data_name: Name = format!("{prefix}/32=PA/v=1/seg=0").parse().unwrap();
        let data = DataBuilder::new(&data_name)
            .content_type(5)
            .content(content)
            .build(&DigestSigner)
            .unwrap();
        InterestBuilder::new(name("/localhost/nfd/rib/announce"))
            .application_parameters(&data)
            .nonce(1)
            .sign(&DigestSigner, SignatureFreshness::default())
            .unwrap()
    };
    let sent = world.sent(producer, announcement("/a", &[109, 2, 0x07, 0xD0]));
    let done = response(&sent, producer);
    let body = done.body.unwrap();
    assert_eq!(
        (done.status_code, body.origin, body.cost),
        (200, Some(129), Some(2048))
    );
    assert_eq!(
        (body.name, body.expiration),
        (Some(name("/a")), Some(Duration::from_secs(2)))
    );
    assert_eq!(faces(&world.interest(consumer, "/a/b", 1)), [producer]);
    world.pass(Duration::from_millis(2001));
    assert_eq!(
        faces(&world.interest(consumer, "/a/c", 2)),
        [consumer],
        "a Nack"
    );
    let sent = world.sent(producer, announcement("/a", &[]));
    assert_eq!(response(&sent, producer).status_code, 400);
}

/// Failure: packets wait while one command walks the whole store, or the command reports that
/// everything is erased while something remains.
#[test]
fn an_erasure_passes_the_whole_store() {
    const OLDEST: u32 = 300;
    let mut world = World::with("fifo", ByteSize::from_mib(100));
    let (consumer, producer) = (world.local(), world.local());
    world.route("/", producer, 0);
    for i in 0..OLDEST + larder_forwarder::limits::NAMES_ENTERED_TO_ERASE as u32 {
        let uri = format!("/{}/{i}", if i < OLDEST { "a" } else { "b" });
        world.interest(consumer, &uri, i);
        world.sent(producer, data(&uri, b"", None));
    }
    let mut erase = || {
        let done = world
            .command(consumer, "cs", "erase", &of_name("/a"))
            .body
            .unwrap();
        (done.count, done.capacity)
    };
    assert_eq!(erase(), (Some(0), Some(256)), "the oldest were looked at");
    assert_eq!(erase(), (Some(256), Some(256)));
    assert_eq!(erase(), (Some(44), None));
    assert_eq!(erase(), (Some(0), None));
}

/// Failure: each command walks the siblings of a deep prefix, which are stored beside its entries,
/// or no command walks to the end.
#[test]
fn an_erasure_passes_all_siblings_of_a_deep_prefix() {
    const SIBLINGS: u32 = larder_forwarder::limits::NAMES_PASSED_TO_ERASE as u32 * 5 / 4;
    const DEEP: &str = "/1/2/3/4/5/6/7/8/9/10/11/12";
    let mut world = World::with("fifo", ByteSize::from_mib(100));
    let (consumer, producer) = (world.local(), world.local());
    world.route("/", producer, 0);
    let store = |world: &mut World, i: u32| {
        let uri = format!(
            "{DEEP}/{}/{i}",
            if i.is_multiple_of(512) { "a" } else { "b" }
        );
        world.interest(consumer, &uri, i);
        world.sent(producer, data(&uri, b"", None));
    };
    (0..SIBLINGS).for_each(|i| store(&mut world, i));
    let erase = |world: &mut World, prefix: &str| {
        let done = world
            .command(
                consumer,
                "cs",
                "erase",
                &of_name(&format!("{DEEP}{prefix}")),
            )
            .body
            .unwrap();
        (done.count.unwrap(), done.capacity)
    };
    assert_eq!(
        erase(&mut world, "/none").1,
        Some(256),
        "some names wait for the tree"
    );
    let (first, more) = erase(&mut world, "/a");
    assert!(
        (100..155).contains(&first) && more == Some(256),
        "{first} of 160: four of five names are looked at"
    );
    // What comes meanwhile is none of the command's business, and harms nothing.
    store(&mut world, SIBLINGS);
    let (mut erased, mut commands) = (first, 1);
    while let (count, Some(_)) = erase(&mut world, "/a") {
        (erased, commands) = (erased + count, commands + 1);
        assert!(commands < 4, "{erased} of 160 are erased");
    }
    assert!(stored(&mut world, consumer, &format!("{DEEP}/a")).len() <= 1);
    assert_eq!(
        erase(&mut world, "/none").0,
        0,
        "another prefix begins at its own beginning"
    );
}

/// Failure: a client's erasure begins where another client's stopped, and reports that everything
/// is erased.
#[test]
fn an_erasure_goes_on_where_another_client_stopped() {
    const SIBLINGS: u32 = larder_forwarder::limits::NAMES_PASSED_TO_ERASE as u32 * 5 / 4;
    const DEEP: &str = "/1/2/3/4/5/6/7/8/9/10/11/12";
    let mut world = World::with("fifo", ByteSize::from_mib(100));
    let [one, two, producer] = std::array::from_fn(|_| world.local());
    world.route("/", producer, 0);
    for i in 0..SIBLINGS {
        let uri = format!(
            "{DEEP}/{}/{i}",
            if i.is_multiple_of(512) { "a" } else { "b" }
        );
        world.interest(one, &uri, i);
        world.sent(producer, data(&uri, b"", None));
    }
    let erase = |world: &mut World, from: FaceId| {
        let done = world
            .command(from, "cs", "erase", &of_name(&format!("{DEEP}/a")))
            .body
            .unwrap();
        (done.count.unwrap(), done.capacity)
    };
    // A first one enters the names that wait for the tree, and passes nothing that counts.
    while !matches!(erase(&mut world, one), (_, None)) {}
    let mut nonce = SIBLINGS;
    let mut again = |world: &mut World| {
        for i in (0..SIBLINGS).step_by(512) {
            let uri = format!("{DEEP}/a/{i}");
            nonce += 1;
            world.interest(one, &uri, nonce);
            world.sent(producer, data(&uri, b"", None));
        }
    };
    again(&mut world);
    let (first, more) = erase(&mut world, one);
    assert!(
        first > 0 && more.is_some(),
        "{first}: it stopped on its way"
    );
    // What it has passed is stored once more; another client's erasure sees that.
    again(&mut world);
    while !matches!(erase(&mut world, two), (_, None)) {}
    assert_eq!(stored(&mut world, two, &format!("{DEEP}/a")).len(), 0);
    // The first client's goes on where it stopped, whatever others erased meanwhile.
    again(&mut world);
    assert_eq!(erase(&mut world, one).1, None, "it began anew");
}

#[test]
fn the_content_store_is_configured_and_erased() {
    let mut world = World::new();
    let (consumer, producer) = (world.local(), world.local());
    world.route("/", producer, 0);
    for i in 0..300 {
        let uri = format!("/a/{i}");
        world.interest(consumer, &uri, i);
        world.sent(producer, data(&uri, b"x", Some(Duration::from_secs(60))));
    }
    let info = |world: &mut World| {
        let (content, _) = world.dataset(consumer, &name("/localhost/nfd/cs/info"));
        CsInfo::decode_all(&content).unwrap().remove(0)
    };
    let before = info(&mut world);
    assert_eq!(
        (before.entries, before.flags, before.capacity),
        (300, 3, 128),
        "1 MiB is 128 packets of 8 KiB"
    );
    let done = world
        .command(consumer, "cs", "erase", &of_name("/a"))
        .body
        .unwrap();
    assert_eq!(
        (done.count, done.capacity),
        (Some(256), Some(256)),
        "and there are more"
    );
    let done = world
        .command(consumer, "cs", "erase", &of_name("/a"))
        .body
        .unwrap();
    assert_eq!((done.count, done.capacity), (Some(44), None));
    assert_eq!(info(&mut world).entries, 0);

    // Where some of the many are to go, they go, and no more is promised.
    for i in 0..20 {
        let uri = format!("/a/{i}");
        world.interest(consumer, &uri, 2000 + i);
        world.sent(producer, data(&uri, b"x", Some(Duration::from_secs(60))));
    }
    let some = ControlParameters {
        count: Some(15),
        ..of_name("/a")
    };
    let done = world.command(consumer, "cs", "erase", &some).body.unwrap();
    assert_eq!((done.count, done.capacity), (Some(15), None));
    let done = world.command(consumer, "cs", "erase", &some).body.unwrap();
    assert_eq!((done.count, done.capacity), (Some(5), None));

    let not_served = ControlParameters {
        flags: Some(0),
        mask: Some(2),
        ..ControlParameters::default()
    };
    world.interest(consumer, "/b", 1000);
    world.sent(producer, data("/b", b"x", Some(Duration::from_secs(60))));
    assert_eq!(
        faces(&world.interest(consumer, "/b", 1001)),
        [consumer],
        "a hit"
    );
    let done = world
        .command(consumer, "cs", "config", &not_served)
        .body
        .unwrap();
    assert_eq!((done.flags, done.mask), (Some(1), None));
    assert_eq!(faces(&world.interest(consumer, "/b", 1002)), [producer]);
    let not_admitted = ControlParameters {
        flags: Some(2),
        mask: Some(3),
        ..ControlParameters::default()
    };
    world.command(consumer, "cs", "config", &not_admitted);
    world.interest(consumer, "/c", 1003);
    world.sent(producer, data("/c", b"x", Some(Duration::from_secs(60))));
    assert_eq!(
        faces(&world.interest(consumer, "/c", 1004)),
        [producer],
        "it was not stored"
    );
    let smaller = ControlParameters {
        capacity: Some(0),
        ..ControlParameters::default()
    };
    world.command(consumer, "cs", "config", &smaller);
    assert_eq!(info(&mut world).entries, 0);
    let zero = ControlParameters {
        count: Some(0),
        ..of_name("/a")
    };
    assert_eq!(
        world.command(consumer, "cs", "erase", &zero).status_code,
        400
    );
}

fn stored(world: &mut World, face: FaceId, prefix: &str) -> Vec<CsObject> {
    let mut asked = name("/localhost/nfd/cs/query");
    let mut argument = Vec::new();
    tlv::write_tlv(&mut argument, types::NAME, name(prefix).as_bytes());
    asked.push_generic(&argument);
    let (content, _) = world.dataset(face, &asked);
    CsObject::decode_all(&content).unwrap()
}

#[test]
fn what_is_cached_is_listed_with_age_and_hits() {
    let mut world = World::new();
    let (consumer, producer) = (world.local(), world.local());
    world.route("/", producer, 0);
    for uri in ["/a/1", "/a/2", "/b"] {
        world.interest(consumer, uri, 1);
        world.sent(producer, data(uri, b"x", Some(Duration::from_secs(5))));
    }
    world.interest(consumer, "/a/2", 2);
    world.pass(Duration::from_secs(2));
    let objects = stored(&mut world, consumer, "/a");
    let told: Vec<_> = objects
        .iter()
        .map(|object| (object.name.to_string(), object.hits))
        .collect();
    assert_eq!(told, [("/a/1".to_owned(), 0), ("/a/2".to_owned(), 1)]);
    assert_eq!(
        (objects[0].age, objects[0].fresh),
        (Duration::from_secs(2), Some(Duration::from_secs(3)))
    );
    assert_eq!(
        objects[0].bytes as usize,
        data("/a/1", b"x", Some(Duration::from_secs(5))).len()
    );
    assert_eq!(stored(&mut world, consumer, "/").len(), 3);
    world.pass(Duration::from_secs(10));
    assert_eq!(stored(&mut world, consumer, "/b")[0].fresh, None);
    let (all, _) = world.dataset(consumer, &name("/localhost/nfd/cs/query"));
    assert_eq!(CsObject::decode_all(&all).unwrap().len(), 3);
    let (refused, _) = world.dataset(consumer, &name("/localhost/nfd/cs/query/nonsense"));
    assert_eq!(
        larder_packet::ControlResponse::decode(&refused)
            .unwrap()
            .status_code,
        400
    );
}

#[test]
fn another_policy_keeps_what_is_stored() {
    let mut world = World::new();
    let (consumer, producer) = (world.local(), world.local());
    world.route("/", producer, 0);
    for i in 0..100 {
        world.pass(Duration::from_millis(1));
        let uri = format!("/a/{i}");
        world.interest(consumer, &uri, i);
        world.sent(producer, data(&uri, &[7; 1000], None));
    }
    let policy = |spec: &str, capacity_bytes| ControlParameters {
        policy: Some(spec.to_owned()),
        capacity_bytes,
        ..ControlParameters::default()
    };
    let done = world.command(
        consumer,
        "cs",
        "config",
        &policy("filter(theta=2)+lru", None),
    );
    assert_eq!(
        (done.status_code, done.body.unwrap().policy.as_deref()),
        (200, Some("filter(theta=2)+lru"))
    );
    for i in 0..100 {
        assert_eq!(
            faces(&world.interest(consumer, &format!("/a/{i}"), 1000 + i)),
            [consumer],
            "a hit"
        );
    }
    // With room for fewer, the new policy says who stays: FIFO keeps the youngest.
    let done = world.command(consumer, "cs", "config", &policy("fifo", Some(50_000)));
    assert_eq!(done.body.unwrap().capacity_bytes, Some(50_000));
    let kept = stored(&mut world, consumer, "/a");
    assert!((35..50).contains(&kept.len()), "{}", kept.len());
    assert!(kept.iter().any(|object| object.name == name("/a/99")));
    assert!(!kept.iter().any(|object| object.name == name("/a/0")));
    assert_eq!(world.forwarder.stats().content_store_entries, kept.len());
    let mut refused = |spec: &str| {
        world
            .command(consumer, "cs", "config", &policy(spec, None))
            .status_code
    };
    assert_eq!(
        (refused("lur"), refused("belady"), refused("")),
        (406, 406, 406)
    );
    assert_eq!(world.forwarder.policy().to_string(), "fifo");
}

#[test]
fn a_strategy_is_set_listed_and_unset() {
    let mut world = World::new();
    let (consumer, one, two) = (world.local(), world.local(), world.local());
    world.route("/a", one, 0);
    world.route("/a", two, 1);
    let set = |strategy: &str| ControlParameters {
        strategy: Some(name(strategy)),
        ..of_name("/a")
    };
    let done = world.command(
        consumer,
        "strategy-choice",
        "set",
        &set("/localhost/nfd/strategy/multicast"),
    );
    let whole = name("/localhost/nfd/strategy/multicast/v=5");
    assert_eq!(
        (done.status_code, done.body.unwrap().strategy),
        (200, Some(whole.clone()))
    );
    assert_eq!(faces(&world.interest(consumer, "/a/1", 1)), [one, two]);
    let (content, _) = world.dataset(consumer, &name("/localhost/nfd/strategy-choice/list"));
    let mut choices = StrategyChoice::decode_all(&content).unwrap();
    choices.sort_by(|a, b| a.name.cmp(&b.name));
    assert_eq!(choices.len(), 2);
    assert_eq!(
        choices[0].strategy,
        name("/localhost/nfd/strategy/best-route/v=5")
    );
    assert_eq!(
        (&choices[1].name, &choices[1].strategy),
        (&name("/a"), &whole)
    );
    assert_eq!(
        world
            .command(consumer, "strategy-choice", "unset", &of_name("/a"))
            .status_code,
        200
    );
    assert_eq!(faces(&world.interest(consumer, "/a/2", 2)), [one]);
    assert_eq!(
        world
            .command(consumer, "strategy-choice", "unset", &of_name("/"))
            .status_code,
        400
    );
    let mut refused = |strategy: &str| {
        world
            .command(consumer, "strategy-choice", "set", &set(strategy))
            .status_code
    };
    assert_eq!(refused("/localhost/nfd/strategy/no-such"), 404);
    assert_eq!(refused("/localhost/nfd/strategy/multicast/v=6"), 404);
    assert_eq!(
        refused("/localhost/nfd/strategy/multicast/v=5/no-value"),
        409
    );
}

#[test]
fn strangers_see_and_command_nothing() {
    let mut world = World::new();
    world.forwarder.set_rules(vec![Rule {
        signer: Authorized::Anybody,
        localhop: true,
        modules: None,
    }]);
    let stranger = world.remote();
    let mut nonce = 0;
    let mut ask = |uri: &str| {
        nonce += 1;
        let sent = world.sent(stranger, interest(uri, nonce).can_be_prefix(true).build());
        assert!(
            sent.iter()
                .all(|sent| matches!(sent.packet, Packet::Nack { .. })),
            "{uri}: {sent:?}"
        );
    };
    for dataset in [
        "faces/list",
        "rib/list",
        "fib/list",
        "cs/info",
        "status/general",
        "faces/events",
        "faces/channels",
    ] {
        ask(&format!("/localhop/nfd/{dataset}"));
    }
    let mut destroy = name("/localhop/nfd/faces/destroy");
    destroy.push_generic(
        &ControlParameters {
            face_id: Some(stranger.0),
            ..ControlParameters::default()
        }
        .encode(),
    );
    let frame = InterestBuilder::new(destroy)
        .nonce(99)
        .sign(&DigestSigner, SignatureFreshness::default())
        .unwrap();
    let sent = world.sent(stranger, frame);
    assert_eq!(response(&sent, stranger).status_code, 501);
    assert_eq!(world.requests, []);
}

proptest! {
    #[test]
    fn no_parameters_panic(
        module in prop::sample::select(vec!["faces", "fib", "rib", "cs", "strategy-choice", "status"]),
        verb in prop::sample::select(vec!["create", "update", "destroy", "query", "list", "events", "add-nexthop", "register", "announce",
            "config", "erase", "info", "query", "set", "unset", "general"]),
        bytes in prop::collection::vec(any::<u8>(), 0..60),
        wrapped in any::<bool>(),
    ) {
        let mut world = World::new();
        let application = world.local();
        let mut uri = name(&format!("/localhost/nfd/{module}/{verb}"));
        let mut parameters = if wrapped { vec![104, bytes.len() as u8] } else { Vec::new() };
        parameters.extend(&bytes);
        uri.push_generic(&parameters);
        world.sent(application, InterestBuilder::new(&uri).nonce(1).sign(&DigestSigner, SignatureFreshness::default()).unwrap());
        world.sent(application, InterestBuilder::new(&uri).can_be_prefix(true).nonce(2).build());
        let in_parameters = InterestBuilder::new(name("/localhost/nfd/rib/announce")).application_parameters(&bytes).nonce(3);
        world.sent(application, in_parameters.sign(&DigestSigner, SignatureFreshness::default()).unwrap());
        world.forwarder.check_invariants();
        world.pass(Duration::from_secs(5));
        world.forwarder.check_invariants();
    }
}

#[test]
fn a_deep_name_that_waits_brings_the_forwarder_down() {
    let mut world = World::new();
    let application = world.local();
    let mut deep = name("/localhost/nfd/faces/events/seq=7");
    for _ in 0..100 {
        deep.push_generic(b"x");
    }
    let frame = InterestBuilder::new(&deep)
        .can_be_prefix(true)
        .nonce(1)
        .build();
    assert_eq!(
        world.frame(application, frame),
        Err(DropReason::NameTooDeep)
    );
    let parameters = ControlParameters {
        uri: Some("udp4://192.0.2.1:6363".into()),
        ..Default::default()
    };
    let mut deep = name("/localhost/nfd/faces/create");
    deep.push_generic(&parameters.encode());
    (0..100).for_each(|_| _ = deep.push_generic(b"x"));
    let frame = InterestBuilder::new(deep).can_be_prefix(true).nonce(2);
    let frame = frame
        .sign(&DigestSigner, SignatureFreshness::default())
        .unwrap();
    assert_eq!(
        world.frame(application, frame),
        Err(DropReason::NameTooDeep)
    );
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

#[test]
fn an_answer_is_not_the_data_that_was_asked_for() {
    let mut world = World::new();
    let application = world.local();
    let (_, segments) = world.dataset(application, &name("/localhost/nfd/faces/list"));
    assert_eq!(segments, 1);
    let asked = |prefix| {
        InterestBuilder::new(name("/localhost/nfd/faces/list"))
            .can_be_prefix(prefix)
            .nonce(3)
            .build()
    };
    let sent = world.sent(application, asked(true));
    let Packet::Data { name: segment, .. } = &sent[0].packet else {
        panic!("{sent:?}")
    };
    let versioned = segment.as_name().without_last().to_string();
    for uri in [
        &*versioned,
        "/localhost/nfd/faces/list",
        "/localhost/nfd/faces/events",
        "/localhost/nfd/faces/events/seq=0/x",
    ] {
        let sent = world.interest(application, uri, 4);
        assert!(
            matches!(
                sent[..],
                [Sent {
                    packet: Packet::Nack { .. },
                    ..
                }]
            ),
            "{uri}: {sent:?}"
        );
    }
}

#[test]
fn strategies_fill_the_memory() {
    let mut world = World::new();
    let application = world.local();
    let asf = Some(name("/localhost/nfd/strategy/asf"));
    let mut set = |prefix: &str| {
        let parameters = ControlParameters {
            name: Some(name(prefix)),
            strategy: asf.clone(),
            ..Default::default()
        };
        world
            .command(application, "strategy-choice", "set", &parameters)
            .status_code
    };
    // The root has one already.
    for i in 1..larder_forwarder::limits::STRATEGY_CHOICES {
        assert_eq!(set(&format!("/{i}")), 200);
    }
    assert_eq!(set("/one/more"), 507);
    assert_eq!(set("/1"), 200, "another one in its place");
    assert_eq!(
        set(&format!(
            "/{}",
            "x".repeat(larder_forwarder::limits::PREFIX_BYTES)
        )),
        414
    );
}

#[test]
fn a_capacity_beyond_all_measure_brings_the_forwarder_down() {
    let mut world = World::new();
    let (consumer, producer) = (world.local(), world.local());
    world.route("/", producer, 0);
    let mut nonce = 0;
    for policy in larder_policy::registry()
        .iter()
        .filter(|policy| !policy.is_offline())
    {
        for capacity in [u64::MAX, 0, 1, 100_000] {
            let parameters = ControlParameters {
                policy: Some(policy.name.to_owned()),
                capacity_bytes: Some(capacity),
                ..ControlParameters::default()
            };
            let code = world
                .command(consumer, "cs", "config", &parameters)
                .status_code;
            assert!(
                code == 200 || code == 406,
                "{} {capacity}: {code}",
                policy.name
            );
            for i in 0..4 {
                nonce += 1;
                let uri = format!("/a/{i}");
                let sent = world.interest(consumer, &uri, nonce);
                if faces(&sent) == [producer] {
                    world.sent(producer, data(&uri, &[7; 1000], None));
                }
            }
        }
    }
}
