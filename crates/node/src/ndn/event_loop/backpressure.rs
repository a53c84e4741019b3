//! Stops reading faces whose queues are long.

use super::{EventLoop, Pending};
use crate::limits;
use crate::ndn::send::backpressure::{Pause, whole_frames};
use crate::ndn::send::link::Connection;
use crate::ndn::tokens::token;
use larder_forwarder::{FaceId, Forwarder, Persistency, Scope};
use larder_units::Time;

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
        let Some(link) = self.links.get_mut(&face) else {
            return false;
        };
        if link.pause.is_none() || link.queued() > short {
            return link.pause.is_some();
        }
        let mut frames = self.resume(face);
        self.handle_with_backpressure(now, face, whole_frames(&mut frames));
        let Some(link) = self.links.get_mut(&face) else {
            return false;
        };
        link.is_backlogged = link.pause.is_some();
        link.is_backlogged
    }

    /// Reads the face again if its queue has become short. Call it after the queue was written.
    pub(super) fn read_again_if_short(&mut self, face: FaceId) {
        let short = self.long_queue() / 2;
        if self
            .links
            .get(&face)
            .is_some_and(|link| link.pause.is_some() && link.queued() <= short)
        {
            self.pending.ready.push(token(face));
        }
    }

    /// Reads faces again that have taken nothing for a long time.
    pub(super) fn watch_paused(&mut self, now: Time) {
        let mut stalled = Vec::new();
        let EventLoop {
            pending: Pending { paused, .. },
            links,
            ..
        } = self;
        paused.retain(|face| {
            let Some(link) = links.get_mut(face) else {
                return false;
            };
            let taken = link.taken();
            let Some(pause) = &mut link.pause else {
                return false;
            };
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
            if let Some(link) = self.links.get_mut(&face) {
                link.is_backlogged = false;
            }
            self.pending.ready.push(token(face));
        }
    }

    /// Returns the length in bytes from which on a face's queue is long.
    fn long_queue(&self) -> usize {
        self.longest_queues().any / limits::BACKPRESSURE_PART
    }

    fn is_to_pause(&self, face: FaceId) -> bool {
        let Some(link) = self.links.get(&face) else {
            return false;
        };
        link.queued() > self.long_queue()
            && self.pending.held_bytes < limits::HELD_INPUT_BYTES
            && is_application(&self.forwarder, face, &link.connection)
    }

    fn pause<'a>(&mut self, now: Time, face: FaceId, rest: impl Iterator<Item = &'a mut [u8]>) {
        let Some(link) = self.links.get_mut(&face) else {
            return;
        };
        let mut frames = Vec::new();
        rest.for_each(|frame| frames.extend_from_slice(frame));
        self.pending.held_bytes += frames.len();
        link.pause = Some(Pause {
            frames,
            since: now,
            taken: link.taken(),
        });
        link.is_backlogged = true;
        self.pending.paused.push(face);
        self.end_polling(face);
    }

    /// Ends the pause of a face and returns the frames that waited.
    fn resume(&mut self, face: FaceId) -> Vec<u8> {
        self.pending.paused.retain(|other| *other != face);
        let pause = self.links.get_mut(&face).and_then(|link| link.pause.take());
        let frames = pause.map_or_else(Vec::new, |pause| pause.frames);
        self.pending.held_bytes -= frames.len();
        frames
    }
}

/// Returns true for a face that an application on this machine has opened.
pub(super) fn is_application(forwarder: &Forwarder, face: FaceId, connection: &Connection) -> bool {
    matches!(connection, Connection::Stream(_))
        && forwarder.face(face).is_some_and(|config| {
            config.scope == Scope::Local && config.persistency == Persistency::OnDemand
        })
}
