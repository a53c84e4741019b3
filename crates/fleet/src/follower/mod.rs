//! A node that follows the purge log.

mod description;
mod marks;
mod phase;
mod recent;

pub use description::{
    FollowerConfig, FollowerCounters, FollowerState, LogDescription, ReadAnswer,
};

use crate::ids::{Id, Ids};
use crate::limits;
use crate::message::{Body, LogEntry, Publication};
use crate::outbox::{Action, Kept, Mark, Outbox, ReadFrom, StaleReason, Token};
use larder_units::Time;
use marks::Marks;
use phase::{Phase, Request, Tries, Why};
use recent::Recent;
use std::collections::{BTreeMap, VecDeque};

/// A beat without a proof yet.
#[derive(Debug)]
struct Beat {
    id: Id,
    /// The time before it was sent.
    sent_at: Time,
    /// The last applied sequence at that time.
    applied: u64,
    acknowledged: Option<u64>,
}

/// A barrier without an acknowledgement yet.
#[derive(Debug)]
struct PendingBarrier {
    id: Id,
    repeat_at: Time,
}

/// A node's state machine over the log.
///
/// It applies the entries in their order, one by one. A beat of its own proves that it is not
/// behind: if the node notes its clock, publishes a beat, and then applies the beat's sequence, it
/// has applied everything that was acknowledged before the noted time.
///
/// The host calls one method for each event, with the time of the event, carries out the actions
/// of the [`Outbox`] in their order, and then publishes [`Follower::fresh_until`] for lookups. It
/// calls [`Follower::on_timeout`] at [`Follower::next_timeout`].
#[derive(Debug)]
pub struct Follower {
    config: FollowerConfig,
    ids: Ids,
    tokens: u64,
    started: bool,
    phase: Phase,
    request: Request,
    tries: Tries,
    /// Why the node begins at the end of the log, until it does.
    begin: Option<StaleReason>,
    /// Entries that an earlier process of the node knew, until the first proof.
    witnesses: Vec<Kept>,
    /// The identity of the log, unless it was never known.
    identity: Option<String>,
    applied: u64,
    applied_id: Option<Id>,
    recent: Recent,
    /// The sequence of the last applied beat of any node, since the node has followed the log.
    last_beat: Option<u64>,
    /// The highest sequence that the log has had, as far as the node knows.
    end: u64,
    /// Entries after a gap.
    waiting: BTreeMap<u64, LogEntry>,
    gap_since: Option<Time>,
    /// Acknowledged sequences that are not applied yet, with their ids.
    expected: BTreeMap<u64, Id>,
    /// Applied sequences that the leader is asked for, with the ids that they had.
    checks: VecDeque<(u64, Id)>,
    beat: Option<Beat>,
    next_beat: Time,
    barrier: Option<PendingBarrier>,
    /// Whether the outbox has to be published again, when a barrier has come.
    awaits_barrier: bool,
    fresh_until: Option<Time>,
    marks: Marks,
    counters: FollowerCounters,
}

impl Follower {
    /// Creates a follower in [`FollowerState::Starting`]. `nonce` is random, and new at each start.
    pub fn new(config: FollowerConfig, nonce: u128) -> Self {
        Follower {
            config,
            ids: Ids::new(nonce),
            tokens: 0,
            started: false,
            phase: Phase::Disconnected,
            request: Request::None,
            tries: Tries::default(),
            begin: Some(StaleReason::Began),
            witnesses: Vec::new(),
            identity: None,
            applied: 0,
            applied_id: None,
            recent: Recent::default(),
            last_beat: None,
            end: 0,
            waiting: BTreeMap::new(),
            gap_since: None,
            expected: BTreeMap::new(),
            checks: VecDeque::new(),
            beat: None,
            next_beat: Time::ZERO,
            barrier: None,
            awaits_barrier: false,
            fresh_until: None,
            marks: Marks::default(),
            counters: FollowerCounters::default(),
        }
    }

