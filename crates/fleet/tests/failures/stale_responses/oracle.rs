//! What may be served: the guarantee, as a judge who sees all.

use super::node::{MAX_LAG, OUTBOX_KEEP};
use larder_fleet::{Body, Message};
use larder_units::Time;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How long a node needs to notice a loss: it may be stopped or have no connection meanwhile. What
/// leaves the outbox before is lost.
const NOTICE: Duration = Duration::from_secs(15);

/// Numbers of purges of other programs are above.
const FOREIGN: usize = 1 << 60;

/// A purge.
#[derive(Debug, Default)]
struct Purge {
    /// The node that accepted it; `None` for one of another program.
    node: Option<usize>,
    /// Its object; `None` for all.
    name: Option<usize>,
    /// When it first entered the log, and was acknowledged.
    entered: Option<Time>,
    /// Its entries in the log, with the times at which they entered.
    copies: Vec<(u64, Time)>,
    journaled: bool,
    /// The log and the accepting node have lost it: nothing is promised.
    void: bool,
}

/// The purges, by number.
#[derive(Debug, Default)]
pub struct Oracle {
    purges: BTreeMap<usize, Purge>,
    /// The number of the next purge of another program.
    foreign: usize,
}

fn number(message: &Message) -> usize {
    message.tags[0]
        .parse()
        .expect("the tag of a purge is its number")
}

impl Oracle {
    pub fn accept(&mut self, number: usize, node: usize, name: usize, everything: bool) {
        let purge = Purge {
            node: Some(node),
            name: Some(name).filter(|_| !everything),
            ..Purge::default()
        };
        self.purges.insert(number, purge);
    }

    pub fn journaled(&mut self, message: &Message) {
        if let Some(purge) = self.purges.get_mut(&number(message)) {
            purge.journaled = true;
        }
    }

    pub fn journal_lost<'a>(&mut self, journal: impl Iterator<Item = &'a Arc<Message>>) {
        for message in journal {
            if let Some(purge) = self.purges.get_mut(&number(message)) {
                purge.journaled = false;
                purge.void |= purge.copies.is_empty();
            }
        }
    }

    /// An entry is in the log.
    pub fn entered(&mut self, now: Time, sequence: u64, body: &Body) {
        let purge = match body {
            Body::Purge(message) => self.purges.get_mut(&number(message)),
            Body::Unreadable => {
                self.foreign += 1;
                Some(self.purges.entry(FOREIGN + self.foreign).or_default())
            }
            Body::Beat { .. } | Body::Barrier => None,
        };
        if let Some(purge) = purge {
            purge.entered = purge.entered.or(Some(now));
            purge.copies.push((sequence, now));
        }
    }

    /// The log has lost all entries above `last`. Returns how many purges have no entry now.
    pub fn lost(&mut self, now: Time, last: u64, has: impl Fn(usize, usize) -> bool) -> u64 {
        let mut lost = 0;
        for (number, purge) in &mut self.purges {
            let newest = purge.copies.iter().map(|(_, time)| *time).max();
            purge.copies.retain(|(sequence, _)| *sequence <= last);
            if let Some(newest) = newest.filter(|_| purge.copies.is_empty()) {
                lost += 1;
                let expires = newest + OUTBOX_KEEP;
                purge.void |=
                    expires < now + NOTICE || !purge.node.is_some_and(|node| has(node, *number));
            }
        }
        lost
    }

    /// A node serves a response that was requested at `asked`, without validation.
    pub fn serve(&self, now: Time, node: usize, name: usize, asked: Time) {
        for (number, purge) in &self.purges {
            let concerned = purge.name.is_none_or(|purged| purged == name);
            let Some(entered) = purge.entered.filter(|_| concerned && !purge.void) else {
                continue;
            };
            let Some(last_entered) = purge.copies.iter().map(|(_, time)| *time).min() else {
                continue;
            };
            assert!(
                asked >= entered || now <= last_entered + MAX_LAG,
                "node {node} serves object {name} at {now}, requested at {asked}: purge {number} \
                 was acknowledged at {last_entered}, first at {entered}"
            );
        }
    }

    /// No purge that a node has journaled is missing in the log.
    pub fn check_end(&self) {
        for (number, purge) in &self.purges {
            let promised = purge.journaled && !purge.void;
            assert!(
                !promised || !purge.copies.is_empty(),
                "purge {number} is lost: {purge:?}"
            );
        }
    }
}
