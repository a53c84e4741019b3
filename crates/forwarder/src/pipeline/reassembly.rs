//! Memory of incomplete packets in reassembly: how much there is, and who loses it first.

use crate::drop_reason::DropReason;
use crate::face::FaceId;
use crate::forwarder::Forwarder;
use larder_units::Time;

impl Forwarder {
    /// Bytes that incomplete packets in reassembly take, over all faces.
    pub fn partial_bytes(&self) -> usize {
        self.partial_bytes
    }

    /// The faces with incomplete packets: the bytes of each, and when the oldest of its packets
    /// began.
    pub fn partial_holders(&self) -> impl Iterator<Item = (FaceId, usize, Time)> {
        self.faces.reassembling()
    }

    /// Gives up every incomplete packet of the face, so that others have room.
    pub fn give_up_partial(&mut self, face: FaceId) {
        let Some(found) = self.faces.get_mut(face) else { return };
        let Some(reassembler) = &mut found.reassembler else { return };
        self.partial_bytes -= reassembler.held_bytes();
        let packets = reassembler.give_up();
        (0..packets).for_each(|_| self.count_drop(face, DropReason::PartialReclaimed));
    }

    /// Reassembly has outgrown its own bound: the face that holds the most loses what it holds.
    pub(crate) fn reclaim_partial(&mut self) {
        let largest = self.partial_holders().max_by_key(|(_, bytes, _)| *bytes);
        if let Some((face, ..)) = largest {
            self.give_up_partial(face);
        }
    }
}
