//! Bytes that are no packets, and packets with a byte changed.

use super::world::{World, data, faces, interest, nack};
use larder_forwarder::{Detail, Dispatch, DropReason, Dropped, StoredPacket};
use larder_packet::tlv::write_tlv;
use larder_packet::{Fragmenter, LpHeader, NackReason};
use proptest::prelude::*;

#[test]
fn an_inner_length_past_the_end_is_dropped_and_counted() {
    let mut world = World::new();
    let face = world.remote();
    let frame = vec![0x05, 0x08, 0x24, 0x7f, 0, 0, 0, 0, 0, 0];
    assert_eq!(world.frame(face, frame), Err(DropReason::Malformed));
    let stats = world.forwarder.stats();
    assert_eq!(
        (
            stats.drops.get(DropReason::Malformed),
            stats.packets.dropped
        ),
        (1, 1)
    );
}

#[test]
fn an_idle_link_packet_is_nothing() {
    let mut world = World::new();
    let face = world.remote();
    assert_eq!(world.frame(face, vec![100, 0]), Ok(Vec::new()));
}

#[test]
fn a_frame_from_a_face_that_is_gone_is_dropped() {
    let mut world = World::new();
    let face = world.remote();
    world.forwarder.remove_face(face);
    assert_eq!(
        world.frame(face, interest("/a", 1).build()),
        Err(DropReason::NoFace)
    );
}

/// Failure: the log does not say what was wrong with a packet that came in pieces.
#[test]
fn a_broken_packet_in_pieces_is_dropped_without_a_reason() {
    let mut world = World::new();
    let face = world.remote();
    let mut broken = data("/a", b"content", None);
    broken[3] = 0x7f;
    let mut frames = Vec::new();
    let mut fragmenter = Fragmenter::new(7);
    fragmenter
        .fragment(&LpHeader::default(), &broken, 30, |frame| {
            frames.push(frame.to_vec())
        })
        .unwrap();
    let mut last = Ok(());
    for mut frame in frames {
        assert_eq!(last, Ok(()));
        last = world
            .forwarder
            .on_packet(world.now, face, &mut frame, &mut world.outbox);
    }
    let dropped = last.unwrap_err();
    assert!(
        matches!(
            dropped,
            Dropped {
                reason: DropReason::Malformed,
                detail: Detail::Decode(_)
            }
        ),
        "{dropped:?}"
    );
}

/// Failure: Data in shared bytes is lost, or an Interest there goes on with its HopLimit.
#[test]
fn shared_bytes_are_not_read() {
    let mut world = World::new();
    let (consumer, producer) = (world.remote(), world.remote());
    world.route("/", producer, 0);
    let asked = interest("/a", 1).hop_limit(9).build();
    world.sent(consumer, asked.clone());
    let mut share = |packet: &[u8]| {
        let shared = StoredPacket::share(packet);
        let result = world
            .forwarder
            .on_shared(world.now, producer, &shared, &mut world.outbox);
        (
            result.map_err(|dropped| dropped.reason),
            faces(&world.collect(packet)),
        )
    };
    assert_eq!(share(&asked), (Err(DropReason::Malformed), vec![]));
    let answer = data("/a", b"content", None);
    assert_eq!(share(&answer), (Ok(()), vec![consumer]));
    assert_eq!(share(&answer), (Err(DropReason::Unsolicited), vec![]));
    assert_eq!(
        share(&data("/a", &[0; 8800], None)),
        (Err(DropReason::Oversized), vec![])
    );
    assert_eq!(
        faces(&world.interest(consumer, "/a", 2)),
        [consumer],
        "it is stored"
    );
}

proptest! {
    #[test]
    fn no_bytes_lead_past_the_shards(frame in prop::collection::vec(any::<u8>(), 0..200), pending in any::<u64>(), shards in 1usize..65) {
        let dispatch = Dispatch::new([1, 2], shards);
        // As they are, and as a name, which is what is read.
        let mut named = Vec::new();
        write_tlv(&mut named, 7, &frame);
        for typ in [5, 6] {
            let mut packet = Vec::new();
            write_tlv(&mut packet, typ, &named);
            for frame in [&frame, &packet] {
                if let Some(homes) = dispatch.homes(frame, |_| pending) {
                    prop_assert!(homes.iter().next().is_some() && homes.iter().all(|shard| shard < shards));
                }
            }
        }
    }

    #[test]
    fn no_bytes_panic(frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..20)) {
        let mut world = World::new();
        let face = world.remote();
        world.route("/", face, 0);
        for frame in frames {
            world.sent(face, frame);
            world.forwarder.check_invariants();
        }
    }

    #[test]
    fn no_changed_packet_panics(changes in prop::collection::vec((0usize..4, any::<prop::sample::Index>(), any::<u8>()), 1..30)) {
        let mut world = World::new();
        let (one, two) = (world.local(), world.remote());
        world.route("/", two, 0);
        let packets = [
            interest("/a/b", 1).can_be_prefix(true).build(),
            data("/a/b", b"content", None),
            nack(&interest("/a/b", 1).build(), NackReason::NoRoute),
            hex("python-ndn-appv2-register"),
        ];
        for (which, at, byte) in changes {
            let mut frame = packets[which].clone();
            let at = at.index(frame.len());
            frame[at] = byte;
            world.sent(one, frame.clone());
            world.sent(two, frame);
            world.forwarder.check_invariants();
        }
    }
}

pub fn hex(fixture: &str) -> Vec<u8> {
    let path = format!(
        "{}/tests/fixtures/{fixture}.hex",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read_to_string(path).unwrap();
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}
