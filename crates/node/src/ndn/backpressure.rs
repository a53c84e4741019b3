//! Backpressure: the node reads an application only while its queue is short.
//!
//! A consumer with a large window writes its Interests when it has nothing to read, hundreds at
//! once. One read of 64 KiB may bring a thousand, and the Content Store answers them with 8 MB:
//! four times the limit of one reader's queue. When a face's queue is long, the node holds the rest
//! of the face's input, and does not read its socket until half of the queue has left. Further
//! Interests then wait in the application, which measures longer round trips. Nothing is dropped.
//!
//! This applies to faces that applications on this machine have opened. Two forwarders that wait
//! for each other could wait for ever; here only the one that accepted the connection waits. An
//! application that writes and does not read is read again after [`limits::BACKPRESSURE_STALL`];
//! what does not fit its queue is dropped.

use super::event_loop::{EventLoop, token};
use super::link::{Connection, Link};
use crate::limits;
use larder_forwarder::{FaceId, Persistency, Scope};
use larder_packet::tlv;
use larder_units::Time;

/// The state of a face that is not read.
#[derive(Debug)]
pub(super) struct Pause {
    /// Whole frames that were read before the pause, back to back.
    frames: Vec<u8>,
    /// The last time at which the face was seen to take something, and the bytes taken until then.
    since: Time,
    taken: u64,
}

impl Pause {
    pub(super) fn held(&self) -> usize {
        self.frames.len()
    }
}

impl EventLoop {
    /// Hands frames of a face to the forwarder. Frames that come while the face's queue is long
    /// wait.
    pub(super) fn handle_with_backpressure<'a>(
        &mut self,
        now: Time,
        face: FaceId,
        frames: impl Iterator<Item = &'a mut [u8]>,
    ) {
        let mut frames = frames.peekable();
        while frames.peek().is_some() {
            if self.is_to_pause(face) {
                return self.pause(now, face, frames);
            }
            self.handle(now, face, frames.by_ref().take(limits::FRAMES_AT_ONCE));
        }
    }

    /// Returns true while the face is not read. If its queue has become short, handles the frames
    /// that waited.
    pub(super) fn is_paused(&mut self, now: Time, face: FaceId) -> bool {
        let short = self.long_queue() / 2;
        let Some(link) = self.links.get_mut(&face) else { return false };
        if link.pause.is_none() || link.queued() > short {
            return link.pause.is_some();
        }
        let mut frames = self.resume(face);
        self.handle_with_backpressure(now, face, whole_frames(&mut frames));
        self.links.get(&face).is_some_and(|link| link.pause.is_some())
    }

    /// Reads the face again if its queue has become short. Call it after the queue was written.
    pub(super) fn read_again_if_short(&mut self, face: FaceId) {
        let short = self.long_queue() / 2;
        if self.links.get(&face).is_some_and(|link| link.pause.is_some() && link.queued() <= short) {
            self.ready.push(token(face));
        }
    }

    /// Reads faces again that have taken nothing for a long time.
    pub(super) fn watch_paused(&mut self, now: Time) {
        let mut stalled = Vec::new();
        let EventLoop { paused, links, .. } = self;
        paused.retain(|face| {
            let Some(link) = links.get_mut(face) else { return false };
            let taken = link.taken();
            let Some(pause) = &mut link.pause else { return false };
            if pause.taken != taken {
                (pause.taken, pause.since) = (taken, now);
            } else if now.since(pause.since) >= limits::BACKPRESSURE_STALL {
                stalled.push(*face);
            }
            true
        });
        for face in stalled {
            let mut frames = self.resume(face);
            self.handle(now, face, whole_frames(&mut frames));
            self.ready.push(token(face));
        }
    }

    /// Returns the length in bytes from which on a face's queue is long.
    fn long_queue(&self) -> usize {
        self.longest_queue() / limits::BACKPRESSURE_PART
    }

    fn is_to_pause(&self, face: FaceId) -> bool {
        let is_long =
            |link: &Link| matches!(link.connection, Connection::Stream(_)) && link.queued() > self.long_queue();
        self.links.get(&face).is_some_and(is_long)
            && self.held_bytes < limits::HELD_INPUT_BYTES
            && self
                .forwarder
                .face(face)
                .is_some_and(|config| config.scope == Scope::Local && config.persistency == Persistency::OnDemand)
    }

    fn pause<'a>(&mut self, now: Time, face: FaceId, rest: impl Iterator<Item = &'a mut [u8]>) {
        let Some(link) = self.links.get_mut(&face) else { return };
        let mut frames = Vec::new();
        rest.for_each(|frame| frames.extend_from_slice(frame));
        self.held_bytes += frames.len();
        link.pause = Some(Pause { frames, since: now, taken: link.taken() });
        self.paused.push(face);
    }

    /// Ends the pause of a face and returns the frames that waited.
    fn resume(&mut self, face: FaceId) -> Vec<u8> {
        self.paused.retain(|other| *other != face);
        let pause = self.links.get_mut(&face).and_then(|link| link.pause.take());
        let frames = pause.map_or_else(Vec::new, |pause| pause.frames);
        self.held_bytes -= frames.len();
        frames
    }
}

/// Splits bytes into whole frames.
fn whole_frames(mut bytes: &mut [u8]) -> impl Iterator<Item = &mut [u8]> {
    std::iter::from_fn(move || {
        let length = tlv::frame(bytes, usize::MAX).ok()??;
        let (first, rest) = std::mem::take(&mut bytes).split_at_mut(length);
        bytes = rest;
        Some(first)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_frames_are_lost_or_cut() {
        let mut bytes = [vec![5, 1, 7], vec![6, 0], vec![5, 2, 8, 9]].concat();
        let frames: Vec<Vec<u8>> = whole_frames(&mut bytes).map(|frame| frame.to_vec()).collect();
        assert_eq!(frames, [vec![5, 1, 7], vec![6, 0], vec![5, 2, 8, 9]]);
        assert_eq!(whole_frames(&mut []).count(), 0);
    }
}
