//! Fear: an Interest that is held back never goes, goes too early, takes another's turn, or stays
//! when nobody waits for it any more.

use super::local_fields::with_local_fields;
use super::world::{Packet, Sent, World, faces, interest, nack, name};
use larder_forwarder::{CAPTURE, FaceId, Route};
use larder_packet::NackReason;
use larder_units::Time;
use std::time::Duration;

/// Links take 1000 Data a second, and eight Interests of each conversation wait.
fn shaped(more: &str) -> World {
    let mut world = World::new();
    let strategy = format!("/localhost/nfd/strategy/hobhis/v=1/rate~1000/queue~8{more}");
    world
        .forwarder
        .set_strategy(&name("/"), &name(&strategy))
        .unwrap();
    world
}

/// Asks for `count` names under `prefix`; what was sent at once.
fn burst(world: &mut World, consumer: FaceId, prefix: &str, count: u32) -> Vec<Sent> {
    (0..count)
        .flat_map(|n| world.interest(consumer, &format!("{prefix}/{n}"), n + 1))
        .collect()
}

fn names(sent: &[Sent]) -> Vec<String> {
    let name = |sent: &Sent| match &sent.packet {
        Packet::Interest { name, .. } => name.to_string(),
        other => format!("{other:?}"),
    };
    sent.iter().map(name).collect()
}

fn gauge(world: &World, what: &str) -> f64 {
    let gauges = world.forwarder.strategy_gauges(world.now, &name("/"));
    gauges
        .iter()
        .find(|gauge| gauge.name.starts_with(what))
        .map_or(0.0, |gauge| gauge.value)
}

#[test]
fn a_burst_passes_or_is_refused_where_it_could_wait() {
    let mut world = shaped("");
    let (consumer, producer) = (world.remote(), world.remote());
    world.route("/", producer, 1);
    let at_once = burst(&mut world, consumer, "/a", 11);
    assert_eq!(
        faces(&at_once),
        [producer, consumer, consumer],
        "one goes, eight wait, two are too many"
    );
    assert!(matches!(
        at_once[1].packet,
        Packet::Nack {
            reason: NackReason::Congestion,
            ..
        }
    ));
    assert_eq!(
        world.forwarder.stats().pit_entries,
        9,
        "nothing is kept of what was refused"
    );
    assert_eq!(names(&world.pass(Duration::from_micros(999))), [""; 0]);
    assert_eq!(
        names(&world.pass(Duration::from_micros(3001))),
        ["/a/1", "/a/2", "/a/3", "/a/4"]
    );
    assert_eq!(world.pass(Duration::from_secs(1)).len(), 4);
    assert_eq!(
        world.forwarder.next_timeout().map(|at| at > world.now),
        Some(true),
        "it is still asked to release"
    );
    assert_eq!(
        names(&burst(&mut world, consumer, "/b", 2)),
        ["/b/0"],
        "what was idle saves nothing up"
    );
}

#[test]
fn one_conversation_has_all_turns() {
    let mut world = shaped("");
    let (consumer, other, producer) = (world.remote(), world.remote(), world.remote());
    for prefix in &["/a", "/b"] {
        world.route(prefix, producer, 1);
    }
    burst(&mut world, consumer, "/a", 5);
    burst(&mut world, consumer, "/b", 2);
    assert_eq!(
        names(&burst(&mut world, other, "/b/other", 1)),
        ["/b/other/0"],
        "another link has its own turns"
    );
    assert_eq!(
        names(&world.pass(Duration::from_millis(9))),
        ["/a/1", "/b/0", "/a/2", "/b/1", "/a/3", "/a/4"]
    );
}

