//! Failure: a node believes that it is not behind the log, and is; or it is not, and does not know.

use larder_fleet::{
    Action, Body, Follower, FollowerConfig, FollowerState, Id, Kept, LogDescription, LogEntry,
    Mark, Message, Outbox, ReadAnswer, ReadFrom, StaleReason, Token,
};
use larder_units::Time;
use std::sync::Arc;
use std::time::Duration;

const MAX_LAG: Duration = Duration::from_secs(30);

fn at(millis: u64) -> Time {
    Time::from_millis(millis)
}

fn entry(sequence: u64, id: &str) -> LogEntry {
    let body = Body::Purge(Arc::new(Message::new(id.into(), "client")));
    let id = id.into();
    LogEntry { sequence, id, body }
}

struct Setup {
    follower: Follower,
    out: Outbox,
}

impl Setup {
    /// A node that has kept the sequence 10, with a connection to a log of `first` to `last`.
    fn connected(first: u64, last: u64) -> Setup {
        let config = FollowerConfig {
            node: "fra-1".to_owned(),
            max_lag: MAX_LAG,
            beats: 6,
        };
        let (mut follower, out) = (Follower::new(config, 7), Outbox::new());
        let kept = Kept {
            identity: "a".to_owned(),
            applied: 10,
            id: "id-10".into(),
        };
        follower.on_started(Some(kept), Vec::new());
        let mut setup = Setup { follower, out };
        setup.connect(at(0), first, last);
        setup
    }

    fn connect(&mut self, now: Time, first: u64, last: u64) {
        self.follower.on_connected(now, &mut self.out);
        let actions = self.actions();
        let [Action::ReadDescription { token }] = actions[..] else {
            panic!("{actions:?}");
        };
        let identity = "a".to_owned();
        let description = LogDescription {
            identity,
            first,
            last,
        };
        self.follower
            .on_description(now, token, Some(description), &mut self.out);
    }

    /// A node that has compared its position, and its beat's id.
    fn reading(last: u64) -> (Setup, Id) {
        let mut setup = Setup::connected(1, last);
        let mut actions = setup.actions().into_iter();
        let (token, from, to, source) = read(actions.next());
        assert_eq!((from, to, source), (10, 10, ReadFrom::Leader));
        let Some(Action::Publish(beat)) = actions.next() else {
            panic!("a connected node sends a beat");
        };
        setup.found(at(0), token, vec![entry(10, "id-10")]);
        (setup, beat.id)
    }

    fn found(&mut self, now: Time, token: Token, entries: Vec<LogEntry>) {
        self.follower
            .on_read(now, token, ReadAnswer::Found(entries), &mut self.out);
    }

    fn actions(&mut self) -> Vec<Action> {
        self.out.drain().collect()
    }

    /// Passes the time to `now`, and returns the actions.
    fn pass(&mut self, now: Time) -> Vec<Action> {
        self.follower.on_timeout(now, &mut self.out);
        self.actions()
    }

    fn beat(&self, sequence: u64, id: &Id) -> LogEntry {
        let node = "fra-1".to_owned();
        let id = id.clone();
        LogEntry {
            sequence,
            id,
            body: Body::Beat { node },
        }
    }
}

fn read(action: Option<Action>) -> (Token, u64, u64, ReadFrom) {
    let Some(Action::Read {
        token,
        from,
        to,
        source,
    }) = action
    else {
        panic!("{action:?} is no read");
    };
    (token, from, to, source)
}

/// Failure: the proof begins when the acknowledgement comes. A purge may have entered the log
/// between the beat and that.
#[test]
fn a_proof_begins_after_the_beat() {
    let (mut setup, id) = Setup::reading(10);
    let beat = setup.beat(11, &id);
    setup.follower.on_entry(at(1), beat, &mut setup.out);
    assert_eq!(setup.follower.fresh_until(), None);
    setup
        .follower
        .on_acknowledged(at(4000), &id, 11, &mut setup.out);
    assert_eq!(setup.follower.fresh_until(), Some(at(0) + MAX_LAG));
    // Only the time of the lookup ends it.
    assert_eq!(
        setup.follower.state(at(0) + MAX_LAG),
        FollowerState::Following
    );
    assert_eq!(setup.follower.state(at(30_001)), FollowerState::Lagging);
}

