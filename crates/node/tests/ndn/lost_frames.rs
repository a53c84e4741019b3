//! A face with link reliability, over a real socket: what is not acknowledged comes again, what is
//! acknowledged does not, and what came twice is used once.

use super::{PATIENCE, Stage, data, interest};
use larder_packet::tlv::{Tlv, write_header, write_tlv};
use larder_packet::types::nfd::FLAG_LP_RELIABILITY;
use larder_packet::types::{LP_ACK, LP_FRAGMENT, LP_PACKET, LP_SEQUENCE, LP_TX_SEQUENCE};
use larder_packet::{ControlParameters, Interest, LpPacket};
use std::net::UdpSocket;

fn field(frame: &[u8], typ: u32) -> Option<Vec<u8>> {
    let packet = Tlv::only(frame, LP_PACKET).ok()?;
    packet
        .children()
        .flatten()
        .find(|field| field.typ == typ)
        .map(|field| field.value.to_vec())
}

fn packet(fields: &[(u32, &[u8])]) -> Vec<u8> {
    let (mut inside, mut wire) = (Vec::new(), Vec::new());
    for (typ, value) in fields {
        write_tlv(&mut inside, *typ, value);
    }
    write_header(&mut wire, LP_PACKET, inside.len());
    wire.extend_from_slice(&inside);
    wire
}

/// Returns the first two acknowledgements of these frames.
fn two_acknowledgements(mut next: impl FnMut() -> Vec<u8>) -> Vec<Vec<u8>> {
    let mut acknowledged = Vec::new();
    while acknowledged.len() < 2 {
        let frame = next();
        let packet = Tlv::only(&frame, LP_PACKET).unwrap();
        acknowledged.extend(
            packet
                .children()
                .flatten()
                .filter(|one| one.typ == LP_ACK)
                .map(|one| one.value.to_vec()),
        );
    }
    acknowledged
}

#[test]
fn a_frame_comes_again_until_it_is_acknowledged() {
    let stage = Stage::new();
    let neighbour = UdpSocket::bind("127.0.0.1:0").unwrap();
    neighbour.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut app = stage.unix();
    let uri = format!("udp4://{}", neighbour.local_addr().unwrap());
    let reliable = |on: bool| ControlParameters {
        flags: Some(if on { FLAG_LP_RELIABILITY } else { 0 }),
        mask: Some(FLAG_LP_RELIABILITY),
        ..ControlParameters::default()
    };
    let made = app.obeyed(
        "faces/create",
        &ControlParameters {
            uri: Some(uri),
            ..reliable(true)
        },
    );
    assert_eq!(
        made.flags.unwrap() & FLAG_LP_RELIABILITY,
        FLAG_LP_RELIABILITY
    );
    let face_id = made.face_id;
    app.obeyed(
        "rib/register",
        &ControlParameters {
            name: Some("/far".parse().unwrap()),
            face_id,
            ..ControlParameters::default()
        },
    );
    app.send(&interest("/far/a", 5));
    let mut buffer = [0; 9000];
    let mut next = || {
        let (length, from) = neighbour.recv_from(&mut buffer).unwrap();
        (buffer[..length].to_vec(), from)
    };
    let ((first, node), (second, _)) = (next(), next());
    let sequences = |typ| (field(&first, typ).unwrap(), field(&second, typ).unwrap());
    let (numbers, transmissions) = (sequences(LP_SEQUENCE), sequences(LP_TX_SEQUENCE));
    assert_eq!(numbers.0, numbers.1, "the same frame");
    assert_ne!(transmissions.0, transmissions.1, "and another transmission");
    let asked = LpPacket::decode(&first).unwrap().fragment.unwrap().to_vec();
    let name = Interest::decode(&asked).unwrap().name.to_name();
    // The answer acknowledges, and comes twice.
    let answer = data(&name, 100);
    for transmission in 7..9u64 {
        let fields: [(u32, &[u8]); 4] = [
            (LP_SEQUENCE, &99u64.to_be_bytes()),
            (LP_ACK, &transmissions.1),
            (LP_TX_SEQUENCE, &transmission.to_be_bytes()),
            (LP_FRAGMENT, &answer),
        ];
        neighbour.send_to(&packet(&fields), node).unwrap();
    }
    assert_eq!(app.receive().unwrap(), answer);
    let acknowledged = two_acknowledgements(|| next().0);
    assert_eq!(acknowledged, [7u64.to_be_bytes(), 8u64.to_be_bytes()]);
    assert_eq!(
        stage.figure("/ndn/drops/unsolicited"),
        0,
        "the second of the two went no further"
    );

    // Switched off, frames are as they were before.
    app.obeyed(
        "faces/update",
        &ControlParameters {
            face_id,
            ..reliable(false)
        },
    );
    app.send(&interest("/far/b", 6));
    loop {
        let (frame, _) = next();
        if frame[0] == 5 {
            assert_eq!(Interest::decode(&frame).unwrap().name.to_string(), "/far/b");
            break;
        }
    }
    let stream = app
        .faces()
        .into_iter()
        .find(|face| face.uri.starts_with("fd://"))
        .unwrap();
    // A stream takes the flag, as in NFD, and its frames stay as they are.
    app.obeyed(
        "faces/update",
        &ControlParameters {
            face_id: Some(stream.face_id),
            ..reliable(true)
        },
    );
    assert!(app.is_answered(7));
}
