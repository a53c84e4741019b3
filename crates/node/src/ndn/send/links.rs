//! The links of this thread's faces, and which of their send queues have work to do.

use crate::limits;
use crate::ndn::send::backpressure::Pause;
use crate::ndn::send::link::{Connection, Link};
use crate::ndn::transport::frames::{Frames, Refused};
use crate::ndn::transport::spare_buffers::SpareBuffers;
use crate::ndn::transport::udp::datagram::UdpListener;
use crate::ndn::transport::udp::peer::Peer;
use foldhash::fast::FixedState;
use larder_forwarder::{DropReason, FaceId, Forwarder, Persistency, Scope, Send};
use larder_packet::types;
use larder_units::Time;
use std::collections::HashMap;
use std::io;

/// The bytes that may wait for one reader: its share of those that may wait for all.
#[derive(Clone, Copy)]
pub(crate) struct LongestQueues {
    /// For any reader. Also the bytes that a reliable link may leave unacknowledged.
    any: usize,
    /// For an application on this machine.
    application: usize,
}

/// The links of this thread's faces.
pub(crate) struct Links {
    /// Links by face. The node chooses the numbers, so an unkeyed hash is safe.
    links: HashMap<FaceId, Link, FixedState>,
    /// Threads that share the memory for queues.
    threads: usize,
    /// Faces whose queues have grown in this turn.
    dirty: Vec<FaceId>,
    /// Faces that wait until the socket that they share can be written: UDP and Ethernet.
    blocked: Vec<FaceId>,
    /// Faces with frames or Acks that wait. Reliable faces without any are not in the list, because
    /// any peer can have one.
    reliable: Vec<FaceId>,
    /// Faces that are not read while their queues are long, and the bytes of frames that they sent
    /// before.
    paused: Vec<FaceId>,
    held_bytes: usize,
    /// True after datagrams waited too long: see [`UdpListener::receive`].
    mark_next_data: bool,
    /// Packets that were marked, because a send queue or that of the UDP socket was long.
    marked: u64,
    /// Buffers of queues that are empty.
    spare: SpareBuffers,
}

impl Links {
    /// Creates the table of a thread without links. `threads` share the memory for queues.
    pub(crate) fn new(threads: usize) -> Self {
        Links {
            links: HashMap::default(),
            threads,
            dirty: Vec::new(),
            blocked: Vec::new(),
            reliable: Vec::new(),
            paused: Vec::new(),
            held_bytes: 0,
            mark_next_data: false,
            marked: 0,
            spare: SpareBuffers::default(),
        }
    }

    // ---- The table ----

    pub(crate) fn len(&self) -> usize {
        self.links.len()
    }

    pub(crate) fn contains(&self, face: FaceId) -> bool {
        self.links.contains_key(&face)
    }

    pub(crate) fn get(&self, face: FaceId) -> Option<&Link> {
        self.links.get(&face)
    }

