//! Faces as the forwarder sees them: a number, a scope, a kind of link, counters. The host owns the
//! socket behind each.

use crate::control::authority::Replay;
use crate::limits;
use larder_packet::Reassembler;
use larder_packet::types::nfd;
use larder_policy::{Slot, SlotIndex};
use larder_units::Time;
use std::fmt;
use std::time::Duration;

/// A face's number. Numbers are never used twice in the life of a forwarder. 0 to 255 are reserved
/// (NFD management protocol).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FaceId(pub u64);

impl FaceId {
    /// The first number given to a face of the host.
    pub(crate) const FIRST: FaceId = FaceId(256);
    /// The face of management, which answers Interests as an application does. The number is NFD's.
    pub(crate) const INTERNAL: FaceId = FaceId(1);
    /// The incoming face of Data from the Content Store (NFD's number).
    pub(crate) const CONTENT_STORE: FaceId = FaceId(254);
}

impl fmt::Display for FaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The scope of a face. `/localhost` names pass local faces only; `/localhop` names never go from
/// non-local to non-local.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// An application on this machine: Unix sockets, TCP and WebSocket over loopback.
    Local,
    /// Everything else; UDP always, as in NFD.
    NonLocal,
}

/// The rule for a face's end (NFD management protocol, "FacePersistency").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistency {
    /// Until it fails or is destroyed.
    Persistent,
    /// Until its peer has been silent for long, or closes it.
    OnDemand,
    /// Until it is destroyed; failures are mended.
    Permanent,
}

impl Persistency {
    /// Returns its number in the management protocol.
    pub fn code(self) -> u64 {
        self as u64
    }

    /// The persistency of this number.
    pub fn from_code(code: u64) -> Option<Self> {
        [
            Persistency::Persistent,
            Persistency::OnDemand,
            Persistency::Permanent,
        ]
        .into_iter()
        .nth(code.try_into().ok()?)
    }
}

/// The number of peers of a face, and whether they receive each other's packets (NFD management
/// protocol, "LinkType").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkType {
    /// One peer. Nacks are sent and accepted (NDNLPv2, "Network Nack").
    PointToPoint,
    /// Many peers, which receive each other's packets.
    MultiAccess,
    /// Many peers, which may not receive each other's packets.
    AdHoc,
}

/// The configuration of a face.
#[derive(Clone, Debug)]
pub struct FaceConfig {
    /// The scope of the face.
    pub scope: Scope,
    /// The peer, as a FaceUri: `fd://23`, `udp4://192.0.2.1:6363`.
    pub uri: String,
    /// The FaceUri of this end, such as `unix:///run/nfd/nfd.sock`; empty if it is unknown.
    pub local_uri: String,
    /// The largest frame in bytes that the link takes; larger packets are fragmented (NDNLPv2).
    /// `None` for streams.
    pub mtu: Option<usize>,
    /// The number of peers.
    pub link_type: LinkType,
    /// The rule for the face's end.
    pub persistency: Persistency,
    /// True if IncomingFaceId and NextHopFaceId are enabled (NDNLPv2, "Consumer Controlled
    /// Forwarding"). CachePolicy is always enabled, as in NFD.
    pub local_fields: bool,
    /// True if frames are acknowledged and sent again (NDNLPv2, "Link Reliability"). The host does
    /// this.
    pub link_reliability: bool,
    /// True if the host marks packets that join a long send queue of this face.
    pub congestion_marking: bool,
    /// The time for which the queue may be long before the first mark, and the longest time between
    /// two marks while it stays long.
    pub base_congestion_marking_interval: Duration,
    /// Bytes from which on the queue is long.
    pub default_congestion_threshold: u64,
}

impl FaceConfig {
    /// A face to an application on this machine.
    pub fn local(uri: impl Into<String>) -> Self {
        FaceConfig {
            scope: Scope::Local,
            uri: uri.into(),
            local_uri: String::new(),
            mtu: None,
            link_type: LinkType::PointToPoint,
            persistency: Persistency::Persistent,
            local_fields: false,
            link_reliability: false,
            congestion_marking: true,
            base_congestion_marking_interval: limits::CONGESTION_MARKING_INTERVAL,
            default_congestion_threshold: limits::CONGESTION_THRESHOLD_BYTES,
        }
    }

    /// A face over a stream to another machine.
    pub fn remote(uri: impl Into<String>) -> Self {
        FaceConfig {
            scope: Scope::NonLocal,
            ..FaceConfig::local(uri)
        }
    }