/// Failure: a node that hears nothing does not notice it by its own beat.
#[test]
fn a_silent_node_does_not_read() {
    let (mut setup, id) = Setup::reading(10);
    setup
        .follower
        .on_acknowledged(at(1), &id, 12, &mut setup.out);
    assert_eq!(setup.follower.fresh_until(), None);
    assert!(setup.actions().is_empty());
    let (token, from, to, source) = read(setup.pass(at(51)).pop());
    assert_eq!((from, to, source), (11, 12, ReadFrom::AnyReplica));
    let beat = setup.beat(12, &id);
    setup.found(at(60), token, vec![entry(11, "id-11"), beat]);
    assert_eq!(setup.follower.fresh_until(), Some(at(0) + MAX_LAG));
    assert!(matches!(
        setup.actions()[..],
        [Action::Apply { sequence: 11, .. }]
    ));
}

/// Failure: a node reads for long what the log does not keep, before its responses become stale.
#[test]
fn entries_that_are_not_kept_are_read() {
    for first in [11, 12, 15] {
        let mut setup = Setup::connected(first, 20);
        // Also the last applied entry is missed: nobody knows whether it is the same.
        let (token, from, to, _) = read(setup.actions().pop());
        assert_eq!((from, to), (20, 20));
        setup.found(at(1), token, vec![entry(20, "id-20")]);
        let reason = StaleReason::Missed;
        assert!(
            matches!(setup.actions()[0], Action::MakeStale { reason: r, .. } if r == reason),
            "{first}"
        );
        assert_eq!(setup.follower.applied(), 20);
    }
}

/// Failure: an entry from before a roll-back, which waited for an earlier one, is applied between
/// entries from after it.
#[test]
fn an_old_entry_waits_over_a_roll_back() {
    for breaks in [false, true] {
        let (mut setup, _) = Setup::reading(10);
        setup
            .follower
            .on_entry(at(1), entry(12, "lost"), &mut setup.out);
        setup.actions();
        if breaks {
            setup.connect(at(10), 1, 11);
            let (token, ..) = read(setup.actions().into_iter().next());
            setup.found(at(11), token, vec![entry(10, "id-10")]);
        }
        let (token, from, to, _) = read(setup.pass(at(70)).pop());
        assert_eq!(
            (from, to),
            (11, 12),
            "all that came before the read is read"
        );
        setup.found(at(80), token, vec![entry(11, "id-11")]);
        assert_eq!(setup.follower.applied(), 11);
    }
}

/// Failure: replicas that lag, or a leader that has lost its majority, make everything stale.
#[test]
fn a_lagging_replica_is_believed() {
    let (mut setup, _) = Setup::reading(10);
    setup
        .follower
        .on_entry(at(0), entry(12, "id-12"), &mut setup.out);
    let (mut now, mut sources) = (at(50), Vec::new());
    while sources.len() < 6 {
        for action in setup.pass(now) {
            match action {
                Action::Read { token, source, .. } => {
                    sources.push(source);
                    let answer = ReadAnswer::NotFound;
                    setup.follower.on_read(now, token, answer, &mut setup.out);
                }
                Action::ReadDescription { token } => {
                    let identity = "a".to_owned();
                    let description = LogDescription {
                        identity,
                        first: 1,
                        last: 12,
                    };
                    let description = Some(description);
                    setup
                        .follower
                        .on_description(now, token, description, &mut setup.out);
                }
                Action::Publish(_) => {}
                other => panic!("{other:?}"),
            }
        }
        now = setup.follower.next_timeout().unwrap().max(now);
    }
    assert_eq!(sources[..2], [ReadFrom::AnyReplica; 2]);
    assert!(
        sources[2..4]
            .iter()
            .all(|source| *source == ReadFrom::Leader)
    );
}

