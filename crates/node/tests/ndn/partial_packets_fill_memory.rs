//! Senders that begin packets and do not end them, on every transport.

use super::{Stage, WebSocket, data, interest};
use larder_packet::{LpHeader, encode_lp};
use std::io::Write;
use std::net::UdpSocket;

const BUDGET: u64 = 256 << 10;

/// The beginning of a packet of 8000 bytes.
fn beginning(bytes: usize) -> Vec<u8> {
    data(&"/a".parse().unwrap(), 7900)[..bytes].to_vec()
}

/// The first of many fragments of a packet.
fn fragment(sequence: u64) -> Vec<u8> {
    let header = LpHeader {
        sequence: Some(sequence),
        frag_count: 10,
        ..LpHeader::default()
    };
    let mut frame = Vec::new();
    encode_lp(&header, &[5; 1200], &mut frame);
    frame
}

fn held(stage: &Stage) -> u64 {
    stage.figure("/ndn/partial_input_bytes")
}

#[test]
fn announced_websocket_messages_take_memory_without_end() {
    let stage = Stage::new();
    let mut senders: Vec<WebSocket> = (0..100).map(|_| stage.websocket("")).collect();
    for sender in &mut senders {
        sender.send_frame(0x82, &vec![7; 240_000], 250_000);
    }
    stage.await_figure("/ndn/drops/oversized", |count| count == 100);
    assert_eq!(held(&stage), 0, "what is not wanted is not kept");
    assert!(stage.websocket("").is_answered(1));
    // The rest comes: the connection stands, and the next packet is found.
    senders[0].send_frame(0, &[7; 10_000 - 14], 0);
    assert!(senders[0].is_answered(2));
}

#[test]
fn partial_packets_of_all_transports_exceed_one_budget_or_stop_an_honest_client() {
    let stage = Stage::with(&format!(
        "partial_input = \"{}KiB\"\npartial_timeout = \"20s\"",
        BUDGET >> 10
    ));
    let (mut unix, mut tcp, mut web): (Vec<_>, Vec<_>, Vec<_>) = Default::default();
    // A quarter more than the budget comes on the streams, and as much again in fragments.
    for round in 0..14 {
        unix.push(stage.unix());
        tcp.push(stage.tcp());
        web.push(stage.websocket(""));
        unix[round].send(&beginning(7800));
        tcp[round].send(&beginning(7800));
        web[round].send_frame(0x82, &beginning(7800), 8000);
    }
    let most = |most: u64| {
        let held = held(&stage);
        // With several shards, the largest gives up when it wakes.
        assert!(held <= BUDGET + 100_000, "{held}");
        most.max(held)
    };
    let mut seen = 0;
    let forged: Vec<UdpSocket> = (0..10).map(|_| stage.udp()).collect();
    for round in 0..20 {
        for (number, socket) in forged.iter().enumerate() {
            for piece in 0..8 {
                drop(socket.send(&fragment(
                    (round * 8 + piece) * 100 + number as u64 * 100_000,
                )))
            }
        }
        seen = most(seen);
        // Honest clients of every kind, one with a packet in two pieces and one with a packet in
        // fragments.
        assert!(stage.unix().is_answered(1) && stage.websocket("").is_answered(2));
        let mut honest = stage.tcp();
        let packet = interest("/no/route", 3);
        honest.send(&packet[..10]);
        honest.stream.flush().unwrap();
        honest.send(&packet[10..]);
        assert!(
            honest
                .receive()
                .is_some_and(|frame| super::is_refusal(&frame))
        );
    }
    assert!(seen > BUDGET / 4, "the test fills nothing: {seen}");
    let given_up = stage.figure("/ndn/drops/partial_reclaimed");
    assert!(given_up > 0);
    drop((unix, tcp, web));
    stage.await_figure("/ndn/partial_input_bytes", |held| held == 0);
}

#[test]
fn a_packet_that_makes_no_progress_keeps_its_connection() {
    let stage = Stage::with("partial_timeout = \"1s\"");
    let (mut idle, mut stalled, mut web) = (stage.unix(), stage.tcp(), stage.websocket(""));
    let mut dripping = stage.unix();
    assert!(idle.is_answered(1));
    stalled.send(&beginning(4000));
    web.send_frame(0x82, &beginning(10), 8000);
    let mut writer = dripping.stream.try_clone().unwrap();
    let drips = std::thread::spawn(move || {
        // Ends when the node closes the connection.
        for byte in beginning(7000) {
            if writer.write_all(&[byte]).is_err() {
                return true;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        false
    });
    assert_eq!(
        (stalled.receive(), web.receive(), dripping.receive()),
        (None, None, None)
    );
    assert!(
        drips.join().unwrap(),
        "a packet may last for ever, byte by byte"
    );
    assert_eq!(stage.figure("/ndn/drops/partial_timeout"), 3);
    assert!(idle.is_answered(2), "a connection without a packet stays");
}
