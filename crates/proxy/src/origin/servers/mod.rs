//! Chooses one of several servers, and keeps their health, without any I/O: a state machine with
//! time as an argument. A member is a server at one address.
//!
//! - **Choice** (`balance.rs`): by key or by load, with weights. Backups get requests if no other
//!   member can.
//! - **Passive checks** (`breaker.rs`): after some failed requests in a row, a member is out for a
//!   second, then for twice as long each time. After that, one request tries it, and others use
//!   other members until that one is answered. If others are healthy, only a request that may be
//!   repeated is used for that. Requests that may themselves be the cause of their failure
//!   ([`Verdict::Broken`]) take no member out if no other is healthy, and bring it back if they
//!   tried it: one page at which a program crashes does not end the service.
//! - **Active checks**: two failures in a row take a member out, two successes bring it back. If no
//!   other member is left, these are used all the same: a wrong check must not end the service.
//! - **No member is left**: requests fail at once, with the time of the next try.
//! - **Retries** have a budget (`retry_budget.rs`).
//! - **Names** may have a member for each address, which join and leave (`name.rs`).
//!
//! A choice costs some twenty instructions per member. A member takes 200 bytes.

mod balance;
mod breaker;
mod name;
mod retry_budget;
mod shared_pool;
#[cfg(test)]
mod simulation;

pub use balance::Balance;
pub(crate) use breaker::Change;
pub(crate) use name::{Addresses, Event, NameFigures};
pub(crate) use shared_pool::{Asking, InProgress, Known, NoMember, OfName, SharedPool};

use crate::base::limits;
use balance::{Candidate, choose};
use breaker::{Breaker, Thresholds};
use larder_units::{Time, from_text, parse_duration};
use retry_budget::RetryBudget;
use serde::{Deserialize, Deserializer};
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::time::Duration;

/// The settings of an origin's servers.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct PoolConfig {
    /// The choice between servers.
    pub balance: Balance,
    /// Failed requests in a row after which a server is left out; 0: it never is.
    pub max_fails: u32,
    /// The longest time for which it is left out; at least a second.
    #[serde(deserialize_with = "period")]
    pub fail_timeout: Duration,
    /// The time in which the share of a server grows after that; 0: it has all at once.
    #[serde(deserialize_with = "slow_start")]
    pub slow_start: Duration,
    /// Retries for each 100 requests.
    #[serde(rename = "retry_budget", deserialize_with = "percent")]
    pub retry_percent: u32,
}

impl Default for PoolConfig {
    fn default() -> Self {
        PoolConfig {
            balance: Balance::Hash,
            max_fails: limits::FAILURES_OUT,
            fail_timeout: limits::OUT_LONGEST,
            slow_start: Duration::ZERO,
            retry_percent: limits::RETRY_PERCENT,
        }
    }
}

fn slow_start<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    from_text(deserializer, parse_duration)
}

fn percent<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    from_text(deserializer, |text| {
        let percent = text
            .strip_suffix('%')
            .and_then(|number| number.trim().parse().ok());
        percent
            .filter(|percent| *percent <= 100)
            .ok_or("expected 0% to 100%")
    })
}

/// Reads a time of at least a second.
pub fn period<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    from_text(deserializer, |text| {
        let period = parse_duration(text).map_err(|error| error.to_string())?;
        if period < Duration::from_secs(1) {
            Err("expected at least 1s".to_owned())
        } else {
            Ok(period)
        }
    })
}

/// The settings of one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemberConfig {
    /// The hash of its name: the same in every node and after every restart.
    pub hash: u64,
    /// At least 1.
    pub weight: u32,
    /// True if it gets requests only if no other member can.
    pub is_backup: bool,
    /// The most outstanding requests; 0: no limit.
    pub max_conns: u32,
}

/// The members of one origin. `T` is the host's server.
#[derive(Debug)]
pub(crate) struct Pool<T> {
    config: PoolConfig,
    /// At most [`limits::SERVERS`]. The place of a member that is gone is used again.
    members: Vec<Option<Member<T>>>,
    /// The number of the next member.
    next_id: u32,
    /// Names whose addresses are not known yet: a request that finds no member waits for them.
    pending: usize,
    retries: RetryBudget,
    /// Retries that the budget did not allow.
    retries_refused: u64,
    /// Requests that found no member.
    unavailable: u64,
    candidates: Vec<Candidate>,
}