    /// Continues at the kept position, or at the end of the log if there is none. The host calls
    /// it once, before all other events. The node is [`FollowerState::Lagging`] then, with or
    /// without a connection. `witnesses` are entries of one log by the node's
    /// journal ([`crate::Acceptor::on_journal_read`]): the log was rolled back if it has others.
    pub fn on_started(&mut self, kept: Option<Kept>, witnesses: Vec<Kept>) {
        self.started = true;
        self.witnesses = witnesses;
        let Some(kept) = kept else { return };
        self.begin = None;
        self.identity = Some(kept.identity);
        self.applied = kept.applied;
        self.end = kept.applied;
        self.last_beat = Some(kept.applied);
        self.recent.reset(kept.applied, Some(kept.id.clone()));
        self.applied_id = Some(kept.id);
    }

    /// Sets the beats in each `max_lag`: fewer in a large fleet, as all nodes read them.
    pub fn set_beats(&mut self, beats: u32) {
        self.config.beats = beats;
    }

    /// Returns the time up to and including which the node may serve stored responses without
    /// validation. `None`: it may not. A lookup compares it with its own time, so that a node that
    /// was stopped does not serve.
    pub fn fresh_until(&self) -> Option<Time> {
        self.fresh_until
    }

    /// Returns the state at `now`.
    pub fn state(&self, now: Time) -> FollowerState {
        if !self.started {
            return FollowerState::Starting;
        }
        if matches!(
            self.begin,
            Some(StaleReason::RolledBack | StaleReason::IdentityChanged)
        ) {
            return FollowerState::RolledBack;
        }
        match self.fresh_until {
            Some(until) if !until.has_passed(now) => match self.phase {
                Phase::Reading if self.applied >= self.end => FollowerState::Following,
                _ => FollowerState::Catching,
            },
            _ => FollowerState::Lagging,
        }
    }

    /// Returns the sequence of the last applied entry; 0 before the first one.
    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// Returns the number of entries that the node knows of and has not applied.
    pub fn behind(&self) -> u64 {
        self.end.saturating_sub(self.applied)
    }

    /// Returns the identity of the log and the sequence of the last applied entry. `None` if the
    /// node does not follow a log, or is about to begin at the end of one.
    pub fn position(&self) -> Option<(&str, u64)> {
        let identity = self.identity.as_deref()?;
        self.begin.is_none().then_some((identity, self.applied))
    }

    /// Returns whether the log may have lost entries that the node has applied: it is compared with
    /// what the node knows, or the node is about to begin at its end. Or it has lost some, and the
    /// node's barrier has not come, after which the outbox is published again.
    pub fn doubts_log(&self) -> bool {
        let compares = !self.checks.is_empty() || !matches!(self.phase, Phase::Reading);
        self.begin.is_some() || self.awaits_barrier || compares
    }

    /// Returns the id of an applied entry, if it is one of the last [`limits::RECENT_IDS`].
    pub fn id_of(&self, sequence: u64) -> Option<&Id> {
        self.recent.get(sequence)
    }

    /// Returns the identity of the log; `None` before it was read.
    pub fn identity(&self) -> Option<&str> {
        self.identity.as_deref()
    }

    /// Returns the counts since the start.
    pub fn counters(&self) -> FollowerCounters {
        self.counters
    }

    /// Takes note that the host subscribes to the republished entries, from now on. After each
    /// loss of the connection, also one that the client library repairs by itself, the host calls
    /// [`Follower::on_disconnected`] and then this.
    pub fn on_connected(&mut self, now: Time, out: &mut Outbox) {
        self.on_disconnected();
        if !self.started {
            return;
        }
        self.phase = Phase::Describing(Why::Connected);
        self.next_beat = now;
        if let Some(barrier) = &mut self.barrier {
            barrier.repeat_at = now;
        }
        self.advance(now, out);
    }

    /// Takes note that republished entries may be lost, from now on. Stored responses are served
    /// until the last proof ends.
    pub fn on_disconnected(&mut self) {
        self.phase = Phase::Disconnected;
        self.request = Request::None;
        self.beat = None;
        self.waiting.clear();
        self.gap_since = None;
    }

    /// Takes a republished entry.
    pub fn on_entry(&mut self, now: Time, entry: LogEntry, out: &mut Outbox) {
        if self.begin.is_some() || matches!(self.phase, Phase::Disconnected) {
            return;
        }
        if entry.sequence <= self.applied {
            match self.recent.get(entry.sequence) {
                Some(id) if *id == entry.id => self.counters.duplicates += 1,
                Some(id) => {
                    let id = id.clone();
                    self.doubt(entry.sequence, id);
                }
                None => {
                    if let Some((sequence, id)) = self.recent.oldest() {
                        self.doubt(sequence, id);
                    }
                }
            }
        } else {
            self.end = self.end.max(entry.sequence);
            if matches!(self.phase, Phase::Reading) {
                self.await_turn(entry);
            }
        }
        self.advance(now, out);
    }

