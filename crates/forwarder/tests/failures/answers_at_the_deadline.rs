//! Data that arrives at the very instant at which an Interest expires is in time: the deadline
//! belongs to the time that it ends (`Time::has_passed`). One nanosecond later it is too late.

use crate::world::{World, data, faces, interest};
use larder_packet::ControlParameters;
use larder_units::Time;
use std::time::Duration;

const LIFETIME: Duration = Duration::from_millis(250);

/// Data for one pending Interest arrives `late` after the deadline; `ticks` says whether the
/// host's timer runs first, as it may at the same instant.
fn answers(late: Duration, ticks: bool) -> usize {
    let mut world = World::new();
    let (consumer, producer) = (world.local(), world.local());
    world.route("/a", producer, 0);
    world.now = Time::from_nanos(1_234_567);
    world.sent(consumer, interest("/a/b", 7).lifetime(LIFETIME).build());
    world.now = world.now + LIFETIME + late;
    if ticks {
        world.forwarder.on_timeout(world.now, &mut world.outbox);
    }
    world.data(producer, "/a/b").len()
}

#[test]
fn data_at_the_last_instant_is_refused() {
    for ticks in [false, true] {
        assert_eq!(answers(Duration::ZERO, ticks), 1, "timer first: {ticks}");
        assert_eq!(
            answers(Duration::from_nanos(1), ticks),
            0,
            "timer first: {ticks}"
        );
    }
}

#[test]
fn a_deadline_on_a_tick_of_the_timer_wheel_is_early() {
    let mut world = World::new();
    let (consumer, producer) = (world.local(), world.local());
    world.route("/a", producer, 0);
    world.sent(consumer, interest("/a/b", 7).lifetime(LIFETIME).build());
    // A host wakes when it was told to, which is after the deadline.
    world.pass(LIFETIME);
    assert_eq!(world.forwarder.stats().pit_entries, 1);
    assert_eq!(world.data(producer, "/a/b").len(), 1);
    world.pass(Duration::from_millis(1));
    assert_eq!(world.forwarder.next_timeout(), None);
}

#[test]
fn an_interest_without_a_lifetime_is_not_answered_from_the_store() {
    let mut world = World::new();
    let (consumer, producer) = (world.local(), world.local());
    world.route("/a", producer, 0);
    world.interest(consumer, "/a/b", 1);
    world.data(producer, "/a/b");
    let sent = world.sent(
        consumer,
        interest("/a/b", 2).lifetime(Duration::ZERO).build(),
    );
    assert_eq!(sent.len(), 1);
    // Nor does the one that reaches the producer and comes back at the same instant go unanswered.
    let asked = world.sent(
        consumer,
        interest("/a/c", 3).lifetime(Duration::ZERO).build(),
    );
    assert_eq!(asked.len(), 1);
    let sent = world.sent(producer, data("/a/c", b"x", None));
    assert!(matches!(&sent[..], [sent] if sent.face == consumer));
}

/// Failure: an Interest waits for an answer that the Content Store has, because another one for the
/// same name has expired, and the host has not called `on_timeout` since.
#[test]
fn an_expired_interest_keeps_others_from_the_store() {
    let mut world = World::new();
    let (consumer, producer) = (world.local(), world.local());
    world.route("/a", producer, 0);
    world.interest(consumer, "/a/b", 1);
    world.data(producer, "/a/b");
    // Stored Data does not answer until the operator says so again.
    let serve = |world: &mut World, serves: bool| {
        let flags = Some(if serves { 2 } else { 0 });
        let parameters = ControlParameters {
            flags,
            mask: Some(2),
            ..ControlParameters::default()
        };
        assert_eq!(
            world
                .command(producer, "cs", "config", &parameters)
                .status_code,
            200
        );
    };
    serve(&mut world, false);
    assert_eq!(
        faces(&world.sent(consumer, interest("/a/b", 2).lifetime(LIFETIME).build())),
        [producer]
    );
    serve(&mut world, true);
    world.now = world.now + LIFETIME + Duration::from_nanos(1);
    assert_eq!(faces(&world.interest(consumer, "/a/b", 3)), [consumer]);
}