#[derive(Debug)]
struct Member<T> {
    item: T,
    /// Tells it from an earlier member in its place.
    id: u32,
    config: MemberConfig,
    breaker: Breaker,
    outstanding: u32,
    figures: Figures,
}

/// Counts of a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// Requests that were sent to it.
    pub requests: u64,
    /// Those of them that it did not answer.
    pub failures: u64,
    /// The times that its breaker opened.
    pub ejections: u64,
}

impl Figures {
    pub(crate) fn add(&mut self, other: &Figures) {
        self.requests += other.requests;
        self.failures += other.failures;
        self.ejections += other.ejections;
    }
}

/// A member, for the status page.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot<T> {
    /// The host's server.
    pub item: T,
    /// True if it gets requests.
    pub is_usable: bool,
    /// The state in words.
    pub state: &'static str,
    /// Requests in progress.
    pub outstanding: u32,
    /// Its counts.
    pub figures: Figures,
    /// Its settings.
    pub config: MemberConfig,
}

/// The members that a request has been sent to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tried(u64);

impl Tried {
    pub(crate) fn count(self) -> u32 {
        self.0.count_ones()
    }
}

/// A request at a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    at: usize,
    id: u32,
    /// The number of the probe that it is.
    probe: Option<u32>,
    sent: Time,
}

/// The result of [`Pool::next`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Send the request to this member.
    Send(Ticket),
    /// All members that could be used have as many requests as they may have, or are not known yet.
    Wait,
    /// There is no member for it; one may be there after this time.
    Unavailable(Duration),
    /// All members for it were tried, or the budget allows no further try.
    Exhausted,
}

/// What a request says about its member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It was answered, with any status.
    Answered,
    /// It was not answered.
    Failed,
    /// It was not answered, and may be the cause itself.
    Broken,
    /// Nothing: the client may be the cause.
    Nothing,
}

/// Returns the hash of a key, which is the same on every node.
pub(crate) fn key(parts: &[&[u8]]) -> u64 {
    let mut hasher = SipHasher13::new();
    for part in parts {
        hasher.write(part);
        hasher.write_u8(0xff);
    }
    hasher.finish()
}

impl<T: Clone> Pool<T> {
    pub(crate) fn new(config: PoolConfig, now: Time) -> Pool<T> {
        Pool {
            config,
            members: Vec::new(),
            next_id: 0,
            pending: 0,
            retries: RetryBudget::new(config.retry_percent, now),
            retries_refused: 0,
            unavailable: 0,
            candidates: Vec::new(),
        }
    }

    /// Adds a member. `before` is the same server in an earlier pool, whose health and counts it
    /// keeps. Returns false if there are [`limits::SERVERS`] already.
    pub(crate) fn add(
        &mut self,
        item: T,
        config: MemberConfig,
        before: Option<&Past>,
        now: Time,
    ) -> bool {
        let free = self
            .members
            .iter()
            .position(Option::is_none)
            .unwrap_or(self.members.len());
        if free >= limits::SERVERS {
            return false;
        }
        let (breaker, figures) = match before {
            Some(past) => (past.breaker.under(self.thresholds(), now), past.figures),
            None => (Breaker::new(self.thresholds()), Figures::default()),
        };
        let member = Some(Member {
            item,
            id: self.next_id,
            config,
            breaker,
            outstanding: 0,
            figures,
        });
        self.next_id = self.next_id.wrapping_add(1);
        match self.members.get_mut(free) {
            Some(place) => *place = member,
            None => self.members.push(member),
        }
        true
    }

    /// Adds a member that nobody has used yet. Its share of requests grows.
    pub(crate) fn join(&mut self, item: T, config: MemberConfig, now: Time) -> bool {
        let id = self.next_id;
        let is_added = self.add(item, config, None, now);
        let added = self
            .members
            .iter_mut()
            .flatten()
            .find(|member| is_added && member.id == id);
        if let Some(member) = added {
            member.breaker.start_slowly(now);
        }
        is_added
    }

    /// Sets the number of names whose addresses are not known yet.
    pub(crate) fn set_pending(&mut self, names: usize) {
        self.pending = names;
    }

