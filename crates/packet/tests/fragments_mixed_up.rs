//! Fragments come in any order, twice, never, or from somebody hostile: a packet is whole and
//! right, or it is not handed on, and the memory stays within its bound.

use crate::generators;
use larder_packet::limits::{
    LARGEST_PACKET_BYTES, MAX_FRAGMENTS, MAX_PACKET_BYTES, MAX_PARTIAL_PACKETS, PARTIAL_BYTES,
    REASSEMBLY_TIMEOUT, RELIABLE_PARTIAL_BYTES, RELIABLE_PARTIAL_PACKETS,
};
use larder_packet::{
    FragmentDrop, FragmentError, Fragmenter, LpHeader, LpPacket, PitToken, Reassembled, Reassembler,
};
use larder_units::Time;
use proptest::prelude::*;
use std::time::Duration;

fn cut(fragmenter: &mut Fragmenter, header: &LpHeader, packet: &[u8], mtu: usize) -> Vec<Vec<u8>> {
    let mut wires = Vec::new();
    let count = fragmenter
        .fragment(header, packet, mtu, |wire| wires.push(wire.to_vec()))
        .unwrap();
    assert_eq!(count, wires.len());
    wires
}

/// The packet that this fragment completes, if any.
fn accept(reassembler: &mut Reassembler, now: Time, wire: &[u8]) -> Option<(Vec<u8>, LpHeader)> {
    let lp = LpPacket::decode(wire).unwrap();
    match reassembler.accept(now, &lp.header, lp.fragment.unwrap()) {
        Reassembled::Whole(packet) => Some((packet.to_vec(), lp.header)),
        Reassembled::Done(packet, header) => Some((packet, header)),
        Reassembled::Partial | Reassembled::Dropped(_) => None,
    }
}

fn fragment_header(sequence: u64, frag_index: u64, frag_count: u64) -> LpHeader {
    LpHeader {
        sequence: Some(sequence),
        frag_index,
        frag_count,
        ..LpHeader::default()
    }
}

/// A Data of this many bytes, or so.
fn packet(len: usize) -> Vec<u8> {
    let mut packet = vec![6];
    packet.extend((1..len).map(|at| (at % 251) as u8));
    packet
}

proptest! {
    #[test]
    fn in_any_order_and_twice(
        header in generators::header(),
        lens in prop::collection::vec(1usize..=MAX_PACKET_BYTES, 1..6),
        mtu in 150usize..9000,
        first_sequence in any::<u64>(),
        order in any::<u64>(),
    ) {
        let mut fragmenter = Fragmenter::new(first_sequence);
        let packets: Vec<_> = lens.iter().map(|len| packet(*len)).collect();
        let mut wires: Vec<_> = packets.iter().flat_map(|packet| cut(&mut fragmenter, &header, packet, mtu)).collect();
        prop_assert!(wires.iter().all(|wire| wire.len() <= mtu));
        // Every fragment twice, all shuffled; a duplicate that comes after its packet is done
        // starts one that stays incomplete.
        wires.extend(wires.clone());
        shuffle(&mut wires, order);
        let mut reassembler = Reassembler::new();
        let mut done: Vec<_> = wires.iter().filter_map(|wire| accept(&mut reassembler, Time::ZERO, wire)).collect();
        done.sort_by_key(|(packet, _)| packet.clone());
        done.dedup();
        let mut expected: Vec<_> = packets.into_iter().map(|packet| (packet, header)).collect();
        expected.sort_by_key(|(packet, _)| packet.clone());
        expected.dedup();
        prop_assert_eq!(done, expected);
    }

    #[test]
    fn with_one_missing(len in 1000usize..=MAX_PACKET_BYTES, mtu in 150usize..900, missing in any::<prop::sample::Index>(), order in any::<u64>()) {
        let mut wires = cut(&mut Fragmenter::new(7), &LpHeader::default(), &packet(len), mtu);
        wires.remove(missing.index(wires.len()));
        shuffle(&mut wires, order);
        let mut reassembler = Reassembler::new();
        prop_assert!(wires.iter().all(|wire| accept(&mut reassembler, Time::ZERO, wire).is_none()));
    }

    #[test]
    fn from_somebody_hostile(
        fragments in prop::collection::vec(
            ((0u64..300, prop_oneof![0u64..4, 0u64..500, any::<u64>()]), prop_oneof![0u64..6, 0u64..500, any::<u64>()], 0usize..10_000),
            1..400,
        ),
    ) {
        let bytes = packet(10_000);
        let mut reassembler = Reassembler::new();
        for (at, ((sequence, frag_index), frag_count, len)) in fragments.into_iter().enumerate() {
            let now = Time::from_millis(at as u64);
            let header = fragment_header(sequence, frag_index, frag_count);
            if let Reassembled::Done(packet, _) = reassembler.accept(now, &header, &bytes[..len]) {
                prop_assert!(packet.len() <= MAX_PACKET_BYTES);
            }
            prop_assert!(reassembler.held_bytes() <= PARTIAL_BYTES);
        }
    }
}

