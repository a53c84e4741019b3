//! Pending Interests that never end, or end without telling.

use super::world::{Packet, World, data, faces, interest, nack, name};
use larder_packet::NackReason;
use larder_units::{ByteSize, Time};
use proptest::prelude::*;
use std::collections::HashMap;
use std::time::Duration;

#[test]
fn an_interest_that_nobody_answers_is_gone_after_its_lifetime() {
    let mut world = World::new();
    let (consumer, producer) = (world.local(), world.local());
    world.route("/a", producer, 0);
    let frame = interest("/a/b", 1)
        .lifetime(Duration::from_millis(700))
        .build();
    assert_eq!(faces(&world.sent(consumer, frame)), [producer]);
    world.pass(Duration::from_millis(699));
    assert_eq!(world.forwarder.stats().pit_entries, 1);
    world.pass(Duration::from_millis(2));
    let stats = world.forwarder.stats();
    assert_eq!((stats.pit_entries, stats.unsatisfied), (0, 1));
    assert!(
        world.data(producer, "/a/b").is_empty(),
        "Data after its Interest's end is unsolicited"
    );
}

#[test]
fn a_year_long_lifetime_is_cut() {
    let mut world = World::new();
    let (consumer, producer) = (world.local(), world.local());
    world.route("/", producer, 0);
    world.sent(
        consumer,
        interest("/a", 1)
            .lifetime(Duration::from_secs(365 * 86_400))
            .build(),
    );
    world.pass(Duration::from_secs(601));
    assert_eq!(world.forwarder.stats().pit_entries, 0);
}

#[test]
fn a_lifetime_of_zero_ends_at_once() {
    let mut world = World::new();
    let (consumer, producer) = (world.local(), world.local());
    world.route("/", producer, 0);
    world.sent(consumer, interest("/a", 1).lifetime(Duration::ZERO).build());
    world.pass(Duration::from_millis(2));
    assert_eq!(world.forwarder.stats().pit_entries, 0);
}

#[test]
fn a_consumer_that_went_away_gets_nothing_and_the_others_do() {
    let mut world = World::new();
    let (one, two, producer) = (world.local(), world.local(), world.local());
    world.route("/", producer, 0);
    world.interest(one, "/a", 1);
    world.interest(two, "/a", 2);
    world.forwarder.remove_face(one);
    let sent = world.data(producer, "/a");
    assert!(sent.iter().any(|sent| sent.face == two));
    assert_eq!(world.forwarder.stats().pit_entries, 0);
}

#[derive(Clone, Debug)]
enum Step {
    Interest {
        face: usize,
        name: usize,
        nonce: u32,
        can_be_prefix: bool,
        must_be_fresh: bool,
        lifetime_ms: u64,
    },
    Data {
        face: usize,
        name: usize,
        fresh: bool,
    },
    Nack {
        face: usize,
        name: usize,
        nonce: u32,
        reason: u64,
    },
    Pass(u64),
    Reconnect(usize),
}

const NAMES: [&str; 6] = ["/a", "/a/b", "/a/b/c", "/a/d", "/e", "/localhop/f"];

fn step() -> impl Strategy<Value = Step> {
    let face = 0usize..4;
    let name = 0usize..NAMES.len();
    prop_oneof![
        4 => (face.clone(), name.clone(), 0u32..6, any::<bool>(), any::<bool>(), 1u64..3000).prop_map(
            |(face, name, nonce, can_be_prefix, must_be_fresh, lifetime_ms)| Step::Interest {
                face, name, nonce, can_be_prefix, must_be_fresh, lifetime_ms
            }
        ),
        3 => (face.clone(), name.clone(), any::<bool>()).prop_map(|(face, name, fresh)| Step::Data { face, name, fresh }),
        1 => (face.clone(), name, 0u32..6, prop_oneof![Just(50u64), Just(100), Just(150)])
            .prop_map(|(face, name, nonce, reason)| Step::Nack { face, name, nonce, reason }),
        2 => (0u64..2000).prop_map(Step::Pass),
        1 => face.prop_map(Step::Reconnect),
    ]
}

