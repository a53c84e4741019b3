//! The prefixes that a routing daemon on this machine has to spread: which commands are due, and
//! which have no answer yet. `management/readvertise.rs` builds and reads the packets.
//!
//! Only one command per prefix has no answer at a time, because daemons handle commands side by
//! side. If the routes change meanwhile, the next command follows the answer. A command without an
//! answer, or with a refusal, is repeated with growing delays.

use crate::face::FaceId;
use crate::limits::{
    READVERTISE_INTERVAL, READVERTISE_RETRY, READVERTISE_RETRY_MOST, READVERTISE_UNANSWERED,
    READVERTISE_WITHDRAWN,
};
use larder_packet::Name;
use larder_units::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The prefixes that the daemon knows or has to learn.
#[derive(Default)]
pub(crate) struct Readvertise {
    /// False if no prefix is to be spread. Those that the daemon knows are withdrawn.
    pub(crate) is_on: bool,
    /// The faces of the daemon.
    daemon: Vec<FaceId>,
    prefixes: BTreeMap<Name, Prefix>,
    /// The prefixes with a command to send, by its time.
    due: BTreeSet<(Time, Name)>,
    /// The prefixes whose command has no answer, by the time at which it is given up.
    unanswered: BTreeSet<(Time, Name)>,
    /// The number of prefixes that are to be withdrawn.
    withdrawn: usize,
    /// The number of prefixes that the daemon has accepted.
    accepted: usize,
}

struct Prefix {
    /// The cost to advertise; `None` if the prefix is to be withdrawn.
    wanted: Option<u64>,
    /// The cost in the last command; `None` for a withdrawal, or if this daemon got no command.
    sent: Option<u64>,
    /// True if the daemon has accepted the prefix, and not its withdrawal.
    is_accepted: bool,
    state: State,
    /// The time for the answer of the next command, and the delay of a repetition.
    retry: Duration,
}

#[derive(Clone, Copy)]
enum State {
    /// There is no daemon.
    Idle,
    Due(Time),
    Unanswered {
        until: Time,
        /// The hash of the command's name.
        command: u64,
    },
}

impl Readvertise {
    /// Returns true if there is nothing to do on a change of routes.
    pub(crate) fn is_unused(&self) -> bool {
        !self.is_on && self.prefixes.is_empty()
    }

    /// Returns true if the face is the daemon's.
    pub(crate) fn is_daemon(&self, face: FaceId) -> bool {
        self.daemon.contains(&face)
    }

    /// Takes the faces of the daemon. Returns true if they have changed. The daemon has started or
    /// ended then, so every prefix is sent again: the commands before may have reached a process
    /// that ends.
    pub(crate) fn set_daemon(&mut self, now: Time, faces: Vec<FaceId>) -> bool {
        if self.daemon == faces {
            return false;
        }
        let is_another = !self.daemon.iter().any(|face| faces.contains(face));
        self.daemon = faces;
        if is_another {
            // It does not know what there is to withdraw.
            self.prefixes.retain(|_, prefix| prefix.wanted.is_some());
            self.withdrawn = 0;
        }
        self.accepted = 0;
        self.due.clear();
        self.unanswered.clear();
        for (name, prefix) in &mut self.prefixes {
            prefix.retry = READVERTISE_RETRY;
            prefix.sent = prefix.sent.filter(|_| !is_another);
            prefix.is_accepted = false;
            prefix.state = State::Idle;
            if !self.daemon.is_empty() {
                prefix.state = State::Due(now);
                self.due.insert((now, name.clone()));
            }
        }
        true
    }

    /// Takes the cost of a prefix, or `None` if it is not to be advertised.
    pub(crate) fn set(&mut self, now: Time, name: &Name, wanted: Option<u64>) {
        let has_daemon = !self.daemon.is_empty();
        let Some(prefix) = self.prefixes.get_mut(name) else {
            if wanted.is_some() {
                let prefix = Prefix {
                    wanted,
                    sent: None,
                    is_accepted: false,
                    state: State::Idle,
                    retry: READVERTISE_RETRY,
                };
                self.prefixes.insert(name.clone(), prefix);
                self.schedule(name, now);
            }
            return;
        };
        let before = std::mem::replace(&mut prefix.wanted, wanted);
        if before == wanted {
            return;
        }
        self.withdrawn += usize::from(wanted.is_none());
        self.withdrawn -= usize::from(before.is_none());
        prefix.retry = READVERTISE_RETRY;
        let is_unknown = prefix.sent.is_none() && !matches!(prefix.state, State::Unanswered { .. });
        if wanted.is_none() && (!has_daemon || is_unknown || self.withdrawn > READVERTISE_WITHDRAWN)
        {
            self.remove(name);
        } else {
            self.schedule(name, now);
        }
    }