    pub(crate) fn get_mut(&mut self, face: FaceId) -> Option<&mut Link> {
        self.links.get_mut(&face)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (FaceId, &Link)> {
        self.links.iter().map(|(face, link)| (*face, link))
    }

    /// Adds the link of a face, or replaces it.
    pub(crate) fn insert(&mut self, face: FaceId, link: Link) {
        self.links.insert(face, link);
    }

    /// Removes the link of a face, with the frames that waited for it to be read.
    pub(crate) fn remove(&mut self, face: FaceId) -> Option<Link> {
        let mut link = self.links.remove(&face)?;
        self.held_bytes -= link.pause.take().map_or(0, |pause| pause.held());
        Some(link)
    }

    /// Returns a face's socket.
    pub(crate) fn connection(&self, face: FaceId) -> Option<&Connection> {
        self.get(face).map(|link| &link.connection)
    }

    /// Returns a face's socket.
    pub(crate) fn connection_mut(&mut self, face: FaceId) -> Option<&mut Connection> {
        self.get_mut(face).map(|link| &mut link.connection)
    }

    /// Returns the queue of a link of frames.
    pub(crate) fn frames(&mut self, face: FaceId) -> Option<&mut Frames> {
        self.connection_mut(face)?.frames()
    }

    /// Returns the peer of a UDP face.
    pub(crate) fn udp_peer(&mut self, face: FaceId) -> Option<&mut Peer> {
        match self.connection_mut(face)? {
            Connection::Udp(peer) => Some(peer),
            _ => None,
        }
    }

    /// Returns the packets that were marked as congested.
    pub(crate) fn marked(&self) -> u64 {
        self.marked
    }

    // ---- Queues ----

    /// Returns the bytes that may wait for one reader.
    pub(crate) fn longest_queues(&self) -> LongestQueues {
        let share = limits::SEND_QUEUES_BYTES / self.threads / self.links.len().max(1);
        LongestQueues {
            any: share.clamp(limits::SEND_QUEUE_LEAST_BYTES, limits::SEND_QUEUE_BYTES),
            application: share.clamp(
                limits::SEND_QUEUE_LEAST_BYTES,
                limits::APPLICATION_QUEUE_BYTES,
            ),
        }
    }

    /// Marks the next Data if datagrams waited too long in the socket.
    pub(crate) fn mark_next_data_if(&mut self, is_congested: bool) {
        self.mark_next_data |= is_congested;
    }

    /// Queues a packet, and may mark it. Returns false if this thread does not have the face's
    /// socket.
    #[inline]
    pub(crate) fn queue(
        &mut self,
        now: Time,
        most: LongestQueues,
        send: &mut Send,
        input: &[u8],
        forwarder: &mut Forwarder,
        udp: Option<&UdpListener>,
    ) -> bool {
        let Some(link) = self.links.get_mut(&send.face) else {
            return false;
        };
        let (queued, mut is_marked) = (link.queued(), false);
        if queued == 0 {
            self.dirty.push(send.face);
        } else if forwarder
            .face(send.face)
            .is_some_and(|config| link.is_long(now, config))
        {
            is_marked = true;
        }
        if self.mark_next_data && send.packet(input).first() == Some(&(types::DATA as u8)) {
            self.mark_next_data = false;
            is_marked = true;
        }
        if is_marked {
            send.header.congestion_mark = Some(1);
            self.marked += 1;
        }
        if let Some(frames) = link.connection.frames() {
            frames.hold_at_most(most.any);
        }
        let is_full = queued > most.any
            && (queued > most.application
                || !is_application(forwarder, send.face, &link.connection));
        let result = if is_full {
            Err(Refused::QueueFull)
        } else {
            link.queue(now, send, input, &mut self.spare)
        };
        if link.connection.frames().is_some_and(Frames::begins_to_wait) {
            self.reliable.push(send.face);
        }
        match result {
            // An error shows again at the end of the turn, and closes the face.
            Ok(()) if link.is_worth_writing() => {
                let lost = link.flush(udp, &mut self.spare).unwrap_or(0);
                for _ in 0..lost {
                    forwarder.count_drop(send.face, DropReason::QueueFull);
                }
            }
            Ok(()) => {}
            Err(Refused::QueueFull) => forwarder.count_drop(send.face, DropReason::QueueFull),
            Err(Refused::CannotFragment) => {
                forwarder.count_drop(send.face, DropReason::CannotFragment);
            }
        }
        true
    }

    /// Writes the face's queue at the end of the turn.
    pub(crate) fn write_later(&mut self, face: FaceId) {
        self.dirty.push(face);
    }

    /// Returns the faces whose queues have grown. Give the buffer back by [`Links::give_back`].
    pub(crate) fn take_dirty(&mut self) -> Vec<FaceId> {
        std::mem::take(&mut self.dirty)
    }

    /// Takes the buffer of [`Links::take_dirty`] back. Returns false if other queues have grown
    /// since.
    pub(crate) fn give_back(&mut self, buffer: Vec<FaceId>) -> bool {
        let is_idle = self.dirty.is_empty();
        if is_idle {
            self.dirty = buffer;
        }
        is_idle
    }

    /// Writes a face's queue as far as its socket accepts it.
    ///
    /// # Errors
    /// The peer is gone.
    pub(crate) fn write(
        &mut self,
        face: FaceId,
        forwarder: &mut Forwarder,
        udp: Option<&UdpListener>,
    ) -> io::Result<()> {
        let Some(link) = self.links.get_mut(&face) else {
            return Ok(());
        };
        let lost = link.flush(udp, &mut self.spare)?;
        for _ in 0..lost {
            forwarder.count_drop(face, DropReason::QueueFull);
        }
        if link.is_blocked() && link.connection.source().is_none() {
            self.blocked.push(face);
        }
        Ok(())
    }

    /// Writes the face's queue again: its socket can be written.
    pub(crate) fn unblock(&mut self, face: FaceId) {
        if let Some(link) = self.links.get_mut(&face) {
            link.unblock();
            self.dirty.push(face);
        }
    }

    /// Writes the queues again that waited for a shared socket.
    pub(crate) fn unblock_shared(&mut self) {
        for face in std::mem::take(&mut self.blocked) {
            self.unblock(face);
        }
    }

    // ---- Reliable links ----

    /// Keeps the time of a face from now on, if a frame or an Ack waits.
    pub(crate) fn watch_reliable(&mut self, face: FaceId) {
        if self.frames(face).is_some_and(Frames::begins_to_wait) {
            self.reliable.push(face);
        }
    }

    /// Returns true if frames or Acks wait.
    pub(crate) fn has_reliable(&self) -> bool {
        !self.reliable.is_empty()
    }

    /// Returns the time at which [`Links::keep_reliable`] has to be called next.
    pub(crate) fn next_reliable(&mut self) -> Option<Time> {
        let Links {
            links, reliable, ..
        } = self;
        let frames = reliable
            .iter()
            .filter_map(|face| links.get_mut(face)?.connection.frames()?.next_timeout());
        frames.min()
    }

    /// Sends lost frames again, and Acks that found no frame to go in.
    pub(crate) fn keep_reliable(&mut self, now: Time, forwarder: &mut Forwarder) {
        let Links {
            links,
            reliable,
            dirty,
            ..
        } = self;
        reliable.retain(|face| {
            let Some(frames) = links
                .get_mut(face)
                .and_then(|link| link.connection.frames())
            else {
                return false;
            };
            if frames.next_timeout().is_some_and(|at| at <= now) {
                let given_up = frames.on_timeout(now);
                for _ in 0..given_up {
                    forwarder.count_drop(*face, DropReason::LinkLoss);
                }
                dirty.push(*face);
            }
            frames.still_waits()
        });
    }

    // ---- Backpressure ----

    /// Returns the length in bytes from which on a face's queue is long.
    fn long_queue(&self) -> usize {
        self.longest_queues().any / limits::BACKPRESSURE_PART
    }

    /// Returns true if a queue is so short that its face may be read again.
    fn is_short(&self, link: &Link) -> bool {
        link.queued() <= self.long_queue() / 2
    }

    /// Returns true if a face must not be read now, because its queue is long.
    pub(crate) fn is_to_pause(&self, face: FaceId, forwarder: &Forwarder) -> bool {
        let Some(link) = self.get(face) else {
            return false;
        };
        link.queued() > self.long_queue()
            && self.held_bytes < limits::HELD_INPUT_BYTES
            && is_application(forwarder, face, &link.connection)
    }

    /// Returns true if some faces are not read.
    pub(crate) fn has_paused(&self) -> bool {
        !self.paused.is_empty()
    }

    /// Returns true if the face is not read.
    pub(crate) fn is_paused(&self, face: FaceId) -> bool {
        self.get(face).is_some_and(|link| link.pause.is_some())
    }

    /// Returns true if the face is not read, and its queue has become short.
    pub(crate) fn is_to_resume(&self, face: FaceId) -> bool {
        self.get(face)
            .is_some_and(|link| link.pause.is_some() && self.is_short(link))
    }

    /// Begins the pause of a face, and keeps the frames that it has sent.
    pub(crate) fn pause<'a>(
        &mut self,
        now: Time,
        face: FaceId,
        rest: impl Iterator<Item = &'a mut [u8]>,
    ) {
        let Some(link) = self.links.get_mut(&face) else {
            debug_assert!(false, "a face without a link has a long queue");
            return;
        };
        debug_assert!(link.pause.is_none(), "a face that is paused was read");
        let mut frames = Vec::new();
        for frame in rest {
            frames.extend_from_slice(frame);
        }
        self.held_bytes += frames.len();
        link.pause = Some(Pause {
            frames,
            since: now,
            taken: link.taken(),
        });
        link.is_backlogged = true;
        self.paused.push(face);
    }

