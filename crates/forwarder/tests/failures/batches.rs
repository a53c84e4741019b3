//! A batch that does something else than its frames one after the other.

use super::world::{World, command, data, interest, nack};
use larder_forwarder::{FaceId, Outbox, Received, Send};
use larder_packet::{ControlParameters, LpHeader, NackReason, PitToken, encode_lp};
use larder_units::ByteSize;
use proptest::prelude::*;
use std::time::Duration;

const NAMES: [&str; 7] = ["/a", "/a/b", "/a/b/c", "/a/d/e/f", "/g", "/localhost/x", "/localhost/nfd/status/general"];

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(NAMES.as_slice())
}

fn frame() -> impl Strategy<Value = Vec<u8>> {
    let asked = (name(), any::<bool>(), any::<bool>(), 0u32..40, prop::option::of(0u8..3)).prop_map(
        |(name, prefix, fresh, nonce, hops)| {
            let builder = interest(name, nonce).can_be_prefix(prefix).must_be_fresh(fresh);
            match hops {
                Some(hops) => builder.hop_limit(hops).build(),
                None => builder.build(),
            }
        },
    );
    let bare = prop_oneof![
        6 => asked,
        4 => (name(), any::<bool>()).prop_map(|(name, fresh)| data(name, b"x", fresh.then_some(Duration::from_secs(9)))),
        1 => (name(), 0u32..40).prop_map(|(name, nonce)| nack(&interest(name, nonce).build(), NackReason::NoRoute)),
        1 => prop::collection::vec(any::<u8>(), 0..20),
    ];
    // Some under a link header, some in pieces that come alone.
    (bare, 0u8..8).prop_map(|(bare, link)| {
        let token = PitToken::new(&[link; 4]);
        let header = match link {
            0 => LpHeader { pit_token: token, ..LpHeader::default() },
            1 => LpHeader { sequence: Some(7), frag_count: 2, ..LpHeader::default() },
            _ => return bare,
        };
        let mut wire = Vec::new();
        encode_lp(&header, &bare, &mut wire);
        wire
    })
}

fn world() -> (World, [FaceId; 3]) {
    let mut world = World::with("filter(theta=2,window=16,table=1024)+lru", ByteSize::from_bytes(1500));
    let faces = [world.local(), world.local(), world.remote()];
    world.route("/a", faces[1], 1);
    world.route("/a/b", faces[2], 1);
    world.route("/", faces[2], 2);
    (world, faces)
}

fn encoded(send: &Send, input: &[u8]) -> (FaceId, Vec<u8>) {
    let mut wire = Vec::new();
    send.write_stream(input, &mut wire);
    (send.face, wire)
}

proptest! {
    #[test]
    fn a_batch_sends_what_its_frames_would_one_by_one(
        batches in prop::collection::vec(prop::collection::vec((0usize..3, frame()), 1..70), 1..5),
    ) {
        let ((mut one, faces), (mut many, _)) = (world(), world());
        let mut out = Outbox::new();
        for mut batch in batches {
            let mut expected = Vec::new();
            let mut dropped = Vec::new();
            for (index, (face, frame)) in batch.clone().iter_mut().enumerate() {
                if let Err(why) = one.forwarder.on_packet(one.now, faces[*face], frame, &mut out) {
                    dropped.push((index, why));
                }
                let input = out.input();
                expected.extend(out.drain().map(|send| encoded(&send, &frame[input.clone()])));
            }
            let frames = batch.iter_mut().map(|(face, frame)| Received { face: faces[*face], frame });
            let mut frames: Vec<Received<'_>> = frames.collect();
            many.forwarder.on_packets(many.now, &mut frames, &mut out);
            let sent = out.sends().iter().map(|send| encoded(send, &frames[send.index].frame[out.input_of(send)]));
            prop_assert_eq!(sent.collect::<Vec<_>>(), expected);
            prop_assert_eq!(out.drops().iter().map(|(index, _)| *index).collect::<Vec<_>>(), dropped.iter().map(|(index, _)| *index).collect::<Vec<_>>());
            one.pass(Duration::from_millis(900));
            many.pass(Duration::from_millis(900));
            many.forwarder.check_invariants();
            let (one, many) = (one.forwarder.stats(), many.forwarder.stats());
            prop_assert_eq!(format!("{one:?}"), format!("{many:?}"));
        }
    }
}

/// Failure: an Interest is forwarded by the prefixes that were in use when its batch began,
/// although a command before it in the batch has added a route.
#[test]
fn a_route_is_missed_by_the_batch_that_registered_it() {
    for number in 0..3 {
        let mut world = World::new();
        let (consumer, application, other) = (world.local(), world.local(), world.local());
        // The lengths of prefixes in use: none, that of the new route, another.
        match number {
            0 => {}
            1 => world.route("/x", other, 0),
            _ => world.route("/x/y", other, 0),
        }
        let parameters = ControlParameters { name: Some("/a".parse().unwrap()), ..ControlParameters::default() };
        let mut register = command("rib", "register", &parameters, 1);
        let mut asked = interest("/a/b", 2).build();
        let mut frames =
            [Received { face: application, frame: &mut register }, Received { face: consumer, frame: &mut asked }];
        let mut out = Outbox::new();
        world.forwarder.on_packets(world.now, &mut frames, &mut out);
        let sent: Vec<_> = out.sends().iter().map(|send| (send.index, send.face)).collect();
        assert_eq!(sent, [(0, application), (1, application)], "{number}");
    }
}
