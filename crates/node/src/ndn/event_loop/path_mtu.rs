//! Reads the path MTUs of UDP peers.

use super::EventLoop;
use crate::limits::PATHS_AT_ONCE;
use crate::ndn::guard::udp_faces::PeerSetting;
use crate::ndn::send::link::{Connection, Link};
use crate::ndn::transport::datagram;
use larder_forwarder::FaceId;
use std::net::SocketAddr;

impl EventLoop {
    /// Reads the MTU of some paths to UDP peers again, and of the others in the next calls: a
    /// router may have reported a narrower one.
    pub(super) fn look_at_paths(&mut self) {
        if self.bounds.udp_mtu.is_some() {
            return;
        }
        let by_path = |(face, link): (&FaceId, &Link)| match &link.connection {
            Connection::Udp(peer) if !peer.address.ip().is_loopback() => {
                Some((*face, peer.address))
            }
            _ => None,
        };
        let mut peers: Vec<(FaceId, SocketAddr)> = self.links.iter().filter_map(by_path).collect();
        peers.sort_unstable_by_key(|(face, _)| (*face <= self.path_looked_at, *face));
        for (face, address) in peers.into_iter().take(PATHS_AT_ONCE) {
            self.path_looked_at = face;
            let mtu = datagram::mtu_to(address, None);
            let smaller = self
                .forwarder
                .face(face)
                .is_some_and(|config| config.mtu.is_some_and(|old| mtu < old));
            // Only the operator can make it larger.
            if smaller {
                self.change_peer(face, PeerSetting::Mtu(mtu));
            }
        }
    }
}