    /// Keeps the members that `is_kept` names. Requests at others end as they would.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(&T) -> bool) {
        for place in &mut self.members {
            if place.as_ref().is_some_and(|member| !is_kept(&member.item)) {
                *place = None;
            }
        }
    }

    /// Returns the health and the counts of a member.
    pub(crate) fn past(&self, is_it: impl Fn(&T) -> bool) -> Option<Past> {
        let member = self
            .members
            .iter()
            .flatten()
            .find(|member| is_it(&member.item))?;
        Some(Past {
            breaker: member.breaker.clone(),
            figures: member.figures,
        })
    }

    /// Returns the host's servers.
    pub(crate) fn items(&self) -> impl Iterator<Item = &T> {
        self.members.iter().flatten().map(|member| &member.item)
    }

    /// Returns true if there is one member, and no name that may have more.
    pub(crate) fn is_single(&self) -> bool {
        self.pending == 0 && self.items().nth(1).is_none()
    }

    /// Returns the server of a ticket that was just given.
    pub(crate) fn item(&self, ticket: Ticket) -> Option<&T> {
        self.member(ticket).map(|member| &member.item)
    }

    /// Returns the member for the key among those that were not tried. `is_repeatable`: another
    /// member may get the request if this one does not answer.
    pub(crate) fn next(
        &mut self,
        key: u64,
        tried: &mut Tried,
        is_repeatable: bool,
        now: Time,
    ) -> Choice {
        let is_retry = tried.count() > 0;
        if is_retry && !self.retries.allows(now) {
            self.retries_refused += 1;
            return Choice::Exhausted;
        }
        for member in self.members.iter_mut().flatten() {
            member.breaker.settle(now);
        }
        let chosen = self.choose(key, *tried, is_repeatable, now);
        let Some(Candidate { at, .. }) = chosen else {
            return if is_retry {
                Choice::Exhausted
            } else {
                self.none_is_left(now)
            };
        };
        if is_retry {
            self.retries.on_retry()
        } else {
            self.retries.on_request(now)
        }
        tried.0 |= 1 << at;
        let member = self.members[at].as_mut().expect("a candidate is a member");
        let probe = (!member.breaker.is_closed()).then(|| member.breaker.begin_probe(now));
        member.outstanding += 1;
        member.figures.requests += 1;
        Choice::Send(Ticket {
            at,
            id: member.id,
            probe,
            sent: now,
        })
    }

    /// Healthy members and those that are due for a probe, then backups, then members that only
    /// active checks have taken out.
    fn choose(
        &mut self,
        key: u64,
        tried: Tried,
        is_repeatable: bool,
        now: Time,
    ) -> Option<Candidate> {
        let is_any_healthy = self
            .members
            .iter()
            .flatten()
            .any(|member| member.breaker.is_healthy());
        let probes = is_repeatable || !is_any_healthy;
        let mut candidates = std::mem::take(&mut self.candidates);
        let mut best = |is_fit: &dyn Fn(&Member<T>) -> bool, members: &mut [Option<Member<T>>]| {
            candidates.clear();
            for (at, member) in members.iter_mut().enumerate() {
                let Some(member) = member.as_mut().filter(|_| tried.0 & 1 << at == 0) else {
                    continue;
                };
                let MemberConfig {
                    hash,
                    weight,
                    max_conns,
                    ..
                } = member.config;
                if is_fit(member) && (max_conns == 0 || member.outstanding < max_conns) {
                    let weight = f64::from(weight.max(1)) * member.breaker.share(now);
                    candidates.push(Candidate {
                        at,
                        hash,
                        weight,
                        outstanding: member.outstanding,
                    });
                }
            }
            choose(self.config.balance, key, &candidates)
        };
        let is_used = |member: &Member<T>| {
            let is_probed = probes && (!member.breaker.is_down() || !is_any_healthy);
            member.breaker.is_healthy() || is_probed && member.breaker.is_due(now)
        };
        let chosen = best(
            &|member| !member.config.is_backup && is_used(member),
            &mut self.members,
        )
        .or_else(|| {
            best(
                &|member| member.config.is_backup && is_used(member),
                &mut self.members,
            )
        })
        .or_else(|| {
            let is_last = |member: &Member<T>| !is_any_healthy && member.breaker.is_closed();
            best(&is_last, &mut self.members)
        });
        self.candidates = candidates;
        chosen
    }

    fn none_is_left(&mut self, now: Time) -> Choice {
        let is_any_full = self
            .members
            .iter()
            .flatten()
            .any(|member| member.breaker.is_closed());
        if is_any_full || self.pending > 0 {
            return Choice::Wait;
        }
        self.unavailable += 1;
        let next = self
            .members
            .iter()
            .flatten()
            .filter_map(|member| member.breaker.opens_at())
            .min();
        Choice::Unavailable(next.map_or(limits::OUT_FIRST, |next| next.since(now)))
    }

    /// Records that a request gave up its wait for a member.
    pub(crate) fn on_wait_over(&mut self) {
        self.unavailable += 1;
    }

    /// Records what a request says about its member. Each ticket has one verdict.
    pub(crate) fn on_verdict(
        &mut self,
        ticket: Ticket,
        verdict: Verdict,
        now: Time,
    ) -> Option<Change> {
        let counts = verdict != Verdict::Broken || self.has_trusted_beside(ticket.at);
        let member = self.member_mut(ticket)?;
        member.figures.failures += u64::from(matches!(verdict, Verdict::Failed | Verdict::Broken));
        let change = match verdict {
            Verdict::Answered => member.breaker.on_answer(now),
            Verdict::Failed | Verdict::Broken if counts => {
                member.breaker.on_failure(ticket.probe, ticket.sent, now)
            }
            // It is there again.
            Verdict::Broken if ticket.probe.is_some() => member.breaker.on_answer(now),
            Verdict::Failed | Verdict::Broken | Verdict::Nothing => {
                member.breaker.on_nothing(ticket.probe, now);
                None
            }
        };
        member.figures.ejections += u64::from(change == Some(Change::Opened));
        change
    }

    /// Records the end of a request, with the body of its response. Each ticket ends once.
    pub(crate) fn on_end(&mut self, ticket: Ticket) {
        if let Some(member) = self.member_mut(ticket) {
            member.outstanding -= 1;
        }
    }

    /// Records the result of an active check.
    pub(crate) fn on_check(
        &mut self,
        is_it: impl Fn(&T) -> bool,
        well: bool,
        now: Time,
    ) -> Option<Change> {
        let member = self
            .members
            .iter_mut()
            .flatten()
            .find(|member| is_it(&member.item))?;
        let change = member.breaker.on_check(well, now);
        member.figures.ejections += u64::from(change == Some(Change::Opened));
        change
    }

    /// Returns every member.
    pub(crate) fn snapshot(&self, now: Time) -> Vec<Snapshot<T>> {
        let one = |member: &Member<T>| Snapshot {
            item: member.item.clone(),
            is_usable: member.breaker.is_healthy()
                || member.breaker.is_due(now) && !member.breaker.is_down(),
            state: member.breaker.name(),
            outstanding: member.outstanding,
            figures: member.figures,
            config: member.config,
        };
        self.members.iter().flatten().map(one).collect()
    }

    /// Returns true if some member has a limit of requests.
    pub(crate) fn has_limits(&self) -> bool {
        self.members
            .iter()
            .flatten()
            .any(|member| member.config.max_conns > 0)
    }

    /// Returns how many more requests the members may have; `None` if one of them has no limit.
    pub(crate) fn room(&self) -> Option<usize> {
        let mut room = 0;
        for member in self.members.iter().flatten() {
            if member.config.max_conns == 0 {
                return None;
            }
            room += member.config.max_conns.saturating_sub(member.outstanding) as usize;
        }
        Some(room)
    }

    /// Returns the retries that the budget did not allow, and the requests that found no member.
    pub(crate) fn refusals(&self) -> (u64, u64) {
        (self.retries_refused, self.unavailable)
    }

    /// Returns true if another member than this one can be relied on.
    fn has_trusted_beside(&self, at: usize) -> bool {
        let others = self
            .members
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != at);
        others
            .filter_map(|(_, member)| member.as_ref())
            .any(|member| member.breaker.is_trusted())
    }

    fn member(&self, ticket: Ticket) -> Option<&Member<T>> {
        self.members
            .get(ticket.at)?
            .as_ref()
            .filter(|member| member.id == ticket.id)
    }

    fn member_mut(&mut self, ticket: Ticket) -> Option<&mut Member<T>> {
        self.members
            .get_mut(ticket.at)?
            .as_mut()
            .filter(|member| member.id == ticket.id)
    }

    fn thresholds(&self) -> Thresholds {
        Thresholds {
            max_fails: self.config.max_fails,
            longest_pause: self.config.fail_timeout,
            slow_start: self.config.slow_start,
        }
    }
}

/// The health and the counts of a member of an earlier pool.
#[derive(Clone, Debug)]
pub(crate) struct Past {
    breaker: Breaker,
    figures: Figures,
}
