//! Invariants that hold in every network.

use super::apps::{Print, RandomConsumer, RandomProducer};
use super::world::World;
use larder_forwarder::DropReason;
use larder_netsim::{ChannelId, NodeId, Simulation};
use larder_units::Time;

/// The results of a world.
#[derive(Default)]
pub struct Run {
    /// The fingerprint of all packets and counters.
    pub print: u64,
    pub interests: u64,
    pub data: u64,
    pub nacks: u64,
    pub hits: u64,
    pub lost: u64,
    pub drops: Vec<(DropReason, u64)>,
    pub faultless: u64,
}

/// Runs the world of this seed to its end.
///
/// # Panics
/// If an invariant does not hold.
pub fn run(seed: u64) -> Run {
    let mut world = World::new(seed);
    let words = std::mem::take(&mut world.words);
    let _tell = Describe(&words);
    for tenth in 1..=80 {
        world
            .network
            .run_until(Time::from_millis(100 * tenth))
            .unwrap();
        tables_are_within_their_bounds(&world);
    }
    // A queue of 50 packets at 100 kb/s is empty after 20 s, an Interest expires after 4, and half
    // a packet after 1.
    world.network.run_until(Time::from_secs(1000)).unwrap();
    nothing_is_left(&world);
    no_more_answers_than_interests(&world);
    interests_are_accounted_for(&world);
    frames_are_conserved(&world);
    if world.is_faultless {
        everything_is_answered(&world);
    }
    what_it_did(&world)
}

/// Describes a world that failed.
struct Describe<'a>(&'a str);

impl Drop for Describe<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprint!("{}", self.0);
        }
    }
}

fn tables_are_within_their_bounds(world: &World) {
    for node in world.network.nodes() {
        world.network.forwarder(node).check_invariants();
        let stats = world.network.forwarder(node).stats();
        let (used, capacity) = (
            stats.content_store_bytes,
            stats.content_store_capacity_bytes,
        );
        assert!(
            used <= capacity,
            "{node:?}: {used} of {capacity} in its Content Store"
        );
        let most = world.pit_entries[node.0 as usize];
        assert!(
            stats.pit_entries <= most,
            "{node:?}: {} of {most} pending",
            stats.pit_entries
        );
    }
}

fn up(world: &World) -> impl Iterator<Item = NodeId> {
    world
        .network
        .nodes()
        .filter(|node| !world.down.contains(node))
}

/// Every Interest has been answered or refused, or has expired; no frame waits, and no timer runs.
fn nothing_is_left(world: &World) {
    for node in up(world) {
        let forwarder = world.network.forwarder(node);
        forwarder.check_invariants();
        assert_eq!(forwarder.stats().pit_entries, 0, "{node:?} waits for ever");
        assert_eq!(
            forwarder.next_timeout(),
            None,
            "{node:?} has nothing pending, and a timer"
        );
    }
    assert_eq!(
        world.network.events_planned(),
        0,
        "events long after the last Interest"
    );
    for (id, channel) in world.network.channels() {
        assert_eq!(channel.waiting(), (0, 0), "{id:?}");
    }
}

/// On every face, an Interest brings at most one answer.
fn no_more_answers_than_interests(world: &World) {
    for node in world.network.nodes() {
        for face in world.network.forwarder(node).face_stats() {
            let counters = face.counters;
            let answers = counters.out_data + counters.out_nacks;
            assert!(
                answers <= counters.in_interests,
                "{node:?}, face {}: {counters:?}",
                face.id
            );
        }
    }
}

/// Every Interest was answered, expired, or was dropped for a reason. There may be fewer: a
/// retransmission on a face replaces the pending Interest, and a strategy forwards again for
/// another consumer when the suppression interval is over.
fn interests_are_accounted_for(world: &World) {
    for node in up(world) {
        let stats = world.network.forwarder(node).stats();
        let dropped: u64 = [
            DropReason::Scope,
            DropReason::DuplicateNonce,
            DropReason::NameTooDeep,
        ]
        .into_iter()
        .map(|reason| stats.drops.get(reason))
        .sum();
        let ended = stats.satisfied + stats.unsatisfied + dropped;
        let came = stats.packets.in_interests;
        assert!(
            ended <= came,
            "{node:?}: {ended} Interests ended, {came} came: {stats:?}"
        );
        for reason in [
            DropReason::Malformed,
            DropReason::Oversized,
            DropReason::NoFace,
            DropReason::ParametersDigest,
        ] {
            assert_eq!(
                stats.drops.get(reason),
                0,
                "{node:?}: {reason}, but no application sends such a packet"
            );
        }
        if world.is_faultless {
            assert_eq!(stats.unsatisfied, 0, "{node:?}: {stats:?}");
        }
    }
}

