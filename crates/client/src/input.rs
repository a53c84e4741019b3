//! Bytes that were read, and the frames in them.

use super::limits;
use super::socket::Socket;
use larder_packet::tlv;
use std::io;

/// Bytes that were read and not delivered: a part of a stream, or one datagram.
#[derive(Default)]
pub(super) struct Input {
    pub(super) buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes of each datagram that was read except the last, which may be shorter; `None` for a
    /// stream.
    pub(super) datagram: Option<usize>,
}

impl Input {
    /// Returns the empty input of a socket.
    pub(super) fn of(socket: &Socket) -> Self {
        Input {
            datagram: socket.mtu(),
            ..Input::default()
        }
    }

    /// Reads as much as there is room for. Returns false if there is nothing.
    pub(super) fn fill(&mut self, socket: &mut Socket) -> io::Result<bool> {
        self.buffer.resize(limits::READ_BYTES, 0);
        // The rest is less than a packet: moving it costs little compared with the read.
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        match socket.read(&mut self.buffer[self.end..])? {
            Some(read) => {
                self.end += read.bytes;
                self.datagram = self.datagram.map(|_| read.datagram);
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// Returns the position of the next whole frame.
    pub(super) fn next_frame(&mut self) -> Result<Option<std::ops::Range<usize>>, tlv::FrameError> {
        let bytes = &self.buffer[self.start..self.end];
        let length = match self.datagram {
            Some(datagram) => Some(bytes.len().min(datagram)).filter(|length| *length > 0),
            None => tlv::frame(bytes, limits::FRAME_BYTES)?,
        };
        let Some(length) = length else {
            return Ok(None);
        };
        let range = self.start..self.start + length;
        self.start = range.end;
        Ok(Some(range))
    }
}
