//! Channels between the threads of several shards (`larder_forwarder::Shard`). Each thread has a
//! forwarder and some of the faces.
//!
//! A frame for another shard goes through the channel. A send to a face of another thread goes
//! there too, and is queued, marked and written there. Both are copied into batches, which leave
//! after each batch of frames. A thread takes them out of one queue, which also has its commands:
//! so a change of faces or routes that was sent before a packet is known before the packet. Packets
//! for a thread that is too slow are dropped and counted
//! ([`larder_forwarder::DropReason::ShardFull`]). Commands are never dropped, and no thread waits
//! for another.

use crate::limits::{SHARD_CHANNEL_BYTES, STRANGERS_BYTES};
use crate::ndn::guard::partial_input::{Budget, PartialInput};
use crate::ndn::guard::stream_places::Activity;
use crate::ndn::shards::batch::{Batch, Outgoing};
use crate::ndn::shards::command::Command;
use crate::ndn::tokens::WAKER;
use crate::ndn::transport::spare_buffers::SpareBuffers;
use crate::ndn::transport::stream::Socket;
use foldhash::fast::FixedState;
use larder_forwarder::{Dispatch, DropReason, FaceId, Send, Shard};
use larder_packet::LpHeader;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Instant;

/// The sending end of a shard's queue.
pub(crate) struct Port {
    commands: Sender<Command>,
    waker: mio::Waker,
    /// True if the thread has been woken and has not looked yet.
    woken: AtomicBool,
    /// Bytes of packets that wait for the thread.
    waiting: AtomicUsize,
    /// Bytes of datagrams of strangers that wait for the thread.
    strangers: AtomicUsize,
    /// The `pending_prefixes` of its forwarder.
    pending: AtomicU64,
}

impl Port {
    /// Creates a queue to the thread that `waker` wakes; returns both ends.
    pub(crate) fn new(waker: mio::Waker) -> (Port, Receiver<Command>) {
        let (commands, receiver) = mpsc::channel();
        let (woken, pending) = (AtomicBool::new(false), AtomicU64::new(0));
        let (waiting, strangers) = (AtomicUsize::new(0), AtomicUsize::new(0));
        (
            Port {
                commands,
                waker,
                woken,
                waiting,
                strangers,
                pending,
            },
            receiver,
        )
    }

    pub(crate) fn send(&self, command: Command) {
        // Both fail only if the thread has ended; then there is no receiver.
        if self.commands.send(command).is_ok() {
            self.wake();
        }
    }

    /// Wakes the thread, so that it reads shared state.
    pub(crate) fn wake(&self) {
        if !self.woken.swap(true, Ordering::AcqRel) {
            let _ = self.waker.wake();
        }
    }

    /// The thread calls this before it empties its queue. A later command wakes it again.
    pub(crate) fn looks(&self) {
        self.woken.swap(false, Ordering::AcqRel);
    }

    /// Records that the thread has taken a batch out.
    pub(crate) fn taken(&self, weight: usize) {
        self.waiting.fetch_sub(weight, Ordering::Relaxed);
    }

    /// Publishes the pending prefixes, before the Interests leave that the Data will answer.
    pub(crate) fn publish(&self, pending: u64) {
        // Few Interests have CanBePrefix, so the value is read more often than it changes.
        if self.pending.load(Ordering::Relaxed) != pending {
            self.pending.store(pending, Ordering::Release);
        }
    }

    /// Reserves room for another batch. Returns false if there is none.
    fn reserve(&self, weight: usize) -> bool {
        reserve(&self.waiting, weight, SHARD_CHANNEL_BYTES)
    }

    /// Reserves room for datagrams of a stranger. Returns false if there is none.
    pub(crate) fn reserve_stranger(&self, weight: usize) -> bool {
        reserve(&self.strangers, weight, STRANGERS_BYTES)
    }

    /// Records that the thread has taken datagrams of a stranger out.
    pub(crate) fn stranger_taken(&self, weight: usize) {
        self.strangers.fetch_sub(weight, Ordering::Relaxed);
    }
}

/// Adds `weight` to a counter of at most `most`. Returns false if it does not fit.
fn reserve(counter: &AtomicUsize, weight: usize, most: usize) -> bool {
    let fits = counter.fetch_add(weight, Ordering::Relaxed) + weight <= most;
    if !fits {
        counter.fetch_sub(weight, Ordering::Relaxed);
    }
    fits
}

/// The resources of a shard's thread: its poll, its queue, and the queues to all threads.
pub(crate) struct ShardContext {
    pub(crate) poll: mio::Poll,
    pub(crate) commands: Receiver<Command>,
    pub(crate) shard_channel: ShardChannel,
    pub(crate) partial: PartialInput,
    /// The start of the clock, which is the same for all threads.
    pub(crate) start: Instant,
}

