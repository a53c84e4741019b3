//! Failure: a node that is far behind takes memory without bound, or does not come forward.

use larder_fleet::{
    Acceptor, AcceptorConfig, Action, Body, Follower, FollowerConfig, FollowerState, Kept,
    LogDescription, LogEntry, Message, Outbox, ReadAnswer, limits,
};
use larder_units::Time;
use std::sync::Arc;
use std::time::Duration;

fn entry(sequence: u64) -> LogEntry {
    let id = format!("id-{sequence}").into();
    let body = Body::Purge(Arc::new(Message::new("a".into(), "client")));
    LogEntry { sequence, id, body }
}

/// Failure: entries after a gap are kept without bound, a read asks for all that is missing at
/// once, or an entry is applied twice or not at all.
#[test]
fn a_node_far_behind() {
    const LAST: u64 = 5000;
    let config = FollowerConfig {
        node: "fra-1".to_owned(),
        max_lag: Duration::from_secs(30),
        beats: 6,
    };
    let (mut follower, mut out) = (Follower::new(config, 7), Outbox::new());
    assert_eq!(follower.state(Time::ZERO), FollowerState::Starting);
    let kept = Kept {
        identity: "a".to_owned(),
        applied: 1,
        id: "id-1".into(),
    };
    follower.on_started(Some(kept), Vec::new());
    follower.on_connected(Time::ZERO, &mut out);
    let mut now = Time::ZERO;
    let (mut applied, mut reads, mut next_live) = (Vec::new(), 0, LAST);
    while follower.applied() < LAST + 1000 {
        let actions: Vec<Action> = out.drain().collect();
        if actions.is_empty() {
            now = follower.next_timeout().unwrap().max(now);
            follower.on_timeout(now, &mut out);
        }
        for action in actions {
            match action {
                Action::ReadDescription { token } => {
                    let description = LogDescription {
                        identity: "a".to_owned(),
                        first: 1,
                        last: LAST,
                    };
                    follower.on_description(now, token, Some(description), &mut out);
                }
                Action::Read {
                    token, from, to, ..
                } => {
                    assert!(to - from < limits::READ_ENTRIES);
                    reads += 1;
                    // Others are published meanwhile.
                    for _ in 0..100 {
                        next_live += 1;
                        follower.on_entry(now, entry(next_live), &mut out);
                    }
                    let entries = (from..=to).map(entry).collect();
                    follower.on_read(now, token, ReadAnswer::Found(entries), &mut out);
                }
                Action::Apply { sequence, .. } => applied.push(sequence),
                Action::Publish(_) | Action::Keep(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }
    let actions = out.drain().filter_map(|action| match action {
        Action::Apply { sequence, .. } => Some(sequence),
        _ => None,
    });
    applied.extend(actions);
    assert!(applied.iter().copied().eq(2..=follower.applied()));
    assert!(
        reads < 2 * (next_live / limits::READ_ENTRIES),
        "{reads} reads"
    );
}

/// Failure: what any client may cause fills the outbox, and purges of operators are refused.
#[test]
fn the_outbox_has_no_room_for_purges() {
    let config = AcceptorConfig {
        entries: 16,
        ..AcceptorConfig::default()
    };
    let (mut acceptor, mut out) = (Acceptor::new(config, 7), Outbox::new());
    let mut of_clients = 0;
    for number in 0..16 {
        of_clients += usize::from(acceptor.has_much_room());
        let message = Message::new(format!("id-{number}").as_str().into(), "n1");
        assert!(acceptor.accept(Time::ZERO, message, &mut out).is_ok());
    }
    assert_eq!(of_clients, 4);
}
