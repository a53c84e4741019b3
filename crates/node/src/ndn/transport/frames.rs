//! The queue of a frame-based link: packets cut to its MTU, with link reliability if the face uses
//! it.

use crate::limits;
use crate::ndn::transport::spare_buffers::SpareBuffers;
use larder_forwarder::Send;
use larder_packet::{Fragmenter, Reliability};
use larder_units::Time;

/// The reason why a packet was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The reader is slower than the traffic to it.
    QueueFull,
    /// The packet cannot be cut to the link's frames.
    CannotFragment,
}

/// The frames that wait for one face's link.
pub(crate) struct Frames {
    mtu: usize,
    /// The largest frame that the link itself can carry.
    most: usize,
    /// Bytes of the largest packet.
    largest: usize,
    fragmenter: Fragmenter,
    reliability: Option<Box<Reliability>>,
    /// True while the event loop calls [`Frames::on_timeout`] for it.
    is_watched: bool,
    /// The frames back to back, and the length of each.
    pub(crate) bytes: Vec<u8>,
    pub(crate) lengths: Vec<usize>,
}

impl Frames {
    /// Creates a queue for frames of at most `mtu` bytes, which never exceed `most`, of packets of
    /// up to `largest` bytes.
    pub(crate) fn new(mtu: usize, most: usize, largest: usize) -> Self {
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

    pub(crate) fn mtu(&self) -> usize {
        self.mtu
    }

    pub(crate) fn set_mtu(&mut self, mtu: usize) {
        self.mtu = mtu.min(self.most);
    }

    pub(crate) fn is_reliable(&self) -> bool {
        self.reliability.is_some()
    }

    /// Switches reliability on or off.
    pub(crate) fn set_reliable(&mut self, reliable: bool) {
        if reliable != self.is_reliable() {
            self.reliability = reliable
                .then(|| Box::new(Reliability::new(first_sequence()).for_packets_of(self.largest)));
        }
    }

    /// Switches reliability on for a neighbour that offers it. Returns false if it was on.
    pub(crate) fn accept_reliability(&mut self) -> bool {
        let is_new = !self.is_reliable();
        if is_new {
            self.reliability = Some(Box::new(
                Reliability::with_stranger(first_sequence()).for_packets_of(self.largest),
            ));
        }
        is_new
    }

    /// Limits the frames that wait for Acks to so many bytes. They occupy memory like frames that
    /// wait for the socket.
    pub(crate) fn hold_at_most(&mut self, bytes: usize) {
        if let Some(reliability) = &mut self.reliability {
            reliability.hold_at_most(bytes);
        }
    }

    pub(crate) fn queue(
        &mut self,
        now: Time,
        send: &Send,
        input: &[u8],
        spare: &mut SpareBuffers,
    ) -> Result<(), Refused> {
        spare.provide(&mut self.bytes);
        let Frames {
            mtu,
            fragmenter,
            reliability,
            bytes,
            lengths,
            ..
        } = self;
        let frame = |frame: &[u8]| {
            bytes.extend_from_slice(frame);
            lengths.push(frame.len());
        };
        let cut = match reliability {
            None => send.write_frames(input, *mtu, fragmenter, frame),
            Some(reliability) => {
                reliability.send(now, &send.header, send.packet(input), *mtu, frame)
            }
        };
        cut.map(drop).map_err(|_| Refused::CannotFragment)
    }

    /// Processes the link header of a received frame. Returns false for a duplicate, which goes no
    /// further.
    pub(crate) fn receive(&mut self, now: Time, frame: &[u8]) -> bool {
        self.reliability
            .as_mut()
            .is_none_or(|reliability| reliability.receive(now, frame))
    }

    /// Returns the time at which [`Frames::on_timeout`] has to be called next.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.reliability.as_ref()?.next_timeout()
    }

    /// Returns true if the event loop has to begin to keep its time: an Ack is missing, here or
    /// there.
    pub(crate) fn begins_to_wait(&mut self) -> bool {
        !self.is_watched && self.still_waits()
    }

    /// Returns true if the event loop has to keep its time further.
    pub(crate) fn still_waits(&mut self) -> bool {
        self.is_watched = self.next_timeout().is_some();
        self.is_watched
    }

    /// Queues retransmissions and Acks. Returns the number of packets that were given up.
    pub(crate) fn on_timeout(&mut self, now: Time) -> u64 {
        let Frames {
            mtu,
            reliability: Some(reliability),
            bytes,
            lengths,
            ..
        } = self
        else {
            return 0;
        };
        reliability.on_timeout(now, *mtu, |frame| {
            // The socket accepts nothing: frames that do not fit are lost, as on the link, and Acks
            // do not pile up.
            if bytes.len() < limits::SEND_QUEUE_BYTES {
                bytes.extend_from_slice(frame);
                lengths.push(frame.len());
            }
        })
    }

    /// Sends the queue one frame per call, as far as the link accepts it. Returns the number of
    /// frames that were lost.
    pub(crate) fn flush_each(
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

    /// Removes so many frames, with so many bytes together, which have left.
    pub(crate) fn sent(&mut self, frames: usize, bytes: usize, spare: &mut SpareBuffers) {
        self.bytes.drain(..bytes);
        self.lengths.drain(..frames);
        if self.bytes.is_empty() {
            spare.take_back(&mut self.bytes);
        }
    }
}

/// Returns a random first sequence number, as NDNLPv2 demands.
fn first_sequence() -> u64 {
    let [word] = larder_client::entropy::words();
    word
}