/// Every frame on a channel arrived, or was dropped or lost and counted. It applies if no node
/// restarted and every frame is one packet.
fn frames_are_conserved(world: &World) {
    for (id, channel) in world.network.channels() {
        assert_eq!(channel.counters().oversized, 0, "{id:?}");
        if world.restarts || world.crashes || world.fragments {
            continue;
        }
        let sent = counters(&world.network, channel.ends().0, id);
        let arrived = counters(&world.network, channel.ends().1, ChannelId(id.0 ^ 1));
        let counted = channel.counters();
        let out = sent.out_interests + sent.out_data + sent.out_nacks;
        let came = arrived.in_interests + arrived.in_data + arrived.in_nacks;
        assert_eq!(
            out,
            came + counted.dropped + counted.lost,
            "{id:?}: {sent:?}, {arrived:?}, {counted:?}"
        );
    }
}

/// The counters of the face of `node` from which a channel starts.
fn counters(
    network: &Simulation,
    node: NodeId,
    leaving: ChannelId,
) -> larder_forwarder::FaceCounters {
    let stats = network.forwarder(node).face_stats();
    stats
        .iter()
        .find(|face| face.id == network.face_of(leaving))
        .unwrap()
        .counters
}

fn everything_is_answered(world: &World) {
    for consumer in &world.consumers {
        let stats = world
            .network
            .app::<RandomConsumer>(*consumer)
            .unwrap()
            .stats;
        assert_eq!(
            stats.data, stats.interests,
            "{consumer:?} in a world without faults: {stats:?}"
        );
    }
}

fn what_it_did(world: &World) -> Run {
    let mut run = Run {
        faultless: u64::from(world.is_faultless),
        ..Run::default()
    };
    let mut print = Print::default();
    for consumer in &world.consumers {
        let stats = world
            .network
            .app::<RandomConsumer>(*consumer)
            .unwrap()
            .stats;
        run.interests += stats.interests;
        run.data += stats.data;
        run.nacks += stats.nacks;
        print.number(stats.print.value());
    }
    for answerer in &world.producers {
        print.number(
            world
                .network
                .app::<RandomProducer>(*answerer)
                .unwrap()
                .interests,
        );
    }
    for (_, channel) in world.network.channels() {
        let counters = channel.counters();
        run.lost += counters.lost + counters.dropped;
        print.bytes(format!("{counters:?}").as_bytes());
    }
    for node in world.network.nodes() {
        let stats = world.network.forwarder(node).stats();
        run.hits += stats.content_store.hits;
        run.drops.extend(stats.drops.iter());
        print.bytes(format!("{stats:?}").as_bytes());
    }
    print.number(world.network.events_done());
    run.print = print.value();
    run
}

/// The sum over all worlds. A search that reaches no interesting state finds nothing.
#[derive(Default)]
pub struct Seen {
    worlds: u64,
    sum: Run,
}

impl Seen {
    pub fn add(&mut self, run: &Run) {
        self.worlds += 1;
        let sum = &mut self.sum;
        sum.interests += run.interests;
        sum.data += run.data;
        sum.nacks += run.nacks;
        sum.hits += run.hits;
        sum.lost += run.lost;
        sum.faultless += run.faultless;
        for (reason, count) in &run.drops {
            match sum.drops.iter_mut().find(|(known, _)| known == reason) {
                Some((_, known)) => *known += count,
                None => sum.drops.push((*reason, *count)),
            }
        }
    }

    pub fn report(&self) {
        let Run {
            interests,
            data,
            nacks,
            hits,
            lost,
            faultless,
            drops,
            ..
        } = &self.sum;
        println!(
            "{} worlds, {faultless} of them faultless: {interests} Interests, {data} Data, {nacks} Nacks",
            self.worlds
        );
        println!("{hits} hits in Content Stores, {lost} frames lost or dropped");
        for (reason, count) in drops.iter().filter(|(_, count)| *count > 0) {
            println!("{reason}: {count}");
        }
    }

    /// # Panics
    /// If the worlds of `cargo test` did not reach the states that they are for.
    pub fn check(&self) {
        let Run {
            interests,
            data,
            nacks,
            hits,
            lost,
            faultless,
            drops,
            ..
        } = &self.sum;
        let least = [*interests, *data, *nacks, *hits, *lost, *faultless]
            .into_iter()
            .min();
        assert!(least > Some(0), "a search that meets too little");
        let met = |reason: DropReason| {
            drops
                .iter()
                .any(|(known, count)| *known == reason && *count > 0)
        };
        for reason in [
            DropReason::DuplicateNonce,
            DropReason::PitFull,
            DropReason::NoRoute,
            DropReason::Unsolicited,
            DropReason::UnexpectedNack,
        ] {
            assert!(met(reason), "no world has met {reason}");
        }
    }
}