impl Setup {
    /// Entries 11 (a beat of another node), 12 and 13 (purges) are applied.
    fn with_entries() -> Setup {
        let (mut setup, _) = Setup::reading(10);
        let beat = setup.beat(11, &"beat".into());
        for entry in [beat, entry(12, "id-12"), entry(13, "id-13")] {
            setup.follower.on_entry(at(1), entry, &mut setup.out);
        }
        assert_eq!(setup.follower.applied(), 13);
        setup
    }

    fn marks(&mut self) -> Vec<Mark> {
        let mark = |action| match action {
            Action::Apply { mark, .. } | Action::MakeStale { mark, .. } => Some(mark),
            _ => None,
        };
        self.actions().into_iter().filter_map(mark).collect()
    }

    /// Settles a change, and returns the sequences that are kept.
    fn settle(&mut self, now: Time, mark: Mark) -> Vec<u64> {
        self.follower.on_settled(now, mark, &mut self.out);
        let kept = |action| match action {
            Action::Keep(kept) => Some(kept.applied),
            _ => None,
        };
        self.actions().into_iter().filter_map(kept).collect()
    }
}

/// Failure: a repeated purge comes to the same sequence again after a roll-back, and the node does
/// not see that those before it are others. Or such a purge is kept as the position.
#[test]
fn a_repeated_purge_hides_a_roll_back() {
    let mut setup = Setup::with_entries();
    let marks = setup.marks();
    // The beat has no change before it. The purges after it are not settled, or no beats.
    assert_eq!(setup.settle(at(200), marks[1]), [] as [u64; 0]);
    let beat = setup.beat(14, &"beat-2".into());
    setup.follower.on_entry(at(300), beat, &mut setup.out);
    assert_eq!(setup.settle(at(11_000), marks[1]), [14]);

    let mut setup = Setup::with_entries();
    setup.actions();
    setup.connect(at(2), 1, 20);
    let (token, from, to, _) = read(setup.actions().into_iter().next());
    assert_eq!((from, to), (11, 13), "from the last beat on");
    let beat = setup.beat(11, &"beat".into());
    setup.found(
        at(3),
        token,
        vec![beat, entry(12, "other"), entry(13, "id-13")],
    );
    assert_eq!(setup.follower.state(at(3)), FollowerState::RolledBack);
}

/// Failure: the log does not keep what a node has to compare, and the node goes on.
#[test]
fn what_cannot_be_compared_counts_as_the_same() {
    let mut setup = Setup::with_entries();
    setup.actions();
    setup.connect(at(2), 1, 20);
    let (token, ..) = read(setup.actions().into_iter().next());
    setup
        .follower
        .on_read(at(3), token, ReadAnswer::NotFound, &mut setup.out);
    let Some(Action::ReadDescription { token }) = setup.actions().pop() else {
        panic!("it asks what the log keeps");
    };
    let identity = "a".to_owned();
    let description = LogDescription {
        identity,
        first: 12,
        last: 20,
    };
    setup
        .follower
        .on_description(at(4), token, Some(description), &mut setup.out);
    setup.actions();
    assert_eq!(setup.follower.counters().missed, 1);

    // A log that had nothing up to a sequence does not have it later.
    let mut setup = Setup::connected(21, 20);
    assert_eq!(setup.follower.applied(), 20);
    setup.actions();
    setup.connect(at(10), 5, 22);
    assert_eq!(setup.follower.state(at(10)), FollowerState::RolledBack);
}

