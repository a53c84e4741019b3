//! The data plane: the tables that packets pass, and what is counted of them.
//!
//! `pipeline/` has the path of a packet through them, and `control_plane.rs` what management and
//! the host change them with.

use crate::config::Config;
use crate::drop_reason::{DropCounters, DropReason};
use crate::face::{Face, FaceId, Faces};
use crate::limits;
use crate::outbox::{Body, Outbox};
use crate::reassembly::Reassembly;
use crate::shard::Shard;
use crate::stats::FaceStats;
use crate::strategy::StrategyChoices;
use crate::tables::content_store::{ContentStore, Entry};
use crate::tables::dead_nonces::DeadNonces;
use crate::tables::fib::Fib;
use crate::tables::name_hash::{Lengths, NameHasher, Prefix};
use crate::tables::paths::Paths;
use crate::tables::pit::Pit;
use crate::tables::prefix_figures::{FiguresByPrefix, PrefixFigures};
use crate::tier::Tier;
use crate::verification::Verification;
use bytes::Bytes;
use larder_packet::mgmt::CsObject;
use larder_packet::{Interest, LpHeader, Name, NameRef, PathRecord, types};
use larder_policy::Engine;
use larder_units::{Stream, Time};
use std::time::Duration;

/// The bytes of the smallest entry of `cs/query` without the value of its name: a TLV with a name,
/// a size, an age and hits.
const LEAST_OBJECT_BYTES: usize = 12;

/// The tables and counters of the pipelines.
pub(crate) struct DataPlane {
    pub(crate) hasher: NameHasher,
    pub(crate) nonces: Stream,
    pub(crate) faces: Faces,
    pub(crate) fib: Fib,
    pub(crate) strategies: StrategyChoices,
    pub(crate) network_regions: Vec<Name>,
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
    pub(crate) reassembly: Reassembly,
    /// Data that came for management's own Interests, until management takes it.
    pub(crate) for_management: Vec<Bytes>,
    pub(crate) scratch: Scratch,
}

impl DataPlane {
    /// Creates a data plane without faces and routes. The engine is the Content Store's.
    pub(crate) fn new(config: &Config, engine: Engine) -> Self {
        let hasher = NameHasher::new(config.hash_key);
        DataPlane {
            nonces: config.streams.stream("forwarder nonces"),
            faces: Faces::new(),
            fib: Fib::new(),
            strategies: StrategyChoices::new(&hasher, &config.streams),
            network_regions: Vec::new(),
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
            reassembly: Reassembly::new(config.reassembly_bytes),
            for_management: Vec::new(),
            scratch: Scratch::default(),
            hasher,
        }
    }

    // ---- Names and time ----

    /// Returns the lengths of prefixes for the lookups of an Interest's name.
    #[inline]
    pub(crate) fn prefix_lengths(&self) -> Lengths {
        self.fib.lengths().and(self.strategies.lengths())
    }

    /// Returns the hash under which an Interest is pending and cached Data is found: that of its
    /// name without an implicit digest.
    pub(crate) fn hash_of(&self, name: NameRef<'_>) -> u64 {
        let (name, _) = name.strip_implicit_digest();
        self.hasher.hash(name.as_bytes())
    }

    /// Returns true if the hint of this Interest leads to a region of this node: one of its names
    /// is a prefix of the region's, as in NFD.
    pub(crate) fn is_in_producer_region(&self, interest: &Interest<'_>) -> bool {
        if interest.forwarding_hint.is_none() || self.network_regions.is_empty() {
            return false;
        }
        let mut delegations = interest.forwarding_hints();
        delegations.any(|delegation| {
            self.network_regions
                .iter()
                .any(|region| region.as_name().starts_with(delegation))
        })
    }

    /// Returns milliseconds since 1970.
    pub(crate) fn unix_millis(&self, now: Time) -> u64 {
        (self.started + now.since(Time::ZERO)).as_millis() as u64
    }

    // ---- The place on the path of an answer ----

    /// Sends and learns the places of caches on their paths: see [`Paths`].
    pub(crate) fn set_centrality(&mut self, centrality: u64) {
        let capacity = self.content_store.engine().capacity().bytes();
        self.paths = Some(Box::new(Paths {
            centrality,
            capacity,
            behind: Vec::new(),
        }));
    }

