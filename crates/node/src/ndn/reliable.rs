//! Faces with link reliability: what their frames say of the link is taken in before the forwarder sees them, and their time is kept.

use super::event_loop::EventLoop;
use larder_forwarder::{DropReason, FaceId};
use larder_units::Time;

impl EventLoop {
    /// Hands frames of a face to the forwarder, but for those that came before.
    pub(super) fn handle_frames<'a>(&mut self, now: Time, face: FaceId, frames: impl Iterator<Item = &'a mut [u8]>) {
        let link = self.links.get_mut(&face).and_then(|link| link.connection.frames());
        match link.filter(|link| link.is_reliable()) {
            None => self.handle(now, face, frames),
            Some(link) => {
                let new: Vec<&mut [u8]> = frames.filter(|frame| link.receive(now, frame)).collect();
                self.handle(now, face, new.into_iter());
            }
        }
    }

    /// The face is reliable from now on, or is not, as its configuration says.
    pub(super) fn set_reliable(&mut self, face: FaceId, reliable: bool) {
        let Some(frames) = self.links.get_mut(&face).and_then(|link| link.connection.frames()) else { return };
        frames.set_reliable(reliable);
        self.reliable.retain(|other| *other != face);
        if reliable {
            self.reliable.push(face);
        }
    }

    /// When [`EventLoop::keep_reliable`] must be called next.
    pub(super) fn next_reliable(&mut self) -> Option<Time> {
        let EventLoop { reliable, links, .. } = self;
        let frames = reliable.iter().filter_map(|face| links.get_mut(face)?.connection.frames()?.next_timeout());
        frames.min()
    }

    /// Sends again what was lost, and Acks that found no frame to go in.
    pub(super) fn keep_reliable(&mut self, now: Time) {
        for face in &self.reliable {
            let Some(frames) = self.links.get_mut(face).and_then(|link| link.connection.frames()) else { continue };
            if frames.next_timeout().is_some_and(|at| at <= now) {
                let given_up = frames.on_timeout(now);
                (0..given_up).for_each(|_| self.forwarder.count_drop(*face, DropReason::LinkLoss));
                self.dirty.push(*face);
            }
        }
    }
}
