//! Link packets and commands byte by byte, as NFD and its clients write them.

use larder_packet::{
    ControlParameters, ControlResponse, LpHeader, LpPacket, NackReason, Name, PathRecord, PitToken,
    SharedMemory, encode_lp,
};
use std::time::Duration;

#[test]
fn the_agreement_on_shared_memory_is_more_than_idle_packets() {
    use SharedMemory::{Offer, Request, Switch};
    for (step, number) in [(Request, 1), (Offer, 2), (Switch, 3)] {
        // Field 936 is in the range that receivers ignore, and a multiple of four.
        let packet = step.packet();
        assert_eq!(packet, [100, 6, 0xFD, 3, 0xA8, 2, 1, number]);
        assert_eq!(SharedMemory::of(&packet), Some(step));
        let packet = LpPacket::decode(&packet).unwrap();
        assert!(packet.header.is_empty() && packet.fragment.is_none());
    }
    for other in [
        &[100, 6, 0xFD, 3, 0xA8, 2, 1, 4][..],
        &[100, 6, 0xFD, 3, 0xA8, 2, 2, 1],
        &[100, 5, 0xFD, 3, 0xA8, 1, 1],
    ] {
        assert_eq!(SharedMemory::of(other), None);
    }
}

#[test]
fn every_field_once_in_ascending_order() {
    let header = LpHeader {
        pit_token: PitToken::new(&[0xA, 0xB]),
        nack: Some(NackReason::NoRoute),
        congestion_mark: Some(1),
        incoming_face: Some(256),
        next_hop_face: Some(2),
        no_cache: true,
        non_discovery: true,
        interest_rate: Some(4),
        path: Some(PathRecord {
            caches: 1,
            capacity: 2,
            centrality: 3,
        }),
        sequence: Some(3),
        frag_index: 1,
        frag_count: 2,
    };
    let mut wire = Vec::new();
    encode_lp(&header, &[5, 0], &mut wire);
    let expected = [
        &[100, 91][..],
        &[81, 8, 0, 0, 0, 0, 0, 0, 0, 3],
        &[82, 1, 1],
        &[83, 1, 2],
        &[98, 2, 0xA, 0xB],
        &[0xFD, 3, 0x20, 5, 0xFD, 3, 0x21, 1, 150],
        &[0xFD, 3, 0x2C, 2, 1, 0],
        &[0xFD, 3, 0x30, 1, 2],
        &[0xFD, 3, 0x34, 5, 0xFD, 3, 0x35, 1, 1],
        &[0xFD, 3, 0x40, 1, 1],
        &[0xFD, 3, 0x4C, 0],
        &[0xFD, 3, 0xA0, 1, 4],
        &[
            0xFD, 3, 0xA4, 20, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3,
        ],
        &[80, 2, 5, 0],
    ];
    assert_eq!(wire, expected.concat());
}

#[test]
fn a_nack_and_an_idle_packet() {
    let mut wire = Vec::new();
    encode_lp(
        &LpHeader {
            nack: Some(NackReason::None),
            ..LpHeader::default()
        },
        &[5, 0],
        &mut wire,
    );
    assert_eq!(wire, [100, 8, 0xFD, 3, 0x20, 0, 80, 2, 5, 0]);
    wire.clear();
    encode_lp(
        &LpHeader {
            congestion_mark: Some(0),
            ..LpHeader::default()
        },
        &[],
        &mut wire,
    );
    assert_eq!(wire, [100, 5, 0xFD, 3, 0x40, 1, 0]);
    wire.clear();
    encode_lp(&LpHeader::default(), &[5, 0], &mut wire);
    assert_eq!(wire, [5, 0]);
}

/// python-ndn 0.5.2, `ControlParameters.encode`.
#[test]
fn python_ndn_makes_the_same_command() {
    let parameters = ControlParameters {
        name: "/p".parse().ok(),
        face_id: Some(0),
        uri: Some("udp4://1.2.3.4:6363".to_owned()),
        origin: Some(65),
        cost: Some(10),
        flags: Some(1),
        expiration: Some(Duration::from_secs(60)),
        ..ControlParameters::default()
    };
    let wire = b"\x68\x2a\x07\x03\x08\x01p\x69\x01\x00\x72\x13udp4://1.2.3.4:6363\x6f\x01\x41\x6a\x01\x0a\x6c\x01\x01\x6d\x02\xea\x60";
    assert_eq!(parameters.encode(), wire);
    assert_eq!(ControlParameters::decode(wire), Ok(parameters));
}

#[test]
fn a_command_in_any_order_with_things_unknown() {
    // Cost, an unknown critical element, Name, Cost again: the first cost counts.
    let parameters =
        ControlParameters::decode(&[104, 14, 106, 1, 5, 31, 0, 7, 3, 8, 1, b'p', 106, 2, 1, 0])
            .unwrap();
    assert_eq!(
        parameters,
        ControlParameters {
            name: "/p".parse().ok(),
            cost: Some(5),
            ..ControlParameters::default()
        }
    );
    assert_eq!(
        ControlParameters::decode(&[104, 3, 114, 1, 0xFF])
            .unwrap_err()
            .to_string(),
        "bad value of TLV type 114 at byte 2"
    );
    assert_eq!(
        ControlParameters::decode(&[104, 2, 107, 0])
            .unwrap_err()
            .to_string(),
        "Name missing at byte 4"
    );
}

#[test]
fn a_reply() {
    let response = ControlResponse {
        status_code: 200,
        status_text: "OK".to_owned(),
        body: Some(ControlParameters {
            strategy: Some(Name::root()),
            ..ControlParameters::default()
        }),
    };
    let wire = [
        101, 13, 102, 1, 200, 103, 2, b'O', b'K', 104, 4, 107, 2, 7, 0,
    ];
    assert_eq!(response.encode(), wire);
    // A body of another kind, as the reply to a dataset's request has.
    let other =
        ControlResponse::decode(&[101, 12, 102, 1, 200, 103, 2, b'O', b'K', 128, 3, 1, 1, 1])
            .unwrap();
    assert_eq!((other.status_code, other.body), (200, None));
    assert_eq!(
        ControlResponse::decode(&[101, 3, 102, 1, 200])
            .unwrap_err()
            .to_string(),
        "status_text missing at byte 5"
    );
}
