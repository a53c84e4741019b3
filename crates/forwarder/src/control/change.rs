//! The changes that the first of several shards sends to the others, so that they forward as it
//! does: faces, next hops, strategies and the Content Store's settings, in order. Only the first
//! shard has management, the RIB and the notifications of faces.

use crate::face::{FaceConfig, FaceId};
use crate::tables::rib::NextHop;
use crate::verification::VerifyRule;
use larder_packet::Name;
use larder_policy::Spec;
use larder_units::ByteSize;
use std::sync::Arc;

/// One change, for [`crate::Forwarder::apply`].
#[derive(Clone, Debug)]
pub enum Change {
    /// A new or changed face.
    Face(FaceId, Box<FaceConfig>),
    /// The face is gone.
    FaceGone(FaceId),
    /// The FIB entry of a prefix; empty without next hops.
    NextHops(Name, Vec<NextHop>),
    /// The strategy of a prefix; `None` if it was removed.
    Strategy(Name, Option<Name>),
    /// The Content Store's policy, and its capacity over all shards.
    Policy(Spec, ByteSize),
    /// The Content Store's capacity over all shards.
    Capacity(ByteSize),
    /// Whether the Content Store admits, and serves.
    Serving {
        /// New Data is stored.
        admits: bool,
        /// Interests are answered.
        serves: bool,
    },
    /// The Data that has to verify before it is cached.
    Verification(Arc<[VerifyRule]>),
    /// The producers' regions that this node is in.
    NetworkRegions(Vec<Name>),
    /// The number of components by which hits and misses are counted.
    CountBy(usize),
}
