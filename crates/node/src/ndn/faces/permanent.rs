//! Permanent TCP faces of management (NFD wiki, "FaceMgmt"). When its connection is gone, such a
//! face keeps its number and its routes, and is connected again.

use larder_forwarder::FaceId;
use larder_units::Time;
use std::net::SocketAddr;
use std::time::Duration;

/// A permanent face.
pub(crate) struct Permanent {
    pub(crate) face: FaceId,
    pub(crate) address: SocketAddr,
    /// The time of the next attempt; `None` while there is a connection.
    pub(crate) retry: Option<Time>,
    /// The time between two attempts.
    pub(crate) wait: Duration,
}

impl Permanent {
    pub(crate) fn is(&self, face: FaceId) -> bool {
        self.face == face
    }
}
