//! One thread among the others: changes of faces and routes that the first one sends, and the
//! thread that has a face's socket.

use super::EventLoop;
use crate::ndn::guard::stream_places::Activity;
use crate::ndn::send::link::{Connection, Link};
use crate::ndn::shards::command::Command;
use crate::ndn::tokens::token;
use crate::ndn::transport::stream::{Socket, StreamConnection};
use larder_forwarder::{Change, FaceId};
use larder_units::Time;
use mio::Interest;

impl EventLoop {
    /// Sends the other threads the changes that they need before the next packet.
    pub(super) fn tell_others(&mut self) {
        if self.shard_channel.shard.is_only() {
            return;
        }
        self.shard_channel
            .own()
            .publish(self.forwarder.pending_prefixes());
        if self.forwarder.has_changes() {
            let changes: Vec<Change> = self.forwarder.drain_changes().collect();
            for shard in self.shard_channel.others() {
                self.shard_channel
                    .port(shard)
                    .send(Command::Changes(changes.clone()));
            }
        }
    }

    /// Applies a change from the first thread.
    pub(super) fn change(&mut self, now: Time, change: Change) {
        if let Change::FaceGone(face) = &change {
            self.shard_channel.forget_face(*face);
            self.drop_link(*face);
        }
        let changed = if let Change::Face(face, _) = &change {
            Some(*face)
        } else {
            None
        };
        self.forwarder.apply(now, change);
        if let Some(face) = changed {
            self.update_link(face);
        }
    }

    /// Takes over the socket of a face.
    pub(super) fn adopt(&mut self, face: FaceId, mut socket: Socket, activity: Option<Activity>) {
        let both = Interest::READABLE | Interest::WRITABLE;
        if let Err(error) = self
            .poll
            .registry()
            .register(socket.source(), token(face), both)
        {
            tracing::warn!(face = face.0, %error, "cannot watch a connection");
            return self
                .shard_channel
                .port(0)
                .send(Command::Closed(face, Some(error.to_string())));
        }
        let stream = StreamConnection::new(socket, self.bounds.largest_frame);
        self.links.insert(
            face,
            Link::new(Connection::Stream(stream)).watched_by(activity),
        );
        // Bytes that came with the connection may have raised no event of their own.
        self.ready.push(token(face));
    }

    /// Sends the batches for other threads.
    pub(super) fn flush_shard_channel(&mut self) {
        self.tell_others();
        self.shard_channel.flush();
        let (dropped, reason) = self.shard_channel.take_dropped();
        for face in dropped {
            self.forwarder.count_drop(face, reason);
        }
    }
}
