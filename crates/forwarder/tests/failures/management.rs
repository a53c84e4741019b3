//! An operator who cannot see or change what the forwarder does: commands, datasets and their
//! refusals. Faces and the Content Store have files of their own.

use crate::world::{Packet, Sent, World, faces, interest, name, response};
use larder_forwarder::{Authorized, DropReason, Rule};
use larder_packet::mgmt::{Element, FibEntry, ForwarderStatus, RibEntry, StrategyChoice};
use larder_packet::tlv::TlvReader;
use larder_packet::{
    ControlParameters, DataBuilder, DigestSigner, InterestBuilder, Name, SignatureFreshness,
};
use proptest::prelude::*;
use std::time::Duration;

pub(crate) fn of_name(prefix: &str) -> ControlParameters {
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
    for _ in 0..100 {
        _ = deep.push_generic(b"x");
    }
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
