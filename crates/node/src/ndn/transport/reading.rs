//! What a read of a stream or a WebSocket finds, and the incomplete packet that it leaves.

use larder_packet::SharedMemory;
use larder_units::Time;

/// The result of one read.
pub(crate) enum Reading {
    /// Frames stand in the buffer. `more` is true if there may be more to read.
    Frames { more: bool },
    /// There was nothing to read.
    Drained,
    /// The peer is gone.
    Closed(Option<String>),
    /// The peer sends something else than NDN packets.
    NotNdn(String),
    /// A web page with this Origin may not connect.
    Foreign(String),
}

/// A frame in the bytes of a stream, or something else.
pub(crate) enum Framed {
    Packet(std::ops::Range<usize>),
    Oversized(u64),
    /// A text message of a WebSocket: no packet.
    Text,
    /// A step of the agreement on shared memory.
    SharedMemory(SharedMemory),
}

/// The bytes of an incomplete packet.
#[derive(Default)]
pub(crate) struct Partial {
    /// Only bytes that have arrived: an announced length takes no memory.
    pub(crate) bytes: Vec<u8>,
    /// The time at which the packet's first bytes were read.
    since: Time,
}

impl Partial {
    /// Copies the kept bytes to the front of the buffer. Returns their length.
    pub(crate) fn restore(&self, buffer: &mut [u8]) -> usize {
        let kept = self.bytes.len();
        buffer[..kept].copy_from_slice(&self.bytes);
        kept
    }

    /// Keeps these bytes in place of the former ones. They belong to a new packet if `progress`
    /// says that one was completed.
    pub(crate) fn keep(&mut self, now: Time, bytes: [&[u8]; 2], progress: bool) {
        if progress || self.bytes.is_empty() {
            self.since = now;
        }
        // A buffer of exactly this size; an empty one frees it.
        self.bytes = bytes.concat();
    }

    /// Returns the bytes of memory.
    pub(crate) fn held(&self) -> usize {
        self.bytes.capacity()
    }

    /// Returns the time at which the packet began, if there is one.
    pub(crate) fn since(&self) -> Option<Time> {
        (!self.bytes.is_empty()).then_some(self.since)
    }
}
