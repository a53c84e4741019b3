//! The client while its forwarder ends and starts again.

#![allow(
    clippy::disallowed_methods,
    reason = "a test owns the other end's thread"
)]

use super::*;
use larder_packet::{ControlParameters, ControlResponse, DataBuilder, InterestBuilder, Name, tlv};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;

/// Reads one packet, without those that ask for shared memory.
fn read_frame(stream: &mut UnixStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        bytes.push(byte[0]);
        if tlv::frame(&bytes, limits::FRAME_BYTES).unwrap().is_some() {
            if SharedMemory::of(&bytes).is_none() {
                return bytes;
            }
            bytes.clear();
        }
    }
}

/// Accepts a connection and answers the command that comes with this status. Returns the prefix.
fn accept(listener: &UnixListener, code: u64) -> (UnixStream, Name) {
    let (mut stream, _) = listener.accept().unwrap();
    let command = read_frame(&mut stream);
    let interest = Interest::decode(&command).unwrap();
    let parameters = ControlParameters::decode(interest.name.component(4).unwrap().value).unwrap();
    let response = ControlResponse {
        status_code: code,
        status_text: "as you like".into(),
        body: None,
    };
    let reply = DataBuilder::new(interest.name)
        .content(&response.encode())
        .build(&DigestSigner)
        .unwrap();
    stream.write_all(&reply).unwrap();
    (stream, parameters.name.unwrap())
}

fn listener(path: &std::path::Path) -> UnixListener {
    let _ = std::fs::remove_file(path);
    UnixListener::bind(path).unwrap()
}

/// Waits until the client has received an Interest. Returns its name.
fn await_interest(client: &mut Client) -> Result<String, ClientError> {
    let deadline = client.now() + Duration::from_secs(20);
    let mut name = None;
    while name.is_none() {
        assert!(client.now() < deadline);
        client.receive(Some(deadline), |_, received, _| {
            if let Received::Interest { interest, .. } = received {
                name = Some(interest.name.to_string());
            }
        })?;
    }
    Ok(name.unwrap_or_default())
}

#[test]
fn a_registration_is_forgotten_with_the_connection() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("nfd.sock");
    let first = listener(&path);
    let forwarder = thread::spawn(move || {
        let mut prefixes = Vec::new();
        let (mut stream, name) = accept(&first, 200);
        prefixes.push(name.to_string());
        // A part of a packet must not be taken for the start of the next one.
        stream.write_all(&[6, 200, 7]).unwrap();
        drop((stream, first));
        let second = listener(&path);
        let (mut stream, name) = accept(&second, 200);
        prefixes.push(name.to_string());
        stream
            .write_all(
                &InterestBuilder::new("/p/1".parse::<Name>().unwrap())
                    .nonce(1)
                    .build(),
            )
            .unwrap();
        (prefixes, stream)
    });
    let mut client =
        Client::connect_to(Transport::unix(directory.path().join("nfd.sock"))).unwrap();
    client.register(&"/p".parse().unwrap()).unwrap();
    assert_eq!(await_interest(&mut client).unwrap(), "/p/1");
    assert!(client.outage().is_none() && client.is_connected());
    assert_eq!(forwarder.join().unwrap().0, ["/p", "/p"]);
}

#[test]
fn a_refusal_of_the_repeated_registration_is_silent() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("nfd.sock");
    let first = listener(&path);
    let forwarder = thread::spawn(move || {
        drop((accept(&first, 200), first));
        accept(&listener(&path), 403)
    });
    let mut client =
        Client::connect_to(Transport::unix(directory.path().join("nfd.sock"))).unwrap();
    client.register(&"/p".parse().unwrap()).unwrap();
    let error = await_interest(&mut client).unwrap_err().to_string();
    assert_eq!(
        error,
        "the node refused the registration of /p: 403 as you like"
    );
    forwarder.join().unwrap();
}

#[test]
fn a_node_that_never_comes_back_is_waited_for_in_silence() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("nfd.sock");
    let first = listener(&path);
    let mut client = Client::connect_to(Transport::unix(path)).unwrap();
    client.wait_out(Duration::from_millis(100));
    drop((first.accept().unwrap(), first));
    let mut had_outage = false;
    let error = loop {
        // What cannot leave takes no memory.
        client
            .output()
            .send(None, |out| out.extend_from_slice(&[6; 1000]));
        if let Err(error) = client.receive(None, |_, _, _| ()) {
            break error.to_string();
        }
        had_outage |= client.outage().is_some();
    };
    assert!(error.ends_with("closed the connection"), "{error}");
    assert!(had_outage && client.output().waiting_bytes() <= 1000);
}

/// A command that is not repeated, such as a dataset request, is sent again too.
#[test]
fn a_dataset_is_lost_with_the_connection() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("nfd.sock");
    let first = listener(&path);
    let forwarder = thread::spawn(move || {
        let (mut stream, _) = first.accept().unwrap();
        read_frame(&mut stream);
        drop((stream, first));
        let (mut stream, _) = listener(&path).accept().unwrap();
        let asked = read_frame(&mut stream);
        let mut name = Interest::decode(&asked).unwrap().name.to_name();
        name.push_version(1).push_segment(0);
        stream
            .write_all(
                &DataBuilder::new(&name)
                    .content(b"x")
                    .build(&DigestSigner)
                    .unwrap(),
            )
            .unwrap();
        stream
    });
    let mut client =
        Client::connect_to(Transport::unix(directory.path().join("nfd.sock"))).unwrap();
    assert_eq!(client.dataset("faces/list", None).unwrap(), b"x");
    forwarder.join().unwrap();
}
