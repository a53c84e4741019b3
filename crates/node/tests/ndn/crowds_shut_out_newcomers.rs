//! Connections by the hundred from one address must not cost others theirs, nor keep new clients
//! out. A connection from loopback is one of this machine and counts as no other machine's, so the
//! test plays other machines in a network namespace. It needs root; without, it says that it was
//! skipped.

use super::{App, Stage, interest, is_refusal};
use larder_packet::ControlParameters;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;
use socket2::{Domain, Socket, Type};
use std::fs::File;
use std::io::Write;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::process::Command;
use std::time::{Duration, Instant};

/// A network namespace in which every address of 10.96.0.0/14 is this machine's.
struct Namespace(String);

impl Namespace {
    #[expect(clippy::print_stderr, reason = "what was skipped must be said")]
    fn new(test: &str) -> Option<Namespace> {
        let space = Namespace(format!("larder-{}-{test}", std::process::id()));
        let name = &space.0;
        for step in [
            format!("netns add {name}"),
            format!("-n {name} link set lo up"),
            format!("-n {name} addr add 10.96.0.1/14 dev lo"),
        ] {
            let done = Command::new("ip").args(step.split(' ')).output();
            if !done.as_ref().is_ok_and(|output| output.status.success()) {
                eprintln!(
                    "SKIPPED {test}: it makes a network namespace, which needs root and iproute2: ip {step}: {done:?}"
                );
                return None;
            }
        }
        Some(space)
    }

    /// Runs a function in it, with all threads that it starts.
    fn run(&self, function: impl FnOnce() + Send + 'static) {
        let namespace = File::open(format!("/run/netns/{}", self.0)).unwrap();
        let inside = move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            function();
        };
        std::thread::spawn(inside).join().unwrap();
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip")
            .args(["netns", "delete", &self.0])
            .output();
    }
}

/// A connection from this address.
fn connect(from: [u8; 4], to: &str) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
    socket
        .connect(&to.parse::<SocketAddr>().unwrap().into())
        .unwrap();
    socket.into()
}

/// Whether new clients of every kind are served, each from an address of its own.
fn newcomers_are_answered(stage: &Stage, host: u8) -> bool {
    let tcp = App::on(connect([10, 97, 1, host], &stage.address("tcp"))).is_answered(1);
    let web = stage
        .websocket_on(connect([10, 97, 2, host], &stage.address("ws")), "")
        .is_answered(2);
    let udp = UdpSocket::bind(SocketAddr::from(([10, 97, 3, host], 0))).unwrap();
    udp.set_read_timeout(Some(super::PATIENCE)).unwrap();
    udp.send_to(&interest("/no/route", 3), stage.address("udp"))
        .unwrap();
    let mut buffer = [0; 9000];
    let length = udp.recv(&mut buffer).unwrap();
    tcp && web && is_refusal(&buffer[..length])
}

fn uri_of(face: &Value) -> &str {
    face["uri"].as_str().unwrap()
}

fn number_of(face: &Value) -> u64 {
    face["id"].as_u64().unwrap()
}

const PLACES: usize = 40;

fn a_crowd(stage: &Stage) {
    let (tcp, web) = (stage.address("tcp"), stage.address("ws"));
    let mut client = App::on(connect([10, 97, 0, 1], &tcp));
    assert!(client.is_answered(1));
    // A silent neighbour with a route to it.
    let _neighbour = connect([10, 98, 0, 1], &tcp);
    let deadline = Instant::now() + super::PATIENCE;
    let face = loop {
        let found = stage
            .all_faces()
            .iter()
            .find(|face| uri_of(face).contains("10.98.0.1"))
            .map(number_of);
        if let Some(face) = found {
            break face;
        }
        assert!(Instant::now() < deadline, "the neighbour has no face");
        std::thread::sleep(Duration::from_millis(10));
    };
    let mut app = stage.unix();
    let name = Some("/neighbour".parse().unwrap());
    app.obeyed(
        "rib/register",
        &ControlParameters {
            name,
            face_id: Some(face),
            ..Default::default()
        },
    );

    let mut crowd = Vec::new();
    for round in 0..10 {
        for number in 0..PLACES {
            let mut one = connect([10, 98, 0, 1], if number % 3 == 1 { &web } else { &tcp });
            // The node may have closed it before.
            let _ = match number % 3 {
                0 => one.write_all(&interest("/some/name", 7)[..10]),
                1 => one.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n"),
                _ => one.write_all(&interest("/no/route", round * 100 + number as u32)),
            };
            crowd.push(one);
        }
        assert!(newcomers_are_answered(stage, round as u8 + 1));
        assert!(
            client.is_answered(100 + round),
            "a client with history lost its connection"
        );
    }
    assert!(stage.figure("/ndn/drops/peer_displaced") > PLACES as u64 * 8);
    let faces = stage.all_faces();
    let is_counted =
        |face: &&Value| face["scope"] == "non-local" && !uri_of(face).starts_with("udp");
    assert!(faces.iter().filter(is_counted).count() <= PLACES);
    assert!(
        faces.iter().any(|one| number_of(one) == face),
        "a face with a route was closed"
    );
}

#[test]
fn a_crowd_from_one_address_shuts_out_newcomers() {
    let Some(space) = Namespace::new("crowd") else {
        return;
    };
    space.run(|| a_crowd(&Stage::with(&format!("remote_faces = {PLACES}"))));
}
