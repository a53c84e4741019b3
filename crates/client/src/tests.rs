//! The client against a forwarder of a few lines, over real sockets on this machine.

#![allow(
    clippy::disallowed_methods,
    reason = "a test owns the other end's thread"
)]

mod shared_memory;

use super::*;
use larder_packet::{
    ControlParameters, ControlResponse, DataBuilder, DigestSigner, DigestVerifier, InterestBuilder,
    LpHeader, Name, Reliability, encode_lp, tlv,
};
use larder_shared_stream::{Descriptors, SharedStream};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

/// A client, and the forwarder's end of its connection.
fn pair() -> (Client, UnixStream) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("nfd.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let mut client = Client::connect_to(Transport::unix(path)).unwrap();
    client.wait_out(Duration::ZERO);
    let (mut stream, _) = listener.accept().unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    // Most forwarders know no shared memory, and skip the request for it.
    assert_eq!(read_frame(&mut stream), SharedMemory::Request.packet());
    (client, stream)
}

fn data(name: &str, content: &[u8]) -> Vec<u8> {
    let name: Name = name.parse().unwrap();
    DataBuilder::new(&name)
        .content(content)
        .build(&DigestSigner)
        .unwrap()
}

fn interest(name: &str) -> Vec<u8> {
    InterestBuilder::new(name.parse::<Name>().unwrap())
        .nonce(7)
        .build()
}

/// Reads one packet from the client.
fn read_frame(stream: &mut UnixStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        bytes.push(byte[0]);
        if let Some(length) = tlv::frame(&bytes, limits::FRAME_BYTES).unwrap() {
            assert_eq!(length, bytes.len());
            return bytes;
        }
    }
}

/// What a client gets until it got `count` packets, in words.
fn receive(client: &mut Client, count: usize) -> Vec<String> {
    let mut got = Vec::new();
    let deadline = client.now() + Duration::from_secs(10);
    while got.len() < count {
        assert!(client.now() < deadline, "{got:?}");
        client
            .receive(Some(deadline), |_, received, _| {
                got.push(match received {
                    Received::Interest {
                        interest, token, ..
                    } => format!("interest {} {token:?}", interest.name),
                    Received::Data { data, marked, .. } => {
                        format!("data {} {marked} {}", data.name, data.content.len())
                    }
                    Received::Nack { interest, reason } => {
                        format!("nack {} {reason}", interest.name)
                    }
                });
            })
            .unwrap();
    }
    got
}

fn lp(header: LpHeader, packet: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_lp(&header, packet, &mut out);
    out
}

#[test]
fn packets_arrive_however_the_stream_is_cut() {
    let (mut client, mut stream) = pair();
    let token = PitToken::new(&[1, 2]);
    let wires = [
        data("/a", &[1; 8000]),
        lp(
            LpHeader {
                congestion_mark: Some(1),
                ..LpHeader::default()
            },
            &data("/b", b""),
        ),
        lp(
            LpHeader {
                nack: Some(NackReason::NoRoute),
                ..LpHeader::default()
            },
            &interest("/c"),
        ),
        lp(
            LpHeader {
                pit_token: token,
                ..LpHeader::default()
            },
            &interest("/d"),
        ),
        interest("/e"),
    ]
    .concat();
    let writer = thread::spawn(move || {
        for chunk in [wires.clone(), wires].concat().chunks(777) {
            stream.write_all(chunk).unwrap();
            thread::yield_now();
        }
        stream
    });
    let expected = [
        "data /a false 8000",
        "data /b true 0",
        "nack /c NoRoute",
        "interest /d Some(0102)",
        "interest /e None",
    ];
    let mut got = receive(&mut client, 10);
    assert_eq!(got.split_off(5), expected);
    assert_eq!(got, expected);
    writer.join().unwrap();
}

#[test]
fn what_cannot_be_decoded_is_counted_and_costs_nothing_else() {
    let (mut client, mut stream) = pair();
    // An inner length past the end; a Data without signature; an unknown critical LP field; an IDLE
    // packet, which is right.
    for wire in [
        &[5, 8, 0x24, 0x7f, 0, 0, 0, 0, 0, 0][..],
        &[6, 0],
        &[100, 2, 1, 0],
        &[100, 0],
    ] {
        stream.write_all(wire).unwrap();
    }
    stream.write_all(&data("/a", b"x")).unwrap();
    assert_eq!(receive(&mut client, 1), ["data /a false 1"]);
    assert_eq!(client.malformed(), 3);
}