    /// Takes an acknowledgement of the log: this id has this sequence. The host passes those of
    /// all publications of this node, also of accepted purges.
    pub fn on_acknowledged(&mut self, now: Time, id: &Id, sequence: u64, out: &mut Outbox) {
        if self.barrier.as_ref().is_some_and(|b| b.id == *id) {
            self.barrier = None;
        }
        let is_beat = self.beat.as_ref().is_some_and(|b| b.id == *id);
        if let Some(beat) = self.beat.as_mut().filter(|_| is_beat) {
            beat.acknowledged = Some(sequence);
            let last = self.witnesses.last().map_or(0, |entry| entry.applied);
            if sequence <= beat.applied.max(last) {
                // A new entry is above all that the log had. So it has fewer than it had.
                self.rolled_back();
            }
        }
        self.expect(sequence, id);
        self.advance(now, out);
    }

    /// Takes note that the cache has applied all changes up to this one, in such a way that they
    /// outlive a crash.
    pub fn on_settled(&mut self, now: Time, mark: Mark, out: &mut Outbox) {
        self.marks.settle(mark);
        self.advance(now, out);
    }

    /// Does what is due.
    pub fn on_timeout(&mut self, now: Time, out: &mut Outbox) {
        self.advance(now, out);
    }

    /// Returns the time of the next [`Follower::on_timeout`], if any.
    pub fn next_timeout(&self) -> Option<Time> {
        let connected = !matches!(self.phase, Phase::Disconnected);
        let beat = self.may_beat().then(|| match &self.beat {
            Some(beat) if beat.acknowledged.is_some() => beat.sent_at + self.config.max_lag,
            _ => self.next_beat,
        });
        let barrier = self.barrier.as_ref().map(|barrier| barrier.repeat_at);
        let keep = if self.may_keep() {
            self.marks.due().map(|(at, _)| at)
        } else {
            None
        };
        let request = match self.request {
            Request::None => None,
            Request::Sent { deadline, .. } => Some(deadline),
            Request::Paused { until } => Some(until),
        };
        let gap = match self.request {
            Request::None => self.gap_since.map(|since| since + limits::GAP_WAIT),
            _ => None,
        };
        [beat, barrier.filter(|_| connected), keep, request, gap]
            .into_iter()
            .flatten()
            .min()
    }

    /// Holds an entry until those before it are applied.
    fn await_turn(&mut self, entry: LogEntry) {
        let known = self.waiting.get(&entry.sequence);
        if known.is_some_and(|known| known.id != entry.id) {
            // One of both is from before a roll-back: all are read.
            self.waiting.clear();
        } else if self.waiting.len() < limits::WAITING_ENTRIES {
            self.waiting.insert(entry.sequence, entry);
        }
    }

    /// Compares the entry of a sequence with that which the log acknowledged there.
    fn expect(&mut self, sequence: u64, id: &Id) {
        if self.begin.is_some() {
            // When the node begins, its outbox is published again.
            return;
        }
        if sequence <= self.applied {
            match self.recent.get(sequence) {
                Some(known) if known == id => {}
                Some(_) => self.rolled_back(),
                None => self.doubt(sequence, id.clone()),
            }
            return;
        }
        self.end = self.end.max(sequence);
        let other = self.expected.insert(sequence, id.clone());
        if other.is_some_and(|other| other != *id) {
            return self.rolled_back();
        }
        if self.expected.len() > limits::EXPECTED_ENTRIES {
            self.expected.pop_first();
        }
    }

    /// Asks the leader whether this applied entry is still in the log. Nothing is applied
    /// meanwhile.
    fn doubt(&mut self, sequence: u64, id: Id) {
        let check = (sequence, id);
        if self.checks.len() >= limits::CHECKS || self.checks.contains(&check) {
            return;
        }
        self.counters.doubts += 1;
        self.checks.push_back(check);
    }

