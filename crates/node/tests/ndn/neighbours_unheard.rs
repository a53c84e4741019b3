//! Neighbours on a link, without addresses: UDP multicast and Ethernet, over a pair of virtual
//! interfaces between two namespaces. It needs root; without, it says that it was skipped.

use super::{Stage, config, interest};
use larder_node::Node;
use larder_packet::{ControlParameters, Data, Interest, LpPacket};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::process::Command;
use std::time::{Duration, Instant};

/// Two namespaces with an interface each, `left` and `right`, and a cable between them.
struct Cable {
    names: [String; 2],
}

const ENDS: [&str; 2] = ["left", "right"];

impl Cable {
    #[expect(clippy::print_stderr, reason = "what was skipped must be said")]
    fn new(test: &str) -> Option<Cable> {
        let names = ENDS.map(|end| format!("larder-{}-{test}-{end}", std::process::id()));
        let cable = Cable { names };
        let [left, right] = &cable.names;
        let mut steps = vec![format!("netns add {left}"), format!("netns add {right}")];
        steps.push(format!(
            "link add left netns {left} type veth peer name right netns {right}"
        ));
        for (number, (namespace, end)) in cable.names.iter().zip(ENDS).enumerate() {
            steps.push(format!("-n {namespace} link set lo up"));
            steps.push(format!(
                "-n {namespace} link set {end} address 02:00:00:00:00:0{} mtu 1400 up",
                number + 1
            ));
            steps.push(format!(
                "-n {namespace} addr add 192.0.2.{}/24 dev {end}",
                number + 1
            ));
        }
        for step in &steps {
            let done = Command::new("ip").args(step.split(' ')).output();
            if !done.as_ref().is_ok_and(|output| output.status.success()) {
                eprintln!(
                    "SKIPPED {test}: it makes network namespaces, which needs root and iproute2: ip {step}: {done:?}"
                );
                return None;
            }
        }
        cable.wait();
        Some(cable)
    }

