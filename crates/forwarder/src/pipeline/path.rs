//! A cache's place on the path of an answer, which packets carry (NDNLPv2 header, [`PathRecord`]).
//!
//! An Interest collects the number of caches that it has passed, their total capacity, and the
//! greatest of their centralities: what ProbCache (Psaras, Chai and Pavlou, ICN 2012) and Cache
//! less for more (Chai et al., Networking 2012) let requests collect. The forwarder keeps the
//! record of the first Interest beside the pending entry. The answering node copies the greatest
//! centrality into the Data, which then counts the caches that it passes. So each cache knows its
//! [`Path`] from packets alone, wherever the Interest was answered. If several Interests wait for
//! one answer, the path is that of the first. If neither the own policy needs it nor the host has
//! set a centrality ([`Forwarder::set_centrality`]), nothing is kept or sent; a neighbour that
//! sends nothing counts as the path's end. NFD ignores the field. A router whose Content Store has
//! no room does not count.
//!
//! O(1) per packet; 24 bytes per entry of the PIT; 24 bytes on the wire.

use crate::face::FaceId;
use crate::forwarder::Forwarder;
use crate::tables::paths::Paths;
use larder_packet::PathRecord;

impl Forwarder {
    /// Sends and learns the places of caches on their paths, for the policies `lcd`, `probcache`
    /// and `betweenness`. `centrality` is this router's betweenness, in any unit that all routers
    /// share. After this, room in the Content Store is no reason to admit.
    pub fn set_centrality(&mut self, centrality: u64) {
        let capacity = self.data.content_store.engine().capacity().bytes();
        self.data.paths = Some(Box::new(Paths {
            centrality,
            capacity,
            behind: Vec::new(),
        }));
    }

    /// Enables paths for a policy that needs its place, if the host has set no centrality: all
    /// routers are equal then.
    pub(crate) fn tell_path_if(&mut self, policy_asks: bool) {
        if policy_asks && self.data.paths.is_none() {
            self.set_centrality(0);
        }
    }

    /// Returns the record for a neighbour; applications get none.
    pub(crate) fn path_to(&self, face: FaceId, told: Option<PathRecord>) -> Option<PathRecord> {
        told.filter(|_| {
            self.data
                .faces
                .get(face)
                .is_some_and(|face| !face.is_local())
        })
    }
}