    /// Ends the pause of a face and returns the frames that waited.
    pub(crate) fn resume(&mut self, face: FaceId) -> Vec<u8> {
        self.paused.retain(|other| *other != face);
        let pause = self.get_mut(face).and_then(|link| link.pause.take());
        let frames = pause.map_or_else(Vec::new, |pause| pause.frames);
        self.held_bytes -= frames.len();
        frames
    }

    /// Returns the paused faces that have taken nothing for a long time.
    pub(crate) fn stalled(&mut self, now: Time) -> Vec<FaceId> {
        let mut stalled = Vec::new();
        let Links { links, paused, .. } = self;
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
        stalled
    }

    /// Records whether Interests of the face wait because of its queue.
    pub(crate) fn set_backlogged(&mut self, face: FaceId, is_backlogged: bool) {
        if let Some(link) = self.links.get_mut(&face) {
            link.is_backlogged = is_backlogged;
        }
    }
}

/// Returns true for a face that an application on this machine has opened.
fn is_application(forwarder: &Forwarder, face: FaceId, connection: &Connection) -> bool {
    matches!(connection, Connection::Stream(_))
        && forwarder.face(face).is_some_and(|config| {
            config.scope == Scope::Local && config.persistency == Persistency::OnDemand
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ndn::transport::stream::{Socket, StreamConnection};
    use crate::ndn::transport::unix_socket::UnixSocket;
    use mio::net::UnixStream;

    const FACE: FaceId = FaceId(256);

    /// A table with the link of one application, and the other end of its socket.
    fn one_link() -> (Links, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let socket = Socket::Unix(UnixSocket::new(ours));
        let connection = Connection::Stream(StreamConnection::new(socket, 8800));
        let mut links = Links::new(1);
        links.insert(FACE, Link::new(connection));
        (links, theirs)
    }

    #[test]
    fn what_a_paused_face_has_sent_is_lost_or_stays_in_memory_after_its_end() {
        let (mut links, _theirs) = one_link();
        let (mut first, mut second) = ([5, 1, 7], [6, 0]);
        links.pause(
            Time::ZERO,
            FACE,
            [&mut first[..], &mut second[..]].into_iter(),
        );
        assert!(links.is_paused(FACE) && links.held_bytes == 5);
        assert!(links.is_to_resume(FACE), "its queue is empty");
        assert_eq!(links.resume(FACE), [5, 1, 7, 6, 0]);
        assert!(!links.is_paused(FACE) && !links.has_paused() && links.held_bytes == 0);
        links.pause(Time::ZERO, FACE, std::iter::once(&mut first[..]));
        assert!(links.remove(FACE).is_some() && links.held_bytes == 0);
        assert_eq!(links.stalled(Time::MAX), []);
        assert!(!links.has_paused(), "a face that is gone is not watched");
    }

    #[test]
    fn a_face_that_has_just_been_paused_counts_as_stalled() {
        let (mut links, _theirs) = one_link();
        links.pause(Time::ZERO, FACE, std::iter::empty());
        let stall = Time::ZERO + limits::BACKPRESSURE_STALL;
        assert_eq!(links.stalled(Time::ZERO), []);
        assert_eq!(links.stalled(stall), [FACE]);
        assert!(links.has_paused(), "it is read again by the event loop");
    }
}
