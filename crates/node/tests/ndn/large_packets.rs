//! Data beyond 8800 bytes: between nodes that both say so it passes, over streams and in fragments
//! over UDP; elsewhere it is dropped, and the face stands.

use super::{Stage, data, interest};
use larder_packet::{ControlParameters, Data, Interest, LpPacket};

/// Data of so many bytes from an application at one node to one at another, with UDP in between;
/// whether it comes.
fn passes(near: &Stage, far: &Stage, bytes: usize, nonce: u32, reliable: bool) -> bool {
    let (mut consumer, mut producer) = (near.unix(), far.unix());
    let name = format!("/large/{nonce}");
    producer.register(&name);
    let flags = reliable.then_some(2);
    let uri = Some(format!("udp4://{}", far.address("udp")));
    let made = ControlParameters {
        uri,
        flags,
        mask: flags,
        ..ControlParameters::default()
    };
    let face_id = consumer
        .command("faces/create", &made)
        .body
        .unwrap()
        .face_id;
    let route = ControlParameters {
        name: Some(name.parse().unwrap()),
        face_id,
        ..ControlParameters::default()
    };
    consumer.obeyed("rib/register", &route);
    consumer.send(&interest(&name, nonce));
    let asked = producer.receive().unwrap();
    let asked = LpPacket::decode(&asked).unwrap().fragment.unwrap().to_vec();
    let before = far.figure("/ndn/drops/oversized") + near.figure("/ndn/drops/reassembly");
    producer.send(&data(
        &Interest::decode(&asked).unwrap().name.to_name(),
        bytes,
    ));
    // It answers behind the Data: so the Data has been handled.
    assert!(producer.is_answered(nonce + 1000));
    loop {
        if far.figure("/ndn/drops/oversized") + near.figure("/ndn/drops/reassembly") > before {
            return false;
        }
        consumer.send(&interest(&name, nonce + 1));
        let answer = consumer.receive().unwrap();
        let answer = LpPacket::decode(&answer).unwrap();
        if answer.header.nack.is_none() {
            assert_eq!(
                Data::decode(answer.fragment.unwrap())
                    .unwrap()
                    .content
                    .len(),
                bytes
            );
            return true;
        }
    }
}

#[test]
fn large_data_passes_where_all_agree_and_nowhere_else() {
    let large = || Stage::with("largest_packet = \"64KiB\"");
    let (near, far, ordinary) = (large(), large(), Stage::new());
    assert!(passes(&near, &far, 60_000, 1, false));
    assert!(
        passes(&near, &far, 8000, 11, false),
        "and ordinary ones as ever"
    );
    assert!(
        passes(&far, &near, 30_000, 21, true),
        "with link reliability too"
    );
    assert!(!passes(&near, &ordinary, 20_000, 31, false));
}
