//! Each of several threads has a UDP socket, and the kernel chooses one for each peer: whatever a
//! peer does, it must not matter which.

use super::{PATIENCE, Stage, data, interest, is_refusal};
use larder_packet::{ControlParameters, Data, Interest, LpPacket, Name};
use std::net::UdpSocket;
use std::time::Instant;

/// Threads of these nodes, and peers: with so many, each thread has some.
const THREADS: usize = 4;
const PEERS: u32 = 24;

/// The packet in the next frame.
fn receive(peer: &UdpSocket) -> Vec<u8> {
    let mut buffer = [0; 9000];
    let length = peer.recv(&mut buffer).expect("a datagram");
    LpPacket::decode(&buffer[..length])
        .unwrap()
        .fragment
        .unwrap()
        .to_vec()
}

fn asked(packet: &[u8]) -> Name {
    Interest::decode(packet).unwrap().name.to_name()
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn fetch(peer: &UdpSocket, text: &str, nonce: u32) {
    peer.send(&interest(text, nonce)).unwrap();
    assert_eq!(
        Data::decode(&receive(peer)).unwrap().name.to_name(),
        name(text)
    );
}

#[test]
fn a_peer_of_another_thread_gets_no_answer() {
    let stage = Stage::of(THREADS);
    let mut producer = stage.unix();
    producer.register("/a");
    let peers: Vec<UdpSocket> = (0..PEERS).map(|_| stage.udp()).collect();
    let mut nonce = 1;
    for (number, peer) in peers.iter().enumerate() {
        // Misses, answered by an application.
        nonce += 1;
        let miss = format!("/a/{number}/x");
        peer.send(&interest(&miss, nonce)).unwrap();
        assert_eq!(producer.produce(100), name(&miss));
        assert_eq!(
            Data::decode(&receive(peer)).unwrap().name.to_name(),
            name(&miss)
        );
        // Hits.
        for other in 0..number {
            nonce += 1;
            fetch(peer, &format!("/a/{other}/x"), nonce);
        }
    }
    let uris: Vec<String> = peers
        .iter()
        .map(|peer| format!("udp4://{}", peer.local_addr().unwrap()))
        .collect();
    let faces = stage.all_faces();
    assert!(uris.iter().all(|uri| {
        faces
            .iter()
            .filter(|face| face["uri"] == uri.as_str())
            .count()
            == 1
    }));
    assert_eq!(stage.figure("/ndn/drops/shard_full"), 0);
}

#[test]
fn a_route_to_a_peer_of_another_thread_leads_nowhere() {
    let stage = Stage::of(THREADS);
    let mut app = stage.unix();
    let peers: Vec<UdpSocket> = (0..PEERS)
        .map(|_| UdpSocket::bind("127.0.0.1:0").unwrap())
        .collect();
    let consumer = stage.udp();
    let mut faces = Vec::new();
    for (number, peer) in peers.iter().enumerate() {
        peer.connect(stage.address("udp")).unwrap();
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        let uri = Some(format!("udp4://{}", peer.local_addr().unwrap()));
        let created = app.obeyed(
            "faces/create",
            &ControlParameters {
                uri: uri.clone(),
                ..Default::default()
            },
        );
        // Another MTU makes it another command, which the Content Store does not answer.
        let again = app.command(
            "faces/create",
            &ControlParameters {
                uri,
                mtu: Some(1400),
                ..Default::default()
            },
        );
        assert_eq!(again.status_code, 409, "it has a face");
        let prefix = Some(name(&format!("/to/{number}")));
        let route = ControlParameters {
            name: prefix,
            face_id: created.face_id,
            ..Default::default()
        };
        app.obeyed("rib/register", &route);
        faces.push(created.face_id.unwrap());
    }
    for (number, peer) in peers.iter().enumerate() {
        for (index, text) in ["x", "y/z", "v/w"].iter().enumerate() {
            let wanted = format!("/to/{number}/{text}");
            consumer
                .send(&interest(&wanted, 1000 + 3 * number as u32 + index as u32))
                .unwrap();
            assert_eq!(asked(&receive(peer)), name(&wanted));
            peer.send(&data(&name(&wanted), 100)).unwrap();
            assert_eq!(
                Data::decode(&receive(&consumer)).unwrap().name.to_name(),
                name(&wanted)
            );
        }
    }
    assert_eq!(
        app.faces()
            .iter()
            .filter(|face| face.uri.starts_with("udp4"))
            .count(),
        peers.len() + 1
    );
    // The end of a face reaches the thread that has it. The command is answered before that.
    for face in faces {
        app.obeyed(
            "faces/destroy",
            &ControlParameters {
                face_id: Some(face),
                ..Default::default()
            },
        );
    }
    let udp_faces = || {
        stage
            .all_faces()
            .iter()
            .filter(|face| face["uri"].as_str().unwrap().starts_with("udp"))
            .count()
    };
    let deadline = Instant::now() + PATIENCE;
    while udp_faces() > 1 {
        assert!(Instant::now() < deadline, "{} faces", udp_faces());
    }
    for number in 0..peers.len() {
        app.send(&interest(
            &format!("/to/{number}/gone"),
            5000 + number as u32,
        ));
        assert!(is_refusal(&app.receive().unwrap()));
    }
    // And what each peer sends then makes another face.
    for (number, peer) in peers.iter().enumerate() {
        peer.send(&interest("/no/route", 7000 + number as u32))
            .unwrap();
        let mut buffer = [0; 9000];
        let length = peer.recv(&mut buffer).unwrap();
        assert!(is_refusal(&buffer[..length]));
    }
}

/// A peer behind a NAT that gives it another port is another peer to the kernel.
#[test]
fn a_peer_with_another_port_is_lost() {
    let stage = Stage::of(THREADS);
    let mut producer = stage.unix();
    producer.register("/a");
    let mut nonce = 1;
    for number in 0..PEERS {
        let peer = stage.udp();
        let text = format!("/a/{number}");
        peer.send(&interest(&text, nonce)).unwrap();
        assert_eq!(producer.produce(100), name(&text));
        receive(&peer);
        drop(peer);
        fetch(&stage.udp(), &text, nonce + 1);
        nonce += 2;
    }
}

/// Failure: fragments, which one thread has to put together, or large packets to a peer of another
/// thread, are lost.
#[test]
fn a_large_packet_of_another_thread_is_lost() {
    let stage = Stage::of_with(THREADS, "udp_mtu = 1400\n");
    let mut producer = stage.unix();
    producer.register("/large");
    for number in 0..PEERS {
        let peer = stage.udp();
        let text = format!("/large/{number}");
        peer.send(&interest(&text, number + 1)).unwrap();
        assert_eq!(producer.produce(8000), name(&text));
        let mut bytes = 0;
        while bytes < 8000 {
            let mut buffer = [0; 2000];
            let length = peer.recv(&mut buffer).unwrap();
            bytes += LpPacket::decode(&buffer[..length])
                .unwrap()
                .fragment
                .unwrap()
                .len();
        }
    }
}
