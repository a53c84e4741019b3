//! What the threads report: the state of the NDN side, and the requests to the Content Store.

use larder_forwarder::{FaceId, FaceStats, PrefixFigures, Route, Stats, add_face_counters};
use larder_packet::Name;
use larder_policy::Gauge;
use larder_policy::observe::{Observation, Totals};
use larder_units::Time;
use larder_what_if_host::CacheState;

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
    pub(crate) fn add_shard(&mut self, other: Snapshot) {
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
        for (sum, count) in self.udp_peers.iter_mut().zip(other.udp_peers) {
            *sum += count;
        }
    }
}

/// The requests to the Content Store of a thread, for the what-if analysis.
pub(crate) struct Observations {
    pub totals: Totals,
    pub taken: Vec<Observation>,
    pub state: CacheState,
}
