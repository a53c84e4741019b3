//! The data plane: the tables that packets pass, and what is counted of them.
//!
//! `pipeline/` has the path of a packet through them, and `control_plane.rs` what management and
//! the host change them with.

use crate::config::Config;
use crate::drop_reason::DropCounters;
use crate::face::{FaceId, Faces};
use crate::limits;
use crate::shard::Shard;
use crate::strategy::Instance;
use crate::tables::content_store::ContentStore;
use crate::tables::dead_nonces::DeadNonces;
use crate::tables::fib::Fib;
use crate::tables::name_hash::{NameHasher, Prefix};
use crate::tables::paths::Paths;
use crate::tables::pit::Pit;
use crate::tables::prefix_figures::FiguresByPrefix;
use crate::tables::prefix_table::PrefixTable;
use crate::tier::Tier;
use crate::verification::Verification;
use larder_packet::Name;
use larder_policy::Engine;
use larder_units::{Stream, Time};
use std::time::Duration;

/// The tables and counters of the pipelines.
pub(crate) struct DataPlane {
    pub(crate) hasher: NameHasher,
    pub(crate) nonces: Stream,
    pub(crate) faces: Faces,
    pub(crate) fib: Fib,
    pub(crate) strategies: PrefixTable<Instance>,
    pub(crate) network_regions: Vec<Name>,
    /// The number of strategies that measure. If there is none, no lookup is made for them.
    pub(crate) measuring: usize,
    /// The number of strategies that hold Interests back. If there is none, no strategy is asked
    /// for them.
    pub(crate) holding: usize,
    pub(crate) max_packet_bytes: usize,
    pub(crate) shard: Shard,
    /// The calendar time at [`Time::ZERO`]: time since 1970.
    pub(crate) started: Duration,
    pub(crate) pit: Pit,
    pub(crate) content_store: ContentStore,
    /// The tier behind the Content Store, if there is one.
    pub(crate) tier: Option<Box<Tier>>,
    /// The Data that has to verify before it is cached, if there is any.
    pub(crate) verification: Option<Verification>,
    /// Present if hits and misses are counted by prefix.
    pub(crate) figures_by_prefix: Option<FiguresByPrefix>,
    pub(crate) dead_nonces: DeadNonces,
    pub(crate) drops: DropCounters,
    pub(crate) satisfied: u64,
    pub(crate) unsatisfied: u64,
    pub(crate) paths: Option<Box<Paths>>,
    /// Bytes of incomplete packets, and the time of the next check for packets that will not become
    /// complete.
    pub(crate) partial_bytes: usize,
    pub(crate) most_partial_bytes: usize,
    pub(crate) next_sweep: Option<Time>,
    pub(crate) scratch: Scratch,
}

impl DataPlane {
    /// Creates a data plane without faces and routes. The engine is the Content Store's.
    pub(crate) fn new(config: &Config, engine: Engine) -> Self {
        let hasher = NameHasher::new(config.hash_key);
        let mut strategies = PrefixTable::new();
        strategies.insert(
            &hasher,
            Name::root().as_name(),
            Instance::default_of_root(&config.streams),
        );
        DataPlane {
            nonces: config.streams.stream("forwarder nonces"),
            faces: Faces::new(),
            fib: Fib::new(),
            strategies,
            network_regions: Vec::new(),
            measuring: 0,
            holding: 0,
            max_packet_bytes: config.max_packet_bytes,
            shard: config.shard,
            started: config.started,
            pit: Pit::new(
                config.shard.part(config.pit_entries as u64) as usize,
                config.shard.part(limits::PIT_BYTES as u64) as usize,
            ),
            content_store: ContentStore::new(hasher.clone(), engine, config.counts_packets),
            tier: None,
            verification: None,
            figures_by_prefix: None,
            dead_nonces: DeadNonces::new(),
            drops: DropCounters::default(),
            satisfied: 0,
            unsatisfied: 0,
            paths: None,
            partial_bytes: 0,
            most_partial_bytes: config.reassembly_bytes,
            next_sweep: None,
            scratch: Scratch::default(),
            hasher,
        }
    }
}

/// Buffers that are reused from packet to packet.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) prefixes: Vec<Prefix>,
    /// The prefixes of the names of a batch.
    pub(crate) ahead: Vec<Prefix>,
    /// The prefixes of forwarding hints.
    pub(crate) hinted: Vec<Prefix>,
    pub(crate) found: Vec<u32>,
    pub(crate) send_to: Vec<(FaceId, Option<u32>)>,
}