    /// Applies the next entry. Returns false if it shows that the log was rolled back.
    fn apply(&mut self, entry: LogEntry, out: &mut Outbox) -> bool {
        debug_assert_eq!(entry.sequence, self.applied + 1);
        if let Some(expected) = self.expected.remove(&entry.sequence)
            && expected != entry.id
        {
            self.rolled_back();
            return false;
        }
        match entry.body {
            Body::Purge(message) => out.push(Action::Apply {
                mark: self.marks.next_mark(),
                sequence: entry.sequence,
                message,
            }),
            Body::Beat { .. } => self.last_beat = Some(entry.sequence),
            Body::Barrier => {
                self.counters.barriers += 1;
                self.make_stale(StaleReason::Barrier, out);
            }
            Body::Unreadable => {
                self.counters.unreadable += 1;
                self.make_stale(StaleReason::Unreadable, out);
            }
        }
        self.counters.applied += 1;
        self.applied = entry.sequence;
        self.end = self.end.max(entry.sequence);
        self.recent.push(entry.id.clone());
        if self.last_beat == Some(entry.sequence) {
            // Only a beat is published once: its id shows that the log is still the same.
            self.marks.applied(entry.sequence, entry.id.clone());
        }
        self.applied_id = Some(entry.id);
        true
    }

    fn make_stale(&mut self, reason: StaleReason, out: &mut Outbox) {
        if reason == StaleReason::RolledBack {
            self.awaits_barrier = true;
        } else if reason.entries_lost() {
            self.awaits_barrier = false;
        }
        out.push(Action::MakeStale {
            mark: self.marks.next_mark(),
            reason,
        });
    }

    /// Ends the following of a log that has lost entries.
    fn rolled_back(&mut self) {
        self.counters.rolled_back += 1;
        self.barrier = None;
        self.begin_again(StaleReason::RolledBack);
    }

    /// Ends the following of the log. It goes on at its end, when it is known.
    fn begin_again(&mut self, reason: StaleReason) {
        self.begin = Some(reason);
        // The outbox is published again.
        self.witnesses.clear();
        self.fresh_until = None;
        self.beat = None;
        self.expected.clear();
        self.checks.clear();
        self.waiting.clear();
        self.gap_since = None;
        self.marks.clear();
        self.request = Request::None;
        if !matches!(self.phase, Phase::Disconnected) {
            self.phase = Phase::Describing(Why::Connected);
        }
    }

    /// Goes on at the end of the log. All entries up to it entered the log before now, so what was
    /// requested before each of them becomes stale.
    fn begin_at(&mut self, now: Time, sequence: u64, id: Option<Id>, out: &mut Outbox) {
        let Some(reason) = self.begin.take() else {
            return;
        };
        self.make_stale(reason, out);
        self.applied = sequence;
        self.end = sequence;
        self.recent.reset(sequence, id.clone());
        self.last_beat = None;
        self.applied_id = id;
        self.next_beat = now;
        self.check_witnesses();
        self.phase = Phase::Checking;
        if reason == StaleReason::RolledBack {
            // Nodes that were behind the loss cannot see it.
            self.barrier = Some(PendingBarrier {
                id: self.ids.next_id(),
                repeat_at: now,
            });
        }
    }

    /// Returns whether a position may be kept. A roll-back that others do not know yet is found
    /// again after a crash.
    fn may_keep(&self) -> bool {
        self.begin.is_none() && self.barrier.is_none()
    }

    /// Does all that can be done at `now`.
    fn advance(&mut self, now: Time, out: &mut Outbox) {
        if !self.started {
            return;
        }
        self.read_on(now, out);
        self.prove();
        self.send_beat(now, out);
        self.send_barrier(now, out);
        if self.may_keep()
            && let Some(identity) = &self.identity
            && let Some(kept) = self.marks.keep(now, identity)
        {
            out.push(Action::Keep(kept));
        }
    }

    /// Ends the beat if its sequence is applied.
    fn prove(&mut self) {
        if !matches!(self.phase, Phase::Reading) {
            return;
        }
        let Some(beat) = &self.beat else { return };
        if beat.acknowledged.is_some_and(|s| s <= self.applied) {
            let until = beat.sent_at + self.config.max_lag;
            self.fresh_until = self.fresh_until.max(Some(until));
            self.counters.proofs += 1;
            self.witnesses.clear();
            self.beat = None;
        }
    }