    /// Returns the configuration with frames of at most `mtu` bytes.
    pub fn with_mtu(self, mtu: usize) -> Self {
        FaceConfig {
            mtu: Some(mtu),
            ..self
        }
    }

    /// Returns the configuration with this FaceUri of this end.
    pub fn with_local_uri(self, local_uri: impl Into<String>) -> Self {
        FaceConfig {
            local_uri: local_uri.into(),
            ..self
        }
    }

    /// Returns the configuration with this persistency.
    pub fn with_persistency(self, persistency: Persistency) -> Self {
        FaceConfig {
            persistency,
            ..self
        }
    }

    /// The MTU that the management protocol states. A stream takes packets of every size, so NFD
    /// states the size of the largest packet, here `largest_packet`.
    pub(crate) fn stated_mtu(&self, largest_packet: usize) -> u64 {
        self.mtu.unwrap_or(largest_packet) as u64
    }

    /// The flag bits of the management protocol.
    pub(crate) fn flags(&self) -> u64 {
        let local_fields = u64::from(self.local_fields) * nfd::FLAG_LOCAL_FIELDS;
        let reliability = u64::from(self.link_reliability) * nfd::FLAG_LP_RELIABILITY;
        local_fields
            + reliability
            + u64::from(self.congestion_marking) * nfd::FLAG_CONGESTION_MARKING
    }

    /// Returns true if there is only one peer, so Nacks can be sent to it.
    pub(crate) fn is_point_to_point(&self) -> bool {
        self.link_type == LinkType::PointToPoint
    }
}

/// Packets and bytes through one face, or through all of them. Network-layer packets; bytes with
/// their NDNLP headers as received, and without them as sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct FaceCounters {
    pub in_interests: u64,
    pub in_data: u64,
    pub in_nacks: u64,
    pub in_bytes: u64,
    pub out_interests: u64,
    pub out_data: u64,
    pub out_nacks: u64,
    pub out_bytes: u64,
    /// Bytes of the Interests without link headers. The next three fields are also without link
    /// headers.
    pub in_interest_bytes: u64,
    pub in_data_bytes: u64,
    pub out_interest_bytes: u64,
    pub out_data_bytes: u64,
    /// Packets from this face that were dropped, and to it that found its queue full, for whatever
    /// [`crate::DropReason`].
    pub dropped: u64,
}

impl FaceCounters {
    pub(crate) fn add(&mut self, other: &FaceCounters) {
        self.in_interests += other.in_interests;
        self.in_data += other.in_data;
        self.in_nacks += other.in_nacks;
        self.in_bytes += other.in_bytes;
        self.out_interests += other.out_interests;
        self.out_data += other.out_data;
        self.out_nacks += other.out_nacks;
        self.out_bytes += other.out_bytes;
        self.in_interest_bytes += other.in_interest_bytes;
        self.in_data_bytes += other.in_data_bytes;
        self.out_interest_bytes += other.out_interest_bytes;
        self.out_data_bytes += other.out_data_bytes;
        self.dropped += other.dropped;
    }
}

pub(crate) struct Face {
    pub(crate) config: FaceConfig,
    pub(crate) counters: FaceCounters,
    /// Made by the first fragment: most faces never see one.
    pub(crate) reassembler: Option<Box<Reassembler>>,
    /// The last management commands of the face.
    pub(crate) replay: Replay,
}

impl Face {
    pub(crate) fn is_local(&self) -> bool {
        self.config.scope == Scope::Local
    }
}

/// Faces that are found without a look at the index: each packet looks some times.
const NEAR: usize = 64;

/// All faces by number. The numbers are the forwarder's own, so an unkeyed hash does.
pub(crate) struct Faces {
    index: SlotIndex,
    /// The slot of the newest face whose number has these last bits. As long as the numbers are
    /// close to each other, every face is here.
    near: [Slot; NEAR],
    places: Vec<Option<(FaceId, Face)>>,
    free: Vec<Slot>,
    next: FaceId,
    /// Faces that want local fields: most nodes have none, and pay nothing for them.
    with_local_fields: usize,
    /// The counters of removed faces.
    pub(crate) gone: FaceCounters,
}

impl Faces {
    pub(crate) fn new() -> Self {
        Faces {
            index: SlotIndex::default(),
            near: [Slot::new(0); NEAR],
            places: Vec::new(),
            free: Vec::new(),
            next: FaceId::FIRST,
            with_local_fields: 0,
            gone: FaceCounters::default(),
        }
    }

