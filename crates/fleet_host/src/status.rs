//! What is shared between the thread, lookups and the admin server.

use crate::clock;
use crate::config::FleetConfig;
use crate::gate::Gate;
use crate::invalidated::Invalidated;
use crate::limits;
use crate::order::Order;
use crate::owned::Owned;
use larder_admin::{MetricLine, Metrics, StatusSource};
use larder_fleet::{AcceptorCounters, FollowerCounters, FollowerState, Lease, Member};
use larder_units::Time;
use serde_json::{Value, json};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;

/// What the parts of a member share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) gate: Gate,
    /// Where purges go; `None` while there is no thread.
    pub(crate) orders: Mutex<Option<mpsc::Sender<Order>>>,
    pub(crate) figures: Mutex<Figures>,
    pub(crate) invalidated: Invalidated,
    pub(crate) owned: Arc<Owned>,
    /// Whether the node leaves the fleet at the end of the thread.
    pub(crate) leaves: AtomicBool,
    pub(crate) logged: Logged,
    pub(crate) config: FleetConfig,
}

/// The state of the thread, as it was after its last event.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    /// `None` before the thread has begun.
    pub(crate) state: Option<FollowerState>,
    pub(crate) is_connected: bool,
    pub(crate) log: Option<String>,
    pub(crate) applied: u64,
    pub(crate) fresh_until: Option<Time>,
    pub(crate) follower: FollowerCounters,
    pub(crate) acceptor: AcceptorCounters,
    pub(crate) outbox: usize,
    /// Nodes with a live lease.
    pub(crate) members: usize,
    /// The same, this one first, as old as [`limits::SHOW_NODES`] or as the last event.
    pub(crate) nodes: Arc<[Member]>,
    /// Whether another node has the name of this one.
    pub(crate) are_two: bool,
    /// Those of them that this node asks before an origin.
    pub(crate) peers: usize,
    /// Nodes whose lease ended without a word.
    pub(crate) lost: Vec<String>,
    /// URLs that unsafe requests have invalidated: put into the log, and dropped.
    pub(crate) invalidations: [u64; 2],
    /// What an operator has to do.
    pub(crate) complaint: Option<String>,
}

impl Shared {
    fn figures(&self) -> MutexGuard<'_, Figures> {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the figures. A complaint stays until the node follows its fleet.
    pub(crate) fn show(&self, figures: Figures) {
        let mut shown = self.figures();
        let follows = figures.state == Some(FollowerState::Following);
        let complaint = shown.complaint.take().filter(|_| !follows);
        *shown = Figures {
            complaint,
            ..figures
        };
    }

    /// Sets what an operator has to do, and logs it, once in [`limits::COMPLAIN_AGAIN`].
    pub(crate) fn complain(&self, complaint: String) {
        if self.logged.is_news(clock::now(), &complaint) {
            tracing::error!("[fleet]: {complaint}");
        }
        self.figures().complaint = Some(complaint);
    }
}

/// The last complaints in the log, and when. Those of the figures end when the node follows its
/// fleet, and may come again at once.
#[derive(Debug, Default)]
pub(crate) struct Logged(Mutex<Vec<(Time, String)>>);

impl Logged {
    /// Returns whether this complaint is to be logged.
    pub(crate) fn is_news(&self, now: Time, complaint: &str) -> bool {
        let mut logged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        logged.retain(|(at, _)| now.since(*at) < limits::COMPLAIN_AGAIN);
        if logged.iter().any(|(_, known)| known == complaint) {
            return false;
        }
        if logged.len() >= limits::COMPLAINTS {
            logged.remove(0);
        }
        logged.push((now, complaint.to_owned()));
        true
    }
}

/// The figures for the admin server.
pub(crate) struct FleetSource(pub(crate) Arc<Shared>);