    /// Enables paths for a policy that needs its place, if the host has set no centrality: all
    /// routers are equal then.
    pub(crate) fn enable_paths_if(&mut self, is_needed: bool) {
        if is_needed && self.paths.is_none() {
            self.set_centrality(0);
        }
    }

    /// Returns the record for a neighbour; applications get none.
    pub(crate) fn path_to(&self, face: FaceId, told: Option<PathRecord>) -> Option<PathRecord> {
        told.filter(|_| self.faces.get(face).is_some_and(|face| !face.is_local()))
    }

    // ---- Headers and counters of sends ----

    /// The header of a packet to `face` has the face `incoming` that it came from, if that may be
    /// shown.
    #[inline]
    pub(crate) fn set_incoming_face(&self, header: &mut LpHeader, face: FaceId, incoming: FaceId) {
        if self.faces.local_fields(face) {
            header.incoming_face = Some(incoming.0);
        }
    }

    /// Counts a dropped packet of a face.
    pub(crate) fn count_drop(&mut self, face: FaceId, reason: DropReason) {
        self.drops.count(reason);
        if let Some(face) = self.faces.get_mut(face) {
            face.counters.dropped += 1;
        }
    }

    /// Counts all sends of a call that no packet caused.
    pub(crate) fn count_made_sends(&mut self, out: &Outbox) {
        self.count_sends(0, 0, false, out);
    }

    /// Counts the sends from number `first` on. The packet that caused them has so many bytes, and
    /// is an Interest or not.
    #[inline]
    pub(crate) fn count_sends(
        &mut self,
        first: usize,
        bytes: usize,
        is_interest: bool,
        out: &Outbox,
    ) {
        for send in &out.sends[first..] {
            let Some(face) = self.faces.get_mut(send.face) else {
                continue;
            };
            let counters = &mut face.counters;
            let (bytes, is_interest) = match &send.body {
                Body::Input => (bytes as u64, is_interest),
                Body::Stored(bytes) => (
                    bytes.len() as u64,
                    bytes.first() == Some(&(types::INTEREST as u8)),
                ),
                Body::Cached(packet) => (packet.len() as u64, false),
            };
            counters.out_bytes += bytes;
            match (send.header.nack, is_interest) {
                (Some(_), _) => counters.out_nacks += 1,
                (None, true) => {
                    counters.out_interests += 1;
                    counters.out_interest_bytes += bytes;
                }
                (None, false) => {
                    counters.out_data += 1;
                    counters.out_data_bytes += bytes;
                }
            }
        }
    }

    // ---- Figures, for the host and for management ----

    /// Returns every face, by number.
    pub(crate) fn face_stats(&self) -> Vec<FaceStats> {
        let stats = |(id, face): (FaceId, &Face)| FaceStats {
            id,
            config: face.config.clone(),
            counters: face.counters,
        };
        let mut faces: Vec<FaceStats> = self.faces.iter().map(stats).collect();
        faces.sort_by_key(|face| face.id);
        faces
    }

    /// Returns hits and misses of the most requested prefixes; empty if they are not counted.
    pub(crate) fn figures_by_prefix(&self, most: usize) -> Vec<PrefixFigures> {
        let top = self
            .figures_by_prefix
            .as_ref()
            .map_or_else(Vec::new, FiguresByPrefix::top);
        top.into_iter().take(most).cloned().collect()
    }

    /// Returns the objects that this shard stores under a prefix, in no order. If a dataset cannot
    /// hold them all, it returns more than fit.
    pub(crate) fn stored_under(&self, now: Time, prefix: NameRef<'_>) -> Vec<CsObject> {
        let mut bytes = 0;
        let entries = self.content_store.under(prefix).take_while(|entry| {
            let fits = bytes <= limits::DATASET_BYTES;
            bytes += LEAST_OBJECT_BYTES + entry.name_bytes().len();
            fits
        });
        let object = |entry: &Entry| CsObject {
            name: entry.name().to_name(),
            bytes: entry.packet_bytes() as u64,
            age: now.since(entry.stored),
            fresh: (entry.fresh_until > now).then(|| entry.fresh_until.since(now)),
            hits: entry.hits.into(),
        };
        entries.map(object).collect()
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