#[test]
fn an_interest_for_which_nobody_waits_goes_and_takes_a_turn() {
    let mut world = shaped("");
    let (consumer, producer) = (world.remote(), world.remote());
    world.route("/", producer, 1);
    burst(&mut world, consumer, "/a", 2);
    for n in 0..3 {
        let short = interest(&format!("/short/{n}"), 9)
            .lifetime(Duration::from_micros(500))
            .build();
        assert_eq!(world.sent(consumer, short), []);
    }
    burst(&mut world, consumer, "/b", 1);
    assert_eq!(
        names(&world.pass(Duration::from_millis(2))),
        ["/a/1", "/b/0"]
    );
    assert_eq!(
        (gauge(&world, "held"), world.forwarder.stats().pit_entries),
        (0.0, 3)
    );
}

#[test]
fn a_repetition_of_what_is_held_is_held_too() {
    let mut world = shaped("");
    let (consumer, other, producer) = (world.remote(), world.remote(), world.remote());
    world.route("/", producer, 1);
    burst(&mut world, consumer, "/a", 9);
    // Past the suppression of repetitions, which is ten milliseconds, there is nothing held: so
    // from another, and at once.
    for (face, nonce) in [(consumer, 100), (other, 101)] {
        assert_eq!(world.interest(face, "/a/8", nonce), []);
    }
    assert_eq!(gauge(&world, "held"), 8.0);
    let sent = world.pass(Duration::from_millis(8));
    assert_eq!(sent.len(), 8);
    assert_eq!(faces(&world.data(producer, "/a/8")), [consumer, other]);
}

#[test]
fn what_is_held_for_a_face_that_is_gone_stays_or_goes_to_nobody() {
    let mut world = shaped("");
    let (consumer, producer) = (world.remote(), world.remote());
    world.route("/", producer, 1);
    burst(&mut world, consumer, "/a", 5);
    world.forwarder.remove_face(producer);
    assert_eq!(world.pass(Duration::from_millis(10)), []);
    assert_eq!(gauge(&world, "held"), 0.0);
    let producer = world.remote();
    world.route("/", producer, 1);
    burst(&mut world, consumer, "/b", 5);
    world.forwarder.remove_face(consumer);
    assert_eq!(world.pass(Duration::from_millis(100)), []);
    assert_eq!(world.forwarder.strategy_gauges(world.now, &name("/")), []);
}

#[test]
fn who_waits_with_a_face_that_is_gone_waits_in_vain() {
    let mut world = shaped("");
    let (consumer, other, producer) = (world.remote(), world.remote(), world.remote());
    world.route("/", producer, 1);
    burst(&mut world, consumer, "/a", 5);
    assert_eq!(world.interest(other, "/a/3", 100), []);
    world.forwarder.remove_face(consumer);
    assert_eq!(
        names(&world.pass(Duration::from_millis(10))),
        ["/a/3"],
        "what one waits for, and nothing else"
    );
    assert!(faces(&world.data(producer, "/a/3")).contains(&other));
    assert_eq!(world.forwarder.strategy_gauges(world.now, &name("/")), []);
}

#[test]
fn what_a_strategy_held_that_is_no_more_is_held_for_ever() {
    let hobhis = Some(name("/localhost/nfd/strategy/hobhis/v=1/rate~100"));
    for then in [
        hobhis,
        Some(name("/localhost/nfd/strategy/best-route")),
        None,
    ] {
        let mut world = shaped("");
        let (consumer, producer) = (world.remote(), world.remote());
        world.route("/", producer, 1);
        burst(&mut world, consumer, "/a", 3);
        match then {
            Some(strategy) => drop(world.forwarder.set_strategy(&name("/"), &strategy).unwrap()),
            None => world.forwarder.unset_strategy(&name("/")),
        }
        assert_eq!(world.pass(Duration::from_millis(5)), []);
        assert_eq!(
            faces(&world.interest(consumer, "/a/2", 100)),
            [producer],
            "it is repeated, and goes"
        );
    }
}