#[test]
fn a_stream_of_garbage_and_a_closed_one_end_with_a_line() {
    let (mut client, mut stream) = pair();
    stream.write_all(&[0; 100]).unwrap();
    let error = client.receive(None, |_, _, _| ()).unwrap_err().to_string();
    assert!(
        error.starts_with("the node sends what is not NDN: "),
        "{error}"
    );

    let (mut client, stream) = pair();
    client.wait_out(Duration::ZERO);
    drop(stream);
    let error = client.receive(None, |_, _, _| ()).unwrap_err().to_string();
    assert!(
        error.starts_with("the node at unix://") && error.ends_with(" closed the connection"),
        "{error}"
    );
}

#[test]
fn nobody_there_says_where_and_what_to_do() {
    let transport =
        Transport::parse("unix:///nowhere/nfd.sock", Some("NDN_CLIENT_TRANSPORT")).unwrap();
    let error = Client::connect_to(transport).err().unwrap().to_string();
    assert_eq!(
        error,
        "cannot connect to unix:///nowhere/nfd.sock (from NDN_CLIENT_TRANSPORT): No such file or directory; \
         start a node with `larder run`"
    );
}

#[test]
fn a_forwarder_that_does_not_read_stops_the_producer_and_not_the_memory() {
    let (mut client, mut stream) = pair();
    let (reader, _open) = (stream.try_clone().unwrap(), stream.try_clone().unwrap());
    const PINGS: usize = 2000;
    let writer = thread::spawn(move || {
        for n in 0..PINGS {
            stream.write_all(&interest(&format!("/p/{n}"))).unwrap();
        }
    });
    let answer = |received: Received<'_>, output: &mut Output| {
        if let Received::Interest { interest, .. } = received {
            let builder = DataBuilder::new(interest.name).content(&[7; 8000]);
            output
                .send(None, |out| builder.build_into(&DigestSigner, out))
                .unwrap();
        }
    };
    let mut most = 0;
    let deadline = client.now() + Duration::from_millis(300);
    while client.now() < deadline {
        client
            .receive(Some(deadline), |_, received, output| {
                answer(received, output)
            })
            .unwrap();
        most = most.max(client.output().waiting_bytes());
    }
    assert!(
        (limits::OUTPUT_BYTES..limits::OUTPUT_BYTES + 10_000).contains(&most),
        "{most}"
    );

    // Once it reads, every Interest is answered.
    let reader = thread::spawn(move || {
        let mut reader = std::io::BufReader::new(reader);
        let mut bytes = vec![0; PINGS * data("/p/0", &[7; 8000]).len()];
        reader.read_exact(&mut bytes).unwrap();
    });
    while !reader.is_finished() {
        let deadline = client.now() + Duration::from_millis(50);
        client
            .receive(Some(deadline), |_, received, output| {
                answer(received, output)
            })
            .unwrap();
    }
    reader.join().unwrap();
    writer.join().unwrap();
}

/// Answers a registration with this status; returns the command.
fn answer_registration(mut stream: UnixStream, code: u64) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let command = read_frame(&mut stream);
        let interest = Interest::decode(&command).unwrap();
        let response = ControlResponse {
            status_code: code,
            status_text: "as you like".into(),
            body: None,
        };
        let reply = DataBuilder::new(interest.name)
            .content(&response.encode())
            .build(&DigestSigner)
            .unwrap();
        // What was on its way before is not taken for the answer.
        stream.write_all(&data("/other", b"")).unwrap();
        stream.write_all(&reply).unwrap();
        command
    })
}

#[test]
fn an_interest_right_behind_the_registration_s_answer_is_lost() {
    let (mut client, mut stream) = pair();
    let forwarder = thread::spawn(move || {
        let command = read_frame(&mut stream);
        let asked = Interest::decode(&command).unwrap();
        let response = ControlResponse {
            status_code: 200,
            status_text: "OK".into(),
            body: None,
        };
        let reply = DataBuilder::new(asked.name)
            .content(&response.encode())
            .build(&DigestSigner)
            .unwrap();
        // In one write, so that one read brings both.
        stream
            .write_all(&[reply, interest("/my/first")].concat())
            .unwrap();
        stream
    });
    client.register(&"/my".parse().unwrap()).unwrap();
    let _stream = forwarder.join().unwrap();
    assert_eq!(receive(&mut client, 1), ["interest /my/first None"]);
}