    fn may_beat(&self) -> bool {
        self.begin.is_none()
            && match &self.phase {
                Phase::Checking | Phase::Reading => true,
                Phase::Describing(why) => *why != Why::Connected,
                Phase::Disconnected | Phase::Beginning { .. } => false,
            }
    }

    fn send_beat(&mut self, now: Time, out: &mut Outbox) {
        if !self.may_beat() || now < self.next_beat {
            return;
        }
        // A beat that is acknowledged proves as soon as its sequence is applied.
        let proving = self.beat.as_ref().is_some_and(|beat| {
            beat.acknowledged.is_some() && now < beat.sent_at + self.config.max_lag
        });
        if proving {
            return;
        }
        let id = self.ids.next_id();
        self.beat = Some(Beat {
            id: id.clone(),
            sent_at: now,
            applied: self.applied,
            acknowledged: None,
        });
        self.next_beat = now + self.config.max_lag / self.config.beats.max(1);
        self.counters.beats += 1;
        let node = self.config.node.clone();
        out.push(Action::Publish(Publication {
            id,
            body: Body::Beat { node },
        }));
    }

    fn send_barrier(&mut self, now: Time, out: &mut Outbox) {
        if matches!(self.phase, Phase::Disconnected) {
            return;
        }
        if let Some(barrier) = self.barrier.as_mut().filter(|b| b.repeat_at <= now) {
            barrier.repeat_at = now + limits::REPEAT;
            out.push(Action::Publish(Publication {
                id: barrier.id.clone(),
                body: Body::Barrier,
            }));
        }
    }

    fn next_token(&mut self) -> Token {
        self.tokens += 1;
        Token(self.tokens)
    }

    /// Takes the description of the log, or `None` if it could not be read.
    pub fn on_description(
        &mut self,
        now: Time,
        token: Token,
        description: Option<LogDescription>,
        out: &mut Outbox,
    ) {
        let Phase::Describing(why) = self.phase else {
            return;
        };
        if !self.is_answer(token) {
            return;
        }
        match description {
            None => self.pause(now),
            Some(description) => self.take_description(now, why, description, out),
        }
        self.advance(now, out);
    }

    /// Takes the answer to a read.
    pub fn on_read(&mut self, now: Time, token: Token, answer: ReadAnswer, out: &mut Outbox) {
        if !self.is_answer(token) {
            return;
        }
        match answer {
            ReadAnswer::Found(entries) if !entries.is_empty() => match self.phase {
                Phase::Beginning { last } => self.take_last(now, last, entries, out),
                Phase::Checking => self.take_check(&entries),
                Phase::Reading => self.take_missing(now, entries, out),
                Phase::Disconnected | Phase::Describing(_) => {}
            },
            ReadAnswer::Found(_) | ReadAnswer::Failed => self.pause(now),
            ReadAnswer::NotFound => self.not_found(now),
        }
        self.advance(now, out);
    }

    fn is_answer(&mut self, token: Token) -> bool {
        let current = matches!(self.request, Request::Sent { token: sent, .. } if sent == token);
        if current {
            self.request = Request::None;
        }
        current
    }

    /// Repeats the request later.
    fn pause(&mut self, now: Time) {
        let pause = limits::READ_RETRY_FIRST * 2u32.pow(self.tries.pauses.min(10));
        self.tries.pauses += 1;
        self.request = Request::Paused {
            until: now + pause.min(limits::READ_RETRY_LONGEST),
        };
    }

    fn not_found(&mut self, now: Time) {
        self.tries.not_found += 1;
        let why = match self.phase {
            Phase::Checking => Why::CheckNotFound,
            Phase::Reading if self.tries.not_found < limits::MISSES => return self.pause(now),
            Phase::Reading => Why::NextNotFound,
            _ => {
                self.pause(now);
                Why::Connected
            }
        };
        self.phase = Phase::Describing(why);
    }

