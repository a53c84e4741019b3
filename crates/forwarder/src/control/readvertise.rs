//! The prefixes that a routing daemon on this machine has to spread: which commands are due, and
//! which have no answer yet. `management/readvertise.rs` builds and reads the packets.
//!
//! Only one command per prefix has no answer at a time, because daemons handle commands side by
//! side. If the routes change meanwhile, the next command follows the answer. A command without an
//! answer, or with a refusal, is repeated with growing delays.

use crate::face::{FaceId, Faces};
use crate::limits::{
    READVERTISE_INTERVAL, READVERTISE_RETRY, READVERTISE_RETRY_MOST, READVERTISE_UNANSWERED,
    READVERTISE_WITHDRAWN,
};
use crate::local_names::{is_localhop, is_localhost, is_routing_daemon};
use crate::tables::rib::{FibUpdate, Rib, Route};
use larder_packet::{Name, NameRef};
use larder_units::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The origins of routes that are advertised: an application, and a client (NFD management
/// protocol, "Route origins"). Others are the operator's, or come from routing itself.
const ADVERTISED_ORIGINS: [u64; 2] = [0, 65];

/// The position of the ControlParameters in a command's name, after `/localhost/nlsr/rib/VERB`.
pub(crate) const PARAMETERS: usize = 4;

/// The least components of a route to the daemon. A default route does not lead to it.
const DAEMON_COMPONENTS: usize = 2;

/// The prefixes that the daemon knows or has to learn.
#[derive(Default)]
pub(crate) struct Readvertise {
    /// False if no prefix is to be spread. Those that the daemon knows are withdrawn.
    is_on: bool,
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
    /// Advertises the prefixes of applications, or withdraws them.
    pub(crate) fn turn(&mut self, now: Time, is_on: bool, rib: &Rib, faces: &Faces) {
        self.is_on = is_on;
        self.find_daemon(now, rib, faces);
        self.note_all(now, rib);
    }

    /// Notes which of these prefixes are to be advertised now. The routes have changed already.
    pub(crate) fn note(&mut self, now: Time, updates: &[FibUpdate], rib: &Rib, faces: &Faces) {
        if !self.is_on && self.prefixes.is_empty() {
            return;
        }
        if updates
            .iter()
            .any(|update| is_routing_daemon(update.prefix.as_name()))
            && self.find_daemon(now, rib, faces)
        {
            // Routes to the daemon itself are not advertised.
            self.note_all(now, rib);
            return;
        }
        for update in updates {
            self.note_prefix(now, &update.prefix, rib);
        }
    }

    fn note_all(&mut self, now: Time, rib: &Rib) {
        let mut names: Vec<Name> = self.prefixes.keys().cloned().collect();
        for (prefix, _) in rib.iter() {
            names.push(prefix.clone());
        }
        for name in names {
            self.note_prefix(now, &name, rib);
        }
    }

    fn note_prefix(&mut self, now: Time, prefix: &Name, rib: &Rib) {
        let cost = self.advertised_cost(prefix.as_name(), rib.of(prefix));
        self.set(now, prefix, cost);
    }

    /// Returns the cost to advertise, or `None` if the prefix is not to be advertised.
    fn advertised_cost(&self, prefix: NameRef<'_>, routes: &[Route]) -> Option<u64> {
        if !self.is_on || is_localhost(prefix) || is_localhop(prefix) {
            return None;
        }
        let mut least: Option<u64> = None;
        for route in routes {
            if ADVERTISED_ORIGINS.contains(&route.origin) && !self.daemon.contains(&route.face) {
                least = Some(least.map_or(route.cost, |least| least.min(route.cost)));
            }
        }
        least
    }

    /// Finds the faces that lead to the daemon. Returns true if they have changed.
    fn find_daemon(&mut self, now: Time, rib: &Rib, faces: &Faces) -> bool {
        let name = command_name("register");
        let mut daemon = Vec::new();
        for components in (DAEMON_COMPONENTS..=PARAMETERS).rev() {
            // The prefix's own routes: a default route that it inherits is not the daemon's.
            for route in rib.of(&name.as_name().prefix(components).to_name()) {
                if !daemon.contains(&route.face)
                    && faces.get(route.face).is_some_and(|face| face.is_local())
                {
                    daemon.push(route.face);
                }
            }
            if !daemon.is_empty() {
                break;
            }
        }
        self.set_daemon(now, daemon)
    }

    /// Takes the faces of the daemon. Returns true if they have changed. The daemon has started or
    /// ended then, so every prefix is sent again: the commands before may have reached a process
    /// that ends.
    fn set_daemon(&mut self, now: Time, faces: Vec<FaceId>) -> bool {
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
    fn set(&mut self, now: Time, name: &Name, wanted: Option<u64>) {
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

/// Returns `/localhost/nlsr/rib/VERB`.
pub(crate) fn command_name(verb: &str) -> Name {
    let mut name = Name::root();
    for part in ["localhost", "nlsr", "rib", verb] {
        name.push_generic(part.as_bytes());
    }
    name
}
