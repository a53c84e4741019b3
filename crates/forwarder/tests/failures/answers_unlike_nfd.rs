//! Answers of management, and fields of links, that differ from those of NFD.

use super::world::{Packet, World, command, faces, interest, response};
use larder_forwarder::{FaceAnswer, FaceConfig, FaceId, HostRequest};
use larder_packet::{ControlParameters, LpHeader, LpPacket, encode_lp, tlv, types};
use std::time::Duration;

/// Lets the host answer the last `faces/create`.
fn answer_host(world: &mut World, answer: impl FnOnce(&mut World, String) -> FaceAnswer) {
    let Some(HostRequest::CreateFace(request)) = world.requests.pop() else {
        panic!("no request")
    };
    let answer = answer(world, request.uri);
    world
        .forwarder
        .on_face_answer(world.now, request.ticket, answer, &mut world.outbox);
}

/// The order is that of the protocol's definition: python-ndn refuses a reply in another order.
#[test]
fn an_answer_to_faces_create_lacks_interval_threshold_and_mtu_or_has_them_where_python_ndn_does_not_read_them()
 {
    use types::nfd;
    let mut world = World::new();
    let application = world.local();
    let wanted = ControlParameters {
        uri: Some("udp4://192.0.2.1:6363".into()),
        ..ControlParameters::default()
    };
    let mut made = FaceId(0);
    for (nonce, code) in [(1, 200), (2, 409)] {
        world.sent(application, command("faces", "create", &wanted, nonce));
        answer_host(&mut world, |world, uri| match code {
            200 => {
                made = world
                    .forwarder
                    .add_face(FaceConfig::remote(uri).with_mtu(1452));
                FaceAnswer::Created(made)
            }
            _ => FaceAnswer::Exists(made),
        });
        let sent = world.collect(&[]);
        let answer = response(&sent, application);
        let Packet::Data { content, .. } = &sent[0].packet else {
            panic!("{sent:?}")
        };
        let body = answer.body.expect("the face");
        assert_eq!(
            (answer.status_code, body.face_id, body.mtu),
            (code, Some(made.0), Some(1452))
        );
        assert_eq!(
            body.base_congestion_marking_interval,
            Some(Duration::from_millis(100))
        );
        assert_eq!(body.default_congestion_threshold, Some(65_536));
        assert!(body.mask.is_none() && body.local_uri.is_some());
        let response = tlv::Tlv::only(content, nfd::CONTROL_RESPONSE)
            .unwrap()
            .children()
            .last()
            .unwrap()
            .unwrap();
        let fields = tlv::Tlv::only(response.wire, nfd::CONTROL_PARAMETERS)
            .unwrap()
            .children();
        let order: Vec<u32> = fields.map(|field| field.unwrap().typ).collect();
        let expected = [
            nfd::FACE_ID,
            nfd::URI,
            nfd::LOCAL_URI,
            nfd::BASE_CONGESTION_MARKING_INTERVAL,
            nfd::DEFAULT_CONGESTION_THRESHOLD,
            nfd::MTU,
            nfd::FLAGS,
            nfd::FACE_PERSISTENCY,
        ];
        assert_eq!(order, expected);
    }
}

#[test]
fn flags_without_a_mask_are_carried_out() {
    let mut world = World::new();
    let application = world.local();
    let uri = Some("udp4://192.0.2.1:6363".to_owned());
    for (module, verb, uri) in [
        ("faces", "create", uri),
        ("faces", "update", None),
        ("cs", "config", None),
    ] {
        for (flags, mask) in [(Some(2), None), (None, Some(2)), (Some(0), None)] {
            let parameters = ControlParameters {
                uri: uri.clone(),
                flags,
                mask,
                ..ControlParameters::default()
            };
            let answer = world.command(application, module, verb, &parameters);
            assert_eq!(
                answer.status_code, 400,
                "{module}/{verb} with {flags:?} and {mask:?}"
            );
            assert!(world.requests.is_empty(), "{module}/{verb}");
        }
    }
    // The flags of a route have no Mask.
    let route = ControlParameters {
        name: Some("/a".parse().unwrap()),
        flags: Some(1),
        ..ControlParameters::default()
    };
    assert_eq!(
        world
            .command(application, "rib", "register", &route)
            .status_code,
        200
    );
}

