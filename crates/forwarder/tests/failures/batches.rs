//! A batch that does something else than its frames one after the other.

use super::world::{Sent, World, command, data, interest, nack, name as name_of};
use larder_forwarder::stages::{STAGES, Stage};
use larder_forwarder::{
    Config, FaceId, Forwarder, Outbox, Received, SecondTier, Send, TierFigures, TierLookup,
    TierRecord,
};
use larder_packet::{ControlParameters, LpHeader, NackReason, NameRef, PitToken, encode_lp};
use larder_policy::Engine;
use larder_units::{ByteSize, Streams};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const NAMES: [&str; 7] = [
    "/a",
    "/a/b",
    "/a/b/c",
    "/a/d/e/f",
    "/g",
    "/localhost/x",
    "/localhost/nfd/status/general",
];

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(NAMES.as_slice())
}

fn frame() -> impl Strategy<Value = Vec<u8>> {
    let asked = (
        name(),
        any::<bool>(),
        any::<bool>(),
        0u32..40,
        prop::option::of(0u8..3),
    )
        .prop_map(|(name, prefix, fresh, nonce, hops)| {
            let builder = interest(name, nonce)
                .can_be_prefix(prefix)
                .must_be_fresh(fresh);
            match hops {
                Some(hops) => builder.hop_limit(hops).build(),
                None => builder.build(),
            }
        });
    let bare = prop_oneof![
        6 => asked,
        4 => (name(), any::<bool>()).prop_map(|(name, fresh)| data(name, b"x", fresh.then_some(Duration::from_secs(9)))),
        1 => (name(), 0u32..40).prop_map(|(name, nonce)| nack(&interest(name, nonce).build(), NackReason::NoRoute)),
        1 => prop::collection::vec(any::<u8>(), 0..20),
    ];
    // Some under a link header, some in pieces that come alone.
    (bare, 0u8..24).prop_map(|(bare, link)| under_header(bare, link))
}

/// The packet under one of the link headers that neighbours and applications send, or bare.
fn under_header(bare: Vec<u8>, link: u8) -> Vec<u8> {
    let empty = LpHeader::default();
    let header = match link {
        0..3 => LpHeader {
            pit_token: PitToken::new(&[link; 4]),
            ..empty
        },
        3 => LpHeader {
            pit_token: PitToken::new(&[7; 32]),
            congestion_mark: Some(1),
            ..empty
        },
        4 => LpHeader {
            no_cache: true,
            interest_rate: Some(5),
            ..empty
        },
        5 => LpHeader {
            next_hop_face: Some(2),
            sequence: Some(9),
            ..empty
        },
        6 => LpHeader {
            sequence: Some(7),
            frag_count: 2,
            ..empty
        },
        7 => LpHeader {
            pit_token: PitToken::new(&[7; 4]),
            nack: Some(NackReason::Congestion),
            ..empty
        },
        _ => return bare,
    };
    let mut wire = Vec::new();
    encode_lp(&header, &bare, &mut wire);
    wire
}

