//! Bounds of the purge log and its readers, each with its reason.

use std::time::Duration;

/// Bytes of an encoded message. A server of the log allows 1 MiB by default. A message of 256 long
/// URLs has less than this.
pub const MESSAGE_BYTES: usize = 64 * 1024;

/// URLs, prefixes and tags of one message, together. Other caches allow 100 to 500.
pub const ITEMS: usize = 256;

/// Bytes of an id. A UUID has 36. A longer id of a foreign message is replaced by its hash.
pub const ID_BYTES: usize = 128;

/// Bytes of the name of a node or a fleet, which is one token of a subject.
pub const NAME_BYTES: usize = 64;

/// Entries that wait for an earlier one. At 1,000 entries per second, a repair within a second
/// needs no second read. Each has at most [`MESSAGE_BYTES`], so the memory is at most 64 MiB.
pub const WAITING_ENTRIES: usize = 1024;

/// Entries of one read. Their memory is at most 16 MiB.
pub const READ_ENTRIES: u64 = 256;

/// Ids of the last applied entries. A repeated sequence is compared with them, and so is an entry
/// that another node waits for: at 1,000 entries per second, it may ask four times.
pub const RECENT_IDS: usize = 4096;

/// Acknowledged sequences whose entries have not been applied yet, and positions that have not been
/// settled yet.
pub const EXPECTED_ENTRIES: usize = 4096;

/// Positions that the leader is asked for at once when a doubt is resolved, one after the other.
pub const CHECKS: usize = 256;

/// A gap is read after this. A republished entry that comes a little late needs no read.
pub const GAP_WAIT: Duration = Duration::from_millis(50);

/// A read without an answer is repeated after this. A leader's election takes 6 to 7 s, so a
/// longer time gains nothing.
pub const READ_TIMEOUT: Duration = Duration::from_secs(2);

/// The pause before a read is repeated. It doubles up to [`READ_RETRY_LONGEST`].
pub const READ_RETRY_FIRST: Duration = Duration::from_millis(100);

/// See [`READ_RETRY_FIRST`].
pub const READ_RETRY_LONGEST: Duration = Duration::from_secs(2);

/// Answers "not found" of any replica, after which the leader is asked.
pub const REPLICA_MISSES: u32 = 2;

/// Answers "not found" in all, after which the log's description is read.
pub const MISSES: u32 = 4;

/// Rounds of [`MISSES`] inside the kept range, after which the entry counts as lost.
pub const MISSED_ROUNDS: u32 = 3;

/// A position is kept this long after the last one, at the earliest, if it has purges behind it.
pub const KEEP_INTERVAL: Duration = Duration::from_millis(100);

/// A position that only beats have moved is kept this long after the last one, at the earliest.
pub const KEEP_IDLE_INTERVAL: Duration = Duration::from_secs(10);

/// A publication without an acknowledgement is repeated after this.
pub const REPEAT: Duration = Duration::from_secs(2);

/// The longest pause between repetitions.
pub const REPEAT_LONGEST: Duration = Duration::from_secs(30);

/// A client that accepted a purge gets its answer after this at the latest. It is longer than a
/// leader's election.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// An acknowledged purge stays in the outbox for this: twice the interval of two minutes after
/// which a server of the log syncs its files by default, and a minute to notice the loss.
pub const OUTBOX_KEEP: Duration = Duration::from_secs(300);

/// Purges of the outbox that a start compares with the log, each by a read. Earlier ones are
/// published again.
pub const WITNESSES: usize = 256;

/// Purges in the outbox: 1,000 per second for [`OUTBOX_KEEP`], and a third more.
pub const OUTBOX_ENTRIES: usize = 400_000;

/// Bytes of the purges in the outbox.
pub const OUTBOX_BYTES: usize = 256 << 20;

/// Publications of the outbox without an acknowledgement at once. So an outbox that is published
/// again does not flood the log.
pub const PUBLICATIONS: usize = 1024;

/// The lease of a node ends after so many renewals that were not heard.
pub const RENEWALS: u32 = 3;

/// A node renews its lease after this. Two renewals may be lost before the lease ends.
pub const RENEW: Duration = Duration::from_secs(2);