/// NFD finds the next version of a strategy that it has, which refuses the older one, and no later
/// version.
#[test]
fn a_strategy_that_nfd_sets_is_refused_or_one_that_it_refuses_is_set() {
    let mut world = World::new();
    let application = world.local();
    let mut set = |strategy: &str| {
        let strategy = format!("/localhost/nfd/strategy/{strategy}")
            .parse()
            .unwrap();
        let parameters = ControlParameters {
            name: Some("/a".parse().unwrap()),
            strategy: Some(strategy),
            ..ControlParameters::default()
        };
        world
            .command(application, "strategy-choice", "set", &parameters)
            .status_code
    };
    for (strategy, code) in [
        ("best-route", 200),
        ("best-route/v=5", 200),
        ("best-route/v=1", 409),
        ("multicast/v=4", 409),
        ("best-route/v=6", 404),
        ("asf/v=5/probing-interval~x", 409),
        ("nothing/v=1", 404),
        // An unknown parameter is ignored; the configuration refuses it.
        ("asf/v=5/bad~1", 200),
        ("best-route/v=5/retx-suppression-max~500/bad~1", 200),
        ("asf/v=5/bad", 409),
    ] {
        assert_eq!(set(strategy), code, "{strategy}");
    }
}

/// ndn-cxx reads the origin of a route as a number of 16 bits, and refuses the list of a node that
/// has a route with a larger one.
#[test]
fn one_route_with_a_large_origin_makes_the_list_of_all_unreadable_to_nfdc() {
    let mut world = World::new();
    let application = world.local();
    for (origin, code) in [(65_535, 200), (65_536, 400), (u64::MAX, 400)] {
        let parameters = ControlParameters {
            name: Some("/a".parse().unwrap()),
            origin: Some(origin),
            ..ControlParameters::default()
        };
        for verb in ["register", "unregister"] {
            let answer = world.command(application, "rib", verb, &parameters);
            assert_eq!(answer.status_code, code, "{verb} with the origin {origin}");
        }
    }
}

#[test]
fn an_interest_loses_its_non_discovery_field_in_transit() {
    for strategy in ["best-route", "multicast", "hobhis"] {
        let mut world = World::new();
        let (consumer, producer) = (world.remote(), world.remote());
        world.route("/a", producer, 1);
        let strategy_name = format!("/localhost/nfd/strategy/{strategy}")
            .parse()
            .unwrap();
        world
            .forwarder
            .set_strategy(&"/".parse().unwrap(), &strategy_name)
            .unwrap();
        // `hobhis` holds the second Interest back.
        let mut kept = Vec::new();
        for nonce in 1..=2 {
            let packet = interest(&format!("/a/{nonce}"), nonce).build();
            let mut frame = Vec::new();
            encode_lp(
                &LpHeader {
                    non_discovery: true,
                    ..LpHeader::EMPTY
                },
                &packet,
                &mut frame,
            );
            world
                .forwarder
                .on_packet(world.now, consumer, &mut frame, &mut world.outbox)
                .unwrap();
            kept.extend(world.outbox.drain().map(|send| send.header.non_discovery));
        }
        for _ in 0..2 {
            let Some(at) = world.forwarder.next_timeout().filter(|_| kept.len() < 2) else {
                break;
            };
            world.forwarder.on_timeout(at, &mut world.outbox);
            kept.extend(world.outbox.drain().map(|send| send.header.non_discovery));
        }
        assert_eq!(kept, [true, true], "{strategy}");
        // A field that is not there does not come.
        assert!(world.pass(Duration::from_secs(1)).is_empty());
        let mut plain = interest("/a/plain", 3).build();
        world
            .forwarder
            .on_packet(world.now, consumer, &mut plain, &mut world.outbox)
            .unwrap();
        assert!(
            world.outbox.drain().all(|send| !send.header.non_discovery),
            "{strategy}"
        );
    }
}

/// A field of Larder's own number that another program uses in another way.
#[test]
fn a_foreign_field_of_our_number_drops_the_packet() {
    let mut world = World::new();
    let (consumer, producer) = (world.remote(), world.remote());
    world.route("/a", producer, 1);
    let mut nonce = 0;
    for typ in [
        types::LP_INTEREST_RATE,
        types::LP_PATH_RECORD,
        types::LP_SHARED_MEMORY,
    ] {
        for length in [0, 1, 3, 19, 21, 200] {
            nonce += 1;
            let packet = interest(&format!("/a/{nonce}"), nonce).build();
            let mut fields = Vec::new();
            tlv::write_tlv(&mut fields, typ, &vec![7; length]);
            tlv::write_tlv(&mut fields, types::LP_FRAGMENT, &packet);
            let mut frame = Vec::new();
            tlv::write_tlv(&mut frame, types::LP_PACKET, &fields);
            assert!(
                LpPacket::decode(&frame).is_ok(),
                "field {typ} of {length} bytes"
            );
            assert_eq!(
                faces(&world.sent(consumer, frame)),
                [producer],
                "field {typ} of {length} bytes"
            );
            world.now += Duration::from_millis(1);
        }
    }
}