/// A shuffle that the seed decides.
fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut stream = larder_units::Streams::new(seed).stream("shuffle");
    for at in (1..items.len()).rev() {
        items.swap(at, stream.below(at as u64 + 1) as usize);
    }
}

#[test]
fn memory_at_its_worst() {
    // Each packet as large, and in as many pieces, as one may be, but for the last piece; the short
    // piece first, so that the buffer must grow.
    let bytes = packet(MAX_PACKET_BYTES);
    let mut reassembler = Reassembler::new();
    let mut most = 0;
    for first in (0..MAX_PARTIAL_PACKETS as u64 * 3).map(|at| at * 1000) {
        for index in 0..MAX_FRAGMENTS - 1 {
            let piece = &bytes[..if index == 0 { 1 } else { 22 }];
            let outcome = reassembler.accept(
                Time::ZERO,
                &fragment_header(first + index, index, MAX_FRAGMENTS),
                piece,
            );
            assert_eq!(outcome, Reassembled::Partial);
        }
        most = most.max(reassembler.held_bytes());
    }
    assert!(
        most > PARTIAL_BYTES * 9 / 10 && most <= PARTIAL_BYTES,
        "{most}"
    );
    assert_eq!(
        reassembler.counters().evicted_packets,
        2 * MAX_PARTIAL_PACKETS as u64
    );
}

/// Failure: a client gives up packets of a burst whose repair is under way.
#[test]
fn a_burst_on_a_lossy_link_is_forgotten() {
    let mut fragmenter = Fragmenter::new(0);
    let burst = RELIABLE_PARTIAL_PACKETS;
    let mut wires: Vec<_> = (0..burst)
        .map(|_| {
            cut(
                &mut fragmenter,
                &LpHeader::default(),
                &packet(MAX_PACKET_BYTES),
                1452,
            )
        })
        .collect();
    let repairs: Vec<_> = wires.iter_mut().map(|wires| wires.remove(2)).collect();
    for largest in [MAX_PACKET_BYTES, LARGEST_PACKET_BYTES] {
        let mut reassembler = Reassembler::for_packets_of(largest).of_reliable_link();
        assert!(
            wires
                .iter()
                .flatten()
                .all(|wire| accept(&mut reassembler, Time::ZERO, wire).is_none())
        );
        let whole = repairs
            .iter()
            .filter(|wire| accept(&mut reassembler, Time::ZERO, wire).is_some())
            .count();
        assert_eq!(
            (whole, reassembler.counters().evicted_packets),
            (burst, 0),
            "packets of up to {largest} bytes"
        );
    }
}

/// Failure: packets that begin small and then grow take more memory than one peer may have.
#[test]
fn partial_packets_that_grow_exceed_the_bound() {
    let bytes = packet(LARGEST_PACKET_BYTES);
    let mut reassembler = Reassembler::for_packets_of(LARGEST_PACKET_BYTES).of_reliable_link();
    for (index, len) in [(0, 1), (1, LARGEST_PACKET_BYTES - 1)] {
        for first in (0..2 * RELIABLE_PARTIAL_PACKETS as u64).map(|at| at * 10) {
            let header = fragment_header(first + index, index, 3);
            assert_eq!(
                reassembler.accept(Time::ZERO, &header, &bytes[..len]),
                Reassembled::Partial
            );
            assert!(reassembler.held_bytes() <= RELIABLE_PARTIAL_BYTES + LARGEST_PACKET_BYTES);
        }
    }
    assert!(reassembler.held_bytes() > RELIABLE_PARTIAL_BYTES - LARGEST_PACKET_BYTES);
}

#[test]
fn a_packet_that_fits_goes_as_it_is() {
    let packet = packet(100);
    let mut fragmenter = Fragmenter::new(0);
    assert_eq!(
        cut(&mut fragmenter, &LpHeader::default(), &packet, 100),
        std::slice::from_ref(&packet)
    );
    let header = LpHeader {
        pit_token: PitToken::new(&[1, 2, 3, 4]),
        ..LpHeader::default()
    };
    // 2 for the LpPacket, 6 for the token, 2 for the fragment.
    let wires = cut(&mut fragmenter, &header, &packet, 110);
    assert_eq!(wires.len(), 1);
    assert_eq!(&wires[0][..10], [100, 108, 98, 4, 1, 2, 3, 4, 80, 100]);
    assert_eq!(LpPacket::decode(&wires[0]).unwrap().header, header);
    // One byte less and it takes two, of which the first carries the token.
    let wires = cut(&mut fragmenter, &header, &packet, 109);
    let headers: Vec<_> = wires
        .iter()
        .map(|wire| LpPacket::decode(wire).unwrap().header)
        .collect();
    assert_eq!(
        headers,
        [
            LpHeader {
                pit_token: header.pit_token,
                ..fragment_header(0, 0, 2)
            },
            fragment_header(1, 1, 2)
        ]
    );
}

