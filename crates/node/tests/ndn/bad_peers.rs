//! Peers that send what is no packet, or too large a one.

use super::{Stage, data, interest, is_refusal};
use larder_packet::InterestBuilder;
use std::io::Write;

#[test]
fn malformed_packets_are_counted_and_cost_their_face_nothing() {
    let stage = Stage::new();
    let mut app = stage.unix();
    // The inner length points past the end; the element itself is framed.
    app.send(&[0x05, 0x08, 0x24, 0x7f, 0, 0, 0, 0, 0, 0]);
    assert!(app.is_answered(1));
    assert_eq!(stage.figure("/ndn/drops/malformed"), 1);
}

#[test]
fn an_interest_with_a_wrong_digest_of_its_parameters_is_not_counted() {
    let stage = Stage::new();
    let mut app = stage.unix();
    let mut wrong = super::command("rib/register", &larder_packet::ControlParameters::default());
    *wrong.last_mut().unwrap() ^= 1;
    app.send(&wrong);
    assert!(app.is_answered(1));
    assert_eq!(stage.figure("/ndn/drops/parameters_digest"), 1);
}

#[test]
fn an_oversized_packet_is_skipped_and_its_face_stands() {
    let stage = Stage::new();
    let mut app = stage.unix();
    // Just over the packet limit, just over the frame limit, and far over it.
    for (round, bytes) in [8800, 9000, 9500, 1_000_000].into_iter().enumerate() {
        app.send(&data(&"/a".parse().unwrap(), bytes));
        assert!(app.is_answered(round as u32), "after {bytes}");
        assert_eq!(stage.figure("/ndn/drops/oversized"), round as u64 + 1);
    }
}

#[test]
fn garbage_closes_its_own_face_only() {
    let stage = Stage::new();
    let (mut app, mut bad) = (stage.unix(), stage.tcp());
    let _ = bad.stream.write_all(&[0; 100]);
    assert_eq!(bad.receive(), None);
    assert!(app.is_answered(1));
    assert_eq!(
        stage.figure("/ndn/faces/0/id"),
        256,
        "the first face stands"
    );
}

#[test]
fn udp_peers_are_refused_and_garbage_is_counted() {
    let stage = Stage::new();
    let peer = stage.udp();
    peer.send(&[0xff; 30]).unwrap();
    peer.send(&interest("/no/route", 1)).unwrap();
    let mut buffer = [0; 9000];
    let length = peer.recv(&mut buffer).unwrap();
    assert!(is_refusal(&buffer[..length]));
    assert_eq!(stage.figure("/ndn/drops/malformed"), 1);
    // A name of this machine from outside, though the sender is on loopback: UDP is never local.
    peer.send(&interest("/localhost/a", 2)).unwrap();
    peer.send(&interest("/no/route", 3)).unwrap();
    peer.recv(&mut buffer).unwrap();
    assert_eq!(stage.figure("/ndn/drops/scope"), 1);
}

#[test]
fn a_handshake_that_is_none_ends() {
    let stage = Stage::new();
    let mut stream = std::net::TcpStream::connect(stage.address("ws")).unwrap();
    stream.set_read_timeout(Some(super::PATIENCE)).unwrap();
    stream
        .write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        .unwrap();
    let mut answer = Vec::new();
    let _ = std::io::Read::read_to_end(&mut stream, &mut answer);
    assert!(
        !answer.starts_with(b"HTTP/1.1 101"),
        "{}",
        String::from_utf8_lossy(&answer)
    );
    assert!(stage.unix().is_answered(1));
}

#[test]
fn a_datagram_that_is_no_packet_makes_no_face() {
    let stage = Stage::new();
    for _ in 0..5 {
        stage.udp().send(&[0xff; 30]).unwrap();
    }
    let peer = stage.udp();
    peer.send(&interest("/no/route", 1)).unwrap();
    peer.recv(&mut [0; 9000]).unwrap();
    // Another thread may have the others.
    stage.await_figure("/ndn/drops/malformed", |drops| drops == 5);
    assert_eq!(stage.figure("/ndn/faces/0/id"), 256);
}

#[test]
fn nobody_can_tell_which_socket_a_udp_peer_came_to() {
    let stage = Stage::new();
    let peer = stage.udp();
    peer.send(&interest("/no/route", 1)).unwrap();
    peer.recv(&mut [0; 9000]).unwrap();
    let mut app = stage.unix();
    let faces = InterestBuilder::new(
        "/localhost/nfd/faces/list"
            .parse::<larder_packet::Name>()
            .unwrap(),
    );
    app.send(
        &faces
            .can_be_prefix(true)
            .must_be_fresh(true)
            .nonce(2)
            .build(),
    );
    let list = app.receive().unwrap();
    let ours = format!("udp4://{}", peer.peer_addr().unwrap());
    assert!(
        list.windows(ours.len()).any(|part| part == ours.as_bytes()),
        "no {ours}"
    );
}

#[test]
fn a_peer_that_says_all_at_once_and_leaves_is_heard_to_the_end() {
    let stage = Stage::new();
    let before = stage.figure("/ndn/packets/in_interests");
    // Several reads' worth, the last of them short; the end is there before the node looks.
    let count = 5000;
    let bytes: Vec<u8> = (0..count)
        .flat_map(|nonce| interest(&format!("/no/route/{nonce}"), nonce))
        .collect();
    let app = stage.unix();
    let mut writer = app.stream.try_clone().unwrap();
    let reader = std::thread::spawn(move || {
        let mut app = app;
        std::iter::from_fn(|| app.receive()).count()
    });
    writer.write_all(&bytes).unwrap();
    writer.shutdown(std::net::Shutdown::Write).unwrap();
    let answers = reader.join().unwrap();
    assert_eq!(
        stage.figure("/ndn/packets/in_interests") - before,
        u64::from(count)
    );
    assert!(answers > 0, "and the face is closed then");
}