/// Other prefixes are registered while the first ones are asked for.
#[test]
fn what_arrives_during_a_registration_is_lost() {
    let (mut client, mut stream) = pair();
    let forwarder = thread::spawn(move || {
        let mut arriving = 0;
        for _ in 0..2 {
            let command = read_frame(&mut stream);
            let asked = Interest::decode(&command).unwrap();
            let response = ControlResponse {
                status_code: 200,
                status_text: "OK".into(),
                body: None,
            };
            let reply = DataBuilder::new(asked.name)
                .content(&response.encode())
                .build(&DigestSigner)
                .unwrap();
            for kind in 0..3 {
                arriving += 1;
                let token = PitToken::new(&[arriving]);
                let refused = LpHeader {
                    nack: Some(NackReason::NoRoute),
                    ..LpHeader::default()
                };
                let marked = LpHeader {
                    congestion_mark: Some(1),
                    ..LpHeader::default()
                };
                let packet = match kind {
                    0 => lp(
                        LpHeader {
                            pit_token: token,
                            ..LpHeader::default()
                        },
                        &interest(&format!("/a/{arriving}")),
                    ),
                    1 => lp(marked, &data(&format!("/a/{arriving}"), b"content")),
                    _ => lp(refused, &interest(&format!("/a/{arriving}"))),
                };
                stream.write_all(&packet).unwrap();
            }
            stream.write_all(&reply).unwrap();
        }
        stream.write_all(&interest("/a/last")).unwrap();
        stream
    });
    client.register(&"/a".parse().unwrap()).unwrap();
    client.register(&"/b".parse().unwrap()).unwrap();
    let _stream = forwarder.join().unwrap();
    let expected = [
        "interest /a/1 Some(01)",
        "data /a/2 true 7",
        "nack /a/3 NoRoute",
        "interest /a/4 Some(04)",
        "data /a/5 true 7",
        "nack /a/6 NoRoute",
        "interest /a/last None",
    ];
    assert_eq!(receive(&mut client, 7), expected);
}

/// A flood during a registration takes a bounded part of the memory.
#[test]
fn a_flood_during_a_registration_takes_memory_without_end() {
    let (mut client, mut stream) = pair();
    let forwarder = thread::spawn(move || {
        let command = read_frame(&mut stream);
        for _ in 0..3 * limits::KEPT_BYTES / 8000 {
            stream.write_all(&data("/flood", &[0; 8000])).unwrap();
        }
        let asked = Interest::decode(&command).unwrap();
        let response = ControlResponse {
            status_code: 200,
            status_text: "OK".into(),
            body: None,
        };
        stream
            .write_all(
                &DataBuilder::new(asked.name)
                    .content(&response.encode())
                    .build(&DigestSigner)
                    .unwrap(),
            )
            .unwrap();
        stream.write_all(&interest("/a/last")).unwrap();
        stream
    });
    client.register(&"/a".parse().unwrap()).unwrap();
    let _stream = forwarder.join().unwrap();
    let kept = limits::KEPT_BYTES / 8100;
    // The last call may return what follows, too.
    let mut got = receive(&mut client, kept);
    let mut rest = got.split_off(kept);
    assert!(
        got.iter().all(|packet| packet.starts_with("data /flood")),
        "the first ones are kept"
    );
    while rest
        .last()
        .is_none_or(|packet| packet != "interest /a/last None")
    {
        rest.extend(receive(&mut client, 1));
    }
    assert!(rest.len() < kept / 2, "{} more", rest.len());
}

#[test]
fn a_registration_is_signed_as_forwarders_ask() {
    let (mut client, stream) = pair();
    let forwarder = answer_registration(stream, 200);
    client.register(&"/my/prefix".parse().unwrap()).unwrap();
    let command = forwarder.join().unwrap();
    let interest = Interest::decode(&command).unwrap();
    assert!(
        interest
            .name
            .to_string()
            .starts_with("/localhost/nfd/rib/register/"),
        "{}",
        interest.name
    );
    assert!(interest.check_parameters_digest().is_ok() && interest.verify(&DigestVerifier).is_ok());
    let info = interest.signature_info().unwrap();
    let now_ms = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_millis() as u64;
    assert!(info.time.unwrap().abs_diff(now_ms) < 60_000 && info.nonce.unwrap().len() == 8);
    let parameters = ControlParameters::decode(interest.name.component(4).unwrap().value).unwrap();
    assert_eq!(parameters.name, Some("/my/prefix".parse().unwrap()));
    assert_eq!(parameters.flags, Some(1));
}

