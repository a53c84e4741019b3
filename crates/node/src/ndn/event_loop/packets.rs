//! Packets in, packets out: passes the input of readable sockets through the forwarder into the
//! send queues, which are written once per turn.

use super::EventLoop;
use crate::limits;
use crate::ndn::send::backpressure::whole_frames;
use crate::ndn::shards::batch::{Batch, Outgoing};
use crate::ndn::tokens::{UDP, UDP_OUTGOING, token};
use crate::ndn::transport::reading::{Framed, Reading};
use crate::ndn::transport::udp::datagram::{Left, Via};
use larder_forwarder::{Body, Detail, DropReason, Dropped, FaceId, Received, Send};
use larder_units::Time;

/// A number that no face has.
pub(super) const NOBODY: FaceId = FaceId(0);

impl EventLoop {
    /// Reads once. The rest waits for the next turn, so that every face gets its turn.
    pub(super) fn read_stream(&mut self, now: Time, face: FaceId) {
        if self.is_paused(now, face) {
            return;
        }
        let Some(link) = self.links.get_mut(face) else {
            return;
        };
        let mut buffer = std::mem::take(&mut self.scratch.buffer);
        let mut frames = std::mem::take(&mut self.scratch.frames);
        let before = link.connection.partial_bytes();
        let reading = link.connection.read(now, &mut buffer, &mut frames);
        self.polling.on_packets(frames.len());
        let verdict = self
            .places
            .partial
            .connection_changed(before, link.connection.partial_bytes());
        if let Some(activity) = &link.activity
            && frames
                .iter()
                .any(|framed| matches!(framed, Framed::Packet(_)))
        {
            activity.packet_at(now);
        }
        if link.queued() > 0 {
            // A WebSocket may have an answer of its own to write.
            self.links.write_later(face);
        }
        let (mut rest, mut at) = (&mut buffer[..], 0);
        let packets = frames.iter().filter_map(|framed| {
            let Framed::Packet(range) = framed else {
                return None;
            };
            let (_, from_here) = std::mem::take(&mut rest).split_at_mut(range.start - at);
            let (packet, behind) = from_here.split_at_mut(range.len());
            (rest, at) = (behind, range.end);
            Some(packet)
        });
        self.handle_with_backpressure(now, face, packets);
        for framed in frames.drain(..) {
            match framed {
                Framed::Packet(_) => {}
                Framed::Oversized(bytes) => self.oversized(face, bytes),
                Framed::Text => self.forwarder.count_drop(face, DropReason::Malformed),
                Framed::SharedMemory(step) => self.on_shared_memory(face, step),
            }
        }
        self.scratch.buffer = buffer;
        self.scratch.frames = frames;
        self.obey_budget(verdict);
        match reading {
            Reading::Frames { more } => {
                self.outgoing.heard(face);
                if more {
                    self.ready.push(token(face));
                }
            }
            Reading::Drained => {}
            Reading::Closed(why) => self.disconnected(now, face, why),
            Reading::NotNdn(why) => self.refuse_stream(now, face, why),
            Reading::Foreign(origin) => self.refuse_origin(face, &origin),
        }
    }

    /// Closes a connection that carries something else than NDN.
    fn refuse_stream(&mut self, now: Time, face: FaceId, why: String) {
        self.forwarder.count_drop(face, DropReason::NotNdn);
        self.disconnected(now, face, Some(why));
    }

    /// Closes the connection of a web page that is not allowed.
    fn refuse_origin(&mut self, face: FaceId, origin: &str) {
        self.forwarder.count_drop(face, DropReason::ForeignOrigin);
        if self.may_warn() {
            tracing::warn!(
                origin,
                "a web page was refused; to let it use this node, add its origin to [ndn] websocket_origins"
            );
        }
        self.close(
            face,
            Some("its web page is not in [ndn] websocket_origins".to_owned()),
        );
    }