/// Creates the contexts of so many shards, which share a budget of so many bytes for partial input,
/// and the queues to them.
pub(crate) fn shard_contexts(
    shards: usize,
    partial_input: usize,
) -> io::Result<(Arc<[Port]>, Vec<ShardContext>)> {
    let mut polls = Vec::new();
    let mut ports = Vec::new();
    for _ in Shard::all(shards) {
        let poll = mio::Poll::new()?;
        let (port, commands) = Port::new(mio::Waker::new(poll.registry(), WAKER)?);
        polls.push((poll, commands));
        ports.push(port);
    }
    let ports: Arc<[Port]> = ports.into();
    let dispatch = Dispatch::new(larder_client::entropy::words(), shards);
    let start = Instant::now();
    let budget = Arc::new(Budget::new(partial_input, shards));
    let shard_context = |(shard, (poll, commands))| {
        let shard_channel = ShardChannel::new(shard, ports.clone(), dispatch.clone());
        let partial = PartialInput::new(budget.clone(), shard.number());
        ShardContext {
            poll,
            commands,
            shard_channel,
            start,
            partial,
        }
    };
    let shard_contexts = Shard::all(shards).zip(polls).map(shard_context).collect();
    Ok((ports, shard_contexts))
}

/// A shard's packets for the other threads.
pub(crate) struct ShardChannel {
    pub(crate) shard: Shard,
    pub(crate) ports: Arc<[Port]>,
    dispatch: Dispatch,
    /// The thread number of each face of another thread. The first thread knows all of them; the
    /// others know those that do not belong to the first.
    faces: HashMap<FaceId, usize, FixedState>,
    /// The thread that got the last accepted connection.
    last_home: usize,
    /// Batches by shard.
    frames: Vec<Batch<FaceId>>,
    sends: Vec<Batch<Outgoing>>,
    /// Buffers of batches that came, for batches that leave: about as much passes in both
    /// directions.
    spare: SpareBuffers,
    /// The faces of dropped packets.
    dropped: Vec<FaceId>,
}

impl ShardChannel {
    pub(crate) fn new(shard: Shard, ports: Arc<[Port]>, dispatch: Dispatch) -> Self {
        let frames = ports.iter().map(|_| Batch::new()).collect();
        let sends = ports.iter().map(|_| Batch::new()).collect();
        ShardChannel {
            shard,
            ports,
            dispatch,
            faces: HashMap::default(),
            last_home: 0,
            frames,
            sends,
            spare: SpareBuffers::default(),
            dropped: Vec::new(),
        }
    }

    // ---- Faces of other threads ----

    /// Returns the thread that has the face's socket, if it is another one. A face that the first
    /// thread does not know is gone.
    pub(crate) fn thread_of(&self, face: FaceId) -> Option<usize> {
        let first = (self.shard.number() != 0).then_some(0);
        self.faces.get(&face).copied().or(first)
    }

    /// Returns the number of faces that are known to belong to other threads.
    pub(crate) fn remote_faces(&self) -> usize {
        self.faces.len()
    }

    /// Returns a face of another thread that fulfils a condition.
    pub(crate) fn find_face(&self, condition: impl Fn(FaceId) -> bool) -> Option<FaceId> {
        self.faces.keys().copied().find(|face| condition(*face))
    }

    /// Records that a face belongs to another thread.
    pub(crate) fn note_face(&mut self, face: FaceId, shard: usize) {
        self.faces.insert(face, shard);
    }

    /// Forgets a face. Returns false if it was not known to belong to another thread.
    pub(crate) fn forget_face(&mut self, face: FaceId) -> bool {
        self.faces.remove(&face).is_some()
    }

    /// Returns the thread for the next accepted connection: each in turn.
    pub(crate) fn next_home(&mut self) -> usize {
        self.last_home = (self.last_home + 1) % self.shard.of();
        self.last_home
    }

    /// Tells the others that a new face is at thread `shard`, which gets its socket afterwards.
    pub(crate) fn tell_place(&mut self, face: FaceId, shard: usize) {
        self.note_face(face, shard);
        for other in self.others().filter(|other| *other != shard) {
            self.port(other).send(Command::FaceAt(face, shard));
        }
    }

    /// Passes a new face's socket to another thread. The other threads learn its place first,
    /// because they must know it before they send.
    pub(crate) fn give_away(
        &mut self,
        face: FaceId,
        socket: Socket,
        activity: Option<Activity>,
        shard: usize,
    ) {
        self.tell_place(face, shard);
        self.port(shard)
            .send(Command::Adopt(face, Box::new(socket), activity));
    }

    /// Passes a packet to the thread of its face. A face without a thread is gone.
    pub(crate) fn send_away(&mut self, send: &Send, input: &[u8]) {
        if let Some(shard) = self.thread_of(send.face) {
            self.send(shard, send.face, send.header, send.packet(input));
        }
    }

    // ---- Packets ----

    /// Takes the buffers of a processed batch back.
    pub(crate) fn reuse<T>(&mut self, mut batch: Batch<T>) {
        self.spare.take_back(&mut batch.bytes);
    }

    /// Returns the thread's own port.
    pub(crate) fn own(&self) -> &Port {
        &self.ports[self.shard.number()]
    }

    pub(crate) fn port(&self, shard: usize) -> &Port {
        &self.ports[shard]
    }

