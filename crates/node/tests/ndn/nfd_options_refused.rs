//! What NFD's management accepts is refused, and what NFD states of faces and routes is not stated.

use super::{App, PATIENCE, Stage, shards};
use larder_node::{Config, Node};
use larder_packet::mgmt::{Element, FaceStatus, RibEntry};
use larder_packet::tlv::TlvReader;
use larder_packet::types::nfd::FLAG_LP_RELIABILITY;
use larder_packet::{ControlParameters, Data, InterestBuilder, Name};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

fn to(uri: impl Into<String>) -> ControlParameters {
    ControlParameters {
        uri: Some(uri.into()),
        ..ControlParameters::default()
    }
}

fn face(app: &mut App<UnixStream>, uri: &str) -> Option<FaceStatus> {
    app.faces().into_iter().find(|face| face.uri == uri)
}

/// A node whose UDP socket has every address of the machine.
fn on_all_addresses() -> Stage {
    let directory = tempfile::tempdir().unwrap();
    let shards = shards();
    let text = format!(
        "[ndn]\nunix = {:?}\ntcp = \"\"\nudp = \"[::]:0\"\nwebsocket = \"\"\nshards = {shards}\n\
         [http]\nlisten = \"\"\n[admin]\nlisten = \"127.0.0.1:0\"\n",
        directory.path().join("nfd.sock")
    );
    let config = Config::parse(&text, "test").unwrap_or_else(|error| panic!("{error}"));
    Stage {
        node: Node::start(&config).unwrap(),
        directory,
    }
}

#[test]
fn an_ipv4_peer_has_an_ipv6_wildcard_as_its_local_uri() {
    let stage = on_all_addresses();
    let port = stage.address("udp").rsplit_once(':').unwrap().1.to_owned();
    let mut app = stage.unix();
    let [heard, created] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    heard
        .send_to(
            &super::interest("/no/route", 1),
            format!("127.0.0.1:{port}"),
        )
        .unwrap();
    heard.recv(&mut [0; 9000]).unwrap();
    let uri = |socket: &UdpSocket| format!("udp4://{}", socket.local_addr().unwrap());
    app.obeyed("faces/create", &to(uri(&created)));
    for peer in [&heard, &created] {
        let status = face(&mut app, &uri(peer)).unwrap();
        assert_eq!(
            status.local_uri,
            format!("udp4://127.0.0.1:{port}"),
            "of {}",
            status.uri
        );
    }
}

#[test]
fn a_stream_states_no_mtu() {
    let stage = Stage::new();
    let (mut app, _tcp) = (stage.unix(), stage.tcp());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    app.obeyed(
        "faces/create",
        &to(format!("tcp4://{}", listener.local_addr().unwrap())),
    );
    let faces = app.faces();
    assert!(faces.len() >= 2, "{faces:?}");
    assert!(faces.iter().all(|face| face.mtu == Some(8800)), "{faces:?}");
}

#[test]
fn options_of_faces_are_refused() {
    let stage = Stage::new();
    let mut app = stage.unix();
    let interval = Some(Duration::from_millis(7));
    for (port, option) in [
        ControlParameters {
            base_congestion_marking_interval: interval,
            ..ControlParameters::default()
        },
        ControlParameters {
            default_congestion_threshold: Some(9),
            ..ControlParameters::default()
        },
        ControlParameters {
            mtu: Some(64),
            ..ControlParameters::default()
        },
        ControlParameters {
            mtu: Some(u64::MAX),
            ..ControlParameters::default()
        },
    ]
    .into_iter()
    .enumerate()
    {
        let uri = format!("udp4://127.0.0.1:{}", 9 + port);
        app.obeyed(
            "faces/create",
            &ControlParameters {
                uri: Some(uri.clone()),
                ..option.clone()
            },
        );
        let status = face(&mut app, &uri).unwrap();
        let wanted = option
            .base_congestion_marking_interval
            .unwrap_or(Duration::from_millis(100));
        assert_eq!(status.base_congestion_marking_interval, Some(wanted));
        assert_eq!(
            status.default_congestion_threshold,
            option.default_congestion_threshold.or(Some(65536))
        );
        if let Some(mtu) = option.mtu {
            assert_eq!(status.mtu, Some(mtu.min(8800)));
        }
    }
    // Of the application's own face.
    let later = ControlParameters {
        base_congestion_marking_interval: interval,
        ..ControlParameters::default()
    };
    assert_eq!(
        app.obeyed("faces/update", &later)
            .base_congestion_marking_interval,
        interval
    );

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let flag = Some(FLAG_LP_RELIABILITY);
    let tcp = to(format!("tcp4://{}", listener.local_addr().unwrap()));
    app.obeyed(
        "faces/create",
        &ControlParameters {
            flags: flag,
            mask: flag,
            ..tcp
        },
    );
}

#[test]
fn an_mtu_of_a_stream_is_taken_or_is_a_conflict() {
    let stage = Stage::new();
    let mut app = stage.unix();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let tcp = to(format!("tcp4://{}", listener.local_addr().unwrap()));
    let with_mtu = ControlParameters {
        mtu: Some(1400),
        ..tcp.clone()
    };
    assert_eq!(app.command("faces/create", &with_mtu).status_code, 406);
    app.obeyed("faces/create", &tcp);
    assert_eq!(
        app.command("faces/create", &with_mtu).status_code,
        406,
        "also where the face exists"
    );
    let udp = ControlParameters {
        mtu: Some(63),
        ..to("udp4://127.0.0.1:9")
    };
    assert_eq!(app.command("faces/create", &udp).status_code, 406);
}