fn world() -> (World, [FaceId; 3]) {
    let mut world = World::with(
        "filter(theta=2,window=16,table=1024)+lru",
        ByteSize::from_bytes(1500),
    );
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

/// Passes batches of frames from some faces to one world frame by frame, and whole to another. The
/// order in which one Data goes to several consumers is that of a hash table, and not compared.
fn compare<const FACES: usize>(
    world: impl Fn() -> (World, [FaceId; FACES]),
    batches: Vec<Batch>,
) -> Result<(), TestCaseError> {
    let ((one, faces), (many, _)) = (world(), world());
    compare_worlds(one, many, faces, batches, |_, _| Ok(()))
}

fn compare_worlds<const FACES: usize>(
    mut one: World,
    mut many: World,
    faces: [FaceId; FACES],
    batches: Vec<Batch>,
    mut after_each: impl FnMut(&mut World, &mut World) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let mut out = Outbox::new();
    for mut batch in batches {
        let (mut expected, mut dropped) = (Vec::new(), Vec::new());
        for (index, (face, frame)) in batch.clone().iter_mut().enumerate() {
            if let Err(why) = one
                .forwarder
                .on_packet(one.now, faces[*face], frame, &mut out)
            {
                dropped.push((index, why));
            }
            let input = out.input();
            expected.extend(
                out.drain()
                    .map(|send| encoded(index, &send, &frame[input.clone()])),
            );
        }
        let frames = batch.iter_mut().map(|(face, frame)| Received {
            face: faces[*face],
            frame,
        });
        let mut frames: Vec<Received<'_>> = frames.collect();
        many.forwarder.on_packets(many.now, &mut frames, &mut out);
        let encoded = |send: &Send| {
            encoded(
                send.index,
                send,
                &frames[send.index].frame[out.input_of(send)],
            )
        };
        let mut sent: Vec<_> = out.sends().iter().map(encoded).collect();
        prop_assert!(sent.is_sorted_by_key(|(index, ..)| *index));
        sent.sort();
        expected.sort();
        prop_assert_eq!(sent, expected);
        prop_assert_eq!(format!("{:?}", out.drops()), format!("{dropped:?}"));
        after_each(&mut one, &mut many)?;
        let [mut expected, mut sent] =
            [&mut one, &mut many].map(|world| world.pass(Duration::from_millis(900)));
        sort(&mut expected);
        sort(&mut sent);
        prop_assert_eq!(sent, expected);
        many.forwarder.check_invariants();
        let figures = |world: &World| {
            format!(
                "{:?} {:?}",
                world.forwarder.stats(),
                world.forwarder.face_stats()
            )
        };
        prop_assert_eq!(figures(&one), figures(&many));
    }
    Ok(())
}

fn sort(sent: &mut [Sent]) {
    sent.sort_by_key(|sent| format!("{sent:?}"));
}

/// Frames that come in runs of one kind and from one face, as from a neighbour: names that repeat,
/// names without a route, a few Interests with CanBePrefix.
fn run() -> impl Strategy<Value = Batch> {
    let name = (0u8..30)
        .prop_map(|number| format!("/{}/{number}", if number % 5 == 0 { "none" } else { "a" }));
    let asked = (name.clone(), 0u32..200, 0u8..20).prop_map(|(name, nonce, kind)| {
        let name = if kind == 0 { "/a" } else { &name };
        interest(name, nonce)
            .can_be_prefix(kind == 0)
            .must_be_fresh(kind == 1)
            .build()
    });
    let answer = (name, any::<bool>())
        .prop_map(|(name, fresh)| data(&name, b"x", fresh.then_some(Duration::from_secs(9))));
    prop_oneof![
        (0usize..2, prop::collection::vec(asked, 1..50)),
        (Just(2), prop::collection::vec(answer, 1..50)),
    ]
    .prop_map(|(face, frames)| frames.into_iter().map(|frame| (face, frame)).collect())
}

/// A node whose PIT has as many entries, with a route for `/a`.
fn small_world(policy: &str, pit_entries: usize) -> (World, [FaceId; 3]) {
    let streams = Streams::new(1);
    let engine = Engine::new(
        &policy.parse().unwrap(),
        ByteSize::from_bytes(1500),
        &streams,
    )
    .unwrap();
    let config = Config {
        pit_entries,
        ..Config::new([1, 2], streams)
    };
    let mut world = World::of(Forwarder::new(config, engine));
    let faces = [world.local(), world.remote(), world.remote()];
    world.route("/a", faces[2], 1);
    (world, faces)
}

/// A tier whose reads complete when the test says so.
#[derive(Clone, Default)]
struct Shelf(Arc<Mutex<Shelved>>);

#[derive(Default)]
struct Shelved {
    /// Each with the position at which it was put.
    records: BTreeMap<Vec<u8>, TierRecord>,
    reads: Vec<(u64, Vec<u8>)>,
    puts: u64,
}

impl SecondTier for Shelf {
    fn tier_lookup(&mut self, name: NameRef<'_>, ticket: u64) -> TierLookup {
        let mut shelved = self.0.lock().unwrap();
        let name = name.as_bytes().to_vec();
        if shelved.records.contains_key(&name) {
            shelved.reads.push((ticket, name))
        } else {
            return TierLookup::Absent;
        }
        TierLookup::Reading
    }

    fn put(&mut self, name: NameRef<'_>, record: bytes::Bytes) {
        let mut shelved = self.0.lock().unwrap();
        shelved.puts += 1;
        let record = TierRecord {
            record,
            position: shelved.puts,
        };
        shelved.records.insert(name.as_bytes().to_vec(), record);
    }

    fn erase(&mut self, _: NameRef<'_>) {}

    fn holds(&self, name: NameRef<'_>, position: u64) -> bool {
        let shelved = self.0.lock().unwrap();
        shelved
            .records
            .get(name.as_bytes())
            .is_some_and(|record| record.position == position)
    }

    fn figures(&self) -> TierFigures {
        TierFigures {
            entries: self.0.lock().unwrap().records.len(),
            ..TierFigures::default()
        }
    }
}

impl Shelf {
    /// Completes the reads; returns what the forwarder sent then.
    fn read(&self, world: &mut World) -> Vec<Sent> {
        let reads = std::mem::take(&mut self.0.lock().unwrap().reads);
        let mut sent = Vec::new();
        for (ticket, name) in reads {
            let found = self.0.lock().unwrap().records.get(&name).cloned();
            world
                .forwarder
                .on_tier_lookup(world.now, ticket, found, &mut world.outbox);
            sent.extend(world.collect(&[]));
        }
        sent
    }
}

/// A node with two upstreams, for names below `/a` and for the delegations of forwarding hints.
fn wide_world(policy: &str, strategy: &str, tier: Option<&Shelf>) -> (World, [FaceId; 5]) {
    let mut world = World::with(policy, ByteSize::from_bytes(1500));
    let faces = [
        world.local(),
        world.remote(),
        world.remote(),
        world.remote(),
        world.remote(),
    ];
    for (prefix, face, cost) in [
        ("/a", 3, 1),
        ("/a", 4, 2),
        ("/a/3", 4, 1),
        ("/hint/3", 3, 0),
        ("/hint/4/x", 4, 0),
    ] {
        world.route(prefix, faces[face], cost);
    }
    world
        .forwarder
        .set_strategy(&name_of("/a"), &name_of(strategy))
        .unwrap();
    if let Some(tier) = tier {
        world.forwarder.set_tier(Box::new(tier.clone()));
    }
    (world, faces)
}

/// Interests from three faces and Data from two, mixed: forwarding hints, link headers, names that
/// repeat.
fn wide() -> impl Strategy<Value = Batch> {
    const HINTS: [&[&str]; 4] = [
        &[],
        &["/hint/3"],
        &["/hint/4/x/y", "/hint/3"],
        &["/nowhere", "/hint/4"],
    ];
    let named = |number: u8| {
        format!(
            "/{}/{}/{number}",
            if number.is_multiple_of(5) {
                "none"
            } else {
                "a"
            },
            number % 4
        )
    };
    let asked = (
        0usize..3,
        0u8..30,
        0u32..300,
        prop::sample::select(HINTS.as_slice()),
        0u8..30,
        0u8..40,
    );
    let asked = asked.prop_map(move |(face, number, nonce, hints, selectors, link)| {
        let builder = interest(&named(number), nonce)
            .can_be_prefix(selectors == 0)
            .must_be_fresh(selectors == 1);
        let hints: Vec<_> = hints.iter().map(|hint| name_of(hint)).collect();
        let builder = if hints.is_empty() {
            builder
        } else {
            builder.forwarding_hint(&hints)
        };
        (face, under_header(builder.build(), link))
    });
    let answer = (3usize..5, 0u8..30, any::<bool>(), 0u8..40).prop_map(
        move |(face, number, fresh, link)| {
            let data = data(
                &named(number),
                b"x",
                fresh.then_some(Duration::from_secs(9)),
            );
            (face, under_header(data, link))
        },
    );
    let asked = prop::collection::vec(asked, 1..40);
    let answers = prop::collection::vec(answer, 1..40);
    let mixed = prop::collection::vec(prop_oneof![asked, answers], 1..4);
    mixed.prop_map(|runs| runs.concat())
}

const STRATEGIES: [&str; 6] = [
    "best-route",
    "multicast",
    "asf",
    "hobhis",
    "random",
    "stateful",
];

const POLICIES: [&str; 4] = [
    "fifo",
    "arc",
    "filter(theta=2,window=16,table=1024)+lru",
    "tinylfu(window=640)+random",
];

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

    #[test]
    fn a_batch_takes_other_paths_than_its_frames(
        policy in prop::sample::select(POLICIES.as_slice()),
        strategy in prop::sample::select(STRATEGIES.as_slice()),
        has_tier in any::<bool>(),
        batches in prop::collection::vec(wide(), 1..6),
    ) {
        let shelves = [Shelf::default(), Shelf::default()];
        let strategy = format!("/localhost/nfd/strategy/{strategy}");
        let [(one, faces), (many, _)] =
            shelves.each_ref().map(|shelf| wide_world(policy, &strategy, has_tier.then_some(shelf)));
        compare_worlds(one, many, faces, batches, |one, many| {
            let [mut expected, mut sent] =
                [(one, &shelves[0]), (many, &shelves[1])].map(|(world, shelf)| shelf.read(world));
            sort(&mut expected);
            sort(&mut sent);
            prop_assert_eq!(sent, expected);
            Ok(())
        })?;
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
        let mut batch: Vec<_> = frames
            .iter_mut()
            .map(|frame| Received {
                face: faces[face],
                frame,
            })
            .collect();
        let profile = world
            .forwarder
            .profile(world.now, &mut batch, &mut out, &mut clock);
        let passed = profile.ticks.into_iter().zip(profile.packets);
        (passed.collect::<Vec<_>>(), out.drain().count())
    };
    let stages = |of: &[(Stage, u32)]| {
        let mut all = vec![(0, 0); STAGES];
        for (stage, packets) in of {
            all[*stage as usize] = (10, *packets);
        }
        all
    };
    use Stage::{
        Answer, DataSend, Decode, FibLookup, PitDelete, PitInsert, PitLookup, PitMatch, Prefetch,
    };
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
    assert_eq!(
        profile(&mut world, 0, (0..9).map(asked).collect()),
        (misses, 9)
    );
    // One of them was not asked for.
    let answered = stages(&[
        (Decode, 10),
        (Prefetch, 10),
        (PitMatch, 10),
        (StoreInsert, 9),
        (DataSend, 9),
        (PitDelete, 9),
    ]);
    assert_eq!(
        profile(&mut world, 2, (0..10).map(answer).collect()),
        (answered, 9)
    );
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
        let parameters = ControlParameters {
            name: Some("/a".parse().unwrap()),
            ..ControlParameters::default()
        };
        let mut register = command("rib", "register", &parameters, 1);
        let mut asked = interest("/a/b", 2).build();
        let mut frames = [
            Received {
                face: application,
                frame: &mut register,
            },
            Received {
                face: consumer,
                frame: &mut asked,
            },
        ];
        let mut out = Outbox::new();
        world.forwarder.on_packets(world.now, &mut frames, &mut out);
        let sent: Vec<_> = out
            .sends()
            .iter()
            .map(|send| (send.index, send.face))
            .collect();
        assert_eq!(sent, [(0, application), (1, application)], "{number}");
    }
}
