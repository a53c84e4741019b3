//! The places of faces to other machines, and the memory of their incomplete packets.

use crate::limits;
use crate::ndn::bounds::Bounds;
use crate::ndn::guard::partial_input::PartialInput;
use crate::ndn::guard::stream_places::{Activity, StreamPlaces};
use crate::ndn::guard::udp_faces::UdpFaces;
use crate::ndn::guard::udp_places::UdpPlaces;
use crate::ndn::transport::unix_socket::SharedPlaces;
use larder_forwarder::FaceId;
use larder_units::Time;
use std::collections::HashSet;
use std::net::IpAddr;

/// What the faces of a thread may take: places, and memory for incomplete packets.
pub(crate) struct Places {
    /// The peers of this thread behind `udp`.
    pub(crate) udp_places: UdpPlaces,
    /// The UDP faces of all threads; empty except at the first thread.
    pub(crate) udp_faces: UdpFaces,
    /// Accepted connections from other machines, on all threads.
    pub(crate) stream_places: StreamPlaces,
    /// Faces to other machines.
    remote: HashSet<FaceId>,
    /// The memory of incomplete packets.
    pub(crate) partial: PartialInput,
    /// Local applications with shared memory.
    pub(crate) shared: SharedPlaces,
}

impl Places {
    /// Creates the places of a thread without faces. The key is that of the tokens of UDP peers.
    pub(crate) fn new(key: [u64; 2], partial: PartialInput) -> Self {
        Places {
            udp_places: UdpPlaces::new(key),
            udp_faces: UdpFaces::default(),
            stream_places: StreamPlaces::default(),
            remote: HashSet::new(),
            partial,
            shared: SharedPlaces::default(),
        }
    }

    /// Records a new face to another machine.
    pub(crate) fn add_remote(&mut self, face: FaceId) {
        self.remote.insert(face);
    }

    /// Gives a place to an accepted connection, if `source` is another machine.
    pub(crate) fn add_stream(
        &mut self,
        now: Time,
        face: FaceId,
        source: Option<IpAddr>,
    ) -> Option<Activity> {
        source.map(|address| self.stream_places.insert(now, face, address))
    }

    /// Takes the places of a face back that is gone.
    pub(crate) fn forget(&mut self, face: FaceId) {
        self.remote.remove(&face);
        self.stream_places.remove(face);
        self.udp_faces.remove(face);
    }

    /// Returns true if there may be another face besides `faces`. UDP peers that sent first have
    /// places of their own.
    pub(crate) fn has_room(&self, bounds: &Bounds, faces: usize, is_remote: bool) -> bool {
        let most = bounds.remote_faces;
        faces.saturating_sub(self.udp_faces.on_demand()) < most + limits::LOCAL_FACES
            && (!is_remote || self.remote() < most)
    }

    /// Returns true if there are more faces to other machines than the configuration allows.
    pub(crate) fn has_too_many(&self, bounds: &Bounds) -> bool {
        self.remote() > bounds.remote_faces
    }

    /// Returns true if so many peers come that one line for each would fill the log.
    pub(crate) fn is_crowded(&self, bounds: &Bounds) -> bool {
        self.udp_places.are_scarce()
            || self.stream_places.places.len() >= bounds.remote_faces / 4 * 3
    }

    /// Returns the number of faces to other machines, without UDP peers that sent first.
    fn remote(&self) -> usize {
        let remote = self.remote.len();
        remote.saturating_sub(self.udp_faces.on_demand())
    }
}