#[test]
fn an_unreachable_udp_address_has_a_face() {
    let stage = Stage::new();
    let mut app = stage.unix();
    // No socket of this node may broadcast; a link-local address without an interface leads
    // nowhere.
    for uri in ["udp4://255.255.255.255:6363", "udp6://[fe80::1]:6363"] {
        let response = app.command("faces/create", &to(uri));
        assert_eq!(response.status_code, 504, "{uri}: {}", response.status_text);
        assert!(face(&mut app, uri).is_none());
    }
}

#[test]
fn the_largest_expiration_period_ends() {
    let stage = Stage::new();
    let mut app = stage.unix();
    let periods = [i64::MAX as u64, u64::MAX, 3_600_000];
    for (number, period) in periods.into_iter().enumerate() {
        let name: Name = format!("/a/{number}").parse().unwrap();
        let expiration = Some(Duration::from_millis(period));
        app.obeyed(
            "rib/register",
            &ControlParameters {
                name: Some(name),
                expiration,
                ..Default::default()
            },
        );
    }
    let list = InterestBuilder::new("/localhost/nfd/rib/list".parse::<Name>().unwrap())
        .can_be_prefix(true);
    app.send(&list.must_be_fresh(true).nonce(3).build());
    let frame = app.receive().unwrap();
    let entries = TlvReader::new(Data::decode(&frame).unwrap().content);
    let mut ends: Vec<(String, bool)> = entries
        .map(|entry| RibEntry::decode(entry.unwrap().wire).unwrap())
        .map(|entry| (entry.name.to_string(), entry.routes[0].expiration.is_some()))
        .collect();
    ends.sort();
    assert_eq!(
        ends,
        [
            ("/a/0".to_owned(), false),
            ("/a/1".to_owned(), false),
            ("/a/2".to_owned(), true)
        ]
    );
}

/// The next connection; nothing else tells when the node makes it.
fn accepted(listener: &TcpListener) -> App<TcpStream> {
    listener.set_nonblocking(true).unwrap();
    let begun = Instant::now();
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                return App {
                    stream,
                    received: Vec::new(),
                };
            }
            Err(_) => assert!(begun.elapsed() < PATIENCE, "no connection"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_permanent_tcp_face_ends_with_its_connection() {
    let stage = Stage::new();
    let mut app = stage.unix();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("tcp4://{}", listener.local_addr().unwrap());
    let wanted = ControlParameters {
        face_persistency: Some(2),
        ..to(&uri)
    };
    let made = app.obeyed("faces/create", &wanted);
    assert_eq!(made.face_persistency, Some(2));
    let name = Some("/far".parse().unwrap());
    app.obeyed(
        "rib/register",
        &ControlParameters {
            name,
            face_id: made.face_id,
            ..ControlParameters::default()
        },
    );
    drop(accepted(&listener));
    // It is connected again, and the route is still there.
    let mut far = accepted(&listener);
    app.send(&super::interest("/far/a", 5));
    far.produce(10);
    assert_eq!(app.receive().unwrap()[0], 6);
    assert_eq!(face(&mut app, &uri).map(|face| face.face_id), made.face_id);
    assert_eq!(
        app.command("faces/create", &to(&uri)).status_code,
        409,
        "it is there"
    );
    app.obeyed(
        "faces/destroy",
        &ControlParameters {
            face_id: made.face_id,
            ..ControlParameters::default()
        },
    );
    assert!(
        far.receive().is_none(),
        "destroyed, its connection is closed"
    );
    assert!(face(&mut app, &uri).is_none());
}

#[test]
fn a_face_that_is_down_and_no_longer_permanent_stays() {
    let stage = Stage::new();
    let mut app = stage.unix();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("tcp4://{}", listener.local_addr().unwrap());
    let wanted = ControlParameters {
        face_persistency: Some(2),
        ..to(&uri)
    };
    let made = app.obeyed("faces/create", &wanted);
    let far = accepted(&listener);
    drop((far, listener));
    // The node needs a moment to read the end of the connection.
    std::thread::sleep(Duration::from_millis(300));
    assert!(face(&mut app, &uri).is_some(), "it is permanent");
    app.obeyed(
        "faces/update",
        &ControlParameters {
            face_id: made.face_id,
            face_persistency: Some(0),
            ..ControlParameters::default()
        },
    );
    let begun = Instant::now();
    while face(&mut app, &uri).is_some() {
        assert!(begun.elapsed() < PATIENCE, "it stays without a connection");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_permanent_face_ends_because_its_peer_stalls() {
    let stage = Stage::with("partial_timeout = \"1s\"");
    let mut app = stage.unix();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("tcp4://{}", listener.local_addr().unwrap());
    let wanted = ControlParameters {
        face_persistency: Some(2),
        ..to(&uri)
    };
    let made = app.obeyed("faces/create", &wanted);
    let mut far = accepted(&listener);
    // The begin of a Data of 200 bytes.
    far.send(&[6, 200, 7]);
    let _again = accepted(&listener);
    assert_eq!(face(&mut app, &uri).map(|face| face.face_id), made.face_id);
}
