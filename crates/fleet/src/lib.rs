//! The purge log of a fleet of nodes, without IO.
//!
//! The nodes share one ordered log of purges, which servers of NATS JetStream keep. What it is: a
//! core without IO. The host passes the time, random numbers and events, and carries out the
//! actions of an [`Outbox`]. What it is not: a client of NATS, or a cache.
//!
//! The guarantee: a response that was requested from the origin before a hard purge entered the
//! log is not served without validation by any node from `max_lag` after the acknowledgement on,
//! if the host serves only up to [`Follower::fresh_until`]. This holds for crashes, pauses and
//! partitions of nodes, and for the loss of servers of the log as long as the log keeps what it
//! acknowledged. If it loses some, the guarantee holds from the time on at which the accepting
//! node ([`Acceptor`]) has published the purge again.
//!
//! Read [`Follower`] first, then [`Action`], then [`Acceptor`].
//!
//! ```text
//!                 on_connected ─► ReadDescription ─► Read (the applied entry) ─► Read (a gap)
//!   republished entry ─► on_entry ─► Apply | MakeStale ─► on_settled ─► Keep
//!   Publish (a beat) ─► on_acknowledged ─► fresh_until
//!
//!   accept ─► Journal ─► on_journaled ─► Publish ─► on_acknowledged ─► Answer
//!
//!   wait ─► Say (a question) ─► the other nodes: Say (their positions) ─► on_note ─► Waited
//! ```
//!
//! [`Members`] is the list of the nodes with a live lease. [`Waits`] asks them what they have
//! applied, for clients that wait. [`Owners`] says which node is asked for an object before its
//! origin. None of them is needed for the guarantee.
//!
//! # What the host has to do
//!
//! * It carries out all actions of a call, in their order, before it publishes
//!   [`Follower::fresh_until`], and a lookup compares that with its own time.
//! * It subscribes to the republished entries before [`Follower::on_connected`], and calls
//!   [`Follower::on_disconnected`] whenever its connection was lost, even for a moment. A roll-back
//!   of the log either breaks connections, or the node gets one of the first new entries.
//! * It calls [`Follower::on_settled`] when the changes would outlive a crash as well as the stored
//!   responses do. It may keep an older [`Kept`], but not a newer one.
//! * It passes the result of [`Acceptor::on_journal_read`] to [`Follower::on_started`].
//! * `Action::Journal` is durable before [`Acceptor::on_journaled`].
//! * After each `Action::MakeStale`, it calls [`Acceptor::publish_again`], and before each
//!   [`Acceptor::on_timeout`] it says whether the follower doubts the log.
//! * It calls [`Waits::set_position`] after it has carried out all actions, and only then
//!   [`Waits::on_timeout`].
//! * Its clock counts while the machine is suspended.
//!
//! ```
//! use larder_fleet::{
//!     Action, Follower, FollowerConfig, FollowerState, LogDescription, LogEntry, Outbox,
//! };
//! use larder_units::Time;
//! use std::time::Duration;
//!
//! let config = FollowerConfig {
//!     node: "fra-1".to_owned(),
//!     max_lag: Duration::from_secs(30),
//!     beats: 6,
//! };
//! let (mut follower, mut out) = (Follower::new(config, 7), Outbox::new());
//! follower.on_started(None, Vec::new());
//! assert_eq!(follower.state(Time::ZERO), FollowerState::Lagging);
//!
//! follower.on_connected(Time::ZERO, &mut out);
//! let Some(Action::ReadDescription { token }) = out.drain().next() else { panic!() };
//! let empty = LogDescription { identity: "a".to_owned(), first: 1, last: 0 };
//! follower.on_description(Time::ZERO, token, Some(empty), &mut out);
//! // What was stored before is stale, and a beat is published.
//! let actions: Vec<Action> = out.drain().collect();
//! assert!(matches!(actions[0], Action::MakeStale { .. }));
//! let Action::Publish(beat) = &actions[1] else { panic!() };
//!
//! // The log acknowledges it, and republishes it.
//! let later = Time::from_millis(5);
//! follower.on_acknowledged(later, &beat.id, 1, &mut out);
//! assert_eq!(follower.fresh_until(), None);
//! let (id, body) = (beat.id.clone(), beat.body.clone());
//! let entry = LogEntry { sequence: 1, id, body };
//! follower.on_entry(later, entry, &mut out);
//! assert_eq!(follower.fresh_until(), Some(Time::from_secs(30)));
//! assert_eq!(follower.state(later), FollowerState::Following);
//! ```
#![forbid(unsafe_code)]

mod acceptor;
mod copies;
mod follower;
mod ids;
pub mod limits;
mod members;
mod message;
mod note;
mod outbox;
mod peers;
mod waits;

pub use acceptor::{Acceptor, AcceptorConfig, AcceptorCounters, Refused};
pub use copies::CopyCounts;
pub use follower::{
    Follower, FollowerConfig, FollowerCounters, FollowerState, LogDescription, ReadAnswer,
};
pub use ids::{Id, Ids};
pub use members::{Member, Members};
pub use message::{Body, LogEntry, Message, MessageError, Publication, is_name};
pub use note::{DELETED, Lease, Note, OPERATION, Position, Standing, Word, members_bucket};
pub use outbox::{
    Action, Answer, JournalAction, JournalKey, Journaled, Kept, Mark, Outbox, ReadFrom,
    StaleReason, Token, WaitKey, Waited,
};
pub use peers::{Owners, Peer, PeerOffer, by_ownership, is_peer_name, owner_key};
pub use waits::Waits;
