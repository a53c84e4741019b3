//! UDP faces of several threads: the first one's list of them, and what the threads tell each other
//! about peers.

use crate::ndn::guard::udp_places::Standing;
use crate::ndn::transport::udp::datagram::Origin;
use crate::ndn::transport::udp::peer::Peer;
use larder_forwarder::FaceId;
use std::collections::HashMap;
use std::net::SocketAddr;

/// The UDP faces of all threads, at the first one, which creates them.
#[derive(Debug, Default)]
pub(crate) struct UdpFaces {
    by_address: HashMap<SocketAddr, FaceId>,
    /// The address of each, and whether it stays: it belongs to a route or to management.
    peers: HashMap<FaceId, (SocketAddr, bool)>,
    /// Faces that do not stay.
    on_demand: usize,
}

impl UdpFaces {
    /// Returns the face of the peer with this address.
    pub(crate) fn get(&self, address: SocketAddr) -> Option<FaceId> {
        self.by_address.get(&address).copied()
    }

    /// Returns the number of faces that take a place of a UDP peer.
    pub(crate) fn on_demand(&self) -> usize {
        self.on_demand
    }

    /// Returns all of them.
    pub(crate) fn all(&self) -> Vec<FaceId> {
        self.peers.keys().copied().collect()
    }

    /// Adds a face, or changes whether it stays. It is the face of its address from now on.
    pub(crate) fn insert(&mut self, face: FaceId, address: SocketAddr, permanent: bool) {
        self.forget(face);
        self.by_address.insert(address, face);
        self.peers.insert(face, (address, permanent));
        self.on_demand += usize::from(!permanent);
    }

    /// Changes whether a face stays. Ignores other faces than those of UDP.
    pub(crate) fn set_permanent(&mut self, face: FaceId, permanent: bool) {
        if let Some((_, before)) = self.peers.get_mut(&face) {
            self.on_demand = self.on_demand + usize::from(*before) - usize::from(permanent);
            *before = permanent;
        }
    }

    /// Removes a face that is gone. If a route has created another one for the address, that one
    /// stays.
    pub(crate) fn remove(&mut self, face: FaceId) {
        if let Some((address, _)) = self.forget(face)
            && self.get(address) == Some(face)
        {
            self.by_address.remove(&address);
        }
    }

    fn forget(&mut self, face: FaceId) -> Option<(SocketAddr, bool)> {
        let former = self.peers.remove(&face)?;
        self.on_demand -= usize::from(!former.1);
        Some(former)
    }
}

/// Datagrams of one sender that arrived together at another thread.
pub(crate) struct Datagrams {
    pub(crate) origin: Origin,
    pub(crate) bytes: Vec<u8>,
}

impl Datagrams {
    /// The part of [`crate::limits::STRANGERS_BYTES`] that they take.
    pub(crate) fn weight(&self) -> usize {
        self.bytes.len() + crate::limits::STRANGER_BYTES
    }
}

/// A UDP face that the first thread has created for another one.
pub(crate) struct NewPeer {
    pub(crate) face: FaceId,
    pub(crate) peer: Peer,
    pub(crate) standing: Standing,
    /// The datagrams with which it began. They have a part of the room of the other thread.
    pub(crate) first: Option<Datagrams>,
}

/// A setting of a UDP face that changes after its creation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PeerSetting {
    /// The largest frame: the path has become narrower.
    Mtu(usize),
    /// Whether the link is reliable.
    Reliable(bool),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_face_that_is_gone_takes_the_address_of_its_successor() {
        let mut faces = UdpFaces::default();
        let peer = "192.0.2.1:6363".parse().unwrap();
        faces.insert(FaceId(300), peer, false);
        faces.insert(FaceId(301), peer, true);
        assert_eq!(
            (faces.get(peer), faces.on_demand(), faces.all().len()),
            (Some(FaceId(301)), 1, 2)
        );
        faces.remove(FaceId(300));
        assert_eq!((faces.get(peer), faces.on_demand()), (Some(FaceId(301)), 0));
        faces.set_permanent(FaceId(301), false);
        faces.set_permanent(FaceId(999), true);
        assert_eq!(faces.on_demand(), 1);
        faces.remove(FaceId(301));
        assert_eq!(
            (faces.get(peer), faces.on_demand(), faces.all().len()),
            (None, 0, 0)
        );
    }
}