/// The lease of a node ends this long after its last renewal, unless that promised the next one for
/// later.
pub const LEASE: Duration = RENEW.saturating_mul(RENEWALS);

/// Nodes of a fleet that renew their leases after [`RENEW`]. In a larger one, each node does so
/// proportionally later, because all hear each renewal: 50 a second, with up to 1,000 nodes.
/// Otherwise 1,000 nodes would get 500,000 renewals a second from the servers.
pub const RENEW_NODES: usize = 100;

/// The longest time between two renewals: that of 1,000 nodes.
pub const RENEW_LONGEST: Duration = Duration::from_secs(20);

/// The bucket keeps a lease for so long: the longest one.
pub const LEASE_LONGEST: Duration = RENEW_LONGEST.saturating_mul(RENEWALS);

/// Beats of a node in each `max_lag`, in a fleet of at most [`RENEW_NODES`]: the servers may be
/// away for five sixths of it.
pub const BEATS: u32 = 6;

/// Beats of a node in each `max_lag`, in a larger one: the servers may be away for three quarters
/// of it.
pub const BEATS_OF_MANY: u32 = 4;

/// The bucket of leases is read again after so many renewals. Renewals are heard without it. The
/// servers send each lease by itself.
pub const LEASES_AGAIN: u32 = 15;

/// A node that has lost its fleet, or follows it again, renews its lease after so long, so that
/// others learn of it.
pub const RENEW_SOON: Duration = Duration::from_millis(200);

/// Two processes renew the lease of one name by turns for so long: they are two nodes. The two of
/// an upgrade do so for less.
pub const TURNS: Duration = Duration::from_secs(30);

/// Names of nodes in a list. A fleet of 1,000 nodes has room for three restarts under new names.
pub const MEMBERS: usize = 4096;

/// A node whose lease ended without a word is reported for so long. Its own `max_lag` covers it
/// long before, unless it serves on a partition.
pub const LOST_KEEP: Duration = Duration::from_secs(3600);

/// Bytes of a note. The identity of a log has 32, and a node's name at most [`NAME_BYTES`].
pub const NOTE_BYTES: usize = 1024;

/// A client waits so long for all nodes, after the log has its purge. A lease that has ended is
/// noticed before, at most [`LEASE`] and [`RENEW`] after the last renewal, in a fleet of at most
/// [`RENEW_NODES`].
pub const WAIT: Duration = Duration::from_secs(10);

/// A node that waits asks again after this, since notes may be lost.
pub const ASK_AGAIN: Duration = Duration::from_secs(1);

/// The time between two notes of a kind: ten a second.
pub const NOTE_INTERVAL: Duration = Duration::from_millis(100);

/// Other nodes that wait. One entry of each is known: it asks for its last one.
pub const AWAITED: usize = MEMBERS;

/// Answers at once, each to one node that waits. The rest comes [`NOTE_INTERVAL`] later.
pub const ANSWERS: usize = 256;

/// Clients of a node that wait for all nodes at once. Each holds one of the 32 connections of the
/// admin server, of which pages of the console may hold 16.
pub const WAITS: usize = 8;

/// Nodes that are asked for an object before its origin: its owner, and the successor.
pub const ASKED: usize = 2;

/// A node keeps a copy of another node's object from this request for it on. With less, copies
/// displace what the node owns.
pub const COPY_REQUESTS: u8 = 8;

/// Counters in each row of the counts of such requests, a byte each. The counts are halved after as
/// many requests at the latest: otherwise objects would share their counters.
pub const COPY_COUNTERS: usize = 1 << 18;

/// The counts are halved after so many requests for each object that the node stores. So a copy is
/// of an object that comes several times among as many as the node can store. Five nodes, Zipf .9,
/// 1 M objects of which the nodes store 8 %, `agd`, 3 M requests: 12 costs 1.2 points of the hit
/// ratio of one large node and answers .33 of the requests by copies, 4 costs .8 (.30), 2 costs .5
/// (.28), 1 costs .3 (.25). With 100,000 objects: 3.5, 1.6, .9 and .5 points.
pub const COPY_COUNTS_HALVED: u64 = 2;

/// They are halved after so many requests at least: an empty node knows nothing.
pub const COPY_COUNTS_LEAST: u64 = 1_000;
