//! Senders with forged addresses, which cost the sender nothing, must not cost genuine UDP peers
//! their faces.

use super::{PATIENCE, Stage, data, interest};
use larder_packet::{ControlParameters, Data, Interest, LpPacket, Name};
use std::net::UdpSocket;
use std::time::{Duration, Instant};

/// On Linux, every address of 127.0.0.0/8 is this machine's.
fn bound(stage: &Stage, [b, c, d]: [u8; 3]) -> UdpSocket {
    let socket = UdpSocket::bind(format!("127.{b}.{c}.{d}:0")).unwrap();
    socket.connect(stage.address("udp")).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    socket
}

/// Datagrams that each come from another address, of which nobody hears again.
struct Flood(u32);

impl Flood {
    fn send(&mut self, stage: &Stage, count: u32) {
        for _ in 0..count {
            self.0 += 1;
            let [_, _, c, d] = self.0.to_be_bytes();
            let name = format!("/nobody/{}", self.0);
            bound(stage, [98, c, d])
                .send(&interest(&name, self.0))
                .unwrap();
        }
    }
}

/// The packet in the next frame.
fn receive(socket: &UdpSocket) -> Option<Vec<u8>> {
    let mut buffer = [0; 9000];
    let length = socket.recv(&mut buffer).ok()?;
    Some(
        LpPacket::decode(&buffer[..length])
            .unwrap()
            .fragment
            .unwrap()
            .to_vec(),
    )
}

/// Repeats until there is what was asked for: datagrams of a flood may be lost, and so may others
/// among them.
fn until<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(Instant::now() < deadline, "no answer");
    }
}

/// Asks for a name at the neighbour, and has it answer.
fn ask_neighbour(stage: &Stage, neighbour: &UdpSocket, name: &Name) {
    let mut consumer = stage.unix();
    let mut nonce = 1;
    until(|| {
        nonce += 1;
        consumer.send(&interest(&name.to_string(), nonce));
        let asked = receive(neighbour)?;
        // A probe may come, too.
        let asked = Interest::decode(&asked).ok()?.name.to_name();
        (asked == *name).then_some(())
    });
    neighbour.send(&data(name, 100)).unwrap();
    let answer = consumer.receive().unwrap();
    let answer = LpPacket::decode(&answer).unwrap();
    assert_eq!(
        Data::decode(answer.fragment.unwrap())
            .unwrap()
            .name
            .to_name(),
        *name
    );
}

#[test]
fn forged_senders_shut_out_new_peers_and_those_that_return() {
    forged_senders_meet_genuine_peers(&Stage::new());
}

/// Failure: a thread's part of the places is too small for its part of the flood.
#[test]
fn forged_senders_shut_out_the_peers_of_one_of_four_threads() {
    forged_senders_meet_genuine_peers(&Stage::of(4));
}

fn forged_senders_meet_genuine_peers(stage: &Stage) {
    let mut producer = stage.unix();
    producer.register("/there");
    // A neighbour with a route to it, which answers.
    let neighbour = bound(stage, [97, 0, 1]);
    neighbour.send(&interest("/no/route", 1)).unwrap();
    let mut app = stage.unix();
    let uri = format!("udp4://{}", neighbour.local_addr().unwrap());
    let face = until(|| app.faces().into_iter().find(|face| face.uri == uri));
    let name = Some("/neighbour".parse().unwrap());
    app.obeyed(
        "rib/register",
        &ControlParameters {
            name,
            face_id: Some(face.face_id),
            ..Default::default()
        },
    );
    while receive(&neighbour).is_some() {}
    ask_neighbour(stage, &neighbour, &"/neighbour/a".parse().unwrap());

    let mut flood = Flood(0);
    flood.send(stage, 2000);
    for number in 0..10 {
        flood.send(stage, 200);
        let newcomer = bound(stage, [96, number, 1]);
        let name: Name = format!("/there/{number}").parse().unwrap();
        let mut nonce = 100;
        until(|| {
            nonce += 1;
            newcomer.send(&interest(&name.to_string(), nonce)).unwrap();
            // The first Interest is the producer's to answer; the others find what is stored. On a
            // slow machine, an Interest for the name before was sent to the producer twice.
            if nonce == 101 {
                while producer.produce(100) != name {}
            }
            let answer = receive(&newcomer)?;
            Some(Data::decode(&answer).ok()?.name.to_name() == name).filter(|is_it| *is_it)
        });
    }
    ask_neighbour(stage, &neighbour, &"/neighbour/b".parse().unwrap());
    assert!(
        stage.figure("/ndn/drops/peer_displaced") > 0,
        "the flood fills nothing"
    );
    let faces = stage.all_faces();
    assert!(
        faces.iter().any(|one| one["uri"] == uri.as_str()),
        "the neighbour has no face"
    );
    assert!(faces.len() <= 2048 + 10, "{} faces", faces.len());
}

/// A forwarder refuses what it has no route for: so it shows that it receives what is sent to its
/// address.
#[test]
fn a_forwarder_does_not_answer_the_probe() {
    let stage = Stage::new();
    let peer = Stage::new();
    let mut flood = Flood(1 << 15);
    flood.send(&stage, 1000);
    // The peer has a route to the node, and an application that asks.
    let mut app = peer.unix();
    let uri = Some(format!("udp4://{}", stage.address("udp")));
    let created = app.obeyed(
        "faces/create",
        &ControlParameters {
            uri,
            ..Default::default()
        },
    );
    let name = Some("/far".parse().unwrap());
    app.obeyed(
        "rib/register",
        &ControlParameters {
            name,
            face_id: created.face_id,
            ..Default::default()
        },
    );
    let mut nonce = 1;
    let is_proven = || stage.figure("/ndn/udp_peers/proven") == 1;
    until(|| {
        nonce += 1;
        flood.send(&stage, 1);
        app.send(&interest(&format!("/far/{nonce}"), nonce));
        app.receive();
        is_proven().then_some(())
    });
}