#[test]
fn an_absurd_mtu_is_refused_before_anything_is_sent() {
    let mut fragmenter = Fragmenter::new(0);
    let mut fragment =
        |mtu| fragmenter.fragment(&LpHeader::default(), &packet(8800), mtu, |_| panic!("sent"));
    for mtu in 0..=22 {
        assert_eq!(fragment(mtu), Err(FragmentError::MtuTooSmall), "{mtu}");
    }
    assert_eq!(fragment(40), Err(FragmentError::TooManyFragments));
    assert_eq!(
        cut(&mut fragmenter, &LpHeader::default(), &packet(8800), 60).len() as u64,
        8800_u64.div_ceil(60 - 22)
    );
}

#[test]
fn fragments_that_make_no_sense() {
    let mut reassembler = Reassembler::new();
    let mut drop = |header, piece: &[u8]| match reassembler.accept(Time::ZERO, &header, piece) {
        Reassembled::Dropped(reason) => Some(reason),
        Reassembled::Partial => None,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        drop(
            LpHeader {
                sequence: None,
                ..fragment_header(0, 0, 2)
            },
            b"x"
        ),
        Some(FragmentDrop::Malformed)
    );
    assert_eq!(
        drop(fragment_header(0, 2, 2), b"x"),
        Some(FragmentDrop::Malformed)
    );
    assert_eq!(
        drop(fragment_header(0, 0, 2), b""),
        Some(FragmentDrop::Malformed)
    );
    assert_eq!(
        drop(fragment_header(0, 0, MAX_FRAGMENTS + 1), b"x"),
        Some(FragmentDrop::TooManyFragments)
    );
    assert_eq!(
        drop(fragment_header(0, 0, u64::MAX), b"x"),
        Some(FragmentDrop::TooManyFragments)
    );
    assert_eq!(
        drop(fragment_header(0, 0, 2), &packet(MAX_PACKET_BYTES + 1)),
        Some(FragmentDrop::TooLarge)
    );
    assert_eq!(
        drop(fragment_header(0, 0, 2), &packet(MAX_PACKET_BYTES)),
        None
    );
    assert_eq!(
        drop(fragment_header(0, 0, 2), b"x"),
        Some(FragmentDrop::Duplicate)
    );
    assert_eq!(
        drop(fragment_header(1, 1, 3), b"x"),
        Some(FragmentDrop::CountMismatch)
    );
    assert_eq!(
        drop(fragment_header(1, 1, 2), b"x"),
        Some(FragmentDrop::TooLarge)
    );
    assert_eq!(
        (
            reassembler.held_bytes(),
            reassembler.counters().dropped_fragments
        ),
        (0, 9)
    );
}

#[test]
fn the_rest_comes_too_late() {
    let wires = cut(
        &mut Fragmenter::new(0),
        &LpHeader::default(),
        &packet(1000),
        600,
    );
    let mut reassembler = Reassembler::new();
    assert_eq!(accept(&mut reassembler, Time::ZERO, &wires[0]), None);
    let late = Time::ZERO + REASSEMBLY_TIMEOUT;
    assert_eq!(accept(&mut reassembler, late, &wires[1]), None);
    assert_eq!(reassembler.counters().timed_out_packets, 1);
    // The late one waits for a first one of its own.
    assert!(accept(&mut reassembler, late + Duration::from_millis(1), &wires[0]).is_some());
    assert_eq!(reassembler.held_bytes(), 0);
}

#[test]
fn networks_of_larger_packets_agree_on_them() {
    let bytes = packet(1 << 20);
    let mut fragmenter = Fragmenter::new(0).for_packets_of(1 << 20);
    let wires = cut(&mut fragmenter, &LpHeader::default(), &bytes, 1500);
    assert!(wires.len() > MAX_FRAGMENTS as usize && wires.iter().all(|wire| wire.len() <= 1500));
    let mut agreed = Reassembler::for_packets_of(1 << 20);
    let done: Vec<_> = wires
        .iter()
        .filter_map(|wire| accept(&mut agreed, Time::ZERO, wire))
        .collect();
    assert!(done.len() == 1 && done[0].0 == bytes);
    let mut others = Reassembler::new();
    assert!(
        wires
            .iter()
            .all(|wire| accept(&mut others, Time::ZERO, wire).is_none())
    );
    assert_eq!(others.held_bytes(), 0);
}
