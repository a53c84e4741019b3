//! Messages to the threads of the event loops, and what they report.

use super::batch::{Batch, Outgoing};
use super::bounds::Bounds;
use super::datagram::UdpListener;
use super::error::NdnError;
use super::reload::Reload;
use super::stream::Socket;
use super::stream_places::Activity;
use super::udp_faces::{Datagrams, NewPeer, PeerSetting};
use larder_forwarder::{
    Change, FaceId, FaceStats, PrefixFigures, Report, Route, ShardQuery, Stats, TierRecord,
    add_face_counters,
};
use larder_packet::Name;
use larder_policy::observe::{Observation, Totals};
use larder_policy::{Gauge, JobDone};
use larder_units::Time;
use larder_what_if_host::CacheState;
use std::sync::mpsc;

/// The state of the NDN side.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The forwarder's counters and table sizes.
    pub stats: Stats,
    /// Every face.
    pub faces: Vec<FaceStats>,
    /// The Content Store's policy, as its spec.
    pub policy: String,
    /// The gauges of the policy, by stage; of several shards, those of the first.
    pub gauges: Vec<(&'static str, Gauge)>,
    /// Hits and misses of the most requested prefixes, if they are counted.
    pub by_prefix: Vec<PrefixFigures>,
    /// Bytes of incomplete packets.
    pub partial_bytes: usize,
    /// UDP peers that sent first: new ones, known ones, and those that have proven their address.
    pub udp_peers: [usize; 3],
    /// The strategies of `/`, of the configuration's prefixes and of the most requested ones, with
    /// what they measure; of several shards, those of the first.
    pub strategies: Vec<StrategyFigures>,
    /// Faces of local applications that use shared memory.
    pub shared_faces: Vec<FaceId>,
    /// The first routes of the RIB, in canonical order.
    pub routes: Vec<(Name, Route)>,
    /// The time of the event loop, to which the expiry of routes refers.
    pub now: Time,
    /// The send queues of faces in which packets wait, or were marked.
    pub queues: Vec<QueueFigures>,
    /// Packets that were marked as congested since the start, on all faces.
    pub marked: u64,
    /// Turns of the event loop since the start.
    pub turns: u64,
    /// Times that it has polled shared memory before it slept, since the start.
    pub polls: u64,
}

/// The send queue of a face.
#[derive(Clone, Copy, Debug)]
pub struct QueueFigures {
    /// The face.
    pub face: FaceId,
    /// Bytes that wait.
    pub bytes: usize,
    /// Packets that were marked because of it (NDNLPv2, CongestionMark).
    pub marked: u64,
}

/// The strategy of a prefix.
#[derive(Clone, Debug)]
pub struct StrategyFigures {
    /// The prefix.
    pub prefix: Name,
    /// The complete name of the strategy.
    pub strategy: String,
    /// What it measures, by next hop: face, figure and value.
    pub measurements: Vec<(FaceId, &'static str, f64)>,
}

impl Snapshot {
    /// Adds the state of another shard.
    pub(super) fn add_shard(&mut self, other: Snapshot) {
        self.stats.add_shard(&other.stats);
        let counters: Vec<_> = other
            .faces
            .iter()
            .map(|face| (face.id, face.counters))
            .collect();
        add_face_counters(&mut self.faces, &counters);
        self.by_prefix.extend(other.by_prefix);
        self.partial_bytes += other.partial_bytes;
        self.shared_faces.extend(other.shared_faces);
        self.queues.extend(other.queues);
        self.marked += other.marked;
        self.turns += other.turns;
        self.polls += other.polls;
        self.udp_peers
            .iter_mut()
            .zip(other.udp_peers)
            .for_each(|(sum, count)| *sum += count);
    }
}

/// The requests to the Content Store of a thread, for the what-if analysis.
pub(super) struct Observations {
    pub totals: Totals,
    pub taken: Vec<Observation>,
    pub state: CacheState,
}

/// A message to a thread.
pub(super) enum Command {
    Snapshot(mpsc::Sender<Snapshot>),
    /// Takes the observations of the Content Store, of which the sample is up to this from now on.
    Observations(Option<u64>, mpsc::Sender<Observations>),
    JobDone(JobDone),
    /// Applies new settings, and answers with the addresses of the listeners.
    Reload(Box<Reload>, mpsc::Sender<Result<Vec<String>, NdnError>>),
    /// New bounds, from the first thread.
    Bounds(Bounds),
    Stop,
    /// Pauses the listeners, or goes on with them.
    Listen(bool, mpsc::Sender<()>),
    /// Frames of other threads' faces.
    Frames(Batch<FaceId>),
    /// Packets to faces of this thread.
    Sends(Batch<Outgoing>),
    /// Changes of the first shard's forwarder, for the others.
    Changes(Vec<Change>),
    /// A new face belongs to the thread with this number.
    FaceAt(FaceId, usize),
    /// A new face belongs to this thread.
    Adopt(FaceId, Box<Socket>, Option<Activity>),
    /// To the first thread: a face has closed.
    Closed(FaceId, Option<String>),
    /// The UDP socket of this thread, in the place of the one before.
    Udp(Option<Box<UdpListener>>),
    /// Datagrams of a UDP peer of this thread, or, to the first thread, of a stranger.
    Datagrams(Datagrams),
    /// A new UDP face belongs to this thread.
    AdoptPeer(Box<NewPeer>),
    /// A UDP face has another setting; from or to the first thread.
    Peer(FaceId, PeerSetting),
    /// From a thread with scarce places: which of these faces have answered?
    Answered(Vec<FaceId>, usize),
    /// These faces have answered.
    Proven(Vec<FaceId>),
    /// From the first thread: a query of its management.
    Ask(u64, ShardQuery),
    /// To the first thread: the answer.
    Said(u64, Report),
    /// A record that the disk tier has read.
    TierRecord(u64, Option<TierRecord>),
}