    fn take_description(
        &mut self,
        now: Time,
        why: Why,
        description: LogDescription,
        out: &mut Outbox,
    ) {
        let LogDescription {
            identity,
            first,
            last,
        } = description;
        let of_journal = self.witnesses.first().map(|entry| &entry.identity);
        let mut known = self.identity.iter().chain(of_journal);
        if known.any(|known| *known != identity) && self.begin != Some(StaleReason::IdentityChanged)
        {
            if self.begin != Some(StaleReason::RolledBack) {
                self.counters.rolled_back += 1;
            }
            self.begin_again(StaleReason::IdentityChanged);
        } else if self.begin.is_none()
            && (first > self.applied + 1 || self.compares() && first > self.applied)
        {
            self.counters.missed += 1;
            self.begin_again(StaleReason::Missed);
        } else if self.begin.is_none()
            && self.applied > 0
            && self.applied_id.is_none()
            && first <= self.applied
        {
            // The log did not keep this sequence, and does so now.
            self.rolled_back();
        }
        if self.begin.is_some() {
            return self.begin_with(now, identity, first, last, out);
        }
        match why {
            Why::Connected => {
                self.tries = Tries::default();
                self.end = self.end.max(last);
                self.check_applied();
                self.check_witnesses();
                self.phase = Phase::Checking;
            }
            Why::CheckNotFound => self.judge_check(now, first, last),
            Why::NextNotFound => self.judge_next(now, last),
        }
    }

    /// Returns whether the description is read to compare the last applied entry with the log's. If
    /// the log does not keep it any more, nobody knows whether it is the same.
    fn compares(&self) -> bool {
        self.applied > 0 && matches!(self.phase, Phase::Describing(Why::Connected))
    }

    /// Begins at the end of the log, whose last entry is read for its id.
    fn begin_with(&mut self, now: Time, identity: String, first: u64, last: u64, out: &mut Outbox) {
        self.tries = Tries::default();
        self.identity = Some(identity);
        if last == 0 || first > last {
            self.begin_at(now, last, None, out);
        } else {
            self.phase = Phase::Beginning { last };
        }
    }

    fn take_last(&mut self, now: Time, last: u64, entries: Vec<LogEntry>, out: &mut Outbox) {
        self.tries = Tries::default();
        match entries.into_iter().next() {
            Some(entry) if entry.sequence == last => self.begin_at(now, last, Some(entry.id), out),
            _ => self.phase = Phase::Describing(Why::Connected),
        }
    }

    fn take_check(&mut self, entries: &[LogEntry]) {
        self.tries = Tries::default();
        for entry in entries {
            let Some((sequence, id)) = self.checks.pop_front() else {
                return;
            };
            if entry.sequence != sequence || entry.id != id {
                return self.rolled_back();
            }
        }
    }

    /// Compares the last applied entries with the log's, from the last beat on. A repeated purge or
    /// barrier may have the same sequence as before a roll-back, but a beat is published once.
    fn check_applied(&mut self) {
        let from = self.last_beat.unwrap_or(0);
        let from = from.max(self.applied.saturating_sub(limits::READ_ENTRIES - 1));
        for sequence in (from..=self.applied).rev() {
            if let Some(id) = self.recent.get(sequence) {
                self.checks.push_front((sequence, id.clone()));
            }
        }
    }

    /// Compares the entries that the journal knows with the log's.
    fn check_witnesses(&mut self) {
        for Kept { applied, id, .. } in &self.witnesses {
            let check = (*applied, id.clone());
            if *applied > self.applied {
                // A deposed leader may know the entry still.
                self.expected.insert(*applied, id.clone());
            }
            if !self.checks.contains(&check) {
                self.checks.push_back(check);
            }
        }
    }

    /// The leader did not find an applied entry. A deposed leader does not know the newest ones, so
    /// only an end above it is a reason to believe it. Otherwise the node's own beat decides.
    fn judge_check(&mut self, now: Time, first: u64, last: u64) {
        self.phase = Phase::Checking;
        self.tries.not_found = 0;
        let Some((sequence, _)) = self.checks.front() else {
            return;
        };
        if first > *sequence {
            self.counters.missed += 1;
            self.begin_again(StaleReason::Missed);
        } else if last >= *sequence {
            self.tries.rounds += 1;
            if self.tries.rounds >= limits::MISSED_ROUNDS {
                return self.rolled_back();
            }
            self.pause(now);
        } else {
            self.pause(now);
        }
    }