    pub(super) fn read_udp(&mut self, now: Time, via: Via) {
        let token = if via == Via::Listening {
            UDP
        } else {
            UDP_OUTGOING
        };
        let Some(udp) = &mut self.listeners.udp else {
            return;
        };
        let mut batch = std::mem::take(&mut self.scratch.datagrams);
        let received = udp.receive(now, via, &mut batch);
        for (origin, datagrams) in batch.messages() {
            self.take_datagrams(now, via, &origin, datagrams);
        }
        self.scratch.datagrams = batch;
        match received {
            Ok(Left::Perhaps) => self.ready.push(token),
            Ok(Left::Nothing) => {}
            Err(error) => {
                // Probably an ICMP error of some peer. The other peers continue.
                tracing::debug!(%error, "UDP receive");
                self.ready.push(token);
            }
        }
    }

    /// Hands frames of a face to the forwarder. Frames that come while the face's queue is long
    /// wait.
    fn handle_with_backpressure<'a>(
        &mut self,
        now: Time,
        face: FaceId,
        frames: impl Iterator<Item = &'a mut [u8]>,
    ) {
        let mut frames = frames.peekable();
        while frames.peek().is_some() {
            if self.links.is_to_pause(face, &self.forwarder) {
                self.links.pause(now, face, frames);
                return self.end_polling(face);
            }
            self.handle(now, face, frames.by_ref().take(limits::FRAMES_AT_ONCE));
        }
    }

    /// Returns true while the face is not read. If its queue has become short, handles the frames
    /// that waited.
    fn is_paused(&mut self, now: Time, face: FaceId) -> bool {
        if !self.links.has_paused() {
            debug_assert!(!self.links.is_paused(face), "a pause is not in the list");
            return false;
        }
        if !self.links.is_to_resume(face) {
            return self.links.is_paused(face);
        }
        let mut frames = self.links.resume(face);
        self.handle_with_backpressure(now, face, whole_frames(&mut frames));
        let is_paused = self.links.is_paused(face);
        self.links.set_backlogged(face, is_paused);
        is_paused
    }

    /// Reads faces again that have taken nothing for a long time.
    pub(super) fn watch_paused(&mut self, now: Time) {
        for face in self.links.stalled(now) {
            let mut frames = self.links.resume(face);
            self.handle(now, face, whole_frames(&mut frames));
            self.links.set_backlogged(face, false);
            self.ready.push(token(face));
        }
    }

    /// Passes frames of a face to the forwarder, or to the threads of other shards.
    pub(super) fn handle<'a>(
        &mut self,
        now: Time,
        face: FaceId,
        frames: impl Iterator<Item = &'a mut [u8]>,
    ) {
        self.forward(now, true, frames.map(|frame| (face, frame)));
    }

    /// Passes frames that another thread has read to the forwarder.
    pub(super) fn handle_batch(&mut self, now: Time, mut batch: Batch<FaceId>) {
        self.shard_channel.own().taken(batch.weight());
        self.forward(
            now,
            false,
            batch.packets().map(|(face, frame)| (*face, frame)),
        );
        self.shard_channel.reuse(batch);
    }

    /// Passes many frames at a time, so that the forwarder can prefetch its tables. Frames from
    /// outside may belong to another shard.
    fn forward<'a>(
        &mut self,
        now: Time,
        from_outside: bool,
        mut frames: impl Iterator<Item = (FaceId, &'a mut [u8])>,
    ) {
        loop {
            let mut count = 0;
            let mut batch: [Received<'_>; limits::FRAMES_AT_ONCE] =
                std::array::from_fn(|_| Received {
                    face: NOBODY,
                    frame: &mut [],
                });
            let mut here =
                |frame: &(FaceId, &mut [u8])| self.shard_channel.is_for_here(frame.0, frame.1);
            while count < batch.len() {
                let next = if from_outside {
                    frames.find(&mut here)
                } else {
                    frames.next()
                };
                let Some((face, frame)) = next else { break };
                batch[count] = Received { face, frame };
                count += 1;
            }
            if count == 0 {
                return;
            }
            let batch = &mut batch[..count];
            self.forwarder
                .on_packets(now, batch, &mut self.scratch.outbox);
            for index in 0..self.scratch.outbox.drops().len() {
                let (frame, dropped) = self.scratch.outbox.drops()[index];
                self.log_drop(
                    batch.get(frame).map_or(NOBODY, |received| received.face),
                    &dropped,
                );
            }
            let reassembled = self.scratch.outbox.take_reassembled();
            self.post(now, batch);
            let verdict = self
                .places
                .partial
                .fragments_are(self.forwarder.partial_bytes());
            self.obey_budget(verdict);
            // Reassembled packets are whole: none of them makes others.
            for (face, mut frame) in reassembled {
                self.handle(now, face, std::iter::once(&mut frame[..]));
            }
            if count < limits::FRAMES_AT_ONCE {
                return;
            }
        }
    }

    fn log_drop(&mut self, face: FaceId, dropped: &Dropped) {
        match dropped.detail {
            Detail::Bytes { found, .. } => self.log_oversized(face, found as u64),
            Detail::Decode(error) if self.may_warn() => {
                tracing::warn!(face = face.0, %error, "a packet cannot be read; it was dropped, the face stays");
            }
            _ if dropped.reason == DropReason::ParametersDigest && self.may_warn() => {
                tracing::warn!(
                    face = face.0,
                    "an Interest was dropped, because its ApplicationParameters do not have the digest in its name: correct the program that sends it"
                )
            }
            _ => tracing::debug!(face = face.0, "packet dropped: {dropped}"),
        }
    }

    fn oversized(&mut self, face: FaceId, bytes: u64) {
        self.forwarder.count_drop(face, DropReason::Oversized);
        self.log_oversized(face, bytes);
    }

    fn log_oversized(&mut self, face: FaceId, bytes: u64) {
        if self.may_warn() {
            tracing::warn!(
                face = face.0,
                bytes,
                limit = self.bounds.largest_packet,
                "a packet is larger than the limit; it was dropped, the face stays: send smaller segments"
            );
        }
    }

    /// Returns true if a warning about a peer may be logged now. The counters include the others.
    pub(super) fn may_warn(&mut self) -> bool {
        let now = self.now();
        let may = now >= self.next_warning;
        if may {
            self.next_warning = now + limits::WARNINGS;
        }
        may
    }

    /// Queues the forwarder's sends. `batch` is the input that they may refer to.
    pub(super) fn post(&mut self, now: Time, batch: &[Received<'_>]) {
        self.scratch
            .requests
            .extend(self.scratch.outbox.drain_requests());
        self.tell_others();
        let most = self.links.longest_queues();
        let mut sends = std::mem::take(&mut self.scratch.sends);
        self.scratch.outbox.swap(&mut sends);
        for mut send in sends.drain(..) {
            let frame = batch
                .get(send.index)
                .map_or(&[][..], |received| &*received.frame);
            let input = frame
                .get(self.scratch.outbox.input_of(&send))
                .unwrap_or_default();
            let udp = self.listeners.udp.as_ref();
            let forwarder = &mut self.forwarder;
            if !self
                .links
                .queue(now, most, &mut send, input, forwarder, udp)
            {
                self.shard_channel.send_away(&send, input);
            }
        }
        self.scratch.sends = sends;
    }

    /// Queues the sends of another thread's forwarder.
    pub(super) fn send_batch(&mut self, now: Time, mut batch: Batch<Outgoing>) {
        self.shard_channel.own().taken(batch.weight());
        let most = self.links.longest_queues();
        for ((face, header), packet) in batch.packets() {
            let mut send = Send {
                face: *face,
                header: *header,
                body: Body::Input,
                index: 0,
            };
            let udp = self.listeners.udp.as_ref();
            let forwarder = &mut self.forwarder;
            self.links
                .queue(now, most, &mut send, packet, forwarder, udp);
        }
        self.shard_channel.reuse(batch);
    }

    /// Writes the queues. The batches for other threads leave first, because those threads work
    /// while this one writes.
    pub(super) fn flush(&mut self) {
        self.flush_shard_channel();
        // A face that ends may cause packets for others: an answer to a command, a notification.
        loop {
            let mut dirty = self.links.take_dirty();
            for face in dirty.drain(..) {
                let udp = self.listeners.udp.as_ref();
                match self.links.write(face, &mut self.forwarder, udp) {
                    Ok(()) if self.links.is_to_resume(face) => self.ready.push(token(face)),
                    Ok(()) => {}
                    Err(error) => self.disconnected(self.now(), face, Some(error.to_string())),
                }
            }
            if self.links.give_back(dirty) {
                break;
            }
            self.flush_shard_channel();
        }
    }
}
