//! Strategies that stay with a next hop that is slow, dead or crowded though another is there.

use super::world::{Packet, World, faces, name};
use larder_forwarder::FaceId;
use larder_forwarder::strategy::strategy_by_name;
use std::collections::HashMap;
use std::time::Duration;

fn choose(world: &mut World, strategy: &str) {
    let strategy = strategy_by_name(strategy).unwrap();
    world.forwarder.set_strategy(&name("/"), &strategy).unwrap();
}

/// One exchange: who was asked, the first as it is and others as probes; each answers after its own
/// delay, or never.
fn exchange(
    world: &mut World,
    consumer: FaceId,
    i: u32,
    delays: &[(FaceId, Option<u64>)],
) -> Vec<FaceId> {
    let uri = format!("/a/{i}");
    let sent = world.interest(consumer, &uri, i * 2 + 1_000_000);
    let asked = faces(&sent);
    let nonces: Vec<u32> = sent
        .iter()
        .map(|sent| match sent.packet {
            Packet::Interest { nonce, .. } => nonce,
            ref other => panic!("{other:?}"),
        })
        .collect();
    assert!(
        nonces.windows(2).all(|pair| pair[0] != pair[1]),
        "a probe has a nonce of its own"
    );
    let answers = delays.iter().filter(|(face, _)| asked.contains(face));
    match answers
        .filter_map(|(face, delay)| delay.map(|delay| (delay, *face)))
        .min()
    {
        Some((delay, face)) => {
            world.pass(Duration::from_millis(delay));
            assert_eq!(faces(&world.data(face, &uri)), [consumer]);
        }
        None => _ = world.pass(Duration::from_secs(4)),
    }
    world.pass(Duration::from_secs(1));
    asked
}

#[test]
fn asf_finds_the_faster_next_hop_and_leaves_it_when_it_dies() {
    let mut world = World::new();
    let (consumer, cheap, fast) = (world.local(), world.remote(), world.remote());
    world.route("/a", cheap, 1);
    world.route("/a", fast, 100);
    choose(&mut world, "asf/v=5/probing-interval~2000");
    let alive = [(cheap, Some(200)), (fast, Some(5))];
    assert_eq!(
        exchange(&mut world, consumer, 0, &alive)[0],
        cheap,
        "nothing is known: by cost"
    );
    let first: Vec<FaceId> = (1..30)
        .map(|i| exchange(&mut world, consumer, i, &alive)[0])
        .collect();
    assert!(first[15..].iter().all(|face| *face == fast), "{first:?}");
    let dead = [(cheap, Some(200)), (fast, None)];
    let first: Vec<FaceId> = (30..45)
        .map(|i| exchange(&mut world, consumer, i, &dead)[0])
        .collect();
    assert!(first[4..].iter().all(|face| *face == cheap), "{first:?}");
    // And back: probes find out that it answers again.
    let first: Vec<FaceId> = (45..90)
        .map(|i| exchange(&mut world, consumer, i, &alive)[0])
        .collect();
    assert!(first[30..].iter().all(|face| *face == fast), "{first:?}");
}

#[test]
fn asf_asks_one_next_hop_between_probes() {
    let mut world = World::new();
    let (consumer, one, two) = (world.local(), world.remote(), world.remote());
    world.route("/a", one, 1);
    world.route("/a", two, 2);
    choose(&mut world, "asf");
    let delays = [(one, Some(10)), (two, Some(20))];
    let probes = (0..300)
        .filter(|i| exchange(&mut world, consumer, *i, &delays).len() > 1)
        .count();
    // 300 s and a bit, a probe each minute after the first within 5 s.
    assert!((5..=6).contains(&probes), "{probes}");
}

#[test]
fn random_spreads_over_all_next_hops_and_retries_another() {
    let mut world = World::new();
    let consumer = world.local();
    let hops: Vec<FaceId> = (0..3).map(|_| world.remote()).collect();
    for (cost, face) in hops.iter().enumerate() {
        world.route("/a", *face, cost as u64);
    }
    choose(&mut world, "random");
    let delays: Vec<_> = hops.iter().map(|face| (*face, Some(1))).collect();
    let mut counts: HashMap<FaceId, u32> = HashMap::new();
    for i in 0..600 {
        let asked = exchange(&mut world, consumer, i, &delays);
        assert_eq!(asked.len(), 1);
        *counts.entry(asked[0]).or_default() += 1;
    }
    assert!(
        hops.iter().all(|face| (150..250).contains(&counts[face])),
        "{counts:?}"
    );
    let frame = super::world::interest("/a/refused", 7).build();
    let mut asked = faces(&world.sent(consumer, frame.clone()));
    for _ in 0..2 {
        let refusal = super::world::nack(&frame, larder_packet::NackReason::NoRoute);
        asked.extend(faces(&world.sent(*asked.last().unwrap(), refusal)));
    }
    asked.sort();
    assert_eq!(asked, hops, "each once");
}

#[test]
fn every_strategy_refuses_where_there_is_nobody() {
    for strategy in larder_forwarder::strategy::strategy_names() {
        let mut world = World::new();
        let consumer = world.local();
        choose(&mut world, strategy);
        assert!(
            matches!(
                world.interest(consumer, "/a", 1)[0].packet,
                Packet::Nack { .. }
            ),
            "{strategy}"
        );
        assert_eq!(world.forwarder.stats().pit_entries, 0);
    }
}
