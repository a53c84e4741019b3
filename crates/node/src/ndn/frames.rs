//! What a link of frames has queued: packets cut to its MTU, with link reliability where the face
//! wants it.

use super::link::{Refused, SpareBuffers};
use crate::limits;
use larder_forwarder::Send;
use larder_packet::{Fragmenter, Reliability};
use larder_units::Time;

/// The frames that wait for one face's link.
pub(super) struct Frames {
    mtu: usize,
    /// What the link itself can carry.
    most: usize,
    /// Bytes of the largest packet.
    largest: usize,
    fragmenter: Fragmenter,
    reliability: Option<Box<Reliability>>,
    /// The event loop keeps its time.
    is_watched: bool,
    /// The frames back to back, and the length of each.
    pub(super) bytes: Vec<u8>,
    pub(super) lengths: Vec<usize>,
}

impl Frames {
    /// For frames of at most `mtu` bytes, which will never be more than `most`, of packets of up to
    /// `largest`.
    pub(super) fn new(mtu: usize, most: usize, largest: usize) -> Self {
        Frames {
            mtu: mtu.min(most),
            most,
            largest,
            fragmenter: Fragmenter::new(first_sequence()).for_packets_of(largest),
            reliability: None,
            is_watched: false,
            bytes: Vec::new(),
            lengths: Vec::new(),
        }
    }

    pub(super) fn mtu(&self) -> usize {
        self.mtu
    }

    pub(super) fn set_mtu(&mut self, mtu: usize) {
        self.mtu = mtu.min(self.most);
    }

    pub(super) fn is_reliable(&self) -> bool {
        self.reliability.is_some()
    }

    /// With reliability, or without.
    pub(super) fn set_reliable(&mut self, reliable: bool) {
        if reliable != self.is_reliable() {
            self.reliability =
                reliable.then(|| Box::new(Reliability::new(first_sequence()).for_packets_of(self.largest)));
        }
    }

    /// With reliability from now on, for a neighbour who offers it; false where it was so before.
    pub(super) fn accept_reliability(&mut self) -> bool {
        let is_new = !self.is_reliable();
        if is_new {
            self.reliability =
                Some(Box::new(Reliability::with_stranger(first_sequence()).for_packets_of(self.largest)));
        }
        is_new
    }

    /// What waits for Acks is as much memory as what waits for the socket: at most so many bytes.
    pub(super) fn hold_at_most(&mut self, bytes: usize) {
        if let Some(reliability) = &mut self.reliability {
            reliability.hold_at_most(bytes);
        }
    }

    pub(super) fn queue(
        &mut self,
        now: Time,
        send: &Send,
        input: &[u8],
        spare: &mut SpareBuffers,
    ) -> Result<(), Refused> {
        spare.provide(&mut self.bytes);
        let Frames { mtu, fragmenter, reliability, bytes, lengths, .. } = self;
        let frame = |frame: &[u8]| {
            bytes.extend_from_slice(frame);
            lengths.push(frame.len());
        };
        let cut = match reliability {
            None => send.write_frames(input, *mtu, fragmenter, frame),
            Some(reliability) => reliability.send(now, &send.header, send.packet(input), *mtu, frame),
        };
        cut.map(drop).map_err(|_| Refused::CannotFragment)
    }

    /// Takes in what a frame that was received says of the link. False where it is to go no
    /// further: it came before.
    pub(super) fn receive(&mut self, now: Time, frame: &[u8]) -> bool {
        self.reliability.as_mut().is_none_or(|reliability| reliability.receive(now, frame))
    }

    /// When [`Frames::on_timeout`] must be called next.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.reliability.as_ref()?.next_timeout()
    }

    /// Whether its time is to be kept from now on: something is not acknowledged, here or there.
    pub(super) fn begins_to_wait(&mut self) -> bool {
        !self.is_watched && self.still_waits()
    }

    /// Whether its time is to be kept still.
    pub(super) fn still_waits(&mut self) -> bool {
        self.is_watched = self.next_timeout().is_some();
        self.is_watched
    }

    /// Queues what is to be sent again, and Acks; returns how many packets were given up.
    pub(super) fn on_timeout(&mut self, now: Time) -> u64 {
        let Frames { mtu, reliability: Some(reliability), bytes, lengths, .. } = self else { return 0 };
        reliability.on_timeout(now, *mtu, |frame| {
            // A socket that takes nothing: what does not fit is lost, as on the link, and Acks do
            // not pile up.
            if bytes.len() < limits::SEND_QUEUE_BYTES {
                bytes.extend_from_slice(frame);
                lengths.push(frame.len());
            }
        })
    }

    /// Sends what is queued one frame a call, as far as the link takes it; returns how many frames
    /// were lost on the way.
    pub(super) fn flush_each(
        &mut self,
        spare: &mut SpareBuffers,
        mut send: impl FnMut(&[u8]) -> std::io::Result<usize>,
    ) -> usize {
        let (mut lost, mut sent, mut from) = (0, 0, 0);
        for length in &self.lengths {
            match send(&self.bytes[from..from + length]) {
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(_) => lost += 1,
            }
            (sent, from) = (sent + 1, from + length);
        }
        self.sent(sent, from, spare);
        lost
    }

    /// So many frames, of so many bytes together, have left.
    pub(super) fn sent(&mut self, frames: usize, bytes: usize, spare: &mut SpareBuffers) {
        self.bytes.drain(..bytes);
        self.lengths.drain(..frames);
        if self.bytes.is_empty() {
            spare.take_back(&mut self.bytes);
        }
    }
}

/// NDNLPv2 asks for a random one.
fn first_sequence() -> u64 {
    let [word] = crate::entropy::words();
    word
}
