//! The memory of incomplete packets in reassembly, and the order in which faces lose it.

use crate::drop_reason::DropReason;
use crate::face::FaceId;
use crate::forwarder::Forwarder;
use larder_units::Time;

impl Forwarder {
    /// Returns the bytes of incomplete packets in reassembly, over all faces.
    pub fn partial_bytes(&self) -> usize {
        self.data.partial_bytes
    }

    /// Returns the faces with incomplete packets: the bytes of each, and the time at which its
    /// oldest packet began.
    pub fn partial_holders(&self) -> impl Iterator<Item = (FaceId, usize, Time)> {
        self.data.faces.reassembling()
    }

    /// Drops every incomplete packet of the face, to make room for others.
    pub fn give_up_partial(&mut self, face: FaceId) {
        let Some(found) = self.data.faces.get_mut(face) else {
            return;
        };
        let Some(reassembler) = &mut found.reassembler else {
            return;
        };
        self.data.partial_bytes -= reassembler.held_bytes();
        let packets = reassembler.give_up();
        for _ in 0..packets {
            self.count_drop(face, DropReason::PartialReclaimed);
        }
    }

    /// Enforces the bound of reassembly: the face that holds the most loses its incomplete packets.
    pub(crate) fn reclaim_partial(&mut self) {
        let largest = self.partial_holders().max_by_key(|(_, bytes, _)| *bytes);
        if let Some((face, ..)) = largest {
            self.give_up_partial(face);
        }
    }
}