    /// Returns the numbers of the other shards.
    pub(crate) fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let own = self.shard.number();
        (0..self.shard.of()).filter(move |shard| *shard != own)
    }

    /// Adds a frame to the batches of the shards that need it. Returns true if this shard is one of
    /// them.
    pub(crate) fn is_for_here(&mut self, face: FaceId, frame: &[u8]) -> bool {
        if self.shard.is_only() {
            return true;
        }
        let pending = |shard: usize| self.ports[shard].pending.load(Ordering::Acquire);
        let Some(homes) = self.dispatch.homes(frame, pending) else {
            return true;
        };
        let own = self.shard.number();
        for shard in homes.iter().filter(|shard| *shard != own) {
            self.frames[shard].push(face, frame, &mut self.spare);
            if self.frames[shard].is_worth_sending() {
                self.send_frames(shard);
            }
        }
        homes.contain(self.shard)
    }

    /// Adds a packet to the batch of the thread that has the face.
    fn send(&mut self, shard: usize, face: FaceId, header: LpHeader, packet: &[u8]) {
        self.sends[shard].push((face, header), packet, &mut self.spare);
        if self.sends[shard].is_worth_sending() {
            self.send_sends(shard);
        }
    }

    /// Sends all batches.
    pub(crate) fn flush(&mut self) {
        if self.shard.is_only() {
            return;
        }
        for shard in self.others() {
            if !self.frames[shard].items.is_empty() {
                self.send_frames(shard);
            }
            if !self.sends[shard].items.is_empty() {
                self.send_sends(shard);
            }
        }
    }

    fn send_frames(&mut self, shard: usize) {
        let batch = self.frames[shard].take();
        if self.ports[shard].reserve(batch.weight()) {
            self.ports[shard].send(Command::Frames(batch))
        } else {
            self.dropped
                .extend(batch.items.iter().map(|(face, _)| *face))
        }
    }

    fn send_sends(&mut self, shard: usize) {
        let batch = self.sends[shard].take();
        if self.ports[shard].reserve(batch.weight()) {
            self.ports[shard].send(Command::Sends(batch))
        } else {
            self.dropped
                .extend(batch.items.iter().map(|((face, _), _)| *face))
        }
    }

    /// Returns the faces whose packets were dropped since the last call, one entry per packet, and
    /// the reason.
    pub(crate) fn take_dropped(&mut self) -> (Vec<FaceId>, DropReason) {
        (std::mem::take(&mut self.dropped), DropReason::ShardFull)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_packet::{InterestBuilder, Name};

    /// Failure: a flood of strangers takes the room of packets between known faces, or has no
    /// bound.
    #[test]
    fn strangers_take_the_room_of_known_faces() {
        let (ports, _contexts) = shard_contexts(2, 0).unwrap();
        let port = &ports[1];
        let weight = 8_000 + crate::limits::STRANGER_BYTES;
        let strangers = (0..).take_while(|_| port.reserve_stranger(weight)).count();
        assert_eq!(strangers, STRANGERS_BYTES / weight);
        assert!(
            port.reserve(SHARD_CHANNEL_BYTES),
            "packets have their own room"
        );
        assert!(!port.reserve(1));
        for _ in 0..strangers {
            port.stranger_taken(weight);
        }
        assert!(port.reserve_stranger(STRANGERS_BYTES) && !port.reserve_stranger(1));
    }

    /// Failure: a slow thread takes unbounded memory, or blocks the threads that send to it.
    #[test]
    fn a_slow_shard_takes_memory_without_end() {
        let (mut shards, receivers): (Vec<ShardChannel>, Vec<_>) = shard_contexts(2, 0)
            .unwrap()
            .1
            .into_iter()
            .map(|shard_context| (shard_context.shard_channel, shard_context.commands))
            .unzip();
        let mut content = vec![7u8; 8000];
        let (mut elsewhere, mut dropped) = (0, 0);
        for number in 0..4000u32 {
            let name: Name = format!("/slow/{number}").parse().unwrap();
            content[..4].copy_from_slice(&number.to_be_bytes());
            let interest = InterestBuilder::new(name)
                .nonce(number)
                .application_parameters(&content)
                .build();
            elsewhere += usize::from(!shards[0].is_for_here(FaceId(256), &interest));
            if number % 10 == 0 {
                shards[0].flush();
                dropped += shards[0].take_dropped().0.len();
            }
        }
        shards[0].flush();
        dropped += shards[0].take_dropped().0.len();
        assert!(elsewhere > 1500 && dropped > 0, "{elsewhere}, {dropped}");
        let (mut waiting, mut bytes) = (0, 0);
        while let Ok(Command::Frames(mut batch)) = receivers[1].try_recv() {
            shards[1].own().taken(batch.weight());
            bytes += batch.weight();
            waiting += batch.packets().count();
        }
        assert_eq!(waiting + dropped, elsewhere, "each is there, or is counted");
        assert!(bytes <= SHARD_CHANNEL_BYTES);
        assert_eq!(
            shards[1].own().waiting.load(Ordering::Relaxed),
            0,
            "there is room again"
        );
    }
}