#[test]
fn a_refused_registration_says_why() {
    let (mut client, stream) = pair();
    let forwarder = answer_registration(stream, 403);
    let error = client.register(&"/my".parse().unwrap()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the node refused the registration of /my: 403 as you like"
    );
    forwarder.join().unwrap();

    let (mut client, mut stream) = pair();
    let forwarder = thread::spawn(move || {
        let command = read_frame(&mut stream);
        let header = LpHeader {
            nack: Some(NackReason::NoRoute),
            ..LpHeader::default()
        };
        stream.write_all(&lp(header, &command)).unwrap();
        stream
    });
    let error = client.register(&"/my".parse().unwrap()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the node refused the registration of /my: no management here (Nack NoRoute)"
    );
    forwarder.join().unwrap();
}

#[test]
fn large_packets_cross_small_datagrams() {
    let forwarder = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    forwarder
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let uri = format!("udp4://{}", forwarder.local_addr().unwrap());
    let mut client = Client::connect_to(Transport::parse(&uri, None).unwrap()).unwrap();
    client.wait_out(Duration::ZERO);
    // As to another machine.
    client.output = Output::datagrams(limits::UDP_MTU, 1);
    let packet = data("/large", &[9; 8000]);
    client
        .output()
        .send(PitToken::new(&[5]), |out| out.extend_from_slice(&packet));
    client.flush(Duration::from_secs(1)).unwrap();

    let (mut reassembler, mut buffer) = (Reassembler::new(), [0; 9000]);
    let mut datagrams = Vec::new();
    let (whole, client_address) = loop {
        let (length, from) = forwarder.recv_from(&mut buffer).unwrap();
        assert!(length <= limits::UDP_MTU);
        datagrams.push(buffer[..length].to_vec());
        let lp = LpPacket::decode(&buffer[..length]).unwrap();
        if let Reassembled::Done(packet, header) =
            reassembler.accept(Time::ZERO, &lp.header, lp.fragment.unwrap())
        {
            break ((packet, header.pit_token), from);
        }
    };
    assert_eq!(whole, (packet, PitToken::new(&[5])));

    // And back, in another order, with something broken between.
    datagrams.reverse();
    datagrams.insert(2, b"\x64\xff".to_vec());
    for datagram in &datagrams {
        forwarder.send_to(datagram, client_address).unwrap();
    }
    assert_eq!(receive(&mut client, 1), ["data /large false 8000"]);
    assert_eq!(client.malformed(), 1);
}

/// Failure: what the link to another machine loses is asked for again only when the whole transfer
/// finds it missing, and what comes twice is used twice.
#[test]
fn what_a_link_loses_is_lost() {
    let forwarder = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    forwarder
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let uri = format!("udp4://{}", forwarder.local_addr().unwrap());
    let mut client = Client::connect_to(Transport::parse(&uri, None).unwrap()).unwrap();
    client.wait_out(Duration::ZERO);
    // As to another machine.
    client.output = Output::datagrams(limits::UDP_MTU, 1);
    client
        .output()
        .send(None, |out| out.extend_from_slice(&interest("/a")));
    let neighbour = thread::spawn(move || {
        let mut link = Reliability::with_stranger(9);
        let mut buffer = [0; 9000];
        let mut next = || {
            let (length, from) = forwarder.recv_from(&mut buffer).unwrap();
            (buffer[..length].to_vec(), from)
        };
        let lost = next().0;
        let (again, client) = next();
        assert_ne!(lost, again, "another transmission");
        let is_same = |a: &[u8], b: &[u8]| {
            LpPacket::decode(a).unwrap().fragment == LpPacket::decode(b).unwrap().fragment
        };
        assert!(is_same(&lost, &again));
        assert!(link.receive(Time::ZERO, &again));
        let mut answer = Vec::new();
        let packet = data("/a", &[7; 100]);
        link.send(
            Time::ZERO,
            &LpHeader::default(),
            &packet,
            limits::UDP_MTU,
            |frame| answer.push(frame.to_vec()),
        )
        .unwrap();
        // Its Ack is late: it goes twice.
        link.on_timeout(Time::from_secs(1), limits::UDP_MTU, |frame| {
            answer.push(frame.to_vec())
        });
        answer.push(data("/b", &[]));
        assert_eq!(answer.len(), 3);
        for frame in &answer {
            _ = forwarder.send_to(frame, client).unwrap();
        }
        // It is heard of.
        while link.counters().acknowledged == 0 {
            let frame = next().0;
            link.receive(Time::from_secs(1), &frame);
        }
    });
    assert_eq!(
        receive(&mut client, 2),
        ["data /a false 100", "data /b false 0"]
    );
    let deadline = client.now() + Duration::from_millis(100);
    while client.now() < deadline {
        client.receive(Some(deadline), |_, _, _| ()).unwrap();
    }
    neighbour.join().unwrap();
}

