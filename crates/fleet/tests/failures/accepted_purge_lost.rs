//! Failure: a purge that a node has accepted does not reach the log, or its client waits for ever.

use larder_fleet::{
    Acceptor, AcceptorConfig, Action, Answer, Body, Id, JournalAction, JournalKey, Journaled, Kept,
    Message, Outbox, Refused, StaleReason, limits,
};
use larder_units::Time;
use std::time::Duration;

fn at(seconds: u64) -> Time {
    Time::from_secs(seconds)
}

type Timed<T> = Vec<(Time, T)>;

struct Setup {
    acceptor: Acceptor,
    out: Outbox,
}

impl Setup {
    fn new(config: AcceptorConfig) -> Setup {
        let (mut acceptor, mut out) = (Acceptor::new(config, 1), Outbox::new());
        acceptor.on_connected(Time::ZERO, &mut out);
        acceptor.set_in_doubt(Time::ZERO, false);
        Setup { acceptor, out }
    }

    fn accept(&mut self, now: Time, id: &str) -> Result<JournalKey, Refused> {
        let message = Message::new(id.into(), "client");
        self.acceptor.accept(now, message, &mut self.out)
    }

    fn actions(&mut self) -> Vec<Action> {
        self.out.drain().collect()
    }

    /// Returns the ids of what is published.
    fn published(&mut self) -> Vec<Id> {
        let is_publication = |action| match action {
            Action::Publish(publication) => {
                assert!(matches!(publication.body, Body::Purge(_)));
                Some(publication.id)
            }
            _ => None,
        };
        self.out.drain().filter_map(is_publication).collect()
    }

    /// Passes the time to `end`. Returns when which ids were published, and the answers.
    fn run(&mut self, end: Time) -> (Timed<Id>, Timed<Answer>) {
        let (mut published, mut answers) = (Vec::new(), Vec::new());
        while let Some(now) = self.acceptor.next_timeout().filter(|next| *next <= end) {
            self.acceptor.on_timeout(now, &mut self.out);
            for action in self.actions() {
                match action {
                    Action::Publish(publication) => published.push((now, publication.id)),
                    Action::Answer { answer, .. } => answers.push((now, answer)),
                    _ => {}
                }
            }
        }
        (published, answers)
    }
}

/// Failure: a repetition has another id, so that the log has the purge twice; or there is none; or
/// a client waits longer than ten seconds; or the log is flooded while it is away.
#[test]
fn a_purge_is_not_repeated() {
    let mut setup = Setup::new(AcceptorConfig::default());
    let key = setup.accept(at(0), "a").unwrap();
    // Nothing is published before the journal has it.
    assert!(matches!(
        &setup.actions()[..],
        [Action::Journal(JournalAction::Write { .. })]
    ));
    setup
        .acceptor
        .on_journaled(at(0), key, true, &mut setup.out);
    assert_eq!(setup.published(), ["a".into()]);
    let (published, answers) = setup.run(at(300));
    assert!(published.iter().all(|(_, id)| **id == *"a"));
    let times: Vec<Time> = published.iter().map(|(time, _)| *time).collect();
    assert_eq!(times[..5], [2, 4, 6, 8, 10].map(at));
    assert_eq!(answers, [(at(10), Answer::Unknown)]);
    let pauses: Vec<Duration> = times.windows(2).map(|two| two[1].since(two[0])).collect();
    assert!(pauses.is_sorted() && pauses.last() == Some(&limits::REPEAT_LONGEST));
    // A new connection is used at once.
    setup.acceptor.on_connected(at(301), &mut setup.out);
    assert_eq!(setup.published(), ["a".into()]);
    setup
        .acceptor
        .on_acknowledged(at(302), &"a".into(), 7, None, &mut setup.out);
    assert!(setup.actions().is_empty(), "the client has its answer");
    // It stays, and then leaves the journal.
    let stays = at(302) + limits::OUTBOX_KEEP;
    setup.run(at(500));
    assert_eq!(
        (setup.acceptor.len(), setup.acceptor.next_timeout()),
        (1, Some(stays))
    );
    setup.acceptor.on_timeout(stays, &mut setup.out);
    assert_eq!(
        setup.actions(),
        [Action::Journal(JournalAction::Remove { key })]
    );
    assert_eq!((setup.acceptor.len(), setup.acceptor.bytes()), (0, 0));
}