/// Failure: a node that found a roll-back serves until its proof ends, or crashes before the others
/// know, and does not find it again.
#[test]
fn a_roll_back_is_found_once_and_not_told() {
    let (mut setup, id) = Setup::reading(10);
    let beat = setup.beat(11, &id);
    setup.follower.on_entry(at(1), beat, &mut setup.out);
    setup
        .follower
        .on_acknowledged(at(2), &id, 11, &mut setup.out);
    assert!(setup.follower.fresh_until().is_some());
    setup.actions();
    // The next beat has a sequence that the log had.
    let Some(Action::Publish(beat)) = setup.pass(at(5000)).pop() else {
        panic!("a beat is due");
    };
    setup
        .follower
        .on_acknowledged(at(5001), &beat.id, 11, &mut setup.out);
    assert_eq!(setup.follower.fresh_until(), None);
    assert_eq!(setup.follower.state(at(5001)), FollowerState::RolledBack);
    let Some(Action::ReadDescription { token }) = setup.actions().pop() else {
        panic!("it looks for the end of the log");
    };
    let identity = "a".to_owned();
    let description = LogDescription {
        identity,
        first: 1,
        last: 11,
    };
    setup
        .follower
        .on_description(at(5002), token, Some(description), &mut setup.out);
    let (token, ..) = read(setup.actions().pop());
    let last = setup.beat(11, &beat.id);
    setup.found(at(5003), token, vec![last]);
    let actions = setup.actions();
    let [
        Action::MakeStale {
            mark,
            reason: StaleReason::RolledBack,
        },
        Action::Publish(_),
        Action::Publish(barrier),
    ] = &actions[..]
    else {
        panic!("{actions:?}");
    };
    assert_eq!(barrier.body, Body::Barrier);
    let beat = setup.beat(12, &"beat".into());
    setup.follower.on_entry(at(5004), beat, &mut setup.out);
    assert_eq!(
        setup.settle(at(5005), *mark),
        [] as [u64; 0],
        "nobody has the barrier"
    );
    setup
        .follower
        .on_acknowledged(at(5006), &barrier.id, 13, &mut setup.out);
    let kept = |action: &Action| matches!(action, Action::Keep(kept) if kept.applied == 12);
    assert!(setup.actions().iter().any(kept));
    // The outbox is published again when the barrier comes. Nothing leaves it before.
    assert!(setup.follower.doubts_log());
    let (id, body) = (barrier.id.clone(), Body::Barrier);
    let sequence = 13;
    let entry = LogEntry { sequence, id, body };
    setup.follower.on_entry(at(5007), entry, &mut setup.out);
    let is_stale = |action: &Action| {
        let reason = StaleReason::Barrier;
        matches!(action, Action::MakeStale { reason: is, .. } if *is == reason)
    };
    assert!(setup.actions().iter().any(is_stale));
    assert!(!setup.follower.doubts_log());
}

/// Failure: a node relies on a purge that an earlier process of it has put into the log, and the
/// log has lost it; or it does not rely on one that is there.
#[test]
fn a_purge_of_before_a_restart_is_not_compared() {
    let config = FollowerConfig {
        node: "fra-1".to_owned(),
        max_lag: MAX_LAG,
        beats: 6,
    };
    let entry_of = |log: &str, applied: u64, id: &str| Kept {
        identity: log.to_owned(),
        applied,
        id: id.into(),
    };
    let started = |kept: Option<Kept>, witness: Kept, last: u64| {
        let follower = Follower::new(config.clone(), 7);
        let out = Outbox::new();
        let mut setup = Setup { follower, out };
        setup.follower.on_started(kept, vec![witness]);
        setup.connect(at(0), 1, last);
        setup
    };
    // Without a position: it begins at the end, and compares.
    for (found, rolled_back) in [("mine", 0), ("other", 1)] {
        let mut setup = started(None, entry_of("a", 15, "mine"), 20);
        let [
            Action::Read {
                token, from: 20, ..
            },
        ] = setup.actions()[..]
        else {
            panic!("the last entry is not read");
        };
        let answer = ReadAnswer::Found(vec![entry(20, "last")]);
        setup.follower.on_read(at(1), token, answer, &mut setup.out);
        let actions = setup.actions();
        let is_read = |action: &Action| match action {
            Action::Read {
                token, from: 15, ..
            } => Some(*token),
            _ => None,
        };
        let token = actions.iter().find_map(is_read).expect("it is compared");
        let answer = ReadAnswer::Found(vec![entry(15, found)]);
        setup.follower.on_read(at(2), token, answer, &mut setup.out);
        assert_eq!(setup.follower.counters().rolled_back, rolled_back);
    }
    // Another log, as well.
    let setup = started(None, entry_of("b", 15, "mine"), 20);
    assert_eq!(setup.follower.counters().rolled_back, 1);
    // The log has not come so far again: a beat of its own shows it.
    let kept = entry_of("a", 10, "id-10");
    let mut setup = started(Some(kept.clone()), entry_of("a", 15, "mine"), 12);
    let beat = setup.actions().into_iter().find_map(|action| match action {
        Action::Publish(publication) => Some(publication.id),
        _ => None,
    });
    setup
        .follower
        .on_acknowledged(at(3), &beat.expect("a beat"), 13, &mut setup.out);
    assert_eq!(setup.follower.counters().rolled_back, 1);
}

