//! A thread among the others: what the first tells them of faces and routes, and which of them has
//! a face's socket.

use super::Command;
use super::event_loop::{EventLoop, token};
use super::link::{Connection, Link};
use super::stream::{Socket, StreamConnection};
use super::stream_places::Activity;
use larder_forwarder::{Change, FaceId, Send};
use larder_units::Time;
use mio::Interest;

impl EventLoop {
    /// Tells the other threads what has changed here that they must know before the next packet.
    pub(super) fn tell_others(&mut self) {
        if self.shard_channel.shard.is_only() {
            return;
        }
        self.shard_channel.own().publish(self.forwarder.pending_prefixes());
        if self.forwarder.has_changes() {
            let changes: Vec<Change> = self.forwarder.drain_changes().collect();
            for shard in self.shard_channel.others() {
                self.shard_channel.port(shard).send(Command::Changes(changes.clone()));
            }
        }
    }

    /// What the first thread tells.
    pub(super) fn change(&mut self, now: Time, change: Change) {
        if let Change::FaceGone(face) = &change {
            self.remote_shard_faces.remove(face);
            self.drop_link(*face);
        }
        self.forwarder.apply(now, change);
    }

    /// The thread that the next accepted connection is for: each in turn.
    pub(super) fn next_home(&mut self) -> usize {
        self.last_home = (self.last_home + 1) % self.shard_channel.shard.of();
        self.last_home
    }

    /// Gives a new face's socket to another thread. Who does not get it must know where it is
    /// before it sends, so that one is told last.
    pub(super) fn give_away(&mut self, face: FaceId, socket: Socket, activity: Option<Activity>, shard: usize) {
        self.remote_shard_faces.insert(face, shard);
        for other in self.shard_channel.others().filter(|other| *other != shard) {
            self.shard_channel.port(other).send(Command::FaceAt(face, shard));
        }
        self.shard_channel.port(shard).send(Command::Adopt(face, Box::new(socket), activity));
    }

    /// A face's socket is this thread's from now on.
    pub(super) fn adopt(&mut self, face: FaceId, mut socket: Socket, activity: Option<Activity>) {
        let both = Interest::READABLE | Interest::WRITABLE;
        if let Err(error) = self.poll.registry().register(socket.source(), token(face), both) {
            tracing::warn!(face = face.0, %error, "cannot watch a connection");
            return self.shard_channel.port(0).send(Command::Closed(face, Some(error.to_string())));
        }
        let stream = StreamConnection::new(socket, self.largest_frame);
        self.links.insert(face, Link::new(Connection::Stream(stream)).watched_by(activity));
        // What came with the connection may have raised no event of its own yet.
        self.ready.push(token(face));
    }

    /// Hands a packet to the thread of its face; a face that is nowhere is gone.
    pub(super) fn send_away(&mut self, send: &Send, input: &[u8]) {
        let first = (self.shard_channel.shard.number() != 0).then_some(0);
        if let Some(shard) = self.remote_shard_faces.get(&send.face).copied().or(first) {
            self.shard_channel.send(shard, send.face, send.header, send.packet(input));
        }
    }

    /// Lets what is for other threads leave.
    pub(super) fn flush_crossing(&mut self) {
        self.tell_others();
        self.shard_channel.flush();
        let (dropped, reason) = self.shard_channel.take_dropped();
        dropped.into_iter().for_each(|face| self.forwarder.count_drop(face, reason));
    }
}