#[test]
fn who_floods_leaves_no_room_to_wait_in() {
    let mut world = World::new();
    world
        .forwarder
        .set_strategy(
            &name("/"),
            &name("/localhost/nfd/strategy/hobhis/v=1/queue~65536"),
        )
        .unwrap();
    let (flood, consumer, producer) = (world.remote(), world.remote(), world.remote());
    world.route("/", producer, 1);
    let half = larder_forwarder::limits::HELD_INTERESTS as u32 / 2;
    assert_eq!(
        burst(&mut world, flood, "/f", 1 + half).len(),
        1,
        "one goes, the others wait"
    );
    assert_eq!(
        faces(&burst(&mut world, flood, "/g", 1)),
        [flood],
        "refused"
    );
    assert_eq!(
        faces(&burst(&mut world, consumer, "/a", 9)),
        [producer],
        "eight wait"
    );
}

#[test]
fn a_refusal_from_upstream_waits_for_another_turn() {
    let mut world = shaped("");
    let (consumer, cheap, dear) = (world.remote(), world.remote(), world.remote());
    world.route("/", cheap, 1);
    world.route("/", dear, 2);
    let frame = interest("/a", 1).build();
    assert_eq!(faces(&world.sent(consumer, frame.clone())), [cheap]);
    assert_eq!(
        faces(&world.sent(cheap, nack(&frame, NackReason::Congestion))),
        [dear]
    );
    assert_eq!(
        faces(&world.sent(dear, nack(&frame, NackReason::Congestion))),
        [consumer]
    );
    assert_eq!(world.forwarder.stats().pit_entries, 0);
}

#[test]
fn an_application_waits_as_if_it_were_behind_a_link() {
    let mut world = shaped("");
    let (consumer, producer) = (world.local(), world.remote());
    world.route("/", producer, 1);
    assert_eq!(burst(&mut world, consumer, "/a", 100).len(), 100);
}

#[test]
fn data_that_wait_for_the_link_slow_nothing_down() {
    let mut world = shaped("/target~10/report~share");
    let (consumer, producer) = (world.remote(), world.remote());
    world.route("/", producer, 1);
    // Data that come at once leave a backlog: a hundred of them in a hundred milliseconds are none.
    for n in 0..100 {
        world.interest(consumer, &format!("/a/{n}"), n + 1);
        let told = world.data(producer, &format!("/a/{n}"))[0].rate;
        assert_eq!(
            told,
            Some(1009),
            "{n}: ten less one over a hundred milliseconds, a tenth of it"
        );
        world.pass(Duration::from_millis(1));
    }
    // Another forwarder's Data that waited for each other: sixty at one moment.
    for n in 0..60 {
        world.interest(consumer, &format!("/b/{n}"), n + 1);
        world.pass(Duration::from_millis(1));
    }
    let told: Vec<Option<u64>> = (0..60)
        .map(|n| world.data(producer, &format!("/b/{n}"))[0].rate)
        .collect();
    assert_eq!(
        (told[0], told[59], gauge(&world, "backlog")),
        (Some(1009), Some(950), 60.0)
    );
    // 30 ms of response, smoothed, and 50 too many: between half of the rate and the whole.
    burst(&mut world, consumer, "/c", 9);
    let sent = world.pass(Duration::from_millis(8)).len();
    assert!((4..8).contains(&sent), "{sent}");
    // Two conversations have half of it each.
    world.route("/d", producer, 1);
    world.pass(Duration::from_millis(100));
    world.interest(consumer, "/d/1", 1);
    let told = world.data(producer, "/d/1")[0].rate;
    assert_eq!(told, Some(504));
}

#[test]
fn a_host_that_wakes_late_loses_the_turns_or_makes_up_an_hour() {
    let mut world = shaped("");
    let (consumer, producer) = (world.remote(), world.remote());
    for prefix in &["/a", "/b", "/c"] {
        world.route(prefix, producer, 1);
    }
    for prefix in ["/a", "/b", "/c"] {
        burst(&mut world, consumer, prefix, 8);
    }
    let woken = |world: &mut World, at| {
        world.now = at;
        world.forwarder.on_timeout(at, &mut world.outbox);
        world.collect(&[]).len()
    };
    assert_eq!(woken(&mut world, Time::from_millis(5)), 5);
    assert_eq!(
        woken(&mut world, Time::from_millis(2000)),
        11,
        "the one that was due, and ten milliseconds' worth"
    );
}