proptest! {
    /// Whatever comes in whatever order: Data and Nacks go only to who asked and has not been
    /// answered, nothing is sent back to where it came from, and in the end nothing is pending.
    #[test]
    fn nobody_gets_what_he_did_not_ask_for(steps in prop::collection::vec(step(), 1..80), multicast in any::<bool>(), tiny in any::<bool>()) {
        let capacity = if tiny { ByteSize::from_bytes(600) } else { ByteSize::from_mib(1) };
        let mut world = World::with("filter(theta=2)+lru", capacity);
        let mut ids = [world.local(), world.local(), world.remote(), world.remote()];
        if multicast {
            let strategy = larder_forwarder::strategy::strategy_by_name("multicast").unwrap();
            world.forwarder.set_strategy(&name("/"), &strategy).unwrap();
        }
        let routes = [("/a", 2), ("/a/b", 3), ("/", 1), ("/localhop", 3)];
        for (prefix, face) in routes {
            world.route(prefix, ids[face], face as u64);
        }
        // By face and name: until when somebody there waits.
        let mut asked: HashMap<(u64, String), Time> = HashMap::new();
        for step in steps {
            let mut came_from = None;
            let sent = match step {
                Step::Interest { face, name, nonce, can_be_prefix, must_be_fresh, lifetime_ms } => {
                    let lifetime = Duration::from_millis(lifetime_ms);
                    let until = asked.entry((ids[face].0, NAMES[name].to_owned())).or_default();
                    *until = (*until).max(world.now + lifetime);
                    came_from = Some(ids[face]);
                    let builder = interest(NAMES[name], nonce).can_be_prefix(can_be_prefix).must_be_fresh(must_be_fresh);
                    world.sent(ids[face], builder.lifetime(lifetime).build())
                }
                Step::Data { face, name, fresh } => {
                    world.sent(ids[face], data(NAMES[name], b"x", fresh.then_some(Duration::from_secs(1))))
                }
                Step::Nack { face, name, nonce, reason } => {
                    world.sent(ids[face], nack(&interest(NAMES[name], nonce).build(), NackReason::from_code(reason)))
                }
                Step::Pass(millis) => world.pass(Duration::from_millis(millis)),
                Step::Reconnect(face) => {
                    world.forwarder.remove_face(ids[face]);
                    ids[face] = if face < 2 { world.local() } else { world.remote() };
                    for (prefix, _) in routes.iter().filter(|(_, at)| *at == face) {
                        world.route(prefix, ids[face], face as u64);
                    }
                    Vec::new()
                }
            };
            for sent in sent {
                let waits = |of: &dyn Fn(&str) -> bool| {
                    asked.iter().any(|((face, name), until)| *face == sent.face.0 && of(name) && !until.has_passed(world.now))
                };
                match &sent.packet {
                    Packet::Data { name, .. } => {
                        let uri = name.to_string();
                        prop_assert!(waits(&|asked| uri.starts_with(asked)), "{} to {}", uri, sent.face);
                    }
                    Packet::Nack { name, .. } => {
                        let uri = name.to_string();
                        prop_assert!(waits(&|asked| uri == asked), "Nack of {} to {}", uri, sent.face);
                    }
                    Packet::Interest { .. } => prop_assert_ne!(Some(sent.face), came_from),
                }
            }
            world.forwarder.check_invariants();
            let stats = world.forwarder.stats();
            prop_assert!(stats.content_store_bytes <= stats.content_store_capacity_bytes);
        }
        world.pass(Duration::from_secs(10));
        prop_assert_eq!(world.forwarder.stats().pit_entries, 0);
        prop_assert_eq!(world.forwarder.next_timeout(), None);
    }
}