/// The name of a state, as pages and metrics have it. A proof that has ended since the last event
/// counts as none.
pub(crate) fn name_of(
    state: Option<FollowerState>,
    fresh_until: Option<Time>,
    now: Time,
) -> &'static str {
    let is_proven = fresh_until.is_some_and(|until| now <= until);
    match state {
        None | Some(FollowerState::Starting) => "starting",
        Some(FollowerState::RolledBack) => "rolled_back",
        Some(FollowerState::Following) if is_proven => "following",
        Some(FollowerState::Catching) if is_proven => "catching",
        Some(_) => "lagging",
    }
}

impl Figures {
    fn name_of_state(&self, now: Time) -> &'static str {
        name_of(self.state, self.fresh_until, now)
    }
}

/// Returns a node of the fleet for the page. Texts of other nodes may be anything that a member of
/// the fleet has said.
fn page_of(member: &Member, now: Time) -> Value {
    let Lease {
        offer, standing, ..
    } = &member.says;
    let renewed = member.renewed.map(|renewed| now.since(renewed));
    let offer = offer.as_ref();
    let standing = standing.as_ref();
    let zone = offer.map(|offer| {
        let is_shown = !offer
            .zone
            .contains(|letter: char| !letter.is_ascii_graphic());
        if is_shown { &*offer.zone } else { "?" }
    });
    json!({
        "node": member.node,
        "state": standing.map(|standing| &standing.state),
        "position": standing.map(|standing| standing.applied),
        "behind": standing.map(|standing| standing.behind),
        "version": standing.map(|standing| &standing.version),
        "zone": zone,
        "address": offer.map(|offer| offer.address),
        "capacity_bytes": offer.map(|offer| offer.capacity),
        "heard_seconds_ago": renewed.map(|time| time.as_secs_f64()),
        "two_nodes": member.are_two,
    })
}

const STATES: [&str; 5] = [
    "starting",
    "following",
    "catching",
    "lagging",
    "rolled_back",
];

const LINES: [MetricLine<Figures>; 15] = [
    MetricLine::gauge(
        "position",
        "larder_fleet_position",
        "The last entry of the fleet's log that this node has applied",
        |of| of.applied,
    ),
    MetricLine::gauge(
        "outbox",
        "larder_fleet_outbox",
        "Purges of this node that the log may not have, or may lose",
        |of| of.outbox as u64,
    ),
    MetricLine::gauge(
        "members",
        "larder_fleet_members",
        "Nodes of the fleet that this node hears, and itself",
        |of| of.members as u64,
    ),
    MetricLine::gauge(
        "peers",
        "larder_fleet_peers",
        "Nodes of the fleet that this node asks for what they own, before an origin",
        |of| of.peers as u64,
    ),
    MetricLine::counter(
        "entries",
        "larder_fleet_entries",
        "Entries of the log that this node has applied",
        |of| of.follower.applied,
    ),
    MetricLine::counter(
        "proofs",
        "larder_fleet_proofs",
        "Proofs that the node has all purges up to a time",
        |of| of.follower.proofs,
    ),
    MetricLine::counter(
        "reads",
        "larder_fleet_reads",
        "Reads of entries that were not received",
        |of| of.follower.reads,
    ),
    MetricLine::counter(
        "missed",
        "larder_fleet_missed",
        "Times that the log no longer had what the node needed, so that all became stale",
        |of| of.follower.missed,
    ),
    MetricLine::counter(
        "rolled_back",
        "larder_fleet_rolled_back",
        "Times that the log had lost entries, so that all became stale",
        |of| of.follower.rolled_back,
    ),
    MetricLine::counter(
        "unreadable",
        "larder_fleet_unreadable",
        "Entries that this version cannot read, each of which made all stale",
        |of| of.follower.unreadable,
    ),
    MetricLine::counter(
        "accepted",
        "larder_fleet_purges",
        "Purges of this node's clients, and entries of what they changed, that were accepted",
        |of| of.acceptor.accepted,
    ),
    MetricLine::counter(
        "refused",
        "larder_fleet_purges_refused",
        "Purges of this node's clients that were refused",
        |of| of.acceptor.refused,
    ),
    MetricLine::counter(
        "unknown",
        "larder_fleet_purges_unknown",
        "Purges whose clients were told that the log does not answer",
        |of| of.acceptor.unknown,
    ),
    MetricLine::counter(
        "invalidations",
        "larder_fleet_invalidations",
        "URLs that unsafe requests have changed, and that all nodes remove",
        |of| of.invalidations[0],
    ),
    MetricLine::counter(
        "invalidations_dropped",
        "larder_fleet_invalidations_dropped",
        "URLs that unsafe requests have changed, and that other nodes keep until they are stale",
        |of| of.invalidations[1],
    ),
];