    /// The leader did not find the next entry.
    fn judge_next(&mut self, now: Time, last: u64) {
        self.phase = Phase::Reading;
        self.tries.not_found = 0;
        if last <= self.applied {
            self.end = self.applied;
            self.waiting.clear();
            return;
        }
        self.tries.rounds += 1;
        if self.tries.rounds >= limits::MISSED_ROUNDS {
            self.counters.missed += 1;
            return self.begin_again(StaleReason::Missed);
        }
        self.pause(now);
    }

    /// Applies entries that were read.
    fn take_missing(&mut self, now: Time, entries: Vec<LogEntry>, out: &mut Outbox) {
        for entry in entries {
            if entry.sequence <= self.applied {
                let known = self.recent.get(entry.sequence);
                if known.is_some_and(|known| *known != entry.id) {
                    return self.rolled_back();
                }
                continue;
            }
            if entry.sequence != self.applied + 1 {
                return self.not_found(now);
            }
            let came = self.waiting.get(&entry.sequence);
            if came.is_some_and(|came| came.id != entry.id) {
                // One of both is from before a roll-back. What is read from now on is not.
                self.waiting.clear();
                self.tries.not_found = self.tries.not_found.max(limits::REPLICA_MISSES);
                return self.pause(now);
            }
            self.tries = Tries::default();
            if !self.apply(entry, out) {
                return;
            }
        }
    }

    /// Applies what waits, and sends the request that the phase needs.
    fn read_on(&mut self, now: Time, out: &mut Outbox) {
        if matches!(self.phase, Phase::Reading) && !self.checks.is_empty() {
            self.phase = Phase::Checking;
            self.request = Request::None;
            self.waiting.clear();
        }
        while let Phase::Reading = self.phase {
            let Some(entry) = self.waiting.remove(&(self.applied + 1)) else {
                break;
            };
            if !self.apply(entry, out) {
                break;
            }
        }
        match self.request {
            Request::None => {}
            Request::Sent { deadline, .. } if now < deadline => return,
            Request::Sent { .. } => {
                self.request = Request::None;
                self.tries.pauses += 1;
            }
            Request::Paused { until } if now < until => return,
            Request::Paused { .. } => self.request = Request::None,
        }
        if let Phase::Checking = self.phase
            && self.checks.is_empty()
        {
            self.phase = Phase::Reading;
        }
        match self.phase {
            Phase::Disconnected => {}
            Phase::Describing(_) => {
                let token = self.sent(now);
                out.push(Action::ReadDescription { token });
            }
            Phase::Beginning { last } => self.read(now, last, last, ReadFrom::Leader, out),
            Phase::Checking => {
                if let Some((from, _)) = self.checks.front() {
                    let from = *from;
                    let checks = (from..from + limits::READ_ENTRIES).zip(&self.checks);
                    let run = checks.take_while(|(expected, (sequence, _))| expected == sequence);
                    let to = from + run.count() as u64 - 1;
                    self.read(now, from, to, ReadFrom::Leader, out);
                }
            }
            Phase::Reading => self.read_gap(now, out),
        }
    }

    /// Reads missing entries. What came before the read and lies in its range or above is
    /// forgotten: after a roll-back it would be mixed with what is read.
    fn read_gap(&mut self, now: Time, out: &mut Outbox) {
        self.waiting.retain(|sequence, _| *sequence > self.applied);
        if self.applied >= self.end {
            self.gap_since = None;
            return;
        }
        let since = *self.gap_since.get_or_insert(now);
        if now < since + limits::GAP_WAIT {
            return;
        }
        self.waiting.clear();
        self.counters.reads += 1;
        let from = self.applied + 1;
        let to = self.end.min(self.applied + limits::READ_ENTRIES);
        let source = if self.tries.not_found >= limits::REPLICA_MISSES {
            ReadFrom::Leader
        } else {
            ReadFrom::AnyReplica
        };
        self.read(now, from, to, source, out);
    }

    fn read(&mut self, now: Time, from: u64, to: u64, source: ReadFrom, out: &mut Outbox) {
        let token = self.sent(now);
        out.push(Action::Read {
            token,
            from,
            to,
            source,
        });
    }

    fn sent(&mut self, now: Time) -> Token {
        let token = self.next_token();
        self.request = Request::Sent {
            token,
            deadline: now + limits::READ_TIMEOUT,
        };
        token
    }
}