/// Failure: a purge leaves the outbox while the node could not notice that the log has lost it.
#[test]
fn a_purge_leaves_while_nothing_is_noticed() {
    let mut setup = Setup::new(AcceptorConfig::default());
    for (key, id) in ["a", "b"].into_iter().enumerate() {
        let key = setup.accept(at(key as u64), id).unwrap();
        setup
            .acceptor
            .on_journaled(at(0), key, true, &mut setup.out);
        setup
            .acceptor
            .on_acknowledged(at(0), &id.into(), 7, None, &mut setup.out);
    }
    setup.acceptor.on_disconnected();
    setup.run(at(1000));
    assert_eq!(setup.acceptor.len(), 2);
    setup.acceptor.on_connected(at(1000), &mut setup.out);
    setup.run(at(1299));
    assert_eq!(setup.acceptor.len(), 2);
    // The machine was stopped: the timer is late.
    setup.acceptor.on_timeout(at(1400), &mut setup.out);
    assert_eq!(setup.acceptor.len(), 2);
    setup.run(at(1700));
    assert_eq!(setup.acceptor.len(), 0);
}

/// Failure: a node finds that the log has lost entries, and a purge leaves its outbox before it can
/// publish it again: the leader does not answer meanwhile.
#[test]
fn a_purge_leaves_while_the_log_is_in_doubt() {
    let mut setup = Setup::new(AcceptorConfig::default());
    let key = setup.accept(at(0), "a").unwrap();
    setup
        .acceptor
        .on_journaled(at(0), key, true, &mut setup.out);
    setup
        .acceptor
        .on_acknowledged(at(0), &"a".into(), 7, None, &mut setup.out);
    setup.acceptor.set_in_doubt(at(1), true);
    setup.run(at(400));
    assert_eq!(setup.acceptor.len(), 1);
    setup
        .acceptor
        .publish_again(at(400), StaleReason::IdentityChanged, &mut setup.out);
    let published = setup.published();
    assert_eq!(published.len(), 1);
    // Or the log has lost nothing.
    setup
        .acceptor
        .on_acknowledged(at(400), &published[0], 8, None, &mut setup.out);
    setup.run(at(710));
    assert_eq!(setup.acceptor.len(), 1);
    assert_eq!(setup.acceptor.next_timeout(), None);
    setup.acceptor.set_in_doubt(at(710), false);
    setup.run(at(720));
    assert_eq!(setup.acceptor.len(), 0);
}

/// Failure: after a roll-back, the servers drop a repetition because they remember its id; or what
/// waits in the journal is published before it is durable.
#[test]
fn a_lost_purge_keeps_its_id() {
    let mut setup = Setup::new(AcceptorConfig::default());
    let keys: Vec<JournalKey> = ["a", "b", "c"]
        .map(|id| setup.accept(at(0), id).unwrap())
        .to_vec();
    for key in &keys[..2] {
        setup
            .acceptor
            .on_journaled(at(0), *key, true, &mut setup.out);
    }
    setup
        .acceptor
        .on_acknowledged(at(0), &"a".into(), 1, None, &mut setup.out);
    setup.actions();
    setup
        .acceptor
        .publish_again(at(1), StaleReason::Barrier, &mut setup.out);
    let ids = setup.published();
    assert_eq!(ids.len(), 2);
    assert!(!ids.contains(&"a".into()) && !ids.contains(&"b".into()));
    // An acknowledgement of before counts no more.
    setup
        .acceptor
        .on_acknowledged(at(1), &"b".into(), 2, None, &mut setup.out);
    assert!(setup.actions().is_empty());
    setup
        .acceptor
        .on_acknowledged(at(1), &ids[1], 3, None, &mut setup.out);
    let answer = Answer::Acknowledged { sequence: 3 };
    assert_eq!(
        setup.actions(),
        [Action::Answer {
            key: keys[1],
            answer
        }]
    );
    setup
        .acceptor
        .on_journaled(at(2), keys[2], true, &mut setup.out);
    assert_eq!(setup.published(), ["c".into()]);
    // After a restart as well.
    let mut restarted = Setup::new(AcceptorConfig::default());
    let journal = vec![journaled(keys[1], "a", None)];
    let witnesses = restarted
        .acceptor
        .on_journal_read(at(0), journal, &mut restarted.out);
    assert!(witnesses.is_empty());
    let published = restarted.published();
    assert!(published.len() == 1 && published[0] != "a".into());
    assert!(restarted.accept(at(0), "x").unwrap() > keys[1]);
}

fn journaled(key: JournalKey, id: &str, entry: Option<(&str, u64)>) -> Journaled {
    let entry = entry.map(|(log, applied)| Kept {
        identity: log.to_owned(),
        applied,
        id: id.into(),
    });
    let message = Message::new(id.into(), "client").into();
    Journaled {
        key,
        message,
        entry,
    }
}