/// Failure: a node does not doubt the log while it compares it with what it knows, so that purges
/// leave the outbox; or it doubts for ever, and they never do.
#[test]
fn a_log_that_is_compared_is_not_doubted() {
    let config = FollowerConfig {
        node: "fra-1".to_owned(),
        max_lag: MAX_LAG,
        beats: 6,
    };
    let mut follower = Follower::new(config, 7);
    assert!(follower.doubts_log());
    follower.on_started(None, Vec::new());
    assert!(follower.doubts_log());
    let mut setup = Setup::connected(1, 10);
    assert!(setup.follower.doubts_log(), "its entry is compared");
    let (token, ..) = read(setup.actions().into_iter().next());
    setup.found(at(0), token, vec![entry(10, "id-10")]);
    assert!(!setup.follower.doubts_log());
    // A gap is no doubt, and neither is its read.
    setup
        .follower
        .on_entry(at(1), entry(12, "id-12"), &mut setup.out);
    assert!(!setup.follower.doubts_log());
    let (token, from, to, _) = read(setup.pass(at(60)).into_iter().next());
    assert_eq!((from, to), (11, 12));
    assert!(!setup.follower.doubts_log());
    setup.found(at(61), token, vec![entry(11, "id-11"), entry(12, "id-12")]);
    assert!(!setup.follower.doubts_log());
    // Another id at an applied entry.
    setup.actions();
    setup
        .follower
        .on_entry(at(62), entry(11, "other"), &mut setup.out);
    assert!(setup.follower.doubts_log());
    let (token, ..) = read(setup.actions().into_iter().next());
    setup.found(at(63), token, vec![entry(11, "id-11")]);
    assert!(!setup.follower.doubts_log(), "it was an old message");
    setup.follower.on_disconnected();
    assert!(setup.follower.doubts_log());
    setup.connect(at(64), 1, 12);
    assert!(setup.follower.doubts_log());
}

/// Failure: an answer of before a roll-back comes late, and a node applies it, and then the new
/// entries after it: it does not learn what the log has lost.
#[test]
fn an_old_answer_is_mixed_with_new_entries() {
    let (mut setup, _) = Setup::reading(10);
    setup.actions();
    setup
        .follower
        .on_entry(at(1), entry(13, "old-13"), &mut setup.out);
    let (token, from, to, _) = read(setup.pass(at(60)).into_iter().next());
    assert_eq!((from, to), (11, 13));
    // The log loses all above 11, and has others there now.
    for (sequence, id) in [(12, "new-12"), (13, "new-13"), (14, "new-14")] {
        setup
            .follower
            .on_entry(at(70), entry(sequence, id), &mut setup.out);
    }
    setup.actions();
    let old = [(11, "id-11"), (12, "old-12"), (13, "old-13")];
    let entries = old.map(|(sequence, id)| entry(sequence, id));
    setup.found(at(80), token, entries.to_vec());
    let applied = |actions: &[Action]| -> Vec<u64> {
        let sequences = actions.iter().filter_map(|action| match action {
            Action::Apply { sequence, .. } => Some(*sequence),
            _ => None,
        });
        sequences.collect()
    };
    assert_eq!(applied(&setup.actions()), [11]);
    let (token, from, to, source) = read(setup.pass(at(1000)).into_iter().next());
    assert_eq!((from, to, source), (12, 14, ReadFrom::Leader));
    let new = [(12, "new-12"), (13, "new-13"), (14, "new-14")];
    let entries = new.map(|(sequence, id)| entry(sequence, id));
    setup.found(at(1001), token, entries.to_vec());
    assert_eq!(applied(&setup.actions()), [12, 13, 14]);
}
