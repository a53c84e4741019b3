//! The connections that this node opens.

use crate::ndn::faces::permanent::PermanentFaces;
use crate::ndn::faces::requests::ConnectingFaces;
use crate::ndn::faces::upstream::Upstream;
use larder_forwarder::FaceId;
use larder_units::Time;

/// The connections that this node opens.
#[derive(Default)]
pub(crate) struct OutgoingFaces {
    pub(crate) upstreams: Vec<Upstream>,
    pub(crate) permanent: PermanentFaces,
    /// Faces that are being connected for management.
    pub(crate) connecting: ConnectingFaces,
}

impl OutgoingFaces {
    /// Records that something came by a face.
    pub(crate) fn heard(&mut self, face: FaceId) {
        if let Some(upstream) = self.upstream(face) {
            upstream.heard();
        }
        self.permanent.heard(face);
    }

    /// Plans the next attempt after the connection of a face is gone. Returns false if the face
    /// ends with its connection: it is not permanent, or its first connection has failed, which the
    /// command that waits for it gets as its error.
    pub(crate) fn lost(&mut self, now: Time, face: FaceId) -> bool {
        !self.connecting.contains(face) && self.permanent.lost(now, face)
    }

    /// Records the end of a face. The upstream of a route gets another one.
    pub(crate) fn closed(&mut self, now: Time, face: FaceId) {
        self.permanent.remove(face);
        if let Some(upstream) = self.upstream(face) {
            upstream.lost(now);
        }
    }

    fn upstream(&mut self, face: FaceId) -> Option<&mut Upstream> {
        let mut upstreams = self.upstreams.iter_mut();
        upstreams.find(|upstream| upstream.face == Some(face))
    }
}
