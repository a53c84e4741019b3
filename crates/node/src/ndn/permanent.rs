//! Permanent TCP faces of management (NFD wiki, "FaceMgmt"). When its connection is gone, such a
//! face keeps its number and its routes, and is connected again.

use larder_forwarder::FaceId;
use larder_units::Time;
use std::net::SocketAddr;
use std::time::Duration;

/// A permanent face.
pub(super) struct Permanent {
    pub(super) face: FaceId,
    pub(super) address: SocketAddr,
    /// The time of the next attempt; `None` while there is a connection.
    pub(super) retry: Option<Time>,
    /// The time between two attempts.
    pub(super) wait: Duration,
}

impl Permanent {
    pub(super) fn is(&self, face: FaceId) -> bool {
        self.face == face
    }
}