impl StatusSource for FleetSource {
    fn name(&self) -> &'static str {
        "fleet"
    }

    fn status(&self) -> Value {
        let (figures, now) = (self.0.figures().clone(), clock::now());
        let config = &self.0.config;
        let state = figures.name_of_state(now);
        let nodes = figures.nodes.iter();
        let nodes = nodes.filter(|member| !figures.lost.contains(&member.node));
        let mut nodes: Vec<Value> = nodes.map(|member| page_of(member, now)).collect();
        // The list is older than the state: the thread may have nothing to do, or be gone.
        if let Some(own) = nodes.first_mut() {
            own["state"] = json!(state);
        }
        let mut page = json!({
            "name": config.name,
            "node": config.node,
            "state": state,
            "connected": figures.is_connected,
            "log": figures.log,
            "proven_for_seconds": left(figures.fresh_until, now).as_secs_f64(),
            "max_lag_seconds": config.max_lag.as_secs_f64(),
            "lost": figures.lost,
            "problem": figures.complaint,
            "two_nodes": figures.are_two,
            "nodes": nodes,
        });
        if let Some(page) = page.as_object_mut() {
            MetricLine::add_to_page(&LINES, &figures, page);
        }
        page
    }

    fn restriction(&self) -> Option<String> {
        let state = self.0.figures().name_of_state(clock::now());
        (state != "following").then(|| format!("fleet: {state}"))
    }

    fn metrics(&self, metrics: &mut Metrics<'_, '_>) {
        let (figures, now) = (self.0.figures().clone(), clock::now());
        let state = figures.name_of_state(now);
        let states = STATES
            .into_iter()
            .map(|name| (name, f64::from(u8::from(name == state))));
        metrics.gauges(
            "larder_fleet_state",
            "1 for the state of this node in its fleet",
            "state",
            states,
        );
        metrics.gauge(
            "larder_fleet_connected",
            "Whether the node is connected to a server of the fleet's log",
            f64::from(u8::from(figures.is_connected)),
        );
        metrics.gauge(
            "larder_fleet_proven_seconds",
            "The time for which the node may still serve without validation",
            left(figures.fresh_until, now).as_secs_f64(),
        );
        metrics.gauge(
            "larder_fleet_lost",
            "Nodes of the fleet that were heard within an hour, and have ended without a word",
            figures.lost.len() as f64,
        );
        metrics.lines(&LINES, &figures);
    }
}

/// Returns what an operator has to do about two nodes of one name.
pub(crate) fn two_nodes(node: &str) -> String {
    format!(
        "another node has the name {node}: give each its own [fleet] node. Both count as one now, so \
         a purge may seem executed everywhere that one of them has not executed"
    )
}

/// The end of a proof, as a duration from now.
fn left(until: Option<Time>, now: Time) -> Duration {
    until.map_or(Duration::ZERO, |until| until.since(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: a problem that comes again each two seconds fills the log; or it is not in the log
    /// when it comes again on another day.
    #[test]
    fn a_problem_is_logged_for_ever() {
        let (logged, mut now) = (Logged::default(), Time::from_secs(1000));
        assert!(logged.is_news(now, "one") && logged.is_news(now, "other"));
        for _ in 0..1000 {
            now += Duration::from_secs(2);
            assert!(!logged.is_news(now, "one") && !logged.is_news(now, "other"));
        }
        now += limits::COMPLAIN_AGAIN;
        assert!(logged.is_news(now, "one"));
        for number in 0..1000 {
            logged.is_news(now, &number.to_string());
        }
        assert_eq!(logged.0.lock().unwrap().len(), limits::COMPLAINTS);
    }
}
