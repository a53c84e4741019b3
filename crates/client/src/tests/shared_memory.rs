//! The change of a connection to shared memory.

use super::*;

/// Offers shared memory as a node does, with the first `sent` descriptors of seven, of which three
/// are needed.
fn offer_with(stream: &UnixStream, sent: usize) -> SharedStream {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    use std::os::fd::AsFd;
    let (shared, Descriptors { memory, ear, bell }) = SharedStream::create().unwrap();
    let descriptors = [
        memory.as_fd(),
        ear.as_fd(),
        bell.as_fd(),
        bell.as_fd(),
        bell.as_fd(),
        bell.as_fd(),
        bell.as_fd(),
    ];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(7))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if sent > 0 {
        control.push(SendAncillaryMessage::ScmRights(&descriptors[..sent]));
    }
    let packet = SharedMemory::Offer.packet();
    sendmsg(
        stream,
        &[io::IoSlice::new(&packet)],
        &mut control,
        SendFlags::empty(),
    )
    .unwrap();
    shared
}

fn offer(stream: &UnixStream) -> SharedStream {
    offer_with(stream, 3)
}

/// Reads one packet from shared memory.
fn read_shared(shared: &mut SharedStream) -> Vec<u8> {
    let (mut bytes, deadline) = (Vec::new(), Instant::now() + Duration::from_secs(10));
    loop {
        assert!(Instant::now() < deadline, "{bytes:?}");
        let mut byte = [0];
        match shared.read(&mut byte) {
            Ok(_) => bytes.push(byte[0]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
        if tlv::frame(&bytes, limits::FRAME_BYTES)
            .unwrap()
            .is_some_and(|length| length == bytes.len())
        {
            return bytes;
        }
    }
}

/// Lets the client receive these packets, by name.
fn await_packets(client: &mut Client, packets: &[String]) {
    let received = receive(client, packets.len());
    let names: Vec<_> = received
        .iter()
        .map(|line| line.split(' ').nth(1).unwrap_or_default())
        .collect();
    assert_eq!(
        names,
        packets.iter().map(String::as_str).collect::<Vec<_>>()
    );
}

#[test]
fn a_packet_is_lost_or_overtaken_at_the_change_to_shared_memory() {
    for (before, behind) in [(0, 1), (1, 0), (3, 40), (40, 3)] {
        let (mut client, mut stream) = pair();
        let packets: Vec<String> = (0..before + behind + 6)
            .map(|number| format!("/packet/{number}"))
            .collect();
        let (by_socket, by_memory) = packets.split_at(before + behind + 3);
        for name in &by_socket[..before] {
            stream.write_all(&data(name, &[7; 4000])).unwrap();
        }
        // The client sends too, before it knows.
        client
            .output()
            .send(None, |out| out.extend(interest("/asked/0")));
        let mut shared = offer(&stream);
        // The node goes on over the socket until the client has changed.
        for name in &by_socket[before..before + behind] {
            stream.write_all(&data(name, b"")).unwrap();
        }
        await_packets(&mut client, &by_socket[..before + behind]);
        client
            .output()
            .send(None, |out| out.extend(interest("/asked/1")));
        client.flush(Duration::from_secs(10)).unwrap();
        assert_eq!(read_frame(&mut stream), interest("/asked/0"));
        // With nothing to read before, the client sees the offer only now.
        let mut frame = read_frame(&mut stream);
        if frame == interest("/asked/1") {
            client
                .receive(Some(client.now() + Duration::from_millis(50)), |_, _, _| {})
                .unwrap();
            frame = read_frame(&mut stream);
        } else {
            assert_eq!(read_shared(&mut shared), interest("/asked/1"));
        }
        assert_eq!(frame, SharedMemory::Switch.packet());
        // The first bytes in the memory come before the last ones on the socket.
        for name in by_memory {
            assert!(shared.write(&data(name, b"")).unwrap() > 0);
        }
        for name in &by_socket[before + behind..] {
            stream.write_all(&data(name, &[7; 3000])).unwrap();
        }
        stream.write_all(&SharedMemory::Switch.packet()).unwrap();
        await_packets(&mut client, &packets[before + behind..]);
        client
            .output()
            .send(None, |out| out.extend(interest("/asked/2")));
        client.flush(Duration::from_secs(10)).unwrap();
        assert_eq!(read_shared(&mut shared), interest("/asked/2"));
        // The rest is read, and then the end.
        shared.write(&data("/last", b"")).unwrap();
        drop((shared, stream));
        assert_eq!(receive(&mut client, 1), ["data /last false 0"]);
        let deadline = client.now() + Duration::from_secs(10);
        let ended = client.receive(Some(deadline), |_, _, _| {});
        assert!(matches!(ended, Err(ClientError::Closed(_))), "{ended:?}");
    }
}

#[test]
fn a_client_without_the_descriptors_hangs_or_changes_to_shared_memory() {
    // None, too few, and more than there is room for, so that the system cuts them off.
    for sent in [0, 1, 2, 7] {
        let (mut client, mut stream) = pair();
        let before = data("/before", b"");
        stream.write_all(&before[..10]).unwrap();
        client.receive(Some(Time::ZERO), |_, _, _| {}).unwrap();
        stream.write_all(&before[10..]).unwrap();
        let _shared = offer_with(&stream, sent);
        stream.write_all(&data("/behind", b"")).unwrap();
        assert_eq!(
            receive(&mut client, 2),
            ["data /before false 0", "data /behind false 0"]
        );
        client
            .output()
            .send(None, |out| out.extend(interest("/asked")));
        client.flush(Duration::from_secs(10)).unwrap();
        let asked = if sent < 3 {
            interest("/asked")
        } else {
            SharedMemory::Switch.packet().to_vec()
        };
        assert_eq!(read_frame(&mut stream), asked, "{sent} descriptors");
        stream.write_all(&data("/answer", b"")).unwrap();
        assert_eq!(receive(&mut client, 1), ["data /answer false 0"]);
    }
}

/// A client and a node that have changed to shared memory.
fn shared_pair() -> (Client, UnixStream, SharedStream) {
    let (mut client, mut stream) = pair();
    let shared = offer(&stream);
    client
        .receive(Some(client.now() + Duration::from_millis(1)), |_, _, _| {})
        .unwrap();
    client.flush(Duration::from_secs(10)).unwrap();
    assert_eq!(read_frame(&mut stream), SharedMemory::Switch.packet());
    stream.write_all(&SharedMemory::Switch.packet()).unwrap();
    (client, stream, shared)
}

#[test]
fn a_client_whose_output_is_full_polls_instead_of_waiting_or_misses_the_end() {
    let (mut client, stream, mut shared) = shared_pair();
    shared.write(&data("/first", b"")).unwrap();
    assert_eq!(receive(&mut client, 1), ["data /first false 0"]);
    let packet = data("/large", &[7; 8000]);
    while client.output().waiting_bytes() < 2 * limits::OUTPUT_BYTES {
        client.output().send(None, |out| out.extend(&packet));
    }
    shared.write(&data("/unread", b"")).unwrap();
    // It has something to read, which it leaves until there is room for answers.
    client.socket.spin.waited(Duration::ZERO);
    client
        .receive(Some(client.now() + Duration::from_millis(20)), |_, _, _| {
            panic!("it has no room")
        })
        .unwrap();
    assert!(client.output().waiting_bytes() >= limits::OUTPUT_BYTES);
    client.socket.spin.waited(Duration::ZERO);
    client.socket.readable = true;
    client.socket.wait(Some(Duration::from_millis(1))).unwrap();
    assert_eq!(
        client.socket.spun, 0,
        "it polls although there is something to read"
    );
    drop((stream, shared));
    // What the node left in the memory is not lost with it.
    assert_eq!(receive(&mut client, 1), ["data /unread false 0"]);
    let ended = client.receive(None, |_, _, _| {});
    assert!(matches!(ended, Err(ClientError::Closed(_))), "{ended:?}");
}

#[test]
fn an_answer_is_cut_in_two_at_the_change_to_shared_memory() {
    let (mut client, mut stream) = pair();
    // More than the socket takes, so that the change has to wait within a packet.
    let packets: Vec<Vec<u8>> = (0..200)
        .map(|number| data(&format!("/large/{number}"), &[7; 8000]))
        .collect();
    for packet in &packets {
        client.output().send(None, |out| out.extend(packet));
    }
    assert!(client.flush(Duration::ZERO).is_ok() && client.output().waiting_bytes() > 0);
    let mut shared = offer(&stream);
    let reader = thread::spawn(move || {
        let mut read = Vec::new();
        loop {
            match read_frame(&mut stream) {
                frame if frame == SharedMemory::Switch.packet() => return (stream, read),
                frame => read.push(frame),
            }
        }
    });
    let deadline = Instant::now() + Duration::from_secs(20);
    while !reader.is_finished() {
        assert!(Instant::now() < deadline, "the change does not come");
        let until = client.now() + Duration::from_millis(10);
        client.receive(Some(until), |_, _, _| {}).unwrap();
    }
    let (_stream, read) = reader.join().unwrap();
    assert!(
        read == packets,
        "{} packets of {}",
        read.len(),
        packets.len()
    );
    client
        .output()
        .send(None, |out| out.extend(interest("/behind")));
    client.flush(Duration::from_secs(10)).unwrap();
    assert_eq!(read_shared(&mut shared), interest("/behind"));
}
