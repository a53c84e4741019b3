//! A batch that does something else than its frames one after the other.

use super::world::{World, command, data, interest, nack};
use larder_forwarder::stages::{STAGES, Stage};
use larder_forwarder::{Config, FaceId, Forwarder, Outbox, Received, Send};
use larder_packet::{ControlParameters, LpHeader, NackReason, PitToken, encode_lp};
use larder_policy::Engine;
use larder_units::{ByteSize, Streams};
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

/// The frame that caused a send, by its number; the face; the bytes.
fn encoded(index: usize, send: &Send, input: &[u8]) -> (usize, FaceId, Vec<u8>) {
    let mut wire = Vec::new();
    send.write_stream(input, &mut wire);
    (index, send.face, wire)
}

type Batch = Vec<(usize, Vec<u8>)>;

/// Passes batches of frames from three faces to one world frame by frame, and whole to another. The
/// order in which one Data goes to several consumers is that of a hash table, and not compared.
fn compare(world: impl Fn() -> (World, [FaceId; 3]), batches: Vec<Batch>) -> Result<(), TestCaseError> {
    let ((mut one, faces), (mut many, _)) = (world(), world());
    let mut out = Outbox::new();
    for mut batch in batches {
        let (mut expected, mut dropped) = (Vec::new(), Vec::new());
        for (index, (face, frame)) in batch.clone().iter_mut().enumerate() {
            if let Err(why) = one.forwarder.on_packet(one.now, faces[*face], frame, &mut out) {
                dropped.push((index, why));
            }
            let input = out.input();
            expected.extend(out.drain().map(|send| encoded(index, &send, &frame[input.clone()])));
        }
        let frames = batch.iter_mut().map(|(face, frame)| Received { face: faces[*face], frame });
        let mut frames: Vec<Received<'_>> = frames.collect();
        many.forwarder.on_packets(many.now, &mut frames, &mut out);
        let encoded = |send: &Send| encoded(send.index, send, &frames[send.index].frame[out.input_of(send)]);
        let mut sent: Vec<_> = out.sends().iter().map(encoded).collect();
        prop_assert!(sent.is_sorted_by_key(|(index, ..)| *index));
        sent.sort();
        expected.sort();
        prop_assert_eq!(sent, expected);
        prop_assert_eq!(format!("{:?}", out.drops()), format!("{dropped:?}"));
        one.pass(Duration::from_millis(900));
        many.pass(Duration::from_millis(900));
        many.forwarder.check_invariants();
        let figures = |world: &World| format!("{:?} {:?}", world.forwarder.stats(), world.forwarder.face_stats());
        prop_assert_eq!(figures(&one), figures(&many));
    }
    Ok(())
}

/// Frames that come in runs of one kind and from one face, as from a neighbour: names that repeat,
/// names without a route, a few Interests with CanBePrefix.
fn run() -> impl Strategy<Value = Batch> {
    let name = (0u8..30).prop_map(|number| format!("/{}/{number}", if number % 5 == 0 { "none" } else { "a" }));
    let asked = (name.clone(), 0u32..200, 0u8..20).prop_map(|(name, nonce, kind)| {
        let name = if kind == 0 { "/a" } else { &name };
        interest(name, nonce).can_be_prefix(kind == 0).must_be_fresh(kind == 1).build()
    });
    let answer =
        (name, any::<bool>()).prop_map(|(name, fresh)| data(&name, b"x", fresh.then_some(Duration::from_secs(9))));
    prop_oneof![(0usize..2, prop::collection::vec(asked, 1..50)), (Just(2), prop::collection::vec(answer, 1..50)),]
        .prop_map(|(face, frames)| frames.into_iter().map(|frame| (face, frame)).collect())
}

/// A node whose PIT has as many entries, with a route for `/a`.
fn small_world(policy: &str, pit_entries: usize) -> (World, [FaceId; 3]) {
    let streams = Streams::new(1);
    let engine = Engine::new(&policy.parse().unwrap(), ByteSize::from_bytes(1500), &streams).unwrap();
    let config = Config { pit_entries, ..Config::new([1, 2], streams) };
    let mut world = World::of(Forwarder::new(config, engine));
    let faces = [world.local(), world.remote(), world.remote()];
    world.route("/a", faces[2], 1);
    (world, faces)
}

const POLICIES: [&str; 4] = ["fifo", "arc", "filter(theta=2,window=16,table=1024)+lru", "tinylfu(window=640)+random"];

proptest! {
    #[test]
    fn a_batch_sends_what_its_frames_would_one_by_one(
        batches in prop::collection::vec(prop::collection::vec((0usize..3, frame()), 1..70), 1..5),
    ) {
        compare(world, batches)?;
    }

    #[test]
    fn a_stage_of_a_packet_disturbs_another_packet_of_its_run(
        policy in prop::sample::select(POLICIES.as_slice()),
        pit_entries in prop::sample::select([3usize, 40, 1000].as_slice()),
        batches in prop::collection::vec(prop::collection::vec(run(), 1..4), 1..6),
    ) {
        compare(|| small_world(policy, pit_entries), batches.into_iter().map(|runs| runs.concat()).collect())?;
    }
}

/// Failure: the account of a batch misses packets, counts them in another stage, or comes from
/// another forwarder than that of [`Forwarder::on_packets`].
#[test]
fn a_stage_has_the_cost_of_other_packets() {
    let asked = |number: u8| interest(&format!("/a/{number}"), 1).build();
    let answer = |number: u8| data(&format!("/a/{number}"), b"x", None);
    let (mut world, faces) = small_world("fifo", 1000);
    let (mut out, mut time) = (Outbox::new(), 0);
    // The clock is read once for each stage and run, and once where each begins.
    let mut clock = || {
        time += 10;
        time
    };
    let mut profile = |world: &mut World, face: usize, mut frames: Vec<Vec<u8>>| {
        let mut batch: Vec<_> = frames.iter_mut().map(|frame| Received { face: faces[face], frame }).collect();
        let profile = world.forwarder.profile(world.now, &mut batch, &mut out, &mut clock);
        let passed = profile.ticks.into_iter().zip(profile.packets);
        (passed.collect::<Vec<_>>(), out.drain().count())
    };
    let stages = |of: &[(Stage, u32)]| {
        let mut all = vec![(0, 0); STAGES];
        of.iter().for_each(|(stage, packets)| all[*stage as usize] = (10, *packets));
        all
    };
    use Stage::{Answer, DataSend, Decode, FibLookup, PitDelete, PitInsert, PitLookup, PitMatch, Prefetch};
    use Stage::{StoreInsert, StoreLookup};
    let misses = stages(&[
        (Decode, 9),
        (Prefetch, 9),
        (PitLookup, 9),
        (StoreLookup, 9),
        (PitInsert, 9),
        (FibLookup, 9),
        (Answer, 9),
    ]);
    assert_eq!(profile(&mut world, 0, (0..9).map(asked).collect()), (misses, 9));
    // One of them was not asked for.
    let answered =
        stages(&[(Decode, 10), (Prefetch, 10), (PitMatch, 10), (StoreInsert, 9), (DataSend, 9), (PitDelete, 9)]);
    assert_eq!(profile(&mut world, 2, (0..10).map(answer).collect()), (answered, 9));
    assert_eq!(world.forwarder.stats().pit_entries, 0);
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