/// Failure: an Interest that nobody waited for at its turn counts as held for ever, and other
/// consumers of the name wait for it.
#[test]
fn an_interest_that_had_its_turn_is_still_held() {
    let mut world = shaped("");
    let (consumer, other, producer) = (world.remote(), world.remote(), world.remote());
    world.route("/", producer, 1);
    burst(&mut world, consumer, "/a", 2);
    world.forwarder.remove_face(consumer);
    assert_eq!(world.pass(Duration::from_millis(5)), []);
    assert_eq!(faces(&world.interest(other, "/a/1", 100)), [producer]);
}

/// Failure: an Interest that has ended goes at its turn, because another one for its name was sent
/// meanwhile.
#[test]
fn an_interest_goes_twice_at_one_turn() {
    let mut world = shaped("");
    let (consumer, other, producer) = (world.remote(), world.remote(), world.remote());
    world.route("/", producer, 1);
    burst(&mut world, consumer, "/a", 2);
    let short = interest("/short", 9)
        .lifetime(Duration::from_micros(500))
        .build();
    assert_eq!(world.sent(consumer, short), []);
    assert_eq!(names(&world.pass(Duration::from_micros(1500))), ["/a/1"]);
    world
        .forwarder
        .set_strategy(&name("/short"), &name("/localhost/nfd/strategy/best-route"))
        .unwrap();
    assert_eq!(faces(&world.interest(other, "/short", 10)), [producer]);
    assert_eq!(world.pass(Duration::from_millis(5)), []);
}

/// Failure: an application reads that an Interest came from the first consumer, though it was that
/// of another one, which has repeated it with another nonce while it was held.
#[test]
fn a_held_interest_comes_from_another_consumer() {
    let mut world = shaped("");
    let (first, second) = (world.remote(), world.remote());
    let producer = with_local_fields(&mut world);
    world.route("/", producer, 1);
    assert_eq!(
        world.interest(first, "/a", 1)[0].incoming_face,
        Some(first.0)
    );
    world.pass(Duration::from_millis(300));
    assert_eq!(faces(&burst(&mut world, second, "/b", 1)), [producer]);
    for nonce in [2, 3] {
        assert_eq!(
            world.interest(second, "/a", nonce),
            [],
            "it waits for its turn"
        );
    }
    let sent = world.pass(Duration::from_millis(1));
    assert_eq!(
        (faces(&sent), sent[0].incoming_face),
        (vec![producer], Some(second.0))
    );
}

/// Failure: with the Interest that a removed strategy held back, that of another strategy for the
/// same name is forgotten.
#[test]
fn a_removed_strategy_takes_what_another_one_holds() {
    let mut world = World::new();
    let slow = name("/localhost/nfd/strategy/hobhis/v=1/rate~10");
    world.forwarder.set_strategy(&name("/"), &slow).unwrap();
    let (consumer, near, far) = (world.remote(), world.remote(), world.remote());
    world.route("/", near, 1);
    burst(&mut world, consumer, "/a", 1);
    assert_eq!(world.interest(consumer, "/x", 1), [], "held for the one");
    world.pass(Duration::from_millis(20));
    world.forwarder.set_strategy(&name("/x"), &slow).unwrap();
    let route = Route {
        face: far,
        origin: 255,
        cost: 1,
        flags: CAPTURE,
        expires: None,
    };
    world.forwarder.add_route(&name("/x"), route).unwrap();
    assert_eq!(faces(&burst(&mut world, consumer, "/x", 1)), [far]);
    assert_eq!(world.interest(consumer, "/x", 2), [], "held for the other");
    world.forwarder.unset_strategy(&name("/"));
    let sent = world.pass(Duration::from_secs(1));
    assert_eq!(
        (faces(&sent), names(&sent)),
        (vec![far], vec!["/x".to_owned()])
    );
}
