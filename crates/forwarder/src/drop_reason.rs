//! The reasons of dropped packets. A drop is a counter with a reason, never an error: only the
//! sender can correct it.

use larder_packet::DecodeError;
use std::fmt;

macro_rules! drop_reasons {
    ($($(#[doc = $doc:literal])* $variant:ident = $label:literal,)*) => {
        /// Why a packet was dropped.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum DropReason {
            $($(#[doc = $doc])* $variant,)*
        }

        impl DropReason {
            /// Every reason, in the order of [`DropCounters::iter`].
            pub const ALL: &[DropReason] = &[$(DropReason::$variant,)*];

            /// A stable label for metrics.
            pub fn label(self) -> &'static str {
                match self {
                    $(DropReason::$variant => $label,)*
                }
            }
        }
    };
}

drop_reasons! {
    /// Not NDN packet format 0.3 or NDNLPv2: truncated, a length past the end, or an unknown
    /// critical element.
    Malformed = "malformed",
    /// Larger than the practical limit of 8800 bytes.
    Oversized = "oversized",
    /// A fragment that fits no message, or a message given up incomplete.
    Reassembly = "reassembly",
    /// From a face that does not exist (any more).
    NoFace = "no_face",
    /// A `/localhost` name from a non-local face.
    Scope = "scope",
    /// HopLimit was 0 on arrival.
    HopLimit = "hop_limit",
    /// An Interest that came around: its nonce is pending or was lately.
    DuplicateNonce = "duplicate_nonce",
    /// An Interest with CanBePrefix whose name has too many components to match Data against.
    NameTooDeep = "name_too_deep",
    /// An Interest whose ApplicationParameters do not have the digest in its name.
    ParametersDigest = "parameters_digest",
    /// The PIT, or this entry of it, is full.
    PitFull = "pit_full",
    /// No next hop, and no Nack may be sent on this link.
    NoRoute = "no_route",
    /// Data for which no Interest was sent to this face.
    Unsolicited = "unsolicited",
    /// A Nack that answers no pending Interest of this face.
    UnexpectedNack = "unexpected_nack",
    /// The face's send queue is full, because its reader is too slow. The host counts it.
    QueueFull = "queue_full",
    /// A frame of it was sent again as often as link reliability allows, and never acknowledged.
    /// Counted by the host.
    LinkLoss = "link_loss",
    /// The packet cannot be cut to the frames of the face's link. Counted by the host.
    CannotFragment = "cannot_fragment",
    /// The queue to the packet's shard is full, because that shard is too slow. The host counts it.
    ShardFull = "shard_full",
    /// A UDP peer or a connection lost its face to others, which needed its place more. Counted by
    /// the host.
    PeerDisplaced = "peer_displaced",
    /// A datagram of a sender that is no peer, where only peers are heard. Counted by the host.
    Stranger = "stranger",
    /// An incomplete packet that was given up because partial input took all the memory that it
    /// may. Also counted by the host.
    PartialReclaimed = "partial_reclaimed",
    /// A packet whose rest did not come in time, so that its connection was closed. Counted by the
    /// host.
    PartialTimeout = "partial_timeout",
    /// A stream that carried something else than Interests, Data and LpPackets, so that its
    /// connection was closed. Counted by the host.
    NotNdn = "not_ndn",
    /// A WebSocket handshake from a web page that may not connect. Counted by the host.
    ForeignOrigin = "foreign_origin",
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// One counter a reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropCounters([u64; DropReason::ALL.len()]);

impl Default for DropCounters {
    fn default() -> Self {
        DropCounters([0; DropReason::ALL.len()])
    }
}

impl DropCounters {
    pub(crate) fn count(&mut self, reason: DropReason) {
        self.0[reason as usize] += 1;
    }

    /// Adds what another has counted.
    pub(crate) fn add(&mut self, other: &DropCounters) {
        for (count, more) in self.0.iter_mut().zip(other.0) {
            *count += more;
        }
    }

    /// Returns the number of packets dropped for `reason`.
    pub fn get(&self, reason: DropReason) -> u64 {
        self.0[reason as usize]
    }

    /// Every reason with its count.
    pub fn iter(&self) -> impl Iterator<Item = (DropReason, u64)> {
        DropReason::ALL
            .iter()
            .map(|reason| (*reason, self.get(*reason)))
    }

    /// Packets dropped for any reason.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

/// A packet that was dropped and counted, for the host's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Why.
    pub reason: DropReason,
    /// The cause.
    pub detail: Detail,
}

/// The detail of a drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Nothing more.
    None,
    /// The decoder's error and its position.
    Decode(DecodeError),
    /// The packet's size, and the largest that is taken.
    Bytes {
        /// The bytes of the packet.
        found: usize,
        /// The limit.
        largest: usize,
    },
}

impl Dropped {
    pub(crate) const fn new(reason: DropReason) -> Self {
        Dropped {
            reason,
            detail: Detail::None,
        }
    }
}

impl From<DecodeError> for Dropped {
    fn from(error: DecodeError) -> Self {
        Dropped {
            reason: DropReason::Malformed,
            detail: Detail::Decode(error),
        }
    }
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.detail {
            Detail::None => write!(f, "{}", self.reason),
            Detail::Decode(error) => write!(f, "{}: {error}", self.reason),
            Detail::Bytes { found, largest } => {
                write!(f, "{}: {found} bytes, the limit is {largest}", self.reason)
            }
        }
    }
}