    /// Until both ends carry: the kernel tells a little later that they do, and drops what is sent
    /// before.
    fn wait(&self) {
        let deadline = Instant::now() + super::PATIENCE;
        for (namespace, end) in self.names.iter().zip(ENDS) {
            let is_up = || {
                let output = Command::new("ip")
                    .args(["-n", namespace, "link", "show", end])
                    .output()
                    .unwrap();
                String::from_utf8_lossy(&output.stdout).contains("state UP")
            };
            while !is_up() {
                assert!(Instant::now() < deadline, "{end} does not come up");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    /// A node at one end. Its threads stay where it was started.
    fn node(&self, end: usize, more: &str) -> Stage {
        let directory = tempfile::tempdir().unwrap();
        let config = config(&directory.path().join("nfd.sock"), more);
        let namespace = File::open(format!("/run/netns/{}", self.names[end])).unwrap();
        let start = move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            Node::start(&config).unwrap()
        };
        let node = std::thread::spawn(start).join().unwrap();
        Stage { node, directory }
    }

    /// A socket at one end.
    fn udp(&self, end: usize) -> UdpSocket {
        let namespace = File::open(format!("/run/netns/{}", self.names[end])).unwrap();
        let bind = move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            UdpSocket::bind(("192.0.2.2", 0)).unwrap()
        };
        let socket = std::thread::spawn(bind).join().unwrap();
        socket.set_read_timeout(Some(super::PATIENCE)).unwrap();
        socket
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        for namespace in &self.names {
            let _ = Command::new("ip")
                .args(["netns", "delete", namespace])
                .output();
        }
    }
}

/// An application at the left asks, one at the right answers with 5000 bytes, by the left node's
/// face to `uri`, which is made where it is none of the configuration's. Returns what the right
/// node says of its face to the left.
fn fetch(
    left: &Stage,
    right: &Stage,
    uri: &str,
    wanted: Option<ControlParameters>,
) -> larder_packet::mgmt::FaceStatus {
    let (mut consumer, mut producer) = (left.unix(), right.unix());
    producer.register("/there");
    let face_id = match wanted {
        Some(wanted) => {
            consumer
                .obeyed(
                    "faces/create",
                    &ControlParameters {
                        uri: Some(uri.to_owned()),
                        ..wanted
                    },
                )
                .face_id
        }
        None => consumer
            .faces()
            .iter()
            .find(|face| face.uri == uri)
            .map(|face| face.face_id),
    };
    assert!(face_id.is_some(), "no face {uri}: {:?}", consumer.faces());
    consumer.obeyed(
        "rib/register",
        &ControlParameters {
            name: Some("/there".parse().unwrap()),
            face_id,
            ..Default::default()
        },
    );
    consumer.send(&interest("/there/a", 5));
    let asked = producer.receive().unwrap();
    let asked = LpPacket::decode(&asked).unwrap().fragment.unwrap().to_vec();
    producer.send(&super::data(
        &Interest::decode(&asked).unwrap().name.to_name(),
        5000,
    ));
    let answer = consumer.receive().unwrap();
    let answer = LpPacket::decode(&answer).unwrap();
    assert_eq!(answer.header.nack, None);
    let answer = answer.fragment.unwrap().to_vec();
    assert_eq!(Data::decode(&answer).unwrap().content.len(), 5000);
    producer
        .faces()
        .into_iter()
        .find(|face| face.in_interests == 1 && face.uri != "fd://0" && face.scope == 0)
        .unwrap()
}

#[test]
fn everybody_on_a_network_is_heard_by_udp_multicast() {
    let Some(cable) = Cable::new("udp") else {
        return;
    };
    let settings = "udp_multicast = [\"*\"]\nad_hoc = [\"right\"]";
    let (left, right) = (cable.node(0, settings), cable.node(1, settings));
    let face = fetch(&left, &right, "udp4://224.0.23.170:56363", None);
    assert_eq!(
        (face.uri.as_str(), face.local_uri.as_str()),
        ("udp4://224.0.23.170:56363", "udp4://192.0.2.2:56363")
    );
    assert_eq!(
        (face.persistency, face.link_type, face.mtu),
        (2, 2, Some(1400 - 28)),
        "permanent, ad hoc, the interface's MTU"
    );
    let mut app = left.unix();
    let others = app.faces();
    let multicast = others
        .iter()
        .find(|face| face.uri == "udp4://224.0.23.170:56363")
        .unwrap();
    assert_eq!(multicast.link_type, 1, "multi-access");
    assert_eq!(multicast.in_interests, 0, "nobody hears himself");
    // What a face of many cannot be.
    let parameters = ControlParameters {
        face_id: Some(multicast.face_id),
        ..Default::default()
    };
    let on_demand = app.command(
        "faces/update",
        &ControlParameters {
            face_persistency: Some(1),
            ..parameters.clone()
        },
    );
    let reliable = app.command(
        "faces/update",
        &ControlParameters {
            flags: Some(2),
            mask: Some(2),
            ..parameters
        },
    );
    assert_eq!((on_demand.status_code, reliable.status_code), (409, 409));
    let uri = Some("udp4://224.0.23.170:56363".to_owned());
    assert_eq!(
        app.command(
            "faces/create",
            &ControlParameters {
                uri,
                ..Default::default()
            }
        )
        .status_code,
        406
    );
}

fn speak_as_a_group(cable: &Cable) {
    let (left, right) = (
        cable.node(0, "ethernet = [\"left\"]"),
        cable.node(1, "ethernet = [\"*\"]"),
    );
    let face = fetch(&left, &right, "ether://[01:00:5e:00:17:aa]", None);
    assert_eq!(
        (
            face.local_uri.as_str(),
            face.persistency,
            face.link_type,
            face.mtu
        ),
        ("dev://right", 2, 1, Some(1400))
    );
    // Else they would go on answering on their interfaces.
    left.node.stop();
    right.node.stop();
}

#[test]
fn neighbours_speak_over_ethernet_as_a_group_and_alone() {
    let Some(cable) = Cable::new("ether") else {
        return;
    };
    speak_as_a_group(&cable);

    let (left, right) = (
        cable.node(0, "ethernet = [\"left\"]"),
        cable.node(1, "ethernet = [\"right\"]"),
    );
    let wanted = ControlParameters {
        local_uri: Some("dev://left".to_owned()),
        flags: Some(2),
        mask: Some(2),
        mtu: Some(9000 - 200),
        ..Default::default()
    };
    let uri = "ether://[02:00:00:00:00:02]";
    let face = fetch(&left, &right, uri, Some(wanted.clone()));
    assert_eq!(
        (face.uri.as_str(), face.local_uri.as_str()),
        ("ether://[02:00:00:00:00:01]", "dev://right")
    );
    assert_eq!(
        (face.persistency, face.link_type),
        (1, 0),
        "on demand, point to point"
    );
    let mut app = left.unix();
    let made = app
        .faces()
        .into_iter()
        .find(|face| face.uri == uri)
        .unwrap();
    assert_eq!(
        (made.mtu, made.flags & 2),
        (Some(1400), 2),
        "the interface's MTU at most, and reliable"
    );
    // A command that comes again is answered as before: each has another MTU.
    let mut mtu = 1000;
    let mut create = |app: &mut super::App<_>, uri: &str, device: Option<&str>| {
        mtu += 1;
        let (uri, local_uri) = (Some(uri.to_owned()), device.map(str::to_owned));
        app.command(
            "faces/create",
            &ControlParameters {
                uri,
                local_uri,
                mtu: Some(mtu),
                ..Default::default()
            },
        )
        .status_code
    };
    assert_eq!(
        create(&mut app, uri, Some("dev://left")),
        409,
        "there already"
    );
    assert_eq!(
        create(&mut app, "ether://[02:00:00:00:00:03]", Some("dev://right")),
        406,
        "no such interface here"
    );
    assert_eq!(
        create(&mut app, "ether://[02:00:00:00:00:03]", None),
        406,
        "which interface?"
    );
    assert_eq!(
        create(&mut app, "ether://[01:00:5e:00:17:aa]", Some("dev://left")),
        400
    );
    app.obeyed(
        "faces/destroy",
        &ControlParameters {
            face_id: Some(made.face_id),
            ..Default::default()
        },
    );
    assert_eq!(
        create(&mut app, uri, Some("dev://left")),
        200,
        "it can be made again"
    );
}

/// Failure: frames of the usual size into a narrower path, and no word of it.
#[test]
fn a_narrow_path_makes_smaller_frames() {
    let Some(cable) = Cable::new("mtu") else {
        return;
    };
    let left = cable.node(0, "");
    let mut app = left.unix();
    app.obeyed(
        "faces/create",
        &ControlParameters {
            uri: Some("udp4://192.0.2.2:6363".to_owned()),
            ..Default::default()
        },
    );
    let mtu = |app: &mut super::App<_>| {
        app.faces()
            .into_iter()
            .find(|face| face.uri == "udp4://192.0.2.2:6363")
            .unwrap()
            .mtu
    };
    assert_eq!(mtu(&mut app), Some(1400 - 28));
    let narrower = format!("-n {} link set left mtu 1300", cable.names[0]);
    assert!(
        Command::new("ip")
            .args(narrower.split(' '))
            .status()
            .unwrap()
            .success()
    );
    let deadline = Instant::now() + super::PATIENCE;
    while mtu(&mut app) != Some(1300 - 28) {
        assert!(Instant::now() < deadline, "the path is not looked at again");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A socket on loopback reaches no other machine: routes to other machines failed with the default
/// configuration.
#[test]
fn a_node_that_listens_on_loopback_reaches_a_udp_peer_on_another_machine() {
    let Some(cable) = Cable::new("outgoing") else {
        return;
    };
    let left = cable.node(0, "");
    let (peer, stranger) = (cable.udp(1), cable.udp(1));
    let uri = format!("udp4://{}", peer.local_addr().unwrap());
    let mut app = left.unix();
    let created = app.obeyed(
        "faces/create",
        &ControlParameters {
            uri: Some(uri.clone()),
            ..Default::default()
        },
    );
    let name = Some("/there".parse().unwrap());
    app.obeyed(
        "rib/register",
        &ControlParameters {
            name,
            face_id: created.face_id,
            ..Default::default()
        },
    );
    app.send(&interest("/there/a", 5));
    let mut buffer = [0; 9000];
    let (length, node) = peer.recv_from(&mut buffer).unwrap();
    let asked = LpPacket::decode(&buffer[..length])
        .unwrap()
        .fragment
        .unwrap()
        .to_vec();
    let answer = super::data(&Interest::decode(&asked).unwrap().name.to_name(), 500);
    // What a stranger sends to that port neither becomes a face nor answers.
    stranger.send_to(&answer, node).unwrap();
    peer.send_to(&answer, node).unwrap();
    let received = app.receive().unwrap();
    let received = LpPacket::decode(&received).unwrap();
    assert_eq!(
        (received.header.nack, received.fragment.is_some()),
        (None, true)
    );
    let faces = app.faces();
    let udp: Vec<_> = faces
        .iter()
        .filter(|face| face.uri.starts_with("udp4://192.0.2."))
        .collect();
    assert_eq!(udp.len(), 1, "{udp:?}");
    assert_eq!((udp[0].uri.as_str(), udp[0].in_data), (uri.as_str(), 1));
}