/// Failure: a restart publishes again what the log has; or it does not publish what the log may not
/// have, and the node does not compare what it relies on.
#[test]
fn a_restart_repeats_what_the_log_has() {
    let mut setup = Setup::new(AcceptorConfig::default());
    let key = setup.accept(at(0), "a").unwrap();
    setup
        .acceptor
        .on_journaled(at(0), key, true, &mut setup.out);
    setup.actions();
    setup
        .acceptor
        .on_acknowledged(at(0), &"a".into(), 7, Some("log"), &mut setup.out);
    let is_note = |action: &Action| match action {
        Action::Journal(JournalAction::Acknowledged { entry, .. }) => Some(entry.clone()),
        _ => None,
    };
    let noted: Vec<_> = setup.actions().iter().filter_map(is_note).collect();
    let entry = journaled(key, "a", Some(("log", 7))).entry;
    assert_eq!(noted, vec![entry]);
    // A loss makes it void, before the purge is acknowledged anew.
    setup
        .acceptor
        .publish_again(at(1), StaleReason::Barrier, &mut setup.out);
    let noted: Vec<_> = setup.actions().iter().filter_map(is_note).collect();
    assert_eq!(noted, [None]);

    let key = |number: u64| JournalKey(key.0 + number);
    let journal = vec![
        journaled(key(0), "old", Some(("older log", 70))),
        journaled(key(1), "a", Some(("log", 8))),
        journaled(key(2), "b", Some(("log", 7))),
        journaled(key(3), "c", None),
    ];
    let mut restarted = Setup::new(AcceptorConfig::default());
    let witnesses = restarted
        .acceptor
        .on_journal_read(at(0), journal, &mut restarted.out);
    let sequences: Vec<u64> = witnesses.iter().map(|entry| entry.applied).collect();
    assert_eq!(sequences, [7, 8]);
    assert_eq!(restarted.published().len(), 2);
    assert_eq!(restarted.acceptor.len(), 4);
    // They leave as without a restart, and a loss publishes them.
    restarted
        .acceptor
        .publish_again(at(1), StaleReason::Barrier, &mut restarted.out);
    assert_eq!(restarted.published().len(), 4);
    // Only so many are compared.
    let most = limits::WITNESSES as u64;
    let number = |number: u64| journaled(key(number), &number.to_string(), Some(("log", number)));
    let journal = (1..=most + 3).map(number).collect();
    let mut restarted = Setup::new(AcceptorConfig::default());
    let witnesses = restarted
        .acceptor
        .on_journal_read(at(0), journal, &mut restarted.out);
    assert_eq!(witnesses.len() as u64, most);
    assert_eq!((witnesses[0].applied, restarted.published().len()), (4, 3));
}

/// Failure: a full outbox takes more, a purge is accepted that the journal does not have, or the
/// log gets all purges of a large outbox at once.
#[test]
fn an_outbox_without_bounds() {
    let mut setup = Setup::new(AcceptorConfig {
        entries: 2000,
        ..AcceptorConfig::default()
    });
    for number in 0..2000 {
        let key = setup.accept(at(0), &number.to_string()).unwrap();
        setup
            .acceptor
            .on_journaled(at(0), key, true, &mut setup.out);
    }
    assert_eq!(setup.published().len(), limits::PUBLICATIONS);
    assert!(matches!(
        setup.accept(at(0), "more"),
        Err(Refused::Full { entries: 2000, .. })
    ));
    assert!(matches!(setup.accept(at(0), "7"), Err(Refused::Known(_))));
    // Each acknowledgement makes room for one.
    setup
        .acceptor
        .on_acknowledged(at(0), &"7".into(), 1, None, &mut setup.out);
    assert_eq!(setup.published().len(), 1);

    let mut small = Setup::new(AcceptorConfig {
        bytes: 1000,
        ..AcceptorConfig::default()
    });
    let mut message = Message::new("a".into(), "client");
    message.tags = vec!["x".repeat(100); 20];
    let refused = small
        .acceptor
        .accept(at(0), message.clone(), &mut small.out);
    assert!(matches!(refused, Err(Refused::Full { entries: 0, .. })));
    message.tags = vec![String::new(); limits::ITEMS + 1];
    let refused = small.acceptor.accept(at(0), message, &mut small.out);
    assert!(matches!(refused, Err(Refused::Message(_))));
    let key = small.accept(at(0), "a").unwrap();
    small.actions();
    small
        .acceptor
        .on_journaled(at(0), key, false, &mut small.out);
    let answer = Answer::NotJournaled;
    assert_eq!(small.actions(), [Action::Answer { key, answer }]);
    assert_eq!((small.acceptor.len(), small.acceptor.bytes()), (0, 0));
}