    /// Makes the command of a prefix due, unless it waits for an answer.
    fn schedule(&mut self, name: &Name, at: Time) {
        let Some(prefix) = self
            .prefixes
            .get_mut(name)
            .filter(|_| !self.daemon.is_empty())
        else {
            return;
        };
        match prefix.state {
            State::Unanswered { .. } => return,
            State::Due(before) => _ = self.due.remove(&(before, name.clone())),
            State::Idle => {}
        }
        prefix.state = State::Due(at);
        self.due.insert((at, name.clone()));
    }

    fn remove(&mut self, name: &Name) {
        let Some(prefix) = self.prefixes.remove(name) else {
            return;
        };
        self.withdrawn -= usize::from(prefix.wanted.is_none());
        self.accepted -= usize::from(prefix.is_accepted);
        match prefix.state {
            State::Idle => {}
            State::Due(at) => _ = self.due.remove(&(at, name.clone())),
            State::Unanswered { until, .. } => _ = self.unanswered.remove(&(until, name.clone())),
        }
    }

    /// Returns the next prefix with a command to send now: its cost, or `None` to withdraw it.
    /// [`Readvertise::sent`] has to follow.
    pub(crate) fn next(&mut self, now: Time) -> Option<(Name, Option<u64>)> {
        while let Some((until, name)) = self
            .unanswered
            .first()
            .filter(|(until, _)| *until <= now)
            .cloned()
        {
            self.unanswered.remove(&(until, name.clone()));
            if let Some(prefix) = self.prefixes.get_mut(&name) {
                prefix.state = State::Idle;
                self.schedule(&name, now);
            }
        }
        if self.unanswered.len() >= READVERTISE_UNANSWERED {
            return None;
        }
        let (_, name) = self.due.first().filter(|(at, _)| *at <= now)?;
        let wanted = self.prefixes.get(name)?.wanted;
        Some((name.clone(), wanted))
    }

    /// Records a command that [`Readvertise::next`] asked for, by the hash of its name.
    pub(crate) fn sent(&mut self, now: Time, name: &Name, command: u64) {
        let Some(prefix) = self.prefixes.get_mut(name) else {
            return;
        };
        if let State::Due(at) = prefix.state {
            self.due.remove(&(at, name.clone()));
        }
        let until = now + prefix.retry;
        (prefix.state, prefix.sent) = (State::Unanswered { until, command }, prefix.wanted);
        prefix.retry = (prefix.retry * 2).min(READVERTISE_RETRY_MOST);
        self.unanswered.insert((until, name.clone()));
    }

    /// Takes the answer to a command.
    pub(crate) fn answered(&mut self, now: Time, name: &Name, answered: u64, is_accepted: bool) {
        let Some(prefix) = self.prefixes.get_mut(name) else {
            return;
        };
        let State::Unanswered { until, command } = prefix.state else {
            return;
        };
        if command != answered {
            return;
        }
        self.unanswered.remove(&(until, name.clone()));
        prefix.state = State::Idle;
        let is_current = prefix.sent == prefix.wanted;
        if is_accepted {
            prefix.retry = READVERTISE_RETRY;
            self.accepted -= usize::from(prefix.is_accepted);
            prefix.is_accepted = prefix.sent.is_some();
            self.accepted += usize::from(prefix.is_accepted);
        }
        match (is_current, is_accepted, prefix.wanted) {
            (false, ..) => self.schedule(name, now),
            (true, false, _) => self.schedule(name, until),
            (true, true, Some(_)) => self.schedule(name, now + READVERTISE_INTERVAL),
            (true, true, None) => self.remove(name),
        }
    }

    /// Returns the number of prefixes to advertise, and of those that the daemon has accepted.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.prefixes.len() - self.withdrawn, self.accepted)
    }

    /// Returns the names of all prefixes.
    pub(crate) fn names(&self) -> Vec<Name> {
        self.prefixes.keys().cloned().collect()
    }

    /// Returns the time at which [`Readvertise::next`] may have a command.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        let given_up = self.unanswered.first().map(|(until, _)| *until);
        let due = self
            .due
            .first()
            .filter(|_| self.unanswered.len() < READVERTISE_UNANSWERED)
            .map(|(at, _)| *at);
        [given_up, due].into_iter().flatten().min()
    }
}
