//! Reassembly of hostile fragments, in any order and over any time: memory stays bounded, packets
//! stay small. And what the fragmenter cuts comes back whole. And a reliable link that hears
//! anything: Acks, Sequences and garbage.
#![no_main]

use larder_packet::limits::UNACKNOWLEDGED_BYTES;
use larder_packet::limits::{MAX_LP_PACKET_BYTES, MAX_PACKET_BYTES, MAX_PARTIAL_PACKETS};
use larder_packet::{Fragmenter, LpHeader, LpPacket, Reassembled, Reassembler, Reliability, tlv};
use larder_units::Time;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    hostile(bytes);
    over_a_reliable_link(bytes);
    cut_and_joined(bytes);
});

/// The input as a stream of link packets, 37 ms apart: time-outs happen.
fn hostile(mut bytes: &[u8]) {
    let mut reassembler = Reassembler::new();
    let mut now = Time::ZERO;
    while let Ok(Some(length)) = tlv::frame(bytes, MAX_LP_PACKET_BYTES) {
        let (wire, rest) = bytes.split_at(length);
        (bytes, now) = (rest, Time::from_nanos(now.nanos() + 37_000_000));
        let Ok(LpPacket {
            header,
            fragment: Some(fragment),
            ..
        }) = LpPacket::decode(wire)
        else {
            continue;
        };
        match reassembler.accept(now, &header, fragment) {
            Reassembled::Whole(packet) => assert_eq!(packet, fragment),
            Reassembled::Done(packet, header) => {
                assert!(packet.len() <= MAX_PACKET_BYTES);
                assert_eq!(
                    (header.frag_index, header.frag_count, header.sequence),
                    (0, 1, None)
                );
            }
            Reassembled::Partial | Reassembled::Dropped(_) => {}
        }
        assert!(reassembler.held_bytes() <= MAX_PARTIAL_PACKETS * MAX_PACKET_BYTES);
    }
}

/// The input as frames that a neighbour sends, each answered by a packet of ours; then the
/// neighbour is silent, and everything ends.
fn over_a_reliable_link(mut bytes: &[u8]) {
    let mut link = Reliability::new(8);
    // Acks have a time of their own. A silence that lasts already has six, and so has the one in
    // which all that is left is given up.
    let (mut now, mut steps) = (Time::ZERO, 1 + 6 + 6);
    while let Ok(Some(length)) = tlv::frame(bytes, MAX_LP_PACKET_BYTES) {
        let (wire, rest) = bytes.split_at(length);
        (bytes, now) = (rest, Time::from_nanos(now.nanos() + 3_000_000));
        link.receive(now, wire);
        let sent = link.send(
            now,
            &LpHeader::default(),
            &wire[..wire.len().min(3000)],
            500,
            |frame| {
                assert!(frame.len() <= 500);
                assert!(LpPacket::decode(frame).is_ok());
                steps += 4;
            },
        );
        assert!(sent.is_ok() && link.held_bytes() <= UNACKNOWLEDGED_BYTES + 500);
        if link.next_timeout().is_some_and(|at| at <= now) {
            link.on_timeout(now, 500, |frame| assert!(frame.len() <= 500));
        }
    }
    // Each frame may have a time of its own for each of the three times that it is sent again, and
    // for the end.
    for _ in 0..steps {
        let Some(at) = link.next_timeout() else { break };
        now = now.max(at);
        link.on_timeout(now, 500, |_| {});
    }
    assert_eq!((link.next_timeout(), link.held_bytes()), (None, 0));
}

/// The input as a packet, cut to an MTU that its first byte chooses.
fn cut_and_joined(packet: &[u8]) {
    let Some(&first) = packet.first() else { return };
    if packet.len() > MAX_PACKET_BYTES {
        return;
    }
    let mut wires = Vec::new();
    let mtu = 64 + usize::from(first) * 8;
    let header = LpHeader {
        congestion_mark: Some(1),
        ..LpHeader::default()
    };
    let cut = Fragmenter::new(u64::MAX - 1)
        .fragment(&header, packet, mtu, |wire| wires.push(wire.to_vec()));
    assert_eq!(cut, Ok(wires.len()));
    let mut reassembler = Reassembler::new();
    let last = wires.len() - 1;
    for (i, wire) in wires.iter().enumerate() {
        assert!(wire.len() <= mtu);
        let LpPacket {
            header: got,
            fragment: Some(fragment),
            ..
        } = LpPacket::decode(wire).expect("our own")
        else {
            panic!("a fragment without bytes");
        };
        match reassembler.accept(Time::ZERO, &got, fragment) {
            Reassembled::Whole(whole) => assert_eq!((whole, got), (packet, header.clone())),
            Reassembled::Done(whole, got) => {
                assert_eq!((&whole[..], got, i), (packet, header.clone(), last))
            }
            Reassembled::Partial => assert!(i < last),
            Reassembled::Dropped(why) => panic!("dropped: {why:?}"),
        }
    }
}