#[test]
fn a_default_path_must_exist_in_a_directory_of_ours() {
    assert!(!transport::is_ours(std::path::Path::new(
        "/nowhere/nfd.sock"
    )));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("nfd.sock");
    let _listener = UnixListener::bind(&path).unwrap();
    assert!(transport::is_ours(&path));
}

#[test]
fn datagrams_that_go_together_arrive_one_by_one() {
    let forwarder = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    forwarder
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let uri = format!("udp://{}", forwarder.local_addr().unwrap());
    let mut client = Client::connect_to(Transport::parse(&uri, None).unwrap()).unwrap();
    client.wait_out(Duration::ZERO);
    // Runs of one size, with a shorter and a longer one between them.
    let names: Vec<String> = (0..200)
        .map(|n| format!("/{}/{n:03}", "x".repeat([9, 9, 9, 3, 9, 20][n % 6])))
        .collect();
    for name in &names {
        client
            .output()
            .send(None, |out| out.extend_from_slice(&interest(name)));
    }
    client.flush(Duration::from_secs(10)).unwrap();
    let mut buffer = [0; 9000];
    for name in &names {
        let (bytes, from) = forwarder.recv_from(&mut buffer).unwrap();
        assert_eq!(buffer[..bytes], interest(name));
        forwarder.send_to(&data(name, b"y"), from).unwrap();
    }
    let got = receive(&mut client, names.len());
    let expected: Vec<String> = names
        .iter()
        .map(|name| format!("data {name} false 1"))
        .collect();
    assert_eq!(got, expected);
}

#[test]
fn an_end_behind_a_short_read_is_missed() {
    let patience = Some(Time::from_secs(10));
    for together in [true, false] {
        let (mut client, mut stream) = pair();
        stream.write_all(&data("/last", b"x")).unwrap();
        let mut open = Some(stream).filter(|_| !together);
        let mut got = 0;
        client.receive(patience, |_, _, _| got += 1).unwrap();
        assert_eq!(got, 1);
        drop(open.take());
        let ended = client.receive(patience, |_, _, _| panic!("nothing more was sent"));
        assert!(
            matches!(ended, Err(ClientError::Closed(_))),
            "together: {together}, {ended:?}"
        );
    }
}

/// Failure: an application that had no processor for a while takes for late what has come
/// meanwhile, and asks for it again.
#[test]
fn what_waits_to_be_read_is_late() {
    let forwarder = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let uri = format!("udp://{}", forwarder.local_addr().unwrap());
    let mut client = Client::connect_to(Transport::parse(&uri, None).unwrap()).unwrap();
    client.wait_out(Duration::ZERO);
    client
        .output()
        .send(None, |out| out.extend_from_slice(&interest("/a")));
    client.flush(Duration::from_secs(10)).unwrap();
    let (_, from) = forwarder.recv_from(&mut [0; 9000]).unwrap();
    for n in 0..100 {
        forwarder
            .send_to(&data(&format!("/a/{n}"), b"x"), from)
            .unwrap();
    }
    let mut got = 0;
    client
        .receive(Some(Time::ZERO), |_, _, _| got += 1)
        .unwrap();
    assert_eq!(got, 100);
}

#[test]
fn a_deadline_that_has_passed_starves_the_receiver() {
    let (mut client, mut stream) = pair();
    let mut got = 0;
    for n in 0..3 {
        stream
            .write_all(&data(&format!("/late/{n}"), b"x"))
            .unwrap();
        client
            .receive(Some(Time::ZERO), |_, _, _| got += 1)
            .unwrap();
        client
            .receive(Some(Time::ZERO), |_, _, _| got += 1)
            .unwrap();
    }
    assert_eq!(got, 3);
}
