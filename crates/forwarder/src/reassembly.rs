//! The memory of incomplete packets in reassembly, and the order in which faces lose it.

use crate::drop_reason::{DropCounters, DropReason};
use crate::face::{Face, FaceId, Faces};
use larder_packet::limits::REASSEMBLY_TIMEOUT;
use larder_units::Time;

/// The memory of incomplete packets, over all faces. Each face has its own reassembler.
pub(crate) struct Reassembly {
    /// Bytes of incomplete packets.
    pub(crate) bytes: usize,
    pub(crate) most_bytes: usize,
    /// The time of the next check for packets that will not become complete.
    pub(crate) next_sweep: Option<Time>,
}

impl Reassembly {
    /// Creates the state before the first fragment.
    pub(crate) fn new(most_bytes: usize) -> Self {
        Reassembly {
            bytes: 0,
            most_bytes,
            next_sweep: None,
        }
    }

    /// Drops every incomplete packet of the face, to make room for others.
    pub(crate) fn give_up(&mut self, faces: &mut Faces, drops: &mut DropCounters, id: FaceId) {
        let Some(face) = faces.get_mut(id) else {
            return;
        };
        let Some(reassembler) = &mut face.reassembler else {
            return;
        };
        self.bytes -= reassembler.held_bytes();
        for _ in 0..reassembler.give_up() {
            drops.count(DropReason::PartialReclaimed);
            face.counters.dropped += 1;
        }
    }

    /// Enforces the bound: the face that holds the most loses its incomplete packets.
    pub(crate) fn reclaim(&mut self, faces: &mut Faces, drops: &mut DropCounters) {
        let largest = faces.reassembling().max_by_key(|(_, bytes, _)| *bytes);
        if let Some((face, ..)) = largest {
            self.give_up(faces, drops, face);
        }
    }

    /// Drops the packets that have been incomplete for too long, if it is time to look for them.
    pub(crate) fn sweep(&mut self, faces: &mut Faces, drops: &mut DropCounters, now: Time) {
        if self.next_sweep.is_none_or(|at| at > now) {
            return;
        }
        let (left, given_up) = faces.sweep_reassemblers(now);
        self.bytes = left;
        for _ in 0..given_up {
            drops.count(DropReason::Reassembly);
        }
        self.next_sweep = (left > 0).then_some(now + REASSEMBLY_TIMEOUT);
    }

    /// Forgets what a removed face held.
    pub(crate) fn remove_face(&mut self, gone: &Face) {
        let reassembler = gone.reassembler.as_ref();
        self.bytes -= reassembler.map_or(0, |reassembler| reassembler.held_bytes());
    }
}