    pub(crate) fn add(&mut self, config: FaceConfig) -> FaceId {
        let id = self.next;
        self.next = FaceId(id.0 + 1);
        self.put(id, config);
        id
    }

    /// A face with the number that another shard has given it, or what such a face is now.
    pub(crate) fn put(&mut self, id: FaceId, config: FaceConfig) {
        if self.slot(id).is_some() {
            return self.configure(id, config);
        }
        self.with_local_fields += usize::from(config.local_fields);
        let counters = FaceCounters::default();
        let slot = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            Slot::new((self.places.len() - 1) as u32)
        });
        self.places[slot.index()] = Some((
            id,
            Face {
                config,
                counters,
                reassembler: None,
                replay: Replay::default(),
            },
        ));
        self.index.insert(id.0, slot);
        self.near[id.0 as usize % NEAR] = slot;
    }

    pub(crate) fn remove(&mut self, id: FaceId) -> Option<Face> {
        let slot = self.slot(id)?;
        self.index.remove(id.0, slot);
        self.free.push(slot);
        if let Some((_, face)) = self.places[slot.index()].take() {
            self.with_local_fields -= usize::from(face.config.local_fields);
            self.gone.add(&face.counters);
            return Some(face);
        }
        None
    }

    #[inline]
    pub(crate) fn get(&self, id: FaceId) -> Option<&Face> {
        self.places[self.slot(id)?.index()]
            .as_ref()
            .map(|(_, face)| face)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: FaceId) -> Option<&mut Face> {
        let slot = self.slot(id)?;
        self.places[slot.index()].as_mut().map(|(_, face)| face)
    }

    #[inline]
    fn slot(&self, id: FaceId) -> Option<Slot> {
        let near = self.near[id.0 as usize % NEAR];
        match self.places.get(near.index()) {
            Some(Some((other, _))) if *other == id => Some(near),
            _ => self.far(id),
        }
    }

    #[inline(never)]
    fn far(&self, id: FaceId) -> Option<Slot> {
        self.index.find(id.0, |slot| {
            self.places[slot.index()]
                .as_ref()
                .is_some_and(|(other, _)| *other == id)
        })
    }

    /// Returns true if packets to the face carry IncomingFaceId, and packets from it may choose the
    /// next hop.
    pub(crate) fn local_fields(&self, id: FaceId) -> bool {
        self.with_local_fields > 0 && self.get(id).is_some_and(|face| face.config.local_fields)
    }

    /// Returns true if not all peers of this face receive each other's packets. A packet from the
    /// face may then be sent back to it.
    pub(crate) fn is_ad_hoc(&self, id: FaceId) -> bool {
        self.get(id)
            .is_some_and(|face| face.config.link_type == LinkType::AdHoc)
    }

    /// Changes the face's configuration.
    pub(crate) fn configure(&mut self, id: FaceId, config: FaceConfig) {
        let wants_them = usize::from(config.local_fields);
        let Some(face) = self.get_mut(id) else { return };
        let before = std::mem::replace(&mut face.config, config);
        self.with_local_fields =
            self.with_local_fields - usize::from(before.local_fields) + wants_them;
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (FaceId, &Face)> {
        self.places.iter().flatten().map(|(id, face)| (*id, face))
    }

    /// Forgets incomplete packets that are too old, and the reassemblers that hold nothing then;
    /// returns the bytes that are left, and how many packets were given up.
    pub(crate) fn sweep_reassemblers(&mut self, now: Time) -> (usize, u64) {
        let (mut left, mut given_up) = (0, 0);
        for (_, face) in self.places.iter_mut().flatten() {
            if let Some(reassembler) = &mut face.reassembler {
                let before = reassembler.counters().incomplete_packets();
                reassembler.forget_old(now);
                let lost = reassembler.counters().incomplete_packets() - before;
                face.counters.dropped += lost;
                given_up += lost;
                match reassembler.held_bytes() {
                    0 => face.reassembler = None,
                    held => left += held,
                }
            }
        }
        (left, given_up)
    }

    /// The faces with incomplete packets: the bytes of each, and when the oldest of its packets
    /// began.
    pub(crate) fn reassembling(&self) -> impl Iterator<Item = (FaceId, usize, Time)> {
        self.iter().filter_map(|(id, face)| {
            let reassembler = face.reassembler.as_ref()?;
            Some((id, reassembler.held_bytes(), reassembler.waits_since()?))
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }
}
